"""Tables of results, without a choice of the output format."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from dpcov.core.arrays import AnyArray, Matrix, Vector

Cell = float | str | bool | None  # only files contain truth values
Row = tuple[str, Sequence[Cell]]
# Largest number of rows that a table shows in full.
MAX_FULL_ROWS = 30
# Number of rows that a longer table shows: the rows with the largest strength.
MAX_STRONGEST_ROWS = 20
# Largest number of columns of figures side by side.
MAX_FIGURE_COLUMNS = 6
# Largest number of features of a matrix that is shown entry by entry.
MAX_MATRIX_FEATURES = 30
# Head of the column of names in a file.
NAME_HEAD = "column"
# Largest number of listed categories of a column.
MAX_LISTED_LABELS = 12
# Strength of a row that is always shown.
ALWAYS_SHOWN_STRENGTH = math.inf


@dataclass(frozen=True, slots=True)
class Table:
    """Table of names with figures beside them.

    Attributes
    ----------
    heads : tuple of str, length m + 1
        Head of the names, and of each column of figures.

    rows : sequence of (str, cells), length n
        Name and m cells. An unknown number is nan. An empty cell is None.

    title : str
        Line above the table.

    forms : tuple of str
        Number formats, one for each column or one for all.

    head_form : str, optional
        Number format of rows that are always shown.

    notes : tuple of str
        Sentences below the table.

    strengths : sequence of float, optional
        Strength of each row. A short table keeps the strongest rows.

    longest : int
        Largest number of rows that are all shown.

    beyond : int
        Number of further rows that the table does not contain.

    rest : str
        Word for the omitted rows.

    widest : int, optional
        Largest number of columns of figures.

    other_columns : str
        Word for the omitted columns.

    words : bool
        True if the cells are texts. Texts can be folded.

    fits : bool
        True if the table is shown only when no line must be folded.

    otherwise : Table, optional
        Table that is shown instead when a line must be folded.

    folded : bool
        True if a page shows the table only after a click.

    """

    heads: tuple[str, ...]
    rows: Sequence[Row]
    title: str = ""
    forms: tuple[str, ...] = ("{:.5g}",)
    head_form: str | None = None
    notes: tuple[str, ...] = ()
    strengths: Sequence[float] | Vector | None = None
    longest: int = MAX_FULL_ROWS
    beyond: int = 0
    rest: str = "rows"
    widest: int | None = None
    other_columns: str = "columns"
    words: bool = False
    fits: bool = False
    otherwise: Table | None = None
    folded: bool = False

    def short(self) -> tuple[Table, list[str]]:
        """Return a shorter table, and sentences about the omitted rows and columns.

        The shorter table keeps the strongest rows.
        """
        kept = list(range(len(self.rows)))
        if self.strengths is not None:
            strengths = np.asarray(self.strengths, np.float64)
            always = int(np.isposinf(strengths).sum())
            if len(kept) - always > self.longest:
                ranks = np.argsort(-strengths, kind="stable")
                kept = [int(at) for at in ranks[: always + MAX_STRONGEST_ROWS]]
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

    def in_full(self) -> Table:
        """Return a table that `short` does not shorten."""
        return replace(self, longest=len(self.rows), widest=None)

    def texts(self) -> list[list[str]]:
        """Return each row as texts: the name and the formatted cells."""
        columns = len(self.heads) - 1
        forms = self.forms * columns if len(self.forms) == 1 else self.forms
        found = []
        for at, (name, cells) in enumerate(self.rows):
            own = forms
            if (
                self.head_form
                and self.strengths is not None
                and self.strengths[at] == ALWAYS_SHOWN_STRENGTH
            ):
                own = (self.head_form,) * columns
            found.append(
                [name, *(_text(cell, form) for cell, form in zip(cells, own, strict=False))]
            )
        return found

    def arrow(self) -> pa.Table:
        """Return all names and figures as an Arrow table."""
        import pyarrow as pa

        head = self.heads[0] or NAME_HEAD
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
    """Return a cell for a file, with None in place of a number that is not finite."""
    return None if isinstance(cell, float) and not math.isfinite(cell) else cell


def _text(cell: Cell, form: str) -> str:
    if cell is None or isinstance(cell, str):
        return cell or ""
    return "-" if isinstance(cell, float) and math.isnan(cell) else form.format(cell)


def rows_of(names: Iterable[str], *figures: Vector) -> list[Row]:
    """Return a table row for each name, with one figure from each vector.

    Parameters
    ----------
    names : iterable of str, length n
        Names of the rows.
    *figures : ndarray, shape (n,)
        Figures of each column.

    Returns
    -------
    list of (str, list of float)
        Rows of a `Table`.

    """
    return list(zip(names, np.column_stack(figures).tolist(), strict=True))


def square(names: Sequence[str], matrix: Matrix) -> Table:
    """Return a symmetric matrix as a table with all entries, for computations.

    Parameters
    ----------
    names : sequence of str, length p
        Names of the rows and columns.
    matrix : ndarray of float, shape (p, p)
        Symmetric matrix.

    Returns
    -------
    Table
        Table of the whole matrix.

    """
    return Table(("", *names), list(zip(names, matrix.tolist(), strict=True)))


def beside(table: Table, columns: Mapping[str, Sequence[Cell]]) -> Table:
    """Return a table with further columns to the right, for a file."""
    if not columns:
        return table
    more = zip(*columns.values(), strict=True)
    rows = [(name, [*cells, *extra]) for (name, cells), extra in zip(table.rows, more, strict=True)]
    return replace(table, heads=(*table.heads, *columns), rows=rows)


def square_columns(names: Sequence[str], matrices: Mapping[str, AnyArray]) -> dict[str, list[Cell]]:
    """Return the columns of square matrices, each with the names of its matrix and column."""
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
    """Return a symmetric matrix as a table with each entry once, for readers.

    Parameters
    ----------
    title : str
        Line above the table.

    names : sequence of str, length p
        Names of the features.

    matrix : ndarray of float, shape (p, p)
        Symmetric matrix.

    form : str
        Number format.

    diagonal : bool
        True if the table includes the diagonal.

    otherwise : Table, optional
        Table for a matrix with too many features.

    Returns
    -------
    Table or None
        Lower triangle, or `otherwise`.

    """
    if len(names) > MAX_MATRIX_FEATURES:
        return otherwise
    count = len(names) - 1 + diagonal
    heads = ("", *(str(j + 1) for j in range(count)))
    rows: list[Row] = []
    for i, name in enumerate(names):
        entries: list[Cell] = matrix[i, : i + diagonal].tolist()
        rows.append((f"{i + 1} {name}", entries + [None] * (count - len(entries))))
    return Table(heads, rows, title, (form,), fits=True, otherwise=otherwise)


def declared(columns: Mapping[str, Any], title: str) -> Table:
    """Return a table of the columns of a schema, with their kinds and possible values."""
    rows: list[Row] = []
    for name, column in columns.items():
        holds = ""
        if column.kind == "categorical":
            labels, more = column.labels[:MAX_LISTED_LABELS], len(column.labels) - MAX_LISTED_LABELS
            holds = ", ".join(labels) + f" and {more} more" * (more > 0)
        elif column.kind != "ignored":
            holds = f"{column.shown(column.lower)} to {column.shown(column.upper)}"
        rows.append((name, [column.kind, holds]))
    beyond = max(len(rows) - MAX_FULL_ROWS, 0)
    heads = ("column", "kind", "values")
    return Table(heads, rows[:MAX_FULL_ROWS], title, words=True, beyond=beyond, rest="columns")


def sentences(*notes: str) -> Table:
    """Return a table that consists only of notes."""
    return Table((), [], notes=notes)
