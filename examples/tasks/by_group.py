"""Table 1 by group: means in each department, compared with pandas."""

from __future__ import annotations

from side_by_side import release_of_visits, show, visits

import dpcov

table = visits()
found = dpcov.table1(release_of_visits(table), by="department")
expected = table.groupby("department").mean()
rows = []
for group, department in enumerate(found.groups):
    if department not in expected.index:
        continue  # the column for all rows
    for name in ("age", "smoker", "systolic", "hba1c"):
        at = found.columns.index(name)
        figures = (one[at, group] for one in (found.values, found.lower, found.upper))
        rows.append((f"{name} in {department}", *figures, expected.loc[department, name]))
show("Means and shares by department", "pandas", rows)
