"""Census: 48,842 people and over a hundred features; who works how long.

The example uses the public Adult table (US census, 1994) from the repository's folder `data`. The
environment variable `DPCOV_DATA` can name another folder. If the table is not there, the example
simulates similar people. The example writes to the folder `census`.
"""

# %%
import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpcov

NEAR = "data" if Path("data").is_dir() else "../data"  # from the repository, or from `examples`
DATA = Path(os.environ.get("DPCOV_DATA", NEAR)) / "adult"
folder = Path("census")
folder.mkdir(exist_ok=True)

# %% [markdown]
# ## What each column can hold
#
# Bounds beyond which values are cut, and the categories as the table's documentation lists them,
# never as they occur in it.

# %%
NUMBERS: dict[str, tuple[float, float]] = {
    "age": (0, 100),
    "fnlwgt": (0, 1_500_000),
    "education-num": (1, 16),
    "capital-gain": (0, 20_000),
    "capital-loss": (0, 5_000),
    "hours-per-week": (1, 99),
}
MADE_UP = {
    "workclass": ["Private", "Government", "Self-employed"],
    "education": ["School", "College", "University"],
    "sex": ["Female", "Male"],
}


def documented_levels() -> dict[str, list[str]]:
    """Return the categories in the order of the table's documentation."""
    lines = (DATA / "adult.names").read_text().splitlines()
    stated = [line.partition(":") for line in lines if not line.startswith("|") and ":" in line]
    return {
        name: [level.strip(" .") for level in levels.split(",")]
        for name, _, levels in stated
        if "continuous" not in levels
    }


# %% [markdown]
# ## The people


# %%
def adult() -> pd.DataFrame:
    """Return the people of both files."""
    names = (DATA / "adult.names").read_text().splitlines()
    columns = [line.partition(":")[0] for line in names if ":" in line and line[0] != "|"]
    rows = []
    for file in ("adult.data.gz", "adult.test.gz"):
        with gzip.open(DATA / file, "rt") as lines:
            cells = [line.strip().split(", ") for line in lines]
        rows += [row[:-1] for row in cells if len(row) == len(columns) + 1]
    return pd.DataFrame(rows, columns=columns)


def made_up(count: int = 48_842) -> pd.DataFrame:
    """Simulate similar people."""
    rng = np.random.default_rng(1)
    education = rng.integers(1, 17, count)
    male = rng.random(count) < 0.6
    return pd.DataFrame(
        {
            "age": rng.integers(17, 90, count),
            "fnlwgt": rng.gamma(3, 60_000, count),
            "education-num": education,
            "capital-gain": np.where(rng.random(count) < 0.08, rng.gamma(1, 8_000, count), 0),
            "capital-loss": np.where(rng.random(count) < 0.05, rng.gamma(9, 200, count), 0),
            "hours-per-week": (30 + 0.5 * education + 6 * male + rng.normal(0, 11, count)).clip(1),
            "workclass": rng.choice(MADE_UP["workclass"], count, p=[0.75, 0.15, 0.1]),
            "education": np.array(MADE_UP["education"])[(education - 1) * 3 // 16],
            "sex": np.where(male, "Male", "Female"),
        }
    )


present = DATA.is_dir()
people, levels = (adult(), documented_levels()) if present else (made_up(), MADE_UP)
print(f"{len(people):,} people, {'the Adult table' if present else 'made up'}")
table = folder / "census.parquet"
people.astype(dict.fromkeys(NUMBERS, float)).to_parquet(table)

# %% [markdown]
# ## One release

# %%
columns: dict[str, dict[str, Any]] = {
    name: {"kind": "numeric", "lower": low, "upper": high} for name, (low, high) in NUMBERS.items()
}
columns |= {name: {"kind": "categorical", "levels": own} for name, own in levels.items()}
schema = dpcov.Schema.parse({"missing": ["?"], "columns": columns})
release = dpcov.release(table, schema=schema, epsilon=1.0)
release.save(folder / "census.release.json", force=True)
print(f"{len(release.columns)} features; mechanism {release.mechanism}")
print(release.guarantee_in_words())

# %% [markdown]
# ## Everything else from it, at no further cost
#
# Hours of work a week: the strongest coefficients of a ridge regression.

# %%
model = dpcov.ridge(release, "hours-per-week")
strongest = np.argsort(-np.abs(model.coefficients))[:5]
for place in strongest:
    print(f"  {model.coefficients[place]:8.2f}  {model.columns[place]}")

# %%
share = dict(zip(release.columns, release.mean(), strict=True))
error = abs(share["sex=Female"] - np.mean(people["sex"] == "Female"))
print(f"share of women {share['sex=Female']:.3f}, off by {error:.4f}")

# %% [markdown]
# Made-up rows with the same means and covariances, for testing code:

# %%
rows = dpcov.sample(release, 1000)
print(f"{rows.num_rows:,} rows, {rows.num_columns} columns")
print("Next: dpcov report census/census.release.json --out census.html")
