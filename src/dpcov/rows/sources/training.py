"""Tables as scikit-learn's users hand them over, perhaps with a target beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import EstimatorError
from dpcov.rows.schema import FileOptions, Kind
from dpcov.rows.sources import open_source
from dpcov.rows.sources.array import UNTOLD, is_list
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.rows.sources.base import Source

TARGET = "y"
UNREADABLE = "The training data can't be read: give a table of numbers, rows by columns."
WRONG = {
    1: "The target must be 1D, not {}D.",
    2: "Expected 2D array, got {}D array instead. Reshape your data: rows by columns.",
}
NO_ARRAY = "Give an array, a data frame or a list: of other sequences only rows tell the shape."


class TrainingTable:
    """A source with the target, if there is one, as its last column."""

    def __init__(self, source: Source, target: Source | None = None, name: str = TARGET) -> None:
        self._source = source
        self._target = target
        while name in source.names:
            name += "_"
        self._name = name
        self.door = source.door
        self.names = source.names
        self.types = dict(source.types)
        self.settled = source.settled
        self.costly = source.costly
        self.unfit = dict(source.unfit)
        if target is not None:
            (own,) = target.names
            self.names = (*self.names, name)
            self.types |= {name: target.types[own]}
            self.unfit |= {name: target.unfit[own]} if own in target.unfit else {}
            self.settled &= target.settled
            self.costly |= target.costly

    def kinds(self) -> dict[str, Kind]:
        kinds = self._source.kinds()
        if self._target is not None:
            (kind,) = self._target.kinds().values()
            kinds |= {self._name: kind}
        return kinds

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        others = [name for name in columns if name != self._name]
        if self._target is None or len(others) == len(columns):
            yield from self._source.batches(columns)
            return
        (asked,) = (name for name in columns if name == self._name)
        own = [type(asked)(name) for name in self._target.names]  # ids are asked for as such
        parts = [batch.column(0) for batch in self._target.batches(own)]
        target = pa.chunked_array(parts, self.types[self._name]).combine_chunks()
        at = 0
        for batch in self._source.batches(others):
            arrays = dict(zip(others, batch.columns, strict=True))
            arrays[self._name] = target.slice(at, batch.num_rows)
            at += batch.num_rows
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], list(columns))


@quiet(UNREADABLE)
def training_table(data: Any, target: Any = None, names: tuple[str, ...] = ()) -> TrainingTable:
    """Open `data`, and `target` if there is one; looks at types and shapes, at no row.

    Cells are read as in every other table, each by itself. The columns of a list are `names`. A row
    is one of `data` with its target, so that how many there are of each tells of no row.

    Raises
    ------
    EstimatorError : not a two-dimensional table of real numbers, or a target of another length.

    """
    data = _shaped(data, 2)
    source = _opened(data, names)
    if not source.names:
        raise EstimatorError("0 feature(s) while a minimum of 1 is required.")
    if target is None:
        return TrainingTable(source)
    column = _shaped(target, 1)
    if len(column) != len(data):
        raise EstimatorError("The table and the target must have the same number of rows.")
    name = getattr(target, "name", None)
    name = name if isinstance(name, str) and name else TARGET
    return TrainingTable(source, _opened(column, (name,)), name)


def is_frame(data: Any) -> bool:
    """Whether a table has columns of its own."""
    tables = ("__arrow_c_stream__", "iloc")
    return hasattr(data, "columns") and any(hasattr(data, name) for name in tables)


def one_column(target: Any) -> Any:
    """The only column of an array or a frame, with its name and type."""
    if hasattr(target, "iloc"):
        return target.iloc[:, 0]
    return (target if isinstance(target, np.ma.MaskedArray) else np.asarray(target))[:, 0]


def _shaped(data: Any, dimensions: int) -> Any:
    """A frame, a list, or an array of 2 dimensions; refuses by types and shapes alone.

    A target has one dimension.
    """
    if dimensions == 1 and hasattr(data, "to_frame"):
        return data.to_frame()
    if isinstance(data, list | tuple) or (dimensions == 2 and is_frame(data)):
        return data
    data = _array(data)
    if data.ndim != dimensions and not is_list(data):
        raise EstimatorError(WRONG[dimensions].format(data.ndim))
    return data[:, None] if data.ndim == 1 and not is_list(data) else data


def _opened(data: Any, names: tuple[str, ...]) -> Source:
    """Of a list the columns are `names`."""
    if is_list(data) and not names:
        raise EstimatorError(UNTOLD)
    return open_source(data, FileOptions(), names if is_list(data) else ())


def _array(data: Any) -> Any:
    """An array; refuses, by its type, what holds no real numbers."""
    if hasattr(data, "toarray") and not isinstance(data, np.ndarray):
        raise EstimatorError("Sparse data can't be used; give a dense array, as by toarray().")
    if not hasattr(data, "__array__"):
        raise EstimatorError(NO_ARRAY)
    data = np.asanyarray(data)
    if data.dtype.kind == "c":
        raise EstimatorError("Complex data not supported: give real numbers.")
    if data.dtype.kind not in "biufOSUT":
        raise EstimatorError(f"An array must hold real numbers, not {data.dtype}.")
    return data
