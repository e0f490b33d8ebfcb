"""Projections of a spectrum and of a symmetric matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector


def onto_simplex(values: Vector, total: float) -> Vector:
    """Nearest vector with entries at least 0 and the sum `total`.

    (values - tau)+ with tau such that the sum is right; zero if `total` is not positive.
    """
    if total <= 0:
        return np.zeros_like(values)
    descending = np.sort(values)[::-1]
    taus = (np.cumsum(descending) - total) / np.arange(1, len(values) + 1)
    tau = taus[max(int(np.count_nonzero(descending > taus)) - 1, 0)]
    return np.maximum(values - tau, 0.0)


def project(matrix: Matrix, trace: float | None, largest: float = np.inf) -> Matrix:
    """Nearest positive semidefinite (d, d) matrix in Frobenius norm.

    It has the trace `trace`, or where this is None one of at most `largest`.
    """
    values, vectors = np.linalg.eigh(matrix)
    spectrum = np.maximum(values, 0.0)
    if trace is None and spectrum.sum() > largest:
        trace = largest
    if trace is not None:
        spectrum = onto_simplex(values, trace)
    return compose(vectors, spectrum)


def compose(vectors: Matrix, spectrum: Vector) -> Matrix:
    """Exactly symmetric matrix with these eigenvectors (columns) and eigenvalues >= 0."""
    root = vectors * np.sqrt(spectrum)
    return root @ root.T
