"""Covariances of different rows, where cells may be missing, become possible ones.

With `missing` = ``pairwise`` each covariance is about the rows that have both columns, so the
matrix of them may have eigenvalues below 0, and a regression on it has no solution. A variance is
not below 0, and one that is smaller than its standard error can't be told from it. So no direction
of the correlations is given less variance than its standard error, from privacy noise, rounding
and sampling together. Errors about this matrix are then as wide as that error makes them.

A direction in which rows can't vary, as levels that add up to 1, has no error and stays as it is.
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
    """Return the second moment whose available-case covariance has no variance within its error.

    Parameters
    ----------
    release : Release
        With columns in which cells may be missing.
    moment : (d, d) array
        Second moment of encoded rows.
    errors : (b, d, d) array
        Draws of its error.

    Returns
    -------
    (d, d) array
        The moment with larger products; numbers of rows and sums stay.

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
    """(p, p) available-case covariance; 0 where no row has both columns."""
    whole = completed(release.schema, moment, release.intercept())
    about = whole - np.outer(whole[-1], whole[-1]) / whole[-1, -1]
    return np.asarray(np.nan_to_num(about[:-1, :-1] / moment[-1, -1] * release.intercept() ** 2))


def _deviations(moves: Array, vectors: Matrix) -> Vector:
    """(p,) standard errors of the variance along each of the directions."""
    along = np.stack([np.einsum("ik,ik->k", vectors, move @ vectors) for move in moves])
    return np.asarray(np.sqrt(np.mean(along**2, axis=0)))
