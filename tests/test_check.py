"""dpcov check: the report for the holder of a table, in confidence and only on a terminal."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcov.cli.check import CONFIDENTIAL_MARK, _sentences
from dpcov.rows.schema import Schema
from dpcov.rows.sources.check import MAX_UNREADABLE_FRACTION, diagnose
from tables_for_tests import PLANTED, write_people
from terminals import DPCOV, terminal, without_escapes

COLUMNS = {
    "age": {"kind": "count", "upper": 120},
    "dose": {"kind": "number", "lower": 0, "upper": 10},
    "sex": {"kind": "categorical", "levels": ["m", "f", "x"]},
    "born": {"kind": "date", "lower": "1900-01-01", "upper": "2025-01-01"},
}
TOML = "\n".join(
    ["version = 3", "{}"]
    + ["[defaults.missing]", 'numbers = "midpoint"', 'categories = "zeros"']
    + [
        f"[columns.{name}]\n" + "\n".join(f"{key} = {value!r}" for key, value in column.items())
        for name, column in COLUMNS.items()
    ]
)
ROWS = 200


def reported(data, file=None, **columns) -> list[str]:
    """Return sentences about a table under the schema above; some columns can differ."""
    document = {"version": 2, "columns": COLUMNS | columns, "file": file or {}}
    schema = Schema.parse(document)
    return [*_sentences(diagnose(data, schema), schema)]


def frame() -> pd.DataFrame:
    """Return a table with 3 invalid ages, doses beyond bounds, and an undeclared level."""
    return pd.DataFrame(
        {
            "age": ["30"] * (ROWS - 3) + [PLANTED, "2.5", "x"],
            "dose": ["1.5"] * (ROWS - 4) + ["11", "-1", "-2", ""],
            "sex": ["m"] * (ROWS - 1) + ["z"],
            "born": ["1990-12-31"] * ROWS,
        }
    )


EXPECTED = [
    "age: 1.5% of the cells are not a whole number (more than 1%).",
    "dose: 0.5% of the cells are missing.",
    "dose: 1.0% of the cells are below the lower bound and count as the bound.",
    "dose: 0.5% of the cells are above the upper bound and count as the bound.",
    "sex: 0.5% of the cells are not a declared level.",
    "sex: no cell contains these declared levels: f, x.",
]
WRITTEN = {
    "csv": ({}, {}),
    "tsv": ({"separator": "\t"}, {}),
    "csv.gz": ({}, {}),
    "semicolons": ({"separator": ";", "decimal": ","}, {}),
    "cp1252": ({"encoding": "cp1252"}, {}),
    "utf-16": ({"encoding": "utf-16"}, {}),
    "no header": ({"header": False}, {"header": False}),
    "lines": ({"records": "lines"}, {}),
}


def write(folder: Path, name: str, table: pd.DataFrame | None = None) -> tuple[Path, Path]:
    """Write a table (by default the table above) in a text format, and its schema."""
    options, given = WRITTEN[name]
    table = frame() if table is None else table
    if options.get("decimal") == ",":
        table = table.replace({"1.5": "1,5", "2.5": "2,5"})
    text = table.to_csv(index=False, sep=options.get("separator", ","), **given)
    path = folder / ("p.csv.gz" if name == "csv.gz" else "p.csv")
    raw = text.encode(options.get("encoding", "utf-8"))
    path.write_bytes(gzip.compress(raw) if name == "csv.gz" else raw)
    lines = [f"{k} = {str(v).lower() if v is False else repr(v)}" for k, v in options.items()]
    (schema := folder / "p.toml").write_text(
        TOML.format("\n".join(["[file]", *lines]).replace("'\\t'", '"\\t"'))
    )
    return path, schema


@pytest.mark.parametrize("name", ["csv", "no header"])
def test_a_terminal_shows_what_cannot_be_read(tmp_path, name):
    table, schema = write(tmp_path, name)
    before = sorted(tmp_path.iterdir())
    command = [*DPCOV, "check", table.name, "--schema", schema.name]
    with terminal(command, tmp_path, {}, 200) as screen:
        assert screen.ended() == 0
    lines = without_escapes(screen.seen).splitlines()
    assert all(line.startswith(CONFIDENTIAL_MARK) for line in lines)
    text = " ".join(line.removeprefix(CONFIDENTIAL_MARK) for line in lines)
    assert all(sentence in text for sentence in EXPECTED), text
    assert "depends on the data and is not protected" in text
    assert "Do not derive bounds or levels from it" in text
    assert PLANTED not in text
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("odd", [0, ROWS // 100, ROWS // 100 + 1])
@pytest.mark.parametrize("name", WRITTEN)
def test_every_text_format_reports_each_column_when_more_than_a_hundredth_cannot_be_read(
    tmp_path, name, odd
):
    whole = pd.DataFrame(
        {
            "age": ["30"] * ROWS,
            "dose": ["1.5"] * ROWS,
            "sex": ["m", "f", "x", "m"] * (ROWS // 4),
            "born": ["1990-12-31"] * ROWS,
        }
    )
    whole.iloc[:odd] = PLANTED
    table, schema = write(tmp_path, name, whole)
    declared = Schema.load(schema)
    sentences = [*_sentences(diagnose(table, declared), declared)]
    if odd:
        more = [
            sentence
            for sentence in sentences
            if f"{odd / ROWS:.1%} of the cells are not" in sentence
        ]
        assert [sentence.partition(":")[0] for sentence in more] == list(COLUMNS)
        above = odd / ROWS > MAX_UNREADABLE_FRACTION
        assert all(("more than 1%" in sentence) == above for sentence in more), sentences
    else:
        assert sentences == ["dpcov can read every cell. No cell is missing or outside its bounds."]
    assert PLANTED not in "".join(sentences)


def test_every_line_is_marked_however_narrow_the_terminal(tmp_path):
    table, schema = write(tmp_path, "csv")
    former = schema.read_text().replace("version = 3\n", "version = 2\n")
    schema.write_text(re.sub(r"\[defaults.missing\]\n.*\n.*\n", "", former))  # gets a notice
    with terminal([*DPCOV, "check", str(table), "--schema", str(schema)], tmp_path, {}, 40) as one:
        assert one.ended() == 0
    lines = without_escapes(one.seen).splitlines()
    assert len(lines) > 20
    assert "no rule for missing cells" in " ".join(
        line.removeprefix(CONFIDENTIAL_MARK) for line in lines
    )
    assert all(line.startswith(CONFIDENTIAL_MARK) and len(line) <= 40 for line in lines)


@pytest.mark.parametrize("flag", [[], ["--json"], ["--out", "x"], ["--quiet"]])
def test_a_pipe_gets_nothing_and_no_option_makes_a_file(tmp_path, flag):
    table, schema = write(tmp_path, "csv")
    before = sorted(tmp_path.iterdir())
    command = [*DPCOV, "check", str(table), "--schema", str(schema), *flag]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert ("only to a terminal" if not flag else f"No such option: {flag[0]}") in done.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_a_release_on_a_terminal_offers_it_and_reports_nothing(tmp_path):
    write_people(tmp_path)
    line = "release people.csv --schema people.toml --epsilon 1 --mechanism gaussian --delta 1e-6"
    seen = {}
    for name in ("whole", "broken"):
        command = [*DPCOV, *line.split(), "--out", f"{name}.json"]
        with terminal(command, tmp_path, {}, 400) as screen:
            assert screen.ended() == 0
        seen[name] = without_escapes(screen.seen).replace(name, "NAME")
        text = (tmp_path / "people.csv").read_text()
        (tmp_path / "people.csv").write_text(text.replace(",m,", ",?,"))
    assert seen["whole"].count("dpcov check") == 1
    first, second = (
        [row for row in text.splitlines() if "reading" not in row] for text in seen.values()
    )
    assert first == second
    done = subprocess.run(
        [*DPCOV, *line.split(), "--out", "pipe.json"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "check" not in done.stdout + done.stderr


def test_a_whole_table_has_nothing_odd(tmp_path):
    (tmp_path / "p.csv").write_text(
        "age,dose,sex,born\n30,1,m,1990-12-31\n30,1,f,1990-12-31\n1,1,x,2000-01-01\n"
    )
    assert reported(tmp_path / "p.csv") == [
        "dpcov can read every cell. No cell is missing or outside its bounds."
    ]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("1,5", 'decimal = ","'),
        ("1.234,5", 'decimal = ",", thousands = "."'),
        ("1,234.5", 'decimal = ".", thousands = ","'),
        ("1 234,5", 'decimal = ",", thousands = " "'),
    ],
)
def test_numbers_of_another_country_are_reported_with_what_to_declare(tmp_path, cell, words):
    rows = f'30,"{cell}",m,1990-12-31\n' * 3
    (tmp_path / "p.csv").write_text(f"age,dose,sex,born\n{rows}")
    found = " ".join(reported(tmp_path / "p.csv"))
    assert "dose: 100.0% of the cells are not a number (more than 1%)." in found
    assert (
        f"dose: 100.0% of these unreadable cells would be numbers with {words} in this column."
        in found
    )


def test_records_of_another_length_and_the_plausible_separator(tmp_path):
    (tmp_path / "p.csv").write_text("30;1;m;1990-12-31\n" * 9 + "30,1,m,1990-12-31\n")
    found = reported(tmp_path / "p.csv", {"header": False})
    assert found[:2] == [
        "In 90.0% of the records, the number of cells or a quote is wrong.",
        'With separator = ";" under [file], 90.0% of the records would be valid.',
    ]
    few = reported(tmp_path / "p.csv", {"header": False, "separator": ";"})
    assert not any("With separator" in sentence for sentence in few)


@pytest.mark.parametrize(
    ("raw", "declared", "words"),
    [
        ("é".encode("cp1252"), "utf-8", 'Try encoding = "cp1252"'),
        ("é".encode(), "cp1252", 'Declare encoding = "utf-8"'),
        (b"\0", "utf-8", 'Try encoding = "utf-16"'),
        ("é".encode(), "utf-8", None),
        ("é".encode("cp1252"), "cp1252", None),
        (b"e", "cp1252", None),
    ],
)
def test_an_encoding_that_seems_wrong(tmp_path, raw, declared, words):
    text = b"age,dose,sex,born\n30,1,m,1990-12-31\n30,1," + raw + b",1990-12-31\n"
    (tmp_path / "p.csv").write_bytes(text)
    found = " ".join(reported(tmp_path / "p.csv", {"encoding": declared}))
    assert words in found if words else "encoding" not in found


def test_tables_with_types_weights_and_persons_are_seen_by_the_same_rules(tmp_path):
    table = pa.table(
        {
            "age": [30.0, 30.5, None, 40.0],
            "sex": pa.array(["m", "f", "?", None]).dictionary_encode(),
            "weight": [1.0, -1.0, 9.0, None],
            "person": ["1", "x", "2.0", ""],
        }
    )
    pq.write_table(table, tmp_path / "p.parquet")
    schema = Schema.parse(
        {
            "version": 2,
            "columns": {name: COLUMNS[name] for name in ("age", "sex")},
            "weight": {"column": "weight", "maximum": 5},
            "unit": {"column": "person", "type": "integer", "max_rows": 2},
        }
    )
    assert [*_sentences(diagnose(tmp_path / "p.parquet", schema), schema)] == [
        "age: 25.0% of the cells are not a whole number (more than 1%).",
        "age: 25.0% of the cells are missing.",
        "sex: 25.0% of the cells are not a declared level (more than 1%).",
        "sex: 25.0% of the cells are missing.",
        "sex: no cell contains these declared levels: x.",
        "person: 25.0% of the cells are not an id of the declared type (more than 1%).",
        "person: 25.0% of the cells are missing.",
        "weight: 25.0% of the cells are missing.",
        "weight: 25.0% of the cells are below the lower bound and count as the bound.",
        "weight: 25.0% of the cells are above the upper bound and count as the bound.",
    ]


def test_what_is_declared_missing_is_no_cell_that_cannot_be_read(tmp_path):
    (tmp_path / "p.csv").write_text("age;dose\n-9;NA\n30;-9,0\n")
    schema = Schema.parse(
        {
            "version": 2,
            "missing": ["NA", "-9"],
            "columns": {name: COLUMNS[name] for name in ("age", "dose")},
            "file": {"separator": ";", "decimal": ","},
        }
    )
    assert [*_sentences(diagnose(tmp_path / "p.csv", schema), schema)] == [
        "age: 50.0% of the cells are missing.",
        "dose: 100.0% of the cells are missing.",
    ]
