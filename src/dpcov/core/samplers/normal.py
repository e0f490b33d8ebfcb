"""Standard normal and exponential random numbers from cryptographic random bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.core.arrays import Matrix
    from dpcov.core.entropy import Entropy

# Upper bound on the size of a drawn normal number. The largest size is 9.155, which is the normal
# quantile at the smallest tail probability, 2^-65.
MAX_NORMAL = 9.2


def standard_normals(count: int, entropy: Entropy) -> Matrix:
    """Draw standard normal numbers, as an array of shape ``(count,)``.

    The function inverts tail probabilities of 63 bits and draws a sign. The numbers have the
    accuracy of float64 and are smaller than 9.2 in size. Mechanisms with continuous noise use this
    function. Their section *Not protected* describes the consequences.
    """
    words = entropy.words(count)
    tail = _midpoints(words) * 2.0**-64
    magnitude: Matrix = -scipy.special.ndtri(np.minimum(tail, 0.5))
    return np.where(words & np.uint64(1), magnitude, -magnitude)


def standard_exponentials(count: int, entropy: Entropy) -> Matrix:
    """Draw standard exponential numbers, as an array of shape ``(count,)``.

    The function inverts tail probabilities of 63 bits. The numbers have the accuracy of float64 and
    lie between 0 and 44.4. An event ``x >= -log(p)`` has the probability p.
    """
    return np.abs(np.log(_midpoints(entropy.words(count)) * 2.0**-63))


def _midpoints(words: NDArray[np.uint64]) -> Matrix:
    """Return the upper 63 bits of each word, plus one half, as floats."""
    return (words >> np.uint64(1)).astype(np.float64) + 0.5
