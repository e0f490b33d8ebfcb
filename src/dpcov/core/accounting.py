"""What one guarantee says in terms of another: of Gaussian noise, and of a pure epsilon.

Every figure that is returned as a cost is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcov.core.privacy import ROUNDING, exact, gaussian_delta, round_up

RenyiCurve = Callable[
    [float], float
]  # order alpha > 1 -> Renyi divergence, inf where there is none

SMALL = 1e-8  # below it, the first term of a series is within a rounding error
EXCESSES = np.geomspace(1e-4, 1e8, 241)  # orders minus 1 among which a conversion looks first


def gdp_epsilon(mu: float, delta: float) -> float:
    """Least epsilon such that mu-GDP implies (epsilon, delta)-DP."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, 1.0
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if gaussian_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def zcdp_of_pure(epsilon: float) -> float:
    """Rho that epsilon-DP implies: epsilon tanh(epsilon / 2), tight (docs/proofs/ledger.md, 3)."""
    simple = exact(epsilon) ** 2 / 2  # tanh(x) <= x
    if epsilon < SMALL:
        return round_up(simple)
    return round_up(min(simple, Fraction(epsilon * math.tanh(epsilon / 2) * (1 + ROUNDING))))


def renyi_of_pure(epsilon: float) -> RenyiCurve:
    """Curve that epsilon-DP implies, tight: that of randomised response."""
    weight = -float(np.logaddexp(0, epsilon))  # logarithm of 1 / (1 + e^epsilon)

    def curve(alpha: float) -> float:
        more, less = alpha * epsilon, (1 - alpha) * epsilon
        total = float(np.logaddexp(more + weight, less + weight))
        return (total + ROUNDING * sum(map(abs, (more, less, weight, weight)))) / (alpha - 1)

    return curve
