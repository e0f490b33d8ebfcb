"""Draw the comparison's figures: ranks with critical differences, and errors with lower bounds."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from cells import DEFINITIONS, Row
from matplotlib.figure import Figure
from methods import DEFAULT
from ranking import cliques
from summary import bounds, ranks

from dpcov.core.privacy import Neighbors

TITLES = {"pure": "pure", "zcdp": "zCDP", "approximate": "(epsilon, 1e-6)"}
STYLE = {"svg.hashsalt": "dpcov", "svg.fonttype": "none", "font.size": 9}
OWN, OTHERS = "#c0392b", "#2c3e50"


def draw(rows: list[Row], folder: Path) -> None:
    """Draw all figures of the measured cells as reproducible SVG files."""
    folder.mkdir(parents=True, exist_ok=True)
    found = list(bounds(rows))
    with mpl.rc_context(STYLE):
        for definition in DEFINITIONS:
            ranked = [row for row in ranks(rows) if row["definition"] == definition]
            if ranked:
                _save(rank_figure(ranked), folder / f"mechanism-ranks-{definition}.svg")
        if found:
            _save(bound_figure(found), folder / "mechanism-bounds.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, format="svg", metadata={"Date": None})


def rank_figure(rows: list[Row]) -> Figure:
    """Draw mean ranks; a line at the right joins methods that the test does not separate."""
    rows = sorted(rows, key=lambda row: row["rank"])
    difference = rows[0]["difference"]
    figure = Figure((8, 0.9 + 0.19 * len(rows)), layout="constrained")
    axes = figure.subplots()
    found = [row["rank"] for row in rows]
    heights = np.arange(len(rows))
    colors = [OWN if row["method"] == DEFAULT else OTHERS for row in rows]
    axes.scatter(found, heights, color=colors, s=18, zorder=3)
    axes.set_yticks(heights, [row["method"] for row in rows])
    groups = cliques({row["method"]: row["rank"] for row in rows}, difference)
    for at, (low, high) in enumerate(groups):
        inside = [y for y, rank in zip(heights, found, strict=True) if low <= rank <= high]
        x = max(found) + 1 + 0.6 * at
        axes.plot([x, x], [inside[0] - 0.2, inside[-1] + 0.2], color=OTHERS, linewidth=2)
    axes.plot([1, 1 + difference], [-1.2, -1.2], color=OWN, linewidth=2)
    axes.text(1, -1.6, f"critical difference {difference:.2f}", color=OWN, fontsize=8)
    axes.set_ylim(len(rows) - 0.5, -2.6)
    title = f"{TITLES[rows[0]['definition']]}, {rows[0]['tables']} tables"
    axes.set(title=title, xlabel="mean rank by Frobenius error (1 is the best)")
    axes.grid(axis="x", linewidth=0.3)
    return figure


def bound_figure(rows: list[Row]) -> Figure:
    """Draw the default's error over the lower bound for tables of the same size, by columns."""
    own = [row for row in rows if row["neighbors"] == Neighbors.REPLACE_ONE]
    figure = Figure((11, 4), layout="constrained")
    panels = figure.subplots(1, len(DEFINITIONS), sharey=True)
    for axes, definition in zip(panels, DEFINITIONS, strict=True):
        here = [r for r in own if r["definition"] == definition and r["lower bound"] > 0]
        for at, epsilon in enumerate(sorted({row["epsilon"] for row in here})):
            points = sorted(
                (row["columns"], row["default"] / row["lower bound"])
                for row in here
                if row["epsilon"] == epsilon
            )
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=14, color=mpl.colormaps["viridis"](at / 6), label=f"{epsilon:g}")
        axes.axhline(1, color="0.4", linewidth=0.8, linestyle="--")
        axes.set(xscale="log", yscale="log", title=TITLES[definition], xlabel="columns")
    panels[0].set_ylabel("error of the default / lower bound")
    panels[-1].legend(title="epsilon", fontsize=7, frameon=False)
    return figure
