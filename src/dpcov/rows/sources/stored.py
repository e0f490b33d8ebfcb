"""Cells as statistics programs store them: texts from bytes, dates and times from numbers.

Each cell is converted on its own. A text that its encoding cannot represent is missing. A date
beyond the years 1 to 9999 is missing too. No other cell changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa

from dpcov.rows.dates import DAY, FIRST_MOMENT, LAST_MOMENT

TIME_TYPE = pa.timestamp("us")
INCOMPLETE_FILE_MESSAGE = "{} is not a complete {} file. Check the file. Nothing was spent."


def texts_from(cells: Iterable[bytes | None], encodings: Sequence[str]) -> pa.Array:
    """Return the text of each cell in the first encoding that fits; null if none does.

    Parameters
    ----------
    cells : iterable of bytes or None, length n
        Stored texts.
    encodings : sequence of str
        Encodings to try in order.

    Returns
    -------
    pyarrow.Array of large_string, length n

    """
    return pa.array([_text(cell, encodings) for cell in cells], pa.large_string())


def _text(cell: bytes | None, encodings: Sequence[str]) -> str | None:
    """Decode one text; return None if no encoding fits."""
    if cell is None:
        return None
    for encoding in encodings:
        with suppress(UnicodeError):
            text = cell.decode(encoding)
            text.encode()  # fails for half characters, which UTF-8 cannot represent
            return text
    return None


def moments_from(numbers: Any, unit: int, origin: date, kind: pa.DataType) -> pa.Array:
    """Convert stored numbers to dates or times.

    Parameters
    ----------
    numbers : array_like of float, shape (n,)
        Stored numbers.

    unit : int
        Microseconds per unit.

    origin : date
        Date of the number 0.

    kind : pyarrow.DataType
        Type of the result: date32 or timestamp.

    Returns
    -------
    pyarrow.Array, length n
        Dates or times; null beyond the years 1 to 9999.

    """
    start = (origin - date(1970, 1, 1)).days * DAY
    with np.errstate(all="ignore"):
        moments = np.rint(np.array(numbers, np.float64) * unit) + start
    held = (moments >= FIRST_MOMENT) & (moments <= LAST_MOMENT)
    moments = np.where(held, moments, 0).astype(np.int64)
    if kind == TIME_TYPE:
        return pa.array(moments, kind, mask=~held)
    return pa.array((moments // DAY).astype(np.int32), kind, mask=~held)


def is_encoding(name: str) -> bool:
    """Return True if Python can decode texts in this encoding."""
    try:
        b"x".decode(name)
    except LookupError:
        return False
    except UnicodeError:  # the byte is half a character
        return True
    return True
