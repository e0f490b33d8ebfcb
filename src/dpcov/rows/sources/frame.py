"""Source of pandas data frames."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.ids import IdColumn
from dpcov.rows.sources.objects import texts_of
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray


class FrameSource(Source):
    """Source of a pandas DataFrame.

    In a column of Python objects, each cell is converted to text on its own. (The conversion of a
    whole column infers its type from all cells. It fails for mixed columns with a message that
    quotes a cell.) Columns with a type that Arrow lacks are not read.

    Parameters
    ----------
    data : pandas.DataFrame
        Table.

    """

    kind = "pandas"

    def __init__(self, data: Any) -> None:
        self._data = data
        empty, kinds = data.iloc[:0], list(data.dtypes)
        found = [_type(empty.iloc[:, j], kind) for j, kind in enumerate(kinds)]
        names = [str(name) for name in data.columns]
        own = [f"{k} of {k.categories.dtype}" if hasattr(k, "categories") else k for k in kinds]
        self._set_some_fields(names, found, own)
        self.costly = self.writes_numbers = any(map(_of_objects, kinds))
        self.row_count = len(data)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        size, kinds = batch_rows(len(columns)), list(self._data.dtypes)
        wanted = [(self.names.index(name), isinstance(name, IdColumn)) for name in columns]
        categories = [_categories(kinds[j], ids=ids) for j, ids in wanted]
        for start in range(0, len(self._data), size):
            part = self._data.iloc[start : start + size]
            arrays = [
                _array(part.iloc[:, j], known, ids=ids)
                for (j, ids), known in zip(wanted, categories, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, list(columns))


def _of_objects(kind: Any) -> bool:
    """Return True if the cells of a type are Python objects, which are read one by one.

    Such types are object columns, types of other libraries, texts that might not be valid Unicode,
    and categories of these.
    """
    kind = getattr(kind, "categories", kind)
    kind = getattr(kind, "dtype", kind)
    if isinstance(kind, np.dtype):
        return kind.kind == "O"
    own = type(kind).__module__.split(".")[0] == "pandas"
    return not own or getattr(kind, "storage", None) == "python"


def _type(empty: Any, kind: Any) -> pa.DataType | None:
    """Return the Arrow type of the cells of a column; None if there is no such type."""
    if _of_objects(kind):
        return pa.large_string()
    try:
        return _array(empty, None).type
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        return None


def _categories(kind: Any, *, ids: bool = False) -> pa.Array | None:
    """Return the texts of categories that are objects, followed by null for the code -1."""
    if not (_of_objects(kind) and hasattr(kind, "categories")):
        return None
    return texts_of([*_objects(kind.categories), None], ids=ids)


def _array(column: Any, categories: pa.Array | None, *, ids: bool = False) -> pa.Array:
    """Convert a column to an Arrow array."""
    if categories is not None:
        codes = column.cat.codes.to_numpy()
        return categories.take(pa.array(np.where(codes < 0, len(categories) - 1, codes)))
    if _of_objects(column.dtype):
        return texts_of(_objects(column), ids=ids)
    array = pa.array(column, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _objects(column: Any) -> Iterable[object]:
    """Return the cells of a column as Python objects.

    Cells of another library's type are requested one by one.
    """
    if isinstance(column.dtype, np.dtype):
        held: AnyArray = column.to_numpy()
        return held
    read: Callable[[int], object] = quiet("no object")(column.array.__getitem__)
    return (_cell(read, at) for at in range(len(column)))


def _cell(read: Callable[[int], object], at: int) -> object:
    """Return a cell as a Python object; None if this fails."""
    try:
        return read(at)
    except SourceError:  # the cell cannot be read, so it is missing
        return None
