"""NumPy arrays of numbers, and lists or arrays of Python's objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.schema import Kind
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.ids import IdColumn
from dpcov.rows.sources.objects import texts_of

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray


UNTOLD = (
    "Only its rows could say how many columns a list has, and no row may decide that: give an "
    "array, a data frame, a schema, or bounds with one entry for each column."
)


class ArraySource(Source):
    """An (n, d) array of numbers; columns are named by the schema, in order."""

    kind = "numpy"

    def __init__(self, data: Any, declared: tuple[str, ...]) -> None:
        array: AnyArray = np.asarray(data)
        width = _width(array)
        if array.dtype.kind not in "biuf":
            raise SourceError(f"An array must hold real numbers, not {array.dtype}.")
        self.names = _named(declared, width)
        kept = array.dtype.itemsize <= 8  # as exact as it came
        self._kind = array.dtype.newbyteorder("=") if kept else np.dtype(np.float64)
        self.types = dict.fromkeys(self.names, pa.from_numpy_dtype(self._kind))
        self._array = array
        self._missing = np.ma.getmask(data)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at = [self.names.index(name) for name in columns]
        size = batch_rows(len(at))
        for start in range(0, len(self._array), size):
            arrays = [self._column(slice(start, start + size), j) for j in at]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, part: slice, j: int) -> pa.Array:
        cells = np.ascontiguousarray(self._array[part, j], self._kind)
        if self._missing is np.ma.nomask:
            return pa.array(cells)
        return pa.array(cells, mask=np.ascontiguousarray(self._missing[part, j]))


class ObjectSource(Source):
    """A list of rows, or an array, of Python's objects; each cell is read by itself.

    An array has the number of columns that its shape says, a list, or an array of lists, as many as
    are declared: no row decides it. A row of another number of cells, or that is no row, is one
    whose cells are all missing; of a single column the cell alone is a row as well.
    """

    kind = "list"
    costly = True

    def __init__(self, data: Any, declared: tuple[str, ...]) -> None:
        if is_list(data):
            if not declared:
                raise SourceError(UNTOLD)
            self.names = declared
        else:
            self.names = _named(declared, _width(data))
            mask, data = np.ma.getmask(data), np.asarray(data)
            if mask is not np.ma.nomask:  # of objects, `filled` would make it a question mark
                data = np.where(mask, None, data.astype(object))
        self.types = dict.fromkeys(self.names, pa.large_string())
        self._data: Sequence[Any] = data

    def kinds(self) -> dict[str, Kind]:
        return dict.fromkeys(self.names, "number")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at, width = [self.names.index(name) for name in columns], len(self.names)
        size = batch_rows(width)
        for start in range(0, len(self._data), size):
            rows = [_cells(row, width) for row in self._data[start : start + size]]
            arrays = [
                texts_of([row[j] for row in rows], ids=isinstance(name, IdColumn))
                for j, name in zip(at, columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


def is_list(data: object) -> bool:
    """Whether only the rows could say how many columns a table has: a list of rows."""
    of_objects = isinstance(data, np.ndarray) and data.dtype == object and data.ndim == 1
    return of_objects or isinstance(data, list | tuple)


def names_by_bounds(*bounds: Any) -> tuple[str, ...]:
    """Names of as many columns as bounds have entries; none where a bound is for all columns."""
    return _named((), max(map(_entries, bounds)))


def _entries(bound: Any) -> int:
    try:
        return 0 if isinstance(bound, str) else len(bound)
    except TypeError:
        return 0


def _cells(row: Any, width: int) -> Sequence[Any]:
    """As many cells as there are columns; all missing where the row has not as many."""
    try:
        if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
            cells = tuple(row)
        else:
            cells = (row,) if width == 1 else ()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # of a class that breaks the rules of lists
        cells = ()
    return cells if len(cells) == width else (None,) * width


def _width(array: AnyArray) -> int:
    if array.ndim != 2:
        raise SourceError(f"An array needs 2 dimensions (rows, columns), not {array.ndim}.")
    return array.shape[1]


def _named(declared: tuple[str, ...], width: int) -> tuple[str, ...]:
    names = declared or tuple(f"x{j}" for j in range(width))
    if len(names) != width:
        raise SourceError(f"The schema declares {len(names)} columns, the array has {width}.")
    return names
