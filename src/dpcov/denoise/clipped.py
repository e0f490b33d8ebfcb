"""What a clip at a radius took from a second moment, as counts of rows by length tell.

Their counts tell how much length, T1, and squared length, T2, was taken in all (`Lengths`), not
along which directions. It is expected where all rows are: as a share of the moment about the mean.
It may as well lie along single columns: of T2 a column may have more or less than its part, by
`UNLIKE`. From the sums it may take all of T1 to one side, which moves means. The same law says what
a wider radius is worth to the mechanism that chooses it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.releases.lengths import Taken

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

# Deviation of what one of p columns has of T2, over T2 / sqrt(p): with it stated errors of
# correlations are in geometric mean the real ones, on tables to tune
# (`make bench NAME=calibration`).
UNLIKE = 0.4
# A tail is unseen where rows too few to show may well (the chance) hold this much of all variance:
# both from tables to tune.
UNSEEN, MAY_WELL = 0.2, 0.25
NOTHING = 1e-12  # of a moment, about its mean: rounding, which has no direction


class Clip:
    """What the clip of a release took from the second moment of its mapped rows, (d, d).

    Parameters
    ----------
    release : without `Release.lengths` nothing was taken, as far as it knows.
    moment : (d, d) an estimate, of the shape of which it is taken to have been in all.

    """

    def __init__(self, release: Release, moment: Matrix) -> None:
        self._release = release
        self._p, self._d = release.lattice.features, release.lattice.dimension
        self._shape, self._within = _shape(moment, self._p)
        self._squared = self._length = Taken(0.0, 0.0)
        if release.lengths is not None:
            self._squared = release.lengths.squared(release.lattice.radius)
            self._length = release.lengths.length(release.lattice.radius)

    @classmethod
    def of(cls, release: Release) -> Clip:
        """Build the clipping bias from the release's own second moment."""
        return cls(release, release.mapped(release.second_moment()))

    @property
    def unseen(self) -> bool:
        """Whether rows too few to show may well hold much of what columns vary by."""
        release = self._release
        if release.lengths is None:
            return False
        held = release.lengths.chance(release.lattice.radius, UNSEEN * self._within)
        return held > MAY_WELL

    def beyond(self, level: float) -> str:
        """How much was taken at most, whatever the lengths of rows are, in words."""
        squared, mean = self.most(level)
        if math.isinf(squared):
            return "Nothing is known of how much that is."
        return (
            f"Whatever tails do, that is at most {_short(squared)} times what columns vary by in "
            f"all, within it, and puts no mean off by more than {_short(mean)} standard deviations "
            f"({level:.0%} confidence each)."
        )

    def most(self, level: float) -> tuple[float, float]:
        """Bound the loss over the total variance, and the shift of a mean over its deviation."""
        release = self._release
        if release.lengths is None or min(self._within, release.count()) <= 0:
            return math.inf, math.inf
        squared, length = release.lengths.most(release.lattice.radius, level)
        there = np.eye(self._p) if release.linear_map is None else release.linear_map
        back = np.linalg.inv(there)  # to columns, whose variances are, in units of all:
        variances = np.sum(back @ self._shape * back, axis=1)
        varies = variances > 0
        farthest = np.max(np.sum(back**2, axis=1)[varies] / variances[varies])
        of_mean = length * math.sqrt(farthest / (self._within * release.count()))
        return squared / self._within, of_mean

    def expected(self) -> Matrix:
        """(d, d) the estimate."""
        return self._alike(self._squared.estimate)

    def more(self, generator: np.random.Generator) -> Matrix:
        """(d, d) a draw of how much more than the estimate it was in all."""
        if self._release.lengths is None:
            return self._alike(0.0)
        return self._alike(self._squared.deviation * generator.standard_normal())

    def _alike(self, squared: float) -> Matrix:
        """(d, d) so much squared length in the shape of the moment, nothing from the sums."""
        taken = np.zeros((self._d, self._d))
        taken[: self._p, : self._p] = squared * self._shape
        return taken

    def drawn(self, generator: np.random.Generator) -> Matrix:
        """(d, d) a draw of what separates it from one of the shape of the moment.

        Along the direction u = A e_j of column j it is a share of T2 u u' more, and of T1 t u in
        the sums, to either side. Gaussian, with the variance of these laws.
        """
        p, missing = self._p, np.zeros((self._d, self._d))
        if self._release.lengths is None:
            return missing
        along = _along(self._release)
        own, side = generator.standard_normal((2, p)) / np.sqrt(p)
        missing[:p, :p] = UNLIKE * self._squared.size * (along * own) @ along.T
        if self._d > p:
            lost = self._release.intercept() * self._length.size * along @ side
            missing[:p, -1] = missing[-1, :p] = lost
        return missing

    def variances(self, basis: Matrix) -> Matrix:
        """(q, q) variances of `drawn` between features, in an orthonormal (p, q) basis."""
        squares = (basis.T @ _along(self._release)) ** 2
        return np.asarray((UNLIKE * self._squared.size) ** 2 / self._p * squares @ squares.T)


def _shape(moment: Matrix, p: int) -> tuple[Matrix, float]:
    """(p, p) the moment about its mean, of trace 1, and its trace; 0 where it is but rounding."""
    centred = moment[:p, :p]
    if len(moment) > p and moment[-1, -1] > 0:
        centred = centred - np.outer(moment[:p, -1], moment[:p, -1]) / moment[-1, -1]
    values, vectors = np.linalg.eigh(centred)
    if values[0] < 0:  # what rounding left must not grow with what is given back
        centred = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = float(np.trace(centred))
    nothing = size <= NOTHING * abs(float(np.trace(moment)))  # which noise may make negative
    return (np.zeros((p, p)), 0.0) if nothing else (centred / size, size)


def _short(number: float) -> str:
    """Two digits, never with an exponent."""
    return f"{float(f'{number:.2g}'):,.12g}"


def _along(release: Release) -> Matrix:
    """(p, p) unit vectors, along which the columns of the table lie among mapped rows."""
    if release.linear_map is None:
        return np.eye(release.lattice.features)
    return np.asarray(release.linear_map / np.linalg.norm(release.linear_map, axis=0))
