"""Cross table: counts, shares of rows and Cramer's V, compared with pandas and scipy."""

from __future__ import annotations

import pandas as pd
from scipy.stats.contingency import association
from side_by_side import release_of_visits, show, visits

import dpcov

table = visits()
found = dpcov.crosstab(release_of_visits(table), "department", "smoker")
expected = pd.crosstab(table["department"], table["smoker"])
rows = []
for i, department in enumerate(found.row_labels):
    counts = expected.loc[department]
    figures = (one[i, 1] for one in (found.counts, found.lower, found.upper))
    rows.append((f"smokers in {department}", *figures, counts[1]))
    shares = (found.row_shares, found.row_shares_lower, found.row_shares_upper)
    rows.append((f"share in {department}", *(one[i, 1] for one in shares), counts[1] / sum(counts)))
v = (found.cramers_v, found.cramers_v_lower, found.cramers_v_upper)
rows.append(("Cramer's V", *v, association(expected.to_numpy())))
show("Smokers by department", "pandas", rows)
