"""Summarise the comparison with peers: the error of dpcov over a peer's, as geometric means."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

OURS, BEST = "dpcov", "best peer"
KINDS = ("epsilon", "rho")
Row = dict[str, Any]


def ratios(rows: list[Row]) -> list[Row]:
    """Return a row for each task, kind of budget and peer, and for the best peer of each cell.

    A cell is a table at a budget. A peer has no ratio in a cell where most of its answers failed.
    """
    found: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (task, kind, *_), errors in _cells(rows).items():
        own = errors.pop(OURS)
        answered = {method: error for method, error in errors.items() if error is not None}
        for method in errors:
            if method in answered:
                found[task, kind, method].append(own / answered[method])
            else:
                found[task, kind, method].append(math.nan)
        peers = [error for method, error in answered.items() if not method.startswith(OURS)]
        if peers:
            found[task, kind, BEST].append(own / min(peers))
    return [
        {"kind": "ratio", "task": task, "budget": kind, "peer": peer, **_figures(each)}
        for (task, kind, peer), each in found.items()
    ]


def _cells(rows: list[Row]) -> dict[tuple[str, str, str, float], dict[str, float | None]]:
    """Return the errors by method of each task and cell."""
    cells: dict[tuple[str, str, str, float], dict[str, float | None]] = defaultdict(dict)
    for row in rows:
        if row.get("task"):
            kind = next(kind for kind in KINDS if kind in row)
            cells[row["task"], kind, row["table"], row[kind]][row["method"]] = row["error"]
    return cells


def _figures(each: list[float]) -> Row:
    known = [ratio for ratio in each if not math.isnan(ratio)]
    logs = [math.log(ratio) for ratio in known]
    return {
        "ratio": math.exp(sum(logs) / len(logs)) if logs else None,
        "ratios": known,
        "lost": sum(ratio > 1 for ratio in known),
        "cells": len(known),
        "unanswered": len(each) - len(known),
    }
