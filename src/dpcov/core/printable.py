"""Safe texts for screens and pages: no control characters, no formulas and no passwords."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Link in a text. One slash is enough, because a path shortens two slashes to one. The length of
# the scheme has a limit, because the search in a long text would take hours otherwise.
LINK_PATTERN = re.compile(r"(?i)[a-z][a-z0-9+.-]{1,30}:/\S*")
PASSWORD_PATTERN = re.compile(r"(?i)(password\s*=\s*)('[^']*'|\S+)")

# Largest number of characters of a name in a picture.
MAX_PICTURE_NAME_CHARACTERS = 26
# Usual number of names in a sentence that lists only the first ones.
MAX_SHORT_LIST = 5
# First characters of a cell that a spreadsheet might compute as a formula.
FORMULA_STARTS = "=+-@\t\r\n"


def printable(text: str, kept: str = "") -> str:
    """Replace each unprintable character by a question mark.

    Parameters
    ----------
    text : str
        Text from an unknown source.
    kept : str, optional
        Unprintable characters that stay.

    Returns
    -------
    str
        Printable text of the same length.

    """
    return "".join(c if c.isprintable() or c in kept else "?" for c in text)


def listed(names: Sequence[str], most: int = MAX_SHORT_LIST) -> str:
    """Return the first names of a list as a text, and how many more there are.

    Parameters
    ----------
    names : sequence of str
        Names.
    most : int
        Largest number of names in the text.

    Returns
    -------
    str
        Text such as ``age, bmi and 3 more``.

    """
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def shortened(name: str, longest: int = MAX_PICTURE_NAME_CHARACTERS) -> str:
    """Return a printable name for a picture, with the middle of a long name cut out.

    Parameters
    ----------
    name : str
        Name of a column or category.
    longest : int
        Largest number of characters.

    Returns
    -------
    str
        Name of at most `longest` characters.

    """
    text = printable(name)
    if len(text) <= longest:
        return text
    return f"{text[: longest * 2 // 3 - 1]}…{text[-longest // 3 :]}"


def harmless(text: str) -> str:
    """Return the text of a CSV cell, with an apostrophe before a spreadsheet formula."""
    return f"'{text}" if text.startswith(tuple(FORMULA_STARTS)) else text


def hidden(text: str) -> str:
    """Remove links and passwords from a text."""
    return PASSWORD_PATTERN.sub(r"\1(hidden)", LINK_PATTERN.sub("(link)", text))


def shown(path: str | bytes | os.PathLike[str]) -> str:
    """Return a path for a message, cut at the first link.

    A link can contain a password, even with spaces.

    Parameters
    ----------
    path : str, bytes or os.PathLike
        Path, or a link that the caller gave as a path.

    Returns
    -------
    str
        Printable text.

    """
    text = os.fsdecode(path)
    found = LINK_PATTERN.search(text)
    return printable(hidden(text if found is None else f"{text[: found.start()]}(link)"))
