"""The one rule for "below the noise level", for text, JSON, CSV, the report and plots.

- A figure whose 0 means "nothing" (a correlation, covariance, eigenvalue or coefficient) is below
  the noise level if its 95% interval for the privacy noise alone contains 0.
- A mean, whose 0 means nothing special, is below it if the standard deviation of the noise in it is
  above a tenth of the width of its bounds.
- The number of rows is below it if that deviation is above a tenth of the number.

A figure that is not defined, or whose error is not, is below it. The level of 95% is always this
one, whatever the level of the intervals shown beside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.releases.lengths import REACH

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans

# Largest standard deviation of the noise in a mean, as a fraction of the width of the bounds, and
# in the number of rows, as a fraction of this number. Source: not recorded.
MAX_NOISE_FRACTION = 0.1
# Confidence level of the rule, whatever the level of other intervals. Source: convention.
CONFIDENCE_LEVEL = 0.95
FLAG_TEXT = "below the noise level"
RULE_TEXT = "the 95% interval for noise alone contains 0"


def below_noise(values: Array, deviations: Array) -> Booleans:
    """Return True where the 95% interval for the privacy noise contains 0.

    Parameters
    ----------
    values, deviations : figures, and standard deviations of the privacy noise in them.

    """
    return ~(np.abs(values) > REACH * deviations)


def contains_zero(low: Array, high: Array) -> Booleans:
    """Return True where an interval contains 0; `low` and `high` are of the privacy noise."""
    return ~((low > 0) | (high < 0))


def too_uncertain(deviations: Array | float, widths: Array | float) -> Booleans:
    """Return True where a deviation is above a tenth of the width of the bounds, or of a count."""
    return ~(np.asarray(deviations) <= MAX_NOISE_FRACTION * np.asarray(widths))


def flags(below: Booleans) -> list[str]:
    """Return what stands beside each figure in a table."""
    return [FLAG_TEXT if one else "" for one in np.ravel(below).tolist()]


def sentence(below: Booleans, what: str) -> tuple[str, ...]:
    """Return a sentence on how many figures are below the noise level; none if no one is."""
    count = int(np.count_nonzero(below))
    if count == 0:
        return ()
    verb = "is" if count == 1 else "are"
    return (f"{count} of {np.size(below)} {what} {verb} {FLAG_TEXT}: {RULE_TEXT}.",)
