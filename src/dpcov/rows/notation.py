"""Notation of numbers in texts: the decimal sign and the sign that groups digits.

The result for a cell depends on no other cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from dpcov.rows.numbers import MAX_CELL_BYTES, trimmed, with_hyphens

# Spaces that group thousands. Each one matches all of them.
GROUPING_SPACES = "\u00a0\u2007\u2009\u202f"


@dataclass(frozen=True, slots=True)
class Notation:
    """Notation of numbers.

    Attributes
    ----------
    decimal : str
        Decimal sign.
    thousands : str or None
        Character that groups digits by three.

    """

    decimal: str
    thousands: str | None

    @property
    def plain(self) -> bool:
        """True if numbers in this notation are plain decimals."""
        return self.decimal == "." and self.thousands is None

    @property
    def pattern(self) -> str:
        """Regular expression of a number; its thousands are grouped everywhere or nowhere."""
        whole = "[0-9]+"
        if self.thousands is not None:
            whole += f"|[0-9]{{1,3}}({self._grouping}[0-9]{{3}})+"
        sign = re.escape(self.decimal)
        exponent = "([eE][+-]?[0-9]{1,3})?"
        return rf"^[+-]?(({whole})({sign}[0-9]*)?|{sign}[0-9]+){exponent}$"

    @property
    def _grouping(self) -> str:
        """Regular expression of the character that groups thousands."""
        thousands = self.thousands or ""
        if thousands == " " or thousands in GROUPING_SPACES:
            return f"[{' ' * (thousands == ' ')}{GROUPING_SPACES}]"
        return re.escape(thousands)

    def codes(self, missing: Sequence[str]) -> tuple[str, ...]:
        """Convert missing-value codes to plain decimals; leave out codes that are no numbers."""
        if self.plain:
            return ()
        found = self.plainly(pa.array(missing, pa.string())).to_pylist()
        return tuple(code for code in found if code is not None)

    def plainly(self, texts: pa.Array) -> pa.Array:
        """Return cells as plain decimals; null if a cell is not a number in this notation.

        Parameters
        ----------
        texts : pyarrow.Array of string, length n
            Cells.

        Returns
        -------
        pyarrow.Array of string, length n

        """
        written = with_hyphens(trimmed(texts))
        fits = pc.and_(
            pc.match_substring_regex(written, self.pattern),
            pc.less_equal(pc.binary_length(texts), MAX_CELL_BYTES),
        )
        found = pc.if_else(fits, written, None)
        if self.thousands is not None:
            found = pc.replace_substring_regex(found, self._grouping, "")
        return pc.replace_substring(found, self.decimal, ".")
