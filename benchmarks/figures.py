"""Write measured results into the documents that cite them.

`make figures` copies `results/*.json` to `docs/results/` and renders them into the pages of
`FIGURES`, between the markers `<!-- NAME -->` and `<!-- /NAME -->`. With names, only those.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from arena_page import arena

ROOT = Path(__file__).parents[1]
SNAPSHOTS = ROOT / "docs" / "results"
Cells = list[dict[str, Any]]


def accuracy(cells: Cells) -> str:
    """Error of the default release for each data set and epsilon, pure DP."""
    pure = [cell for cell in cells if cell["budget"].startswith("pure")]
    epsilons = list(dict.fromkeys(cell["budget"].split()[1] for cell in pure))
    lines = [["data", *(f"eps {epsilon}" for epsilon in epsilons), "zero matrix"]]
    for name in dict.fromkeys(cell["dataset"] for cell in pure):
        own = [cell for cell in pure if cell["dataset"] == name]
        lines.append(
            [name, *(f"{cell['error_mean']:.3g}" for cell in own), f"{own[0]['zero']:.3g}"]
        )
    return _table(lines)


def bench(cells: Cells) -> str:
    """Every benchmark with its bar."""
    lines = [["case", "metric", "dpcov", "reference", "ratio", "bar"]]
    for cell in cells:
        ratio = "" if cell["ratio"] is None else f"{cell['ratio']:.2f}"
        reference = "" if cell["ratio"] is None else f"{cell['reference']:.3g}"
        figures = [f"{cell['ours']:.3g}", reference, ratio, f"{cell['bar']:.3g}"]
        lines.append([cell["case"], cell["metric"], *figures])
    return _table(lines)


def engines(cells: Cells) -> str:
    """CPU and memory of each engine."""
    lines = [["job", "CPU s", "peak MiB"]]
    lines += [[cell["job"], f"{cell['cpu']:.2f}", f"{cell['peak_mib']:.0f}"] for cell in cells]
    return _table(lines)


def trust(cells: Cells) -> str:
    """Every attack and its figures."""
    lines = [["attack", "measured", "must be", "is", "ok"]]
    for i, cell in enumerate(cells):
        repeated = i > 0 and cells[i - 1]["attack"] == cell["attack"]
        attack = "" if repeated else cell["attack"]
        figures = [cell[name].replace("|", "\\|") for name in ("measured", "wanted", "found")]
        lines.append([attack, *figures, "yes" if cell["ok"] else "**NO**"])
    return _table(lines)


FIGURES: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "accuracy": ("README.md", accuracy),
    "arena": ("docs/arena.md", arena),
    "bench": ("README.md", bench),
    "engines": ("docs/dependencies.md", engines),
    "trust": ("docs/trust.md", trust),
}


def rendered(name: str) -> str:
    """The table of a snapshot, between its markers."""
    document = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    return f"<!-- {name} -->\n\n{FIGURES[name][1](document['rows'])}\n\n<!-- /{name} -->"


def _table(lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


def main(names: list[str]) -> None:
    SNAPSHOTS.mkdir(exist_ok=True)
    for name in names or FIGURES:
        page, _ = FIGURES[name]
        for measured in (ROOT / "results").glob(f"{name}.*"):
            shutil.copy(measured, SNAPSHOTS)
        path = ROOT / page
        marked = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
        text, count = marked.subn(lambda _, name=name: rendered(name), path.read_text())
        if count != 1:
            raise SystemExit(f"{page} has no place for {name}")
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
