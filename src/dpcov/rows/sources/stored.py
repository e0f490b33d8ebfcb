"""Cells as statistics programs store them: texts from bytes, dates and times from numbers.

Each cell is read by itself. A text that its encoding can't hold, and a date beyond the years 1 to
9999, is missing, and so is no other cell.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from dpcov.rows.dates import DAY, FIRST, LAST

TIME = pa.timestamp("us")
BROKEN = "{} is not a complete {} file (cut off, damaged, or of another format). Nothing was spent."


def texts_from(cells: Iterable[bytes | None], encodings: Sequence[str]) -> pa.Array:
    """Return the text of each cell in the first encoding that can hold it; null without one."""
    return pa.array([_text(cell, encodings) for cell in cells], pa.large_string())


def _text(cell: bytes | None, encodings: Sequence[str]) -> str | None:
    if cell is None:
        return None
    for encoding in encodings:
        with suppress(UnicodeError):
            text = cell.decode(encoding)
            text.encode()  # some encodings have halves of characters, which UTF-8 can't hold
            return text
    return None


def moments_from(numbers: Any, unit: int, origin: date, kind: pa.DataType) -> pa.Array:
    """Return the dates or times that are `numbers` of `unit` microseconds after `origin`."""
    start = (origin - date(1970, 1, 1)).days * DAY
    with np.errstate(all="ignore"):
        moments = np.rint(np.array(numbers, np.float64) * unit) + start
    held = (moments >= FIRST) & (moments <= LAST)
    moments = np.where(held, moments, 0).astype(np.int64)
    if kind == TIME:
        return pa.array(moments, kind, mask=~held)
    return pa.array((moments // DAY).astype(np.int32), kind, mask=~held)


def is_encoding(name: str) -> bool:
    """Return whether Python reads texts in this encoding."""
    try:
        b"x".decode(name)
    except LookupError:
        return False
    except UnicodeError:  # half a character
        return True
    return True
