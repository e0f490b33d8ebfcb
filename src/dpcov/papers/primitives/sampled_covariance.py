"""Release of a positive definite matrix by the covariance of samples."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.accounting import EXCESSES
from dpcov.core.privacy import renyi_epsilon_at
from dpcov.errors import MechanismError
from dpcov.papers.samplers.precise import context, precise_chi_square, precise_normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy

    Integers = NDArray[np.object_]

ROUNDING = 1e-13  # relative margin for float64 in the Renyi curve
LARGEST_RATIO = 0.999  # of (alpha - 1) D: closer to 1 the logarithm magnifies rounding errors
COUPLING = 1e-27  # probability that digits left out show in the rounded result
MOST_SAMPLES = 2**50


@dataclass(frozen=True, slots=True)
class SampledCovariance:
    r"""Mean of g g' over `samples` draws g from N(0, A), A private and positive definite.

    Renyi DP of order alpha with N phi(D), for neighbours A, A' such that the eigenvalues e of
    A^-1/2 A' A^-1/2 - 1 have 2-norm at most D = `closeness`, both ways round; 2 <= alpha < 1 + 1/D.

    Proof. In the basis that diagonalises both, the divergence between N(0, A') and N(0, A) is the
    sum of phi(e) = -ln(1 + e) / 2 - ln(1 - (alpha - 1) e) / (2 (alpha - 1)) = sum over j >= 2 of
    ((-1)^j + (alpha - 1)^(j - 1)) e^j / 2j. For alpha >= 2 no coefficient is negative, so phi(e) <=
    phi(|e|) and phi(e) / e^2 does not fall on e >= 0: sum phi(e_i) <= sum e_i^2 phi(D) / D^2 <=
    phi(D). N independent draws cost N times that, their mean is post-processing.

    Drawn as L B B' L' / N (Bartlett), L L' = A, with 120 digits, and rounded to integers. Its law
    differs from the ideal one by less than `COUPLING` in total variation where A >= 1, tr A < 2^140
    (10^42.2), N <= 2^50 and d <= 8192. The L that is computed has L L' = A + F, |F| < 10^-115 |A|,
    so N draws from N(0, A + F) and N(0, A) differ by less than sqrt(N d) 10^-70. B is coupled with
    an ideal one within 10^-90 of its size, but for a probability of 10^-70 (`samplers.precise`), so
    the entries, products included, are within 10^-43. Given the rest of a draw each has a unimodal
    density of at most sqrt(N), so it falls that close to where rounding jumps with probability
    below 2 10^-43 (1 + sqrt(N)); d^2 times that is below 10^-27.

    Source
    ------
    Alabi, Kothari, Tankala, Venkat and Zhang 2023, with the exact curve.

    """

    closeness: float
    samples: int

    def renyi(self, alpha: float) -> float:
        """Renyi divergence of this order; infinite where the proof gives none."""
        return self.samples * divergence(self.closeness, alpha)

    def __call__(self, matrix: Integers, divisor: int, entropy: Entropy) -> Integers:
        """(d, d) integers: floor(W + 1/2), W the mean of draws from N(0, `matrix` / `divisor`)."""
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
    """phi(D) of one draw, rounded up; infinite unless 2 <= alpha < 1 + .999/D."""
    excess = alpha - 1
    ratio = excess * closeness
    if not (excess >= 1 and ratio < LARGEST_RATIO):
        return math.inf
    if ratio < 1e-3:  # the logarithms would cancel: two terms of the series, the rest bounded
        terms = (1 + excess) / 4 + closeness * (excess**2 - 1) / 6
        rest = closeness**2 * (1 + excess**3) / 8 / (1 - ratio)
        return closeness**2 * (terms + rest) * (1 + ROUNDING)
    first, second = math.log1p(closeness) / 2, -math.log1p(-ratio) / (2 * excess)
    return second - first + ROUNDING * (first + second)


def most_samples(closeness: float, epsilon: float, delta: float) -> int:
    """Largest N, up to `MOST_SAMPLES`, that alone keeps (epsilon, delta)."""
    best = 0
    for excess in EXCESSES.tolist():
        each = divergence(closeness, 1 + excess)
        left = epsilon - renyi_epsilon_at(excess, 0.0, delta)
        if each < math.inf and left > 0:
            best = max(best, math.floor(min(MOST_SAMPLES, left / each * (1 - 1e-12))))
    return best


def usable_delta(delta: float, epsilon: float) -> float:
    """Delta less what the rounding of digits may cost; refused if nothing is left."""
    left = math.nextafter(delta - 4 * COUPLING * (1 + math.exp(min(epsilon, 600))), 0)
    if left <= 0.999 * delta:
        raise MechanismError("Delta is too small beside this epsilon for sampled covariances.")
    return left


def _cholesky(matrix: Integers) -> Integers:
    """Lower L with L L' = matrix, in the current decimal context."""
    d = len(matrix)
    root = np.full((d, d), Decimal(0), dtype=object)
    for j in range(d):
        rest = [Decimal(int(matrix[i, j])) - root[i, :j] @ root[j, :j] for i in range(j, d)]
        pivot = rest[0].sqrt()
        root[j:, j] = [value / pivot for value in rest]
    return root


def _nearest(value: Decimal) -> int:
    return int((value + Decimal("0.5")).to_integral_value(decimal.ROUND_FLOOR))
