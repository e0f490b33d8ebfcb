"""Matrix Laplace noise: the difference of two Wishart matrices (docs/proofs/release.md 6a).

Z = c (G1 G1' - G2 G2'), G of shape (d, d+1) with standard normal entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.samplers import LARGEST_ENTRY, Law, require_within, whole
from dpcov.core.samplers.normal import LARGEST, standard_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy


@dataclass(frozen=True, slots=True)
class WishartDifference(Law):
    """Law of W1 - W2, W ~ Wishart_d(d + 1, c I) independent; for d = 1 it is Laplace(2c).

    Moments: mean 0, variance 4 (d+1) c^2 on the diagonal and 2 (d+1) c^2 off it. The density f
    obeys |log f(Z + D) - log f(Z)| <= ||D||_* / 2c for every symmetric D: a shift of nuclear norm
    at most 2 c epsilon is epsilon-indistinguishable (docs/proofs/release.md 6a).
    """

    dimension: int
    scale: float

    law: ClassVar[str] = "wishart-difference"
    rotation_invariant: ClassVar[bool] = True

    @property
    def degrees(self) -> int:
        """Degrees of freedom of each Wishart matrix; fewer would break the theorem."""
        return self.dimension + 1

    @property
    def spread(self) -> float:
        return self.scale

    @property
    def _width(self) -> float:
        return self.scale * math.sqrt(self.dimension * (self.dimension + 1))

    @property
    def diagonal_variance(self) -> float:
        return 4 * self.degrees * self.scale**2

    @property
    def frobenius_squared(self) -> float:
        return 2 * self._width**2 * (self.dimension + 1)

    # With s the width, the spectrum ends at the least value of 1/g + R(g), R the R-transform below.
    # It is taken where (s g)^2 = sqrt(5) - 2, that is s g = .48587, and is 3.3302 s; an eigenvalue
    # shows from 1/g = 2.0582 s on (docs/proofs/release.md 6).
    @property
    def edge(self) -> float:
        return 3.3302 * self._width

    @property
    def detectable(self) -> float:
        return 2.0582 * self._width

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        unit = self._width * g
        return 2 * self._width * unit / (1 - unit**2)

    def require_drawable(self) -> None:
        """Hold every entry, at most 2 c m LARGEST^2 in size, below twice the largest."""
        require_within(self.scale * self.degrees * LARGEST**2, 0, LARGEST_ENTRY)

    def sample(self, entropy: Entropy) -> Integers:
        """floor(Z + 1/2), never half-to-even, so that rounding commutes with integer shifts."""
        self.require_drawable()
        size = self.dimension * self.degrees
        normals = standard_normals(2 * size, entropy)
        first, second = normals.reshape(2, self.dimension, self.degrees)
        return whole(self._difference(first, second))

    def simulate(self, generator: np.random.Generator) -> Matrix:
        first, second = generator.standard_normal((2, self.dimension, self.degrees))
        return self._difference(first, second)

    def _difference(self, first: Matrix, second: Matrix) -> Matrix:
        return self.scale * (first @ first.T - second @ second.T)

    def rescaled(self, factor: float) -> WishartDifference:
        return WishartDifference(self.dimension, self.scale * factor)
