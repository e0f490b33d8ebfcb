"""Adaptive Laplace: the radius is chosen from noisy counts, and the release lives at it."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpcov.denoise import denoise
from dpcov.denoise.projection import project
from dpcov.entropy import Entropy, simulation_generator
from dpcov.errors import MechanismError, SourceError
from dpcov.mechanisms import AdaptiveLaplace, Laplace, SeparateLaplace
from dpcov.mechanisms import adaptive_laplace as adaptive
from dpcov.mechanisms.separate_laplace import separated
from dpcov.privacy import Neighbors, PureDP
from dpcov.releases import Release
from dpcov.schema import Schema
from dpcov.sources import open_rows
from dpcov.sources.rows import Rows

NAMES = ("a", "b", "c", "d")
BY = pytest.mark.parametrize("by", ["laplace", "separate-laplace"])
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def table(n=4000, size=1.0, outliers=0):
    """Rows of norm `size` in [-100, 100]^4, but for some far out."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((n, 4)) * [4, 2, 1, 1]
    rows *= size / np.linalg.norm(rows, axis=1)[:, None]
    rows[:outliers] *= 100 / size
    return rows


def rows_of(values, intercept=0.3):
    return open_rows(values, Schema.from_bounds(-100, 100, NAMES, intercept=intercept))


def released(rows, epsilon=1.0, neighbors=Neighbors.ADD_REMOVE, seed=1, **fields):
    return AdaptiveLaplace(**fields)(
        rows, budget=PureDP(epsilon), neighbors=neighbors, entropy=Entropy.seeded(seed)
    )


@BY
@each_relation
@pytest.mark.parametrize("size", [1.0, 10.0, 100.0])
def test_the_radius_fits_the_rows_and_not_the_bounds(by, neighbors, size):
    rows = rows_of(table(size=size))
    made = released(rows, neighbors=neighbors, by=by)
    share = made.lattice.radius / rows.lattice().radius
    needed = size / 200  # the radius of the schema is 2 in units of the half-range, 100
    assert needed * 0.99 <= share <= needed * 2**0.5 * 1.01


def test_few_rows_far_out_do_not_keep_the_radius_large():
    for outliers, least, most in ((0, 0, 1.5), (20, 0, 1.5), (4000, 60, 300)):
        made = released(rows_of(table(outliers=outliers)))
        assert least <= made.lattice.radius * 100 <= most


@BY
@each_relation
def test_with_a_large_budget_the_release_is_the_moment_at_the_radius(by, neighbors):
    rows = rows_of(table(size=7.0))
    made = released(rows, 1e6, neighbors, by=by)
    moment = rows.second_moments(radius=made.lattice.radius)[0]
    expected = moment.units.astype(float) * made.lattice.step**2
    assert moment.lattice == made.lattice
    np.testing.assert_allclose(made.noisy(), expected, atol=2e-5 * np.trace(expected))


@BY
@each_relation
def test_means_counts_and_covariances_are_right_at_a_smaller_radius(by, neighbors, tmp_path):
    values = table(size=5.0) + np.array([3, 0, -2, 0])
    made = denoise(released(rows_of(values), 50.0, neighbors, by=by), "project")
    made.save(tmp_path / "r.json")
    for found in (made, Release.load(tmp_path / "r.json")):
        assert found.lattice.radius < 0.1 * rows_of(values).lattice().radius
        assert found.intercept() == pytest.approx(0.3 * found.lattice.radius, rel=1e-5)
        assert found.count() == pytest.approx(len(values), rel=0.02)
        np.testing.assert_allclose(found.mean(), values.mean(axis=0), atol=0.15)
        truth = np.cov(values.T)
        assert np.linalg.norm(found.covariance() - truth) < 0.1 * np.linalg.norm(truth)
    loaded = Release.load(tmp_path / "r.json")
    assert (loaded.noise, loaded.lattice) == (made.noise, made.lattice)


def test_on_skewed_rows_it_beats_laplace_by_far_and_can_be_denoised():
    rows = rows_of(table(size=5.0), intercept=0.0)
    truth = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2

    def error(mechanism, method):
        found = []
        for seed in range(8):
            made = mechanism(
                rows,
                budget=PureDP(0.5),
                neighbors=Neighbors.ADD_REMOVE,
                entropy=Entropy.seeded(seed),
            )
            made = denoise(made, method, generator=simulation_generator(seed))
            assert made.denoise == method
            found.append(np.linalg.norm(made.second_moment() - truth) / np.linalg.norm(truth))
        return np.mean(found)

    assert error(AdaptiveLaplace(), "shrink") < 0.05
    assert error(Laplace(), "shrink") > 0.5


@BY
def test_the_moment_gets_the_noise_of_the_inner_mechanism_at_the_rest_of_the_budget(by):
    lattice = rows_of(table(5)).lattice()
    for neighbors in Neighbors:
        laws = AdaptiveLaplace(by=by, radius_share=0.5).calibrate(lattice, PureDP(1.0), neighbors)
        inner = Laplace().calibrate(lattice, PureDP(0.5), neighbors)
        assert laws.laplace == replace(inner, guarantee=laws.guarantee)
        apart = SeparateLaplace().calibrate(lattice, PureDP(0.5), neighbors)
        assert laws.separate == replace(apart, guarantee=laws.guarantee)
        assert laws.guarantee.budget == PureDP(1.0)


@BY
def test_a_release_does_not_depend_on_the_data_but_through_counts_and_moment(by, monkeypatch):
    """Two tables with the same answers of the door have the same release."""
    real = rows_of(table(300))
    answers = {}

    def remembered(name, method):
        def ask(self, *args, **kwargs):
            answers.setdefault(name, method(real, *args, **kwargs))
            return answers[name]

        return ask

    expected = released(real, by=by)
    for name in ("norm_counts", "second_moments"):
        monkeypatch.setattr(Rows, name, remembered(name, getattr(Rows, name)))
    found = released(rows_of(table(7, size=90.0)), by=by)
    np.testing.assert_array_equal(found.published, expected.published)
    assert found.lattice == expected.lattice


def test_all_that_clipping_takes_away_is_below_the_bound():
    values = table(500, size=3.0) * np.random.default_rng(1).uniform(0.1, 30, (500, 1))
    rows = rows_of(values, intercept=0.0)
    radii = adaptive.candidates(rows.lattice().radius)
    counts = rows.norm_counts(radii[:-1]).astype(float)
    assert counts.sum() == 500
    shares, unit = radii / radii[-1], radii[-1] ** 2
    bounds = adaptive.clipped_away(counts, shares) * unit
    traces = adaptive.traces(counts, shares, rows.lattice()) * unit
    whole = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2
    for radius, bound, trace in zip(radii, bounds, traces, strict=True):
        moment = rows.second_moments(radius=float(radius))[0]
        clipped = moment.units.astype(float) * moment.lattice.step**2
        lost = np.linalg.norm(whole - clipped)
        assert lost <= bound + 1e-4
        assert np.trace(clipped) <= trace + 1e-4
        if lost > 0.1 * np.linalg.norm(whole):  # a bound that would say half is caught
            assert lost > bound / 8
    assert np.all(np.diff(bounds) <= 0)
    assert bounds[-1] == 0


@pytest.mark.parametrize("name", ["laplace", "separate"])
@each_relation
def test_errors_after_denoising_stay_below_the_bounds_that_choose_the_radius(name, neighbors):
    rows = rows_of(table(400, size=20.0))
    radii = adaptive.candidates(rows.lattice().radius)
    counts = rows.norm_counts(radii[:-1]).astype(float)
    laws = AdaptiveLaplace().calibrate(rows.lattice(), PureDP(1.0), neighbors)
    bounds = radii[-1] ** 2 * getattr(adaptive, f"{name}_errors")(
        counts, radii / radii[-1], getattr(laws, name), rows.lattice()
    )
    moment = rows.second_moments(radius=float(radii[-7]))[0]
    truth = moment.units.astype(float) * moment.lattice.step**2
    found = []
    mechanism = Laplace() if name == "laplace" else SeparateLaplace()
    for seed in range(10):
        entropy = Entropy.seeded(seed)
        if name == "laplace":
            noisy = truth + laws.laplace.matrix.sample(entropy) * moment.lattice.step**2
            estimate = project(noisy, np.trace(truth))
        else:
            noise = laws.separate.matrix.sample(entropy)
            made = separated(mechanism, rows, laws.separate, noise, moment, "rayleigh", entropy)
            estimate = made.noisy()
        found.append(np.linalg.norm(estimate - truth))
    assert bounds[-7] / 12 < np.mean(found) < 1.2 * bounds[-7]


def test_candidates_halve_the_square_and_stay_where_files_can_hold_them():
    radii = adaptive.candidates(2.0)
    assert (len(radii), radii[-1]) == (21, 2.0)
    np.testing.assert_allclose(radii[1:] ** 2 / radii[:-1] ** 2, 2.0)
    assert adaptive.candidates(1.5e-99).tolist() == pytest.approx([1.5e-99 / 2**0.5, 1.5e-99])
    assert adaptive.candidates(5e-100).tolist() == [5e-100]


@pytest.mark.parametrize("unit", [1e-95, 1e-3])
def test_the_choice_does_not_depend_on_the_size_of_the_radius(unit):
    made = [
        released(open_rows(u * table(size=5.0), Schema.from_bounds(-100, 100, NAMES, radius=2 * u)))
        for u in (1.0, unit)
    ]
    assert made[1].lattice.radius == pytest.approx(unit * made[0].lattice.radius)
    np.testing.assert_allclose(made[1].published, made[0].published, atol=2000)
    assert np.abs(made[0].published).max() > 5e5


def test_a_radius_beyond_all_rows_falls_to_the_smallest_candidate():
    schema = Schema.from_bounds(-100, 100, NAMES, radius=9e99)
    assert released(open_rows(table(), schema)).lattice.radius == adaptive.candidates(9e99)[0]


@pytest.mark.parametrize(("neighbors", "scale"), [("add-remove", 40.0), ("replace-one", 80.0)])
def test_the_choice_sees_counts_with_noise_of_the_stated_scale(neighbors, scale, monkeypatch):
    seen, rows = [], rows_of(table(50))
    choose = adaptive.significant

    def watched(counts, stated):
        seen.append(counts)
        assert stated == scale
        return choose(counts, stated)

    monkeypatch.setattr(adaptive, "significant", watched)
    for seed in range(40):
        released(rows, 0.25, Neighbors(neighbors), seed)
    exact = rows.norm_counts(adaptive.candidates(rows.lattice().radius)[:-1])
    noise = (np.array(seen) - exact).ravel()
    assert stats.kstest(noise, "laplace", (0, scale)).pvalue > 1e-3
    assert stats.kstest(noise, "laplace", (0, scale / 2)).pvalue < 1e-9


def test_bins_that_noise_alone_would_fill_do_not_count():
    counts = np.array([500, -30, 58, 60, 0])
    assert adaptive.significant(counts, 15.0).tolist() == [500, 0, 0, 60, 0]
    assert adaptive.significant(counts, 10.0).tolist() == [500, 0, 58, 60, 0]
    noise = np.random.default_rng(0).laplace(scale=10.0, size=(4000, 21))
    alarms = np.mean([adaptive.significant(row, 10.0).any() for row in noise])
    assert 0.03 < alarms < 0.06


def test_an_empty_table_keeps_the_radius():
    rows = rows_of(table(0))
    assert released(rows, 0.1, seed=3).lattice == rows.lattice()


def test_a_stream_that_is_read_once_is_refused_before_anything_is_read():
    reader = pa.table(dict(zip(NAMES, table(9).T, strict=True))).to_reader()
    with pytest.raises(SourceError, match="twice"):
        released(rows_of(reader))
    assert reader.read_all().num_rows == 9


@pytest.mark.parametrize(
    "fields",
    [
        {"by": "either"},
        {"radius_share": 0.0},
        {"radius_share": 1.0},
        {"trace_share": 1.0},
        {"values": "trace"},
        {"vector_share": 0.0},
    ],
)
def test_fields_without_a_meaning_are_refused(fields):
    with pytest.raises(MechanismError, match=next(iter(fields))):
        AdaptiveLaplace(**fields)


def test_a_share_too_small_for_64_bits_is_refused_before_anything_is_read():
    lattice = rows_of(table(5)).lattice()
    for share in (1e-18, 1 - 1e-16):
        with pytest.raises(MechanismError, match="budget"):
            AdaptiveLaplace(radius_share=share).calibrate(
                lattice, PureDP(1e-3), Neighbors.ADD_REMOVE
            )
