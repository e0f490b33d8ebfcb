"""From table cells to integer rows: encode, map, clip, round, certify.

Every function here is total: whatever a cell holds, the row gets an integer image with
squared norm at most 2^40, and that image depends on this row alone (elementwise IEEE arithmetic
and sums in a fixed order; never a BLAS call on inexact values). See docs/proofs/release.md 2, 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.linear_map import FINE_UNITS, LinearMap
from dpcov.moment import BLOCK_ROWS, UNITS_PER_RADIUS, Lattice
from dpcov.schema import Categorical, Numeric, Schema, level_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

RADIUS_SQUARED = float(UNITS_PER_RADIUS**2)
_PLAIN_DECIMAL = r"^[+-]?[0-9]{1,300}(\.[0-9]{0,300})?([eE][+-]?[0-9]{1,3})?$"
_TRUTHS = {b"true": 1.0, b"false": 0.0}  # as columns of truth values are read


class Encoder:
    """Turns Arrow batches into blocks of certified integer rows for one query.

    A row with a weight is multiplied by the square root of its share of the largest weight, before
    the clip; its intercept too. The share is at most 1, so a row is as long as without a weight at
    most, and every sensitivity stays what it is (docs/proofs/weights.md).

    Parameters
    ----------
    schema : declared columns.
    lattice : grid of the query (its `features` counts the outputs of `linear_map`, if any).
    linear_map : public map applied to the encoded row before the clip.

    """

    def __init__(
        self, schema: Schema, lattice: Lattice, linear_map: LinearMap | None = None
    ) -> None:
        self._columns = schema.encoded_columns
        self._missing = schema.missing
        self._weight = schema.weight
        self._lattice = lattice
        self._map = linear_map
        self._inputs = len(schema.features)
        self._scales = np.full(self._inputs, UNITS_PER_RADIUS / lattice.radius)
        if linear_map is not None:
            self._scales = np.ldexp(float(FINE_UNITS), linear_map.halvings)
            self._offsets = (linear_map.center * self._scales)[:, None]

    def blocks(self, batch: pa.RecordBatch) -> Iterator[NDArray[np.float64]]:
        """(d, m) integer-valued blocks of rows (z, t), in order; reuses one buffer."""
        values, shrink = self._values(batch), self.root_weights(batch)
        longest = min(BLOCK_ROWS, batch.num_rows)
        unmapped = np.empty((0 if self._map is None else self._inputs, longest))
        work = np.empty((2, longest))
        whole = np.empty((self._lattice.dimension, longest))
        for start in range(0, batch.num_rows, BLOCK_ROWS):
            size = min(BLOCK_ROWS, batch.num_rows - start)
            yield self._block(
                [part[start : start + size] for part in values],
                None if shrink is None else shrink[start : start + size],
                unmapped[:, :size],
                work[:, :size],
                whole[:, :size],
            )

    def fine_rows(self, batch: pa.RecordBatch) -> NDArray[np.float64]:
        """(p, m) integers z, unmapped, in units of radius * 2^-40, clipped to |z| <= 2^40.

        The norm is computed in float64 and has no certificate: no proof may use it.
        """
        rows = np.empty((self._inputs, batch.num_rows))
        with np.errstate(all="ignore"):
            scales = np.full(self._inputs, FINE_UNITS / self._lattice.radius)
            self._fill(self._values(batch), rows, scales)
            if (roots := self.root_weights(batch)) is not None:
                rows *= roots
            rows[np.isnan(rows)] = 0.0
            norms = np.sqrt(_squared_norms(rows, np.empty((2, batch.num_rows))))
            shrink = FINE_UNITS / norms * (1 - 2.0**-50)
            clipped: NDArray[np.float64] = np.trunc(rows * np.where(norms > FINE_UNITS, shrink, 1))
        return clipped

    def _values(self, batch: pa.RecordBatch) -> list[NDArray[Any]]:
        return [
            numbers_of(batch.column(name), self._missing)
            if isinstance(column, Numeric)
            else codes_of(batch.column(name), column, self._missing)
            for name, column in self._columns.items()
        ]

    def root_weights(self, batch: pa.RecordBatch) -> NDArray[np.float64] | None:
        """(m,) square roots of the weights, as shares of the largest, in [0, 1]; None for none."""
        if self._weight is None:
            return None
        weights = numbers_of(batch.column(self._weight.column), self._missing)
        with np.errstate(all="ignore"):
            shares = np.nan_to_num(weights / self._weight.maximum, nan=0.0)
            return np.sqrt(np.clip(shares, 0.0, 1.0))

    def _block(
        self,
        values: list[NDArray[Any]],
        roots: NDArray[np.float64] | None,
        unmapped: NDArray[np.float64],
        work: NDArray[np.float64],
        whole: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        features = self._lattice.features
        with np.errstate(all="ignore"):
            if self._map is None:
                self._fill(values, whole[:features], self._scales)
                if roots is not None:
                    np.rint(whole[:features] * roots, out=whole[:features])
            else:
                self._fill(values, unmapped, self._scales)
                unmapped[np.isnan(unmapped)] = 0.0
                np.subtract(unmapped, self._offsets, out=unmapped)
                if roots is not None:
                    np.multiply(unmapped, roots, out=unmapped)
                np.rint(unmapped, out=unmapped)
                np.clip(unmapped, -FINE_UNITS, FINE_UNITS, out=unmapped)
                factor = UNITS_PER_RADIUS / (self._lattice.radius * FINE_UNITS)
                np.rint(self._map.apply(unmapped) * factor, out=whole[:features])
            _certify(whole[:features], work)
        intercept = self._lattice.intercept_units
        whole[features:] = intercept if roots is None else np.rint(roots * intercept)
        return whole

    def _fill(
        self,
        values: list[NDArray[Any]],
        rows: NDArray[np.float64],
        scales: NDArray[np.float64],
    ) -> None:
        """Write the encoded features of a block, in units of 1/`scales`, capped at 1 each.

        A missing number is left as NaN, to become 0 (the midpoint) where its row is certified.
        """
        at, ones = 0, np.floor(scales)
        for part, column in zip(values, self._columns.values(), strict=True):
            if isinstance(column, Categorical):
                width = len(column.labels)
                _indicate(part, rows[at : at + width], ones[at : at + width])
                at += width
                continue
            row = rows[at]
            np.subtract(part, column.midpoint, out=row)
            np.multiply(row, scales[at] / column.half_range, out=row)
            np.rint(row, out=row)
            np.clip(row, -ones[at], ones[at], out=row)
            at += 1
            if column.missing == "level":
                np.multiply(np.isnan(row), ones[at], out=rows[at])
                at += 1


def _indicate(
    codes: NDArray[np.int64], rows: NDArray[np.float64], ones: NDArray[np.float64]
) -> None:
    rows[:] = 0.0
    present = np.flatnonzero(codes >= 0)
    rows[codes[present], present] = ones[codes[present]]


def _certify(rows: NDArray[np.float64], work: NDArray[np.float64]) -> None:
    """Make every column of (d, m) integer `rows` a point with squared norm at most 2^40, in place.

    A column that passes has every partial sum of squares at most 2^40, so its certificate is exact.
    Of the others, missing numbers become 0, and what is outside is moved to the radius.
    """
    others = np.flatnonzero(~(_squared_norms(rows, work) <= RADIUS_SQUARED))
    if others.size == 0:
        return
    moved = rows[:, others]
    moved[np.isnan(moved)] = 0.0
    scratch = np.empty((2, others.size))
    norms = _squared_norms(moved, scratch)
    shrink = UNITS_PER_RADIUS / np.sqrt(norms) * (1 - 2.0**-50)
    moved = np.trunc(moved * np.where(norms <= RADIUS_SQUARED, 1.0, shrink))
    moved[:, ~np.isfinite(moved).all(axis=0) | ~np.isfinite(norms)] = 0.0
    while (over := ~(_squared_norms(moved, scratch) <= RADIUS_SQUARED)).any():
        moved[:, over] -= np.sign(moved[:, over])
    rows[:, others] = moved


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
    """Values of a column in a plain type, without outer blanks; null where a text means missing."""
    values = _plain(values)
    if not is_text(values.type):
        return values
    values = pc.ascii_trim_whitespace(values)
    return pc.if_else(pc.is_in(values, pa.array(missing, values.type)), None, values)


def is_missing(values: pa.Array, missing: tuple[str, ...]) -> NDArray[np.bool_]:
    """Which of these `cells` are null, NaN, or a number that is declared missing."""
    declared = _declared_numbers(missing) if is_text(values.type) else missing
    null: NDArray[np.bool_] = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return null | (_positions(values, declared) >= 0)


def distinct(values: pa.Array) -> tuple[pa.Array, NDArray[np.int64]] | None:
    """Of a dictionary, its values that occur and where each cell's is among them, -1 for null."""
    if isinstance(values.type, pa.BaseExtensionType):
        return distinct(values.storage)
    if not pa.types.is_dictionary(values.type):
        return None
    indices = values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.zeros(len(values.dictionary) + 1, bool)
    used[indices] = True
    used[-1] = False
    places = np.append(np.cumsum(used[:-1]) - 1, -1)
    return _plain(values.dictionary).take(pa.array(np.flatnonzero(used))), places[indices]


def _plain(values: pa.Array) -> pa.Array:
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.storage)
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return _plain(values.values).take(_runs(values))
    if pa.types.is_string_view(kind):
        return values.cast(pa.string())
    return values.cast(pa.binary()) if pa.types.is_binary_view(kind) else values


def _runs(values: pa.RunEndEncodedArray) -> pa.Array:
    """Where each cell's value is among those of the runs, which may be of any type."""
    numbered = pa.array(np.arange(len(values.values)))
    whole = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(values.run_ends, numbered))
    return whole.slice(values.offset, len(values))


def numbers_of(values: pa.Array, missing: tuple[str, ...]) -> NDArray[np.float64]:
    """Numbers of a column; NaN where a cell is null, not a number, or declared missing."""
    if (parts := distinct(values)) is not None:
        known: NDArray[np.float64] = np.append(numbers_of(parts[0], missing), np.nan)[parts[1]]
        return known
    values = cells(values, missing)
    if is_text(values.type):
        values = _parsed(values)
    elif pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif not is_number(values.type):
        values = pa.nulls(len(values))
    result: NDArray[np.float64] = values.cast(pa.float64(), safe=False).to_numpy(
        zero_copy_only=False
    )
    declared = _declared_numbers(missing)
    if declared:  # -999 means missing however it is written, and in columns of numbers too
        result = np.where(np.isin(result, declared), np.nan, result)
    return result


def codes_of(values: pa.Array, column: Categorical, missing: tuple[str, ...]) -> NDArray[np.int64]:
    """Index of each cell's indicator among `column.labels`, or -1 for none."""
    absent = len(column.labels) - 1 if column.missing == "level" else -1
    if (parts := distinct(values)) is not None:
        known: NDArray[np.int64] = np.append(codes_of(parts[0], column, missing), absent)[parts[1]]
        return known
    values = cells(values, missing)
    codes = _positions(values, column.levels)
    codes[codes < 0] = len(column.levels) if column.other else -1
    codes[is_missing(values, missing)] = absent
    return codes


def _positions(values: pa.Array, declared: Sequence[bool | int | float | str]) -> NDArray[np.int64]:
    """Position of each value among the declared ones, in the values' own type, or -1.

    In text, a declared number is met by every spelling of it, and true or false in any case.
    """
    kind = values.type
    texts = dict(enumerate(map(level_text, declared)))
    if is_number(kind):
        return _lookup(values.cast(pa.float64(), safe=False), _as_numbers(texts))
    if pa.types.is_boolean(kind):
        words = {"true": True, "1": True, "false": False, "0": False}
        known = {i: words.get(text.lower()) for i, text in texts.items()}
        return _lookup(values, {i: truth for i, truth in known.items() if truth is not None})
    if not is_text(kind):
        return _lookup(values, {})
    found = _lookup(values, texts)
    typed = {i: t for i, t in texts.items() if not isinstance(declared[i], str)}
    truths = {i: t for i, t in typed.items() if isinstance(declared[i], bool)}
    numbers = _as_numbers({i: t for i, t in typed.items() if i not in truths})
    if truths:
        found = np.where(found < 0, _lookup(pc.ascii_lower(values), truths), found)
    if numbers:
        others = pc.if_else(pa.array(found < 0), values, None)
        found = np.where(found < 0, _lookup(_parsed(others), numbers), found)
    return found


def _lookup(values: pa.Array, wanted: Mapping[int, bool | float | str]) -> NDArray[np.int64]:
    """Key in `wanted` of each value, or -1."""
    if not wanted:
        return np.full(len(values), -1, np.int64)
    if pa.types.is_floating(values.type):
        values = pc.add(values, 0.0)  # -0.0 is 0.0
    found = pc.index_in(values, value_set=pa.array(list(wanted.values()), values.type))
    order = np.array([*wanted, -1], np.int64)
    picks: NDArray[np.int64] = order[found.fill_null(-1).to_numpy(zero_copy_only=False)]
    return picks


def _as_numbers(texts: Mapping[int, str]) -> dict[int, float]:
    return {i: n + 0.0 for i, text in texts.items() if (n := _number(text)) is not None}


def is_text(kind: pa.DataType) -> bool:
    """Whether a plain type holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a plain type holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


@lru_cache
def _declared_numbers(missing: tuple[str, ...]) -> list[float]:
    return [number for text in missing if (number := _number(text)) is not None]


def _number(text: str | bytes) -> float | None:
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        return float(pa.scalar(text.strip()).cast(pa.float64()).as_py())
    except pa.ArrowInvalid:
        return None


def _parsed(texts: pa.Array) -> pa.Array:
    """Parse each text on its own; a text that is no number becomes null.

    The bulk cast takes all texts or none. Where it refuses, plain decimals, which it is sure to
    take, go in bulk and every other text is tried alone: a cell's value never depends on other
    cells. Texts from a file may be no valid UTF-8.
    """
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(texts, _PLAIN_DECIMAL)
        numbers = pc.if_else(plain, texts, None).cast(pa.float64())
        others = pc.if_else(plain, None, texts).dictionary_encode()
        words = others.dictionary.cast(pa.large_binary()).to_pylist()
        parsed = pa.array([_TRUTHS.get(w.lower(), _number(w)) for w in words], pa.float64())
        return pc.coalesce(numbers, parsed.take(others.indices))
