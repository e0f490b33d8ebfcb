"""Sampled covariances: the Renyi curve against numerics, the law against the ideal one."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.errors import MechanismError
from dpcov.papers.accounting import renyi_epsilon
from dpcov.papers.primitives.sampled_covariance import (
    COUPLING_PROBABILITY,
    SampledCovariance,
    divergence,
    most_samples,
    usable_delta,
)


def exact_divergence(change, alpha):
    """Return the Renyi divergence of N(0, 1 + change) from N(0, 1) with 60 digits."""
    with mpmath.workdps(60):
        e, order = mpmath.mpf(change), mpmath.mpf(alpha)
        left = 1 - (order - 1) * e
        return -mpmath.log(1 + e) / 2 - mpmath.log(left) / (2 * (order - 1)) if left > 0 else None


@pytest.mark.parametrize(("change", "alpha"), [(0.3, 2), (0.3, 3.5), (-0.3, 4), (0.01, 50)])
def test_the_closed_form_is_the_integral(change, alpha):
    def integrand(x):
        p, q = (mpmath.npdf(x, 0, mpmath.sqrt(v)) for v in (1 + change, 1))
        return p**alpha * q ** (1 - alpha)

    integral = 2 * mpmath.quad(integrand, [0, 1, 3, 6, 12, 30, 60])
    found = mpmath.log(integral) / (alpha - 1)
    assert float(found) == pytest.approx(float(exact_divergence(change, alpha)), rel=1e-9)


@pytest.mark.parametrize("close", [1e-9, 1e-5, 1e-3, 0.02, 0.3])
@pytest.mark.parametrize("share", [1e-6, 1e-4, 9.9e-4, 1.01e-3, 0.1, 0.9, 0.998])
def test_the_curve_is_rounded_up_and_tight(close, share):
    alpha = 1 + share / close
    if alpha < 2:
        assert divergence(close, alpha) == math.inf
        return
    exact = exact_divergence(close, alpha)
    found = divergence(close, alpha)
    assert exact <= found
    assert found <= exact * (1 + 1e-6)
    assert close**2 * alpha / 4 < found  # Broken: the leading term alone is too little


def test_no_curve_is_claimed_where_there_is_no_proof():
    for alpha in (1.5, 1.999, 1 + 1 / 0.02, 1 + 0.9995 / 0.02, 1e9):
        assert divergence(0.02, alpha) == math.inf


def largest_sum(close, alpha, signs):
    """Search at random for the largest sum of exact divergences over changes of 2-norm `close`."""
    rng = np.random.default_rng(1)
    found = 0.0
    for _ in range(200):
        direction = rng.normal(size=rng.integers(1, 6)) ** 3
        direction = direction if signs else abs(direction)
        changes = close * (1 - 1e-12) * direction / np.linalg.norm(direction)
        found = max(found, float(sum(exact_divergence(e, alpha) for e in changes)))
    return found


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize(("close", "alpha"), [(0.3, 2), (0.3, 4.2), (0.05, 15), (0.05, 20.5)])
def test_no_changes_of_this_norm_cost_more_than_one_of_them(close, alpha, signs):
    found = largest_sum(close, alpha, signs)
    assert found <= divergence(close, alpha)
    assert found > 0.99 * divergence(close, alpha)


def test_the_number_of_samples_is_the_largest_that_the_budget_allows():
    samples = most_samples(2e-3, 0.7, 1e-6)
    assert renyi_epsilon(SampledCovariance(2e-3, samples).renyi, 1e-6) <= 0.7
    assert renyi_epsilon(SampledCovariance(2e-3, samples + samples // 50).renyi, 1e-6) > 0.7
    assert most_samples(0.3, 1e-4, 1e-9) == 0


def test_delta_less_the_coupling_is_kept():
    assert 1e-6 * (1 - 1e-12) < usable_delta(1e-6, 1.0) < 1e-6
    left = 1e-20 - usable_delta(1e-20, 5.0)
    assert left > COUPLING_PROBABILITY * (1 + math.exp(5))
    for delta, epsilon in ((COUPLING_PROBABILITY, 1.0), (1e-6, 60.0), (1e-6, 1e300)):
        with pytest.raises(MechanismError):
            usable_delta(delta, epsilon)


D, SAMPLES, DIVISOR = 3, 7, 5
ROOT = np.array([[90, 0, 0], [-700, 8, 0], [11, 5, 1000]]) * 10**9
MATRIX = (ROOT.astype(object) @ ROOT.T.astype(object)) * DIVISOR


@pytest.fixture(scope="module")
def draws():
    entropy = Entropy.seeded(5)
    sampled = SampledCovariance(0.01, SAMPLES)
    return [sampled(MATRIX, DIVISOR, entropy) for _ in range(400)]


def statistics_of(draws, scale=1.0):
    """Return statistics of A^-1/2 W A^-1/2 along vectors and of its determinant.

    The distributions of these numbers are known.
    """
    inverse = np.linalg.inv(ROOT.astype(float)) / math.sqrt(scale)
    whitened = np.array([inverse @ w.astype(float) @ inverse.T for w in draws]) * SAMPLES
    vectors = np.array([[1, 0, 0], [0, 0, 1], [0.6, 0, -0.8], [0.5, 0.5, math.sqrt(0.5)]])
    forms = np.einsum("ki,nij,kj->kn", vectors, whitened, vectors)
    rest = [1 / np.linalg.inv(whitened)[:, i, i] for i in range(D)]
    return forms, rest, whitened[:, 0, 1] / np.sqrt(whitened[:, 0, 0])


def rejections(forms, rest, off, samples=SAMPLES):
    """Return p-values: forms chi-square(N), Schur complements chi-square(N - d + 1), normals."""
    chi = [stats.kstest(f, stats.chi2(samples).cdf).pvalue for f in forms]
    schur = [stats.kstest(r, stats.chi2(samples - D + 1).cdf).pvalue for r in rest]
    return min([*chi, *schur, stats.kstest(off, stats.norm.cdf).pvalue])


def test_draws_follow_the_law_of_covariances_of_samples(draws):
    assert rejections(*statistics_of(draws)) > 1e-3


def test_another_scale_or_number_of_samples_is_detected(draws):
    assert rejections(*statistics_of(draws, scale=1.25)) < 1e-6
    assert rejections(*statistics_of(draws), samples=SAMPLES + 1) < 1e-6


def test_a_root_on_the_wrong_side_is_detected(draws, monkeypatch):
    """The broken version computes L' B B' L."""
    from dpcov.papers.primitives import sampled_covariance

    right = sampled_covariance._cholesky
    monkeypatch.setattr(sampled_covariance, "_cholesky", lambda matrix: right(matrix).T)
    entropy, sampled = Entropy.seeded(5), SampledCovariance(0.01, SAMPLES)
    wrong = [sampled(MATRIX, DIVISOR, entropy) for _ in range(100)]
    assert rejections(*statistics_of(wrong)) < 1e-6


def test_an_ill_conditioned_matrix_is_sampled_to_the_last_direction():
    """Condition 2^60; in floats the small direction would be lost."""
    tiny = np.array([[1, 0], [2**30, 1]], dtype=object)
    matrix = tiny @ tiny.T * 2**75
    entropy, sampled = Entropy.seeded(6), SampledCovariance(0.01, 4)
    forms = []
    for _ in range(200):
        w = sampled(matrix, 1, entropy)
        determinant = Fraction(int(w[0, 0] * w[1, 1] - w[0, 1] ** 2), int(w[0, 0]))
        forms.append(4 * float(determinant) / 2**75)
    assert stats.kstest(forms, stats.chi2(3).cdf).pvalue > 1e-3
    assert stats.kstest(forms, stats.chi2(4).cdf).pvalue < 1e-6
