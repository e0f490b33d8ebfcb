"""Exact draws from the Bingham law on the sphere, by rejection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.samplers.normal import standard_exponentials, standard_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy

LARGEST_BATCH = 64
NEWTON_TOLERANCE = 1e-13


@dataclass(frozen=True, slots=True)
class BinghamDraw:
    """A unit vector, and how many proposals it took.

    The number of proposals depends on the exponents: it is for experiments, never for a release.
    """

    vector: Matrix
    proposals: int


class Bingham:
    """Law on the unit sphere of R^q with density proportional to exp(sum_i a_i u_i^2).

    For the density exp(t u' C u), take a = t w with w the eigenvalues of C, and u in the
    eigenbasis of C. Only differences of exponents matter; equal ones give the uniform law, and
    q = 1 a fair sign.

    The law is exact for real numbers and is computed in float64: normals and acceptance tests
    have 63-bit tails, coordinates are rounded. Running time and the number of proposals depend
    on the exponents. Proposals per draw, on average: 1 for equal exponents, and about
    1.17 sqrt(q) for one huge exponent (52 for q = 2000), the most that was seen.

    Parameters
    ----------
    exponents : (q,) floats, q >= 1
        The a_i, of either sign.

    Raises
    ------
    ValueError
        The exponents are no vector of finite numbers with finite differences.

    Source
    ------
    Kent, Ganeiban and Mardia 2018, "A new unified approach for the simulation of a wide class of
    directional distributions", section 3; acceptance in a form without cancellation. Two libraries
    have published the wrong sign of its exponent q/2, which gives another law (spec peers, 1).

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
        """(count, q) unit vectors from the envelope, an angular central Gaussian law."""
        q = self._gaps.size
        normals = standard_normals(count * q, entropy).reshape(count, q)
        normals *= np.sqrt(self._b / (self._b + 2 * self._gaps))
        normals /= np.sqrt(np.einsum("ij,ij->i", normals, normals))[:, None]
        return normals

    def log_accept(self, vectors: Matrix) -> Matrix:
        """(count,) logarithms, at most 0, of the probabilities of accepting these proposals."""
        return log_acceptance(np.square(vectors) @ self._gaps, self._b, self._gaps.size)

    def accepted(self, count: int, entropy: Entropy) -> tuple[Matrix, NDArray[np.bool]]:
        """(count, q) proposals and which of them are accepted: those are independent draws."""
        vectors = self.propose(count, entropy)
        return vectors, standard_exponentials(count, entropy) >= -self.log_accept(vectors)

    def sample(self, entropy: Entropy) -> BinghamDraw:
        """One draw: proposals in batches of 1, 2, 4, ... until one is accepted."""
        batch, before = 1, 0
        while True:
            vectors, accepted = self.accepted(batch, entropy)
            if accepted.any():
                first = int(accepted.argmax())
                return BinghamDraw(vectors[first], before + first + 1)
            before += batch
            batch = min(2 * batch, LARGEST_BATCH)


def envelope_parameter(gaps: Matrix) -> float:
    """The b in [1, q] with sum_i 1/(b + 2 gaps_i) = 1, for gaps >= 0 whose least is 0.

    The draw is exact with any b in (0, q]; this one makes the fewest proposals. The sum is convex
    and decreasing in b, and at least 1 at b = 1, so Newton's method climbs to the root from there.
    """
    b = 1.0
    while True:
        inverses = 1 / (b + 2 * gaps)
        step = float((inverses.sum() - 1) / np.square(inverses).sum())
        b = min(max(b + step, 1.0), float(gaps.size))
        if step <= NEWTON_TOLERANCE * b:
            return b


def log_acceptance(s: Matrix, b: float, q: int) -> Matrix:
    """(q/2) log((b + 2s)/q) - s + (q - b)/2, for s = sum_i gaps_i u_i^2; at most 0.

    It is exp(-s) (1 + 2s/b)^(q/2), the density over that of the envelope, divided by its largest
    value. With x = (b + 2s)/q it is (q/2)(log x + 1 - x).
    """
    x = (b + 2 * s) / q
    return np.minimum(q / 2 * (np.log(x) + 1 - x), 0.0)
