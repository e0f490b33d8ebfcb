"""The whole journey on a real health table that is public and comes with statsmodels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dpcov.errors import OutputError, SourceError
from dpcov.printable import shown

if TYPE_CHECKING:
    from dpcov.releases import Release

SCHEMA = """\
# RAND Health Insurance Experiment (1974-1982), one row per person and year. Public domain.
# The bounds come from what the columns mean, not from the data.
missing = ["", "NA"]

[columns.mdvis]    # outpatient visits to a doctor in the year
kind = "numeric"
lower = 0
upper = 30

[columns.lncoins]  # ln(coinsurance rate in per cent + 1), rate from 0 to 100
kind = "numeric"
lower = 0
upper = 5

[columns.idp]      # 1 if the plan has an individual deductible
kind = "numeric"
lower = 0
upper = 1

[columns.lpi]      # ln(max(1, annual participation incentive payment in dollars))
kind = "numeric"
lower = 0
upper = 8

[columns.fmde]     # ln(max(1, maximum dollar expenditure / coinsurance rate)), 0 with a deductible
kind = "numeric"
lower = 0
upper = 9

[columns.physlm]   # 1 if the person has a physical limitation
kind = "numeric"
lower = 0
upper = 1

[columns.disea]    # number of chronic diseases
kind = "numeric"
lower = 0
upper = 60

[columns.hlthg]    # 1 if self-rated health is good
kind = "numeric"
lower = 0
upper = 1

[columns.hlthf]    # 1 if self-rated health is fair
kind = "numeric"
lower = 0
upper = 1

[columns.hlthp]    # 1 if self-rated health is poor
kind = "numeric"
lower = 0
upper = 1
"""

EPSILON = 1.0
BUDGET = 3.0


def write_table(folder: Path) -> tuple[Path, Path]:
    """Write the table as CSV and its schema; returns both paths."""
    try:
        from statsmodels.datasets import randhie
    except ImportError:
        raise SourceError(
            "The demo's table comes with statsmodels. Install it with: pip install 'dpcov[demo]'"
        ) from None
    table, schema = folder / "health.csv", folder / "health.toml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        ours = not any(folder.glob("health.*")) or schema.read_text(encoding="utf-8") == SCHEMA
    except (OSError, ValueError):
        ours = False
    if not ours:
        raise OutputError(
            f"{shown(folder)!r} is no folder that the demo can use: it can't be written, or holds "
            "files named health.* that the demo did not make. Give another one by --folder."
        )
    randhie.load_pandas().data.to_csv(table, index=False)
    schema.write_text(SCHEMA, encoding="utf-8")
    return table, schema


def run(folder: Path) -> Release:
    """Write table, schema and ledger to `folder` and make a release; prints each step."""
    from dpcov.analysis.correlation import correlations
    from dpcov.analysis.summary import facts
    from dpcov.api import release
    from dpcov.ledger import Ledger
    from dpcov.privacy import PureDP
    from dpcov.show.text import print_tables

    print("1. A table and its schema of public bounds")
    table, schema = write_table(folder)
    ledger_path, out = folder / "health.ledger", folder / "health.release.json"
    size = "20,190 rows x 10 columns (RAND Health Insurance Experiment, public domain)"
    print(f"   {shown(table)}   {size}")
    print(f"   {shown(schema)}")

    print(f"2. A ledger with a budget of epsilon = {BUDGET:g}")
    ledger_path.unlink(missing_ok=True)
    ledger = Ledger.create(ledger_path, PureDP(BUDGET))

    print(f"3. A release at epsilon = {EPSILON:g}; the spend is booked before any noise is drawn")
    made = release(table, schema=schema, epsilon=EPSILON, ledger=ledger)
    made.save(out, force=True)

    print("4. What came out\n")
    truth = np.asarray(np.corrcoef(np.loadtxt(table, delimiter=",", skiprows=1), rowvar=False))
    print_tables([facts(made), *correlations(made, truth=truth).tables()])

    left = ledger.account().to_json()["left"]["epsilon"]
    place = shown(out)
    print(
        f"\nRelease:  {place}\n          everything else is computed from it, at no further cost:"
    )
    print(f"          dpcov show {place}\n          dpcov correlation {place}")
    print(f"Ledger:   {shown(ledger_path)}, epsilon left: {left:g}")
    print(f"          dpcov ledger show {shown(ledger_path)}")
    return made
