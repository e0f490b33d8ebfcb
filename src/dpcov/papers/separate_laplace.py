"""Eigenvectors of a noisy second moment, and values released apart: Dong, Liang and Yi 2022."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.privacy import PureDP
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.mechanisms import radius
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.papers import laplace, separate, spectral

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.papers.samplers.entrywise import EntrywiseLaplace
    from dpcov.rows.moment import Lattice


@dataclass(frozen=True, slots=True)
class LaplaceValues:
    """Values at `epsilon` (l1)."""

    epsilon: Fraction

    def rayleigh_noise(
        self, lattice: Lattice, neighbors: Neighbors, vectors: Matrix
    ) -> ScalarLaplace:
        return ScalarLaplace(
            spectral.rayleigh_sensitivity(lattice, neighbors, vectors) / self.epsilon
        )

    def eigenvalue_noise(self, lattice: Lattice, neighbors: Neighbors) -> ScalarLaplace:
        return ScalarLaplace(spectral.eigenvalue_sensitivity(lattice, neighbors) / self.epsilon)


@dataclass(frozen=True, slots=True)
class LaplaceNoise:
    """Laplace noise; parts of epsilon add up."""

    whole: Fraction

    @property
    def stated(self) -> PureDP:
        return PureDP(float(self.whole))

    def matrix(self, lattice: Lattice, neighbors: Neighbors, part: Fraction) -> EntrywiseLaplace:
        return laplace.matrix_noise(lattice, neighbors, part)

    def values(self, part: Fraction) -> LaplaceValues:
        return LaplaceValues(part)

    def counts(
        self, lattice: Lattice, neighbors: Neighbors, part: Fraction
    ) -> ScalarLaplace | None:
        return radius.laplace_counts(lattice, neighbors, part)


@dataclass(frozen=True, slots=True)
class SeparateLaplace(separate.Separate):
    r"""Eigenvectors of the moment plus Laplace noise, and noisy values for them: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows: the matrix with noise is epsilon_1-DP, the values are epsilon_2-DP whatever the
    vectors that they belong to, a private radius is epsilon_0-DP, and these add up to epsilon
    exactly. Stated an (epsilon, delta)
    budget, it spends no delta.

    Sensitivity
    -----------
    The matrix: weighted l1 norm of the upper triangle (`Laplace` has the proof). The values: v'Cv
    for the vectors already released, k B^2 add/remove, 2 k B^2 replace-one in l1, up to what the
    vectors lack of orthonormality (`spectral.rayleigh_sensitivity`); or the sorted eigenvalues, the
    same by Mirsky's theorem, and what float64 and rounding add (`spectral.eigenvalue_sensitivity`).
    The radius, if it is private: counts, k add/remove, 2 k replace-one in l1 (`mechanisms.radius`).

    Not protected
    -------------
    Schema, budget, order of the matrix, running time; the number of rows (of persons) under
    replace-one. Rayleigh values are exact integers; eigenvalues are computed in float64, with an
    allowance for about 2^32 / d rows. The noise of the values is drawn after the data is read.

    Parameters
    ----------
    values : ``rayleigh`` or ``eigenvalues``, public
        v'Cv for the noisy vectors, their best coefficients; or the eigenvalues, as in the paper.
    vector_share : float in (0, 1), public
        Share for the vectors of the epsilon that a private radius leaves.
    radius : ``public`` or ``private``, public
        The schema's radius, or one chosen from noisy counts of rows by their norm.
    radius_share : float in (0, 1), public
        Share of epsilon for the choice of a private radius.

    Returns
    -------
    Release
        (d, d) estimate in units of 2^shift squared lattice steps; no noise law. The values are kept
        at 0 or more, and at n k B^2 or less where n, the number of units, is public.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for the noise. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), twice as many with a private radius; O(d^3) time,
    d(d+1)/2 + d exact draws.

    Source
    ------
    Dong, Liang and Yi, "Differentially private covariance revisited", NeurIPS 2022, in the form for
    pure privacy (SeparateLapCov in their code). Differences: the scales of the Laplace noise are
    those of `Laplace`, not sqrt(2) d on every entry, which is the sensitivity of the full matrix;
    add/remove has half the noise on the values; Rayleigh values by default; noise on the integers.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import Neighbors
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> laws = SeparateLaplace().calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE)
    >>> scales = laws.matrix.diagonal, laws.value_noise.scale
    >>> [round(float(scale / lattice.bound), 3) for scale in scales]
    [5.78, 2.0]

    """

    name: ClassVar[str] = "separate-laplace"

    def noise(self, budget: Budget) -> separate.Noise:
        return LaplaceNoise(pure_epsilon(self.name, budget))
