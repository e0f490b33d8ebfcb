"""What releases say of their own errors, beside the errors that they have.

Each table is released again and again with the default mechanism. *Stated*: the mean of
`expected_correlation_error`, real over stated. *Intervals* of level 95 % for the privacy noise
alone: how often they hold the table's own figures, and their width over the oracle's, 3.92 root
mean square errors of what is released. *OLS*: how often `ols` answers at all, of the first column
on all others. `make stated-errors` runs it.
"""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import datasets
import dpcov
import interval_coverage
from dpcov.analysis.intervals import several_intervals
from dpcov.analysis.ols import ols
from dpcov.core.entropy import simulation_generator
from dpcov.errors import ReleaseError
from dpcov.rows.schema import Schema
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Table = tuple[Matrix, Schema]

BUDGETS: tuple[dict[str, float], ...] = (
    {"epsilon": 0.3},
    {"epsilon": 1.0},
    {"epsilon": 3.0},
    {"rho": 0.5},
)
REPEATS = 20
BAR_MEAN, BAR_MOST = (0.7, 1.1), 1.5  # of real over stated errors
BAR_COVERED = 0.93
ORACLE = 3.92  # root mean square errors that 95 % of a normal law takes


def rounded(table: Matrix) -> Table:
    """Bounds as a person might write them: the next 1, 2 or 5 of a power of ten."""
    largest = np.maximum(np.abs(table).max(axis=0), 1e-6)
    power = 10.0 ** np.floor(np.log10(largest))
    upper = power * np.select([largest <= step * power for step in (1, 2, 5)], [1, 2, 5], 10)
    lower = np.where(table.min(axis=0) < 0, -upper, 0.0)
    return table, Schema.from_bounds(lower, upper, [f"x{j}" for j in range(table.shape[1])])


def demo() -> Table:
    from dpcov.cli.demo import write_table

    with tempfile.TemporaryDirectory() as folder:
        path, schema = write_table(Path(folder))
        return np.loadtxt(path, delimiter=",", skiprows=1), Schema.load(schema)


def known(name: str) -> Table:
    table, schema, _ = interval_coverage.TABLES[name]()
    return table, schema


def telemonitoring() -> Table:
    columns = datasets.recordings()
    del columns["subject#"]
    return rounded(np.column_stack(list(columns.values())))


def heavy_tails() -> Table:
    """Student's t with 3 degrees of freedom, one scale for each row."""
    generator = np.random.default_rng(1)
    mixed = generator.standard_normal((20_000, 8)) @ generator.standard_normal((8, 8))
    return rounded(mixed * np.sqrt(3 / generator.chisquare(3, 20_000))[:, None])


def lognormal() -> Table:
    """Positive columns with long tails in common."""
    generator = np.random.default_rng(2)
    common = generator.standard_normal((20_000, 1))
    return rounded(np.exp(0.6 * common + 0.6 * generator.standard_normal((20_000, 6))))


def flags() -> Table:
    """0/1 columns, from rare to frequent, with a common cause."""
    generator = np.random.default_rng(3)
    drawn = generator.standard_normal((20_000, 10)) + generator.standard_normal((20_000, 1))
    return rounded((drawn > np.linspace(-1, 2.5, 10)).astype(float))


TABLES: dict[str, Callable[[], Table]] = {
    "demo": demo,
    "wine": lambda: known("wine"),
    "airfoil": lambda: known("airfoil"),
    "adult": lambda: known("adult"),
    "breast cancer": lambda: rounded(datasets.breast_cancer()),
    "telemonitoring": telemonitoring,
    "heavy tails": heavy_tails,
    "lognormal": lognormal,
    "flags": flags,
    "factors": lambda: known("synthetic"),
}
FIGURES = ("mean", "correlation")


def figures_of(made: dpcov.Release) -> dict[str, Matrix]:
    correlation = made.correlation()
    return {"mean": made.mean(), "correlation": correlation[np.tril_indices(len(correlation), -1)]}


def figures_in(table: Matrix, schema: Schema) -> dict[str, Matrix]:
    """The table's own, values moved to the nearer bound, each level of a column as 0 and 1."""
    names = list(schema.columns)
    features = []
    for feature in schema.features:
        values = table[:, names.index(feature.column)]
        level = feature.name.removeprefix(f"{feature.column}=")
        ends = feature.center - feature.scale, feature.center + feature.scale
        inside = np.clip(values, *ends)
        features.append(values == float(level) if feature.is_indicator else inside)
    correlation = np.corrcoef(features)
    means = np.mean(features, axis=1)
    return {"mean": means, "correlation": correlation[np.tril_indices(len(features), -1)]}


def cell(job: tuple[str, dict[str, float]]) -> list[dict[str, Any]]:
    """The row of the table of results, of one table at one budget."""
    name, budget = job
    table, schema = TABLES[name]()
    columns = list(schema.columns)
    truth = figures_in(table, schema)
    below = np.tril_indices(len(schema.features), -1)
    errors: dict[str, list[Matrix]] = {figure: [] for figure in FIGURES}
    covered: dict[str, list[Matrix]] = {figure: [] for figure in FIGURES}
    widths: dict[str, list[Matrix]] = {figure: [] for figure in FIGURES}
    stated, answered = [], 0
    for seed in range(REPEATS):
        number = zlib.crc32(f"{job}{seed}".encode())
        made = dpcov.release(table, schema=schema, seed=number, **budget)
        generator = simulation_generator(seed)
        released = figures_of(made)
        expected = dpcov.expected_correlation_error(made, generator=generator)
        if expected is not None:
            real = np.abs(released["correlation"] - truth["correlation"])
            stated.append((float(real.mean()), float(expected[below].mean())))
        found = several_intervals(made, list(FIGURES), 0.95, False, generator=generator)
        for figure, one in zip(FIGURES, found, strict=True):
            low, high = (end if end.ndim == 1 else end[below] for end in (one.low, one.high))
            errors[figure].append(released[figure] - truth[figure])
            covered[figure].append((low <= truth[figure]) & (truth[figure] <= high))
            widths[figure].append(high - low)
        try:
            ols(made, columns[0], columns[1:], generator=generator)
            answered += 1
        except ReleaseError:
            pass
    row: dict[str, Any] = {
        "table": name,
        "budget": " ".join(f"{key} {value:g}" for key, value in budget.items()),
        "mechanism": made.mechanism,
        "clipped": made.clipped,
        "states": len(stated) / REPEATS,
        "real/stated": None,
    }
    if stated:
        real_mean, stated_mean = np.mean(stated, axis=0)
        row["real/stated"] = float(real_mean / stated_mean)
    for figure in FIGURES:
        size = np.sqrt(np.mean(np.square(errors[figure]), axis=0))
        over = np.mean(widths[figure], axis=0) / (ORACLE * size)
        row[f"{figure}: covered"] = float(np.mean(covered[figure]))
        row[f"{figure}: width/oracle"] = float(np.median(over))
    row["OLS answers"] = answered / REPEATS
    return [row]


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    ratios = np.array([row["real/stated"] for row in rows if row["real/stated"] is not None])
    whole = [row for row in rows if not row["clipped"]]
    found = {
        "cells": len(rows),
        "real/stated, geometric mean": float(np.exp(np.log(ratios).mean())),
        "most": float(ratios.max()),
        "least": float(ratios.min()),
    }
    for figure in FIGURES:
        covered = [row[f"{figure}: covered"] for row in whole]
        found[f"{figure}: covered"] = float(np.mean(covered))
        found[f"{figure}: least"] = float(np.min(covered))
        widths = [row[f"{figure}: width/oracle"] for row in rows]
        found[f"{figure}: width/oracle"] = float(np.median(widths))
    found["OLS answers"] = float(np.mean([row["OLS answers"] for row in rows]))
    return found


def main() -> int:
    asked = datasets.here({name: TABLES[name] for name in sys.argv[1:] or TABLES})
    kept = Kept("stated_errors.json", "make stated-errors")
    kept.pooled(cell, [(name, budget) for name in asked for budget in BUDGETS])
    show("What releases say of their errors, and the errors they have", kept.rows)
    total = summary(kept.rows)
    show("All cells", [total])
    if not sys.argv[1:]:
        kept.part("all cells", lambda: [total])
        if not kept.done():
            return 1
    mean, most = total["real/stated, geometric mean"], total["most"]
    stated = BAR_MEAN[0] <= mean <= BAR_MEAN[1] and most <= BAR_MOST
    return int(not (stated and all(total[f"{one}: covered"] >= BAR_COVERED for one in FIGURES)))


if __name__ == "__main__":
    sys.exit(main())
