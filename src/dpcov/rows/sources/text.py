"""CSV and TSV files, also compressed, and text on standard input: a row is a record.

Bytes become whole lines of UTF-8 (`Lines`), lines become rows (`Reader`), and of the records among
them the parser makes cells: it gets nothing but records, so that it can neither refuse one nor see
more or fewer. Numbers as other countries write them become plain decimals (`Notation`), each cell
on its own.

Where the records are is told by a rule that looks no further than a fixed number of lines. The
rule, and how far a broken record can reach by it, are proved in docs/proofs/records.md. Here it is
worked out for all lines of a block at once. A quote turns "outside" into "inside" and back,
whatever else it is; so all that matters of a line is whether its quotes are odd in number (then it
ends on the other side than it begins), and for either side on which it may begin, whether its
quotes stand where they may and how many separators are outside.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from dpcov.core.printable import shown
from dpcov.core.spelling import spelled
from dpcov.errors import SourceError
from dpcov.rows.cells import LONGEST_CELL, batch_rows
from dpcov.rows.numbers import trimmed, with_hyphens
from dpcov.rows.schema import FileOptions, Kind
from dpcov.rows.sources.base import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import AnyArray, Booleans, Integers

CHUNK = 2**20  # bytes that are read at once
LONGEST_RECORD = 2**22  # bytes, its line ends among them
LINE_END = re.compile(rb"\r\n?|\n")  # what ends a line: CRLF, LF or CR
BYTE_ORDER_MARK = codecs.BOM_UTF8
LF, CR = 10, 13
STANDARD_INPUT = "-"
SEPARATORS = ",;\t|"  # the usual ones
SPACES = "\u00a0\u2007\u2009\u202f"  # that group thousands, one as another: they look alike
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
    "This assumes that the file follows RFC 4180, without lone carriage returns outside quotes "
    "(pandas and Python's csv write them by default; quoting=csv.QUOTE_ALL avoids it). Otherwise "
    "one record counts as up to {reach:,} rows, and as more if it has more than {lines:,} lines, "
    "with as many times the epsilon: see docs/proofs/records.md."
)
COUNT_LINES = 'set records = "lines" under [file] in the schema if no cell holds a line break'


class TextSource(Source):
    """A delimited text file, streamed; columns are named by its header or by the schema.

    Parameters
    ----------
    path : of the file; "-" is standard input, which is read once.
    options : how the file is written.
    declared : names of the columns, in order where the file has no header.
    numbers : names of the columns whose cells are numbers, written as `options` say.

    Attributes
    ----------
    cells : the names of all columns, in order; empty for one without a name.
    padded : places in `cells` of the names from which blanks were stripped.
    advice : the separator to declare, where the first record, kept apart by it, has all columns
        that are declared; otherwise nothing. It rests on names that are public, and on no cell.

    """

    kind = "csv"
    costly = True
    padded: Sequence[int] = ()
    how_to_count = COUNT_LINES

    def __init__(
        self,
        path: Path,
        options: FileOptions,
        declared: tuple[str, ...],
        numbers: frozenset[str] = frozenset(),
    ) -> None:
        self.repeatable = str(path) != STANDARD_INPUT
        if self.repeatable and not path.is_file():
            raise SourceError(NOT_REGULAR.format(repr(shown(path))))
        self._path = path
        self._declared = declared
        self.options = options
        self._notation = Notation(options.decimal, options.thousands)
        self._foreign = frozenset[str]() if self._notation.plain else numbers
        self._grammar = _grammar(options)
        lines, header = self._opened()
        self._waiting = None if self.repeatable else lines
        if self.repeatable:
            lines.close()
        cells = self.cells = self._header(header) if options.header else declared
        if not cells:
            raise SourceError(f"{NO_COLUMNS}{spelled('.', FOR_A_DRAFT)}")
        self._width = len(cells) + (options.extra_cell is not None)
        first = int(options.extra_cell == "first")
        self._places = {name: first + at for at, name in enumerate(cells)}
        self.names = tuple(name for name in cells if name)  # columns without a name are left out
        self.types = dict.fromkeys(self.names, pa.string())
        self._grammar = _grammar(options, self._width)
        self.rows_are_lines = self._grammar.one_line

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
        wanted, size = list(columns), batch_rows(len(columns))
        # Arrow's reader takes signals in the main thread, and loses one that comes as it ends: in
        # another thread it leaves them to Python.
        with closing(self.blocks()) as blocks, ThreadPoolExecutor(1) as parser:
            for block in blocks:
                cells = parser.submit(self._parsed, block, wanted).result()
                places = _places(block.is_record)
                for start in range(0, len(block.is_record), size):
                    here = slice(start, start + size)
                    yield pa.RecordBatch.from_arrays(
                        [c[here] if places is None else c.take(places[here]) for c in cells],
                        names=wanted,
                    )

    def blocks(self, separator: str | None = None, more_cells: int = 0) -> Generator[Block]:
        """All rows below the header, in order; as another separator would keep their cells apart.

        Another separator, or so many more cells than declared, is for `dpcov check`, of a file that
        may be declared wrong.
        """
        if self.repeatable:
            lines, _ = self._opened()
        elif self._waiting is None:
            raise SourceError(ONCE)
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
        """Cells of the wanted columns, of the records only."""
        count = int(block.is_record.sum())
        if not count:
            return [pa.array([], pa.string())] * len(wanted)
        marked = block.text.startswith(BYTE_ORDER_MARK)  # the parser would drop it: it is content
        text = (
            self.options.separator.encode() * (self._width - 1) + b"\n" + block.text
            if marked
            else block.text
        )
        names = [str(at) for at in range(self._width)]  # those of the header may occur twice
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
            raise SourceError("The parser found other rows than there are records.")
        cells = zip(wanted, (table[name].combine_chunks() for name in found), strict=True)
        return [self._notation.plainly(c) if n in self._foreign else c for n, c in cells]

    def _opened(self) -> tuple[Lines, bytes]:
        """The lines below the header, and the header, if there is one."""
        options, stream = self.options, self.stream()
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

    def stream(self) -> Any:
        """The bytes of the table, not compressed; with `read` and `close`."""
        options, held = self.options, self.repeatable
        gzip = options.compression == "gzip" or (
            options.compression == "auto" and self._path.name.lower().endswith(".gz")
        )
        file = pa.OSFile(str(self._path)) if held else pa.PythonFile(sys.stdin.buffer, "r")
        return pa.CompressedInputStream(file, "gzip") if gzip else file

    def _header(self, header: bytes) -> tuple[str, ...]:
        """Names of the columns, from the header and those that are declared; empty for no name."""
        name = repr(shown(self._path)) if self.repeatable else "standard input"
        where, encoding = f"The first record of {name}", self.options.encoding.upper()
        if len(header) > LONGEST_RECORD:
            raise SourceError(f"{where} is longer than {LONGEST_RECORD >> 20} MiB.")
        try:
            text = header.decode()
        except UnicodeDecodeError:
            text = "\ufffd"
        if "\ufffd" in text:
            raise SourceError(
                f"{where} is not {encoding} text: see encoding under [file], which for files of "
                'Excel in the west of Europe is "cp1252". If it is no text at all, save the table '
                "as Parquet or CSV with the program that wrote it."
            )
        self.advice = self._other_separator(text)
        names = self._split(text, self.options.separator)
        written = self._cells(text, self.options.separator)
        self.padded = [at for at, (a, b) in enumerate(zip(written, names, strict=True)) if a != b]
        if names and not any(names):
            raise SourceError(f"{where} is empty: a header with the columns' names is needed.")
        named = [name for name in names if name]
        if not ((self._declared and set(self._declared) <= {*named}) or is_header({*named})):
            raise SourceError(no_header(where) + self.advice)
        if not self._declared and len({*named}) < len(named):
            twice = next(one for one in named if named.count(one) > 1)
            places = [at for at, one in enumerate(names, 1) if one == twice]
            raise SourceError(
                f"The cells {places[0]} and {places[1]} of {_lowered(where)} are the same name. "
                "Rename one of the columns, or leave it out."
            )
        return names

    def _other_separator(self, header: str) -> str:
        """Advice to declare a usual separator that makes the declared columns of a header.

        Where none is declared, as for a draft, whose names are made public, one that makes several
        names of what is none or a single one.
        """
        if not self._declared and not spelled("", "in a shell"):
            return ""  # somebody else's first record may be a row
        found = self._split(header, self.options.separator)
        if set(self._declared) <= set(found) if self._declared else len(found) > 1:
            return ""
        for other in SEPARATORS.replace(self.options.separator, ""):
            names = [name for name in self._split(header, other) if name]
            if is_header({*names}) and len(names) > 1 and set(self._declared) <= set(names):
                return _advice(other, "--{} {}" if not self._declared else "{} = {}")
        return ""

    def _split(self, record: str, separator: str) -> tuple[str, ...]:
        return tuple(name.strip() for name in self._cells(record, separator))

    def _cells(self, record: str, separator: str) -> list[str]:
        """Cells of a record; none, if it breaks the format."""
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
    """A sentence after others; programs that write semicolons mostly write decimal commas too."""
    options = form.format("separator", json.dumps(separator))
    if separator == ";":
        options += f" (and for decimal commas {form.format('decimal', json.dumps(','))})"
    place = " under [file]" if " = " in form else ""
    return f" With {options}{place} the first record names several columns."


def _lowered(text: str) -> str:
    return text[:1].lower() + text[1:]


def is_header(names: Collection[str]) -> bool:
    """Whether these are distinct names of columns, none of which is a number."""
    distinct = 0 < len(names) == len(set(names))
    return distinct and not any(not name or is_number(name) for name in names)


def no_header(where: str) -> str:
    """What is said of a first record that is no header."""
    draft = spelled("", " (--no-header for a draft)")
    return (
        f"{where} is no header: its cells are not names of columns. If the file has none, set "
        f"header = false under [file] in the schema{draft}."
    )


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


def is_number(text: str) -> bool:
    """Whether a text is a number, as no name of a column is."""
    try:
        float(text)
    except ValueError:
        return False
    return True


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
            whole += f"|[0-9]{{1,3}}({self._grouping}[0-9]{{3}})+"
        sign = re.escape(self.decimal)
        exponent = "([eE][+-]?[0-9]{1,3})?"
        return rf"^[+-]?(({whole})({sign}[0-9]*)?|{sign}[0-9]+){exponent}$"

    @property
    def _grouping(self) -> str:
        """A pattern of what groups thousands."""
        thousands = self.thousands or ""
        if thousands == " " or thousands in SPACES:
            return f"[{' ' * (thousands == ' ')}{SPACES}]"
        return re.escape(thousands)

    def plainly(self, texts: pa.Array) -> pa.Array:
        """Cells as plain decimals; null where a cell is no number in this notation."""
        written = with_hyphens(trimmed(texts))
        fits = pc.and_(
            pc.match_substring_regex(written, self.pattern),
            pc.less_equal(pc.binary_length(texts), LONGEST_CELL),
        )
        found = pc.if_else(fits, written, None)
        if self.thousands is not None:
            found = pc.replace_substring_regex(found, self._grouping, "")
        return pc.replace_substring(found, self.decimal, ".")


class Lines:
    """Whole lines of a stream; `text` holds those that are ready.

    A byte-order mark is dropped at the very start. Of a line of more than `LONGEST_RECORD` bytes
    only so many are kept, and a line end: still too many.
    """

    def __init__(self, read: Callable[[int], bytes], close: Callable[[], object]) -> None:
        self.text = b""
        self.ended = False
        self.close = close
        self._read = read
        self._begun = False
        self._tail = b""  # the beginning of a line
        self._overlong = b""  # what is kept of the line that `tail` goes on with

    def more(self) -> None:
        """Read more lines, or find that the stream has ended.

        As much is read as waits already, so that what waits is looked at a few times only.
        """
        chunk = self._read(max(CHUNK, len(self.text)))
        whole = self._tail + chunk
        # A line feed may follow a carriage return that ends what was read.
        end = 1 + max(whole.rfind(b"\n"), whole.rfind(b"\r", 0, -1)) if chunk else len(whole)
        lines, self._tail = whole[:end], whole[end:]
        self.ended = not chunk
        if self._overlong and (lines or self.ended):
            found = LINE_END.search(lines)
            lines = self._overlong + (lines[found.start() :] if found else b"\n")
            self._overlong = b""
        if len(self._tail) > LONGEST_RECORD + 1:
            self._overlong = self._overlong or self._tail[:LONGEST_RECORD]
            self._tail = self._tail[-1:]  # it may be a carriage return
        elif self._overlong:
            self._tail = self._tail[-1:]
        self.text += lines
        if not self._begun and self.text:
            self._begun = True
            self.text = self.text.removeprefix(BYTE_ORDER_MARK)

    def next(self) -> bytes:
        """The next line with its end; empty at the end of the stream."""
        while not self.text and not self.ended:
            self.more()
        found = LINE_END.search(self.text)
        stop = found.end() if found else len(self.text)
        line, self.text = self.text[:stop], self.text[stop:]
        return line


def decoded(read: Callable[[int], bytes], encoding: str) -> Callable[[int], bytes]:
    """Read a stream in another encoding as UTF-8; what can't be decoded becomes U+FFFD.

    Each unit of the encoding (a byte, or two or four) is decoded on its own or with the other half
    of its character, so that a broken one spoils no other.
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
    """The encoding with its order of bytes, which a mark at the start may tell."""
    if encoding == "utf-16":
        return "utf-16-be" if start.startswith(codecs.BOM_UTF16_BE) else "utf-16-le"
    if encoding == "utf-32":
        return "utf-32-be" if start.startswith(codecs.BOM_UTF32_BE) else "utf-32-le"
    return encoding


@dataclass(frozen=True, slots=True)
class Grammar:
    """What a record is: `cells`, kept apart by `separator`, perhaps in a pair of `quote`.

    Separator and quote are bytes; without `quote`, none is special. A record has at most `lines`.
    """

    cells: int
    separator: int
    quote: int | None
    lines: int

    @property
    def one_line(self) -> bool:
        """Whether each line is one row."""
        return self.quote is None or self.lines == 1

    @property
    def reach(self) -> int:
        """How many rows one record of at most `lines` lines, broken or not, can change."""
        return 1 if self.one_line else 5 * self.lines


@dataclass(frozen=True, slots=True)
class Block:
    """Some rows in order: which of them are records, and the text of those, one after the other."""

    is_record: Booleans
    text: bytes


@dataclass(frozen=True, slots=True)
class _Run:
    """What is known of an odd line that waits for the next one, from the pairs before it.

    In the run of pairs that it may go on, `place` is that of the next pair, and `age` how many
    lines ago the run began. If `taken`, the line is the end of a record.
    """

    place: int = 0
    age: int = 0
    taken: bool = False


class Reader:
    """Tells rows from whole lines, block after block; what waits for more lines is not used."""

    def __init__(self, lines: Lines, grammar: Grammar) -> None:
        self._lines = lines
        self._grammar = grammar
        self._run = _Run()

    def next(self) -> Block | None:
        """The rows that are decided next; None after the last."""
        lines = self._lines
        while lines.text or not lines.ended:
            if not lines.ended:
                lines.more()
            if lines.text and len((block := self._rows(lines.text)).is_record):
                return block
        return None

    def _rows(self, text: bytes) -> Block:
        """Rows that are decided in the text; what need not be seen again is dropped."""
        run, grammar = self._run, self._grammar
        found = _Found(text, grammar)
        first, last, taken, after = _records(found, grammar, run)
        decided = len(found.odd)
        self._run = _Run()
        if len(found.odd_lines) and not self._lines.ended:
            waiting = found.odd_lines[-1]
            at_hand = len(text) - found.starts[waiting]
            if decided - waiting < grammar.lines and at_hand < LONGEST_RECORD:
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
    """Put the text of good rows together, which often follow each other."""
    edges = np.flatnonzero(np.diff(good, prepend=False, append=False))
    runs = zip(starts[edges[::2]], stops[edges[1::2] - 1], strict=True)
    # A carriage return and the line feed of an empty record after a gap would be one line end.
    parts = [text[a:b] + b"\n" if text[b - 1] == CR else text[a:b] for a, b in runs]
    return Block(good, b"".join(parts))


class _Found:
    """What matters of each line of a text.

    `starts` of the lines, and of what follows; `odd`: the number of quotes is; `single`: the line
    is a record; `broken` and `outside`: for a line that begins outside and one that begins inside,
    whether a quote stands where it may not, and the separators outside.
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
        short = np.diff(self.starts) <= LONGEST_RECORD
        fits = self.outside[0] == grammar.cells - 1
        self.single = ~self.odd & ~self.broken[0] & short & fits

    def _see_quotes(
        self, array: NDArray[np.uint8], separators: Integers, separator: int, quote: int
    ) -> None:
        is_quote = array == quote
        quotes = np.flatnonzero(is_quote)
        before = np.searchsorted(quotes, self.starts)  # quotes before each line
        numbers = np.diff(before)
        self.odd = numbers % 2 == 1
        line = np.repeat(np.arange(len(numbers)), numbers)
        second = (np.arange(len(quotes)) - before[line]) % 2 == 1
        edge = np.zeros(256, bool)
        edge[[separator, quote, LF, CR]] = True
        opens = edge[array[quotes - 1]] | (quotes == 0)
        closes = edge[array[(quotes + 1) % len(array)]] | (quotes == len(array) - 1)
        for side in (0, 1):
            stray = ~np.where(second ^ bool(side), closes, opens)
            self.broken[side][line[stray]] = True
        # Inside or outside at each separator, as seen from the start of the text.
        inside = np.bitwise_xor.accumulate(is_quote.view(np.uint8))[separators]
        sums = np.append(0, np.cumsum(inside, dtype=np.int64))
        bounds = np.searchsorted(separators, self.starts)
        within = np.diff(sums[bounds])
        total = np.diff(bounds)
        swapped = before[:-1] % 2 == 1
        outside = np.where(swapped, within, total - within)
        self.outside = (outside, total - outside)


def _line_starts(text: bytes, array: NDArray[np.uint8]) -> Integers:
    ends = array == LF
    if CR in text:
        alone = array == CR
        alone[:-1] &= array[1:] != LF
        ends |= alone
    starts = np.append(0, np.flatnonzero(ends) + 1)
    return starts if starts[-1] == len(array) else np.append(starts, len(array))


def _records(
    found: _Found, grammar: Grammar, run: _Run
) -> tuple[Integers, Integers, Booleans, _Run]:
    """Each odd line and the next one; which of the two are ends of a record; what then waits."""
    first, last = found.odd_lines[:-1], found.odd_lines[1:]
    if not len(first):
        return first, last, np.zeros(0, bool), run if len(found.odd_lines) else _Run()
    strays = np.append(0, np.cumsum(found.broken[1]))
    cells = np.append(0, np.cumsum(found.outside[1]))
    pair = ~found.broken[0][first] & (strays[last + 1] == strays[first + 1])
    pair &= found.outside[0][first] + cells[last + 1] - cells[first + 1] == grammar.cells - 1
    pair &= last - first < grammar.lines
    pair &= found.starts[last + 1] - found.starts[first] <= LONGEST_RECORD
    place, begun = _runs(pair, first, run)
    taken = pair & (place % 2 == 0) & (last - begun < grammar.lines)
    after = _Run(place[-1] + 1, last[-1] - begun[-1], bool(taken[-1])) if pair[-1] else _Run()
    return first, last, taken, after


def _runs(pair: Booleans, first: Integers, run: _Run) -> tuple[AnyArray, AnyArray]:
    """The place of each pair in its run of pairs that share a line, and the run's first line."""
    at = np.arange(len(pair))
    start = np.maximum.accumulate(np.where(pair, -1, at)) + 1
    place = at - start
    begun = first[np.minimum(start, at)]
    if run.place:
        goes_on = start == 0
        place[goes_on] += run.place
        begun[goes_on] = first[0] - run.age
    return place, begun
