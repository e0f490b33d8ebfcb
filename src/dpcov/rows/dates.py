"""Dates and times: which texts dpcov reads as dates, and how dpcov encodes dates.

dpcov encodes a date or time as the number of microseconds since 1970-01-01. If the text states an
offset from UTC, dpcov converts the time to UTC. Otherwise dpcov uses the time as written. Only
years 1 to 9999 are valid.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

# Regular expression for ISO 8601, as Python, pandas, NumPy, PostgreSQL, SQLite and DuckDB write it.
# Both Python's `re` and Arrow's RE2 accept this pattern.
PATTERN = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<east>[0-9]{2})(?::?(?P<after>[0-9]{2}))?)?)?$"
)
SECOND = 10**6  # microseconds per second
DAY = 86_400 * SECOND  # microseconds per day
# First and last valid moment, in microseconds since 1970-01-01: years 1 to 9999.
FIRST_MOMENT, LAST_MOMENT = -719_162 * DAY, 2_932_897 * DAY - 1
MAX_OFFSET_HOURS = 24  # an offset from UTC must be smaller, as in Python's `datetime.timezone`

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  # moment 0, as in Arrow and NumPy
_PATTERN = re.compile(PATTERN.removesuffix("$") + r"\Z")


def moment_of(stated: object) -> int | None:
    """Return the microseconds since 1970-01-01 of a date or time.

    Parameters
    ----------
    stated : object
        Date, datetime, or text in ISO 8601.

    Returns
    -------
    int or None
        Microseconds; None for any other object.

    """
    text = str(stated) if isinstance(stated, date) else stated
    found = _PATTERN.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    year, month, day, hour, minute, second, east, after = (
        int(found[part] or 0)
        for part in ("year", "month", "day", "hour", "minute", "second", "east", "after")
    )
    fraction = int((found["fraction"] or "").ljust(6, "0")[:6])
    try:
        off = timedelta(hours=east, minutes=after) * (-1 if found["sign"] == "-" else 1)
        zone = timezone(off) if after < 60 else None
        moment = datetime(year, month, day, hour, minute, second, fraction, zone or UTC)
    except ValueError:
        return None
    found_moment = (moment - _EPOCH) // timedelta(microseconds=1)
    return (
        found_moment if zone is not None and FIRST_MOMENT <= found_moment <= LAST_MOMENT else None
    )


def shown_date(days: float) -> str:
    """Return the nearest date of a number of days since 1970-01-01, as text in ISO 8601."""
    return shown_time(round(days) * (DAY // SECOND))[:10]


def shown_time(seconds: float) -> str:
    """Return the date and time of a number of seconds since 1970-01-01, as text in ISO 8601.

    The text has microsecond precision. Times beyond the years 1 to 9999 become the nearest valid
    time.
    """
    moment = min(max(round(seconds * SECOND), FIRST_MOMENT), LAST_MOMENT)
    return (_EPOCH + timedelta(microseconds=moment)).replace(tzinfo=None).isoformat()
