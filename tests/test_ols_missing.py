"""Least squares on tables with missing cells, constant columns and levels that add up to one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.estimate.errors import Stack
from dpcov.estimate.missing import rows_of_pairs
from dpcov.rows.schema import Schema

ROWS = 2000
NUMBER = {"kind": "number", "lower": -4, "upper": 4}
LEVELS = {"kind": "categorical", "levels": ["a", "b", "c"]}


def related(features, gap, related_by, rows=ROWS, seed=0):
    """Return columns with one common factor, and the coefficient of each in a regression."""
    draws = np.random.default_rng(seed)
    shared, own = draws.standard_normal((rows, 1)), draws.standard_normal((rows, features))
    values = np.clip(related_by * shared + np.sqrt(1 - related_by**2) * own, -4, 4)
    table = pd.DataFrame(values, columns=[f"x{j}" for j in range(features)])
    r = related_by**2
    return table.mask(draws.random(table.shape) < gap), r / (1 + (features - 2) * r)


def released(table, columns, seed=1, **budget):
    made_by = Schema.parse({"version": 2, "columns": columns})
    return dpcov.release(table, schema=made_by, seed=seed, **budget)


def by_pairs(table, **budget):
    rule = {**NUMBER, "missing": "pairwise"}
    return released(table, dict.fromkeys(table, rule), **budget)


REFUSED_BEFORE = [  # features, share missing, relation, rows, epsilon
    (7, 0.3, 0.95, 600, 8.0),
    (7, 0.2, 0.99, 600, 1e3),
    (5, 0.3, 0.999, 600, 1e3),
]


@pytest.mark.parametrize(("features", "gap", "relation", "rows", "epsilon"), REFUSED_BEFORE)
def test_covariances_of_different_rows_have_an_answer(features, gap, relation, rows, epsilon):
    table, truth = related(features, gap, relation, rows)
    made = by_pairs(table, epsilon=epsilon)
    fit = dpcov.ols(made, "x0")
    assert np.isfinite(fit.standard_errors).all()
    assert np.all(fit.lower[1:] < truth)
    assert np.all(truth < fit.upper[1:])
    assert 0 <= fit.r_squared < 1
    assert np.all(fit.standard_errors[1:] < 1.0)  # the width that it needs, and no more
    found = dpcov.intervals(made, dpcov.analysis.intervals.coefficients("x0"), sampling=False)
    middle = (found.low + found.high) / 2
    # Both belong to the same estimate. An interval is a little longer on one side.
    assert np.all(np.abs(middle - fit.coefficients) < 0.05 * (found.high - found.low))


@pytest.mark.parametrize(("features", "gap", "relation", "rows", "epsilon"), REFUSED_BEFORE)
def test_control_as_estimated_before_these_covariances_are_impossible(
    features, gap, relation, rows, epsilon
):
    made = by_pairs(related(features, gap, relation, rows)[0], epsilon=epsilon)
    before = Estimate.of(made)._limited
    smallest = [
        float(np.linalg.eigvalsh(Stack.of(made, matrix[None]).covariances[0])[0])
        for matrix in (before, Estimate.of(made).center)
    ]
    assert smallest[0] < 0 < smallest[1]


def test_numbers_of_rows_and_sums_stay():
    made = by_pairs(related(6, 0.3, 0.9)[0], epsilon=5.0)
    before, after = Estimate.of(made)._limited, Estimate.of(made).center
    t = made.intercept()
    pairs = [rows_of_pairs(made.schema, matrix, t) for matrix in (before, after)]
    assert np.allclose(*pairs)
    assert np.allclose(before[-1], after[-1])


def test_where_covariances_are_clear_nothing_is_added():
    made = by_pairs(related(4, 0.1, 0.5)[0], epsilon=1e3)
    before = Estimate.of(made)._limited
    assert np.allclose(before, Estimate.of(made).center, rtol=1e-9)


def test_noise_that_hides_all_numbers_of_rows_gives_wide_errors():
    table, truth = related(4, 0.3, 0.9, 600)
    covered = []
    for seed in range(12):
        made = by_pairs(table, epsilon=0.3, seed=seed)
        assert not made.covariance().any()  # every column has fewer rows than noise alone shows
        fit = dpcov.ols(made, "x0")
        assert not fit.trusted[1:].any()
        covered.append((fit.lower[1:] < truth) & (truth < fit.upper[1:]))
    assert np.mean(covered) > 0.85
    with pytest.raises(ReleaseError, match="hides how many rows have a value in each column"):
        dpcov.pca(made)


def two(**columns):
    """Return x, y = x + noise, and more columns."""
    draws = np.random.default_rng(5)
    x = draws.standard_normal(ROWS).clip(-3, 3)
    y = (x + draws.standard_normal(ROWS)).clip(-8, 8)
    return pd.DataFrame({"x": x, "y": y, **{name: make(x) for name, make in columns.items()}})


def gaps(values, seed):
    return np.where(np.random.default_rng(seed).random(ROWS) < 0.3, np.nan, values)


Y = {"kind": "number", "lower": -8, "upper": 8}
PAIRWISE = {"missing": "pairwise"}
HALF = np.arange(ROWS) < ROWS // 2
KINDS = np.random.default_rng(6).choice(["a", "b", "c"], ROWS)


@pytest.mark.parametrize("epsilon", [1.0, 1e7])
@pytest.mark.parametrize(
    ("table", "columns"),
    [
        (two(k=lambda x: np.ones(ROWS)), {"k": NUMBER}),
        (two(k=lambda x: gaps(np.ones(ROWS), 1)), {"k": NUMBER | PAIRWISE}),
        (two(k=lambda x: x), {"k": NUMBER | {"missing": "level"}}),
        (two(g=lambda x: KINDS), {"g": LEVELS}),
        (two(g=lambda x: KINDS), {"g": LEVELS | {"other": True, "missing": "other"}}),
        (two(g=lambda x: KINDS, k=lambda x: gaps(x, 2)), {"g": LEVELS, "k": NUMBER | PAIRWISE}),
    ],
    ids=["constant", "constant pairwise", "level unused", "levels", "levels full", "both"],
)
def test_what_says_nothing_does_not_spoil_the_rest(table, columns, epsilon):
    made = released(table, {"x": NUMBER, "y": Y, **columns}, epsilon=epsilon)
    twins = "k" in columns and np.array_equal(table["k"].dropna(), table["x"][table["k"].notna()])
    features = [name for name in ("x", *columns) if not (twins and name == "k")]
    try:
        fit = dpcov.ols(made, "y", features)
    except ReleaseError as refused:  # almost without noise, the released column may be constant
        if epsilon < 1e7 or "not unique: k." not in str(refused):
            raise
        fit = dpcov.ols(made, "y", ["x"])
    at = fit.names.index("x")
    assert not np.isnan(fit.standard_errors).any()
    assert fit.lower[at] < 1.05 < fit.upper[at] or abs(fit.coefficients[at] - 1) < 0.1
    assert np.isfinite(fit.standard_errors[at])


@pytest.mark.parametrize(
    ("table", "columns", "features", "names"),
    [
        (
            two(g=lambda x: KINDS),
            {"g": LEVELS | {"other": True, "missing": "other"}},
            ["x", "g=a", "g=b", "g=c", "g=(other)"],
            ["g=a", "g=b", "g=c"],
        ),
        (two(k=lambda x: x), {"k": NUMBER}, ["x", "k"], ["x", "k"]),
    ],
    ids=["all levels", "twins"],
)
def test_a_refusal_names_what_follows_from_the_others(table, columns, features, names):
    made = released(table, {"x": NUMBER, "y": Y, **columns}, epsilon=1e7)
    with pytest.raises(ReleaseError, match="constant or follow from the others") as refused:
        dpcov.ols(made, "y", features)
    assert ", ".join(names) in str(refused.value)
    assert str(refused.value).count(".") == 2


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (two(k=lambda x: np.where(HALF, np.nan, x)).assign(x=lambda t: t["x"].where(HALF)), "both"),
        (two(k=lambda x: np.full(ROWS, np.nan)), "it"),
    ],
    ids=["never together", "always missing"],
)
def test_columns_without_rows_are_refused_with_a_true_sentence(table, said):
    columns = {"x": NUMBER | PAIRWISE, "y": Y, "k": NUMBER | PAIRWISE}
    made = released(table, columns, epsilon=1e3)
    own = "'k'" if said == "it" else "'x' and 'k'"
    with pytest.raises(
        ReleaseError, match=f"noise hides all rows with a value of {own}.*with {said} is not"
    ):
        dpcov.ols(made, "y")
    assert np.isfinite(dpcov.ols(made, "y", ["x"]).standard_errors).all()
