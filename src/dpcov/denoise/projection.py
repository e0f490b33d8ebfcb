"""Projections of a spectrum and of a symmetric matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector


def onto_simplex(values: Vector, total: float) -> Vector:
    """Return the nearest vector with entries of at least 0 and a given sum.

    The result is max(values - tau, 0), with tau such that the sum is `total`.

    Parameters
    ----------
    values : ndarray, shape (d,)
        Any vector.

    total : float
        Sum of the result. If it is not positive, the result is 0.

    Returns
    -------
    ndarray, shape (d,)
        Nearest vector in the Euclidean norm.

    """
    if total <= 0:
        return np.zeros_like(values)
    return np.maximum(values - simplex_offsets(values[None], np.array([total]))[0], 0.0)


def simplex_offsets(rows: Matrix, totals: Vector) -> Vector:
    """Return the offset of each row, so that max(row - offset, 0) has the given sum.

    Parameters
    ----------
    rows : ndarray, shape (k, d)
        Any rows.

    totals : ndarray, shape (k,)
        Sum of each row after the change, of at least 0.

    Returns
    -------
    ndarray, shape (k,)
        Offsets.

    """
    descending = -np.sort(-rows, axis=1)
    offsets = (np.cumsum(descending, axis=1) - totals[:, None]) / np.arange(1, rows.shape[1] + 1)
    kept = np.maximum(np.count_nonzero(descending > offsets, axis=1), 1)
    return np.asarray(np.take_along_axis(offsets, kept[:, None] - 1, axis=1)[:, 0])


def project(matrix: Matrix, trace: float | None, largest: float = np.inf) -> Matrix:
    """Return the nearest positive semidefinite matrix in the Frobenius norm.

    Parameters
    ----------
    matrix : ndarray, shape (d, d)
        Symmetric matrix.

    trace : float or None
        Trace of the result. With None, the trace is not fixed.

    largest : float, optional
        Largest trace of the result, if `trace` is None.

    Returns
    -------
    ndarray, shape (d, d)
        Positive semidefinite matrix.

    """
    values, vectors = np.linalg.eigh(matrix)
    spectrum = np.maximum(values, 0.0)
    if trace is None and spectrum.sum() > largest:
        trace = largest
    if trace is not None:
        spectrum = onto_simplex(values, trace)
    return compose(vectors, spectrum)


def compose(vectors: Matrix, spectrum: Vector) -> Matrix:
    """Return the exactly symmetric matrix with these eigenvectors and eigenvalues.

    Parameters
    ----------
    vectors : ndarray, shape (d, q)
        Eigenvectors, one in each column.

    spectrum : ndarray, shape (q,)
        Eigenvalues, at least 0.

    Returns
    -------
    ndarray, shape (d, d)
        Positive semidefinite matrix.

    """
    root = vectors * np.sqrt(spectrum)
    return root @ root.T
