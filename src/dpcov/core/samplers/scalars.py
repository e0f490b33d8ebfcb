"""Distributions of integer noise for one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import scipy

from dpcov.core.samplers import Law, require_within
from dpcov.core.samplers.discrete import (
    MAX_SCALE,
    MAX_VARIANCE,
    MIN_SCALE,
    MIN_VARIANCE,
    discrete_gaussian,
    discrete_laplace,
)

if TYPE_CHECKING:
    import numpy as np

    from dpcov.core.arrays import Integers
    from dpcov.core.entropy import Entropy


@dataclass(frozen=True, slots=True)
class ScalarLaplace(Law):
    """Discrete Laplace distribution: the probability of k is proportional to ``exp(-|k| / scale)``.

    Parameters
    ----------
    scale : Fraction
        Scale of the noise.

    """

    scale: Fraction

    law: ClassVar[str] = "discrete-laplace"

    @property
    def standard_deviation(self) -> float:
        return math.sqrt(2) * float(self.scale)

    def require_drawable(self) -> None:
        require_within(self.scale, MIN_SCALE, MAX_SCALE)

    def upper_quantile(self, probability: float) -> float:
        """Return the value that the noise exceeds with a given probability below 1/2.

        The value belongs to the continuous Laplace distribution of the same scale.
        """
        return -float(self.scale) * math.log(2 * probability)

    def sample(self, entropy: Entropy) -> int:
        return int(self.samples(1, entropy)[0])

    def samples(self, count: int, entropy: Entropy) -> Integers:
        return discrete_laplace(self.scale, count, entropy)

    def simulate(self, generator: np.random.Generator) -> float:
        return float(generator.laplace(scale=float(self.scale)))


@dataclass(frozen=True, slots=True)
class ScalarGaussian(Law):
    """Discrete Gaussian distribution.

    The probability of k is proportional to ``exp(-k^2 / (2 variance))``.

    Parameters
    ----------
    variance : Fraction
        Variance parameter of the noise.

    """

    variance: Fraction

    law: ClassVar[str] = "discrete-gaussian"

    @property
    def standard_deviation(self) -> float:
        return math.sqrt(self.variance)

    def require_drawable(self) -> None:
        require_within(self.variance, MIN_VARIANCE, MAX_VARIANCE)

    def upper_quantile(self, probability: float) -> float:
        """Return the value that the noise exceeds with a given probability below 1/2.

        The value belongs to the continuous normal distribution of the same variance.
        """
        return -self.standard_deviation * float(scipy.special.ndtri(probability))

    def sample(self, entropy: Entropy) -> int:
        return int(self.samples(1, entropy)[0])

    def samples(self, count: int, entropy: Entropy) -> Integers:
        return discrete_gaussian(self.variance, count, entropy)

    def simulate(self, generator: np.random.Generator) -> float:
        return float(generator.normal(scale=self.standard_deviation))
