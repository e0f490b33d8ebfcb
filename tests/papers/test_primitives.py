"""Private steps that mechanisms share: their (epsilon, delta) by enumeration, and broken variants.

The tests compute distributions of outcomes exactly over small domains. Delta is the largest excess
of one distribution over e^epsilon times the other, over all pairs of neighbouring inputs and both
directions.
"""

import functools
import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import Neighbors, gaussian_delta
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.papers.accounting import with_bad_events
from dpcov.papers.primitives.histogram import (
    PROBABILITY_MARGIN,
    STEPS_PER_VOTE,
    GaussianHistograms,
    StabilityHistogram,
)
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.stable_average import StableAverage, friends, score_and_weights

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE


def excess(one, other, epsilon):
    """Return the delta of two finite distributions, the larger of both directions."""
    factor = math.exp(epsilon)
    ways = (one - factor * other, other - factor * one)
    return max(float(np.maximum(way, 0).sum()) for way in ways)


# Stability histograms.


def changes(neighbors, votes, counts):
    """Return the changes by neighbours in three bins that also contain one of `counts` each.

    Each change is a tuple of (count, count in the other table) for the bins that differ.
    """
    bins, units = range(3), []
    for size in range(votes + 1):
        units += [Counter(v) for v in itertools.combinations_with_replacement(bins, size)]
    others = units if neighbors is SWAP else [Counter()]
    found = set()
    for rest in itertools.product(counts, repeat=3):
        for one, other in itertools.product(units, others):
            pairs = [(c + one[b], c + other[b]) for b, c in enumerate(rest) if one[b] != other[b]]
            found.add(tuple(sorted(pairs)))
    return found


def worst_excess(pairs_of_counts, law, epsilon):
    """Return delta over these changes of independent bins; `law(count)` is a bin's distribution."""
    law, worst = functools.cache(law), 0.0
    for pairs in pairs_of_counts:
        p = q = np.array([1.0])
        for c, e in pairs:
            p, q = np.outer(p, law(c)).ravel(), np.outer(q, law(e)).ravel()
        worst = max(worst, excess(p, q, epsilon))
    return worst


def law_of_bin(count, threshold, decay, cells=12):
    """Return the distribution of a bin with discrete Laplace noise: hidden, T, T + 1, ..., more."""
    if count == 0:
        return np.array([1.0] + [0.0] * (cells + 1))
    a = math.exp(-decay)
    shown = [(1 - a) / (1 + a) * a ** abs(threshold + j - count) for j in range(cells)]
    reach = threshold + cells - count
    assert reach >= 0
    tail = a**reach / (1 + a)
    return np.array([1 - sum(shown) - tail, *shown, tail])


def true_delta(neighbors, votes, epsilon, threshold, decay):
    counts = sorted({0, 1, 2, max(0, threshold - 1), threshold + 1})
    pairs = changes(neighbors, votes, counts)
    return worst_excess(pairs, lambda c: law_of_bin(c, threshold, decay), epsilon)


BUDGETS = [(1, 1e-2), (Fraction(1, 2), 1e-4), (8, 1e-6), (Fraction(1, 1000), 0.2)]


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_a_histogram_of_single_votes_has_exactly_its_delta(neighbors, epsilon, delta):
    histogram = StabilityHistogram(Fraction(epsilon), delta, neighbors)
    decay = 1 / float(histogram.noise.scale)
    found = true_delta(neighbors, 1, epsilon, histogram.threshold, decay)
    assert found == pytest.approx(histogram.chance(1, histogram.threshold), rel=1e-6)
    assert found <= delta
    assert true_delta(neighbors, 1, epsilon, histogram.threshold - 1, decay) > delta


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("votes", [2, 3])
@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_a_histogram_of_several_votes_keeps_its_delta(neighbors, votes, epsilon, delta):
    histogram = StabilityHistogram(Fraction(epsilon), delta, neighbors, votes)
    decay = 1 / float(histogram.noise.scale)
    found = true_delta(neighbors, votes, epsilon, histogram.threshold, decay)
    assert found <= delta
    assert true_delta(neighbors, votes, epsilon, histogram.threshold - 2, decay) > delta


@pytest.mark.parametrize(("votes", "share"), [(1, 2.0), (3, 2 / 3)])
def test_a_threshold_for_noise_wider_than_64_bits_is_found(votes, share):
    """T / scale is ln(1 / `share` delta): of one bin, or of three, each of which may show."""
    histogram = StabilityHistogram(Fraction(votes, 2**79), 1e-6, ADD, votes)
    level, target = histogram.threshold, 1e-6 * (1 - PROBABILITY_MARGIN)
    assert level / 2**79 == pytest.approx(-math.log(share * 1e-6), rel=1e-6)
    assert histogram._delta(level) <= target < histogram._delta(level - 2**60)
    shown = histogram({"a": 2**85, "b": 1}, Entropy.seeded(1))
    assert list(shown) == ["a"]
    assert abs(shown["a"] - 2**85) < 2**84


def with_noise_for_add_remove(histogram):
    """Use half of the noise for replace-one, at a threshold that allows for it (broken)."""
    return histogram.threshold, 2 / float(histogram.noise.scale)


def with_a_threshold_without_delta(histogram):
    """Use 2 ln(n) / epsilon with a constant in place of 1/delta (broken)."""
    scale = float(histogram.noise.scale)
    return 1 + math.ceil(scale * math.log(10)), 1 / scale


def with_the_threshold_of_one_vote(histogram):
    """Use noise for units with two votes, but the threshold for one vote (broken)."""
    single = StabilityHistogram(histogram.epsilon / 2, histogram.delta, histogram.neighbors)
    return single.threshold, 1 / float(histogram.noise.scale)


@pytest.mark.parametrize(
    ("broken", "votes"),
    [
        (with_noise_for_add_remove, 1),
        (with_a_threshold_without_delta, 1),
        (with_the_threshold_of_one_vote, 2),
    ],
)
def test_the_enumeration_rejects_a_broken_histogram(broken, votes):
    histogram = StabilityHistogram(Fraction(1), 1e-4, SWAP, votes)
    assert true_delta(SWAP, votes, 1, *broken(histogram)) > 1.2e-4


def test_the_textbook_threshold_has_a_quarter_of_its_delta_at_any_epsilon():
    for epsilon in (0.5, 8.0, 20.0):
        threshold = 1 + 2 * math.log(2 / 1e-6) / epsilon
        shows = {c: stats.laplace.sf(threshold - c, scale=2 / epsilon) for c in range(1, 6)}
        laws = {c: np.array([1 - p, p]) for c, p in shows.items()} | {0: np.array([1.0, 0.0])}
        pairs = changes(SWAP, 1, range(1 + min(4, math.floor(threshold) - 1)))
        worst = worst_excess(pairs, laws.__getitem__, epsilon)
        assert worst == pytest.approx(0.25e-6, rel=1e-6)


def test_bins_show_in_the_order_of_their_keys_and_only_above_the_threshold():
    histogram = StabilityHistogram(Fraction(1), 1e-6, ADD)
    counts = {"z": 1000, "a": 500, "m": 1}
    shown = histogram(counts, Entropy.seeded(1))
    assert list(shown) == ["a", "z"]
    assert all(abs(shown[key] - counts[key]) < 30 for key in shown)
    reordered = dict(reversed(counts.items()))
    assert histogram(reordered, Entropy.seeded(1)) == shown
    assert histogram({}, Entropy.seeded(1)) == {}


def test_the_chance_of_a_lonely_bin_is_that_of_the_sampler():
    histogram = StabilityHistogram(Fraction(1), 0.05, ADD)
    counts = dict.fromkeys(range(40_000), 1)
    shown = len(histogram(counts, Entropy.seeded(2)))
    chance = histogram.chance(1, histogram.threshold)
    assert stats.binomtest(shown, 40_000, chance).pvalue > 1e-3
    assert stats.binomtest(shown, 40_000, chance * math.e**0.5).pvalue < 1e-9


# Gaussian histograms.


def gaussian_law_of_bin(count, histogram, spread):
    """Return the distribution of a bin with continuous noise: hidden, then cells above."""
    if count == 0:
        return np.array([1.0] + [0.0] * 251)
    edges = histogram.threshold / STEPS_PER_VOTE + spread * np.linspace(0, 12, 251)
    tails = stats.norm.sf(edges, count, spread)
    return np.array([1 - tails[0], *(tails[:-1] - tails[1:]), tails[-1]])


def gaussian_excess(histogram, epsilon, factor=1.0):
    """Return delta of a histogram whose noise is `factor` times as wide as necessary."""
    spread = histogram.noise.standard_deviation / STEPS_PER_VOTE * factor
    visible = math.ceil(histogram.threshold / STEPS_PER_VOTE + 5 * spread)
    pairs = changes(histogram.neighbors, 1, (0, 1, visible))
    return worst_excess(pairs, lambda c: gaussian_law_of_bin(c, histogram, spread), epsilon)


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(("mu", "bad"), [(0.5, 1e-3), (2.0, 1e-2)])
def test_a_gaussian_histogram_keeps_what_its_mu_and_its_bad_event_imply(neighbors, mu, bad):
    histogram = GaussianHistograms(mu, bad, neighbors)
    for inner in (0.2, 1.0, 3.0):
        epsilon, delta = with_bad_events(mu, inner, bad)
        found = gaussian_excess(histogram, epsilon)
        assert max(0.999 * bad, 0.97 * gaussian_delta(mu, epsilon)) < found <= delta
    epsilon, delta = with_bad_events(mu, 0.2, bad)
    assert gaussian_excess(histogram, epsilon, factor=0.7) > delta
    narrow = replace(histogram, bad=0.4)
    epsilon, delta = with_bad_events(mu, 3.0, bad)
    assert gaussian_excess(narrow, epsilon) > delta


def test_a_batch_shares_its_mu_and_its_bad_event():
    one, four = (GaussianHistograms(0.5, 1e-6, SWAP, batch) for batch in (1, 4))
    assert float(four.noise.variance / one.noise.variance) == pytest.approx(4, rel=1e-9)
    for histogram, bad in ((one, 1e-6), (four, 0.25e-6)):
        steps = histogram.threshold - STEPS_PER_VOTE - 1
        tail = stats.norm.sf(steps / histogram.noise.standard_deviation)
        assert bad * (1 - 1e-6) < tail <= bad
    add = GaussianHistograms(0.5, 1e-6, ADD)
    assert float(one.noise.variance / add.noise.variance) == pytest.approx(2, rel=1e-9)


def test_gaussian_counts_show_above_the_threshold_only():
    histogram = GaussianHistograms(0.5, 1e-6, SWAP)
    shown = histogram({(0, "b"): 1000, (0, "a"): 2, (1, "a"): 300}, Entropy.seeded(1))
    assert list(shown) == [(0, "b"), (1, "a")]
    assert abs(shown[0, "b"] - 1000) < 20


# Propose, test, release.


def passing_chance(test, score):
    """Return the chance that a score passes, from the noise distribution."""
    if score >= test.limit:
        return 0.0
    a = math.exp(-1 / float(test.noise.scale))
    space = test.threshold - score
    return 1 - a ** (space + 1) / (1 + a) if space >= 0 else a**-space / (1 + a)


def delta_of_test(passing, sensitivity, epsilon):
    """Return delta of a test with these chances at scores 0, 1, ...; larger scores are refused."""
    chances = [*passing, *[0.0] * sensitivity]
    pairs = [
        (one, other)
        for i, one in enumerate(chances)
        for other in chances[i + 1 : i + 1 + sensitivity]
    ]
    return max(excess(np.array([p, 1 - p]), np.array([q, 1 - q]), epsilon) for p, q in pairs)


@pytest.mark.parametrize("sensitivity", [1, 2, 3])
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0.4", 1e-6), ("1", 1e-6), ("0.1", 1e-8), ("0.5", 5e-7), ("9", 1e-3)]
)
def test_a_test_keeps_its_epsilon_and_delta_over_all_scores(sensitivity, epsilon, delta):
    test = ReleaseTest(Fraction(epsilon), delta, sensitivity, slack=3)
    passing = [passing_chance(test, score) for score in range(test.limit)]
    found = delta_of_test(passing, sensitivity, float(Fraction(epsilon)))
    assert found <= delta
    assert passing[3] >= 1 - test.false_alarm
    earlier = delta_of_test(passing[:-1], sensitivity, float(Fraction(epsilon)))
    assert earlier > delta


def published_test(epsilon, delta):
    """Return the passing chances of the public code of Brown, Hopkins and Smith (2023)."""
    tau = 2 * math.log((1 - delta) / delta) / epsilon + 4
    chances = (1 - delta * math.exp(epsilon * (z - 2) / 2) for z in range(math.ceil(tau)))
    return [min(1.0, max(0.0, p)) for p in chances]


@pytest.mark.parametrize(("epsilon", "delta", "true"), [(0.5, 5e-7, 0.384), (1.0, 1e-6, 0.558)])
def test_the_published_test_of_brown_hopkins_and_smith_is_not_what_it_claims(epsilon, delta, true):
    found = delta_of_test(published_test(epsilon, delta), 2, epsilon)
    assert found == pytest.approx(true, abs=2e-3)


def test_the_chance_of_passing_is_that_of_the_sampler():
    test = ReleaseTest(Fraction(1, 2), 1e-3)
    entropy, score = Entropy.seeded(3), test.threshold + 1
    passed = sum(test.passes(score, entropy) for _ in range(3000))
    assert stats.binomtest(passed, 3000, passing_chance(test, score)).pvalue > 1e-3
    assert stats.binomtest(passed, 3000, passing_chance(test, score + 2)).pvalue < 1e-9


def test_a_score_at_the_limit_is_refused_whatever_the_noise(monkeypatch):
    test = ReleaseTest(Fraction(1, 2), 1e-3)
    monkeypatch.setattr(ScalarLaplace, "sample", lambda *_: -(10**9))
    assert test.passes(test.limit - 1, Entropy.seeded(3))
    assert not test.passes(test.limit, Entropy.seeded(3))


# Stable averages.

TINY = ReleaseTest(Fraction(4), 0.2, false_alarm=0.2)  # a limit small enough to enumerate


def neighbours(t):
    """Yield pairs of t items on a small grid that differ in one item, many near the edge."""
    rng = np.random.default_rng(4)
    places = np.array([0, 9, 10, 11, 19, 20, 21, 30, 10**6])
    for _ in range(6000):
        spread = rng.integers(2, len(places) + 1)
        items = rng.choice(places[:spread] if rng.random() < 0.7 else places, t)
        calm = rng.random(t) < rng.choice([0.0, 0.5, 0.8, 0.9])
        items[calm] = 10
        other = items.copy()
        other[rng.integers(t)] = rng.choice(places)
        yield items, other


def average_of(items, limit, radius=10):
    """Score, weights and exact average of integer items with this radius."""
    grid = np.asarray(items, dtype=np.int64)[:, None] * (STEPS_PER_VOTE // radius)
    score, weights = score_and_weights(friends(grid), limit)
    total = Fraction(int((weights * items).sum()), max(1, int(weights.sum())))
    return score, weights, total


def largest_changes(limit, t):
    """Return the largest change of the score, and of the average over its bound.

    The average counts only if both scores do.
    """
    scores, averages = [0], [0.0]
    for one, other in neighbours(t):
        (s, _, a), (z, _, b) = average_of(one, limit), average_of(other, limit)
        scores.append(abs(s - z))
        if max(s, z) < limit:
            averages.append(float(abs(a - b) / Fraction(100, t - limit)))
    return max(scores), max(averages)


@pytest.mark.parametrize("limit", [3, 5])
def test_score_and_average_change_by_no_more_than_proved(limit):
    score, average = largest_changes(limit, 3 * limit + 2)
    assert score == 2
    assert 0.1 < average <= 1


def brute_force(items, limit, radius=10):
    """Evaluate the definitions directly."""
    t = len(items)
    near = [sum(abs(x - y) <= radius for y in items) for x in items]
    levels = [{j for j in range(t) if near[j] >= t - level} for level in range(2 * limit + 1)]
    score = min([limit, *(t - len(levels[level]) + level for level in range(limit + 1))])
    return score, [sum(j in levels[i] for i in range(limit + 1, 2 * limit + 1)) for j in range(t)]


def test_scores_and_weights_are_those_of_the_definition():
    for items, _ in itertools.islice(neighbours(11), 500):
        limit = 3
        score, weights, _ = average_of(items, limit, radius=16)
        assert (score, weights.tolist()) == brute_force(items.tolist(), limit, radius=16)


def test_unstable_weights_break_the_bound():
    """In the broken version, items with many close items have weight 1 and others 0."""
    limit, t, worst = 3, 11, 0.0
    for one, other in neighbours(t):
        means = []
        for items in (one, other):
            grid = items[:, None] * (STEPS_PER_VOTE // 10)
            chosen = friends(grid) >= t - limit
            means.append(items[chosen].mean() if chosen.any() else 0.0)
        worst = max(worst, abs(means[0] - means[1]) / (100 / (t - limit)))
    assert worst > 1


@pytest.mark.parametrize("dimension", [1, 4])
def test_a_stable_average_is_near_the_items_that_agree_and_has_its_noise(dimension):
    average = StableAverage(1.0, ReleaseTest(Fraction(1), 1e-6, slack=9), mu=0.5)
    count = 4 * average.fewest
    rng = np.random.default_rng(5)
    items = 7 + 0.1 * rng.standard_normal((count, dimension))
    items[0], items[1] = 1e300, np.nan
    entropy = Entropy.seeded(6)
    draws = np.array([average(items, entropy) for _ in range(60)])
    law = average.noise(count, dimension)
    spread = law.standard_deviation / 2**40
    assert spread == pytest.approx(10 / (count - average.test.limit) / 0.5, rel=1e-9)
    centred = (draws - items[2:].mean(axis=0)) / spread
    assert stats.chi2.sf((centred**2).sum(), centred.size) > 1e-3
    assert stats.chi2.sf((centred**2).sum() * 4, centred.size) < 1e-9


def test_items_that_disagree_are_refused_in_words_that_say_nothing_else():
    average = StableAverage(1.0, ReleaseTest(Fraction(1), 1e-6), mu=0.5)
    texts = set()
    for seed in range(3):
        items = np.random.default_rng(seed).standard_normal((2 * average.fewest, 2)) * 10.0**seed
        with pytest.raises(MechanismRefused, match=r"The budget is spent\.$") as caught:
            average(items * 9, Entropy.seeded(seed))
        texts.add(str(caught.value))
    assert len(texts) == 1


def test_too_few_items_are_refused_from_their_number_alone():
    average = StableAverage(1.0, ReleaseTest(Fraction(1), 1e-6), mu=0.5)
    with pytest.raises(MechanismError, match=str(average.fewest)):
        average.noise(average.fewest - 1, 2)
    average.noise(average.fewest, 2)
    assert average.fewest == 3 * average.test.limit + 2


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StabilityHistogram(Fraction(1), 0.0, ADD),
        lambda: StabilityHistogram(Fraction(1), math.nan, ADD),
        lambda: StabilityHistogram(Fraction(1), 0.1, ADD, 0),
        lambda: GaussianHistograms(1.0, 1.0, ADD),
        lambda: GaussianHistograms(1.0, 0.1, ADD, batch=True),
        lambda: ReleaseTest(Fraction(1), 1.0),
        lambda: ReleaseTest(Fraction(1), 0.1, false_alarm=0.0),
        lambda: ReleaseTest(Fraction(1), 0.1, sensitivity=0),
        lambda: ReleaseTest(Fraction(1, 2**80), 0.1),
        lambda: StableAverage(0.0, TINY, 1.0),
        lambda: StableAverage(1.0, TINY, math.inf),
        lambda: StableAverage(1.0, ReleaseTest(Fraction(1), 0.1, sensitivity=1), 1.0),
    ],
)
def test_steps_that_make_no_sense_are_refused(wrong):
    with pytest.raises(MechanismError):
        wrong()
