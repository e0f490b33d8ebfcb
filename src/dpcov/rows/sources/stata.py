"""Source of Stata files, read cell by cell.

The library libreadstat reads files of other programs, but has two faults in Stata files. It decodes
strL texts as UTF-8 in every case, and it misses the missing values of formats up to 105. dpcov
therefore reads Stata files itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa

from dpcov.core.arrays import AnyArray
from dpcov.core.installing import library
from dpcov.core.printable import shown
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.dates import DAY, SECOND
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import FileOptions
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.dta import NUMBERS, Field, layout_of
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.stored import INCOMPLETE_FILE_MESSAGE, TIME_TYPE, moments_from, texts_from

_DATE_ORIGIN = date(1960, 1, 1)  # Day 0. Source: Stata's help.
_DATE_PATTERNS = ((re.compile(r"%-?t?d.*"), DAY), (re.compile(r"%-?tc.*"), SECOND // 1000))
_ARROW_TYPES = {
    "byte": pa.int8(),
    "int": pa.int16(),
    "long": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
}
# Largest valid number of each type; larger numbers are missing values. Source: Stata's help.
_MAX_VALID = {"byte": 100, "int": 32_740, "long": 2_147_483_620}
_MAX_VALID_OLD = {"byte": 126, "int": 32_766, "long": 2_147_483_646}  # Before format 113.
_MAX_VALID_FLOAT = {
    "float": np.nextafter(np.float32(2.0**127), np.float32(0)),
    "double": np.nextafter(2.0**1023, 0.0),
}
_OLD_MISSING = 2.0**333  # Missing value of the type double up to format 105.
_BLOCK_BYTES = 2**26  # Maximum bytes of rows that are read at once.


class StataSource(Source):
    """Source of a Stata file, read in parts; values are not replaced by their labels.

    Parameters
    ----------
    path : Path
        File.
    options : FileOptions
        States the encoding of texts if it differs from the encodings of the file's format.

    """

    kind = "Stata"
    costly = True

    def __init__(self, path: Path, options: FileOptions) -> None:
        self._path, broken = path, INCOMPLETE_FILE_MESSAGE.format(repr(shown(path)), self.kind)
        self._layout = quiet(broken)(layout_of)(path)
        self._stated = None if options.encoding == "utf-8" else options.encoding
        self._encodings = _encodings(self._layout.version, self._stated)
        fields = self._layout.fields
        self._fields = {_name(field.name, self._encodings): field for field in fields}
        if len(self._fields) != len(fields):
            raise SourceError(broken)
        self.names = tuple(self._fields)
        self.types = {name: _type(field) for name, field in self._fields.items()}

    def labels(self) -> dict[str, dict[float | str, str]]:
        """Return the value labels of each column, without labels of missing values."""
        pyreadstat = library("pyreadstat", "value labels need their library", SourceError)
        read = quiet(
            f"dpcov cannot read the value labels of {shown(self._path)!r}. Save the file again "
            "in Stata."
        )(pyreadstat.read_dta)
        _, about = read(str(self._path.absolute()), encoding=self._stated, metadataonly=True)
        found = {
            name: {value: label for value, label in labels.items() if not isinstance(value, str)}
            for name, labels in about.variable_value_labels.items()
        }
        return {name: labels for name, labels in found.items() if labels and name in self.types}

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        fields = [self._fields[name] for name in columns]
        size = self._rows_at_once(fields)
        view = np.dtype(
            {
                "names": [str(at) for at in range(len(fields))],
                "formats": [self._stored(field) for field in fields],
                "offsets": [field.offset for field in fields],
                "itemsize": self._layout.width,
            }
        )
        with self._path.open("rb") as rows, self._path.open("rb") as texts:
            rows.seek(self._layout.start)
            for first in range(0, max(self._layout.rows, 1), size):
                count = min(size, self._layout.rows - first)
                content = rows.read(count * self._layout.width)
                if len(content) != count * self._layout.width:
                    raise SourceError(
                        "The data file changed while dpcov read it. Use a file that no program "
                        "changes."
                    )
                held = np.frombuffer(content, view, count)
                arrays = [
                    self._array(field, held[str(at)], texts) for at, field in enumerate(fields)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _rows_at_once(self, fields: Sequence[Field]) -> int:
        """Return the number of rows whose cells fit into memory, even with the longest texts."""
        longest = MAX_CELL_BYTES * sum(field.kind == "strL" for field in fields)
        most = _BLOCK_BYTES // (self._layout.width + longest)
        return max(1, min(batch_rows(len(fields)), most))

    def _stored(self, field: Field) -> str:
        """Return the NumPy type of the stored cells of a column."""
        if field.kind == "str":
            return f"V{field.width}"
        order = ">" if self._layout.order == "big" else "<"
        return order + NUMBERS.get(field.kind, "u8")

    def _array(self, field: Field, stored: AnyArray, texts: BinaryIO) -> pa.Array:
        """Convert stored cells to an Arrow array."""
        if field.kind == "str":
            return texts_from(map(_up_to_zero, stored.tolist()), self._encodings)
        values = stored.astype(stored.dtype.newbyteorder("="))
        if field.kind == "strL":
            return texts_from(self._contents(values, texts), self._encodings)
        absent, unit = self._absent(field.kind, values), _unit(field)
        if unit is None:
            return pa.array(values, _ARROW_TYPES[field.kind], mask=absent)
        numbers = np.where(absent, np.nan, values.astype(np.float64))
        return moments_from(numbers, unit[1], _DATE_ORIGIN, unit[0])

    def _absent(self, kind: str, values: AnyArray) -> AnyArray:
        """Return True for numbers that stand for missing values in the format of the file."""
        version = self._layout.version
        whole = _MAX_VALID if version > 112 else _MAX_VALID_OLD
        absent: AnyArray = ~(values <= (whole | _MAX_VALID_FLOAT)[kind])
        if version <= 105 and kind == "double":
            absent |= values == _OLD_MISSING
        return absent

    def _contents(self, stored: AnyArray, texts: BinaryIO) -> Iterator[bytes | None]:
        """Yield the bytes of strL cells; None if the content is missing or too long."""
        keys = self._layout.keys(stored)
        places, lengths = self._layout.blocks.find(keys)
        for key, place, length in zip(
            keys.tolist(), places.tolist(), lengths.tolist(), strict=True
        ):
            if not key:
                yield b""
            elif length < 0:
                yield None
            else:
                texts.seek(place)
                content = _up_to_zero(texts.read(min(length, MAX_CELL_BYTES + 1)))
                yield content if len(content) <= MAX_CELL_BYTES else None


def _encodings(version: int, stated: str | None) -> list[str]:
    """Return the encodings to try for each text, in order.

    From format 118 on, texts are UTF-8. In earlier formats, Stata uses the encoding of the
    computer, but other programs write UTF-8. A text in Windows-1252 is almost never valid UTF-8 by
    chance.
    """
    if version > 117:
        return ["utf-8", *([stated] if stated else [])]
    return [stated] if stated else ["utf-8", "cp1252"]


def _name(raw: bytes, encodings: Sequence[str]) -> str:
    """Decode the name of a column."""
    (found,) = texts_from([raw], encodings).to_pylist()
    return raw.decode("latin-1") if found is None else str(found)


def _unit(field: Field) -> tuple[pa.DataType, int] | None:
    """Return the type of a date or time column and the microseconds per unit, or None."""
    for kind, (form, unit) in zip((pa.date32(), TIME_TYPE), _DATE_PATTERNS, strict=True):
        if form.fullmatch(field.form):
            return kind, unit
    return None


def _type(field: Field) -> pa.DataType:
    """Return the Arrow type of a column."""
    if field.kind not in NUMBERS:
        return pa.large_string()
    unit = _unit(field)
    return _ARROW_TYPES[field.kind] if unit is None else unit[0]


def _up_to_zero(content: bytes) -> bytes:
    """Return the bytes before the first zero byte."""
    return content.split(b"\0", 1)[0]
