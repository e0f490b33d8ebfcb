"""Headers with unnamed cells, blanks and minus signs: one rule in all sources."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcov.cli.check import _sentences
from dpcov.cli.drafts import draft
from dpcov.core.spelling import shell_spelling
from dpcov.errors import SchemaError, SourceError
from dpcov.rows import cells
from dpcov.rows.cells import numbers_of, trimmed
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.check import diagnose
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.sql import DatabaseTable
from strategies import file_moment, moment, same

NUMBER = {"kind": "number", "lower": -10, "upper": 10_000}


def schema_of(*names: str, **fields) -> Schema:
    return Schema.parse({"version": 2, "columns": dict.fromkeys(names, NUMBER), **fields})


def expected(schema: Schema, **columns):
    return moment(
        pa.table({name: pa.array(c, pa.float64()) for name, c in columns.items()}), schema
    )


# Headers


@pytest.mark.parametrize(
    "text",
    [
        ",a,b\n0,1,3\n1,2,4\n",  # pandas.to_csv
        '"","a","b"\n"1",1,3\n"2",2,4\n',  # R's write.csv
        "a,b,\n1,3,\n2,4,\n",
        "a,,b\n1,x,3\n2,y,4\n",
        " ,a,b,\u00a0\n0,1,3,\n1,2,4,\n",
        "x,a,x,b\n0,1,0,3\n1,2,1,4\n",
        "x,x,a,b,,\n0,0,1,3,,\n1,1,2,4,,\n",
        "2020,a,b\n0,1,3\n1,2,4\n",  # all that is declared is there: it is a header
    ],
)
def test_cells_of_a_header_that_name_no_declared_column_are_left_out(tmp_path, text):
    schema = schema_of("a", "b")
    found = file_moment(tmp_path / "f.csv", text, schema)
    assert same(found, expected(schema, a=[1, 2], b=[3, 4]))


@pytest.mark.parametrize("first", ["0,1,3", "1,3", "", "0,1,3,9", '"', "a,b"])
def test_no_row_decides_how_another_one_is_read(tmp_path, first):
    schema = schema_of("a", "b")
    for header, row in ((",a,b", "1,2,4"), ("a,b", "2,4"), ("a,b,", "2,4,")):
        read = file_moment(tmp_path / "f.csv", f"{header}\n{first}\n{row}\n", schema)
        alone = file_moment(tmp_path / "g.csv", f"{header}\n{first}\n", schema)
        assert read.unit_count == 2
        assert ((read.units - alone.units) == expected(schema, a=[2], b=[4]).units).all()


def test_a_declared_name_that_stands_twice_is_refused(tmp_path):
    (tmp_path / "f.csv").write_text("a,b,a \n1,2,3\n")
    with pytest.raises(SourceError, match="more than one column 'a'"):
        open_rows(tmp_path / "f.csv", schema_of("a", "b"))
    tested = schema_of("b", where={"a": "number"})
    with pytest.raises(SourceError, match="more than one column 'a'"):
        open_rows(tmp_path / "f.csv", tested, Conditions.parse("a > 1", tested))


@pytest.mark.parametrize(
    ("extra", "rows"), [("first", '"1",1,3\n"2",2,4\n'), ("last", "1,3,\n2,4,\n")]
)
def test_rows_with_a_cell_more_than_the_header_are_read_as_is_declared(tmp_path, extra, rows):
    text = f'"a","b"\n{rows}'
    schema = schema_of("a", "b", file={"extra_cell": extra})
    assert same(file_moment(tmp_path / "f.csv", text, schema), expected(schema, a=[1, 2], b=[3, 4]))
    plain = schema_of("a", "b")  # control: no row decides, so that all are without values
    nothing = expected(plain, a=[None, None], b=[None, None])
    assert same(file_moment(tmp_path / "f.csv", text, plain), nothing)


def test_a_table_that_r_writes_is_read(tmp_path):
    text = 'a b\n"1" 1 3\n"2" 2 4\n'
    schema = schema_of("a", "b", file={"extra_cell": "first", "separator": " "})
    assert same(file_moment(tmp_path / "f.txt", text, schema), expected(schema, a=[1, 2], b=[3, 4]))
    with pytest.raises(SchemaError, match="extra_cell needs a header"):
        schema_of("a", file={"extra_cell": "first", "header": False})


def test_a_draft_leaves_unnamed_columns_out_and_says_which_name_stands_twice(tmp_path):
    (tmp_path / "f.csv").write_text(",a,b,\n0,1,2,\n")
    source = open_source(tmp_path / "f.csv", FileOptions(), ())
    assert source.names == ("a", "b")
    assert "[columns.a]" in draft(source.kinds(), FileOptions())
    (tmp_path / "f.csv").write_text("Zoe,b,Zoe\n0,1,2\n")
    with (
        shell_spelling(),
        pytest.raises(SourceError, match="cells 1 and 3 of the first record") as refused,
    ):
        open_source(tmp_path / "f.csv", FileOptions(), ())
    assert "Zoe" not in str(refused.value)


# Names


def written(folder: Path, kind: str, name: str) -> object:
    """Write a table of one column whose name has blanks around it."""
    table = pa.table({name: [1.0], "b": [2.0]})
    match kind:
        case "csv":
            (folder / "t.csv").write_text(f"{name},b\n1,2\n")
            return folder / "t.csv"
        case "parquet":
            pq.write_table(table, folder / "t.parquet")
            return folder / "t.parquet"
        case "pandas":
            return table.to_pandas()
        case "polars":
            return pl.from_arrow(table)
        case "arrow":
            return table
        case "sqlite":
            with sqlite3.connect(folder / "t.db") as connection:
                table.to_pandas().to_sql("t", connection, index=False)
            return DatabaseTable(folder / "t.db", "t")
        case "duckdb":
            with duckdb.connect(folder / "t.duckdb") as connection:
                connection.register("seen", table)
                connection.execute("CREATE TABLE t AS SELECT * FROM seen")
            return DatabaseTable(folder / "t.duckdb", "t")
    book = openpyxl.Workbook()
    book.active.append([name, "b"])
    book.active.append([1.0, 2.0])
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


SOURCES = ("csv", "parquet", "pandas", "polars", "arrow", "sqlite", "duckdb", "excel")


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("names", [("w ", "w "), ("w", " w\u00a0"), ("\u2009w", "w"), ("w", "w")])
def test_outer_blanks_of_names_mean_nothing(tmp_path, source, names):
    declared, name = names
    schema = schema_of(declared)
    assert [*schema.columns] == ["w"]
    found = moment(written(tmp_path, source, name), schema)
    assert same(found, expected(schema, w=[1]))


def test_names_of_units_weights_conditions_and_formulas_are_stripped(tmp_path):
    schema = Schema.parse(
        {
            "version": 2,
            "columns": {" a ": NUMBER, "g\u00a0": {"kind": "categorical", "levels": ["x"]}},
            "derived": {"d ": {"product": ["a ", " a"]}, " l": {"square": "a "}},
            "unit": {"column": "id ", "type": "integer", "max_rows": 1},
            "weight": {"column": " v", "maximum": 2},
            "where": {"c ": "number"},
        }
    )
    assert [*schema.encoded_columns] == ["a", "g", "d", "l"]
    assert (schema.unit.column, schema.weight.column, [*schema.where]) == ("id", "v", ["c"])
    columns = {"a": NUMBER, "g": {"kind": "categorical", "levels": ["x"]}}
    assert Schema.parse({"version": 2, "columns": columns, "by": " g"}).by == "g"
    table = pa.table({"a ": [1.0, 2.0], " g": ["x", "x"], "id": ["1", "2"], "v ": [1, 1]})
    assert moment(table.append_column("c\u2009", pa.array([0, 5])), schema).unit_count == 2


def test_names_that_differ_by_outer_blanks_only_are_refused(tmp_path):
    with pytest.raises(SchemaError, match="two names differ only in outer blanks"):
        schema_of("a", "a ")
    with pytest.raises(SourceError, match="more than one column 'a'"):
        open_rows(pa.table({"a": [1.0], "a ": [2.0]}), schema_of("a"))
    schema = schema_of("b")
    assert same(
        moment(pa.table({"a": [1], "a ": [2], "b": [3.0]}), schema), expected(schema, b=[3])
    )


# Cells

CELLS = {
    " 5\u00a0": 5.0,
    "\u20095": 5.0,
    "5\u3000\t": 5.0,
    "\x855": 5.0,
    "\u22123.5": -3.5,
    "\u00a0\u22123.5": -3.5,
    "1e\u22122": 0.01,
    "1\u00a0234": None,
    "1\u202f234": None,
    "1 234": None,
    "\u2212\u22123": None,
    "5\u2212": None,
    "\u2212": None,
    "\u00a0": None,
    "\u200b5": None,  # no blank, and nobody sees it
}


def of_texts(folder: Path, kind: str, texts: list[str]) -> object:
    """Write a table whose only column has these texts."""
    match kind:
        case "csv":
            text = "".join(f'"{text}"\n' for text in ["a", *texts])
            (folder / "c.csv").write_text(text, encoding="utf-8")
            return folder / "c.csv"
        case "utf-16":
            text = "".join(f'"{text}"\n' for text in ["a", *texts])
            (folder / "c.csv").write_text(text, encoding="utf-16")
            return folder / "c.csv"
        case "parquet":
            pq.write_table(pa.table({"a": texts}), folder / "c.parquet")
            return folder / "c.parquet"
        case "arrow":
            return pa.table({"a": texts})
        case "pandas":
            return pd.DataFrame({"a": np.array(texts, object)})
        case "categories":
            return pd.DataFrame({"a": pd.Categorical(texts)})
        case "polars":
            return pl.DataFrame({"a": texts})
        case "list":
            return [[text] for text in texts]
        case "sqlite":
            with sqlite3.connect(folder / "c.db") as connection:
                connection.execute("CREATE TABLE t (a TEXT)")
                connection.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
            return DatabaseTable(folder / "c.db", "t")
        case "duckdb":
            with duckdb.connect(folder / "c.duckdb") as connection:
                connection.execute("CREATE TABLE t (a VARCHAR)")
                connection.executemany("INSERT INTO t VALUES (?)", [[text] for text in texts])
            return DatabaseTable(folder / "c.duckdb", "t")
    book = openpyxl.Workbook()
    for text in ["a", *texts]:
        book.active.append([text])
    book.save(folder / "c.xlsx")
    return folder / "c.xlsx"


@pytest.mark.parametrize(
    "source",
    [*SOURCES, "utf-16", "categories", "list"],
)
def test_blanks_and_minus_signs_are_read_alike_in_every_source(tmp_path, source):
    file = {"encoding": "utf-16"} if source == "utf-16" else {}
    schema = schema_of("a", file=file)
    found = moment(of_texts(tmp_path, source, [*CELLS]), schema)
    assert same(found, expected(schema, a=[*CELLS.values()]))


def test_a_cell_means_the_same_alone_and_beside_any_other():
    poison = [b"\xff", b"\xc2\xa05\xff", b"\xa05", None]
    raw = [text.encode() for text in CELLS] + poison
    lengths = np.cumsum([0, *(len(cell or b"") for cell in raw)]).astype(np.int32)
    content = [pa.py_buffer(lengths), pa.py_buffer(b"".join(cell or b"" for cell in raw))]
    valid = pa.array([cell is not None for cell in raw]).buffers()[1]
    column = pa.Array.from_buffers(pa.string(), len(raw), [valid, *content])
    together = numbers_of(column, ("",))
    alone = [numbers_of(column[at : at + 1], ("",))[0] for at in range(len(raw))]
    np.testing.assert_array_equal(together, alone)
    known = [np.nan if value is None else value for value in CELLS.values()]
    np.testing.assert_array_equal(together, [*known, *[np.nan] * len(poison)])


def test_blanks_are_those_that_python_strips():
    every = [chr(code) for code in range(0xD800)] + ["\U0001f600"]
    stripped = trimmed(pa.array([f"{one}a{one}" for one in every]))
    assert stripped.to_pylist() == [f"{one}a{one}".strip() for one in every]


def test_a_minus_sign_is_one_in_codes_that_mean_missing_and_in_levels():
    texts = pa.array(["\u2212999", "-999", "-999.0", "5"])
    for code in ("-999", "\u2212999"):
        found = numbers_of(texts, (code,))
        np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 5.0])
        typed = numbers_of(pa.array([-999.0, 5.0]), (code,))
        np.testing.assert_array_equal(typed, [np.nan, 5.0])
    declared = {"kind": "categorical", "levels": [-1, 1]}
    schema = Schema.parse({"version": 2, "columns": {"g": declared}})
    codes = cells.codes_of(pa.array(["\u22121", "-1", "1\u00a0"]), schema.columns["g"], ("",))
    assert codes.tolist() == [0, 0, 1]


@pytest.mark.parametrize("thousands", [None, " ", "\u00a0", "\u202f", "\u2009"])
def test_inner_spaces_are_separators_only_if_thousands_is_declared(tmp_path, thousands):
    texts = ["\u00a05", "5\u00a0", "1\u00a0234,5", "\u22123,5", "1\u202f234", "12\u20093", "1 234"]
    options = {"separator": ";", "decimal": ",", "thousands": thousands}
    schema = schema_of("a", file={k: v for k, v in options.items() if v is not None})
    text = "a;b\n" + "".join(f"{cell};1\n" for cell in texts)
    (tmp_path / "f.csv").write_text(text, encoding="utf-8")
    grouped = (lambda number: number) if thousands else lambda number: None
    plain = grouped(1234.0) if thousands == " " else None
    values = [5.0, 5.0, grouped(1234.5), -3.5, grouped(1234.0), None, plain]
    assert same(moment(tmp_path / "f.csv", schema), expected(schema, a=values))


# What dpcov check says


def sentences(path: object, schema: Schema) -> str:
    return " ".join(_sentences(diagnose(path, schema), schema))


def test_check_names_what_the_header_holds(tmp_path):
    (tmp_path / "f.csv").write_text(",a ,x,x,\n0,1,2,3,\n")
    found = sentences(tmp_path / "f.csv", schema_of("a"))
    assert "no name at columns 1, 5." in found
    assert "repeats a name at column 4. Do not declare this name" in found
    assert "begins or ends with a blank at column 2. Declare the name without" in found
    table = pa.table({"b": [1.0], "a\u00a0": [1.0]})
    assert "begins or ends with a blank at column 2" in sentences(table, schema_of("a"))
    (tmp_path / "g.csv").write_text("a,x\n1,2\n")  # control
    assert "column" not in sentences(tmp_path / "g.csv", schema_of("a"))


def test_check_proposes_a_cell_more_or_less(tmp_path):
    (tmp_path / "f.csv").write_text("a,b\nr1,1,3\nr2,2,4\n")
    found = sentences(tmp_path / "f.csv", schema_of("a"))
    assert "100.0% of the records have one cell more than the header has names" in found
    assert 'extra_cell = "first"' in found
    assert 'or "last"' in found
    declared = schema_of("a", file={"extra_cell": "first"})
    assert "one cell" not in sentences(tmp_path / "f.csv", declared)
    (tmp_path / "g.csv").write_text("a,b,\n1,3\n2,4\n")
    found = sentences(tmp_path / "g.csv", schema_of("a"))
    assert "one cell less than the header. Delete the separator at the end" in found


def test_check_names_blanks_and_minus_signs_and_proposes_thousands(tmp_path):
    texts = ["\u00a05", "\u22123,5", "1\u00a0234,5", "1\u202f234"]
    (tmp_path / "f.csv").write_text("a;b\n" + "".join(f"{cell};1\n" for cell in texts))
    found = sentences(tmp_path / "f.csv", schema_of("a", file={"separator": ";", "decimal": ","}))
    assert (
        'a: 100.0% of these unreadable cells would be numbers with decimal = ",", thousands = " "'
        in found
    )
    assert "a: 25.0% of the cells begin or end with a non-ASCII blank, which is removed" in found
    assert "a: 25.0% of the cells are numbers with the sign U+2212" in found
    (tmp_path / "g.csv").write_text("a\n1\u00a0234\n1\u202f234\n")
    found = sentences(tmp_path / "g.csv", schema_of("a"))
    assert 'decimal = ".", thousands = " "' in found
    (tmp_path / "h.csv").write_text("a\n 5\n-3.5\n")  # control
    assert sentences(tmp_path / "h.csv", schema_of("a")).startswith("dpcov can read every cell")
    found = sentences(pa.table({"a": ["1\u00a0234", "\u00a05"]}), schema_of("a"))
    assert 'would be numbers with decimal = ".", thousands = " " in this column' in found


@pytest.mark.parametrize("unseen", ["\t", "\x85", "\u2028", "\u200b", "\ufeff"])
def test_a_name_with_a_character_that_nobody_sees_is_refused_and_not_stripped(unseen):
    with pytest.raises(SchemaError, match="an invisible control or formatting character"):
        schema_of(f"a{unseen}")
