"""Tables of DuckDB files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcov.errors import SourceError
from dpcov.sources.base import batch_rows, kind_of, unfit_columns
from dpcov.sources.sql import quoted

if TYPE_CHECKING:
    from dpcov.schema import Kind
    from dpcov.sources.sql import DatabaseTable

NOT_INSTALLED = "DuckDB files need their library: pip install 'dpcov[duckdb]'."
_SETTINGS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,  # nothing is downloaded
    "python_enable_replacements": False,  # a table is never a variable of the caller
    "threads": 1,  # our own threads encode meanwhile
}


class DuckdbSource:
    """A table of a DuckDB file, which nobody can write to while it is open here."""

    rereadable = True

    def __init__(self, data: DatabaseTable) -> None:
        try:
            import duckdb
        except ImportError:
            raise SourceError(NOT_INSTALLED) from None
        self._data = data
        try:
            self._connection: Any = duckdb.connect(
                str(data.database), read_only=True, config=_SETTINGS
            )
        except duckdb.Error:
            raise SourceError(
                "The DuckDB file can't be opened: damaged, of a newer version, or another process "
                "has it open for writing."
            ) from None
        try:
            self._schema = self._connection.sql(data.select([])).limit(0).to_arrow_table().schema
        except duckdb.Error:
            self._connection.close()
            raise SourceError(
                f"The database has no table {data.table!r}, or no column of these conditions or "
                "not of their type."
            ) from None
        self.names = tuple(self._schema.names)
        self.unfit = unfit_columns(self._schema)

    def kinds(self) -> dict[str, Kind]:
        return {field.name: kind_of(field.type) for field in self._schema}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        chosen = [quoted(name) for name in columns]
        with self._connection.cursor() as cursor:
            relation = cursor.sql(self._data.select(chosen))
            yield from relation.to_arrow_reader(batch_rows(len(chosen)))
