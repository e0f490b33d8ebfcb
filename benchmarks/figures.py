"""Write measured results into the documents that cite them.

`make figures` copies `results/*.json` to `docs/results/` (the snapshots). It then renders the
snapshots in `FIGURES` as tables in the pages, between the markers `<!-- NAME -->` and
`<!-- /NAME -->`. It leaves out a result that is older than its snapshot. With names as arguments,
it copies and renders these names only, whatever their age. The name `papers` copies the results of
`make reproduce-controls` and counts the results of `make reproduce-seeds`; the site generates the
pages of the papers from them.
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


def bench(cells: Cells) -> str:
    """Return the CPU time of releases and of the floor, which only decodes and multiplies."""
    lines = [["table", "dpcov, CPU s", "floor, CPU s", "ratio"]]
    for cell in cells:
        if cell["metric"] == "CPU seconds against decode + syrk":
            figures = [f"{cell[name]:.3g}" for name in ("ours", "reference")]
            lines.append([cell["case"], *figures, f"{cell['ratio']:.2f}"])
    return _table(lines)


def engines(cells: Cells) -> str:
    """Return the CPU time and the memory of each engine."""
    lines = [["job", "CPU s", "peak MiB"]]
    lines += [[cell["job"], f"{cell['cpu']:.2f}", f"{cell['peak_mib']:.0f}"] for cell in cells]
    return _table(lines)


def reads(cells: Cells) -> str:
    """Return the CPU time of releases and of plain reads of the same tables."""
    lines = [["table", "CPU s", "compared with", "CPU s", "ratio", "limit"]]
    for cell in cells:
        bar = f"{cell['bar']:g}" if cell["bar"] else ""
        figures = [f"{cell['ours']:.2f}", cell["beside"], f"{cell['reference']:.2f}"]
        lines.append([cell["case"], *figures, f"{cell['ratio']:.2f}", bar])
    return _table(lines)


def scaling(cells: Cells) -> str:
    """Return the measured and the expected exponents of time and memory."""
    lines = [["exponent of", "measured", "expected"]]
    for cell in cells:
        if cell["metric"].startswith("exponent"):
            lines.append([cell["case"], f"{cell['ours']:.3g}", f"{cell['reference']:g}"])
    return _table(lines)


def persons(cells: Cells) -> str:
    """Return the errors with rows and with persons as the privacy unit."""
    heads = ["unit", "largest number of rows", "epsilon", "epsilon of a person"]
    lines = [[*heads, "covariance", "correlations", "correlations without noise", "answer 0"]]
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


GUESSES = {
    "a release": "a release of half of the table",
    "all numbers": "all options, rounded to one or two digits",
    "each column": "each standard deviation, the typical correlation",
    "two numbers": "one standard deviation, the typical correlation",
    "defaults": "no option",
}


def plan_calibration(cells: Cells) -> str:
    """Return how often the range of a plan held the measured error, and the width of the range."""
    lines = [["the plan received", "errors in the range", "median width", "largest width"]]
    for guess, said in GUESSES.items():
        own = [cell for cell in cells if cell["guess"] == guess and cell["between"]]
        held = [cell["between"][0] <= cell["measured"] <= cell["between"][1] for cell in own]
        wide = [cell["between"][1] / cell["between"][0] for cell in own]
        share = f"{sum(held)} of {len(held)}"
        lines.append([said, share, f"{median(wide):.2g}", f"{max(wide):.2g}"])
    return _table(lines)


def wald(cells: Cells) -> str:
    """Return the sizes of the tests of regressions."""
    heads = ["rows", "columns", "epsilon", "variances below the noise"]
    tests = ["Wald test", "coefficients", "plain Wald test", "classical F test"]
    lines = [[*heads, *tests]]
    for cell in cells:
        if cell["what"] == "size":
            place = [f"{cell['n']:,}", str(cell["columns"]), f"{cell['epsilon']:g}"]
            single = f"{cell['least coefficient']:.3f} to {cell['largest coefficient']:.3f}"
            own = [f"{cell[name]:.3f}" for name in ("wald", "plain wald", "former F")]
            below = f"{cell['below noise']:.0%}"
            lines.append([*place, below, own[0], single, *own[1:]])
    return _table(lines)


# Errors of the table of goals, with the heads of its columns.
GOAL_ERRORS = {
    "correlation": "correlations",
    "ols": "regressions",
    "means": "means",
    "frobenius": "covariance matrix",
}


def goals(cells: Cells) -> str:
    """Return the errors of each goal over the errors of the default."""
    ratios = {(cell["goal"], cell["error"]): cell["ratio"] for cell in cells}
    lines = [["`--goal`", *GOAL_ERRORS.values()]]
    for goal in dict.fromkeys(cell["goal"] for cell in cells):
        lines.append([f"`{goal}`", *(f"{ratios[goal, error]:.2f}" for error in GOAL_ERRORS)])
    return _table(lines)


# Rows of the table of coverage, with the statistics of each row.
COVERED_STATISTICS = {
    "means": ["mean"],
    "covariances": ["covariance"],
    "correlations": ["correlation"],
    "regression coefficients": ["OLS"],
    "eigenvalues and shares of variance": [
        "eigenvalues",
        "explained variance",
        "eigenvalues of correlations",
    ],
}


def interval_coverage(cells: Cells) -> str:
    """Return the smallest and largest average coverage of 95% intervals, by rows and budget."""
    lines = [["figure", "average coverage, by rows and budget"]]
    for said, statistics in COVERED_STATISTICS.items():
        covered = [cell["covered"] for cell in cells if cell["statistic"] in statistics]
        lines.append([said, f"{min(covered):.0%} to {max(covered):.0%}"])
    return _table(lines)


FIGURES: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "bench": ("docs/explanation/speed.md", bench),
    "bench-scaling": ("docs/explanation/speed.md", scaling),
    "engines": ("docs/dependencies.md", engines),
    "reads": ("docs/explanation/speed.md", reads),
    "plan_calibration": ("docs/how-to/epsilon.md", plan_calibration),
    "goals": ("docs/how-to/epsilon.md", goals),
    "persons": ("docs/how-to/persons.md", persons),
    "persons-memory": ("docs/how-to/persons.md", persons_memory),
    "wald": ("docs/explanation/wald.md", wald),
    "interval_coverage": ("docs/intervals.md", interval_coverage),
}


def rendered(name: str) -> str:
    """Return the table of a snapshot, between its markers."""
    document = json.loads((SNAPSHOTS / f"{name}.json").read_text())
    return f"<!-- {name} -->\n\n{FIGURES[name][1](document['rows'])}\n\n<!-- /{name} -->"


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
        for table in ("errors", "printed"):
            if f"generate: {table}-{paper}" in (pages / f"{paper}.md").read_text():
                shutil.copy(folder / f"{table}.csv", kept / f"{paper}-{table}.csv")
        for chart in (pages / "figures" / paper).glob("*.svg"):
            shutil.copy(folder / chart.name, chart)
    for long_run in (ROOT / "results").glob("wang2018-colon.json"):
        shutil.copy(long_run, kept)
    other_seeds(ROOT / "results", kept / "seeds.json")


def cpu_seconds(run: dict[str, Any]) -> float:
    """Return the CPU time of the claims of a run."""
    return float(sum(row["seconds"] for row in run["rows"]))


def other_seeds(results: Path, kept: Path) -> None:
    """Keep one row for each paper whose experiments ran with other seeds.

    A row counts the runs, the claims that have a verdict, and the runs in which all verdicts hold.
    """
    rows = {row["paper"]: row for row in json.loads(kept.read_text())} if kept.exists() else {}
    runs: dict[str, list[dict[str, Any]]] = {}
    for measured in sorted(results.glob("reproduce-run*/*/claims.json")):
        runs.setdefault(measured.parent.name, []).append(json.loads(measured.read_text()))
    for paper, found in runs.items():
        judged = [[row for row in run["rows"] if row["verdict"] != "measured"] for run in found]
        rows[paper] = {
            "paper": paper,
            "command": f"make reproduce-seeds PAPER={paper}",
            "commits": sorted({run["commit"] for run in found}),
            "runs": len(found),
            "claims": len(judged[0]),
            "held": sum(all(row["ok"] for row in run) for run in judged),
            "otherwise": sorted({row["id"] for run in judged for row in run if not row["ok"]}),
            "CPU seconds": round(median(map(cpu_seconds, found))),
        }
    if rows:
        kept.write_text(json.dumps([rows[paper] for paper in sorted(rows)], indent=1) + "\n")


def main(names: list[str]) -> None:
    """Copy the results with these names, or all kept ones, and render those that a page shows."""
    SNAPSHOTS.mkdir(exist_ok=True)
    if not names or "papers" in names:
        papers()
    kept = dict.fromkeys([*FIGURES, *(path.stem for path in sorted(SNAPSHOTS.glob("*.json")))])
    for name in [name for name in names if name != "papers"] if names else kept:
        for measured in (ROOT / "results").glob(f"{name}.*"):
            if names or not _is_outdated(measured, SNAPSHOTS / measured.name):
                shutil.copy(measured, SNAPSHOTS)
        if name in FIGURES:
            _render(name)


def _is_outdated(measured: Path, snapshot: Path) -> bool:
    """Return True, and say so, if a result is older than its snapshot and differs from it."""
    if not snapshot.exists() or measured.stat().st_mtime >= snapshot.stat().st_mtime:
        return False
    outdated = measured.read_bytes() != snapshot.read_bytes()
    if outdated:
        print(f"results/{measured.name} is older than its snapshot and was not copied.")
    return outdated


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
