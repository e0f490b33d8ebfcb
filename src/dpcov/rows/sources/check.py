"""How a table's cells would be read, for whoever holds the table. CONFIDENTIAL.

What is found is about rows, without noise and outside of any budget. Only `dpcov check` asks for
it; no release does. Cells are read by the rules of a release (`dpcov.rows.cells`), and counted by
what becomes of them: none is kept or told.
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
from dpcov.rows.cells import cells, codes_of, is_missing, plain, values_of
from dpcov.rows.numbers import MINUS, is_text, trimmed
from dpcov.rows.schema import Categorical, Number, Numeric
from dpcov.rows.sources import open_source
from dpcov.rows.sources.base import Stripped
from dpcov.rows.sources.ids import IdColumn, canonical
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.rows import UNREADABLE, Rows
from dpcov.rows.sources.text import CHUNK, ONCE, SEPARATORS, Notation, TextSource

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Booleans
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.base import Source

MAX_UNREADABLE_FRACTION = (
    0.01  # a share of cells or records from which a declaration is more likely wrong than they
)
NOTATIONS = [
    Notation(*signs)
    for signs in ((",", None), (",", "."), (".", ","), (",", " "), (".", " "), (".", "'"))
]
SPACED = Notation(".", " ")


@dataclass(slots=True, repr=False)  # its repr would tell of the data
class ColumnDiagnostics:
    """Of how many cells of a column something holds. SENSITIVE.

    Attributes
    ----------
    cells : how many there are, in rows that are records.
    missing : empty, null or declared missing.
    unreadable : neither that nor anything that the column may hold.
    below, above : numbers beyond the bounds.
    met : positions of the declared levels that occur.
    otherwise : of those that are unreadable, how many another notation of numbers reads.
    spaced : of those in other tables than texts, how many are numbers but for spaces inside.
    padded : texts with outer blanks that are not of ASCII.
    minus : numbers with U+2212 as their minus sign.

    """

    cells: int = 0
    missing: int = 0
    unreadable: int = 0
    below: int = 0
    above: int = 0
    met: set[int] = field(default_factory=set)
    otherwise: Counter[Notation] = field(default_factory=Counter)
    spaced: int = 0
    padded: int = 0
    minus: int = 0


@dataclass(slots=True, repr=False)
class SourceDiagnostics:
    """What was found. SENSITIVE.

    Attributes
    ----------
    columns : features, the weight and the person's id.
    counted : how many rows there are.
    rows, records : of a text file, how many rows there are, and how many of them are records.
    longer, shorter : how many would be with a cell more, or less, than the header has names.
    unnamed, twice, padded : places in the header of cells without a name, of names that stand there
        again, and of names with outer blanks.
    separated : how many would be records with another separator; told where many are none.
    encoding : one that the bytes of a text file fit better than that declared; or nothing.

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


@quiet(UNREADABLE)
def diagnose(data: Any, schema: Schema) -> SourceDiagnostics:
    """Read a table once more than a release would; refuses by names and types, as that would."""
    options = schema.file.model_copy(update={"rows": None})  # all that there are
    source = open_source(data, options, tuple(schema.columns))  # numbers as they are written
    try:
        text = source if isinstance(source, TextSource) else None
        if text is not None and not text.repeatable:
            raise SourceError(ONCE)
        Rows(schema, source)
        found = SourceDiagnostics({name: ColumnDiagnostics() for name in schema.needed})
        unit = schema.unit.column if schema.unit else None
        names = [IdColumn(name) if name == unit else name for name in schema.needed]
        for batch in source.batches(names):
            found.counted += batch.num_rows
            for name in schema.needed:
                values = batch.column(name)
                # A text file's cells are texts: null are those of rows that are no records.
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
    """Count the cells of a column; numbers of a text file are still as they are written."""
    written = Notation(schema.file.decimal, schema.file.thousands)
    foreign = is_written and not written.plain and name in schema.numbers
    read = written.plainly(values) if foreign else values
    column = schema.read_columns.get(name)
    if schema.weight is not None and name == schema.weight.column:
        column = Number(lower=0.0, upper=schema.weight.maximum)
    texts = pc.coalesce(read, values) if foreign else values
    absent = is_missing(cells(texts, schema.missing), schema.missing)
    if isinstance(column, Numeric):
        numbers = values_of(read, column, schema.missing)
        odd = np.isnan(numbers) & ~absent
        seen.below += int((numbers < column.lower).sum())
        seen.above += int((numbers > column.upper).sum())
        texts = plain(values)
        if is_text(texts.type) and name in schema.numbers:
            unread = texts.filter(pa.array(odd))
            nearest = sorted(NOTATIONS, key=lambda one: one.decimal != written.decimal)
            for one in nearest if is_written else ():
                seen.otherwise[one] += _numbers(one, unread, column, schema)
            seen.spaced += 0 if is_written else _numbers(SPACED, unread, column, schema)
            minus = pc.match_substring(texts, MINUS).fill_null(False).to_numpy(zero_copy_only=False)
            seen.minus += int((minus & ~odd & ~absent).sum())
    elif isinstance(column, Categorical):
        codes = codes_of(read, column, schema.missing)
        declared = (codes >= 0) & (codes < len(column.levels))
        seen.met.update(np.unique(codes[declared]).tolist())
        odd = ~declared & ~absent
    else:
        odd = _no_id(values, schema) & ~absent
    seen.cells += len(values)
    seen.padded += _with_other_blanks(plain(values))
    seen.missing += int(absent.sum())
    seen.unreadable += int(odd.sum())


def _numbers(one: Notation, texts: pa.Array, column: Numeric, schema: Schema) -> int:
    """How many of these texts a notation reads as numbers."""
    return int(np.isfinite(values_of(one.plainly(texts), column, schema.missing)).sum())


def _with_other_blanks(values: pa.Array) -> int:
    """How many texts begin or end with a blank that is not of ASCII."""
    if not is_text(values.type):
        return 0
    changed = pc.not_equal(trimmed(values), pc.ascii_trim_whitespace(values))
    return int(pc.sum(changed, min_count=0).as_py())


def _no_id(values: pa.Array, schema: Schema) -> Booleans:
    declared = schema.unit.type if schema.unit else None
    ids = canonical(values, declared, schema.missing)
    return np.asarray(ids.is_null().to_numpy(zero_copy_only=False))


def _diagnose_header(cells: Sequence[str], found: SourceDiagnostics) -> None:
    """Find the cells of a header that name no column, or one that was named before."""
    found.unnamed = [at for at, name in enumerate(cells) if not name]
    found.twice = [at for at, name in enumerate(cells) if name and name in cells[:at]]


def _padded(source: Source) -> Sequence[int]:
    """Places of the columns from whose names outer blanks were stripped."""
    if isinstance(source, TextSource):
        return source.padded
    own = source.source.names if isinstance(source, Stripped) else ()
    return [at for at, name in enumerate(own) if name != name.strip()]


def _diagnose_records(source: TextSource, found: SourceDiagnostics) -> None:
    """SourceDiagnostics at records and bytes, which take readings of their own."""
    found.rows, found.records = _records(source)
    if found.rows - found.records > MAX_UNREADABLE_FRACTION * found.rows:
        for other in SEPARATORS.replace(source.options.separator, ""):
            found.separated[other] = _records(source, other)[1]
        found.longer = _records(source, more_cells=1)[1]
        found.shorter = _records(source, more_cells=-1)[1]
    found.encoding = _encoding(source)


def _records(
    source: TextSource, separator: str | None = None, more_cells: int = 0
) -> tuple[int, int]:
    rows = records = 0
    with closing(source.blocks(separator, more_cells)) as blocks:
        for block in blocks:
            rows += len(block.is_record)
            records += int(block.is_record.sum())
    return rows, records


def _encoding(source: TextSource) -> str:
    """The encoding that the bytes look like, where that is not the declared one."""
    declared = source.options.encoding
    if declared.startswith(("utf-16", "utf-32")):
        return ""
    decoder = codecs.getincrementaldecoder("utf-8")()
    is_utf8, plain = True, True
    with closing(source.stream()) as stream:
        while chunk := stream.read(CHUNK):
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
