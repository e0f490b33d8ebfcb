"""Means and variances of a release that holds sums in place of a second moment.

The sums are the diagonal and the last column of the second moment. `with_matrix` adds the other
entries as if all features were uncorrelated. Functions for means and variances then work as for any
other release, because their results do not depend on the added entries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpcov.published import record
from dpcov.published.kinds import EstimatedMatrix, Round

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.published.kinds import NoisySums
    from dpcov.releases import Release

WITH_MATRIX = "release with uncorrelated features"  # name in `Record.memory`
# Largest size of an integer in the matrix, so that a sum of integers fits into 64 bits.
MAX_UNITS = 2.0**62


def with_matrix(release: Release) -> Release:
    """Return a release of sums with a second moment of uncorrelated features.

    Only means and variances of the result describe the table.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    Release
        The same release, if it does not hold sums in place of a second moment.

    """
    sums = record.sums_of(release)
    if sums is None or release.matrix is not None:
        return release
    if WITH_MATRIX not in release.memory:
        moment = moment_of_sums(release, sums, 0.0 if release.denoise != "none" else None)
        lattice = release.lattice
        units = np.rint(np.clip(moment / lattice.step**2, -MAX_UNITS, MAX_UNITS)).astype(np.int64)
        answer = EstimatedMatrix(lattice, 0, units, lattice.dimension)
        rounds = (*release.rounds, Round("matrix", answer, release.guarantee.budget))
        release.memory[WITH_MATRIX] = replace(release, rounds=rounds, denoised=moment)
    found: Release = release.memory[WITH_MATRIX]
    return found


def moment_of_sums(release: Release, sums: NoisySums, least: float | None) -> Matrix:
    """Return the second moment that uncorrelated features with these sums have.

    Parameters
    ----------
    release : Release
        Release of the sums.

    sums : NoisySums
        Sums of the release.

    least : float or None
        Smallest sum of squares about the mean of each feature. None for no limit.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment in squared units of an encoded row, with the best estimate of the count.

    """
    p, step = release.lattice.features, release.lattice.step
    values = np.array(sums.values, np.float64) * step**2
    squares, products = values[:p], values[p:-1]
    if not release.has_intercept:
        return np.diag(squares)
    corner = release.count() * release.intercept() ** 2
    about = products**2 / corner if corner > 0 else np.zeros(p)
    if least is not None:
        squares = np.maximum(squares, about + least)
    whole = np.outer(products, products) / corner if corner > 0 else np.zeros((p, p))
    np.fill_diagonal(whole, squares)
    return symmetric(whole, np.append(products, corner))


def symmetric(block: Matrix, last: Vector) -> Matrix:
    """Return the symmetric matrix with this block and this last column.

    Parameters
    ----------
    block : ndarray, shape (p, p)
        Symmetric block of the features.

    last : ndarray, shape (p + 1,)
        Last column, which belongs to the intercept.

    Returns
    -------
    ndarray, shape (p + 1, p + 1)
        Symmetric matrix.

    """
    matrix = np.zeros((len(last), len(last)))
    matrix[:-1, :-1] = block
    matrix[-1], matrix[:, -1] = last, last
    return matrix
