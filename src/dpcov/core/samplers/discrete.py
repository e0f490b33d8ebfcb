"""Exact integer noise: uniform, discrete Laplace and discrete Gaussian.

The algorithms come from Canonne, Kamath and Steinke, "The discrete Gaussian for differential
privacy" (NeurIPS 2020, arXiv:2004.00010). This module draws many numbers at once.

The random numbers come from uniform integers, fair signs and biased coins. A biased coin shows
heads with probability ``exp(-gamma)`` for a rational gamma. Only the coins use floats. If a
comparison is closer than the proved error (`COIN_SLACK`), exact arithmetic decides it.

Not protected: the running time of a call, which depends on the noise.
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

# Smallest difference between two floats that decides a coin. The coin shows heads if
# U < exp(-gamma). The uniform number U has the first 64 bits w.
# Let h = 2^-53. Let x be the float of w 2^-64, let g be the float of gamma, and p = np.exp(-g).
# 1. U is in [w, w + 1) 2^-64, so |x - U| <= h + 2^-64.
# 2. Each function below that computes an exponent shows |g - gamma| <= 9 h (1 + gamma) =: delta.
#    For gamma <= 64, |exp(-g) - exp(-gamma)| <= exp(-gamma) delta exp(delta) < 9.01 h, because
#    exp(-gamma) (1 + gamma) <= 1. For a larger gamma, both values are below exp(-63) < h.
# 3. The proof trusts np.exp to 8 units in the last place. The tests measure less than 1 unit.
#    The value of np.exp is at most 1, so |p - exp(-g)| <= 16 h.
# The sum of the errors is |(x - p) - (U - exp(-gamma))| < 27 h. A difference above 32 h therefore
# has the true sign. Otherwise, for one coin in 2^47, exact arithmetic continues with the same U.
COIN_SLACK = 2.0**-48

# Largest number of attempts at once. A limit saves memory.
MAX_ATTEMPTS = 2**17
# Largest scale whose draws fit into 64-bit integers. Larger scales use Python integers.
MAX_INT64_SCALE = 2**55
# Largest bound of a uniform number.
MAX_BOUND = 2**84
# Smallest and largest scale of the Laplace distribution, in steps.
MIN_SCALE, MAX_SCALE = Fraction(1, 2**30), Fraction(2**80)
# Smallest and largest variance of the Gaussian distribution, in squared steps.
MIN_VARIANCE, MAX_VARIANCE = Fraction(1, 2**30), Fraction(2**156)


def uniform_below(bound: int, count: int, entropy: Entropy) -> Integers:
    """Draw independent uniform integers from 0 to bound - 1.

    The draw is exact. The function keeps the upper bits of each word if they are below the bound,
    and rejects them otherwise.

    Parameters
    ----------
    bound : int
        Number of possible values, from 1 to 2^84.
    count : int
        Number of draws.
    entropy : Entropy
        Source of uniform words.

    Returns
    -------
    ndarray of int, shape (count,)
        Array of int64. From a bound of 2^62 on, the entries are Python integers.

    Raises
    ------
    MechanismError
        The bound is out of range.

    """
    _require_between("bound", bound, 1, MAX_BOUND)
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
    """Draw independent integers from a discrete Laplace distribution.

    The probability of k is proportional to ``exp(-|k| / scale)``. The draw is exact for every
    rational scale in the range. The probability of 0 is ``tanh(1 / (2 scale))``.

    Parameters
    ----------
    scale : Fraction
        Scale from 2^-30 to 2^80, with a numerator and denominator of any size.
    count : int
        Number of draws.
    entropy : Entropy
        Source of uniform words.

    Returns
    -------
    ndarray of int, shape (count,)
        Array of int64. For scales above 2^55, the entries are Python integers.

    Raises
    ------
    MechanismError
        The scale is out of range. The function also raises this error if a draw does not fit int64.
        Such a draw depends only on the noise, and its probability is below exp(-254).

    Notes
    -----
    The source is Algorithm 2 of Canonne, Kamath and Steinke 2020. For a scale that is not an
    integer, the paper uses the numerator as the scale and divides by the denominator.

    This function draws the magnitude as ``U + t V`` with ``t = ceil(scale)``. The integer U lies
    between 0 and ``t - 1``, with probability proportional to ``exp(-U / scale)``. The integer V
    satisfies ``P(V >= v) = exp(-v t / scale)``.

    The distribution is the same as in the paper. A scale such as ``2^40 / Fraction(0.1)`` has a
    numerator of 96 bits, but the function needs no wider integers.

    """
    _require_between("scale", scale, MIN_SCALE, MAX_SCALE)
    step = math.ceil(scale)
    kind = object if step > MAX_INT64_SCALE else np.int64

    def draw(tries: int) -> Integers:
        remainder = uniform_below(step, tries, entropy)
        remainder = remainder[_coins(_laplace_exponents(remainder, scale), entropy)]
        quotient = _geometric(Fraction(step, scale), remainder.size, entropy)
        if kind is np.int64 and quotient.max(initial=0) >= 2**63 // step - 1:
            raise MechanismError("A noise value does not fit 64 bits. Use a larger budget.")
        magnitude = remainder.astype(kind) + step * quotient.astype(kind)
        negative = _fair_coins(magnitude.size, entropy)
        signed: Integers = np.where(negative, -magnitude, magnitude)
        kept: Coins = (signed != 0) | ~negative  # zero with both signs would be twice as likely
        return signed[kept]

    return _fill(count, _laplace_rate(float(scale), step), draw, kind)


def discrete_gaussian(variance: Fraction, count: int, entropy: Entropy) -> Integers:
    """Draw independent integers from a discrete Gaussian distribution.

    The probability of k is proportional to ``exp(-k^2 / (2 variance))``. The draw is exact for
    every rational variance in the range. The variance of a draw is at most the parameter
    `variance`. From 1 on, the difference is at most 10^-6.

    Parameters
    ----------
    variance : Fraction
        Variance parameter from 2^-30 to 2^156, with a numerator and denominator of any size.
    count : int
        Number of draws.
    entropy : Entropy
        Source of uniform words.

    Returns
    -------
    ndarray of int, shape (count,)
        Array of int64. For variances above 2^110, the entries are Python integers.

    Raises
    ------
    MechanismError
        The variance is out of range. The function also raises this error if a draw does not fit
        int64, with probability below exp(-2000) for each draw.

    Notes
    -----
    The source is Algorithm 3 of Canonne, Kamath and Steinke 2020.

    """
    _require_between("variance", variance, MIN_VARIANCE, MAX_VARIANCE)
    scale = math.isqrt(math.floor(variance)) + 1

    def draw(tries: int) -> Integers:
        candidates = discrete_laplace(Fraction(scale), tries, entropy)
        return candidates[_coins(_gaussian_exponents(candidates, variance, scale), entropy)]

    kind = object if scale > MAX_INT64_SCALE else np.int64
    return _fill(count, _gaussian_rate(float(variance), scale), draw, kind)


@dataclass(frozen=True, slots=True)
class _Exponents:
    """Exponents gamma of biased coins, each at least 0.

    Attributes
    ----------
    floats : ndarray of float
        Exponents with an error of at most ``9 h (1 + gamma)``, where ``h = 2^-53``.
    exact : callable
        Function from an index to the exact exponent.

    """

    floats: Floats
    exact: Callable[[int], Fraction]


def _laplace_exponents(u: Integers, scale: Fraction) -> _Exponents:
    """Return the exponents ``u / scale`` of biased coins.

    The floats have three rounding errors: of u, of ``1 / scale`` and of their product. The relative
    error is below 3.01 h with ``h = 2^-53``.
    """
    floats = u.astype(np.float64) * float(Fraction(1, scale))
    return _Exponents(floats, lambda i: Fraction(int(u[i]), scale))


def _gaussian_exponents(y: Integers, variance: Fraction, scale: int) -> _Exponents:
    """Return the exponents ``D^2 / (2 v)`` of biased coins, where v is the variance.

    Let ``D = |y| - C`` and ``C = v / t``, where t is the scale. Let d be the float of D. Three
    roundings give this bound, whatever the size of y::

        |d - D| <= h (1 + h) (|y| + C) + h |D| <= 2 h (1 + h) (|D| + C)

    The bound includes the cancellation in D. As ``t^2 > v``, the number ``C^2 / (2 v)`` is below
    1/2. The error of the square is therefore bounded by::

        |d^2 - D^2| / 2v <= 4 h (gamma + sqrt(gamma / 2)) + O(h^2) <= h (5.5 gamma + 1.5)

    The square, ``1 / (2 v)`` and the product add ``3 h gamma``. The total error is below
    ``9 h (1 + gamma)``.
    """
    centre = Fraction(variance, scale)
    distance = np.abs(y).astype(np.float64) - float(centre)
    floats = distance * distance * float(Fraction(1, 2 * variance))
    return _Exponents(floats, lambda i: Fraction((abs(int(y[i])) - centre) ** 2, 2 * variance))


def _laplace_rate(scale: float, step: int) -> float:
    """Estimate the fraction of candidates that become discrete Laplace draws.

    The fraction only determines the number of attempts.
    """
    remainder_accepted = math.expm1(-step / scale) / (step * math.expm1(-1 / scale))
    return remainder_accepted * (1 + math.exp(-1 / scale)) / 2


def _gaussian_rate(variance: float, scale: int) -> float:
    """Return a lower bound on the fraction of Laplace draws that become Gaussian draws.

    The bound is tight for small and for large variances.
    """
    mass = max(1.0, math.sqrt(2 * math.pi * variance))
    return math.tanh(0.5 / scale) * math.exp(-variance / (2 * scale**2)) * mass


def _geometric(gamma: Fraction, count: int, entropy: Entropy) -> Integers:
    """Draw geometric numbers V with ``P(V >= v) = exp(-v gamma)``.

    Each number counts the heads before a tail in one stream of coins. The stream ends with the last
    tail. Dropping unfinished runs would make long runs too rare.
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
    """Draw independent coins that show heads with probability exp(-gamma).

    The comment at `COIN_SLACK` proves that the probability is exact.
    """
    words = entropy.words(exponents.floats.size)
    difference = words * 2.0**-64 - np.exp(-exponents.floats)
    heads = difference < 0
    for i in np.flatnonzero(np.abs(difference) <= COIN_SLACK).tolist():
        heads[i] = _decide_exactly(int(words[i]), exponents.exact(i), entropy)
    return heads


def _decide_exactly(first_bits: int, gamma: Fraction, entropy: Entropy) -> bool:
    """Return True if ``U < exp(-gamma)`` for a uniform number U with the given first 64 bits.

    The function encloses U and ``exp(-gamma)`` in decimals, rounded outwards. It draws further bits
    of U until the enclosures are disjoint. `Decimal.exp` is correctly rounded, so the neighbours of
    its value enclose the true value.
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
    """Draw uniform integers of more than 62 bits and keep the integers below `bound`."""
    high, low = entropy.words(2 * tries).astype(object).reshape(2, tries)
    candidates: Integers = (high << 64 | low) >> (128 - (bound - 1).bit_length())
    return candidates[candidates < bound]


def _tries(missing: int, rate: float) -> int:
    """Return a number of attempts that usually gives `missing` successes.

    A limit on the number saves memory.
    """
    return min(MAX_ATTEMPTS, int(1.01 * missing / rate) + 16)


def _fill(
    count: int, rate: float, draw: Callable[[int], Integers], kind: type = np.int64
) -> Integers:
    """Collect accepted draws in order, in as many rounds as necessary.

    Parameters
    ----------
    count : int
        Number of accepted draws.

    rate : float
        Expected fraction of accepted attempts.

    draw : callable
        Function from a number of attempts to the accepted draws.

    kind : type
        Type of the entries.

    Returns
    -------
    ndarray of int, shape (count,)
        Accepted draws.

    """
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
        f"The {name} of the integer noise is {given}, but it must lie between {least} and {most}. "
        "Choose another lattice step or budget."
    )
