"""Functions of the mechanisms that sample directions.

Let C be the exact second moment in squared lattice units. Between neighbouring tables, C changes by
``A - A'``. Both matrices are positive semidefinite, with trace at most ``k B^2``
(`Lattice.unit_bound`). Under add-remove, one of the two matrices is 0.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.core.samplers.discrete import discrete_laplace
from dpcov.mechanisms.additive import coarse
from dpcov.papers.quadratic_forms import quadratic_forms
from dpcov.published.consistency import shift_for
from dpcov.published.kinds import EstimatedMatrix, Round
from dpcov.releases import Release

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.samplers import ScalarLaw
    from dpcov.core.samplers.scalars import ScalarLaplace
    from dpcov.mechanisms import Mechanism
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.sources.rows import Rows


# Allowance for the float64 error of an eigenvalue, in units of B^2. The error of an eigenvalue is
# about d 2^-53 times the trace, so the allowance covers up to 2^32 / d rows.
EIGENVALUE_ERROR = Fraction(1, 2**20)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public noise parameters of a mechanism that samples directions."""

    guarantee: Guarantee
    value_noise: ScalarLaplace

    def __post_init__(self) -> None:
        self.value_noise.require_drawable()


class Valued(Protocol):
    """Noise parameters that include the noise of values."""

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def value_noise(self) -> ScalarLaw: ...


def concentration(lattice: Lattice, neighbors: Neighbors, epsilon: Fraction) -> float:
    """Return the concentration t for which drawing a direction is epsilon-DP.

    The direction u on the sphere has a density proportional to ``exp(t u'Cu)``.

    Proof. Let D be the change of C. The density changes by the ratio of two factors:
    ``exp(t u'Du)``, and the mean of ``exp(t v'Dv)`` over the old distribution of v.

    - Under add-remove, ``u'Du`` has one sign and a size of at most ``k B^2``. Both factors lie on
      the same side of 1, and each is within ``e^(t k B^2)``. Their ratio is therefore within
      ``e^(t k B^2)``, so ``t = epsilon / (k B^2)``.
    - Under replace-one, ``u'Du`` lies between ``-k B^2`` and ``k B^2``. Each factor can reach
      ``e^(t k B^2)``, so ``t = epsilon / (2 k B^2)``.

    A projection of C on a public subspace shortens the rows, so the same t is valid there.

    Parameters
    ----------
    lattice : Lattice
        Lattice of the second moment.
    neighbors : Neighbors
        Relation between tables.
    epsilon : Fraction
        Cost of the draw.

    Returns
    -------
    float
        Concentration, rounded down.

    """
    sides = neighbors.sides
    return float(epsilon / (sides * lattice.unit_bound)) * (1 - 2.0**-40)


def eigenvalue_sensitivity(lattice: Lattice, neighbors: Neighbors) -> Fraction:
    """Return the l1 sensitivity of the sorted eigenvalues of C, rounded to integers.

    The sum of the changes is at most the nuclear norm of the change of C (Mirsky 1960). Rounding
    adds at most 1 to each change. float64 adds at most ``2 EIGENVALUE_ERROR B^2``.
    """
    slack = 1 + 2 * EIGENVALUE_ERROR * lattice.bound
    return lattice.nuclear(neighbors) + lattice.dimension * slack


def rayleigh_sensitivity(lattice: Lattice, neighbors: Neighbors, vectors: Matrix) -> Fraction:
    """Return the l1 sensitivity of the rounded values ``v'Cv`` for fixed vectors v (the rows).

    Let V be the matrix of the vectors. The sum of ``|v'(A - A')v|`` is at most
    ``||V||_op^2 (tr A + tr A')``. Rounding adds at most 1 for each value.
    """
    sides = 2 if neighbors == Neighbors.REPLACE_ONE and len(vectors) > 1 else 1
    return sides * lattice.unit_bound * squared_norm(vectors) + len(vectors)


def squared_norm(vectors: Matrix) -> Fraction:
    """Return a bound on ``||V||_op^2`` for nearly orthonormal rows of a matrix V.

    The bound includes the truncation in `quadratic_forms`. Without truncation,
    ``||V||_op^2 <= 1 + ||V V' - I||_F``.

    Truncation to multiples of 2^-40 changes the norm of a (k, d) matrix by at most
    ``h = 2^-40 sqrt(k d)``. The squared norm changes by at most ``2 ||V|| h + h^2 <= 4 h`` if
    ``||V|| < 1.9``. The term ``d 2^-37`` covers this change, and the float error of ``V V' - I``
    too.
    """
    deviation = float(np.linalg.norm(vectors @ vectors.T - np.eye(len(vectors))))
    return 1 + Fraction(deviation) + Fraction(vectors.shape[1], 2**37)


def noisy_eigenvalues(matrix: Matrix, count: int, scale: Fraction, entropy: Entropy) -> Vector:
    """Return the largest eigenvalues with discrete Laplace noise, in descending order.

    Parameters
    ----------
    matrix : ndarray of float, shape (d, d)
        Second moment.
    count : int
        Number of eigenvalues.
    scale : Fraction
        Scale of the noise.
    entropy : Entropy
        Source of random bits.

    Returns
    -------
    ndarray of float, shape (count,)
        Noisy eigenvalues.

    """
    descending = np.linalg.eigvalsh(matrix)[::-1].astype(np.float64)
    return noisy_integers(rounded(descending[:count]), scale, entropy)


def rayleigh_values(
    moment: SecondMoment, vectors: Matrix, neighbors: Neighbors, epsilon: Fraction, entropy: Entropy
) -> Vector:
    """Return noisy values ``v'Cv`` of released vectors (the rows), which is epsilon-DP."""
    scale = rayleigh_sensitivity(moment.lattice, neighbors, vectors) / epsilon
    return noisy_integers(quadratic_forms(moment, vectors), scale, entropy)


def largest_trace(neighbors: Neighbors, moment: SecondMoment) -> float:
    """Return an upper bound on the trace of C.

    If the number n of units is public, the bound is ``n k B^2``. Otherwise the bound is infinite.
    """
    if neighbors == Neighbors.REPLACE_ONE:
        return float(moment.unit_count * moment.lattice.unit_bound)
    return math.inf


def shares(weights: Vector) -> Vector:
    """Return weights as fractions of 1, or equal fractions if all weights are 0."""
    total = float(weights.sum())
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


def rank(lattice: Lattice, wanted: int | None) -> int:
    """Return the number of directions to draw."""
    return lattice.dimension if wanted is None else min(wanted, lattice.dimension)


def noisy_integers(values: list[int], scale: Fraction, entropy: Entropy) -> Vector:
    """Return integers plus discrete Laplace noise, as floats."""
    noise = discrete_laplace(scale, len(values), entropy).tolist()
    return np.array([value + k for value, k in zip(values, noise, strict=True)], dtype=np.float64)


def rounded(values: Vector) -> list[int]:
    """Round floats to Python integers by ``floor(v + 1/2)``."""
    return [math.floor(value + 0.5) for value in values.tolist()]


def estimate(
    mechanism: Mechanism,
    rows: Rows,
    calibration: Valued,
    moment: SecondMoment,
    vectors: Matrix,
    values: Vector,
    entropy: Entropy,
) -> Release:
    """Return the release of the matrix with given private eigenvectors and eigenvalues.

    The matrix is the sum of ``value v v'`` over the vectors v.

    Parameters
    ----------
    mechanism : Mechanism
        Mechanism that makes the release.

    rows : Rows
        Data source.

    calibration : Valued
        Noise parameters.

    moment : SecondMoment
        Exact second moment. The release contains only its lattice and its public number of units.

    vectors : ndarray of float, shape (r, d)
        Private eigenvectors in the rows.

    values : ndarray of float, shape (r,)
        Private eigenvalues.

    entropy : Entropy
        Source of random bits.

    Returns
    -------
    Release
        Estimate without a noise distribution.

    """
    shift = shift_for(calibration.value_noise.standard_deviation)
    matrix = vectors.T @ (values[:, None] * vectors)
    matrix = (matrix + matrix.T) / 2
    whole = np.array([rounded(row) for row in matrix], dtype=object).reshape(matrix.shape)
    public = calibration.guarantee.neighbors == Neighbors.REPLACE_ONE
    estimate = EstimatedMatrix(moment.lattice, shift, coarse(whole, shift), len(values))
    return Release(
        schema=rows.schema,
        guarantee=calibration.guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        rounds=(Round("matrix", estimate, calibration.guarantee.budget),),
        unit_count=moment.unit_count if public else None,
        reproducible=entropy.reproducible,
    )
