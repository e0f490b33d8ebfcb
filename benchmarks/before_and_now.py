"""Errors of what users read: defaults, goals and mechanisms of this version and of an earlier one.

    make entrants PART=tune BEFORE=results/entrants/door

Each entrant releases each table of a part (`tables.toml`) at six budgets. `BEFORE` is where an
earlier version was installed: `git archive COMMIT`, then `pip install --no-deps --target`. Errors
by table, budget and seed are kept in `results/entrants-PART.json`; what is there is not made again.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matrix_errors import correlations, relative, ridge_loss

from judged_tables import PARTS, Table, table_named
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

BUDGETS = [{"epsilon": e} for e in (0.3, 1.0, 4.0)] + [{"rho": r} for r in (0.05, 0.5, 8.0)]
PURE, RHO = {"nuclear-laplace", "matrix-laplace"}, {"gaussian", "preconditioned"}
MECHANISMS = ("standardized", "standardized-ladder", *sorted(PURE | RHO))
ENTRANTS = {
    "now": {},
    **{f"now, {goal}": {"goal": goal} for goal in ("correlation", "regression")},
    "before": {},
    **{f"before, {goal}": {"goal": goal} for goal in ("relative", "correlation", "regression")},
    **{f"before, {name}": {"mechanism": name} for name in MECHANISMS},
}
ERRORS = ("count", "means", "correlation", "largest", "ols", "ridge", "relative", "frobenius")
TARGETS, MOST = 3, 100.0  # columns that are regressed; sampling errors that are told apart
NOTHING = 1e-6  # an error that is none
Row = dict[str, Any]


def errors(answer: Any, table: Table) -> dict[str, float]:
    """Of each kind, of a release's count, means and covariance; 1 or the most where refused."""
    values = table.features()
    n, p = values.shape
    truth, mean = np.cov(values.T, bias=True).reshape(p, p), values.mean(axis=0)
    count, means, covariance = answer
    units = np.concatenate([_half_ranges(column) for column in table.columns.values()])
    means, covariance = means / units, covariance / np.outer(units, units)
    kept = np.diag(truth) > 0
    seen, true = covariance[np.ix_(kept, kept)], truth[np.ix_(kept, kept)]
    deviations = np.sqrt(np.diag(true))
    off = (correlations(seen) - correlations(true))[np.triu_indices(len(true), 1)]
    return {
        "count": abs(count - n) / n,
        "means": _root_mean_square((means - mean)[kept] / deviations),
        "correlation": _root_mean_square(off),
        "largest": float(np.max(np.abs(off), initial=0)),
        "ols": _root_mean_square([ols(seen, true, n, j) for j in range(min(TARGETS, p - 1))]),
        "ridge": ridge_loss(seen, true) - ridge_loss(true, true),
        "relative": relative(seen - true, deviations**2),
        "frobenius": float(np.linalg.norm(seen - true) / np.linalg.norm(true)),
    }


def ols(seen: Matrix, truth: Matrix, rows: int, target: int) -> float:
    """Error of the coefficients of a column on all others, in their sampling standard errors."""
    others = np.arange(len(truth)) != target
    here = np.ix_(others, others)
    inverse = np.linalg.pinv(truth[here], hermitian=True)
    beta = inverse @ truth[others, target]
    left = truth[target, target] - beta @ truth[others, target]
    found = np.linalg.pinv(seen[here], hermitian=True) @ seen[others, target]
    scale = np.sqrt(np.maximum(left * np.diag(inverse), 1e-12) / rows)
    return min(MOST, _root_mean_square((found - beta) / scale))


def _half_ranges(column: Mapping[str, Any]) -> list[float]:
    if "levels" in column:
        return [0.5] * len(column["levels"])
    return [(column["upper"] - column["lower"]) / 2]


def _root_mean_square(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0


def measured(job: tuple[str, str, tuple[int, ...], str | None]) -> list[Row]:
    """Errors of an entrant on a table, at all budgets and seeds, by the version it belongs to."""
    name, entrant, seeds, before = job
    table, asked = table_named(name), ENTRANTS[entrant]
    mechanism = asked.get("mechanism")
    budgets = [
        budget
        for budget in BUDGETS
        if (mechanism not in PURE or "epsilon" in budget)
        and (mechanism not in RHO or "rho" in budget)
    ]
    cells = list(product(budgets, seeds))
    requests = [{**asked, **budget, "seed": seed} for budget, seed in cells]
    place = os.environ | ({"PYTHONPATH": before} if entrant.startswith("before") and before else {})
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("releases_of.py"))],
        input=pickle.dumps((table.frame, table.columns, requests)),
        env=place,
        capture_output=True,
        check=True,
    )
    rows = []
    for (budget, seed), answer in zip(cells, pickle.loads(ran.stdout), strict=True):  # noqa: S301
        told = {"refused": answer} if isinstance(answer, str) else errors(answer, table)
        rows.append({"table": name, "entrant": entrant, **budget, "seed": seed, **told})
    return rows


def summary(rows: list[Row], entrant: str, other: str) -> Iterator[Row]:
    """Errors of an entrant over another's, each a mean over seeds, by kind of budget.

    Their geometric mean over the cells (a table at a budget) and their 95th percentile.
    """
    cells: dict[tuple[str, ...], dict[str, list[Row]]] = {}
    for row in rows:
        if "refused" not in row:
            kind = "epsilon" if "epsilon" in row else "rho"
            cell = cells.setdefault((kind, str(row[kind]), row["table"]), {})
            cell.setdefault(row["entrant"], []).append(row)
    for kind in ("epsilon", "rho"):
        ratios = {
            cell: [
                max(NOTHING, np.mean([row[error] for row in found[entrant]]))
                / max(NOTHING, np.mean([row[error] for row in found[other]]))
                for error in ERRORS
            ]
            for cell, found in cells.items()
            if cell[0] == kind and {entrant, other} <= found.keys()
        }
        logs = np.log(list(ratios.values()))
        told = {"mean": logs.mean(axis=0), "95 %": np.quantile(logs, 0.95, axis=0)}
        for word, values in told.items():
            yield {"budget": kind, "": word, "cells": len(logs)} | dict(
                zip(ERRORS, np.exp(values).tolist(), strict=True)
            )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--before", help="where the earlier version is installed")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--entrants", nargs="*", default=list(ENTRANTS), choices=ENTRANTS)
    asked = parser.parse_args()
    kept = Kept(f"entrants-{asked.part}.json", f"make entrants PART={asked.part}")
    there = {(row["table"], row["entrant"], row["seed"]) for row in kept.go_on()}
    seeds = {
        (table, entrant): tuple(s for s in range(asked.seeds) if (table, entrant, s) not in there)
        for table, entrant in product(PARTS[asked.part], asked.entrants)
    }
    kept.pooled(measured, [(*key, found, asked.before) for key, found in seeds.items() if found])
    first, *others = asked.entrants
    for other in others:
        show(f"Errors of {first} over those of {other}", list(summary(kept.rows, first, other)))
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
