"""Encoder: from table cells to integer rows with a bounded norm.

The encoder transforms each row in five steps: encode, apply a linear map, clip, round, and certify
the norm. Every function accepts any cell. The squared norm of the resulting integer row is at most
Q^2, where Q is the clipping radius in lattice steps. The result depends on this row alone, because
dpcov uses elementwise arithmetic and sums in a fixed order. The proof is in
docs/proofs/release.md 2, 3.

To save memory traffic, the encoder compresses each column immediately after reading. Numbers become
float32 if float32 represents every lattice point. Categories become the position of the indicator
that is 1. The encoder then writes blocks of rows. Derived columns are computed from their parent
columns at this point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcov.rows.cells import codes_of, numbers_of, values_of
from dpcov.rows.moment import (
    BLOCK_ROWS,
    FINE_UNITS,
    SQUARED_NORM_LIMIT,
    UNITS,
    Lattice,
    LinearMap,
    exact_squared_norms,
)
from dpcov.rows.schema import Categorical, Derived, Numeric, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Integers, Matrix

MAX_FLOAT32_INTEGER = 2**24  # Float32 represents every integer up to this size.
MAX_FLOAT32_EXPONENT = 60  # Half-ranges from 2^-60 to 2^60 are scaled in float32.
CHUNK_CELLS = 2**17  # Number of cells encoded at a time, which fit into the second-level cache.


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class Encoded:
    """Encoded columns of n rows.

    The content is private: dpcov publishes it only with noise.

    Attributes
    ----------
    numbers : ndarray of float32 or float64, shape (k, n)
        Clipped numeric features and missingness indicators, not yet rounded.

    ones : ndarray of int32, shape (c, n)
        For each categorical column, the feature that is 1. If no feature is 1, the number of
        features.

    roots : ndarray of float, shape (n,), or None
        Square roots of the weights, as fractions of the largest weight; None without weights.

    parents : ndarray of float, shape (k, n)
        Values of the parents of derived columns, clipped to their bounds.

    """

    numbers: NDArray[np.float32] | Matrix
    ones: NDArray[np.int32]
    roots: Matrix | None
    parents: Matrix

    def part(self, rows: slice) -> Encoded:
        """Return a view of the given rows."""
        roots = None if self.roots is None else self.roots[rows]
        return Encoded(self.numbers[:, rows], self.ones[:, rows], roots, self.parents[:, rows])


class Columns:
    """Encoder of the columns of a schema, before the linear map and the clipping.

    Attributes
    ----------
    names : list of str
        Names of the columns to read.
    largest_squared_norm : int
        Exact bound on the squared norm of an encoded row, in squared lattice steps.

    """

    def __init__(self, schema: Schema, scales: Matrix) -> None:
        """Prepare the columns of a schema.

        Parameters
        ----------
        schema : Schema
            Declared columns.

        scales : ndarray of float, shape (p,)
            Number of lattice steps per unit of each feature. The absolute value of each feature is
            clipped to 1.

        """
        self._declared = schema.encoded_columns
        self._missing = schema.missing
        self._weight = schema.weight
        self._scales = scales
        self._caps = np.floor(scales)
        weight = [self._weight.column] if self._weight is not None else []
        self.names = list(dict.fromkeys([*schema.read_columns, *weight]))
        self._derived = {n: c for n, c in self._declared.items() if isinstance(c, Derived)}
        used = (parent for column in self._derived.values() for parent in column.formula.parents)
        self._parents = {name: at for at, name in enumerate(dict.fromkeys(used))}
        self.largest_squared_norm = 0
        self._features: dict[str, slice] = {}
        self._stored: dict[str, slice] = {}
        self._indicated: list[slice] = []
        of_numbers: list[int] = []
        at = 0
        for name, column in self._declared.items():
            if isinstance(column, Categorical):
                here = slice(at, at + len(column.labels))
                self._stored[name] = slice(len(self._indicated), len(self._indicated) + 1)
                self._indicated.append(here)
            else:
                here = slice(at, at + 1 + column.has_indicator)
            if isinstance(column, Numeric) and name not in self._derived:
                self._stored[name] = slice(len(of_numbers), len(of_numbers) + here.stop - at)
                of_numbers += range(at, here.stop)
            self._features[name] = here
            at = here.stop
            largest = self._caps[here].max(initial=0.0)
            self.largest_squared_norm += (
                int(largest) ** 2
            )  # only one feature of a column can be nonzero
        self._runs = _runs(of_numbers)
        self._shape = len(of_numbers), len(self._indicated)
        ranges = [c.half_range for c in self._declared.values() if isinstance(c, Numeric)]
        exponents = np.abs(np.log2(np.array(ranges))).max(initial=0.0)
        small = (
            self._caps.max(initial=0.0) <= MAX_FLOAT32_INTEGER and exponents <= MAX_FLOAT32_EXPONENT
        )
        self._kind = np.dtype(np.float32 if small else np.float64)

    def allocate(self, rows: int) -> Encoded:
        """Allocate memory for the given number of encoded rows."""
        numbers, ones = self._shape
        return Encoded(
            np.empty((numbers, rows), self._kind),
            np.empty((ones, rows), np.int32),
            None if self._weight is None else np.empty(rows),
            np.empty((len(self._parents), rows)),
        )

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """Encode all columns of a batch."""
        encoded = self.allocate(batch.num_rows)
        for name in self.names:
            self._put(name, batch.column(name), encoded)
        return encoded

    def put(self, name: str, values: pa.Array | pa.ChunkedArray, into: Encoded) -> None:
        """Encode one column into allocated memory.

        Parameters
        ----------
        name : str
            Name of the column.
        values : pyarrow.Array or pyarrow.ChunkedArray, length n
            Cells of the column.
        into : Encoded
            Memory for n rows.

        """
        at, rows = 0, into.numbers.shape[1]
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            self._put(name, chunk, into.part(slice(at, at + len(chunk))))
            at += len(chunk)
        if at != rows:
            raise ValueError("a column and its table have different numbers of rows")

    def _put(self, name: str, values: pa.Array, into: Encoded) -> None:
        """Encode one chunk of a column into allocated memory."""
        if self._weight is not None and name == self._weight.column and into.roots is not None:
            with np.errstate(all="ignore"):
                shares = numbers_of(values, self._missing) / self._weight.maximum
                shares = np.nan_to_num(shares, nan=0.0)
                np.sqrt(np.clip(shares, 0.0, 1.0), out=into.roots)
        column = self._declared.get(name)
        if isinstance(column, Numeric):
            numbers = values_of(values, column, self._missing)
            if name in self._parents:
                kept = into.parents[self._parents[name]]
                np.clip(numbers, column.lower, column.upper, out=kept)
            self._put_numbers(
                numbers, column, self._features[name], into.numbers[self._stored[name]]
            )
        elif column is not None:
            features = self._features[name]
            places = np.arange(features.start, features.stop + 1, dtype=np.int32)
            places[-1] = len(self._caps)  # the code -1 selects the last entry
            codes = codes_of(values, column, self._missing)
            np.take(places, codes, out=into.ones[self._stored[name]][0], mode="wrap")

    def _put_numbers(
        self,
        values: Matrix,
        column: Numeric,
        features: slice,
        rows: NDArray[np.float32] | Matrix,
    ) -> None:
        """Scale and clip one numeric column and its missingness indicator.

        Parameters
        ----------
        values : ndarray of float, shape (n,)
            Numbers; NaN for missing cells.

        column : Numeric
            Declaration of the column.

        features : slice
            Positions of the number and its indicator among all features.

        rows : ndarray of float, shape (1, n) or (2, n)
            Output, in lattice steps.

        """
        midpoint, cap = column.midpoint, float(self._caps[features.start])
        row, work = rows[0], np.empty(min(CHUNK_CELLS, len(values)) if midpoint else 0)
        with np.errstate(all="ignore"):
            scale = float(self._scales[features.start]) / column.half_range
            for start in range(0, len(values), CHUNK_CELLS):
                part, here = values[start : start + CHUNK_CELLS], row[start : start + CHUNK_CELLS]
                if midpoint != 0:
                    part = np.subtract(part, midpoint, out=work[: len(part)])
                here[:] = part
                np.multiply(here, scale, out=here)
                np.clip(here, -cap, cap, out=here)
            # The fastest test for NaN. The value of the product has no other use.
            some = math.isnan(np.dot(row, row))
        missing = np.isnan(row) if some else None
        if len(rows) > 1:  # the row of the missingness indicator
            rows[1] = 0.0 if missing is None else missing * self._caps[features.start + 1]
        if missing is not None:
            row[missing] = 0.0

    def write(self, encoded: Encoded, rows: Matrix) -> None:
        """Write all features as rounded integers.

        Parameters
        ----------
        encoded : Encoded
            Encoded columns of n rows.
        rows : ndarray of float64, shape (p + 1, n), contiguous
            Output in lattice steps; the last row is scratch memory.

        """
        for features in self._indicated:
            rows[features] = 0.0
        for stored, features in self._runs:
            np.rint(encoded.numbers[stored], out=rows[features])
        if self._indicated:
            count = rows.shape[1]
            places = encoded.ones * np.int64(count) + np.arange(count)
            rows.reshape(-1)[places] = np.append(self._caps, 0.0).take(encoded.ones)
        for name, column in self._derived.items():
            parents = (encoded.parents[self._parents[one]] for one in column.formula.parents)
            here = rows[self._features[name]]
            self._put_numbers(column.formula.of(*parents), column, self._features[name], here)
            np.rint(here, out=here)


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class MeanRows:
    """Mean rows of persons.

    The content is private: dpcov publishes it only with noise.

    Attributes
    ----------
    means : ndarray of int32, shape (n, p)
        One row per person, in steps of 2^-20 of a half-range.

    """

    means: Integers

    @property
    def num_rows(self) -> int:
        """Number of persons."""
        return len(self.means)


class MeanColumns(Columns):
    """Encoder of mean rows, before the linear map and the clipping."""

    def __init__(self, schema: Schema, scales: Matrix) -> None:
        super().__init__(schema, scales)
        self.largest_squared_norm = SQUARED_NORM_LIMIT  # so that every row is certified

    def encode(self, batch: MeanRows) -> Encoded:
        """Scale the mean rows to the lattice of a query; `write` rounds them."""
        numbers = np.ascontiguousarray(batch.means.T, np.float64)
        np.multiply(numbers, (self._scales / UNITS)[:, None], out=numbers)
        np.clip(numbers, -self._caps[:, None], self._caps[:, None], out=numbers)
        count = batch.num_rows
        return Encoded(numbers, np.empty((0, count), np.int32), None, np.empty((0, count)))

    def write(self, encoded: Encoded, rows: Matrix) -> None:
        """Write all features as rounded integers, in lattice steps."""
        np.rint(encoded.numbers, out=rows[: len(encoded.numbers)])


def columns_of(schema: Schema, scales: Matrix) -> Columns:
    """Return the encoder of the rows of a schema, or of the mean rows of its persons."""
    return (MeanColumns if schema.person_means else Columns)(schema, scales)


def _runs(features: list[int]) -> list[tuple[slice, slice]]:
    """Group ascending positions into runs of neighbours.

    Returns
    -------
    list of (slice, slice)
        For each run, the slice of the list and the slice of the features.

    """
    ends = [i for i, one in enumerate(features, 1) if one + 1 not in features[i : i + 1]]
    starts = [0, *ends]
    return [
        (slice(start, end), slice(features[start], features[end - 1] + 1))
        for start, end in zip(starts, ends, strict=False)
    ]


BLOCK_BYTES = 2**25  # maximum size of a block in bytes
CACHE_BYTES = 2**20  # assumed size of the second-level cache in bytes
MIN_CACHED_ROWS = 2048  # blocks fit into the cache only if they then have more rows than this


class Scratch:
    """Reusable arrays, because allocating memory takes longer than the arithmetic."""

    def __init__(self) -> None:
        self._kept: dict[str, Matrix] = {}

    def array(self, name: str, *shape: int) -> Matrix:
        """Return an uninitialized contiguous array of the given shape.

        Parameters
        ----------
        name : str
            Name of the array. A second call with the same name reuses the memory.
        *shape : int
            Shape of the array.

        """
        size = math.prod(shape)
        if name not in self._kept or self._kept[name].size < size:
            self._kept[name] = np.empty(size)
        return self._kept[name][:size].reshape(shape)


class Encoder:
    """Encoder of tables into blocks of integer rows with certified norms, for one query.

    If the schema has weights, the encoder multiplies each row and its intercept by a factor before
    clipping. The factor is the square root of the weight divided by the largest weight. The factor
    is at most 1, so no norm grows and every sensitivity stays the same (docs/proofs/weights.md).

    Parameters
    ----------
    schema : Schema
        Declared columns.

    lattice : Lattice
        Lattice of the query. With a linear map, `lattice.features` is the number of its outputs.

    linear_map : LinearMap, optional
        Public map that is applied to the encoded row before clipping.

    Attributes
    ----------
    columns : Columns
        Encoder of the columns, before the map, the weights and the clipping.

    intercept : int
        Intercept of a row with the largest weight, in lattice steps; 0 if there is none.

    """

    def __init__(
        self, schema: Schema, lattice: Lattice, linear_map: LinearMap | None = None
    ) -> None:
        self._schema = schema
        self._step = lattice.step
        self._side = lattice.side
        self._features = lattice.features
        self.intercept = lattice.intercept_parts[1]
        self._dimension = lattice.dimension
        self._map = linear_map
        self._inputs = len(schema.features)
        scales = np.full(self._inputs, 1 / lattice.step)
        if linear_map is not None:
            scales = np.ldexp(float(FINE_UNITS), linear_map.halvings)
            self._offsets = (linear_map.center * scales)[:, None]
        self.columns = columns_of(schema, scales)
        # The bounds of the columns alone can already guarantee that every row is within the radius.
        largest = self.columns.largest_squared_norm
        self._inside = linear_map is None and largest <= lattice.side**2

    def blocks(self, batch: pa.RecordBatch) -> Iterator[Matrix]:
        """Yield all rows of a batch as integer blocks of shape (d, m), in order.

        All blocks share the same memory.
        """
        encoded, scratch = self.columns.encode(batch), Scratch()
        for rows in self.block_slices(batch.num_rows, 1):
            yield self.block(encoded.part(rows), scratch)

    def block_slices(self, rows: int, threads: int) -> list[slice]:
        """Split rows into slices of equal size, the same number for each thread.

        Parameters
        ----------
        rows : int
            Number of rows.
        threads : int
            Number of threads.

        Returns
        -------
        list of slice
            Slices that are small enough for one block each.

        """
        wide = 8 * (self._dimension + (self._map is not None) * self._inputs)
        fitting = CACHE_BYTES // wide
        most = min(
            BLOCK_ROWS, fitting if fitting > MIN_CACHED_ROWS else max(1, BLOCK_BYTES // wide)
        )
        blocks = threads * max(1, -(-rows // (threads * most)))
        size = max(1, -(-rows // blocks))
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]

    def block(self, encoded: Encoded, scratch: Scratch) -> Matrix:
        """Encode rows as an integer block.

        Parameters
        ----------
        encoded : Encoded
            Encoded columns of m rows, with m at most `BLOCK_ROWS`.
        scratch : Scratch
            Memory for the result.

        Returns
        -------
        ndarray of float64, shape (d, m)
            Integer rows (z, c), where c is a part of the intercept (see `Lattice.intercept_parts`).

        """
        features, roots, count = self._features, encoded.roots, encoded.numbers.shape[1]
        whole = scratch.array("whole", features + 1, count)
        rows = whole[:features]
        with np.errstate(all="ignore"):
            if self._map is None:
                self.columns.write(encoded, whole)
                if roots is not None:
                    np.multiply(rows, roots, out=rows)
                    np.rint(rows, out=rows)
            else:
                inputs = scratch.array("inputs", self._inputs + 1, count)
                self.columns.write(encoded, inputs)
                self._transform(self._map, inputs[: self._inputs], roots, rows)
            if not self._inside:
                _certify(rows, self._side)
        whole[features] = self.intercept if roots is None else np.rint(roots * self.intercept)
        return whole[: self._dimension]

    def _transform(
        self,
        linear_map: LinearMap,
        inputs: Matrix,
        roots: Matrix | None,
        rows: Matrix,
    ) -> None:
        """Apply the linear map to the encoded rows and write the result to `rows`."""
        np.subtract(inputs, self._offsets, out=inputs)
        if roots is not None:
            np.multiply(inputs, roots, out=inputs)
        np.rint(inputs, out=inputs)
        np.clip(inputs, -FINE_UNITS, FINE_UNITS, out=inputs)
        factor = 1 / (self._step * FINE_UNITS)
        np.rint(linear_map.apply(inputs) * factor, out=rows)

    def fine_rows(self, batch: pa.RecordBatch) -> tuple[Matrix, Matrix | None]:
        """Encode a batch on a lattice that is 2^20 times finer, for mechanisms that need all rows.

        The norms are computed in float64 and are not certified. A proof must not use them.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Table with m rows.

        Returns
        -------
        rows : ndarray of float64, shape (p, m)
            Integer rows without the linear map, in units of the radius * 2^-40. Each norm is at
            most about 2^40.

        roots : ndarray of float, shape (m,), or None
            Square roots of the weights, as fractions of the largest weight; None without weights.

        """
        columns = columns_of(self._schema, np.full(self._inputs, UNITS / self._step))
        encoded = columns.encode(batch)
        whole = np.empty((self._inputs + 1, batch.num_rows))
        rows = whole[:-1]
        with np.errstate(all="ignore"):
            columns.write(encoded, whole)
            if encoded.roots is not None:
                rows *= encoded.roots
            norms = np.sqrt(_squared_norms(rows))
            shrink = FINE_UNITS / norms * (1 - 2.0**-50)
            clipped: Matrix = np.trunc(rows * np.where(norms > FINE_UNITS, shrink, 1))
        return clipped, encoded.roots


def _certify(rows: Matrix, side: int) -> None:
    """Clip every column of an integer block to a norm of at most `side`, in place.

    If a column passes the test, every partial sum of its squares is at most side^2 <= 2^53. The
    test is then exact. All other columns are scaled to the radius.

    Parameters
    ----------
    rows : ndarray of float64, shape (d, m)
        Integer rows, one per column of the array.
    side : int
        Clipping radius in lattice steps.

    """
    others = np.flatnonzero(_outside(exact_squared_norms(rows), side))
    if others.size == 0:
        return
    moved = rows.take(others, axis=1)
    norms = _squared_norms(moved)
    moved = np.trunc(moved * (side / np.sqrt(norms) * (1 - 2.0**-50)))
    moved[:, ~np.isfinite(moved).all(axis=0) | ~np.isfinite(norms)] = 0.0
    while (over := _outside(exact_squared_norms(moved), side)).any():
        moved[:, over] -= np.sign(moved[:, over])
    rows[:, others] = moved


def _outside(squared: Matrix, side: int) -> Booleans:
    """Return True for squared norms that exceed side^2 or are NaN."""
    return ~(squared <= float(side**2))


def _squared_norms(rows: Matrix) -> Matrix:
    """Compute the sum of squares of each column, in a fixed order for each column."""
    total, square = np.zeros(rows.shape[1]), np.empty(rows.shape[1])
    for row in rows:
        np.multiply(row, row, out=square)
        np.add(total, square, out=total)
    return total
