"""Compare the errors of the default with an earlier version and with one noisy matrix.

    git worktree add /tmp/before 7e58140
    make bench NAME=tails ARGS="--before /tmp/before/src"

The tables have light and heavy tails, flags, outliers, categories and common factors. Half of the
seeds use add-remove, half replace-one. `more_budget.py` describes the errors. A further error is
the relative distance of the whole covariance matrix in the Frobenius norm.

The file `results/tails.json` has the errors by seed, `results/tails-summary.json` the means. The
benchmark reports geometric means of the ratio of errors, by group of tables, and the single
cells with the surely largest ratios. The tests of all cells have a joint level of 1%, as in
`acceptance.py`. `--folder FOLDER` adds tables, as in `more_budget.py`.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acceptance import Pair, beyond
from before_and_now import Truth, released, rounded
from benchmark_tables import PARTS, Table
from more_budget import more_errors, read
from results import Kept, show, write

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
COMMAND = 'make bench NAME=tails ARGS="--before FOLDER --folder FOLDER"'
NOW, BEFORE, MATRIX = "now", "before", "one matrix"
BUDGETS: tuple[dict[str, float], ...] = (
    {"epsilon": 0.3},
    {"epsilon": 1.0},
    {"epsilon": 3.0},
    {"rho": 0.05},
    {"rho": 0.5},
    {"epsilon": 1.0, "delta": 1e-6},
)
RELATIONS = ("add-remove", "replace-one")  # in turn, by seed
TABLE_PARTS = ("tune", "heavy", "default", "posterior", "declared")  # of benchmarks/tables.toml
KINDS = ("correlation", "variances", "ols", "means", "frobenius")
# Largest geometric mean of the error over the earlier error. The limits of light tails and of
# single cells follow.
MEANS = {"correlation": 0.85, "variances": 0.85, "ols": 0.85, "means": 0.95, "frobenius": 0.7}
OF_LIGHT, OF_CELL, OF_MATRIX = 1.05, 1.5, 1.25
# Tables on which the constants of the clipping radius were set. The other tables test them.
TUNED = (
    *PARTS["tune"][:-1], *PARTS["heavy"], "chicago", "gsswages", "loanapp", "nlswork", "cells",
    "few rows", "flights", "clusters", "california-like",
)  # fmt: skip
# Tails are light if at most this fraction of the squared norms of the standardized rows belongs to
# rows that are longer than twice the typical norm.
MAX_LIGHT_FRACTION = 0.05


def tables_with(folder: Path | None) -> list[str]:
    """Return the names of all tables. The tables of a folder come first."""
    own = [path.stem for path in sorted(folder.glob("*.npz"))] if folder else []
    known = (one for part in TABLE_PARTS for one in PARTS[part])
    return [*own, *(one for one in known if one != "levels alone")]


def has_light_tails(table: Table) -> bool:
    """Return True if few rows are much longer than the others."""
    values = table.features()
    values = values[:, values.std(axis=0) > 0]
    squares = np.sum(((values - values.mean(axis=0)) / values.std(axis=0)) ** 2, axis=1)
    long = squares > 4 * squares.mean()
    return bool(squares[long].sum() <= MAX_LIGHT_FRACTION * squares.sum())


def measured(job: tuple[str, str, Path | None, str | None, int]) -> list[Row]:
    """Return a row for each budget: the errors of a method on a table, by seed."""
    name, method, folder, before, seeds = job
    table = read(name, folder)
    truth, light = Truth.of(table), has_light_tails(table)
    rows = []
    for budget in BUDGETS:
        asked = [
            budget | _mechanism(method, budget) | {"neighbors": RELATIONS[seed % 2], "seed": seed}
            for seed in range(seeds)
        ]
        answers = released(table, asked, before if method == BEFORE else None, "")
        row: Row = {"table": name, "light": light, "method": method, "budget": budget}
        row["refused"] = sorted({one for one in answers if isinstance(one, str)})
        each = [] if row["refused"] else [more_errors(one, truth) for one in answers]
        rows.append(row | {kind: rounded(one[kind] for one in each) for kind in KINDS})
    return rows


def _mechanism(method: str, budget: dict[str, float]) -> Row:
    if method != MATRIX:
        return {}
    return {"mechanism": "matrix-laplace" if set(budget) == {"epsilon"} else "gaussian"}


def pairs(rows: Sequence[Row], other: str) -> list[Pair]:
    """Pair the errors of the default with the errors of another method, by cell."""
    cells = {(row["table"], str(row["budget"]), row["method"]): row for row in rows}
    return [
        Pair(
            {"table": table, "light": row["light"], "budget": budget, "error": kind},
            *map(np.array, two),
        )
        for (table, budget, method), row in cells.items()
        if method == NOW
        and (beside := cells.get((table, budget, other)))
        and not (row["refused"] or beside["refused"])
        for kind in KINDS
        for two in [(row[kind], beside[kind])]
        if min(map(np.mean, two)) > 0
    ]


def means(found: Sequence[Pair], over: str) -> list[Row]:
    """Return geometric means of the ratios, by group of tables."""
    groups = {
        "all tables": lambda at: True,
        "tables of the tuning": lambda at: at["table"] in TUNED,
        "other tables": lambda at: at["table"] not in TUNED,
        "light tails": lambda at: at["light"],
        "long tails": lambda at: not at["light"],
    }
    rows = []
    for group, holds in groups.items():
        row: Row = {"over": over, "tables": group}
        for kind in KINDS:
            ratios = [
                np.log(pair.own.mean() / pair.other.mean())
                for pair in found
                if pair.place["error"] == kind and holds(pair.place)
            ]
            row[kind] = float(np.exp(np.mean(ratios))) if ratios else math.nan
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", help="the folder with the package of an earlier version")
    parser.add_argument("--folder", type=Path, help="a folder of further tables")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=12)
    asked = parser.parse_args()
    tables = asked.tables or tables_with(asked.folder)
    kept = Kept("tails.json", COMMAND)
    there = {(row["table"], row["method"]) for row in kept.go_on()}
    methods = [NOW, *([BEFORE] if asked.before else []), MATRIX]
    jobs = [
        (table, method, asked.folder, asked.before, asked.seeds)
        for table in tables
        for method in methods
        if (table, method) not in there
    ]
    kept.pooled(measured, jobs)
    fine, summary = True, list[Row]()
    for other, bar in ((BEFORE, OF_CELL), (MATRIX, OF_MATRIX)):
        found = pairs(kept.rows, other)
        if not found:
            continue
        groups, cells = means(found, other), beyond(found, bar)
        show("Geometric means of the error over another", groups)
        show("Single cells, the surely largest first", cells[:12])
        fine &= all(row["ok"] for row in cells)
        above = sum(not row["ok"] for row in cells)
        summary += [row | {"cells": len(cells), "above the limit": above} for row in groups]
        if other == BEFORE:
            of = {row["tables"]: row for row in groups}
            fine &= not any(of["long tails"][kind] > most for kind, most in MEANS.items())
            fine &= not any(of["light tails"][kind] > OF_LIGHT for kind in KINDS)
    write("tails-summary.json", COMMAND, summary)
    return int(not (kept.done() and fine))


if __name__ == "__main__":
    sys.exit(main())
