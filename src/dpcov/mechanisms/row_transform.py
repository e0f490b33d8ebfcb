"""Transformations of rows that earlier private queries determine, and bounds on their norms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise import shown
from dpcov.rows.moment import LinearMap, max_transformed_norm

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.published.record import Record
    from dpcov.rows.schema import Schema

# Each variance of a direction is increased by this factor times the size of the noise. The size of
# the noise is sqrt(d) standard deviations of an entry in a matrix of order d. Source: with half or
# twice the value, no error differs by more than 5%, with a standard error of 4%
# (`make bench NAME=constants`).
NOISE_FLOOR_FACTOR = 1.0
# A noisy number of rows is reliable above this many standard deviations of its noise. Source: with
# 1 or 4, no error differs by more than 5% (`make bench NAME=constants`).
MIN_COUNT_SDS = 2.0
# Largest squared norm of a whitened step from the mean row to a level. Its unit is the mean squared
# norm of a whitened row.
# Source: `make bench NAME=rare_levels` compares it with 0.5, 1, 4, 9 and no limit.
MAX_LEVEL_SQUARED_NORM = 2.0


def binary_features(schema: Schema) -> Booleans:
    """Return True for each feature with two possible values, shape (p,)."""
    return np.array([schema.is_binary(feature) for feature in schema.features])


def level_steps(schema: Schema, center: Vector) -> Matrix:
    """Return the steps from the mean row to the same row with another level.

    Parameters
    ----------
    schema : Schema
        Schema with p features, of which k are flags or indicators.

    center : ndarray, shape (p,)
        Means of the encoded features.

    Returns
    -------
    ndarray, shape (k, p)
        One step for each indicator, to its level, and for each flag, to its rarer value.

    """
    steps, binary = np.diag(np.where(center > 0, -1, 1) - center), binary_features(schema)
    for places in schema.indicators.values():
        steps[np.ix_(places, places)] = np.eye(len(places)) - center[places]
    return steps[binary]


@dataclass(frozen=True, slots=True)
class RowTransform:
    """Transformation of the rows, with the norms of the transformed rows.

    Attributes
    ----------
    map : LinearMap
        Map that subtracts a center from each row and changes the units.

    longest : float
        Upper bound on the norm of every transformed row.

    typical : float
        Root mean square norm of the transformed rows, estimated from an earlier query.

    count : float
        Number of rows, estimated from an earlier query.

    """

    map: LinearMap
    longest: float
    typical: float
    count: float

    @staticmethod
    def reached(matrix: Matrix, center: Vector | None, schema: Schema) -> tuple[LinearMap, float]:
        """Return the nearest map in exact arithmetic, and its bound on the transformed norms.

        The bound holds for every row that the schema allows.
        """
        known = center, schema.effective_radius, schema.indicators.values()
        nearest = LinearMap.focused(matrix, max_transformed_norm(matrix, *known), center)
        return nearest, max_transformed_norm(nearest.matrix(), *known)

    @classmethod
    def by_direction(
        cls, directions: Record, power: float, draws: np.random.Generator
    ) -> RowTransform | None:
        """Return the whitening map that a directions query estimates.

        The result is None if no direction is above the noise level. The map subtracts the mean and
        divides each direction by a power of its standard deviation.

        The power 1/2 gives the smallest error of the second moment as a whole. The noise of a
        release grows with the mean squared norm tr(A S A) of the transformed rows. The inverse map
        A^-1 transforms the noise back. The power 1 makes the noise in each direction
        proportional to the standard deviation of the direction. This choice suits results in which
        small directions matter as much as large directions.

        In whitened rows, a rare level is far from the mean. It would increase the noise, or
        clipping would hide it. The function therefore increases the variance along the step from
        the mean to the level. The squared norm of the whitened step is then at most
        `MAX_LEVEL_SQUARED_NORM` mean squared norms of a row.

        Parameters
        ----------
        directions : Release
            Result of the directions query.

        power : float
            Power of the standard deviations, from 0 to 1.

        draws : numpy.random.Generator
            Source of simulated noise.

        Returns
        -------
        RowTransform or None

        """
        seen = shown(directions, draws)
        if seen is None:
            return None
        moment, law = seen
        p, t = directions.lattice.features, directions.intercept()
        deviation = math.sqrt(law.frobenius_squared) / law.dimension
        before = np.eye(p) if directions.linear_map is None else directions.linear_map
        about = np.zeros(p) if directions.center is None else directions.center
        count = (
            directions.row_count
            or max(float(moment[-1, -1]), MIN_COUNT_SDS * deviation, t**2) / t**2
        )
        found = about + np.linalg.solve(before, moment[:p, -1] / (t * count))
        center = np.clip(found, -1.0, 1.0)
        mean = before @ (center - about)
        moment = moment[:p, :p] - count * np.outer(mean, mean)
        values, vectors = np.linalg.eigh(moment)
        spread = np.maximum(values, 0.0) + NOISE_FLOOR_FACTOR * deviation * math.sqrt(law.dimension)
        steps = level_steps(directions.schema, center) @ before.T
        if len(steps):
            values, vectors = np.linalg.eigh(_widened((vectors * spread) @ vectors.T, steps, count))
            spread = np.maximum(values, spread.min())
        factors = (spread / spread.max()) ** (-power / 2)
        matrix = (vectors * factors) @ vectors.T @ before
        shape, longest = RowTransform.reached(matrix, center, directions.schema)
        typical = min(longest, math.sqrt(float(spread @ factors**2) / count))
        return cls(shape, longest, typical, count)


def _widened(moment: Matrix, steps: Matrix, count: float) -> Matrix:
    """Increase a second moment along the steps that whitening would make too long.

    Parameters
    ----------
    moment : ndarray, shape (p, p)
        Positive definite second moment of the rows about their mean.
    steps : ndarray, shape (k, p)
        Steps from the mean row.
    count : float
        Number of rows.

    Returns
    -------
    ndarray, shape (p, p)
        Second moment. The squared norm of every whitened step is at most `MAX_LEVEL_SQUARED_NORM`
        mean squared norms of a row.

    """
    moment, inverse = moment.copy(), np.linalg.inv(moment)
    least = count / (MAX_LEVEL_SQUARED_NORM * len(moment))
    for step in steps:
        image = inverse @ step
        squared_norm = float(step @ image)  # of the whitened step, divided by the number of rows
        if least * squared_norm > 1:
            more = least - 1 / squared_norm
            moment += more * np.outer(step, step)
            # The inverse of a sum with a matrix of rank 1 (Sherman and Morrison 1950).
            inverse -= more / (1 + more * squared_norm) * np.outer(image, image)
    return moment
