"""Principal components, and the test of how many rise above the noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats
from sklearn import decomposition

import dpcov
from analysis_tables import (
    null_matrix,
    one_hot,
    released,
    reordered,
    rescaled,
    table,
    trace_only,
    without_intercept,
    without_law,
)
from dpcov.analysis.pca import significant_components
from dpcov.core.entropy import simulation_generator
from dpcov.denoise import denoise
from dpcov.errors import ReleaseError
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from rounds_for_tests import changed
from statistical.checks import PASSES, REJECTED
from tables_for_tests import correlated

REPEATS = 120


def test_components_are_those_of_scikit_learn() -> None:
    made = released()
    found = dpcov.pca(made, 4)
    values = one_hot(made.columns)
    expected = decomposition.PCA(4).fit(values)
    assert found.columns == made.columns
    shrink = (len(values) - 1) / len(values)
    assert np.allclose(found.explained_variance, expected.explained_variance_ * shrink, rtol=1e-5)
    assert np.allclose(found.explained_variance_ratio, expected.explained_variance_ratio_)
    assert np.allclose(found.components, expected.components_, atol=1e-5)
    assert np.allclose(found.transform(table()), expected.transform(values), atol=1e-3)


def test_components_of_the_correlation_are_those_of_standardised_columns() -> None:
    made = released()
    found = dpcov.pca(made, 4, correlation=True)
    values = one_hot(made.columns)
    standardised = (values - values.mean(axis=0)) / values.std(axis=0)
    expected = decomposition.PCA(4).fit(standardised)
    assert found.total_variance == pytest.approx(len(made.columns))
    signs = np.sign(np.sum(found.components * expected.components_, axis=1))  # of ties
    assert np.allclose(found.components, signs[:, None] * expected.components_, atol=1e-4)
    assert np.allclose(found.transform(values), signs * expected.transform(standardised), atol=1e-3)


def test_components_are_orthonormal_and_add_up() -> None:
    made = released(1.0)
    found = dpcov.pca(made)
    p = len(made.columns)
    assert np.allclose(found.components @ found.components.T, np.eye(p))
    assert found.explained_variance_ratio.sum() == pytest.approx(1.0)
    assert np.all(np.diff(found.explained_variance) <= 0)
    rebuilt = found.components.T * found.explained_variance @ found.components
    assert np.allclose(rebuilt, made.covariance(), atol=1e-6 * found.total_variance)


def test_correlation_components_have_no_units_and_all_units_scale_variances() -> None:
    standard = dpcov.pca(released(), correlation=True)
    other = dpcov.pca(rescaled(a=1000.0, y=0.01), correlation=True)
    assert np.allclose(standard.explained_variance, other.explained_variance, atol=1e-5)
    assert np.allclose(standard.components[:3], other.components[:3], atol=1e-3)
    one, ten = (
        dpcov.pca(dpcov.release(table, lower=-unit, upper=unit, epsilon=1e6, seed=0))
        for unit, table in ((1, correlated(2000, 4)), (10, 10 * correlated(2000, 4)))
    )
    assert np.allclose(100 * one.explained_variance, ten.explained_variance, rtol=1e-5)
    assert np.allclose(one.components, ten.components, atol=1e-4)


def test_columns_in_another_order_give_the_same_components() -> None:
    one, other = dpcov.pca(released(), 3), dpcov.pca(reordered(), 3)
    order = [other.columns.index(name) for name in one.columns]
    assert np.allclose(one.components, other.components[:, order], atol=1e-4)


def test_new_rows_are_projected_alike_from_any_container() -> None:
    found = dpcov.pca(released(), 2)
    frame = table()[:50]
    expected = found.transform(one_hot(found.columns)[:50])
    assert np.allclose(found.transform(frame), expected)
    assert np.allclose(found.transform(pa.Table.from_pandas(frame)), expected)
    assert np.allclose(found.transform(frame[list(reversed(frame.columns))]), expected)


def of_rank(rank: int, mean: float, seeds: int, **request) -> list[dpcov.Release]:
    """Release rows whose covariance has exactly this rank, in unequal units."""
    generator = np.random.default_rng(rank)
    directions = np.linalg.qr(generator.standard_normal((6, 6)))[0][:rank]
    rows = 0.5 * generator.uniform(-1, 1, (5000, rank)) @ directions
    half = np.array([1, 30, 0.5, 10, 5, 0.1])
    lower, upper = (-1 - mean) * half, (1 - mean) * half
    settings = {"epsilon": 1.0, "denoise": "project", **request}
    return [
        dpcov.release(
            rows * half, lower=lower.tolist(), upper=upper.tolist(), seed=seed, **settings
        )
        for seed in range(seeds)
    ]


def excess_p_value(releases: list[dpcov.Release], rank: int) -> float:
    """Return the p-value for more than `rank` components in at most 5% of the releases."""
    counts = [
        significant_components(made, generator=simulation_generator(seed))
        for seed, made in enumerate(releases)
    ]
    return float(stats.binom.sf(np.sum(np.array(counts) > rank) - 1, len(counts), 0.05))


@pytest.mark.statistics
@pytest.mark.parametrize("mean", [0.0, 0.4])
@pytest.mark.parametrize("rank", [0, 1, 3])
def test_a_component_too_many_is_claimed_in_five_per_cent_at_most(rank: int, mean: float) -> None:
    releases = of_rank(rank, mean, REPEATS)
    assert excess_p_value(releases, rank) > PASSES
    halved = [changed(made, noise=made.noise.rescaled(0.5)) for made in releases]
    assert excess_p_value(halved, rank) < REJECTED


@pytest.mark.parametrize("request_", [{}, {"rho": 0.5, "epsilon": None}], ids=str)
def test_components_well_above_the_noise_are_found(request_) -> None:
    counts = [
        significant_components(made, generator=simulation_generator(1))
        for made in of_rank(3, 0.0, 20, **request_)
    ]
    assert np.mean(np.array(counts) >= 3) >= 0.95


def test_a_law_that_is_not_rotation_invariant_is_simulated() -> None:
    (made,) = of_rank(3, 0.0, 1, mechanism="matrix-laplace")
    scale = Fraction(int(made.noise.spread))
    law = EntrywiseLaplace(7, scale, scale)
    drawn = law.simulate(simulation_generator(0))
    exact = of_rank(3, 0.0, 1, epsilon=1e6, mechanism="matrix-laplace")[0]
    step = exact.lattice.step**2
    noisy = np.rint((exact.noisy() / step + drawn) / 2.0**made.shift).astype(np.int64)
    replaced = changed(made, noise=law, published=noisy)
    assert significant_components(replaced, generator=simulation_generator(1)) == 3
    loud = changed(replaced, noise=law.rescaled(100.0))
    assert significant_components(loud, generator=simulation_generator(1)) == 0


def test_units_do_not_change_how_many_rise_above_the_noise() -> None:
    made = released(0.5)
    draws = [simulation_generator(3) for _ in range(2)]
    raw, standard = (
        dpcov.pca(made, correlation=flag, generator=draw).significant
        for flag, draw in zip((False, True), draws, strict=True)
    )
    assert raw == standard
    assert 0 < raw < len(made.columns)


def test_without_a_noise_law_it_is_not_said_how_many_rise_above_it() -> None:
    assert dpcov.pca(without_law(released(1.0))).significant is None


@pytest.mark.parametrize("k", [0, -1, 10])
def test_a_number_of_components_that_there_is_not_is_refused(k: int) -> None:
    with pytest.raises(ReleaseError, match="between 1 and the number of features, 9"):
        dpcov.pca(released(), k)


@pytest.mark.parametrize(("rate", "message"), [(0.0, "below 1, not 0"), (1e-4, "can't be tested")])
def test_an_error_rate_that_can_not_be_tested_is_refused(rate: float, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        dpcov.pca(released(), error_rate=rate)


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
        dpcov.pca(made())


def test_denoising_again_does_not_change_how_many_rise_above_the_noise() -> None:
    made = released(0.5)
    counts = {
        significant_components(denoise(made, method), generator=simulation_generator(2))
        for method in ("none", "project", "shrink")
    }
    assert len(counts) == 1


def test_a_column_with_nearly_all_variance_is_named_with_what_helps() -> None:
    table = np.random.default_rng(0).normal(0, [0.2, 0.2, 50.0], (5000, 3))
    made = dpcov.release(table, lower=[-1, -1, -200], upper=[1, 1, 200], epsilon=10.0)
    text = repr(dpcov.pca(made))
    assert "'x2' holds at least 99% of the variance" in text
    assert "--correlation" in text
    assert "--correlation" not in repr(dpcov.pca(made, correlation=True))
    narrow = dpcov.release(table[:, :2], lower=-1, upper=1, epsilon=10.0)
    assert "--correlation" not in repr(dpcov.pca(narrow))  # control
