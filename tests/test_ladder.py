"""Moments by length of rows: shares, losses, what is released, and how near it is."""

from __future__ import annotations

import itertools
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
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    PureDP,
    Unit,
    gaussian_mu,
)
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.denoise import denoise
from dpcov.denoise.rungs import ALONE, _Shared, _traces, combiner
from dpcov.denoise.shrinkage import james_stein
from dpcov.errors import MechanismError, ReleaseError
from dpcov.mechanisms import Gaussian, Ladder
from dpcov.mechanisms.additive import coarse, shift_for
from dpcov.mechanisms.ladder import Calibration, drawn, published, summed
from dpcov.releases import Release
from dpcov.rows.moment import UNITS, Lattice
from dpcov.rows.rungs import WHOLE, RungSum, _certified, rungs_of, shared
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

SIDE = UNITS
LATTICES = [Lattice(3, 1.0), Lattice(3, 1.0, 0.3), Lattice(3, 1.0, 0.6)]
LATTICES += [Lattice(2, 5.0, 0.05).relative()]


def test_rungs_descend_by_quarters_from_the_longest_row_to_the_intercept() -> None:
    whole = 2**40
    assert rungs_of(Lattice(3, 1.0)) == (whole, whole // 4, whole // 16, whole // 64)
    short, middle, long = 52_429**2, 314_573**2, 629_146**2  # intercepts of .05, .3 and .6
    assert rungs_of(Lattice(2, 5.0, 0.05).relative()) == (
        *((whole + short) // 4**k for k in range(5)),
        short,
    )
    for intercept, units in ((0.01, 10_486), (0.001, 1_049)):  # no more than eight in all
        tiny = units**2
        assert rungs_of(Lattice(2, 5.0, intercept).relative()) == (
            *((whole + tiny) // 4**k for k in range(7)),
            tiny,
        )
    assert rungs_of(Lattice(3, 1.0, 0.3)) == (whole + middle, (whole + middle) // 4, middle)
    assert rungs_of(Lattice(3, 1.0, 0.6)) == (whole + long, long)


def test_what_certifies_a_row_is_never_above_its_share_and_hardly_below() -> None:
    generator = np.random.default_rng(1)
    gaps = generator.integers(2**10, 2**41, 3000)
    covered = (gaps * generator.random(3000)).astype(np.int64)
    limits = _certified(covered / gaps)
    for limit, part, gap in zip(limits.tolist(), covered.tolist(), gaps.tolist(), strict=True):
        exact = Fraction(part * SIDE**2, gap)
        assert exact * (1 - Fraction(1, 2**48)) <= Fraction(limit) <= exact


def shares(squared: int, rungs: tuple[int, ...]) -> list[Fraction]:
    """What the proof calls h, written anew."""
    found = [Fraction(0)] * len(rungs)
    for j, (upper, lower) in enumerate(itertools.pairwise((*rungs, 0))):
        if lower < squared <= upper:
            found[j] = Fraction(squared - lower, upper - lower)
            if j + 1 < len(rungs):
                found[j + 1] = 1 - found[j]
    return found


def block_of(seed: int, lattice: Lattice, count: int = 300) -> Any:
    """(d, count) certified rows of all lengths, some as long as can be, some along an axis."""
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((lattice.features, count))
    rows[:, : count // 4] = np.eye(lattice.features)[:, [0] * (count // 4)]
    lengths = generator.choice([1.0, 0.5, 0.25, 1e-3, 0.0, 2.0**-20], count)
    lengths *= np.where(generator.random(count) < 0.3, 1.0, generator.random(count))
    rows *= lengths / np.linalg.norm(rows, axis=0)
    whole = np.trunc(rows * SIDE * (1 - 1e-12))
    whole[0, count // 4 - 1] = SIDE if lengths[count // 4 - 1] else 0
    if lattice.intercept_units:
        whole = np.vstack([whole, np.full(count, float(lattice.intercept_units))])
    return whole


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: str(lattice.intercept))
def test_every_row_is_certified_within_its_shares_and_loses_next_to_nothing(
    lattice: Lattice,
) -> None:
    rungs, block = rungs_of(lattice), block_of(1, lattice)
    for column in block.T:
        squared = int(np.sum(column.astype(object) ** 2))
        owed, total = shares(squared, rungs), np.zeros((len(column),) * 2)
        assert sum(owed) <= 1
        assert sum(h * rung for h, rung in zip(owed, rungs, strict=True)) == squared
        found = dict(shared(column[:, None], rungs))
        for j, part in found.items():
            norm = int(np.sum(part.astype(object) ** 2))
            assert norm <= owed[j] * SIDE**2
            total += part @ part.T * (rungs[j] / WHOLE)
        exact = np.outer(column, column)
        error = np.abs(exact - total).max()
        assert error <= 2.0**-18 * lattice.bound
        if squared > rungs[-1]:
            assert error <= 2.0**-16 * squared


def test_a_certificate_that_is_not_kept_leaves_nothing(monkeypatch: Any) -> None:
    """Were rows scaled to more than their share, they would be left out, not let through."""
    lattice = LATTICES[0]
    monkeypatch.setattr("dpcov.rows.rungs.WHOLE", 2**40 + 2**25)
    parts = [part for _, part in shared(block_of(1, lattice), rungs_of(lattice))]
    empty = np.concatenate([np.all(part == 0, axis=0) for part in parts])
    assert np.mean(empty) > 0.1


def test_rounding_prefers_no_sign() -> None:
    """Of many rows errors add up no faster than at random; toward 0, they would."""
    generator = np.random.default_rng(1)
    block = np.rint(generator.uniform(0.1, 0.5, (3, 4000)) * SIDE)
    rungs = rungs_of(LATTICES[0])
    exact = block @ block.T
    total = sum(part @ part.T * (rungs[j] / WHOLE) for j, part in shared(block, rungs))
    assert np.abs(total / exact - 1).max() < 5e-8
    toward_0 = sum(
        (inner := np.trunc(part - 0.5 * np.sign(part))) @ inner.T * (rungs[j] / WHOLE)
        for j, part in shared(block, rungs)
    )
    assert np.abs(toward_0 / exact - 1).max() > 5e-7


def test_a_row_has_the_same_parts_in_any_block(monkeypatch: Any) -> None:
    lattice = LATTICES[1]
    block, rungs = block_of(2, lattice), rungs_of(LATTICES[1])
    whole = RungSum(rungs, lattice.dimension)
    whole.add(block)
    apart = [RungSum(rungs, lattice.dimension) for _ in range(2)]
    for at in range(block.shape[1]):
        apart[at % 2].add(block[:, [at]])
    apart[0].merge(apart[1])
    packed = RungSum(rungs, lattice.dimension)
    packed.add_packed(whole.packed())
    monkeypatch.setattr("dpcov.rows.rungs.COPIED", 1)
    monkeypatch.setattr("dpcov.rows.rungs.LEAST_ROWS", 3)
    by_threes = RungSum(rungs, lattice.dimension)
    by_threes.add(block)
    units, trace = whole.total()
    for at in range(len(rungs)):
        parts = [part.astype(int) for to, part in shared(block, rungs) if to == at]
        assert np.array_equal(units[at], sum(part @ part.T for part in parts))
    for other in (apart[0], packed, by_threes):
        found, sum_ = other.total()
        assert trace == sum_ == int(np.square(block).sum())
        assert all(np.array_equal(a, b) for a, b in zip(units, found, strict=True))


def loss(laws: Calibration, budget: Budget, one: int, other: int, lattice: Lattice) -> Fraction:
    """Exact loss of a row of squared length `one` in place of `other` (0: none), over the budget.

    The worst directions are orthogonal: then norms of differences are those of the proof.
    """
    first, second = (shares(squared, laws.squared) for squared in (one, other))
    moved = abs(one - other)
    total = Fraction(0)
    if isinstance(budget, PureDP):
        for law, a, b in zip(laws.rungs, first, second, strict=True):
            total += (a + b) * SIDE**2 / Fraction(2 * law.scale)  # type: ignore[attr-defined]
        total += moved / laws.trace.scale  # type: ignore[attr-defined]
        return total / Fraction(budget.epsilon)
    assert isinstance(budget, ZCDP)
    for law, a, b in zip(laws.rungs, first, second, strict=True):
        total += (a**2 + b**2) * SIDE**4 / (2 * law.variance)  # type: ignore[attr-defined]
    total += Fraction(moved**2) / (2 * laws.trace.variance)  # type: ignore[attr-defined]
    return total / Fraction(budget.rho)


def lengths_of(lattice: Lattice) -> list[int]:
    rungs = rungs_of(lattice)
    between = [(a + b) // 2 for a, b in itertools.pairwise((*rungs, 0))]
    generator = np.random.default_rng(1)
    others = [int(x) for x in generator.integers(1, lattice.bound, 10)]
    return [*rungs, *between, *others]


def largest_loss(laws: Calibration, budget: Budget, lattice: Lattice, sides: int) -> Fraction:
    lengths = lengths_of(lattice)
    others = [0] if sides == 1 else [0, *lengths]
    return max(loss(laws, budget, x, y, lattice) for x in lengths for y in others)


BUDGETS: list[Budget] = [PureDP(0.5), ZCDP(0.25)]


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: str(lattice.intercept))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.9])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
def test_no_pair_of_rows_loses_more_than_the_budget_and_some_lose_all(
    lattice: Lattice, share: float, neighbors: Neighbors, budget: Budget
) -> None:
    laws = Ladder(trace_share=share).calibrate(lattice, budget, neighbors)
    found = largest_loss(laws, budget, lattice, neighbors.sides)
    assert 1 - 1e-9 < found <= 1


def for_short_rows(share: float, lattice: Lattice, budget: Budget, to: Neighbors) -> Calibration:
    """Laws by which long rungs give the trace its share."""
    made, guarantee = Ladder(trace_share=share), Guarantee(budget, to, lattice.unit)
    if isinstance(budget, PureDP):
        return made.spending(guarantee, Fraction(budget.epsilon), short=True).laws(lattice)
    assert isinstance(budget, ZCDP)
    return made.spending(guarantee, Fraction(budget.rho), 0, short=True).laws(lattice)


@pytest.mark.parametrize("lattice", LATTICES, ids=lambda lattice: str(lattice.intercept))
@pytest.mark.parametrize("share", [0.05, 0.2, 0.9])
@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
def test_long_rungs_may_give_the_trace_its_share_under_either_relation(
    lattice: Lattice, share: float, budget: Budget
) -> None:
    """Exchanged rows at the shortest rung lose most: all but f p, or f p^2 of the budget."""
    added = for_short_rows(share, lattice, budget, Neighbors.ADD_REMOVE)
    assert added == Ladder(trace_share=share).calibrate(lattice, budget, Neighbors.ADD_REMOVE)
    laws = for_short_rows(share, lattice, budget, Neighbors.REPLACE_ONE)
    shortest = rungs_of(lattice)[-1] / lattice.bound
    left = 1 - share * (shortest if isinstance(budget, PureDP) else shortest**2)
    found = largest_loss(laws, budget, lattice, 2)
    assert found <= 1
    assert float(found) == pytest.approx(left, rel=1e-9)
    stingy = for_short_rows(share / 100, lattice, budget, Neighbors.REPLACE_ONE)
    assert largest_loss(replace(stingy, trace=laws.trace), budget, lattice, 2) > 1


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
def test_scales_of_the_other_relation_lose_more_than_the_budget(budget: Budget) -> None:
    lattice = LATTICES[0]
    adding, replacing = (
        Ladder().calibrate(lattice, budget, neighbors)
        for neighbors in (Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE)
    )
    assert largest_loss(adding, budget, lattice, 2) > 1.5
    # Halved, the other relation's scales would be those of add/remove but for the trace's share.
    if isinstance(budget, PureDP):
        halved = tuple(law.rescaled(0.5) for law in replacing.rungs)
        mixed = replace(replacing, rungs=halved, trace=adding.trace)
        assert largest_loss(mixed, budget, lattice, 1) > 1.05
    else:
        halved = tuple(
            GaussianOrthogonal(lattice.dimension, law.variance / 2)  # type: ignore[attr-defined]
            for law in replacing.rungs
        )
        mixed = replace(replacing, rungs=halved, trace=adding.trace)
        assert largest_loss(mixed, budget, lattice, 1) > 1.05


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("budget", [*BUDGETS, ApproxDP(1.0, 1e-6)], ids=lambda b: type(b).__name__)
def test_persons_have_scales_as_many_times_as_large_as_they_have_rows(
    neighbors: Neighbors, budget: Budget
) -> None:
    row = Ladder().calibrate(LATTICES[1], budget, neighbors)
    lattice = replace(LATTICES[1], unit=Unit("person", 7))
    person = Ladder().calibrate(lattice, budget, neighbors)
    for one, many in zip(
        (*row.rungs, row.trace, row.trace_alone),
        (*person.rungs, person.trace, person.trace_alone),
        strict=True,
    ):
        if isinstance(one, GaussianOrthogonal):
            assert many.spread == pytest.approx(7 * one.spread, rel=1e-9)  # type: ignore[union-attr]
        elif hasattr(one, "standard_deviation"):
            assert many.standard_deviation == pytest.approx(  # type: ignore[union-attr]
                7 * one.standard_deviation, rel=1e-9
            )
        else:
            assert many.spread == pytest.approx(7 * one.spread, rel=1e-9)


def test_noise_for_a_delta_is_the_exact_curve_s_or_laplace_where_that_is_less() -> None:
    many, few = Lattice(100, 1.0, 0.3), Lattice(3, 1.0, 0.3)
    gaussian, laplace = (
        Ladder().calibrate(lattice, ApproxDP(1.0, 1e-6), Neighbors.ADD_REMOVE)
        for lattice in (many, few)
    )
    assert isinstance(gaussian.rungs[0], GaussianOrthogonal)
    pure = Ladder().calibrate(few, PureDP(1.0), Neighbors.ADD_REMOVE)
    assert laplace.rungs == pure.rungs


def table(seed: int = 0, n: int = 4000) -> Any:
    """(n, 4) rows of very different lengths."""
    generator = np.random.default_rng(seed)
    rows = generator.standard_normal((n, 4)) @ np.diag([1, 0.7, 0.2, 0.1])
    return np.clip(rows * 10 ** generator.uniform(-2, -0.3, (n, 1)), -1, 1)


REQUESTS: list[dict[str, Any]] = [
    {"epsilon": 1.0},
    {"rho": 0.1, "neighbors": "replace-one"},
    {"epsilon": 1.0, "intercept": 0.0},
]


@pytest.mark.parametrize("request_", REQUESTS, ids=str)
def test_what_is_published_is_the_weighted_sum_of_the_rungs(request_: dict[str, Any]) -> None:
    made = dpcov.release(table(), lower=-1, upper=1, seed=1, mechanism="ladder", **request_)
    assert made.rungs is not None
    assert made.published is not None
    weights = made.noise.weights  # type: ignore[union-attr]
    plain = np.tensordot(weights, made.rungs.astype(float), 1)
    assert np.all(np.abs(plain - made.published) <= 0.51 + 1e-12 * np.abs(plain))
    assert weights[0] == made.lattice.bound / WHOLE
    assert np.array_equal(summed(made.rungs, rungs_of(made.lattice)), made.published)


def test_the_noise_of_the_sum_has_the_stated_size() -> None:
    rows = open_rows(table(), Schema.from_bounds(-1.0, 1.0, tuple("abcd")))
    exact = rows.second_moments()[0].units.astype(float)
    law = Ladder().calibrate(rows.lattice(), PureDP(1.0), Neighbors.ADD_REMOVE).matrix
    squares = []
    for seed in range(100):
        made = Ladder()(
            rows,
            budget=PureDP(1.0),
            neighbors=Neighbors.ADD_REMOVE,
            entropy=Entropy.seeded(seed),
        )
        assert made.published is not None
        squares.append(np.sum((made.published * 2.0**made.shift - exact) ** 2))
    mean, error = np.mean(squares), np.std(squares) / np.sqrt(len(squares))
    assert abs(mean - law.frobenius_squared) < 4 * error
    assert abs(mean - 2 * law.frobenius_squared) > 4 * error


def test_short_rows_get_less_noise_than_from_one_matrix() -> None:
    schema = Schema.from_bounds(-1.0, 1.0, tuple("abcd"), intercept=0.0)
    rows = open_rows(table(), schema)
    exact = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2

    asked: dict[str, Any] = {"budget": ZCDP(0.1), "neighbors": Neighbors.ADD_REMOVE}
    of_ladder = mean_error(Ladder(), rows, exact, 20, **asked)
    assert of_ladder < 0.6 * mean_error(Gaussian(), rows, exact, 20, **asked)


@given(st.integers(0, 10**6), st.floats(0.01, 1e4), st.integers(2, 5))
def test_parts_without_noise_are_put_together_to_the_whole(
    seed: int, size: float, count: int
) -> None:
    generator = np.random.default_rng(seed)
    roots = generator.standard_normal((count, 3, 3)) * size
    parts = roots @ roots.transpose(0, 2, 1)
    whole = parts.sum(axis=0)
    laws = [GaussianOrthogonal(3, Fraction(size) ** 2 / 10**16)] * count
    made = combiner(parts, laws, float(np.trace(whole)), size * 1e-8)(1.0)
    assert np.allclose(made.matrix, whole, rtol=1e-5, atol=1e-5 * size**2)
    assert made.trace == pytest.approx(np.trace(whole), rel=1e-6)


def test_parts_that_drown_are_left_out_with_their_noise() -> None:
    generator = np.random.default_rng(1)
    root = generator.standard_normal((6, 6))
    parts = np.stack([np.zeros((6, 6)), 100 * root @ root.T])
    laws = [GaussianOrthogonal(6, Fraction(10**4)), GaussianOrthogonal(6, Fraction(1))]
    errors, plain, left = [], [], []
    for _ in range(30):
        noisy = parts + np.stack([law.simulate(generator) for law in laws])
        made = combiner(noisy, laws, float(np.trace(parts[1])), 10.0)(1.0)
        errors.append(np.linalg.norm(made.matrix - parts[1]))
        plain.append(np.linalg.norm(noisy.sum(axis=0) - parts[1]))
        left.append(made.law.frobenius_squared / sum(law.frobenius_squared for law in laws))
    assert np.mean(left) < 0.2
    assert np.mean(errors) < 0.5 * np.mean(plain)


def by_traces_alone(
    found: Any, deviations: Any, told: float, deviation: float, mapped: bool
) -> Any:
    """Traces of the parts where overlaps tell nothing."""
    count = len(found)
    nothing = _Shared(np.zeros((count, count)), np.full((count, count), 1e60), np.ones(count), 6)
    return _traces(nothing, np.append(found, told), np.append(deviations, deviation), mapped)


def test_a_short_rung_that_is_sure_to_hold_rows_is_not_lost_in_the_noise_of_long_ones() -> None:
    """Its own trace counts where the sum of all is within its noise; control: the sum alone."""
    law, long = GaussianOrthogonal(6, Fraction(1)), GaussianOrthogonal(6, Fraction(10**6))
    deviations = np.sqrt([6 * each.diagonal_variance for each in (long, law)])
    generator = np.random.default_rng(1)
    kept, of_sums = [], []
    for _ in range(200):
        told = 100 + 1e4 * generator.standard_normal()
        found = np.array([0.0, 100.0]) + deviations * generator.standard_normal(2)
        kept.append(by_traces_alone(found, deviations, told, 1e4, False)[1])
        deviation = 1 / np.sqrt(1e-8 + 1 / np.sum(deviations**2))
        of_sums.append(float(james_stein(max(found.sum(), 0.0), deviation)))
    assert abs(np.median(kept) - 100) < 5
    assert np.median(of_sums) == 0


def test_a_long_rung_holds_no_more_than_the_next_shorter_unless_it_is_sure() -> None:
    deviations = np.array([10.0, 4.0, 1.0, 0.1])
    found = np.array([25.0, 2.0, 50.0, 20.0])
    alone = james_stein(found, deviations, ALONE)
    assert alone[0] > 10
    unsure = by_traces_alone(found, deviations, 97.0, 1e6, True)
    assert unsure == pytest.approx([0.0, 0.0, *alone[2:]], rel=1e-6)
    sure = by_traces_alone(np.array([60.0, 2.0, 50.0, 20.0]), deviations, 132.0, 1e6, True)
    assert sure[0] == pytest.approx(60 - 3 * 100 / 60, rel=1e-6)
    some = by_traces_alone(np.array([25.0, 9.0, 50.0, 20.0]), deviations, 104.0, 1e6, True)
    assert some[0] == some[1] == pytest.approx(9 - 3 * 16 / 9, rel=1e-6)


def test_traces_that_are_sure_are_those_that_were_seen() -> None:
    deviations = np.array([1e-3, 1e-4, 1e-5])
    found = np.array([5.0, 2.0, 0.0])
    for mapped in (False, True):
        kept = by_traces_alone(found, deviations, 7.0, 1e-3, mapped)
        assert kept == pytest.approx(found, abs=1e-4)
        assert not np.any(by_traces_alone(np.array([0.5, -1.0, 0.1]), np.ones(3), 0.5, 1.0, mapped))


@pytest.mark.parametrize("mapped", [False, True])
def test_traces_of_parts_that_share_few_directions_are_told_by_their_overlaps(mapped: bool) -> None:
    """Control: the traces alone, whose noise is that of all directions."""
    d, generator = 30, np.random.default_rng(1)
    direction = np.zeros((d, d))
    direction[0, 0] = 1.0
    true = np.array([60.0, 50.0, 40.0])
    laws = [GaussianOrthogonal(d, Fraction(4 ** (2 - k))) for k in range(3)]
    deviations = np.sqrt([d * law.diagonal_variance for law in laws])
    told, alone = [], []
    for _ in range(60):
        parts = true[:, None, None] * direction
        parts = parts + np.stack([law.simulate(generator) for law in laws])
        found = np.trace(parts, axis1=1, axis2=2)
        shared = _Shared.of(parts, laws)
        seen = np.append(found, 1e3 * generator.standard_normal())
        told.append(_traces(shared, seen, np.append(deviations, 1e3), mapped) - true)
        alone.append(by_traces_alone(found, deviations, seen[-1], 1e3, mapped) - true)
    errors, of_alone = (np.linalg.norm(each, axis=0) for each in (told, alone))
    assert np.all(errors < 0.8 * of_alone), errors / of_alone


def test_the_squared_norm_of_a_long_part_alone_tells_of_no_rows() -> None:
    """Noise can make it as large as that of many rows."""
    found, deviations = np.array([40.0, 2.0, 50.0, 200.0]), np.array([50.0, 4.0, 1.0, 1e3])
    seen = np.diag([1e6, 1.0, 2400.0])
    shared = _Shared(seen, np.ones((3, 3)), np.ones(3), 6)
    for mapped in (False, True):
        assert _traces(shared, found, deviations, mapped)[0] < 0.1


@pytest.mark.parametrize(
    ("rank", "theta", "apart"), [(1, 1.0, 0.2), (2, 0.5, 1.0), (6, 1 / 6, 1.0)]
)
def test_overlaps_of_parts_in_few_directions_can_differ_little(
    rank: int, theta: float, apart: float
) -> None:
    """<S, T> is at most tr S tr T: where it is nearly that, no other can be much above it."""
    part = np.diag([1.0] * rank + [0.0] * (6 - rank)) * 1e6 / rank
    shared = _Shared.of(np.stack([part, part]), [GaussianOrthogonal(6, Fraction(1))] * 2)
    assert shared.alike(np.array([1e6, 1e6])) == pytest.approx((theta, apart), rel=1e-4)


def test_a_part_that_is_sure_of_its_trace_is_not_left_out_for_the_noise_in_its_norm() -> None:
    """A squared norm is at least that of a flat spectrum. Control: norms as noise shows them."""
    d, generator = 60, np.random.default_rng(1)
    laws = [GaussianOrthogonal(d, Fraction(size)) for size in (10**4, 40)]
    flat = np.stack([100 * np.eye(d), np.zeros((d, d))])
    traces = np.array([100.0 * d, 20.0])
    kept, of_seen = [], []
    for _ in range(60):
        shared = _Shared.of(flat + np.stack([law.simulate(generator) for law in laws]), laws)
        overlaps, shares = shared.overlaps(traces)
        alike = shared.alike(traces)[0] * np.outer(traces, traces)
        values, vectors = np.linalg.eigh(shares * shared.seen + (1 - shares) * alike)
        seen = (vectors * np.maximum(values, 0.0)) @ vectors.T
        for found, about in ((kept, overlaps), (of_seen, seen)):
            weights = np.linalg.solve(about + np.diag(shared.noises), about.sum(axis=1)) * traces
            found.append(weights[0] / weights.sum())
    assert min(kept) > 0.9
    assert min(of_seen) < 0.1


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.floats(0.1, 10))
def test_james_stein_takes_more_of_what_is_less_sure(x: float, s: float, c: float) -> None:
    shrunk = float(james_stein(x, s, c))
    assert 0 <= shrunk <= max(x, 0)
    assert (shrunk == 0) == (x <= np.sqrt(c) * s) or shrunk < 1e-9 * s
    assert shrunk == pytest.approx(max(0, x - c * s**2 / x) if x > 0 else 0, rel=1e-6, abs=1e-6 * s)


def told_trace(seed: int, times: float, intercept: float) -> tuple[Release, float]:
    """A release whose trace is known well, and so many times what the quietest rung can show."""
    asked = {"lower": -1, "upper": 1, "mechanism": "ladder", "epsilon": 0.01}
    made = dpcov.release(table(n=50), seed=seed, intercept=intercept, **asked)
    law = made.noise
    assert isinstance(law, WeightedSum)
    shows = min(w * term.detectable for w, term in zip(law.weights, law.terms, strict=True))
    trace = int(times * shows)
    told = replace(made, published_trace=trace, trace_noise=ScalarLaplace(Fraction(trace, 1000)))
    return denoise(told, generator=simulation_generator(seed)), trace * made.lattice.step**2


@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_where_all_drowns_the_answer_is_a_scaled_identity(intercept: float) -> None:
    """With the count's corner, if any. A control: not where the trace says that something shows."""
    for seed in range(10):
        made, trace = told_trace(seed, 0.2, intercept)
        matrix = made.second_moment()
        corner = min(made.count() * made.intercept() ** 2, trace)
        assert np.array_equal(matrix, np.diag([*[matrix[0, 0]] * 4, *np.diag(matrix)[4:]]))
        assert np.trace(matrix[:4, :4]) == pytest.approx(trace - corner, abs=1e-4 * trace)
        assert np.trace(matrix) == pytest.approx(trace, rel=1e-4)
        made, trace = told_trace(seed, 50.0, intercept)
        matrix = made.second_moment()[:4, :4]
        assert np.abs(matrix - matrix[0, 0] * np.eye(4)).max() > 0.02 * trace


def test_control_without_the_gate_noise_is_taken_for_directions(monkeypatch: Any) -> None:
    monkeypatch.setattr("dpcov.denoise.nothing_shows", lambda *_: False)
    for seed in range(10):
        matrix = told_trace(seed, 0.2, 0.0)[0].second_moment()
        assert np.count_nonzero(matrix) == 16


def test_a_file_brings_the_rungs_back_and_denoising_repeats(tmp_path: Any) -> None:
    made = dpcov.release(table(), lower=-1, upper=1, seed=1, mechanism="ladder", epsilon=1.0)
    made.save(tmp_path / "a.json")
    read = Release.load(tmp_path / "a.json")
    assert np.array_equal(read.rungs, made.rungs)  # type: ignore[arg-type]
    assert read.noise == made.noise
    again = denoise(read, generator=simulation_generator(1))
    assert np.array_equal(again.second_moment(), made.second_moment())


@pytest.mark.parametrize("damage", ["lost", "short", "other noise", "no trace", "mixed orders"])
def test_a_file_whose_rungs_do_not_fit_is_refused(tmp_path: Any, damage: str) -> None:
    import json

    made = dpcov.release(table(), lower=-1, upper=1, seed=1, mechanism="ladder", epsilon=1.0)
    path = tmp_path / "a.json"
    made.save(path)
    document = json.loads(path.read_text())
    if damage == "lost":
        document["rungs"] = None
    elif damage == "short":
        document["rungs"][1].pop()
    elif damage == "other noise":
        document["noise"] = document["noise"]["terms"][0]
    elif damage == "no trace":
        document["trace_noise"] = document["published_trace"] = None
    else:
        document["noise"]["terms"][1]["dimension"] = 3
    path.write_text(json.dumps(document))
    with pytest.raises(ReleaseError):
        Release.load(path)


def test_a_share_without_a_meaning_is_refused() -> None:
    for share in (0.0, 1.0, -0.1, "half", float("nan")):
        with pytest.raises(MechanismError, match="trace_share"):
            Ladder(trace_share=share)  # type: ignore[arg-type]


def test_the_public_gate_spends_all_on_the_trace() -> None:
    made = dpcov.release(
        table(n=20),
        lower=-1,
        upper=1,
        seed=1,
        mechanism="ladder",
        epsilon=0.1,
        neighbors="replace-one",
    )
    assert made.published is None
    assert made.rungs is None
    assert made.trace_noise is not None
    alone = Ladder().calibrate(made.lattice, PureDP(0.1), Neighbors.REPLACE_ONE).trace_alone
    assert made.trace_noise == alone


def few_rows(times: float, columns: int = 8) -> tuple[Any, int]:
    """Rows in the unit ball, so few that they rise above noise by no more than so many times."""
    lattice = Lattice(columns, 1.0)
    law = Ladder().calibrate(lattice, PureDP(1.0), Neighbors.REPLACE_ONE).matrix
    count = math.ceil(times * law.detectable / lattice.bound)
    rows = np.random.default_rng(0).standard_normal((count, columns)) * np.linspace(2, 1, columns)
    names = tuple(f"x{j}" for j in range(columns))
    schema = Schema.from_bounds(-1.0, 1.0, names, radius=1.0, intercept=0.0)
    return open_rows(rows / np.linalg.norm(rows, axis=1).max(), schema), count


def test_a_known_number_of_rows_that_rises_less_than_twice_above_noise_gives_a_trace() -> None:
    for times, alone in ((1.9, True), (2.1, False)):
        rows, count = few_rows(times)
        made = Ladder()(
            rows,
            budget=PureDP(1.0),
            neighbors=Neighbors.REPLACE_ONE,
            entropy=Entropy.seeded(1),
        )
        assert made.unit_count == count
        assert (made.published is None) == alone
    other = Ladder()(
        few_rows(0.5)[0],
        budget=PureDP(1.0),
        neighbors=Neighbors.ADD_REMOVE,
        entropy=Entropy.seeded(1),
    )
    assert other.published is not None  # the number of rows is private


def test_such_a_trace_is_nearer_than_moments_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against those of the same rows with the gate as it would be without a margin."""
    rows, _ = few_rows(1.9)
    truth = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2
    laws = Ladder().calibrate(rows.lattice(), PureDP(1.0), Neighbors.REPLACE_ONE)

    def error(margin: float) -> float:
        found = []
        for seed in range(20):
            entropy = Entropy.seeded(seed)
            asked = drawn(laws, entropy), rows.rung_moments()
            monkeypatch.setattr("dpcov.mechanisms.ladder.MARGIN", margin)
            made = published(Ladder(), rows.schema, laws, *asked)
            estimate = denoise(made, generator=simulation_generator(seed)).second_moment()
            found.append(np.linalg.norm(estimate - truth))
        return float(np.mean(found))

    assert error(2.0) < 0.9 * error(1.0)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_trace_that_is_released_alone_has_the_whole_budget(neighbors: Neighbors) -> None:
    for lattice in (LATTICES[1], replace(LATTICES[1], unit=Unit("person", 3))):
        alone = Ladder().calibrate(lattice, PureDP(0.5), neighbors).trace_alone
        assert alone == ScalarLaplace(Fraction(lattice.unit_bound) * 2)
        alone = Ladder().calibrate(lattice, ZCDP(0.25), neighbors).trace_alone
        assert alone == ScalarGaussian(Fraction(lattice.unit_bound) ** 2 * 2)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_for_a_delta_variances_are_those_of_mu_and_8_more(neighbors: Neighbors) -> None:
    lattice, epsilon, delta = Lattice(100, 1.0, 0.3), 1.0, 1e-6
    laws = Ladder().calibrate(lattice, ApproxDP(epsilon, delta), neighbors)
    mu = Fraction(gaussian_mu(epsilon * (1 - 1e-12), delta))
    share, sides, bound = Fraction(1, 10), neighbors.sides, lattice.bound
    for law, rung in zip(laws.rungs, laws.squared, strict=True):
        part = Fraction(rung, bound)
        left = 1 - share * (part if sides == 1 else 1 - part) ** 2
        assert law.variance == sides * SIDE**4 / (mu**2 * left) + 8  # type: ignore[attr-defined]
    assert laws.trace == ScalarGaussian(sides * Fraction(bound) ** 2 / (mu**2 * share) + 8)
    assert laws.trace_alone == ScalarGaussian(Fraction(bound) ** 2 / mu**2 + 8)


@pytest.mark.parametrize("budget", BUDGETS, ids=lambda budget: type(budget).__name__)
def test_what_is_published_is_the_exact_answer_plus_draws_of_the_stated_laws(
    budget: Budget,
) -> None:
    mechanism = Ladder(trace_share=0.9)
    rows = open_rows(table(), Schema.from_bounds(-1.0, 1.0, tuple("abcd")))
    laws = mechanism.calibrate(rows.lattice(), budget, Neighbors.REPLACE_ONE)
    for opened in (rows, open_rows(table(n=1), rows.schema)):
        made = mechanism(
            opened, budget=budget, neighbors=Neighbors.REPLACE_ONE, entropy=Entropy.seeded(4)
        )
        again, found = Entropy.seeded(4), opened.rung_moments()
        draws = [law.sample(again) for law in laws.rungs]
        of_trace, alone = laws.trace.sample(again), laws.trace_alone.sample(again)
        if made.published is None:
            assert opened is not rows
            assert made.published_trace == found.trace + alone
            continue
        assert made.shift == shift_for(min(law.spread for law in laws.rungs))
        assert made.shift != shift_for(max(law.spread for law in laws.rungs))
        assert made.published_trace == found.trace + of_trace
        assert made.rungs is not None
        for rung, units, noise in zip(made.rungs, found.units, draws, strict=True):
            assert np.array_equal(rung, coarse(units + noise, made.shift))
    assert made.published is None


def test_noise_that_64_bits_can_not_hold_is_refused() -> None:
    laws = Ladder().calibrate(LATTICES[1], PureDP(1.0), Neighbors.ADD_REMOVE)
    huge = ScalarLaplace(Fraction(2**81))
    for change in (
        {"trace": huge},
        {"trace_alone": huge},
        {"rungs": tuple(law.rescaled(1e18) for law in laws.rungs)},
    ):
        with pytest.raises(MechanismError):
            replace(laws, **change)
    assert Ladder().passes == 1
