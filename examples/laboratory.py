"""Laboratory: which measures of a voice belong together, given all the others.

Uses 5,875 recordings of 42 people with Parkinson's disease (public; Tsanas et al. 2009) from the
repository's folder `data`, or the one that the environment variable `DPCOV_DATA` names, and made-up
recordings where they are not there. It writes to the folder `laboratory`.

A recording is protected here, not a person: with 42 people nothing could be said that protects
each of them. Who publishes about people needs many of them, and `[unit]` in the schema.
"""

# %%
import os
from pathlib import Path

import numpy as np
import pandas as pd

import dpcov

NEAR = "data" if Path("data").is_dir() else "../data"  # from the repository, or from `examples`
DATA = Path(os.environ.get("DPCOV_DATA", NEAR))
recordings = DATA / "parkinsons_telemonitoring" / "parkinsons_updrs.data"
folder = Path("laboratory")
folder.mkdir(exist_ok=True)

# %% [markdown]
# ## The schema
#
# Bounds from what the measures mean; generous, which the mechanism `standardized` forgives.

# %%
BOUNDS: dict[str, tuple[float, float]] = {
    "age": (0, 120),
    "motor_UPDRS": (0, 108),
    "total_UPDRS": (0, 176),
    "Jitter(%)": (0, 0.1),
    "Shimmer": (0, 0.5),
    "NHR": (0, 1),
    "HNR": (0, 50),
    "RPDE": (0, 1),
    "DFA": (0, 1),
    "PPE": (0, 1),
}
schema = dpcov.Schema.parse(
    {
        "columns": {
            name: {"kind": "numeric", "lower": low, "upper": high}
            for name, (low, high) in BOUNDS.items()
        }
    }
)


# %% [markdown]
# ## The recordings


# %%
def made_up(count: int = 5_875) -> pd.DataFrame:
    """Return two scores of a disease, and measures of the voice that depend on each other."""
    rng = np.random.default_rng(1)
    shares = {"age": rng.normal(0, 0.06, count), "motor_UPDRS": rng.normal(0, 0.07, count)}
    shares["total_UPDRS"] = 0.9 * shares["motor_UPDRS"] + rng.normal(0, 0.02, count)
    before = rng.normal(0, 0.06, count)
    for name in list(BOUNDS)[3:]:
        shares[name] = before = 0.6 * before + rng.normal(0, 0.05, count)
    return pd.DataFrame(
        {name: low + (high - low) * (0.4 + shares[name]) for name, (low, high) in BOUNDS.items()}
    )


present = recordings.is_file()
table = folder / "recordings.csv"
if present:
    table.write_bytes(recordings.read_bytes())
else:
    made_up().to_csv(table, index=False)
print(f"The recordings are {'real' if present else 'made up'}.")

# %% [markdown]
# ## A release about features in units of their spread

# %%
release = dpcov.release(table, schema=schema, epsilon=2.0, mechanism="standardized")
release.save(folder / "voices.release.json", force=True)
print(release.guarantee_in_words())

# %% [markdown]
# ## A sparse graph
#
# Pairs that are related given all other measures, and how many of 20 simulated releases agree.

# %%
graph = dpcov.precision(release, draws=20)
print(f"{len(graph.edges)} pairs are related given all other measures; the strongest:")
for edge in graph.edges[:8]:
    pair = f"{edge.first} - {edge.second}"
    print(f"  {edge.partial_correlation:6.2f}  {pair:28} in {edge.stability:.0%} of simulations")

# %%
axes = dpcov.plot.graph(graph)
axes.figure.savefig(folder / "voices.svg")
