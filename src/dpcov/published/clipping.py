"""Estimated bias of a second moment from the clipping of rows.

The norm histogram of a release gives T2, the sum of the squared norms that clipping removed
(`norm_histogram`). The entries of the second moment that lost them follow from two parts:

- Simulated rows with the estimated means and covariances (`pseudo_rows`). dpcov clips these rows at
  the radius of the release. Their loss shows which rare levels and which skewed columns lose most.
  Only means, covariances and bounds are needed, so that this part costs no privacy.
- The rest. Real rows can lose more than simulated rows. The rest of T2 has the shape of the
  centered second moment.

If the simulated rows lose more than T2, their loss is reduced to T2. The true loss can differ from
the estimate (`estimate.errors.ClippingErrors`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from dpcov.published.norm_histogram import ClippingLoss
from dpcov.published.pseudo_rows import positive, pseudo_rows

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.samplers import MatrixLaw
    from dpcov.published.norm_histogram import NormHistogram
    from dpcov.rows.moment import Lattice
    from dpcov.rows.schema import Schema

# Uncertainty of what clipping removed along one column, as a standard deviation. With p columns,
# the unit is the total loss T2 divided by sqrt(p). Source: tuned on 13 tables of the parts `tune`
# and `heavy` of benchmarks/tables.toml. With 0.4, fewer intervals for covariances contain the true
# value. With 0.7, intervals for correlations are 15% wider.
COLUMN_LOSS_RELATIVE_SD = 0.5
# Standard deviation of the loss of simulated rows, as a fraction of their loss. Source: root mean
# square error of variances where these rows explain half of the loss (`make bench NAME=clipping`).
SIMULATED_LOSS_RELATIVE_SD = 0.2
# Fraction of a second moment. A smaller centered second moment is a rounding error and has no
# direction. Source: not recorded.
MOMENT_ROUNDING_FRACTION = 1e-12
# Number of simulated rows. If 0.5% of the rows are clipped, their second moment then has a relative
# standard error of about 15%.
SIMULATED_ROWS = 8192
# Largest number of features of simulated rows. With more features, the simulation takes longer than
# all other steps of the estimate.
MAX_SIMULATED_FEATURES = 300
# Smallest variance of a feature, in standard deviations of its noise, whose mean and variance show
# a skewed distribution within the bounds. With more noise, simulated rows are nearly normal.
# Source: tuned on the tables `flags`, `mixed` and `census`.
MIN_SHAPE_SNR = 10.0
# Distance of the mean from the bounds of a nearly normal feature, in standard deviations.
WIDE_BOUND_SDS = 5.0
# Seed of the simulated rows, so that equal releases have equal estimates.
SIMULATED_ROWS_SEED = 20_261_127


class ClippedRows(Protocol):
    """Facts of a release that a clipping bias depends on. `Record` documents them."""

    @property
    def lengths(self) -> NormHistogram | None:
        """Noisy histogram of the norms of the transformed rows."""

    @property
    def lattice(self) -> Lattice:
        """Lattice of the transformed rows, with the clipping radius."""

    @property
    def linear_map(self) -> Matrix | None:
        """Matrix of the map of the rows."""

    @property
    def center(self) -> Vector | None:
        """Center that was subtracted from the encoded rows before the map."""

    @property
    def noise(self) -> MatrixLaw | None:
        """Distribution of the noise in the second moment, in squared lattice steps."""

    @property
    def schema(self) -> Schema:
        """Schema of the table."""

    @property
    def has_intercept(self) -> bool:
        """True if the rows have an intercept, so that the sums are known."""

    @property
    def number_of_rows(self) -> float | None:
        """Exact or estimated number of rows."""

    def mapped(self, matrix: Matrix) -> Matrix:
        """Convert second moments of encoded rows to transformed rows."""

    def unmapped(self, matrix: Matrix) -> Matrix:
        """Convert second moments of transformed rows to encoded rows."""


class SimulatedLoss(NamedTuple):
    """What clipping removes from simulated rows, as many as the table has.

    Attributes
    ----------
    moment : ndarray, shape (d, d)
        Lost second moment of the transformed rows. The row-count entry loses nothing.

    squared_norm : float
        Lost squared norms.

    norm : float
        Lost norms.

    """

    moment: Matrix
    squared_norm: float
    norm: float


def simulated_loss(release: ClippedRows, moment: Matrix) -> SimulatedLoss | None:
    """Clip simulated rows with the means and covariances of a second moment.

    Parameters
    ----------
    release : ClippedRows
        Release with a norm histogram.

    moment : ndarray, shape (d, d)
        Estimated second moment of the transformed rows.

    Returns
    -------
    SimulatedLoss or None
        Loss in units of the second moment. None if rows cannot be simulated: without an intercept,
        with weights, with too many features, or if the moment has no means and covariances.

    """
    p, t = release.lattice.features, release.lattice.intercept_size
    weighted = release.schema.weight is not None
    if not release.has_intercept or weighted or p > MAX_SIMULATED_FEATURES:
        return None
    with np.errstate(all="ignore"):  # a file can contain huge numbers
        whole = release.unmapped(moment) / t**2
        count = whole[-1, -1]
        sums, products = whole[:-1, -1] * t / count, whole[:-1, :-1] * t**2 / count
        covariance = products - np.outer(sums, sums)
    if not (count > 0 and np.isfinite(covariance).all() and np.isfinite(sums).all()):
        return None
    low, high = _bounds(release, sums, np.diag(covariance), float(count))
    draws = np.random.default_rng(SIMULATED_ROWS_SEED)
    means = np.clip(sums, low, high)
    covariance = positive(covariance)
    rows = means + pseudo_rows(means, covariance, low, SIMULATED_ROWS, draws, high=high)
    if release.center is not None:
        rows = rows - release.center
    if release.linear_map is not None:
        rows = rows @ release.linear_map.T
    norms = np.linalg.norm(rows, axis=1)
    clipped = norms > release.lattice.radius
    rows, norms = rows[clipped], norms[clipped]
    kept, scale = release.lattice.radius / norms, count / SIMULATED_ROWS
    lost = np.zeros_like(moment)
    lost[:p, :p] = scale * (rows * (1 - kept**2)[:, None]).T @ rows
    lost[:p, -1] = lost[-1, :p] = scale * t * (1 - kept) @ rows
    total = float(np.trace(lost))
    return SimulatedLoss(lost, total, scale * float((1 - kept) @ norms))


def _bounds(
    release: ClippedRows, means: Vector, variances: Vector, count: float
) -> tuple[Vector, Vector]:
    """Return bounds of simulated features: the declared ones, or wide ones beside much noise."""
    low = np.array([0.0 if one.is_indicator else -1.0 for one in release.schema.features])
    high = np.ones(len(low))
    if release.noise is None:
        return low, high
    squares = count * np.maximum(variances, 0.0)
    if release.linear_map is not None:
        squares = squares * np.sum(release.linear_map**2, axis=0)
    noise = np.sqrt(release.noise.diagonal_variance) * release.lattice.step**2
    unknown = squares < MIN_SHAPE_SNR * noise
    reach = WIDE_BOUND_SDS * np.sqrt(np.maximum(variances, noise / count))
    return np.where(unknown, means - reach, low), np.where(unknown, means + reach, high)


class ClippingBias:
    """What clipping removed from the second moment of the transformed rows.

    Parameters
    ----------
    release : ClippedRows
        Release. If it has no norm histogram, the bias is 0.

    moment : ndarray, shape (d, d)
        Estimated second moment of the transformed rows.

    is_clipped : bool, default False
        True if the moment lacks what clipping removed.

    Attributes
    ----------
    shape : ndarray, shape (p, p)
        Centered second moment with trace 1 or 0.

    total_variance : float
        Trace of the centered second moment.

    squared_norm : ClippingLoss
        Total T2 of the lost squared norms.

    norm : ClippingLoss
        Total T1 of the lost norms.

    simulated_squared_norm, simulated_norm : float
        Parts of the estimates of T2 and of T1 that simulated rows lose too.

    """

    def __init__(self, release: ClippedRows, moment: Matrix, *, is_clipped: bool = False) -> None:
        self._release = release
        self._p = release.lattice.features
        self.shape, self.total_variance = _shape(moment, self._p)
        self.squared_norm = self.norm = ClippingLoss()
        self.simulated_squared_norm = self.simulated_norm = 0.0
        self._lost = np.zeros_like(moment)
        if release.lengths is None:
            return
        self.squared_norm = release.lengths.squared_norm_loss(release.lattice.radius)
        self.norm = release.lengths.norm_loss(release.lattice.radius)
        self._lost[: self._p, : self._p] = self.squared_norm.estimate * self.shape
        if min(self.total_variance, self.squared_norm.estimate) > 0:
            self._divide(simulated_loss(release, moment + self._lost if is_clipped else moment))

    def _divide(self, simulated: SimulatedLoss | None) -> None:
        """Give simulated rows their part of the estimated loss."""
        total = self.squared_norm.estimate
        if simulated is None or simulated.squared_norm <= 0:
            return
        fraction = min(1.0, total / simulated.squared_norm)
        self.simulated_squared_norm = min(fraction * simulated.squared_norm, total)
        self.simulated_norm = min(fraction * simulated.norm, self.norm.estimate)
        self._lost *= 1 - self.simulated_squared_norm / total
        self._lost += fraction * simulated.moment

    @classmethod
    def of(cls, release: ClippedRows, moment: Matrix) -> ClippingBias:
        """Return the bias of a release with this denoised second moment of the encoded rows."""
        return cls(release, release.mapped(moment))

    def limits_in_words(self, confidence: float) -> str:
        """Return sentences about the largest possible bias, for any tail of the data.

        Parameters
        ----------
        confidence : float
            Confidence of each limit, between 0 and 1.

        Returns
        -------
        str
            The two limits of `upper_bounds`, and the smallest group of rows that is detectable.

        """
        variance, mean = self.upper_bounds(confidence)
        if self._release.lengths is None or math.isinf(variance):
            return "The size of this clipping bias is not known."
        return (
            f"For any tail, clipping removed at most {_short(variance)} times the total variance "
            f"inside the radius, and shifted no mean by more than {_short(mean)} standard "
            f"deviations ({confidence:.0%} confidence each). The norm histogram can hide a group "
            f"of fewer than {self._release.lengths.smallest_detectable_group:,} rows far from all "
            "others."
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
        if release.lengths is None or min(self.total_variance, rows) <= 0:
            return math.inf, math.inf
        squared, norm = release.lengths.loss_upper_bounds(release.lattice.radius, confidence)
        linear_map = np.eye(self._p) if release.linear_map is None else release.linear_map
        inverse = np.linalg.inv(linear_map)
        # Variances of the columns, as fractions of the total variance of the transformed rows.
        variances = np.sum(inverse @ self.shape * inverse, axis=1)
        varies = variances > 0
        farthest = np.max(np.sum(inverse**2, axis=1)[varies] / variances[varies])
        of_mean = norm * math.sqrt(farthest / (self.total_variance * rows))
        return squared / self.total_variance, of_mean

    def expected(self) -> Matrix:
        """Return the estimated bias as a matrix of shape (d, d), in units of the second moment."""
        return self._lost


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
