"""Base class of the mechanisms of Dong, Liang and Yi 2022 with a private clipping radius."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.parameters import Share, ShareOrNone
from dpcov.mechanisms import additive
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.gaussian import Gaussian
from dpcov.papers import separate
from dpcov.papers.laplace import Laplace

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class Adaptive(Mechanism):
    """Base class of `AdaptiveLaplace` and `AdaptiveGaussian`, which contain the proofs."""

    by: str
    radius_share: Share = 0.1
    trace_share: ShareOrNone = 0.1
    values: separate.Values = "rayleigh"
    vector_share: Share = 0.5

    name: ClassVar[str]
    use: ClassVar[str] = "reference: a radius chosen privately"
    source: ClassVar[str] = "Dong, Liang and Yi 2022"

    whole: ClassVar[type[Laplace] | type[Gaussian]]  # releases the noisy second moment
    apart: ClassVar[type[separate.Separate]]  # releases eigenvectors and eigenvalues separately

    @property
    def passes(self) -> int:
        return 2

    @abstractmethod
    def require_kind(self, budget: Budget) -> None:
        """Raise an error if the mechanism does not accept the kind of budget."""

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> additive.Calibration | separate.Calibration:
        self.require_kind(budget)
        return self._chosen().calibrate(lattice, budget, neighbors)

    def run(
        self, rows: Rows, laws: additive.Calibration | separate.Calibration, entropy: Entropy
    ) -> Release:
        if isinstance(laws, separate.Calibration):
            made = self._apart().run(rows, laws, entropy)
        else:
            made = self._whole().run(rows, laws, entropy)
        return replace(made, mechanism=self.name, parameters=asdict(self))

    def _chosen(self) -> Laplace | Gaussian | separate.Separate:
        return self._whole() if self.by == self.whole.name else self._apart()

    def _whole(self) -> Laplace | Gaussian:
        return self.whole(self.trace_share, radius="private", radius_share=self.radius_share)

    def _apart(self) -> separate.Separate:
        return self.apart(self.values, self.vector_share, "private", self.radius_share)
