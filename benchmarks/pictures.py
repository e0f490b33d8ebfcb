"""Draw results of private releases beside exact results: `make bench NAME=pictures`.

The figures show wine's first two principal components and the graph of the Parkinson's voice
measures. Each private result comes from one release by `standardized` at (epsilon, 1e-6) under
add/remove.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from dpcov import plot, precision
from dpcov.analysis.pca import pca
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.denoise import denoise
from dpcov.mechanisms import Standardized
from dpcov.rows.sources import open_rows
from results import Kept, show
from ridge_comparison import Task, parkinsons, wine

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dpcov.releases import Release

    Matrix = NDArray[np.float64]

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
EPSILONS = (8.0, 2.0)
DELTA = 1e-6
REPEATS = 20
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
    for name, (x, y) in zip(WINE_COLUMNS, components.T, strict=True):
        axes.annotate(
            "", (x, y), (0, 0), arrowprops={"arrowstyle": "->", "color": plot.POSITIVE_COLOUR}
        )
        axes.text(1.08 * x, 1.08 * y, name, fontsize=7, ha="center", va="center")
    axes.set(xlim=(-0.62, 0.62), ylim=(-0.72, 0.72), title=title, xticks=[], yticks=[])
    axes.set_aspect("equal")


def wine_figure() -> list[dict[str, Any]]:
    task, rows = wine(), []
    exact = plane(released(task, NO_NOISE, 0))
    figure = Figure((12, 4.6), layout="constrained")
    panels = figure.subplots(1, 1 + len(EPSILONS))
    arrows(panels[0], exact, "178 wines, no privacy")
    for axes, epsilon in zip(panels[1:], EPSILONS, strict=True):
        planes = [plane(released(task, epsilon, seed)) for seed in range(REPEATS)]
        found = [affinity(exact, components) for components in planes]
        middle = int(np.argsort(found)[len(found) // 2])
        arrows(axes, turned(planes[middle], exact), f"({epsilon:g}, 1e-6)-DP: the median of 20")
        rows.append(_row("wine: affinity of the first two components' planes", epsilon, found))
    _save(figure, "wine-pca.svg")
    return rows


def graph_figure() -> list[dict[str, Any]]:
    task, rows = parkinsons(), []
    exact = precision(released(task, NO_NOISE, 0))
    figure = Figure((16, 5.6), layout="constrained")
    panels = figure.subplots(1, 1 + len(EPSILONS))
    plot.graph(exact, ax=panels[0]).set_title("5,875 recordings, no privacy")
    for axes, epsilon in zip(panels[1:], EPSILONS, strict=True):
        graphs = [precision(released(task, epsilon, seed)) for seed in range(REPEATS)]
        found = [agreement(exact, graph) for graph in graphs]
        middle = int(np.argsort(found)[len(found) // 2])
        plot.graph(graphs[middle], ax=axes).set_title(f"({epsilon:g}, 1e-6)-DP: the median of 20")
        rows.append(_row("parkinsons: correlation of partial correlations", epsilon, found))
    _save(figure, "parkinsons-graph.svg")
    return rows


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


def _save(figure: Figure, name: str) -> None:
    FIGURES.mkdir(exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(FIGURES / name, metadata={"Date": None})


def main() -> int:
    kept = Kept("pictures.json", "make bench NAME=pictures")
    kept.part("wine", wine_figure)
    kept.part("parkinsons", graph_figure)
    show("Agreement with the table itself", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
