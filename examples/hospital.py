"""Hospital: persons with many visits, a budget for the year, a page for the ward.

The visits are simulated, so the example can compare the results with the truth at the end. It
writes to the folder `hospital`.
"""

# %%
from pathlib import Path

import numpy as np
import pandas as pd

import dpcov
from dpcov.errors import BudgetExceededError

folder = Path("hospital")
folder.mkdir(exist_ok=True)

# %% [markdown]
# ## The schema
#
# What each column can hold, from medical knowledge and the hospital's rules, never from the
# visits. A patient is protected, not a visit.

# %%
schema = folder / "visits.toml"
schema.write_text(
    """\
[unit]
column = "patient"
type = "integer"       # what equal ids are
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
""",
    encoding="utf-8",
)


# %% [markdown]
# ## The plan
#
# Before anything is spent: the errors to expect of correlations with 12,000 patients.

# %%
for epsilon in (0.5, 1.0):
    plan = dpcov.plan(schema, 12_000, epsilon=epsilon, mechanism="nuclear-laplace", factors=())
    print(f"  epsilon {epsilon:g}: {plan.predictions[0].errors.correlation:.3f}")


# %% [markdown]
# ## The table
#
# Visits of made-up patients, one to nine of each.


# %%
def made_up_visits(patients: int = 12_000) -> pd.DataFrame:
    """Simulate visits that depend on age and on smoking."""
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


visits = made_up_visits()

# %% [markdown]
# ## The release
#
# The ledger holds the budget of the year, epsilon 1.5. The release spends 1 of it.

# %%
ledger = folder / "ward.ledger"
ledger.unlink(missing_ok=True)
dpcov.Ledger.create(ledger, dpcov.PureDP(1.5))
release = dpcov.release(visits, schema=schema, epsilon=1.0, ledger=ledger)
release.save(folder / "ward.release.json", force=True)
print(release.guarantee_in_words())

# %% [markdown]
# ## What it says
#
# Correlations with the days in the ward: private value, 95% interval for the noise, true value.

# %%
at = {name: place for place, name in enumerate(release.columns)}
intervals = dpcov.intervals(release, "correlation", sampling=False)
kept = visits.groupby("patient").head(4)
for name in ("age", "systolic", "cholesterol"):
    i, j = at[name], at["days"]
    private = release.correlation()[i, j]
    low, high = intervals.low[i, j], intervals.high[i, j]
    truth = kept[name].corr(kept["days"])
    print(f"  {name:12} {private:.3f}  [{low:.3f}, {high:.3f}]  {truth:.3f}")

# %%
print(dpcov.ols(release, "days", ["age", "systolic", "smoker=yes"]).summary())

# %% [markdown]
# ## A page for the ward, and what is left

# %%
account = dpcov.Ledger.open(ledger).account()
dpcov.report.write(
    release, folder / "ward.html", force=True, target="days", account=account, title="The ward"
)

# %%
try:
    dpcov.release(visits, schema=schema, epsilon=1.0, ledger=ledger)
except BudgetExceededError as refusal:
    print(f"A second release: {refusal}")
