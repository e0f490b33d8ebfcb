"""Source of tables in DuckDB files.

dpcov attaches the file to an empty database, so macros in the file cannot replace built-in
functions. The connection cannot access anything outside the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcov.core.files import utf8_name
from dpcov.core.installing import library
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.sources.sql import Connected, quoted

if TYPE_CHECKING:
    from dpcov.rows.sources.sql import DatabaseTable

UNREADABLE_DUCKDB = (
    "dpcov cannot open the DuckDB file. Check that it is complete, has a supported version, "
    "and that no other process writes to it."
)
_CONNECTION_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,  # No downloads.
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # A table name never means a Python variable.
    "threads": 1,  # Keeps the order of rows; dpcov's own threads encode.
    "preserve_insertion_order": True,
    "arrow_large_buffer_size": True,  # The texts of a batch can exceed 2 GiB in total.
    "temp_directory": "",  # No cell is written to disk.
    "memory_limit": "16GB",  # A cell has at most 4 GiB.
}
_LOCK_STATEMENTS = ("SET enable_external_access = false", "SET lock_configuration = true")
_TABLES_QUERY = (
    "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE {0} "
    "UNION ALL SELECT schema_name, view_name, NULL FROM duckdb_views() WHERE {1}"
)
_NAME_CONDITION = (
    "database_name = 'data' AND lower(schema_name) = lower($1) AND lower({}) = lower($2)"
)
_CONSTRAINTS_QUERY = (
    "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() WHERE "
)
_COMPUTED_MARK = "GENERATED ALWAYS AS"  # Mark of a computed column in DuckDB's text of a table.

_INTEGER_NAMES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_PLAIN_TYPES = (
    "BOOLEAN",
    "FLOAT",
    "DOUBLE",
    *_INTEGER_NAMES,
    *(f"U{name}" for name in _INTEGER_NAMES),
)
_MOMENT_TYPES = (
    "DATE",
    "TIMESTAMP WITH TIME ZONE",
    *(f"TIMESTAMP{u}" for u in ("", "_S", "_MS", "_NS")),
)
_CAST_TYPES = ("HUGEINT", "UHUGEINT", "UUID")  # Types that are converted to short exact texts.


class DuckdbSource(Connected):
    """Source of a table in a DuckDB file, which no process can change while it is open.

    The declared type of a column alone determines the expression that reads the column. No cell can
    make the expression fail.

    Parameters
    ----------
    data : DatabaseTable
        File and table.

    """

    kind = "DuckDB"

    def __init__(self, data: DatabaseTable) -> None:
        super().__init__(data)
        duckdb = library("duckdb", "DuckDB files need their library", SourceError)
        path = utf8_name(Path(data.database).absolute(), SourceError).replace("'", "''")
        with self._opening(duckdb.Error, UNREADABLE_DUCKDB):
            self._connection = duckdb.connect(":memory:", config=_CONNECTION_SETTINGS)
            self._connection.execute(f"ATTACH '{path}' AS data (TYPE duckdb, READ_ONLY)")
            for setting in _LOCK_STATEMENTS:
                self._connection.execute(setting)
            self._from, is_program = self._found()
            data.require_trust(is_program)
            self.repeatable = not is_program
            relation = self._connection.sql(f"SELECT * FROM {self._from} LIMIT 0")  # noqa: S608
            types = map(str, relation.types)
            declared = dict(zip(relation.columns, types, strict=True))
            read = {name: e for name, t in declared.items() if (e := _expression(t))}
            texts = [name for name, kind in declared.items() if kind == "VARCHAR"]
            collated = [name for name in texts if not self._is_plain(name, duckdb.Error)]
            self._describe(declared, read, collated)

    def _found(self) -> tuple[str, bool]:
        """Return the table's name as SQL, and True if reading the table runs a program."""
        *schema, table = self._data.parts
        query = _TABLES_QUERY.format(
            _NAME_CONDITION.format("table_name"), _NAME_CONDITION.format("view_name")
        )
        asked = [schema[0] if schema else "main", table]
        found = self._connection.execute(query, asked).fetchall() if len(schema) < 2 else []
        if not found:
            raise self._data.no_such_table()
        space, name, text = found[0]
        return f"data.{quoted(space)}.{quoted(name)}", text is None or _COMPUTED_MARK in text

    def _given(self, query: str) -> pa.Schema:
        """Return the Arrow schema of the result of a query."""
        return self._connection.sql(query).to_arrow_table().schema

    def _constraints(self) -> list[tuple[str, list[str]]]:
        """Return the constraints of the table with their columns."""
        *schema, table = self._data.parts
        query = _CONSTRAINTS_QUERY + _NAME_CONDITION.format("table_name")
        found = self._connection.execute(query, [schema[0] if schema else "main", table])
        return list(found.fetchall())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        query, size = self._query(columns), batch_rows(len(columns))
        with (
            self._reading(self._connection.cursor()) as cursor,
            self._reading(cursor.sql(query).to_arrow_reader(size)) as reader,
        ):
            yield from reader


def _expression(declared: str) -> str | None:
    """Return the SQL expression that reads a column of this type, if dpcov reads the type."""
    if declared in (*_PLAIN_TYPES, *_MOMENT_TYPES) or declared.startswith("DECIMAL("):
        return "{0}"
    if declared in _CAST_TYPES or declared.startswith("ENUM("):
        return "CAST({0} AS VARCHAR)"
    size = {"VARCHAR": "strlen", "BLOB": "octet_length"}.get(declared)
    return size and f"CASE WHEN {size}({{0}}) <= {MAX_CELL_BYTES} THEN {{0}} END"
