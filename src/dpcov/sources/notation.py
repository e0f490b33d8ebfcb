"""Numbers as other countries write them, as plain decimals; each cell on its own."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dpcov.cells import LONGEST_CELL


@dataclass(frozen=True, slots=True)
class Notation:
    """How numbers are written: the decimal sign, and what groups thousands, if anything."""

    decimal: str
    thousands: str | None

    @property
    def plain(self) -> bool:
        """Whether numbers are plain decimals already."""
        return self.decimal == "." and self.thousands is None

    @property
    def pattern(self) -> str:
        """What a number looks like; thousands may be grouped, all of them or none."""
        whole = "[0-9]+"
        if self.thousands is not None:
            whole += f"|[0-9]{{1,3}}({re.escape(self.thousands)}[0-9]{{3}})+"
        sign = re.escape(self.decimal)
        exponent = "([eE][+-]?[0-9]{1,3})?"
        return rf"^[+-]?(({whole})({sign}[0-9]*)?|{sign}[0-9]+){exponent}$"

    def plainly(self, texts: pa.Array) -> pa.Array:
        """Cells as plain decimals; null where a cell is no number in this notation."""
        trimmed = pc.ascii_trim_whitespace(texts)
        fits = pc.and_(
            pc.match_substring_regex(trimmed, self.pattern),
            pc.less_equal(pc.binary_length(texts), LONGEST_CELL),
        )
        found = pc.if_else(fits, trimmed, None)
        if self.thousands is not None:
            found = pc.replace_substring(found, self.thousands, "")
        return pc.replace_substring(found, self.decimal, ".")
