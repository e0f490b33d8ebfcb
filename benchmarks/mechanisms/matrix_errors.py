"""Measure the errors of an estimated covariance or second moment that matter to users.

Every error is 0 if the estimate equals the truth. Estimates need not be positive semidefinite.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

KINDS = ("frobenius", "spectral", "relative", "correlation", "ridge", "pca")
PENALTY = 0.01  # of ridge regression, in mean variances of the estimate
COMPONENTS = 3
NEGLIGIBLE = 1e-12  # share of the largest variance below which a column is taken for constant


def errors(estimate: Matrix, truth: Matrix) -> dict[str, float]:
    """Return all errors of a symmetric (p, p) estimate of a positive semidefinite matrix."""
    difference = estimate - truth
    kept = np.diag(truth) > NEGLIGIBLE * np.diag(truth).max()
    return {
        "frobenius": float(np.linalg.norm(difference)),
        "spectral": float(np.abs(np.linalg.eigvalsh(difference)).max()),
        "relative": relative(difference[np.ix_(kept, kept)], np.diag(truth)[kept]),
        "correlation": correlation_error(estimate[np.ix_(kept, kept)], truth[np.ix_(kept, kept)]),
        "ridge": ridge_loss(estimate, truth) - ridge_loss(truth, truth),
        "pca": 1 - captured(estimate, truth) / captured(truth, truth),
    }


def relative(difference: Matrix, variances: Matrix) -> float:
    """Return the root mean square error of the entries, in true deviations of their columns."""
    deviations = np.sqrt(variances)
    return float(np.linalg.norm(difference / np.outer(deviations, deviations)) / len(variances))


def correlations(matrix: Matrix) -> Matrix:
    """Return correlations: 1 on the diagonal, and 0 for a column without variance."""
    variances = np.diag(matrix)
    positive = variances > NEGLIGIBLE * max(float(variances.max()), 0.0)
    deviations = np.sqrt(np.where(positive, variances, 1.0))
    found = np.clip(matrix / np.outer(deviations, deviations), -1, 1)
    found[~positive] = found[:, ~positive] = 0.0
    np.fill_diagonal(found, 1.0)
    return found


def correlation_error(estimate: Matrix, truth: Matrix) -> float:
    """Return the root mean square error of the correlations of two columns."""
    p = len(truth)
    if p < 2:
        return 0.0
    off = np.linalg.norm(correlations(estimate) - correlations(truth))
    return float(off / np.sqrt(p * (p - 1)))


def ridge_loss(estimate: Matrix, truth: Matrix) -> float:
    """Return 1 - R^2 of ridge regression of a column on all others, averaged over the columns.

    The estimate gives the coefficients and the truth gives R^2. The penalty costs accuracy too, so
    an estimate can have a smaller loss than the truth.
    """
    return _share(_contrasts(estimate), truth)


def ridge_error(estimate: Matrix, truth: Matrix) -> float:
    """Return the root mean square difference of the ridge predictions of each column.

    In its deviations, mean over the columns. It is 0 for the truth alone, as `ridge_loss` is not.
    """
    return float(np.sqrt(_share(_contrasts(estimate) - _contrasts(truth), truth)))


def _contrasts(estimate: Matrix) -> Matrix:
    """Return the (p, p) residuals of each column after ridge regression on all others.

    The function uses the positive semidefinite part of the estimate. Let P be the inverse of this
    part plus the penalty times I. The residual of column j is then v'x with v = P_j / P_jj. A
    penalty on j itself changes nothing.
    """
    values, vectors = np.linalg.eigh(estimate)
    values = np.maximum(values, 0.0)
    if values.sum() <= 0:
        return np.eye(len(estimate))
    inverse = (vectors / (values + PENALTY * values.mean())) @ vectors.T
    return np.asarray(inverse / np.diag(inverse))


def _share(contrasts: Matrix, truth: Matrix) -> float:
    """Return the mean fraction of each column's variance in its contrast, at most 1."""
    kept = np.diag(truth) > NEGLIGIBLE * np.diag(truth).max()
    left = np.einsum("ij,ij->j", contrasts, truth @ contrasts)[kept] / np.diag(truth)[kept]
    return float(np.minimum(left, 1.0).mean())


def captured(estimate: Matrix, truth: Matrix) -> float:
    """Return the true variance along the estimate's leading directions.

    If all eigenvalues of the estimate are equal, the result is the mean over all directions.
    """
    count = min(COMPONENTS, len(truth) - 1)
    values, vectors = np.linalg.eigh(estimate)
    if np.ptp(values) <= NEGLIGIBLE * max(1e-300, float(np.abs(values).max())):
        return count * float(np.trace(truth)) / len(truth)
    leading = vectors[:, -count:]
    return float(np.sum(leading * (truth @ leading)))
