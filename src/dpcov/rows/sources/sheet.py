"""The rows of a sheet, in the order of the file: each row is read by itself.

A row is a `row` element with a cell that holds something in a column that counts: a value, a
formula or an inline text, whatever it says. No other row, no row number and no other cell has a
part in that.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from dpcov.rows.sources.ooxml import OTHER, SPREADSHEET, Reader
from dpcov.rows.sources.sheet_cells import Cell, Text, Values

ROW = "worksheet/sheetData/row"
CELL = f"{ROW}/c"
VALUE, FORMULA, INLINE = f"{CELL}/v", f"{CELL}/f", f"{CELL}/is"
INLINE_TEXTS = (f"{INLINE}/t", f"{INLINE}/r/t")
NOWHERE = 2**20  # a column beyond any sheet
_REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_NUMBER = re.compile(r"[0-9]{1,7}")


class SheetRow(NamedTuple):
    """A row: its number, and what cells say by their columns, None where that is missing."""

    number: int
    cells: dict[int, Cell]


class SheetReader(Reader):
    """Rows of a sheet, until they are taken.

    Parameters
    ----------
    values : what cells say.
    counted : columns whose cells make a row; None for all.
    wanted : columns whose cells are decoded; None for all.

    Attributes
    ----------
    rows : those that are read and not yet taken.
    letters : how many letters the texts of all rows so far have.

    """

    def __init__(
        self,
        values: Values,
        counted: Collection[int] | None = None,
        wanted: Collection[int] | None = None,
    ) -> None:
        super().__init__(SPREADSHEET, (VALUE, FORMULA, *INLINE_TEXTS))
        self.rows: list[SheetRow] = []
        self.letters = 0
        self._values = values
        self._counted = counted
        self._wanted = wanted
        self._unnumbered = 0
        self._number = 0
        self._cells: dict[int, Cell] = {}
        self._column = -1
        self._cell: dict[str, str] = {}
        self._held: list[str] = []  # the states that the open cell went through
        self._text = Text()

    def take(self) -> list[SheetRow]:
        """Return the rows that are read, and forget them."""
        taken, self.rows = self.rows, []
        return taken

    def opened(self, attributes: dict[str, str]) -> None:
        state = self.state
        if state == CELL:
            self._cell, self._held, self._text = attributes, [], Text()
            self._column = self._place(attributes.get("r"))
        elif state in (VALUE, INLINE, FORMULA):
            self._held.append(state)
        elif state == ROW:
            self._number = self._numbered(attributes.get("r", ""))
            self._cells, self._column = {}, -1
        elif state == OTHER and self._outer[-1] == VALUE:
            self._held.append(OTHER)

    def text(self, data: str) -> None:
        inline = self._cell.get("t") == "inlineStr"
        if self.state in INLINE_TEXTS if inline else self.state == VALUE:
            self._text.add(data)

    def closed(self) -> None:
        if self.state == CELL:
            self._fill()
        elif self.state == ROW:
            self.rows.append(SheetRow(self._number, self._cells))

    def _numbered(self, stated: str) -> int:
        """Return the number that a row states, or its place among rows that state none."""
        if _NUMBER.fullmatch(stated):
            return int(stated)
        self._unnumbered += 1
        return self._unnumbered

    def _place(self, reference: str | None) -> int:
        """Return the column of a reference, whatever row it states; of none, the next column."""
        if reference is None:
            return self._column + 1
        found = _REFERENCE.fullmatch(reference)
        column = 0
        for letter in found[1] if found else "":
            column = column * 26 + ord(letter) - ord("A") + 1
        return column - 1 if found else NOWHERE

    def _fill(self) -> None:
        """Put a cell into its row; a column that two cells of a row fill is missing there."""
        column, held = self._column, self._held
        if not held or (
            column == NOWHERE if self._counted is None else column not in self._counted
        ):
            return
        if column in self._cells or (self._wanted is not None and column not in self._wanted):
            self._cells[column] = None
            return
        kind = self._cell.get("t", "n")
        once = [INLINE if kind == "inlineStr" else VALUE]
        known = [state for state in held if state != FORMULA] == once
        text, style = self._text.joined(), self._cell.get("s", "0")
        cell = self._values.of(kind, style, text) if known else None
        self._cells[column] = cell
        self.letters += len(cell) if isinstance(cell, str) else 0
