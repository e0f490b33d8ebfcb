"""CSV and TSV files, also compressed, and text on standard input: a row is a record.

What a record is says `dpcov.sources.records`, which sees every byte first. The parser gets nothing
but records, so that it can neither refuse one nor see more or fewer. Numbers as other countries
write them become plain decimals (`Notation`), each cell on its own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dpcov.core.printable import shown
from dpcov.core.spelling import spelled
from dpcov.errors import SourceError
from dpcov.rows.cells import LONGEST_CELL
from dpcov.rows.schema import FileOptions, Kind
from dpcov.sources.base import batch_rows
from dpcov.sources.lines import BYTE_ORDER_MARK, LONGEST_RECORD, Lines, decoded
from dpcov.sources.records import Block, Grammar, blocks

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans


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


STANDARD_INPUT = "-"
NOT_REGULAR = (
    "{} is no regular file. To read a table from a pipe, give - as its name and the pipe as "
    "standard input: dpcov release - ... < PIPE"
)
NO_COLUMNS = (
    "A file without a header needs its columns declared in the schema, all of them and in order"
)
FOR_A_DRAFT = "; for a draft of one, say how many there are with --columns."
ONCE = "Standard input can be read only once. Save the table in a file."
LINES = "Each line of the text file is one row: a record with line breaks counts as several rows."
RECORDS = (
    "A row is a record of the text file. One that breaks the format (a stray quote, a wrong number "
    "of cells) is a row without values, but a stray quote can also join or break up the records "
    "around it: together they count as up to {reach:,} rows, which have up to {reach:,} times the "
    "epsilon. A record of more than {lines:,} lines counts as one row more for each line. Programs "
    "that write CSV by the book (RFC 4180) leave no stray quotes. [file] max_record_lines sets the "
    'limit; with records = "lines" each line is one row, whatever it holds.'
)


class TextSource:
    """A delimited text file, streamed; columns are named by its header or by the schema.

    Parameters
    ----------
    path : of the file; "-" is standard input, which is read once.
    options : how the file is written.
    declared : names of the columns of a file without a header, in order.
    numbers : names of the columns whose cells are numbers, written as `options` say.

    """

    door = "csv"
    costly = True

    def __init__(
        self,
        path: Path,
        options: FileOptions,
        declared: tuple[str, ...],
        numbers: frozenset[str] = frozenset(),
    ) -> None:
        self.unfit: dict[str, str] = {}
        self.settled = str(path) != STANDARD_INPUT
        if self.settled and not path.is_file():
            raise SourceError(NOT_REGULAR.format(repr(shown(path))))
        self._path = path
        self._options = options
        self._numbers = numbers
        self._notation = Notation(options.decimal, options.thousands)
        self._grammar = _grammar(options)
        lines, header = self._opened()
        self._waiting = None if self.settled else lines
        if self.settled:
            lines.close()
        self.names = self._names(header) if options.header else declared
        if not self.names:
            raise SourceError(f"{NO_COLUMNS}{spelled('.', FOR_A_DRAFT)}")
        self._grammar = _grammar(options, len(self.names))

    @property
    def types(self) -> dict[str, pa.DataType]:
        return dict.fromkeys(self.names, pa.string())

    @property
    def rows_are_lines(self) -> bool:
        """Whether each line is one row, whatever it holds: then no cell changes their number."""
        return self._grammar.one_line

    @property
    def reach(self) -> int:
        """How many rows one record can change, if records may break the format."""
        return self._grammar.reach

    @property
    def caveat(self) -> str:
        """What is not protected on account of how rows are told."""
        if self.rows_are_lines:
            return LINES
        return RECORDS.format(reach=self.reach, lines=self._grammar.lines)

    def kinds(self) -> dict[str, Kind]:
        """Tell nothing of the columns: what their cells look like is not public."""
        return dict.fromkeys(self.names, "unknown")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        wanted = list(columns)
        size = batch_rows(len(wanted))
        with closing(self._records()) as lines:
            for block in blocks(lines, self._grammar):
                cells = self._parsed(block, wanted)
                places = _places(block.is_record)
                for start in range(0, len(block.is_record), size):
                    here = slice(start, start + size)
                    yield pa.RecordBatch.from_arrays(
                        [c[here] if places is None else c.take(places[here]) for c in cells],
                        names=wanted,
                    )

    def _parsed(self, block: Block, wanted: list[str]) -> list[pa.Array]:
        """Cells of the wanted columns, of the records only."""
        count = int(block.is_record.sum())
        if not count:
            return [pa.array([], pa.string())] * len(wanted)
        marked = block.text.startswith(BYTE_ORDER_MARK)  # the parser would drop it: it is content
        text = (
            self._options.separator.encode() * (len(self.names) - 1) + b"\n" + block.text
            if marked
            else block.text
        )
        table = pacsv.read_csv(
            pa.BufferReader(text),
            read_options=pacsv.ReadOptions(
                column_names=list(self.names), block_size=len(text) + 1, use_threads=False
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self._options.separator,
                quote_char=self._options.quote_sign or False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=wanted,
                column_types=dict.fromkeys(wanted, pa.string()),
                check_utf8=False,
                strings_can_be_null=False,
            ),
        )
        table = table.slice(int(marked))
        if table.num_rows != count:
            raise SourceError("The parser found other rows than there are records.")
        return [self._plainly(name, table[name].combine_chunks()) for name in wanted]

    def _plainly(self, name: str, cells: pa.Array) -> pa.Array:
        plain = self._notation.plain or name not in self._numbers
        return cells if plain else self._notation.plainly(cells)

    def _records(self) -> Lines:
        """The lines below the header."""
        if self.settled:
            return self._opened()[0]
        if self._waiting is None:
            raise SourceError(ONCE)
        lines, self._waiting = self._waiting, None
        return lines

    def _opened(self) -> tuple[Lines, bytes]:
        """The lines below the header, and the header, if there is one."""
        options = self._options
        gzip = options.compression == "gzip" or (
            options.compression == "auto" and self._path.name.lower().endswith(".gz")
        )
        held = self.settled
        file = pa.OSFile(str(self._path)) if held else pa.PythonFile(sys.stdin.buffer, "r")
        stream = pa.CompressedInputStream(file, "gzip") if gzip else file
        lines = Lines(decoded(stream.read, options.encoding), stream.close)
        for _ in range(options.skip_lines):
            lines.next()
        header = lines.next() if options.header else b""
        while options.comment is not None and header.startswith(options.comment.encode()):
            header = lines.next()
        quote = (options.quote_sign or "").encode()
        for _ in range(1, self._grammar.lines):
            if header.count(quote) % 2 == 0 or len(header) > LONGEST_RECORD:
                break
            header += lines.next()
        return lines, header

    def _names(self, header: bytes) -> tuple[str, ...]:
        name = repr(shown(self._path)) if self.settled else "standard input"
        where, encoding = f"The first record of {name}", self._options.encoding.upper()
        if len(header) > LONGEST_RECORD:
            raise SourceError(f"{where} is longer than {LONGEST_RECORD >> 20} MiB.")
        try:
            text = header.decode()
        except UnicodeDecodeError:
            text = "\ufffd"
        if "\ufffd" in text:
            raise SourceError(f"{where} is not {encoding} text: see encoding under [file].")
        names = tuple(name.strip() for name in self._cells(text))
        if names and not any(names):
            raise SourceError(f"{where} is empty: a header with the columns' names is needed.")
        if (
            not names
            or len(set(names)) < len(names)
            or any(not name or _is_number(name) for name in names)
        ):
            draft = spelled("", " (--no-header for a draft)")
            raise SourceError(
                f"{where} is no header: its cells are not distinct names. If the file has none, "
                f"set header = false under [file] in the schema{draft}."
            )
        return names

    def _cells(self, record: str) -> list[str]:
        """Cells of a record; none, if it breaks the format."""
        text = re.sub(r"(\r\n?|\n)\Z", "", record)
        separator, quote = self._options.separator, self._options.quote_sign
        if quote is None:
            return text.split(separator)
        s, q = re.escape(separator), re.escape(quote)
        cell = f"(?:{q}(?:[^{q}]|{q}{q})*+{q}|[^{s}{q}\r\n]*+)"
        if not re.fullmatch(f"{cell}(?:{s}{cell})*+", text):
            return []
        found = re.findall(f"(?:^|{s})({cell})", text)
        return [c[1:-1].replace(quote * 2, quote) if c.startswith(quote) else c for c in found]


def _grammar(options: FileOptions, cells: int = 1) -> Grammar:
    quote = options.quote_sign
    return Grammar(
        cells=cells,
        separator=ord(options.separator),
        quote=None if quote is None else ord(quote),
        lines=1 if options.records == "lines" or quote is None else options.max_record_lines,
    )


def _places(is_record: Booleans) -> pa.Array | None:
    """Where each row is among the records, null if it is none; None if all are."""
    if is_record.all():
        return None
    return pa.array(np.cumsum(is_record) - 1, mask=~is_record)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
