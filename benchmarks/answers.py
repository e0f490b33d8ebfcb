"""Measure how often the intervals of Table 1 and of contingency tables cover the population.

    make bench NAME=answers [ARGS="--repeats 100"]

Each repetition draws a table from a known population, releases it and asks for `table1` by group
and for `crosstab`. The script counts how often the 95% intervals for privacy noise and sampling
cover the figures of the population. It compares the median width of the intervals with the width
of an ideal interval: 3.92 times the root mean square error of the figure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

import dpcov
from results import Kept, show

COUNTS = (2000, 20_000)
EPSILONS = (0.3, 1.0)
REPEATS = 1000
LOW, HIGH, WIDEST = 0.93, 0.97, 1.5  # Acceptable coverage, and largest ratio of the widths.
SHARES = np.array([0.5, 0.3, 0.2])  # Shares of the wards.
SMOKERS = np.array([0.2, 0.35, 0.5])  # Share of smokers in each ward.
AGES = np.array([40.0, 50.0, 62.0])  # Mean age in each ward.
DEVIATION = 10.0  # Standard deviation of the ages in a ward.
WARDS = ("a", "b", "c")
SCHEMA = {
    "version": 3,
    "columns": {
        "ward": {"kind": "categorical", "levels": list(WARDS), "missing": "none"},
        "smoker": {"kind": "flag", "missing": "none"},
        "age": {"kind": "number", "lower": 0, "upper": 110, "missing": "none"},
    },
}
Figures = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]


def drawn(count: int, generator: np.random.Generator) -> pd.DataFrame:
    """Return a table that is drawn from the population."""
    ward = generator.choice(3, count, p=SHARES)
    smoker = (generator.random(count) < SMOKERS[ward]) * 1.0
    age = np.clip(generator.normal(AGES[ward], DEVIATION), 0, 110)
    return pd.DataFrame({"ward": np.array(WARDS)[ward], "smoker": smoker, "age": age})


def truths(count: int) -> dict[str, np.ndarray]:
    """Return the figures of the population. Each count is the expected count of a table."""
    smoking = SHARES * SMOKERS
    cells = np.column_stack([SHARES - smoking, smoking])
    return {
        "mean by group": AGES,
        "share by group": SMOKERS,
        "size of a group": count * SHARES,
        "cell": count * cells,
        "row share": cells / cells.sum(axis=1, keepdims=True),
        "column share": cells / cells.sum(axis=0),
        "Cramer's V": np.array(_cramers_v(cells)),
    }


def _cramers_v(cells: np.ndarray) -> float:
    """Return Cramer's V of the shares of a table with two columns."""
    expected = np.outer(cells.sum(axis=1), cells.sum(axis=0))
    return float(np.sqrt(np.sum((cells - expected) ** 2 / expected)))


def asked(release: dpcov.Release) -> Figures:
    """Return the figures of a release with the ends of their intervals."""
    table, cross = dpcov.table1(release, "ward"), dpcov.crosstab(release, "ward", "smoker")
    groups = [table.groups.index(ward) for ward in WARDS]
    age, smoker = (table.columns.index(name) for name in ("age", "smoker"))
    rows = [cross.row_labels.index(ward) for ward in WARDS]
    means = (table.values, table.lower, table.upper)
    found = {
        "mean by group": tuple(one[age, groups] for one in means),
        "share by group": tuple(one[smoker, groups] for one in means),
        "size of a group": tuple(
            one[groups] for one in (table.sizes, table.sizes_lower, table.sizes_upper)
        ),
    }
    for name, of in {
        "cell": "",
        "row share": "row_shares",
        "column share": "column_shares",
    }.items():
        names = [of or "counts", *(f"{of}_{end}".lstrip("_") for end in ("lower", "upper"))]
        found[name] = tuple(getattr(cross, one)[rows] for one in names)
    v = (cross.cramers_v, cross.cramers_v_lower, cross.cramers_v_upper)
    return found | {"Cramer's V": tuple(map(np.array, v))}  # type: ignore[return-value]


def measured(count: int, epsilon: float, repeats: int) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of figure."""
    schema, found = dpcov.Schema.parse(SCHEMA), list[Figures]()
    for seed in range(repeats):
        table = drawn(count, np.random.default_rng(seed))
        found.append(asked(dpcov.release(table, schema=schema, epsilon=epsilon, seed=seed)))
    for name, truth in truths(count).items():
        value, low, high = (np.array([one[name][at] for one in found]) for at in range(3))
        covered = (low <= truth) & (truth <= high)
        error = np.sqrt(np.mean((value - truth) ** 2, axis=0))
        width = np.median(high - low, axis=0) / (3.92 * error)
        share = float(covered.mean())
        good = bool(LOW <= share <= HIGH and np.max(width) <= WIDEST)
        yield {
            "n": count,
            "epsilon": epsilon,
            "figure": name,
            "releases": repeats,
            "covered": share,
            "least covered": float(np.min(covered.mean(axis=0))),
            "width / ideal": float(np.max(width)),
            "holds": good,
        }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=REPEATS, help="releases in each cell")
    repeats = parser.parse_args().repeats
    options = "" if repeats == REPEATS else f' ARGS="--repeats {repeats}"'
    kept = Kept("answers.json", f"make bench NAME=answers{options}")
    cells = {(row["n"], row["epsilon"], row["releases"]) for row in kept.go_on()}
    for count, epsilon in product(COUNTS, EPSILONS):
        if (count, epsilon, repeats) in cells:
            continue  # an earlier run has measured it
        kept.part(f"{count} {epsilon}", lambda n=count, e=epsilon: measured(n, e, repeats))
    show("Coverage of 95% intervals for privacy noise and sampling", kept.rows)
    return int(not kept.done() or not all(row["holds"] for row in kept.rows))


if __name__ == "__main__":
    sys.exit(main())
