"""Exact sums and the sensitivities that follow from the lattice."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.core.privacy import Neighbors, Unit, exact
from dpcov.rows.moment import (
    BLOCK_ROWS,
    UNITS,
    Accumulator,
    Lattice,
    SecondMoment,
    exact_squared_norms,
)
from dpcov.rows.schema import Schema
from strategies import gram

UNIT = UNITS
ADD, REPLACE = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
TAU = 0.3


def accumulated(rows: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Sum over the parts between the cuts."""
    total = Accumulator(rows.shape[1])
    for part in np.split(rows, cuts):
        total.add(np.ascontiguousarray(part.T))
    return total.total()


def integer_rows(count: int, width: int = 5) -> np.ndarray:
    rows = np.random.default_rng(4).integers(-UNIT, UNIT, (count, width), endpoint=True)
    return rows.astype(float)


@given(
    st.lists(
        st.lists(st.integers(-UNIT, UNIT), min_size=2, max_size=2), min_size=1, max_size=20
    ).map(lambda rows: np.array(rows, float)),
    st.lists(st.integers(0, 20), max_size=4).map(sorted),
)
def test_any_partition_of_any_rows_sums_to_the_python_integers(rows, cuts):
    assert (accumulated(rows, cuts) == gram(rows)).all()


def test_full_blocks_of_the_largest_rows_sum_exactly():
    rows = np.tile([[UNIT, -UNIT], [UNIT, UNIT]], (BLOCK_ROWS // 2, 1)).astype(float)
    rows[-1] = [1, 1]
    assert (accumulated(rows, []) == gram(rows)).all()


def test_partitions_and_orders_of_many_rows_give_one_sum():
    rows = integer_rows(3 * BLOCK_ROWS)
    exact = gram(rows)
    for cuts in ([4096, 8192], [1, 4000, 8000, 9999], list(range(7, 12000, 977))):
        assert (accumulated(rows, cuts) == exact).all()
        assert (accumulated(rows[::-1], cuts) == exact).all()


@pytest.mark.parametrize("width", [64, 65, 150])
def test_wide_sums_are_exact_below_and_above_the_diagonal(width):
    rows = integer_rows(300, width)
    total, packed = Accumulator(width), Accumulator(width)
    for part in np.split(rows, [1, 120]):
        other = Accumulator(width)
        other.add(np.ascontiguousarray(part.T))
        total.merge(other)
        packed.add_packed(other.packed())
    exact = gram(rows)
    assert (total.total() == exact).all()
    assert (packed.total() == exact).all()
    assert (packed.packed() == total.packed()).all()
    assert len(packed.packed()) == width * (width + 1)


@pytest.mark.parametrize("count", [2**29 - 1, 2**29, -(2**29), 2**40])
def test_totals_are_the_same_from_64_bits_and_from_python_integers(count):
    limbs = np.array([count, 5, -count, 2**32 - 1, 7, 2**31], np.int64)
    total = Accumulator(2)
    total.add_packed(limbs)
    high, low = limbs[:3].tolist(), limbs[3:].tolist()
    a, b, c = (h * 2**32 + x for h, x in zip(high, low, strict=True))
    assert total.total().tolist() == [[a, b], [b, c]]


def test_a_block_that_is_too_long_is_refused():
    with pytest.raises(ValueError, match="too many rows"):
        Accumulator(1).add(np.zeros((1, BLOCK_ROWS + 1)))


def test_many_blocks_do_not_overflow_the_low_limb():
    block = np.full((1, BLOCK_ROWS), float(UNIT))
    total = Accumulator(1)
    for _ in range(2100):  # 2048 blocks of 2^52 overflow an int64
        total.add(block)
    assert total.total()[0, 0] == 2100 * BLOCK_ROWS * UNIT**2 > 2**63


def test_merging_adds_and_leaves_the_other_as_it_was():
    rows = integer_rows(100)
    left, right = Accumulator(5), Accumulator(5)
    left.add(rows[:30].T)
    right.add(rows[30:].T)
    left.merge(right)
    assert (left.total() == gram(rows)).all()
    assert (right.total() == gram(rows[30:])).all()


@pytest.mark.parametrize("blocks", [(200, 200), (512, 1), (300, 400), (512, 512)])
def test_merging_sums_that_have_not_carried_does_not_overflow(blocks):
    block = np.full((1, BLOCK_ROWS), float(UNIT))
    parts = [Accumulator(1) for _ in blocks]
    for part, count in zip(parts, blocks, strict=True):
        for _ in range(count):
            part.add(block)
    merged = Accumulator(1)
    for part in parts + parts:
        merged.merge(part)
    assert merged.total()[0, 0] == 2 * sum(blocks) * BLOCK_ROWS * UNIT**2


def test_what_was_carried_is_handed_on_by_sums_that_have_not_carried():
    rows = integer_rows(40)
    first, second, carried = (Accumulator(5) for _ in range(3))
    first.add(rows[:20].T)
    second.add(rows[20:].T)
    carried.add_packed(np.arange(1, 31))  # no high limb is 0
    first.merge(carried)
    second.merge(first)
    assert (second.total() == gram(rows) + carried.total()).all()


def test_no_overflow_up_to_2_to_the_50_rows():
    rows = np.tile([[UNIT, -UNIT], [UNIT, 3 - UNIT]], (BLOCK_ROWS // 2, 1)).astype(float)
    total, exact = Accumulator(2), gram(rows)
    total.add(rows.T)
    for _ in range(50 - int(math.log2(BLOCK_ROWS))):
        total.merge(total)
        exact = 2 * exact
        assert (total.total() == exact).all()
    assert total.total()[0, 0] == 2**50 * UNIT**2


def test_control_one_int64_overflows_there():
    assert np.iinfo(np.int64).max < 2**50 * UNIT**2


def test_the_trace_is_a_python_integer():
    units = np.array([[2**70, 1], [1, 2**71]], object)
    assert SecondMoment(units, Lattice(1, 1.0, TAU), 3).trace() == 2**70 + 2**71


def test_the_intercept_is_rounded_up_from_its_decimal():
    assert Lattice(1, 1.0, TAU).intercept_units == math.ceil(3 * UNIT / 10)
    assert Lattice(1, 1.0, 0.5).intercept_units == UNIT // 2
    assert [Lattice(3, 1.0, tau).dimension for tau in (0.0, 1e-9, 1.0)] == [3, 4, 4]


@pytest.mark.parametrize("radius", [1.0, math.sqrt(3), 3.0, math.sqrt(7515)])
def test_a_half_range_is_2_to_the_20_steps_whatever_the_radius(radius):
    lattice = Lattice(7515, radius, TAU)
    assert lattice.step == 2.0**-20
    assert lattice.side == math.ceil(radius * 2**20)
    assert lattice.bound == lattice.side**2 + lattice.intercept_units**2 < 2**53
    assert lattice.intercept_units >= lattice.side * TAU - 1e-6
    assert Lattice(1, radius) == Lattice(1, radius, 0.0, Unit(None, 1))


@pytest.mark.parametrize("radius", [1e-90, 0.3, 0.5, 0.75])
def test_a_smaller_radius_has_steps_as_small_as_it(radius):
    lattice = Lattice(3, radius)
    assert math.frexp(lattice.step)[0] == 0.5
    assert UNIT // 2 < lattice.side <= UNIT


@pytest.mark.parametrize(("features", "intercept"), [(7516, TAU), (8191, 0.0), (8191, 1.0)])
def test_squared_lengths_stay_below_2_to_the_53(features, intercept):
    lattice = Lattice(features, math.sqrt(features), intercept)
    assert lattice.bound < 2**53
    assert lattice.step == (2.0**-20 if intercept == 0 else 2.0**-19)


@pytest.mark.parametrize("radius", [1.0, math.sqrt(3), 7.0, math.sqrt(8191)])
@pytest.mark.parametrize("intercept", [1e-9, 0.05, TAU, 1.0])
def test_the_intercept_is_a_product_whose_second_part_blocks_can_hold(radius, intercept):
    lattice = Lattice(8191, radius, intercept)
    tau, c = lattice.intercept_parts
    wanted = math.ceil(exact(intercept) * lattice.side)
    assert tau * c == lattice.intercept_units
    assert c <= UNIT
    assert wanted <= tau * c < wanted + tau
    assert tau == 1 or (tau - 1) * UNIT < wanted


@pytest.mark.parametrize("radius", [0.3, 1.0, 1.1, 1000.0])
def test_images_have_steps_that_are_powers_of_two_and_no_longer_rows_than_a_radius(radius):
    plain = Lattice(3, math.sqrt(3), TAU)
    images, relative = plain.for_transform(radius), plain.relative(radius)
    assert math.frexp(images.step)[0] == 0.5
    assert UNIT // 2 < images.side <= relative.side == UNIT
    assert images.bound <= relative.bound
    assert (images.side - 1) * images.step < radius <= images.side * images.step
    assert relative.step == radius / UNIT


@pytest.mark.parametrize("tau", [1, 2, 91])
def test_a_sum_of_parts_of_intercepts_is_that_of_the_rows(tau):
    rows = integer_rows(100)
    whole = rows.copy()
    whole[:, -1] *= tau
    total, merged = Accumulator(5, tau), Accumulator(5, tau)
    total.add(rows.T)
    merged.merge(total)
    assert (merged.total() == gram(whole)).all()
    if tau > 1:
        assert (merged.total() != gram(rows)).any()


def test_control_whole_intercepts_would_not_be_summed_exactly():
    rows = np.full((BLOCK_ROWS, 1), float(7 * UNIT - 1))
    rows[0] = 2.0
    true = (BLOCK_ROWS - 1) * (7 * UNIT - 1) ** 2 + 4
    assert true % 2 == 1  # and large, so no float64, in whatever order they are added
    assert true > 2**53
    assert accumulated(rows, [])[0, 0] != true
    parts = Accumulator(1, 91)
    parts.add(np.full((1, BLOCK_ROWS), float(UNIT - 1)))
    assert parts.total()[0, 0] == BLOCK_ROWS * (91 * (UNIT - 1)) ** 2


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(
    ("features", "intercept", "two_sided"),
    [(1, 0.0, False), (1, TAU, True), (2, 0.0, True), (2, 1.0, True)],
)
def test_the_table_of_sensitivities(k, features, intercept, two_sided):
    lattice = Lattice(features, 7.0, intercept, Unit("id", k))
    trace = k * ((7 * UNIT) ** 2 + lattice.intercept_units**2)
    factor = 2 if two_sided else 1
    assert lattice.nuclear(ADD) == trace
    assert lattice.frobenius_squared(ADD) == trace**2
    assert lattice.nuclear(REPLACE) == factor * trace
    assert lattice.frobenius_squared(REPLACE) == factor * trace**2
    assert isinstance(lattice.frobenius_squared(REPLACE), int)


def certified_rows(rng: np.random.Generator, count: int, lattice: Lattice) -> np.ndarray:
    """Return random integer rows; half of them have the largest possible norm."""
    z = rng.standard_normal((count, lattice.features))
    z *= UNIT / np.linalg.norm(z, axis=1, keepdims=True)
    z[::2] *= rng.uniform(size=(len(z[::2]), 1))
    return whole_rows(np.trunc(z), lattice)


def whole_rows(z: np.ndarray, lattice: Lattice) -> np.ndarray:
    rows = np.zeros((len(z), lattice.dimension))
    rows[:, : lattice.features] = z
    rows[:, lattice.features :] = lattice.intercept_units
    return rows


def worst_pair(lattice: Lattice) -> tuple[np.ndarray, np.ndarray]:
    """Return two rows of the largest norm, orthogonal with the intercept if possible."""
    z = np.zeros((2, lattice.features))
    z[0, 0] = UNIT
    if lattice.features > 1:
        cosine = -((lattice.intercept_units / UNIT) ** 2)
        z[1, :2] = np.trunc([UNIT * cosine, UNIT * math.sqrt(1 - cosine**2)])
    rows = whole_rows(z, lattice)
    return rows[:1], rows[1:]


def largest_changes(lattice: Lattice, neighbors: Neighbors) -> tuple[float, float]:
    """Return the largest nuclear and squared Frobenius norm of a change, over many neighbours."""
    rng = np.random.default_rng(5)
    k = lattice.unit.max_rows
    some, other = (np.repeat(rows, k, axis=0) for rows in worst_pair(lattice))
    nothing = some[:0]
    pairs = [(some, nothing), (some, other)]
    for _ in range(500):
        sizes = rng.integers(0, k, 2, endpoint=True)
        pairs.append(tuple(certified_rows(rng, size, lattice) for size in sizes))
    if neighbors is ADD:
        pairs = [(rows, nothing) for rows, _ in pairs]
    changes = [np.linalg.eigvalsh(a.T @ a - b.T @ b) for a, b in pairs]
    return max(np.abs(e).sum() for e in changes), max((e**2).sum() for e in changes)


CASES = [
    Lattice(features, 1.0, intercept, Unit("id", k))
    for features, intercept in [(1, 0.0), (2, 0.0), (2, TAU), (4, TAU), (3, 1.0)]
    for k in (1, 3)
]


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("lattice", CASES, ids=str)
def test_no_change_exceeds_the_sensitivity_and_one_comes_close(lattice, neighbors):
    nuclear, squared = largest_changes(lattice, neighbors)
    assert 1 - 1e-3 < nuclear / lattice.nuclear(neighbors) <= 1 + 1e-12
    assert 1 - 1e-3 < squared / lattice.frobenius_squared(neighbors) <= 1 + 1e-12


def test_control_a_bound_without_the_factor_of_two_is_exceeded():
    lattice = Lattice(2, 1.0, TAU)
    nuclear, squared = largest_changes(lattice, REPLACE)
    assert nuclear > 1.9 * lattice.nuclear(ADD)
    assert squared > 1.9 * lattice.frobenius_squared(ADD)


def test_control_a_bound_without_the_intercept_or_the_cap_is_exceeded():
    lattice = Lattice(2, 1.0, TAU, Unit("id", 3))
    nuclear, _ = largest_changes(lattice, ADD)
    assert nuclear > Lattice(2, 1.0, 0.0, Unit("id", 3)).nuclear(ADD)
    assert nuclear > Lattice(2, 1.0, TAU).nuclear(ADD)


def test_packed_limbs_leave_space_for_others():
    rows = np.full((40, BLOCK_ROWS), float(UNIT))
    total = Accumulator(len(rows))
    for _ in range(5):
        total.add(rows)
    high, low = np.split(total.packed(), 2)
    assert low.min() >= 0
    assert low.max() < 2**32
    assert (high * 2**32 + low == 5 * BLOCK_ROWS * UNIT**2).all()


def test_the_lattice_is_the_schema_s_but_for_what_a_query_changes():
    schema = Schema.from_bounds(-1.0, 1.0, ["a", "b", "c", "d"], intercept=0.5)
    own = Lattice.of(schema)
    assert (own.features, own.radius, own.intercept) == (4, 2.0, 0.5)
    mapped = Lattice.of(schema, radius=0.25, features=2)
    assert (mapped.features, mapped.radius, mapped.intercept) == (2, 0.25, 0.5)
    assert mapped.unit == own.unit == Unit()


def test_squared_lengths_are_those_of_the_columns():
    rows = integer_rows(100)
    assert exact_squared_norms(np.ascontiguousarray(rows.T)).tolist() == [
        sum(int(cell) ** 2 for cell in row) for row in rows
    ]


@pytest.mark.parametrize("units", [1, 2, 314_573, UNIT])
def test_an_intercept_has_as_many_units_as_it_is_given(units):
    lattice = Lattice(3, 2.0, TAU, Unit("person", 2))
    changed = lattice.with_intercept(units)
    assert changed.intercept_units == units
    assert changed.bound == (2 * UNIT) ** 2 + units**2
    assert (changed.features, changed.radius, changed.unit) == (3, 2.0, lattice.unit)
    assert changed.with_intercept(units) is changed
