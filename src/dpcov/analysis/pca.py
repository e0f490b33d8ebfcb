"""Principal components of a release, and the number of components above the privacy noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import Option, command
from dpcov.analysis.features import new_rows
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    eigenvalues,
    intervals,
    sentence,
    shown_unasked,
    titled,
)
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.show.result import OMITTED_FIELD, Result
from dpcov.core.show.table import ALWAYS_SHOWN_STRENGTH, MAX_FIGURE_COLUMNS, Table
from dpcov.errors import ReleaseError
from dpcov.estimate import MIN_FEATURE_VARIANCE, Estimate, dependent
from dpcov.estimate.missing import MIN_DIVISOR
from dpcov.published import record

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

# Default probability that the test finds one component too many. Source: convention.
TEST_ERROR_RATE = 0.05
# Number of components that the command prints by default.
MAX_PRINTED_COMPONENTS = 5
# Numbers of simulated noise matrices of the test, for few and for many features: 5% of 200 and of
# 60 are whole numbers.
TEST_DRAWS, FEW_TEST_DRAWS = 199, 59
# Number of features above which the test uses fewer matrices, because each one takes long.
MAX_TESTED_FEATURES = 200
# Fraction of the total variance above which one column determines the components. Source: with 0.9,
# the first loading of this column is at least 0.94.
MAX_COLUMN_SHARE = 0.9
# Relative difference below which entries count as equally large. Source: not recorded.
MAX_TIE_DIFFERENCE = 1e-3


@dataclass(frozen=True, slots=True)
class PCA(Result):
    """Principal components of a release.

    p is the number of features, and k is the number of components.

    Attributes
    ----------
    columns : tuple of str
        Names of the p features. A level of a categorical column is a 0/1 feature.

    components : ndarray, shape (k, p)
        Orthonormal rows in descending order of variance. The largest entry of each row is positive.

    explained_variance : ndarray, shape (k,)
        Variances in squared units of the data. The divisor is the number of rows n, and not n - 1.

    explained_variance_ratio : ndarray, shape (k,)
        Fractions of `total_variance`.

    total_variance : float
        Sum of the variances of all p components.

    significant : int or None
        Number of dimensions in which the covariance rises above the privacy noise; see
        `significant_components`. None if the release has no noise distribution.

    means : ndarray, shape (p,)
        Means that `transform` subtracts.

    deviations : ndarray, shape (p,)
        Scales that `transform` divides by.

    schema : Schema
        Schema of the release.

    ends : ndarray, shape (2, k), or None
        Ends of 95% intervals of `explained_variance`, with NaN if an interval says nothing. None if
        they were not requested.

    below_noise : ndarray of bool, shape (k,), or None
        True for a variance below the noise level. None if this was not requested.

    covering : str
        Sentence about the coverage of the intervals, or an empty string.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    dominance : str
        Sentence about a column that holds nearly all variance, or an empty string.

    not_estimable : tuple of str
        Sentences about intervals that say nothing, with a budget that would do.

    sufficient_budget : ndarray, shape (k,), or None
        Epsilon or rho of a release that would have an interval, for each interval that says
        nothing. NaN for the other intervals. None if intervals were not requested.

    See Also
    --------
    dpcov.pca : Compute the components.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.pca(release, k=1).components.shape
    (1, 2)

    """

    columns: tuple[str, ...]
    components: Matrix
    explained_variance: Vector
    explained_variance_ratio: Vector
    total_variance: float
    significant: int | None
    means: Vector
    deviations: Vector
    schema: Schema = field(metadata=OMITTED_FIELD)
    ends: Matrix | None = field(default=None, metadata=OMITTED_FIELD)
    below_noise: Booleans | None = None
    covering: str = field(default="", metadata=OMITTED_FIELD)
    dependent: str = field(default="", metadata=OMITTED_FIELD)
    dominance: str = field(default="", metadata=OMITTED_FIELD)
    not_estimable: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    sufficient_budget: Vector | None = None

    def transform(self, rows: Any) -> Matrix:
        """Compute the scores of new rows.

        Values outside the bounds count as the nearer bound, as in the release.

        Parameters
        ----------
        rows : array-like, shape (m, p), or table
            Features in the order of `columns`, with 0 or 1 for a level of a categorical column. A
            table has the original columns instead.

        Returns
        -------
        ndarray, shape (m, k)
            Scores of the rows.

        Raises
        ------
        ReleaseError
            The rows have a wrong number of columns, or a column is missing.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.pca(release, k=1).transform([[0.2, 0.8]]).shape
        (1, 1)

        """
        values = new_rows(self.schema, self.columns, rows)
        return (values - self.means) / self.deviations @ self.components.T

    def tables(self) -> list[Table]:
        rises = "Whether they rise above the noise is not known: its law can't be simulated."
        if self.significant is not None:
            p = len(self.columns)
            rises = f"In {self.significant} of {p} dimensions they rise above the noise (5% test)."
        notes = [one for one in (self.dominance, rises, self.covering) if one]
        if self.below_noise is not None:
            notes += sentence(self.below_noise, "variances of these components")
        notes += self.not_estimable
        sizes = np.abs(self.components[:MAX_FIGURE_COLUMNS]).max(axis=0)
        loadings = self.components.T.tolist()
        ends = () if self.ends is None else self.ends.tolist()
        heads = [
            ("variance", self.explained_variance.tolist()),
            *zip(("[0.025", "0.975]"), ends, strict=False),
            ("share of variance", self.explained_variance_ratio.tolist()),
        ]
        return [
            Table(
                ("", *(f"PC{j + 1}" for j in range(len(self.components)))),
                [*heads, *zip(self.columns, loadings, strict=True)],
                titled("Principal components", self.dependent),
                ("{:.3f}",),
                head_form="{:.4g}",
                strengths=[*[ALWAYS_SHOWN_STRENGTH] * len(heads), *sizes],
                rest="features with small loadings",
                widest=MAX_FIGURE_COLUMNS,
                other_columns="components",
                notes=tuple(notes),
            )
        ]

    def data(self) -> Table:
        table = self.tables()[0]
        if self.below_noise is None:
            return table
        flags = ("below noise", [bool(one) for one in self.below_noise])
        heads = 3 if self.ends is not None else 1
        return replace(table, rows=[*table.rows[:heads], flags, *table.rows[heads:]])

    def document(self) -> dict[str, Any]:
        low, high = (None, None) if self.ends is None else self.ends
        more = {"lower": low, "upper": high, "level": None if low is None else CONFIDENCE_LEVEL}
        return Result.document(self) | more


def pca(
    release: Release,
    k: int | None = None,
    *,
    correlation: bool = False,
    error_rate: float = TEST_ERROR_RATE,
    generator: np.random.Generator | None = None,
) -> PCA:
    """Compute the principal components of the covariance or the correlations.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    k : int, optional
        Number of components. The default is all components.

    correlation : bool, default False
        Divide each feature by its standard deviation first. Otherwise, features with large numbers
        dominate the components.

    error_rate : float, default 0.05
        Error rate of the test that gives `PCA.significant`.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    PCA
        Components and their variances.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        `k` is not between 1 and the number of features.

    See Also
    --------
    significant_components : Test of the number of components.
    dpcov.intervals : Intervals for the variances of the components.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> bool(dpcov.pca(release, k=1).explained_variance_ratio[0] > 0.8)
    True

    """
    estimate = Estimate.required(release)
    p = len(estimate.means)
    k = p if k is None else k
    if not 1 <= k <= p:
        raise ReleaseError(f"k must be between 1 and the number of features, {p}; it is {k}.")
    check("error_rate", error_rate, Probability, ReleaseError)
    units = estimate.scales
    if correlation:
        units = _over_deviation(estimate.covariance)
    values, vectors = np.linalg.eigh(estimate.covariance * np.outer(units, units))
    values, components = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    sizes = np.abs(components)
    largest = np.argmax(
        sizes >= (1 - MAX_TIE_DIFFERENCE) * sizes.max(axis=1, keepdims=True), axis=1
    )
    components = components * np.where(components[np.arange(p), largest] < 0, -1.0, 1.0)[:, None]
    total = float(values.sum())
    flat = units <= 0
    return PCA(
        columns=release.columns,
        components=components[:k],
        explained_variance=values[:k],
        explained_variance_ratio=values[:k] / max(total, MIN_DIVISOR),
        total_variance=total,
        significant=significant_components(release, error_rate, generator),
        means=estimate.means,
        deviations=np.where(flat, np.inf, estimate.scales / np.where(flat, 1.0, units)),
        schema=release.schema,
        dependent=dependent(release, sampling=False),
        dominance=_dominance(release, np.diag(estimate.covariance) * units**2),
    )


def _dominance(release: Release, variances: Vector) -> str:
    """Return a sentence about the column with nearly all of these variances, or an empty string."""
    totals: dict[str, float] = {}
    for feature, variance in zip(release.schema.variables, variances.tolist(), strict=True):
        totals[feature.column] = totals.get(feature.column, 0.0) + variance
    name = max(totals, key=lambda one: totals[one])
    share = totals[name] / max(sum(totals.values()), MIN_DIVISOR)
    if len(totals) < 2 or share <= MAX_COLUMN_SHARE:
        return ""
    return (
        f"{name!r} holds at least {min(int(100 * share), 99)}% of the variance; --correlation "
        "gives equal weights."
    )


@command(
    "pca",
    "Print principal components, and how many rise above the noise.",
    k=Option("-k", "Number of components.", int),
    correlation=Option("--correlation", "Divide by standard deviations first.", bool),
)
def _leading(release: Release, k: int | None = None, *, correlation: bool = False) -> PCA:
    """Compute components with intervals for the command. The default is five components."""
    limit = min(MAX_PRINTED_COMPONENTS, len(release.columns)) if k is None else k
    found = pca(release, limit, correlation=correlation)
    if not shown_unasked(release):
        return found
    spectrum = intervals(release, eigenvalues(correlation=correlation))
    return replace(
        found,
        ends=np.stack([spectrum.low, spectrum.high])[:, :limit],
        below_noise=spectrum.below_noise[:limit],
        covering=spectrum.covering,
        dependent=dependent(release),
        not_estimable=spectrum.not_estimable([f"PC{at + 1}" for at in range(limit)]),
        sufficient_budget=spectrum.sufficient_budget[:limit],
    )


def _over_deviation(covariance: Matrix) -> Vector:
    """Return the inverse standard deviation of each feature, or 0 for a constant feature."""
    variances = np.diag(covariance)
    flat = variances <= MIN_FEATURE_VARIANCE
    return np.where(flat, 0.0, 1 / np.sqrt(np.where(flat, 1.0, variances)))


def significant_components(
    release: Release,
    error_rate: float = TEST_ERROR_RATE,
    generator: np.random.Generator | None = None,
) -> int | None:
    """Estimate the number of dimensions in which the covariance rises above the privacy noise.

    The test is sequential. For r = 0, 1, ... it tests the hypothesis that the covariance of these
    rows has rank r, so that all further eigenvalues are noise. The test stops at the first
    hypothesis that it cannot reject. The units of the features do not affect the result.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    error_rate : float, default 0.05
        Largest probability that the result exceeds the true rank.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    int or None
        Number of dimensions. None if the release has no noise distribution.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        The error rate is too small for the number of simulations.

    See Also
    --------
    dpcov.pca : Principal components.

    Notes
    -----
    Let S be the true second moment, Z the noise and m the true mean. With B = [I, -m], the Schur
    complement of the intercept in S + Z is at most B (S + Z) B'. If B S B' has rank r, then by
    Courant and Fischer the eigenvalue number r + 1 of L B (S + Z) B' L' is bounded for every matrix
    L. The bound is the largest eigenvalue of the noise L B Z B' L' on some subspace of p - r
    dimensions. A quantile of this bound is the threshold of the test. L and m are evaluated at the
    released mean.

    Suppose that the noise is rotation-invariant and that L B B' L' = I. The noise on any p - r
    dimensions then has the distribution of a leading block of Z. For other noise, the largest
    eigenvalue on all p dimensions is the bound. If cells may be missing, the noise is its
    first-order effect on the completed second moment, with the same bound.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> significant_components(release) >= 1
    True

    """
    record.refuse(release.not_released)
    if release.noise is None:
        return None
    incomplete = bool(release.schema.missing_columns)
    estimate = Estimate.of(release)
    if incomplete:
        noisy = estimate.complete(release.noisy())
    else:
        noisy = release.noisy_mapped() / release.lattice.step**2  # a map does not change the rank
    count_entry, sums = noisy[-1, -1], noisy[:-1, -1]
    if count_entry <= 0:
        return 0
    p = len(sums)
    draws = reading_generator(generator)
    count = FEW_TEST_DRAWS if p > MAX_TESTED_FEATURES else TEST_DRAWS
    centring = np.column_stack([np.eye(p), -sums / count_entry])
    whitening = np.linalg.solve(np.linalg.cholesky(centring @ centring.T), centring)
    values: Vector = np.linalg.eigvalsh(whitening @ noisy @ whitening.T)[::-1].astype(np.float64)
    noises = (release.noise.simulate(draws) for _ in range(count))
    if incomplete:
        law = release.noise.rescaled(release.lattice.step**2)
        noises = (
            estimate.complete_errors(release.unmapped(law.simulate(draws))) for _ in range(count)
        )
    elif release.noise.rotation_invariant:
        return _sequential(values, [noise[:p, :p] for noise in noises], error_rate)
    whitened = [whitening @ noise @ whitening.T for noise in noises]
    return _sequential(values, whitened, error_rate, same=True)


def _sequential(
    values: Vector, noises: list[Matrix], error_rate: float, *, same: bool = False
) -> int:
    """Count the leading eigenvalues whose Monte Carlo tests reject one after another.

    Noise on fewer dimensions is smaller in every draw. An eigenvalue above one threshold is
    therefore above all later thresholds.

    Parameters
    ----------
    values : ndarray, shape (p,)
        Eigenvalues in descending order.

    noises : list of ndarray, each of shape (p, p)
        Simulated noise.

    error_rate : float
        Error rate of the test.

    same : bool, default False
        Use the same threshold for all eigenvalues.

    Returns
    -------
    int
        Number of eigenvalues.

    """
    allowed = int(np.floor(error_rate * (len(noises) + 1))) - 1
    if allowed < 0:
        raise ReleaseError(f"An error rate below {1 / (len(noises) + 1):.3g} can't be tested.")
    found = 0
    while found < len(values):
        rest = len(values) if same else len(values) - found
        tops = sorted(float(np.linalg.eigvalsh(noise[:rest, :rest])[-1]) for noise in noises)
        passed = int(np.count_nonzero(values > tops[len(tops) - 1 - allowed]))
        if passed <= found:
            break
        found = passed
    return found
