"""Texts from elsewhere on a screen or a page: no character acts there, and no password shows."""

from __future__ import annotations

import os
import re

LINK = re.compile(r"[a-z][a-z0-9+.-]*:/", re.IGNORECASE)  # a path keeps one slash of a link's two

FORMULA = "=+-@\t\r\n"  # a spreadsheet may compute a cell that begins so


def printable(text: str, kept: str = "") -> str:
    """The text with a question mark for each character that is neither printable nor `kept`."""
    return "".join(c if c.isprintable() or c in kept else "?" for c in text)


def harmless(text: str) -> str:
    """The text of a cell of CSV, with an apostrophe before what a spreadsheet would compute."""
    return f"'{text}" if text.startswith(tuple(FORMULA)) else text


def hidden(text: str) -> str:
    """A text without links, and without anything that looks like a password."""
    text = re.sub(r"(?i)\b[a-z][a-z0-9+.-]*:/\S*", "(link)", text)
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|\S+)", r"\1(hidden)", text)


def shown(path: str | os.PathLike[str]) -> str:
    """A path for a message; one that is a link, which may hold a password, is not told."""
    text = os.fspath(path)
    return "(link)" if LINK.match(text) else printable(hidden(text))
