"""What is written from a release says what it guarantees; names in it act nowhere."""

from __future__ import annotations

import csv
import dataclasses
import importlib
import inspect
import io
import json
import pkgutil
import re
import unicodedata
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from dpcov import cli
from dpcov.analysis.correlation import correlations
from dpcov.api import release
from dpcov.cli import metadata
from dpcov.core.printable import FORMULA_STARTS, harmless
from dpcov.core.show.frames import matrix_table
from dpcov.errors import OutputError, ReleaseError, SchemaError
from dpcov.releases import SEEDED, VOID, Release, VoidReleaseWarning
from dpcov.report import exports
from dpcov.report.exports import csv_text, sidecar_of, write_table
from dpcov.rows.moment import Lattice, SecondMoment
from dpcov.rows.schema import Schema
from examples_of_commands import ANALYSES
from tables_for_tests import write_smokers

OUTPUTS = [f"{name} r.json {example}".strip() for name, example in ANALYSES.items()]
PRINTED = [f"{line} --csv" for line in OUTPUTS]


@pytest.fixture
def run(run, tmp_path: Path):
    """Run the command line in a folder with a private release r.json and a seeded one s.json."""
    table, schema = write_smokers(tmp_path)
    asked = {"schema": schema, "epsilon": 20.0, "mechanism": "matrix-laplace"}
    release(table, **asked).save("r.json")
    release(table, **asked, seed=1).save("s.json")
    return run


@pytest.mark.parametrize("line", OUTPUTS)
def test_parquet_files_state_guarantee_mechanism_version_and_stamp(run, line: str) -> None:
    for source, status in (("r.json", "private"), ("s.json", "reproducible: NOT PRIVATE")):
        assert run(f"{line.replace('r.json', source)} --out t.parquet --force").code == 0
        found = {k.decode(): v.decode() for k, v in pq.read_schema("t.parquet").metadata.items()}
        made = Release.load(source)
        assert found["dpcov.status"] == status
        assert found["dpcov.guarantee"] == made.guarantee_in_words()
        facts = json.loads(found["dpcov.release"])
        assert facts["budget"] == {"epsilon": 20.0}
        assert facts["mechanism"] == "matrix-laplace"
        assert facts["made_by"]["version"] == made.provenance["version"]


@pytest.mark.parametrize("line", OUTPUTS)
def test_csv_files_have_metadata_beside_them_and_seeded_ones_a_stamp_inside(run, line) -> None:
    for source, seeded in (("r.json", False), ("s.json", True)):
        assert run(f"{line.replace('r.json', source)} --out t.csv --force").code == 0
        text, made = Path("t.csv").read_text(), Release.load(source)
        assert text.startswith(f"# {SEEDED}\n") == seeded == ("NOT PRIVATE" in text)
        beside = json.loads(Path("t.csv-metadata.json").read_text())
        assert beside["url"] == "t.csv"
        assert made.guarantee_in_words() in beside["dc:description"]
        assert ("NOT PRIVATE" in beside["dc:description"]) == seeded
        facts = beside["notes"][0]["dpcov"]
        assert (facts["mechanism"], facts["made_by"]) == ("matrix-laplace", dict(made.provenance))
        rows = [row for row in csv.reader(io.StringIO(text)) if not row[0].startswith("#")]
        assert [column["titles"] for column in beside["tableSchema"]["columns"]] == rows[0]


@pytest.mark.parametrize("line", PRINTED)
def test_csv_that_is_printed_is_stamped_as_in_a_file(run, line: str) -> None:
    assert "NOT PRIVATE" not in run(line).out
    assert run(line.replace("r.json", "s.json")).out.startswith(f"# {SEEDED}\n")


def test_control_a_table_alone_says_nothing(run) -> None:
    seeded = Release.load("s.json")
    pq.write_table(matrix_table(seeded.columns, seeded.correlation()), "t.parquet")
    assert pq.read_schema("t.parquet").metadata is None


def test_the_metadata_are_read_by_dpcov_too(run) -> None:
    run("sample r.json -n 5 --out t.csv")
    stated = metadata.read(Path("t.csv-metadata.json"), "t.csv", ["age", "sex", "income"])
    assert {name: found["kind"] for name, found in stated.columns.items()} == {
        "age": "number", "sex": "categorical", "income": "number",
    }  # fmt: skip


def test_synthetic_rows_and_frames_keep_the_guarantee_in_other_hands(run) -> None:
    rows = dpcov.sample(Release.load("s.json"), 3)
    pq.write_table(rows, "t.parquet")
    assert b"NOT PRIVATE" in pq.read_schema("t.parquet").metadata[b"dpcov.status"]


def test_a_csv_file_and_its_metadata_are_written_both_or_not_at_all(run) -> None:
    Path("t.csv-metadata.json").write_text("another's")
    done = run("correlation r.json --out t.csv")
    assert (done.code, "t.csv-metadata.json' already exists" in done.err) == (2, True)
    assert not Path("t.csv").exists()
    assert Path("t.csv-metadata.json").read_text() == "another's"
    assert run("correlation r.json --out t.csv --force").code == 0
    made, inputs = Release.load("r.json"), [sidecar_of(Path("t.csv"))]
    table = made.to_frame(library="pyarrow")
    with pytest.raises(OutputError, match="is an input"):
        write_table(made, table, Path("t.csv"), force=True, inputs=inputs)


# Cells that act.


def release_of(
    *names: str, levels: tuple[str, ...] = (), categories: tuple[str, ...] = ("c",)
) -> Release:
    columns: dict[str, Any] = {n: {"kind": "numeric", "lower": -1, "upper": 1} for n in names}
    draws = np.random.default_rng(0)
    table: dict[str, Any] = {name: draws.uniform(-1, 1, 2000) for name in names}
    for name in categories if levels else ():
        columns[name] = {"kind": "categorical", "levels": levels}
        table[name] = draws.choice(levels, 2000)
    schema = Schema.parse({"columns": columns})
    return release(pa.table(table), schema=schema, epsilon=50.0, mechanism="matrix-laplace")


def test_cells_that_a_spreadsheet_would_compute_are_made_harmless(tmp_path: Path) -> None:
    names = ("=1+1", "+x", "-x", "@x", "plain", "a=b", "'x")
    made = release_of(*names, levels=("=cmd()", "ok"))
    table = dpcov.sample(made, 20, seed=1)
    head, *rows = csv.reader(io.StringIO(csv_text(made, table)))
    assert head == ["'=1+1", "'+x", "'-x", "'@x", "plain", "a=b", "'x", "c"]
    assert {row[-1] for row in rows} <= {"'=cmd()", "ok"}
    assert any(row[0].startswith("-") for row in rows)  # numbers stay numbers
    write_table(made, table, tmp_path / "t.csv")
    assert pyarrow.csv.read_csv(tmp_path / "t.csv")["'=1+1"].type == pa.float64()


# Commands whose rows begin with words of dpcov and not with a name.
FIXED_ROWS = {"cronbach-alpha", "mediation", "multiple-correlation"}


def test_printed_tables_are_harmless_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = release_of("=1+1", "+y", "z", levels=("b", "@=1+1"), categories=("c", "smoker"))
    made.save(tmp_path / "r.json")
    names = {"age": "+y", "income": "=1+1", "sex=f": "c=b", "sex": "c"}
    for command, example in ANALYSES.items():
        rest = re.sub("|".join(names), lambda name: names[name[0]], example).split()
        with pytest.raises(SystemExit) as ended:
            cli.main([command, str(tmp_path / "r.json"), *rest, "--csv"])
        assert ended.value.code == 0
        cells = [cell for row in csv.reader(io.StringIO(capsys.readouterr().out)) for cell in row]
        acting = [cell for cell in cells if cell[:1] in tuple(FORMULA_STARTS)]
        assert all(float(cell) <= 0 for cell in acting)
        quoted = [cell for cell in cells if cell.startswith(("'=1+1", "'+y", "'@=1+1"))]
        assert bool(quoted) == (command not in FIXED_ROWS), command


def test_pages_state_the_number_of_pairs_that_their_list_omits() -> None:
    found = correlations(release_of(*(f"x{at}" for at in range(40))))
    omitted = "760 pairs more."  # the list contains 20 of 780 pairs
    assert omitted in found.summary()
    assert omitted in found.latex()
    assert omitted in found._repr_html_()


@given(st.text())
def test_a_harmless_cell_is_the_text_or_an_apostrophe_and_the_text(text: str) -> None:
    assert harmless(text) in (text, f"'{text}")
    assert not harmless(text).startswith(tuple(FORMULA_STARTS))


UNSEEN = ["a\x1b[2J", "a\x00", "a\tb", "a\nb", "\N{RIGHT-TO-LEFT OVERRIDE}a", "a\N{SOFT HYPHEN}",
          "\N{ZERO WIDTH SPACE}", "a\N{LINE SEPARATOR}", "\ufeffa", "a\x85"]  # fmt: skip


@pytest.mark.parametrize("name", UNSEEN, ids=ascii)
def test_names_and_levels_that_nobody_sees_are_refused(name: str, tmp_path: Path) -> None:
    numeric = {"kind": "numeric", "lower": 0, "upper": 1}
    for document in (
        {"columns": {name: numeric}},
        {"columns": {"a": numeric, name: {"kind": "ignored"}}},
        {"columns": {"a": {"kind": "categorical", "levels": [f"x{name}x", "y"]}}},
        {"columns": {"a": numeric}, "weight": {"column": name, "maximum": 1}},
        {"columns": {"a": numeric}, "unit": {"column": name, "max_rows": 1}},
    ):
        with pytest.raises(SchemaError, match="control or formatting character") as refused:
            Schema.parse(document)
        assert str(refused.value).isprintable()
    made = json.loads(release_of("a", "b").to_text().replace('"a"', '"QQ"'))
    (tmp_path / "r.json").write_text(json.dumps(made).replace("QQ", json.dumps(name)[1:-1]))
    with pytest.raises(ReleaseError, match="control or formatting character") as refused:
        Release.load(tmp_path / "r.json")
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ["Größe (cm)", "体重", "العمر", "= 1", "emoji 🙂", "a b"])
def test_names_of_any_script_are_welcome(name: str) -> None:
    assert not {unicodedata.category(character) for character in name} & {"Cc", "Cf"}
    assert release_of(name, "b").columns[0] == name


# Releases of earlier versions.


@pytest.fixture
def old(run) -> str:
    """Return a file as version 0.1.0 wrote it."""
    document = json.loads(Path("r.json").read_text())
    document["provenance"] = {"library": "dpcov 0.1.0", "date": "2025-01-01"}
    Path("old.json").write_text(json.dumps(document))
    return "old.json"


def test_a_release_states_its_version_and_data_source(run) -> None:
    made = Release.load("r.json")
    assert made.provenance["version"] == version("dpcov") >= "0.2"
    assert "door" in made.provenance
    assert not made.may_be_void
    assert VOID not in run("show r.json").out + run("show r.json").err


def test_what_an_earlier_version_made_is_said_to_be_void(run, old: str) -> None:
    shown = " ".join(run(f"show {old}").out.split())
    assert VOID in shown
    assert json.loads(run(f"show {old} --json").out)["warning"] == VOID
    assert VOID in run(f"correlation {old}").err
    assert run(f"report {old} --out page.html").code == 0
    assert VOID in Path("page.html").read_text()
    with pytest.warns(VoidReleaseWarning, match="void unless"):
        loaded = dpcov.load(old)
    assert VOID in loaded._repr_html_()
    assert VOID in repr(loaded)
    assert "warning" in exports.carried_by_all([loaded])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpcov.load("r.json")


# Short forms.


def test_the_short_form_of_a_release_is_short_whatever_it_holds() -> None:
    small, wide = release_of("a", "b"), release_of(*(f"c{j}" for j in range(60)))
    for made in (small, wide):
        assert len(repr(made).splitlines()) <= 20
        assert len(repr(made)) < 1000
        assert made.guarantee_in_words() in repr(made)
    assert "and 55 more" in repr(wide)


def test_the_short_form_of_what_holds_data_prints_none() -> None:
    lattice = Lattice(1, 1.0)
    # Fewer digits could come from an object's address.
    assert "987654321987" not in repr(SecondMoment(np.array([[987654321987]], object), lattice, 1))
    found = []
    for module in pkgutil.walk_packages(dpcov.__path__, "dpcov."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            words = inspect.getdoc(kind) or ""
            if dataclasses.is_dataclass(kind) and "The content is private" in words:
                found.append(kind)
    assert len(set(found)) >= 5
    assert not [kind for kind in found if kind.__dataclass_params__.repr]
