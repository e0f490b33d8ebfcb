"""The demo: all steps on a simulated table of visits."""

from __future__ import annotations

import gzip
import re
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from statsmodels.datasets import randhie

import datasets
import simulated_visits
from dpcov.api.ledger import Ledger
from dpcov.cli.demo import run, true_correlations, write_table
from dpcov.errors import OutputError
from dpcov.releases import Release
from dpcov.rows.schema import Schema

FILES = {"visits.csv", "visits.toml", "visits.ledger", "visits.release.json"}
PACKED = files("dpcov.cli.demo") / "visits.csv.gz"
FEATURES = 12  # 9 columns of numbers, and 3 levels


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the table and its schema once."""
    folder = tmp_path_factory.mktemp("demo")
    write_table(folder)
    return folder


def test_the_table_is_the_one_that_the_program_simulates_and_it_is_small() -> None:
    packed = PACKED.read_bytes()
    assert len(packed) < 500_000
    assert gzip.decompress(packed).decode() == simulated_visits.table()


def test_the_table_follows_from_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_visits, "SEED", simulated_visits.SEED + 1)
    assert gzip.decompress(PACKED.read_bytes()).decode() != simulated_visits.table()


def test_the_table_fits_its_schema(folder: Path) -> None:
    table, schema = pd.read_csv(folder / "visits.csv"), Schema.load(folder / "visits.toml")
    assert list(table) == ["patient", *schema.columns]
    assert not table.isna().any().any()
    assert set(table["department"]) == set(simulated_visits.DEPARTMENTS)
    kinds = {column.kind for column in schema.columns.values()}
    assert {"flag", "count", "categorical", "number", "integer"} == kinds
    for name, column in schema.columns.items():
        if column.kind == "flag":
            assert set(table[name]) == {0, 1}
        elif column.kind != "categorical":
            outside = ~table[name].between(getattr(column, "lower", 0), column.upper)
            assert outside.mean() < 0.005, "bounds come from the meaning of the columns"


def test_few_patients_have_more_visits_than_the_release_uses(folder: Path) -> None:
    table, schema = pd.read_csv(folder / "visits.csv"), Schema.load(folder / "visits.toml")
    per_patient = table["patient"].value_counts()
    assert (schema.unit.column, schema.unit.type) == ("patient", "integer")
    assert np.mean(per_patient <= schema.unit.max_rows) > 0.94
    assert np.minimum(per_patient, schema.unit.max_rows).sum() > 0.97 * len(table)


def test_visits_of_one_patient_are_alike(folder: Path) -> None:
    table = pd.read_csv(folder / "visits.csv")
    pairs = table.groupby("patient").head(2)
    pairs = pairs[pairs["patient"].duplicated(keep=False)]
    first, second = pairs.iloc[::2].reset_index(), pairs.iloc[1::2].reset_index()
    for name in ("age", "systolic", "bmi", "hba1c", "creatinine", "medicines"):
        assert first[name].corr(second[name]) > 0.6
    assert np.all(second["age"] >= first["age"]), "visits are in time order"
    others = second["systolic"].shift(1)  # of the patient before
    assert abs(first["systolic"].corr(others)) < 0.1


def test_the_demo_compares_with_the_correlations_of_all_visits(folder: Path) -> None:
    table = pd.read_csv(folder / "visits.csv").drop(columns="patient")
    wanted = pd.get_dummies(table, prefix_sep="=", dtype=float).corr()
    found = true_correlations(folder / "visits.csv", list(wanted))
    assert len(wanted) == FEATURES
    assert np.allclose(found, wanted)


def test_the_demo_prints_what_a_reader_needs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for _ in range(2):  # a second time in the same folder
        made = run(folder)
        printed.append(capsys.readouterr().out)
        assert {path.name for path in folder.iterdir()} == FILES
        saved = Release.load(folder / "visits.release.json")
        assert np.array_equal(saved.published, made.published)
        assert Ledger.open(folder / "visits.ledger").account().left == {"epsilon": 2.0}
    assert printed[0] != printed[1], "fresh noise"
    table = pd.read_csv(folder / "visits.csv")
    for text in printed:
        size = f"{len(table):,} simulated visits of {table['patient'].nunique():,} patients"
        for part in (size, "Private correlations", "[0.025", "non-private", "difference"):
            assert part in text
        words = "Whether any one person (column 'patient', at most 4 rows each) is in the table"
        assert words in " ".join(text.split())
        assert "epsilon left: 2" in text
        nexts = [line.split()[:2] for line in text.splitlines()[-3:]]
        assert nexts == [["dpcov", "table1"], ["dpcov", "ols"], ["dpcov", "report"]]
        for name in FILES:
            assert str(folder / name) in text
        assert len(re.findall(r"^[\w=]+ - [\w=]+ +-?0", text, re.MULTILINE)) == 20
        assert "The other 43 pairs are weaker" in text


def test_the_error_is_about_what_is_expected_and_small(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = []
    for _ in range(5):
        run(folder)
        wanted = r"error of the 66 correlations: ([\d.]+); standard error: ([\d.]+)"
        found = re.search(wanted, capsys.readouterr().out)
        figures.append([float(figure) for figure in found.groups()])
    actual, expected = np.mean(figures, axis=0)
    assert 1 / 3 <= actual / expected <= 3
    assert actual <= 0.03


def test_the_demo_needs_no_package_that_is_optional(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for package in ("statsmodels", "pandas", "matplotlib"):
        monkeypatch.setitem(sys.modules, package, None)
    write_table(tmp_path)
    assert (tmp_path / "visits.csv").read_bytes() == (folder / "visits.csv").read_bytes()


@pytest.mark.parametrize("name", ["visits.ledger", "visits.csv"])
def test_files_of_the_user_are_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match="--folder"):
        run(tmp_path)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_the_table_that_benchmarks_call_demo_is_the_public_one_of_rand() -> None:
    published = randhie.load_pandas().data
    ours = pd.read_csv(datasets.found(datasets.RAND))
    assert np.array_equal(ours.to_numpy(float), published.to_numpy(float))
    columns = Schema.load(datasets.RAND_SCHEMA).encoded_columns
    assert list(ours) == list(columns)
    for values, column in zip(ours.to_numpy(float).T, columns.values(), strict=True):
        outside = np.mean((values < column.lower) | (values > column.upper))
        assert outside < 0.01, "bounds come from the meaning of the columns"
