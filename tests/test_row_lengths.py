"""Counts of rows by length: what they hold, and where they put the second rung."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from denoised_errors import mean_error
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, Neighbors
from dpcov.mechanisms import ShapedLadder
from dpcov.mechanisms.row_lengths import BETTER, RowLengths
from dpcov.releases import Release
from dpcov.rows.linear_map import LinearMap
from dpcov.rows.moment import Lattice
from dpcov.rows.rungs import MOST_RUNGS, rungs_of
from dpcov.rows.schema import Schema
from dpcov.samplers.scalars import ScalarGaussian
from dpcov.sources import open_rows

PLAIN, CENTRED = Lattice(3, 1.0), Lattice(3, 1.0, 0.01)
NOISE = 30.0


def lengths_of(*squared: float, lattice: Lattice = PLAIN, rows: int = 10_000) -> RowLengths:
    counts = np.full(len(squared), rows / len(squared))
    return RowLengths(np.array(squared), counts, lattice)


def left(lengths: RowLengths, second: int | None) -> float:
    traces, rungs = lengths.on_rungs(second)
    squared = (NOISE * rungs) ** 2
    return float(np.sqrt(np.sum(traces**2 * squared / (traces**2 + squared))))


@given(st.integers(2**20, 2**40 - 1), st.sampled_from([0.0, 0.01, 0.3]))
def test_rungs_fall_by_four_from_the_second_on(second: int, intercept: float) -> None:
    lattice = Lattice(3, 1.0, intercept, second_rung=second)
    rungs, constant = rungs_of(lattice), lattice.intercept_units**2
    assert rungs[0] == lattice.bound
    assert len(rungs) <= MOST_RUNGS
    assert all(upper > lower > 0 for upper, lower in itertools.pairwise(rungs))
    between = rungs[1:-1] if constant else rungs[1:]
    if second > 1.3 * constant:
        assert between[0] == second
    assert all(lower == upper // 4 for upper, lower in itertools.pairwise(between))
    if constant:
        assert rungs[-1] == constant


@pytest.mark.parametrize("lattice", [PLAIN, CENTRED], ids=str)
@pytest.mark.parametrize("length", [0.6, 0.3, 0.1, 0.02])
def test_the_second_rung_is_just_above_most_rows(length: float, lattice: Lattice) -> None:
    lengths = lengths_of(length, 0.9 * length, 0.8 * length, lattice=lattice)
    second = lengths.best_second(NOISE)
    assert second is not None
    of_period = [second / lattice.bound / 4**k for k in range(4)]
    assert any(length <= rung < 1.25 * length for rung in of_period)
    assert left(lengths, second) < BETTER * left(lengths, None)


def test_it_stays_where_it_is_if_that_is_about_as_good() -> None:
    assert lengths_of(0.25, 0.24, 0.23).best_second(NOISE) is None
    none = RowLengths(np.array([0.1, 1.0]), np.zeros(2), PLAIN)
    assert none.best_second(NOISE) is None


@given(st.integers(0, 2**32))
def test_no_place_on_the_grid_leaves_less(seed: int) -> None:
    generator = np.random.default_rng(seed)
    lengths = lengths_of(*generator.uniform(0, 1, 5), rows=int(generator.integers(10, 10**6)))
    best = lengths.best_second(NOISE)
    found = left(lengths, best)
    for part in range(1, 49):
        other = left(lengths, int(PLAIN.bound * 2.0 ** (-part / 4)))
        assert other >= (found if best is not None else BETTER * found) * (1 - 1e-9)


@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_rows_are_counted_where_their_images_are(intercept: float) -> None:
    table = np.random.default_rng(0).uniform(-0.5, 0.5, (5000, 2))
    names = ("a", "b")
    rows = open_rows(table, Schema.from_bounds(-1.0, 1.0, names, radius=1.4, intercept=intercept))
    lattice = rows.lattice()
    law = ScalarGaussian(Fraction(1, 100))
    unmapped = LinearMap.rounded(np.eye(2))
    found = RowLengths.counted(rows, lattice, unmapped, law, Entropy.seeded(1))
    assert found.counts.sum() == pytest.approx(len(table), abs=5)
    images = np.sum(table**2, axis=1) / 1.4**2
    shares = images * (1 - lattice.intercept_units**2 / lattice.bound)
    wanted = np.mean(shares) + lattice.intercept_units**2 / lattice.bound
    assert found.counts @ found.squared / found.counts.sum() == pytest.approx(wanted, rel=0.05)
    for at in (12, 18):
        between = found.squared[at : at + 2].mean()
        longer = np.mean(shares + wanted - np.mean(shares) > between)
        assert found.counts[at + 1 :].sum() / len(table) == pytest.approx(longer, abs=0.06)


def alike(n: int = 20_000) -> Any:
    """(n, 6) rows that are all about as long, a little longer than a rung usually is."""
    generator = np.random.default_rng(0)
    rows = generator.standard_normal((n, 6)) * np.array([1, 0.8, 0.6, 0.5, 0.4, 0.3])
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    return 0.3 * rows * generator.uniform(0.9, 1.0, (n, 1))


@pytest.mark.parametrize("neighbors", Neighbors)
def test_rungs_where_rows_are_leave_less_noise(
    neighbors: Neighbors, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the same mechanism with its rungs where they always are."""
    table = alike()
    names = tuple(f"x{j}" for j in range(6))
    rows = open_rows(table, Schema.from_bounds(-1.0, 1.0, names, radius=1.0))
    truth = np.cov(table.T, bias=True)

    asked: dict[str, Any] = {"budget": ZCDP(2.0), "neighbors": neighbors, "of": Release.covariance}
    counted = mean_error(ShapedLadder(), rows, truth, 8, **asked)
    monkeypatch.setattr(RowLengths, "best_second", lambda *_: None)
    assert counted < 0.6 * mean_error(ShapedLadder(), rows, truth, 8, **asked)
