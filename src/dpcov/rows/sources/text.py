"""Source of CSV and TSV files, also compressed, and of text on standard input.

`Lines` splits the bytes into whole lines of UTF-8. `Reader` groups the lines into rows and decides
which rows are valid records. Arrow's parser receives only valid records, so it can neither refuse a
record nor find another number of records. `Notation` converts numbers in the notation of other
countries to plain decimals, cell by cell.

The rule that finds records uses only a fixed number of following lines. docs/proofs/records.md
proves the rule and bounds the effect of a malformed record. The code applies the rule to all lines
of a block at once. Each quote character switches between inside and outside of a quoted cell. Three
properties of a line matter, for both possible states at its start:

- Whether its number of quotes is odd. The state then changes.
- Whether its quotes are at allowed positions.
- The number of separators outside quotes.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dpcov.core.printable import shown
from dpcov.core.spelling import spelled
from dpcov.errors import SourceError
from dpcov.rows.cells import batch_rows, is_missing
from dpcov.rows.notation import Notation
from dpcov.rows.schema import FileOptions, Kind
from dpcov.rows.sources.base import Source
from dpcov.rows.sources.threads import Threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import AnyArray, Booleans, Integers

READ_BYTES = 2**20  # Number of bytes that are read at once.
MAX_RECORD_BYTES = 2**22  # Maximum bytes of a record, including its line ends.
LINE_END = re.compile(rb"\r\n?|\n")  # End of a line: CRLF, LF or CR.
BYTE_ORDER_MARK = codecs.BOM_UTF8
LF_BYTE, CR_BYTE = 10, 13  # Bytes of a line feed and a carriage return.
STANDARD_INPUT = "-"
COMMON_SEPARATORS = ",;\t|"  # Common separators.
NOT_REGULAR_MESSAGE = (
    "{} is not a regular file. To read a pipe, use - as the file name: dpcov release - ... < PIPE"
)
NO_COLUMNS_MESSAGE = (
    "A file without a header needs a declaration of each column in the schema, in order"
)
DRAFT_HINT = ". For a draft of a schema, state the number of columns with --columns."
READ_ONCE_MESSAGE = (
    "Standard input can be read only once. Save the table in a file and use its path."
)
LINES_NOTE = (
    "Each line of the text file is one row: a record with line breaks counts as several rows."
)
RECORDS_NOTE = (
    "The guarantee assumes that the file follows RFC 4180, without lone carriage returns "
    "outside quotes (pandas and Python's csv write them by default; quoting=csv.QUOTE_ALL "
    "avoids them). A malformed record counts as up to {reach:,} rows, and as more if it has "
    "more than {lines:,} lines. Its epsilon is then as many times larger: see "
    "docs/proofs/records.md."
)
LINES_HINT = 'set records = "lines" under [file] in the schema if no cell contains a line break'


class TextSource(Source):
    """Source of a delimited text file, read as a stream, with names from its header or the schema.

    Parameters
    ----------
    path : Path
        File; "-" is standard input, which can be read once.

    options : FileOptions
        How the file is written.

    declared : tuple of str
        Names of the columns, in order if the file has no header.

    numbers : mapping of str to tuple of str
        Columns whose cells are numbers in the notation of the options, with the texts that mean a
        missing value. These texts are in the notation of the options, or plain decimals.

    Attributes
    ----------
    cells : tuple of str
        Names of all columns in order; empty for a column without a name.

    padded : sequence of int
        Positions in `cells` of names that had outer blanks.

    advice : str
        Advice to declare another separator, if this separator finds all declared columns in the
        header; otherwise empty. The advice depends on public names and on no cell.

    """

    kind = "csv"
    costly = True
    padded: Sequence[int] = ()
    how_to_count = LINES_HINT

    def __init__(
        self,
        path: Path,
        options: FileOptions,
        declared: tuple[str, ...],
        numbers: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    ) -> None:
        self.repeatable = str(path) != STANDARD_INPUT
        if self.repeatable and not path.is_file():
            raise SourceError(NOT_REGULAR_MESSAGE.format(repr(shown(path))))
        self._path = path
        self._declared = declared
        self.options = options
        self._notation = Notation(options.decimal, options.thousands)
        foreign = {} if self._notation.plain else numbers
        self._codes = {name: self._notation.codes(codes) for name, codes in foreign.items()}
        self._grammar = _grammar(options)
        lines, header = self._opened()
        self._waiting = None if self.repeatable else lines
        if self.repeatable:
            lines.close()
        cells = self.cells = self._header(header) if options.header else declared
        if not cells:
            raise SourceError(f"{NO_COLUMNS_MESSAGE}{spelled('.', DRAFT_HINT)}")
        self._width = len(cells) + (options.extra_cell is not None)
        first = int(options.extra_cell == "first")
        self._places = {name: first + at for at, name in enumerate(cells)}
        self.names = tuple(name for name in cells if name)  # without columns that have no name
        self.types = dict.fromkeys(self.names, pa.string())
        self._grammar = _grammar(options, self._width)
        self.rows_are_lines = self._grammar.one_line

    @property
    def reach(self) -> int:
        """Number of rows that one malformed record can change."""
        return self._grammar.reach

    @property
    def caveat(self) -> str:
        """Description of what the guarantee does not cover because of the rule for records."""
        if self.rows_are_lines:
            return LINES_NOTE
        return RECORDS_NOTE.format(reach=self.reach, lines=self._grammar.lines)

    def kinds(self) -> dict[str, Kind]:
        """Return the kind "unknown" for each column, because the cells are not public."""
        return dict.fromkeys(self.names, "unknown")

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches of texts."""
        wanted, size = list(columns), batch_rows(len(columns))
        # In the main thread, Arrow's reader handles signals and can lose one at its end. In another
        # thread, Python handles all signals.
        with closing(self.blocks()) as blocks, Threads(1) as parser:
            for block in blocks:
                cells = parser.submit(partial(self._parsed, block, wanted)).result()
                places = _places(block.is_record)
                for start in range(0, len(block.is_record), size):
                    here = slice(start, start + size)
                    yield pa.RecordBatch.from_arrays(
                        [c[here] if places is None else c.take(places[here]) for c in cells],
                        names=wanted,
                    )

    def blocks(self, separator: str | None = None, more_cells: int = 0) -> Generator[Block]:
        """Yield all rows below the header in order.

        Parameters
        ----------
        separator : str, optional
            Another separator, for `dpcov check`.
        more_cells : int
            Number of additional cells per record, for `dpcov check`.

        Yields
        ------
        Block

        """
        if self.repeatable:
            lines, _ = self._opened()
        elif self._waiting is None:
            raise SourceError(READ_ONCE_MESSAGE)
        else:
            lines, self._waiting = self._waiting, None
        grammar = replace(self._grammar, cells=self._grammar.cells + more_cells)
        if separator is not None:
            grammar = replace(grammar, separator=ord(separator))
        reader = Reader(lines, grammar)
        with closing(lines):
            while (block := reader.next()) is not None:
                yield block

    def _parsed(self, block: Block, wanted: list[str]) -> list[pa.Array]:
        """Return the cells of the wanted columns, for valid records only."""
        count = int(block.is_record.sum())
        if not count:
            return [pa.array([], pa.string())] * len(wanted)
        marked = block.text.startswith(
            BYTE_ORDER_MARK
        )  # the parser would remove the mark, which is content here
        text = (
            self.options.separator.encode() * (self._width - 1) + b"\n" + block.text
            if marked
            else block.text
        )
        names = [str(at) for at in range(self._width)]  # names in the header can repeat
        found = [names[self._places[name]] for name in wanted]
        table = pacsv.read_csv(
            pa.BufferReader(text),
            read_options=pacsv.ReadOptions(
                column_names=names, block_size=len(text) + 1, use_threads=False
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=self.options.separator,
                quote_char=self.options.quote_sign or False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            convert_options=pacsv.ConvertOptions(
                include_columns=found,
                column_types=dict.fromkeys(found, pa.string()),
                check_utf8=False,
                strings_can_be_null=False,
            ),
        )
        table = table.slice(int(marked))
        if table.num_rows != count:
            raise SourceError(
                "The parser and dpcov found different numbers of records. Report this as a bug."
            )
        cells = zip(wanted, (table[name].combine_chunks() for name in found), strict=True)
        return [self._plainly(c, self._codes[n]) if n in self._codes else c for n, c in cells]

    def _plainly(self, texts: pa.Array, codes: tuple[str, ...]) -> pa.Array:
        """Convert cells to plain decimals; null if a cell is no number or a missing-value code."""
        found = self._notation.plainly(texts)
        return pc.if_else(is_missing(found, codes), None, found) if codes else found

    def _opened(self) -> tuple[Lines, bytes]:
        """Open the file and return the lines below the header, and the header."""
        options, stream = self.options, self.stream()
        lines = Lines(decoded(stream.read, options.encoding), stream.close)
        for _ in range(options.skip_lines):
            lines.next()
        header = lines.next() if options.header else b""
        while options.comment is not None and header.startswith(options.comment.encode()):
            header = lines.next()
        quote = (options.quote_sign or "").encode()
        for _ in range(1, self._grammar.lines):
            if header.count(quote) % 2 == 0 or len(header) > MAX_RECORD_BYTES:
                break
            header += lines.next()
        return lines, header

    def stream(self) -> Any:
        """Open the uncompressed bytes of the table, with the methods `read` and `close`."""
        options, held = self.options, self.repeatable
        gzip = options.compression == "gzip" or (
            options.compression == "auto" and self._path.name.lower().endswith(".gz")
        )
        file = pa.OSFile(os.fsencode(self._path)) if held else pa.PythonFile(sys.stdin.buffer, "r")
        return pa.CompressedInputStream(file, "gzip") if gzip else file

    def _header(self, header: bytes) -> tuple[str, ...]:
        """Return the names of the columns; empty for a column without a name.

        Raises
        ------
        SourceError
            The first record is not a valid header.

        """
        name = repr(shown(self._path)) if self.repeatable else "standard input"
        where, encoding = f"The first record of {name}", self.options.encoding.upper()
        if len(header) > MAX_RECORD_BYTES:
            raise SourceError(
                f"{where} is longer than {MAX_RECORD_BYTES >> 20} MiB. Check that the file is a "
                "text table."
            )
        try:
            text = header.decode()
        except UnicodeDecodeError:
            text = "\ufffd"
        if "\ufffd" in text:
            raise SourceError(
                f'{where} is not {encoding} text. Set encoding under [file] ("cp1252" for '
                "files of Excel in western Europe), or save the table as Parquet or CSV in "
                "UTF-8."
            )
        self.advice = self._other_separator(text)
        names = self._split(text, self.options.separator)
        written = self._cells(text, self.options.separator)
        self.padded = [at for at, (a, b) in enumerate(zip(written, names, strict=True)) if a != b]
        if names and not any(names):
            raise SourceError(
                f"{where} is empty, but dpcov needs a header with the column names. Add the header."
            )
        named = [name for name in names if name]
        if not ((self._declared and set(self._declared) <= {*named}) or is_header({*named})):
            raise SourceError(no_header(where) + self.advice)
        if not self._declared and len({*named}) < len(named):
            twice = next(one for one in named if named.count(one) > 1)
            places = [at for at, one in enumerate(names, 1) if one == twice]
            raise SourceError(
                f"The cells {places[0]} and {places[1]} of {_lowered(where)} contain the "
                "same name. Rename or delete one of the columns."
            )
        return names

    def _other_separator(self, header: str) -> str:
        """Return advice to declare a common separator that finds the declared columns in a header.

        For a draft of a schema, no columns are declared. The advice then requires that the
        separator gives several valid names and the declared separator does not.
        """
        if not self._declared and not spelled("", "in a shell"):
            return ""  # the first record might be a person's row
        found = self._split(header, self.options.separator)
        if set(self._declared) <= set(found) if self._declared else len(found) > 1:
            return ""
        for other in COMMON_SEPARATORS.replace(self.options.separator, ""):
            names = [name for name in self._split(header, other) if name]
            if is_header({*names}) and len(names) > 1 and set(self._declared) <= set(names):
                return _advice(other, "--{} {}" if not self._declared else "{} = {}")
        return ""

    def _split(self, record: str, separator: str) -> tuple[str, ...]:
        """Split a record into names without outer blanks."""
        return tuple(name.strip() for name in self._cells(record, separator))

    def _cells(self, record: str, separator: str) -> list[str]:
        """Split a record into cells; return no cells for a malformed record."""
        text = re.sub(r"(\r\n?|\n)\Z", "", record)
        quote = self.options.quote_sign
        if quote is None:
            return text.split(separator)
        s, q = re.escape(separator), re.escape(quote)
        cell = f"(?:{q}(?:[^{q}]|{q}{q})*+{q}|[^{s}{q}\r\n]*+)"
        if not re.fullmatch(f"{cell}(?:{s}{cell})*+", text):
            return []
        found = re.findall(f"(?:^|{s})({cell})", text)
        return [c[1:-1].replace(quote * 2, quote) if c.startswith(quote) else c for c in found]


def _advice(separator: str, form: str) -> str:
    """Return a sentence that suggests a separator; semicolons suggest decimal commas too."""
    options = form.format("separator", json.dumps(separator))
    if separator == ";":
        options += f" (and for decimal commas {form.format('decimal', json.dumps(','))})"
    place = " under [file]" if " = " in form else ""
    return f" With {options}{place}, the first record contains several column names."


def _lowered(text: str) -> str:
    """Return a text with a small first letter."""
    return text[:1].lower() + text[1:]


def is_header(names: Collection[str]) -> bool:
    """Return True if the names are distinct, nonempty and no numbers."""
    distinct = 0 < len(names) == len(set(names))
    return distinct and not any(not name or is_number(name) for name in names)


def no_header(where: str) -> str:
    """Return the message for a first record that is not a header."""
    draft = spelled("", " (--no-header for a draft)")
    return (
        f"{where} is not a header, because its cells are not column names. If the file has "
        f"no header, set header = false under [file] in the schema{draft}."
    )


def _grammar(options: FileOptions, cells: int = 1) -> Grammar:
    """Return the record format of the options."""
    quote = options.quote_sign
    return Grammar(
        cells=cells,
        separator=ord(options.separator),
        quote=None if quote is None else ord(quote),
        lines=1 if options.records == "lines" or quote is None else options.max_record_lines,
    )


def _places(is_record: Booleans) -> pa.Array | None:
    """Return the position of each row among the records, or None if all rows are records.

    The position of a row that is not a record is null.
    """
    if is_record.all():
        return None
    return pa.array(np.cumsum(is_record) - 1, mask=~is_record)


def is_number(text: str) -> bool:
    """Return True if a text is a number and therefore not a column name."""
    try:
        float(text)
    except ValueError:
        return False
    return True


class Lines:
    """Whole lines of a stream; the attribute `text` contains the lines that are ready.

    A byte-order mark at the start is removed. A line of more than `MAX_RECORD_BYTES` bytes is
    shortened to this length plus a line end, so it stays too long.

    Parameters
    ----------
    read : callable
        Function that reads up to a number of bytes.
    close : callable
        Function that closes the stream.

    """

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], object]) -> None:
        self.text = b""
        self.ended = False
        self.close = close
        self._read = read
        self._begun = False
        self._tail = b""  # Start of an incomplete line.
        self._overlong = b""  # Kept part of a line that is too long and continues in `_tail`.

    def more(self) -> None:
        """Read more lines, or find the end of the stream.

        The function reads at least as many bytes as are waiting, so waiting text is scanned only a
        few times.
        """
        chunk = self._read(max(READ_BYTES, len(self.text)))
        whole = self._tail + chunk
        # A line feed can follow a carriage return at the end of the chunk.
        end = 1 + max(whole.rfind(b"\n"), whole.rfind(b"\r", 0, -1)) if chunk else len(whole)
        lines, self._tail = whole[:end], whole[end:]
        self.ended = not chunk
        if self._overlong and (lines or self.ended):
            found = LINE_END.search(lines)
            lines = self._overlong + (lines[found.start() :] if found else b"\n")
            self._overlong = b""
        if len(self._tail) > MAX_RECORD_BYTES + 1:
            self._overlong = self._overlong or self._tail[:MAX_RECORD_BYTES]
            self._tail = self._tail[-1:]  # the last byte can be a carriage return
        elif self._overlong:
            self._tail = self._tail[-1:]
        self.text += lines
        if not self._begun and self.text:
            self._begun = True
            self.text = self.text.removeprefix(BYTE_ORDER_MARK)

    def next(self) -> bytes:
        """Return the next line with its end; empty at the end of the stream."""
        while not self.text and not self.ended:
            self.more()
        found = LINE_END.search(self.text)
        stop = found.end() if found else len(self.text)
        line, self.text = self.text[:stop], self.text[stop:]
        return line


def decoded(read: Callable[[int], bytes], encoding: str) -> Callable[[int], bytes]:
    """Convert a stream in another encoding to UTF-8; invalid bytes become U+FFFD.

    Each code unit (one, two or four bytes) is decoded on its own, or with the other half of its
    character. An invalid unit therefore changes no other unit.

    Parameters
    ----------
    read : callable
        Function that reads bytes.
    encoding : str
        Encoding of the bytes.

    Returns
    -------
    callable
        Function that reads bytes in UTF-8.

    """
    if encoding == "utf-8":
        return read
    decoder: codecs.IncrementalDecoder | None = None
    ended = False

    def read_decoded(size: int) -> bytes:
        nonlocal decoder, ended
        while not ended:
            raw = read(size)
            ended = not raw
            if decoder is None:
                decoder = codecs.getincrementaldecoder(_ordered(encoding, raw))("replace")
            if text := decoder.decode(raw, final=ended):
                return text.encode()
        return b""

    return read_decoded


def _ordered(encoding: str, start: bytes) -> str:
    """Return the encoding with its byte order, which a mark at the start can determine."""
    if encoding == "utf-16":
        return "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    if encoding == "utf-32":
        return "utf-32-be" if start.startswith(codecs.BOM_UTF32_BE) else "utf-32-le"
    return encoding


@dataclass(frozen=True, slots=True)
class Grammar:
    """Format of a record.

    Attributes
    ----------
    cells : int
        Number of cells.

    separator : int
        Byte that separates cells.

    quote : int or None
        Byte that quotes a cell.

    lines : int
        Maximum number of lines of a record.

    """

    cells: int
    separator: int
    quote: int | None
    lines: int

    @property
    def one_line(self) -> bool:
        """True if each line is one row."""
        return self.quote is None or self.lines == 1

    @property
    def reach(self) -> int:
        """Number of rows that one record of at most `lines` lines can change, valid or not."""
        return 1 if self.one_line else 5 * self.lines


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive rows of a text file.

    Attributes
    ----------
    is_record : ndarray of bool, shape (n,)
        True for rows that are valid records.
    text : bytes
        Text of the valid records.

    """

    is_record: Booleans
    text: bytes


@dataclass(frozen=True, slots=True)
class _Run:
    """State before an odd line whose next odd line is not yet known.

    Attributes
    ----------
    place : int
        Position of the next pair in the run of pairs that the line might continue.

    age : int
        Number of lines since the start of the run.

    taken : bool
        True if the line is the end of a record.

    """

    place: int = 0
    age: int = 0
    taken: bool = False


class Reader:
    """Reader that groups whole lines into rows, block after block.

    Parameters
    ----------
    lines : Lines
        Lines of the file.
    grammar : Grammar
        Format of a record.

    """

    def __init__(self, lines: Lines, grammar: Grammar) -> None:
        self._lines = lines
        self._grammar = grammar
        self._run = _Run()

    def next(self) -> Block | None:
        """Return the next rows that are decided; None at the end."""
        lines = self._lines
        while lines.text or not lines.ended:
            if not lines.ended:
                lines.more()
            if lines.text and len((block := self._rows(lines.text)).is_record):
                return block
        return None

    def _rows(self, text: bytes) -> Block:
        """Return the decided rows of the text, and remove their lines from the waiting text."""
        run, grammar = self._run, self._grammar
        found = _Found(text, grammar)
        first, last, taken, after = _records(found, grammar, run)
        decided = len(found.odd)
        self._run = _Run()
        if len(found.odd_lines) and not self._lines.ended:
            waiting = found.odd_lines[-1]
            at_hand = len(text) - found.starts[waiting]
            if decided - waiting < grammar.lines and at_hand < MAX_RECORD_BYTES:
                decided, self._run = waiting, after
        first, last = first[taken], last[taken]
        steps = np.zeros(len(found.odd) + 2, np.int8)
        steps[0] = run.taken
        steps[1] = -steps[0]
        steps[first + 1] += 1
        steps[last + 1] -= 1
        rows = np.flatnonzero(np.cumsum(steps[:decided], dtype=np.int8) == 0)
        good = found.single.copy()
        good[first] = True
        stops = np.append(rows[1:], max(decided, last[-1] + 1 if len(last) else 0))[: len(rows)]
        self._lines.text = text[int(found.starts[decided]) :]
        return _block(text, found.starts[rows], found.starts[stops], good[rows])


def _block(text: bytes, starts: Integers, stops: Integers, good: Booleans) -> Block:
    """Join the text of the valid records."""
    edges = np.flatnonzero(np.diff(good, prepend=False, append=False))
    runs = zip(starts[edges[::2]], stops[edges[1::2] - 1], strict=True)
    # Without the added line feed, a carriage return and the line feed of a later empty record would
    # become one line end.
    parts = [text[a:b] + b"\n" if text[b - 1] == CR_BYTE else text[a:b] for a, b in runs]
    return Block(good, b"".join(parts))


class _Found:
    """Properties of each line of a text.

    Attributes
    ----------
    starts : ndarray of int64, shape (n + 1,)
        Start of each line, and the end of the text.

    odd : ndarray of bool, shape (n,)
        True if the number of quotes is odd.

    single : ndarray of bool, shape (n,)
        True if the line alone is a valid record.

    broken, outside : tuple of two ndarrays, shape (n,)
        Whether a quote is at a forbidden position, and the number of separators outside quotes. The
        first array is for lines that start outside quotes, the second one for lines that start
        inside.

    """

    def __init__(self, text: bytes, grammar: Grammar) -> None:
        array = np.frombuffer(text, np.uint8)
        self.starts = _line_starts(text, array)
        count = len(self.starts) - 1
        self.odd = np.zeros(count, bool)
        self.broken = (np.zeros(count, bool), np.zeros(count, bool))
        separators = np.flatnonzero(array == grammar.separator)
        totals = np.diff(np.searchsorted(separators, self.starts))
        self.outside = (totals, np.zeros(count, np.int64))
        if grammar.quote is not None and grammar.quote in text:
            self._see_quotes(array, separators, grammar.separator, grammar.quote)
        self.odd_lines = np.flatnonzero(self.odd)
        short = np.diff(self.starts) <= MAX_RECORD_BYTES
        fits = self.outside[0] == grammar.cells - 1
        self.single = ~self.odd & ~self.broken[0] & short & fits

    def _see_quotes(
        self, array: NDArray[np.uint8], separators: Integers, separator: int, quote: int
    ) -> None:
        """Find the quotes, and set the properties that depend on them."""
        is_quote = array == quote
        quotes = np.flatnonzero(is_quote)
        before = np.searchsorted(quotes, self.starts)  # number of quotes before each line
        numbers = np.diff(before)
        self.odd = numbers % 2 == 1
        line = np.repeat(np.arange(len(numbers)), numbers)
        second = (np.arange(len(quotes)) - before[line]) % 2 == 1
        edge = np.zeros(256, bool)
        edge[[separator, quote, LF_BYTE, CR_BYTE]] = True
        opens = edge[array[quotes - 1]] | (quotes == 0)
        closes = edge[array[(quotes + 1) % len(array)]] | (quotes == len(array) - 1)
        for side in (0, 1):
            stray = ~np.where(second ^ bool(side), closes, opens)
            self.broken[side][line[stray]] = True
        # State at each separator, if the text starts outside quotes.
        inside = np.bitwise_xor.accumulate(is_quote.view(np.uint8))[separators]
        sums = np.append(0, np.cumsum(inside, dtype=np.int64))
        bounds = np.searchsorted(separators, self.starts)
        within = np.diff(sums[bounds])
        total = np.diff(bounds)
        swapped = before[:-1] % 2 == 1
        outside = np.where(swapped, within, total - within)
        self.outside = (outside, total - outside)


def _line_starts(text: bytes, array: NDArray[np.uint8]) -> Integers:
    """Return the start of each line, and the end of the text."""
    ends = array == LF_BYTE
    if CR_BYTE in text:
        alone = array == CR_BYTE
        alone[:-1] &= array[1:] != LF_BYTE
        ends |= alone
    starts = np.append(0, np.flatnonzero(ends) + 1)
    return starts if starts[-1] == len(array) else np.append(starts, len(array))


def _records(
    found: _Found, grammar: Grammar, run: _Run
) -> tuple[Integers, Integers, Booleans, _Run]:
    """Find the records that start at one odd line and end at the next one.

    Returns
    -------
    first, last : ndarray of int64
        Each odd line, and the next odd line.

    taken : ndarray of bool
        True if the two lines are the ends of a record.

    run : _Run
        State of the last odd line.

    """
    first, last = found.odd_lines[:-1], found.odd_lines[1:]
    if not len(first):
        return first, last, np.zeros(0, bool), run if len(found.odd_lines) else _Run()
    strays = np.append(0, np.cumsum(found.broken[1]))
    cells = np.append(0, np.cumsum(found.outside[1]))
    pair = ~found.broken[0][first] & (strays[last + 1] == strays[first + 1])
    pair &= found.outside[0][first] + cells[last + 1] - cells[first + 1] == grammar.cells - 1
    pair &= last - first < grammar.lines
    pair &= found.starts[last + 1] - found.starts[first] <= MAX_RECORD_BYTES
    place, begun = _runs(pair, first, run)
    taken = pair & (place % 2 == 0) & (last - begun < grammar.lines)
    after = _Run(place[-1] + 1, last[-1] - begun[-1], bool(taken[-1])) if pair[-1] else _Run()
    return first, last, taken, after


def _runs(pair: Booleans, first: Integers, run: _Run) -> tuple[AnyArray, AnyArray]:
    """Return the position of each pair in its run of pairs, and the first line of the run."""
    at = np.arange(len(pair))
    start = np.maximum.accumulate(np.where(pair, -1, at)) + 1
    place = at - start
    begun = first[np.minimum(start, at)]
    if run.place:
        goes_on = start == 0
        place[goes_on] += run.place
        begun[goes_on] = first[0] - run.age
    return place, begun
