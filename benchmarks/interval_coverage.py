"""Measure how often intervals for noise and sampling cover the statistics of the population.

    make bench NAME=interval_coverage

The tables of the part `tune` (`tables.toml`) are the populations. The script draws samples with
replacement and releases them by default. It then checks whether 95% intervals for privacy noise
and sampling cover the population's statistics, including eigenvalues. The script `calibration.py`
measures the coverage of intervals for the noise alone.
"""

from __future__ import annotations

import sys
import zlib
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

import dpcov
from benchmark_tables import PARTS, Table, table_named
from calibration import encoded, flat, moment, within
from dpcov.analysis.intervals import (
    STATISTICS,
    Coefficients,
    Statistic,
    eigenvalues,
    several_intervals,
)
from dpcov.analysis.ols import ols
from dpcov.errors import ReleaseError
from results import Kept, show, write

COUNTS = (200, 2000, 20_000)
BUDGETS: tuple[tuple[str, dict[str, float]], ...] = (
    ("epsilon 1", {"epsilon": 1.0}),
    ("rho 0.5", {"rho": 0.5}),
)
REPEATS = 10
TABLES = [name for name in PARTS["tune"] if name != "levels"]  # whose 108 features take too long
COVERED: dict[str, Statistic] = {
    **STATISTICS,
    "eigenvalues of correlations": eigenvalues(correlation=True),
}
LEVEL, LEAST = 0.95, 0.9  # coverage, and the least in the mean over cells
ROUNDING = 1e-9  # of a correlation with itself, or of two levels
Row = dict[str, Any]


def measured(job: tuple[str, int, int]) -> list[Row]:
    """Return a row for each statistic, from samples of a table at a budget."""
    name, count, at = job
    table, (text, budget) = table_named(name), BUDGETS[at]
    found: dict[str, list[tuple[Any, Any]]] = {}
    for seed in range(REPEATS):
        number = zlib.crc32(f"{job}{seed}".encode())
        drawn = np.random.default_rng(number).integers(len(table.frame), size=count)
        made = dpcov.release(
            table.frame.iloc[drawn].reset_index(drop=True),
            schema=dpcov.Schema.parse(table.declared()),
            seed=number,
            **budget,
        )
        if made.published is not None:  # a release of too few rows has no intervals
            for of, held, trusted in covered(made, table, seed):
                found.setdefault(of, []).append((held, trusted))
    place = {"table": name, "n": count, "budget": text}
    return [
        {**place, "statistic": of, "covered": float(held.mean()), "trusted": float(trusted.mean())}
        for of, pairs in found.items()
        for held, trusted in [np.array(pairs).swapaxes(0, 1)]
    ]


def covered(release: dpcov.Release, table: Table, seed: int) -> Any:
    """Yield for each statistic the covered entries and the trusted entries."""
    generator = np.random.default_rng(seed)
    whole = moment(release, encoded(table, release))[None]
    asked = list(COVERED.values())
    made = several_intervals(release, asked, LEVEL, generator=generator)
    for (of, statistic), one in zip(COVERED.items(), made, strict=True):
        truth, low, high = statistic.values(release, whole)[0], flat(one.low), flat(one.high)
        once = np.isfinite(truth) & ((of != "correlation") | (np.abs(truth) < 1 - ROUNDING))
        yield of, within(truth, low, high)[once], flat(one.trusted)[once]
    target = next((name for name, kind in table.columns.items() if "levels" not in kind), None)
    if target is not None:
        with suppress(ReleaseError):  # the noise hides a regression in a small table
            fit = ols(release, target, level=LEVEL, generator=generator)
            truth = Coefficients(target, None).values(release, whole)[0]
            yield "OLS", within(truth, fit.lower, fit.upper), fit.trusted


def pooled(rows: list[Row]) -> list[Row]:
    """Average over the tables, for each statistic, number of rows and budget."""
    groups: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["statistic"], row["n"], row["budget"]), []).append(row)
    return [
        {
            "statistic": of,
            "n": count,
            "budget": budget,
            "cells": len(cells),
            "covered": float(np.mean([row["covered"] for row in cells])),
            "least": min(row["covered"] for row in cells),
            "trusted": float(np.mean([row["trusted"] for row in cells])),
        }
        for (of, count, budget), cells in groups.items()
    ]


def main() -> int:
    kept = Kept("interval_coverage_cells.json", "make bench NAME=interval_coverage")
    kept.pooled(measured, list(product(TABLES, COUNTS, range(len(BUDGETS)))))
    totals = pooled(kept.rows)
    show("Coverage of 95% intervals for privacy noise and sampling", totals)
    if not kept.done():
        return 1
    write("interval_coverage.json", "make bench NAME=interval_coverage", totals)
    return int(any(row["covered"] < LEAST for row in totals))


if __name__ == "__main__":
    sys.exit(main())
