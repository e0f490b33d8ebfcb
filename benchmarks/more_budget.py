"""Test whether any error of the default rises if the budget becomes four times as large.

Run it with `make bench NAME=more_budget`. `ARGS="--folder FOLDER"` adds tables of your own: an
archive `NAME.npz` of the array `x` and its column `names`, and the schema `NAME.toml`.

The errors are root mean squares over the columns, pairs or coefficients of a table:

- of correlations,
- of variances and standard deviations, relative to their true values,
- of means, in standard deviations of the column,
- of regression coefficients, in sampling standard errors.

An error is the mean over seeds. The tests of all rises have a joint level of 1%, as in
`acceptance.py`.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from acceptance import OF_RISE, Pair, beyond
from before_and_now import Truth, errors, released, rounded
from benchmark_tables import Table, table_named
from results import Kept, show

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = dict[str, Any]
FOURFOLD = [("epsilon", 0.1 * 4**k) for k in range(5)] + [("rho", 0.0125 * 4**k) for k in range(5)]
KINDS = ("correlation", "means", "variances", "deviations", "ols")
# Light and heavy tails, outliers, flags, categories, and columns of very different spreads.
TABLES = (
    "scales", "flags", "casp", "diamonds", "census", "lognormal", "flights", "mixed",
    "t with 3", "pareto 3", "purchases", "narrow",
)  # fmt: skip


def read(name: str, folder: Path | None) -> Table:
    """Return a table of `benchmark_tables`, or of a folder if it is there."""
    if folder is None or not (folder / f"{name}.npz").exists():
        return table_named(name)
    stored = np.load(folder / f"{name}.npz")
    columns = tomllib.loads((folder / f"{name}.toml").read_text())["columns"]
    for column in columns.values():
        if column["kind"] == "flag":
            column |= {"lower": 0, "upper": 1}
        elif column["kind"] == "count":
            column.setdefault("lower", 0)
    return Table(pd.DataFrame(stored["x"], columns=stored["names"].tolist()), columns)


def more_errors(answer: Any, truth: Truth) -> dict[str, float]:
    """Return the errors of `before_and_now`, and the errors of variances and deviations."""
    found = errors(answer, truth)
    kept = truth.deviations > 0
    ratios = np.diag(answer[2])[kept] / (truth.deviations * truth.units)[kept] ** 2
    of = {"variances": ratios, "deviations": np.sqrt(np.maximum(ratios, 0))}
    found |= {name: float(np.sqrt(np.mean((one - 1) ** 2))) for name, one in of.items()}
    return found


def measured(job: tuple[str, Path | None, Sequence[tuple[str, float]], int]) -> list[Row]:
    """Return a row for each budget: the errors on a table, by seed."""
    name, folder, budgets, seeds = job
    table = read(name, folder)
    truth = Truth.of(table)
    rows = []
    for kind, size in budgets:
        asked: list[Row] = [{kind: size, "seed": seed} for seed in range(seeds)]
        answers = released(table, asked, None, "")
        row = {"table": name, "rows": len(table.frame), kind: size, "refused": []}
        row["refused"] = sorted({one for one in answers if isinstance(one, str)})
        if not row["refused"]:
            each = [more_errors(one, truth) for one in answers]
            row |= {of: rounded(one[of] for one in each) for of in KINDS}
        rows.append(row)
    return rows


def rises(rows: Sequence[Row]) -> list[Row]:
    """Return the ratios of errors to errors at a quarter of the budget, the surest rise first."""
    cells = {
        (row["table"], kind, row[kind]): row
        for row in rows
        for kind in ("epsilon", "rho")
        if kind in row and not row["refused"]
    }
    pairs = [
        Pair({"table": table, "kind": kind, "size": size, "error": of}, *map(np.array, two))
        for (table, kind, size), row in cells.items()
        if (fewer := cells.get((table, kind, size / 4)))
        for of in KINDS
        for two in [(row[of], fewer[of])]
    ]
    return beyond(pairs, OF_RISE)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="a folder of further tables")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=12)
    asked = parser.parse_args()
    own = [path.stem for path in sorted(asked.folder.glob("*.npz"))] if asked.folder else []
    kept = Kept("more-budget.json", "make bench NAME=more_budget")
    jobs = [(name, asked.folder, FOURFOLD, asked.seeds) for name in asked.tables or (*own, *TABLES)]
    kept.pooled(measured, jobs)
    found = rises(kept.rows)
    show("Error over the error at a quarter of the budget", found[:20])
    return int(not kept.done() or not all(row["ok"] for row in found))


if __name__ == "__main__":
    sys.exit(main())
