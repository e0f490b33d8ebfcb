"""Nearest and partial correlations."""

from __future__ import annotations

import numpy as np
import pytest

import dpcov
from analysis_tables import (
    null_matrix,
    one_hot,
    released,
    reordered,
    rescaled,
    trace_only,
    without_intercept,
    without_law,
)
from dpcov import correlation, intervals, nearest_correlation, partial_correlations
from dpcov.analysis.correlation import (
    correlations,
    different_columns,
    nearest_correlation_matrix,
)
from dpcov.errors import NotReleasedError, ReleaseError

FEATURES = ["a", "b", "c", "y", "group", "sex"]


def random_correlation(generator: np.random.Generator, p: int) -> np.ndarray:
    return np.corrcoef(generator.standard_normal((p, p + 2)))


@pytest.mark.parametrize(
    ("given", "published"),
    [  # Higham (2002), sections 4 and 1 of the examples
        (
            [[1, 1, 0], [1, 1, 1], [0, 1, 1]],
            [[1, 0.7607, 0.1573], [0.7607, 1, 0.7607], [0.1573, 0.7607, 1]],
        ),
        (
            [[2, -1, 0, 0], [-1, 2, -1, 0], [0, -1, 2, -1], [0, 0, -1, 2]],
            [
                [1, -0.8084, 0.1916, 0.1068],
                [-0.8084, 1, -0.6562, 0.1916],
                [0.1916, -0.6562, 1, -0.8084],
                [0.1068, 0.1916, -0.8084, 1],
            ],
        ),
    ],
)
def test_highams_examples_are_reproduced(given, published) -> None:
    assert np.allclose(nearest_correlation_matrix(np.array(given, float)), published, atol=6e-5)


@pytest.mark.parametrize("p", [2, 5, 20])
def test_no_correlation_matrix_is_nearer(p: int) -> None:
    """The projection on a convex set: the way to any other member leads away from the given one."""
    generator = np.random.default_rng(p)
    given = random_correlation(generator, p) + 0.4 * generator.standard_normal((p, p))
    given = (given + given.T) / 2
    found = nearest_correlation_matrix(given)
    assert np.linalg.eigvalsh(found)[0] >= -1e-12
    assert np.all(np.diag(found) == 1)
    slopes = [
        np.sum((given - found) * (random_correlation(generator, p) - found)) for _ in range(200)
    ]
    assert max(slopes) <= 1e-6
    wrong = np.eye(p)
    assert np.sum((given - wrong) * (found - wrong)) > 1e-3


def test_what_is_a_correlation_matrix_stays_as_it_is() -> None:
    given = random_correlation(np.random.default_rng(0), 6)
    np.fill_diagonal(given, 1.0)
    assert nearest_correlation_matrix(given) is given
    made = released(1.0)
    found = nearest_correlation(made)
    assert np.array_equal(found.matrix, made.correlation())
    assert found.columns == made.columns
    assert list(found.to_frame().columns) == list(made.columns)


def test_noisy_correlations_become_valid() -> None:
    made = released(0.1, denoise="none", mechanism="matrix-laplace")
    assert np.linalg.eigvalsh(made.correlation())[0] < -0.01
    found = nearest_correlation(made).matrix
    assert np.linalg.eigvalsh(found)[0] >= -1e-12
    assert np.all(np.diag(found) == 1)


@pytest.mark.parametrize(
    "given", [np.eye(3)[:2], np.array([[1, 2], [0, 1.0]]), np.full((2, 2), np.nan)]
)
def test_what_is_no_symmetric_matrix_is_refused(given) -> None:
    with pytest.raises(ReleaseError, match="symmetric and finite"):
        nearest_correlation_matrix(given)


def test_partial_correlations_are_those_of_residuals() -> None:
    found = partial_correlations(released(mechanism="matrix-laplace"), FEATURES)
    assert found.columns == ("a", "b", "c", "y", "group=v", "group=w", "sex=f")
    values = one_hot(found.columns)
    for i, j in [(0, 1), (3, 4), (6, 5), (2, 3)]:
        others = np.column_stack([np.ones(len(values)), np.delete(values, [i, j], axis=1)])
        pair = values[:, [i, j]]
        residuals = pair - others @ np.linalg.lstsq(others, pair, rcond=None)[0]
        assert found.matrix[i, j] == pytest.approx(np.corrcoef(residuals.T)[0, 1], abs=2e-6)
    assert np.array_equal(found.matrix, found.matrix.T)
    assert np.all(np.diag(found.matrix) == 1)


def test_partial_correlations_have_no_units_and_no_order() -> None:
    found = partial_correlations(released(), FEATURES).matrix
    other = partial_correlations(rescaled(a=1000.0, y=0.01), FEATURES).matrix
    assert np.allclose(found, other, atol=1e-5)
    assert np.allclose(found, partial_correlations(reordered(), FEATURES).matrix, atol=1e-5)


def test_features_that_determine_others_are_refused() -> None:
    levels = ["sex=m", "sex=f", "a"]
    table = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
    twice = dpcov.release(
        np.column_stack([table, table[:, 0]]), lower=-1, upper=1, epsilon=1e6, denoise="project"
    )
    twice = twice.with_denoised("project", rank_two(twice.second_moment()))
    with pytest.raises(ReleaseError, match="Only 2 of the 3 features"):
        partial_correlations(twice)
    assert partial_correlations(released(), levels[1:]).matrix.shape == (2, 2)


def rank_two(moment: np.ndarray) -> np.ndarray:
    copied = moment.copy()
    copied[2], copied[:, 2] = copied[0], copied[:, 0]
    copied[2, 2] = copied[0, 0]
    return copied


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "a noisy trace, because"),
        (without_intercept, "without an intercept"),
        (null_matrix, "is null"),
    ],
)
def test_a_release_with_nothing_to_analyse_is_refused(made, message: str) -> None:
    for question in (nearest_correlation, partial_correlations):
        with pytest.raises(ReleaseError, match=message):
            question(made())


def test_one_correlation_is_an_entry_of_all_correlations() -> None:
    made = released(2.0)
    found = correlation(made, "a", "sex=f")
    whole, ends = made.correlation(), intervals(made, "correlation")
    at = made.columns.index("a"), made.columns.index("sex=f")
    assert found.correlation == whole[at]
    assert (found.lower, found.upper) == pytest.approx((ends.low[at], ends.high[at]))
    noise = intervals(made, "correlation", sampling=False)
    assert (found.noise_lower, found.noise_upper) == pytest.approx((noise.low[at], noise.high[at]))
    assert found.below_noise == noise.below_noise[at]
    turned = correlation(made, "sex=f", "a")
    assert turned.lower == pytest.approx(found.lower)
    narrow = correlation(made, "a", "sex=f", level=0.5)
    assert found.lower < narrow.lower < narrow.upper < found.upper
    assert "Correlation of a and sex=f" in found.summary()
    assert list(found.document()) == [
        "first", "second", "correlation", "lower", "upper", "noise_lower", "noise_upper", "level",
        "below_noise", "sufficient_budget",
    ]  # fmt: skip


def test_one_correlation_below_the_noise_level_is_marked() -> None:
    found = correlation(released(0.02), "a", "c")
    assert found.below_noise
    assert "is below the noise level, because the 95% interval" in found.summary()
    unknown = correlation(without_law(released()), "a", "c")
    assert (unknown.lower, unknown.noise_upper, unknown.below_noise) == (None, None, None)
    assert "The expected error is unknown" in unknown.summary()


def test_one_correlation_needs_two_features() -> None:
    made = released()
    for names, message in (
        (("a", "a"), "Choose two different features"),
        (("a", "sex"), "column of categories. Choose one of its levels: sex=m, sex=f"),
        (("aa", "b"), "There is no feature"),
    ):
        with pytest.raises(ReleaseError, match=message):
            correlation(made, *names)
    with pytest.raises(ReleaseError, match="level"):
        correlation(made, "a", "b", level=2.0)
    with pytest.raises(NotReleasedError):
        correlation(trace_only(), "a", "b")


def test_pairs_of_levels_of_one_column_are_no_findings() -> None:
    made = released()
    listed = correlations(made).tables()[-1]
    names = [name for name, _ in listed.rows]
    assert "group=u - group=v" not in names
    assert "sex=m - sex=f" not in names
    assert "group=u - sex=m" in names
    i, _ = different_columns(made)
    assert len(listed.rows) == len(i) == 36 - 3 - 1
    whole = correlations(made).document()["correlation"]  # the file keeps all pairs
    assert whole.shape == (9, 9)
