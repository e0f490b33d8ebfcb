"""Test whether the default meets its acceptance thresholds, from the errors of `before_and_now.py`.

Run it with `make bench NAME=acceptance ARGS=default`.

- A method's error in a cell (a table at a budget) is the mean over seeds.
- The best method of a cell is chosen on the even seeds and measured on the odd seeds, and vice
  versa. The choice thus does not profit from chance.
- Means of ratios are geometric. A bootstrap over tables gives their 95% ranges.
- A single cell fails if a one-sided t test of log-ratios shows a ratio above the threshold. The
  tests have a joint level of 1%, with Bonferroni's correction.
- A method does not take part in a cell if it refuses there or has no finite error.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import t

from before_and_now import COMPARED, ERRORS, FORMER, Row
from benchmark_tables import PARTS
from results import Kept, show, write
from whole_matrix import ENTRYWISE, PEERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Vector = NDArray[np.float64]
    Entry = dict[str, Vector]

FILES = {  # that pages cite
    "default": "acceptance-default.json",
    "heavy": "acceptance-heavy.json",
    "former": "acceptance-former.json",
    "wide": "acceptance-wide.json",
    "wide-tune": "acceptance-wide-tune.json",
}
DEFAULT, MATRIX, REGRESSION = "now", "now, matrix", "before, regression"
OWN = {
    "frobenius": "now, frobenius",
    "relative": DEFAULT,
    "correlation": "now, correlation",
    "ols": "now, regression",
}  # what a goal is about, and what it takes
BEFORE_PEERS = ("frobenius", "relative", "correlation", "means")
ENOUGH = 2000  # n epsilon from which a pure budget shows anything
ABOVE, BELOW, ZCDP = "pure, n epsilon from 2,000", "pure, below", "zCDP"
MEAN = {ABOVE: 1.1, ZCDP: 1.05}  # bars
MOST, OF_GOAL, OF_FORMER = 2.0, 1.1, 1.1
OF_MOMENT, OF_SECONDS = 1.05, 2.0  # over the default before
OF_CELL, OF_RISE, OF_BIAS = 1.25, 1.1, 0.1
OF_PEER = {"epsilon": 1 / 2, "rho": 1 / 1.5}
NOTHING = 1e-6  # an error that is none
LEVEL, DRAWS, MANY, SHOWN = 0.99, 2000, 100, 10


class Cell(NamedTuple):
    """A table, how many rows it has, and a budget."""

    table: str
    rows: int
    kind: str
    size: float

    @property
    def regime(self) -> str:
        if self.kind == "rho":
            return ZCDP
        return ABOVE if self.rows * self.size >= ENOUGH else BELOW


Cells = dict[Cell, dict[str, "Entry"]]
Logs = dict[Cell, "Vector"]  # of ratios, in a cell


def cells_of(rows: Sequence[Row]) -> Cells:
    """Group the methods' errors by cell, method and seed."""
    found: dict[Cell, dict[str, list[Row]]] = {}
    for row in rows:
        kind = "epsilon" if "epsilon" in row else "rho"
        cell = Cell(row["table"], row["rows"], kind, row[kind])
        found.setdefault(cell, {}).setdefault(row["method"], []).append(row)
    made: Cells = {cell: {} for cell in found}
    for cell, field in found.items():
        for method, runs in field.items():
            if not any(run["refused"] for run in runs):
                kept = [key for key in ("seeds", "seconds", *ERRORS) if key in runs[0]]
                entry = {key: np.concatenate([run[key] for run in runs]) for key in kept}
                if all(np.isfinite(values).all() for values in entry.values()):
                    made[cell][method] = entry
    return made


def means(entry: Entry, errors: Sequence[str], half: int | None = None) -> Vector:
    """Return the mean of each error over all seeds, or over the even (0) or odd (1) seeds."""
    kept = slice(None) if half is None else entry["seeds"] % 2 == half
    return np.array([max(NOTHING, entry[error][kept].mean()) for error in errors])


def log_ratio(own: Vector, other: Vector) -> Vector:
    """Return the log-ratio of two errors, or NaN if both are 0 (a table with a single column)."""
    return np.where(np.maximum(own, other) > NOTHING, np.log(own / other), np.nan)


def log_ratios(cells: Cells, method: str, other: str, errors: Sequence[str] = COMPARED) -> Logs:
    """Return log-ratios of two methods' errors in the cells that have both methods."""
    return {
        cell: log_ratio(means(field[method], errors), means(field[other], errors))
        for cell, field in cells.items()
        if {method, other} <= field.keys()
    }


def against_the_best(cells: Cells, method: str, errors: Sequence[str] = COMPARED) -> Logs:
    """Return log-ratios of a method's errors to the best method's errors.

    The other half of the seeds chooses the best method of a cell. This is the method whose largest
    ratio of an error to the least error of any method is smallest.
    """
    found: Logs = {}
    for cell, field in cells.items():
        if method in field and len(field) > 1:
            logs = []
            for half in (0, 1):
                seen = {name: means(entry, errors, half) for name, entry in field.items()}
                least = np.min(list(seen.values()), axis=0)
                best = min(seen, key=lambda name: float(np.max(seen[name] / least)))
                own, its = (means(field[name], errors, 1 - half) for name in (method, best))
                logs.append(log_ratio(own, its))
            found[cell] = np.concatenate(logs)
    return found


def against_peers(cells: Cells, kind: str) -> dict[str, Logs]:
    """Return log-ratios of the default's errors to the best peer in hindsight, by error."""
    found: dict[str, Logs] = {error: {} for error in BEFORE_PEERS}
    for cell, field in cells.items():
        peers = [field[name] for name in PEERS if name in field]
        if cell.kind == kind and DEFAULT in field and peers:
            for error in BEFORE_PEERS:
                least = min(means(entry, [error]).item() for entry in peers)
                found[error][cell] = log_ratio(means(field[DEFAULT], [error]), np.array([least]))
    return found


def said(logs: Logs, bar: float | None, most: float | None = None) -> Row:
    """Return the mean ratio with its range, and the 95th percentile, beside the thresholds."""
    tables: dict[str, list[Vector]] = {}
    for cell, values in logs.items():
        tables.setdefault(cell.table, []).append(values[np.isfinite(values)])
    each = [np.concatenate(values) for values in tables.values()]
    each = [values for values in each if len(values)]
    sums, sizes = (np.array([f(values) for values in each]) for f in (np.sum, np.size))
    drawn = np.random.default_rng(0).integers(len(each), size=(DRAWS, len(each)))
    again = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    mean, low, high = np.exp([sums.sum() / sizes.sum(), *np.quantile(again, (0.025, 0.975))])
    top = float(np.exp(np.quantile(np.concatenate(each), 0.95)))
    row = {"tables": len(each), "cells": len(logs), "mean": float(mean)}
    row |= {"from": float(low), "to": float(high), "bar": bar, "95 %": top, "its bar": most}
    return row | {"ok": bool((bar is None or mean <= bar) and (most is None or top <= most))}


def where(logs: Logs, **wanted: str) -> Logs:
    """Return the log-ratios of the cells with these attributes."""
    return {
        cell: values
        for cell, values in logs.items()
        if all(getattr(cell, name) == value for name, value in wanted.items())
    }


def choices(cells: Cells) -> Iterator[Row]:
    """Compare the default with the best method of each cell.

    Below the threshold of detectable cells, also compare the default with the former regression
    goal.
    """
    logs = against_the_best(cells, DEFAULT)
    for regime, bar in MEAN.items():
        if found := where(logs, regime=regime):
            yield {"over": "the best", "where": regime, **said(found, bar, MOST)}
    if found := where(logs, regime=BELOW):
        yield {"over": "the best", "where": BELOW, **said(found, None)}
    if found := where(log_ratios(cells, DEFAULT, REGRESSION), regime=BELOW):
        yield {"over": REGRESSION, "where": BELOW, **said(found, OF_FORMER)}


def goals(cells: Cells) -> Iterator[Row]:
    """Compare each goal with the best method for the goal's own error."""
    for error, method in OWN.items():
        logs = against_the_best(cells, method, [error])
        for kind in OF_PEER:
            if found := where(logs, kind=kind):
                yield {"method": method, "error": error, "where": kind} | said(found, OF_GOAL, MOST)


def simple(cells: Cells) -> Iterator[Row]:
    """Compare the default with one plain matrix, and with entrywise noise."""
    for other in (MATRIX, ENTRYWISE):
        logs = log_ratios(cells, DEFAULT, other)
        for kind in OF_PEER:
            if found := where(logs, kind=kind):
                yield {"over": other, "where": kind, **said(found, 1.0)}


def before_peers(cells: Cells) -> Iterator[Row]:
    for kind, bar in OF_PEER.items():
        for error, logs in against_peers(cells, kind).items():
            if logs:
                yield {"error": error, "where": kind, **said(logs, bar)}


def everyone(cells: Cells) -> Iterator[Row]:
    """Yield mean ratios of the default's errors to each method's errors."""
    names = dict.fromkeys(name for field in cells.values() for name in field)
    for other in names:
        logs = log_ratios(cells, DEFAULT, other, ERRORS)
        for kind in OF_PEER:
            if other != DEFAULT and (found := where(logs, kind=kind)):
                ratios = np.exp(np.nanmean(list(found.values()), axis=0))
                row = {"over": other, "where": kind, "cells": len(found)}
                yield row | dict(zip(ERRORS, ratios.tolist(), strict=True))


class Pair(NamedTuple):
    """Draws of an error, and those that it is over."""

    place: Mapping[str, Any]
    own: Vector
    other: Vector

    def log_ratio(self) -> tuple[float, float]:
        """Return the log-ratio of the means, and its standard error for independent means."""
        means = [max(NOTHING, float(values.mean())) for values in (self.own, self.other)]
        parts = [
            values.var(ddof=1) / len(values) / mean**2
            for values, mean in zip((self.own, self.other), means, strict=True)
        ]
        return float(np.log(means[0] / means[1])), float(np.sqrt(sum(parts)))


def single(cells: Cells, other: str) -> list[Pair]:
    """Pair the default with another method in each cell, by error."""
    return [
        Pair({**cell._asdict(), "error": error}, field[DEFAULT][error], field[other][error])
        for cell, field in cells.items()
        if {DEFAULT, other} <= field.keys()
        for error in COMPARED
    ]


def rises(cells: Cells) -> list[Pair]:
    """Compare the default at a budget with the default at a quarter of the budget."""
    found = []
    for cell, field in cells.items():
        fewer = cells.get(cell._replace(size=cell.size / 4), {})
        if DEFAULT in field and DEFAULT in fewer:
            found += [
                Pair({**cell._asdict(), "error": e}, field[DEFAULT][e], fewer[DEFAULT][e])
                for e in COMPARED
            ]
    return found


def beyond(pairs: Sequence[Pair], bar: float) -> list[Row]:
    """Return ratios in order of their lower confidence limits, the largest limit first.

    `ok` is True if the test does not show a ratio above the threshold.
    """
    rows, pairs = [], [pair for pair in pairs if max(pair.own.mean(), pair.other.mean()) > NOTHING]
    for pair in pairs:
        ratio, error = pair.log_ratio()
        low = ratio - quantile(min(len(pair.own), len(pair.other)), len(pairs)) * error
        row = {**pair.place, "ratio": float(np.exp(ratio)), "from": float(np.exp(low))}
        rows.append(row | {"bar": bar, "ok": bool(low <= np.log(bar))})
    return sorted(rows, key=lambda row: -row["from"])


def quantile(draws: int, tests: int) -> float:
    """Return the t quantile for so many tests with a joint level of 1%."""
    return float(t.ppf(1 - (1 - LEVEL) / tests, draws - 1))


def biases(rows: Sequence[Row]) -> list[Row]:
    """Return mean errors of the means over the stated errors, the surely largest first."""
    runs: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        if "off" in row and row["method"] == DEFAULT:
            kind = "epsilon" if "epsilon" in row else "rho"
            runs.setdefault((row["table"], kind, row[kind]), []).append(row)
    found = []
    for (table, kind, size), some in runs.items():
        off, stated = (np.concatenate([run[key] for run in some]) for key in ("off", "stated"))
        unit = np.sqrt(np.mean(stated**2, axis=0))
        bias, error = off.mean(axis=0) / unit, off.std(axis=0, ddof=1) / np.sqrt(len(off)) / unit
        place = {"table": table, "kind": kind, "size": size, "draws": len(off)}
        for column, (one, its) in enumerate(zip(bias.tolist(), error.tolist(), strict=True)):
            found.append({**place, "column": column, "bias": one, "error": its})
    for row in found:
        low = abs(row["bias"]) - quantile(row["draws"], 2 * len(found)) * row["error"]
        row |= {"from": low, "bar": OF_BIAS, "ok": low <= OF_BIAS}
    return sorted(found, key=lambda row: -row["from"])


def summarised(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Return all figures, by title."""
    cells = cells_of(rows)
    absent = [cell._asdict() for cell, field in cells.items() if DEFAULT not in field]
    return {
        "Cells in which the default refuses": [{**cell, "ok": False} for cell in absent],
        "The default over the best of a cell": list(choices(cells)),
        "The default over what is simple": list(simple(cells)),
        "Each goal over the best for its own error": list(goals(cells)),
        "Cells of one matrix": beyond(single(cells, MATRIX), OF_CELL),
        "Cells of entrywise noise": beyond(single(cells, ENTRYWISE), OF_CELL),
        "Four times the budget": beyond(rises(cells), OF_RISE),
        "Means that are off to one side, in stated errors": biases(rows),
        "The default over the best peer in hindsight": list(before_peers(cells)),
        "The default over everyone": list(everyone(cells)),
    }


def over_former(cells: Cells) -> list[Row]:
    """Compare errors of the whole moment, and seconds, with the earlier version's default.

    Ratios are geometric means over the budgets of a kind. Seconds are medians for each budget.
    """
    places: dict[tuple[str, str], list[dict[str, Entry]]] = {}
    for cell, field in cells.items():
        places.setdefault((cell.table, cell.kind), []).append(field)
    lines = []
    for (table, kind), fields in places.items():
        line: Row = {"table": table, "where": kind}
        for method in (DEFAULT, OWN["frobenius"]):
            line[method] = _ratio(fields, method, "frobenius", np.mean)
        line["seconds"] = _ratio(fields, DEFAULT, "seconds", np.median)
        ok = line[DEFAULT] <= OF_MOMENT and line["seconds"] <= OF_SECONDS
        lines.append({**line, "bar": OF_MOMENT, "its bar": OF_SECONDS, "ok": ok})
    return lines


def _ratio(
    fields: Sequence[dict[str, Entry]], method: str, key: str, reported: Callable[[Vector], Any]
) -> float:
    logs = [
        np.log(reported(field[method][key]) / reported(field["before"][key])) for field in fields
    ]
    return float(np.exp(np.mean(logs)))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("part", choices=PARTS)
    asked = parser.parse_args()
    rows = Kept(f"methods-{asked.part}.json", f"make entrants PART={asked.part}").ended()
    former = asked.part == FORMER
    found = {"Over the default before": over_former(cells_of(rows))} if former else summarised(rows)
    for title, rows in found.items():
        missed = sum(not row.get("ok", True) for row in rows)
        shown = len(rows) if len(rows) < MANY else max(SHOWN, missed)
        show(f"{title} ({missed} of {len(rows)} beyond)", rows[:shown])
    reported = [{"part": title, **row} for title, rows in found.items() for row in rows]
    name = FILES.get(asked.part, f"acceptance-{asked.part}.json")
    write(name, f"make bench NAME={Path(__file__).stem} ARGS={asked.part}", reported)
    return int(not all(row.get("ok", True) for row in reported))


if __name__ == "__main__":
    sys.exit(main())
