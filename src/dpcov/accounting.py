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

from dpcov.errors import BudgetError
from dpcov.privacy import (
    ROUNDING,
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    exact,
    gaussian_delta,
    gaussian_mu,
    renyi_epsilon_at,
    round_down,
    round_up,
    zcdp_epsilon,
)

RenyiCurve = Callable[
    [float], float
]  # order alpha > 1 -> Renyi divergence, inf where there is none

SMALL = 1e-8  # below it, the first term of a series is within a rounding error
EXCESSES = np.geomspace(1e-4, 1e8, 241)  # orders minus 1 among which a conversion looks first


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


def gdp_epsilon(mu: float, delta: float) -> float:
    """Least epsilon such that mu-GDP implies (epsilon, delta)-DP."""
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    low, high = 0.0, mu**2 / 2 + mu * math.sqrt(-2 * math.log(delta)) + 1e-300
    while gaussian_delta(mu, high) > delta:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        if gaussian_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


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


def zcdp_of_pure(epsilon: float) -> float:
    """Rho that epsilon-DP implies: epsilon tanh(epsilon / 2), tight (docs/proofs/ledger.md, 3)."""
    simple = exact(epsilon) ** 2 / 2  # tanh(x) <= x
    if epsilon < SMALL:
        return round_up(simple)
    return round_up(min(simple, Fraction(epsilon * math.tanh(epsilon / 2) * (1 + ROUNDING))))


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


def renyi_of_pure(epsilon: float) -> RenyiCurve:
    """Curve that epsilon-DP implies, tight: that of randomised response."""

    def curve(alpha: float) -> float:
        terms = [alpha * epsilon, (1 - alpha) * epsilon]
        return _log_mean(terms, [-float(np.logaddexp(0, epsilon))] * 2, alpha)

    return curve


def renyi_of_laplace(epsilon: float) -> RenyiCurve:
    """Curve of Laplace noise of scale sensitivity / epsilon (Mironov 2017, Prop. 6)."""

    def curve(alpha: float) -> float:
        terms = [(alpha - 1) * epsilon, -alpha * epsilon]
        weights = [math.log(alpha), math.log(alpha - 1)]
        return _log_mean(terms, [weight - math.log(2 * alpha - 1) for weight in weights], alpha)

    return curve


def _log_mean(terms: list[float], log_weights: list[float], alpha: float) -> float:
    """Logarithm of sum weight e^term, over alpha - 1, rounded up."""
    first, second = (t + w for t, w in zip(terms, log_weights, strict=True))
    total = float(np.logaddexp(first, second))
    return (total + ROUNDING * sum(map(abs, [*terms, *log_weights]))) / (alpha - 1)


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


def renyi_delta(curve: RenyiCurve, epsilon: float) -> float:
    """Delta at `epsilon` that the curve implies, by the same formula."""

    def log_delta(excess: float) -> float:
        loss = excess * (curve(1 + excess) - epsilon)
        logs = -excess * math.log1p(1 / excess), -math.log1p(excess)
        return loss + sum(logs) + ROUNDING * (excess * epsilon + abs(loss) - sum(logs))

    return min(1.0, math.exp(min(0.0, _least(log_delta))))


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


# Budgets as they are stated.


def compose(spends: Sequence[Budget], delta: float = 0.0) -> Budget:
    """One budget that releases with these `spends`, fixed in advance, are sure to keep together.

    What a release asks may depend on earlier ones; how much it spends may not (the ledger counts
    spends that do, by rules that allow it). Pure budgets add in epsilon, zCDP in rho (Bun and
    Steinke 2016, Lemma 1.7; a pure epsilon by `zcdp_of_pure`), (epsilon, delta) in both. Where
    kinds are mixed the result is (epsilon, delta)-DP with the given total `delta`, by the better of
    the two readings of the pure part. Any `delta` left over by (epsilon, delta) spends serves the
    zCDP part.
    """
    if not spends:
        raise BudgetError("Nothing to compose.")
    approx = [s for s in spends if isinstance(s, ApproxDP)]
    pure = _sum(exact(s.epsilon) for s in spends if isinstance(s, PureDP))
    as_rho = _sum(exact(zcdp_of_pure(s.epsilon)) for s in spends if isinstance(s, PureDP))
    rho = _sum(exact(s.rho) for s in spends if isinstance(s, ZCDP))
    if not approx and delta == 0:
        return ZCDP(round_up(rho + as_rho)) if rho else PureDP(round_up(pure))
    if delta:
        ApproxDP(1.0, delta)  # refuses what is no delta
    epsilon = _sum(exact(s.epsilon) for s in approx)
    spent_delta = _sum(exact(s.delta) for s in approx)
    left = round_down(exact(delta) - spent_delta)
    if (delta and left < 0) or (rho and left <= 0):
        raise BudgetError("The deltas of these releases add up to more than the total delta.")
    options = [] if rho else [epsilon + pure]
    if left > 0:
        conversions = [(pure, rho), (Fraction(0), rho + as_rho)]
        converted = [(p, zcdp_epsilon(round_up(r), left)) for p, r in conversions if r]
        options += [epsilon + p + exact(e) for p, e in converted if e < math.inf]
    if not options:
        raise BudgetError("These releases add up to a rho too large for any epsilon.")
    return ApproxDP(max(round_up(min(options)), 1e-300), max(delta, round_up(spent_delta)))


def _sum(values: Iterable[Fraction]) -> Fraction:
    return sum(values, Fraction(0))


# Numeric composition.

Step = GDP | LaplaceNoise | PureDP | ApproxDP


def numeric_epsilon(steps: Sequence[Step], delta: float, *, grid: float = 1e-4) -> float:
    """Epsilon at `delta` of steps fixed in advance, nearly tight: by their loss distributions.

    Koskela, Jälkö and Honkela 2020; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022, in the
    implementation of dp-accounting (``pip install 'dpcov[accounting]'``). Losses are rounded up to
    multiples of `grid`, so the result is an upper bound but for float64 errors of its Fourier
    transform, below 1e-10 in delta.
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
            "Numeric composition needs dp-accounting: pip install 'dpcov[accounting]'."
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
