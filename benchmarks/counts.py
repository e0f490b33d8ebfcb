"""Measure the error of the private number of rows on tables of many shapes.

The script releases each table many times with the default mechanism under add/remove. It prints:

- *Error*: the mean absolute error of `Release.count`, times epsilon (or times the root of rho),
  over the largest number of rows of a unit. This error should be at most 30 for every table (5
  for rho).
- *Corner*, the control: the error of the same release without a published count. The matrix alone
  then determines the number of rows.
- *Most*: the largest single error, in rows.

`make bench NAME=counts` runs the script.
"""

from __future__ import annotations

import math
import sys
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import dpcov
from dpcov.rows.schema import Schema
from results import Kept, show

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Draws = Callable[[np.random.Generator, int], NDArray[Any]]

REPEATS = {0: 24, 1: 24, 500: 24, 100_000: 6}  # by the number of rows
BUDGETS: tuple[dict[str, float], ...] = (
    {"epsilon": 0.1},
    {"epsilon": 1.0},
    {"rho": 0.05},
    {"rho": 0.5},
)
BAR = {"epsilon": 30.0, "rho": 5.0}
LARGEST_WEIGHT = 4.0


def constant(value: float) -> Draws:
    return lambda _, n: np.full(n, value)


def normal(center: float, spread: float) -> Draws:
    return lambda g, n: np.clip(center + spread * g.standard_normal(n), 0.0, 1.0)


def flag(share: float) -> Draws:
    return lambda g, n: (g.random(n) < share).astype(float)


def level(count: int) -> Draws:
    return lambda g, n: np.minimum(g.geometric(0.4, n) - 1, count - 1).astype(str)


def long(g: np.random.Generator, n: int) -> NDArray[Any]:
    """Draw a long-tailed column; half a per cent of the bounds is typical."""
    return np.clip(0.005 * np.exp(1.5 * g.standard_normal(n)), 0.0, 1.0)


def uniform(g: np.random.Generator, n: int) -> NDArray[Any]:
    return g.random(n)


RARE, EVEN = 1, 50  # percent of rows in which a flag is set
number, flags = normal(0.5, 0.15), [flag(RARE / 100)]
sizes = [normal(0.3, 2.0**-k) for k in range(1, 11)]
levels = [level(3), level(5), level(8)]
Shape = tuple[list[Any], dict[str, Any]]  # functions that draw the columns; further options
SHAPES: dict[str, Shape] = {
    "one column": ([number], {}),
    "one constant, at the midpoint": ([constant(0.5)], {}),
    "one constant, at a bound": ([constant(1.0)], {}),
    f"one flag at {RARE} %": (flags, {}),
    f"one flag at {EVEN} %": ([flag(EVEN / 100)], {}),
    "a number and a constant": ([number, constant(1.0)], {}),
    "five numbers": ([number] * 5, {}),
    "five uniform numbers": ([uniform] * 5, {}),
    "five numbers near a bound": ([normal(0.9, 0.02)] * 5, {}),
    "ten numbers": ([number] * 10, {}),
    "ten constants": ([constant(0.0)] * 10, {}),
    "ten numbers of different sizes": (sizes, {}),
    "ten long tails": ([long] * 10, {}),
    "thirty numbers": ([number] * 30, {}),
    "sixty numbers": ([number] * 60, {}),
    f"ten flags at {RARE} %": (flags * 10, {}),
    f"thirty flags at {RARE} %": (flags * 30, {}),
    "flags and numbers": ([*flags * 5, *[number] * 5], {}),
    "one column of levels": ([level(5)], {}),
    "three columns of levels": (levels, {}),
    "numbers and levels": ([*[number] * 6, *levels], {}),
    "persons of up to 5 rows, one column": ([number], {"persons": 5}),
    "persons of up to 5 rows, five columns": ([number] * 5, {"persons": 5}),
    "persons of one row, up to 5": ([number] * 5, {"persons": 1}),
    "weights, one column": ([number], {"weights": True}),
    "weights, five numbers": ([number] * 5, {"weights": True}),
    "weights, flags": (flags * 5, {"weights": True}),
    "no intercept, one column": ([number], {"intercept": 0.0}),
    "no intercept, five numbers": ([number] * 5, {"intercept": 0.0}),
    "no intercept, thirty numbers": ([number] * 30, {"intercept": 0.0}),
}


def table(shape: Shape, rows: int) -> tuple[pd.DataFrame, Schema, float]:
    """Return a table with so many rows, its schema, and the count that a release estimates."""
    draws, more = shape
    generator = np.random.default_rng(rows)
    frame = pd.DataFrame({f"x{j}": draw(generator, rows) for j, draw in enumerate(draws)})
    words = [isinstance(draw(generator, 1)[0], str) for draw in draws]
    columns = {
        name: {"kind": "categorical", "levels": [str(one) for one in range(8)]}
        if of_levels
        else {"kind": "numeric", "lower": 0, "upper": 1}
        for name, of_levels in zip(frame, words, strict=True)
    }
    schema: dict[str, Any] = {"columns": columns, "intercept": more.get("intercept", 0.3)}
    count = float(rows)
    if each := more.get("persons"):
        frame["id"] = np.arange(rows) // each
        schema["unit"] = {"column": "id", "max_rows": 5, "type": "integer"}
    if more.get("weights"):
        frame["w"] = 1 + generator.random(rows)
        schema["weight"] = {"column": "w", "maximum": LARGEST_WEIGHT}
        count = float(frame["w"].sum() / LARGEST_WEIGHT)
    return frame, Schema.parse(schema), count


def cell(job: tuple[str, int]) -> list[dict[str, Any]]:
    """Return the result rows of one shape with one number of rows."""
    name, rows = job
    frame, schema, count = table(SHAPES[name], rows)
    found = []
    for budget in BUDGETS:
        (figure, amount), *_ = budget.items()
        errors: list[float] = []
        corners: list[float] = []
        for seed in range(REPEATS[rows]):
            number = zlib.crc32(f"{job}{budget}{seed}".encode())
            made = dpcov.release(frame, schema=schema, seed=number, threads=1, **budget)
            errors.append(abs(made.count() - count))
            if made.has_intercept:
                alone = made.with_published("count", None)
                corners.append(abs(alone.count() - count))
        unit = (amount if figure == "epsilon" else math.sqrt(amount)) / schema.privacy_unit.max_rows
        found.append(
            {
                "shape": name,
                "rows": rows,
                "budget": f"{figure} {amount:g}",
                "mechanism": made.mechanism,
                "error": float(np.mean(errors)) * unit,
                "corner": float(np.mean(corners)) * unit if corners else None,
                "most": float(np.max(errors)),
                "corner, most": float(np.max(corners)) if corners else None,
            }
        )
    return found


def pooled(rows: list[dict[str, Any]], by: str) -> list[dict[str, Any]]:
    """Return mean errors over all cells with one value of `by`, for each kind of budget."""
    found = []
    for value in dict.fromkeys(row[by] for row in rows):
        one: dict[str, Any] = {by: value}
        for figure in BAR:
            here = [r for r in rows if r[by] == value and r["budget"].startswith(figure)]
            if not here:
                continue
            corners = [r["corner"] for r in here if r["corner"] is not None]
            one[f"{figure}: error"] = float(np.mean([r["error"] for r in here]))
            one[f"{figure}: corner"] = float(np.mean(corners)) if corners else None
        found.append(one)
    return found


def main() -> None:
    kept = Kept("counts.json", "make bench NAME=counts")
    kept.pooled(cell, [(name, rows) for rows in REPEATS for name in SHAPES])
    for by in ("shape", "rows", "budget"):
        show(f"Mean absolute errors of the number of rows, by {by}", pooled(kept.rows, by))
    above = [
        (one["shape"], figure)
        for one in pooled(kept.rows, "shape")
        for figure, bar in BAR.items()
        if one[f"{figure}: error"] > bar
    ]
    print(f"above the bar: {above or 'none'}")
    if above or not kept.done():
        sys.exit(1)


if __name__ == "__main__":
    main()
