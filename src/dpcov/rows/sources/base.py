"""What a source of rows must offer."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from dpcov.rows.cells import is_moment, is_number, is_text
from dpcov.rows.schema import Categorical, Cells, Date, Kind, Numeric, Time

PROGRAM = (
    "What a view, a query or a stream makes of each row: one that mixes rows of several persons, "
    "or fails on a row, breaks the guarantee."
)
NOTHING: Mapping[str, str] = MappingProxyType({})


class Source:
    """A table that can be streamed as Arrow batches.

    Attributes
    ----------
    door : what kind of table it is, in a word; a release tells it.
    names : its columns.
    types : the Arrow type in which each column's cells come, in every batch.
    unfit : columns whose type, told beside, is none of numbers or categories.
    unfit_ids : columns in which ids can't be told apart, and why, where `types` don't tell.
    settled : whether every reading gives the same rows in the same order, whoever reads.
    costly : whether a reading costs much more than that of a copy of numbers.
    rows_are_lines : whether no cell can change the number of rows.
    advice : what else is said where a column is missing; public.
    row_count : how many rows there are, if that is known without reading a cell. Only under
        replace-one may anything depend on it.

    """

    door: str
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    unfit: Mapping[str, str] = NOTHING
    unfit_ids: Mapping[str, str] = NOTHING
    settled = True
    costly = False
    rows_are_lines = True
    advice = ""
    row_count: int | None = None

    @property
    def caveat(self) -> str:
        """What is not protected on account of where the rows come from; empty for plain tables."""
        return "" if self.settled else PROGRAM

    def kinds(self) -> dict[str, Kind]:
        """How each column would most likely be declared, for the draft of a schema."""
        return {name: kind_of(kind) for name, kind in self.types.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """These columns of all rows.

        One may be an `IdColumn`: what a source itself makes texts of it then spells as ids, and may
        do so where `types` says something else.
        """
        raise NotImplementedError

    def parts(self, columns: Sequence[str]) -> Sequence[Any]:
        """All rows in parts, as a `RowGroup` is, that can be read at once, if there are such."""
        return ()

    def close(self) -> None:
        """Let go of what is open."""

    def _take(self, fields: pa.Schema | Sequence[pa.Field]) -> None:
        """Take names and types from fields of Arrow."""
        self.names = tuple(field.name for field in fields)
        self.types = {field.name: field.type for field in fields}
        self.unfit = unfit_columns(fields)


class Wrapper(Source):
    """Another source's table; what is not passed on are its parts, which would have all rows."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.door, self.names, self.types = source.door, source.names, source.types
        self.unfit, self.unfit_ids, self.advice = source.unfit, source.unfit_ids, source.advice
        self.settled, self.costly = source.settled, source.costly

    @property
    def caveat(self) -> str:
        return self.source.caveat

    def close(self) -> None:
        self.source.close()


SUMS_START = '{"format": "dpcov.moments/1", '  # of a file of sums (dpcov.rows.sources.partial)


def holds_sums(data: object) -> bool:
    """Whether `data` is the path of a file of exact sums: private data, but no rows."""
    if not isinstance(data, str | Path) or not os.path.isfile(data):  # noqa: PTH113  never raises
        return False
    try:
        with Path(data).open("rb") as file:
            return file.read(len(SUMS_START)) == SUMS_START.encode()
    except (OSError, ValueError):
        return False


def kind_of(kind: pa.DataType) -> Kind:
    """How a column of this Arrow type would most likely be declared."""
    kind = unwrapped(kind)
    if is_number(kind):
        return "integer" if pa.types.is_integer(kind) else "number"
    if pa.types.is_boolean(kind):
        return "flag"
    if is_moment(kind):
        return "time" if pa.types.is_timestamp(kind) else "date"
    return "categorical" if is_text(kind) or pa.types.is_null(kind) else "ignored"


def fits(kind: pa.DataType, declared: Numeric | Categorical | Cells) -> bool:
    """Whether a column of this Arrow type may be declared so: from its type alone."""
    found = kind_of(kind)
    if isinstance(declared, Date | Time):
        return found in ("date", "time", "categorical")
    return found not in ("date", "time", "ignored")


def unfit_columns(fields: Iterable[pa.Field]) -> dict[str, str]:
    """Names and types of the columns that can't be declared numbers or categories."""
    return {field.name: str(field.type) for field in fields if not fits(field.type, "text")}


def unwrapped(kind: pa.DataType) -> pa.DataType:
    """The plain type in which the encoder reads a column of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        return unwrapped(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return unwrapped(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
