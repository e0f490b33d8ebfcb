"""Wald tests of regressions, the covariance of coefficients, and intervals for the fit."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats

import dpcov
from analysis_tables import one_hot, released, without_law
from dpcov import ols
from dpcov.analysis import estimable
from dpcov.analysis.wald import Hypothesis, Step
from dpcov.errors import ReleaseError
from statistical.checks import PASSES, REJECTED

NAMES = ("(intercept)", "x0", "x1")
ERRORS = np.random.default_rng(0).standard_normal((8, 2))
FILE = Path(__file__).with_name("data") / "0.2.0" / "auto-zcdp.json"
REPEATS, SIZE_REPEATS, STRONG = 120, 200, 0.5
GOLDEN = [
    333.42044,
    1278.8436,
    6.2531211e-64,
    0.31723466,
    0.44625003,
    0.86345995,
    0.96528662,
    0.00021658676,
]


def reference() -> tuple[dpcov.analysis.ols.OLS, sm.regression.linear_model.RegressionResults]:
    fit = ols(released(), "y")
    values = sm.add_constant(one_hot(fit.names[1:]))
    return fit, sm.OLS(one_hot(("y",))[:, 0], values).fit()


def table(seed: int, effect: float, n: int) -> np.ndarray:
    """Return six columns of equal variance; the second explains a share of the first."""
    generator = np.random.default_rng(seed)
    rows = generator.uniform(-1, 1, (n, 6))
    own, common = generator.uniform(-1, 1, (2, n))
    rows[:, 1:] = np.sqrt(0.8) * rows[:, 1:] + np.sqrt(0.2) * common[:, None]
    rows[:, 0] = np.sqrt(1 - effect) * own + np.sqrt(effect) * rows[:, 1]
    return 0.4 * rows


def made(seed: int, effect: float, n: int = 2000, epsilon: float = 1.0) -> dpcov.Release:
    return dpcov.release(table(seed, effect, n), lower=-1, upper=1, epsilon=epsilon, seed=seed)


@lru_cache
def fits(effect: float, n: int = 2000, repeats: int = REPEATS) -> list[dpcov.analysis.ols.OLS]:
    return [ols(made(seed, effect, n), "x0") for seed in range(repeats)]


def test_without_noise_the_covariance_is_the_classical_one() -> None:
    fit, expected = reference()
    assert np.allclose(fit.vcov(), expected.cov_params(), rtol=1e-3, atol=1e-9)
    robust = expected.get_robustcov_results("HC1").cov_params()  # control
    assert not np.allclose(fit.vcov(), robust, rtol=1e-3, atol=1e-9)


def test_without_noise_the_tests_are_the_f_tests() -> None:
    fit, expected = reference()
    k = len(fit.names) - 1
    assert fit.wald.statistic == pytest.approx(k * expected.fvalue, rel=1e-3)
    assert fit.wald.p_value == pytest.approx(expected.f_pvalue, abs=1e-6)
    assert fit.wald.degrees == k
    assert fit.wald.denominator_degrees == pytest.approx(expected.df_resid, rel=1e-3)
    some = [fit.names.index(name) for name in ("c", "group=v")]
    matrix = np.eye(k + 1)[some]
    found, truth = fit.wald_test(["c", "group=v"]), expected.f_test(matrix)
    assert found.statistic == pytest.approx(2 * float(truth.fvalue), rel=1e-2)
    assert found.p_value == pytest.approx(float(truth.pvalue), abs=1e-3)
    for values in ([0.0, 1.0], [0.5, 0.9]):
        matrix = np.zeros((2, k + 1))
        matrix[0, 0], matrix[0, 1], matrix[1, 1] = 1.0, 0.2, 1.0
        found, truth = fit.wald_test(matrix, values), expected.f_test((matrix, values))
        assert found.statistic == pytest.approx(2 * float(truth.fvalue), rel=1e-3)


def test_the_test_of_one_coefficient_is_the_square_of_its_t() -> None:
    fit = ols(made(0, 0.1), "x0")
    for name, t, p in zip(fit.names, fit.t, fit.p_values, strict=True):
        found = fit.wald_test(name)
        assert found.statistic == pytest.approx(t**2)
        assert found.p_value == pytest.approx(p)
        assert found.hypothesis == f"{name} = 0"
    assert np.array_equal(np.sign(fit.t), np.sign(fit.coefficients))


def test_a_hypothesis_does_not_depend_on_its_form() -> None:
    """The rows of R may be mixed; units of the data change nothing."""
    fit = ols(made(1, 0.1), "x0")
    matrix = np.eye(6)[[1, 3]]
    named, mixed = fit.wald_test(["x1", "x3"]), fit.wald_test([[0, 2, 0, 1, 0, 0], matrix[1]])
    assert mixed.statistic == pytest.approx(named.statistic)
    assert fit.wald_test(matrix).p_value == pytest.approx(named.p_value)
    assert fit.wald_test().statistic == pytest.approx(fit.wald.statistic)


def test_a_contrast_of_one_coefficient_is_the_coefficient() -> None:
    fit = ols(made(3, 0.1), "x0")
    found, at = fit.contrast({"x2": 2}), fit.names.index("x2")
    ends = [found.estimate, found.standard_error, found.lower, found.upper]
    expected = [fit.coefficients[at], fit.standard_errors[at], fit.lower[at], fit.upper[at]]
    assert ends == pytest.approx([2 * one for one in expected])
    assert found.wald.p_value == pytest.approx(fit.p_values[at])
    assert fit.wald_test(np.eye(6)[at]).statistic == pytest.approx(fit.t[at] ** 2)
    for weights, message in [
        ({"x7": 1}, "no coefficient 'x7'"),
        ({"x1": 0}, "finite"),
        ({}, "fin"),
    ]:
        with pytest.raises(ReleaseError, match=message):
            fit.contrast(weights)


def test_a_contrast_that_says_nothing_has_no_interval_and_names_a_sufficient_budget(
    monkeypatch,
) -> None:
    """Controls: with a larger budget, the interval exists; the intercept has no limits."""
    rows = np.random.default_rng(0).normal(size=(1000, 3))
    rows @= [[0.1, 0, 0], [1, 1, 0.9], [0.4, 0, 0.4]]
    poor, rich = (
        ols(dpcov.release(rows, lower=-5, upper=5, epsilon=epsilon, seed=1), "x0")
        for epsilon in (0.1, 20.0)
    )
    weights = {"x1": 1, "x2": -1}
    assert np.isfinite(poor.contrast(weights).lower)  # it contains half of the possible values
    monkeypatch.setattr(estimable, "MIN_EMPTY_SPAN", 0.3)
    empty, found = poor.contrast(weights), rich.contrast(weights)
    assert np.isnan([empty.lower, empty.upper]).all()
    assert empty.sufficient_budget > 0.1
    assert f"of about {empty.sufficient_budget:g} would do" in str(empty)
    assert found.lower < found.estimate < found.upper
    assert np.isnan(found.sufficient_budget)
    assert "would do" not in str(found)
    assert np.isfinite(poor.contrast({"(intercept)": 1, **weights}).lower)


def test_the_limit_of_a_combination_is_that_of_the_coefficient_or_of_a_new_feature() -> None:
    """A change of the features changes the limit of no combination."""
    release = made(3, 0.1)
    fit = ols(release, "x0")
    single = fit.fit.largest(np.eye(6)[2:3])
    assert single == pytest.approx(fit.fit.statistic.possible(release, fit.fit.blocks.center)[1][2])
    assert fit.fit.largest(-3 * np.eye(6)[2:3]) == pytest.approx(3 * single)
    row = np.array([[0, 1.0, -1.0, 0, 0, 0]])
    covariance = release.covariance()
    spread = (row[0, 1:] @ np.linalg.inv(covariance[1:, 1:]) @ row[0, 1:]) * covariance[0, 0]
    assert fit.fit.largest(row) == pytest.approx(np.sqrt(spread), rel=0.05)


def test_the_variances_are_the_squared_errors() -> None:
    fit = ols(made(2, 0.1), "x0")
    assert np.allclose(np.diag(fit.vcov()), fit.standard_errors**2)
    assert np.allclose(np.diag(fit.vcov(sampling=False)), fit.privacy_errors**2)
    assert np.linalg.eigvalsh(fit.vcov())[0] > 0
    alone = ols(without_law(released()), "y")
    assert not alone.vcov(sampling=False).any()
    assert np.allclose(np.diag(alone.vcov()), alone.standard_errors**2)


def test_figures_of_a_release_file_stay_as_they_are() -> None:
    """The file is of an earlier version, so that changes of new releases do not change it."""
    fit = ols(dpcov.load(FILE), "b")
    test = fit.wald
    found = [test.statistic, test.denominator_degrees, test.p_value]
    found += [*fit.r_squared_interval, *fit.residual_interval, fit.vcov()[1, 2]]
    assert found == pytest.approx(GOLDEN, rel=1e-6)


def test_without_a_noise_law_the_test_is_classical() -> None:
    fit = ols(without_law(released()), "y")
    k = len(fit.names) - 1
    assert fit.wald.draws == 0
    assert fit.wald.denominator_degrees == pytest.approx(fit.degrees)
    expected = fit.r_squared / (1 - fit.r_squared) * fit.degrees
    assert fit.wald.statistic == pytest.approx(expected, rel=0.05)
    assert fit.wald.p_value == pytest.approx(
        stats.f.sf(fit.wald.statistic / k, k, fit.degrees), abs=1e-12
    )


def test_the_result_is_in_all_forms() -> None:
    fit = ols(made(4, 0.1), "x0")
    assert fit.wald.words in fit.summary()
    low, high = fit.r_squared_interval
    assert f"({low:.3f} to {high:.3f}; adjusted" in fit.summary()
    assert fit.document()["wald"] == fit.wald.document()
    assert fit.document()["r_squared_interval"].tolist() == [low, high]
    lines = {line.split(",")[0]: line.split(",") for line in fit.csv().splitlines()}
    assert float(lines["(R-squared)"][1]) == fit.r_squared
    assert float(lines["(residual std)"][8]) == fit.residual_interval[1]
    assert float(lines["(Wald test)"][5]) == fit.wald.statistic
    assert float(lines["(Wald test)"][6]) == fit.wald.p_value
    assert fit.arrow().num_rows == len(fit.names) + 3
    assert "degrees of freedom 5 and" in fit.wald.words
    assert fit.wald.summary().startswith("Wald test")
    assert json.dumps(fit.wald.document())


@pytest.mark.parametrize(
    ("asked", "values", "message"),
    [
        ("x7", None, "no coefficient 'x7'"),
        (["x0", "x0"], None, "linearly independent"),
        ([], None, "linearly independent"),
        ([[0, 1]], None, "needs 3 columns"),
        ([[0, 1, np.nan]], None, "needs 3 columns"),
        ([[0, 1, 2], [0, 2, 4]], None, "linearly independent"),
        ("x0", [1, 2], "needs 1 finite values"),
        ("x0", [np.inf], "needs 1 finite values"),
    ],
)
def test_a_hypothesis_that_cannot_be_tested_is_refused(asked, values, message: str) -> None:
    with pytest.raises(ReleaseError, match=message):
        Hypothesis.asked(NAMES, asked, values)


def test_too_many_coefficients_for_the_draws_are_not_tested() -> None:
    asked = Hypothesis.asked(NAMES, None, None)
    step = Step(asked, np.ones(2), ERRORS[:7], np.eye(2), 100.0)
    found = step.test()
    assert np.isnan(found.statistic)
    assert np.isnan(found.p_value)
    assert found.words.startswith("No Wald test: a joint test of 2 coefficients")
    assert replace(step, effects=ERRORS).test().p_value < 1  # control


def test_errors_that_are_unknown_find_nothing() -> None:
    asked = Hypothesis.asked(NAMES, None, None)
    step = Step(asked, np.ones(2), np.full((300, 2), np.nan), np.eye(2), 100.0)
    assert (step.test().statistic, step.test().p_value) == (0.0, 1.0)


def test_the_distribution_accounts_for_both_sources_of_error() -> None:
    """Without a sampling error, it is the distribution of Hotelling."""
    generator = np.random.default_rng(0)
    asked = Hypothesis.selecting(5, range(5), "all")
    draws, few, truth = 40, [], []
    for _ in range(2000):
        errors = generator.standard_normal((draws, 5))
        step = generator.standard_normal(5)
        found = Step(asked, step, errors, np.zeros((5, 5)), 1e6).test()
        few.append(found.p_value)
        truth.append(stats.chi2.sf(found.statistic, 5))
    assert stats.kstest(few, "uniform").pvalue > PASSES
    assert stats.kstest(truth, "uniform").pvalue < REJECTED  # control: known covariance assumed


def test_the_distribution_accounts_for_long_tails() -> None:
    """Errors of which all coordinates are large together have a multivariate t distribution."""
    generator = np.random.default_rng(1)
    asked = Hypothesis.selecting(5, range(5), "all")

    def drawn(count: int) -> np.ndarray:
        scales = np.sqrt(8 / generator.chisquare(10, count))  # so that variances are 1
        return generator.standard_normal((count, 5)) * scales[:, None]

    errors, zeros = drawn(4000), np.zeros((5, 5))
    tests = [Step(asked, one, errors, zeros, 1e6).test() for one in drawn(2000)]
    found = sum(test.p_value < 0.01 for test in tests)
    plain = sum(stats.chi2.sf(test.statistic, 5) < 0.01 for test in tests)
    assert stats.binomtest(found, len(tests), 0.01).pvalue > PASSES
    assert stats.binomtest(plain, len(tests), 0.01).pvalue < REJECTED  # control: normal errors


def rejections(found: list[dpcov.analysis.ols.OLS]) -> tuple[int, int]:
    """Return how many joint tests and how many tests of one null coefficient find an effect."""
    joint = sum(fit.wald.p_value < 0.05 for fit in found)
    return joint, sum(fit.p_values[3] < 0.05 for fit in found)


@pytest.mark.slow
def test_tests_keep_their_level_in_many_releases() -> None:
    found = fits(0.0, 2000, SIZE_REPEATS)
    for count in rejections(found):
        assert stats.binomtest(count, len(found), 0.05).pvalue > PASSES
    explained = np.array([fit.r_squared for fit in found])
    degrees = np.array([fit.degrees for fit in found])
    former = stats.f.sf(explained / (1 - explained) * degrees / 5, 5, degrees) < 0.05
    assert stats.binomtest(int(former.sum()), len(found), 0.05).pvalue < REJECTED  # control


@pytest.mark.slow
def test_intervals_of_the_fit_cover_the_truth() -> None:
    found = fits(STRONG, 4000)
    residual = 0.4 * np.sqrt((1 - STRONG) / 3)
    for truth, ends in (
        (STRONG, [fit.r_squared_interval for fit in found]),
        (residual, [fit.residual_interval for fit in found]),
    ):
        low, high = np.transpose(ends)
        hits = int(np.sum((low <= truth) & (truth <= high)))
        assert stats.binomtest(hits, len(found), 0.95, alternative="less").pvalue > PASSES
    assert rejections(found)[0] > 0.9 * len(found)


def test_an_effect_is_found_and_its_interval_starts_above_0() -> None:
    fit = ols(made(5, STRONG, 20_000), "x0")
    assert fit.wald.p_value < 1e-6
    low, high = fit.r_squared_interval
    assert 0 < low < fit.r_squared < high < 1
    none = ols(made(5, 0.0, 20_000), "x0")
    assert (none.r_squared_interval[0] == 0) == (none.wald.p_value > 0.05)
    least, largest = fit.residual_interval
    assert least < fit.residual_deviation < largest
