"""Exact draws from the Bingham distribution on the sphere, by rejection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.normal import standard_exponentials, standard_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy

# Largest number of proposals at once.
MAX_PROPOSALS = 64
# Relative tolerance of Newton's method.
NEWTON_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class BinghamDraw:
    """Unit vector, with the number of proposals.

    The number of proposals depends on the exponents. Use it for experiments only and never for a
    release.
    """

    vector: Matrix
    proposals: int


class Bingham:
    """Distribution on the unit sphere with density proportional to ``exp(sum_i a_i u_i^2)``.

    For the density ``exp(t u' C u)``, use the exponents ``a = t w`` with the eigenvalues w of C.
    The vector u is then in the eigenbasis of C. Only differences of exponents matter. Equal
    exponents give the uniform distribution. With one coordinate, the draw is a fair sign.

    The draw is exact for real numbers and is computed in float64. Normal numbers and acceptance
    tests have tails of 63 bits, and coordinates are rounded. The running time and the number of
    proposals depend on the exponents. A draw needs 1 proposal on average for equal exponents. For
    one huge exponent, it needs about ``1.17 sqrt(q)`` proposals (52 for q = 2000). No larger
    average is known.

    Parameters
    ----------
    exponents : array of float, shape (q,)
        Exponents ``a_i`` of either sign.

    Raises
    ------
    ValueError
        The exponents are not finite numbers with finite differences.

    Source
    ------
    The source is section 3 of Kent, Ganeiban and Mardia 2018, "A new unified approach for the
    simulation of a wide class of directional distributions". The acceptance formula avoids
    cancellation.

    """

    def __init__(self, exponents: Matrix) -> None:
        exponents = np.asarray(exponents, np.float64)
        if exponents.ndim != 1 or not exponents.size or not np.isfinite(exponents).all():
            raise ValueError("exponents must be a vector of finite numbers")
        with np.errstate(over="ignore"):
            self._gaps = exponents.max() - exponents
            largest = 2 * self._gaps.max()
        if not np.isfinite(largest):
            raise ValueError("exponents must have finite differences")
        self._b = envelope_parameter(self._gaps)

    def propose(self, count: int, entropy: Entropy) -> Matrix:
        """Draw proposals from the envelope, an angular central Gaussian distribution.

        Parameters
        ----------
        count : int
            Number of proposals.
        entropy : Entropy
            Source of random bits.

        Returns
        -------
        ndarray of float, shape (count, q)
            Unit vectors in the rows.

        """
        q = self._gaps.size
        normals = standard_normals(count * q, entropy).reshape(count, q)
        normals *= np.sqrt(self._b / (self._b + 2 * self._gaps))
        normals /= np.sqrt(np.einsum("ij,ij->i", normals, normals))[:, None]
        return normals

    def log_accept(self, vectors: Matrix) -> Matrix:
        """Return the logarithms of the acceptance probabilities of proposals.

        Parameters
        ----------
        vectors : ndarray of float, shape (count, q)
            Proposals in the rows.

        Returns
        -------
        ndarray of float, shape (count,)
            Logarithms, at most 0.

        """
        return log_acceptance(np.square(vectors) @ self._gaps, self._b, self._gaps.size)

    def accepted(self, count: int, entropy: Entropy) -> tuple[Matrix, NDArray[np.bool]]:
        """Draw proposals and accept or reject each of them.

        The accepted proposals are independent draws.

        Parameters
        ----------
        count : int
            Number of proposals.
        entropy : Entropy
            Source of random bits.

        Returns
        -------
        vectors : ndarray of float, shape (count, q)
            Proposals in the rows.
        accepted : ndarray of bool, shape (count,)
            True for each accepted proposal.

        """
        vectors = self.propose(count, entropy)
        return vectors, standard_exponentials(count, entropy) >= -self.log_accept(vectors)

    def sample(self, entropy: Entropy) -> BinghamDraw:
        """Draw one vector.

        The function makes proposals in batches of 1, 2, 4 and more until it accepts one.
        """
        batch, before = 1, 0
        while True:
            vectors, accepted = self.accepted(batch, entropy)
            if accepted.any():
                first = int(accepted.argmax())
                return BinghamDraw(vectors[first], before + first + 1)
            before += batch
            batch = min(2 * batch, MAX_PROPOSALS)


def envelope_parameter(gaps: Matrix) -> float:
    """Return the parameter b of the envelope, with ``sum_i 1 / (b + 2 gaps_i) = 1``.

    Every b between 0 and q gives an exact draw. This b needs the fewest proposals. The sum is
    convex and decreasing in b, and at least 1 at ``b = 1``. Newton's method from 1 therefore
    increases to the root.

    Parameters
    ----------
    gaps : ndarray of float, shape (q,)
        Differences to the largest exponent. The smallest difference is 0.

    Returns
    -------
    float
        Parameter b, from 1 to q.

    """
    b = 1.0
    while True:
        inverses = 1 / (b + 2 * gaps)
        step = float((inverses.sum() - 1) / np.square(inverses).sum())
        b = min(max(b + step, 1.0), float(gaps.size))
        if step <= NEWTON_TOLERANCE * b:
            return b


def log_acceptance(s: Matrix, b: float, q: int) -> Matrix:
    """Return the logarithm of the acceptance probability.

    The probability is the density divided by the envelope, and divided by the largest value of this
    ratio. The ratio is ``exp(-s) (1 + 2s/b)^(q/2)`` with ``s = sum_i gaps_i u_i^2``. With
    ``x = (b + 2s)/q``, the logarithm is ``(q/2) (log x + 1 - x)``.

    Parameters
    ----------
    s : ndarray of float, shape (n,)
        Sums ``sum_i gaps_i u_i^2`` of the proposals.
    b : float
        Parameter of the envelope.
    q : int
        Number of coordinates.

    Returns
    -------
    ndarray of float, shape (n,)
        Logarithms, at most 0.

    """
    x = (b + 2 * s) / q
    return np.minimum(q / 2 * (np.log(x) + 1 - x), 0.0)
