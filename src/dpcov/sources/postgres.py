"""Tables of PostgreSQL, through its binary COPY: Arrow batches, with nothing kept by either side.

The driver streams COPY, the server's own bulk output, so that no cursor is needed. All readings of
a table share one read-only snapshot.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcov.cells import is_number, is_text
from dpcov.errors import SourceError
from dpcov.sources.base import batch_rows, kind_of
from dpcov.sources.sql import quoted

if TYPE_CHECKING:
    from dpcov.schema import Kind
    from dpcov.sources.sql import DatabaseTable

NOT_INSTALLED = "PostgreSQL needs a driver: pip install 'dpcov[postgres]'."
UNREACHABLE = (
    "The PostgreSQL server can't be reached, or refuses: check host, port, database, user and "
    "password. (Its message is held back, and so is the link: they may hold the password.)"
)
_SMALL_BATCHES = {"adbc.postgresql.batch_size_hint_bytes": str(2**22)}
_SNAPSHOT = (
    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    # Two readings in the same order: scans start at the beginning, and by one process.
    "SET synchronize_seqscans = off",
    "SET max_parallel_workers_per_gather = 0",
    "SET standard_conforming_strings = on",
    "SET statement_timeout = 0",
    "SET idle_in_transaction_session_timeout = 0",  # noise is drawn before the data is read
)
_NUMBERS = ("numeric",)  # decimals, which come as texts
_NO_VALUE = ("money",)  # its unit depends on the server's settings


class PostgresSource:
    """A table of a PostgreSQL database.

    Columns of other types than numbers, texts and truth values come as the server's texts: so do
    decimal numbers, exactly.
    """

    rereadable = True

    def __init__(self, data: DatabaseTable) -> None:
        try:
            driver: Any = import_module("adbc_driver_postgresql.dbapi")
        except ImportError:
            raise SourceError(NOT_INSTALLED) from None
        self._data = data
        try:
            self._connection: Any = driver.connect(str(data.database))
        except driver.Error:
            raise SourceError(UNREACHABLE) from None
        try:
            with self._connection.cursor() as cursor:
                for setting in _SNAPSHOT:
                    cursor.execute(setting)
                described = cursor.adbc_execute_schema(data.select([]))
        except driver.Error:
            self._connection.close()
            raise SourceError(
                f"The database has no table {data.table!r}, no right to read it, or no column of "
                "these conditions or not of their type. Names are taken as they are spelt, "
                "capitals too."
            ) from None
        self._fields = {field.name: field for field in described}
        self.names = tuple(described.names)
        self.unfit = {
            name: _server_type(field)
            for name, field in self._fields.items()
            if _kind(field) == "ignored"
        }

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._connection.close()

    def kinds(self) -> dict[str, Kind]:
        return {name: _kind(field) for name, field in self._fields.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = batch_rows(len(columns))
        query = self._data.select([self._expression(name) for name in columns])
        with self._connection.cursor(adbc_stmt_kwargs=_SMALL_BATCHES) as cursor:
            cursor.execute(query)
            for batch in cursor.fetch_record_batch():
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)

    def _expression(self, name: str) -> str:
        column, kind = quoted(name), self._fields[name].type
        if is_number(kind) or is_text(kind) or pa.types.is_boolean(kind):
            return column
        return f"CAST({column} AS text) AS {column}"


def _server_type(field: pa.Field) -> str:
    """The server's name of a column's type."""
    metadata = field.metadata or {}
    return str(metadata.get(b"POSTGRESQL:type", str(field.type).encode()).decode())


def _kind(field: pa.Field) -> Kind:
    name = _server_type(field)
    if name in _NUMBERS:
        return "numeric"
    if name in _NO_VALUE:
        return "ignored"
    # What Arrow has no type for comes as text: enumerations and the like.
    return "categorical" if isinstance(field.type, pa.OpaqueType) else kind_of(field.type)
