"""Base class of all data sources."""

from __future__ import annotations

import os
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

COMPUTED_ROWS_NOTE = (
    "Rows that a view, a query or a stream computes: if it combines rows of several "
    "persons, or fails for a row, the guarantee does not hold."
)
UNREAD_TYPE = pa.struct([])  # Type of columns that dpcov does not read.
REINTERPRETED_TYPES = (
    "pandas.period",
    "arrow.opaque",
)  # Types whose cells differ from stored values.
NO_ORDER_MESSAGE = (
    "A number of rows ({}) needs a table with a fixed order of rows: a file, an array or a "
    "data frame. Omit the number here, because the number of rows of this table is public "
    "under replace-one."
)
FIXED_ROWS_MESSAGE = (
    "A declared number of rows ({}) needs replace-one, because one more record changes two "
    "of the declared rows. Use replace-one, or omit the number."
)
DECLARED_ROWS_NOTE = "dpcov uses exactly the {:,} rows that were declared."
EMPTY_MAPPING: Mapping[str, str] = MappingProxyType({})


def rows_given() -> str:
    """Return how the caller states a number of rows, in Python or on the command line."""
    return spelled("rows=N", "--rows N")


def refuse_rows(schema: Schema, neighbors: Neighbors) -> None:
    """Raise `SourceError` for a declared number of rows under add-remove."""
    if schema.file.rows is not None and neighbors != Neighbors.REPLACE_ONE:
        raise SourceError(FIXED_ROWS_MESSAGE.format(rows_given()))


class Source:
    """Table that can be streamed as Arrow batches.

    Attributes
    ----------
    kind : str
        Kind of the table in one word. The release file states it.

    names : tuple of str
        Names of the columns.

    types : mapping of str to pyarrow.DataType
        Arrow type of each column, the same in every batch.

    unfit : mapping of str to str
        Columns that can be neither numeric nor categorical, with their type.

    unfit_ids : mapping of str to str
        Columns that cannot contain ids, with the reason, if `types` does not show it.

    repeatable : bool
        True if every reading returns the same rows in the same order.

    costly : bool
        True if reading the source takes much longer than reading a copy of the numbers.

    rows_are_lines : bool
        True if no cell can change the number of rows.

    how_to_count : str
        Remedy if `rows_are_lines` is False, without a full stop.

    ordered : bool
        True if the table defines the order of its rows.

    writes_numbers : bool
        True if a column of texts can contain numbers that were not texts in the table.

    loses_texts : bool
        True if a column of numbers can contain texts in the table, which the source parses.

    advice : str
        Public hint for the message about a missing column.

    row_count : int or None
        Number of rows, if it is known before any cell is read. Results can depend on this number
        only under replace-one.

    """

    kind: str
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType]
    unfit: Mapping[str, str] = EMPTY_MAPPING
    unfit_ids: Mapping[str, str] = EMPTY_MAPPING
    repeatable = True
    costly = False
    rows_are_lines = True
    how_to_count = "save the table as Parquet"
    ordered = True
    writes_numbers = False
    loses_texts = False
    advice = ""
    row_count: int | None = None

    @property
    def caveat(self) -> str:
        """Description of what the guarantee does not cover; empty for plain tables."""
        return "" if self.repeatable else COMPUTED_ROWS_NOTE

    def kinds(self) -> dict[str, Kind]:
        """Return the most likely kind of each column, for the draft of a schema."""
        return {name: kind_of(kind) for name, kind in self.types.items()}

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the given columns of all rows as batches.

        Parameters
        ----------
        columns : sequence of str
            Names of the columns. An `IdColumn` is returned as ids, possibly in another type than
            `types` states.

        Yields
        ------
        pyarrow.RecordBatch

        """
        raise NotImplementedError

    def parts(self, columns: Sequence[str]) -> Sequence[Any]:
        """Return parts of the table that threads can read at the same time, if there are any."""
        return ()

    def close(self) -> None:
        """Close open files and connections."""

    def _set_fields(self, fields: pa.Schema | Sequence[pa.Field]) -> None:
        """Set names and types from Arrow fields."""
        self.names = tuple(field.name for field in fields)
        self.types = {field.name: field.type for field in fields}
        self.unfit = unfit_columns(fields)

    def _set_some_fields(
        self, names: Sequence[str], found: Sequence[pa.DataType | None], own_types: Sequence[object]
    ) -> None:
        """Set names and types, for a table with columns that Arrow cannot represent.

        Parameters
        ----------
        names : sequence of str
            Names of all columns.

        found : sequence of pyarrow.DataType or None
            Arrow types; None for a column that dpcov does not read.

        own_types : sequence of object
            Own types of the columns, for messages.

        """
        self._set_fields(
            [
                pa.field(n, UNREAD_TYPE if t is None else t)
                for n, t in zip(names, found, strict=True)
            ]
        )
        lacking = {n: str(t) for n, t, f in zip(names, own_types, found, strict=True) if f is None}
        self.unfit = {**self.unfit, **lacking}
        self.unfit_ids = {n: f"its type is {t}" for n, t in lacking.items()}


class Wrapper(Source):
    """Source that passes on the table of another source, without its parts.

    Parameters
    ----------
    source : Source
        Wrapped source.

    """

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
        self.writes_numbers, self.loses_texts = source.writes_numbers, source.loses_texts

    @property
    def caveat(self) -> str:
        """Description of what the guarantee does not cover because of the data source."""
        return self.source.caveat

    def kinds(self) -> dict[str, Kind]:
        """Return the most likely kind of each column."""
        return self.source.kinds()

    def close(self) -> None:
        """Close the wrapped source."""
        self.source.close()


class Stripped(Wrapper):
    """Source whose column names have no outer blanks.

    Parameters
    ----------
    source : Source
        Wrapped source.

    """

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.row_count = source.row_count
        self.names = tuple(name.strip() for name in source.names)
        self._own = dict(zip(self.names, source.names, strict=True))
        self.types = {name.strip(): kind for name, kind in source.types.items()}
        self.unfit = {name.strip(): kind for name, kind in source.unfit.items()}
        self.unfit_ids = {name.strip(): why for name, why in source.unfit_ids.items()}

    def kinds(self) -> dict[str, Kind]:
        """Return the most likely kind of each column."""
        return {name.strip(): kind for name, kind in self.source.kinds().items()}

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the given columns as Arrow batches."""
        own = [type(name)(self._own[name]) for name in columns]  # keeps `IdColumn`
        for batch in self.source.batches(own):
            arrays = [batch.column(name) for name in own]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


class FixedRows(Wrapper):
    """Source with a declared, public number of rows.

    The source passes on the first rows of another source and adds rows without values if the table
    is too short. If one record is added, removed or changed, at most one of these rows changes
    (docs/proofs/records.md).

    Parameters
    ----------
    source : Source
        Wrapped source.
    rows : int
        Number of rows.

    """

    def __init__(self, source: Source, rows: int) -> None:
        if not source.ordered:
            source.close()
            raise SourceError(NO_ORDER_MESSAGE.format(rows_given()))
        super().__init__(source)
        self.rows_are_lines, self.row_count = True, rows

    @property
    def caveat(self) -> str:
        """Description of what the guarantee does not cover, with the declared number of rows."""
        declared = (
            "" if self.source.rows_are_lines else f"{DECLARED_ROWS_NOTE.format(self.row_count)} "
        )
        return f"{declared}{self.source.caveat}"

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield exactly the declared number of rows."""
        left, size = self.row_count or 0, batch_rows(len(columns))
        for batch in self.source.batches(columns):
            first = batch.slice(0, left)
            left -= first.num_rows
            if first.num_rows:
                yield first
            if not left:
                return
        for start in range(0, left, size):
            nothing = pa.nulls(min(size, left - start))  # missing in any type
            yield pa.RecordBatch.from_arrays([nothing] * len(columns), names=list(columns))


SUMS_START = '{"format": "dpcov.moments/1", '  # Start of a file of sums (see `partial`).


def holds_sums(data: object) -> bool:
    """Return True if the data is the path of a file of exact sums, which contains no rows."""
    if not isinstance(data, str | Path) or not os.path.isfile(data):  # noqa: PTH113  raises no error
        return False
    try:
        with Path(data).open("rb") as file:
            return file.read(len(SUMS_START)) == SUMS_START.encode()
    except (OSError, ValueError):
        return False


def kind_of(kind: pa.DataType) -> Kind:
    """Return the most likely kind of a column with this Arrow type."""
    kind = unwrapped(kind)
    if is_number(kind):
        return "integer" if pa.types.is_integer(kind) else "number"
    if pa.types.is_boolean(kind):
        return "flag"
    if is_moment(kind):
        return "time" if pa.types.is_timestamp(kind) else "date"
    return "categorical" if is_text(kind) or pa.types.is_null(kind) else "ignored"


def fits(kind: pa.DataType, declared: Numeric | Categorical | Cells) -> bool:
    """Return True if a column of this Arrow type can have the given declaration.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the column.
    declared : Numeric, Categorical or str
        Declaration of the column, or the type in a condition.

    Returns
    -------
    bool

    """
    found = kind_of(kind)
    if isinstance(declared, Date | Time):
        return found in ("date", "time", "categorical")
    return found not in ("date", "time", "ignored")


def unfit_columns(fields: Iterable[pa.Field]) -> dict[str, str]:
    """Return names and types of the columns that can be neither numeric nor categorical."""
    return {field.name: str(field.type) for field in fields if not fits(field.type, "text")}


def unwrapped(kind: pa.DataType) -> pa.DataType:
    """Return the plain type in which the encoder reads a column of this type."""
    if isinstance(kind, pa.BaseExtensionType):
        unlike = kind.extension_name in REINTERPRETED_TYPES
        return kind if unlike else unwrapped(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return unwrapped(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    return pa.binary() if pa.types.is_binary_view(kind) else kind
