"""Mean and variance of a column without bounds: privacy on tiny tables, accuracy, refusals."""

import functools
import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpcov.api.ledger import Ledger
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors, PureDP
from dpcov.errors import (
    BudgetError,
    LedgerError,
    MechanismError,
    MechanismRefused,
    SourceError,
)
from dpcov.papers import univariate
from dpcov.papers.accounting import compose_gdp, with_bad_events
from dpcov.papers.primitives.histogram import STEPS_PER_VOTE, GaussianHistograms
from dpcov.papers.univariate import VALUE_STEPS, mean_and_variance, plan

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def released(column, seed, neighbors=ADD, epsilon=1.0):
    return mean_and_variance(column, epsilon=epsilon, delta=1e-6, neighbors=neighbors, seed=seed)


# Privacy: the matching of pairs.


def matchings(rows):
    """Yield all ways to pair the rows; if their number is odd, one row has no pair."""
    if len(rows) < 2:
        yield ()
        return
    first, rest = rows[0], rows[1:]
    for at, partner in enumerate(rest):
        for others in matchings(rest[:at] + rest[at + 1 :]):
            yield ((first, partner), *others)
    if len(rows) % 2:
        yield from matchings(rest)


def in_order(rows):
    """Pair the rows by their position (broken)."""
    yield tuple(zip(rows[::2], rows[1::2], strict=False))


HISTOGRAM = GaussianHistograms(2.0, 0.2, SWAP)
KEYS = (0, 1, 2)  # differences of 1, 2 or 3, and 4 or more, of values in 0..5


@functools.cache
def law_of_bin(count):
    """Return the distribution of a bin: hidden, then cells above the threshold."""
    if count == 0:
        return np.array([1.0] + [0.0] * 17)
    spread = HISTOGRAM.noise.standard_deviation / STEPS_PER_VOTE
    edges = HISTOGRAM.threshold / STEPS_PER_VOTE + spread * np.linspace(0, 6, 17)
    tails = stats.norm.sf(edges, count, spread)
    return np.array([1 - tails[0], *(tails[:-1] - tails[1:]), tails[-1]])


def law_of_scale(rows, pairings):
    """Return the exact distribution of the histogram of differences, over all pairings."""
    total, number = 0.0, 0
    for pairs in pairings(rows):
        sizes = [math.frexp(abs(a - b))[1] - 1 for a, b in pairs if a != b]
        bins = [law_of_bin(sizes.count(key)) for key in KEYS]
        total = total + functools.reduce(np.multiply.outer, bins)
        number += 1
    return total / number


def worst_excess(neighbors, pairings, epsilon):
    values, rng = range(6), np.random.default_rng(1)
    worst = 0.0
    law = functools.cache(lambda rows: law_of_scale(rows, pairings))
    bases = [tuple(int(x) for x in rng.choice(values, n)) for n in (2, 3, 4) for _ in range(6)]
    for base in [*bases, (0, 1, 0, 1), (0, 1, 5, 1), (0, 0, 1, 1, 0)]:
        for new in values:
            for old in range(1 if neighbors is ADD else len(base)):
                other = (new, *base) if neighbors is ADD else (*base[:old], new, *base[old + 1 :])
                p, q = law(base), law(other)
                ways = (p - math.exp(epsilon) * q, q - math.exp(epsilon) * p)
                worst = max(worst, *(float(np.maximum(way, 0).sum()) for way in ways))
    return worst


@each_relation
@pytest.mark.parametrize("inner", [0.5, 2.0])
def test_random_pairs_keep_what_one_moved_vote_costs(neighbors, inner):
    epsilon, delta = with_bad_events(HISTOGRAM.mu, inner, HISTOGRAM.bad)
    assert worst_excess(neighbors, matchings, epsilon) <= delta


def test_pairs_by_position_break_add_remove():
    epsilon, delta = with_bad_events(HISTOGRAM.mu, 0.5, HISTOGRAM.bad)
    assert worst_excess(ADD, in_order, epsilon) > 1.05 * delta
    assert worst_excess(SWAP, in_order, epsilon) <= delta


def test_the_pairs_that_are_drawn_are_a_uniform_matching(monkeypatch):
    """Five rows, 1, 2, 4, 8, 16 times a constant: differences reveal the pairs."""
    seen = {}
    monkeypatch.setattr(univariate, "_fullest", lambda _, votes, __: seen.update(votes=votes) or 0)
    monkeypatch.setattr(np, "frexp", lambda apart: (apart, np.sort(apart)))
    rows, entropy = np.array([1.0, 2, 4, 8, 16]), Entropy.seeded(2)
    possible = sorted(
        tuple(sorted(abs(a - b) for a, b in pairs)) for pairs in matchings(tuple(rows))
    )
    counts = dict.fromkeys(possible, 0)
    for _ in range(3000):
        univariate._scale(HISTOGRAM, rows, entropy)
        counts[tuple(seen["votes"])] += 1
    assert len(possible) == 15
    assert stats.chisquare(list(counts.values())).pvalue > 1e-3


# Privacy: the sums, and the account.


@each_relation
def test_the_sums_change_by_their_sensitivity_and_no_more(neighbors):
    rng = np.random.default_rng(3)
    values = np.concatenate([np.linspace(-1, 1, 41), rng.uniform(-3, 3, 80), [0.5 / VALUE_STEPS]])
    sums = [np.array(univariate._sums(np.array([u])), dtype=object) for u in values]
    others = [np.array([0, 0])] if neighbors is ADD else sums
    changes = [a - b for a, b in itertools.product(sums, others)]
    worst = max(int(change @ change) for change in changes)
    stated = univariate._sums_squared(neighbors)
    assert 0.999 * stated < worst <= stated
    assert not worst <= stated / 2


def account(planned, neighbors, factor=1.0):
    """Return the (epsilon, delta) of a plan whose noise is `factor` times as wide."""
    moved = 2 if neighbors is SWAP else 1
    laws = [(planned.scale.noise, 2), (planned.place.noise, moved)]
    squares = [STEPS_PER_VOTE**2 * votes / float(law.variance - 8) for law, votes in laws]
    squares.append(float(univariate._sums_squared(neighbors) / (planned.sums.variance - 8)))
    if planned.count is not None:
        squares.append(STEPS_PER_VOTE**2 / float(planned.count.variance - 8))
    mu = compose_gdp([math.sqrt(square) / factor for square in squares])
    bad = 0.0
    for histogram in (planned.scale, planned.place):
        spread = histogram.noise.standard_deviation * factor
        bad += stats.norm.sf((histogram.threshold - STEPS_PER_VOTE - 1) / spread)
    inner = planned.guarantee.budget.epsilon + math.log1p(-bad)
    return with_bad_events(mu, inner, bad)


@each_relation
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.1, 1e-9), (5.0, 1e-3)])
def test_all_that_is_drawn_adds_up_to_the_budget(epsilon, delta, neighbors):
    planned = plan(epsilon, delta, neighbors)
    assert planned.guarantee.budget == ApproxDP(epsilon, delta)
    found = account(planned, neighbors)
    assert found[0] <= epsilon * (1 + 1e-12)
    assert 0.999 * delta < found[1] <= delta
    assert account(planned, neighbors, factor=0.99)[1] > 1.02 * delta
    assert (planned.count is None) == (neighbors is SWAP)


# Accuracy.


@pytest.mark.parametrize(("place", "scale"), [(0.0, 1.0), (1e9, 1e-3), (-3.0, 1e12)])
@each_relation
def test_place_and_scale_may_be_anything(place, scale, neighbors):
    column = np.random.default_rng(4).normal(place, scale, 20_000)
    made = released(column, 5, neighbors)
    assert abs(made.mean - column.mean()) < 0.02 * scale
    assert abs(made.variance / column.var() - 1) < 0.15
    assert abs(made.count - 20_000) < (1 if neighbors is SWAP else 200)


@each_relation
def test_intervals_cover_and_would_not_if_they_were_half_as_wide(neighbors):
    hits = {"mean": [], "half": [], "variance": []}
    for seed in range(300):
        made = released(np.random.default_rng(seed).normal(3.0, 2.0, 3000), seed, neighbors)
        low, high = made.mean_interval(0.9)
        hits["mean"].append(low <= 3 <= high)
        hits["half"].append(abs(made.mean - 3) <= (high - low) / 4)
        low, high = made.variance_interval(0.9)
        hits["variance"].append(low <= 4 <= high)
    chances = {name: stats.binomtest(sum(found), 300, 0.9).pvalue for name, found in hits.items()}
    assert chances["mean"] > 1e-3
    assert sum(hits["variance"]) >= 0.87 * 300  # the noise dominates, and it is normal
    assert chances["half"] < 1e-9


@each_relation
def test_the_number_of_rows_that_is_said_to_be_needed_suffices_and_a_third_does_not(neighbors):
    needed = plan(1.0, 1e-6, neighbors).rows_needed

    def refusals(n):
        found = 0
        for seed in range(60):
            try:
                released(np.random.default_rng(seed).normal(0, 1 + seed / 60, n), seed, neighbors)
            except MechanismRefused:
                found += 1
        return found

    assert refusals(needed) == 0
    assert refusals(needed // 3) > 50


# Refusals and odd tables.

ODD = {
    "empty": [],
    "one": [5.0],
    "nan": [math.nan] * 3000,
    "constant": [7.0] * 3000,
    "all far apart": (2.0 ** np.arange(-1000, 1000)).tolist(),
    "extremes": [1.7e308, -1.7e308, math.inf, -math.inf] * 3,
}


@pytest.mark.parametrize("name", ODD)
@each_relation
def test_a_column_without_a_scale_is_refused_in_the_same_words(name, neighbors):
    with pytest.raises(MechanismRefused) as caught:
        released(ODD[name], 1, neighbors)
    assert str(caught.value) == str(MechanismRefused(univariate.DENSE_VALUES_REQUIREMENT))
    assert caught.value.__cause__ is None


def test_outliers_and_missing_values_do_little():
    column = np.random.default_rng(6).normal(50.0, 5.0, 20_000)
    column[:5] = [math.nan, math.inf, -math.inf, 1.7e308, -1.7e308]
    made = released(column, 7)
    assert abs(made.mean - 50) < 0.3
    assert abs(made.variance - 25) < 4


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_scales_give_a_mean_and_intervals_that_hold_the_truth(scale):
    """The variance may be too small or too large for a float: then 0 or infinite."""
    made = released(np.random.default_rng(8).normal(0, scale, 5000), 9)
    assert abs(made.mean) < scale
    assert made.variance == pytest.approx(scale * scale, rel=0.5, abs=1e-320)
    low, high = made.mean_interval()
    assert low <= 0 <= high
    low, high = made.variance_interval()
    assert low <= scale * scale <= high


def test_a_refusal_is_booked_like_a_result(tmp_path):
    ledger = Ledger.create(tmp_path / "l", ApproxDP(2.0, 1e-5), count="sums")
    budget = {"epsilon": 1.0, "delta": 1e-6, "ledger": ledger}
    with pytest.raises(MechanismRefused):
        mean_and_variance([1.0, 2.0], **budget)
    assert ledger.account().spent == {"epsilon": 1.0, "delta": 1e-6}
    made = mean_and_variance(np.random.default_rng(1).normal(size=5000), **budget)
    assert not made.reproducible
    assert ledger.account().left["epsilon"] == 0
    with pytest.raises(LedgerError):
        mean_and_variance([1.0, 2.0], **budget)


def test_a_seeded_result_says_so_and_is_not_booked(tmp_path):
    column = np.random.default_rng(1).normal(size=5000)
    assert released(column, 3) == released(column, 3)
    assert released(column, 3).reproducible
    ledger = Ledger.create(tmp_path / "l", ApproxDP(2.0, 1e-5), count="sums")
    with pytest.raises(LedgerError, match="with a seed"):
        mean_and_variance(column, epsilon=1.0, delta=1e-6, ledger=ledger, seed=1)
    assert not ledger.account().entries


@pytest.mark.parametrize("values", [["secret"], [[1.0, 2.0]], 5.0, [[1.0], "secret"]])
def test_what_is_no_column_of_numbers_is_refused_without_quoting_it(values, tmp_path):
    ledger = Ledger.create(tmp_path / "l", ApproxDP(2.0, 1e-5), count="sums")
    with pytest.raises(SourceError) as caught:
        mean_and_variance(values, epsilon=1.0, delta=1e-6, ledger=ledger)
    assert "secret" not in str(caught.value)
    assert not ledger.account().entries


@pytest.mark.parametrize(
    ("epsilon", "delta", "error"),
    [
        (0.0, 0.1, BudgetError),
        (1.0, 0.0, BudgetError),
        (1e-30, 1e-30, (BudgetError, MechanismError)),
    ],
)
def test_a_budget_that_cannot_be_kept_is_refused_before_anything_is_spent(
    epsilon, delta, error, tmp_path
):
    ledger = Ledger.create(tmp_path / "l", PureDP(1.0))
    with pytest.raises(error):
        mean_and_variance([1.0], epsilon=epsilon, delta=delta, ledger=ledger)
    assert not ledger.account().entries


def test_a_level_must_be_a_probability():
    made = released(np.random.default_rng(1).normal(size=5000), 3)
    for level in (0.0, 1.0, math.nan):
        with pytest.raises(MechanismError):
            made.mean_interval(level)
