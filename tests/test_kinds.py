"""Kinds of columns in schemas of version 2: every reader reads each cell alike, by itself."""

from __future__ import annotations

import json
import math
import sqlite3
import tomllib
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import duckdb
import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

import dpcov
from dpcov import cli
from dpcov.cli.drafts import Stated, draft, proposed, role_of
from dpcov.errors import SchemaError, SourceError
from dpcov.releases import Release
from dpcov.rows.cells import values_of
from dpcov.rows.dates import moment_of
from dpcov.rows.derived import logarithm
from dpcov.rows.moment import UNITS
from dpcov.rows.schema import FileOptions, Integer, Numeric, Schema
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.kept import Kept
from dpcov.rows.sources.sql import DatabaseTable
from strategies import categorical, encode, invalid_utf8, moment, numeric, same

ROWS = 400
DATED = Schema.parse(
    {
        "version": 2,
        "columns": {
            "born": {"kind": "date", "lower": "1900-01-01", "upper": "2020-12-31"},
            "seen": {"kind": "time", "lower": "2000-01-01", "upper": "2030-01-01T12:00:00+02:00"},
            "kept": {"kind": "time", "lower": "1990-01-01", "upper": "2040-01-01"},
        },
    }
)


def dated(rows: int = ROWS) -> pa.Table:
    """Return dates, times and instants with a zone; some are missing, some beyond the bounds."""
    rng = np.random.default_rng(5)
    days = (np.datetime64("1890-01-01") + rng.integers(0, 55_000, rows)).astype("datetime64[D]")
    times = np.datetime64("1999-06-01T00:00:00.000000") + rng.integers(0, 10**15, rows)
    zoned = pa.array(np.roll(times, 3)).cast(pa.timestamp("us", "America/New_York"))
    absent = np.arange(rows) % 9 == 0
    return pa.table(
        {"born": pa.array(days, mask=absent), "seen": pa.array(times, mask=absent), "kept": zoned}
    )


TABLE = dated()
ROWS_OF_OBJECTS = [list(row.values()) for row in TABLE.to_pylist()]


def csv_file(folder: Path) -> Path:
    lines = [",".join("" if cell is None else str(cell) for cell in row) for row in ROWS_OF_OBJECTS]
    (path := folder / "d.csv").write_text("\n".join(["born,seen,kept", *lines, ""]))
    return path


def parquet_file(folder: Path, **options) -> Path:
    pq.write_table(TABLE, path := folder / "d.parquet", **options)
    return path


def in_types(*kinds: pa.DataType) -> pa.Table:
    columns = [column.cast(kind) for column, kind in zip(TABLE.columns, kinds, strict=True)]
    return pa.table(columns, TABLE.column_names)


def texts(separator: str = "T") -> pa.Table:
    def spelt(cell: object) -> str | None:
        return None if cell is None else cell.isoformat(*(separator,) * isinstance(cell, datetime))

    return pa.table({name: [*map(spelt, TABLE[name].to_pylist())] for name in TABLE.column_names})


def sqlite_table(folder: Path) -> DatabaseTable:
    with sqlite3.connect(path := folder / "d.sqlite") as db:
        db.execute("CREATE TABLE people (born DATE, seen TIMESTAMP, kept TEXT)")
        rows = zip(*(column.to_pylist() for column in texts(" ").columns), strict=True)
        db.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
    db.close()
    return DatabaseTable(path, "people")


def duckdb_table(folder: Path) -> DatabaseTable:
    with duckdb.connect(path := folder / "d.duckdb") as db:
        db.register("given", TABLE)
        db.execute("CREATE TABLE people AS SELECT * FROM given")
    return DatabaseTable(path, "people")


NAMES = TABLE.column_names
IN_PANDAS = ("datetime64[s]", "datetime64[ns]", "datetime64[ns, UTC]")
SOURCES = {
    "csv": csv_file,
    "parquet": parquet_file,
    "parquet of small groups": lambda folder: parquet_file(folder, row_group_size=37),
    "parquet without dictionaries": lambda folder: parquet_file(folder, use_dictionary=False),
    "milliseconds and nanoseconds": lambda _: in_types(
        pa.date64(), pa.timestamp("ns"), pa.timestamp("us", "Asia/Tokyo")
    ),
    "dictionaries": lambda _: pa.table([c.dictionary_encode() for c in TABLE.columns], NAMES),
    "texts": lambda _: texts(),
    "texts with blanks": lambda _: texts(" "),
    "large texts": lambda _: texts().cast(pa.schema([(n, pa.large_string()) for n in NAMES])),
    "pandas": lambda _: TABLE.to_pandas(),
    "pandas of nanoseconds": lambda _: pd.DataFrame(
        {
            name: pd.to_datetime(TABLE[name].to_pandas()).astype(kind)
            for name, kind in zip(NAMES, IN_PANDAS, strict=True)
        }
    ),
    "pandas of objects": lambda _: pd.DataFrame(ROWS_OF_OBJECTS, columns=NAMES, dtype=object),
    "polars": lambda _: pl.from_arrow(TABLE),
    "a list": lambda _: ROWS_OF_OBJECTS,
    "an array of objects": lambda _: np.array(ROWS_OF_OBJECTS, object),
    "duckdb query": lambda _: duckdb.from_arrow(TABLE),
    "SQLite": sqlite_table,
    "DuckDB": duckdb_table,
}


@pytest.mark.parametrize("source", SOURCES)
def test_the_same_dates_give_the_same_integers_in_every_source(tmp_path, source):
    expected = open_rows(TABLE, DATED).hashed_moment()
    data = SOURCES[source](tmp_path)
    found = open_rows(data, DATED).hashed_moment()
    assert same(found[0], expected[0])
    if not isinstance(data, DatabaseTable):
        assert same(moment(data, DATED, threads=3), expected[0])
    control = TABLE.set_column(0, "born", pa.chunked_array([TABLE["born"].to_pylist()[::-1]]))
    assert not same(open_rows(control, DATED).hashed_moment()[0], expected[0])


def test_what_is_kept_of_dates_is_what_was_read():
    rows = open_rows(TABLE, DATED)
    rows._source = Kept(open_source(TABLE, FileOptions(), ()), DATED)
    assert same(rows.second_moments()[0], moment(TABLE, DATED))


MOMENTS = st.from_regex(
    r"[0-9]{4}-[01][0-9]-[0-3][0-9]([T ][0-2][0-9]:[0-6][0-9](:[0-6][0-9]([.][0-9]{1,9})?)?"
    r"(Z|[+-][0-2][0-9](:?[0-6][0-9])?)?)?",
    fullmatch=True,
    alphabet=st.characters(codec="ascii"),
)
DAY, SECOND = (DATED.columns[name] for name in ("born", "seen"))


@given(MOMENTS | st.text(max_size=12) | st.datetimes(timezones=st.timezones()).map(str))
@example("0001-01-01T00:00+00:01")
@example("9999-12-31 23:59:59.999999999")
@example("2020-02-30")
@example("1969-12-31T23:59:59.9999999")
def test_bounds_and_cells_are_of_one_grammar(text):
    known = moment_of(text.strip(" \t\n\r\x0b\x0c"))
    days, seconds = (values_of(pa.array([text]), kind, ()).item() for kind in (DAY, SECOND))
    assert (known is None) == math.isnan(days) == math.isnan(seconds)
    if known is not None:
        assert days == known // (86_400 * 10**6)
        assert seconds == pytest.approx(known / 10**6, rel=2**-52)


@given(st.datetimes(timezones=st.just(UTC) | st.just(timezone(timedelta(hours=-7, minutes=-30)))))
def test_a_moment_is_that_of_python(instant):
    found = moment_of(instant)
    since = instant - datetime(1970, 1, 1, tzinfo=UTC)
    inside = found is not None
    assert inside == (
        (datetime(1970, 1, 1) + since).year >= 1 if since > timedelta(-719_162) else False
    )
    assert not inside or found == since // timedelta(microseconds=1)


NO_DATES = [
    "", "x", "2020-02-30", "2020-13-01", "infinity", "-infinity", "10000-01-01", "0000-01-01",
    "2020-01-01T24:00", "2020-01-01 00:00:60", "20200101", "2020-W01-1", "2020-01", "1577836800",
    "2020-01-01T00:00+24:00", "2020-01-01T00:00+01:60", "2020-01-01 BC", "01/02/2020", "NaT", None,
    "\uff12\uff10\uff12\uff10-01-01", "2020-01-01\n2020-01-02", "9" * 99_999,
]  # fmt: skip


@pytest.mark.parametrize("bad", NO_DATES)
def test_a_bad_date_is_missing_and_changes_no_other_row(bad):
    cells = texts()["seen"].to_pylist()[:50]
    spoilt = [*cells[:7], bad, *cells[8:]]
    document = {"version": 2, "columns": {"t": DATED.model_dump()["columns"]["seen"]}}
    schema = Schema.parse(document)
    expected, found = (
        encode(pa.table({"t": pa.array(c, pa.string())}), schema) for c in (cells, spoilt)
    )
    assert found[7, 0] == 0
    assert expected[7, 0] != 0  # control
    others = np.arange(50) != 7
    assert (found[others] == expected[others]).all()


def test_bytes_that_are_no_text_are_missing_dates():
    found = values_of(invalid_utf8([b"\xff", b"2020-01-01", b"2020-01-01\xff"]), DAY, ())
    assert np.isnan(found).tolist() == [True, False, True]


def test_years_beyond_the_calendar_are_missing_in_every_type():
    edges = {
        pa.date32(): (-719_162, 2_932_896), pa.date64(): (-62_135_596_800_000, 253_402_300_799_999),
        pa.timestamp("s"): (-62_135_596_800, 253_402_300_799),
        pa.timestamp("us", "UTC"): (-62_135_596_800 * 10**6, 253_402_300_800 * 10**6 - 1),
    }  # fmt: skip
    for kind, (first, last) in edges.items():
        cells = pa.array([first - 1, first, last, last + 1], pa.int64())
        storage = pa.int32() if kind == pa.date32() else pa.int64()
        far = 2**31 - 1 if storage == pa.int32() else 2**63 - 1
        cells = pa.concat_arrays([cells.cast(storage), pa.array([far, -far - 1], storage)]).view(
            kind
        )
        days = values_of(cells, DAY, ())
        assert days.tolist()[1:3] == [-719_162, 2_932_896]
        assert np.isnan(days[[0, 3, 4, 5]]).all()


def test_a_date_that_means_missing_is_missing_however_it_comes():
    day = date(1999, 9, 9)
    for cells in (pa.array([day]), pa.array(["1999-09-09"]), pa.array(["1999-09-09T00:00:00Z"])):
        assert np.isnan(values_of(cells, DAY, ("1999-09-09",))).all()
        assert not np.isnan(values_of(cells, DAY, ("1999-09-08",))).any()


@pytest.mark.parametrize("kind", ["date", "time"])
def test_a_column_of_numbers_is_no_column_of_dates_nor_the_reverse(kind):
    bounds = {"lower": "2000-01-01", "upper": "2020-01-01"}
    schema = Schema.parse({"version": 2, "columns": {"a": {"kind": kind, **bounds}}})
    for cells in (pa.array([1]), pa.array([1.5]), pa.array([True])):
        with pytest.raises(SourceError, match="but the schema uses it as"):
            open_rows(pa.table({"a": cells}), schema)
    open_rows(pa.table({"a": pa.array([None, None])}), schema)
    for declared in (numeric(0, 1), {"kind": "number", "lower": 0, "upper": 1}, categorical("a")):
        version = 1 + (declared["kind"] == "number")
        other = Schema.parse({"version": version, "columns": {"a": declared}})
        with pytest.raises(SourceError, match="kind = 'date' or 'time'"):
            open_rows(pa.table({"a": pa.array([date(2020, 1, 1)])}), other)


FLAGS = {
    1.0: [1, 1.0, True, "1", "true", " TRUE", "1.0", Decimal(1)],
    0.0: [0, -0.0, False, "0", "false", "-0"],
    None: [2, 0.5, -1, "yes", "t", "", None, math.inf, math.nan, "1e-300", date(2020, 1, 1)],
}


@pytest.mark.parametrize(("read", "cell"), [(read, one) for read in FLAGS for one in FLAGS[read]])
def test_a_flag_is_0_or_1_or_missing(read, cell):
    schema = Schema.parse({"version": 2, "columns": {"f": {"kind": "flag"}}, "intercept": 0})
    sources = [pd.DataFrame({"f": pd.Series([cell], dtype=object)}), [[cell]]]
    if not isinstance(cell, date):
        sources.append(pa.table({"f": pa.array([cell])}))
    for data in sources:
        expected = 0 if read is None else UNITS**2
        assert moment(data, schema).units.item() == expected
    if read is not None:
        (row,) = encode(pa.table({"f": pa.array([cell])}), schema)
        assert row.tolist() == [UNITS * (2 * read - 1)]


def test_whole_numbers_are_whole_or_missing():
    whole = Integer(lower=-5, upper=5)
    cells = pa.array(["3", "3.0", "3e0", "-7", "2.5", "x", "inf"])
    assert values_of(cells, whole, ()).tolist()[:4] == [3, 3, 3, -7]
    assert np.isnan(values_of(cells, whole, ())[4:6]).all()
    assert values_of(pa.array([2.5]), Numeric(lower=0, upper=3), ()).tolist() == [2.5]  # control


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[columns.a]\nkind = "flag"', "columns.a: kind = 'flag' needs version = 2"),
        ('version = 4\n[columns.a]\nkind = "flag"', "version: must be 1, 2 or 3"),
        (
            'version = 3\n[columns.a]\nkind = "numeric"\nlower = 0\nupper = 1\nmissing = "none"',
            "kind = 'numeric' does not exist in version 3",
        ),
        (
            'version = 2\n[columns.a]\nkind = "numeric"\nlower = 0\nupper = 1',
            "kind = 'numeric' does not exist",
        ),
        ('version = 2\n[columns.a]\nkind = "flag"\nupper = 2', "columns.a.upper"),
        ('version = 2\n[columns.a]\nkind = "count"\nlower = 1\nupper = 2', "columns.a.lower"),
        ('version = 2\n[columns.a]\nkind = "count"', r"Not filled in yet: columns\.a\.upper"),
        (
            'version = 2\n[columns.a]\nkind = "date"\nlower = 0\nupper = 1',
            "must be a date, for example",
        ),
        (
            'version = 2\n[columns.a]\nkind = "date"\nlower = 2020-01-02\nupper = "2020-01-01"',
            "lower is 2020-01-02, but upper is 2020-01-01",
        ),
        (
            'version = 2\n[columns.a]\nkind = "time"\nlower = 12:00:00\nupper = 13:00:00',
            "must be a date and",
        ),
    ],
)
def test_what_no_version_allows_is_refused(text, words):
    with pytest.raises(SchemaError, match=words):
        Schema.parse(tomllib.loads(text))


def test_dates_of_toml_and_of_json_are_the_same_bounds():
    toml = 'version = 2\n[columns.t]\nkind = "time"\nlower = 2000-01-01T01:00:00+01:00\n'
    schema = Schema.parse(tomllib.loads(toml + "upper = 2030-01-01"))
    assert schema.columns["t"].lower == 946_684_800
    again = Schema.parse(schema.model_dump(mode="json"))
    assert again == schema
    assert schema.model_dump()["columns"]["t"]["lower"] == "2000-01-01T00:00:00"


# Version 1.

V1 = """# people
missing = ["", "NA"] # as the survey has them
[columns.age]
kind = "numeric"  # years
lower = 0
upper = 120
missing = "level"

[columns.sex]
kind = 'categorical'
levels = ["F", "numeric"]

[columns."x.kind"]
"kind" = 'numeric'
lower = -1
upper = 1
[columns.note]
kind = "ignored"
"""


def people(rows: int = 300) -> pa.Table:
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "age": pa.array(rng.uniform(-9, 140, rows), mask=np.arange(rows) % 5 == 0),
            "sex": rng.choice(["F", "numeric", "NA"], rows),
            "x.kind": rng.choice(["0.5", "true", "x", "-3"], rows),
        }
    )


def migrate(*arguments: str):
    return CliRunner().invoke(cli.app, ["schema", "migrate", *arguments])


@pytest.mark.parametrize(
    "before", [V1, "version = 1\n" + V1, V1.replace("[columns.age]", "version=1#\n[columns.age]")]
)
def test_a_migrated_schema_gives_the_same_integers(tmp_path, monkeypatch, before):
    monkeypatch.chdir(tmp_path)
    Path("old.toml").write_text(before)
    assert migrate("old.toml", "--out", "new.toml").exit_code == 0
    old, new = Schema.load("old.toml"), Schema.load("new.toml")
    assert (old.version, new.version) == (1, 3)
    assert [column.kind for column in new.columns.values()] == [
        "number",
        "categorical",
        "number",
        "ignored",
    ]
    assert (encode(people(), old) == encode(people(), new)).all()
    made = [dpcov.release(people(), schema=s, epsilon=1.0, seed=3) for s in (old, new)]
    assert (
        made[0].published == made[1].published
        if isinstance(made[0].published, list)
        else (np.asarray(made[0].published) == np.asarray(made[1].published)).all()
    )
    assert "# years" in Path("new.toml").read_text()
    wider = Schema.parse(tomllib.loads(Path("new.toml").read_text().replace("120", "121")))
    assert (encode(people(), old) != encode(people(), wider)).any()  # control


def test_migration_replaces_nothing_unasked_and_takes_former_versions_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("s.toml").write_text(V1)
    assert migrate("s.toml", "--out", "s.toml").exit_code != 0
    assert Path("s.toml").read_text() == V1
    assert migrate("s.toml").stdout.startswith("version = 3\n")
    assert migrate("s.toml", "--out", "s.toml", "--force").exit_code == 0
    assert isinstance(migrate("s.toml").exception, SchemaError)
    Path("t.toml").write_text('[columns]\na = {"kind" = "numeric", lower = 0, upper = 1}\n')
    assert 'a = {"kind" = "number"' in migrate("t.toml").stdout
    Path("t.toml").write_text('[columns.a]\nkind = """numeric"""\nlower = 0\nupper = 1\n')
    assert "cannot convert the text of this schema" in str(migrate("t.toml").exception)


# Derived columns.

DERIVED = Schema.parse(
    {
        "version": 2,
        "columns": {
            "age": {"kind": "number", "lower": -20, "upper": 100},
            "smokes": {"kind": "flag", "missing": "level"},
            "income": {"kind": "number", "lower": 1, "upper": 1e6},
            "town": categorical("a", "b"),
        },
        "derived": {
            "age_squared": {"square": "age"},
            "both": {"product": ["age", "smokes"]},
            "log_income": {"log": "income"},
        },
    }
)


def sources_of_derived(rows: int = 500) -> pa.Table:
    rng = np.random.default_rng(8)
    return pa.table(
        {
            "income": pa.array(10 ** rng.uniform(-2, 8, rows), mask=np.arange(rows) % 11 == 0),
            "town": rng.choice(["a", "b"], rows),
            "smokes": pa.array(rng.integers(0, 2, rows), mask=np.arange(rows) % 6 == 0),
            "age": pa.array(rng.uniform(-40, 130, rows), mask=np.arange(rows) % 7 == 0),
        }
    )


def test_bounds_of_derived_columns_follow_from_those_of_their_parents():
    found = {
        name: (c.lower, c.upper)
        for name, c in DERIVED.encoded_columns.items()
        if name in DERIVED.derived
    }
    assert found["age_squared"] == (0, 10_000)
    assert found["both"] == (-20, 100)
    assert found["log_income"] == pytest.approx((0, math.log(1e6)), abs=1e-14)
    assert [feature.name for feature in DERIVED.features][-3:] == list(DERIVED.derived)
    assert DERIVED.largest_norm == math.sqrt(7)
    assert set(DERIVED.needed) == {"age", "smokes", "income", "town"}


def test_derived_columns_are_encoded_as_computed_ones_would_be():
    table = sources_of_derived()
    age = np.clip(table["age"].to_numpy(), -20, 100)
    with np.errstate(invalid="ignore"):
        income = np.log(np.clip(table["income"].to_numpy(), 1, 1e6))
    computed = {
        "age_squared": age**2,
        "both": age * table["smokes"].to_numpy(),
        "log_income": income,
    }
    found = encode(table, DERIVED)
    names = [feature.name for feature in DERIVED.features]
    for name, values in computed.items():
        column = DERIVED.encoded_columns[name]
        expected = np.rint((values - column.midpoint) * (UNITS / column.half_range))
        off = abs(found[:, names.index(name)] - np.nan_to_num(expected))
        assert off.max() <= (name == "log_income")  # NumPy's logarithm may be another by an ulp
        assert (off == 0).mean() > 0.99
    absent = {"age_squared": [0, 7, 14], "both": [0, 6, 7], "log_income": [0, 11, 22]}
    for name, rows in absent.items():
        assert not found[rows, names.index(name)].any()


@pytest.mark.parametrize("size", [1, 7, 499])
def test_a_derived_column_is_of_its_row_alone(size):
    table = sources_of_derived()
    parts = [encode(table.slice(i, size), DERIVED) for i in range(0, len(table), size)]
    assert (np.concatenate(parts) == encode(table, DERIVED)).all()


def test_derived_columns_are_the_same_in_every_source(tmp_path):
    table = sources_of_derived()
    whole = moment(table, DERIVED)
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=90)
    table.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    for data in (
        tmp_path / "t.parquet",
        tmp_path / "t.csv",
        table.to_pandas(),
        pl.from_arrow(table),
    ):
        assert same(moment(data, DERIVED, threads=3), whole)
    rows = open_rows(table, DERIVED)
    rows._source = Kept(open_source(table, FileOptions(), ()), DERIVED)
    assert same(rows.second_moments()[0], whole)


@pytest.mark.parametrize(
    ("derived", "words"),
    [
        ({"b": {"log": "a"}}, "derived.b: a logarithm needs a column with a lower bound above 0"),
        ({"b": {"square": "c"}}, "derived.b: 'c' is not a column of numbers"),
        ({"b": {"square": "d"}}, "derived.b: 'd' is not a column of numbers"),
        ({"b": {"square": "b"}}, "derived.b: 'b' is not a column of numbers"),
        ({"b": {"product": ["a", "z"]}}, "derived.b: 'z' is not a column of numbers"),
        ({"a": {"square": "a"}}, "derived.a: a column has this name already"),
        ({"c=x": {"square": "a"}}, "same name"),
        ({"b": {"square": "a", "log": "a"}}, "needs exactly one of square, product and log"),
        ({"b": {}}, "needs exactly one of square, product and log"),
        ({"b": {"square": "h"}}, "the bounds of the derived column are too large"),
        ({"b": {"log": "n"}}, "derived.b: "),
    ],
)
def test_what_can_not_be_derived_is_refused(derived, words):
    columns = {
        "a": {"kind": "number", "lower": 0, "upper": 1},
        "c": categorical("x"),
        "d": {"kind": "date", "lower": "2000-01-01", "upper": "2001-01-01"},
        "h": {"kind": "number", "lower": 0, "upper": 1e200},
        "n": {"kind": "number", "lower": 1e300, "upper": 1e300 * (1 + 1e-8)},
    }
    with pytest.raises(SchemaError, match=words):
        Schema.parse({"version": 2, "columns": columns, "derived": derived})


@given(st.floats(1e-300, 1e300))
@example(1.0)
@example(math.sqrt(0.5))
@example(math.nextafter(1, 0))
def test_logarithms_are_right_to_two_ulps(value):
    true = mpmath.log(mpmath.mpf(value))
    found = float(logarithm(value))
    assert abs(found - true) <= 2 * max(math.ulp(float(true)), 2**-60)
    assert found == logarithm([3.0, value, 5.0])[1]


# What is made of a release.


def whole_schema() -> Schema:
    columns = DERIVED.model_dump()["columns"] | DATED.model_dump()["columns"]
    columns["kids"] = {"kind": "count", "upper": 9}
    derived = DERIVED.model_dump(exclude_none=True)["derived"]
    return Schema.parse({"version": 2, "columns": columns, "derived": derived})


@pytest.fixture(scope="module")
def released() -> Release:
    table = sources_of_derived(ROWS)
    for name in TABLE.column_names:
        table = table.append_column(name, TABLE[name])
    table = table.append_column("kids", pa.array(np.arange(ROWS) % 4))
    return dpcov.release(table, schema=whole_schema(), epsilon=1e7, seed=1)


def test_a_release_keeps_its_kinds_and_shows_a_mean_date_as_a_date(released, tmp_path):
    released.save(tmp_path / "r.json")
    assert Release.load(tmp_path / "r.json").schema == released.schema
    shown = CliRunner().invoke(cli.app, ["covariance", str(tmp_path / "r.json")]).stdout
    mean = released.mean()[released.columns.index("born")]
    assert str(date(1970, 1, 1) + timedelta(round(mean))) in shown
    assert "born" in released.schema._repr_html_()
    line = ["sample", str(tmp_path / "r.json"), "-n", "2", "--out", str(tmp_path / "t.csv")]
    assert CliRunner().invoke(cli.app, line).exit_code == 0
    stated = json.loads((tmp_path / "t.csv-metadata.json").read_text())["tableSchema"]["columns"]
    reported = {column["titles"]: column["datatype"] for column in stated}
    assert (reported["born"], reported["seen"], reported["smokes"]) == ("date", "string", "boolean")


def test_synthetic_rows_are_of_the_kinds_and_derived_as_declared(released):
    rows = dpcov.sample(released, 800, seed=4)
    assert list(rows.column_names) == list(released.schema.encoded_columns)
    assert rows.schema.field("born").type == pa.date32()
    assert rows.schema.field("smokes").type == pa.bool_()
    assert rows["smokes"].null_count > 0
    kids = rows["kids"].to_numpy()
    assert set(kids) <= set(range(10))
    assert kids.mean() == pytest.approx(released.mean()[released.columns.index("kids")], abs=0.3)
    assert np.allclose(rows["age_squared"].to_numpy(), rows["age"].to_numpy() ** 2)
    same_again = dpcov.release(rows, schema=released.schema, epsilon=1e7, seed=1)
    assert same_again.mean()[0] == pytest.approx(released.mean()[0], abs=4)


def test_predictions_for_new_rows_derive_what_the_release_did(released):
    fit = dpcov.ridge(released, target="kids", features=["age", "age_squared", "born"], alpha=0.1)
    rows = {"age": [30.0, 200.0], "born": [date(1980, 1, 1), date(1985, 1, 1)]}
    by_hand = [[30.0, 900.0, 3652.0], [100.0, 10_000.0, 5479.0]]
    assert fit.predict(rows) == pytest.approx(fit.predict(by_hand))


def test_conditions_compare_dates_and_flags_as_they_are_declared():
    table = TABLE.append_column("smokes", pa.array(np.arange(ROWS) % 3 == 0))
    columns = DATED.model_dump()["columns"] | {"smokes": {"kind": "flag"}}
    schema = Schema.parse({"version": 2, "columns": columns})
    chosen = Conditions.parse(
        ["born >= '1950-01-01' and smokes = true and kept is not null"], schema
    )
    days = table["born"].to_pylist()
    count = sum(d is not None and d >= date(1950, 1, 1) and i % 3 == 0 for i, d in enumerate(days))
    assert open_rows(table, schema, chosen).second_moments()[0].unit_count == count > 0
    for wrong in ("born > 3", "born > 'soon'", "smokes = 1", "smokes > true"):
        with pytest.raises(SourceError):
            Conditions.parse([wrong], schema)


# Drafts.


def test_a_draft_proposes_kinds_by_declared_types_and_keys_by_name():
    kinds = {
        "patientId": "integer",
        "weight": "number",
        "born": "date",
        "ok": "flag",
        "idle": "integer",
    }
    stated = proposed(kinds, Stated(), {"idle": "unique of the database"})
    text = draft(kinds, FileOptions(), stated)
    assert '# column = "patientId"' in text
    assert "[columns.patientId]  # the name suggests a person id: left out" in text
    assert "[columns.weight]  # the name suggests a survey weight" in text
    assert "[columns.idle]  # unique of the database: left out" in text
    filled = text.replace("# lower =", "lower = 1900-01-01", 2).replace(
        "# upper =", "upper = 2000-01-01", 2
    )
    filled = filled.replace("lower = 1900-01-01", "lower = 0", 1).replace(
        "upper = 2000-01-01", "upper = 300", 1
    )
    made = Schema.parse(tomllib.loads(filled.replace("# missing =", 'missing = "pairwise"')))
    assert [c.kind for c in made.columns.values()] == [
        "ignored",
        "number",
        "date",
        "flag",
        "ignored",
    ]


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("id", "key"),
        ("ID", "key"),
        ("row_id", "key"),
        ("person", "person"),
        ("person_id", "person"),
        ("PatientID", "person"),
        ("subject", "person"),
        ("UUID", "key"),
        ("wgt_final", "weight"),
        ("Weight", "weight"),
        ("idea", ""),
        ("paid", ""),
        ("age", ""),
        ("keyboard", ""),
        ("x1", ""),
        ("", ""),
        ("user_age", ""),
        ("persons_in_home", ""),
    ],
)
def test_a_role_depends_on_whole_words(name, role):
    assert role_of(name) == role


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_draft_knows_the_constraints_and_the_types_of_a_database(tmp_path, kind):
    path = tmp_path / f"p.{kind}"
    with (sqlite3 if kind == "sqlite" else duckdb).connect(path) as db:
        db.execute("CREATE TABLE towns (code INTEGER PRIMARY KEY)")
        db.execute(
            "CREATE TABLE people (number BIGINT PRIMARY KEY, town INTEGER REFERENCES towns(code), "
            "mail TEXT UNIQUE, a INT, b INT, born DATE, seen TIMESTAMP, ok BOOLEAN, x DOUBLE, "
            "UNIQUE (a, b))"
        )
    db.close()
    source = open_source(DatabaseTable(path, "people"), FileOptions(), ())
    assert source.keys() == {
        "number": "the primary key of the database",
        "mail": "unique of the database",
        "town": "a foreign key of the database",
    }
    kinds = source.kinds()
    assert [kinds[name] for name in ("a", "born", "seen", "ok", "x")] == [
        "integer", "date", "time", "flag", "number",
    ]  # fmt: skip
