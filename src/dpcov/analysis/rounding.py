"""What rounding to the lattice may have done to a release: public numbers, for its errors.

Bounds, midpoints and levels are on the grid of rows that no map and no weight has touched, and of
those that `Standardized` maps by column: they are summed exactly (docs/proofs/release.md 2). Other
values are rounded to the nearest step, so that a column with few of them is off in the same
direction at every row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release


def keeps_declared(release: Release) -> bool:
    """Whether bounds, midpoints and levels are on the grid of the release's rows."""
    numbers = [release.lattice.step]
    if release.linear_map is not None:
        if np.any(release.linear_map != np.diag(np.diag(release.linear_map))):
            return False
        numbers += np.abs(np.diag(release.linear_map)).tolist()
        if release.center is not None:
            steps = release.center * np.diag(release.linear_map) / release.lattice.step
            if np.any(steps != np.rint(steps)):
                return False
    plain = release.schema.weight is None and not isinstance(release.noise, WeightedSum)
    return plain and all(math.frexp(number)[0] == 0.5 for number in numbers)


def rounding(release: Release) -> Vector:
    """(d,) what each entry of a (mapped) row (z, t) may be off by at a declared value.

    0 where declared values are on the grid; half a step elsewhere, and as much again of the longest
    row where rows were divided by their lengths, as those of old files with a `WeightedSum` were.
    For n rows, an entry of the second moment with features of mean squares a and b is off by at
    most n (h_i sqrt(b) + h_j sqrt(a) + h_i h_j).
    """
    lattice = release.lattice
    most = np.zeros(lattice.dimension)
    if keeps_declared(release):
        return most
    by_length = math.sqrt(lattice.bound) / 2**20 * isinstance(release.noise, WeightedSum)
    most[: lattice.features] = lattice.step / 2 * (1 + by_length)
    if release.schema.weight is not None:
        most[lattice.features :] = lattice.step / 2 * lattice.intercept_parts[0]
    return most


def hardly_noisy(release: Release) -> bool:
    """Whether noise in a sum of squares is less than what rounding n rows does, h sqrt(n / 3).

    That is the deviation of n errors that are uniform within half a step h, of values up to 1.
    """
    if release.noise is None or not release.tells_count:
        return False
    noise = math.sqrt(release.noise.diagonal_variance) * release.lattice.step**2
    return noise <= release.lattice.step / 2 * math.sqrt(max(release.count(), 0.0) / 3)


class RoundingErrors:
    """Errors of a second moment whose rows are off alike at each feature, by what rounding may do.

    `moment` is that of rows as encoded. All are 0 without an intercept, which tells sums.
    """

    def __init__(self, release: Release, moment: Matrix) -> None:
        self._most = rounding(release) if release.has_intercept else np.zeros(len(moment))
        if not self._most.any():
            return
        t, p = release.intercept(), release.lattice.features
        self._sums = moment[:, -1] / t
        self._back = np.eye(len(moment))
        if release.linear_map is not None:
            self._back[:p, :p] = np.linalg.inv(release.linear_map)
        if release.center is not None:
            self._back[:p, -1] = release.center / t
        self._count = self._sums[-1] / t

    def draw(self, generator: np.random.Generator) -> Matrix | float:
        """(d, d) error, or 0."""
        if not self._most.any():
            return 0.0
        off = self._back @ (self._most * generator.uniform(-1.0, 1.0, len(self._most)))
        error = np.outer(off, self._sums)
        return error + error.T + self._count * np.outer(off, off)
