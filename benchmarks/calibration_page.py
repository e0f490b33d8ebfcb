"""What `calibration.py` found, by statistic and kind of budget, and the page's table of it."""

from __future__ import annotations

from typing import Any

import numpy as np

LEAST, WIDEST = 0.9, 2.0  # coverage of a cell, and its width over the oracle's, to name it
WELL = 0.7, 1.25  # real errors over stated ones
MOSTLY = 0.9  # of a stated error, what it would be for noise alone: then it is hardly of a tail
CONTROLS = ("noise halved", "no lengths")
Row = dict[str, Any]


def summary(rows: list[Row]) -> list[Row]:
    """Over the cells (a table at a budget) of each statistic, by kind of budget.

    Of those whose tail is seen in most releases: of the others no ordinary interval is answered.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in seen(rows):
        groups.setdefault((row["statistic"], row["kind"]), []).append(row)
    return [
        {"statistic": of, "budget": kind, "cells": len(cells)} | _figures(cells)
        for (of, kind), cells in sorted(groups.items(), key=lambda group: group[0][0])
    ]


def seen(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["unseen"] <= 0.5]


def _figures(cells: list[Row]) -> Row:
    covered, alone, width, ratio = (
        _of(cells, key) for key in ("covered", "guaranteed", "width", "real/stated")
    )
    return {
        "covered": float(covered.mean()),
        "least": float(covered.min()),
        "width": float(np.median(width)),
        f"at most {WIDEST:g}": float(np.mean(width <= WIDEST)),
        "real/stated": float(np.exp(np.log(ratio).mean())),
        "largest": float(ratio.max()),
        f"{WELL[0]:g} to {WELL[1]:g}": _well(cells),
        "where noise is most": _well([one for one in cells if (one["by noise"] or 0) >= MOSTLY]),
        "guaranteed": float(alone.mean()),
        "its least": float(alone.min()),
        **{control: _mean(_of(cells, control)) for control in CONTROLS},
        "OLS answers": _mean(_of(cells, "OLS answers")),
        "time": float(np.median(_of(cells, "time"))),
    }


def _well(cells: list[Row]) -> float | None:
    """The share whose real errors are about what is stated."""
    ratio = _of(cells, "real/stated")
    return _mean((ratio >= WELL[0]) & (ratio <= WELL[1]))


def _of(cells: list[Row], key: str) -> Any:
    return np.array([cell[key] for cell in cells if cell[key] is not None])


def _mean(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None


def beyond(rows: list[Row]) -> list[Row]:
    """Cells that cover too seldom, or are too wide."""
    keys = ("table", "budget", "relation", "statistic", "covered", "width", "certified")
    found = [row for row in seen(rows) if row["covered"] < LEAST or row["width"] > WIDEST]
    return [{key: row.get(key) for key in (*keys, "real/stated")} for row in found]


def unnoticed(rows: list[Row]) -> list[Row]:
    """Controls by which a statistic is covered no less, over the cells that have them."""
    found = []
    for of in dict.fromkeys(row["statistic"] for row in rows):
        for control in CONTROLS:
            cells = [row for row in rows if row["statistic"] == of and row[control] is not None]
            covered, without = _mean(_of(cells, "covered")), _mean(_of(cells, control))
            if covered is not None and without is not None and not without < covered:
                found.append({"statistic": of, "control": control, "covered": without})
    return found


def calibration(rows: list[Row]) -> str:
    """The summary; how often OLS answers, and the time; the tables that have cells beyond."""
    totals = summary(rows)
    heads = [key for key in totals[0] if key not in ("cells", "OLS answers", "time")]
    answers, time = _mean(_of(rows, "OLS answers")), np.median(_of(rows, "time"))
    told = {(row["table"], row["budget"]): row["unseen"] > 0.5 for row in rows}
    hidden = sorted({table for (table, _), unseen in told.items() if unseen})
    return (
        f"{_table(heads, totals)}\n\n`ols` answers, with an error of each coefficient, in "
        f"{answers:.0%} of the fits. The account takes {time:.1f} times the CPU of its release "
        f"(median over cells). Left out are {sum(told.values())} of {len(told)} cells whose tail "
        f"is not seen, of {', '.join(hidden) or 'no table'}.\n\nTables with cells below {LEAST:g}, "
        f"or more than {WIDEST:g} times as wide as the oracle's: how many, of these the extremes, "
        f"and of the widest the least that a private interval can have.\n\n{_table_beyond(rows)}"
    )


def by_goal(rows: list[Row]) -> str:
    """By goal and statistic, over all budgets."""
    heads = ("covered", "least", "width", "at most 2", "real/stated", "guaranteed", "its least")
    lines = []
    for goal in dict.fromkeys(row["goal"] for row in rows):
        own = seen([row for row in rows if row["goal"] == goal])
        for of in dict.fromkeys(row["statistic"] for row in own):
            figures = _figures([row for row in own if row["statistic"] == of])
            lines.append({"goal": goal, "statistic": of} | {key: figures[key] for key in heads})
    return _table(list(lines[0]), lines)


def _table_beyond(rows: list[Row]) -> str:
    """A line for each table and statistic of which a cell is beyond."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in beyond(rows):
        groups.setdefault((row["table"], row["statistic"]), []).append(row)
    lines = [
        {
            "table": name,
            "statistic": of,
            "cells": len(cells),
            "least covered": float(_of(cells, "covered").min()),
            "widest": float(_of(cells, "width").max()),
            "certified": max(cells, key=lambda cell: cell["width"]).get("certified"),
        }
        for (name, of), cells in groups.items()
    ]
    return _table(list(lines[0]), lines) if lines else "None."


def _table(heads: list[str], rows: list[Row]) -> str:
    lines = [heads, ["---"] * len(heads), *([_text(row[key]) for key in heads] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.2f}" if isinstance(value, float) else str(value)
