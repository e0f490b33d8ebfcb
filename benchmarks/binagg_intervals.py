"""Compare the regressions of dpcov and BinAgg: errors, intervals and coverage.

Both see the same rows, with the same bounds, at mu = 1 (rho = 0.5) under add-remove:

- The designs of BinAgg's authors have three features, no intercept and a known truth.
- The tables are populations. Each run draws as many rows with replacement, and the truth is the
  regression of the whole table.

BinAgg comes from its paper (`peer_methods.binagg`) and, if it is installed, from the package
`binagg` of its authors (github.com/Shuronglin/BinAgg). BinAgg fits the designs without an
intercept, as its authors do; dpcov fits an intercept.

dpcov states no interval, or marks it, if a feature could follow from the others within the noise
(`OLS.hidden`). Only the other intervals count for coverage and width, and `marked` is the fraction
of the coefficients without such an interval.

Least squares without privacy shows how far the classical intervals cover on the same rows: rows of
tables do not have residuals of equal variance.

`make bench NAME=binagg_intervals` runs the script for an hour and a half. With `--runs`, it makes
fewer runs; with `--methods`, it runs only some methods. The rows of other methods stay.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.special import stdtrit

import dpcov
from dpcov.errors import ReleaseError
from peer_methods import binagg, binagg_package
from peer_methods.interface import NoAnswer, with_intercept
from peers_by_task import TARGETS, rows_named
from results import Kept, show
from task_errors import of_moments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]
    Interval = tuple[Vector, Vector, Vector]

EXACT = "least squares without privacy"
MU = 1.0
RUNS = 1000
WEIGHTS = np.array([1.5, -2.0, 0.5])  # of the authors' designs; the error has deviation 1


@dataclass(frozen=True)
class Design:
    """Draws features and target; bounds of the features (2, k); the largest size of the target.

    `truth` has an intercept and k weights. `gram` is the mean product of a one and the features.
    """

    draw: Callable[[np.random.Generator], tuple[Matrix, Vector]]
    bounds: Matrix
    reach: float
    truth: Vector
    gram: Matrix
    intercept: bool

    def change(self, off: Vector) -> float:
        """Return the root mean square change of the predictions for errors of the coefficients."""
        gram = self.gram[-len(off) :, -len(off) :]
        return math.sqrt(off @ gram @ off)

    def regressors(self, features: Matrix) -> tuple[Matrix, Matrix]:
        """Return the columns of BinAgg's model and their bounds."""
        if not self.intercept:
            return features, self.bounds
        return with_intercept(features), np.column_stack([np.ones(2), self.bounds])


def simulated(
    draw: Callable[[np.random.Generator], Matrix], low: float, high: float, reach: float
) -> Design:
    """Return a design of the authors, with features in [low, high]."""

    def drawn(generator: np.random.Generator) -> tuple[Matrix, Vector]:
        features = draw(generator)
        target = features @ WEIGHTS + generator.normal(size=len(features))
        return np.clip(features, low, high), np.clip(target, -reach, reach)

    many = with_intercept(np.vstack([draw(np.random.default_rng(seed)) for seed in range(100)]))
    bounds = np.array([[low] * 3, [high] * 3])
    truth = np.concatenate([[0.0], WEIGHTS])
    return Design(drawn, bounds, reach, truth, many.T @ many / len(many), intercept=False)


def resampled(name: str) -> Design:
    """Return a design that draws rows of a table with replacement."""
    rows, at = rows_named(name)
    features, target = np.delete(rows, at, axis=1), rows[:, at]

    def drawn(generator: np.random.Generator) -> tuple[Matrix, Vector]:
        chosen = generator.integers(len(rows), size=len(rows))
        return features[chosen], target[chosen]

    truth = of_moments(rows.mean(axis=0), np.cov(rows.T, bias=True), at, 0.0)
    columns = with_intercept(features)
    bounds = np.array([[-1.0], [1.0]]) * np.ones(features.shape[1])
    return Design(drawn, bounds, 1.0, truth, columns.T @ columns / len(rows), intercept=True)


DESIGNS: dict[str, Callable[[], Design]] = {
    "normal features, 500 rows": lambda: simulated(
        lambda generator: generator.normal(1, 1, (500, 3)), -3, 5, 10
    ),
    "normal features, 2,000 rows": lambda: simulated(
        lambda generator: generator.normal(1, 1, (2000, 3)), -3, 5, 10
    ),
    "uniform features, 2,000 rows": lambda: simulated(
        lambda generator: generator.uniform(0, 10, (2000, 3)), 0, 10, 30
    ),
    **{name: partial(resampled, name) for name in TARGETS},
}


def ours(design: Design, features: Matrix, target: Vector, seed: int) -> Interval:
    """Return coefficients and 95% intervals of `dpcov.ols`, without ends for marked ones."""
    names = [f"x{j}" for j in range(features.shape[1])]
    low, high = np.column_stack([design.bounds, [-design.reach, design.reach]])
    made = dpcov.release(
        pd.DataFrame(np.column_stack([features, target]), columns=[*names, "y"]),
        schema=dpcov.Schema.from_bounds(list(low), list(high), [*names, "y"]),
        rho=MU**2 / 2,
        seed=seed,
    )
    try:
        fit = dpcov.ols(made, "y")
    except ReleaseError as error:
        raise NoAnswer(str(error)) from error
    unmarked = ~np.append(False, fit.hidden)
    low, high = (np.where(unmarked, ends, np.nan) for ends in (fit.lower, fit.upper))
    return fit.coefficients, low, high


def of_paper(design: Design, features: Matrix, target: Vector, seed: int) -> Interval:
    columns, bounds = design.regressors(features)
    generator = np.random.default_rng(seed)
    bins = binagg.aggregated(columns, (bounds[0], bounds[1]), target, design.reach, MU, generator)
    fit = binagg.fitted(bins)
    return fit.weights, *fit.interval()


def of_authors(design: Design, features: Matrix, target: Vector, seed: int) -> Interval:
    columns, bounds = design.regressors(features)
    found, interval = binagg_package.fitted(columns, bounds, target, design.reach, MU, seed)
    return found, *interval


def without_privacy(design: Design, features: Matrix, target: Vector, _: int) -> Interval:
    """Return coefficients and classical 95% intervals of least squares on the exact rows."""
    columns, _ = design.regressors(features)
    found = np.asarray(np.linalg.lstsq(columns, target)[0])
    degrees = len(target) - len(found)
    residual = float(np.sum((target - columns @ found) ** 2)) / degrees
    errors = np.sqrt(residual * np.diag(np.linalg.pinv(columns.T @ columns, hermitian=True)))
    reach = stdtrit(degrees, 0.975) * errors
    return found, found - reach, found + reach


METHODS: dict[str, Callable[[Design, Matrix, Vector, int], Interval]] = {
    "dpcov": ours,
    EXACT: without_privacy,
    "BinAgg": of_paper,
    **({"BinAgg (its authors' package)": of_authors} if binagg_package.INSTALLED else {}),
}


def measured(name: str, method: str, runs: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of a method on a design.

    The error of a run is the root mean square change of the predictions about the truth, or about
    the exact regression of the same rows. It counts as infinite if the method has no answer.
    """
    design = DESIGNS[name]()
    errors, private, covered, widths, marked = [], [], [], [], []
    for run in range(runs):
        rows, seed = (zlib.crc32(f"{name} {run} {of}".encode()) for of in ("rows", "noise"))
        features, target = design.draw(np.random.default_rng(rows))
        try:
            found, low, high = METHODS[method](design, features, target, seed)
        except (NoAnswer, np.linalg.LinAlgError):
            errors.append(math.inf)
            private.append(math.inf)
            continue
        truth = design.truth[-len(found) :]  # BinAgg has no intercept in the authors' designs
        exact = exact_of(features, target, intercept=len(found) == len(design.truth))
        errors.append(design.change(found - truth))
        private.append(design.change(found - exact))
        kept = slice(0 if design.intercept else -len(WEIGHTS), None)
        stated = ~np.isnan(low[kept])
        marked.append(~stated)
        covered += ((low <= truth) & (truth <= high))[kept][stated].tolist()
        widths += (high - low)[kept][stated].tolist()
    yield {
        "design": name,
        "method": method,
        "error": _median(errors),
        "privacy error": _median(private),
        "coverage": float(np.mean(covered)) if covered else None,
        "width": float(np.median(widths)) if widths else None,
        "marked": float(np.mean(marked)) if marked else None,
        "failed": runs - len(marked),
        "runs": runs,
    }


def exact_of(features: Matrix, target: Vector, *, intercept: bool) -> Vector:
    """Return the exact coefficients of the same model."""
    columns = with_intercept(features) if intercept else features
    return np.asarray(np.linalg.lstsq(columns, target)[0])


def _median(errors: list[float]) -> float | None:
    middle = float(np.median(errors))
    return middle if math.isfinite(middle) else None


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=list(METHODS))
    asked = parser.parse_args()
    command = "make bench NAME=binagg_intervals"
    if asked.runs != RUNS:
        command += f' ARGS="--runs {asked.runs}"'
    kept = Kept("binagg_intervals.json", command)
    chosen = list(product(asked.designs, asked.methods))
    kept.rows = [row for row in kept.go_on() if (row["design"], row["method"]) not in chosen]
    for name, method in chosen:
        kept.part(f"{name}, {method}", partial(measured, name, method, asked.runs))
    methods = ["dpcov", EXACT, "BinAgg"]  # the package of BinAgg's authors is the last one
    kept.rows.sort(
        key=lambda row: (
            list(DESIGNS).index(row["design"]),
            [*methods, row["method"]].index(row["method"]),
        )
    )
    show("Regressions of dpcov and BinAgg", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
