"""Second moments by length of rows: the norm ladder (docs/proofs/ladder.md 1, 2).

A row w of squared length N between two rungs P > P' is shared out between them: w w' / N, the outer
product of its direction, goes to P with the weight (N - P') / (P - P') and to P' with the rest. So
the moments S_P of the rungs add up, sum_P P S_P, to that of the rows, no row has more than one
outer product of directions in all, and the noise that hides its direction goes into the moment
times the length of its rung: short rows get little of it, and no row is clipped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.rows.moment import UNITS, Accumulator, Lattice, squared_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix

RATIO = 4  # of the squared lengths of neighbouring rungs
MOST_RUNGS = 8  # the last for the intercept alone
WITHOUT_INTERCEPT = 4
APART = 1.3  # least ratio
SQUARED_SIDE = float(UNITS**2)
# Of 2^40, what a whole share has: leaves room for rounding to the nearest integers at any order.
WHOLE = UNITS**2 - 2**28
COPIED = 2**21  # cells of a block that are copied at once
LEAST_ROWS = 256  # however many columns it has
WITHIN = 1 - 2.0**-50  # more than the rounding in the limit that it is held against
TRACE_BITS = 32


def rungs_of(lattice: Lattice) -> tuple[int, ...]:
    """Squared lengths of the rungs, descending from the longest row's, in squared lattice units.

    Each is a quarter of the one before. The last is that of the intercept alone, which all rows
    have (but for weights below 1); without one, the fourth.
    """
    rungs, constant = [lattice.bound], lattice.intercept_units**2
    most = MOST_RUNGS - 1 if constant else WITHOUT_INTERCEPT
    following = lattice.bound // RATIO
    while len(rungs) < most and following > APART * constant:
        rungs.append(following)
        following //= RATIO
    return (*rungs, constant) if constant else tuple(rungs)


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class RungMoments:
    """The exact answer to a query: never leaves a mechanism without noise.

    Attributes
    ----------
    units : for each rung, the (d, d) symmetric object array of Python integers sum r r', where
        ||r||^2 is `WHOLE` times the share of a row in this rung, and its direction the row's.
    rungs : squared lengths of the rungs, in squared lattice units.
    trace : sum of the squared lengths of the rows.
    unit_count : the number of rows, or of persons where the unit is a person.

    """

    units: tuple[NDArray[np.object_], ...]
    rungs: tuple[int, ...]
    trace: int
    lattice: Lattice
    unit_count: int


def shared(
    block: Matrix, rungs: Sequence[int], room: Matrix | None = None
) -> Iterator[tuple[int, Matrix]]:
    """Rungs that rows of a (d, m) block of integers have a share in, with integers r of the rows.

    In `room`, for (d m,) floats, if given: the next of them takes the place of the last.

    Columns r with ||r||^2 <= 2^40 share, where the shares of a row w in its rungs P add up to at
    most 1, and the sum of P share to at most ||w||^2: certified, not supposed.
    """
    lengths = squared_lengths(block)
    for at, (upper, lower) in enumerate(itertools.pairwise((*rungs, 0))):
        here = np.flatnonzero((lengths > lower) & (lengths <= upper))
        if not here.size:
            continue
        rows, squared = block.take(here, axis=1), lengths[here]
        out = None if room is None else room[: rows.size].reshape(rows.shape)
        below = [(at + 1, upper - squared)] if lower else []
        for to, covered in [(at, squared - lower), *below]:
            shares = covered / (upper - lower)
            scales, limits = np.sqrt(shares * WHOLE / squared), _certified(shares)
            part: Matrix = np.multiply(rows, scales, out=out)
            np.rint(part, out=part)
            long = np.flatnonzero(~(squared_lengths(part) <= limits))
            if long.size:  # toward 0: of a share so small the nearest may be longer than the limit
                inward = np.trunc(rows.take(long, axis=1) * scales[long])
                inward[:, ~(squared_lengths(inward) <= limits[long])] = 0.0
                part[:, long] = inward
            yield to, part


def _certified(shares: Matrix) -> Matrix:
    """At most 2^40 times the exact share, of which `shares` are correctly rounded."""
    return shares * (SQUARED_SIDE * WITHIN)


class RungSum:
    """Exact sums of r r' over the rows' shares in each rung, and of the squared lengths.

    The rungs share the room of a part and of its product: large new arrays cost more than sums.
    """

    __slots__ = ("_factor", "_gram", "_moments", "_room", "_rows", "_rungs", "_trace")

    def __init__(self, rungs: Sequence[int], dimension: int, factor: int = 1) -> None:
        self._rungs = rungs
        self._factor = factor  # of the last feature of each row, as for `Accumulator`
        self._moments = [Accumulator(dimension) for _ in rungs]
        self._rows = max(LEAST_ROWS, COPIED // dimension)
        self._room = np.empty(self._rows * dimension)
        self._gram = np.empty((dimension, dimension))
        self._trace = 0

    def add(self, block: Matrix) -> None:
        """Add the rows of a (d, m) block of integer-valued floats."""
        for start in range(0, block.shape[1], self._rows):
            some = block[:, start : start + self._rows]
            if self._factor > 1:
                some = some.copy()
                some[-1] *= self._factor
            # A length is at most 2 d 2^40 and 2^53, so their sum is below 2^63.
            self._trace += int(squared_lengths(some).astype(np.int64).sum())
            for at, part in shared(some, self._rungs, self._room):
                self._moments[at].add(part, self._gram)

    def merge(self, other: RungSum) -> None:
        """Add another's sums to this one."""
        self._trace += other._trace
        for at, theirs in enumerate(other._moments):
            self._moments[at].merge(theirs)

    def packed(self) -> Integers:
        """Limbs of all sums, to be added to those of up to 2^30 others."""
        limbs = np.array([self._trace >> TRACE_BITS, self._trace % 2**TRACE_BITS], np.int64)
        return np.concatenate([limbs, *(moment.packed() for moment in self._moments)])

    def add_packed(self, limbs: Integers) -> None:
        """Add a sum of `packed` limbs to this one."""
        self._trace += (int(limbs[0]) << TRACE_BITS) + int(limbs[1])
        for at, part in enumerate(np.split(limbs[2:], len(self._moments))):
            self._moments[at].add_packed(part)

    def total(self) -> tuple[tuple[NDArray[np.object_], ...], int]:
        """The sum of each rung as Python integers, and the trace."""
        return tuple(moment.total() for moment in self._moments), self._trace
