"""How a budget is spent when each release may depend on all before it (docs/proofs/ledger.md).

A privacy filter (Rogers, Roth, Ullman and Vadhan 2016) admits a release or refuses it, so that all
that it ever admits keep the budget together, whoever chose them and by whatever they had seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from dpcov.core.accounting import EXCESSES, renyi_of_pure, zcdp_of_pure
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

CONVERSION_SHARE = Fraction(9, 10)  # of delta, from the first rho on; the rest is for other deltas


@dataclass(frozen=True, slots=True)
class Balance:
    """What releases come to (`spent`), and what the filter still admits (`left`).

    `left` is negative where it would have refused. Once rho is counted against (epsilon, delta),
    `left` is less than the budget without `spent`: part of epsilon is set aside for the conversion.
    """

    spent: dict[str, Fraction]
    left: dict[str, Fraction]

    @property
    def admitted(self) -> bool:
        return all(amount >= 0 for amount in self.left.values())


def balance(budget: Budget, spends: Sequence[Budget]) -> Balance:
    """Account of `spends`, oldest first, in the terms of `budget`.

    Raises
    ------
    BudgetError : nothing is left that some of them could be counted against.

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
    """Sums fill up whatever was seen (proof 2)."""
    return Balance(spent, {name: exact(whole[name]) - amount for name, amount in spent.items()})


def _concentrated(before: Balance, spends: Sequence[Budget]) -> Balance:
    """What follows the first rho, by Renyi divergences of an order that is settled there."""
    if before.left["delta"] <= 0:
        raise BudgetError("No delta is left to convert rho by.")
    aside = before.left["delta"] * CONVERSION_SHARE
    delta = round_down(aside)
    excess = settled_excess(before.left["epsilon"], delta)
    divergence = sum((_divergence(spend, excess) for spend in spends), Fraction(0))
    at_order = divergence + _conversion(excess, delta)
    converted = zcdp_epsilon(round_up(_rho(spends)), delta)  # the least over all orders
    figure = min(at_order, exact(converted)) if converted < math.inf else at_order
    deltas = total(spends, "delta")
    return Balance(
        {
            "epsilon": before.spent["epsilon"] + figure,
            "delta": before.spent["delta"] + aside + deltas,
        },
        {
            "epsilon": before.left["epsilon"] - at_order,
            "delta": before.left["delta"] - aside - deltas,
        },
    )


@lru_cache(maxsize=64)
def settled_excess(epsilon: Fraction, delta: float) -> float:
    """Order less 1 at which most rho fits (epsilon, delta); a function of these two alone."""

    def best(excesses: Sequence[float]) -> int:
        rooms = [(epsilon - _conversion(x, delta)) / (1 + Fraction(x)) for x in excesses]
        return rooms.index(max(rooms))

    near = best(EXCESSES.tolist())
    ends = EXCESSES[max(near - 1, 0)], EXCESSES[min(near + 1, len(EXCESSES) - 1)]
    between = np.geomspace(*ends, 257).tolist()
    return float(between[best(between)])


def _conversion(excess: float, delta: float) -> Fraction:
    """By how much epsilon at `delta` exceeds the divergence of order 1 + `excess`."""
    return Fraction(renyi_epsilon_at(excess, 0.0, delta))


def _divergence(spend: Budget, excess: float) -> Fraction:
    """Renyi divergence of order 1 + `excess`, up to a bad event of probability delta."""
    order = 1 + Fraction(excess)
    if isinstance(spend, ZCDP):
        return order * exact(spend.rho)
    epsilon = exact(spend.epsilon)
    tight = renyi_of_pure(spend.epsilon)(1 + excess)
    bounds = [epsilon, order * epsilon**2 / 2]
    return min([*bounds, Fraction(tight)] if tight < math.inf else bounds)


def _rho(spends: Sequence[Budget]) -> Fraction:
    """Rho of them all, up to bad events; a pure epsilon is epsilon tanh(epsilon / 2)-zCDP."""
    parts = (exact(s.rho if isinstance(s, ZCDP) else zcdp_of_pure(s.epsilon)) for s in spends)
    return sum(parts, Fraction(0))


def total(budgets: Sequence[Budget], name: str) -> Fraction:
    """Sum of the figures `name` of those budgets that have it."""
    return sum((exact(getattr(b, name)) for b in budgets if hasattr(b, name)), Fraction(0))
