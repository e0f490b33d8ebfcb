"""The code published with the paper, re-implemented from reading it. NOT PRIVATE.

google-research/private_covariance_estimation/mechanisms.py differs from the paper's text:

- Directions come from exp(2 epsilon_i u'Cu), and KT's directions from exp((4 epsilon/d) u'Ru). Both
  exponents are 8 times the exponents in the text.
- The eigenvalue noise is Lap(1/epsilon_0); the text has Lap(2/epsilon_0). The code sorts the noisy
  eigenvalues.
- AD minimises a bound on the error to split epsilon_0 from the budget of the directions; the text
  has epsilon/2. Direction i gets the weight sqrt(l_i (d - i)); the text has sqrt(l_i + tau).
- The code makes L and G positive semidefinite. If the largest eigenvalue exceeds n, the code scales
  the whole matrix down; the text rounds each eigenvalue to [0, n].
- G has a sensitivity of 1.

`make reproduce` measures whether the paper's figures come from this code.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

import seeds
from amin2019.methods import DELTAS, Entry, Method
from amin2019.tables import Matrix, Table
from dpcov.core.privacy import gaussian_mu
from dpcov.papers.samplers.frame import sequential_frame

Vector = NDArray[np.float64]

OVERSPENT = 2.0  # concentration of a direction, over its share of epsilon; the text has 1/4


def split(n: int, d: int, epsilon: float) -> float:
    """Return the part t of epsilon that minimises sqrt(d)/t + sum_i sqrt(i n/(epsilon - t))."""
    roots = np.sqrt(np.arange(1, d + 1)).sum()
    edge = epsilon / d**2
    return float(
        minimize_scalar(
            lambda t: np.sqrt(d) / t + roots * np.sqrt(n / (epsilon - t)),
            method="bounded",
            bounds=(edge, epsilon - edge),
        ).x
    )


def eigenvector_sampling(*, adaptive: bool) -> Method:
    """Estimate by AD or IT-U as published."""

    def method(table: Table, epsilon: float, seed: int) -> Matrix:
        values, drawn = plan(table, epsilon, seed, adaptive=adaptive)
        vectors = sequential_frame(table.moment, drawn, seeds.entropy(seed)).vectors
        return vectors.T @ (values[: len(vectors), None] * vectors)

    return method


def plan(table: Table, epsilon: float, seed: int, *, adaptive: bool) -> tuple[Vector, Vector]:
    """Return descending noisy eigenvalues, and the concentrations of the directions."""
    d = table.d
    of_values = split(table.n, d, epsilon) if adaptive else epsilon / 2
    noise = seeds.generator(seed).laplace(0.0, 1 / of_values, d)
    values = np.clip(np.sort(np.linalg.eigvalsh(table.moment) + noise)[::-1], 0.0, table.n)
    weights = np.sqrt(values * np.arange(d - 1, -1, -1)) if adaptive else np.ones(d)
    shares = weights / weights.sum() if weights.sum() > 0 else np.full(d, 1 / d)
    return values, OVERSPENT * (epsilon - of_values) * shares[values > 0]


def kapralov_talwar(table: Table, epsilon: float, seed: int) -> Matrix:
    """Estimate by KT as published."""
    generator, entropy = seeds.generator(seed), seeds.entropy(seed)
    residue, concentration = table.moment.copy(), np.array([4 * epsilon / table.d])
    for _ in range(table.d):
        vector = sequential_frame(residue, concentration, entropy).vectors[0]
        value = vector @ residue @ vector + generator.laplace(0.0, 2 * table.d / epsilon)
        residue -= np.clip(value, 0.0, table.n) * np.outer(vector, vector)
    return table.moment - residue


def laplace(table: Table, epsilon: float, seed: int) -> Matrix:
    """Estimate by L as published."""
    generator = seeds.generator(seed)
    return scaled_down(_symmetric(generator.laplace, 2 * table.d / epsilon, table), table.n)


def gaussian(delta: float) -> Method:
    """Estimate by G as published."""

    def method(table: Table, epsilon: float, seed: int) -> Matrix:
        generator = seeds.generator(seed)
        sigma = 1 / gaussian_mu(epsilon, delta)
        return scaled_down(_symmetric(generator.normal, sigma, table), table.n)

    return method


def scaled_down(matrix: Matrix, n: int) -> Matrix:
    """Return the positive part, divided if its largest eigenvalue exceeds n."""
    values, vectors = np.linalg.eigh(matrix)
    kept = np.maximum(values, 0.0)
    return (vectors * (kept * min(1.0, n / max(kept[-1], 1e-300)))) @ vectors.T


def _symmetric(draw: Callable[..., Matrix], scale: float, table: Table) -> Matrix:
    upper = np.triu(draw(0.0, scale, table.moment.shape))
    return table.moment + upper + np.triu(upper, 1).T


ENTRIES = [
    Entry("L published", "published", laplace, True),
    Entry("KT published", "published", kapralov_talwar, False),
    Entry("IT-U published", "published", eigenvector_sampling(adaptive=False), False),
    Entry("AD published", "published", eigenvector_sampling(adaptive=True), False),
    *(
        Entry(f"{name} published", "published", gaussian(delta), False)
        for name, delta in DELTAS.items()
    ),
]
