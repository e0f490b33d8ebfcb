"""Generate the table of the mechanisms that ``auto`` chooses.

The script calls the function that ``auto`` calls. ``python docs/_ext/decisions.py`` writes the
table into `docs/mechanisms.md`. A test compares the page with the table.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms.choice import choose
from dpcov.rows.schema import Schema

PAGE = Path(__file__).parents[1] / "mechanisms.md"
MARKED = re.compile(r"(?<=<!-- decisions -->\n\n).*?(?=\n\n<!-- /decisions -->)", re.DOTALL)
BUDGETS = {
    "epsilon": PureDP(1.0),
    "(epsilon, delta)": ApproxDP(1.0, 1e-9),
    "rho": ZCDP(0.1),
}
ONCE = {"rereadable": False}


def table(numbers: int, flags: int = 0, *, levels: int = 2, intercept: float = 0.3) -> Schema:
    """Return a schema with this many numeric columns and this many categorical columns (flags)."""
    number = {"kind": "numeric", "lower": 0, "upper": 1}
    flag = {"kind": "categorical", "levels": [f"level {k}" for k in range(levels)]}
    columns = {f"x{j}": number for j in range(numbers)} | {f"c{j}": flag for j in range(flags)}
    return Schema.parse({"columns": columns, "intercept": intercept})


SITUATIONS: dict[str, tuple[Schema, dict[str, bool]]] = {
    "8 numbers": (table(8), {}),
    "8 numbers and 2 columns of two categories each": (table(8, 2), {}),
    "8 numbers and 4 columns of five categories each": (table(8, 4, levels=5), {}),
    "4 columns of two categories each": (table(0, 4), {}),
    "1 number": (table(1), {}),
    "8 numbers; dpcov has only sums, or the radius is private": (table(8), ONCE),
    "30 numbers; dpcov has only sums, or the radius is private": (table(30), ONCE),
    "8 numbers without an intercept": (table(8, intercept=0), {}),
    "30 numbers without an intercept": (table(30, intercept=0), {}),
}


def text() -> str:
    """Return the table, with one line for each kind of data."""
    lines = [["the table contains", "`auto` chooses"], ["---"] * 2]
    for situation, (schema, asked) in SITUATIONS.items():
        lines.append([situation, _cell(schema, asked)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(schema: Schema, asked: dict[str, bool]) -> str:
    """Return the chosen mechanisms; one name if all budgets give the same mechanism."""
    taken = {
        budget: _named(choose(schema, stated, Neighbors.ADD_REMOVE, **asked).mechanism)
        for budget, stated in BUDGETS.items()
    }
    if len(set(taken.values())) == 1:
        return taken["epsilon"]
    by_name: dict[str, list[str]] = {}
    for budget, name in taken.items():
        by_name.setdefault(name, []).append(budget)
    return "; ".join(f"{name} for {' or '.join(kinds)}" for name, kinds in by_name.items())


def _named(mechanism: Any) -> str:
    """Return the name of a mechanism, and whether it estimates principal directions."""
    directions = getattr(mechanism, "directions_share", 0.0) > 0
    return f"`{mechanism.name}`" + (" with directions" if directions else "")


def page() -> str:
    """Return the page with the current table."""
    found, count = MARKED.subn(lambda _: text(), PAGE.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{PAGE} needs exactly one pair of decisions marks, but has {count}.")
    return found


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
