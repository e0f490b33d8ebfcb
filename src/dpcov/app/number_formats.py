"""Numbers as people write them in English, German and French."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dpcov.errors import SchemaError

# Spaces that can group digits in a French number.
SPACES = " \u00a0\u2009\u202f"
_DAY_FIRST = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """Number format of a language.

    Attributes
    ----------
    name : str
        Name of the format, with an example.

    decimal : str
        Decimal sign.

    group : str
        Character between groups of three digits.

    groups : str
        All characters that can group digits in an input.

    """

    name: str
    decimal: str
    group: str
    groups: str

    def read(self, text: str) -> float:
        """Return the number that a text states.

        Parameters
        ----------
        text : str
            Number in this format.

        Returns
        -------
        float

        Raises
        ------
        SchemaError
            The text is not a finite number in this format.

        """
        typed, groups = text.strip(), re.escape(self.groups)
        whole = rf"\d{{1,3}}(?:[{groups}]\d{{3}})+|\d+"
        pattern = (
            rf"[-+]?(?:(?:{whole})(?:{re.escape(self.decimal)}\d*)?|{re.escape(self.decimal)}\d+)"
        )
        found = re.fullmatch(
            rf"({pattern})(e[-+]?\d+)?", typed.replace("\u2212", "-"), re.IGNORECASE
        )
        if found is not None:
            plain = re.sub(f"[{groups}]", "", found[1]).replace(self.decimal, ".")
            number = float(plain + (found[2] or ""))
            if math.isfinite(number):
                return number
        raise SchemaError(f"This is no number in the format {self.name}.")

    def read_whole(self, text: str, least: int, most: int) -> int:
        """Return the whole number that a text states, between `least` and `most`."""
        number = self.read(text)
        if not number.is_integer() or not least <= number <= most:
            raise SchemaError(f"State a whole number from {least} to {self.shown(most)}.")
        return int(number)

    def shown(self, number: float, digits: int = 15) -> str:
        """Return a number as text, with at most this many significant digits."""
        plain = f"{number:.{digits}g}"
        if "e" in plain:
            return plain.replace(".", self.decimal)
        whole, _, fraction = plain.partition(".")
        grouped = f"{int(whole):,}".replace(",", self.group)
        sign = "-" if whole.startswith("-") and not grouped.startswith("-") else ""
        return sign + grouped + (self.decimal + fraction if fraction else "")

    def read_date(self, text: str) -> str:
        """Return a date with the year first; German and French dates have the day first."""
        found = _DAY_FIRST.fullmatch(text.strip())
        if found is None or self.decimal == ".":
            return text.strip()
        day, _, month, year, rest = found.groups()
        return f"{year}-{int(month):02}-{int(day):02}{rest}"


FORMATS = {
    "en": NumberFormat("1,234.5 (English)", ".", ",", ","),
    "de": NumberFormat("1.234,5 (German)", ",", ".", "."),
    "fr": NumberFormat("1 234,5 (French)", ",", "\u202f", SPACES),
}


def preferred(languages: str) -> str:
    """Return the format for the languages that a browser prefers.

    Parameters
    ----------
    languages : str
        Header Accept-Language.

    Returns
    -------
    str
        Key of `FORMATS`.

    """
    for part in languages.split(","):
        language = part.strip().lower()[:2]
        if language in FORMATS:
            return language
    return "en"
