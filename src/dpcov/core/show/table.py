"""A table of results, before anybody has decided how it looks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.arrays import AnyArray, Matrix, Vector

Cell = float | str | bool | None  # a truth value is for files
Row = tuple[str, Sequence[Cell]]
LONGEST = 30  # rows that are shown; of more, the STRONGEST are
STRONGEST = 20
WIDEST = 6  # columns of figures side by side
WHOLE_MATRIX = 30  # features up to which a matrix is shown entry by entry
NAME = "column"  # heads the names of the rows in a file
LISTED = 12  # levels of a column of categories that are listed
ALWAYS = math.inf  # strength of a row that is never left out


@dataclass(frozen=True, slots=True)
class Table:
    """Names with figures beside them.

    Attributes
    ----------
    heads : of the names, and of each column of figures.
    rows : a name and its cells; a number that is not known is nan, a cell that is empty None.
    title : one line above it.
    forms : formats of the numbers, one for each column or one for all.
    head_form : of rows that are always shown, if theirs is another.
    notes : sentences below it.
    strengths : of the rows, or None where all are shown; `ALWAYS` for one that is never left out.
    longest : rows beyond which only the strongest are shown.
    beyond : how many rows there are that are not even here.
    rest : what the rows are that are not shown.
    widest, other_columns : figures side by side, or None for all, and what columns beyond are.
    words : whether its cells are texts, which may be folded.
    fits : shown only where no line has to be folded.
    otherwise : shown in its place where it does not fit.

    """

    heads: tuple[str, ...]
    rows: Sequence[Row]
    title: str = ""
    forms: tuple[str, ...] = ("{:.5g}",)
    head_form: str | None = None
    notes: tuple[str, ...] = ()
    strengths: Sequence[float] | Vector | None = None
    longest: int = LONGEST
    beyond: int = 0
    rest: str = "rows"
    widest: int | None = None
    other_columns: str = "columns"
    words: bool = False
    fits: bool = False
    otherwise: Table | None = None

    def short(self) -> tuple[Table, list[str]]:
        """What there is room for, strongest first where rows are left out; and what is left out."""
        kept = list(range(len(self.rows)))
        if self.strengths is not None:
            strengths = np.asarray(self.strengths, np.float64)
            always = int(np.isposinf(strengths).sum())
            if len(kept) - always > self.longest:
                ranks = np.argsort(-strengths, kind="stable")
                kept = [int(at) for at in ranks[: always + STRONGEST]]
        columns = len(self.heads) - 1
        wide = columns if self.widest is None else min(columns, self.widest)
        lacking = len(self.rows) - len(kept) + self.beyond
        left = [(lacking, self.rest), (columns - wide, self.other_columns)]
        cut = replace(
            self,
            heads=self.heads[: wide + 1],
            rows=[(self.rows[at][0], self.rows[at][1][:wide]) for at in kept],
            strengths=None if self.strengths is None else [self.strengths[at] for at in kept],
            beyond=0,
        )
        return cut, [f"{count} {what} more" for count, what in left if count > 0]

    def texts(self) -> list[list[str]]:
        """Each row as its name and its cells in words."""
        columns = len(self.heads) - 1
        forms = self.forms * columns if len(self.forms) == 1 else self.forms
        found = []
        for at, (name, cells) in enumerate(self.rows):
            own = forms
            if self.head_form and self.strengths is not None and self.strengths[at] == ALWAYS:
                own = (self.head_form,) * columns
            found.append(
                [name, *(_text(cell, form) for cell, form in zip(cells, own, strict=False))]
            )
        return found

    def arrow(self) -> pa.Table:
        """Names and figures, all of them, as columns of a file."""
        import pyarrow as pa

        head = self.heads[0] or NAME
        while head in self.heads[1:]:
            head += "_"
        parts = [
            pa.array([known(cells[at]) for _, cells in self.rows])
            for at in range(len(self.heads) - 1)
        ]
        return pa.table(
            [pa.array([name for name, _ in self.rows]), *parts], [head, *self.heads[1:]]
        )


def known(cell: Cell) -> Cell:
    """Return a cell as a file has it: None in the place of a number that is not finite."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _text(cell: Cell, form: str) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    return "-" if isinstance(cell, float) and math.isnan(cell) else form.format(cell)


def rows_of(names: Iterable[str], *figures: Vector) -> list[Row]:
    """A row for each name, with its figure of each column."""
    return list(zip(names, np.column_stack(figures).tolist(), strict=True))


def square(names: Sequence[str], matrix: Matrix) -> Table:
    """A symmetric matrix with its names, whole: to compute with."""
    return Table(("", *names), list(zip(names, matrix.tolist(), strict=True)))


def beside(table: Table, columns: Mapping[str, Sequence[Cell]]) -> Table:
    """A table with more columns to the right, for a file."""
    if not columns:
        return table
    more = zip(*columns.values(), strict=True)
    rows = [(name, [*cells, *extra]) for (name, cells), extra in zip(table.rows, more, strict=True)]
    return replace(table, heads=(*table.heads, *columns), rows=rows)


def square_columns(names: Sequence[str], matrices: Mapping[str, AnyArray]) -> dict[str, list[Cell]]:
    """The columns of square matrices, each named by its matrix and its own name."""
    return {
        f"{what} {name}": matrix[:, at].tolist()
        for what, matrix in matrices.items()
        for at, name in enumerate(names)
    }


def triangle(
    title: str,
    names: Sequence[str],
    matrix: Matrix,
    form: str = "{:.2f}",
    *,
    diagonal: bool = False,
    otherwise: Table | None = None,
) -> Table | None:
    """A symmetric matrix to read, each entry once; of many features `otherwise`."""
    if len(names) > WHOLE_MATRIX:
        return otherwise
    count = len(names) - 1 + diagonal
    heads = ("", *(str(j + 1) for j in range(count)))
    rows: list[Row] = []
    for i, name in enumerate(names):
        entries: list[Cell] = matrix[i, : i + diagonal].tolist()
        rows.append((f"{i + 1} {name}", entries + [None] * (count - len(entries))))
    return Table(heads, rows, title, (form,), fits=True, otherwise=otherwise)


def declared(columns: Mapping[str, Any], title: str) -> Table:
    """The columns of a schema and what they hold."""
    rows: list[Row] = []
    for name, column in columns.items():
        holds = ""
        if column.kind == "categorical":
            labels, more = column.labels[:LISTED], len(column.labels) - LISTED
            holds = ", ".join(labels) + f" and {more} more" * (more > 0)
        elif column.kind != "ignored":
            holds = f"{column.shown(column.lower)} to {column.shown(column.upper)}"
        rows.append((name, [column.kind, holds]))
    beyond = max(len(rows) - LONGEST, 0)
    heads = ("column", "kind", "holds")
    return Table(heads, rows[:LONGEST], title, words=True, beyond=beyond, rest="columns")


def sentences(*notes: str) -> Table:
    """Sentences without a table."""
    return Table((), [], notes=notes)
