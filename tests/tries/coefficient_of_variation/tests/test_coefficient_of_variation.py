"""The table of columns has coefficients of variation with intervals."""

import numpy as np
import pytest

from analysis_tables import NUMBERS, released, table
from dpcov.analysis.covariance import covariances


def test_coefficients_of_variation_are_those_of_the_table_and_in_their_intervals():
    made = released(1e6)
    found = covariances(made).document()
    exact = table()[NUMBERS].std(ddof=0) / table()[NUMBERS].mean().abs()
    name = "coefficient_of_variation"
    values = dict(zip(made.columns, found[name], strict=True))
    assert [values[one] for one in NUMBERS] == pytest.approx(list(exact), rel=1e-3)
    assert np.all(found[f"{name}_lower"] <= found[name])
    assert np.all(found[name] <= found[f"{name}_upper"])
    assert "coefficient of variation" in covariances(made).summary()
