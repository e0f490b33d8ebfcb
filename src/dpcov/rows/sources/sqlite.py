"""Source of tables in SQLite files, with Python's module sqlite3.

In SQLite, each cell has its own type, whatever its column declares. dpcov reads each cell on its
own, by the declared type of the column. (Arrow drivers for SQLite infer the type of a column from
its first rows and fail for a later cell of another type. The failure would reveal information about
one cell.)
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows, numbers_of
from dpcov.rows.numbers import MAX_CELL_BYTES, MAX_EXACT_INTEGER
from dpcov.rows.schema import level_text
from dpcov.rows.sources.ids import IdColumn
from dpcov.rows.sources.sql import COLLATION_REASON, Connected, quoted

if TYPE_CHECKING:
    from dpcov.rows.schema import Kind
    from dpcov.rows.sources.sql import DatabaseTable

Cells = Sequence[Any]
BATCH_ROWS = 8192  # Rows per batch; Python objects need five times the memory of the numbers.
MIN_VERSION = (3, 37)  # First version of SQLite that distinguishes tables from views.
UNREADABLE_SQLITE = (
    "dpcov cannot read the SQLite file. Check that it is complete, readable and not locked by "
    "another process."
)

# Maximum bytes of a text in UTF-8 or UTF-16 with at most MAX_CELL_BYTES bytes in UTF-8.
_MAX_ENCODED_BYTES = 2 * MAX_CELL_BYTES
# SQL for the number of bytes of a text; new versions read it from the header of the record.
_HAS_OCTET_LENGTH = sqlite3.sqlite_version_info >= (3, 43)
_SIZE_EXPRESSION = "octet_length({0})" if _HAS_OCTET_LENGTH else "length(CAST({0} AS BLOB))"
_START_STATEMENTS = (
    "PRAGMA query_only = ON",
    "PRAGMA trusted_schema = {}",  # ON if the schema in the file can call any function.
    "PRAGMA mmap_size = 0",  # A file that shrinks raises an error and no signal.
    "BEGIN",  # One snapshot for all readings.
)
_STORED_CODES = (0, 3)  # Codes of stored columns: plain, and generated when a row was written.
_COMPUTED_CODE = 2  # Code of a column that is computed when a row is read.


class SqliteSource(Connected):
    """Source of a table in a SQLite file, opened for reading only.

    A column declared as REAL, FLOAT or DOUBLE contains numbers. A BLOB column contains bytes. Any
    other column contains texts. Whole and decimal numbers become exact texts, and truth values
    become 1 and 0. Ids are texts except in BLOB columns.

    Parameters
    ----------
    data : DatabaseTable
        File and table.

    """

    kind = "SQLite"
    writes_numbers = loses_texts = True

    def __init__(self, data: DatabaseTable) -> None:
        super().__init__(data)
        if sqlite3.sqlite_version_info < MIN_VERSION:
            raise SourceError(
                "SQLite files need SQLite 3.37 or newer, but this Python has an older version. "
                "Install a newer Python."
            )
        link = Path(data.database).absolute().as_uri() + "?mode=ro"
        with self._opening(sqlite3.Error, UNREADABLE_SQLITE):
            self._connection = sqlite3.connect(
                link, uri=True, isolation_level=None, check_same_thread=False
            )
            self._connection.text_factory = bytes  # texts might not be valid UTF-8
            for setting in _START_STATEMENTS:
                self._connection.execute(setting.format("ON" if data.trust_views else "OFF"))
            self._declared, is_program = self._described()
            data.require_trust(is_program)
            self.names = tuple(self._declared)
            self.repeatable = not is_program
            # An index could change the order of rows.
            self._from = f"main.{quoted(data.parts[-1])} NOT INDEXED"
            plain = {name: self._is_plain(name, sqlite3.OperationalError) for name in self.names}
            self.unfit_ids = {name: COLLATION_REASON for name in self.names if not plain[name]}
            self._connection.execute(self._query(self.names) + " LIMIT 0")
        self.types = {name: _role(kind).type for name, kind in self._declared.items()}
        self.unfit = {name: "BLOB" for name, kind in self._declared.items() if kind == "BLOB"}

    def _described(self) -> tuple[dict[str, str], bool]:
        """Return the declared type of each column, and True if reading the table runs a program."""
        *schema, table = self._data.parts
        if [name.lower() for name in schema] not in ([], ["main"]):
            raise self._data.no_such_table()
        pragma = "PRAGMA main.{}({})"
        found = self._connection.execute(pragma.format("table_list", quoted(table))).fetchall()
        if not found:
            raise self._data.no_such_table()
        columns = self._connection.execute(pragma.format("table_xinfo", quoted(table))).fetchall()
        hidden = {column[6] for column in columns}
        is_program = found[0][2] in (b"view", b"virtual") or _COMPUTED_CODE in hidden
        read = (*_STORED_CODES, _COMPUTED_CODE)
        declared = {c[1].decode(): c[2].decode().upper() for c in columns if c[6] in read}
        return declared, is_program

    def kinds(self) -> dict[str, Kind]:
        """Return the most likely kind of each column."""
        return {name: _kind(declared) for name, declared in self._declared.items()}

    def _constraints(self) -> list[tuple[str, list[str]]]:
        """Return the constraints of the table with their columns."""

        def rows_of(pragma: str, name: str) -> list[Any]:
            return self._connection.execute(f"PRAGMA main.{pragma}({quoted(name)})").fetchall()

        table = self._data.parts[-1]
        found = [("PRIMARY KEY", [c[1] for c in rows_of("table_xinfo", table) if c[5]])]
        for _, name, unique, _, partial in rows_of("index_list", table):
            columns = [column[2] for column in rows_of("index_info", name.decode())]
            found += [("UNIQUE", columns)] if unique and not partial and None not in columns else []
        foreign: dict[int, list[bytes]] = {}
        for number, _, _, column, *_ in rows_of("foreign_key_list", table):
            foreign.setdefault(number, []).append(column)
        found += [("FOREIGN KEY", columns) for columns in foreign.values()]
        return [(kind, [column.decode() for column in columns]) for kind, columns in found]

    def _expression(self, name: str) -> str:
        """Return the SQL expression that reads a column."""
        return self._role(name).sql.format(quoted(name))

    def _role(self, name: str) -> _Role:
        """Return how a column is read."""
        role = _role(self._declared[name])
        return _ID_ROLE if isinstance(name, IdColumn) and role is not _BLOB_ROLE else role

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        size = min(BATCH_ROWS, batch_rows(len(columns)))
        readers = [self._role(name).read for name in columns]
        with self._reading(self._connection.execute(self._query(columns))) as cursor:
            while rows := cursor.fetchmany(size):
                # zip(*rows) would create one iterator per row, which slows the garbage collector.
                arrays = [read([row[j] for row in rows]) for j, read in enumerate(readers)]
                yield pa.RecordBatch.from_arrays(arrays, list(columns))


_KINDS_BY_TYPE: dict[str, Kind] = {
    "INT": "integer",
    "REAL|FLOA|DOUB|NUMERIC|DECIMAL": "number",
    "BOOL": "flag",
    "DATETIME|TIMESTAMP": "time",
    "DATE": "date",
}


def _kind(declared: str) -> Kind:
    """Return the most likely kind of a column with this declared type."""
    if declared == "BLOB":
        return "ignored"
    return next(
        (kind for word, kind in _KINDS_BY_TYPE.items() if re.search(word, declared)), "categorical"
    )


def _numbers(cells: Cells) -> pa.Array:
    """Convert cells to numbers; texts are parsed with the rules of all data sources."""
    words = [cell for cell in cells if type(cell) is bytes]
    if words:  # otherwise there is nothing to parse
        parsed = iter(numbers_of(_texts(words), ()).tolist())
        cells = [next(parsed) if type(cell) is bytes else cell for cell in cells]
    return pa.array(cells, pa.float64())


def _texts(cells: Cells) -> pa.Array:
    """Convert cells to texts; floats become texts that represent them exactly."""
    held = _bytes([level_text(c).encode() if type(c) is float else c for c in cells])
    return pa.Array.from_buffers(pa.large_string(), len(held), held.buffers())


def _bytes(cells: Cells) -> pa.Array:
    """Convert cells to an Arrow array of bytes."""
    return pa.array(cells, pa.large_binary())


@dataclass(frozen=True, slots=True)
class _Role:
    """Way to read the cells of a column.

    Attributes
    ----------
    sql : str
        SQL expression with a place for the column.
    read : callable
        Function that converts the results to an Arrow array.
    type : pyarrow.DataType
        Type of this array.

    """

    sql: str
    read: Callable[[Cells], pa.Array]
    type: pa.DataType


_CAPPED_EXPRESSION = f"CASE WHEN {_SIZE_EXPRESSION} <= {_MAX_ENCODED_BYTES} THEN {{0}} END"
_NUMBER_ROLE = _Role(
    f"CASE typeof({{0}}) WHEN 'real' THEN {{0}} WHEN 'integer' THEN CAST({{0}} AS REAL) "
    f"WHEN 'text' THEN {_CAPPED_EXPRESSION} END",
    _numbers,
    pa.float64(),
)
_EXACT_EXPRESSION = (  # SQLite's text of an integer is exact, but its text of a float is not
    f"CASE typeof({{0}}) WHEN 'text' THEN {_CAPPED_EXPRESSION} "
    "WHEN 'integer' THEN CAST({0} AS TEXT) WHEN 'real' THEN "
)
_TEXT_ROLE = _Role(_EXACT_EXPRESSION + "{0} END", _texts, pa.large_string())
_ID_ROLE = _Role(  # a larger float can represent several ids
    _EXACT_EXPRESSION
    + f"CASE WHEN {{0}} BETWEEN -{MAX_EXACT_INTEGER} AND {MAX_EXACT_INTEGER} THEN {{0}} END END",
    _texts,
    pa.large_string(),
)
_BLOB_ROLE = _Role(
    f"CASE typeof({{0}}) WHEN 'blob' THEN CASE WHEN length({{0}}) <= {MAX_CELL_BYTES} "
    "THEN {0} END END",
    _bytes,
    pa.large_binary(),
)


def _role(declared: str) -> _Role:
    """Return how a column with this declared type is read."""
    if declared == "BLOB":
        return _BLOB_ROLE
    number = re.search("REAL|FLOA|DOUB", declared) and "INT" not in declared
    return _NUMBER_ROLE if number else _TEXT_ROLE
