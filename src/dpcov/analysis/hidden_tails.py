"""Effects of a few far rows that the noise can hide.

The noise in the norm histogram can hide a few rows that lie far from all others. Such rows are a
*hidden tail*. This module computes how much a hidden tail can change a figure. A large change can
put the figure outside its interval. The figure then has the mark "depends on the tail".

Rows that are far out in one column change the variance of this column, but no covariance. The
module therefore also considers rows that are far out in two columns. With more columns, each
covariance changes less, because the total length of the rows is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.estimate import Estimate
from dpcov.estimate.errors import MAX_BATCH_ENTRIES, first_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dpcov.core.arrays import Array, Integers, Vector
    from dpcov.releases import Release

    Function = Callable[[Array], Array]
    Direction = tuple[Array, Vector]

# How many columns each figure of a function depends on.
DependsOn = Literal["one column", "two columns", "all columns"]
# If figures depend on all columns, only this many columns form pairs: those with the longest hidden
# tails. Source: choice. The time grows with the square of this number.
MAX_PAIRED_COLUMNS = 20
# Largest size of a hidden tail, in multiples of the variance of its column. An infinite size times
# an effect of 0 would be undefined. Source: choice; no real tail is as large.
MAX_TAIL_SIZE = 1e100


def tail_effects(
    release: Release, functions: Sequence[tuple[Function, DependsOn]], center: Array
) -> list[Array | float]:
    """Return how much a hidden tail can change each figure.

    `Estimate.hidden_tails` has the largest hidden sum of squares s_i and the largest hidden sum of
    each column. A tail in one column adds both to this column. A tail in two columns i and j adds
    s_i / 2 and s_j / 2 to their sums of squares. It adds sqrt(s_i s_j) / 2 to their sum of
    products, or subtracts it.

    Parameters
    ----------
    release : Release
        Release.

    functions : sequence of (callable, str)
        Functions from b second moments, shape (b, d, d), to figures, shape (b, k). The text says
        how many columns each figure depends on.

    center : ndarray, shape (d, d)
        Second moment of the estimate.

    Returns
    -------
    list of ndarray, shape (k,), or float
        Largest changes, to first order. 0 if no column can have a hidden tail. Infinity if the
        noise hides the norms of most rows.

    """
    if Estimate.of(release).hides_norms:  # nothing shows how far most rows lie from the mean
        return [np.inf for _ in functions]
    tails = HiddenTails.of(release, center)
    return [_largest(function, tails.batches(count), center) for function, count in functions]


def _largest(
    function: Function, batches: Iterable[Sequence[Direction]], center: Array
) -> Array | float:
    """Return the largest effect of any tail, which is the sum over all its directions."""
    largest: Array | float = 0.0
    for directions in batches:
        effects = sum(
            np.abs(first_order(function, center, errors)) * factors[:, None]
            for errors, factors in directions
        )
        largest = np.fmax(largest, np.fmax.reduce(effects))
    return largest


@dataclass(frozen=True, eq=False)
class HiddenTails:
    """Hidden tails of m columns.

    Levels, flags and constant columns have no hidden tail, and are left out.

    Attributes
    ----------
    center : ndarray, shape (d, d)
        Second moment of the estimate.

    columns : ndarray of int, shape (m,)
        Positions of the columns.

    variances : ndarray, shape (m,)
        Sums of squares about the mean.

    squares : ndarray, shape (m,)
        Largest hidden sums of squares, in multiples of `variances`.

    shifts : ndarray, shape (m, 3), or None
        Three numbers for each column. The first two describe a shift of the mean by one standard
        deviation: how much the sum grows, and how much the sum of squares grows. The third number
        is the largest hidden shift, in standard deviations. None for a release without means.

    """

    center: Array
    columns: Integers
    variances: Vector
    squares: Vector
    shifts: Array | None

    @classmethod
    def of(cls, release: Release, center: Array) -> HiddenTails:
        """Return the hidden tails of a release."""
        squares, sums = Estimate.of(release).hidden_tails
        p, count = len(squares), center[-1, -1]
        has_means = release.has_intercept and count > 0
        variances = np.diag(center)[:p]
        if has_means:
            variances = variances - center[:p, -1] ** 2 / count
        columns = np.flatnonzero((squares > 0) & (variances > 0))
        variances, squares, sums = (one[columns] for one in (variances, squares, sums))
        sizes = np.minimum(squares / variances, MAX_TAIL_SIZE)
        if not has_means:
            return cls(center, columns, variances, sizes, None)
        origin = 0.0 if release.center is None else release.center[columns]
        t, deviations = release.lattice.intercept_size, np.sqrt(count * variances)
        # Rows that are centred at c and gain s in their sum gain 2 c s in their sum of squares.
        changes = deviations, 2 * origin * deviations / t
        hidden = np.minimum(sums * t / deviations, MAX_TAIL_SIZE)
        return cls(center, columns, variances, sizes, np.column_stack([*changes, hidden]))

    def batches(self, depends_on: DependsOn) -> Iterator[list[Direction]]:
        """Yield the directions of b tails at a time.

        A direction has two parts: changes of the second moment, shape (b, d, d), and factors,
        shape (b,). A hidden tail changes the second moment by its change times its factor. A
        change is at most as large as a variance, so that its derivatives are exact enough.
        """
        size = max(1, MAX_BATCH_ENTRIES // self.center.size)
        for start in range(0, len(self.columns), size):
            yield self._single(np.arange(len(self.columns))[start : start + size])
        pairs = self._pairs(depends_on)
        for start in range(0, len(pairs), size):
            for sign in (1, -1):
                yield [self._paired(pairs[start : start + size], sign)]

    def _pairs(self, depends_on: DependsOn) -> Integers:
        """Return b sets of s pairs of columns, shape (b, s, 2).

        All pairs of a set have a tail at the same time, which saves time. If each figure depends on
        two columns, the tails of other pairs do not matter for it. A set then has all columns.
        Otherwise, a set has one pair.
        """
        if depends_on == "one column":
            return np.empty((0, 0, 2), np.int64)
        if depends_on == "two columns":
            return _sets_of_pairs(len(self.columns))
        longest = np.argsort(-self.squares, kind="stable")[:MAX_PAIRED_COLUMNS]
        return longest[np.column_stack(np.triu_indices(len(longest), 1))][:, None]

    def _single(self, at: Integers) -> list[Direction]:
        """Return the directions of tails in one column each.

        The first direction adds the variance of a column to its sum of squares. The second
        direction shifts its mean by one standard deviation.
        """
        columns, each = self.columns[at], np.arange(len(at))
        errors = np.zeros((2, len(at), *self.center.shape))
        errors[0, each, columns, columns] = self.variances[at]
        found = [(errors[0], self.squares[at])]
        if self.shifts is not None:
            of_sums, of_squares, hidden = self.shifts[at].T
            errors[1, each, columns, -1] = errors[1, each, -1, columns] = of_sums
            errors[1, each, columns, columns] = of_squares
            found.append((errors[1], hidden))
        return found

    def _paired(self, pairs: Integers, sign: int) -> Direction:
        """Return the direction of tails in pairs of columns, with this sign of the products.

        All pairs of a set share one factor: the size of the longest tail in the set. A change then
        adds at most half of its variance to a sum of squares.
        """
        each, (i, j) = np.arange(len(pairs))[:, None], np.moveaxis(self.columns[pairs], 2, 0)
        factors = self.squares[pairs].max(axis=(1, 2))
        added = self.squares[pairs] / factors[:, None, None] * self.variances[pairs] / 2
        first, second = np.moveaxis(added, 2, 0)
        errors = np.zeros((len(pairs), *self.center.shape))
        errors[each, i, i], errors[each, j, j] = first, second
        errors[each, i, j] = errors[each, j, i] = sign * np.sqrt(first * second)
        return errors, factors


def _sets_of_pairs(columns: int) -> Integers:
    """Divide all pairs of columns into sets that have each column once, shape (b, s, 2).

    With an odd number of columns, each set lacks one column. The algorithm is the circle method,
    which also plans tournaments.
    """
    if columns < 2:
        return np.empty((0, 0, 2), np.int64)
    even = columns + columns % 2
    turns = np.arange(even - 1)
    order = np.zeros((even - 1, even), np.int64)
    order[:, 1:] = 1 + np.add.outer(turns, turns) % (even - 1)
    sets = np.stack([order[:, : even // 2], order[:, : even // 2 - 1 : -1]], axis=2)
    if columns < even:  # leave out the pairs with a column that does not exist
        sets = sets[(sets < columns).all(axis=2)].reshape(len(sets), -1, 2)
    return sets
