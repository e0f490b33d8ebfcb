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
    r"""The leading directions, drawn one by one, and their noisy variances: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. Stated an (epsilon, delta) budget, it spends no delta.

    Sensitivity
    -----------
    A direction u drawn from exp(t u'Cu) in the complement of the earlier ones costs t k B^2
    add/remove, 2 t k B^2 replace-one (`spectral.concentration`). The values v'Cv of orthonormal
    directions change by k B^2 in L1 add/remove, 2 k B^2 replace-one (k B^2 for a single one), and
    what rounding adds (`spectral.rayleigh_sensitivity`).

    Not protected
    -------------
    Schema, budget, order of the matrix; the number of rows (of persons) under replace-one. The
    running time depends on the data: rejection sampling, and noise that is drawn after the data is
    read. Directions are drawn in float64; the values v'Cv are exact integers.

    Parameters
    ----------
    components : int, public
        Number of directions.
    value_share : float in (0, 1), public
        Share of epsilon for the variances along them.

    Returns
    -------
    Release
        (d, d) matrix of rank `components` in units of 2^shift squared lattice steps; no noise law.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons); about d^3 time.

    Source
    ------
    Chaudhuri, Sarwate and Sinha, "Near-optimal differentially private principal components", NIPS
    2012 (PPCA). For one component this is their law, drawn exactly. For more they draw the whole
    frame from exp((epsilon/2) tr V'CV) by Gibbs sampling, whose distance from that law has no known
    bound, so that its privacy can't be certified; sequential draws (Amin et al. 2019) stand in.
    They release no variances.

    Examples
    --------
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
        """All of epsilon where the only direction is determined."""
        return Fraction(1) if lattice.dimension == 1 else exact(self.value_share)
