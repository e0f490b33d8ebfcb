"""Implement the papers' algorithms with the papers' constants, last steps and names.

These functions serve comparisons only; never release private data with them. They use float64
numbers if the library has no exact form. Some papers state their constants for replace-one only.
For add/remove, such an algorithm then gets the tight constants of its noise, in its favour. For
(epsilon, delta), the exact privacy curve calibrates Gaussian noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from methods import WIDE, Method, affordable, denoised

from dong2022 import published
from dong2022.tables import Table
from dorsi2025 import projection
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, gaussian_mu
from dpcov.errors import MechanismError
from dpcov.mechanisms import (
    AdaptiveGaussian,
    AdaptiveLaplace,
    AdditiveWishart,
    EigenvectorSampling,
    ExponentialPCA,
    KapralovTalwar,
    Mechanism,
    Preconditioned,
    SeparateGaussian,
    SeparateLaplace,
)

if TYPE_CHECKING:
    from mechanism_tables import PreparedTable
    from methods import Estimate
    from numpy.typing import NDArray

    from dpcov.core.privacy import Budget

    Matrix = NDArray[np.float64]
    Noise = Callable[[int, float, Neighbors, np.random.Generator], Matrix]


def as_published(mechanism: Mechanism) -> Estimate:
    """Return a registered mechanism of a paper, without denoising."""

    def estimate(
        prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int
    ) -> Matrix:
        return denoised(prepared, mechanism, budget, neighbors, seed, "none")

    return estimate


def clipped(matrix: Matrix, largest: float) -> Matrix:
    """Clip eigenvalues to the range from 0 to `largest`."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.clip(values, 0.0, largest)) @ vectors.T


def by_hand(noise: Noise, parameter: Callable[[Budget], float], last: bool = True) -> Estimate:
    """Return a method that adds noise for rows of norm 1 to the exact moment.

    If `last` is True, the method then clips the eigenvalues to [0, n].
    """

    def estimate(
        prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int
    ) -> Matrix:
        scaled, unit = unit_rows(prepared)
        generator = np.random.default_rng([seed, 1])
        noisy = scaled + noise(len(scaled), parameter(budget), neighbors, generator)
        public = neighbors == Neighbors.REPLACE_ONE
        largest = float(prepared.rows) if public else math.inf
        return unit * (clipped(noisy, largest) if last else noisy)

    return estimate


def unit_rows(prepared: PreparedTable) -> tuple[Matrix, float]:
    """Return the exact second moment of the rows over their norm bound, and the squared bound."""
    moment = prepared.source.second_moments()[0]
    lattice = moment.lattice
    scaled = moment.units.astype(np.float64) / lattice.bound
    return scaled, lattice.bound * lattice.step**2


def epsilon_of(budget: Budget) -> float:
    if not isinstance(budget, PureDP):
        raise MechanismError("This peer is calibrated by epsilon alone.")
    return budget.epsilon


def rho_of(budget: Budget) -> float:
    """Return rho, or the rho of the Gaussian mechanism that satisfies (epsilon, delta)."""
    if isinstance(budget, ZCDP):
        return budget.rho
    if isinstance(budget, ApproxDP):
        return gaussian_mu(budget.epsilon, budget.delta) ** 2 / 2
    raise MechanismError("This peer has no pure form.")


def paper_laplace(
    d: int, epsilon: float, neighbors: Neighbors, generator: np.random.Generator
) -> Matrix:
    """Scale 2 d / epsilon on every entry: Jiang et al. 2016, Amin et al. 2019."""
    return _mirrored(generator.laplace(scale=2 * d / epsilon, size=(d, d)))


def vector_laplace(
    d: int, epsilon: float, neighbors: Neighbors, generator: np.random.Generator
) -> Matrix:
    """Draw Laplace noise for the entries on and above the diagonal, from their l1 sensitivity."""
    one, two = (d + 1) / 2, math.sqrt(d * (d + 3) / 2)
    sensitivity = one if neighbors == Neighbors.ADD_REMOVE else two
    return _mirrored(generator.laplace(scale=sensitivity / epsilon, size=(d, d)))


def vector_gaussian(
    d: int, rho: float, neighbors: Neighbors, generator: np.random.Generator
) -> Matrix:
    """Draw Gaussian noise for the same entries, from their l2 sensitivity."""
    sensitivity = 1.0 if neighbors == Neighbors.ADD_REMOVE else math.sqrt(2)
    return _mirrored(generator.normal(0, sensitivity / math.sqrt(2 * rho), (d, d)))


def _mirrored(square: Matrix) -> Matrix:
    return np.triu(square) + np.triu(square, 1).T


def dorsi(prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int) -> Matrix:
    """Run Algorithm 2 of d'Orsi and Novikov 2025: noise, then a nuclear ball of private radius."""
    epsilon = epsilon_of(budget)
    scaled, unit = unit_rows(prepared)
    generator = np.random.default_rng([seed, 2])
    sensitivity = 2.0 if neighbors == Neighbors.REPLACE_ONE else 1.0
    scale = sensitivity / ((1 - projection.TRACE_SHARE) * epsilon)
    noisy = scaled + projection.square_noise(len(scaled), scale, generator)
    n = prepared.rows if neighbors == Neighbors.REPLACE_ONE else 10**12
    size = projection.radius(epsilon * scaled, math.ceil(epsilon * n), generator) / epsilon
    found = projection.onto_ball(noisy, size)
    return unit * (found + found.T) / 2


def adaptive_cov(
    prepared: PreparedTable, budget: Budget, neighbors: Neighbors, seed: int
) -> Matrix:
    """Run AdaptiveCov as published: for zCDP, replace-one and rows of norm 1 without an intercept.

    In other cases, run the library's form. It has a norm histogram in place of the sparse vectors.
    """
    if isinstance(budget, ZCDP) and neighbors == Neighbors.REPLACE_ONE and not prepared.centred:
        return published.adaptive(Table.of(prepared.source), budget.rho, seed)
    return as_published(AdaptiveGaussian())(prepared, budget, neighbors, seed)


def narrow(prepared: PreparedTable) -> bool:
    return prepared.source.lattice().dimension <= WIDE


PAPER_SAMPLING = {
    "AD (Amin et al. 2019)": EigenvectorSampling(paper_constants=True),
    "IT-U (Amin et al. 2019; diffprivlib)": EigenvectorSampling(
        allocation="uniform", paper_constants=True
    ),
    "KT (Kapralov and Talwar 2013)": KapralovTalwar(paper_constants=True),
}


def peers() -> Iterator[Method]:
    """List every peer."""
    yield Method("Laplace 2d (Jiang et al. 2016)", "peer", by_hand(paper_laplace, epsilon_of))
    yield Method("Laplace (OpenDP, by hand)", "peer", by_hand(vector_laplace, epsilon_of))
    for name, mechanism in PAPER_SAMPLING.items():
        yield Method(name, "peer", as_published(mechanism), narrow)
    yield Method("PPCA (Chaudhuri et al. 2012)", "peer", as_published(ExponentialPCA()))
    yield Method("d'Orsi and Novikov 2025", "peer", dorsi)
    yield Method(
        "SeparateLapCov (Dong et al. 2022)", "peer", as_published(SeparateLaplace("eigenvalues"))
    )
    yield Method("AdaptiveLapCov (Dong et al. 2022)", "peer", as_published(AdaptiveLaplace()))
    gaussian = by_hand(vector_gaussian, rho_of, last=False)
    yield Method("GaussCov (Dwork et al. 2014)", "peer", gaussian)
    yield Method("Gaussian (OpenDP, by hand)", "peer", by_hand(vector_gaussian, rho_of))
    yield Method(
        "SeparateCov (Dong et al. 2022)", "peer", as_published(SeparateGaussian("eigenvalues"))
    )
    yield Method("AdaptiveCov (Dong et al. 2022)", "peer", adaptive_cov)
    yield Method(
        "CoinPress, corrected (Biswas et al. 2020)",
        "peer",
        as_published(Preconditioned()),
        affordable(Preconditioned.name),
        costly=True,
    )
    yield Method("Wishart (Sheffet 2019)", "peer", as_published(AdditiveWishart()), costly=True)
