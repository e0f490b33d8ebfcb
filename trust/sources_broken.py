"""Broken readers: each context manager restores one old fault of a module while it is active."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from dpcov.cli import progress
from dpcov.core import files
from dpcov.errors import SourceError
from dpcov.mechanisms import Gaussian
from dpcov.releases import Release
from dpcov.rows import cells, numbers, sources
from dpcov.rows.moment import SecondMoment
from dpcov.rows.sources import (
    array,
    arrow,
    duckdb,
    frame,
    kept,
    objects,
    partial,
    postgres,
    rows,
    spark,
    sqlite,
    text,
    training,
)
from dpcov.rows.sources import (
    kept as private_copy,
)
from dpcov.rows.sources.duckdb import DuckdbSource
from dpcov.rows.sources.partial import PartialMoment
from dpcov.rows.sources.postgres import PostgresSource
from dpcov.rows.sources.sql import Connected, DatabaseTable

Broken = Callable[[], Any]


def _all(*patches: Any) -> Broken:
    @contextmanager
    def entered() -> Iterator[None]:
        with ExitStack() as stack:
            for one in patches:
                stack.enter_context(one)
            yield

    return entered


def _one(target: Any, name: str, new: Any) -> Broken:
    return lambda: patch.object(target, name, new)


def _truncated(cells_: Sequence[Any]) -> pa.Array:
    """Convert a whole batch to int64, which cuts off fractions, unless one cell is a text."""
    try:
        return pa.array(cells_, pa.int64())
    except (pa.ArrowException, OverflowError):
        return sqlite._texts(cells_)


def _numbers_of_array(self: Any, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Convert all cells to one common type, and then each text with Python's own `float`."""
    at = [self.names.index(name) for name in columns]
    data = np.asarray([row for row in self._data if len(row) == len(self.names)], None)
    found = [pa.array([_as_python_reads(c) for c in data[:, j].tolist()], pa.float64()) for j in at]
    yield pa.RecordBatch.from_arrays(found, list(columns))


def _by_first_row(self: Any, data: Any, declared: tuple[str, ...]) -> None:
    """Let the first row decide whether there are as many cells as columns."""
    wanted = [len(declared)] if len(declared) > 1 else [0, 1]
    if len(data) and np.size(data[0]) not in wanted:
        raise SourceError("A list of rows is needed, each a list of cells.")
    _OPEN_LIST(self, data, declared)


_OPEN_LIST = array.ObjectSource.__init__


def _as_python_reads(cell: Any) -> float:
    try:
        return float(cell)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _without_blank_lines(reader: Any) -> Any:
    block = _NEXT(reader)
    return block and replace(block, is_record=block.is_record[block.is_record])


_NEXT = text.Reader.next
_ROWS_MEETING = sources.rows_meeting


def _pushed_down(source: Any, asked: Any) -> Any:
    """Let the engine test the rows, by its own casts and operators."""
    if not asked or not isinstance(source, DuckdbSource | PostgresSource):
        return _ROWS_MEETING(source, asked)
    query, tests = source._query, " AND ".join(asked.texts)
    source._query = lambda columns: f"{query(columns)} WHERE {tests}"
    return source


def _as_listed(column: pa.Array, declared: str, missing: tuple[str, ...]) -> pa.Array:
    """Convert ids to Python objects, which fails for some dates."""
    return pa.array([None if c is None else str(c) for c in column.to_pylist()], pa.large_binary())


def _as_written(column: pa.Array, declared: str, missing: tuple[str, ...]) -> pa.Array:
    """Return ids as they are spelt."""
    found = cells.cells(column, missing)
    if pa.types.is_floating(found.type) or pa.types.is_integer(found.type):
        found = found.cast(pa.string())
    return found.cast(pa.large_binary())


def _kinds_by_cells(self: Any) -> dict[str, str]:
    """Draft a schema whose kinds follow from the first cells."""
    (batch, *_) = [*self.batches(list(self.names)), None]
    found: dict[str, str] = {}
    for name in self.names:
        words = [] if batch is None else batch.column(name).to_pylist()
        found[name] = "numeric" if all(map(_is_number, words)) else "categorical"
    return found


def _is_number(word: str | None) -> bool:
    return not word or bool(re.fullmatch(r"[+-]?[0-9.]+", word))


def _sparse(self: Any) -> None:
    """Reserve the space without writing to it."""
    self._reserved += private_copy.GROWTH_BYTES
    os.ftruncate(self._file.fileno(), self._reserved)


def _two_readings(self: Any) -> None:
    """Combine the ids of one reading with the cells of another reading."""
    unit, parts = self._schema.unit, self._parts
    names = list(self._kind.names)
    batches = self.source.batches([unit.column])
    ids = pa.concat_arrays([batch.column(0) for batch in batches])
    self.source._opened = None
    others = [name for name in names if name != unit.column]
    table = pa.Table.from_batches(self.source.batches(others)).combine_chunks()
    columns = [ids if n == unit.column else table[n].combine_chunks() for n in names]
    batch = pa.RecordBatch.from_arrays(columns, names)
    copy = private_copy.Copy(self._kind, parts)
    held = self._read(batch)
    copy.add(held, kept._parts(held[unit.column], parts))
    self._copy = copy


def _again(self: Any, columns: Sequence[str]) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_stream(self._data)


def _without_likeness(texts: Mapping[int, str]) -> Any:
    """Return no truth values for the texts 1 and 0."""
    values, _ = _MEANINGS(texts)
    words = {i: t.lower() == "true" for i, t in texts.items() if t.lower() in ("true", "false")}
    return {i: n for i, n in values.items() if i not in words}, words


_MEANINGS = cells._meanings
_OF = PartialMoment.of
_GUARDED = postgres.guarded


def _of_random_parts(*given: Any, **asked: Any) -> PartialMoment:
    return replace(_OF(*given, **asked), parts=(secrets.token_hex(8),))


def _of_countable(*given: Any, **asked: Any) -> PartialMoment:
    return replace(_OF(*given, **asked), countable=True)


def _opened_by_float(data: Any, *options: Any) -> Any:
    """Read cells with a second grammar, the one of Python's `float`."""
    return array.ArraySource(np.array([[*map(_as_python_reads, row)] for row in data]), ())


def _in_latin(link: str) -> str:
    return _GUARDED(link).replace("client_encoding=UTF8", "client_encoding=LATIN1")


def _postgres_settings(**changed: str) -> Any:
    return patch.dict(postgres._SESSION_SETTINGS, changed)


def _no_security() -> Broken:
    relation = postgres._RELATION_QUERY.replace("pg_catalog.row_security_active(c.oid)", "false")
    return _all(
        _postgres_settings(row_security="on"),
        patch.object(postgres, "_RELATION_QUERY", relation),
        patch.object(postgres, "_START_OPTIONS", "-c search_path=pg_catalog,pg_temp"),
    )


def _printed(self: SecondMoment) -> str:
    return f"SecondMoment({self.units})"


def _fails(*_: Any, **__: Any) -> Release:
    raise ZeroDivisionError


def _shown(share: float) -> Iterator[None]:
    yield


def _by_path(self: Any, group: int, name: str) -> pa.ChunkedArray:
    """Return the first of the columns whose path is the name."""
    return self._opened[0].read_row_group(group, columns=[name], use_threads=False).column(0)


def _in_nanoseconds(*given: Any, **asked: Any) -> Any:
    return _PARQUET_FILE(*given, **asked | {"coerce_int96_timestamp_unit": "ns"})


_PARQUET_FILE = arrow.pq.ParquetFile


def _all_or_nothing(column: Any) -> Any:
    """Find missing cells by a test of all objects together."""
    found = column.to_numpy(object, copy=True)
    found[column.isna()] = None
    return found


_S_ISREG = SimpleNamespace(S_ISREG=lambda mode: True)

TEXT_BY_LINES: Broken = lambda: patch.object(  # noqa: E731
    text,
    "_grammar",
    lambda options, cells=1: replace(_GRAMMAR(options, cells), lines=1),
)
_GRAMMAR = text._grammar

WHOLE_BATCHES = _one(sqlite, "_TEXT_ROLE", replace(sqlite._TEXT_ROLE, read=_truncated))
TYPE_OF_ALL = _one(array.ObjectSource, "batches", _numbers_of_array)
FIRST_ROW = _one(array.ObjectSource, "__init__", _by_first_row)
NO_BLANK_LINES = _one(text.Reader, "next", _without_blank_lines)
PUSHED_DOWN = _one(sources, "rows_meeting", _pushed_down)
LISTED_IDS = _all(
    patch.object(rows, "refuse_unfit", lambda *_: None),
    patch.object(kept, "canonical", _as_listed),
)
GUESSED_KINDS = _one(text.TextSource, "kinds", _kinds_by_cells)
SPARSE = _one(private_copy._Encrypted, "_grow", _sparse)
CORES = _one(rows, "leave_no_core", lambda: None)
UNCHECKED_ARROW = _one(arrow, "_check", lambda column: None)
SHARES_SHOWN = _one(progress, "reading", SimpleNamespace(__wrapped__=_shown))
OPEN_DUCKDB = _all(
    patch.object(duckdb, "_LOCK_STATEMENTS", ()),
    patch.object(DatabaseTable, "require_trust", lambda self, is_program: None),
)
ANY_FILE = _one(files, "stat", _S_ISREG)
IDS_AS_WRITTEN = _one(kept, "canonical", _as_written)
FLOATS_AS_PRINTED = _one(objects, "_spelt_as_id", objects._spelt)
STORED_FLOATS = _one(sqlite, "_ID_ROLE", sqlite._TEXT_ROLE)
IDS_AS_NUMBERS = _one(
    sqlite.SqliteSource, "_role", lambda self, name: sqlite._role(self._declared[name])
)
OWN_SEARCH_PATH = _all(
    patch.object(sources, "rows_meeting", _pushed_down),
    _postgres_settings(search_path="public"),
)
UNCAPPED = _one(duckdb, "_expression", lambda declared: "{0}")
UNCAPPED_SQLITE = _one(
    sqlite,
    "_TEXT_ROLE",
    replace(sqlite._TEXT_ROLE, sql="CASE WHEN typeof({0}) = 'text' THEN {0} END"),
)
UNCAPPED_POSTGRES: Broken = lambda: patch.dict(postgres._READ_EXPRESSIONS, {"text": "{0}"})  # noqa: E731
NO_SECURITY = _no_security()
LATIN_CLIENT = _all(
    _postgres_settings(client_encoding="LATIN1"), patch.object(postgres, "guarded", _in_latin)
)
ALL_SETTLED = _all(
    patch.object(arrow, "_is_table", lambda data: True),
    patch.object(arrow.ArrowSource, "_reader", _again),
)
TWO_READINGS = _all(
    patch.object(arrow, "_is_table", lambda data: True),
    patch.object(kept.Kept, "fill", _two_readings),
)
ANY_ORDER = _one(partial, "_declared", lambda schema: schema.model_dump(exclude={"file"}))
RANDOM_PARTS = _one(PartialMoment, "of", _of_random_parts)
COUNTABLE = _one(PartialMoment, "of", _of_countable)
ANY_SUMS = _one(partial, "_possible", lambda *_: True)
OWN_GRAMMAR = _one(training, "open_source", _opened_by_float)
NO_LIKENESS = _one(cells, "_meanings", _without_likeness)
NEVER_CLOSED = _one(Connected, "close", lambda self: None)
PRINTED_SUMS = _one(SecondMoment, "__repr__", _printed)
LATE_LAWS = _one(Gaussian, "run", _fails)
IN_FLOAT64 = _one(
    numbers,
    "_of_decimals",
    lambda held: held.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False),
)
NEVER_ROUNDED = _one(numbers, "_rounded", lambda number, kind: float(number))
BY_PATH = _one(arrow.ParquetTable, "column", _by_path)
IN_NANOSECONDS = _all(
    patch.object(arrow.pq, "ParquetFile", _in_nanoseconds),
    patch.object(arrow, "_of_a_year", lambda moments, wide: moments),
)
EVERY_COLUMN = _all(
    patch.object(sources, "is_polars", lambda data: False),
    patch.object(frame, "_type", lambda empty, kind: pa.array(empty, from_pandas=True).type),
)
OBJECTS_TOGETHER = _one(frame, "_objects", _all_or_nothing)
ANY_QUERY = _one(spark, "_is_deterministic", lambda frame: True)
