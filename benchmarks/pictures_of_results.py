"""Pictures of measured results in docs/results, and of a ledger with releases."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from demo_release import demo
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.errors import BudgetExceededError
from dpcov.mechanisms.choice import choose
from picture_style import COLOURS, FIGURES, GREY, SMALL_POINTS, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, *_ = COLOURS
MARKERS = "os^Dv"
METHODS = {
    "dpcov": (BLUE, "-"),
    "dpcov, not denoised": (BLUE, "--"),
    "OpenDP": (ORANGE, "-"),
    "diffprivlib": (GREEN, "-"),
}
# Budget of a ledger and of each release, as on the page about ledgers.
TOTAL, EACH = ApproxDP(3.0, 1e-6), ApproxDP(0.25, 1e-8)


def measured(name: str) -> list[dict[str, Any]]:
    """Return the rows of a snapshot."""
    found = json.loads((FIGURES.parent / "results" / f"{name}.json").read_text(encoding="utf-8"))
    return list(found["rows"])


def epsilon_figure() -> Figure:
    """Draw the measured errors of correlations against epsilon, for five public tables."""
    cells = [
        cell
        for cell in measured("plan_calibration")
        if cell["figure"] == "correlation" and cell["automatic"]
    ]
    made = figure(3.6)
    axes = made.subplots()
    colours = cycle(COLOURS)
    for table, marker in zip(sorted({cell["dataset"] for cell in cells}), MARKERS, strict=True):
        errors = {cell["epsilon"]: cell["measured"] for cell in cells if cell["dataset"] == table}
        style = {"marker": marker, "ms": 5, "color": next(colours)}
        axes.loglog(sorted(errors), [errors[at] for at in sorted(errors)], label=table, **style)
    axes.set(xlabel="epsilon", ylabel="error of a correlation")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    made.legend(loc="outside upper left", ncols=5, columnspacing=0.8, handlelength=1.4)
    return made


def half_widths_figure() -> Figure:
    """Draw the half widths that plans predicted against those that releases stated."""
    made = figure(4.2)
    axes = made.subplots()
    cells = measured("half_widths")
    for known, colour in zip(sorted({cell["known"] for cell in cells}), COLOURS, strict=False):
        own = [cell for cell in cells if cell["known"] == known]
        stated, predicted = ([cell[name] for cell in own] for name in ("stated", "predicted"))
        ends = zip(own, predicted, strict=True)
        reach = zip(*((at - cell["low"], cell["high"] - at) for cell, at in ends), strict=True)
        label = f"the plan knew {known}"
        style = {"ms": 4, "color": colour, "elinewidth": 0.7, "label": label}
        axes.errorbar(stated, predicted, [*reach], fmt="o", **style)
    axes.set(xscale="log", yscale="log", xlabel="half width that the release stated")
    axes.autoscale(enable=False)
    axes.axline((1, 1), (2, 2), lw=0.8, color=GREY)
    axes.set_ylabel("half width that the plan predicted")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.legend(loc="upper left")
    return made


def peers_figure() -> Figure:
    """Draw the errors of dpcov, OpenDP and diffprivlib on the same rows."""
    cells = [cell for cell in measured("peers") if cell["kind"] == "error"]
    made = figure(5.4)
    panels = made.subplots(2, 2, sharex=True).flat
    for axes, table in zip(panels, dict.fromkeys(cell["dataset"] for cell in cells), strict=True):
        own = [cell for cell in cells if cell["dataset"] == table]
        _lines(axes, own)
        axes.axhline(own[0]["zero"], ls=":", color=GREY, label="all entries 0")
        kind = table.partition(",")[0]
        axes.set_title(f"{kind}, {own[0]['rows']:,} x {own[0]['columns']}", fontsize=SMALL_POINTS)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_major_formatter("{x:g}")
    made.supxlabel("epsilon", fontsize="medium")
    made.supylabel("error of the second moment", fontsize="medium")
    made.legend(*made.axes[0].get_legend_handles_labels(), loc="outside upper left", ncols=2)
    return made


def _lines(axes: Axes, cells: list[dict[str, Any]]) -> None:
    """Draw one line for each method, and name the methods that did not finish."""
    late = []
    for (method, (colour, line)), marker in zip(METHODS.items(), MARKERS, strict=False):
        own = [cell for cell in cells if cell["method"] == method]
        if all(cell["error_mean"] is None for cell in own):
            late.append(method)
            continue
        label = f"{method} ({own[0]['version']})"
        style = {"marker": marker, "ms": 5, "color": colour, "ls": line, "label": label}
        axes.loglog(
            [cell["epsilon"] for cell in own], [cell["error_mean"] for cell in own], **style
        )
    if late:
        note = "\n".join([*late, f"gave none in {cells[0]['limit']} s"])
        corner = {"transform": axes.transAxes, "ha": "left", "va": "bottom"}
        axes.text(0.04, 0.04, note, fontsize=SMALL_POINTS, **corner)


def ledger_figure() -> Figure:
    """Draw the budget that releases spend, by both rules of a ledger with a delta."""
    _, release, _ = demo()
    choice = choose(release.schema, EACH, Neighbors.ADD_REMOVE, with_mu=True)
    spent: dict[str, list[float]] = {"sums": [], "gaussian": []}
    with TemporaryDirectory() as folder:
        for count, spends in spent.items():
            ledger = Ledger.create(Path(folder, count), TOTAL, count=count)
            with suppress(BudgetExceededError):
                for _ in range(round(TOTAL.epsilon / EACH.epsilon)):
                    ledger.reserve(choice.laws.guarantee, mu=choice.laws.mu)
                    spends.append(ledger.account().spent["epsilon"])
    made = figure(3.2)
    axes = made.subplots()
    for (count, spends), colour, marker in zip(spent.items(), COLOURS, MARKERS, strict=False):
        at = range(1, len(spends) + 1)
        axes.plot(at, spends, marker=marker, ms=5, color=colour, label=f"--count {count}")
    axes.axhline(TOTAL.epsilon, ls="--", color=GREY, label="budget")
    axes.set(
        xlabel=f"releases with epsilon {EACH.epsilon:g}", ylabel="epsilon spent", ylim=(0, None)
    )
    made.legend(loc="outside upper left", ncols=3)
    return made
