"""Exact integer noise: uniform, discrete Laplace, discrete Gaussian.

The algorithms are those of Canonne, Kamath and Steinke, "The discrete Gaussian for
differential privacy" (NeurIPS 2020, arXiv:2004.00010), vectorised. Their randomness is uniform
integers, fair signs and coins that fall heads with probability exp(-gamma), gamma rational.
Only the coins use floats, which decide nothing closer than their proved error (`SLACK`).

Not protected: the time a call takes, which depends on the noise.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import MechanismError

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Integers, Matrix
    from dpcov.core.entropy import Entropy

    Floats = Matrix
    Rational = Fraction | int
    Coins = Booleans

# Heads means U < exp(-gamma), with U a uniform real of which the first 64 bits, w, are drawn. Let
# h = 2^-53, x the float64 of w 2^-64, g the float64 of gamma, p = np.exp(-g).
# 1. U is in [w, w + 1) 2^-64, so |x - U| <= h + 2^-64.
# 2. |g - gamma| <= 9 h (1 + gamma) =: delta, shown where each exponent is made. Hence
#    |exp(-g) - exp(-gamma)| <= exp(-gamma) delta exp(delta) < 9.01 h for gamma <= 64, because
#    exp(-gamma) (1 + gamma) <= 1; for larger gamma both are below exp(-63) < h.
# 3. np.exp is trusted to 8 units in the last place (measured in the tests: below 1), and its
#    value is at most 1, so |p - exp(-g)| <= 16 h.
# Together |(x - p) - (U - exp(-gamma))| < 27 h: a difference beyond SLACK = 32 h has the true sign.
# The rest, one coin in 2^47, goes on with the same U in exact arithmetic.
SLACK = 2.0**-48

BATCH = 2**17
NARROW = 2**55  # scales up to which magnitudes are 64-bit integers; beyond, those of Python
LARGEST_BOUND = 2**84
SMALLEST_SCALE, LARGEST_SCALE = Fraction(1, 2**30), Fraction(2**80)
SMALLEST_VARIANCE, LARGEST_VARIANCE = Fraction(1, 2**30), Fraction(2**156)


def uniform_below(bound: int, count: int, entropy: Entropy) -> Integers:
    """Draw independent uniform integers from 0 to bound - 1.

    Exact: the top bits of each word are kept if they are below the bound, else rejected.

    Parameters
    ----------
    bound : int
        From 1 to 2^84.
    count : int
        How many to draw.
    entropy : Entropy
        Source of uniform words.

    Returns
    -------
    (count,) int64 array; Python integers from 2^62 on

    Raises
    ------
    MechanismError
        The bound is out of range.

    """
    _require_between("bound", bound, 1, LARGEST_BOUND)
    if bound == 1:
        return np.zeros(count, dtype=np.int64)
    bits = (bound - 1).bit_length()
    if bits > 62:
        return _fill(count, bound / 2**bits, partial(_wide_below, bound, entropy), object)

    def draw(tries: int) -> Integers:
        candidates: Integers = (entropy.words(tries) >> np.uint64(64 - bits)).view(np.int64)
        return candidates[candidates < bound]

    return _fill(count, bound / 2**bits, draw)


def discrete_laplace(scale: Fraction, count: int, entropy: Entropy) -> Integers:
    """Draw independent integers k with P(k) proportional to ``exp(-|k| / scale)``.

    Exact for every rational scale in range: ``P(0) = tanh(1 / (2 scale))``.

    Parameters
    ----------
    scale : Fraction
        From 2^-30 to 2^80; its numerator and denominator may be of any size.
    count : int
        How many to draw.
    entropy : Entropy
        Source of uniform words.

    Returns
    -------
    (count,) int64 array; Python integers where the scale is above 2^55

    Raises
    ------
    MechanismError
        The scale is out of range. Also if a draw leaves int64: this depends on the noise
        alone, with probability below exp(-254) per draw.

    Notes
    -----
    Source: Canonne, Kamath, Steinke 2020, Algorithm 2. It differs for a scale that is not an
    integer: the paper draws with the numerator as scale and divides by the denominator, here
    the magnitude is U + tV with t = ceil(scale), P(U = u) proportional to exp(-u / scale) on
    0..t-1 and P(V >= v) = exp(-v t / scale). The law is the same, and a scale such as
    2^40 / Fraction(0.1), whose numerator has 96 bits, needs no wider integers.

    """
    _require_between("scale", scale, SMALLEST_SCALE, LARGEST_SCALE)
    step = math.ceil(scale)
    kind = object if step > NARROW else np.int64

    def draw(tries: int) -> Integers:
        remainder = uniform_below(step, tries, entropy)
        remainder = remainder[_coins(_laplace_exponents(remainder, scale), entropy)]
        quotient = _geometric(Fraction(step, scale), remainder.size, entropy)
        if kind is np.int64 and quotient.max(initial=0) >= 2**63 // step - 1:
            raise MechanismError("a noise value does not fit 64 bits")
        magnitude = remainder.astype(kind) + step * quotient.astype(kind)
        negative = _fair_coins(magnitude.size, entropy)
        signed: Integers = np.where(negative, -magnitude, magnitude)
        kept: Coins = (signed != 0) | ~negative  # with both signs, zero would be twice as likely
        return signed[kept]

    return _fill(count, _laplace_rate(float(scale), step), draw, kind)


def discrete_gaussian(variance: Fraction, count: int, entropy: Entropy) -> Integers:
    """Draw independent integers k with P(k) proportional to ``exp(-k^2 / (2 variance))``.

    Exact for every rational variance in range. The variance of the law is at most this
    parameter, and equal to it within 10^-6 from 1 on.

    Parameters
    ----------
    variance : Fraction
        From 2^-30 to 2^156; its numerator and denominator may be of any size.
    count : int
        How many to draw.
    entropy : Entropy
        Source of uniform words.

    Returns
    -------
    (count,) int64 array; Python integers where the variance is above 2^110

    Raises
    ------
    MechanismError
        The variance is out of range. Also as for `discrete_laplace`, with a probability below
        exp(-2000) per draw.

    Notes
    -----
    Source: Canonne, Kamath, Steinke 2020, Algorithm 3.

    """
    _require_between("variance", variance, SMALLEST_VARIANCE, LARGEST_VARIANCE)
    scale = math.isqrt(math.floor(variance)) + 1

    def draw(tries: int) -> Integers:
        candidates = discrete_laplace(Fraction(scale), tries, entropy)
        return candidates[_coins(_gaussian_exponents(candidates, variance, scale), entropy)]

    kind = object if scale > NARROW else np.int64
    return _fill(count, _gaussian_rate(float(variance), scale), draw, kind)


@dataclass(frozen=True, slots=True)
class _Exponents:
    """Numbers gamma >= 0: floats within 9 h (1 + gamma), h = 2^-53, and exactly, one by one."""

    floats: Floats
    exact: Callable[[int], Fraction]


def _laplace_exponents(u: Integers, scale: Fraction) -> _Exponents:
    """Three roundings (u, 1 / scale, their product): a relative error below 3.01 h."""
    floats = u.astype(np.float64) * float(Fraction(1, scale))
    return _Exponents(floats, lambda i: Fraction(int(u[i]), scale))


def _gaussian_exponents(y: Integers, variance: Fraction, scale: int) -> _Exponents:
    """D^2 / 2v with D = |y| - C, C = v / t, v the variance, t the scale.

    d, the float64 of D, has |d - D| <= h (1 + h) (|y| + C) + h |D| <= 2 h (1 + h) (|D| + C) by
    three roundings, whatever the size of y; this pays for the cancellation. C^2 / 2v < 1 / 2 as
    t^2 > v, so |d^2 - D^2| / 2v <= 4 h (gamma + sqrt(gamma / 2)) + O(h^2), which is at most
    h (5.5 gamma + 1.5); squaring, 1 / 2v and the product add 3 h gamma: below 9 h (1 + gamma).
    """
    centre = Fraction(variance, scale)
    distance = np.abs(y).astype(np.float64) - float(centre)
    floats = distance * distance * float(Fraction(1, 2 * variance))
    return _Exponents(floats, lambda i: Fraction((abs(int(y[i])) - centre) ** 2, 2 * variance))


def _laplace_rate(scale: float, step: int) -> float:
    """Share of candidates that become discrete Laplace draws; tells only how many to try."""
    remainder_accepted = math.expm1(-step / scale) / (step * math.expm1(-1 / scale))
    return remainder_accepted * (1 + math.exp(-1 / scale)) / 2


def _gaussian_rate(variance: float, scale: int) -> float:
    """Share of Laplace draws that become Gaussian draws (a lower bound, tight at both ends)."""
    mass = max(1.0, math.sqrt(2 * math.pi * variance))
    return math.tanh(0.5 / scale) * math.exp(-variance / (2 * scale**2)) * mass


def _geometric(gamma: Fraction, count: int, entropy: Entropy) -> Integers:
    """Numbers of heads before each tail, in one stream of coins; P(V >= v) = exp(-v gamma).

    The stream ends with the last tail: dropping unfinished runs would make long ones too rare.
    """
    tail_rate = -math.expm1(-float(gamma))
    tails, tossed = np.empty(0, dtype=np.int64), 0
    while tails.size < count:
        tosses = _tries(count - tails.size, tail_rate)
        exponents = _Exponents(np.full(tosses, float(gamma)), lambda _: gamma)
        new = np.flatnonzero(~_coins(exponents, entropy))
        tails = np.concatenate((tails, new + tossed))
        tossed += tosses
    return np.diff(tails[:count], prepend=-1) - 1


def _coins(exponents: _Exponents, entropy: Entropy) -> Coins:
    """Independent coins, heads with probability exp(-gamma); `SLACK` says why this is exact."""
    words = entropy.words(exponents.floats.size)
    difference = words * 2.0**-64 - np.exp(-exponents.floats)
    heads = difference < 0
    for i in np.flatnonzero(np.abs(difference) <= SLACK).tolist():
        heads[i] = _decide_exactly(int(words[i]), exponents.exact(i), entropy)
    return heads


def _decide_exactly(first_bits: int, gamma: Fraction, entropy: Entropy) -> bool:
    """Whether U < exp(-gamma), for a uniform U that begins with these 64 bits.

    Encloses both in decimals, rounded outwards (Decimal.exp is correctly rounded, so its
    neighbours enclose the value), and draws further bits of U until the enclosures part.
    """
    bits, length = first_bits, 64
    while True:
        down, up = (_decimals(length // 2, way) for way in ("ROUND_FLOOR", "ROUND_CEILING"))
        low = down.next_minus(down.exp(_quotient(-gamma, down)))
        high = up.next_plus(up.exp(_quotient(-gamma, up)))
        if _quotient(Fraction(bits + 1, 2**length), up) <= low:
            return True
        if _quotient(Fraction(bits, 2**length), down) >= high:
            return False
        bits, length = (bits << 64) | int(entropy.words(1)[0]), length + 64


def _decimals(digits: int, rounding: str) -> decimal.Context:
    return decimal.Context(prec=digits, rounding=rounding, traps=[])


def _quotient(value: Rational, context: decimal.Context) -> decimal.Decimal:
    return context.divide(decimal.Decimal(value.numerator), decimal.Decimal(value.denominator))


def _fair_coins(count: int, entropy: Entropy) -> Coins:
    words = entropy.words(-(-count // 64))
    return np.unpackbits(words.view(np.uint8), count=count).view(np.bool_)


def _wide_below(bound: int, entropy: Entropy, tries: int) -> Integers:
    """Of so many uniform integers of more than 62 bits, those that are below `bound`."""
    high, low = entropy.words(2 * tries).astype(object).reshape(2, tries)
    candidates: Integers = (high << 64 | low) >> (128 - (bound - 1).bit_length())
    return candidates[candidates < bound]


def _tries(missing: int, rate: float) -> int:
    """Enough attempts, as a rule, for `missing` successes; small batches spare memory."""
    return min(BATCH, int(1.01 * missing / rate) + 16)


def _fill(
    count: int, rate: float, draw: Callable[[int], Integers], kind: type = np.int64
) -> Integers:
    """Collect accepted draws in order, from as many rounds as it takes; `draw` makes n attempts."""
    filled = 0
    result: Integers = np.empty(count, dtype=kind)
    while filled < count:
        kept = draw(_tries(count - filled, rate))[: count - filled]
        result[filled : filled + kept.size] = kept
        filled += kept.size
    return result


def _require_between(name: str, value: Rational, low: Rational, high: Rational) -> None:
    if low <= value <= high:
        return
    given, least, most = (_quotient(x, _decimals(4, "ROUND_HALF_EVEN")) for x in (value, low, high))
    raise MechanismError(
        f"{name} of integer noise is {given}, but it is drawn exactly only from {least} "
        f"to {most}: choose another lattice step or budget"
    )
