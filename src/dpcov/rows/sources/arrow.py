"""Sources of Parquet files and of tables with an Arrow C stream."""

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
from dpcov.rows.cells import batch_rows
from dpcov.rows.dates import FIRST_MOMENT, LAST_MOMENT
from dpcov.rows.numbers import is_text
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.quiet import quiet

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

READ_BUFFER_BYTES = 2**16  # Size of the read buffer in bytes.
SMALL_GROUP_ROWS = (
    2**18
)  # Maximum number of rows of a small row group: 2 MiB of float64 per column.
SMALL_COLUMN_BYTES = 2**22  # Maximum uncompressed bytes per column of a small row group.
MILLISECOND = 1000  # Microseconds per millisecond.
DAMAGED_TABLE_MESSAGE = (
    "The table in memory is damaged, because its indices are out of range. Build the table again; "
    "with a ledger, the reserved budget stays spent."
)
_AS_BYTES = {
    pa.string(): pa.binary(),
    pa.large_string(): pa.large_binary(),
    pa.string_view(): pa.binary_view(),
    pa.binary(): pa.binary(),
    pa.large_binary(): pa.large_binary(),
    pa.binary_view(): pa.binary_view(),
}
MAX_COLUMN_BYTES = 2**25  # Maximum uncompressed bytes of all columns that are decoded at once.


class ParquetSource(Source):
    """Source of a Parquet file, decoded in batches with small buffers.

    Texts are read as dictionaries, because one kilobyte of Parquet can contain a long text a
    million times. Columns are read by their position, because a name can be the path of another
    column.

    Parameters
    ----------
    path : Path
        Parquet file.

    """

    kind = "parquet"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._texts: list[str] = []
        try:
            with self._open() as file:
                schema, self.row_count = file.schema, file.metadata.num_rows
        except (pa.ArrowException, OSError):
            raise SourceError(
                f"{shown(path)!r} is not a complete Parquet file. Check the file. Nothing "
                "was spent."
            ) from None
        self._texts = [field.name for field in schema if is_text(field.type)]
        self._set_fields(schema)

    def _open(self) -> ParquetTable:
        """Open the file."""
        return ParquetTable(self._path, self._texts)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        with self._open() as file:
            for group in range(file.metadata.num_row_groups):
                yield from _decoded(file, group, columns)

    def parts(self, columns: Sequence[str]) -> list[RowGroup]:
        """Return the row groups of the file, which threads can read at the same time."""
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
                for group in range(file.metadata.num_row_groups)
            ]


class ParquetTable:
    """Open Parquet file with its columns by name.

    The format INT96 stores dates that do not fit into microseconds, and Arrow would decode them as
    wrong years. The class therefore decodes INT96 columns as milliseconds too. A date beyond the
    years 1 to 9999 becomes null.

    Parameters
    ----------
    path : Path
        Parquet file.
    texts : sequence of str
        Columns to read as dictionaries.

    Attributes
    ----------
    schema : pyarrow.Schema
        Schema of the table.
    metadata : pyarrow.parquet.FileMetaData
        Metadata of the file.

    """

    def __init__(self, path: Path, texts: Sequence[str]) -> None:
        name = utf8_name(path, SourceError)
        self._opened = [pq.ParquetFile(name, coerce_int96_timestamp_unit="us", **_buffers(texts))]
        (first,) = self._opened
        self.metadata = first.metadata
        self.schema = first.schema_arrow
        places, at = list[int](), 0
        for field in self.schema:
            places.append(at)
            at += _leaves(field.type)
        stored = first.schema
        if at != len(stored):
            raise pa.ArrowInvalid("columns without a known place")
        self._places = dict(zip(self.schema.names, places, strict=True))
        self._old = {n for n, at in self._places.items() if stored[at].physical_type == "INT96"}
        if self._old:
            wide = pq.ParquetFile(name, coerce_int96_timestamp_unit="ms", **_buffers(texts))
            self._opened.append(wide)

    def __enter__(self) -> ParquetTable:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._opened:
            file.close()

    def column(self, group: int, name: str) -> pa.ChunkedArray:
        """Return one column of a row group."""
        read = [
            file.reader.read_row_group(
                group, column_indices=[self._places[name]], use_threads=False
            )
            for file in (self._opened if name in self._old else self._opened[:1])
        ]
        column, *wide = (table.column(0) for table in read)
        return _of_a_year(column, wide[0]) if wide else column

    def batches(self, group: int, names: Sequence[str], size: int) -> Iterator[pa.RecordBatch]:
        """Yield columns of a row group in batches of at most `size` rows."""

        def stream(file: pq.ParquetFile, some: Sequence[str]) -> Iterator[pa.RecordBatch]:
            places = [self._places[name] for name in some]
            return iter(
                file.reader.iter_batches(
                    size, row_groups=[group], column_indices=places, use_threads=False
                )
            )

        old = [name for name in names if name in self._old]
        batches = stream(self._opened[0], names)
        if not old:
            yield from batches
            return
        for batch, wide in zip(batches, stream(self._opened[1], old), strict=True):
            arrays = [
                _of_a_year(batch.column(name), wide.column(name))
                if name in old
                else batch.column(name)
                for name in names
            ]
            yield pa.RecordBatch.from_arrays(arrays, list(names))


def _buffers(texts: Sequence[str]) -> dict[str, Any]:
    """Return the options for opening a file with small buffers."""
    return {"buffer_size": READ_BUFFER_BYTES, "pre_buffer": False, "read_dictionary": list(texts)}


def _leaves(kind: pa.DataType) -> int:
    """Return the number of Parquet columns that store an Arrow column of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _leaves(kind.storage_type)
    return sum(_leaves(kind.field(at).type) for at in range(kind.num_fields)) or 1


def _of_a_year(moments: Any, wide: Any) -> Any:
    """Set microseconds to null if the milliseconds are beyond the years 1 to 9999."""
    counts = wide.cast(pa.int64())
    within = pc.and_(
        pc.greater_equal(counts, FIRST_MOMENT // MILLISECOND),
        pc.less_equal(counts, LAST_MOMENT // MILLISECOND),
    )
    return pc.if_else(within, moments, None)


class Handles:
    """Pool of open handles of a file; each thread uses one handle at a time.

    Opening a file with many columns takes longer than reading one column.

    Parameters
    ----------
    opened : callable
        Function that opens the file.

    """

    def __init__(self, opened: Callable[[], ParquetTable]) -> None:
        self._opened = opened
        self._idle: list[ParquetTable] = []

    @contextmanager
    def one(self) -> Iterator[ParquetTable]:
        """Provide one handle, and return it to the pool afterwards."""
        try:
            file = self._idle.pop()
        except IndexError:
            file = self._opened()
        yield file
        self._idle.append(file)


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group of a Parquet file, which a thread can read on its own.

    Attributes
    ----------
    handles : Handles
        Open handles of the file.

    names : tuple of str
        Columns to read.

    number : int
        Index of the row group.

    rows : int
        Number of rows.

    whole : bool
        True if a whole column is read at once (see `each`). Otherwise `batches` streams the group.

    """

    handles: Handles
    names: tuple[str, ...]
    number: int
    rows: int
    whole: bool

    @property
    def size(self) -> int:
        """Approximate memory of the streamed batches in bytes."""
        return 8 * len(self.names) * min(SMALL_GROUP_ROWS, self.rows)

    def each(self, names: Sequence[str], use: Callable[[str, pa.ChunkedArray], None]) -> None:
        """Call `use` with the name and the cells of one column after the other.

        The memory of a column is reused for the next one.
        """
        with self.handles.one() as file:
            for name in names:
                use(name, file.column(self.number, name))

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the columns as Arrow batches."""
        with self.handles.one() as file:
            yield from _decoded(file, self.number, self.names)


def _decoded(file: ParquetTable, group: int, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield columns of a row group in batches that fit into memory."""
    names, size = list(columns), batch_rows(len(columns))
    if _is_small(file, group, len(names)):
        yield from _by_column(file, group, names).to_batches(max_chunksize=size)
    else:
        about = file.metadata.row_group(group)
        fitting = max(1, MAX_COLUMN_BYTES * about.num_rows // max(1, about.total_byte_size))
        yield from file.batches(group, names, min(size, fitting))


def _is_small(file: ParquetTable, group: int, columns: int) -> bool:
    """Return True if these columns of a row group can be decoded one by one, as a whole."""
    about = file.metadata.row_group(group)
    claimed = (
        about.total_byte_size
    )  # of all columns, because a request for one column aborts on some damaged files
    return bool(about.num_rows <= SMALL_GROUP_ROWS and claimed <= SMALL_COLUMN_BYTES * columns)


def _by_column(file: ParquetTable, group: int, names: list[str]) -> pa.Table:
    """Decode a row group one column after the other.

    Streaming keeps a dictionary and a page of every column at once, about 3 MiB per column. The
    decoded columns of a small group need less memory. The columns are copied, because decoders
    allocate up to twice the memory that they need. Floats are copied into one large array, for
    which the operating system can use large memory pages.
    """
    rows = file.metadata.row_group(group).num_rows
    of_floats = [name for name in names if file.schema.field(name).type == pa.float64()]
    memory = dict(zip(of_floats, np.empty((len(of_floats), rows)), strict=True))
    columns = []
    for name in names:
        decoded = file.column(group, name)
        if name in memory:
            columns.append(_copied(decoded, memory[name]))
        else:
            columns.append(_compact(decoded))
    return pa.Table.from_arrays(columns, names=names)


def _copied(column: pa.ChunkedArray, memory: Matrix) -> pa.Array:
    """Copy floats into `memory`; a null becomes NaN, which also counts as missing."""
    at = 0
    for chunk in column.chunks:
        memory[at : at + len(chunk)] = chunk.to_numpy(zero_copy_only=False)
        at += len(chunk)
    return pa.Array.from_buffers(pa.float64(), len(memory), [None, pa.py_buffer(memory)])


def _compact(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Copy a column into an array without spare memory."""
    halves = [half for chunk in column.chunks for half in (chunk[:1], chunk[1:])]
    return pa.concat_arrays(halves) if halves else column


class ArrowSource(Source):
    """Source of a table in memory, or of any stream of Arrow batches.

    Only a table in memory returns the same rows in the same order each time. A second stream can be
    empty, and a query can return another order.

    Parameters
    ----------
    data : object with ``__arrow_c_stream__``
        Table or stream.

    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self.repeatable = self.ordered = _is_table(data)
        self.kind = "arrow" if self.repeatable else "stream"
        self.row_count = len(data) if self.repeatable and hasattr(data, "__len__") else None
        # The reader that provided the schema is read first, because some streams exist only once.
        self._opened: pa.RecordBatchReader | None = pa.RecordBatchReader.from_stream(data)
        fields = self._opened.schema
        lacking = _lacking(data)
        found = [None if field.name in lacking else field.type for field in fields]
        self._set_some_fields(fields.names, found, [lacking.get(name, "") for name in fields.names])

    def _reader(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Open a stream of the data."""
        reader, self._opened = self._opened, None
        if reader is not None:
            return reader
        if not self.repeatable:
            raise SourceError("This stream can be read only once. Pass a table or a file.")
        return pa.RecordBatchReader.from_stream(self._data)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        size = batch_rows(len(columns))
        for batch in self._reader(columns):
            chosen = self._chosen(batch, columns)
            for column in chosen.columns:
                _check(column)
            for start in range(0, chosen.num_rows, size):
                yield chosen.slice(start, size)

    def _chosen(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Select columns of a batch."""
        return batch.select(list(columns))


def _lacking(data: Any) -> dict[str, str]:
    """Return the columns of a DuckDB relation whose type Arrow cannot represent."""
    kind = type(data)
    if kind.__name__ != "DuckDBPyRelation" or "duckdb" not in kind.__module__:
        return {}
    types = zip(data.columns, map(str, data.types), strict=True)
    return {name: kind for name, kind in types if kind == "UHUGEINT"}


class PolarsSource(ArrowSource):
    """Source of a polars DataFrame; only requested columns are converted to Arrow.

    Parameters
    ----------
    data : polars.DataFrame
        Table.

    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self.kind = "arrow"
        self.row_count = len(data)
        columns = data.get_columns()
        self._set_some_fields(data.columns, [*map(_polars_type, columns)], list(data.dtypes))

    def _reader(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Open a stream of the given columns."""
        held = self._data.get_columns()
        some = [held[self.names.index(name)] for name in columns] or held[:1]
        # A new frame would rename a column without a name.
        named = [column.alias(str(at)) for at, column in enumerate(some)]
        return pa.RecordBatchReader.from_stream(type(self._data)(named))

    def _chosen(self, batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        """Give the columns of a batch their names."""
        places = list(range(len(columns)))
        return batch.select(places).rename_columns(list(columns))


def _polars_type(column: Any) -> pa.DataType | None:
    """Return the Arrow type of a column; None if Arrow has no such type."""
    if str(column.dtype) == "Object":
        return None
    empty = column.clear().to_frame()
    table = quiet("no Arrow type")(lambda: pa.RecordBatchReader.from_stream(empty))
    try:
        return table().schema.field(0).type
    except SourceError:
        return None


def is_polars(data: Any) -> bool:
    """Return True if the data is a polars data frame."""
    kind = type(data)
    return kind.__module__.split(".")[0] == "polars" and kind.__name__ == "DataFrame"


def _is_table(data: Any) -> bool:
    """Return True if the data is a table in memory."""
    return isinstance(data, pa.Table | pa.RecordBatch)


def _check(column: pa.Array) -> None:
    """Refuse an array with indices out of range, because reading the array would crash the process.

    The check depends on the structure of the array and not on cell values. Texts count as arbitrary
    bytes.
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
            raise SourceError(DAMAGED_TABLE_MESSAGE)
        _check(column.values)
    elif kind in _AS_BYTES:
        column.cast(_AS_BYTES[kind]).validate(full=True)


def _within(indices: pa.Array, least: int, most: int) -> None:
    """Refuse indices outside a range."""
    found = pc.min_max(indices).as_py()
    if found["min"] is not None and not least <= found["min"] <= found["max"] <= most:
        raise SourceError(DAMAGED_TABLE_MESSAGE)
