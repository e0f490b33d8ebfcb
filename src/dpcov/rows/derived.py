"""Columns that a schema derives from others: products, squares and logarithms of numbers.

Cells are moved into the bounds of their column first, so the bounds of what is derived follow from
those, hence are public. Only arithmetic that IEEE 754 fixes to the last bit is used, element by
element: a row's value depends on no other row, and on no machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

_LN2 = 0.6931471805599453
_ROOT = 0.7071067811865476  # of 1/2
_TERMS = 12  # of the series of log((1 + s) / (1 - s)); |s| is below 0.1716, and s^24 below 2^-60


def logarithm(values: ArrayLike) -> Matrix:
    """Natural logarithms of positive finite numbers, to about an ulp; NaN of NaN."""
    fractions, exponents = np.frexp(np.asarray(values, np.float64))
    small = fractions < _ROOT
    fractions = np.where(small, 2 * fractions, fractions)
    shift = (fractions - 1) / (fractions + 1)
    square = shift * shift
    total = np.zeros_like(shift)
    for power in range(2 * _TERMS - 1, 0, -2):
        total = total * square + 1 / power
    return np.asarray((exponents - small) * _LN2 + 2 * shift * total)


def product(one: ArrayLike, other: ArrayLike) -> Matrix:
    """Products of numbers."""
    return np.multiply(one, other, dtype=np.float64)
