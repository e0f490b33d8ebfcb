"""Distribution of one centred Wishart matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import chdtri, gammaincinv

from dpcov.core.samplers import MAX_NOISE_ENTRY, Law, require_within, whole
from dpcov.core.samplers.normal import MAX_NORMAL, standard_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy

# Largest float64 spacing, relative to the noise, that rounding hides (docs/proofs/release.md,
# section 7).
MAX_RELATIVE_SPACING = 2.0**-30


@dataclass(frozen=True, slots=True)
class CenteredWishart(Law):
    """Distribution of ``W - m c I`` with a Wishart matrix ``W ~ Wishart_d(m, c I)``.

    The mean is 0. The variance is ``2 m c^2`` on the diagonal and ``m c^2`` off the diagonal. The
    distribution is skewed: all eigenvalues are at least ``-m c``. If m grows at a fixed
    ``c sqrt(m)``, the distribution approaches the Gaussian orthogonal distribution.
    `dpcov.papers.additive_wishart` states the privacy guarantee.

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    degrees : int
        Degrees of freedom m.
    scale : float
        Scale c, in squared lattice units.

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

    # The spectrum ends at the minimum of 1/g + R(g), where R is the R-transform below. The minimum
    # is at 1/g = c (d + sqrt(m d)) (free Poisson distribution).
    @property
    def edge(self) -> float:
        return self.detectable + self._width

    @property
    def detectable(self) -> float:
        return self.scale * self.dimension + self._width

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return self._width**2 * g / (1 - self.scale * self.dimension * g)

    def require_drawable(self) -> None:
        """Raise an error if the noise is too large, or too small for the spacing of float64.

        Both checks use a bound on W. The noise exceeds the bound with a probability below 2^-60.
        """
        largest = (
            self.scale * (math.sqrt(self.degrees) + MAX_NORMAL + math.sqrt(self.dimension)) ** 2
        )
        require_within(largest, 0, MAX_NOISE_ENTRY)
        require_within(
            largest * 2.0**-52, 0, Fraction(max(1.0, self.spread) * MAX_RELATIVE_SPACING)
        )

    def sample(self, entropy: Entropy) -> Integers:
        """Draw the noise and round it to integers by ``floor(x + 1/2)``.

        This rule commutes with integer shifts. Rounding half to even would not.

        The function uses Bartlett's decomposition ``W = c T T'`` with a lower triangular matrix T.
        The entries below the diagonal are standard normal. The squared diagonal entries ``T_ii^2``
        have a chi-square distribution with ``m - i`` degrees of freedom. They come from the
        inversion of tail probabilities of 63 bits.
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
    """Draw chi-square numbers by inversion of the smaller tail probability."""
    words = entropy.words(len(freedoms))
    tail = ((words >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    lower: Matrix = 2 * gammaincinv(freedoms / 2, tail)
    return np.where(words & np.uint64(1), lower, chdtri(freedoms, tail))
