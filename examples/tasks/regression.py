"""Regression with a factor, compared with statsmodels: coefficients, contrast and prediction."""

from __future__ import annotations

import pandas as pd
import statsmodels.formula.api as smf
from side_by_side import release_of_visits, show, visits

import dpcov

FORMULA = "systolic ~ age + bmi + C(department, ref='general')"
CARDIOLOGY, DIABETES = (
    f"C(department, ref='general')[T.{one}]" for one in ("cardiology", "diabetes")
)

table = visits()
fit = dpcov.ols(release_of_visits(table), FORMULA)
peer = smf.ols(FORMULA.replace("ref='general'", "Treatment('general')"), table).fit()
expected = {
    name.replace("Treatment('general')", "ref='general'").replace("Intercept", "(intercept)"): value
    for name, value in peer.params.items()
}
ends = zip(fit.names, fit.coefficients, *fit.conf_int().T, strict=True)
rows = [(*one, expected[one[0]]) for one in ends]
contrast = fit.contrast({CARDIOLOGY: 1, DIABETES: -1})
difference = expected[CARDIOLOGY] - expected[DIABETES]
rows.append(
    ("cardiology minus diabetes", contrast.estimate, contrast.lower, contrast.upper, difference)
)
new = pd.DataFrame({"age": [60.0], "bmi": [27.0], "department": ["cardiology"]})
mean, reach = fit.predict(new)[0], 1.96 * fit.prediction_errors(new)[0]
rows.append(("mean at 60 years, bmi 27", mean, mean - reach, mean + reach, peer.predict(new)[0]))
show("Regression of systolic blood pressure", "statsmodels", rows)
print(fit.wald_test("department").words)
