"""A private radius: chosen from noisy counts, for every mechanism that has the option."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, exact
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.denoise import denoise
from dpcov.denoise.projection import project
from dpcov.errors import MechanismError
from dpcov.mechanisms import MECHANISMS, additive, radius
from dpcov.papers import separate
from dpcov.releases import Release
from dpcov.rows.moment import UNITS
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.rows import Rows
from rounds_for_tests import trace_noise

NAMES = ("a", "b", "c", "d")
ADDITIVE = ("matrix-laplace", "nuclear-laplace", "laplace", "gaussian")
SEPARATE = ("separate-laplace", "separate-gaussian")
each_kind = pytest.mark.parametrize("name", ADDITIVE + SEPARATE)
each_additive = pytest.mark.parametrize("name", ADDITIVE)
one_of_each_family = pytest.mark.parametrize("name", ["laplace", "gaussian", *SEPARATE])
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def table(n=4000, size=1.0, outliers=0):
    """Return rows of norm `size` in [-100, 100]^4, with some outliers."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((n, 4)) * [4, 2, 1, 1]
    rows *= size / np.linalg.norm(rows, axis=1)[:, None]
    rows[:outliers] *= 100 / size
    return rows


def rows_of(values, intercept=0.3):
    return open_rows(values, Schema.from_bounds(-100, 100, NAMES, intercept=intercept))


def budget_of(name, epsilon):
    return ZCDP(epsilon**2 / 2) if "gaussian" in name else PureDP(epsilon)


def released(
    name, rows, epsilon=1.0, neighbors=Neighbors.ADD_REMOVE, seed=1, chosen="private", **fields
):
    return MECHANISMS[name](radius=chosen, **fields)(
        rows, budget=budget_of(name, epsilon), neighbors=neighbors, entropy=Entropy.seeded(seed)
    )


def calibrated(name, lattice, epsilon=1.0, neighbors=Neighbors.ADD_REMOVE, **fields):
    return MECHANISMS[name](**fields).calibrate(lattice, budget_of(name, epsilon), neighbors)


@each_kind
@each_relation
@pytest.mark.parametrize("size", [1.0, 10.0, 100.0])
def test_the_radius_fits_the_rows_and_not_the_bounds(name, neighbors, size):
    rows = rows_of(table(size=size))
    share = released(name, rows, neighbors=neighbors).lattice.radius / rows.lattice().radius
    needed = size / 200  # the radius of the schema is 2 in units of the half-range, 100
    assert needed * 0.99 <= share <= needed * 2**0.5 * 1.01


@each_kind
def test_a_public_radius_is_that_of_the_schema_and_costs_nothing(name):
    rows = rows_of(table())
    assert released(name, rows, chosen="public").lattice == rows.lattice()
    laws = calibrated(name, rows.lattice())
    assert laws.counts is None
    assert laws == calibrated(name, rows.lattice(), radius_share=0.5)


@pytest.mark.parametrize(("name", "epsilon"), [("matrix-laplace", 1.0), ("gaussian", 0.2)])
def test_few_rows_far_out_do_not_keep_the_radius_large(name, epsilon):
    for outliers, least, most in ((0, 0, 1.5), (20, 0, 1.5), (4000, 60, 300)):
        made = released(name, rows_of(table(outliers=outliers)), epsilon)
        assert least <= made.lattice.radius * 100 <= most


@each_kind
@each_relation
def test_with_a_large_budget_the_release_is_the_moment_at_the_radius(name, neighbors):
    rows = rows_of(table(size=7.0))
    made = released(name, rows, 1e4 if "gaussian" in name else 1e6, neighbors)
    moment = rows.second_moments(radius=made.lattice.radius)[0]
    expected = moment.units.astype(float) * made.lattice.step**2
    assert moment.lattice == made.lattice
    np.testing.assert_allclose(made.noisy(), expected, atol=2e-5 * np.trace(expected))


@one_of_each_family
@each_relation
def test_means_counts_and_covariances_are_right_at_a_smaller_radius(name, neighbors, tmp_path):
    values = table(size=5.0) + np.array([3, 0, -2, 0])
    made = denoise(released(name, rows_of(values), 50.0, neighbors), "project")
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
    assert loaded.parameters["radius"] == "private"


@each_additive
def test_on_skewed_rows_it_beats_the_public_radius_by_far_and_can_be_denoised(name):
    rows = rows_of(table(size=5.0), intercept=0.0)
    truth = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2

    def error(chosen):
        found = []
        for seed in range(6):
            made = released(name, rows, 0.5, seed=seed, chosen=chosen)
            made = denoise(made, "shrink", generator=simulation_generator(seed))
            assert made.denoise == "shrink"
            found.append(np.linalg.norm(made.second_moment() - truth) / np.linalg.norm(truth))
        return np.mean(found)

    assert error("private") < 0.05
    assert error("public") > 0.4


@each_kind
@each_relation
def test_the_moment_gets_the_noise_of_the_rest_of_the_budget(name, neighbors):
    lattice = rows_of(table(5)).lattice().relative()
    budget, half = (budget_of(name, e) for e in (1.0, 0.5**0.5 if "gaussian" in name else 0.5))
    fields = {"radius": "private", "radius_share": 0.5}
    laws = MECHANISMS[name](**fields).calibrate(lattice, budget, neighbors)
    rest = MECHANISMS[name]().calibrate(lattice, half, neighbors)
    assert laws.guarantee.budget == budget
    if isinstance(half, ZCDP):  # sqrt(1/2) squared is 1/2 but for a rounding
        assert float(laws.matrix.variance) == pytest.approx(float(rest.matrix.variance))
    else:
        assert replace(laws, counts=None) == replace(rest, guarantee=laws.guarantee)


@pytest.mark.parametrize(("neighbors", "sides"), [("add-remove", 1), ("replace-one", 2)])
@each_kind
def test_noise_of_the_counts_costs_the_stated_share(name, neighbors, sides):
    unit = {"unit": {"column": "id", "type": "integer", "max_rows": 3}}
    schema = Schema.parse(Schema.from_bounds(-100, 100, NAMES).model_dump() | unit)
    people = pa.table({name: [0.0] for name in (*NAMES, "id")})
    lattice = open_rows(people, schema).lattice().relative()
    share = exact(0.2)
    fields = {"radius": "private", "radius_share": 0.2}
    if "laplace" in name:
        law = calibrated(name, lattice, 0.7, Neighbors(neighbors), **fields).counts
        assert 3 * sides / law.scale == share * exact(0.7)
        return
    mechanism = MECHANISMS[name](**fields)
    law = mechanism.calibrate(lattice, ZCDP(0.7), Neighbors(neighbors)).counts
    assert Fraction(9 * sides) / (2 * law.variance) == share * exact(0.7)
    approximate = mechanism.calibrate(lattice, ApproxDP(1.0, 1e-6), Neighbors(neighbors))
    alone = replace(mechanism, radius="public")
    whole = alone.calibrate(lattice, ApproxDP(1.0, 1e-6), Neighbors(neighbors))
    spent = 9 * sides / (approximate.counts.variance - 8)
    # What the matrix alone costs with the whole budget, by its share of it.
    kept = (whole.matrix.variance - 8) / (approximate.matrix.variance - 8)
    assert kept == 1 - share
    mu_squared = lattice.frobenius_squared(Neighbors(neighbors)) / (whole.matrix.variance - 8)
    part = exact(alone.vector_share) if name in SEPARATE else 1 - trace_part(alone, neighbors)
    assert spent == share * mu_squared / part


def trace_part(mechanism, neighbors):
    return exact(mechanism.trace_share) if neighbors == "add-remove" else 0


@one_of_each_family
def test_a_release_does_not_depend_on_the_data_but_through_counts_and_moment(name, monkeypatch):
    """Two tables with the same answers of the data source have the same release."""
    real = rows_of(table(300))
    answers = {}

    def remembered(method_name, method):
        def ask(self, *args, **kwargs):
            answers.setdefault(method_name, method(real, *args, **kwargs))
            return answers[method_name]

        return ask

    expected = released(name, real)
    for method in ("norm_counts", "second_moments"):
        monkeypatch.setattr(Rows, method, remembered(method, getattr(Rows, method)))
    found = released(name, rows_of(table(7, size=90.0)))
    np.testing.assert_array_equal(found.published, expected.published)
    assert found.lattice == expected.lattice


def norms_of(rows):
    radii = radius.candidates(rows.lattice().radius)
    counts = rows.norm_counts(radii[:-1]).astype(float)
    return radii, radius.Norms(counts, radii / radii[-1], rows.lattice().relative())


def test_all_that_clipping_takes_away_is_below_the_bound():
    values = table(500, size=3.0) * np.random.default_rng(1).uniform(0.1, 30, (500, 1))
    rows = rows_of(values, intercept=0.0)
    radii, norms = norms_of(rows)
    assert norms.counts.sum() == 500
    unit = radii[-1] ** 2
    bounds = norms.clipped_away() * unit
    whole = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2
    for chosen, bound in zip(radii, bounds, strict=True):
        moment = rows.second_moments(radius=float(chosen))[0]
        clipped = moment.units.astype(float) * moment.lattice.step**2
        lost = np.linalg.norm(whole - clipped)
        assert lost <= bound + 1e-4
        if lost > 0.1 * np.linalg.norm(whole):  # a bound that would say half is caught
            assert lost > bound / 8
    assert np.all(np.diff(bounds) <= 0)
    assert bounds[-1] == 0


@pytest.mark.parametrize("intercept", [0.0, 0.3, 1.0])
def test_traces_are_those_of_rows_at_the_upper_end_of_their_bin(intercept):
    values = table(500, size=3.0) * np.random.default_rng(1).uniform(0.1, 30, (500, 1))
    rows = rows_of(values, intercept)
    radii, norms = norms_of(rows)
    for chosen, trace in zip(radii, norms.traces() * radii[-1] ** 2, strict=True):
        moment = rows.second_moments(radius=float(chosen))[0]
        diagonal = moment.units.diagonal().astype(float) * moment.lattice.step**2
        constant, features = 500 * (intercept * chosen) ** 2, diagonal[:4].sum()
        assert features <= 1.0001 * (trace - constant) <= 2.0002 * features
        assert sum(diagonal[4:]) == pytest.approx(constant, rel=1e-4)


def test_noise_is_bounded_with_and_without_what_denoising_takes_away():
    lattice = rows_of(table(1), intercept=0.0).lattice().relative()
    law = calibrated("gaussian", lattice).matrix
    counts, shares = np.zeros(3), np.array([0.25, 0.5, 1.0])
    steps = (shares / UNITS) ** 2
    for count in (1, 10**7):
        bounds = radius.noise_errors(
            radius.Norms(np.array([count, 0.0, 0.0]), shares, lattice), law
        )
        traces = count * np.minimum(shares, 0.25) ** 2
        projected = np.sqrt(2 * traces * steps * law.edge)
        whole = steps * np.sqrt(law.frobenius_squared)
        assert (projected < whole).all() if count == 1 else (whole < projected).all()
        np.testing.assert_allclose(bounds, np.minimum(projected, whole))
    assert not radius.noise_errors(radius.Norms(counts, shares, lattice), law).any()


@one_of_each_family
@each_relation
def test_errors_after_denoising_stay_below_the_bounds_that_choose_the_radius(name, neighbors):
    rows = rows_of(table(400, size=20.0))
    radii, norms = norms_of(rows)
    laws = calibrated(name, rows.lattice().relative(), 1.0, neighbors)
    apart = name in SEPARATE
    bound = separate.errors(norms, laws) if apart else radius.noise_errors(norms, laws.matrix)
    bound = bound[-7] * radii[-1] ** 2
    moment = rows.second_moments(radius=float(radii[-7]))[0]
    truth = moment.units.astype(float) * moment.lattice.step**2
    found = []
    for seed in range(10):
        entropy = Entropy.seeded(seed)
        noise = laws.matrix.sample(entropy)
        if apart:
            made = separate.separated(MECHANISMS[name](), rows, laws, noise, moment, entropy)
            estimate = made.noisy()
        else:
            estimate = project(truth + noise * moment.lattice.step**2, np.trace(truth))
        found.append(np.linalg.norm(estimate - truth))
    assert bound / 6 < np.mean(found) < 1.2 * bound


def test_candidates_halve_the_square_and_stay_where_files_can_hold_them():
    radii = radius.candidates(2.0)
    assert (len(radii), radii[-1]) == (21, 2.0)
    np.testing.assert_allclose(radii[1:] ** 2 / radii[:-1] ** 2, 2.0)
    assert radius.candidates(1.5e-99).tolist() == pytest.approx([1.5e-99 / 2**0.5, 1.5e-99])
    assert radius.candidates(5e-100).tolist() == [5e-100]
    assert radius.candidates(2e-99).tolist() == pytest.approx([2e-99 / 2**0.5, 2e-99])


@pytest.mark.parametrize("unit", [1e-95, 1e-3])
def test_the_choice_does_not_depend_on_the_size_of_the_radius(unit):
    made = [
        released(
            "laplace",
            open_rows(u * table(size=5.0), Schema.from_bounds(-100, 100, NAMES, radius=2 * u)),
        )
        for u in (1.0, unit)
    ]
    assert made[1].lattice.radius == pytest.approx(unit * made[0].lattice.radius)
    np.testing.assert_allclose(made[1].published, made[0].published, atol=2000)
    assert np.abs(made[0].published).max() > 5e5


def test_a_declared_radius_beyond_all_rows_is_that_of_the_longest():
    schema = Schema.from_bounds(-100, 100, NAMES, radius=9e99)
    made = released("laplace", open_rows(table(), schema))
    assert made.lattice.radius in radius.candidates(2.0)
    assert made.lattice == released("laplace", rows_of(table())).lattice


@pytest.mark.parametrize(
    ("name", "law", "cdf"),
    [
        ("matrix-laplace", ScalarLaplace(Fraction(40)), lambda x: stats.laplace.cdf(x, 0, 40)),
        ("gaussian", ScalarGaussian(Fraction(10**4)), lambda x: stats.norm.cdf(x, 0, 100)),
    ],
)
@each_relation
def test_the_choice_sees_counts_with_noise_of_the_stated_law(
    name, law, cdf, neighbors, monkeypatch
):
    """Under replace-one the scale of Laplace noise doubles, the variance of Gaussian noise too."""
    seen, rows = [], rows_of(table(50))
    choose = radius.significant
    two = 2 if neighbors is Neighbors.REPLACE_ONE else 1
    stated = type(law)(two * (law.scale if name == "matrix-laplace" else law.variance))

    def watched(counts, given):
        seen.append(counts)
        assert given == stated
        return choose(counts, given)

    monkeypatch.setattr(radius, "significant", watched)
    for seed in range(40):
        MECHANISMS[name](radius="private")(
            rows,
            budget=PureDP(0.25) if name == "matrix-laplace" else ZCDP(0.0005),
            neighbors=neighbors,
            entropy=Entropy.seeded(seed),
        )
    exact_counts = rows.norm_counts(radius.candidates(rows.lattice().radius)[:-1])
    scale = two if name == "matrix-laplace" else two**0.5
    noise = (np.array(seen) - exact_counts).ravel() / scale
    assert stats.kstest(noise, cdf).pvalue > 1e-3
    assert stats.kstest(2 * noise, cdf).pvalue < 1e-9


@pytest.mark.parametrize(
    ("law", "draw", "lonely"),
    [
        (ScalarLaplace(Fraction(10)), "laplace", 65),
        (ScalarGaussian(Fraction(100)), "normal", 35),
    ],
)
def test_bins_that_noise_alone_would_fill_do_not_count(law, draw, lonely):
    noise = getattr(np.random.default_rng(0), draw)(scale=10.0, size=(4000, 21))
    alarms = np.mean([radius.significant(row, law).any() for row in noise])
    assert 0.005 < alarms < 0.0125
    few = int(0.8 * lonely)  # counts beside a bin that counts, and not alone
    counts = np.array([few, 500, -30, lonely, 1, 90, few, few, 0, few])
    kept = [few, 500, 0, lonely, 0, 90, few, few, 0, 0]
    assert radius.significant(counts, law).tolist() == kept


@pytest.mark.parametrize("law", [ScalarLaplace(Fraction(30)), ScalarGaussian(Fraction(900))])
def test_upper_quantiles_are_exceeded_as_often_as_they_say(law):
    draws = law.samples(40_000, Entropy.seeded(3))
    for probability in (0.3, 0.01):
        beyond = np.sum(draws > law.upper_quantile(probability))
        assert stats.binomtest(beyond, len(draws), probability).pvalue > 1e-3
        halved = np.sum(draws > law.upper_quantile(probability / 2))
        assert stats.binomtest(halved, len(draws), probability).pvalue < 1e-9


def test_an_empty_table_keeps_the_radius():
    rows = rows_of(table(0))
    assert released("laplace", rows, 0.1, seed=3).lattice == rows.lattice().relative()


@each_kind
def test_a_stream_gives_the_release_of_its_table(name):
    data = pa.table(dict(zip(NAMES, table(9).T, strict=True)))
    of_stream, of_table = (released(name, rows_of(one)) for one in (data.to_reader(), data))
    assert np.array_equal(of_stream.published, of_table.published)


@each_kind
@pytest.mark.parametrize(
    "fields", [{"radius": "secret"}, {"radius_share": 0.0}, {"radius_share": 1.0}]
)
def test_fields_without_a_meaning_are_refused(name, fields):
    with pytest.raises(MechanismError, match=next(iter(fields))):
        MECHANISMS[name](**fields)


@each_kind
@pytest.mark.parametrize("share", [1e-60, 1 - 1e-16])
def test_a_share_too_small_for_the_noise_is_refused_before_anything_is_read(name, share):
    lattice = rows_of(table(5)).lattice()
    with pytest.raises(MechanismError, match="budget"):
        calibrated(name, lattice, 1e-14, radius="private", radius_share=share)


def test_a_trace_alone_costs_what_the_matrix_would():
    rows = rows_of(table(1, size=100.0))
    made = released("laplace", rows, 0.1, Neighbors.REPLACE_ONE)
    laws = calibrated("laplace", rows.lattice(), 0.1, Neighbors.REPLACE_ONE, radius="private")
    assert isinstance(laws, additive.Calibration)
    assert made.published is None
    assert trace_noise(made) == laws.trace_alone
    bound = rows.lattice().relative().unit_bound
    spent = 2 / laws.counts.scale + bound / laws.trace_alone.scale
    assert spent == exact(0.1)
