"""The file of measured cells: one Parquet file, replaced as a whole after each cell.

A run that is killed loses the cells that it is measuring, and the next one goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from cells import Cell, Row

NUMBER = pa.float32()
NAME = pa.dictionary(pa.int16(), pa.string())
SCHEMA = pa.schema(
    {
        "table": NAME,
        "family": NAME,
        "rows": pa.int32(),
        "columns": pa.int32(),
        "trace": NUMBER,
        "neighbors": NAME,
        "definition": NAME,
        "epsilon": pa.float64(),
        "method": NAME,
        "role": NAME,
        "error": NAME,
        "mean": NUMBER,
        "se": NUMBER,
        "repeats": pa.int32(),
        "refused": pa.int32(),
        "default_over": NUMBER,
        "default_over_se": NUMBER,
    }
)
MEASURED = ("mean", "se", "default_over", "default_over_se")
SMALL: dict[str, Any] = {
    "compression": "zstd",
    "use_byte_stream_split": list(MEASURED),
    "use_dictionary": [name for name in SCHEMA.names if name not in MEASURED],
}  # a third smaller than as it comes
Key = tuple[str, str, str, float]


def key_of(row: Row) -> Key:
    """Return the key of the cell that a row belongs to."""
    return row["table"], row["neighbors"], row["definition"], row["epsilon"]


class CellFile:
    """Rows of all cells measured so far, in memory and in the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = pq.read_table(path).to_pylist() if path.exists() else []

    def missing(self, cells: Iterable[Cell], repeats: int | None = None) -> list[Cell]:
        """Return the cells that lack a measurement with at least so many repeats."""
        measured: dict[Key, int] = {}
        for row in self.rows:
            measured[key_of(row)] = max(row["repeats"], measured.get(key_of(row), 0))
        return [cell for cell in cells if measured.get(cell.key, 0) < (repeats or 1)]

    def add(self, rows: list[Row]) -> None:
        """Put a cell's rows in the place of its earlier ones, on the disk too."""
        key = key_of(rows[0])
        self.rows = [row for row in self.rows if key_of(row) != key] + rows
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_suffix(".draft")
        pq.write_table(table(self.rows), draft, **SMALL)
        draft.replace(self.path)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=SCHEMA)
