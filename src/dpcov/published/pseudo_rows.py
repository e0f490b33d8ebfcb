"""Simulated rows with given means and covariances.

The rows stand for the private rows where an estimate needs more than second moments: the sampling
errors of an estimate (`estimate.errors`), and the rows that clipping shortens (`clipping`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector

# Largest variance, as a fraction of the variance that the bounds allow for the mean. With the whole
# variance, a column would have two values only. Source: with 0.98 or 0.995, no mean half width
# differs by more than 0.1% (`make bench NAME=constants`).
MAX_VARIANCE_FRACTION = 0.99
# Smallest distance of a mean from its bound, in widths of the bounds. Source: not recorded.
MIN_BOUND_DISTANCE = 1e-6
# Largest eigenvalue that counts as 0, as a fraction of the largest one. Source: not recorded.
RANK_TOLERANCE = 1e-10
# Number of exact quantiles of each feature. The quantiles between them are interpolated. Source:
# with 513, the sampling errors of a flag fail tests/test_plausible.py.
QUANTILE_NODES = 1025


def pseudo_rows(
    means: Vector,
    covariance: Matrix,
    low: Vector,
    count: int,
    generator: np.random.Generator,
    *,
    high: Vector | float = 1.0,
) -> Matrix:
    """Simulate deviations of rows from their means, with exactly the given covariance.

    The sampling error of a variance depends on the kurtosis. A second moment does not contain the
    kurtosis, but the bounds limit it. A variable with a large variance and a mean near a bound must
    have a long tail.

    Each feature therefore has a beta distribution on [low, high] with the given mean and variance.
    At the largest variance, this distribution has only two values, as an indicator has. A Gaussian
    copula joins the features. A linear map then makes the covariance exact.

    Parameters
    ----------
    means : ndarray, shape (p,)
        Means of the features.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance.

    low : ndarray, shape (p,)
        Smallest possible values of the features.

    count : int
        Number of rows, at least p.

    generator : numpy.random.Generator
        Random numbers for the copula.

    high : ndarray, shape (p,), or float, default 1
        Largest possible values of the features.

    Returns
    -------
    ndarray, shape (count, p)
        Rows minus their means.

    """
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    varies = deviations > 0
    divisor = np.where(varies, deviations, 1.0)
    correlation = covariance / np.outer(divisor, divisor)
    order = (generator.standard_normal((count, len(means))) @ _root(correlation)).argsort(axis=0)
    width = high - low
    shares = np.clip((means - low) / width, MIN_BOUND_DISTANCE, 1 - MIN_BOUND_DISTANCE)
    possible = shares * (1 - shares)
    variances = np.clip(
        (deviations / width) ** 2, MIN_BOUND_DISTANCE**2, MAX_VARIANCE_FRACTION * possible
    )
    weights = possible / variances - 1
    normals = scipy.special.ndtri((np.arange(count) + 0.5) / count)
    nodes = np.linspace(normals[0], normals[-1], min(count, QUANTILE_NODES))
    chances = scipy.special.ndtr(nodes)
    rows = np.empty((count, len(means)))
    for j, (share, weight) in enumerate(zip(shares, weights, strict=True)):
        quantiles = scipy.special.betaincinv(share * weight, (1 - share) * weight, chances)
        values = np.interp(normals, nodes, quantiles)
        values -= values.mean()
        rows[order[:, j], j] = values / max(float(values.std()), MIN_BOUND_DISTANCE**2)
    return _with_covariance(rows, correlation) * deviations


def _with_covariance(rows: Matrix, covariance: Matrix) -> Matrix:
    """Transform rows to a given covariance with the smallest mean squared change.

    Let E be the covariance of the rows and C the given covariance. The transformation is the matrix
    E^-1/2 (E^1/2 C E^1/2)^1/2 E^-1/2. It is the optimal transport map between centred normal
    distributions.

    Parameters
    ----------
    rows : ndarray, shape (m, p)
        Centred rows.

    covariance : ndarray, shape (p, p)
        Covariance of the result.

    Returns
    -------
    ndarray, shape (m, p)
        Transformed rows.

    """
    root = _root(rows.T @ rows / len(rows))
    inverse = np.linalg.pinv(root, rcond=np.sqrt(RANK_TOLERANCE), hermitian=True)
    return rows @ inverse @ _root(root @ covariance @ root) @ inverse


def _root(matrix: Matrix) -> Matrix:
    """Return the symmetric square root of a positive semidefinite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def positive(matrix: Matrix) -> Matrix:
    """Return the nearest positive semidefinite matrix."""
    if np.linalg.eigvalsh(matrix)[0] >= 0:
        return matrix
    values, vectors = np.linalg.eigh(matrix)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return root @ root.T
