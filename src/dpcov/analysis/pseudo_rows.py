"""Rows with given means and covariance within declared bounds, to stand in for the private ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector

# Largest variance, as a fraction of the variance that the bounds allow for the mean. With the whole
# variance, a column would have two values only. Source: not recorded.
MAX_VARIANCE_FRACTION = 0.99
# Smallest distance of a mean from its bound, in widths of the bounds. Source: not recorded.
MIN_BOUND_DISTANCE = 1e-6
# Largest eigenvalue that counts as 0, as a fraction of the largest one. Source: not recorded.
RANK_TOLERANCE = 1e-10


def pseudo_rows(
    means: Vector, covariance: Matrix, low: Vector, count: int, generator: np.random.Generator
) -> Matrix:
    """(count, p) rows about their means, whose moments are exactly those given.

    A second moment says nothing of kurtosis, on which the sampling error of variances depends, but
    much of it follows from the bounds: a variable whose mean is near its bound and whose variance
    is large must have a long tail. So each marginal law is the beta law on [low, 1] with the given
    mean and variance (at the largest variance that the bounds allow, two values: exact for an
    indicator), joined by a Gaussian copula; a linear map then makes the covariance exact.

    Parameters
    ----------
    means, low : (p,) mean and least value of each feature; the largest is 1.
    covariance : (p, p) positive semidefinite.
    count : number of rows, at least p.
    generator : for the copula.

    """
    deviations = np.sqrt(np.diag(covariance))
    varies = deviations > 0
    divisor = np.where(varies, deviations, 1.0)
    correlation = covariance / np.outer(divisor, divisor)
    normals = generator.standard_normal((count, len(means))) @ _root(correlation)
    ranks = normals.argsort(axis=0).argsort(axis=0)
    chances = (np.arange(count) + 0.5) / count
    width = 1 - low
    shares = np.clip((means - low) / width, MIN_BOUND_DISTANCE, 1 - MIN_BOUND_DISTANCE)
    possible = shares * (1 - shares)
    variances = np.clip(
        (deviations / width) ** 2, MIN_BOUND_DISTANCE**2, MAX_VARIANCE_FRACTION * possible
    )
    weights = possible / variances - 1
    rows = np.empty((count, len(means)))
    for j, (share, weight) in enumerate(zip(shares, weights, strict=True)):
        quantiles = scipy.special.betaincinv(share * weight, (1 - share) * weight, chances)
        quantiles = quantiles - quantiles.mean()
        rows[:, j] = (quantiles / max(float(quantiles.std()), MIN_BOUND_DISTANCE**2))[ranks[:, j]]
    return _with_covariance(rows, correlation) * deviations


def _with_covariance(rows: Matrix, covariance: Matrix) -> Matrix:
    """The rows mapped, with the least change in mean square, to have this covariance.

    E^-1/2 (E^1/2 C E^1/2)^1/2 E^-1/2, E the covariance they have: the optimal transport map
    between centred normal laws.
    """
    root = _root(rows.T @ rows / len(rows))
    inverse = np.linalg.pinv(root, rcond=np.sqrt(RANK_TOLERANCE), hermitian=True)
    return rows @ inverse @ _root(root @ covariance @ root) @ inverse


def _root(matrix: Matrix) -> Matrix:
    """Symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
