"""Measure errors of released results: defaults, goals, mechanisms, an earlier version, and peers.

Run it with `make entrants PART=tune BEFORE=results/methods/fa440cd`.

Each method releases each table of a part (`tables.toml`) at six budgets, with two exceptions:

- The part `heavy` uses the default only. Each of its budgets is four times the previous budget.
- The part `former` uses the default, the default with the goal `frobenius`, and the earlier
  version's default.

`BEFORE` is the folder of an earlier version: use `git archive COMMIT`, then
`pip install --no-deps --target`. A cell is a table at a budget. The file
`results/methods-PART.json` keeps the errors of each cell by seed. The script does not repeat
releases that are in the file. The script `acceptance.py` summarises the errors.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from matrix_errors import captured, correlations, relative, ridge_error

from benchmark_tables import PARTS, Table, table_named
from results import Kept
from whole_matrix import PEERS, answer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

BUDGETS = [("epsilon", e) for e in (0.3, 1.0, 4.0)] + [("rho", r) for r in (0.05, 0.5, 8.0)]
FOURFOLD = [("epsilon", 4.0**k) for k in range(-1, 3)] + [("rho", 2 * 4.0**k) for k in range(-2, 2)]
FORMER = "former"  # the part of what the default before was made for, and of seconds
HEAVY = "heavy"  # the part of long tails: the default alone, and what it says of its means
PURE, RHO = {"nuclear-laplace", "matrix-laplace"}, {"gaussian", "preconditioned"}
MECHANISMS = ("standardized", "standardized-ladder", *sorted(PURE | RHO))
# Goals that change what is released.
GOALS = {
    "now": ("frobenius", "correlation", "regression"),
    "before": ("relative", "correlation", "regression"),
}
# What each asks for, at the kinds of budget that it takes.
METHODS: dict[str, dict[str, dict[str, str]]] = {
    **{of: {"epsilon": {}, "rho": {}} for of in GOALS},
    **{
        f"{of}, {goal}": {kind: {"goal": goal} for kind in ("epsilon", "rho")}
        for of, goals in GOALS.items()
        for goal in goals
    },
    "now, by column": {
        "epsilon": {"mechanism": "standardized"},
        "rho": {"mechanism": "standardized"},
    },
    "now, matrix": {"epsilon": {"mechanism": "matrix-laplace"}, "rho": {"mechanism": "gaussian"}},
    **{
        f"before, {name}": {
            kind: {"mechanism": name}
            for kind, others in (("epsilon", RHO), ("rho", PURE))
            if name not in others
        }
        for name in MECHANISMS
    },
    **{name: {kind: {} for kind in kinds} for name, kinds in PEERS.items()},
}
COMPARED = ("means", "correlation", "largest", "ols", "ridge", "relative", "frobenius")
ERRORS = ("count", "pca", *COMPARED)
# Methods of each part. Wide tables use only methods that need at most a minute for a release.
WIDE = [one for one in METHODS if not one.startswith("before, ")] + ["before, regression"]
FEW = {HEAVY: ["now"], FORMER: ["now", "now, frobenius", "before"]}
FEW |= dict.fromkeys(("wide-tune", "wide"), WIDE)
TARGETS, MOST = 3, 100.0  # number of regressed columns; largest error, in sampling errors
DIGITS = 6  # significant digits that the file keeps
Row = dict[str, Any]


class Truth(NamedTuple):
    """What a table itself has, in half-ranges of its bounds, and these in units of the data.

    `targets` and `regressors` are features: the first numbers, and all that vary but the most
    frequent level of each column.
    """

    rows: int
    means: Matrix
    covariance: Matrix
    units: Matrix
    targets: list[int]
    regressors: list[int]

    @classmethod
    def of(cls, table: Table) -> Truth:
        values = table.features()
        n, p = values.shape
        means, covariance = values.mean(axis=0), np.cov(values.T, bias=True).reshape(p, p)
        units, numbers, left = [], [], []
        for column in table.columns.values():
            at = len(units)
            if "levels" in column:
                units += [0.5] * len(column["levels"])
                left.append(at + int(np.argmax(means[at : len(units)])))
            else:
                units.append((column["upper"] - column["lower"]) / 2)
                numbers.append(at)
        regressors = [j for j in range(p) if j not in left and covariance[j, j] > 0]
        targets = [j for j in numbers if j in regressors] if len(regressors) > 1 else []
        return cls(n, means, covariance, np.array(units), targets[:TARGETS], regressors)

    @property
    def deviations(self) -> Matrix:
        return np.sqrt(np.diag(self.covariance))


def errors(answer: Any, truth: Truth) -> dict[str, float]:
    """Return the error of each kind, from a release's count, means and covariance."""
    count, means, covariance, *_ = answer
    means, whole = means / truth.units, covariance / np.outer(truth.units, truth.units)
    kept = truth.deviations > 0
    seen, true = whole[np.ix_(kept, kept)], truth.covariance[np.ix_(kept, kept)]
    deviations = truth.deviations[kept]
    off = (correlations(seen) - correlations(true))[np.triu_indices(len(true), 1)]
    return {
        "count": abs(count / truth.rows - 1),
        "means": _root_mean_square((means - truth.means)[kept] / deviations),
        "correlation": _root_mean_square(off),
        "largest": float(np.max(np.abs(off), initial=0)),
        "ols": _root_mean_square([ols(whole, truth, target) for target in truth.targets]),
        "ridge": ridge_error(seen, true),
        "relative": relative(seen - true, deviations**2),
        "pca": 1 - captured(seen, true) / captured(true, true) if len(true) > 1 else 0.0,
        "frobenius": float(np.linalg.norm(seen - true) / np.linalg.norm(true)),
    }


def ols(seen: Matrix, truth: Truth, target: int) -> float:
    """Return the error of the regression of a column on all others, in sampling standard errors."""
    others = [j for j in truth.regressors if j != target]
    here, true = np.ix_(others, others), truth.covariance
    inverse = np.linalg.pinv(true[here], hermitian=True)
    beta = inverse @ true[others, target]
    left = true[target, target] - beta @ true[others, target]
    found = np.linalg.pinv(seen[here], hermitian=True) @ seen[others, target]
    scale = np.sqrt(np.maximum(left * np.diag(inverse), 1e-12) / truth.rows)
    return min(MOST, _root_mean_square((found - beta) / scale))


def off(answer: Any, truth: Truth) -> dict[str, list[float]]:
    """Return the error of each mean and its stated error, in true deviations of the column."""
    _, means, _, _, stated = answer
    found = {"off": means / truth.units - truth.means, "stated": stated / truth.units}
    return {name: rounded(values / truth.deviations) for name, values in found.items()}


def rounded(values: Any) -> list[float]:
    return [float(f"{value:.{DIGITS}g}") for value in values]


def _root_mean_square(values: Any) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if len(values) else 0.0


def measured(job: tuple[str, str, str, tuple[int, ...], str | None]) -> list[Row]:
    """Return a row for each budget: a method's errors on a table, by seed.

    Budgets at which the method refuses have no row.
    """
    part, name, method, seeds, before = job
    table, kinds = table_named(name), METHODS[method]
    budgets = [at for at in (FOURFOLD if part == HEAVY else BUDGETS) if at[0] in kinds]
    asked = [{**kinds[kind], kind: size, "seed": seed} for kind, size in budgets for seed in seeds]
    if method.startswith(("now", "before")):
        answers = released(table, asked, before if method.startswith("before") else None, part)
    else:
        answers = [answer(method, name, one) for one in asked]
    rows, truth = [], Truth.of(table)
    for at, (kind, size) in enumerate(budgets):
        place = {"table": name, "method": method, "rows": len(table.frame), kind: size}
        found = answers[at * len(seeds) : (at + 1) * len(seeds)]
        words = sorted({one for one in found if isinstance(one, str)})
        rows.append({**place, "seeds": list(seeds), "refused": words})
        if not words:
            each = [errors(one, truth) for one in found]
            rows[-1] |= {error: rounded(one[error] for one in each) for error in ERRORS}
        if not words and part == FORMER:
            rows[-1]["seconds"] = rounded(one[3] for one in found)
        if not words and part == HEAVY:
            said = [off(one, truth) for one in found]
            rows[-1] |= {of: [one[of] for one in said] for of in ("off", "stated")}
    return rows


def released(table: Table, asked: list[Row], place: str | None, part: str) -> list[Any]:
    """Return the answers of the version that is installed in `place`, or of this version."""
    schema = table.declared(before=bool(place))
    ran = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("releases_of.py"))],
        input=pickle.dumps((table.frame, schema, asked, part == HEAVY)),
        env=os.environ | ({"PYTHONPATH": place} if place else {}),
        capture_output=True,
        check=True,
    )
    return list(pickle.loads(ran.stdout))  # noqa: S301 (written by `releases_of`)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--before", help="where the earlier version is installed")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--methods", nargs="*", choices=METHODS)
    parser.add_argument("--tables", nargs="*", help="only these")
    asked = parser.parse_args()
    there_are = [one for one in METHODS if asked.before or not one.startswith("before")]
    methods = asked.methods or FEW.get(asked.part, there_are)
    kept = Kept(f"methods-{asked.part}.json", f"make entrants PART={asked.part}")
    there = {(row["table"], row["method"], seed) for row in kept.go_on() for seed in row["seeds"]}
    jobs = []
    for table, method in product(asked.tables or PARTS[asked.part], methods):
        left = tuple(s for s in range(asked.seeds) if (table, method, s) not in there)
        jobs += [(asked.part, table, method, left, asked.before)] if left else []
    kept.pooled(measured, jobs)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
