"""Pictures of how dpcov works: the way of the data, the rounds, privacy units, packages."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

from matplotlib.colors import to_rgb
from matplotlib.patches import FancyBboxPatch, Rectangle

from demo_release import demo
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.mechanisms.standardized import BY_COLUMN, BY_DIRECTION
from dpcov.rows.moment import Lattice
from picture_style import COLOURS, FIGURES, GREY, PALE, SMALL_POINTS, WIDTH, canvas, figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpcov.rows.schema import Schema

ROOT = FIGURES.parents[1]
BLUE, ORANGE, GREEN, *_ = COLOURS
EDGE = 0.12  # inches between a picture's edge and its parts
# Rounds of `standardized`, with the names of their queries in a release.
ROUNDS = {
    "pilot": ("pilot",),
    "directions": ("directions", "directions trace"),
    "norm histogram": ("norms",),
    "second moment": ("matrix", "trace"),
}
MIN_WRITTEN_FRACTION = 0.045  # smallest part of a bar with its percentage inside
ROW_INCHES = 0.27
# Columns of the table in a picture, and the right end of each in inches.
SHOWN_COLUMNS = {"patient": 0.55, "age": 1.0, "systolic": 1.65}


def flow_figure() -> Figure:
    """Draw the way from the table to the analyses, with the ledger."""
    made, axes = canvas(4.6)
    left, right, half = EDGE, WIDTH / 2 + 0.15, WIDTH / 2 - 0.27
    whole = WIDTH - 2 * EDGE
    _box(axes, (left, 0.15, half, 0.75), "table", "rows about people", ORANGE)
    _box(axes, (right, 0.15, half, 0.75), "schema", "bounds and categories", GREEN)
    _box(axes, (left, 1.4, half, 0.75), "dpcov release", "sums, plus noise", BLUE)
    _box(axes, (right, 1.4, half, 0.75), "ledger", "total budget, releases", GREY)
    _box(axes, (left, 2.65, whole, 0.62), "release file", "noisy second moment, guarantee", GREEN)
    parts = "means, correlations, regressions,\ncomponents, report, synthetic rows"
    _box(axes, (left, 3.72, whole, 0.76), "analyses, at no further privacy cost", parts, GREEN)
    middle = left + half / 2
    _arrow(axes, (middle, 0.9), (middle, 1.4))
    _arrow(axes, (right + 0.2, 0.9), (left + half - 0.2, 1.4))
    _arrow(axes, (left + half, 1.78), (right, 1.78), "<|-|>")
    _arrow(axes, (middle, 2.15), (middle, 2.65))
    _arrow(axes, (middle, 3.27), (middle, 3.72))
    axes.plot([EDGE, WIDTH - EDGE], [2.4, 2.4], ls="--", lw=0.8, color=GREY)
    style = {"fontsize": SMALL_POINTS, "ha": "right", "style": "italic"}
    axes.text(WIDTH - EDGE, 2.33, "stays with the data holder", va="bottom", **style)
    axes.text(WIDTH - EDGE, 2.47, "can be published", va="top", **style)
    return made


def rounds_figure() -> Figure:
    """Draw the fraction of epsilon that each round of `standardized` spends, on each branch."""
    _, release, _ = demo()
    branches = dict(budget_fractions(release.schema))
    colours = dict(zip(ROUNDS, (ORANGE, COLOURS[4], GREEN, BLUE), strict=True))
    made = figure(3.3)
    axes = made.subplots()
    for row, parts in enumerate(branches.values()):
        start = 0.0
        for name, part in parts.items():
            axes.barh(row, part, left=start, color=colours[name], height=0.75)
            if part >= MIN_WRITTEN_FRACTION:
                style = {"color": "black", "ha": "center", "va": "center", "fontsize": SMALL_POINTS}
                axes.text(start + part / 2, row, f"{part:.0%}", **style)
            start += part
    axes.set_yticks(range(len(branches)), labels=list(branches))
    axes.set(xlim=(0, 1), ylim=(len(branches) - 0.5, -0.5), xlabel="fraction of the budget")
    axes.set_ylabel("directions")
    axes.xaxis.set_major_formatter(lambda at, _: f"{at:.0%}")
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    keys = [Rectangle((0, 0), 1, 1, color=colour) for colour in colours.values()]
    made.legend(keys, list(colours), loc="outside upper left", ncols=2)
    return made


def budget_fractions(schema: Schema) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield each branch of `standardized` with the fraction of each round.

    The noisy number of rows has its own fraction of the budget, which is not included.
    """
    for variant, without in ((BY_COLUMN, "none"), (BY_DIRECTION, "skipped")):
        laws = variant.calibrate(Lattice.of(schema), PureDP(1.0), Neighbors.ADD_REMOVE)
        for path in laws.paths:
            name = f"{path.share:.0%}" if path.share else without
            parts = [variant.look_share, path.share, variant.radius_share]
            yield name, dict(zip(ROUNDS, [*parts, 1 - sum(parts)], strict=True))


def units_figure() -> Figure:
    """Draw the rows that the two privacy units protect, in rows of the demo's table."""
    table, release, _ = demo()
    most = release.schema.unit.max_rows
    visits = table["patient"].value_counts(sort=False)
    busy = visits.index[visits > most][0]
    around = table["patient"].between(busy - 1, busy + 1)
    rows = table.loc[around, [*SHOWN_COLUMNS]].reset_index(drop=True)
    own = rows.index[rows["patient"] == busy]
    epsilon, bottom = release.guarantee.budget.epsilon, 0.75 + ROW_INCHES * len(rows)
    made, axes = canvas(bottom + 0.75)
    panels = {
        "row": (
            own[:1],
            own[:1],
            f"for a visit\nepsilon {epsilon * len(own):g} for patient {busy}",
        ),
        f"person, {most} rows": (own[:most], own, "for each patient"),
    }
    for at, (title, (chosen, unit, loss)) in enumerate(panels.items()):
        left = EDGE + at * WIDTH / 2
        axes.text(left, 0.25, f"unit: one {title}", va="center", weight="bold")
        _table(axes, left, rows, chosen, unit)
        axes.text(left, bottom + 0.15, f"epsilon {epsilon:g} {loss}", va="top")
    return made


def _table(axes: Axes, left: float, rows: pd.DataFrame, chosen: pd.Index, unit: pd.Index) -> None:
    """Draw rows of a table. The chosen rows have a colour; others of the same unit are grey."""
    places = [left + end for end in SHOWN_COLUMNS.values()]
    for place, name in zip(places, rows.columns, strict=True):
        axes.text(place, 0.6, name, ha="right", va="center", fontsize=SMALL_POINTS)
    for row in rows.index:
        top = 0.75 + ROW_INCHES * row
        if row in chosen:
            axes.add_patch(
                Rectangle((left - 0.04, top), 1.8, ROW_INCHES, color=ORANGE, alpha=0.35, lw=0)
            )
        style = {"alpha": 0.5} if row in unit and row not in chosen else {}
        for place, cell in zip(places, rows.loc[row], strict=True):
            axes.text(
                place,
                top + ROW_INCHES / 2,
                f"{cell:g}",
                ha="right",
                va="center",
                fontsize=SMALL_POINTS,
                **style,
            )


def packages_figure() -> Figure:
    """Draw the packages in their layers, from the import contracts in pyproject.toml."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = document["tool"]["importlinter"]["contracts"]
    (layers,) = (one["layers"] for one in contracts if one["type"] == "layers")
    height = 0.31
    made, axes = canvas(height * len(layers) + 2 * EDGE)
    left, whole = 0.95, WIDTH - 0.95 - EDGE
    for at, layer in enumerate(layers):
        names = layer.split(" | ")
        width = whole / len(names)
        for k, name in enumerate(names):
            place = left + k * width + 0.02, EDGE + at * height + 0.02
            box = (*place, width - 0.04, height - 0.04)
            _box(axes, box, name, "", ORANGE if name == "papers" else BLUE)
    _arrow(axes, (0.72, EDGE), (0.72, height * len(layers) + EDGE))
    axes.text(
        0.6, (height * len(layers)) / 2 + EDGE, "may import", rotation=90, ha="right", va="center"
    )
    return made


def _box(
    axes: Axes, place: tuple[float, float, float, float], title: str, words: str, colour: str
) -> None:
    """Draw a box with a title and words below it; the place is left, top, width and height."""
    left, top, width, height = place
    inner = FancyBboxPatch(
        (left, top), width, height, boxstyle="round,pad=0,rounding_size=0.07",
        facecolor=(*to_rgb(colour), PALE), edgecolor=colour, lw=1.2,
    )  # fmt: skip
    axes.add_patch(inner)
    middle = left + width / 2
    lines = words.count("\n") + 1 if words else 0
    above = top + height / 2 - 0.075 * lines
    axes.text(middle, above, title, ha="center", va="center", weight="bold")
    if words:
        below = above + 0.09 + 0.075 * lines
        axes.text(middle, below, words, ha="center", va="center", fontsize=SMALL_POINTS)


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], style: str = "-|>"
) -> None:
    looks = {"arrowstyle": style, "color": GREY, "lw": 1.2, "shrinkA": 1, "shrinkB": 1}
    axes.annotate("", end, start, arrowprops=looks)
