"""`Standardized` with a directions round: its cost, its row transform and its gain."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from denoised_errors import mean_error
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Guarantee, Neighbors, PureDP, Unit, exact
from dpcov.denoise import best_estimate, denoise
from dpcov.errors import MechanismError, ReleaseError
from dpcov.mechanisms import Gaussian, MatrixLaplace, additive, gaussian
from dpcov.mechanisms.choice import GOALS, choose
from dpcov.mechanisms.matrix_laplace import pure_noise
from dpcov.mechanisms.pure import nuclear_calibration
from dpcov.mechanisms.row_transform import RowTransform
from dpcov.mechanisms.standardized import (
    BY_COLUMN,
    BY_DIRECTION,
    MAP_ERROR_PER_NOISE_RATIO,
    MAX_CENTER_ERROR,
    MAX_NOISE_RATIO,
    MAX_RADIUS_FACTOR,
    Spread,
    Standardized,
    drawn,
    noise_share,
)
from dpcov.published.kinds import NoisySums
from dpcov.releases import Release
from dpcov.releases.file import from_text
from dpcov.rows.moment import Lattice, max_transformed_norm
from dpcov.rows.pilot_sensitivity import pilot_sensitivities
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.rows import Rows
from former_documents import former
from mapped_noise import noise_ratios
from several_rows import OneAfterAnother, kinds_asked

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
LATTICES = [Lattice(3, 2.0, 0.3), Lattice(1, 1.0, 0.05), Lattice(4, 1.0, 0.6, Unit("id", 3))]
TWO = Standardized(look_share=0.05, directions_share=0.11)
FIRST, SECOND, RADIUS = map(exact, (TWO.look_share, TWO.directions_share, TWO.radius_share))
MIXED = np.array([[1.0, 0, 0, 0], [0.98, 0.2, 0, 0], [0.5, 0.5, 0.2, 0], [0, 0, 0, 1]])


def related(n: int = 5000, seed: int = 0) -> Any:
    """Return (n, 4) rows of columns with very different spreads; three are correlated."""
    generator = np.random.default_rng(seed)
    scaled = generator.standard_normal((n, 4)) @ MIXED.T * [0.15, 0.02, 0.05, 0.1]
    return np.clip(scaled + np.array([0.4, -0.3, 0.5, 0.1]), -1, 1)


def source(table: Any) -> Rows:
    names = tuple(f"x{j}" for j in range(table.shape[1]))
    return open_rows(table, Schema.from_bounds(-1.0, 1.0, names))


def made_of(rows: Rows, seed: int = 1, mechanism: Any = TWO, **changed: Any) -> Release:
    asked = {"budget": ZCDP(0.5), "neighbors": ADD, "entropy": Entropy.seeded(seed)} | changed
    return mechanism(rows, **asked)


def queried(rows: Rows, images: RowTransform, laws: Any) -> Release:
    """Return the directions query of these transformed rows."""
    radius = min(MAX_RADIUS_FACTOR * images.typical, images.longest)
    grid, spent, draws = drawn(laws, rows.lattice(), radius, Entropy.seeded(1))
    moment = rows.second_moments(radius=radius, transform=images.map, lattice=grid)[0]
    return additive.published(TWO, rows.schema, spent, draws, moment, images.map)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("lattice", LATTICES, ids=str)
def test_pilot_directions_counts_and_release_spend_the_whole_budget(
    lattice: Lattice, neighbors: Neighbors
) -> None:
    """The rest is a release that spends it with a single pilot round."""
    squared, absolute = pilot_sensitivities(lattice, neighbors)
    images = lattice.relative()
    pure = TWO.calibrate(lattice, PureDP(2.0), neighbors)
    assert absolute / pure.look.scale == 2 * FIRST  # type: ignore[attr-defined]
    assert neighbors.sides * lattice.unit.max_rows / pure.counts.scale == 2 * RADIUS  # type: ignore[attr-defined]
    guarantee = Guarantee(PureDP(2 * float(SECOND)), neighbors, lattice.unit)
    asked = images, guarantee, 2 * SECOND
    assert pure.paths[0].directions == nuclear_calibration(*asked, TWO.trace_share, pure_noise)
    rho = TWO.calibrate(lattice, ZCDP(2.0), neighbors)
    assert squared / (2 * rho.look.variance) == 2 * FIRST  # type: ignore[attr-defined]
    guarantee = Guarantee(ZCDP(2 * float(SECOND)), neighbors, lattice.unit)
    asked = images, guarantee, 2 * SECOND
    assert rho.paths[0].directions == gaussian.calibration(*asked, 0, TWO.trace_share)
    as_much = replace(TWO, directions_share=0.0, radius_share=TWO.radius_share + 0.11)
    for laws, budget in ((pure, PureDP(2.0)), (rho, ZCDP(2.0))):
        once = as_much.calibrate(lattice, budget, neighbors)
        assert once.paths[0].directions is None
        found, wanted = (float(at.final.matrix.frobenius_squared) for at in (laws, once))
        assert found == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("budget", [PureDP(2.0), ZCDP(2.0), ApproxDP(1.0, 1e-6)], ids=str)
def test_on_each_path_the_laws_are_those_of_a_fixed_share(
    budget: Any, neighbors: Neighbors
) -> None:
    """Each spends the whole budget; the first pilot and the counts do not depend on it."""
    several = BY_DIRECTION.calibrate(LATTICES[0], budget, neighbors)
    assert [path.share for path in several.paths] == [0.03, 0.06, 0.12, 0.24, 0.0]
    for path in several.paths:
        fixed = replace(BY_DIRECTION, directions_share=path.share, directions_most=0.0)
        laws = fixed.calibrate(LATTICES[0], budget, neighbors)
        assert (laws.look, laws.counts, *laws.paths) == (several.look, several.counts, path)


def test_shares_are_doubled_while_they_are_not_above_the_most() -> None:
    """The last branch has no directions query if there is a choice."""
    for most, shares in ((0.2, [0.03, 0.06, 0.12]), (0.02, [0.03]), (0.06, [0.03, 0.06])):
        mechanism = replace(BY_DIRECTION, directions_most=most)
        laws = mechanism.calibrate(LATTICES[0], ZCDP(2.0), ADD)
        assert [path.share for path in laws.paths] == [*shares, 0.0]
    (path,) = replace(BY_COLUMN, directions_most=0.2).calibrate(LATTICES[0], ZCDP(2.0), ADD).paths
    assert (path.share, path.directions) == (0.0, None)
    with pytest.raises(MechanismError, match="directions_most"):
        Standardized(directions_most=0.9)


def spread(count: float, astray: float) -> Spread:
    return Spread(np.zeros(3), np.ones(3), count, astray=astray)


def test_the_share_is_that_of_the_least_predicted_error() -> None:
    """An inexact map adds `MAP_ERROR_PER_NOISE_RATIO` times the noise ratio of its query."""
    laws = BY_DIRECTION.calibrate(LATTICES[0], PureDP(1.0), ADD)
    for count in 10.0 ** np.arange(7):
        *queried, without = laws.paths
        looks = [noise_share(path.directions.matrix, count, 3) for path in queried]  # type: ignore[union-attr]
        noise = [math.sqrt(path.final.matrix.diagonal_variance) for path in queried]
        best = np.argmin(np.array(noise) * (1 + MAP_ERROR_PER_NOISE_RATIO * np.array(looks)))
        near, far = (
            spread(count, astray) for astray in (0.99 * MAX_CENTER_ERROR, MAX_CENTER_ERROR)
        )
        assert laws.path(far, 3) == queried[best]
        assert laws.path(near, 3) == (without if looks[best] > MAX_NOISE_RATIO else queried[best])


def test_the_directions_query_has_a_larger_fraction_the_fewer_rows_the_pilot_estimates() -> None:
    laws = BY_DIRECTION.calibrate(LATTICES[0], PureDP(1.0), ADD)
    shares = [laws.path(spread(count, 1.0), 3).share for count in (1, 1e3, 1e4, 1e5, 1e6, 1e9)]
    assert shares == sorted(shares, reverse=True)
    assert {0.03, 0.24} <= set(shares)
    for n in (100, 100_000):
        made = made_of(source(related(n)), mechanism=BY_DIRECTION, budget=PureDP(1.0))
        again = Standardized(**made.parameters)
        same = made_of(source(related(n)), mechanism=again, budget=PureDP(1.0))
        assert np.array_equal(made.published, same.published)
        assert (again.directions_share > 0.1) == (n == 100)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_with_many_columns_the_release_has_the_fraction_of_the_directions_query(
    neighbors: Neighbors,
) -> None:
    """Controls: where noise hides where rows lie, and of few columns, they have one."""
    table = np.random.default_rng(1).normal(0, 0.3, (4000, 150)).clip(-1, 1)
    of = {"mechanism": BY_DIRECTION, "neighbors": neighbors}
    made = made_of(source(table), budget=ZCDP(0.02), **of)
    assert made.directions is None
    assert made.parameters["directions_share"] == 0
    once = replace(BY_DIRECTION, directions_share=0.0, directions_most=0.0)
    assert once == Standardized(**made.parameters)
    same = made_of(source(table), budget=ZCDP(0.02), **of | {"mechanism": once})
    assert np.array_equal(made.published, same.published)
    assert made_of(source(table), budget=PureDP(1.0), **of).directions is not None
    assert made_of(source(table[:, :20]), budget=ZCDP(0.02), **of).directions is not None


def test_for_a_delta_variances_of_all_parts_are_8_larger() -> None:
    lattice, guarantee = LATTICES[0], Guarantee(ApproxDP(0.1, 1e-3), ADD)
    laws = TWO.calibrate(lattice, guarantee.budget, ADD)
    rho = pilot_sensitivities(lattice, ADD)[0] / (2 * (laws.look.variance - 8)) / FIRST  # type: ignore[attr-defined]
    asked = lattice.relative(), guarantee.of_part(SECOND * rho), SECOND * rho
    assert laws.paths[0].directions == gaussian.calibration(*asked, 8, TWO.trace_share)


@given(
    st.floats(-12, -1),
    st.booleans(),
    st.floats(2.0**-30, 2.0**30),
    st.sampled_from(list(Neighbors)),
)
def test_noise_that_is_calibrated_before_the_pilot_can_be_drawn_after_it(
    size: float, pure: bool, radius: float, each: Neighbors
) -> None:
    """No radius has more noise in lattice units, except for a side that is rounded up."""
    budget: Any = PureDP(10.0**size) if pure else ZCDP(10.0 ** (2 * size))
    plain = Lattice(5, 1.0, 0.3)
    try:
        laws = TWO.calibrate(plain, budget, each)
    except MechanismError:
        return
    assert laws.paths[0].directions is not None
    after = laws.paths[0].directions.at(plain.for_transform(radius))
    most = float(laws.paths[0].directions.matrix.frobenius_squared)
    assert float(after.matrix.frobenius_squared) <= most * (1 + 2e-5)


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2.0)], ids=str)
def test_the_map_depends_on_the_data_through_the_pilot_queries_alone(budget: Any) -> None:
    one, other = source(related()), source(related(seed=5) / 2)
    asked = kinds_asked(lambda rows: made_of(rows, budget=budget), 4, one, other)
    assert asked == ["moments", "moments", "counts", "moments"]
    assert TWO.passes == 4
    assert BY_COLUMN.passes == 3
    made, second = (
        made_of(OneAfterAnother(one, at, one, one), budget=budget) for at in (one, other)
    )
    assert not np.allclose(made.linear_map, second.linear_map)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(
    ("reach", "off", "unlike"), [(2.0, 1e-3, 0.05), (MAX_RADIUS_FACTOR, 1e-4, 0.02)]
)
def test_clear_pilot_queries_make_all_directions_alike(
    monkeypatch: pytest.MonkeyPatch, neighbors: Neighbors, reach: float, off: float, unlike: float
) -> None:
    """They are nearly alike if the query clips some rows, and more so if it clips almost none.

    Control: after the pilot alone, the roots of the columns' spreads and their correlations remain.
    """
    monkeypatch.setattr("dpcov.mechanisms.standardized.MAX_RADIUS_FACTOR", reach)
    table = related()
    covariance = np.cov(table.T, bias=True)

    def images(mechanism: Any) -> Any:
        made = made_of(source(table), mechanism=mechanism, budget=ZCDP(1e9), neighbors=neighbors)
        assert made.center == pytest.approx(table.mean(axis=0), abs=off)
        found = made.linear_map @ covariance @ made.linear_map.T
        return np.linalg.eigvalsh(found)

    after_two = images(TWO)
    assert after_two == pytest.approx(np.full(4, after_two.max()), rel=unlike)
    after_one = images(BY_COLUMN)
    assert after_one.min() < 0.1 * after_one.max()


def test_a_direction_is_taken_no_smaller_than_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = source(related())
    guarantee = Guarantee(ZCDP(0.5), SWAP)
    found = Spread(np.array([0.4, -0.3, 0.5, 0.1]), np.array([0.02, 4e-4, 3e-3, 0.01]), 1e4)
    images = found.images(0.5, rows.schema)
    deviation, count = 3.0, rows.second_moments()[0].unit_count
    shown = np.zeros((5, 5))
    shown[:4, :4] = 50 * np.diag([4.0, 0, 1, 9]) + 20
    law = SimpleNamespace(frobenius_squared=25 * deviation**2, dimension=5)
    monkeypatch.setattr("dpcov.mechanisms.row_transform.shown", lambda *_: (shown, law))
    laws = gaussian.calibration(rows.lattice().relative(), guarantee, Fraction(1, 10), 0, 0.05)
    shape = RowTransform.by_direction(queried(rows, images, laws), 1.0, simulation_generator(1))
    assert shape is not None
    spread = shown[:4, :4] + deviation * np.sqrt(5) * np.eye(4)
    back = np.linalg.inv(shape.map.matrix() @ np.linalg.inv(images.map.matrix()))
    scale = np.linalg.norm(spread, 2)
    assert back @ back.T == pytest.approx(spread / scale, rel=1e-4, abs=1e-5)
    assert shape.typical == pytest.approx(np.sqrt(4 * scale / count), rel=1e-4)


def test_no_row_adds_more_to_the_directions_query_than_a_row_of_its_radius() -> None:
    """A far row adds as much. Control: at the radius of the longest row it adds far more."""
    table = related()
    rows = OneAfterAnother(*[source(table)] * 4)
    made_of(rows)
    _, second = rows.asked[1]
    shape, radius = second["transform"], source(table).schema.effective_radius
    longest = max_transformed_norm(shape.matrix(), shape.center, radius)
    least = second["lattice"]
    more = {"radius": longest, "lattice": source(table).lattice().for_transform(longest)}

    def added(row: Any, asked: Any) -> float:
        """Return the trace that a row adds, in squared units of the transformed rows."""
        one, other = (
            source(t).second_moments(**asked)[0] for t in (table, np.vstack([table, row]))
        )
        return float(np.trace(other.units - one.units)) * asked["lattice"].step ** 2

    allowed = least.bound * least.step**2
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    found = [added(row, second) for row in [*corners, *table[:50]]]
    assert 0.999 * allowed < max(found) <= allowed
    assert max(added(row, second | more) for row in corners) > 4 * allowed


def test_where_directions_do_not_show_columns_are_left_as_they_are() -> None:
    for neighbors in Neighbors:
        made = made_of(source(related(60)), budget=PureDP(0.05), neighbors=neighbors)
        assert made.linear_map is not None
        assert np.array_equal(made.linear_map, np.diag(np.diag(made.linear_map)))


def test_the_noise_of_the_mapped_moment_has_the_stated_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Control: as if the directions round cost nothing. No row may be clipped."""
    radius = "dpcov.mechanisms.standardized.best_radius"
    monkeypatch.setattr(radius, lambda lengths, *_: lengths.upper_ends[-1] ** 0.5)
    rows, half = source(related()), replace(TWO, directions_share=0.5)
    ratios = noise_ratios(lambda seed: made_of(rows, seed, half), rows, range(60))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert abs(np.mean(ratios) / 0.5 - 1) > 8 * error


def in_units_of_truth(table: Any) -> Any:
    """Return a map from releases to (4, 4) covariances in true deviations of each direction."""
    values, vectors = np.linalg.eigh(np.cov(table.T, bias=True))
    whitening = (vectors / np.sqrt(values)).T
    return lambda made: whitening @ made.covariance() @ whitening.T


@pytest.mark.parametrize(
    ("budget", "neighbors"), [(PureDP(4.0), ADD), (ZCDP(0.5), ADD), (ZCDP(0.5), SWAP)], ids=str
)
def test_errors_over_deviations_are_less_than_by_other_mechanisms(
    budget: Budget, neighbors: Neighbors
) -> None:
    table = related()
    rows, of = source(table), in_units_of_truth(table)

    def error(mechanism: Any) -> float:
        return mean_error(mechanism, rows, np.eye(4), 6, budget=budget, neighbors=neighbors, of=of)

    found = error(TWO)
    plain = MatrixLaplace() if isinstance(budget, PureDP) else Gaussian()
    for other in (BY_COLUMN, plain):
        assert found < 0.7 * error(other)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows_are_released_too(rows: int, neighbors: Neighbors) -> None:
    for budget in (PureDP(1.0), PureDP(1000.0), ZCDP(1e5)):
        made = made_of(source(related(rows)), budget=budget, neighbors=neighbors)
        assert np.isfinite(best_estimate(denoise(made))).all()


def test_a_seed_repeats_it_and_a_file_brings_it_back(tmp_path: Any) -> None:
    made, again = made_of(source(related())), made_of(source(related()))
    assert np.array_equal(made.linear_map, again.linear_map)
    assert np.array_equal(made.second_moment(), again.second_moment())
    made.save(tmp_path / "a.json")
    read = Release.load(tmp_path / "a.json")
    assert np.array_equal(read.covariance(), made.covariance())
    assert read.parameters["directions_share"] == TWO.directions_share


@pytest.mark.parametrize("budget", [PureDP(16.0), ZCDP(1.0)], ids=str)
def test_persons_with_several_rows_have_pilot_queries_too(budget: Budget) -> None:
    table = related(3000)
    people = pa.table(
        {**dict(zip("abcd", table.T, strict=True)), "id": np.repeat(np.arange(1000), 3)}
    )
    declared = columns(4, 0).model_dump()["columns"]
    named = dict(zip("abcd", declared.values(), strict=True))
    schema = Schema.parse(
        {"columns": named, "unit": {"column": "id", "type": "integer", "max_rows": 3}}
    )
    made = made_of(open_rows(people, schema), budget=budget)
    assert made.guarantee.unit == Unit("id", 3)
    correlations = np.corrcoef(table, rowvar=False)
    assert denoise(made).correlation() == pytest.approx(correlations, abs=0.1)
    assert not np.array_equal(made.linear_map, np.diag(np.diag(made.linear_map)))


def test_shares_that_leave_nothing_are_refused_before_anything_is_read() -> None:
    for share in (1.0, -0.1, "much"):
        with pytest.raises(MechanismError, match="directions_share"):
            Standardized(directions_share=share)  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match="leave nothing"):
        Standardized(directions_share=0.9)
    for budget in (PureDP(1.0), ZCDP(1.0)):
        with pytest.raises(MechanismError, match="too small"):
            Standardized(directions_share=1e-40).calibrate(LATTICES[0], budget, ADD)


def columns(numbers: int, levels: int) -> Schema:
    declared: dict[str, Any] = {
        f"x{j}": {"kind": "numeric", "lower": -1, "upper": 1} for j in range(numbers)
    }
    if levels:
        declared["c"] = {"kind": "categorical", "levels": [f"c{k}" for k in range(levels)]}
    return Schema.parse({"columns": declared})


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.5)], ids=str)
def test_auto_queries_directions_if_few_features_are_indicators(budget: Budget) -> None:
    def chosen(schema: Schema, **known: bool) -> Any:
        return choose(schema, budget, ADD, **known).mechanism

    numbers, few, many = columns(4, 0), columns(4, 3), columns(3, 3)
    assert chosen(numbers) == chosen(few) == BY_DIRECTION
    assert chosen(many) == chosen(columns(1, 0)) == BY_COLUMN
    assert not isinstance(chosen(columns(0, 5)), Standardized)
    assert not isinstance(chosen(numbers, rereadable=False), Standardized)
    flat = Schema.parse({"columns": numbers.model_dump()["columns"], "intercept": 0})
    assert not isinstance(chosen(flat), Standardized)


def test_each_goal_has_its_clip_and_the_moment_as_a_whole_its_map() -> None:
    schema = Schema.from_bounds(-1.0, 1.0, tuple("abcd"))
    chosen = {goal: choose(schema, ZCDP(0.5), ADD, goal=goal).mechanism for goal in GOALS}
    weights = {"correlation": 0.5, "regression": 0.35}
    for goal in {"all", *weights}:
        assert chosen[goal] == replace(BY_DIRECTION, loss_weight=weights.get(goal, 1.0))
    whole = {"power": 0.0, "directions_power": 0.5, "loss_weight": 2.0}
    assert chosen["frobenius"] == replace(BY_DIRECTION, **whole)


@pytest.mark.parametrize("asked", [{"epsilon": 2.0}, {"rho": 0.5}])
def test_all_that_was_published_on_the_way_is_in_the_file(asked):
    """Pilots are private outputs too: their sums are the exact sums plus the stated noise."""
    table = np.random.default_rng(0).normal(size=(3000, 4))
    made = dpcov.release(table, lower=-4, upper=4, seed=1, **asked)
    again = from_text(made.to_text(), "file")
    assert again.to_text() == made.to_text()
    sums = again.find(NoisySums)
    step = Lattice.of(again.schema).step
    squares = np.array(sums.values[:4], float) * step**2
    exact = np.sum((table.clip(-4, 4) / 4) ** 2, axis=0)
    deviation = sums.noise.standard_deviation * step**2
    assert np.all(np.abs(squares - exact) < 5 * deviation)
    assert np.any(np.abs(squares - exact) > 0.01 * deviation)
    look = again.directions
    assert look.noise is not None
    assert np.array_equal(look.published, made.directions.published)
    assert [one.query for one in look.rounds] == ["matrix", "trace"]


def test_damaged_pilot_queries_are_refused():
    table = np.random.default_rng(0).normal(size=(3000, 4))
    document = former(dpcov.release(table, lower=-4, upper=4, rho=0.5, seed=1))
    look, sums = document["directions"], document["sums"]
    for damage, said in (
        ({"sums": sums | {"values": sums["values"][1:]}}, "pilot query does not have 9 sums"),
        ({"directions": look | {"directions": look}}, "has queries of its own"),
        ({"directions": look | {"sums": sums}}, "has queries of its own"),
        ({"directions": look | {"unit_count": 7}}, "unit_count"),
    ):
        with pytest.raises(ReleaseError, match=said):
            from_text(json.dumps(document | damage), "file")
