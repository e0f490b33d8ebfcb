"""Means, covariance and count of the encoded features, from which every analysis starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.denoise.projection import project
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.published import record
from dpcov.releases.pairwise import hidden

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release

# Largest eigenvalue of a matrix with unit diagonal that counts as 0, per row of the matrix.
# Source: not recorded; far above rounding errors.
MAX_ZERO_EIGENVALUE = 1e-11
# Step of a numerical derivative, as a fraction of a simulated error.
DERIVATIVE_STEP = 1e-3
# Smallest divisor, in place of 0. It is far below every variance of encoded rows.
MIN_DIVISOR = 1e-300


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of the features of a release.

    Attributes
    ----------
    centers : ndarray, shape (p,)
        Data values of the encoded value 0.

    scales : ndarray, shape (p,)
        Data units in one encoded unit. A data value is center + scale * encoded value.

    means : ndarray, shape (p,)
        Means in the units of the data.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance of the encoded features.

    count : float
        Number of rows, at least 1. The number is an estimate if the exact number is private.

    """

    centers: Vector
    scales: Vector
    means: Vector
    covariance: Matrix
    count: float

    @property
    def encoded(self) -> Vector:
        """Means of the encoded features, shape (p,)."""
        return (self.means - self.centers) / self.scales

    @classmethod
    def of(cls, release: Release) -> Moments:
        """Return the moments of a release, or raise if it has no intercept."""
        scales = release.scales
        covariance = release.covariance() / np.outer(scales, scales)
        return cls(
            release.centers,
            scales,
            release.mean(),
            positive(covariance),
            max(release.count(), 1.0),
        )


def require_matrix(release: Release) -> None:
    """Raise an error if the release lacks the whole matrix, or if the denoised matrix is 0."""
    record.refuse(record.directions_reason(release))
    moment = release.second_moment()
    matrix = release.covariance() if release.has_intercept else moment
    no_rows = release.has_intercept and moment[-1, -1] <= 0
    if no_rows or not moment.any() or not matrix.any():
        if hidden(release).all():
            raise ReleaseError(
                "The noise hides how many rows have a value in each column, so there is nothing to "
                "analyse. Use a larger epsilon or more rows."
            )
        raise ReleaseError(
            "The denoised matrix of this release is null, so there is nothing to analyse. "
            "Use a larger epsilon or more rows."
        )


def positive(matrix: Matrix) -> Matrix:
    """Return the nearest positive semidefinite matrix."""
    return project(matrix, None) if np.linalg.eigvalsh(matrix)[0] < 0 else matrix


def uncentred(release: Release) -> Matrix:
    """Return the mean of x x' over rows x, with data values in units of their half-range.

    Parameters
    ----------
    release : Release
        Release with an intercept, or with bounds that are symmetric about 0.

    Returns
    -------
    ndarray, shape (p, p)
        Positive semidefinite matrix.

    Raises
    ------
    NotReleasedError
        The release has no intercept, and the midpoint of some bounds is not 0.

    """
    record.refuse(record.directions_reason(release))
    if release.has_intercept:
        moments = Moments.of(release)
        means = moments.means / moments.scales
        return moments.covariance + np.outer(means, means)
    if release.centers.any():
        raise NotReleasedError(
            "This release was made without an intercept, and its bounds are not symmetric about 0, "
            "so moments about 0 can't be had from it. Set intercept above 0."
        )
    return positive(release.second_moment()) / max(release.count(), 1.0)


def solve(matrix: Matrix, right: Matrix) -> tuple[Matrix, int]:
    """Solve a positive semidefinite system, with the smallest norm if it is singular.

    The matrix is first scaled to a unit diagonal, so that the rank does not depend on units.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
        Positive semidefinite matrix.

    right : ndarray, shape (k,) or (k, t)
        Right-hand side.

    Returns
    -------
    solution : ndarray, shape (k,) or (k, t)
        Solution.

    rank : int
        Numerical rank of the matrix.

    """
    diagonal = np.diag(matrix)
    roots = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(matrix / np.outer(roots, roots))
    kept = values > MAX_ZERO_EIGENVALUE * max(len(values), 1)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
    scaled = (right.T / roots).T
    solution = vectors @ (inverse * (vectors.T @ scaled).T).T
    return (solution.T / roots).T, int(np.count_nonzero(kept))


def spreads(release: Release, features: Sequence[int]) -> Vector:
    """Return the (k,) standard deviations of features, or root mean squares without an intercept.

    The parameter `features` contains the positions of the features.
    """
    if release.has_intercept:
        variances = np.diag(release.covariance())
    else:
        variances = np.diag(uncentred(release)) * release.scales**2
    return np.sqrt(np.maximum(variances, 0.0))[list(features)]
