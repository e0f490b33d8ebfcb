"""Tables of DuckDB files.

The file is attached to an empty database: its macros are not on the search path, so that they stand
for no function of ours. Nothing outside of it can be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from dpcov.core.installing import library
from dpcov.errors import SourceError
from dpcov.rows.cells import LONGEST_CELL, batch_rows
from dpcov.rows.sources.sql import Connected, quoted

if TYPE_CHECKING:
    from dpcov.rows.sources.sql import DatabaseTable

UNREADABLE = (
    "The DuckDB file can't be opened: damaged, of a newer version, or another process has it open "
    "for writing."
)
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,  # nothing is downloaded
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # a table is never a variable of the caller
    "threads": 1,  # our own threads encode meanwhile; and rows keep their order
    "preserve_insertion_order": True,
    "arrow_large_buffer_size": True,  # texts of a batch may be longer than 2 GiB together
    "temp_directory": "",  # cells are never written to a disk
    "memory_limit": "16GB",  # no cell, of 4 GiB at most, comes near
}
_LOCKED = ("SET enable_external_access = false", "SET lock_configuration = true")
_FOUND = (
    "SELECT schema_name, table_name, sql FROM duckdb_tables() WHERE {0} "
    "UNION ALL SELECT schema_name, view_name, NULL FROM duckdb_views() WHERE {1}"
)
_NAMED = "database_name = 'data' AND lower(schema_name) = lower($1) AND lower({}) = lower($2)"
_CONSTRAINTS = "SELECT constraint_type, constraint_column_names FROM duckdb_constraints() WHERE "
_COMPUTED = "GENERATED ALWAYS AS"  # in the text of a table, as DuckDB writes it

_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT")
_AS_THEY_ARE = ("BOOLEAN", "FLOAT", "DOUBLE", *_INTEGERS, *(f"U{name}" for name in _INTEGERS))
_MOMENTS = (
    "DATE",
    "TIMESTAMP WITH TIME ZONE",
    *(f"TIMESTAMP{u}" for u in ("", "_S", "_MS", "_NS")),
)
_CAST = ("HUGEINT", "UHUGEINT", "UUID")  # to short texts, exactly, whatever they hold


class DuckdbSource(Connected):
    """A table of a DuckDB file, which nobody can write to while it is open here.

    Each column is read by an expression that its declared type alone chooses, and that no cell can
    make fail.
    """

    kind = "DuckDB"

    def __init__(self, data: DatabaseTable) -> None:
        super().__init__(data)
        duckdb = library("duckdb", "DuckDB files need their library", SourceError)
        path = str(Path(data.database).absolute()).replace("'", "''")
        with self._opening(duckdb.Error, UNREADABLE):
            self._connection = duckdb.connect(":memory:", config=_SETTINGS)
            self._connection.execute(f"ATTACH '{path}' AS data (TYPE duckdb, READ_ONLY)")
            for setting in _LOCKED:
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
        """The table's full name as SQL, and whether something runs when it is read."""
        *schema, table = self._data.parts
        query = _FOUND.format(_NAMED.format("table_name"), _NAMED.format("view_name"))
        asked = [schema[0] if schema else "main", table]
        found = self._connection.execute(query, asked).fetchall() if len(schema) < 2 else []
        if not found:
            raise self._data.no_such_table()
        space, name, text = found[0]
        return f"data.{quoted(space)}.{quoted(name)}", text is None or _COMPUTED in text

    def _given(self, query: str) -> pa.Schema:
        return self._connection.sql(query).to_arrow_table().schema

    def _constraints(self) -> list[tuple[str, list[str]]]:
        *schema, table = self._data.parts
        query = _CONSTRAINTS + _NAMED.format("table_name")
        found = self._connection.execute(query, [schema[0] if schema else "main", table])
        return list(found.fetchall())

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        query, size = self._query(columns), batch_rows(len(columns))
        with (
            self._reading(self._connection.cursor()) as cursor,
            self._reading(cursor.sql(query).to_arrow_reader(size)) as reader,
        ):
            yield from reader


def _expression(declared: str) -> str | None:
    """How a column of this type is read; None where it is not."""
    if declared in (*_AS_THEY_ARE, *_MOMENTS) or declared.startswith("DECIMAL("):
        return "{0}"
    if declared in _CAST or declared.startswith("ENUM("):
        return "CAST({0} AS VARCHAR)"
    size = {"VARCHAR": "strlen", "BLOB": "octet_length"}.get(declared)
    return size and f"CASE WHEN {size}({{0}}) <= {LONGEST_CELL} THEN {{0}} END"
