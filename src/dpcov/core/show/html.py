"""Tables as HTML that takes the style of its page.

All text is escaped, since names of columns and levels may come from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from dpcov.core.printable import printable

if TYPE_CHECKING:
    from dpcov.core.show.table import Table


def tables(shown: Iterable[Table]) -> str:
    """Tables below each other, each with its notes and how much of it is left out."""
    parts = []
    for table in shown:
        cut, left = table.short()
        words = [*(f"{what}." for what in left), *table.notes]
        parts += [element(cut, cut.title)] if cut.rows else []
        parts += map(paragraph, words)
    return "".join(parts)


def element(table: Table, caption: str) -> str:
    """A table element with all rows; the first cell of each is its head."""
    heads = table.heads if any(table.heads) else ()
    head = "".join(f'<th scope="col">{text(word)}</th>' for word in heads)
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th>'
        + "".join(f"<td>{text(cell)}</td>" for cell in cells)
        + "</tr>"
        for name, *cells in table.texts()
    )
    return (
        "<table>"
        + (f"<caption>{text(caption)}</caption>" if caption else "")
        + (f"<thead><tr>{head}</tr></thead>" if head else "")
        + f"<tbody>{rows}</tbody></table>"
    )


def paragraph(words: str, kind: str = "") -> str:
    """A sentence by itself; `kind` is an element around it."""
    return f"<p><{kind}>{text(words)}</{kind}></p>" if kind else f"<p>{text(words)}</p>"


def text(value: str) -> str:
    """Escaped text; what is not printable becomes a question mark."""
    return escape(printable(value))
