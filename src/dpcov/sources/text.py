"""CSV and TSV files, also compressed: one line is one row, whatever it holds.

A line that can't be a row (stray quotes, a wrong number of cells, more than a megabyte) counts as
a row whose cells are all missing. So no line can change how another is read: quoted cells may not
contain line ends, and quoting is checked line by line before the parser sees it.
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
from dpcov.schema import FileOptions, Kind
from dpcov.sources.base import batch_rows, kind_of
from dpcov.sources.quiet import quiet

CHUNK = 2**20
LONGEST_LINE = CHUNK - 16  # so that a block of the parser always holds a line end
_LINE_END = re.compile(rb"\r\n?|\n")
_BYTE_ORDER_MARKS = re.compile(rb"(^|[\r\n])(?:\xef\xbb\xbf)+")


class TextSource:
    """A delimited text file, streamed; columns are named by its header or by the schema."""

    rereadable = True

    def __init__(self, path: Path, options: FileOptions, declared: tuple[str, ...]) -> None:
        self.unfit: dict[str, str] = {}
        self._path = path
        self._options = options
        with self._lines() as lines:
            if options.header:
                self.names = self._header(lines.head())
            elif declared:
                self.names = declared
            else:
                first = self._cells(lines.head().decode(errors="replace"))
                self.names = tuple(f"x{j}" for j in range(len(first)))

    def _header(self, line: bytes) -> tuple[str, ...]:
        where = f"The first line of {str(self._path)!r}"
        try:
            names = tuple(name.strip() for name in self._cells(line.decode()))
        except UnicodeDecodeError:
            raise SourceError(f"{where} is not UTF-8 text.") from None
        if not any(names):
            raise SourceError(f"{where} is empty: a header with the columns' names is needed.")
        if len(set(names)) < len(names) or any(not name or _is_number(name) for name in names):
            raise SourceError(
                f"{where} is no header: its cells are not distinct names. If the file has none, "
                "set header = false under [file] in the schema (or --no-header for a draft)."
            )
        return names

    def _cells(self, line: str) -> list[str]:
        text = line.rstrip("\r\n")
        separator = self._options.separator
        if not self._options.quote:
            return text.split(separator)
        return next(csv.reader([text], delimiter=separator), [])

    def _lines(self) -> _Lines:
        gzip = self._options.compression == "gzip" or (
            self._options.compression == "auto" and self._path.name.lower().endswith(".gz")
        )
        self._file = pa.OSFile(str(self._path))
        stream = pa.CompressedInputStream(self._file, "gzip") if gzip else self._file
        lines = _Lines(stream, self._options)
        for _ in range(self._options.skip_lines):
            lines.raw_line()
        return lines

    @quiet("The data can't be read.")
    def kinds(self) -> dict[str, Kind]:
        with self._data_lines() as lines:
            try:
                sample = lines.read(CHUNK)
                if not lines.at_end():
                    sample = sample[: 1 + max(sample.rfind(b"\n"), sample.rfind(b"\r"))]
                parsing = self._parsing(pacsv.ConvertOptions(), lines)
                table = pacsv.read_csv(io.BytesIO(sample), **parsing)
            except pa.ArrowInvalid:
                return dict.fromkeys(self.names, "categorical")
        return {field.name: kind_of(field.type) for field in table.schema}

    @property
    def share(self) -> float:
        """Of the file's bytes."""
        if self._file.closed:
            return 1.0
        return float(self._file.tell() / max(1, self._file.size()))

    def _data_lines(self) -> _Lines:
        lines = self._lines()
        if self._options.header:
            lines.head()
        lines.width = len(self.names)
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
    hands to `reject`, which must be valid UTF-8; so where a line is not, its cells are counted
    here (there are to be `width`).
    """

    def __init__(self, stream: pa.NativeFile, options: FileOptions) -> None:
        super().__init__()
        self.rejected = 0
        self.width = 0
        self._stream = stream
        self._ready = b""  # cleaned lines
        self._raw = b""  # whole lines
        self._tail = b""  # the beginning of a line
        self._overlong = False
        self._comment = None if options.comment is None else options.comment.encode()
        self._quote = options.quote
        separator = re.escape(options.separator.encode())
        bare = b"[^%s]*+" % separator
        cell = rb'(?:"(?:[^"]|"")*+"|(?!")%s)' % bare if options.quote else bare
        self._cell = re.compile(rb"(?:\A|%s)%s" % (separator, cell), re.DOTALL)
        self._row = re.compile(rb"%s(?:%s%s)*+\Z" % (cell, separator, cell), re.DOTALL)

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

    def raw_line(self) -> bytes:
        """The next line as it stands in the file; not to be called once `read` was."""
        if not self._raw:
            self._raw = self._whole_lines()
            if self.rejected:
                raise SourceError("The file starts with a line of more than a megabyte.")
        end = _LINE_END.search(self._raw)
        stop = end.end() if end else len(self._raw)
        line, self._raw = self._raw[:stop], self._raw[stop:]
        return line

    def head(self) -> bytes:
        """The next line that is no comment, without byte-order mark; as `raw_line` otherwise."""
        while True:
            line = _BYTE_ORDER_MARKS.sub(rb"\1", self.raw_line())
            if self._comment is None or not line.startswith(self._comment):
                return line

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _fill(self) -> bool:
        """Make sure that some cleaned bytes are ready; False at the end of the file."""
        while not self._ready:
            text, self._raw = self._raw or self._whole_lines(), b""
            if not text:
                return False
            self._ready = self._clean(text)
        return True

    def _whole_lines(self) -> bytes:
        """The next whole lines, none of them too long; empty at the end of the file."""
        lines = b""
        while not lines:
            chunk = self._stream.read(LONGEST_LINE)
            text = self._tail + chunk
            # A line feed may follow a carriage return that ends the text.
            end = 1 + max(text.rfind(b"\n"), text.rfind(b"\r", 0, -1)) if chunk else len(text)
            lines, self._tail = text[:end], text[end:]
            if lines:
                lines = self._without_overlong(lines)
            if len(self._tail) > LONGEST_LINE + 1:
                self._overlong, self._tail = True, self._tail[-1:]
            if not chunk:
                break
        return lines

    def _without_overlong(self, lines: bytes) -> bytes:
        """Only the first line may have begun in an earlier chunk, so only it can be too long."""
        end = _LINE_END.search(lines)
        if self._overlong or (end.start() if end else len(lines)) > LONGEST_LINE:
            self._overlong = False
            self.rejected += 1
            return lines[end.end() :] if end else b""
        return lines

    def _clean(self, text: bytes) -> bytes:
        if b"\xef\xbb\xbf" in text:  # anywhere but at a file's very start a parser would keep it
            text = _BYTE_ORDER_MARKS.sub(rb"\1", text)
        quotes = self._quote and b'"' in text
        foreign = not _is_utf8(text)
        if not (quotes or foreign) and self._comment is None:
            return text
        kept = []
        for line in text.splitlines(keepends=True):
            if self._comment is not None and line.startswith(self._comment):
                continue
            content = line.rstrip(b"\r\n")
            stray = quotes and not self._row.match(content)
            if stray or (foreign and not self._fits(content)):
                self.rejected += 1
            else:
                kept.append(line)
        return b"".join(kept)

    def _fits(self, line: bytes) -> bool:
        return _is_utf8(line) or len(self._cell.findall(line)) == self.width


def _is_utf8(text: bytes) -> bool:
    try:
        return text.isascii() or bool(text.decode())
    except UnicodeDecodeError:
        return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
