"""Exact draws of the points of a beta = 1 ensemble, by Pfaffians in ball arithmetic.

The law: d points with density proportional to prod_{i<j} |f(x_i) - f(x_j)| prod_i w(x_i), f
increasing. They are drawn largest first, each by inversion of its distribution function given the
larger ones.

Let a_j(X) be the integral of f^j w up to X, and A_jk(X) the integral over x < y <= X of
(f(x)^j f(y)^k - f(x)^k f(y)^j) w(x) w(y). The density on ordered points is a Vandermonde
determinant, so by de Bruijn's formula (J. Indian Math. Soc. 19, 1955, 133-151) its integral over
x_1 < ... < x_d <= X is the Pfaffian of A(X), bordered by a(X) if d is odd. Hence
P(largest <= X) = Pf A(X) / Pf A(infinity).

Given the k largest, l_1 > ... > l_k, the others have the same law with d - k points, confined to
x < l_k, and the weight w(x) P(f(x)), P(t) = prod_i (f(l_i) - t). Its moments are combinations of
those above: A becomes Q' A Q and a becomes Q' a, with Q the d x (d - k) Toeplitz matrix of the
coefficients of P. So the d x d matrix A(X) is all there is to compute. Its Pfaffians, positive, are
square roots of determinants.

What is exact: every comparison of a distribution function with the uniform number is decided by
balls that hold both, made smaller until they are disjoint: the numbers by more precision, the
uniform by more random bits. The points come out as float64, within `RESOLUTION` of that inverse.
The precision of python-flint is global: threads may lower each other's, which only costs retries.
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

RESOLUTION = 2.0**-48
WORD = 64
HUGE = 1e3


class Ensemble(Protocol):
    """A law of `count` points between `lowest` and `highest`, in units of their scale."""

    @property
    def count(self) -> int: ...

    @property
    def lowest(self) -> float: ...

    @property
    def highest(self) -> float:
        """A point that the largest exceeds with negligible probability."""

    @property
    def edge(self) -> float:
        """Where the search for the largest point starts."""

    def feature(self, x: arb) -> arb:
        """f(x)."""

    def moments(self, x: float) -> Moments:
        """a(x) of length `count`, and the skew A(x)."""


def tail_free(exponent: float) -> float:
    """A size which Gamma(`exponent`) variables exceed with probability less than 2^-400.

    By Chernoff's bound log P(Gamma(D) > t) <= D - t + D log(t / D), at t = 2 D + 400; the right
    side is largest at D near 140, where it is -319 nats, or -460 bits.
    """
    return 2 * exponent + 400


@dataclass(frozen=True, slots=True)
class LineEnsemble:
    """Eigenvalues of symmetric matrices with density exp(-||Z||_*): f(x) = x, w = exp(-|x|)."""

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
        """Negative points mirror the positive ones; a positive x adds the part in [0, x]."""
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
    """Singular values of square matrices with density exp(-||Z||_*): f = x^2, w = exp(-x)."""

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
    """Moments of x^j under exp(-x) on x > s, and skew ones over pairs x > y > s.

    G_j = Gamma(j + 1, s) and I_jk = int_s^oo Gamma(j + 1, v) v^k e^-v dv go up by
    G_j = j G_{j-1} + s^j e^-s; integration by parts gives I_jk + I_kj = G_j G_k.
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
    """Moments of x^j under exp(-x) on [0, x], and skew ones over pairs 0 < u < v < x.

    As above with lower incomplete gamma functions, for which the recurrence is stable downwards.
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
    """Gamma(j + 1, s) for j < count."""
    term = (-s).exp()
    gammas = [term]
    for j in range(1, count):
        term = term * s
        gammas.append(j * gammas[-1] + term)
    return gammas


def _lower_gammas(count: int, x: float) -> list[arb]:
    """gamma(j + 1, x) for j < count; factorials at infinity."""
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
    """A uniform number in [0, 1) whose bits are drawn as they are needed."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._bits = 0
        self._numerator = 0
        self._extend()

    def _extend(self) -> None:
        self._numerator = self._numerator << WORD | int(self._entropy.words(1)[0])
        self._bits += WORD

    def log(self) -> float:
        """Logarithm in float64, to guess with."""
        return math.log(2 * self._numerator + 1) - (self._bits + 1) * math.log(2)

    def side(self, value: arb) -> int:
        """1 if the ball lies above this number, -1 if below, 0 if the ball is too large to tell."""
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
    """Distribution function of the next point, given the larger ones."""

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
        """Certified sign of P(next <= x) - uniform, and a float near the log of their ratio."""
        from flint import ctx

        while True:
            with ctx.workprec(self.precision):
                probability = self._pfaffian(x) / self._total
                side = uniform.side(probability)
                if side:
                    guess = float(probability.log().mid()) - uniform.log()
                    return side, guess if math.isfinite(guess) else side * HUGE
            self.precision += self.precision // 2
            self._prepare()


def _toeplitz(ensemble: Ensemble, larger: list[float]) -> arb_mat:
    """The matrix Q: column j holds the coefficients of t^j prod_i (f(l_i) - t)."""
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
    """The points of one draw, in decreasing order."""
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
    """Where an increasing function crosses zero, within `RESOLUTION` of max(1, |result|).

    `compare` gives its certified sign and a value near it. Only the signs decide; the values
    guide Chandrupatla's search (Adv. Eng. Softw. 28, 1997, 145-149): inverse quadratic
    interpolation where it is safe, bisection elsewhere.
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
        margin = RESOLUTION * max(1.0, abs(x)) / abs(x2 - x1)
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
    """Two points with the signs and values there: opposite signs, or twice the same limit."""
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
