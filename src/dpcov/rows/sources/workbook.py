"""Sheets of Excel workbooks.

A row is a row of the sheet below its header that holds something in a column with a name, whatever
it says; rows are taken in the order of the file. A blank row is none: programs write blank rows
below a table, where only a format was set. Each row, and each cell, is read by itself.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa

from dpcov.core.printable import shown
from dpcov.core.spelling import asked
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows
from dpcov.rows.schema import FileOptions, Kind
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.ids import IdColumn
from dpcov.rows.sources.objects import texts_of
from dpcov.rows.sources.ooxml import SPREADSHEET, Found, Package
from dpcov.rows.sources.quiet import quiet
from dpcov.rows.sources.sheet import SheetReader, SheetRow
from dpcov.rows.sources.sheet_cells import Cell, Formats, SharedTexts, Values
from dpcov.rows.sources.text import NO_COLUMNS, is_header, no_header

NOT_PROTECTED = (
    "Cells of a workbook are what was last computed: a formula that reads rows of several persons "
    "mixes them, and then the guarantee does not hold. A workbook with XML that is not well formed "
    "is refused before anything is spent, so that this refusal depends on the cells."
)
MOST_LETTERS = 2**23  # of the texts of a batch
_IDS = (  # how a sheet names its part
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships id",  # Transitional
    "http://purl.oclc.org/ooxml/officeDocument/relationships id",  # Strict
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

    kind = "Excel"
    costly = True
    caveat = NOT_PROTECTED
    rows_are_lines = False  # whether a row is blank is up to its cells

    def __init__(
        self, path: Path, sheet: str | None, options: FileOptions, declared: tuple[str, ...]
    ) -> None:
        self._path = path
        self._skipped = options.skip_lines
        self._has_header = options.header
        header = quiet(
            f"{shown(path)!r} is not a complete Excel workbook (cut off, protected by a password, "
            "or of another format). Nothing was spent."
        )(self._opened)(sheet)
        if options.header:
            self._places = _named(header, shown(path))
        elif declared:
            self._places = {name: at for at, name in enumerate(declared)}
        else:
            raise SourceError(f"{NO_COLUMNS}.")
        self.names = tuple(self._places)
        self.types = dict.fromkeys(self.names, pa.large_string())

    @contextmanager
    def _package(self) -> Iterator[Package]:
        with ZipFile(self._path) as archive:
            yield Package(archive)

    def _opened(self, sheet: str | None) -> dict[int, Cell]:
        """Read what the workbook says of its sheets, check this one to its end, give its header."""
        with self._package() as package:
            main = next(
                one.part for one in package.relations("").values() if one.kind == "officeDocument"
            )
            book = Found(SPREADSHEET, "workbook/workbookPr", "workbook/sheets/sheet")
            package.read_all(main, book)
            (settings, sheets), parts = book.by_path.values(), package.relations(main)
            tables = {
                one["name"]: parts[ident].part
                for one in sheets
                for ident in (one[name] for name in _IDS if name in one)
                if ident in parts and parts[ident].kind == "worksheet"
            }
            self._part = tables[_chosen(sheet, tables)]
            formats, shared = Formats(), SharedTexts()
            for one in parts.values():
                if one.kind in ("styles", "sharedStrings"):
                    package.read_all(one.part, formats if one.kind == "styles" else shared)
            from_1904 = any(one.get("date1904") in ("1", "true") for one in settings)
            self._values = Values(shared, formats.of_styles(), from_1904)
            return self._checked(package)

    def _checked(self, package: Package) -> dict[int, Cell]:
        """Return the cells of the header, once the whole sheet has been seen to be well formed."""
        reader, header = SheetReader(self._values), None
        for _ in package.read(self._part, reader, held=False):
            if header is None:
                header = next((row.cells for row in reader.take() if self._is_below(row)), None)
            if header is not None or not self._has_header:
                reader.pass_over()
                reader.take()
        return header or {}

    def _is_below(self, row: SheetRow) -> bool:
        """Return True if a row is below the rows that are skipped."""
        return row.number > self._skipped

    def kinds(self) -> dict[str, Kind]:
        """Tell nothing of the columns: what their cells look like is not public."""
        return dict.fromkeys(self.names, "unknown")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size, part, letters = batch_rows(len(columns)), list[dict[int, Cell]](), 0
        wanted = {self._places[name] for name in columns}
        reader = SheetReader(self._values, frozenset(self._places.values()), wanted)
        with closing(self._rows(reader)) as rows:
            for row in rows:
                part.append(row)
                if len(part) == size or reader.letters - letters > MOST_LETTERS:
                    yield self._batch(part, columns)
                    part, letters = [], reader.letters
            if part:
                yield self._batch(part, columns)

    def _rows(self, reader: SheetReader) -> Generator[dict[int, Cell]]:
        """Give the cells of all rows; below a header a row's own number means nothing."""
        is_table = False
        with self._package() as package:
            for _ in package.read(self._part, reader, held=False):
                for row in reader.take():
                    if row.cells and (is_table or (not self._has_header and self._is_below(row))):
                        yield row.cells
                    is_table |= self._has_header and self._is_below(row)

    def _batch(self, rows: list[dict[int, Cell]], columns: Sequence[str]) -> pa.RecordBatch:
        arrays = []
        for name in columns:
            cells = (row.get(self._places[name]) for row in rows)
            arrays.append(texts_of(cells, ids=isinstance(name, IdColumn)))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _chosen(sheet: str | None, sheets: Iterable[str]) -> str:
    """Return the name of the sheet that is asked for, or of the only one."""
    names = [*sheets]
    if sheet is None and len(names) > 1:
        raise SourceError(
            f"A workbook of several sheets needs the name of one: {asked('table', 'NAME')}."
        )
    name = next(iter(names), "") if sheet is None else sheet
    if name not in names:
        raise SourceError(f"The workbook has no sheet {name!r} with cells.")
    return name


def _named(header: dict[int, Cell], file: str) -> dict[str, int]:
    """Return columns by name and place; those without a name are left out."""
    cells = {at: cell for at, cell in header.items() if cell is not None}
    names = {at: cell.strip() for at, cell in cells.items() if isinstance(cell, str)}
    named = {at: name for at, name in sorted(names.items()) if name}
    if len(names) < len(cells) or not is_header([*named.values()]):
        raise SourceError(no_header(f"The first row of {file!r}"))
    return {name: at for at, name in named.items()}
