"""Line charts as small SVG files that come out the same every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

Series = tuple[Sequence[float], Sequence[float], Sequence[float] | None]
DASHES = ("--", ":", "-.")
STYLE = {
    "svg.hashsalt": "dpcov",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.linewidth": 0.3,
}


def lines(
    path: Path,
    title: str,
    labels: tuple[str, str],
    series: Mapping[str, Series],
    *,
    guides: Mapping[str, tuple[Sequence[float], Sequence[float]]] | None = None,
    scale: str = "log",
    vertical: str | None = None,
    joined: bool = True,
) -> None:
    """Draw each series (x, y, standard errors or None) with markers, each guide dashed.

    `labels` names the two axes. `scale` is the scale of both axes. `vertical` is the scale of the
    vertical axis if it differs. `joined` is False for points without lines.
    """
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
        for name, (x, y, errors) in series.items():
            style = {"marker": "o", "markersize": 3, "linewidth": int(joined), "elinewidth": 1}
            axes.errorbar(x, y, yerr=errors, label=name, **style)
        for (name, (x, y)), dashes in zip((guides or {}).items(), cycle(DASHES), strict=False):
            axes.plot(x, y, linestyle=dashes, linewidth=0.8, color="0.4", label=name)
        axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
        axes.set(xscale=scale, yscale=vertical or scale)
        axes.legend(fontsize=7, frameon=False)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)
