"""Recomputation of the guarantee of a release from its noise.

A release file states a guarantee. This module compares the statement with the noise of all rounds,
without any key. It detects a statement that is stronger than the noise allows. It cannot detect a
consistent forgery, changed bounds in the schema, or a hidden seed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Neighbors,
    PureDP,
    exact,
    gaussian_delta,
    gaussian_mu,
    upper_float,
)
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.published.costs import rounds_of
from dpcov.published.kinds import EstimatedMatrix, Published

if TYPE_CHECKING:
    from dpcov.core.privacy import Budget
    from dpcov.published.record import Record

# Relative tolerance of delta, because the privacy curve is computed in float64.
DELTA_TOLERANCE = 1e-9
# Smallest fraction of the budget that the rounds must spend, so that the guarantee is confirmed.
ACCOUNTED_FRACTION = 1 - 1e-6
TOTAL = "total cost of the rounds"  # name in `Record.memory`
BOLDER = "the guarantee is stronger than the noise of the rounds allows"


class BolderClaimError(ValueError):
    """Error of a release that states more privacy than its noise gives."""


@dataclass(frozen=True, slots=True)
class Total:
    """Cost of all rounds together.

    Attributes
    ----------
    epsilon : Fraction
        Cost of all rounds with Laplace noise.

    rho : Fraction
        Cost of all rounds with Gaussian noise, as rho = mu^2 / 2.

    complete : bool
        False if the cost of a round is not known.

    """

    epsilon: Fraction
    rho: Fraction
    complete: bool

    @classmethod
    def of(cls, record: Record) -> Total:
        """Add up the costs of the rounds, and check the stated cost of each round.

        The result is computed once for each release.

        Raises
        ------
        BolderClaimError
            A round states a cost that its noise does not have.

        """
        if TOTAL in record.memory:
            known: Total = record.memory[TOTAL]
            return known
        epsilon, rho, complete = Fraction(0), Fraction(0), True
        answers = [(one.query, one.published) for one in record.rounds]
        again = rounds_of(answers, record.schema, record.guarantee)
        for one, recomputed in zip(record.rounds, again, strict=True):
            found = recomputed.spent
            if not isinstance(found, Fraction):
                complete = False
            elif one.spent != found:
                raise BolderClaimError(
                    f"the query {one.query!r} states a cost that its noise does not have"
                )
            elif is_gaussian(one.published):
                rho += found
            else:
                epsilon += found
        total = record.memory[TOTAL] = cls(epsilon, rho, complete)
        return total

    def within(self, budget: Budget) -> bool:
        """Return True if the costs are within a budget."""
        match budget:
            case PureDP():
                return self.rho == 0 and self.epsilon <= exact(budget.epsilon)
            case ZCDP():
                # epsilon-DP implies epsilon^2 / 2-zCDP (Bun and Steinke 2016, Proposition 3)
                return self.rho + self.epsilon**2 / 2 <= exact(budget.rho)
            case ApproxDP():
                left = exact(budget.epsilon) - self.epsilon
                if self.rho == 0 or left < 0:
                    return left >= 0
                delta = gaussian_delta(math.sqrt(2 * upper_float(self.rho)), float(left))
                return delta <= budget.delta * (1 + DELTA_TOLERANCE)

    def accounts_for(self, budget: Budget) -> bool:
        """Return True if the rounds together spend the whole budget."""
        match budget:
            case PureDP():
                spent, whole = self.epsilon, exact(budget.epsilon)
            case ZCDP():
                spent, whole = self.rho, exact(budget.rho)
            case ApproxDP() if self.rho == 0:
                spent, whole = self.epsilon, exact(budget.epsilon)
            case ApproxDP():
                mu = gaussian_mu(budget.epsilon, budget.delta)
                spent, whole = self.rho, Fraction(mu) ** 2 / 2
        return self.complete and spent >= whole * Fraction(ACCOUNTED_FRACTION)


def check_guarantee(record: Record) -> None:
    """Raise an error if a release states more privacy than its noise gives.

    Parameters
    ----------
    record : Record
        Release.

    Raises
    ------
    BolderClaimError
        The guarantee is stronger than the noise allows.

    """
    if not Total.of(record).within(record.guarantee.budget):
        raise BolderClaimError(BOLDER)
    group = record.group
    if group is not None and not _together(record.guarantee.budget, group.together.neighbors).fits(
        group.together.budget
    ):
        raise BolderClaimError(
            "the guarantee of all groups is stronger than the guarantee of one group"
        )


def is_recomputed(record: Record) -> bool:
    """Return True if the whole guarantee follows from the noise of the rounds.

    The result is False for a mechanism without a known noise distribution, and for a mechanism that
    does not publish all of its rounds.
    """
    return Total.of(record).accounts_for(record.guarantee.budget)


def is_gaussian(answer: Published) -> bool:
    """Return True if the noise of an answer is Gaussian."""
    match answer:
        case EstimatedMatrix():
            return False
        case _:
            return isinstance(answer.noise, ScalarGaussian | GaussianOrthogonal)


@dataclass(frozen=True, slots=True)
class _Least:
    """Smallest budget that covers all groups together."""

    epsilon: Fraction
    delta: Fraction
    rho: Fraction

    def fits(self, budget: Budget) -> bool:
        """Return True if this budget is within another one."""
        match budget:
            case ZCDP():
                return self.epsilon == 0 and self.rho <= exact(budget.rho)
            case PureDP():
                return self.rho == self.delta == 0 and self.epsilon <= exact(budget.epsilon)
            case ApproxDP():
                fits = self.epsilon <= exact(budget.epsilon) and self.delta <= exact(budget.delta)
                return self.rho == 0 and fits


def _together(level: Budget, neighbors: Neighbors) -> _Least:
    """Return the smallest budget of all groups together.

    Each group has the budget `level` under add-remove. A replaced row leaves one group and enters
    another one. These are two steps, so epsilon doubles, rho grows four times, and delta grows by
    the factor 1 + e^epsilon.
    """
    two = neighbors == Neighbors.REPLACE_ONE
    zero, sides = Fraction(0), 2 if two else 1
    match level:
        case PureDP():
            return _Least(exact(level.epsilon) * sides, zero, zero)
        case ZCDP():
            return _Least(zero, zero, exact(level.rho) * sides**2)
        case ApproxDP():
            factor = 1 + Fraction(math.exp(min(level.epsilon, 700.0))) if two else Fraction(1)
            return _Least(exact(level.epsilon) * sides, exact(level.delta) * factor, zero)
