"""Demo that runs all steps on a public health table.

The table comes from the RAND Health Insurance Experiment, as statsmodels distributes it (public
domain). dpcov contains the table and its schema, so the demo needs no network connection.
"""

from __future__ import annotations

import gzip
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpcov.core.printable import shown
from dpcov.errors import OutputError

if TYPE_CHECKING:
    from dpcov.releases import Release

HERE = files(__name__)
# Epsilon of the release, and of the budget, which is enough for three releases.
EPSILON, BUDGET = 1.0, 3.0
LEDGER = "health.ledger"


def write_table(folder: Path) -> tuple[Path, Path]:
    """Write the table as CSV and its schema, and remove an earlier ledger; return both paths."""
    declared = (HERE / "health.toml").read_text(encoding="utf-8")
    table, schema = folder / "health.csv", folder / "health.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = not any(folder.glob("health.*")) or schema.read_text(encoding="utf-8") == declared
        if ours:
            table.write_bytes(gzip.decompress((HERE / "health.csv.gz").read_bytes()))
            schema.write_text(declared, encoding="utf-8")
            (folder / LEDGER).unlink(missing_ok=True)
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise OutputError(
            f"The demo cannot write to {shown(folder)!r}, or the folder contains other files named "
            "health.*. Choose another folder with --folder."
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
    ledger_path, out = folder / LEDGER, folder / "health.release.json"
    size = "20,190 rows x 10 columns (RAND Health Insurance Experiment, public domain)"
    print(f"   {shown(table)}   {size}")
    print(f"   {shown(schema)}")

    print(f"2. A ledger with a budget of epsilon = {BUDGET:g}")
    ledger = Ledger.create(ledger_path, PureDP(BUDGET))

    print(f"3. A release with epsilon = {EPSILON:g}. The ledger records the spend first")
    made = release(table, schema=schema, epsilon=EPSILON, ledger=ledger)
    made.save(out, force=True)

    print("4. The results\n")
    truth = np.asarray(np.corrcoef(np.loadtxt(table, delimiter=",", skiprows=1), rowvar=False))
    print_tables([facts(made), *correlations(made, truth=truth).tables()])

    left = ledger.account().left["epsilon"]
    place = shown(out)
    print(f"\nRelease:  {place}\n          Further analyses of this file cost no privacy:")
    print(f"          dpcov show {place}\n          dpcov correlation {place}")
    print(f"Ledger:   {shown(ledger_path)}, epsilon left: {left:g}")
    print(f"          dpcov ledger show {shown(ledger_path)}")
    return made
