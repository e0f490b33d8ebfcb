"""Average of positive definite matrices that agree relative to themselves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import MechanismError
from dpcov.papers.primitives.certified import (
    SMALL,
    UNIT,
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
    r"""Score in 0..k and weights in 0..k of t positive definite matrices, one of which may change.

    With dist(A, B) = max(||A^-1/2 B A^-1/2 - 1||_F, ||B^-1/2 A B^-1/2 - 1||_F), r = `radius` and
    f_j = #{i : dist(A_i, A_j) <= r}, scores and weights are those of `StableAverage`: S_l = {j :
    f_j >= t - l} for l = 0..2k, score min(k, min_(l<=k) (t - |S_l| + l)), weight w_j the number of
    l in k+1..2k with j in S_l; t >= 3k + 2. V = sum w_j A_j / W, W = sum w_j.

    Proof. dist is symmetric, so a replaced A_* changes the other f_j by at most 1, and as there the
    score changes by at most 2. Both scores below k: some l < k has |S_l| > t - k; its members c
    other than * have weight k on both sides, so that both W are at least k (t - k), and f_c >= t -
    k. An item with weight has f >= t - 2k, hence shares a friend b with c; with dist(c, b) and
    dist(b, j) at most r, A_c^-1/2 A_j A_c^-1/2 - 1 = X (A_b^-1/2 A_j A_b^-1/2 - 1) X' + (A_c^-1/2
    A_b A_c^-1/2 - 1) with ||X||^2 <= 1 + r has norm at most (1 + r) r + r =: R. In the basis where
    A_c = 1, A_j = 1 + E_j with ||E_j||_F <= R for all with weight. Of the others at most k - 1
    change their weight, each by at most 1: sum w_j E_j changes by at most (k - 1) R + 2k R, W by
    at most 2k - 1, so that V = 1 + sum w_j E_j / W changes by at most (3k R + 2k R) / k (t - k) =
    5 R / (t - k) in Frobenius norm; and V >= 1 - R. Hence the eigenvalues of V^-1/2 V' V^-1/2 - 1
    have 2-norm at most 5 R / ((t - k) (1 - R)), both ways round.

    Distances are compared exactly (`certified`), so the score is a function of the integers.

    Parameters
    ----------
    radius : r, public, with R < 1; besides its place in the bound only usefulness depends on it.
    test : with sensitivity 2; its limit is k.

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
        """R: how far from one of full weight an item of any weight can be."""
        return 2 * self.radius + self.radius**2

    @property
    def fewest(self) -> int:
        """Least number of matrices."""
        return 3 * self.test.limit + 2

    def closeness(self, count: int) -> float:
        """Bound on the 2-norm of the eigenvalues of V^-1/2 V' V^-1/2 - 1, both ways round."""
        if count < self.fewest:
            raise MechanismError(f"{self.fewest} matrices are needed, not {count}.")
        bound = 5 * self.apart / ((count - self.test.limit) * (1 - self.apart))
        return float(bound) * (1 + 1e-12)

    def count_for(self, closest: float) -> int:
        """Least number of matrices with `closeness` at most `closest`."""
        bound = 5 * self.apart / (Fraction(closest) * (1 - self.apart)) * (1 + Fraction(1, 10**9))
        return max(self.fewest, self.test.limit + math.ceil(bound))

    def __call__(self, matrices: Sequence[Integers]) -> tuple[int, NDArray[np.int64]]:
        """Score and weights of (d, d) positive definite integers; weights mean nothing at k."""
        friends = close_pairs(matrices, self.radius).sum(axis=1).astype(np.int64)
        return score_and_weights(friends, self.test.limit)


def close_pairs(matrices: Sequence[Integers], radius: Fraction) -> NDArray[np.bool_]:
    """(t, t) whether dist is at most `radius`; exact. Memory: t d^2 floats, 4 t^2 booleans."""
    rough = np.array([matrix.astype(np.float64) for matrix in matrices])
    limit = float(radius)
    close, near = np.empty((2, len(matrices), len(matrices)), np.bool_)
    for i, matrix in enumerate(matrices):
        low, high = _distances(matrix, rough)
        close[i], near[i] = high <= limit * (1 - SMALL), low <= limit * (1 + SMALL)
    close &= close.T.copy()
    near &= near.T.copy()
    for i, row in enumerate(near & ~close):
        for j in (i + np.flatnonzero(row[i:])).tolist():
            close[i, j] = close[j, i] = all(
                _within(matrices[a], matrices[b], radius) for a, b in ((i, j), (j, i))
            )
    return close


def _distances(matrix: Integers, others: Matrix) -> Matrix:
    """(2, t) bounds of ||A^-1/2 B A^-1/2 - 1||_F, below and above, for rounded integers B.

    With F A F' = 1 + E =: K, ||E||_F <= e, that is ||K^-1/2 (F B F' - K) K^-1/2||_F, between
    (||F B F' - 1||_F -+ e) / (1 +- e). F B F' errs by at most (2d + 4) 2^-53 |F| |B| |F'|.
    """
    factor = Factor.of(matrix)
    if factor is None:
        return np.array([np.zeros(len(others)), np.full(len(others), np.inf)])
    f, e = factor.matrix, factor.error
    sizes = np.abs(f) @ np.abs(others) @ np.abs(f).T
    slack = 2 * (2 * len(f) + 4) * UNIT * np.linalg.norm(sizes, axis=(1, 2)) + e
    norms = np.linalg.norm(f @ others @ f.T - np.eye(len(f)), axis=(1, 2))
    low = np.maximum(norms * (1 - SMALL) - slack, 0) / (1 + e) * (1 - SMALL)
    return np.array([low, (norms * (1 + SMALL) + slack) / (1 - e) * (1 + SMALL)])


def _within(matrix: Integers, other: Integers, radius: Fraction) -> bool:
    """Whether tr (A^-1 B - 1)^2 <= radius^2, A^-1 = adj / det."""
    inverse, determinant = adjugate(matrix)
    product = array_of(inverse * integer_matrix(other))
    square = int((product * product.T).sum()) - 2 * determinant * int(np.trace(product))
    return square + len(matrix) * determinant**2 <= radius**2 * determinant**2
