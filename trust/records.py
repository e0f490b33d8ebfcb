"""Measure in text files what is a record, and how far a stray quote reaches."""

from __future__ import annotations

import csv
import io
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from dpcov.rows.schema import FileOptions
from dpcov.rows.sources import open_source
from figure import Figure

CELLS = 4
NAMES = tuple(f"x{j}" for j in range(CELLS))
LIMIT = FileOptions().max_record_lines
ATTACK = "stray quotes"

Reader = Callable[[bytes], list[Any]]

_CELL = rb'(?:"(?:[^"]|"")*+"|[^",\r\n]*+)'
_RECORD = re.compile(rb"(%s)(?:,%s)*+(?:\r\n|\r|\n|\Z)" % (_CELL, _CELL))
_LINE = re.compile(rb"[^\r\n]*+(?:\r\n|\r|\n|\Z)")


def read_by_dpcov(text: bytes, **options: Any) -> list[Any]:
    """Return the rows as the library reads them; None stands for a row that is not a record."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        file.write(text)
        file.flush()
        source = open_source(Path(file.name), FileOptions(header=False, **options), NAMES)
        rows: list[Any] = []
        for batch in source.batches(NAMES):
            columns = [column.cast("binary").to_pylist() for column in batch.columns]
            rows += [None if row[0] is None else row for row in zip(*columns, strict=True)]
    return rows


def by_lines(text: bytes) -> list[Any]:
    """Read each line as a row, as dpcov 0.1 did."""
    return read_by_dpcov(text, records="lines")


def without_blanks(text: bytes) -> list[Any]:
    """Drop blank lines, as dpcov 0.1 did."""
    return read_by_dpcov(re.sub(rb"(?m)^\n", b"", text))


def chained(text: bytes, limit: int = LIMIT, skip: bool = False) -> list[Any]:
    """Read the first record, and then the text after it, whatever ends the record.

    After text that is not a record, continue with its second line; with `skip`, after the whole
    text.
    """
    rows: list[Any] = []
    at = 0
    while at < len(text):
        found = _RECORD.match(text, at)
        record = found.group() if found else b""
        fits = len(re.findall(rb"(?:^|,)%s" % _CELL, record)) == CELLS
        if found and fits and len(_LINE.findall(record)) - 1 <= limit:
            rows.append(record.rstrip(b"\r\n"))
            at = found.end()
            continue
        rows.append(None)
        for _ in range(limit if skip and not found else 1):
            line = _LINE.match(text, at)
            at = line.end() if line else len(text)
    return rows


def skipping(text: bytes) -> list[Any]:
    """Resume after the whole stretch that was no record."""
    return chained(text, skip=True)


def changed(before: Iterable[Any], after: Iterable[Any]) -> int:
    """Return the number of rows that differ: the lost ones or the new ones, whichever are more."""
    old, new = Counter(before), Counter(after)
    return max((old - new).total(), (new - old).total())


def table(kind: str, rows: int, rng: random.Random) -> bytes:
    """Return a table of a conforming writer; at most a fifth of its records have line breaks.

    A poisoned table also has broken records.
    """
    odd = ["two\nlines", 'a "word"\r\nand more', "a, b\n\nc", "\nb\n", "\n,\n", ",\n,"]
    texts = {
        "numbers": (["1.5", "-2", ""], []),
        "texts": (["plain", "with, comma", 'a "word"', ""], []),
        "line breaks": (["plain", "with, comma", ""], odd[:3]),
        "cells that begin oddly": (["plain", ", a", ',"', '"', '""', '",'], odd[3:]),
        "poisoned": (["plain", ", a", '"', ""], odd),
    }[kind]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n")
    for number in range(rows):
        cells = [rng.choice(texts[0]), rng.choice(texts[0])]
        if texts[1] and rng.random() < 0.2:
            cells[rng.randrange(2)] = rng.choice(texts[1])
        writer.writerow([number, cells[0], rng.random(), cells[1]])
    text = file.getvalue()
    for _ in range(rows // 20 if kind == "poisoned" else 0):
        at = rng.randrange(len(text))
        text = text[:at] + rng.choice(['"', ",", "\n", '\n"']) + text[at:]
    return text.encode()


KINDS = ("numbers", "texts", "line breaks", "cells that begin oddly", "poisoned")


def stray_quotes(read: Reader, kind: str, count: int, rows: int, seed: int = 0) -> list[int]:
    """Return the numbers of rows that a quote changes, at `count` random places of a table."""
    rng = random.Random(seed)  # noqa: S311  no secret
    text = table(kind, rows, rng)
    before = read(text)
    places = [rng.randrange(len(text) + 1) for _ in range(count)]
    return [changed(before, read(text[:at] + b'"' + text[at:])) for at in places]


def shifted(records: int) -> tuple[bytes, bytes]:
    """Return two texts that differ in their first line. All later lines can be read in two ways."""
    lines = b"".join(b'%d,1,",%d\n' % (i, -i) for i in range(2 * records))
    return lines, b'7,1,",7\n' + lines


def cut_and_filled(rows: list[Any], count: int) -> list[Any]:
    """Return exactly so many rows: the first, and then rows without values."""
    return [*rows[:count], *[None] * (count - len(rows))]


def repeated(rows: list[Any], count: int) -> list[Any]:
    """Return exactly so many rows, from the first again after the last: a control."""
    return [rows[at % len(rows)] for at in range(count)] if rows else [None] * count


def neighbours(kind: str, rows: int, count: int, *, broken: bool) -> list[tuple[bytes, bytes]]:
    """Return pairs of texts that differ in one record: an added, a changed or a broken one."""
    rng = random.Random(1)  # noqa: S311
    pairs = []
    for _ in range(count):
        whole = table(kind, rows, rng)
        starts = [0, *(found.end() for found in _RECORD.finditer(whole))]
        at = rng.randrange(len(starts) - 2)
        own = whole[starts[at] : starts[at + 1]]
        other = rng.choice([b"", b'7,"\n,\n",7,"a ""b"""\n'])
        if broken:
            place = rng.randrange(len(own))
            other = own[:place] + rng.choice([b'"', b"\n", b","]) + own[place:]
        before, after = whole[: starts[at]], whole[starts[at + 1] :]
        pairs.append((whole, before + other + after))
    return pairs


def declared_rows(count: int) -> list[Figure]:
    """Measure what one record changes among a declared number of rows, too few or too many."""

    def fixed(text: bytes, rows: int) -> list[Any]:
        return read_by_dpcov(text, rows=rows)

    def worst(read: Callable[[bytes, int], list[Any]], *, broken: bool) -> int:
        found = []
        for kind in KINDS[:-1]:
            for pair in neighbours(kind, 40, count, broken=broken):
                for rows in (20, 60):
                    one, other = (read(text, rows) for text in pair)
                    assert len(one) == len(other) == rows
                    found.append(changed(one, other))
        return max(found)

    clean, spoilt = worst(fixed, broken=False), worst(fixed, broken=True)
    pairs = 2 * count * len(KINDS[:-1])
    measured = f"rows of a declared number that differ in {pairs} pairs of files, one record"
    caught = {
        "repeats rows to the declared number": worst(
            lambda text, rows: repeated(read_by_dpcov(text), rows), broken=False
        ),
        "cuts lines before it separates records": worst(
            lambda text, rows: cut_and_filled(by_lines(text), rows), broken=False
        ),
    }
    figures = [
        _figure(f"{measured} of RFC 4180", "<= 1", str(clean), clean <= 1),
        _figure(f"{measured} broken", f"<= {5 * LIMIT}", str(spoilt), spoilt <= 5 * LIMIT),
    ]
    for name, found in caught.items():
        figures.append(_figure(f"control: {name}", "caught", str(found > 1), found > 1))
    return figures


def _figure(measured: str, wanted: str, found: str, ok: bool) -> Figure:
    return Figure(ATTACK, measured, wanted, found, ok)


def conforming(read: Reader, seed: int = 0) -> bool:
    """Return True if a table with line breaks and blank records has the rows that were written."""
    rng = random.Random(seed)  # noqa: S311
    text = table("line breaks", 300, rng) + b"\n" * 3
    written = [*csv.reader(io.StringIO(text.decode(), newline=""))]
    return len(read(text)) == len(written)


def measure(quick: bool) -> list[Figure]:
    """Run all parts of the attack."""
    count, rows = (40, 400) if quick else (200, 2000)
    figures = []
    for kind in KINDS:
        found = stray_quotes(read_by_dpcov, kind, count, rows)
        ok = max(found) <= LIMIT and median(found) == 1
        figures.append(
            _figure(
                f"rows changed by one of {count} in {rows} rows, {kind}",
                f"median 1, <= {LIMIT}",
                f"median {median(found):g}, largest {max(found)}",
                ok,
            )
        )
    reach = 5 * 10
    worst = changed(*[read_by_dpcov(text, max_record_lines=10) for text in shifted(2000)])
    figures.append(
        _figure("a line before 2,000 ambiguous records", f"<= {reach}", str(worst), worst <= reach)
    )
    caught = {
        "goes on from record to record": changed(*[chained(text) for text in shifted(2000)]) > 1000,
        "reads lines": not conforming(by_lines),
        "drops blank lines": not conforming(without_blanks),
        "resumes after the whole stretch": median(stray_quotes(skipping, "numbers", 20, 400)) > 1,
    }
    figures += declared_rows(10 if quick else 50)
    figures += [_figure(f"control: {name}", "caught", str(ok), ok) for name, ok in caught.items()]
    figures.append(
        _figure(
            "control: this reader",
            "passes",
            str(conforming(read_by_dpcov)),
            conforming(read_by_dpcov),
        )
    )
    return figures
