"""Texts from elsewhere on a screen or a page: no character acts there, and no password shows."""

from __future__ import annotations

import os
import re

# A path keeps one slash of a link's two. Schemes have a bound, or long texts would take hours.
LINK = re.compile(r"(?i)[a-z][a-z0-9+.-]{1,30}:/\S*")
PASSWORD = re.compile(r"(?i)(password\s*=\s*)('[^']*'|\S+)")

LONGEST_NAME = 26  # letters of a name in a picture
FORMULA = "=+-@\t\r\n"  # a spreadsheet may compute a cell that begins so


def printable(text: str, kept: str = "") -> str:
    """The text with a question mark for each character that is neither printable nor `kept`."""
    return "".join(c if c.isprintable() or c in kept else "?" for c in text)


def shortened(name: str, longest: int = LONGEST_NAME) -> str:
    """A name fit for a picture: printable, and cut in the middle where it is long."""
    text = printable(name)
    if len(text) <= longest:
        return text
    return f"{text[: longest * 2 // 3 - 1]}…{text[-longest // 3 :]}"


def harmless(text: str) -> str:
    """The text of a cell of CSV, with an apostrophe before what a spreadsheet would compute."""
    return f"'{text}" if text.startswith(tuple(FORMULA)) else text


def hidden(text: str) -> str:
    """A text without links, and without anything that looks like a password."""
    return PASSWORD.sub(r"\1(hidden)", LINK.sub("(link)", text))


def shown(path: str | bytes | os.PathLike[str]) -> str:
    """A path for a message, up to where a link begins: it may hold a password, spaces and all."""
    text = os.fsdecode(path)
    found = LINK.search(text)
    return printable(hidden(text if found is None else f"{text[: found.start()]}(link)"))
