"""Summaries of what `calibration.py` measured, by statistic and kind of budget."""

from __future__ import annotations

from typing import Any

import numpy as np

# A cell is a table at a budget. The benchmark lists cells with a coverage below LEAST. It also
# lists cells with a width above WIDEST, in units of the width of the reference interval.
LEAST, WIDEST = 0.9, 2.0
# Coverage that at least 95% of the cells should have.
COVERED = 0.85

# Range of the measured error divided by the stated error.
WELL = 0.7, 1.25
# A stated error is far too large below the first of these ratios, and too small above the second.
TOO_LARGE, TOO_SMALL = 0.4, 1.5

# Smallest fraction of a stated error that comes from the noise, in a cell without a tail.
MOSTLY = 0.9

CONTROLS = ("noise halved", "no lengths")
Row = dict[str, Any]


def summary(rows: list[Row]) -> list[Row]:
    """Summarise the cells of each statistic, by kind of budget."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["statistic"], row["kind"]), []).append(row)
    return [
        {"statistic": of, "budget": kind, "cells": len(cells)} | _figures(cells)
        for (of, kind), cells in sorted(groups.items(), key=lambda group: group[0][0])
    ]


def _figures(cells: list[Row]) -> Row:
    covered, alone, width, ratio = (
        _of(cells, key) for key in ("covered", "guaranteed", "width", "real/stated")
    )
    unmarked = _of(cells, "real/stated, unmarked")
    return {
        "covered": float(covered.mean()),
        f"at least {COVERED:g}": float(np.mean(covered >= COVERED)),
        f"or marked, at least {COVERED:g}": float(np.mean(_or_marked(cells) >= COVERED)),
        "least": float(covered.min()),
        "of all": _mean(_of(cells, "of all")),
        "marked": _mean(_of(cells, "marked")),
        "width": float(np.median(width)),
        f"at most {WIDEST:g}": float(np.mean(width <= WIDEST)),
        "width, unmarked": float(np.median(_of(cells, "width, unmarked"))),
        "real/stated": float(np.exp(np.log(ratio).mean())),
        "largest": float(ratio.max()),
        f"below {TOO_LARGE:g}": float(np.mean(ratio < TOO_LARGE)),
        f"above {TOO_SMALL:g}": float(np.mean(ratio > TOO_SMALL)),
        f"unmarked, below {TOO_LARGE:g}": float(np.mean(unmarked < TOO_LARGE)),
        f"unmarked, above {TOO_SMALL:g}": float(np.mean(unmarked > TOO_SMALL)),
        f"{WELL[0]:g} to {WELL[1]:g}": _well(cells),
        "where noise is most": _well([one for one in cells if (one["by noise"] or 0) >= MOSTLY]),
        "guaranteed": float(alone.mean()),
        "its least": float(alone.min()),
        **{control: _mean(_of(cells, control)) for control in CONTROLS},
        "OLS answers": _mean(_of(cells, "OLS answers")),
        "time": float(np.median(_of(cells, "time"))),
    }


def _or_marked(cells: list[Row]) -> Any:
    """Return the fraction of figures of each cell whose interval covers, or that are marked."""
    shares = [(cell["marked"], cell["covered"] or 0.0) for cell in cells]
    return np.array([marked + (1 - marked) * covered for marked, covered in shares])


def _well(cells: list[Row]) -> float | None:
    """Return the fraction of cells whose measured errors are close to the stated errors."""
    ratio = _of(cells, "real/stated")
    return _mean((ratio >= WELL[0]) & (ratio <= WELL[1]))


def _of(cells: list[Row], key: str) -> Any:
    return np.array([cell[key] for cell in cells if cell[key] is not None])


def _mean(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None


def beyond(rows: list[Row]) -> list[Row]:
    """Return the cells with too little coverage or too wide intervals."""
    keys = ("table", "budget", "relation", "statistic", "covered", "marked", "width", "certified")
    found = [row for row in rows if _covers_too_seldom(row) or row["width"] > WIDEST]
    return [{key: row.get(key) for key in (*keys, "real/stated")} for row in found]


def _covers_too_seldom(row: Row) -> bool:
    return row["covered"] is not None and row["covered"] < LEAST


def unnoticed(rows: list[Row]) -> list[Row]:
    """Return the controls that do not lower the coverage of a statistic."""
    found = []
    for of in dict.fromkeys(row["statistic"] for row in rows):
        for control in CONTROLS:
            cells = [row for row in rows if row["statistic"] == of and row[control] is not None]
            covered, without = _mean(_of(cells, "of all")), _mean(_of(cells, control))
            if covered is not None and without is not None and not without < covered:
                found.append({"statistic": of, "control": control, "covered": without})
    return found
