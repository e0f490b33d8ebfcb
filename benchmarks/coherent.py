"""Compare the errors of coherent means and covariances with the errors of the estimates before.

Run it with `make bench NAME=coherent`. A ratio is the mean squared error of the coherent figures,
divided by the mean squared error of the same estimates without the projection. Both are compared
with the figures of the table. Correlations of levels that the table does not contain are left out.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import dpcov
from dpcov.core.privacy import BudgetWarning
from dpcov.estimate import Estimate, correlation_of
from dpcov.rows.schema import Schema
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

ROWS = 3000
SEEDS = 50
EPSILONS = (0.3, 1.0, 3.0)
MOST = 1.02  # Largest accepted ratio: 50 seeds determine a ratio to about 0.02.
EXACT = 1e9  # An epsilon whose noise is far below all differences.
PRESENT = 1e-9  # Smallest variance of a feature that the table contains.
FIGURES = ("mean", "covariance", "correlation")
Table = tuple[pd.DataFrame, dict[str, Any]]


def _scores() -> tuple[np.random.Generator, Matrix]:
    generator = np.random.default_rng(1)
    return generator, generator.standard_normal((ROWS, 3))


def _above(score: Matrix, share: float) -> Matrix:
    return score > np.quantile(score, 1 - share)


def mixed() -> Table:
    """Simulate numbers, a count, categories and two flags, one of which is rare."""
    generator, score = _scores()
    region = np.digitize(score[:, 0] + 0.6 * generator.standard_normal(ROWS), [-1, -0.2, 0.4, 1])
    ill = score[:, 0] + generator.standard_normal(ROWS)
    rare = score[:, 1] + generator.standard_normal(ROWS)
    cost = np.where(generator.random(ROWS) < 0.6, 0, np.exp(4 + score[:, 0]))
    frame = pd.DataFrame(
        {
            "age": np.clip(45 + 12 * score[:, 1], 0, 100),
            "visits": np.minimum(generator.poisson(np.exp(0.3 + 0.5 * score[:, 0])), 30),
            "region": np.array(list("abcde"))[region],
            "sex": np.where(_above(score[:, 2], 0.4), "f", "m"),
            "ill": _above(ill, 0.1),
            "rare": _above(rare, 0.0102),
            "cost": np.clip(cost, 0, 2000),
        }
    )
    return frame, {
        "age": {"kind": "number", "lower": 0, "upper": 100},
        "visits": {"kind": "count", "upper": 30},
        "region": {"kind": "categorical", "levels": list("abcde"), "other": True},
        "sex": {"kind": "categorical", "levels": ["f", "m"], "missing": "zeros"},
        "ill": {"kind": "flag"},
        "rare": {"kind": "flag"},
        "cost": {"kind": "number", "lower": 0, "upper": 2000},
    }


def categories() -> Table:
    """Simulate five categories of eight levels, most of which are rare."""
    generator, score = _scores()
    frame, declared = {}, {}
    for j in range(5):
        rate = 1 + 0.5 * j * np.exp(0.3 * score[:, j % 3])
        frame[f"c{j}"] = np.array(list("abcdefgh"))[np.minimum(7, generator.poisson(rate))]
        rule = {"other": True, "missing": "other"} if j % 2 else {"missing": "zeros"}
        declared[f"c{j}"] = {"kind": "categorical", "levels": list("abcdefgh"), **rule}
    return pd.DataFrame(frame), declared


def flags() -> Table:
    """Simulate eight flags with shares from 0.01 to 0.5."""
    generator, score = _scores()
    shares = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.4)
    frame = {
        f"f{j}": _above(score[:, j % 3] + 0.7 * generator.standard_normal(ROWS), share)
        for j, share in enumerate(shares)
    }
    return pd.DataFrame(frame), {name: {"kind": "flag"} for name in frame}


def numbers() -> Table:
    """Simulate six numbers, a category and a flag."""
    generator, score = _scores()
    frame: dict[str, Any] = {
        f"x{j}": 50 + 10 * (score[:, j % 3] + 0.5 * generator.standard_normal(ROWS))
        for j in range(6)
    }
    declared: dict[str, Any] = {
        name: {"kind": "number", "lower": 0, "upper": 100} for name in frame
    }
    other, columns = mixed()
    for name in ("region", "ill"):
        frame[name], declared[name] = other[name], columns[name]
    return pd.DataFrame(frame), declared


TABLES: dict[str, Callable[[], Table]] = {
    "mixed": mixed,
    "categories": categories,
    "flags": flags,
    "numbers": numbers,
}


def errors(made: dpcov.Release, truth: tuple[Matrix, Matrix]) -> list[list[float]]:
    """Return the mean squared errors of the three figures, before and after the projection."""
    present = np.diag(truth[1]) > PRESENT
    both = np.ix_(present, present)
    wanted = (truth[0], truth[1], correlation_of(truth[1])[both])
    found = []
    for mean, covariance in (Estimate.of(made).raw, Estimate.of(made).coherent):
        figures = (mean, covariance, correlation_of(covariance)[both])
        pairs = zip(figures, wanted, strict=True)
        found.append([float(np.mean((mine - real) ** 2)) for mine, real in pairs])
    return found


def measured(name: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each budget and figure."""
    frame, columns = TABLES[name]()
    missing = {"numbers": "none", "categories": "other"}
    declared = Schema.parse({"version": 3, "defaults": {"missing": missing}, "columns": columns})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        exact = dpcov.release(
            frame, schema=declared, epsilon=EXACT, seed=0, mechanism="matrix-laplace"
        )
    for epsilon in EPSILONS:
        made = (
            dpcov.release(frame, schema=declared, epsilon=epsilon, seed=seed)
            for seed in range(SEEDS)
        )
        before, after = np.mean([errors(one, Estimate.of(exact).raw) for one in made], axis=0)
        for figure, old, new in zip(FIGURES, before, after, strict=True):
            sizes = {"root mean square before": float(np.sqrt(old)), "ratio": float(new / old)}
            row = {"table": name, "epsilon": epsilon, "figure": figure, "seeds": SEEDS}
            yield row | sizes | {"ok": bool(new <= MOST * old)}


def main() -> int:
    kept = Kept("coherent.json", "make bench NAME=coherent")
    for name in TABLES:
        kept.part(name, lambda name=name: measured(name))
    show("Mean squared error of coherent figures / of the estimates before", kept.rows)
    return int(not (kept.done() and all(row["ok"] for row in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
