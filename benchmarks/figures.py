"""Write measured results into the documents that cite them.

`make figures` copies `results/*.json` to `docs/results/` (the snapshots). It then renders the
snapshots in `FIGURES` as tables in the pages, between the markers `<!-- NAME -->` and
`<!-- /NAME -->`. With names as arguments, it does so for these names only. The name `papers` copies
the results of `make reproduce`; the site generates the pages in `docs/papers` from them.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
SNAPSHOTS = ROOT / "docs" / "results"
Cells = list[dict[str, Any]]


def accuracy(cells: Cells) -> str:
    """Return the errors of the default release by data set and epsilon, for pure privacy."""
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
    """Return the benchmarks with their thresholds."""
    lines = [["case", "metric", "dpcov", "reference", "ratio", "bar", "ok"]]
    for cell in cells:
        ratio = "" if cell["ratio"] is None else f"{cell['ratio']:.2f}"
        reference = "" if cell["ratio"] is None else f"{cell['reference']:.3g}"
        ok = _yes(cell["ok"])
        figures = [f"{cell['ours']:.3g}", reference, ratio, f"{cell['bar']:.3g}", ok]
        lines.append([cell["case"], cell["metric"], *figures])
    return _table(lines)


def engines(cells: Cells) -> str:
    """Return the CPU time and the memory of each engine."""
    lines = [["job", "CPU s", "peak MiB"]]
    lines += [[cell["job"], f"{cell['cpu']:.2f}", f"{cell['peak_mib']:.0f}"] for cell in cells]
    return _table(lines)


def reads(cells: Cells) -> str:
    """Return the CPU time of releases and of plain reads of the same tables."""
    lines = [["table", "CPU s", "beside it", "CPU s", "ratio", "bar"]]
    for cell in cells:
        bar = f"{cell['bar']:g}" if cell["bar"] else ""
        figures = [f"{cell['ours']:.2f}", cell["beside"], f"{cell['reference']:.2f}"]
        lines.append([cell["case"], *figures, f"{cell['ratio']:.2f}", bar])
    return _table(lines)


def parts(cells: Cells) -> str:
    """Return the CPU seconds of each part of a pass, with a line for each case."""
    names = list(dict.fromkeys(cell["part"] for cell in cells))
    lines = [["case", *names, "sum"]]
    for case in dict.fromkeys(cell["case"] for cell in cells):
        spent = {cell["part"]: cell["cpu"] for cell in cells if cell["case"] == case}
        figures = [*(spent.get(name, 0.0) for name in names), sum(spent.values())]
        lines.append([case, *(f"{seconds:.2f}" for seconds in figures)])
    return _table(lines)


def scaling(cells: Cells) -> str:
    """Return the measurements of each shape, then the fitted and the expected exponents."""
    lines = [["what", "metric", "measured", "beside it", "ok"]]
    for cell in cells:
        beside = f"{cell['reference']:.3g}" if cell["reference"] else ""
        if cell["metric"].startswith("exponent"):
            beside = f"{cell['reference']:g}"
        figures = [f"{cell['ours']:.3g}", beside, _yes(cell["ok"])]
        lines.append([cell["case"], cell["metric"], *figures])
    return _table(lines)


def persons(cells: Cells) -> str:
    """Return the errors with rows and with persons as the privacy unit."""
    heads = ["unit", "rows that count", "epsilon", "for a person", "covariance off by"]
    lines = [[*heads, "correlations off by", "without noise", "answering 0"]]
    for cell in cells:
        lines.append(
            [cell["unit"], str(cell["rows of a person that count"])]
            + [f"{cell[name]:g}" for name in ("epsilon stated", "epsilon for a person")]
            + [f"{100 * cell['covariance_error_median']:.1f}%"]
            + [f"{cell[name]:.3f}" for name in ("error_mean", "without_noise", "zero")]
        )
    return _table(lines)


def persons_memory(cells: Cells) -> str:
    """Return the CPU time and the memory for many persons."""
    lines = [["persons", "CPU s", "peak MiB"]]
    lines += [
        [f"{cell['persons']:,}", f"{cell['cpu']:.1f}", f"{cell['peak_mib']:.0f}"] for cell in cells
    ]
    return _table(lines)


def trust(cells: Cells) -> str:
    """Return the attacks and their figures."""
    lines = [["attack", "measured", "must be", "is", "ok"]]
    for i, cell in enumerate(cells):
        repeated = i > 0 and cells[i - 1]["attack"] == cell["attack"]
        attack = "" if repeated else cell["attack"]
        texts = (cell[name].replace("|", "\\|") for name in ("measured", "wanted", "found"))
        figures = [re.sub(r"(\d) %", r"\1%", text) for text in texts]
        lines.append([attack, *figures, "yes" if cell["ok"] else "**NO**"])
    return _table(lines)


def peers(cells: Cells) -> str:
    """Return errors, draws and privacy losses of dpcov and other libraries."""
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
    of_errors, of_draws = (
        ", ".join(
            dict.fromkeys(f"{c['method']} {c['version']}" for c in some if c["method"] in drawers)
        )
        for some in (errors, draws)
    )
    return "\n\n".join(
        [
            f"Measured with {of_errors}. Mean error ± standard error of 20 releases:",
            _table(lines),
            f"Mean of u_1^2 over {draws[0]['draws']:,} draws at epsilon 1 ({of_draws}):",
            _table(moments),
            "Largest privacy loss found when one row of many equal ones is replaced, over epsilon:",
            _table(losses),
        ]
    )


def ledger(cells: Cells) -> str:
    """Return the checks of the count of a ledger."""
    lines = [["check", "must be", "is", "ok"]]
    lines += [[c["what"], c["wanted"] or "-", c["found"], _yes(c["ok"])] for c in cells]
    return _table(lines)


GUESSES = {
    "a release": "a release of half of the table",
    "all numbers": "all numbers above, to a digit or two",
    "each column": "spreads, correlation",
    "two numbers": "one spread, correlation",
    "defaults": "nothing",
}


def plan_calibration(cells: Cells) -> str:
    """Return the fraction of predictions within the factor, and the misses for `auto`."""
    figures = list(dict.fromkeys(cell["figure"] for cell in cells))
    lines = [["said", *("regression" if f == "prediction" else f for f in figures)]]
    for guess, said in GUESSES.items():
        own = [cell for cell in cells if cell["guess"] == guess]
        shares = [_share_ok([c for c in own if c["figure"] == figure]) for figure in figures]
        lines.append([said, *(f"{share:.0%}" for share in shares)])
    automatic = [c for c in cells if c["automatic"] and c["guess"] == "a release"]
    missed: dict[str, list[float]] = {}
    for c in automatic:
        if not c["ok"]:
            missed.setdefault(c["dataset"], []).append(c["ratio"])
    within = f"{sum(c['ok'] for c in automatic)} of {len(automatic)}"
    others = "".join(
        f"\n- `{name}`: {len(off)} outside, with ratios from {min(off):.2f} to {max(off):.2f}"
        for name, off in missed.items()
    )
    rest = f" These tables have the others:\n{others}" if others else ""
    return (
        f"{_table(lines)}\n\nWith `auto` and a release of half of the table, {within} predictions "
        f"are within the factor.{rest}\n\nThe ranges of plans with `auto`:\n\n{_ranges(cells)}"
    )


def _ranges(cells: Cells) -> str:
    """Return how often the range of a plan held the measured error, and its width."""
    lines = [["said", "held", "largest over least, median", "widest"]]
    for guess, said in GUESSES.items():
        own = [cell for cell in cells if cell["guess"] == guess and cell["between"]]
        held = [cell["between"][0] <= cell["measured"] <= cell["between"][1] for cell in own]
        wide = [cell["between"][1] / cell["between"][0] for cell in own]
        share = f"{sum(held)} of {len(held)}"
        lines.append([said, share, f"{median(wide):.2g}", f"{max(wide):.2g}"])
    return _table(lines)


def _share_ok(cells: Cells) -> float:
    return sum(cell["ok"] for cell in cells) / len(cells)


def _peer_error(cell: dict[str, Any]) -> str:
    if cell["error_mean"] is None:
        return f"none in {cell['limit']:g} s"
    return f"{cell['error_mean']:.3g} ± {cell['error_se']:.1g}"


FIGURES: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "accuracy": ("docs/comparison.md", accuracy),
    "bench": ("docs/explanation/speed.md", bench),
    "bench-parts": ("docs/explanation/speed.md", parts),
    "bench-scaling": ("docs/explanation/speed.md", scaling),
    "engines": ("docs/dependencies.md", engines),
    "reads": ("docs/explanation/speed.md", reads),
    "plan_calibration": ("docs/how-to/epsilon.md", plan_calibration),
    "persons": ("docs/how-to/persons.md", persons),
    "persons-memory": ("docs/how-to/persons.md", persons_memory),
    "ledger": ("docs/proofs/ledger.md", ledger),
    "trust": ("docs/trust.md", trust),
    "peers": ("docs/comparison.md", peers),
}


def rendered(name: str) -> str:
    """Return the table of a snapshot, between its markers."""
    document = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    return f"<!-- {name} -->\n\n{FIGURES[name][1](document['rows'])}\n\n<!-- /{name} -->"


def _yes(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _table(lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])


def papers() -> None:
    """Copy the claims of whole runs, and the errors and charts that the pages show."""
    (SNAPSHOTS / "papers").mkdir(exist_ok=True)
    kept, pages = SNAPSHOTS / "papers", ROOT / "docs" / "papers"
    for measured in (ROOT / "results" / "reproduce").glob("*/claims.json"):
        paper, folder = measured.parent.name, measured.parent
        shutil.copy(measured, kept / f"{paper}.json")
        if f"generate: errors-{paper}" in (pages / f"{paper}.md").read_text():
            shutil.copy(folder / "errors.csv", kept / f"{paper}-errors.csv")
        for chart in (pages / "figures" / paper).glob("*.svg"):
            shutil.copy(folder / chart.name, chart)


def main(names: list[str]) -> None:
    """Copy the results with these names, or all kept ones, and render those that a page shows."""
    SNAPSHOTS.mkdir(exist_ok=True)
    if not names or "papers" in names:
        papers()
    kept = dict.fromkeys([*FIGURES, *(path.stem for path in sorted(SNAPSHOTS.glob("*.json")))])
    for name in [name for name in names if name != "papers"] if names else kept:
        for measured in (ROOT / "results").glob(f"{name}.*"):
            shutil.copy(measured, SNAPSHOTS)
        if name in FIGURES:
            _render(name)


def _render(name: str) -> None:
    """Replace the table between the markers of a name."""
    page = FIGURES[name][0]
    path = ROOT / page
    marked = re.compile(f"<!-- {name} -->.*<!-- /{name} -->", re.DOTALL)
    text, count = marked.subn(lambda _: rendered(name), path.read_text())
    if count != 1:
        raise SystemExit(f"{page} has no markers <!-- {name} --> and <!-- /{name} -->.")
    path.write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
