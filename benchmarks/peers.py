"""Compare the second moment with other libraries, at the same epsilon and bounds.

The error is the mean of ||C_hat - C||_F / n, with pure differential privacy under replace-one. Rows
are divided by the largest norm, which counts as public for all libraries.

Two libraries release a d x d matrix by Amin et al. 2019: noisy eigenvalues, then eigenvectors one
by one.

``python benchmarks/peers.py`` runs the script in an hour and skips libraries that are not
installed. ``--ours`` measures only dpcov and keeps the other errors of the last published run.
diffprivlib 0.6.6 needs scikit-learn below 1.7. OpenDP needs its extra scikit-learn.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import queue
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accuracy import defaults
from datasets import PUBLISHED as TABLES
from datasets import rows_over_largest_norm
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import Neighbors
from dpcov.denoise import best_estimate, denoise
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows
from results import Kept, show, write

Matrix = NDArray[np.float64]
Release = Callable[[Matrix, float, int], Matrix]

PUBLISHED = Path(__file__).parents[1] / "docs" / "results" / "peers.json"
EPSILONS = (0.1, 1.0, 4.0)
REPEATS = 20
LIMIT = 100  # seconds for one release


def dpcov_release(table: Matrix, epsilon: float, seed: int, method: str = "shrink") -> Matrix:
    names = tuple(f"x{j}" for j in range(table.shape[1]))
    schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)
    rows = Rows(schema, ArraySource(table, names))
    _, mechanism, budget = next(defaults(rows, epsilon))
    entropy = Entropy.seeded(seed)
    made = mechanism(rows, budget=budget, neighbors=Neighbors.REPLACE_ONE, entropy=entropy)
    return best_estimate(denoise(made, method, generator=simulation_generator(seed)))


def dpcov_as_drawn(table: Matrix, epsilon: float, seed: int) -> Matrix:
    return dpcov_release(table, epsilon, seed, "none")


def diffprivlib_release(table: Matrix, epsilon: float, seed: int) -> Matrix:
    from diffprivlib.models.utils import covariance_eig

    values, vectors = covariance_eig(table, epsilon=epsilon, norm=1.0, random_state=seed)
    return (vectors * values) @ vectors.T


def opendp_release(table: Matrix, epsilon: float, seed: int) -> Matrix:  # it can't be seeded
    from opendp.extras.sklearn._make_eigendecomposition import make_private_np_eigendecomposition

    dp = _opendp()
    n, d = table.shape
    domain = dp.numpy.array2_domain(
        num_columns=d, size=n, norm=1.0, p=2, origin=np.zeros(d), T=float, nan=False
    )
    part = epsilon / d  # as its PCA splits it: the eigenvalues, and all directions but the last
    decompose = make_private_np_eigendecomposition(
        domain, dp.symmetric_distance(), part, [part] * (d - 1)
    )
    values, vectors = decompose(table)  # ascending values, descending vectors
    return (vectors * np.maximum(values[::-1], 0)) @ vectors.T


METHODS: dict[str, tuple[str, Release]] = {
    "dpcov": ("dpcov", dpcov_release),
    "dpcov, not denoised": ("dpcov", dpcov_as_drawn),
    "diffprivlib": ("diffprivlib", diffprivlib_release),
    "OpenDP": ("opendp", opendp_release),
}


def _opendp() -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib", "idealized-numerics")
    return dp


def installed(methods: dict[str, tuple[str, Release]]) -> dict[str, tuple[str, Release]]:
    """Return the methods whose library is installed. OpenDP also needs randomgen for arrays."""
    absent = {name for name in ("diffprivlib", "opendp", "randomgen") if not find_spec(name)}
    needed = {"opendp": {"opendp", "randomgen"}}
    found = {name: m for name, m in methods.items() if not absent & needed.get(m[0], {m[0]})}
    for name in methods.keys() - found.keys():
        print(f"{name} is not installed: left out")
    return found


def tables() -> Iterator[tuple[str, Matrix]]:
    for name in ("wine", "airfoil", "adult"):
        table = TABLES[name]()
        if name == "adult":  # small enough for all, and many rows
            many = [j for j in range(table.shape[1]) if len(np.unique(table[:, j])) > 2]
            yield "adult, numbers", rows_over_largest_norm(table[:, many])
        yield name, rows_over_largest_norm(table)


def within(limit: float, work: Callable[[], Any]) -> Any:
    """Return the result of `work` in a separate process, or None after so many seconds."""
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=lambda: answers.put(work()))
    process.start()
    with contextlib.suppress(queue.Empty):
        return answers.get(timeout=limit)
    process.kill()
    process.join()
    return None


def measure(release: Release, table: Matrix, epsilon: float) -> dict[str, Any]:
    """Return the error and time of a library, or nothing if one release takes too long."""
    truth, n = table.T @ table, len(table)

    def timed(seed: int) -> tuple[float, float]:
        warnings.simplefilter("ignore")
        start = time.perf_counter()
        error = float(np.linalg.norm(release(table, epsilon, seed) - truth)) / n
        return error, time.perf_counter() - start

    first = within(LIMIT, lambda: timed(0))
    if first is None:
        return {"error_mean": None, "error_se": None, "seconds": None, "repeats": 0}
    runs = np.array([first, *(timed(seed) for seed in range(1, REPEATS))])
    return {
        "error_mean": float(runs[:, 0].mean()),
        "error_se": float(runs[:, 0].std(ddof=1) / np.sqrt(REPEATS)),
        "seconds": float(np.median(runs[:, 1])),
        "repeats": REPEATS,
    }


def errors(methods: dict[str, tuple[str, Release]]) -> Iterator[dict[str, Any]]:
    for name, table in tables():
        n, d = table.shape
        zero = float(np.linalg.norm(table.T @ table)) / n
        for epsilon in EPSILONS:
            for method, (package, release) in methods.items():
                yield {
                    "kind": "error",
                    "dataset": name,
                    "rows": n,
                    "columns": d,
                    "epsilon": epsilon,
                    "method": method,
                    "version": version(package),
                    **measure(release, table, epsilon),
                    "zero": zero,
                    "limit": LIMIT,
                }


def ours_anew() -> list[dict[str, Any]]:
    """Return the published rows with new measurements of dpcov."""
    ours = {name: method for name, method in METHODS.items() if method[0] == "dpcov"}
    anew = {(row["dataset"], row["epsilon"], row["method"]): row for row in errors(ours)}
    show("Error of the second moment", list(anew.values()))
    rows = json.loads(PUBLISHED.read_text())["rows"]
    keys = [(row.get("dataset"), row.get("epsilon"), row.get("method")) for row in rows]
    return [anew.get(key, row) for key, row in zip(keys, rows, strict=True)]


def everything() -> int:
    kept = Kept("peers.json", "python benchmarks/peers.py")
    title = "Error of the second moment"
    kept.part(title, lambda: errors(installed(METHODS)))
    show(title, kept.rows)
    return int(not kept.done())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", action="store_true", help="our errors alone")
    if not parser.parse_args().ours:
        return everything()
    write("peers.json", "python benchmarks/peers.py --ours", ours_anew())
    return 0


if __name__ == "__main__":
    sys.exit(main())
