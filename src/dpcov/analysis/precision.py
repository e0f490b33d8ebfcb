"""Sparse inverse covariance of a release: which features are related given all the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from operator import not_
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.declared import ALPHA, FEATURES, Option, command, section
from dpcov.analysis.expected import repeated
from dpcov.analysis.features import chosen
from dpcov.analysis.graphical_lasso import Solution, graphical_lasso
from dpcov.analysis.moments import Moments, require_matrix
from dpcov.core.entropy import reading_generator
from dpcov.core.installing import installing
from dpcov.core.show.frames import frame
from dpcov.core.show.result import Picture, Result
from dpcov.core.show.table import LONGEST, Row, Table, beside, square, square_columns
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.releases import SMALLEST_VARIANCE
from dpcov.releases.pairwise import fewest_rows, rows_by_pair

if TYPE_CHECKING:
    from dpcov.core.arrays import Matrix, Vector
    from dpcov.core.show.frames import Library
    from dpcov.releases import Release

PATH_LENGTH = 25
PATH_END = 0.5  # smallest alpha of the path, over sqrt(log p / n)
GAMMA = 0.5  # of the extended BIC
MOST_SIMULATED = 20  # features up to which the stability of edges is told unasked
STABILITY = 20  # releases that are simulated for it then
CLEAR = 10.0  # a feature has its place in a graph from this ratio of variance to noise on


@dataclass(frozen=True, slots=True)
class Edge:
    """Two features that are related given all the others.

    Attributes
    ----------
    first, second : names of the features.
    partial_correlation : not 0; shrunk towards 0 by the penalty.
    stability : share of simulated releases that have this edge; None if none were simulated.

    """

    first: str
    second: str
    partial_correlation: float
    stability: float | None = None


@dataclass(frozen=True, slots=True)
class SparsePrecision(Result):
    """A positive definite inverse covariance with exact zeros.

    Attributes
    ----------
    columns : names of the p features.
    left_out : features that have no place in a graph: without variance in the release or, if none
        were named, with a variance below `CLEAR` times the noise of an entry.
    precision : (p, p) in one over the data's units.
    partial_correlations : (p, p) -P_ij / sqrt(P_ii P_jj), 1 on the diagonal.
    alpha : strength of the penalty.
    correlation : whether the penalty is on the inverse of the correlations.
    gap : the penalised likelihood is at most this far from its optimum.
    shares : (p, p) share of simulated releases that have each edge; None if none were simulated.

    """

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    precision: Matrix
    partial_correlations: Matrix
    alpha: float
    correlation: bool
    gap: float
    shares: Matrix | None = None

    @property
    def edges(self) -> list[Edge]:
        """All edges, strongest partial correlation first."""
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
        """A `networkx.Graph`: the features as nodes, `partial_correlation` on each edge."""
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
        """The precision matrix as a data frame of pandas, polars or pyarrow."""
        return frame(self.columns, self.precision, library)

    def tables(self) -> list[Table]:
        edges, p = self.edges, len(self.columns)
        stable = self.shares is not None
        rows: list[Row] = []
        for edge in edges[:LONGEST]:
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
                "Related given all other features",
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
    alpha=ALPHA,
    features=FEATURES,
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
    """Sparse inverse covariance by the graphical lasso.

    Minimises -log det X + <S, X> + alpha sum_(i != j) |X_ij| over positive definite X. S is the
    released matrix, made positive semidefinite first where it is not. Wang, Huai and Xu (2018)
    have the same, but penalize the diagonal as well, which only adds alpha to that of S.

    Parameters
    ----------
    release : a release with an intercept.
    alpha : strength of the penalty, above 0; default, by `precision_alpha`.
    features : names of features or columns; default, all. Of each categorical column that is
        chosen as a whole the first level is left out: all of them add up to 1.
    correlation : S holds the correlations, so that units don't matter; otherwise the covariance,
        each feature in units of its half-range (a level in its own).
    draws : number of releases to simulate by the public noise law for the stability of the edges,
        alpha kept; default, 20 of at most 20 features, which tell a firm edge from an accident,
        else none. It takes the denoised matrix for the truth and leaves out sampling error.
    generator : for these simulations; default, the same each time.

    Returns
    -------
    SparsePrecision

    Raises
    ------
    ReleaseError : alpha not above 0; unknown names; no intercept; nothing but the trace was
        released, or none of the features varies; stability is asked for without a noise law.

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
        quick = release.noise is not None and len(problem.at) <= MOST_SIMULATED
        draws = STABILITY if quick else 0
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
    )


@section(
    name="network",
    heading="Which columns are related given all the others",
    lead="A line means that two columns still tell something about each other once all the others "
    "are known.",
    place=40,
)
def graph(release: Release, *, generator: np.random.Generator | None = None) -> SparsePrecision:
    """Related features, with the stability of the edges where that does not take long."""
    return precision(release, generator=generator)


def precision_alpha(
    release: Release, *, features: Sequence[str] | None = None, correlation: bool = True
) -> float:
    """The penalty with the least extended BIC along a path, from the release alone.

    n (<S, X> - log det X) + |E| log n + 4 gamma |E| log p with gamma = 1/2 (Foygel and Drton
    2010). n is the number of rows that would give the correlations as much sampling error as they
    have sampling error and privacy noise together, 1/n = 1/rows + variance of the noise, so that
    noise does not pass for edges. The path ends at half of sqrt(log p / n), the rate at which the
    graph can be found (Ravikumar et al. 2011): below, a singular matrix would win by overfitting.

    The variance is the mean over all pairs of features, so levels that hardly occur, which are
    mostly noise, make for a strong penalty: leave them out by `features`, or give an alpha.
    """
    problem = _Problem.of(release, features, correlation=correlation)
    return _along_path(problem, release).alpha


@dataclass(frozen=True, slots=True)
class _Fit:
    """What the graphical lasso found at `alpha`."""

    alpha: float
    optimum: Solution

    def misfit(self, matrix: Matrix) -> float:
        """<S, X> - log det X: minus twice the log-likelihood of a row, up to a constant."""
        fitted = self.optimum.precision
        return float(np.sum(matrix * fitted) - np.linalg.slogdet(fitted)[1])


@dataclass(frozen=True, slots=True)
class _Problem:
    """The matrix of a graphical lasso.

    Attributes
    ----------
    at, flat : positions of the features, and of those left out.
    units : (p,) data units in one unit of the matrix.
    matrix : (p, p), of average diagonal 1.
    size : what it was divided by for that.
    correlation : whether it holds correlations.
    noise : (p,) shares of the noise in the features' variances; see `noise_of_entries`.

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
        flat: Sequence[int] | None = None,
    ) -> _Problem:
        """From a release; `flat` are left out, by default those without variance.

        Where the caller names no features, those that noise drowns are left out as well.
        """
        require_matrix(release)
        wanted = chosen(release, features, reference=True)
        moments = Moments.of(release)
        every = np.diag(moments.covariance)
        noise = noise_of_entries(release)
        if flat is None:
            flat = [j for j in wanted if every[j] <= SMALLEST_VARIANCE]
            drowned = [j for j in wanted if every[j] < CLEAR * noise[j]]
            if features is None and len(wanted) - len(drowned) >= 2:
                flat = drowned
        at = [j for j in wanted if j not in flat]
        if not at:
            raise ReleaseError("None of these features varies in the release.")
        variances = np.maximum(every[at], SMALLEST_VARIANCE)
        deviations = np.sqrt(variances) if correlation else np.ones(len(at))
        matrix = moments.covariance[np.ix_(at, at)] / np.outer(deviations, deviations)
        size = float(np.trace(matrix)) / len(at)
        units = moments.scales[at] * deviations * np.sqrt(size)
        shares = noise[at] / variances
        return cls(at, list(flat), units, matrix / size, size, correlation, shares)

    def solution(self, alpha: float, start: Solution | None = None) -> _Fit:
        return _Fit(alpha, graphical_lasso(self.matrix, alpha / self.size, start=start))

    def largest_alpha(self) -> float:
        """Above it there are no edges."""
        return float(np.abs(np.triu(self.matrix, 1)).max(initial=0.0)) * self.size

    def effective_count(self, release: Release) -> float:
        """Rows whose sampling error in a correlation is what sampling and privacy add together."""
        count = max(fewest_rows(release, self.at), 2.0)
        p = len(self.at)
        if p < 2:
            return count
        privacy = (self.noise.sum() ** 2 - np.sum(self.noise**2)) / (p * (p - 1))
        return max(2.0, 1 / (1 / count + float(privacy)))


def noise_of_entries(release: Release) -> Vector:
    """(p,) n with sqrt(n_i n_j) the noise's standard deviation in the moment of i and j.

    Of encoded features, over the number of rows, apart from the diagonal; 0 without a noise law.
    Noise on rows that were mapped by A comes back through A^-1, whose rows make it larger.
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
    rows = np.maximum(np.diag(rows_by_pair(release)), 2.0)
    return np.asarray(deviations * (count / rows) ** 2)


def _along_path(problem: _Problem, release: Release) -> _Fit:
    """The fit with the least extended BIC; each starts from the one before."""
    largest, p = problem.largest_alpha(), len(problem.at)
    if largest == 0:
        return problem.solution(1.0)
    count = problem.effective_count(release)
    price = np.log(count) + 4 * GAMMA * np.log(p)
    smallest = min(PATH_END * np.sqrt(np.log(p) / count) * problem.size, largest)
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
    """(p, p) share of simulated releases with each edge."""
    present = np.zeros_like(problem.matrix)
    names = [release.columns[j] for j in problem.at]
    for simulated in islice(repeated(release, generator), draws):
        again = _Problem.of(simulated, names, correlation=problem.correlation, flat=[])
        optimum = again.solution(fit.alpha, fit.optimum).optimum
        present += optimum.precision != 0
    return present / draws
