"""Stable rows: exact decisions, the definition by brute force, sensitivity between neighbours."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import linalg

from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError
from dpcov.papers.primitives import certified, stable_rows
from dpcov.papers.primitives.certified import Factor
from dpcov.papers.primitives.stable_rows import (
    Leverages,
    StableRows,
    closeness,
    least_units,
    leverage_for,
    second_moment,
    usual_leverage,
)
from dpcov.rows.sources.rows import IntegerRows

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE


def table_of(units):
    """Return rows in memory of these units; each unit is a list of integer rows."""
    rows = [row for unit in units for row in unit]
    owners = [i for i, unit in enumerate(units) for _ in unit]
    width = len(rows[0]) if rows else 1
    matrix = np.array(rows, dtype=np.float64).reshape(-1, width).T
    return IntegerRows(matrix, np.array(owners, dtype=np.int64), len(units))


def gram_of(units, weights=None):
    """Return (d, d) exact I + sum of weighted row outer products, as Fractions."""
    d = len(next(row for unit in units for row in unit))
    gram = np.array([[Fraction(i == j) for j in range(d)] for i in range(d)], dtype=object)
    for i, unit in enumerate(units):
        for row in unit:
            whole = np.array([int(x) for x in row], dtype=object)
            gram = gram + (1 if weights is None else weights[i]) * np.outer(whole, whole)
    return gram


def exact_leverages(units):
    inverse, determinant = certified.adjugate(np.vectorize(int, otypes=[object])(gram_of(units)))
    adjugate = certified.array_of(inverse)
    return [
        sum(
            (
                Fraction(int(np.array(r, dtype=object) @ adjugate @ np.array(r, dtype=object)))
                for r in [[int(x) for x in row] for row in unit]
            ),
            Fraction(0),
        )
        / determinant
        for unit in units
    ]


# Decisions.


def nearly_tied(n, above):
    """Return rows of which the first has a leverage that differs from 1/n by only 2^-80 / n^2."""
    s = 2**40 - 87
    rest = [s] * (n - 1)
    square = s * s - 2 if above else 0
    while square:
        rest.append(math.isqrt(square))
        square -= rest[-1] ** 2
    return [[(x,)] for x in (rest if above else [s] * n)]


@pytest.mark.parametrize("n", [3, 10])
@pytest.mark.parametrize("above", [False, True])
def test_leverages_that_floats_cannot_distinguish_from_the_bound_are_decided_rightly(n, above):
    units = nearly_tied(n, above)
    exact = [h > Fraction(1, n) for h in exact_leverages(units)]
    assert exact[0] is above
    table = table_of(units)
    found = Leverages.of(table, np.ones(len(units), np.bool_)).above(n)
    np.testing.assert_array_equal(found, np.flatnonzero(exact))
    in_floats = table.rows[0] ** 2 / (1 + (table.rows[0] ** 2).sum()) * n
    assert not in_floats[0] > 1  # the naive decision sees no difference


def tricky_rows(rng, n, d):
    """Return rows of very different size in skew directions; some are equal, some are 0."""
    sizes = 2.0 ** rng.integers(0, 39, d)
    rows = rng.normal(size=(n, d)) * sizes
    if d > 1:
        rows[:, 1] += rows[:, 0] * rng.integers(-3, 4)
    rows[rng.random(n) < 0.1] = 0
    rows[: n // 4] = rows[0]
    return np.rint(np.clip(rows, -(2.0**40), 2.0**40))


@pytest.mark.parametrize("seed", range(6))
def test_bounds_of_leverages_hold_and_are_close_whatever_the_condition(seed):
    rng = np.random.default_rng(seed)
    rows = tricky_rows(rng, 30, 1 + seed)
    units = [[tuple(row)] for row in rows]
    factor = Factor.of(np.vectorize(int, otypes=[object])(gram_of(units)))
    low, high = factor.squared_norms(rows.T)
    for least, most, exact in zip(low, high, exact_leverages(units), strict=True):
        assert Fraction(least) <= exact <= Fraction(most)
        assert most - least <= 1e-6


def test_what_no_factor_decides_is_decided_exactly(monkeypatch):
    rng = np.random.default_rng(3)
    units = [[tuple(row)] for row in tricky_rows(rng, 40, 3)]
    stable = StableRows(12, 3)
    expected = stable(table_of(units))
    monkeypatch.setattr(stable_rows.Factor, "of", lambda _: None)
    score, weights = stable(table_of(units))
    assert score == expected[0]
    np.testing.assert_array_equal(weights, expected[1])


def test_second_moments_of_large_integers_are_exact():
    rng = np.random.default_rng(4)
    rows = rng.integers(-(2**40), 2**40, size=(3, 9000)).astype(np.float64)
    weights = rng.integers(0, 4, 9000)
    whole = rows.astype(np.int64).astype(object)
    np.testing.assert_array_equal(second_moment(rows, weights), (whole * weights) @ whole.T)
    np.testing.assert_array_equal(second_moment(rows), whole @ whole.T)
    assert not np.array_equal((rows @ rows.T).astype(object), whole @ whole.T)


# The definition.


def good(units, chosen, bound):
    picked = [units[i] for i in chosen]
    return not picked or all(h <= bound for h in exact_leverages(picked))


def by_enumeration(units, ceiling, limit):
    """Score and weights, S_l being the largest of all subsets that are good."""
    levels = []
    for level in range(2 * limit + 1):
        bound = Fraction(1, ceiling - level)
        sizes = range(len(units), -1, -1)
        subsets = itertools.chain(*(itertools.combinations(range(len(units)), s) for s in sizes))
        levels.append(next(set(s) for s in subsets if good(units, s, bound)))
    return levels_to_score(levels, len(units), limit)


def by_single_deletions(units, ceiling, limit, rng):
    """Score and weights by deleting one unit at a time, in any order, in exact arithmetic."""
    levels = []
    for level in range(2 * limit + 1):
        bound, chosen = Fraction(1, ceiling - level), list(range(len(units)))
        while chosen:
            leverages = exact_leverages([units[i] for i in chosen])
            over = [i for i, h in zip(chosen, leverages, strict=True) if h > bound]
            if not over:
                break
            chosen.remove(over[rng.integers(len(over))])
        levels.append(set(chosen))
    return levels_to_score(levels, len(units), limit)


def levels_to_score(levels, count, limit):
    outside = [level + count - len(levels[level]) for level in range(limit + 1)]
    inside = levels[limit + 1 :]
    return min([limit, *outside]), [sum(i in level for level in inside) for i in range(count)]


def agree(stable, units, score, weights):
    found, given = stable(table_of(units))
    assert found == score
    if score < stable.limit:
        assert given.tolist() == weights


@pytest.mark.parametrize("seed", range(12))
def test_scores_and_weights_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 3, 4], size=rng.integers(8, 11), p=[0.1, 0.3, 0.5, 0.1])
    units = [[(int(x),)] for x in sizes]
    agree(StableRows(8, 2), units, *by_enumeration(units, 8, 2))


@pytest.mark.parametrize("persons", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_deletions_does_not_matter(seed, persons):
    rng = np.random.default_rng(seed)
    units = [
        [tuple(rng.integers(-9, 10, 2).tolist()) for _ in range(1 + persons * rng.integers(3))]
        for _ in range(34)
    ]
    units[0] = [(60, 3)]
    ceiling = 11 if persons else 14
    for stable in (StableRows(ceiling, 3), StableRows(ceiling - 2, 2)):
        expected = by_single_deletions(units, stable.ceiling, stable.limit, rng)
        agree(stable, units, *expected)


# Sensitivity.


def unit_of(rng, d, most_rows):
    """Return rows of one unit: ordinary, long, far longer, along an axis, or ignored."""
    count = rng.integers(1, most_rows + 1)
    rows = rng.integers(-9, 10, (count, d))
    kind = rng.integers(6)
    if kind == 0:
        rows = rows * rng.choice([3, 50, 1000])
    if kind == 1:
        rows[:, 1:] = 0
    if kind == 2:
        return [tuple([0] * d)] * count if rng.random() < 0.5 else []
    return [tuple(row) for row in rows.tolist()]


def neighbours(seed, d, most_rows, ceiling, pairs):
    """Yield lists of units that differ in one unit, most on the edge of refusal."""
    rng = np.random.default_rng(seed)
    for _ in range(pairs):
        n = int(ceiling * d * rng.uniform(0.9, 2.2))
        bulk = [unit_of(rng, d, most_rows) for _ in range(max(3, n // 6))]
        calm = [u for u in bulk if u and max(max(map(abs, row)) for row in u) < 10] or [[(5,) * d]]
        units = [calm[rng.integers(len(calm))] for _ in range(n)]  # with many duplicates
        for _ in range(rng.integers(0, 4)):
            units[rng.integers(n)] = unit_of(rng, d, most_rows)
        if rng.random() < 0.2 and d > 1:
            units = [[(*row[:-1], 0) for row in unit] for unit in units]
        place = rng.integers(n)
        if rng.random() < 0.5:
            changed = unit_of(rng, d, most_rows)
        else:
            changed = calm[rng.integers(len(calm))]
        yield units, place, changed


def between(stable, one, other):
    """Change of the score, and the relative one of the moment (None unless both pass)."""
    results, grams = [], []
    for units in (one, other):
        score, weights = stable(table_of(units))
        shares = [Fraction(int(w), stable.limit) for w in weights]
        results.append(score)
        grams.append(gram_of(units, shares).astype(np.float64))
    if max(results) >= stable.limit:
        return abs(results[0] - results[1]), None
    ratios = [
        np.linalg.norm(linalg.eigh(a, b, eigvals_only=True) - 1)
        for a, b in (grams, reversed(grams))
    ]
    return abs(results[0] - results[1]), max(ratios)


@pytest.mark.parametrize(("d", "most_rows"), [(1, 1), (2, 1), (3, 1), (2, 3)])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_score_and_moment_change_by_no_more_than_proved(neighbors, d, most_rows):
    stable = StableRows(20, 5)
    bound, scores, moments = stable.closeness(neighbors), [], []
    for units, place, changed in neighbours(7, d, most_rows, stable.ceiling, 250):
        if neighbors is ADD:
            other = units[:place] + units[place + 1 :]
        else:
            other = [*units[:place], changed, *units[place + 1 :]]
        score, moment = between(stable, units, other)
        scores.append(score)
        if moment is not None:
            moments.append(moment / bound)
    assert max(scores) == (1 if neighbors is ADD else 2)
    assert len(moments) > 40
    assert 0.05 < max(moments) <= 1


EQUAL = [[(3,)]] * 20


def test_levels_that_are_not_spaced_let_one_unit_change_everything(monkeypatch):
    """The broken version has one bound for all levels: 20 equal rows pass it, and 19 fail it."""
    stable = StableRows(20, 5)
    assert between(stable, EQUAL, EQUAL[1:])[0] <= 1
    above = Leverages.above
    monkeypatch.setattr(Leverages, "above", lambda self, _: above(self, 20))
    assert between(stable, EQUAL, EQUAL[1:])[0] == 5


def test_weights_without_levels_break_the_bound(monkeypatch):
    """The broken version has weights 1 or 0 only: without one row, 19 others exceed a bound."""
    stable = StableRows(200, 20)
    units = [[(2,)]] * 19 + [[(1,)]] * 639
    bound = stable.closeness(ADD)
    right = between(stable, units, units[:-1])
    assert right[1] <= bound
    called = StableRows.__call__

    def all_or_nothing(self, table):
        score, weights = called(self, table)
        return score, np.where(weights == self.limit, weights, 0)

    monkeypatch.setattr(StableRows, "__call__", all_or_nothing)
    assert between(stable, units, units[:-1])[1] > 3 * bound


def test_the_closeness_is_what_changes_of_these_leverages_can_reach():
    """Add: P with tr(G'^-1 P) = 2 L. Replace: besides M, orthogonal, with tr(G^-1 M) = L."""
    leverage = 1 / 50
    gram, more = np.diag([1 - 2 * leverage, 1.0]), np.diag([2 * leverage, 0.0])
    less = np.diag([0.0, leverage])
    for change, neighbors in ((more, ADD), (more - less, SWAP)):
        ratios = linalg.eigh(gram + change, gram, eigvals_only=True)
        attained = np.linalg.norm(ratios - 1)
        assert attained <= closeness(leverage, neighbors) <= attained * (1 + 1e-9)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_leverage_for_a_closeness_is_its_inverse(neighbors):
    for closest in (1e-4, 0.01, 0.5):
        leverage = leverage_for(closest, neighbors)
        assert closeness(leverage, neighbors) <= closest
        assert closeness(leverage * (1 + 1e-9), neighbors) > closest * (1 - 1e-8)


def test_usual_leverages_are_the_quantiles_of_squared_norms():
    assert usual_leverage(1, 1000) == pytest.approx(10.8276, rel=1e-5)
    units = least_units(500, 3)
    assert units / usual_leverage(3, units) == pytest.approx(500, rel=1e-3)


def test_a_ceiling_too_low_for_the_limit_is_refused():
    with pytest.raises(MechanismError):
        StableRows(31, 10)
    StableRows(32, 10)


def test_a_table_without_rows_has_score_0():
    score, weights = StableRows(12, 3)(IntegerRows(np.empty((2, 0)), np.empty(0, np.int64), 0))
    assert score == 0
    assert weights.size == 0
