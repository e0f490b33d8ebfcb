"""Compute a lower bound on the average length of private intervals.

An interval contains a statistic of every table with probability `LEVEL`. Consider the interval of
one table and the statistic of the table with k more rows. Privacy bounds from below the probability
that the interval contains that statistic (`held`). The average length is then at least the sum of
these probabilities over k, times the range of one row's influence on the statistic (`effects`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]

LEVEL, MOST = 0.95, 200  # rows more, beyond which next to nothing is held
ORDERS = (1.01, 1.5, 2.0, 4.0, 16.0, 64.0)  # of Renyi divergences
CHANCES = np.linspace(0.0, LEVEL, 2000)


def rows_held(budget: dict[str, float]) -> float:
    """Return the sum of `held` over k rows."""
    return sum(held(k, **budget) for k in range(1, MOST))


def held(k: int, epsilon: float = 0.0, delta: float = 0.0, rho: float = 0.0) -> float:
    """Return the least chance, k rows away, of an event that has the chance `LEVEL`."""
    if rho:
        possible = np.ones(len(CHANCES), bool)
        for order in ORDERS:  # Bun and Steinke 2016: k rows have k^2 rho
            for p, q in ((CHANCES, LEVEL), (LEVEL, CHANCES)):
                possible &= _divergence(p, q, order) <= order * k**2 * rho
        return float(CHANCES[possible].min(initial=LEVEL))
    if k * epsilon > math.log(2**52):
        return 0.0
    grown, together = math.exp(k * epsilon), delta * math.expm1(k * epsilon) / math.expm1(epsilon)
    return max(1 - (1 - LEVEL) * grown - together, (LEVEL - together) / grown, 0.0)


def _divergence(p: Vector | float, q: Vector | float, order: float) -> Vector:
    """Return the Renyi divergence of two distributions of an event with these probabilities."""
    with np.errstate(divide="ignore", invalid="ignore"):
        powers = [a**order * b ** (1 - order) for a, b in ((p, q), (1 - p, 1 - q))]
        sums = np.where(np.equal(p, 0), powers[1], powers[0] + powers[1])
        return np.asarray(np.log(sums) / (order - 1))


def effects(rows: Vector, levels: Vector) -> dict[str, Vector]:
    """Return the largest change of means, covariances and correlations by one row, in deviations.

    Parameters
    ----------
    rows : ndarray of float, shape (n, p)
        Encoded features. Indicators of levels are between their minimum and maximum in the table.
        All other features are in [-1, 1].
    levels : ndarray of int, shape (p,)
        Number of the column that an indicator belongs to; -1 for all other features.
    """
    of_level = levels >= 0
    ends = [np.where(of_level, rows.min(axis=0), -1.0), rows.mean(axis=0)]
    ends.append(np.where(of_level, rows.max(axis=0), 1.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        z = ((np.array(ends) - ends[1]) / rows.std(axis=0)).T
    low, high = np.tril_indices(len(z))
    one, other = z[low][:, :, None], z[high][:, None, :]
    possible = np.ones((len(low), 3, 3), bool)
    possible[low == high] = np.eye(3, dtype=bool)
    possible[(low != high) & of_level[low] & (levels[low] == levels[high]), 2, 2] = False
    products = one * other
    related = np.corrcoef(rows, rowvar=False).reshape(len(z), -1)[low, high][:, None, None]
    figures = {"covariance": products, "correlation": products - related * (one**2 + other**2) / 2}
    found = {"mean": z[:, 2] - z[:, 0]}
    for name, figure in figures.items():
        most = np.where(possible, figure, -np.inf).max(axis=(1, 2))
        found[name] = most - np.where(possible, figure, np.inf).min(axis=(1, 2))
    return {name: change / len(rows) for name, change in found.items()}
