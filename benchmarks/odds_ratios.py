"""Compare odds ratios from a second moment with a logistic regression of the table.

    make bench NAME=odds_ratios

A flag y has the least-squares slopes b, the share p and the R-squared R2. Discriminant analysis
gives the log odds ratios b / (p (1 - p) (1 - R2)). They are exact for features that are normal with
the same covariance in both classes. The quadratic Chebyshev approximation of the logistic loss on
[-6, 6] gives a fixed multiple of b.

Each row is a feature. Odds ratios of numbers are for one standard deviation. `from the moment` uses
the exact second moment, so it has no privacy noise. `private` is the median of releases with
epsilon 1. `covered` counts how often the private 95% interval for noise and sampling contains the
odds ratio of the logistic regression. The last table is the control: its features are normal in
both classes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd
import statsmodels.api as sm

import dpcov
from datasets import ADULT_COLUMNS, RAND, adult_lines, found
from results import Kept, show

REPEATS, EPSILON = 20, 1.0
LIMIT = 6.0  # Largest linear predictor of the Chebyshev approximation.
Bounds = dict[str, tuple[float, float] | None]  # None for a flag; the first name is the target


def adult() -> tuple[pd.DataFrame, Bounds]:
    """Return who earns more than 50,000 dollars."""
    cells = pd.DataFrame([line.split(",") for line in adult_lines()], columns=ADULT_COLUMNS)
    married = cells["marital-status"].str.startswith("Married")
    frame = {
        "income": cells["income"] == ">50K",
        "age": cells["age"],
        "education": cells["education-num"],
        "hours": cells["hours-per-week"],
        "female": cells["sex"] == "Female",
        "married": married,
    }
    bounds: Bounds = {"age": (15, 95), "education": (1, 16), "hours": (0, 100)}
    return pd.DataFrame(frame).astype(float), _with_flags(frame, bounds)


def rand() -> tuple[pd.DataFrame, Bounds]:
    """Return who visited a doctor in the year."""
    cells = pd.read_csv(found(RAND))
    names = {"lncoins": "coinsurance", "disea": "diseases", "hlthg": "good", "hlthf": "fair"}
    frame = cells[[*names]].rename(columns=names)
    frame.insert(0, "visit", cells["mdvis"] > 0)
    return frame.astype(float), _with_flags(frame, {"coinsurance": (0, 5), "diseases": (0, 60)})


def visits() -> tuple[pd.DataFrame, Bounds]:
    """Return which patients visited the department for diabetes."""
    with (files("dpcov.cli.demo") / "visits.csv.gz").open("rb") as file:
        cells = pd.read_csv(file, compression="gzip").drop_duplicates("patient")
    frame = cells[["age", "bmi", "hba1c", "smoker"]]
    frame.insert(0, "diabetes", cells["department"] == "diabetes")
    bounds: Bounds = {"age": (18, 110), "bmi": (12, 60), "hba1c": (4, 12)}
    return frame.astype(float), _with_flags(frame, bounds)


def normal() -> tuple[pd.DataFrame, Bounds]:
    """Return two classes with normal features."""
    generator, count = np.random.default_rng(1), 20_000
    flag = (generator.random(count) < 0.3) * 1.0
    rows = generator.multivariate_normal([0, 0, 0], 0.3 + 0.7 * np.eye(3), count)
    rows = np.clip(rows + flag[:, None] * [1.0, 0.5, 0.0], -6, 6)
    frame = pd.DataFrame(np.column_stack([flag, rows]), columns=["y", "x1", "x2", "x3"])
    return frame, _with_flags(frame, dict.fromkeys(("x1", "x2", "x3"), (-6.0, 6.0)))


def _with_flags(frame: Any, bounds: Bounds) -> Bounds:
    return {name: bounds.get(name) for name in frame}


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, Bounds]]] = {
    "Adult": adult,
    "RAND": rand,
    "visits": visits,
    "normal classes": normal,
}


def chebyshev_factor() -> float:
    """Return the factor of least squares that maximises the quadratic approximation."""
    nodes = LIMIT * np.cos(np.pi * (np.arange(1000) + 0.5) / 1000)
    fitted = np.polynomial.chebyshev.Chebyshev.fit(
        nodes, np.logaddexp(0, -nodes), 2, domain=[-LIMIT, LIMIT]
    )
    _, slope, square = fitted.convert(kind=np.polynomial.Polynomial).coef
    return float(-slope / square)  # of slopes for a target 0 or 1


def log_odds(means: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Return the log odds ratios by discriminant analysis. The target is the first column."""
    slopes = np.linalg.solve(covariance[1:, 1:], covariance[0, 1:])
    left = means[0] * (1 - means[0]) - slopes @ covariance[0, 1:]
    return np.asarray(slopes / left)


def schema_of(bounds: Bounds) -> dpcov.Schema:
    flag = {"kind": "flag", "missing": "none"}
    columns = {
        name: flag
        if ends is None
        else {"kind": "number", "lower": ends[0], "upper": ends[1], "missing": "none"}
        for name, ends in bounds.items()
    }
    return dpcov.Schema.parse({"version": 3, "columns": columns})


def measured(name: str) -> Iterator[dict[str, Any]]:
    """Yield a row for each feature of a table."""
    frame, bounds = TABLES[name]()
    for column, ends in bounds.items():
        if ends is not None:
            frame[column] = frame[column].clip(*ends)
    units = np.array(
        [1.0 if bounds[one] is None else frame[one].std() for one in frame.columns[1:]]
    )
    fit = sm.Logit(frame.iloc[:, 0], sm.add_constant(frame.iloc[:, 1:])).fit(disp=0)
    covariance = np.cov(frame.T, ddof=0)
    exact = log_odds(frame.mean().to_numpy(), covariance)
    slopes = np.linalg.solve(covariance[1:, 1:], covariance[0, 1:])
    schema, private, covered = schema_of(bounds), [], []
    for seed in range(REPEATS):
        release = dpcov.release(frame, schema=schema, epsilon=EPSILON, seed=seed)
        order = [release.columns.index(one) for one in frame.columns]

        def of(means: np.ndarray, moments: np.ndarray, at: list[int] = order) -> np.ndarray:
            return log_odds(means[at], moments[np.ix_(at, at)])

        value = of(release.mean(), release.covariance())
        private.append(value)
        reach = 1.96 * dpcov.standard_errors(release, of)
        covered.append(np.abs(value - fit.params.iloc[1:]) <= reach)
    ratios = {
        "logistic regression": fit.params.iloc[1:],
        "lower": fit.conf_int().iloc[1:, 0],
        "upper": fit.conf_int().iloc[1:, 1],
        "from the moment": exact,
        "Chebyshev": chebyshev_factor() * slopes,
        "private": np.median(private, axis=0),
    }
    for at, feature in enumerate(frame.columns[1:]):
        row: dict[str, Any] = {"table": name, "n": len(frame), "flag": frame.columns[0]}
        row["feature"] = feature
        row |= {key: float(np.exp(units[at] * np.asarray(one)[at])) for key, one in ratios.items()}
        row["releases"], row["covered"] = REPEATS, float(np.mean(covered, axis=0)[at])
        yield row


def main() -> int:
    kept = Kept("odds_ratios.json", "make bench NAME=odds_ratios")
    for name in TABLES:
        kept.part(name, lambda name=name: measured(name))  # type: ignore[misc]
    show("Odds ratios", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
