"""Cells of the tables that test the readers: clean cells of one kind, and odd cells.

A fast path can read a column of clean cells. An odd cell ends the fast path.
"""

from __future__ import annotations

import enum
import math
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

from excel_edits import CELLS

HUGE = 70_000  # letters: more than a cell may have
FAR = 2**62  # milliseconds: no calendar reaches so far


@dataclass(frozen=True)
class Row:
    """A whole row in place of a cell: a line of a file, or an object in a list."""

    content: Any


class Hostile:
    """An object that fails at whatever it is asked but for what it is."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("S3CRET")

    __str__ = __bool__ = __lt__ = __eq__  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Hostile()"


class Color(enum.Enum):
    """A name in place of a cell."""

    RED = 1


@dataclass(frozen=True)
class Cells:
    """Cells that one type of column can hold: `clean` ones by their kind, and `odd` ones.

    Beyond `sure` a number of the type stands for several. Of bytes none is `missing`.
    """

    clean: dict[str, list[Any]]
    odd: list[Any] = field(default_factory=list)
    sure: float = math.inf
    missing: tuple[str, ...] = ("", "NA", "-999")


UUIDS = [str(uuid.UUID(int=number)) for number in (7, 2**64 + 7, 2**127 + 1)]
_ODD_NUMBERS = [
    *("1_000", "1e3", " 1", "nan", "inf", "-inf", "1e999", "1e-400", "0x1F", "--1", "9" * 400),
    *("1,5", "٣", "-999", "+7", "07", "-0"),
]
_ODD_WORDS = [
    *("", " ", "NA", "True", "FALSE", "Zürich", "Ångström", '"', "'", "=cmd()", "#", "\u202e"),
    *("y" * HUGE, UUIDS[0], UUIDS[0].upper()),
]
TEXTS = Cells(
    {
        "whole numbers": ["1", "2", "0", "3"],
        "decimals": ["1.5", "0.25", "-2.5"],
        "truths": ["true", "false"],
        "words": ["x", "y"],
        "dates": ["2024-03-08", "1970-01-02T23:30:00-05:00"],
    },
    [None, "x", "1.5", "2024-02-30", *_ODD_NUMBERS, *_ODD_WORDS],
)
RAW_TEXTS = Cells(TEXTS.clean, [*TEXTS.odd, b"\xff", b"x\xff\xfe"])
FILE = Cells(
    RAW_TEXTS.clean,
    [
        *RAW_TEXTS.odd,
        *(Row(b""), Row(b"1"), Row(b"1,2,3,4,5"), Row(b"\xef\xbb\xbf"), Row(b"#,1,2"), Row(b",,")),
    ],
)
QUOTED = Cells(
    FILE.clean,
    [*FILE.odd, "a\nb", ",", "\n", "\r\n,", 'a"\n"b', "x\n" * 50, "\n,1,2\n", '",'],
)
_HALF = [0.5, 1.0, 2.0, -3.25]
FLOATS = Cells(
    {"numbers": _HALF, "whole numbers": [1.0, 2.0, 0.0]},
    [
        *(None, float("nan"), float("inf"), float("-inf"), -0.0, -999.0),
        *(1.7e308, -1.7e308, 5e-324, 2.0**53, 2.0**53 + 2, 1e6),
    ],
    2.0**53,
)
SINGLES = Cells(
    FLOATS.clean,
    [
        *(None, float("nan"), float("inf"), float("-inf"), -0.0, 3.4e38, 1e-45, 2.0**53),
        *(2.0**24, 2.0**24 + 2, 0.1),
    ],
    2.0**24,
)
HALVES = Cells(
    FLOATS.clean,
    [None, float("nan"), float("inf"), float("-inf"), 65504.0, 6e-8, 2048.0, 2050.0, 0.1],
    2.0**11,
)
TRUTHS = Cells({"truths": [True, False], "one truth": [True]}, [None])
NOTHING = Cells({"nulls": [None]}, [])


def integers(bits: int, signed: bool = True, null: bool = True) -> Cells:
    """Return integers of this many bits."""
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    odd = {least, most, most - 1, 7, -1, -999, 2**53 + 1, 2**53 + 2}
    held = sorted(one for one in odd if least <= one <= most)
    return Cells({"whole numbers": [1, 2, 0, 3]}, [None, *held] if null else [*held])


def decimals(precision: int, scale: int) -> Cells:
    """Return decimal numbers of this precision and scale."""
    most = Decimal("9" * (precision - scale) + "." + "9" * scale)
    clean = {"decimals": [Decimal("1.5"), Decimal("0.25"), Decimal("-2.75")]}
    near = [Decimal("0.1"), Decimal("0.3"), Decimal("999.9")]  # which no float holds
    odd = [None, most, most.copy_negate(), Decimal(0), Decimal(7), Decimal("-999"), *near]
    return Cells(clean, odd)


NUMERIC = Cells(
    decimals(9, 3).clean | {"whole numbers": [Decimal(1), Decimal(2)]},
    [
        *decimals(9, 3).odd,
        *(Decimal("NaN"), Decimal("Infinity"), Decimal("7.00"), Decimal("1e5000")),
        *(Decimal("1e-5000"), Decimal("-999")),
    ],
)
LEVELS = Cells({"words": ["x", "y"], "one word": ["x"]}, [None, "Zürich", "1", "2.5", "other"])
IDS = Cells({"uuids": UUIDS[:2]}, [None, UUIDS[2]])
BYTES = Cells({"bytes": [b"x", b"y"]}, [None, b"", b"\xff", b"y" * HUGE], missing=())
SIXTEEN = Cells({"uuids": [uuid.UUID(u).bytes for u in UUIDS[:2]]}, [None, bytes(16)])
DATES = Cells({"dates": [0, 86400 * 365]}, [None, FAR, -FAR])
_OBJECTS = {
    "integers": [1, 2, 0, 3],
    "floats": [1.5, 0.25, -2.0],
    "truths": [True, False],
    "words": ["x", "y"],
    "texts of numbers": ["1", "2.5"],
    "decimals": [Decimal("1.5"), Decimal("2.00")],
    "NumPy's": [np.float64(1.5), np.int64(2)],
}
OBJECTS = Cells(
    _OBJECTS,
    [
        *(None, float("nan"), float("inf"), -0.0, 2.0**53 + 2, 10**400, -(10**30), 1 + 2j),
        *("x", "", " 1", "1_000", "True", "Zürich", "\ud800", "9" * 400, "y" * HUGE, "NA"),
        *(True, Decimal("7.00"), Decimal("NaN"), Decimal("1e999999"), b"1", b"\xff"),
        *(object(), [1], (), {"a": 1}, range(3), np.float32(0.5), np.bool_(True), np.array([1, 2])),
        *(pd.NA, pd.NaT, np.datetime64("NaT"), datetime(2026, 1, 1, tzinfo=UTC), uuid.UUID(int=7)),
        *(Decimal("sNaN"), Decimal("-NaN12"), Hostile(), Color.RED, Fraction(1, 2), datetime.max),
        *(np.float16(0.1), np.longdouble(0.1), "1\udfff", b"1\xff", complex("nan"), datetime.min),
    ],
)


def _distinct(cells: Cells) -> Cells:
    """Return cells that pandas' categories accept and distinguish by their hashes."""
    known: set[Any] = set()

    def new(cell: Any) -> bool:
        if isinstance(cell, list | dict | tuple | range | np.ndarray | Hostile):
            return False
        if (isinstance(cell, Decimal) and cell.is_snan()) or cell in known:
            return False
        if isinstance(cell, int) and abs(cell) > 10**300:  # they are compared with floats
            return False
        known.add(cell)
        return True

    clean = {kind: list(filter(new, held)) for kind, held in cells.clean.items()}
    return Cells({kind: held for kind, held in clean.items() if held}, list(filter(new, cells.odd)))


CATEGORIES = _distinct(OBJECTS)
LISTS = Cells(
    _OBJECTS, [*OBJECTS.odd, Row([1]), Row([]), Row(None), Row("x"), Row([1, 2, 3, 4]), Row(7)]
)
DYNAMIC = Cells(  # a column of SQLite holds what it is given, whatever it declares
    {
        "whole numbers": [1, 2, 0, 3],
        "floats": [1.5, 0.25, -2.5],
        "words": ["x", "y"],
        "texts of numbers": ["1", "2.5"],
        "truths": [True, False],
    },
    [
        *(None, "x", "", " 1", "1_000", "1e3", "True", "Zürich", "9" * 400, "y" * HUGE, "NA"),
        *(float("inf"), -0.0, 1.7e308, 5e-324, 2.0**53 + 2, 2**63 - 1, -(2**63), 2**53 + 1),
        *(b"x", b"", b"\xff" * 9, 0, 1, 1.0, "1.0"),
    ],
)
SHEET = Cells(  # as programs write them, and as XML that none should write
    {
        "whole numbers": [1, 2, 0, 3],
        "decimals": [1.5, 0.25, -2.5],
        "truths": [True, False],
        "words": ["x", "y"],
        "texts of numbers": ["1", "2.5"],
        "dates": [date(2024, 3, 8), datetime(1970, 1, 2, 23, 30)],
    },
    [
        *(None, "x", " ", " 1", "1_000", "1e3", "True", "Zürich", "9" * 400, "y" * 32_000, "NA"),
        *("#N/A", "nan", "\u202e", "a\nb", UUIDS[0], -999, -0.0, 1.7e308, 5e-324, 2.0**53 + 2),
        *(10**30, time(5, 30), datetime(1899, 12, 31), datetime(9999, 12, 31)),
        *CELLS[::5],  # one in five of the malformed ones; `workbooks` tries them all
    ],
    2.0**53,
)
# Of statistics programs: numbers beyond theirs are their missing values, texts are short.
STORED = Cells(
    FLOATS.clean, [None, float("nan"), -0.0, -999.0, 5e-324, 2.0**53, 2.0**53 + 2, 1e6], 2.0**53
)


def shorter(cells: Cells, length: int) -> Cells:
    """Return the texts that have fewer letters than `length`."""
    return Cells(cells.clean, [text for text in cells.odd if text and len(text) < length])


SHORT = Cells(TEXTS.clean, [text for text in TEXTS.odd if text is not None and len(text) < 1000])
DAYS = Cells({"dates": [22_000.0, 3650.0]}, [None, float("nan"), 1e300, -1e300, 0.5, -1e7])
