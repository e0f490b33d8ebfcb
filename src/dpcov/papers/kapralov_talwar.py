"""Rank-one pieces by the exponential mechanism, subtracted one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dpcov.core.parameters import Count
from dpcov.core.privacy import Guarantee, Neighbors, PureDP
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.papers import spectral
from dpcov.papers.samplers.frame import sequential_frame

if TYPE_CHECKING:
    from fractions import Fraction

    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice
    from dpcov.rows.sources.rows import Rows


@dataclass(frozen=True, slots=True)
class KapralovTalwar(Mechanism):
    r"""Sum of rank-one pieces, each drawn from what the earlier ones left: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows. Stated an (epsilon, delta) budget, it spends no delta.

    Sensitivity
    -----------
    2 r queries of epsilon / 2r each, r the rank. In each round the residue is R = C - sum l v v',
    where the pieces are outputs already, so that R changes as C does: a direction u drawn from
    exp(t u'Ru) costs t k B^2 add/remove, 2 t k B^2 replace-one (`spectral.concentration`), and u'Cu
    for the direction drawn changes by at most k B^2 under both, to which Laplace noise is added.

    Not protected
    -------------
    Schema, budget, order of the matrix; the number of rows (of persons) under replace-one. The
    running time depends on the data: rejection sampling, and noise that is drawn after the data is
    read. Directions are drawn in float64; the values u'Cu are exact integers.

    Parameters
    ----------
    rank : int or None, public
        Number of pieces; None for d.
    paper_constants : bool, public
        t = epsilon_i / 4 k B^2, the constant of Amin et al., for both relations.

    Returns
    -------
    Release
        (d, d) estimate in units of 2^shift squared lattice steps; no noise law.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons); r eigendecompositions, so r d^3 time.

    Source
    ------
    Kapralov and Talwar, "On differentially private low rank approximation", SODA 2013, as Amin et
    al. 2019 compare with it. Differences: their O(d^6 / epsilon) sampler is replaced by exact
    rejection (`samplers.bingham`); the code published with Amin et al. draws from
    exp((4 epsilon / d) u'Ru), 8 times what its share allows, and is not epsilon-DP.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> calibration = KapralovTalwar().calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE)
    >>> round(float(calibration.value_noise.scale / lattice.bound), 3)
    8.0

    """

    rank: Count | None = None
    paper_constants: bool = False

    name: ClassVar[str] = "kapralov-talwar"
    use: ClassVar[str] = "reference: rank-one pieces"
    source: ClassVar[str] = "Kapralov and Talwar 2013"

    def calibrate(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> spectral.Calibration:
        epsilon = pure_epsilon(self.name, budget)
        scale = lattice.unit_bound / self._epsilon_of_query(lattice, epsilon)
        return spectral.Calibration(
            Guarantee(PureDP(float(epsilon)), Neighbors(neighbors), lattice.unit),
            ScalarLaplace(scale),
        )

    def run(self, rows: Rows, laws: spectral.Calibration, entropy: Entropy) -> Release:
        lattice, neighbors = rows.lattice(), laws.guarantee.neighbors
        whole = pure_epsilon(self.name, laws.guarantee.budget)
        epsilon = self._epsilon_of_query(lattice, whole)
        concentration = spectral.concentration(lattice, neighbors, epsilon)
        if self.paper_constants:
            concentration = spectral.concentration(lattice, Neighbors.REPLACE_ONE, epsilon) / 2
        moment = rows.second_moments()[0]
        residue = moment.units.astype(np.float64)
        largest = spectral.largest_trace(neighbors, moment)
        rank = spectral.rank(lattice, self.rank)
        vectors, values = np.zeros((rank, lattice.dimension)), np.zeros(rank)
        for i in range(rank):
            vectors[i] = sequential_frame(residue, np.array([concentration]), entropy).vectors[0]
            form = spectral.rayleigh_values(moment, vectors[i : i + 1], neighbors, epsilon, entropy)
            taken = values[:i] @ (vectors[:i] @ vectors[i]) ** 2
            values[i] = np.clip(form[0] - taken, 0.0, largest)
            residue -= values[i] * np.outer(vectors[i], vectors[i])
        return spectral.estimate(self, rows, laws, moment, vectors, values, entropy)

    def _epsilon_of_query(self, lattice: Lattice, epsilon: Fraction) -> Fraction:
        """Each round asks for a direction and a value; at d = 1 the direction is known."""
        queries = 1 if lattice.dimension == 1 else 2 * spectral.rank(lattice, self.rank)
        return epsilon / queries
