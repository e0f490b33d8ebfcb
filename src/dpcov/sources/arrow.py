"""Parquet files and anything that offers the Arrow C stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from dpcov.errors import SourceError
from dpcov.sources.base import batch_rows, kind_of

READ_BUFFER = 2**16


class ParquetSource:
    """A Parquet file, decoded in batches through small buffers."""

    rereadable = True

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            with self._open() as file:
                self._schema = file.schema_arrow
        except (pa.ArrowException, OSError):
            raise SourceError(
                f"{str(path)!r} is not a complete Parquet file (cut off, or of another format). "
                "Nothing was spent."
            ) from None
        self.names = tuple(self._schema.names)

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(self._path, buffer_size=READ_BUFFER, pre_buffer=False)

    def kinds(self) -> dict[str, Literal["numeric", "categorical"]]:
        return {field.name: kind_of(field.type) for field in self._schema}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            yield from file.iter_batches(
                batch_size=batch_rows(len(columns)), columns=list(columns), use_threads=False
            )


class ArrowSource:
    """A table in memory or a query that can be streamed as Arrow batches."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self.rereadable = not isinstance(data, pa.RecordBatchReader)
        self._schema = self._reader().schema if self.rereadable else data.schema
        self.names = tuple(self._schema.names)

    def _reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(self._data)

    def kinds(self) -> dict[str, Literal["numeric", "categorical"]]:
        return {field.name: kind_of(field.type) for field in self._schema}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = batch_rows(len(columns))
        for batch in self._reader():
            chosen = batch.select(list(columns))
            for start in range(0, chosen.num_rows, size):
                yield chosen.slice(start, size)
