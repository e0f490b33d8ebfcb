"""Stata's files as raw bytes, formats 102 to 119: a writer that shares no code with any reader.

It follows Stata's descriptions of its formats. A cell is a value, the letter of a missing one
(`Missing`), or bytes that are stored as they are, whatever they mean.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Columns = Mapping[str, tuple[str, Sequence[Any]]]

CODES = {"byte": "b", "int": "h", "long": "i", "float": "f", "double": "d"}
DISPLAYED = {"date": "%td", "time": "%tc", "str": "%9s", "strL": "%9s"}
STORED_AS = {"date": "double", "time": "double"}
_LETTERS = {"byte": b"b", "int": b"i", "long": b"l", "float": b"f", "double": b"d"}
_BYTES = {"byte": 251, "int": 252, "long": 253, "float": 254, "double": 255}
_WORDS = {"byte": 65530, "int": 65529, "long": 65528, "float": 65527, "double": 65526}
LONGEST = 2**16  # bytes of a text; dpcov takes a longer one for missing
_KEYS = {117: (4, 4), 118: (2, 6), 119: (3, 5)}  # bytes of column and row of a strL cell


@dataclass(frozen=True)
class Missing:
    """A missing number: "." or, from format 113 on, a letter."""

    letter: str = "."


@dataclass(frozen=True)
class Block:
    """What is stored of a strL cell: a kind, a content, and the key in the row, if another."""

    content: bytes
    kind: int = 130
    key: tuple[int, int] | None = None


def missing_bits(kind: str, letter: str, version: int) -> int:
    """Return the bits of a missing number."""
    at = 0 if letter == "." else ord(letter) - ord("a") + 1
    if version < 113:
        old = {"byte": 127, "int": 32767, "long": 2147483647, "float": 0x7F000000}
        double = 0x54C0000000000000 if version <= 105 else 0x7FE0000000000000
        return (old | {"double": double})[kind]
    first = {"byte": 101, "int": 32741, "long": 2147483621, "float": 0x7F000000}
    step = {"float": 0x800, "double": 1 << 40}.get(kind, 1)
    return (first | {"double": 0x7FE0000000000000})[kind] + at * step


def largest(kind: str, version: int) -> float:
    """Return the largest number that is none of the missing ones."""
    old = {"byte": 126, "int": 32766, "long": 2147483646}
    new = {"byte": 100, "int": 32740, "long": 2147483620}
    ends = {"float": 1.7014117331926443e38, "double": 8.988465674311579e307}
    return ((old if version < 113 else new) | ends)[kind]


class Writer:
    """One version of the format, in one order of bytes.

    Attributes
    ----------
    version : from 102 to 119.
    big : whether the most significant byte of a number is the first.
    encoding : of names and texts.

    """

    def __init__(self, version: int, big: bool = False, encoding: str | None = None) -> None:
        self.version, self.big = version, big
        self.encoding = encoding or ("utf-8" if version > 117 else "cp1252")
        self.order = ">" if big else "<"

    def number(self, kind: str, cell: Any) -> bytes:
        """Return a number as it is stored."""
        size = struct.calcsize(CODES[kind])
        if isinstance(cell, bytes):
            assert len(cell) == size, cell
            return cell
        if isinstance(cell, Missing) or cell is None or cell != cell:
            letter = cell.letter if isinstance(cell, Missing) else "."
            return missing_bits(kind, letter, self.version).to_bytes(
                size, "big" if self.big else "little"
            )
        return struct.pack(self.order + CODES[kind], cell)

    def text(self, cell: Any) -> bytes:
        """Return the bytes of a text."""
        if cell is None:
            return b""
        return cell if isinstance(cell, bytes) else str(cell).encode(self.encoding, "replace")

    def meaning(self, kind: str, cell: Any) -> Any:
        """Return what a cell stands for; None for a missing one.

        By Stata's descriptions, but that in old formats other programs than Stata write UTF-8.
        """
        kind = STORED_AS.get(kind, kind)
        if kind in CODES:
            bits = self.number(kind, cell)
            (number,) = struct.unpack(self.order + CODES[kind], bits)
            old = self.version <= 105 and kind == "double" and number == 2.0**333
            return None if old or not number <= largest(kind, self.version) else number
        if isinstance(cell, Block):
            known = cell.kind in (129, 130) and cell.key is None
            return self._decoded(cell.content) if known else None
        return self._decoded(self.text(cell))

    def _decoded(self, content: bytes) -> str | None:
        content = content.split(b"\0")[0]
        for encoding in ("utf-8", self.encoding):
            with suppress(UnicodeDecodeError):
                return content.decode(encoding) if len(content) <= LONGEST else None
        return None

    def write(self, path: Path, columns: Columns) -> Path:
        """Write a table."""
        path.write_bytes(self.file(columns))
        return path

    def file(self, columns: Columns) -> bytes:
        """Return the bytes of a file."""
        kinds = {name: STORED_AS.get(kind, kind) for name, (kind, _) in columns.items()}
        widths, stored, blocks = {}, [], []
        for at, (name, (_, cells)) in enumerate(columns.items(), 1):
            if kinds[name] == "strL":
                held, more = self._strl(at, cells)
                blocks += more
            elif kinds[name] == "str":
                texts = [self.text(cell) for cell in cells]
                widths[name] = max([1, *map(len, texts)])
                held = [text.ljust(widths[name], b"\0") for text in texts]
            else:
                held = [self.number(kinds[name], cell) for cell in cells]
            stored.append(held)
        rows = [b"".join(row) for row in zip(*stored, strict=True)]
        forms = [DISPLAYED.get(kind, "%9.0g").encode() for kind, _ in columns.values()]
        if self.version < 117:
            return self._old(kinds, widths, forms, rows)
        return self._new(kinds, widths, forms, rows, blocks)

    def _strl(self, column: int, cells: Sequence[Any]) -> tuple[list[bytes], list[bytes]]:
        """Return what rows hold of strL cells, and the blocks of their contents."""
        held, blocks = [], []
        for row, cell in enumerate(cells, 1):
            block = cell if isinstance(cell, Block) else Block(self.text(cell) + b"\0")
            empty = block.content == b"\0" and block.key is None
            key = (0, 0) if empty else block.key or (column, row)
            held.append(self._whole(_KEYS[self.version], key))
            if not empty:
                wide = "IQ" if self.version > 117 else "II"
                head = struct.pack(
                    f"{self.order}{wide}BI", column, row, block.kind, len(block.content)
                )
                blocks.append(b"GSO" + head + block.content)
        return held, blocks

    def _whole(self, widths: tuple[int, int], numbers: tuple[int, int]) -> bytes:
        order = "big" if self.big else "little"
        pairs = zip(numbers, widths, strict=True)
        return b"".join(number.to_bytes(width, order) for number, width in pairs)  # type: ignore[arg-type]

    def _pack(self, codes: str, *numbers: int) -> bytes:
        return struct.pack(self.order + codes, *numbers)

    def _names(self, kinds: Mapping[str, str], width: int) -> bytes:
        return b"".join(name.encode(self.encoding).ljust(width, b"\0") for name in kinds)

    def _old(
        self,
        kinds: Mapping[str, str],
        widths: Mapping[str, int],
        forms: list[bytes],
        rows: list[bytes],
    ) -> bytes:
        version, count = self.version, len(kinds)
        name = 9 if version < 109 else 33
        label = 32 if version < 108 else 81
        form = 7 if version < 105 else 12 if version < 114 else 49
        order = 0 if version == 102 else 1 if self.big else 2
        parts = [struct.pack("4B", version, order, 0 if version == 102 else 1, 0)]
        parts += [self._pack("H", count), self._pack("H" if version == 102 else "I", len(rows))]
        parts += [bytes(label), b"01 Jan 2020 00:00\0" if version > 104 else b""]
        for column, kind in kinds.items():
            if kind == "str":
                parts.append(bytes([widths[column] + (0 if version > 110 else 127)]))
            else:
                parts.append(bytes([_BYTES[kind]]) if version > 110 else _LETTERS[kind])
        parts += [self._names(kinds, name), bytes(2 * (count + 1))]
        parts += [one.ljust(form, b"\0") for one in forms]
        parts += [bytes(count * (name + label))]
        if version > 104:
            length = "I" if version > 108 else "H"
            parts += [b"\1", self._pack(length, 5), b"notes", b"\0", self._pack(length, 0)]
        return b"".join([*parts, *rows])

    def _new(
        self,
        kinds: Mapping[str, str],
        widths: Mapping[str, int],
        forms: list[bytes],
        rows: list[bytes],
        blocks: list[bytes],
    ) -> bytes:
        wide, widest = self.version > 117, self.version == 119
        count, name = len(kinds), 129 if self.version > 117 else 33
        codes = {"strL": 32768, **_WORDS}
        types = [widths[column] if kind == "str" else codes[kind] for column, kind in kinds.items()]
        head = b"".join(
            [
                b"<stata_dta><header><release>%d</release>" % self.version,
                b"<byteorder>%s</byteorder>" % (b"MSF" if self.big else b"LSF"),
                b"<K>%s</K>" % self._pack("I" if widest else "H", count),
                b"<N>%s</N>" % self._pack("Q" if wide else "I", len(rows)),
                b"<label>%s</label>" % self._pack("H" if wide else "B", 0),
                b"<timestamp>\0</timestamp></header>",
            ]
        )
        note = self._pack("I", 5) + b"notes"
        parts = [
            b"<variable_types>%s</variable_types>" % self._pack(f"{count}H", *types),
            b"<varnames>%s</varnames>" % self._names(kinds, name),
            b"<sortlist>%s</sortlist>" % bytes((count + 1) * (4 if widest else 2)),
            b"<formats>%s</formats>"
            % b"".join(one.ljust(57 if wide else 49, b"\0") for one in forms),
            b"<value_label_names>%s</value_label_names>" % bytes(count * name),
            b"<variable_labels>%s</variable_labels>" % bytes(count * (321 if wide else 81)),
            b"<characteristics><ch>%s</ch></characteristics>" % note,
            b"<data>%s</data>" % b"".join(rows),
            b"<strls>%s</strls>" % b"".join(blocks),
            b"<value_labels></value_labels>",
        ]
        places, at = [0, len(head)], len(head) + len(b"<map></map>") + 14 * 8
        for part in parts:
            places.append(at)
            at += len(part)
        places += [at, at + len(b"</stata_dta>")]
        found = b"<map>%s</map>" % self._pack("14Q", *places)
        return b"".join([head, found, *parts, b"</stata_dta>"])
