"""Broken readers of Stata, SPSS and SAS files: each has a fault that a reader once had, or might.

Each is a function that breaks the library for as long as what it returns is entered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyreadstat

from dpcov.errors import SourceError
from dpcov.rows import sources
from dpcov.rows.schema import FileOptions
from dpcov.rows.sources import dta, readstat, stata
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.stored import TIME_TYPE, moments_from

Broken = Callable[[], AbstractContextManager[Any]]
_BYTES = "ISO-8859-1"


class OldStata(Source):
    """A Stata file as libreadstat reads it, which takes strL texts for UTF-8."""

    kind = "Stata"
    costly = True

    def __init__(self, path: Path, options: FileOptions) -> None:
        self._path = str(path)
        try:
            self._about = pyreadstat.read_dta(self._path, metadataonly=True)[1]
        except Exception:
            raise SourceError("not complete") from None
        new = re.match(rb"<stata_dta><header><release>11[89]", path.read_bytes()[:40])
        self._encoding = "utf-8" if new else "cp1252"
        self.names = tuple(self._about.column_names)
        self.types = {name: self._type(name) for name in self.names}

    def _unit(self, name: str) -> int | None:
        reported = self._about.original_variable_types[name]
        return {"%td": 86_400_000_000, "%tc": 1000}.get(reported[:3])

    def _type(self, name: str) -> pa.DataType:
        if self._about.readstat_variable_types[name] == "string":
            return pa.large_string()
        unit = self._unit(name)
        return pa.float64() if unit is None else TIME_TYPE if unit == 1000 else pa.date32()

    @quiet("The data can't be read.")
    def _read(self, columns: Sequence[str]) -> dict[str, list[Any]]:
        asked = {"encoding": _BYTES, "output_format": "dict", "disable_datetime_conversion": True}
        found: dict[str, list[Any]] = pyreadstat.read_dta(
            self._path, usecols=list(columns), **asked
        )[0]
        return found

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        found = self._read(columns)
        arrays = [self._array(name, found[name]) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def _array(self, name: str, cells: list[Any]) -> pa.Array:
        kind, unit = self.types[name], self._unit(name)
        if pa.types.is_large_string(kind):
            texts = [cell.encode(_BYTES).decode(self._encoding, "replace") for cell in cells]
            return pa.array(texts, kind)
        if unit is None:
            return pa.array(cells, kind)
        return moments_from(cells, unit, stata._DATE_ORIGIN, kind)


def _replaced(cells: Iterable[bytes | None], encodings: Sequence[str]) -> pa.Array:
    """Replace what cannot be decoded by U+FFFD, which is no level."""
    texts = [None if cell is None else cell.decode(encodings[0], "replace") for cell in cells]
    return pa.array(texts, pa.large_string())


def _by_order(self: dta.Blocks, keys: Any) -> tuple[Any, Any]:
    """Take the next block for the next cell, so that a cell without a block moves all others."""
    places, lengths = np.zeros(len(keys), np.int64), np.full(len(keys), -1)
    some = np.flatnonzero(keys)[: len(self.keys)]
    places[some], lengths[some] = self.places[: len(some)], self.lengths[: len(some)]
    return places, lengths


def _one(target: Any, name: str, new: Any) -> Broken:
    return lambda: patch.object(target, name, new)


OLD_STATA = _one(sources, "StataSource", OldStata)
ONE_DOUBLE = _one(stata, "_OLD_MISSING", 2.0**1023)
NEW_CODES = _one(stata, "_MAX_VALID_OLD", stata._MAX_VALID)
BY_ORDER = _one(dta.Blocks, "find", _by_order)
REPLACED = _one(readstat, "texts_from", _replaced)
