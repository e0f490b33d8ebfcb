"""Means and covariances of columns with missing cells (docs/proofs/missing.md).

dpcov encodes each cell of a column with `missing` = ``pairwise`` as two numbers. A cell with the
value x becomes (x, 0), and a missing cell becomes (0, 1). The second number u is the missingness
indicator. The second moment then contains three numbers for each pair of columns:

- the number of rows that have both cells,
- the sum of each column over these rows,
- the sum of the products over these rows.

These numbers give the available-case means and covariances. `complete_moments` converts them to the
second moment of the same number of rows without missing cells. All analyses use this second moment.

The matrix of these covariances can have negative eigenvalues. A regression on such a matrix has no
solution. The true variance in a direction is never negative. A variance below its standard error
cannot be distinguished from 0. `raised_covariance` therefore raises the variance in every direction
of the correlations to at least its standard error. The rows cannot vary in some directions, for
example because the levels of a column add up to 1. Such a direction has no error and stays
unchanged.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Integers, Matrix, Vector
    from dpcov.published.record import Record
    from dpcov.rows.schema import Schema

# Smallest number of rows of a pair of columns, as a fraction of the number of rows that the pair
# has if its columns have independent missing cells. Source: not recorded.
MIN_PAIR_FRACTION = 0.1
# Smallest noisy number of rows that shows that there are rows, in standard deviations of the noise.
# Source: Laplace noise exceeds this value with probability exp(-5 sqrt(2)) / 2, which is 0.0004.
MIN_ROW_COUNT_SNR = 5.0
# Step of a numerical derivative, as a fraction of a simulated error. Source: not recorded.
DERIVATIVE_STEP = 1e-3
# Smallest divisor, in place of 0. It is far below every variance of encoded rows.
MIN_DIVISOR = 1e-300


def complete_moments(
    schema: Schema, moments: Array, t: float, *, least: float | None = None
) -> Array:
    """Compute the second moments that rows without missing cells have.

    The means and covariances are the available-case ones. The number of rows is the number of all
    rows.

    Parameters
    ----------
    schema : Schema
        Schema of the rows, with p variables.

    moments : ndarray, shape (..., d, d)
        Second moments of encoded rows.

    t : float
        Intercept of the rows.

    least : float, optional
        Smallest number of rows of a variable. A variable with fewer rows gets the variance 0. By
        default, there is no smallest number, and results without any row are NaN.

    Returns
    -------
    ndarray, shape (..., p + 1, p + 1)
        Second moments of the variables and the intercept.

    """
    if not schema.missing_columns:
        return moments
    rows, sums, products = _pairs(schema, moments, t)
    n, p = moments[..., -1:, -1:] / t**2, len(schema.variables)
    few = np.zeros(p, bool)
    if least is not None:
        few = _diagonal(rows) < least
        own = np.maximum(_diagonal(rows), least)
        alone = own[..., :, None] * own[..., None, :] / np.maximum(n, 1.0)
        rows = np.maximum(rows, MIN_PAIR_FRACTION * alone)
        rows[..., *_places(p)] = own
    else:
        rows = np.where(rows > 0, rows, np.nan)
    means = _diagonal(sums) / _diagonal(rows)
    covariances = (products - sums * np.swapaxes(sums, -1, -2) / rows) / rows
    covariances = np.where(few[..., :, None] | few[..., None, :], 0.0, covariances)
    whole = np.empty((*moments.shape[:-2], p + 1, p + 1))
    whole[..., :-1, :-1] = n * (covariances + means[..., :, None] * means[..., None, :])
    whole[..., :-1, -1] = whole[..., -1, :-1] = t * n[..., 0] * means
    whole[..., -1:, -1:] = n * t**2
    return whole


def _pairs(schema: Schema, moments: Array, t: float) -> tuple[Array, Array, Array]:
    """Compute the numbers of rows, the sums and the sums of products of all pairs of variables.

    Parameters
    ----------
    schema : Schema
        Schema of the rows, with p variables.

    moments : ndarray, shape (..., d, d)
        Second moments of encoded rows.

    t : float
        Intercept of the rows.

    Returns
    -------
    rows : ndarray, shape (..., p, p)
        Number of rows that have both variables i and j.

    sums : ndarray, shape (..., p, p)
        Sum of variable i over the rows that have variable j.

    products : ndarray, shape (..., p, p)
        Sum of the products of both variables.

    """
    at = np.array([j for j, feature in enumerate(schema.features) if feature.variable])
    gaps = np.array([schema.missing_columns.get(j, -1) for j in at.tolist()])
    has = gaps >= 0
    # The moment contains the sum of u twice, because u equals its square. The noise off the
    # diagonal has half of the variance.
    squares = np.where(has, moments[..., gaps, gaps], 0.0)
    missing = np.where(has, moments[..., gaps, -1] / t, 0.0)
    missing = (squares + 2 * t**2 * missing) / (1 + 2 * t**2)
    both = np.where(has[:, None] & has, moments[..., gaps[:, None], gaps], 0.0)
    rows = moments[..., -1:, -1:] / t**2 - missing[..., :, None] - missing[..., None, :] + both
    rows[..., *_places(len(at))] = moments[..., -1, -1][..., None] / t**2 - missing
    found = moments[..., at, -1][..., :, None] / t
    sums = found - np.where(has, moments[..., at[:, None], gaps], 0.0)
    sums[..., *_places(len(at))] = found[..., 0]
    return rows, sums, moments[..., at[:, None], at]


def rows_of_pairs(schema: Schema, moment: Array, t: float) -> Array:
    """Return the noisy numbers of rows that have both of two variables.

    Parameters
    ----------
    schema : Schema
        Schema of the rows, with p variables.

    moment : ndarray, shape (..., d, d)
        Second moments of encoded rows.

    t : float
        Intercept of the rows.

    Returns
    -------
    ndarray, shape (..., p, p)
        Numbers of rows, which can be negative.

    """
    return _pairs(schema, moment, t)[0]


def _diagonal(matrices: Array) -> Array:
    """Return the diagonals of matrices, shape (..., d)."""
    return np.diagonal(matrices, axis1=-2, axis2=-1)


def _places(order: int) -> tuple[Integers, Integers]:
    """Return the positions of the diagonal of a matrix."""
    return np.arange(order), np.arange(order)


def proper(covariance: Matrix) -> Matrix:
    """Return a valid covariance matrix near one that combines different rows.

    The variances become at most 1. The negative eigenvalues of the correlation matrix become 0.

    Parameters
    ----------
    covariance : ndarray, shape (p, p)
        Covariances of encoded variables.

    Returns
    -------
    ndarray, shape (p, p)
        Positive semidefinite matrix.

    """
    variances = np.diag(covariance)
    flat = variances <= 0
    roots = np.sqrt(np.where(flat, 1.0, variances))
    correlation = np.clip(covariance / np.outer(roots, roots), -1.0, 1.0)
    correlation[flat] = correlation[:, flat] = 0.0
    np.fill_diagonal(correlation, 1.0)
    values, vectors = np.linalg.eigh(correlation)
    if values[0] < 0:
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        root /= np.linalg.norm(root, axis=1, keepdims=True)
        correlation = root @ root.T
    roots = np.where(flat, 0.0, np.minimum(roots, 1.0))
    return np.asarray(correlation * np.outer(roots, roots))


def least_rows(release: Record) -> float:
    """Return the largest number of rows of a variable that noise alone can show.

    If the noise is a weighted sum, as in old files, the least noisy term determines this number.

    Parameters
    ----------
    release : Record
        Any release.

    Returns
    -------
    float
        Number of rows, at least 1.

    """
    law, sums = release.noise, release.sums_alone
    if law is not None:
        variance = law.diagonal_variance
    elif sums is not None:
        variance = sums.noise.standard_deviation**2
    else:
        return 1.0
    if isinstance(law, WeightedSum):
        parts = zip(law.weights, law.terms, strict=True)
        variance = min(weight**2 * term.diagonal_variance for weight, term in parts)
    spreads = [1 / release.intercept() ** 2]
    if release.linear_map is not None:  # the indicators are converted from transformed rows
        marks = np.linalg.inv(release.linear_map)[list(release.schema.missing_columns.values())]
        spreads += np.sum(marks**2, axis=1).tolist()
    return max(
        1.0, MIN_ROW_COUNT_SNR * math.sqrt(variance) * release.lattice.step**2 * max(spreads)
    )


def raised_covariance(schema: Schema, moment: Matrix, t: float, errors: Array) -> Matrix:
    """Raise the available-case variance in every direction to at least its standard error.

    Parameters
    ----------
    schema : Schema
        Schema of the rows, with p variables.

    moment : ndarray, shape (d, d)
        Second moment of encoded rows.

    t : float
        Intercept of the rows.

    errors : ndarray, shape (b, d, d)
        Simulated errors of the second moment: privacy noise, rounding and sampling.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment with larger sums of products. The numbers of rows and the sums are unchanged.

    """
    covariance = _covariance(schema, moment, t)
    moves = np.stack([_covariance(schema, moment + DERIVATIVE_STEP * one, t) for one in errors])
    moves = (moves - covariance) / DERIVATIVE_STEP
    own = np.sqrt(np.mean(np.diagonal(moves, axis1=1, axis2=2) ** 2, axis=0))
    roots = np.sqrt(np.maximum(np.maximum(np.diag(covariance), own), MIN_DIVISOR))
    values, vectors = np.linalg.eigh(covariance / np.outer(roots, roots))
    lacking = np.maximum(_deviations(moves / np.outer(roots, roots), vectors) - values, 0.0)
    added = (vectors * lacking) @ vectors.T * np.outer(roots, roots)
    at = [j for j, feature in enumerate(schema.features) if feature.variable]
    larger = moment.copy()
    larger[np.ix_(at, at)] += added * np.maximum(rows_of_pairs(schema, moment, t), 0.0)
    return larger


def _covariance(schema: Schema, moment: Matrix, t: float) -> Matrix:
    """Compute the (p, p) available-case covariance, with 0 if no row has both columns."""
    whole = complete_moments(schema, moment, t)
    about = whole - np.outer(whole[-1], whole[-1]) / whole[-1, -1]
    return np.asarray(np.nan_to_num(about[:-1, :-1] / moment[-1, -1] * t**2))


def _deviations(moves: Array, vectors: Matrix) -> Vector:
    """Compute the (p,) standard errors of the variances along the directions."""
    along = np.stack([np.einsum("ik,ik->k", vectors, move @ vectors) for move in moves])
    return np.asarray(np.sqrt(np.mean(along**2, axis=0)))
