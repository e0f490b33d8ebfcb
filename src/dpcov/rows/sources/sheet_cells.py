"""What a cell of a sheet says: a number, a date, a text, a truth value, or nothing.

Each cell is decoded by itself, from its own type, style and text and from what the workbook says
for all sheets: shared texts, number formats and the date system. What can't be decoded is missing.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from dpcov.rows.cells import LONGEST_CELL
from dpcov.rows.dates import DAY, moment_of
from dpcov.rows.sources.ooxml import SPREADSHEET, Found, Reader

Cell = float | str | bool | datetime | None
Shown = Literal["number", "date", "time"]  # what a number format makes of a number

BLANKS = " \t\r\n"  # of XML
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INDEX = re.compile(r"[0-9]{1,9}")
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CLOCK = re.compile(r"T?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}(?:\.[0-9]{1,9})?))?Z?")
_DURATION = re.compile(
    r"P(?:([0-9]{1,9})D)?"
    r"(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)
# Number formats that need no code in the file, those of East Asia and Thailand among them.
_DATES = {*range(14, 18), 22, *range(27, 32), 36, *range(50, 55), 57, 58, *range(71, 75), 77, 81}
_TIMES = {*range(18, 22), *range(32, 36), *range(45, 48), 55, 56, *range(75, 77), *range(78, 81)}
# Parts of a code that show no number: quoted text, an escaped letter, a fill, and a colour, a
# condition or a language in brackets.
_LITERAL = re.compile(r'"[^"]*"|[\\_*].|\[(?!(?:h+|m+|s+)\])[^\]]*\]|general', re.IGNORECASE)
_DAY_ZERO = {False: datetime(1899, 12, 30), True: datetime(1904, 1, 1)}
_FALSE_LEAP_DAY = 60  # of 1900, which the 1900 date system counts


class SharedTexts(Reader):
    """The texts that the cells of all sheets share, as UTF-8 in one piece of memory."""

    def __init__(self) -> None:
        super().__init__(SPREADSHEET, ("sst/si/t", "sst/si/r/t"))
        self._content = bytearray()
        self._ends = array("Q", [0])
        self._text = Text()

    def opened(self, attributes: dict[str, str]) -> None:
        if self.state == "sst/si":
            self._text = Text()

    def text(self, data: str) -> None:
        if self.state in ("sst/si/t", "sst/si/r/t"):
            self._text.add(data)

    def closed(self) -> None:
        if self.state == "sst/si":
            self._content += self._text.joined().encode()
            self._ends.append(len(self._content))

    def __getitem__(self, at: int) -> str | None:
        """Return the text of this index as it is in the XML; None if there is none."""
        if at + 1 >= len(self._ends):
            return None
        return self._content[self._ends[at] : self._ends[at + 1]].decode()


class Text:
    """Pieces of one text, of which no more is held than it takes to see that it is too long."""

    __slots__ = ("_pieces", "_room")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._room = LONGEST_CELL + 1

    def add(self, piece: str) -> None:
        """Add a piece."""
        if self._room:
            self._pieces.append(piece[: self._room])
            self._room -= len(self._pieces[-1])

    def joined(self) -> str:
        """Return the text so far."""
        return "".join(self._pieces)


class Formats(Found):
    """The number formats of the styles of cells."""

    def __init__(self) -> None:
        super().__init__(SPREADSHEET, "styleSheet/numFmts/numFmt", "styleSheet/cellXfs/xf")

    def of_styles(self) -> list[Shown]:
        """Return what each style shows a number as, in the order of the styles."""
        formats, styles = self.by_path.values()
        codes = {one.get("numFmtId", ""): one.get("formatCode", "") for one in formats}
        return [_shown_by(one.get("numFmtId", "0"), codes) for one in styles] or ["number"]


def _shown_by(ident: str, codes: Mapping[str, str]) -> Shown:
    if ident in codes:
        return shown_by_code(codes[ident])
    number = int(ident) if _INDEX.fullmatch(ident) else 0
    return "date" if number in _DATES else "time" if number in _TIMES else "number"


def shown_by_code(code: str) -> Shown:
    """Return what the code of a number format shows: m is a month unless h or s is beside it."""
    found: set[Shown] = set()
    for section in _LITERAL.sub("", code[:LONGEST_CELL]).lower().split(";"):
        has_time = "h" in section or "s" in section or "[m" in section
        if "y" in section or "d" in section or ("m" in section and not has_time):
            found.add("date")
        elif has_time:
            found.add("time")
    return "date" if "date" in found else "time" if found else "number"


class Values:
    """What cells say in one workbook.

    Parameters
    ----------
    shared : the shared texts.
    styles : what each style shows a number as.
    from_1904 : whether days are counted from 1904, and not from 1900.

    """

    def __init__(self, shared: SharedTexts, styles: Sequence[Shown], from_1904: bool) -> None:
        self._shared = shared
        self._styles = styles
        self._from_1904 = from_1904

    def of(self, kind: str, style: str, text: str) -> Cell:
        """Return the value of a cell; None if it is missing or can't be decoded.

        Parameters
        ----------
        kind : its attribute t.
        style : its attribute s.
        text : of its value, or of its inline text.

        """
        if kind in ("str", "inlineStr"):
            return unescaped(text)
        stated = text.strip(BLANKS)
        if kind == "s":
            raw = self._shared[int(stated)] if _INDEX.fullmatch(stated) else None
            return None if raw is None else unescaped(raw)
        if kind == "b":
            return _TRUTHS.get(stated)
        shown = self._shown(style)
        if kind == "d" and shown is not None:
            return self._stated_date(stated, shown)
        return self._number(stated, shown) if kind == "n" and shown is not None else None

    def _shown(self, style: str) -> Shown | None:
        """Return what a style shows a number as; None for a style that the workbook lacks."""
        at = int(style) if _INDEX.fullmatch(style) else len(self._styles)
        return self._styles[at] if at < len(self._styles) else None

    def _number(self, stated: str, shown: Shown) -> Cell:
        number = float(stated) if _NUMBER.fullmatch(stated) else math.inf
        if not math.isfinite(number):
            return None
        return _date_of(number, self._from_1904) if shown == "date" else number

    def _stated_date(self, stated: str, shown: Shown) -> Cell:
        """Return a date that is written as such; a time of day or a duration counts in days."""
        days = _days_of(stated)
        moment = None if days is not None else moment_of(stated)
        if moment is None:
            return days
        found = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=moment)
        found = found.replace(tzinfo=None)
        return _serial_of(found, self._from_1904) if shown == "time" else found


def unescaped(text: str) -> str | None:
    """Return a text with its characters that XML can't hold, `_x0000_`; None if it is too long."""
    if len(text) > LONGEST_CELL:
        return None
    if "_x" not in text:
        return text
    found = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _days_of(stated: str) -> float | None:
    """Return the days of a time of day or of a duration; None for another text."""
    if (clock := _CLOCK.fullmatch(stated)) is not None:
        parts = ["0", *clock.groups("0")]
    elif (duration := _DURATION.fullmatch(stated)) is not None and any(duration.groups()):
        parts = [*duration.groups("0")]
    else:
        return None
    days, hours, minutes, seconds = map(float, parts)
    return days + (hours * 3600 + minutes * 60 + seconds) / 86_400


def _date_of(days: float, from_1904: bool) -> datetime | None:
    """Return the date of a number of days, to the millisecond; None if there is no such date."""
    whole, rest = divmod(days, 1)
    late = False
    if not from_1904:
        if whole in (0, _FALSE_LEAP_DAY):
            return None
        late = 0 < whole < _FALSE_LEAP_DAY
    try:
        passed = timedelta(days=whole + late, milliseconds=round(rest * (DAY // 1000)))
        return _DAY_ZERO[from_1904] + passed
    except OverflowError:
        return None


def _serial_of(moment: datetime, from_1904: bool) -> float:
    """Return the number of days that a date stands for if its format shows a time only."""
    days = (moment - _DAY_ZERO[from_1904]) / timedelta(microseconds=DAY)
    early = not from_1904 and 1 <= days < _FALSE_LEAP_DAY + 1
    return days - early
