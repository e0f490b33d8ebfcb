"""Ridge regression of every column from one release, and Lemma 1's bound.

Column t is predicted from the others by w = (C_{-t,-t} + 2 alpha n I)^-1 C_{-t,t}, which minimises
J(w) = (1/n) sum 1/2 (w . a_j - y_j)^2 + alpha ||w||^2 over the rows x_j = (a_j, y_j).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpcov.analysis.ridge import ridge_error_bound

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]


def weights(moment: Matrix, penalty: float) -> Matrix:
    """Return (d, d) weights: column t is w for the target t, with 0 at t; `penalty` is 2 alpha n.

    The formula uses blocks: column t of K^-1, with K = C + 2 alpha n I, is proportional to (-w, 1).
    """
    inverse = np.linalg.inv(moment + penalty * np.eye(len(moment)))
    solved = -inverse / np.diag(inverse)
    np.fill_diagonal(solved, 0.0)
    return solved


def objectives(moment: Matrix, n: int, solved: Matrix, alpha: float) -> Vector:
    """Return (d,) values of J on the data for the models in the columns."""
    residual = solved - np.eye(len(moment))
    losses = np.einsum("jt,jk,kt->t", residual, moment, residual) / (2 * n)
    return losses + alpha * np.square(solved).sum(axis=0)


def relative_excess(moment: Matrix, n: int, solved: Matrix, alpha: float) -> float:
    """Return the excess of J over its minimum, summed over targets: 0 for the best, 1 for w = 0."""
    best = objectives(moment, n, weights(moment, 2 * alpha * n), alpha).sum()
    zero = objectives(moment, n, np.zeros_like(moment), alpha).sum()
    return float((objectives(moment, n, solved, alpha).sum() - best) / (zero - best))


def lemma_1(moment: Matrix, estimate: Matrix, n: int, alpha: float) -> Vector:
    """Return (d,) errors of the models from `estimate`, over Lemma 1's bound: at most 1."""
    penalty = 2 * alpha * n
    found = weights(estimate, penalty)
    errors = np.linalg.norm(found - weights(moment, penalty), axis=0)
    whole = penalty + float(np.linalg.eigvalsh(moment)[0])
    bounds = [ridge_error_bound(moment - estimate, column, whole) for column in found.T]
    return errors / np.array(bounds)
