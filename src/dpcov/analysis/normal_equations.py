"""The normal equations of regressions, from one release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpcov.analysis.moments import MAX_ZERO_EIGENVALUE, Moments, uncentred
from dpcov.errors import ReleaseError

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.releases import Release

Penalty = Literal["encoded", "standardized", "raw"]
PENALTIES: tuple[Penalty, ...] = ("encoded", "standardized", "raw")


@dataclass(frozen=True, slots=True)
class Problem:
    """The normal equations of a regression, all features in units of their half-range.

    Attributes
    ----------
    gram, cross : (k, k) moments of the features, (k, t) with the targets.
    power : (t,) second moments of the targets about their mean, or about 0 without an intercept.
    weights : (k,) of the squared coefficients in the penalty.
    means, target_means : (k,), (t,) subtracted; 0 without an intercept.

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
        """From a release; its joint matrix is made positive semidefinite first."""
        if penalty not in PENALTIES:
            raise ReleaseError(f"There is no penalty {penalty!r}. Choose: {', '.join(PENALTIES)}.")
        scales = release.scales
        means = np.zeros(len(scales))
        if intercept:
            moments = Moments.of(release)
            matrix, means = moments.covariance, moments.means / moments.scales
        else:
            matrix = uncentred(release)
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
        """(k,) eigenvalues and (k, k) vectors of the gram matrix in the penalty's units.

        A feature without variance takes no part.
        """
        roots = np.sqrt(np.where(self.weights > 0, self.weights, 1.0))
        values, vectors = np.linalg.eigh(self.gram / np.outer(roots, roots))
        noticeable = values > MAX_ZERO_EIGENVALUE * len(values) * max(values[-1], 0.0)
        return np.where(noticeable, values, 0.0), vectors / roots[:, None]

    def solutions(self, alphas: Vector) -> Matrix:
        """(a, k, t) minimisers; those of least penalty where they are not unique."""
        values, vectors = self.spectrum()
        denominators = values + 2 * alphas[:, None]
        inverse = np.divide(
            1.0, denominators, out=np.zeros_like(denominators), where=denominators > 0
        )
        return vectors @ (inverse[:, :, None] * (vectors.T @ self.cross))

    def losses(self, solutions: Matrix) -> Matrix:
        """(a, t) mean squared errors of (a, k, t) coefficients with the best intercepts."""
        pull = self.gram @ solutions - 2 * self.cross
        losses: Matrix = self.power + np.einsum("akt,akt->at", solutions, pull)
        return np.maximum(losses, 0.0)
