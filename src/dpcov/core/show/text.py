"""Tables as plain text. Long lines are folded, and names and numbers are never cut."""

from __future__ import annotations

import csv
import io
import math
import shutil
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from dpcov.core.printable import harmless, printable
from dpcov.core.show.table import known

if TYPE_CHECKING:
    from dpcov.core.show.table import Cell, Table

# Width of an output that is not a terminal, in characters.
PIPE_WIDTH = 160
# Width of a text without a limit, in characters.
MAX_WIDTH = 10_000
# Smallest width of folded names, in characters.
MIN_NAME_WIDTH = 8


def plain(text: str) -> str:
    """Return a text without rich markup and without control characters."""
    return escape(printable(text))


def warn(sentence: str, *, error: bool = False) -> None:
    """Print a warning in bold red.

    Parameters
    ----------
    sentence : str
        Warning.
    error : bool
        True to print to the standard error.

    """
    Console(highlight=False, stderr=error).print(plain(sentence), style="bold red", soft_wrap=True)


def print_tables(shown: Iterable[Table]) -> None:
    """Print several tables, and how to print the omitted rows."""
    out = Console(highlight=False)
    for table in shown:
        _print(out, table, "; --csv prints them all")


def summary(shown: Iterable[Table]) -> str:
    """Return several tables as text, with all rows and columns."""
    return _text((table.in_full() for table in shown), MAX_WIDTH, "")


def short(shown: Iterable[Table]) -> str:
    """Return several tables as text for a shell, without the rows that a short table omits.

    The text is as wide as the terminal.
    """
    width = shutil.get_terminal_size((PIPE_WIDTH, 0)).columns
    return _text(shown, width, "; summary() shows them all", force_terminal=True)


def _text(shown: Iterable[Table], width: int, hint: str, **options: Any) -> str:
    buffer = io.StringIO()
    out = Console(file=buffer, width=width, highlight=False, color_system=None, **options)
    for table in shown:
        _print(out, table, hint)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def _print(out: Console, table: Table, hint: str) -> None:
    room = out.width if out.is_terminal else max(out.width, PIPE_WIDTH)
    if table.fits and _width(grid(table)) > room:
        if table.otherwise is not None:
            _print(out, table.otherwise, hint)
        return
    cut, left = table.short()
    if table.title and cut.rows:
        out.print(plain(table.title), style="italic", soft_wrap=True)
    if cut.rows:
        for part in _parts(cut, out.width) if out.is_terminal and not cut.words else [cut]:
            _print_grid(grid(part), out, fold=not cut.words)
    for words in [*(f"{what}{hint}." for what in left), *table.notes]:
        print(printable(words), file=out.file)


def grid(table: Table) -> Grid:
    """Return a rich table without lines, with names on the left and figures on the right."""
    below = int(table.words and len(table.heads) > 2)  # an empty line between long texts
    found = Grid(box=None, padding=(0, 2, below, 0), show_header=any(table.heads))
    name, *heads = table.heads
    style = "bold" if table.words and not any(table.heads) else None
    found.add_column(plain(name), no_wrap=table.words, style=style)
    for head in heads:
        found.add_column(
            plain(head),
            justify="left" if table.words else "right",
            overflow="fold" if table.words else "ellipsis",
        )
    for cells in table.texts():
        found.add_row(*map(plain, cells))
    return found


def _print_grid(found: Grid, out: Console, *, fold: bool) -> None:
    """Print a table without cutting anything. A terminal folds long names."""
    if fold and not out.is_terminal:
        out = Console(file=out.file, width=max(out.width, _width(found)), highlight=False)
    elif fold and _width(found) > out.width:
        _fold(found, out.width)
    out.print(found, crop=False)


def _width(found: Grid) -> int:
    """Return the width of a table without folded names, in characters."""
    return Console(width=MAX_WIDTH).measure(found).maximum


def _parts(table: Table, width: int) -> list[Table]:
    """Split a table by columns into the smallest number of tables that fit the width."""
    columns = len(table.heads) - 1
    texts = [table.heads[1:], *(cells[1:] for cells in table.texts())]
    widths = [1 + max(len(row[at]) for row in texts[1:]) for at in range(columns)]
    size, starts = columns, range(1)
    for count in range(1, columns + 1):
        size = math.ceil(columns / count)
        starts = range(0, columns, size)
        if all(sum(widths[at : at + size]) + MIN_NAME_WIDTH < width for at in starts):
            break
    return [_columns(table, at, at + size) for at in starts]


def _columns(table: Table, first: int, last: int) -> Table:
    """Return a table with the names and a range of the columns."""
    rows = [(name, cells[first:last]) for name, cells in table.rows]
    forms = table.forms if len(table.forms) == 1 else table.forms[first:last]
    heads = (table.heads[0], *table.heads[1 + first : 1 + last])
    return replace(table, heads=heads, rows=rows, forms=forms)


def _fold(found: Grid, width: int) -> None:
    """Fold the names of a table, and the heads of the figures if necessary.

    Numbers are never folded.
    """
    wide = Console(width=MAX_WIDTH)
    names, *figures = found.columns
    for column in found.columns:
        column.overflow = "fold"
    for spacing, whole_words in ((2, True), (1, True), (1, False)):
        found.padding = (0, spacing, 0, 0)
        for column in figures:
            cells = [wide.measure(cell).maximum for cell in column.cells]
            column.min_width = max([1, *cells])
            if whole_words:
                column.min_width = max(column.min_width, wide.measure(column.header).minimum)
            column.max_width = column.min_width
        left = width - sum((column.min_width or 0) + spacing for column in figures) - spacing
        if left >= wide.measure(names.header).minimum + MIN_NAME_WIDTH * (spacing == 2):
            break
    names.max_width = max(MIN_NAME_WIDTH, left)
    names.min_width = None


def _cell(cell: Cell) -> str:
    cell = known(cell)
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if cell is None or isinstance(cell, str):
        return harmless(cell or "")
    return repr(float(cell))


def csv_lines(table: Table) -> str:
    """Return all figures in full precision as CSV, each row with its name.

    A number that is not finite becomes an empty cell.
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(map(harmless, table.heads))
    for name, cells in table.rows:
        writer.writerow([harmless(name), *map(_cell, cells)])
    return buffer.getvalue()
