"""Records of a text, one character at a time: what `dpcov.rows.sources.text` must find."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Rule:
    """What a record is."""

    cells: int
    separator: bytes = b","
    quote: bytes | None = b'"'
    lines: int = 1000
    size: int = 2**22


def lines_of(text: bytes) -> list[bytes]:
    """Return physical lines with their ends."""
    return re.findall(rb"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z", text)


def record_at(text: bytes, rule: Rule) -> tuple[int, list[bytes]] | None:
    """Return the length and the cells of the first record, or None if it breaks the grammar."""
    cells, at = [], 0
    while True:
        cell = b""
        if rule.quote is not None and text[at : at + 1] == rule.quote:
            at += 1
            while True:
                if at == len(text):
                    return None
                if text[at : at + 1] != rule.quote:
                    cell += text[at : at + 1]
                    at += 1
                elif text[at + 1 : at + 2] == rule.quote:
                    cell += rule.quote
                    at += 2
                else:
                    at += 1
                    break
        else:
            while at < len(text) and text[at : at + 1] not in (rule.separator, b"\r", b"\n"):
                if text[at : at + 1] == rule.quote:
                    return None
                cell += text[at : at + 1]
                at += 1
        cells.append(cell)
        if text[at : at + 1] == rule.separator:
            at += 1
            continue
        if at == len(text):
            return at, cells
        if text[at : at + 2] == b"\r\n":
            return at + 2, cells
        return (at + 1, cells) if text[at : at + 1] in (b"\r", b"\n") else None


def rows_of(text: bytes, rule: Rule) -> list[list[bytes] | None]:
    """Return all rows; None stands for a row that is not a record."""
    lines = lines_of(text)
    starts = [sum(map(len, lines[:i])) for i in range(len(lines) + 1)]
    found = {}  # line: the line after its record, and the cells
    for i in range(len(lines)):
        record = record_at(text[starts[i] :], rule)
        if record is None or len(record[1]) != rule.cells or record[0] > rule.size:
            continue
        after = starts.index(starts[i] + record[0])
        if after - i <= rule.lines:
            found[i] = after, record[1]
    sure = [not any(i < p < after for i, (after, _) in found.items()) for p in range(len(lines))]
    rows: list[list[bytes] | None] = []
    i = 0
    while i < len(lines):
        begun = max(p for p in range(i + 1) if sure[p])
        after, cells = found.get(i, (i + 1, None))
        if after > i + 1 and after - begun > rule.lines:
            after, cells = i + 1, None
        rows.append(cells)
        i = after
    return rows
