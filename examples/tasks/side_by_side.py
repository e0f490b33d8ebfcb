"""Helpers of the tasks: simulated tables, their releases, and a printed comparison of answers."""

from __future__ import annotations

import csv
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

import dpcov

EPSILON = 1.0
ITEMS = [f"x{number}" for number in range(1, 10)]
Row = tuple[str, float, float, float, float]


def visits() -> pd.DataFrame:
    """Return the first visit of each patient in the simulated table of `dpcov demo`."""
    with (files("dpcov.cli.demo") / "visits.csv.gz").open("rb") as file:
        return pd.read_csv(file, compression="gzip").drop_duplicates("patient")


def release_of_visits(table: pd.DataFrame) -> dpcov.Release:
    """Release the visits, with the product of age and smoker for the interaction."""
    text = (files("dpcov.cli.demo") / "visits.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    del document["unit"]  # each patient has one row
    document["derived"] = {"age_smoker": {"product": ["age", "smoker"]}}
    return dpcov.release(table, schema=dpcov.Schema.parse(document), epsilon=EPSILON)


def questionnaire(count: int = 2000) -> pd.DataFrame:
    """Simulate nine items that measure three correlated factors."""
    generator = np.random.default_rng(1)
    related = np.full((3, 3), 0.3) + 0.7 * np.eye(3)
    factors = generator.multivariate_normal(np.zeros(3), related, count)
    noise = generator.normal(0, 0.6, (count, 9))
    return pd.DataFrame(0.8 * np.repeat(factors, 3, axis=1) + noise, columns=ITEMS)


def release_of_questionnaire(table: pd.DataFrame) -> dpcov.Release:
    """Release the items, which lie between -4 and 4 by design."""
    item = {"kind": "number", "lower": -4, "upper": 4, "missing": "none"}
    schema = dpcov.Schema.parse({"version": 3, "columns": dict.fromkeys(ITEMS, item)})
    return dpcov.release(table, schema=schema, epsilon=EPSILON)


def in_r(
    release: dpcov.Release, table: pd.DataFrame, software: str, model: dict[str, str], code: str
) -> list[Row]:
    """Export a release, run the exported R script with another model, and return the results.

    `model` contains the lines of the script to replace: the start of each line, and the new line.
    `code` is appended to the script. It analyses the confidential table (`table.csv`) and writes
    the answers from both to `rows.csv`.
    """
    file, folder = Path("questionnaire.release.json"), Path(f"questionnaire-{software}")
    release.save(file, force=True)
    command = [Path(sys.executable).with_name("dpcov"), "export", file, "--for", software]
    subprocess.run([*command, "--out", folder, "--force", "--quiet"], check=True)
    table.to_csv(folder / "table.csv", index=False)
    lines = (folder / f"{software}.R").read_text(encoding="utf-8").splitlines()
    for start, new in model.items():
        (at,) = (at for at, line in enumerate(lines) if line.startswith(start))
        lines[at] = new
    (folder / "task.R").write_text("\n".join([*lines, code]), encoding="utf-8")
    subprocess.run(["Rscript", "task.R"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with (folder / "rows.csv").open(encoding="utf-8") as written:
        found = list(csv.reader(written))[1:]
    return [(name, *map(float, figures)) for name, *figures in found]  # type: ignore[misc]


def show(title: str, program: str, rows: Iterable[Row]) -> None:
    """Print private answers and their intervals next to the confidential answers."""
    rows = list(rows)
    print(title)
    print(f"{'':38}{'dpcov':>11}{'[0.025':>11}{'0.975]':>11}{program:>14}")
    for name, private, low, high, confidential in rows:
        figures = (f"{value:11.4g}" for value in (private, low, high))
        print(f"{name:38}{''.join(figures)}{confidential:14.4g}")
    inside = sum(low <= confidential <= high for *_, low, high, confidential in rows)
    print(f"{inside} of {len(rows)} intervals contain the confidential answer.")
