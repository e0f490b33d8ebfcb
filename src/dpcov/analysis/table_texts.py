"""Texts that Table 1 and contingency tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcov.analysis.intervals import shown_unasked
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.estimate import Estimate
from dpcov.rows.schema import Numeric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpcov.releases import Release

FLAG_SIGN = "*"
FLAG_NOTE = (
    "* below the noise level: the standard deviation of the noise is above a tenth of the count, "
    "or of the width of the bounds."
)
MAX_NAMED_COLUMNS = 5  # Largest number of columns that a note names.


def covers_of(release: Release, *, sampling: bool) -> str | None:
    """Return what the intervals of a release cover, or None if it has none by default."""
    if not shown_unasked(release):
        return None
    return "privacy noise and sampling" if sampling else "privacy noise"


def covering(covers: str | None, level: float) -> tuple[str, ...]:
    """Return the sentence about the coverage of the intervals, if there are intervals."""
    return () if covers is None else (f"Intervals cover {covers}, {level:.0%} each.",)


def with_ends(value: str, low: str, high: str, covers: str | None) -> str:
    """Return a figure with its interval, if there are intervals."""
    return value if covers is None or value == "-" else f"{value} [{low}, {high}]"


def cautions(release: Release, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings about a release, and how missing cells of some columns count."""
    schema = release.schema.encoded_columns
    names = [
        name
        for name in columns
        if isinstance(column := schema[name], Numeric) and column.missing == "midpoint"
    ]
    more = f" and {len(names) - MAX_NAMED_COLUMNS} more" * (len(names) > MAX_NAMED_COLUMNS)
    listed = f"{', '.join(names[:MAX_NAMED_COLUMNS])}{more}"
    note = (f"Missing cells count as the midpoint of the bounds: {listed}.",) if names else ()
    return (*noise_warnings(release), *Estimate.of(release).assumptions, *note)
