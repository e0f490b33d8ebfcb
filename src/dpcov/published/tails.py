"""Upper quantiles of a weighted sum of integer noise, for any weights.

Let X_1, X_2, ... be independent draws of the noise, let w_1, w_2, ... be weights of at least 0, and
let alpha be 1 minus the confidence level. Each of two methods gives an upper bound on the quantile
of the sum of w_i X_i. Both bounds are proved, so dpcov uses the smaller one.

**Chernoff bound.** Let K(s) be the sum of the logarithms of the moment generating functions at
s w_i. Then P(sum w X > x) <= exp(K(s) - s x) for every s > 0. The moment generating functions are:

- Discrete Laplace noise with q = exp(-1 / scale): (1 - q)^2 / ((1 - q e^s) (1 - q e^-s)).
- Discrete Gaussian noise: at most exp(s^2 variance / 2). See lemma 20 of Canonne, Kamath and
  Steinke (2020), The discrete Gaussian for differential privacy.

**Comparison with continuous noise.** X is stochastically smaller than Y + c, where Y is continuous
noise and c is a constant. Hence sum w X is stochastically smaller than sum w Y + c sum w. The
constants are:

- Gaussian noise: c = 1. See proposition 25 of the same paper.
- Laplace noise: P(X >= k) = q^k / (1 + q) for k >= 1. This probability must not exceed
  P(Y >= k - c) on both sides of 0. With g = scale log(2 / (1 + q)), the constant is
  c = max(g, 1 - g).

The sum of w_i Y_i is normal for Gaussian noise. For Laplace noise with different scales
s_i = w_i scale, partial fractions of the characteristic function give the tail for x >= 0:

    P(sum w Y > x) = sum_i p_i exp(-x / s_i) / 2,   p_i = product over j of 1 / (1 - (s_j / s_i)^2).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import scipy  # its modules are imported at their first use, because importing them takes long

from dpcov.core.samplers.scalars import ScalarLaplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Vector
    from dpcov.core.samplers import ScalarLaw

# Smallest weight, as a fraction of the largest weight. Smaller weights are raised to this value,
# which can only raise the bound. Source: not recorded.
MIN_RELATIVE_WEIGHT = 1e-100
# Relative rounding error of the partial fractions. If this error is too large for alpha, only the
# Chernoff bound is used. Source: not recorded.
PARTIAL_FRACTION_ERROR = 1e-12
# Number of steps of the golden-section search for the best s. They shorten the interval of s by a
# factor of 2e8. The error of the least value is then of the order of 1e-17, because the bound is
# flat near its minimum.
GOLDEN_SECTION_STEPS = 40


def quantile_of_sum(law: ScalarLaw, weights: Vector, level: float) -> float:
    """Return an upper bound on a quantile of a weighted sum of noise.

    Parameters
    ----------
    law : ScalarLaw
        Distribution of each draw.

    weights : ndarray, shape (m,)
        Weights of the m draws, at least 0.

    level : float
        Probability of the quantile, above 0 and below 1.

    Returns
    -------
    float
        Number that the sum exceeds with a probability of at most 1 - level.

    """
    used = weights[weights > 0]
    if not used.size:
        return 0.0
    unit, alpha = float(used.max()), 1 - level
    relative = np.maximum(used / unit, MIN_RELATIVE_WEIGHT)
    bounds = _of_laplace if isinstance(law, ScalarLaplace) else _of_gaussian
    return unit * bounds(law, relative, alpha)


def _of_gaussian(law: ScalarLaw, weights: Vector, alpha: float) -> float:
    """Return the smaller of the two bounds for Gaussian noise."""
    deviation = law.standard_deviation * float(np.linalg.norm(weights))
    compared = -float(scipy.special.ndtri(alpha)) * deviation + float(weights.sum())
    return min(deviation * math.sqrt(-2 * math.log(alpha)), max(compared, 0.0))


def _of_laplace(law: ScalarLaw, weights: Vector, alpha: float) -> float:
    """Return the smaller of the two bounds for Laplace noise."""
    scale = law.standard_deviation / math.sqrt(2)
    return min(_chernoff(scale, weights, alpha), _compared(scale, weights, alpha))


def _chernoff(scale: float, weights: Vector, alpha: float) -> float:
    """Return the Chernoff bound at the best s. The bound is valid at every s.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise.

    weights : ndarray, shape (m,)
        Weights above 0, at most 1.

    alpha : float
        Probability that the sum exceeds the bound.

    Returns
    -------
    float
        Bound in the units of the noise.

    """
    at_zero = 2 * len(weights) * math.log(-math.expm1(-1 / scale))

    def bound(s: float) -> float:
        sides = [np.log(-np.expm1(side * s * weights - 1 / scale)).sum() for side in (1, -1)]
        return float(at_zero - sum(sides) - math.log(alpha)) / s

    return _least_between(bound, 1e-6 / scale, (1 - 1e-9) / scale)


def _least_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the least value that a golden-section search finds between two arguments.

    The search uses no `scipy.optimize`, whose import takes longer than all other work of a command.
    """
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(GOLDEN_SECTION_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return min(at_left, at_right)


def _compared(scale: float, weights: Vector, alpha: float) -> float:
    """Return the bound from continuous Laplace noise.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise.

    weights : ndarray, shape (m,)
        Weights above 0, at most 1.

    alpha : float
        Probability that the sum exceeds the bound.

    Returns
    -------
    float
        Bound in the units of the noise. The bound is infinite if the partial fractions are not
        accurate enough.

    """
    scales = scale * weights
    with np.errstate(all="ignore"):
        factors = 1 / (1 - (scales / scales[:, None]) ** 2)
        np.fill_diagonal(factors, 1.0)
        parts = factors.prod(axis=1)
    if not np.abs(parts).sum() * PARTIAL_FRACTION_ERROR < alpha:
        return math.inf

    def above(x: float) -> float:
        return float(parts @ np.exp(-x / scales)) / 2 - alpha

    gap = scale * math.log(2 / (1 + math.exp(-1 / scale)))
    shift = max(gap, 1 - gap) * float(weights.sum())
    if above(0.0) <= 0:
        return shift
    low, high = 0.0, scale
    while above(high) > 0:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if above(middle) > 0 else (low, middle)
    return shift + high
