"""Python's objects as cells: each becomes a text by itself, which is then read as any other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from dpcov.cells import LONGEST_CELL
from dpcov.schema import level_text

_MARKS = ("<NA>", "NaT", "NaN", "nan")  # how what is missing spells itself


def texts_of(objects: Iterable[object]) -> pa.Array:
    """The text of each object, as large_string; null where it is missing, or has none."""
    return pa.array(map(_text, objects), pa.large_string())


def _text(cell: object) -> str | None:
    try:
        text = _spelt(cell)
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
    if isinstance(cell, np.floating):
        cell = cell.item()
    text = level_text(cell) if isinstance(cell, float) else str(cell)
    return None if text in _MARKS else text
