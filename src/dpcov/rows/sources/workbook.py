"""Source of sheets in Excel workbooks.

A row of the table is a row of the sheet below its header with at least one nonempty cell in a named
column. Rows have the order of the file. Blank rows do not count, because programs write formatted
blank rows below a table. Each row and each cell is read on its own.
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
from dpcov.rows.sources.text import NO_COLUMNS_MESSAGE, is_header, no_header

COMPUTED_CELLS_NOTE = (
    "The cells of a workbook are the last computed values: if a formula combines rows of "
    "several persons, the guarantee does not hold. dpcov refuses a workbook with malformed "
    "XML before it spends budget, so this refusal depends on the cells."
)
MAX_BATCH_CHARACTERS = 2**23  # Maximum number of characters in the texts of a batch.
_PART_ATTRIBUTES = (  # Attributes that name the part of a sheet.
    "http://schemas.openxmlformats.org/officeDocument/2006/relationships id",  # Transitional
    "http://purl.oclc.org/ooxml/officeDocument/relationships id",  # Strict
)


class WorkbookSource(Source):
    """Source of one sheet of an .xlsx file, read as a stream.

    The header or the schema names the columns.

    Parameters
    ----------
    path : Path
        Workbook.

    sheet : str or None
        Name of the sheet; required if there are several.

    options : FileOptions
        States whether there is a header, and how many rows above it are skipped.

    declared : tuple of str
        Names of the columns of a sheet without a header, in order.

    """

    kind = "Excel"
    costly = True
    writes_numbers = True
    caveat = COMPUTED_CELLS_NOTE
    rows_are_lines = False  # The cells determine whether a row is blank.

    def __init__(
        self, path: Path, sheet: str | None, options: FileOptions, declared: tuple[str, ...]
    ) -> None:
        self._path = path
        self._skipped = options.skip_lines
        self._has_header = options.header
        header = quiet(
            f"{shown(path)!r} is not a complete Excel workbook. Check that the file is "
            "complete and has no password. Nothing was spent."
        )(self._opened)(sheet)
        if options.header:
            self._places = _named(header, shown(path))
        elif declared:
            self._places = {name: at for at, name in enumerate(declared)}
        else:
            raise SourceError(f"{NO_COLUMNS_MESSAGE}.")
        self.names = tuple(self._places)
        self.types = dict.fromkeys(self.names, pa.large_string())

    @contextmanager
    def _package(self) -> Iterator[Package]:
        """Open the archive."""
        with ZipFile(self._path) as archive:
            yield Package(archive)

    def _opened(self, sheet: str | None) -> dict[int, Cell]:
        """Check the whole sheet and return the cells of its header."""
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
                for ident in (one[name] for name in _PART_ATTRIBUTES if name in one)
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
        """Check that the whole sheet is well formed, and return the cells of the header."""
        reader, header = SheetReader(self._values), None
        for _ in package.read(self._part, reader, held=False):
            if header is None:
                header = next((row.cells for row in reader.take() if self._is_below(row)), None)
            if header is not None or not self._has_header:
                reader.pass_over()
                reader.take()
        return header or {}

    def _is_below(self, row: SheetRow) -> bool:
        """Return True if a row is below the skipped rows."""
        return row.number > self._skipped

    def kinds(self) -> dict[str, Kind]:
        """Return the kind "unknown" for each column, because the cells are not public."""
        return dict.fromkeys(self.names, "unknown")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches of texts."""
        size, part, letters = batch_rows(len(columns)), list[dict[int, Cell]](), 0
        wanted = {self._places[name] for name in columns}
        reader = SheetReader(self._values, frozenset(self._places.values()), wanted)
        with closing(self._rows(reader)) as rows:
            for row in rows:
                part.append(row)
                if len(part) == size or reader.letters - letters > MAX_BATCH_CHARACTERS:
                    yield self._batch(part, columns)
                    part, letters = [], reader.letters
            if part:
                yield self._batch(part, columns)

    def _rows(self, reader: SheetReader) -> Generator[dict[int, Cell]]:
        """Yield the cells of all rows; below a header, row numbers do not matter."""
        is_table = False
        with self._package() as package:
            for _ in package.read(self._part, reader, held=False):
                for row in reader.take():
                    if row.cells and (is_table or (not self._has_header and self._is_below(row))):
                        yield row.cells
                    is_table |= self._has_header and self._is_below(row)

    def _batch(self, rows: list[dict[int, Cell]], columns: Sequence[str]) -> pa.RecordBatch:
        """Return some rows as an Arrow batch."""
        arrays = []
        for name in columns:
            cells = (row.get(self._places[name]) for row in rows)
            arrays.append(texts_of(cells, ids=isinstance(name, IdColumn)))
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _chosen(sheet: str | None, sheets: Iterable[str]) -> str:
    """Return the name of the requested sheet, or of the only sheet."""
    names = [*sheets]
    if sheet is None and len(names) > 1:
        raise SourceError(
            "The workbook has several sheets, so dpcov needs the name of one. Add "
            f"{asked('table', 'NAME')}."
        )
    name = next(iter(names), "") if sheet is None else sheet
    if name not in names:
        raise SourceError(
            f"The workbook has no sheet {name!r} with cells. Check the name of the sheet."
        )
    return name


def _named(header: dict[int, Cell], file: str) -> dict[str, int]:
    """Return the position of each named column; columns without a name are left out."""
    cells = {at: cell for at, cell in header.items() if cell is not None}
    names = {at: cell.strip() for at, cell in cells.items() if isinstance(cell, str)}
    named = {at: name for at, name in sorted(names.items()) if name}
    if len(names) < len(cells) or not is_header([*named.values()]):
        raise SourceError(no_header(f"The first row of {file!r}"))
    return {name: at for at, name in named.items()}
