"""What several steps cost together: exact Gaussian composition, Renyi curves, numeric composition.

Notation: a pair of laws (P, Q) of an outcome on neighbouring tables is (epsilon, delta)-close where
P(E) <= e^epsilon Q(E) + delta for all events E, both ways round. Every epsilon, delta and mu that
is returned as a cost is rounded up, every one that is returned as an allowance is rounded down.
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

from dpcov.core.accounting import EXCESSES, SMALL, RenyiCurve
from dpcov.core.installing import installing
from dpcov.core.privacy import (
    ROUNDING,
    ApproxDP,
    PureDP,
    exact,
    gaussian_delta,
    gaussian_mu,
    renyi_epsilon_at,
    round_up,
)
from dpcov.errors import BudgetError

# Gaussian differential privacy.


@dataclass(frozen=True, slots=True)
class GDP:
    """mu-Gaussian DP: no easier to tell apart than N(0, 1) and N(mu, 1) (Dong, Roth, Su 2022)."""

    mu: float


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise for one number, of scale sensitivity / epsilon."""

    epsilon: float


def compose_gdp(mus: Iterable[float]) -> float:
    """Mu of mechanisms with these, each chosen after the outcomes of those before it.

    Exactly sqrt(sum mu^2) (Dong, Roth and Su 2022, Cor. 3.3; adaptive budgets whose squares have a
    fixed sum: Smith and Thakurta 2022).
    """
    return math.nextafter(math.hypot(*mus) * (1 + ROUNDING), math.inf)


def gdp_of_pure(epsilon: float) -> float:
    """Mu that epsilon-DP implies: 2 Phi^-1(e^epsilon / (1 + e^epsilon)), tight.

    The trade-off curve of epsilon-DP consists of two segments that meet at (p, p), p = 1 / (1 +
    e^epsilon); a Gaussian curve through that point is convex with the same ends, hence below them.
    As Phi(mu / 2) - 1/2 = tanh(epsilon / 2) / 2, mu is sqrt(8) erf^-1(tanh(epsilon / 2)) too, which
    loses no digits where epsilon is small, and epsilon sqrt(pi / 2) but for epsilon^2 / 50 of it.
    """
    from scipy.special import erfinv, log_expit, ndtri_exp

    if epsilon < SMALL:
        return round_up(exact(epsilon) * Fraction(math.sqrt(math.pi / 2) * (1 + 1e-12)))
    if epsilon < 1:
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2))) * (1 + 1e-12)
    return float(-2 * ndtri_exp(log_expit(-epsilon))) * (1 + 1e-12)


# Bad events.


def with_bad_events(mu: float, epsilon: float, bad: float) -> tuple[float, float]:
    """(epsilon', delta') of mu-GDP steps beside bad events of total probability `bad`.

    Every step i has, whatever came before it and on either table, a bad event of probability at
    most p_i, sum p_i = `bad`, and without it the steps compose to mu-GDP. Proof that the whole is
    (epsilon - ln(1 - bad), delta(mu, epsilon) + bad)-DP: let P, Q be its laws on two neighbouring
    tables and P*, Q* those of the steps conditioned on nothing bad. Until something bad happens P
    can be coupled with P*, so P(E) <= P*(E) + bad; and Q >= prod(1 - p_i) Q* >= (1 - bad) Q*.
    Hence P(E) <= e^epsilon Q*(E) + delta(mu, epsilon) + bad
    <= e^epsilon Q(E) / (1 - bad) + delta(mu, epsilon) + bad.
    """
    if not 0 <= bad < 1:
        raise BudgetError(f"The probability of bad events must be below 1, not {bad!r}.")
    delta = (gaussian_delta(mu, epsilon) + bad) * (1 + ROUNDING)
    return (epsilon - math.log1p(-bad)) * (1 + ROUNDING), delta


def gdp_beside_bad_events(epsilon: float, delta: float, bad: float) -> float:
    """Largest mu that `with_bad_events` keeps within (epsilon, delta)."""
    inner = (epsilon + math.log1p(-bad) if 0 <= bad < 1 else -1.0) * (1 - ROUNDING)
    left = (delta - bad) * (1 - ROUNDING)
    if inner <= 0 or left <= 0:
        raise BudgetError(
            f"Bad events of probability {bad:g} leave nothing of ({epsilon:g}, {delta:g})."
        )
    return gaussian_mu(inner, left)


# Renyi differential privacy.


def renyi_of_zcdp(rho: float) -> RenyiCurve:
    """Curve of rho-zCDP; of a Gaussian mechanism with rho = mu^2 / 2 it is exact."""
    return lambda alpha: alpha * rho


def compose_renyi(curves: Sequence[RenyiCurve]) -> RenyiCurve:
    """Curve of mechanisms with these curves, each chosen after the outcomes of those before it."""
    return lambda alpha: sum(curve(alpha) for curve in curves)


def renyi_epsilon(curve: RenyiCurve, delta: float) -> float:
    """Epsilon at `delta` that the curve implies (Canonne, Kamath and Steinke 2020, Prop. 12).

    Every order gives a valid epsilon; this is the least found, exact to about 1e-9.
    """

    def at(excess: float) -> float:
        return renyi_epsilon_at(excess, curve(1 + excess), delta)

    return max(0.0, _least(at))


def _least(function: Callable[[float], float]) -> float:
    """Least value over orders 1 + excess: on a grid, then around its best point."""
    from scipy.optimize import minimize_scalar

    values = [function(float(excess)) for excess in EXCESSES]
    if not any(map(math.isfinite, values)):
        return math.inf
    best = int(np.nanargmin(values))
    around = np.log(EXCESSES[[max(0, best - 1), min(len(EXCESSES) - 1, best + 1)]])
    found = minimize_scalar(
        lambda x: min(function(math.exp(x)), 1e300),
        bounds=tuple(around),
        method="bounded",
        options={"xatol": 1e-10},
    )
    return min(values[best], float(found.fun))


# Numeric composition.

Step = GDP | LaplaceNoise | PureDP | ApproxDP


def numeric_epsilon(steps: Sequence[Step], delta: float, *, grid: float = 1e-4) -> float:
    """Epsilon at `delta` of steps fixed in advance, nearly tight: by their loss distributions.

    Koskela, Jälkö and Honkela 2020; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, in the
    implementation of dp-accounting, the extra `accounting`. Losses are rounded up to multiples of
    `grid`, so the result is an upper bound but for float64 errors of its Fourier transform, below
    1e-10 in delta.
    """
    return float(_loss_distribution(steps, grid).get_epsilon_for_delta(delta))


def numeric_delta(steps: Sequence[Step], epsilon: float, *, grid: float = 1e-4) -> float:
    """Delta at `epsilon` of steps fixed in advance; see `numeric_epsilon`."""
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
