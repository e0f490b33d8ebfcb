"""Rows of a spreadsheet sheet, in the order of the file; each row is read on its own.

A row is a `row` element with at least one nonempty cell in a counted column. A cell is nonempty if
it has a value, a formula or an inline text. Other rows, row numbers and other cells do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from dpcov.rows.sources.ooxml import OTHER_STATE, SPREADSHEET, Reader
from dpcov.rows.sources.sheet_cells import Cell, Text, Values

ROW_PATH = "worksheet/sheetData/row"
CELL_PATH = f"{ROW_PATH}/c"
VALUE_PATH, FORMULA_PATH, INLINE_PATH = f"{CELL_PATH}/v", f"{CELL_PATH}/f", f"{CELL_PATH}/is"
INLINE_TEXT_PATHS = (f"{INLINE_PATH}/t", f"{INLINE_PATH}/r/t")
NO_COLUMN_NUMBER = 2**20  # Number of a column beyond any sheet.
_REFERENCE = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_ROW_NUMBER = re.compile(r"[0-9]{1,7}")


class SheetRow(NamedTuple):
    """Row of a sheet.

    Attributes
    ----------
    number : int
        Row number in the sheet.
    cells : dict of int to cell
        Value of each nonempty cell by its column; None for a missing value.

    """

    number: int
    cells: dict[int, Cell]


class SheetReader(Reader):
    """Reader of the rows of a sheet.

    Parameters
    ----------
    values : Values
        Decoder of cells.

    counted : collection of int, optional
        Columns whose cells make a row; by default all columns.

    wanted : collection of int, optional
        Columns whose cells are decoded; by default all columns.

    Attributes
    ----------
    rows : list of SheetRow
        Rows that are read and not yet taken.
    letters : int
        Number of characters in the texts of all rows so far.

    """

    def __init__(
        self,
        values: Values,
        counted: Collection[int] | None = None,
        wanted: Collection[int] | None = None,
    ) -> None:
        super().__init__(SPREADSHEET, (VALUE_PATH, FORMULA_PATH, *INLINE_TEXT_PATHS))
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
        self._held: list[str] = []  # states inside the open cell
        self._text = Text()

    def take(self) -> list[SheetRow]:
        """Return the rows that are read, and remove them."""
        taken, self.rows = self.rows, []
        return taken

    def opened(self, attributes: dict[str, str]) -> None:
        """Handle the start of an element."""
        state = self.state
        if state == CELL_PATH:
            self._cell, self._held, self._text = attributes, [], Text()
            self._column = self._place(attributes.get("r"))
        elif state in (VALUE_PATH, INLINE_PATH, FORMULA_PATH):
            self._held.append(state)
        elif state == ROW_PATH:
            self._number = self._numbered(attributes.get("r", ""))
            self._cells, self._column = {}, -1
        elif state == OTHER_STATE and self._outer[-1] == VALUE_PATH:
            self._held.append(OTHER_STATE)

    def text(self, data: str) -> None:
        """Handle the text of a value or an inline text."""
        inline = self._cell.get("t") == "inlineStr"
        if self.state in INLINE_TEXT_PATHS if inline else self.state == VALUE_PATH:
            self._text.add(data)

    def closed(self) -> None:
        """Handle the end of an element."""
        if self.state == CELL_PATH:
            self._fill()
        elif self.state == ROW_PATH:
            self.rows.append(SheetRow(self._number, self._cells))

    def _numbered(self, stated: str) -> int:
        """Return the stated number of a row, or its position among rows without a number."""
        if _ROW_NUMBER.fullmatch(stated):
            return int(stated)
        self._unnumbered += 1
        return self._unnumbered

    def _place(self, reference: str | None) -> int:
        """Return the column of a cell reference; without a reference, the next column."""
        if reference is None:
            return self._column + 1
        found = _REFERENCE.fullmatch(reference)
        column = 0
        for letter in found[1] if found else "":
            column = column * 26 + ord(letter) - ord("A") + 1
        return column - 1 if found else NO_COLUMN_NUMBER

    def _fill(self) -> None:
        """Put a cell into its row; if two cells have the same column, the value is missing."""
        column, held = self._column, self._held
        if not held or (
            column == NO_COLUMN_NUMBER if self._counted is None else column not in self._counted
        ):
            return
        if column in self._cells or (self._wanted is not None and column not in self._wanted):
            self._cells[column] = None
            return
        kind = self._cell.get("t", "n")
        once = [INLINE_PATH if kind == "inlineStr" else VALUE_PATH]
        known = [state for state in held if state != FORMULA_PATH] == once
        text, style = self._text.joined(), self._cell.get("s", "0")
        cell = self._values.of(kind, style, text) if known else None
        self._cells[column] = cell
        self.letters += len(cell) if isinstance(cell, str) else 0
