"""Diagnostics of a data source for the person who holds the data.

The diagnostics are confidential, because they describe the rows without noise and outside any
privacy budget. Only `dpcov check` computes them, and no release does. The functions read cells with
the rules of a release (`dpcov.rows.cells`) and count the outcomes. No cell value is kept or
reported.
"""

from __future__ import annotations

import codecs
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.errors import SourceError
from dpcov.rows.cells import cells, codes_of, declared_missing, is_missing, plain, values_of
from dpcov.rows.notation import Notation
from dpcov.rows.numbers import MINUS_SIGN, is_text, trimmed
from dpcov.rows.schema import Categorical, Number, Numeric
from dpcov.rows.sources import open_source
from dpcov.rows.sources.base import Stripped
from dpcov.rows.sources.ids import IdColumn, canonical
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.rows import UNREADABLE_DATA, Rows
from dpcov.rows.sources.text import (
    COMMON_SEPARATORS,
    READ_BYTES,
    READ_ONCE_MESSAGE,
    TextSource,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Booleans
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.base import Source

MAX_UNREADABLE_FRACTION = (
    0.01  # Above this fraction of unreadable cells or records, the declaration is probably wrong.
)
NOTATIONS = [
    Notation(*signs)
    for signs in ((",", None), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"))
]


@dataclass(slots=True, repr=False)  # a repr would print information about the data
class ColumnDiagnostics:
    """Counts of the cells of one column.

    The content is private: it describes rows without noise.

    Attributes
    ----------
    cells : int
        Number of cells in valid records.

    missing : int
        Cells that are empty, null or declared as missing.

    unreadable : int
        Cells that are neither missing nor valid for the column.

    below, above : int
        Numbers below the lower bound, and above the upper bound.

    met : set of int
        Positions of the declared levels that occur.

    otherwise : Counter of Notation
        Unreadable cells that are numbers in another notation.

    padded : int
        Texts with outer blanks outside ASCII.

    minus : int
        Numbers with the minus sign U+2212.

    """

    cells: int = 0
    missing: int = 0
    unreadable: int = 0
    below: int = 0
    above: int = 0
    met: set[int] = field(default_factory=set)
    otherwise: Counter[Notation] = field(default_factory=Counter)
    padded: int = 0
    minus: int = 0


@dataclass(slots=True, repr=False)
class SourceDiagnostics:
    """Diagnostics of a data source.

    The content is private: it describes rows without noise.

    Attributes
    ----------
    columns : dict of str to ColumnDiagnostics
        Diagnostics of the features, the weight and the id.

    counted : int
        Number of rows.

    rows, records : int
        For a text file, the number of rows, and the number of rows that are valid records.

    longer, shorter : int
        Rows that would be valid with one cell more, or with one cell less, than the header.

    unnamed, twice, padded : sequence of int
        Positions in the header of cells without a name, of repeated names, and of names with outer
        blanks.

    separated : Counter of str
        Number of valid records for other separators; empty if most rows are valid.

    encoding : str
        Encoding that fits the bytes of a text file better than the declared one; otherwise empty.

    """

    columns: dict[str, ColumnDiagnostics]
    counted: int = 0
    rows: int = 0
    records: int = 0
    longer: int = 0
    shorter: int = 0
    unnamed: Sequence[int] = ()
    twice: Sequence[int] = ()
    padded: Sequence[int] = ()
    separated: Counter[str] = field(default_factory=Counter)
    encoding: str = ""


@quiet(UNREADABLE_DATA)
def diagnose(data: Any, schema: Schema) -> SourceDiagnostics:
    """Read a table and count the cells that a release cannot read.

    The result is confidential, because it describes rows without noise.

    Parameters
    ----------
    data : object
        Data as in `open_rows`.
    schema : Schema
        Declared columns.

    Returns
    -------
    SourceDiagnostics
        Counts without noise.

    Raises
    ------
    SourceError
        The data cannot be opened, or its columns do not fit the schema.

    """
    options = schema.file.model_copy(update={"rows": None})  # all rows
    source = open_source(data, options, tuple(schema.columns))  # without conversion of numbers
    try:
        text = source if isinstance(source, TextSource) else None
        if text is not None and not text.repeatable:
            raise SourceError(READ_ONCE_MESSAGE)
        Rows(schema, source)
        found = SourceDiagnostics({name: ColumnDiagnostics() for name in schema.needed})
        unit = schema.unit.column if schema.unit else None
        names = [IdColumn(name) if name == unit else name for name in schema.needed]
        for batch in source.batches(names):
            found.counted += batch.num_rows
            for name in schema.needed:
                values = batch.column(name)
                # In a text file, null stands for the cells of invalid records.
                values = values if text is None else values.drop_null()
                _count_cells(name, values, schema, found.columns[name], text is not None)
        if text is not None:
            _diagnose_records(text, found)
            _diagnose_header(text.cells, found)
        found.padded = _padded(source)
        return found
    finally:
        source.close()


def _count_cells(
    name: str, values: pa.Array, schema: Schema, seen: ColumnDiagnostics, is_written: bool
) -> None:
    """Add the cells of one batch to the counts of a column.

    Parameters
    ----------
    name : str
        Name of the column.

    values : pyarrow.Array
        Cells.

    schema : Schema
        Declared columns.

    seen : ColumnDiagnostics
        Counts to update.

    is_written : bool
        True for a text file, whose numbers are not yet converted.

    """
    written = Notation(schema.file.decimal, schema.file.thousands)
    foreign = is_written and not written.plain and name in schema.numbers
    read = written.plainly(values) if foreign else values
    column = schema.read_columns.get(name)
    if schema.weight is not None and name == schema.weight.column:
        column = Number(lower=0.0, upper=schema.weight.maximum)
    texts = pc.coalesce(read, values) if foreign else values
    missing = (*schema.missing, *getattr(column, "missing_codes", ()))
    missing += written.codes(missing) if foreign else ()
    if isinstance(column, Numeric):
        absent = declared_missing(texts, column, missing)
        numbers = values_of(read, column, missing)
        odd = np.isnan(numbers) & ~absent
        seen.below += int((numbers < column.lower).sum())
        seen.above += int((numbers > column.upper).sum())
        texts = plain(values)
        if is_text(texts.type) and name in schema.numbers:
            unread = texts.filter(pa.array(odd))
            nearest = sorted(NOTATIONS, key=lambda one: one.decimal != written.decimal)
            for one in nearest:
                if is_written or one.thousands != ".":  # other sources can write numbers as texts
                    seen.otherwise[one] += _numbers(one, unread, column, schema)
            minus = (
                pc.match_substring(texts, MINUS_SIGN)
                .fill_null(False)
                .to_numpy(zero_copy_only=False)
            )
            seen.minus += int((minus & ~odd & ~absent).sum())
    elif isinstance(column, Categorical):
        absent = is_missing(cells(texts, missing), missing)
        codes = codes_of(read, column, schema.missing)
        declared = (codes >= 0) & (codes < len(column.levels))
        seen.met.update(np.unique(codes[declared]).tolist())
        odd = ~declared & ~absent
    else:
        absent = is_missing(cells(texts, missing), missing)
        odd = _no_id(values, schema) & ~absent
    seen.cells += len(values)
    seen.padded += _with_other_blanks(plain(values))
    seen.missing += int(absent.sum())
    seen.unreadable += int(odd.sum())


def _numbers(one: Notation, texts: pa.Array, column: Numeric, schema: Schema) -> int:
    """Return how many texts are numbers in a notation."""
    return int(np.isfinite(values_of(one.plainly(texts), column, schema.missing)).sum())


def _with_other_blanks(values: pa.Array) -> int:
    """Return how many texts begin or end with a blank outside ASCII."""
    if not is_text(values.type):
        return 0
    changed = pc.not_equal(trimmed(values), pc.ascii_trim_whitespace(values))
    return int(pc.sum(changed, min_count=0).as_py())


def _no_id(values: pa.Array, schema: Schema) -> Booleans:
    """Return True for each cell that is not an id of the declared type."""
    declared = schema.unit.type if schema.unit else None
    ids = canonical(values, declared, schema.missing)
    return np.asarray(ids.is_null().to_numpy(zero_copy_only=False))


def _diagnose_header(cells: Sequence[str], found: SourceDiagnostics) -> None:
    """Find header cells without a name, and repeated names."""
    found.unnamed = [at for at, name in enumerate(cells) if not name]
    found.twice = [at for at, name in enumerate(cells) if name and name in cells[:at]]


def _padded(source: Source) -> Sequence[int]:
    """Return the positions of the columns whose names had outer blanks."""
    if isinstance(source, TextSource):
        return source.padded
    own = source.source.names if isinstance(source, Stripped) else ()
    return [at for at, name in enumerate(own) if name != name.strip()]


def _diagnose_records(source: TextSource, found: SourceDiagnostics) -> None:
    """Count records and check the encoding of a text file, with separate readings."""
    found.rows, found.records = _records(source)
    if found.rows - found.records > MAX_UNREADABLE_FRACTION * found.rows:
        for other in COMMON_SEPARATORS.replace(source.options.separator, ""):
            found.separated[other] = _records(source, other)[1]
        found.longer = _records(source, more_cells=1)[1]
        found.shorter = _records(source, more_cells=-1)[1]
    found.encoding = _encoding(source)


def _records(
    source: TextSource, separator: str | None = None, more_cells: int = 0
) -> tuple[int, int]:
    """Count the rows and the valid records of a text file."""
    rows = records = 0
    with closing(source.blocks(separator, more_cells)) as blocks:
        for block in blocks:
            rows += len(block.is_record)
            records += int(block.is_record.sum())
    return rows, records


def _encoding(source: TextSource) -> str:
    """Return the encoding that the bytes suggest, if it differs from the declared one."""
    declared = source.options.encoding
    if declared.startswith(("utf-16", "utf-32")):
        return ""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8, plain = True, True
    with closing(source.stream()) as stream:
        while chunk := stream.read(READ_BYTES):
            if b"\0" in chunk:
                return "utf-16"
            plain &= chunk.isascii()
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError:
                is_utf8 = False
    if is_utf8:
        return "" if plain or declared == "utf-8" else "utf-8"
    return "cp1252" if declared == "utf-8" else ""
