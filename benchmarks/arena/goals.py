"""Errors of what `--goal` takes over those of the default, on tables with public bounds.

    make goals

Of each goal its own error: `relative`, `correlation`, or for `regression` the loss of R^2 of ridge
(`matrix_errors`). Beside it `standardized` as it is without a second look. Draws are paired.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from arena_tables import BOUNDED, TABLES, contest_named, target
from cells import DEFINITIONS, Cell, against
from frontier import estimated
from matrix_errors import errors

from datasets import here
from dpcov.core.privacy import Neighbors
from dpcov.mechanisms.choice import BY_COLUMN, GOALS, choose
from results import Kept, show

EPSILONS = (0.1, 0.5, 1.0, 4.0)
ERRORS = {"relative": "relative", "correlation": "correlation", "regression": "ridge"}
REPEATS = 6
PERFECT = 1e-9  # losses of R^2 can be 0
Row = dict[str, Any]


def compared(cell: Cell) -> list[Row]:
    """For each goal, the error of its mechanism and of one look over the default's."""
    contest = contest_named(cell.table)
    truth = target(contest, contest.truth)
    chosen = {
        goal: choose(contest.door.schema, cell.budget, cell.neighbors, goal).mechanism
        for goal in GOALS
    }
    found = {
        mechanism: [
            errors(estimated(contest, mechanism, cell, cell.seed + repeat), truth)
            for repeat in range(REPEATS)
        ]
        for mechanism in dict.fromkeys([*chosen.values(), BY_COLUMN])
    }

    def rows() -> Iterator[Row]:
        for goal, kind in ERRORS.items():
            own, one_look, default = (
                np.maximum([drawn[kind] for drawn in found[mechanism]], PERFECT)
                for mechanism in (chosen[goal], BY_COLUMN, chosen["frobenius"])
            )
            ratio, spread = against(own, default).values()
            yield {
                "table": cell.table,
                "neighbors": str(cell.neighbors),
                "definition": cell.definition,
                "epsilon": cell.epsilon,
                "goal": goal,
                "looks at directions": chosen[goal].directions_share > 0,  # type: ignore[attr-defined]
                "error": float(own.mean()),
                "over the default": ratio,
                "se": spread,
                "one look over the default": float(one_look.mean() / default.mean()),
            }

    return list(rows())


def main() -> int:
    tables = here({name: TABLES[name] for name in (f"{name}, public bounds" for name in BOUNDED)})
    kept = Kept("goals.json", "make goals")
    kept.pooled(compared, [Cell(*key) for key in product(tables, Neighbors, DEFINITIONS, EPSILONS)])
    show("Errors of what a goal takes over those of the default", kept.rows)
    return int(not kept.done())


if __name__ == "__main__":
    sys.exit(main())
