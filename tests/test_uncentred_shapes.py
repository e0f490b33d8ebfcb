"""`shaped-ladder` without an intercept: when it maps, what its parts cost, what it publishes."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from denoised_errors import mean_error
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, Neighbors, PureDP, Unit
from dpcov.denoise import denoise
from dpcov.denoise.rungs import noise_left
from dpcov.errors import MechanismError
from dpcov.mechanisms import Ladder, ShapedLadder
from dpcov.mechanisms.ladder import pooled
from dpcov.mechanisms.shaped_ladder import Shape
from dpcov.releases import Release
from dpcov.rows.linear_map import LinearMap
from dpcov.rows.moment import Lattice
from dpcov.rows.rungs import rungs_of, shared, shared_lengths
from dpcov.rows.schema import Schema
from dpcov.sources import open_rows
from dpcov.sources.rows import Rows
from several_rows import OneAfterAnother

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
LATTICES = [Lattice(3, 2.0), Lattice(40, 1.0), Lattice(4, 1.0, unit=Unit("id", 3))]
LOOK, COUNTS = Fraction(7, 100), Fraction(2, 100)
COLUMNS = 40


def falling(n: int = 8000, seed: int = 0) -> Any:
    """(n, 40) rows whose variances fall from column to column, in the unit ball."""
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((n, COLUMNS)) / np.arange(1, COLUMNS + 1)
    return rows / np.linalg.norm(rows, axis=1).max()


def one_hot(n: int = 4000) -> Any:
    """(n, 40) rows of one 1 each: as long as can be, those of rare columns far longer if mapped."""
    shares = 1 / np.arange(1, COLUMNS + 1) ** 2
    return np.eye(COLUMNS)[np.random.default_rng(0).choice(COLUMNS, n, p=shares / shares.sum())]


def flat(n: int = 4000) -> Any:
    """(n, 40) rows of the same spread in all directions."""
    rows = np.random.default_rng(0).standard_normal((n, COLUMNS))
    return rows / np.linalg.norm(rows, axis=1).max()


def door(rows: Any) -> Rows:
    return open_rows(rows, bare(rows.shape[1]))


def bare(columns: int) -> Schema:
    names = tuple(f"x{j}" for j in range(columns))
    return Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)


def made_of(rows: Rows, seed: int = 1, **changed: Any) -> Release:
    asked = {"budget": ZCDP(50.0), "neighbors": ADD, "entropy": Entropy.seeded(seed)} | changed
    return ShapedLadder()(rows, **asked)


def error_of(mechanism: Any, table: Any, budget: Budget, neighbors: Neighbors = ADD) -> float:
    """Mean Frobenius error of a mechanism's denoised second moment, over four draws."""
    truth = table.T @ table
    return mean_error(mechanism, door(table), truth, 4, budget=budget, neighbors=neighbors)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("lattice", LATTICES, ids=str)
def test_look_counts_and_release_add_up_to_the_budget(
    lattice: Lattice, neighbors: Neighbors
) -> None:
    laws = ShapedLadder().calibrate(lattice, ZCDP(2.0), neighbors)
    assert laws.rejected is not None
    spendings = {
        1 - LOOK: laws.unmapped.plain,
        1: laws.unmapped.pooled,
        1 - LOOK - COUNTS: laws.rejected.plain,
        1 - COUNTS: laws.rejected.pooled,
        LOOK: laws.look,
    }
    whole = Ladder().calibrate(lattice, ZCDP(2.0), neighbors)
    for share, part in spendings.items():
        assert part is not None
        for rung, alone in zip(part.rungs, whole.rungs, strict=True):
            assert rung.variance == alone.variance / share  # type: ignore[union-attr]
    assert laws.unmapped.share == LOOK
    assert laws.rejected.share == LOOK / (1 - COUNTS)
    assert laws.counts is not None
    spent = neighbors.sides * lattice.unit.max_rows**2 / (2 * laws.counts.variance)  # type: ignore[union-attr]
    assert spent == 2 * COUNTS


def test_noise_that_is_not_gaussian_is_refused_before_anything_is_read() -> None:
    with pytest.raises(MechanismError, match="intercept"):
        made_of(door(falling(9)), budget=PureDP(1.0))
    with pytest.raises(MechanismError, match="intercept"):
        made_of(door(falling(9)), budget=ApproxDP(8.0, 1e-12))


@pytest.mark.parametrize("share", [0.98, 0.999])
def test_a_look_that_leaves_nothing_to_release_is_refused(share: float) -> None:
    for lattice in (LATTICES[0], Lattice(3, 1.0, 0.3)):
        with pytest.raises(MechanismError, match=r"look_share.*0\.98"):
            ShapedLadder(look_share=share).calibrate(lattice, ZCDP(1.0), ADD)
    ShapedLadder(look_share=0.97).calibrate(LATTICES[0], ZCDP(1.0), ADD)
    ShapedLadder(look_share=share).calibrate(Lattice(3, 1.0, 0.3), PureDP(1.0), ADD)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_rows_are_mapped_where_that_pays_and_nowhere_else(neighbors: Neighbors) -> None:
    def is_mapped(rows: Any) -> bool:
        return made_of(door(rows), neighbors=neighbors).linear_map is not None

    assert is_mapped(falling())
    assert not is_mapped(flat())
    assert not is_mapped(one_hot())
    assert not is_mapped(falling(20))


def test_where_no_direction_would_show_rows_are_not_mapped() -> None:
    values, factors = np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.1, 1.3])
    shape = Shape(LinearMap.rounded(np.diag(factors)), 1.0, 1.0, values, factors, noise=100.0)
    traces, noises = np.array([5.0, 3.0]), np.array([2.0, 1.0])
    assert shape.left_of_noise(traces, noises, 0.07) == math.inf
    assert shape.left_of_noise(0 * traces, noises, 1e-9) == math.inf
    assert 0 < shape.left_of_noise(traces, noises, 1e-9) < math.inf


def test_without_the_counts_rows_of_one_level_each_would_be_mapped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control: their matrix alone says that it pays, and they lose by it."""
    table, budget = one_hot(), ZCDP(50.0)
    kept = error_of(ShapedLadder(), table, budget)
    assert kept == pytest.approx(error_of(Ladder(), table, budget), rel=0.1)
    monkeypatch.setattr("dpcov.mechanisms.shaped_ladder.Shape.left_of_noise", lambda *_: 0.0)
    assert error_of(ShapedLadder(), table, budget) > 1.3 * kept


@pytest.mark.parametrize("neighbors", Neighbors)
def test_directions_of_different_spread_get_less_noise(neighbors: Neighbors) -> None:
    asked = (falling(), ZCDP(200.0), neighbors)
    assert error_of(ShapedLadder(), *asked) < 0.8 * error_of(Ladder(), *asked)


def test_the_map_depends_on_the_data_through_the_look_alone() -> None:
    one, other = door(falling()), door(falling(seed=5) / 2)
    doors = [
        OneAfterAnother(one, one, one),
        OneAfterAnother(one, one, other),
        OneAfterAnother(other, one, one),
    ]
    made, after, before = (made_of(found) for found in doors)
    assert made.linear_map is not None
    assert made.center is None
    assert np.array_equal(made.linear_map, after.linear_map)
    assert made.lattice == after.lattice
    assert not np.array_equal(made.published, after.published)  # type: ignore[arg-type]
    assert not np.array_equal(made.linear_map, before.linear_map)
    assert [kind for kind, _ in doors[0].asked] == ["moments", "counts", "moments"]
    assert ShapedLadder().passes == 3


def test_whether_to_map_depends_on_the_counts() -> None:
    one, hardly = door(falling()), door(falling(n=1))
    assert made_of(OneAfterAnother(one, one, one)).linear_map is not None
    assert made_of(OneAfterAnother(one, hardly, one)).linear_map is None


@pytest.mark.parametrize("neighbors", Neighbors)
def test_where_nothing_is_mapped_look_and_release_are_published_together(
    neighbors: Neighbors,
) -> None:
    """With the noise of both, which is told apart from that of the release alone."""
    rows, budget = door(flat(500)), ZCDP(2.0)
    laws = ShapedLadder().calibrate(rows.lattice(), budget, neighbors).rejected
    assert laws is not None
    exact = rows.rung_moments()
    ratios, alone, traces = [], [], []
    assert laws.pooled is not None
    for seed in range(30):
        made = made_of(rows, seed, budget=budget, neighbors=neighbors)
        assert made.linear_map is None
        assert made.noise == laws.pooled.matrix
        assert made.trace_noise == laws.pooled.trace
        assert made.rungs is not None
        for at, (units, moment) in enumerate(zip(exact.units, made.rungs, strict=True)):
            noise = moment * 2.0**made.shift - units.astype(float)
            squared = float(np.sum(noise**2))
            ratios.append(squared / laws.pooled.rungs[at].frobenius_squared)
            alone.append(squared / laws.plain.rungs[at].frobenius_squared)
        assert made.published_trace is not None
        traces.append((made.published_trace - exact.trace) / laws.pooled.trace.standard_deviation)
    error = np.std(ratios) / math.sqrt(len(ratios))
    assert abs(np.mean(ratios) - 1) < 4 * error
    assert abs(np.mean(alone) - 1) > 4 * error
    assert 0.6 < np.std(traces) < 1.4


@given(st.integers(0, 2**32), st.floats(0.01, 0.99), st.integers(0, 3), st.integers(0, 3))
def test_means_of_two_releases_are_means_of_what_they_hold(
    seed: int, share: float, first: int, second: int
) -> None:
    lattice = Lattice(3, 1.0)
    laws = Ladder().calibrate(lattice, ZCDP(1.0), ADD)
    made = Ladder()(
        door(falling(5)[:, :3]), budget=ZCDP(1.0), neighbors=ADD, entropy=Entropy.seeded(1)
    )
    generator = np.random.default_rng(seed)
    near = generator.integers(-(2**58), 2**58)
    shape = (len(laws.squared), 3, 3)
    found = [
        replace(
            made,
            rungs=(near >> shift) + generator.integers(-(2**20), 2**20, shape),
            shift=shift,
            published_trace=int(generator.integers(2**60)),
        )
        for shift in (first, second)
    ]
    both = pooled(*found, Fraction(share), laws)
    assert both.shift == min(first, second)
    weights = (Fraction(share), 1 - Fraction(share))
    wanted = sum(
        weight * (one.rungs.astype(object) << one.shift)  # type: ignore[union-attr]
        for weight, one in zip(weights, found, strict=True)
    )
    apart = (both.rungs.astype(object) << both.shift) - wanted  # type: ignore[union-attr]
    assert np.abs(apart.astype(float)).max() <= 2.0**both.shift
    trace = sum(w * one.published_trace for w, one in zip(weights, found, strict=True))  # type: ignore[operator]
    assert abs(both.published_trace - trace) <= 1


@pytest.mark.parametrize("neighbors", Neighbors)
def test_where_the_look_shows_no_direction_nothing_is_spent_on_counts(
    neighbors: Neighbors,
) -> None:
    one, budget = door(flat(500)), ZCDP(0.02)
    rows = OneAfterAnother(one, one)
    made = made_of(rows, budget=budget, neighbors=neighbors)
    laws = ShapedLadder().calibrate(one.lattice(), budget, neighbors).unmapped
    assert laws.pooled is not None
    assert made.noise == laws.pooled.matrix
    assert [kind for kind, _ in rows.asked] == ["moments", "moments"]


def test_where_one_of_two_says_nothing_the_other_is_published() -> None:
    rows = door(falling(20))
    asked = {"budget": ZCDP(1e-4), "neighbors": SWAP}
    nothing = Ladder()(rows, **asked, entropy=Entropy.seeded(1))
    assert nothing.rungs is None
    something = Ladder()(rows, budget=ZCDP(1.0), neighbors=SWAP, entropy=Entropy.seeded(1))
    laws = Ladder().calibrate(rows.lattice(), ZCDP(1.0), SWAP)
    assert pooled(nothing, something, LOOK, laws) is something
    assert pooled(something, nothing, LOOK, laws) is nothing


@given(st.integers(0, 2**32))
def test_lengths_are_shared_out_as_rows_are(seed: int) -> None:
    generator = np.random.default_rng(seed)
    lattice = Lattice(3, 1.0)
    rungs = rungs_of(lattice)
    block = np.rint(generator.uniform(-(2**19), 2**19, (3, 6)) * 4.0 ** -generator.uniform(0, 6))
    squared = np.sum(block**2, axis=0) / lattice.bound
    parts = shared_lengths(squared, np.array(rungs) / lattice.bound)
    assert parts.sum(axis=1) == pytest.approx(squared)
    lengths = np.zeros(len(rungs))
    for at, part in shared(block, rungs):
        lengths[at] += float(np.sum(part**2)) / 2**40 * rungs[at] / lattice.bound
    assert lengths == pytest.approx(parts.sum(axis=0), rel=1e-3, abs=1e-8)


@given(st.integers(0, 2**32), st.floats(0.02, 1.0))
def test_what_is_left_of_parts_is_the_worse_of_all_alike_and_none(seed: int, theta: float) -> None:
    generator = np.random.default_rng(seed)
    traces, noises = generator.uniform(0, 3, 4), 10 ** generator.uniform(-3, 3, 4)
    found = noise_left(traces, noises, theta)

    w = np.linspace(0, 1, 20_001)
    in_proportion = traces / noises  # to these are the weights of the least error
    scales = np.geomspace(1e-6, 1e6, 20_001)
    lost = theta * (traces.sum() - scales * (in_proportion @ traces)) ** 2
    best = in_proportion * scales[np.argmin(lost + scales**2 * (in_proportion**2 @ noises))]
    best *= traces.sum() / (best @ traces)  # and keep all of the trace
    none = [np.min((1 - w) ** 2 * t**2 + w**2 * d) for t, d in zip(traces, noises, strict=True)]
    worse = max(math.sqrt(best**2 @ noises), math.sqrt(sum(none)))
    assert found == pytest.approx(worse, rel=1e-4)


def test_a_file_brings_back_what_a_seed_repeats(tmp_path: Any) -> None:
    asked: dict[str, Any] = {"lower": -1, "upper": 1, "intercept": 0.0, "radius": 1.0}
    asked |= {"mechanism": "shaped-ladder"}
    for name, rows in (("mapped.json", falling()), ("together.json", flat())):
        made, again = (
            dpcov.release(rows, **asked, rho=50.0, seed=4, threads=threads) for threads in (1, 2)
        )
        assert made.mechanism == "shaped-ladder"
        assert np.array_equal(made.second_moment(), again.second_moment())
        made.save(tmp_path / name)
        read = Release.load(tmp_path / name)
        assert np.array_equal(read.second_moment(), made.second_moment())
        assert read.noise == made.noise


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [0, 1, 2])
def test_hardly_any_rows_are_released_too(rows: int, neighbors: Neighbors) -> None:
    for budget in (ZCDP(1e-3), ZCDP(1.0), ZCDP(1e5)):
        made = made_of(door(falling(3)[:rows]), budget=budget, neighbors=neighbors)
        assert np.isfinite(denoise(made).second_moment()).all()
