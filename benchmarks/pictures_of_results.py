"""Pictures of measured results in docs/results, and of a ledger with releases."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import LogLocator

from demo_release import demo
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.errors import BudgetExceededError
from dpcov.mechanisms.choice import choose
from picture_style import COLOURS, FIGURES, GREY, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, *_ = COLOURS
MARKERS = "os^Dv"
KINDS = {
    "epsilon": ("pure, replace-one", BLUE, -0.15),
    "rho": ("zCDP, add-remove", ORANGE, 0.15),
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
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 3)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter("")
    axes.legend(loc="upper left")
    return made


def peers_figure() -> Figure:
    """Draw the error of dpcov over the error of the best peer, for each task and cell."""
    cells = [cell for cell in measured("peers_by_task") if cell.get("peer") == "best peer"]
    tasks = list(dict.fromkeys(cell["task"] for cell in cells))
    made = figure(3.8)
    axes = made.subplots()
    for kind, (label, colour, shift) in KINDS.items():
        for cell in (cell for cell in cells if cell["budget"] == kind):
            height = tasks.index(cell["task"]) + shift
            style = {"color": colour, "label": label if cell["task"] == tasks[0] else None}
            axes.plot(cell["ratios"], [height] * cell["cells"], "o", ms=4, alpha=0.6, **style)
            axes.plot(cell["ratio"], height, "|", ms=14, mew=2, color=colour)
    axes.axvline(1, lw=0.8, color=GREY)
    axes.set_yticks(range(len(tasks)), tasks)
    axes.set(xscale="log", ylim=(len(tasks) - 0.5, -0.5))
    axes.set_xlabel("error of dpcov / error of the best peer")
    axes.xaxis.set_major_formatter("{x:g}")
    made.legend(loc="outside upper left", ncols=2)
    return made


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
