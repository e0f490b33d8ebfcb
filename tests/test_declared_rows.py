"""A declared number of rows: replace-one on text files, whatever the records hold."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from decimal import Decimal
from itertools import chain

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import dpcov
import records as attacks
from dpcov.cli.check import _sentences
from dpcov.errors import DpcovError, SchemaError, SourceError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.base import FixedRows
from dpcov.rows.sources.check import diagnose
from dpcov.rows.sources.conditions import Conditions, rows_meeting
from dpcov.rows.sources.partial import PartialMoment
from dpcov.rows.sources.sql import DatabaseTable
from dpcov.rows.sources.text import TextSource
from strategies import moment, same

NAMES = ("x0", "x1")
NUMBER = {"kind": "number", "lower": 0, "upper": 10}
LINE = "a\n1\n2\n3\n"


def schema_of(**file) -> Schema:
    return Schema.parse({"version": 2, "columns": {"a": NUMBER}, "file": file})


def rows_of(folder, text: bytes, rows: int | None, **options) -> list[object]:
    """Return the rows as the library reads them; None stands for a row without values."""
    (folder / "t.csv").write_bytes(text)
    source = open_source(
        folder / "t.csv", FileOptions(header=False, rows=rows, **options), NAMES, frozenset()
    )
    found: list[object] = []
    for batch in source.batches(NAMES):
        columns = [column.cast("binary").to_pylist() for column in batch.columns]
        found += [None if row[0] is None else row for row in zip(*columns, strict=True)]
    return found


# What it is


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 7, 100_000])
@pytest.mark.parametrize("threads", [1, 3])
def test_exactly_so_many_rows_are_used_in_the_order_of_the_file(tmp_path, rows, threads):
    (tmp_path / "f.csv").write_text(LINE)
    cells = [*[1.0, 2.0, 3.0][:rows], *[None] * (rows - 3)]
    found = moment(tmp_path / "f.csv", schema_of(rows=rows), threads=threads)
    assert found.unit_count == rows
    assert same(found, moment(pa.table({"a": cells}), schema_of()))
    opened = open_rows(tmp_path / "f.csv", schema_of(rows=rows))
    assert (opened.public_rows, opened.countable) == (rows, True)
    plain = open_rows(tmp_path / "f.csv", schema_of())  # control
    assert (plain.public_rows, plain.countable) == (None, False)


ODD = {
    "dictionary": pa.array(["1", "2"]).dictionary_encode(),
    "runs": pa.RunEndEncodedArray.from_arrays([1, 2], ["1", "2"]),
    "view": pa.array(["1", "2"], pa.string_view()),
    "integers": pa.array([1, 2], pa.int8()),
    "decimals": pa.array([Decimal(1), Decimal(2)], pa.decimal128(4, 2)),
    "booleans": pa.array([True, False]),
    "halves": pa.array(np.array([1, 2], np.float16)),
}
KINDS = {
    "number": NUMBER,
    "level": NUMBER | {"missing": "level"},
    "pairwise": NUMBER | {"missing": "pairwise"},
    "categorical": {"kind": "categorical", "levels": [1, 2], "missing": "level"},
    "weight": None,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("column", ODD)
def test_rows_that_lack_are_as_missing_in_every_type(kind, column):
    columns = {"b": NUMBER} if kind == "weight" else {"a": KINDS[kind]}
    document = {"version": 2, "columns": columns}
    document |= {"weight": {"column": "a", "maximum": 5}} if kind == "weight" else {}
    table = pa.table({"a": ODD[column], "b": [1.0, 2.0]})
    nothing = pa.nulls(1, ODD[column].type)
    if column == "runs":
        nothing = pa.RunEndEncodedArray.from_arrays([1], pa.array([None], pa.string()))
    longer = pa.table({"a": pa.chunked_array([ODD[column], nothing]), "b": [1.0, 2.0, None]})
    found = moment(table, Schema.parse(document | {"file": {"rows": 3}}))
    assert same(found, moment(longer, Schema.parse(document)))


def test_rows_that_lack_have_no_date():
    columns = {"a": {"kind": "date", "lower": "2000-01-01", "upper": "2010-01-01"}}
    table = pa.table({"a": [datetime.date(2001, 1, 1)]})
    found = moment(table, Schema.parse({"version": 2, "columns": columns, "file": {"rows": 2}}))
    longer = pa.table({"a": [datetime.date(2001, 1, 1), None]})
    assert same(found, moment(longer, Schema.parse({"version": 2, "columns": columns})))


def test_conditions_choose_among_the_rows_that_are_left(tmp_path):
    (tmp_path / "f.csv").write_text(LINE)
    conditions = Conditions.parse("a >= 2", schema_of())
    source = open_source(tmp_path / "f.csv", FileOptions(rows=2), ("a",))
    found = [b.column("a").to_pylist() for b in rows_meeting(source, conditions).batches(["a"])]
    assert [*chain.from_iterable(found)] == ["2"]


# Neighbours


def changed(one: list[object], other: list[object]) -> int:
    """Return the number of rows to replace in one table to get the other."""
    left, right = Counter(one), Counter(other)
    assert left.total() == right.total()
    return (left - right).total()


CELL = st.sampled_from(["", "1", "a", '"b\nc"', '","', '""""', '"\n"', '"\r"'])
RECORD = st.tuples(CELL, CELL).map(",".join).map(lambda record: f"{record}\n".encode())
BROKEN = st.text('",\n\r1a', max_size=8).map(lambda text: f"{text}\n".encode())


@st.composite
def neighbours(draw, record) -> tuple[bytes, bytes]:
    """Draw two files; one has one record more, or another record."""
    before, after = draw(st.lists(RECORD, max_size=6)), draw(st.lists(RECORD, max_size=6))
    other = draw(st.just(b"") | record)
    texts = [b"".join([*before, middle, *after]) for middle in (draw(record), other)]
    return texts[0], texts[1]


@settings(max_examples=100, deadline=None)
@given(pair=neighbours(RECORD), rows=st.integers(1, 14))
@example(pair=(b"1,1\n2,2\n", b"2,2\n"), rows=1)
@example(pair=(b"1,1\n", b""), rows=3)
def test_one_record_of_a_conforming_file_changes_one_row(tmp_path, pair, rows):
    found = [rows_of(tmp_path, text, rows) for text in pair]
    assert [len(one) for one in found] == [rows, rows]
    assert changed(*found) <= 1


@settings(max_examples=100, deadline=None)
@given(pair=neighbours(BROKEN), rows=st.integers(1, 14), most=st.integers(2, 4))
@example(pair=(b",\n\r,\r1\n", b",\n,\n\n\n"), rows=2, most=2)  # the same rows in another order
def test_a_record_that_breaks_the_format_reaches_as_far_as_is_said(tmp_path, pair, rows, most):
    found = [rows_of(tmp_path, text, rows, max_record_lines=most) for text in pair]
    assert [len(one) for one in found] == [rows, rows]
    whole = [Counter(rows_of(tmp_path, text, None, max_record_lines=most)) for text in pair]
    apart = max((whole[0] - whole[1]).total(), (whole[1] - whole[0]).total())
    added = max(text.count(b"\n") + text.count(b"\r") for text in pair)
    source = TextSource(tmp_path / "t.csv", FileOptions(header=False, max_record_lines=most), NAMES)
    assert max(changed(*found), apart) <= source.reach + added


@settings(max_examples=100, deadline=None)
@given(pair=neighbours(BROKEN), rows=st.integers(1, 14))
def test_lines_are_rows_whatever_a_record_holds(tmp_path, pair, rows):
    text, other = pair
    found = [rows_of(tmp_path, one, rows, records="lines") for one in (text, other)]
    assert [len(one) for one in found] == [rows, rows]
    lines = [len(re.findall(rb"\r\n|\r|\n", one)) for one in (text, other)]
    if lines[0] == lines[1]:
        assert changed(*found) <= max(1, lines[0])


def test_control_without_a_declared_number_the_count_reveals_a_record(tmp_path):
    more, fewer = b"1,1\n2,2\n", b"2,2\n"
    assert len(rows_of(tmp_path, more, None)) - len(rows_of(tmp_path, fewer, None)) == 1
    broken = b'1,"\n' + more + b'"\n'  # and stray quotes change it as well
    assert len(rows_of(tmp_path, broken, None)) == 1
    assert len(rows_of(tmp_path, b"1,\n" + more + b"\n", None)) == 4


def test_control_filling_at_the_front_would_move_all_rows():
    """What the harness must catch: a number that is kept by repeating rows."""
    repeated = ["a", "b", "a", "b"], ["b", "b", "b", "b"]
    assert changed(*repeated) == 2


# Releases

ZCDP = {"epsilon": None, "rho": 1.0}


def released(path, **asked):
    return dpcov.release(path, **({"epsilon": 1.0, "neighbors": "replace-one"} | asked))


@pytest.mark.parametrize("rows", [2, 3, 5])
def test_a_csv_is_released_under_replace_one_with_the_declared_number(tmp_path, rows):
    (tmp_path / "f.csv").write_text(LINE)
    for asked in ({"schema": schema_of(), "rows": rows}, {"schema": schema_of(rows=rows)}):
        made = released(tmp_path / "f.csv", **asked)
        assert made.count() == rows
        assert made.schema.file.rows == rows
        assert f"exactly the {rows} rows that were declared" in made.provenance["not_protected"]
        assert "RFC 4180" in made.provenance["not_protected"]
    lines = schema_of(records="lines", rows=rows)
    assert "RFC" not in released(tmp_path / "f.csv", schema=lines).provenance["not_protected"]


def test_the_refusal_names_both_ways_in_two_sentences(tmp_path):
    (tmp_path / "f.csv").write_text(LINE)
    with pytest.raises(SourceError) as refused:
        released(tmp_path / "f.csv", schema=schema_of())
    assert "(rows=N)" in str(refused.value)
    assert 'records = "lines"' in str(refused.value)
    assert str(refused.value).count(". ") == 1


def test_what_it_does_not_fit_is_refused_before_anything_is_spent(tmp_path):
    (tmp_path / "f.csv").write_text(LINE)
    with pytest.raises(SourceError, match="needs replace-one"):
        released(tmp_path / "f.csv", schema=schema_of(), rows=3, neighbors="add-remove")
    with pytest.raises(SourceError, match="needs replace-one"):
        released(tmp_path / "f.csv", schema=schema_of(rows=3), neighbors="add-remove")
    unit = {"column": "p", "type": "integer", "max_rows": 1}
    document = {"version": 2, "columns": {"a": NUMBER}, "unit": unit, "file": {"rows": 3}}
    with pytest.raises(SchemaError, match="cannot fix the number of persons"):
        Schema.parse(document)
    plain = Schema.parse(document | {"file": {}})
    with pytest.raises(SchemaError, match="cannot fix the number of persons"):
        released(tmp_path / "f.csv", schema=plain, rows=3)
    with duckdb.connect(tmp_path / "d.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1.0 AS a")
    with pytest.raises(SourceError, match="a fixed order of rows"):
        released(DatabaseTable(tmp_path / "d.duckdb", "t"), schema=schema_of(), rows=3)
    for wrong in (0, -1, 2.5, True, "3"):
        with pytest.raises(DpcovError):
            released(tmp_path / "f.csv", schema=schema_of(), rows=wrong)


def test_an_array_may_have_a_declared_number_too():
    made = dpcov.release(
        np.zeros((4, 1)), lower=0, upper=1, epsilon=1.0, rows=6, neighbors="replace-one"
    )
    assert made.count() == 6


def test_levels_of_a_column_are_those_of_the_rows_that_are_used(tmp_path):
    (tmp_path / "f.csv").write_text("a,g\n" + "1,x\n" * 500 + "9,y\n" * 500)
    columns = {"a": NUMBER, "g": {"kind": "categorical", "levels": ["x", "y"]}}
    schema = Schema.parse({"version": 2, "columns": columns})
    asked = {"schema": schema, "epsilon": 100.0, "rows": 500}
    made = dpcov.release_by(tmp_path / "f.csv", "g", neighbors="replace-one", **asked)
    assert abs(made["x"].count() - 500) < 20
    assert abs(made["y"].count()) < 20
    with pytest.raises(SourceError, match="needs replace-one"):
        dpcov.release_by(tmp_path / "f.csv", "g", **asked)


def test_sums_of_a_declared_number_are_for_replace_one(tmp_path):
    (tmp_path / "f.csv").write_text(LINE)
    (tmp_path / "g.csv").write_text(LINE.replace("1", "4"))
    one = PartialMoment.of(tmp_path / "f.csv", schema_of(rows=5))
    other = PartialMoment.of(tmp_path / "g.csv", schema_of(rows=2))
    both = one.merged(other)
    assert released(both, schema=schema_of(), mechanism="gaussian", **ZCDP).count() == 7
    assert released(both, schema=schema_of(), mechanism="gaussian", **ZCDP, rows=7).count() == 7
    with pytest.raises(SourceError, match="needs replace-one"):
        released(both, schema=schema_of(), mechanism="gaussian", **ZCDP, neighbors="add-remove")
    with pytest.raises(SourceError, match="another number of rows than declared"):
        released(both, schema=schema_of(), mechanism="gaussian", **ZCDP, rows=8)
    plain = PartialMoment.of(tmp_path / "f.csv", schema_of())
    with pytest.raises(SourceError, match="Only one of the parts"):
        plain.merged(other)
    with pytest.raises(SourceError, match="records = "):
        released(plain, schema=schema_of(), mechanism="gaussian", **ZCDP)
    with pytest.raises(SourceError, match="Omit one of them"):
        PartialMoment.of(tmp_path / "f.csv", schema_of(rows=2), where=["a > 1"])
    one.save(tmp_path / "s.sums")
    assert PartialMoment.load(tmp_path / "s.sums").public_rows == 5


def test_only_dpcov_check_compares_the_number_with_that_of_the_file(tmp_path, run):
    (tmp_path / "s.toml").write_text(
        'version = 2\n[columns.a]\nkind = "number"\nlower = 0\nupper = 10\n'
    )
    reported = set()
    for records in (31, 7777, 12_341):
        (tmp_path / "f.csv").write_text("a\n" + "1\n" * records)
        done = run(
            f"release {tmp_path}/f.csv --schema {tmp_path}/s.toml --rho 1 --out "
            f"{tmp_path}/r.json --force --neighbors replace-one --rows 50 --mechanism gaussian"
        )
        assert done.code == 0
        reported.add(done.out + done.err)
        assert json.loads((tmp_path / "r.json").read_text())["unit_count"] == 50
        found = [*_sentences(diagnose(tmp_path / "f.csv", schema_of(rows=50)), schema_of(rows=50))]
        assert found[0] == f"The table has {records:,} rows, but the schema or --rows declares 50."
        found = _sentences(diagnose(tmp_path / "f.csv", schema_of()), schema_of())
        assert "rows" not in " ".join(found)
    assert len(reported) == 1
    (tmp_path / "f.csv").write_text("a\n" + "1\n" * 50)
    found = [*_sentences(diagnose(tmp_path / "f.csv", schema_of(rows=50)), schema_of(rows=50))]
    assert "declared" not in found[0]


def test_the_harness_measures_declared_rows_and_catches_a_control():
    figures = attacks.declared_rows(10)
    assert figures
    assert all(figure.ok for figure in figures), figures


def test_a_source_that_is_fixed_states_its_kinds():
    source = FixedRows(open_source(np.zeros((2, 1)), FileOptions(), ()), 3)
    assert source.kinds() == {"x0": "number"}
