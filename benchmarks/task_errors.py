"""The errors of a private answer to each task, about the exact answer for all rows.

Every error is in true standard deviations or is a correlation, and is 0 for the exact answer.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matrix_errors import COMPONENTS, captured, correlation_error, relative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Matrix = NDArray[np.float64]

PENALTY = 0.01  # of the ridge regression from a matrix, in its mean variance


@dataclass(frozen=True)
class Truth:
    """Exact means (p,) and covariance (p, p) of the rows, and the column of the single target."""

    means: Vector
    covariance: Matrix
    target: int

    @classmethod
    def of(cls, rows: Matrix, target: int) -> Truth:
        return cls(rows.mean(axis=0), np.cov(rows.T, bias=True), target)

    @property
    def deviations(self) -> Vector:
        return np.sqrt(np.diag(self.covariance))

    @property
    def count(self) -> int:
        """Number of principal components that a peer must find."""
        return min(COMPONENTS, len(self.means) - 1)

    def of_means(self, found: Vector) -> float:
        """Root mean square error of the means, in standard deviations of the columns."""
        return float(np.sqrt(np.mean(((found - self.means) / self.deviations) ** 2)))

    def of_covariance(self, found: Matrix) -> float:
        """Root mean square error of the entries, in products of two standard deviations."""
        return relative(found - self.covariance, np.diag(self.covariance))

    def of_correlations(self, found: Matrix) -> float:
        """Root mean square error of the correlations of two columns."""
        return correlation_error(found, self.covariance)

    def of_components(self, found: Matrix) -> float:
        """Root of the fraction of the variance that the (count, p) directions miss."""
        basis, _ = np.linalg.qr(found.T)
        kept = float(np.sum(basis * (self.covariance @ basis)))
        return math.sqrt(max(0.0, 1 - kept / captured(self.covariance, self.covariance)))

    def of_regression(self, found: Vector, target: int) -> float:
        """Root mean square change of the predictions, in standard deviations of the target.

        `found` has the intercept and a weight of each other column.
        """
        off = found - self.exact(target)
        others = self.others(target)
        shift = off[0] + off[1:] @ self.means[others]
        square = off[1:] @ self.covariance[np.ix_(others, others)] @ off[1:] + shift**2
        return float(np.sqrt(square) / self.deviations[target])

    def others(self, target: int) -> list[int]:
        return [j for j in range(len(self.means)) if j != target]

    def exact(self, target: int) -> Vector:
        """Return the intercept and the weights by least squares."""
        return of_moments(self.means, self.covariance, target, 0.0)


def of_moments(means: Vector, covariance: Matrix, target: int, penalty: float = PENALTY) -> Vector:
    """Return the intercept and the ridge weights (p,) of a column on all others."""
    others = [j for j in range(len(means)) if j != target]
    gram = covariance[np.ix_(others, others)]
    added = penalty * max(float(np.trace(gram)) / len(gram), 1e-12) * np.eye(len(gram))
    weights = np.linalg.pinv(gram + added, hermitian=True) @ covariance[others, target]
    return np.concatenate([[means[target] - weights @ means[others]], weights])


def leading(covariance: Matrix, count: int) -> Matrix:
    """Return the (count, p) leading directions."""
    return np.linalg.eigh(covariance)[1][:, -count:].T
