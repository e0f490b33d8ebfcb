"""Values of spreadsheet cells: numbers, dates, texts and truth values.

Each cell is decoded on its own. The result depends on the type, style and text of the cell, and on
shared data of the workbook. Shared data are texts, number formats and the date system. A cell that
cannot be decoded is missing.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

from dpcov.rows.dates import DAY, moment_of
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.sources.ooxml import SPREADSHEET, Found, Reader

Cell = float | str | bool | datetime | None
Shown = Literal["number", "date", "time"]  # What a number format displays.

XML_BLANKS = " \t\r\n"  # Blank characters in XML.
_NUMBER_CELL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INDEX = re.compile(r"[0-9]{1,9}")
_BOOLEAN_CELLS = {"1": True, "true": True, "0": False, "false": False}
_ESCAPE = re.compile(r"_x([0-9A-Fa-f]{4})_")
_CLOCK = re.compile(r"T?([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}(?:\.[0-9]{1,9})?))?Z?")
_DURATION = re.compile(
    r"P(?:([0-9]{1,9})D)?"
    r"(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)
# Built-in date and time formats of Excel, including the formats of East Asia and Thailand.
_DATE_FORMAT_CODES = {
    *range(14, 18),
    22,
    *range(27, 32),
    36,
    *range(50, 55),
    57,
    58,
    *range(71, 75),
    77,
    81,
}
_TIME_FORMAT_CODES = {
    *range(18, 22),
    *range(32, 36),
    *range(45, 48),
    55,
    56,
    *range(75, 77),
    *range(78, 81),
}
# Parts of a format code without numbers: quoted text, an escaped letter, a fill, and a colour,
# condition or language in brackets.
_LITERAL = re.compile(r'"[^"]*"|[\\_*].|\[(?!(?:h+|m+|s+)\])[^\]]*\]|general', re.IGNORECASE)
_DAY_ZERO = {False: datetime(1899, 12, 30), True: datetime(1904, 1, 1)}
_FALSE_LEAP_DAY = 60  # Number of 29 February 1900, which Excel's date system counts by mistake.


class SharedTexts(Reader):
    """Texts that cells of all sheets share, stored as UTF-8 in one array."""

    def __init__(self) -> None:
        super().__init__(SPREADSHEET, ("sst/si/t", "sst/si/r/t"))
        self._content = bytearray()
        self._ends = array("Q", [0])
        self._text = Text()

    def opened(self, attributes: dict[str, str]) -> None:
        """Handle the start of a shared text."""
        if self.state == "sst/si":
            self._text = Text()

    def text(self, data: str) -> None:
        """Add characters to a shared text."""
        if self.state in ("sst/si/t", "sst/si/r/t"):
            self._text.add(data)

    def closed(self) -> None:
        """Store a shared text."""
        if self.state == "sst/si":
            self._content += self._text.joined().encode()
            self._ends.append(len(self._content))

    def __getitem__(self, at: int) -> str | None:
        """Return the text at an index as written in the XML; None if there is no such index."""
        if at + 1 >= len(self._ends):
            return None
        return self._content[self._ends[at] : self._ends[at + 1]].decode()


class Text:
    """Text from several pieces, which keeps at most one character more than the length limit."""

    __slots__ = ("_left", "_pieces")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._left = MAX_CELL_BYTES + 1

    def add(self, piece: str) -> None:
        """Add a piece."""
        if self._left:
            self._pieces.append(piece[: self._left])
            self._left -= len(self._pieces[-1])

    def joined(self) -> str:
        """Return the text so far."""
        return "".join(self._pieces)


class Formats(Found):
    """Reader of the number formats of cell styles."""

    def __init__(self) -> None:
        super().__init__(SPREADSHEET, "styleSheet/numFmts/numFmt", "styleSheet/cellXfs/xf")

    def of_styles(self) -> list[Shown]:
        """Return what each style displays, in the order of the styles."""
        formats, styles = self.by_path.values()
        codes = {one.get("numFmtId", ""): one.get("formatCode", "") for one in formats}
        return [_shown_by(one.get("numFmtId", "0"), codes) for one in styles] or ["number"]


def _shown_by(ident: str, codes: Mapping[str, str]) -> Shown:
    """Return what the number format with this id displays."""
    if ident in codes:
        return shown_by_code(codes[ident])
    number = int(ident) if _INDEX.fullmatch(ident) else 0
    return (
        "date"
        if number in _DATE_FORMAT_CODES
        else "time"
        if number in _TIME_FORMAT_CODES
        else "number"
    )


def shown_by_code(code: str) -> Shown:
    """Return what the code of a number format displays.

    The letter m means a month unless h or s is in the same section.
    """
    found: set[Shown] = set()
    for section in _LITERAL.sub("", code[:MAX_CELL_BYTES]).lower().split(";"):
        has_time = "h" in section or "s" in section or "[m" in section
        if "y" in section or "d" in section or ("m" in section and not has_time):
            found.add("date")
        elif has_time:
            found.add("time")
    return "date" if "date" in found else "time" if found else "number"


class Values:
    """Decoder of the cells of a workbook.

    Parameters
    ----------
    shared : SharedTexts
        Shared texts.
    styles : sequence of {"number", "date", "time"}
        What each style displays.
    from_1904 : bool
        True if days are counted from 1904 instead of 1900.

    """

    def __init__(self, shared: SharedTexts, styles: Sequence[Shown], from_1904: bool) -> None:
        self._shared = shared
        self._styles = styles
        self._from_1904 = from_1904

    def of(self, kind: str, style: str, text: str) -> Cell:
        """Return the value of a cell; None if it is missing or cannot be decoded.

        Parameters
        ----------
        kind : str
            Attribute t of the cell.
        style : str
            Attribute s of the cell.
        text : str
            Text of the value, or the inline text.

        Returns
        -------
        float, str, bool, datetime or None

        """
        if kind in ("str", "inlineStr"):
            return unescaped(text)
        stated = text.strip(XML_BLANKS)
        if kind == "s":
            raw = self._shared[int(stated)] if _INDEX.fullmatch(stated) else None
            return None if raw is None else unescaped(raw)
        if kind == "b":
            return _BOOLEAN_CELLS.get(stated)
        shown = self._shown(style)
        if kind == "d" and shown is not None:
            return self._stated_date(stated, shown)
        return self._number(stated, shown) if kind == "n" and shown is not None else None

    def _shown(self, style: str) -> Shown | None:
        """Return what a style displays; None for an unknown style."""
        at = int(style) if _INDEX.fullmatch(style) else len(self._styles)
        return self._styles[at] if at < len(self._styles) else None

    def _number(self, stated: str, shown: Shown) -> Cell:
        """Return a number, or a date if the style displays dates."""
        number = float(stated) if _NUMBER_CELL.fullmatch(stated) else math.inf
        if not math.isfinite(number):
            return None
        return _date_of(number, self._from_1904) if shown == "date" else number

    def _stated_date(self, stated: str, shown: Shown) -> Cell:
        """Return a date that is written as text.

        A time of day or a duration becomes a number of days.
        """
        days = _days_of(stated)
        moment = None if days is not None else moment_of(stated)
        if moment is None:
            return days
        found = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=moment)
        found = found.replace(tzinfo=None)
        return _serial_of(found, self._from_1904) if shown == "time" else found


def unescaped(text: str) -> str | None:
    """Replace codes such as `_x0000_` by their characters; return None if the text is too long."""
    if len(text) > MAX_CELL_BYTES:
        return None
    if "_x" not in text:
        return text
    found = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _days_of(stated: str) -> float | None:
    """Return the number of days of a time of day or a duration; None for any other text."""
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
    """Return the number of days of a date whose format displays only a time."""
    days = (moment - _DAY_ZERO[from_1904]) / timedelta(microseconds=DAY)
    early = not from_1904 and 1 <= days < _FALSE_LEAP_DAY + 1
    return days - early
