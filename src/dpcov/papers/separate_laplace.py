"""Eigenvectors of a noisy second moment, and separate values (Dong, Liang and Yi 2022)."""

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
    """Values with Laplace noise that costs `epsilon`."""

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
    """Laplace noise whose costs in epsilon add up."""

    whole: Fraction

    @property
    def stated(self) -> PureDP:
        return PureDP(float(self.whole))

    @property
    def mu_squared(self) -> None:
        return None

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
    """Eigenvectors of the second moment with Laplace noise, and noisy values: pure epsilon-DP.

    Guarantee
    ---------
    The release satisfies pure epsilon-DP for every table, under add-remove and under replace-one.
    It protects rows, or persons with at most k rows. With a budget of epsilon and delta, the
    mechanism spends no delta.

    The mechanism has up to three steps: a private radius, the noisy matrix, and the values for any
    given eigenvectors. Their costs add up to epsilon exactly.

    Sensitivity
    -----------
    **Matrix.** The sensitivity is a weighted l1 norm of the upper triangle. `Laplace` contains the
    proof.

    **Rayleigh values.** The values ``v'Cv`` of the released eigenvectors change by ``k B^2`` under
    add-remove and ``2 k B^2`` under replace-one, in l1 norm. `spectral.rayleigh_sensitivity`
    includes the deviation of the eigenvectors from orthonormality.

    **Eigenvalues.** The sorted eigenvalues have the same sensitivity (Mirsky's theorem).
    `spectral.eigenvalue_sensitivity` adds the effects of float64 and rounding.

    **Private radius.** The counts change by k under add-remove and ``2 k`` under replace-one, in l1
    norm (`mechanisms.radius`).

    Not protected
    -------------
    - The schema, the budget, the order of the matrix and the running time.
    - Under replace-one, the number of rows or persons.
    - Float errors of eigenvalues, beyond an allowance for about ``2^32 / d`` rows. Rayleigh values
      are exact integers.

    dpcov draws the noise of the values after it reads the data.

    Parameters
    ----------
    values : {"rayleigh", "eigenvalues"}, public
        Rayleigh values ``v'Cv``, which fit the noisy eigenvectors best, or eigenvalues as in the
        paper.

    vector_share : float in (0, 1), public
        Fraction for the eigenvectors, of the epsilon that a private radius leaves.

    radius : {"public", "private"}, public
        Clipping radius of the schema, or a radius from noisy counts of rows by norm.

    radius_share : float in (0, 1), public
        Fraction of epsilon for the choice of a private radius.

    Returns
    -------
    Release
        Estimate of shape (d, d) in units of 2^shift squared lattice steps, without a noise
        distribution. The values are at least 0. If the number n of units is public, the values are
        at most ``n k B^2``.

    Raises
    ------
    MechanismError
        The budget is not a pure epsilon, or too small for the noise. The error comes before dpcov
        reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. A private radius doubles the number of
    reads. The running time is of order d^3, with ``d (d + 1) / 2 + d`` exact draws.

    Source
    ------
    The source is SeparateLapCov in the code of Dong, Liang and Yi, "Differentially private
    covariance revisited", NeurIPS 2022. dpcov differs from the code in these points:

    - The Laplace noise has the scales of `Laplace`. The code uses ``sqrt(2) d`` on every entry,
      which is the sensitivity of the full matrix.
    - Under add-remove, the values have half the noise.
    - The default values are Rayleigh values.
    - The noise is drawn on the integers.

    Examples
    --------
    >>> from dpcov import Neighbors, PureDP
    >>> from dpcov.mechanisms import SeparateLaplace
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> laws = SeparateLaplace().calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE)
    >>> scales = laws.matrix.diagonal, laws.value_noise.scale
    >>> [round(float(scale / lattice.bound), 3) for scale in scales]
    [5.78, 2.0]

    """

    name: ClassVar[str] = "separate-laplace"

    def noise(self, budget: Budget) -> separate.Noise:
        return LaplaceNoise(pure_epsilon(self.name, budget))
