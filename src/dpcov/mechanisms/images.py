"""Maps of rows that earlier looks tell, and what bounds the images."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise import shown
from dpcov.rows.moment import LinearMap, longest_image

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

SLACK = 1.0  # of a look's noise, what the variance of a direction is never taken to be below
SURE = 2.0  # standard deviations of its noise that the number of rows is taken to be above


@dataclass(frozen=True, slots=True)
class Images:
    """A map of rows, what bounds their images, and their size.

    Attributes
    ----------
    map : to rows about their mean, or as they are, in other units.
    longest : what no image of a row is beyond.
    typical, count : root mean square of the images' lengths, and number of rows, as far as a look
        tells.

    """

    map: LinearMap
    longest: float
    typical: float
    count: float

    @staticmethod
    def reached(matrix: Matrix, center: Vector | None, schema: Schema) -> tuple[LinearMap, float]:
        """The map that can be applied exactly, and what no image of a schema's row is beyond."""
        known = center, schema.effective_radius, schema.indicators.values()
        nearest = LinearMap.focused(matrix, longest_image(matrix, *known), center)
        return nearest, longest_image(nearest.matrix(), *known)

    @classmethod
    def by_direction(cls, look: Release, power: float, draws: np.random.Generator) -> Images | None:
        """Rows about the mean in the shape that a look shows; None where it shows nothing.

        The look is at rows as they are or mapped. A direction is divided by this power of its
        standard deviation. With 1/2 noise is spread as evenly as tr(S^1/2)^2 can be: that of a
        release grows with the mean square of images, tr(A S A), and comes back through A^-1. With
        1 it is in proportion to a direction's own deviation, for errors in which small ones count
        as much as large ones.
        """
        seen = shown(look, draws)
        if seen is None:
            return None
        moment, law = seen
        p, t = look.lattice.features, look.intercept()
        deviation = math.sqrt(law.frobenius_squared) / law.dimension
        before = np.eye(p) if look.linear_map is None else look.linear_map
        about = np.zeros(p) if look.center is None else look.center
        count = look.row_count or max(float(moment[-1, -1]), SURE * deviation, t**2) / t**2
        found = about + np.linalg.solve(before, moment[:p, -1] / (t * count))
        center = np.clip(found, -1.0, 1.0)
        mean = before @ (center - about)
        moment = moment[:p, :p] - count * np.outer(mean, mean)
        values, vectors = np.linalg.eigh(moment)
        spread = np.maximum(values, 0.0) + SLACK * deviation * math.sqrt(law.dimension)
        factors = (spread / spread.max()) ** (-power / 2)
        matrix = (vectors * factors) @ vectors.T @ before
        shape, longest = Images.reached(matrix, center, look.schema)
        typical = min(longest, math.sqrt(float(spread @ factors**2) / count))
        return cls(shape, longest, typical, count)
