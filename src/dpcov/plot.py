"""Pictures of a release and of what is computed from it, as matplotlib axes.

Every function draws on `ax`, axes or a figure of which it sets the size, or on a new figure, and
returns the axes. Names are shown as they are:
never read as markup or mathematics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpcov.analysis.below_noise import below_noise
from dpcov.analysis.correlation import WRITTEN_CELLS, clustered_order, clusters
from dpcov.analysis.ols import OLS
from dpcov.analysis.spectrum import NoisySpectrum, noisy_spectrum
from dpcov.core.installing import installing
from dpcov.core.printable import LONGEST_NAME, shortened
from dpcov.errors import ReleaseError
from dpcov.releases import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpcov.analysis.correlation import NamedMatrix
    from dpcov.analysis.precision import SparsePrecision
    from dpcov.analysis.ridge import Ridge
    from dpcov.api.plans import Plan
    from dpcov.core.arrays import Booleans, Matrix, Vector

    Place = Axes | Figure | None

POSITIVE, NEGATIVE = "#3b76d6", "#d9722b"  # told apart by the colour-blind, on white and on black
FAINT = 0.35
DEEP = 0.9  # correlation from which black is readable on its colour, on any background
NAMED_CELLS = 60  # up to so many features all are named on both sides of a heatmap
MOST_EDGES = 60
LETTER = 0.0055  # width of a letter, over the radius of the graph and the size of the font
MOST_BARS = 20
MOST_VALUES = 40


def heatmap(
    release: Release | NamedMatrix,
    *,
    ax: Place = None,
    cluster: bool = True,
    noise: Matrix | None = None,
    below: Booleans | None = None,
) -> Axes:
    """Correlations as colours: blue if positive, orange if negative, blank below the noise level.

    Parameters
    ----------
    release : a release, or `nearest_correlation` or `partial_correlations` of one.
    cluster : put features next to those that they are correlated with (`clusters`), instead of in
        order. Where there are more than a dozen, groups are framed and numbered.
    noise : (p, p) standard errors, as of `correlation_standard_errors`.
    below : (p, p) bool: correlations below the noise level are blank, written in brackets, and make
        no groups. Default, by `noise` and the rule of `dpcov.analysis.below_noise`; without it,
        none.

    """
    matrix = release.correlation() if isinstance(release, Release) else release.matrix
    names, p = release.columns, len(matrix)
    if p < 2:
        raise ReleaseError("One feature alone has no correlations to show.")
    if below is None:
        below = np.zeros((p, p), bool) if noise is None else below_noise(matrix, noise)
    groups = clusters(matrix, below=below) if cluster else [[at] for at in range(p)]
    order = [at for group in groups for at in group]
    shown = matrix[np.ix_(order, order)]
    np.fill_diagonal(shown, 0.0)
    axes = _axes(ax, (0.55 * p + 2.6, 0.5 * p + 1.6) if p <= WRITTEN_CELLS else (8.6, 7.4))
    blank = below[np.ix_(order, order)]
    seen = np.where(blank, 0.0, shown)
    image = axes.imshow(seen, cmap=colours(), vmin=-1, vmax=1, interpolation="none")
    if p <= NAMED_CELLS:
        labels = [shortened(names[j]) for j in order]
        size = 9.0 if p <= MOST_BARS else 180 / p + 1.5
        turn: dict[str, Any] = {"rotation": 55, "ha": "right", "rotation_mode": "anchor"}
        axes.set_yticks(range(p), labels=labels, parse_math=False, fontsize=size)
        axes.set_xticks(range(p), labels=labels, parse_math=False, fontsize=size, **turn)
    else:
        axes.set_yticks([])
        axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if p <= WRITTEN_CELLS:
        for i, j in np.ndindex(shown.shape):
            if i != j:
                text = f"{shown[i, j]:.2f}".replace("-0.00", "0.00").replace("-", "\N{MINUS SIGN}")
                text = f"({text})" if blank[i, j] else text
                written = axes.text(j, i, text, ha="center", va="center", fontsize=8)
                if abs(shown[i, j]) > DEEP and not blank[i, j]:
                    written.set_color("black")
    else:
        _outline(axes, groups)
    bar = axes.figure.colorbar(image, ax=axes, shrink=0.6, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=9)
    return axes


def _outline(axes: Axes, groups: list[list[int]]) -> None:
    """A frame with a number around the block of each group, in the order that they are in."""
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
    """Colour map for [-1, 1] that fades to transparent at 0, on any background."""
    from matplotlib.colors import LinearSegmentedColormap, to_rgb

    low, high = (*to_rgb(NEGATIVE), 1.0), (*to_rgb(POSITIVE), 1.0)
    middles = (*to_rgb(NEGATIVE), 0.0), (*to_rgb(POSITIVE), 0.0)
    steps = [(0.0, low), (0.5, middles[0]), (0.5, middles[1]), (1.0, high)]
    return LinearSegmentedColormap.from_list("dpcov", steps)


def spectrum(
    release: Release | NoisySpectrum,
    *,
    ax: Place = None,
    generator: np.random.Generator | None = None,
) -> Axes:
    """Eigenvalues of the covariance, and the level that privacy noise alone may reach."""
    found = release
    if isinstance(found, Release):
        found = noisy_spectrum(found, generator=generator)
    axes = _axes(ax, (7.4, 3.3))
    from matplotlib.ticker import MaxNLocator

    count = min(len(found.denoised), MOST_VALUES)
    at = np.arange(1, count + 1)
    axes.bar(at, found.denoised[:count], color=POSITIVE, width=0.7, label="denoised")
    axes.plot(at, found.published[:count], "o", ms=3.5, color=NEGATIVE, label="as published")
    if found.floor is not None:
        axes.axhline(found.floor, ls="--", lw=1.2, color=NEGATIVE, label="noise floor (95 %)")
    axes.axhline(0.0, lw=0.6, color="0.5")
    axes.set_xlabel("component")
    axes.set_ylabel("eigenvalue (encoded)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    return axes


def graph(found: SparsePrecision, *, ax: Place = None, most: int = MOST_EDGES) -> Axes:
    """The graph of a sparse precision matrix: features on a circle, a line for each edge.

    Only the `most` strongest edges and their features are drawn. Lines are blue where the partial
    correlation is positive, orange and dashed where it is negative, and the thicker the stronger.
    """
    edges = found.edges[:most]
    names = found.columns
    if len(names) > MOST_BARS:
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
            color=POSITIVE if strength > 0 else NEGATIVE,
            ls="-" if strength > 0 else "--",
            lw=0.6 + 3.4 * share,
            alpha=FAINT + (1 - FAINT) * share,
            solid_capstyle="round",
        )
    axes.plot(x, y, "o", ms=6, color="0.5")
    size = 9 if len(names) <= MOST_BARS else 7
    for name, angle, right, top in zip(names, angles, x, y, strict=True):
        left = right < -1e-9
        turn = np.degrees(angle) + (180 if left else 0)
        axes.text(
            1.07 * right, 1.07 * top, shortened(name), parse_math=False, fontsize=size,
            rotation=float(turn), rotation_mode="anchor", ha="right" if left else "left",
            va="center",
        )  # fmt: skip
    longest = max((len(shortened(name)) for name in names), default=0)
    reach = 1.15 + LETTER * size * longest
    axes.set_xlim(-reach, reach)
    axes.set_ylim(-reach, reach)
    return axes


def coefficients(
    found: OLS | Ridge,
    *,
    release: Release | None = None,
    ax: Place = None,
    most: int = MOST_BARS,
    effects: bool = False,
) -> Axes:
    """Regression coefficients with their intervals, largest first; hollow below the noise level.

    Parameters
    ----------
    found : a fit of `ols` or `ridge`.
    release : that it was made from: the same as `effects`.
    most : how many to show.
    effects : show effects of one standard deviation of each feature, which can be compared.
        Otherwise coefficients are in the data's units.

    """
    if isinstance(found, OLS):
        names, values = found.names[1:], found.coefficients[1:]
        low, high = found.lower[1:], found.upper[1:]
    else:
        names, values = found.columns, found.coefficients
        low = high = values
    below = None if found.below_noise is None else found.below_noise[1:]
    label = "coefficient, in the data's units"
    if effects or release is not None:
        units = found.model.spreads if isinstance(found, OLS) else found.spreads
        values, low, high = values * units, low * units, high * units
        label = "effect of one standard deviation"
    return _dots(names, values, low, high, label, ax, most, below=below)


def pairs(
    names: Sequence[str],
    values: Vector,
    low: Vector,
    high: Vector,
    *,
    ax: Place = None,
    below: Booleans | None = None,
) -> Axes:
    """Correlations of pairs of features with their intervals; hollow below the noise level."""
    asked: dict[str, Any] = {"ordered": False, "below": below}
    return _dots(names, values, low, high, "correlation", ax, len(names), **asked)


def curve(plan: Plan, *, ax: Place = None) -> Axes:
    """Predicted errors along epsilon, and what sampling alone leaves of a correlation's."""
    axes = _axes(ax, (7, 4))
    budgets = [point.budget for point in plan.curve]
    name = "rho" if hasattr(plan.budget, "rho") else "epsilon"
    at = [getattr(budget, name) for budget in budgets]
    lines = (("correlation", "-", POSITIVE), ("prediction", "--", NEGATIVE))
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
    """Dots with intervals below each other, largest first; hollow where `below` is True."""
    ranks = np.argsort(-np.abs(values), kind="stable") if ordered else np.arange(len(values))
    order = [int(j) for j in ranks[:most]]
    axes = _axes(ax, (7.4, 0.27 * len(order) + 0.8))
    axes.axvline(0.0, lw=0.8, color="0.5")
    for row, j in enumerate(order):
        colour = POSITIVE if values[j] > 0 else NEGATIVE
        if np.isfinite(low[j]) and np.isfinite(high[j]):
            axes.plot([low[j], high[j]], [row, row], color=colour, lw=2, solid_capstyle="round")
        fill = "none" if below is not None and below[j] else colour
        axes.plot(values[j], row, "o", ms=5.5, color=colour, markerfacecolor=fill)
    labels = [shortened(names[j], 2 * LONGEST_NAME + 3) for j in order]
    axes.set_yticks(range(len(order)), labels=labels, parse_math=False)
    axes.set_ylim(len(order) - 0.4, -0.6)
    axes.set_xlabel(label)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    return axes


def _axes(ax: Place, size: tuple[float, float]) -> Axes:
    """The axes given, or new ones: in the figure given, or in one of its own."""
    if ax is not None and not hasattr(ax, "add_subplot"):
        return ax
    if ax is None:
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ReleaseError(f"Pictures need matplotlib: {installing('matplotlib')}") from None
        ax = plt.figure(layout="constrained")
    figure: Any = ax
    figure.set_size_inches(size)
    return figure.add_subplot()


__all__ = ["coefficients", "curve", "graph", "heatmap", "pairs", "spectrum"]
