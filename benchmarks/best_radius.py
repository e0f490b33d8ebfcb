"""Compare the clipping radius of the default with the best radius that hindsight can choose.

    make bench NAME=best_radius ARGS="--folder FOLDER"

The mechanism `standardized` chooses its clipping radius from the noisy norm histogram. The script
makes each release again with the same seed and a multiple of the chosen radius. A row has the
geometric mean, over tables and budgets, of the error divided by the error of the default:

- with the same multiple for all tables and budgets, as another rule could have;
- with the best multiple of each table, budget and kind of error. No private rule can choose it,
  because the choice needs the true moments. It also adapts to the noise of few seeds. These ratios
  are therefore a limit: no other choice among these radii has smaller errors.
- with the multiple that is best for the whole matrix (`frobenius`) of each table and budget.

The script uses the tables and the budgets of `tails.py`. `--folder FOLDER` adds tables, as there.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from before_and_now import Truth
from dpcov.errors import DpcovError
from dpcov.mechanisms import standardized
from more_budget import read
from rare_levels import errors
from results import Kept, show, write
from tails import BUDGETS, KINDS, tables_with

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
COMMAND = 'make bench NAME=best_radius ARGS="--folder FOLDER"'
# Multiples of the radius of the default. The outermost ones have larger errors of every kind.
MULTIPLES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
SEEDS = 6


def with_multiple(multiple: float) -> Callable[..., float]:
    """Return the rule of the default, with a multiple of its radius."""
    rule = standardized.best_radius

    def radius(lengths: Any, *rest: Any) -> float:
        return min(multiple * rule(lengths, *rest), math.sqrt(lengths.upper_ends[-1]))

    return radius


def measured(job: tuple[str, Path | None, int]) -> list[Row]:
    """Return a row for each budget: the mean errors of a table, by multiple."""
    name, folder, seeds = job
    table, rows = read(name, folder), list[Row]()
    truth = Truth.of(table)
    for budget in BUDGETS:
        row: Row = {"table": name, "budget": budget, "seeds": seeds}
        for multiple in MULTIPLES:
            with patch.object(standardized, "best_radius", with_multiple(multiple)):
                try:
                    row[f"{multiple:g}"] = errors(table, truth, budget, seeds)
                except DpcovError:
                    row[f"{multiple:g}"] = {}  # the budget is too small for the table
        rows.append(row)
    return rows


def summary(cells: list[Row]) -> list[Row]:
    """Return geometric means of the errors over the errors of the default, by kind."""
    names = [f"{multiple:g}" for multiple in MULTIPLES]

    def best(row: Row, kind: str) -> str:
        return min(names, key=lambda name: row[name][kind])

    rules: dict[str, Callable[[Row, str], str]] = {
        **{f"{name} times": lambda row, kind, name=name: name for name in names},
        "best for each kind": best,
        "best for the whole matrix": lambda row, kind: best(row, "frobenius"),
    }

    def mean_ratio(chosen: Callable[[Row, str], str], kind: str) -> float:
        logs = [
            np.log(row[chosen(row, kind)][kind] / row["1"][kind])
            for row in cells
            if all(row[name].get(kind, 0) > 0 for name in names)
        ]
        return float(np.exp(np.mean(logs)))

    return [
        {"radius": rule} | {kind: mean_ratio(chosen, kind) for kind in KINDS}
        for rule, chosen in rules.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="a folder of further tables")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args()
    tables = asked.tables or tables_with(asked.folder)
    kept = Kept("best_radius-cells.json", COMMAND)
    there = {row["table"] for row in kept.go_on()}
    kept.pooled(measured, [(one, asked.folder, asked.seeds) for one in tables if one not in there])
    found = summary(kept.rows)
    show("Error over the error of the default", found)
    if not kept.done():
        return 1
    write("best_radius.json", COMMAND, found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
