"""Cells of a column: conversion to numbers, dates and categories.

Every function accepts any cell of any type, and the result for a cell depends on no other cell. All
data sources use these rules. For example, the cells 1, 1.0, true, " 1" and "1.0" are the same
number. Functions also accept a NumPy array of values that are converted already, and return the
array unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.rows.dates import (
    DAY,
    FIRST_MOMENT,
    LAST_MOMENT,
    MAX_OFFSET_HOURS,
    PATTERN,
    SECOND,
    moment_of,
)
from dpcov.rows.numbers import (
    MAX_CELL_BYTES,
    MAX_EXACT_INTEGER,
    Numbers,
    exact_number,
    is_number,
    is_text,
    parsed,
    trimmed,
    with_hyphens,
)
from dpcov.rows.schema import Categorical, Numeric, level_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Integers, Matrix
    from dpcov.rows.schema import Reading

BATCH_CELLS = 2**22  # maximum number of cells in a batch: 32 MiB of float64

# Usual spelling of a number. Codes such as 01 or 1E0 do not match.
_PLAIN_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
MAX_DECIMAL_DIGITS = 76  # precision of Arrow's widest decimal type, in digits
MAX_DECIMAL_PLACES = (
    200  # maximum number of decimal places; Arrow aborts the process at very large numbers
)
_DECIMAL_TRUTHS = {"true": Decimal(1), "false": Decimal(0)}


def cells(values: pa.Array, missing: tuple[str, ...]) -> pa.Array:
    """Return the cells of a column in a plain type, with missing texts as null.

    Texts lose outer blanks. A text longer than `MAX_CELL_BYTES` bytes is missing.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells in any Arrow type.
    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    pyarrow.Array, length n
        Cells without dictionary, run-end or view encoding.

    """
    values = plain(values)
    if not is_text(values.type):
        return values
    absent = pc.greater(pc.binary_length(values), MAX_CELL_BYTES)
    values = trimmed(values)
    absent = pc.or_(absent, pc.is_in(values, pa.array(missing, values.type)))
    return pc.if_else(absent, None, values)


def is_missing(values: pa.Array, missing: tuple[str, ...]) -> Booleans:
    """Return True for each cell that is null, NaN, or a number declared as missing.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Result of `cells`.
    missing : tuple of str
        Texts that mean a missing value; numbers among them apply to numeric columns too.

    Returns
    -------
    ndarray of bool, shape (n,)

    """
    null: Booleans = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    codes = _missing_codes(missing, pa.types.is_boolean(values.type))
    return null | Numbers.of(values).among(codes) if codes else null


def distinct(values: pa.Array) -> tuple[pa.Array, NDArray[np.integer[Any]]] | None:
    """Split a dictionary-encoded column into its values and the index of each cell.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells in any Arrow type.

    Returns
    -------
    tuple of (pyarrow.Array, ndarray of int of shape (n,)) or None
        Values, and the index of each cell among the values (-1 for null). If the dictionary is
        longer than the column, only values that occur are returned. The result is None if the
        column has no dictionary, view or run-end encoding.

    """
    values = as_dictionary(values)
    if not pa.types.is_dictionary(values.type):
        return None
    indices = values.indices
    if indices.null_count:
        indices = indices.cast(pa.int64()).fill_null(-1)
    indices = indices.to_numpy(zero_copy_only=False)
    if len(values.dictionary) <= len(values):
        return plain(values.dictionary), indices
    used = np.zeros(len(values.dictionary) + 1, bool)
    used[indices] = True
    used[-1] = False
    places = np.append(np.cumsum(used[:-1]) - 1, -1)
    return plain(values.dictionary).take(pa.array(np.flatnonzero(used))), places[indices]


def as_dictionary(values: pa.Array) -> pa.Array:
    """Convert view-encoded and run-end-encoded cells to a dictionary.

    Cells in any other encoding are returned unchanged.
    """
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return as_dictionary(values.storage)
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return values.dictionary_encode()
    if pa.types.is_run_end_encoded(kind):
        return pa.DictionaryArray.from_arrays(_runs(values), plain(values.values))
    return values


def plain(values: pa.Array) -> pa.Array:
    """Decode dictionaries, runs, views and extension types to a plain Arrow type."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return plain(values.storage)
    if pa.types.is_dictionary(kind):
        return plain(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        return plain(values.values).take(_runs(values))
    if pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    if pa.types.is_decimal(kind) and kind.bit_width < 128:
        return values.cast(pa.decimal128(38, kind.scale))
    return values.cast(pa.large_binary()) if pa.types.is_binary_view(kind) else values


def _runs(values: pa.RunEndEncodedArray) -> pa.Array:
    """Return the index of each cell among the values of a run-end-encoded array."""
    numbered = pa.array(np.arange(len(values.values)))
    whole = pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(values.run_ends, numbered))
    return whole.slice(values.offset, len(values))


def numbers_of(values: pa.Array | Matrix, missing: tuple[str, ...]) -> Matrix:
    """Convert the cells of a column to numbers.

    Parameters
    ----------
    values : pyarrow.Array or ndarray, length n
        Cells in any type; an ndarray is returned unchanged.
    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    ndarray of float, shape (n,)
        Numbers; NaN if a cell is null, not a number, or declared as missing.

    """
    if isinstance(values, np.ndarray):
        return values
    if (parts := distinct(values)) is not None:
        return np.append(numbers_of(parts[0], missing), np.nan).take(parts[1])
    return as_numbers(values, "number", missing).floats


def as_numbers(values: pa.Array, reading: Reading, missing: tuple[str, ...]) -> Numbers:
    """Convert cells of a plain type to numbers of the given kind.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells in a plain type.

    reading : {"number", "whole", "flag", "day", "second"}
        Which numbers are valid: all numbers, whole numbers ("whole"), or 0 and 1 ("flag").

    missing : tuple of str
        Texts that mean a missing value. The text "-999" excludes the number -999 in every spelling,
        also in numeric columns.

    Returns
    -------
    Numbers
        The valid numbers.

    """
    values = cells(values, missing)
    found = Numbers.of(values)
    if codes := _missing_codes(missing, pa.types.is_boolean(values.type)):
        found = found.only(~found.among(codes))
    if reading == "whole":
        return found.only(found.whole())
    return found.only(found.among(FLAG_VALUES)) if reading == "flag" else found


def values_of(values: pa.Array | Matrix, column: Numeric, missing: tuple[str, ...]) -> Matrix:
    """Convert the cells of a column to the numbers that its declared kind allows.

    Parameters
    ----------
    values : pyarrow.Array or ndarray, length n
        Cells in any type; an ndarray is returned unchanged.

    column : Numeric
        Declaration of the column.

    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    ndarray of float, shape (n,)
        Numbers, days or seconds; NaN for any other cell.

    """
    if isinstance(values, np.ndarray):
        return values
    if column.reading in ("day", "second"):
        moments = moments_of(values, column, missing)
        whole, rest = np.divmod(moments, SECOND)
        found = moments.astype(float) if column.reading == "day" else whole + rest / SECOND
        return np.where(moments == NO_MOMENT, np.nan, found)
    if (parts := distinct(values)) is not None:
        return np.append(values_of(parts[0], column, missing), np.nan).take(parts[1])
    return declared_numbers(values, column, missing).floats


def declared_numbers(values: pa.Array, column: Numeric, missing: tuple[str, ...]) -> Numbers:
    """Convert cells of a plain type to the numbers that a declaration allows.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells in a plain type.

    column : Numeric
        Declaration of the column, of a kind other than date and time.

    missing : tuple of str
        Texts that mean a missing value in all columns.

    Returns
    -------
    Numbers
        The valid numbers.

    """
    missing = _missing_of(column, missing)
    return as_numbers(_as_usual(cells(values, missing), column), column.reading, missing)


def declared_missing(values: pa.Array, column: Numeric, missing: tuple[str, ...]) -> Booleans:
    """Return True for each cell that is missing by the declaration of its column.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells in any type.

    column : Numeric
        Declaration of the column.

    missing : tuple of str
        Texts that mean a missing value in all columns.

    Returns
    -------
    ndarray of bool, shape (n,)

    """
    missing = _missing_of(column, missing)
    values = cells(values, missing)
    return is_missing(pc.coalesce(_as_usual(values, column), values), missing)


def _missing_of(column: Numeric, missing: tuple[str, ...]) -> tuple[str, ...]:
    """Return all missing-value codes of a column, also as plain decimals."""
    missing = (*missing, *column.missing_codes)
    notation = getattr(column, "notation", None)
    return missing if notation is None else (*missing, *notation.codes(missing))


def _as_usual(values: pa.Array, column: Numeric) -> pa.Array:
    """Write texts with the column's own signs and words as plain decimals, 1 and 0.

    A plain decimal stays as it is, because some data sources write numbers as texts. The exception
    is the point as the sign that groups digits: then only numbers in the notation remain.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Result of `cells`.

    column : Numeric
        Declaration of the column.

    Returns
    -------
    pyarrow.Array, length n
        Cells. Cells that are not texts do not change.

    """
    if not is_text(values.type):
        return values
    for word, texts in (("1", getattr(column, "true", ())), ("0", getattr(column, "false", ()))):
        if texts:
            values = pc.if_else(pc.is_in(values, pa.array(texts, values.type)), word, values)
    notation = getattr(column, "notation", None)
    if notation is None:
        return values
    written = notation.plainly(values)
    return written if notation.thousands == "." else pc.coalesce(written, values)


def moments_of(values: pa.Array, column: Numeric, missing: tuple[str, ...]) -> Integers:
    """Convert the cells of a date or time column to integers.

    Parameters
    ----------
    values : pyarrow.Array, length n
        Cells in any type.

    column : Numeric
        Declaration of the column, of the kind date or time.

    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    ndarray of int64, shape (n,)
        Days for dates, microseconds for times; `NO_MOMENT` for any other cell.

    """
    missing = (*missing, *column.missing_codes)
    moments = _moments(values, missing)
    excluded = [moment for text in missing if (moment := moment_of(text.strip())) is not None]
    found = moments // DAY if column.reading == "day" else moments
    return np.where(np.isin(moments, np.array([NO_MOMENT, *excluded])), NO_MOMENT, found)


def _moments(values: pa.Array, missing: tuple[str, ...]) -> Integers:
    """Return microseconds since 1970-01-01 for dates, times and their texts, or `NO_MOMENT`."""
    if (parts := distinct(values)) is not None:
        return np.append(_moments(parts[0], missing), NO_MOMENT).take(parts[1])
    values = cells(values, missing)
    if is_text(values.type):
        words = values.dictionary_encode()  # few distinct days; parsing texts is slow
        places = words.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return np.append(_spelt_moments(words.dictionary), NO_MOMENT).take(places)
    kind = values.type
    if not is_moment(kind):
        return np.full(len(values), NO_MOMENT)
    ticks = _TICKS_PER_DAY[getattr(kind, "unit", "ms" if pa.types.is_date64(kind) else "D")]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    counts = values.cast(pa.int32() if ticks == 1 else pa.int64()).fill_null(0)
    counts = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    least, most = FIRST_MOMENT * ticks // DAY, (LAST_MOMENT + 1) * ticks // DAY - 1
    valid &= (counts >= max(least, -(2**63))) & (counts <= min(most, 2**63 - 1))
    counts = np.where(valid, counts, 0)
    moments = counts * (DAY // ticks) if ticks <= DAY else counts // (ticks // DAY)
    return np.where(valid, moments, NO_MOMENT)


NO_MOMENT = np.int64(-(2**63))  # stands for a cell that is not a date or time
FLAG_VALUES = (Decimal(0), Decimal(1))
_TICKS_PER_DAY = {"D": 1, "s": 86_400, "ms": 86_400_000, "us": DAY, "ns": DAY * 1000}  # per day


def _spelt_moments(texts: pa.Array) -> Integers:
    """Return microseconds since 1970-01-01 for texts in ISO 8601; otherwise `NO_MOMENT`."""
    found = pc.extract_regex(texts, PATTERN)

    def part(name: str) -> Integers:
        digits = pc.struct_field(found, name)
        digits = pc.if_else(pc.equal(digits, ""), "0", digits).cast(pa.int64()).fill_null(0)
        return np.asarray(digits.to_numpy(zero_copy_only=False))

    fits = found.is_valid().to_numpy(zero_copy_only=False)
    first = ((part("year") - 1970) * 12 + part("month") - 1).astype("datetime64[M]")
    days = first.astype("datetime64[D]") + (part("day") - 1)
    fits &= (part("year") >= 1) & (part("month") >= 1) & (part("month") <= 12)
    fits &= days.astype("datetime64[M]") == first
    for name, most in (("hour", 23), ("minute", 59), ("second", 59), ("after", 59)):
        fits &= part(name) <= most
    fits &= part("east") < MAX_OFFSET_HOURS
    digits = pc.utf8_slice_codeunits(pc.struct_field(found, "fraction"), 0, 6)
    fraction = pc.utf8_rpad(digits, 6, "0").cast(pa.int64()).fill_null(0)
    east = (part("east") * 60 + part("after")) * 60
    minus = pc.equal(pc.struct_field(found, "sign"), "-").fill_null(False)
    east = np.where(minus.to_numpy(zero_copy_only=False), -east, east)
    seconds = (part("hour") * 60 + part("minute")) * 60 + part("second") - east
    moments = days.astype(np.int64) * DAY + seconds * SECOND
    moments += fraction.to_numpy(zero_copy_only=False)
    fits &= (moments >= FIRST_MOMENT) & (moments <= LAST_MOMENT)
    return np.where(fits, moments, NO_MOMENT)


def codes_of(
    values: pa.Array | Integers, column: Categorical, missing: tuple[str, ...]
) -> Integers:
    """Return the index of each cell among the indicator columns of a categorical column.

    Parameters
    ----------
    values : pyarrow.Array or ndarray, length n
        Cells in any type; an ndarray is returned unchanged.

    column : Categorical
        Declaration of the column.

    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions in `column.labels`; -1 for a cell without an indicator.

    """
    if isinstance(values, np.ndarray):
        return values
    missing = (*missing, *column.missing_codes)
    if (parts := distinct(values)) is not None:
        codes = np.append(codes_of(parts[0], column, missing), column.absent)
        return np.asarray(codes.take(parts[1]))
    values = cells(values, missing)
    codes = _positions(values, column.levels)
    codes[codes < 0] = len(column.levels) if column.other else -1
    codes[is_missing(values, missing)] = column.absent
    return codes


def _positions(values: pa.Array, declared: Sequence[bool | int | float | str]) -> Integers:
    """Return the position of each cell among the declared levels, or -1.

    The function compares cells with levels in the type of the cells. The rules for texts apply in
    this order:

    - A text that equals the level character by character.
    - "true" and "false" in any case, if declared.
    - Any spelling of a level that was declared as a number.
    - A plain spelling of a level that was declared as a text and is a number. The codes 01 and 1E0
      are therefore not 1.

    True and false also mean 1 and 0 if no other level has this meaning.
    """
    kind = values.type
    texts = dict(enumerate(map(level_text, declared)))
    numbers, truths = _meanings(texts)
    if is_number(kind):
        return _lookup(values, _all_in_type(numbers, kind))
    if pa.types.is_boolean(kind):
        return _lookup(values, truths)
    if not is_text(kind):
        return _lookup(values, {})
    found = _lookup(values, texts)
    if truths:
        words = {i: str(truth).lower() for i, truth in truths.items()}
        found = np.where(found < 0, _lookup(pc.ascii_lower(values), words), found)
    if numbers:
        others = with_hyphens(pc.if_else(pa.array(found < 0), values, None))
        read = parsed(others)
        by_text = {i for i in numbers if isinstance(declared[i], str) and texts[i].isascii()}
        by_text -= {i for i in by_text if texts[i].lower() in ("true", "false")}
        # From 2^53 on two integers can have the same float64, so only equal texts match.
        numbers = {
            i: number
            for i, number in numbers.items()
            if -MAX_EXACT_INTEGER < number < MAX_EXACT_INTEGER
        }
        typed = {i: float(v) for i, v in numbers.items() if i not in by_text}
        exact = _confirmed(others, read, _lookup(read, typed), numbers)
        found = np.where(found < 0, exact, found)
        plain = pc.if_else(pc.match_substring_regex(others, _PLAIN_NUMBER), read, None)
        alike = {i: float(numbers[i]) for i in by_text & set(numbers)}
        spelt = {i: number for i, number in alike.items() if level_text(number) == texts[i]}
        found = np.where(found < 0, _lookup(plain, spelt), found)
    return found


def matches_none(kind: pa.DataType, column: Categorical) -> bool:
    """Return True if no cell of a type can be one of the declared levels.

    Parameters
    ----------
    kind : pyarrow.DataType
        Type of the column. Texts can be every level.

    column : Categorical
        Declaration of the column.

    Returns
    -------
    bool

    """
    numbers, truths = _meanings(dict(enumerate(map(level_text, column.levels))))
    if pa.types.is_boolean(kind):
        return not truths
    return is_number(kind) and not _all_in_type(numbers, kind)


def _confirmed(
    texts: pa.Array, read: pa.Array, found: Integers, numbers: Mapping[int, Decimal]
) -> Integers:
    """Remove matches of texts whose exact number only rounds to the declared number."""
    floats = read.to_numpy(zero_copy_only=False)
    for i in np.unique(found[found >= 0]).tolist():
        at = np.flatnonzero(found == i)
        signs = Numbers(texts.take(pa.array(at)), floats[at]).signs(numbers[i])
        found[at[signs != 0]] = -1
    return found


def _meanings(texts: Mapping[int, str]) -> tuple[dict[int, Decimal], dict[int, bool]]:
    """Return the numbers and the truth values that declared texts represent."""
    numbers = {i: n for i, text in texts.items() if (n := _finite_number(text)) is not None}
    words = {"true": True, "false": False}
    truths = {i: words[text.lower()] for i, text in texts.items() if text.lower() in words}
    alike = {i: bool(n) for i, n in numbers.items() if n in (0, 1) and n not in truths.values()}
    numbers |= {i: Decimal(t) for i, t in truths.items() if t not in numbers.values()}
    return numbers, truths | alike


def _finite_number(text: str) -> Decimal | None:
    """Return the finite number that a text represents; None for any other text."""
    number = exact_number(text)
    return number if number is not None and number.is_finite() else None


def _all_in_type(numbers: Mapping[int, Decimal], kind: pa.DataType) -> dict[int, pa.Scalar]:
    """Convert declared numbers to an Arrow type; leave out numbers that the type cannot hold."""
    found = {i: _in_type(number, kind) for i, number in numbers.items()}
    return {i: number for i, number in found.items() if number is not None}


def _in_type(number: Decimal, kind: pa.DataType) -> pa.Scalar | None:
    """Convert a number to an Arrow type; return None if the type cannot hold the number."""
    if pa.types.is_floating(kind):
        return (
            pa.scalar(float(number), kind)
            if -MAX_EXACT_INTEGER <= number <= MAX_EXACT_INTEGER
            else None
        )
    if (
        number.adjusted() > MAX_DECIMAL_DIGITS
        or int(number.as_tuple().exponent) < -MAX_DECIMAL_PLACES
    ):
        return None
    if pa.types.is_integer(kind) and number != number.to_integral_value():
        return None  # Arrow would truncate the number to an integer
    try:
        return pa.scalar(int(number) if pa.types.is_integer(kind) else number, kind)
    except (pa.ArrowException, OverflowError, TypeError):
        return None


def _lookup(values: pa.Array, wanted: Mapping[int, Any]) -> Integers:
    """Return the key in `wanted` whose value equals each cell, or -1."""
    if not wanted:
        return np.full(len(values), -1, np.int64)
    if pa.types.is_float16(values.type):  # Arrow has no such functions for float16
        wanted = {i: one.cast(pa.float32()) for i, one in wanted.items()}
        values = values.cast(pa.float32())
    if pa.types.is_floating(values.type):
        values = pc.add(values, pa.scalar(0.0, values.type))  # -0.0 is 0.0
    found = pc.index_in(values, value_set=pa.array(list(wanted.values()), values.type))
    order = np.array([*wanted, -1], np.int64)
    return order[found.fill_null(-1).to_numpy(zero_copy_only=False)]


def batch_rows(columns: int) -> int:
    """Return the number of rows of a batch.

    The memory of a batch is then independent of the number of columns.
    """
    return max(1, min(65536, BATCH_CELLS // max(columns, 1)))


def is_moment(kind: pa.DataType) -> bool:
    """Return True if a plain Arrow type holds dates, or dates with times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


@lru_cache
def _missing_codes(missing: tuple[str, ...], are_truths: bool) -> tuple[Decimal, ...]:
    """Return the numbers among the texts that mean a missing value.

    For a column of truth values, the texts true and false count as numbers too.
    """
    found = [number for text in missing if (number := exact_number(text.strip())) is not None]
    truths = [
        _DECIMAL_TRUTHS[text.strip().lower()]
        for text in missing
        if text.strip().lower() in _DECIMAL_TRUTHS
    ]
    return (*found, *truths) if are_truths else (*found,)
