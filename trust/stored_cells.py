"""Single cells of Stata, SPSS and SAS files, edited byte by byte.

Each edit changes one cell of a file. The outcome of a release must stay the same, all other rows
must be read as before, and the cell itself must be read as what its bytes stand for. The old
readers are controls: the same edits find each.
"""

from __future__ import annotations

import gzip
import itertools
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pyreadstat

import dpcov
import stored_broken as broken
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_source
from figure import Figure
from outcomes import Book, Outcome, outcome_of
from stata_files import CODES, Block, Missing, Writer, largest

ATTACK = "edits of single cells in files"
SAMPLE = Path(__file__).parents[1] / "tests" / "sas" / "sample.sas7bdat.gz"
VERSIONS = (105, 108, 110, 111, 113, 114, 115, 117, 118, 119)
LEAST = 60  # edits of each kind of file
ROWS, AT = 12, 5  # of Stata's and SPSS's tables, and the row that is edited
LEVELS = ["Aix", "Zürich", "Łódź", "two words"]
ASKED: list[dict[str, Any]] = [
    {"epsilon": 1.0, "mechanism": "laplace", "denoise": "none"},
    {"epsilon": 1.0, "neighbors": "replace-one", "mechanism": "laplace", "denoise": "none"},
    {"epsilon": 1.0},
]
DECLARED: dict[str, dict[str, Any]] = {
    "number": {"kind": "number", "lower": -10, "upper": 10, "missing": "level"},
    "text": {"kind": "categorical", "levels": LEVELS, "other": True, "missing": "level"},
    "date": {"kind": "date", "lower": "1950-01-01", "upper": "2030-01-01", "missing": "level"},
    "time": {"kind": "time", "lower": "1950-01-01", "upper": "2030-01-01", "missing": "level"},
}
_NAN = [0x7FF8000000000001, 0x7FF0000000000001, 0xFFF8000000000000, 0xFFFFFFFFFFFFFFFF]
_BITS = [*_NAN, 0x7FF0000000000000, 1, 0x8000000000000000, 0x7FEFFFFFFFFFFFFF, 0x3FE0000000000000]
_FLOAT_BITS = [0x7FC00001, 0x7F800001, 0xFFC00000, 0xFFFFFFFF, 0x7F800000, 1, 0x80000000]
_DAYS = [1e300, -1e300, -1e7, 4e6, 22000.5, 0.0, -715_000.0, 5e-324]
RAW_TEXTS = [
    *(b"\xff", b"Z\xc3", b"Z\xfcrich", "Zürich".encode(), "Łódź".encode(), b"\xed\xa0\x80"),
    *("\U0001f600".encode(), b"", b" ", b"Aix\0\xff\xfe", b"\x80\x81\x8d\x9d", b"\xc0\xaf"),
    *(b"Aix ", b"Aix\r\n", b"\xf4\x90\x80\x80", b"\xef\xbf\xbd", b"\xe2\x80\xae"),
]


@dataclass(frozen=True)
class Edit:
    """A file with one other cell, and what that cell is."""

    what: str
    content: bytes
    column: str
    expected: Any


@dataclass(frozen=True)
class Table:
    """A file, its columns' kinds, and edits of single cells in row `row`."""

    name: str
    ending: str
    content: bytes
    kinds: dict[str, str]
    row: int
    edits: list[Edit]


@dataclass
class Found:
    """Edits that were tried, by kind of file, and what was wrong."""

    edits: Counter[str] = field(default_factory=Counter)
    outcomes: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    values: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[str]:
        return [*self.outcomes, *self.others, *self.values]


# Stata


def _day(number: float | None, origin: date) -> date | None:
    """Return the date that a number of days stands for, by Python's own calendar."""
    try:
        return None if number is None else origin + timedelta(days=int(number // 1))
    except (OverflowError, ValueError):
        return None


def _moment(seconds: float | None, origin: datetime) -> datetime | None:
    """Return the time that a number of seconds stands for."""
    try:
        return None if seconds is None else origin + timedelta(microseconds=round(seconds * 1e6))
    except (OverflowError, ValueError):
        return None


def _stata_cells(writer: Writer) -> Iterator[tuple[str, Any, Any]]:
    """Yield column, cell and what the cell is."""
    order = "big" if writer.big else "little"
    letters = ".amz" if writer.version > 112 else "."
    for kind, code in CODES.items():
        size, most = struct.calcsize(code), largest(kind, writer.version)
        cells: list[Any] = [Missing(letter) for letter in letters]
        if kind in ("float", "double"):
            bits = _FLOAT_BITS if kind == "float" else [*_BITS, 0x54C0000000000000]
            cells += [most, -most, 2.5, *(one.to_bytes(size, order) for one in bits)]
        else:
            above = int(most) + 1
            cells += [int(most), int(most) - 1, above, 0, 2 ** (8 * size - 1) - 1, -(int(most) + 1)]
        for cell in cells:
            yield kind, cell, writer.meaning(kind, cell)
    for days in _DAYS:
        yield "date", days, _day(writer.meaning("double", days), date(1960, 1, 1))
        seconds = writer.meaning("double", days * 86_400_000)
        found = None if seconds is None else _moment(seconds / 1000, datetime(1960, 1, 1))
        yield "time", days * 86_400_000, found
    for text in RAW_TEXTS:
        yield "str", text, writer.meaning("str", text)
        if writer.version > 115:
            yield "strL", text, writer.meaning("strL", text)


def _blocks(writer: Writer, texts: Sequence[str]) -> Iterator[tuple[str, Any, Any]]:
    """Yield strL cells whose blocks are unusual."""
    strl = list(_columns(writer)).index("strL") + 1
    blocks = [
        *(Block(b"Aix"), Block(b""), Block(b"\0"), Block(b"Aix\0", 129), Block(b"Aix\0", 7)),
        *(Block(b"y" * 70_000 + b"\0"), Block(b"Aix\0" + b"\xff" * 70_000), Block(b"\0Aix\0")),
        *(Block(b"Aix\0", key=(0, 9)), Block(b"Aix\0", key=(strl, 9_999_999))),
        *(Block(b"Aix\0", key=(1, AT + 1)), Block(b"Aix\0", key=(0xFFFF, 1))),
    ]
    for block in blocks:
        yield "strL", block, writer.meaning("strL", block)
    yield "strL", Block(b"Aix\0", key=(strl, 3)), texts[2]  # another row's content
    yield "strL", Block(b"Aix\0", key=(0, 0)), ""


def _columns(writer: Writer) -> dict[str, tuple[str, list[Any]]]:
    """Return a table of all types without empty texts."""
    texts = [("Aix", "two words", "x" * 12)[at % 3] for at in range(ROWS)]
    columns: dict[str, tuple[str, list[Any]]] = {}
    for kind in CODES:
        columns[kind] = (kind, [at % 7 for at in range(ROWS)])
    columns["date"] = ("date", [20_000.0 + at for at in range(ROWS)])
    columns["time"] = ("time", [1e12 + at for at in range(ROWS)])
    columns["str"] = ("str", texts)
    if writer.version > 115:
        columns["strL"] = ("strL", texts[::-1])
    return columns


def stata(version: int, big: bool = False) -> Table:
    """Return edits of a Stata file of one format."""
    writer = Writer(version, big)
    columns = _columns(writer)
    cells = list(_stata_cells(writer))
    if "strL" in columns:
        cells += _blocks(writer, columns["strL"][1])
    edits = []
    for column, cell, expected in cells:
        kind, held = columns[column]
        changed = {**columns, column: (kind, [*held[:AT], cell, *held[AT + 1 :]])}
        what = f"{column} {cell!r:.60}"
        edits.append(Edit(what, writer.file(changed), column, expected))
    kinds = {name: {"str": "text", "strL": "text"}.get(name, name) for name in columns}
    kinds |= dict.fromkeys(CODES, "number")
    order = "big" if big else "little"
    return Table(f"Stata {version}, {order}", ".dta", writer.file(columns), kinds, AT, edits)


# SPSS and SAS


def _patched(
    content: bytes, place: int, kind: str, column: str, edits: Sequence[tuple[bytes, Any]]
) -> list[Edit]:
    """Return the file with other bytes at a place, for each."""
    return [
        Edit(
            f"{kind} {raw!r:.40}",
            content[:place] + raw + content[place + len(raw) :],
            column,
            expected,
        )
        for raw, expected in edits
    ]


def _numbers(missing: Sequence[int] = ()) -> list[tuple[bytes, float | None]]:
    """Return doubles by their bits, and what they are; None for NaN and the `missing` ones."""
    found: list[tuple[bytes, float | None]] = []
    for bits in [*_BITS, 0xFFEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFE, 0xFFF0000000000000]:
        raw = bits.to_bytes(8, "little")
        (number,) = struct.unpack("<d", raw)
        found.append((raw, None if number != number or bits in missing else number))
    return found


def _texts(width: int, encoding: str) -> list[tuple[bytes, str | None]]:
    """Return texts of a width, filled up with blanks, and what they are."""
    found: list[tuple[bytes, str | None]] = []
    for raw in RAW_TEXTS:
        if len(raw) > width:
            continue
        try:
            text = raw.split(b"\0")[0].decode(encoding)
        except UnicodeDecodeError:
            found.append((raw.ljust(width), None))
        else:
            found.append((raw.ljust(width), text))
    return found


SPSS_FORMATS = {"date": "DATE11", "time": "DATETIME20"}
SPSS_MISSING = (0xFFEFFFFFFFFFFFFF, 0xFFEFFFFFFFFFFFFE, 0x7FEFFFFFFFFFFFFF)  # to libreadstat


def spss(folder: Path) -> Table:
    """Return edits of an SPSS file, of which a library writes all but the edited cell."""
    marks = {
        "number": 12_345.678,
        "date": 1.33e10 + 0.25,
        "time": 1.34e10,
        "text": "MARKHERE",
        "long": "LONGMARK",
    }
    frame = pd.DataFrame(
        {
            "number": [float(at % 7) for at in range(ROWS)],
            "date": [1.3e10 + 86_400 * at for at in range(ROWS)],
            "time": [1.31e10 + 0.5 * at for at in range(ROWS)],
            "text": ["Aix", "x" * 8] * (ROWS // 2),
            "long": ["Aix", "y" * 300] * (ROWS // 2),
        }
    )
    for name, mark in marks.items():
        frame.loc[AT, name] = mark
    path = folder / "base.sav"
    pyreadstat.write_sav(frame, str(path), variable_format=SPSS_FORMATS)
    content = path.read_bytes()

    def place(mark: Any) -> int:
        raw = mark.encode() if isinstance(mark, str) else struct.pack("<d", mark)
        assert content.count(raw) == 1, mark
        return content.index(raw)

    edits = _patched(content, place(marks["number"]), "number", "number", _numbers(SPSS_MISSING))
    days = [1e300, -1e300, -1e7, 4e6, 150_000.5, 0.0, -500_000.0, 5e-324]
    stored = [struct.pack("<d", one * 86_400) for one in days]
    dates = [_day(one, date(1582, 10, 14)) for one in days]
    edits += _patched(
        content, place(marks["date"]), "date", "date", [*zip(stored, dates, strict=True)]
    )
    times = [_moment(one * 86_400, datetime(1582, 10, 14)) for one in days]
    edits += _patched(
        content, place(marks["time"]), "time", "time", [*zip(stored, times, strict=True)]
    )
    for name in ("text", "long"):
        edits += _patched(content, place(marks[name]), name, name, _texts(8, "utf-8"))
    kinds = {name: "text" if name == "long" else name for name in marks}
    return Table("SPSS", ".sav", content, kinds, AT, edits)


def sas() -> Table:
    """Return edits of SAS's own file, at the places of its second row."""
    content = gzip.decompress(SAMPLE.read_bytes())
    places = {"mynum": 65_992, "mydate": 66_000, "dtime": 66_008, "mychar": 66_040}
    stored = {"mynum": 1.2, "mydate": -29_093.0, "dtime": -2_513_598_590.0}
    for name, number in stored.items():
        assert content[places[name] : places[name] + 8] == struct.pack("<d", number)
    edits = _patched(content, places["mynum"], "number", "mynum", _numbers())
    days = [(struct.pack("<d", one), _day(one, date(1960, 1, 1))) for one in _DAYS]
    edits += _patched(content, places["mydate"], "date", "mydate", days)
    seconds = [one * 86_400 for one in _DAYS]
    origin = datetime(1960, 1, 1)
    times = [(struct.pack("<d", one), _moment(one, origin)) for one in seconds]
    edits += _patched(content, places["dtime"], "time", "dtime", times)
    letters = [bytes([code]) for code in (*range(0x20, 0x7F, 5), *range(0x80, 0x100, 4), 0, 9)]
    held = [(one, one.split(b"\0")[0].decode() if one < b"\x80" else None) for one in letters]
    edits += _patched(content, places["mychar"], "text", "mychar", held)
    kinds = {"mynum": "number", "mydate": "date", "dtime": "time", "mychar": "text"}
    return Table("SAS", ".sas7bdat", content, kinds, 1, edits)


# What is found


def read(path: Path, names: Sequence[str]) -> list[tuple[Any, ...]] | str:
    """Return the rows of a file, or how their reading failed."""
    try:
        batches = list(open_source(path, FileOptions(), ()).batches(names))
    except Exception as error:
        return type(error).__name__
    return [row for batch in batches for row in zip(*batch.to_pydict().values(), strict=True)]


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, str) and isinstance(expected, str):
        return found.strip() == expected.strip()  # outer blanks are no part of a cell
    return found == expected


def tried(table: Table, found: Found, outcomes: int = 1) -> None:
    """Try the edits of a table; of every `outcomes`-th the outcome of a release."""
    with TemporaryDirectory() as place:
        _tried(table, Path(place), found, outcomes)


def _tried(table: Table, folder: Path, found: Found, outcomes: int) -> None:
    columns = {name: DECLARED[kind] for name, kind in table.kinds.items()}
    schema = Schema.parse({"version": 2, "columns": columns, "missing": ["", "NA"]})
    book, names = Book(folder), list(table.kinds)
    path = folder / f"t{table.ending}"

    def released(content: bytes, asked: dict[str, Any]) -> Outcome:
        path.write_bytes(content)
        ledger = book.ledger(str(asked.get("neighbors")))[1]
        return outcome_of(lambda: dpcov.release(path, schema=schema, ledger=ledger, **asked), book)

    expected = [released(table.content, asked) for asked in ASKED]
    path.write_bytes(table.content)
    base = read(path, names)
    assert not isinstance(base, str), table.name
    for number, edit in enumerate(table.edits):
        found.edits[table.name] += 1
        what = f"{table.name} | {edit.what}"
        if number % outcomes == 0:
            at = number // outcomes % len(ASKED)
            if released(edit.content, ASKED[at]) != expected[at]:
                found.outcomes.append(what)
        path.write_bytes(edit.content)
        rows = read(path, names)
        if isinstance(rows, str) or len(rows) != len(base):
            found.others.append(f"{what}: {rows if isinstance(rows, str) else len(rows)}")
            continue
        here, row = dict(zip(names, rows[table.row], strict=True)), base[table.row]
        others = [here[name] == cell for name, cell in zip(names, row, strict=True)]
        others[names.index(edit.column)] = True
        rows[table.row] = row
        if rows != base or not all(others):
            found.others.append(what)
        if not _same(here[edit.column], edit.expected):
            found.values.append(f"{what}: {here[edit.column]!r:.40} for {edit.expected!r:.40}")


def tables(folder: Path, quick: bool) -> list[Table]:
    """Return all tables, or fewer formats of Stata."""
    formats = [(105, False), (117, False), (118, True)]
    if not quick:
        formats = list(itertools.product(VERSIONS, (False, True)))
    return [*(stata(version, big) for version, big in formats), spss(folder), sas()]


def controls(folder: Path) -> list[tuple[str, Callable[[], AbstractContextManager[Any]], Table]]:
    """Return faults, and the table whose edits must find each."""
    return [
        ("Stata, read by libreadstat, format 105", broken.OLD_STATA, stata(105)),
        ("Stata, read by libreadstat, strL of format 117", broken.OLD_STATA, stata(117)),
        ("Stata, read by libreadstat, strL of format 118", broken.OLD_STATA, stata(118)),
        ("the missing double of all formats is one", broken.ONE_DOUBLE, stata(105)),
        ("old formats have the missing numbers of new formats", broken.NEW_CODES, stata(110)),
        ("strL cells in the order of their blocks", broken.BY_ORDER, stata(118)),
        ("SPSS: what can't be decoded becomes U+FFFD", broken.REPLACED, spss(folder)),
        ("SAS: what can't be decoded becomes U+FFFD", broken.REPLACED, sas()),
    ]


def caught(folder: Path) -> tuple[list[str], list[str]]:
    """Return the faults that were found, and those that were not."""
    seen: list[str] = []
    missed: list[str] = []
    for name, fault, table in controls(folder):
        found = Found()
        with fault():
            tried(table, found, outcomes=len(table.edits))
        (seen if found.wrong else missed).append(name)
    return seen, missed


def measure(quick: bool) -> list[Figure]:
    """Run all parts of the attack."""
    found = Found()
    with TemporaryDirectory() as place:
        for table in tables(Path(place), quick):
            tried(table, found, outcomes=4 if quick else 1)
        seen, missed = caught(Path(place))
    for line in [*found.wrong[:40], *(f"not caught: {name}" for name in missed)]:
        print(line)
    least, count = min(found.edits.values()), sum(found.edits.values())
    what = f"{count} edits in {len(found.edits)} kinds of files, of the fewest"
    counts = {
        "differences in outcome": found.outcomes,
        "changes of other cells": found.others,
        "cells that are read as something else": found.values,
    }
    return [
        Figure(ATTACK, what, f">= {LEAST}", str(least), least >= LEAST),
        *(Figure(ATTACK, name, "0", str(len(bad)), not bad) for name, bad in counts.items()),
        Figure(
            ATTACK,
            f"control: {len(seen) + len(missed)} broken readers: caught",
            str(len(seen) + len(missed)),
            str(len(seen)),
            not missed,
        ),
    ]
