"""Distribution of a weighted sum of independent noise matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy

from dpcov.core.samplers import Law

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Integers, Matrix
    from dpcov.core.entropy import Entropy
    from dpcov.core.samplers import MatrixLaw


@dataclass(frozen=True, slots=True)
class WeightedSum(Law):
    """Weighted sum of independent, rotation-invariant noise matrices of the same order.

    Parameters
    ----------
    weights : tuple of float, length m
        Weight of each noise matrix.
    terms : tuple of MatrixLaw, length m
        Distribution of each noise matrix.

    """

    weights: tuple[float, ...]
    terms: tuple[MatrixLaw, ...]

    law: ClassVar[str] = "weighted-sum"
    rotation_invariant: ClassVar[bool] = True

    @property
    def dimension(self) -> int:
        return self.terms[0].dimension

    @property
    def spread(self) -> float:
        return math.sqrt(self._squares(lambda term: term.spread**2))

    @property
    def diagonal_variance(self) -> float:
        return self._squares(lambda term: term.diagonal_variance)

    @property
    def frobenius_squared(self) -> float:
        return self._squares(lambda term: term.frobenius_squared)

    @property
    def edge(self) -> float:
        return self._edge_and_threshold()[0]

    @property
    def detectable(self) -> float:
        return self._edge_and_threshold()[1]

    def _edge_and_threshold(self) -> tuple[float, float]:
        """Return the edge of the spectrum and the smallest detectable eigenvalue.

        The function minimises ``l + R(1/l)`` over ``l > 0``, where R is the R-transform of the sum.
        The minimum is the edge. Its position l is the smallest detectable eigenvalue. R-transforms
        of free terms add up, so R is the sum of the R-transforms of the terms.

        For Gaussian terms, the squares of the detectable eigenvalues add up. The search starts from
        this sum. For Laplace terms the sum is too large by at most a quarter. The search range
        still excludes the poles of R, which are at half the detectable eigenvalues.
        """
        largest = math.sqrt(self._squares(lambda term: term.detectable**2))

        def seen(share: float) -> float:
            inverse = np.array([1 / (share * largest)], np.complex128)
            return share + float(self.r_transform(inverse)[0].real) / largest

        found = scipy.optimize.minimize_scalar(
            seen, bounds=(0.7, 1.05), method="bounded", options={"xatol": 1e-6}
        )
        return float(found.fun) * largest, float(found.x) * largest

    def _squares(self, square: Callable[[MatrixLaw], float]) -> float:
        pairs = zip(self.weights, self.terms, strict=True)
        return sum(weight**2 * square(term) for weight, term in pairs)

    def r_transform(self, g: NDArray[np.complex128]) -> NDArray[np.complex128]:
        total = np.zeros(g.shape, np.complex128)
        for weight, term in zip(self.weights, self.terms, strict=True):
            total += weight * term.r_transform(weight * g)
        return total

    def require_drawable(self) -> None:
        for term in self.terms:
            term.require_drawable()

    def sample(self, entropy: Entropy) -> Integers:
        """Draw the sum of the terms, rounded down. The function is for tests."""
        total = np.zeros((self.dimension, self.dimension), object)
        for weight, term in zip(self.weights, self.terms, strict=True):
            total += term.sample(entropy).astype(object) * Fraction(weight)
        return (total // 1).astype(np.int64)

    def simulate(self, generator: np.random.Generator) -> Matrix:
        total = np.zeros((self.dimension, self.dimension))
        for weight, term in zip(self.weights, self.terms, strict=True):
            total += weight * term.simulate(generator)
        return total

    def rescaled(self, factor: float) -> WeightedSum:
        return WeightedSum(tuple(factor * weight for weight in self.weights), self.terms)
