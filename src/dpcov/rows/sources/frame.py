"""pandas data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpcov.rows.cells import batch_rows
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.ids import IdColumn
from dpcov.rows.sources.objects import texts_of


class FrameSource(Source):
    """A pandas DataFrame. Cells of a column of objects are texts, each made from that cell alone.

    (Left to itself the conversion takes its type from all cells, and fails on a mixed column with a
    message that quotes one of them.)
    """

    door = "pandas"

    def __init__(self, data: Any) -> None:
        self._data = data
        empty = data.iloc[:0]
        self._take(
            [
                pa.field(str(name), _array(empty.iloc[:, j], _categories(kind)).type)
                for j, (name, kind) in enumerate(data.dtypes.items())
            ]
        )
        self.row_count = len(data)
        self.costly = any(map(_of_objects, data.dtypes))

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
    """Whether cells are objects of Python, also as categories, or texts that may not be Unicode."""
    kind = getattr(kind, "categories", kind)
    kind = getattr(kind, "dtype", kind)
    return bool(kind == np.dtype(object) or getattr(kind, "storage", None) == "python")


def _categories(kind: Any, *, ids: bool = False) -> pa.Array | None:
    """The texts of categories that are objects, and null, to which the code -1 leads."""
    if not (_of_objects(kind) and hasattr(kind, "categories")):
        return None
    return texts_of([*kind.categories.astype(object), None], ids=ids)


def _array(column: Any, categories: pa.Array | None, *, ids: bool = False) -> pa.Array:
    if categories is not None:
        codes = column.cat.codes.to_numpy()
        return categories.take(pa.array(np.where(codes < 0, len(categories) - 1, codes)))
    if _of_objects(column.dtype):
        cells = column.to_numpy(object, copy=True)
        cells[column.isna()] = None
        return texts_of(cells, ids=ids)
    array = pa.array(column, from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
