"""A row of a text is a record: as a parser by hand finds it, whatever the cells and the chunks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path
from statistics import median

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import records as attacks
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import text as text_module
from dpcov.rows.sources.text import TextSource
from records_by_hand import Rule, lines_of, rows_of
from strategies import moment, same

NAMES = ("x0", "x1", "x2", "x3")
LARGE = 2**22


def read(folder: Path, text: bytes, width: int, **options) -> list[list[bytes] | None]:
    """Return the rows as the library reads them; None stands for a row that is not a record."""
    (folder / "t.csv").write_bytes(text)
    source = TextSource(
        folder / "t.csv", FileOptions(header=False, **options), NAMES[:width] or NAMES
    )
    found: list[list[bytes] | None] = []
    for batch in source.batches(source.names):
        columns = [column.cast("binary").to_pylist() for column in batch.columns]
        found += [None if row[0] is None else list(row) for row in zip(*columns, strict=True)]
    return found


ODD_CELL = st.lists(st.sampled_from([",", "\n", "\r\n", "\r", '"', "a", "1"]), max_size=4)
QUOTED = ODD_CELL.map(lambda parts: '"' + "".join(parts).replace('"', '""') + '"')
CELL = st.sampled_from(["", "1", "a", "é"]) | QUOTED
END = st.sampled_from(["\n", "\n", "\r\n", "\r"])


def written(width: int, rows: int = 8) -> st.SearchStrategy[str]:
    """Return texts of a conforming writer."""
    row = st.tuples(st.lists(CELL, min_size=width, max_size=width).map(",".join), END)
    return st.lists(row.map("".join), max_size=rows).map("".join)


@st.composite
def spoilt(draw, width: int) -> str:
    """Draw a text of a conforming writer, with inserted or removed characters."""
    text = draw(written(width))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from('",\na')) + text[at + draw(st.integers(0, 1)) :]
    return text


ROUGH = st.text(st.sampled_from('",\n\r1a'), max_size=40) | st.text('",\n1', max_size=60)


@settings(max_examples=400)
@given(
    width=st.integers(1, 3),
    data=st.data(),
    most=st.sampled_from([1, 2, 3, 5, 1000]),
    size=st.sampled_from([4, 10, 30, LARGE]),
    chunk=st.sampled_from([1, 2, 3, 7, 2**20]),
)
def test_records_are_those_that_a_parser_by_hand_finds(
    tmp_path, width, data, most, size, chunk
) -> None:
    text = data.draw(ROUGH | written(width) | spoilt(width)).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_module, "READ_BYTES", chunk)
        patch.setattr(text_module, "MAX_RECORD_BYTES", size)
        found = read(tmp_path, text, width, max_record_lines=most)
    assert found == rows_of(text, Rule(width, lines=most, size=size))


TEXT = st.text('",\n\r a1', max_size=5)
# With line feeds as line ends Python's module leaves a lone carriage return without quotes.
DIALECTS = [(csv.QUOTE_ALL, "\n"), (csv.QUOTE_ALL, "\r"), (csv.QUOTE_MINIMAL, "\r\n")]


@given(rows=st.lists(st.tuples(TEXT, TEXT, TEXT), max_size=12), dialect=st.sampled_from(DIALECTS))
@example(rows=[("\n", "\n", "\n"), (",", '"', ""), (",\n,", '","', '"')], dialect=DIALECTS[0])
def test_what_a_conforming_writer_writes_is_read_as_it_was_written(tmp_path, rows, dialect) -> None:
    file = io.StringIO(newline="")
    csv.writer(file, quoting=dialect[0], lineterminator=dialect[1]).writerows(rows)
    expected = [[cell.encode() for cell in row] for row in rows]
    assert read(tmp_path, file.getvalue().encode(), 3) == expected


@given(text=written(2), other=written(2), at=st.integers(0, 8))
def test_the_image_of_a_conforming_text_is_the_union_of_those_of_its_records(
    tmp_path, text, other, at
) -> None:
    whole = (text + other).encode()
    parts = [read(tmp_path, part.encode(), 2) for part in (text, other)]
    assert read(tmp_path, whole, 2) == parts[0] + parts[1]
    cut = sum(map(len, lines_of(text.encode())[:at]))  # maybe within a record
    both = [rows_of(part, Rule(2)) for part in (text.encode()[:cut], text.encode()[cut:])]
    assert [read(tmp_path, part, 2) for part in (text.encode()[:cut], text.encode()[cut:])] == both


def reach_between(one: list, other: list) -> int:
    """Return the number of rows to remove or add in one to get the other."""
    left, right = (Counter(map(repr, rows)) for rows in (one, other))
    return (left - right).total() + (right - left).total()


PIECES = [
    b'%d,",%d\n',
    b"%d,%d\n",
    b'"%d,%d\n',
    b'%d,"%d\n',
    b'%d,%d"\n',
    b',"%d,%d",\n',
    b'%d",%d\n',
]


@st.composite
def neighbours(draw) -> tuple[bytes, bytes, int]:
    """Draw two texts; one lacks some lines of the other, most of them lines of a record."""
    most = draw(st.integers(2, 4))
    kinds = draw(st.lists(st.sampled_from(PIECES), min_size=1, max_size=3))
    picks = draw(st.lists(st.sampled_from(kinds), min_size=2, max_size=24))
    lines = [piece % (i, -i) for i, piece in enumerate(picks)]
    first = draw(st.integers(0, len(lines)))
    last = first + draw(st.integers(1, most))
    return b"".join(lines), b"".join(lines[:first] + lines[last:]), most


@settings(max_examples=400)
@given(pair=neighbours())
def test_a_record_reaches_no_further_than_it_is_said(tmp_path, pair) -> None:
    more, fewer, most = pair
    found = [read(tmp_path, text, 2, max_record_lines=most) for text in (more, fewer)]
    (tmp_path / "t.csv").write_bytes(b"")
    options = FileOptions(header=False, max_record_lines=most)
    assert reach_between(*found) <= TextSource(tmp_path / "t.csv", options, NAMES).reach


def test_control_who_goes_from_record_to_record_reaches_to_the_end() -> None:
    assert attacks.changed(*map(attacks.chained, attacks.shifted(500))) >= 500
    assert attacks.changed(*map(attacks.read_by_dpcov, attacks.shifted(500))) <= 1001
    few = [attacks.read_by_dpcov(text, max_record_lines=10) for text in attacks.shifted(500)]
    assert attacks.changed(*few) <= 10


@pytest.mark.parametrize("kind", attacks.KINDS)
def test_a_stray_quote_changes_one_row_as_a_rule(kind: str) -> None:
    found = attacks.stray_quotes(attacks.read_by_dpcov, kind, 25, 200)
    assert median(found) == 1
    assert max(found) <= attacks.LIMIT


def test_control_resuming_after_the_whole_stretch_changes_many() -> None:
    assert median(attacks.stray_quotes(attacks.skipping, "numbers", 15, 200)) > 1


def test_the_rows_of_a_conforming_text_are_counted_and_controls_fail() -> None:
    assert attacks.conforming(attacks.read_by_dpcov)
    assert not attacks.conforming(attacks.by_lines)
    assert not attacks.conforming(attacks.without_blanks)


@given(text=ROUGH, width=st.integers(1, 3))
def test_with_records_that_are_lines_no_cell_changes_their_number(tmp_path, text, width) -> None:
    count = len(lines_of(text.encode()))
    for options in ({"records": "lines"}, {"quote": False}, {"max_record_lines": 1}):
        assert len(read(tmp_path, text.encode(), width, **options)) == count


def test_the_options_state_what_is_not_protected(tmp_path) -> None:
    (tmp_path / "t.csv").write_text("a\n")

    def reported(**options) -> tuple[bool, int, str]:
        source = TextSource(tmp_path / "t.csv", FileOptions(**options), ())
        return source.rows_are_lines, source.reach, source.caveat

    assert reported()[:2] == (False, 5000)
    assert "up to 5,000 rows" in reported()[2]
    assert "more than 30 lines" in reported(max_record_lines=30)[2]
    for options in ({"records": "lines"}, {"quote": False}, {"max_record_lines": 1}):
        assert reported(**options)[:2] == (True, 1)


@pytest.mark.parametrize("record", [b'1,"\n', b'"\n', b'1,",2\n', b'"a\n', b"1\n"])
@pytest.mark.parametrize("chunk", [64, 2**20])
def test_work_is_linear_whatever_the_lines_hold(tmp_path, monkeypatch, record, chunk) -> None:
    queried = []

    class Counted(text_module._Found):
        def __init__(self, text, grammar):
            queried.append(len(text))
            super().__init__(text, grammar)

    monkeypatch.setattr(text_module, "_Found", Counted)
    monkeypatch.setattr(text_module, "READ_BYTES", chunk)
    filler = b"2,3\n" * 900
    for text in (record * 20_000, (record + filler) * 20, record + filler * 20):
        queried.clear()
        read(tmp_path, text, 3)
        assert sum(queried) <= 4 * len(text) + 2 * chunk


def test_a_record_of_20000_lines_is_one_row_where_the_limit_says_so(tmp_path) -> None:
    text = b'1,"' + b"7,8\n" * 20_000 + b'"\n3,4\n'
    assert len(read(tmp_path, text, 2, max_record_lines=20_001)) == 2
    assert len(read(tmp_path, text, 2, max_record_lines=20_000)) == 20_002


def test_a_csv_with_line_breaks_gives_the_integers_of_the_same_table_in_parquet(tmp_path) -> None:
    rng = np.random.default_rng(35)
    rows = 30_000
    notes = np.where(rng.random(rows) < 0.2, "two\nlines, and", "one").astype(object)
    notes[::50] = "\n,\r\nodd\n"
    frame = pd.DataFrame(
        {"note": notes, "a": rng.normal(3, 1, rows).round(4), "b": rng.choice(["x", "y, z"], rows)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    columns = {
        "a": {"kind": "numeric", "lower": 0, "upper": 6},
        "b": {"kind": "categorical", "levels": ["x", "y, z"]},
    }
    schema = Schema.parse({"columns": columns})
    found = moment(tmp_path / "t.csv", schema)
    assert found.unit_count == rows
    assert same(found, moment(tmp_path / "t.parquet", schema))
    by_lines = Schema.parse({"columns": columns, "file": {"records": "lines"}})
    assert not same(moment(tmp_path / "t.csv", by_lines), found)  # control: as it was
