"""From table cells to integer rows: encode, map, clip, round, certify.

Every function here is total: whatever a cell holds, the row gets an integer image with
squared norm at most 2^40, and that image depends on this row alone (elementwise IEEE arithmetic
and sums in a fixed order; never a BLAS call on inexact values). See docs/proofs/release.md 2, 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcov.encoded import Columns, Encoded
from dpcov.linear_map import FINE_UNITS, LinearMap
from dpcov.moment import BLOCK_ROWS, UNITS_PER_RADIUS, Lattice, squared_lengths
from dpcov.schema import Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

RADIUS_SQUARED = float(UNITS_PER_RADIUS**2)
BLOCK_BYTES = 2**25
CACHE_BYTES = 2**20  # of the second-level cache, for blocks that still have more than `FEW_ROWS`
FEW_ROWS = 2048


class Scratch:
    """Arrays that are used again and again: new memory costs more than the arithmetic in it."""

    def __init__(self) -> None:
        self._kept: dict[str, NDArray[np.float64]] = {}

    def array(self, name: str, *shape: int) -> NDArray[np.float64]:
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

    """

    def __init__(
        self, schema: Schema, lattice: Lattice, linear_map: LinearMap | None = None
    ) -> None:
        self._schema = schema
        self._radius = lattice.radius
        self._features = lattice.features
        self._intercept = lattice.intercept_units
        self._dimension = lattice.dimension
        self._map = linear_map
        self._inputs = len(schema.features)
        scales = np.full(self._inputs, UNITS_PER_RADIUS / lattice.radius)
        if linear_map is not None:
            scales = np.ldexp(float(FINE_UNITS), linear_map.halvings)
            self._offsets = (linear_map.center * scales)[:, None]
        self.columns = Columns(schema, scales)
        # Where the caps of the columns alone keep every row inside, they are its certificate.
        largest = self.columns.largest_squared_norm
        self._inside = linear_map is None and largest <= UNITS_PER_RADIUS**2

    def blocks(self, batch: pa.RecordBatch) -> Iterator[NDArray[np.float64]]:
        """(d, m) integer-valued blocks of rows (z, t), in order; reuses one buffer."""
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

    def block(self, encoded: Encoded, scratch: Scratch) -> NDArray[np.float64]:
        """(d, m) integers of these rows (z, t), m at most `BLOCK_ROWS`; in memory of `scratch`."""
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
                _certify(rows)
        whole[features] = self._intercept if roots is None else np.rint(roots * self._intercept)
        return whole[: self._dimension]

    def _mapped(
        self,
        linear_map: LinearMap,
        unmapped: NDArray[np.float64],
        roots: NDArray[np.float64] | None,
        rows: NDArray[np.float64],
    ) -> None:
        """Write the image of the encoded rows to `rows`."""
        np.subtract(unmapped, self._offsets, out=unmapped)
        if roots is not None:
            np.multiply(unmapped, roots, out=unmapped)
        np.rint(unmapped, out=unmapped)
        np.clip(unmapped, -FINE_UNITS, FINE_UNITS, out=unmapped)
        factor = UNITS_PER_RADIUS / (self._radius * FINE_UNITS)
        np.rint(linear_map.apply(unmapped) * factor, out=rows)

    def root_weights(self, batch: pa.RecordBatch) -> NDArray[np.float64] | None:
        """(m,) square roots of the weights, as shares of the largest, in [0, 1]; None for none."""
        return self.columns.root_weights(batch)

    def fine_rows(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        """(p, m) integers z, unmapped, in units of radius * 2^-40, clipped to |z| <= 2^40.

        The norm is computed in float64 and has no certificate: no proof may use it.
        """
        columns = Columns(self._schema, np.full(self._inputs, FINE_UNITS / self._radius))
        encoded = columns.encode(batch)
        whole = np.empty((self._inputs + 1, batch.num_rows))
        rows = whole[:-1]
        with np.errstate(all="ignore"):
            columns.write(encoded, whole)
            if encoded.roots is not None:
                rows *= encoded.roots
            norms = np.sqrt(_squared_norms(rows))
            shrink = FINE_UNITS / norms * (1 - 2.0**-50)
            clipped: NDArray[np.float64] = np.trunc(rows * np.where(norms > FINE_UNITS, shrink, 1))
        return clipped


def _certify(rows: NDArray[np.float64]) -> None:
    """Make every column of (d, m) integer `rows` a point with squared norm at most 2^40, in place.

    A column that passes has every partial sum of squares at most 2^40, so its certificate is exact.
    The others are moved to the radius.
    """
    others = np.flatnonzero(_outside(rows))
    if others.size == 0:
        return
    moved = rows.take(others, axis=1)
    norms = _squared_norms(moved)
    moved = np.trunc(moved * (UNITS_PER_RADIUS / np.sqrt(norms) * (1 - 2.0**-50)))
    moved[:, ~np.isfinite(moved).all(axis=0) | ~np.isfinite(norms)] = 0.0
    while (over := _outside(moved)).any():
        moved[:, over] -= np.sign(moved[:, over])
    rows[:, others] = moved


def _outside(rows: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Of which columns the squared norm is above 2^40, or no number."""
    outside: NDArray[np.bool_] = ~(squared_lengths(rows) <= RADIUS_SQUARED)
    return outside


def _squared_norms(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of squares of each column, in the order of the features: of each row alone."""
    total, square = np.zeros(rows.shape[1]), np.empty(rows.shape[1])
    for row in rows:
        np.multiply(row, row, out=square)
        np.add(total, square, out=total)
    return total
