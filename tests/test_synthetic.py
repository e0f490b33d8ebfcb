"""Synthetic rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpcov
from analysis_tables import (
    bounds,
    null_matrix,
    released,
    schema,
    table,
    trace_only,
    without_intercept,
    without_law,
)
from dpcov import ols, sample
from dpcov.analysis.synthetic import _calibrated
from dpcov.errors import ReleaseError
from dpcov.rows.schema import Schema

ROWS = 40_000


def again(rows: pa.Table, declared: Schema) -> dpcov.Release:
    """Release the synthetic rows almost without noise."""
    return dpcov.release(rows, schema=declared, epsilon=1e7, seed=0)


def test_means_shares_and_correlations_are_those_of_the_release() -> None:
    made = released()
    found = again(sample(made, ROWS, seed=1), schema())
    deviations = np.sqrt(np.diag(made.covariance()))
    assert np.all(np.abs(found.mean() - made.mean()) < 0.03 * deviations)
    assert np.abs(found.correlation() - made.correlation()).max() < 0.03
    assert np.allclose(np.sqrt(np.diag(found.covariance())), deviations, rtol=0.03)


def test_a_regression_on_synthetic_rows_is_that_on_real_rows() -> None:
    real, synthetic = ols(released(), "y"), ols(again(sample(released(), ROWS, 2), schema()), "y")
    spread = np.hypot(real.standard_errors, synthetic.standard_errors)
    assert np.all(np.abs(real.coefficients - synthetic.coefficients) < 4 * spread)
    assert synthetic.residual_deviation == pytest.approx(real.residual_deviation, rel=0.02)
    shuffled = sample(released(), ROWS, 2).set_column(
        0, "a", pa.array(np.random.default_rng(0).permutation(sample(released(), ROWS, 2)["a"]))
    )
    wrong = ols(again(shuffled, schema()), "y")
    assert np.any(np.abs(real.coefficients - wrong.coefficients) > 20 * spread)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 1e6])
def test_rows_keep_columns_types_bounds_and_levels(epsilon: float) -> None:
    rows = sample(released(epsilon), 3000, seed=0)
    assert rows.column_names == list(table().columns)
    assert rows.num_rows == 3000
    for name in ("a", "b", "c", "y"):
        low, high = bounds(name)
        values = rows[name].to_numpy()
        assert rows.schema.field(name).type == pa.float64()
        assert np.all((low <= values) & (values <= high))
    assert set(rows["group"].to_pylist()) <= {"u", "v", "w"}
    assert set(rows["sex"].to_pylist()) <= {"m", "f"}


def odd_table(count: int) -> tuple[pd.DataFrame, Schema]:
    """Return missing values as levels, other levels, and levels that are not texts."""
    generator = np.random.default_rng(0)
    x = generator.standard_normal(count)
    frame = pd.DataFrame({"x": np.where(generator.random(count) < 0.3, np.nan, x)})
    frame["year"] = generator.choice([2020, 2021, 1999], count, p=[0.6, 0.3, 0.1])
    frame["yes"] = generator.random(count) < 0.25
    frame["word"] = generator.choice(["a", "b", "zz", ""], count, p=[0.5, 0.2, 0.2, 0.1])
    level = {"kind": "categorical"}
    declared = Schema.parse(
        {
            "columns": {
                "x": {"kind": "numeric", "lower": -6, "upper": 6, "missing": "level"},
                "year": {**level, "levels": [2020, 2021], "other": True},
                "yes": {**level, "levels": [True, False]},
                "word": {**level, "levels": ["a", "b"], "other": True, "missing": "level"},
            }
        }
    )
    return frame, declared


def test_missing_and_other_values_are_drawn_in_their_shares() -> None:
    frame, declared = odd_table(5000)
    made = dpcov.release(frame, schema=declared, epsilon=1e6, seed=0)
    rows = sample(made, ROWS, seed=0).to_pandas()
    assert rows["x"].isna().mean() == pytest.approx(0.3, abs=0.02)
    assert rows["x"].std() == pytest.approx(1.0, abs=0.03)
    assert rows["year"].isna().mean() == pytest.approx(0.1, abs=0.02)
    assert set(rows["year"].dropna()) == {2020, 2021}
    assert rows["yes"].mean() == pytest.approx(0.25, abs=0.02)
    shares = rows["word"].value_counts(normalize=True, dropna=False)
    assert shares["(other)"] == pytest.approx(0.2, abs=0.02)
    assert rows["word"].isna().mean() == pytest.approx(0.1, abs=0.02)


def test_a_seed_repeats_the_rows_and_each_sample_is_another() -> None:
    made = released(1.0)
    assert sample(made, 10, seed=3).equals(sample(made, 10, seed=3))
    assert not sample(made, 10, seed=3).equals(sample(made, 10, seed=4))
    assert not sample(made, 10).equals(sample(made, 10))


def test_chances_cut_at_0_and_1_are_scaled_to_the_right_shares() -> None:
    chances = np.random.default_rng(0).normal([0.7, 0.2, 0.1], 0.5, (2000, 3))
    shares = np.array([0.7, 0.2, 0.1])
    found = _calibrated(chances, shares)
    assert np.allclose(found.sum(axis=1), 1)
    assert np.allclose(found.mean(axis=0), shares, atol=1e-3)


@pytest.mark.slow
def test_few_rows_are_drawn_like_many() -> None:
    """The levels' shares are made right over many rows, even if few are wanted."""
    few = pa.concat_tables(sample(released(), 1, seed=seed) for seed in range(400))
    both = pd.crosstab(few["group"].to_pandas(), few["sex"].to_pandas(), normalize="index")["f"]
    real = pd.crosstab(table()["group"], table()["sex"], normalize="index")["f"]
    assert real["w"] - real["u"] > 0.3
    assert both["w"] - both["u"] > 0.2


def test_without_a_noise_law_rows_are_drawn_all_the_same() -> None:
    found = again(sample(without_law(released()), ROWS, seed=1), schema())
    assert np.abs(found.correlation() - released().correlation()).max() < 0.03


@pytest.mark.parametrize("n", [0, -5])
def test_no_rows_are_refused(n: int) -> None:
    with pytest.raises(ReleaseError, match="at least 1"):
        sample(released(), n)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "holds the trace only"),
        (without_intercept, "without an intercept"),
        (null_matrix, "is null"),
    ],
)
def test_a_release_with_nothing_to_analyse_is_refused(made, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        sample(made(), 10)
