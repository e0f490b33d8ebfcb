"""The command that tells the holder of a table how its cells are read, before anything is spent."""

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
from dpcov.core.printable import printable, shown
from dpcov.errors import OutputError

if TYPE_CHECKING:
    from dpcov.rows.schema import Categorical, Numeric, Schema
    from dpcov.rows.sources.check import ColumnDiagnostics, SourceDiagnostics

MARK = "CONFIDENTIAL  "
TERMINAL = (
    "What dpcov check tells is about rows, without noise: it goes to a terminal only, into no file "
    "and no pipe."
)
WARNING = (
    "This is about the rows themselves, without noise. No release holds it and no budget covers "
    "it: pass nothing of it on.",
    "What is decided after it (another schema, another epsilon, no release at all) depends on the "
    "data, and that is not protected. Bounds and levels must not be made from it: they come from "
    "what a column can hold.",
)
OFFER = (
    "cells that can't be read count as missing, and no release tells how many: dpcov check shows "
    "it to you alone, before you spend"
)
CELLS = {
    "number": "a number",
    "whole": "a whole number",
    "flag": "0, 1, true or false",
    "day": "a date such as 1990-12-31",
    "second": "a date and time such as 1990-12-31T23:59",
}
ENCODINGS = {
    "utf-8": 'all of the file is utf-8 text: declare encoding = "utf-8"',
    "utf-16": 'the file holds zero bytes: perhaps it is encoding = "utf-16"',
    "cp1252": 'not all of the file is utf-8 text: perhaps it is encoding = "cp1252", as Excel '
    "writes in the west of Europe",
}


def check(
    data: options.DataPath,
    schema: Annotated[Path, typer.Option("--schema", help="TOML schema of the data.")],
    table: options.Table = None,
    trust_views: options.TrustViews = False,
    rows: options.Rows = None,
) -> None:
    """Tell you alone, on a terminal, which cells can't be read; CONFIDENTIAL, no release."""
    from dpcov.rows.missing import UnstatedMissingWarning, notice_of
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources.check import diagnose
    from dpcov.rows.sources.sql import table_of

    if not sys.stdout.isatty():
        raise OutputError(TERMINAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnstatedMissingWarning)  # said below, as all else is
        loaded = Schema.load(schema)
    declared = loaded.with_rows(rows)
    found = diagnose(table_of(data, table, trust_views), declared)
    notice = [notice_of(loaded.unstated, shown(schema))] if loaded.unstated else []
    width = max(len(MARK) + 20, shutil.get_terminal_size().columns - 1)
    for sentence in (*WARNING, *notice, *_sentences(found, declared)):
        for line in textwrap.wrap(printable(sentence), width - len(MARK), break_on_hyphens=False):
            print(MARK + line)


def _sentences(found: SourceDiagnostics, declared: Schema) -> Iterator[str]:
    """What is to be said, the file first."""
    from dpcov.rows.schema import Number

    said = [*_of_the_names(found), *_of_the_file(found, declared)]
    for name, seen in found.columns.items():
        column: Numeric | Categorical | None = declared.read_columns.get(name)
        if declared.weight is not None and name == declared.weight.column:
            column = Number(lower=0.0, upper=declared.weight.maximum)
        said += [f"{name}: {text}." for text in _of_column(seen, column)]
    yield from said or ["Every cell can be read, none is missing or beyond its bounds."]


def _of_the_names(found: SourceDiagnostics) -> Iterator[str]:
    if found.unnamed:
        yield f"The header has no name at {_places(found.unnamed)}, which is left out."
    if found.twice:
        yield f"The header repeats a name at {_places(found.twice)}: do not declare that name."
    if found.padded:
        places = _places(found.padded)
        yield f"The name at {places} begins or ends with a blank: declare it without."


def _places(positions: Sequence[int]) -> str:
    """Columns by their number, from 1."""
    several = "columns" if len(positions) > 1 else "column"
    return f"{several} {', '.join(str(at + 1) for at in positions)}"


def _of_the_file(found: SourceDiagnostics, declared: Schema) -> Iterator[str]:
    if broken := _share(found.rows - found.records, found.rows):
        yield f"{broken} of the records have another number of cells, or a stray quote."
    best = found.separated.most_common(1)
    if best and best[0][1] > found.records:
        separator, share = json.dumps(best[0][0]), _share(best[0][1], found.rows)
        yield f"With separator = {separator} under [file], {share} of them would be records."
    elif found.longer > found.records:
        yield (
            f"{_share(found.longer, found.rows)} of the records have one cell more than the header "
            'has names. Under [file], declare extra_cell = "first" if they begin with a row name '
            '(R\'s write.table), or "last" if they end with a separator.'
        )
    elif found.shorter > found.records:
        yield (
            f"{_share(found.shorter, found.rows)} of the records have one cell less than the "
            "header: delete the separator at its end, or extra_cell under [file]."
        )
    if (rows := declared.file.rows) not in (None, found.counted):
        yield f"The table has {found.counted:,} rows, and {rows:,} are declared."
    if found.encoding:
        yield f"As {declared.file.encoding} is declared: {ENCODINGS[found.encoding]}."


def _of_column(seen: ColumnDiagnostics, column: Numeric | Categorical | None) -> Iterator[str]:
    from dpcov.rows.schema import Categorical, Numeric, level_text
    from dpcov.rows.sources.check import MAX_UNREADABLE_FRACTION

    wanted = "an id of the declared type"
    if isinstance(column, Categorical):
        wanted = "a declared level"
    elif isinstance(column, Numeric):
        wanted = CELLS[column.reading]
    if share := _share(seen.unreadable, seen.cells):
        many = seen.unreadable > MAX_UNREADABLE_FRACTION * seen.cells
        yield f"{share} can't be read as {wanted}{', more than 1 %' if many else ''}"
    if (best := seen.otherwise.most_common(1)) and best[0][1]:
        notation, count = best[0]
        share = _share(count, seen.unreadable)
        signs = f'decimal = "{notation.decimal}"'
        signs += f', thousands = "{notation.thousands}"' if notation.thousands else ""
        yield f"{share} of those would be numbers with {signs} under [file]"
    if share := _share(seen.spaced, seen.unreadable):
        yield (
            f"{share} of those would be numbers without the spaces inside: thousands under [file] "
            "is for text files, so convert the column to numbers"
        )
    if share := _share(seen.padded, seen.cells):
        yield f"{share} begin or end with a no-break or other wide blank, which is dropped"
    if share := _share(seen.minus, seen.cells):
        yield f"{share} are numbers with the minus sign U+2212, read as with a hyphen"
    if share := _share(seen.missing, seen.cells):
        yield f"{share} are missing"
    if column is not None and column.missing == "none" and (seen.missing or _hides(seen, column)):
        yield (
            'the schema promises by missing = "none" that no cell is missing, which is untrue: '
            f"a release counts one as {_encoded(column)}"
        )
    for count, side in ((seen.below, "below the lower"), (seen.above, "above the upper")):
        if share := _share(count, seen.cells):
            yield f"{share} are {side} bound, and count as it"
    if isinstance(column, Categorical):
        unmet = [level_text(one) for at, one in enumerate(column.levels) if at not in seen.met]
        if unmet:
            yield f"no cell is {', '.join(unmet)}"


def _hides(seen: ColumnDiagnostics, column: Numeric | Categorical) -> bool:
    """Return True if cells that can't be read count as missing."""
    return column.kind != "categorical" and seen.unreadable > 0


def _encoded(column: Numeric | Categorical) -> str:
    """Return what a missing cell is encoded as where none was promised."""
    return "none of the levels" if column.kind == "categorical" else "the midpoint of the bounds"


def _share(part: int, whole: int) -> str:
    """A share in per cent, one that is not nothing as such; empty for none."""
    if not part:
        return ""
    return f"{part / whole:.1%}".replace("%", " %") if part >= whole / 1000 else "less than 0.1 %"
