"""Decisions about integer matrices that are right whatever the matrix: floats first, then exactly.

A float filter with a proved error decides nearly all comparisons; what it leaves open is decided in
exact integers. So an answer is a function of the integers alone, and never fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from flint import fmpz_mat
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Integers = NDArray[np.object_]

UNIT = 2.0**-53
SMALL = 1e-12  # covers the few roundings of a formula outside of its sums
REFINEMENTS = 8
GOOD = 1e-9  # error of a factor that needs no refinement
KEPT_BITS = 82
USABLE = 0.25  # above it a factor decides nothing


@dataclass(frozen=True, slots=True)
class Factor:
    """A (d, d) such that A G A' = I + E, ||E||_F <= `error`, for a positive definite G.

    With b = `error`, G^-1 = A' (I + E)^-1 A lies between A'A / (1 + b) and A'A / (1 - b).
    """

    matrix: Matrix
    error: float

    @classmethod
    def of(cls, gram: Integers) -> Factor | None:
        """Factor of integers G, its error computed exactly; None if floats can't hold one.

        Each round divides by the eigenvectors of what the last one left, which gains about 13
        digits of the condition number.
        """
        exact = integer_matrix(gram)
        factor = _trimmed(np.diag(1 / np.sqrt(np.diag(gram).astype(np.float64))))
        best: Factor | None = None
        for _ in range(REFINEMENTS):
            image = _congruence(factor, exact)
            error = float(np.linalg.norm(image - np.eye(len(image)))) * (1 + SMALL) + SMALL
            if error <= USABLE and (best is None or error < best.error):
                best = cls(factor, error)
            if not error > GOOD:
                return best
            try:
                values, vectors = np.linalg.eigh(image)
            except np.linalg.LinAlgError:
                return best
            if not values[-1] > 0:
                return best
            scaled = vectors / np.sqrt(np.maximum(values, 1e-13 * values[-1]))
            factor = _trimmed(scaled.T @ factor)
        return best

    def squared_norms(self, rows: Matrix) -> tuple[Matrix, Matrix]:
        """Bounds, below and above, of x'G^-1 x for the columns x of (d, n) floats.

        A sum of d products, in any order, errs by at most (d + 1) 2^-53 of the sum of their sizes.
        """
        image = np.sqrt(np.square(self.matrix @ rows).sum(axis=0))
        sizes = np.square(np.abs(self.matrix) @ np.abs(rows)).sum(axis=0)
        slack = 2 * (len(rows) + 1) * UNIT * np.sqrt(sizes)
        low = np.square(np.maximum(image - slack, 0)) / (1 + self.error) * (1 - SMALL)
        return low, np.square(image + slack) / (1 - self.error) * (1 + SMALL)


def integer_matrix(integers: Integers) -> fmpz_mat:
    """The same as a matrix of flint."""
    from flint import fmpz_mat

    rows, columns = integers.shape
    return fmpz_mat(rows, columns, [int(x) for x in integers.ravel()])


def array_of(matrix: fmpz_mat) -> Integers:
    """(r, c) Python integers of a matrix of flint."""
    entries = np.array([int(x) for x in matrix.entries()], dtype=object)
    return entries.reshape(matrix.nrows(), matrix.ncols())


def adjugate(gram: Integers) -> tuple[fmpz_mat, int]:
    """Adj(G) and det(G) of positive definite integers: G^-1 = adj / det, exactly."""
    exact = integer_matrix(gram)
    determinant = exact.det()
    inverse: Any = exact.inv()
    scaled = inverse * determinant
    return scaled.numer_denom()[0], int(determinant)


def _shifts(factor: Matrix) -> NDArray[np.int64]:
    """(d, 1) powers of 2 that bring 82 bits of each row's largest entry before the point."""
    _, exponents = np.frexp(np.abs(factor).max(axis=1, keepdims=True))
    return KEPT_BITS - exponents.astype(np.int64)


def _trimmed(factor: Matrix) -> Matrix:
    """The same without what is below 2^-82 of the largest entry of its row."""
    shifts = _shifts(factor)
    return np.ldexp(np.trunc(np.ldexp(factor, shifts)), -shifts)


def _congruence(factor: Matrix, exact: fmpz_mat) -> Matrix:
    """A G A', computed exactly for a trimmed A, each entry rounded once."""
    shifts = _shifts(factor)
    whole = np.array([[int(x) for x in row] for row in np.ldexp(factor, shifts)], dtype=object)
    image = array_of(integer_matrix(whole) * exact * integer_matrix(whole.T))
    return np.ldexp(image.astype(np.float64), -(shifts + shifts.T))
