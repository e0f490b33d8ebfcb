"""How schemas, plans, releases and results look in a notebook: each draws itself by a `table`.

Plain tables that take the notebook's own style; all text is escaped, since names of columns and
levels may come from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from dpcov.printable import printable

MOST_ROWS = 30
MOST_COLUMNS = 12


def table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "", *, more: int = 0
) -> str:
    """An HTML table; the first cell of each row is its head."""
    parts = ["<table>"]
    if caption:
        parts.append(f"<caption>{text(caption)}</caption>")
    if heads:
        cells = "".join(f'<th scope="col">{text(head)}</th>' for head in heads)
        parts.append(f"<thead><tr>{cells}</tr></thead>")
    parts.append("<tbody>")
    for first, *others in rows:
        cells = "".join(f"<td>{text(cell)}</td>" for cell in others)
        parts.append(f'<tr><th scope="row">{text(first)}</th>{cells}</tr>')
    parts.append("</tbody></table>")
    return "".join(parts) + (f"<p>{more} more.</p>" if more > 0 else "")


def text(value: object) -> str:
    """Escaped text; a number in five digits, what is not printable as a question mark."""
    shown = f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)
    return escape(printable(shown))


def declared_columns(columns: Mapping[str, Any], facts: str) -> str:
    """The columns of a schema, and what else it declares."""
    rows = []
    for name, column in columns.items():
        if column.kind == "numeric":
            holds = f"{column.lower:g} to {column.upper:g}"
        elif column.kind == "categorical":
            labels = column.labels
            holds = ", ".join(labels[:MOST_COLUMNS])
            holds += f" and {len(labels) - MOST_COLUMNS} more" * (len(labels) > MOST_COLUMNS)
        else:
            holds = ""
        rows.append((name, column.kind, holds))
    heads = ("column", "kind", "holds")
    return table(heads, rows[:MOST_ROWS], f"Schema: {facts}", more=len(rows) - MOST_ROWS)
