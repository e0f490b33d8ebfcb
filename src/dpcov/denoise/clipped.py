"""The clipping bias of a second moment, estimated from the noisy norm histogram.

The norm histogram estimates two totals (`NormHistogram`): T1, the norm that clipping removed from
all rows together, and T2, the squared norm. It does not show the directions of the loss.

The estimate assumes that the lost second moment has the shape of the estimated centered second
moment. The true loss can differ from this shape (`estimate.errors.ClippingErrors`).

The mechanism uses the same model when it chooses the clipping radius.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dpcov.published.norm_histogram import ClippingLoss

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix
    from dpcov.published.record import Record

# Standard deviation of the loss along one of p columns, in units of T2 / sqrt(p). With this value,
# the stated errors of correlations equal the true errors in the geometric mean. Source: tuned on
# the part `tune` of benchmarks/tables.toml (`make bench NAME=calibration`).
COLUMN_LOSS_RELATIVE_SD = 0.4
# dpcov warns about the tail if undetectable rows hold more than this fraction of the total variance
# with a probability above the second constant. Source of both: tuned on the part `tune` of
# benchmarks/tables.toml.
MAX_HIDDEN_VARIANCE_FRACTION, MAX_HIDDEN_VARIANCE_PROBABILITY = 0.2, 0.25
# Fraction of a second moment. A smaller centered second moment is a rounding error and has no
# direction. Source: not recorded.
MOMENT_ROUNDING_FRACTION = 1e-12


class ClippingBias:
    """What clipping removed from the second moment of the transformed rows.

    Parameters
    ----------
    release : Record
        Release. If it has no norm histogram (`Release.lengths`), the bias is 0.

    moment : ndarray, shape (d, d)
        Estimated second moment of the transformed rows. The lost second moment has the shape of
        the centered part of this matrix.

    Attributes
    ----------
    shape : ndarray, shape (p, p)
        Shape of the lost second moment, with trace 1 or 0.

    squared_norm : ClippingLoss
        Total T2 of the lost squared norms.

    norm : ClippingLoss
        Total T1 of the lost norms.

    """

    def __init__(self, release: Record, moment: Matrix) -> None:
        self._release = release
        self._p = release.lattice.features
        self.shape, self._total_variance = _shape(moment, self._p)
        self.squared_norm = self.norm = ClippingLoss(0.0, 0.0)
        if release.lengths is not None:
            self.squared_norm = release.lengths.squared_norm_loss(release.lattice.radius)
            self.norm = release.lengths.norm_loss(release.lattice.radius)

    @classmethod
    def of(cls, release: Record, moment: Matrix) -> ClippingBias:
        """Return the bias of a release with this denoised second moment of the encoded rows."""
        return cls(release, release.mapped(moment))

    @property
    def has_undetectable_tail(self) -> bool:
        """True if rows that the noise hides can hold much of the total variance."""
        release = self._release
        if release.lengths is None:
            return False
        threshold = MAX_HIDDEN_VARIANCE_FRACTION * self._total_variance
        probability = release.lengths.tail_loss_probability(release.lattice.radius, threshold)
        return probability > MAX_HIDDEN_VARIANCE_PROBABILITY

    def limits_in_words(self, confidence: float) -> str:
        """Return a sentence with the largest possible bias, for any tail of the data.

        Parameters
        ----------
        confidence : float
            Confidence of each limit, between 0 and 1.

        Returns
        -------
        str
            Sentence with the two limits of `upper_bounds`.

        """
        variance, mean = self.upper_bounds(confidence)
        if math.isinf(variance):
            return "The size of this clipping bias is not known."
        return (
            f"For any tail, clipping removed at most {_short(variance)} times the total variance "
            f"inside the radius, and shifted no mean by more than {_short(mean)} standard "
            f"deviations ({confidence:.0%} confidence each)."
        )

    def upper_bounds(self, confidence: float) -> tuple[float, float]:
        """Compute upper confidence bounds on the bias, without a model of the tail.

        Parameters
        ----------
        confidence : float
            Confidence of each bound, between 0 and 1.

        Returns
        -------
        variance_bound : float
            Bound on the removed second moment, as a multiple of the total variance inside
            the clipping radius.

        mean_bound : float
            Bound on the shift of any mean, in standard deviations of its column.

        """
        release, rows = self._release, self._release.number_of_rows or 0.0
        if release.lengths is None or min(self._total_variance, rows) <= 0:
            return math.inf, math.inf
        squared, norm = release.lengths.loss_upper_bounds(release.lattice.radius, confidence)
        linear_map = np.eye(self._p) if release.linear_map is None else release.linear_map
        inverse = np.linalg.inv(linear_map)
        # Variances of the columns, as fractions of the total variance of the transformed rows.
        variances = np.sum(inverse @ self.shape * inverse, axis=1)
        varies = variances > 0
        farthest = np.max(np.sum(inverse**2, axis=1)[varies] / variances[varies])
        of_mean = norm * math.sqrt(farthest / (self._total_variance * rows))
        return squared / self._total_variance, of_mean

    def expected(self) -> Matrix:
        """Return the estimated bias as a matrix of shape (d, d), in units of the second moment."""
        order = self._release.lattice.dimension
        loss = np.zeros((order, order))  # the sums lose nothing
        loss[: self._p, : self._p] = self.squared_norm.estimate * self.shape
        return loss


def _shape(moment: Matrix, p: int) -> tuple[Matrix, float]:
    """Compute the shape and the size of the centered second moment.

    Parameters
    ----------
    moment : ndarray, shape (d, d)
        Second moment of the transformed rows.

    p : int
        Number of features.

    Returns
    -------
    shape : ndarray, shape (p, p)
        Centered second moment, divided by its trace. If the trace is only a rounding error, this
        matrix is 0.

    size : float
        Trace of the centered second moment, or 0 if it is only a rounding error.

    """
    centered = moment[:p, :p]
    if len(moment) > p and moment[-1, -1] > 0:
        centered = centered - np.outer(moment[:p, -1], moment[:p, -1]) / moment[-1, -1]
    values, vectors = np.linalg.eigh(centered)
    if values[0] < 0:  # a rounding error must not grow with the correction for clipping
        centered = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = float(np.trace(centered))
    # The noise can make the trace of the moment negative.
    nothing = size <= MOMENT_ROUNDING_FRACTION * abs(float(np.trace(moment)))
    return (np.zeros((p, p)), 0.0) if nothing else (centered / size, size)


def _short(number: float) -> str:
    """Return a number with two significant digits, never with an exponent."""
    return f"{float(f'{number:.2g}'):,.12g}"
