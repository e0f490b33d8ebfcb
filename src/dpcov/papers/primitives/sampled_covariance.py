"""Release of a positive definite matrix by the covariance of samples."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.accounting import ORDER_EXCESSES
from dpcov.core.privacy import renyi_epsilon_at
from dpcov.errors import MechanismError
from dpcov.papers.samplers.precise import context, precise_chi_square, precise_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy

    Integers = NDArray[np.object_]

# Relative margin for float64 errors in the Renyi curve.
ROUNDING_MARGIN = 1e-13
# Largest product (alpha - 1) D. Closer to 1, the logarithm amplifies rounding errors.
MAX_ORDER_RATIO = 0.999
# Probability that missing digits change the rounded result.
COUPLING_PROBABILITY = 1e-27
# Largest number of samples.
MAX_SAMPLES = 2**50


@dataclass(frozen=True, slots=True)
class SampledCovariance:
    """Mean of ``g g'`` over samples g from N(0, A), where A is private and positive definite.

    Parameters
    ----------
    closeness : float
        Bound D. For neighbours A and A', the eigenvalues e of ``A^-1/2 A' A^-1/2 - 1`` have a
        2-norm of at most D, in both directions.
    samples : int
        Number N of samples.

    Notes
    -----
    **Guarantee.** The Renyi divergence of order alpha is at most ``N phi(D)``, for
    ``2 <= alpha < 1 + 1/D``.

    **Proof.** In a basis that diagonalises A and A', the divergence between N(0, A') and N(0, A) is
    the sum of ``phi(e)`` over the eigenvalues e::

        phi(e) = -ln(1 + e) / 2 - ln(1 - (alpha - 1) e) / (2 (alpha - 1))
               = sum_(j>=2) ((-1)^j + (alpha - 1)^(j-1)) e^j / 2j

    - For ``alpha >= 2`` no coefficient is negative. So ``phi(e) <= phi(|e|)``, and ``phi(e) / e^2``
      does not decrease for ``e >= 0``.
    - Hence ``sum phi(e_i) <= sum e_i^2 phi(D) / D^2 <= phi(D)``.
    - N independent samples cost N times as much. Their mean is post-processing.

    **Accuracy.** The sampler computes ``L B B' L' / N`` (Bartlett) with ``L L' = A``, in 120
    digits, and rounds to integers. Its distribution differs from the ideal one by less than
    `COUPLING_PROBABILITY` in total variation. This bound needs ``A >= 1``, ``tr A < 2^140``,
    ``N <= 2^50`` and ``d <= 8192``.

    - The computed L satisfies ``L L' = A + F`` with ``|F| < 10^-115 |A|``. N samples from N(0, A +
      F) and N(0, A) differ by less than ``sqrt(N d) 10^-70`` in total variation.
    - The computed B differs from an ideal B by at most 10^-90 of its size, except with a
      probability of 10^-70 (`samplers.precise`). The entries of the result are therefore accurate
      to 10^-43.
    - Given the other random numbers, each entry has a unimodal density of at most ``sqrt(N)``. It
      lies too close to a rounding limit with a probability below ``2 10^-43 (1 + sqrt(N))``. For
      all ``d^2`` entries the probability is below 10^-27.

    Source
    ------
    The source is Alabi, Kothari, Tankala, Venkat and Zhang 2023, with the exact curve.

    """

    closeness: float
    samples: int

    def renyi(self, alpha: float) -> float:
        """Return the Renyi divergence of an order, or infinity if the proof gives no bound."""
        return self.samples * divergence(self.closeness, alpha)

    def __call__(self, matrix: Integers, divisor: int, entropy: Entropy) -> Integers:
        """Return the rounded mean of samples from N(0, `matrix` / `divisor`).

        Parameters
        ----------
        matrix : ndarray of int, shape (d, d)
            Positive definite matrix.
        divisor : int
            Divisor of the matrix.
        entropy : Entropy
            Source of random bits.

        Returns
        -------
        ndarray of int, shape (d, d)
            Mean of ``g g'``, rounded by ``floor(x + 1/2)``.

        """
        inner = self._bartlett(len(matrix), entropy)
        with decimal.localcontext(context()):
            root = _cholesky(matrix)
            half = root @ inner
            image = (half @ half.T) / Decimal(divisor * self.samples)
            rounded = [[_nearest(x) for x in row] for row in np.tril(image)]
        lower = np.array(rounded, dtype=object)
        return lower + np.tril(lower, -1).T

    def _bartlett(self, d: int, entropy: Entropy) -> Integers:
        lower = np.full((d, d), Decimal(0), dtype=object)
        lower[np.tril_indices(d, -1)] = precise_normals(d * (d - 1) // 2, entropy)
        with decimal.localcontext(context()):
            for i in range(d):
                lower[i, i] = precise_chi_square(self.samples - i, entropy).sqrt()
        return lower


def divergence(closeness: float, alpha: float) -> float:
    """Return the Renyi divergence ``phi(D)`` of one sample, rounded up.

    The result is infinite unless ``2 <= alpha < 1 + 0.999 / D``.

    Parameters
    ----------
    closeness : float
        Bound D.
    alpha : float
        Order of the divergence.

    Returns
    -------
    float
        Divergence.

    """
    excess = alpha - 1
    ratio = excess * closeness
    if not (excess >= 1 and ratio < MAX_ORDER_RATIO):
        return math.inf
    if ratio < 1e-3:  # the logarithms would cancel, so use two terms and bound the rest
        terms = (1 + excess) / 4 + closeness * (excess**2 - 1) / 6
        rest = closeness**2 * (1 + excess**3) / 8 / (1 - ratio)
        return closeness**2 * (terms + rest) * (1 + ROUNDING_MARGIN)
    first, second = math.log1p(closeness) / 2, -math.log1p(-ratio) / (2 * excess)
    return second - first + ROUNDING_MARGIN * (first + second)


def most_samples(closeness: float, epsilon: float, delta: float) -> int:
    """Return the largest number of samples that satisfies (epsilon, delta)-DP.

    Parameters
    ----------
    closeness : float
        Bound D.
    epsilon, delta : float
        Budget.

    Returns
    -------
    int
        Number of samples, at most `MAX_SAMPLES`.

    """
    best = 0
    for excess in ORDER_EXCESSES.tolist():
        each = divergence(closeness, 1 + excess)
        left = epsilon - renyi_epsilon_at(excess, 0.0, delta)
        if each < math.inf and left > 0:
            best = max(best, math.floor(min(MAX_SAMPLES, left / each * (1 - 1e-12))))
    return best


def usable_delta(delta: float, epsilon: float) -> float:
    """Return delta minus the possible cost of rounding the samples.

    Parameters
    ----------
    delta, epsilon : float
        Budget.

    Returns
    -------
    float
        Usable delta.

    Raises
    ------
    MechanismError
        Rounding costs more than a thousandth of delta.

    """
    left = math.nextafter(delta - 4 * COUPLING_PROBABILITY * (1 + math.exp(min(epsilon, 600))), 0)
    if left <= 0.999 * delta:
        raise MechanismError(
            "Delta is too small for sampled covariances with this epsilon. Use a larger delta."
        )
    return left


def _cholesky(matrix: Integers) -> Integers:
    """Return the lower triangular L with ``L L' = matrix``, in the current decimal context."""
    d = len(matrix)
    root = np.full((d, d), Decimal(0), dtype=object)
    for j in range(d):
        rest = [Decimal(int(matrix[i, j])) - root[i, :j] @ root[j, :j] for i in range(j, d)]
        pivot = rest[0].sqrt()
        root[j:, j] = [value / pivot for value in rest]
    return root


def _nearest(value: Decimal) -> int:
    return int((value + Decimal("0.5")).to_integral_value(decimal.ROUND_FLOOR))
