"""Texts that Table 1 and contingency tables share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcov.analysis.estimable import NOT_ESTIMABLE
from dpcov.analysis.intervals import shown_unasked
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.core.printable import listed
from dpcov.estimate import Estimate
from dpcov.rows.schema import Numeric

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpcov.core.arrays import Booleans
    from dpcov.releases import Release

FLAG_SIGN = "*"
FLAG_NOTE = (
    "* below the noise level: the standard deviation of the noise is above a tenth of the count, "
    "or of the width of the bounds."
)


def covers_of(release: Release, *, sampling: bool) -> str | None:
    """Return which errors the intervals cover, or None if the tables have no intervals."""
    if not shown_unasked(release):
        return None
    return "privacy noise and sampling" if sampling else "privacy noise"


def covering(covers: str | None, level: float) -> tuple[str, ...]:
    """Return the sentence about the coverage of the intervals, if there are intervals."""
    return () if covers is None else (f"Intervals cover {covers}, {level:.0%} each.",)


def flag_note(*flags: Booleans | None) -> tuple[str, ...]:
    """Return the note that explains ``*``, if any figure is below the noise level."""
    flagged = any(one is not None and bool(one.any()) for one in flags)
    return (FLAG_NOTE,) if flagged else ()


def with_ends(value: str, low: str, high: str, covers: str | None) -> str:
    """Return a figure with its interval, if there are intervals."""
    if covers is None or value == "-":
        return value
    return f"{value} [{NOT_ESTIMABLE}]" if low == "-" else f"{value} [{low}, {high}]"


def cautions(release: Release, columns: Iterable[str]) -> tuple[str, ...]:
    """Return the warnings about a release, and a note if missing cells count as midpoints."""
    schema = release.schema.encoded_columns
    names = [
        name
        for name in columns
        if isinstance(column := schema[name], Numeric) and column.missing == "midpoint"
    ]
    named = listed(names)
    note = (f"Missing cells count as the midpoint of the bounds: {named}.",) if names else ()
    return (*noise_warnings(release), *Estimate.of(release).assumptions, *note)
