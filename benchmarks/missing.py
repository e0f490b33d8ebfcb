"""Measure the cost of `missing = "pairwise"` beside a table with as many complete rows.

The script removes values at random from ten tables. It compares the error of a mean with a release
of complete rows, as many as the column has values left. It compares the error of a correlation with
a release of as many complete rows as the pair has left. Both errors are about the whole table. A
ratio of 1 is the best possible without more pairs. `midpoint` is the control: its errors do not
fall with the budget.

The thresholds use one mechanism on both tables, `standardized` by column, so they measure the cost
of missing cells. With complete rows, `auto` also estimates principal directions, which reduces the
noise of correlations. The ratios of `auto` therefore include this gain too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import datasets
import dpcov
from dpcov.rows.schema import Schema
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

ROWS = 10_000  # at least; small tables are repeated
SHARES = (0.05, 0.3, 0.6)
REPEATS = 16
# Number of columns with missing values (None: all), and the threshold for the geometric mean.
SETTINGS: dict[str, tuple[dict[str, Any], int | None, float | None]] = {
    "zCDP": ({"rho": 0.5, "mechanism": "standardized"}, None, 1.15),
    "pure": ({"epsilon": 1.0, "mechanism": "standardized"}, None, 1.5),
    "pure, two columns": ({"epsilon": 1.0, "mechanism": "standardized"}, 2, 1.1),
    "zCDP, auto": ({"rho": 0.5}, None, None),
    "pure, auto": ({"epsilon": 1.0}, None, None),
}


def _normal(correlation: Matrix, means: float, scale: float = 1.0) -> Matrix:
    draws = np.random.default_rng(7).standard_normal((ROWS, len(correlation)))
    return means + scale * draws @ np.linalg.cholesky(correlation).T


def pair() -> Matrix:
    """Simulate a pair of columns with correlation 0.61 and a mean of 6.03 between 0 and 20."""
    return _normal(np.array([[1, 0.61], [0.61, 1]]), 6.03, 1.2)


def alike() -> Matrix:
    return _normal(np.full((5, 5), 0.5) + np.eye(5) / 2, 0.0)


def chain() -> Matrix:
    at = np.arange(10)
    return _normal(0.7 ** np.abs(at[:, None] - at), 0.0)


def skewed() -> Matrix:
    at = np.arange(6)
    return np.exp(_normal(0.6 ** np.abs(at[:, None] - at), 0.0, 0.6))


TABLES: dict[str, Callable[[], Matrix]] = {
    "pair": pair,
    "alike": alike,
    "chain": chain,
    "skewed": skewed,
    "adult": lambda: datasets.adult()[:, :6],
    "airfoil": datasets.airfoil,
    "telemonitoring": lambda: datasets.telemonitoring()[:, :10],
    "wine": datasets.wine,
    "breast cancer": lambda: datasets.breast_cancer()[:, :8],
    "diabetes": datasets.diabetes,
}


def bounded(table: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Return enough rows, and bounds that are wider than the values by half."""
    table = np.tile(table, (-(-ROWS // len(table)), 1))
    low, high = table.min(axis=0), table.max(axis=0)
    return table, low - 0.1 * (high - low), high + 0.4 * (high - low)


class Setting:
    """A table with gaps and its complete equals, released under a budget."""

    def __init__(self, name: str, share: float, setting: str) -> None:
        self.asked, columns, _ = SETTINGS[setting]
        self.table, self.low, self.high = bounded(TABLES[name]())
        p = self.table.shape[1]
        self.gaps = np.where(np.arange(p) < (p if columns is None else columns), share, 0.0)
        self.truth = self.table.mean(axis=0), np.corrcoef(self.table, rowvar=False)

    def errors(self, table: Matrix, missing: str, seed: int) -> tuple[Matrix, Matrix]:
        """Return absolute errors of (p,) means, in half-ranges, and of (p, p) correlations."""
        names = [f"x{j}" for j in range(table.shape[1])]
        columns = {
            name: {
                "kind": "numeric",
                "lower": low,
                "upper": high,
                "missing": missing if gap else "midpoint",
            }
            for name, low, high, gap in zip(names, self.low, self.high, self.gaps, strict=True)
        }
        made = dpcov.release(
            pa.table(dict(zip(names, table.T, strict=True))),
            schema=Schema.parse({"columns": columns}),
            seed=seed,
            **self.asked,
        )
        means = np.abs(made.mean() - self.truth[0]) / (self.high - self.low) * 2
        return means, np.abs(made.correlation() - self.truth[1])

    def with_gaps(self, missing: str, seed: int) -> tuple[Matrix, Matrix]:
        draws = np.random.default_rng(seed)
        table = np.where(draws.random(self.table.shape) < self.gaps, np.nan, self.table)
        return self.errors(table, missing, seed)

    def complete(self, seed: int) -> tuple[Matrix, Matrix]:
        """Return each error from as many complete rows as its column or pair has."""
        draws, kept = np.random.default_rng(seed), 1 - self.gaps
        of_pairs = np.outer(kept, kept)
        np.fill_diagonal(of_pairs, kept)
        means, related = np.empty(len(kept)), np.empty(of_pairs.shape)
        for share in np.unique(of_pairs):
            rows = draws.permutation(len(self.table))[: round(share * len(self.table))]
            found = self.errors(self.table[rows], "midpoint", seed)
            means[kept == share] = found[0][kept == share]
            related[of_pairs == share] = found[1][of_pairs == share]
        return means, related


def measured(job: tuple[str, float, str]) -> list[dict[str, Any]]:
    setting = Setting(*job)
    ways: dict[str, Callable[[int], tuple[Matrix, Matrix]]] = {
        "pairwise": lambda seed: setting.with_gaps("pairwise", seed),
        "midpoint": lambda seed: setting.with_gaps("midpoint", seed),
        "complete": setting.complete,
    }
    below = np.tril_indices(len(setting.gaps), -1)
    touched = setting.gaps > 0
    pairs = (touched[:, None] | touched)[below]
    sizes: dict[str, tuple[float, float]] = {}
    for way, errors in ways.items():
        found = [errors(1000 + seed) for seed in range(1 if way == "midpoint" else REPEATS)]
        sizes[way] = (
            float(np.mean([means[touched] for means, _ in found])),
            float(np.mean([related[below][pairs] for _, related in found])),
        )
    name, share, kind = job
    return [
        {
            "table": name,
            "missing": share,
            "setting": kind,
            "of": what,
            **{way: size[at] for way, size in sizes.items()},
            "ratio": sizes["pairwise"][at] / sizes["complete"][at],
            "midpoint's ratio": sizes["midpoint"][at] / sizes["complete"][at],
        }
        for at, what in enumerate(("mean", "correlation"))
    ]


def summary(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for setting, (_, _, most) in SETTINGS.items():
        here = [row for row in rows if row["setting"] == setting]
        row: dict[str, Any] = {"setting": setting}
        for ratio in ("ratio", "midpoint's ratio"):
            row[ratio] = float(np.exp(np.mean([np.log(one[ratio]) for one in here])))
        kept = most is None or row["ratio"] <= most < row["midpoint's ratio"]
        found.append(row | {"bar": most or "none", "ok": kept})
    return found


def main() -> int:
    kept = Kept("missing.json", "make bench NAME=missing")
    jobs = [(n, s, kind) for n in datasets.here(TABLES) for s in SHARES for kind in SETTINGS]
    kept.pooled(measured, jobs)
    show("Error / error with as many complete rows", kept.rows)
    means = summary(kept.rows)
    show("Geometric means", means)
    return int(not (kept.done() and all(row["ok"] for row in means)))


if __name__ == "__main__":
    sys.exit(main())
