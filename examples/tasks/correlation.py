"""One correlation, compared with pandas.

The interval for the population covers privacy noise and sampling. The interval for the rows of the
table covers only the privacy noise.
"""

from __future__ import annotations

from side_by_side import release_of_visits, show, visits

import dpcov

table = visits()
found = dpcov.correlation(release_of_visits(table), "age", "systolic")
expected = table["age"].corr(table["systolic"])
rows = [
    ("for the population", found.correlation, found.lower, found.upper, expected),
    ("for the rows", found.correlation, found.noise_lower, found.noise_upper, expected),
]
show("Correlation of age and systolic blood pressure", "pandas", rows)
