"""Random sequences of releases, each with the noise that dpcov would draw for it.

A mix compares the count of a ledger with an accountant that shares no code with dpcov. The
accountant is the numerical composition of dp-accounting, for the variances of the drawn noise.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

from dp_accounting.pld import common, privacy_loss_distribution

from dpcov.core.ledger_rule import Count, Rule, Spend
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP, Unit, round_up
from dpcov.core.privacy_filter import total
from dpcov.mechanisms import Gaussian, additive, count
from dpcov.mechanisms.count import WithCount
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION
from dpcov.rows.moment import Lattice
from dpcov.rows.pilot_sensitivity import pilot_sensitivities

GRID = 2.0**-12  # width of the grid of privacy losses
STEP = 2.0**-6  # pure epsilons are multiples, so that they lie on the grid
MECHANISMS = (Gaussian(), Gaussian(radius="private"), BY_COLUMN, BY_DIRECTION)


class Part(NamedTuple):
    """Part of a release with its noise, and how much one privacy unit can change the part.

    Parameters
    ----------
    law : ScalarLaw or MatrixLaw
        Noise distribution.

    absolute, squared : Fraction
        Largest change in the norm of Laplace noise (l1 or nuclear), and in the squared l2 norm.

    """

    law: Any
    absolute: Fraction
    squared: Fraction


@dataclass(frozen=True)
class Drawn:
    """One release: what the ledger sees, and the mu of the noise as it is drawn.

    Parameters
    ----------
    spend : Spend
        Cost that the ledger sees.

    mu : float
        Root of the sum over the rounds of (sensitivity / standard deviation)^2.

    """

    spend: Spend
    mu: float


def calibrated(mechanism: Any, lattice: Lattice, budget: Budget, relation: Neighbors) -> WithCount:
    """Calibrate a release for a ledger that counts Gaussian noise."""
    return count.calibrated(mechanism, lattice, budget, relation, 1, with_mu=True)


def parts(laws: WithCount, lattice: Lattice, path: int = 0) -> Iterator[Part]:
    """Yield each part that a release publishes on one branch."""
    relation, rows = laws.guarantee.neighbors, Fraction(lattice.unit.max_rows)
    if laws.count is not None:
        yield Part(laws.count, rows, rows**2)
    made: Any = laws.laws
    if isinstance(made, additive.Calibration):
        yield from _parts_of_matrix(made, lattice, relation)
        return
    squared, absolute = pilot_sensitivities(lattice, relation)
    yield Part(made.look, Fraction(absolute), Fraction(squared))
    yield Part(made.counts, relation.sides * rows, relation.sides * rows**2)
    branch = made.paths[path % len(made.paths)]
    for round_ in (branch.directions, branch.final):
        if round_ is not None:
            yield from _parts_of_matrix(round_, lattice.relative(), relation)


def _parts_of_matrix(
    made: additive.Calibration, lattice: Lattice, relation: Neighbors
) -> Iterator[Part]:
    at = lattice if made.counts is None else lattice.relative()
    bound = Fraction(at.unit_bound)
    yield Part(
        made.matrix, Fraction(at.nuclear(relation)), Fraction(at.frobenius_squared(relation))
    )
    # Under replace-one the bound for the matrix covers the trace, whose noise is the same.
    if made.trace is not None and relation == Neighbors.ADD_REMOVE:
        yield Part(made.trace, bound, bound**2)
    if made.counts is not None:
        rows = Fraction(at.unit.max_rows)
        yield Part(made.counts, relation.sides * rows, relation.sides * rows**2)


def rounds(laws: WithCount, lattice: Lattice, path: int = 0) -> Iterator[tuple[Fraction, Fraction]]:
    """Yield the squared sensitivity and the drawn variance of each part with Gaussian noise."""
    for part in parts(laws, lattice, path):
        yield part.squared, part.law.variance


def drawn(laws: WithCount, lattice: Lattice, path: int = 0) -> Drawn:
    """Return a release with the mu of its noise, from the variances alone."""
    square = sum(Fraction(change) / variance for change, variance in rounds(laws, lattice, path))
    return Drawn(Spend(laws.guarantee.budget, laws.mu), math.sqrt(square))


def release(chance: random.Random, largest_epsilon: float = 1.0, rho_share: float = 0.0) -> Drawn:
    """Calibrate a random Gaussian release."""
    lattice = Lattice(
        chance.randint(1, 20), 1.0, chance.choice([0.3, 0.5]), Unit("id", chance.choice([1, 1, 3]))
    )
    epsilon = round(math.exp(chance.uniform(math.log(0.03), math.log(largest_epsilon))), 4)
    budget: Budget = ApproxDP(epsilon, 10.0 ** round(chance.uniform(-12, -7), 2))
    if chance.random() < rho_share:
        budget = ZCDP(round(epsilon**2 / 30, 6))
    relation = chance.choice(list(Neighbors))
    laws = calibrated(chance.choice(MECHANISMS), lattice, budget, relation)
    return drawn(laws, lattice, chance.randint(0, 9))


def pure_release(chance: random.Random, largest_epsilon: float = 0.5) -> Drawn:
    """Return a random pure release, in the worst case: randomised response."""
    epsilon = STEP * chance.randint(1, int(largest_epsilon / STEP))
    return Drawn(Spend(PureDP(epsilon)), 0.0)


def composed(releases: Sequence[Drawn], *, pessimistic: bool) -> Any:
    """Compose releases with dp-accounting, and round losses up or down to the grid."""
    whole: Any = None
    for one in releases:
        part = _distribution(one, pessimistic)
        whole = part if whole is None else whole.compose(part)
    return whole


def _distribution(one: Drawn, pessimistic: bool) -> Any:
    if one.mu > 0:
        return privacy_loss_distribution.from_gaussian_mechanism(
            1 / one.mu,
            value_discretization_interval=GRID,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,  # dp-accounting has no such estimate from below
        )
    assert isinstance(one.spend.budget, PureDP)
    stated = common.DifferentialPrivacyParameters(one.spend.budget.epsilon)
    return privacy_loss_distribution.from_privacy_parameters(
        stated, value_discretization_interval=GRID
    )


def tight_epsilon(releases: Sequence[Drawn], delta: float) -> float:
    """Return a lower bound on the epsilon of the releases at a delta."""
    return float(composed(releases, pessimistic=False).get_epsilon_for_delta(delta))


def largest_delta(releases: Sequence[Drawn], epsilon: float) -> float:
    """Return an upper bound on the delta of the releases at an epsilon."""
    return float(composed(releases, pessimistic=True).get_delta_for_epsilon(epsilon))


@dataclass(frozen=True)
class Counted:
    """Count of a mix by a ledger, beside other counts at the same delta.

    Parameters
    ----------
    count : float
        Epsilon that the ledger counts.

    tight : float
        Epsilon by dp-accounting, from the drawn noise.

    plain : float
        Sum of the stated epsilons.

    orders : frozenset of float
        Counts of the same releases in other orders.

    """

    count: float
    tight: float
    plain: float
    orders: frozenset[float]


def gaussian_mix(chance: random.Random) -> Counted:
    """Count a random mix of Gaussian releases at the sum of their deltas."""
    mix = [release(chance) for _ in range(chance.randint(1, 12))]
    stated = [one.spend.budget for one in mix]
    assert all(isinstance(budget, ApproxDP) for budget in stated)
    epsilon, delta = (round_up(total(stated, name)) for name in ("epsilon", "delta"))
    rule = Rule(ApproxDP(epsilon, delta), Count.GAUSSIAN)

    def counted(order: Sequence[Drawn]) -> float:
        return float(rule.balance([one.spend for one in order]).spent["epsilon"])

    orders = frozenset(counted(chance.sample(mix, len(mix))) for _ in range(5))
    return Counted(counted(mix), tight_epsilon(mix, delta), epsilon, orders)


@dataclass(frozen=True)
class Spent:
    """Delta of all releases that a ledger admitted, at the epsilon of its budget.

    Parameters
    ----------
    used : float
        Largest delta of the admitted releases, as a fraction of the delta of the budget.

    without_reserve : float
        The same for a ledger that does not subtract the reserve. A control.

    """

    used: float
    without_reserve: float


def pure_mix(chance: random.Random) -> Spent:
    """Fill a random ledger with a reserve with Gaussian and pure releases."""
    pure = STEP * chance.randint(4, 64)
    budget = ApproxDP(pure + round(chance.uniform(0.3, 3.0), 2), 10.0 ** chance.randint(-8, -4))
    stream = [
        pure_release(chance, pure) if chance.random() < 0.4 else release(chance, 1.5, rho_share=0.2)
        for _ in range(25)
    ]
    rule = Rule(budget, Count.GAUSSIAN, pure)
    taken = _admitted(stream, rule.admits)

    def careless(spends: list[Spend]) -> bool:
        parts = [one for one in spends if one.mu], [one for one in spends if not one.mu]
        return Rule(budget, Count.GAUSSIAN).admits(parts[0]) and Rule(PureDP(pure)).admits(parts[1])

    largest = (
        largest_delta(taken, budget.epsilon),
        largest_delta(_admitted(stream, careless), budget.epsilon),
    )
    return Spent(largest[0] / budget.delta, largest[1] / budget.delta)


def _admitted(stream: Sequence[Drawn], admits: Callable[[list[Spend]], bool]) -> list[Drawn]:
    """Return the releases that a filter admits, one after the other."""
    taken: list[Drawn] = []
    for one in stream:
        if admits([*(other.spend for other in taken), one.spend]):
            taken.append(one)
    return taken
