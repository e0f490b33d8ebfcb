"""Error of `preconditioned` relative to the matrix, ||S^-1/2 S_hat S^-1/2 - I||_F, beside its bars.

d = 10, (1, 1e-6)-DP, replace-one, zero mean, eigenvalues evenly spaced in logarithm and turned at
random; medians of 20 repeats. Bounds are `given` (6 standard deviations of the largest direction;
20 for Student's t) or as good as none: a million times as wide. `--rows` leaves out larger tables.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.denoise import best_estimate, denoise
from dpcov.mechanisms import HeavyTailed, Mechanism, Preconditioned
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from results import Kept, show

Matrix = NDArray[np.float64]

FEATURES = 10
BUDGET = ApproxDP(1.0, 1e-6)
REPEATS = 20
CONDITIONS = (1.0, 1e4, 1e10)
BOUNDS = {"normal": 6.0, "t(5)": 20.0}
WIDER = 1e6
NO_BOUND = 1.15  # of the bar, where no bound is given
BARS = {
    ("normal", 10_000): 0.25,
    ("normal", 100_000): 0.038,
    ("normal", 1_000_000): 0.0115,
    ("t(5)", 100_000): 0.105,
}
RUNS: tuple[tuple[Mechanism, str], ...] = (
    (Preconditioned(), "given"),
    (Preconditioned(), "none"),
    (HeavyTailed(), "given"),
)


def mahalanobis(covariance: Matrix, round_map: Matrix) -> float:
    """Return ||R S R' - I||_F, where R maps the true covariance to the identity."""
    return float(np.linalg.norm(round_map @ covariance @ round_map.T - np.eye(len(covariance))))


def table(law: str, n: int, condition: float, seed: int) -> tuple[Matrix, Matrix]:
    """Return (n, d) rows and the map that makes their covariance the identity."""
    generator = np.random.default_rng(seed)
    rotation = np.linalg.qr(generator.normal(size=(FEATURES, FEATURES)))[0]
    deviations = np.geomspace(condition**-0.5, 1, FEATURES)
    rows = generator.normal(size=(n, FEATURES))
    if law == "t(5)":
        rows *= np.sqrt(3 / generator.chisquare(5, size=(n, 1)))
    return rows * deviations @ rotation.T, (rotation / deviations).T


def released(rows: Matrix, bound: float, mechanism: Mechanism, seed: int) -> Matrix:
    """Return the (d, d) denoised second moment of a row."""
    names = [f"x{j}" for j in range(rows.shape[1])]
    made = mechanism(
        open_rows(rows, Schema.from_bounds(-bound, bound, names, intercept=0.0)),
        budget=BUDGET,
        neighbors=Neighbors.REPLACE_ONE,
        entropy=Entropy.seeded(seed),
    )
    return best_estimate(denoise(made, "project")) * bound**2 / len(rows)


def cells(law: str, n: int) -> Iterator[dict[str, Any]]:
    for condition in CONDITIONS:
        found: dict[tuple[str, str], list[float]] = {}
        plain = []
        for seed in range(REPEATS):
            rows, round_map = table(law, n, condition, seed)
            plain.append(mahalanobis(rows.T @ rows / n, round_map))
            for mechanism, bounds in RUNS:
                bound = BOUNDS[law] * (WIDER if bounds == "none" else 1.0)
                estimate = released(rows, bound, mechanism, seed)
                key = (mechanism.name, bounds)
                found.setdefault(key, []).append(mahalanobis(estimate, round_map))
        given = float(np.median(found["preconditioned", "given"]))
        for (name, bounds), errors in found.items():
            median, limit = float(np.median(errors)), None
            if name == "preconditioned":
                limit = BARS[law, n] if bounds == "given" else NO_BOUND * given
            yield {
                "law": law,
                "rows": n,
                "condition": condition,
                "bounds": bounds,
                "method": name,
                "median": median,
                "largest": max(errors),
                "non_private": float(np.median(plain)),
                "repeats": REPEATS,
                "bar": limit,
                "ok": None if limit is None else median <= limit,
            }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000, help="the largest table")
    largest = parser.parse_args().rows
    kept = Kept("mahalanobis.json", "python benchmarks/mahalanobis.py")
    for law, n in BARS:
        if n <= largest:
            kept.part(f"{law}, {n:,} rows", partial(cells, law, n))
    found = kept.rows
    show("Mahalanobis error, (1, 1e-6)-DP, d = 10", found)
    missed = [cell for cell in found if cell["ok"] is False]
    print(f"cells above their bar: {len(missed)} of {len(found)}")
    return int(not kept.done() or bool(missed))


if __name__ == "__main__":
    sys.exit(main())
