r"""The exact privacy loss of a mechanism between adversarial neighbours, beside what it claims.

A mechanism is run once on a made-up table, by a seed; what it publishes on the way fixes what it
asks next. Two tables that differ by one unit are then asked the same (`adversaries`), through the
one door, and the loss of each round is computed from the differences of their exact integers and
the laws of the noise (`rounds`). A few rows are common to both tables: sums add up, so they must
cancel. Two claims are held against it:

- The whole: the sum of all rounds is at most epsilon; at most rho; or, of Gaussian noise and
  (epsilon, delta), epsilon at delta by the exact curve (Balle and Wang 2018, Theorem 8).
- Each round: at most the share of the budget that the mechanism's options give it.

No pair may lose more, by more than `ROUNDING`, which nuclear norms and the exact curve take in
float64. That the largest loss is near the claim says that the pairs reach what the proof allows:
less noise or a smaller sensitivity, by one per cent, would show.
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

WHOLE = "all rounds"
ROUNDING = 2.0**-36
FEW, MANY = 1, 20_000  # rows of the tables that are released, so that looks show nothing, and much


@dataclass(frozen=True, slots=True)
class Worst:
    """The pair of the largest loss in a round, or in `WHOLE`, as a share of what is claimed."""

    round: str
    share: float
    pair: str


@dataclass(frozen=True, slots=True)
class Audit:
    """The largest losses: of the whole first, then of each kind of round."""

    mechanism: str
    budget: Budget
    neighbors: Neighbors
    pairs: int
    worst: tuple[Worst, ...]

    @property
    def violated(self) -> bool:
        """Whether some pair loses more than is claimed."""
        return any(found.share > 1 + ROUNDING for found in self.worst)

    def to_json(self) -> dict[str, Any]:
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
    """Find the largest exact loss between adversarial neighbours.

    Parameters
    ----------
    mechanism : what is audited, with its options.
    budget, neighbors : what it is asked to keep.
    columns : of the made-up tables.
    seed : of the releases, and of random rows.
    releases : on each table of each kind; of another seed each.
    candidates : rows of a release that are tried at least, random ones where others are fewer.

    Returns
    -------
    Audit

    Raises
    ------
    MechanismError
        The mechanism refuses the budget, or its rounds are not known.

    Examples
    --------
    >>> from dpcov.mechanisms import Gaussian
    >>> from dpcov.core.privacy import ZCDP
    >>> found = audit(Gaussian(), budget=ZCDP(0.5), neighbors=Neighbors.ADD_REMOVE)
    >>> found.violated, 0.999 < found.worst[0].share <= 1.0
    (False, True)

    """
    if isinstance(columns, bool) or not isinstance(columns, int) or not 3 <= columns <= 50:
        raise MechanismError(f"An audit needs 3 to 50 columns, not {columns!r}.")
    found = _Largest(budget)
    for setting in _accepted(mechanism, budget, neighbors, columns):
        for size, number in itertools.product((FEW, MANY), range(releases)):
            generator = simulation_generator(seed + number)
            rows = setting.rows(base(setting, size, generator))
            entropy = Entropy.seeded(seed + number)
            published = released(mechanism, rows, budget, neighbors, entropy)
            found.add(setting, published, neighbors, candidates, generator)
    return Audit(mechanism.name, budget, neighbors, found.pairs, found.worst())


def _accepted(
    mechanism: Mechanism, budget: Budget, neighbors: Neighbors, columns: int
) -> list[Setting]:
    """Settings that the mechanism takes; raises its refusal where it takes none."""
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
    """The largest losses so far."""

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
        """Those of pairs that are asked what one release asked."""
        questions = [one.question for one in published.rounds]
        common = base(setting, 2, generator)

        def answers(unit: Unit | None) -> list[Integers]:
            rows = setting.rows(common if unit is None else [*common, unit])
            return [one.of(rows) for one in published.rounds]

        told = {u.name: answers(u) for u in units(setting, questions, candidates, generator)}
        nobody = {"nothing": answers(None)}
        if neighbors == Neighbors.ADD_REMOVE:
            pairs = list(itertools.product(told.items(), nobody.items()))
        else:
            pairs = list(itertools.combinations(told.items(), 2))
        for (name, one), (other_name, other) in pairs:
            pair = f"{setting.name}: {name} / {other_name}"
            losses = [r.loss(a, b) for r, a, b in zip(published.rounds, one, other, strict=True)]
            self._note(WHOLE, sum(losses, Fraction(0)), published.whole, published, pair)
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
            Worst(name, self._stated(share, lost, kind) if name == WHOLE else float(share), pair)
            for name, (share, lost, kind, pair) in self._found.items()
        )

    def _stated(self, share: Fraction, lost: Fraction, is_gaussian: bool) -> float:
        """The same share in terms of the budget: of epsilon at delta, by the exact curve."""
        if not (is_gaussian and isinstance(self._budget, ApproxDP)):
            return float(share)
        return gdp_epsilon(math.sqrt(2 * lost), self._budget.delta) / self._budget.epsilon
