"""What a source of rows must offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import pyarrow as pa

from dpcov.cells import is_number, is_text
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


class Part(Protocol):
    """A part of a table that can be read beside others.

    `rows` is their number. If `whole`, all of a column's are read at once, by any thread: `each`
    calls `use` with the name and the cells of one column after the other. Otherwise `batches` are
    streamed, taking about `size` bytes.
    """

    @property
    def rows(self) -> int: ...

    @property
    def whole(self) -> bool: ...

    @property
    def size(self) -> int: ...

    def each(self, names: Sequence[str], use: Callable[[str, pa.ChunkedArray], None]) -> None: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...


@runtime_checkable
class PartedSource(Protocol):
    """A source whose parts can be read at the same time."""

    def parts(self, columns: Sequence[str]) -> Sequence[Part]: ...


@runtime_checkable
class MeasuredSource(Protocol):
    """A source that knows which share of its bytes or row groups the present reading has reached.

    Never one of its rows: how many there are may be private, and their share at a time would tell.
    """

    @property
    def share(self) -> float: ...


SUMS_START = '{"format": "dpcov.moments/1", '  # of a file of sums (dpcov.partial)


def holds_sums(data: object) -> bool:
    """Whether `data` is the path of a file of exact sums: private data, but no rows."""
    if not isinstance(data, str | Path):
        return False
    try:
        with Path(data).open("rb") as file:
            return file.read(len(SUMS_START)) == SUMS_START.encode()
    except (OSError, ValueError):
        return False


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
