"""Sheets of Excel workbooks.

A row is a row of the sheet below its header that holds something in a column with a name. A blank
one is none: a sheet ends with its last cell, so that otherwise one person's cells could decide how
many blank rows there are before them. Each row, and each cell, is read by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyarrow as pa

from dpcov.core.installing import library
from dpcov.core.printable import shown
from dpcov.core.spelling import asked
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.schema import FileOptions, Kind
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.ids import EXACT, IdColumn
from dpcov.rows.sources.objects import texts_of
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.text import NO_COLUMNS, is_header, no_header

Cells = tuple[Any, ...]

FORMULAS = (
    "Cells of a workbook are what was last computed: a formula that reads rows of several persons "
    "mixes them, and then the guarantee does not hold."
)


PACKED = 100  # times: what repeats itself as much as sheets can, rows of zeros, is packed 15 times
LARGE = 2**26  # bytes of a part, unpacked
BOMB = (
    "The workbook is packed far more than a table can be, and might fill the memory. If it is one "
    "all the same, save it as CSV."
)


class WorkbookSource(Source):
    """One sheet of an .xlsx file, streamed; columns are named by its header or by the schema.

    Parameters
    ----------
    path : of the workbook.
    sheet : its name; needed where there are several.
    options : whether there is a header, and how many rows are skipped above.
    declared : names of the columns of a sheet without a header, in order.

    """

    door = "Excel"
    costly = True
    caveat = FORMULAS
    rows_are_lines = False  # whether a row is blank is up to its cells

    def __init__(
        self, path: Path, sheet: str | None, options: FileOptions, declared: tuple[str, ...]
    ) -> None:
        self._path = path
        self._sheet = sheet
        self._skipped = options.skip_lines
        first = quiet(
            f"{shown(path)!r} is not a complete Excel workbook (cut off, protected by a password, "
            "or of another format). Nothing was spent."
        )(self._first)()
        if options.header:
            self._skipped += 1
            self._places = _named(first, shown(path))
        elif declared:
            self._places = {name: at for at, name in enumerate(declared)}
        else:
            raise SourceError(f"{NO_COLUMNS}.")
        self.names = tuple(self._places)
        self.types = dict.fromkeys(self.names, pa.large_string())

    def _first(self) -> Cells:
        with self._rows(None) as rows:
            return next(rows, ())

    @contextmanager
    def _rows(self, width: int | None) -> Iterator[Iterator[Cells]]:
        """Rows below those that are skipped, cut to so many columns."""
        openpyxl = library("openpyxl", "Excel workbooks need their library", SourceError)
        with ZipFile(self._path) as parts:
            for part in parts.infolist():
                if part.file_size > max(LARGE, PACKED * part.compress_size):
                    raise SourceError(BOMB)
        book = openpyxl.load_workbook(self._path, read_only=True, data_only=True, keep_links=False)
        try:
            sheets = {one.title: one for one in book.worksheets}
            if self._sheet is None and len(sheets) > 1:
                raise SourceError(
                    f"A workbook of several sheets needs the name of one: {asked('table', 'NAME')}."
                )
            name = next(iter(sheets), "") if self._sheet is None else self._sheet
            if name not in sheets:
                raise SourceError(f"The workbook has no sheet {name!r} with cells.")
            sheets[name].reset_dimensions()  # what a program says of them may be wrong
            first = self._skipped + 1
            yield sheets[name].iter_rows(min_row=first, max_col=width, values_only=True)
        finally:
            book.close()

    def kinds(self) -> dict[str, Kind]:
        """Tell nothing of the columns: what their cells look like is not public."""
        return dict.fromkeys(self.names, "unknown")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        places, size = [*self._places.values()], batch_rows(len(columns))
        with self._rows(max(places) + 1) as rows:
            part: list[Cells] = []
            for row in rows:
                if any(row[at] not in (None, "") for at in places):
                    part.append(row)
                if len(part) == size:
                    yield self._batch(part, columns)
                    part = []
            if part:
                yield self._batch(part, columns)

    def _batch(self, rows: list[Cells], columns: Sequence[str]) -> pa.RecordBatch:
        arrays = []
        for name in columns:
            cells, ids = (row[self._places[name]] for row in rows), isinstance(name, IdColumn)
            arrays.append(texts_of(map(_sure, cells) if ids else cells, ids=ids))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _sure(cell: Any) -> Any:
    """A cell as an id: numbers of a sheet are float64, however many digits are written."""
    return None if isinstance(cell, int | float) and abs(cell) > EXACT else cell


def _named(header: Cells, file: str) -> dict[str, int]:
    """Columns by name and place; those without a name are left out."""
    cells = {at: cell for at, cell in enumerate(header) if cell is not None}
    names = [cell.strip() for cell in cells.values() if isinstance(cell, str)]
    if len(names) < len(cells) or not is_header(names):
        raise SourceError(no_header(f"The first row of {file!r}"))
    return dict(zip(names, cells, strict=True))
