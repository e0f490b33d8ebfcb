"""Privacy filters: rules that refuse a release if the total would exceed the budget.

A privacy filter (Rogers, Roth, Ullman and Vadhan 2016) accepts or refuses each release. All
accepted releases together satisfy the budget. The rule holds even if people choose a release after
they saw earlier ones. The proofs are in docs/proofs/ledger.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpcov.core.accounting import ORDER_EXCESSES, renyi_of_pure, zcdp_of_pure
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    exact,
    renyi_epsilon_at,
    round_down,
    round_up,
    zcdp_epsilon,
)
from dpcov.errors import BudgetError

# Fraction of the remaining delta that pays for the conversion of rho. The filter sets it aside at
# the first release with a rho. Later releases with a delta use the rest.
CONVERSION_SHARE = Fraction(9, 10)


@dataclass(frozen=True, slots=True)
class Balance:
    """Total of the releases, and the budget that remains.

    A remaining amount is negative if the filter would have refused a release. After the first
    release with a rho, a budget of epsilon and delta sets part of epsilon aside for the conversion.
    Then `left` is smaller than the budget minus `spent`.

    Attributes
    ----------
    spent : dict of str to Fraction
        Total of the releases by parameter.
    left : dict of str to Fraction
        Remaining amount by parameter.

    """

    spent: dict[str, Fraction]
    left: dict[str, Fraction]

    @property
    def admitted(self) -> bool:
        """True if no remaining amount is negative."""
        return all(amount >= 0 for amount in self.left.values())


def balance(budget: Budget, spends: Sequence[Budget]) -> Balance:
    """Return the balance of releases in the terms of a budget.

    Parameters
    ----------
    budget : PureDP, ApproxDP or ZCDP
        Total budget.
    spends : sequence of budgets
        Budgets of the releases, oldest first.

    Returns
    -------
    Balance
        Total and remaining amounts.

    Raises
    ------
    BudgetError
        A release uses rho, and no delta is left for the conversion.

    """
    match budget:
        case PureDP(epsilon):
            return _summed({"epsilon": epsilon}, {"epsilon": total(spends, "epsilon")})
        case ZCDP(rho):
            return _summed({"rho": rho}, {"rho": _rho(spends)})
        case ApproxDP(epsilon, delta):
            opened = [at for at, spend in enumerate(spends) if isinstance(spend, ZCDP)]
            before = spends[: opened[0]] if opened else spends
            whole = {"epsilon": epsilon, "delta": delta}
            sums = _summed(whole, {name: total(before, name) for name in whole})
            return _concentrated(sums, spends[opened[0] :]) if opened else sums


def _summed(whole: dict[str, float], spent: dict[str, Fraction]) -> Balance:
    """Subtract sums from the budget, which is valid for adaptive releases (proof 2)."""
    return Balance(spent, {name: exact(whole[name]) - amount for name, amount in spent.items()})


def admits(budget: Budget, spends: Sequence[Budget]) -> bool:
    """Return True if the releases keep the budget.

    The function is faster than `balance`, because it computes no total for display.

    Parameters
    ----------
    budget : PureDP, ApproxDP or ZCDP
        Total budget.
    spends : sequence of budgets
        Budgets of the releases, oldest first.

    Returns
    -------
    bool
        True if no remaining amount is negative.

    """
    opened = next((at for at, spend in enumerate(spends) if isinstance(spend, ZCDP)), None)
    if opened is None or not isinstance(budget, ApproxDP):
        return balance(budget, spends).admitted
    before = balance(budget, spends[:opened])
    if before.left["delta"] <= 0:
        return False
    return all(amount >= 0 for amount in _order(before, spends[opened:]).left.values())


@dataclass(frozen=True, slots=True)
class _Order:
    """Releases from the first rho on, counted at the order that this rho fixed."""

    aside: Fraction  # delta that pays for the conversion
    epsilon: Fraction  # at this order
    deltas: Fraction
    left: dict[str, Fraction]


def _order(before: Balance, spends: Sequence[Budget]) -> _Order:
    """Count releases at the order that the remaining budget determines (proof 5)."""
    aside = before.left["delta"] * CONVERSION_SHARE
    delta = round_down(aside)
    excess = settled_excess(before.left["epsilon"], delta)
    divergence = sum((_divergence(spend, excess) for spend in spends), Fraction(0))
    epsilon, deltas = divergence + _conversion(excess, delta), total(spends, "delta")
    left = {
        "epsilon": before.left["epsilon"] - epsilon,
        "delta": before.left["delta"] - aside - deltas,
    }
    return _Order(aside, epsilon, deltas, left)


def _concentrated(before: Balance, spends: Sequence[Budget]) -> Balance:
    """Return the balance from the first release with a rho on.

    The first rho fixes the order of the Renyi divergences.
    """
    if before.left["delta"] <= 0:
        raise BudgetError("No delta is left, so rho cannot be converted. Use epsilon.")
    at = _order(before, spends)
    # the smallest value over all orders
    converted = zcdp_epsilon(round_up(_rho(spends)), round_down(at.aside))
    figure = min(at.epsilon, exact(converted)) if converted < math.inf else at.epsilon
    return Balance(
        {
            "epsilon": before.spent["epsilon"] + figure,
            "delta": before.spent["delta"] + at.aside + at.deltas,
        },
        at.left,
    )


@lru_cache(maxsize=64)
def settled_excess(epsilon: Fraction, delta: float) -> float:
    """Return the order, minus 1, at which the largest rho fits into (epsilon, delta).

    The result depends only on the two arguments.
    """

    def best(excesses: Sequence[float]) -> int:
        rooms = [(epsilon - _conversion(x, delta)) / (1 + Fraction(x)) for x in excesses]
        return rooms.index(max(rooms))

    near = best(ORDER_EXCESSES.tolist())
    ends = ORDER_EXCESSES[max(near - 1, 0)], ORDER_EXCESSES[min(near + 1, len(ORDER_EXCESSES) - 1)]
    between = np.geomspace(*ends, 257).tolist()
    return float(between[best(between)])


def _conversion(excess: float, delta: float) -> Fraction:
    """Return the difference between epsilon and the Renyi divergence of an order.

    The order is ``1 + excess``, and epsilon belongs to the given delta.
    """
    return Fraction(renyi_epsilon_at(excess, 0.0, delta))


def _divergence(spend: Budget, excess: float) -> Fraction:
    """Return the Renyi divergence of a release at order ``1 + excess``.

    A release with a delta exceeds the divergence only in an event of probability delta.
    """
    order = 1 + Fraction(excess)
    if isinstance(spend, ZCDP):
        return order * exact(spend.rho)
    epsilon = exact(spend.epsilon)
    tight = renyi_of_pure(spend.epsilon)(1 + excess)
    bounds = [epsilon, order * epsilon**2 / 2]
    return min([*bounds, Fraction(tight)] if tight < math.inf else bounds)


def _rho(spends: Sequence[Budget]) -> Fraction:
    """Return the total rho of releases, apart from events with the total probability delta.

    A release with a pure epsilon counts as ``epsilon * tanh(epsilon / 2)``.
    """
    parts = (exact(s.rho if isinstance(s, ZCDP) else zcdp_of_pure(s.epsilon)) for s in spends)
    return sum(parts, Fraction(0))


def total(budgets: Sequence[Budget], name: str) -> Fraction:
    """Sum one parameter over the budgets that have it.

    Parameters
    ----------
    budgets : sequence of budgets
        Budgets of releases.
    name : str
        Name of the parameter, such as ``"epsilon"``.

    Returns
    -------
    Fraction
        Exact sum.

    """
    return sum((exact(getattr(b, name)) for b in budgets if hasattr(b, name)), Fraction(0))
