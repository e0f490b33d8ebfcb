"""Check that the rounds of a release agree with each other.

A file that somebody edited often contradicts itself. These checks refuse such a file. They accept
every release that dpcov makes, because a difference must exceed `MAX_NOISE_SDS` standard
deviations.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum
from dpcov.published.kinds import (
    NoisyCount,
    NoisyMatrix,
    NoisySums,
    NoisyTrace,
    Query,
    Round,
)
from dpcov.published.norm_histogram import NormHistogram
from dpcov.rows.moment import Lattice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dpcov.published.record import Record

# Difference of two noisy numbers that noise alone never reaches, in standard deviations. Laplace
# noise exceeds 40 standard deviations with a probability below 1e-24.
MAX_NOISE_SDS = 40.0
# The published matrix is rounded to multiples of about 2^-10 standard deviations of its noise. The
# rounding adds less than 2^-20 of the noise variance (docs/proofs/release.md, section 7).
KEPT_BITS = 10
# Queries that a mechanism always publishes.
ALWAYS_PUBLISHED: dict[str, tuple[Query, ...]] = {"standardized": ("pilot", "norms")}


def shift_for(spread: float) -> int:
    """Return the binary exponent of the rounding step of a published matrix.

    Parameters
    ----------
    spread : float
        Size of the noise, in squared lattice steps.

    Returns
    -------
    int
        Exponent k of the rounding step, which is 2^k squared lattice steps.

    """
    return max(0, math.floor(math.log2(spread)) - KEPT_BITS)


def check_consistency(record: Record) -> None:
    """Raise an error if the rounds of a release contradict each other.

    Parameters
    ----------
    record : Record
        Release.

    Raises
    ------
    ValueError
        Two rounds contradict each other, or a round of the mechanism is missing.

    """
    _check_queries(record)
    for one in record.rounds:
        if isinstance(one.published, NoisyMatrix):
            matrix = one.published
            former = isinstance(matrix.noise, WeightedSum)  # put together from several matrices
            if not former and matrix.shift != shift_for(matrix.noise.spread):
                raise ValueError(f"the shift of the query {one.query!r} does not fit the noise")
    for matrix, trace in _traces(record.rounds):
        order, unit = matrix.lattice.dimension, 2.0**matrix.shift
        deviation = math.hypot(
            trace.noise.standard_deviation, math.sqrt(order * matrix.noise.diagonal_variance)
        )
        total = float(np.trace(matrix.units.astype(np.float64))) * unit
        if abs(trace.value - total) > MAX_NOISE_SDS * deviation + order * unit:
            raise ValueError("the trace contradicts the matrix")
    for (count, own), (other, its) in itertools.combinations(_counts(record), 2):
        if abs(count - other) > MAX_NOISE_SDS * math.hypot(own, its) + 1:
            raise ValueError("two queries have contradictory numbers of rows")


def _check_queries(record: Record) -> None:
    """Raise an error if a round is missing that the mechanism always publishes."""
    queries = {one.query for one in record.rounds}
    wanted = set(ALWAYS_PUBLISHED.get(record.mechanism, ()))
    share = record.parameters.get("directions_share", 0)
    if record.mechanism in ALWAYS_PUBLISHED and isinstance(share, float) and share > 0:
        wanted.add("directions" if "matrix" in queries else "pilot")
    if missing := sorted(wanted - queries):
        raise ValueError(f"the mechanism always asks the query {missing[0]!r}, but it is missing")


def _traces(rounds: tuple[Round, ...]) -> Iterator[tuple[NoisyMatrix, NoisyTrace]]:
    """Yield each matrix with the trace that was published beside it."""
    for one, other in itertools.pairwise(rounds):
        if isinstance(one.published, NoisyMatrix) and isinstance(other.published, NoisyTrace):
            yield one.published, other.published


def _counts(record: Record) -> Iterator[tuple[float, float]]:
    """Yield each number of rows in the rounds, with the standard deviation of its noise."""
    if record.schema.weight is not None:
        return
    if record.row_count is not None:
        yield float(record.row_count), 0.0
    for one in record.rounds:
        match one.published:
            case NoisyCount(value=value, noise=noise):
                yield float(value), noise.standard_deviation
            case NoisySums(values=values, noise=noise):
                squared = Lattice.of(record.schema).intercept_units ** 2
                yield values[-1] / squared, noise.standard_deviation / squared
            case NormHistogram(counts=counts, noise=noise):
                yield float(sum(counts)), noise.standard_deviation * math.sqrt(len(counts))
            case NoisyMatrix() as matrix if matrix.lattice.intercept_units:
                squared = matrix.lattice.intercept_units**2
                unit = 2.0**matrix.shift / squared
                deviation = math.sqrt(matrix.noise.diagonal_variance) / squared
                yield float(matrix.units[-1, -1]) * unit, deviation + unit
            case _:
                pass
