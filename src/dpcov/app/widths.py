"""Expected half widths of intervals, from public numbers, for a page that shows them live."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from statistics import NormalDist
from typing import TYPE_CHECKING

import dpcov

if TYPE_CHECKING:
    from dpcov import Schema
    from dpcov.app.number_formats import NumberFormat

LEVEL = 0.95  # nominal coverage, as of the other intervals
QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)
# Mechanism whose errors are predicted first, because `auto` chooses it for most tables.
USUAL_MECHANISM = "standardized"
DIGITS = 2  # significant digits of a half width


@dataclass(frozen=True, slots=True)
class Widths:
    """Expected half widths of a 95% interval of a correlation.

    Attributes
    ----------
    expected : float
        Half width with the noise of the release.

    least, most : float
        Range of the half width over tables that fit the schema.

    without : float
        Half width without the noise, from sampling only.

    """

    expected: float
    least: float
    most: float
    without: float

    def sentences(self, numbers: NumberFormat) -> list[str]:
        """Return the half widths as sentences in a number format."""
        expected, least, most, without = (
            numbers.shown(width, DIGITS)
            for width in (self.expected, self.least, self.most, self.without)
        )
        return [
            f"Expected half width of a 95% interval of a correlation: {expected}.",
            f"Likely range: {least} to {most}, because dpcov has not read the table.",
            f"Without privacy noise, the half width would be {without}.",
        ]


def widths(schema: Schema, rows: int, epsilon: float, delta: float | None = None) -> Widths | None:
    """Predict the half widths of a release, without reading data.

    Parameters
    ----------
    schema : Schema
        Schema of the table.

    rows : int
        Number of rows that the user expects.

    epsilon : float
        Epsilon of the release.

    delta : float, optional
        Delta of the release.

    Returns
    -------
    Widths or None
        None if a release of this schema has no correlations.

    """
    return _widths(schema.model_dump_json(), rows, epsilon, delta)


@lru_cache(maxsize=64)  # a half width that the user has seen returns at once
def _widths(schema: str, rows: int, epsilon: float, delta: float | None) -> Widths | None:
    declared = dpcov.Schema.model_validate_json(schema)

    planned = partial(dpcov.plan, declared, rows, epsilon=epsilon, delta=delta, factors=())
    found = planned(mechanism=USUAL_MECHANISM)
    if found.recommended != USUAL_MECHANISM:
        found = planned(mechanism=found.recommended)
    error = found.predictions[0].errors.correlation
    if error is None:
        return None
    ends = found.between.get("correlation", (error, error))
    least, most = (half_width(end, found.sampling) for end in ends)
    return Widths(half_width(error, found.sampling), least, most, half_width(0.0, found.sampling))


def half_width(error: float, sampling: float) -> float:
    """Return the half width for the errors of privacy and of sampling, at most 1."""
    return min(1.0, QUANTILE * math.hypot(error, sampling))
