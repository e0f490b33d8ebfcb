"""The layout of Stata's files, formats 102 to 119: the types of columns, and where cells are.

Only the structure of a file is read here, before the budget is recorded; an incomplete one raises
an error. The formats are described in Stata's help ("dta" and "dta_102" to
"dta_119").
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

OLD = (102, 103, 104, 105, 108, 110, 111, 113, 114, 115)  # formats without tags; no others exist
NEW = (117, 118, 119)  # and with tags
NUMBERS = {"byte": "i1", "int": "i2", "long": "i4", "float": "f4", "double": "f8"}
NOT_READ = (
    "This Stata file is of format {}, and formats from 102 to 119 can be read. Save it in Stata "
    "with `saveold`, or as CSV."
)
_ORDERS: dict[bytes, Order] = {b"MSF": "big", b"LSF": "little"}
_START = b"<stata_dta><header><release>"
_BY_LETTER = {98: "byte", 105: "int", 108: "long", 102: "float", 100: "double"}
_BY_CODE = {251: "byte", 252: "int", 253: "long", 254: "float", 255: "double"}
_BY_WORD = {65530: "byte", 65529: "int", 65528: "long", 65527: "float", 65526: "double"}
_STRL = 32768
_TEXT_KINDS = (129, 130)  # of a block of text: with bytes of any value, and without zeros


@dataclass(frozen=True, slots=True)
class Field:
    """A column: its name, type ("str", "strL" or one of `NUMBERS`), place in a row, and format."""

    name: bytes
    kind: str
    offset: int
    width: int
    form: str


@dataclass(frozen=True, slots=True)
class Blocks:
    """Where the contents of strL cells are: places and lengths by key, in the order of keys."""

    keys: AnyArray
    places: AnyArray
    lengths: AnyArray

    def find(self, keys: AnyArray) -> tuple[AnyArray, AnyArray]:
        """Return place and length of the content of each key; length -1 if there is none."""
        if not len(self.keys):
            return np.zeros(len(keys), np.int64), np.full(len(keys), -1)
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        found = self.keys[at] == keys
        return self.places[at], np.where(found, self.lengths[at], -1)


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file says of itself.

    Attributes
    ----------
    version : number of the format.
    order : of the bytes of a number.
    rows : number of rows.
    fields : the columns.
    start : place of the first row in the file.
    width : bytes of a row.
    blocks : contents of strL cells.

    """

    version: int
    order: Order
    rows: int
    fields: tuple[Field, ...]
    start: int
    width: int
    blocks: Blocks

    def keys(self, stored: AnyArray) -> AnyArray:
        """Return the keys of strL cells, of which `stored` are the eight bytes, as uint64."""
        column, row = _key_widths(self.version)
        if self.order == "big":
            return stored
        numbers = stored & np.uint64(2 ** (8 * column) - 1)
        return numbers << np.uint64(8 * row) | stored >> np.uint64(8 * column)


def layout_of(path: Path) -> Layout:
    """Read the layout of a file."""
    with path.open("rb") as file:
        first = file.read(len(_START))
        if first == _START:
            return _new(_Reader(file))
        if not first or first[0] not in OLD:
            raise ValueError
        file.seek(1)
        return _old(_Reader(file), first[0])


class _Reader:
    """A file that is read in order, and never beyond its end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self.order: Order = "little"

    def tell(self) -> int:
        return self._file.tell()

    def skip(self, count: int) -> None:
        self._require(count)
        self._file.seek(count, os.SEEK_CUR)

    def take(self, count: int) -> bytes:
        self._require(count)
        return self._file.read(count)

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), self.order)

    def expect(self, tag: bytes) -> None:
        if self.take(len(tag)) != tag:
            raise ValueError

    def tagged(self, tag: bytes, count: int) -> bytes:
        """Read `count` bytes between two tags."""
        self.expect(b"<" + tag + b">")
        content = self.take(count)
        self.expect(b"</" + tag + b">")
        return content

    def _require(self, count: int) -> None:
        if count > self._size - self._file.tell():
            raise ValueError


def _old(reader: _Reader, version: int) -> Layout:
    """Read a layout without tags, behind its first byte."""
    reader.order = "big" if reader.number(1) == 1 else "little"
    reader.skip(2)
    name, label = 33 if version > 108 else 9, 81 if version > 105 else 32
    form = 49 if version > 113 else 12 if version > 104 else 7
    columns = reader.number(2)
    rows = reader.number(2 if version == OLD[0] else 4)
    reader.skip(label + (18 if version > 104 else 0))
    kinds = [_old_kind(code, version) for code in reader.take(columns)]
    names = _texts(reader.take(columns * name), name)
    reader.skip(2 * (columns + 1))
    forms = _texts(reader.take(columns * form), form)
    reader.skip(columns * (name + label))
    more = version > 104
    while more:  # what only Stata reads, up to one of type 0
        more = reader.number(1) != 0
        reader.skip(reader.number(4 if version > 108 else 2))
    fields, width = _fields(names, kinds, forms)
    start = reader.tell()
    reader.skip(rows * width)
    return Layout(version, reader.order, rows, fields, start, width, _no_blocks())


def _new(reader: _Reader) -> Layout:
    """Read a layout with tags, behind the first of them."""
    version = int(reader.take(3))
    if version not in NEW:
        raise SourceError(NOT_READ.format(version))
    reader.expect(b"</release>")
    reader.order = _ORDERS[reader.tagged(b"byteorder", 3)]
    wide, widest = version > NEW[0], version == NEW[-1]
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
    """Cut into texts of `width` bytes, of which each ends at its first zero."""
    whole = (content[at : at + width] for at in range(0, len(content), width))
    return [text.split(b"\0", 1)[0] for text in whole]


def _blocks(reader: _Reader, version: int) -> Blocks:
    """Find the contents of strL cells, up to the tag that ends them."""
    keys, places, lengths = array("Q"), array("q"), array("q")
    column, row = _key_widths(version)
    while (tag := reader.take(3)) == b"GSO":
        v, o = reader.number(4), reader.number(8 if version > NEW[0] else 4)
        kind, length = reader.number(1), reader.number(4)
        if v < 2 ** (8 * column) and o < 2 ** (8 * row):  # a cell can't have another key
            keys.append(v << 8 * row | o)
            places.append(reader.tell())
            lengths.append(length if kind in _TEXT_KINDS else -1)
        reader.skip(length)
    if tag != b"</s":
        raise ValueError
    reader.expect(b"trls>")
    found, first = np.unique(np.array(keys, np.uint64), return_index=True)
    if len(found) != len(keys):  # which of two contents is a cell's, nothing says
        raise ValueError
    return Blocks(found, np.array(places, np.int64)[first], np.array(lengths, np.int64)[first])


def _no_blocks() -> Blocks:
    return Blocks(np.empty(0, np.uint64), np.empty(0, np.int64), np.empty(0, np.int64))


def _key_widths(version: int) -> tuple[int, int]:
    """Return of how many bytes a strL cell's column and row are."""
    return {117: (4, 4), 118: (2, 6)}.get(version, (3, 5))


def _fields(
    names: list[bytes], kinds: list[tuple[str, int]], forms: list[bytes]
) -> tuple[tuple[Field, ...], int]:
    """Return the columns in their places, and the width of a row."""
    found, offset = [], 0
    for name, (kind, width), form in zip(names, kinds, forms, strict=True):
        found.append(Field(name, kind, offset, width, form.decode("latin-1")))
        offset += width
    if not found or len(set(names)) != len(names):
        raise ValueError
    return tuple(found), offset


def _old_kind(code: int, version: int) -> tuple[str, int]:
    """Return type and width of a column from its code of one byte."""
    if version > 110:
        return _number(_BY_CODE[code]) if code in _BY_CODE else _text(code, 244)
    return _number(_BY_LETTER[code]) if code in _BY_LETTER else _text(code - 127, 128)


def _new_kind(code: int) -> tuple[str, int]:
    """Return type and width of a column from its code of two bytes."""
    if code == _STRL:
        return "strL", 8
    return _number(_BY_WORD[code]) if code in _BY_WORD else _text(code, 2045)


def _number(kind: str) -> tuple[str, int]:
    return kind, int(NUMBERS[kind][1])


def _text(width: int, most: int) -> tuple[str, int]:
    if not 0 < width <= most:
        raise ValueError
    return "str", width
