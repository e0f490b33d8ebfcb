"""The cost of each published answer, from its noise and its sensitivity.

An answer costs epsilon if its noise is Laplace noise, and rho = mu^2 / 2 if its noise is Gaussian
noise. Both are exact fractions. The module `dpcov.published.recomputed` compares the sum with the
guarantee that a release states. The proofs are in docs/proofs/release.md, sections 5 to 9.

Between neighbouring tables, the matrix changes by D = A - A'. Both A and A' are positive
semidefinite, with traces a and b of at most s = k B^2. Under add-remove, b = 0. Then
||D||_* <= a + b, ||D||_F^2 <= a^2 + b^2 and |tr D| = |a - b|. All costs below are convex functions
of (a, b), so each cost is largest at (s, 0) or at (s, s).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

from dpcov.core.privacy import ApproxDP
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.published.kinds import (
    EstimatedMatrix,
    NoisyCount,
    NoisyMatrix,
    NoisySums,
    NoisyTrace,
    Published,
    Query,
    Round,
)
from dpcov.published.norm_histogram import NormHistogram
from dpcov.rows.moment import Lattice, units_per_row
from dpcov.rows.pilot_sensitivity import pilot_sensitivities

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dpcov.core.privacy import Guarantee
    from dpcov.core.samplers import MatrixLaw, ScalarLaw
    from dpcov.rows.schema import Schema

# Variance of a discrete Gaussian minus the variance of the continuous Gaussian that it replaces, in
# squared lattice steps. Source: docs/proofs/release.md, section 6c.
ROUNDING_VARIANCE = 8
# Noise distributions from papers. Their density exp(-||Z||_* / scale) gives the cost.
NUCLEAR_LAWS = ("nuclear-laplace", "nuclear-laplace-square")
ENTRYWISE_LAW = "discrete-laplace-entrywise"
COST_ROOT_BITS = 128  # Number of binary digits in an upper bound on a square root.


def rounds_of(
    answers: Iterable[tuple[Query, Published]], schema: Schema, guarantee: Guarantee
) -> tuple[Round, ...]:
    """Return the rounds with their costs.

    If the cost of a round is unknown, the round states the whole budget.

    A trace that follows a matrix is a trace of the same rows, so its cost depends on the matrix.

    Parameters
    ----------
    answers : iterable of tuple
        Query and answer of each round, in order.

    schema : Schema
        Schema of the table.

    guarantee : Guarantee
        Guarantee of the release.

    Returns
    -------
    tuple of Round
        Rounds in order.

    Raises
    ------
    NoCostError
        The noise of a round is too small for any guarantee.

    """
    rounds, beside = [], None
    for query, answer in answers:
        found = cost(answer, schema, guarantee, beside)
        rounds.append(Round(query, answer, guarantee.budget if found is None else found))
        beside = answer if isinstance(answer, NoisyMatrix) else None
    return tuple(rounds)


class NoCostError(ValueError):
    """Error of noise that is too small to give any guarantee."""


def cost(
    published: Published,
    schema: Schema,
    guarantee: Guarantee,
    beside: NoisyMatrix | None = None,
) -> Fraction | None:
    """Return the privacy cost of one answer.

    Parameters
    ----------
    published : Published
        Answer with its noise distribution.

    schema : Schema
        Schema of the table.

    guarantee : Guarantee
        Guarantee of the release, for the relation, the privacy unit and the kind of the budget.

    beside : NoisyMatrix, optional
        Matrix that the same round publishes beside a trace. The cost is then the cost of the trace
        in addition to the cost of this matrix.

    Returns
    -------
    Fraction or None
        Cost in epsilon (Laplace noise) or in rho (Gaussian noise). None if no formula gives the
        cost of this noise.

    Raises
    ------
    NoCostError
        The noise is too small for any guarantee.

    """
    extra = ROUNDING_VARIANCE if isinstance(guarantee.budget, ApproxDP) else 0
    sides, rows = guarantee.neighbors.sides, guarantee.unit.max_rows
    match published:
        case NoisyMatrix():
            both = published.lattice.dimension > 1 and sides == 2
            return _of_matrix(published.noise, published.lattice.unit_bound, extra, two_sided=both)
        case NoisyTrace(lattice=lattice, noise=noise):
            return _of_trace(noise, lattice.unit_bound, extra, sides, beside)
        case NoisyCount(noise=noise):
            most = rows * units_per_row(schema) * (sides == 1)
            return _of_numbers(noise, Fraction(most), Fraction(most) ** 2, extra)
        case NoisySums(noise=noise):
            squared, absolute = pilot_sensitivities(Lattice.of(schema), guarantee.neighbors)
            return _of_numbers(noise, absolute, squared, extra)
        case NormHistogram(noise=noise):
            return _of_numbers(noise, Fraction(rows * sides), Fraction(rows**2 * sides), extra)
        case EstimatedMatrix():
            return None


def _of_numbers(noise: ScalarLaw, absolute: Fraction, squared: Fraction, extra: int) -> Fraction:
    """Return the cost of noisy numbers.

    Parameters
    ----------
    noise : ScalarLaw
        Distribution of the noise in each number.

    absolute : Fraction
        Sensitivity of the numbers in the l1 norm.

    squared : Fraction
        Square of the sensitivity in the l2 norm.

    extra : int
        Variance that `_continuous` subtracts.

    Returns
    -------
    Fraction
        Cost in epsilon (Laplace noise) or in rho (Gaussian noise).

    """
    if isinstance(noise, ScalarLaplace):
        return absolute / noise.scale
    return squared / (2 * _continuous(noise.variance, extra))


def _continuous(variance: Fraction, extra: int) -> Fraction:
    """Return the variance of the continuous noise that a discrete Gaussian rounds."""
    if variance <= extra:
        raise NoCostError("the noise is too small for any guarantee")
    return variance - extra


def _of_matrix(noise: MatrixLaw, bound: int, extra: int, *, two_sided: bool) -> Fraction | None:
    """Return the cost of a matrix if the traces a and b are at most `bound`."""
    sides = 2 if two_sided else 1
    if isinstance(noise, GaussianOrthogonal):
        return Fraction(sides * bound**2) / (2 * _continuous(noise.variance, extra))
    if (scale := _nuclear_scale(noise)) is not None:
        return sides * bound / scale
    if noise.to_json()["law"] == ENTRYWISE_LAW:
        return _of_entries(noise, bound, two_sided=two_sided)
    return None


def _nuclear_scale(noise: MatrixLaw) -> Fraction | None:
    """Return the s for which the log-density changes by at most ||D||_* / s, or None."""
    if isinstance(noise, WishartDifference):
        return 2 * Fraction(noise.scale)
    document = noise.to_json()
    return Fraction(document["scale"]) if document["law"] in NUCLEAR_LAWS else None


def _of_entries(noise: MatrixLaw, bound: int, *, two_sided: bool) -> Fraction:
    """Return the cost of independent Laplace noise with scales a on and b off the diagonal.

    Let D = w w' with ||w||^2 = s. Then the sum of |w_i w_j| over i < j is at most s (d - 1) / 2.
    For D = A - A', the inequality of Cauchy and Schwarz gives the bound
    sqrt(2) s sqrt(d / a^2 + d (d - 1) / (4 b^2)).
    """
    document, d = noise.to_json(), noise.dimension
    a, b = Fraction(document["diagonal"]), Fraction(document["off_diagonal"])
    one = bound * (1 / a + (d - 1) / (2 * b))
    if not two_sided:
        return one
    return min(2 * one, bound * _root_above(2 * (d / a**2 + d * (d - 1) / (4 * b**2))))


def _of_trace(
    noise: ScalarLaw, bound: int, extra: int, sides: int, beside: NoisyMatrix | None
) -> Fraction:
    """Return the cost of a trace, in addition to the cost of the matrix `beside`.

    Parameters
    ----------
    noise : ScalarLaw
        Distribution of the noise in the trace.

    bound : int
        Largest trace s of a unit, in squared lattice steps.

    extra : int
        Variance that `_continuous` subtracts.

    sides : int
        1 under add-remove, 2 under replace-one.

    beside : NoisyMatrix or None
        Matrix of the same round.

    Returns
    -------
    Fraction
        Cost in epsilon (Laplace noise) or in rho (Gaussian noise).

    """
    alone = _of_numbers(noise, Fraction(bound), Fraction(bound) ** 2, extra)
    if beside is None or sides == 1 or beside.lattice.dimension == 1:
        return alone
    if isinstance(noise, ScalarLaplace):
        scale = _nuclear_scale(beside.noise)
        per_side = None if scale is None else bound / scale
    else:
        per_side = _of_matrix(beside.noise, bound, extra, two_sided=False)
    # At (s, s) the trace does not change, and at (s, 0) the matrix costs half.
    return alone if per_side is None else max(Fraction(0), alone - per_side)


def _root_above(value: Fraction) -> Fraction:
    """Return a rational number above the square root of a positive number."""
    scaled = math.ceil(value * 2 ** (2 * COST_ROOT_BITS))
    return Fraction(math.isqrt(scaled) + 1, 2**COST_ROOT_BITS)
