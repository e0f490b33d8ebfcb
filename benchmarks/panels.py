"""Measure intervals of a regression on the means of persons, in simulated panels.

`make bench NAME=panels` runs the script. A panel has persons with 1 to 8 visits. The effect of x on
y differs between persons and within a person, and persons differ in y for other reasons. Two
releases of each panel have the same budget:

- one row per person (`aggregate = "mean"`), compared with the coefficient between persons in the
  population;
- one row per visit, whose sampling errors assume independent rows, compared with the coefficient of
  visits in the population. This is the control: its intervals are too narrow.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import dpcov
from dpcov.rows.schema import Schema
from results import Kept, show

PANELS = 1000
PANELS_PER_JOB = 50
PERSONS, MOST_VISITS = 10_000, 8
EPSILON = 1.0
BOUND = 8.0
# Standard deviations between and within persons of x, and of the other parts of y.
BETWEEN, WITHIN, OTHER_BETWEEN, OTHER_WITHIN = 1.0, 0.5, 1.0, 1.0
SLOPE_BETWEEN, SLOPE_WITHIN = 0.5, 0.2  # of y on both parts of x
FORMULA = "y ~ x + z"
LOWEST, HIGHEST, CONTROL = 0.93, 0.97, 0.90  # coverage of the intervals and of the control
INVERSE_VISITS = float(np.mean(1 / np.arange(1, MOST_VISITS + 1)))


def schema(unit: bool) -> Schema:
    """Return the schema of persons or of visits."""
    person = {"column": "id", "type": "integer", "aggregate": "mean"}
    more = {"unit": person} if unit else {}
    return Schema.from_bounds(-BOUND, BOUND, ["x", "y", "z"], missing="none", **more)


def slope(within: float) -> float:
    """Return the population coefficient of x, for a variance of x within the rows."""
    between = BETWEEN**2
    return (SLOPE_BETWEEN * between + SLOPE_WITHIN * within) / (between + within)


def panel(generator: np.random.Generator) -> pa.Table:
    """Return the visits of new persons."""
    visits = generator.integers(1, MOST_VISITS + 1, PERSONS)
    ids = np.repeat(np.arange(PERSONS), visits)
    own, other, z = generator.normal(size=(3, PERSONS))
    within = WITHIN * generator.normal(size=len(ids))
    x = BETWEEN * own[ids] + within
    y = SLOPE_BETWEEN * BETWEEN * own[ids] + SLOPE_WITHIN * within + 0.3 * z[ids]
    y += OTHER_BETWEEN * other[ids] + OTHER_WITHIN * generator.normal(size=len(ids))
    order = generator.permutation(len(ids))
    columns = {"id": ids, "x": x, "y": y, "z": z[ids]}
    return pa.table({name: cells[order] for name, cells in columns.items()})


def panels(job: int) -> Iterator[dict[str, Any]]:
    """Yield the intervals of some panels."""
    asked = (
        ("means of persons", schema(unit=True), slope(WITHIN**2 * INVERSE_VISITS)),
        ("visits, row standard errors", schema(unit=False), slope(WITHIN**2)),
    )
    for number in range(job * PANELS_PER_JOB, (job + 1) * PANELS_PER_JOB):
        data = panel(np.random.default_rng(number))
        for rows, declared, truth in asked:
            made = dpcov.release(data, schema=declared, epsilon=EPSILON, seed=number, threads=1)
            found = dpcov.ols(made, FORMULA)
            at = found.names.index("x")
            yield {
                "panel": number,
                "rows": rows,
                "truth": truth,
                "coefficient": float(found.coefficients[at]),
                "sampling": float(found.sampling_errors[at]),
                "privacy": float(found.privacy_errors[at]),
                "covers": bool(found.lower[at] <= truth <= found.upper[at]),
            }


def listed(job: int) -> list[dict[str, Any]]:
    """Return the intervals of some panels, for a process of its own."""
    return list(panels(job))


def summary(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the coverage of each kind of rows."""
    for kind in dict.fromkeys(row["rows"] for row in rows):
        own = [row for row in rows if row["rows"] == kind]
        coverage = float(np.mean([row["covers"] for row in own]))
        control = kind.startswith("visits")
        yield {
            "rows": kind,
            "panels": len(own),
            "truth": own[0]["truth"],
            "mean_coefficient": float(np.mean([row["coefficient"] for row in own])),
            "standard_deviation": float(np.std([row["coefficient"] for row in own])),
            "sampling": float(np.mean([row["sampling"] for row in own])),
            "privacy": float(np.mean([row["privacy"] for row in own])),
            "coverage": coverage,
            "wanted": f"below {CONTROL}" if control else f"{LOWEST} to {HIGHEST}",
            "ok": coverage < CONTROL if control else LOWEST <= coverage <= HIGHEST,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--panels", type=int, default=PANELS)
    count = parser.parse_args().panels
    drawn = Kept("panels-drawn.json", "make bench NAME=panels")
    drawn.pooled(listed, range(max(1, count // PANELS_PER_JOB)))
    kept = Kept("panels.json", "make bench NAME=panels")
    kept.part("coverage", partial(summary, drawn.rows))
    show("Coverage of the coefficient of x", kept.rows)
    missed = [row for row in kept.rows if not row["ok"]]
    return int(not drawn.done() or not kept.done() or bool(missed))


if __name__ == "__main__":
    sys.exit(main())
