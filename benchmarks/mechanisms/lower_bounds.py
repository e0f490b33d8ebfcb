r"""No mechanism can do better: lower bounds on the worst-case error, with every constant.

For tables of n rows in the unit ball of R^p whose mean squared norm is `trace`: some such table has
an expected ||C_hat - C||_F / n of at least this, whatever the mechanism. Single tables may be
easier.

Pure DP: the packing bound. Let U be a random k-frame and P its projection. Let m <= n trace be a
multiple of k. The table T_U holds each basis vector m/k times; its other rows are zero. Its moment
is (m/k) P. The table is m exchanges (m additions) from a table without these rows. An answer within
r m/k of (m/k) P thus has a probability of at most
e^(eps m) sup_Q Pr[||P - Q||_F <= r] =: e^(eps m) mu(r), and

    E ||C_hat - C||_F >= (m/k) r (1 - e^(eps m) mu(r)),    for all k, m, r.

mu(r): Q may be taken with 0 <= Q <= I and tr Q = k, which hold for all P and are convex. Then
||P - Q||^2 <= r^2 says tr U'QU >= (k + ||Q||^2 - r^2)/2. Let G = U T be standard normal (p, k), T
its symmetric factor, independent of U and with mean c I. By Jensen's inequality
E exp(t c^2 tr U'QU) <= E exp(t tr G'QG) = det(I - 2 t Q)^(-k/2). Here k c is the mean nuclear norm
of G, at least the mean trace of its upper triangular factor, E chi_p + .. + E chi_(p-k+1). So for
every 0 < t < 1/2, with q the eigenvalues of Q,

    ln mu(r) <= max over q of sum_i [-(k/2) ln(1 - 2 t q_i) - t c^2 q_i^2/2] - t c^2 (k - r^2)/2,

which a Lagrange multiplier for sum q_i = k bounds by p maxima in one dimension.

All definitions, Assouad's lemma. For each pair i < j of q <= p columns, m rows
(e_i + s e_j)/sqrt 2 with s = +-1: the entry is s m/2. Tables that differ in one sign are m
exchanges (2 m additions and removals) apart. Let g be the number of steps. By group privacy, the
total variation TV of the answers is at most tanh(eps g/2) + g e^(eps g) delta. Under zCDP the
divergence of the answers is at most rho g^2. TV is then at most sqrt(rho g^2/2) (Pinsker) and at
most sqrt(1 - exp(-rho g^2)) (Bretagnolle and Huber). The root mean square error is at least
(m/2) sqrt(q (q-1) (1 - TV)), if q (q-1)/2 m <= n trace.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaln

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

RADII = np.linspace(0.3, 0.95, 14)  # r over sqrt(k)
TILTS = np.linspace(0.01, 0.48, 16)  # t
POINTS = np.linspace(0, 1, 101)  # q
MULTIPLIERS = 40


def pure(p: int, n: int, epsilon: float, steps: int, trace: float = 1.0) -> float:
    """Return the lower bound for epsilon-DP: the better of the two arguments."""
    return max(packing(p, n, epsilon, trace), approximate(p, n, epsilon, 0.0, steps, trace))


def packing(p: int, n: int, epsilon: float, trace: float = 1.0) -> float:
    """Return the packing bound for epsilon-DP, add/remove or replace-one; 0 if none is known."""
    best = 0.0
    for k in sorted({int(k) for k in np.geomspace(1, max(1, p // 2), 12)}):
        for r in np.sqrt(k) * RADII:
            exponent = -log_ball(p, k, r)
            m = _best_rows(k, epsilon, exponent, n * trace)
            if m > 0:
                best = max(best, m / k * r * -math.expm1(epsilon * m - exponent))
    return best / n


def log_ball(p: int, k: int, r: float) -> float:
    """Return an upper bound on ln mu(r), the log-fraction of k-spaces within r of any matrix."""
    scale = float(np.mean(mean_chi(np.arange(p, p - k, -1.0)))) ** 2
    least = 0.0
    for t in TILTS:
        terms = -k / 2 * np.log1p(-2 * t * POINTS) - t * scale * POINTS**2 / 2
        slopes = np.diff(terms) / np.diff(POINTS)
        multipliers = np.linspace(slopes.min(), slopes.max(), MULTIPLIERS)
        highest = (terms[None, :] - multipliers[:, None] * POINTS[None, :]).max(axis=1)
        dual = float(np.min(p * highest + multipliers * k))
        least = min(least, dual - t * scale * (k - r**2) / 2)
    return least


def _best_rows(k: int, epsilon: float, exponent: float, most: float) -> int:
    """Find the multiple m of k, at most `most`, with the largest m (1 - e^(epsilon m - exponent)).

    The derivative vanishes where y = 1 + epsilon m solves y + ln y = exponent + 1.
    """
    y = exponent + 1
    for _ in range(50):
        y = max(1.0, exponent + 1 - math.log(y))
    return k * int(min((y - 1) / epsilon, most) / k)


def mean_chi(degrees: Vector) -> Vector:
    """Return the mean norm of a standard normal vector."""
    means: Vector = np.sqrt(2) * np.exp(gammaln((degrees + 1) / 2) - gammaln(degrees / 2))
    return means


def assouad(p: int, n: int, variation: Callable[[int], float], trace: float = 1.0) -> float:
    """Lower bound where exchanging m rows moves the answer by `variation(m)` in total variation."""
    best = 0.0
    for q in sorted({int(q) for q in np.geomspace(2, p, 20)}):
        most = int(n * trace / (q * (q - 1) / 2))
        for m in sorted({int(m) for m in np.geomspace(1, max(1, most), 60)}):
            if m <= most:
                left = max(0.0, 1 - variation(m))
                best = max(best, m / 2 * math.sqrt(q * (q - 1) * left))
    return best / n


def zcdp(p: int, n: int, rho: float, steps: int, trace: float = 1.0) -> float:
    """Return the lower bound for rho-zCDP; exchanging a row is `steps` steps of the relation."""

    def variation(m: int) -> float:
        divergence = rho * (steps * m) ** 2
        return min(math.sqrt(divergence / 2), math.sqrt(-math.expm1(-divergence)))

    return assouad(p, n, variation, trace)


def approximate(
    p: int, n: int, epsilon: float, delta: float, steps: int, trace: float = 1.0
) -> float:
    """Return the lower bound for (epsilon, delta)-DP."""

    def variation(m: int) -> float:
        group = steps * m
        if group * epsilon > 50:
            return 1.0
        return math.tanh(group * epsilon / 2) + group * math.exp(group * epsilon) * delta

    return assouad(p, n, variation, trace)
