"""The table of what ``auto`` takes, found by asking the function that decides.

``python docs/_ext/decisions.py`` writes it into `docs/mechanisms.md`; a test compares.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms.choice import choose
from dpcov.rows.schema import Schema

PAGE = Path(__file__).parents[1] / "mechanisms.md"
MARKED = re.compile(r"(?<=<!-- decisions -->\n\n).*?(?=\n\n<!-- /decisions -->)", re.DOTALL)
BUDGETS = {
    "epsilon": PureDP(1.0),
    "epsilon and delta": ApproxDP(1.0, 1e-9),
    "rho": ZCDP(0.1),
}
ONCE = {"rereadable": False}


def table(numbers: int, flags: int = 0, *, levels: int = 2, intercept: float = 0.3) -> Schema:
    """A schema of so many numbers, and of columns with levels."""
    number = {"kind": "numeric", "lower": 0, "upper": 1}
    flag = {"kind": "categorical", "levels": [f"level {k}" for k in range(levels)]}
    columns = {f"x{j}": number for j in range(numbers)} | {f"c{j}": flag for j in range(flags)}
    return Schema.parse({"columns": columns, "intercept": intercept})


SITUATIONS: dict[str, tuple[Schema, dict[str, bool]]] = {
    "numbers": (table(8), {}),
    "numbers, and levels that are fewer than half of the features": (table(8, 2), {}),
    "numbers, and levels that are half of the features or more": (table(8, 4, levels=5), {}),
    "levels alone": (table(0, 4), {}),
    "one number": (table(1), {}),
    "read once, sums in place of rows, or a private radius": (table(8), ONCE),
    "the same, 30 numbers": (table(30), ONCE),
    "8 numbers without an intercept": (table(8, intercept=0), {}),
    "30 numbers without an intercept": (table(30, intercept=0), {}),
}


def text() -> str:
    """The table: a line for each kind of data."""
    lines = [["the columns are", "taken"], ["---"] * 2]
    for situation, (schema, asked) in SITUATIONS.items():
        lines.append([situation, _cell(schema, asked)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(schema: Schema, asked: dict[str, bool]) -> str:
    """What is taken: once if it is the same for all kinds of budgets."""
    taken = {
        budget: _named(choose(schema, stated, Neighbors.ADD_REMOVE, **asked).mechanism)
        for budget, stated in BUDGETS.items()
    }
    if len(set(taken.values())) == 1:
        return taken["epsilon"]
    by_name: dict[str, list[str]] = {}
    for budget, name in taken.items():
        by_name.setdefault(name, []).append(budget)
    return "; ".join(f"{name} with {' or with '.join(kinds)}" for name, kinds in by_name.items())


def _named(mechanism: Any) -> str:
    """A mechanism's name, and the options that are not its usual ones."""
    options = {
        field.name: (getattr(mechanism, field.name), field.default) for field in fields(mechanism)
    }
    own = [f"{name}={value:g}" for name, (value, usual) in options.items() if value != usual]
    return f"`{mechanism.name}`" + (f" ({', '.join(own)})" if own else "")


def page() -> str:
    """The page with the table in its place."""
    found, count = MARKED.subn(lambda _: text(), PAGE.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{PAGE} has no place for the table")
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
