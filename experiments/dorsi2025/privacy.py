"""Compute the privacy loss of Algorithms 1 and 2: the largest log-ratio of output densities.

The noise densities are exp(-||Z||_*/s) for the matrix and exp(-|t|/b) for the trace. Let two
matrices differ by D and their traces by tr D. The loss is then at most ||D||_*/s + |tr D|/b. The
outputs with Z = -D and t = -tr D reach this bound.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import seeds
from claims import Finding
from faults import factor

Matrix = NDArray[np.float64]
SCALE = 2.0  # of the matrix, times epsilon: the nuclear sensitivity


def loss(change: Matrix, trace_scale: float) -> float:
    """Return the log-ratio, over epsilon, at the neighbour's exact matrix and trace."""
    matrix = np.abs(np.linalg.eigvalsh(change)).sum() / (factor("Algorithm 1") * SCALE)
    return float(matrix + abs(np.trace(change)) / (factor("trace") * trace_scale))


def largest_loss(trace_scale: float, small: bool) -> float:
    """Return the largest loss over pairs of rows in the unit ball: random and extreme pairs."""
    generator = seeds.generator(20250006)
    largest = 0.0
    for _ in range(500 if small else 5_000):
        d = int(generator.integers(2, 6))
        v, u = generator.standard_normal((2, d))
        v *= generator.choice([0.0, 1.0, generator.random()]) / np.linalg.norm(v)
        u -= generator.choice([0.0, 1.0]) * (u @ v) * v / max(float(v @ v), 1e-12)
        u *= generator.choice([0.0, 1.0, generator.random()]) / np.linalg.norm(u)
        largest = max(largest, loss(np.outer(v, v) - np.outer(u, u), trace_scale))
    return largest


def findings(small: bool, folder: Path) -> dict[str, Finding]:
    alone = largest_loss(np.inf, small)
    printed, free = largest_loss(1.0, small), largest_loss(2.0, small)
    return {
        "algorithm1-privacy": Finding(
            f"largest loss {alone:.4f} eps over neighbours, reached", abs(alone - 1) <= 1e-9
        ),
        "algorithm2-privacy": Finding(
            f"Algorithm 1 at eps with an eps-DP trace, Lap(1/(eps n)), loses {printed:.4f} eps, if "
            f"a unit row replaces a zero row. With Lap(2/(eps n)) it loses {free:.4f} eps",
            printed <= 1 + 1e-9,
            exact=True,
        ),
    }
