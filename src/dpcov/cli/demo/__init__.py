"""Demo that runs all steps on a simulated table of hospital visits.

dpcov contains the table and its schema, so the demo needs no network connection. All values are
simulated; `benchmarks/simulated_visits.py` makes the table.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.printable import shown
from dpcov.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpcov.core.arrays import Matrix
    from dpcov.core.show.table import Table
    from dpcov.releases import Release

HERE = files(__name__)
# Epsilon of the release, and of the budget, which is enough for three releases.
EPSILON, BUDGET = 1.0, 3.0
SHOWN_PAIRS = 20  # number of pairs in the table of correlations
LEDGER = "visits.ledger"


def write_table(folder: Path) -> tuple[Path, Path]:
    """Write the table as CSV and its schema, and remove an earlier ledger; return both paths."""
    declared = (HERE / "visits.toml").read_text(encoding="utf-8")
    table, schema = folder / "visits.csv", folder / "visits.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = not any(folder.glob("visits.*")) or schema.read_text(encoding="utf-8") == declared
        if ours:
            table.write_bytes(gzip.decompress((HERE / "visits.csv.gz").read_bytes()))
            schema.write_text(declared, encoding="utf-8")
            (folder / LEDGER).unlink(missing_ok=True)
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise OutputError(
            f"The demo cannot write to {shown(folder)!r}, or the folder contains other files named "
            "visits.*. Choose another folder with --folder."
        )
    return table, schema


def run(folder: Path) -> Release:
    """Write a table, a schema and a ledger to `folder`, make a release, and print each step."""
    from dpcov.analysis.correlation import correlations
    from dpcov.analysis.summary import facts
    from dpcov.api import release
    from dpcov.api.ledger import Ledger
    from dpcov.core.privacy import PureDP
    from dpcov.core.show.text import print_tables

    print("1. A table, and a schema with public bounds")
    table, schema = write_table(folder)
    ledger_path, out = folder / LEDGER, folder / "visits.release.json"
    print(f"   {shown(table)}    25,762 simulated visits of 10,000 patients, 10 columns")
    print(f"   {shown(schema)}   protects each patient with all visits")

    print(f"2. A ledger with a budget of epsilon = {BUDGET:g}")
    ledger = Ledger.create(ledger_path, PureDP(BUDGET))

    print(f"3. A release with epsilon = {EPSILON:g}. The ledger records the spend first")
    made = release(table, schema=schema, epsilon=EPSILON, ledger=ledger)
    made.save(out, force=True)

    print("4. The results\n")
    *whole, listed = correlations(made, truth=true_correlations(table, made.columns)).tables()
    print_tables([facts(made), *whole, strongest(listed)])

    left = ledger.account().left["epsilon"]
    place = shown(out)
    print(f"\nRelease: {place}")
    print(f"Ledger:  {shown(ledger_path)}, epsilon left: {left:g}")
    print("Next, without further cost in privacy:")
    print(f"  dpcov table1 {place}")
    print(f"  dpcov ols {place} --target systolic")
    print(f"  dpcov report {place} --out {shown(folder / 'visits.html')}")
    return made


def strongest(pairs: Table) -> Table:
    """Return the first pairs of a table, with a note about the other pairs."""
    others = len(pairs.rows) - SHOWN_PAIRS
    note = f"The other {others} pairs are weaker; dpcov correlation lists them."
    return replace(pairs, rows=pairs.rows[:SHOWN_PAIRS], notes=(note, *pairs.notes))


def true_correlations(table: Path, features: Sequence[str]) -> Matrix:
    """Return the correlations of all visits without noise. The simulated table needs no privacy."""
    from pyarrow.csv import read_csv

    columns, rows = read_csv(table), []
    for name in features:
        column, _, level = name.partition("=")
        cells = columns[column].to_numpy()
        rows.append(cells == level if level else cells)
    return np.asarray(np.corrcoef(np.array(rows, np.float64)))
