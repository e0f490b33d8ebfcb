"""Algorithm 2: Algorithm 1, then the nearest matrix in a nuclear ball with a private radius.

Matrices are C = X X' (not / n) = n Sigma at epsilon = 1, replace-one. Errors are divided by n. The
trace gets 0.1 of the budget and the matrix 0.9. The paper states no split.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise.projection import onto_simplex, project
from dpcov.denoise.shrinkage import nothing_shows, shrink
from dpcov.papers.samplers.log_gas import simulated_singular_values
from dpcov.papers.samplers.nuclear import NuclearLaplace
from faults import factor

Matrix = NDArray[np.float64]
TRACE_SHARE = 0.1
MISSES = 0.05  # probability that the radius is below the trace
SCALE = 2.0  # nuclear sensitivity
Estimate = Callable[[Matrix, float, np.random.Generator], Matrix]


def square_noise(d: int, scale: float, generator: np.random.Generator) -> Matrix:
    """Draw noise of density exp(-||Z||_*/scale) on (d, d) matrices that need not be symmetric."""
    left, right = (np.linalg.qr(normals)[0] for normals in generator.standard_normal((2, d, d)))
    return scale * (left * simulated_singular_values(d, generator)) @ right.T


def radius(matrix: Matrix, n: float, generator: np.random.Generator) -> float:
    """Return a private upper bound on the trace, wrong with probability `MISSES`."""
    noisy = float(np.trace(matrix)) + generator.laplace(scale=factor("radius") / TRACE_SHARE)
    return min(max(noisy + math.log(1 / (2 * MISSES)) / TRACE_SHARE, 0.0), float(n))


def onto_ball(matrix: Matrix, size: float) -> Matrix:
    """Return the nearest matrix in Frobenius norm with nuclear norm at most `size`."""
    left, values, right = np.linalg.svd(matrix)
    if values.sum() > size:
        values = onto_simplex(values, size)
    return (left * values) @ right


def algorithm1(matrix: Matrix, n: float, generator: np.random.Generator) -> Matrix:
    """Estimate by the paper's first algorithm, which spends everything on the matrix."""
    return matrix + square_noise(len(matrix), SCALE, generator)


def algorithm2(matrix: Matrix, n: float, generator: np.random.Generator) -> Matrix:
    """Estimate by the paper's second algorithm."""
    noise = square_noise(len(matrix), SCALE / (1 - TRACE_SHARE), generator)
    return onto_ball(matrix + noise, radius(matrix, n, generator))


def symmetric(matrix: Matrix, n: float, generator: np.random.Generator) -> Matrix:
    """Run Algorithm 2 with symmetric noise, and keep the positive semidefinite part of the ball."""
    law = NuclearLaplace(len(matrix), SCALE / (1 - TRACE_SHARE))
    size = radius(matrix, n, generator)
    return project(matrix + law.simulate(generator), None, largest=size)


def shrunk(matrix: Matrix, n: float, generator: np.random.Generator) -> Matrix:
    """Run the library's method: matrix Laplace noise, a free trace, and shrinking."""
    law = WishartDifference(len(matrix), 1.0)
    gated = n < law.detectable
    noisy = matrix + law.simulate(generator)
    scale = 1.0 if gated else 2.0
    trace = min(float(np.trace(matrix)) + generator.laplace(scale=scale), float(n))
    trace = max(trace - 4 * scale**2 / trace, 0.0) if trace > 0 else 0.0
    if gated or nothing_shows(law, trace):
        return np.eye(len(matrix)) * trace / len(matrix)
    return shrink(noisy, law, trace, generator)


def largest_radius(matrix: Matrix, n: float, generator: np.random.Generator) -> Matrix:
    """Project on the ball of radius n, which needs no trace: Nikolov's rate, as the paper says."""
    return onto_ball(matrix + square_noise(len(matrix), SCALE, generator), n)


def separate(matrix: Matrix, n: float, generator: np.random.Generator) -> Matrix:
    """Run the pure algorithm of Dong, Liang and Yi: directions of C + L, and noisy eigenvalues.

    Each part has half of epsilon. L has their scale sqrt(2) d on and above the diagonal.
    """
    d = len(matrix)
    upper = np.triu(generator.laplace(scale=2 * math.sqrt(2) * d, size=(d, d)))
    vectors = np.linalg.eigh(matrix + upper + np.triu(upper, 1).T)[1]
    values = np.linalg.eigvalsh(matrix) + generator.laplace(scale=2 * SCALE, size=d)
    return (vectors * np.clip(np.sort(values), 0, n)) @ vectors.T


RIVALS: dict[str, Estimate] = {"radius n": largest_radius, "Dong et al. 2022": separate}
METHODS: dict[str, Estimate] = {
    "Algorithm 1": algorithm1,
    "Algorithm 2": algorithm2,
    "symmetric, PSD": symmetric,
    "matrix Laplace, shrunk": shrunk,
}


def harmonic(d: int, n: int, trace: float = 1.0) -> Matrix:
    """Return C with eigenvalues n trace/(H_d j).

    For many n, some eigenvalues are above the noise and some below. If the noise hides all of C or
    none of it, the error has other rates.
    """
    weights = 1 / np.arange(1.0, d + 1)
    return np.diag(n * trace * weights / weights.sum())


def square_root_range(d: int) -> tuple[float, float]:
    """Return the range of n in which sqrt(d/n) is the least bound, for `harmonic` of trace n.

    Below the range, the zero matrix's error ||C||_F/n is less; above it, d^1.5/n is less.
    """
    weights = 1 / np.arange(1.0, d + 1)
    return float(d * weights.sum() ** 2 / (weights @ weights)), float(d * d)


def flat(d: int, n: int, rank: int) -> Matrix:
    """Return C of trace n with `rank` equal eigenvalues."""
    return np.diag(np.where(np.arange(d) < rank, n / rank, 0.0))
