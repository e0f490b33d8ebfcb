"""Draw the pictures of the documentation: `make bench NAME=pictures`.

With names of files, as in `ARGS="flow.svg"`, the script draws these only. The pictures of wine's
first two principal components and of the graph of the Parkinson's voice measures compare releases
with exact results. Each private result comes from one release by `standardized` at (epsilon, 1e-6)
under add/remove.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np

from dpcov import plot, precision
from dpcov.analysis.pca import pca
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.denoise import denoise
from dpcov.mechanisms import Standardized
from dpcov.rows.sources import open_rows
from picture_style import FIGURES, GREY, SMALL_POINTS, STYLE, figure, svg
from pictures_of_design import flow_figure, packages_figure, rounds_figure, units_figure
from pictures_of_releases import intervals_figure, norms_figure, spectrum_figure
from pictures_of_results import epsilon_figure, half_widths_figure, ledger_figure, peers_figure
from results import Kept, show
from ridge_comparison import Task, parkinsons, wine

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from dpcov.analysis.precision import SparsePrecision
    from dpcov.releases import Release

    Matrix = NDArray[np.float64]
    Rows = list[dict[str, Any]]

EPSILONS = (8.0, 2.0)
DELTA = 1e-6
REPEATS = 20
# Distance between two names beside the components, in units of a component.
NAME_HEIGHT = 0.16
# Largest number of edges in a graph.
SHOWN_EDGES = 40
# Space for names around a graph, divided by the space in a wide picture.
GRAPH_SCALE = 1.35
NO_NOISE = 1e6  # epsilon of what stands for the table itself
WINE_COLUMNS = (
    *("alcohol", "malic acid", "ash", "alcalinity", "magnesium", "phenols", "flavanoids"),
    *("other phenols", "proanthocyanins", "colour", "hue", "dilution", "proline"),
)


def released(task: Task, epsilon: float, seed: int) -> Release:
    made = Standardized()(
        open_rows(task.frame, task.schema),
        budget=ApproxDP(epsilon, DELTA),
        neighbors=Neighbors.ADD_REMOVE,
        entropy=Entropy.seeded(seed),
    )
    return denoise(made, generator=simulation_generator(seed))


def plane(release: Release) -> Matrix:
    """Return the (2, p) first two components of the correlations."""
    return pca(release, 2, correlation=True).components


def affinity(first: Matrix, second: Matrix) -> float:
    """Return the mean squared cosine of the angles between two planes: 1 if they are equal."""
    return float(np.mean(np.linalg.svd(first @ second.T, compute_uv=False) ** 2))


def turned(components: Matrix, onto: Matrix) -> Matrix:
    """Return the same plane with its axes rotated towards the axes of another plane."""
    left, _, right = np.linalg.svd(onto @ components.T)
    result: Matrix = left @ right @ components
    return result


def arrows(axes: Axes, components: Matrix, title: str) -> None:
    """Draw each feature as an arrow, and its name at the nearer side of the picture."""
    for side in (-1, 1):
        own = [at for at in np.argsort(components[1]) if (components[0, at] >= 0) == (side > 0)]
        heights = spaced(components[1, own], NAME_HEIGHT)
        for at, height in zip(own, heights, strict=True):
            tip = components[:, at]
            style = {"arrowstyle": "->", "color": plot.POSITIVE_COLOUR, "shrinkA": 0, "shrinkB": 0}
            axes.annotate("", tip, (0, 0), arrowprops=style)
            axes.plot([tip[0], side * 0.64], [tip[1], height], lw=0.5, color=GREY)
            words = {"ha": "left" if side > 0 else "right", "va": "center"}
            axes.text(side * 0.66, height, WINE_COLUMNS[at], fontsize=SMALL_POINTS, **words)
    axes.set(xlim=(-1.2, 1.2), ylim=(-0.72, 0.72), title=title)
    axes.set_axis_off()


def spaced(wanted: Matrix, gap: float) -> Matrix:
    """Return increasing positions at least `gap` apart, near the wanted increasing positions."""
    steps = gap * np.arange(len(wanted))
    # The largest nondecreasing sequence below and the smallest above, and the middle of both.
    below = np.minimum.accumulate((wanted - steps)[::-1])[::-1]
    above = np.maximum.accumulate(wanted - steps)
    positions: Matrix = (below + above) / 2 + steps
    return positions


def wine_figure(rows: Rows) -> Figure:
    """Draw the first two components of the wines; add a row for each epsilon."""
    task = wine()
    exact = plane(released(task, NO_NOISE, 0))
    made = figure(8.4)
    panels = made.subplots(1 + len(EPSILONS))
    arrows(panels[0], exact, f"{len(task.frame)} wines, no privacy")
    for axes, epsilon in zip(panels[1:], EPSILONS, strict=True):
        planes = [plane(released(task, epsilon, seed)) for seed in range(REPEATS)]
        found = [affinity(exact, components) for components in planes]
        middle = int(np.argsort(found)[len(found) // 2])
        arrows(axes, turned(planes[middle], exact), title_of(epsilon))
        rows.append(_row("wine: affinity of the first two components' planes", epsilon, found))
    return made


def graph_figure(rows: Rows) -> Figure:
    """Draw the graph of the voice measures; add a row for each epsilon."""
    task = parkinsons()
    exact = precision(released(task, NO_NOISE, 0))
    made = figure(12.6)
    panels = made.subplots(1 + len(EPSILONS))
    graph(panels[0], exact, f"{len(task.frame):,} recordings, no privacy")
    for axes, epsilon in zip(panels[1:], EPSILONS, strict=True):
        graphs = [precision(released(task, epsilon, seed)) for seed in range(REPEATS)]
        found = [agreement(exact, one) for one in graphs]
        middle = int(np.argsort(found)[len(found) // 2])
        graph(axes, graphs[middle], title_of(epsilon))
        rows.append(_row("parkinsons: correlation of partial correlations", epsilon, found))
    return made


def graph(axes: Axes, found: SparsePrecision, title: str) -> None:
    """Draw a graph with names that a phone shows in a readable size."""
    plot.graph(found, ax=axes, most=SHOWN_EDGES).set_title(title)
    for text in axes.texts:
        text.set_fontsize(SMALL_POINTS)
    reach = 1 + (axes.get_xlim()[1] - 1) * GRAPH_SCALE
    axes.set(xlim=(-reach, reach), ylim=(-reach, reach))


def title_of(epsilon: float) -> str:
    return f"({epsilon:g}, {DELTA:g})-DP: the median of {REPEATS}"


def agreement(first: Any, second: Any) -> float:
    """Return the correlation of two sets of partial correlations; 0 without any edge."""
    if not first.edges or not second.edges:
        return 0.0
    matrices = []
    for found in (first, second):
        # A feature that was left out has no edge.
        whole = np.zeros((len(first.columns), len(first.columns)))
        at = [first.columns.index(name) for name in found.columns]
        whole[np.ix_(at, at)] = found.partial_correlations
        matrices.append(whole)
    above = np.triu_indices(len(matrices[0]), 1)
    return float(np.corrcoef(*(matrix[above] for matrix in matrices))[0, 1])


def _row(what: str, epsilon: float, found: list[float]) -> dict[str, Any]:
    low, middle, high = np.quantile(found, [0.1, 0.5, 0.9])
    return {"figure": what, "epsilon": epsilon, "10 %": low, "median": middle, "90 %": high}


# Pictures by the names of their files. Two pictures also measure agreement with the table.
MEASURING: dict[str, Callable[[Rows], Figure]] = {
    "wine-pca.svg": wine_figure,
    "parkinsons-graph.svg": graph_figure,
}
DRAWING: dict[str, Callable[[], Figure]] = {
    "flow.svg": flow_figure,
    "rounds.svg": rounds_figure,
    "units.svg": units_figure,
    "packages.svg": packages_figure,
    "epsilon.svg": epsilon_figure,
    "half-widths.svg": half_widths_figure,
    "peers.svg": peers_figure,
    "ledger.svg": ledger_figure,
    "intervals.svg": intervals_figure,
    "spectrum.svg": spectrum_figure,
    "norms.svg": norms_figure,
}


def picture(name: str, rows: Rows) -> str:
    """Return a picture as SVG; add its measurements to `rows`."""
    with mpl.rc_context(STYLE):
        made = MEASURING[name](rows) if name in MEASURING else DRAWING[name]()
    return svg(made, name)


def main(names: Sequence[str]) -> int:
    kept = Kept("pictures.json", "make bench NAME=pictures")
    for name in names or [*MEASURING, *DRAWING]:
        kept.part(name, partial(_part, name))
    if names:
        return int(bool(kept.failed))
    show("Agreement with the table itself", kept.rows)
    return int(not kept.done())


def _part(name: str) -> Rows:
    rows: Rows = []
    (FIGURES / name).write_text(picture(name, rows), encoding="utf-8")
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
