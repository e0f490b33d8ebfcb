"""NumPy arrays of numbers, and lists or arrays of Python's objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.schema import Kind
from dpcov.sources.base import batch_rows
from dpcov.sources.objects import texts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray


class ArraySource:
    """An (n, d) array of numbers; columns are named by the schema, in order."""

    door = "numpy"
    settled = True
    costly = False

    def __init__(self, data: Any, declared: tuple[str, ...]) -> None:
        self.unfit: dict[str, str] = {}
        array: NDArray[Any] = np.asarray(data)
        if array.ndim != 2:
            raise SourceError(f"An array needs 2 dimensions (rows, columns), not {array.ndim}.")
        if array.dtype.kind not in "biuf":
            raise SourceError(f"An array must hold real numbers, not {array.dtype}.")
        self.names = _named(declared, array.shape[1])
        if isinstance(data, np.ma.MaskedArray):  # masked means missing
            array = np.ma.filled(data.astype(np.float64), np.nan)
        kept = array.dtype.kind in "iuf" and array.dtype.itemsize <= 8  # as exact as it came
        self._kind = array.dtype.newbyteorder("=") if kept else np.dtype(np.float64)
        self.types = dict.fromkeys(self.names, pa.from_numpy_dtype(self._kind))
        self._array = array

    def kinds(self) -> dict[str, Kind]:
        return dict.fromkeys(self.names, "numeric")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at = [self.names.index(name) for name in columns]
        size = batch_rows(len(at))
        for start in range(0, len(self._array), size):
            part = self._array[start : start + size]
            arrays = [pa.array(np.ascontiguousarray(part[:, j], self._kind)) for j in at]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


class ObjectSource:
    """A list of rows, or an (n, d) array, of Python's objects; each cell is read by itself.

    A row that has not as many cells as there are declared columns, or without a declaration as the
    first row has, is a row whose cells are all missing.
    """

    door = "list"
    settled = True
    costly = True

    def __init__(self, data: Sequence[Any], declared: tuple[str, ...]) -> None:
        self.unfit: dict[str, str] = {}
        first = data[0] if len(data) and not declared else ()
        if not _is_row(first):  # with a schema no row decides anything, not even the first
            raise SourceError("A list of rows is needed, each a list of cells.")
        self.names = declared or _named((), len(first))
        self.types = dict.fromkeys(self.names, pa.large_string())
        self._data = data

    def kinds(self) -> dict[str, Kind]:
        return dict.fromkeys(self.names, "numeric")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at, width = [self.names.index(name) for name in columns], len(self.names)
        absent, size = (None,) * width, batch_rows(width)
        for start in range(0, len(self._data), size):
            part = self._data[start : start + size]
            rows = [row if _is_row(row) and len(row) == width else absent for row in part]
            arrays = [texts_of([row[j] for row in rows]) for j in at]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _is_row(row: object) -> bool:
    return isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1)


def _named(declared: tuple[str, ...], width: int) -> tuple[str, ...]:
    names = declared or tuple(f"x{j}" for j in range(width))
    if len(names) != width:
        raise SourceError(f"The schema declares {len(names)} columns, the array has {width}.")
    return names
