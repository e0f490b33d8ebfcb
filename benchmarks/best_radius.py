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

import dpcov
from before_and_now import Truth
from benchmark_tables import PARTS
from dpcov.errors import DpcovError
from dpcov.mechanisms import standardized
from more_budget import more_errors, read
from results import Kept, show, write
from tails import BUDGETS, KINDS, RELATIONS, TABLE_PARTS

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, Any]
COMMAND = 'make bench NAME=best_radius ARGS="--folder FOLDER"'
# Multiples of the radius of the default. The next ones have larger errors of every kind.
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
    table = read(name, folder)
    truth, schema, rows = Truth.of(table), dpcov.Schema.parse(table.declared()), list[Row]()
    for budget in BUDGETS:
        row: Row = {"table": name, "budget": budget, "seeds": seeds}
        for multiple in MULTIPLES:
            found: dict[str, list[float]] = {kind: [] for kind in KINDS}
            with patch.object(standardized, "best_radius", with_multiple(multiple)):
                for seed in range(seeds):
                    asked: Any = {"neighbors": RELATIONS[seed % 2], "seed": seed, **budget}
                    try:
                        made = dpcov.release(table.frame, schema=schema, **asked)
                        answer = made.count(), made.mean(), made.covariance()
                    except DpcovError:
                        found = {}  # the budget is too small for the table
                        break
                    for kind, error in more_errors(answer, truth).items():
                        if kind in found:
                            found[kind].append(error)
            row[f"{multiple:g}"] = {k: float(np.mean(one)) for k, one in found.items() if one}
        rows.append(row)
    return rows


def summary(cells: list[Row]) -> list[Row]:
    """Return geometric means of the errors over the errors of the default, by kind."""
    names = [f"{multiple:g}" for multiple in MULTIPLES]
    rules: dict[str, Callable[[Row, str], str]] = {
        **{f"{name} times": lambda _row, _kind, name=name: name for name in names},
        "best for each kind": lambda row, kind: min(names, key=lambda one: row[one][kind]),
        "best for the whole matrix": lambda row, _: min(
            names, key=lambda one: row[one]["frobenius"]
        ),
    }
    rows = []
    for rule, chosen in rules.items():
        own: Row = {"radius": rule}
        for kind in KINDS:
            logs = [
                np.log(row[chosen(row, kind)][kind] / row["1"][kind])
                for row in cells
                if row["1"].get(kind, 0) > 0 and all(row[name].get(kind, 0) > 0 for name in names)
            ]
            own[kind] = float(np.exp(np.mean(logs)))
        rows.append(own)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, help="a folder of further tables")
    parser.add_argument("--tables", nargs="*", help="only these")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    asked = parser.parse_args()
    own = [path.stem for path in sorted(asked.folder.glob("*.npz"))] if asked.folder else []
    known = [one for part in TABLE_PARTS for one in PARTS[part] if one != "levels alone"]
    tables = asked.tables or [*own, *known]
    kept = Kept("best_radius-cells.json", COMMAND)
    there = {row["table"] for row in kept.go_on()}
    kept.pooled(measured, [(one, asked.folder, asked.seeds) for one in tables if one not in there])
    found = summary(kept.rows)
    show("Error over the error of the default", found)
    write("best_radius.json", COMMAND, found)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
