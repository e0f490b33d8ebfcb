"""Correlations of a release, nearest correlation matrices, and partial correlations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import Option, command, section
from dpcov.analysis.features import chosen, names_of, position
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    FLAG_TEXT,
    RULE_TEXT,
    UNKNOWN_ERROR_MESSAGE,
    Correlations,
    OneCorrelation,
    below_noise,
    sentence,
    shown_unasked,
    stated,
    stated_intervals,
    titled,
)
from dpcov.analysis.normal_equations import solve
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.show.frames import frame
from dpcov.core.show.result import OMITTED_FIELD, Found, Picture, Result
from dpcov.core.show.table import (
    MAX_STRONGEST_ROWS,
    Row,
    Table,
    beside,
    rows_of,
    square,
    square_columns,
    triangle,
)
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate, dependent
from dpcov.published import record
from dpcov.published.norm_histogram import Z_95
from dpcov.published.pseudo_rows import positive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.analysis.intervals import Intervals, Stated
    from dpcov.core.arrays import Booleans, Integers, Matrix
    from dpcov.core.show.frames import Library
    from dpcov.releases import Release

# Relative change of the matrix at which the alternating projections stop. Source: not recorded.
PROJECTION_TOLERANCE = 1e-10
# Largest size of a negative eigenvalue that is a rounding error.
MAX_ROUNDING_EIGENVALUE = 1e-12
# Largest number of alternating projections. Source: not recorded.
MAX_PROJECTIONS = 20_000
# Smallest average |r| in a group of features. Source: not recorded.
MIN_GROUP_CORRELATION = 0.25
# Largest number of pairs that are all listed: the pairs of 15 features.
MAX_LISTED_PAIRS = 105
# Standard error of a correlation if the simulation gives no error: the standard deviation of a
# uniform distribution from -1 to 1.
UNKNOWN_CORRELATION_SD = 1 / np.sqrt(3)
# Largest number of features with figures in the cells of a heatmap. More do not fit.
MAX_WRITTEN_FEATURES = 12
PAIRS_TITLE = "Pairs, strongest first"
# Largest number of features with optimal leaf order, which is slow for more features.
MAX_ORDERED_FEATURES = 400


@dataclass(frozen=True, slots=True)
class NamedMatrix(Result):
    """Symmetric matrix with the names of its rows.

    Attributes
    ----------
    columns : tuple of str
        Names of the p features.

    matrix : ndarray, shape (p, p)
        Entries of the matrix.

    errors : ndarray, shape (p, p), or None
        Standard errors of the entries, if they are known.

    below_noise : ndarray of bool, shape (p, p), or None
        True for an entry below the noise level, if this is known.

    See Also
    --------
    dpcov.partial_correlations : Matrix of partial correlations.

    Examples
    --------
    >>> import numpy as np
    >>> from dpcov.analysis.correlation import NamedMatrix
    >>> NamedMatrix(("age", "pressure"), np.eye(2)).columns
    ('age', 'pressure')

    """

    columns: tuple[str, ...]
    matrix: Matrix
    errors: Matrix | None = field(default=None, metadata=OMITTED_FIELD)
    below_noise: Booleans | None = field(default=None, metadata=OMITTED_FIELD)

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the matrix as a data frame.

        Parameters
        ----------
        library : {"pandas", "polars", "pyarrow"}, default "pandas"
            Library of the data frame.

        Returns
        -------
        DataFrame or pyarrow.Table
            Frame with one column for each feature.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> dpcov.partial_correlations(release).to_frame().shape
        (2, 2)

        """
        return frame(self.columns, self.matrix, library)

    def tables(self) -> list[Table]:
        shown = triangle("Private correlations", self.columns, self.matrix)
        return [self._groups() if shown is None else shown]

    def _groups(self) -> Table:
        found = clusters(self.matrix, noise=self.errors, below=self.below_noise)
        groups = [group for group in found if len(group) > 1]
        rows: list[Row] = [
            (str(at + 1), [", ".join(self.columns[j] for j in group)])
            for at, group in enumerate(groups)
        ]
        note = "Features without a group are not listed. All figures: dpcov correlation --csv."
        return Table(
            ("group", "features"), rows, "Groups of related features", notes=(note,), words=True
        )

    def data(self) -> Table:
        return square(self.columns, self.matrix)

    def picture(self) -> Picture:
        given = {"release": self, "noise": self.errors, "below": self.below_noise}
        return Picture("heatmap", given)


def different_columns(release: Release) -> tuple[Integers, Integers]:
    """Return the positions of all pairs of features of different columns, as two arrays.

    Two levels of the same column are not a pair, because their correlation follows from their
    shares.
    """
    i, j = np.tril_indices(len(release.columns), -1)
    columns = np.array([feature.column for feature in release.schema.variables])
    apart = columns[i] != columns[j]
    return i[apart], j[apart]


def pairs(
    release: Release,
    correlation: Matrix,
    kinds: dict[str, tuple[Matrix, str]],
    *notes: str,
    below: Booleans | None = None,
) -> Table:
    """Return a table of pairs of features, in descending order of the absolute correlation.

    The table leaves out pairs of levels of the same column (`different_columns`).

    Parameters
    ----------
    release : Release
        Release of the features.

    correlation : ndarray, shape (p, p)
        Correlations, which set the order.

    kinds : dict
        Matrix and format of each column of the table.

    *notes : str
        Sentences below the table.

    below : ndarray of bool, shape (p, p), optional
        True for an entry below the noise level.

    Returns
    -------
    Table
        Pairs and their figures.

    """
    i, j = different_columns(release)
    names = release.columns
    order = np.argsort(-np.abs(correlation[i, j]), kind="stable")
    shown = order if len(order) <= MAX_LISTED_PAIRS else order[:MAX_STRONGEST_ROWS]
    i, j = i[shown], j[shown]
    labels = [f"{names[b]} - {names[a]}" for a, b in zip(i.tolist(), j.tolist(), strict=True)]
    rows = rows_of(labels, *(figure[i, j] for figure, _ in kinds.values()))
    marks = [] if below is None else [FLAG_TEXT * one for one in below[i, j].tolist()]
    marked = [""] if any(marks) else []
    if marked:
        rows = [(name, [*cells, mark]) for (name, cells), mark in zip(rows, marks, strict=True)]
    return Table(
        ("", *kinds, *marked),
        rows,
        PAIRS_TITLE,
        (*(form for _, form in kinds.values()), *marked),
        beyond=len(order) - len(shown),
        rest="pairs",
        notes=notes,
    )


def correlation_standard_errors(
    release: Release, *, generator: np.random.Generator | None = None
) -> Matrix | None:
    """Return the standard errors of the correlations due to the privacy noise.

    dpcov simulates the noise, as for `intervals`. The standard errors are linear approximations.
    They do not include the sampling error.

    Parameters
    ----------
    release : Release
        Release with correlations.

    generator : numpy.random.Generator, optional
        Random numbers for the simulation. The default gives the same result every time.

    Returns
    -------
    ndarray, shape (p, p), or None
        Standard errors, with 0 on the diagonal. None if no correlation rises above the noise, or if
        the noise distribution is unknown.

    Raises
    ------
    NotReleasedError
        The release contains no correlations.

    See Also
    --------
    dpcov.intervals : Intervals for the correlations.
    Release.correlation : Correlations of the features.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> errors = dpcov.correlation_standard_errors(release)
    >>> bool(errors[0, 1] < 0.1)
    True

    """
    found = correlation_errors(release, generator=generator)
    return None if found is None else found.errors


@dataclass(frozen=True, slots=True)
class CorrelationErrors:
    """Errors of correlations due to the privacy noise.

    Attributes
    ----------
    errors : ndarray, shape (p, p)
        Standard errors, with 0 on the diagonal.

    below : ndarray of bool, shape (p, p)
        True for a correlation below the noise level. The diagonal is False.

    """

    errors: Matrix
    below: Booleans

    def sentence(self) -> tuple[str, ...]:
        """Return a sentence with the number of correlations below the noise level."""
        return sentence(self.below[np.tril_indices(len(self.below), -1)], "correlations")


def correlation_errors(
    release: Release, *, generator: np.random.Generator | None = None
) -> CorrelationErrors | None:
    """Return the standard errors of the correlations, and flags for the noise level.

    The result is None if the release has no noise distribution, or if no correlation rises above
    the noise.
    """
    record.refuse(release.not_released)
    if release.uninformative or release.noise is None:
        return None
    draws = reading_generator(generator)
    (found,) = stated(release, [Correlations()], sampling=False, draws=draws)
    return _errors(release, found)


def _errors(release: Release, found: Stated) -> CorrelationErrors:
    """Return the errors due to the privacy noise alone, and flags for the noise level."""
    deviations = np.where(np.isnan(found.of_noise), UNKNOWN_CORRELATION_SD, found.of_noise)
    shaped = Correlations().shaped
    return CorrelationErrors(shaped(release, deviations), shaped(release, found.below_noise))


def half_widths(errors: Matrix) -> Matrix:
    """Return the half-widths of 95% intervals, at most 1, for standard errors of correlations."""
    return np.minimum(Z_95 * errors, 1.0)


def correlations_below_noise(release: Release, found: CorrelationErrors | None) -> Booleans | None:
    """Return (p, p) flags of the correlations below the noise level, or None if this is unknown.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    found : CorrelationErrors or None
        Result of `correlation_errors` for this release.

    Returns
    -------
    ndarray of bool, shape (p, p), or None
        Flags. The diagonal is False.

    """
    if found is not None:
        return found.below
    hidden = Estimate.of(release).hides_correlations
    return ~np.eye(len(release.columns), dtype=bool) if hidden else None


def facts_of(release: Release) -> dict[str, Any]:
    """Return the names, the count and the means, which accompany a matrix in JSON."""
    means = Estimate.of(release).means
    return {"columns": release.columns, "count": release.number_of_rows, "mean": means.copy()}


def _root_mean_square(values: Matrix) -> float:
    """Return the root mean square of the entries."""
    return float(np.sqrt(np.mean(np.square(values))))


@section(
    name="correlations",
    heading="Correlations",
    lead="A correlation of 1 is a perfect rising relation, \N{MINUS SIGN}1 is a perfect falling "
    "relation, and 0 is no linear relation. Columns of a group stand next to each other, whatever "
    "the sign, so each group is a block.",
    place=10,
)
def blocks(release: Release, *, generator: np.random.Generator | None = None) -> NamedMatrix:
    """Return the correlations, their standard errors and noise flags for a heatmap."""
    if len(release.columns) < 2:
        raise ReleaseError("One feature alone has no correlations to show.")
    found = correlation_errors(release, generator=generator)
    errors = None if found is None else found.errors
    below = correlations_below_noise(release, found)
    return NamedMatrix(release.columns, release.correlation(), errors, below)


@dataclass(frozen=True, slots=True)
class PairCorrelation(Result):
    """Correlation of two features with intervals.

    Attributes
    ----------
    first : str
        Name of a feature.

    second : str
        Name of another feature.

    correlation : float
        Private correlation.

    lower : float, or None
        Lower end of the interval for the population. This interval covers privacy noise and
        sampling. None if the release has no noise distribution.

    upper : float, or None
        Upper end of the interval for the population.

    noise_lower : float, or None
        Lower end of the interval for the rows of the table. This interval covers the privacy noise
        only.

    noise_upper : float, or None
        Upper end of the interval for the rows of the table.

    level : float
        Nominal coverage of each interval.

    below_noise : bool, or None
        True if the correlation is below the noise level. None if the release has no noise
        distribution.

    cautions : tuple of str
        Warnings that the intervals might not contain the correlation of the table.

    dependent : str
        Sentence about persons with several rows, or an empty string.

    See Also
    --------
    dpcov.correlation : Return the correlation of two features.

    Examples
    --------
    >>> from dpcov.analysis.correlation import PairCorrelation
    >>> PairCorrelation("age", "pressure", 0.6, 0.5, 0.7, 0.55, 0.65, 0.95, False).upper
    0.7

    """

    first: str
    second: str
    correlation: float
    lower: float | None
    upper: float | None
    noise_lower: float | None
    noise_upper: float | None
    level: float
    below_noise: bool | None
    cautions: tuple[str, ...] = field(default=(), metadata=OMITTED_FIELD)
    dependent: str = field(default="", metadata=OMITTED_FIELD)

    def tables(self) -> list[Table]:
        tail = (1 - self.level) / 2
        title = titled(f"Correlation of {self.first} and {self.second}", self.dependent)
        value = self.correlation
        rows: list[Row] = [
            ("privacy noise and sampling", [value, self.lower, self.upper]),
            ("privacy noise", [value, self.noise_lower, self.noise_upper]),
        ]
        below = (f"The correlation is below the noise level, because {RULE_TEXT}.",)
        return [
            Table(
                ("interval for", "correlation", f"[{tail:.3g}", f"{1 - tail:.3g}]"),
                rows,
                title,
                ("{:.3f}",) * 3,
                notes=(*below * bool(self.below_noise), *self.cautions),
            )
        ]

    def data(self) -> Table:
        shown = self.document()
        names = ("correlation", "lower", "upper", "noise_lower", "noise_upper", "below_noise")
        row: Row = (f"{self.first} - {self.second}", [shown[name] for name in names])
        return Table(("", *(name.replace("_", " ") for name in names)), [row])


def correlation(
    release: Release,
    first: str,
    second: str,
    *,
    level: float = CONFIDENCE_LEVEL,
    generator: np.random.Generator | None = None,
) -> PairCorrelation:
    """Return the correlation of two features with intervals.

    Parameters
    ----------
    release : Release
        Release with correlations.

    first, second : str
        Numeric columns, or levels of categorical columns, such as ``sex=f``.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    PairCorrelation
        Correlation, intervals and whether the correlation is below the noise level.

    Raises
    ------
    NotReleasedError
        The release contains no correlations.
    ReleaseError
        A name is unknown, both names are the same, or `level` is not between 0 and 1.

    See Also
    --------
    Release.correlation : All correlations.
    dpcov.intervals : Intervals for all correlations.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 5000)
    >>> release = dpcov.release(np.column_stack([x, x**2]), lower=0, upper=1, epsilon=10.0)
    >>> found = dpcov.correlation(release, "x0", "x1")
    >>> found.below_noise
    False

    """
    at = position(release, first), position(release, second)
    check("level", level, Probability, ReleaseError)
    if at[0] == at[1]:
        raise ReleaseError(f"Both features are {first!r}. Choose two different features.")
    value = float(release.correlation()[at])
    if release.noise is None:
        unknown = None, None, None, None
        notes = (UNKNOWN_ERROR_MESSAGE,)
        return PairCorrelation(first, second, value, *unknown, level, None, notes)
    found, both = stated_intervals(release, OneCorrelation(*at), level, True, generator)
    low, high, _ = replace(found, deviations=found.of_noise).interval(level)
    below = Estimate.of(release).hides_correlations or bool(found.below_noise.item())
    return PairCorrelation(
        first,
        second,
        value,
        both.low.item(),
        both.high.item(),
        low.item(),
        high.item(),
        level,
        below,
        tuple(both.cautions),
        dependent(release),
    )


@command(
    "correlation",
    "Print the private correlations with an interval for each, or one of them.",
    first=Option("FIRST", "First feature of a pair; default, all pairs.", completes="columns"),
    second=Option("SECOND", "Second feature of the pair.", completes="columns"),
)
def correlation_command(
    release: Release, first: str | None = None, second: str | None = None
) -> Found | PairCorrelation:
    """Return all correlations, or the correlation of a pair of features."""
    if first is None and second is None:
        return correlations(release)
    if first is None or second is None:
        raise ReleaseError(f"A pair needs a second feature besides {first!r}. Name another one.")
    return correlation(release, first, second)


def correlations(
    release: Release,
    *,
    truth: Matrix | None = None,
    generator: np.random.Generator | None = None,
) -> Found:
    """Return all correlations with intervals, and their errors if the truth is given.

    The list of the strongest pairs leaves out pairs of levels of the same column.

    If `truth` is given, the intervals include the privacy noise only.
    """
    facts, estimate = facts_of(release), Estimate.of(release)
    matrix, hidden = estimate.correlation, estimate.hides_correlations
    title, notes = titled("Private correlations", dependent(release, sampling=False)), list[str]()
    noise, found, both = None, None, False
    if not estimate.uninformative and release.noise is not None:
        both = truth is None and shown_unasked(release)
        errors, found = stated_intervals(release, Correlations(), CONFIDENCE_LEVEL, both, generator)
        notes += found.sentences("correlations")
        noise = _errors(release, errors)
    more, file = _in_full(release, matrix, noise, found)
    facts |= more
    if hidden:
        return Found([], facts, file)
    kinds = {"private": (matrix, "{:.3f}")}
    if found is not None:
        kinds |= {"[0.025": (found.low, "{:.3f}"), "0.975]": (found.high, "{:.3f}")}
    if truth is not None:
        away = matrix - truth
        kinds |= {"non-private": (truth, "{:.3f}"), "difference": (away, "{:+.3f}")}
        notes.append(_misses(away, None if noise is None else noise.errors))
    whole = triangle(title, release.columns, matrix)
    listed = pairs(release, matrix, kinds, *notes, below=facts["below_noise"])
    listed = replace(listed, title=titled(PAIRS_TITLE, dependent(release, sampling=both)))
    return Found([whole, listed] if whole else [listed], facts, file)


def _in_full(
    release: Release, matrix: Matrix, noise: CorrelationErrors | None, found: Intervals | None
) -> tuple[dict[str, Any], Table]:
    """Return all figures twice: as a dictionary for JSON, and as a table for other files."""
    ends = {} if found is None else {"lower": found.low, "upper": found.high}
    below = correlations_below_noise(release, noise)
    facts = {
        "correlation": matrix,
        "lower": ends.get("lower"),
        "upper": ends.get("upper"),
        "level": CONFIDENCE_LEVEL,
        "covers": None if found is None else found.covers,
        "below_noise": below,
        "standard_errors": None if noise is None else noise.errors,
    }
    figures = ends if below is None else {**ends, "below noise": below}
    columns = square_columns(release.columns, figures)
    return facts, beside(square(release.columns, matrix), columns)


def _misses(away: Matrix, errors: Matrix | None) -> str:
    """Return a sentence about the root mean square error of the correlations."""
    at = np.tril_indices(len(away), -1)
    stated = "" if errors is None else f"; standard error: {_root_mean_square(errors[at]):.3f}"
    real = f"Root mean square error of the {len(at[0])} correlations"
    return f"{real}: {_root_mean_square(away[at]):.3f}{stated}"


def nearest_correlation(release: Release) -> NamedMatrix:
    """Return the correlation matrix nearest to the released correlations.

    If the release was denoised, the function returns the released correlations unchanged. Without
    denoising, the released matrix can have negative eigenvalues.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    Returns
    -------
    NamedMatrix
        Positive semidefinite matrix of shape (p, p) with 1 on the diagonal.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.

    See Also
    --------
    dpcov.Release.correlation : Released correlations.

    Notes
    -----
    The distance is the Frobenius norm. The method is algorithm 3.3 of Higham (2002): alternating
    projections with Dykstra's correction.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.nearest_correlation(release).matrix.shape
    (2, 2)

    """
    Estimate.required(release)
    return NamedMatrix(release.columns, nearest_correlation_matrix(release.correlation()))


def nearest_correlation_matrix(matrix: Matrix, *, tol: float = PROJECTION_TOLERANCE) -> Matrix:
    """Compute the nearest correlation matrix in the Frobenius norm.

    The method is algorithm 3.3 of Higham (2002), "Computing the nearest correlation matrix":
    alternating projections with Dykstra's correction.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        Symmetric matrix.

    tol : float, default 1e-10
        Relative change at which the iterations stop.

    Returns
    -------
    ndarray, shape (p, p)
        Positive semidefinite matrix with 1 on the diagonal.

    Raises
    ------
    ReleaseError
        The matrix is not symmetric and finite, or the iterations do not converge.

    """
    given = np.asarray(matrix, np.float64)
    square = given.ndim == 2 and given.shape[0] == given.shape[1]
    if not square or not np.isfinite(given).all() or not np.allclose(given, given.T):
        raise ReleaseError("A correlation matrix must be symmetric and finite.")
    if np.all(np.diag(given) == 1) and np.linalg.eigvalsh(given)[0] >= -MAX_ROUNDING_EIGENVALUE:
        return given
    unit, correction = given.copy(), np.zeros_like(given)
    for _ in range(MAX_PROJECTIONS):
        semidefinite = positive(unit - correction)
        correction = semidefinite - (unit - correction)
        before, unit = unit, semidefinite.copy()
        np.fill_diagonal(unit, 1.0)
        changes = (np.linalg.norm(unit - before), np.linalg.norm(unit - semidefinite))
        if max(changes) <= tol * np.linalg.norm(unit):
            return _unit_diagonal(semidefinite)
    raise ReleaseError("The nearest correlation matrix was not found; use another denoising.")


def _unit_diagonal(matrix: Matrix) -> Matrix:
    """Rescale rows and columns, which keeps the matrix positive semidefinite."""
    roots = np.sqrt(np.diag(matrix))
    scaled: Matrix = matrix / np.outer(roots, roots)
    np.fill_diagonal(scaled, 1.0)
    return scaled


def partial_correlations(release: Release, features: Sequence[str] | None = None) -> NamedMatrix:
    """Compute the correlation of each pair of features given all other features.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    features : sequence of str, optional
        Names of features or columns. The default is all columns. If you name a categorical column,
        its first level is left out, because all levels add up to 1.

    Returns
    -------
    NamedMatrix
        Matrix of shape (p, p) with 1 on the diagonal.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        A name is unknown, or some features determine others.

    See Also
    --------
    dpcov.precision : Sparse inverse covariance.

    Notes
    -----
    The entries are -P_ij / sqrt(P_ii P_jj), where P is the inverse covariance (Lauritzen 1996,
    chapter 5).

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.partial_correlations(release).matrix.shape
    (2, 2)

    """
    estimate = Estimate.required(release)
    at = chosen(release, features, reference=True)
    covariance = estimate.covariance[np.ix_(at, at)]
    inverse, rank = solve(covariance, np.eye(len(at)))
    if rank < len(at):
        raise ReleaseError(
            f"Only {rank} of the {len(at)} features vary on their own in the denoised matrix, so "
            "partial correlations are not determined. Choose fewer features."
        )
    partial = -_unit_diagonal((inverse + inverse.T) / 2)
    np.fill_diagonal(partial, 1.0)
    return NamedMatrix(names_of(release, at), np.clip(partial, -1.0, 1.0))


def clusters(
    matrix: Matrix,
    least: float = MIN_GROUP_CORRELATION,
    noise: Matrix | None = None,
    below: Booleans | None = None,
) -> list[list[int]]:
    """Group features with strong correlations of any sign.

    The method is average linkage on 1 - |r| with optimal leaf order (Bar-Joseph, Gifford and
    Jaakkola 2001). Features without a group follow, each alone.

    Parameters
    ----------
    matrix : ndarray, shape (p, p)
        Correlations or partial correlations.

    least : float, default 0.25
        Smallest average |r| in a group.

    noise : ndarray, shape (p, p), optional
        Standard errors due to the privacy noise.

    below : ndarray of bool, shape (p, p), optional
        True for a correlation below the noise level, which counts as 0. The default follows from
        `noise`.

    Returns
    -------
    list of list of int
        Positions of the features in each group.

    """
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage

    p = len(matrix)
    if p < 2:
        return [[at] for at in range(p)]
    sizes = np.abs(matrix)
    if below is None and noise is not None:
        below = below_noise(matrix, noise)
    if below is not None:
        sizes = np.where(below, 0.0, sizes)
    apart = np.clip(1 - sizes[np.triu_indices(p, 1)], 0.0, None)
    tree = linkage(apart, "average", optimal_ordering=p <= MAX_ORDERED_FEATURES)
    labels = fcluster(tree, 1 - least, "distance")
    groups: dict[int, list[int]] = {}
    for leaf in leaves_list(tree):
        groups.setdefault(int(labels[leaf]), []).append(int(leaf))
    return sorted(groups.values(), key=lambda group: len(group) == 1)


def clustered_order(matrix: Matrix) -> list[int]:
    """Return the positions of the features in the order of `clusters`."""
    return [at for group in clusters(matrix) for at in group]
