"""Compute the privacy loss of Algorithms 1 and 2: the largest log-ratio of output densities.

The noise densities are exp(-||Z||_*/s) for the matrix and exp(-|t|/b) for the trace. Let two
matrices differ by D and their traces by tr D. The loss is then at most ||D||_*/s + |tr D|/b. The
outputs with Z = -D and t = -tr D reach this bound.
"""

from __future__ import annotations

import itertools
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


def centred(small: bool, folder: Path) -> Finding:
    """Maximise the nuclear norm of a change of the centred covariance, times n.

    Let y replace x, and let m be the mean of the other rows. With u = y - m and v = x - m, the
    change is (n - 1)/n times u u' - v v'. Its squared nuclear norm is
    (|u|^2 + |v|^2)^2 - 4 (u'v)^2. The vectors m, x and y span at most three dimensions.
    """
    alpha, beta, gamma = np.meshgrid(*(np.linspace(0, np.pi, k) for k in (37, 37, 19)))
    lengths = (0.0, 1.0) if small else (0.0, 0.25, 0.5, 0.75, 1.0)
    largest = 0.0
    for mean, y, x in itertools.product(lengths, repeat=3):  # m is opposite to the first axis
        first, second = y * np.cos(alpha) + mean, x * np.cos(beta) + mean
        squares = first**2 + (y * np.sin(alpha)) ** 2 + second**2 + (x * np.sin(beta)) ** 2
        inner = first * second + y * x * np.sin(alpha) * np.sin(beta) * np.cos(gamma)
        largest = max(largest, float(np.sqrt(np.maximum(squares**2 - 4 * inner**2, 0)).max()))
    factor_of = largest / SCALE
    return Finding(
        f"largest nuclear norm {largest:.4f}/n instead of {SCALE:g}/n, a factor {factor_of:.4f}",
        factor_of <= 1.5 * np.sqrt(3) + 1e-9,
    )


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
