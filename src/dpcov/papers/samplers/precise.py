"""Normal and chi-square random numbers with about 100 digits.

Samplers that multiply random numbers by private matrices need this accuracy.

Every comparison and value is accurate to 10^-90, for uniform numbers of 384 bits. A result can be
coupled with an ideal draw. The two differ by more than 10^-90 of their size only with a probability
below 10^-80.
"""

from __future__ import annotations

import decimal
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.entropy import Entropy

    Decimals = NDArray[np.object_]

# Number of decimal digits of the arithmetic.
DECIMAL_DIGITS = 120
# Number of 64-bit words in a uniform random number.
WORDS_PER_UNIFORM = 6


def context() -> decimal.Context:
    """Return the decimal context of the arithmetic."""
    return decimal.Context(
        prec=DECIMAL_DIGITS, Emin=-(10**6), Emax=10**6, rounding=decimal.ROUND_HALF_EVEN
    )


def precise_normals(count: int, entropy: Entropy) -> Decimals:
    """Draw standard normal numbers by Marsaglia's polar method, in an array of shape (count,)."""
    found: list[Decimal] = []
    with decimal.localcontext(context()):
        while len(found) < count:
            x, y = (2 * _uniform(entropy) - 1 for _ in range(2))
            square = x * x + y * y
            if 0 < square < 1:
                stretch = (-2 * square.ln() / square).sqrt()
                found += [x * stretch, y * stretch]
    return np.array(found[:count], dtype=object)


def precise_chi_square(degrees: int, entropy: Entropy) -> Decimal:
    """Draw a chi-square number with at least 2 degrees of freedom (Marsaglia and Tsang 2000)."""
    with decimal.localcontext(context()):
        shift = Decimal(degrees) / 2 - Decimal(1) / 3
        width = 1 / (9 * shift).sqrt()
        while True:
            normal: Decimal = precise_normals(1, entropy)[0]
            cube = (1 + width * normal) ** 3
            if cube <= 0:
                continue
            bound = normal * normal / 2 + shift * (1 - cube + cube.ln())
            if _uniform(entropy).ln() < bound:
                return 2 * shift * cube


def _uniform(entropy: Entropy) -> Decimal:
    """Draw a uniform number in (0, 1), at the middle of one of 2^384 cells."""
    bits = int.from_bytes(entropy.words(WORDS_PER_UNIFORM).tobytes(), "little")
    return Decimal(2 * bits + 1) / Decimal(2 ** (64 * WORDS_PER_UNIFORM + 1))
