"""Weighted second moment of typical rows, with a score of its stability.

A row is typical if its leverage is small. No direction then depends mainly on this row. The method
comes from Brown, Hopkins and Smith 2023, with a corrected test.
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

# Ridge on the diagonal of every second moment, in squared units of `IntegerRows`.
RIDGE_UNITS = 1
# Base of the two parts (limbs) of an integer.
LIMB_BASE = 2.0**20


@dataclass(frozen=True, slots=True)
class StableRows:
    """Score and weights of the units of a table, both from 0 to k.

    Parameters
    ----------
    ceiling : int
        Number m, public or released. No unit should have a leverage above 1/m.
    limit : int
        Limit k of the release test, with ``m > 3k + 1``.

    Notes
    -----
    **Definitions.** Unit i has the second moment ``P_i``, the sum of ``x x'`` over its rows. For a
    set S of units, let ``G_S = I + sum P_i`` over the units in S. The leverage of unit i is
    ``h_i(S) = tr(G_S^-1 P_i)``.

    For l from 0 to 2k, let ``S_l`` be the largest set S with ``h_i(S) <= 1 / (m - l)`` for all i in
    S. This set exists, because leverages decrease as S grows. Deleting all units above the bound,
    again and again, ends at ``S_l``.

    The score is ``min(k, min_(l<=k) (l + number of units outside S_l))``. The weight of unit i is
    the number of levels l from k+1 to 2k for which ``S_l`` contains i. The weighted second moment
    is ``G = I + sum weight_i P_i / k``.

    **Two inclusions.** Let the table X' contain the units of X and one more unit ``*``.

    - (a) ``S_l(X)`` is part of ``S_l(X')``, because it satisfies the same bound there.
    - (b) ``S_l(X')`` without ``*`` is part of ``S_(l+1)(X)``. Let ``S = S_l(X')`` contain ``*``,
      whose leverage h is at most ``1 / (m - l)``. Without ``*``, the matrix is at least
      ``(1 - h) G_S``. The other leverages grow to at most ``1 / (m - l - 1)``.

    **Score.** By (a) the score grows by at most 1 if ``*`` is added. By (b) it grows by at most 1
    if ``*`` is removed. The score therefore changes by at most 1 under add-remove and 2 under
    replace-one.

    **Leverage.** Let the score be below k. Some level ``l < k`` has at most ``k - 1 - l`` units
    outside ``S_l``, and the units inside have full weight. This gives two bounds::

        G >= G_(S_(k+1)) >= (1 - (k-1) / (m - 2k)) G_(S_2k)
        tr(G^-1 P_i) <= 1 / (m - 3k + 1) =: L

    The second bound holds for every unit with a positive weight.

    **Add-remove.** Let both scores be below k, and let ``*`` be added.

    - By (a) and (b), no weight of another unit decreases, and each weight grows by at most 1. Only
      the weights of the at most ``k - 1`` units outside ``S_l`` of X change.
    - So ``G' = G + P`` with ``P >= 0`` and ``tr(G'^-1 P) <= ((k-1)/k + 1) L < 2 L``.
    - The eigenvalues of ``G'^-1/2 G G'^-1/2 - 1`` have a 2-norm of at most ``2 L``. For the inverse
      matrix, the bound is ``2 L / (1 - 2 L)``.

    **Replace-one.** Let both scores be below k.

    - ``S_l(X)`` without ``*`` is part of ``S_(l+1)(X')``, and the reverse holds too. Units other
      than ``*`` in a set ``S_l`` of X with ``l < k`` keep their full weight.
    - So ``G' = G + P - M``. The units of M have a weight in X, and the units of P have a weight in
      X'. Together M and P contain at most ``k - 1`` common units, with a weight of 1/k each. M and
      P each contain one more unit.
    - Let ``a = tr(G'^-1 P)`` and ``b = tr(G^-1 M)``. Both are between 0 and ``2 L``, and
      ``a + b <= 3 L``.
    - Let ``Q = G + P = G' + M``. As ``Q >= G'``, ``tr(Q^-1 P) <= a``. Hence ``G >= (1 - a) Q`` and
      ``tr(G^-1 P) <= a / (1 - a)``.
    - The product of ``G^-1/2 P G^-1/2`` and ``G^-1/2 M G^-1/2`` has a trace of at least 0. The
      2-norm of their difference is at most ``sqrt((a / (1 - a))^2 + b^2)``. This bound is largest
      at ``a = 2 L`` and ``b = L``.

    **Exactness.** All leverages are compared exactly (`certified`), so the score depends only on
    the integers.

    """

    ceiling: int
    limit: int

    def __post_init__(self) -> None:
        if self.ceiling <= 3 * self.limit + 1:
            raise MechanismError("Stable rows need a ceiling above 3 times the limit, plus 1.")

    def closeness(self, neighbors: Neighbors) -> float:
        """Return a bound on the relative change of the weighted second moment G.

        The bound applies to the 2-norm of the eigenvalues of ``G^-1/2 G' G^-1/2 - 1``, in both
        directions.
        """
        return closeness(1 / (self.ceiling - 3 * self.limit + 1), neighbors)

    def __call__(self, table: IntegerRows) -> tuple[int, NDArray[np.int64]]:
        """Return the score and the weights of the units of a table.

        Parameters
        ----------
        table : IntegerRows
            Rows in exact integers.

        Returns
        -------
        score : int
            Score from 0 to k.
        weights : ndarray of int, shape (n,)
            Weights from 0 to k. If the score is k, the weights have no meaning.

        """
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
    """Return the bound of `StableRows` for leverages up to `leverage`, rounded up."""
    most = 2 * leverage / (1 - 2 * leverage)
    if neighbors == Neighbors.REPLACE_ONE:
        most = math.hypot(most, leverage)
    return most * (1 + 1e-12)


def leverage_for(closest: float, neighbors: Neighbors) -> float:
    """Return the largest leverage with a closeness of at most `closest`."""
    low, high = 0.0, 0.25
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if closeness(middle, neighbors) <= closest else (low, middle)
    return low


@dataclass(frozen=True, slots=True)
class Leverages:
    """Leverages of units in their own set, with certified bounds.

    Exact arithmetic decides the comparisons that the bounds leave open.

    Attributes
    ----------
    members : ndarray of int, shape (m,)
        Units of the set.

    low, high : ndarray of float, shape (m,)
        Bounds on each leverage.

    table : IntegerRows
        Rows in exact integers.

    gram : ndarray of int, shape (d, d)
        Second moment of the set, with the ridge.

    """

    members: NDArray[np.int64]
    low: Matrix
    high: Matrix
    table: IntegerRows
    gram: Integers

    @classmethod
    def of(cls, table: IntegerRows, alive: NDArray[np.bool_]) -> Leverages:
        """Compute the leverages of a set of units.

        Parameters
        ----------
        table : IntegerRows
            Rows in exact integers.
        alive : ndarray of bool, shape (n,)
            Units of the set.

        Returns
        -------
        Leverages
            Bounds on the leverages.

        """
        chosen = alive[table.owners]
        rows, owners = table.rows[:, chosen], table.owners[chosen]
        gram = second_moment(rows)
        gram[np.diag_indices(len(gram))] += RIDGE_UNITS
        factor = Factor.of(gram)
        members = np.flatnonzero(alive)
        if factor is None:
            return cls(members, np.zeros(len(members)), np.full(len(members), np.inf), table, gram)
        bounds = np.array(
            [np.bincount(owners, bound, len(alive)) for bound in factor.squared_norms(rows)]
        )[:, members]
        return cls(members, bounds[0] * (1 - 1e-9), bounds[1] * (1 + 1e-9), table, gram)

    def above(self, reciprocal: int) -> NDArray[np.int64]:
        """Return the units whose leverage exceeds 1 / `reciprocal`, exactly."""
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
    """Compute the exact weighted sum of ``x x'`` over the columns x of a matrix.

    Parameters
    ----------
    rows : ndarray of float, shape (d, n)
        Integers of at most 2^40 in size.
    weights : ndarray of int, shape (n,), optional
        Weight of each column.

    Returns
    -------
    ndarray of int, shape (d, d)
        Exact sum.

    """
    d = len(rows)
    total: Integers = np.zeros((d, d), dtype=object)
    for weight in [1] if weights is None else np.unique(weights).tolist():
        chosen = rows if weights is None else rows[:, weights == weight]
        total = total + weight * _unweighted(chosen)
    return total


def _unweighted(rows: Matrix) -> Integers:
    """Compute the exact sum of ``x x'``.

    The function splits each integer into two limbs of 20 bits. `Accumulator` sums their products
    exactly.
    """
    d = len(rows)
    sums = Accumulator(2 * d)
    for start in range(0, rows.shape[1], BLOCK_ROWS):
        block = rows[:, start : start + BLOCK_ROWS]
        high = np.floor(block / LIMB_BASE)
        sums.add(np.concatenate([high, block - high * LIMB_BASE]))
    whole = sums.total()
    cross = whole[:d, d:] + whole[d:, :d]
    return (whole[:d, :d] << 40) + (cross << 20) + whole[d:, d:]


def usual_leverage(dimension: int, units: float) -> float:
    """Return the leverage that one of `units` normal rows exceeds, times the number of units."""
    from scipy.stats import chi2

    return float(chi2.isf(1 / max(units, 2.0), dimension))


def least_units(ceiling: float, dimension: int) -> int:
    """Return the number of normal rows whose usual largest leverage is 1 / `ceiling`."""
    units = ceiling
    for _ in range(60):
        units = ceiling * usual_leverage(dimension, units)
    return math.ceil(units)
