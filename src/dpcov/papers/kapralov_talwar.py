"""Sum of rank-one matrices, each drawn by the exponential mechanism."""

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
    """Sum of rank-one matrices, drawn and subtracted one by one: pure epsilon-DP.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. With a budget of epsilon and delta, the
    mechanism spends no delta.

    Sensitivity
    -----------
    Let C be the exact second moment and r the rank. The mechanism makes 2r queries with
    ``epsilon / 2r`` each, two in every round.

    The residual of a round is C minus the rank-one matrices of all earlier rounds. Those matrices
    are released already, so the residual R changes exactly as C does. The two queries are:

    - A direction u, drawn with density proportional to ``exp(t u'Ru)``. The draw costs ``t k B^2``
      under add-remove and ``2 t k B^2`` under replace-one (`spectral.concentration`).
    - The value ``u'Cu`` of this direction, with Laplace noise. The value changes by at most
      ``k B^2`` under both relations.

    Not protected
    -------------
    - The schema, the budget and the order of the matrix.
    - Under replace-one, the number of rows or persons.
    - The running time, which depends on the data. Rejection sampling and noise that is drawn after
      reading the data both depend on the data.
    - Floating-point effects of the directions. The values ``u'Cu`` are exact integers.

    Parameters
    ----------
    rank : int, optional, public
        Number of rank-one matrices. The default is d.
    paper_constants : bool, public
        True to use ``t = epsilon_i / (4 k B^2)`` for both relations, as Amin and others 2019 do.

    Returns
    -------
    Release
        Estimate of shape (d, d) in units of 2^shift squared lattice steps, without a noise
        distribution.

    Raises
    ------
    MechanismError
        The budget is not a pure epsilon, or too small for the noise. The error comes before dpcov
        reads any data.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. It makes r eigendecompositions, with a
    running time of order ``r d^3``.

    Source
    ------
    The source is Kapralov and Talwar, "On differentially private low rank approximation", SODA
    2013, in the form that Amin and others 2019 use for comparisons. An exact rejection sampler
    (`samplers.bingham`) replaces the sampler of the paper, which takes ``O(d^6 / epsilon)`` time.

    The published code of Amin and others draws with density ``exp((4 epsilon / d) u'Ru)``. This
    exponent is 8 times the allowed exponent, so the code is not epsilon-DP.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import KapralovTalwar
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
        """Return the epsilon of each query.

        Every round queries a direction and a value. With one column, the direction is known.
        """
        queries = 1 if lattice.dimension == 1 else 2 * spectral.rank(lattice, self.rank)
        return epsilon / queries
