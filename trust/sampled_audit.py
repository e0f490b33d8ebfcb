r"""Empirical lower bounds on the privacy loss of a mechanism.

The audit runs a mechanism many times on two tables that differ in a worst-case way. Both tables
pass through the ordinary reader, with the mechanism's own calibration, samplers and publication.
One half of the outputs chooses a statistic and an event {statistic >= t}. The other half bounds the
event's two probabilities: p on one table from below, and q on the other table from above (Clopper
and Pearson 1934). The confidence is 99.9% for all pairs together. The loss has these lower bounds:

- epsilon-DP: epsilon >= ln(p / q).
- (epsilon, delta)-DP: epsilon >= ln((p - delta) / q).
- Gaussian noise, calibrated by rho or by the exact curve, is mu-GDP: mu >= Phi^-1(p) - Phi^-1(q)
  (Dong, Roth and Su 2022). Near the middle of the two distributions this bound needs no rare event,
  so the audit detects noise that is 3% too small. The number mu determines the budget:
  rho = mu^2 / 2, or epsilon at delta.

If m rows differ instead of one, group privacy allows m times the loss, and a small budget is easier
to measure. The pairs differ by one row, or by as many rows as bring the claim near `EASIEST`. Every
bound is stated for one row.

A bound above the claim shows a violation. One below shows none; `Audit.resolution` says how much
larger a loss would have been seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.core.accounting import gdp_epsilon
from dpcov.core.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, gaussian_mu
from dpcov.errors import MechanismError
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from sampled_outputs import Outputs, outputs, statistics

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.mechanisms import Mechanism
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows

    Matrix = NDArray[np.float64]
    Vector = NDArray[np.float64]

CONFIDENCE = 0.999
EASIEST = 2.5  # epsilon or mu at which a given number of runs resolves the smallest share of it
FEWEST_RUNS = 100
LARGEST_GROUP = 10_000
QUANTILES = np.concatenate([np.geomspace(1e-6, 0.02, 60), np.linspace(0.025, 0.5, 40)])


@dataclass(frozen=True, slots=True)
class Pair:
    """Two tables, of which `group` rows differ; their numbers lie in [-1, 1], the radius is 1."""

    name: str
    one: Matrix
    other: Matrix
    group: int
    intercept: float = 0.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a mechanism claims for one row: `value` of ``epsilon`` (at `delta`) or of ``mu``."""

    measure: str
    value: float
    delta: float = 0.0

    def shown(self, p: Vector, q: Vector) -> Vector:
        """Lower bounds on the loss, from bounds p below and q above on an event's probabilities."""
        from scipy.special import ndtri

        with np.errstate(divide="ignore", invalid="ignore"):
            if self.measure == "mu":
                found = ndtri(p) - ndtri(q)
            else:
                found = np.log(np.maximum(p - self.delta, 0.0)) - np.log(q)
        shown: Vector = np.nan_to_num(found, nan=-np.inf, posinf=np.inf, neginf=-np.inf)
        return shown

    def budget(self, value: float, guarantee: Guarantee) -> dict[str, float]:
        """Convert `value` of the measure to the parameters of the guarantee."""
        stated = guarantee.budget
        if isinstance(stated, ZCDP):
            return {"rho": max(0.0, value) ** 2 / 2}
        if isinstance(stated, ApproxDP):
            epsilon = value if self.measure == "epsilon" else gdp_epsilon(value, stated.delta)
            return {"epsilon": epsilon, "delta": stated.delta}
        return {"epsilon": value}


@dataclass(frozen=True, slots=True)
class Finding:
    """The best bound for one pair, stated for one row, and the statistic that gave it."""

    pair: str
    columns: int
    group: int
    statistic: str
    bound: float


@dataclass(frozen=True, slots=True)
class Audit:
    """Bounds for all pairs; `runs` counts those on each table of a pair."""

    mechanism: str
    guarantee: Guarantee
    claim: Claim
    runs: int
    findings: tuple[Finding, ...]

    @property
    def bound(self) -> float:
        """The largest lower bound on the loss; never below 0."""
        return max(0.0, *(finding.bound for finding in self.findings))

    @property
    def violated(self) -> bool:
        """True if the audit refutes the claim, with 99.9% confidence."""
        return self.bound > self.claim.value

    @property
    def resolution(self) -> float:
        """A loss larger than the claim by this share of it would have been seen."""
        return max(0.0, self.claim.value / self.bound - 1) if self.bound > 0 else math.inf

    def to_json(self) -> dict[str, Any]:
        """Return all figures; a resolution of None means that the audit can notice nothing."""
        resolution = None if math.isinf(self.resolution) else self.resolution
        return {
            "mechanism": self.mechanism,
            "guarantee": self.guarantee.in_words(),
            "measure": self.claim.measure,
            "claim": self.claim.value,
            "bound": self.bound,
            "claimed_budget": self.claim.budget(self.claim.value, self.guarantee),
            "bound_on_budget": self.claim.budget(self.bound, self.guarantee),
            "confidence": CONFIDENCE,
            "runs": self.runs,
            "violated": self.violated,
            "resolution": resolution,
            "pairs": [
                {name: getattr(finding, name) for name in Finding.__slots__}
                for finding in self.findings
            ],
        }


def audit(
    mechanism: Mechanism,
    *,
    budget: Budget,
    neighbors: Neighbors,
    runs: int,
    entropy: Entropy,
    columns: int = 2,
    intercept: float = 0.0,
    open_table: Callable[[Matrix, Schema], Rows] = open_rows,
) -> Audit:
    """Bound the privacy loss of a mechanism from below.

    Arguments:

    - `mechanism`: the mechanism to audit, with its options.
    - `budget`, `neighbors`: the guarantee that the mechanism claims.
    - `runs`: the number of runs on each table of a pair.
    - `entropy`: the source of the mechanism's noise.
    - `columns`: the number of columns of most pairs; some pairs have one column.
    - `intercept`: the intercept of all tables. If 0, a table has an intercept only if its worst
      case needs one.
    - `open_table`: the function that opens a table. Replace `open_rows` only to audit a broken
      reader.

    Returns
    -------
    Audit

    Raises
    ------
    MechanismError
        The mechanism refuses the budget, or there are too few runs.

    """
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < FEWEST_RUNS:
        raise MechanismError(f"An audit needs at least {FEWEST_RUNS} runs, not {runs!r}.")
    if isinstance(columns, bool) or not isinstance(columns, int) or not 2 <= columns <= 50:
        raise MechanismError(f"An audit needs 2 to 50 columns, not {columns!r}.")
    lattice = open_table(np.zeros((1, columns)), _schema(columns, intercept)).lattice()
    guarantee = mechanism.calibrate(lattice, budget, neighbors).guarantee
    claim = claim_of(mechanism, lattice, guarantee)
    pairs = list(pairs_of(columns, neighbors, groups_of(claim)))

    def found(pair: Pair) -> Finding:
        schema = _schema(pair.one.shape[1], intercept or pair.intercept)
        one, other = (
            outputs(
                mechanism,
                lambda values: open_table(values, schema),
                table,
                budget=budget,
                neighbors=neighbors,
                runs=runs,
                entropy=entropy,
            )
            for table in (pair.one, pair.other)
        )
        statistic, bound = lower_bound(one, other, claim, (1 - CONFIDENCE) / len(pairs))
        return Finding(pair.name, pair.one.shape[1], pair.group, statistic, bound / pair.group)

    return Audit(mechanism.name, guarantee, claim, runs, tuple(map(found, pairs)))


def claim_of(mechanism: Mechanism, lattice: Lattice, guarantee: Guarantee) -> Claim:
    """Return the claim in the measure that resolves it best.

    Mechanisms for rho consist of Gaussian mechanisms. For (epsilon, delta), the exact curve
    calibrates them, so their claim is mu-GDP.
    """
    budget = guarantee.budget
    match budget:
        case PureDP(epsilon):
            return Claim("epsilon", epsilon)
        case ZCDP(rho):
            return Claim("mu", math.sqrt(2 * rho))
        case ApproxDP(epsilon, delta):
            try:
                mechanism.calibrate(lattice, ZCDP(1.0), guarantee.neighbors)
            except MechanismError:
                return Claim("epsilon", epsilon, delta)
            return Claim("mu", gaussian_mu(epsilon, delta))


def groups_of(claim: Claim) -> list[int]:
    """Return the numbers of rows by which tables differ; with a delta, groups would cost more."""
    if claim.delta:
        return [1]
    return sorted({1, min(LARGEST_GROUP, max(1, round(EASIEST / claim.value)))})


def pairs_of(columns: int, neighbors: Neighbors, groups: list[int]) -> Iterator[Pair]:
    """Return pairs of tables that differ as much as one row allows, for every kind of noise.

    These pairs reach the sensitivities:

    - one row of full norm against no row, and a row against an orthogonal row;
    - a row at the origin, for the trace;
    - rows with equal entries, or rotated by half the angle of tangent 1/sqrt(2), for a weighted
      entrywise norm (`Laplace` has the formulas).

    A row longer than the clipping radius checks the clipping.
    """
    axes = np.eye(columns)
    first, second = axes[:1], axes[1:2]
    nothing, origin = np.empty((0, columns)), np.zeros((1, columns))
    equal, single = np.ones((1, columns)), np.ones((1, 1))
    angle = math.atan(math.sqrt(0.5)) / 2
    turned = math.cos(angle) * first + math.sin(angle) * second
    across = math.cos(angle) * second - math.sin(angle) * first
    differ: dict[str, tuple[Matrix, Matrix, Matrix, float]]  # rows of one, of other, of both
    if neighbors == Neighbors.ADD_REMOVE:
        differ = {
            "one column: a row against nothing": (single, nothing[:, :1], nothing[:, :1], 0.0),
            "a row against nothing": (first, nothing, nothing, 0.0),
            "a row beyond the radius, against nothing": (equal, nothing, nothing, 0.0),
            "a row collinear with another": (first, nothing, first, 0.0),
            "a row orthogonal to another": (first, nothing, second, 0.0),
        }
    else:
        differ = {
            "one column: a row against the origin": (single, 0 * single, nothing[:, :1], 0.0),
            "orthogonal rows": (first, second, nothing, 0.0),
            "orthogonal rows, turned": (turned, across, nothing, 0.0),
            "a row beyond the radius, against the origin": (equal, origin, nothing, 0.0),
            "collinear rows, with an intercept": (first, -first, nothing, 0.5),
        }
    for name, (one, other, common, intercept) in differ.items():
        for group in groups:
            table, neighbor = (
                np.concatenate([common, np.repeat(side, group, axis=0)]) for side in (one, other)
            )
            yield Pair(name, table, neighbor, group, intercept)


def lower_bound(one: Outputs, other: Outputs, claim: Claim, error: float) -> tuple[str, float]:
    """Return the statistic that the first halves choose, and the loss in the second halves.

    `error` is the probability that the loss is smaller than the bound.
    """
    half = len(one) // 2
    training, held = (one[:half], other[:half]), (one[half:], other[half:])
    candidates = []
    for name, statistic in statistics(*training).items():
        values = [statistic(part) for part in training]
        for sign in (1.0, -1.0):
            for a, b in ((0, 1), (1, 0)):
                found, threshold = _best_threshold(sign * values[a], sign * values[b], claim, error)
                candidates.append((found, threshold, name, statistic, sign, a, b))
    _, threshold, name, statistic, sign, a, b = max(candidates, key=itemgetter(0))
    hits, others = (np.array([(sign * statistic(held[i]) >= threshold).sum()]) for i in (a, b))
    p, q = clopper_pearson(hits, others, len(one) - half, error)
    return name, float(claim.shown(p, q)[0])


def _best_threshold(one: Vector, other: Vector, claim: Claim, error: float) -> tuple[float, float]:
    """Return the best bound for events {value >= t}, and its t."""
    thresholds = np.unique(
        np.concatenate([np.quantile(side, [*QUANTILES, *(1 - QUANTILES)]) for side in (one, other)])
    )
    hits, others = (
        len(side) - np.searchsorted(np.sort(side), thresholds, side="left") for side in (one, other)
    )
    shown = claim.shown(*clopper_pearson(hits, others, len(one), error))
    best = int(np.argmax(shown))
    return float(shown[best]), float(thresholds[best])


def clopper_pearson(
    hits: NDArray[np.integer[Any]], false_hits: NDArray[np.integer[Any]], count: int, error: float
) -> tuple[Vector, Vector]:
    """Return a lower bound for the probability of `hits` and an upper bound for `false_hits`.

    Each bound is wrong with probability at most `error` / 2. Both have `count` trials.
    """
    from scipy.special import betaincinv

    least = betaincinv(np.maximum(hits, 1), count - hits + 1, error / 2)
    lower = np.where(hits > 0, least, 0.0)
    most = betaincinv(false_hits + 1, np.maximum(count - false_hits, 1), 1 - error / 2)
    upper = np.where(false_hits < count, most, 1.0)
    return lower, upper


def _schema(columns: int, intercept: float) -> Schema:
    names = [f"x{i}" for i in range(columns)]
    return Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=intercept)
