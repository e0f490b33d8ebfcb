"""Definitions of privacy: neighbours, budgets, guarantees, conversions, composition.

Budgets are frozen data. A number given as a float means the decimal that it prints as
(`exact`), so ten releases at 0.1 fit a budget of 1 and no binary rounding is ever in
favour of less noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from dpcov.errors import BudgetError


class Neighbors(StrEnum):
    """Which tables must be indistinguishable.

    ``ADD_REMOVE``: one unit (row or person) appears or vanishes; the number of rows is
    private. ``REPLACE_ONE``: one unit's rows change for others; the number of units is public.
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


@dataclass(frozen=True, slots=True)
class Unit:
    """Who is protected: one row, or one person (`column`) owning at most `max_rows` rows."""

    column: str | None = None
    max_rows: int = 1

    def __str__(self) -> str:
        if self.column is None:
            return "one row"
        return f"one person (column {self.column!r}), up to {self.max_rows} rows"


ROW = Unit()


def exact(value: float) -> Fraction:
    """The decimal number that `value` prints as, exactly."""
    return Fraction(Decimal(repr(float(value))))


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BudgetError(f"{name} must be a number above 0, not {value!r}.")
    if not (math.isfinite(value) and value > 0):
        raise BudgetError(f"{name} must be a finite number above 0, not {value!r}.")


@dataclass(frozen=True, slots=True)
class PureDP:
    """epsilon-differential privacy."""

    epsilon: float

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)

    def __str__(self) -> str:
        return f"pure differential privacy, epsilon = {self.epsilon:g}"


@dataclass(frozen=True, slots=True)
class ZCDP:
    """rho-zero-concentrated differential privacy (Bun and Steinke 2016)."""

    rho: float

    def __post_init__(self) -> None:
        _positive("rho", self.rho)

    def __str__(self) -> str:
        return f"zero-concentrated differential privacy, rho = {self.rho:g}"


@dataclass(frozen=True, slots=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon)
        _positive("delta", self.delta)
        if self.delta >= 1:
            raise BudgetError(f"delta must be below 1, not {self.delta!r}.")

    def __str__(self) -> str:
        return f"(epsilon, delta)-differential privacy, ({self.epsilon:g}, {self.delta:g})"


Budget = PureDP | ZCDP | ApproxDP


def budget_from(
    epsilon: float | None = None, delta: float | None = None, rho: float | None = None
) -> Budget:
    """The budget that these numbers state: epsilon, epsilon with delta, or rho alone."""
    if rho is not None:
        if epsilon is not None or delta is not None:
            raise BudgetError("Give rho alone, or epsilon with an optional delta, not both.")
        return ZCDP(rho)
    if epsilon is None:
        raise BudgetError("State a privacy budget: epsilon (with an optional delta), or rho.")
    return PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What a release guarantees: how much (`budget`), between which tables, for whom."""

    budget: Budget
    neighbors: Neighbors
    unit: Unit = ROW

    def in_words(self) -> str:
        """The guarantee in a sentence that a reader without training can check."""
        column, rows = self.unit.column, self.unit.max_rows
        person = f"any one person (column {column!r}, at most {rows} rows each)"
        who, units = ("any one row", "rows") if column is None else (person, "persons")
        change = (
            f"Whether {who} is in the table or not"
            if self.neighbors is Neighbors.ADD_REMOVE
            else f"What {who} holds, the number of {units} being public,"
        )
        return f"{change} {self._bound_in_words()}."

    def _bound_in_words(self) -> str:
        if isinstance(self.budget, ZCDP):
            rho = self.budget.rho
            return (
                "shifts the privacy loss of this release at most like Gaussian noise with "
                f"rho = {rho:g} (which implies epsilon = {zcdp_epsilon(rho, 1e-6):.3g} "
                "but for a probability of 1e-06)"
            )
        epsilon = self.budget.epsilon
        factor = f"{math.exp(epsilon):.4g}" if epsilon < 700 else "(a number without meaning)"
        delta = f", plus {self.budget.delta:g}" if isinstance(self.budget, ApproxDP) else ""
        return (
            "changes the probability of any outcome of this release by a factor of at most "
            f"e^{epsilon:g} = {factor}{delta}"
        )


def gaussian_delta(mu: float, epsilon: float) -> float:
    """delta(epsilon) of Gaussian noise with sensitivity/std = mu (Balle and Wang 2018, Thm 8)."""
    from scipy.special import log_ndtr

    first = math.exp(log_ndtr(mu / 2 - epsilon / mu))
    second = math.exp(min(0.0, epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))))
    return max(0.0, first - second)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu (rounded down) whose Gaussian mechanism is (epsilon, delta)-DP.

    `gaussian_delta` grows with mu; bisection keeps the private end (spec approx 1.1).
    """
    low, high = 0.0, 1.0
    while gaussian_delta(high, epsilon) <= delta and high < 1e6:
        low, high = high, 2 * high
    while high - low > 1e-14 * high:
        middle = (low + high) / 2
        if gaussian_delta(middle, epsilon) <= delta * (1 - 1e-9):
            low = middle
        else:
            high = middle
    if low <= 0:
        raise BudgetError(
            f"No usable Gaussian noise gives ({epsilon:g}, {delta:g})-DP. Use a larger delta."
        )
    return low


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Epsilon such that rho-zCDP implies (epsilon, delta)-DP, rounded up.

    Canonne, Kamath and Steinke 2020, Prop. 12: the least over alpha > 1 of
    alpha rho + ln((alpha-1)/alpha) - (ln delta + ln alpha)/(alpha-1); every alpha is valid.
    """
    from scipy.optimize import minimize_scalar

    def bound(log_excess: float) -> float:
        excess = math.exp(log_excess)
        alpha = 1 + excess
        return alpha * rho + math.log(excess / alpha) - (math.log(delta) + math.log(alpha)) / excess

    best = minimize_scalar(bound, bounds=(-20, 40), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(best.fun)) * (1 + 1e-12)


def compose(spends: Sequence[Budget], delta: float = 0.0) -> Budget:
    """One budget that all `spends` together are sure to keep (adaptive composition).

    Pure budgets add in epsilon, zCDP in rho (a pure epsilon is epsilon^2/2-zCDP: Bun and Steinke
    2016, Prop. 1.4 and Lemma 1.7), (epsilon, delta) in both. Where kinds are mixed the result is
    (epsilon, delta)-DP with the given total `delta`, by the better of the two readings of the pure
    part. Any `delta` left over by (epsilon, delta) spends serves the zCDP part.
    """
    pure = sum((exact(s.epsilon) for s in spends if isinstance(s, PureDP)), Fraction(0))
    rho = sum((exact(s.rho) for s in spends if isinstance(s, ZCDP)), Fraction(0))
    approx = [s for s in spends if isinstance(s, ApproxDP)]
    if not spends:
        raise BudgetError("Nothing to compose.")
    if not rho and not approx and delta == 0:
        return PureDP(upper_float(pure))
    squares = sum((exact(s.epsilon) ** 2 / 2 for s in spends if isinstance(s, PureDP)), Fraction(0))
    if not approx and delta == 0:
        return ZCDP(upper_float(rho + squares))
    epsilon = sum((exact(s.epsilon) for s in approx), Fraction(0))
    spent_delta = sum((exact(s.delta) for s in approx), Fraction(0))
    left = float(exact(delta) - spent_delta)
    if left < 0 or (rho and left <= 0):
        raise BudgetError("The deltas of these releases add up to more than the total delta.")
    options = []
    if not rho:
        options.append(upper_float(epsilon + pure))
    if left > 0:
        if rho:
            options.append(upper_float(epsilon + pure + exact(zcdp_epsilon(float(rho), left))))
        if rho or pure:
            options.append(upper_float(epsilon + exact(zcdp_epsilon(float(rho + squares), left))))
    total_delta = max(delta, upper_float(spent_delta))
    return ApproxDP(max(min(options), 1e-300), total_delta)


def upper_float(value: Fraction | int) -> float:
    """Smallest float that is at least `value`."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def total(values: Iterable[Fraction]) -> float:
    """Exact sum of fractions, rounded up to a float."""
    return upper_float(sum(values, Fraction(0)))
