"""Rows that no few others outweigh: their weighted second moment, and how stable it is.

Brown, Hopkins and Smith 2023, repaired.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError
from dpcov.papers.primitives.certified import Factor, adjugate, integer_matrix
from dpcov.rows.moment import BLOCK_ROWS, Accumulator

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.rows.sources.rows import IntegerRows

    Integers = NDArray[np.object_]
    Matrix = NDArray[np.float64]

RIDGE = 1  # added to the diagonal of every second moment, in squared units of `IntegerRows`
LIMB = 2.0**20


@dataclass(frozen=True, slots=True)
class StableRows:
    r"""Score in 0..k and weights in 0..k of the units of a table.

    Unit i has the second moment P_i = sum x x' of its rows. For a set S of units let G_S = I + sum
    over S of P_i and h_i(S) = tr(G_S^-1 P_i), the leverage. With m = `ceiling`, k = `limit` and
    m > 3k + 1, S_l is the largest S with h_i(S) <= 1 / (m - l) for all i in S, l = 0..2k: leverages
    fall as S grows, so a union of such sets is one, and deleting whatever is above the bound, over
    and over, ends there. The score is min(k, min_(l<=k) (l + number of units outside S_l)), the
    weight of i is the number of l in k+1..2k with i in S_l, and G = I + sum weight_i P_i / k.

    Proof. Let X' be X and one unit *. (a) S_l(X) is in S_l(X'), being such a set there. (b) S_l(X')
    less * is in S_(l+1)(X): where * is in S = S_l(X') its leverage h is at most 1 / (m - l), so
    G without * is at least (1 - h) G_S, and the other leverages rise to at most (1 / (m - l)) / (1
    - 1 / (m - l)) = 1 / (m - l - 1).

    *Score.* By (a) it rises by at most 1 as * is added, by (b) as * is removed: it changes by at
    most 1, under replace-one 2.

    *Leverage.* Let the score be below k: some l < k has at most k - 1 - l units outside S_l; those
    inside have full weight. So G >= G_(S_(k+1)) >= (1 - (k-1) / (m - 2k)) G_(S_2k), and every unit
    of positive weight has tr(G^-1 P_i) <= 1 / (m - 2k - (k - 1)) = 1 / (m - 3k + 1) =: L.

    *Add/remove*, both scores below k. By (a) and (b) the weights of the others do not fall as * is
    added, each rises by at most 1 (S_(k+1)..S_2k shift by at most one level), and only those
    of the at most k - 1 units outside X's S_l. So G' = G + P, P >= 0, and tr(G'^-1 P) <=
    ((k-1)/k + 1) L < 2 L: the eigenvalues of G'^-1/2 G G'^-1/2 - 1 have 2-norm at most 2 L, those
    of its inverse 2 L / (1 - 2 L).

    *Replace-one*, both scores below k. S_l(X) less * is in S_(l+1)(X'), and the reverse; units in
    X's S_l, l < k, other than * keep full weight. So G' = G + P - M, where M, of units that have
    weight in X, and P, of units that have weight in X', are made of at most k - 1 common units with
    a weight of 1/k each and one more unit each: a = tr(G'^-1 P) and b = tr(G^-1 M) are at
    least 0, at most 2 L, and together at most 3 L. With Q = G + P = G' + M, Q >= G' gives
    tr(Q^-1 P) <= a, so G >= (1 - a) Q and tr(G^-1 P) <= a / (1 - a). G^-1/2 P G^-1/2 and the same
    of M have a product of trace >= 0: the 2-norm of their difference is at most sqrt((a / (1 -
    a))^2 + b^2), largest at a = 2 L, b = L.

    Leverages are compared exactly (`certified`), so the score is a function of the integers.

    Parameters
    ----------
    ceiling : m, public or released: reciprocal of the leverage that no unit should exceed.
    limit : k, of the release test.

    """

    ceiling: int
    limit: int

    def __post_init__(self) -> None:
        if self.ceiling <= 3 * self.limit + 1:
            raise MechanismError("Stable rows need a ceiling above 3 times the limit, plus 1.")

    def closeness(self, neighbors: Neighbors) -> float:
        """Bound on the 2-norm of the eigenvalues of G^-1/2 G' G^-1/2 - 1, both ways round."""
        return closeness(1 / (self.ceiling - 3 * self.limit + 1), neighbors)

    def __call__(self, table: IntegerRows) -> tuple[int, NDArray[np.int64]]:
        """Score and weights; the weights mean nothing where the score is k."""
        k, count = self.limit, table.unit_count
        weights, alive = np.zeros(count, np.int64), np.ones(count, np.bool_)
        score, leverages = k, Leverages.of(table, alive)
        for level in range(2 * k, -1, -1):
            while (out := leverages.above(self.ceiling - level)).size:
                alive[out] = False
                if count - np.count_nonzero(alive) >= k:
                    return score, weights
                leverages = Leverages.of(table, alive)
            if level > k:
                weights += alive
            else:
                score = min(score, level + count - int(np.count_nonzero(alive)))
        return score, weights


def closeness(leverage: float, neighbors: Neighbors) -> float:
    """The bound of `StableRows` for leverages up to L = `leverage`, rounded up."""
    most = 2 * leverage / (1 - 2 * leverage)
    if neighbors == Neighbors.REPLACE_ONE:
        most = math.hypot(most, leverage)
    return most * (1 + 1e-12)


def leverage_for(closest: float, neighbors: Neighbors) -> float:
    """Largest L with `closeness` at most `closest`."""
    low, high = 0.0, 0.25
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if closeness(middle, neighbors) <= closest else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Leverages:
    """Leverages of the units `members` in their own set: certified bounds, exact where needed."""

    members: NDArray[np.int64]
    low: Matrix
    high: Matrix
    table: IntegerRows
    gram: Integers

    @classmethod
    def of(cls, table: IntegerRows, alive: NDArray[np.bool_]) -> Leverages:
        chosen = alive[table.owners]
        rows, owners = table.rows[:, chosen], table.owners[chosen]
        gram = second_moment(rows)
        gram[np.diag_indices(len(gram))] += RIDGE
        factor = Factor.of(gram)
        members = np.flatnonzero(alive)
        if factor is None:
            return cls(members, np.zeros(len(members)), np.full(len(members), np.inf), table, gram)
        bounds = np.array(
            [np.bincount(owners, bound, len(alive)) for bound in factor.squared_norms(rows)]
        )[:, members]
        return cls(members, bounds[0] * (1 - 1e-9), bounds[1] * (1 + 1e-9), table, gram)

    def above(self, reciprocal: int) -> NDArray[np.int64]:
        """Units whose leverage exceeds 1 / `reciprocal`."""
        if not self.high.size or self.high.max() * reciprocal <= 1 - 1e-9:
            return np.empty(0, np.int64)
        surely = self.low * reciprocal > 1 + 1e-9
        open_ = np.flatnonzero(~surely & ~(self.high * reciprocal <= 1 - 1e-9))
        found = np.zeros(len(self.members), np.bool_) | surely
        found[open_] = self._exactly_above(self.members[open_], reciprocal)
        return self.members[found]

    def _exactly_above(self, units: NDArray[np.int64], reciprocal: int) -> NDArray[np.bool_]:
        inverse, determinant = adjugate(self.gram)
        place = np.full(self.table.unit_count, -1, np.int64)
        place[units] = np.arange(len(units))
        at = place[self.table.owners]
        rows = self.table.rows[:, at >= 0].astype(np.int64).astype(object)
        sums = [0] * len(units)
        if rows.size:
            images = inverse * integer_matrix(rows)
            width = rows.shape[1]
            entries = images.entries()
            for j, unit in enumerate(at[at >= 0].tolist()):
                column = zip(rows[:, j], entries[j::width], strict=True)
                sums[unit] += sum(int(x) * int(y) for x, y in column)
        return np.array([total * reciprocal > determinant for total in sums], np.bool_)


def second_moment(rows: Matrix, weights: NDArray[np.int64] | None = None) -> Integers:
    """(d, d) exact sum of weight x x' over the columns x of integers up to 2^40 in size."""
    d = len(rows)
    total: Integers = np.zeros((d, d), dtype=object)
    for weight in [1] if weights is None else np.unique(weights).tolist():
        chosen = rows if weights is None else rows[:, weights == weight]
        total = total + weight * _unweighted(chosen)
    return total


def _unweighted(rows: Matrix) -> Integers:
    """Limbs of 20 bits, whose products `Accumulator` sums exactly."""
    d = len(rows)
    sums = Accumulator(2 * d)
    for start in range(0, rows.shape[1], BLOCK_ROWS):
        block = rows[:, start : start + BLOCK_ROWS]
        high = np.floor(block / LIMB)
        sums.add(np.concatenate([high, block - high * LIMB]))
    whole = sums.total()
    cross = whole[:d, d:] + whole[d:, :d]
    return (whole[:d, :d] << 40) + (cross << 20) + whole[d:, d:]


def usual_leverage(dimension: int, units: float) -> float:
    """Number of units times the leverage that one in `units` normal rows exceeds."""
    from scipy.stats import chi2

    return float(chi2.isf(1 / max(units, 2.0), dimension))


def least_units(ceiling: float, dimension: int) -> int:
    """How many normal rows it takes for 1 / `ceiling` to be their usual largest leverage."""
    units = ceiling
    for _ in range(60):
        units = ceiling * usual_leverage(dimension, units)
    return math.ceil(units)
