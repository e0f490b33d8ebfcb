"""The rule by which a ledger counts releases. A rule is chosen once and never changes.

A rule is a privacy filter (`dpcov.core.privacy_filter`). The smaller of two filters is no filter:
an adversary could use one of them after some results, and the other one after other results
(docs/proofs/ledger.md, section 6). A ledger therefore has one rule, which does not depend on the
requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from enum import StrEnum
from fractions import Fraction

from dpcov.core.accounting import drawn_epsilon, drawn_mu_squared, root_up
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    exact,
    gaussian_delta,
    round_down,
    zcdp_epsilon,
)
from dpcov.core.privacy_filter import Balance, admits, balance, total
from dpcov.errors import BudgetError

# Smallest epsilon for Gaussian releases. The proof (docs/proofs/ledger.md, section 6) then allows
# 5e14 drawn integers, more than a ledger file can count.
MIN_GAUSSIAN_EPSILON = 1e-6
# Significant digits of a remaining amount that results from a search. Fewer digits are easier to
# type. Source: chosen.
SEARCHED_DIGITS = 6
# Range of the epsilon and of the rho that a search considers. Source: chosen.
SMALLEST_REQUEST, LARGEST_REQUEST = 1e-12, 1e12
# Kinds of requests, besides its own kind, that a budget accepts.
_OTHER_KINDS: dict[type[Budget], tuple[type[PureDP | ZCDP], ...]] = {
    PureDP: (),
    ZCDP: (PureDP,),
    ApproxDP: (PureDP, ZCDP),
}


class Count(StrEnum):
    """How a ledger counts releases.

    ``SUMS`` adds up epsilons, deltas and rhos. ``GAUSSIAN`` adds up the mu^2 of Gaussian noise,
    which allows more releases within the same (epsilon, delta).
    """

    SUMS = "sums"
    GAUSSIAN = "gaussian"


@dataclass(frozen=True, slots=True)
class Spend:
    """Cost of one release.

    Attributes
    ----------
    budget : Budget
        Budget of the guarantee.

    mu : float or None
        Mu of the drawn noise, if all of it is Gaussian. The calibration sets it. It never follows
        from the budget, because other mechanisms with the same budget have no mu.

    """

    budget: Budget
    mu: float | None = None


@dataclass(frozen=True, slots=True)
class Rule:
    """Total budget of a data set and the way to count releases.

    Parameters
    ----------
    budget : Budget
        Total budget.

    count : Count
        How the ledger counts. ``GAUSSIAN`` needs a budget of epsilon and delta.

    pure : float
        Part of epsilon that is reserved for releases with pure differential privacy. Only for
        ``GAUSSIAN``, which counts the other releases within the rest of epsilon.

    """

    budget: Budget
    count: Count = Count.SUMS
    pure: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", Count(self.count))
        if self.count == Count.SUMS:
            if self.pure:
                raise BudgetError("A reserve for pure releases needs the count gaussian.")
            return
        if not isinstance(self.budget, ApproxDP):
            raise BudgetError(
                "The count gaussian needs a budget of epsilon and delta. Add --delta, or use "
                "--count sums."
            )
        if self.pure:
            PureDP(self.pure)  # refuses a number that is not above 0
        if self._gaussian_epsilon < MIN_GAUSSIAN_EPSILON:
            raise BudgetError(
                f"The reserve leaves less than {MIN_GAUSSIAN_EPSILON:g} of epsilon for Gaussian "
                "releases. Use a larger epsilon or a smaller reserve."
            )

    @property
    def _gaussian_epsilon(self) -> float:
        """Part of epsilon for Gaussian releases."""
        whole = getattr(self.budget, "epsilon", 0.0)
        return round_down(exact(whole) - exact(self.pure))

    @property
    def mu_squared(self) -> Fraction | None:
        """Largest total of mu^2 under the count gaussian. None for other counts."""
        if self.count == Count.SUMS or not isinstance(self.budget, ApproxDP):
            return None
        return drawn_mu_squared(self._gaussian_epsilon, self.budget.delta)

    def balance(self, spends: Sequence[Spend]) -> Balance:
        """Return the total of releases and the budget that remains.

        Parameters
        ----------
        spends : sequence of Spend
            Costs of the releases, oldest first.

        Returns
        -------
        Balance
            Total and remaining amounts. Under the count gaussian, epsilon is the value at the delta
            of the budget. The remaining epsilon is for one Gaussian release with this delta.

        Raises
        ------
        BudgetError
            The rule cannot count a release.

        """
        if self.count == Count.SUMS or not isinstance(self.budget, ApproxDP):
            return balance(self.budget, [spend.budget for spend in spends])
        if any(self.refusal(spend) for spend in spends):
            raise BudgetError("The ledger contains a release that it cannot count.")
        pure = total([spend.budget for spend in spends if spend.mu is None], "epsilon")
        mus = [Fraction(spend.mu) ** 2 for spend in spends if spend.mu is not None]
        return self._gaussian_balance(self.budget.delta, sum(mus, Fraction(0)), pure)

    def admits(self, spends: Sequence[Spend]) -> bool:
        """Return True if the releases keep the budget."""
        try:
            if self.count == Count.SUMS:
                return admits(self.budget, [spend.budget for spend in spends])
            return self.balance(spends).admitted
        except BudgetError:  # a cost overflows
            return False

    def _gaussian_balance(self, delta: float, used: Fraction, pure: Fraction) -> Balance:
        """Return the balance of Gaussian releases with the total mu^2 `used` (proof 6)."""
        most = self.mu_squared or Fraction(0)
        whole, left = exact(self._gaussian_epsilon), most - used
        epsilon, rest = Fraction(0), whole
        if used:
            epsilon = exact(drawn_epsilon(root_up(used), delta))
            epsilon = min(epsilon, whole) if left >= 0 else epsilon
            rest = exact(_epsilon_within(left, delta))
        reserve = {"pure": pure} if self.pure else {}
        unused = {"pure": exact(self.pure) - pure} if self.pure else {}
        return Balance(
            {
                "epsilon": epsilon + pure,
                "delta": exact(delta) if used else Fraction(0),
                "mu_squared": used,
                **reserve,
            },
            {"epsilon": rest, "delta": exact(delta), "mu_squared": left, **unused},
        )

    def refusal(self, spend: Spend) -> str | None:
        """Return why the rule cannot count a release of this kind, with a remedy, or None.

        Parameters
        ----------
        spend : Spend
            Cost of a release.

        Returns
        -------
        str or None
            Sentences for a message.

        """
        if self.count == Count.SUMS or spend.mu is not None:
            return None
        if not isinstance(spend.budget, PureDP):
            return (
                "The noise of this release has no mu, so a ledger with --count gaussian cannot "
                "count it. Choose --mechanism auto, gaussian or standardized, or use a ledger with "
                "--count sums."
            )
        if not self.pure:
            return (
                "This ledger counts Gaussian noise and has no reserve for pure releases. Add "
                "--delta or use --rho, or create a ledger with --pure."
            )
        return None

    def largest_requests(self, spends: Sequence[Spend], times: int = 1) -> tuple[Budget, ...]:
        """Return the largest budget of each kind that the rule still accepts.

        Parameters
        ----------
        spends : sequence of Spend
            Costs of the releases, oldest first.

        times : int, default 1
            Number of further releases that all have this budget.

        Returns
        -------
        tuple of Budget
            One budget of each kind, of which you can request one. A kind of which nothing is left
            is missing.

        """
        parts = self.balance(spends).left
        if self.count == Count.GAUSSIAN and times > 1:
            delta = round_down(parts["delta"])
            parts = {name: part / times for name, part in parts.items()}
            parts |= {"epsilon": exact(_epsilon_within(parts["mu_squared"], delta))}
            parts |= {"delta": exact(delta)}
        left = {name: round_down(part) for name, part in parts.items()}
        if self.count == Count.GAUSSIAN:
            return self._largest_gaussian(left)
        budgets = [spend.budget for spend in spends]

        def fits(more: Budget) -> bool:
            return admits(self.budget, [*budgets, *[more] * times])

        found: list[Budget] = []
        if min(left.values()) > 0:
            own = self._largest_own(left, fits) if times == 1 else self._repeated(left, times, fits)
            found.append(own)
        if left.get("epsilon", 1.0) > 0:
            kinds = _OTHER_KINDS[type(self.budget)]
            found += [kind(most) for kind in kinds if (most := _largest(kind, fits)) > 0]
        return tuple(found)

    def _largest_own(self, left: dict[str, float], fits: Callable[[Budget], bool]) -> Budget:
        """Return the largest request of the kind of the budget under the count sums."""
        if not isinstance(self.budget, ApproxDP):
            return type(self.budget)(**left)
        # After a rho, a release can cost less than its epsilon (proof 5).
        delta = left["delta"]
        searched = _largest(lambda epsilon: ApproxDP(epsilon, delta), fits)
        return ApproxDP(max(left["epsilon"], searched), delta)

    def _repeated(
        self, left: dict[str, float], times: int, fits: Callable[[Budget], bool]
    ) -> Budget:
        """Return the largest request of the kind of the budget that several releases can have."""
        if not isinstance(self.budget, ApproxDP):
            kind = type(self.budget)
            return kind(_largest(kind, fits))
        delta = _short(left["delta"] / times)
        return ApproxDP(_largest(lambda epsilon: ApproxDP(epsilon, delta), fits), delta)

    def _largest_gaussian(self, left: dict[str, float]) -> tuple[Budget, ...]:
        """Return the largest requests under the count gaussian."""
        found: list[Budget] = []
        if left["epsilon"] > 0:
            found.append(ApproxDP(left["epsilon"], left["delta"]))
        if (rho := _short(left["mu_squared"] / 2)) > 0:
            found.append(ZCDP(rho))
        if left.get("pure", 0.0) > 0:
            found.append(PureDP(left["pure"]))
        return tuple(found)

    def epsilon_left(self, spends: Sequence[Spend], delta: float) -> float:
        """Return the largest epsilon of one more Gaussian release with a delta of its own.

        Parameters
        ----------
        spends : sequence of Spend
            Costs of the releases, oldest first.

        delta : float
            Delta of the next release.

        Returns
        -------
        float
            Largest epsilon, rounded down. 0 if nothing is left.

        """
        return _epsilon_within(self.balance(spends).left["mu_squared"], delta)


def epsilon_at(spend: Spend, delta: float) -> float | None:
    """Return the epsilon of a release at a delta, from the noise that was drawn.

    Parameters
    ----------
    spend : Spend
        Cost of the release.

    delta : float
        Delta of the result.

    Returns
    -------
    float or None
        Epsilon, rounded up. None if only a larger delta is known.

    """
    if spend.mu is not None:
        return drawn_epsilon(spend.mu, delta)
    match spend.budget:
        case PureDP(epsilon):
            return epsilon
        case ZCDP(rho):
            return zcdp_epsilon(rho, delta)
        case ApproxDP(epsilon, own):
            return epsilon if own <= delta else None


def _epsilon_within(mu_squared: Fraction, delta: float) -> float:
    """Return a short decimal epsilon whose Gaussian noise has at most this mu^2."""
    mu = math.sqrt(max(mu_squared, Fraction(0)))
    if mu <= 0 or gaussian_delta(mu, 0.0) < delta:  # every epsilon above 0 needs a larger mu
        return 0.0
    epsilon = _short(drawn_epsilon(root_up(mu_squared), delta))
    while epsilon > 0 and drawn_mu_squared(epsilon, delta) > mu_squared:
        epsilon = _short(epsilon * (1 - 10.0**-SEARCHED_DIGITS))
    return epsilon


def _largest(kind: Callable[[float], Budget], fits: Callable[[Budget], bool]) -> float:
    """Return the largest amount of a kind that fits, as a short decimal."""
    low, high = 0.0, SMALLEST_REQUEST
    while fits(kind(high)) and high < LARGEST_REQUEST:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if fits(kind(middle)) else (low, middle)
    return _short(low)


def _short(value: float) -> float:
    """Return a positive number rounded down to `SEARCHED_DIGITS` significant digits."""
    if value <= 0:
        return 0.0
    number = Decimal(repr(value))
    unit = Decimal(1).scaleb(number.adjusted() - SEARCHED_DIGITS + 1)
    return float(number.quantize(unit, ROUND_DOWN))
