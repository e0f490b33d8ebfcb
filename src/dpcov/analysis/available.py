"""Repair of available-case covariances, so that they can be the covariances of a table.

With `missing` = ``pairwise``, dpcov computes each covariance from the rows that have both columns.
The matrix of these covariances can have negative eigenvalues. A regression on such a matrix has no
solution.

The true variance in a direction is never negative. A variance below its standard error cannot be
distinguished from 0. `possible` therefore raises the variance in every direction of the
correlations to at least its standard error. The standard error includes the privacy noise, rounding
and sampling.

The rows cannot vary in some directions, for example because the levels of a column add up to 1.
Such a direction has no error and stays unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.analysis.moments import DERIVATIVE_STEP, MIN_DIVISOR
from dpcov.releases.pairwise import completed, rows_of_pairs

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.releases import Release


def possible(release: Release, moment: Matrix, errors: Array) -> Matrix:
    """Raise the available-case variance in every direction to at least its standard error.

    Parameters
    ----------
    release : Release
        Release with columns in which cells may be missing.

    moment : ndarray, shape (d, d)
        Second moment of encoded rows.

    errors : ndarray, shape (b, d, d)
        Simulated errors of the second moment.

    Returns
    -------
    ndarray, shape (d, d)
        Second moment with larger sums of products. The numbers of rows and the sums are unchanged.

    """
    covariance = _covariance(release, moment)
    moves = np.stack([_covariance(release, moment + DERIVATIVE_STEP * one) for one in errors])
    moves = (moves - covariance) / DERIVATIVE_STEP
    own = np.sqrt(np.mean(np.diagonal(moves, axis1=1, axis2=2) ** 2, axis=0))
    roots = np.sqrt(np.maximum(np.maximum(np.diag(covariance), own), MIN_DIVISOR))
    values, vectors = np.linalg.eigh(covariance / np.outer(roots, roots))
    lacking = np.maximum(_deviations(moves / np.outer(roots, roots), vectors) - values, 0.0)
    added = (vectors * lacking) @ vectors.T * np.outer(roots, roots)
    at = [j for j, feature in enumerate(release.schema.features) if feature.variable]
    rows = rows_of_pairs(release.schema, moment, release.intercept())
    larger = moment.copy()
    larger[np.ix_(at, at)] += added * np.maximum(rows, 0.0)
    return larger


def _covariance(release: Release, moment: Matrix) -> Matrix:
    """Compute the (p, p) available-case covariance, with 0 if no row has both columns."""
    whole = completed(release.schema, moment, release.intercept())
    about = whole - np.outer(whole[-1], whole[-1]) / whole[-1, -1]
    return np.asarray(np.nan_to_num(about[:-1, :-1] / moment[-1, -1] * release.intercept() ** 2))


def _deviations(moves: Array, vectors: Matrix) -> Vector:
    """Compute the (p,) standard errors of the variances along the directions."""
    along = np.stack([np.einsum("ik,ik->k", vectors, move @ vectors) for move in moves])
    return np.asarray(np.sqrt(np.mean(along**2, axis=0)))
