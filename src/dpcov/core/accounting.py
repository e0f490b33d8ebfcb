"""Conversions between privacy guarantees: Gaussian, pure, zCDP and Renyi.

Every returned cost is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dpcov.core.privacy import TERM_ERROR, exact, gaussian_delta, round_up

# Function from an order alpha > 1 to a Renyi divergence. The divergence can be infinite.
RenyiCurve = Callable[[float], float]

# Epsilon below which a series is computed from its first term. The error is then a rounding error.
MIN_SERIES_EPSILON = 1e-8
# Grid of Renyi orders minus 1, shape (241,). A search for the best order starts on this grid.
ORDER_EXCESSES = np.geomspace(1e-4, 1e8, 241)


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest epsilon such that mu-GDP implies (epsilon, delta)-DP.

    GDP stands for Gaussian differential privacy.

    Parameters
    ----------
    mu : float
        Parameter of the Gaussian guarantee, at least 0.
    delta : float
        Delta of the result, between 0 and 1.

    Returns
    -------
    float
        Epsilon, rounded up.

    """
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
    """Return the smallest rho such that epsilon-DP implies rho-zCDP.

    The value is ``epsilon * tanh(epsilon / 2)``. The proof is in docs/proofs/ledger.md, section 3.

    Parameters
    ----------
    epsilon : float
        Parameter of the pure guarantee, above 0.

    Returns
    -------
    float
        Rho, rounded up.

    """
    simple = exact(epsilon) ** 2 / 2  # tanh(x) <= x
    if epsilon < MIN_SERIES_EPSILON:
        return round_up(simple)
    return round_up(min(simple, Fraction(epsilon * math.tanh(epsilon / 2) * (1 + TERM_ERROR))))


def renyi_of_pure(epsilon: float) -> RenyiCurve:
    """Return the tight Renyi curve of epsilon-DP.

    Randomised response attains the curve at every order.

    Parameters
    ----------
    epsilon : float
        Parameter of the pure guarantee, above 0.

    Returns
    -------
    callable
        Function from an order above 1 to the Renyi divergence of this order.

    """
    weight = -float(np.logaddexp(0, epsilon))  # natural logarithm of 1 / (1 + e^epsilon)

    def curve(alpha: float) -> float:
        more, less = alpha * epsilon, (1 - alpha) * epsilon
        total = float(np.logaddexp(more + weight, less + weight))
        return (total + TERM_ERROR * sum(map(abs, (more, less, weight, weight)))) / (alpha - 1)

    return curve
