"""One centred Wishart matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import chdtri, gammaincinv

from dpcov.core.samplers import LARGEST_ENTRY, Law, require_within, whole
from dpcov.core.samplers.normal import LARGEST, standard_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy

# The largest float64 spacing, over the noise, that rounding hides (docs/proofs/release.md 7).
FINEST = 2.0**-30


@dataclass(frozen=True, slots=True)
class CenteredWishart(Law):
    """Law of W - m c I, W ~ Wishart_d(m, c I); skewed: bounded below by -m c, not above.

    Moments: mean 0, variance 2 m c^2 on the diagonal and m c^2 off it. With m to infinity at fixed
    c sqrt(m) it becomes the Gaussian orthogonal law. What it protects says
    `dpcov.papers.additive_wishart`.
    """

    dimension: int
    degrees: int
    scale: float

    law: ClassVar[str] = "centered-wishart"
    rotation_invariant: ClassVar[bool] = True

    @property
    def spread(self) -> float:
        return self.scale * math.sqrt(self.degrees)

    @property
    def diagonal_variance(self) -> float:
        return 2 * self.degrees * self.scale**2

    @property
    def frobenius_squared(self) -> float:
        return self.degrees * self.dimension * (self.dimension + 1) * self.scale**2

    @property
    def _width(self) -> float:
        return self.scale * math.sqrt(self.degrees * self.dimension)

    # The spectrum ends at the least value of 1/g + R(g), R below, which is taken at
    # 1/g = c (d + sqrt(m d)) (free Poisson law).
    @property
    def edge(self) -> float:
        return self.detectable + self._width

    @property
    def detectable(self) -> float:
        return self.scale * self.dimension + self._width

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return self._width**2 * g / (1 - self.scale * self.dimension * g)

    def require_drawable(self) -> None:
        """Hold W below the largest entry, and float64's spacing there far below the noise.

        The bound on W that both go by is exceeded with a probability below 2^-60.
        """
        largest = self.scale * (math.sqrt(self.degrees) + LARGEST + math.sqrt(self.dimension)) ** 2
        require_within(largest, 0, LARGEST_ENTRY)
        require_within(largest * 2.0**-52, 0, Fraction(max(1.0, self.spread) * FINEST))

    def sample(self, entropy: Entropy) -> Integers:
        """floor(Z + 1/2), never half-to-even, so that rounding commutes with integer shifts.

        By Bartlett: W = c T T' with T lower triangular, standard normal below the diagonal and
        T_ii^2 chi-square with m - i degrees of freedom, by inversion of 63-bit tail probabilities.
        """
        self.require_drawable()
        d = self.dimension
        factor = np.zeros((d, d))
        factor[np.tril_indices(d, -1)] = standard_normals(d * (d - 1) // 2, entropy)
        factor[np.diag_indices(d)] = np.sqrt(_chi_squares(self._freedoms(), entropy))
        return whole(self._centered(factor))

    def simulate(self, generator: np.random.Generator) -> Matrix:
        d = self.dimension
        factor = np.tril(generator.standard_normal((d, d)), -1)
        factor[np.diag_indices(d)] = np.sqrt(generator.chisquare(self._freedoms()))
        return self._centered(factor)

    def _freedoms(self) -> Matrix:
        return self.degrees - np.arange(self.dimension, dtype=np.float64)

    def _centered(self, factor: Matrix) -> Matrix:
        return self.scale * (factor @ factor.T - self.degrees * np.eye(self.dimension))

    def rescaled(self, factor: float) -> CenteredWishart:
        return CenteredWishart(self.dimension, self.degrees, self.scale * factor)


def _chi_squares(freedoms: Matrix, entropy: Entropy) -> Matrix:
    """Chi-squares by inversion of the tail that is nearer."""
    words = entropy.words(len(freedoms))
    tail = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    lower: Matrix = 2 * gammaincinv(freedoms / 2, tail)
    return np.where(words & np.uint64(1), lower, chdtri(freedoms, tail))
