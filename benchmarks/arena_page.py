"""The tables of `docs/arena.md`, from the rows of `arena.json`."""

from __future__ import annotations

from typing import Any

Cells = list[dict[str, Any]]
Line = list[str]
TITLES = {"pure": "pure", "zcdp": "zCDP", "approximate": "(epsilon, 1e-6)"}


def arena(rows: Cells) -> str:
    """The whole measured part of the page."""
    cells = sum(row["cells"] for row in rows if row["part"] == "family")
    parts = [
        f"{cells} cells are measured.",
        "### The default against the rest",
        _regimes(rows, "regime"),
        "### Where anything shows",
        _regimes(rows, "showing"),
        "### By family of tables",
        _shares(rows, "family"),
        "### By kind of error",
        _shares(rows, "kind", "error"),
        "### The error of each of our own, if always taken, over the default's",
        _singles(rows, "single"),
        "### Each peer's error over the default's",
        _singles(rows, "peer"),
        "### Cells where a peer is nearer, beyond two standard errors",
        _lost_to_peers(rows),
        "### Who is best how often",
        _winners(rows),
        "### What choosing among more would gain",
        _portfolios(rows),
        "### How far from optimal",
        _optimality(rows),
        "### Cells where the default is over the bar",
        _losses(rows),
    ]
    return "\n\n".join(parts)


def _regimes(rows: Cells, part: str) -> str:
    lines = [["definition", "neighbours", *SHARES, "its bar"]]
    for row in _part(rows, part):
        bar = "" if row["peer bar"] is None else f"{row['peer bar']:g}"
        lines.append([TITLES[row["definition"]], row["neighbors"], *_of(row), bar])
    return _table(lines)


def _shares(rows: Cells, part: str, name: str | None = None) -> str:
    lines = [[name or part, "definition", *SHARES]]
    for row in _part(rows, part):
        lines.append([row[name or part], TITLES[row["definition"]], *_of(row)])
    return _table(lines)


SHARES = (
    *("cells", "within 1.02", "of three equals", "or within errors"),
    *("best peer over default", "best peer over our best", "worse than a peer"),
)


def _of(row: dict[str, Any]) -> Line:
    return [
        f"{row['cells']}",
        f"{row['within']:.0%}",
        f"{row['of equals']:.0%}",
        f"{row['not worse']:.0%}",
        f"{row['advantage']:.2f}",
        f"{row['in hindsight']:.2f}",
        f"{row['worse than a peer']}",
    ]


def _singles(rows: Cells, part: str) -> str:
    """A line for each entrant, a column for each definition."""
    found = {(row["entrant"], row["definition"]): row for row in _part(rows, part)}
    lines = [["entrant", *TITLES.values()]]
    for name in dict.fromkeys(name for name, _ in found):
        own = [found.get((name, definition)) for definition in TITLES]
        texts = ["" if row is None else _figure(row["over the default"]) for row in own]
        lines.append([name, *texts])
    return _table(lines)


def _lost_to_peers(rows: Cells) -> str:
    lines = [["table", "neighbours", "definition", "epsilon", "peer", "default's error over its"]]
    for row in _part(rows, "lost to a peer"):
        where = [row["table"], row["neighbors"], TITLES[row["definition"]], f"{row['epsilon']:g}"]
        lines.append([*where, row["peer"], f"{row['ratio']:.2f} ± {row['se']:.2f}"])
    return _table(lines)


def _figure(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 1000 else "over 1000"


def _winners(rows: Cells) -> str:
    lines = [["definition", "best of the cell", "cells", "default's error over it"]]
    for row in _part(rows, "winner"):
        over = f"{row['default over it']:.2f}"
        lines.append([TITLES[row["definition"]], row["winner"], f"{row['cells']}", over])
    return _table(lines)


def _portfolios(rows: Cells) -> str:
    lines = [["error", "definition", "the best of", "over the best of all", "within 1.05"]]
    for row in _part(rows, "portfolio"):
        figures = [f"{row['over the best']:.3f}", f"{row['within']:.0%}"]
        lines.append([row["error"], TITLES[row["definition"]], row["set"], *figures])
    return _table(lines)


def _optimality(rows: Cells) -> str:
    lines = [["definition", "epsilon", "cells", "least", "geometric mean", "largest"]]
    for row in _part(rows, "optimality"):
        ratios = [f"{row[name]:.1f}" for name in ("least", "typical", "largest")]
        where = [TITLES[row["definition"]], f"{row['epsilon']:g}", f"{row['cells']}"]
        lines.append([*where, *ratios])
    return _table(lines)


def _losses(rows: Cells) -> str:
    found = _part(rows, "loss")
    lines = [["table", "neighbours", "definition", "epsilon", "best", "ratio", "the best is for"]]
    for row in found:
        if not row["worse"]:
            continue
        ratio = f"{row['ratio']:.2f} ± {row['se']:.2f}"
        where = [row["table"], row["neighbors"], TITLES[row["definition"]], f"{row['epsilon']:g}"]
        lines.append([*where, row["winner"], ratio, row["use"]])
    rest = sum(not row["worse"] for row in found)
    note = f"Another {rest} cells are over 1.02, but by less than two standard errors."
    return f"{_table(lines)}\n\n{note}"


def _part(rows: Cells, part: str) -> Cells:
    return [row for row in rows if row["part"] == part]


def _table(lines: list[Line]) -> str:
    texts = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(lines[0]), *texts[1:]])
