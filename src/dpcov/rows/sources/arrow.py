"""Parquet files and anything that offers the Arrow C stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpcov.core.files import utf8_name
from dpcov.core.printable import shown
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows, is_text
from dpcov.rows.sources.base import Source

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

READ_BUFFER = 2**16
SMALL_GROUP = 2**18  # rows: 2 MiB of float64 in each column
SMALL_COLUMN = 2**22  # bytes, uncompressed
DAMAGED = (
    "The table in memory is damaged: its arrays lead outside themselves. If a ledger was set, the "
    "reserved budget stays spent."
)
_AS_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.large_binary(),
    pa.binary_view(): pa.binary_view(),
}
DECODED_BYTES = 2**25  # uncompressed bytes, all columns together, that are decoded at once


class ParquetSource(Source):
    """A Parquet file, decoded in batches through small buffers.

    Texts are read as dictionaries: a kilobyte of Parquet may hold a long text a million times.
    """

    door = "parquet"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: list[str] = []
        try:
            with self._open() as file:
                schema, self.row_count = file.schema_arrow, file.metadata.num_rows
        except (pa.ArrowException, OSError):
            raise SourceError(
                f"{shown(path)!r} is not a complete Parquet file (cut off, or of another format). "
                "Nothing was spent."
            ) from None
        self._texts = [field.name for field in schema if is_text(field.type)]
        self._take(schema)

    def _open(self) -> pq.ParquetFile:
        return pq.ParquetFile(
            utf8_name(self._path, SourceError),
            buffer_size=READ_BUFFER,
            pre_buffer=False,
            read_dictionary=self._texts,
        )

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with self._open() as file:
            for group in range(file.num_row_groups):
                yield from _decoded(file, group, columns)

    def parts(self, columns: Sequence[str]) -> list[RowGroup]:
        handles = Handles(self._open)
        with handles.one() as file:
            return [
                RowGroup(
                    handles,
                    tuple(columns),
                    group,
                    file.metadata.row_group(group).num_rows,
                    _is_small(file, group, len(columns)),
                )
                for group in range(file.num_row_groups)
            ]


class Handles:
    """Open handles of a file, of which a thread takes one at a time; closed when nobody has them.

    To open a file of many columns takes longer than to read one of them.
    """

    def __init__(self, opened: Callable[[], pq.ParquetFile]) -> None:
        self._opened = opened
        self._idle: list[pq.ParquetFile] = []

    @contextmanager
    def one(self) -> Iterator[pq.ParquetFile]:
        try:
            file = self._idle.pop()
        except IndexError:
            file = self._opened()
        yield file
        self._idle.append(file)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a Parquet file, which can be read beside others.

    `rows` is their number. If `whole`, all of a column's are read at once, by any thread: `each`
    calls `use` with the name and the cells of one column after the other. Otherwise `batches` are
    streamed, taking about `size` bytes.
    """

    handles: Handles
    names: tuple[str, ...]
    number: int
    rows: int
    whole: bool

    @property
    def size(self) -> int:
        return 8 * len(self.names) * min(SMALL_GROUP, self.rows)

    def each(self, names: Sequence[str], use: Callable[[str, pa.ChunkedArray], None]) -> None:
        """Each column is forgotten before the next is read, which takes the same memory."""
        with self.handles.one() as file:
            for name in names:
                use(name, _column(file, self.number, name))

    def batches(self) -> Iterator[pa.RecordBatch]:
        with self.handles.one() as file:
            yield from _decoded(file, self.number, self.names)


def _decoded(file: pq.ParquetFile, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    names, size = list(columns), batch_rows(len(columns))
    if _is_small(file, group, len(names)):
        yield from _by_column(file, group, names).to_batches(max_chunksize=size)
    else:
        about = file.metadata.row_group(group)
        fitting = max(1, DECODED_BYTES * about.num_rows // max(1, about.total_byte_size))
        yield from file.iter_batches(
            batch_size=min(size, fitting), row_groups=[group], columns=names, use_threads=False
        )


def _is_small(file: pq.ParquetFile, group: int, columns: int) -> bool:
    """Whether these columns of a row group may be decoded one by one, whole."""
    about = file.metadata.row_group(group)
    claimed = about.total_byte_size  # of all columns: asking for one aborts on some damaged footers
    return bool(about.num_rows <= SMALL_GROUP and claimed <= SMALL_COLUMN * columns)


def _column(file: pq.ParquetFile, group: int, name: str) -> pa.ChunkedArray:
    return file.read_row_group(group, columns=[name], use_threads=False).column(0)


def _by_column(file: pq.ParquetFile, group: int, names: list[str]) -> pa.Table:
    """A row group decoded one column after the other.

    Streaming keeps a dictionary, a compressed and a decoded page of every column at once, about
    3 MiB each; a small group's decoded columns are less than that. They are copied, since decoders
    grow their buffers by doubling and keep the rest: floats into one large array, whose pages the
    operating system can hand out by the two megabytes.
    """
    rows = file.metadata.row_group(group).num_rows
    fields = file.schema_arrow  # made anew at each access
    of_floats = [name for name in names if fields.field(name).type == pa.float64()]
    room = dict(zip(of_floats, np.empty((len(of_floats), rows)), strict=True))
    columns = []
    for name in names:
        decoded = _column(file, group, name)
        if name in room:
            columns.append(_copied(decoded, room[name]))
        else:
            columns.append(_compact(decoded))
    return pa.Table.from_arrays(columns, names=names)


def _copied(column: pa.ChunkedArray, room: Matrix) -> pa.Array:
    """The same floats in `room`; null as NaN, which is missing too."""
    at = 0
    for chunk in column.chunks:
        room[at : at + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        at += len(chunk)
    return pa.Array.from_buffers(pa.float64(), len(room), [None, pa.py_buffer(room)])


def _compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A copy that fits."""
    halves = [half for chunk in column.chunks for half in (chunk[:1], chunk[1:])]
    return pa.concat_arrays(halves) if halves else column


class ArrowSource(Source):
    """A table in memory, or anything that comes as a stream of Arrow batches.

    Only of tables in memory is it known that a second stream has the same rows in the same order: a
    stream may be empty then, a query may shuffle them.
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self.settled = _is_table(data)
        self.door = "arrow" if self.settled else "stream"
        self.row_count = len(data) if self.settled and hasattr(data, "__len__") else None
        # The reader that told the schema is the first to be read: some streams come only once.
        self._opened: pa.RecordBatchReader | None = pa.RecordBatchReader.from_stream(data)
        self._take(self._opened.schema)

    def _reader(self) -> pa.RecordBatchReader:
        reader, self._opened = self._opened, None
        if reader is not None:
            return reader
        if not self.settled:
            raise SourceError("This stream can be read only once. Give a table or a file.")
        return pa.RecordBatchReader.from_stream(self._data)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = batch_rows(len(columns))
        for batch in self._reader():
            chosen = batch.select(list(columns))
            for column in chosen.columns:
                _check(column)
            for start in range(0, chosen.num_rows, size):
                yield chosen.slice(start, size)


def _is_table(data: Any) -> bool:
    """Whether data is a table in memory, of pyarrow or polars."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        return True
    kind = type(data)
    return kind.__module__.split(".")[0] == "polars" and kind.__name__ == "DataFrame"


def _check(column: pa.Array) -> None:
    """Refuse an array whose own places lead outside it: reading it would crash the process.

    That is damage of the table, and nothing that a cell says: texts are seen as bytes of any kind.
    """
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        _check(column.storage)
    elif pa.types.is_dictionary(kind):
        _within(column.indices, 0, len(column.dictionary) - 1)
        _check(column.dictionary)
    elif pa.types.is_run_end_encoded(kind):
        ends = column.run_ends.to_numpy()
        if len(column) and not (ends[0] > 0 and (np.diff(ends) > 0).all()):
            raise SourceError(DAMAGED)
        _check(column.values)
    elif kind in _AS_BYTES:
        column.cast(_AS_BYTES[kind]).validate(full=True)


def _within(indices: pa.Array, least: int, most: int) -> None:
    found = pc.min_max(indices).as_py()
    if found["min"] is not None and not least <= found["min"] <= found["max"] <= most:
        raise SourceError(DAMAGED)
