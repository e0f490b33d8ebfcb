"""From table cells to integer rows: encode, map, clip, round, certify.

Every function here is total: whatever a cell holds, the row gets an integer image with
squared norm at most Q^2, and that image depends on this row alone (elementwise IEEE arithmetic
and sums in a fixed order; never a BLAS call on inexact values). See docs/proofs/release.md 2, 3.

A column is encoded right after it was read, while the processor still has it in its cache, into few
bytes: numbers in float32, where that holds every integer of the grid, and levels by the place of
their 1. Then columns are written out as blocks of rows, derived ones from the values of those that
they are made from, which are kept as they are till then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcov.rows.cells import codes_of, numbers_of, values_of
from dpcov.rows.moment import BLOCK_ROWS, FINE_UNITS, UNITS, Lattice, LinearMap, squared_lengths
from dpcov.rows.schema import Categorical, Derived, Numeric, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Matrix

FLOAT32_INTEGERS = 2**24  # up to which float32 holds every integer
FLOAT32_RANGES = 60  # columns with half-ranges from 2^-60 to 2^60 are scaled in float32
CHUNK = 2**17  # cells that are encoded at a time: the second-level cache holds them


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class Encoded:
    """Encoded columns of n rows. SENSITIVE.

    Attributes
    ----------
    numbers : (k, n) capped features that are numbers, or mark missing ones; not yet rounded.
    ones : (c, n) of each categorical column, the feature that is 1; or the one after the last.
    roots : (n,) square roots of the weights, as shares of the largest; None without weights.
    parents : (k, n) values, within their bounds, of the columns that others are derived from.

    """

    numbers: NDArray[np.float32] | Matrix
    ones: NDArray[np.int32]
    roots: Matrix | None
    parents: Matrix

    def part(self, rows: slice) -> Encoded:
        """These rows, in the same memory."""
        roots = None if self.roots is None else self.roots[rows]
        return Encoded(self.numbers[:, rows], self.ones[:, rows], roots, self.parents[:, rows])


class Columns:
    """The columns of a schema on a grid.

    Attributes
    ----------
    names : columns that are read.
    largest_squared_norm : of a row, whatever its cells hold; exact.

    """

    def __init__(self, schema: Schema, scales: Matrix) -> None:
        """Take features in units of 1/`scales`, capped at 1 each."""
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
            self.largest_squared_norm += int(largest) ** 2  # one feature of a column is not 0
        self._runs = _runs(of_numbers)
        self._shape = len(of_numbers), len(self._indicated)
        ranges = [c.half_range for c in self._declared.values() if isinstance(c, Numeric)]
        exponents = np.abs(np.log2(np.array(ranges))).max(initial=0.0)
        small = self._caps.max(initial=0.0) <= FLOAT32_INTEGERS and exponents <= FLOAT32_RANGES
        self._kind = np.dtype(np.float32 if small else np.float64)

    def room(self, rows: int) -> Encoded:
        """Memory for this many rows."""
        numbers, ones = self._shape
        return Encoded(
            np.empty((numbers, rows), self._kind),
            np.empty((ones, rows), np.int32),
            None if self._weight is None else np.empty(rows),
            np.empty((len(self._parents), rows)),
        )

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """All columns of a batch."""
        encoded = self.room(batch.num_rows)
        for name in self.names:
            self._put(name, batch.column(name), encoded)
        return encoded

    def put(self, name: str, values: pa.Array | pa.ChunkedArray, into: Encoded) -> None:
        """Encode a column."""
        at, rows = 0, into.numbers.shape[1]
        for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
            self._put(name, chunk, into.part(slice(at, at + len(chunk))))
            at += len(chunk)
        if at != rows:
            raise ValueError("a column has not as many rows as its table")

    def _put(self, name: str, values: pa.Array, into: Encoded) -> None:
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
            places[-1] = len(self._caps)  # where the code -1 leads
            codes = codes_of(values, column, self._missing)
            np.take(places, codes, out=into.ones[self._stored[name]][0], mode="wrap")

    def _put_numbers(
        self,
        values: Matrix,
        column: Numeric,
        features: slice,
        rows: NDArray[np.float32] | Matrix,
    ) -> None:
        midpoint, cap = column.midpoint, float(self._caps[features.start])
        row, work = rows[0], np.empty(min(CHUNK, len(values)) if midpoint else 0)
        with np.errstate(all="ignore"):
            scale = float(self._scales[features.start]) / column.half_range
            for start in range(0, len(values), CHUNK):
                part, here = values[start : start + CHUNK], row[start : start + CHUNK]
                if midpoint != 0:
                    part = np.subtract(part, midpoint, out=work[: len(part)])
                here[:] = part
                np.multiply(here, scale, out=here)
                np.clip(here, -cap, cap, out=here)
            # The quickest test for NaN; nothing else is taken from the sum.
            some = math.isnan(np.dot(row, row))
        missing = np.isnan(row) if some else None
        if len(rows) > 1:  # of the indicator of a missing cell
            rows[1] = 0.0 if missing is None else missing * self._caps[features.start + 1]
        if missing is not None:
            row[missing] = 0.0

    def write(self, encoded: Encoded, rows: Matrix) -> None:
        """Write the features as integers into contiguous (p + 1, n) `rows`; the last is scratch."""
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


def _runs(features: list[int]) -> list[tuple[slice, slice]]:
    """Which of these ascending features are neighbours: slices of the list, and of the features."""
    ends = [i for i, one in enumerate(features, 1) if one + 1 not in features[i : i + 1]]
    starts = [0, *ends]
    return [
        (slice(start, end), slice(features[start], features[end - 1] + 1))
        for start, end in zip(starts, ends, strict=False)
    ]


BLOCK_BYTES = 2**25
CACHE_BYTES = 2**20  # of the second-level cache, for blocks that still have more than `FEW_ROWS`
FEW_ROWS = 2048


class Scratch:
    """Arrays that are used again and again: new memory costs more than the arithmetic in it."""

    def __init__(self) -> None:
        self._kept: dict[str, Matrix] = {}

    def array(self, name: str, *shape: int) -> Matrix:
        """A contiguous array of this shape; what it holds is left from before."""
        size = math.prod(shape)
        if name not in self._kept or self._kept[name].size < size:
            self._kept[name] = np.empty(size)
        return self._kept[name][:size].reshape(shape)


class Encoder:
    """Turns tables into blocks of certified integer rows for one query.

    A row with a weight is multiplied by the square root of its share of the largest weight, before
    the clip; its intercept too. The share is at most 1, so a row is as long as without a weight at
    most, and every sensitivity stays what it is (docs/proofs/weights.md).

    Parameters
    ----------
    schema : declared columns.
    lattice : grid of the query (its `features` counts the outputs of `linear_map`, if any).
    linear_map : public map applied to the encoded row before the clip.

    Attributes
    ----------
    columns : encodes the columns, before the map, weights and the clip.
    intercept : the constant of a row without a weight; 0 if there is none.

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
        self.columns = Columns(schema, scales)
        # Where the caps of the columns alone keep every row inside, they are its certificate.
        largest = self.columns.largest_squared_norm
        self._inside = linear_map is None and largest <= lattice.side**2

    def blocks(self, batch: pa.RecordBatch) -> Iterator[Matrix]:
        """(d, m) integer-valued blocks of rows (z, c), in order; reuses one buffer."""
        encoded, scratch = self.columns.encode(batch), Scratch()
        for rows in self.block_slices(batch.num_rows, 1):
            yield self.block(encoded.part(rows), scratch)

    def block_slices(self, rows: int, threads: int) -> list[slice]:
        """Slices of as many rows as a block may have, of one size, as many for each thread."""
        wide = 8 * (self._dimension + (self._map is not None) * self._inputs)
        fitting = CACHE_BYTES // wide
        most = min(BLOCK_ROWS, fitting if fitting > FEW_ROWS else max(1, BLOCK_BYTES // wide))
        blocks = threads * max(1, -(-rows // (threads * most)))
        size = max(1, -(-rows // blocks))
        return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]

    def block(self, encoded: Encoded, scratch: Scratch) -> Matrix:
        """(d, m) integers of these rows, m at most `BLOCK_ROWS`; in memory of `scratch`.

        A row is (z, c), where c is one of the `Lattice.intercept_parts`.
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
                unmapped = scratch.array("unmapped", self._inputs + 1, count)
                self.columns.write(encoded, unmapped)
                self._mapped(self._map, unmapped[: self._inputs], roots, rows)
            if not self._inside:
                _certify(rows, self._side)
        whole[features] = self.intercept if roots is None else np.rint(roots * self.intercept)
        return whole[: self._dimension]

    def _mapped(
        self,
        linear_map: LinearMap,
        unmapped: Matrix,
        roots: Matrix | None,
        rows: Matrix,
    ) -> None:
        """Write the image of the encoded rows to `rows`."""
        np.subtract(unmapped, self._offsets, out=unmapped)
        if roots is not None:
            np.multiply(unmapped, roots, out=unmapped)
        np.rint(unmapped, out=unmapped)
        np.clip(unmapped, -FINE_UNITS, FINE_UNITS, out=unmapped)
        factor = 1 / (self._step * FINE_UNITS)
        np.rint(linear_map.apply(unmapped) * factor, out=rows)

    def fine_rows(self, batch: pa.RecordBatch) -> tuple[Matrix, Matrix | None]:
        """(p, m) integers z, unmapped, in units of radius * 2^-40, clipped to |z| <= 2^40.

        The grid is that of `Lattice.relative`, 2^20 times as fine. Beside them (m,) square roots of
        the weights, as shares of the largest; None without weights.

        The norm is computed in float64 and has no certificate: no proof may use it.
        """
        columns = Columns(self._schema, np.full(self._inputs, UNITS / self._step))
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
    """Make every column of (d, m) integer `rows` a point with a norm of at most `side`, in place.

    A column that passes has every partial sum of squares at most side^2 <= 2^53, so its certificate
    is exact. The others are moved to the radius.
    """
    others = np.flatnonzero(_outside(squared_lengths(rows), side))
    if others.size == 0:
        return
    moved = rows.take(others, axis=1)
    norms = _squared_norms(moved)
    moved = np.trunc(moved * (side / np.sqrt(norms) * (1 - 2.0**-50)))
    moved[:, ~np.isfinite(moved).all(axis=0) | ~np.isfinite(norms)] = 0.0
    while (over := _outside(squared_lengths(moved), side)).any():
        moved[:, over] -= np.sign(moved[:, over])
    rows[:, others] = moved


def _outside(squared: Matrix, side: int) -> Booleans:
    """Which squared norms are above side^2, or no number."""
    return ~(squared <= float(side**2))


def _squared_norms(rows: Matrix) -> Matrix:
    """Sum of squares of each column, in the order of the features: of each row alone."""
    total, square = np.zeros(rows.shape[1]), np.empty(rows.shape[1])
    for row in rows:
        np.multiply(row, row, out=square)
        np.add(total, square, out=total)
    return total
