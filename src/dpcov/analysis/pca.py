"""Principal components of a release, and how many of them rise above the privacy noise."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.below_noise import LEVEL, sentence
from dpcov.analysis.declared import Option, command
from dpcov.analysis.features import new_rows
from dpcov.analysis.intervals import intervals, shown_unasked
from dpcov.analysis.moments import Moments, require_matrix
from dpcov.analysis.statistics import eigenvalues
from dpcov.core.entropy import reading_generator
from dpcov.core.parameters import Probability, check
from dpcov.core.show.result import OMITTED, Result
from dpcov.core.show.table import ALWAYS, WIDEST, Table
from dpcov.errors import ReleaseError
from dpcov.releases import SMALLEST_VARIANCE, held
from dpcov.releases.pairwise import completed, has_gaps, least_rows, moved
from dpcov.releases.persons import dependent, titled

if TYPE_CHECKING:
    from dpcov.core.arrays import Booleans, Matrix, Vector
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

ERROR_RATE = 0.05
LEADING = 5  # components that the command prints by itself
DRAWS = 199
FEW_DRAWS = 59
MANY_FEATURES = 200
TINY = 1e-300
TIE = 1e-3  # relative difference below which entries count as equally large


@dataclass(frozen=True, slots=True)
class PCA(Result):
    """Principal components.

    Attributes
    ----------
    columns : names of the p features; a level of a categorical column is a 0/1 feature.
    components : (k, p) orthonormal rows, strongest first; the largest entry of each is positive.
    explained_variance : (k,) in squared units of the data, over the count (not count - 1).
    explained_variance_ratio : (k,) shares of `total_variance`.
    total_variance : sum over all p components.
    significant : in how many of p dimensions the covariance rises above the privacy noise; None
        where the release has no noise law. See `significant_components`.
    means, deviations : (p,) what `transform` subtracts and divides by.
    ends : (2, k) of 95% intervals of `explained_variance`, where they were asked for.
    below_noise : (k,) bool, which variances are below the noise level, where that was asked for.
    covering : what the intervals cover, in a sentence, else "".
    dependent : a sentence on them where a person can have several rows, or "".

    """

    columns: tuple[str, ...]
    components: Matrix
    explained_variance: Vector
    explained_variance_ratio: Vector
    total_variance: float
    significant: int | None
    means: Vector
    deviations: Vector
    schema: Schema = field(metadata=OMITTED)
    ends: Matrix | None = field(default=None, metadata=OMITTED)
    below_noise: Booleans | None = None
    covering: str = field(default="", metadata=OMITTED)
    dependent: str = field(default="", metadata=OMITTED)

    def transform(self, rows: Any) -> Matrix:
        """(m, k) scores of new rows, given in the data's units.

        Parameters
        ----------
        rows : (m, p) array of the features in order (0 or 1 for a level of a categorical column),
            or a table with the original columns. Values outside the bounds are moved to the
            nearer bound, as in the release.

        """
        values = new_rows(self.schema, self.columns, rows)
        return (values - self.means) / self.deviations @ self.components.T

    def tables(self) -> list[Table]:
        rises = "Whether they rise above the noise is not known: its law can't be simulated."
        if self.significant is not None:
            p = len(self.columns)
            rises = f"In {self.significant} of {p} dimensions they rise above the noise (5% test)."
        notes = [rises, *[self.covering] * bool(self.covering)]
        if self.below_noise is not None:
            notes += sentence(self.below_noise, "variances of these components")
        sizes = np.abs(self.components[:WIDEST]).max(axis=0)
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
                strengths=[*[ALWAYS] * len(heads), *sizes],
                rest="features with small loadings",
                widest=WIDEST,
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
        more = {"lower": low, "upper": high, "level": None if low is None else LEVEL}
        return Result.document(self) | more


def pca(
    release: Release,
    k: int | None = None,
    *,
    correlation: bool = False,
    error_rate: float = ERROR_RATE,
    generator: np.random.Generator | None = None,
) -> PCA:
    """Principal components of the covariance, or of the correlations.

    Parameters
    ----------
    release : a release with an intercept.
    k : number of components; default, all.
    correlation : divide each feature by its standard deviation first. Otherwise features count in
        the data's units, so that those with large numbers dominate.
    error_rate : of the test behind `PCA.significant`.
    generator : for its simulations; default, the same each time.

    Raises
    ------
    ReleaseError : `k` is not between 1 and the number of features; no intercept; nothing but the
        trace was released.

    """
    require_matrix(release)
    moments = Moments.of(release)
    p = len(moments.means)
    k = p if k is None else k
    if not 1 <= k <= p:
        raise ReleaseError(f"k must be between 1 and the number of features, {p}; it is {k}.")
    check("error_rate", error_rate, Probability, ReleaseError)
    units = moments.scales
    if correlation:
        units = _over_deviation(moments.covariance)
    values, vectors = np.linalg.eigh(moments.covariance * np.outer(units, units))
    values, components = np.maximum(values[::-1], 0.0), vectors.T[::-1]
    sizes = np.abs(components)
    largest = np.argmax(sizes >= (1 - TIE) * sizes.max(axis=1, keepdims=True), axis=1)
    components = components * np.where(components[np.arange(p), largest] < 0, -1.0, 1.0)[:, None]
    total = float(values.sum())
    flat = units <= 0
    return PCA(
        columns=release.columns,
        components=components[:k],
        explained_variance=values[:k],
        explained_variance_ratio=values[:k] / max(total, TINY),
        total_variance=total,
        significant=significant_components(release, error_rate, generator),
        means=moments.means,
        deviations=np.where(flat, np.inf, moments.scales / np.where(flat, 1.0, units)),
        schema=release.schema,
    )


@command(
    "pca",
    "Print principal components, and how many rise above the noise.",
    k=Option("-k", "Number of components.", int),
    correlation=Option("--correlation", "Divide by standard deviations first.", bool),
)
def _leading(release: Release, k: int | None = None, *, correlation: bool = False) -> PCA:
    """Components to read, with intervals of variances: five where no number is given."""
    limit = min(LEADING, len(release.columns)) if k is None else k
    found = pca(release, limit, correlation=correlation)
    if not shown_unasked(release):
        return found
    told = intervals(release, eigenvalues(correlation=correlation))
    return replace(
        found,
        ends=np.stack([told.low, told.high])[:, :limit],
        below_noise=told.below_noise[:limit],
        covering=told.covering,
        dependent=dependent(release),
    )


def _over_deviation(covariance: Matrix) -> Vector:
    """One over the standard deviation of each feature, 0 for a flat one."""
    variances = np.diag(covariance)
    flat = variances <= SMALLEST_VARIANCE
    return np.where(flat, 0.0, 1 / np.sqrt(np.where(flat, 1.0, variances)))


def significant_components(
    release: Release,
    error_rate: float = ERROR_RATE,
    generator: np.random.Generator | None = None,
) -> int | None:
    """In how many dimensions the covariance rises above the privacy noise.

    Tests for r = 0, 1, ... whether the covariance of these very rows could have rank r, all
    further eigenvalues being noise, until one can't be rejected. If the rank is r, more than r are
    claimed with probability at most `error_rate`. Units don't matter: the test works in those in
    which the noise is the same in all directions.

    The noisy moment S + Z has the Schur complement of its intercept at most B (S + Z) B', with
    B = [I, -m] for the true mean m (it is the least over all m). By Courant and Fischer, if B S B'
    has rank r then with any L the eigenvalue number r + 1 of L B (S + Z) B' L' is at most the
    largest one of the noise L B Z B' L' on some p - r dimensions: a quantile of it is the
    threshold. Where the law is rotation-invariant and L B B' L' = I, the noise on any p - r
    dimensions is distributed as a leading block of Z; else the largest one on all p bounds it.
    (L and m are taken at the released mean.)

    Where cells may be missing, the noise is what it does, to first order, to the second moment that
    is put together from the rows of each pair; the largest one on all p bounds it.

    Returns
    -------
    Number of dimensions; None where the release has no noise law.

    Raises
    ------
    ReleaseError : no intercept, nothing but the trace was released, or an error rate that can't be
        simulated.

    """
    held.refuse(release.not_released)
    if release.noise is None:
        return None
    gaps = has_gaps(release.schema)
    if gaps:
        least = least_rows(release)
        noisy = completed(release.schema, release.noisy(), release.intercept(), least=least)
    else:
        noisy = release.noisy_mapped() / release.lattice.step**2  # a map does not change the rank
    corner, sums = noisy[-1, -1], noisy[:-1, -1]
    if corner <= 0:
        return 0
    p = len(sums)
    draws = reading_generator(generator)
    count = FEW_DRAWS if p > MANY_FEATURES else DRAWS
    centring = np.column_stack([np.eye(p), -sums / corner])
    whitening = np.linalg.solve(np.linalg.cholesky(centring @ centring.T), centring)
    values: Vector = np.linalg.eigvalsh(whitening @ noisy @ whitening.T)[::-1].astype(np.float64)
    noises = (release.noise.simulate(draws) for _ in range(count))
    if gaps:
        law = release.noise.rescaled(release.lattice.step**2)
        noises = (moved(release, release.unmapped(law.simulate(draws))) for _ in range(count))
    elif release.noise.rotation_invariant:
        return _sequential(values, [noise[:p, :p] for noise in noises], error_rate)
    whitened = [whitening @ noise @ whitening.T for noise in noises]
    return _sequential(values, whitened, error_rate, same=True)


def _sequential(
    values: Vector, noises: list[Matrix], error_rate: float, *, same: bool = False
) -> int:
    """Number of leading eigenvalues (descending) whose Monte-Carlo tests reject one after another.

    Noise on fewer dimensions is smaller, draw by draw, so what passes a threshold passes all later
    ones. `same`: the same threshold for all.
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
