"""Generate parts of pages from the registry, the claims, the commands and the public names.

The mark ``<!-- generate: NAME -->`` in a page stands for the Markdown that `GENERATORS[NAME]`
returns.
"""

from __future__ import annotations

import csv
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import compress, groupby, product
from operator import not_
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parents[2]
SNAPSHOTS = ROOT / "docs" / "results"
FOREIGN = "set_fit_request, set_predict_request, set_score_request"  # scikit-learn's own
MAX_ROWS = 130  # of a snapshot on the page of measurements; more rows are a file to download
MARK = re.compile(r"^<!-- generate: ([a-z0-9-]+) -->$", re.MULTILINE)
OWN_CLAIMS = "**Claims of our own.** No sentence of the paper makes these claims."
KINDS = ("reproduced", "loose", "not reproduced", "refuted", "misprint", "measured", "derived")


def generated(text: str) -> str:
    """Return the text of a page, with the generated Markdown in place of each mark."""
    return MARK.sub(lambda found: GENERATORS[found[1]](), text)


def verdicts() -> str:
    """Return a table with the number of claims of each paper by verdict, without our own claims."""
    lines = [["paper", *KINDS]]
    for paper in PAPERS:
        found = [claim["verdict"] for claim in _claims(paper) if not _is_ours(claim)]
        counts = (str(found.count(kind)) for kind in KINDS)
        lines.append([f"[{_title(paper)}](papers/{paper}.md)", *counts])
    return _table(lines)


def other_seeds() -> str:
    """Return a table with the runs of each paper with other seeds, and the CPU time of a run."""
    lines = [["paper", "runs", "claims", "runs in which all verdicts hold", "CPU minutes per run"]]
    kept = json.loads((SNAPSHOTS / "papers" / "seeds.json").read_text())
    for row in kept:
        held = str(row["held"])
        if row["otherwise"]:
            held += f" (otherwise: {', '.join(row['otherwise'])})"
        cells = [str(row["runs"]), str(row["claims"]), held, f"{row['CPU seconds'] / 60:.1f}"]
        lines.append([_title(row["paper"]), *cells])
    if [row["paper"] for row in kept] == PAPERS:
        minutes = sum(row["CPU seconds"] for row in kept) / 60
        lines.append(["**all papers**", "", "", "", f"**{minutes:.0f}**"])
    return _table(lines)


def claims(paper: str) -> str:
    """Return the claims of a paper, and our own, each with its verdict and its measurements."""
    kept = json.loads((SNAPSHOTS / "papers" / f"{paper}.json").read_text())["rows"]
    measured = {row["id"]: row for row in kept}
    stated, own = (
        [
            _claim(claim, measured[claim["id"]])
            for claim in _claims(paper)
            if _is_ours(claim) == ours
        ]
        for ours in (False, True)
    )
    heads = ["claim", "expected", "verdict", "measured", "control", "why"]
    found = _table([heads, *stated])
    return f"{found}\n\n{OWN_CLAIMS}\n\n{_table([heads, *own])}" if own else found


def _claim(claim: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Return the cells of a claim. A verdict stands beside the sentence of the paper."""
    pairs = zip(found["faults"], found["under them"], strict=True)
    control = "; ".join(f"{fault}: {came}" for fault, came in pairs)
    verdict = f"**{claim['verdict']}**" if claim["verdict"] != "reproduced" else "reproduced"
    if "sentence" in claim:
        verdict += f" \u201c{_plain(claim['sentence'])}\u201d"
    stated = f"{claim['claim']} ({claim['where']})"
    cells = [stated, claim["expected"], found["measured"], control, claim["why"]]
    first, expected, *others = map(_plain, cells)
    return [first, expected, verdict, *others]


def _is_ours(claim: dict[str, Any]) -> bool:
    """Return True if no sentence of the paper makes the claim."""
    return str(claim["where"]).startswith("ours")


def statements(paper: str) -> str:
    """Return a table of the numbered statements of a paper and the claims that measure them."""
    results = {claim["id"]: f"{claim['claim']}: {claim['verdict']}" for claim in _claims(paper)}
    lines = [["statement", "measured by"]]
    for name, found in STATED[paper].items():
        if isinstance(found, str):
            measured = f"no verdict: {found}"
        else:
            measured = "; ".join(results[one] for one in found)
        lines.append([name, _plain(measured)])
    return _table(lines)


def errors(paper: str, shown: tuple[str, ...]) -> str:
    """Return a table of the mean errors of some methods, with one column for each epsilon."""
    with (SNAPSHOTS / "papers" / f"{paper}-errors.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    lines = [["table, method", *dict.fromkeys(f"{float(cell['epsilon']):g}" for cell in cells)]]
    for table in dict.fromkeys(cell["dataset"] for cell in cells):
        for method in shown:
            own = [c for c in cells if (c["dataset"], c["method"]) == (table, method)]
            lines.append([f"{table}, {method}", *(f"{float(c['error_mean']):.3g}" for c in own)])
    return _table(lines)


def printed(paper: str) -> str:
    """Return a table of the numbers that a paper prints, beside the measured numbers."""
    with (SNAPSHOTS / "papers" / f"{paper}-printed.csv").open(encoding="utf-8") as file:
        cells = list(csv.DictReader(file))
    whole = json.loads((SNAPSHOTS / "papers" / f"{paper}-colon.json").read_text())["rows"]
    large = {(row["method"], f"{row['epsilon']}"): row["error"] for row in whole}
    data = list(dict.fromkeys(cell["data"] for cell in cells))
    lines = [["table, method, epsilon", *data, "colon, 2,000 genes, rho = 0.5"]]
    for method, epsilon in dict.fromkeys((cell["method"], cell["epsilon"]) for cell in cells):
        own = [cell for cell in cells if (cell["method"], cell["epsilon"]) == (method, epsilon)]
        shown = [f"{c['printed']} ({_number(c['sparse'])}, {_number(c['diagonal'])})" for c in own]
        first = f"{own[0]['table']}, {own[0]['name']}, {epsilon}"
        lines.append([first, *shown, _number(large[method, epsilon])])
    return _table(lines)


def _number(value: float | str | None) -> str:
    """Return three digits of a number, or a dash if it was not measured."""
    return "-" if value in (None, "nan") else f"{float(value):.3g}"


def commands() -> str:
    """Return a section for each command, with its arguments and options."""
    from dpcov.cli import commands

    return "\n".join(_command(f"dpcov {name}", found) for name, found in commands().items())


def ridge_comparison() -> str:
    """Return a table of the out-of-sample R^2 of private ridge regressions.

    The table compares dpcov with methods that release only a regression.
    """
    cells = json.loads((SNAPSHOTS / "ridge_comparison.json").read_text())["rows"]
    peers = list(dict.fromkeys(cell["peer"] for cell in cells))
    lines = [["task", "epsilon", "without privacy", *(f"{p}: dpcov / theirs" for p in peers)]]
    for task, epsilon in dict.fromkeys((cell["task"], cell["epsilon"]) for cell in cells):
        own = {c["peer"]: c for c in cells if (c["task"], c["epsilon"]) == (task, epsilon)}
        pairs = [f"{own[peer]['ours']:.3f} / {own[peer]['theirs']:.3f}" for peer in peers]
        lines.append([task, f"{epsilon:g}", f"{own[peers[0]]['non-private']:.3f}", *pairs])
    return _table(lines)


def features() -> str:
    """Return a table of what dpcov and other libraries offer, with a source in each cell."""
    found = tomllib.loads((Path(__file__).parent / "features.toml").read_text())
    libraries = found["libraries"]
    lines = [["", *libraries]]
    for feature, cells in found["features"].items():
        sources = {name: libraries[name]["base"] + cell[1] for name, cell in cells.items()}
        lines.append([feature, *(f"[{cells[name][0]}]({sources[name]})" for name in libraries)])
    read = [f"{name} ({one['version']})" for name, one in libraries.items() if one["base"]]
    return f"{_table(lines)}\n\nVersions: {', '.join(read)}."


def accuracy() -> str:
    """Return the errors of the default release by data set and epsilon, for pure privacy."""
    cells = json.loads((SNAPSHOTS / "accuracy.json").read_text())["rows"]
    pure = [cell for cell in cells if cell["budget"].startswith("pure")]
    epsilons = list(dict.fromkeys(cell["budget"].split()[1] for cell in pure))
    lines = [["data", *(f"eps {epsilon}" for epsilon in epsilons), "zero matrix"]]
    for name in dict.fromkeys(cell["dataset"] for cell in pure):
        own = [cell for cell in pure if cell["dataset"] == name]
        lines.append(
            [name, *(f"{cell['error_mean']:.3g}" for cell in own), f"{own[0]['zero']:.3g}"]
        )
    return _table(lines)


def slack() -> str:
    """Return the loss that the rounds of the default spend, divided by the stated loss."""
    cells = json.loads((SNAPSHOTS / "slack.json").read_text())["rows"]
    relations = list(dict.fromkeys(cell["neighbors"] for cell in cells))
    lines = [["budget", *relations]]
    for budget in dict.fromkeys(cell["asked"] for cell in cells):
        own = [cell for cell in cells if cell["asked"] == budget]
        found = []
        for relation in relations:
            here = [cell for cell in own if cell["neighbors"] == relation]
            ends = min(c["at least"] for c in here), max(c["at most"] for c in here)
            found.append(" to ".join(dict.fromkeys(f"{end:.3f}" for end in ends)))
        lines.append([budget, *found])
    return _table(lines)


def nuclear() -> str:
    """Return the costs and the errors of nuclear Laplace noise, beside matrix Laplace noise."""
    cells = json.loads((SNAPSHOTS / "nuclear.json").read_text())["rows"]
    kinds = {"matrix-laplace": "{:.5f} s", "nuclear-laplace": "{:.4f} s"}
    lines = [["order", *kinds, "noise", "errors"]]
    ratios = [cell["ratio of the errors"] for cell in cells if cell["ratio of the errors"]]
    for cell in cells:
        times = [form.format(cell[f"seconds of a draw, {kind}"]) for kind, form in kinds.items()]
        noise, errors = cell["ratio of the noises"], cell["ratio of the errors"]
        shown = "" if errors is None else f"{errors:.2f}"
        lines.append([str(cell["order"]), *times, f"{noise:.2f}", shown])
    lines.append(["geometric mean", "", "", "", f"{geometric_mean(ratios):.3f}"])
    return _table(lines)


def peers() -> str:
    """Return the errors of dpcov and other libraries."""
    cells = json.loads((SNAPSHOTS / "peers.json").read_text())["rows"]
    errors = [cell for cell in cells if cell["kind"] == "error"]
    methods = list(dict.fromkeys(cell["method"] for cell in errors))
    lines = [["data", "epsilon", *methods, "zero matrix"]]
    for data, epsilon in dict.fromkeys((c["dataset"], c["epsilon"]) for c in errors):
        own = [c for c in errors if (c["dataset"], c["epsilon"]) == (data, epsilon)]
        size = f"{data}, {own[0]['rows']:,} x {own[0]['columns']}"
        found = [_peer_error(cell) for cell in own]
        lines.append([size, f"{epsilon:g}", *found, f"{own[0]['zero']:.3g}"])
    versions = {f"{c['method']} {c['version']}": None for c in errors if "," not in c["method"]}
    head = f"Measured with {', '.join(versions)}. Mean error ± standard error of 20 releases:"
    return f"{head}\n\n{_table(lines)}"


def peers_by_task() -> str:
    """Return the error of dpcov over the errors of the best peer and of each peer, by task."""
    rows = json.loads((SNAPSHOTS / "peers_by_task.json").read_text())["rows"]
    found = {(c["budget"], c["peer"], c["task"]): c for c in rows if "ratios" in c}
    lines = [["dpcov over", "budget", *TASKS]]
    lines.append(["*goal*", "", *TASKS.values()])
    best = [(budget, peer) for budget, peer, _ in found if peer == "best peer"]
    others = [(budget, peer) for budget, peer, _ in found if peer != "best peer"]
    for budget, peer in dict.fromkeys([*best, *sorted(others)]):
        own = [found.get((budget, peer, task)) for task in TASKS]
        name = f"**{peer}**" if peer == "best peer" else peer
        lines.append([name, BUDGETS[budget], *(_ratio(cell, peer) for cell in own)])
    packages = [f"{row['package']} {row['version']}" for row in rows if "package" in row]
    seen = dict.fromkeys(
        (row["table"], row["rows"], row["columns"]) for row in rows if "table" in row
    )
    tables = [f"{name} ({n:,} x {p})" for name, n, p in seen]
    cells = {(r["table"], r.get("epsilon"), r.get("rho")) for r in rows if "table" in r}
    measured = f"{len(cells)} of {4 * len(tables)} pairs of table and budget are measured"
    said = f"Tables: {', '.join(tables)}; {measured}. Packages: {', '.join(packages)}."
    return f"{said}\n\n{_table(lines)}"


# Tasks with the largest error over the best peer's error that dpcov aims at.
TASKS = {
    "means": "",
    "covariances": "0.5",
    "correlations": "0.5",
    "components": "0.5",
    "one target": "1",
    "all targets": "0.5",
}
BUDGETS = {"epsilon": "pure", "rho": "zCDP"}


def _ratio(cell: dict[str, Any] | None, peer: str) -> str:
    """Return a ratio, and in which cells dpcov loses to the best peer or a peer has no answer."""
    if cell is None:
        return ""
    whole = cell["cells"] + cell["unanswered"]
    if cell["ratio"] is None:
        return f"no answer in {whole}"
    text = f"{cell['ratio']:.2g}"
    if peer == "best peer":
        return f"**{text}** (loses {cell['lost']} of {whole})"
    return f"{text} (no answer in {cell['unanswered']})" if cell["unanswered"] else text


def binagg_intervals() -> str:
    """Return the errors, coverages and widths of dpcov and BinAgg for each design."""
    rows = json.loads((SNAPSHOTS / "binagg_intervals.json").read_text())["rows"]
    heads = ["error over BinAgg's", "privacy error over BinAgg's", "coverage"]
    heads += ["marked", "coverage without privacy", "coverage of BinAgg", "width over BinAgg's"]
    lines = [["rows", *heads]]
    ratios = []
    for design, group in groupby(rows, key=lambda row: row["design"]):
        own, exact, *peers = group
        answered = [peer for peer in peers if peer["error"] is not None]
        least = [
            own[name] / min(peer[name] for peer in answered)
            for name in ("error", "privacy error", "width")
        ]
        ratios.append(least)
        covered = " and ".join(f"{peer['coverage']:.3f}" for peer in answered)
        figures = [f"{ratio:.2g}" for ratio in least]
        cells = f"{own['coverage']:.3f}", f"{own['marked']:.0%}", f"{exact['coverage']:.3f}"
        lines.append([design, *figures[:2], *cells, covered, figures[2]])
    means = [f"**{geometric_mean(column):.2g}**" for column in zip(*ratios, strict=True)]
    lines.append(["**geometric mean**", *means[:2], *[""] * 4, means[2]])
    runs = {row["method"]: row["runs"] for row in rows}
    return f"{runs['dpcov']:,} runs of dpcov and {runs['BinAgg']:,} of BinAgg:\n\n{_table(lines)}"


def lavaan() -> str:
    """Return how often intervals and tests of lavaan are right, with and without the errors."""
    heads = ["error covariance", "rows", "coverage of 95% intervals", "correct models rejected"]
    lines = [[*heads, "wrong models rejected"]]
    for row in json.loads((SNAPSHOTS / "lavaan.json").read_text())["rows"]:
        for name, end, power in (
            ("passed", "", f"{row['power']:.1%}"),
            ("left out", " without", ""),
        ):
            covered, size = row[f"covered{end}"], row[f"size{end}"]
            lines.append([name, f"{row['n']:,}", f"{covered:.1%}", f"{size:.1%}", power])
    return _table(lines)


AUDITORS = ("dp-recorder", "dp-auditorium")  # snapshots of the audit tools of others
# What an attack tries, in words that need no context. Other names in the results are clear.
ATTACKS = {
    "low bits of floating-point noise": "floating-point noise whose last bits disclose a cell",
    "a question that depends on an exact answer": "a query that depends on an answer without noise",
    "ledger: two data sets": "ledger: spending from two data sets at the same time",
    "bombs": "small files that expand to huge tables",
    "malformed files, guided by coverage": "malformed files that a fuzzer makes to reach new code",
    "one unit with and without other rows": "sums of a row or person that depend on other rows",
    "persons": "ids that count one person twice, or two persons as one",
    "dp-recorder": "dp-recorder: releases of two tables",
    "DP-Auditorium": "DP-Auditorium: samples of the results for two tables",
    "DP-Auditorium: power": "DP-Auditorium: half of the noise, 1,500 runs (measured, not required)",
    "one output for many": "16 releases that write the same file at the same time",
}


def trust() -> str:
    """Return one line for each attack: the number of results, and how many are as required."""
    return _by_attack("trust")


def auditors() -> str:
    """Return one line for each audit by a tool of others, with the commits of the tools."""
    tools = dict.fromkeys(cell["tool"] for cell in _cells(*AUDITORS))
    return f"{_by_attack(*AUDITORS)}\n\nCommits: {', '.join(tools)}."


def _by_attack(*names: str) -> str:
    """Return a table of the attacks of snapshots."""
    lines = [["attack", "results", "as required"]]
    attacks: dict[str, list[bool]] = {}
    for cell in _cells(*names):
        attacks.setdefault(cell["attack"], []).append(cell["ok"])
    for attack, passed in attacks.items():
        held = f"{sum(passed)}" if all(passed) else f"**{sum(passed)}**"
        said, *control = attack.split(": control")
        lines.append(
            [": control".join([ATTACKS.get(said, said), *control]), str(len(passed)), held]
        )
    return _table(lines)


def _cells(*names: str) -> list[dict[str, Any]]:
    """Return the rows of snapshots."""
    read = (json.loads((SNAPSHOTS / f"{name}.json").read_text()) for name in names)
    return [row for snapshot in read for row in snapshot["rows"]]


def known_faults() -> str:
    """Return the known kinds of faults, what is planted, and what finds each."""
    sys.path.append(str(ROOT / "trust"))
    from known_faults import FAULTS

    found = {cell["measured"]: cell["ok"] for cell in _cells("dp-recorder")}
    lines = [["kind of fault", "planted in dpcov", "test that fails", "dp-recorder"]]
    for fault in FAULTS:
        seen = "no release shows it" if fault.release is None else "finds it"
        if not found.get(fault.kind, fault.release is None):
            seen = "**does not find it**"
        lines.append([fault.kind, fault.planted, f"`{fault.test}`", seen])
    return _table(lines)


def bench_against_numpy() -> str:
    """Return a table of the costs of a release and of a covariance without privacy."""
    lines = [["table", "metric", "dpcov", "pandas and numpy.cov"]]
    for cell in json.loads((SNAPSHOTS / "bench.json").read_text())["rows"]:
        if "numpy.cov" in cell["metric"]:
            metric = cell["metric"].split(" against ")[0]
            lines.append([cell["case"], metric, f"{cell['ours']:.3g}", f"{cell['reference']:,.0f}"])
    return _table(lines)


def measurements() -> str:
    """Return each snapshot of results, with its command, its machine and its rows.

    A snapshot with many rows is a link to its file.
    """
    parts = []
    for file in sorted(SNAPSHOTS.glob("*.json")):
        found = json.loads(file.read_text())
        where = ", ".join(f"{name} {value}" for name, value in found["machine"].items())
        parts += [f"## {file.stem.replace('_', ' ')}", f"`{found['command']}`, {where}:"]
        if len(found["rows"]) > MAX_ROWS:
            parts.append(f"[{len(found['rows']):,} results](results/{file.name})")
            continue
        for keys, rows in groupby(found["rows"], key=tuple):
            lines = [[_plain(key) for key in keys]]
            parts.append(_table(lines + [[_figure(row[key]) for key in keys] for row in rows]))
    return "\n\n".join(parts)


def public_names() -> str:
    """Return the documentation of the public names of dpcov."""
    import dpcov

    names = sorted(dpcov.__all__)  # type: ignore[attr-defined] # not in the stub
    return _documented([(f"dpcov.{name}", getattr(dpcov, name)) for name in names])


# Classes of the results of public functions and of `Ledger`, with their methods for users.
RESULTS = {
    "dpcov.core.show.result.Result": ("summary", "csv", "arrow"),
    "dpcov.analysis.compare.Comparison": (),
    "dpcov.analysis.correlation.NamedMatrix": ("to_frame",),
    "dpcov.analysis.crosstab.Crosstab": ("to_frame",),
    "dpcov.analysis.discriminant.LDA": ("predict", "predict_proba"),
    "dpcov.analysis.intervals.Intervals": (),
    "dpcov.analysis.named_figures.NamedFigures": (),
    "dpcov.analysis.ols.OLS": (
        *("conf_int", "contrast", "predict", "prediction_errors", "vcov", "wald_test"),
    ),
    "dpcov.analysis.pca.PCA": ("transform",),
    "dpcov.analysis.precision.SparsePrecision": ("edges", "to_frame", "to_networkx"),
    "dpcov.analysis.ridge.Ridge": ("conf_int", "predict"),
    "dpcov.analysis.ridge.RidgePath": (),
    "dpcov.analysis.intervals.Statistic": (),
    "dpcov.analysis.correlation.PairCorrelation": (),
    "dpcov.analysis.table1.Table1": ("to_frame",),
    "dpcov.analysis.wald.Contrast": (),
    "dpcov.estimate.error_covariance.ErrorCovariance": ("to_frame",),
    "dpcov.api.ledger.account.Account": ("can_request",),
    "dpcov.api.ledger.file.Chain": ("head", "holds"),
    "dpcov.api.plans.Plan": ("budget_for", "rows_for"),
    "dpcov.api.plans.half_widths.HalfWidthPlan": ("answers", "half_width"),
}


def results() -> str:
    """Return the documentation of the classes that public functions return."""
    lines = ["```{eval-rst}"]
    for name, members in RESULTS.items():
        lines.append(f".. autoclass:: {name}")
        if members:
            lines += [f"   :members: {', '.join(members)}", "   :inherited-members:"]
        lines.append("")
    return "\n".join([*lines, "```"])


def mechanisms() -> str:
    """Return a table of all mechanisms.

    The function calibrates each mechanism to find the settings that the mechanism accepts. A
    sentence above the table states the settings that all mechanisms accept.
    """
    from dpcov.mechanisms import MECHANISMS

    heads = ["budget", "neighbours", "privacy unit", "passes"]
    found = {}
    for name, kind in MECHANISMS.items():
        accepted = zip(*_accepted(kind), strict=True)
        found[name] = [", ".join(dict.fromkeys(column)) for column in accepted]
        found[name].append(str(kind().passes))
    shared = [len({cells[at] for cells in found.values()}) == 1 for at in range(len(heads))]
    first = next(iter(found.values()))
    said = [f"{heads[at]} ({first[at]})" for at in range(len(heads)) if shared[at]]
    lines = [["mechanism", *compress(heads, map(not_, shared)), "choose it for", "source"]]
    for name, kind in MECHANISMS.items():
        own = compress(found[name], map(not_, shared))
        lines.append([f"`{name}`", *own, _plain(kind.use), _plain(kind.source)])
    common = f"All mechanisms accept the same {' and '.join(said) or 'tables'}."
    return f"{common}\n\n{_table(lines)}"


def mechanism_classes() -> str:
    """Return the documentation of the mechanisms that are not from papers, in registry order."""
    return _classes(of_papers=False)


def paper_classes() -> str:
    """Return the documentation of the mechanisms from papers, in registry order."""
    return _classes(of_papers=True)


def _classes(*, of_papers: bool) -> str:
    from dpcov.core.registry import PAPER_MECHANISMS as PAPERS
    from dpcov.mechanisms import MECHANISMS

    kinds = [kind for name, kind in MECHANISMS.items() if (name in PAPERS) == of_papers]
    return _documented([(f"{k.__module__}.{k.__name__}", k) for k in kinds], members=False)


def estimators() -> str:
    """Return the documentation of the classes with the interface of scikit-learn."""
    return _module("dpcov.estimators")


def plots() -> str:
    """Return the documentation of the functions that draw pictures."""
    return _module("dpcov.plot")


def signatures() -> str:
    """Return the documentation of the functions for signed files."""
    return _module("dpcov.signatures")


def reports() -> str:
    """Return the documentation of the functions that write a report."""
    return _module("dpcov.report")


PAPERS = sorted(path.parent.name for path in (ROOT / "experiments").glob("*/claims.toml"))
STATED = tomllib.loads((ROOT / "experiments" / "statements.toml").read_text())
SHOWN = {
    "amin2019": ("ours", "AD", "IT-U", "KT", "L", "G-3", "AD tight", "AD published", "zero matrix"),
    "dong2022": ("GaussCov", "SeparateCov", "AdaptiveCov", "adaptive-gaussian, denoised", "ours"),
}
GENERATORS: dict[str, Callable[[], str]] = {
    **{f"claims-{paper}": partial(claims, paper) for paper in PAPERS},
    **{f"statements-{paper}": partial(statements, paper) for paper in STATED},
    **{f"errors-{paper}": partial(errors, paper, shown) for paper, shown in SHOWN.items()},
    "printed-wang2018": partial(printed, "wang2018"),
    "verdicts": verdicts,
    "other-seeds": other_seeds,
    "commands": commands,
    "public-names": public_names,
    "results": results,
    "mechanisms": mechanisms,
    "accuracy": accuracy,
    "peers": peers,
    "peers-by-task": peers_by_task,
    "binagg-intervals": binagg_intervals,
    "lavaan": lavaan,
    "trust": trust,
    "auditors": auditors,
    "known-faults": known_faults,
    "features": features,
    "bench-against-numpy": bench_against_numpy,
    "ridge-comparison": ridge_comparison,
    "nuclear": nuclear,
    "slack": slack,
    "measurements": measurements,
    "mechanism-classes": mechanism_classes,
    "paper-classes": paper_classes,
    "estimators": estimators,
    "plots": plots,
    "signatures": signatures,
    "reports": reports,
}


def _accepted(kind: Any) -> Iterator[tuple[str, str, str]]:
    """Yield each budget, neighbour relation and privacy unit that a mechanism accepts."""
    from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, Unit
    from dpcov.errors import MechanismError
    from dpcov.rows.moment import Lattice

    budgets = {
        "epsilon": PureDP(1.0),
        "rho": ZCDP(0.5),
        "epsilon and delta": ApproxDP(1.0, 1e-6),
    }
    units = {"rows": Unit(), "persons": Unit("person", 2)}
    for choice in product(budgets, Neighbors, units):
        budget, neighbors, unit = choice
        lattice = Lattice(3, 1.0, 0.3, units[unit])
        try:
            kind().calibrate(lattice, budgets[budget], neighbors)
        except MechanismError:
            continue
        yield budget, neighbors.value, unit


def _claims(paper: str) -> list[dict[str, Any]]:
    path = ROOT / "experiments" / paper / "claims.toml"
    found: list[dict[str, Any]] = tomllib.loads(path.read_text())["claim"]
    return found


def _title(paper: str) -> str:
    page = ROOT / "docs" / "papers" / f"{paper}.md"
    return page.read_text().splitlines()[0].lstrip("# ")


def _peer_error(cell: dict[str, Any]) -> str:
    if cell["error_mean"] is None:
        return f"none in {cell['limit']:g} s"
    return f"{cell['error_mean']:.3g} ± {cell['error_se']:.1g}"


def _plain(text: str) -> str:
    """Escape the text for Markdown, except for a verdict in bold."""
    if text.startswith("**"):
        return text
    return re.sub(r"([\\|*_<>$\[\]`])", r"\\\1", " ".join(text.split()))


def _figure(value: Any) -> str:
    """Return a value as a cell of a table of measurements."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, list):
        return ", ".join(map(_figure, value))
    return f"{value:.4g}" if isinstance(value, float) else _plain(str(value))


def _command(name: str, command: Any) -> str:
    """Return the section of a command."""
    lines = [f"\n## {name}\n", f"{inspect.cleandoc(command.help or '')}\n"]
    rows = [["option", "meaning"]]
    for parameter in command.params:
        if parameter.name == "help":
            continue
        stated = parameter.param_type_name == "option"
        spelt = [*parameter.opts, *parameter.secondary_opts]
        first = ", ".join(spelt) if stated else parameter.metavar or parameter.name.upper()
        needed = " Required." if parameter.required and stated else ""
        text = " ".join((getattr(parameter, "help", None) or "").split())
        rows.append([f"`{first}`", _plain(text) + needed])
    return "\n".join([*lines, _table(rows) if len(rows) > 1 else "", f"\n{_plain(command.epilog)}"])


def _module(name: str) -> str:
    """Return the documentation of the public functions and classes of a module."""
    from importlib import import_module

    module = import_module(name)
    own = [key for key, value in vars(module).items() if getattr(value, "__module__", "") == name]
    names = getattr(module, "__all__", [key for key in own if not key.startswith("_")])
    return _documented([(f"{name}.{key}", getattr(module, key)) for key in names])


def _documented(named: list[tuple[str, Any]], *, members: bool = True) -> str:
    lines = ["```{eval-rst}"]
    for name, value in named:
        if inspect.isclass(value):
            options = _options(value) if members else []
            lines += [f".. autoclass:: {name}", *options, ""]
        else:
            lines += [f".. autofunction:: {name}", ""]
    return "\n".join([*lines, "```"])


def _options(kind: type) -> list[str]:
    """Return the options that select the public members of a class."""
    stated = getattr(inspect.getmodule(kind), "PUBLIC_NAMES", None)
    if stated is None:
        return ["   :members:", f"   :exclude-members: {FOREIGN}"]
    fields = getattr(kind, "__dataclass_fields__", {})
    listed = ", ".join(name for name in stated if name not in fields)
    return [f"   :members: {listed}", "   :inherited-members:"]


def _table(lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([rows[0], "|" + "---|" * len(lines[0]), *rows[1:]])
