"""Columns on a grid: encoded one by one into few bytes, then written out as blocks of rows.

A column is encoded right after it was read, while the processor still has it in its cache; numbers
in float32, where that holds every integer of the grid, and levels by the place of their 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from dpcov.cells import codes_of, numbers_of
from dpcov.schema import Categorical, Numeric, Schema

if TYPE_CHECKING:
    from numpy.typing import NDArray

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

    """

    numbers: NDArray[np.float32] | NDArray[np.float64]
    ones: NDArray[np.int32]
    roots: NDArray[np.float64] | None

    def part(self, rows: slice) -> Encoded:
        """These rows, in the same memory."""
        roots = None if self.roots is None else self.roots[rows]
        return Encoded(self.numbers[:, rows], self.ones[:, rows], roots)


class Columns:
    """The columns of a schema on a grid.

    Attributes
    ----------
    names : columns that are read.
    largest_squared_norm : of a row, whatever its cells hold; exact.

    """

    def __init__(self, schema: Schema, scales: NDArray[np.float64]) -> None:
        """Take features in units of 1/`scales`, capped at 1 each."""
        self._declared = schema.encoded_columns
        self._missing = schema.missing
        self._weight = schema.weight
        self._scales = scales
        self._caps = np.floor(scales)
        weight = [self._weight.column] if self._weight is not None else []
        self.names = list(dict.fromkeys([*self._declared, *weight]))
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
                here = slice(at, at + 1 + (column.missing == "level"))
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
        )

    def encode(self, batch: pa.RecordBatch) -> Encoded:
        """All columns of a batch."""
        encoded = self.room(batch.num_rows)
        for name in self.names:
            self.put(name, batch.column(name), encoded)
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
            into.roots[:] = self._roots(values, self._weight.maximum)
        column = self._declared.get(name)
        if isinstance(column, Numeric):
            numbers = numbers_of(values, self._missing)
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
        values: NDArray[np.float64],
        column: Numeric,
        features: slice,
        rows: NDArray[np.float32] | NDArray[np.float64],
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
        if column.missing == "level":
            rows[1] = 0.0 if missing is None else missing * self._caps[features.start + 1]
        if missing is not None:
            row[missing] = 0.0

    def root_weights(self, batch: pa.RecordBatch) -> NDArray[np.float64] | None:
        """(m,) square roots of the weights, as shares of the largest, in [0, 1]; None for none."""
        if self._weight is None:
            return None
        return self._roots(batch.column(self._weight.column), self._weight.maximum)

    def _roots(self, weights: pa.Array, maximum: float) -> NDArray[np.float64]:
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(numbers_of(weights, self._missing) / maximum, nan=0.0)
            return np.sqrt(np.clip(shares, 0.0, 1.0))

    def write(self, encoded: Encoded, rows: NDArray[np.float64]) -> None:
        """Write the features as integers into contiguous (p + 1, n) `rows`; the last is scratch."""
        for features in self._indicated:
            rows[features] = 0.0
        for stored, features in self._runs:
            np.rint(encoded.numbers[stored], out=rows[features])
        if self._indicated:
            count = rows.shape[1]
            places = encoded.ones * np.int64(count) + np.arange(count)
            rows.reshape(-1)[places] = np.append(self._caps, 0.0).take(encoded.ones)


def _runs(features: list[int]) -> list[tuple[slice, slice]]:
    """Which of these ascending features are neighbours: slices of the list, and of the features."""
    ends = [i for i, one in enumerate(features, 1) if one + 1 not in features[i : i + 1]]
    starts = [0, *ends]
    return [
        (slice(start, end), slice(features[start], features[end - 1] + 1))
        for start, end in zip(starts, ends, strict=False)
    ]
