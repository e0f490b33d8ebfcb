"""Quantiles of weighted sums of integer noise hold; normal ones do not for Laplace noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import norm

from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.published import norm_histogram
from dpcov.published.norm_histogram import NormHistogram, bin_upper_ends, quantile_of_sum

LEVELS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.99999)
ENDS = bin_upper_ends(1.0, 64.0)
BINS = np.maximum(ENDS - 4.0, 0.0)  # what a clip at 2 takes of a row's squared length
WEIGHTS = {
    "one": np.array([1.0]),
    "bins": BINS,
    "lengths": np.maximum(np.sqrt(ENDS) - 2.0, 0.0),
    "equal": np.ones(3),
    "nearly equal": np.array([1.0, 1.0 + 1e-12, 0.5]),
    "far apart": np.array([1e-200, 1.0, 1e200]),
    "some of none": np.array([0.0, 2.0, 0.0, 1.0]),
}
LAWS = [
    ScalarLaplace(Fraction(1, 4)),
    ScalarLaplace(Fraction(2)),
    ScalarLaplace(Fraction(30)),
    ScalarGaussian(Fraction(1, 10)),
    ScalarGaussian(Fraction(1)),
    ScalarGaussian(Fraction(900)),
]
BY_LAW = pytest.mark.parametrize("law", LAWS, ids=str)


def masses(law, most=4000):
    """Return numbers and their chances, by the definition of the distribution."""
    numbers = np.arange(-most, most + 1)
    if isinstance(law, ScalarLaplace):
        chances = np.exp(-np.abs(numbers) / float(law.scale))
    else:
        chances = np.exp(-(numbers**2) / (2 * float(law.variance)))
    return numbers, chances / chances.sum()


def exceeded(law, weights, bound):
    """Return the exact chance that sum w X is above `bound`, for integer weights."""
    chances = masses(law, 1500)[1]
    whole = np.array([1.0])
    reach = 0
    for weight in map(int, weights):
        spaced = np.zeros(2 * 1500 * weight + 1)
        spaced[::weight] = chances
        whole = np.maximum(
            np.fft.irfft(  # convolved, padded to the full length
                np.fft.rfft(whole, n := len(whole) + len(spaced) - 1) * np.fft.rfft(spaced, n), n
            ),
            0.0,
        )
        reach += 1500 * weight
    sums = np.arange(-reach, reach + 1)
    return float(whole[sums > bound].sum())


def by_normal(law, weights, level):
    """Return the quantile of earlier versions."""
    return float(ndtri(level)) * law.standard_deviation * float(np.linalg.norm(weights))


@BY_LAW
@pytest.mark.parametrize("level", [0.5, 0.95, 0.99, 0.999, 0.99999])
@pytest.mark.parametrize("weights", [(1,), (1, 1, 1), (1, 2, 3), (1, 2, 5, 14, 28)], ids=str)
def test_the_bound_is_exceeded_no_more_often_than_it_says(law, weights, level):
    bound = quantile_of_sum(law, np.array(weights, float), level)
    assert exceeded(law, weights, bound) <= (1 - level) * (1 + 1e-6) + 1e-11


@pytest.mark.parametrize("scale", [2, 30])
@pytest.mark.parametrize("weights", [(1,), (1, 2, 4, 8)], ids=str)
def test_control_a_normal_quantile_is_exceeded_too_often(scale, weights):
    law = ScalarLaplace(Fraction(scale))
    for level in (0.99, 0.999):
        normal = by_normal(law, weights, level)
        assert exceeded(law, weights, normal) > 1.3 * (1 - level)
        assert normal < quantile_of_sum(law, np.array(weights, float), level)


def test_the_bound_is_close_where_noise_is_large():
    """It costs little: exact but for the comparison with continuous noise."""
    law, weights = ScalarLaplace(Fraction(30)), np.array([1.0, 2.0, 4.0, 8.0])
    for level in (0.9, 0.95, 0.99, 0.999):
        bound = quantile_of_sum(law, weights, level)
        assert exceeded(law, weights, 0.9 * bound) > 1 - level
    gaussian = ScalarGaussian(Fraction(900))
    assert quantile_of_sum(gaussian, weights, 0.95) < 1.1 * by_normal(gaussian, weights, 0.95)


@pytest.mark.parametrize("scale", [0.01, 0.25, 1.0, 7.5, 300.0])
def test_integer_noise_is_smaller_than_shifted_continuous_noise(scale):
    """The step that the bound rests on, for every integer."""
    law = ScalarLaplace(Fraction(scale))
    numbers, chances = masses(law, 20_000)
    least = np.cumsum(chances[::-1])[::-1]  # P(X >= k)
    gap = scale * np.log(2 / (1 + np.exp(-1 / scale)))

    def compared(shift):
        away = numbers - shift
        half = np.exp(-np.abs(away) / scale) / 2
        return np.where(away > 0, half, 1 - half)

    shift = max(gap, 1 - gap)
    assert np.all(least <= compared(shift) + 1e-9)
    if scale >= 1:
        assert not np.all(least <= compared(0.9 * shift) + 1e-9)  # control


@pytest.mark.parametrize("variance", [0.1, 1.0, 50.0])
def test_integer_gaussian_noise_is_smaller_than_shifted_continuous_noise(variance):
    numbers, chances = masses(ScalarGaussian(Fraction(variance)))
    least = np.cumsum(chances[::-1])[::-1]
    assert np.all(least <= norm.sf((numbers - 1) / np.sqrt(variance)) + 1e-12)


@BY_LAW
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=list(WEIGHTS))
def test_bounds_are_finite_and_rise_with_the_level_and_the_weights(law, weights):
    found = [quantile_of_sum(law, weights, level) for level in LEVELS]
    assert np.isfinite(found).all()
    assert np.all(np.diff(found) >= 0)
    assert found[0] >= 0
    twice = quantile_of_sum(law, 2 * weights, 0.99)
    assert twice == pytest.approx(2 * quantile_of_sum(law, weights, 0.99), rel=1e-6)


def test_nothing_is_added_where_nothing_is_random():
    assert quantile_of_sum(LAWS[0], np.zeros(3), 0.99) == 0
    assert quantile_of_sum(ScalarLaplace(Fraction(1, 100)), np.ones(5), 0.99) < 0.1


def test_ties_are_left_to_the_other_bound():
    assert np.isinf(norm_histogram._compared(30.0, np.ones(3), 0.01))
    assert np.isinf(norm_histogram._compared(30.0, np.array([1.0, 1 - 1e-9, 1 - 2e-9]), 0.01))
    assert np.isfinite(norm_histogram._compared(30.0, np.array([1.0, 0.7, 0.5]), 0.01))


@pytest.mark.parametrize("level", [0.99, 0.999])
def test_what_a_clip_took_at_most_holds_as_often_as_it_says(level):
    """The test uses 40,000 norm histograms. The normal quantile of earlier versions fails."""
    law, runs = ScalarLaplace(Fraction(20)), 40_000
    rows = np.zeros(len(ENDS))
    rows[-1] = 1.0  # one row at the end of the last bin: no more than that is in the bound
    generator = np.random.default_rng(1)
    q = np.exp(-1 / 20)
    noise = np.subtract(*generator.geometric(1 - q, (2, runs, len(ENDS)))).astype(float)
    totals = noise @ BINS

    def held(reach):
        return float(np.mean(totals + reach >= 0))

    slack = 4 * np.sqrt(level * (1 - level) / runs)
    most = NormHistogram(
        tuple(ENDS.tolist()), tuple(rows.astype(int).tolist()), law
    ).loss_upper_bounds(2.0, level)[0]
    assert held(most - rows @ BINS) >= level - slack
    assert held(by_normal(law, BINS, level)) < level - slack  # control
