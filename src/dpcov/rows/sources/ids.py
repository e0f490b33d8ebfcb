"""Ids of persons: one canonical form for each id, in every data source.

The schema declares the type of the ids. Two cells mean the same person exactly if they are equal as
values of this type: as numbers, as UUIDs, or byte by byte. A cell that is not of the type belongs
to no person. Every function computes the result for a cell from this cell alone
(docs/proofs/persons.md).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpcov.errors import SourceError
from dpcov.rows.cells import cells, distinct, is_missing, plain
from dpcov.rows.numbers import MAX_CELL_BYTES, MAX_EXACT_INTEGER, is_number, is_text, with_hyphens
from dpcov.rows.sources.base import unwrapped
from dpcov.rows.sources.objects import texts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

IdType = Literal["integer", "decimal", "uuid", "text"]

ID_BYTES = 32  # Size of an id in a private copy, in bytes.
_CANONICAL_INTEGER = r"^(0|-?[1-9][0-9]{0,38})$"  # Integers that are their own canonical form.
_MAX_DIGITS = 39  # Maximum number of digits of an integer without an exponent.
_DECIMAL_ID = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?)0*([0-9]{1,9}))?")
_UUID_ID = re.compile(
    rb"(?:urn:uuid:)?(\{)?([0-9a-f]{8})(-?)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3"
    rb"([0-9a-f]{12})(?(1)\})",
    re.IGNORECASE,
)


class IdColumn(str):
    """Name of a column that is read as ids; a float that represents several ids becomes null."""

    __slots__ = ()


def refuse_unfit(
    name: str, kind: pa.DataType, declared: IdType | None, unfit: Mapping[str, str]
) -> None:
    """Raise `SourceError` if the type of a column cannot represent ids of the declared type.

    Parameters
    ----------
    name : str
        Name of the column.

    kind : pyarrow.DataType
        Type of the column.

    declared : {"integer", "decimal", "uuid", "text"} or None
        Declared type of the ids.

    unfit : mapping of str to str
        Columns that cannot contain ids, with the reason.

    """
    if declared is None:
        raise SourceError('[unit] has no type. Add type = "integer", "decimal", "uuid" or "text".')
    if name in unfit:
        raise SourceError(f"The id column {name!r} cannot identify persons: {unfit[name]}.")
    if not _readable(kind, declared):
        other = "integer" if is_number(kind) and declared in ("uuid", "text") else None
        hint = f'Set type = "{other}" in [unit]' if other else "Convert the column to text"
        raise SourceError(
            f"The id column {name!r} has the type {kind}, but the schema declares "
            f"{declared}. {hint}."
        )


def _readable(kind: pa.DataType, declared: IdType) -> bool:
    """Return True if a column of this Arrow type can contain ids of the declared type."""
    if is_text(kind) or pa.types.is_null(kind):
        return True
    if declared in ("integer", "decimal"):
        return is_number(kind)
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    sixteen = pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16
    return bool(sixteen if declared == "uuid" else binary or pa.types.is_fixed_size_binary(kind))


def canonical(column: pa.Array, declared: IdType | None, missing: tuple[str, ...]) -> pa.Array:
    """Return the canonical form of each id.

    Parameters
    ----------
    column : pyarrow.Array, length n
        Cells of the id column.

    declared : {"integer", "decimal", "uuid", "text"} or None
        Declared type of the ids.

    missing : tuple of str
        Texts that mean a missing value.

    Returns
    -------
    pyarrow.Array of large_binary, length n
        Canonical ids; null if a cell is not an id.

    """
    if declared is None:
        raise ValueError("the schema declares no type of ids")
    if pa.types.is_float16(unwrapped(column.type)):  # rare, so converted through texts
        halves = plain(column).to_numpy(zero_copy_only=False).astype(np.float16)
        column = texts_of(halves, ids=True)
    if (parts := distinct(column)) is not None:
        known = canonical(parts[0], declared, missing)
        places = pa.array(np.where(parts[1] < 0, len(known), parts[1]))
        return pa.concat_arrays([known, pa.nulls(1, known.type)]).take(places)
    trimmed = cells(column, missing)
    absent = pa.array(is_missing(trimmed, missing))
    if declared == "text":  # byte by byte, including outer blanks
        ids = plain(column).cast(pa.large_binary())
        absent = pc.or_(absent, pc.greater(pc.binary_length(ids), MAX_CELL_BYTES))
    elif pa.types.is_fixed_size_binary(trimmed.type):
        words = (None if word is None else word.hex().encode() for word in trimmed.to_pylist())
        ids = pa.array(words, pa.large_binary())
    else:
        ids = _each(_spelt(trimmed), _CANONICAL_FORMS[declared])
    return pc.if_else(absent, None, ids)


def _spelt(values: pa.Array) -> pa.Array:
    """Return numbers as exact texts; a float that represents several integers becomes null."""
    if pa.types.is_floating(values.type):
        # Float32 represents every integer up to 2^24.
        most = 2**24 if pa.types.is_float32(values.type) else MAX_EXACT_INTEGER
        sure = pc.less_equal(pc.abs(values.cast(pa.float64())), float(most))
        values = pc.if_else(sure, values, None)
    return values.cast(pa.string()) if is_number(values.type) else values


def _each(values: pa.Array, form: Callable[[bytes], bytes | None]) -> pa.Array:
    """Return the canonical form of each text; plain integers are already canonical."""
    if form is not _uuid and is_text(values.type):
        values = with_hyphens(values)
    ids = values.cast(pa.large_binary())
    done = pa.nulls(len(ids), ids.type)
    if form is not _uuid:
        short = pc.match_substring_regex(ids, _CANONICAL_INTEGER)
        ids, done = pc.if_else(short, None, ids), pc.if_else(short, ids, None)
    encoded = ids.dictionary_encode()
    known = pa.array([form(word) for word in encoded.dictionary.to_pylist()], pa.large_binary())
    return pc.coalesce(done, known.take(encoded.indices))


def _decimal(word: bytes) -> bytes | None:
    """Return sign, significant digits and exponent of a number; short integers have no exponent."""
    found = _DECIMAL_ID.fullmatch(word)
    if found is None or not (found[2] or found[3]):
        return None
    sign, whole, part, *exponent = found.groups(b"")
    digits = (whole + part).lstrip(b"0")
    kept = digits.rstrip(b"0")
    if not kept:
        return b"0"
    power = int(b"".join(exponent) or 0) - len(part) + len(digits) - len(kept)
    minus = b"-" if sign == b"-" else b""
    if power >= 0 and len(kept) + power <= _MAX_DIGITS:
        return minus + kept + b"0" * power
    return minus + kept + b"e%d" % power


def _integer(word: bytes) -> bytes | None:
    """Return the canonical form of an integer; None for any other text."""
    form = _decimal(word)
    return None if form is None or b"e-" in form else form


def _uuid(word: bytes) -> bytes | None:
    """Return the canonical form of a UUID; None for any other text."""
    found = _UUID_ID.fullmatch(word)
    return None if found is None else b"".join(found.group(2, 4, 5, 6, 7)).lower()


_CANONICAL_FORMS: dict[str, Callable[[bytes], bytes | None]] = {
    "integer": _integer,
    "decimal": _decimal,
    "uuid": _uuid,
}


def records(ids: pa.Array, key: bytes) -> NDArray[np.void]:
    """Return an encrypted record of fixed width for each id.

    Different ids have different records. An id of at most 31 bytes is padded, and its length
    follows in the last byte. A longer id is replaced by a keyed hash. AES under the key then
    encrypts each block, so the record does not reveal the id.

    Parameters
    ----------
    ids : pyarrow.Array of large_binary, length n
        Canonical ids without null.
    key : bytes
        Secret key.

    Returns
    -------
    ndarray of void, shape (n,)
        Records of `ID_BYTES` bytes.

    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    count, capacity = len(ids), ID_BYTES - 1
    _, places, content = ids.buffers()
    ends = np.frombuffer(places, np.int64)[ids.offset : ids.offset + count + 1]
    data = np.frombuffer(content or b"", np.uint8)
    lengths = np.diff(ends)
    found = np.zeros((count, ID_BYTES), np.uint8)
    short = lengths <= capacity
    at = np.arange(int(lengths[short].max(initial=0)))
    held = (at < lengths[:, None]) & short[:, None]
    found[:, : len(at)][held] = data[(ends[:-1, None] + at)[held]]
    found[:, capacity] = np.where(short, lengths, ID_BYTES)
    for row in np.flatnonzero(~short).tolist():
        word = data[ends[row] : ends[row + 1]].tobytes()
        digest = hashlib.blake2b(word, key=key, digest_size=capacity).digest()
        found[row, :capacity] = np.frombuffer(digest, np.uint8)
    cipher = Cipher(algorithms.AES256(key), modes.ECB())  # noqa: S305  each block is an id, not a message
    hidden = cipher.encryptor().update(found.tobytes())
    return np.frombuffer(hidden, np.dtype((np.void, ID_BYTES)))
