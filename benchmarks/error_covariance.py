"""Compare `Release.error_covariance` with the errors of repeated releases.

    make bench NAME=error_covariance
    make bench NAME=error_covariance ARGS="--releases 100 --tables airfoil"

Each table has light tails and is released many times with the default mechanism. The errors are the
differences from the table's own means and covariances, so the sampling error is not included. The
stated matrix is the mean over every tenth release. All entries are in units of the measured
standard deviations. The benchmark reports:

- the ratios of stated and measured variances (95% between 0.8 and 1.25, geometric mean between 0.9
  and 1.1);
- the ratios for 200 random contrasts (95% between 0.75 and 1.33);
- the same ratios of contrasts for the diagonal of the stated matrix, which is the control.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import datasets
import dpcov
from benchmark_tables import Table, numbers, table_named
from results import Kept, show

COMMAND = "make bench NAME=error_covariance"
EPSILON, RELEASES, STATED_EVERY, CONTRASTS = 1.0, 500, 10, 200
# Limits of single ratios, of their geometric mean, and of the ratios of contrasts.
DIAGONAL, GEOMETRIC, CONTRAST = (0.8, 1.25), (0.9, 1.1), (0.75, 1.33)
LEAST = 0.95  # fraction of the ratios within the limits


def adult() -> Table:
    """Return the ages, years of education, hours and sex of the census table."""
    lines = [line.split(",") for line in datasets.adult_lines()]
    frame = pd.DataFrame(lines, columns=datasets.ADULT_COLUMNS)
    values = frame[["age", "education-num", "hours-per-week"]].to_numpy(float)
    table = numbers(values, [(0, 100), (0, 20), (0, 100)])
    sex = {"kind": "categorical", "levels": ["Female", "Male"]}
    return Table(table.frame.assign(sex=frame["sex"]), table.columns | {"sex": sex})


def telemonitoring() -> Table:
    """Return the ages, times and scores of the recordings."""
    names = ("age", "test_time", "motor_UPDRS", "total_UPDRS")
    whole = datasets.recordings()
    bounds = [(0, 120), (-10, 250), (0, 108), (0, 176)]
    return numbers(np.column_stack([whole[name] for name in names]), bounds)


TABLES: dict[str, Callable[[], Table]] = {
    "airfoil": lambda: table_named("airfoil"),
    "adult": adult,
    "telemonitoring": telemonitoring,
    "mixed": lambda: table_named("mixed"),
    "scales": lambda: table_named("scales"),
    "bimodal": lambda: table_named("bimodal"),
}


def truth(table: Table, release: dpcov.Release) -> Any:
    """Return the means and covariances of the table, shape (k,), without noise."""
    cells = []
    for name in release.columns:
        column, _, level = name.partition("=")
        one = table.frame[column].to_numpy()
        declared = table.columns[column]
        if level:
            cells.append((one.astype(str) == level).astype(float))
        else:
            cells.append(np.clip(one.astype(float), declared["lower"], declared["upper"]))
    rows = np.column_stack(cells)
    return figures(rows.mean(axis=0), np.cov(rows.T, bias=True))


def figures(means: Any, covariance: Any) -> Any:
    """Return the means and the lower triangle, column by column."""
    return np.concatenate([means, covariance[np.triu_indices(len(means))]])


def measured(job: tuple[str, int]) -> list[dict[str, Any]]:
    """Return the row of one table."""
    name, releases = job
    table = TABLES[name]()
    schema = dpcov.Schema.parse(table.declared())
    errors, stated = [], []
    for seed in range(releases):
        made = dpcov.release(table.frame, schema=schema, epsilon=EPSILON, seed=seed)
        if seed == 0:
            whole = truth(table, made)
        errors.append(figures(made.mean(), made.covariance()) - whole)
        if seed % STATED_EVERY == 0:
            generator = np.random.default_rng(seed)
            stated.append(made.error_covariance(sampling=False, generator=generator).values)
    return [summary(name, len(table.frame), np.array(errors), np.mean(stated, axis=0))]


def summary(name: str, rows: int, errors: Any, stated: Any) -> dict[str, Any]:
    """Return the fractions of ratios within their limits."""
    deviations = np.sqrt(np.mean(errors**2, axis=0))
    kept = deviations > 0
    errors, deviations = errors[:, kept], deviations[kept]
    scaled = stated[np.ix_(kept, kept)] / np.outer(deviations, deviations)
    covariance = errors.T @ errors / len(errors) / np.outer(deviations, deviations)
    diagonal = np.diag(scaled)
    contrasts = np.random.default_rng(0).normal(size=(CONTRASTS, len(scaled)))
    variances = np.einsum("ci,ij,cj->c", contrasts, covariance, contrasts)
    ratios = np.einsum("ci,ij,cj->c", contrasts, scaled, contrasts) / variances
    alone = contrasts**2 @ diagonal / variances
    return {
        "table": name,
        "n": rows,
        "figures": len(scaled),
        "releases": len(errors),
        "within": share(diagonal, DIAGONAL),
        "least": float(diagonal.min()),
        "largest": float(diagonal.max()),
        "geometric mean": float(np.exp(np.mean(np.log(diagonal)))),
        "contrasts within": share(ratios, CONTRAST),
        "contrasts, mean": float(np.exp(np.mean(np.log(ratios)))),
        "diagonal alone": share(alone, CONTRAST),
    }


def share(ratios: Any, limits: tuple[float, float]) -> float:
    """Return the fraction of ratios within limits."""
    return float(np.mean((ratios >= limits[0]) & (ratios <= limits[1])))


def passes(row: dict[str, Any]) -> bool:
    """Return True if a table is within all limits and its control is not."""
    means = GEOMETRIC[0] <= row["geometric mean"] <= GEOMETRIC[1]
    both = min(row["within"], row["contrasts within"]) >= LEAST
    return means and both and row["diagonal alone"] < LEAST


def main() -> int:
    reader = argparse.ArgumentParser()
    reader.add_argument("--releases", type=int, default=RELEASES)
    reader.add_argument("--tables", nargs="*", default=list(TABLES), choices=list(TABLES))
    asked = reader.parse_args()
    kept = Kept("error_covariance.json", COMMAND)
    for name in asked.tables:
        kept.part(name, lambda name=name: measured((name, asked.releases)))
    show("Stated and measured covariances of the errors", kept.rows)
    whole = asked.releases == RELEASES and asked.tables == list(TABLES)
    if whole and not kept.done():
        return 1
    return int(not all(passes(row) for row in kept.rows))


if __name__ == "__main__":
    sys.exit(main())
