"""From table cells to integer rows: encode, map, clip, round, certify.

Every function here is total: whatever a cell holds, the row gets an integer image with
squared norm at most 2^40, and that image depends on this row alone (elementwise IEEE arithmetic
and sums in a fixed order; never a BLAS call on inexact values).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.moment import BLOCK_ROWS, UNITS_PER_RADIUS, Lattice
from dpcov.schema import Categorical, Numeric, Schema, level_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

RADIUS_SQUARED = float(UNITS_PER_RADIUS**2)
_PLAIN_DECIMAL = r"^[+-]?[0-9]{1,300}(\.[0-9]{0,300})?([eE][+-]?[0-9]{1,3})?$"
FINE_UNITS = 2**40  # grid of the features under a linear map: two limbs of 20 bits


@dataclass(frozen=True, slots=True)
class LinearMap:
    """A public linear map on encoded rows, in the integers in which it is applied.

    Row i of the map is ``integers[i] * 2^-shifts[i]``: rounded so that products with 20-bit limbs
    sum exactly in float64.
    """

    integers: NDArray[np.float64]
    shifts: NDArray[np.int64]

    @classmethod
    def rounded(cls, matrix: NDArray[np.float64]) -> LinearMap:
        """The nearest map that can be applied exactly; relative error about 2^(log2 d - 32)."""
        matrix = np.asarray(matrix, dtype=np.float64)
        if matrix.ndim != 2 or not np.isfinite(matrix).all():
            raise ValueError("a linear map must be a finite (outputs, features) matrix")
        bits = 53 - 21 - max(1, int(np.ceil(np.log2(matrix.shape[1]))))
        largest = np.abs(matrix).max(axis=1)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)
        shifts = bits - exponents
        return cls(np.rint(np.ldexp(matrix, shifts[:, None])), shifts)

    def matrix(self) -> NDArray[np.float64]:
        """The map that is applied, as floats: (outputs, features)."""
        return np.ldexp(self.integers, -self.shifts[:, None])

    def apply(self, fine: NDArray[np.float64]) -> NDArray[np.float64]:
        """Image of (d, m) integers |z| <= 2^40, in units of 2^-40: exact sums, one rounding."""
        high = np.floor(fine * 2.0**-20)
        low = fine - high * 2.0**20
        image = (self.integers @ high) * 2.0**20 + self.integers @ low
        result: NDArray[np.float64] = np.ldexp(image, -self.shifts[:, None])
        return result


class Encoder:
    """Turns Arrow batches into blocks of certified integer rows for one query.

    Parameters
    ----------
    schema : declared columns.
    lattice : grid of the query (its `features` counts the outputs of `linear_map`, if any).
    linear_map : public map applied to the encoded row before the clip.

    """

    def __init__(
        self, schema: Schema, lattice: Lattice, linear_map: LinearMap | None = None
    ) -> None:
        self._schema = schema
        self._lattice = lattice
        self._map = linear_map
        self._inputs = len(schema.features)
        self._scale = UNITS_PER_RADIUS / lattice.radius if linear_map is None else float(FINE_UNITS)
        self._one = float(np.floor(self._scale))

    def blocks(self, batch: pa.RecordBatch) -> Iterator[NDArray[np.float64]]:
        """(d, m) integer-valued blocks of rows (z, t), in order; reuses one buffer."""
        values = [
            _numbers(batch.column(name), self._schema.missing)
            if isinstance(column, Numeric)
            else _codes(batch.column(name), column, self._schema.missing)
            for name, column in self._schema.encoded_columns.items()
        ]
        # One row more than the features: indicators of no level at all are written there.
        buffer = np.empty((self._inputs + 1, min(BLOCK_ROWS, batch.num_rows)))
        work = np.empty((2, buffer.shape[1]))
        whole = np.empty((self._lattice.dimension, buffer.shape[1]))
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            size = min(BLOCK_ROWS, batch.num_rows - start)
            yield self._block(
                [part[start : start + size] for part in values],
                buffer[:, :size],
                work[:, :size],
                whole[:, :size],
            )

    def _block(
        self,
        values: list[NDArray[Any]],
        buffer: NDArray[np.float64],
        work: NDArray[np.float64],
        whole: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        features = self._lattice.features
        with np.errstate(all="ignore"):
            target = whole[:features] if self._map is None else buffer[: self._inputs]
            self._fill(values, target, buffer[self._inputs])
            if self._map is not None:
                factor = UNITS_PER_RADIUS / (self._lattice.radius * FINE_UNITS)
                np.rint(self._map.apply(target) * factor, out=whole[:features])
            _clip(whole[:features], work)
        whole[features:] = self._lattice.intercept_units
        return whole

    def _fill(
        self, values: list[NDArray[Any]], rows: NDArray[np.float64], spare: NDArray[np.float64]
    ) -> None:
        """Write the encoded features of a block, in units of 1/scale, capped at one unit each."""
        at = 0
        for part, column in zip(values, self._schema.encoded_columns.values(), strict=True):
            if isinstance(column, Categorical):
                width = len(column.labels)
                self._indicate(part, rows[at : at + width])
                at += width
                continue
            row = rows[at]
            np.subtract(part, column.midpoint, out=row)
            np.multiply(row, self._scale / column.half_range, out=row)
            np.rint(row, out=row)
            np.minimum(row, self._one, out=row)
            np.maximum(row, -self._one, out=row)
            at += 1
            absent = np.isnan(row)
            if absent.any():
                row[absent] = 0.0
            if column.missing == "level":
                np.multiply(absent, self._one, out=rows[at])
                at += 1

    def _indicate(self, codes: NDArray[np.int64], rows: NDArray[np.float64]) -> None:
        rows[:] = 0.0
        present = np.flatnonzero(codes >= 0)
        rows[codes[present], present] = self._one


def _clip(rows: NDArray[np.float64], work: NDArray[np.float64]) -> None:
    """Shrink the columns of (d, m) integer `rows` whose squared norm exceeds 2^40, in place.

    A column that passes has every partial sum of squares at most 2^40, so its certificate is exact.
    """
    norms = _squared_norms(rows, work)
    outside = np.flatnonzero(~(norms <= RADIUS_SQUARED))
    if outside.size == 0:
        return
    far = rows[:, outside]
    scratch = np.empty((2, outside.size))
    shrink = UNITS_PER_RADIUS / np.sqrt(norms[outside]) * (1 - 2.0**-50)
    far = np.trunc(far * shrink)
    far[:, ~np.isfinite(far).all(axis=0) | ~np.isfinite(norms[outside])] = 0.0
    while (over := ~(_squared_norms(far, scratch) <= RADIUS_SQUARED)).any():
        far[:, over] -= np.sign(far[:, over])
    rows[:, outside] = far


def _squared_norms(rows: NDArray[np.float64], work: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sum of squares of each column, feature by feature; exact wherever it is at most 2^53."""
    total: NDArray[np.float64] = work[0]
    square = work[1]
    total[:] = 0.0
    for row in rows:
        np.multiply(row, row, out=square)
        np.add(total, square, out=total)
    return total


def cells(values: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    """Values of a column without dictionary or outer blanks; null where a text means missing."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())
    if not _is_text(values.type):
        return values
    values = pc.ascii_trim_whitespace(values)
    return pc.if_else(pc.is_in(values, pa.array(missing, values.type)), None, values)


def _numbers(values: pa.Array, missing: tuple[str, ...]) -> NDArray[np.float64]:
    """Numbers of a column; NaN where a cell is null, not a number, or declared missing."""
    values = cells(values, missing)
    if _is_text(values.type):
        values = _parsed(values)
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif not _is_number(values.type):
        values = pa.nulls(len(values))
    result: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    declared = [number for text in missing if (number := _number(text)) is not None]
    if declared:  # -999 means missing however it is written, and in columns of numbers too
        result = np.where(np.isin(result, declared), np.nan, result)
    return result


def _codes(values: pa.Array, column: Categorical, missing: tuple[str, ...]) -> NDArray[np.int64]:
    """Index of each cell's indicator among `column.labels`, or -1 for none."""
    values = cells(values, missing)
    undeclared = len(column.levels) if column.other else -1
    absent = len(column.labels) - 1 if column.missing == "level" else -1
    codes = _positions(values, [level_text(level) for level in column.levels])
    codes[codes < 0] = undeclared
    codes[_positions(values, list(missing)) >= 0] = absent
    codes[values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)] = absent
    return codes


def _positions(values: pa.Array, texts: list[str]) -> NDArray[np.int64]:
    """Position of each value in `texts` read in the values' own type, or -1."""
    kind = values.type
    wanted: dict[int, str | bool | float]
    if _is_text(kind):
        wanted = dict(enumerate(texts))
    elif pa.types.is_boolean(kind):
        words = {"true": True, "1": True, "false": False, "0": False}
        wanted = {i: words[text] for i, text in enumerate(texts) if text in words}
    elif _is_number(kind):
        values, kind = values.cast(pa.float64(), safe=False), pa.float64()
        wanted = {i: n for i, text in enumerate(texts) if (n := _number(text)) is not None}
    else:
        wanted = {}
    if not wanted:
        return np.full(len(values), -1, np.int64)
    found = pc.index_in(values, value_set=pa.array(list(wanted.values()), kind))
    order = np.array([*wanted, -1], np.int64)
    picks: NDArray[np.int64] = order[found.fill_null(-1).to_numpy(zero_copy_only=False)]
    return picks


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def _number(text: str) -> float | None:
    try:
        return float(pa.scalar(text.strip()).cast(pa.float64()).as_py())
    except pa.ArrowInvalid:
        return None


def _parsed(texts: pa.Array) -> pa.Array:
    """Parse each text on its own; a text that is no number becomes null.

    The bulk cast takes all texts or none. Where it refuses, plain decimals, which it is sure to
    take, go in bulk and every other text is tried alone: a cell's value never depends on other
    cells.
    """
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(texts, _PLAIN_DECIMAL)
        numbers = pc.if_else(plain, texts, None).cast(pa.float64())
        others = pc.if_else(plain, None, texts).dictionary_encode()
        parsed = pa.array([_number(text) for text in others.dictionary.to_pylist()], pa.float64())
        return pc.coalesce(numbers, parsed.take(others.indices))
