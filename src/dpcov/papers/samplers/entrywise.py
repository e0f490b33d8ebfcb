"""Distribution of a symmetric matrix of independent discrete Laplace numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.samplers import Law, require_within, symmetric
from dpcov.core.samplers.discrete import MAX_SCALE, MIN_SCALE, discrete_laplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy


@dataclass(frozen=True, slots=True)
class EntrywiseLaplace(Law):
    """Symmetric matrix of independent discrete Laplace numbers.

    The probability of k is proportional to ``exp(-|k| / scale)``. A shift D of the data costs at
    most ``sum_i |D_ii| / diagonal + sum_(i<j) |D_ij| / off_diagonal`` in pure differential privacy.
    This bound is attained.

    Off the diagonal, the variance is ``2 off_diagonal^2``. It alone determines the limiting
    spectrum, which is a semicircle.

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    diagonal : Fraction
        Scale on the diagonal.
    off_diagonal : Fraction
        Scale off the diagonal.

    """

    dimension: int
    diagonal: Fraction
    off_diagonal: Fraction

    law: ClassVar[str] = "discrete-laplace-entrywise"
    rotation_invariant: ClassVar[bool] = False

    @property
    def spread(self) -> float:
        return float(self.off_diagonal)

    @property
    def diagonal_variance(self) -> float:
        return 2 * float(self.diagonal) ** 2

    @property
    def frobenius_squared(self) -> float:
        d = self.dimension
        return d * self.diagonal_variance + 2 * d * (d - 1) * float(self.off_diagonal) ** 2

    @property
    def edge(self) -> float:
        return 2 * self.detectable

    @property
    def detectable(self) -> float:
        return float(self.off_diagonal) * math.sqrt(2 * self.dimension)

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return self.detectable**2 * g

    def require_drawable(self) -> None:
        for scale in (self.diagonal, self.off_diagonal):
            require_within(scale, MIN_SCALE, MAX_SCALE)

    def samples(self, count: int, entropy: Entropy) -> Integers:
        d = self.dimension
        diagonal = discrete_laplace(self.diagonal, count * d, entropy)
        below = discrete_laplace(self.off_diagonal, count * (d * (d - 1) // 2), entropy)
        return symmetric(diagonal.reshape(count, d), below.reshape(count, -1))

    def simulate(self, generator: np.random.Generator) -> Matrix:
        d = self.dimension
        draws = np.tril(generator.laplace(scale=float(self.off_diagonal), size=(d, d)), -1)
        diagonal = generator.laplace(scale=float(self.diagonal), size=d)
        return draws + draws.T + np.diag(diagonal)

    def rescaled(self, factor: float) -> EntrywiseLaplace:
        ratio = Fraction(factor)
        return EntrywiseLaplace(self.dimension, self.diagonal * ratio, self.off_diagonal * ratio)
