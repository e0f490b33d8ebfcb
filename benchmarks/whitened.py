"""Measure the relative error of mechanisms that need no bound on the covariance.

The setting is d = 10, epsilon = 1, delta = 1e-6 and condition numbers from 1 to 1e10. The script
prints medians of Mahalanobis errors over 20 tables. A refusal counts as an infinite error. Its
probability is 1 in 500 on such rows. `python benchmarks/whitened.py` prints these errors beside the
non-private errors and the threshold of the design.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.denoise import denoise
from dpcov.errors import MechanismRefused
from dpcov.mechanisms import Mechanism, StableCovariance, Whitened
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from results import Kept, show

Matrix = NDArray[np.float64]

D = 10
REACH = 8.0  # bound on the columns, in standard deviations of the largest direction
BUDGET = ApproxDP(1.0, 1e-6)
BARS = {("whitened", 100_000): 0.05}
CASES: tuple[tuple[type[Mechanism], int], ...] = (
    (Whitened, 40_000),
    (Whitened, 100_000),
    (StableCovariance, 100_000),
)


def normal_rows(n: int, condition: float, seed: int, d: int = D) -> tuple[Matrix, Matrix]:
    """Rows N(0, Q diag Q') with eigenvalues from 1 / `condition` to 1; what makes them round."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    deviations = np.geomspace(condition**-0.5, 1, d)
    rows = rng.normal(size=(n, d)) * deviations @ rotation.T
    return rows, (rotation / deviations).T


def mahalanobis(covariance: Matrix, round_map: Matrix) -> float:
    return float(np.linalg.norm(round_map @ covariance @ round_map.T - np.eye(len(covariance))))


def errors(
    kind: type[Mechanism], n: int, condition: float, neighbors: Neighbors, seed: int
) -> tuple[float, float]:
    """Of the release (infinite if it was refused), and without privacy."""
    rows, round_map = normal_rows(n, condition, seed)
    schema = Schema.from_bounds(-REACH, REACH, tuple(f"x{j}" for j in range(D)), intercept=0.0)
    without, entropy = mahalanobis(rows.T @ rows / n, round_map), Entropy.seeded(seed)
    try:
        made = kind()(open_rows(rows, schema), budget=BUDGET, neighbors=neighbors, entropy=entropy)
    except MechanismRefused:
        return math.inf, without
    made = denoise(made, "project", generator=simulation_generator(seed))
    return mahalanobis(made.second_moment() * REACH**2 / n, round_map), without


def measured(kind: type[Mechanism], n: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Return a row for each relation and condition number."""
    for neighbors in Neighbors:
        for condition in (1.0, 1e4, 1e10):
            found = [errors(kind, n, condition, neighbors, seed) for seed in range(repeats)]
            private, without = np.median(found, axis=0).tolist()
            bar = BARS.get((kind.name, n))
            yield {
                "method": kind.name,
                "neighbors": str(neighbors),
                "n": n,
                "condition": condition,
                "error": private,
                "non_private": without,
                "repeats": repeats,
                "refused": sum(math.isinf(error) for error, _ in found),
                "bar": bar,
                "ok": bar is None or private <= bar,
            }


def main(repeats: int = 20) -> int:
    """Print and keep the table; 1 if a bar is missed."""
    kept = Kept("whitened.json", "python benchmarks/whitened.py")
    for kind, n in CASES:
        kept.part(f"{kind.name}, {n:,} rows", partial(measured, kind, n, repeats))
    title = "Mahalanobis error at d = 10, epsilon = 1, delta = 1e-6, no bound on the covariance"
    show(title, kept.rows)
    return int(not (kept.done() and all(row["ok"] for row in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
