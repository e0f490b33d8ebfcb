"""Columns with their own signs of numbers, words for true and false, and codes of missing cells."""

from __future__ import annotations

import gzip
import sqlite3
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
from typer.testing import CliRunner

import dpcov
from dpcov import cli
from dpcov.api.about import schema_hash
from dpcov.errors import SchemaError, SourceError
from dpcov.rows.cells import codes_of, values_of
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.check import diagnose
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.sql import DatabaseTable

WAGE = {"kind": "number", "lower": 0, "upper": 4000, "missing": "level"}
COLUMNS: dict[str, dict[str, Any]] = {
    "wage": WAGE | {"decimal": ",", "missing_codes": ["k.A.", "-9"]},
    "smoker": {"kind": "flag", "true": ["ja"], "false": ["nein"], "missing": "level"},
    "ward": {
        "kind": "categorical", "levels": ["a", "b"], "missing": "level", "missing_codes": ["?"]
    },
    "day": {
        "kind": "date", "lower": "2020-01-01", "upper": "2024-01-01", "missing": "level",
        "missing_codes": ["unknown", "1900-01-01"],
    },
}  # fmt: skip
TABLE = {
    "wage": ["1234,5", "12,25", "k.A.", "-9", "7", "-9,0", " 1e1 ", "x"],
    "smoker": ["ja", "nein", "1", "true", "Ja", "0", "", "nein"],
    "ward": ["a", "b", "?", "c", "a", "b", "a", "b"],
    "day": [
        "2020-05-05",
        "1900-01-01",
        "unknown",
        "2022-02-02",
        "x",
        "2021-01-01",
        "",
        "2020-01-02",
    ],
}
VALUES = {
    "wage": [1234.5, 12.25, np.nan, np.nan, 7, np.nan, 10, np.nan],
    "smoker": [1, 0, 1, 1, np.nan, 0, np.nan, 0],
    "ward": [0, 1, 2, -1, 0, 1, 0, 1],
    "day": [18387, np.nan, np.nan, 19025, np.nan, 18628, np.nan, 18263],
}


def declared(**columns: Any) -> Schema:
    return Schema.parse({"version": 3, "columns": columns or COLUMNS})


def read(name: str, cells: pa.Array) -> np.ndarray:
    column = declared().columns[name]
    convert = codes_of if name == "ward" else values_of
    return convert(cells, column, ("",))


@pytest.mark.parametrize("name", COLUMNS)
def test_each_cell_is_read_by_itself_in_every_encoding(name: str) -> None:
    cells = pa.array(TABLE[name])
    for values in (cells, cells.dictionary_encode(), cells.cast(pa.string_view())):
        assert np.array_equal(read(name, values), np.array(VALUES[name], float), equal_nan=True)
    odd = [b"\xff", b"\xc2\xa0ja\xc2\xa0", b"1,5\xff", b"\xe2\x88\x921,5", b"\0", b"9" * 70_000]
    raw = pa.array([*(cell.encode() for cell in TABLE[name]), *odd])
    texts = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    alone = np.concatenate([read(name, texts.slice(at, 1)) for at in range(len(texts))])
    assert np.array_equal(read(name, texts), alone, equal_nan=True)
    grouped = declared(wage=WAGE | {"decimal": ",", "thousands": "."}).columns["wage"]
    parts = [values_of(texts.slice(at, 1), grouped, ()) for at in range(len(texts))]
    assert np.array_equal(values_of(texts, grouped, ()), np.concatenate(parts), equal_nan=True)


def forms(folder: Path) -> dict[str, Any]:
    """Return the table in each kind of data source."""
    frame = pd.DataFrame(TABLE)
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_csv(folder / "t2.csv", index=False, sep=";")
    frame.to_excel(folder / "t.xlsx", index=False)
    frame.to_stata(folder / "t.dta", write_index=False)
    pq.write_table(pa.table(TABLE), folder / "t.parquet")
    with sqlite3.connect(folder / "t.sqlite") as file:
        file.execute("CREATE TABLE t (wage NUMERIC, smoker BOOLEAN, ward TEXT, day DATE)")
        file.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", zip(*TABLE.values(), strict=True))
    file.close()
    with duckdb.connect(folder / "t.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM frame")
    pyreadstat.write_sav(frame, folder / "t.sav")
    files = {name: folder / name for name in ("t.csv", "t.xlsx", "t.dta", "t.parquet", "t.sav")}
    rows = [list(row) for row in zip(*TABLE.values(), strict=True)]
    typed = {"pandas": frame, "polars": pl.DataFrame(TABLE), "arrow": pa.table(TABLE), "list": rows}
    held = {name: DatabaseTable(folder / f"t.{name}", "t") for name in ("sqlite", "duckdb")}
    return {**files, **typed, **held}


def test_every_data_source_gives_the_same_sums(tmp_path: Path) -> None:
    schema = declared()
    found = {
        name: open_rows(data, schema, threads=1).second_moments()[0].units.tolist()
        for name, data in forms(tmp_path).items()
    }
    assert all(one == found["t.csv"] for one in found.values()), found
    plain = declared(wage=WAGE, **{name: COLUMNS[name] for name in ("smoker", "ward", "day")})
    other = open_rows(pa.table(TABLE), plain, threads=1).second_moments()[0].units
    assert other.tolist() != found["t.csv"]  # control: without the sign, cells are missing


def test_a_column_of_a_text_file_can_differ_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;c\n1,5;1.250,5;1.5\n2,5;20;2.5\n")
    number = {"kind": "number", "lower": 0, "upper": 2000, "missing": "midpoint"}
    columns = {
        "a": number,
        "b": number | {"decimal": ",", "thousands": "."},
        "c": number | {"decimal": "."},
    }
    document = {"version": 3, "columns": columns, "file": {"separator": ";", "decimal": ","}}
    schema = Schema.parse(document)
    assert schema.numbers == {"a"}
    plain = Schema.parse({"version": 3, "columns": dict.fromkeys(columns, number)})
    wanted = pa.table({"a": [1.5, 2.5], "b": [1250.5, 20.0], "c": [1.5, 2.5]})
    sums = [
        open_rows(data, one, threads=1).second_moments()[0].units.tolist()
        for data, one in ((tmp_path / "t.csv", schema), (wanted, plain))
    ]
    assert sums[0] == sums[1]
    assert all(not one.unreadable for one in diagnose(tmp_path / "t.csv", schema).columns.values())


@pytest.mark.parametrize("code", ["999,9", "999.9", "+999,90", "0,9999e3"])
@pytest.mark.parametrize("place", ["column", "all columns"])
def test_a_code_is_met_in_the_notation_of_its_column_in_every_source(tmp_path, code, place):
    table = {"wage": ["999,9", " 999,90 ", "1.999,9", "9999", "x"]}
    wanted = pa.table({"wage": [None, None, 1999.9, 9999.0, None]})
    wage = WAGE | {"upper": 10_000}
    codes = {"missing_codes": [code]} if place == "column" else {}
    rest = {"version": 3, "missing": ["", *(() if codes else [code])]}
    own = Schema.parse(
        {**rest, "columns": {"wage": wage | codes | {"decimal": ",", "thousands": "."}}}
    )
    file = {"separator": ";", "decimal": ",", "thousands": "."}
    whole = Schema.parse({**rest, "columns": {"wage": wage | codes}, "file": file})
    text = "wage;b\n" + "".join(f"{cell};1\n" for cell in table["wage"])
    (tmp_path / "f.csv").write_text(text)
    (tmp_path / "f.tsv").write_text(text.replace(";", "\t"))
    (tmp_path / "f.csv.gz").write_bytes(gzip.compress(text.encode()))
    frame = pd.DataFrame(table)
    frame.to_stata(tmp_path / "f.dta", write_index=False)
    tables = [frame.astype("string"), pa.table(table), tmp_path / "f.dta"]

    def tabs(one: Schema) -> Schema:
        file = one.file.model_dump(exclude_unset=True) | {"separator": "\t"}
        return Schema.parse(one.model_dump() | {"file": file})

    own_text = Schema.parse(own.model_dump() | {"file": {"separator": ";"}})
    pairs = [
        *((data, own) for data in tables),
        *((tmp_path / name, one) for name in ("f.csv", "f.csv.gz") for one in (own_text, whole)),
        *((tmp_path / "f.tsv", tabs(one)) for one in (own_text, whole)),
    ]
    plain = declared(wage=wage)
    expected = open_rows(wanted, plain, threads=1).second_moments()[0].units.tolist()
    for data, schema in pairs:
        assert open_rows(data, schema, threads=1).second_moments()[0].units.tolist() == expected
        seen = diagnose(data, schema).columns["wage"]
        assert (seen.missing, seen.unreadable) == (2, 1)


@pytest.mark.parametrize(("own", "file", "cell"), [
    ({"thousands": " "}, {"decimal": ","}, "1 234,5"),
    ({"thousands": "."}, {"decimal": ","}, "1.234,5"),
    ({"decimal": ","}, {"thousands": " "}, "1 234,5"),
    ({"decimal": ","}, {"thousands": ","}, "1234,5"),
])  # fmt: skip
def test_a_column_with_one_sign_takes_the_other_from_the_file(tmp_path, own, file, cell):
    (tmp_path / "t.csv").write_text(f"wage;b\n{cell};1\n")
    columns = {"wage": WAGE | own}
    schema = Schema.parse({"version": 3, "columns": columns, "file": file | {"separator": ";"}})
    found = open_rows(tmp_path / "t.csv", schema, threads=1).second_moments()[0].units.tolist()
    wanted = open_rows(pa.table({"wage": [1234.5]}), declared(wage=WAGE), threads=1)
    assert found == wanted.second_moments()[0].units.tolist()
    again = Schema.parse(schema.model_dump(mode="json"))
    assert again == schema


def test_numbers_stay_numbers_whatever_the_declared_signs() -> None:
    schema = declared(wage=WAGE | {"decimal": ",", "thousands": " "})
    wanted = [1.125, 1250.5, 1125.0]
    for cells in (pa.array(wanted), pa.array(["1.125", "1 250,5", "1125"])):
        assert values_of(cells, schema.columns["wage"], ()).tolist() == wanted
    grouped = declared(wage=WAGE | {"decimal": ",", "thousands": "."})
    cells = pa.array(["1.125", "1.250,5", "1.5"])
    found = values_of(cells, grouped.columns["wage"], ())
    assert np.array_equal(found, [1125.0, 1250.5, np.nan], equal_nan=True)


def test_a_point_that_groups_digits_is_refused_where_numbers_become_texts(tmp_path: Path) -> None:
    schema = declared(wage=WAGE | {"decimal": ",", "thousands": "."})
    pd.DataFrame({"wage": [1.125]}).to_excel(tmp_path / "t.xlsx", index=False)
    for data in (tmp_path / "t.xlsx", pd.DataFrame({"wage": [1.125]}, dtype=object), [[1.125]]):
        with pytest.raises(SourceError, match="remove decimal and thousands"):
            open_rows(data, schema)
    open_rows(pd.DataFrame({"wage": [1.125]}), schema)
    with sqlite3.connect(tmp_path / "t.sqlite") as file:
        file.execute("CREATE TABLE t (wage REAL)")
    file.close()
    with pytest.raises(SourceError, match="mix numbers and texts"):
        open_rows(DatabaseTable(tmp_path / "t.sqlite", "t"), declared(wage=COLUMNS["wage"]))


def test_conditions_read_cells_in_the_spelling_of_the_column() -> None:
    schema = declared()
    for text, rows in {
        "wage >= 10": [0, 1, 6],
        "wage is null": [2, 3, 5, 7],
        "smoker = true": [0, 2, 3],
        "ward = 'a'": [0, 4, 6],
        "ward is null": [2],
        "day < '2020-06-01'": [0, 7],
    }.items():
        (test,) = Conditions.parse([text], schema).tests
        assert np.flatnonzero(test.keep(pa.array(TABLE[test.column]))).tolist() == rows, text
    grouped = declared(wage=WAGE | {"decimal": ",", "thousands": "."})
    (test,) = Conditions.parse(["wage = 1.125"], grouped).tests
    assert test.keep(pa.array(["1,125", "1.125"])).tolist() == [True, False]
    with pytest.raises(SourceError, match="means a missing cell"):
        Conditions.parse(["wage = -9"], schema)
    assert Conditions.parse(["wage > -9"], schema)


def test_a_schema_without_these_keys_is_written_as_before() -> None:
    names = {"missing_codes", "decimal", "thousands", "true", "false"}
    plain = declared(wage=WAGE, flag={"kind": "flag", "missing": "none"})
    for column in plain.model_dump(mode="json")["columns"].values():
        assert not names & {*column}
    document = declared().model_dump(mode="json")
    assert Schema.parse(document) == declared()
    assert document["columns"]["smoker"]["true"] == ["ja"]
    assert schema_hash(declared(wage=WAGE)) != schema_hash(declared(wage=COLUMNS["wage"]))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (WAGE | {"thousands": "."}, "decimal and thousands must differ"),
        (WAGE | {"decimal": ",", "thousands": ","}, "decimal and thousands must differ"),
        (WAGE | {"missing_codes": [" x"]}, "Remove the blank"),
        (COLUMNS["smoker"] | {"false": ["ja"]}, "a text occurs twice"),
        (COLUMNS["smoker"] | {"missing_codes": ["nein"]}, "a text occurs twice"),
        (COLUMNS["smoker"] | {"true": ["2"]}, "need texts, not numbers"),
        (COLUMNS["ward"] | {"decimal": ","}, "choose another kind: number, integer, count"),
        (COLUMNS["day"] | {"true": ["x"]}, "'date' has no such entry.*another kind: flag"),
        (WAGE | {"decimals": ","}, "Did you mean 'decimal'"),
        (WAGE | {"missing_codes": [-9]}, 'Put the number in quotes, such as "-9"'),
    ],
)
def test_a_contradiction_is_refused(column: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        declared(x=column)


def test_a_release_file_keeps_the_spelling(tmp_path: Path) -> None:
    made = dpcov.release(pa.table(TABLE), schema=declared(), epsilon=1.0, seed=0)
    made.save(tmp_path / "r.json")
    assert dpcov.load(tmp_path / "r.json").schema == declared()


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        (COLUMNS["ward"], [1, 2], "none of its levels is a value of this type"),
        (COLUMNS["ward"], [True, False], "none of its levels"),
        (COLUMNS["day"], [1, 2], "kind = 'integer', 'count' or 'categorical', or 'ignored'"),
        (COLUMNS["day"], [1.5], "kind = 'number' or 'categorical', or 'ignored'"),
        (WAGE, [date(2020, 1, 1)], "kind = 'date' or 'time'"),
    ],
)
def test_a_schema_that_does_not_fit_says_what_to_change(column, cells, message) -> None:
    with pytest.raises(SourceError, match=message):
        open_rows(pa.table({"x": pa.array(cells)}), declared(x=column))
    codes = {"kind": "categorical", "levels": ["1", "2"], "missing": "level"}
    for values in ([1, 2], [1.0], ["a"], [True]):  # control
        open_rows(pa.table({"x": pa.array(values)}), declared(x=codes))


def test_the_message_about_absent_columns_contains_no_name_of_the_table(tmp_path) -> None:
    schema = declared(**{"weight kg": WAGE, "age": WAGE, "x": WAGE})
    (tmp_path / "t.csv").write_text("Weight_KG,secret,x\n1,2,3\n")
    for data in (tmp_path / "t.csv", pa.table({"Weight_KG": [1.0], "secret": [1.0], "x": [1.0]})):
        with pytest.raises(SourceError, match="no columns 'weight kg', 'age', but") as caught:
            open_rows(data, schema)
        assert "differs from 'weight kg' only in capitals" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "KG" not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "xlsx", "parquet", "dta", "sav", "sqlite"])
def test_a_release_names_numbers_that_a_table_declares_as_texts(tmp_path, monkeypatch, ending):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"wage": ["1,5", "2"], "smoker": ["ja", "nein"], "age": [30.0, 40.0]})
    writers = {
        "csv": lambda path: frame.to_csv(path, index=False),
        "xlsx": lambda path: frame.to_excel(path, index=False),
        "parquet": frame.to_parquet,
        "dta": lambda path: frame.to_stata(path, write_index=False),
        "sav": lambda path: pyreadstat.write_sav(frame, path),
        "sqlite": lambda path: _to_sqlite(frame, path),
    }
    writers[ending](tmp_path / f"t.{ending}")
    table = ["--table", "t"] * (ending == "sqlite")
    ends = "kind = 'number'\nlower = 0\nupper = 50\nmissing = 'level'\n"
    said = []
    for more, flag in (("", ""), ("decimal = ','\n", "true = ['ja']\nfalse = ['nein']\n")):
        Path("t.toml").write_text(
            f"version = 3\n[columns.wage]\n{ends}{more}[columns.age]\n{ends}"
            f"[columns.smoker]\nkind = 'flag'\nmissing = 'level'\n{flag}"
        )
        command = ["release", f"t.{ending}", "--schema", "t.toml", "--epsilon", "1", *table]
        done = CliRunner().invoke(cli.app, [*command, "--out", "t.json", "--force"])
        assert done.exit_code == 0, (done.output, done.exception)
        said.append(done.output)
    typed = ending not in ("csv", "xlsx")  # these files declare no types
    assert ("declares texts in 'wage', 'smoker', and" in said[0]) == typed
    assert "declares texts" not in said[1]


def _to_sqlite(frame: pd.DataFrame, path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE t (wage TEXT, smoker TEXT, age INTEGER)")
        file.executemany("INSERT INTO t VALUES (?, ?, ?)", frame.values.tolist())
    file.close()
