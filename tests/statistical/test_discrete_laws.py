"""Draws against the exact laws; each test also rejects wrong samplers."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.discrete import discrete_gaussian, discrete_laplace

pytestmark = pytest.mark.slow

COUNT = 200_000
PASSES, REJECTED = 1e-3, 1e-9  # p-values; the seeds are fixed, so a verdict never changes
SCALES = [Fraction(s) for s in ("1/3", "1", "5/2", "40")] + [Fraction(2.7) / Fraction(0.1)]
VARIANCES = [Fraction(v) for v in ("1/10", "1", "30", "1000")] + [Fraction(2.7) / Fraction(0.1)]


def laplace_law(scale, reach=2000):
    s = mpmath.mpf(scale.numerator) / scale.denominator
    return {k: float(mpmath.exp(-abs(k) / s) * mpmath.tanh(0.5 / s)) for k in span(reach)}


def gaussian_law(variance, reach=400):
    v = mpmath.mpf(variance.numerator) / variance.denominator
    weights = {k: mpmath.exp(-k * k / (2 * v)) for k in span(reach)}
    total = mpmath.fsum(weights.values())
    return {k: float(w / total) for k, w in weights.items()}


def span(reach):
    return range(-reach, reach + 1)


def p_value(draws, law):
    """Return the chi-square p-value of integer draws against a distribution.

    Values that are expected less than 5 times share a bin.
    """
    common = np.array([k for k, p in law.items() if p * draws.size >= 5])
    expected = np.array([law[k] for k in common]) * draws.size
    observed = np.array([np.count_nonzero(draws == k) for k in common])
    expected = np.append(expected, draws.size - expected.sum())
    observed = np.append(observed, draws.size - observed.sum())
    statistic = np.sum((observed - expected) ** 2 / np.maximum(expected, 1e-3))
    return stats.chi2.sf(statistic, common.size)


def laplace_with_two_zeros(scale, rng):
    magnitude = rng.geometric(1 - np.exp(-1 / float(scale)), COUNT) - 1
    return magnitude * rng.choice([-1, 1], COUNT)


def gaussian_without_centre(variance, rng):
    """Run Algorithm 3 with gamma = y^2 / 2v in place of (|y| - v / t)^2 / 2v."""
    scale = int(variance**0.5) + 1
    y = discrete_laplace(Fraction(scale), 4 * COUNT, Entropy.seeded(11))
    return y[rng.random(y.size) < np.exp(-(y**2) / (2 * float(variance)))][:COUNT]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_draws_follow_the_exact_law_and_no_other_scale(scale):
    draws = discrete_laplace(scale, COUNT, Entropy.seeded(1))
    assert p_value(draws, laplace_law(scale)) > PASSES
    for wrong in (Fraction(2, 3), Fraction(3, 2)):
        other = discrete_laplace(scale * wrong, COUNT, Entropy.seeded(1))
        assert p_value(other, laplace_law(scale)) < REJECTED


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_laplace_battery_rejects_a_zero_with_two_signs(scale):
    draws = laplace_with_two_zeros(scale, np.random.default_rng(2))
    assert p_value(draws, laplace_law(scale)) < REJECTED


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_gaussian_draws_follow_the_exact_law_and_no_other_variance(variance):
    draws = discrete_gaussian(variance, COUNT, Entropy.seeded(3))
    assert p_value(draws, gaussian_law(variance)) > PASSES
    for wrong in (Fraction(2, 3), Fraction(3, 2)):
        other = discrete_gaussian(variance * wrong, COUNT, Entropy.seeded(3))
        assert p_value(other, gaussian_law(variance)) < REJECTED


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
def test_gaussian_battery_rejects_acceptance_without_the_centre(variance):
    draws = gaussian_without_centre(variance, np.random.default_rng(4))
    assert p_value(draws, gaussian_law(variance)) < REJECTED


@pytest.mark.parametrize("variance", [Fraction(1, 10), Fraction(1)], ids=str)
def test_gaussian_battery_rejects_rounded_normals(variance):
    normals = np.random.default_rng(5).normal(0, float(variance) ** 0.5, COUNT)
    assert p_value(np.rint(normals), gaussian_law(variance)) < REJECTED


def p_remainders(draws):
    return stats.chisquare(np.bincount(draws % 16, minlength=16)).pvalue


@pytest.mark.parametrize(
    ("sampler", "parameter", "unit", "law"),
    [
        (discrete_gaussian, Fraction(2**60), 2**30, "norm"),
        (discrete_gaussian, Fraction(2**104), 2**52, "norm"),
        (discrete_laplace, Fraction(2**30), 2**30, "laplace"),
        (discrete_laplace, Fraction(2**55), 2**55, "laplace"),
    ],
)
def test_wide_noise_has_the_continuous_shape_and_even_low_bits(sampler, parameter, unit, law):
    draws = sampler(parameter, COUNT, Entropy.seeded(6))
    assert stats.kstest(draws / unit, law).pvalue > PASSES
    assert stats.kstest(draws / unit * 1.05, law).pvalue < REJECTED
    assert p_remainders(draws) > PASSES


def test_low_bit_test_rejects_single_precision_normals():
    normals = np.random.default_rng(7).standard_normal(COUNT, dtype=np.float32)
    assert p_remainders(np.rint(normals.astype(float) * 2**30).astype(np.int64)) < REJECTED


@pytest.mark.parametrize("sampler", [discrete_laplace, discrete_gaussian])
def test_neighbouring_draws_are_independent(sampler):
    draws = np.clip(sampler(Fraction(2), COUNT, Entropy.seeded(8)), -2, 2)
    for lag in (1, 2, 64):
        table = stats.contingency.crosstab(draws[:-lag], draws[lag:]).count
        assert stats.chi2_contingency(table).pvalue > PASSES
    shared = draws[1:] + draws[:-1]
    table = stats.contingency.crosstab(shared[:-1], shared[1:]).count
    assert stats.chi2_contingency(table).pvalue < REJECTED
