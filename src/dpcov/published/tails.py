"""How large a weighted sum of integer noise can be: quantiles that hold, whatever the weights.

Both bounds below are proved, so their minimum is one too. X_1, X_2, ... are independent draws of
the noise, w_1, w_2, ... weights of at least 0, and alpha is 1 minus the level.

Chernoff: P(sum w X > x) <= exp(K(s) - s x) for every s > 0, with K the sum of the logarithms of the
moment generating functions. That of the discrete Laplace distribution with q = exp(-1 / scale) is
(1 - q)^2 / ((1 - q e^s) (1 - q e^-s)); that of the discrete Gaussian is at most exp(s^2 variance /
2) (Canonne, Kamath and Steinke 2020, The discrete Gaussian for differential privacy, lemma 20).

Comparison: X is stochastically smaller than Y + c with Y continuous. For the Gaussian c = 1
(proposition 25 there). For Laplace P(X >= k) = q^k / (1 + q) for k >= 1, and comparing it with
P(Y >= k - c) on both sides of 0 gives c = max(g, 1 - g), g = scale log(2 / (1 + q)). So sum w X is
smaller than sum w Y + c sum w. The sum of w Y is normal; or, for Laplace with unequal scales s_i =
w_i scale, P(sum w Y > x) = sum_i p_i exp(-x / s_i) / 2 for x >= 0, with p_i the product over j of
1 / (1 - (s_j / s_i)^2): partial fractions of the characteristic function.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtri

from dpcov.core.samplers.scalars import ScalarLaplace

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.core.samplers import ScalarLaw

SMALLEST = 1e-100  # weight, over the largest: a larger weight makes the bound larger
ROUNDING = 1e-12  # of the partial fractions: where it counts, the other bound is taken


def quantile_of_sum(law: ScalarLaw, weights: Vector, level: float) -> float:
    """Return a number that sum w X exceeds with probability at most 1 - level.

    Parameters
    ----------
    law : of each X.
    weights : (m,) the w, at least 0.
    level : above 0 and below 1.

    """
    used = weights[weights > 0]
    if not used.size:
        return 0.0
    unit, alpha = float(used.max()), 1 - level
    shares = np.maximum(used / unit, SMALLEST)
    bounds = _of_laplace if isinstance(law, ScalarLaplace) else _of_gaussian
    return unit * bounds(law, shares, alpha)


def _of_gaussian(law: ScalarLaw, shares: Vector, alpha: float) -> float:
    deviation = law.standard_deviation * float(np.linalg.norm(shares))
    compared = -float(ndtri(alpha)) * deviation + float(shares.sum())
    return min(deviation * math.sqrt(-2 * math.log(alpha)), max(compared, 0.0))


def _of_laplace(law: ScalarLaw, shares: Vector, alpha: float) -> float:
    scale = law.standard_deviation / math.sqrt(2)
    return min(_chernoff(scale, shares, alpha), _compared(scale, shares, alpha))


def _chernoff(scale: float, shares: Vector, alpha: float) -> float:
    """Return the bound at the best s; at any other it holds as well."""
    nothing = 2 * len(shares) * math.log(-math.expm1(-1 / scale))

    def bound(s: float) -> float:
        sides = [np.log(-np.expm1(side * s * shares - 1 / scale)).sum() for side in (1, -1)]
        return float(nothing - sum(sides) - math.log(alpha)) / s

    found = minimize_scalar(bound, bounds=(1e-6 / scale, (1 - 1e-9) / scale), method="bounded")
    return float(found.fun)


def _compared(scale: float, shares: Vector, alpha: float) -> float:
    """Return the bound by continuous Laplace noise; infinite where partial fractions are rough."""
    scales = scale * shares
    with np.errstate(all="ignore"):
        factors = 1 / (1 - (scales / scales[:, None]) ** 2)
        np.fill_diagonal(factors, 1.0)
        parts = factors.prod(axis=1)
    if not np.abs(parts).sum() * ROUNDING < alpha:
        return math.inf

    def above(x: float) -> float:
        return float(parts @ np.exp(-x / scales)) / 2 - alpha

    gap = scale * math.log(2 / (1 + math.exp(-1 / scale)))
    shift = max(gap, 1 - gap) * float(shares.sum())
    if above(0.0) <= 0:
        return shift
    farthest = scale
    while above(farthest) > 0:
        farthest *= 2
    return shift + float(brentq(above, 0.0, farthest))
