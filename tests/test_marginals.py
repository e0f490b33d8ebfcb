"""Distributions with a given mean and variance."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dpcov.analysis.marginals import MAX_VALUES, Marginal, marginal

# Probability of each part of a fine grid of a standard normal variable.
GRID = np.linspace(-8.5, 8.5, 200_001)
PARTS = np.diff(ndtr(np.concatenate([[-np.inf], (GRID[1:] + GRID[:-1]) / 2, [np.inf]])))


def moments(found: Marginal) -> tuple[float, float]:
    values = found.of(GRID)
    mean = PARTS @ values
    return float(mean), float(PARTS @ (values - mean) ** 2)


@pytest.mark.parametrize("mean", [0.5, 0.1, 0.001, 0.95])
@pytest.mark.parametrize("fraction", [1e-4, 0.1, 0.6, 0.95, 0.98, 1.0])
def test_a_number_has_the_mean_and_any_variance_that_the_bounds_allow(mean, fraction):
    variance = fraction * mean * (1 - mean)
    found = moments(marginal(mean, variance))
    assert found[0] == pytest.approx(mean, abs=2e-4 * np.sqrt(variance))
    assert found[1] == pytest.approx(variance, rel=0.01)


@pytest.mark.parametrize(
    ("upper", "mean"),
    [(1, 0.01), (1, 0.7), (5, 0.01), (5, 3.4), (30, 0.7), (30, 3.4), (5000, 0.01), (5000, 3.4)],
)
@pytest.mark.parametrize("times", [0.0, 0.3, 1.0])
def test_a_whole_number_has_the_mean_and_any_possible_variance(upper, mean, times):
    part = mean % 1
    least, most = part * (1 - part), mean * (upper - mean)
    variance = least + times * min(most - least, 20 * mean)
    found = marginal(mean / upper, variance / upper**2, (0, upper))
    assert found.steps
    assert np.allclose(np.rint(found.values * upper), found.values * upper)
    about, own = moments(found)
    assert about * upper == pytest.approx(mean, abs=1e-4 * np.sqrt(variance))
    assert own * upper**2 == pytest.approx(variance, rel=0.001)


def test_very_many_whole_numbers_get_a_distribution_that_is_not_whole():
    found = marginal(0.3, 0.05, (0, 50 * MAX_VALUES))
    assert not found.steps
    assert moments(found)[1] == pytest.approx(0.05, rel=0.001)


def test_a_variance_of_0_gives_one_value():
    assert marginal(0.25, 0.0).of(np.array([-3.0, 3.0])).tolist() == [0.25, 0.25]
    assert marginal(1.0, 0.0, (0, 1)).of(np.array([-3.0, 3.0])).tolist() == [1.0, 1.0]


def test_functions_of_the_latent_variable_never_fall():
    for found in (marginal(0.1, 0.089), marginal(0.2, 0.01, (0, 30)), marginal(0.4, 0.05)):
        assert np.all(np.diff(found.of(GRID)) >= -1e-12)
