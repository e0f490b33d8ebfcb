"""Budgets of mechanisms that give pure differential privacy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpcov.errors import MechanismError
from dpcov.privacy import ApproxDP, PureDP, exact

if TYPE_CHECKING:
    from fractions import Fraction

    from dpcov.privacy import Budget


def pure_epsilon(name: str, budget: Budget) -> Fraction:
    """Epsilon of a pure or an (epsilon, delta) budget, as stated; the mechanism spends no delta."""
    if not isinstance(budget, PureDP | ApproxDP):
        raise MechanismError(
            f"{name} is calibrated by epsilon. Give epsilon, or choose gaussian for rho."
        )
    return exact(budget.epsilon)
