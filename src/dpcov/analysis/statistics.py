"""Statistics of many second moments at once, for simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, runtime_checkable

import numpy as np

from dpcov.analysis.features import target_and_features
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate.errors import Stack

if TYPE_CHECKING:
    from dpcov.core.arrays import AnyArray, Array, Booleans
    from dpcov.releases import Release

    Function = Callable[[Release], Array | float]

OfMatrix = Literal["covariance", "correlation"]


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

    `of_columns` is True if the means and variances of the columns determine the statistic. Only
    such statistics are available from a release of sums.
    """

    __slots__ = ()
    of_columns: ClassVar[bool] = False

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        return -np.inf, np.inf

    def reach(self, release: Release, matrices: Array, center: Array) -> Array | None:
        return None

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        return values


def _undefined(matrices: Array) -> Booleans:
    """Return (b,) flags of the matrices with an undefined entry."""
    return np.asarray(np.isnan(matrices).any(axis=(1, 2)), np.bool_)


class _Triangle(_Plain):
    """Statistic that consists of the lower triangle of a symmetric matrix."""

    __slots__ = ()

    def shaped(self, release: Release, values: AnyArray) -> AnyArray:
        p = len(release.columns)
        matrix = np.empty((p, p), values.dtype)
        rows, columns = np.tril_indices(p)
        matrix[rows, columns] = matrix[columns, rows] = values
        return matrix


class Means(_Plain):
    """Means in the units of the data."""

    of_columns = True

    def values(self, release: Release, matrices: Array) -> Array:
        return release.centers + Stack.of(release, matrices).means * release.scales

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        numeric, features = release.schema.encoded_columns, release.schema.variables
        low = [f.center - f.scale if f.name in numeric else f.center for f in features]
        return np.array(low), release.centers + release.scales


class Variances(_Plain):
    """Variances in the squared units of the data, with the divisor n."""

    of_columns = True

    def values(self, release: Release, matrices: Array) -> Array:
        covariances = Stack.of(release, matrices).covariances
        return np.diagonal(covariances, axis1=1, axis2=2) * release.scales**2

    def limits(self, release: Release) -> tuple[Array | float, Array | float]:
        indicators = np.array([feature.is_indicator for feature in release.schema.variables])
        return 0.0, np.where(indicators, 0.25, 1.0) * release.scales**2


class Covariances(_Triangle):
    """Lower triangle of the covariances, in the units of the data, with the divisor n."""

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

    """

    target: str
    features: tuple[str, ...] | None
    penalties: tuple[float, ...] = ()

    def values(self, release: Release, matrices: Array) -> Array:
        whole = not self.penalties
        to, at = target_and_features(release, self.target, self.features, reference=whole)
        scales = release.scales
        stack = Stack.of(release, matrices)
        gram = stack.covariances[:, at][:, :, at]
        undefined = _undefined(gram) | np.isnan(stack.covariances[:, at, to]).any(axis=1)
        gram = np.where(undefined[:, None, None], 0.0, gram) + np.diag(self.penalties or [0.0])
        variances = np.diagonal(gram, axis1=1, axis2=2)
        flat = variances <= 0  # a constant feature does not affect the other features
        gram = np.where(flat[:, :, None] | flat[:, None, :], np.eye(len(at)), gram)
        roots = np.sqrt(np.where(flat, 1.0, variances))
        related = gram / (roots[:, :, None] * roots[:, None, :])
        undefined |= np.linalg.eigvalsh(related)[:, 0] <= 0
        gram = np.where(undefined[:, None, None], np.eye(len(at)), gram)
        slopes = np.linalg.solve(gram, stack.covariances[:, at, to][:, :, None])[:, :, 0]
        slopes = slopes * scales[to] / scales[at]
        slopes[undefined[:, None] | flat] = np.nan
        means = Means().values(release, matrices)
        intercepts = means[:, to] - np.einsum("bk,bk->b", slopes, means[:, at])
        return np.column_stack([intercepts, slopes])


@dataclass(frozen=True, slots=True)
class FitFigures(_Plain):
    """R-squared and the logarithm of the residual variance of a regression.

    Attributes
    ----------
    target : int
        Position of the target.

    features : tuple of int
        Positions of the features.

    """

    target: int
    features: tuple[int, ...]

    def values(self, release: Release, matrices: Array) -> Array:
        """Return (b, 2) figures for (b, d, d) second moments, with NaN for undefined figures."""
        covariances, at = Stack.of(release, matrices).covariances, list(self.features)
        gram = covariances[:, at][:, :, at]
        cross = covariances[:, at, self.target]
        variances = covariances[:, self.target, self.target]
        undefined = _undefined(gram) | np.isnan(cross).any(axis=1)
        gram = np.where(undefined[:, None, None], 0.0, gram)
        scale = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), np.finfo(float).tiny))
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
