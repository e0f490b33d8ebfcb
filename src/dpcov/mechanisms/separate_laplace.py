"""Eigenvectors of a noisy second moment, and values released apart: Dong, Liang and Yi 2022."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from dpcov.errors import MechanismError
from dpcov.mechanisms import laplace, spectral
from dpcov.mechanisms.pure import pure_epsilon
from dpcov.privacy import Guarantee, Neighbors, PureDP, exact
from dpcov.samplers.scalars import ScalarLaplace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.entropy import Entropy
    from dpcov.mechanisms import Mechanism
    from dpcov.moment import Lattice, SecondMoment
    from dpcov.privacy import Budget
    from dpcov.releases import Release
    from dpcov.samplers.entrywise import EntrywiseLaplace
    from dpcov.sources.rows import Rows

Values = Literal["rayleigh", "eigenvalues"]


@dataclass(frozen=True, slots=True)
class Calibration(spectral.Calibration):
    """Public outcome of calibrating: `matrix` hides the eigenvectors, `value_epsilon` is left.

    `matrix` is None where the only direction is determined.
    """

    matrix: EntrywiseLaplace | None
    value_epsilon: Fraction

    def __post_init__(self) -> None:
        spectral.Calibration.__post_init__(self)
        if self.matrix is not None:
            self.matrix.require_drawable()


@dataclass(frozen=True, slots=True)
class SeparateLaplace:
    r"""Eigenvectors of the moment plus Laplace noise, and noisy values for them: pure epsilon-DP.

    Guarantee
    ---------
    Pure epsilon-DP, for every input, under add/remove or replace-one, for rows or for persons with
    at most k rows: the matrix with noise is epsilon_1-DP, the values are epsilon_2-DP whatever the
    vectors that they belong to, epsilon_1 + epsilon_2 = epsilon exactly. Stated an (epsilon, delta)
    budget, it spends no delta.

    Sensitivity
    -----------
    The matrix: weighted l1 norm of the upper triangle (`Laplace` has the proof). The values: v'Cv
    for the vectors already released, k B^2 add/remove, 2 k B^2 replace-one in l1, up to what the
    vectors lack of orthonormality (`spectral.rayleigh_sensitivity`); or the sorted eigenvalues, the
    same by Mirsky's theorem, and what float64 and rounding add (`spectral.eigenvalue_sensitivity`).

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
        Share of epsilon for the vectors.

    Returns
    -------
    Release
        (d, d) estimate in units of 2^shift squared lattice steps; no noise law. The values are kept
        at 0 or more, and at n k B^2 or less where n, the number of units, is public.

    Raises
    ------
    MechanismError
        The budget is no pure one, or too small for 64-bit noise. Before anything is read.

    Cost
    ----
    One pass over the data (two with persons), O(d^3) time, d(d+1)/2 + d exact draws.

    Source
    ------
    Dong, Liang and Yi, "Differentially private covariance revisited", NeurIPS 2022, in the form for
    pure privacy (SeparateLapCov in their code). Differences: the scales of the Laplace noise are
    those of `Laplace`, not sqrt(2) d on every entry, which is the sensitivity of the full matrix;
    add/remove has half the noise on the values; Rayleigh values by default; noise on the integers.

    Examples
    --------
    >>> from dpcov.moment import Lattice
    >>> lattice = Lattice(features=4, radius=1.0)
    >>> laws = SeparateLaplace().calibrate(lattice, PureDP(1.0), Neighbors.ADD_REMOVE)
    >>> scales = laws.matrix.diagonal, laws.value_noise.scale
    >>> [round(float(scale / lattice.bound), 3) for scale in scales]
    [5.78, 2.0]

    """

    values: Values = "rayleigh"
    vector_share: float = 0.5

    name: ClassVar[str] = "separate-laplace"

    def __post_init__(self) -> None:
        check_values(self.values)
        spectral.check_share("vector_share", self.vector_share)

    def calibrate(self, lattice: Lattice, budget: Budget, neighbors: Neighbors) -> Calibration:
        epsilon = pure_epsilon(self.name, budget)
        guarantee = Guarantee(PureDP(float(epsilon)), Neighbors(neighbors), lattice.unit)
        return calibration(lattice, guarantee, epsilon, self.vector_share, self.values)

    def __call__(
        self, rows: Rows, *, budget: Budget, neighbors: Neighbors, entropy: Entropy
    ) -> Release:
        laws = self.calibrate(rows.lattice(), budget, neighbors)
        noise = None if laws.matrix is None else laws.matrix.sample(entropy)
        moment = rows.second_moments()[0]
        return separated(self, rows, laws, noise, moment, self.values, entropy)


def check_values(values: Values) -> None:
    """Refuse an unknown kind of values."""
    if values not in ("rayleigh", "eigenvalues"):
        raise MechanismError("values must be 'rayleigh' or 'eigenvalues'.")


def calibration(
    lattice: Lattice, guarantee: Guarantee, epsilon: Fraction, vector_share: float, values: Values
) -> Calibration:
    """Laws that spend `epsilon`, at most the epsilon of `guarantee`, on vectors and values."""
    d, neighbors = lattice.dimension, guarantee.neighbors
    share = exact(vector_share) if d > 1 else Fraction(0)
    left = epsilon * (1 - share)
    if values == "rayleigh":
        sensitivity = spectral.rayleigh_sensitivity(lattice, neighbors, np.eye(d))
    else:
        sensitivity = spectral.eigenvalue_sensitivity(lattice, neighbors)
    return Calibration(
        guarantee=guarantee,
        value_noise=ScalarLaplace(sensitivity / left),
        matrix=laplace.matrix_noise(lattice, neighbors, epsilon * share) if d > 1 else None,
        value_epsilon=left,
    )


def separated(
    mechanism: Mechanism,
    rows: Rows,
    laws: Calibration,
    noise: NDArray[np.int64] | None,
    moment: SecondMoment,
    values: Values,
    entropy: Entropy,
) -> Release:
    """Release eigenvectors of moment + noise, with values of the moment for them."""
    neighbors = laws.guarantee.neighbors
    noisy = moment.units if noise is None else moment.units + noise
    vectors = np.linalg.eigh(noisy.astype(np.float64)).eigenvectors.T[::-1]
    if values == "rayleigh":
        found = spectral.rayleigh_values(moment, vectors, neighbors, laws.value_epsilon, entropy)
    else:
        found = spectral.noisy_eigenvalues(
            moment.units.astype(np.float64), len(vectors), laws.value_noise.scale, entropy
        )
    kept = np.clip(found, 0.0, spectral.largest_trace(neighbors, moment))
    return spectral.estimate(mechanism, rows, laws, moment, vectors, kept, entropy)
