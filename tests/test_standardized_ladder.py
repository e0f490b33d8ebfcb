"""The ladder of features about private means: what its parts cost, what it maps, what it gains."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoised_errors import mean_error
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, Unit
from dpcov.denoise import denoise
from dpcov.errors import MechanismError
from dpcov.mechanisms import (
    Gaussian,
    Ladder,
    MatrixLaplace,
    ShapedLadder,
    StandardizedLadder,
)
from dpcov.mechanisms.mapped_ladder import Images
from dpcov.mechanisms.standardized import look_sensitivities
from dpcov.releases import Release
from dpcov.rows.linear_map import longest_image
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.samplers.scalars import ScalarGaussian
from dpcov.sources import open_rows
from dpcov.sources.rows import Rows
from mapped_noise import noise_ratios
from several_rows import kinds_asked

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
LATTICES = [Lattice(3, 2.0, 0.3), Lattice(1, 1.0, 0.05), Lattice(4, 1.0, 0.6, Unit("id", 3))]
SHARE, COUNTS = Fraction(7, 100), Fraction(2, 100)
LEVELS = {"a": 5, "b": 8, "c": 6}
each_lattice = pytest.mark.parametrize("lattice", LATTICES, ids=str)
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def schema(numbers: int = 2, columns: dict[str, int] = LEVELS, **changed: Any) -> Schema:
    declared: dict[str, Any] = {
        f"x{j}": {"kind": "numeric", "lower": -1, "upper": 1} for j in range(numbers)
    }
    for name, count in columns.items():
        declared[name] = {"kind": "categorical", "levels": [f"{name}{k}" for k in range(count)]}
    return Schema.parse({"columns": declared} | changed)


def people(n: int = 4000, seed: int = 0, columns: dict[str, int] = LEVELS) -> Rows:
    """Two narrow numbers and three columns of levels, some rare, that have to do with them."""
    generator = np.random.default_rng(seed)
    score = generator.standard_normal(n)
    numbers = [0.5 + 0.05 * score, -0.4 + 0.03 * generator.standard_normal(n)]
    data: dict[str, Any] = {f"x{j}": np.clip(x, -1, 1) for j, x in enumerate(numbers)}
    for name, count in columns.items():
        found = np.floor(np.abs(score + generator.standard_normal(n)) * count / 3).astype(int)
        data[name] = [f"{name}{k}" for k in np.minimum(found, count - 1)]
    return open_rows(pa.table(data), schema(columns=columns))


def truth_of(rows: Rows) -> Any:
    """(d, d) exact second moment in squared units of an encoded row."""
    return rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2


def about_means(moment: Any) -> Any:
    """(p, p) moment about means, from that of rows with an intercept."""
    return moment[:-1, :-1] - np.outer(moment[:-1, -1], moment[:-1, -1]) / moment[-1, -1]


def scatter(release: Release) -> Any:
    return about_means(release.second_moment())


def made_of(rows: Rows, seed: int = 1, **changed: Any) -> Release:
    asked = {"budget": ZCDP(0.5), "neighbors": ADD, "entropy": Entropy.seeded(seed)} | changed
    return StandardizedLadder()(rows, **asked)


@each_relation
@each_lattice
def test_look_counts_and_release_spend_the_budget_to_the_last(
    lattice: Lattice, neighbors: Neighbors
) -> None:
    squared, absolute = look_sensitivities(lattice, neighbors)
    guarantee = Guarantee(PureDP(2.0), neighbors, lattice.unit)
    pure = StandardizedLadder().calibrate(lattice, guarantee.budget, neighbors)
    assert absolute / pure.look.scale == 2 * SHARE  # type: ignore[attr-defined]
    assert neighbors.sides * lattice.unit.max_rows / pure.counts.scale == 2 * COUNTS  # type: ignore[attr-defined]
    left = 2 * (1 - SHARE - COUNTS)
    assert pure.final == Ladder().spending(guarantee, left, short=True).laws(lattice.relative())
    guarantee = Guarantee(ZCDP(2.0), neighbors, lattice.unit)
    rho = StandardizedLadder().calibrate(lattice, guarantee.budget, neighbors)
    assert squared / (2 * rho.look.variance) == 2 * SHARE  # type: ignore[attr-defined]
    of_counts = neighbors.sides * lattice.unit.max_rows**2 / (2 * rho.counts.variance)  # type: ignore[attr-defined]
    assert of_counts == 2 * COUNTS
    assert rho.final == Ladder().spending(guarantee, left, 0, short=True).laws(lattice.relative())


@each_relation
def test_for_a_delta_variances_of_all_parts_are_8_larger(neighbors: Neighbors) -> None:
    lattice, budget = LATTICES[0], ApproxDP(0.1, 1e-3)
    laws = StandardizedLadder().calibrate(lattice, budget, neighbors)
    squared, _ = look_sensitivities(lattice, neighbors)
    rho = squared / (2 * (laws.look.variance - 8)) / SHARE  # type: ignore[attr-defined]
    assert laws.counts.variance - 8 == neighbors.sides / (2 * COUNTS * rho)  # type: ignore[attr-defined]
    guarantee = Guarantee(budget, neighbors)
    left = (1 - SHARE - COUNTS) * rho
    assert laws.final == Ladder().spending(guarantee, left, 8, short=True).laws(lattice.relative())


@pytest.mark.parametrize(("epsilon", "delta"), [(8.0, 1e-12), (0.1, 1e-3)])
def test_for_a_delta_all_noise_is_of_one_kind_the_lesser(epsilon: float, delta: float) -> None:
    laws = StandardizedLadder().calibrate(LATTICES[0], ApproxDP(epsilon, delta), ADD)
    if epsilon > 1:
        pure = StandardizedLadder().calibrate(LATTICES[0], PureDP(epsilon), ADD)
        assert (laws.look, laws.counts) == (pure.look, pure.counts)
        assert laws.final.rungs == pure.final.rungs
    assert laws.final.is_gaussian == (epsilon < 1)
    for law in (laws.look, laws.counts):
        assert isinstance(law, ScalarGaussian) == laws.final.is_gaussian


@given(
    st.floats(-12, -1),
    st.booleans(),
    st.integers(1, 314_573),
    st.none() | st.integers(2**32, 2**40),
    st.sampled_from(list(Neighbors)),
)
def test_what_is_calibrated_before_the_look_can_be_drawn_after_it(
    size: float, pure: bool, units: int, second_rung: int | None, each: Neighbors
) -> None:
    budget: Any = PureDP(10.0**size) if pure else ZCDP(10.0 ** (2 * size))
    plain = Lattice(5, 1.0, 0.3)
    try:
        laws = StandardizedLadder().calibrate(plain, budget, each)
    except MechanismError:
        return
    mapped = replace(plain, second_rung=second_rung).with_intercept(units)
    laws.final.at(mapped)


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2.0)], ids=str)
def test_the_map_depends_on_the_data_through_the_look_alone(budget: Any) -> None:
    asked = kinds_asked(lambda rows: made_of(rows, budget=budget), 3, people(), people(900, seed=5))
    assert asked == ["look", "counts", "moments"]
    assert StandardizedLadder().passes == 3


@each_relation
def test_a_clear_look_tells_means_and_spreads_and_mixes_no_features(neighbors: Neighbors) -> None:
    rows = people()
    made = made_of(rows, budget=ZCDP(1e9), neighbors=neighbors)
    moment, t = truth_of(rows), rows.lattice().intercept_units * rows.lattice().step
    number = moment[-1, -1] / t**2
    means = moment[:-1, -1] / (t * number)
    deviations = np.sqrt(np.diag(moment)[:-1] / number - means**2)
    assert made.center == pytest.approx(means, abs=1e-4)
    wanted = deviations**-0.25
    assert made.linear_map == pytest.approx(np.diag(wanted / wanted.min()), rel=0.01)
    half = StandardizedLadder(power=0.5)
    other = half(rows, budget=ZCDP(1e9), neighbors=neighbors, entropy=Entropy.seeded(1))
    assert other.linear_map == pytest.approx(np.diag((wanted / wanted.min()) ** 2), rel=0.02)
    lengths = np.sqrt(np.sum((wanted / wanted.min() * deviations) ** 2))
    units = rows.lattice().relative().intercept_units * lengths / made.lattice.radius
    assert made.lattice.intercept_units == pytest.approx(units, rel=0.01)
    assert not made.clipped


@given(st.integers(0, 10**6), st.floats(0.5, 4.0))
def test_no_row_of_levels_is_mapped_beyond_the_radius_and_some_reach_it(
    seed: int, radius: float
) -> None:
    """One level of a column or none, and numbers at their bounds; control: any indicators."""
    generator = np.random.default_rng(seed)
    declared = schema(1, {"a": 2, "b": 3}, radius=radius)
    units = np.diag(generator.uniform(0.1, 3, 6))
    center = generator.uniform(-1, 1, 6)
    levels = [np.vstack([np.zeros(count), np.eye(count)]) for count in (2, 3)]
    rows = np.array(
        [[x, *a, *b] for x, a, b in itertools.product([-1.0, 1.0], levels[0], levels[1])]
    )
    shortened = rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
    applied, longest = Images.reached(units, center, declared)
    lengths = np.linalg.norm((shortened - center) @ applied.matrix(), axis=1)
    assert lengths.max() <= longest * (1 + 1e-12)
    if radius >= np.sqrt(3):
        whole = np.linalg.norm((rows - center) @ units, axis=1).max()
        of_ball = np.linalg.norm(units, 2) * (radius + np.linalg.norm(center))
        assert longest == pytest.approx(min(whole, of_ball))
        assert longest <= longest_image(units, center, radius)


def test_the_noise_of_the_mapped_moment_has_the_stated_size() -> None:
    rows = people()
    ratios = noise_ratios(lambda seed: made_of(rows, seed), rows, range(100))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert abs(np.mean(ratios) / (1 - float(SHARE)) - 1) > 4 * error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("budget", "neighbors"), [(ZCDP(0.5), ADD), (ZCDP(0.5), SWAP), (PureDP(4.0), ADD)], ids=str
)
def test_numbers_and_levels_have_less_error_than_by_other_mechanisms(
    budget: Any, neighbors: Neighbors
) -> None:
    rows = people(10_000, columns={"a": 15, "b": 25, "c": 20})
    truth = about_means(truth_of(rows))
    asked: dict[str, Any] = {"budget": budget, "neighbors": neighbors}

    def error(mechanism: Any) -> float:
        return mean_error(mechanism, rows, truth, 4, **asked, of=scatter)

    found = error(StandardizedLadder())
    for other in (Gaussian() if budget == ZCDP(0.5) else MatrixLaplace(), ShapedLadder()):
        assert found < 0.9 * error(other)


def test_levels_exclude_each_other_in_what_is_denoised_unless_directions_are_mixed() -> None:
    rows = people()
    owners = np.array([feature.column for feature in rows.schema.features])
    apart = (owners[:, None] == owners) & ~np.eye(len(owners), dtype=bool)

    def left(mechanism: Any) -> float:
        made = mechanism(rows, budget=ZCDP(0.02), neighbors=ADD, entropy=Entropy.seeded(1))
        moment = denoise(made, generator=simulation_generator(1)).second_moment()
        return float(np.abs(moment[:-1, :-1][apart]).max() / np.trace(moment))

    assert left(StandardizedLadder()) < 0.2 * left(ShapedLadder())


@each_relation
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows_are_released_too(rows: int, neighbors: Neighbors) -> None:
    for budget in (PureDP(1.0), PureDP(1000.0), ZCDP(1e5)):
        made = made_of(people(rows), budget=budget, neighbors=neighbors)
        assert np.isfinite(denoise(made).second_moment()).all()


def test_a_seed_repeats_it_and_a_file_brings_it_back(tmp_path: Any) -> None:
    made = denoise(made_of(people()), generator=simulation_generator(1))
    again = denoise(made_of(people()), generator=simulation_generator(1))
    assert np.array_equal(made.second_moment(), again.second_moment())
    made.save(tmp_path / "a.json")
    read = Release.load(tmp_path / "a.json")
    assert read.lattice == made.lattice
    assert np.array_equal(read.covariance(), made.covariance())
    assert read.guarantee == Guarantee(ZCDP(0.5), ADD)


def test_what_it_can_not_do_is_refused_before_anything_is_read() -> None:
    with pytest.raises(MechanismError, match="intercept"):
        StandardizedLadder().calibrate(Lattice(3, 2.0), PureDP(1.0), ADD)
    with pytest.raises(MechanismError, match="look_share"):
        StandardizedLadder(look_share=1.0)
    with pytest.raises(MechanismError, match=r"below 0\.98"):
        StandardizedLadder(look_share=0.98).calibrate(LATTICES[0], ZCDP(1.0), ADD)
    with pytest.raises(MechanismError, match="power"):
        StandardizedLadder(power=1.5)
    for budget in (PureDP(1.0), ZCDP(1.0)):
        with pytest.raises(MechanismError, match="too small"):
            StandardizedLadder(look_share=1e-40).calibrate(LATTICES[0], budget, ADD)
