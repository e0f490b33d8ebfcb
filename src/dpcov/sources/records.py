"""Where the records of a text are, by a rule that looks no further than a fixed number of lines.

The rule, and how far a broken record can reach by it, are proved in docs/proofs/records.md. Here it
is worked out for all lines of a block at once. A quote turns "outside" into "inside" and back,
whatever else it is; so all that matters of a line is whether its quotes are odd in number (then it
ends on the other side than it begins), and for either side on which it may begin, whether its
quotes stand where they may and how many separators are outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.sources.lines import LONGEST_RECORD, Lines

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import AnyArray, Booleans, Integers

LF, CR = 10, 13


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


def blocks(lines: Lines, grammar: Grammar) -> Iterator[Block]:
    """All rows of the lines that are left."""
    reader = _Reader(grammar)
    while lines.text or not lines.ended:
        used = 0
        if lines.text:
            block, used = reader.rows(lines.text, lines.ended)
            lines.text = lines.text[used:]
            if len(block.is_record):
                yield block
        if not lines.ended:
            lines.more()


@dataclass(frozen=True, slots=True)
class _Run:
    """What is known of an odd line that waits for the next one, from the pairs before it.

    In the run of pairs that it may go on, `place` is that of the next pair, and `age` how many
    lines ago the run began. If `taken`, the line is the end of a record.
    """

    place: int = 0
    age: int = 0
    taken: bool = False


class _Reader:
    """Tells rows from whole lines, block after block; what waits for more lines is not used."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._run = _Run()

    def rows(self, text: bytes, final: bool) -> tuple[Block, int]:
        """Rows that are decided, and how many bytes of the text need not be seen again."""
        run, grammar = self._run, self._grammar
        found = _Found(text, grammar)
        first, last, taken, after = _records(found, grammar, run)
        decided = len(found.odd)
        self._run = _Run()
        if len(found.odd_lines) and not final:
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
        block = _block(text, found.starts[rows], found.starts[stops], good[rows])
        return block, int(found.starts[decided])


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
