"""Means and variances, without covariances."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import MechanismError
from dpcov.mechanisms import gaussian
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.pure import by_budget, pure_epsilon, pure_guarantee
from dpcov.mechanisms.standardized import noisy_sums
from dpcov.published.costs import rounds_of
from dpcov.published.kinds import NoisySums
from dpcov.releases import Release
from dpcov.rows.pilot_sensitivity import pilot_sensitivities

if TYPE_CHECKING:
    from fractions import Fraction

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import ScalarLaw
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class Calibration:
    """Noise distribution of each sum, with the guarantee. Everything here is public."""

    guarantee: Guarantee
    law: ScalarLaw
    mu_squared: Fraction | None = None

    def __post_init__(self) -> None:
        self.law.require_drawable()

    @property
    def is_gaussian(self) -> bool:
        """True if the noise is Gaussian noise."""
        return isinstance(self.law, ScalarGaussian)


@dataclass(frozen=True, slots=True)
class Sums(Mechanism):
    """Noisy sums of the features and of their squares: means and variances only.

    Guarantee
    ---------
    The guarantee has the kind of the budget. It holds for every input, for rows or persons, under
    both relations. For (epsilon, delta) the mechanism draws the smaller of Gaussian and Laplace
    noise. Laplace noise spends no delta.

    Sensitivity
    -----------
    As for the pilot query of `Standardized` (`pilot_sensitivities`, docs/proofs/pilot.md).

    Not protected
    -------------
    The schema, the budget and the running time. Under replace-one, the number of rows or persons.

    Parameters
    ----------
    None

    Returns
    -------
    Release
        2 p + 1 integers, in squared lattice steps. The release has no covariances.

    Raises
    ------
    MechanismError
        The schema has no intercept, or the budget is too small. The error comes before any row is
        read.

    Cost
    ----
    One pass over the data (two with persons); 2 p + 1 numbers for the noise.

    Source
    ------
    Dwork, McSherry, Nissim and Smith 2006, on the integers.

    Examples
    --------
    >>> from dpcov.core.privacy import ZCDP
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(3, 1.0, intercept=0.3)
    >>> law = Sums().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE).law
    >>> round(law.standard_deviation * lattice.step**2, 2)
    1.05

    """

    name: ClassVar[str] = "sums"
    use: ClassVar[str] = "means and variances only, with less noise than a second moment"
    source: ClassVar[str] = "Dwork et al. 2006"

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        self._require_intercept(lattice)
        return by_budget(
            budget,
            lambda: self._laplace(lattice, budget, Neighbors(neighbors)),
            lambda: self._gaussian(lattice, budget, Neighbors(neighbors)),
            lambda laws: laws.law.standard_deviation,
        )

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> Calibration:
        self._require_intercept(lattice)
        return self._gaussian(lattice, budget, Neighbors(neighbors), rounded=True)

    def _require_intercept(self, lattice: Lattice) -> None:
        if lattice.intercept_units == 0:
            raise MechanismError(
                f"The mechanism {self.name} needs an intercept. Set intercept = 0.3 in the schema, "
                "or choose another mechanism."
            )

    def _laplace(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        epsilon = pure_epsilon(self.name, budget)
        law = ScalarLaplace(pilot_sensitivities(lattice, neighbors)[1] / epsilon)
        return Calibration(pure_guarantee(lattice, epsilon, neighbors), law)

    def _gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors, *, rounded: bool = False
    ) -> Calibration:
        rho, extra = gaussian.concentration(self.name, budget, rounded=rounded)
        law = ScalarGaussian(pilot_sensitivities(lattice, neighbors)[0] / (2 * rho) + extra)
        guarantee = Guarantee(budget, neighbors, lattice.unit)
        return Calibration(guarantee, law, gaussian.mu_squared(rho, extra))

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        noise = laws.law.samples(2 * rows.lattice().features + 1, entropy)
        moment = rows.second_moments()[0]
        sums = NoisySums(noisy_sums(moment, noise), laws.law)
        replaces = laws.guarantee.neighbors == Neighbors.REPLACE_ONE
        return Release(
            schema=rows.schema,
            guarantee=laws.guarantee,
            mechanism=self.name,
            parameters=asdict(self),
            rounds=rounds_of([("sums", sums)], rows.schema, laws.guarantee),
            unit_count=moment.unit_count if replaces else None,
            reproducible=entropy.reproducible,
        )
