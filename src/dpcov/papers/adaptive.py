"""A mechanism with a clipping radius chosen privately, under a name of its own: AdaptiveCov."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcov.errors import MechanismError
from dpcov.mechanisms import additive
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.papers import separate
from dpcov.papers.laplace import Laplace

if TYPE_CHECKING:
    from dpcov.entropy import Entropy
    from dpcov.moment import Lattice
    from dpcov.privacy import Budget, Neighbors
    from dpcov.releases import Release
    from dpcov.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class Adaptive(ABC):
    """What `AdaptiveLaplace` and `AdaptiveGaussian`, which have the proofs, do alike."""

    by: str
    radius_share: float = 0.1
    trace_share: float = 0.1
    values: separate.Values = "rayleigh"
    vector_share: float = 0.5

    name: ClassVar[str]
    use: ClassVar[str] = "reference: a radius chosen privately"
    source: ClassVar[str] = "Dong, Liang and Yi 2022"
    passes: ClassVar[int] = 2

    whole: ClassVar[type[Laplace] | type[Gaussian]]  # the moment with noise
    apart: ClassVar[type[separate.Separate]]  # its vectors and values apart

    def __post_init__(self) -> None:
        if self.by not in (self.whole.name, self.apart.name):
            raise MechanismError(f"by must be {self.whole.name!r} or {self.apart.name!r}.")
        self._whole()
        self._apart()

    @abstractmethod
    def require_kind(self, budget: Budget) -> None:
        """Refuse another kind of budget, in this mechanism's name."""

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration | separate.Calibration:
        self.require_kind(budget)
        chosen = self._whole() if self.by == self.whole.name else self._apart()
        return chosen.calibrate(lattice, budget, neighbors)

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        laws = self.calibrate(rows.lattice(), budget, neighbors)
        if isinstance(laws, separate.Calibration):
            return separate.release(self, laws, rows, entropy)
        return additive.release_calibrated(self, laws, rows, entropy)

    def _whole(self) -> Laplace | Gaussian:
        return self.whole(self.trace_share, radius="private", radius_share=self.radius_share)

    def _apart(self) -> separate.Separate:
        return self.apart(self.values, self.vector_share, "private", self.radius_share)
