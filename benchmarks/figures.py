"""Write measured results into the documents that cite them.

`make figures` copies `results/*.json` to `docs/results/` and renders them into the pages of
`FIGURES`, between the markers `<!-- NAME -->` and `<!-- /NAME -->`. With names, only those.
`papers` copies what `make reproduce` measured, of which `docs/papers` is generated.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from arena_page import arena
from calibration_page import by_goal, calibration

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
    lines = [["case", "metric", "dpcov", "reference", "ratio", "bar", "ok"]]
    for cell in cells:
        ratio = "" if cell["ratio"] is None else f"{cell['ratio']:.2f}"
        reference = "" if cell["ratio"] is None else f"{cell['reference']:.3g}"
        ok = _yes(cell["ok"])
        figures = [f"{cell['ours']:.3g}", reference, ratio, f"{cell['bar']:.3g}", ok]
        lines.append([cell["case"], cell["metric"], *figures])
    return _table(lines)


def engines(cells: Cells) -> str:
    """CPU and memory of each engine."""
    lines = [["job", "CPU s", "peak MiB"]]
    lines += [[cell["job"], f"{cell['cpu']:.2f}", f"{cell['peak_mib']:.0f}"] for cell in cells]
    return _table(lines)


def reads(cells: Cells) -> str:
    """Releases beside plain reads of the same tables."""
    lines = [["table", "CPU s", "beside it", "CPU s", "ratio", "bar"]]
    for cell in cells:
        bar = f"{cell['bar']:g}" if cell["bar"] else ""
        figures = [f"{cell['ours']:.2f}", cell["beside"], f"{cell['reference']:.2f}"]
        lines.append([cell["case"], *figures, f"{cell['ratio']:.2f}", bar])
    return _table(lines)


def parts(cells: Cells) -> str:
    """CPU seconds of each part of a reading, a line for each case."""
    names = list(dict.fromkeys(cell["part"] for cell in cells))
    lines = [["case", *names, "sum"]]
    for case in dict.fromkeys(cell["case"] for cell in cells):
        spent = {cell["part"]: cell["cpu"] for cell in cells if cell["case"] == case}
        figures = [*(spent.get(name, 0.0) for name in names), sum(spent.values())]
        lines.append([case, *(f"{seconds:.2f}" for seconds in figures)])
    return _table(lines)


def scaling(cells: Cells) -> str:
    """Growth: each shape, then the fitted exponents with the expected ones."""
    lines = [["what", "metric", "measured", "beside it", "ok"]]
    for cell in cells:
        beside = f"{cell['reference']:.3g}" if cell["reference"] else ""
        if cell["metric"].startswith("exponent"):
            beside = f"{cell['reference']:g}"
        figures = [f"{cell['ours']:.3g}", beside, _yes(cell["ok"])]
        lines.append([cell["case"], cell["metric"], *figures])
    return _table(lines)


def persons(cells: Cells) -> str:
    """Errors with rows and with persons as the unit."""
    heads = ["unit", "rows that count", "epsilon", "for a person", "covariance off by"]
    lines = [[*heads, "correlations off by", "without noise", "answering 0"]]
    for cell in cells:
        lines.append(
            [cell["unit"], str(cell["rows of a person that count"])]
            + [f"{cell[name]:g}" for name in ("epsilon stated", "epsilon for a person")]
            + [f"{100 * cell['covariance_error_median']:.1f} %"]
            + [f"{cell[name]:.3f}" for name in ("error_mean", "without_noise", "zero")]
        )
    return _table(lines)


def persons_memory(cells: Cells) -> str:
    """CPU and memory with many persons."""
    lines = [["persons", "CPU s", "peak MiB"]]
    lines += [
        [f"{cell['persons']:,}", f"{cell['cpu']:.1f}", f"{cell['peak_mib']:.0f}"] for cell in cells
    ]
    return _table(lines)


def spark(cells: Cells) -> str:
    """Bytes and CPU of passes at three sizes beside the cost model; then the model of many rows."""
    lines = [
        [
            "rows",
            "read, MB",
            "tasks",
            "sums of all tasks, MB: model",
            "measured",
            "to the driver, MB: at most",
            "measured",
            "CPU, s",
            "CPU without Spark, s",
            "as the local result",
        ]
    ]
    for cell in (cell for cell in cells if "input_mb" in cell):
        megabytes = ("sums_mb_expected", "sums_mb", "to_driver_mb_at_most", "to_driver_mb")
        lines.append(
            [
                f"{cell['rows']:,}",
                f"{cell['input_mb']:.0f}",
                f"{cell['tasks']}",
                *(f"{cell[name]:.3f}" for name in megabytes),
                f"{cell['cpu_s']:.1f}",
                f"{cell['local_cpu_s']:.2f}",
                _yes(cell["same_as_local"]),
            ]
        )
    large = [["rows", "sums of all tasks, GB", "to the driver, MB", "core hours"]]
    large += [
        [
            f"{cell['rows']:.0e}",
            f"{cell['sums_gb']:.1f}",
            f"{cell['to_driver_mb']:.1f}",
            f"{cell['core_hours']:.0f}",
        ]
        for cell in cells
        if "core_hours" in cell
    ]
    return f"{_table(lines)}\n\n{_table(large)}"


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


def frontier(cells: Cells) -> str:
    """The default over one matrix, by family, with the cells that are worse; adult's bars."""
    compared = [cell for cell in cells if cell["part"] == "over one matrix"]
    lines = [["family", "cells", "pure", "zCDP", "both", "worst cell"]]
    families = dict.fromkeys(cell["family"] for cell in compared)
    for family in (*families, "all"):
        own = [cell for cell in compared if family in (cell["family"], "all")]
        means = [
            geometric_mean([c["ratio"] for c in own if c["definition"] in kinds])
            for kinds in (("pure",), ("zcdp",), ("pure", "zcdp"))
        ]
        worst = max(own, key=lambda cell: cell["ratio"])
        cell = f"{worst['table']}, {worst['neighbors']}, {worst['definition']} {worst['epsilon']:g}"
        largest = f"{worst['ratio']:.2f} ± {worst['se']:.2f} ({cell})"
        lines.append([family, str(len(own)), *(f"{mean:.2f}" for mean in means), largest])
    above = sum(not cell["ok"] for cell in compared)
    adult = [["epsilon", "mechanism", "error", "bar"]]
    adult += [
        [f"{c['epsilon']:g}", c["default"], f"{c['error']:.4g} ± {c['se']:.1g}", f"{c['bar']:g}"]
        for c in cells
        if c["part"] == "adult with levels"
    ]
    return f"{_table(lines)}\n\nCells above 1.1 by two standard errors: {above}.\n\n{_table(adult)}"


TOLD = ["where", "cells", "mean", "95 % of tables", "bar"]
DEFAULT = ("The default over the best of a cell", "The default over what is simple")
GOALS = "Each goal over the best for its own error"


def judge(cells: Cells) -> str:
    """The default over the best of a cell, over simple things, over peers and over everyone."""
    peers = [["error", *TOLD]]
    peers += [
        [c["error"], *_told(c)]
        for c in cells
        if c["part"] == "The default over the best peer in hindsight"
    ]
    return (
        f"{_with_tail(cells, 'over', *DEFAULT)}\n\n"
        f"Each `--goal` over the best of a cell for its own error:\n\n"
        f"{_with_tail(cells, 'error', GOALS)}\n\nOver the best peer of a cell, in hindsight:\n\n"
        f"{_table(peers)}\n\nOver each entrant, geometric means:\n\n{_everyone(cells)}"
    )


def _with_tail(cells: Cells, of: str, *titles: str) -> str:
    rows = [
        [c[of], *_told(c), f"{c['95 %']:.2f}", _bar(c["its bar"])]
        for c in cells
        if c["part"] in titles
    ]
    return _table([[of, *TOLD, "95th percentile", "its bar"], *rows])


def _told(cell: dict[str, Any]) -> list[str]:
    drawn = f"{cell['from']:.2f} to {cell['to']:.2f}"
    return [cell["where"], str(cell["cells"]), f"{cell['mean']:.2f}", drawn, _bar(cell["bar"])]


def _everyone(cells: Cells) -> str:
    every = [cell for cell in cells if cell["part"] == "The default over everyone"]
    errors = [key for key in every[0] if key not in ("part", "over", "where", "cells")]
    rows = [[c["over"], c["where"], *(f"{c[error]:.2f}" for error in errors)] for c in every]
    return _table([["over", "where", *errors], *rows])


def former(cells: Cells) -> str:
    """Errors of the moment as a whole, and seconds, over the default before."""
    lines = [["table", "where", "default", "`--goal frobenius`", "bar", "seconds", "its bar"]]
    for c in cells:
        errors = [f"{c[name]:.2f}" for name in ("now", "now, frobenius")]
        seconds = [f"{c['seconds']:.2f}", _bar(c["its bar"])]
        lines.append([c["table"], c["where"], *errors, _bar(c["bar"]), *seconds])
    return _table(lines)


def estimates(cells: Cells) -> str:
    """Errors over those of an earlier estimator: means, and cells that are surely worse."""
    lines = [["mechanism", "error", *TOLD[1:]]]
    lines += [
        [c["mechanism"], c["error"], *_told({**c, "where": ""})[1:]]
        for c in cells
        if c["part"] == "means"
    ]
    single = [c for c in cells if c["part"] == "cells"]
    worse = [c for c in single if not c["ok"]]
    names = ", ".join(f"{c['mechanism']} on {c['table']}, {c['error']}" for c in worse) or "none"
    share = f"{len(worse)} of {len(single)} cells are surely above {single[0]['bar']:g} times: "
    return f"{_table(lines)}\n\n{share}{names}."


def _bar(bar: float | None) -> str:
    return "-" if bar is None else f"{bar:.3g}"


GUESSES = {
    "a release": "a release of half of the table",
    "all numbers": "all numbers above, to a digit or two",
    "each column": "spreads, correlation",
    "two numbers": "one spread, correlation",
    "defaults": "nothing",
}


def plan_calibration(cells: Cells) -> str:
    """Share of predictions within the factor, of all mechanisms; and those of auto that are not."""
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
    others = "; ".join(
        f"{len(off)} of {name}, {min(off):.2f} to {max(off):.2f}" for name, off in missed.items()
    )
    rest = f" (not: {others})" if others else ""
    return (
        f"{_table(lines)}\n\nOf what `auto` takes, from a release: {within}{rest}.\n\n"
        f"The range of a plan of what `auto` takes:\n\n{_ranges(cells)}"
    )


def _ranges(cells: Cells) -> str:
    """How often the range of a plan held what was found, and how wide it was."""
    lines = [["said", "held", "largest over least, median", "widest"]]
    for guess, said in GUESSES.items():
        own = [cell for cell in cells if cell["guess"] == guess and cell["between"]]
        held = [cell["between"][0] <= cell["measured"] <= cell["between"][1] for cell in own]
        wide = [cell["between"][1] / cell["between"][0] for cell in own]
        share = f"{sum(held)} of {len(held)}"
        lines.append([said, share, f"{median(wide):.2g}", f"{max(wide):.2g}"])
    return _table(lines)


def interval_coverage(cells: Cells) -> str:
    """Coverage with sampling: a line for each statistic, by number of rows and budget."""
    places = list(dict.fromkeys((cell["n"], cell["budget"]) for cell in cells))
    lines = [["statistic", *(f"{n:,}, {budget}" for n, budget in places)]]
    for statistic in dict.fromkeys(cell["statistic"] for cell in cells):
        own = {(c["n"], c["budget"]): c for c in cells if c["statistic"] == statistic}
        found = [f"{own[at]['covered']:.2f} ({own[at]['least']:.2f})" for at in places]
        lines.append([statistic, *found])
    return _table(lines)


def _share_ok(cells: Cells) -> float:
    return sum(cell["ok"] for cell in cells) / len(cells)


def _peer_error(cell: dict[str, Any]) -> str:
    if cell["error_mean"] is None:
        return f"none in {cell['limit']:g} s"
    return f"{cell['error_mean']:.3g} ± {cell['error_se']:.1g}"


FIGURES: dict[str, tuple[str, Callable[[Cells], str]]] = {
    "accuracy": ("docs/comparison.md", accuracy),
    "arena": ("docs/arena.md", arena),
    "frontier": ("docs/arena.md", frontier),
    "judge-default": ("docs/arena.md", judge),
    "estimates": ("docs/dev/denoising.md", estimates),
    "judge-former": ("docs/arena.md", former),
    "judge-wide": ("docs/arena.md", judge),
    "judge-wide-tune": ("docs/arena.md", judge),
    "bench": ("docs/explanation/speed.md", bench),
    "bench-parts": ("docs/explanation/speed.md", parts),
    "bench-scaling": ("docs/explanation/speed.md", scaling),
    "engines": ("docs/dependencies.md", engines),
    "reads": ("docs/explanation/speed.md", reads),
    "plan_calibration": ("docs/how-to/epsilon.md", plan_calibration),
    "calibration": ("docs/dev/intervals.md", calibration),
    "calibration-default": ("docs/dev/intervals.md", calibration),
    "calibration-goals": ("docs/dev/intervals.md", by_goal),
    "calibration-demo": ("docs/dev/intervals.md", calibration),
    "interval_coverage": ("docs/dev/intervals.md", interval_coverage),
    "persons": ("docs/how-to/persons.md", persons),
    "persons-memory": ("docs/how-to/persons.md", persons_memory),
    "spark": ("docs/notes/spark.md", spark),
    "trust": ("docs/trust.md", trust),
    "peers": ("docs/comparison.md", peers),
}


def rendered(name: str) -> str:
    """The table of a snapshot, between its markers."""
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
    SNAPSHOTS.mkdir(exist_ok=True)
    if not names or "papers" in names:
        papers()
    for name in [name for name in names if name != "papers"] if names else FIGURES:
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
