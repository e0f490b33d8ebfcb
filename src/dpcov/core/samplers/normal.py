"""Standard normals and exponentials from cryptographic bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy

LARGEST = 9.2  # scipy.special.ndtri(2^-65) = -9.155


def standard_normals(count: int, entropy: Entropy) -> Matrix:
    """(count,) standard normals, by inversion of 63-bit tail probabilities and a sign.

    float64 accuracy; |x| < 9.2. Used where the law of the noise is continuous; see
    *Not protected* of the mechanisms that do.
    """
    words = entropy.words(count)
    tail = _midpoints(words) * 2.0**-64
    magnitude: Matrix = -scipy.special.ndtri(np.minimum(tail, 0.5))
    return np.where(words & np.uint64(1), magnitude, -magnitude)


def standard_exponentials(count: int, entropy: Entropy) -> Matrix:
    """(count,) standard exponentials, by inversion of 63-bit tail probabilities.

    float64 accuracy; 0 <= x < 44.4. Testing x >= -log p accepts with probability p.
    """
    return np.abs(np.log(_midpoints(entropy.words(count)) * 2.0**-63))


def _midpoints(words: NDArray[np.uint64]) -> Matrix:
    """The 63 upper bits of each word, plus one half."""
    return (words >> np.uint64(1)).astype(np.float64) + 0.5
