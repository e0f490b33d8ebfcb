"""Compare the half widths that `dpcov plan` predicts with those that releases of real tables state.

The script cuts each of five tables at random into halves. One half is known, as last year's table
would be, and dpcov releases the other half 50 times at each budget. For a correlation, a regression
coefficient and a share, the script notes the median half width that the 50 releases state. A plan
should contain this median in its likely range, in at least 90% of the 60 cells. The plan knows
either the spread of each column and the typical correlation, each rounded to one digit, or a
release of the known half. `make bench NAME=half_widths` runs the script.

Four tables are public. The demo's table of visits is simulated, and each visit counts as a person.
The first 17 cells influenced the factor of the range: a release of the known half first had a
narrower range.
"""

from __future__ import annotations

import gzip
import io
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.resources import files
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import statsmodels.datasets

from datasets import ADULT_COLUMNS, RAND, RAND_SCHEMA, adult_lines, found, recordings
from dpcov.api.plans import _Planner
from dpcov.api.plans.half_widths import FIRST_RELEASES, WIDTH_RELEASES, _Simulation
from dpcov.api.plans.quantities import Quantity
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.core.steps import Steps
from dpcov.rows.schema import Schema
from plan_calibration import Halves, _automatic, _released, guesses
from results import Kept, show

EPSILONS = (1.0, 3.0)
REPEATS = 50
BAR = 0.9
KINDS = ("each column", "a release")
Quantities = Sequence[Quantity]


def schema_of(columns: dict[str, Any]) -> Schema:
    """Return a schema of flags ("flag"), categories (lists) and numbers with bounds (tuples)."""
    declared: dict[str, Any] = {}
    for name, stated in columns.items():
        if stated == "flag":
            declared[name] = {"kind": "flag"}
        elif isinstance(stated, list):
            declared[name] = {"kind": "categorical", "levels": stated, "missing": "none"}
        else:
            declared[name] = {"kind": "number", "lower": stated[0], "upper": stated[1]}
    return Schema.parse(
        {"version": 3, "defaults": {"missing": {"numbers": "none"}}, "columns": declared}
    )


def quantities(pair: str, coefficient: str, share: str) -> Quantities:
    """Return the three quantities of a table, each named by words with blanks."""
    return (
        Quantity("pair", tuple(pair.split())),
        Quantity("coefficient", tuple(coefficient.split())),
        Quantity("share", (share,)),
    )


def health() -> tuple[Halves, Quantities]:
    """Return the RAND health insurance table."""
    halves = Halves.of(pacsv.read_csv(found(RAND)), Schema.load(RAND_SCHEMA))
    return halves, quantities("mdvis disea", "mdvis disea", "hlthg")


def adult() -> tuple[Halves, Quantities]:
    """Return five columns of Adult."""
    cells = [line.split(",") for line in adult_lines()]
    values = {name: [row[j] for row in cells] for j, name in enumerate(ADULT_COLUMNS[:-1])}
    columns: dict[str, Any] = {
        "age": (15, 95),
        "education-num": (0, 16),
        "hours-per-week": (0, 100),
        "sex": sorted(set(values["sex"])),
        "relationship": sorted(set(values["relationship"])),
    }
    table = {
        name: values[name] if isinstance(stated, list) else np.array(values[name], float)
        for name, stated in columns.items()
    }
    asked = "age hours-per-week", "hours-per-week education-num", f"sex={columns['sex'][0]}"
    return Halves.of(pa.table(table), schema_of(columns)), quantities(*asked)


def parkinson() -> tuple[Halves, Quantities]:
    """Return six columns of the telemonitoring of patients with Parkinson's disease."""
    columns = {"age": (0, 120), "sex": "flag", "motor_UPDRS": (0, 108), "total_UPDRS": (0, 176)}
    columns |= {"HNR": (0, 40), "PPE": (0, 1)}
    whole = recordings()
    table = pa.table({name: whole[name].astype(float) for name in columns})
    asked = "age total_UPDRS", "total_UPDRS age", "sex"
    return Halves.of(table, schema_of(columns)), quantities(*asked)


def marriages() -> tuple[Halves, Quantities]:
    """Return Fair's survey of married women, from statsmodels."""
    whole = statsmodels.datasets.fair.load_pandas().data
    columns: dict[str, Any] = {
        "rate_marriage": (1, 5),
        "age": (15, 50),
        "yrs_married": (0, 30),
        "children": (0, 10),
        "religious": (1, 4),
        "educ": (5, 20),
        "occupation": [str(level) for level in range(1, 7)],
    }
    table = {name: whole[name].to_numpy(float) for name in columns}
    table["occupation"] = [str(int(level)) for level in whole["occupation"]]
    asked = "religious educ", "rate_marriage age", "occupation=3"
    return Halves.of(pa.table(table), schema_of(columns)), quantities(*asked)


def visits() -> tuple[Halves, Quantities]:
    """Return the visits of the demo."""
    folder = files("dpcov.cli.demo")
    document = tomllib.loads((folder / "visits.toml").read_text(encoding="utf-8"))
    document.pop("unit")
    packed = io.BytesIO(gzip.decompress((folder / "visits.csv.gz").read_bytes()))
    table = pacsv.read_csv(packed).drop_columns(["patient"])
    asked = "age systolic", "systolic bmi", "smoker"
    return Halves.of(table, Schema.parse(document)), quantities(*asked)


TABLES: dict[str, Callable[[], tuple[Halves, Quantities]]] = {
    "health": health,
    "adult": adult,
    "parkinson": parkinson,
    "marriages": marriages,
    "visits": visits,
}


def compared(name: str) -> Iterator[dict[str, Any]]:
    """Yield one cell for each budget, quantity and kind of assumptions."""
    halves, asked = TABLES[name]()
    known = guesses(halves.known)
    rows = halves.rows.second_moments()[0].unit_count
    for epsilon in EPSILONS:
        budget = PureDP(epsilon)
        mechanism = _automatic(halves.rows.schema, budget)
        releases = (_released(mechanism, halves.rows, budget, seed) for seed in range(REPEATS))
        stated = [[one.widths(made).total for one in asked] for made in releases]
        for at, quantity in enumerate(asked):
            median = float(np.median([widths[at] for widths in stated]))
            for kind in KINDS:
                planner = _Planner(halves.rows.schema, Neighbors.ADD_REMOVE, known[kind])
                simulation = _Simulation(planner, quantity, "auto", rows)
                first = simulation.at(budget, FIRST_RELEASES)
                found = simulation.at(budget, WIDTH_RELEASES)
                low, high = simulation.likely(found, Steps(1))
                yield {
                    "table": name,
                    "epsilon": epsilon,
                    "quantity": quantity.kind,
                    "known": kind,
                    "first": first.half_width,
                    "predicted": found.half_width,
                    "low": low,
                    "high": high,
                    "stated": median,
                    "ok": bool(low <= median <= high),
                }


def main() -> int:
    kept = Kept("half_widths.json", "make bench NAME=half_widths")
    for name in TABLES:
        kept.part(name, partial(compared, name))
    show("Half widths that plans predict and releases state", kept.rows)
    inside = [cell["ok"] for cell in kept.rows]
    width = np.median([cell["high"] / cell["low"] for cell in kept.rows])
    print(f"{sum(inside)} of {len(inside)} medians are in the range; its median width: {width:.2g}")
    return int(not (kept.done() and np.mean(inside) >= BAR))


if __name__ == "__main__":
    sys.exit(main())
