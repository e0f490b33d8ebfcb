"""Graphical lasso with a duality gap, which bounds the distance from the optimum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

# Relative residual at which the iteration stops. Source: not recorded.
ADMM_TOLERANCE = 1e-7
# Largest number of iterations. Source: not recorded.
MAX_ADMM_ITERATIONS = 20_000
# Over-relaxation of the iteration. Source: Boyd et al. (2011), section 3.4.3, recommend 1.5 to 1.8.
RELAXATION_FACTOR = 1.6
# Number of iterations between two checks of the residuals, which cost time.
CHECK_PERIOD = 10
# Weight of the primal residual beside the dual residual, which balance the step. Source: tuned;
# with weight 1, singular matrices need up to ten times as many iterations (benchmarks/precision).
PRIMAL_WEIGHT = 0.03
# Ratio of the residuals above which the step changes, and the factor of the change. Source: the
# rule of Boyd et al. (2011), section 3.4.1, with smaller numbers.
MAX_RESIDUAL_RATIO, STEP_FACTOR = 2.0, 1.5


@dataclass(frozen=True, slots=True)
class Solution:
    """Approximate minimiser of the graphical lasso.

    Another run can start from a solution.

    Attributes
    ----------
    precision : ndarray, shape (p, p)
        Positive definite matrix with exact zeros.

    dual : ndarray, shape (p, p)
        Dual variables. The absolute values are at most alpha, and the diagonal is 0.

    step : float
        Step of the last iteration.

    gap : float
        Duality gap. The objective at `precision` exceeds its minimum by at most this gap.

    """

    precision: Matrix
    dual: Matrix
    step: float
    gap: float


def graphical_lasso(
    matrix: Matrix, alpha: float, *, start: Solution | None = None, tol: float = ADMM_TOLERANCE
) -> Solution:
    """Minimise -log det X + <S, X> + alpha sum_(i != j) |X_ij| over positive definite X.

    The method is the alternating direction method of multipliers (Boyd et al. 2011, section 6.5),
    with over-relaxation and balanced residuals. S can be singular, and many denoised releases are.

    The multipliers U satisfy |U_ij| <= alpha and U_ii = 0. The value log det(S + U) + p is
    therefore a lower bound on the optimum. The iterations stop when the objective is within `tol` p
    of this bound.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        Positive semidefinite matrix S with a positive diagonal of about 1.

    alpha : float
        Strength of the penalty, above 0.

    start : Solution, optional
        Solution for a nearby alpha.

    tol : float, default 1e-7
        Duality gap at which the iterations stop, divided by p.

    Returns
    -------
    Solution
        Approximate minimiser.

    Raises
    ------
    ReleaseError
        The iterations did not reach the gap.

    """
    p = len(matrix)
    penalty = np.full((p, p), alpha)
    np.fill_diagonal(penalty, 0.0)
    step = start.step if start else 1.0
    sparse = start.precision if start else np.diag(1 / np.diag(matrix))
    dual = np.clip(start.dual, -penalty, penalty) if start else np.zeros((p, p))
    for iteration in range(1, MAX_ADMM_ITERATIONS + 1):
        dense = _log_determinant_prox(sparse - (matrix + dual) / step, step)
        relaxed = RELAXATION_FACTOR * dense + (1 - RELAXATION_FACTOR) * sparse + dual / step
        before, dual = sparse, np.clip(step * relaxed, -penalty, penalty)
        sparse = np.where(dual == step * relaxed, 0.0, relaxed - dual / step)
        np.fill_diagonal(sparse, np.diag(relaxed))
        if iteration % CHECK_PERIOD == 0:
            gap = duality_gap(matrix, sparse, dual, alpha)
            if gap <= tol * p:
                return Solution(sparse, dual, step, gap)
            primal = np.linalg.norm(dense - sparse) / np.linalg.norm(sparse) * PRIMAL_WEIGHT
            residual = step * np.linalg.norm(sparse - before) / np.linalg.norm(matrix + dual)
            if primal > MAX_RESIDUAL_RATIO * residual:
                step *= STEP_FACTOR
            elif residual > MAX_RESIDUAL_RATIO * primal:
                step /= STEP_FACTOR
    raise ReleaseError(
        f"The graphical lasso did not converge at alpha = {alpha:g}. Use a larger one."
    )


def _log_determinant_prox(matrix: Matrix, step: float) -> Matrix:
    """Minimise -log det X + step/2 ||X - matrix||^2 over X."""
    values, vectors = np.linalg.eigh(matrix)
    roots = (values + np.sqrt(values**2 + 4 / step)) / 2
    factor = vectors * np.sqrt(roots)
    return factor @ factor.T  # exactly symmetric


def duality_gap(matrix: Matrix, precision: Matrix, dual: Matrix, alpha: float) -> float:
    """Return the difference between the objective and the dual objective.

    The gap is -log det X + <S, X> + alpha ||X||_1,off - log det(S + U) - p. It is at least 0 for
    every positive definite X and every U with |U_ij| <= alpha and U_ii = 0.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        Positive semidefinite matrix S.

    precision : ndarray, shape (p, p)
        Matrix X.

    dual : ndarray, shape (p, p)
        Dual variables U.

    alpha : float
        Strength of the penalty.

    Returns
    -------
    float
        Duality gap. The gap is infinite if one of the determinants is not positive.

    """
    lower, upper = _log_determinant(precision), _log_determinant(matrix + dual)
    off_diagonal = np.abs(precision).sum() - np.abs(np.diag(precision)).sum()
    fit = float(np.sum(matrix * precision) + alpha * off_diagonal) - len(matrix)
    return fit - lower - upper


def _log_determinant(matrix: Matrix) -> float:
    """Return the log determinant, or -inf if the matrix is not positive definite."""
    try:
        return 2 * float(np.log(np.diag(np.linalg.cholesky(matrix))).sum())
    except np.linalg.LinAlgError:
        return -np.inf
