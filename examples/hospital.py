"""Hospital: persons with many visits, a budget for the year, a page for the ward.

The visits are made up, so that the story ends with a look at the truth. Run it with the folder that
it may write to: ``python examples/hospital.py hospital``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import dpcov
from dpcov.errors import BudgetExceededError

SCHEMA = """\
[unit]                 # a patient is protected, not a visit
column = "patient"
max_rows = 4           # four visits of each count

[columns.age]
kind = "numeric"
lower = 0
upper = 110

[columns.systolic]     # mmHg
kind = "numeric"
lower = 70
upper = 220

[columns.cholesterol]  # mmol/l
kind = "numeric"
lower = 1
upper = 12

[columns.smoker]
kind = "categorical"
levels = ["yes", "no"]

[columns.days]         # in the ward; more than 30 count as 30
kind = "numeric"
lower = 0
upper = 30
"""


def made_up_visits(patients: int = 12_000) -> pd.DataFrame:
    """Visits of made-up patients, one to nine of each."""
    rng = np.random.default_rng(1)
    ages = rng.uniform(18, 95, patients)
    smokes = rng.random(patients) < 0.25
    patient = np.repeat(np.arange(patients), rng.integers(1, 10, patients))
    age, smoker, count = ages[patient], smokes[patient], len(patient)
    systolic = 95 + 0.5 * age + 6 * smoker + rng.normal(0, 12, count)
    cholesterol = 3.5 + 0.015 * age + 0.5 * smoker + rng.normal(0, 0.9, count)
    days = rng.gamma(2, 1 + 0.02 * age + 0.8 * smoker)
    return pd.DataFrame(
        {
            "patient": patient,
            "age": age,
            "systolic": systolic,
            "cholesterol": cholesterol,
            "smoker": np.where(smoker, "yes", "no"),
            "days": days,
        }
    )


def main(folder: Path) -> None:
    """Plan, release, analyse, report; then ask for more than the budget allows."""
    folder.mkdir(parents=True, exist_ok=True)
    schema = folder / "visits.toml"
    schema.write_text(SCHEMA, encoding="utf-8")

    print("Before anything is spent: errors to expect of correlations with 12,000 patients")
    for epsilon in (0.5, 1.0):
        plan = dpcov.plan(schema, 12_000, epsilon=epsilon, mechanism="nuclear-laplace", factors=())
        print(f"  epsilon {epsilon:g}: {plan.predictions[0].errors.correlation:.3f}")

    ledger = folder / "ward.ledger"
    ledger.unlink(missing_ok=True)
    dpcov.Ledger.create(ledger, dpcov.PureDP(1.5))
    visits = made_up_visits()
    release = dpcov.release(visits, schema=schema, epsilon=1.0, ledger=ledger)
    release.save(folder / "ward.release.json", force=True)
    print(release.guarantee_in_words())

    at = {name: place for place, name in enumerate(release.columns)}
    intervals = dpcov.intervals(release, "correlation", sampling=False)
    kept = visits.groupby("patient").head(4)
    print("Correlations with the days in the ward: private, 95 % interval for the noise, truth")
    for name in ("age", "systolic", "cholesterol"):
        i, j = at[name], at["days"]
        private = release.correlation()[i, j]
        low, high = intervals.low[i, j], intervals.high[i, j]
        truth = kept[name].corr(kept["days"])
        print(f"  {name:12} {private:.3f}  [{low:.3f}, {high:.3f}]  {truth:.3f}")

    print(dpcov.ols(release, "days", ["age", "systolic", "smoker=yes"]).summary())
    account = dpcov.Ledger.open(ledger).account()
    dpcov.report.write(
        release, folder / "ward.html", force=True, target="days", account=account, title="The ward"
    )

    try:
        dpcov.release(visits, schema=schema, epsilon=1.0, ledger=ledger)
    except BudgetExceededError as refusal:
        print(f"A second release: {refusal}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "hospital"))
