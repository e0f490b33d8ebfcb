"""Integer noise for one number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import scipy

from dpcov.core.samplers import Law, require_within
from dpcov.core.samplers.discrete import (
    LARGEST_SCALE,
    LARGEST_VARIANCE,
    SMALLEST_SCALE,
    SMALLEST_VARIANCE,
    discrete_gaussian,
    discrete_laplace,
)

if TYPE_CHECKING:
    import numpy as np

    from dpcov.core.arrays import Integers
    from dpcov.core.entropy import Entropy


@dataclass(frozen=True, slots=True)
class ScalarLaplace(Law):
    """P(k) proportional to exp(-|k| / scale)."""

    scale: Fraction

    law: ClassVar[str] = "discrete-laplace"

    @property
    def standard_deviation(self) -> float:
        return math.sqrt(2) * float(self.scale)

    def require_drawable(self) -> None:
        require_within(self.scale, SMALLEST_SCALE, LARGEST_SCALE)

    def upper_quantile(self, probability: float) -> float:
        """What the noise exceeds with this probability, below 1/2; that of the continuous law."""
        return -float(self.scale) * math.log(2 * probability)

    def sample(self, entropy: Entropy) -> int:
        return int(self.samples(1, entropy)[0])

    def samples(self, count: int, entropy: Entropy) -> Integers:
        return discrete_laplace(self.scale, count, entropy)

    def simulate(self, generator: np.random.Generator) -> float:
        return float(generator.laplace(scale=float(self.scale)))


@dataclass(frozen=True, slots=True)
class ScalarGaussian(Law):
    """P(k) proportional to exp(-k^2 / (2 variance))."""

    variance: Fraction

    law: ClassVar[str] = "discrete-gaussian"

    @property
    def standard_deviation(self) -> float:
        return math.sqrt(self.variance)

    def require_drawable(self) -> None:
        require_within(self.variance, SMALLEST_VARIANCE, LARGEST_VARIANCE)

    def upper_quantile(self, probability: float) -> float:
        """What the noise exceeds with this probability, below 1/2; that of the continuous law."""
        return -self.standard_deviation * float(scipy.special.ndtri(probability))

    def sample(self, entropy: Entropy) -> int:
        return int(self.samples(1, entropy)[0])

    def samples(self, count: int, entropy: Entropy) -> Integers:
        return discrete_gaussian(self.variance, count, entropy)

    def simulate(self, generator: np.random.Generator) -> float:
        return float(generator.normal(scale=self.standard_deviation))
