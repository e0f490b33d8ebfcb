r"""Exact privacy losses of a mechanism on pairs of adversarial neighbouring tables.

The audit runs a mechanism once on a simulated table with a seed. The published results of each
round determine the queries of the next round. The audit then sends the same queries to pairs of
tables that differ by one privacy unit (`adversaries`). It computes the loss of each round from the
exact integers and from the noise distributions (`rounds`). The two tables of a pair share a few
rows, whose contributions must cancel. The audit compares the losses with two claims:

- Total. The sum over all rounds is at most epsilon or rho. For Gaussian noise and an
  (epsilon, delta) budget, epsilon at delta comes from the exact curve (Balle and Wang 2018,
  Theorem 8).
- Each round. The loss is at most the fraction of the budget that the options give to the round.

A loss can exceed a claim by at most `MAX_RELATIVE_EXCESS`, because nuclear norms and the exact
curve use float64. The largest loss is close to the claim. The audit would therefore detect noise or
a sensitivity that is 1% too small.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from dpcov.api.auditing.adversaries import Setting, Unit, base, settings, units
from dpcov.api.auditing.rounds import released
from dpcov.core.accounting import gdp_epsilon
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.errors import MechanismError
from dpcov.rows.moment import Lattice

if TYPE_CHECKING:
    import numpy as np

    from dpcov.api.auditing.rounds import Integers, Published
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms import Mechanism

# Name of the sum over all rounds in the results.
TOTAL_NAME = "all rounds"
# Largest relative excess of a loss over its claim, from rounding in float64.
MAX_RELATIVE_EXCESS = 2.0**-36
# Numbers of rows of the released tables. In the small table, the noise hides all results of the
# pilot query. In the large table, the pilot query has precise results.
SMALL_TABLE_ROWS, LARGE_TABLE_ROWS = 1, 20_000


@dataclass(frozen=True, slots=True)
class Worst:
    """Pair of tables with the largest loss in a round, or in the sum over all rounds.

    Attributes
    ----------
    round : str
        Name of the round, or `TOTAL_NAME`.

    share : float
        Loss divided by the claim.

    pair : str
        Description of the two tables.

    """

    round: str
    share: float
    pair: str


@dataclass(frozen=True, slots=True)
class Audit:
    """Largest privacy losses that an audit found.

    Attributes
    ----------
    mechanism : str
        Name of the mechanism.

    budget : Budget
        Claimed budget.

    neighbors : Neighbors
        Relation between neighbouring tables.

    pairs : int
        Number of pairs of tables.

    worst : tuple of Worst
        Largest loss in total, followed by the largest loss in each round.

    """

    mechanism: str
    budget: Budget
    neighbors: Neighbors
    pairs: int
    worst: tuple[Worst, ...]

    @property
    def violated(self) -> bool:
        """True if the loss of some pair exceeds a claim."""
        return any(found.share > 1 + MAX_RELATIVE_EXCESS for found in self.worst)

    def to_json(self) -> dict[str, Any]:
        """Return the audit as plain data for JSON."""
        return {
            "mechanism": self.mechanism,
            "budget": {name: getattr(self.budget, name) for name in self.budget.__slots__},
            "neighbors": str(self.neighbors),
            "pairs": self.pairs,
            "largest_loss_over_claim": self.worst[0].share,
            "violated": self.violated,
            "worst": [
                {name: getattr(found, name) for name in Worst.__slots__} for found in self.worst
            ],
        }


def audit(
    mechanism: Mechanism,
    *,
    budget: Budget,
    neighbors: Neighbors,
    columns: int = 4,
    seed: int = 1,
    releases: int = 1,
    candidates: int = 0,
) -> Audit:
    """Find the largest exact privacy loss between adversarial neighbouring tables.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism with its options.

    budget : Budget
        Budget that the mechanism claims to keep.

    neighbors : Neighbors
        Relation between neighbouring tables.

    columns : int, default 4
        Number of columns of the simulated tables, from 3 to 50.

    seed : int, default 1
        Seed of the releases and of the random rows.

    releases : int, default 1
        Number of releases for each simulated table, each with its own seed.

    candidates : int, default 0
        Smallest number of rows that the audit compares for each release. The audit adds random rows
        to reach this number.

    Returns
    -------
    Audit
        Largest losses in total and in each round.

    Raises
    ------
    MechanismError
        The mechanism refuses the budget, or the audit has no exact loss for the mechanism.

    Examples
    --------
    >>> from dpcov.mechanisms import Gaussian
    >>> from dpcov.core.privacy import ZCDP
    >>> found = audit(Gaussian(), budget=ZCDP(0.5), neighbors=Neighbors.ADD_REMOVE)
    >>> found.violated, 0.999 < found.worst[0].share <= 1.0
    (False, True)

    """
    if isinstance(columns, bool) or not isinstance(columns, int) or not 3 <= columns <= 50:
        raise MechanismError(
            f"The number of columns is {columns!r}, but an audit needs 3 to 50. Change columns."
        )
    found = _Largest(budget)
    for setting in _accepted(mechanism, budget, neighbors, columns):
        for size, number in itertools.product(
            (SMALL_TABLE_ROWS, LARGE_TABLE_ROWS), range(releases)
        ):
            generator = simulation_generator(seed + number)
            rows = setting.rows(base(setting, size, generator))
            entropy = Entropy.seeded(seed + number)
            published = released(mechanism, rows, budget, neighbors, entropy)
            found.add(setting, published, neighbors, candidates, generator)
    return Audit(mechanism.name, budget, neighbors, found.pairs, found.worst())


def _accepted(
    mechanism: Mechanism, budget: Budget, neighbors: Neighbors, columns: int
) -> list[Setting]:
    """Return the settings that the mechanism accepts, or raise its error if it accepts none."""
    taken, refusal = [], None
    for setting in settings(columns):
        try:
            mechanism.calibrate(Lattice.of(setting.schema()), budget, neighbors)
            taken.append(setting)
        except MechanismError as error:
            refusal = error
    if refusal is not None and not taken:
        raise refusal
    return taken


class _Largest:
    """Largest losses of the pairs so far."""

    def __init__(self, budget: Budget) -> None:
        self.pairs = 0
        self._budget = budget
        self._found: dict[str, tuple[Fraction, Fraction, bool, str]] = {}

    def add(
        self,
        setting: Setting,
        published: Published,
        neighbors: Neighbors,
        candidates: int,
        generator: np.random.Generator,
    ) -> None:
        """Add the losses of all pairs for the queries of one release."""
        questions = [one.question for one in published.rounds]
        common = base(setting, 2, generator)

        def answers(unit: Unit | None) -> list[Integers]:
            rows = setting.rows(common if unit is None else [*common, unit])
            return [one.of(rows) for one in published.rounds]

        found = {u.name: answers(u) for u in units(setting, questions, candidates, generator)}
        nobody = {"no unit": answers(None)}
        if neighbors == Neighbors.ADD_REMOVE:
            pairs = list(itertools.product(found.items(), nobody.items()))
        else:
            pairs = list(itertools.combinations(found.items(), 2))
        for (name, one), (other_name, other) in pairs:
            pair = f"{setting.name}: {name} / {other_name}"
            losses = [r.loss(a, b) for r, a, b in zip(published.rounds, one, other, strict=True)]
            self._note(TOTAL_NAME, sum(losses, Fraction(0)), published.whole, published, pair)
            for spent, lost in zip(published.rounds, losses, strict=True):
                self._note(spent.name, lost, spent.spends, published, pair)
        self.pairs += len(pairs)

    def _note(
        self, name: str, lost: Fraction, spends: Fraction, published: Published, pair: str
    ) -> None:
        share = lost / spends
        if name not in self._found or self._found[name][0] < share:
            self._found[name] = share, lost, published.is_gaussian, pair

    def worst(self) -> tuple[Worst, ...]:
        return tuple(
            Worst(
                name, self._stated(share, lost, kind) if name == TOTAL_NAME else float(share), pair
            )
            for name, (share, lost, kind, pair) in self._found.items()
        )

    def _stated(self, share: Fraction, lost: Fraction, is_gaussian: bool) -> float:
        """Return a loss divided by its claim, with epsilon at delta from the exact curve."""
        if not (is_gaussian and isinstance(self._budget, ApproxDP)):
            return float(share)
        return gdp_epsilon(math.sqrt(2 * lost), self._budget.delta) / self._budget.epsilon
