"""Tables as HTML in the style of the surrounding page.

The functions escape all text, because anybody can choose the names of columns and categories.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING

from dpcov.core.printable import printable

if TYPE_CHECKING:
    from dpcov.core.show.table import Table


def tables(shown: Iterable[Table]) -> str:
    """Return the HTML of several tables with their notes and the number of omitted rows."""
    parts = []
    for table in shown:
        cut, left = table.short()
        words = [*(f"{what}." for what in left), *table.notes]
        parts += [element(cut, cut.title)] if cut.rows else []
        parts += map(paragraph, words)
    return "".join(parts)


def element(table: Table, caption: str) -> str:
    """Return the HTML table element of a table with all its rows.

    Each cell has the head of its column in ``data-label``, for pages that show rows as cards.

    Parameters
    ----------
    table : Table
        Table with names in the first column.
    caption : str
        Caption, or an empty text for no caption.

    Returns
    -------
    str
        HTML text.

    """
    heads = table.heads if any(table.heads) else ()
    head = "".join(f'<th scope="col">{text(word)}</th>' for word in heads)
    labels = [f' data-label="{text(word)}"' if word else "" for word in heads[1:]]
    labels = labels or [""] * (len(table.heads) - 1)
    rows = "".join(
        f'<tr><th scope="row">{text(name)}</th>'
        + "".join(f"<td{at}>{text(cell)}</td>" for at, cell in zip(labels, cells, strict=True))
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
    """Return the HTML paragraph of a sentence.

    Parameters
    ----------
    words : str
        Sentence.
    kind : str, optional
        HTML element around the sentence, such as ``"strong"``.

    Returns
    -------
    str
        HTML text.

    """
    return f"<p><{kind}>{text(words)}</{kind}></p>" if kind else f"<p>{text(words)}</p>"


def text(value: str) -> str:
    """Return an HTML-escaped text with a question mark for each unprintable character."""
    return escape(printable(value))
