"""Noisy counts of rows by length, and what they tell of what a clip took.

A release of one matrix clips its rows at a radius. What that takes from the few longer ones the
noise law does not know; the counts from which the radius was chosen do. They are published whole:
rows that show are rows, and beyond the last that show a tail is taken to go on as it is seen. Of a
few rows far beyond all others, too few to show, they know nothing. Rows with a rare level, or a
rare one of two values, are far beyond all others, and many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from dpcov.core.arrays import Vector
    from dpcov.core.samplers import ScalarLaw

BINS = 2  # for an octave of squared length; a window is an octave
SHORTEST = 6  # octaves below the typical squared length, at which the first bin ends
SHOWS = 5.0  # deviations of its noise that the count of a window is above where rows show
HIDDEN = 3.0  # the same that the fullest window is not above where noise hides all rows
FAR = 7.0  # the same beyond a window in which none show: any of them may, and is costly if wrong
# Of the rows of one octave, the share that the next has. The last two that show tell it, from what
# a light tail has where it ends to nearly 1/2, at which rows have no mean square. Where only one
# shows it is 1/4, at which rows have no fourth moments, and covariances no sampling error.
LEAST_LEFT, MOST_LEFT, USUAL_LEFT = 0.1, 0.45, 0.25


def bin_ends(typical: float, longest: float) -> Vector:
    """(m,) squared lengths at which bins end, ascending to that of the longest row.

    `typical` and `longest` are lengths, known before the rows are counted.
    """
    octaves = int(np.ceil(2 * np.log2(longest / typical))) + SHORTEST
    ends: Vector = longest**2 * 2.0 ** (-np.arange(BINS * octaves, -1.0, -1.0) / BINS)
    return ends


@dataclass(frozen=True)
class Lengths:
    """Noisy counts of (mapped) rows by squared length.

    Attributes
    ----------
    ends : m squared lengths at which bins end, ascending; no row is beyond the last.
    counts : m integers, rows up to each end and above the one before, plus noise.
    law : of the noise in each count.

    """

    ends: tuple[float, ...]
    counts: tuple[int, ...]
    law: ScalarLaw

    @property
    def hidden(self) -> bool:
        """Whether noise hides how long most rows are, and so whether they were clipped."""
        counts, deviation = self._windows
        return bool(counts.max() <= HIDDEN * deviation)

    def expected(self, radius: float) -> float:
        """Sum over the rows that show of what a clip at `radius` takes from the squared length.

        Rows of a tail that does not show may as well be none: they are in `plausible` alone. So are
        all rows where noise hides how long most are.
        """
        if self.hidden:
            return 0.0
        squared, seen, _ = self._tail
        return float(np.maximum(squared - radius**2, 0.0) @ seen)

    def plausible(self, radius: float) -> tuple[float, float]:
        """Sums over rows of what a clip takes from the length, and from the squared length.

        Of what is plausible the root mean squares.
        """
        squared, _, reaches = self._tail
        lost = np.maximum(np.sqrt(squared) - radius, 0.0) @ reaches
        return float(lost), float(np.maximum(squared - radius**2, 0.0) @ reaches)

    @property
    def _windows(self) -> tuple[Vector, float]:
        """Counts of windows, and the standard deviation of the noise in each."""
        first = range(len(self.counts) % BINS, len(self.counts), BINS)
        deviation = self.law.standard_deviation * math.sqrt(BINS)
        return np.add.reduceat(np.array(self.counts, float), first), deviation

    @cached_property
    def _tail(self) -> tuple[Vector, Vector, Vector]:
        """(m,) squared lengths of bins, rows that show in them, and root mean squares of rows.

        From the fullest window up to the last in a row that shows, or the last that shows clearly,
        counts are what they are. Beyond
        each window has an exponential number of rows about a share of those in the one before: its
        deviation is its mean, and the count is combined with it by inverse variance.
        """
        first, (counts, deviation) = len(self.counts) % BINS, self._windows
        shows = counts > SHOWS * deviation
        last = peak = int(np.argmax(counts))
        while last + 1 < len(counts) and shows[last + 1]:
            last += 1
        last = max([last, *np.flatnonzero(counts > FAR * deviation)])
        left = USUAL_LEFT
        if last > peak and shows[last - 1]:
            left = float(np.clip(counts[last] / counts[last - 1], LEAST_LEFT, MOST_LEFT))
        seen = np.maximum(np.array(self.counts, float), 0.0)
        beyond = first + BINS * (last + 1)
        seen[beyond:] = 0.0
        reaches, before = seen.copy(), max(0.0, counts[last])
        for at in range(last + 1, len(counts)):
            prior = left * before
            weight = prior**2 / (prior**2 + deviation**2)
            mean = max(0.0, prior + weight * (counts[at] - prior))
            before = float(np.hypot(mean, prior * np.sqrt(1 - weight)))
            reaches[first + BINS * at :][:BINS] = before / BINS
        return (
            np.array(self.ends) * (1 + 2 ** (-1 / BINS)) / 2,
            seen,
            reaches,
        )  # the middles of bins
