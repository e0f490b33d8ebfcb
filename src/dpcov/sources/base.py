"""What a source of rows must offer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import pyarrow as pa

BATCH_CELLS = 2**22  # cells of a batch: 32 MiB of float64, whatever the number of columns


class Source(Protocol):
    """A table that can be streamed as Arrow batches.

    `names` are its columns; `kinds` says which look numeric, for drafting a schema; `rereadable`
    tells whether `batches` may be called more than once.
    """

    names: tuple[str, ...]
    rereadable: bool

    def kinds(self) -> dict[str, Literal["numeric", "categorical"]]: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


def batch_rows(columns: int) -> int:
    """Rows of a batch so that memory does not grow with the number of columns."""
    return max(1, min(65536, BATCH_CELLS // max(columns, 1)))


def kind_of(kind: pa.DataType) -> Literal["numeric", "categorical"]:
    """How a column of this Arrow type would most likely be declared."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    return "numeric" if number else "categorical"
