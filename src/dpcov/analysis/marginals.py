"""Distributions of one column with a given mean and variance, as functions of a normal variable.

Each distribution is an increasing function of a standard normal variable. A Gaussian copula can
therefore join the columns (`dpcov.analysis.copula`). All values are positions between the bounds of
the column: 0 is the lower bound, and 1 is the upper bound.

- A number has a beta distribution. If the variance is nearly as large as the bounds allow, the
  distribution is a mixture of a beta distribution and point masses at both bounds.
- A whole number is a beta variable, rounded up or down at random. Its mean is then exact. The
  variance of the beta variable is chosen such that the variance is exact too. Only the
  probabilities of this distribution are used.
- A flag is a whole number between 0 and 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector

NODES = np.linspace(-8.5, 8.5, 2049)  # Positions of the quantiles of a number, as normal variables.
# Parameter a + b of the beta distribution in a mixture with point masses. A smaller parameter has
# nearly all its mass at the bounds, where quantiles are not accurate.
MIXED_WEIGHT = 0.05
MIN_RELATIVE_VARIANCE = (
    1e-18  # Smallest variance, as a fraction of the squared width of the bounds.
)
MAX_VALUES = 1000  # Largest number of values of a whole number whose probabilities are computed.
# Distance of the largest whole number from the mean, in standard deviations.
TAIL_DEVIATIONS = 40.0
VARIANCE_HALVINGS = 50  # Number of halvings of the logarithm of a variance.


@dataclass(frozen=True, slots=True)
class Marginal:
    """Increasing function of a standard normal variable.

    Attributes
    ----------
    nodes : ndarray, shape (k,)
        Values of the normal variable, in ascending order. For a step function, the k - 1 positions
        of the steps.

    values : ndarray, shape (k,)
        Values of the function, between 0 and 1.

    steps : bool
        True for a step function. Otherwise, the function is linear between the nodes.

    """

    nodes: Vector
    values: Vector
    steps: bool

    def of(self, normal: Vector) -> Vector:
        """Return the values for normal variables of any shape."""
        if self.steps:
            return self.values[np.searchsorted(self.nodes, normal)]
        return np.interp(normal, self.nodes, self.values)


def marginal(mean: float, variance: float, whole: tuple[int, int] | None = None) -> Marginal:
    """Return a distribution with this mean and variance.

    Parameters
    ----------
    mean : float
        Mean, as a position between the bounds.

    variance : float
        Variance, in squared widths of the bounds. A variance that the bounds do not allow becomes
        the nearest variance that they allow.

    whole : (int, int), optional
        Bounds of a whole number.

    Returns
    -------
    Marginal
        Increasing function. With more than `MAX_VALUES` whole numbers, the values are not whole.

    """
    mean = min(max(mean, 0.0), 1.0)
    if mean * (1 - mean) <= MIN_RELATIVE_VARIANCE or (
        variance <= MIN_RELATIVE_VARIANCE and whole is None
    ):
        return Marginal(np.zeros(0), np.array([mean]), steps=True)
    if whole is not None:
        low, high = whole
        low, high = _window(low, high, mean, math.sqrt(max(variance, 0.0)))
        if high - low <= MAX_VALUES:
            return _whole(mean, variance, whole, (low, high))
    return _number(mean, variance)


def _window(low: int, high: int, mean: float, deviation: float) -> tuple[int, int]:
    """Return bounds of a whole number that leave out values far beyond the mean."""
    width = high - low
    about, own = low + mean * width, deviation * width
    reach = TAIL_DEVIATIONS * own + 2
    # Values must reach far enough that the bounds allow four times the variance.
    above = max(reach, 4 * own**2 / max(about - low, 1e-9))
    below = max(reach, 4 * own**2 / max(high - about, 1e-9))
    return max(low, math.floor(about - below)), min(high, math.ceil(about + above))


def _number(mean: float, variance: float) -> Marginal:
    """Return a beta distribution, with point masses at the bounds if the variance needs them."""
    most = mean * (1 - mean)
    weight = most / max(variance, MIN_RELATIVE_VARIANCE) - 1
    share = 1.0
    if weight < MIXED_WEIGHT:
        share = min(1.0, max(0.0, (1 - variance / most) * (1 + MIXED_WEIGHT) / MIXED_WEIGHT))
        weight = MIXED_WEIGHT
    zero, one = (1 - share) * (1 - mean), (1 - share) * mean
    a, b = mean * weight, (1 - mean) * weight
    nodes = NODES
    if share == 0:
        return Marginal(np.array([ndtri(zero)]), np.array([0.0, 1.0]), steps=True)
    if share < 1:  # the ends of the beta distribution are nodes, since the function jumps there
        ends = np.array([ndtri(zero), -ndtri(one)])
        nodes = np.sort(np.concatenate([nodes, ends - 1e-9, ends + 1e-9]))
    below = np.clip((ndtr(nodes) - zero) / share, 0.0, 1.0)
    above = np.clip((ndtr(-nodes) - one) / share, 0.0, 1.0)
    lower_half = below < 0.5
    values = np.where(
        lower_half,
        betaincinv(a, b, np.where(lower_half, below, 0.5)),
        1 - betaincinv(b, a, np.where(lower_half, 0.5, above)),
    )
    known = np.isfinite(values)  # betaincinv can fail at probabilities below 1e-16
    return Marginal(nodes[known], values[known], steps=False)


def _whole(
    mean: float, variance: float, bounds: tuple[int, int], window: tuple[int, int]
) -> Marginal:
    """Return the distribution of a whole number within a window of its bounds."""
    low, high = bounds
    values = np.arange(window[0], window[1] + 1, dtype=float)
    count, width = len(values) - 1, high - low
    if count == 0:
        return Marginal(np.zeros(0), np.array([(values[0] - low) / width]), steps=True)
    share = min(max((low + mean * width - window[0]) / count, 0.0), 1.0)
    wanted = variance * (width / count) ** 2
    most = share * (1 - share)
    least, largest = MIN_RELATIVE_VARIANCE, max(min(wanted, most), MIN_RELATIVE_VARIANCE)
    for _ in range(VARIANCE_HALVINGS):
        middle = math.sqrt(least * largest)
        found = _probabilities(share, middle, count)
        places = np.arange(count + 1) / count
        if found @ places**2 - (found @ places) ** 2 < wanted:
            least = middle
        else:
            largest = middle
    found = _probabilities(share, largest, count)
    from_below, from_above = np.cumsum(found)[:-1], np.cumsum(found[::-1])[::-1][1:]
    steps = np.where(from_below < 0.5, ndtri(np.minimum(from_below, 0.5)), -ndtri(from_above))
    return Marginal(np.maximum.accumulate(steps), (values - low) / width, steps=True)


def _probabilities(mean: float, variance: float, count: int) -> Vector:
    """Return the probabilities of a beta variable that is rounded up or down at random.

    The expected value of (k - y)+ determines them: its second differences are the probabilities.

    Parameters
    ----------
    mean, variance : float
        Moments of the beta variable, in units of `count`.

    count : int
        Largest value. The smallest value is 0.

    Returns
    -------
    ndarray, shape (count + 1,)
        Probabilities of 0 to `count`.

    """
    weight = max(mean * (1 - mean) / variance - 1, 1e-12)
    a, b = mean * weight, (1 - mean) * weight
    places = np.arange(count + 1) / count
    shortfall = places * betainc(a, b, places) - mean * betainc(a + 1, b, places)
    shortfall = np.concatenate([[0.0], shortfall * count, [count * (1 - mean) + 1]])
    found = np.maximum(np.diff(shortfall, 2), 0.0)
    return np.asarray(found / found.sum())
