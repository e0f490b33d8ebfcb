"""Exact integer second moments and their sensitivities (docs/proofs/release.md 4, 5).

Everything public about a query is a `Lattice`; the sensitive answer is a `SecondMoment`, built
by an `Accumulator` whose arithmetic is exact, hence independent of order, batches and threads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.privacy import ROW, Neighbors, Unit, exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.rows.schema import Schema

UNITS = 2**20  # steps of a half-range, or of a radius up to which a map scales rows
LARGEST_BOUND = 2**53  # squared lengths are below it: float64 holds them
_STRIP = 64  # rows of a Gram matrix that are converted at a time: the copy stays small
BLOCK_ROWS = 4096  # rows of one BLAS call: BLOCK_ROWS * 2^40 < 2^53


@dataclass(frozen=True, slots=True)
class Lattice:
    """The integer grid on which rows live, and the sensitivities that follow from it.

    A row is w = (z, t): z has `features` integers of at most 2^20, with ||z|| at most `side` = Q,
    the radius in steps; t is the constant `intercept_units`, or less in a row with a weight.
    B^2 = `bound` is the certified bound on ||w||^2, below 2^53. Between neighbours the second
    moment changes by A - A', both positive semidefinite with trace at most k B^2, where
    k = `unit.max_rows` (1 for rows); one of them is 0 under add/remove. All sensitivities below are
    exact integers in squared lattice units (docs/proofs/release.md 5).

    Without a `side` and a `step` the grid is that of rows as they are declared: a step is 2^-20 of
    a half-range, whatever the radius, so bounds, midpoints and levels are on the grid; less below
    a radius of 1/2, and more, still a power of two, where B^2 would be 2^53 or more (from 7,516
    columns on). The side is the radius, rounded up to whole steps.
    """

    features: int
    radius: float
    intercept: float = 0.0
    unit: Unit = ROW
    side: int = 0
    step: float = 0.0  # in units of an encoded row
    equal_intercepts: bool = False  # every row has the whole t, because there are no weights

    def __post_init__(self) -> None:
        if self.side == 0:
            self._take(min(1.0, power_above(self.radius)) / UNITS)
            while self.bound >= LARGEST_BOUND:
                self._take(2 * self.step)

    def _take(self, step: float) -> None:
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "side", math.ceil(exact(self.radius) / exact(step)))

    @classmethod
    def of(
        cls, schema: Schema, *, radius: float | None = None, features: int | None = None
    ) -> Lattice:
        """That of a schema's rows; `relative` at another radius, or of what a map makes of them."""
        whole = cls(
            len(schema.features) if features is None else features,
            schema.effective_radius,
            schema.intercept,
            schema.privacy_unit,
            equal_intercepts=schema.weight is None,
        )
        return whole if radius is features is None else whole.relative(radius)

    def relative(self, radius: float | None = None) -> Lattice:
        """Steps of 2^-20 of a radius, and so the same sensitivities at any.

        For a radius that is chosen later, and for rows that a map has turned, which no grid knows.
        """
        radius = self.radius if radius is None else radius
        return replace(self, radius=radius, side=UNITS, step=radius / UNITS)

    def of_images(self, radius: float) -> Lattice:
        """Of rows in other units, within a radius: a step is 2^-20 of a power of two above it.

        So values are on the grid that a power of two has moved there (`Spread.images`).
        """
        made = replace(self, radius=radius)
        made._take(power_above(radius) / UNITS)
        return made

    def with_intercept(self, units: int) -> Lattice:
        """The same with these `intercept_units`."""
        if units == self.intercept_units:
            return self
        return replace(self, intercept=(units - 0.5) / self.side)

    @property
    def intercept_parts(self) -> tuple[int, int]:
        """(tau, c) with t = tau c and c at most 2^20: blocks of rows hold c (`Accumulator`)."""
        wanted = math.ceil(exact(self.intercept) * self.side)
        factor = max(1, -(-wanted // UNITS))
        return factor, -(-wanted // factor)

    @property
    def intercept_units(self) -> int:
        """t, the least product of its parts that is not below its share of the radius."""
        return math.prod(self.intercept_parts)

    @property
    def dimension(self) -> int:
        """Order of the second moment, with the intercept."""
        return self.features + (self.intercept_units > 0)

    @property
    def bound(self) -> int:
        """B^2, the certified bound on the squared norm of a whole row w."""
        return self.side**2 + math.prod(self.intercept_parts) ** 2

    @property
    def unit_bound(self) -> int:
        """Bound k B^2 on the trace of everything that one unit adds."""
        return self.unit.max_rows * self.bound

    def nuclear(self, neighbors: Neighbors) -> int:
        """Nuclear-norm sensitivity: k B^2 add/remove; 2 k B^2 replace-one (k B^2 if d = 1)."""
        return self.unit_bound * (2 if self._two_sided(neighbors) else 1)

    def frobenius_squared(self, neighbors: Neighbors) -> int:
        """Squared Frobenius sensitivity: k^2 B^4 add/remove; twice that replace-one (d > 1).

        ||A - A'||_F^2 <= tr(A)^2 + tr(A')^2 because <A, A'> >= 0.
        """
        return self.unit_bound**2 * (2 if self._two_sided(neighbors) else 1)

    def _two_sided(self, neighbors: Neighbors) -> bool:
        return neighbors == Neighbors.REPLACE_ONE and self.dimension > 1


def power_above(value: float) -> float:
    """The least power of two that is not below a positive number."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def units_per_row(schema: Schema) -> int:
    """By how much a row may add to the number of rows: the integer that stands for one.

    With weights t^2, which the intercept gives to a row of the largest weight; 0 without one.
    """
    return 1 if schema.weight is None else Lattice.of(schema).intercept_parts[1] ** 2


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class SecondMoment:
    """The exact answer to a query: never leaves a mechanism without noise.

    `units` is the (d, d) symmetric object array of Python integers sum w w^T; `unit_count` is
    the number of rows, or of persons where the unit is a person.
    """

    units: NDArray[np.object_]
    lattice: Lattice
    unit_count: int

    def trace(self) -> int:
        return int(np.trace(self.units))


def squared_lengths(block: Matrix) -> Matrix:
    """Of the columns of a (d, m) block of integers.

    Exact where the length is below 2^53, and at least 2^53 elsewhere, in whatever order it is
    summed: sums of integers that are not exact are at least that.
    """
    return np.einsum("ij,ij->j", block, block)


class Accumulator:
    """Exact sum of w w^T over blocks of integer rows.

    Rows come as (z, c), w = (z, tau c): no entry is above 2^20, and `total` has what `factor` = tau
    makes of it. A block's Gram matrix is computed by BLAS in float64, where every partial sum is an
    integer below 2^53 and so exact in any order. Lower triangles of blocks are added to two int64
    limbs, value = high * 2^32 + low: no overflow for fewer than 2^50 rows
    (docs/proofs/release.md 4). Limbs far above the diagonal, and high ones until there is something
    to carry, are never touched: they take no memory.
    """

    __slots__ = ("_carried", "_factor", "_gram", "_high", "_low", "_pending")

    _FLUSHES = 512  # 512 * 2^53 + 2^32 < 2^63

    def __init__(self, dimension: int, factor: int = 1) -> None:
        self._factor = factor
        self._low: Integers = np.zeros((dimension, dimension), np.int64)
        self._high: Integers = np.zeros((dimension, dimension), np.int64)
        self._gram: Matrix | None = None
        self._pending = 0
        self._carried = False

    def add(self, block: Matrix) -> None:
        """Add the rows of a (d, m) block of integer-valued floats, m <= `BLOCK_ROWS`.

        A block that is not contiguous takes twice as long.
        """
        if block.shape[1] > BLOCK_ROWS:
            raise ValueError("a block has too many rows for an exact float64 Gram matrix")
        gram = self._gram = np.empty(self._low.shape) if self._gram is None else self._gram
        np.dot(block, block.T, out=gram)  # matmul lets no other thread run where results are small
        self._reserve(1)
        for here in self._strips():
            self._low[here] += gram[here].astype(np.int64)

    def merge(self, other: Accumulator) -> None:
        """Add another accumulator's sum to this one."""
        self._reserve(other._pending + 1)  # one for what it carried
        self._carried |= other._carried
        for here in self._strips():
            self._low[here] += other._low[here]
            if other._carried:
                self._high[here] += other._high[here]

    def packed(self) -> Integers:
        """(d (d + 1),) limbs of the lower triangle, to be added to those of up to 2^30 others."""
        self._carry()
        both = (self._high, self._low)
        return np.concatenate([row[: i + 1] for limb in both for i, row in enumerate(limb)])

    def add_packed(self, limbs: Integers) -> None:
        """Add a sum of `packed` limbs to this one."""
        self._carry()
        at = 0
        for limb in (self._high, self._low):
            for i, row in enumerate(limb, 1):
                row[:i] += limbs[at : at + i]
                at += i
        self._carry()

    def _strips(self) -> Iterator[tuple[slice, slice]]:
        """Some rows each, up to the diagonal and a little beyond."""
        for start in range(0, len(self._low), _STRIP):
            stop = min(start + _STRIP, len(self._low))
            yield slice(start, stop), slice(0, stop)

    def _reserve(self, blocks: int) -> None:
        """Carry, if what as many blocks add could be more than the low limb can hold."""
        if self._pending + blocks > self._FLUSHES:
            self._carry()
        self._pending += blocks

    def _carry(self) -> None:
        for here in self._strips():
            low = self._low[here]
            self._high[here] += low >> 32
            low &= 2**32 - 1
        self._pending = 0
        self._carried = True

    def total(self) -> NDArray[np.object_]:
        """The sum as Python integers; the two of an entry and its mirror image are one object."""
        self._gram = None
        total = np.empty(self._low.shape, object)
        for i, (row, high, low) in enumerate(zip(total, self._high, self._low, strict=True)):
            here = slice(0, i + 1)
            if np.abs(high[here]).max() < 2**29:  # and low is at most 2^62 + 2^32
                row[here] = (high[here] << 32) + low[here]
            else:
                row[here] = high[here].astype(object) * 2**32 + low[here]
            if i == len(total) - 1 and self._factor > 1:
                row *= self._factor
                row[i] *= self._factor
            total[:i, i] = row[:i]
        return total


# A public affine map on encoded rows, applied exactly in integers (docs/proofs/release.md 2).


FINE_UNITS = 2**40  # grid of the features under a linear map: two limbs of 20 bits
LARGEST_HALVINGS = 200  # of a feature's cap and step


def longest_image(
    matrix: Matrix,
    center: Matrix | None,
    radius: float,
    exclusive: Iterable[Sequence[int]] = (),
) -> float:
    """What |A (z - c)| can't exceed, for features z in [-1, 1] with |z| at most `radius`.

    Of the features at each of the `exclusive` positions, at most one is above 0, and none below.
    """
    center = np.zeros(matrix.shape[1]) if center is None else center
    of_cube = np.linalg.norm(np.abs(matrix) @ (1 + np.abs(center)))
    of_ball = np.linalg.norm(matrix, 2) * (radius + np.linalg.norm(center))
    units = np.diag(matrix)
    if np.any(matrix != np.diag(units)):
        return float(min(of_cube, of_ball))
    squares = (units * (1 + np.abs(center))) ** 2
    for at in exclusive:  # the furthest of 0 and the unit vectors, as lengths are convex
        of_none = (units[at] * center[at]) ** 2
        of_one = (units[at] * (1 - center[at])) ** 2 - of_none
        squares[at] = 0.0
        squares[at[0]] = of_none.sum() + max(0.0, of_one.max())
    return float(min(of_cube, of_ball, np.sqrt(squares.sum())))


@dataclass(frozen=True)
class LinearMap:
    """A public map z -> A (z - c) on encoded rows, in the integers in which it is applied.

    Feature j less its `center` is first capped at 2^-halvings[j] and taken in as much finer steps.
    Row i of the map of features in these units is ``integers[i] * 2^-shifts[i]``: rounded so that
    products with 20-bit limbs sum exactly in float64.
    """

    integers: Matrix
    shifts: Integers
    halvings: Integers
    center: Matrix
    units: Matrix | None = field(init=False)  # the diagonal, where there is nothing else

    def __post_init__(self) -> None:
        units = np.diag(self.integers)
        plain = np.array_equal(self.integers, np.diag(units))
        object.__setattr__(self, "units", units if plain else None)

    @classmethod
    def rounded(
        cls,
        matrix: Matrix,
        halvings: Integers | None = None,
        center: Matrix | None = None,
    ) -> LinearMap:
        """The nearest map that can be applied exactly; relative error about 2^(log2 d - 32)."""
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ValueError("a linear map must be a finite (outputs, features) matrix")
        if halvings is None:
            halvings = np.zeros(matrix.shape[1], np.int64)
        if center is None:
            center = np.zeros(matrix.shape[1])
        scaled = np.ldexp(matrix, -halvings)
        bits = 53 - 21 - max(1, int(np.ceil(np.log2(matrix.shape[1]))))
        largest = np.abs(scaled).max(axis=1)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)
        shifts = bits - exponents
        return cls(np.rint(np.ldexp(scaled, shifts[:, None])), shifts, halvings, center)

    @classmethod
    def focused(cls, matrix: Matrix, reach: float, center: Matrix | None = None) -> LinearMap:
        """Square `matrix`, capping features that only rows mapped beyond `reach` have.

        z - c = A^-1 y has |z_j - c_j| <= ||(A^-1)_j|| |y|. So rows far smaller than their bounds
        keep their digits, and of a row that is capped no more is lost than a clip at `reach` takes.
        """
        try:
            with np.errstate(all="ignore"):
                largest = reach * np.linalg.norm(np.linalg.inv(matrix), axis=1)
        except np.linalg.LinAlgError:
            largest = np.ones(len(matrix))
        exponents = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1].astype(np.int64)
        least = 0 if center is None else -1  # |z_j - c_j| may be 2
        return cls.rounded(matrix, np.clip(-exponents, least, LARGEST_HALVINGS), center)

    def matrix(self) -> Matrix:
        """The map that is applied, as floats: (outputs, features)."""
        return np.ldexp(self.integers, self.halvings - self.shifts[:, None])

    def apply(self, fine: Matrix) -> Matrix:
        """Image of (d, m) integers |z| <= 2^40, in units of 2^-40: exact sums, one rounding.

        Feature j of `fine` is in units of 2^-(40 + halvings[j]).
        """
        high = np.floor(fine * 2.0**-20)
        low = fine - high * 2.0**20
        times = np.matmul if self.units is None else np.multiply
        factor = self.integers if self.units is None else self.units[:, None]
        image = times(factor, high) * 2.0**20 + times(factor, low)
        # Exact, as NumPy's ldexp of the whole image is, which takes ten times as long.
        return image * np.ldexp(1.0, -self.shifts)[:, None]
