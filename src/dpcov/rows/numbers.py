"""Cells as numbers, and their comparison with declared numbers.

A declared number is a missing-value code or a number in a condition. Its text fixes its exact
decimal value. In a column of floats, dpcov rounds the declared number to the type of the column
before it compares. In every other column, dpcov compares exactly. Every function accepts any cell,
and the result for a cell depends on no other cell.
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

MAX_CELL_BYTES = 2**16  # maximum length of a text in bytes; a longer text is missing
MINUS_SIGN = "\N{MINUS SIGN}"  # some spreadsheets write this character instead of a hyphen
# Both constants together contain the characters that `str.strip` removes.
_ASCII_BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
_OTHER_BLANKS = "\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_OUTER_BLANKS = f"^[{_ASCII_BLANKS}{_OTHER_BLANKS}]+|[{_ASCII_BLANKS}{_OTHER_BLANKS}]+$"
MAX_EXACT_INTEGER = 2**53  # float64 represents every integer up to this size
MAX_EXACT_POWER = 22  # float64 represents every power of ten up to this exponent
DIGIT_RANGE = (17, 800)  # least and largest number of digits of a float64 written in full
_PLAIN_DECIMAL = r"^[+-]?[0-9]{1,300}(\.[0-9]{0,300})?([eE][+-]?[0-9]{1,3})?$"
_WHOLE_DECIMAL = r"^-?([0-9]+(\.0*)?|0E[+-]?[0-9]+)$"  # Arrow's texts of whole decimals
_FLOAT_TRUTHS = {b"true": 1.0, b"false": 0.0}  # numbers for truth values


def is_text(kind: pa.DataType) -> bool:
    """Return True if a plain type holds texts."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Return True if a plain type holds numbers."""
    return bool(
        pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    )


def trimmed(texts: pa.Array) -> pa.Array:
    """Remove outer blanks as `str.strip` does; the texts might not be valid UTF-8."""
    texts = pc.ascii_trim(texts, characters=_ASCII_BLANKS)
    return _beyond_ascii(texts, lambda t: pc.replace_substring_regex(t, _OUTER_BLANKS, ""))


def with_hyphens(texts: pa.Array) -> pa.Array:
    """Replace each Unicode minus sign by a hyphen."""
    return _beyond_ascii(texts, lambda t: pc.replace_substring(t, MINUS_SIGN, "-"))


def _beyond_ascii(texts: pa.Array, change: Callable[[pa.Array], pa.Array]) -> pa.Array:
    """Apply a function to the texts that contain characters outside ASCII."""
    others = pc.invert(pc.string_is_ascii(texts)).fill_null(False)
    if not pc.any(others, min_count=0).as_py():
        return texts
    return pc.replace_with_mask(texts, others, change(texts.filter(others)))


def number_of(text: str | bytes) -> float | None:
    """Return the nearest float64 of the number that a text represents; None for any other text."""
    if isinstance(text, bytes):
        text = text.decode(errors="replace")
    try:
        return float(pa.scalar(text.strip().replace(MINUS_SIGN, "-")).cast(pa.float64()).as_py())
    except pa.ArrowInvalid:
        return None


def exact_number(text: str) -> Decimal | None:
    """Return the exact number that a declared text represents; None for any other text.

    The number can be infinite.
    """
    try:
        number = Decimal(text.replace(MINUS_SIGN, "-"))
    except InvalidOperation:
        return None
    if number.is_nan() or number_of(text) is None:
        return None
    return number or Decimal(0)  # -0 is 0


def parsed(texts: pa.Array) -> pa.Array:
    """Parse each text as a number; a text that is not a number becomes null.

    Arrow's cast of a whole array fails if one text is not a number. The function then casts plain
    decimals together and every other text alone. The value of a cell therefore never depends on
    other cells. The texts might not be valid UTF-8.

    Parameters
    ----------
    texts : pyarrow.Array of string, length n
        Texts of the cells.

    Returns
    -------
    pyarrow.Array of float64, length n
        Numbers, or null.

    """
    texts = with_hyphens(texts)
    try:
        return texts.cast(pa.float64())
    except pa.ArrowInvalid:
        plain = pc.match_substring_regex(texts, _PLAIN_DECIMAL)
        numbers = pc.if_else(plain, texts, None).cast(pa.float64())
        others = pc.if_else(plain, None, texts).dictionary_encode()
        words = others.dictionary.cast(pa.large_binary()).to_pylist()
        found = pa.array([_FLOAT_TRUTHS.get(w.lower(), number_of(w)) for w in words], pa.float64())
        return pc.coalesce(numbers, found.take(others.indices))


@dataclass(frozen=True, slots=True, repr=False)  # a repr would print the data
class Numbers:
    """Cells of a column as numbers.

    The content is private: dpcov publishes it only with noise.

    Attributes
    ----------
    cells : pyarrow.Array, length n
        Cells in a plain type.

    floats : ndarray of float64, shape (n,)
        Nearest float64 of each cell; NaN if a cell is not a number or is excluded.

    """

    cells: pa.Array
    floats: Matrix

    @classmethod
    def of(cls, cells: pa.Array) -> Numbers:
        """Build the numbers of cells in any plain type."""
        kind = cells.type
        if pa.types.is_decimal(kind):
            return cls(cells, _of_decimals(cells))
        if is_text(kind):
            found = parsed(cells)
        elif pa.types.is_boolean(kind):
            cells = found = cells.cast(pa.uint8())
        else:
            found = cells if is_number(kind) else pa.nulls(len(cells))
        if found.type != pa.float64():
            found = found.cast(pa.float64(), safe=False)
        return cls(cells, found.to_numpy(zero_copy_only=False))

    @property
    def known(self) -> Booleans:
        """Boolean array of shape (n,): True for cells that are numbers and are not excluded."""
        return ~np.isnan(self.floats)

    def only(self, kept: Booleans) -> Numbers:
        """Exclude all cells except the `kept` ones."""
        return self if kept.all() else Numbers(self.cells, np.where(kept, self.floats, np.nan))

    def signs(self, number: Decimal) -> NDArray[np.int8]:
        """Return the sign of each cell minus a declared number.

        Rounding to float64 keeps the order of numbers. Only cells whose float64 equals the float64
        of the number are therefore compared exactly.

        Parameters
        ----------
        number : Decimal
            Declared number.

        Returns
        -------
        ndarray of int8, shape (n,)
            -1, 0 or 1; an arbitrary sign for excluded cells.

        """
        own = _rounded(number, self.cells.type)
        found = np.subtract(self.floats > own, self.floats < own, dtype=np.int8)
        ties = self.floats == own
        if ties.any() and not (self._rounds and number.is_finite() == np.isfinite(own)):
            found[ties] = self._ties(ties, number)
        return found

    @property
    def _rounds(self) -> bool:
        """True if the cells are floats, so that declared numbers are rounded to their type."""
        return bool(pa.types.is_floating(self.cells.type))

    def _ties(self, ties: Booleans, number: Decimal) -> NDArray[np.int8]:
        """Return exact signs of cells whose nearest float64 equals the float64 of the number."""
        known = self.cells.take(pa.array(np.flatnonzero(ties)))
        if self._rounds:  # the number is finite but too large for the type; the cells are infinite
            return np.full(len(known), 1 if number > 0 else -1, np.int8)
        values = known.dictionary_encode()
        words = values.dictionary
        words = words.cast(pa.large_binary()) if is_text(words.type) else words
        signs = np.array([_sign(word, number) for word in words.to_pylist()], np.int8)
        return signs[values.indices.to_numpy()]

    def among(self, numbers: Sequence[Decimal]) -> Booleans:
        """Return True for each cell that equals one of the declared numbers.

        Parameters
        ----------
        numbers : sequence of Decimal
            Declared numbers.

        Returns
        -------
        ndarray of bool, shape (n,)

        """
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
        """Return True for each cell that is a whole number, as an array of shape (n,)."""
        found: Booleans = self.floats == np.rint(self.floats)
        kind = self.cells.type
        if pa.types.is_decimal(kind) and kind.scale > 0:
            exact = pc.match_substring_regex(self.cells.cast(pa.string()), _WHOLE_DECIMAL)
            found &= exact.fill_null(False).to_numpy(zero_copy_only=False)
        return found


def _rounded(number: Decimal, kind: pa.DataType) -> float:
    """Round a number to a float type; for other types, round to float64."""
    nearest = float(number)
    if pa.types.is_floating(kind) and kind != pa.float64():
        with np.errstate(over="ignore"):
            return float(kind.to_pandas_dtype()(nearest))
    return nearest


def _sign(cell: int | Decimal | bytes, number: Decimal) -> int:
    """Return the sign of a cell minus a number with the same nearest float64."""
    if isinstance(cell, bytes):
        try:
            exact = Decimal(cell.decode().replace(MINUS_SIGN, "-"))
        except (InvalidOperation, UnicodeDecodeError):  # for example the text true, which is 1
            return 0
        if _is_written_out(cell, exact):
            return 0
        cell = exact
    return (cell > number) - (cell < number)


def _is_written_out(word: bytes, number: Decimal) -> bool:
    """Return True if a text writes a float64 with all its digits, as some programs do."""
    digits = len(number.as_tuple().digits)
    if word.strip(b"+-").isdigit() or not DIGIT_RANGE[0] <= digits <= DIGIT_RANGE[1]:
        return False
    return Decimal(f"{float(number):.{digits - 1}e}") == number


def _of_decimals(cells: pa.Array) -> Matrix:
    """Return the nearest float64 of each decimal.

    Arrow's own cast can be off by one unit in the last place. Here, a quotient of two exact float64
    numbers is rounded once. Other decimals are converted to text and parsed.
    """
    kind = cells.type
    size = kind.bit_width // 64
    end = cells.offset + len(cells)
    held = np.frombuffer(cells.buffers()[1] or b"", np.int64, end * size).reshape(end, size)
    held = held[cells.offset :]
    low = held[:, 0]
    plain = (
        (low >= -MAX_EXACT_INTEGER)
        & (low <= MAX_EXACT_INTEGER)
        & (held[:, 1:] == (low >> 63)[:, None]).all(axis=1)
    )
    plain &= abs(kind.scale) <= MAX_EXACT_POWER
    power = 10.0 ** min(abs(kind.scale), MAX_EXACT_POWER)
    found: Matrix = low / power if kind.scale >= 0 else low * power
    if not plain.all():
        others = pa.array(np.flatnonzero(~plain))
        texts = cells.take(others).cast(pa.string())
        found[~plain] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    if cells.null_count:
        found[cells.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return found
