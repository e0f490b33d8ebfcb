"""Compare the predictions of `dpcov plan` with the errors of releases of real tables.

The script uses five public tables with bounds that a person would declare, and cuts each table at
random into halves. One half is known, as last year's table would be. The script makes real releases
of the other half: by the mechanism that `auto` chooses, and by `matrix-laplace`.
`make bench NAME=plan_calibration` runs it.

For each budget, the script makes five predictions:

- from the defaults;
- from one number for the spread and one number for the correlations;
- from a spread for each numeric column;
- from all assumptions that a plan accepts, including means and explained variances;
- from a release of the known half.

The assumptions stand for the knowledge of an expert. The script computes them from the known half
and rounds them to one digit (means to two digits). For the mechanism that `auto` chooses, the
script also compares the plan's range with the errors.

These tables are not an independent test of every default:

- The numeric defaults were tuned on the first four tables.
- All five tables influenced the shape of the simulated columns, the assumed means of columns with
  a narrow spread, and the assumed number of explained directions.
- No table influenced the spreads and tails of the range.

Eigenvalue errors vary strongly between releases, and other errors vary less. Each budget therefore
has its own 60 releases (48 for tables with many columns). A plan simulates 60 or 24 releases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from accuracy import RememberedRows
from datasets import (
    ADULT_COLUMNS,
    ADULT_NUMERIC,
    RAND,
    RAND_SCHEMA,
    adult_levels,
    adult_lines,
    airfoil,
    digits,
    found,
    here,
    wine,
)
from dpcov.api.plans import MAX_OTHER_TABLES, _Planner
from dpcov.api.plans.simulated import Assumptions
from dpcov.api.plans.trials import Errors, Trials, adds_noise, targets_of
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Budget, Neighbors, PureDP
from dpcov.core.steps import Steps
from dpcov.denoise import denoise
from dpcov.mechanisms import MatrixLaplace, Mechanism
from dpcov.mechanisms.choice import choose
from dpcov.releases import Release
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_source
from results import Kept, show

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
REPEATS, FEW_REPEATS = 60, 48
FACTOR = 1.3
KNOWN_EPSILON = 1e4  # of the release of the known half, which may be public
KINDS = ("defaults", "two numbers", "each column", "all numbers", "a release")
FIGURES = ("noise", "entry", "correlation", "eigenvalue", "prediction")

# What the documentation of each table says that its columns can hold.
WINE = [(10, 16), (0, 6), (1, 4), (10, 30), (50, 200), (0, 5), (0, 6), (0, 1), (0, 4), (0, 15),
        (0, 2), (1, 5), (0, 2000)]  # fmt: skip
AIRFOIL = [(0, 20_000), (0, 25), (0, 0.35), (0, 80), (0, 0.06), (90, 150)]
ADULT = [(15, 95), (0, 1_500_000), (0, 16), (0, 100_000), (0, 5000), (0, 100)]


@dataclass(frozen=True)
class Halves:
    """The half of a table that is known, and the one that is released."""

    known: RememberedRows
    rows: RememberedRows

    @classmethod
    def of(cls, table: pa.Table, schema: Schema) -> Halves:
        order = np.random.default_rng(0).permutation(len(table))
        middle = len(table) // 2
        return cls(
            *(
                RememberedRows(schema, open_source(table.take(at), FileOptions(), ()))
                for at in (order[:middle], order[middle:])
            )
        )


def numeric(table: Any, bounds: Sequence[tuple[float, float]]) -> Halves:
    names = [f"x{j}" for j in range(table.shape[1])]
    low, high = zip(*bounds, strict=True)
    schema = Schema.from_bounds(list(low), list(high), names)
    return Halves.of(pa.table(list(np.asarray(table, float).T), names), schema)


def mixed_adult() -> Halves:
    """Return six numeric and eight categorical columns: 108 features."""
    cells = [line.split(",") for line in adult_lines()]
    levels, bounds = adult_levels(), iter(ADULT)
    columns: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for j, name in enumerate(ADULT_COLUMNS[:-1]):
        texts = [row[j] for row in cells]
        if j in ADULT_NUMERIC:
            low, high = next(bounds)
            columns[name] = {"kind": "numeric", "lower": low, "upper": high}
            values[name] = np.array(texts, float)
        else:
            columns[name] = {"kind": "categorical", "levels": levels[name]}
            values[name] = texts
    return Halves.of(pa.table(values), Schema.parse({"columns": columns}))


def health() -> Halves:
    """Return the RAND health insurance table; the numeric defaults do not depend on it."""
    return Halves.of(pacsv.read_csv(found(RAND)), Schema.load(RAND_SCHEMA))


TABLES: dict[str, Callable[[], Halves]] = {
    "wine": lambda: numeric(wine(), WINE),
    "airfoil": lambda: numeric(airfoil(), AIRFOIL),
    "digits": lambda: numeric(digits(), [(0, 16)] * 64),
    "adult": mixed_adult,
    "health": health,
}


def guesses(rows: RememberedRows) -> dict[str, Assumptions]:
    """Return the compared assumptions, from the defaults to a release of the same kind of table."""
    schema, moment = rows.schema, rows.second_moments()[0]
    exact = moment.units.astype(float) * moment.lattice.step**2 / moment.unit_count
    encoded_means = exact[:-1, -1] / np.sqrt(exact[-1, -1])
    covariance = exact[:-1, :-1] - np.outer(encoded_means, encoded_means)
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    numbers = [j for j, feature in enumerate(schema.features) if not feature.is_indicator]
    spreads, means = {}, {}
    for j in numbers:
        feature = schema.features[j]
        lower, upper = feature.center - feature.scale, feature.center + feature.scale
        value = float(f"{feature.center + feature.scale * encoded_means[j]:.2g}")
        spreads[feature.name] = _share(deviations[j])
        means[feature.name] = min(max(value, lower), upper)
    vary = [j for j in numbers if deviations[j] > 0]
    typical = _share(np.sqrt(np.mean(deviations[vary] ** 2)))
    correlation = min(0.9, _digit(_typical_correlation(schema, covariance)))
    explained = min(0.9, _digit(_typically_explained(schema, covariance, vary)))
    known = PureDP(KNOWN_EPSILON)
    return {
        "defaults": Assumptions(),
        "two numbers": Assumptions(typical, correlation=correlation),
        "each column": Assumptions(typical, spreads, correlation),
        "all numbers": Assumptions(typical, spreads, correlation, means=means, explained=explained),
        "a release": Assumptions(like=_released(_automatic(schema, known), rows, known, 0)),
    }


def _typical_correlation(schema: Schema, covariance: Any) -> float:
    """Return the root mean square correlation of two columns, with the best scores for levels."""
    features = schema.features
    owned: dict[str, Any] = {}
    for column in schema.encoded_columns:
        at = [j for j, feature in enumerate(features) if feature.column == column]
        values, vectors = np.linalg.eigh(covariance[np.ix_(at, at)])
        shows = values > 1e-6 * max(values.max(), 1e-9)
        if shows.any():
            owned[column] = np.zeros((len(features), int(shows.sum())))
            owned[column][at] = vectors[:, shows] / np.sqrt(values[shows])
    squares = [
        np.linalg.norm(owned[first].T @ covariance @ owned[second], 2) ** 2
        for first, second in combinations(owned, 2)
    ]
    return float(np.sqrt(np.mean(squares)))


def _typically_explained(schema: Schema, covariance: Any, numbers: Sequence[int]) -> float:
    """Return the average R^2 of a numeric column's regression on all other columns."""
    shares = []
    for j in numbers:
        column = schema.features[j].column
        at = [k for k, feature in enumerate(schema.features) if feature.column != column]
        inverse = np.linalg.pinv(covariance[np.ix_(at, at)], rcond=1e-9, hermitian=True)
        shares.append(covariance[j, at] @ inverse @ covariance[at, j] / covariance[j, j])
    return float(np.mean(shares))


def _share(deviation: float) -> float:
    return float(np.clip(_digit(deviation), 0.01, 1.0))


def _digit(value: float) -> float:
    return float(f"{value:.1g}")


def measured(mechanism: Mechanism, rows: RememberedRows, budget: PureDP, repeats: int) -> Errors:
    """Return average errors of real releases."""
    moment = rows.second_moments()[0]
    first = 1000 * round(10 * budget.epsilon)  # other draws for each budget: no luck is shared
    releases = [_released(mechanism, rows, budget, first + seed) for seed in range(repeats)]
    trials = Trials(rows.schema, moment, moment.unit_count, targets_of(rows.schema, None))
    return trials.measured(releases)


def _released(mechanism: Mechanism, rows: RememberedRows, budget: Budget, seed: int) -> Release:
    made = mechanism(
        rows, budget=budget, neighbors=Neighbors.ADD_REMOVE, entropy=Entropy.seeded(seed)
    )
    return denoise(made, generator=simulation_generator(seed))


def _automatic(schema: Schema, budget: Budget) -> Mechanism:
    return choose(schema, budget, Neighbors.ADD_REMOVE).mechanism


def compared(name: str, halves: Halves, epsilon: float) -> Iterator[dict[str, Any]]:
    """Yield the ratios for the mechanism that `auto` chooses, and for `matrix-laplace`."""
    automatic = _automatic(halves.rows.schema, PureDP(epsilon))
    rows, supposed = halves.rows, guesses(halves.known)
    for mechanism in dict.fromkeys([automatic, MatrixLaplace()]):
        is_automatic = mechanism == automatic
        for cell in _ratios(mechanism, rows, epsilon, supposed, name, is_automatic):
            yield cell | {"automatic": is_automatic}


def _ratios(
    mechanism: Mechanism,
    rows: RememberedRows,
    epsilon: float,
    supposed: dict[str, Assumptions],
    name: str,
    is_automatic: bool,
) -> Iterator[dict[str, Any]]:
    repeats = FEW_REPEATS if len(rows.schema.features) > 40 else REPEATS
    budget, count = PureDP(epsilon), rows.second_moments()[0].unit_count
    facts = measured(mechanism, rows, budget, repeats)
    exact = adds_noise(mechanism.calibrate(rows.lattice(), budget, Neighbors.ADD_REMOVE))
    asked = "auto" if is_automatic else mechanism.name  # auto has options of its own
    for kind, guess in supposed.items():
        planner = _Planner(rows.schema, Neighbors.ADD_REMOVE, guess)
        made = planner.predicted(asked, budget, planner.trials(count), careful=True)
        errors, steps = made.errors, Steps(MAX_OTHER_TABLES)
        between = planner.between(made, asked, count, steps) if is_automatic else {}
        for figure in FIGURES:
            predicted, found = getattr(errors, figure), getattr(facts, figure)
            ratio = predicted / found
            yield {
                "dataset": name,
                "mechanism": mechanism.name,
                "epsilon": epsilon,
                "guess": kind,
                "figure": figure,
                "predicted": predicted,
                "measured": found,
                "ratio": ratio,
                "bar": FACTOR,
                "exact": exact and figure == "noise",
                "between": between.get(figure),
                "ok": bool(1 / FACTOR <= ratio <= FACTOR),
            }


def summary(cells: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Count the ratios within the factor, for each mechanism, set of assumptions and figure."""
    for title in ("automatic", "matrix-laplace"):
        yield title
        key = "automatic" if title == "automatic" else "mechanism"
        chosen = [cell for cell in cells if cell[key] in (True, title)]
        for kind in KINDS:
            for figure in FIGURES:
                ratios = np.array(
                    [
                        cell["ratio"]
                        for cell in chosen
                        if (cell["guess"], cell["figure"]) == (kind, figure)
                    ]
                )
                if not len(ratios):
                    continue
                close, rough = (np.mean((ratios >= 1 / f) & (ratios <= f)) for f in (FACTOR, 2.0))
                yield (
                    f"{kind:12} {figure:12} within a factor {FACTOR}: {close:4.0%}, 2: {rough:4.0%}"
                    f"   ratios {ratios.min():.2f} to {ratios.max():.2f}"
                )


def main() -> int:
    kept = Kept("plan_calibration.json", "make bench NAME=plan_calibration")
    for name, table in here(TABLES).items():
        halves = table()
        for epsilon in EPSILONS:
            kept.part(f"{name}, epsilon {epsilon:g}", partial(compared, name, halves, epsilon))
    cells = kept.rows
    show("Predicted over measured errors", cells)
    print("\n".join(summary(cells)))
    return int(not (kept.done() and all(cell["ok"] for cell in cells if cell["exact"])))


if __name__ == "__main__":
    sys.exit(main())
