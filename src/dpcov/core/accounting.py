"""Conversions between privacy guarantees: Gaussian, pure, zCDP and Renyi.

Every returned cost is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpcov.core.privacy import (
    TERM_ERROR,
    exact,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    round_up,
)

# Function from an order alpha > 1 to a Renyi divergence. The divergence can be infinite.
RenyiCurve = Callable[[float], float]

# Epsilon below which a series is computed from its first term. The error is then a rounding error.
MIN_SERIES_EPSILON = 1e-8
# Grid of Renyi orders minus 1, shape (241,). A search for the best order starts on this grid.
ORDER_EXCESSES = np.geomspace(1e-4, 1e8, 241)
# Fraction of epsilon that pays for the difference between rounded and discrete Gaussian noise.
# Source: docs/proofs/release.md, section 6c. The function `gaussian_mu` reserves the part of delta.
ROUNDING_EPSILON_SHARE = 1e-12
# Largest epsilon that counts as 0. The search for a smaller epsilon ends at its rounding error.
MIN_EPSILON = 1e-12


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


@lru_cache(maxsize=256)
def drawn_mu_squared(epsilon: float, delta: float) -> Fraction:
    """Return the largest mu^2 of drawn Gaussian noise within (epsilon, delta)-DP, rounded down.

    The noise is discrete. The function therefore reserves a small part of epsilon and of delta for
    the rounding (docs/proofs/ledger.md, section 6).

    Parameters
    ----------
    epsilon, delta : float
        Budget of the noise.

    Returns
    -------
    Fraction
        Squared ratio of the sensitivity to the standard deviation before rounding.

    """
    return Fraction(gaussian_mu(epsilon * (1 - ROUNDING_EPSILON_SHARE), delta)) ** 2


def drawn_epsilon(mu: float, delta: float) -> float:
    """Return the epsilon at a given delta of drawn Gaussian noise, rounded up.

    The function is the inverse of `drawn_mu_squared`.

    Parameters
    ----------
    mu : float
        Square root of the mu^2 of the noise.
    delta : float
        Delta of the guarantee.

    Returns
    -------
    float
        Epsilon of the guarantee. 0 if delta alone covers the noise.

    """
    found = gaussian_epsilon(mu, delta)
    return found * (1 + 2 * ROUNDING_EPSILON_SHARE) if found > MIN_EPSILON else 0.0


def root_up(square: Fraction) -> float:
    """Return the smallest float whose square is at least `square`.

    Parameters
    ----------
    square : Fraction
        Number of at least 0.

    Returns
    -------
    float
        Square root, rounded up.

    """
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    while root > 0 and Fraction(math.nextafter(root, 0.0)) ** 2 >= square:
        root = math.nextafter(root, 0.0)
    return root


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
