"""Marks of figures that rows far from all others can change."""

from __future__ import annotations

from functools import partial
from itertools import combinations

import numpy as np
import pytest

import dpcov
from dpcov.analysis import hidden_tails
from dpcov.analysis.hidden_tails import HiddenTails, tail_effects
from dpcov.analysis.intervals import STATISTICS, Coefficients
from dpcov.estimate import Estimate

FAR_ROWS = 40


def with_far_rows(seed: int) -> np.ndarray:
    """Return 8,000 rows of three columns. A few rows are far out in the first two columns."""
    table = np.random.default_rng(seed).normal(size=(8000, 3))
    table[:FAR_ROWS, :2] = 12
    return table.clip([-14, -14, -3], [14, 14, 3])


def released(table: np.ndarray, seed: int, **options: float) -> dpcov.Release:
    bounds = np.array([14.0, 14.0, 3.0])
    return dpcov.release(table, lower=-bounds, upper=bounds, seed=seed, **options)


def center_of(made: dpcov.Release) -> np.ndarray:
    """Return the second moment that errors belong to."""
    draws = np.random.default_rng(0)
    return Estimate.of(made).errors(sampling=False, generator=draws, draws=2).center


def effects(made: dpcov.Release, name: str, depends_on: str) -> np.ndarray:
    """Return the effects of hidden tails on a statistic."""
    center = center_of(made)
    function = partial(STATISTICS[name].values, made)
    (found,) = tail_effects(made, [(function, depends_on)], center)
    return np.asarray(found)


@pytest.mark.parametrize("columns", range(9))
def test_every_pair_is_in_one_set_and_no_set_has_a_column_twice(columns: int) -> None:
    sets = hidden_tails._sets_of_pairs(columns).tolist()
    found = sorted(tuple(sorted(pair)) for one in sets for pair in one)
    assert found == list(combinations(range(columns), 2))
    for one in sets:
        assert len({at for pair in one for at in pair}) == 2 * len(one)


def test_a_tail_in_two_columns_changes_a_covariance() -> None:
    """Control: a tail in one column changes no covariance."""
    made = released(with_far_rows(1), 1, epsilon=1.0)
    squares = Estimate.of(made).hidden_tails[0] * made.scales**2 / made.count()
    assert (squares > 0).tolist() == [True, True, False]  # the third column has near bounds
    both, alone = (effects(made, "covariance", of) for of in ("two columns", "one column"))
    assert both[1] == pytest.approx(np.sqrt(squares[0] * squares[1]) / 2, rel=1e-6)
    assert alone[1] < 0.01 * both[1]
    assert both[[0, 2]] == pytest.approx(alone[[0, 2]])  # variances
    assert alone[[0, 2]] == pytest.approx(squares[:2], rel=0.05)  # a shift of the mean adds some


@pytest.mark.parametrize("name", ["covariance", "correlation"])
def test_pairs_at_once_and_one_after_the_other_have_the_same_effects(name: str) -> None:
    table = np.random.default_rng(2).normal(size=(4000, 5)) + np.arange(4000)[:, None] % 2
    made = dpcov.release(table, lower=-20, upper=20, epsilon=1.0, seed=2)
    at_once, single = (effects(made, name, of) for of in ("two columns", "all columns"))
    assert at_once.any()
    assert at_once == pytest.approx(single, rel=1e-5)
    if name == "correlation":
        assert (at_once > 1.1 * effects(made, name, "one column")).any()


def test_only_the_longest_tails_have_pairs_if_figures_depend_on_all_columns(monkeypatch) -> None:
    table = np.random.default_rng(3).normal(size=(4000, 3))
    made = dpcov.release(table, lower=-20, upper=[20, 10, 20], epsilon=1.0, seed=3)
    tails = HiddenTails.of(made, center_of(made))
    assert len(tails._pairs("all columns")) == 3
    monkeypatch.setattr(hidden_tails, "MAX_PAIRED_COLUMNS", 2)
    (pair,) = tails._pairs("all columns").tolist()
    longest = np.argsort(tails.squares)[1:]
    assert sorted(pair[0]) == sorted(longest)


def test_covariances_that_miss_far_rows_are_marked() -> None:
    """Control: tails in one column mark no covariance of these releases."""
    missed, marked, single = 0, 0, 0
    for seed in range(20):
        table = with_far_rows(seed)
        made = released(table, seed, epsilon=0.3)
        found = dpcov.intervals(made, "covariance", sampling=False)
        truth = np.cov(table.T, bias=True)[0, 1]
        if not found.low[0, 1] <= truth <= found.high[0, 1]:
            missed += 1
            marked += found.depends_on_tail[0, 1]
            reach = (found.high - found.low)[0, 1] / 2
            single += effects(made, "covariance", "one column")[1] > reach
    assert missed >= 10
    assert marked == missed
    assert single == 0


def test_a_column_that_does_not_vary_has_no_tail() -> None:
    made = released(with_far_rows(4), 4, epsilon=1.0)
    center = center_of(made)
    center[0] = center[:, 0] = 0.0
    assert HiddenTails.of(made, center).columns.tolist() == [1]


def test_coefficients_depend_on_tails_in_two_columns() -> None:
    """Control: a tail in one column changes no coefficient of independent columns."""
    table = np.random.default_rng(5).normal(size=(5000, 3))
    made = dpcov.release(table, lower=-100, upper=100, epsilon=1.0, seed=5)
    center = np.diag(np.diag(center_of(made)))
    function = partial(Coefficients("x0", None).values, made)
    alone, whole = (
        tail_effects(made, [(function, of)], center)[0] for of in ("one column", "all columns")
    )
    assert alone == pytest.approx(np.array([np.max(alone), 0, 0]))
    squares = Estimate.of(made).hidden_tails[0]
    assert whole[1:] == pytest.approx(np.sqrt(squares[0] * squares[1:]) / np.diag(center)[1:3] / 2)
