"""Measure how well the noise of all rounds predicts whether Laplace or Gaussian noise is better.

For an (epsilon, delta) budget, `auto` draws the kind of noise whose rounds have the least noise
(`standardized.noise_of_rounds`). This script releases tables with both kinds. For each table and
budget it prints the predicted and the measured ratio of the errors, for correlations, means and
variances together. It also prints the cost of the choice over the better kind in hindsight.
"""

from __future__ import annotations

import math
import sys
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

import dpcov
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.mechanisms import standardized
from dpcov.rows.moment import Lattice
from results import Kept, show

COLUMNS, ROWS = (2, 3, 4, 6, 8, 11, 15, 20), (1000, 3000, 20_000)
BUDGETS = tuple(product((0.3, 1.0, 3.0), (1e-6, 1e-9)))
WEIGHTS = (1.0, 0.8, 0.7, 0.6, 0.5)  # of the last round; 1 is the choice before this measurement
REPEATS = 12


def table(rows: int, columns: int) -> Any:
    """Return normal columns with two common factors that fill a part of their bounds."""
    rng = np.random.default_rng(columns)
    values = rng.normal(size=(rows, 2)) @ (0.7 * rng.normal(size=(2, columns)))
    values += rng.normal(size=values.shape)
    values *= (0.1 + 0.15 * rng.random(columns)) / values.std(axis=0)
    return np.clip(values + 0.6 * (rng.random(columns) - 0.5), -1, 1)


def errors(values: Any, **asked: Any) -> Any:
    """Return root mean squared errors of correlations, means and variances over the releases."""
    pairs = np.triu_indices(values.shape[1], 1)
    correlations, variances = np.corrcoef(values.T)[pairs], values.var(axis=0)
    found = []
    for seed in range(REPEATS):
        made = dpcov.release(values, lower=-1, upper=1, threads=1, seed=seed, **asked)
        off = (
            made.correlation()[pairs] - correlations,
            (made.mean() - values.mean(axis=0)) / np.sqrt(variances),
            np.diag(made.covariance()) / variances - 1,
        )
        found.append([np.mean(one**2) for one in off])
    return np.sqrt(np.mean(found, axis=0))


def measured(rows: int, columns: int, budget: ApproxDP) -> float:
    """Return the geometric mean of the errors with Laplace noise over those with Gaussian."""
    values, found = table(rows, columns), []
    for kind in (0, 1):
        with patch.object(standardized, "by_budget", lambda _, *both, k=kind: both[k]()):
            found.append(errors(values, epsilon=budget.epsilon, delta=budget.delta))
    return float(np.exp(np.mean(np.log(found[0] / found[1]))))


def predicted(columns: int, budget: ApproxDP, weight: float) -> float:
    """Return the ratio of `noise_of_rounds`, with this weight of the last round."""
    lattice = Lattice(columns, math.sqrt(columns), 0.3, equal_intercepts=True)
    asked = lattice, budget, Neighbors.ADD_REMOVE
    mechanism = standardized.BY_DIRECTION
    with patch.object(standardized, "LAST_ROUND_WEIGHT", weight):
        both = [
            standardized.noise_of_rounds(made(*asked))
            for made in (mechanism._laplace, mechanism._gaussian)
        ]
    return both[0] / both[1]


def cell(job: tuple[tuple[float, float], int, int]) -> list[dict[str, Any]]:
    """Return the row of one table and budget."""
    (epsilon, delta), columns, rows = job
    budget = ApproxDP(epsilon, delta)
    found = {"epsilon": epsilon, "delta": delta, "columns": columns, "rows": rows}
    ratio = predicted(columns, budget, standardized.LAST_ROUND_WEIGHT)
    return [found | {"measured": measured(rows, columns, budget), "predicted": ratio}]


def regret(rows: list[dict[str, Any]], weight: float) -> dict[str, Any]:
    """Return the error of the choice by this weight over the error of the better kind."""
    costs = []
    for row in rows:
        ratio = predicted(row["columns"], ApproxDP(row["epsilon"], row["delta"]), weight)
        log = math.log(row["measured"])
        costs.append((log if ratio < 1 else 0.0) - min(log, 0.0))
    mean, most = math.exp(float(np.mean(costs))), math.exp(max(costs))
    return {"weight of the last round": weight, "mean": mean, "largest": most}


def main() -> int:
    kept = Kept("noise_choice.json", "python benchmarks/noise_choice.py")
    kept.pooled(cell, product(BUDGETS, COLUMNS, ROWS))
    show("Errors with Laplace noise over those with Gaussian noise", kept.rows)
    show("Error over the better kind", [regret(kept.rows, weight) for weight in WEIGHTS])
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
