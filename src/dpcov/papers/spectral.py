"""What mechanisms that sample directions have in common.

C is the exact second moment in squared lattice units. It changes by A - A' between neighbours, both
positive semidefinite of trace at most k B^2 = `Lattice.unit_bound`, one of them 0 under add/remove.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dpcov.core.privacy import Guarantee, Neighbors
from dpcov.core.samplers.discrete import discrete_laplace
from dpcov.mechanisms.additive import coarse, shift_for
from dpcov.papers.quadratic_forms import quadratic_forms
from dpcov.releases import Release

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.entropy import Entropy
    from dpcov.core.samplers import ScalarLaw
    from dpcov.core.samplers.scalars import ScalarLaplace
    from dpcov.mechanisms import Mechanism
    from dpcov.rows.moment import Lattice, SecondMoment
    from dpcov.rows.sources.rows import Rows


# What float64 may add to an eigenvalue's change, in B^2: eigenvalues of a d x d matrix are computed
# within about d 2^-53 of its trace, so this covers up to 2^32 / d rows.
EIGENVALUE_ERROR = Fraction(1, 2**20)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Public outcome of calibrating a mechanism that samples directions."""

    guarantee: Guarantee
    value_noise: ScalarLaplace

    def __post_init__(self) -> None:
        self.value_noise.require_drawable()


class Valued(Protocol):
    """A calibration with noise for values."""

    @property
    def guarantee(self) -> Guarantee: ...

    @property
    def value_noise(self) -> ScalarLaw: ...


def concentration(lattice: Lattice, neighbors: Neighbors, epsilon: Fraction) -> float:
    """Concentration t such that drawing u from exp(t u'Cu) on the sphere is epsilon-DP.

    With D the change of C, the density changes by exp(t u'Du) / E exp(t v'Dv), v the old draw.
    Under add/remove u'Du has one sign and size at most k B^2, so both factors lie on opposite sides
    of 1 and each within e^(t k B^2): t = epsilon / k B^2. Under replace-one u'Du lies in
    [-k B^2, k B^2], and each factor can reach e^(t k B^2): t = epsilon / 2 k B^2. Projecting C on a
    public subspace shortens rows, so the same t serves there.
    """
    sides = neighbors.sides
    return float(epsilon / (sides * lattice.unit_bound)) * (1 - 2.0**-40)


def eigenvalue_sensitivity(lattice: Lattice, neighbors: Neighbors) -> Fraction:
    """L1 sensitivity of the sorted eigenvalues of C, computed in float64 and rounded to integers.

    sum |l_i(C) - l_i(C')| <= ||C - C'||_* (Mirsky 1960); rounding adds at most 1 to each change,
    and float64 twice `EIGENVALUE_ERROR` B^2.
    """
    slack = 1 + 2 * EIGENVALUE_ERROR * lattice.bound
    return lattice.nuclear(neighbors) + lattice.dimension * slack


def rayleigh_sensitivity(lattice: Lattice, neighbors: Neighbors, vectors: Matrix) -> Fraction:
    """L1 sensitivity of the values floor(v'Cv) for fixed vectors (the rows).

    sum |v'(A - A')v| <= ||V||_op^2 (tr A + tr A'), and rounding adds at most 1 for each value.
    """
    sides = 2 if neighbors == Neighbors.REPLACE_ONE and len(vectors) > 1 else 1
    return sides * lattice.unit_bound * squared_norm(vectors) + len(vectors)


def squared_norm(vectors: Matrix) -> Fraction:
    """Bound on ||V||_op^2 for nearly orthonormal rows, once cut by `quadratic_forms`.

    ||V||^2 <= 1 + ||V V' - I||_F. Cutting to multiples of 2^-40 changes the norm of a (k, d) matrix
    by at most h = 2^-40 sqrt(k d), and its square by 2 ||V|| h + h^2 <= 4 h, as long as
    ||V|| < 1.9; d 2^-37 leaves as much again for the float error of the deviation.
    """
    deviation = float(np.linalg.norm(vectors @ vectors.T - np.eye(len(vectors))))
    return 1 + Fraction(deviation) + Fraction(vectors.shape[1], 2**37)


def noisy_eigenvalues(matrix: Matrix, count: int, scale: Fraction, entropy: Entropy) -> Vector:
    """(count,) largest eigenvalues, descending, with discrete Laplace noise."""
    descending = np.linalg.eigvalsh(matrix)[::-1].astype(np.float64)
    return noisy_integers(rounded(descending[:count]), scale, entropy)


def rayleigh_values(
    moment: SecondMoment, vectors: Matrix, neighbors: Neighbors, epsilon: Fraction, entropy: Entropy
) -> Vector:
    """Noisy v'Cv for vectors that are released already (the rows): epsilon-DP."""
    scale = rayleigh_sensitivity(moment.lattice, neighbors, vectors) / epsilon
    return noisy_integers(quadratic_forms(moment, vectors), scale, entropy)


def largest_trace(neighbors: Neighbors, moment: SecondMoment) -> float:
    """What tr C can't exceed: n k B^2 where the number n of units is public, else infinity."""
    if neighbors == Neighbors.REPLACE_ONE:
        return float(moment.unit_count * moment.lattice.unit_bound)
    return math.inf


def shares(weights: Vector) -> Vector:
    """Weights as shares of 1; even shares if all are 0."""
    total = float(weights.sum())
    return weights / total if total > 0 else np.full(len(weights), 1 / len(weights))


def rank(lattice: Lattice, wanted: int | None) -> int:
    """How many directions are drawn."""
    return lattice.dimension if wanted is None else min(wanted, lattice.dimension)


def noisy_integers(values: list[int], scale: Fraction, entropy: Entropy) -> Vector:
    """Integers plus discrete Laplace noise, as floats."""
    noise = discrete_laplace(scale, len(values), entropy).tolist()
    return np.array([value + k for value, k in zip(values, noise, strict=True)], dtype=np.float64)


def rounded(values: Vector) -> list[int]:
    """Python integers floor(v + 1/2)."""
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
    """The release of sum value v v' (v the rows of `vectors`), all of it private already."""
    shift = shift_for(calibration.value_noise.standard_deviation)
    matrix = vectors.T @ (values[:, None] * vectors)
    matrix = (matrix + matrix.T) / 2
    whole = np.array([rounded(row) for row in matrix], dtype=object).reshape(matrix.shape)
    public = calibration.guarantee.neighbors == Neighbors.REPLACE_ONE
    return Release(
        schema=rows.schema,
        lattice=moment.lattice,
        guarantee=calibration.guarantee,
        mechanism=mechanism.name,
        parameters=asdict(mechanism),  # type: ignore[call-overload]
        noise=None,
        trace_noise=None,
        shift=shift,
        published=coarse(whole, shift),
        published_trace=None,
        unit_count=moment.unit_count if public else None,
        reproducible=entropy.reproducible,
    )
