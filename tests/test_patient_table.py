"""A patient table of four programs, from the file to Table 1, a regression and a report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyreadstat
import pytest
from typer.testing import CliRunner

from dpcov import cli
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

ROWS = 2000
MAX_COMMANDS = 8
ANSWERS = [
    "id 1 integer",
    "age missing=none",
    "date 2015-01-01 2025-12-31 missing=none",
    "flag true=yes false=no missing=none",
    "flag true=yes false=no missing=none",
    "number 0 50 decimal=, missing=none",
    "number 30 200 missing=pairwise missing_codes=-9",
    "categorical A1, A2, B1, B2, C, ICU missing=none",
    "ignored",
    "yes",
]
COMMANDS = [
    "schema {data} --interactive --out patients.toml",
    "ledger create patients.ledger --epsilon 3",
    "release {data} --schema patients.toml --epsilon 3 --ledger patients.ledger --out p.json",
    "table1 p.json --by smoker",
    "ols p.json --target weight --features age,smoker,crp --json",
    "report p.json --target weight --out p.html",
]


def patients() -> pd.DataFrame:
    """Return 2,000 patients: a date, flags in words, a German column, and missing weights."""
    draws = np.random.default_rng(7)
    age = draws.uniform(18, 95, ROWS).round()
    smoker, diabetic = draws.random((2, ROWS)) < [[0.3], [0.15]]
    weight = (60 + 0.25 * age + 8 * smoker + draws.normal(0, 10, ROWS)).round(1)
    weight[draws.random(ROWS) < 0.1] = np.nan
    weight[draws.random(ROWS) < 0.05] = -9
    days = pd.to_timedelta(draws.integers(0, 3000, ROWS), "D")
    columns = {
        "patient": np.arange(ROWS),
        "age": age,
        "admitted": pd.Timestamp("2016-03-01") + days,
        "smoker": np.where(smoker, "yes", "no"),
        "diabetic": np.where(diabetic, "yes", "no"),
        "crp": [f"{value:.1f}".replace(".", ",") for value in draws.gamma(2, 4, ROWS)],
        "weight": weight,
        "ward": draws.choice(["A1", "A2", "B1", "B2", "C", "ICU"], ROWS),
        "note": [f"comment {number}" for number in range(ROWS)],
    }
    return pd.DataFrame(columns)


def plain(table: pd.DataFrame) -> tuple[pd.DataFrame, Schema]:
    """Return the table without words, signs and codes, and its schema."""
    rows = table.drop(columns="note").assign(
        smoker=table["smoker"] == "yes",
        diabetic=table["diabetic"] == "yes",
        crp=table["crp"].str.replace(",", ".").astype(float),
        weight=table["weight"].where(table["weight"] > 0),
    )
    columns = {
        "age": {"kind": "number", "lower": 0, "upper": 120},
        "admitted": {"kind": "date", "lower": "2015-01-01", "upper": "2025-12-31"},
        "smoker": {"kind": "flag"},
        "diabetic": {"kind": "flag"},
        "crp": {"kind": "number", "lower": 0, "upper": 50},
        "weight": {"kind": "number", "lower": 30, "upper": 200, "missing": "pairwise"},
        "ward": {"kind": "categorical", "levels": ["A1", "A2", "B1", "B2", "C", "ICU"]},
    }
    rules = {"missing": {"numbers": "none", "categories": "none"}}
    unit = {"column": "patient", "type": "integer", "max_rows": 1}
    return rows, Schema.parse({"version": 3, "defaults": rules, "unit": unit, "columns": columns})


WRITERS: dict[str, Callable[[pd.DataFrame, Path], object]] = {
    "csv": lambda table, path: table.to_csv(path, index=False),
    "xlsx": lambda table, path: table.to_excel(path, index=False),
    "dta": lambda table, path: table.to_stata(
        path, write_index=False, convert_dates={"admitted": "td"}
    ),
    "sav": lambda table, path: pyreadstat.write_sav(table, path),
}


@pytest.mark.parametrize(
    "ending", ["csv", *(pytest.param(e, marks=pytest.mark.slow) for e in ("xlsx", "dta", "sav"))]
)
def test_eight_commands_lead_from_a_patient_table_to_its_report(ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = patients()
    data = tmp_path / f"patients.{ending}"
    WRITERS[ending](table, data)
    assert len(COMMANDS) <= MAX_COMMANDS
    assert len(ANSWERS) <= 15
    said = {}
    for command in COMMANDS:
        words = command.format(data=data.name).split()
        answers = "".join(f"{answer}\n" for answer in ANSWERS) if words[0] == "schema" else None
        done = CliRunner().invoke(cli.app, words, input=answers)
        assert done.exit_code == 0, (command, done.output, done.exception)
        said[words[0]] = done.output
    for name in ("age", "admitted", "smoker", "diabetic", "crp", "weight", "ward"):
        assert name in said["table1"]
    fit = json.loads(said["ols"][said["ols"].index("{") :])
    at = fit["names"].index("age")
    assert abs(fit["coefficients"][at] - 0.25) < 6 * fit["standard_errors"][at]
    assert "comment 1" not in (tmp_path / "p.html").read_text()
    rows, schema = plain(table)
    expected = open_rows(rows, schema, threads=1).second_moments()[0].units
    found = open_rows(data, Schema.load("patients.toml"), threads=1).second_moments()[0].units
    assert found.tolist() == expected.tolist()
