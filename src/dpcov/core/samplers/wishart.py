"""Matrix Laplace noise: the difference of two Wishart matrices.

The noise is ``Z = c (G1 G1' - G2 G2')``. The matrices G1 and G2 have the shape (d, d + 1) and
independent standard normal entries. The proof is in docs/proofs/release.md, section 6a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.samplers import MAX_NOISE_ENTRY, Law, require_within, whole
from dpcov.core.samplers.normal import MAX_NORMAL, standard_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy


@dataclass(frozen=True, slots=True)
class WishartDifference(Law):
    """Distribution of the difference of two independent Wishart matrices.

    Both matrices have d + 1 degrees of freedom and the scale matrix ``c I``. The mean of the
    difference is 0. The variance is ``4 (d + 1) c^2`` on the diagonal and half of that off the
    diagonal. For d = 1, the difference has a Laplace distribution with scale 2c.

    A shift of the data by a symmetric matrix D changes the log-density by at most
    ``||D||_* / (2 c)``. The norm ``||D||_*`` is the nuclear norm. A shift of nuclear norm at most
    ``2 c epsilon`` therefore costs at most epsilon (docs/proofs/release.md, section 6a).

    Parameters
    ----------
    dimension : int
        Order d of the matrix.
    scale : float
        Scale c, in squared lattice units.

    """

    dimension: int
    scale: float

    law: ClassVar[str] = "wishart-difference"
    rotation_invariant: ClassVar[bool] = True

    @property
    def degrees(self) -> int:
        """Degrees of freedom of each Wishart matrix. The proof fails with fewer degrees."""
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

    # Let s be the width and R the R-transform below. The spectrum ends at the minimum of
    # 1/g + R(g), which is 3.3302 s. The minimum is at (s g)^2 = sqrt(5) - 2, so s g = 0.48587. The
    # smallest detectable eigenvalue is 1/g = 2.0582 s (docs/proofs/release.md, section 6).
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
        """Raise an error if an entry of the noise could exceed the largest allowed size."""
        require_within(self.scale * self.degrees * MAX_NORMAL**2, 0, MAX_NOISE_ENTRY)

    def sample(self, entropy: Entropy) -> Integers:
        """Draw the noise and round it to integers by ``floor(x + 1/2)``.

        This rule commutes with integer shifts. Rounding half to even would not.
        """
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
