"""Cells as numbers, and how they compare with declared numbers: in the type of their column.

A declared number (a missing code, a number in a condition) is the decimal that its text spells. A
column of floats compares it after it was rounded to the type of the column; every other column
compares it exactly. Every function is total, and what it says of a cell depends on that cell alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Matrix

MINUS = "\N{MINUS SIGN}"  # as typesetters and some spreadsheets write it
_ASCII_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f "  # with the others, what `str.strip` strips
_OTHER_BLANKS = "\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_OUTER = f"^[{_ASCII_BLANKS}{_OTHER_BLANKS}]+|[{_ASCII_BLANKS}{_OTHER_BLANKS}]+$"
EXACT = 2**53  # up to which float64 holds every integer
EXACT_POWERS = 22  # powers of ten that float64 holds
WRITTEN_OUT = (17, 800)  # digits with which float64 can be written out in full
_PLAIN_DECIMAL = r"^[+-]?[0-9]{1,300}(\.[0-9]{0,300})?([eE][+-]?[0-9]{1,3})?$"
_WHOLE = r"^-?([0-9]+(\.0*)?|0E[+-]?[0-9]+)$"  # as Arrow spells whole decimals
_TRUTHS = {b"true": 1.0, b"false": 0.0}  # as columns of truth values are read


def is_text(kind: pa.DataType) -> bool:
    """Return True if a plain type holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return True if a plain type holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def trimmed(texts: pa.Array) -> pa.Array:
    """Return the texts without outer blanks, as `str.strip` does; they may be no valid UTF-8."""
    texts = pc.ascii_trim(texts, characters=_ASCII_BLANKS)
    return _beyond_ascii(texts, lambda t: pc.replace_substring_regex(t, _OUTER, ""))


def with_hyphens(texts: pa.Array) -> pa.Array:
    """Return the texts with a hyphen for each minus sign, as numbers are mostly written."""
    return _beyond_ascii(texts, lambda t: pc.replace_substring(t, MINUS, "-"))


def _beyond_ascii(texts: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Change the texts that hold other characters than those of ASCII: few, as a rule."""
    others = pc.invert(pc.string_is_ascii(texts)).fill_null(False)
    if not pc.any(others, min_count=0).as_py():
        return texts
    return pc.replace_with_mask(texts, others, change(texts.filter(others)))


def number_of(text: str | bytes) -> float | None:
    """Return the nearest float64 of the number that a text spells; None if it spells none."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        return float(pa.scalar(text.strip().replace(MINUS, "-")).cast(pa.float64()).as_py())
    except pa.ArrowInvalid:
        return None


def exact_number(text: str) -> Decimal | None:
    """Return the number that a declared text spells, infinite ones too; None if it spells none."""
    try:
        number = Decimal(text.replace(MINUS, "-"))
    except InvalidOperation:
        return None
    if number.is_nan() or number_of(text) is None:
        return None
    return number or Decimal(0)  # -0 is 0


def parsed(texts: pa.Array) -> pa.Array:
    """Parse each text on its own; a text that is no number becomes null.

    The bulk cast takes all texts or none. Where it refuses, plain decimals, which it is sure to
    take, go in bulk and every other text is tried alone: a cell's value never depends on other
    cells. Texts from a file may be no valid UTF-8.
    """
    texts = with_hyphens(texts)
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(texts, _PLAIN_DECIMAL)
        numbers = pc.if_else(plain, texts, None).cast(pa.float64())
        others = pc.if_else(plain, None, texts).dictionary_encode()
        words = others.dictionary.cast(pa.large_binary()).to_pylist()
        found = pa.array([_TRUTHS.get(w.lower(), number_of(w)) for w in words], pa.float64())
        return pc.coalesce(numbers, found.take(others.indices))


@dataclass(frozen=True, slots=True, repr=False)  # its repr would print the data
class Numbers:
    """The cells of a column as numbers. SENSITIVE.

    Attributes
    ----------
    cells : as they came, in a plain type.
    floats : (n,) nearest float64 of each; NaN where a cell is no number, or is left out.

    """

    cells: pa.Array
    floats: Matrix

    @classmethod
    def of(cls, cells: pa.Array) -> Numbers:
        """Read cells of any plain type."""
        kind = cells.type
        if pa.types.is_decimal(kind):
            return cls(cells, _of_decimals(cells))
        if is_text(kind):
            found = parsed(cells)
        elif pa.types.is_boolean(kind):
            cells = found = cells.cast(pa.uint8())
        else:
            found = cells if is_number(kind) else pa.nulls(len(cells))
        return cls(cells, found.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))

    @property
    def known(self) -> Booleans:
        """Return True for cells that are numbers and are not left out."""
        return ~np.isnan(self.floats)

    def only(self, kept: Booleans) -> Numbers:
        """Leave all other cells out."""
        return self if kept.all() else Numbers(self.cells, np.where(kept, self.floats, np.nan))

    def signs(self, number: Decimal) -> NDArray[np.int8]:
        """Return the sign of each cell minus a declared number; for cells left out, any sign.

        Rounding to float64 keeps the order, so that only cells that tie there are compared exactly.
        """
        own = _rounded(number, self.cells.type)
        found = np.subtract(self.floats > own, self.floats < own, dtype=np.int8)
        ties = self.floats == own
        if ties.any() and not (self._rounds and number.is_finite() == np.isfinite(own)):
            found[ties] = self._ties(ties, number)
        return found

    @property
    def _rounds(self) -> bool:
        """Return True if a declared number is rounded to the type of the cells."""
        return bool(pa.types.is_floating(self.cells.type))

    def _ties(self, ties: Booleans, number: Decimal) -> NDArray[np.int8]:
        """Return exact signs of cells whose nearest float64 is that of the number."""
        known = self.cells.take(pa.array(np.flatnonzero(ties)))
        if self._rounds:  # a finite number beyond the type, and infinite cells
            return np.full(len(known), 1 if number > 0 else -1, np.int8)
        values = known.dictionary_encode()
        words = values.dictionary
        words = words.cast(pa.large_binary()) if is_text(words.type) else words
        told = np.array([_sign(word, number) for word in words.to_pylist()], np.int8)
        return told[values.indices.to_numpy()]

    def among(self, numbers: Sequence[Decimal]) -> Booleans:
        """Return True for cells that are one of the declared numbers."""
        own = {number: _rounded(number, self.cells.type) for number in numbers}
        if self._rounds:
            own = {one: near for one, near in own.items() if one.is_finite() == np.isfinite(near)}
        found: Booleans = np.isin(self.floats, [*own.values()])
        at = np.flatnonzero(found)
        if len(at) and not self._rounds:
            near = Numbers(self.cells.take(pa.array(at)), self.floats[at])
            found[at] = np.any([near.signs(number) == 0 for number in numbers], axis=0)
        return found

    def whole(self) -> Booleans:
        """Return True for cells that are whole numbers."""
        found: Booleans = self.floats == np.rint(self.floats)
        kind = self.cells.type
        if pa.types.is_decimal(kind) and kind.scale > 0:
            exact = pc.match_substring_regex(self.cells.cast(pa.string()), _WHOLE)
            found &= exact.fill_null(False).to_numpy(zero_copy_only=False)
        return found


def _rounded(number: Decimal, kind: pa.DataType) -> float:
    """Return the nearest float of a type of floats; for other types, the nearest float64."""
    nearest = float(number)
    if pa.types.is_floating(kind) and kind != pa.float64():
        with np.errstate(over="ignore"):
            return float(kind.to_pandas_dtype()(nearest))
    return nearest


def _sign(cell: int | Decimal | bytes, number: Decimal) -> int:
    """Return the sign of a cell minus a number that has the same nearest float64."""
    if isinstance(cell, bytes):
        try:
            exact = Decimal(cell.decode().replace(MINUS, "-"))
        except (InvalidOperation, UnicodeDecodeError):  # such as the text true, which is 1
            return 0
        if _is_written_out(cell, exact):
            return 0
        cell = exact
    return (cell > number) - (cell < number)


def _is_written_out(word: bytes, number: Decimal) -> bool:
    """Return True if a text writes a float64 out in full, as some programs write all numbers."""
    digits = len(number.as_tuple().digits)
    if word.strip(b"+-").isdigit() or not WRITTEN_OUT[0] <= digits <= WRITTEN_OUT[1]:
        return False
    return Decimal(f"{float(number):.{digits - 1}e}") == number


def _of_decimals(cells: pa.Array) -> Matrix:
    """Return the nearest float64 of decimals; Arrow's cast is off by a unit of the last place.

    A quotient of two numbers that float64 holds is rounded once. Other decimals go through their
    texts, of which the nearest float64 is parsed.
    """
    kind = cells.type
    size = kind.bit_width // 64
    end = cells.offset + len(cells)
    held = np.frombuffer(cells.buffers()[1] or b"", np.int64, end * size).reshape(end, size)
    held = held[cells.offset :]
    low = held[:, 0]
    plain = (low >= -EXACT) & (low <= EXACT) & (held[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    plain &= abs(kind.scale) <= EXACT_POWERS
    power = 10.0 ** min(abs(kind.scale), EXACT_POWERS)
    found: Matrix = low / power if kind.scale >= 0 else low * power
    if not plain.all():
        others = pa.array(np.flatnonzero(~plain))
        texts = cells.take(others).cast(pa.string())
        found[~plain] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if cells.null_count:
        found[cells.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found
