"""Linear discriminant analysis from a release."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import discriminant_analysis

import dpcov
from analysis_tables import (
    null_matrix,
    one_hot,
    released,
    reordered,
    rescaled,
    schema,
    table,
    trace_only,
    without_intercept,
    without_law,
)
from dpcov import lda
from dpcov.core.entropy import simulation_generator
from dpcov.errors import ReleaseError
from dpcov.rows.schema import Schema

NUMBERS = ["a", "b", "c", "y"]


@pytest.mark.parametrize("target", ["group", "sex"])
def test_chances_are_those_of_scikit_learn(target: str) -> None:
    model = lda(released(), target, 0.0, NUMBERS)
    values, classes = one_hot(model.columns), table()[target].to_numpy()
    expected = discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr").fit(values, classes)
    order = [list(expected.classes_).index(name) for name in model.classes]
    assert np.allclose(model.priors, expected.priors_[order], atol=1e-6)
    assert np.allclose(model.means, expected.means_[order], atol=1e-3)
    assert np.allclose(
        model.predict_proba(table()), expected.predict_proba(values)[:, order], atol=1e-4
    )
    assert np.mean(model.predict(table()) == expected.predict(values)) > 0.999


def test_other_categories_help_to_predict() -> None:
    truth = table()["group"].to_numpy()
    accuracy = [
        np.mean(lda(released(), "group", 1e-3, features).predict(table()) == truth)
        for features in (["a"], ["a", "sex"], None)
    ]
    assert accuracy == sorted(accuracy)
    assert accuracy[2] > accuracy[0] + 0.05


def test_the_penalty_is_that_of_ridge_on_the_indicators() -> None:
    """For two classes the discriminant direction equals the direction of ridge regression."""
    model = lda(released(), "sex", 0.3, NUMBERS)
    direction = model.coefficients[1] - model.coefficients[0]
    slopes = dpcov.ridge(released(), "sex=f", 0.3, NUMBERS, penalty="standardized").coefficients
    assert np.allclose(direction / direction[0], slopes / slopes[0], rtol=1e-4)


def test_units_and_order_do_not_change_the_chances() -> None:
    expected = lda(released(), "group", 0.01).predict_proba(table())
    assert np.allclose(lda(reordered(), "group", 0.01).predict_proba(table()), expected, atol=1e-4)
    frame = table().assign(a=table()["a"] * 1000, y=table()["y"] * 0.01)
    model = lda(rescaled(a=1000.0, y=0.01), "group", 0.01)
    assert np.allclose(model.predict_proba(frame), expected, atol=1e-4)
    scaled = model.means[:, model.columns.index("a")]
    plain = lda(released(), "group", 0.01)
    assert np.allclose(scaled, 1000 * plain.means[:, plain.columns.index("a")], rtol=1e-3)


def test_chances_add_up_and_follow_the_noise_no_further_than_their_bounds() -> None:
    for seed in range(5):
        model = lda(released(0.3, seed), "group", generator=simulation_generator(seed))
        chances = model.predict_proba(table())
        assert np.allclose(chances.sum(axis=1), 1)
        at = model.columns.index("a")
        assert np.all(np.abs(model.means[:, at]) <= 8)


@pytest.mark.statistics
def test_accuracy_at_a_moderate_budget_is_near_that_without_privacy() -> None:
    truth = table()["group"].to_numpy()
    exact = np.mean(lda(released(), "group", 0.0).predict(table()) == truth)
    share = np.mean(truth == "u")
    found = [
        np.mean(lda(released(2.0, seed), "group").predict(table()) == truth) for seed in range(10)
    ]
    assert np.mean(found) > share + 0.75 * (exact - share)


def test_a_level_rarer_than_a_row_is_no_class() -> None:
    document = schema().model_dump()
    document["columns"]["group"]["levels"] = ["u", "v", "w", "never"]
    made = dpcov.release(
        table(), schema=Schema.parse(document), epsilon=1e6, neighbors="replace-one", seed=0
    )
    model = lda(made, "group", 0.0, NUMBERS)
    assert model.classes == ("u", "v", "w")


@pytest.mark.parametrize(
    ("target", "options", "message"),
    [
        ("grup", {}, "no column of categories 'grup'. Did you mean 'group'"),
        ("y", {}, "Choose from: group, sex"),
        ("group", {"features": ["group=u", "a"]}, "own column 'group'"),
        ("group", {"alpha": -0.1}, "at least 0"),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(target, options, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        lda(released(), target, **{"alpha": 0.1, **options})


def test_without_categories_there_is_nothing_to_classify() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    with pytest.raises(ReleaseError, match="no column of categories"):
        lda(dpcov.release(rows, lower=-1, upper=1, epsilon=100.0), "x0")


def test_without_a_noise_law_alpha_has_to_be_given() -> None:
    made = without_law(released(1.0))
    assert lda(made, "group", 0.1).alpha == 0.1
    with pytest.raises(ReleaseError, match="Give alpha"):
        lda(made, "group")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "a noisy trace, because"),
        (without_intercept, "without an intercept"),
        (null_matrix, "is null"),
    ],
)
def test_a_release_with_nothing_to_analyse_is_refused(made, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        lda(made(), "group", 0.1)
