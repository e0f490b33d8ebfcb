"""Missing codes and conditions compare in the type of their column; decimals are read exactly."""

from __future__ import annotations

import operator
import sqlite3
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from dpcov.errors import SourceError
from dpcov.rows.cells import codes_of, is_missing, numbers_of, values_of
from dpcov.rows.numbers import Numbers, exact_number
from dpcov.rows.schema import Categorical, Flag, Integer, Number, Schema
from dpcov.rows.sources import open_source
from dpcov.rows.sources.check import diagnose
from dpcov.rows.sources.conditions import Conditions, rows_meeting
from dpcov.rows.sources.sql import DatabaseTable

COMPARED = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FEVERS = [36.5, 37.5, 999.9, 36.9, 37.1]
READ = [36.5, 37.5, None, 36.9, 37.1]
SCHEMA = Schema.parse(
    {
        "version": 2,
        "missing": ["", "999.9"],
        "columns": {"a": {"kind": "number", "lower": 30, "upper": 45}},
    }
)


def of_type(kind: pa.DataType, cells: list[object]) -> pa.Array:
    if pa.types.is_float16(kind):
        return pa.array([None if c is None else np.float16(c) for c in cells], kind)
    return pa.array(cells, kind)


def decimals(cells: list[float], kind: pa.DataType) -> pa.Array:
    return pa.array([Decimal(str(cell)) for cell in cells], kind)


def sources(folder: Path) -> dict[str, object]:
    """Return the same temperatures in every type of decimals or short floats."""
    texts = [str(cell) for cell in FEVERS]
    arrow = pa.table({"a": decimals(FEVERS, pa.decimal128(5, 1))})
    objects = [Decimal(text) for text in texts]
    found: dict[str, object] = {
        "decimal128": arrow,
        "decimal256": pa.table({"a": decimals(FEVERS, pa.decimal256(60, 20))}),
        "decimal32": pa.table({"a": decimals(FEVERS, pa.decimal32(5, 1))}),
        "decimal64": pa.table({"a": decimals(FEVERS, pa.decimal64(12, 1))}),
        "dictionary": pa.table({"a": arrow["a"].combine_chunks().dictionary_encode()}),
        "float32": pa.table({"a": pa.array(FEVERS, pa.float32())}),
        "float16": pa.table({"a": of_type(pa.float16(), FEVERS)}),
        "pandas objects": pd.DataFrame({"a": objects}),
        "pandas objects of NumPy": pd.DataFrame({"a": [*map(np.float32, FEVERS)]}, dtype=object),
        "pandas Float32": pd.DataFrame({"a": pd.Series(FEVERS, dtype="Float32")}),
        "pandas decimals": pd.DataFrame(
            {"a": pd.Series(arrow["a"], dtype=pd.ArrowDtype(arrow["a"].type))}
        ),
        "polars Decimal": pl.DataFrame({"a": objects}, schema={"a": pl.Decimal(5, 1)}),
        "polars Float32": pl.DataFrame({"a": FEVERS}, schema={"a": pl.Float32}),
        "NumPy": np.array(FEVERS, np.float32)[:, None],
        "list": [[cell] for cell in objects],
        "Parquet": folder / "a.parquet",
        "CSV": folder / "a.csv",
        "SQLite": DatabaseTable(folder / "a.sqlite", "t"),
        "DuckDB": DatabaseTable(folder / "a.duckdb", "t"),
    }
    pq.write_table(arrow, folder / "a.parquet")
    (folder / "a.csv").write_text("\n".join(["a", *texts, ""]))
    with sqlite3.connect(folder / "a.sqlite") as db:
        db.execute("CREATE TABLE t (a DECIMAL(5, 1))")
        db.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
    db.close()
    with duckdb.connect(folder / "a.duckdb") as db:
        db.execute("CREATE TABLE t (a DECIMAL(5, 1))")
        db.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
        found["DuckDB relation"] = db.sql("SELECT * FROM t").to_arrow_table()
    return found


def read(data: object, column: Number | Integer, name: str = "a") -> list[float | None]:
    source = open_source(data, SCHEMA.file, (name,))
    found = [
        values_of(batch.column(name), column, SCHEMA.missing) for batch in source.batches([name])
    ]
    source.close()
    return [None if np.isnan(cell) else float(cell) for cell in np.concatenate(found)]


def test_a_missing_code_is_met_in_every_source_and_check_agrees(tmp_path):
    for name, data in sources(tmp_path).items():
        found = read(data, SCHEMA.columns["a"])
        tolerance = {"float16": 2e-3, "NumPy": 1e-7, "float32": 1e-7}.get(
            name.split()[-1].lower(), 0
        )
        assert [cell is None for cell in found] == [cell is None for cell in READ], name
        for cell, expected in zip(found, READ, strict=True):
            within = 1e-7 if "32" in name or name == "NumPy" else tolerance
            assert cell is None or abs(cell - expected) <= within * abs(expected), name
        seen = diagnose(data, SCHEMA).columns["a"]
        assert (seen.missing, seen.unreadable, seen.above) == (1, 0, 0), name


def test_control_arrow_s_own_conversion_misses_the_code():
    cast = decimals(FEVERS, pa.decimal128(5, 1)).cast(pa.float64()).to_pylist()
    assert 999.9 not in cast


# What comparing means, in Python's own exact numbers.

KINDS = {
    "decimal128": pa.decimal128(38, 20),
    "decimal256": pa.decimal256(76, 25),
    "decimal64": pa.decimal64(18, 3),
    "decimal32": pa.decimal32(9, 3),
    "int8": pa.int8(),
    "int64": pa.int64(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "text": pa.string(),
}
EDGES = [
    *("0.3", "0.30000000000000000001", "0.29999999999999999999", "0.1", "0.10000000149011612"),
    *("-0", "1", "7.5", "-128", "127", "128", "9007199254740992", "9007199254740993"),
    *("9223372036854775807", "18446744073709551615", "18446744073709551614", "1e-30", "1e300"),
    *("65504", "65505", "3.5e38", "999.9", "-999.9", "1e400"),
]
LITERALS = st.sampled_from([edge for edge in EDGES if edge != "1e400"])


def held(text: str, kind: pa.DataType) -> object:
    """Return the number as a cell of a type, or None if the type has no such cell."""
    number = Decimal(text)
    if pa.types.is_decimal(kind):
        cut = (
            number.scaleb(kind.scale).to_integral_value(ROUND_FLOOR)
            if abs(number) < 10**10
            else None
        )
        return (
            None
            if cut is None or cut.adjusted() >= min(kind.precision, 28)
            else cut.scaleb(-kind.scale)
        )
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        return int(number) if limits.min <= number <= limits.max else None
    if pa.types.is_floating(kind):
        with np.errstate(over="ignore"):
            return kind.to_pandas_dtype()(float(number))
    return text


def sign(cell: object, literal: str, kind: pa.DataType) -> int:
    if pa.types.is_floating(kind):
        with np.errstate(over="ignore"):
            own = float(kind.to_pandas_dtype()(float(literal)))
        cell = float(cell)  # type: ignore[arg-type]
        if np.isinf(own):  # a finite number beyond the type
            return int(np.sign(own)) if cell == own else int(-np.sign(own))
        return (cell > own) - (cell < own)
    exact = Decimal(cell) if isinstance(cell, str) else cell
    return (exact > Decimal(literal)) - (exact < Decimal(literal))


@pytest.mark.parametrize("name", KINDS)
def test_cells_compare_with_a_declared_number_as_exact_numbers_do(name):
    kind = KINDS[name]
    cells = [cell for edge in EDGES if (cell := held(edge, kind)) is not None]
    assert len(cells) > 3
    column = of_type(kind, [*cells, None])
    for literal in EDGES:
        expected = [sign(cell, literal, kind) for cell in cells]
        stated = {} if literal == "1e400" else COMPARED
        for operation, compare in stated.items():
            asked = Conditions.parse(f"n {operation} {written(literal)}", WHERE).tests[0]
            assert asked.keep(column).tolist() == [*(compare(s, 0) for s in expected), False]
        absent = np.isnan(numbers_of(column, (literal,)))
        assert absent.tolist() == [*(s == 0 for s in expected), True]


WHERE = Schema.parse(
    {
        "columns": {"x": {"kind": "numeric", "lower": 0, "upper": 1}},
        "missing": [],
        "where": {"n": "number"},
    }
)


def written(literal: str) -> str:
    """Return a literal for conditions: integers from 2^53 on have an exponent."""
    whole = literal.isdigit() and int(literal) >= 2**53
    return f"{literal}e0" if whole else literal


def test_control_float64_calls_different_numbers_equal():
    for one, other in (("0.3", "0.30000000000000000001"), ("9007199254740992", "9007199254740993")):
        assert float(one) == float(other)
        column = pa.array([one], pa.string())
        assert np.isnan(numbers_of(column, (one,))).tolist() == [True]
        assert np.isnan(numbers_of(column, (other,))).tolist() == [False]


@given(
    st.lists(st.sampled_from(EDGES) | st.floats(allow_nan=False).map(repr), max_size=5), LITERALS
)
def test_a_text_is_compared_alone_as_in_company(texts, literal):
    asked = Conditions.parse(f"n <= {written(literal)}", WHERE).tests[0]
    column = pa.array(texts, pa.string())
    together = asked.keep(column).tolist()
    assert together == [asked.keep(pa.array([text]))[0] for text in texts]


@pytest.mark.parametrize("form", [".17g", ".18e", ".20f", ".25e", "r"])
@pytest.mark.parametrize("value", [0.1, 999.9, 1 / 3, -2.675, 1e-7])
def test_a_text_that_writes_a_float_out_in_full_is_that_float(form, value):
    text = repr(value) if form == "r" else format(value, form)
    if form == ".20f" and value == 1e-7:
        return  # not written out: it has 13 digits
    code = repr(value)
    assert np.isnan(numbers_of(pa.array([text, "7"]), (code,))).tolist() == [True, False]
    near = pa.array([code + "0" * 20 + "1" if "e" not in code else "7"])
    assert not np.isnan(numbers_of(near, (code,))).any()


# Decimals as numbers.


@given(
    st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**53), 2**53),
    st.integers(-5, 38),
    st.booleans(),
)
@example(-(10**38) + 1, 38, False)
@example(2**53 + 1, 22, False)
@example(2**53, 23, False)
@example(3689, 2, True)
@example(170_141_184_250_274_976_795_759_919_101_525_358, -3, False)
def test_a_decimal_becomes_the_nearest_float(units, scale, wide):
    kind = pa.decimal256(76, scale) if wide else pa.decimal128(38, scale)
    cell = Decimal((int(units < 0), tuple(map(int, str(abs(units)))), -scale))
    try:
        column = pa.array([None, cell, None, cell], kind)
    except pa.ArrowInvalid:  # Arrow refuses some large decimals of a negative scale
        assume(scale >= 0)
        raise
    for part in (column, column[1:], column[3:]):
        expected = [np.nan if c is None else float(cell) for c in part.to_pylist()]
        assert np.array_equal(numbers_of(part, ()), expected, equal_nan=True)


@pytest.mark.parametrize("kind", [pa.decimal32(5, 1), pa.decimal64(12, 1), pa.decimal128(5, 1)])
def test_a_decimal_beyond_its_own_precision_fails_nothing(kind):
    words = np.array(
        [2**31 - 1, 5] if kind.bit_width == 32 else [2**62, 5], f"i{min(kind.bit_width, 64) // 8}"
    )
    if kind.bit_width == 128:
        words = np.array([[2**62, 2**62], [5, 0]])
    column = pa.Array.from_buffers(kind, 2, [None, pa.py_buffer(words.tobytes())])
    assert numbers_of(column, ("0.5", "1e400")).tolist()[1:] != [0.5]
    assert np.isfinite(numbers_of(column, ())).all()
    assert codes_of(column, Categorical(levels=(0.5, 1)), ("7",)).tolist() == [-1, 0]
    assert Conditions.parse("n > 0.5", WHERE).tests[0].keep(column).tolist() == [True, False]


def test_whole_numbers_and_flags_are_shown_in_the_type_of_the_column():
    near = Decimal("1.00000000000000000001")
    cells = pa.array(
        [near, Decimal(1), Decimal("0.5"), Decimal(0), Decimal(-9)], pa.decimal128(38, 20)
    )
    assert [*map(float, numbers_of(cells, ()))][:2] == [1.0, 1.0]  # to float64 they are alike
    whole = values_of(cells, Integer(lower=-9, upper=9), ())
    assert np.isnan(whole).tolist() == [True, False, True, False, False]
    flags = values_of(cells, Flag(), ())
    assert np.isnan(flags).tolist() == [True, False, True, False, True]


def test_levels_are_met_in_the_type_of_the_column():
    levels = Categorical(levels=(0.1, 0.3))
    for kind in (pa.float16(), pa.float32(), pa.float64()):
        assert codes_of(of_type(kind, [0.1, 0.3, 0.2]), levels, ()).tolist() == [0, 1, -1]
    texts = pa.array(["0.1", "0.30", "0.30000000000000000001", "3e-1"])
    assert codes_of(texts, levels, ()).tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize("codes", [("true",), ("1",), ("TRUE", "7")])
def test_a_truth_value_that_is_declared_missing_is_missing_to_check_and_release(codes):
    column = pa.array([True, False, None])
    assert np.isnan(numbers_of(column, codes)).tolist() == [True, False, True]
    assert is_missing(column, codes).tolist() == [True, False, True]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("codes", [("-999",), ("1e400", "inf"), ("true",), ("1e999999999", "0.3")])
def test_check_and_release_agree_on_what_is_missing(kind, codes):
    cells = [cell for edge in EDGES if (cell := held(edge, KINDS[kind])) is not None]
    column = of_type(KINDS[kind], [*cells, None])
    reported = Numbers.of(column) if "decimal3" not in kind and "decimal6" not in kind else None
    assert reported is None or len(reported.floats) == len(column)
    assert np.isnan(numbers_of(column, codes)).tolist() == is_missing_of(column, codes)


def is_missing_of(column: pa.Array, codes: tuple[str, ...]) -> list[bool]:
    from dpcov.rows.cells import cells

    return is_missing(cells(column, codes), codes).tolist()


@pytest.mark.parametrize(
    ("stated", "reported"),
    [
        ("n <= 0.30000000000000000001", "n <= 0.30000000000000000001"),
        ("n = 0.3", "n = 0.3"),
        ("n = 1e-400", "n = 1E-400"),
        ("n < 1e20", "n < 1e+20"),
        ("n < 12345678901234567.5", "n < 12345678901234567.5"),
    ],
)
def test_a_literal_is_shown_with_all_its_digits(stated, reported):
    found = Conditions.parse(stated, WHERE)
    assert found.texts == (reported,)
    assert Conditions.parse(reported, WHERE) == found


@pytest.mark.parametrize(
    ("stated", "kept"),
    [("a <= 0.3", [0, 1]), ("a = 0.3", [1]), ("a != 0.3", [0, 2]), ("a in (0.3, 0.4)", [1, 2])],
)
@pytest.mark.parametrize("kind", ["DECIMAL(5,1)", "FLOAT", "HUGEINT"])
def test_conditions_in_duckdb_files(tmp_path, stated, kept, kind):
    cells = [2, 3, 4]
    stated = stated if kind != "HUGEINT" else stated.replace("0.", "")
    with duckdb.connect(tmp_path / "t.duckdb") as db:
        db.execute(f"CREATE TABLE t (a {kind}, row INTEGER)")
        scale = 1 if kind == "HUGEINT" else 10
        db.executemany(
            "INSERT INTO t VALUES (?, ?)",
            [[c / scale if scale > 1 else c, i] for i, c in enumerate(cells)],
        )
    schema = Schema.parse({**WHERE.model_dump(), "where": {"a": "number"}})
    source = open_source(DatabaseTable(tmp_path / "t.duckdb", "t"), schema.file, ())
    met = rows_meeting(source, Conditions.parse(stated, schema))
    assert [row for batch in met.batches(["row"]) for row in batch.column(0).to_pylist()] == kept
    source.close()


def test_an_unsigned_hugeint_that_arrow_would_wrap_around_is_refused():
    relation = duckdb.sql("SELECT 340282366920938463463374607431768211455::UHUGEINT AS a, 1 AS b")
    assert pa.RecordBatchReader.from_stream(relation).read_all()["a"].to_pylist() == [-1]
    source = open_source(relation, SCHEMA.file, ())
    assert source.unfit == {"a": "UHUGEINT"}
    assert [batch.to_pydict() for batch in source.batches(["b"])] == [{"b": [1]}]


def test_no_declared_number_takes_long_however_large_its_exponent():
    codes = ("1e999999999", "-1e999999999", "1e-999999999")
    for kind in KINDS.values():
        cells = of_type(kind, ["7" if pa.types.is_string(kind) else 7])
        if pa.types.is_decimal(kind):
            cells = pa.array([Decimal(7)], kind)
        assert numbers_of(cells, codes).tolist() == [7.0]
        assert codes_of(cells, Categorical(levels=(*codes, 7)), codes).tolist() == [3]
    assert exact_number("1_000") is None
    assert exact_number("nan") is None


def test_a_table_of_the_wrong_type_is_still_refused():
    schema = Schema.parse({**WHERE.model_dump(), "where": {"a": "number"}})
    table = pa.table({"a": pa.array([b"x"])})
    with pytest.raises(SourceError, match="has the type binary"):
        rows_meeting(open_source(table, schema.file, ()), Conditions.parse("a = 1", schema))
