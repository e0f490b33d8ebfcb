"""The standard error of a correlation, against the error that there is."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov import correlation_standard_errors
from dpcov.analysis.correlation import correlation_errors, correlations
from dpcov.analysis.intervals import Stated
from dpcov.analysis.summary import summary
from dpcov.core.entropy import simulation_generator
from dpcov.errors import NotReleasedError
from dpcov.estimate import Estimate
from dpcov.estimate.errors import ClippingErrors
from dpcov.estimate.repeated import repeated_releases
from dpcov.published.clipping import ClippingBias
from dpcov.published.kinds import NoisyCount, NoisyTrace
from dpcov.releases import Release
from dpcov.rows.moment import units_per_row
from dpcov.rows.schema import Schema
from rounds_for_tests import changed
from tables_for_tests import correlated

DATA = correlated(20_000, 5, seed=1)
TRUTH = np.corrcoef(DATA, rowvar=False)
BELOW = np.tril_indices(5, -1)
SHARE = (0.8, 1.25)  # of the realised error that the expected one may be


def repeats(count: int = 20, **request: Any) -> list[Release]:
    settings = {"lower": -1, "upper": 1, "epsilon": 1.0, **request}
    return [dpcov.release(DATA, seed=seed, **settings) for seed in range(count)]


CLAIMED = 12  # releases whose expected error is asked for: counts of long rows move it


def ratio(releases: list[Release], claimed: list[Release]) -> float:
    """Return the mean error that `claimed` imply (if normal) over the one of `releases`."""
    realised = np.mean([np.abs(made.correlation() - TRUTH)[BELOW] for made in releases])
    generator = simulation_generator(1)
    expected = [correlation_standard_errors(made, generator=generator) for made in claimed]
    reported = np.mean([error[BELOW] for error in expected if error is not None])
    return float(np.sqrt(2 / np.pi) * reported / realised)


REQUESTS: list[dict[str, Any]] = [
    {},
    {"rho": 0.05, "epsilon": None},
    {"epsilon": 0.3, "neighbors": "replace-one"},
    {"denoise": "project"},
    {"denoise": "none"},
]


SOME_SLOW = [*REQUESTS[:2], *(pytest.param(one, marks=pytest.mark.slow) for one in REQUESTS[2:])]


@pytest.mark.parametrize("request_", SOME_SLOW, ids=str)
def test_the_expected_error_is_about_the_realised_one(request_: dict[str, Any]) -> None:
    """The expected error comes from the noise alone: almost no row is clipped."""
    releases = repeats(**request_)
    alone = [changed(made, lengths=None) for made in releases[:CLAIMED]]
    assert SHARE[0] <= ratio(releases, alone) <= SHARE[1]


@pytest.mark.parametrize("request_", SOME_SLOW, ids=str)
def test_a_tail_that_does_not_show_adds_to_it(request_: dict[str, Any]) -> None:
    """No row is in such a tail, but the norm histogram allows one.

    In one of 150 releases the noise in an empty bin resembles a separate group of rows. The stated
    errors of this release are 4 times too large, so the mean needs more than a few releases.
    """
    releases = repeats(60, **request_)
    assert SHARE[0] <= ratio(releases, releases) <= SHARE[1]
    with_tail, without = (
        dpcov.standard_errors(made, lambda _, covariance: np.diag(covariance))
        for made in (releases[0], changed(releases[0], lengths=None))
    )
    assert np.sum(with_tail) > np.sum(without)


def test_a_law_with_half_the_noise_is_found_out() -> None:
    releases = repeats(mechanism="matrix-laplace")
    halved = [changed(made, noise=made.noise.rescaled(0.5)) for made in releases[:CLAIMED]]
    assert ratio(releases, halved) < SHARE[0]


def test_a_law_with_twice_the_noise_is_found_out() -> None:
    releases = repeats()
    doubled = []
    for made in releases[:CLAIMED]:
        doubled.append(changed(made, noise=made.noise.rescaled(2.0)))
    assert ratio(releases, doubled) > SHARE[1]


def test_the_expected_error_is_symmetric_and_costs_nothing() -> None:
    (made,) = repeats(1)
    published = made.published.copy()
    error = correlation_standard_errors(made)
    assert np.array_equal(error, error.T)
    assert np.all(np.diag(error) == 0)
    assert np.all(error[BELOW] > 0)
    assert np.array_equal(made.published, published)


def test_nothing_is_claimed_where_nothing_rises_above_the_noise() -> None:
    few = {"lower": -1, "upper": 1, "epsilon": 0.01}
    trace_alone = dpcov.release(DATA[:20], neighbors="replace-one", **few)
    with pytest.raises(NotReleasedError, match="a noisy trace, because"):
        correlation_standard_errors(trace_alone)
    made = [dpcov.release(DATA[:20], seed=seed, **few) for seed in range(10)]
    closed = [release for release in made if release.uninformative]
    assert closed, "the gate of the denoiser lets noise through at times, not always"
    assert all(correlation_standard_errors(release) is None for release in closed)


def test_a_single_feature_has_no_error() -> None:
    made = dpcov.release(DATA[:, :1], lower=-1, upper=1, epsilon=1.0)
    assert np.array_equal(correlation_standard_errors(made), [[0.0]])


def test_a_correlation_that_may_be_anything_is_not_stated_as_exact() -> None:
    """If plausible errors leave no rows or no variance, its spread to first order is undefined."""
    made = [dpcov.release(DATA[:300], lower=-1, upper=1, epsilon=0.1, seed=s) for s in range(8)]
    least = []
    for one in made:
        errors = correlation_standard_errors(one, generator=simulation_generator(1))
        if errors is not None:
            assert np.all(np.diag(errors) == 0)
            least.append(errors[BELOW].min())
    assert len(least) > 2
    assert min(least) > 0.04


def test_without_a_spread_it_may_be_any_of_minus_1_to_1(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = np.full(15, np.nan)
    nothing = Stated(np.ones(15), unknown, unknown, np.ones(15, bool), (-1.0, 1.0))
    monkeypatch.setattr("dpcov.analysis.correlation.stated", lambda *_, **__: [nothing])
    errors = correlation_standard_errors(repeats(1)[0])
    assert errors is not None
    assert errors[BELOW] == pytest.approx(1 / np.sqrt(3))
    found = correlation_errors(repeats(1)[0])
    assert found is not None
    assert found.below.all()


def test_correlations_below_the_noise_level_are_counted() -> None:
    """The count uses the interval of `intervals` for the noise alone."""
    clear, few = repeats(1)[0], dpcov.release(DATA[:500], lower=-1, upper=1, epsilon=1.0, seed=1)
    found = correlation_errors(few)
    reported = dpcov.intervals(few, "correlation", sampling=False)
    assert found is not None
    assert np.array_equal(found.below, (reported.low <= 0) & (reported.high >= 0))
    assert np.array_equal(found.errors, correlation_standard_errors(few))
    high = int(np.sum(found.below[BELOW]))
    assert 0 < high < 10
    assert found.sentence()[0].startswith(f"{high} of 10 correlations ")
    assert found.sentence()[0] in correlations(few).summary()
    of_clear = correlation_errors(clear)
    assert of_clear is not None
    assert len(of_clear.sentence()) == of_clear.below.any()


@pytest.mark.parametrize(
    "request_",
    [
        {"mechanism": "matrix-laplace", "epsilon": 1.0},
        {"mechanism": "gaussian", "rho": 0.05, "denoise": "project"},
        {"mechanism": "gaussian", "rho": 0.05, "neighbors": "replace-one", "denoise": "none"},
        {"mechanism": "standardized", "rho": 0.05},
    ],
    ids=str,
)
def test_releases_are_repeated_about_the_estimate_with_the_same_laws(
    request_: dict[str, Any],
) -> None:
    made = dpcov.release(DATA, lower=-1, upper=1, seed=1, **request_)
    again = list(itertools.islice(repeated_releases(made, simulation_generator(1)), 400))
    whole = made.mapped(made.second_moment())
    assert {one.denoise for one in again} == {made.denoise}
    assert made.denoise == "none" or all(one.denoised is not None for one in again)

    def held(found: Any, center: float, deviation: float) -> None:
        assert np.mean(found) == pytest.approx(center, abs=4 * deviation / 20)
        assert np.std(found) == pytest.approx(deviation, rel=0.2)

    unit, noise = made.lattice.step**2, made.noise
    assert noise is not None
    if made.lengths is None:  # else what a clip took is drawn too
        matrices = np.stack([one.noisy_mapped() for one in again])
        held(matrices[:, 0, 0], whole[0, 0], unit * np.sqrt(noise.diagonal_variance))
        held(matrices[:, 1, 1], whole[1, 1], unit * np.sqrt(noise.diagonal_variance))
    else:
        corners = [one.noisy_mapped()[-1, -1] for one in again]
        held(corners, whole[-1, -1], unit * np.sqrt(noise.diagonal_variance))
    if (trace := made.find(NoisyTrace)) is not None:
        taken = ClippingBias(made, whole).expected()
        traces = [one.find(NoisyTrace).value for one in again]
        center = np.trace(whole - taken) / unit
        held(traces, center, trace.noise.standard_deviation)
    assert (made.find(NoisyCount) is None) == (request_.get("neighbors") == "replace-one")
    if (count := made.find(NoisyCount)) is not None:
        counts = [one.find(NoisyCount).value for one in again]
        held(counts, made.count(), count.noise.standard_deviation)


def test_what_the_clip_is_drawn_to_have_taken_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is almost no noise, so nothing else differs."""
    made = dpcov.release(DATA, lower=-1, upper=1, seed=1, mechanism="standardized", rho=0.05)
    assert made.noise is not None
    made = made.with_denoised("shrink", made.second_moment())
    quiet, whole = changed(made, noise=made.noise.rescaled(1e-9)), made.mapped(made.second_moment())
    drawn, more = 0.1 * np.diag(np.diag(whole)), 0.3 * whole
    monkeypatch.setattr(ClippingErrors, "draw_shape_error", lambda *_: drawn)
    monkeypatch.setattr(ClippingErrors, "draw_total_error", lambda *_: more)
    again = next(repeated_releases(quiet, simulation_generator(1))).noisy_mapped()
    left = whole - ClippingBias(made, whole).expected() - drawn - more
    assert again == pytest.approx(left, abs=1e-6 * np.abs(whole).max())


def test_the_count_of_weighted_rows_is_repeated_in_its_units() -> None:
    columns = {f"x{j}": {"kind": "numeric", "lower": -1, "upper": 1} for j in range(5)}
    schema = Schema.parse({"columns": columns, "weight": {"column": "w", "maximum": 2.0}})
    table = pd.DataFrame(DATA, columns=list(columns)).assign(w=1.5)
    made = dpcov.release(table, schema=schema, epsilon=1.0, seed=1, mechanism="matrix-laplace")
    again = next(repeated_releases(made, simulation_generator(1)))
    assert again.find(NoisyCount) is not None
    rows = again.find(NoisyCount).value / units_per_row(schema)
    assert rows == pytest.approx(made.count(), rel=0.02)
    assert rows == pytest.approx(0.75 * len(DATA), rel=0.02)


def test_what_has_no_law_is_not_repeated_releases() -> None:
    made = dpcov.release(DATA, lower=-1, upper=1, epsilon=1.0)
    with pytest.raises(ValueError, match="no matrix"):
        next(repeated_releases(changed(made, noise=None), simulation_generator(1)))


def test_silence_is_for_the_noise_where_there_is_any() -> None:
    clear = dpcov.release(DATA, lower=-1, upper=1, epsilon=1.0, seed=1)
    asked: dict[str, Any] = {"lower": -1, "upper": 1, "epsilon": 0.01}
    alone = dpcov.release(DATA[:20], neighbors="replace-one", **asked)
    nothing = clear.with_denoised("shrink", np.diag(np.diag(clear.second_moment())))
    assert nothing.uninformative
    assert [Estimate.of(one).hides_correlations for one in (clear, alone, nothing)] == [
        False,
        False,
        True,
    ]  # `alone` is refused
    assert not Estimate.of(changed(nothing, noise=None)).hides_correlations
    assert not Estimate.of(changed(clear, noise=None)).hides_correlations


def test_intervals_are_stated_in_a_line_and_no_wider_than_correlations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With many columns, the intervals use errors to first order, which can be too large."""
    made, reported = repeats(1)[0], []
    found = correlation_errors(made, generator=simulation_generator(1))
    assert found is not None
    errors = found.errors
    for factor in (1.0, 300.0):
        larger = replace(found, errors=factor * errors)
        monkeypatch.setattr("dpcov.analysis.summary.correlation_errors", lambda _, it=larger: it)
        text = summary(made).summary()
        line = re.search(r"noise: ± ([\d.]+) on average, ± ([\d.]+) at worst", text)
        assert line is not None
        reported.append([float(number) for number in line.groups()])
    reach = errors[BELOW] * 1.96
    assert reported[0] == pytest.approx([reach.mean(), reach.max()], abs=6e-4)
    assert reported[1][1] == 1.0
    assert reported[1][0] == pytest.approx(np.minimum(300 * reach, 1).mean(), abs=6e-4)
