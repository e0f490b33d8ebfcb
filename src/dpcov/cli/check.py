"""Command that shows the holder of a table which cells dpcov cannot read."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpcov.cli import options
from dpcov.core.printable import listed, printable, shown
from dpcov.errors import OutputError

if TYPE_CHECKING:
    from dpcov.rows.schema import Categorical, Numeric, Schema
    from dpcov.rows.sources.check import ColumnDiagnostics, SourceDiagnostics

CONFIDENTIAL_MARK = "CONFIDENTIAL  "
TERMINAL_MESSAGE = (
    "The output of `dpcov check` is confidential, so dpcov prints it only to a terminal. Run the "
    "command without a pipe or redirection."
)
CONFIDENTIALITY_WARNING = (
    "This output describes the rows without noise. Share no part of it: differential privacy does "
    "not protect it.",
    "Any decision that you base on this output (another schema, another epsilon, no release) "
    "depends on the data and is not protected. Do not derive bounds or levels from it. Derive them "
    "from public knowledge of each column.",
)
CHECK_HINT = (
    "cells that dpcov cannot read count as missing. Before you spend budget, run dpcov check to "
    "count such cells."
)
TEXTS_HINT = (
    "the table declares texts in {names}, and the schema declares numbers or flags. Texts such as "
    "12,5 or yes count as missing, unless the column declares decimal, thousands, true or false."
)
UNPROTECTED_NOTE = "Nothing protects what you change after the check."
CELL_DESCRIPTIONS = {
    "number": "a number",
    "whole": "a whole number",
    "flag": "0, 1, true or false",
    "day": "a date such as 1990-12-31",
    "second": "a date and time such as 1990-12-31T23:59",
}
ENCODING_HINTS = {
    "utf-8": 'the whole file is valid UTF-8 text. Declare encoding = "utf-8"',
    "utf-16": 'the file contains zero bytes. Try encoding = "utf-16"',
    "cp1252": 'the file is not valid UTF-8 text. Try encoding = "cp1252", which Excel uses in '
    "western Europe",
}


def check(
    data: options.DataPath,
    schema: Annotated[Path, typer.Option("--schema", help="Schema of the data (TOML file).")],
    table: options.Table = None,
    trust_views: options.TrustViews = False,
    rows: options.Rows = None,
) -> None:
    """List unreadable cells per column, for the data holder only.

    The output is CONFIDENTIAL and not differentially private.
    """
    from dpcov.rows.missing import UnstatedMissingWarning, notice_of
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.check import diagnose
    from dpcov.rows.sources.sql import table_of

    if not sys.stdout.isatty():
        raise OutputError(TERMINAL_MESSAGE)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstatedMissingWarning)  # the notice below says the same
        loaded = Schema.load(schema)
    declared = loaded.with_rows(rows)
    found = diagnose(table_of(data, table, trust_views), declared)
    notice = [notice_of(loaded.unstated, shown(schema))] if loaded.unstated else []
    width = max(len(CONFIDENTIAL_MARK) + 20, shutil.get_terminal_size().columns - 1)
    for sentence in (*CONFIDENTIALITY_WARNING, *notice, *_sentences(found, declared)):
        for line in textwrap.wrap(
            printable(sentence), width - len(CONFIDENTIAL_MARK), break_on_hyphens=False
        ):
            print(CONFIDENTIAL_MARK + line)


def hint_of_texts(names: Sequence[str]) -> str:
    """Return a sentence about numbers and flags that a table declares as texts."""
    return TEXTS_HINT.format(names=listed([printable(repr(name)) for name in names]))


def _sentences(found: SourceDiagnostics, declared: Schema) -> Iterator[str]:
    """Yield the sentences about the file, then those about each column."""
    from dpcov.rows.schema import Number

    said = [*_of_the_names(found), *_of_the_file(found, declared)]
    for name, seen in found.columns.items():
        column: Numeric | Categorical | None = declared.read_columns.get(name)
        if declared.weight is not None and name == declared.weight.column:
            column = Number(lower=0.0, upper=declared.weight.maximum)
        said += [f"{name}: {text}." for text in _of_column(seen, column)]
    yield from said or ["dpcov can read every cell. No cell is missing or outside its bounds."]


def _of_the_names(found: SourceDiagnostics) -> Iterator[str]:
    if found.unnamed:
        yield f"The header has no name at {_places(found.unnamed)}. dpcov ignores what has no name."
    if found.twice:
        yield f"The header repeats a name at {_places(found.twice)}. Do not declare this name."
    if found.padded:
        places = _places(found.padded)
        yield f"A name begins or ends with a blank at {places}. Declare the name without the blank."


def _places(positions: Sequence[int]) -> str:
    """Return column positions as text, counted from 1."""
    several = "columns" if len(positions) > 1 else "column"
    return f"{several} {', '.join(str(at + 1) for at in positions)}"


def _of_the_file(found: SourceDiagnostics, declared: Schema) -> Iterator[str]:
    if broken := _share(found.rows - found.records, found.rows):
        yield f"In {broken} of the records, the number of cells or a quote is wrong."
    best = found.separated.most_common(1)
    if best and best[0][1] > found.records:
        separator, share = json.dumps(best[0][0]), _share(best[0][1], found.rows)
        yield f"With separator = {separator} under [file], {share} of the records would be valid."
    elif found.longer > found.records:
        yield (
            f"{_share(found.longer, found.rows)} of the records have one cell more than the header "
            'has names. Under [file], declare extra_cell = "first" if records begin with a row '
            'name (R\'s write.table), or "last" if records end with a separator.'
        )
    elif found.shorter > found.records:
        yield (
            f"{_share(found.shorter, found.rows)} of the records have one cell less than the "
            "header. Delete the separator at the end of the header, or extra_cell under [file]."
        )
    if (rows := declared.file.rows) not in (None, found.counted):
        yield f"The table has {found.counted:,} rows, but the schema or --rows declares {rows:,}."
    if found.encoding:
        yield f"The schema declares {declared.file.encoding}, but {ENCODING_HINTS[found.encoding]}."


def _of_column(seen: ColumnDiagnostics, column: Numeric | Categorical | None) -> Iterator[str]:
    from dpcov.rows.schema import Categorical, Numeric, level_text
    from dpcov.rows.sources.check import MAX_UNREADABLE_FRACTION

    wanted = "an id of the declared type"
    if isinstance(column, Categorical):
        wanted = "a declared level"
    elif isinstance(column, Numeric):
        wanted = CELL_DESCRIPTIONS[column.reading]
    if share := _share(seen.unreadable, seen.cells):
        many = seen.unreadable > MAX_UNREADABLE_FRACTION * seen.cells
        yield f"{share} of the cells are not {wanted}{' (more than 1%)' if many else ''}"
    if (best := seen.otherwise.most_common(1)) and best[0][1]:
        notation, count = best[0]
        share = _share(count, seen.unreadable)
        signs = f'decimal = "{notation.decimal}"'
        signs += f', thousands = "{notation.thousands}"' if notation.thousands else ""
        yield f"{share} of these unreadable cells would be numbers with {signs} in this column"
    if share := _share(seen.padded, seen.cells):
        yield f"{share} of the cells begin or end with a non-ASCII blank, which is removed"
    if share := _share(seen.minus, seen.cells):
        yield f"{share} of the cells are numbers with the sign U+2212, which is read as minus"
    if share := _share(seen.missing, seen.cells):
        yield f"{share} of the cells are missing"
    if column is not None and column.missing == "none" and (seen.missing or _hides(seen, column)):
        yield (
            'the schema promises by missing = "none" that no cell is missing, but cells are '
            f"missing. A release counts each of them as {_encoded(column)}"
        )
    for count, side in ((seen.below, "below the lower"), (seen.above, "above the upper")):
        if share := _share(count, seen.cells):
            yield f"{share} of the cells are {side} bound and count as the bound"
    if isinstance(column, Categorical):
        unmet = [level_text(one) for at, one in enumerate(column.levels) if at not in seen.met]
        if unmet:
            yield f"no cell contains these declared levels: {', '.join(unmet)}"


def _hides(seen: ColumnDiagnostics, column: Numeric | Categorical) -> bool:
    """Return True if the column has unreadable cells that count as missing."""
    return column.kind != "categorical" and seen.unreadable > 0


def _encoded(column: Numeric | Categorical) -> str:
    """Return the value of a missing cell in a column that declares ``missing = "none"``."""
    return "none of the levels" if column.kind == "categorical" else "the midpoint of the bounds"


def _share(part: int, whole: int) -> str:
    """Return a fraction in per cent; an empty text if it is 0."""
    if not part:
        return ""
    return f"{part / whole:.1%}" if part >= whole / 1000 else "less than 0.1%"
