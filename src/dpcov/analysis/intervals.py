"""Statistics of a release and their intervals, from the public distribution of the noise.

**Below the noise level.** All outputs share one rule:

- A correlation, covariance, eigenvalue or coefficient of 0 means "no effect". Such a figure is
  below the noise level if its 95% interval for the privacy noise alone contains 0.
- A mean is below the noise level if the standard deviation of its noise is above a tenth of the
  width of the bounds.
- The number of rows is below the noise level if the standard deviation of its noise is above a
  tenth of the number.

A figure also counts as below the noise level if the figure or its error is undefined. The rule
always uses 95%, even if other intervals have a different level.

**Statistics.** A `Statistic` computes its figures from many second moments at once, for simulation.

**Intervals.** Simulated errors of the second moment have first-order effects on a statistic. Their
root mean squares are its standard deviations, which give the intervals. If rows were clipped, the
two ends of an interval can have different distances from the figure (`Errors.asymmetry`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np
import scipy

from dpcov.analysis.estimable import (
    budget_sentences,
    span,
    sufficient_budgets,
    sufficient_divisors,
)
from dpcov.analysis.features import INTERCEPT_NAME, names_of, target_and_features
from dpcov.analysis.hidden_tails import DependsOn, tail_effects
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.printable import listed
from dpcov.core.renamed import warn_of_former_name
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import MAX_FULL_ROWS, Cell, Row, Table
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate import Estimate, dependent
from dpcov.estimate.errors import Stack
from dpcov.published import record
from dpcov.published.norm_histogram import Z_95
from dpcov.releases.dates import shown as shown_dates

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Array, Booleans, Vector
    from dpcov.core.privacy import Guarantee
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

    Function = Callable[[Release], Array | float]

OfMatrix = Literal["covariance", "correlation"]
Covers = Literal["privacy noise", "privacy noise and sampling"]

# Largest standard deviation of the noise in a mean, as a fraction of the width of the bounds, and
# in the number of rows, as a fraction of this number. Source: not recorded.
MAX_NOISE_FRACTION = 0.1
# Confidence level of the rule, whatever the level of other intervals. Source: convention.
CONFIDENCE_LEVEL = 0.95
FLAG_TEXT = "below the noise level"
RULE_TEXT = "the 95% interval for noise alone contains 0"
HIDDEN_TEXT = (
    "The noise hides whether these features vary apart from the other features: {names}. If they "
    "nearly follow from the others, their intervals are too short."
)
NO_SIGNAL_MESSAGE = (
    "No correlation rises above the noise: too few rows for this budget. "
    "A larger epsilon, more rows or fewer columns would help."
)
UNKNOWN_ERROR_MESSAGE = (
    "The expected error is unknown, because this mechanism samples directions and does not add "
    "noise with a known distribution."
)

# Largest number of features with intervals by default. With more, intervals take minutes.
MAX_DEFAULT_FEATURES = 200
# Number of simulated errors. Standard deviations are then correct to 4%.
INTERVAL_DRAWS = 300
# Largest ratio of the unlimited error to the stated error, to trust an interval, and largest
# unlimited error as a fraction of the figure. Source: not recorded.
MAX_ERROR_RATIO, MAX_ERROR_FRACTION = 1.1, 0.05
# Limits to trust an interval for clipped rows: the fraction of simulated truths for which the
# statistic is not defined, the median error in standard deviations, and |log2| of the ratio of
# interval widths, minus 1. Source: tuned.
MAX_UNDEFINED_FRACTION, MAX_BIAS_SDS, MAX_LOG_WIDTH_RATIO = 0.01, 0.1, 0.05
# Allowance for rounding, so that a rank which is a whole number stays this number.
RANK_ROUNDING = 1e-9
IGNORED_CLIPPING_NOTE = (
    "Rows may have been clipped at a private radius, and these intervals ignore the clipping "
    "bias: variances and eigenvalues may be larger than the intervals. For covariances, choose "
    "a mechanism with the radius of the schema."
)
CLIPPING_BIAS_NOTE = (
    "Rows beyond the clipping radius were clipped. dpcov estimates the clipping bias from the "
    "noisy norm histogram and extrapolates the tail where the noise hides the counts."
)
CLIPPED_ROWS_NOTE = (
    "These intervals are for the clipped rows, not for the table. If the table has long tails, "
    "its figures are often outside these intervals."
)
NO_CLIPPING_NOTE = (
    "No row was clipped at a private radius, so these intervals are for all encoded rows."
)
ROUNDING_NOTE = (
    "The noise is smaller than the rounding error, so the intervals are as fine as rounding allows."
)
TAILED = "variances that depend on a hidden tail"  # name in `Record.memory`
TAIL_TEXT = "depends on the tail"
TAIL_NOTE = (
    "No private release can show whether a few rows lie far from all others. Such rows can put "
    f"the figures that are marked '{TAIL_TEXT}' outside their intervals. "
    "for_clipped_rows=True gives intervals for the clipped rows, without this assumption."
)


# --- Below the noise level ---


def below_noise(values: Array, deviations: Array) -> Booleans:
    """Return True where the 95% interval for the privacy noise contains 0.

    Parameters
    ----------
    values : ndarray
        Figures of any shape.

    deviations : ndarray
        Standard deviations of the privacy noise, in the same shape.

    Returns
    -------
    ndarray of bool
        Flags in the same shape.

    """
    return ~(np.abs(values) > Z_95 * deviations)


def contains_zero(low: Array, high: Array) -> Booleans:
    """Return True where the interval from `low` to `high` for the privacy noise contains 0."""
    return ~((low > 0) | (high < 0))


def too_uncertain(deviations: Array | float, widths: Array | float) -> Booleans:
    """Return True where a standard deviation is above a tenth of the width of the bounds.

    For a count, `widths` is the count itself.
    """
    return ~(np.asarray(deviations) <= MAX_NOISE_FRACTION * np.asarray(widths))


def flags(below: Booleans, tailed: Booleans | None = None) -> list[str]:
    """Return the text beside each figure in a table. Noise goes before a hidden tail."""
    tails = np.where(False if tailed is None else np.ravel(tailed), TAIL_TEXT, "")
    return np.where(np.ravel(below), FLAG_TEXT, tails).tolist()


def sentence_of_names(below: Booleans, names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence that names the figures below the noise level.

    If there are no such figures, the tuple is empty.
    """
    found = [name for name, flagged in zip(names, below.tolist(), strict=True) if flagged]
    return (f"Below the noise level, because {RULE_TEXT}: {', '.join(found)}.",) if found else ()


def sentence_of_hidden(hidden: Booleans, names: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence that names the features of `hidden_features`, if there are any."""
    found = [name for name, flagged in zip(names, hidden.tolist(), strict=True) if flagged]
    return (HIDDEN_TEXT.format(names=listed(found)),) if found else ()


def hidden_features(
    release: Release, features: Sequence[int], generator: np.random.Generator | None = None
) -> Booleans:
    """Return True for each feature that could follow from the other features.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    features : sequence of int, length k
        Positions of the features.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    ndarray of bool, shape (k,)
        True if the noise hides the variance that the other features do not explain.

    """
    draws = reading_generator(generator)
    return stated(release, [SeparateVariances(tuple(features))], False, draws)[0].hidden


def sentence(below: Booleans, what: str) -> tuple[str, ...]:
    """Return a sentence with the number of figures below the noise level.

    If there are no such figures, the tuple is empty.
    """
    count = int(np.count_nonzero(below))
    if count == 0:
        return ()
    verb = "is" if count == 1 else "are"
    return (f"{count} of {np.size(below)} {what} {verb} {FLAG_TEXT}: {RULE_TEXT}.",)


def means_below_noise(release: Release) -> Booleans | None:
    """Return (p,) flags of the means that are below the noise level.

    The result is None if the release has no noise distribution.
    """
    if not release.knows_noise:
        return None
    if release.count() <= 0:
        return np.ones(len(release.columns), np.bool_)
    estimate = Estimate.of(release)
    return means_below(estimate, estimate.noise_deviations[1])


def means_below(estimate: Estimate, of_means: Vector) -> Booleans:
    """Return (p,) flags of the means, from the standard deviations of their noise."""
    record = estimate.record
    width = np.array([1.0 if one.is_indicator else 2.0 for one in record.schema.variables])
    hidden = estimate.hidden | (record.clipped and estimate.hides_norms)
    return too_uncertain(of_means, width) | hidden


def titled(title: str, sentence: str) -> str:
    """Return the first line of a table with sampling errors.

    Parameters
    ----------
    title : str
        Title of the table.

    sentence : str
        Sentence about the figures, or an empty text.

    Returns
    -------
    str
        Title, followed by the sentence.

    """
    return f"{title}. {sentence}" if sentence else title


# --- Statistics ---


@runtime_checkable
class Statistic(Protocol):
    """Statistic of second moments, which are in squared units of an encoded row.

    b is the number of second moments, and k is the number of figures of the statistic.

    See Also
    --------
    dpcov.intervals : Intervals for a statistic.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.intervals(release, dpcov.eigenvalues()).low.shape
    (2,)

    """

    def values(self, release: Release, matrices: Array) -> Array:
        """Return (b, k) figures for (b, d, d) second moments, with NaN for undefined figures."""

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        """Return the smallest and largest possible figures for any data, as numbers or (k,)."""

    def reach(self, release: Release, matrices: Array, center: Array) -> Array | None:
        """Return (b,) bounds on the change of any figure between `center` and each matrix.

        Intervals use these bounds if the statistic is far from linear. None means that the range of
        the simulated figures is used then.
        """

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        """Return (k,) figures in the shape of the statistic."""


class _Plain:
    """Statistic that is a vector and has no smallest or largest value.

    `depends_on` says how many columns each figure depends on. A release of sums has statistics of
    one column only.

    `names` and `dated` say how a table names the entries, and which of them it shows as dates.
    """

    __slots__ = ()
    depends_on: ClassVar[DependsOn] = "all columns"

    def names(self, release: Release) -> tuple[str, ...]:
        """Return the name of each entry, or of each row of a matrix."""
        return ()

    def dated(self, release: Release) -> tuple[str, ...]:
        """Return the feature whose value each entry is, or an empty text, for features of dates."""
        return ()

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        return -np.inf, np.inf

    def reach(self, release: Release, matrices: Array, center: Array) -> Array | None:
        return None

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        return values


def _dependence(statistic: Statistic) -> DependsOn:
    """Return how many columns each figure depends on. Statistics of users can depend on all."""
    return getattr(statistic, "depends_on", "all columns")


def _undefined(matrices: Array) -> Booleans:
    """Return (b,) flags of the matrices with an undefined entry, or one too large for a float."""
    return np.asarray(~np.isfinite(matrices).all(axis=(1, 2)), np.bool_)


class _OfFeatures(_Plain):
    """Statistic with one entry, or one row of a matrix, for each feature."""

    __slots__ = ()

    def names(self, release: Release) -> tuple[str, ...]:
        return release.columns


class _Triangle(_OfFeatures):
    """Statistic that consists of the lower triangle of a symmetric matrix."""

    __slots__ = ()

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        p = len(release.columns)
        matrix = np.empty((p, p), values.dtype)
        rows, columns = np.tril_indices(p)
        matrix[rows, columns] = matrix[columns, rows] = values
        return matrix


class Means(_OfFeatures):
    """Means in the units of the data."""

    depends_on = "one column"

    def dated(self, release: Release) -> tuple[str, ...]:
        return release.columns

    def values(self, release: Release, matrices: Array) -> Array:
        return release.centers + Stack.of(release, matrices).means * release.scales

    def negligible(self, release: Release, center: Array) -> Array:
        """Return changes that need no mark: half-widths of 95% intervals for sampling."""
        variances = Variances().values(release, center[None])[0]
        count = max(Estimate.of(release).count, 1.0)
        return np.asarray(Z_95 * np.sqrt(np.maximum(variances, 0.0) / count))

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        numeric, features = release.schema.encoded_columns, release.schema.variables
        low = [f.center - f.scale if f.name in numeric else f.center for f in features]
        return np.array(low), release.centers + release.scales


class Variances(_OfFeatures):
    """Variances in the squared units of the data, with the divisor n."""

    depends_on = "one column"

    def values(self, release: Release, matrices: Array) -> Array:
        covariances = Stack.of(release, matrices).covariances
        return np.diagonal(covariances, axis1=1, axis2=2) * release.scales**2

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        indicators = np.array([feature.is_indicator for feature in release.schema.variables])
        return 0.0, np.where(indicators, 0.25, 1.0) * release.scales**2


class StandardDeviations(_Plain):
    """Standard deviations in the units of the data, with the divisor n."""

    depends_on = "one column"

    def values(self, release: Release, matrices: Array) -> Array:
        variances = Variances().values(release, matrices)
        return np.sqrt(np.where(variances > 0, variances, np.nan))

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        return 0.0, np.sqrt(Variances().limits(release)[1])


@dataclass(frozen=True, slots=True)
class Joined(_Plain):
    """Chosen figures of several statistics, one after the other.

    Attributes
    ----------
    parts : tuple of (Statistic, tuple of int)
        Statistics, each with the positions of the chosen figures.

    """

    parts: tuple[tuple[Statistic, tuple[int, ...]], ...]

    def values(self, release: Release, matrices: Array) -> Array:
        chosen = [one.values(release, matrices)[:, list(at)] for one, at in self.parts]
        return np.concatenate(chosen, axis=1)

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        ends: tuple[list[Array], list[Array]] = [], []
        for one, at in self.parts:
            for found, end in zip(ends, one.limits(release), strict=True):
                chosen = end if np.ndim(end) == 0 else np.asarray(end)[list(at)]
                found.append(np.broadcast_to(chosen, len(at)))
        return np.concatenate(ends[0]), np.concatenate(ends[1])


class Covariances(_Triangle):
    """Lower triangle of the covariances, in the units of the data, with the divisor n."""

    depends_on = "two columns"

    def values(self, release: Release, matrices: Array) -> Array:
        rows, columns = np.tril_indices(len(release.columns))
        covariances = Stack.of(release, matrices).covariances[:, rows, columns]
        scales = release.scales
        return covariances * scales[rows] * scales[columns]

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        rows, columns = np.tril_indices(len(release.columns))
        scales = release.scales
        high = scales[rows] * scales[columns]
        return np.where(rows == columns, 0.0, -high), high


class Correlations(_Triangle):
    """Lower triangle of the correlations."""

    depends_on = "two columns"

    def values(self, release: Release, matrices: Array) -> Array:
        rows, columns = np.tril_indices(len(release.columns))
        return Stack.of(release, matrices).correlations()[:, rows, columns]

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        return -1.0, 1.0


@dataclass(frozen=True, slots=True)
class OneCorrelation(_Plain):
    """Correlation of one pair of features.

    Attributes
    ----------
    first, second : int
        Positions of the features.

    """

    depends_on: ClassVar[DependsOn] = "two columns"
    first: int
    second: int

    def values(self, release: Release, matrices: Array) -> Array:
        at, whole = [self.first, self.second], Stack.of(release, matrices)
        pair = Stack(whole.means[:, at], whole.covariances[:, at][:, :, at])
        return pair.correlations()[:, :1, 1]

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        return -1.0, 1.0


@dataclass(frozen=True, slots=True)
class Spectrum(_Plain):
    """Eigenvalues of the covariance or of the correlations, in descending order.

    Attributes
    ----------
    of : {"covariance", "correlation"}
        Matrix of the eigenvalues. The covariance is in the units of the data.

    shares : bool
        Divide the eigenvalues by their sum.

    """

    of: OfMatrix
    shares: bool

    def values(self, release: Release, matrices: Array) -> Array:
        whole = self._matrices(release, matrices)
        undefined = _undefined(whole)
        spectra = np.linalg.eigvalsh(np.where(undefined[:, None, None], 0.0, whole))[:, ::-1]
        spectra[undefined] = np.nan
        return spectra

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        if self.shares:
            return 0.0, 1.0
        largest = len(release.columns) if self.of == "correlation" else np.sum(release.scales**2)
        return 0.0, float(largest)

    def reach(self, release: Release, matrices: Array, center: Array) -> Array | None:
        """Return operator norms of the changes, which bound the changes of eigenvalues (Weyl)."""
        changes = self._matrices(release, matrices) - self._matrices(release, center[None])
        undefined = _undefined(changes)
        values = np.linalg.eigvalsh(np.where(undefined[:, None, None], 0.0, changes))
        return np.where(undefined, np.inf, np.abs(values).max(axis=1))

    def _matrices(self, release: Release, matrices: Array) -> Array:
        stack, scales = Stack.of(release, matrices), release.scales
        whole = stack.covariances * np.outer(scales, scales)
        if self.of == "correlation":
            whole = stack.correlations()
        if not self.shares:
            return whole
        totals = np.trace(whole, axis1=1, axis2=2)
        return whole / np.where(totals > 0, totals, np.nan)[:, None, None]


def fit_moments(release: Release, matrices: Array, *, has_intercept: bool) -> Array:
    """Return second moments of the encoded variables, as a regression uses them.

    Parameters
    ----------
    release : Release
        Release.

    matrices : ndarray, shape (b, d, d)
        Second moments of encoded rows.

    has_intercept : bool
        True for moments about the means. False for moments about 0 in the units of the data.

    Returns
    -------
    ndarray, shape (b, p, p)
        Means of products.

    """
    stack = Stack.of(release, matrices)
    if has_intercept:
        return stack.covariances
    values = stack.means + release.centers / release.scales
    return stack.covariances + values[:, :, None] * values[:, None, :]


@dataclass(frozen=True, slots=True)
class Coefficients(_Plain):
    """Intercept and coefficients of a regression, in the units of the data.

    Attributes
    ----------
    target : str
        Name of the feature to predict.

    features : tuple of str, or None
        Names of features or columns. None stands for all columns except the target. Without
        penalties, the first level of each categorical column is left out, as in `ols`.

    penalties : tuple of float, length k
        Penalties 2 alpha s_j^2 of the squared coefficients of encoded features, as in `ridge`. An
        empty tuple stands for least squares.

    has_intercept : bool, default True
        False for a regression through the origin of the data, without penalties.

    """

    target: str
    features: tuple[str, ...] | None
    penalties: tuple[float, ...] = ()
    has_intercept: bool = True

    def names(self, release: Release) -> tuple[str, ...]:
        whole = not self.penalties
        _, at = target_and_features(release, self.target, self.features, reference=whole)
        intercept = (INTERCEPT_NAME,) if self.has_intercept else ()
        return (*intercept, *names_of(release, at))

    def dated(self, release: Release) -> tuple[str, ...]:
        target = self.target if self.has_intercept else ""
        return (target, *[""] * (len(self.names(release)) - 1))

    def values(self, release: Release, matrices: Array) -> Array:
        whole = not self.penalties
        to, at = target_and_features(release, self.target, self.features, reference=whole)
        scales = release.scales
        moments = fit_moments(release, matrices, has_intercept=self.has_intercept)
        gram = moments[:, at][:, :, at]
        undefined = _undefined(gram) | ~np.isfinite(moments[:, at, to]).all(axis=1)
        gram = np.where(undefined[:, None, None], 0.0, gram) + np.diag(self.penalties or [0.0])
        variances = np.diagonal(gram, axis1=1, axis2=2)
        flat = variances <= 0  # a constant feature does not affect the other features
        gram = np.where(flat[:, :, None] | flat[:, None, :], np.eye(len(at)), gram)
        roots = np.sqrt(np.where(flat, 1.0, variances))
        related = gram / (roots[:, :, None] * roots[:, None, :])
        undefined |= np.linalg.eigvalsh(related)[:, 0] <= 0
        gram = np.where(undefined[:, None, None], np.eye(len(at)), gram)
        slopes = np.linalg.solve(gram, moments[:, at, to][:, :, None])[:, :, 0]
        slopes = slopes * scales[to] / scales[at]
        slopes[undefined[:, None] | flat] = np.nan
        if not self.has_intercept:
            return slopes
        means = Means().values(release, matrices)
        intercepts = means[:, to] - np.einsum("bk,bk->b", slopes, means[:, at])
        return np.column_stack([intercepts, slopes])

    def possible(self, release: Release, center: Array) -> tuple[Array, Array]:
        """Return limits of the coefficients that follow from the estimate (`largest`)."""
        ends = self.largest(release, center, np.eye(len(self.names(release))))
        return -ends, ends

    def largest(self, release: Release, center: Array, weights: Array) -> Array:
        """Return limits of the absolute values of linear combinations of the coefficients.

        Least squares cannot explain more than the variance v of the target: b' G b <= v for the
        coefficients b and the covariance G of the features. It follows that a combination w' b is
        at most sqrt(v w' G^-1 w) in absolute value. The intercept has no limit.

        Parameters
        ----------
        release : Release
            Release of the fit.

        center : ndarray, shape (d, d)
            Second moment of the fit.

        weights : ndarray, shape (m, k + 1)
            Weights of the coefficients in each combination.

        Returns
        -------
        ndarray, shape (m,)
            Limits. Infinite for the intercept, or if a covariance is undefined.

        """
        to, at = target_and_features(
            release, self.target, self.features, reference=not self.penalties
        )
        moments = fit_moments(release, center[None], has_intercept=self.has_intercept)[0]
        used, scales = moments[np.ix_([to, *at], [to, *at])], release.scales
        largest, start = np.full(len(weights), np.inf), int(self.has_intercept)
        if np.isfinite(used).all():
            inverse = np.linalg.pinv(used[1:, 1:], hermitian=True)
            encoded = weights[:, start:] * scales[to] / scales[at]
            spread = np.einsum("mj,jk,mk->m", encoded, inverse, encoded)
            largest = np.sqrt(np.maximum(used[0, 0] * spread, 0.0))
        return np.where(weights[:, :start].any(axis=1), np.inf, largest)


@dataclass(frozen=True, slots=True)
class FitFigures(_Plain):
    """R-squared and the logarithm of the residual variance of a regression.

    Attributes
    ----------
    target : int
        Position of the target.

    features : tuple of int
        Positions of the features.

    has_intercept : bool, default True
        False for a regression through the origin. The variances are then about 0.

    """

    target: int
    features: tuple[int, ...]
    has_intercept: bool = True

    def values(self, release: Release, matrices: Array) -> Array:
        """Return (b, 2) figures for (b, d, d) second moments, with NaN for undefined figures."""
        at = list(self.features)
        covariances = fit_moments(release, matrices, has_intercept=self.has_intercept)
        gram = covariances[:, at][:, :, at]
        cross = covariances[:, at, self.target]
        variances = covariances[:, self.target, self.target]
        undefined = _undefined(gram) | ~np.isfinite(cross).all(axis=1)
        undefined |= (np.diagonal(gram, axis1=1, axis2=2) <= 0).any(axis=1)
        gram = np.where(undefined[:, None, None], np.eye(len(at)), gram)
        scale = np.sqrt(np.diagonal(gram, axis1=1, axis2=2))
        related = gram / (scale[:, :, None] * scale[:, None, :])
        undefined |= np.linalg.eigvalsh(related)[:, 0] <= 0
        related = np.where(undefined[:, None, None], np.eye(len(at)), related)
        scaled = np.where(undefined[:, None], 0.0, cross) / scale
        solved = np.linalg.solve(related, scaled[:, :, None])[:, :, 0]
        explained = np.einsum("bk,bk->b", scaled, solved)
        undefined |= ~(variances > explained)
        with np.errstate(invalid="ignore", divide="ignore"):
            found = np.column_stack([explained / variances, np.log(variances - explained)])
        return np.where(undefined[:, None], np.nan, found)


@dataclass(frozen=True, slots=True)
class SeparateVariances(_Plain):
    """Variances of features that the other features do not explain, without units.

    Attributes
    ----------
    features : tuple of int
        Positions of the features.

    has_intercept : bool, default True
        False for variances about 0, in a regression through the origin.

    """

    features: tuple[int, ...]
    has_intercept: bool = True

    def values(self, release: Release, matrices: Array) -> Array:
        """Return the (b, k) variances for (b, d, d) second moments, with NaN for undefined ones.

        With the covariance G of the features, the variance of feature j is 1 / (G^-1)_jj.
        """
        at = list(self.features)
        moments = fit_moments(release, matrices, has_intercept=self.has_intercept)
        gram = moments[:, at][:, :, at]
        undefined = _undefined(gram)
        gram[undefined] = np.eye(len(at))
        undefined |= ~(np.linalg.eigvalsh(gram)[:, 0] > 0)
        gram[undefined] = np.eye(len(at))
        found = 1 / np.diagonal(np.linalg.inv(gram), axis1=1, axis2=2)
        return np.where(undefined[:, None], np.nan, found)


@dataclass(frozen=True, slots=True)
class OfRelease(_Plain):
    """Statistic that calls a function of a release.

    If the function raises `ReleaseError`, the statistic is undefined.
    """

    function: Function

    def values(self, release: Release, matrices: Array) -> Array:
        """Return the (b, k) results for releases of these matrices, which are not denoised."""
        unit = 2.0**release.shift * release.lattice.step**2
        found = [
            self._value(release, np.rint(release.mapped(matrix) / unit)) for matrix in matrices
        ]
        sizes = {len(value) for value in found if value is not None}
        if len(sizes) != 1:
            raise ReleaseError("The statistic must have one shape, and be defined somewhere.")
        missing = np.full(sizes.pop(), np.nan)
        return np.stack([missing if value is None else value for value in found])

    def reach(self, release: Release, matrices: Array, center: Array) -> Array | None:
        return np.full(len(matrices), np.inf)

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        return values.reshape(np.shape(self.function(release)))

    def _value(self, release: Release, integers: Array) -> Array | None:
        largest = 2.0**62
        published = np.clip(integers, -largest, largest).astype(np.int64)
        matrix = release.matrix
        assert matrix is not None  # noqa: S101  for type checkers: a release without is refused
        one = release.with_published("matrix", replace(matrix, units=published))
        one = one.with_published("count", None)  # the matrix contains the best count
        one = one.with_denoised("none", None)
        try:
            return np.asarray(self.function(one), np.float64).ravel()
        except NotReleasedError:  # this error does not depend on the matrix
            raise
        except ReleaseError:
            return None


Name = Literal["mean", "variance", "covariance", "correlation", "eigenvalues", "explained variance"]
STATISTICS: dict[str, Statistic] = {
    "mean": Means(),
    "variance": Variances(),
    "covariance": Covariances(),
    "correlation": Correlations(),
    "eigenvalues": Spectrum("covariance", shares=False),
    "explained variance": Spectrum("covariance", shares=True),
}


def eigenvalues(*, correlation: bool = False) -> Statistic:
    """Return the statistic of all eigenvalues, for `intervals`.

    The statistic equals the variances of all components of `pca`.

    Parameters
    ----------
    correlation : bool, default False
        True for the eigenvalues of the correlation matrix. The default is the covariance matrix in
        the units of the data.

    Returns
    -------
    Statistic
        Eigenvalues in descending order, shape (p,).

    See Also
    --------
    dpcov.explained_variance : Eigenvalues divided by their sum.
    dpcov.pca : Principal components.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> found = dpcov.intervals(release, dpcov.eigenvalues())
    >>> found.low.shape
    (2,)

    """
    return Spectrum("correlation" if correlation else "covariance", shares=False)


def explained_variance(*, correlation: bool = False) -> Statistic:
    """Return the statistic of all eigenvalues divided by their sum, for `intervals`.

    The statistic equals the fractions of the variance that the components of `pca` explain.

    Parameters
    ----------
    correlation : bool, default False
        True for the eigenvalues of the correlation matrix. The default is the covariance matrix in
        the units of the data.

    Returns
    -------
    Statistic
        Fractions of the variance in descending order, shape (p,).

    See Also
    --------
    dpcov.eigenvalues : Eigenvalues themselves.
    dpcov.pca : Principal components.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> found = dpcov.intervals(release, dpcov.explained_variance())
    >>> bool(found.high.max() <= 1)
    True

    """
    return Spectrum("correlation" if correlation else "covariance", shares=True)


def coefficients(target: str, features: Sequence[str] | str | None = None) -> Statistic:
    """Return the statistic of the coefficients of a regression, for `intervals`.

    The statistic equals the coefficients of `ols`.

    Parameters
    ----------
    target : str
        Feature to predict.

    features : str or sequence of str, optional
        Names of features or columns. The default is all columns except the target.

    Returns
    -------
    Statistic
        Intercept and k coefficients in the units of the data, shape (k + 1,).

    See Also
    --------
    dpcov.ols : Regression with standard errors.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> found = dpcov.intervals(release, dpcov.coefficients("x1"))
    >>> found.low.shape
    (2,)

    """
    names = [features] if isinstance(features, str) else features
    return Coefficients(target, None if names is None else tuple(names))


def statistic_named(statistic: Name | Statistic | Function) -> Statistic:
    """Return the statistic for a name, for a function of a release, or for a statistic itself."""
    if isinstance(statistic, str):
        if statistic not in STATISTICS:
            raise ReleaseError(
                f"There is no statistic {statistic!r}. Choose: {', '.join(STATISTICS)}; or give "
                "coefficients(target), or a function of a release."
            )
        return STATISTICS[statistic]
    return statistic if isinstance(statistic, Statistic) else OfRelease(statistic)


# --- Intervals ---


@dataclass(frozen=True, slots=True)
class Intervals(Result):
    """Intervals for the entries of a statistic.

    Attributes
    ----------
    low : ndarray
        Lower ends, in the shape of the statistic. NaN if the interval says nothing, because it
        contains at least 99% of the possible values. With `for_clipped_rows`, such an interval
        keeps its ends, which can be infinite.

    high : ndarray
        Upper ends, in the shape of the statistic.

    level : float
        Nominal coverage of each interval.

    covers : str
        ``privacy noise`` for the statistic of these rows. ``privacy noise and sampling`` for the
        statistic of the population.

    trusted : ndarray of bool
        False if an interval depends on assumptions. Without the assumption that variances are
        bounded, such an interval would be wider by more than 10%. Also False if the noise hides
        the norms of most rows. With `for_clipped_rows`, an interval that is not trusted is wide and
        covers too often.

    clipped : bool
        True if rows might have been clipped and no norm histogram shows the loss. Intervals for
        covariances and eigenvalues then cover too rarely.

    assumed : tuple of str
        Sentences about missing cells, clipping and the rows that the intervals describe.

    for_clipped_rows : bool
        True if the intervals describe the clipped rows, and not the table.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    names : tuple of str
        Names of the entries, or of the rows of a matrix. Empty if they have no names.

    dated : tuple of str
        Feature whose value each entry is, or an empty text. Values of dates are shown as dates.

    schema : Schema or None
        Schema of the release.

    below_noise : ndarray of bool
        True for a figure below the noise level, by the privacy noise alone. The default is True for
        an interval that contains 0.

    sufficient_budget : ndarray
        For each interval that says nothing, the epsilon or rho of a release that would have an
        interval, or infinity if no such budget is known. NaN for all other intervals.

    depends_on_tail : ndarray of bool
        True if the figure can be outside its interval, because rows that are too few to be detected
        can lie far from all others. They would change the figure by more than 5%.

    guarantee : Guarantee or None
        Guarantee of the release.

    See Also
    --------
    dpcov.intervals : Compute intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.analysis.intervals import Intervals
    >>> low, high = np.array([-1.0, 0.5]), np.array([1.0, 2.0])
    >>> Intervals(low, high, 0.95, "privacy noise", low > 0).below_noise.tolist()
    [True, False]

    """

    low: Array
    high: Array
    level: float
    covers: Covers
    trusted: Booleans
    clipped: bool = False
    assumed: tuple[str, ...] = ()
    for_clipped_rows: bool = False
    dependent: str = field(default="", metadata=OMITTED_FIELD)
    names: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    dated: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    schema: Schema | None = field(default=None, metadata=OMITTED_FIELD, compare=False)
    below_noise: Booleans = None  # type: ignore[assignment]  # set below
    sufficient_budget: Array = None  # type: ignore[assignment]  # set below
    depends_on_tail: Booleans = None  # type: ignore[assignment]  # set below
    guarantee: Guarantee | None = field(default=None, metadata=OMITTED_FIELD, compare=False)

    def __post_init__(self) -> None:
        if self.below_noise is None:
            object.__setattr__(self, "below_noise", contains_zero(self.low, self.high))
        if self.sufficient_budget is None:
            object.__setattr__(self, "sufficient_budget", np.full(np.shape(self.low), np.nan))
        if self.depends_on_tail is None:
            object.__setattr__(self, "depends_on_tail", np.zeros(np.shape(self.low), np.bool_))

    @property
    def guaranteed(self) -> bool:
        """Former name of `for_clipped_rows`."""
        warn_of_former_name("guaranteed", "for_clipped_rows")
        return self.for_clipped_rows

    @property
    def covering(self) -> str:
        """Sentence about the coverage of the intervals."""
        whose = " of the clipped rows, not of the table" if self.for_clipped_rows else ""
        return f"Intervals cover {self.covers}{whose}, {self.level:.0%} each."

    @property
    def cautions(self) -> list[str]:
        """Reasons why the intervals might not contain the values of the table."""
        clipped = [IGNORED_CLIPPING_NOTE] if self.clipped else []
        return clipped + [one for one in (CLIPPED_ROWS_NOTE, TAIL_NOTE) if one in self.assumed]

    def sentences(self, what: str) -> list[str]:
        """Return the sentences below a table of the figures; `what` names the figures."""
        below = self.below_noise
        if below.ndim == 2:  # a symmetric matrix
            below = below[np.tril_indices(len(below), -1)]
        return [self.covering, *sentence(below, what), *self.not_estimable(), *self.cautions]

    def not_estimable(self, names: Sequence[str] | None = None) -> tuple[str, ...]:
        """Return sentences that name the figures without an interval, and a sufficient budget.

        The parameter `names` contains the names of the first entries. The default is all entries,
        with the names of the table.
        """
        if self.guarantee is None:
            return ()
        places = self.places()
        named = [self.name_of(place) for place in places] if names is None else names
        budgets = [np.atleast_1d(self.sufficient_budget)[place] for place in places[: len(named)]]
        return budget_sentences(named, np.array(budgets), self.guarantee)

    @property
    def warning(self) -> str | None:
        found = [*self.not_estimable(), *self.cautions]
        if below := sentence(self.below_noise, "figures"):
            found += [*below, "Use a larger epsilon, more rows or fewer columns."]
        resting = self.trusted.size - int(np.count_nonzero(self.trusted))
        if resting:
            found.append(
                f"{resting} of {self.trusted.size} intervals rest on more than the noise "
                f"(`trusted` is False): {self._resting()}"
            )
        return " ".join(found) or None

    def _resting(self) -> str:
        if self.for_clipped_rows:
            return "they are wide and may cover more than asked."
        return "they assume what a variance can be, more than they use what was released."

    def places(self) -> list[tuple[int, ...]]:
        """Return the positions of all entries; of a square matrix, below the diagonal."""
        shape = np.shape(np.atleast_1d(self.low))
        square = len(shape) == 2 and shape[0] == shape[1]
        return [place for place in np.ndindex(shape) if not square or place[0] > place[1]]

    def name_of(self, place: tuple[int, ...]) -> str:
        """Return the name of the entry at this position."""
        if self.names:
            return " - ".join(self.names[at] for at in reversed(place))
        return ", ".join(map(str, place))

    def tables(self) -> list[Table]:
        low, high = np.atleast_1d(self.low), np.atleast_1d(self.high)
        below, tailed = np.atleast_1d(self.below_noise), np.atleast_1d(self.depends_on_tail)
        places = self.places()
        shown = places[:MAX_FULL_ROWS]
        rows: list[Row] = []
        for place in shown:
            (flag,) = flags(below[place], tailed[place])
            ends: list[Cell] = [float(low[place]), float(high[place])]
            if self.dated and self.schema is not None:
                ends = shown_dates(self.schema, self.dated[place[0]], ends)  # type: ignore[arg-type]
            rows.append((self.name_of(place), [*ends, flag]))
        whose = ", of the clipped rows" if self.for_clipped_rows else ""
        title = titled(f"{self.level:.0%} intervals for {self.covers}{whose}", self.dependent)
        clipped = [IGNORED_CLIPPING_NOTE] if self.clipped else []
        notes = (*self.not_estimable(), *clipped, *self.assumed)
        beyond = len(places) - len(shown)
        return [Table(("entry", "low", "high", ""), rows, title, beyond=beyond, notes=notes)]

    def document(self) -> dict[str, Any]:
        """Return the content of the JSON output, with the former key ``guaranteed``."""
        more = {"covering": self.covering, "warning": self.warning}
        return {**Result.document(self), **more, "guaranteed": self.for_clipped_rows}


def intervals(
    release: Release,
    statistic: Name | Statistic | Function,
    level: float = 0.95,
    sampling: bool = True,
    *,
    for_clipped_rows: bool = False,
    generator: np.random.Generator | None = None,
    guaranteed: bool | None = None,
) -> Intervals:
    """Return intervals for a statistic of a release, at no privacy cost.

    The intervals include the privacy noise, the uncertainty of the clipping bias, and rounding.
    With `sampling`, they also include the sampling error of independent rows.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    statistic : str, Statistic or callable
        Name ``mean``, ``variance``, ``covariance``, ``correlation``, ``eigenvalues`` or
        ``explained variance``. The functions `coefficients`, `eigenvalues` and
        `explained_variance` return other statistics. A function from a release to an array is
        called on simulated releases without denoising.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    sampling : bool, default True
        Include the sampling error, which needs an intercept.

    for_clipped_rows : bool, default False
        Return intervals for the clipped rows, without a model of the tail. If the table has long
        tails, these intervals often miss the statistic of the table.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    guaranteed : bool, optional
        Former name of `for_clipped_rows`.

    Returns
    -------
    Intervals
        Ends of the intervals and warnings about them.

    Raises
    ------
    NotReleasedError
        The release has no noise distribution, holds the trace only, or lacks an intercept.
    ReleaseError
        A name is unknown, or `level` is not between 0 and 1.

    See Also
    --------
    dpcov.several_intervals : Intervals for several statistics.

    Notes
    -----
    The default intervals use normal quantiles. The standard deviation is the first-order effect of
    simulated errors on the statistic. In directions below the noise level, the errors are limited
    by the size of the variances. The intervals extrapolate the tails from the norm histogram.

    The intervals for clipped rows simulate the noise Z' and the statistic of M - Z', where M is the
    noisy matrix. The ends are bias-corrected percentiles (Efron 1987, section 2, acceleration 0).
    For a ratio of two linear functions, the percentiles form Fieller's exact interval. If the
    statistic is far from linear, the percentiles are not corrected. Eigenvalues then get the
    interval of Weyl's inequality, and functions of a release get an infinite interval.

    The sampling error depends on fourth moments, which a release does not contain. dpcov assumes
    beta distributions within the bounds, joined by a Gaussian copula. Common outliers or longer
    tails make the sampling error too small. Missing cells are assumed to be missing completely at
    random.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> made = dpcov.release(table, lower=0, upper=1, epsilon=1.0)
    >>> found = dpcov.intervals(made, "correlation", sampling=False)
    >>> bool(found.high[0, 1] < -0.9)
    True

    """
    asked = _asked(for_clipped_rows, guaranteed)
    found = several_intervals(
        release, [statistic], level, sampling, for_clipped_rows=asked, generator=generator
    )
    return found[0]


def _asked(for_clipped_rows: bool, guaranteed: bool | None) -> bool:
    """Return whether intervals are for the clipped rows, by either name of the option."""
    if guaranteed is None:
        return for_clipped_rows
    warn_of_former_name("guaranteed", "for_clipped_rows", depth=2)
    return guaranteed


def shown_unasked(release: Release) -> bool:
    """Return True if commands show intervals by default."""
    return release.knows_noise and len(release.columns) <= MAX_DEFAULT_FEATURES


def several_intervals(
    release: Release,
    statistics: Sequence[Name | Statistic | Function],
    level: float = 0.95,
    sampling: bool = True,
    *,
    for_clipped_rows: bool = False,
    generator: np.random.Generator | None = None,
    guaranteed: bool | None = None,
) -> list[Intervals]:
    """Return intervals for several statistics from the same simulations.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    statistics : sequence of str, Statistic or callable
        Statistics, as in `intervals`.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    sampling : bool, default True
        Include the sampling error, which needs an intercept.

    for_clipped_rows : bool, default False
        Return intervals for the clipped rows, without a model of the tail.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    guaranteed : bool, optional
        Former name of `for_clipped_rows`.

    Returns
    -------
    list of Intervals
        Intervals of each statistic.

    Raises
    ------
    NotReleasedError
        The release has no noise distribution or no intercept, or it does not hold the statistics.
    ReleaseError
        A name is unknown, or `level` is not between 0 and 1.

    See Also
    --------
    dpcov.intervals : Intervals for one statistic.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> made = dpcov.release(table, lower=0, upper=1, epsilon=1.0)
    >>> len(dpcov.several_intervals(made, ["mean", "correlation"]))
    2

    """
    for_clipped_rows = _asked(for_clipped_rows, guaranteed)
    check("level", level, Probability, ReleaseError)
    draws = reading_generator(generator)
    asked = [statistic_named(statistic) for statistic in statistics]
    if any(_dependence(one) != "one column" for one in asked):
        record.refuse(release.reasons.matrix)
    notes = _said(release, level, for_clipped_rows)
    if for_clipped_rows:
        ends = _alone(release.with_published("norms", None), asked, level, sampling, draws)
        return _with_notes(release, asked, ends, level, sampling, notes, for_clipped_rows=True)
    found = stated(release, asked, sampling, draws)
    return _of_stated(release, asked, found, level, sampling, notes)


def _of_stated(
    release: Release,
    statistics: Sequence[Statistic],
    found: Sequence[Stated],
    level: float,
    sampling: bool,
    notes: tuple[str, ...],
) -> list[Intervals]:
    ends = [one.informative(level, release.guarantee) for one in found]
    tails = [one.depends_on_tail for one in found]
    return _with_notes(release, statistics, ends, level, sampling, notes, tails)


def _with_notes(
    release: Release,
    statistics: Sequence[Statistic],
    ends: Sequence[tuple[Array, Array, Booleans, Booleans, Array]],
    level: float,
    sampling: bool,
    notes: tuple[str, ...],
    tails: Sequence[Booleans] | None = None,
    *,
    for_clipped_rows: bool = False,
) -> list[Intervals]:
    """Return intervals with the sentences that belong to them.

    The parameter `ends` contains the lower and upper ends, the flags for trust and for the noise
    level, and the sufficient budgets. The parameter `notes` contains the sentences of `_said`, and
    `tails` the flags of the figures that depend on a hidden tail.
    """
    if tails is None:
        tails = [np.zeros(np.shape(one[0]), np.bool_) for one in ends]
    covers: Covers = "privacy noise and sampling" if sampling else "privacy noise"
    persons = dependent(release, sampling=sampling)
    unknown = release.clipped and release.lengths is None
    made = []
    for statistic, (*parts, below, budgets), tail in zip(statistics, ends, tails, strict=True):
        hidden = means_below_noise(release) if isinstance(statistic, Means) else None
        parts += [below if hidden is None else hidden, budgets, tail]
        low, high, trusted, flagged, enough, tailed = (
            statistic.shaped(release, one) for one in parts
        )
        names, dated = (
            getattr(statistic, one, lambda _: ())(release) for one in ("names", "dated")
        )
        said = (TAIL_NOTE, *notes) if tail.any() else notes
        assumed = (unknown, said, for_clipped_rows, persons, names, dated)
        more = release.schema, flagged, enough, tailed, release.guarantee
        made.append(Intervals(low, high, level, covers, trusted, *assumed, *more))
    return made


def _said(release: Release, level: float, for_clipped_rows: bool = False) -> tuple[str, ...]:
    """Return sentences about the assumptions of the intervals and the rows that they describe."""
    estimate = Estimate.of(release)
    notes = estimate.assumptions + ((ROUNDING_NOTE,) if estimate.is_mostly_rounding else ())
    clip = None if release.lengths is None else estimate.clipping
    beyond = () if clip is None else (clip.limits_in_words(level),)
    if for_clipped_rows:
        return (*notes, CLIPPED_ROWS_NOTE if release.clipped else NO_CLIPPING_NOTE, *beyond)
    if release.clipped and clip is not None:
        return (*notes, CLIPPING_BIAS_NOTE, *beyond)
    return notes


def stated_intervals(
    release: Release,
    statistic: Statistic,
    level: float,
    sampling: bool,
    generator: np.random.Generator | None,
) -> tuple[Stated, Intervals]:
    """Return a statistic with its standard deviations and its intervals, from one simulation."""
    notes = _said(release, level)
    (found,) = stated(release, [statistic], sampling, reading_generator(generator))
    return found, _of_stated(release, [statistic], [found], level, sampling, notes)[0]


def stated(
    release: Release, statistics: Sequence[Statistic], sampling: bool, draws: np.random.Generator
) -> list[Stated]:
    """Compute statistics of the estimate and their first-order errors."""
    estimate = Estimate.of(release)
    blind = estimate.hides_norms
    truths = estimate.errors(sampling=sampling, generator=draws, draws=INTERVAL_DRAWS)
    found = [_Slopes(release, statistic, truths.center) for statistic in statistics]
    functions = [partial(one.values, release) for one in statistics]
    for batch in truths.effects(functions):
        for slopes, effects in zip(found, batch, strict=True):
            slopes.add(*effects)
    columns = [_dependence(one) for one in statistics]
    tails = tail_effects(release, list(zip(functions, columns, strict=True)), truths.center)
    skewed = truths.asymmetry(functions)
    return [
        one.stated(tail, asymmetry, blind=blind)
        for one, tail, asymmetry in zip(found, tails, skewed, strict=True)
    ]


def tailed(release: Release) -> Booleans:
    """Return (p,) flags of the variances that depend on a hidden tail."""
    if TAILED not in release.memory:
        variances, center = Variances(), Estimate.of(release).center
        function = partial(variances.values, release)
        (tail,) = tail_effects(release, [(function, "one column")], center)
        least = MAX_ERROR_FRACTION * variances.values(release, center[None])[0]
        flagged = np.asarray(tail > least, np.bool_)
        if flagged.any():  # only then are intervals necessary
            found = stated(release, [variances], False, reading_generator())
            flagged = found[0].depends_on_tail
        release.memory[TAILED] = flagged
    found_flags: Booleans = release.memory[TAILED]
    return found_flags


@dataclass(frozen=True, slots=True)
class Stated:
    """Statistics of the estimate with their standard deviations.

    k is the number of figures.

    Attributes
    ----------
    values : ndarray, shape (k,)
        Figures; NaN if a figure is not defined.

    deviations : ndarray, shape (k,)
        Standard deviations of the figures.

    of_noise : ndarray, shape (k,)
        Standard deviations due to the privacy noise alone.

    trusted : ndarray of bool, shape (k,)
        True if the noise alone determines the error, or the error is small.

    limits : tuple
        Smallest and largest possible values.

    unlimited : ndarray, shape (k,), optional
        Standard deviations due to the privacy noise without the limits of the prior.

    possible : tuple, optional
        Narrower limits that follow from the estimate. Intervals can exceed them.

    tail : ndarray, shape (k,), or float
        Largest changes of the figures by a hidden tail (`hidden_tails.tail_effects`).

    negligible : ndarray, shape (k,), or float
        Changes that need no mark: 5% of the figure, or the error of a mean by sampling.

    asymmetry : ndarray, shape (2, k), or float
        What the lower and the upper end add to the variance of each figure, because the error by
        clipping is not symmetric (`Errors.asymmetry`).

    """

    values: Array
    deviations: Array
    of_noise: Array
    trusted: Booleans
    limits: tuple[Array | float, Array | float]
    unlimited: Array | None = None
    possible: tuple[Array, Array] | None = None
    tail: Array | float = 0.0
    negligible: Array | float = 0.0
    asymmetry: Array | float = 0.0

    def _sides(self, deviations: Array) -> Array:
        """Return two standard deviations of each figure, shape (2, k).

        The first one is for the lower end of its interval, the second one for the upper end.
        """
        return np.sqrt(np.maximum(deviations**2 + self.asymmetry * np.ones((2, 1)), 0.0))

    @property
    def depends_on_tail(self) -> Booleans:
        """True for each figure that a hidden tail can put outside its 95% interval, shape (k,)."""
        least = np.maximum(Z_95 * self._sides(self.deviations).max(axis=0), self.negligible)
        return np.asarray(self.tail > least, np.bool_)

    @property
    def below_noise(self) -> Booleans:
        """True for each figure below the noise level, shape (k,)."""
        return self._is_hidden_by(self.of_noise)

    @property
    def hidden(self) -> Booleans:
        """True for each figure that the noise without the limits of the prior hides, shape (k,)."""
        return self._is_hidden_by(self.of_noise if self.unlimited is None else self.unlimited)

    def _is_hidden_by(self, noise: Array) -> Booleans:
        """Return True if noise with these standard deviations hides whether a figure is 0."""
        lower, upper = Z_95 * self._sides(noise)
        return contains_zero(self.values - lower, self.values + upper)

    def interval(self, level: float) -> tuple[Array, Array, Booleans]:
        """Return the ends of the intervals, and whether to trust them."""
        least, largest = self.limits
        lower, upper = scipy.special.ndtri((1 + level) / 2) * self._sides(self.deviations)
        unknown = np.isnan(lower) | np.isnan(upper) | np.isnan(self.values)
        low = np.where(unknown, least, np.clip(self.values - lower, least, largest))
        high = np.where(unknown, largest, np.clip(self.values + upper, least, largest))
        return low, high, self.trusted

    def informative(
        self, level: float, guarantee: Guarantee
    ) -> tuple[Array, Array, Booleans, Booleans, Array]:
        """Return the ends of the intervals with their flags, without ends that say nothing.

        Returns
        -------
        low, high : ndarray, shape (k,)
            Ends of the intervals. NaN if an interval says nothing.

        trusted, below_noise : ndarray of bool, shape (k,)
            Flags of the figures.

        sufficient : ndarray, shape (k,)
            Result of `sufficient_budgets`.

        """
        low, high, trusted = self.interval(level)
        sufficient = sufficient_budgets(guarantee, self._sufficient_divisors(level))
        low, high = (np.where(np.isnan(sufficient), one, np.nan) for one in (low, high))
        return low, high, trusted, self.below_noise, sufficient

    def _sufficient_divisors(self, level: float) -> Array:
        """Return by which numbers the noise must be divided; NaN for an interval that says enough.

        The standard deviations due to sampling stay the same. The prior
        (`estimate.errors`) reduces the stated noise of this release. With a larger budget, it
        reduces the noise less. A divisor above 1 therefore divides the noise without the prior.
        """
        sampling = np.maximum(self.deviations**2 - self.of_noise**2, 0.0)
        noise = self.of_noise if self.unlimited is None else self.unlimited

        def span_at(divisor: float) -> Array:
            own = self.of_noise if divisor == 1 else noise / divisor
            deviations = np.sqrt(sampling + own**2)
            low, high, _ = replace(self, deviations=deviations).interval(level)
            return span((low, high), self.possible or self.limits)

        return sufficient_divisors(span_at)


class _Slopes:
    """Sums of squares of the first-order effects of simulated errors on a statistic."""

    def __init__(self, release: Release, statistic: Statistic, center: Array) -> None:
        self._release, self._statistic, self._center = release, statistic, center
        self._values = statistic.values(release, center[None])[0]
        self._noise: Array | float = 0.0
        self._squares, self._whole, self._count = 0.0, 0.0, 0

    def add(self, noise: Array, whole: Array, sampling: Array | float) -> None:
        """Add the effects of noise, of noise without limits, and of sampling for a batch."""
        self._noise += np.sum(noise**2, axis=0)
        self._squares += np.sum((noise + sampling) ** 2, axis=0)
        self._whole += np.sum((whole + sampling) ** 2, axis=0)
        self._count += len(noise)

    def stated(
        self, tail: Array | float = 0.0, asymmetry: Array | float = 0.0, *, blind: bool
    ) -> Stated:
        """Return the statistic with its errors. They are not trusted if nothing shows the norms."""
        sums = (self._squares, self._whole, self._noise)
        deviations, whole, of_noise = (np.sqrt(one / self._count) for one in sums)
        most = np.maximum(MAX_ERROR_RATIO * deviations, MAX_ERROR_FRACTION * np.abs(self._values))
        trusted = (whole <= most) & (not blind)
        limits = self._statistic.limits(self._release)
        narrower = getattr(self._statistic, "possible", None)
        possible = narrower(self._release, self._center) if narrower else None
        unlimited = np.sqrt(np.maximum(whole**2 - deviations**2 + of_noise**2, 0.0))
        own = getattr(self._statistic, "negligible", None)
        negligible = MAX_ERROR_FRACTION * np.abs(self._values)
        if own is not None:
            negligible = own(self._release, self._center)
        return Stated(
            self._values, deviations, of_noise, trusted, limits, unlimited, possible, tail,
            negligible, asymmetry,
        )  # fmt: skip


def _alone(
    release: Release,
    statistics: Sequence[Statistic],
    level: float,
    sampling: bool,
    draws: np.random.Generator,
) -> list[tuple[Array, Array, Booleans, Booleans, Array]]:
    """Compute ends, trust flags and noise flags from the noise distribution alone.

    These intervals keep ends that say nothing, so the budgets are NaN.
    """
    truths = Estimate.of(release).errors(sampling=sampling, generator=draws, alone=True)
    simulations = [_Simulation(release, statistic, truths.center) for statistic in statistics]
    of_noise = simulations
    if sampling:
        of_noise = [_Simulation(release, statistic, truths.center) for statistic in statistics]
    for noise, _, more in truths.parts():
        for simulation in simulations:
            simulation.add(noise + more)
        for simulation in of_noise if sampling else ():
            simulation.add(noise)
    below = [contains_zero(*simulation.interval(CONFIDENCE_LEVEL)[:2]) for simulation in of_noise]
    ends = [simulation.interval(level) for simulation in simulations]
    return [
        (*one, flagged, np.full(np.shape(flagged), np.nan))
        for one, flagged in zip(ends, below, strict=True)
    ]


class _Simulation:
    """Simulated values of a statistic, with a check that the statistic is nearly linear."""

    def __init__(self, release: Release, statistic: Statistic, center: Array) -> None:
        self._release, self._statistic, self._matrix = release, statistic, center
        self._center = statistic.values(release, center[None])[0]
        self._plausible: list[Array] = []
        self._mirrored: list[Array] = []  # with the opposite error
        self._halfway: list[Array] = []  # with half the error
        self._reaches: list[Array] = []

    def add(self, errors: Array) -> None:
        truths = self._matrix - errors
        self._plausible.append(self._statistic.values(self._release, truths))
        self._mirrored.append(self._statistic.values(self._release, self._matrix + errors))
        self._halfway.append(self._statistic.values(self._release, self._matrix - errors / 2))
        reaches = self._statistic.reach(self._release, truths, self._matrix)
        self._reaches += [] if reaches is None else [reaches]

    def interval(self, level: float) -> tuple[Array, Array, Booleans]:
        center, plausible = self._center, np.concatenate(self._plausible)
        bias = _bias(np.concatenate([plausible, *self._mirrored]), center)
        least, largest = self._statistic.limits(self._release)
        low, high = _percentiles(plausible, level, bias)
        wide_low, wide_high = _percentiles(plausible, level)
        trusted = (np.abs(bias) <= MAX_BIAS_SDS) & (self._bending(level) <= MAX_LOG_WIDTH_RATIO)
        trusted &= np.isnan(plausible).mean(axis=0) <= MAX_UNDEFINED_FRACTION
        if self._reaches:
            trusted &= low > least  # otherwise, it might be the largest of several noise values
            farthest = np.quantile(np.concatenate(self._reaches), level, method="higher")
            wide_low, wide_high = center - farthest, center + farthest
        defined = ~np.isnan(center)
        low, high = np.where(trusted, low, wide_low), np.where(trusted, high, wide_high)
        low = np.where(defined, np.clip(low, least, largest), least)
        high = np.where(defined, np.clip(high, least, largest), largest)
        return low, high, trusted

    def _bending(self, level: float) -> Array:
        """Return |log2| of the ratio of interval widths when the error doubles, minus 1."""
        low, high = _percentiles(np.concatenate(self._plausible), level)
        half_low, half_high = _percentiles(np.concatenate(self._halfway), level)
        with np.errstate(divide="ignore", invalid="ignore"):
            bending = np.abs(np.log2((high - low) / (half_high - half_low)) - 1)
        return np.where(high == low, 0.0, bending)


def _bias(values: Array, center: Array) -> Array:
    """Return the (k,) median bias of a statistic, in standard deviations.

    `values` contains the statistic for the center plus and minus each error. If the statistic is
    linear or monotone in a linear function, half of these values are below the center.
    """
    count = len(values) - np.isnan(values).sum(axis=0)
    below = np.sum(values < center, axis=0) + np.sum(values == center, axis=0) / 2
    shares = (below + 0.5) / (count + 1)
    return -np.asarray(scipy.special.ndtri(shares), np.float64)


def _percentiles(values: Array, level: float, bias: Array | float = 0.0) -> tuple[Array, Array]:
    """Return the percentile interval of (b, k) values, corrected for twice the bias.

    Undefined values count for both tails in equal parts, so that many of them make an interval
    infinite. The ends are ranks, so the level is exact if the truth is distributed as a draw.
    """
    missing = np.isnan(values)
    odd = np.cumsum(missing, axis=0) % 2 == 1
    ordered = np.sort(np.where(missing, np.where(odd, -np.inf, np.inf), values), axis=0)
    count, reach = len(values), scipy.special.ndtri((1 + level) / 2)
    last = np.full(values.shape[1:], np.inf)
    ordered = np.concatenate([-last[None], ordered, last[None]])
    lowest = np.minimum(
        np.floor(scipy.special.ndtr(-2 * bias - reach) * (count + 1) + RANK_ROUNDING), count
    )
    highest = np.maximum(
        np.ceil(scipy.special.ndtr(-2 * bias + reach) * (count + 1) - RANK_ROUNDING), 1
    )
    low, high = (
        np.take_along_axis(ordered, np.broadcast_to(rank, last.shape)[None].astype(int), axis=0)[0]
        for rank in (lowest, highest)
    )
    return np.where(low == np.inf, -np.inf, low), np.where(high == -np.inf, np.inf, high)
