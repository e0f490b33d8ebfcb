"""What a source of rows must offer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpcov.core.privacy import Neighbors
from dpcov.core.spelling import spelled
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows, is_moment
from dpcov.rows.numbers import is_number, is_text
from dpcov.rows.schema import Categorical, Cells, Date, Kind, Numeric, Time

if TYPE_CHECKING:
    from dpcov.rows.schema import Schema

PROGRAM = (
    "What a view, a query or a stream makes of each row: one that mixes rows of several persons, "
    "or fails on a row, breaks the guarantee."
)
NO_TYPE = pa.struct([])  # of a column that is not read
UNLIKE_STORED = ("pandas.period", "arrow.opaque")  # types whose cells are not what they store
NO_ORDER = (
    "A number of rows ({}) needs a table that says which rows are the first: a file, an array or a "
    "frame. Leave it out here, where the number of rows of the table is public under replace-one."
)
FIXED = (
    "A declared number of rows ({}) is for replace-one: under add-remove one record more or less "
    "changes two of these rows. Use replace-one, or leave out the number."
)
DECLARED = "dpcov uses exactly the {:,} rows that were declared."
NOTHING: Mapping[str, str] = MappingProxyType({})


def rows_given() -> str:
    """Spell how a number of rows is given."""
    return spelled("rows=N", "--rows N")


def refuse_rows(schema: Schema, neighbors: Neighbors) -> None:
    """Refuse to fix the number of rows where one record more or less counts as one change."""
    if schema.file.rows is not None and neighbors != Neighbors.REPLACE_ONE:
        raise SourceError(FIXED.format(rows_given()))


class Source:
    """A table that can be streamed as Arrow batches.

    Attributes
    ----------
    door : what kind of table it is, in a word; a release tells it.
    names : its columns.
    types : the Arrow type in which each column's cells come, in every batch.
    unfit : columns whose type, told beside, is none of numbers or categories.
    unfit_ids : columns in which ids can't be told apart, and why, where `types` don't tell.
    repeatable : whether every reading gives the same rows in the same order, whoever reads.
    costly : whether a reading costs much more than that of a copy of numbers.
    rows_are_lines : whether no cell can change the number of rows.
    how_to_count : what else makes that so, where it is not; without a full stop.
    public_rows : the number of rows, where it is public under replace-one and known without reading
        a cell.
    ordered : whether the table itself says which row comes first.
    advice : what else is said where a column is missing; public.

    """

    kind: str
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    unfit: Mapping[str, str] = NOTHING
    unfit_ids: Mapping[str, str] = NOTHING
    repeatable = True
    costly = False
    rows_are_lines = True
    how_to_count = "save the table as Parquet"
    public_rows: int | None = None
    ordered = True
    advice = ""

    @property
    def caveat(self) -> str:
        """What is not protected on account of where the rows come from; empty for plain tables."""
        return "" if self.repeatable else PROGRAM

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

    def _take_some(
        self, names: Sequence[str], found: Sequence[pa.DataType | None], told: Sequence[object]
    ) -> None:
        """Take names and types; of columns without one, which are not read, the type as `told`."""
        self._take(
            [pa.field(n, NO_TYPE if t is None else t) for n, t in zip(names, found, strict=True)]
        )
        lacking = {n: str(t) for n, t, f in zip(names, told, found, strict=True) if f is None}
        self.unfit = {**self.unfit, **lacking}
        self.unfit_ids = {n: f"it is of the type {t}" for n, t in lacking.items()}


class Wrapper(Source):
    """Another source's table; what is not passed on are its parts, which would have all rows."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.kind, self.names, self.types = source.kind, source.names, source.types
        self.unfit, self.unfit_ids, self.advice = source.unfit, source.unfit_ids, source.advice
        self.repeatable, self.costly, self.ordered = (
            source.repeatable,
            source.costly,
            source.ordered,
        )
        self.rows_are_lines, self.how_to_count = source.rows_are_lines, source.how_to_count

    @property
    def caveat(self) -> str:
        return self.source.caveat

    def kinds(self) -> dict[str, Kind]:
        return self.source.kinds()

    def close(self) -> None:
        self.source.close()


class Stripped(Wrapper):
    """Another source's table, of which the names have no outer blanks, as those of text files."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.public_rows = source.public_rows
        self.names = tuple(name.strip() for name in source.names)
        self._own = dict(zip(self.names, source.names, strict=True))
        self.types = {name.strip(): kind for name, kind in source.types.items()}
        self.unfit = {name.strip(): kind for name, kind in source.unfit.items()}
        self.unfit_ids = {name.strip(): why for name, why in source.unfit_ids.items()}

    def kinds(self) -> dict[str, Kind]:
        return {name.strip(): kind for name, kind in self.source.kinds().items()}

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        own = [type(name)(self._own[name]) for name in columns]  # ids are asked for as such
        for batch in self.source.batches(own):
            arrays = [batch.column(name) for name in own]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


class FixedRows(Wrapper):
    """The first rows of another source's table, of a number that is declared, and public.

    Rows without values stand for those that the table lacks. One record more, less, or another one
    changes one of these rows at most (docs/proofs/records.md).
    """

    def __init__(self, source: Source, rows: int) -> None:
        if not source.ordered:
            source.close()
            raise SourceError(NO_ORDER.format(rows_given()))
        super().__init__(source)
        self.rows_are_lines, self.public_rows = True, rows

    @property
    def caveat(self) -> str:
        declared = "" if self.source.rows_are_lines else f"{DECLARED.format(self.public_rows)} "
        return f"{declared}{self.source.caveat}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        left, size = self.public_rows or 0, batch_rows(len(columns))
        for batch in self.source.batches(columns):
            first = batch.slice(0, left)
            left -= first.num_rows
            if first.num_rows:
                yield first
            if not left:
                return
        for start in range(0, left, size):
            nothing = pa.nulls(min(size, left - start))  # as missing as a null of any type
            yield pa.RecordBatch.from_arrays([nothing] * len(columns), names=list(columns))


SUMS_START = '{"format": "dpcov.moments/1", '  # of a file of sums (dpcov.rows.sources.partial)


def holds_sums(data: object) -> bool:
    """Whether `data` is the path of a file of exact sums: private data, but no rows."""
    if not isinstance(data, str | Path) or not Path(data).is_file():
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
        unlike = kind.extension_name in UNLIKE_STORED
        return kind if unlike else unwrapped(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return unwrapped(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
