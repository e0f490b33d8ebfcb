"""NumPy arrays of numbers, and lists or arrays of Python objects."""

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


UNKNOWN_WIDTH_MESSAGE = (
    "A list has no declared number of columns. Pass `np.asarray(X)`, a data frame, or bounds with "
    "one entry per column; or state `n_features`."
)


class ArraySource(Source):
    """Source of a numeric array of shape (n, p).

    Parameters
    ----------
    data : array_like, shape (n, p)
        Real numbers; masked entries are missing.

    declared : tuple of str, length p or 0
        Names of the columns in order. Without names the columns are x0, x1, and so on.

    """

    kind = "numpy"

    def __init__(self, data: Any, declared: tuple[str, ...]) -> None:
        array: AnyArray = np.asarray(data)
        width = _width(array)
        if array.dtype.kind not in "biuf":
            raise SourceError(
                f"The array has the type {array.dtype}, but dpcov needs real numbers. Convert "
                "the array to numbers."
            )
        self.names = _named(declared, width)
        kept = array.dtype.itemsize <= 8  # keep the exact values
        self._kind = array.dtype.newbyteorder("=") if kept else np.dtype(np.float64)
        self.types = dict.fromkeys(self.names, pa.from_numpy_dtype(self._kind))
        self._array = array
        self._missing = np.ma.getmask(data)
        self.row_count = len(array)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        at = [self.names.index(name) for name in columns]
        size = batch_rows(len(at))
        for start in range(0, len(self._array), size):
            arrays = [self._column(slice(start, start + size), j) for j in at]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _column(self, part: slice, j: int) -> pa.Array:
        """Return some rows of one column as an Arrow array."""
        cells = np.ascontiguousarray(self._array[part, j], self._kind)
        if self._missing is np.ma.nomask:
            return pa.array(cells)
        return pa.array(cells, mask=np.ascontiguousarray(self._missing[part, j]))


class ObjectSource(Source):
    """Source of a list of rows, or of an array of Python objects.

    Each cell is read on its own. The shape of an array determines the number of columns. For a
    list, the schema determines this number, so that no row can change it. If a row has another
    number of cells, all its cells are missing. With a single column, a cell that is not in a list
    counts as a row.

    Parameters
    ----------
    data : list of rows, or array_like of shape (n, p)
        Python objects.
    declared : tuple of str
        Names of the columns in order.

    """

    kind = "list"
    costly = True
    writes_numbers = True

    def __init__(self, data: Any, declared: tuple[str, ...]) -> None:
        if is_list(data):
            if not declared:
                raise SourceError(UNKNOWN_WIDTH_MESSAGE)
            self.names = declared
        else:
            self.names = _named(declared, _width(data))
            mask, data = np.ma.getmask(data), np.asarray(data)
            if mask is not np.ma.nomask:  # `filled` would replace masked objects by a question mark
                data = np.where(mask, None, data.astype(object))
        self.types = dict.fromkeys(self.names, pa.large_string())
        self._data: Sequence[Any] = data
        self.row_count = len(data)

    def kinds(self) -> dict[str, Kind]:
        """Return the kind "number" for every column."""
        return dict.fromkeys(self.names, "number")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches of texts."""
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
    """Return True if only the rows could determine the number of columns."""
    of_objects = isinstance(data, np.ndarray) and data.dtype == object and data.ndim == 1
    return of_objects or isinstance(data, list | tuple)


def names_by_bounds(*bounds: Any) -> tuple[str, ...]:
    """Return one name per entry of the bounds; no name if each bound is a single number."""
    return column_names(max(map(_entries, bounds)))


def column_names(width: int) -> tuple[str, ...]:
    """Return the given number of names: x0, x1, and so on."""
    return _named((), width)


def _entries(bound: Any) -> int:
    """Return the number of entries of a bound; 0 for a single number."""
    try:
        return 0 if isinstance(bound, str) else len(bound)
    except TypeError:
        return 0


def _cells(row: Any, width: int) -> Sequence[Any]:
    """Return the cells of a row; all cells are missing if the row has the wrong length."""
    try:
        if isinstance(row, list | tuple) or (isinstance(row, np.ndarray) and row.ndim == 1):
            cells = tuple(row)
        else:
            cells = (row,) if width == 1 else ()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # the class of the row does not behave like a list
        cells = ()
    return cells if len(cells) == width else (None,) * width


def _width(array: AnyArray) -> int:
    """Return the number of columns of an array."""
    if array.ndim != 2:
        raise SourceError(
            f"The array has {array.ndim} dimensions, but dpcov needs 2 (rows and columns). "
            "Reshape the array."
        )
    return array.shape[1]


def _named(declared: tuple[str, ...], width: int) -> tuple[str, ...]:
    """Return the declared names, or x0, x1, and so on."""
    names = declared or tuple(f"x{j}" for j in range(width))
    if len(names) != width:
        raise SourceError(
            f"The schema declares {len(names)} columns, but the array has {width}. Declare every "
            "column of the array."
        )
    return names
