"""Eigenvectors of a matrix on the space that is orthogonal to given vectors.

Removing a unit vector u from a diagonal matrix W gives new eigenvalues mu. They lie between the
diagonal entries ``w_j`` of W. They are the roots of the secular equation
``sum_j u_j^2 / (w_j - mu) = 0``. The new eigenvectors are ``u_j / (w_j - mu_k)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix

# Relative spacing of float64.
EPSILON64 = float(np.finfo(np.float64).eps)
# Smallest coordinate that differs from 0, and smallest gap of eigenvalues relative to the largest
# eigenvalue.
MIN_RATIO = 4 * EPSILON64
# Largest number of iterations of the root search.
MAX_ITERATIONS = 100


class Complement:
    """Part of a symmetric (d, d) matrix that is orthogonal to i orthonormal vectors.

    Parameters
    ----------
    matrix : ndarray of float, shape (d, d)
        Symmetric matrix.
    taken : ndarray of float, shape (i, d)
        Orthonormal vectors in the rows.

    Attributes
    ----------
    eigenvalues : ndarray of float, shape (q,)
        Eigenvalues in ascending order, where ``q = d - i``.
    basis : ndarray of float, shape (q, d)
        Orthonormal eigenvectors in the rows.

    """

    def __init__(self, matrix: Matrix, taken: Matrix) -> None:
        """Decompose the matrix in a time of order d^3."""
        count = len(taken)
        complement = np.linalg.qr(taken.T, mode="complete")[0][:, count:]
        projected = complement.T @ matrix @ complement
        self.eigenvalues, vectors = np.linalg.eigh((projected + projected.T) / 2)
        self.basis = vectors.T @ complement.T

    def take(self, coordinates: Matrix) -> Matrix:
        """Remove a unit vector from the space and return it.

        The function multiplies a (q, q) matrix by a (q, d) matrix. Coordinates below 4 epsilons of
        float64 count as 0. Gaps of eigenvalues below 4 epsilons, relative to the largest
        eigenvalue, also count as 0.

        Parameters
        ----------
        coordinates : ndarray of float, shape (q,)
            Coordinates of the vector in the basis.

        Returns
        -------
        ndarray of float, shape (d,)
            Removed vector.

        """
        u = coordinates.copy()
        largest = np.abs(self.eigenvalues).max()
        self._gather(u, MIN_RATIO * largest)
        active = np.abs(u) > MIN_RATIO
        u[~active] = 0
        u /= np.linalg.norm(u)
        vector: Matrix = u @ self.basis
        eigenvalues, rotation = without(self.eigenvalues[active], u[active])
        eigenvalues = np.concatenate([self.eigenvalues[~active], eigenvalues])
        basis = np.concatenate([self.basis[~active], rotation.T @ self.basis[active]])
        order = np.argsort(eigenvalues, kind="stable")
        self.eigenvalues, self.basis = eigenvalues[order], basis[order]
        return vector

    def _gather(self, u: Matrix, tolerance: float) -> None:
        """Make nearly equal eigenvalues equal, and rotate their eigenvectors.

        After the rotation, only one eigenvector of each group has a coordinate that is not 0.
        """
        starts = np.flatnonzero(np.diff(self.eigenvalues, prepend=-np.inf) > tolerance)
        ends = np.append(starts[1:], len(u))
        for start, end in zip(starts, ends, strict=True):
            if end - start > 1:
                self.eigenvalues[start:end] = self.eigenvalues[start:end].mean()
                _reflect_to_last(u[start:end], self.basis[start:end])


def _reflect_to_last(u: Matrix, basis: Matrix) -> None:
    """Apply a Householder reflection in place.

    The vector u becomes (0, ..., 0, +-norm), and the product ``u @ basis`` does not change.
    """
    norm = np.linalg.norm(u)
    if norm > 0:
        mirror = u / norm
        image = -np.copysign(1.0, mirror[-1])
        mirror[-1] -= image
        mirror /= np.linalg.norm(mirror)
        basis -= np.outer(2 * mirror, mirror @ basis)
        u[:-1] = 0
        u[-1] = image * norm


def without(w: Matrix, u: Matrix) -> tuple[Matrix, Matrix]:
    """Return the eigenvalues and eigenvectors of ``diag(w)`` on the space orthogonal to u.

    The function computes the u for which the computed roots are exact, and makes the eigenvectors
    from it. They are then orthogonal even if the w are very close (Gu and Eisenstat 1994, "A stable
    and efficient algorithm for the rank-one modification of the symmetric eigenproblem").

    Parameters
    ----------
    w : ndarray of float, shape (q,)
        Distinct numbers in ascending order.
    u : ndarray of float, shape (q,)
        Unit vector without zeros.

    Returns
    -------
    eigenvalues : ndarray of float, shape (q - 1,)
        Eigenvalues.
    eigenvectors : ndarray of float, shape (q, q - 1)
        Eigenvectors in the columns.

    """
    if len(w) == 1:
        return np.empty(0), np.empty((1, 0))
    origin, offset = secular_roots(w, np.square(u))
    differences = (w[:, None] - w[origin]) - offset
    exact = np.copysign(_loewner(w, differences), u)
    vectors = exact[:, None] / differences
    vectors /= np.sqrt(np.einsum("ij,ij->j", vectors, vectors))
    return w[origin] + offset, vectors


def _loewner(w: Matrix, differences: Matrix) -> Matrix:
    """Return the vector ``|u_j|`` for which the computed roots are exact.

    The formula is ``u_j^2 = prod_k |w_j - mu_k| / prod_(l != j) |w_j - w_l|``. The function pairs
    each root with the pole beyond it, as seen from ``w_j``. Every ratio then lies between 0 and 1.
    """
    gaps = w[:, None] - w
    paired = np.where(np.tri(len(w), len(w) - 1, -1, dtype=bool), gaps[:, :-1], gaps[:, 1:])
    return np.sqrt(np.prod(differences / paired, axis=1))


def secular_roots(w: Matrix, z: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Return the roots of ``f(mu) = sum_j z_j / (w_j - mu)``, one in each gap of the poles w.

    Each root is the nearer end of its gap plus an offset. The differences between roots and poles
    then keep their accuracy.

    Parameters
    ----------
    w : ndarray of float, shape (q,)
        Distinct poles in ascending order.
    z : ndarray of float, shape (q,)
        Positive weights, so that f increases in each gap.

    Returns
    -------
    origin : ndarray of int, shape (q - 1,)
        Index of the nearer end of each gap.
    offset : ndarray of float, shape (q - 1,)
        Offset of the root from this end.

    Notes
    -----
    **Step.** Each step keeps the poles at both ends of the gap. A constant and the farther pole
    replace the other terms, with the same value and slope (Li 1994, LAPACK working note 89, "fixed
    weight"). The step then solves a quadratic equation.

    **End.** A root is final if its step is as small as rounding errors. It is also final if the
    cosine ``f / sqrt(f')`` between u and its eigenvector is that small. A root needs four steps on
    average, and some tens of steps next to a pair of close poles.

    **Convergence.** No step leaves the half of the gap next to the nearer pole. Measure positions
    from that pole, with the farther pole at g. A term ``z / (d - x)`` has a replacement with the
    slope ``m / (g - x)^2``. The ratio of the two slopes is a multiple of ``((g - x) / (d - x))^2``.
    This ratio decreases on (0, g) for ``d < 0`` and for ``d > g``. As the slopes are equal at one
    place, the term is nowhere above its replacement. So f is not above the model, and the root of
    the model is not beyond the root of f. The first step ends before the root, and all other steps
    approach it from below.

    """
    left = np.arange(len(w) - 1)
    gap = np.diff(w)
    rest, _ = _other_terms(w, z, left, left, gap / 2)
    from_left = rest + (z[1:] - z[:-1]) / (gap / 2) >= 0
    origin = np.where(from_left, left, left + 1)
    sign = np.where(from_left, 1.0, -1.0)
    near, far = z[origin], z[2 * left + 1 - origin]
    distance = gap / 2
    live = left
    for _ in range(MAX_ITERATIONS):
        y = distance[live]
        rest, slope = _other_terms(w, z, live, origin[live], sign[live] * y)
        rest *= sign[live]
        beyond = gap[live] - y
        f = far[live] / beyond - near[live] / y + rest
        weight = far[live] + slope * beyond**2
        constant = rest - slope * beyond
        derivative = near[live] / y**2 + far[live] / beyond**2 + slope
        step = _short_step(f, derivative, constant, y, beyond)
        far_off = _two_poles(near[live], weight, constant, gap[live])
        new = np.where(np.abs(step) < y / 2, y + step, far_off)
        moving = (np.abs(new - y) > MIN_RATIO * y) & (np.abs(f) > EPSILON64 * np.sqrt(derivative))
        distance[live] = new
        live = live[moving]
        if not live.size:
            break
    return origin, sign * distance


def _other_terms(
    w: Matrix,
    z: Matrix,
    gaps: NDArray[np.intp],
    origin: NDArray[np.intp],
    offset: Matrix,
) -> tuple[Matrix, Matrix]:
    """Return the value and the slope of f without the poles at both ends of each gap.

    The position is ``w[origin] + offset``.
    """
    differences = (w - w[origin][:, None]) - offset[:, None]
    rows = np.arange(len(gaps))
    differences[rows, gaps] = differences[rows, gaps + 1] = np.inf
    inverses = np.reciprocal(differences, out=differences)
    rest = inverses @ z
    return rest, np.square(inverses, out=inverses) @ z


def _two_poles(
    near: Matrix,
    far: Matrix,
    constant: Matrix,
    gap: Matrix,
) -> Matrix:
    """Return the root x in (0, gap) of ``constant - near / x + far / (gap - x) = 0``.

    Both near and far are positive.
    """
    linear = constant * gap + near + far
    root = np.sqrt(linear**2 - 4 * constant * near * gap)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(
            linear > 0, 2 * near * gap / (linear + root), (linear - root) / (2 * constant)
        )


def _short_step(
    f: Matrix,
    derivative: Matrix,
    constant: Matrix,
    y: Matrix,
    beyond: Matrix,
) -> Matrix:
    """Return the step from y to the root of the model, from the value and the slope at y.

    The gap is ``y + beyond``. Terms that are large compared with f limit the accuracy of the root
    to the accuracy of their sum. The step has the accuracy of f. A step of about ``-y`` leaves no
    digits of the root. A step above ``y/2`` can be wrong: if `linear` is not positive, the true
    step is at least y.
    """
    product = f * y * beyond
    linear = f * (beyond - y) + derivative * y * beyond
    root = np.sqrt(np.maximum(linear**2 + 4 * constant * product, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return -2 * product / (linear + root)
