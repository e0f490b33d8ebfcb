"""Dates and times: the one grammar of their texts, and the numbers that they are encoded as.

A moment is a whole number of microseconds since 1970-01-01, in UTC where an offset is told and as
it is written where none is. Years 1 to 9999 are moments, whoever writes them; nothing else is.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone

# ISO 8601, as Python, pandas, NumPy, PostgreSQL, SQLite and DuckDB spell it, in both engines.
PATTERN = (
    r"^(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})"
    r"(?:[.,](?P<fraction>[0-9]{1,9}))?)?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<east>[0-9]{2})(?::?(?P<after>[0-9]{2}))?)?)?$"
)
SECOND = 10**6  # microseconds
DAY = 86_400 * SECOND
FIRST, LAST = -719_162 * DAY, 2_932_897 * DAY - 1  # the years 1 to 9999
MOST_EAST = 24  # hours that a place may be off UTC, less than

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PATTERN = re.compile(PATTERN.removesuffix("$") + r"\Z")


def moment_of(stated: object) -> int | None:
    """Microseconds of a date or datetime, or of the text of one; None for anything else."""
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
    return found_moment if zone is not None and FIRST <= found_moment <= LAST else None


def shown_date(days: float) -> str:
    """A number of days as the nearest date."""
    return shown_time(round(days) * (DAY // SECOND))[:10]


def shown_time(seconds: float) -> str:
    """A number of seconds as a date and time, to the microsecond."""
    moment = min(max(round(seconds * SECOND), FIRST), LAST)
    return (_EPOCH + timedelta(microseconds=moment)).replace(tzinfo=None).isoformat()
