"""Interaction of a number and a flag in a regression, compared with statsmodels.

The schema declares the product of both columns as a derived column, so the release contains it.
"""

from __future__ import annotations

import statsmodels.formula.api as smf
from side_by_side import release_of_visits, show, visits

import dpcov

FORMULA = "systolic ~ age * smoker"

table = visits()
fit = dpcov.ols(release_of_visits(table), FORMULA)
expected = smf.ols(FORMULA, table).fit().params.rename({"Intercept": "(intercept)"})
ends = zip(fit.names, fit.coefficients, *fit.conf_int().T, strict=True)
rows = [(*one, expected[one[0]]) for one in ends]
for name, weights in {
    "slope of age in smokers": {"age": 1, "age:smoker": 1},
    "effect of smoking at 50 years": {"smoker": 1, "age:smoker": 50},
}.items():
    found = fit.contrast(weights)
    truth = sum(weight * expected[one] for one, weight in weights.items())
    rows.append((name, found.estimate, found.lower, found.upper, truth))
show("Regression with an interaction", "statsmodels", rows)
