"""Counts of rows by the size of their integer image."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from dpcov.moment import squared_lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpcov.moment import Lattice


class NormCounter:
    """Counts of integer rows z in the bins that `limits`, (m,) ascending, set for ||z||^2.

    ||z||^2 is at most 2^40, so every partial sum of squares is an integer that float64 holds: bins
    depend neither on the order of the sum nor on the block.
    """

    __slots__ = ("_counts", "_features", "_limits")

    def __init__(self, limits: NDArray[np.float64], features: int) -> None:
        self._limits = limits
        self._features = features
        self._counts: NDArray[np.int64] = np.zeros(len(limits) + 1, np.int64)

    def add(self, block: NDArray[np.float64]) -> None:
        """Count the rows of a (d, m) block of integer-valued floats."""
        norms = squared_lengths(block[: self._features])
        bins = np.searchsorted(self._limits, norms, side="left")
        self._counts += np.bincount(bins, minlength=len(self._counts))

    def merge(self, other: NormCounter) -> None:
        """Add another counter's counts to this one."""
        self._counts += other._counts

    def packed(self) -> NDArray[np.int64]:
        """(m + 1,) counts, to be added to those of others."""
        return self._counts

    def add_packed(self, counts: NDArray[np.int64]) -> None:
        """Add a sum of `packed` counts to this one."""
        self._counts += counts

    def total(self) -> NDArray[np.int64]:
        """(m + 1,) counts; bin i holds limits[i-1] < ||z||^2 <= limits[i]."""
        return self._counts


def squared_limits(
    edges: Sequence[float | Fraction] | NDArray[np.float64], lattice: Lattice
) -> NDArray[np.float64]:
    """floor((edge / step)^2) for edges in units of an encoded row: ||z|| step <= edge, exactly.

    Raises
    ------
    ValueError : the edges are not finite, not ascending, or below 0.

    """
    if not all(0 <= edge < math.inf for edge in edges):
        raise ValueError("edges of norms must be finite and at least 0")
    if any(low >= high for low, high in itertools.pairwise(edges)):
        raise ValueError("edges of norms must ascend")
    step = Fraction(lattice.step)
    above_all = lattice.bound + 1
    limits = [min(above_all, math.floor((Fraction(edge) / step) ** 2)) for edge in edges]
    return np.array(limits, np.float64)
