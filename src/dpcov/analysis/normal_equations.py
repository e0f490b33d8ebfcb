"""Normal equations of regressions, from one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release

# In a matrix with unit diagonal and d rows, an eigenvalue of at most d times this number counts as
# 0. Source: not recorded; far above rounding errors.
MAX_ZERO_EIGENVALUE = 1e-11
Penalty = Literal["encoded", "standardized", "raw"]
PENALTIES: tuple[Penalty, ...] = ("encoded", "standardized", "raw")


@dataclass(frozen=True, slots=True)
class Problem:
    """Normal equations of a regression, with all features in units of their half-range.

    k is the number of features, and t is the number of targets. With an intercept, all moments are
    about the means. Without an intercept, all moments are about 0.

    Attributes
    ----------
    gram : ndarray, shape (k, k)
        Moments of the features.

    cross : ndarray, shape (k, t)
        Moments of the features with the targets.

    power : ndarray, shape (t,)
        Second moments of the targets.

    weights : ndarray, shape (k,)
        Weights of the squared coefficients in the penalty.

    means : ndarray, shape (k,)
        Means of the features; 0 without an intercept.

    target_means : ndarray, shape (t,)
        Means of the targets; 0 without an intercept.

    """

    gram: Matrix
    cross: Matrix
    power: Vector
    weights: Vector
    means: Vector
    target_means: Vector

    @classmethod
    def of(
        cls,
        release: Release,
        targets: Sequence[int],
        features: Sequence[int],
        penalty: Penalty,
        *,
        intercept: bool = True,
    ) -> Problem:
        """Build the normal equations from a release.

        The joint matrix is first replaced by the nearest positive semidefinite matrix.

        Parameters
        ----------
        release : Release
            Release with an intercept, unless `intercept` is False.

        targets : sequence of int, length t
            Positions of the targets.

        features : sequence of int, length k
            Positions of the features.

        penalty : {"encoded", "standardized", "raw"}
            Units of the coefficients in the penalty; see `ridge`.

        intercept : bool, default True
            Use moments about the means.

        Returns
        -------
        Problem
            Normal equations.

        Raises
        ------
        ReleaseError
            The penalty is unknown.

        """
        if penalty not in PENALTIES:
            raise ReleaseError(f"There is no penalty {penalty!r}. Choose: {', '.join(PENALTIES)}.")
        estimate = Estimate.of(release)
        scales = estimate.scales
        means = np.zeros(len(scales))
        if intercept:
            matrix, means = estimate.covariance, estimate.means / scales
        else:
            matrix = estimate.uncentred
        at, to = np.asarray(features), np.asarray(targets)
        weights = {
            "encoded": np.ones(len(at)),
            "standardized": np.diag(matrix)[at],
            "raw": 1 / scales[at] ** 2,
        }
        return cls(
            matrix[np.ix_(at, at)],
            matrix[np.ix_(at, to)],
            np.diag(matrix)[to],
            weights[penalty],
            means[at],
            means[to],
        )

    def spectrum(self) -> tuple[Vector, Matrix]:
        """Return the eigenvalues and eigenvectors of the gram matrix in the units of the penalty.

        Eigenvalues that are only rounding errors are set to 0.

        Returns
        -------
        values : ndarray, shape (k,)
            Eigenvalues in ascending order.

        vectors : ndarray, shape (k, k)
            Eigenvectors in the columns, in the units of the features.

        """
        roots = np.sqrt(np.where(self.weights > 0, self.weights, 1.0))
        values, vectors = np.linalg.eigh(self.gram / np.outer(roots, roots))
        noticeable = values > MAX_ZERO_EIGENVALUE * len(values) * max(values[-1], 0.0)
        return np.where(noticeable, values, 0.0), vectors / roots[:, None]

    def solutions(self, alphas: Vector) -> Matrix:
        """Return the coefficients for each penalty.

        If the coefficients are not unique, the method returns the ones with the smallest penalty.

        Parameters
        ----------
        alphas : ndarray, shape (a,)
            Strengths of the penalty.

        Returns
        -------
        ndarray, shape (a, k, t)
            Coefficients.

        """
        values, vectors = self.spectrum()
        denominators = values + 2 * alphas[:, None]
        inverse = np.divide(
            1.0, denominators, out=np.zeros_like(denominators), where=denominators > 0
        )
        return vectors @ (inverse[:, :, None] * (vectors.T @ self.cross))

    def losses(self, solutions: Matrix) -> Matrix:
        """Return the mean squared errors of coefficients with the best intercepts.

        Parameters
        ----------
        solutions : ndarray, shape (a, k, t)
            Coefficients.

        Returns
        -------
        ndarray, shape (a, t)
            Mean squared errors.

        """
        pull = self.gram @ solutions - 2 * self.cross
        losses: Matrix = self.power + np.einsum("akt,akt->at", solutions, pull)
        return np.maximum(losses, 0.0)


def solve(matrix: Matrix, right: Matrix) -> tuple[Matrix, int]:
    """Solve a positive semidefinite system, with the smallest norm if it is singular.

    The matrix is first scaled to a unit diagonal, so that the rank does not depend on units.

    Parameters
    ----------
    matrix : ndarray, shape (k, k)
        Positive semidefinite matrix.

    right : ndarray, shape (k,) or (k, t)
        Right-hand side.

    Returns
    -------
    solution : ndarray, shape (k,) or (k, t)
        Solution.

    rank : int
        Numerical rank of the matrix.

    """
    diagonal = np.diag(matrix)
    roots = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    values, vectors = np.linalg.eigh(matrix / np.outer(roots, roots))
    kept = values > MAX_ZERO_EIGENVALUE * max(len(values), 1)
    inverse = np.divide(1.0, values, out=np.zeros_like(values), where=kept)
    scaled = (right.T / roots).T
    solution = vectors @ (inverse * (vectors.T @ scaled).T).T
    return (solution.T / roots).T, int(np.count_nonzero(kept))
