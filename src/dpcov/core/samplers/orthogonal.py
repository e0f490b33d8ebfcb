"""Gaussian orthogonal noise on the integers (docs/proofs/release.md, section 6c)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.samplers import Law, require_within, symmetric
from dpcov.core.samplers.discrete import MAX_VARIANCE, MIN_VARIANCE, discrete_gaussian

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy


@dataclass(frozen=True, slots=True)
class GaussianOrthogonal(Law):
    """Symmetric matrix of independent discrete Gaussian numbers.

    The variance parameter is `variance` on the diagonal and half of it off the diagonal. A shift D
    of the data costs ``||D||_F^2 / (2 variance)`` in zCDP, whatever the direction of D.

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    variance : Fraction
        Variance parameter on the diagonal, in squared lattice units.

    """

    dimension: int
    variance: Fraction

    law: ClassVar[str] = "discrete-gaussian-orthogonal"
    rotation_invariant: ClassVar[bool] = True

    @property
    def spread(self) -> float:
        return math.sqrt(self.variance)

    @property
    def diagonal_variance(self) -> float:
        return float(self.variance)

    @property
    def frobenius_squared(self) -> float:
        return float(self.variance) * self.dimension * (self.dimension + 1) / 2

    @property
    def edge(self) -> float:
        return 2 * self.detectable

    @property
    def detectable(self) -> float:
        return self.spread * math.sqrt(self.dimension / 2)

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return self.detectable**2 * g

    def require_drawable(self) -> None:
        require_within(self.variance, 2 * MIN_VARIANCE, MAX_VARIANCE)

    def samples(self, count: int, entropy: Entropy) -> Integers:
        d = self.dimension
        diagonal = discrete_gaussian(self.variance, count * d, entropy)
        below = discrete_gaussian(self.variance / 2, count * (d * (d - 1) // 2), entropy)
        return symmetric(diagonal.reshape(count, d), below.reshape(count, -1))

    def simulate(self, generator: np.random.Generator) -> Matrix:
        normals = generator.standard_normal((self.dimension, self.dimension))
        return self.spread / 2 * (normals + normals.T)

    def rescaled(self, factor: float) -> GaussianOrthogonal:
        return GaussianOrthogonal(self.dimension, self.variance * Fraction(factor) ** 2)
