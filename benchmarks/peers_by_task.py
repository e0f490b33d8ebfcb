"""Compare a release of dpcov with peers, task by task, at equal budgets and bounds.

The tasks are means, covariances, correlations, principal components, and regressions of one
column or of each column. One release of dpcov answers all tasks. A peer for one task spends its
whole budget on the task, and a peer for one regression divides its budget among the columns.

- Pure budgets protect a replaced row. The number of rows is public.
- Budgets of zCDP protect an added or removed row.

`make bench NAME=peers_by_task` runs the script in two hours, and ``PEERS=FOLDER`` adds the peers
of the Python files in a folder, in the form of `peer_methods.interface`. Packages that are not
installed are left out. A second run measures only what the results do not have yet.

A failed answer counts as an infinite error. The error of a cell is the median over the releases.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import pkgutil
import sys
import zlib
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from paper_methods import clipped

import dpcov
import peer_methods
from benchmark_tables import table_named
from peer_methods.interface import NoAnswer, Peer
from peers import within
from results import Kept, show
from ridge_comparison import ADULT_BOUNDS
from task_errors import PENALTY, Truth, leading, of_moments
from task_ratios import OURS, ratios

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

BUDGETS = [("epsilon", 1.0), ("epsilon", 4.0), ("rho", 0.05), ("rho", 0.5)]
RELEASES = 10
RELATION = {"epsilon": "replace-one", "rho": "add-remove"}
LIMIT = 600  # seconds for all releases of a method from one table at one budget
RIDGE = f"{OURS}, ridge"
TARGETS = {
    "wine": "x0",
    "airfoil": "x5",
    "adult numbers": "hours-per-week",
    "parkinsons": "total_UPDRS",
    "t with 5": "x7",
    "california-like": "price",
}
PACKAGES = ("diffprivlib", "opendp", "mbi", "binagg")
TASKS = ("means", "covariances", "correlations", "components", "one target", "all targets")


@cache
def rows_named(name: str) -> tuple[Matrix, int]:
    """Return the rows scaled by their declared bounds into [-1, 1], and the target's column."""
    table = table_named("adult hours" if name == "adult numbers" else name)
    names = list(ADULT_BOUNDS) if name == "adult numbers" else list(table.columns)
    scaled = []
    for column in names:
        low, high = table.columns[column]["lower"], table.columns[column]["upper"]
        cells = np.clip(table.frame[column].to_numpy(float), low, high)
        scaled.append(2 * (cells - low) / (high - low) - 1)
    return np.column_stack(scaled), names.index(TARGETS[name])


def peers_in(folder: str | None) -> list[Peer]:
    """Return the peers of `peer_methods` and of the Python files in a folder."""
    names = [found.name for found in pkgutil.iter_modules(peer_methods.__path__)]
    modules = [importlib.import_module(f"peer_methods.{name}") for name in names]
    for path in sorted(Path(folder).glob("*.py")) if folder else []:
        spec = importlib.util.spec_from_file_location(path.stem, path)
        modules.append(importlib.util.module_from_spec(spec))
        spec.loader.exec_module(modules[-1])
    return [peer for module in modules for peer in getattr(module, "PEERS", [])]


def ours(
    rows: Matrix, truth: Truth, kind: str, size: float, seed: int
) -> dict[str, dict[str, float]]:
    """Return the errors of one release of the default.

    The regressions are least squares, as the exact answers are, and ridge with its own penalty.
    """
    names = [f"x{j}" for j in range(rows.shape[1])]
    made = dpcov.release(
        pd.DataFrame(rows, columns=names),
        schema=dpcov.Schema.from_bounds(-1.0, 1.0, names),
        neighbors=RELATION[kind],
        seed=seed,
        **{kind: size},
    )

    def weights(target: int, alpha: float | None) -> Vector:
        draws = np.random.default_rng(seed)
        fit = dpcov.ridge(made, names[target], alpha, errors=False, generator=draws)
        return np.concatenate([[fit.intercept], fit.coefficients])

    found = of_matrix(truth, made.mean(), made.covariance(), partial(weights, alpha=0.0))
    chosen = partial(weights, alpha=None)
    ridge = {
        "one target": truth.of_regression(chosen(truth.target), truth.target),
        "all targets": of_all_targets(truth, chosen),
    }
    return {OURS: found, RIDGE: ridge}


def of_matrix(
    truth: Truth, means: Vector, covariance: Matrix, weights: Callable[[int], Vector]
) -> dict[str, float]:
    """Return the errors of all tasks of a method that releases a whole matrix."""
    return {
        "means": truth.of_means(means),
        "covariances": truth.of_covariance(covariance),
        "correlations": truth.of_correlations(covariance),
        "components": truth.of_components(leading(covariance, truth.count)),
        "one target": truth.of_regression(weights(truth.target), truth.target),
        "all targets": of_all_targets(truth, weights),
    }


def of_all_targets(truth: Truth, weights: Callable[[int], Vector]) -> float:
    """Return the mean error of the regressions of each column on all others."""
    targets = range(len(truth.means))
    return float(np.mean([truth.of_regression(weights(target), target) for target in targets]))


def theirs(
    peer: Peer, rows: Matrix, truth: Truth, size: float, generator: np.random.Generator
) -> dict[str, float]:
    """Return the errors of the tasks that a peer answers."""
    found: dict[str, float] = {}
    p = rows.shape[1]

    def weights(target: int, *, part: float) -> Vector:
        others = truth.others(target)
        return peer.regression(rows[:, others], rows[:, target], part, generator)

    def task(name: str, work: Callable[[], float]) -> None:
        try:
            found[name] = work()
        except (NoAnswer, np.linalg.LinAlgError):
            found[name] = np.inf

    if peer.matrix:
        try:
            means, covariance = peer.matrix(rows, size, generator)
            covariance = clipped(covariance, p)
            fit = partial(of_moments, means, covariance, penalty=PENALTY)
            found = of_matrix(truth, means, covariance, fit)
        except NoAnswer:
            found = dict.fromkeys(TASKS, np.inf)
    if peer.means:
        task("means", lambda: truth.of_means(peer.means(rows, size, generator)))
    if peer.components:
        count = truth.count
        task(
            "components",
            lambda: truth.of_components(peer.components(rows, count, size, generator)),
        )
    if peer.regression:
        one, each = partial(weights, part=size), partial(weights, part=size / p)
        task("one target", lambda: truth.of_regression(one(truth.target), truth.target))
        task("all targets", lambda: of_all_targets(truth, each))
    return found


def cell(job: tuple[str, str, float, Peer | None]) -> Iterator[dict[str, Any]]:
    """Yield a row for each task of a method on a table at a budget."""
    name, kind, size, peer = job
    rows, target = rows_named(name)
    truth = Truth.of(rows, target)
    releases = peer.releases if peer else RELEASES

    def answers(seed: int) -> dict[str, dict[str, float]]:
        if peer is None:
            return ours(rows, truth, kind, size, seed)
        return {peer.name: theirs(peer, rows, truth, size, np.random.default_rng(seed))}

    def runs() -> list[dict[str, dict[str, float]]]:
        numbers = [zlib.crc32(f"{name} {kind} {size} {run}".encode()) for run in range(releases)]
        return [answers(number) for number in numbers]

    where = {"table": name, "rows": len(rows), "columns": rows.shape[1], kind: size}
    wide = peer is not None and rows.shape[1] > peer.most_columns
    every = None if wide else within(LIMIT, runs)
    if every is None:
        yield {**where, "method": peer.name if peer else OURS, "task": None}
        return
    for method, found in every[0].items():
        for task in found:
            errors = [one[method][task] for one in every]
            yield {**where, "method": method, "task": task, **summary(errors)}


def summary(errors: list[float]) -> dict[str, Any]:
    """Return the median error, None if most answers failed, and the numbers of answers."""
    middle = float(np.median(errors))
    failed = int(np.sum(~np.isfinite(errors)))
    return {
        "error": middle if np.isfinite(middle) else None,
        "failed": failed,
        "releases": len(errors),
    }


def place(table: str, method: str, budget: dict[str, Any]) -> tuple[Any, ...]:
    """Return what identifies the rows of a job."""
    return table, method, budget.get("epsilon"), budget.get("rho")


def jobs(peers: list[Peer], tables: list[str]) -> Iterator[tuple[str, str, float, Peer | None]]:
    for name in tables:
        for kind, size in BUDGETS:
            yield name, kind, size, None
            yield from ((name, kind, size, peer) for peer in peers if peer.kind == kind)


def packages() -> list[dict[str, Any]]:
    """Return a row for each package that ran, with its version."""
    found = [name for name in PACKAGES if importlib.util.find_spec(name)]
    return [{"package": name, "version": version(name)} for name in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tables", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--peers", nargs="*", help="only these")
    asked = parser.parse_args()
    peers = peers_in(os.environ.get("PEERS"))
    peers = [peer for peer in peers if asked.peers is None or peer.name in asked.peers]
    kept = Kept("peers_by_task.json", "make bench NAME=peers_by_task")
    kept.rows = [row for row in kept.go_on() if "task" in row and "ratios" not in row]
    there = {place(row["table"], row["method"], row) for row in kept.rows}
    for job in jobs(peers, asked.tables):
        name, kind, size, peer = job
        if place(name, peer.name if peer else OURS, {kind: size}) not in there:
            kept.part(str(job[:3]), partial(cell, job))
    kept.part("ratios", lambda: ratios(kept.rows))
    kept.part("packages", packages)
    show("Error of dpcov over the error of a peer", [row for row in kept.rows if "ratios" in row])
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
