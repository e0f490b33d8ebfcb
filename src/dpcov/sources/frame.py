"""pandas data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from dpcov.schema import Kind
from dpcov.sources.base import batch_rows, kind_of, unfit_columns


class FrameSource:
    """A pandas DataFrame. Cells of an object column are texts, each made from that cell alone.

    (Left to itself the conversion takes its type from all cells, and fails on a mixed column with a
    message that quotes one of them.)
    """

    rereadable = True

    def __init__(self, data: Any) -> None:
        self._data = data
        self.names = tuple(map(str, data.columns))
        empty = data.iloc[:0]
        self._fields = [
            pa.field(name, _array(empty.iloc[:, j]).type) for j, name in enumerate(self.names)
        ]
        self.unfit = unfit_columns(self._fields)

    def kinds(self) -> dict[str, Kind]:
        return {field.name: kind_of(field.type) for field in self._fields}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        at = [self.names.index(name) for name in columns]
        size = batch_rows(len(at))
        for start in range(0, len(self._data), size):
            part = self._data.iloc[start : start + size]
            yield pa.RecordBatch.from_arrays([_array(part.iloc[:, j]) for j in at], list(columns))


def _array(column: Any) -> pa.Array:
    categories = getattr(column.dtype, "categories", None)
    if column.dtype == object or (categories is not None and categories.dtype == object):
        return _texts(column)
    try:
        array = pa.array(column, from_pandas=True)
    except UnicodeEncodeError:
        return _texts(column)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def _texts(column: Any) -> pa.Array:
    cells = zip(column.astype(object), column.isna(), strict=True)
    return pa.array((None if absent else _text(cell) for cell, absent in cells), pa.large_string())


def _text(cell: object) -> str | None:
    try:
        return str(cell).encode(errors="replace").decode()
    except Exception:
        return None
