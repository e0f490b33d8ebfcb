"""Python's objects as cells: each becomes a text by itself, which is then read as any other."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from dpcov.rows.cells import LONGEST_CELL
from dpcov.rows.schema import level_text

_MARKS = ("<NA>", "NaT", "NaN", "nan")  # how what is missing spells itself


def texts_of(objects: Iterable[object], *, ids: bool = False) -> pa.Array:
    """The text of each object, as large_string; null where it is missing, or has none."""
    spelt = _spelt_as_id if ids else _spelt
    return pa.array((_text(cell, spelt) for cell in objects), pa.large_string())


def _text(cell: object, spelt: Callable[[object], str | None]) -> str | None:
    try:
        text = spelt(cell)
        # A lone surrogate can't be written; too long a text is missing, however it came.
        found = b"" if text is None else text.encode(errors="replace")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # panics of compiled libraries too: the cell has no text
        return None
    return None if text is None or len(found) > LONGEST_CELL else found.decode()


def _spelt(cell: object) -> str | None:
    """As the same value is spelt in a text file; whole floats as integers are."""
    if isinstance(cell, bytes):
        return cell.decode(errors="replace")
    if cell is None or isinstance(cell, str):
        return cell
    if cell is np.ma.masked:
        return None
    if isinstance(cell, np.floating):
        cell = cell.item()
    text = level_text(cell) if isinstance(cell, float) else str(cell)
    return None if text in _MARKS else text


def _spelt_as_id(cell: object) -> str | None:
    """As in a column of its own type: a float by the shortest, if it stands for one number."""
    if isinstance(cell, np.ndarray):
        cell = cell[()]  # of no dimension, a number
    if not isinstance(cell, float | np.floating):
        return _spelt(cell)
    if isinstance(cell, np.longdouble):
        cell = float(cell)  # as a whole array of them is read
    bits = np.finfo(cell.dtype).nmant + 1 if isinstance(cell, np.floating) else 53
    sure = np.abs(cell) <= 2.0**bits
    return _spelt(float(cell if isinstance(cell, float) else str(cell))) if sure else None
