"""Bounds on the rounding errors of a release, computed from public numbers.

dpcov rounds every encoded value to a multiple of the lattice step. If the rows are neither
transformed nor weighted, all bounds, midpoints and levels of the schema are such multiples. They
also are multiples if `Standardized` transforms each column on its own. dpcov then sums these values
exactly (docs/proofs/release.md 2).

Other values are rounded to the nearest multiple. A column with few different values then has a
similar rounding error in every row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.published.record import Record


def keeps_declared(release: Record) -> bool:
    """Return True if bounds, midpoints and levels are multiples of the lattice step."""
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


def rounding(release: Record) -> Vector:
    """Return bounds on the rounding error of each entry of a row at a declared value.

    A bound is 0 if the declared values are multiples of the lattice step. Otherwise, it is half a
    step. Old release files with a `WeightedSum` divided rows by their norms, so the bound increases
    with the largest norm.

    For n rows, consider two features with the mean squares a and b and the bounds h_i and h_j. The
    error of their entry in the second moment is at most n (h_i sqrt(b) + h_j sqrt(a) + h_i h_j).

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    ndarray, shape (d,)
        Bounds for the entries of a transformed row with its intercept.

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


def is_finer_than_noise(release: Record, count: float) -> bool:
    """Return True if the noise in a sum of squares over `count` rows exceeds the rounding error.

    For n values up to 1, the rounding error has the standard deviation h sqrt(n / 3). Here h is
    half a lattice step, and each rounding error has a uniform distribution between -h and h.
    """
    assert release.noise is not None  # noqa: S101  for type checkers
    noise = math.sqrt(release.noise.diagonal_variance) * release.lattice.step**2
    return noise > release.lattice.step / 2 * math.sqrt(max(count, 0.0) / 3)


class RoundingErrors:
    """Simulated rounding errors of a second moment, with the same error in every row.

    Without an intercept, all errors are 0, because the sums of the features are unknown.

    Parameters
    ----------
    release : Record
        Any release.

    moment : ndarray, shape (d, d)
        Second moment of the encoded rows.

    """

    def __init__(self, release: Record, moment: Matrix) -> None:
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
        """Draw an error of shape (d, d), or return 0 if there are no rounding errors."""
        if not self._most.any():
            return 0.0
        off = self._back @ (self._most * generator.uniform(-1.0, 1.0, len(self._most)))
        error = np.outer(off, self._sums)
        return error + error.T + self._count * np.outer(off, off)
