"""What a clip at a radius took from a second moment, as counts of rows by length tell.

Their counts tell how much length, and squared length, was taken in all (`Lengths`), not along which
directions. It is expected where all rows are: as a share of the moment about the mean. It may as
well lie along single columns: shares of the columns are taken to be those of a Dirichlet law, of
which `ALIKE` is the size. From the sums it may take all to one side (`SIDED`), which moves means.
The same law says what a wider radius is worth to the mechanism that chooses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.releases import Release

# With it stated errors of correlations are, in geometric mean over the tables to tune, 1.1 times
# those that there are with zCDP; with pure noise, whose counts tell less, 1.3 (`make calibration`).
ALIKE = 9.0
# Of the square of what the sums would lose if all long rows lay along one direction, to one side:
# on the tables to tune it is .01 to 1, .5 in the median over tables and three budgets.
SIDED = 0.5
NOTHING = 1e-12  # of a moment, about its mean: rounding, which has no direction


def expected(release: Release, moment: Matrix) -> Matrix:
    """(d, d) what the clip is expected to have taken, in the shape of the mapped rows' `moment`."""
    taken = np.zeros_like(moment)
    if release.lengths is None:
        return taken
    p = release.lattice.features
    centred = moment[:p, :p]
    if len(moment) > p and moment[-1, -1] > 0:
        centred = centred - np.outer(moment[:p, -1], moment[:p, -1]) / moment[-1, -1]
    values, vectors = np.linalg.eigh(centred)
    if values[0] < 0:  # what rounding left must not grow with what is given back
        centred = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = float(np.trace(centred))
    if size > NOTHING * float(np.trace(moment)):
        taken[:p, :p] = release.lengths.expected(release.lattice.radius) / size * centred
    return taken


def drawn(release: Release, generator: np.random.Generator) -> Matrix:
    """(d, d) a draw of what separates it from what is expected.

    Along the direction u = A e_j of column j it is a share of T2 u u' in the moment, and of T1 t u
    in the sums, to either side (`Lengths.plausible`). Gaussian, with the variance of the law.
    """
    p, d = release.lattice.features, release.lattice.dimension
    missing = np.zeros((d, d))
    if release.lengths is None:
        return missing
    length, squared = release.lengths.plausible(release.lattice.radius)
    along = _along(release)
    own, side = generator.standard_normal((2, p)) / np.sqrt(p)
    missing[:p, :p] = squared / np.sqrt(ALIKE + 1) * (along * own) @ along.T
    if d > p:
        lost = length * np.sqrt(SIDED) * along @ side
        missing[:p, -1] = missing[-1, :p] = release.intercept() * lost
    return missing


def variances(release: Release, basis: Matrix) -> Matrix:
    """(q, q) variances of `drawn` between features, in an orthonormal (p, q) basis."""
    if release.lengths is None:
        return np.zeros((basis.shape[1],) * 2)
    p = release.lattice.features
    _, squared = release.lengths.plausible(release.lattice.radius)
    squares = (basis.T @ _along(release)) ** 2
    return np.asarray(squared**2 / (p * (ALIKE + 1)) * squares @ squares.T)


def _along(release: Release) -> Matrix:
    """(p, p) unit vectors, along which the columns of the table lie among mapped rows."""
    if release.linear_map is None:
        return np.eye(release.lattice.features)
    return np.asarray(release.linear_map / np.linalg.norm(release.linear_map, axis=0))
