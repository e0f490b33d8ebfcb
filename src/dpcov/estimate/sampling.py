"""Simulated rows with a given covariance, and the sampling errors of their second moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

from dpcov.denoise.projection import positive

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.rows.schema import Schema

# Number of pseudo-rows times d^2. Source: not recorded.
PSEUDO_ROW_ENTRIES = 5 * 10**5
# Smallest and largest number of pseudo-rows. Source: not recorded.
MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS = 1000, 5000
# Factor of the sampling errors, for tails that columns have in common. Source: tuned.
SAMPLING_ERROR_FACTOR = 1.1
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
    """Simulate deviations of rows from their means, with exactly the given covariance.

    The sampling error of a variance depends on the kurtosis. A second moment does not contain the
    kurtosis, but the bounds limit it. A variable with a large variance and a mean near a bound must
    have a long tail.

    Each feature therefore has a beta distribution on [low, 1] with the given mean and variance. At
    the largest variance, this distribution has only two values, as an indicator has. A Gaussian
    copula joins the features. A linear map then makes the covariance exact.

    Parameters
    ----------
    means : ndarray, shape (p,)
        Means of the features.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance.

    low : ndarray, shape (p,)
        Smallest possible values of the features. The largest possible value is 1.

    count : int
        Number of rows, at least p.

    generator : numpy.random.Generator
        Random numbers for the copula.

    Returns
    -------
    ndarray, shape (count, p)
        Rows minus their means.

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


def simulated_rows(
    schema: Schema,
    means: Vector,
    covariance: Matrix,
    pairs: Matrix | None,
    generator: np.random.Generator,
) -> Matrix:
    """Simulate encoded rows that stand for the private rows.

    Parameters
    ----------
    schema : Schema
        Schema with p variables and q features.

    means : ndarray, shape (p,)
        Means of the encoded variables.

    covariance : ndarray, shape (p, p)
        Positive semidefinite covariance of the encoded variables.

    pairs : ndarray, shape (p, p), or None
        Fractions of rows that have both of two variables. None if no cells can be missing.

    generator : numpy.random.Generator
        Random numbers for the rows.

    Returns
    -------
    ndarray, shape (m, q)
        Encoded features, which include the missingness indicators.

    """
    numeric = schema.encoded_columns
    low = np.array([-1.0 if one.name in numeric else 0.0 for one in schema.variables])
    means, q = np.clip(means, low, 1.0), len(schema.features)
    size = PSEUDO_ROW_ENTRIES // (q + 1) ** 2
    count = max(int(np.clip(size, MIN_PSEUDO_ROWS, MAX_PSEUDO_ROWS)), 4 * q)
    rows = means + pseudo_rows(means, covariance, low, count, generator)
    return rows if pairs is None else _with_missing_cells(schema, rows, pairs, generator)


def _with_missing_cells(
    schema: Schema, rows: Matrix, pairs: Matrix, generator: np.random.Generator
) -> Matrix:
    """Remove cells at random, as often as cells are missing in the release.

    Parameters
    ----------
    schema : Schema
        Schema with columns in which cells may be missing.

    rows : ndarray, shape (m, p)
        Encoded rows without missing cells.

    pairs : ndarray, shape (p, p)
        Fractions of rows that have both of two variables.

    generator : numpy.random.Generator
        Random numbers for the missing cells.

    Returns
    -------
    ndarray, shape (m, q)
        Encoded features, which include the missingness indicators.

    """
    shares = np.diag(pairs)
    together = positive(pairs - np.outer(shares, shares))
    zeros = np.zeros(len(shares))
    present = shares + pseudo_rows(shares, together, zeros, len(rows), generator)
    variables = {feature.column: j for j, feature in enumerate(schema.variables)}
    found, at = np.empty((len(rows), len(schema.features))), iter(range(len(shares)))
    for j, feature in enumerate(schema.features):
        if feature.variable:
            k = next(at)
            found[:, j] = rows[:, k] * present[:, k]
        else:
            found[:, j] = 1 - present[:, variables[feature.column]]
    return found


def weighted_errors(
    rows: Matrix, count: float, draws: int, generator: np.random.Generator
) -> Array:
    """Simulate sampling errors of the second moment of independent rows.

    An error is the sum of g w w' over simulated rows w, with normal weights g of mean 0. The rows
    are scaled so that the sum has the covariance of a sum over all rows of the table.

    Parameters
    ----------
    rows : ndarray, shape (m, d)
        Simulated encoded rows with their intercept.

    count : float
        Number of rows of the table.

    draws : int
        Number of errors.

    generator : numpy.random.Generator
        Random numbers for the weights.

    Returns
    -------
    ndarray, shape (draws, d, d)
        Sampling errors in squared units of an encoded row.

    """
    rows = rows * (count / len(rows)) ** 0.25
    weights = generator.standard_normal((draws, len(rows)))
    weights -= weights.mean(axis=1, keepdims=True)
    weights *= SAMPLING_ERROR_FACTOR
    d = rows.shape[1]
    errors = np.empty((draws, d, d))
    for j in range(d):
        products = weights @ (rows[:, : j + 1] * rows[:, [j]])
        errors[:, j, : j + 1] = errors[:, : j + 1, j] = products
    return errors
