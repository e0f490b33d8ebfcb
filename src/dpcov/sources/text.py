"""CSV and TSV files, also compressed: one line is one row, whatever it holds.

A line that can't be a row (stray quotes, a wrong number of cells) counts as a row whose cells are
all missing. So no line can change how another is read: quoted cells may not contain line
ends, and quoting is checked line by line before the parser sees it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.csv as pacsv

from dpcov.errors import SourceError
from dpcov.schema import FileOptions
from dpcov.sources.base import batch_rows, kind_of

CHUNK = 2**20
LONGEST_LINE = 2**24


class TextSource:
    """A delimited text file, streamed; columns are named by its header or by the schema."""

    rereadable = True

    def __init__(self, path: Path, options: FileOptions, declared: tuple[str, ...]) -> None:
        self._path = path
        self._options = options
        with self._lines() as lines:
            if options.header:
                self.names = self._header(lines.readline())
            elif declared:
                self.names = declared
            else:
                first = lines.readline()
                self.names = tuple(f"x{j}" for j in range(len(self._cells(first))))

    def _header(self, line: bytes) -> tuple[str, ...]:
        names = tuple(name.strip() for name in self._cells(line))
        where = f"The first line of {str(self._path)!r}"
        if not any(names):
            raise SourceError(f"{where} is empty: a header with the columns' names is needed.")
        if len(set(names)) < len(names) or any(not name or _is_number(name) for name in names):
            raise SourceError(
                f"{where} is no header: its cells are not distinct names. If the file has none, "
                "set header = false under [file] in the schema (or --no-header for a draft)."
            )
        return names

    def _cells(self, line: bytes) -> list[str]:
        text = line.decode("utf-8-sig").rstrip("\r\n")
        separator = self._options.separator
        if not self._options.quote:
            return text.split(separator)
        return next(csv.reader([text], delimiter=separator), [])

    def _lines(self) -> _Lines:
        gzip = self._options.compression == "gzip" or (
            self._options.compression == "auto" and self._path.name.lower().endswith(".gz")
        )
        stream = pa.input_stream(str(self._path), compression="gzip" if gzip else None)
        lines = _Lines(stream, self._options)
        for _ in range(self._options.skip_lines):
            lines.readline()
        return lines

    def kinds(self) -> dict[str, Literal["numeric", "categorical"]]:
        with self._data_lines() as lines:
            try:
                sample = io.BytesIO(lines.read(CHUNK))
                table = pacsv.read_csv(sample, **self._parsing(pacsv.ConvertOptions(), lines))
            except pa.ArrowInvalid:
                return dict.fromkeys(self.names, "categorical")
        return {field.name: kind_of(field.type) for field in table.schema}

    def _data_lines(self) -> _Lines:
        lines = self._lines()
        if self._options.header:
            lines.readline()
        return lines

    def _parsing(self, convert: pacsv.ConvertOptions, lines: _Lines) -> dict[str, object]:
        return {
            "read_options": pacsv.ReadOptions(
                column_names=list(self.names), block_size=CHUNK, use_threads=False
            ),
            "parse_options": pacsv.ParseOptions(
                delimiter=self._options.separator,
                quote_char='"' if self._options.quote else False,
                invalid_row_handler=lines.reject,
            ),
            "convert_options": convert,
        }

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = list(columns)
        convert = pacsv.ConvertOptions(
            include_columns=wanted,
            column_types=dict.fromkeys(wanted, pa.string()),
            check_utf8=False,
            strings_can_be_null=False,
        )
        with self._data_lines() as lines:
            if not lines.at_end():
                with pacsv.open_csv(lines, **self._parsing(convert, lines)) as reader:
                    yield from reader
        size = batch_rows(len(wanted))
        for start in range(0, lines.rejected, size):
            absent = pa.nulls(min(size, lines.rejected - start), pa.string())
            yield pa.RecordBatch.from_arrays([absent] * len(wanted), names=wanted)


class _Lines(io.RawIOBase):
    """Bytes of a text file in whole lines, without comments and without lines of stray quotes.

    `rejected` counts the lines that are no row: those dropped here and those that the parser
    hands to `reject`.
    """

    def __init__(self, stream: pa.NativeFile, options: FileOptions) -> None:
        super().__init__()
        self.rejected = 0
        self._stream = stream
        self._ready = b""
        self._tail = b""
        self._comment = None if options.comment is None else options.comment.encode()
        self._quote = options.quote
        separator = re.escape(options.separator.encode())
        cell = rb'(?:"(?:[^"]|"")*"|[^"%s][^%s]*|)' % (separator, separator)
        self._row = re.compile(rb"%s(?:%s%s)*\Z" % (cell, separator, cell), re.DOTALL)

    def reject(self, _: object) -> Literal["skip"]:
        self.rejected += 1
        return "skip"

    def readable(self) -> bool:
        return True

    def at_end(self) -> bool:
        return not self._fill()

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size != 0 and self._fill():
            part = self._ready if size < 0 else self._ready[:size]
            self._ready = self._ready[len(part) :]
            size -= len(part) if size > 0 else 0
            parts.append(part)
        return b"".join(parts)

    def readline(self, size: int | None = -1) -> bytes:
        if not self._fill():
            return b""
        line = self._ready.splitlines(keepends=True)[0]
        self._ready = self._ready[len(line) :]
        return line

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _fill(self) -> bool:
        """Make sure that some bytes are ready; False at the end of the file."""
        while not self._ready:
            chunk = self._stream.read(CHUNK)
            if not chunk:
                self._ready, self._tail = self._clean(self._tail), b""
                return bool(self._ready)
            head, end, rest = chunk.rpartition(b"\n")
            if end:
                self._ready, self._tail = self._clean(self._tail + head + end), rest
            else:
                self._tail += rest
            if len(self._tail) > LONGEST_LINE:
                raise SourceError("A line of the file is longer than 16 MiB.")
        return True

    def _clean(self, text: bytes) -> bytes:
        quotes = self._quote and b'"' in text
        if not quotes and self._comment is None:
            return text
        kept = []
        for line in text.splitlines(keepends=True):
            if self._comment is not None and line.startswith(self._comment):
                continue
            if quotes and not self._row.match(line.rstrip(b"\r\n")):
                self.rejected += 1
                continue
            kept.append(line)
        return b"".join(kept)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
