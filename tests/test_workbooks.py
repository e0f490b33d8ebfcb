"""Sheets of workbooks: rows and cells are read one by one, and broken XML is refused first."""

from __future__ import annotations

from datetime import date, datetime
from pathlib import Path
from zipfile import ZipFile

import pytest

import dpcov
import workbooks as attacks
from dpcov.errors import SourceError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import ooxml, open_rows, open_source
from dpcov.rows.sources import workbook as module
from dpcov.rows.sources.ooxml import NOT_XML_MESSAGE, TOO_LARGE_MESSAGE
from dpcov.rows.sources.sheet_cells import shown_by_code
from dpcov.rows.sources.sql import DatabaseTable
from excel_edits import EDITS
from excel_files import CLOCK, DATE, DURATION, MAIN, Raw, Workbook, serial
from strategies import moment, same

SHARED = "xl/sharedStrings.xml"
FEW = [
    edit
    for edit in EDITS
    if edit.name in ("number 0,5", "number NaN", "b yes", "s 99999", "d 2020-13-45", 'row r="0"')
    or edit.name.startswith(("reference '??'", "style 777", "a column twice", "no row: nothing"))
]


def read(path: Path, names=None, **options) -> dict:
    source = open_source(path, FileOptions.checked(**options), tuple(names or ()))
    found: dict = {name: [] for name in source.names}
    for batch in source.batches(list(source.names)):
        for name, cells in batch.to_pydict().items():
            found[name] += cells
    return found


def number(stated: object, style: object = 0, kind: str = "n") -> Raw:
    return Raw("", f'<c r="{{r}}" s="{style}" t="{kind}"><v>{stated}</v></c>')


def column(tmp_path: Path, *cells: object, **how) -> list:
    rows = [("a", "b"), *((cell, at) for at, cell in enumerate(cells))]
    return read(Workbook(**how).write(tmp_path / "t.xlsx", rows))["a"]


# No cell and no row changes an outcome, or how another row is read


@pytest.mark.slow
def test_no_edit_changes_an_outcome_or_another_row():
    found = attacks.tried(EDITS, forms=["inline texts"], places=(6,))
    assert len(found.edits) >= 60
    assert [*found.outcomes, *found.others, *found.meanings] == []


@pytest.mark.parametrize("form", [form for form in attacks.FORMS if form != "inline texts"])
def test_the_same_holds_in_other_forms_of_workbooks(form):
    found = attacks.tried(FEW, forms=[form], places=(1,))
    assert len(found.edits) == len(FEW) >= 10
    assert [*found.outcomes, *found.others, *found.meanings] == []


def test_controls_openpyxl_and_a_reader_that_minds_the_numbers_of_rows_are_caught():
    assert len(attacks.tried(FEW, attacks.old_reader, ["inline texts"], (6,)).caught) >= 4
    rows = [edit for edit in EDITS if edit.name in ('row r="1048576"', 'row r="2"')]
    assert len(attacks.tried(rows, attacks.by_numbers, ["inline texts"], (6,)).caught) == 2


def test_broken_xml_is_refused_before_anything_is_spent():
    assert [*attacks.not_refused()] == []


@pytest.mark.parametrize("part", [SHARED, "xl/styles.xml", "xl/workbook.xml", "_rels/.rels"])
@pytest.mark.parametrize("start", ["<x", "<!DOCTYPE x><x/>", "<x>&a;</x>"])
def test_every_part_that_is_read_is_checked(tmp_path, part, start):
    path = Workbook(parts={part: start}).write(tmp_path / "t.xlsx", [("a",), (1,)])
    with pytest.raises(SourceError, match="not well formed"):
        open_source(path, FileOptions(), ())


def test_a_release_says_that_broken_xml_is_refused(tmp_path):
    path = Workbook().write(tmp_path / "t.xlsx", [("a",), (1,)])
    schema = Schema.parse({"version": 2, "columns": {"a": {"kind": "count", "upper": 9}}})
    reported = dpcov.release(path, schema=schema, epsilon=1.0).not_protected()
    assert "refuses a workbook with malformed XML before it spends budget" in reported
    assert NOT_XML_MESSAGE.count(". ") == 2


# What cells say


def test_dates_are_recognised_by_their_formats_and_days_begin_in_1900_or_1904(tmp_path):
    days = [date(1900, 1, 1), date(1900, 2, 28), date(1900, 3, 1), date(2024, 3, 8)]
    for how in ({}, {"strict": True}):
        assert column(tmp_path, *days, **how) == [f"{day} 00:00:00" for day in days]
    later = [date(1904, 1, 1), date(1904, 1, 2), datetime(2024, 3, 8, 6, 30)]
    said = column(tmp_path, *later, from_1904=True)
    assert said == ["1904-01-01 00:00:00", "1904-01-02 00:00:00", "2024-03-08 06:30:00"]
    assert column(tmp_path, number(serial(later[2]), DATE)) == ["2024-03-08 06:30:00"]
    assert column(tmp_path, number(serial(later[2]), DATE), from_1904=True) != said[2:]


def test_times_of_day_and_durations_are_days(tmp_path):
    cells = [number(0.25, CLOCK), number(30.25, CLOCK), number(30.25, DURATION), number(1.5)]
    assert column(tmp_path, *cells) == ["0.25", "30.25", "30.25", "1.5"]
    stated = [number(text, DURATION, "d") for text in ("06:00:00", "1899-12-31T06:00:00")]
    stated += [number(text, DURATION, "d") for text in ("1900-01-01T12:00:00", "PT36H")]
    assert column(tmp_path, *stated, strict=True) == ["0.25", "0.25", "1.5", "1.5"]
    assert column(tmp_path, number("1904-01-02T12:00:00", CLOCK, "d"), from_1904=True) == ["1.5"]


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        *((code, "number") for code in (
            "", "General", "0.00", "@", "[Red]0", '0.0" days"', "0.0E+00", r"0\d", "_d0", "*d0",
            "[$kr-41D]0", "#,##0 [Magenta]", '0 "h:mm"', "[>=100]0;0",
        )),
        *((code, "date") for code in (
            "yyyy", "dd.mm.yyyy;@", "mmm", "[$-409]d-mmm", "D/M/YY", "h:mm d", "[Red]m",
            "[<1]h:mm;yyyy-mm-dd", 'yyyy"T"hh:mm',
        )),
        *((code, "time") for code in (
            "h:mm", "[h]:mm", "[hh]:mm:ss", "[mm]:ss", "[s]", "[m]", "mm:ss.0", "H:MM",
            "[$-F400]h:mm:ss AM/PM", '[h]"d"',
        )),
    ],
)  # fmt: skip
def test_what_a_number_format_shows(code, shown):
    assert shown_by_code(code) == shown


@pytest.mark.parametrize(
    ("ident", "said"),
    [(0, "45292"), (9, "45292"), (14, "2024"), (22, "2024"), (20, "45292"), (46, "45292"),
     (30, "2024"), (57, "2024"), (164, "45292"), ("x", "45292"), (15, "45292")],
)  # fmt: skip
def test_formats_without_a_code_are_those_of_excel_and_a_code_comes_first(tmp_path, ident, said):
    styles = (
        f'<styleSheet xmlns="{MAIN}"><numFmts><numFmt numFmtId="15" formatCode="0.0"/></numFmts>'
        f'<cellXfs><xf numFmtId="{ident}"/></cellXfs></styleSheet>'
    )
    (cell,) = column(tmp_path, number(45292), parts={"xl/styles.xml": styles})
    assert cell.startswith(said)


def test_a_workbook_without_styles_has_numbers_and_one_without_shared_texts_has_none(tmp_path):
    empty = {"xl/_rels/workbook.xml.rels": None}
    path = Workbook().write(tmp_path / "t.xlsx", [("a", "b"), (1.5, number(0, 0, "s"))])
    with ZipFile(path) as archive:
        text = archive.read(next(iter(empty))).decode()
    only = text[: text.index('<Relationship Id="styles"')] + "</Relationships>"
    path = Workbook(parts={next(iter(empty)): only}).write(
        path, [("a", "b"), (1.5, number(0, 0, "s"))]
    )
    assert read(path) == {"a": ["1.5"], "b": [None]}


def test_texts_are_the_same_wherever_they_are_and_escaped_characters_are_themselves(tmp_path):
    texts = ["x", " y ", "a\nb", "\x00\x1f", "_x0041_", "_x005F_", "\U0001f600", "&<>", "é"]
    for how in ({}, {"shared": True}, {"strict": True, "shared": True}, {"prefix": "x"}):
        assert column(tmp_path, *texts, **how) == texts


def test_shared_texts_are_their_runs_without_how_they_sound(tmp_path):
    items = [
        "<si><r><t>a</t></r><r><rPr><b/></rPr><t>b</t></r></si><si/><si><t>c</t>",
        '<rPh sb="0" eb="1"><t>z</t></rPh><phoneticPr fontId="1"/></si><si><t>_x0041_</t></si>',
    ]
    parts = {SHARED: f'<sst xmlns="{MAIN}" count="9">{"".join(items)}</sst>'}
    cells = [number(at, 0, "s") for at in range(5)]
    assert column(tmp_path, *cells, parts=parts) == ["ab", "", "c", "A", None]


# What is a row, and which is the header


def test_a_header_cell_without_a_name_is_left_out_as_are_cells_below_it(tmp_path):
    rows = [(None, "a", " ", "", "b"), (0, 1, 9, 9, 3), (1, 2, 9, 9, 4)]
    path = Workbook().write(tmp_path / "t.xlsx", rows)
    assert read(path) == {"a": ["1", "2"], "b": ["3", "4"]}


def test_rows_that_are_skipped_go_by_their_numbers_and_others_by_their_order(tmp_path):
    def write(*rows: str) -> Path:
        return Workbook().write(tmp_path / "t.xlsx", rows)

    def row(attributes: str, cell: object) -> str:
        return f'<row {attributes}><c t="str"><v>{cell}</v></c></row>'

    titles = row('r="1"', "A title")
    table = [row('r="3"', "a"), row('r="4"', 1), row('r="x"', 2), row('r="2"', 3), row('r="9"', 4)]
    assert read(write(titles, *table), skip_lines=2) == {"a": ["1", "2", "3", "4"]}
    bare = {"header": False, "skip_lines": 2}
    assert read(write(titles, *table[1:]), ["a"], **bare) == {"a": ["1", "4"]}
    unnumbered = [row("", cell) for cell in ("A title", "more", "a", 1, 2)]
    assert read(write(*unnumbered), skip_lines=2) == {"a": ["1", "2"]}
    assert read(write(*unnumbered), ["a"], **bare) == {"a": ["a", "1", "2"]}


def test_a_sheet_of_several_is_chosen_by_its_name(tmp_path):
    path = Workbook(sheets=("one", "ö & <two>")).write(tmp_path / "t.xlsm", [("a",), (1,)])
    schema = Schema.parse({"version": 2, "columns": {"a": {"kind": "count", "upper": 9}}})
    assert moment(DatabaseTable(path, "ö & <two>"), schema).unit_count == 1
    with pytest.raises(SourceError, match="needs the name of one"):
        open_rows(path, schema)
    with pytest.raises(SourceError, match="has no sheet 'x'"):
        open_rows(DatabaseTable(path, "x"), schema)


@pytest.mark.parametrize("ending", [".xls", ".xlsb", ".ods"])
def test_workbooks_of_other_kinds_are_refused_with_what_to_do(tmp_path, ending):
    path = Workbook().write(tmp_path / f"t{ending}", [("a",), (1,)])
    with pytest.raises(SourceError, match=r"Save the sheet as \.xlsx"):
        open_source(path, FileOptions(), ())


def test_names_of_parts_go_without_case_and_from_the_root_or_the_folder(tmp_path):
    path = Workbook(shared=True).write(tmp_path / "t.xlsx", [("a",), ("x",)])
    other = tmp_path / "other.xlsx"
    with ZipFile(path) as old, ZipFile(other, "w") as new:
        for name in old.namelist():
            new.writestr(name.upper() if "sheet" in name else name, old.read(name))
    assert read(other) == {"a": ["x"]}


# Memory


def test_a_large_part_is_refused_by_its_size(tmp_path, monkeypatch):
    path = Workbook(shared=True).write(tmp_path / "t.xlsx", [("a",), ("x" * 500,)])
    assert read(path) == {"a": ["x" * 500]}
    monkeypatch.setattr(ooxml, "MAX_HELD_BYTES", 400)
    with pytest.raises(SourceError) as refused:
        open_source(path, FileOptions(), ())
    assert str(refused.value) == TOO_LARGE_MESSAGE


def test_too_many_styles_are_refused(tmp_path):
    styles = f'<styleSheet xmlns="{MAIN}"><cellXfs>{"<xf/>" * (2**18 + 1)}</cellXfs></styleSheet>'
    path = Workbook(parts={"xl/styles.xml": styles}).write(tmp_path / "t.xlsx", [("a",), (1,)])
    with pytest.raises(SourceError) as refused:
        open_source(path, FileOptions(), ())
    assert str(refused.value) == TOO_LARGE_MESSAGE


def test_batches_are_small_where_texts_are_long(tmp_path, monkeypatch):
    rows = [("a",), *(("x" * 100,) for _ in range(50))]
    source = open_source(Workbook(shared=True).write(tmp_path / "t.xlsx", rows), FileOptions(), ())
    assert [batch.num_rows for batch in source.batches(["a"])] == [50]
    monkeypatch.setattr(module, "MAX_BATCH_CHARACTERS", 200)
    monkeypatch.setattr(ooxml, "PARSED_BYTES", 256)
    sizes = [batch.num_rows for batch in source.batches(["a"])]
    assert sum(sizes) == 50
    assert max(sizes) < 20


@pytest.mark.parametrize("size", [1, 7, 2**10])
def test_where_chunks_end_changes_nothing(tmp_path, monkeypatch, size):
    schema = attacks.ROLES[1].schema(attacks.PLACE)
    path = Workbook(shared=True).write(tmp_path / "t.xlsx", [attacks.NAMES, *attacks.CLEAN])
    expected = moment(path, schema)
    monkeypatch.setattr(ooxml, "PARSED_BYTES", size)
    assert same(moment(path, schema), expected)


# The same values under Strict OOXML, in durations, and in a sheet with row names


@pytest.mark.parametrize("strict", [False, True])
def test_a_strict_workbook_is_the_transitional_one(tmp_path, strict):
    error, computed = number("#N/A", 0, "e"), Raw("", '<c r="{r}"><f>1/0</f><v/></c>')
    rows = [(1, "x"), ("2", "y "), (error, error), (True,), (computed, "x"), (None, None),
            ("  3 ", "z"), ("1,5", "x"), ("1e3", "x"), (date(2024, 1, 1), "x")]  # fmt: skip
    path = Workbook(strict=strict).write(tmp_path / "t.xlsx", [("a", "c"), *rows])
    assert read(path) == {
        "a": ["1", "2", None, "True", None, "  3 ", "1,5", "1e3", "2024-01-01 00:00:00"],
        "c": ["x", "y ", None, None, "x", "z", "x", "x", "x"],
    }


def test_hours_in_a_format_of_hours_are_released(tmp_path):
    rows = [("b", "c"), (number(0.25, CLOCK), number(1.5, DURATION))]
    rows += [(number(0.75, CLOCK), number(30.25, DURATION))]
    columns = {name: {"kind": "number", "lower": -100, "upper": 100} for name in "bc"}
    schema = Schema.parse({"version": 2, "columns": columns})
    plain = [[0.25, 1.5], [0.75, 30.25]]
    assert same(moment(Workbook().write(tmp_path / "t.xlsx", rows), schema), moment(plain, schema))
