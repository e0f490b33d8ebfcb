"""Eigenvectors of a second moment with Gaussian noise, and separate values: SeparateCov."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from dpcov.core.privacy import Neighbors
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.mechanisms import radius
from dpcov.mechanisms.gaussian import concentration, matrix_noise, mu_squared
from dpcov.papers import separate, spectral
from dpcov.papers.laplace import root_above

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers.orthogonal import GaussianOrthogonal
    from dpcov.rows.moment import Lattice


@dataclass(frozen=True, slots=True)
class GaussianValues:
    """Values with Gaussian noise that costs `rho`.

    The number `extra` is added to each variance (see `gaussian.concentration`).
    """

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
        """Return the noise for values that change by at most ``factor F + slack sqrt(d)``.

        The number F is the Frobenius sensitivity of the second moment.
        """
        sides = lattice.frobenius_squared(neighbors) // lattice.unit_bound**2
        frobenius = lattice.unit_bound * (root_above(sides) if sides > 1 else 1)
        change = factor * frobenius + slack * root_above(lattice.dimension)
        return ScalarGaussian(change**2 / (2 * self.rho) + self.extra)


@dataclass(frozen=True, slots=True)
class GaussianNoise:
    """Gaussian noise whose costs in rho add up. The number `extra` is added to each variance."""

    stated: Budget
    whole: Fraction
    extra: int

    @property
    def mu_squared(self) -> Fraction | None:
        return mu_squared(self.whole, self.extra)

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
    """Eigenvectors of the second moment with Gaussian noise, and noisy values.

    The mechanism is for very large matrices. If d is far above ``n^(2/3)``, the noise in
    ``d (d + 1) / 2`` entries costs more than wrong eigenvectors do. Otherwise `Gaussian` with
    denoising has the smaller error.

    Guarantee
    ---------
    The release satisfies rho-zCDP, or (epsilon, delta)-DP by the exact curve of the Gaussian
    mechanism. The guarantee holds for every table, under add-remove and under replace-one. It
    protects rows, or persons with at most k rows.

    The mechanism has up to three Gaussian steps: a private radius, the noisy matrix, and the values
    for any given eigenvectors. Their costs in rho (or ``mu^2 / 2``) add up to the budget exactly.

    Sensitivity
    -----------
    **Matrix.** The Frobenius norm of the change D is at most ``F = k B^2`` under add-remove and
    ``F = sqrt(2) k B^2`` under replace-one. `Gaussian` contains the proof, also for (epsilon,
    delta). In the (epsilon, delta) proof, each value and each count adds 1 to ``d (d + 1) / 2`` in
    the exponent a. The variance of each value and count is also larger by 8.

    **Rayleigh values.** Let V contain the released eigenvectors in its rows. The values ``v'Cv``
    are the diagonal of ``V C V'``. In l2 norm, they change by at most
    ``||V D V'||_F <= ||V||_op^2 F``. The spectral norm ``||V||_op`` is close to 1
    (`spectral.squared_norm`).

    **Eigenvalues.** The sorted eigenvalues change by at most F in l2 norm (Hoffman and Wielandt
    1953). float64 adds an error to each eigenvalue (`spectral.EIGENVALUE_ERROR`).

    **Rounding.** Rounding changes each of d integers by at most 1, which adds ``sqrt(d)`` in l2
    norm.

    **Private radius.** The counts change by k under add-remove and ``sqrt(2) k`` under replace-one,
    in l2 norm (`mechanisms.radius`).

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
        Fraction for the eigenvectors, of the budget that a private radius leaves.

    radius : {"public", "private"}, public
        Clipping radius of the schema, or a radius from noisy counts of rows by norm.

    radius_share : float in (0, 1), public
        Fraction of the budget for the choice of a private radius.

    Returns
    -------
    Release
        Estimate of shape (d, d) in units of 2^shift squared lattice steps, without a noise
        distribution. The values are at least 0. If the number n of units is public, the values are
        at most ``n k B^2``.

    Raises
    ------
    MechanismError
        The budget is a pure epsilon, or too small for the exact sampler. The error comes before
        dpcov reads any data.
    SourceError
        There is no space for a private copy of a source that can be read only once. The budget is
        then spent.

    Cost
    ----
    The mechanism reads the data once, or twice with persons. A private radius doubles the number of
    reads. The running time is of order d^3, with ``d (d + 1) / 2 + d`` exact draws.

    Source
    ------
    The source is SeparateCov of Dong, Liang and Yi, "Differentially private covariance revisited",
    NeurIPS 2022. dpcov differs from the paper in these points:

    - The noise matrix is symmetric (orthogonal ensemble), with half the variance off the diagonal.
    - Under add-remove, the values have half the variance.
    - The default values are Rayleigh values.
    - The noise is drawn on the integers.
    - (epsilon, delta) uses the exact curve.

    Examples
    --------
    >>> from dpcov import Neighbors, ZCDP
    >>> from dpcov.mechanisms import SeparateGaussian
    >>> from dpcov.rows.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> laws = SeparateGaussian().calibrate(lattice, ZCDP(0.5), Neighbors.ADD_REMOVE)
    >>> variances = laws.matrix.variance, laws.value_noise.variance
    >>> [round(float(variance / lattice.bound**2), 3) for variance in variances]
    [2.0, 2.0]

    """

    name: ClassVar[str] = "separate-gaussian"

    def noise(self, budget: Budget) -> separate.Noise:
        return GaussianNoise(budget, *concentration(self.name, budget))

    def calibrate_gaussian(
        self, lattice: Lattice, budget: Budget, neighbors: Neighbors
    ) -> separate.Calibration:
        noise = GaussianNoise(budget, *concentration(self.name, budget, rounded=True))
        return self._calibrated(noise, lattice, Neighbors(neighbors))
