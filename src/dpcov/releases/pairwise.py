"""Means and covariances of columns with missing cells (docs/proofs/missing.md).

dpcov encodes each cell of a column with `missing` = ``pairwise`` as two numbers. A cell with the
value x becomes (x, 0), and a missing cell becomes (0, 1). The second number u is the missingness
indicator. The second moment then contains three numbers for each pair of columns:

- the number of rows that have both cells,
- the sum of each column over these rows,
- the sum of the products over these rows.

These numbers give the available-case means and covariances. `completed` converts them to the second
moment of the same number of rows without missing cells. All analyses use this second moment.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.weighted import WeightedSum
from dpcov.published import record
from dpcov.releases.sums import with_matrix

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Booleans, Integers, Matrix
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

# Smallest number of rows of a pair of columns, as a fraction of the number of rows that the pair
# has if its columns have independent missing cells. Source: not recorded.
MIN_PAIR_FRACTION = 0.1
# Number of rows that noise alone does not reach, in standard deviations of the noise. The value
# allows for the tails of Laplace noise. Source: not recorded.
MIN_ROW_COUNT_SNR = 5.0
# Step of the numerical derivative, as a fraction of an error. Source: not recorded.
DIFFERENCE_STEP = 1e-3
# Number of columns that a sentence names.
MAX_NAMED_COLUMNS = 5


def has_gaps(schema: Schema) -> bool:
    """Return True if some columns use means and covariances of the available cells."""
    return bool(schema.missing_columns)


def completed(schema: Schema, moments: Array, t: float, *, least: float | None = None) -> Array:
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
    if not has_gaps(schema):
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


def rows_by_pair(release: Release) -> Matrix:
    """Return the numbers of rows that have both of two variables.

    Parameters
    ----------
    release : Release
        Release with a number of rows.

    Returns
    -------
    ndarray, shape (p, p)
        Numbers from 0 to the number of all rows. The diagonal contains the number of rows of each
        variable.

    """
    p, n = len(release.columns), release.count()
    if not has_gaps(release.schema):
        return np.full((p, p), n)
    moment, t = with_matrix(release).second_moment().copy(), release.intercept()
    moment[-1, -1] = n * t**2
    return np.asarray(np.clip(_pairs(release.schema, moment, t)[0], 0.0, n))


def least_rows(release: Release) -> float:
    """Return the largest number of rows of a variable that noise alone can show.

    If the noise is a weighted sum, as in old files, the least noisy term determines this number.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    float
        Number of rows, at least 1.

    """
    law, sums = release.noise, record.sums_of(release)
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


def hidden(release: Release) -> Booleans:
    """Return True for each variable whose number of rows is below the noise level, shape (p,)."""
    if not has_gaps(release.schema):
        return np.zeros(len(release.columns), bool)
    return np.asarray(np.diag(rows_by_pair(release)) < least_rows(release))


def fewest_rows(release: Release, at: list[int] | None = None) -> float:
    """Return the smallest number of rows that have any two of these variables.

    If no cells can be missing, this is the number of all rows.

    Parameters
    ----------
    release : Release
        Release with a number of rows.

    at : list of int, optional
        Positions of the variables. The default is all variables.

    Returns
    -------
    float
        Number of rows.

    """
    rows = rows_by_pair(release)
    return float((rows if at is None else rows[np.ix_(at, at)]).min())


def moved(release: Release, errors: Array) -> Array:
    """Convert errors of a second moment to errors of the `completed` one, to first order.

    Parameters
    ----------
    release : Release
        Release with a matrix.

    errors : ndarray, shape (..., d, d)
        Errors of the second moment of the encoded rows.

    Returns
    -------
    ndarray, shape (..., p + 1, p + 1)
        Errors of the completed second moment.

    """
    if not has_gaps(release.schema):
        return errors
    schema, t, moment = release.schema, release.intercept(), with_matrix(release).second_moment()
    least = least_rows(release)
    about = completed(schema, moment, t, least=least)
    return (
        completed(schema, moment + DIFFERENCE_STEP * errors, t, least=least) - about
    ) / DIFFERENCE_STEP


def missing_shares(release: Release) -> dict[str, float]:
    """Return the fraction of rows in which each column is missing.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    dict
        Fractions by the name of the column, for the columns with missingness indicators.

    """
    if not has_gaps(release.schema) or record.means_reason(release) is not None:
        return {}
    rows, count = np.diag(rows_by_pair(release)), max(release.count(), 1.0)
    shares = dict(zip(release.columns, (1 - rows / count).tolist(), strict=True))
    names = [release.schema.features[j].name for j in release.schema.missing_columns]
    return {name: shares[name] for name in names}


def assumed(release: Release) -> tuple[str, ...]:
    """Return a sentence about missing cells; none if cells cannot be missing."""
    if not has_gaps(release.schema) or record.means_reason(release) is not None:
        return ()
    shares = sorted(missing_shares(release).items(), key=lambda it: -it[1])
    named = ", ".join(f"{name} {share:.1%}" for name, share in shares[:MAX_NAMED_COLUMNS])
    more = (
        f" and {len(shares) - MAX_NAMED_COLUMNS} more columns"
        if len(shares) > MAX_NAMED_COLUMNS
        else ""
    )
    return (
        "Each figure uses the rows that have all necessary cells. This is valid if cells are "
        f"missing completely at random. Missing: {named}{more}.",
    )
