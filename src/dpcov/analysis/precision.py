"""Sparse inverse covariance of a release: pairs of features with a partial correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from operator import not_
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import ALPHA_OPTION, FEATURES_OPTION, Option, command, section
from dpcov.analysis.features import chosen
from dpcov.analysis.graphical_lasso import Solution, graphical_lasso
from dpcov.analysis.intervals import titled
from dpcov.core.entropy import reading_generator
from dpcov.core.installing import installing
from dpcov.core.show.frames import frame
from dpcov.core.show.result import OMITTED_FIELD, Picture, Result
from dpcov.core.show.table import MAX_FULL_ROWS, Row, Table, beside, square, square_columns
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate import MIN_FEATURE_VARIANCE, Estimate, dependent
from dpcov.estimate.repeated import repeated_releases

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.show.frames import Library
    from dpcov.releases import Release

# Number of penalties of the path. Source: not recorded.
PATH_LENGTH = 25
# Smallest penalty of the path, divided by sqrt(log p / n). Source: not recorded.
MIN_PATH_ALPHA = 0.5
# Parameter of the extended BIC. Source: Foygel and Drton (2010).
EBIC_GAMMA = 0.5
# Largest number of features with stability by default, because each release takes long.
MAX_STABILITY_FEATURES = 20
# Number of releases that are simulated for the stability. Source: not recorded.
STABILITY_RELEASES = 20
# Smallest ratio of variance to noise of a feature in the graph. Source: not recorded.
MIN_FEATURE_SNR = 10.0


@dataclass(frozen=True, slots=True)
class Edge:
    """Edge of the graph: two features with a nonzero partial correlation.

    Attributes
    ----------
    first : str
        Name of the first feature.

    second : str
        Name of the second feature.

    partial_correlation : float
        Correlation given all other features. The penalty shrinks it towards 0.

    stability : float or None
        Fraction of the simulated releases that have this edge. None without simulations.

    See Also
    --------
    SparsePrecision.edges : Edges of a graph.

    Examples
    --------
    >>> from dpcov.analysis.precision import Edge
    >>> Edge("age", "pressure", 0.4).first
    'age'

    """

    first: str
    second: str
    partial_correlation: float
    stability: float | None = None


@dataclass(frozen=True, slots=True)
class SparsePrecision(Result):
    """Positive definite inverse covariance matrix with exact zeros.

    p is the number of features.

    Attributes
    ----------
    columns : tuple of str
        Names of the p features.

    left_out : tuple of str
        Features without variance in the release. If you name no features, this list also contains
        features whose variance is below 10 times the noise of an entry.

    precision : ndarray, shape (p, p)
        Inverse covariance, in inverse units of the data.

    partial_correlations : ndarray, shape (p, p)
        -P_ij / sqrt(P_ii P_jj) for the inverse covariance P, and 1 on the diagonal.

    alpha : float
        Strength of the penalty.

    correlation : bool
        True if the penalty applies to the inverse of the correlations.

    gap : float
        Largest distance of the penalised likelihood from its optimum.

    shares : ndarray, shape (p, p), or None
        Fraction of the simulated releases that have each edge. None without simulations.

    dependent : str
        Sentence about the rows of a person, or an empty string.

    See Also
    --------
    dpcov.precision : Compute the matrix.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.precision(release, alpha=0.1).columns
    ('x0', 'x1')

    """

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    precision: Matrix
    partial_correlations: Matrix
    alpha: float
    correlation: bool
    gap: float
    shares: Matrix | None = None
    dependent: str = field(default="", metadata=OMITTED_FIELD)

    @property
    def edges(self) -> list[Edge]:
        """Edges of the graph, in descending order of the absolute partial correlation.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> len(dpcov.precision(release, alpha=0.1).edges) <= 1
        True

        """
        rows, columns = np.nonzero(np.triu(self.partial_correlations, 1))
        strengths = self.partial_correlations[rows, columns]
        order = np.argsort(-np.abs(strengths), kind="stable")
        return [
            Edge(
                self.columns[i],
                self.columns[j],
                float(self.partial_correlations[i, j]),
                None if self.shares is None else float(self.shares[i, j]),
            )
            for i, j in zip(rows[order], columns[order], strict=True)
        ]

    def to_networkx(self) -> Any:
        """Convert the matrix to a graph of networkx.

        Returns
        -------
        networkx.Graph
            Graph with the features as nodes. Each edge has the attribute `partial_correlation`, and
            `stability` if it was simulated.

        Raises
        ------
        ReleaseError
            networkx is not installed.

        Examples
        --------
        >>> import dpcov
        >>> import numpy as np
        >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
        >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
        >>> graph = dpcov.precision(release, alpha=0.1).to_networkx()

        """
        try:
            import networkx
        except ImportError:
            raise ReleaseError(
                "`edges` has the same without networkx, which the graph needs: "
                + installing("networkx")
            ) from None
        graph = networkx.Graph(alpha=self.alpha)
        graph.add_nodes_from(self.columns)
        for edge in self.edges:
            extra = {} if edge.stability is None else {"stability": edge.stability}
            graph.add_edge(
                edge.first, edge.second, partial_correlation=edge.partial_correlation, **extra
            )
        return graph

    def to_frame(self, library: Library = "pandas") -> Any:
        """Return the precision matrix as a data frame.

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
        >>> dpcov.precision(release, alpha=0.1).to_frame().shape
        (2, 2)

        """
        return frame(self.columns, self.precision, library)

    def tables(self) -> list[Table]:
        edges, p = self.edges, len(self.columns)
        stable = self.shares is not None
        rows: list[Row] = []
        for edge in edges[:MAX_FULL_ROWS]:
            figures = [edge.partial_correlation, edge.stability][: 1 + stable]
            rows.append((f"{edge.first} - {edge.second}", figures))
        notes = [
            f"{len(edges)} of {p * (p - 1) // 2} pairs are related given all other features (alpha "
            f"= {self.alpha:.3g})."
        ]
        if stable and edges:
            notes.append("Stability: share of simulated releases that relate the pair as well.")
        if self.left_out:
            names = ", ".join(self.left_out)
            notes.append(
                f"Left out, since their variance does not rise clearly above the noise: {names}."
            )
        return [
            Table(
                ("", "partial correlation", "stability")[: 2 + stable],
                rows,
                titled("Related given all other features", self.dependent),
                ("{:+.3f}", "{:.0%}")[: 1 + stable],
                beyond=len(edges) - len(rows),
                rest="pairs",
                notes=tuple(notes),
            )
        ]

    def data(self) -> Table:
        more = {"partial correlation": self.partial_correlations}
        if self.shares is not None:
            more["stability"] = self.shares
        return beside(square(self.columns, self.precision), square_columns(self.columns, more))

    def document(self) -> dict[str, Any]:
        found = Result.document(self)
        return found | ({"edges": [asdict(edge) for edge in self.edges]} if self.edges else {})

    def picture(self) -> Picture | None:
        return Picture("graph", {"found": self}) if self.edges else None


@command(
    "precision",
    "Which columns are related given all the others (sparse inverse covariance).",
    alpha=ALPHA_OPTION,
    features=FEATURES_OPTION,
    correlation=Option(
        "--covariance", "Penalise the covariance, not the correlations.", bool, read=not_
    ),
    draws=Option(
        "--stability",
        "Simulate so many releases for the stability of the edges; default, 20 if few features.",
        int,
        least=0,
    ),
)
def precision(
    release: Release,
    alpha: float | None = None,
    *,
    features: Sequence[str] | None = None,
    correlation: bool = True,
    draws: int | None = None,
    generator: np.random.Generator | None = None,
) -> SparsePrecision:
    """Estimate a sparse inverse covariance matrix by the graphical lasso.

    `precision` minimises

        -log det X + <S, X> + alpha sum_(i != j) |X_ij|

    over positive definite X. S is the nearest positive semidefinite matrix to the released matrix.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    alpha : float, optional
        Strength of the penalty, above 0. The default is the choice of `precision_alpha`.

    features : sequence of str, optional
        Names of features or columns. The default is all columns. If you name a categorical column,
        `precision` leaves out its first level, because all levels add up to 1.

    correlation : bool, default True
        Let S contain the correlations, so that units do not matter. Otherwise, S contains the
        covariances, with each feature in units of its half-range.

    draws : int, optional
        Number of simulated releases for the stability of the edges. The default is 20 for at most
        20 features, and otherwise 0.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations. The default gives the same result every time.

    Returns
    -------
    SparsePrecision
        Inverse covariance and the edges of its graph.

    Raises
    ------
    NotReleasedError
        The release has no intercept or holds the trace only. The error also occurs if you ask for
        stability and the release has no noise distribution.
    ReleaseError
        alpha is not above 0, a name is unknown, or none of the features varies.

    See Also
    --------
    dpcov.precision_alpha : Choose the strength of the penalty.
    dpcov.partial_correlations : Partial correlations without a penalty.

    Notes
    -----
    The estimator is the graphical lasso (Friedman, Hastie and Tibshirani 2008). Wang, Huai and Xu
    (2018) also penalise the diagonal, which adds alpha to the diagonal of S.

    The simulations of the stability use the denoised matrix as the truth and keep alpha fixed. They
    contain no sampling error.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> [(edge.first, edge.second) for edge in dpcov.precision(release, alpha=0.1).edges]
    [('x0', 'x1')]

    """
    if alpha is not None and not (np.isfinite(alpha) and alpha > 0):
        raise ReleaseError(
            f"alpha must be above 0; it is {alpha:g}. Without a penalty nothing is sparse: "
            "partial_correlations has that."
        )
    if draws and release.noise is None:
        raise NotReleasedError(
            "This release has no noise law to simulate, so edges have no stability. Leave it out."
        )
    problem = _Problem.of(release, features, correlation=correlation)
    solution = _along_path(problem, release) if alpha is None else problem.solution(alpha)
    if draws is None:
        quick = release.noise is not None and len(problem.at) <= MAX_STABILITY_FEATURES
        draws = STABILITY_RELEASES if quick else 0
    shares = None
    if draws > 0:
        shares = _shares(release, problem, solution, draws, reading_generator(generator))
    fitted = solution.optimum.precision
    deviations = np.sqrt(np.diag(fitted))
    partial = 0.0 - fitted / np.outer(deviations, deviations)  # no -0.0
    np.fill_diagonal(partial, 1.0)
    return SparsePrecision(
        columns=tuple(release.columns[j] for j in problem.at),
        left_out=tuple(release.columns[j] for j in problem.flat),
        precision=fitted / np.outer(problem.units, problem.units),
        partial_correlations=partial,
        alpha=solution.alpha,
        correlation=correlation,
        gap=solution.optimum.gap,
        shares=shares,
        dependent=dependent(release, sampling=False),
    )


@section(
    name="network",
    heading="Which columns are related given all the others",
    lead="A line connects two columns that are correlated given all the other columns.",
    place=40,
)
def graph(release: Release, *, generator: np.random.Generator | None = None) -> SparsePrecision:
    """Compute the graph for the report.

    If there are few features, the result contains the stability of the edges.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations.

    Returns
    -------
    SparsePrecision
        Inverse covariance and the edges of its graph.

    """
    return precision(release, generator=generator)


def precision_alpha(
    release: Release, *, features: Sequence[str] | None = None, correlation: bool = True
) -> float:
    """Choose the penalty of `precision` with the smallest extended BIC, from the release alone.

    Parameters
    ----------
    release : Release
        Release with an intercept.

    features : sequence of str, optional
        Names of features or columns. The default is all columns.

    correlation : bool, default True
        Penalise the inverse of the correlations.

    Returns
    -------
    float
        Strength of the penalty.

    Raises
    ------
    NotReleasedError
        The release has no intercept, or holds the trace only.
    ReleaseError
        A name is unknown, or none of the features varies.

    See Also
    --------
    dpcov.precision : Estimate the inverse covariance.

    Notes
    -----
    The extended BIC is n (<S, X> - log det X) + |E| log n + 4 gamma |E| log p with gamma = 1/2
    (Foygel and Drton 2010). |E| is the number of edges. The effective number of rows n satisfies
    1/n = 1/rows + variance of the noise. A table of n rows without noise would have the same error.

    The smallest candidate is half of sqrt(log p / n). A smaller penalty would overfit a singular
    matrix. The graph can be recovered with penalties of the order sqrt(log p / n) (Ravikumar et al.
    2011).

    The variance of the noise is a mean over all pairs of features. Rare levels are mostly noise and
    increase the penalty. Leave rare levels out with `features`, or choose alpha yourself.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=10.0)
    >>> dpcov.precision_alpha(release) > 0
    True

    """
    problem = _Problem.of(release, features, correlation=correlation)
    return _along_path(problem, release).alpha


@dataclass(frozen=True, slots=True)
class _Fit:
    """Result of the graphical lasso at one penalty `alpha`."""

    alpha: float
    optimum: Solution

    def misfit(self, matrix: Matrix) -> float:
        """Return <S, X> - log det X: minus twice the log-likelihood of a row, up to a constant."""
        fitted = self.optimum.precision
        return float(np.sum(matrix * fitted) - np.linalg.slogdet(fitted)[1])


@dataclass(frozen=True, slots=True)
class _Problem:
    """Matrix of a graphical lasso.

    Attributes
    ----------
    at : list of int
        Positions of the features.

    flat : list of int
        Positions of the features that are left out.

    units : ndarray, shape (p,)
        Data units in one unit of the matrix.

    matrix : ndarray, shape (p, p)
        Covariances or correlations, scaled to a mean diagonal of 1.

    size : float
        Divisor of that scaling.

    correlation : bool
        True if the matrix contains correlations.

    noise : ndarray, shape (p,)
        Noise divided by the variance of each feature; see `noise_of_entries`.

    """

    at: list[int]
    flat: list[int]
    units: Vector
    matrix: Matrix
    size: float
    correlation: bool
    noise: Vector

    @classmethod
    def of(
        cls,
        release: Release,
        features: Sequence[str] | None,
        *,
        correlation: bool,
        at: list[int] | None = None,
    ) -> _Problem:
        """Build the matrix of a release.

        Parameters
        ----------
        release : Release
            Release with an intercept.

        features : sequence of str or None
            Names of features or columns. If this is None, features below the noise level are left
            out.

        correlation : bool
            Use correlations in place of covariances.

        at : list of int, optional
            Positions of the features. The default is the chosen features that vary.

        Returns
        -------
        _Problem
            Matrix and its units.

        """
        estimate = Estimate.required(release) if at is None else Estimate.of(release)
        every = np.diag(estimate.covariance)
        noise = noise_of_entries(release)
        flat: list[int] = []
        if at is None:
            wanted = chosen(release, features, reference=True)
            flat = [j for j in wanted if every[j] <= MIN_FEATURE_VARIANCE]
            hidden = [j for j in wanted if every[j] < MIN_FEATURE_SNR * noise[j]]
            if features is None and len(wanted) - len(hidden) >= 2:
                flat = hidden
            at = [j for j in wanted if j not in flat]
        if not at:
            raise ReleaseError("None of these features varies in the release.")
        variances = np.maximum(every[at], MIN_FEATURE_VARIANCE)
        deviations = np.sqrt(variances) if correlation else np.ones(len(at))
        matrix = estimate.covariance[np.ix_(at, at)] / np.outer(deviations, deviations)
        np.fill_diagonal(matrix, variances / deviations**2)  # above 0 if a feature does not vary
        size = float(np.trace(matrix)) / len(at)
        units = estimate.scales[at] * deviations * np.sqrt(size)
        shares = noise[at] / variances
        return cls(at, flat, units, matrix / size, size, correlation, shares)

    def solution(self, alpha: float, start: Solution | None = None) -> _Fit:
        """Solve the graphical lasso at one penalty."""
        return _Fit(alpha, graphical_lasso(self.matrix, alpha / self.size, start=start))

    def largest_alpha(self) -> float:
        """Return the penalty above which the graph has no edges."""
        return float(np.abs(np.triu(self.matrix, 1)).max(initial=0.0)) * self.size

    def effective_count(self, release: Release) -> float:
        """Return the number of rows whose sampling error equals the total error."""
        count = max(Estimate.of(release).fewest_rows(self.at), 2.0)
        p = len(self.at)
        if p < 2:
            return count
        privacy = (self.noise.sum() ** 2 - np.sum(self.noise**2)) / (p * (p - 1))
        return max(2.0, 1 / (1 / count + float(privacy)))


def noise_of_entries(release: Release) -> Vector:
    """Compute the size of the noise in the second moment, feature by feature.

    Noise in transformed rows is transformed back to the encoded rows, which increases the noise.

    Parameters
    ----------
    release : Release
        Any release.

    Returns
    -------
    ndarray, shape (p,)
        Values n such that sqrt(n_i n_j) is the standard deviation of the noise in the entry of
        features i and j. The entry is per row, between encoded features, and not on the diagonal.
        All values are 0 without a noise distribution.

    """
    p, law = len(release.columns), release.noise
    if law is None:
        return np.zeros(p)
    d = law.dimension
    variance = law.diagonal_variance
    if d > 1:
        variance = (law.frobenius_squared - d * variance) / (d * (d - 1))
    count = max(release.count(), 2.0)
    deviations = np.full(p, np.sqrt(variance) * release.lattice.step**2 / count)
    if release.linear_map is not None:
        back = np.sum(np.linalg.inv(release.linear_map) ** 2, axis=1)
        deviations *= back[[feature.variable for feature in release.schema.features]]
    rows = np.maximum(np.diag(Estimate.of(release).rows), 2.0)
    return np.asarray(deviations * (count / rows) ** 2)


def _along_path(problem: _Problem, release: Release) -> _Fit:
    """Return the fit with the smallest extended BIC. Each fit starts from the previous one."""
    largest, p = problem.largest_alpha(), len(problem.at)
    if largest == 0:
        return problem.solution(1.0)
    count = problem.effective_count(release)
    price = np.log(count) + 4 * EBIC_GAMMA * np.log(p)
    smallest = min(MIN_PATH_ALPHA * np.sqrt(np.log(p) / count) * problem.size, largest)
    best = last = problem.solution(largest)
    lowest = count * best.misfit(problem.matrix)
    for alpha in np.geomspace(largest, smallest, PATH_LENGTH)[1:]:
        last = problem.solution(float(alpha), last.optimum)
        edges = np.count_nonzero(np.triu(last.optimum.precision, 1))
        criterion = count * last.misfit(problem.matrix) + price * edges
        if criterion < lowest:
            best, lowest = last, criterion
    return best


def _shares(
    release: Release, problem: _Problem, fit: _Fit, draws: int, generator: np.random.Generator
) -> Matrix:
    """Return the (p, p) fractions of simulated releases with each edge."""
    present = np.zeros_like(problem.matrix)
    for simulated in islice(repeated_releases(release, generator), draws):
        again = _Problem.of(simulated, None, correlation=problem.correlation, at=problem.at)
        optimum = again.solution(fit.alpha, fit.optimum).optimum
        present += optimum.precision != 0
    return present / draws
