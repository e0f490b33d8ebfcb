"""What a source of rows must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from dpcov.encoder import is_number, is_text
from dpcov.schema import Kind

BATCH_CELLS = 2**22  # cells of a batch: 32 MiB of float64, whatever the number of columns


class Source(Protocol):
    """A table that can be streamed as Arrow batches.

    `names` are its columns; `kinds` says how each would most likely be declared, for drafting a
    schema; `unfit` are the columns whose type (told beside) no declaration fits; `rereadable` tells
    whether `batches` may be called more than once.
    """

    names: tuple[str, ...]
    rereadable: bool
    unfit: dict[str, str]

    def kinds(self) -> dict[str, Kind]: ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...


def batch_rows(columns: int) -> int:
    """Rows of a batch so that memory does not grow with the number of columns."""
    return max(1, min(65536, BATCH_CELLS // max(columns, 1)))


def kind_of(kind: pa.DataType) -> Kind:
    """How a column of this Arrow type would most likely be declared."""
    kind = _unwrapped(kind)
    if is_number(kind):
        return "numeric"
    fits = is_text(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return "categorical" if fits else "ignored"


def unfit_columns(fields: Iterable[pa.Field]) -> dict[str, str]:
    """Names and types of the columns that can't be declared numeric or categorical."""
    return {field.name: str(field.type) for field in fields if kind_of(field.type) == "ignored"}


def _unwrapped(kind: pa.DataType) -> pa.DataType:
    """The plain type in which the encoder reads a column of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        return _unwrapped(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return _unwrapped(kind.value_type)
    return pa.string() if pa.types.is_string_view(kind) else kind
