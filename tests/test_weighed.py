"""Intervals of moments by length of rows: from the weighted sum, and what weighing down takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dpcov
from dpcov import several_intervals
from dpcov.analysis import plausible
from dpcov.analysis.weighed import Weighed
from dpcov.core.entropy import simulation_generator
from dpcov.mechanisms.ladder import squared_of

MADE = 12  # releases
NAMES = ("mean", "correlation", "covariance")


def few_long(size: float = 0.6) -> np.ndarray:
    """Rows of which a few are long, in directions of their own, and none as long as the bounds."""
    generator = np.random.default_rng(1)
    table = 0.02 * generator.standard_normal((20_000, 6))
    table[:, 1] += 0.5 * table[:, 0]
    table[:30, 2:4] = size * generator.choice([-1, 1], (30, 1)) + 0.02
    return np.clip(table, -1, 1)


TABLE = few_long()


def releases(**request):
    settings = {"mechanism": "ladder", "intercept": 0.05, "epsilon": 0.5, **request}
    return [dpcov.release(TABLE, lower=-1, upper=1, seed=seed, **settings) for seed in range(MADE)]


@pytest.fixture(scope="module")
def made():
    return releases()


def entries(found):
    """Of a correlation or a covariance only those below the diagonal: means have one axis."""
    return found if found.ndim == 1 else found[np.tril_indices(len(found), -1)]


def covered_and_width(made):
    """How many of the table's own figures 95 % intervals hold, and mean widths by statistic."""
    truth = (
        TABLE.mean(axis=0),
        np.corrcoef(TABLE, rowvar=False),
        np.cov(TABLE, rowvar=False, bias=True),
    )
    held, widths = [], []
    for seed, release in enumerate(made):
        found = several_intervals(
            release, NAMES, sampling=False, generator=simulation_generator(seed)
        )
        for one, exact in zip(found, truth, strict=True):
            low, high, own = entries(one.low), entries(one.high), entries(exact)
            held.append(np.mean((low <= own) & (own <= high)))
            widths.append(np.mean(high - low))
    return np.mean(np.reshape(held, (-1, 3)), axis=0), np.mean(np.reshape(widths, (-1, 3)), axis=0)


def test_intervals_cover_and_are_much_narrower_than_those_of_the_plain_sum(made, monkeypatch):
    covered, width = covered_and_width(made)
    assert covered.min() >= 0.93
    monkeypatch.setattr(plausible.Weighed, "of", lambda release: None)
    plain, wide = covered_and_width(made)
    assert plain.min() >= 0.9
    assert np.all(width <= wide)
    assert width[0] < 0.1 * wide[0]


def without_what_is_missing(release):
    one = of(release)
    nothing = np.zeros_like(one.spreads)
    return replace(one, spreads=nothing, shapes=nothing)


of = Weighed.of


def test_control_intervals_that_do_not_allow_for_what_weighing_takes_are_found_out(
    made, monkeypatch
):
    monkeypatch.setattr(plausible.Weighed, "of", without_what_is_missing)
    covered, _ = covered_and_width(made)
    assert covered.min() < 0.85


def test_control_half_the_noise_is_found_out(made):
    halved = []
    for release in made:
        terms = tuple(term.rescaled(0.5) for term in release.noise.terms)
        halved.append(replace(release, noise=replace(release.noise, terms=terms)))
    covered, _ = covered_and_width(halved)
    assert covered.min() < 0.9


def test_weights_are_between_0_and_1_and_fall_with_the_length_of_empty_rungs(made):
    for release in made:
        weighed = Weighed.of(release)
        assert np.all((weighed.weights >= 0) & (weighed.weights <= 1))
        squared = np.array(squared_of(release.noise))
        assert np.all(np.diff(squared) < 0)
        assert weighed.weights[0].mean() < 0.1  # no row is that long
        assert weighed.weights[-2].mean() > 0.9


def test_a_release_of_one_matrix_keeps_its_noisy_center():
    """But for its corner, of which the count that is published apart tells more."""
    (one, *_) = releases(mechanism="matrix-laplace")
    assert Weighed.of(one) is None
    kept, noisy = plausible.starting_point(one), one.noisy()
    assert np.array_equal(kept, one.with_count(noisy))
    assert np.flatnonzero(kept != noisy).tolist() == [noisy.size - 1]


def test_errors_are_those_of_the_center(made):
    """Means of draws are 0, so that the center is the middle of what is plausible."""
    weighed = Weighed.of(made[0])
    generator = simulation_generator(1)
    errors = np.stack([weighed.error(generator) for _ in range(400)])
    assert np.allclose(errors, np.swapaxes(errors, 1, 2), rtol=0, atol=1e-12 * np.abs(errors).max())
    z = errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(len(errors)))
    assert np.abs(z).max() < 5


@pytest.mark.parametrize(
    "request_",
    [
        {"mechanism": "ladder"},
        {"mechanism": "ladder", "intercept": 0.0},
        {"neighbors": "replace-one"},
        {"denoise": "none"},
        {"denoise": "project", "rho": 0.5, "epsilon": None},
    ],
    ids=str,
)
def test_every_ladder_is_weighed_whatever_the_denoising(request_):
    one = releases(**request_)[0]
    weighed = Weighed.of(one)
    moment = weighed.moment()
    assert np.all(np.isfinite(moment))
    rows = TABLE if one.lattice.dimension == 6 else np.column_stack([TABLE, np.ones(len(TABLE))])
    if one.has_intercept:
        rows = rows * np.append(np.ones(6), one.intercept())
    truth = rows.T @ rows
    assert np.linalg.norm(moment - truth) < np.linalg.norm(one.noisy() - truth)
