"""Exact draws of the points of a random matrix ensemble (beta = 1), by Pfaffians.

**Distribution.** The density of d points is proportional to
``prod_(i<j) |f(x_i) - f(x_j)| prod_i w(x_i)`` with an increasing function f. The sampler draws the
largest point first. It inverts the distribution function of each point, given the larger points.

**Largest point.** Let ``a_j(X)`` be the integral of ``f^j w`` up to X. Let ``A_jk(X)`` be the
integral of the following function over ``x < y <= X``::

    (f(x)^j f(y)^k - f(x)^k f(y)^j) w(x) w(y)

The density on ordered points is a Vandermonde determinant. By de Bruijn's formula, its integral
over all points up to X is the Pfaffian of A(X) (J. Indian Math. Soc. 19, 1955, 133-151). For odd d,
the vector a(X) borders the matrix. Hence ``P(largest <= X) = Pf A(X) / Pf A(infinity)``.

**Other points.** Let ``l_1 > ... > l_k`` be the k largest points. The other d - k points have a
distribution of the same kind on ``x < l_k``. Their weight is ``w(x) P(f(x))`` with the polynomial
``P(t) = prod_i (f(l_i) - t)``. Their moments are ``Q' A Q`` and ``Q' a``. The matrix Q is the d x
(d - k) Toeplitz matrix of the coefficients of P. So the sampler only needs the d x d matrix A(X).
Its Pfaffians are positive and therefore square roots of determinants.

**Exactness.** Ball arithmetic compares a distribution function with a uniform number. A ball is an
interval that certainly contains a number. The balls shrink until they are disjoint, by more digits
or more random bits. The resulting points are floats with an error of at most `RESOLUTION`.

The precision of the package python-flint is global. Threads can reduce each other's precision,
which only causes repetitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from flint import arb, arb_mat

    from dpcov.core.entropy import Entropy

    Moments = tuple[list[arb], list[list[arb]]]

# Relative accuracy of the points.
POINT_ACCURACY = 2.0**-48
# Number of bits of a random word.
WORD_BITS = 64
# Size of a log-ratio that replaces an infinite log-ratio.
LOG_RATIO_LIMIT = 1e3


class Ensemble(Protocol):
    """Distribution of `count` points between `lowest` and `highest`, in units of the scale."""

    @property
    def count(self) -> int: ...

    @property
    def lowest(self) -> float: ...

    @property
    def highest(self) -> float:
        """Point that the largest point exceeds with negligible probability."""

    @property
    def edge(self) -> float:
        """Starting point of the search for the largest point."""

    def feature(self, x: arb) -> arb:
        """Return f(x)."""

    def moments(self, x: float) -> Moments:
        """Return the vector a(x) of length `count` and the skew-symmetric matrix A(x)."""


def tail_free(exponent: float) -> float:
    """Return a number that a gamma variable exceeds with a probability below 2^-400.

    Let D be the shape of the gamma distribution. By Chernoff's bound,
    ``log P(Gamma(D) > t) <= D - t + D log(t / D)``. The function uses ``t = 2 D + 400``. The right
    side is then largest for D near 140. Its value is -319 nats, or -460 bits.
    """
    return 2 * exponent + 400


@dataclass(frozen=True, slots=True)
class LineEnsemble:
    """Eigenvalues of symmetric matrices with density ``exp(-||Z||_*)``.

    The functions are ``f(x) = x`` and ``w(x) = exp(-|x|)``.
    """

    count: int

    @property
    def highest(self) -> float:
        return tail_free(self.count * (self.count + 1) / 2)

    @property
    def lowest(self) -> float:
        return -self.highest

    @property
    def edge(self) -> float:
        return math.pi / 2 * self.count

    def feature(self, x: arb) -> arb:
        return x

    def moments(self, x: float) -> Moments:
        """Return the moments up to x.

        The negative points mirror the positive points. For a positive x, the function adds the part
        in [0, x].
        """
        d = self.count
        a, A = _above(d, max(-x, 0.0))
        a = [value if j % 2 == 0 else -value for j, value in enumerate(a)]
        for j in range(d):
            for k in range(1 - j % 2, d, 2):
                A[j][k] = -A[j][k]
        if x <= 0:
            return a, A
        b, B = _below(d, x)
        both = [[A[j][k] + a[j] * b[k] - a[k] * b[j] + B[j][k] for k in range(d)] for j in range(d)]
        return [first + second for first, second in zip(a, b, strict=True)], both


@dataclass(frozen=True, slots=True)
class HalfLineEnsemble:
    """Singular values of square matrices with density ``exp(-||Z||_*)``.

    The functions are ``f(x) = x^2`` and ``w(x) = exp(-x)``.
    """

    count: int

    @property
    def highest(self) -> float:
        return tail_free(self.count**2)

    @property
    def lowest(self) -> float:
        return 0.0

    @property
    def edge(self) -> float:
        return math.pi * self.count

    def feature(self, x: arb) -> arb:
        return x * x

    def moments(self, x: float) -> Moments:
        b, B = _below(2 * self.count - 1, x)
        return b[::2], [row[::2] for row in B[::2]]


def _above(d: int, s: float) -> Moments:
    """Return the moments of ``x^j`` with weight ``exp(-x)`` on ``x > s``, and the skew moments.

    The skew moments are over the pairs ``x > y > s``. Let ``G_j = Gamma(j + 1, s)``, and let
    ``I_jk`` be the integral of ``Gamma(j + 1, v) v^k e^-v`` over ``v > s``. Both increase by the
    recurrence ``G_j = j G_(j-1) + s^j e^-s``. Integration by parts gives ``I_jk + I_kj = G_j G_k``.
    """
    from flint import arb

    G = _upper_gammas(d, arb(s))
    H = [value / 2 ** (m + 1) for m, value in enumerate(_upper_gammas(2 * d - 1, 2 * arb(s)))]
    skew = [[arb(0)] * d for _ in range(d)]
    for k in range(d):
        pairs = H[k]
        for j in range(k):
            if j:
                pairs = j * pairs + H[j + k]
            skew[j][k] = 2 * pairs - G[j] * G[k]
            skew[k][j] = -skew[j][k]
    return G, skew


def _below(d: int, x: float) -> Moments:
    """Return the moments of ``x^j`` with weight ``exp(-x)`` on [0, x], and the skew moments.

    The skew moments are over the pairs ``0 < u < v < x``. The method is the method of `_above` with
    lower incomplete gamma functions. Their recurrence is stable in decreasing order.
    """
    from flint import arb

    g = _lower_gammas(d, x)
    h = [value / 2 ** (m + 1) for m, value in enumerate(_lower_gammas(2 * d - 1, 2 * x))]
    skew = [[arb(0)] * d for _ in range(d)]
    for k in range(d):
        pairs = g[k] * g[k] / 2
        for j in range(k, 0, -1):
            pairs = (pairs + h[j + k]) / j
            skew[j - 1][k] = 2 * pairs - g[j - 1] * g[k]
            skew[k][j - 1] = -skew[j - 1][k]
    return g, skew


def _upper_gammas(count: int, s: arb) -> list[arb]:
    """Return the upper incomplete gamma functions ``Gamma(j + 1, s)`` for j below `count`."""
    term = (-s).exp()
    gammas = [term]
    for j in range(1, count):
        term = term * s
        gammas.append(j * gammas[-1] + term)
    return gammas


def _lower_gammas(count: int, x: float) -> list[arb]:
    """Return the lower incomplete gamma functions ``gamma(j + 1, x)`` for j below `count`.

    At infinity, they are factorials.
    """
    from flint import arb

    if math.isinf(x):
        return [arb(math.factorial(j)) for j in range(count)]
    point = arb(x)
    terms = [(-point).exp()]
    for _ in range(1, count):
        terms.append(terms[-1] * point)
    gammas = [point.gamma_lower(count)]
    for j in range(count - 1, 0, -1):
        gammas.append((gammas[-1] + terms[j]) / j)
    return gammas[::-1]


class Uniform:
    """Uniform number in [0, 1) whose bits are drawn when necessary."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._bits = 0
        self._numerator = 0
        self._extend()

    def _extend(self) -> None:
        self._numerator = self._numerator << WORD_BITS | int(self._entropy.words(1)[0])
        self._bits += WORD_BITS

    def log(self) -> float:
        """Return the logarithm of the number in float64, as a rough guess."""
        return math.log(2 * self._numerator + 1) - (self._bits + 1) * math.log(2)

    def side(self, value: arb) -> int:
        """Return 1 if a ball lies above the number, and -1 if it lies below.

        The function returns 0 if the ball is too large for a decision.
        """
        while True:
            scaled = value * 2**self._bits
            if scaled > self._numerator + 1:
                return 1
            if scaled < self._numerator:
                return -1
            if not scaled.rad() < 0.25:
                return 0
            self._extend()


class _Conditional:
    """Distribution function of the next point, given the larger points."""

    def __init__(self, ensemble: Ensemble, larger: list[float], precision: int) -> None:
        self.ensemble = ensemble
        self.larger = larger
        self.precision = precision
        self._prepare()

    def _prepare(self) -> None:
        from flint import ctx

        with ctx.workprec(self.precision):
            self._reduction = _toeplitz(self.ensemble, self.larger)
            self._total = self._pfaffian(self.larger[-1] if self.larger else math.inf)

    def _pfaffian(self, x: float) -> arb:
        from flint import arb_mat

        a, A = self.ensemble.moments(x)
        Q = self._reduction
        skew = Q.transpose() * arb_mat(A) * Q
        if skew.nrows() % 2:
            skew = _bordered(skew, arb_mat([a]) * Q)
        return skew.det().sqrt()

    def compare(self, x: float, uniform: Uniform) -> tuple[int, float]:
        """Return the certified sign of ``P(next <= x) - uniform``, and a rough log-ratio."""
        from flint import ctx

        while True:
            with ctx.workprec(self.precision):
                probability = self._pfaffian(x) / self._total
                side = uniform.side(probability)
                if side:
                    guess = float(probability.log().mid()) - uniform.log()
                    return side, guess if math.isfinite(guess) else side * LOG_RATIO_LIMIT
            self.precision += self.precision // 2
            self._prepare()


def _toeplitz(ensemble: Ensemble, larger: list[float]) -> arb_mat:
    """Return the matrix Q with the coefficients of ``t^j prod_i (f(l_i) - t)`` in column j."""
    from flint import arb, arb_mat, arb_poly

    product = arb_poly([1])
    for point in larger:
        product = product * arb_poly([ensemble.feature(arb(point)), -1])
    d, k = ensemble.count, len(larger)
    coefficients = [product[i] for i in range(k + 1)]
    return arb_mat(
        [
            [coefficients[i - j] if 0 <= i - j <= k else arb(0) for j in range(d - k)]
            for i in range(d)
        ]
    )


def _bordered(skew: arb_mat, border: arb_mat) -> arb_mat:
    from flint import arb, arb_mat

    edge = border.tolist()[0]
    rows = [[*row, value] for row, value in zip(skew.tolist(), edge, strict=True)]
    return arb_mat([*rows, [*(-value for value in edge), arb(0)]])


def largest_first(ensemble: Ensemble, entropy: Entropy) -> list[float]:
    """Draw all points of an ensemble, in decreasing order.

    Parameters
    ----------
    ensemble : Ensemble
        Distribution of the points.
    entropy : Entropy
        Source of random bits.

    Returns
    -------
    list of float
        Points.

    """
    points: list[float] = []
    precision = 64 + 6 * ensemble.count
    for _ in range(ensemble.count):
        conditional = _Conditional(ensemble, points, precision)
        compare = partial(conditional.compare, uniform=Uniform(entropy))
        highest = points[-1] if points else ensemble.highest
        start = max(highest - 1, ensemble.lowest) if points else ensemble.edge
        points.append(_crossing(compare, start, ensemble.lowest, highest))
        precision = conditional.precision
    return points


def _crossing(
    compare: Callable[[float], tuple[int, float]], start: float, lowest: float, highest: float
) -> float:
    """Return the zero of an increasing function, with a relative error of at most `POINT_ACCURACY`.

    Only certified signs decide the result. Approximate values direct Chandrupatla's search (Adv.
    Eng. Softw. 28, 1997, 145-149). The search uses inverse quadratic interpolation where it is
    safe, and bisection otherwise.

    Parameters
    ----------
    compare : callable
        Function that returns a certified sign and an approximate value.
    start : float
        Starting point.
    lowest, highest : float
        Limits of the search.

    Returns
    -------
    float
        Zero of the function.

    """
    x1, s1, f1, x2, s2, f2 = _bracket(compare, start, lowest, highest)
    if s1 == s2:
        return x1
    t = 0.5
    while True:
        x = x1 + t * (x2 - x1)
        s, f = compare(x)
        if s == s1:
            x3, f3 = x1, f1
        else:
            x3, f3, x2, s2, f2 = x2, f2, x1, s1, f1
        x1, s1, f1 = x, s, f
        margin = POINT_ACCURACY * max(1.0, abs(x)) / abs(x2 - x1)
        if margin > 0.5:
            return (x1 + x2) / 2
        xi, phi = (x1 - x2) / (x3 - x2), (f1 - f2) / (f3 - f2) if f3 != f2 else math.nan
        if phi**2 < xi and (1 - phi) ** 2 < 1 - xi:
            t = f1 / (f2 - f1) * f3 / (f2 - f3)
            t += (x3 - x1) / (x2 - x1) * f1 / (f3 - f1) * f2 / (f3 - f2)
            t = min(max(t, margin), 1 - margin)
        else:
            t = 0.5


def _bracket(
    compare: Callable[[float], tuple[int, float]], start: float, lowest: float, highest: float
) -> tuple[float, int, float, float, int, float]:
    """Return two points around the zero, with their signs and values.

    If the function has one sign everywhere, the function returns the same limit twice.
    """
    near = (start, *compare(start))
    step = -float(near[1])
    while True:
        x = min(max(near[0] + step, lowest), highest)
        far = (x, *compare(x))
        if far[1] != near[1]:
            return *near, *far
        if x in (lowest, highest):
            return *far, *far
        near, step = far, 2 * step
