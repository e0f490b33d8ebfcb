"""Compare graphical lasso solvers on matrices as a release produces them, some of them singular.

The measure is the same for all solvers: the objective minus a lower bound on the optimum, per row
of the matrix. The lower bound is a feasible point of the dual problem. `make bench` installs
scikit-learn; skglm and gglasso need `pip install skglm gglasso`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.graphical_lasso import graphical_lasso
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise.projection import project
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

ORDERS = (10, 50, 100, 200)
ALPHAS = (0.3, 0.1, 0.02)
GOOD = 1e-3  # gap per row: well below what one row of data says about the model
ROWS = 5000


def ours(matrix: Matrix, alpha: float) -> Matrix:
    return graphical_lasso(matrix, alpha).precision


def scikit_learn(matrix: Matrix, alpha: float) -> Matrix:
    from sklearn.covariance import graphical_lasso as solve

    return solve(matrix, alpha, tol=1e-7 * len(matrix), max_iter=200)[1]


def skglm(matrix: Matrix, alpha: float) -> Matrix:
    from skglm.covariance import GraphicalLasso

    solver = GraphicalLasso(alpha=alpha, algo="dual", tol=1e-5, max_iter=200)
    return solver.fit(matrix, mode="precomputed").precision_


def gglasso(matrix: Matrix, alpha: float) -> Matrix:
    from gglasso.solver.single_admm_solver import ADMM_SGL

    start = np.eye(len(matrix))
    return ADMM_SGL(matrix, alpha, start, tol=1e-7, rtol=1e-6, max_iter=3000)[0]["Theta"]


SOLVERS: dict[str, tuple[str, Callable[[Matrix, float], Matrix]]] = {
    "ours (ADMM)": ("dpcov", ours),
    "scikit-learn": ("sklearn", scikit_learn),
    "skglm": ("skglm", skglm),
    "gglasso": ("gglasso", gglasso),
}


def correlation(matrix: Matrix) -> Matrix:
    roots = np.sqrt(np.diag(matrix))
    return matrix / np.outer(roots, roots)


def matrices(p: int, generator: np.random.Generator) -> Iterator[tuple[str, Matrix]]:
    """Yield correlation matrices: a chain's exact one, noisy semidefinite ones, a singular one."""
    chain = np.eye(p) + 0.4 * (np.eye(p, k=1) + np.eye(p, k=-1))
    exact = correlation(np.linalg.inv(chain))
    yield "exact", exact
    rows = generator.standard_normal((ROWS, p)) @ np.linalg.cholesky(exact).T
    sampled = np.corrcoef(rows, rowvar=False)
    for name, edge in (("some noise", 1.0), ("much noise", 6.0)):
        law = WishartDifference(p, 1.0)
        noise = law.rescaled(edge / law.edge).simulate(generator)
        yield name, correlation(project(sampled + noise, None) + 1e-12 * np.eye(p))
    factors = generator.standard_normal((p, max(2, p // 5)))
    yield "singular", correlation(factors @ factors.T)


def objective(matrix: Matrix, precision: Matrix, alpha: float) -> float:
    """Return the objective; inf for a matrix that is not positive definite."""
    if not np.isfinite(precision).all() or np.linalg.eigvalsh(precision)[0] <= 0:
        return np.inf
    off_diagonal = np.abs(precision).sum() - np.abs(np.diag(precision)).sum()
    fit = float(np.sum(matrix * precision) + alpha * off_diagonal)
    return fit - float(np.linalg.slogdet(precision)[1])


def lower_bound(matrix: Matrix, alpha: float) -> float:
    """Return the dual objective at a nearly optimal point: a bound for all precision matrices."""
    dual = graphical_lasso(matrix, alpha, tol=1e-8).dual
    return float(np.linalg.slogdet(matrix + dual)[1]) + len(matrix)


def measure(name: str, matrix: Matrix, alpha: float, bound: float) -> dict[str, Any]:
    solver = SOLVERS[name][1]
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            found = solver(matrix, alpha)
        failure = None
    except (FloatingPointError, ValueError, np.linalg.LinAlgError) as error:
        failure, found = type(error).__name__, np.zeros_like(matrix)
    seconds = time.perf_counter() - begun
    excess = np.inf if failure else objective(matrix, found, alpha) - bound
    reached = excess / len(matrix)
    return {
        "solver": name,
        "alpha": alpha,
        "seconds": seconds,
        "gap": float(reached) if np.isfinite(reached) else None,
        "edges": int(np.count_nonzero(np.triu(found, 1))),
        "failure": failure,
        "ok": bool(reached <= GOOD),
    }


def solved(names: list[str], p: int, kind: str, matrix: Matrix) -> Iterator[dict[str, Any]]:
    """Yield a row for each penalty and solver."""
    for alpha in ALPHAS:
        bound = lower_bound(matrix, alpha)
        for name in names:
            yield {"order": p, "matrix": kind, **measure(name, matrix, alpha, bound)}


def main() -> int:
    installed = [name for name, (module, _) in SOLVERS.items() if importlib.util.find_spec(module)]
    for name in installed:
        measure(name, np.eye(3) + 0.1, 0.1, 0.0)  # compiles what is compiled on first use
    generator = np.random.default_rng(0)
    kept = Kept("precision.json", "python benchmarks/precision.py")
    for p in ORDERS:
        for kind, matrix in matrices(p, generator):
            kept.part(f"{kind}, order {p}", partial(solved, installed, p, kind, matrix))
    cells = kept.rows
    summary = [
        {
            "solver": name,
            "order": p,
            "seconds": sum(c["seconds"] for c in mine),
            "slowest": max(c["seconds"] for c in mine),
            "solved": f"{sum(c['ok'] for c in mine)} of {len(mine)}",
            "failed on": "; ".join(f"{c['matrix']} {c['alpha']:g}" for c in mine if not c["ok"])
            or "-",
        }
        for p in ORDERS
        for name in installed
        if (mine := [c for c in cells if c["solver"] == name and c["order"] == p])
    ]
    show(f"Graphical lasso: all matrices of an order; solved: gap per row <= {GOOD:g}", summary)
    ours = [cell for cell in cells if cell["solver"] == "ours (ADMM)"]
    return int(not (kept.done() and all(cell["ok"] for cell in ours)))


if __name__ == "__main__":
    sys.exit(main())
