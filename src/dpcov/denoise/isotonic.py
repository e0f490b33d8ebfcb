"""Isotonic regression with equal weights, without the import of `scipy.optimize`.

The import takes longer than the denoising of a small matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector


def isotonic(values: Vector) -> Vector:
    """Return the nearest vector that never decreases, in Euclidean distance.

    The function pools adjacent violators (Busing 2022). The order of its additions is the order of
    `scipy.optimize.isotonic_regression`. Both results are therefore equal to the last bit.

    Parameters
    ----------
    values : ndarray, shape (m,)
        Finite values.

    Returns
    -------
    ndarray, shape (m,)
        Nearest vector.

    """
    x = values.tolist()
    means: list[float] = []
    sizes: list[int] = []
    at = 0
    while at < len(x):
        mean, size, at = x[at], 1, at + 1
        if means and means[-1] >= mean:
            total = sizes[-1] * means[-1] + mean
            size += sizes.pop()
            means.pop()
            mean = total / size
            while at < len(x) and mean >= x[at]:
                total, size = total + x[at], size + 1
                mean, at = total / size, at + 1
            while means and means[-1] >= mean:
                total += sizes[-1] * means.pop()
                size += sizes.pop()
                mean = total / size
        means.append(mean)
        sizes.append(size)
    return np.repeat(means, sizes)
