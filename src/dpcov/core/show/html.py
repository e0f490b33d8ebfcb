"""Tables as HTML, in the style of the page.

All text is escaped, because a release file can contain any column names and levels.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from dpcov.core.printable import printable

if TYPE_CHECKING:
    from dpcov.core.show.table import Table


def tables(shown: Iterable[Table]) -> str:
    """Return several tables as HTML, with their notes and the number of omitted rows."""
    parts = []
    for table in shown:
        cut, left = table.short()
        words = [*(f"{what}." for what in left), *table.notes]
        parts += [element(cut, cut.title)] if cut.rows else []
        parts += map(paragraph, words)
    return "".join(parts)


def element(table: Table, caption: str) -> str:
    """Return a table as an HTML element. The first cell of each row is a header."""
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
    """Return a sentence as an HTML paragraph; `kind` is an optional element around the text."""
    return f"<p><{kind}>{text(words)}</{kind}></p>" if kind else f"<p>{text(words)}</p>"


def text(value: str) -> str:
    """Escape a text for HTML and replace unprintable characters by question marks."""
    return escape(printable(value))
