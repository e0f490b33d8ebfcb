"""Tables of SQLite files, through Python's own sqlite3.

SQLite's cells have types of their own, whatever their column declares. Each is read by its column's
declared type and by itself. (Arrow drivers for SQLite guess a column's type from its first rows and
fail on a later cell that differs: that would tell about one cell.)
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.schema import level_text
from dpcov.sources.base import batch_rows
from dpcov.sources.sql import quoted

if TYPE_CHECKING:
    from dpcov.schema import Kind
    from dpcov.sources.sql import DatabaseTable

Cells = Sequence[Any]
BATCH_ROWS = 8192  # Python objects need about five times their number's size


class SqliteSource:
    """A table of a SQLite file, opened for reading only.

    A column declared REAL (FLOAT, DOUBLE) holds numbers, one declared BOOLEAN truth values, BLOB
    bytes; any other texts, among them whole and decimal numbers, spelt exactly.
    """

    rereadable = True

    def __init__(self, data: DatabaseTable) -> None:
        self._data = data
        link = Path(data.database).absolute().as_uri() + "?mode=ro"
        try:
            self._connection = sqlite3.connect(
                link, uri=True, isolation_level=None, check_same_thread=False
            )
            self._connection.text_factory = bytes  # texts may be no valid UTF-8
            self._connection.execute("BEGIN")  # one snapshot for all readings
            self._declared = self._declared_types()
            if self._declared:
                self._connection.execute(data.select([]) + " LIMIT 0")
        except sqlite3.Error:
            self._declared = {}
        if not self._declared:
            raise SourceError(
                f"The database has no table {data.table!r} or no column of these conditions, or "
                "it can't be read (damaged, locked, or no right to)."
            )
        self.names = tuple(self._declared)
        self.unfit = {name: "BLOB" for name, kind in self._declared.items() if kind == "BLOB"}

    def _declared_types(self) -> dict[str, str]:
        *schema, table = self._data.parts
        of = f"{quoted(schema[0])}." if schema else ""
        found = self._connection.execute(f"PRAGMA {of}table_info({quoted(table)})")
        return {row[1].decode(): row[2].decode().upper() for row in found}

    def kinds(self) -> dict[str, Kind]:
        return {name: _kind(declared) for name, declared in self._declared.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = min(BATCH_ROWS, batch_rows(len(columns)))
        readers = [_reader(self._declared[name]) for name in columns]
        chosen = [self._expression(name) for name in columns]
        with contextlib.closing(self._connection.execute(self._data.select(chosen))) as cursor:
            while rows := cursor.fetchmany(size):
                parts = zip(readers, zip(*rows, strict=True), strict=True)
                yield pa.RecordBatch.from_arrays([read(c) for read, c in parts], list(columns))

    def _expression(self, name: str) -> str:
        """Of texts, no BLOB: both would come as bytes."""
        column = quoted(name)
        if _reader(self._declared[name]) is not _texts:
            return column
        return f"CASE WHEN typeof({column}) <> 'blob' THEN {column} END"


def _reader(declared: str) -> Callable[[Cells], pa.Array]:
    if _kind(declared) == "ignored":
        return _bytes
    if re.search("REAL|FLOA|DOUB", declared) and "INT" not in declared:
        return _numbers
    return _truths if declared.startswith("BOOL") else _texts


def _kind(declared: str) -> Kind:
    if re.search("INT|REAL|FLOA|DOUB|NUMERIC|DECIMAL", declared):
        return "numeric"
    return "ignored" if declared == "BLOB" else "categorical"


def _numbers(cells: Cells) -> pa.Array:
    try:
        return pa.array(cells, pa.float64())
    except (pa.ArrowException, TypeError):
        kept = [float(cell) if isinstance(cell, int | float) else None for cell in cells]
        return pa.array(kept, pa.float64())


def _truths(cells: Cells) -> pa.Array:
    words: dict[int | float, bool] = {0: False, 1: True}
    kept = [words.get(cell) if isinstance(cell, int | float) else None for cell in cells]
    return pa.array(kept, pa.bool_())


def _bytes(cells: Cells) -> pa.Array:
    kept = [cell if isinstance(cell, bytes) or cell is None else _text(cell) for cell in cells]
    return pa.array(kept, pa.large_binary())


def _texts(cells: Cells) -> pa.Array:
    try:
        return pa.array(cells, pa.int64()).cast(pa.large_string())
    except (pa.ArrowException, TypeError):
        held = _bytes(cells)
    return pa.Array.from_buffers(pa.large_string(), len(held), held.buffers())


def _text(number: int | float) -> bytes:
    return level_text(number).encode()
