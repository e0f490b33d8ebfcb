"""Layout of Stata files in the formats 102 to 119: column types and positions of cells.

dpcov reads only the structure of the file before it reserves budget. An incomplete file raises an
error. Stata's help describes the formats under "dta" and "dta_102" to "dta_119".
"""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from dpcov.core.arrays import AnyArray
from dpcov.errors import SourceError

Order = Literal["little", "big"]

UNTAGGED_FORMATS = (102, 103, 104, 105, 108, 110, 111, 113, 114, 115)  # All formats without tags.
TAGGED_FORMATS = (117, 118, 119)  # All formats with tags.
NUMBERS = {"byte": "i1", "int": "i2", "long": "i4", "float": "f4", "double": "f8"}
UNKNOWN_STATA_FORMAT_MESSAGE = (
    "The Stata file has the format {}, but dpcov reads the formats 102 to 119. Save the "
    "file in Stata with `saveold`, or as CSV."
)
_ORDERS: dict[bytes, Order] = {b"MSF": "big", b"LSF": "little"}
_TAGGED_START = b"<stata_dta><header><release>"
_BY_LETTER = {98: "byte", 105: "int", 108: "long", 102: "float", 100: "double"}
_BY_CODE = {251: "byte", 252: "int", 253: "long", 254: "float", 255: "double"}
_BY_WORD = {65530: "byte", 65529: "int", 65528: "long", 65527: "float", 65526: "double"}
_STRL_CODE = 32768  # Code of a strL column. Source: Stata's help on the dta format.
_TEXT_KINDS = (129, 130)  # Codes of text blocks: with arbitrary bytes, and without zero bytes.


@dataclass(frozen=True, slots=True)
class Field:
    """Column of a Stata file.

    Attributes
    ----------
    name : bytes
        Name.
    kind : str
        Type: "str", "strL" or a key of `NUMBERS`.
    offset, width : int
        Position in a row and size, in bytes.
    form : str
        Display format.

    """

    name: bytes
    kind: str
    offset: int
    width: int
    form: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """Positions of the contents of strL cells.

    Attributes
    ----------
    keys : ndarray of uint64, shape (n,)
        Keys in ascending order.
    places, lengths : ndarray of int64, shape (n,)
        Position in the file and length of each content, in bytes.

    """

    keys: AnyArray
    places: AnyArray
    lengths: AnyArray

    def find(self, keys: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return the position and the length of the content of each key.

        The length is -1 if there is no content.
        """
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found = self.keys[at] == keys
        return self.places[at], np.where(found, self.lengths[at], -1)


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of a Stata file.

    Attributes
    ----------
    version : int
        Number of the format.

    order : {"little", "big"}
        Byte order of numbers.

    rows : int
        Number of rows.

    fields : tuple of Field
        Columns.

    start : int
        Position of the first row, in bytes.

    width : int
        Size of a row, in bytes.

    blocks : Blocks
        Contents of strL cells.

    """

    version: int
    order: Order
    rows: int
    fields: tuple[Field, ...]
    start: int
    width: int
    blocks: Blocks

    def keys(self, stored: AnyArray) -> AnyArray:
        """Return the keys of strL cells from their eight stored bytes, as uint64."""
        column, row = _key_widths(self.version)
        if self.order == "big":
            return stored
        numbers = stored & np.uint64(2 ** (8 * column) - 1)
        return numbers << np.uint64(8 * row) | stored >> np.uint64(8 * column)


def layout_of(path: Path) -> Layout:
    """Read the layout of a file; raise `ValueError` if the structure is invalid."""
    with path.open("rb") as file:
        first = file.read(len(_TAGGED_START))
        if first == _TAGGED_START:
            return _new(_Reader(file))
        if not first or first[0] not in UNTAGGED_FORMATS:
            raise ValueError
        file.seek(1)
        return _old(_Reader(file), first[0])


class _Reader:
    """Sequential reader that never reads beyond the end of the file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self.order: Order = "little"

    def tell(self) -> int:
        """Return the current position."""
        return self._file.tell()

    def skip(self, count: int) -> None:
        """Skip bytes."""
        self._require(count)
        self._file.seek(count, os.SEEK_CUR)

    def take(self, count: int) -> bytes:
        """Read bytes."""
        self._require(count)
        return self._file.read(count)

    def number(self, width: int) -> int:
        """Read an integer of the given width."""
        return int.from_bytes(self.take(width), self.order)

    def expect(self, tag: bytes) -> None:
        """Read a tag, and raise `ValueError` if it is another one."""
        if self.take(len(tag)) != tag:
            raise ValueError

    def tagged(self, tag: bytes, count: int) -> bytes:
        """Read `count` bytes between two tags."""
        self.expect(b"<" + tag + b">")
        content = self.take(count)
        self.expect(b"</" + tag + b">")
        return content

    def _require(self, count: int) -> None:
        """Raise `ValueError` if fewer bytes are left."""
        if count > self._size - self._file.tell():
            raise ValueError


def _old(reader: _Reader, version: int) -> Layout:
    """Read a layout without tags, from the second byte on."""
    reader.order = "big" if reader.number(1) == 1 else "little"
    reader.skip(2)
    name, label = 33 if version > 108 else 9, 81 if version > 105 else 32
    form = 49 if version > 113 else 12 if version > 104 else 7
    columns = reader.number(2)
    rows = reader.number(2 if version == UNTAGGED_FORMATS[0] else 4)
    reader.skip(label + (18 if version > 104 else 0))
    kinds = [_old_kind(code, version) for code in reader.take(columns)]
    names = _texts(reader.take(columns * name), name)
    reader.skip(2 * (columns + 1))
    forms = _texts(reader.take(columns * form), form)
    reader.skip(columns * (name + label))
    more = version > 104
    while more:  # skip blocks that only Stata uses, up to a block of type 0
        more = reader.number(1) != 0
        reader.skip(reader.number(4 if version > 108 else 2))
    fields, width = _fields(names, kinds, forms)
    start = reader.tell()
    reader.skip(rows * width)
    return Layout(version, reader.order, rows, fields, start, width, _no_blocks())


def _new(reader: _Reader) -> Layout:
    """Read a layout with tags, from the first tag on."""
    version = int(reader.take(3))
    if version not in TAGGED_FORMATS:
        raise SourceError(UNKNOWN_STATA_FORMAT_MESSAGE.format(version))
    reader.expect(b"</release>")
    reader.order = _ORDERS[reader.tagged(b"byteorder", 3)]
    wide, widest = version > TAGGED_FORMATS[0], version == TAGGED_FORMATS[-1]
    name, form, label = (129, 57, 321) if wide else (33, 49, 81)
    columns = int.from_bytes(reader.tagged(b"K", 4 if widest else 2), reader.order)
    rows = int.from_bytes(reader.tagged(b"N", 8 if wide else 4), reader.order)
    reader.expect(b"<label>")
    reader.skip(reader.number(2 if wide else 1))
    reader.expect(b"</label><timestamp>")
    reader.skip(reader.number(1))
    reader.expect(b"</timestamp></header>")
    reader.tagged(b"map", 14 * 8)
    codes = np.frombuffer(reader.tagged(b"variable_types", 2 * columns), np.uint16)
    kinds = [_new_kind(int.from_bytes(code.tobytes(), reader.order)) for code in codes]
    names = _texts(reader.tagged(b"varnames", columns * name), name)
    reader.tagged(b"sortlist", (columns + 1) * (4 if widest else 2))
    forms = _texts(reader.tagged(b"formats", columns * form), form)
    reader.tagged(b"value_label_names", columns * name)
    reader.tagged(b"variable_labels", columns * label)
    reader.expect(b"<characteristics>")
    while (tag := reader.take(4)) == b"<ch>":
        reader.skip(reader.number(4))
        reader.expect(b"</ch>")
    if tag != b"</ch":
        raise ValueError
    reader.expect(b"aracteristics><data>")
    fields, width = _fields(names, kinds, forms)
    start = reader.tell()
    reader.skip(rows * width)
    reader.expect(b"</data><strls>")
    blocks = _blocks(reader, version)
    return Layout(version, reader.order, rows, fields, start, width, blocks)


def _texts(content: bytes, width: int) -> list[bytes]:
    """Split bytes into texts of a fixed width, each ending at its first zero byte."""
    whole = (content[at : at + width] for at in range(0, len(content), width))
    return [text.split(b"\0", 1)[0] for text in whole]


def _blocks(reader: _Reader, version: int) -> Blocks:
    """Find the contents of strL cells, up to the closing tag."""
    keys, places, lengths = array("Q"), array("q"), array("q")
    column, row = _key_widths(version)
    while (tag := reader.take(3)) == b"GSO":
        v, o = reader.number(4), reader.number(8 if version > TAGGED_FORMATS[0] else 4)
        kind, length = reader.number(1), reader.number(4)
        if v < 2 ** (8 * column) and o < 2 ** (8 * row):  # no cell can have another key
            keys.append(v << 8 * row | o)
            places.append(reader.tell())
            lengths.append(length if kind in _TEXT_KINDS else -1)
        reader.skip(length)
    if tag != b"</s":
        raise ValueError
    reader.expect(b"trls>")
    found, first = np.unique(np.array(keys, np.uint64), return_index=True)
    if len(found) != len(keys):  # a key with two contents is ambiguous
        raise ValueError
    return Blocks(found, np.array(places, np.int64)[first], np.array(lengths, np.int64)[first])


def _no_blocks() -> Blocks:
    """Return blocks without contents."""
    return Blocks(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))


def _key_widths(version: int) -> tuple[int, int]:
    """Return the widths of the column part and the row part of a strL key, in bytes."""
    return {117: (4, 4), 118: (2, 6)}.get(version, (3, 5))


def _fields(
    names: list[bytes], kinds: list[tuple[str, int]], forms: list[bytes]
) -> tuple[tuple[Field, ...], int]:
    """Return the columns with their positions, and the width of a row."""
    found, offset = [], 0
    for name, (kind, width), form in zip(names, kinds, forms, strict=True):
        found.append(Field(name, kind, offset, width, form.decode("latin-1")))
        offset += width
    if not found or len(set(names)) != len(names):
        raise ValueError
    return tuple(found), offset


def _old_kind(code: int, version: int) -> tuple[str, int]:
    """Return the type and the width of a column from its one-byte code."""
    if version > 110:
        return _number(_BY_CODE[code]) if code in _BY_CODE else _text(code, 244)
    return _number(_BY_LETTER[code]) if code in _BY_LETTER else _text(code - 127, 128)


def _new_kind(code: int) -> tuple[str, int]:
    """Return the type and the width of a column from its two-byte code."""
    if code == _STRL_CODE:
        return "strL", 8
    return _number(_BY_WORD[code]) if code in _BY_WORD else _text(code, 2045)


def _number(kind: str) -> tuple[str, int]:
    """Return a numeric type and its width."""
    return kind, int(NUMBERS[kind][1])


def _text(width: int, most: int) -> tuple[str, int]:
    """Return the text type and its width; raise `ValueError` for an impossible width."""
    if not 0 < width <= most:
        raise ValueError
    return "str", width
