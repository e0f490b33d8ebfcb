"""The ladder on rows about private means: what its two parts cost, what they map, what it gains."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import fractional_matrix_power

import dpcov
from denoised_errors import mean_error
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, Unit
from dpcov.denoise import denoise, law_of_estimate
from dpcov.errors import MechanismError, ReleaseError
from dpcov.mechanisms import Ladder, ShapedLadder
from dpcov.mechanisms.shaped_ladder import Shape
from dpcov.releases import Release
from dpcov.rows.encoder import Encoder
from dpcov.rows.linear_map import longest_image
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.samplers.orthogonal import GaussianOrthogonal
from dpcov.sources import open_rows
from dpcov.sources.rows import Rows
from mapped_noise import noise_ratios
from several_rows import kinds_asked

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
LATTICES = [Lattice(3, 2.0, 0.3), Lattice(1, 1.0, 0.05), Lattice(4, 1.0, 0.6, Unit("id", 3))]
SHARE, COUNTS = Fraction(7, 100), Fraction(2, 100)


def narrow(n: int = 4000, seed: int = 0) -> Any:
    """(n, 4) rows that fill a tenth of their bounds, -1 to 1, far from the midpoints."""
    generator = np.random.default_rng(seed)
    mixed = generator.standard_normal((n, 4)) @ np.diag([0.05, 0.02, 0.01, 0.03])
    return np.clip(mixed + np.array([0.5, -0.4, 0.6, 0.2]), -1, 1)


def door(rows: Any, intercept: float = 0.3) -> Rows:
    names = tuple(f"x{j}" for j in range(rows.shape[1]))
    return open_rows(rows, Schema.from_bounds(-1.0, 1.0, names, intercept=intercept))


def made_of(rows: Rows, seed: int = 1, **changed: Any) -> Release:
    asked = {"budget": ZCDP(0.5), "neighbors": ADD, "entropy": Entropy.seeded(seed)} | changed
    return ShapedLadder()(rows, **asked)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("lattice", LATTICES, ids=str)
def test_look_and_release_are_ladders_whose_budgets_add_up(
    lattice: Lattice, neighbors: Neighbors
) -> None:
    pure = ShapedLadder().calibrate(lattice, PureDP(2.0), neighbors)
    for share, part in ((SHARE, pure.look), (1 - SHARE, pure.unmapped.plain)):
        alone = Ladder().calibrate(lattice, PureDP(float(2 * share)), neighbors)
        assert part.rungs == alone.rungs
        assert (part.trace, part.trace_alone) == (alone.trace, alone.trace_alone)
    rho = ShapedLadder().calibrate(lattice, ZCDP(2.0), neighbors)
    for share, part in ((SHARE, rho.look), (1 - SHARE, rho.unmapped.plain)):
        alone = Ladder().calibrate(lattice, ZCDP(float(2 * share)), neighbors)
        assert (part.rungs, part.trace) == (alone.rungs, alone.trace)
    whole = Ladder().calibrate(lattice, ZCDP(2.0), neighbors)
    for look, plain, both in zip(
        rho.look.rungs, rho.unmapped.plain.rungs, whole.rungs, strict=True
    ):
        assert 1 / look.variance + 1 / plain.variance == 1 / both.variance  # type: ignore[union-attr]


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("lattice", LATTICES, ids=str)
def test_of_mapped_rows_long_rungs_give_the_trace_its_share(
    lattice: Lattice, neighbors: Neighbors
) -> None:
    guarantee = Guarantee(PureDP(2.0), neighbors, lattice.unit)
    pure = ShapedLadder().calibrate(lattice, guarantee.budget, neighbors)
    images = lattice.relative()
    assert pure.shaped == Ladder().spending(guarantee, 2 * (1 - SHARE), short=True).laws(images)
    guarantee = Guarantee(ZCDP(2.0), neighbors, lattice.unit)
    rho = ShapedLadder().calibrate(lattice, guarantee.budget, neighbors)
    left = 2 * (1 - SHARE - COUNTS)
    assert rho.shaped == Ladder().spending(guarantee, left, 0, short=True).laws(images)
    plain = Ladder().spending(guarantee, left, 0).laws(images)
    assert (rho.shaped == plain) == (neighbors == ADD)
    assert rho.counts is not None
    counts = neighbors.sides * lattice.unit.max_rows**2 / (2 * rho.counts.variance)  # type: ignore[union-attr]
    assert counts == 2 * COUNTS


@given(
    st.floats(1e-3, 1e3),
    st.integers(1, 314_573),
    st.none() | st.integers(2**32, 2**40),
    st.floats(0.05, 5.0),
    st.integers(1, 12),
)
def test_for_a_delta_the_kind_of_noise_is_that_of_the_look_whatever_the_map(
    radius: float, units: int, second_rung: int | None, epsilon: float, features: int
) -> None:
    budget, plain = ApproxDP(epsilon, 1e-6), Lattice(features, 1.0, 0.3)
    mapped = replace(plain, radius=radius, second_rung=second_rung).with_intercept(units)
    assert mapped.intercept_units == units
    first = ShapedLadder().calibrate(plain, budget, ADD)
    second = ShapedLadder().calibrate(mapped, budget, ADD)
    assert first.shaped.is_gaussian == second.shaped.is_gaussian
    for part in (first.look, first.unmapped.plain, first.shaped, second.shaped):
        assert isinstance(part.rungs[0], GaussianOrthogonal) == first.shaped.is_gaussian


@given(
    st.floats(-12, -1),
    st.booleans(),
    st.integers(1, 314_573),
    st.none() | st.integers(2**32, 2**40),
)
def test_what_is_calibrated_before_the_look_can_be_drawn_after_it(
    size: float, pure: bool, units: int, second_rung: int | None
) -> None:
    budget: Any = PureDP(10.0**size) if pure else ZCDP(10.0 ** (2 * size))
    plain = Lattice(5, 1.0, 0.3)
    for neighbors in Neighbors:
        try:
            laws = ShapedLadder().calibrate(plain, budget, neighbors)
        except MechanismError:
            continue
        mapped = replace(plain, second_rung=second_rung).with_intercept(units)
        laws.shaped.at(mapped)


def test_both_kinds_of_noise_occur_for_a_delta() -> None:
    lattice = Lattice(4, 1.0, 0.3)
    kinds = [
        ShapedLadder().calibrate(lattice, ApproxDP(epsilon, delta), ADD).shaped.is_gaussian
        for epsilon, delta in ((8.0, 1e-12), (0.1, 1e-3))
    ]
    assert kinds == [False, True]


@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_no_row_is_mapped_beyond_the_radius_and_some_come_near(
    seed: int, p: int, ball: bool
) -> None:
    generator = np.random.default_rng(seed)
    matrix = generator.standard_normal((p, p))
    center = generator.uniform(-1, 1, p)
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=p)))
    rows = np.vstack([corners, generator.uniform(-1, 1, (50, p))])
    radius = np.sqrt(p)
    if ball:  # of a radius below that of the corners
        radius = 0.3
        rows *= np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
    longest = longest_image(matrix, center, radius)
    lengths = np.linalg.norm((rows - center) @ matrix.T, axis=1)
    assert lengths.max() <= longest * (1 + 1e-12)
    if p == 1:
        furthest = min(1.0, radius) + abs(center[0])
        assert longest == pytest.approx(furthest * abs(matrix[0, 0]))
    if not ball:  # a corner is as far as can be, where axes are only stretched
        stretched = np.diag(np.diag(matrix))
        lengths = np.linalg.norm((corners - center) @ stretched, axis=1)
        assert longest_image(stretched, center, radius) == pytest.approx(lengths.max())


def test_images_of_rows_are_whole_and_no_release_says_that_it_clips() -> None:
    rows = door(narrow())
    made = made_of(rows)
    assert made.linear_map is not None
    assert made.center is not None
    assert not made.clipped
    shape = Shape.of(Ladder()(rows, **look_request()), simulation_generator(1))
    assert shape is not None
    lattice = shape.lattice(rows.lattice())
    extreme = np.array(list(itertools.product([-1.0, 1.0], repeat=4)))
    encoder = Encoder(rows.schema, lattice, shape.map)
    columns = [pa.array(column) for column in extreme.T]
    batch = pa.RecordBatch.from_arrays(columns, [f"x{j}" for j in range(4)])
    (block,) = encoder.blocks(batch)
    images = (extreme - shape.map.center) @ shape.map.matrix().T
    assert np.allclose(block[:4].T * lattice.step, images, atol=lattice.step)
    assert np.all(block[4] == lattice.intercept_units)
    shorter = replace(made, lattice=replace(made.lattice, radius=made.lattice.radius / 2))
    assert shorter.clipped


def look_request() -> dict[str, Any]:
    return {"budget": ZCDP(0.5), "neighbors": ADD, "entropy": Entropy.seeded(3)}


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(2.0)], ids=str)
def test_the_map_depends_on_the_data_through_the_look_alone(budget: Any) -> None:
    parts = 3 if isinstance(budget, ZCDP) else 2
    asked = kinds_asked(
        lambda rows: made_of(rows, budget=budget),
        parts,
        door(narrow()),
        door(narrow(seed=5) / 2),
    )
    assert asked == ["moments", *["counts"] * (parts - 2), "moments"]
    assert ShapedLadder().passes == 3


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_clear_look_tells_means_spreads_and_lengths(neighbors: Neighbors) -> None:
    table = narrow()
    look = Ladder()(door(table), budget=ZCDP(1e9), neighbors=neighbors, entropy=Entropy.seeded(1))
    shape = Shape.of(look, simulation_generator(1))
    assert shape is not None
    assert shape.map.center == pytest.approx(table.mean(axis=0), abs=1e-4)
    wanted = fractional_matrix_power(np.cov(table.T, bias=True), -0.25)
    assert shape.map.matrix() == pytest.approx(
        wanted / np.linalg.norm(wanted, -2), rel=0.02, abs=1e-3
    )
    images = (table - shape.map.center) @ shape.map.matrix().T
    lengths = np.linalg.norm(images, axis=1)
    assert shape.typical == pytest.approx(np.sqrt(np.mean(lengths**2)), rel=0.01)
    assert lengths.max() < shape.longest
    units = shape.lattice(look.lattice).intercept_units
    relative = look.lattice.relative().intercept_units
    assert units == round(relative * shape.typical / shape.longest)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("rows", "deviation"), [(500.0, 1.0), (500.0, 100.0), (0.01, 1e-3)])
def test_directions_and_numbers_of_rows_are_taken_no_smaller_than_the_noise(
    monkeypatch: pytest.MonkeyPatch, known: bool, rows: float, deviation: float
) -> None:
    neighbors = SWAP if known else ADD
    look = Ladder()(
        door(narrow(n=300)), budget=ZCDP(9.0), neighbors=neighbors, entropy=Entropy.seeded(1)
    )
    p, t = 4, look.intercept()
    count = 300.0 if known else max(rows, 2 * deviation / t**2, 1.0)
    means = np.array([0.3, -0.2, 0.5, 0.1]) * rows / count
    mixed = np.array([[2.0, 1, 0, 0], [0, 1, 0, 0], [0, 0, 0.1, 0], [0, 0, 0, 0]])
    moment = np.zeros((5, 5))
    moment[:p, :p] = mixed @ mixed.T + count * np.outer(means, means)
    moment[:p, -1] = t * count * means
    moment[-1, -1] = rows * t**2
    law = SimpleNamespace(frobenius_squared=25 * deviation**2, dimension=5)
    monkeypatch.setattr("dpcov.mechanisms.shaped_ladder.shown", lambda *_: (moment, law))
    shape = Shape.of(look, simulation_generator(1))
    assert shape is not None
    spread = mixed @ mixed.T + 4 * deviation * np.sqrt(5) * np.eye(p)
    wanted = fractional_matrix_power(spread / np.linalg.norm(spread, 2), -0.25)
    assert shape.map.matrix() == pytest.approx(wanted, rel=1e-5, abs=1e-7)
    assert shape.map.center == pytest.approx(means)
    typical = np.sqrt(np.trace(wanted @ spread @ wanted) / count)
    assert shape.typical == pytest.approx(min(typical, shape.longest), rel=1e-5)
    assert shape.longest == longest_image(shape.map.matrix(), shape.map.center, 2.0)
    moment[:p, -1] *= 100
    far = Shape.of(look, simulation_generator(1))
    assert far is not None
    assert np.abs(far.map.center) == pytest.approx(np.minimum(1, 100 * np.abs(means)))


def test_the_noise_of_the_mapped_moment_has_the_stated_size() -> None:
    rows = door(narrow())
    ratios = noise_ratios(lambda seed: made_of(rows, seed), rows, range(40))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert abs(np.mean(ratios / 19) - 1) > 4 * error, "as if the look's share were the release's"


@pytest.mark.parametrize("budget", [ZCDP(0.5), PureDP(1.0)], ids=str)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_narrow_columns_far_from_their_midpoints_get_less_noise(
    budget: Any, neighbors: Neighbors
) -> None:
    rows = door(narrow())
    truth = np.cov(narrow().T, bias=True)

    asked: dict[str, Any] = {"budget": budget, "neighbors": neighbors, "of": Release.covariance}
    of_shaped = mean_error(ShapedLadder(), rows, truth, 12, **asked)
    assert of_shaped < 0.5 * mean_error(Ladder(), rows, truth, 12, **asked)


def test_where_nothing_shows_rows_are_not_mapped() -> None:
    made = made_of(door(narrow(n=30)), budget=PureDP(0.01))
    assert made.linear_map is None
    laws = ShapedLadder().calibrate(made.lattice, PureDP(0.01), ADD)
    assert made.noise == laws.unmapped.plain.matrix
    few = made_of(door(narrow(n=30)), budget=PureDP(0.01), neighbors=SWAP)
    assert few.published is None
    swapped = ShapedLadder().calibrate(few.lattice, PureDP(0.01), SWAP)
    assert few.trace_noise == swapped.unmapped.plain.trace_alone


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows_are_released_too(rows: int, neighbors: Neighbors) -> None:
    for budget in (PureDP(1.0), PureDP(1000.0), ZCDP(1e5)):
        made = made_of(door(narrow(n=rows)), budget=budget, neighbors=neighbors)
        assert np.isfinite(denoise(made).second_moment()).all()


def test_estimates_have_the_noise_of_what_was_put_together_and_not_of_the_sum() -> None:
    """Its law is told apart from that of the sum, which is far too large, by what is measured."""
    rows, truth = door(narrow()), np.cov(narrow().T, bias=True)
    expected, of_sum, found = [], [], []
    for seed in range(8):
        made = denoise(made_of(rows, seed), generator=simulation_generator(seed))
        law = law_of_estimate(made)
        assert law is not None
        assert made.noise is not None
        expected.append(law.frobenius_squared)
        of_sum.append(made.noise.frobenius_squared)
        back = np.linalg.norm(np.linalg.inv(made.linear_map), 2) ** 2 * made.lattice.step**2
        found.append(np.linalg.norm(made.covariance() - truth) * made.count() / back)
    assert np.mean(found) < 3 * np.sqrt(np.mean(expected))
    assert np.sqrt(np.mean(expected)) < 0.1 * np.sqrt(np.mean(of_sum))
    plain = Ladder()(rows, budget=ZCDP(0.5), neighbors=ADD, entropy=Entropy.seeded(1))
    assert law_of_estimate(plain) == plain.noise


def test_ridge_takes_the_noise_of_its_estimate() -> None:
    generator = np.random.default_rng(3)
    features = 0.6 + 0.03 * generator.standard_normal((3000, 3))
    target = features @ np.array([1.0, -0.5, 0.2]) + 0.01 * generator.standard_normal(3000)
    table = np.clip(np.column_stack([features, target]), -1, 1)

    def explained(mechanism: str) -> float:
        made = dpcov.release(table, lower=-1, upper=1, rho=0.5, mechanism=mechanism, seed=1)
        fit = dpcov.ridge(made, "x3")
        left = table[:, 3] - fit.intercept - table[:, :3] @ np.ravel(fit.coefficients)
        return float(1 - np.mean(left**2) / table[:, 3].var())

    assert explained("shaped-ladder") > 0.5 > explained("ladder")


def test_a_constant_column_does_not_stop_it() -> None:
    rows = narrow()
    rows[:, 2] = 0.25
    found = denoise(made_of(door(rows), budget=ZCDP(50.0))).covariance()
    assert np.allclose(found, np.cov(rows.T, bias=True), atol=2e-4)


def test_a_seed_repeats_map_and_matrix_and_a_file_brings_them_back(tmp_path: Any) -> None:
    asked: dict[str, Any] = {"lower": -1, "upper": 1, "seed": 4, "rho": 0.5}
    asked |= {"mechanism": "shaped-ladder"}
    made, again = (dpcov.release(narrow(), **asked, threads=k) for k in (1, 2))
    assert made.mechanism == "shaped-ladder"
    assert np.array_equal(made.linear_map, again.linear_map)
    assert np.array_equal(made.second_moment(), again.second_moment())
    made.save(tmp_path / "a.json")
    read = Release.load(tmp_path / "a.json")
    assert read.lattice == made.lattice
    assert np.array_equal(read.covariance(), made.covariance())
    assert read.count() == made.count()


@pytest.mark.parametrize("damage", ["larger", "none", "no map"])
def test_an_intercept_that_no_map_explains_is_refused(tmp_path: Any, damage: str) -> None:
    path = tmp_path / "a.json"
    asked: dict[str, Any] = {"mechanism": "shaped-ladder", "rho": 0.5, "seed": 4}
    dpcov.release(narrow(), lower=-1, upper=1, **asked).save(path)
    document = json.loads(path.read_text())
    if damage == "larger":
        document["lattice"]["intercept_units"] = 2**19
    elif damage == "none":
        document["lattice"]["intercept_units"] = 0
    else:
        document["linear_map"] = document["center"] = None
    path.write_text(json.dumps(document))
    with pytest.raises(ReleaseError):
        Release.load(path)


def test_what_it_can_not_do_is_refused_before_anything_is_read() -> None:
    with pytest.raises(MechanismError, match="intercept"):
        made_of(door(narrow(), intercept=0.0), budget=PureDP(1.0))
    with pytest.raises(MechanismError, match="look_share"):
        ShapedLadder(look_share=1.0)


def test_the_guarantee_is_that_of_both_parts_together() -> None:
    made = made_of(door(narrow()), budget=ApproxDP(1.0, 1e-6))
    assert made.guarantee == Guarantee(ApproxDP(1.0, 1e-6), ADD)
