"""Does denoising improve each release, or leave it as it is? `make bench NAME=denoising`.

Errors of one release as published, projected (`denoise="project"`) and denoised as by default, mean
of 10. Mechanisms that map rows: relative to the matrix (Mahalanobis), d = 10, n = 1e5, at
(1, 1e-6)-DP.
Others: Frobenius norm per row, tables of the papers at rho = epsilon^2 / 2.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from accuracy import open_table
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors
from dpcov.denoise import best_estimate, denoise
from dpcov.mechanisms import (
    AdaptiveGaussian,
    Gaussian,
    HeavyTailed,
    Mechanism,
    Preconditioned,
    SeparateGaussian,
    Whitened,
)
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from mahalanobis import BOUNDS, BUDGET, mahalanobis, table
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release
    from dpcov.rows.sources.rows import Rows

    Matrix = NDArray[np.float64]
    Error = Callable[[Matrix], float]

REPEATS = 10
ROWS = 100_000
CONDITIONS = (1.0, 1e4)
EPSILONS = (0.1, 1.0, 4.0)
ROUND = (Preconditioned(), HeavyTailed(), Whitened())
PLAIN = (Gaussian(), SeparateGaussian(), AdaptiveGaussian())
WORSE = 1.02  # what the error of the mean of 10 leaves open


def forms(release: Release, seed: int) -> dict[str, Matrix]:
    return {
        "published": release.noisy(),
        "projected": best_estimate(denoise(release, "project")),
        "denoised": best_estimate(denoise(release, generator=simulation_generator(seed))),
    }


def compared(
    mechanism: Mechanism, budget: Budget, runs: Iterator[tuple[Rows, Error]]
) -> dict[str, float]:
    """Return the mean error of each form, over pairs of a table and its error."""
    found: dict[str, list[float]] = {}
    for seed, (rows, error) in enumerate(runs):
        made = mechanism(
            rows, budget=budget, neighbors=Neighbors.REPLACE_ONE, entropy=Entropy.seeded(seed)
        )
        for name, matrix in forms(made, seed).items():
            found.setdefault(name, []).append(error(matrix))
    return {name: float(np.mean(errors)) for name, errors in found.items()}


def round_tables(condition: float) -> Iterator[tuple[Rows, Error]]:
    bound = BOUNDS["normal"]
    schema = Schema.from_bounds(-bound, bound, [f"x{j}" for j in range(10)], intercept=0.0)
    for seed in range(REPEATS):
        values, shape = table("normal", ROWS, condition, seed)

        def error(matrix: Matrix, shape: Matrix = shape) -> float:
            return mahalanobis(matrix * bound**2 / ROWS, shape)

        yield open_rows(values, schema), error


def paper_tables(name: str) -> Iterator[tuple[Rows, Error]]:
    rows = open_table(name)
    moment = rows.second_moments()[0]
    truth = moment.units.astype(float) * moment.lattice.step**2
    for _ in range(REPEATS):
        yield rows, lambda matrix: float(np.linalg.norm(matrix - truth)) / moment.unit_count


def round_cells() -> Iterator[dict[str, Any]]:
    for mechanism in ROUND:
        for condition in CONDITIONS:
            errors = compared(mechanism, BUDGET, round_tables(condition))
            yield _cell(mechanism, f"condition {condition:g}", BUDGET, errors)


def plain_cells() -> Iterator[dict[str, Any]]:
    for mechanism in PLAIN:
        for name in ("wine", "breast cancer", "digits"):
            for epsilon in EPSILONS:
                budget = ZCDP(epsilon**2 / 2)
                errors = compared(mechanism, budget, paper_tables(name))
                yield _cell(mechanism, name, budget, errors)


def _cell(
    mechanism: Mechanism, name: str, budget: Budget, errors: dict[str, float]
) -> dict[str, Any]:
    limit = WORSE * errors["published"]
    spent = f"({budget.epsilon:g}, {budget.delta:g})" if isinstance(budget, ApproxDP) else budget
    return {
        "method": mechanism.name,
        "table": name,
        "budget": str(spent),
        **errors,
        "ok": max(errors["projected"], errors["denoised"]) <= limit,
    }


def main() -> int:
    kept = Kept("denoising.json", "make bench NAME=denoising")
    kept.part("one scale for all directions", round_cells)
    kept.part("the papers' tables", plain_cells)
    show("Error of a release, before and after denoising", kept.rows)
    return int(not (kept.done() and all(cell["ok"] for cell in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
