"""Measure how often the intervals of tables and of regressions cover the population.

    make bench NAME=answers [ARGS="--repeats 100"]

Each repetition draws a table from a known population and releases it. For tables, the script
computes `table1` by group and `crosstab`. For regressions, it computes `ols` with a formula that
has a factor and an interaction. It also computes three contrasts of the coefficients, and
predictions.

The script counts how often the 95% intervals for privacy noise and sampling cover the figures of
the population. It compares the median width of the intervals with the width of an ideal interval:
3.92 times the root mean square error of the figure. For the Wald test, the script tests the true
contrasts and counts how often the p-value is at least 0.05. Rows of regressions also state the
fraction of coefficients that dpcov flags as below the noise.

A coefficient without an interval has no answer: `ols` says that it is not estimable at this budget.
The coverage counts the answers, and *answered* is their fraction.

The script skips cells that an earlier run measured with at least as many releases.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import dpcov
from results import Kept, show

COUNTS = (2000, 20_000)
MORE = (*COUNTS, 200_000)  # for regressions: with 20,000 rows, noise hides many effects
EPSILONS = (0.3, 1.0)
REPEATS = 1000
LEVEL = 0.95
LOW, HIGH, WIDEST = 0.93, 0.97, 1.5  # Acceptable coverage, and largest ratio of the widths.
SHARES = np.array([0.5, 0.3, 0.2])  # Shares of the wards.
SMOKERS = np.array([0.2, 0.35, 0.5])  # Share of smokers in each ward.
AGES = np.array([40.0, 50.0, 62.0])  # Mean age in each ward.
DEVIATION = 10.0  # Standard deviation of the ages in a ward.
WARDS = ("a", "b", "c")
SCHEMA = {
    "version": 3,
    "columns": {
        "ward": {"kind": "categorical", "levels": list(WARDS), "missing": "none"},
        "smoker": {"kind": "flag", "missing": "none"},
        "age": {"kind": "number", "lower": 0, "upper": 110, "missing": "none"},
    },
}
FORMULA = "sbp ~ age + C(ward, ref='b') + smoker + age:smoker"
PRESSURES = {
    **SCHEMA,
    "columns": {
        **SCHEMA["columns"],  # type: ignore[dict-item]
        "sbp": {"kind": "number", "lower": 50, "upper": 240, "missing": "none"},
    },
    "derived": {"age_smoker": {"product": ["age", "smoker"]}},
}
EFFECTS = {  # true coefficients for the blood pressure
    "(intercept)": 90.0,
    "age": 0.5,
    "C(ward, ref='b')[T.a]": -3.0,
    "C(ward, ref='b')[T.c]": 2.0,
    "smoker": 4.0,
    "age:smoker": 0.1,
}
RESIDUAL = 12.0  # Standard deviation of the residuals.
CONTRASTS: list[dict[str, float]] = [
    {"C(ward, ref='b')[T.c]": 1, "C(ward, ref='b')[T.a]": -1},  # two levels
    {"age": 1, "age:smoker": 1},  # slope in smokers
    {"smoker": 1, "age:smoker": 50},  # effect of smoking at the age of 50
]
BELOW = "below noise"  # Key of the flags for coefficients below the noise level.
NEW = {"age": [35.0, 65.0], "ward": ["a", "c"], "smoker": [1.0, 0.0]}
# Values, lower ends and upper ends by name. For a test, the value is NaN. For flags, all three are
# the flags.
Figures = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Question:
    """Population, with the analyses of its releases and the true figures."""

    schema: dict[str, Any]
    drawn: Callable[[int, np.random.Generator], pd.DataFrame]
    truths: Callable[[int], dict[str, np.ndarray]]
    asked: Callable[[dpcov.Release], Figures]
    counts: tuple[int, ...] = COUNTS


def drawn(count: int, generator: np.random.Generator) -> pd.DataFrame:
    """Draw a table from the population."""
    ward = generator.choice(3, count, p=SHARES)
    smoker = (generator.random(count) < SMOKERS[ward]) * 1.0
    age = np.clip(generator.normal(AGES[ward], DEVIATION), 0, 110)
    return pd.DataFrame({"ward": np.array(WARDS)[ward], "smoker": smoker, "age": age})


def truths(count: int) -> dict[str, np.ndarray]:
    """Return the figures of the population. Counts are expected counts of `count` rows."""
    smoking = SHARES * SMOKERS
    cells = np.column_stack([SHARES - smoking, smoking])
    return {
        "mean by group": AGES,
        "share by group": SMOKERS,
        "size of a group": count * SHARES,
        "cell": count * cells,
        "row share": cells / cells.sum(axis=1, keepdims=True),
        "column share": cells / cells.sum(axis=0),
        "Cramer's V": np.array(_cramers_v(cells)),
    }


def _cramers_v(cells: np.ndarray) -> float:
    """Return Cramer's V of the shares of a table with two columns."""
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    return float(np.sqrt(np.sum((cells - expected) ** 2 / expected)))


def asked(release: dpcov.Release) -> Figures:
    """Return the figures of a release with the ends of their intervals."""
    table, cross = dpcov.table1(release, "ward"), dpcov.crosstab(release, "ward", "smoker")
    groups = [table.groups.index(ward) for ward in WARDS]
    age, smoker = (table.columns.index(name) for name in ("age", "smoker"))
    rows = [cross.row_labels.index(ward) for ward in WARDS]
    means = (table.values, table.lower, table.upper)
    found = {
        "mean by group": tuple(one[age, groups] for one in means),
        "share by group": tuple(one[smoker, groups] for one in means),
        "size of a group": tuple(
            one[groups] for one in (table.sizes, table.sizes_lower, table.sizes_upper)
        ),
    }
    for name, of in {
        "cell": "",
        "row share": "row_shares",
        "column share": "column_shares",
    }.items():
        names = [of or "counts", *(f"{of}_{end}".lstrip("_") for end in ("lower", "upper"))]
        found[name] = tuple(getattr(cross, one)[rows] for one in names)
    v = (cross.cramers_v, cross.cramers_v_lower, cross.cramers_v_upper)
    return found | {"Cramer's V": tuple(map(np.array, v))}  # type: ignore[return-value]


def with_pressures(count: int, generator: np.random.Generator) -> pd.DataFrame:
    """Draw a table with blood pressures from the population."""
    table = drawn(count, generator)
    noise = generator.normal(0, RESIDUAL, count)
    return table.assign(sbp=features(table) @ list(EFFECTS.values()) + noise)


def features(table: pd.DataFrame) -> np.ndarray:
    """Return the design matrix of the regression."""
    age, smoker = table["age"], table["smoker"]
    wards = [(table["ward"] == ward) * 1.0 for ward in ("a", "c")]
    return np.column_stack([np.ones(len(table)), age, *wards, smoker, age * smoker])


def true_regressions(_: int) -> dict[str, np.ndarray]:
    """Return the coefficients, contrasts and predictions of the population."""
    effects = list(EFFECTS.values())
    return {
        "OLS: number or flag": np.array([EFFECTS["age"], EFFECTS["smoker"]]),
        "OLS: level of a factor": np.array(effects[2:4]),
        "OLS: interaction": np.array([EFFECTS["age:smoker"]]),
        "OLS: contrast": combined(),
        "OLS: prediction": features(pd.DataFrame(NEW)) @ effects,
        "OLS: Wald test of contrasts": np.zeros(1),
    }


def combined() -> np.ndarray:
    """Return the true values of the contrasts."""
    return np.array([sum(w * EFFECTS[name] for name, w in one.items()) for one in CONTRASTS])


def regressed(release: dpcov.Release) -> Figures:
    """Return the figures of a regression with the ends of their intervals.

    The interval of the Wald test contains 0 if the test does not reject the true contrasts.
    """
    fit = dpcov.ols(release, FORMULA)
    ends = np.column_stack([fit.coefficients, fit.conf_int()])
    places = {name: ends[fit.names.index(name)] for name in EFFECTS}
    contrasts = [fit.contrast(one) for one in CONTRASTS]
    new = pd.DataFrame(NEW)
    predicted, reach = fit.predict(new), 1.96 * fit.prediction_errors(new)
    matrix = [[one.get(name, 0.0) for name in fit.names] for one in CONTRASTS]
    kept = fit.wald_test(np.array(matrix), combined().tolist()).p_value >= 1 - LEVEL
    end = np.array([np.inf if kept else -np.inf])
    names = list(EFFECTS)
    found = {
        "OLS: number or flag": [places["age"], places["smoker"]],
        "OLS: level of a factor": [places[name] for name in names[2:4]],
        "OLS: interaction": [places["age:smoker"]],
        "OLS: contrast": [[one.estimate, one.lower, one.upper] for one in contrasts],
    }
    columns = {name: tuple(np.array(rows).T) for name, rows in found.items()}
    columns["OLS: prediction"] = (predicted, predicted - reach, predicted + reach)
    columns["OLS: Wald test of contrasts"] = (np.full(1, np.nan), -end, end)
    assert fit.below_noise is not None
    columns[BELOW] = (fit.below_noise[1:],) * 3
    return columns  # type: ignore[return-value]


QUESTIONS = (
    Question(SCHEMA, drawn, truths, asked),
    Question(PRESSURES, with_pressures, true_regressions, regressed, MORE),
)


def measured(
    question: Question, count: int, epsilon: float, repeats: int
) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of figure."""
    schema, found = dpcov.Schema.parse(question.schema), list[Figures]()
    for seed in range(repeats):
        table = question.drawn(count, np.random.default_rng(seed))
        release = dpcov.release(table, schema=schema, epsilon=epsilon, seed=seed)
        found.append(question.asked(release))
    for name, truth in question.truths(count).items():
        value, low, high = (np.array([one[name][at] for one in found]) for at in range(3))
        answered = ~(np.isnan(low) | np.isnan(high))
        covered = np.ma.array((low <= truth) & (truth <= high), mask=~answered)
        below = np.mean([one[BELOW][0] for one in found]) if BELOW in found[0] else None
        share, width = float(covered.mean()), None
        if not np.isnan(value).all():
            error = np.sqrt(np.nanmean((value - truth) ** 2, axis=0))
            width = float(np.max(np.nanmedian(high - low, axis=0) / (3.92 * error)))
        yield {
            "n": count,
            "epsilon": epsilon,
            "figure": name,
            "releases": repeats,
            "answered": float(answered.mean()),
            "covered": share,
            "least covered": float(np.min(covered.mean(axis=0))),
            "width / ideal": width,
            **({} if below is None else {"below noise": float(below)}),
            "holds": LOW <= share <= HIGH and (width is None or width <= WIDEST),
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=REPEATS, help="releases in each cell")
    repeats = parser.parse_args().repeats
    options = "" if repeats == REPEATS else f' ARGS="--repeats {repeats}"'
    kept = Kept("answers.json", f"make bench NAME=answers{options}")
    cells = {
        (row["n"], row["epsilon"], row["figure"])
        for row in kept.go_on()
        if row["releases"] >= repeats
    }
    asked_cells = ((one, *cell) for one in QUESTIONS for cell in product(one.counts, EPSILONS))
    for question, count, epsilon in asked_cells:
        if (count, epsilon, list(question.truths(count))[-1]) in cells:
            continue  # an earlier run measured this cell
        kept.part(
            f"{count} {epsilon}",
            lambda q=question, n=count, e=epsilon: measured(q, n, e, repeats),
        )
    show("Coverage of 95% intervals for privacy noise and sampling", kept.rows)
    return int(not kept.done() or not all(row["holds"] for row in kept.rows))


if __name__ == "__main__":
    sys.exit(main())
