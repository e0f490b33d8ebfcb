"""What every second moment of a schema's rows obeys, whatever the data: indicators of levels.

A row has at most one level of a column, so the products of two are 0; those of other indicators are
sums of squares; and an indicator is its own square, so its diagonal entry is t times less than its
product with the intercept t. If each value of a column has a level, its indicators add up to 1, and
to as much as those of another such column where a clip has shortened a row. The true moment is in
the intersection of these convex sets, so projecting an estimate on it can only bring it nearer, and
costs no privacy: the sets come from the schema. Those that are equations hold for the noise that
is left as well, so there is less of it before anything is shrunk.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.denoise.projection import project
from dpcov.denoise.shrinkage import LARGE, shrink, simulates
from dpcov.rows.schema import Categorical

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.releases import Release

MOST_ROUNDS = 200  # of the alternating projections, if they don't settle before
SETTLED = 0.001  # of what all rounds changed, by the last
SWEEPS = 4  # of the projections on the equations alone


@dataclass(frozen=True)
class Structure:
    """Convex sets that hold the second moment of any rows of a schema.

    A row holds z_j - c_j of feature j in units of 1/u_j, and the intercept t. With N rows whose
    sums are g_j, products of features sum to u_i u_j sum z_i z_j - B_ij,

        B = k g' + g k' + N k k',   k_j = u_j c_j.

    Attributes
    ----------
    zero, positive : (d, d) masks of products sum z_i z_j that are 0, or not below it.
    blocks : positions of the indicators of each column, where t tells their sums; else none.
    units, centers : (d,) u and k; 1 and 0 where rows were not mapped.
    intercept : t, in the same units.
    within : (d, q) orthonormal basis of the directions in which rows can lie; None if all.

    """

    zero: Booleans
    positive: Booleans
    blocks: tuple[NDArray[np.intp], ...]
    units: Vector
    centers: Vector
    intercept: float
    within: Matrix | None

    @classmethod
    def of(cls, release: Release) -> Structure | None:
        """Build it from a release's schema; None without indicators or if a map mixed features."""
        schema, lattice = release.schema, release.lattice
        features, columns = schema.features, schema.encoded_columns
        scales = _scales(release)
        if scales is None or not schema.indicators:
            return None
        d, p = lattice.dimension, lattice.features
        owners = np.array([feature.column for feature in features])
        zero = np.zeros((d, d), bool)
        zero[:p, :p] = (owners[:, None] == owners) & ~np.eye(p, dtype=bool)
        sure = np.ones(d, bool)
        sure[:p] = [feature.is_indicator for feature in features]
        units, centers, intercept = scales
        blocks, sums = [], []
        for name, positions in schema.indicators.items():
            at, column = np.array(positions), columns[name]
            if intercept:
                blocks.append(at)
            if isinstance(column, Categorical) and column.is_full:
                total = np.zeros(d)
                total[at] = 1 / units[at]
                if intercept:
                    total[-1] = (np.sum(centers[at] / units[at]) - 1) / intercept
                sums.append(total)
        if not intercept:
            sums = [one - other for one, other in itertools.pairwise(sums)]
        positive = sure[:, None] & sure
        return cls(zero, positive, tuple(blocks), units, centers, intercept, _complement(sums))

    def fit(self, matrix: Matrix, trace: float) -> Matrix:
        """Approximate the positive semidefinite matrix of this trace nearest to `matrix`, (d, d).

        Dykstra's alternating projections; the last is on the positive semidefinite matrices.
        """
        start, left, right = matrix, np.zeros_like(matrix), np.zeros_like(matrix)
        for _ in range(MOST_ROUNDS):
            before = matrix
            inside = self.entries(matrix + left)
            left += matrix - inside
            matrix = self._spectrum(inside + right, trace)
            right += inside - matrix
            if np.linalg.norm(matrix - before) <= SETTLED * np.linalg.norm(matrix - start):
                break
        return matrix

    def shrunk(
        self, noisy: Matrix, law: MatrixLaw, trace: float, generator: np.random.Generator
    ) -> Matrix:
        """`shrink` after the equations, which take noise away."""
        return self._lifted(shrink(self.equated(noisy), law, trace, generator, self.equated))

    def simulates(self, law: MatrixLaw, trace: float) -> bool:
        """Whether `shrunk` is as good as `shrink`, whose closed form knows nothing of equations.

        Frobenius errors are up to a tenth less; but where the noise is small, entries of rare
        levels are worse, which correlations show. Those are what rows are mapped for.
        """
        return simulates(law, trace) or (not self.centers.any() and law.dimension <= LARGE)

    def equated(self, matrix: Matrix) -> Matrix:
        """(..., q, q) what the equations leave of (..., d, d) matrices, in `within`: linear."""
        for _ in range(SWEEPS):
            matrix = self._lifted(self._inner(self.entries(matrix, bounded=False)))
        return self._inner(matrix)

    def nearest(self, matrix: Matrix) -> Matrix:
        """(d, d) what the equations leave of a matrix."""
        return self._lifted(self.equated(matrix))

    def free(self, features: int) -> Matrix:
        """(p, q) orthonormal basis of where p features less their means can lie, in any rows."""
        if self.within is None:
            return np.eye(features)
        outside = scipy.linalg.null_space(self.within.T)[:features]
        return np.asarray(scipy.linalg.null_space(outside.T))

    def entries(self, matrix: Matrix, *, bounded: bool = True) -> Matrix:
        """Nearest symmetric matrices whose entries are as they must be; `bounded`, none too small.

        Of (..., d, d) `matrix`: simulations ask for many at once.
        """
        least = 0.0 if bounded else -np.inf
        near, base = matrix.copy(), np.zeros_like(matrix)
        if self.intercept:
            rows = np.maximum(np.sum(matrix * self.of_rows, axis=(-2, -1)), least)[..., None]
            sums = matrix[..., -1] / self.intercept
            for block in self.blocks:
                sums[..., block] = self._sums(matrix, block, rows)
                if bounded:
                    sums[..., block] = np.maximum(sums[..., block], -rows * self.centers[block])
            base = self.centers[:, None] * (sums + rows * self.centers / 2)[..., None, :]
            base += base.swapaxes(-2, -1).copy()
            at = np.concatenate(self.blocks)
            counts = self.units * (rows * self.centers + sums)
            near[..., at, at] = counts[..., at] - base[..., at, at]
            near[..., at, -1] = near[..., -1, at] = self.intercept * sums[..., at]
            near[..., -1, -1] = self.intercept**2 * rows[..., 0]
            base[..., -1, :] = base[..., :, -1] = self.intercept * rows * self.centers
        if bounded:
            near = np.where(self.positive, np.maximum(near, -base), near)
        return np.where(self.zero, -base, near)

    @cached_property
    def of_rows(self) -> Matrix:
        """(d, d) matrix whose inner product with a moment is N, by least squares.

        Over all that follows from N and the sums g: the blocks, the products t g and the corner.
        """
        centers, units = self.centers, self.units
        of_one = np.zeros_like(self.zero, float)
        of_one[-1, -1] = self.intercept**2
        for block in self.blocks:
            k, u = centers[block], units[block]
            within = np.ix_(block, block)
            of_one[within] = np.diag(u * k) - np.outer(k, k)
            g = self._sums(of_one, block, np.zeros(1))
            of_one[within] -= np.diag(u * g) - np.outer(k, g) - np.outer(g, k)
            of_one[block, -1] = of_one[-1, block] = -self.intercept * g
        return np.asarray(of_one / np.sum(of_one**2))

    def _sums(self, matrix: Matrix, block: NDArray[np.intp], rows: Vector) -> Vector:
        """(..., k) sums g of a column's indicators, by least squares over all that they imply.

        These are the block F(g) = diag(u (N k + g)) - B and the products t g with the intercept.
        """
        units, centers = self.units[block], self.centers[block]
        known = np.outer(centers, centers) - np.diag(units * centers)
        given = matrix[..., block[:, None], block] + rows[..., None] * known
        right = units * np.diagonal(given, axis1=-2, axis2=-1) - 2 * given @ centers
        right += 2 * self.intercept * matrix[..., block, -1]
        weights = units**2 - 4 * units * centers + 2 * centers @ centers + 2 * self.intercept**2
        normal = np.diag(weights) + 2 * np.outer(centers, centers)
        return np.asarray(np.linalg.solve(normal, right[..., None])[..., 0])

    def _spectrum(self, matrix: Matrix, trace: float) -> Matrix:
        return self._lifted(project(self._inner(matrix), trace))

    def _inner(self, matrix: Matrix) -> Matrix:
        """(q, q) matrix in the basis `within`."""
        return matrix if self.within is None else self.within.T @ matrix @ self.within

    def _lifted(self, inner: Matrix) -> Matrix:
        """(d, d) matrix of one in the basis `within`."""
        if self.within is None:
            return inner
        whole = self.within @ inner @ self.within.T
        return np.asarray((whole + whole.swapaxes(-2, -1)) / 2)


def _scales(release: Release) -> tuple[Vector, Vector, float] | None:
    """Units, centers and intercept of `Structure`; an intercept of 0 where it does not tell sums.

    That is where rows are clipped at a public radius, since then the released moment is theirs. A
    private radius is one that few rows exceed, and the moment is meant to be that of all.
    """
    lattice, d, p = release.lattice, release.lattice.dimension, release.lattice.features
    if release.linear_map is None:
        one = math.floor(1 / lattice.step)  # of an indicator, in lattice units
        whole = d > p and one > 0 and lattice.radius >= release.schema.largest_norm
        return np.ones(d), np.zeros(d), lattice.intercept_units / one if whole else 0.0
    units, mixed = np.diag(release.linear_map), release.linear_map.copy()
    center = np.zeros(p) if release.center is None else release.center.copy()
    for at, mark in release.schema.gaps.items():  # less its center where it is there, else 0
        if mixed[at, mark] != 0:
            mixed[at, mark] = center[at] = 0.0
    if np.any(mixed != np.diag(units)) or not np.all(units > 0) or d == p:
        return None
    return np.append(units, 0.0), np.append(units * center, 0.0), release.intercept()


def _complement(vectors: list[Matrix]) -> Matrix | None:
    """Orthonormal basis of what is orthogonal to all `vectors`; None if there are none."""
    if not vectors:
        return None
    return np.asarray(np.linalg.svd(np.array(vectors))[2][len(vectors) :].T)
