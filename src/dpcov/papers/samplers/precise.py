"""Normal and chi-square numbers to about 100 digits, for laws that are scaled by private matrices.

Every decision and value is right within 10^-90 of that for ideal uniforms, of which 384 bits are
drawn: coupled with an ideal draw, a result differs by more than 10^-90 of its size only with a
probability below 10^-80.
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

DIGITS = 120
WORDS = 6  # of 64 bits, in a uniform number


def context() -> decimal.Context:
    """Arithmetic of these numbers."""
    return decimal.Context(prec=DIGITS, Emin=-(10**6), Emax=10**6, rounding=decimal.ROUND_HALF_EVEN)


def precise_normals(count: int, entropy: Entropy) -> Decimals:
    """(count,) standard normals, by Marsaglia's polar method."""
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
    """Chi-square number of at least 2 degrees of freedom, by Marsaglia and Tsang 2000."""
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
    """In (0, 1), at the middle of one of 2^384 cells."""
    bits = int.from_bytes(entropy.words(WORDS).tobytes(), "little")
    return Decimal(2 * bits + 1) / Decimal(2 ** (64 * WORDS + 1))
