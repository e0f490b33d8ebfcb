"""Plans over several years: the budget that each year's release can have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpcov.api.request import Request
from dpcov.core.accounting import drawn_mu_squared, root_up
from dpcov.core.ledger_rule import Count, Rule, Spend
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP
from dpcov.errors import BudgetError


@dataclass(frozen=True, slots=True)
class Year:
    """One year of a plan over several years.

    Attributes
    ----------
    year : int
        Number of the year, from 1.

    budget : Budget
        Budget that a release of this year can have.

    left : Budget or None
        Largest budget of one further release after this year. None if nothing is left.

    """

    year: int
    budget: Budget
    left: Budget | None


@dataclass(frozen=True, slots=True)
class Allowance:
    """Budget of several years with one release each.

    Attributes
    ----------
    rule : Rule
        Total budget and the way to count releases.

    spends : sequence of Spend
        Earlier releases.

    neighbors : Neighbors
        Relation between neighbouring tables.

    years : int
        Number of years.

    """

    rule: Rule
    spends: Sequence[Spend]
    neighbors: Neighbors
    years: int

    @classmethod
    def of(cls, asked: Request, years: int, *, stated: bool) -> Allowance:
        """Return the budget of the ledger, or the budget of the request if there is no ledger.

        The argument `stated` says whether the user stated the budget of the request.
        """
        ledger = asked.opened_ledger
        if ledger is None:
            return cls(Rule(asked.budget), (), asked.relation, years)
        if stated:
            raise BudgetError(
                "With --years, the ledger states the budget. Remove --epsilon, --delta and --rho, "
                "or remove --ledger."
            )
        account = ledger.account(asked.dataset)
        return cls(account.rule, account.spends, account.neighbors, years)

    def kinds(self) -> tuple[Budget, ...]:
        """Return the largest budgets of each year, one for each kind of request."""
        found = self.rule.largest_requests(self.spends, self.years)
        if not found:
            raise BudgetError(
                "Nothing is left of the budget for further years. Run `dpcov ledger add-budget`, "
                "or plan for another ledger."
            )
        return found

    def needs_mu(self, budget: Budget) -> bool:
        """Return True if the ledger counts the noise of a release with this budget by its mu."""
        return self.rule.count == Count.GAUSSIAN and not isinstance(budget, PureDP)

    def by_year(self, budget: Budget) -> tuple[Year, ...]:
        """Return all years, if each year spends the same budget."""
        spend = Spend(budget, self._mu(budget) if self.needs_mu(budget) else None)
        found = []
        for year in range(1, self.years + 1):
            left = self.rule.largest_requests([*self.spends, *[spend] * year])
            alike = [one for one in left if isinstance(one, type(budget))]
            found.append(Year(year, budget, alike[0] if alike else None))
        return tuple(found)

    def _mu(self, budget: Budget) -> float:
        """Return the mu of Gaussian noise that uses all of a budget."""
        if isinstance(budget, ApproxDP):
            mu = root_up(drawn_mu_squared(budget.epsilon, budget.delta))
        elif isinstance(budget, ZCDP):
            mu = math.sqrt(2 * budget.rho)
        else:
            raise BudgetError("A release with pure differential privacy has no mu.")
        return math.nextafter(mu, 0.0)
