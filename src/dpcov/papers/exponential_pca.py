"""Leading principal components by the exponential mechanism."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.parameters import Count, Share
from dpcov.core.privacy import Guarantee, Neighbors, PureDP, exact
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.papers import spectral
from dpcov.papers.samplers.frame import sequential_frame

if TYPE_CHECKING:
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class ExponentialPCA(Mechanism):
    """Leading directions, drawn one by one, with noisy variances: pure epsilon-DP.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. With a budget of epsilon and delta, the
    mechanism spends no delta.

    Sensitivity
    -----------
    Let C be the exact second moment. The mechanism draws a direction u with density proportional to
    ``exp(t u'Cu)``, orthogonal to all earlier directions. The draw costs ``t k B^2`` under
    add-remove and ``2 t k B^2`` under replace-one (`spectral.concentration`).

    The values ``v'Cv`` of several orthonormal directions change by ``k B^2`` in l1 norm under
    add-remove, and by ``2 k B^2`` under replace-one. The value of a single direction changes by
    ``k B^2``. `spectral.rayleigh_sensitivity` adds the effect of rounding.

    Not protected
    -------------
    - The schema, the budget and the order of the matrix.
    - Under replace-one, the number of rows or persons.
    - The running time, which depends on the data. Rejection sampling and noise that is drawn after
      reading the data both depend on the data.
    - Floating-point effects of the directions. The values ``v'Cv`` are exact integers.

    Parameters
    ----------
    components : int, public
        Number of directions.
    value_share : float in (0, 1), public
        Fraction of epsilon for the variances along the directions.

    Returns
    -------
    Release
        Matrix of shape (d, d) and rank `components`, in units of 2^shift squared lattice steps,
        without a noise distribution.

    Raises
    ------
    MechanismError
        The budget is not a pure epsilon, or too small for the noise. The error comes before dpcov
        reads any data.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. The running time grows with d^3.

    Source
    ------
    The source is PPCA of Chaudhuri, Sarwate and Sinha, "Near-optimal differentially private
    principal components", NIPS 2012. For one component, dpcov draws exactly from the distribution
    of the paper.

    For more components, the paper draws all directions together, with density
    ``exp((epsilon/2) tr V'CV)``, by Gibbs sampling. This sampler has no known error bound, so
    nobody can certify the privacy. The mechanism draws the directions one by one instead (Amin and
    others 2019). The paper does not release variances.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import ExponentialPCA
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> calibration = ExponentialPCA().calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE)
    >>> round(float(calibration.value_noise.scale / lattice.bound), 3)
    5.0

    """

    components: Count = 1
    value_share: Share = 0.2

    name: ClassVar[str] = "exponential-pca"
    use: ClassVar[str] = "the leading directions and nothing else"
    source: ClassVar[str] = "Chaudhuri et al. 2012"

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> spectral.Calibration:
        epsilon, neighbors = pure_epsilon(self.name, budget), Neighbors(neighbors)
        two = neighbors == Neighbors.REPLACE_ONE and spectral.rank(lattice, self.components) > 1
        sensitivity = lattice.unit_bound * (2 if two else 1)
        return spectral.Calibration(
            Guarantee(PureDP(float(epsilon)), neighbors, lattice.unit),
            ScalarLaplace(sensitivity / (epsilon * self._share_of_values(lattice))),
        )

    def run(self, rows: Rows, laws: spectral.Calibration, entropy: Entropy) -> Release:
        lattice, neighbors = rows.lattice(), laws.guarantee.neighbors
        epsilon = pure_epsilon(self.name, laws.guarantee.budget)
        for_values = epsilon * self._share_of_values(lattice)
        weights = np.ones(spectral.rank(lattice, self.components))
        if len(weights) == lattice.dimension:
            weights[-1] = 0.0
        whole = spectral.concentration(lattice, neighbors, epsilon - for_values)
        moment = rows.second_moments()[0]
        matrix = moment.units.astype(np.float64)
        vectors = sequential_frame(matrix, whole * spectral.shares(weights), entropy).vectors
        values = spectral.rayleigh_values(moment, vectors, neighbors, for_values, entropy)
        return spectral.estimate(self, rows, laws, moment, vectors, values, entropy)

    def _share_of_values(self, lattice: Lattice) -> Fraction:
        """Return the fraction of epsilon for the values. With one column, the fraction is 1."""
        return Fraction(1) if lattice.dimension == 1 else exact(self.value_share)
