"""Intervals of a release: what they cover, and where they say that they can't be trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import dpcov
from dpcov import coefficients, eigenvalues, explained_variance, intervals, several_intervals
from dpcov.analysis.intervals import ROUNDING_NOTE, _bias, _percentiles
from dpcov.analysis.ols import ols
from dpcov.core.entropy import simulation_generator
from dpcov.errors import ReleaseError
from dpcov.estimate import Estimate
from dpcov.published.pseudo_rows import pseudo_rows
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from rounds_for_tests import changed
from statistical.checks import PASSES, REJECTED
from tables_for_tests import correlated

DATA = correlated(20_000, 4, seed=1)


def made(data: Any = DATA, seed: int = 1, **request: Any) -> Release:
    settings = {"lower": -1, "upper": 1, "epsilon": 2.0, **request}
    return dpcov.release(data, seed=seed, **settings)


def statistics_of(release: Release) -> list[Any]:
    regression = coefficients(release.columns[3], list(release.columns[:2]))
    return ["mean", "covariance", "correlation", "explained variance", regression]


def truths(data: Any) -> list[float]:
    """Return the checked entries of `statistics_of`: the first, or the one of columns 4 and 1."""
    covariance = np.cov(data, rowvar=False, bias=True)
    correlation = np.corrcoef(data, rowvar=False)
    spectrum = np.linalg.eigvalsh(covariance)
    design = np.column_stack([np.ones(len(data)), data[:, :2]])
    fitted = np.linalg.lstsq(design, data[:, 3])[0]
    first = data[:, 0].mean()
    return [first, covariance[3, 0], correlation[3, 0], spectrum[-1] / spectrum.sum(), fitted[1]]


def covered(release: Release, truth: list[float], sampling: bool, seed: int) -> list[bool]:
    found = several_intervals(
        release,
        statistics_of(release),
        sampling=sampling,
        generator=simulation_generator(seed),
    )
    at: list[Any] = [0, (3, 0), (3, 0), 0, 1]
    ends = [(one.low[j], one.high[j]) for one, j in zip(found, at, strict=True)]
    return [low <= value <= high for (low, high), value in zip(ends, truth, strict=True)]


def coverage_p_value(hits: Any) -> float:
    """Return the least p-value of 95% coverage over statistics; hits (releases, statistics)."""
    counts = np.sum(hits, axis=0)
    p_values = [stats.binomtest(int(count), len(hits), 0.95).pvalue for count in counts]
    return min(1.0, len(p_values) * min(p_values))


REQUESTS: list[dict[str, Any]] = [
    {"epsilon": 0.5},
    {"epsilon": 0.5, "neighbors": "replace-one"},
    {"epsilon": None, "rho": 0.02, "neighbors": "replace-one"},
    {"epsilon": None, "rho": 0.02, "denoise": "none"},
]


@pytest.mark.statistics
@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_privacy_intervals_cover_the_sample(request_: dict[str, Any]) -> None:
    truth = truths(DATA)
    hits = [covered(made(seed=seed, **request_), truth, False, seed) for seed in range(120)]
    assert coverage_p_value(hits) > PASSES


@pytest.mark.statistics
def test_intervals_of_half_the_noise_are_found_out() -> None:
    """Every statistic shows it if all directions are detectable: the estimate beats its noise."""
    truth, hits = truths(DATA), []
    for seed in range(120):
        one = made(seed=seed, epsilon=4.0, mechanism="matrix-laplace")
        hits.append(covered(changed(one, noise=one.noise.rescaled(0.5)), truth, False, seed))
    for statistic in np.transpose(hits):
        assert coverage_p_value(statistic[:, None]) < REJECTED


def from_population(sampling: bool) -> list[list[bool]]:
    """Release samples of 1000 rows, at a budget with similar privacy and sampling errors."""
    hits = []
    for seed in range(120):
        chosen = np.random.default_rng(seed).integers(len(DATA), size=1000)
        release = made(DATA[chosen], seed=seed, epsilon=20.0)
        hits.append(covered(release, truths(DATA), sampling, seed))
    return hits


@pytest.mark.statistics
def test_intervals_with_sampling_cover_the_population() -> None:
    assert coverage_p_value(from_population(sampling=True)) > PASSES


@pytest.mark.statistics
def test_intervals_without_sampling_do_not_cover_the_population() -> None:
    assert coverage_p_value(from_population(sampling=False)) < REJECTED


def test_what_the_intervals_cover_is_stated() -> None:
    release = made()
    assert intervals(release, "mean").covers == "privacy noise and sampling"
    assert intervals(release, "mean", sampling=False).covers == "privacy noise"


def test_sampling_and_a_higher_level_widen_intervals() -> None:
    release = made(DATA[:2000])
    for statistic in statistics_of(release):
        plain = intervals(release, statistic, 0.9, False, generator=simulation_generator(1))
        wider = intervals(release, statistic, 0.99, False, generator=simulation_generator(1))
        both = intervals(release, statistic, 0.9, True, generator=simulation_generator(1))
        free = plain.low < plain.high
        width = (plain.high - plain.low)[free]
        assert np.all((wider.high - wider.low)[free] > width)
        assert np.mean((both.high - both.low)[free] / width) > 1.02


def test_correlations_below_the_noise_are_wide_and_not_trusted() -> None:
    release, below = made(DATA[:300], epsilon=0.1), np.tril_indices(4, -1)
    found = intervals(release, "correlation", sampling=False)
    assert not found.trusted[below].any()
    assert np.mean(found.high[below] - found.low[below]) > 0.8
    found = intervals(release, "correlation", sampling=False, for_clipped_rows=True)
    assert not found.trusted[below].any()
    assert np.all(found.low[below] == -1)
    assert np.all(found.high[below] == 1)


@pytest.mark.parametrize(("epsilon", "fine"), [(1.0, False), (1e7, True)])
def test_noise_that_is_hardly_there_is_blamed_for_nothing(epsilon: float, fine: bool) -> None:
    """A direction without variance is no exception: levels add up to 1 if no cell is missing."""
    frame = pd.DataFrame({"x": DATA[:, 0], "kind": np.where(DATA[:, 1] > 0.1, "a", "b")})
    columns = {
        "x": {"kind": "numeric", "lower": -1, "upper": 1},
        "kind": {"kind": "categorical", "levels": ["a", "b", "c"]},
    }
    schema = dpcov.Schema.parse({"columns": columns})
    made = dpcov.release(frame, schema=schema, epsilon=epsilon, seed=0)
    found = intervals(made, "correlation", sampling=False)
    seen = np.ix_([0, 1, 2], [0, 1, 2])  # of the level c there is no row
    assert found.trusted[seen].all()
    assert (ROUNDING_NOTE in found.assumed) == fine
    drowned = dpcov.release(frame, schema=schema, epsilon=0.002, seed=0)
    found = intervals(drowned, "correlation", sampling=False)
    assert not found.trusted[seen].all()


def test_intervals_that_can_not_be_trusted_say_so_in_a_sentence() -> None:
    many = made(mechanism="matrix-laplace", epsilon=20.0)
    clear = intervals(many, "correlation", sampling=False)
    assert not clear.below_noise.any()
    assert clear.warning is None
    few = made(DATA[:300], mechanism="matrix-laplace", epsilon=0.1)
    warning = intervals(few, "correlation", sampling=False).warning
    assert warning is not None
    assert warning.startswith("12 of 16 figures are below the noise level")
    assert "12 of 16 intervals rest on more than the noise" in warning


@pytest.mark.parametrize(
    ("request_", "clipped"),
    [
        ({"mechanism": "matrix-laplace"}, False),
        ({"mechanism": "matrix-laplace", "radius": 0.5}, False),
        ({"mechanism": "gaussian", "rho": 2.0, "epsilon": None}, False),
        ({"mechanism": "gaussian", "radius": "private", "rho": 2.0, "epsilon": None}, True),
    ],
)
def test_a_private_radius_is_said_to_be_unknown_to_intervals(
    request_: dict[str, Any], clipped: bool
) -> None:
    release = made(0.2 * DATA, **request_)
    found = intervals(release, "covariance", sampling=False)
    assert (release.clipped, found.clipped) == (clipped, clipped)
    assert ("private radius" in (found.warning or "")) == clipped
    assert ("private radius" in found._repr_html_()) == clipped


def test_the_norm_histogram_gives_intervals_the_clipping_bias() -> None:
    """The exception is rows that reach so far that the largest radius is chosen."""
    clipped = intervals(made(0.2 * DATA, mechanism="standardized"), "covariance", sampling=False)
    assert not clipped.clipped
    assert "extrapolates the tail" in clipped._repr_html_()
    far = np.where(np.arange(len(DATA))[:, None] % 2 == 0, 1.0, -1.0) * np.ones(4)
    whole = intervals(made(far, mechanism="standardized", epsilon=1e5), "covariance")
    assert not whole.assumed


def test_the_bias_of_a_statistic_below_the_noise_narrows_nothing() -> None:
    """A correction beyond the draws would leave intervals of no width, or off the truth."""
    held, drowned = [], []
    for seed in range(25):
        few = made(DATA[:200], seed, epsilon=0.2)
        found = intervals(few, "mean", sampling=False, for_clipped_rows=True)
        assert np.all(found.low < found.high)
        truth = DATA[:200].mean(axis=0)
        held.append((found.low <= truth) & (truth <= found.high))
        drowned.append(~found.trusted)
    assert np.mean(drowned) > 0.5
    assert np.mean(np.array(held)[np.array(drowned)]) > 0.93


def test_an_eigenvalue_that_may_be_0_is_not_trusted() -> None:
    thin = np.random.default_rng(1).uniform(-1, 1, (400, 1)) * [1, 0.05, 0.05]
    lows = []
    for seed in range(20):
        request = {"epsilon": None, "rho": 0.05, "mechanism": "gaussian"}
        found = intervals(
            made(thin, seed, **request),
            "eigenvalues",
            sampling=False,
            for_clipped_rows=True,
            generator=simulation_generator(seed),
        )
        lows += found.low[found.trusted].tolist()
    assert len(lows) > 5
    assert min(lows) > 0


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_the_variance_of_a_level_is_that_of_all_other_rows(neighbors: str) -> None:
    """Each row has one of two levels, so the covariance is the variance with the opposite sign."""
    levels = {"kind": "categorical", "levels": ["a"], "other": True, "missing": "other"}
    held, twentieth = [], np.repeat(["a"] + ["b"] * 19, 1000)
    for seed in range(20):
        release = dpcov.release(
            pa.table({"town": twentieth}), schema=Schema.parse({"columns": {"town": levels}}),
            rho=0.05, neighbors=neighbors, mechanism="gaussian", seed=seed,
        )  # fmt: skip
        generator = simulation_generator(seed)
        found = intervals(release, "covariance", sampling=False, generator=generator)
        ends = found.low[0, 0], found.high[0, 0]
        assert (found.low[1, 1], found.high[1, 1]) == pytest.approx(ends, rel=0.02)
        assert (-found.high[1, 0], -found.low[1, 0]) == pytest.approx(ends, rel=0.02)
        held.append(ends[0] <= 0.05 * 0.95 <= ends[1])
    assert sum(held) >= 17, "of 20; a level of 95% has fewer once in sixty times"


def test_a_seed_repeats_the_intervals() -> None:
    first, again, other = (
        intervals(made(), "correlation", generator=simulation_generator(seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(first.low, again.low)
    assert not np.array_equal(first.low, other.low)


def test_clear_correlations_are_narrow_and_trusted() -> None:
    found = intervals(made(epsilon=20.0), "correlation", sampling=False)
    assert found.trusted.all()
    assert np.max(found.high - found.low) < 0.1
    assert np.array_equal(np.diag(found.low), np.ones(4))


def test_equal_eigenvalues_are_not_trusted_but_their_intervals_hold_them() -> None:
    flat = np.random.default_rng(1).uniform(-1, 1, (20_000, 6))
    true = np.linalg.eigvalsh(np.cov(flat, rowvar=False, bias=True))[::-1]
    trusted, held, by_tenth = [], [], []
    for seed in range(20):
        found = intervals(
            made(flat, seed, epsilon=0.5),
            "eigenvalues",
            sampling=False,
            for_clipped_rows=True,
            generator=simulation_generator(seed),
        )
        trusted.append(found.trusted)
        held.append(np.all((found.low <= true) & (true <= found.high) | found.trusted))
        most = 0.45 * (found.high - found.low)  # control: a tenth as wide
        low, high = found.low + most, found.high - most
        by_tenth.append(np.all((low <= true) & (true <= high) | found.trusted))
    assert np.mean(trusted) < 0.15
    assert sum(held) >= 17, "of 20; a level of 95% has fewer once in sixty times"
    assert sum(by_tenth) < 17


def test_a_lone_large_eigenvalue_is_trusted() -> None:
    release = made(epsilon=20.0)
    for statistic in (eigenvalues(), eigenvalues(correlation=True), explained_variance()):
        found = intervals(release, statistic, sampling=False)
        assert found.trusted[0]
        assert 0 < found.high[0] - found.low[0] < 0.1 * found.low[0]


def test_any_function_of_a_release_has_intervals() -> None:
    release = made(epsilon=5.0)
    named = intervals(release, "covariance", sampling=False, generator=simulation_generator(1))
    asked = intervals(
        release, Release.covariance, sampling=False, generator=simulation_generator(1)
    )
    width = named.high - named.low
    assert asked.low.shape == (4, 4)
    assert np.all(np.abs(asked.low - named.low) < 0.02 * width)
    assert np.all(np.abs(asked.high - named.high) < 0.02 * width)
    assert asked.trusted.all()


def test_coefficients_are_those_of_least_squares() -> None:
    release = made(epsilon=200.0)
    target, *features = release.columns
    found = intervals(release, coefficients(target, features), sampling=False)
    fitted = ols(release, target, features).coefficients
    assert np.all((found.low <= fitted) & (fitted <= found.high))
    assert np.all(found.high - found.low < 0.1)


def test_a_function_below_the_noise_level_is_not_trusted() -> None:
    found = intervals(
        made(DATA[:300], epsilon=0.1),
        lambda release: np.linalg.eigvalsh(release.second_moment()),
        sampling=False,
        for_clipped_rows=True,
    )
    assert not found.trusted.all()
    assert np.all(np.isinf(found.low[~found.trusted]))


def test_a_public_count_carries_no_noise() -> None:
    for neighbors, free in (("replace-one", True), ("add-remove", False)):
        release = made(neighbors=neighbors)
        truths_ = Estimate.of(release).errors(sampling=False, generator=simulation_generator(1))
        errors = np.concatenate(list(truths_.batches()))
        assert np.all(errors[:, -1, -1] == 0) == free
        exactly = truths_.center[-1, -1] / release.intercept() ** 2
        assert (abs(exactly - len(DATA)) < 1e-6) == free


def test_values_that_are_not_defined_count_for_both_tails() -> None:
    values = np.linspace(-1, 1, 1000)[:, None]
    few, many = values.copy(), values.copy()
    few[::100], many[::10] = np.nan, np.nan
    (low,), (high,) = _percentiles(few, 0.95)
    (plain_low,), (plain_high,) = _percentiles(values, 0.95)
    assert -1 < low < plain_low < plain_high < high < 1
    (low,), (high,) = _percentiles(many, 0.95)
    assert low == -np.inf
    assert high == np.inf


def test_twice_the_bias_is_taken_from_percentiles() -> None:
    draws = stats.norm.ppf((np.arange(10_000) + 0.5) / 10_000)[:, None] + 0.3
    bias = _bias(draws, np.zeros(1))
    assert bias == pytest.approx(0.3, abs=0.01)
    low, high = _percentiles(draws, 0.95, bias)
    assert low == pytest.approx(-0.3 - 1.96, abs=0.02)
    assert high == pytest.approx(-0.3 + 1.96, abs=0.02)


def test_skewed_noise_on_a_linear_statistic_is_no_bias() -> None:
    skewed = np.random.default_rng(1).exponential(size=(5000, 1)) - 1
    assert np.abs(_bias(skewed, np.zeros(1))) > 0.2
    assert np.abs(_bias(np.concatenate([skewed, -skewed]), np.zeros(1))) < 1e-3


def kurtosis(mean: float, variance: float, low: float) -> float:
    shared = 0.1 * np.sqrt(variance)
    covariance = np.array([[variance, shared], [shared, 0.2]])
    rows = pseudo_rows(
        np.array([mean, 0.0]),
        covariance,
        np.array([low, -1.0]),
        4000,
        simulation_generator(1),
    )
    assert np.allclose(rows.T @ rows / 4000, covariance, rtol=1e-8)
    return float(np.mean(rows[:, 0] ** 4) / variance**2)


def test_pseudo_rows_have_the_kurtosis_that_the_bounds_suggest() -> None:
    assert kurtosis(0.0, 1 / 3, -1.0) == pytest.approx(1.8, abs=0.1)
    assert kurtosis(0.1, 0.09, 0.0) == pytest.approx(1 / 0.09 - 3, rel=0.1)
    assert kurtosis(0.0, 0.01, -1.0) == pytest.approx(3.0, abs=0.2)


def test_without_an_intercept_only_functions_of_the_second_moment_have_intervals() -> None:
    release = made(intercept=0.0)
    with pytest.raises(ReleaseError, match="without an intercept"):
        intervals(release, "mean", sampling=False)
    found = intervals(release, lambda one: one.second_moment(), sampling=False)
    assert found.trusted.all()


def test_impossible_requests_are_refused() -> None:
    release = made()
    with pytest.raises(ReleaseError, match="level"):
        intervals(release, "mean", 1.0)
    with pytest.raises(ReleaseError, match="no statistic 'median'"):
        intervals(release, "median")  # type: ignore[arg-type]
    with pytest.raises(ReleaseError, match="no feature"):
        intervals(release, coefficients("nothing"))
    with pytest.raises(ReleaseError, match="no known distribution"):
        intervals(changed(release, noise=None), "mean")
    alone = made(DATA[:20], epsilon=0.01, neighbors="replace-one")
    with pytest.raises(ReleaseError, match="a noisy trace, because"):
        intervals(alone, "mean")
