"""Noisy counts of long rows by column, and the clipping losses that they imply.

A long row that lies along one column is counted by column and by octave of its squared norm
(`dpcov.rows.long_rows`). The counts show which columns have heavy tails. The map of the last round
shrinks these columns, so clipping takes less from them (`dpcov.mechanisms.adapted_map`).

A candidate tail of a column has no rows, or it has a size N with a log-uniform distribution. Octave
i has N s^i rows, or all N rows are in one octave beyond the first one. The noisy counts of a column
weight the candidates. The counts of all columns together determine which fraction of the columns
has a tail (empirical Bayes).

The directions of the rows within a cell are not known. The two parts of the loss have different
assumptions:

- The loss along the column, as if the other part of the row were as long as a typical row.
- The loss in other directions, as if all squared cosines of a cell were equally frequent.

Terms: an *octave* is a range of squared norms whose upper end is twice its lower end. The *factor*
of a column is the factor by which the map of the last round shrinks rows along the column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.published.norm_histogram import OCTAVES_BELOW_TYPICAL, NormHistogram
from dpcov.published.tails import quantile_of_sum
from dpcov.rows.long_rows import MIN_SQUARED_COSINE

if TYPE_CHECKING:
    from dpcov.core.arrays import Integers, Matrix, Vector

# "Tuned" means: set on the part `tune` of benchmarks/tables.toml and on other tables with outliers,
# flags and common factors.

# --- Candidate tails ---

# Number of candidate sizes N above 0. Source: tuned.
SIZE_COUNT = 12
# Smallest candidate size, in standard deviations of the noise of a count. Source: tuned.
MIN_SIZE_SDS = 0.3
# The largest candidate size is at least this many standard deviations, and at least this multiple
# of the largest count. Source: tuned.
MAX_SIZE_SDS, MAX_SIZE_FACTOR = 3.0, 2.0
# Ratios s of the rows in an octave to the rows in the octave before. Source: tuned.
OCTAVE_RATIOS = np.array([0.06, 0.2, 0.4, 0.65])
# Prior probability that a tail is in one octave beyond the first one. Rare categories and wrong
# values are such rows. Only clear counts overcome a small probability. Source: tuned.
PRIOR_APART = 0.05
# Relative distance of a true count from a candidate tail, as a standard deviation.
# Source: tuned.
CANDIDATE_RELATIVE_SD = 0.3
# The prior fraction of columns with a tail has a beta distribution with these pseudo-counts.
# Source: tuned.
PRIOR_WITH_TAIL, PRIOR_COLUMNS = 0.5, 2.5
# Starting value and number of steps of the fraction of columns with a tail. Source: tuned.
FIRST_FRACTION, FRACTION_STEPS = 0.8, 20
# Positions within an octave, as fractions of its logarithmic width, and their weights.
# Source: tuned.
OCTAVE_NODES, NODE_WEIGHTS = (np.arange(4) + 0.5) / 4, np.array([0.4, 0.3, 0.2, 0.1])
# Quantile of the loss that a normal error of the same quantile represents. A mixture of no tail and
# a long tail has no useful variance. Source: tuned.
LOSS_QUANTILE = 0.95
# Smallest factor of a column. Source: not recorded.
MIN_FACTOR = 1 / 8
# Squared cosines between a row and its column, for the loss in other directions. They are the
# midpoints of two halves of the possible range.
SQUARED_COSINES = float(MIN_SQUARED_COSINE) + (1 - float(MIN_SQUARED_COSINE)) * np.array(
    [0.25, 0.75]
)


@dataclass(frozen=True)
class SplitHistogram(NormHistogram):
    """Norm histogram that counts long rows along one column by column.

    The bins count all other rows. The last octave of a column ends with the last bin.

    Attributes
    ----------
    column_counts : tuple of tuple of int, length p
        Number of long rows in each of k octaves, plus noise, for each column. The noise has the
        same distribution as the noise of the bins.

    factors : tuple of float, length p
        Factor by which the map of the last round shrinks rows along each column, from
        `MIN_FACTOR` to 1.

    """

    column_counts: tuple[tuple[int, ...], ...]
    factors: tuple[float, ...]

    @property
    def all_counts(self) -> Vector:
        """All noisy counts: the counts of the bins, and then the counts of each column."""
        return np.append(super().all_counts, np.array(self.column_counts, float))

    def expected_losses(self, radius: float, factors: Vector) -> Matrix:
        """Estimate the squared norm that clipping takes along each column.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        factors : ndarray, shape (q,)
            Factors by which the map could shrink rows along a column.

        Returns
        -------
        ndarray, shape (p, q)
            Expected losses for each column and factor, in units of a squared norm before shrinking.

        """
        rows, weights = self._candidates
        return np.asarray(weights @ rows @ self._loss_along(radius, factors, 1.0))

    def column_losses(self, radius: float) -> tuple[Vector, Vector]:
        """Return the loss along each column as the standard deviation of a normal error.

        The normal error and the loss have the same quantile `LOSS_QUANTILE`.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        Returns
        -------
        squared_norms, norms : ndarray, shape (p,)
            Standard deviations of the loss in the sum of squared norms and in the sum of norms.

        """
        squared_norms, norms = (self._loss_quantiles(radius, power) for power in (1.0, 0.5))
        return squared_norms / ndtri(LOSS_QUANTILE), norms / ndtri(LOSS_QUANTILE)

    def loss_off_columns(self, radius: float) -> float:
        """Estimate the squared norm that clipping takes from long rows in other directions.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        Returns
        -------
        float
            Expected loss of all rows in the cells together, in units of a squared norm.

        """
        rows, weights = self._candidates
        squares = self._squares[:, None]
        shrunk = np.array(self.factors)[:, None, None] ** 2
        other = 1 - SQUARED_COSINES
        images = squares * (shrunk * SQUARED_COSINES + other)
        lost = np.mean(squares * other * np.maximum(1 - radius**2 / images, 0.0), axis=2)
        return float(np.sum(weights @ rows * lost))

    def loss_upper_bounds(self, radius: float, confidence: float) -> tuple[float, float]:
        """Compute upper confidence bounds on both losses, without a model of the tail.

        The bounds place each row of a cell at the upper end of its octave, with the smallest
        possible squared cosine. The map shrinks only the part along the column.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        confidence : float
            Confidence of each bound, between 0 and 1.

        Returns
        -------
        squared_norm_loss_bound, norm_loss_bound : float
            Bounds on the loss in the sum of squared norms and in the sum of norms.

        """
        along = float(MIN_SQUARED_COSINE)
        images = np.array(self.factors) ** 2 * along + 1 - along
        squares = np.append(self.upper_ends, np.outer(images, 2 * self._lower_ends))

        def bound(worst: Vector) -> float:
            margin = quantile_of_sum(self.noise, worst, confidence)
            return max(0.0, float(self.all_counts @ worst) + margin)

        return (
            bound(np.maximum(squares - radius**2, 0.0)),
            bound(np.maximum(np.sqrt(squares) - radius, 0.0)),
        )

    def tail_loss_probability(self, radius: float, threshold: float) -> float:
        """Estimate the probability that tails lose more than a threshold.

        The tail is the undetectable tail of the bins, or the tail of one column.

        Parameters
        ----------
        radius : float
            Clipping radius, as a norm of transformed rows.

        threshold : float
            Loss in the sum of squared norms.

        Returns
        -------
        float
            Probability that at least one tail loses more than the threshold.

        """
        of_bins = super().tail_loss_probability(radius, threshold)
        losses, weights = self._losses(radius, 1.0)
        of_columns = np.minimum(np.sum(weights * (losses > threshold), axis=1), 1.0)
        return float(1 - (1 - of_bins) * np.prod(1 - of_columns))

    def long_rows(self, count: int) -> tuple[Integers, Vector]:
        """Return the long rows of a simulated table.

        Parameters
        ----------
        count : int
            Number of rows of the whole table.

        Returns
        -------
        columns : ndarray of int, shape (m,)
            Column of each long row.

        norms : ndarray, shape (m,)
            Norm of the part along the column, after shrinking.

        """
        rows, weights = self._candidates
        found = weights @ rows
        total = self.row_estimates.sum() + found.sum()
        # The rounded numbers add up to the rounded total.
        numbers = np.diff(np.rint(np.cumsum(found) * count / max(total, 1.0)), prepend=0)
        norms = np.outer(self.factors, np.sqrt(self._squares)).ravel()
        columns = np.repeat(np.arange(len(found)), len(self._squares))
        repeats = numbers.astype(np.int64)
        return np.repeat(columns, repeats), np.repeat(norms, repeats)

    def _loss_quantiles(self, radius: float, power: float) -> Vector:
        """Return the quantile `LOSS_QUANTILE` of the loss along each column, shape (p,)."""
        losses, weights = self._losses(radius, power)
        order = np.argsort(losses, axis=1)
        below = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1) < LOSS_QUANTILE
        at = np.minimum(below.sum(axis=1, keepdims=True), order.shape[1] - 1)
        return np.take_along_axis(losses, np.take_along_axis(order, at, axis=1), axis=1)[:, 0]

    def _losses(self, radius: float, power: float) -> tuple[Matrix, Matrix]:
        """Return the losses of the candidate tails and their weights, both of shape (p, h)."""
        rows, weights = self._candidates
        factors = np.array(self.factors)
        losses = rows @ self._loss_along(radius, factors, power) * factors ** (2 * power)
        return losses.T, weights

    def _loss_along(self, radius: float, factors: Vector, power: float) -> Matrix:
        """Return the loss of a row along its column at each node of the octaves.

        The other part of the row is as long as a typical row. It uses a part of the radius, and the
        map does not shrink it.

        Parameters
        ----------
        radius : float
            Clipping radius.

        factors : ndarray, shape (q,)
            Factors by which the map shrinks the part along the column.

        power : float
            1 for squared norms, 1/2 for norms.

        Returns
        -------
        ndarray, shape (4 k, q)
            Losses before shrinking.

        """
        squares = self._squares[:, None]
        typical = self.upper_ends[0] * 2.0**OCTAVES_BELOW_TYPICAL
        other = np.minimum(typical, (1 - float(MIN_SQUARED_COSINE)) * squares)
        along = squares - other
        images = along * factors**2 + other
        return np.asarray(along**power * np.maximum(1 - (radius**2 / images) ** power, 0.0))

    @property
    def _lower_ends(self) -> Vector:
        """Lower ends of the octaves of a column, as squared norms in ascending order."""
        octaves = len(self.column_counts[0])
        return np.asarray(self.upper_ends[-1] * 2.0 ** -np.arange(octaves, 0.0, -1.0))

    @property
    def _squares(self) -> Matrix:
        """Squared norms at the nodes of all octaves, shape (4 k,)."""
        return np.outer(self._lower_ends, 2.0**OCTAVE_NODES).ravel()

    @cached_property
    def _candidates(self) -> tuple[Matrix, Matrix]:
        """Candidate tails and their weights.

        Returns
        -------
        rows : ndarray, shape (h, 4 k)
            Rows at each node of each octave for each candidate.

        weights : ndarray, shape (p, h)
            Weights of the candidates for each column. The weights of a column sum to 1.

        """
        counts = np.array(self.column_counts, float)
        octaves, deviation = counts.shape[1], self.noise.standard_deviation
        largest = max(MAX_SIZE_SDS * deviation, MAX_SIZE_FACTOR * float(counts.max()))
        sizes = np.geomspace(MIN_SIZE_SDS * deviation, largest, SIZE_COUNT)
        falling = OCTAVE_RATIOS[:, None] ** np.arange(octaves)
        beyond = np.eye(octaves)[1:]
        shapes = np.concatenate([falling, beyond])
        tails = np.concatenate([np.zeros((1, octaves)), *(size * shapes for size in sizes)])
        shares = [(1 - PRIOR_APART * (octaves > 1)) / len(falling)] * len(falling)
        shares += [PRIOR_APART / (octaves - 1)] * len(beyond) if octaves > 1 else []
        prior = np.append(1.0, np.tile(shares, SIZE_COUNT) / SIZE_COUNT)
        likelihoods = self._likelihoods(counts, tails)
        fraction = FIRST_FRACTION
        for _ in range(FRACTION_STEPS):
            weights = (
                likelihoods * prior * np.append(1 - fraction, np.full(len(tails) - 1, fraction))
            )
            with_tail = 1 - weights[:, 0] / weights.sum(axis=1)
            fraction = (PRIOR_WITH_TAIL + with_tail.sum()) / (PRIOR_COLUMNS + len(counts))
        weights = likelihoods * prior * np.append(1 - fraction, np.full(len(tails) - 1, fraction))
        weights /= weights.sum(axis=1, keepdims=True)
        apart = np.append(False, np.tile(np.arange(len(shapes)) >= len(falling), SIZE_COUNT))
        # Isolated rows are at one node, and each node is equally likely.
        return (
            np.concatenate(
                [
                    np.kron(tails[~apart], NODE_WEIGHTS),
                    *(np.kron(tails[apart], node) for node in np.eye(len(NODE_WEIGHTS))),
                ]
            ),
            np.concatenate(
                [
                    weights[:, ~apart],
                    *[weights[:, apart] / len(NODE_WEIGHTS)] * len(NODE_WEIGHTS),
                ],
                axis=1,
            ),
        )

    def _likelihoods(self, counts: Matrix, tails: Matrix) -> Matrix:
        """Return relative likelihoods of the candidates for each column, shape (p, h)."""
        variances = self.noise.standard_deviation**2 + tails + (CANDIDATE_RELATIVE_SD * tails) ** 2
        logs = np.empty((len(counts), len(tails)))
        laplace = isinstance(self.noise, ScalarLaplace)
        for j, mine in enumerate(counts):
            if laplace:
                terms = np.abs(mine - tails) / np.sqrt(variances / 2) + 0.5 * np.log(variances)
            else:
                terms = 0.5 * ((mine - tails) ** 2 / variances + np.log(variances))
            logs[j] = -terms.sum(axis=1)
        return np.asarray(np.exp(logs - logs.max(axis=1, keepdims=True)))
