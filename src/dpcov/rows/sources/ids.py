"""Ids of persons: one canonical form for each id, whatever way it is written in whatever door.

The type is declared ([unit] type). Two cells are one person exactly when the type says that they
are equal: as numbers, as UUIDs, or byte by byte. What is not of the type is nobody's. Every
function depends on one cell alone (docs/proofs/persons.md).
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
from dpcov.rows.cells import LONGEST_CELL, cells, distinct, is_missing, plain
from dpcov.rows.numbers import is_number, is_text, with_hyphens
from dpcov.rows.sources.base import unwrapped
from dpcov.rows.sources.objects import texts_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

IdType = Literal["integer", "decimal", "uuid", "text"]

WIDTH = 32  # bytes of an id in a private copy
_PLAIN = r"^(0|-?[1-9][0-9]{0,38})$"  # integers that are their own canonical form
_DIGITS = 39  # an integer of at most so many is written out
_NUMBER = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?)0*([0-9]{1,9}))?")
_UUID = re.compile(
    rb"(?:urn:uuid:)?(\{)?([0-9a-f]{8})(-?)([0-9a-f]{4})\3([0-9a-f]{4})\3([0-9a-f]{4})\3"
    rb"([0-9a-f]{12})(?(1)\})",
    re.IGNORECASE,
)
EXACT = 2**53  # beyond it a float64 stands for several integers, beyond 2^24 a float32


class IdColumn(str):
    """The name of a column that is asked for as ids: a float of doubtful value has no text."""

    __slots__ = ()


def refuse_unfit(
    name: str, kind: pa.DataType, declared: IdType | None, unfit: Mapping[str, str]
) -> None:
    """Refuse, from its type alone, a column that can't hold ids of the declared type."""
    if declared is None:
        raise SourceError(
            'The schema does not say what an id is: add type = "integer", "decimal", "uuid" '
            'or "text" under [unit]. Ids that are equal by that type are one person: 7 and 7.0 '
            "are one integer and two texts."
        )
    if name in unfit:
        raise SourceError(f"The id column {name!r} can't tell persons apart: {unfit[name]}.")
    if not _readable(kind, declared):
        other = "integer" if is_number(kind) and declared in ("uuid", "text") else None
        hint = f'declare type = "{other}"' if other else "cast the column to text"
        raise SourceError(
            f"The id column {name!r} is of the type {kind}, which holds no ids of the declared "
            f"type {declared!r}: {hint}."
        )


def _readable(kind: pa.DataType, declared: IdType) -> bool:
    if is_text(kind) or pa.types.is_null(kind):
        return True
    if declared in ("integer", "decimal"):
        return is_number(kind)
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    sixteen = pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16
    return bool(sixteen if declared == "uuid" else binary or pa.types.is_fixed_size_binary(kind))


def canonical(column: pa.Array, declared: IdType | None, missing: tuple[str, ...]) -> pa.Array:
    """Each row's id in its one form, as large_binary; null where there is none."""
    if declared is None:
        raise ValueError("the schema declares no type of ids, which the door refuses")
    if pa.types.is_float16(unwrapped(column.type)):  # too rare for a path of its own
        halves = plain(column).to_numpy(zero_copy_only=False).astype(np.float16)
        column = texts_of(halves, ids=True)
    if (parts := distinct(column)) is not None:
        known = canonical(parts[0], declared, missing)
        places = pa.array(np.where(parts[1] < 0, len(known), parts[1]))
        return pa.concat_arrays([known, pa.nulls(1, known.type)]).take(places)
    trimmed = cells(column, missing)
    absent = pa.array(is_missing(trimmed, missing))
    if declared == "text":  # byte by byte, outer blanks too
        ids = plain(column).cast(pa.large_binary())
        absent = pc.or_(absent, pc.greater(pc.binary_length(ids), LONGEST_CELL))
    elif pa.types.is_fixed_size_binary(trimmed.type):
        words = (None if word is None else word.hex().encode() for word in trimmed.to_pylist())
        ids = pa.array(words, pa.large_binary())
    else:
        ids = _each(_spelt(trimmed), _FORMS[declared])
    return pc.if_else(absent, None, ids)


def _spelt(values: pa.Array) -> pa.Array:
    """Numbers as texts, exactly; floats by the shortest, if they stand for one number."""
    if pa.types.is_floating(values.type):
        most = 2**24 if pa.types.is_float32(values.type) else EXACT
        sure = pc.less_equal(pc.abs(values.cast(pa.float64())), float(most))
        values = pc.if_else(sure, values, None)
    return values.cast(pa.string()) if is_number(values.type) else values


def _each(values: pa.Array, form: Callable[[bytes], bytes | None]) -> pa.Array:
    """The canonical form of each text: plain integers are theirs, others are seen one by one."""
    if form is not _uuid and is_text(values.type):
        values = with_hyphens(values)
    ids = values.cast(pa.large_binary())
    done = pa.nulls(len(ids), ids.type)
    if form is not _uuid:
        short = pc.match_substring_regex(ids, _PLAIN)
        ids, done = pc.if_else(short, None, ids), pc.if_else(short, ids, None)
    encoded = ids.dictionary_encode()
    known = pa.array([form(word) for word in encoded.dictionary.to_pylist()], pa.large_binary())
    return pc.coalesce(done, known.take(encoded.indices))


def _decimal(word: bytes) -> bytes | None:
    """Sign, digits without zeros at either end, and exponent; a short integer is written out."""
    found = _NUMBER.fullmatch(word)
    if found is None or not (found[2] or found[3]):
        return None
    sign, whole, part, *exponent = found.groups(b"")
    digits = (whole + part).lstrip(b"0")
    kept = digits.rstrip(b"0")
    if not kept:
        return b"0"
    power = int(b"".join(exponent) or 0) - len(part) + len(digits) - len(kept)
    minus = b"-" if sign == b"-" else b""
    if power >= 0 and len(kept) + power <= _DIGITS:
        return minus + kept + b"0" * power
    return minus + kept + b"e%d" % power


def _integer(word: bytes) -> bytes | None:
    form = _decimal(word)
    return None if form is None or b"e-" in form else form


def _uuid(word: bytes) -> bytes | None:
    found = _UUID.fullmatch(word)
    return None if found is None else b"".join(found.group(2, 4, 5, 6, 7)).lower()


_FORMS: dict[str, Callable[[bytes], bytes | None]] = {
    "integer": _integer,
    "decimal": _decimal,
    "uuid": _uuid,
}


def records(ids: pa.Array, key: bytes) -> NDArray[np.void]:
    """(n,) records of `WIDTH` bytes for valid canonical ids, a different one for each id.

    An id of at most 31 bytes is padded, with its length behind; of a longer one a hash under the
    key stands there. A permutation under the key (AES of each block) hides what they were.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    count, room = len(ids), WIDTH - 1
    _, places, content = ids.buffers()
    ends = np.frombuffer(places, np.int64)[ids.offset : ids.offset + count + 1]
    data = np.frombuffer(content or b"", np.uint8)
    lengths = np.diff(ends)
    found = np.zeros((count, WIDTH), np.uint8)
    short = lengths <= room
    at = np.arange(int(lengths[short].max(initial=0)))
    held = (at < lengths[:, None]) & short[:, None]
    found[:, : len(at)][held] = data[(ends[:-1, None] + at)[held]]
    found[:, room] = np.where(short, lengths, WIDTH)
    for row in np.flatnonzero(~short).tolist():
        word = data[ends[row] : ends[row + 1]].tobytes()
        digest = hashlib.blake2b(word, key=key, digest_size=room).digest()
        found[row, :room] = np.frombuffer(digest, np.uint8)
    cipher = Cipher(algorithms.AES256(key), modes.ECB())  # noqa: S305  blocks are names, no message
    hidden = cipher.encryptor().update(found.tobytes())
    return np.frombuffer(hidden, np.dtype((np.void, WIDTH)))
