"""The reader of workbooks that dpcov once had, with openpyxl: a control."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa

from dpcov.rows.cells import batch_rows
from dpcov.rows.schema import FileOptions
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.objects import texts_of
from dpcov.rows.sources.workbook import COMPUTED_CELLS_NOTE

Cells = tuple[Any, ...]


class OldWorkbookSource(Source):
    """The first sheet of a workbook with a header."""

    kind = "Excel"
    costly = True
    caveat = COMPUTED_CELLS_NOTE
    rows_are_lines = False

    def __init__(self, path: Path, sheet: str | None, options: FileOptions, _: object) -> None:
        self._path = path
        with self._rows(None) as rows:
            self._places = {str(name): at for at, name in enumerate(next(rows, ()))}
        self.names = tuple(self._places)
        self.types = dict.fromkeys(self.names, pa.large_string())

    @contextmanager
    def _rows(self, width: int | None) -> Iterator[Iterator[Cells]]:
        book = openpyxl.load_workbook(self._path, read_only=True, data_only=True, keep_links=False)
        try:
            sheet = book.worksheets[0]
            sheet.reset_dimensions()
            first = 1 if width is None else 2
            yield sheet.iter_rows(min_row=first, max_col=width, values_only=True)
        finally:
            book.close()

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
        arrays = [texts_of(row[self._places[name]] for row in rows) for name in columns]
        return pa.RecordBatch.from_arrays(arrays, names=list(columns))
