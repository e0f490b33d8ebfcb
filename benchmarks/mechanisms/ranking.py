"""Rank methods over many tables, with the critical difference between mean ranks.

The module uses Friedman ranks with Nemenyi's critical difference (Demsar, "Statistical comparisons
of classifiers over multiple data sets", JMLR 2006). A block is one table. Cells of the same table
are not independent, so their ranks are averaged first. The critical difference is thus cautious.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import rankdata, studentized_range

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

SIGNIFICANCE = 0.05


def mean_ranks(errors: Matrix, blocks: list[str]) -> Matrix:
    """Return the (k,) mean ranks of methods from (cells, k) errors; 1 is the best.

    Ranks are averaged in each block, and then over the blocks. Equal errors share their ranks.
    """
    ranks = rankdata(errors, axis=1)
    names = np.array(blocks)
    means = [ranks[names == name].mean(axis=0) for name in dict.fromkeys(blocks)]
    return np.mean(means, axis=0)


def critical_difference(competitors: int, blocks: int, significance: float = SIGNIFICANCE) -> float:
    """Return the difference of two mean ranks that is significant by Nemenyi's test."""
    quantile = studentized_range.ppf(1 - significance, competitors, np.inf) / math.sqrt(2)
    return float(quantile * math.sqrt(competitors * (competitors + 1) / (6 * blocks)))


def cliques(ranks: Mapping[str, float], difference: float) -> list[tuple[float, float]]:
    """Return the widest ranges of ranks whose ends the test does not separate."""
    ordered = sorted(ranks.values())
    found: list[tuple[float, float]] = []
    for low in ordered:
        high = max(rank for rank in ordered if rank - low <= difference)
        if high > low and (not found or high > found[-1][1]):
            found.append((low, high))
    return found
