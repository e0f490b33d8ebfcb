"""Compare the errors of each goal with the errors of the default, on tables with long tails.

Run it with `make bench NAME=goals`. `ARGS="--folder FOLDER"` measures tables of your own instead,
as in `more_budget.py`. The result is one row for each goal and error: the geometric mean of the
ratio over tables and budgets, and the 95% range of a bootstrap over tables.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from before_and_now import Truth, released
from more_budget import KINDS, more_errors, read
from results import Kept, show

Row = dict[str, Any]
GOALS = ("all", "regression", "correlation", "frobenius")
BUDGETS: tuple[dict[str, float], ...] = (
    *({"epsilon": size} for size in (0.3, 1.0, 3.0)),
    *({"rho": size} for size in (0.05, 0.5)),
    {"epsilon": 1.0, "delta": 1e-6},
)
TABLES = ("casp", "diamonds", "census", "flights", "purchases")
ERRORS = (*KINDS, "frobenius")
RESAMPLES = 2000


def measured(job: tuple[str, str, Path | None, int]) -> list[Row]:
    """Return a row for each budget: the mean of each error of a goal on a table over the seeds."""
    name, goal, folder, seeds = job
    table = read(name, folder)
    truth, rows = Truth.of(table), list[Row]()
    for budget in BUDGETS:
        asked: list[Row] = [{**budget, "goal": goal, "seed": seed} for seed in range(seeds)]
        answers = released(table, asked, None, "")
        if not any(isinstance(one, str) for one in answers):
            each = [more_errors(one, truth) for one in answers]
            means = {of: float(np.mean([one[of] for one in each])) for of in ERRORS}
            rows.append({"table": name, "goal": goal, "budget": budget, "seeds": seeds, **means})
    return rows


def summary(rows: list[Row]) -> list[Row]:
    """Return the ratio of each error to the error of the default, for each goal."""
    tables = list(dict.fromkeys(row["table"] for row in rows))
    errors = {(row["table"], str(row["budget"]), row["goal"]): row for row in rows}
    drawn = np.random.default_rng(0).integers(len(tables), size=(RESAMPLES, len(tables)))
    found = []
    measured_goals = [goal for goal in GOALS[1:] if any(row["goal"] == goal for row in rows)]
    for goal, of in product(measured_goals, ERRORS):
        logs = [
            [
                np.log(row[of] / errors[name, budget, "all"][of])
                for (name, budget, own), row in errors.items()
                if name == table and own == goal and (name, budget, "all") in errors
            ]
            for table in tables
        ]
        means = np.array([np.mean(one) for one in logs])
        low, high = np.quantile(means[drawn].mean(axis=1), [0.025, 0.975])
        ratios = np.exp([means.mean(), low, high]).tolist()
        place = {"goal": goal, "error": of, "tables": len(tables), "cells": sum(map(len, logs))}
        found.append({**place, **dict(zip(("ratio", "from", "to"), ratios, strict=True))})
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="a folder of tables")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--goals", nargs="*", choices=GOALS[1:], default=GOALS[1:])
    asked = parser.parse_args()
    own = [path.stem for path in sorted(asked.folder.glob("*.npz"))] if asked.folder else TABLES
    options = ' ARGS="--folder FOLDER"' if asked.folder else ""
    kept = Kept("goals.json", f"make bench NAME=goals{options}")
    jobs = product(own, ("all", *asked.goals), [asked.folder], [asked.seeds])
    kept.pooled(measured, jobs)
    if not kept.rows:
        return 1
    kept.rows = summary(kept.rows)
    show("Error over the error of the default", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
