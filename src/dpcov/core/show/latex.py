"""Tables as LaTeX text, which needs no package."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dpcov.core.printable import printable

if TYPE_CHECKING:
    from dpcov.core.show.table import Table

SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "[": "{[}",  # after the end of a row, LaTeX would read a bracket as an option
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def tables(shown: Iterable[Table]) -> str:
    """Return the LaTeX text of several tables with their notes and the number of omitted rows."""
    parts = []
    for table in shown:
        whole, left = table.in_full().short()
        words = [*(f"{what}." for what in left), *table.notes]
        parts += [_element(whole)] if whole.rows else []
        parts += [f"{text(sentence)}\n" for sentence in words]
    return "\n".join(parts)


def text(value: str) -> str:
    """Return a text in which no character has a meaning for LaTeX."""
    return "".join(SPECIAL.get(sign, sign) for sign in printable(value))


def _element(table: Table) -> str:
    """Return a table as a tabular environment, with the names on the left."""
    lines = [list(table.heads)] if any(table.heads) else []
    lines += table.texts()
    written = [f"{' & '.join(map(text, cells))} \\\\" for cells in lines]
    if any(table.heads):
        written.insert(1, r"\hline")
    columns = "l" + "r" * (len(table.heads) - 1)
    title = [rf"\caption{{{text(table.title)}}}"] if table.title else []
    return "\n".join(
        [
            r"\begin{table}",
            *title,
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            *written,
            r"\hline",
            r"\end{tabular}",
            r"\end{table}",
            "",
        ]
    )
