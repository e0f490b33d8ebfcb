"""The methods of Figure 1: the paper's methods, their tight versions, and dpcov.

Each method has a table, epsilon and a seed as arguments and returns an estimate of C. All methods
are differentially private under replace-one. Methods named G need a delta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

import seeds
from amin2019.tables import Matrix, Table
from dpcov.core.entropy import simulation_generator
from dpcov.core.privacy import ApproxDP, Budget, Neighbors, PureDP
from dpcov.denoise import best_estimate, denoise
from dpcov.mechanisms import (
    AdaptiveLaplace,
    EigenvectorSampling,
    ExponentialPCA,
    Gaussian,
    KapralovTalwar,
    Laplace,
    MatrixLaplace,
    Mechanism,
    SeparateLaplace,
)
from dpcov.mechanisms.choice import choose
from faults import factor

Method = Callable[[Table, float, int], Matrix]
Denoising = Literal["none", "project", "shrink"]
Family = Literal["paper", "classical", "tight", "published", "ours"]

DELTAS = {"G-16": 1e-16, "G-10": 1e-10, "G-3": 1e-3}
REPLACE = Neighbors.REPLACE_ONE


@dataclass(frozen=True)
class Entry:
    """A method of the comparison, for tables of at most `up_to` columns.

    `pure` says whether it is epsilon-DP without a delta.
    """

    name: str
    family: Family
    method: Method
    pure: bool
    up_to: int = 1000

    def estimate(self, table: Table, epsilon: float, seed: int) -> Matrix:
        """Return the method's estimate, with the noise that the current fault gives."""
        return self.method(table, epsilon / factor(self.name, table.d, table.n), seed)


def clipped(matrix: Matrix, n: int) -> Matrix:
    """Round eigenvalues to [0, n], the paper's last step for every method."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, 0.0, n)) @ vectors.T


def released(mechanism: Mechanism, denoising: Denoising) -> Method:
    """Return a mechanism of the library with one of its denoising methods."""

    def method(table: Table, epsilon: float, seed: int) -> Matrix:
        made = mechanism(
            table.rows,
            budget=PureDP(epsilon),
            neighbors=REPLACE,
            entropy=seeds.entropy(seed),
        )
        return best_estimate(
            denoise(made, denoising, generator=simulation_generator(seeds.own(seed)))
        )

    return method


def default(table: Table, epsilon: float, seed: int) -> Matrix:
    """Return the library's default method."""
    return released(taken(table, epsilon), "shrink")(table, epsilon, seed)


def taken(table: Table, epsilon: float) -> Mechanism:
    """Return the mechanism that `auto` chooses for a table."""
    return choose(table.rows.schema, PureDP(epsilon), REPLACE).mechanism


def noisy(mechanism: Laplace | Gaussian, delta: float | None = None) -> Method:
    """Return C plus a mechanism's noise, with clipped eigenvalues.

    The law alone, since a release holds the trace only where nothing can rise above the noise,
    and the paper has no such gate.
    """

    def method(table: Table, epsilon: float, seed: int) -> Matrix:
        budget: Budget = PureDP(epsilon) if delta is None else ApproxDP(epsilon, delta)
        lattice = table.rows.lattice()
        law = mechanism.calibrate(lattice, budget, REPLACE).matrix
        noise = law.sample(seeds.entropy(seed)).astype(float) * lattice.step**2
        return clipped(table.moment + noise, table.n)

    return method


def classical_gaussian(delta: float) -> Method:
    """Add independent N(0, 2 ln(1.25/delta) / epsilon^2) noise on and above the diagonal.

    Dwork et al. use a sensitivity of 1, which holds for add/remove. The noise is valid only for
    epsilon < 1. This method is a baseline for comparisons.
    """

    def method(table: Table, epsilon: float, seed: int) -> Matrix:
        sigma = np.sqrt(2 * np.log(1.25 / delta)) / epsilon
        normals = np.triu(seeds.generator(seed).normal(0.0, sigma, table.moment.shape))
        return clipped(table.moment + normals + np.triu(normals, 1).T, table.n)

    return method


def _sampled(allocation: str, **fields: object) -> EigenvectorSampling:
    return EigenvectorSampling(allocation=allocation, **fields)  # type: ignore[arg-type]


OURS = "ours"
ENTRIES = [
    Entry("L", "paper", noisy(Laplace(paper_constants=True, trace_share=0.0)), True),
    Entry("KT", "paper", released(KapralovTalwar(paper_constants=True), "none"), True),
    Entry("IT-U", "paper", released(_sampled("uniform", paper_constants=True), "none"), True),
    Entry("AD", "paper", released(_sampled("adaptive", paper_constants=True), "none"), True),
    *(Entry(name, "paper", noisy(Gaussian(), delta), False) for name, delta in DELTAS.items()),
    *(
        Entry(f"{name} classical", "classical", classical_gaussian(delta), False)
        for name, delta in DELTAS.items()
    ),
    Entry("L tight", "tight", released(Laplace(), "shrink"), True),
    Entry("KT tight", "tight", released(KapralovTalwar(), "project"), True),
    Entry("IT-U tight", "tight", released(_sampled("uniform"), "project"), True),
    Entry("AD tight", "tight", released(_sampled("adaptive"), "project"), True),
    Entry("IT-R", "tight", released(_sampled("uniform", values="rayleigh"), "project"), True),
    Entry("PCA-1", "tight", released(ExponentialPCA(components=1), "project"), True),
    Entry("separate", "tight", released(SeparateLaplace(), "shrink"), True),
    Entry("adaptive", "tight", released(AdaptiveLaplace(), "shrink"), True),
    Entry("matrix-laplace", "tight", released(MatrixLaplace(), "shrink"), True, 20),
    Entry(OURS, "ours", default, True),
]
