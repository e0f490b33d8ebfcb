"""Eigenvectors of a second moment with Gaussian noise, and values apart: SeparateCov."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.mechanisms import radius
from dpcov.mechanisms.gaussian import concentration, matrix_noise
from dpcov.papers import separate, spectral
from dpcov.papers.laplace import root_above

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget, Neighbors
    from dpcov.core.samplers.orthogonal import GaussianOrthogonal
    from dpcov.rows.moment import Lattice


@dataclass(frozen=True, slots=True)
class GaussianValues:
    """Values at `rho` (l2); `extra` is added to the variance (`gaussian.concentration`)."""

    rho: Fraction
    extra: int

    def rayleigh_noise(
        self, lattice: Lattice, neighbors: Neighbors, vectors: Matrix
    ) -> ScalarGaussian:
        return self._noise(lattice, neighbors, spectral.squared_norm(vectors), Fraction(1))

    def eigenvalue_noise(self, lattice: Lattice, neighbors: Neighbors) -> ScalarGaussian:
        slack = 1 + 2 * spectral.EIGENVALUE_ERROR * lattice.bound
        return self._noise(lattice, neighbors, Fraction(1), slack)

    def _noise(
        self, lattice: Lattice, neighbors: Neighbors, factor: Fraction, slack: Fraction
    ) -> ScalarGaussian:
        """For changes of at most factor F + slack sqrt(d), F the Frobenius sensitivity."""
        sides = lattice.frobenius_squared(neighbors) // lattice.unit_bound**2
        frobenius = lattice.unit_bound * (root_above(sides) if sides > 1 else 1)
        change = factor * frobenius + slack * root_above(lattice.dimension)
        return ScalarGaussian(change**2 / (2 * self.rho) + self.extra)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Gaussian noise; parts of rho add up. `extra` as in `GaussianValues`."""

    stated: Budget
    whole: Fraction
    extra: int

    def matrix(self, lattice: Lattice, neighbors: Neighbors, part: Fraction) -> GaussianOrthogonal:
        return matrix_noise(lattice, neighbors, part, self.extra)

    def values(self, part: Fraction) -> GaussianValues:
        return GaussianValues(part, self.extra)

    def counts(
        self, lattice: Lattice, neighbors: Neighbors, part: Fraction
    ) -> ScalarGaussian | None:
        return radius.gaussian_counts(lattice, neighbors, part, self.extra)


@dataclass(frozen=True, slots=True)
class SeparateGaussian(separate.Separate):
    r"""Eigenvectors of the moment plus Gaussian noise, and noisy values: zCDP or (epsilon, delta).

    For matrices so large that the noise on d(d+1)/2 entries costs more than turned vectors do:
    d well beyond n^(2/3). Elsewhere `Gaussian`, denoised, has the smaller error.

    Guarantee
    ---------
    rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian mechanism, for every input,
    under add/remove or replace-one, for rows or for persons with at most k rows. A private radius,
    the matrix with noise, and the values, whatever the vectors that they belong to, are Gaussian
    mechanisms one after the other; their rho (their mu^2 / 2) add up to that of the budget exactly.

    Sensitivity
    -----------
    The matrix: Frobenius norm of the change D, F = k B^2 add/remove, sqrt(2) k B^2 replace-one
    (`Gaussian` has the proof, and that for (epsilon, delta), where each of the values and counts,
    with a variance 8 larger too, adds 1 to the d(d+1)/2 in a). The values, in l2: v'Cv for the rows
    v of a matrix V that is released already are the diagonal of V C V', so they change by at most
    ||V D V'||_F <= ||V||_op^2 F, where ||V||_op is 1 up to what V lacks of orthonormality
    (`spectral.squared_norm`); or the sorted eigenvalues, which change by at most F (Hoffman and
    Wielandt 1953) and what float64 adds to each (`spectral.EIGENVALUE_ERROR`). Rounding adds at
    most 1 to the change of each of d integers, sqrt(d) in l2. The radius, if it is private: counts,
    k add/remove, sqrt(2) k replace-one in l2 (`mechanisms.radius`).

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
        Share for the vectors of the budget that a private radius leaves.
    radius : ``public`` or ``private``, public
        The schema's radius, or one chosen from noisy counts of rows by their norm.
    radius_share : float in (0, 1), public
        Share of the budget for the choice of a private radius.

    Returns
    -------
    Release
        (d, d) estimate in units of 2^shift squared lattice steps; no noise law. The values are kept
        at 0 or more, and at n k B^2 or less where n, the number of units, is public.

    Raises
    ------
    MechanismError
        The budget is a pure one, or too small for the exact sampler. Before anything is read.
    SourceError
        What can be read only once finds no room for a private copy. The budget is spent.

    Cost
    ----
    One pass over the data (two with persons), twice as many with a private radius; O(d^3) time,
    d(d+1)/2 + d exact draws.

    Source
    ------
    Dong, Liang and Yi, "Differentially private covariance revisited", NeurIPS 2022, SeparateCov.
    Differences: orthogonal noise, half of theirs off the diagonal; add/remove has half the variance
    on the values; Rayleigh values by default; noise on the integers; (epsilon, delta) by the exact
    curve.

    Examples
    --------
    >>> from dpcov.rows.moment import Lattice
    >>> from dpcov.core.privacy import ZCDP, Neighbors
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> laws = SeparateGaussian().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> variances = laws.matrix.variance, laws.value_noise.variance
    >>> [round(float(variance / lattice.bound**2), 3) for variance in variances]
    [2.0, 2.0]

    """

    name: ClassVar[str] = "separate-gaussian"

    def noise(self, budget: Budget) -> separate.Noise:
        return GaussianNoise(budget, *concentration(self.name, budget))
