"""The clipping losses in the rule of the radius, computed row by row."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpcov.mechanisms.radius_losses import squared_norm_losses
from test_norm_histogram import TABLES, octave_quantile


def tail_by_hand(found):
    """Return detectable rows by bin, and (weight, rows beyond by bin) of each hypothesis.

    The function computes them row by row.
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
    tails = []
    for bend, k in itertools.product((0, 0.25, 0.5, 0.75, 1), range(18)):
        share = 0.02 * 35 ** (k / 17)
        if bend == 0 and share > 0.65:
            continue
        rows, log, beyond = max(windows[last], 0), math.log(1 if bend else 2), [0.0] * m
        if last > peak and windows[last - 1] > near:
            wide = math.hypot(deviation, deviation / share, rows / share / 2)
            log += stats.norm.logpdf(windows[last - 1], rows / share, wide)
        for at in range(last + 1, len(windows)):
            rows, share = rows * share, share ** (2**bend)
            log += stats.norm.logpdf(windows[at], rows, math.hypot(deviation, rows**0.5))
            first = rows / (1 + share**0.5)
            beyond[starts[at] : starts[at] + 2] = [first, rows - first]
        tails.append((log, beyond))
    likely = max(log for log, _ in tails)
    whole = sum(math.exp(log - likely) for log, _ in tails)
    seen = [max(rows, 0) if at < starts[last] + 2 else 0 for at, rows in enumerate(found.counts)]
    return seen, starts[last] + 2, [(math.exp(log - likely) / whole, tail) for log, tail in tails]


def taken_by_hand(found, excess):
    seen, ended, tails = tail_by_hand(found)
    begins, sd = (0.0, *found.upper_ends), found.noise.standard_deviation
    inside = [
        [excess(begin + at * (end - begin)) for at in (0.1, 0.3, 0.5, 0.7, 0.9)]
        for begin, end in zip(begins, found.upper_ends, strict=False)
    ]
    each, within = [np.mean(bin_) for bin_ in inside], [np.std(bin_) for bin_ in inside]
    sums = sorted((np.dot(tail, each), weight) for weight, tail in tails)
    reached = list(itertools.accumulate(weight for _, weight in sums))
    beyond = sums[next(at for at, so_far in enumerate(reached) if so_far >= 0.25)][0]
    variance = sum((sd * e) ** 2 for e in each[:ended])
    for at, (e, w) in enumerate(zip(each, within, strict=True)):
        variance += (seen[at] * w) ** 2
        variance += sum(weight * tail[at] for weight, tail in tails) * (e**2 + w**2)
    return math.hypot(np.dot(seen, each) + beyond, variance**0.5)


@pytest.mark.parametrize("name", TABLES)
def test_the_loss_is_that_of_the_stated_laws_row_by_row(name):
    found, radii = TABLES[name], (0.05, 1.5, 6.0)
    by_hand = [
        taken_by_hand(found, lambda square, radius=radius: max(square - radius**2, 0))
        for radius in radii
    ]
    assert squared_norm_losses(found, np.array(radii)) == pytest.approx(by_hand, rel=1e-9)
