"""Noisy norm histograms, and the loss of squared norms that they imply.

A mechanism clips every transformed row to a radius. The noise distribution of the release does not
describe what clipping removes. The norm histogram describes this loss. The mechanism publishes the
histogram and chooses the radius from it.

This module estimates the clipping bias in two parts:

- Detectable rows. The counts are used as they are, up to the last octave above the noise level.
- Undetectable tail. Beyond the last detectable octave, the counts are extrapolated. Each candidate
  tail falls from bin to bin like the tail of a Weibull distribution: a power of the squared norm is
  exponentially distributed. The power 0 stands for a power law. The weight of a candidate depends
  on how it fits the noisy counts on both sides of the last detectable octave. The tails of bounded
  or normal columns fall faster and faster, and the detectable counts show this already. A sparse
  tail can add few rows far beyond the body, with an end at any bin.

The histogram cannot detect a group of few rows that lies far beyond all others, and no tail
describes it. The standard deviation of the estimate contains the groups that the noise explains
badly, if they are not too far away (`_suspicious_counts`). The other groups give a mark to figures
that depend on them (`largest_tail_losses`). The histogram can detect rows with a rare category,
because many rows share the category.

The histogram does not show the directions of the loss. `published.clipping` estimates them.

Terms: a *norm* is the Euclidean norm of a transformed row. An *octave* is a range of squared norms
whose upper end is twice its lower end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # its modules are imported at their first use, because importing them takes long
from scipy.special import ndtr

from dpcov.core.samplers.scalars import ScalarLaplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from dpcov.core.arrays import Array, Booleans, Integers, Matrix, Vector
    from dpcov.core.samplers import ScalarLaw

# "Tuned" means: set on the tables of the part `tune` in benchmarks/tables.toml.

# --- Layout of the bins ---

# Number of bins per octave. Source: not recorded.
BINS_PER_OCTAVE = 2
# Distance from the end of the first bin to the typical squared norm, in octaves. Source: with 3 or
# 12, no error differs by more than 9%, with a standard error of 5% (`make bench NAME=constants`).
OCTAVES_BELOW_TYPICAL = 6

# --- Noise thresholds ---

# Smallest detectable peak, in standard deviations of the noise of one octave. At or below this
# threshold, the whole histogram is below the noise level. Source: tuned (commit 989c65b).
MIN_PEAK_SNR = 4.0
# Probability that noise alone makes an empty octave detectable. There are about 20 octaves.
# The second value is smaller, because a false detection far from the other rows costs more.
# Source: with half or twice a value, no error differs by more than 2%
# (`make bench NAME=constants`).
FALSE_ALARM_ADJACENT = 5e-4  # for an octave next to a detectable octave
FALSE_ALARM_DISTANT = 1e-5  # for any other octave

# Probability that noise alone makes an empty bin suspicious. About 30 bins can be suspicious, so
# about 3% of the releases of a table without such rows have a suspicious bin.
FALSE_ALARM_SUSPICIOUS = 1e-3
# In the stated error, this probability is halved from bin to bin. The squared loss of a row
# doubles, so false alarms in all bins change the mean square of the stated error equally.
SUSPICION_RATIO = 0.5

# --- Candidate tails ---
# A candidate tail has a fall f and a power k. The fall is the logarithm of the ratio of two
# neighbouring counts, at the end of the last detectable bin. From one bin to the next, it grows by
# the factor 2^(k / 2). The falls between earlier bins are smaller by the same factor.
# "Tuned" is here: the best logarithmic score of the losses over 11 tables with light and heavy
# tails, at epsilon 0.3, 1 and 3.

# Falls f, dimensionless, shape (32,). Source: tuned.
TAIL_FALLS = np.geomspace(0.18, 4.0, 32)
# Powers k of the squared norm, dimensionless, shape (4,). With k = 0 the tail is a power law. With
# k = 0.5 the norm is exponentially distributed. k = 1 belongs to normal columns, and 1.5 to bounded
# columns. Source: tuned.
TAIL_POWERS = np.array([0.0, 0.5, 1.0, 1.5])
# Largest ratio of the counts of two octaves of a power law. With 1/2 or more, only the bounds of
# the columns keep the mean squared norm finite. Source: tuned.
MAX_POWER_LAW_RATIO = 0.65
# Relative distance of a true bin count from a candidate tail, as a standard deviation.
# Source: tuned.
TAIL_MODEL_RELATIVE_SD = 0.15
# Distance of the logarithm of the ratio of two detectable octaves from a candidate tail, as a
# standard deviation. Source: tuned.
OCTAVE_RATIO_LOG_SD = 0.5
# Number of octaves before the last detectable octave that a candidate tail is compared with.
# Source: tuned.
EARLIER_OCTAVES = 2

# --- Sparse tails ---
# A sparse tail adds few rows to a candidate tail, far beyond the body of the table. It starts at
# the first undetectable bin and ends after any bin. From bin to bin, its counts fall by a constant
# factor.

# Count of the first bin, as fractions of a bin of the last detectable octave, shape (4,). Above
# 0.5, the candidate tail itself continues the body. Source: tuned (`make bench NAME=tail_models`).
SPARSE_TAIL_SHARES = np.geomspace(0.02, 0.5, 4)
# Falls from bin to bin, dimensionless, shape (3,). With more than 0.5, hardly any row lies two
# octaves beyond the body. Source: as above.
SPARSE_TAIL_FALLS = np.array([0.0, 0.2, 0.5])
# Prior probability of a sparse tail. Without evidence, sparse tails then lie beyond the 97.5%
# quantile of the tails, and change no stated error (`NormHistogram._loss`). Noise can resemble a
# sparse tail. With a larger probability, stated errors of light tails therefore become too large
# (`make bench NAME=error_covariance`).
SPARSE_TAIL_PROBABILITY = 0.01
# Decay of the prior probability of the end, from bin to bin, dimensionless. Source: as for shares.
# Without a decay, slightly more intervals contain the loss, and stated errors are larger.
SPARSE_TAIL_DECAY = 0.1

# --- Numerical constants ---

# Normal quantile of a two-sided 95% interval.
Z_95 = 1.96
# Quantiles of the position of a row within its bin, shape (5,). A row can lie anywhere in its bin,
# so averages over a bin are averages over these positions.
BIN_NODES = (np.arange(5) + 0.5) / 5
# Smallest weight, as a fraction of the largest weight. Smaller weights are raised to this value,
# which can only raise the bound. Source: not recorded.
MIN_RELATIVE_WEIGHT = 1e-100
# Relative rounding error of the partial fractions. If this error is too large for alpha, only the
# Chernoff bound is used. Source: not recorded.
PARTIAL_FRACTION_ERROR = 1e-12
# Number of iterations that solve for the quantile of a sum of two Laplace draws. Each iteration
# divides the error by at least 10.
QUANTILE_ITERATIONS = 12
# Number of steps of the golden-section search for the best s. They shorten the interval of s by a
# factor of 2e8. The error of the least value is then of the order of 1e-17, because the bound is
# flat near its minimum.
GOLDEN_SECTION_STEPS = 40
# Limits of the fall within a bin. Beyond them, all rows lie at one end of the bin.
MIN_FALL, MAX_FALL = -6.0, 12.0
MIN_FALL_SIZE = 1e-9  # Smaller falls would divide by 0.
MIN_TAIL_COUNT = 1e-3  # Smallest expected count of a bin whose logarithm is computed.


def bin_upper_ends(typical_norm: float, norm_bound: float) -> Vector:
    """Return the upper ends of the bins.

    Parameters
    ----------
    typical_norm : float
        Root mean square norm of the rows, as the pilot query estimated it.

    norm_bound : float
        Upper bound on the norm of every row. Both norms are public before the rows are counted.

    Returns
    -------
    ndarray, shape (m,)
        Squared norms in ascending order. The last one is ``norm_bound**2``.

    """
    octaves = int(np.ceil(2 * np.log2(norm_bound / typical_norm))) + OCTAVES_BELOW_TYPICAL
    halvings = np.arange(BINS_PER_OCTAVE * octaves, -1.0, -1.0) / BINS_PER_OCTAVE
    upper_ends: Vector = norm_bound**2 * 2.0**-halvings
    return upper_ends


class ClippingLoss(NamedTuple):
    """Estimate of what clipping removes from a sum over rows.

    The distribution of the true loss is skewed: a long tail can lose much more than the estimate,
    and no tail loses less than nothing. A 95% interval therefore has two standard deviations. It
    reaches from ``estimate - 1.96 * lower`` to ``estimate + 1.96 * upper``.

    Attributes
    ----------
    estimate : float
        Estimated loss, in the units of the sum.

    standard_deviation : float
        Root mean square error of the estimate, in the same units.

    lower, upper : float
        Standard deviations for the lower and the upper end of an interval, in the same units.

    """

    estimate: float = 0.0
    standard_deviation: float = 0.0
    lower: float = 0.0
    upper: float = 0.0


@dataclass(frozen=True)
class NormHistogram:
    """Noisy counts of transformed rows by squared norm.

    Attributes
    ----------
    upper_ends : tuple of float, length m
        Upper ends of the bins, as squared norms in ascending order. The first bin starts at 0. No
        row lies beyond the last bin.

    counts : tuple of int, length m
        Number of rows in each bin, plus noise. A count can be negative.

    noise : ScalarLaw
        Distribution of the noise in each count, in rows.

    """

    upper_ends: tuple[float, ...]
    counts: tuple[int, ...]
    noise: ScalarLaw

    @property
    def below_noise_level(self) -> bool:
        """True if the noise hides the norms of most rows.

        In this case, the histogram does not show whether rows were clipped.
        """
        counts, standard_deviation = self.octaves
        return bool(counts.max() <= MIN_PEAK_SNR * standard_deviation)

    def squared_norm_loss(self, radius: float) -> ClippingLoss:
        """Estimate what clipping removes from the sum of squared norms.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        Returns
        -------
        ClippingLoss
            Loss in units of a squared norm.

        """
        return self._loss(squared_norm_excess(radius))

    def norm_loss(self, radius: float) -> ClippingLoss:
        """Estimate what clipping removes from the sum of norms.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        Returns
        -------
        ClippingLoss
            Loss in units of a norm.

        """
        return self._loss(_norm_excess(radius))

    def loss_upper_bounds(self, radius: float, confidence: float) -> tuple[float, float]:
        """Compute upper confidence bounds on both losses, without a model of the tail.

        The bounds place every row at the upper end of its bin. The noise in the counts is then the
        only source of randomness. Its quantile is computed by `quantile_of_sum`, because a normal
        quantile is too small for Laplace noise.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        confidence : float
            Confidence of each bound, between 0 and 1.

        Returns
        -------
        squared_norm_loss_bound : float
            Bound on the loss in the sum of squared norms.

        norm_loss_bound : float
            Bound on the loss in the sum of norms.

        """

        def bound(excess: Callable[[Matrix], Matrix]) -> float:
            worst = excess(np.array(self.upper_ends))
            margin = quantile_of_sum(self.noise, worst, confidence)
            return max(0.0, float(np.array(self.counts, float) @ worst) + margin)

        return bound(squared_norm_excess(radius)), bound(_norm_excess(radius))

    def largest_tail_losses(
        self, radius: float, longest: float, hidden_rows: float
    ) -> tuple[float, float]:
        """Return the largest losses of an undetectable tail that the counts do not reject.

        The tail is one of three tails, the one with the largest loss:

        - The largest candidate tail with a sparse tail. A likelihood ratio test at the 5% level
          compares these tails. It uses the counts from the last detectable octave on. The earlier
          counts can belong to a light body of the table, which does not show how a tail falls.
        - A few rows with the largest possible norm. The guarantee hides them from every release.
        - The separate group of the suspicious bins (`_suspicious_counts`).

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        longest : float
            Largest possible norm of a row of the tail.

        hidden_rows : float
            Number of rows that the guarantee hides (`privacy.hidden_units`).

        Returns
        -------
        squared_norm_loss : float
            Loss in the sum of squared norms. Infinity if the counts reject no tail.

        norm_loss : float
            Loss in the sum of norms. Infinity if the counts reject no tail.

        """
        if longest <= radius:
            return 0.0, 0.0
        if self._allows_any_tail:
            return math.inf, math.inf
        tail, group = self._tail, self._suspicious_counts(1.0)
        likely = tail.log_likelihoods >= tail.log_likelihoods.max() - Z_95**2 / 2

        def largest(excess: Callable[[Array], Array]) -> float:
            def possible(squares: Matrix) -> Matrix:
                return excess(squares) * (squares <= longest**2)

            mean, _ = self._excess_by_bin(possible, tail.falls)
            sparse_mean, _ = self._excess_by_bin(possible, tail.sparse_falls)
            of_group, _ = self._excess_by_bin(possible, tail.detectable_falls)
            losses = tail.total(mean, sparse_mean)[likely]
            few = hidden_rows * float(excess(np.array(longest**2)))
            return max(float(losses.max()), few, float(group @ of_group))

        return largest(squared_norm_excess(radius)), largest(_norm_excess(radius))

    @property
    def smallest_detectable_group(self) -> int:
        """Smallest number of rows that is detectable far from all other rows.

        Noise can still hide a group of this size, or show a smaller one.
        """
        return math.ceil(self._octave_quantile(FALSE_ALARM_DISTANT))

    @property
    def _allows_any_tail(self) -> bool:
        """True if the counts do not show how the tail falls."""
        only_first_octave = self._tail.detectable_bins <= BINS_PER_OCTAVE
        can_hide_a_row = self.noise.upper_quantile(FALSE_ALARM_ADJACENT) >= 1
        return self.below_noise_level or (only_first_octave and can_hide_a_row)

    def squared_norm_quantiles(self, count: int) -> Vector:
        """Return quantiles of the estimated distribution of the squared norms.

        Parameters
        ----------
        count : int
            Number of quantiles.

        Returns
        -------
        ndarray, shape (count,)
            Quantiles at the probabilities ``(i + 0.5) / count``, in ascending order.

        """
        tail = self._tail
        rows = np.append(0.0, np.cumsum(tail.detectable + tail.expected))
        probabilities = (np.arange(count) + 0.5) / count
        return np.interp(probabilities * rows[-1], rows, np.append(0.0, self.upper_ends))

    def _loss(self, excess: Callable[[Matrix], Matrix]) -> ClippingLoss:
        """Estimate the sum of an excess over all rows.

        The estimate adds the loss of the detectable rows and the loss of the tail. The loss of the
        tail is the weighted median over the candidate tails.

        The variance has five parts:

        - The spread of the tails: the mean square distance between their losses and the median. A
          loss beyond the 2.5% or the 97.5% quantile counts as this quantile. The two ends of an
          interval reach the two quantiles.
        - The square of the loss in the suspicious bins (`_suspicious_counts`).
        - The number of rows in the tail (Poisson distributed), and the positions of these rows.
          Hardly any table has rows in the farthest bins. Such rows count as if they lay in the last
          bin that a row reaches with a probability of 2.5% (`_Tail.farthest_bin`).
        - The noise in the counts of detectable bins.
        - The positions of the detectable rows within their bins.

        If the noise hides all rows, the estimate becomes 0. The former estimate then adds to the
        standard deviations (as the root of the sum of squares).

        Parameters
        ----------
        excess : callable
            Function from squared norms to the losses of such rows, of the same shape.

        Returns
        -------
        ClippingLoss
            Loss in the units of the excess.

        """
        tail = self._tail
        seen, seen_sd = self._excess_by_bin(excess, tail.detectable_falls)
        mean, sd = self._excess_by_bin(excess, tail.falls)
        sparse_mean, sparse_sd = self._excess_by_bin(excess, tail.sparse_falls)
        candidates = tail.total(mean, sparse_mean).ravel()
        weights = tail.weights.ravel()
        ends = (0.5, float(ndtr(-Z_95)), float(ndtr(Z_95)))
        median, lowest, highest = _weighted_quantiles(candidates, weights, ends)
        variance = float(self._suspicious_counts(SUSPICION_RATIO) @ seen) ** 2
        reached = self._reached_bins
        squares = tail.total(
            (mean**2 + sd**2)[:, reached], (sparse_mean**2 + sparse_sd**2)[:, reached]
        )
        variance += float(squares.ravel() @ weights)
        variance += self.noise.standard_deviation**2 * np.sum(seen[: tail.detectable_bins] ** 2)
        variance += np.sum((tail.detectable * seen_sd) ** 2)
        estimate = float(seen @ tail.detectable) + median
        spread = math.sqrt(weights @ (np.clip(candidates, lowest, highest) - median) ** 2)
        of_tails = np.array([spread, (median - lowest) / Z_95, (highest - median) / Z_95])
        deviations = np.sqrt(of_tails**2 + variance)
        if self.below_noise_level:
            return ClippingLoss(0.0, *np.hypot(estimate, deviations).tolist())
        return ClippingLoss(estimate, *deviations.tolist())

    @cached_property
    def _reached_bins(self) -> Integers:
        """Positions of the bins, shape (m,), with the last likely bin in place of farther bins."""
        last = self._tail.farthest_bin(1 - float(ndtr(Z_95)))
        return np.minimum(np.arange(len(self.counts)), last)

    def _excess_by_bin(
        self, excess: Callable[[Matrix], Matrix], falls: Array
    ) -> tuple[Array, Array]:
        """Compute the mean and the standard deviation of an excess over each bin.

        Within a bin, the density of the logarithm of the squared norm falls at a constant rate.

        Parameters
        ----------
        excess : callable
            Function from squared norms to the losses of such rows, of the same shape.

        falls : ndarray, shape (..., m)
            Falls of the density from the lower end to the upper end of each bin.

        Returns
        -------
        mean : ndarray, shape (..., m)
            Mean loss of a row in each bin.

        standard_deviation : ndarray, shape (..., m)
            Standard deviation of the loss within each bin.

        """
        upper_ends = np.array(self.upper_ends)
        lower_ends = np.append(0.0, upper_ends[:-1])
        falls = np.clip(falls, MIN_FALL, MAX_FALL)
        falls = np.where(np.abs(falls) < MIN_FALL_SIZE, MIN_FALL_SIZE, falls)
        nodes = BIN_NODES.reshape(-1, *[1] * falls.ndim)
        logs = -np.log1p(nodes * np.expm1(-falls)) / falls  # from 0 to 1 within a bin
        places = np.expm1(logs * math.log(2) / BINS_PER_OCTAVE) / (2 ** (1 / BINS_PER_OCTAVE) - 1)
        values = excess(lower_ends + places * (upper_ends - lower_ends))
        return values.mean(axis=0), values.std(axis=0)

    @property
    def octaves(self) -> tuple[Vector, float]:
        """Noisy counts by octave, and the standard deviation of the noise in each count.

        The last octave ends with the last bin. The first octave can lack bins; its count then has
        less noise.
        """
        counts = np.append(np.zeros(self.missing_bins), np.array(self.counts, float))
        standard_deviation = self.noise.standard_deviation * math.sqrt(BINS_PER_OCTAVE)
        return counts.reshape(-1, BINS_PER_OCTAVE).sum(axis=1), standard_deviation

    @property
    def missing_bins(self) -> int:
        """Number of bins that the first octave lacks."""
        return -len(self.counts) % BINS_PER_OCTAVE

    @property
    def detectable(self) -> tuple[int, int, Booleans]:
        """Positions of the last detectable octave and of the fullest octave, and the octaves above.

        The last detectable octave is the farther of two octaves:

        - The last octave of the unbroken run above the adjacent noise threshold. The run starts at
          the fullest octave.
        - The last octave of a window above the distant noise threshold. A window has two bins and
          can start at any bin. Rows of nearly equal norms can lie on both sides of the end of an
          octave. The octave of the second bin counts only if this bin alone is above the adjacent
          noise threshold.

        All octaves up to it count as detectable. The third part is an array of shape (o,), which is
        True for the octaves above the adjacent noise threshold.
        """
        counts, _ = self.octaves
        above_adjacent = counts > self._octave_quantile(FALSE_ALARM_ADJACENT)
        last = peak = int(np.argmax(counts))
        while last + 1 < len(counts) and above_adjacent[last + 1]:
            last += 1
        bins = np.array(self.counts, float)
        far = np.flatnonzero(bins[:-1] + bins[1:] > self._octave_quantile(FALSE_ALARM_DISTANT))
        far += bins[far + 1] > self.noise.upper_quantile(FALSE_ALARM_ADJACENT)
        octaves = (far + self.missing_bins) // BINS_PER_OCTAVE
        return max([last, *octaves.tolist()]), peak, above_adjacent

    def _octave_quantile(self, probability: float) -> float:
        """Return the number that the noise of one octave exceeds with this probability.

        The sum x of two Laplace draws with scale b exceeds x with the probability
        (1 / 2 + x / (4 b)) exp(-x / b). The function solves this equation by iteration.
        """
        if not isinstance(self.noise, ScalarLaplace):
            return math.sqrt(BINS_PER_OCTAVE) * self.noise.upper_quantile(probability)
        ratio = 0.0
        for _ in range(QUANTILE_ITERATIONS):
            ratio = math.log((0.5 + ratio / 4) / probability)
        return ratio * float(self.noise.scale)

    @cached_property
    def _tail(self) -> _Tail:
        """Detectable counts, and the tails that can lie beyond them.

        A tail consists of a candidate tail and a sparse tail. Its weight depends on the counts
        beyond the last detectable octave, and on the comparisons of `_candidate_tails` and of
        `_earlier_log_weights`.
        """
        last = self.detectable[0]
        first = BINS_PER_OCTAVE * (last + 1) - self.missing_bins  # first undetectable bin
        counts = np.array(self.counts, float)
        candidates, falls, fit, earlier = self._candidate_tails(first)
        sparse, sparse_falls, prior = self._sparse_tails(first)
        likelihoods = np.tile(fit[:, None], len(sparse))
        for at, candidate in enumerate(candidates[:, first:]):  # one by one to limit the memory
            beyond = candidate + sparse[:, first:]
            density = self._log_density(counts[first:] - beyond, self._count_variances(beyond))
            likelihoods[at] += density.sum(axis=1)
        log_weights = likelihoods + earlier[:, None] + np.log(prior)
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        expected = weights.sum(axis=1) @ candidates + weights.sum(axis=0) @ sparse
        detectable = np.maximum(counts, 0.0)
        detectable[first:] = 0.0
        seen = (detectable, self._detectable_falls(first, expected), first)
        return _Tail(*seen, candidates, falls, sparse, sparse_falls, weights, likelihoods, expected)

    def _candidate_tails(self, first: int) -> tuple[Matrix, Matrix, Vector, Vector]:
        """Return the candidate tails, and compare them with the last detectable octaves.

        Every candidate tail has as many rows in the last detectable octave as the noisy counts. It
        is compared with the two counts within this octave. This comparison is skipped if the last
        octave is the fullest one, or if the second count is not the smaller one.

        Parameters
        ----------
        first : int
            Position of the first undetectable bin.

        Returns
        -------
        counts, falls : ndarray, shape (h, m)
            Counts of the undetectable bins, and falls of the density within them.

        fit : ndarray, shape (h,)
            Log likelihood of the last detectable octave, up to a constant.

        earlier : ndarray, shape (h,)
            Logarithms of the weights of the octaves before it (`_earlier_log_weights`).

        """
        (octaves, _), (last, peak, _) = self.octaves, self.detectable
        counts, variance = np.array(self.counts, float), self.noise.standard_deviation**2
        powers, falls = (
            grid.ravel() for grid in np.meshgrid(TAIL_POWERS, TAIL_FALLS, indexing="ij")
        )
        growth = 2 ** (powers / BINS_PER_OCTAVE)
        excluded = (powers == 0) & (np.exp(-BINS_PER_OCTAVE * falls) > MAX_POWER_LAW_RATIO)
        before = _counts_before(falls, growth)
        fit = np.where(excluded, -np.inf, 0.0)
        rows = max(octaves[last], 0.0) * before[:, :BINS_PER_OCTAVE]
        if last > peak and counts[first - 2] > counts[first - 1]:
            apart = (counts[first - 1] - counts[first - 2] - rows[:, 0] + rows[:, 1]) / 2
            model_sd = TAIL_MODEL_RELATIVE_SD * rows.min(axis=1)
            fit -= 0.5 * apart**2 / (variance / 2 + model_sd**2)
        steps = falls[:, None] * growth[:, None] ** np.arange(len(counts) - first)
        beyond, within = np.zeros((2, len(falls), len(counts)))
        beyond[:, first:] = rows[:, :1] * np.exp(-np.cumsum(steps, axis=1))
        within[:, first:] = steps * np.sqrt(growth)[:, None]
        return beyond, within, fit, self._earlier_log_weights(before)

    def _sparse_tails(self, first: int) -> tuple[Matrix, Matrix, Vector]:
        """Return the sparse tails, of which the first one is empty.

        Parameters
        ----------
        first : int
            Position of the first undetectable bin.

        Returns
        -------
        counts, falls : ndarray, shape (s, m)
            Counts of the undetectable bins, and falls of the density within them.

        prior : ndarray, shape (s,)
            Prior probabilities.

        """
        counts = np.array(self.counts, float)
        body = max(float(counts[:first][-BINS_PER_OCTAVE:].mean()), 0.0)
        bins = np.arange(len(counts) - first)
        shares, falls, ends = (
            grid.ravel()[:, None]
            for grid in np.meshgrid(SPARSE_TAIL_SHARES, SPARSE_TAIL_FALLS, bins, indexing="ij")
        )
        sparse, within = np.zeros((2, 1 + len(shares), len(counts)))
        sparse[1:, first:] = shares * body * np.exp(-falls * bins) * (bins <= ends)
        within[1:] = falls
        prior = np.exp(-SPARSE_TAIL_DECAY * ends[:, 0])
        prior *= SPARSE_TAIL_PROBABILITY / max(prior.sum(), 1.0)
        return sparse, within, np.append(1 - prior.sum(), prior)

    def _suspicious_counts(self, ratio: float) -> Vector:
        """Return the counts of undetectable bins beyond the expected counts of the tail.

        A bin is suspicious if noise alone rarely explains this difference, or the sum of this
        difference and the next one. The comparison counts the errors of the expected counts as
        noise. Suspicious counts stand for a separate group of rows, which is in no tail. They are
        too uncertain for the estimate of the loss.

        Parameters
        ----------
        ratio : float
            Ratio of the probabilities of a false alarm in neighbouring bins. The first undetectable
            bin has `FALSE_ALARM_SUSPICIOUS`.

        Returns
        -------
        ndarray, shape (m,)
            Counts; 0 for the bins that are not suspicious.

        """
        tail = self._tail
        beyond = np.array(self.counts, float) - tail.expected
        beyond[: tail.detectable_bins] = 0.0
        sds = np.sqrt(self._count_variances(tail.expected))
        scaled = beyond * self.noise.standard_deviation / sds
        suspicious = np.zeros(len(beyond), np.bool_)
        for at in range(tail.detectable_bins, len(beyond)):
            alarm = FALSE_ALARM_SUSPICIOUS * ratio ** (at - tail.detectable_bins)
            suspicious[at] |= scaled[at] > self.noise.upper_quantile(alarm)
            if scaled[at : at + 2].sum() > self._octave_quantile(alarm):
                suspicious[at : at + 2] = True
        return np.where(suspicious, np.maximum(beyond, 0.0), 0.0)

    def _count_variances(self, expected: Array) -> Array:
        """Return the variances of noisy counts about the expected counts of a tail."""
        model_sds = TAIL_MODEL_RELATIVE_SD * expected
        return np.asarray(self.noise.standard_deviation**2 + expected + model_sds**2)

    def _log_density(self, errors: Matrix, variances: Matrix) -> Matrix:
        """Compute log densities of errors with these variances, up to a constant.

        The densities are Laplace densities if the noise is. A normal density would take the larger
        errors of Laplace noise for rows.
        """
        if isinstance(self.noise, ScalarLaplace):
            return np.asarray(-np.abs(errors) * np.sqrt(2 / variances) - 0.5 * np.log(variances))
        return log_normal_density(errors, variances)

    def _earlier_log_weights(self, before: Matrix) -> Vector:
        """Compare the ratios of the last detectable octaves with the candidate tails.

        A ratio is used only if both octaves are above the adjacent noise threshold, and neither
        lies before the fullest octave.

        Parameters
        ----------
        before : ndarray, shape (h, BINS_PER_OCTAVE * (1 + EARLIER_OCTAVES))
            Counts of the candidate tails (`_counts_before`).

        Returns
        -------
        ndarray, shape (h,)
            Logarithms of the weights, up to a constant.

        """
        (counts, deviation), (last, peak, above) = self.octaves, self.detectable
        expected = before.reshape(len(before), -1, BINS_PER_OCTAVE).sum(axis=2)
        log_weights = np.zeros(len(before))
        for back in range(1, EARLIER_OCTAVES + 1):
            if last - back < peak or not above[last - back]:
                break
            # The last octave can lie beyond a gap, so a count is at least its noise.
            later, earlier = np.maximum(counts[[last - back + 1, last - back]], deviation)
            error = math.log(earlier / later) - np.log(expected[:, back] / expected[:, back - 1])
            noise_variance = deviation**2 * (later**-2 + earlier**-2)
            log_weights -= 0.5 * error**2 / (noise_variance + OCTAVE_RATIO_LOG_SD**2)
        return log_weights

    def _detectable_falls(self, first: int, tail: Vector) -> Vector:
        """Return the falls within bins: half of the fall from the bin before to the bin after.

        Parameters
        ----------
        first : int
            Position of the first undetectable bin.

        tail : ndarray, shape (m,)
            Expected counts of the undetectable bins.

        Returns
        -------
        ndarray, shape (m,)
            Falls within the detectable bins. The other entries have no use.

        """
        least = self.noise.standard_deviation
        counts = np.maximum(np.array(self.counts, float), least)
        after = np.append(counts[1:], least)
        if first < len(counts):
            after[first - 1] = max(tail[first], MIN_TAIL_COUNT)
        return 0.5 * np.log(np.append(least, counts[:-1]) / after)


class _Tail(NamedTuple):
    """Detectable counts, and candidate counts of the undetectable tail.

    Attributes
    ----------
    detectable : ndarray, shape (m,)
        Counts of the detectable bins; negative counts become 0. All other bins have 0.

    detectable_falls : ndarray, shape (m,)
        Falls of the density within the detectable bins.

    detectable_bins : int
        Number of detectable bins, counted from the first bin.

    undetectable : ndarray, shape (h, m)
        Counts of the other bins under each of h candidate tails.

    falls : ndarray, shape (h, m)
        Falls of the density within the other bins under each candidate tail.

    sparse : ndarray, shape (s, m)
        Counts of the other bins that each of s sparse tails adds. The first sparse tail is empty.

    sparse_falls : ndarray, shape (s, m)
        Falls of the density within the other bins under each sparse tail.

    weights : ndarray, shape (h, s)
        Weight of each candidate tail with each sparse tail. The weights sum to 1.

    log_likelihoods : ndarray, shape (h, s)
        Log likelihoods of these tails without the earlier octaves, up to a constant.

    expected : ndarray, shape (m,)
        Expected counts of the other bins.

    """

    detectable: Vector
    detectable_falls: Vector
    detectable_bins: int
    undetectable: Matrix
    falls: Matrix
    sparse: Matrix
    sparse_falls: Matrix
    weights: Matrix
    log_likelihoods: Matrix
    expected: Vector

    def total(self, of_candidate: Matrix, of_sparse: Matrix) -> Matrix:
        """Return sums over the rows beyond the detectable bins, shape (h, s).

        Parameters
        ----------
        of_candidate : ndarray, shape (h, m)
            Mean of a figure over the rows of each bin, under each candidate tail.

        of_sparse : ndarray, shape (s, m)
            Mean of the figure over the rows of each bin, under each sparse tail.

        """
        of_smooth = np.sum(self.undetectable * of_candidate, axis=1)
        return np.asarray(of_smooth[:, None] + np.sum(self.sparse * of_sparse, axis=1))

    def farthest_bin(self, probability: float) -> int:
        """Return the last bin that a row reaches with at least this probability.

        A row that lies beyond a bin reaches it too. The number of rows in a bin is Poisson
        distributed. If all probabilities are smaller, the result is the first undetectable bin.
        """
        of_candidate, of_sparse = (
            np.exp(-np.cumsum(counts[:, ::-1], axis=1)[:, ::-1])
            for counts in (self.undetectable, self.sparse)
        )
        empty = np.sum(of_candidate * (self.weights @ of_sparse), axis=0)
        likely = np.flatnonzero(1 - empty >= probability)
        last = len(empty) - 1
        return int(likely[-1]) if len(likely) else min(self.detectable_bins, last)


def _counts_before(falls: Vector, growth: Vector) -> Matrix:
    """Return the counts of candidate tails before the tail, as fractions of the last octave.

    Parameters
    ----------
    falls, growth : ndarray, shape (h,)
        Fall of each candidate tail at the end of the last detectable bin, and growth of the falls
        from bin to bin.

    Returns
    -------
    ndarray, shape (h, BINS_PER_OCTAVE * (1 + EARLIER_OCTAVES))
        Counts of the last detectable bin, the bin before, and so on.

    """
    bins = BINS_PER_OCTAVE * (1 + EARLIER_OCTAVES)
    rises = np.cumsum(falls[:, None] * growth[:, None] ** -np.arange(1.0, bins), axis=1)
    found = np.column_stack([np.ones(len(falls)), np.exp(rises)])
    return np.asarray(found / found[:, :BINS_PER_OCTAVE].sum(axis=1, keepdims=True))


def _weighted_quantiles(values: Vector, weights: Vector, levels: tuple[float, ...]) -> list[float]:
    """Return the smallest values whose cumulative weight reaches each level."""
    order = np.argsort(values)
    places = np.searchsorted(np.cumsum(weights[order]), levels).clip(max=len(values) - 1)
    return [float(values[order[place]]) for place in places]


def squared_norm_excess(radius: float | Array) -> Callable[[Matrix], Matrix]:
    """Return a function that maps squared norms to the losses in the squared norm."""
    return lambda squares: np.maximum(squares - radius**2, 0.0)


def _norm_excess(radius: float) -> Callable[[Matrix], Matrix]:
    """Return a function that maps squared norms to the losses in the norm."""
    return lambda squares: np.maximum(np.sqrt(squares) - radius, 0.0)


def log_normal_density(errors: Array, variances: Array) -> Array:
    """Compute the logarithm of normal densities, up to a constant.

    Parameters
    ----------
    errors : ndarray, shape (...)
        Differences from the means.

    variances : ndarray, shape (...)
        Variances of the differences.

    Returns
    -------
    ndarray, shape (...)
        Logarithms of the densities.

    """
    return np.asarray(-0.5 * (errors**2 / variances + np.log(variances)))


# --- Upper quantiles of a weighted sum of noise ---


def quantile_of_sum(law: ScalarLaw, weights: Vector, level: float) -> float:
    """Return an upper bound on a quantile of a weighted sum of noise.

    Parameters
    ----------
    law : ScalarLaw
        Distribution of each draw.

    weights : ndarray, shape (m,)
        Weights of the m draws, at least 0.

    level : float
        Probability of the quantile, above 0 and below 1.

    Returns
    -------
    float
        Number that the sum exceeds with a probability of at most 1 - level.

    Notes
    -----
    Let X_1, X_2, ... be independent draws of the noise, let w_1, w_2, ... be weights of at least 0,
    and let alpha be 1 minus the confidence level. Each of two methods gives an upper bound on the
    quantile of the sum of w_i X_i. Both bounds are proved, so dpcov uses the smaller one.

    **Chernoff bound.** Let K(s) be the sum of the logarithms of the moment generating functions at
    s w_i. Then P(sum w X > x) <= exp(K(s) - s x) for every s > 0. The moment generating functions
    are:

    - Discrete Laplace noise with q = exp(-1 / scale): (1 - q)^2 / ((1 - q e^s) (1 - q e^-s)).
    - Discrete Gaussian noise: at most exp(s^2 variance / 2). See lemma 20 of Canonne, Kamath and
      Steinke (2020), The discrete Gaussian for differential privacy.

    **Comparison with continuous noise.** X is stochastically smaller than Y + c, where Y is
    continuous noise and c is a constant. Hence sum w X is stochastically smaller than
    sum w Y + c sum w. The constants are:

    - Gaussian noise: c = 1. See proposition 25 of the same paper.
    - Laplace noise: P(X >= k) = q^k / (1 + q) for k >= 1. This probability must not exceed
      P(Y >= k - c) on both sides of 0. With g = scale log(2 / (1 + q)), the constant is
      c = max(g, 1 - g).

    The sum of w_i Y_i is normal for Gaussian noise. For Laplace noise with different scales
    s_i = w_i scale, partial fractions of the characteristic function give the tail for x >= 0:

        P(sum w Y > x) = sum_i p_i exp(-x / s_i) / 2,
        p_i = product over j of 1 / (1 - (s_j / s_i)^2).

    """
    used = weights[weights > 0]
    if not used.size:
        return 0.0
    unit, alpha = float(used.max()), 1 - level
    relative = np.maximum(used / unit, MIN_RELATIVE_WEIGHT)
    bounds = _of_laplace if isinstance(law, ScalarLaplace) else _of_gaussian
    return unit * bounds(law, relative, alpha)


def _of_gaussian(law: ScalarLaw, weights: Vector, alpha: float) -> float:
    """Return the smaller of the two bounds for Gaussian noise."""
    deviation = law.standard_deviation * float(np.linalg.norm(weights))
    compared = -float(scipy.special.ndtri(alpha)) * deviation + float(weights.sum())
    return min(deviation * math.sqrt(-2 * math.log(alpha)), max(compared, 0.0))


def _of_laplace(law: ScalarLaw, weights: Vector, alpha: float) -> float:
    """Return the smaller of the two bounds for Laplace noise."""
    scale = law.standard_deviation / math.sqrt(2)
    return min(_chernoff(scale, weights, alpha), _compared(scale, weights, alpha))


def _chernoff(scale: float, weights: Vector, alpha: float) -> float:
    """Return the Chernoff bound at the best s. The bound is valid at every s.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise.

    weights : ndarray, shape (m,)
        Weights above 0, at most 1.

    alpha : float
        Probability that the sum exceeds the bound.

    Returns
    -------
    float
        Bound in the units of the noise.

    """
    at_zero = 2 * len(weights) * math.log(-math.expm1(-1 / scale))

    def bound(s: float) -> float:
        sides = [np.log(-np.expm1(side * s * weights - 1 / scale)).sum() for side in (1, -1)]
        return float(at_zero - sum(sides) - math.log(alpha)) / s

    return _least_between(bound, 1e-6 / scale, (1 - 1e-9) / scale)


def _least_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the least value that a golden-section search finds between two arguments.

    The search uses no `scipy.optimize`, whose import takes longer than all other work of a command.
    """
    ratio = (math.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(GOLDEN_SECTION_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = function(right)
    return min(at_left, at_right)


def _compared(scale: float, weights: Vector, alpha: float) -> float:
    """Return the bound from continuous Laplace noise.

    Parameters
    ----------
    scale : float
        Scale of the Laplace noise.

    weights : ndarray, shape (m,)
        Weights above 0, at most 1.

    alpha : float
        Probability that the sum exceeds the bound.

    Returns
    -------
    float
        Bound in the units of the noise. The bound is infinite if the partial fractions are not
        accurate enough.

    """
    scales = scale * weights
    with np.errstate(all="ignore"):
        factors = 1 / (1 - (scales / scales[:, None]) ** 2)
        np.fill_diagonal(factors, 1.0)
        parts = factors.prod(axis=1)
    if not np.abs(parts).sum() * PARTIAL_FRACTION_ERROR < alpha:
        return math.inf

    def above(x: float) -> float:
        return float(parts @ np.exp(-x / scales)) / 2 - alpha

    gap = scale * math.log(2 / (1 + math.exp(-1 / scale)))
    shift = max(gap, 1 - gap) * float(weights.sum())
    if above(0.0) <= 0:
        return shift
    low, high = 0.0, scale
    while above(high) > 0:
        low, high = high, 2 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if above(middle) > 0 else (low, middle)
    return shift + high
