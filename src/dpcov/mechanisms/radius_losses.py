"""Clipping losses in the rule that chooses the clipping radius of the mechanism standardized.

Readers of a release file repeat this rule (`mechanisms.replay`), so the rule must give the same
radius in every version that knows `MAP_RULE`. The rule therefore has its own model of the tail,
which does not change. The model expects longer tails than the estimate of the clipping bias
(`published.norm_histogram`). Its candidate tails fall by at most a factor of 50 in the first
octave.

The rule uses a low estimate of the loss in the tail. The largest plausible loss would give a large
radius, and so more noise, on every table whose tail is undetectable. The stated errors of a release
contain the plausible losses.

A candidate tail has a ratio r and a power k. The first undetectable octave has r times as many rows
as the octave before it. From one octave to the next, r becomes r^(2^k).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpcov.published.norm_histogram import (
    BIN_NODES,
    BINS_PER_OCTAVE,
    MAX_POWER_LAW_RATIO,
    log_normal_density,
    squared_norm_excess,
)

if TYPE_CHECKING:
    from dpcov.core.arrays import Array, Matrix, Vector
    from dpcov.published.norm_histogram import NormHistogram

# "Tuned" means: set on the tables of the part `tune` in benchmarks/tables.toml.

# Ratios r, dimensionless, shape (18,). Source: tuned.
RULE_TAIL_RATIOS = np.geomspace(0.02, 0.7, 18)
# Powers k of the squared norm, dimensionless, shape (5,). Source: tuned.
RULE_TAIL_POWERS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
# Relative prior weight of each power, shape (5,). Source: tuned.
RULE_TAIL_PRIOR_WEIGHTS = np.array([2.0, 1.0, 1.0, 1.0, 1.0])
# Quantile of the candidate tails that the rule uses. Source: tuned on the tables `TUNED` of
# benchmarks/tails.py. The former rule used the median, and added the spread of the candidate tails.
# With the former rule, the errors of correlations and regressions were 14% larger. The errors of
# means were 6% larger and the errors of variances 1% larger. The error of the whole matrix was 3%
# smaller.
RULE_TAIL_QUANTILE = 0.25
# Relative distance of a true octave count from a candidate tail, as a standard deviation.
# Source: tuned.
RULE_TAIL_MODEL_RELATIVE_SD = 0.5
# Uncertainty of what clipping removes along one column, as the rule assumes it.
# `COLUMN_LOSS_RELATIVE_SD` in `published.clipping` has the same unit. `dpcov verify` repeats the
# rule on old files, so this number must stay, even if the other one changes. Source: tuned.
RULE_COLUMN_LOSS_RELATIVE_SD = 0.4


def squared_norm_losses(histogram: NormHistogram, radii: Vector) -> Vector:
    """Estimate the losses of squared norms for several clipping radii.

    Parameters
    ----------
    histogram : NormHistogram
        Noisy norm histogram.

    radii : ndarray, shape (r,)
        Clipping radii, as norms of transformed rows.

    Returns
    -------
    ndarray, shape (r,)
        Losses, in units of a squared norm.

    Notes
    -----
    A loss is the root of the sum of two squares. The first is the square of the estimated loss: the
    loss of the detectable rows, and the quantile `RULE_TAIL_QUANTILE` of the losses of the
    candidate tails. The second is the variance of the estimate, with three parts:

    - The number of rows in the tail (Poisson distributed), and the positions of these rows.
    - The noise in the counts of detectable bins.
    - The positions of the detectable rows within their bins.

    """
    detectable, detectable_bins, undetectable, weights = _tail(histogram)
    mean, sd = _excess_by_bin(histogram, radii)
    candidates = mean @ undetectable.T
    order = np.argsort(candidates, axis=1)
    cumulative_weights = np.cumsum(weights[order], axis=1)
    places = (cumulative_weights < RULE_TAIL_QUANTILE).sum(axis=1, keepdims=True)
    ordered = np.take_along_axis(candidates, order, axis=1)
    of_tail = np.take_along_axis(ordered, places, axis=1)[:, 0]
    variance = (mean**2 + sd**2) @ (weights @ undetectable)
    noise_variance = histogram.noise.standard_deviation**2
    variance += noise_variance * np.sum(mean[:, :detectable_bins] ** 2, axis=1)
    variance += np.sum((detectable * sd) ** 2, axis=1)
    return np.hypot(mean @ detectable + of_tail, np.sqrt(variance))


def _excess_by_bin(histogram: NormHistogram, radii: Vector) -> tuple[Array, Array]:
    """Compute the mean and the standard deviation of the loss of a row, each of shape (r, m)."""
    upper_ends = np.array(histogram.upper_ends)
    lower_ends = np.append(0.0, upper_ends[:-1])
    nodes = lower_ends + np.outer(BIN_NODES, upper_ends - lower_ends)
    values = squared_norm_excess(radii[:, None, None])(nodes)
    return values.mean(axis=-2), values.std(axis=-2)


def _tail(histogram: NormHistogram) -> tuple[Vector, int, Matrix, Vector]:
    """Return detectable counts, and candidate counts of the undetectable tail.

    The weight of a candidate tail depends on two comparisons with the noisy counts:

    - The counts beyond the last detectable octave.
    - The ratio of the last two detectable octaves. This comparison is skipped if the last octave is
      the fullest one, or if the other octave is below the adjacent threshold.

    Returns
    -------
    detectable : ndarray, shape (m,)
        Counts of the detectable bins; negative counts become 0. All other bins have 0.

    detectable_bins : int
        Number of detectable bins, counted from the first bin.

    undetectable : ndarray, shape (h, m)
        Counts of the other bins under each of h candidate tails.

    weights : ndarray, shape (h,)
        Weight of each candidate tail. The weights sum to 1.

    """
    (counts, standard_deviation), missing = histogram.octaves, histogram.missing_bins
    last, peak, above_adjacent = histogram.detectable
    powers, ratios = (
        grid.ravel() for grid in np.meshgrid(RULE_TAIL_POWERS, RULE_TAIL_RATIOS, indexing="ij")
    )
    prior_weights = np.repeat(RULE_TAIL_PRIOR_WEIGHTS, len(RULE_TAIL_RATIOS))
    excluded = (powers == 0) & (ratios > MAX_POWER_LAW_RATIO)
    log_weights = np.where(excluded, -np.inf, np.log(prior_weights))
    rows = np.full(len(ratios), max(counts[last], 0.0))
    if last > peak and above_adjacent[last - 1]:
        expected = rows / ratios
        noise_variance = standard_deviation**2 * (1 + ratios**-2)
        variance = noise_variance + (RULE_TAIL_MODEL_RELATIVE_SD * expected) ** 2
        log_weights += log_normal_density(counts[last - 1] - expected, variance)
    detectable_bins = BINS_PER_OCTAVE * (last + 1) - missing
    undetectable = np.zeros((len(ratios), len(histogram.counts)))
    for octave in range(last + 1, len(counts)):
        rows = rows * ratios
        ratios = ratios ** (2**powers)
        log_weights += log_normal_density(counts[octave] - rows, standard_deviation**2 + rows)
        # Within an octave, the counts fall by the same factor from bin to bin.
        falling = ratios[:, None] ** (np.arange(BINS_PER_OCTAVE) / BINS_PER_OCTAVE)
        parts = falling / falling.sum(axis=1, keepdims=True)
        first = BINS_PER_OCTAVE * octave - missing
        undetectable[:, first : first + BINS_PER_OCTAVE] = rows[:, None] * parts
    detectable = np.maximum(np.array(histogram.counts, float), 0.0)
    detectable[detectable_bins:] = 0.0
    weights = np.exp(log_weights - log_weights.max())
    return detectable, detectable_bins, undetectable, weights / weights.sum()
