"""How often the intervals of a release hold the truth, where they say that they can be trusted.

Tables are the populations; samples are drawn from them with replacement. Intervals for the privacy
noise are held against the sample's own statistics, those for sampling too against the table's.
`make interval-coverage` runs it.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

import datasets
from dpcov.analysis.intervals import several_intervals
from dpcov.analysis.ols import ols
from dpcov.analysis.statistics import NAMED, Coefficients, Statistic, eigenvalues
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, Budget, Neighbors, PureDP
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError
from dpcov.mechanisms import Gaussian, MatrixLaplace, Mechanism, Standardized
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows
from results import Kept, show, write

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]
    Population = tuple[Matrix, Schema, Coefficients]

COUNTS = (200, 2000, 50_000)
EPSILONS = (0.1, 0.5, 1.0, 4.0)
REPEATS = 20
LEVEL, BAR = 0.95, (0.93, 0.97)
POOLED = ("family", "statistic", "covers")
FEWEST = 60  # trusted intervals, at least in a third of the releases, for a verdict
STATISTICS: dict[str, Statistic] = {
    **NAMED,
    "eigenvalues of correlations": eigenvalues(correlation=True),
}

WINE_BOUNDS = [
    *((11, 15), (0, 6), (1, 4), (10, 30), (70, 170), (0, 4), (0, 6)),
    *((0, 0.7), (0, 4), (1, 14), (0.4, 2), (1, 4), (200, 1800)),
]
AIRFOIL_BOUNDS = [(0, 20_000), (0, 25), (0, 0.35), (30, 75), (0, 0.06), (100, 145)]
ADULT_BOUNDS = {
    "age": (0, 100),
    "education-num": (0, 20),
    "hours-per-week": (0, 100),
    "capital-gain": (0, 100_000),
}


def wine() -> Population:
    return _numeric(datasets.wine(), WINE_BOUNDS, Coefficients("x0", ("x5", "x9", "x12")))


def airfoil() -> Population:
    return _numeric(datasets.airfoil(), AIRFOIL_BOUNDS, Coefficients("x5", None))


def synthetic() -> Population:
    """Eight columns with three common factors; two are skewed, one is nearly constant."""
    generator = np.random.default_rng(1)
    factors = generator.standard_normal((100_000, 3))
    table = factors @ generator.standard_normal((3, 8)) + generator.standard_normal((100_000, 8))
    table /= 4 * table.std(axis=0)
    table[:, 6:] = np.exp(3 * table[:, 6:]) / 5 - 1
    table[:, 5] /= 5
    return _numeric(np.clip(table, -1, 1), [(-1, 1)] * 8, Coefficients("x0", None))


def adult() -> Population:
    """Four numeric columns and two categorical ones."""
    cells = [line.split(",") for line in datasets.adult_lines()]
    names = datasets.ADULT_COLUMNS
    numeric = [[float(row[names.index(name)]) for row in cells] for name in ADULT_BOUNDS]
    married = [float(row[5].startswith("Married")) for row in cells]
    rich = [float(row[14].startswith(">")) for row in cells]
    declared: dict[str, Any] = {
        name: {"kind": "numeric", "lower": low, "upper": high}
        for name, (low, high) in ADULT_BOUNDS.items()
    }
    for name in ("married", "income"):
        declared[name] = {"kind": "categorical", "levels": [0, 1]}
    schema = Schema.parse({"columns": declared})
    regression = Coefficients("hours-per-week", ("age", "education-num", "income"))
    return np.array([*numeric, married, rich]).T, schema, regression


def _numeric(table: Matrix, bounds: list[Any], regression: Coefficients) -> Population:
    low, high = zip(*bounds, strict=True)
    names = [f"x{j}" for j in range(table.shape[1])]
    return table, Schema.from_bounds(low, high, names), regression


TABLES: dict[str, Callable[[], Population]] = {
    "wine": wine,
    "airfoil": airfoil,
    "adult": adult,
    "synthetic": synthetic,
}


def mechanisms(epsilon: float) -> Iterator[tuple[str, Mechanism, Budget, Neighbors]]:
    """Families of mechanisms, each for a pure budget and for zCDP."""
    pure, rho = PureDP(epsilon), ZCDP(epsilon**2 / 2)
    yield "one matrix", MatrixLaplace(), pure, Neighbors.ADD_REMOVE
    yield "one matrix", Gaussian(), rho, Neighbors.REPLACE_ONE
    yield "standardized", Standardized(), pure, Neighbors.ADD_REMOVE
    yield "standardized", Standardized(), rho, Neighbors.REPLACE_ONE


def exact(rows: Rows) -> Matrix:
    """(d, d) second moment with an intercept of 1."""
    moment = rows.second_moments()[0]
    made = moment.units.astype(float) * moment.lattice.step**2
    return _with_intercept(made, 1 / (moment.lattice.intercept_units * moment.lattice.step))


def _with_intercept(moment: Matrix, intercept: float) -> Matrix:
    """The intercept of a moment multiplied."""
    weights = np.append(np.ones(len(moment) - 1), intercept)
    return moment * np.outer(weights, weights)


def repeat(
    release: Release, sample: Matrix, population: Matrix, regression: Coefficients, seed: int
) -> Iterator[tuple[str, str, dict[str, Matrix]]]:
    """For each statistic and each kind of interval: what is covered, trusted, and how wide."""
    statistics = STATISTICS | {"coefficients": regression}
    for sampling, moment in ((False, sample), (True, population)):
        found = several_intervals(
            release,
            list(statistics.values()),
            LEVEL,
            sampling,
            generator=simulation_generator(seed),
        )
        for (name, statistic), made in zip(statistics.items(), found, strict=True):
            own = _with_intercept(moment, release.intercept())
            exactly = statistic.values(release, own[None])[0]
            truth = statistic.shaped(release, np.clip(exactly, *statistic.limits(release)))
            once = np.ones(truth.shape, bool)
            if truth.ndim == 2:
                once = np.tril(once, -1 if name == "correlation" else 0)
            rounding = 1e-9 * np.abs(truth)
            covered = (made.low - rounding <= truth) & (truth <= made.high + rounding)
            width = made.high - made.low
            kept = {"covered": covered[once], "trusted": made.trusted[once], "width": width[once]}
            yield name, made.covers, kept
    with suppress(ReleaseError):  # it refuses what the noise leaves open
        fit = ols(release, regression.target, regression.features)
        own = _with_intercept(population, release.intercept())
        truth = regression.values(release, own[None])[0]
        covered = (fit.lower <= truth) & (truth <= fit.upper)
        kept = {"covered": covered, "trusted": fit.trusted, "width": fit.upper - fit.lower}
        yield "OLS", "privacy noise and sampling", kept


def cell(job: tuple[str, int, float]) -> list[dict[str, Any]]:
    """Rows of the table for a data set, a number of rows and an epsilon."""
    dataset, count, epsilon = job
    table, schema, regression = TABLES[dataset]()
    names = tuple(schema.columns)
    population = exact(Rows(schema, ArraySource(table, names)))
    rows = []
    for family, mechanism, budget, neighbors in mechanisms(epsilon):
        kind = f"{'pure' if isinstance(budget, PureDP) else 'zcdp'}, {mechanism.name}"
        runs: dict[tuple[str, str], list[dict[str, Matrix]]] = {}
        refused = 0
        for seed in range(REPEATS):
            number = zlib.crc32(f"{job} {kind} {seed}".encode())
            chosen = np.random.default_rng(number).integers(len(table), size=count)
            door = Rows(schema, ArraySource(table[chosen], names))
            entropy = Entropy.seeded(number)
            made = mechanism(door, budget=budget, neighbors=neighbors, entropy=entropy)
            if made.published is None:
                refused += 1
                continue
            release = denoise(made, generator=simulation_generator(seed))
            for name, covers, kept in repeat(release, exact(door), population, regression, seed):
                runs.setdefault((name, covers), []).append(kept)
        for (name, covers), kept_runs in runs.items():
            place = {"dataset": dataset, "n": count, "budget": f"{kind} {epsilon:g}"}
            place |= {"family": family, "statistic": name, "covers": covers}
            rows.append({**place, **summary(kept_runs)})
            rows[-1]["refused"] = refused / REPEATS
    return rows


def summary(runs: list[dict[str, Matrix]]) -> dict[str, Any]:
    """Coverage of trusted intervals; the standard error takes those of a release as dependent."""
    covered, trusted = (np.array([run[key] for run in runs]) for key in ("covered", "trusted"))
    width = np.array([run["width"] for run in runs])
    number = trusted.sum(axis=1)
    share = se = None
    if number.sum():
        share = float((covered & trusted).sum() / number.sum())
        residuals = (covered & trusted).sum(axis=1) - share * number
        binomial = LEVEL * (1 - LEVEL) / number.sum()
        se = float(np.sqrt(max(np.sum(residuals**2) / number.sum() ** 2, binomial)))
    enough = number.sum() >= FEWEST and np.mean(number > 0) >= 1 / 3
    ok = None
    if share is not None and se is not None and enough:
        ok = bool(BAR[0] - 2 * se <= share <= BAR[1] + 2 * se)
    return {
        "trusted": float(trusted.mean()),
        "coverage": share,
        "se": se,
        "intervals": int(number.sum()),
        "width": float(width[trusted].mean()) if number.sum() else None,
        "others": float(covered[~trusted].mean()) if (~trusted).any() else None,
        "ok": ok,
    }


def pooled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Coverage of each statistic over cells, each trusted interval counting once.

    Over all numbers of rows (`n` None), and for each.
    """
    found = []
    alike: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        alike.setdefault(tuple(row[name] for name in POOLED), []).append(row)
    for n in (None, *COUNTS):
        for key, all_counts in alike.items():
            own = [row for row in all_counts if n in (None, row["n"])]
            cells = [row for row in own if row["intervals"]]
            if not cells:
                continue
            weights = np.array([row["intervals"] for row in cells], float)
            weights /= weights.sum()
            judged = [row for row in cells if row["ok"] is not None]
            coverage = float(weights @ [row["coverage"] for row in cells])
            se = float(np.sqrt(np.sum((weights * [row["se"] for row in cells]) ** 2)))
            others = [row["others"] for row in own if row["others"] is not None]
            found.append(
                {
                    **dict(zip(POOLED, key, strict=True)),
                    "n": n,
                    "trusted": float(np.mean([row["trusted"] for row in own])),
                    "coverage": coverage,
                    "se": se,
                    "intervals": sum(row["intervals"] for row in cells),
                    "others": float(np.mean(others)) if others else None,
                    "cells judged": len(judged),
                    "cells outside": sum(not row["ok"] for row in judged),
                    "ok": BAR[0] <= coverage <= BAR[1] if judged else None,
                }
            )
    return found


def main() -> int:
    names = datasets.here(TABLES)
    kept = Kept("interval_coverage_cells.json", "make interval-coverage")
    kept.pooled(cell, product(names, COUNTS, EPSILONS))
    rows = kept.rows
    show("Cells outside the bar", [row for row in rows if row["ok"] is False] or rows[:1])
    totals = pooled(rows)
    show("Coverage of 95 % intervals that are trusted", totals)
    if not kept.done():
        return 1
    write("interval_coverage.json", "make interval-coverage", totals)
    warned = Standardized.name  # its intervals say that they don't know what its radius takes
    judged = [row for row in totals if row["n"] is None and row["family"] != warned]
    return int(not all(row["ok"] for row in judged))


if __name__ == "__main__":
    sys.exit(main())
