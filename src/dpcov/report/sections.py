"""The parts of a page that show figures: a picture, a table, and what to know about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov import plot
from dpcov.analysis.correlation import clusters
from dpcov.analysis.features import chosen
from dpcov.analysis.intervals import intervals
from dpcov.analysis.moments import Moments
from dpcov.analysis.ols import INTERCEPT, OLS, ols
from dpcov.analysis.precision import precision
from dpcov.analysis.ridge import ridge
from dpcov.analysis.spectrum import noisy_spectrum
from dpcov.errors import ReleaseError
from dpcov.report.figures import svg
from dpcov.tables import NO_LAW, NOTHING_SHOWS

if TYPE_CHECKING:
    from markupsafe import Markup
    from numpy.typing import NDArray

    from dpcov.analysis.ridge import Ridge
    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

PAIRS = 20
DRAWN_PAIRS = 15
WHOLE_MATRIX = 30  # features up to which all correlations are in a table
STABLE = 20  # features up to which the stability of edges is simulated, and how many releases
COEFFICIENTS = 20
EDGES = 20
LEVEL = 0.95
DROWNED = (
    "Nothing on this page rises clearly above the privacy noise: take its figures for guesses. A "
    "larger epsilon, more rows or fewer columns would help."
)
CLEAR = 10.0  # variance of a feature in the graph, over the noise of an entry


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page: a picture and a table, or the reason why there is none."""

    figure: Markup | None = None
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()
    missing: str | None = None
    wide: bool = False
    words: bool = False  # its cells hold text that may be folded, and matters
    caution: str | None = None  # belongs at the top of the page


def _require_signal(release: Release) -> None:
    if release.has_intercept and len(release.columns) > 1 and release.uninformative:
        raise ReleaseError(NOTHING_SHOWS)


def heatmap(release: Release, noise: Matrix | None) -> Section:
    """Correlations as colours, groups of features next to each other."""
    matrix, names, p = release.correlation(), release.columns, len(release.columns)
    if p > 1:
        _require_signal(release)
    small = p <= plot.WRITTEN_CELLS
    size = (0.55 * p + 2.6, 0.5 * p + 1.6) if small else (8.6, 7.4)
    figure = svg(
        "heatmap",
        lambda ax: plot.heatmap(release, ax=ax, noise=noise),
        size,
        title=f"Correlations of {p} features",
        description="A square for each pair of features, blue where they rise together, orange "
        "where one falls as the other rises, the deeper the stronger. The strongest pairs are in "
        "the table of the next section.",
    )
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes = [
        "Features stand next to those that they are correlated with, whatever the sign, so that "
        "groups show as blocks along the diagonal."
    ]
    groups = [group for group in clusters(matrix, noise=noise) if len(group) > 1]
    if p <= WHOLE_MATRIX:
        heads = ("", *(str(j + 1) for j in range(p)))
        rows = tuple(
            (f"{i + 1} {names[i]}", *(f"{matrix[i, j]:.2f}" for j in range(p))) for i in range(p)
        )
    elif groups:
        heads = ("group", "features")
        rows = tuple(
            (str(at + 1), ", ".join(names[j] for j in group)) for at, group in enumerate(groups)
        )
        notes.append(
            "The numbered groups are listed below; the other features stand alone. All figures: "
            "dpcov correlation --csv."
        )
    return Section(figure, heads, rows, tuple(notes), wide=not small, words=p > WHOLE_MATRIX)


def pairs(release: Release, draws: np.random.Generator) -> Section:
    """The strongest correlations between different columns, with their intervals."""
    matrix, features = release.correlation(), release.schema.features
    _require_signal(release)
    i, j = np.tril_indices(len(matrix), -1)
    columns = np.array([feature.column for feature in features])
    apart = columns[i] != columns[j]  # two levels of a column exclude each other: no news
    i, j = i[apart], j[apart]
    if not len(i):
        raise ReleaseError("There are no two columns to compare.")
    order = np.argsort(-np.abs(matrix[i, j]), kind="stable")[:PAIRS]
    i, j = i[order], j[order]
    names = [f"{features[b].name} - {features[a].name}" for a, b in zip(i, j, strict=True)]
    values = matrix[i, j]
    heads: tuple[str, ...] = ("pair", "correlation")
    low = high = values
    notes: list[str] = []
    cells = [[f"{value:+.3f}"] for value in values]
    if release.noise is None:
        notes.append(NO_LAW)
    else:
        found = intervals(release, "correlation", LEVEL, generator=draws)
        low, high = found.low[i, j], found.high[i, j]
        heads = (*heads, "95 % interval", "")
        for cell, a, b, sure in zip(cells, low, high, found.trusted[i, j], strict=True):
            cell += [f"{a:+.3f} to {b:+.3f}", "" if sure else "drowned by noise"]
        notes.append(
            "Intervals cover the privacy noise and sampling error. They start from the matrix as "
            "published, so that they need not be centred about the denoised estimate."
        )
    shown = slice(0, DRAWN_PAIRS)
    labels = [
        f"{plot.shortened(features[b].name)} - {plot.shortened(features[a].name)}"
        for a, b in zip(i[shown], j[shown], strict=True)
    ]
    figure = svg(
        "pairs",
        lambda ax: plot.pairs(labels, values[shown], low[shown], high[shown], ax=ax),
        (7.4, 0.27 * len(names[shown]) + 0.8),
        title="The strongest correlations",
        description="A dot for each correlation, with a line for its interval. The same figures "
        "are in the table below.",
    )
    rows = tuple((name, *cell) for name, cell in zip(names, cells, strict=True))
    return Section(figure, heads, rows, tuple(notes))


def spectrum(release: Release, draws: np.random.Generator) -> Section:
    """Eigenvalues beside the noise floor."""
    found = noisy_spectrum(release, generator=draws)
    figure = svg(
        "spectrum",
        lambda ax: plot.spectrum(found, ax=ax),
        (7.4, 3.3),
        title="Eigenvalues of the covariance",
        description="Bars fall from left to right: the variance along each principal direction. A "
        "dashed line marks what noise alone may reach.",
    )
    total = max(float(found.denoised.sum()), 1e-300)
    rows = tuple(
        (str(at + 1), f"{value:.4g}", f"{value / total:.1%}", f"{noisy:.4g}")
        for at, (value, noisy) in enumerate(
            zip(found.denoised[:PAIRS], found.published[:PAIRS], strict=True)
        )
    )
    notes = ["Features are encoded: half the width of a column's bounds is 1, a level is 0 or 1."]
    if found.floor is None:
        notes.append(NO_LAW)
    else:
        notes.append(
            f"{found.above} of {len(found.denoised)} directions rise above the noise floor, "
            f"{found.floor:.3g}, which noise alone exceeds with a chance of 5 %."
        )
    caution = DROWNED if found.above == 0 else None
    heads = ("", "denoised", "share", "as published")
    return Section(figure, heads, rows, tuple(notes), caution=caution)


def graph(release: Release, draws: np.random.Generator) -> Section:
    """The graph of related features, of those that vary clearly more than the noise."""
    _require_signal(release)
    features = _clear(release)
    if len(features) < 2:
        raise ReleaseError("Too few features vary clearly more than the noise for a graph of them.")
    stable = release.noise is not None and len(features) <= STABLE
    found = precision(release, features=features, draws=STABLE if stable else 0, generator=draws)
    edges, p = found.edges, len(found.columns)
    share = f"{len(edges)} of {p * (p - 1) // 2} pairs are related given all the others."
    if not edges:
        raise ReleaseError(share)
    figure = svg(
        "graph",
        lambda ax: plot.graph(found, ax=ax),
        (7.4, 6.6),
        title="Features that are related given all the others",
        description="Features on a circle, with a line between two that are related given all the "
        "others: full and blue where positive, dashed and orange where negative, the thicker the "
        "stronger. The strongest are in the table below.",
    )
    notes = [f"{share} Sparse inverse covariance (graphical lasso), alpha = {found.alpha:.3g}."]
    left_out = len(release.columns) - p
    if left_out:
        notes.append(
            f"Left out: {left_out} of the features, whose variance does not rise clearly above the "
            "noise, or which follow from the others (a level of each column of categories)."
        )
    if len(edges) > plot.MOST_EDGES:
        notes.append(f"The {plot.MOST_EDGES} strongest are drawn.")
    heads: tuple[str, ...] = ("pair", "partial correlation")
    if stable:
        heads = (*heads, "stability")
        notes.append("Stability: share of simulated releases that have the line as well.")
    rows = tuple(
        (
            f"{edge.first} - {edge.second}",
            f"{edge.partial_correlation:+.3f}",
            *([] if edge.stability is None else [f"{edge.stability:.0%}"]),
        )
        for edge in edges[:EDGES]
    )
    return Section(figure, heads, rows, tuple(notes))


def _clear(release: Release) -> list[str]:
    """Features whose variance is many times the noise of an entry, without reference levels."""
    at = chosen(release, None, reference=True)
    if release.noise is None:
        return [release.columns[j] for j in at]
    d = release.noise.dimension
    noise = math.sqrt(release.noise.frobenius_squared) / d * release.lattice.step**2
    variances = np.diag(Moments.of(release).covariance)
    least = CLEAR * noise / max(release.count(), 1.0)
    return [release.columns[j] for j in at if variances[j] >= least]


def regression(
    release: Release, target: str, features: Sequence[str] | None, draws: np.random.Generator
) -> Section:
    """Least squares of a target, or ridge regression where the noise does not allow it."""
    _require_signal(release)
    notes: list[str] = []
    found: OLS | Ridge
    try:
        found = ols(release, target, features, level=LEVEL, generator=draws)
    except ReleaseError as error:
        found = ridge(release, target, None, features, generator=draws)
        notes.append(f"Least squares is not possible here, so this is ridge regression. {error}")
        heads: tuple[str, ...] = ("feature", "coefficient")
        order = np.argsort(-np.abs(_effects(release, found)), kind="stable")[:COEFFICIENTS]
        rows = [(INTERCEPT, f"{found.intercept:.5g}")]
        rows += [(found.columns[j], f"{found.coefficients[j]:.5g}") for j in order]
        table: list[tuple[str, ...]] = list(rows)
    else:
        heads = ("feature", "coefficient", "std. error", "95 % interval", "")
        order = np.argsort(-np.abs(_effects(release, found)), kind="stable")[:COEFFICIENTS]
        table = [
            (
                found.names[j],
                f"{found.coefficients[j]:.5g}",
                f"{found.standard_errors[j]:.3g}",
                f"{found.lower[j]:.4g} to {found.upper[j]:.4g}",
                "" if found.trusted[j] else "drowned by noise",
            )
            for j in [0, *(order + 1)]
        ]
        notes.append(
            "Ordinary least squares. Intervals combine sampling error and the privacy noise."
        )
    count = len(_effects(release, found))
    notes.insert(0, f"R² = {found.r_squared:.3f}, as estimated; {count} features.")
    if count > COEFFICIENTS:
        notes.append(f"The {COEFFICIENTS} with the largest effects are shown.")
    figure = svg(
        "coefficients",
        lambda ax: plot.coefficients(found, release=release, ax=ax),
        (7.4, 0.27 * min(count, plot.MOST_BARS) + 0.8),
        title=f"Regression of {plot.shortened(target)}",
        description="A dot for the effect of one standard deviation of each feature, with a line "
        "for its interval. Coefficients are in the table below.",
    )
    return Section(figure, heads, tuple(table), tuple(notes))


def _effects(release: Release, found: OLS | Ridge) -> Any:
    """Changes of the target by a standard deviation of each feature."""
    model = found.model if isinstance(found, OLS) else found
    deviations = dict(zip(release.columns, np.sqrt(np.diag(release.covariance())), strict=True))
    return model.coefficients * [deviations[name] for name in model.columns]
