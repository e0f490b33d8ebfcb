"""Noisy counts of rows by length, and what they tell of what a clip took.

A release of one matrix clips its rows at a radius. What that takes from the few longer ones the
noise law does not know; the counts from which the radius was chosen do. They are published whole:
rows that show are rows. Beyond the last that show a tail is taken to go on as it is seen, or to end
sooner: as the law of the length's square to some power is exponential (Weibull). Of a few rows far
beyond all others, too few to show, they know nothing. Rows with a rare level, or a rare one of two
values, are far beyond all others, and many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import ndtr

from dpcov.releases.tails import quantile_of_sum

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import ScalarLaw

BINS = 2  # for an octave of squared length; a window is an octave
SHORTEST = 6  # octaves below the typical squared length, at which the first bin ends
HIDDEN = 4.0  # deviations of its noise that the fullest window is not above where noise hides all
# Chances that noise alone passes for rows in a window, of which there are about 20: beside others
# that show, and far from them, where it costs more.
NEAR, FAR = 5e-4, 1e-5
# Hypotheses of a tail. Of the rows of one octave, r is the share that the next has, and then
# r^(2^k): k is 0 for a power law, .5 for lengths of an exponential law and 1 for normal columns.
SHARES = np.geomspace(0.02, 0.7, 18)
BENDS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
WEIGHTS = np.array([2.0, 1.0, 1.0, 1.0, 1.0])  # laws that end nowhere are as likely as the two next
MOST_LEFT = 0.65  # of r where k is 0: rows with r of 1/2 have no mean square but for their bounds
MISFIT = 0.5  # relative deviation of a window from such a law (all measured on tables to tune)
REACH = 1.96  # deviations, of 95 % intervals
NODES = (np.arange(5) + 0.5) / 5  # of a bin, in which rows may lie anywhere


def bin_ends(typical: float, longest: float) -> Vector:
    """(m,) squared lengths at which bins end, ascending to that of the longest row.

    `typical` and `longest` are lengths, known before the rows are counted.
    """
    octaves = int(np.ceil(2 * np.log2(longest / typical))) + SHORTEST
    ends: Vector = longest**2 * 2.0 ** (-np.arange(BINS * octaves, -1.0, -1.0) / BINS)
    return ends


class Taken(NamedTuple):
    """A sum over rows of what a clip takes: an estimate and its standard deviation."""

    estimate: float
    deviation: float

    @property
    def size(self) -> float:
        return math.hypot(self.estimate, self.deviation)


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

    def squared(self, radius: float) -> Taken:
        """Estimate what clipping at `radius` removes from the sum of squared norms."""
        return self._taken(_squared(radius))

    def length(self, radius: float) -> Taken:
        """Estimate what clipping at `radius` removes from the sum of norms."""
        return self._taken(_length(radius))

    def most(self, radius: float, level: float) -> tuple[float, float]:
        """Return upper bounds on both that hold at this level each, whatever the rows' lengths are.

        Every row is counted at the upper end of its bin, so noise alone is random in the bound. Its
        quantile is one of `dpcov.releases.tails`: a normal one is too small for Laplace noise.
        """

        def bound(excess: Callable[[Matrix], Matrix]) -> float:
            most = excess(np.array(self.ends))
            reach = quantile_of_sum(self.law, most, level)
            return max(0.0, float(np.array(self.counts) @ most) + reach)

        return bound(_squared(radius)), bound(_length(radius))

    def chance(self, radius: float, size: float) -> float:
        """Estimate the probability that the undetectable tail loses more squared norm than this.

        Where rows show in the first window alone, which has all that are shorter, nothing tells how
        fast they become fewer: they may, unless noise hides none.
        """
        tail = self._tail
        if self.hidden or (tail.ends <= BINS and self.law.upper_quantile(NEAR) >= 1):
            return 1.0
        each, _ = self._of_bins(_squared(radius))
        return float(tail.weights @ (tail.beyond @ each > size))

    def like(self, count: int) -> Vector:
        """(count,) squared lengths of rows such as were counted, ascending."""
        tail = self._tail
        rows = np.append(0.0, np.cumsum(tail.seen + tail.weights @ tail.beyond))
        chances = (np.arange(count) + 0.5) / count
        return np.interp(chances * rows[-1], rows, np.append(0.0, self.ends))

    def _taken(self, excess: Callable[[Matrix], Matrix]) -> Taken:
        """Estimate the sum of an excess over all rows, as a function of the squared norm.

        Of the rows that show noise has its part, and where in its bin a row lies. Of others the
        estimate is the median over hypotheses, in each of which counts are Poisson; the deviation
        reaches their 97.5 % quantile, where that is farther than a normal law's. Where noise hides
        all rows any sum is no more than plausible.
        """
        each, within = self._of_bins(excess)
        tail = self._tail
        sums = tail.beyond @ each
        order = np.argsort(sums)
        places = np.searchsorted(np.cumsum(tail.weights[order]), [0.5, float(ndtr(REACH))])
        beyond, most = sums[order[places]]
        variance = max(tail.weights @ (sums - beyond) ** 2, ((most - beyond) / REACH) ** 2)
        variance += tail.weights @ (tail.beyond @ (each**2 + within**2))
        variance += self.law.standard_deviation**2 * np.sum(each[: tail.ends] ** 2)
        variance += np.sum((tail.seen * within) ** 2)
        found = Taken(float(tail.seen @ each + beyond), math.sqrt(variance))
        return Taken(0.0, found.size) if self.hidden else found

    def _of_bins(self, excess: Callable[[Matrix], Matrix]) -> tuple[Vector, Vector]:
        """(m,) mean and standard deviation of rows' excess, by bin."""
        ends = np.array(self.ends)
        begins = np.append(0.0, ends[:-1])
        at = excess(begins + np.outer(NODES, ends - begins))
        return at.mean(axis=0), at.std(axis=0)

    @property
    def _windows(self) -> tuple[Vector, float]:
        """Counts of windows, and the deviation of the noise in each; the first may have less."""
        counts = np.append(np.zeros(self._before), self.counts)
        deviation = self.law.standard_deviation * math.sqrt(BINS)
        return counts.reshape(-1, BINS).sum(axis=1), deviation

    @property
    def _before(self) -> int:
        """Bins that the first window lacks: the last one ends with the last bin."""
        return -len(self.counts) % BINS

    @cached_property
    def _tail(self) -> _Tail:
        """Rows that show, and what may lie beyond.

        Up to the last window in a row from the fullest one that shows, or the last that shows
        clearly, counts are what they are. Hypotheses of what is beyond are weighed by the noisy
        counts there, and by how many more rows the window before the last one has.
        """
        counts, deviation = self._windows
        near, far = (math.sqrt(BINS) * self.law.upper_quantile(chance) for chance in (NEAR, FAR))
        shows = counts > near
        last = peak = int(np.argmax(counts))
        while last + 1 < len(counts) and shows[last + 1]:
            last += 1
        last = max([last, *np.flatnonzero(counts > far)])
        bends, shares = (one.ravel() for one in np.meshgrid(BENDS, SHARES, indexing="ij"))
        weights = np.repeat(WEIGHTS, len(SHARES))
        logs = np.where((bends == 0) & (shares > MOST_LEFT), -np.inf, np.log(weights))
        rows = np.full(len(shares), max(counts[last], 0.0))
        if last > peak and shows[last - 1]:
            before = rows / shares
            variance = deviation**2 * (1 + shares**-2) + (MISFIT * before) ** 2
            logs += _log_normal(counts[last - 1] - before, variance)
        ended = BINS * (last + 1) - self._before
        beyond = np.zeros((len(shares), len(self.counts)))
        for at in range(last + 1, len(counts)):
            rows = rows * shares
            shares = shares ** (2**bends)
            logs += _log_normal(counts[at] - rows, deviation**2 + rows)
            falling = shares[:, None] ** (np.arange(BINS) / BINS)  # within the window
            first = BINS * at - self._before
            parts = falling / falling.sum(axis=1, keepdims=True)
            beyond[:, first : first + BINS] = rows[:, None] * parts
        seen = np.maximum(np.array(self.counts, float), 0.0)
        seen[ended:] = 0.0
        weights = np.exp(logs - logs.max())
        return _Tail(seen, ended, beyond, weights / weights.sum())


class _Tail(NamedTuple):
    """(m,) rows that show by bin, up to a bin; (h, m) others by hypothesis, and (h,) its weight."""

    seen: Vector
    ends: int
    beyond: Matrix
    weights: Vector


def _squared(radius: float) -> Callable[[Matrix], Matrix]:
    """Return a function that maps squared norms to the losses in the squared norm."""
    return lambda squares: np.maximum(squares - radius**2, 0.0)


def _length(radius: float) -> Callable[[Matrix], Matrix]:
    """Return a function that maps squared norms to the losses in the norm."""
    return lambda squares: np.maximum(np.sqrt(squares) - radius, 0.0)


def _log_normal(errors: Vector, variances: Vector) -> Vector:
    """Logarithms of normal densities, but for a constant."""
    return np.asarray(-0.5 * (errors**2 / variances + np.log(variances)))
