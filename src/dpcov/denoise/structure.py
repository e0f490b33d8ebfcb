"""What every second moment of a schema's rows obeys, whatever the data: indicators of levels.

A row has at most one level of a column, so the products of two are 0; those of other indicators are
sums of squares; and an indicator is its own square, so its diagonal entry is t times less than its
product with the intercept t. If each value of a column has a level, its indicators add up to 1. The
true moment is in the intersection of these convex sets, so projecting an estimate on it can only
bring it nearer, and costs no privacy: the sets come from the schema.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.projection import project
from dpcov.moment import UNITS_PER_RADIUS
from dpcov.schema import Categorical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

ROUNDS = 6  # of the alternating projections; more gain less than 2 % (measured on adult)


@dataclass(frozen=True, slots=True)
class Structure:
    """Convex sets that hold the second moment of any rows of a schema.

    Attributes
    ----------
    zero, positive : (d, d) masks of entries that are 0, or not below it.
    indicators : positions of features that are 0 or 1 in a row that is not clipped.
    intercept : t over the 1 of an indicator, where rows are never clipped, so that
        t C_jj = C_jt for the indicators; else 0.
    within : (d, q) orthonormal basis of the directions in which rows can lie; None if all.

    """

    zero: NDArray[np.bool_]
    positive: NDArray[np.bool_]
    indicators: NDArray[np.intp]
    intercept: float
    within: Matrix | None

    @classmethod
    def of(cls, release: Release) -> Structure | None:
        """That of a release's schema; None without indicators, or where rows were mapped."""
        schema, lattice = release.schema, release.lattice
        features, columns = schema.features, schema.encoded_columns
        flags = [feature.is_indicator for feature in features]
        if release.linear_map is not None or not any(flags):
            return None
        d, p = lattice.dimension, lattice.features
        owners = np.array([feature.column for feature in features])
        zero, positive = np.zeros((d, d), bool), np.zeros((d, d), bool)
        zero[:p, :p] = (owners[:, None] == owners) & ~np.eye(p, dtype=bool)
        sure = np.array(flags + [True] * (d - p))
        positive[:] = sure[:, None] & sure
        whole = d > p and lattice.radius >= schema.largest_norm
        one = math.floor(UNITS_PER_RADIUS / lattice.radius)  # of an indicator, in lattice units
        intercept = lattice.intercept_units / one if whole else 0.0
        full = [
            np.append(owners == name, -1 / intercept)
            for name, column in columns.items()
            if whole
            and isinstance(column, Categorical)
            and column.other
            and column.missing == "level"
        ]
        return cls(zero, positive, np.flatnonzero(flags), intercept, _complement(full))

    def fit(self, matrix: Matrix, trace: float) -> Matrix:
        """The positive semidefinite matrix of this trace nearest to (d, d) `matrix`, nearly.

        Dykstra's alternating projections; the last is on the positive semidefinite matrices.
        """
        left, right = np.zeros_like(matrix), np.zeros_like(matrix)
        for _ in range(ROUNDS):
            inside = self.entries(matrix + left)
            left += matrix - inside
            matrix = self._spectrum(inside + right, trace)
            right += inside - matrix
        return matrix

    def entries(self, matrix: Matrix) -> Matrix:
        """Nearest symmetric matrix whose entries are as they must be."""
        near = np.where(self.positive, np.maximum(matrix, 0.0), matrix)
        near[self.zero] = 0.0
        if self.intercept:
            at, t = self.indicators, self.intercept
            squares = (matrix[at, at] + 2 * t * matrix[at, -1]) / (1 + 2 * t**2)
            near[at, at] = np.maximum(squares, 0.0)
            near[at, -1] = near[-1, at] = t * near[at, at]
        return near

    def _spectrum(self, matrix: Matrix, trace: float) -> Matrix:
        if self.within is None:
            return project(matrix, trace)
        inner = project(self.within.T @ matrix @ self.within, trace)
        return np.asarray(self.within @ inner @ self.within.T)


def _complement(vectors: list[Matrix]) -> Matrix | None:
    """Orthonormal basis of what is orthogonal to all `vectors`; None if there are none."""
    if not vectors:
        return None
    return np.asarray(np.linalg.svd(np.array(vectors))[2][len(vectors) :].T)
