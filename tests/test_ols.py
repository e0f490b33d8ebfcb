"""Least squares with standard errors for sampling and privacy noise."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import dpcov
from analysis_tables import (
    null_matrix,
    one_hot,
    released,
    rescaled,
    trace_only,
    without_intercept,
    without_law,
)
from dpcov import ols
from dpcov.core.entropy import simulation_generator
from dpcov.errors import ReleaseError
from rounds_for_tests import changed
from statistical.checks import PASSES, REJECTED

TRUTH = np.array([0.2, 1.0, -0.5, 0.0])
REPEATS = 120


@pytest.mark.parametrize("target", ["y", "sex=f"])
def test_every_figure_is_that_of_statsmodels(target: str) -> None:
    fit = ols(released(), target)
    names = ("a", "group=v", "group=w", "b", "sex=f", "c", "y")
    assert fit.names == ("(intercept)", *(name for name in names if name != target))
    expected = sm.OLS(one_hot((target,))[:, 0], sm.add_constant(one_hot(fit.names[1:]))).fit()
    assert np.allclose(fit.coefficients, expected.params, atol=1e-4)
    assert np.allclose(fit.sampling_errors, expected.bse, rtol=1e-4)
    assert np.all(fit.privacy_errors < 1e-2 * fit.sampling_errors)
    assert np.allclose(fit.t, expected.tvalues, rtol=1e-3, atol=1e-2)
    assert np.allclose(fit.p_values, expected.pvalues, atol=1e-3)
    assert np.allclose(fit.conf_int(), expected.conf_int(), atol=1e-3)
    assert fit.r_squared == pytest.approx(expected.rsquared, abs=1e-5)
    assert fit.adjusted_r_squared == pytest.approx(expected.rsquared_adj, abs=1e-5)
    assert fit.residual_deviation == pytest.approx(np.sqrt(expected.scale), rel=1e-4)
    assert fit.degrees == pytest.approx(expected.df_resid, abs=1e-2)


@pytest.mark.parametrize("name", ["f", "f_p_value"])
def test_former_names_of_the_f_test_are_nan(name: str) -> None:
    fit = ols(released(), "y")
    with pytest.warns(FutureWarning, match="ignores the privacy noise"):
        assert np.isnan(getattr(fit, name))
    assert name not in fit.document()
    assert fit.wald.words in fit.summary()


def test_control_an_f_test_would_ignore_the_privacy_noise() -> None:
    """What was printed: without any effect it found one in 40% of such fits."""
    former, found = [], []
    for seed in range(12):
        rows = np.random.default_rng(seed).uniform(-1, 1, (1000, 12))
        fit = ols(dpcov.release(rows, lower=-1, upper=1, epsilon=1.0, seed=seed), "x0")
        f = fit.r_squared / (1 - fit.r_squared) * fit.degrees / 11
        former.append(stats.f.sf(f, 11, fit.degrees) < 0.05)
        found.append(fit.wald.p_value < 0.05)
    assert np.mean(former) > 0.15
    assert stats.binomtest(sum(found), len(found), 0.05, alternative="greater").pvalue > PASSES


def test_units_scale_coefficients_and_errors() -> None:
    factors = {"a": 1000.0, "y": 0.01}
    one, other = ols(released(), "y"), ols(rescaled(**factors), "y")
    units = np.array([0.01 / factors.get(name, 1.0) for name in one.names])
    assert np.allclose(other.coefficients, one.coefficients * units, rtol=1e-3)
    assert np.allclose(other.standard_errors, one.standard_errors * units, rtol=1e-3)
    assert np.allclose(other.t, one.t, rtol=1e-3)


@lru_cache
def fits(epsilon: float, factor: float = 1.0, clip: bool = True) -> list[dpcov.analysis.ols.OLS]:
    """Fit releases of fresh samples, with or without an allowance for the clipping bias."""
    found = []
    for seed in range(REPEATS):
        generator = np.random.default_rng(seed)
        x = generator.uniform(-1, 1, (4000, 3))
        y = x @ TRUTH[1:] + TRUTH[0] + 0.5 * generator.uniform(-1, 1, len(x))
        rows = np.column_stack([x, y])
        made = dpcov.release(rows, lower=-2.5, upper=2.5, epsilon=epsilon, seed=seed)
        lengths = made.lengths if clip else None
        made = changed(made, noise=made.noise.rescaled(factor), lengths=lengths)
        found.append(ols(made, "x3", generator=simulation_generator(seed)))
    return found


def coverage_p_value(found: list[dpcov.analysis.ols.OLS]) -> float:
    """Return the two-sided p-value of 95% coverage; each fit counts for one coefficient."""
    pick = [j % len(TRUTH) for j in range(len(found))]
    hits = [f.lower[j] <= TRUTH[j] <= f.upper[j] for f, j in zip(found, pick, strict=True)]
    return float(stats.binomtest(int(np.sum(hits)), len(hits), 0.95).pvalue)


@pytest.mark.statistics
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 20.0])
def test_intervals_cover_the_truth(epsilon: float) -> None:
    assert coverage_p_value(fits(epsilon)) > PASSES


@pytest.mark.statistics
def test_intervals_without_the_privacy_noise_do_not_cover() -> None:
    alone = [
        replace(f, lower=f.coefficients - 2 * f.sampling_errors,
                upper=f.coefficients + 2 * f.sampling_errors)
        for f in fits(0.5)
    ]  # fmt: skip
    assert coverage_p_value(alone) < REJECTED


@pytest.mark.statistics
def test_a_law_with_a_third_of_the_noise_does_not_cover() -> None:
    """The fits have no allowance for clipping: it would exceed the noise."""
    assert coverage_p_value(fits(0.3, clip=False)) > PASSES
    assert coverage_p_value(fits(0.3, 1 / 3, clip=False)) < REJECTED


def test_the_summary_prints_every_figure_and_what_it_covers() -> None:
    fit = ols(released(2.0), "y", ["a", "sex"])
    lines = fit.summary().splitlines()
    heads = lines[1].split()
    assert heads == ["coef", "std", "err", "sampling", "privacy", "t", "P>|t|", "[0.025", "0.975]"]
    names, figures = zip(*(line.split(maxsplit=1) for line in lines[2:5]), strict=True)
    assert names == ("(intercept)", "a", "sex=f")
    printed = np.array([[float(figure) for figure in line.split()] for line in figures])
    assert np.allclose(printed[:, 0], fit.coefficients, rtol=1e-4)
    assert np.allclose(printed[:, 3], fit.privacy_errors, rtol=1e-3)
    assert np.allclose(printed[:, 6:], np.column_stack([fit.lower, fit.upper]), rtol=1e-4)
    assert lines[6] == fit.wald.words
    assert "privacy noise" in lines[7]


def test_the_summary_names_coefficients_below_the_noise_level() -> None:
    clear, noisy = ols(released(200.0), "y", ["a"]), ols(released(0.5), "y", ["a", "c"])
    assert clear.below_noise is not None
    assert not clear.below_noise[1:].any()
    assert noisy.privacy_errors is not None
    below = np.abs(noisy.coefficients) <= 1.96 * noisy.privacy_errors
    assert np.array_equal(noisy.below_noise, below)
    names = [name for name, flagged in zip(noisy.names, below, strict=True) if flagged]
    assert names
    last = noisy.summary().splitlines()[-1]
    assert last.startswith("Below the noise level, because the 95% interval")
    assert last.endswith(f"contains 0: {', '.join(names)}.")
    assert noisy.document()["below_noise"].tolist() == below.tolist()


def test_without_a_noise_law_errors_cover_sampling_only_and_say_so() -> None:
    fit = ols(without_law(released()), "y")
    assert fit.privacy_errors is None
    assert np.array_equal(fit.standard_errors, fit.sampling_errors)
    assert "cover the sampling error only" in fit.summary()


def test_coefficients_that_the_noise_leaves_open_are_wide_and_not_trusted() -> None:
    """There is an answer at any budget, and it says what it is worth."""
    clear, open_ = ols(released(200.0), "y"), ols(released(0.03, mechanism="matrix-laplace"), "y")
    assert np.isfinite(open_.coefficients).all()
    assert np.isfinite(open_.standard_errors).all()
    assert not open_.trusted[1:].any()
    assert np.all(open_.standard_errors > 3 * clear.standard_errors)


def test_features_that_determine_others_are_refused() -> None:
    made = changed(without_law(released()), count_noise=None, published_count=None)
    twice = made.second_moment().copy()
    a, c = made.columns.index("a"), made.columns.index("c")
    twice[c], twice[:, c] = twice[a], twice[:, a]
    twice[c, c] = twice[a, a]
    with pytest.raises(ReleaseError, match=r"not unique: a, c\. Choose fewer features"):
        ols(replace(made, denoised=twice), "y", ["a", "c"])


def test_too_few_rows_are_refused() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (4, 4))
    made = dpcov.release(rows, lower=-1, upper=1, epsilon=1e6, neighbors="replace-one", seed=0)
    with pytest.raises(ReleaseError, match="more rows than about"):
        ols(made, "x3")


@pytest.mark.parametrize("count", [1, 4])
def test_where_the_number_of_rows_is_private_it_answers_as_of_few(count: int) -> None:
    """Noise decides on it then; a control is above, where it is public."""
    rows = np.random.default_rng(0).uniform(-1, 1, (4, 4))[:count]
    fit = ols(dpcov.release(rows, lower=-1, upper=1, epsilon=1e6, seed=0), "x3")
    assert fit.degrees == pytest.approx(1)
    assert fit.adjusted_r_squared < fit.r_squared < 1
    assert not np.isnan(fit.standard_errors).any()
    widths = fit.upper - fit.lower  # NaN if the coefficient is not estimable
    assert not np.any(widths <= 12 * fit.sampling_errors)


def test_coefficients_that_may_be_anything_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cause can be plausible errors that leave no rows or no variance."""
    unknown = SimpleNamespace(
        deviations=np.full(3, np.nan),
        trusted=np.zeros(3, bool),
        below_noise=np.ones(3, bool),
        hidden=np.ones(2, bool),
    )
    monkeypatch.setattr("dpcov.analysis.ols.stated", lambda *_: [unknown] * 3)
    fit = ols(released(), "y", ["a", "b"])
    assert np.isnan(fit.r_squared_interval).all()
    assert np.all(fit.standard_errors == np.inf)
    assert np.all(fit.p_values == 1)
    assert np.isnan(fit.conf_int()).all()
    assert np.isinf(fit.sufficient_budget).all()


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_a_level_that_is_no_share_is_refused(level: float) -> None:
    with pytest.raises(ReleaseError, match="above 0 and below 1"):
        ols(released(), "y", level=level)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "a noisy trace, because"),
        (without_intercept, "without an intercept"),
        (lambda: without_law(null_matrix()), "is null"),
    ],
)
def test_a_release_with_nothing_to_analyse_is_refused(made, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        ols(made(), "y")
