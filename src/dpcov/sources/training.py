"""Tables as scikit-learn's users hand them over, perhaps with a target beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import EstimatorError
from dpcov.schema import FileOptions, Kind
from dpcov.sources import open_source
from dpcov.sources.base import kind_of
from dpcov.sources.objects import texts_of
from dpcov.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.sources.base import Source

TARGET = "y"
UNREADABLE = "The training data can't be read: give a table of numbers, rows by columns."
MOST_DIMENSIONS = 2  # of nested lists: what is in a row is a cell, a list too


class TrainingTable:
    """A source with the target, if there is one, as its last column."""

    def __init__(self, source: Source, target: pa.Array | None, name: str) -> None:
        self._source = source
        self._target = target
        while name in source.names:
            name += "_"
        self._name = name
        self.door = source.door
        self.names = source.names if target is None else (*source.names, name)
        self.types = dict(source.types) | ({} if target is None else {name: target.type})
        self.settled = source.settled
        self.costly = source.costly
        self.unfit = source.unfit

    def kinds(self) -> dict[str, Kind]:
        kinds = self._source.kinds()
        return kinds if self._target is None else kinds | {self._name: kind_of(self._target.type)}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        if self._target is None:
            yield from self._source.batches(columns)
            return
        at = 0
        for batch in self._source.batches([name for name in columns if name != self._name]):
            here = self._target.slice(at, batch.num_rows)
            at += batch.num_rows
            arrays = dict(zip(batch.schema.names, batch.columns, strict=True)) | {self._name: here}
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))


@quiet(UNREADABLE)
def training_table(data: Any, target: Any = None) -> TrainingTable:
    """Open `data`, and `target` if there is one; looks at names, types and lengths.

    Cells are read as in every other table, each by itself.

    Raises
    ------
    EstimatorError : not a two-dimensional table of real numbers, or a target of another length.

    """
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "iloc"):
        source = open_source(data, FileOptions(), ())
    else:
        data = _refused(data)
        if (dimensions := _dimensions(data)) != 2:
            raise EstimatorError(
                f"Expected 2D array, got {dimensions}D array instead. Reshape your data: rows by "
                "columns."
            )
        source = open_source(data, FileOptions(), ())
    if not source.names:
        raise EstimatorError("0 feature(s) while a minimum of 1 is required.")
    if target is None:
        return TrainingTable(source, None, TARGET)
    values = _refused(target)
    if (dimensions := _dimensions(values)) != 1:
        raise EstimatorError(f"The target must be 1D, not {dimensions}D.")
    if len(values) != len(data):
        raise EstimatorError("The table and the target must have the same number of rows.")
    name = getattr(target, "name", None)
    column = _column(values)
    return TrainingTable(source, column, name if isinstance(name, str) and name else TARGET)


def _refused(data: Any) -> Any:
    """An array or list; refuses, by its type, what holds no real numbers."""
    if hasattr(data, "toarray") and not isinstance(data, np.ndarray):
        raise EstimatorError("Sparse data can't be used; give a dense array, as by toarray().")
    if not isinstance(data, list | tuple):
        data = np.asanyarray(data)
        if data.dtype.kind == "c":
            raise EstimatorError("Complex data not supported: give real numbers.")
        if data.dtype.kind not in "biufOSUT":
            raise EstimatorError(f"An array must hold real numbers, not {data.dtype}.")
    return data


def _dimensions(data: Any) -> int:
    """Of an array; of nested lists as far as their first cells are lists."""
    if isinstance(data, np.ndarray):
        return data.ndim
    found = 0
    while isinstance(data, list | tuple | np.ndarray) and found < MOST_DIMENSIONS:
        found += 1
        data = data[0] if len(data) else None
    return found


def _column(values: Any) -> pa.Array:
    if isinstance(values, np.ma.MaskedArray):  # masked means missing
        values = np.ma.filled(values.astype(np.float64), np.nan)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return pa.array(np.ascontiguousarray(values, np.float64))
    return texts_of(values)
