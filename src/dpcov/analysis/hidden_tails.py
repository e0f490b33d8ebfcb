"""Effects of rows that no private release can show.

A few rows can lie far from all others, and the noise in the norm histogram can hide them. This
module computes by how much such a tail can change a figure. If the change exceeds the interval, the
figure has the mark "depends on the tail".

A tail in one column changes the variance of this column, but no covariance. The module therefore
considers tails in two columns as well. A tail in more columns has the same total length, so it
changes each covariance less.
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

# Columns that each figure of a function depends on.
DependsOn = Literal["one column", "two columns", "all columns"]
# Largest number of columns with pairs, if figures depend on all columns. The columns with the
# longest hidden tails are used. Source: choice; the time grows with the square.
MAX_PAIRED_COLUMNS = 20
# Largest size of a tail. It is finite, so that a tail of any size without an effect has none.
MAX_TAIL_SIZE = 1e100


def tail_effects(
    release: Release, functions: Sequence[tuple[Function, DependsOn]], center: Array
) -> list[Array | float]:
    """Return the largest change of each figure by a tail that the release does not reject.

    The tail lies in one column or in two columns. In one column, it adds `Estimate.hidden_tails`
    to the sum of squares and to the sum. In two columns i and j, it adds half of both sums of
    squares s_i and s_j, and sqrt(s_i s_j) / 2 to the sum of products, with either sign.

    Parameters
    ----------
    release : Release
        Release.

    functions : sequence of (callable, str)
        Functions from b second moments, shape (b, d, d), to figures, shape (b, k), and what each
        figure depends on.

    center : ndarray, shape (d, d)
        Second moment of the estimate.

    Returns
    -------
    list of ndarray, shape (k,), or float
        Changes to first order. 0 if no column can have such a tail, and infinity if the noise hides
        the norms of most rows.

    """
    if Estimate.of(release).hides_norms:  # nothing shows how far most rows lie from the mean
        return [np.inf for _ in functions]
    tails = HiddenTails.of(release, center)
    return [_largest(function, tails.batches(of), center) for function, of in functions]


def _largest(
    function: Function, batches: Iterable[Sequence[Direction]], center: Array
) -> Array | float:
    """Return the largest effect of any tail. The effects of all its directions add up."""
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
    """Tails that the noise hides, in the m columns that can have one.

    Attributes
    ----------
    center : ndarray, shape (d, d)
        Second moment of the estimate.

    columns : ndarray of int, shape (m,)
        Positions of the columns. A column that does not vary is left out.

    variances : ndarray, shape (m,)
        Sums of squares about the mean.

    squares : ndarray, shape (m,)
        Largest hidden sums of squares, in multiples of `variances`.

    shifts : ndarray, shape (m, 3), or None
        Effects of a shift of the mean by one standard deviation on the sum and on the sum of
        squares. The last column has the largest hidden shifts. None for a release without means.

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

    def batches(self, of: DependsOn) -> Iterator[list[Direction]]:
        """Yield the directions of b tails at a time.

        A direction consists of errors of the second moment, shape (b, d, d), and of factors,
        shape (b,). A tail causes an error times its factor.
        """
        size = max(1, MAX_BATCH_ENTRIES // self.center.size)
        for start in range(0, len(self.columns), size):
            yield self._single(np.arange(len(self.columns))[start : start + size])
        pairs = self._pairs(of)
        for start in range(0, len(pairs), size):
            for sign in (1, -1):
                yield [self._paired(pairs[start : start + size], sign)]

    def _pairs(self, of: DependsOn) -> Integers:
        """Return b sets of s pairs of columns, shape (b, s, 2).

        If each figure depends on two columns, a set has each column once, as in a round of a
        tournament. All pairs of the set can then have a tail at once, because a figure notices
        its own pair only. Otherwise, a set is one pair.
        """
        if of == "one column":
            return np.empty((0, 0, 2), np.int64)
        if of == "two columns":
            return _rounds(len(self.columns))
        longest = np.argsort(-self.squares, kind="stable")[:MAX_PAIRED_COLUMNS]
        return longest[np.column_stack(np.triu_indices(len(longest), 1))][:, None]

    def _single(self, at: Integers) -> list[Direction]:
        """Return directions of tails in one column.

        The first direction adds the variance of a column to its sum of squares. The second
        direction shifts its mean by a standard deviation.
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
        """Return the direction of tails in pairs of columns.

        The factor is the largest one of all columns of a tail, so that no error exceeds a variance.
        """
        each, (i, j) = np.arange(len(pairs))[:, None], np.moveaxis(self.columns[pairs], 2, 0)
        factors = self.squares[pairs].max(axis=(1, 2))
        added = self.squares[pairs] / factors[:, None, None] * self.variances[pairs] / 2
        first, second = np.moveaxis(added, 2, 0)
        errors = np.zeros((len(pairs), *self.center.shape))
        errors[each, i, i], errors[each, j, j] = first, second
        errors[each, i, j] = errors[each, j, i] = sign * np.sqrt(first * second)
        return errors, factors


def _rounds(players: int) -> Integers:
    """Return the rounds of a tournament in which every two players meet once, shape (b, s, 2).

    This is the circle method. With an odd number of players, the last one of an even number is
    absent, and its opponent rests.
    """
    if players < 2:
        return np.empty((0, 0, 2), np.int64)
    even = players + players % 2
    turns, others = np.arange(even - 1), np.arange(even - 1)
    order = np.zeros((even - 1, even), np.int64)
    order[:, 1:] = 1 + (turns[:, None] + others) % (even - 1)
    rounds = np.stack([order[:, : even // 2], order[:, : even // 2 - 1 : -1]], axis=2)
    if players < even:
        rounds = rounds[(rounds < players).all(axis=2)].reshape(len(rounds), -1, 2)
    return rounds
