"""Plots of a release and of its analyses, with matplotlib.

Every function draws on the axes or the figure `ax`, or on a new figure, and returns the axes. A
function changes the size of a figure but not of axes. Names of columns are plain text in a plot,
never markup or mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.correlation import MAX_WRITTEN_FEATURES, clustered_order, clusters
from dpcov.analysis.intervals import (
    CONFIDENCE_LEVEL,
    below_noise,
    stated_intervals,
    statistic_named,
)
from dpcov.analysis.ols import OLS
from dpcov.analysis.pca import PCA, pca
from dpcov.analysis.spectrum import NoisySpectrum, noisy_spectrum
from dpcov.analysis.strongest import strongest_pairs
from dpcov.core.installing import installing
from dpcov.core.printable import MAX_PICTURE_NAME_CHARACTERS, shortened
from dpcov.core.renamed import warn_of_former_name
from dpcov.errors import ReleaseError
from dpcov.releases import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpcov.analysis.correlation import NamedMatrix
    from dpcov.analysis.intervals import Name, Statistic
    from dpcov.analysis.precision import SparsePrecision
    from dpcov.analysis.ridge import Ridge
    from dpcov.api.plans import Plan
    from dpcov.core.arrays import Booleans, Matrix, Vector

    Place = Axes | Figure | None

# Colours of positive and negative numbers, distinguishable for colour-blind readers on white and on
# black backgrounds.
POSITIVE_COLOUR, NEGATIVE_COLOUR = "#3b76d6", "#d9722b"
# Smallest opacity of a line in a graph, from 0 to 1.
MIN_OPACITY = 0.35
# Grey of a feature with itself in a heatmap, and its opacity, on white and on black backgrounds.
SELF_COLOUR, SELF_OPACITY = "0.5", 0.25
# Absolute correlation above which black text is readable on its colour, on any background.
MIN_BLACK_TEXT_CORRELATION = 0.9
# Largest number of features whose names a heatmap shows on both sides.
MAX_NAMED_FEATURES = 60
# Largest number of edges in a graph.
MAX_EDGES = 60
# Width of a letter, divided by the radius of the graph and by the font size.
LETTER_WIDTH = 0.0055
# Largest number of bars or names in a plot at the normal font size.
MAX_BARS = 20
# Largest number of eigenvalues in a plot.
MAX_EIGENVALUES = 40


def heatmap(
    release: Release | NamedMatrix,
    *,
    ax: Place = None,
    cluster: bool = True,
    noise: Matrix | None = None,
    below: Booleans | None = None,
) -> Axes:
    """Plot correlations as colours.

    Positive correlations are blue, and negative correlations are orange. Correlations below the
    noise level are blank. The diagonal is grey.

    Parameters
    ----------
    release : Release or NamedMatrix
        Release, or a result of `nearest_correlation` or `partial_correlations`.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    cluster : bool, default True
        True to place correlated features next to each other. With more than 12 features, the plot
        shows a frame and a number for each group.

    noise : ndarray, shape (p, p), optional
        Standard errors, such as the result of `correlation_standard_errors`.

    below : ndarray of bool, shape (p, p), optional
        Correlations below the noise level. The plot leaves them blank and shows the number in
        brackets, and they form no groups. By default `noise` decides by the rule of
        `dpcov.analysis.intervals`. Without both, no correlation is below the noise level.

    Returns
    -------
    Axes
        Axes with the plot.

    Raises
    ------
    ReleaseError
        The release has only one feature, or matplotlib is not installed.

    See Also
    --------
    dpcov.correlation_standard_errors : Standard errors for the parameter `noise`.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.heatmap(release, ax=Figure())

    """
    matrix = release.correlation() if isinstance(release, Release) else release.matrix
    names, p = release.columns, len(matrix)
    if p < 2:
        raise ReleaseError("A heatmap needs at least two features, but this release has only one.")
    if below is None:
        below = np.zeros((p, p), bool) if noise is None else below_noise(matrix, noise)
    groups = clusters(matrix, below=below) if cluster else [[at] for at in range(p)]
    order = [at for group in groups for at in group]
    shown = matrix[np.ix_(order, order)]
    np.fill_diagonal(shown, 0.0)
    axes = _axes(ax, (0.55 * p + 2.6, 0.5 * p + 1.6) if p <= MAX_WRITTEN_FEATURES else (8.6, 7.4))
    from matplotlib.colors import ListedColormap

    blank = below[np.ix_(order, order)]
    seen = np.where(blank, 0.0, shown)
    image = axes.imshow(seen, cmap=colours(), vmin=-1, vmax=1, interpolation="none")
    itself = np.ma.masked_equal(np.eye(p), 0.0)
    axes.imshow(
        itself, cmap=ListedColormap([SELF_COLOUR]), alpha=SELF_OPACITY, interpolation="none"
    )
    if p <= MAX_NAMED_FEATURES:
        labels = [shortened(names[j]) for j in order]
        size = 9.0 if p <= MAX_BARS else 180 / p + 1.5
        turn: dict[str, Any] = {"rotation": 55, "ha": "right", "rotation_mode": "anchor"}
        axes.set_yticks(range(p), labels=labels, parse_math=False, fontsize=size)
        axes.set_xticks(range(p), labels=labels, parse_math=False, fontsize=size, **turn)
    else:
        axes.set_yticks([])
        axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if p <= MAX_WRITTEN_FEATURES:
        for i, j in np.ndindex(shown.shape):
            if i != j:
                text = f"{shown[i, j]:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
                text = f"({text})" if blank[i, j] else text
                written = axes.text(j, i, text, ha="center", va="center", fontsize=8)
                if abs(shown[i, j]) > MIN_BLACK_TEXT_CORRELATION and not blank[i, j]:
                    written.set_color("black")
    else:
        _outline(axes, groups)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.6, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=9)
    return axes


def _outline(axes: Axes, groups: list[list[int]]) -> None:
    """Draw a frame and a number for each group."""
    from matplotlib.patches import Rectangle

    start, edge = -0.5, axes.spines["left"].get_edgecolor()
    axes.add_patch(Rectangle((-0.5, -0.5), *(2 * [sum(map(len, groups))]), fill=False, ec="0.6"))
    for at, group in enumerate(groups):
        if len(group) > 1:
            size = len(group)
            axes.add_patch(Rectangle((start, start), size, size, fill=False, ec=edge, lw=0.9))
            axes.text(start + size + 0.4, start + size / 2, str(at + 1), fontsize=7.5, va="center")
        start += len(group)


def colours() -> Any:
    """Return a colour map for [-1, 1] that is transparent at 0.

    Returns
    -------
    LinearSegmentedColormap
        Colour map for any background.

    """
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    low, high = (*to_rgb(NEGATIVE_COLOUR), 1.0), (*to_rgb(POSITIVE_COLOUR), 1.0)
    middles = (*to_rgb(NEGATIVE_COLOUR), 0.0), (*to_rgb(POSITIVE_COLOUR), 0.0)
    steps = [(0.0, low), (0.5, middles[0]), (0.5, middles[1]), (1.0, high)]
    return LinearSegmentedColormap.from_list("dpcov", steps)


def spectrum(
    release: Release | NoisySpectrum,
    *,
    ax: Place = None,
    generator: np.random.Generator | None = None,
) -> Axes:
    """Plot the eigenvalues of the covariance matrix and the noise level.

    Parameters
    ----------
    release : Release or NoisySpectrum
        Release, or a result of `noisy_spectrum`.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    generator : numpy.random.Generator, optional
        Source of simulated noise.

    Returns
    -------
    Axes
        Axes with the plot.

    See Also
    --------
    dpcov.pca : Principal components.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.spectrum(release, ax=Figure())

    """
    found = release
    if isinstance(found, Release):
        found = noisy_spectrum(found, generator=generator)
    axes = _axes(ax, (7.4, 3.3))
    from matplotlib.ticker import MaxNLocator

    count = min(len(found.denoised), MAX_EIGENVALUES)
    at = np.arange(1, count + 1)
    axes.bar(at, found.denoised[:count], color=POSITIVE_COLOUR, width=0.7, label="denoised")
    axes.plot(at, found.published[:count], "o", ms=3.5, color=NEGATIVE_COLOUR, label="as published")
    if found.floor is not None:
        axes.axhline(found.floor, ls="--", lw=1.2, color=NEGATIVE_COLOUR, label="noise level (95%)")
    axes.axhline(0.0, lw=0.6, color="0.5")
    axes.set_xlabel("component")
    axes.set_ylabel("eigenvalue (encoded)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes


def graph(found: SparsePrecision, *, ax: Place = None, most: int = MAX_EDGES) -> Axes:
    """Plot the graph of a sparse precision matrix, with the features on a circle.

    A line connects two features with a partial correlation. Positive partial correlations have blue
    lines, and negative partial correlations have dashed orange lines. Stronger partial correlations
    have thicker lines.

    Parameters
    ----------
    found : SparsePrecision
        Result of `precision`.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    most : int, default 60
        Largest number of edges. The plot shows the strongest edges and their features.

    Returns
    -------
    Axes
        Axes with the plot.

    See Also
    --------
    dpcov.precision : Sparse inverse covariance.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.graph(dpcov.precision(release), ax=Figure())

    """
    edges = found.edges[:most]
    names = found.columns
    if len(names) > MAX_BARS:
        touched = {name for edge in edges for name in (edge.first, edge.second)}
        names = tuple(name for name in names if name in touched)
    axes = _axes(ax, (7.4, 6.6))
    axes.set_aspect("equal")
    axes.set_axis_off()
    places = [found.columns.index(name) for name in names]
    order = clustered_order(found.partial_correlations[np.ix_(places, places)])
    names = tuple(names[j] for j in order)
    angles = 2 * np.pi * np.arange(len(names)) / max(len(names), 1) + np.pi / 2
    x, y = np.cos(angles), np.sin(angles)
    at = {name: j for j, name in enumerate(names)}
    strongest = max((abs(edge.partial_correlation) for edge in edges), default=1.0)
    for edge in reversed(edges):
        i, j, strength = at[edge.first], at[edge.second], edge.partial_correlation
        share = abs(strength) / strongest
        axes.plot(
            [x[i], x[j]],
            [y[i], y[j]],
            color=POSITIVE_COLOUR if strength > 0 else NEGATIVE_COLOUR,
            ls="-" if strength > 0 else "--",
            lw=0.6 + 3.4 * share,
            alpha=MIN_OPACITY + (1 - MIN_OPACITY) * share,
            solid_capstyle="round",
        )
    axes.plot(x, y, "o", ms=6, color="0.5")
    size = 9 if len(names) <= MAX_BARS else 7
    for name, angle, right, top in zip(names, angles, x, y, strict=True):
        left = right < -1e-9
        turn = np.degrees(angle) + (180 if left else 0)
        axes.text(
            1.07 * right, 1.07 * top, shortened(name), parse_math=False, fontsize=size,
            rotation=float(turn), rotation_mode="anchor", ha="right" if left else "left",
            va="center",
        )  # fmt: skip
    longest = max((len(shortened(name)) for name in names), default=0)
    reach = 1.15 + LETTER_WIDTH * size * longest
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    return axes


def coefficients(
    found: OLS | Ridge,
    *,
    release: Release | None = None,
    ax: Place = None,
    most: int = MAX_BARS,
    effects: bool = False,
) -> Axes:
    """Plot regression coefficients with their intervals.

    The largest coefficients are at the top. Coefficients below the noise level have hollow dots.

    Parameters
    ----------
    found : OLS or Ridge
        Result of `ols` or `ridge`. Only a result of `ols` has intervals.

    release : Release, optional
        Release of the regression. Stating the release has the same effect as ``effects=True``.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    most : int, default 20
        Largest number of coefficients.

    effects : bool, default False
        True to plot the effect of one standard deviation of each feature. By default the plot shows
        coefficients in the units of the data.

    Returns
    -------
    Axes
        Axes with the plot.

    See Also
    --------
    dpcov.ols : Regression with intervals.
    dpcov.ridge : Ridge regression.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.coefficients(dpcov.ols(release, release.columns[0]), ax=Figure())

    """
    if isinstance(found, OLS):
        start = len(found.names) - len(found.model.columns)  # 1 with an intercept
        names, values = found.names[start:], found.coefficients[start:]
        low, high = found.lower[start:], found.upper[start:]
    else:
        names, values = found.columns, found.coefficients
        low = high = values
    below = None if found.below_noise is None else found.below_noise[-len(names) :]
    label = "coefficient, in the data's units"
    if effects or release is not None:
        units = found.model.spreads if isinstance(found, OLS) else found.spreads
        values, low, high = values * units, low * units, high * units
        label = "effect of one standard deviation"
    return _dots(names, values, low, high, label, ax, most, below=below)


def pairs(
    release: Release | Sequence[str] | None = None,
    values: Vector | None = None,
    low: Vector | None = None,
    high: Vector | None = None,
    *,
    ax: Place = None,
    below: Booleans | None = None,
    names: Sequence[str] | None = None,
) -> Axes:
    """Plot correlations of pairs of features with their intervals.

    Parameters
    ----------
    release : Release or sequence of str
        Release, whose strongest correlations are shown. Or the names of the pairs, with their
        correlations and intervals in the other parameters.

    values : ndarray, shape (m,), optional
        Correlations.

    low : ndarray, shape (m,), optional
        Lower ends of the intervals.

    high : ndarray, shape (m,), optional
        Upper ends of the intervals.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    below : ndarray of bool, shape (m,), optional
        Correlations below the noise level, which have hollow dots.

    names : sequence of str, optional
        Former name of the first parameter.

    Returns
    -------
    Axes
        Axes with the plot.

    See Also
    --------
    dpcov.intervals : Intervals for the correlations.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.pairs(release, ax=Figure())

    """
    if names is not None:
        warn_of_former_name("names", "release")
        release = names
    if isinstance(release, Release):
        picture: Any = strongest_pairs(release).picture()
        return pairs(**picture.arguments, ax=ax)
    if release is None or values is None or low is None or high is None:
        raise ReleaseError("Names of pairs need values, low and high. Or pass a release.")
    asked: dict[str, Any] = {"ordered": False, "below": below}
    return _dots(release, values, low, high, "correlation", ax, len(release), **asked)


def intervals(
    release: Release,
    statistic: Name | Statistic = "correlation",
    *,
    level: float = CONFIDENCE_LEVEL,
    sampling: bool = True,
    ax: Place = None,
    most: int = MAX_BARS,
    generator: np.random.Generator | None = None,
) -> Axes:
    """Plot a statistic of a release with its intervals.

    The largest figures are at the top. Figures below the noise level have hollow dots.

    Parameters
    ----------
    release : Release
        Release with a noise distribution.

    statistic : str or Statistic, default "correlation"
        Statistic, as in `dpcov.intervals`. All figures share one axis, so they need one unit.

    level : float, default 0.95
        Nominal coverage of each interval, between 0 and 1.

    sampling : bool, default True
        Include the sampling error.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    most : int, default 20
        Largest number of figures.

    generator : numpy.random.Generator, optional
        Random numbers for the simulations.

    Returns
    -------
    Axes
        Axes with the plot.

    See Also
    --------
    dpcov.intervals : The same intervals as numbers.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.intervals(release, dpcov.eigenvalues(), ax=Figure())

    """
    asked = statistic_named(statistic)
    stated, found = stated_intervals(release, asked, level, sampling, generator)
    places = found.places()
    names = [found.name_of(place) for place in places]
    parts = asked.shaped(release, stated.values), found.low, found.high, found.below_noise
    at = tuple(np.transpose(places))
    values, low, high, below = (np.atleast_1d(part)[at] for part in parts)
    label = statistic if isinstance(statistic, str) else "statistic"
    return _dots(names, values, low, high, f"{label} ({level:.0%} interval)", ax, most, below=below)


def biplot(release: Release | PCA, *, correlation: bool = True, ax: Place = None) -> Axes:
    """Plot each feature as an arrow in the plane of the first two principal components.

    A release contains no rows, so the plot shows features only. The angle between two long arrows
    shows their correlation: a right angle means no correlation.

    Parameters
    ----------
    release : Release or PCA
        Release with at least two features, or a result of `pca` with at least two components.

    correlation : bool, default True
        Divide each feature by its standard deviation first. A result of `pca` sets this itself.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    Returns
    -------
    Axes
        Axes with the plot.

    Raises
    ------
    ReleaseError
        There are fewer than two components, or the release contains no covariances.

    See Also
    --------
    dpcov.pca : Principal components.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> table = np.random.default_rng(0).normal(0, 0.2, (5000, 3))
    >>> release = dpcov.release(table, lower=-1, upper=1, epsilon=1.0)
    >>> axes = dpcov.plot.biplot(release, ax=Figure())

    """
    found = pca(release, correlation=correlation) if isinstance(release, Release) else release
    if len(found.components) < 2:
        raise ReleaseError("A biplot needs two principal components, but there is only one.")
    tips = (found.components[:2] * np.sqrt(found.explained_variance[:2, None])).T
    axes = _axes(ax, (6.6, 6.0))
    lengths = np.linalg.norm(tips, axis=1)
    reach = 1.35 * max(float(lengths.max()), np.finfo(float).tiny)
    for j in np.argsort(-lengths, kind="stable")[:MAX_BARS].tolist():
        x, y = tips[j].tolist()
        style = {"arrowstyle": "-|>", "color": POSITIVE_COLOUR, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x, y), (0.0, 0.0), arrowprops=style)
        axes.text(
            1.04 * x, 1.04 * y, shortened(found.columns[j]), parse_math=False, fontsize=9,
            ha="left" if x >= 0 else "right", va="bottom" if y >= 0 else "top",
        )  # fmt: skip
    axes.axhline(0.0, lw=0.6, color="0.5")
    axes.axvline(0.0, lw=0.6, color="0.5")
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    axes.set_aspect("equal")
    first, second = found.explained_variance_ratio[:2]
    axes.set_xlabel(f"PC1 ({first:.0%} of the variance)")
    axes.set_ylabel(f"PC2 ({second:.0%} of the variance)")
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def curve(plan: Plan, *, ax: Place = None) -> Axes:
    """Plot the predicted errors of a plan against epsilon or rho.

    A dotted line shows the standard error of a correlation from sampling alone.

    Parameters
    ----------
    plan : Plan
        Result of `plan`.

    ax : Axes or Figure, optional
        Axes or figure for the plot. The default is a new figure.

    Returns
    -------
    Axes
        Axes with the plot.

    See Also
    --------
    dpcov.plan : Prediction of the error of a release.

    Examples
    --------
    >>> import dpcov
    >>> from matplotlib.figure import Figure
    >>> schema = dpcov.Schema.from_bounds(0, 100, ["age", "score"])
    >>> found = dpcov.plan(schema, 20_000, epsilon=1.0, mechanism="matrix-laplace")
    >>> axes = dpcov.plot.curve(found, ax=Figure())

    """
    axes = _axes(ax, (7, 4))
    budgets = [point.budget for point in plan.curve]
    name = "rho" if hasattr(plan.budget, "rho") else "epsilon"
    at = [getattr(budget, name) for budget in budgets]
    lines = (("correlation", "-", POSITIVE_COLOUR), ("prediction", "--", NEGATIVE_COLOUR))
    for figure, style, colour in lines:
        values = [getattr(point.errors, figure) for point in plan.curve]
        if None not in values:
            axes.loglog(at, values, style, marker="o", ms=4, color=colour, label=figure)
    axes.axhline(plan.sampling, ls=":", color="0.5", label="sampling error of a correlation")
    axes.set_xlabel(name)
    axes.set_ylabel("predicted error")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes


def _dots(
    names: Sequence[str],
    values: Vector,
    low: Vector,
    high: Vector,
    label: str,
    ax: Place,
    most: int,
    *,
    ordered: bool = True,
    below: Booleans | None = None,
) -> Axes:
    """Plot dots with intervals in rows, largest first. A dot is hollow if `below` is True."""
    ranks = np.argsort(-np.abs(values), kind="stable") if ordered else np.arange(len(values))
    order = [int(j) for j in ranks[:most]]
    axes = _axes(ax, (7.4, 0.27 * len(order) + 0.8))
    axes.axvline(0.0, lw=0.8, color="0.5")
    for row, j in enumerate(order):
        colour = POSITIVE_COLOUR if values[j] > 0 else NEGATIVE_COLOUR
        if np.isfinite(low[j]) and np.isfinite(high[j]):
            axes.plot([low[j], high[j]], [row, row], color=colour, lw=2, solid_capstyle="round")
        fill = "none" if below is not None and below[j] else colour
        axes.plot(values[j], row, "o", ms=5.5, color=colour, markerfacecolor=fill)
    labels = [shortened(names[j], 2 * MAX_PICTURE_NAME_CHARACTERS + 3) for j in order]
    axes.set_yticks(range(len(order)), labels=labels, parse_math=False)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return axes


def _axes(ax: Place, size: tuple[float, float]) -> Axes:
    """Return the given axes, or new axes in the given figure or in a new figure."""
    if ax is not None and not hasattr(ax, "add_subplot"):
        return ax
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ReleaseError(f"Plots need matplotlib: {installing('matplotlib')}") from None
        ax = plt.figure(layout="constrained")
    figure: Any = ax
    figure.set_size_inches(size)
    return figure.add_subplot()


__all__ = [
    *("biplot", "coefficients", "curve", "graph", "heatmap", "intervals", "pairs", "spectrum"),
]
