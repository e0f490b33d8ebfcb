"""Pictures of releases with a seed: intervals, eigenvalues, norms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtri

import dpcov
from demo_release import SEED, demo, stays
from dpcov.analysis.intervals import CONFIDENCE_LEVEL
from dpcov.analysis.strongest import different_columns
from dpcov.analysis.summary import rows_beyond_radius
from dpcov.core.entropy import simulation_generator
from dpcov.plot import spectrum
from picture_style import COLOURS, GREY, PALE, SMALL_POINTS, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, *_ = COLOURS
PAIRS = 10


def intervals_figure() -> Figure:
    """Draw the strongest correlations of the release beside the correlations without privacy.

    The intervals without privacy use Fisher's transformation.
    """
    table, release, exact = demo()
    found = dpcov.intervals(release, "correlation", generator=simulation_generator(SEED))
    values, reach = release.correlation(), ndtri((1 + CONFIDENCE_LEVEL) / 2)
    i, j = different_columns(release)
    made = figure(0.42 * PAIRS + 1.2)
    axes, names = made.subplots(), []
    for row, at in enumerate(np.argsort(-np.abs(values[i, j]))[:PAIRS]):
        a, b = i[at], j[at]
        names.append(f"{release.columns[b]} -\n{release.columns[a]}")
        axes.plot([found.low[a, b], found.high[a, b]], [row - 0.14] * 2, color=BLUE, lw=2.5)
        axes.plot(values[a, b], row - 0.14, "o", ms=5, color=BLUE)
        spread = np.arctanh(exact[a, b]) + reach / np.sqrt(len(table) - 3) * np.array([-1, 1])
        axes.plot(np.tanh(spread), [row + 0.17] * 2, color=ORANGE, lw=2.5)
        axes.plot(exact[a, b], row + 0.17, "s", ms=4, color=ORANGE)
    axes.axvline(0, lw=0.8, color=GREY)
    axes.set_yticks(range(PAIRS), labels=names, fontsize=SMALL_POINTS)
    axes.locator_params(axis="x", nbins=4)
    axes.set(ylim=(PAIRS - 0.5, -0.5), xlabel=f"correlation, {CONFIDENCE_LEVEL:.0%} interval")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    epsilon = release.guarantee.budget.epsilon
    axes.plot([], [], "o-", color=BLUE, lw=2.5, ms=5, label=f"release, epsilon {epsilon:g}")
    axes.plot([], [], "s-", color=ORANGE, lw=2.5, ms=4, label="without privacy")
    made.legend(loc="outside upper left", ncols=2)
    return made


def spectrum_figure() -> Figure:
    """Draw the eigenvalues of the release, before and after denoising, and the noise level."""
    _, release, _ = demo()
    made = figure(3.1)
    spectrum(release, ax=made.subplots(), generator=simulation_generator(SEED))
    return made


def norms_figure() -> Figure:
    """Draw the noisy norm histogram of a release of rows with outliers, and the clipping radius."""
    release = stays()
    published = {one.query: one.published for one in release.rounds}
    norms, radius = published["norms"], published["matrix"].lattice.radius
    ends = np.sqrt(norms.upper_ends)
    starts = np.append(ends[0] / np.sqrt(ends[2] / ends[1]), ends[:-1])
    made = figure(3.2)
    axes = made.subplots()
    clipped = starts >= radius
    beyond = rows_beyond_radius(release)
    parts = [(~clipped, BLUE, None)]
    if beyond is not None:
        parts.append((clipped, ORANGE, f"shortened: about {beyond[1]:.1%} of the rows"))
    for at, colour, label in parts:
        axes.bar(
            starts[at], np.array(norms.counts)[at], (ends - starts)[at], align="edge", lw=0.5,
            edgecolor=GREY, color=colour, label=label,
        )  # fmt: skip
    reach = ndtri((1 + CONFIDENCE_LEVEL) / 2) * norms.noise.standard_deviation
    axes.axhspan(-reach, reach, color=GREY, alpha=PALE, lw=0, label="noise, 95%")
    axes.axvline(radius, ls="--", color=ORANGE, label=f"clipping radius {radius:.2f}")
    axes.set_yscale("symlog", linthresh=reach)  # few rows lie beyond the radius
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel="norm of a standardized row", ylabel="rows, with noise")
    made.legend(loc="outside upper left", ncols=2)
    return made
