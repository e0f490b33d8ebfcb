"""Correlation matrices that might be a table's: as large, and as redundant, as was guessed."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix

STEEPEST = 12.0  # power of a spectrum
SMALLEST = 12.0  # logarithm by which the last eigenvalues may be smaller
ROOMY = 1.02  # factor by which correlations may be larger than was guessed
HALVINGS = 30
JITTER = 1e-9  # of a correlation matrix that is to be factored


def typical_correlation(
    p: int, size: float, generator: np.random.Generator, explained: float = 0.0
) -> Matrix:
    """(p, p) random correlation matrix whose entries off the diagonal have root mean square `size`.

    Its eigenvalues fall by a power law, as those of real tables mostly do; the power is the one
    that gives the wanted size. Where all others are to explain more of a column than that (mean
    R^2), the last third of the eigenvalues is smaller, or fewer of them where a third leaves no
    room for that size.
    """
    if p == 1 or size == 0:
        return np.eye(p)
    spectrum = _Spectrum(np.linalg.qr(generator.standard_normal((p, p)))[0], size)
    found = spectrum.sized(0, 1.0)
    if explained <= _explained(found):
        return found
    for last in range(p // 3, 0, -1):
        found = spectrum.explaining(last, explained)
        if _mean_square(found) <= (ROOMY * size) ** 2:
            break
    return found


@dataclass(frozen=True, slots=True)
class _Spectrum:
    """Correlation matrices of one rotation, (p, p), whose entries have one root mean square."""

    rotation: Matrix
    size: float

    def at(self, power: float, last: int, share: float) -> Matrix:
        """That of eigenvalues 1, 2^-power, 3^-power, ..., the `last` ones times `share`."""
        p = len(self.rotation)
        values = np.arange(1.0, p + 1) ** -power
        values[p - last :] *= share
        root = self.rotation * np.sqrt(values)
        matrix = root @ root.T
        deviations = np.sqrt(np.diag(matrix))
        correlation: Matrix = matrix / np.outer(deviations, deviations)
        return (correlation + JITTER * np.eye(p)) / (1 + JITTER)

    def sized(self, last: int, share: float) -> Matrix:
        """The one with the least power that has the size."""
        power = _least(
            lambda power: _mean_square(self.at(power, last, share)) >= self.size**2, 0.0, STEEPEST
        )
        return self.at(power, last, share)

    def explaining(self, last: int, explained: float) -> Matrix:
        """The one whose last eigenvalues are as large as they can be for others to explain that."""
        log_share = _least(
            lambda small: _explained(self.sized(last, math.exp(-small))) >= explained, 0.0, SMALLEST
        )
        return self.sized(last, math.exp(-log_share))


def _mean_square(correlation: Matrix) -> float:
    p = len(correlation)
    return (float(np.sum(correlation**2)) - p) / (p * (p - 1))


def _explained(correlation: Matrix) -> float:
    """Average share of a column's variance that all others explain."""
    return float(np.mean(1 - 1 / np.diag(np.linalg.inv(correlation))))


def _least(enough: Callable[[float], bool], low: float, high: float) -> float:
    """Least number between the bounds, nearly, from which on `enough` holds."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return (low + high) / 2
