"""Derived columns: products, squares and logarithms of numeric columns.

dpcov clips the parent columns to their public bounds first. The bounds of a derived column
therefore follow from public bounds. The functions use only operations whose result the standard
IEEE 754 fixes exactly. The value of a row therefore depends on no other row and on no machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

_LN2 = 0.6931471805599453  # natural logarithm of 2
_SQRT_HALF = 0.7071067811865476  # square root of 1/2
# Number of terms of the series of log((1 + s) / (1 - s)). Here |s| < 0.1716, so s^24 < 2^-60.
_SERIES_TERMS = 12


def logarithm(values: ArrayLike) -> Matrix:
    """Compute natural logarithms with a relative error of about 2^-52.

    Parameters
    ----------
    values : array_like, any shape
        Positive finite numbers or NaN.

    Returns
    -------
    ndarray, same shape
        Logarithms; NaN for NaN.

    """
    fractions, exponents = np.frexp(np.asarray(values, np.float64))
    small = fractions < _SQRT_HALF
    fractions = np.where(small, 2 * fractions, fractions)
    shift = (fractions - 1) / (fractions + 1)
    square = shift * shift
    total = np.zeros_like(shift)
    for power in range(2 * _SERIES_TERMS - 1, 0, -2):
        total = total * square + 1 / power
    return np.asarray((exponents - small) * _LN2 + 2 * shift * total)


def product(one: ArrayLike, other: ArrayLike) -> Matrix:
    """Compute the product of two arrays element by element.

    Parameters
    ----------
    one, other : array_like, same shape
        Numbers.

    Returns
    -------
    ndarray of float64, same shape
        Products.

    """
    return np.multiply(one, other, dtype=np.float64)
