"""Correlations of normal variables that give increasing functions of them wanted correlations.

The correlation of two functions is a power series in the correlation of their normal variables. The
coefficients are products of Hermite coefficients. The series increases, so a bisection inverts it.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dpcov.core.arrays import Integers, Matrix, Vector

GRID = np.linspace(-8.5, 8.5, 4097)  # Values of a normal variable in numerical integrals.
WEIGHTS = np.diff(ndtr(np.concatenate([[-np.inf], (GRID[1:] + GRID[:-1]) / 2, [np.inf]])))
TERMS = 150  # Number of terms of the power series.
BATCH_PAIRS = 20_000  # Number of pairs in one batch.
ROOT_HALVINGS = 25  # Number of halvings of the interval of a latent correlation.
MAX_CORRELATION = 0.9999  # Largest absolute value of a correlation of normal variables.
MIN_GAIN = 0.01  # Smallest correlation of a function and its normal variable that is divided by.
# Largest number of alternating projections. Each one decomposes a matrix of order s, so large
# matrices get at most MAX_CUBES / s^3 projections.
MAX_PROJECTIONS = 200
MAX_CUBES = 4 * 10**7
ROUNDING_ERROR = 2e-5  # Largest distance of an entry from its bounds that counts as none.


class Pairs:
    """Correlations of s increasing functions of normal variables.

    Parameters
    ----------
    values : ndarray, shape (s, grid)
        Values of the functions on `GRID`.

    Attributes
    ----------
    deviations : ndarray, shape (s,)
        Standard deviations of the functions.

    gains : ndarray, shape (s,)
        Correlation of each function and its normal variable, at least `MIN_GAIN`.

    """

    def __init__(self, values: Matrix) -> None:
        table = values - (values @ WEIGHTS)[:, None]
        self.deviations = np.sqrt(table**2 @ WEIGHTS)
        constant = self.deviations == 0
        table /= np.where(constant, np.inf, self.deviations)[:, None]
        self._coefficients = _hermite(TERMS) @ (table * WEIGHTS).T
        self.gains = np.where(constant, 1.0, np.maximum(self._coefficients[0], MIN_GAIN))
        self._highest = (table * WEIGHTS) @ table.T
        self._lowest = (table * WEIGHTS) @ table[:, ::-1].T

    def of(self, latent: Matrix) -> Matrix:
        """Return the correlations for correlations of the normal variables, both (s, s)."""
        found = np.eye(len(latent))
        for at, series in self._batches():
            found[at] = found[at[::-1]] = series(latent[at])
        return found

    def latent(self, wanted: Matrix) -> Matrix:
        """Return the correlations of the normal variables for wanted correlations, both (s, s).

        A correlation that is too strong for its pair gets `MAX_CORRELATION` or its negative.
        """
        found = np.eye(len(wanted))
        for at, series in self._batches():
            high = np.full(len(at[0]), MAX_CORRELATION)
            low = -high
            for _ in range(ROOT_HALVINGS):
                middle = (low + high) / 2
                below = series(middle) < wanted[at]
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            found[at] = found[at[::-1]] = np.where(wanted[at] == 0, 0.0, (low + high) / 2)
        return found

    def bounds(self, wanted: Matrix, tolerance: Matrix) -> tuple[Matrix, Matrix]:
        """Return the smallest and the largest correlations of the normal variables, (s, s).

        The correlations are then off by at most the tolerance, or as little as the pair allows.
        """
        nearest = np.clip(wanted, self._lowest, self._highest)
        return self.latent(nearest - tolerance), self.latent(nearest + tolerance)

    def _batches(self) -> Iterator[tuple[tuple[Integers, Integers], Callable[[Vector], Vector]]]:
        """Yield positions of pairs, and their correlation as a function."""
        first, second = np.triu_indices(len(self.gains), 1)
        for start in range(0, len(first), BATCH_PAIRS):
            at = first[start : start + BATCH_PAIRS], second[start : start + BATCH_PAIRS]
            products = self._coefficients[:, at[0]] * self._coefficients[:, at[1]]
            # The difference from the truncated series is the sum of all further terms.
            above = self._highest[at] - products.sum(axis=0)
            below = self._lowest[at] - (-1.0) ** np.arange(1, TERMS + 1) @ products

            yield at, partial(_series, products, below, above)


def _hermite(terms: int) -> Matrix:
    """Return normalised Hermite polynomials 1 to `terms` on the grid, shape (terms, grid)."""
    found = [np.ones_like(GRID), GRID]
    for n in range(1, terms):
        found.append((GRID * found[n] - math.sqrt(n) * found[n - 1]) / math.sqrt(n + 1))
    return np.array(found[1:])


def _series(products: Matrix, below: Vector, above: Vector, latent: Vector) -> Vector:
    """Return the correlations of k pairs.

    Parameters
    ----------
    products : ndarray, shape (terms, k)
        Coefficients of the power series, from the first power on.

    below, above : ndarray, shape (k,)
        Sums of all further terms for the latent correlations -1 and 1.

    latent : ndarray, shape (k,)
        Correlations of the normal variables.

    Returns
    -------
    ndarray, shape (k,)
        Correlations.

    """
    found = np.zeros_like(latent)
    for power in products[::-1]:
        found = (found + power) * latent
    rest = np.where(latent > 0, above, below)
    return np.asarray(found + rest * np.abs(latent) ** (2 * TERMS))


def within(bounds: tuple[Matrix, Matrix], start: Matrix) -> tuple[Matrix, tuple[int, int] | None]:
    """Find a positive semidefinite matrix whose entries lie within bounds.

    Alternating projections come near such a matrix, if there is one.

    Parameters
    ----------
    bounds : pair of ndarray, shape (s, s)
        Smallest and largest entries. Both have the same positive diagonal.

    start : ndarray, shape (s, s)
        Matrix from which the projections start.

    Returns
    -------
    found : ndarray, shape (s, s)
        Positive semidefinite matrix with this diagonal.

    outside : (int, int) or None
        Position of the entry that is farthest from its bounds, or None if all entries are within
        their bounds.

    """
    low, high = bounds
    if not len(low):
        return start, None
    near, outside = np.clip(start, low, high), None
    for _ in range(min(MAX_PROJECTIONS, MAX_CUBES // len(low) ** 3) or 1):
        values, vectors = np.linalg.eigh(near)
        found = (vectors * np.maximum(values, 0.0)) @ vectors.T
        scales = np.sqrt(np.diag(low) / np.maximum(np.diag(found), 1e-300))
        scaled = found * np.outer(scales, scales)
        distance = np.maximum(low - scaled, scaled - high)
        row, column = divmod(int(distance.argmax()), len(low))
        outside = (row, column) if distance[row, column] > ROUNDING_ERROR else None
        if outside is None:
            break
        near = np.clip(found, low, high)
    return scaled, outside
