"""Average of positive definite matrices that agree, relative to their own size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import MechanismError
from dpcov.papers.primitives.certified import (
    FORMULA_MARGIN,
    ROUNDOFF_UNIT,
    Factor,
    adjugate,
    array_of,
    integer_matrix,
)
from dpcov.papers.primitives.stable_average import score_and_weights

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dpcov.papers.primitives.release_test import ReleaseTest

    Integers = NDArray[np.object_]
    Matrix = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StableMatrices:
    """Score and weights of t positive definite matrices, of which one can change.

    Both the score and the weights lie between 0 and k.

    Parameters
    ----------
    radius : Fraction
        Public radius r, with ``R < 1`` for the R below. The radius affects the bound and the
        usefulness of the average.
    test : ReleaseTest
        Test with sensitivity 2 and limit k.

    Notes
    -----
    **Definitions.** The distance of two matrices is the larger of two Frobenius norms::

        dist(A, B) = max(||A^-1/2 B A^-1/2 - 1||_F, ||B^-1/2 A B^-1/2 - 1||_F)

    Let ``f_j`` be the number of matrices within the distance r of matrix j. The score and the
    weights follow from ``f_j`` as in `StableAverage`. The number of matrices t is at least
    ``3k + 2``. The average is ``V = sum w_j A_j / W`` with ``W = sum w_j``.

    **The score has sensitivity 2.** The distance is symmetric. A replaced matrix changes every
    other ``f_j`` by at most 1. The proof of `StableAverage` then applies.

    **The average has a small relative sensitivity.** Let both scores be below k, and let ``*`` be
    the replaced matrix.

    - Some level ``l < k`` has ``|S_l| > t - k``. Its members c other than ``*`` have the weight k
      in both tables, so W is at least ``k (t - k)`` in both. Also ``f_c >= t - k``.
    - A matrix j with a positive weight has ``f_j >= t - 2k``, so it has a common neighbour b with
      c. Both distances are at most r, so ``||A_c^-1/2 A_j A_c^-1/2 - 1||_F <= (1 + r) r + r =: R``.
    - In the basis with ``A_c = 1``, every matrix with a positive weight is ``A_j = 1 + E_j`` with
      ``||E_j||_F <= R``.
    - At most ``k - 1`` other matrices change their weight, each by at most 1. The sum
      ``sum w_j E_j`` changes by at most ``(k - 1) R + 2k R``. W changes by at most ``2k - 1``.
    - So ``V = 1 + sum w_j E_j / W`` changes by at most ``5 R / (t - k)`` in Frobenius norm, and
      ``V >= 1 - R``.
    - The eigenvalues of ``V^-1/2 V' V^-1/2 - 1`` therefore have a 2-norm of at most
      ``5 R / ((t - k) (1 - R))``. The bound also holds with V and V' exchanged.

    **Exactness.** All distances are compared exactly (`certified`), so the score depends only on
    the integers.

    """

    radius: Fraction
    test: ReleaseTest

    def __post_init__(self) -> None:
        if not (self.radius > 0 and self.apart < 1):
            raise MechanismError("Matrices must agree within a radius above 0 and below 0.414.")
        if self.test.sensitivity < 2:
            raise MechanismError("The score of stable matrices has sensitivity 2.")

    @property
    def apart(self) -> Fraction:
        """Bound R on the distance between a matrix of full weight and any matrix with a weight."""
        return 2 * self.radius + self.radius**2

    @property
    def fewest(self) -> int:
        """Smallest number of matrices."""
        return 3 * self.test.limit + 2

    def closeness(self, count: int) -> float:
        """Return a bound on the relative change of the average.

        The bound applies to the 2-norm of the eigenvalues of ``V^-1/2 V' V^-1/2 - 1``, in both
        directions.

        Parameters
        ----------
        count : int
            Number of matrices.

        Returns
        -------
        float
            Bound, rounded up.

        Raises
        ------
        MechanismError
            There are too few matrices.

        """
        if count < self.fewest:
            raise MechanismError(f"There are {count} matrices, but {self.fewest} are necessary.")
        bound = 5 * self.apart / ((count - self.test.limit) * (1 - self.apart))
        return float(bound) * (1 + 1e-12)

    def count_for(self, closest: float) -> int:
        """Return the smallest number of matrices with a closeness of at most `closest`."""
        bound = 5 * self.apart / (Fraction(closest) * (1 - self.apart)) * (1 + Fraction(1, 10**9))
        return max(self.fewest, self.test.limit + math.ceil(bound))

    def __call__(self, matrices: Sequence[Integers]) -> tuple[int, NDArray[np.int64]]:
        """Return the score and the weights of matrices.

        Parameters
        ----------
        matrices : sequence of ndarray of int, shape (d, d)
            Positive definite matrices.

        Returns
        -------
        score : int
            Score from 0 to k.
        weights : ndarray of int, shape (t,)
            Weights from 0 to k. If the score is k, the weights have no meaning.

        """
        friends = close_pairs(matrices, self.radius).sum(axis=1).astype(np.int64)
        return score_and_weights(friends, self.test.limit)


def close_pairs(matrices: Sequence[Integers], radius: Fraction) -> NDArray[np.bool_]:
    """Return True for each pair of matrices whose distance is at most `radius`, exactly.

    Parameters
    ----------
    matrices : sequence of ndarray of int, shape (d, d)
        Positive definite matrices.
    radius : Fraction
        Largest distance.

    Returns
    -------
    ndarray of bool, shape (t, t)
        Close pairs.

    Notes
    -----
    The memory holds ``t d^2`` floats and ``4 t^2`` booleans.

    """
    rough = np.array([matrix.astype(np.float64) for matrix in matrices])
    limit = float(radius)
    close, near = np.empty((2, len(matrices), len(matrices)), np.bool_)
    for i, matrix in enumerate(matrices):
        low, high = _distances(matrix, rough)
        close[i], near[i] = (
            high <= limit * (1 - FORMULA_MARGIN),
            low <= limit * (1 + FORMULA_MARGIN),
        )
    close &= close.T.copy()
    near &= near.T.copy()
    for i, row in enumerate(near & ~close):
        for j in (i + np.flatnonzero(row[i:])).tolist():
            close[i, j] = close[j, i] = all(
                _within(matrices[a], matrices[b], radius) for a, b in ((i, j), (j, i))
            )
    return close


def _distances(matrix: Integers, others: Matrix) -> Matrix:
    """Return lower and upper bounds on the distances ``||A^-1/2 B A^-1/2 - 1||_F``.

    Parameters
    ----------
    matrix : ndarray of int, shape (d, d)
        Matrix A.
    others : ndarray of float, shape (t, d, d)
        Matrices B, rounded to floats.

    Returns
    -------
    ndarray of float, shape (2, t)
        Lower bounds and upper bounds.

    Notes
    -----
    The factor F satisfies ``F A F' = 1 + E =: K`` with ``||E||_F <= e``. The distance is
    ``||K^-1/2 (F B F' - K) K^-1/2||_F``. It lies between ``(||F B F' - 1||_F - e) / (1 + e)`` and
    ``(||F B F' - 1||_F + e) / (1 - e)``. The float error of ``F B F'`` is at most
    ``(2d + 4) 2^-53 |F| |B| |F'|``.

    """
    factor = Factor.of(matrix)
    if factor is None:
        return np.array([np.zeros(len(others)), np.full(len(others), np.inf)])
    f, e = factor.matrix, factor.error
    sizes = np.abs(f) @ np.abs(others) @ np.abs(f).T
    slack = 2 * (2 * len(f) + 4) * ROUNDOFF_UNIT * np.linalg.norm(sizes, axis=(1, 2)) + e
    norms = np.linalg.norm(f @ others @ f.T - np.eye(len(f)), axis=(1, 2))
    low = np.maximum(norms * (1 - FORMULA_MARGIN) - slack, 0) / (1 + e) * (1 - FORMULA_MARGIN)
    return np.array([low, (norms * (1 + FORMULA_MARGIN) + slack) / (1 - e) * (1 + FORMULA_MARGIN)])


def _within(matrix: Integers, other: Integers, radius: Fraction) -> bool:
    """Return True if ``tr (A^-1 B - 1)^2 <= radius^2``, by exact arithmetic."""
    inverse, determinant = adjugate(matrix)
    product = array_of(inverse * integer_matrix(other))
    square = int((product * product.T).sum()) - 2 * determinant * int(np.trace(product))
    return square + len(matrix) * determinant**2 <= radius**2 * determinant**2
