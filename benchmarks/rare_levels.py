"""Measure what rare levels cost in tables of numbers with some flags or categories.

    make bench NAME=rare_levels
    make bench NAME=rare_levels ARGS="--part binary-test"

The mechanism `standardized` has two rules for flags and indicators. The directions query leaves
them as they are (`row_transform.binary_features`), and the map moves no level far from the mean
(`row_transform.MAX_LEVEL_SQUARED_NORM`). The script makes each release again with other rules and
the same seed. A row has the geometric mean, over budgets and tables, of the error with the present
rules divided by the error with the other rules. A ratio below 1 means that the present rules are
better. The limit was tuned on the part `binary` and the table `mixed`; `binary-test` is the test.
"""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

import dpcov
from before_and_now import Truth
from benchmark_tables import PARTS, Table, table_named
from dpcov.mechanisms import row_transform, standardized
from more_budget import more_errors
from results import Kept, show
from tails import BUDGETS, KINDS, RELATIONS

if TYPE_CHECKING:
    from dpcov.rows.schema import Schema

Row = dict[str, Any]
TABLES = {"binary": [*PARTS["binary"], "mixed"], "binary-test": PARTS["binary-test"]}
NO_LIMIT = 1e12
# Whether the directions query leaves flags and indicators as they are, and the limit of the map.
RULES = {
    "centered, no limit": (False, NO_LIMIT),
    "no limit": (True, NO_LIMIT),
    **{f"limit {limit:g}": (True, limit) for limit in (0.5, 1.0, 4.0, 9.0)},
}


def none_is_binary(schema: Schema) -> Any:
    return np.zeros(len(schema.features), bool)


def errors(table: Table, truth: Truth, budget: dict[str, float], seeds: int) -> Row:
    """Return the mean error of each kind over the seeds."""
    found: dict[str, list[float]] = {kind: [] for kind in KINDS}
    schema = dpcov.Schema.parse(table.declared())
    for seed in range(seeds):
        asked: Any = {"neighbors": RELATIONS[seed % 2], "seed": seed, **budget}
        made = dpcov.release(table.frame, schema=schema, **asked)
        own = more_errors((made.count(), made.mean(), made.covariance()), truth)
        for kind in KINDS:
            found[kind].append(own[kind])
    return {kind: float(np.mean(one)) for kind, one in found.items()}


def rows(job: tuple[str, int]) -> list[Row]:
    """Return the ratios of one table for each other rule."""
    name, seeds = job
    table, found = table_named(name), []
    truth = Truth.of(table)
    now = [errors(table, truth, budget, seeds) for budget in BUDGETS]
    for rule, (as_they_are, limit) in RULES.items():
        with ExitStack() as patches:
            change = patches.enter_context
            change(patch.object(row_transform, "MAX_LEVEL_SQUARED_NORM", limit))
            if not as_they_are:
                change(patch.object(standardized, "binary_features", none_is_binary))
            then = [errors(table, truth, budget, seeds) for budget in BUDGETS]
        logs = {
            kind: [np.log(new[kind] / old[kind]) for new, old in zip(now, then, strict=True)]
            for kind in KINDS
        }
        place = {"table": name, "over": rule, "seeds": seeds}
        found.append(place | {kind: float(np.exp(np.mean(one))) for kind, one in logs.items()})
    return found


def together(found: list[Row]) -> list[Row]:
    """Return the geometric means over the tables, for each other rule."""
    of = {rule: [row for row in found if row["over"] == rule] for rule in RULES}
    return [
        {"table": "all", "over": rule, "seeds": own[0]["seeds"]}
        | {kind: float(np.exp(np.mean([np.log(row[kind]) for row in own]))) for kind in KINDS}
        for rule, own in of.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--part", choices=tuple(TABLES), default="binary")
    parser.add_argument("--seeds", type=int, default=12)
    asked = parser.parse_args()
    of_part, own = f' ARGS="--part {asked.part}"', asked.part == "binary"
    command = "make bench NAME=rare_levels" + ("" if own else of_part)
    kept = Kept("rare_levels.json" if own else "rare_levels-test.json", command)
    kept.pooled(rows, [(name, asked.seeds) for name in TABLES[asked.part]])
    show("Error over the error with other rules", [*kept.rows, *together(kept.rows)])
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
