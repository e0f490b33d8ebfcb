"""One table in the files that people have gives one release; what can't be read says what to do."""

from __future__ import annotations

import csv
import re
import sqlite3
import sys
from datetime import date, datetime
from pathlib import Path
from types import SimpleNamespace
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pyreadstat
import pytest

import dpcov
from dpcov.errors import SourceError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import REMEDIES, ooxml, open_rows, open_source
from dpcov.rows.sources.sql import DatabaseTable
from rounds_for_tests import count_of
from strategies import moment, same
from test_installing import asked

ROWS = 300
TOWNS = ["Aix", 'St "John"', "x;y,z", "two\nlines", "é"]
LEVELS = [town for town in TOWNS if town.isprintable()]  # names of levels have one line
COLUMNS = {
    "weight": {"kind": "number", "lower": 30, "upper": 110, "missing": "level"},
    "visits": {"kind": "count", "upper": 9},
    "town": {"kind": "categorical", "levels": LEVELS, "other": True, "missing": "level"},
    "born": {"kind": "date", "lower": "1900-01-01", "upper": "2025-01-01"},
}
LATIN = {"separator": "\t", "encoding": "cp1252"}
EUROPEAN = {"separator": ";", "decimal": ","}


def cells() -> list[list]:
    """Return rows of numbers, texts and dates; some cells are missing, but no whole row."""
    rng = np.random.default_rng(3)
    rows = [
        [
            round(float(rng.normal(70, 20)), 2) if i % 7 else None,
            int(rng.integers(0, 9)),
            TOWNS[i % 5] if i % 11 else None,
            date(1950 + i % 50, 1 + i % 12, 1 + i % 28) if i % 13 else None,
        ]
        for i in range(ROWS)
    ]
    assert not any(row == [None] * 4 for row in rows)
    return rows


CELLS = cells()
FRAME = pd.DataFrame(CELLS, columns=list(COLUMNS))


def declared(**file) -> Schema:
    return Schema.parse({"version": 2, "columns": COLUMNS, "file": file})


def text_file(folder: Path, name: str = "p.csv", **options) -> Path:
    """Write the table as a program of some country does."""
    sign = options.get("decimal", ".")
    with (folder / name).open("w", newline="", encoding=options.get("encoding", "utf-8")) as file:
        writer = csv.writer(file, delimiter=options.get("separator", ","))
        writer.writerow(COLUMNS)
        for weight, *others in CELLS:
            said = "" if weight is None else f"{weight}".replace(".", sign)
            writer.writerow([said, *("" if cell is None else cell for cell in others)])
    return folder / name


def workbook(folder: Path, rows=CELLS, header=tuple(COLUMNS), more=()) -> Path:
    book = openpyxl.Workbook()
    for row in [header, *rows]:
        book.active.append(list(row))
    for name in more:
        book.create_sheet(name).append(["other"])
    book.save(folder / "p.xlsx")
    return folder / "p.xlsx"


def rewritten(path: Path, change) -> Path:
    """Write the workbook again, with each part as `change` makes it."""
    new = path.with_name("new.xlsx")
    with ZipFile(path) as parts, ZipFile(new, "w", ZIP_DEFLATED) as written:
        for part in parts.namelist():
            written.writestr(part, change(part, parts.read(part)))
    return new


def with_shared_texts(folder: Path) -> Path:
    """Write the workbook with its texts in a separate table, as Excel does."""
    texts: list[str] = []
    path = workbook(folder)

    def shared(found: re.Match[str]) -> str:
        texts.append(found[1])
        return f't="s"><v>{len(texts) - 1}</v></c>'

    def change(part: str, content: bytes) -> str:
        kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
        reported = "application/vnd.openxmlformats-officedocument.spreadsheetml.sharedStrings+xml"
        text = content.decode()
        if part.endswith("sheet1.xml"):
            return re.sub(r't="inlineStr"><is>(.*?)</is></c>', shared, text, flags=re.DOTALL)
        if part.endswith("workbook.xml.rels"):
            more = f'<Relationship Type="{kind}" Target="sharedStrings.xml" Id="rId9"/>'
            return text.replace("</Relationships>", f"{more}</Relationships>")
        if part == "[Content_Types].xml":
            more = f'<Override PartName="/xl/sharedStrings.xml" ContentType="{reported}"/>'
            return text.replace("</Types>", f"{more}</Types>")
        return text

    new = rewritten(path, change)
    space = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    items = "".join(f"<si>{text}</si>" for text in texts)
    with ZipFile(new, "a") as written:
        written.writestr("xl/sharedStrings.xml", f'<sst xmlns="{space}">{items}</sst>')
    assert len(texts) > ROWS / 2
    return new


def statistics(folder: Path, ending: str, **options) -> Path:
    write = {"dta": pyreadstat.write_dta, "sav": pyreadstat.write_sav}[ending]
    write(options.pop("frame", FRAME), str(folder / f"p.{ending}"), **options)
    return folder / f"p.{ending}"


def parquet(folder: Path) -> Path:
    pq.write_table(pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in CELLS]),
                   folder / "p.parquet")  # fmt: skip
    return folder / "p.parquet"


def sqlite(folder: Path) -> DatabaseTable:
    with sqlite3.connect(folder / "p.db") as database:
        database.execute("CREATE TABLE p (weight REAL, visits INTEGER, town TEXT, born TEXT)")
        rows = [[*row[:3], None if row[3] is None else row[3].isoformat()] for row in CELLS]
        database.executemany("INSERT INTO p VALUES (?, ?, ?, ?)", rows)
    return DatabaseTable(folder / "p.db", "p")


FILES = {
    "csv with line breaks": (text_file, {}),
    "semicolons and decimal commas": (lambda folder: text_file(folder, **EUROPEAN), EUROPEAN),
    "cp1252 tsv": (lambda folder: text_file(folder, "p.tsv", **LATIN), LATIN),
    "xlsx": (workbook, {}),
    "xlsx, shared texts": (with_shared_texts, {}),
    "a sheet": (lambda folder: DatabaseTable(workbook(folder, more=["b"]), "Sheet"), {}),
    "dta": (lambda folder: statistics(folder, "dta"), {}),
    "sav": (lambda folder: statistics(folder, "sav"), {}),
    "sav, compressed": (lambda folder: statistics(folder, "sav", row_compress=True), {}),
    "sqlite": (sqlite, {}),
}


@pytest.mark.parametrize("name", FILES)
def test_the_same_table_gives_the_same_published_integers(tmp_path, name):
    write, file = FILES[name]
    (data, expected) = (write(tmp_path), parquet(tmp_path))
    one, other = (
        dpcov.release(table, schema=schema, epsilon=1.0, mechanism="matrix-laplace", seed=1)
        for table, schema in ((data, declared(**file)), (expected, declared()))
    )
    assert np.array_equal(one.published, other.published)
    assert count_of(one) == count_of(other)


@pytest.mark.parametrize("name", FILES)
def test_small_batches_change_nothing(tmp_path, monkeypatch, name):
    write, file = FILES[name]
    data = write(tmp_path)
    whole = moment(data, declared(**file))
    assert whole.unit_count == ROWS
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 4 * 60)
    parts = open_source(data, FileOptions.checked(**file), ()).batches(list(COLUMNS))
    assert max(batch.num_rows for batch in parts) == 60
    assert same(moment(data, declared(**file)), whole)


def test_control_another_cell_changes_the_integers(tmp_path):
    before = moment(workbook(tmp_path), declared())
    changed = [[71.0, *CELLS[0][1:]], *CELLS[1:]]
    assert not same(moment(workbook(tmp_path, changed), declared()), before)


def test_kinds_come_from_the_file_s_own_types(tmp_path):
    table = {"a": ["x"], "b": [1.5], "c": [date(2020, 1, 1)], "d": [datetime(2020, 1, 1, 5)]}
    frame = pd.DataFrame(table).assign(e=np.array([3], np.int32))
    for ending in ("dta", "sav"):
        path = statistics(tmp_path, ending, frame=frame)
        kinds = open_source(path, FileOptions(), ()).kinds()
        whole = {"dta": "integer", "sav": "number"}[ending]  # SPSS stores them as floats
        assert [*kinds.values()] == ["categorical", "number", "date", "time", whole]
        source = open_source(path, FileOptions(), ())
        (batch, *_) = source.batches(list("dbca"))
        assert batch.to_pylist()[0] == {key: table[key][0] for key in "dbca"}
        assert dict(zip(batch.schema.names, batch.schema.types, strict=True)).items() <= (
            source.types.items()
        )


def test_of_a_workbook_no_kind_is_known_whatever_its_cells(tmp_path):
    kinds = open_source(workbook(tmp_path), FileOptions(), ()).kinds()
    assert kinds == dict.fromkeys(COLUMNS, "unknown")


# Cells that a library would give up the table for


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_a_date_too_far_away_is_missing_and_no_other_cell(tmp_path, ending):
    frame = pd.DataFrame({"d": [1e300, 22000.0, -1e300, np.nan, 1e18]})
    formats = {"dta": "%td", "sav": "DATE11"}
    path = statistics(tmp_path, ending, frame=frame, variable_format={"d": formats[ending]})
    with pytest.raises(Exception, match=r".*"):  # the control: the library's own dates
        getattr(pyreadstat, f"read_{ending}")(str(path))
    source = open_source(path, FileOptions(), ())
    (batch, *_) = source.batches(["d"])
    assert source.types["d"] == pa.date32()
    near = {"dta": date(2020, 3, 26), "sav": date(1582, 10, 14)}
    assert batch.column("d").to_pylist() == [None, near[ending], None, None, None]


def test_dates_are_those_of_the_years_1_to_9999(tmp_path):
    near, origin = [date(1, 1, 1), date(1959, 12, 31), date(9999, 12, 31)], date(1960, 1, 1)
    days = [(one - origin).days for one in near]
    frame = pd.DataFrame({"d": [float(day) for day in [days[0] - 1, *days, days[2] + 2]]})
    path = statistics(tmp_path, "dta", frame=frame, variable_format={"d": "%td"})
    (batch, *_) = open_source(path, FileOptions(), ()).batches(["d"])
    assert batch.column("d").to_pylist() == [None, *near, None]


def test_dates_and_times_of_sas_count_from_1960(tmp_path, monkeypatch):
    """No writer of such files is available, so this is a reader's report of one."""
    stored = {"day": [0.0, 22000.0, None], "time": [0.0, 86400.5, 1e300], "text": ["a", "b", None]}
    about = SimpleNamespace(
        number_rows=None,
        column_names=list(stored),
        file_encoding="WINDOWS-1252",
        readstat_variable_types={"day": "double", "time": "double", "text": "string"},
        original_variable_types={"day": "DATE9", "time": "DATETIME20", "text": "$"},
    )
    monkeypatch.setattr(pyreadstat, "read_sas7bdat", lambda *_, **__: (stored, about))
    (tmp_path / "p.sas7bdat").touch()
    source = open_source(tmp_path / "p.sas7bdat", FileOptions(), ())
    (batch, *_) = source.batches(list(stored))
    assert batch.to_pydict() == {
        "day": [date(1960, 1, 1), date(2020, 3, 26), None],
        "time": [datetime(1960, 1, 1), datetime(1960, 1, 2, 0, 0, 0, 500_000), None],
        "text": stored["text"],
    }


def test_a_stated_encoding_counts_more_than_that_of_the_file(tmp_path):
    path = statistics(tmp_path, "sav", frame=pd.DataFrame({"a": ["abcdefgh", "b"]}))
    path.write_bytes(path.read_bytes().replace(b"abcdefgh", b"abcdefg\xe9"))
    for encoding, text in (("utf-8", None), ("cp1252", "abcdefgé")):
        (batch, *_) = open_source(path, FileOptions(encoding=encoding), ()).batches(["a"])
        assert batch.column("a").to_pylist() == [text, "b"]


def test_an_encoding_that_python_does_not_read_is_refused_if_there_are_texts(tmp_path, monkeypatch):
    about = SimpleNamespace(
        number_rows=None,
        column_names=["a"],
        file_encoding="EUC-TW",
        readstat_variable_types={"a": "string"},
        original_variable_types={"a": "$"},
    )
    monkeypatch.setattr(pyreadstat, "read_sas7bdat", lambda *_, **__: ({"a": ["x"]}, about))
    (path := tmp_path / "p.sas7bdat").touch()
    with pytest.raises(SourceError, match="text encoding EUC-TW, which Python cannot read"):
        open_source(path, FileOptions(), ())
    assert open_source(path, FileOptions(encoding="cp1252"), ()).names == ("a",)
    about.readstat_variable_types["a"] = "double"  # the control
    assert open_source(path, FileOptions(), ()).names == ("a",)


@pytest.mark.parametrize("ending", ["dta", "sav"])
def test_a_byte_that_is_no_letter_spoils_its_own_cell_only(tmp_path, ending):
    frame = pd.DataFrame({"é": ["abcdefgh", "abcdefgé"]})
    path = statistics(tmp_path, ending, frame=frame)
    path.write_bytes(path.read_bytes().replace(b"abcdefgh", b"abcdefg\xff"))
    with pytest.raises(Exception, match=r".*"):  # the control
        getattr(pyreadstat, f"read_{ending}")(str(path))
    (batch, *_) = open_source(path, FileOptions(), ()).batches(["é"])
    assert batch.column("é").to_pylist() == [None, "abcdefgé"]


def test_what_a_file_declares_missing_is_missing(tmp_path):
    frame = pd.DataFrame({"weight": [70.0, 99.0, 950.0, 31.0]})
    ranges = {"weight": [99, {"lo": 900, "hi": 999}]}
    schema = Schema.parse({"version": 2, "columns": {"weight": COLUMNS["weight"]}})
    found = moment(statistics(tmp_path, "sav", frame=frame, missing_ranges=ranges), schema)
    expected = pa.table({"weight": pa.array([70.0, None, None, 31.0])})
    assert same(found, moment(expected, schema))
    assert not same(moment(statistics(tmp_path, "sav", frame=frame), schema), found)


# Workbooks


def test_a_blank_row_is_no_row_so_that_the_last_one_decides_about_itself_alone(tmp_path):
    blank = [[None] * 4] * 5
    alone, last = CELLS[:20], CELLS[20]
    with_blanks = moment(workbook(tmp_path, [*alone, *blank, last]), declared())
    without = moment(workbook(tmp_path, [*alone, *blank, [None] * 4]), declared())
    assert (with_blanks.unit_count, without.unit_count) == (21, 20)
    assert same(with_blanks, moment(workbook(tmp_path, [*alone, last]), declared()))
    stray = [[*row, None, None] for row in [*alone, last]] + [[None] * 5 + ["a note"]]
    assert same(moment(workbook(tmp_path, stray), declared()), with_blanks)
    with pytest.raises(SourceError, match="or in a workbook one record can change it"):
        open_rows(workbook(tmp_path), declared()).require_countable()


def test_a_workbook_says_that_formulas_are_not_protected(tmp_path):
    made = dpcov.release(workbook(tmp_path), schema=declared(), epsilon=1.0)
    assert "a formula combines rows of several persons" in made.provenance["not_protected"]
    assert made.provenance["door"] == "Excel"


def test_ids_of_persons_are_those_of_other_files(tmp_path):
    rows = [[70.0, ident] for ident in (1, 1.0, "1", 2, "x", None, 2.5)]
    document = {"version": 2, "columns": {"weight": COLUMNS["weight"]}}
    unit = {"column": "id", "type": "integer", "max_rows": 1}
    schema = Schema.parse(document | {"unit": unit})
    found = moment(workbook(tmp_path, rows, ("weight", "id")), schema)
    expected = pa.table({"weight": [70.0] * 7, "id": ["1", "1", "1", "2", "x", "", "2.5"]})
    assert same(found, moment(expected, schema))
    assert found.unit_count == 2


def test_numbers_of_which_a_sheet_holds_not_all_digits_are_nobody_s_ids(tmp_path):
    """In a column of numbers, they are ordinary numbers."""
    document = {"version": 2, "columns": {"weight": COLUMNS["weight"]}}
    unit = {"column": "id", "type": "integer", "max_rows": 1}
    schema = Schema.parse(document | {"unit": unit})
    idents = [2**53, 2**53 + 2, -(2**53), -(2**53) - 2, 2.0**60, "36028797018963970"]
    rows = [[2**60, ident] for ident in idents]
    found = moment(workbook(tmp_path, rows, ("weight", "id")), schema)
    texts = [str(2**53), "", str(-(2**53)), "", "", idents[-1]]
    assert same(found, moment(pa.table({"weight": [2.0**60] * 6, "id": texts}), schema))
    assert found.unit_count == 3


def test_a_formula_is_what_was_last_computed(tmp_path):
    path = workbook(tmp_path, [["=30+40", *CELLS[0][1:]], *CELLS[1:]])
    computed = rewritten(path, lambda _, part: re.sub(rb"(</f>)<v ?/>", rb"\1<v>70</v>", part))
    expected = moment(workbook(tmp_path, [[70.0, *CELLS[0][1:]], *CELLS[1:]]), declared())
    assert same(moment(computed, declared()), expected)


def test_what_a_sheet_says_of_its_size_cuts_nothing_off(tmp_path):
    whole = workbook(tmp_path)
    expected = moment(whole, declared())
    smaller = rewritten(whole, lambda _, part: part.replace(b'ref="A1:D301"', b'ref="A1:B9"'))
    with ZipFile(smaller) as parts:
        assert b"A1:B9" in parts.read("xl/worksheets/sheet1.xml")
    assert same(moment(smaller, declared()), expected)


@pytest.mark.parametrize("write", [workbook, lambda folder: statistics(folder, "dta")])
def test_a_file_is_read_alike_each_time_and_it_takes_its_time(tmp_path, write):
    source = open_source(write(tmp_path), FileOptions(), ())
    assert source.repeatable
    assert source.costly


def test_a_sheet_without_a_header_needs_declared_columns(tmp_path):
    with pytest.raises(SourceError, match="each column"):
        open_source(workbook(tmp_path), FileOptions(header=False), ())


def test_rows_above_a_header_are_skipped_and_a_sheet_may_have_none(tmp_path):
    expected = moment(workbook(tmp_path), declared())
    headed = workbook(tmp_path, [tuple(COLUMNS), *CELLS], ("A title", None))
    assert same(moment(headed, declared(skip_lines=1)), expected)
    bare = workbook(tmp_path, CELLS[1:], CELLS[0])
    assert same(moment(bare, declared(header=False)), expected)


@pytest.mark.parametrize(
    ("header", "more", "sheet", "words"),
    [
        (("a", "a"), (), None, "The first row of '.*' is not a header"),
        ((1, 2), (), None, "is not a header"),
        ((), (), None, "is not a header"),
        (("weight",), ("b",), None, "needs the name of one. Add table='NAME'"),
        (("weight",), (), "c", "has no sheet 'c'"),
    ],
)
def test_a_sheet_that_does_not_fit_is_refused(tmp_path, header, more, sheet, words):
    path = workbook(tmp_path, CELLS, header, more)
    with pytest.raises(SourceError, match=words):
        open_rows(path if sheet is None else DatabaseTable(path, sheet), declared())


def test_a_large_workbook_that_is_packed_as_tables_are_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(ooxml, "LARGE_PART_BYTES", 1)
    assert same(moment(workbook(tmp_path), declared()), moment(parquet(tmp_path), declared()))
    monkeypatch.setattr(ooxml, "MAX_COMPRESSION", 1)  # a control
    with pytest.raises(SourceError, match="too large or compressed"):
        open_rows(workbook(tmp_path), declared())


def test_a_workbook_that_would_fill_the_memory_is_refused(tmp_path):
    whole = workbook(tmp_path)
    expected = moment(whole, declared())

    def padded(size: int) -> Path:
        blanks = b" " * (size * 2**20)
        return rewritten(whole, lambda part, content: content + blanks * ("sheet1" in part))

    assert same(moment(padded(60), declared()), expected)  # the control: blanks are none of it
    with pytest.raises(SourceError, match="too large or compressed too much"):
        open_rows(padded(70), declared())


# What can't be read


@pytest.mark.parametrize("name", ["p.xlsx", "p.dta", "p.sav", "p.sas7bdat"])
def test_what_is_no_such_file_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"weight,visits\n1,2\n")
    with pytest.raises(SourceError, match=r"is not a complete .*Nothing was spent"):
        open_source(tmp_path / name, FileOptions(), ())


@pytest.mark.parametrize("options", [{}, {"row_compress": True}, {"compress": True}])
def test_a_file_of_spss_that_is_cut_off_is_refused_before_anything_is_spent(tmp_path, options):
    path = statistics(tmp_path, "sav", **options)
    whole = path.read_bytes()
    assert open_source(path, FileOptions(), ()).names == tuple(COLUMNS)  # the control
    for length in (len(whole) - 50, len(whole) * 2 // 3):
        path.write_bytes(whole[:length])
        with pytest.raises(SourceError, match=r"is not a complete SPSS file\. .*Nothing was spent"):
            open_source(path, FileOptions(), ())


@pytest.mark.parametrize(
    ("name", "package"),
    [("p.sav", "pyreadstat"), ("p.sas7bdat", "pyreadstat")],
)
def test_a_missing_reader_is_reported_with_its_command(tmp_path, monkeypatch, name, package):
    (tmp_path / name).touch()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SourceError, match="need their library: ") as refused:
        open_source(tmp_path / name, FileOptions(), ())
    (requirement,) = asked(str(refused.value))
    assert requirement.name == package
    assert requirement.specifier


def test_a_file_of_an_unknown_kind_says_what_to_do(tmp_path):
    (path := tmp_path / "p.foo").write_bytes(b"\xd0\xcf\x11\xe0" * 64)
    with pytest.raises(SourceError, match="or save the table as Parquet or CSV"):
        open_source(path, FileOptions(), ())


@pytest.mark.parametrize("ending", REMEDIES)
def test_a_file_of_another_kind_says_what_to_do(tmp_path, ending):
    (path := tmp_path / f"p{ending.upper()}").touch()
    with pytest.raises(SourceError, match=rf"cannot read files that end with \{ending}\. \w.+\.$"):
        open_source(path, FileOptions(), ())


class DataFrame:
    """A stand-in for a data frame of Dask, which is not among our dependencies."""

    iloc = columns = ()


DataFrame.__module__ = "dask.dataframe.dask_expr._collection"


def test_a_query_says_how_to_make_a_table_of_it(tmp_path):
    table = pa.table({"weight": [70.0]})
    schema = Schema.parse({"version": 2, "columns": {"weight": COLUMNS["weight"]}})
    lazy, dataset = pl.from_arrow(table).lazy(), pyarrow.dataset.dataset(parquet(tmp_path))
    for query, how in (
        (lazy, r"frame\.collect\(\)"),
        (dataset, r"dataset\.to_table\(\)"),
        (pyarrow.dataset.dataset(table), r"dataset\.scanner\(\)\.to_reader\(\)"),
        (DataFrame(), r"frame\.compute\(\)"),
    ):
        with pytest.raises(SourceError, match=f"is a query and not a table. Pass .*{how}"):
            open_rows(query, schema)
    assert same(moment(lazy.collect(), schema), moment(table, schema))
    whole = moment(parquet(tmp_path), declared())
    assert same(moment(dataset.to_table(), declared()), whole)
    assert same(moment(dataset.scanner().to_reader(), declared()), whole)


SEMICOLONS = "weight;visits;town;born\n70,5;1;Aix;1990-12-31\n"


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("weight;visits;town;born", r'With separator = ";" \(and for decimal commas decimal = ","'),
        ('"weight";"visits";"town";"born"', 'With separator = ";"'),  # as R's write.csv2
        ("weight\tvisits\ttown\tborn", r'With separator = "\\t" under \[file\], the first record'),
        ("weight|visits|town|born", r'With separator = "\|"'),
    ],
)
def test_a_file_with_another_separator_says_which_to_declare(tmp_path, header, advice):
    reported = set()
    for row in ("70,5;1;Aix;1990-12-31", "SECRET", ""):  # which the message doesn't depend on
        (tmp_path / "p.csv").write_text(f"{header}\n{row}\n")
        with pytest.raises(SourceError, match=advice) as refused:
            open_rows(tmp_path / "p.csv", declared())
        reported.add(str(refused.value))
    assert len(reported) == 1


@pytest.mark.parametrize("first", ["70;1;Aix;1990-12-31", "weight;visits;town", "x;y;z", "weight"])
def test_a_first_record_that_lacks_a_declared_name_is_not_quoted(tmp_path, first):
    (tmp_path / "p.csv").write_text(f"{first}\n70;1;Aix;1990-12-31\n")
    with pytest.raises(SourceError) as refused:
        open_rows(tmp_path / "p.csv", declared())
    assert "With separator" not in str(refused.value)
    assert "no columns 'weight'" in str(refused.value) or first == "weight"


def test_what_is_advised_is_what_reads_the_file(tmp_path):
    with pytest.raises(SourceError, match="no columns 'weight'"):
        open_rows(text_file(tmp_path, **EUROPEAN), declared())
    found = moment(text_file(tmp_path, **EUROPEAN), declared(**EUROPEAN))
    assert same(found, moment(parquet(tmp_path), declared()))


def test_a_draft_asks_for_the_separator_and_states_what_is_said(tmp_path, run):
    Path("p.csv").write_text(SEMICOLONS)
    refused = run("schema p.csv")
    assert (refused.code, refused.out) == (2, "")
    assert 'With --separator ";" (and for decimal commas --decimal ",")' in refused.err
    drafted = run("schema p.csv --separator ; --decimal ,")
    assert 'separator = ";"\ndecimal = ","\n' in drafted.out
    grouped = run("schema p.csv --separator ; --decimal , --thousands .")
    assert 'separator = ";"\ndecimal = ","\nthousands = "."\n' in grouped.out
    assert "[columns.born]" in drafted.out
    single = run("schema p.csv --separator ,")
    assert '[columns."weight;visits;town;born"]' in single.out


def test_a_header_in_another_encoding_says_which_excel_writes(tmp_path):
    (tmp_path / "p.csv").write_bytes("größe\n1\n".encode("cp1252"))
    with pytest.raises(SourceError, match=r'encoding under .*"cp1252"'):
        open_source(tmp_path / "p.csv", FileOptions(), ())


# What a file says of its values


LABELLED = pd.DataFrame(
    {
        "sex": np.array([1.0, 2.0, 1.0, 9.0]),
        "town": ["N", "S", "N", "?"],
        "pay": [10.0, 20.0, 998.0, 950.0],
        "patient_id": [1.0, 2.0, 3.0, 4.0],
    }
)
LABELS = {
    "sex": {1: "male", 2: "female\n[columns]", 9: "refused"},
    "town": {"N": "north", "S": "south"},
    "patient_id": {1: "Ada"},
}
CODES = {"sex": [9], "town": ["?"], "pay": [998, {"lo": 900, "hi": 990}]}


def labelled(folder: Path) -> Path:
    options = {"variable_value_labels": LABELS, "missing_ranges": CODES}
    return statistics(folder, "sav", frame=LABELLED, **options)


def test_labels_and_codes_are_proposed_in_a_draft_as_comments(tmp_path, run):
    drafted = run(f"schema {labelled(tmp_path)} --labels").out
    bare = run(f"schema {statistics(tmp_path, 'sav', frame=LABELLED)}").out
    reported = [line for line in drafted.splitlines() if line not in bare.splitlines()]
    assert all(line.startswith("#") for line in reported)
    text = "\n".join(reported)
    assert '# missing = ["", "NA", "9", "998", "?"]' in text
    assert (
        '# kind = "categorical"\n# levels = [\n#   1,  # male\n#   2,  # female?[columns]' in text
    )
    assert "refused" not in text  # a label of what is missing is no level
    assert '# levels = [\n#   "N",  # north\n#   "S",  # south\n# ]' in text
    assert "# The file declares as missing: 900 to 990, 998" in text
    assert "Ada" not in drafted  # of a column that is left out
    assert "Check each label against public" in text


def test_labels_are_left_out_of_a_draft_unless_they_are_asked_for(tmp_path, run):
    """Pandas labels the values that occur, a rare one too."""
    frame = pd.DataFrame({"town": pd.Categorical(["Aix", "Aix", "Rare"])})
    frame.to_stata(path := tmp_path / "p.dta", write_index=False)
    drafted = run(f"schema {path}").out
    assert "Rare" not in drafted
    assert "# dpcov drafted this schema from column names and types only." in drafted
    asked_for = run(f"schema {path} --labels").out
    assert "1,  # Rare" in asked_for  # the control
    assert "names and types only" not in asked_for
    assert "Value labels can disclose values of single rows" in asked_for
    of_spss = run(f"schema {labelled(tmp_path)}").out
    assert "male" not in of_spss
    assert "The file declares as missing" in of_spss
    text_file(tmp_path)
    refused = run(f"schema {tmp_path / 'p.csv'} --labels")
    assert refused.code == 2
    assert "--labels needs a Stata or SPSS file" in refused.err


def test_what_is_proposed_is_a_schema_once_it_is_confirmed(tmp_path, run):
    drafted = run(f"schema {labelled(tmp_path)} --labels").out
    sex = drafted.split("[columns.sex]")[1].split("[columns.town]")[0].splitlines()
    confirmed = [
        line.removeprefix("# ") for line in sex if re.match(r"# (kind|levels|  \d|])", line)
    ]
    (tmp_path / "s.toml").write_text(
        "\n".join(["version = 3", "[columns.sex]", "missing = 'zeros'", *confirmed])
    )
    schema = Schema.load(tmp_path / "s.toml")
    assert schema.columns["sex"].levels == (1, 2)
    found = moment(labelled(tmp_path), schema)
    assert same(found, moment(pa.table({"sex": ["1", "2", "1", ""]}), schema))


def test_stata_s_labels_are_proposed_without_those_of_missing_values(tmp_path, run):
    frame = pd.DataFrame({"sex": [1.0, 2.0, "a"]})
    path = statistics(
        tmp_path,
        "dta",
        frame=frame,
        variable_value_labels={"sex": {1: "male", "a": "refused"}},
        missing_user_values={"sex": ["a"]},
    )
    drafted = run(f"schema {path} --labels").out
    assert "# levels = [\n#   1,  # male\n# ]" in drafted
    assert "refused" not in drafted


def test_a_draft_of_a_file_without_labels_proposes_nothing(tmp_path, run):
    drafted = run(f"schema {statistics(tmp_path, 'dta')}").out
    assert "labels" not in drafted
    assert "declares" not in drafted
