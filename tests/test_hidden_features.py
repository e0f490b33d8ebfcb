"""Features that nearly follow from others: intervals are marked where the noise hides this."""

from __future__ import annotations

import numpy as np
import pytest

import dpcov

MARK = "hides whether these features vary apart"


def collinear(seed: int, apart: float) -> dpcov.Release:
    """Release a table whose target depends on the difference of two nearly equal features."""
    rng = np.random.default_rng(seed)
    first, other = rng.uniform(-0.5, 0.5, (2, 4000))
    second = first + apart * rng.normal(size=4000)
    target = 0.1 * (first - second) / apart + 0.3 * other + 0.1 * rng.normal(size=4000)
    rows = np.column_stack([first, second, other, target])
    names = ["first", "second", "other", "target"]
    schema = dpcov.Schema.from_bounds([-1.0] * 4, [1.0] * 4, names)
    return dpcov.release(rows, schema=schema, epsilon=1.0, seed=seed)


@pytest.mark.parametrize("seed", range(5))
def test_intervals_that_miss_a_large_coefficient_are_marked(seed: int) -> None:
    fit = dpcov.ols(collinear(seed, 1e-3), "target")
    at = fit.names.index("first")
    assert not fit.lower[at] <= 100 <= fit.upper[at]  # why the mark is needed
    assert fit.hidden is not None
    assert fit.hidden.tolist() == [True, True, False]
    assert not fit.trusted[at]
    assert any(MARK in note and "first, second" in note for note in fit.tables()[0].notes)
    assert [row[-1] for _, row in fit.data().rows][1:4] == [True, True, False]


@pytest.mark.parametrize("seed", range(5))
def test_features_that_the_release_tells_apart_are_not_marked(seed: int) -> None:
    fit = dpcov.ols(collinear(seed, 0.3), "target")
    assert fit.hidden is not None
    assert not fit.hidden.any()
    assert not any(MARK in note for note in fit.tables()[0].notes)


@pytest.mark.parametrize(("apart", "marked"), [(1e-3, True), (0.3, False)], ids=["equal", "apart"])
def test_named_statistics_of_a_regression_have_the_same_mark(apart: float, marked: bool) -> None:
    release = collinear(0, apart)
    figures = [
        dpcov.variance_inflation(release, ["first", "second", "other"]),
        dpcov.standardized_coefficients(release, "target"),
        dpcov.multiple_correlation(release, "target"),
        dpcov.partial_correlation(release, "first", "target"),
        dpcov.mediation(release, "first", "second", "target"),
    ]
    for one in figures:
        notes = one.tables()[0].notes
        assert any(MARK in note for note in notes) == marked, one.title


def test_a_feature_alone_has_no_mark() -> None:
    fit = dpcov.ols(collinear(0, 1e-3), "target", ["first"])
    assert fit.hidden is not None
    assert fit.hidden.tolist() == [False]
