"""A release says where its count and means are mostly noise."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import dpcov
from dpcov.analysis import intervals
from dpcov.analysis.covariance import covariances
from dpcov.analysis.intervals import MAX_NOISE_FRACTION
from dpcov.analysis.noise_warnings import TAIL_WARNING, noise_warnings
from dpcov.analysis.summary import summary
from dpcov.core.privacy import hidden_units
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.estimate import Estimate
from dpcov.published import norm_histogram as lengths
from dpcov.published.record import CountEstimate
from dpcov.report import render
from rounds_for_tests import changed, count_noise
from tables_for_tests import correlated
from terminals import DPCOV

DATA = correlated(20_000, 3, seed=1)
TAIL = TAIL_WARNING.split("{")[0]
FIXED = {"mechanism": "standardized", "look_share": 0.05, "directions_share": 0.11}


def release(count=20_000, seed=1, **request):
    settings = {"lower": -1, "upper": 1, "epsilon": 1.0, **request}
    return dpcov.release(DATA[:count], seed=seed, **settings)


def of_noise(made):
    """Return the warnings about results below the noise level, without the tail's warning."""
    return [sentence for sentence in noise_warnings(made) if not sentence.startswith(TAIL)]


def test_many_rows_and_a_large_budget_leave_nothing_below_the_noise():
    assert noise_warnings(release()) == ()
    assert noise_warnings(release(mechanism="gaussian", rho=1.0, epsilon=None)) == ()


@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
def test_few_rows_are_said_to_be_below_the_noise(mechanism):
    for seed in range(5):
        made = release(60, seed, mechanism=mechanism, epsilon=0.1)
        assert noise_warnings(made)
        assert noise_warnings(made)[0].startswith("The number of rows is below the noise level")


def test_no_row_left_is_said():
    made = [release(10, seed, mechanism="matrix-laplace", epsilon=0.02) for seed in range(10)]
    empty = [one for one in made if one.count() <= 0]
    assert empty
    for one in empty:
        (sentence,) = noise_warnings(one)
        assert "none is left" in sentence


@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
def test_a_public_count_is_never_below_the_noise_but_means_can_be(mechanism):
    asked = {"neighbors": "replace-one", "mechanism": mechanism}
    made = release(60, **asked, epsilon=1.0)
    assert made.count() == 60
    (sentence,) = noise_warnings(made)
    assert sentence.startswith("The means of x0, x1, x2 are below the noise level:")
    alone = release(60, **asked, epsilon=0.1)
    assert alone.published is None
    assert "a noisy trace, because" in noise_warnings(alone)[0]


@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
def test_many_columns_are_counted_not_named(mechanism):
    table = correlated(60, 8, seed=2)
    asked = {"neighbors": "replace-one", "mechanism": mechanism, "epsilon": 1.0}
    made = dpcov.release(table, lower=-1, upper=1, seed=1, **asked)
    assert "x0, x1, x2 and 5 more" in noise_warnings(made)[0]


@pytest.mark.parametrize(
    ("bar", "silent", "mechanism"),
    [(lengths.MIN_PEAK_SNR, 0, FIXED), (lengths.MIN_PEAK_SNR, 0, {}), (-np.inf, 5, FIXED)],
)
def test_means_far_off_because_of_clipping_are_said_to_be_below_the_noise(
    monkeypatch, bar, silent, mechanism
):
    """A control: the noise law alone is silent, as it knows of no clip."""
    monkeypatch.setattr(lengths, "MIN_PEAK_SNR", bar)
    table = np.random.default_rng(5).normal([0.9, -0.9, 0.7], 0.05, (60, 3)).clip(-1, 1)
    asked = {"lower": -1, "upper": 1, "epsilon": 1.0, "neighbors": "replace-one", **mechanism}
    made = [dpcov.release(table, seed=seed, **asked) for seed in range(45)]
    wrong = [one for one in made if abs(one.mean() - table.mean(axis=0)).max() > 0.4]
    assert len(wrong) > 10
    unsaid = sum(not of_noise(one) for one in wrong)
    assert unsaid == 0 if silent == 0 else unsaid >= silent


def test_where_nothing_shows_of_centred_rows_means_are_their_center():
    """A control: of rows that are not centred they are the midpoints."""
    table = np.random.default_rng(5).normal([0.9, -0.9, 0.7], 0.05, (1000, 3)).clip(-1, 1)
    made = dpcov.release(table, lower=-1, upper=1, epsilon=4.0, seed=1)
    null = replace(made, denoised=np.zeros((4, 4)))
    assert np.array_equal(null.mean(), made.center)
    assert null.mean() == pytest.approx(table.mean(axis=0), abs=0.1)
    assert not null.covariance().any()
    plain = dpcov.release(table, lower=-1, upper=1, epsilon=1.0, seed=1, mechanism="matrix-laplace")
    assert not replace(plain, denoised=np.zeros((4, 4))).mean().any()


def test_detectable_norms_put_no_mean_below_the_noise():
    table = np.random.default_rng(5).normal([0.9, -0.9, 0.7], 0.05, (1000, 3)).clip(-1, 1)
    for seed in range(10):
        assert not of_noise(dpcov.release(table, lower=-1, upper=1, epsilon=1.0, seed=seed))


def stays(kind, seed):
    """Return 20,000 ages and lengths of stay, with a long or a light tail, and a release.

    The bounds of the light tail are near. With a wide bound, it could hide rows far out too.
    """
    generator = np.random.default_rng(1000 + seed)
    age = generator.normal(55, 15, 20_000).clip(0, 110)
    long, light = generator.lognormal(1.2, 1, 20_000), generator.normal(100, 30, 20_000)
    stay, bound = {"long": (long, 365), "light": (light, 200)}[kind]
    table = np.column_stack([age, stay.clip(0, bound)])
    return table, dpcov.release(table, lower=[0, 0], upper=[110, bound], epsilon=1.0, seed=seed)


def test_the_interval_of_a_long_stay_covers_or_is_marked_and_a_light_one_is_not_marked():
    """Control: without the mark, the intervals of the long stay cover too rarely."""
    covered, marked = np.zeros((2, 2, 2, 50), np.bool_)
    for at, kind in enumerate(("long", "light")):
        for seed in range(50):
            table, made = stays(kind, seed)
            truths = {"variance": table[:, 1].var(), "mean": table[:, 1].mean()}
            for which, (statistic, truth) in enumerate(truths.items()):
                found = dpcov.intervals(made, statistic, sampling=False)
                covered[at, which, seed] = found.low[1] <= truth <= found.high[1]
                marked[at, which, seed] = found.depends_on_tail[1]
                assert not found.depends_on_tail[0]  # the bounds of ages allow no long tail
    assert (covered | marked)[0].mean(axis=1).min() >= 0.85
    assert covered[0, 0].mean() < 0.7
    assert covered[0, 1].mean() < 0.8
    assert marked[1].mean() <= 0.05


def test_figures_that_a_few_rows_at_a_wide_bound_can_change_are_marked():
    """Control: with narrow bounds, the same table has no mark."""
    table = np.random.default_rng(3).normal(size=(5000, 2))
    for bound, marked in ((300.0, True), (5.0, False)):
        made = dpcov.release(table, lower=-bound, upper=bound, epsilon=1.0, seed=1)
        assert made.lengths is not None
        found = dpcov.intervals(made, "variance", sampling=False)
        assert found.depends_on_tail.all() == found.depends_on_tail.any() == marked
        rows = hidden_units(made.guarantee.budget)
        added = rows * (bound / np.sqrt(np.diag(made.covariance()))) ** 2 / 5000
        assert (added > 0.05).all() == (added > 0.05).any() == marked


def test_a_tail_that_is_not_seen_is_said_by_all_that_is_read_off_a_release():
    for kind, said in (("long", True), ("light", False)):
        made = stays(kind, 1)[1]
        assert made.lengths is not None
        assert not made.lengths.below_noise_level
        fit = dpcov.ols(made, "x0")
        facts, columns = dpcov.intervals(made, "variance", sampling=False), covariances(made)
        assert facts.depends_on_tail.tolist() == [False, said]
        assert facts.document()["depends_on_tail"].tolist() == [False, said]
        assert columns.document()["standard_deviation_depends_on_tail"].tolist() == [False, said]
        cells = dict(columns.tables()[0].rows)
        assert (cells["x1"][-1] == intervals.TAIL_TEXT) == said
        assert cells["x0"][-1] != intervals.TAIL_TEXT
        assert (TAIL + "x1 outside" in str(summary(made).document()["notes"])) == said
        assert (TAIL + "x1 outside" in " ".join(render(made).split())) == said
        for notes in (noise_warnings(made), fit.tables()[0].notes, fit.document().get("assumed")):
            assert (TAIL in str(notes)) == said
            assert ("For any tail, clipping removed at most" in str(notes)) == said
        ordinary, clipped = (
            dpcov.intervals(made, "variance", sampling=False, for_clipped_rows=asked)
            for asked in (False, True)
        )
        assert not ordinary.for_clipped_rows
        assert (intervals.TAIL_NOTE in str(ordinary.warning)) == said
        assert intervals.CLIPPED_ROWS_NOTE in str(clipped.warning)
        assert intervals.CLIPPED_ROWS_NOTE in clipped.summary()


def test_without_an_intercept_or_a_law_nothing_is_claimed():
    assert noise_warnings(release(60, intercept=0.0, epsilon=0.1)) == ()
    made = release(mechanism="eigenvector-sampling")
    assert made.noise is None
    assert noise_warnings(made) == ()


@pytest.mark.parametrize("mechanism", ["auto", "matrix-laplace"])
def test_the_stated_deviation_of_the_count_is_about_the_real_one(mechanism):
    made = [release(2000, seed, mechanism=mechanism) for seed in range(20)]
    real = np.sqrt(np.mean([(one.count() - 2000) ** 2 for one in made]))
    stated = np.sqrt(np.mean([Estimate.of(one).noise_deviations[0] ** 2 for one in made[:10]]))
    assert 0.6 < stated / real < 1.7
    for one in made:  # of few draws it would be as wrong as those are, in every release
        assert Estimate.of(one).noise_deviations[0] == CountEstimate.of(one).deviation


def test_control_the_sentences_follow_the_noise():
    made = release(2000, mechanism="matrix-laplace")
    assert noise_warnings(made) == ()
    louder = changed(made, noise=made.noise.rescaled(1e3))
    means_alone = [one.split(":")[0] for one in noise_warnings(louder)]
    assert means_alone == [
        "The means of x0, x1, x2 are below the noise level"
    ]  # the count has its own
    louder = changed(louder, count_noise=ScalarLaplace(1000 * count_noise(made).scale))
    assert [one.split(":")[0] for one in noise_warnings(louder)] == [
        "The number of rows is below the noise level",
        "The means of x0, x1, x2 are below the noise level",
    ]
    assert MAX_NOISE_FRACTION == 0.1


def test_the_command_line_says_it_in_text_and_in_json(tmp_path):
    path = tmp_path / "few.release.json"
    made = release(200, epsilon=1.0)
    made.save(path)
    for command in ("show", "covariance"):
        text, found = (
            subprocess.run(
                [*DPCOV, command, str(path), *options], capture_output=True, text=True, check=True
            ).stdout
            for options in ((), ("--json",))
        )
        assert "The number of rows is below the noise level" in text
        printed = json.loads(found)
        assert printed["noise_warnings"] == list(noise_warnings(made))
        assert printed["drowned"] == printed["noise_warnings"]  # former key, until version 0.5
