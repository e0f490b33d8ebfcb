"""What mechanisms that release eigenvectors and values apart have in common, whatever the noise."""

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
    """What is left of the budget for the values, and the noise that it asks for."""

    def rayleigh_noise(self, lattice: Lattice, neighbors: Neighbors, vectors: Matrix) -> ScalarLaw:
        """Noise for each floor(v'Cv), the vectors v (the rows) being fixed."""

    def eigenvalue_noise(self, lattice: Lattice, neighbors: Neighbors) -> ScalarLaw:
        """Noise for each eigenvalue, computed in float64 and rounded."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating.

    `matrix` hides the eigenvectors (None where the only direction is determined), `value_noise` is
    for values of exactly orthonormal vectors, and `counts` is the law of each count from which the
    radius is chosen (None: it is the schema's).
    """

    guarantee: Guarantee
    matrix: MatrixLaw | None
    values: Values
    value_budget: ValueBudget
    value_noise: ScalarLaw
    counts: ScalarLaw | None

    def __post_init__(self) -> None:
        for law in (self.matrix, self.value_noise, self.counts):
            if law is not None:
                law.require_drawable()


class Noise(Protocol):
    """The noise that a budget pays for, whose parts add up to `whole`."""

    @property
    def whole(self) -> Fraction: ...

    @property
    def stated(self) -> Budget:
        """What a release that spends all of it guarantees."""

    def matrix(self, lattice: Lattice, neighbors: Neighbors, part: Fraction) -> MatrixLaw: ...

    def values(self, part: Fraction) -> ValueBudget: ...

    def counts(
        self, lattice: Lattice, neighbors: Neighbors, part: Fraction
    ) -> ScalarLaw | None: ...


@dataclass(frozen=True, slots=True)
class Separate(Mechanism):
    """What `SeparateLaplace` and `SeparateGaussian`, which have the proofs, do alike."""

    values: Values = "rayleigh"
    vector_share: Share = 0.5
    radius: Radius = "public"
    radius_share: Share = 0.1

    name: ClassVar[str]
    use: ClassVar[str] = "reference: eigenvectors and eigenvalues apart"
    source: ClassVar[str] = "Dong, Liang and Yi 2022"

    @abstractmethod
    def noise(self, budget: Budget) -> Noise:
        """The noise that the budget pays for; refuses another kind of budget."""

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        noise, neighbors = self.noise(budget), Neighbors(neighbors)
        lattice = radius.grid(self.radius, lattice)
        for_radius = radius.spent(self.radius, self.radius_share, noise.whole)
        alone = lattice.dimension == 1
        share = Fraction(0) if alone else exact(self.vector_share)
        for_vectors = share * (noise.whole - for_radius)
        left = noise.values(noise.whole - for_radius - for_vectors)
        if self.values == "rayleigh":  # were the vectors exactly orthonormal
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
        )

    def run(self, rows: Rows, laws: Calibration, entropy: Entropy) -> Release:
        """Draw the noise of radius and matrix, read the data, release vectors and values."""
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
    """Release eigenvectors of moment + noise, with values of the moment for them."""
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
    """(m,) bounds on the Frobenius error of vectors and values released apart, at each radius.

    Turned vectors cost at most 2 ||L||_F and 2 sqrt(tr C ||L||). With M = C + L and E the matrix
    that has the vectors of M and the eigenvalues of C, ||E - M|| <= ||L|| in Frobenius norm
    (Hoffman and Wielandt), so ||E - C|| <= 2 ||L||; and ||E - C||^2 =
    2 (<E, E> - <E, M> + <E, L>) <= 4 tr C ||L||, where ||L|| is taken for its limit at large d.
    Rayleigh values are closer still.
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
