"""Random correlation matrices with a given size and redundancy, for simulated tables."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

# Largest power of the power law of the eigenvalues. Source: not recorded.
MAX_POWER = 12.0
# Largest reduction of the last eigenvalues, as a natural logarithm. Source: not recorded.
MAX_LOG_REDUCTION = 12.0
# Largest accepted ratio of the simulated size to the requested size. Source: not recorded.
SIZE_TOLERANCE = 1.02
# Number of halvings of an interval in a search. The result has a relative error of about 1e-9.
BISECTION_COUNT = 30
# Variance added to the diagonal before a factorization.
JITTER = 1e-9


def typical_correlation(
    p: int, size: float, generator: np.random.Generator, explained: float = 0.0
) -> Matrix:
    """Return a random correlation matrix of a given size.

    The eigenvalues follow a power law, like the eigenvalues of most real tables. If the columns
    explain too little of each other, the function reduces the last third of the eigenvalues. It
    reduces fewer eigenvalues if the size cannot be reached otherwise.

    Parameters
    ----------
    p : int
        Number of columns.

    size : float
        Root mean square of the entries off the diagonal.

    generator : numpy.random.Generator
        Source of the random rotation.

    explained : float
        Smallest average fraction of a column's variance that the other columns explain (R^2).

    Returns
    -------
    ndarray, shape (p, p)
        Correlation matrix.

    """
    if p == 1 or size == 0:
        return np.eye(p)
    spectrum = _Spectrum(np.linalg.qr(generator.standard_normal((p, p)))[0], size)
    found = spectrum.sized(0, 1.0)
    if explained <= _explained(found):
        return found
    for last in range(p // 3, 0, -1):
        found = spectrum.explaining(last, explained)
        if _mean_square(found) <= (SIZE_TOLERANCE * size) ** 2:
            break
    return found


@dataclass(frozen=True, slots=True)
class _Spectrum:
    """Correlation matrices with the same rotation, shape (p, p), and the same size."""

    rotation: Matrix
    size: float

    def at(self, power: float, last: int, share: float) -> Matrix:
        """Return the matrix from eigenvalues 1, 2^-power, 3^-power and so on.

        The function multiplies the last `last` eigenvalues by `share`.
        """
        p = len(self.rotation)
        values = np.arange(1.0, p + 1) ** -power
        values[p - last :] *= share
        root = self.rotation * np.sqrt(values)
        matrix = root @ root.T
        deviations = np.sqrt(np.diag(matrix))
        correlation: Matrix = matrix / np.outer(deviations, deviations)
        return (correlation + JITTER * np.eye(p)) / (1 + JITTER)

    def sized(self, last: int, share: float) -> Matrix:
        """Return the matrix of the requested size, from the smallest power that reaches it."""
        power = _least(
            lambda power: _mean_square(self.at(power, last, share)) >= self.size**2, 0.0, MAX_POWER
        )
        return self.at(power, last, share)

    def explaining(self, last: int, explained: float) -> Matrix:
        """Return the matrix with the largest last eigenvalues that reach the explained fraction."""
        log_share = _least(
            lambda small: _explained(self.sized(last, math.exp(-small))) >= explained,
            0.0,
            MAX_LOG_REDUCTION,
        )
        return self.sized(last, math.exp(-log_share))


def _mean_square(correlation: Matrix) -> float:
    p = len(correlation)
    return (float(np.sum(correlation**2)) - p) / (p * (p - 1))


def _explained(correlation: Matrix) -> float:
    """Return the average fraction of a column's variance that the other columns explain."""
    return float(np.mean(1 - 1 / np.diag(np.linalg.inv(correlation))))


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Return the smallest number between the bounds for which `enough` holds, approximately."""
    for _ in range(BISECTION_COUNT):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return (low + high) / 2
