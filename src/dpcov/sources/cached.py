"""A copy of what was read, for further readings of texts and databases.

Parsing is most of the work with them. The copy is private data: in a file
that has no name and that nobody else can read, mapped when it is read again, and gone at exit or
after a crash. (Parquet is decoded again: that is as fast as reading a copy.)
"""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dpcov.cells import codes_of, numbers_of
from dpcov.schema import Categorical, Numeric
from dpcov.sources.base import MeasuredSource

if TYPE_CHECKING:
    from dpcov.schema import Kind, Schema
    from dpcov.sources.base import Source

LARGEST_COPY = 2**31  # bytes; beyond it the source is read again


class CachedSource:
    """A source whose second and later readings come from a copy, if it is not too large.

    The copy holds what the encoder needs and no more: numbers, and levels by their place in the
    schema; ids as they are. Encoding it gives what encoding the source would.
    """

    rereadable = True

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source = source
        self._schema = schema
        self._copies: dict[tuple[str, ...], pa.Buffer] = {}
        self.names = source.names
        self.unfit = source.unfit

    @property
    def share(self) -> float:
        return self._source.share if isinstance(self._source, MeasuredSource) else 0.0

    def kinds(self) -> dict[str, Kind]:
        return self._source.kinds()

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = tuple(columns)
        if wanted in self._copies:
            with pa.ipc.open_stream(pa.BufferReader(self._copies[wanted])) as reader:
                yield from reader
            return
        copy = _Copy()
        for batch in self._source.batches(wanted):
            encoded = self._encoded(batch)
            copy.add(encoded)
            yield encoded
        if (content := copy.content()) is not None:
            self._copies[wanted] = content

    def _encoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [self._column(name, batch.column(name)) for name in batch.schema.names]
        return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)

    def _column(self, name: str, values: pa.Array) -> pa.Array:
        weight, missing = self._schema.weight, self._schema.missing
        column = self._schema.columns.get(name)
        if isinstance(column, Numeric) or (weight is not None and name == weight.column):
            return pa.array(numbers_of(values, missing))
        if not isinstance(column, Categorical):
            return values
        codes = codes_of(values, column, missing)
        levels = len(column.levels)
        at = np.where((codes >= 0) & (codes < levels), codes, levels)  # else undeclared
        cells = pa.array(at.astype(np.int32), mask=codes == column.absent)
        undeclared = "\0"
        while undeclared in (*column.labels, *missing):
            undeclared += "\0"
        return pa.DictionaryArray.from_arrays(cells, [*column.labels[:levels], undeclared])


class _Copy:
    """Batches in a private temporary file; None where it can't hold them."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = tempfile.TemporaryFile()  # noqa: SIM115  see `_close`
        self._writer: Any = None

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def add(self, batch: pa.RecordBatch) -> None:
        if self._file is None:
            return
        try:
            if self._writer is None:
                self._writer = pa.ipc.new_stream(self._file, batch.schema)
            self._writer.write_batch(batch)
            if self._file.tell() > LARGEST_COPY:
                self._close()
        except (OSError, pa.ArrowException):  # a full disk, or types that change on the way
            self._close()

    def content(self) -> pa.Buffer | None:
        """The whole copy, mapped; its file is gone when the buffer is."""
        if self._file is None or self._writer is None:
            return None
        self._writer.close()
        self._file.flush()
        mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        self._close()
        return pa.py_buffer(mapped)


def cached(source: Source, schema: Schema) -> Source:
    """The source, or one that keeps a copy where reading it again would cost much more."""
    from dpcov.sources.duckdb import DuckdbSource
    from dpcov.sources.postgres import PostgresSource
    from dpcov.sources.sqlite import SqliteSource
    from dpcov.sources.text import TextSource

    parsed = (TextSource, PostgresSource, SqliteSource, DuckdbSource)
    return CachedSource(source, schema) if isinstance(source, parsed) else source
