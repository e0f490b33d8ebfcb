"""Base class of the mechanisms that release eigenvectors and eigenvalues separately."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

import numpy as np

from dpcov.core.parameters import Share
from dpcov.core.privacy import Guarantee, Neighbors, exact
from dpcov.mechanisms import radius
from dpcov.mechanisms.base import Mechanism
from dpcov.mechanisms.radius import Radius
from dpcov.papers import spectral
from dpcov.papers.quadratic_forms import quadratic_forms

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.privacy import Budget
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.mechanisms.radius import Norms
    from dpcov.releases import Release
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.sources.rows import Rows


Values = Literal["rayleigh", "eigenvalues"]


class ValueBudget(Protocol):
    """Part of the budget for the eigenvalues, and the noise that it pays for."""

    def rayleigh_noise(self, lattice: Lattice, neighbors: Neighbors, vectors: Matrix) -> ScalarLaw:
        """Return the noise of each Rayleigh value ``v'Cv``, for fixed vectors v in the rows."""

    def eigenvalue_noise(self, lattice: Lattice, neighbors: Neighbors) -> ScalarLaw:
        """Return the noise of each eigenvalue, which is computed in float64 and rounded."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of a mechanism with separate eigenvalues.

    Attributes
    ----------
    guarantee : Guarantee
        Guarantee of the release.

    matrix : MatrixLaw, optional
        Noise that hides the eigenvectors. With one column, no noise is necessary.

    values : {"rayleigh", "eigenvalues"}
        Kind of values.

    value_budget : ValueBudget
        Budget of the values.

    value_noise : ScalarLaw
        Noise of the values of exactly orthonormal vectors.

    counts : ScalarLaw, optional
        Noise of each count that the private radius depends on. None means a public radius.

    mu_squared : Fraction, optional
        Squared mu of all noise together. None if the noise has no mu.

    """

    guarantee: Guarantee
    matrix: MatrixLaw | None
    values: Values
    value_budget: ValueBudget
    value_noise: ScalarLaw
    counts: ScalarLaw | None
    mu_squared: Fraction | None = None

    def __post_init__(self) -> None:
        for law in (self.matrix, self.value_noise, self.counts):
            if law is not None:
                law.require_drawable()


class Noise(Protocol):
    """Noise that a budget pays for. The parts of the budget add up to `whole`."""

    @property
    def whole(self) -> Fraction: ...

    @property
    def stated(self) -> Budget:
        """Guarantee of a release that spends the whole budget."""

    @property
    def mu_squared(self) -> Fraction | None:
        """Squared mu of all noise together, or None if the noise has no mu."""

    def matrix(self, lattice: Lattice, neighbors: Neighbors, part: Fraction) -> MatrixLaw: ...

    def values(self, part: Fraction) -> ValueBudget: ...

    def counts(
        self, lattice: Lattice, neighbors: Neighbors, part: Fraction
    ) -> ScalarLaw | None: ...


@dataclass(frozen=True, slots=True)
class Separate(Mechanism):
    """Base class of `SeparateLaplace` and `SeparateGaussian`, which contain the proofs."""

    values: Values = "rayleigh"
    vector_share: Share = 0.5
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str]
    use: ClassVar[str] = "reference: eigenvectors and eigenvalues apart"
    source: ClassVar[str] = "Dong, Liang and Yi 2022"

    @abstractmethod
    def noise(self, budget: Budget) -> Noise:
        """Return the noise that the budget pays for. Other kinds of budget are an error."""

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        return self._calibrated(self.noise(budget), lattice, Neighbors(neighbors))

    def _calibrated(self, noise: Noise, lattice: Lattice, neighbors: Neighbors) -> Calibration:
        """Return the calibration for the noise that a budget pays for."""
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, noise.whole)
        alone = lattice.dimension == 1
        share = Fraction(0) if alone else exact(self.vector_share)
        for_vectors = share * (noise.whole - for_radius)
        left = noise.values(noise.whole - for_radius - for_vectors)
        if self.values == "rayleigh":  # for exactly orthonormal vectors
            value_noise = left.rayleigh_noise(lattice, neighbors, np.eye(lattice.dimension))
        else:
            value_noise = left.eigenvalue_noise(lattice, neighbors)
        return Calibration(
            guarantee=Guarantee(noise.stated, neighbors, lattice.unit),
            matrix=None if alone else noise.matrix(lattice, neighbors, for_vectors),
            values=self.values,
            value_budget=left,
            value_noise=value_noise,
            counts=noise.counts(lattice, neighbors, for_radius),
            mu_squared=noise.mu_squared,
        )

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        """Draw the noise of the radius and the matrix, then read and release the data."""
        choose = radius.chooser(rows, laws.counts, lambda norms: errors(norms, laws), entropy)
        noise = None if laws.matrix is None else laws.matrix.sample(entropy)
        moment = rows.second_moments(radius=choose())[0]
        return separated(self, rows, laws, noise, moment, entropy)


def separated(
    mechanism: Mechanism,
    rows: Rows,
    laws: Calibration,
    noise: Integers | None,
    moment: SecondMoment,
    entropy: Entropy,
) -> Release:
    """Release the eigenvectors of the noisy second moment, with values of the exact second moment.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that makes the release.

    rows : Rows
        Data source.

    laws : Calibration
        Noise parameters.

    noise : ndarray of int, shape (d, d), optional
        Noise of the matrix.

    moment : SecondMoment
        Exact second moment.

    entropy : Entropy
        Source of random bits.

    Returns
    -------
    Release
        Estimate without a noise distribution.

    """
    neighbors, lattice = laws.guarantee.neighbors, moment.lattice
    noisy = moment.units if noise is None else moment.units + noise
    vectors = np.linalg.eigh(noisy.astype(np.float64)).eigenvectors.T[::-1]
    if laws.values == "rayleigh":
        law = laws.value_budget.rayleigh_noise(lattice, neighbors, vectors)
        values = quadratic_forms(moment, vectors)
    else:
        law = laws.value_noise
        values = spectral.rounded(np.linalg.eigvalsh(moment.units.astype(np.float64))[::-1])
    draws = law.samples(len(values), entropy).tolist()
    found = np.array([value + k for value, k in zip(values, draws, strict=True)], dtype=np.float64)
    kept = np.clip(found, 0.0, spectral.largest_trace(neighbors, moment))
    return spectral.estimate(mechanism, rows, laws, moment, vectors, kept, entropy)


def errors(norms: Norms, laws: Calibration) -> Vector:
    """Return bounds on the Frobenius error at each candidate radius.

    Let C be the second moment, L the noise, and ``M = C + L``. Let E be the matrix with the
    eigenvectors of M and the eigenvalues of C. Wrong eigenvectors cost at most the smaller of
    ``2 ||L||_F`` and ``2 sqrt(tr C ||L||)``. The norm ``||L||`` is the spectral norm, which the
    function replaces by its limit for large d.

    Proof of the first bound. The Frobenius norm of ``E - M`` is at most the norm of L (Hoffman and
    Wielandt). Hence ``||E - C||_F <= 2 ||L||_F``.

    Proof of the second bound::

        ||E - C||_F^2 = 2 (<E, E> - <E, M> + <E, L>) <= 4 tr C ||L||

    Rayleigh values have even smaller errors.

    Parameters
    ----------
    norms : Norms
        Noisy counts of rows by norm.
    laws : Calibration
        Noise parameters.

    Returns
    -------
    ndarray of float, shape (m,)
        Bound for each of m radii.

    """
    steps = norms.squared_steps()
    turned = np.zeros_like(steps)
    if laws.matrix is not None:
        turned = 2 * np.minimum(
            np.sqrt(norms.traces() * steps * laws.matrix.edge),
            steps * math.sqrt(laws.matrix.frobenius_squared),
        )
    noise = math.sqrt(norms.lattice.dimension) * laws.value_noise.standard_deviation
    return turned + steps * noise
