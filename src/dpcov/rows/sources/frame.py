"""pandas data frames."""

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
    """A pandas DataFrame. Cells of a column of objects are texts, each made from that cell alone.

    (Left to itself the conversion takes its type from all cells, and fails on a mixed column with a
    message that quotes one of them.) Columns of a type that Arrow lacks are not read.
    """

    kind = "pandas"

    def __init__(self, data: Any) -> None:
        self._data = data
        empty, kinds = data.iloc[:0], list(data.dtypes)
        found = [_type(empty.iloc[:, j], kind) for j, kind in enumerate(kinds)]
        names = [str(name) for name in data.columns]
        told = [f"{k} of {k.categories.dtype}" if hasattr(k, "categories") else k for k in kinds]
        self._set_some_fields(names, found, told)
        self.costly = any(map(_of_objects, kinds))

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
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
    """Whether cells are seen as objects of Python, each by itself.

    Those of other libraries' types are, as are texts that may not be Unicode; of categories, too.
    """
    kind = getattr(kind, "categories", kind)
    kind = getattr(kind, "dtype", kind)
    if isinstance(kind, np.dtype):
        return kind.kind == "O"
    own = type(kind).__module__.split(".")[0] == "pandas"
    return not own or getattr(kind, "storage", None) == "python"


def _type(empty: Any, kind: Any) -> pa.DataType | None:
    """The Arrow type in which a column's cells come; None if there is no such type."""
    if _of_objects(kind):
        return pa.large_string()
    try:
        return _array(empty, None).type
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError):
        return None


def _categories(kind: Any, *, ids: bool = False) -> pa.Array | None:
    """The texts of categories that are objects, and null, to which the code -1 leads."""
    if not (_of_objects(kind) and hasattr(kind, "categories")):
        return None
    return texts_of([*_objects(kind.categories), None], ids=ids)


def _array(column: Any, categories: pa.Array | None, *, ids: bool = False) -> pa.Array:
    if categories is not None:
        codes = column.cat.codes.to_numpy()
        return categories.take(pa.array(np.where(codes < 0, len(categories) - 1, codes)))
    if _of_objects(column.dtype):
        return texts_of(_objects(column), ids=ids)
    array = pa.array(column, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _objects(column: Any) -> Iterable[object]:
    """The cells of a column of objects; of another library's type each is asked for by itself."""
    if isinstance(column.dtype, np.dtype):
        held: AnyArray = column.to_numpy()
        return held
    read: Callable[[int], object] = quiet("no object")(column.array.__getitem__)
    return (_cell(read, at) for at in range(len(column)))


def _cell(read: Callable[[int], object], at: int) -> object:
    try:
        return read(at)
    except SourceError:  # the cell can't be made an object, and is missing
        return None
