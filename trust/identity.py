"""Decide which cells are one id, independently of the library, with Python's exact numbers."""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from typing import Any

import numpy as np

LONGEST = 2**16
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_SURE = {np.float16: 2**11, np.float32: 2**24}


def number(cell: Any) -> tuple[Any, ...] | None:
    """Return sign, digits and exponent of the number in a cell, in lowest terms, or None."""
    if isinstance(cell, float | np.floating):
        return _number_of_float(cell)
    if isinstance(cell, np.generic):
        cell = cell.item()
    if isinstance(cell, bytes):
        cell = cell.decode(errors="replace")
    if isinstance(cell, bool):
        return None
    if isinstance(cell, str):
        text = cell.strip().replace("\N{MINUS SIGN}", "-")
        if len(cell) > LONGEST or not _NUMBER.fullmatch(text):
            return None
        cell = Decimal(text)
    if isinstance(cell, int):
        text = f"{abs(cell):x}"  # long integers have no decimal text
        cell = Decimal(int(text, 16)) * (1 if cell >= 0 else -1) if len(text) < 20 else cell
    if isinstance(cell, int):
        digits = str(abs(cell))
        return _lowest(int(cell < 0), digits, 0)
    if isinstance(cell, Decimal) and cell.is_finite():
        sign, found, exponent = cell.as_tuple()
        return _lowest(sign, "".join(map(str, found)), int(exponent))
    return None


def is_sure(cell: Any) -> bool:
    """Return False if a cell is a float too large for its type to represent all whole numbers."""
    if not isinstance(cell, float | np.floating):
        return True
    return bool(abs(float(cell)) <= _SURE.get(type(cell), 2**53))


def _number_of_float(cell: Any) -> tuple[Any, ...] | None:
    """Return the number of the shortest text that gives this float; None for wider floats."""
    narrow = cell if type(cell) in _SURE else float(cell)
    return number(Decimal(str(narrow))) if is_sure(cell) else None


def _lowest(sign: int, digits: str, exponent: int) -> tuple[Any, ...]:
    digits = digits.lstrip("0")
    kept = digits.rstrip("0")
    return (sign, kept, exponent + len(digits) - len(kept)) if kept else (0, "", 0)


def text(cell: Any) -> str:
    """Return a cell as a text; a whole float has the text of an integer."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return cell.decode(errors="replace") if isinstance(cell, bytes) else str(cell)


def identity(cell: Any, declared: str, missing: tuple[str, ...]) -> Any:
    """Return the identity of a cell as an id of the declared type; None if the cell is no id.

    For the type "text", cells with the same number count as one id here, which only skips some
    tables. For "bytes", all texts are distinct, as the library must treat them.
    """
    if not is_sure(cell) or _is_nothing(cell):
        return None
    found = number(cell)
    words = text(cell).strip()
    null = cell is None or (not isinstance(cell, str) and words in ("nan", "NaN", "NaT", "<NA>"))
    absent = null or words in missing or len(_bytes(cell)) > LONGEST
    if absent or (found is not None and found in map(number, missing)):
        return None
    if declared == "decimal":
        return found
    if declared == "integer":
        return found if found is not None and found[2] >= 0 else None
    if declared == "uuid":
        return _uuid(cell, words)
    if declared == "text":
        return found or words
    return _bytes(cell)


def _is_nothing(cell: Any) -> bool:
    """Return True if a cell is not a number (NaN), or if it has no text."""
    try:
        str(cell)
    except Exception:
        return True
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, complex) and cell != cell


def _bytes(cell: Any) -> bytes:
    return cell if isinstance(cell, bytes) else str(cell).encode(errors="replace")


def _uuid(cell: Any, words: str) -> Any:
    """Return the UUID of a cell, if Python's lenient parser and all spellings agree."""
    if isinstance(cell, bytes) and len(cell) == 16:
        return uuid.UUID(bytes=cell)
    try:
        found = uuid.UUID(words.lower())
    except ValueError:
        return None
    forms = (str(found), found.hex)
    spellings = {f"{urn}{form}" for urn in ("", "urn:uuid:") for form in forms}
    spellings |= {f"{urn}{{{form}}}" for urn in ("", "urn:uuid:") for form in forms}
    return found if words.lower() in spellings else None
