"""Exact decisions about integer matrices, with floats first and exact arithmetic if necessary.

Floats with a proved error bound decide nearly all comparisons. Exact integers decide the rest. A
result therefore depends only on the integers.
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

# Unit roundoff of float64.
ROUNDOFF_UNIT = 2.0**-53
# Relative margin for the few roundings of a formula outside of its sums.
FORMULA_MARGIN = 1e-12
# Largest number of refinements of a factor.
MAX_REFINEMENTS = 8
# Error of a factor that needs no further refinement.
REFINED_ERROR = 1e-9
# Number of bits of each row of a factor.
KEPT_ROW_BITS = 82
# Largest error of a factor that can decide comparisons.
MAX_USABLE_ERROR = 0.25


@dataclass(frozen=True, slots=True)
class Factor:
    """Matrix A with ``A G A' = I + E`` for a positive definite matrix G.

    The Frobenius norm of E is at most b, the `error`. The inverse ``G^-1 = A' (I + E)^-1 A`` lies
    between ``A'A / (1 + b)`` and ``A'A / (1 - b)``.

    Attributes
    ----------
    matrix : ndarray of float, shape (d, d)
        Matrix A.
    error : float
        Bound b.

    """

    matrix: Matrix
    error: float

    @classmethod
    def of(cls, gram: Integers) -> Factor | None:
        """Return a factor of an integer matrix with an exact error bound.

        Each refinement divides by the eigenvectors of the previous result. A refinement reduces the
        condition number by about 13 digits.

        Parameters
        ----------
        gram : ndarray of int, shape (d, d)
            Positive definite matrix G.

        Returns
        -------
        Factor or None
            Factor, or None if floats cannot represent one.

        """
        exact = integer_matrix(gram)
        factor = _trimmed(np.diag(1 / np.sqrt(np.diag(gram).astype(np.float64))))
        best: Factor | None = None
        for _ in range(MAX_REFINEMENTS):
            image = _congruence(factor, exact)
            error = (
                float(np.linalg.norm(image - np.eye(len(image)))) * (1 + FORMULA_MARGIN)
                + FORMULA_MARGIN
            )
            if error <= MAX_USABLE_ERROR and (best is None or error < best.error):
                best = cls(factor, error)
            if not error > REFINED_ERROR:
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
        """Return lower and upper bounds on ``x' G^-1 x`` for each column x.

        A float sum of d products, in any order, has an error of at most ``(d + 1) 2^-53`` times the
        sum of their sizes.

        Parameters
        ----------
        rows : ndarray of float, shape (d, n)
            Columns x.

        Returns
        -------
        tuple of ndarray, shape (n,)
            Lower bounds and upper bounds.

        """
        image = np.sqrt(np.square(self.matrix @ rows).sum(axis=0))
        sizes = np.square(np.abs(self.matrix) @ np.abs(rows)).sum(axis=0)
        slack = 2 * (len(rows) + 1) * ROUNDOFF_UNIT * np.sqrt(sizes)
        low = np.square(np.maximum(image - slack, 0)) / (1 + self.error) * (1 - FORMULA_MARGIN)
        return low, np.square(image + slack) / (1 - self.error) * (1 + FORMULA_MARGIN)


def integer_matrix(integers: Integers) -> fmpz_mat:
    """Convert an array of integers to a matrix of the package flint."""
    from flint import fmpz_mat

    rows, columns = integers.shape
    return fmpz_mat(rows, columns, [int(x) for x in integers.ravel()])


def array_of(matrix: fmpz_mat) -> Integers:
    """Convert a matrix of the package flint to an array of Python integers."""
    entries = np.array([int(x) for x in matrix.entries()], dtype=object)
    return entries.reshape(matrix.nrows(), matrix.ncols())


def adjugate(gram: Integers) -> tuple[fmpz_mat, int]:
    """Return the adjugate and the determinant of a positive definite integer matrix.

    The inverse is the adjugate divided by the determinant, exactly.
    """
    exact = integer_matrix(gram)
    determinant = exact.det()
    inverse: Any = exact.inv()
    scaled = inverse * determinant
    return scaled.numer_denom()[0], int(determinant)


def _shifts(factor: Matrix) -> NDArray[np.int64]:
    """Return powers of 2, of shape (d, 1), that make 82 bits of each row integers."""
    _, exponents = np.frexp(np.abs(factor).max(axis=1, keepdims=True))
    return KEPT_ROW_BITS - exponents.astype(np.int64)


def _trimmed(factor: Matrix) -> Matrix:
    """Truncate each row of a factor at 2^-82 of its largest entry."""
    shifts = _shifts(factor)
    return np.ldexp(np.trunc(np.ldexp(factor, shifts)), -shifts)


def _congruence(factor: Matrix, exact: fmpz_mat) -> Matrix:
    """Compute ``A G A'`` exactly for a truncated A, and round each entry once."""
    shifts = _shifts(factor)
    whole = np.array([[int(x) for x in row] for row in np.ldexp(factor, shifts)], dtype=object)
    image = array_of(integer_matrix(whole) * exact * integer_matrix(whole.T))
    return np.ldexp(image.astype(np.float64), -(shifts + shifts.T))
