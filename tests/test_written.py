"""Synthetic rows in a text file: dpcov reads each cell back, in every notation of a schema."""

import json
from datetime import date, datetime
from pathlib import Path
from uuid import UUID

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import dpcov
from dpcov import cli
from dpcov.analysis.synthetic import Rows
from dpcov.core.show.frames import csv_body
from dpcov.errors import OutputError, SchemaError
from dpcov.rows.schema import Schema
from dpcov.rows.written import OTHER_TEXT, TextFile
from strategies import moment, same

ROWS = 6
SIGNS = [
    {},
    {"decimal": ","},
    {"thousands": "."},
    {"decimal": ",", "thousands": "."},
    {"thousands": ","},
    {"decimal": ",", "thousands": " "},
    {"thousands": "\u2019"},
    {"decimal": ",", "thousands": "\u202f"},
]
CODES = st.sampled_from([{}, {"missing_codes": ["k. A."]}, {"missing_codes": ["-99999", "-"]}])
FILES = st.fixed_dictionaries(
    {
        "separator": st.sampled_from([",", ";", "\t", "|"]),
        "quote": st.sampled_from([True, True, False, "'"]),
        "header": st.booleans(),
        "encoding": st.sampled_from(["utf-8", "utf-16", "cp1252"]),
        "skip_lines": st.integers(0, 2),
        "extra_cell": st.sampled_from([None, None, "first", "last"]),
        "compression": st.sampled_from(["auto", "gzip"]),
    }
)


def column(kind, values, **keys):
    """Return the declaration and the cells of a column, with a random rule and random codes."""
    rule = st.sampled_from(["midpoint", "level", "pairwise"])
    cells = st.lists(st.none() | values, min_size=ROWS, max_size=ROWS)
    declared = st.tuples(rule, CODES, st.sampled_from(SIGNS if kind in NUMBERS else [{}]))
    return st.tuples(
        declared.map(lambda one: {"kind": kind, "missing": one[0], **keys, **one[1], **one[2]}),
        cells,
    )


NUMBERS = ("number", "integer", "count")
NUMERIC = st.one_of(
    column("number", st.floats(-1e6, 1e6), lower=-1e6, upper=1e6),
    column("integer", st.integers(-4000, 10**7).map(float), lower=-4000, upper=10**7),
    column("count", st.integers(0, 5000).map(float), upper=5000),
    column("flag", st.booleans()),
    column("flag", st.booleans(), true=["ja", "wahr"], false=["nein"]),
    column("flag", st.booleans(), true=["-"]),
    column(
        "date", st.dates(date(1950, 1, 1), date(2020, 1, 1)), lower="1950-01-01", upper="2020-01-01"
    ),
    column(
        "time",
        st.datetimes(datetime(2000, 1, 1), datetime(2020, 1, 1)),
        lower="2000-01-01",
        upper="2020-01-01",
    ),
)
LEVELS = st.sampled_from(
    [
        (("a", "b;c", "d,e"), OTHER_TEXT),
        (("Stra\u00dfe", "O'Brien", "-5", "+"), OTHER_TEXT),
        ((1, 2, -3), 77),
        ((True, False), None),
        ((0.5, 1.25), 9.0),
    ]
)


@st.composite
def categories(draw):
    """Return the declaration and the cells of a categorical column."""
    levels, undeclared = draw(LEVELS)
    other, rule = draw(st.booleans()), draw(st.sampled_from(["zeros", "level"]))
    values = [None, *levels, *([undeclared] if other and undeclared is not None else [])]
    cells = draw(st.lists(st.sampled_from(values), min_size=ROWS, max_size=ROWS))
    declared = {"kind": "categorical", "levels": list(levels), "other": other, "missing": rule}
    return declared | draw(CODES), cells


IDS = {
    "integer": list(range(ROWS)),
    "decimal": [float(one) for one in range(ROWS)],
    "text": [f"id {one}" for one in range(ROWS)],
    "uuid": [f"{UUID(int=one)}" for one in range(ROWS)],
}


@st.composite
def written(draw):
    """Return a schema, a table, True for each undeclared category, and ids and weights."""
    drawn = draw(st.lists(NUMERIC | categories(), min_size=1, max_size=4))
    columns = {f"Gr\u00f6\u00dfe {at}": declared for at, (declared, _) in enumerate(drawn)}
    columns |= {name: {"kind": "ignored"} for name in ("patient", "weight")}
    ids = draw(st.sampled_from([None, None, *IDS]))
    weights = draw(st.sampled_from([None, None, 2.5]))
    document = {
        "version": 3,
        "columns": columns,
        "unit": ids and {"column": "patient", "type": ids},
        "weight": weights and {"column": "weight", "maximum": weights},
        "missing": draw(st.sampled_from([[""], ["NA"], ["", "NA"], ["-", "NA"]])),
        "file": draw(FILES) | draw(st.sampled_from(SIGNS)),
    }
    try:
        schema = Schema.parse(document)
    except SchemaError:
        assume(False)
    cells = {name: pa.array(one) for name, (_, one) in zip(columns, drawn, strict=False)}
    others = {
        name: np.array([one is not None and one not in columns[name]["levels"] for one in own])
        for name, (_, own) in zip(columns, drawn, strict=False)
        if columns[name]["kind"] == "categorical"
    }
    own = {"patient": pa.array(IDS[ids])} if ids else {}
    own |= {"weight": pa.array([weights] * ROWS)} if weights else {}
    return schema, pa.table(cells), others, own


def read_back(schema, content, table, folder):
    """Return True if dpcov reads the same integers from a file and from a table."""
    path = Path(folder) / "rows.csv"
    path.write_bytes(content)
    return same(moment(path, schema), moment(table, schema))


def emptied(table, others):
    """Return the table as `dpcov.sample` makes it: undeclared numbers are null."""
    for name, own in others.items():
        if not pa.types.is_string(table[name].type):
            at = table.column_names.index(name)
            values = [None if o else c for o, c in zip(own, table[name].to_pylist(), strict=True)]
            table = table.set_column(at, name, pa.array(values, table[name].type))
    return table


# Many combinations of signs and words are no schema.
@settings(max_examples=50, suppress_health_check=[HealthCheck.filter_too_much])
@given(written())
def test_a_file_in_the_notation_of_the_schema_is_read_back(tmp_path_factory, drawn):
    schema, table, others, own = drawn
    try:
        content = TextFile.of(schema, emptied(table, others), others).content()
    except OutputError:
        assert schema.file.quote_sign != '"'
        return
    for name, cells in own.items():
        table = table.append_column(name, cells)
    assert read_back(schema, content, table, tmp_path_factory.getbasetemp())


GERMAN = {"decimal": ",", "thousands": "."}


@pytest.mark.parametrize("place", ["file", "column"])
def test_control_plain_decimals_are_not_read_back(place, tmp_path):
    column = {"kind": "number", "lower": 0, "upper": 1e4, "missing": "level"}
    columns = {"a": column | (GERMAN if place == "column" else {})}
    file = GERMAN if place == "file" else {}
    schema = Schema.parse({"version": 3, "columns": columns, "file": file})
    table = pa.table({"a": [1234.5, 2.25, None]})
    assert read_back(schema, TextFile.of(schema, table, {}).content(), table, tmp_path)
    assert not read_back(schema, csv_body(table).encode(), table, tmp_path)


PATIENTS = """
version = 3
missing = ["NA"]
[file]
separator = ";"
encoding = "cp1252"
[columns."Gr\u00f6\u00dfe"]
kind = "number"
lower = 1000
upper = 2500
decimal = ","
thousands = "."
missing = "level"
missing_codes = ["k. A."]
[columns.raucht]
kind = "flag"
true = ["ja"]
false = ["nein"]
missing = "midpoint"
[columns.besuche]
kind = "count"
upper = 99
missing_codes = ["9"]
missing = "midpoint"
[columns.aufnahme]
kind = "date"
lower = "2020-01-01"
upper = "2024-12-31"
missing = "none"
[columns.station]
kind = "categorical"
levels = [1, 2, 3]
other = true
missing = "level"
"""


def sampled(tmp_path):
    """Write synthetic rows of a German table by the command, and return their schema and table."""
    (tmp_path / "s.toml").write_text(PATIENTS, encoding="utf-8")
    schema, generator = Schema.load(tmp_path / "s.toml"), np.random.default_rng(0)
    table = pa.table(
        {
            "Gr\u00f6\u00dfe": generator.normal(1700, 80, 900),
            "raucht": generator.random(900) < 0.4,
            "besuche": generator.integers(0, 30, 900),
            "aufnahme": pa.array(generator.integers(18300, 20000, 900), pa.int32()).cast(
                pa.date32()
            ),
            "station": pa.array(generator.integers(1, 6, 900), mask=generator.random(900) < 0.1),
        }
    )
    made = dpcov.release(table, schema=schema, epsilon=20.0)
    made.save(tmp_path / "r.json")
    out = tmp_path / "rows.csv"
    with pytest.raises(SystemExit) as ended:
        cli.main(["sample", f"{tmp_path / 'r.json'}", "-n400", "--seed=1", f"--out={out}"])
    assert ended.value.code == 0
    return schema, out, dpcov.sample(made, 400, seed=1)


def with_undeclared(out, table):
    """Return the table with the undeclared wards of a file, which are null in the table."""
    wards = [line.split(";")[-1].strip('"') for line in out.read_text("cp1252").splitlines()[1:]]
    known = [ward if ward not in ("NA", OTHER_TEXT) else None for ward in wards]
    assert known == [None if one is None else f"{one}" for one in table["station"].to_pylist()]
    wards = [None if ward == "NA" else ward for ward in wards]
    return table.set_column(4, "station", pa.array(wards))


def test_the_command_writes_rows_that_dpcov_reads_back(tmp_path):
    schema, out, table = sampled(tmp_path)
    assert read_back(schema, out.read_bytes(), with_undeclared(out, table), out.parent)
    assert "9" not in {f"{one:g}" for one in table["besuche"].to_pylist()}
    lines = out.read_text(encoding="cp1252").splitlines()
    assert lines[0] == '"Gr\u00f6\u00dfe";"raucht";"besuche";"aufnahme";"station"'
    cells = {line.split(";")[-1] for line in lines[1:]}
    assert cells == {'"1"', '"2"', '"3"', '"(other)"', '"NA"'}
    assert {line.split(";")[1] for line in lines[1:]} == {'"ja"', '"nein"'}
    stated = json.loads(out.with_name("rows.csv-metadata.json").read_text())
    kinds = {one["titles"]: one["datatype"] for one in stated["tableSchema"]["columns"]}
    assert kinds["Gr\u00f6\u00dfe"]["format"] == {"decimalChar": ",", "groupChar": "."}
    assert kinds["raucht"] == {"base": "boolean", "format": "ja|nein"}
    assert stated["dialect"]["delimiter"] == ";"


def test_categories_that_a_spreadsheet_computes_are_named():
    levels = {"kind": "categorical", "levels": ["=1+1", "-5"], "missing": "zeros"}
    schema = Schema.parse({"version": 3, "columns": {"a": levels}})
    file = TextFile.of(schema, pa.table({"a": ["=1+1", "-5"]}), {})
    assert file.text() == '"a"\n"\'=1+1"\n"-5"\n'
    assert file.altered == ("=1+1",)
    assert "=1+1" in Rows(file.table, (), file).notes()[0]
