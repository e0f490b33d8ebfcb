"""Conversion between latent correlations and the correlations of features.

Each feature is an increasing function of a standard normal variable, its latent variable. The
correlation of two features is a power series in their latent correlation. The coefficients of the
series are products of the Hermite coefficients of both functions. The correlation increases with
the latent correlation, so a bisection finds the latent correlation for a wanted correlation.
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
# Probabilities of the intervals around the values of the grid.
WEIGHTS = np.diff(ndtr(np.concatenate([[-np.inf], (GRID[1:] + GRID[:-1]) / 2, [np.inf]])))
TERMS = 150  # Number of terms of the power series.
BATCH_PAIRS = 20_000  # Number of pairs in one batch.
ROOT_HALVINGS = 25  # Number of bisection steps for a latent correlation.
MAX_CORRELATION = 0.9999  # Largest absolute value of a latent correlation.
MIN_GAIN = 0.01  # Smallest value of `Pairs.gains`, which are divisors.
# Largest number of alternating projections. Source: not recorded.
MAX_ALTERNATIONS = 200
# Largest number of projections times s^3, for a matrix of order s. Source: not recorded.
MAX_CUBES = 4 * 10**7
ROUNDING_ERROR = 2e-5  # An entry this far outside its bounds still counts as within them.


class Pairs:
    """Correlations of s features that are increasing functions of latent variables.

    Parameters
    ----------
    values : ndarray, shape (s, grid)
        Values of the functions on `GRID`.

    Attributes
    ----------
    deviations : ndarray, shape (s,)
        Standard deviations of the functions.

    gains : ndarray, shape (s,)
        Correlation of each function and its latent variable, at least `MIN_GAIN`.

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
        """Convert latent correlations to correlations of the features. Both have shape (s, s)."""
        found = np.eye(len(latent))
        for at, series in self._batches():
            found[at] = found[at[::-1]] = series(latent[at])
        return found

    def latent(self, wanted: Matrix) -> Matrix:
        """Convert correlations of the features to latent correlations. Both have shape (s, s).

        If a correlation is too strong for its pair, its latent correlation is `MAX_CORRELATION` or
        -`MAX_CORRELATION`.
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
        """Return the smallest and the largest acceptable latent correlations, each of shape (s, s).

        They keep each correlation of the features within its tolerance of the wanted correlation.
        If a pair cannot have the wanted correlation, the nearest possible correlation replaces it.
        """
        nearest = np.clip(wanted, self._lowest, self._highest)
        return self.latent(nearest - tolerance), self.latent(nearest + tolerance)

    def _batches(self) -> Iterator[tuple[tuple[Integers, Integers], Callable[[Vector], Vector]]]:
        """Yield positions of pairs, and the function that converts their latent correlations."""
        first, second = np.triu_indices(len(self.gains), 1)
        for start in range(0, len(first), BATCH_PAIRS):
            at = first[start : start + BATCH_PAIRS], second[start : start + BATCH_PAIRS]
            products = self._coefficients[:, at[0]] * self._coefficients[:, at[1]]
            # Remainders: the exact correlations for 1 and -1, minus the sums of the first terms.
            above = self._highest[at] - products.sum(axis=0)
            below = self._lowest[at] - (-1.0) ** np.arange(1, TERMS + 1) @ products

            yield at, partial(_series, products, below, above)


def _hermite(terms: int) -> Matrix:
    """Compute the normalised Hermite polynomials of degree 1 to `terms` on the grid."""
    found = [np.ones_like(GRID), GRID]
    for n in range(1, terms):
        found.append((GRID * found[n] - math.sqrt(n) * found[n - 1]) / math.sqrt(n + 1))
    return np.array(found[1:])


def _series(products: Matrix, below: Vector, above: Vector, latent: Vector) -> Vector:
    """Convert the latent correlations of k pairs to correlations of their features.

    Parameters
    ----------
    products : ndarray, shape (terms, k)
        Coefficients of the power series, from the first power on.

    below, above : ndarray, shape (k,)
        Remainders of the series after these terms, for the latent correlations -1 and 1.

    latent : ndarray, shape (k,)
        Latent correlations.

    Returns
    -------
    ndarray, shape (k,)
        Correlations of the features.

    """
    found = np.zeros_like(latent)
    for power in products[::-1]:
        found = (found + power) * latent
    rest = np.where(latent > 0, above, below)
    return np.asarray(found + rest * np.abs(latent) ** (2 * TERMS))


def within(bounds: tuple[Matrix, Matrix], start: Matrix) -> tuple[Matrix, tuple[int, int] | None]:
    """Find a positive semidefinite matrix whose entries lie within bounds.

    The function uses alternating projections, which approach such a matrix if one exists.

    Parameters
    ----------
    bounds : pair of ndarray, shape (s, s)
        Smallest and largest entries. Both have the same positive diagonal.

    start : ndarray, shape (s, s)
        Matrix from which the projections start.

    Returns
    -------
    found : ndarray, shape (s, s)
        Positive semidefinite matrix with the diagonal of the bounds.

    outside : (int, int) or None
        Position of the entry that is farthest from its bounds, or None if all entries are within
        their bounds.

    """
    low, high = bounds
    if not len(low):
        return start, None
    near, outside = np.clip(start, low, high), None
    for _ in range(min(MAX_ALTERNATIONS, MAX_CUBES // len(low) ** 3) or 1):
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
