"""The least length of private intervals, beside private intervals and what single rows do."""

import itertools
import math

import numpy as np
import pytest

from certified import LEVEL, effects, held, rows_held


@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_intervals_of_laplace_noise_are_longer_than_any_must_be(epsilon):
    """Control: with a third of the noise they would not be, but where hardly any is certified."""
    length, least = 2 * math.log(1 / (1 - LEVEL)) / epsilon, 2 * rows_held({"epsilon": epsilon})
    assert least < length
    assert epsilon > 1 or least > length / 3


@pytest.mark.parametrize("rho", [0.005, 0.05, 0.5])
def test_intervals_of_gaussian_noise_are_longer_too(rho):
    length, least = 2 * 1.96 / math.sqrt(2 * rho), 2 * rows_held({"rho": rho})
    assert length / 4 < least < length


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_what_is_held_is_no_more_than_a_private_answer_may_hold(budget):
    """An answer that says yes, by randomized response or by Gaussian noise with a threshold."""
    for k in (1, 2, 3):
        if "rho" in budget:
            away = k * math.sqrt(2 * budget["rho"])
            least = 1 - 0.5 * math.erfc((1.6448536 - away) / math.sqrt(2))
        else:
            least = max(1 - (1 - LEVEL) * math.exp(k), LEVEL * math.exp(-k))
        assert held(k, **budget) <= least + 1e-9
    assert held(1, **budget) > held(2, **budget) > 0


def test_a_delta_takes_from_it():
    assert held(1, epsilon=1.0, delta=1e-2) < held(1, epsilon=1.0) - 1e-3
    assert held(1, epsilon=1000.0) == 0


def test_effects_are_what_a_row_more_does():
    rng, n = np.random.default_rng(0), 4000
    kinds = rng.integers(0, 3, n)
    rows = np.column_stack(
        [rng.uniform(-0.5, 0.7, n), rng.normal(0, 0.2, n).clip(-1, 1), kinds == 0, kinds == 1]
    ).astype(float)
    found = effects(rows, np.array([-1, -1, 0, 0]))
    low, high = np.tril_indices(4)
    deviations = rows.std(axis=0)
    made = {"mean": [], "covariance": [], "correlation": []}
    middle = rows.mean(axis=0)
    for one, other, level in itertools.product(range(3), range(3), ((0, 0), (0, 1), (1, 0))):
        ends = np.array([-np.ones(2), middle[:2], np.ones(2)])
        more = np.vstack([rows, [ends[one, 0], ends[other, 1], *level]])
        made["mean"].append((more.mean(axis=0) - middle) / deviations)
        covariance, before = np.cov(more.T, bias=True), np.cov(rows.T, bias=True)
        scaled = (covariance - before) / np.outer(deviations, deviations)
        made["covariance"].append(scaled[low, high])
        related = np.corrcoef(more.T) - np.corrcoef(rows.T)
        made["correlation"].append(related[low, high])
    for name, changes in made.items():
        reached = np.ptp(np.array(changes), axis=0)
        off = found[name] - reached
        kept = (low != high) if name == "correlation" else slice(None)
        assert np.all(off[kept] > -0.02 * reached[kept]), name  # rows in the middle of a level's
        assert np.median(found[name][kept] / reached[kept]) == pytest.approx(1, abs=0.02), name
