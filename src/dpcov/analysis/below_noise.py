"""Rule for "below the noise level", which all outputs share.

- A correlation, covariance, eigenvalue or coefficient of 0 means "no effect". Such a figure is
  below the noise level if its 95% interval for the privacy noise alone contains 0.
- A mean is below the noise level if the standard deviation of its noise is above a tenth of the
  width of the bounds.
- The number of rows is below the noise level if the standard deviation of its noise is above a
  tenth of the number.

A figure also counts as below the noise level if the figure or its error is undefined. The rule
always uses 95%, even if other intervals have a different level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpcov.published.norm_histogram import Z_95

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans

# Largest standard deviation of the noise in a mean, as a fraction of the width of the bounds, and
# in the number of rows, as a fraction of this number. Source: not recorded.
MAX_NOISE_FRACTION = 0.1
# Confidence level of the rule, whatever the level of other intervals. Source: convention.
CONFIDENCE_LEVEL = 0.95
FLAG_TEXT = "below the noise level"
RULE_TEXT = "the 95% interval for noise alone contains 0"
NO_SIGNAL_MESSAGE = (
    "No correlation rises above the noise: too few rows for this budget. "
    "A larger epsilon, more rows or fewer columns would help."
)
UNKNOWN_ERROR_MESSAGE = (
    "The expected error is unknown, because this mechanism samples directions and does not add "
    "noise with a known distribution."
)


def below_noise(values: Array, deviations: Array) -> Booleans:
    """Return True where the 95% interval for the privacy noise contains 0.

    Parameters
    ----------
    values : ndarray
        Figures of any shape.

    deviations : ndarray
        Standard deviations of the privacy noise, in the same shape.

    Returns
    -------
    ndarray of bool
        Flags in the same shape.

    """
    return ~(np.abs(values) > Z_95 * deviations)


def contains_zero(low: Array, high: Array) -> Booleans:
    """Return True where the interval from `low` to `high` for the privacy noise contains 0."""
    return ~((low > 0) | (high < 0))


def too_uncertain(deviations: Array | float, widths: Array | float) -> Booleans:
    """Return True where a standard deviation is above a tenth of the width of the bounds.

    For a count, `widths` is the count itself.
    """
    return ~(np.asarray(deviations) <= MAX_NOISE_FRACTION * np.asarray(widths))


def flags(below: Booleans) -> list[str]:
    """Return the text beside each figure in a table, which is empty above the noise level."""
    return [FLAG_TEXT if one else "" for one in np.ravel(below).tolist()]


def sentence_of_names(below: Booleans, names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence that names the figures below the noise level.

    If there are no such figures, the tuple is empty.
    """
    found = [name for name, flagged in zip(names, below.tolist(), strict=True) if flagged]
    return (f"Below the noise level, because {RULE_TEXT}: {', '.join(found)}.",) if found else ()


def sentence(below: Booleans, what: str) -> tuple[str, ...]:
    """Return a sentence with the number of figures below the noise level.

    If there are no such figures, the tuple is empty.
    """
    count = int(np.count_nonzero(below))
    if count == 0:
        return ()
    verb = "is" if count == 1 else "are"
    return (f"{count} of {np.size(below)} {what} {verb} {FLAG_TEXT}: {RULE_TEXT}.",)
