"""Table 1: means of numbers and shares of levels, compared with pandas."""

from __future__ import annotations

import pandas as pd
from side_by_side import release_of_visits, show, visits

import dpcov

table = visits()
found = dpcov.table1(release_of_visits(table))
wide = pd.get_dummies(table, columns=["department"], prefix_sep="=", dtype=float)
wide["age_smoker"] = wide["age"] * wide["smoker"]
expected = wide.mean()
rows = [("rows", found.sizes[0], found.sizes_lower[0], found.sizes_upper[0], len(table))]
for at, name in enumerate(found.columns):
    figures = (one[at, 0] for one in (found.values, found.lower, found.upper))
    rows.append((f"{name} ({found.statistics[at]})", *figures, expected[name]))
show("Table 1", "pandas", rows)
