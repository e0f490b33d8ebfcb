"""Composition of several private steps: Gaussian, Renyi and numerical composition.

Two distributions P and Q are (epsilon, delta)-close if ``P(E) <= e^epsilon Q(E) + delta`` for every
event E, and also with P and Q exchanged. The functions round every returned cost up and every
returned allowance down.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np

from dpcov.core.accounting import MIN_SERIES_EPSILON, ORDER_EXCESSES, RenyiCurve
from dpcov.core.installing import installing
from dpcov.core.privacy import (
    TERM_ERROR,
    ApproxDP,
    PureDP,
    exact,
    gaussian_delta,
    gaussian_mu,
    renyi_epsilon_at,
    round_up,
)
from dpcov.errors import BudgetError

# --- Gaussian differential privacy ---


@dataclass(frozen=True, slots=True)
class GDP:
    """Step with mu-Gaussian differential privacy (Dong, Roth and Su 2022).

    Neighbouring tables are at least as hard to distinguish as the distributions N(0, 1) and N(mu,
    1).
    """

    mu: float


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Step that adds Laplace noise to one number.

    The scale of the noise is the sensitivity divided by `epsilon`.
    """

    epsilon: float


def compose_gdp(mus: Iterable[float]) -> float:
    """Return the parameter mu of several adaptive steps, rounded up.

    The value is the square root of the sum of the squared parameters (Dong, Roth and Su 2022,
    Corollary 3.3). Each step can depend on the results of earlier steps. The parameters can also
    depend on earlier results if their squares have a fixed sum (Smith and Thakurta 2022).

    Parameters
    ----------
    mus : iterable of float
        Parameter of each step.

    Returns
    -------
    float
        Parameter of all steps together.

    """
    return math.nextafter(math.hypot(*mus) * (1 + TERM_ERROR), math.inf)


def gdp_of_pure(epsilon: float) -> float:
    """Return the smallest mu such that epsilon-DP implies mu-GDP, rounded up.

    The value is ``2 Phi^-1(e^epsilon / (1 + e^epsilon))``, where Phi is the normal distribution
    function. The value is tight.

    Proof. The trade-off curve of epsilon-DP consists of two segments. The segments meet at (p, p)
    with ``p = 1 / (1 + e^epsilon)``. A Gaussian curve through this point is convex and has the same
    ends, so it lies below the segments.

    For a small epsilon, the function uses ``sqrt(8) erf^-1(tanh(epsilon / 2))``. This formula gives
    the same value without a loss of digits. For a very small epsilon, the function uses
    ``epsilon sqrt(pi / 2)``.

    Parameters
    ----------
    epsilon : float
        Parameter of the pure guarantee.

    Returns
    -------
    float
        Parameter mu.

    """
    from scipy.special import erfinv, log_expit, ndtri_exp

    if epsilon < MIN_SERIES_EPSILON:
        return round_up(exact(epsilon) * Fraction(math.sqrt(math.pi / 2) * (1 + 1e-12)))
    if epsilon < 1:
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2))) * (1 + 1e-12)
    return float(-2 * ndtri_exp(log_expit(-epsilon))) * (1 + 1e-12)


# --- Events of small probability ---


def with_bad_events(mu: float, epsilon: float, bad: float) -> tuple[float, float]:
    """Return (epsilon', delta') of mu-GDP steps that exclude events of small probability.

    A bad event is an event that breaks the guarantee of a step. Each step i has a bad event of
    probability at most ``p_i``, on either table and after any earlier results. The sum of all
    ``p_i`` is `bad`. Without bad events, the steps compose to mu-GDP.

    Claim: the steps together are (epsilon - ln(1 - bad), delta(mu, epsilon) + bad)-DP.

    Proof. Let P and Q be the distributions of the results on two neighbouring tables. Let P* and Q*
    be the distributions of the steps without bad events.

    - P and P* agree until the first bad event, so ``P(E) <= P*(E) + bad`` for every event E.
    - Q is at least ``prod(1 - p_i) Q*``, and therefore at least ``(1 - bad) Q*``.

    Both inequalities give the claim::

        P(E) <= e^epsilon Q*(E) + delta(mu, epsilon) + bad
             <= e^epsilon Q(E) / (1 - bad) + delta(mu, epsilon) + bad

    Parameters
    ----------
    mu : float
        Gaussian parameter of the steps without bad events.
    epsilon : float
        Epsilon of the steps without bad events.
    bad : float
        Total probability of the bad events.

    Returns
    -------
    tuple of float
        Epsilon and delta of all steps together.

    """
    if not 0 <= bad < 1:
        raise BudgetError(f"The probability of bad events must be below 1, not {bad!r}.")
    delta = (gaussian_delta(mu, epsilon) + bad) * (1 + TERM_ERROR)
    return (epsilon - math.log1p(-bad)) * (1 + TERM_ERROR), delta


def gdp_beside_bad_events(epsilon: float, delta: float, bad: float) -> float:
    """Return the largest mu that `with_bad_events` keeps within a budget.

    Parameters
    ----------
    epsilon, delta : float
        Budget.
    bad : float
        Total probability of the bad events.

    Returns
    -------
    float
        Gaussian parameter of the steps without bad events.

    Raises
    ------
    BudgetError
        The bad events use the whole budget.

    """
    inner = (epsilon + math.log1p(-bad) if 0 <= bad < 1 else -1.0) * (1 - TERM_ERROR)
    left = (delta - bad) * (1 - TERM_ERROR)
    if inner <= 0 or left <= 0:
        raise BudgetError(
            f"Bad events of probability {bad:g} leave nothing of ({epsilon:g}, {delta:g})."
        )
    return gaussian_mu(inner, left)


# --- Renyi differential privacy ---


def renyi_of_zcdp(rho: float) -> RenyiCurve:
    """Return the Renyi curve of rho-zCDP. The curve is exact for Gaussian noise."""
    return lambda alpha: alpha * rho


def compose_renyi(curves: Sequence[RenyiCurve]) -> RenyiCurve:
    """Return the Renyi curve of several adaptive steps.

    Each step can depend on the results of earlier steps.
    """
    return lambda alpha: sum(curve(alpha) for curve in curves)


def renyi_epsilon(curve: RenyiCurve, delta: float) -> float:
    """Return the epsilon that a Renyi curve implies at a given delta.

    The formula is Proposition 12 of Canonne, Kamath and Steinke 2020. Every order gives a valid
    epsilon. The function returns the smallest epsilon that it finds, with an accuracy of about
    1e-9.

    Parameters
    ----------
    curve : callable
        Function from an order above 1 to a Renyi divergence.
    delta : float
        Delta of the result.

    Returns
    -------
    float
        Epsilon, or infinity.

    """

    def at(excess: float) -> float:
        return renyi_epsilon_at(excess, curve(1 + excess), delta)

    return max(0.0, _least(at))


def _least(function: Callable[[float], float]) -> float:
    """Return the smallest value of a function over the orders ``1 + excess``.

    The search uses a grid and refines the best grid point.
    """
    from scipy.optimize import minimize_scalar

    values = [function(float(excess)) for excess in ORDER_EXCESSES]
    if not any(map(math.isfinite, values)):
        return math.inf
    best = int(np.nanargmin(values))
    around = np.log(ORDER_EXCESSES[[max(0, best - 1), min(len(ORDER_EXCESSES) - 1, best + 1)]])
    found = minimize_scalar(
        lambda x: min(function(math.exp(x)), 1e300),
        bounds=tuple(around),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return min(values[best], float(found.fun))


# --- Numerical composition ---

Step = GDP | LaplaceNoise | PureDP | ApproxDP


def numeric_epsilon(steps: Sequence[Step], delta: float, *, grid: float = 1e-4) -> float:
    """Return the epsilon of steps that are fixed in advance, by numerical composition.

    The function composes the distributions of the privacy losses. The methods come from Koskela,
    Jälkö and Honkela 2020 and from Doroshenko and others 2022. The package dp-accounting (extra
    `accounting`) implements them. The result is nearly tight.

    The function rounds privacy losses up to multiples of `grid`, so the result is an upper bound.
    The only exception is the float64 error of the Fourier transform, which changes delta by less
    than 1e-10.

    Parameters
    ----------
    steps : sequence of steps
        Steps of the classes GDP, LaplaceNoise, PureDP and ApproxDP.
    delta : float
        Delta of the result.
    grid : float
        Width of the grid of privacy losses.

    Returns
    -------
    float
        Epsilon of all steps together.

    Raises
    ------
    BudgetError
        There are no steps, or dp-accounting is not installed.

    """
    return float(_loss_distribution(steps, grid).get_epsilon_for_delta(delta))


def numeric_delta(steps: Sequence[Step], epsilon: float, *, grid: float = 1e-4) -> float:
    """Return the delta of steps that are fixed in advance, by numerical composition.

    The method is the method of `numeric_epsilon`.

    Parameters
    ----------
    steps : sequence of steps
        Steps of the classes GDP, LaplaceNoise, PureDP and ApproxDP.
    epsilon : float
        Epsilon of the result.
    grid : float
        Width of the grid of privacy losses.

    Returns
    -------
    float
        Delta of all steps together.

    """
    return float(_loss_distribution(steps, grid).get_delta_for_epsilon(epsilon))


def _loss_distribution(steps: Sequence[Step], grid: float) -> Any:
    try:
        pld = import_module("dp_accounting.pld.privacy_loss_distribution")
        common = import_module("dp_accounting.pld.common")
    except ImportError:
        raise BudgetError(
            f"Numeric composition needs dp-accounting: {installing('dp-accounting')}"
        ) from None

    def of(step: Step) -> Any:
        match step:
            case GDP(mu):
                return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=grid)
            case LaplaceNoise(epsilon):
                return pld.from_laplace_mechanism(1 / epsilon, value_discretization_interval=grid)
            case PureDP(epsilon):
                stated = common.DifferentialPrivacyParameters(epsilon)
            case ApproxDP(epsilon, delta):
                stated = common.DifferentialPrivacyParameters(epsilon, delta)
        return pld.from_privacy_parameters(stated, value_discretization_interval=grid)

    if not steps:
        raise BudgetError("Nothing to compose.")
    parts = [of(step).self_compose(times) for step, times in Counter(steps).items()]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.compose(part)
    return whole
