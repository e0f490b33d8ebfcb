"""Python objects as cells: each object becomes a text, which dpcov reads like any text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.core.arrays import AnyArray
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import level_text

Spelling = Callable[[object], str | None]

_MISSING_TEXTS = ("<NA>", "NaT", "NaN", "nan")  # Texts of missing objects.


def texts_of(objects: Iterable[object], *, ids: bool = False) -> pa.Array:
    """Return the text of each object; null for a missing object or an object without a text.

    Objects of common types are converted together, with the same result as one by one.

    Parameters
    ----------
    objects : iterable of object, length n
        Cells.
    ids : bool
        True for ids: a float that represents several integers becomes null.

    Returns
    -------
    pyarrow.Array of large_string, length n

    """
    spelt = _spelt_as_id if ids else _spelt
    cells = np.fromiter(objects, object)
    kinds = np.fromiter(map(id, map(type, cells)), np.uintp, len(cells))  # a type can forbid ==
    others, places, texts = np.ones(len(cells), bool), [], []
    for kind, together in _READERS_BY_TYPE.items():
        here = kinds == id(kind)
        if here.all():
            return together(cells, spelt)
        if here.any():
            others &= ~here
            places.append(np.flatnonzero(here))
            texts.append(together(cells[here], spelt))
    places.append(np.flatnonzero(others))
    texts.append(_one_by_one(cells[others], spelt))
    order = np.empty(len(cells), np.int64)
    order[np.concatenate(places)] = np.arange(len(cells))
    return pa.concat_arrays(texts).take(pa.array(order))


def _one_by_one(cells: AnyArray, spelt: Spelling) -> pa.Array:
    """Convert objects to texts one by one."""
    return pa.array([_text(cell, spelt) for cell in cells], pa.large_string())


def _words(cells: AnyArray, spelt: Spelling) -> pa.Array:
    """Convert str objects to texts."""
    try:
        texts = pa.array(cells, pa.large_string())
    except UnicodeEncodeError:
        return _one_by_one(cells, spelt)
    return pc.if_else(pc.greater(pc.binary_length(texts), MAX_CELL_BYTES), None, texts)


def _whole(cells: AnyArray, spelt: Spelling) -> pa.Array:
    """Convert int objects to texts."""
    try:
        return pa.array(cells, pa.int64()).cast(pa.large_string())
    except (OverflowError, pa.ArrowException):
        return _one_by_one(cells, spelt)


def _floats(cells: AnyArray, spelt: Spelling) -> pa.Array:
    """Convert float objects to texts; Arrow's texts are used if they equal Python's."""
    values = cells.astype(np.float64) + 0.0  # converts -0.0 to 0
    texts = pa.array(values, from_pandas=True).cast(pa.large_string())
    sizes = np.abs(values)
    alike = (sizes >= 1e-4) & (sizes < 1e10) | (sizes == 0) | np.isnan(values)
    if alike.all():
        return texts
    return pc.replace_with_mask(texts, ~alike, _one_by_one(cells[~alike], spelt))


def _truths(cells: AnyArray, _: Spelling) -> pa.Array:
    """Convert truth values to texts."""
    return pa.array(np.where(cells.astype(bool), "True", "False"), pa.large_string())


def _nothing(cells: AnyArray, _: Spelling) -> pa.Array:
    """Return null for each object."""
    return pa.nulls(len(cells), pa.large_string())


_READERS_BY_TYPE: dict[type, Callable[[AnyArray, Spelling], pa.Array]] = {
    str: _words,
    np.str_: _words,
    int: _whole,
    np.int64: _whole,
    float: _floats,
    np.float64: _floats,
    bool: _truths,
    type(None): _nothing,
}


def _text(cell: object, spelt: Spelling) -> str | None:
    """Return the text of an object; None if it is missing, too long, or raises an error."""
    try:
        text = spelt(cell)
        if text is None:
            return None
        # UTF-8 cannot represent a lone surrogate. A text that is too long is missing. A subclass of
        # str can redefine encode, so the method of str is called.
        found = str.encode(text, errors="replace")
        return found.decode() if len(found) <= MAX_CELL_BYTES else None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # includes panics of compiled libraries
        return None


def _spelt(cell: object) -> str | None:
    """Return an object as a text file would spell it; whole floats are spelt like integers."""
    if isinstance(cell, bytes):
        return bytes.decode(cell, errors="replace")
    if cell is None or isinstance(cell, str):
        return cell
    if cell is np.ma.masked or _is_nan(cell):
        return None
    if isinstance(cell, np.floating) and not isinstance(cell, np.longdouble):
        cell = float(str(cell))  # the shortest text that represents the value in its own type
    text = level_text(cell) if isinstance(cell, float) else str(cell)
    return None if text in _MISSING_TEXTS else text


def _is_nan(cell: object) -> bool:
    """Return True if a Decimal or complex number is NaN."""
    if isinstance(cell, Decimal):
        return cell.is_nan()
    return isinstance(cell, complex | np.complexfloating) and bool(cell != cell)


def _spelt_as_id(cell: object) -> str | None:
    """Return an object as an id; None for a float that represents several integers."""
    if isinstance(cell, np.ndarray):
        cell = cell[()]  # an array without dimensions is a number
    if not isinstance(cell, float | np.floating):
        return _spelt(cell)
    if isinstance(cell, np.longdouble):
        cell = float(cell)  # as for a whole array
    bits = np.finfo(cell.dtype).nmant + 1 if isinstance(cell, np.floating) else 53
    sure = np.abs(cell) <= 2.0**bits
    return _spelt(float(cell if isinstance(cell, float) else str(cell))) if sure else None
