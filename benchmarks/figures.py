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


def peers(cells: Cells) -> str:
    """Errors, draws and privacy losses of other libraries beside ours."""
    errors = [cell for cell in cells if cell["kind"] == "error"]
    methods = list(dict.fromkeys(cell["method"] for cell in errors))
    lines = [["data", "epsilon", *methods, "zero matrix"]]
    for data, epsilon in dict.fromkeys((c["dataset"], c["epsilon"]) for c in errors):
        own = [c for c in errors if (c["dataset"], c["epsilon"]) == (data, epsilon)]
        size = f"{data}, {own[0]['rows']:,} x {own[0]['columns']}"
        found = [_peer_error(cell) for cell in own]
        lines.append([size, f"{epsilon:g}", *found, f"{own[0]['zero']:.3g}"])
    draws = [cell for cell in cells if cell["kind"] == "draws"]
    drawers = list(dict.fromkeys(cell["method"] for cell in draws))
    heads = ["eigenvalues", "Bingham", *drawers, "density exp(-u'Au) (u'Wu)^(-d)"]
    moments = [heads]
    for spectrum in dict.fromkeys(tuple(cell["eigenvalues"]) for cell in draws):
        own = [cell for cell in draws if tuple(cell["eigenvalues"]) == spectrum]
        found = [f"{cell['found']:.4f} ± {cell['se']:.4f}" for cell in own]
        ends = (f"{own[0][name]:.4f}" for name in ("Bingham", "with the sign wrong"))
        first, last = ends
        name = ", ".join(f"{value:g}" for value in spectrum)
        moments.append([name, first, *found, last])
    losses = [["columns", "Bingham", "density exp(-u'Au) (u'Wu)^(-d)"]]
    losses += [
        [f"{c['columns']}", f"{c['Bingham']:.2f}", f"{c['with the sign wrong']:.2f}"]
        for c in cells
        if c["kind"] == "loss"
    ]
    versions = dict.fromkeys(f"{c['method']} {c['version']}" for c in draws)
    return "\n\n".join(
        [
            f"Measured with {', '.join(versions)}. Mean error ± standard error of 20 releases:",
            _table(lines),
            f"Mean of u_1^2 over {draws[0]['draws']:,} draws at epsilon 1:",
            _table(moments),
            "Largest privacy loss found when one row of many equal ones is replaced, over epsilon:",
            _table(losses),
        ]
    )


def _peer_error(cell: dict[str, Any]) -> str:
    if cell["error_mean"] is None:
        return f"none in {cell['limit']:g} s"
    return f"{cell['error_mean']:.3g} ± {cell['error_se']:.1g}"


FIGURES: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "accuracy": ("README.md", accuracy),
    "bench": ("README.md", bench),
    "engines": ("docs/dependencies.md", engines),
    "trust": ("docs/trust.md", trust),
    "peers": ("docs/comparison.md", peers),
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
        shutil.copy(ROOT / "results" / f"{name}.json", SNAPSHOTS)
        path = ROOT / page
        marked = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
        text, count = marked.subn(lambda _, name=name: rendered(name), path.read_text())
        if count != 1:
            raise SystemExit(f"{page} has no place for {name}")
        path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
