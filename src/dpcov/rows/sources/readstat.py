"""Source of SPSS and SAS files, which the library libreadstat reads.

The header of the file states the types. Values that the file declares as missing are missing. dpcov
converts dates from the stored numbers and texts from the stored bytes, cell by cell. The library
would refuse the whole table if one date or one byte were invalid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcov.core.installing import library
from dpcov.core.printable import printable, shown
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.dates import DAY, SECOND
from dpcov.rows.schema import FileOptions, Kind
from dpcov.rows.sources.base import Source, kind_of
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.stored import (
    INCOMPLETE_FILE_MESSAGE,
    TIME_TYPE,
    is_encoding,
    moments_from,
    texts_from,
)

UNKNOWN_ENCODING_MESSAGE = (
    "{} states the text encoding {}, which Python cannot read. Declare another encoding "
    "under [file], or save the table as CSV."
)

READERS = {  # Program, and the function of pyreadstat that reads its files.
    ".sav": ("SPSS", "read_sav"),
    ".zsav": ("SPSS", "read_sav"),
    ".sas7bdat": ("SAS", "read_sas7bdat"),
}
_ORIGINS = {"SAS": date(1960, 1, 1), "SPSS": date(1582, 10, 14)}
_SAS_DATES = "WEEKDAT[EX]|(MMDDYY|DDMMYY|YYMMDD)[BCDNPS]?|DATE|(IS|E|B)8601DA"
_DATE_FORMATS = {  # Formats of dates and of times, with the microseconds per unit.
    "SPSS": ((r"[AEJS]?DATE[0-9.]*", SECOND), (r"(DATETIME|YMDHMS)[0-9.]*", SECOND)),
    "SAS": (
        (rf"({_SAS_DATES})[0-9.]*", DAY),
        (r"(DATETIME|DATEAMPM|MDYAMPM|(IS|E|B)8601D[TN])[0-9.]*", SECOND),
    ),
}
_BYTE_ENCODING = "ISO-8859-1"  # In this encoding every byte is valid, so no text is refused.
_PYTHON_NAMES = {"big-5": "big5", "windows-936": "gbk"}


class ReadstatSource(Source):
    """Source of a file of SPSS or SAS, read in parts; values are not replaced by their labels.

    Parameters
    ----------
    path : Path
        File.
    options : FileOptions
        States the encoding if it is not utf-8; otherwise the encoding in the file is used.

    """

    costly = True

    def __init__(self, path: Path, options: FileOptions) -> None:
        self.kind, reader = READERS[path.suffix.lower()]
        pyreadstat = library("pyreadstat", f"{self.kind} files need their library", SourceError)
        self._path = path
        self._reader = getattr(pyreadstat, reader)
        stated = None if options.encoding == "utf-8" else options.encoding
        described = quiet(INCOMPLETE_FILE_MESSAGE.format(repr(shown(path)), self.kind))(self._read)
        self.about = described(stated, metadataonly=True, user_missing=True)[1]
        # The same names as stored bytes, which the library needs for reading columns.
        spelt = described(_BYTE_ENCODING, metadataonly=True)[1].column_names
        if rows := self.about.number_rows:  # an incomplete file has no last row
            last = {"usecols": spelt[:1], "row_offset": max(rows - 1, 0), "row_limit": 1}
            described(_BYTE_ENCODING, **last)
        self.names = tuple(map(str, self.about.column_names))
        self._encoding = _python_name(stated or self.about.file_encoding or "cp1252")
        self._spelt = dict(zip(self.names, spelt, strict=True))
        self.types = {name: self._type(name) for name in self.names}
        has_texts = any(map(pa.types.is_large_string, self.types.values()))
        if has_texts and not is_encoding(self._encoding):
            raise SourceError(
                UNKNOWN_ENCODING_MESSAGE.format(repr(shown(path)), printable(self._encoding))
            )

    def _read(self, encoding: str | None, **what: Any) -> tuple[dict[str, list[Any]], Any]:
        """Read columns as lists of stored values, with the metadata of the file."""
        what |= {"encoding": encoding, "output_format": "dict", "disable_datetime_conversion": True}
        found: tuple[dict[str, list[Any]], Any] = self._reader(str(self._path.absolute()), **what)
        return found

    def _unit(self, name: str) -> tuple[pa.DataType, int] | None:
        """Return the type of a date or time column, and the microseconds per unit.

        The result is None for other columns.
        """
        display = str(self.about.original_variable_types[name])
        for kind, (form, unit) in zip(
            (pa.date32(), TIME_TYPE), _DATE_FORMATS[self.kind], strict=True
        ):
            if re.fullmatch(form, display):
                return kind, unit
        return None

    def _type(self, name: str) -> pa.DataType:
        """Return the Arrow type of a column."""
        if self.about.readstat_variable_types[name] == "string":
            return pa.large_string()
        unit = self._unit(name)
        return pa.float64() if unit is None else unit[0]

    def kinds(self) -> dict[str, Kind]:
        """Return the most likely kind of each column."""
        stored, found = self.about.readstat_variable_types, dict[str, Kind]()
        for name, kind in self.types.items():
            is_whole = pa.types.is_floating(kind) and stored[name].startswith("int")
            found[name] = "integer" if is_whole else kind_of(kind)
        return found

    def labels(self) -> dict[str, dict[float | str, str]]:
        """Return the value labels of each column, without labels of missing values."""
        found, codes = dict[str, dict[float | str, str]](), self.codes()
        for name, labels in self.about.variable_value_labels.items():
            # In numeric columns, letters label missing values.
            letters, ranges = pa.types.is_large_string(self.types[name]), codes.get(name, [])
            found[name] = {
                value: label
                for value, label in labels.items()
                if isinstance(value, str) == letters and not _among(value, ranges)
            }
        return {name: labels for name, labels in found.items() if labels}

    def codes(self) -> dict[str, list[tuple[float | str, float | str]]]:
        """Return the ranges of values that the file declares as missing in each column."""
        ranges = self.about.missing_ranges
        return {
            name: sorted((one["lo"], one["hi"]) for one in some) for name, some in ranges.items()
        }

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        size, start = batch_rows(len(columns)), 0
        wanted = [self._spelt[name] for name in columns]
        while True:
            part, _ = self._read(_BYTE_ENCODING, usecols=wanted, row_offset=start, row_limit=size)
            arrays = [self._array(name, part[self._spelt[name]]) for name in columns]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            yield batch
            if batch.num_rows < size:
                return
            start += size

    def _array(self, name: str, values: list[Any]) -> pa.Array:
        """Convert stored values of a column to an Arrow array."""
        kind, unit = self.types[name], self._unit(name)
        if pa.types.is_large_string(kind):
            stored = (None if text is None else text.encode(_BYTE_ENCODING) for text in values)
            return texts_from(stored, [self._encoding])
        if unit is None:
            return pa.array(values, kind)
        return moments_from(values, unit[1], _ORIGINS[self.kind], kind)


def _among(value: Any, ranges: list[tuple[Any, Any]]) -> bool:
    """Return True if a value is in one of the ranges."""
    return any(least <= value <= most for least, most in ranges)


def _python_name(encoding: str) -> str:
    """Return Python's name of an encoding."""
    return _PYTHON_NAMES.get(encoding.lower(), encoding)
