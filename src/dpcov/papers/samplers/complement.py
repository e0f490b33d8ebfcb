"""Eigenvectors of a matrix on the complement of vectors taken out one after the other.

Taking u out of a diagonal matrix W leaves eigenvalues mu between those of W, the roots of the
secular equation sum_j u_j^2 / (w_j - mu) = 0, and eigenvectors u_j / (w_j - mu_k).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix

EPS = float(np.finfo(np.float64).eps)
NEGLIGIBLE = 4 * EPS  # coordinates, and gaps of eigenvalues relative to the largest one
LARGEST_ITERATIONS = 100


class Complement:
    """The part of a symmetric (d, d) matrix on the complement of i orthonormal vectors.

    Attributes
    ----------
    eigenvalues : (q,) ascending, q = d - i
    basis : (q, d), orthonormal eigenvectors in its rows

    """

    def __init__(self, matrix: Matrix, taken: Matrix) -> None:
        """From scratch, in O(d^3), for i vectors in the rows of `taken` (i, d)."""
        count = len(taken)
        complement = np.linalg.qr(taken.T, mode="complete")[0][:, count:]
        projected = complement.T @ matrix @ complement
        self.eigenvalues, vectors = np.linalg.eigh((projected + projected.T) / 2)
        self.basis = vectors.T @ complement.T

    def take(self, coordinates: Matrix) -> Matrix:
        """Take out the unit vector with these coordinates in the basis; return it, (d,).

        One product of a (q, q) with a (q, d) matrix, besides O(q^2). Coordinates, and gaps of
        eigenvalues relative to the largest, below 4 epsilons of float64 count as 0.
        """
        u = coordinates.copy()
        largest = np.abs(self.eigenvalues).max()
        self._gather(u, NEGLIGIBLE * largest)
        active = np.abs(u) > NEGLIGIBLE
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
        """Make runs of equal eigenvalues equal, and turn each so that one coordinate is left."""
        starts = np.flatnonzero(np.diff(self.eigenvalues, prepend=-np.inf) > tolerance)
        ends = np.append(starts[1:], len(u))
        for start, end in zip(starts, ends, strict=True):
            if end - start > 1:
                self.eigenvalues[start:end] = self.eigenvalues[start:end].mean()
                _reflect_to_last(u[start:end], self.basis[start:end])


def _reflect_to_last(u: Matrix, basis: Matrix) -> None:
    """Householder reflection in place: u becomes (0, ..., 0, +-norm), u @ basis stays."""
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
    """Eigenvalues (q-1,) and eigenvectors (q, q-1) of diag(w) on the complement of u.

    Takes distinct ascending w and a unit vector u without zeros. The vectors are made from the u
    for which the computed roots are exact, which keeps them orthogonal however close the w are
    (Gu and Eisenstat 1994, "A stable and efficient algorithm for the rank-one modification of
    the symmetric eigenproblem").
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
    """|u_j| with u_j^2 = prod_k |w_j - mu_k| / prod_(l != j) |w_j - w_l|, from w_j - mu_k.

    Root k is paired with the pole beyond it, seen from j: every ratio lies between 0 and 1.
    """
    gaps = w[:, None] - w
    paired = np.where(np.tri(len(w), len(w) - 1, -1, dtype=bool), gaps[:, :-1], gaps[:, 1:])
    return np.sqrt(np.prod(differences / paired, axis=1))


def secular_roots(w: Matrix, z: Matrix) -> tuple[NDArray[np.intp], Matrix]:
    """Roots of f(mu) = sum_j z_j / (w_j - mu), one in each gap of the distinct ascending w.

    Returns the index of the nearer end of each gap and the root's offset from it, both (q-1,), so
    that differences to the poles keep their accuracy. All z are positive, so f increases in each
    gap. Every step keeps the poles at both ends, puts f's other terms, by value and slope, into a
    constant and the farther pole (Li 1994, LAPACK working note 89, "fixed weight"), and solves the
    quadratic equation left. A root is settled once its step, or the cosine f / sqrt(f') between u
    and its eigenvector, is down to rounding: in four steps on average, in some tens for a root
    beside a pair of poles.

    No step leaves the half of the gap at the nearer pole. Measured from there, with the farther
    pole at g, a term z / (d - x) has the slope of what replaces it, m / (g - x)^2, times a multiple
    of ((g - x) / (d - x))^2, which falls on (0, g) for d < 0 and for d > g. With equal slopes at
    one place the term is nowhere above its replacement. So f is not above the model, whose root is
    not beyond that of f: the first step falls short of the root, all others climb towards it.
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
    for _ in range(LARGEST_ITERATIONS):
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
        moving = (np.abs(new - y) > NEGLIGIBLE * y) & (np.abs(f) > EPS * np.sqrt(derivative))
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
    """Of f without the poles at both ends of each gap: value and slope at w[origin] + offset."""
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
    """The root x in (0, gap) of constant - near / x + far / (gap - x) = 0; near, far > 0."""
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
    """The step from y to that root, gap = y + beyond, from value f and derivative at y.

    Terms that are large beside f leave the root only the accuracy of their sum; the step keeps
    that of f. A step of about -y leaves no digits of the root, and one beyond y/2 may be wrong:
    where `linear` is not positive, the true one is at least y.
    """
    product = f * y * beyond
    linear = f * (beyond - y) + derivative * y * beyond
    root = np.sqrt(np.maximum(linear**2 + 4 * constant * product, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return -2 * product / (linear + root)
