"""Exact integer second moments and their sensitivities.

A `Lattice` describes everything public about a query. The `SecondMoment` is the sensitive answer.
An `Accumulator` computes it with exact arithmetic, so the result does not depend on order, batches
or threads. The proofs are in docs/proofs/release.md 4, 5.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.core.privacy import ROW_UNIT, Neighbors, Unit, exact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.rows.schema import Schema

UNITS = 2**20  # Lattice steps per half-range of a column, or per radius after a linear map.
# Strict upper bound on squared norms in squared lattice steps, so that float64 is exact.
SQUARED_NORM_LIMIT = 2**53
_STRIP_ROWS = 64  # Number of rows of a Gram matrix that are converted at a time, to save memory.
BLOCK_ROWS = 4096  # Maximum number of rows of one BLAS call: BLOCK_ROWS * 2^40 < 2^53.


def _derived() -> Any:
    """Return a field that the constructor sets, and that equality and hashes ignore."""
    return field(init=False, repr=False, compare=False, hash=False)


@dataclass(frozen=True, slots=True)
class Lattice:
    """Integer lattice of the rows of a query, and the sensitivities of the query.

    A row is w = (z, t). The part z has `features` integers of at most 2^20 and a norm of at most
    `side` = Q, the clipping radius in lattice steps. The part t is the intercept `intercept_units`;
    a row with a weight has a smaller intercept. The bound B^2 = `bound` on ||w||^2 is below 2^53.

    Between neighbouring tables, the second moment changes by A - A'. Both matrices are positive
    semidefinite and have a trace of at most k B^2. Here k is `unit.max_rows` (1 if the privacy unit
    is a row). Under add-remove, one of the two matrices is 0. All sensitivities are exact integers
    in squared lattice steps (docs/proofs/release.md 5).

    If `side` and `step` are 0, a step is 2^-20 of a half-range at any radius of at least 1/2.
    Bounds, midpoints and levels are then lattice points. The step is smaller if the radius is below
    1/2. The step is a larger power of two if B^2 would otherwise reach 2^53 (from 7,516 columns
    on).

    Parameters
    ----------
    features : int
        Number p of features, without the intercept.

    radius : float
        Clipping radius of an encoded row.

    intercept : float
        Intercept as a fraction of the radius.

    unit : Unit
        Privacy unit.

    side : int
        Clipping radius in lattice steps; 0 chooses the radius, rounded up to whole steps.

    step : float
        Lattice step in units of an encoded row; 0 chooses the step described above.

    equal_intercepts : bool
        True if every row has the full intercept, because the schema has no weights.

    Attributes
    ----------
    intercept_parts : tuple of int, length 2
        Factors (tau, c) of the intercept t = tau c, with c at most 2^20. Blocks of rows contain c
        (see `Accumulator`).

    intercept_units : int
        Intercept t in lattice steps: the smallest product of its factors that is at least the
        requested intercept.

    intercept_size : float
        Intercept t in units of an encoded row.

    dimension : int
        Order d of the second moment, including the intercept.

    bound : int
        Certified bound B^2 on the squared norm of a whole row w, in squared lattice steps.

    unit_bound : int
        Bound k B^2 on the trace of the contribution of one privacy unit.

    """

    features: int
    radius: float
    intercept: float = 0.0
    unit: Unit = ROW_UNIT
    side: int = 0
    step: float = 0.0
    equal_intercepts: bool = False
    intercept_parts: tuple[int, int] = _derived()
    intercept_units: int = _derived()
    intercept_size: float = _derived()
    dimension: int = _derived()
    bound: int = _derived()
    unit_bound: int = _derived()

    def __post_init__(self) -> None:
        if self.side:
            self._set(self.step, self.side)
            return
        self._set_step(min(1.0, power_above(self.radius)) / UNITS)
        while self.bound >= SQUARED_NORM_LIMIT:
            self._set_step(2 * self.step)

    def _set_step(self, step: float) -> None:
        """Set the step, and the radius in steps."""
        self._set(step, math.ceil(exact(self.radius) / exact(step)))

    def _set(self, step: float, side: int) -> None:
        """Set the step, the radius in steps, and what follows from both."""
        wanted = math.ceil(exact(self.intercept) * side)
        factor = max(1, -(-wanted // UNITS))
        parts = factor, -(-wanted // factor)
        units = math.prod(parts)
        bound = side**2 + units**2
        facts = {
            "step": step,
            "side": side,
            "intercept_parts": parts,
            "intercept_units": units,
            "intercept_size": units * step,
            "dimension": self.features + (units > 0),
            "bound": bound,
            "unit_bound": self.unit.max_rows * bound,
        }
        for name, value in facts.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls, schema: Schema, *, radius: float | None = None, features: int | None = None
    ) -> Lattice:
        """Build the lattice of a schema's rows.

        Parameters
        ----------
        schema : Schema
            Declared columns.

        radius : float, optional
            Another clipping radius. The step is then 2^-20 of this radius.

        features : int, optional
            Number of outputs of a linear map.

        Returns
        -------
        Lattice

        """
        whole = cls(
            len(schema.features) if features is None else features,
            schema.effective_radius,
            schema.intercept,
            schema.privacy_unit,
            equal_intercepts=schema.weight is None,
        )
        return whole if radius is features is None else whole.relative(radius)

    def relative(self, radius: float | None = None) -> Lattice:
        """Return a lattice whose step is 2^-20 of a radius.

        No sensitivity then depends on the radius. Mechanisms use this lattice for a radius that is
        chosen later, and for rotated rows.
        """
        radius = self.radius if radius is None else radius
        return replace(self, radius=radius, side=UNITS, step=radius / UNITS)

    def for_transform(self, radius: float) -> Lattice:
        """Return a lattice for standardized rows, whose step is 2^-20 of a power of two.

        The power is the smallest that is at least the radius. Bounds, midpoints and levels then
        stay on the lattice after a scaling by factors with few binary digits.

        Parameters
        ----------
        radius : float
            Clipping radius of the standardized rows.

        Returns
        -------
        Lattice

        """
        made = replace(self, radius=radius)
        made._set_step(power_above(radius) / UNITS)
        return made

    def with_intercept(self, units: int) -> Lattice:
        """Return the same lattice with another intercept, in lattice steps."""
        if units == self.intercept_units:
            return self
        return replace(self, intercept=(units - 0.5) / self.side)

    def nuclear(self, neighbors: Neighbors) -> int:
        """Return the nuclear-norm sensitivity, in squared lattice steps.

        The sensitivity is k B^2 under add-remove, and 2 k B^2 under replace-one. With d = 1 it is
        always k B^2.
        """
        return self.unit_bound * (2 if self._two_sided(neighbors) else 1)

    def frobenius_squared(self, neighbors: Neighbors) -> int:
        """Return the squared Frobenius-norm sensitivity.

        The value is k^2 B^4 under add-remove, and twice as large under replace-one (if d > 1). The
        reason is ``||A - A'||_F^2 <= tr(A)^2 + tr(A')^2``, because <A, A'> >= 0.
        """
        return self.unit_bound**2 * (2 if self._two_sided(neighbors) else 1)

    def _two_sided(self, neighbors: Neighbors) -> bool:
        """Return True if both A and A' can be nonzero."""
        return neighbors == Neighbors.REPLACE_ONE and self.dimension > 1


def power_above(value: float) -> float:
    """Return the smallest power of two that is at least a positive number."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(1.0, exponent - (mantissa == 0.5))


def units_per_row(schema: Schema) -> int:
    """Return the integer that represents one row in the released count of rows.

    With weights, the integer is t^2 for a row of the largest weight, or 0 without an intercept.
    """
    return 1 if schema.weight is None else Lattice.of(schema).intercept_parts[1] ** 2


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class SecondMoment:
    """Exact answer to a query.

    The content is private: only a mechanism uses it, together with noise.

    Attributes
    ----------
    units : ndarray of object, shape (d, d)
        Symmetric matrix of Python integers: the sum of w w^T in squared lattice steps.

    lattice : Lattice
        Lattice of the rows.

    unit_count : int
        Number of rows, or of persons if the privacy unit is a person.

    """

    units: NDArray[np.object_]
    lattice: Lattice
    unit_count: int

    def trace(self) -> int:
        """Return the sum of the squared norms, in squared lattice steps."""
        return int(np.trace(self.units))


def exact_squared_norms(block: Matrix) -> Matrix:
    """Compute the squared Euclidean norm of each column of an integer block.

    A squared norm below 2^53 is exact. Any other result is at least 2^53, in every order of
    summation.

    Parameters
    ----------
    block : ndarray of float64, shape (d, m)
        Integers.

    Returns
    -------
    ndarray of float64, shape (m,)
        Squared norms.

    """
    return np.einsum("ij,ij->j", block, block)


class Accumulator:
    """Exact sum of w w^T over blocks of integer rows.

    Rows are given as (z, c) with w = (z, tau c), so no entry exceeds 2^20. `total` multiplies by
    `factor` = tau. BLAS computes the Gram matrix of a block in float64. Every partial sum is an
    integer below 2^53, so the result is exact in any order. The lower triangles are added to two
    int64 limbs, with value = high * 2^32 + low. The limbs cannot overflow for fewer than 2^50 rows
    (docs/proofs/release.md 4). Most limbs above the diagonal are never written, so the
    operating system allocates no memory for them.

    Parameters
    ----------
    dimension : int
        Order d of the second moment.
    factor : int
        Factor tau of the intercept.

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
        """Add the rows of an integer block.

        Parameters
        ----------
        block : ndarray of float64, shape (d, m)
            Integers, with m at most `BLOCK_ROWS`. A contiguous block is added twice as fast as
            others.

        """
        if block.shape[1] > BLOCK_ROWS:
            raise ValueError("a block has too many rows for an exact float64 Gram matrix")
        gram = self._gram = np.empty(self._low.shape) if self._gram is None else self._gram
        np.dot(block, block.T, out=gram)  # for small results, matmul blocks all other threads
        self._reserve(1)
        for here in self._strips():
            self._low[here] += gram[here].astype(np.int64)

    def merge(self, other: Accumulator) -> None:
        """Add the sum of another accumulator."""
        self._reserve(other._pending + 1)  # one more for the carried part
        self._carried |= other._carried
        for here in self._strips():
            self._low[here] += other._low[here]
            if other._carried:
                self._high[here] += other._high[here]

    def packed(self) -> Integers:
        """Return the limbs of the lower triangle, as integers that can be added.

        Returns
        -------
        ndarray of int64, shape (d (d + 1),)
            Limbs. A sum of up to 2^30 such arrays does not overflow.

        """
        self._carry()
        both = (self._high, self._low)
        return np.concatenate([row[: i + 1] for limb in both for i, row in enumerate(limb)])

    def add_packed(self, limbs: Integers) -> None:
        """Add a sum of `packed` limbs."""
        self._carry()
        at = 0
        for limb in (self._high, self._low):
            for i, row in enumerate(limb, 1):
                row[:i] += limbs[at : at + i]
                at += i
        self._carry()

    def _strips(self) -> Iterator[tuple[slice, slice]]:
        """Yield strips of rows, with the columns up to the diagonal and slightly beyond."""
        for start in range(0, len(self._low), _STRIP_ROWS):
            stop = min(start + _STRIP_ROWS, len(self._low))
            yield slice(start, stop), slice(0, stop)

    def _reserve(self, blocks: int) -> None:
        """Carry before `blocks` more blocks could overflow the low limb."""
        if self._pending + blocks > self._FLUSHES:
            self._carry()
        self._pending += blocks

    def _carry(self) -> None:
        """Move the upper 32 bits of the low limb to the high limb."""
        for here in self._strips():
            low = self._low[here]
            self._high[here] += low >> 32
            low &= 2**32 - 1
        self._pending = 0
        self._carried = True

    def total(self) -> NDArray[np.object_]:
        """Return the sum as a symmetric matrix of Python integers, shape (d, d).

        Mirrored entries share one object.
        """
        self._gram = None
        total = np.empty(self._low.shape, object)
        for i, (row, high, low) in enumerate(zip(total, self._high, self._low, strict=True)):
            here = slice(0, i + 1)
            if np.abs(high[here]).max() < 2**29:  # the low limb is at most 2^62 + 2^32
                row[here] = (high[here] << 32) + low[here]
            else:
                row[here] = high[here].astype(object) * 2**32 + low[here]
            if i == len(total) - 1 and self._factor > 1:
                row *= self._factor
                row[i] *= self._factor
            total[:i, i] = row[:i]
        return total


# Public affine maps on encoded rows, computed exactly in integers (docs/proofs/release.md 2).


# Steps per unit of a feature before a linear map: two limbs of 20 bits.
FINE_UNITS = 2**40
MAX_FEATURE_HALVINGS = 200  # Maximum number of halvings of the bound and the step of a feature.


def max_transformed_norm(
    matrix: Matrix,
    center: Matrix | None,
    radius: float,
    exclusive: Iterable[Sequence[int]] = (),
    *,
    spectral: float | None = None,
) -> float:
    """Bound the norm of A (z - c) over all encoded rows z.

    Parameters
    ----------
    matrix : ndarray, shape (outputs, p)
        Matrix A.

    center : ndarray, shape (p,), or None
        Vector c; None stands for 0.

    radius : float
        Bound on the norm of z. Each feature of z is between -1 and 1.

    exclusive : iterable of sequences of int
        Groups of features. In each group at most one feature is nonzero, and none is negative.

    spectral : float, optional
        Lower bound of the spectral norm of A, in place of the spectral norm. The result is then a
        lower bound of the usual result, which takes less time.

    Returns
    -------
    float
        Upper bound on the norm.

    """
    center = np.zeros(matrix.shape[1]) if center is None else center
    of_cube = np.linalg.norm(np.abs(matrix) @ (1 + np.abs(center)))
    spectral = float(np.linalg.norm(matrix, 2)) if spectral is None else spectral
    of_ball = spectral * (radius + np.linalg.norm(center))
    units = np.diag(matrix)
    if np.any(matrix != np.diag(units)):
        return float(min(of_cube, of_ball))
    squares = (units * (1 + np.abs(center))) ** 2
    for at in exclusive:  # the farthest of 0 and the unit vectors, because norms are convex
        of_none = (units[at] * center[at]) ** 2
        of_one = (units[at] * (1 - center[at])) ** 2 - of_none
        squares[at] = 0.0
        squares[at[0]] = of_none.sum() + max(0.0, of_one.max())
    return float(min(of_cube, of_ball, np.sqrt(squares.sum())))


@dataclass(frozen=True)
class LinearMap:
    """Public map z -> A (z - c) on encoded rows, with integer coefficients.

    The map first subtracts the `center` and clips feature j to 2^-halvings[j]. The step of feature
    j becomes finer by the same factor. In these units, row i of the matrix is ``integers[i] *
    2^-shifts[i]``. The coefficients are rounded so that their products with 20-bit limbs sum
    exactly in float64.

    Attributes
    ----------
    integers : ndarray of float64, shape (outputs, p)
        Integer coefficients.

    shifts : ndarray of int64, shape (outputs,)
        Binary exponents of the rows.

    halvings : ndarray of int64, shape (p,)
        Binary exponents of the bounds of the features.

    center : ndarray of float64, shape (p,)
        Vector c.

    units : ndarray of float64, shape (p,), or None
        Diagonal of a diagonal map; otherwise None.

    """

    integers: Matrix
    shifts: Integers
    halvings: Integers
    center: Matrix
    units: Matrix | None = field(init=False)

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
        """Round a matrix to the nearest map that dpcov can apply exactly.

        The relative error of the coefficients is about 2^(log2 p - 32).

        Parameters
        ----------
        matrix : ndarray, shape (outputs, p)
            Finite matrix A.

        halvings : ndarray of int64, shape (p,), optional
            Binary exponents of the bounds of the features; 0 by default.

        center : ndarray, shape (p,), optional
            Vector c; 0 by default.

        Returns
        -------
        LinearMap

        """
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
        """Round a square matrix with small bounds, so that small rows keep their precision.

        With y = A (z - c), each feature satisfies |z_j - c_j| <= ||(A^-1)_j|| |y|. A feature beyond
        its bound therefore occurs only in rows with |y| > `reach`. The bounds remove no more from
        such rows than clipping at `reach`.

        Parameters
        ----------
        matrix : ndarray, shape (p, p)
            Matrix A.

        reach : float
            Largest norm of y for which no feature is clipped.

        center : ndarray, shape (p,), optional
            Vector c; 0 by default.

        Returns
        -------
        LinearMap

        """
        try:
            with np.errstate(all="ignore"):
                largest = reach * np.linalg.norm(np.linalg.inv(matrix), axis=1)
        except np.linalg.LinAlgError:
            largest = np.ones(len(matrix))
        exponents = np.frexp(np.where(np.isfinite(largest), largest, 1.0))[1].astype(np.int64)
        least = 0 if center is None else -1  # |z_j - c_j| can be 2
        return cls.rounded(matrix, np.clip(-exponents, least, MAX_FEATURE_HALVINGS), center)

    def matrix(self) -> Matrix:
        """Return the matrix A that is applied, as floats of shape (outputs, p)."""
        return np.ldexp(self.integers, self.halvings - self.shifts[:, None])

    def apply(self, fine: Matrix) -> Matrix:
        """Apply the map to integer rows, with exact sums and one rounding.

        Parameters
        ----------
        fine : ndarray of float64, shape (p, m)
            Integers of at most 2^40. Feature j is in units of 2^-(40 + halvings[j]).

        Returns
        -------
        ndarray of float64, shape (outputs, m)
            Transformed rows, in units of 2^-40.

        """
        high = np.floor(fine * 2.0**-20)
        low = fine - high * 2.0**20
        times = np.matmul if self.units is None else np.multiply
        factor = self.integers if self.units is None else self.units[:, None]
        image = times(factor, high) * 2.0**20 + times(factor, low)
        # This product is exact. NumPy's ldexp of the whole result takes ten times as long.
        return image * np.ldexp(1.0, -self.shifts)[:, None]
