"""Gaussian orthogonal noise: half the variance off the diagonal, independent entries."""

from fractions import Fraction

import numpy as np
import pytest
from checks import PASSES, REJECTED, correlation_p_value, variance_p_value
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace

pytestmark = pytest.mark.slow

D = 30
VARIANCE = Fraction(2**60, 3)
BELOW = np.tril_indices(D, -1)


def drawn(law, count, seed):
    entropy = Entropy.seeded(seed)
    return np.stack([law.sample(entropy) for _ in range(count)])


@pytest.fixture(scope="module")
def draws():
    return drawn(GaussianOrthogonal(D, VARIANCE), 2500, 1)


def parts(matrices):
    return np.diagonal(matrices, axis1=1, axis2=2), matrices[:, *BELOW]


def p_values(matrices, variance=VARIANCE):
    """Return p-values for variance s^2 on the diagonal and s^2 / 2 off it."""
    diagonal, off = parts(matrices)
    return variance_p_value(diagonal, variance), variance_p_value(off, variance / 2)


def test_variances_are_s2_on_and_half_of_it_off_the_diagonal(draws):
    assert min(p_values(draws)) > PASSES
    np.testing.assert_array_equal(draws, draws.swapaxes(1, 2))


def test_a_sigma_three_percent_small_is_rejected(draws):
    assert max(p_values(draws * 0.97)) < REJECTED
    assert max(p_values(drawn(GaussianOrthogonal(D, VARIANCE * 9 / 10), 2500, 2))) < REJECTED


def test_one_variance_for_all_entries_is_rejected(draws):
    common = draws.astype(float)
    common[:, np.arange(D), np.arange(D)] *= 0.5**0.5  # the diagonal as the rest
    assert p_values(common)[0] < REJECTED
    assert p_values(common)[1] > PASSES


def test_entries_are_normal(draws):
    diagonal, off = parts(draws)
    scale = float(VARIANCE) ** 0.5
    assert stats.kstest(diagonal.ravel() / scale, "norm").pvalue > PASSES
    assert stats.kstest(off[:200].ravel() / scale * 2**0.5, "norm").pvalue > PASSES
    uniform = np.random.default_rng(3).uniform(-(3**0.5), 3**0.5, diagonal.size)
    assert stats.kstest(uniform, "norm").pvalue < REJECTED


def lower(matrices):
    return matrices[:, *np.tril_indices(matrices.shape[1])]


def test_entries_of_a_matrix_and_consecutive_matrices_are_independent():
    matrices = drawn(GaussianOrthogonal(4, VARIANCE), 8000, 4).astype(float)
    entries = lower(matrices)
    assert correlation_p_value(entries) > PASSES
    assert correlation_p_value(np.hstack([entries[::2], entries[1::2]])) > PASSES
    assert correlation_p_value(entries**2) > PASSES
    shared = matrices + 0.15 * matrices[:, :1, :1]
    assert correlation_p_value(lower(shared)) < REJECTED


def test_simulated_noise_has_the_same_variances():
    generator = np.random.default_rng(5)
    law = GaussianOrthogonal(D, VARIANCE)
    simulated = np.stack([law.simulate(generator) for _ in range(2500)])
    assert min(p_values(simulated)) > PASSES
    assert max(p_values(simulated * 0.97)) < REJECTED
    frobenius = (simulated**2).sum(axis=(1, 2)).mean()
    assert frobenius == pytest.approx(law.frobenius_squared, rel=0.01)
    assert law.rescaled(0.5) == GaussianOrthogonal(D, VARIANCE / 4)


@pytest.mark.parametrize(
    ("law", "known"),
    [(ScalarGaussian(VARIANCE), "norm"), (ScalarLaplace(Fraction(2**50, 3)), "laplace")],
)
def test_scalar_noise_has_its_law_and_its_simulation_too(law, known):
    entropy, generator = Entropy.seeded(6), np.random.default_rng(7)
    unit = law.standard_deviation / stats.distributions.__dict__[known].std()
    released = np.array([law.sample(entropy) for _ in range(4000)]) / unit
    simulated = np.array([law.simulate(generator) for _ in range(4000)]) / unit
    for values in (released, simulated):
        assert stats.kstest(values, known).pvalue > PASSES
        assert stats.kstest(values * 1.5, known).pvalue < REJECTED
