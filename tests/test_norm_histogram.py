"""Norm histogram: the estimate of the clipping bias, and its effect on intervals."""

import itertools
import json
import math
import tracemalloc
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import optimize, stats

import dpcov
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import ReleaseError
from dpcov.mechanisms.radius_losses import RULE_COLUMN_LOSS_RELATIVE_SD, squared_norm_losses
from dpcov.mechanisms.standardized import best_radius
from dpcov.published import norm_histogram as lengths
from dpcov.published.norm_histogram import (
    NormHistogram,
    _Tail,
    bin_upper_ends,
    quantile_of_sum,
)
from dpcov.releases.file import from_text
from dpcov.rows.moment import Lattice
from former_documents import former
from rounds_for_tests import changed

LONGEST = 64.0
QUIET, LOUD = ScalarGaussian(Fraction(1)), ScalarGaussian(Fraction(400))


def contains(told, taken):
    """Return True if the 95% interval of a loss contains the true loss, except for rounding."""
    below, above = 1.96 * told.lower + 1e-9, 1.96 * told.upper + 1e-9
    return -below <= taken - told.estimate <= above


def counted(norms, law=QUIET, seed=0):
    ends = bin_upper_ends(1.0, LONGEST)
    found = np.diff([0, *(np.count_nonzero(norms**2 <= end) for end in ends)])
    noise = np.random.default_rng(seed).normal(scale=law.standard_deviation, size=len(ends))
    counts = found + np.rint(noise).astype(int)
    return NormHistogram(tuple(ends.tolist()), tuple(counts.tolist()), law)


def drawn(tail, n=20_000):
    rng = np.random.default_rng(3)
    if tail == "light":
        return np.linalg.norm(rng.normal(size=(n, 4)), axis=1) / 2
    return np.minimum((1 - rng.random(n)) ** (-1 / 3), LONGEST)  # of |z|^2 to the power -1.5


@pytest.mark.parametrize("tail", ["light", "heavy"])
@pytest.mark.parametrize("radius", [1.5, 3.0, 6.0])
def test_counts_estimate_how_much_squared_norm_clipping_removes(tail, radius):
    norms = drawn(tail)
    taken = np.sum(np.maximum(norms**2 - radius**2, 0))
    found = counted(norms)
    told = found.squared_norm_loss(radius)
    assert told.estimate == pytest.approx(taken, rel=0.4, abs=50)
    assert contains(told, taken)
    assert told.standard_deviation < 0.5 * taken + 50
    first, lost = np.sum(np.maximum(norms - radius, 0)), found.norm_loss(radius)
    assert contains(lost, first)
    assert np.all(np.less([taken, first], found.loss_upper_bounds(radius, 0.95)))


def test_rows_that_are_shorter_than_every_bin_but_the_first_show():
    """A table is far narrower than its bounds; the number of bins is odd, a window has two."""
    found = counted(np.full(3000, 1e-3), LOUD)
    assert not found.below_noise_level
    assert max(found.squared_norm_loss(4.0)) < 1
    # The rate of decrease is unknown, unless noise hides no row or the law has begun.
    assert found.largest_tail_losses(4.0, 8.0, 0.0) == (math.inf, math.inf)
    quiet = counted(np.full(3000, 1e-3), ScalarGaussian(Fraction(1, 100)))
    assert quiet.largest_tail_losses(4.0, 8.0, 0.0)[0] < 1
    assert math.isfinite(counted(np.full(3000, 0.4), LOUD).largest_tail_losses(4.0, 8.0, 0.0)[0])
    assert counted(np.full(60, 1e-3), LOUD).below_noise_level


def test_a_tail_that_noise_hides_may_be_long():
    norms = drawn("heavy", 2000)
    found = counted(norms, LOUD)
    taken = np.sum(np.maximum(norms**2 - 4.0**2, 0))
    told = found.squared_norm_loss(4.0)
    assert told.standard_deviation > told.estimate
    assert taken < told.estimate + 2 * told.standard_deviation < 20 * taken


@pytest.mark.parametrize("law", [LOUD, ScalarLaplace(Fraction(15))])
def test_the_bound_on_what_lies_beyond_holds_as_often_as_it_says(law):
    """The test includes a few far rows that are not detectable. The estimate misses them."""
    norms = np.append(drawn("light", 2000), [40.0, 50.0])
    taken, lost = np.sum(np.maximum(norms**2 - 2.0**2, 0)), np.sum(np.maximum(norms - 2.0, 0))
    ends, rng = bin_upper_ends(1.0, LONGEST), np.random.default_rng(0)
    rows = np.diff([0, *(np.count_nonzero(norms**2 <= end) for end in ends)])
    held, estimated = [], []
    for _ in range(400):
        noise = np.rint([law.simulate(rng) for _ in ends]).astype(int)
        found = NormHistogram(tuple(ends.tolist()), tuple((rows + noise).tolist()), law)
        held.append(np.less_equal([taken, lost], found.loss_upper_bounds(2.0, 0.95)))
        told = found.squared_norm_loss(2.0)
        estimated.append(taken <= told.estimate + 2 * told.standard_deviation)
    assert np.all(np.mean(held, axis=0) >= 0.93)
    assert np.mean(estimated) < 0.5  # control


def test_where_noise_hides_how_long_most_rows_are_none_is_given_back():
    """Some counts of pure noise are above 0 and could be mistaken for variance."""
    noise = np.random.default_rng(0).normal(scale=20.0, size=20)
    ends = tuple(2.0 ** np.arange(20))
    few, many = (
        NormHistogram(ends, tuple(np.rint(noise + rows).astype(int).tolist()), LOUD)
        for rows in (0, np.where(np.arange(20) < 12, 2000, 0))
    )
    assert few.below_noise_level
    lost = few.squared_norm_loss(16.0)
    assert lost.estimate == 0 < lost.standard_deviation
    assert not many.below_noise_level
    assert many.squared_norm_loss(16.0).estimate > 0


def test_no_row_is_longer_than_the_last_end_and_nothing_is_taken_there():
    found = counted(drawn("heavy"))
    assert found.squared_norm_loss(LONGEST) == (0, 0, 0, 0) == found.norm_loss(LONGEST)
    assert found.loss_upper_bounds(LONGEST, 0.95) == (0, 0)
    assert np.all(np.diff(found.upper_ends) > 0)
    assert found.upper_ends[-1] == LONGEST**2


def test_the_radius_grows_with_the_tail_and_as_noise_falls():
    lattice = Lattice(4, 1.0, 0.3)

    def radius(tail, noise, weight=1.0):
        law = GaussianOrthogonal(5, Fraction(int(noise * 2**40)) ** 2)
        return best_radius(counted(drawn(tail)), law, lattice, weight)

    assert radius("light", 30) < radius("heavy", 30)
    assert radius("heavy", 30, 0.35) < radius("heavy", 30) < radius("heavy", 30, 3.0)
    assert radius("heavy", 300) <= radius("heavy", 30) < radius("heavy", 1)


@pytest.mark.parametrize("noise", [0, 1, 10, 30, 100, 300, 1000, 1e9])
@pytest.mark.parametrize("tail", ["light", "heavy"])
def test_no_radius_on_a_finer_grid_is_expected_to_be_much_better(tail, noise):
    law, counts = GaussianOrthogonal(5, Fraction(int(noise * 2**40)) ** 2 + 1), counted(drawn(tail))
    found = best_radius(counts, law, Lattice(4, 1.0, 0.3), 1.0) ** 2

    def expected(square):
        of_noise = math.sqrt(law.diagonal_variance) / 2**40 * square
        lost = squared_norm_losses(counts, np.array([math.sqrt(square)]))[0]
        return math.hypot(of_noise, RULE_COLUMN_LOSS_RELATIVE_SD * lost / 4)

    steps = 4 * math.log2(counts.upper_ends[-1] / found)
    assert steps == pytest.approx(round(steps))
    finer = counts.upper_ends[-1] * 2.0 ** -np.arange(0, len(counts.upper_ends) / 2, 1 / 32)
    assert finer.min() < found <= finer.max()
    best = finer[np.argmin([expected(square) for square in finer])]
    assert abs(math.log2(found / best)) <= 1 / 4


def fall_within(found, at, seen):
    """Return half of the fall from the bin before to the bin after."""
    least = found.noise.standard_deviation
    counts = [max(rows, least) for rows in found.counts]
    before = counts[at - 1] if at else least
    after = seen if seen is not None else [*counts, least][at + 1]
    return math.log(before / after) / 2


def octave_quantile(noise, chance):
    """Return the number that the sum of the noise of two bins exceeds with this probability."""
    if isinstance(noise, ScalarGaussian):
        return 2**0.5 * noise.upper_quantile(chance)
    b = float(noise.scale)
    return optimize.brentq(lambda x: (0.5 + x / b / 4) * math.exp(-x / b) - chance, 0, 100 * b)


def test_the_threshold_of_an_octave_is_a_quantile_of_the_sum_of_two_draws():
    draws = np.random.default_rng(0).laplace(scale=10, size=(2_000_000, 2)).sum(axis=1)
    law = ScalarLaplace(Fraction(10))
    assert octave_quantile(law, 5e-4) == pytest.approx(np.quantile(draws, 1 - 5e-4), rel=0.02)
    assert math.sqrt(2) * law.upper_quantile(5e-4) > 1.1 * np.quantile(draws, 1 - 5e-4)  # control


@pytest.mark.parametrize("at", [30, 31, 32, 33])
def test_rows_of_nearly_equal_norms_are_detected_wherever_an_octave_ends(at):
    """Control: with half of the rows the same bins are not detectable."""
    ends, law = tuple(2.0 ** (np.arange(40) / 2)), ScalarLaplace(Fraction(10))

    def last(rows):
        counts = [0] * 40
        counts[10:14] = [2000, 3000, 2000, 500]
        counts[at] = counts[at + 1] = rows
        return NormHistogram(ends, tuple(counts), law).detectable[0]

    assert last(70) == (at + 1) // 2
    assert last(35) < at // 2


@cache
def tail_by_hand(found):
    """Return detectable rows and falls by bin, the first other bin, and the possible tails.

    A candidate tail and a sparse tail are each (rows by bin, falls by bin). The last two results
    have a row for each candidate tail and a column for each sparse tail: the log likelihoods and
    the weights. The function computes them tail by tail.
    """
    m, sd = len(found.counts), found.noise.standard_deviation
    starts, deviation = range(m % 2, m, 2), sd * 2**0.5
    windows = [found.counts[at] + found.counts[at + 1] for at in starts]
    near, far = (octave_quantile(found.noise, chance) for chance in (0.0005, 0.00001))
    last = peak = windows.index(max(windows))
    while windows[last + 1 :] and windows[last + 1] > near:
        last += 1
    second = found.noise.upper_quantile(0.0005)
    for at, (one, other) in enumerate(itertools.pairwise(found.counts)):
        if one + other > far:
            last = max(last, (at + (other > second) - m % 2) // 2)
    end = starts[last] + 2
    tails = []
    for bend, k in itertools.product((0, 0.5, 1, 1.5), range(32)):
        fall, prior = 0.18 * (4 / 0.18) ** (k / 31), 0.0
        if bend == 0 and math.exp(-2 * fall) > 0.65:
            continue
        shares = [1.0]
        for back in range(1, 6):
            shares.append(shares[-1] * math.exp(fall / 2 ** (bend * back / 2)))
        two, four, six = (sum(shares[at : at + 2]) for at in (0, 2, 4))
        for back, ratio in enumerate((four / two, six / four), 1):
            if last - back < peak or windows[last - back] <= near:
                break
            later, earlier = (max(windows[last - at], deviation) for at in (back - 1, back))
            wide = math.hypot(0.5, deviation / later, deviation / earlier)
            prior -= ((math.log(earlier / later) - math.log(ratio)) / wide) ** 2 / 2
        log, rows = 0.0, [max(windows[last], 0) * share / two for share in shares[:2]]
        if last > peak and found.counts[end - 2] > found.counts[end - 1]:
            apart = (found.counts[end - 2] - found.counts[end - 1] - rows[1] + rows[0]) / 2
            log -= (apart / math.hypot(sd / 2**0.5, 0.15 * min(rows))) ** 2 / 2
        beyond, falls, count = [0.0] * m, [0.0] * m, rows[0]
        for at in range(end, m):
            step = fall * 2 ** (bend * (at - end) / 2)
            count *= math.exp(-step)
            beyond[at], falls[at] = count, step * 2 ** (bend / 4)
        tails.append((prior, log, beyond, falls))
    sparse = sparse_by_hand(found, end)
    fits = np.array(
        [
            [log + likelihood(found, end, np.add(beyond, more)) for _, more, _ in sparse]
            for _, log, beyond, _ in tails
        ]
    )
    priors = [[prior + math.log(part) for part, _, _ in sparse] for prior, *_ in tails]
    weights = np.exp(fits + priors - np.max(fits + priors))
    weights /= weights.sum()
    tails, sparse = [rest for _, _, *rest in tails], [rest for _, *rest in sparse]
    seen = [max(rows, 0) if at < end else 0 for at, rows in enumerate(found.counts)]
    after = [None] * m
    if end < m:
        after[end - 1] = max(expected_by_hand(tails, sparse, weights)[end], 0.001)
    seen_falls = [fall_within(found, at, after[at]) for at in range(m)]
    return seen, seen_falls, end, tails, sparse, fits, weights


def sparse_by_hand(found, end):
    """Return (prior probability, rows by bin, falls by bin) of each sparse tail."""
    m, body = len(found.counts), max(sum(found.counts[end - 2 : end]) / 2, 0)
    tails = [(0.99 / 0.01 if end < m else 1.0, [0.0] * m, [0.0] * m)]
    each = list(itertools.product(np.geomspace(0.02, 0.5, 4), (0, 0.2, 0.5), range(end, m)))
    whole = sum(math.exp(-0.1 * (stop - end)) for *_, stop in each)
    for share, fall, stop in each:
        rows = [share * body * math.exp(-fall * (at - end)) for at in range(end, stop + 1)]
        rows = [0.0] * end + rows + [0.0] * (m - 1 - stop)
        tails.append((math.exp(-0.1 * (stop - end)) / whole, rows, [fall] * m))
    return tails


def likelihood(found, end, rows):
    """Return the log likelihood of the counts from a bin on."""
    wide = np.sqrt(found.noise.standard_deviation**2 + rows + (0.15 * rows) ** 2)[end:]
    errors = (np.array(found.counts)[end:] - rows[end:]) / wide
    if isinstance(found.noise, ScalarLaplace):
        return float(-np.sum(2**0.5 * np.abs(errors) + np.log(wide)))
    return float(-np.sum(errors**2 / 2 + np.log(wide)))


def expected_by_hand(tails, sparse, weights):
    rows = zip(weights.sum(axis=1), tails, strict=True)
    more = zip(weights.sum(axis=0), sparse, strict=True)
    return sum(weight * np.array(tail) for weight, (tail, _) in (*rows, *more))


def inside(found, at, fall, excess):
    """Return the mean and the standard deviation of an excess within a bin."""
    begin, end = (0.0, *found.upper_ends)[at : at + 2]
    fall = min(max(fall, -6.0), 12.0)
    logs = [0.1, 0.3, 0.5, 0.7, 0.9]  # if the density does not fall
    if abs(fall) > 1e-6:
        logs = [-math.log(1 - part * (1 - math.exp(-fall))) / fall for part in logs]
    values = [excess(begin + (2 ** (u / 2) - 1) / (2**0.5 - 1) * (end - begin)) for u in logs]
    return np.mean(values), np.std(values)


def sums_by_hand(found, end, tails, excess, reached):
    """Return the sums of the mean excess, and of its mean square, over the rows of each tail.

    For the square, a row beyond the bin `reached` counts as a row in this bin.
    """
    sums, squares = [], []
    once = cache(lambda at, fall: inside(found, at, fall, excess))
    for rows, falls in tails:
        held = [(count, at) for at, count in enumerate(rows) if at >= end and count]
        near = [min(at, reached) for _, at in held]
        sums.append(sum(count * once(at, falls[at])[0] for count, at in held))
        parts = [once(at, falls[at]) for at in near]
        squares.append(sum(n * (e**2 + w**2) for (n, _), (e, w) in zip(held, parts, strict=True)))
    return np.array(sums), np.array(squares)


def reached_by_hand(end, tails, sparse, weights):
    """Return the last bin that the farthest row reaches with a probability of 2.5%."""

    def probability(start):
        rows = [[math.fsum(one[start:]) for one, _ in some] for some in (tails, sparse)]
        return 1 - np.sum(weights * np.exp(-np.add.outer(*rows)))

    bins = len(tails[0][0])
    likely = [at for at in range(bins) if probability(at) >= stats.norm.cdf(-1.96)]
    return max(likely, default=min(end, bins - 1))


def taken_by_hand(found, excess):
    seen, seen_falls, ended, tails, sparse, _, weights = tail_by_hand(found)
    sd, m = found.noise.standard_deviation, len(found.counts)
    each, within = zip(*(inside(found, at, seen_falls[at], excess) for at in range(m)), strict=True)
    variance = sum((sd * e) ** 2 for e in each[:ended])
    variance += sum((rows * w) ** 2 for rows, w in zip(seen, within, strict=True))
    reached = reached_by_hand(ended, tails, sparse, weights)
    ofs, squares = zip(
        *(sums_by_hand(found, ended, some, excess, reached) for some in (tails, sparse)),
        strict=True,
    )
    variance += np.sum(weights * np.add.outer(*squares))
    variance += suspicious_by_hand(found, excess, 0.5) ** 2
    sums = sorted(zip(np.add.outer(*ofs).ravel(), weights.ravel(), strict=True))
    reached = list(itertools.accumulate(weight for _, weight in sums))
    least, beyond, most = (
        sums[next(at for at, so_far in enumerate(reached) if so_far >= chance)][0]
        for chance in (stats.norm.cdf(-1.96), 0.5, stats.norm.cdf(1.96))
    )
    spread = sum(weight * (min(max(one, least), most) - beyond) ** 2 for one, weight in sums)
    parts = (spread, ((beyond - least) / 1.96) ** 2, ((most - beyond) / 1.96) ** 2)
    return np.dot(seen, each) + beyond, [(variance + part) ** 0.5 for part in parts]


def suspicious_by_hand(found, excess, ratio):
    """Return the loss of the counts that noise alone rarely explains."""
    _, seen_falls, ended, tails, sparse, _, weights = tail_by_hand(found)
    sd, m = found.noise.standard_deviation, len(found.counts)
    expected = expected_by_hand(tails, sparse, weights)
    more = [0 if at < ended else found.counts[at] - expected[at] for at in range(m)]
    scaled = [
        rows * sd / math.hypot(sd, wide**0.5, 0.15 * wide)
        for rows, wide in zip(more, expected, strict=True)
    ]
    loss = 0.0
    for at in range(ended, m):
        pairs = [
            (scaled[one] + scaled[one + 1], one) for one in (at - 1, at) if ended <= one < m - 1
        ]
        alarms = {one: 0.001 * ratio ** (one - ended) for one in (at - 1, at)}
        if scaled[at] > found.noise.upper_quantile(alarms[at]) or any(
            pair > octave_quantile(found.noise, alarms[one]) for pair, one in pairs
        ):
            loss += max(more[at], 0) * inside(found, at, seen_falls[at], excess)[0]
    return loss


TABLES = {
    "light": counted(drawn("light")),
    "heavy": counted(drawn("heavy")),
    "few": counted(drawn("heavy", 300)),
    "noisy": counted(drawn("heavy", 2000), LOUD),
    "to the end": counted(np.minimum(8 * drawn("heavy"), LONGEST)),
    "steep": NormHistogram(tuple(2.0 ** np.arange(9)), (0, 5, 9, 80, 90, 300, 200, 3, -2), QUIET),
    "even": NormHistogram(tuple(2.0 ** np.arange(8)), (40, 60, 300, 400, 90, 30, 1, -1), QUIET),
    "near": NormHistogram(tuple(2.0 ** np.arange(8)), (300, 400, 90, 60, 45, 45, 30, 20), LOUD),
    "nearly all": NormHistogram(tuple(2.0 ** np.arange(6)), (300, 400, 90, 60, 55, 45), LOUD),
    "far": NormHistogram(tuple(2.0 ** np.arange(8)), (300, 400, 0, -9, 60, 58, 10, -20), LOUD),
    "suspicious": NormHistogram(
        tuple(2.0 ** np.arange(10)), (300, 400, 90, -9, 3, 10, 85, 2, 50, 62), LOUD
    ),
    "hidden": NormHistogram(tuple(2.0 ** np.arange(8)), (30, 40, 0, -9, 25, 10, -7, -20), LOUD),
    "pure": NormHistogram(
        tuple(2.0 ** np.arange(9)), (9, 300, 400, 200, 90, 70, 2, 9, -4), ScalarLaplace(Fraction(5))
    ),
    "nothing": NormHistogram(tuple(2.0 ** np.arange(8)), (-3, 0, -5, -9, 0, 0, -7, -2), QUIET),
    "far bounds": NormHistogram(
        tuple(2.0 ** (np.arange(24) / 2)), (4900, 125, 23, 1, 6, -7, -2, 1, *[0] * 16), QUIET
    ),
}


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("radius", [0.05, 1.5, 6.0])
def test_what_is_taken_is_that_of_the_stated_laws_row_by_row(name, radius):
    found = TABLES[name]
    for reported, excess in (
        (found.squared_norm_loss(radius), lambda square: max(square - radius**2, 0)),
        (found.norm_loss(radius), lambda square: max(square**0.5 - radius, 0)),
    ):
        estimate, deviations = taken_by_hand(found, excess)
        if name in ("hidden", "nothing"):
            assert reported.estimate == 0
            estimate, deviations = 0, [math.hypot(estimate, one) for one in deviations]
        assert reported == pytest.approx((estimate, *deviations), rel=1e-9)


@pytest.mark.parametrize("name", TABLES)
def test_rows_like_those_counted_are_at_their_quantiles(name):
    found = TABLES[name]
    seen, _, _, *every, _, weights = tail_by_hand(found)
    rows = np.array(seen, float) + expected_by_hand(*every, weights)
    ends = np.array(found.upper_ends)
    begins, squares = np.append(0, ends[:-1]), found.squared_norm_quantiles(9)
    for below, square in zip(np.arange(1, 18, 2) / 18, squares, strict=True):
        parts = np.clip((square - begins) / (ends - begins), 0, 1)
        assert parts @ rows == pytest.approx(below * rows.sum())


def test_the_bound_has_every_row_at_the_upper_end_of_its_bin():
    found = NormHistogram((1.0, 16.0), (10, 5), QUIET)
    rows = 5 + quantile_of_sum(QUIET, np.array([1.0]), 0.95)  # up to a length of 4
    assert found.loss_upper_bounds(3.0, 0.95) == pytest.approx((rows * 7, rows))


@pytest.mark.parametrize("tail", ["heavy", "light", "suspicious"])
def test_the_largest_tail_is_the_largest_likely_one_or_a_few_rows_at_the_bound(tail):
    if tail == "suspicious":
        found, radius, longest = TABLES[tail], 1.5, 16.0
    else:
        found, radius, longest = counted(drawn(tail), LOUD), 3.0, 0.8 * LONGEST
    _, _, end, tails, sparse, fits, _ = tail_by_hand(found)

    def largest(excess):
        def within(square):
            return excess(square) if square <= longest**2 else 0.0

        losses = np.add.outer(
            *(sums_by_hand(found, end, some, within, end)[0] for some in (tails, sparse))
        )
        of_tails = losses[fits >= fits.max() - 1.96**2 / 2].max()
        return max(of_tails, suspicious_by_hand(found, within, 1))

    by_hand = (
        largest(lambda square: max(square - radius**2, 0)),
        largest(lambda square: max(square**0.5 - radius, 0)),
    )
    assert found.largest_tail_losses(radius, longest, 0.0) == pytest.approx(by_hand)
    few = 1e5 * (longest**2 - radius**2), 1e5 * (longest - radius)
    assert found.largest_tail_losses(radius, longest, 1e5) == pytest.approx(few)
    assert found.largest_tail_losses(longest, longest, 1e5) == (0.0, 0.0)


def test_a_sparse_tail_apart_from_a_light_body_is_a_possible_tail():
    """Control: the candidate tails alone have a much smaller loss."""
    light = counted(drawn("light"), LOUD)
    losses = light.largest_tail_losses(1.5, LONGEST, 0.0)
    candidates = light._tail.undetectable @ squares_beyond(light, 1.5)
    fits = light._tail.log_likelihoods[:, 0]  # without a sparse tail
    alone = candidates[fits >= fits.max() - 1.96**2 / 2].max()
    assert losses[0] > 3 * alone


@pytest.mark.parametrize("law", [LOUD, ScalarLaplace(Fraction(15))])
def test_the_estimate_knows_a_sparse_tail_apart_from_a_light_body(law, monkeypatch):
    """Each bin beyond the body has 36 rows, which are below the threshold of detection.

    Control: without sparse tails, fewer intervals contain the loss.
    """
    body, radius = drawn("light", 6000), 2.0
    ends = bin_upper_ends(1.0, LONGEST)
    rows = np.diff([0, *(np.count_nonzero(body**2 <= end) for end in ends)])
    far = np.arange(np.flatnonzero(rows)[-1], np.flatnonzero(rows)[-1] + 6)
    rows[far] += 36
    taken = float(rows @ np.maximum(ends / 2**0.25 - radius**2, 0))

    def covered():
        held, rng = [], np.random.default_rng(1)
        for _ in range(60):
            noise = np.rint([law.simulate(rng) for _ in ends]).astype(int)
            found = NormHistogram(tuple(ends.tolist()), tuple((rows + noise).tolist()), law)
            told = found.squared_norm_loss(radius)
            held.append(contains(told, taken))
        return np.mean(held)

    found = covered()
    assert found > 0.75
    monkeypatch.setattr(lengths, "SPARSE_TAIL_PROBABILITY", 1e-9)
    assert covered() < found - 0.1


def test_a_row_that_is_hardly_ever_there_does_not_widen_the_stated_error(monkeypatch):
    """With far bounds, the stated error is as with near bounds.

    Control: if rows in all bins count fully, it grows by more than a factor of 20.
    """

    def stated(bins):
        counts = (4900, 125, 23, 1, 6, -7, -2, 1, *[0] * bins)
        law = ScalarGaussian(Fraction(10))
        found = NormHistogram(tuple(2.0 ** (np.arange(len(counts)) / 2)), counts, law)
        return found.squared_norm_loss(1.3).standard_deviation

    near, far = stated(0), stated(72)
    assert far < 1.5 * near
    monkeypatch.setattr(_Tail, "farthest_bin", lambda self, _: len(self.expected) - 1)
    assert stated(72) > 20 * far


def test_the_farthest_row_is_where_the_probabilities_of_empty_bins_say():
    """Control: with tails that contain many rows, it is in the last bin."""
    tail = counted(drawn("light"))._tail
    at = tail.farthest_bin(0.05)
    rows = [tail.undetectable[:, start:].sum(axis=1) for start in (at, at + 1)]
    more = [tail.sparse[:, start:].sum(axis=1) for start in (at, at + 1)]
    generator, found = np.random.default_rng(1), []
    places = generator.choice(tail.weights.size, 100_000, p=tail.weights.ravel())
    first, second = np.unravel_index(places, tail.weights.shape)
    for one, other in zip(rows, more, strict=True):
        found.append(np.mean(generator.poisson(one[first] + other[second]) > 0))
    assert found[0] > 0.05 - 0.003
    assert found[1] < 0.05 + 0.003
    many = tail._replace(undetectable=tail.undetectable + 10)
    assert many.farthest_bin(0.05) == len(tail.expected) - 1


def test_far_bounds_need_little_memory():
    """An earlier version needed 1.1 GB: one array held the counts of all pairs of tails."""
    ends = bin_upper_ends(1.0, 1e9)
    counts = np.zeros(len(ends), int)
    counts[8:14] = 1000
    found = NormHistogram(tuple(ends.tolist()), tuple(counts.tolist()), LOUD)
    tracemalloc.start()
    assert np.isfinite(found.squared_norm_loss(3.0)).all()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100e6


def squares_beyond(found, radius):
    return np.maximum(np.array(found.upper_ends) - radius**2, 0.0)


def test_where_noise_hides_all_rows_any_tail_may_be():
    hidden = NormHistogram((1.0, 2.0), (84, 0), LOUD)
    assert hidden.largest_tail_losses(1.2, 1.4, 0.0) == (math.inf, math.inf)


@pytest.mark.parametrize("noise", [LOUD, ScalarLaplace(Fraction(20))])
def test_a_group_of_the_stated_size_is_detectable_and_a_smaller_one_is_not(noise):
    size = NormHistogram((1.0, 2.0), (0, 0), noise).smallest_detectable_group
    for rows, last in ((size - 1, 1), (size + 1, 8)):
        counts = (0, 0, 9 * size, 9 * size, *[0] * 12, rows, 0)
        found = NormHistogram(tuple(2.0 ** np.arange(18)), counts, noise)
        assert found.detectable[0] == last


@pytest.mark.parametrize("noise", [LOUD, ScalarLaplace(Fraction(20))])
@pytest.mark.parametrize("bins", [1, 2])
def test_a_separate_group_that_noise_alone_rarely_explains_is_a_possible_tail(noise, bins):
    """The error of the loss does not contain it: a false alarm would make this error useless.

    Controls: without such a group, no possible tail has its loss. A larger group is part of the
    estimate, and the error contains a group that is not far away.
    """
    body, radius = counted(drawn("light"), noise), 3.0
    start = len(body.counts) - 6
    alone, together = noise.upper_quantile(0.001), octave_quantile(noise, 0.001)
    least = int(min(alone, together) if bins == 1 else together / 2)
    far = bins * least * (body.upper_ends[start - 1] - radius**2)

    def with_group(rows, start=start):
        counts = np.append(body.counts[: len(body.counts) - 8], np.zeros(8, int))
        counts[start : start + bins] = rows
        return NormHistogram(body.upper_ends, tuple(counts.tolist()), noise)

    none, group = with_group(0), with_group(least + 1)
    assert none.detectable[0] == group.detectable[0]
    loss = group.squared_norm_loss(radius)
    assert max(loss.estimate, loss.standard_deviation) < 0.5 * far
    largest = [one.largest_tail_losses(radius, LONGEST, 0.0)[0] for one in (none, group)]
    assert largest[0] < far < largest[1]
    near = none._tail.detectable_bins + 2
    beside = bins * least * (body.upper_ends[near - 1] - radius**2)
    assert with_group(2 * least, near).squared_norm_loss(radius).standard_deviation > beside
    assert with_group(3 * least).squared_norm_loss(radius).estimate > far


@pytest.mark.parametrize(("rows", "hidden"), [(113, True), (114, False)])
def test_noise_hides_what_is_not_above_four_of_its_deviations(rows, hidden):
    assert NormHistogram((1.0, 2.0), (rows, 0), LOUD).below_noise_level == hidden


@pytest.mark.parametrize(("far", "known"), [(lengths.FALSE_ALARM_DISTANT, True), (0.0, False)])
def test_rows_beyond_a_gap_are_expected_where_they_show_clearly(monkeypatch, far, known):
    """A control: where rows count in a row with the fullest window alone."""
    monkeypatch.setattr(lengths, "FALSE_ALARM_DISTANT", far)
    norms = np.repeat([1.05, 3.9, 7.8], [4400, 480, 120])
    taken = np.sum(np.maximum(norms**2 - 1.8**2, 0))
    found = counted(norms)
    assert (found.squared_norm_loss(1.8).estimate == pytest.approx(taken, rel=0.2)) == known


@pytest.mark.parametrize(("far", "alarms"), [(lengths.FALSE_ALARM_DISTANT, False), (0.01, True)])
def test_noise_alone_does_not_pass_for_rows_beyond_a_gap(monkeypatch, far, alarms):
    monkeypatch.setattr(lengths, "FALSE_ALARM_DISTANT", far)
    law, ends, rng = (
        ScalarLaplace(Fraction(10)),
        bin_upper_ends(1.0, LONGEST),
        np.random.default_rng(1),
    )
    rows = np.diff([0, *(np.count_nonzero(drawn("light") ** 2 <= end) for end in ends)])
    noise = np.rint(rng.laplace(scale=10, size=(500, len(ends))))
    reached = [
        NormHistogram(tuple(ends), tuple(rows + one), law).squared_norm_loss(8.0).estimate
        for one in noise
    ]
    assert (max(reached) > 2 * 8.0**2) == alarms


@pytest.mark.parametrize(("far", "kept"), [(lengths.FALSE_ALARM_DISTANT, True), (1e-300, False)])
def test_rare_values_keep_their_variance_and_intervals_cover_their_means(monkeypatch, far, kept):
    monkeypatch.setattr(lengths, "FALSE_ALARM_DISTANT", far)
    table = (np.random.default_rng(5).random((5000, 3)) < [0.015, 0.5, 0.9]).astype(float)
    ratios, covered = [], []
    for seed in range(5):
        made = dpcov.release(table, lower=0, upper=1, epsilon=3.0, seed=seed)
        ratios.append(np.diag(made.covariance()) / np.var(table, axis=0))
        about = dpcov.intervals(made, "mean", sampling=False, generator=np.random.default_rng(seed))
        covered += ((about.low <= table.mean(axis=0)) & (table.mean(axis=0) <= about.high)).tolist()
    assert (np.median(ratios, axis=0).min() > 0.8) == kept
    assert np.mean(covered) > 0.8


def heavy_table():
    rng = np.random.default_rng(5)
    return rng.standard_t(3, size=(20_000, 4)) + rng.standard_t(3, size=(20_000, 1))


def released(seed, table):
    return dpcov.release(
        table, lower=-50, upper=50, rho=2.0, mechanism="standardized", directions_share=0.1,
        seed=seed,
    )  # fmt: skip


def test_intervals_know_of_the_clip_and_without_the_counts_they_do_not():
    table = heavy_table()
    truth = np.var(np.clip(table, -50, 50), axis=0)
    covered, alone = [], []
    for seed in range(12):
        made = released(seed, table)
        for found, kept in ((made, covered), (changed(made, lengths=None), alone)):
            about = dpcov.intervals(
                found, "covariance", sampling=False,
                generator=np.random.default_rng(seed),
            )  # fmt: skip
            kept += ((np.diag(about.low) <= truth) & (truth <= np.diag(about.high))).tolist()
    assert np.mean(covered) > 0.9
    assert np.mean(alone) < 0.7


def test_a_file_brings_the_counts_back_and_refuses_damaged_ones():
    made = released(0, heavy_table())
    again = from_text(made.to_text(), "file")
    assert again.lengths == made.lengths
    document = former(made)
    for damage in ({"counts": [1]}, {"ends": document["lengths"]["ends"][::-1]}):
        damaged = document | {"lengths": document["lengths"] | damage}
        with pytest.raises(ReleaseError, match="lengths"):
            from_text(json.dumps(damaged), "file")


def test_counts_beyond_64_bits_have_finite_losses():
    law = ScalarLaplace(Fraction(10**23))  # a tiny part of a tiny budget
    counts = tuple(int(one) for one in 10**22 * np.array([30, -20, 5, 7, -9, 1, 3, -2], object))
    histogram = NormHistogram(tuple(2.0 ** np.arange(-7.0, 1.0)), counts, law)
    assert max(counts) > 2**63
    assert np.isfinite(squared_norm_losses(histogram, np.array([0.1, 0.5]))).all()
    assert np.isfinite(histogram.squared_norm_loss(0.5).estimate)
    assert np.isfinite(histogram.loss_upper_bounds(0.5, 0.95)).all()
