"""The mechanism that centres features at their means: the pilot's cost and its gain."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from denoised_errors import mean_error
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Guarantee,
    Neighbors,
    PureDP,
    Unit,
    exact,
    gaussian_mu,
)
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.denoise import denoise
from dpcov.errors import MechanismError
from dpcov.mechanisms import Gaussian, MatrixLaplace, Standardized, standardized
from dpcov.mechanisms.row_transform import RowTransform
from dpcov.published.norm_histogram import OCTAVES_BELOW_TYPICAL, bin_upper_ends
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Lattice, LinearMap, power_above
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

D = 4
Q = 2**20
ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
LATTICES = {
    "p=1": Lattice(1, 1.0, 0.3),
    "schema's radius": Lattice(D, 2.0, 0.3),
    "more features than fill it": Lattice(8, 2.0, 0.3),
    "small radius": Lattice(D, 0.5, 0.7),
    "radius off the lattice": Lattice(3, 1.7, 0.3),
    "persons": Lattice(D, 2.0, 0.3, Unit("id", 3)),
    "steps of the radius": Lattice(3, 1.7, 0.3).relative(),
}
each_lattice = pytest.mark.parametrize("lattice", LATTICES.values(), ids=LATTICES)
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def largest(lattice):
    return min(lattice.side, math.floor(1 / lattice.step))


def units_of(lattice):
    """Return what one unit can add to the pilot: extreme rows, random rows, or nothing."""
    rng, p, k = np.random.default_rng(1), lattice.features, lattice.unit.max_rows
    u, t = largest(lattice), lattice.intercept_units
    few = max(1, int((lattice.side / u) ** 2))  # features at their bound that fill the radius
    corner = np.array([u if j < few else 0 for j in range(p)])
    flat = np.full(p, min(u, math.isqrt(lattice.side**2 // p)))
    rows = [
        corner,
        -corner,
        corner[::-1],
        corner * (-1) ** np.arange(p),
        flat,
        -flat,
        np.zeros(p, int),
    ]
    rows += [np.trunc(flat * rng.uniform(-1, 1, p)).astype(int) for _ in range(10)]
    found = [np.zeros(2 * p + 1, object)]
    for row in rows:
        z = row.astype(object)
        found.append(k * np.concatenate([z * z, t * z, np.array([t * t], object)]))
    return found


def worst(lattice, neighbors):
    """Return the largest squared l2 and l1 changes between neighbours, exactly."""
    units = units_of(lattice)
    others = units if neighbors == SWAP else units[:1]
    changes = [a - b for a in units for b in others]
    return max(sum(c * c) for c in changes), max(sum(abs(c)) for c in changes)


@each_lattice
@each_relation
def test_neighbours_change_the_pilot_by_no_more_than_stated(lattice, neighbors):
    squared, absolute = worst(lattice, neighbors)
    of_law = standardized.pilot_sensitivities(lattice, neighbors)
    assert squared <= of_law[0]
    assert absolute <= of_law[1]
    assert squared >= of_law[0] / 3
    assert absolute >= of_law[1] / 2.5


@each_lattice
def test_under_add_remove_the_pilot_has_the_sensitivities_of_the_proof(lattice):
    p, k, t = lattice.features, lattice.unit.max_rows, lattice.intercept_units
    side = lattice.side
    u = min(side, math.ceil(1 / exact(lattice.step)))
    root = math.isqrt(p) + (math.isqrt(p) ** 2 < p)  # sqrt(p), rounded up
    assert standardized.pilot_sensitivities(lattice, ADD) == (
        k**2 * (side**2 * (u**2 + t**2) + t**4),
        k * (side**2 + t * side * root + t**2),
    )


def test_the_sensitivity_of_add_remove_breaks_replace_one_and_rows_break_persons():
    lattice, persons = LATTICES["more features than fill it"], LATTICES["persons"]
    squared, absolute = worst(lattice, SWAP)
    assert squared > standardized.pilot_sensitivities(lattice, ADD)[0]
    assert absolute > standardized.pilot_sensitivities(lattice, ADD)[1]
    rows = replace(persons, unit=Unit())
    assert worst(persons, ADD)[0] > standardized.pilot_sensitivities(rows, ADD)[0]


@given(
    st.lists(st.floats(-3, 3), min_size=D, max_size=D),
    st.sampled_from([0.3, 0.5, 1.0, 2.0, 7]),
    st.booleans(),
)
def test_no_feature_of_a_row_is_longer_than_the_pilot_assumes(cells, radius, relative):
    schema = Schema.from_bounds(-1, 1, list("abcd"), radius=radius)
    lattice = Lattice(D, radius, 0.3)
    lattice = lattice.relative() if relative else lattice
    batch = pa.record_batch({name: [cell] for name, cell in zip("abcd", cells, strict=True)})
    (block,) = Encoder(schema, lattice).blocks(batch)
    assert np.abs(block[:D]).max() <= min(lattice.side, math.ceil(1 / exact(lattice.step)))


@each_lattice
@each_relation
def test_pilot_radius_and_release_spend_exactly_epsilon(lattice, neighbors):
    epsilon, sides = Fraction(7, 8), 2 if neighbors == SWAP else 1
    laws = Standardized(trace_share=0.0).calibrate(lattice, PureDP(0.875), neighbors)
    _, absolute = standardized.pilot_sensitivities(lattice, neighbors)
    spent = absolute / laws.look.scale
    spent += sides * lattice.unit.max_rows / laws.counts.scale
    for images in (
        lattice.relative(),
        lattice.for_transform(0.7),
        lattice.for_transform(1.9),
    ):
        scale = Fraction(2 * laws.final.at(images).matrix.scale)
        release = images.nuclear(neighbors) / scale
        assert epsilon * (1 - Fraction(1, 10**12)) <= spent + release <= epsilon
    spent += lattice.relative().nuclear(neighbors) / Fraction(2 * laws.final.matrix.scale)
    assert epsilon * (1 - Fraction(1, 10**12)) <= spent <= epsilon


@each_lattice
@each_relation
def test_pilot_radius_and_release_spend_exactly_rho(lattice, neighbors):
    sides = 2 if neighbors == SWAP else 1
    laws = Standardized(trace_share=0.0).calibrate(lattice, ZCDP(0.375), neighbors)
    squared, _ = standardized.pilot_sensitivities(lattice, neighbors)
    spent = squared / (2 * laws.look.variance)
    spent += sides * Fraction(lattice.unit.max_rows) ** 2 / (2 * laws.counts.variance)
    for images in (
        lattice.relative(),
        lattice.for_transform(0.7),
        lattice.for_transform(1.9),
    ):
        release = images.frobenius_squared(neighbors) / (2 * laws.final.at(images).matrix.variance)
        assert spent + release == Fraction(3, 8)
    assert laws.final == laws.final.at(lattice.relative())


@each_relation
@pytest.mark.parametrize("features", [2, 40])
def test_pure_noise_is_that_of_matrix_laplace_at_every_order(features, neighbors):
    lattice = Lattice(features, 2.0, 0.3)
    laws = Standardized(trace_share=0.0).calibrate(lattice, PureDP(0.875), neighbors)
    noise = laws.final.matrix
    assert isinstance(noise, WishartDifference)
    left = Fraction(7, 8) * (1 - exact(0.07) - exact(0.1))
    spent = lattice.relative().nuclear(neighbors) / Fraction(2 * noise.scale)
    assert left * (1 - Fraction(1, 10**12)) <= spent <= left


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_features_are_divided_by_the_stated_power_of_their_spread(power):
    variances, center = np.array([1e-4, 1e-2, 0.04]), np.array([0.5, -0.25, 0.0])
    schema = Schema.from_bounds(-1.0, 1.0, ("a", "b", "c"), radius=0.9)
    images = standardized.Spread(center, variances, 1e4).images(power, schema, on_grid=True)
    plain = standardized.Spread(center, variances, 1e4).images(power, schema)
    extents = np.sqrt(variances) * [2.0, 12.5 / 8, 1.0]  # the bounds are 150, 12.5 and 5 away
    wanted = (extents / extents.max()) ** power
    scales = np.diag(images.map.matrix())
    units = 1 / scales
    assert np.array_equal(images.map.matrix(), np.diag(scales))
    digits = np.frexp(scales)[0] * 8
    assert np.array_equal(digits, np.rint(digits))
    assert (np.abs(scales * wanted - 1) <= 1 / 8).all()
    np.testing.assert_allclose(plain.map.matrix(), np.diag(1 / wanted), rtol=1e-6)
    assert images.map.center.tolist() == center.tolist()
    of_cube = np.linalg.norm((1 + np.abs(center)) / units)
    of_ball = (0.9 + np.linalg.norm(center)) / units.min()
    assert images.longest == pytest.approx(min(of_cube, of_ball))
    mean_square = (variances / units**2).sum()
    assert images.typical**2 == pytest.approx(min(mean_square, images.longest**2))
    ends = bin_upper_ends(images.typical, images.longest)
    assert ends[-1] == images.longest**2
    np.testing.assert_allclose(ends[1:] / ends[:-1], 2**0.5)
    assert (
        2.0 ** -(OCTAVES_BELOW_TYPICAL + 1)
        < ends[0] / images.typical**2
        <= 2.0**-OCTAVES_BELOW_TYPICAL
    )


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_bounds_midpoints_and_centers_are_on_the_grid_of_images(power):
    """The exception is features whose lattice step exceeds a sixteenth of a deviation."""
    generator = np.random.default_rng(7)
    schema = Schema.from_bounds(-1.0, 1.0, tuple("abcde"))
    for least in (-2, -10, -20):
        variances = np.exp2(generator.uniform(2 * least, -1, 5))
        variances[:2] = 4.0**least, 1.0
        center = generator.uniform(-1, 1, 5)
        images = standardized.Spread(center, variances, 1e4).images(power, schema, on_grid=True)
        scales, found = np.diag(images.map.matrix()), images.map.center
        deviation = np.exp2(np.floor(np.log2(variances) / 2))
        of_grid = power_above(2 * images.longest) / 2**20 / np.exp2(np.frexp(scales)[1] - 3.0)
        allowed = np.minimum(of_grid, deviation / 16)
        on_grid = of_grid <= allowed
        grid = Lattice.of(schema).for_transform(images.longest).step
        for value in (-1.0, 0.0, 1.0):
            steps = ((value - found) * scales / grid)[on_grid]
            assert np.array_equal(steps, np.rint(steps))
        assert np.array_equal(np.rint(found / allowed), found / allowed)
        assert (np.abs(found - center) <= allowed / 2).all()
        assert np.abs(found).max() <= 1


def test_noise_in_a_deviation_changes_the_factor_of_a_feature_by_at_most_a_quarter():
    schema = Schema.from_bounds(-1.0, 1.0, ("a", "b"))
    factors = []
    for deviation in np.geomspace(0.01, 1.0, 500):
        variances = np.array([deviation**2, 1.0])
        images = standardized.Spread(np.zeros(2), variances, 1e4).images(0.5, schema, on_grid=True)
        factors.append(images.map.matrix()[0, 0])
    ratios = np.array(factors[:-1]) / factors[1:]
    assert 1.0 <= ratios.min() <= ratios.max() <= 1.25


def test_a_release_has_its_images_on_the_grid():
    made = Standardized()(
        open_rows(narrow(500), NARROW), budget=ZCDP(0.5), neighbors=ADD, entropy=Entropy.seeded(4)
    )
    assert (np.frexp(np.diag(made.linear_map))[0] == 0.5).all()


@pytest.mark.parametrize(("features", "rows"), [(3, 1e6), (3, 3e4), (3, 3.0), (50, 1e6)])
def test_a_directions_query_reaches_as_far_as_its_noise_lets_it(features, rows):
    """Noise of a direction is at its bar where the radius is largest, or at one of two ends."""
    lattice = Lattice(features, 2.0, 0.3)
    law = (
        Standardized(directions_share=0.1)
        .calibrate(lattice, ZCDP(0.5), ADD)
        .paths[0]
        .directions.matrix
    )
    images = RowTransform(LinearMap.focused(np.eye(features), 9.0), 9.0, 1.0, rows)
    found = standardized.look_radius(images, law, features)
    assert 1 <= found <= standardized.MAX_RADIUS_FACTOR
    noise = math.sqrt(law.diagonal_variance * features) / Q**2 * found**2  # of a direction
    share = noise / (rows / features)
    if 1 < found < standardized.MAX_RADIUS_FACTOR:
        assert share == pytest.approx(standardized.MAX_CLIPPING_NOISE_RATIO)
    else:
        assert (share < standardized.MAX_CLIPPING_NOISE_RATIO) == (found > 1)
    assert standardized.look_radius(replace(images, longest=0.5), law, features) == 0.5
    twice = math.sqrt(law.diagonal_variance * features) / Q**2 * 4 * features
    images = replace(images, count=twice / standardized.MAX_CLIPPING_NOISE_RATIO)
    assert standardized.look_radius(images, law, features) == pytest.approx(2.0)


def test_with_delta_all_variances_are_larger_by_the_rounding():
    lattice, budget = replace(LATTICES["persons"], features=40), ApproxDP(1.0, 1e-6)
    laws = Standardized().calibrate(lattice, budget, ADD)
    rho = Fraction(gaussian_mu(1 - 1e-12, 1e-6)) ** 2 / 2
    squared, _ = standardized.pilot_sensitivities(lattice, ADD)
    assert laws.look.variance - squared / (2 * exact(0.07) * rho) == 8
    assert laws.counts.variance - Fraction(9) / (2 * exact(0.1) * rho) == 8


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("mechanism", [Standardized(), standardized.BY_DIRECTION], ids=["2", "3"])
def test_with_delta_it_takes_the_noise_that_is_less_over_all_rounds(mechanism, neighbors):
    kinds = set()
    for features in (1, 2, 5, 10, 15, 40):
        lattice, budget = Lattice(features, math.sqrt(features), 0.3), ApproxDP(1.0, 1e-6)
        laws = mechanism.calibrate(lattice, budget, neighbors)
        both = [
            mechanism._laplace(lattice, budget, neighbors),
            mechanism._gaussian(lattice, budget, neighbors),
        ]
        assert laws == min(both, key=standardized.noise_of_rounds)
        kind = type(laws.look)
        kinds.add(kind)
        assert laws.guarantee.budget == (PureDP(1.0) if kind is ScalarLaplace else budget)
    assert kinds == {ScalarLaplace, ScalarGaussian}


def test_control_the_last_round_alone_takes_laplace_noise_where_it_costs_accuracy():
    """At 11 columns the last round is as good with Laplace noise; the others are not."""
    lattice, budget = Lattice(9, 3.0, 0.3), ApproxDP(1.0, 1e-6)
    both = [
        method(lattice, budget, ADD)
        for method in (standardized.BY_DIRECTION._laplace, standardized.BY_DIRECTION._gaussian)
    ]
    last = [made.final.matrix.frobenius_squared for made in both]
    assert last[0] < last[1]
    assert standardized.noise_of_rounds(both[0]) > 1.2 * standardized.noise_of_rounds(both[1])


NARROW = Schema.from_bounds(0, 1, list("abcd"))


def narrow(n, seed=0):
    """Return correlated rows that fill a twentieth of their bounds, near one end."""
    rng = np.random.default_rng(seed)
    mix = np.array([[1, 0, 0, 0], [0.8, 0.6, 0, 0], [0, 0.5, 0.8, 0], [0.3, 0, 0, 0.9]])
    return 0.15 + rng.normal(size=(n, D)) @ mix.T * [0.02, 0.03, 0.01, 0.05]


def correlation_error(mechanism, budget, neighbors, values, seed):
    made = mechanism(
        open_rows(values, NARROW), budget=budget, neighbors=neighbors, entropy=Entropy.seeded(seed)
    )
    released = denoise(made, generator=simulation_generator(seed)).correlation()
    return np.sqrt(np.mean((released - np.corrcoef(values.T)) ** 2))


@pytest.mark.parametrize(
    ("plain", "budget"),
    [
        (Gaussian(), ApproxDP(1.0, 1e-6)),
        (Gaussian(), ZCDP(0.1)),
        (MatrixLaplace(), PureDP(1.0)),
    ],
)
@each_relation
def test_correlations_of_a_narrow_table_are_twice_as_accurate(plain, budget, neighbors):
    values = narrow(5000)
    ours, theirs = (
        np.mean([correlation_error(m, budget, neighbors, values, seed) for seed in range(6)])
        for m in (Standardized(), plain)
    )
    assert ours < theirs / 2


def test_the_gain_comes_from_center_and_scale(monkeypatch):
    """The same release about the midpoints, features as they are, is no better than without."""
    values, budget = narrow(5000), ZCDP(0.1)
    blind = standardized.Spread(np.zeros(D), np.ones(D), 1e4)
    monkeypatch.setattr(standardized, "look", lambda *_: blind)
    ours, theirs = (
        np.mean([correlation_error(m, budget, ADD, values, seed) for seed in range(6)])
        for m in (Standardized(), Gaussian())
    )
    assert ours > theirs / 2.5


def test_means_and_covariances_come_back_in_units():
    values = narrow(50_000)
    made = Standardized()(
        open_rows(values, NARROW), budget=ZCDP(0.5), neighbors=ADD, entropy=Entropy.seeded(4)
    )
    release = denoise(made, generator=simulation_generator(0))
    np.testing.assert_allclose(release.mean(), values.mean(axis=0), atol=0.002)
    spread = np.sqrt(np.outer(values.var(axis=0), values.var(axis=0)))
    np.testing.assert_allclose(release.covariance() / spread, np.cov(values.T) / spread, atol=0.05)
    assert np.abs(release.center - (2 * values.mean(axis=0) - 1)).max() < 0.05


@each_relation
@pytest.mark.parametrize("budget", [PureDP(0.01), ZCDP(1e-6), PureDP(2.0), ZCDP(1.0)])
@pytest.mark.parametrize("n", [0, 1, 7])
def test_few_rows_and_small_budgets_leave_a_usable_release(neighbors, budget, n):
    made = Standardized()(
        open_rows(narrow(n), NARROW), budget=budget, neighbors=neighbors, entropy=Entropy.seeded(n)
    )
    denoised = denoise(made, generator=simulation_generator(0))
    if denoised.not_released is not None:  # behind the public gate
        assert neighbors == Neighbors.REPLACE_ONE
        assert np.isfinite(denoised.denoised).all()
        return
    covariance = denoised.covariance()
    assert np.isfinite(covariance).all()
    assert np.linalg.eigvalsh(covariance)[0] >= -1e-9


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_a_feature_that_never_varies_does_no_harm(power):
    values = narrow(5000)
    values[:, 2] = 0.3
    made = Standardized(power=power)(
        open_rows(values, NARROW), budget=ZCDP(0.5), neighbors=ADD, entropy=Entropy.seeded(1)
    )
    covariance = denoise(made, generator=simulation_generator(0)).covariance()
    assert np.sqrt(covariance[2, 2]) < 0.03
    rest = [0, 1, 3]
    truth = np.cov(values.T)[np.ix_(rest, rest)]
    assert np.linalg.norm(covariance[np.ix_(rest, rest)] - truth) < 0.1 * np.linalg.norm(truth)


def queried(rows, law, seed):
    noise = law.samples(2 * rows.lattice().features + 1, Entropy.seeded(seed))
    return standardized.look(rows.second_moments()[0], law, noise, rows.missing_columns)


def test_a_mean_below_the_noise_stays_at_the_midpoint_and_features_keep_their_scale():
    rows = open_rows(narrow(50), NARROW)
    laws = Standardized().calibrate(rows.lattice(), PureDP(0.01), ADD)
    found = [queried(rows, laws.look, seed) for seed in range(5)]
    assert max(np.abs(spread.center).max() for spread in found) < 0.02
    assert max(np.ptp(spread.variances) for spread in found) < 1e-3
    assert min(spread.variances.min() for spread in found) > 0.6
    clear = replace(laws.look, scale=Fraction(1))
    spread = queried(rows, clear, 0)
    np.testing.assert_allclose(spread.center, 2 * narrow(50).mean(axis=0) - 1, atol=1e-4)
    assert spread.count == pytest.approx(50, abs=0.1)


def noisy_means(apart, size, columns, seed):
    """Return means near 0.3 with spread `apart`, and the same with Laplace noise."""
    rng = np.random.default_rng(seed)
    means = np.clip(0.3 + apart * rng.normal(size=columns), -1, 1)
    return means, means + rng.laplace(size=columns) * size / np.sqrt(2)


@pytest.mark.parametrize(
    ("apart", "size", "least", "most"),
    [(0.03, 0.3, 0.0, 0.3), (0.3, 0.3, 0.6, 0.8), (0.3, 0.03, 0.95, 1.05)],
)
def test_of_many_columns_means_are_as_far_off_as_they_lie_apart(apart, size, least, most):
    """Control: if every mean is equally likely, means are off by the noise."""
    errors, reported, alone = [], [], []
    for seed in range(100):
        means, found = noisy_means(apart, size, 300, seed)
        center, off = standardized.pooled(found, np.full(300, size))
        errors.append(center - means)
        reported.append(off)
        alone.append(found / (1 + 3 * size**2) - means)
    error, stated, before = (np.sqrt(np.mean(np.square(one))) for one in (errors, reported, alone))
    assert least < error / size < most
    assert 0.9 < error / stated < 1.1
    assert before > 0.75 * size


def test_means_and_how_far_off_they_are_are_those_of_the_posterior(monkeypatch):
    """The test sums over the common mean, and over the spread of the means."""
    monkeypatch.setattr(standardized, "MAX_SHRINKAGE_SDS", np.inf)
    found, noise = np.array([0.6, -0.1, 0.3]), np.array([0.2, 0.3, 0.1])
    common = np.linspace(-6, 6, 6001)[:, None]
    chances, means, squares = [], [], []
    for apart in np.linspace(0, np.sqrt(1 / 3), standardized.PRIOR_GRID_SIZE):
        beside = norm.pdf(found, common, np.hypot(apart, noise)).prod(axis=1)
        chances.append(beside * norm.pdf(common[:, 0], 0, np.sqrt(1 / 3)))
        kept = apart**2 / (apart**2 + noise**2)
        means.append(common + kept * (found - common))
        squares.append(means[-1] ** 2 + kept * noise**2)
    weights = np.array(chances) / np.sum(chances)
    mean, square = (np.einsum("ac,acp->p", weights, np.array(each)) for each in (means, squares))
    center, off = standardized.pooled(found, noise)
    assert center == pytest.approx(mean, rel=1e-6)
    assert off == pytest.approx(np.sqrt(square - mean**2), rel=1e-6)


def test_a_mean_far_from_the_others_is_moved_two_deviations_at_most():
    found = np.array([*np.zeros(299), 0.9])
    center, off = standardized.pooled(found, np.full(300, 0.1))
    assert 0.65 < center[-1] <= 0.7
    assert off[-1] < 0.1


def test_few_columns_are_hardly_pulled():
    found = np.array([0.5])
    for size in (0.01, 0.1):
        center, off = standardized.pooled(found, np.full(1, size))
        assert center[0] == pytest.approx(0.5, abs=size / 2)
        assert off[0] == pytest.approx(size, rel=0.2)


def test_rows_are_at_the_midpoints_where_a_mean_may_be_anywhere_for_all_the_noise():
    """Control: with less noise the common mean is detectable, and most of the norm is correct."""
    values = np.random.default_rng(0).normal(0.8, 0.02, (5000, 60)).clip(0, 1)
    rows = open_rows(values, Schema.from_bounds(0.0, 1.0, tuple(f"x{j}" for j in range(60))))
    law = Standardized().calibrate(rows.lattice(), PureDP(1.0), ADD).look
    constant = rows.lattice().intercept_units
    for size, blind in ((0.8, True), (0.3, False)):  # of the noise in a mean
        scale = Fraction(size * 5000 * constant / rows.lattice().step / np.sqrt(2))
        spread = queried(rows, replace(law, scale=scale), 1)
        assert bool(np.all(spread.center == 0)) == blind
        assert (spread.astray > 0.3) == blind
    assert np.abs(spread.center - 0.6).mean() < 0.1


def test_a_variance_is_what_is_found_and_half_of_how_uncertain_that_is(monkeypatch):
    rows = open_rows(narrow(5000), NARROW)
    law = Standardized().calibrate(rows.lattice(), PureDP(1.0), ADD).look
    answers = [(np.array([0.4, -0.3, 0.2, 0.1]), np.full(4, 0.1))]
    answers += [(np.array([0.5, 0.01, -0.2, 0.9]), np.array([0.1, 0.1, 0.2, 0.4]))]
    left = iter(answers)
    monkeypatch.setattr(standardized, "pooled", lambda *_: next(left))
    spread = queried(rows, law, 0)
    assert spread.variances == pytest.approx([0.55, 0.1, 0.2, 1.0])
    assert spread.center is answers[0][0]
    assert spread.astray == pytest.approx(4 * 0.1**2 / 1.85)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_no_center_is_beyond_the_bounds(end):
    rows = open_rows(np.full((200, D), end), NARROW)
    law = Standardized().calibrate(rows.lattice(), ZCDP(2.0), ADD).look
    centers = [queried(rows, law, seed).center for seed in range(20)]
    found = np.concatenate(centers) * (1 if end else -1)
    assert found.max() == 1  # where noise would take it further
    assert found.min() < 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"look_share": 0.0},
        {"look_share": 1.0},
        {"radius_share": 0.0},
        {"look_share": 0.6, "radius_share": 0.5},
        {"look_share": 0.5, "radius_share": 0.5},
        {"trace_share": 1.0},
        {"power": 1.5},
        {"power": -0.1},
        {"power": "a"},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(MechanismError):
        Standardized(**wrong)


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
@pytest.mark.parametrize("field", ["look_share", "radius_share"])
def test_a_share_too_small_for_the_noise_is_refused_when_calibrating(field, budget):
    with pytest.raises(MechanismError, match="budget is too small"):
        Standardized(**{field: 1e-60}).calibrate(LATTICES["schema's radius"], budget, ADD)


@each_relation
@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)], ids=str)
def test_the_guarantee_is_the_whole_budget_for_the_relation_and_the_unit(budget, neighbors):
    lattice = LATTICES["persons"]
    laws = Standardized().calibrate(lattice, budget, str(neighbors))
    assert laws == Standardized().calibrate(lattice, budget, neighbors)
    spent = PureDP(1.0) if isinstance(laws.look, ScalarLaplace) else budget
    assert laws.guarantee == laws.final.guarantee == Guarantee(spent, neighbors, lattice.unit)
    assert laws.guarantee.neighbors is neighbors
    assert laws.final.counts is None  # the radius has its own counts, of mapped rows


def test_a_stream_gives_the_release_of_its_table():
    data = pa.table(dict(zip("abcd", narrow(9).T, strict=True)))
    of_stream, of_table = (
        Standardized()(
            open_rows(one, NARROW), budget=ZCDP(0.5), neighbors=ADD, entropy=Entropy.seeded(1)
        )
        for one in (data.to_reader(), data)
    )
    assert np.array_equal(of_stream.published, of_table.published)


def test_the_data_is_read_three_times(monkeypatch):
    rows, reads = open_rows(narrow(50), NARROW), []
    for method in ("second_moments", "norm_counts"):
        ask = getattr(type(rows), method)
        monkeypatch.setattr(
            type(rows), method, lambda *a, ask=ask, **k: (reads.append(1), ask(*a, **k))[1]
        )
    Standardized()(rows, budget=ZCDP(0.5), neighbors=ADD, entropy=Entropy.seeded(1))
    assert len(reads) == Standardized().passes == 3


def test_a_schema_without_an_intercept_is_refused_with_the_next_step():
    with pytest.raises(MechanismError, match="intercept"):
        Standardized().calibrate(Lattice(3, 1.0), ZCDP(0.5), ADD)


def priced(n=20_000):
    """Return two related prices; most are far below their bounds, and some nearly reach them."""
    rng = np.random.default_rng(2)
    logs = rng.normal(size=(n, 2)) @ [[1.0, 0.5], [0.0, 0.9]]
    return np.minimum(np.exp(1.5 * logs), 1000.0)


def ends_at_eight(lengths, *_):
    """Return the radius of an earlier version: the longest detectable row, or the end.

    The end counts if the longest row exceeds 8 times the root mean square.
    """
    shows = np.array(lengths.counts) > 5 * lengths.noise.standard_deviation
    farthest = lengths.upper_ends[np.flatnonzero(shows).max()]
    typical = lengths.upper_ends[0] * 2**OCTAVES_BELOW_TYPICAL
    return math.sqrt(farthest if farthest <= 64 * typical else lengths.upper_ends[-1])


@pytest.mark.slow
def test_more_budget_is_never_worse_on_prices(monkeypatch):
    """Control: on the grid that has nothing between 8 times the mean square and the longest."""
    values = priced()
    rows, truth = open_rows(values, Schema.from_bounds(0, 1000, ["a", "b"])), np.cov(values.T)

    def errors():
        asked = {"neighbors": ADD, "of": lambda made: made.covariance() / np.trace(truth)}
        scaled = truth / np.trace(truth)
        budgets = [ZCDP(0.005 * 4**k) for k in range(5)]
        return [mean_error(Standardized(), rows, scaled, 40, budget=b, **asked) for b in budgets]

    found = np.array(errors())
    assert (found[1:] < 1.1 * found[:-1]).all()
    monkeypatch.setattr(standardized, "best_radius", ends_at_eight)
    before = np.array(errors())
    assert (before[1:] > 1.1 * before[:-1]).any()
