"""Counts of rows by length: what they tell of a clip, and that intervals know of it."""

import json
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import dpcov
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.errors import ReleaseError
from dpcov.mechanisms.standardized import UNLIKE, best_radius
from dpcov.releases import lengths
from dpcov.releases.file import from_text
from dpcov.releases.lengths import Lengths, bin_ends
from dpcov.rows.moment import Lattice

LONGEST = 64.0
QUIET, LOUD = ScalarGaussian(Fraction(1)), ScalarGaussian(Fraction(400))


def counted(norms, law=QUIET, seed=0):
    ends = bin_ends(1.0, LONGEST)
    found = np.diff([0, *(np.count_nonzero(norms**2 <= end) for end in ends)])
    noise = np.random.default_rng(seed).normal(scale=law.standard_deviation, size=len(ends))
    counts = found + np.rint(noise).astype(int)
    return Lengths(tuple(ends.tolist()), tuple(counts.tolist()), law)


def drawn(tail, n=20_000):
    rng = np.random.default_rng(3)
    if tail == "light":
        return np.linalg.norm(rng.normal(size=(n, 4)), axis=1) / 2
    return np.minimum((1 - rng.random(n)) ** (-1 / 3), LONGEST)  # of |z|^2 to the power -1.5


@pytest.mark.parametrize("tail", ["light", "heavy"])
@pytest.mark.parametrize("radius", [1.5, 3.0, 6.0])
def test_counts_tell_how_much_squared_length_a_clip_takes(tail, radius):
    norms = drawn(tail)
    taken = np.sum(np.maximum(norms**2 - radius**2, 0))
    found = counted(norms)
    told = found.squared(radius)
    assert told.estimate == pytest.approx(taken, rel=0.4, abs=50)
    assert abs(taken - told.estimate) < 2 * told.deviation
    assert told.deviation < 0.5 * taken + 50
    first, lost = np.sum(np.maximum(norms - radius, 0)), found.length(radius)
    assert abs(first - lost.estimate) < 2 * lost.deviation
    assert taken < found.most(radius, 0.95)


def test_a_tail_that_noise_hides_may_be_long():
    norms = drawn("heavy", 2000)
    found = counted(norms, LOUD)
    taken = np.sum(np.maximum(norms**2 - 4.0**2, 0))
    told = found.squared(4.0)
    assert told.deviation > told.estimate
    assert taken < told.estimate + 2 * told.deviation < 20 * taken


@pytest.mark.parametrize("law", [LOUD, ScalarLaplace(Fraction(15))])
def test_the_bound_on_what_lies_beyond_holds_as_often_as_it_says(law):
    """Far-out rows too few to show are in it: of all tables the one that the estimate misses."""
    norms = np.append(drawn("light", 2000), [40.0, 50.0])
    taken = np.sum(np.maximum(norms**2 - 2.0**2, 0))
    ends, rng = bin_ends(1.0, LONGEST), np.random.default_rng(0)
    rows = np.diff([0, *(np.count_nonzero(norms**2 <= end) for end in ends)])
    held, estimated = [], []
    for _ in range(400):
        noise = np.rint([law.simulate(rng) for _ in ends]).astype(int)
        found = Lengths(tuple(ends.tolist()), tuple((rows + noise).tolist()), law)
        held.append(taken <= found.most(2.0, 0.95))
        told = found.squared(2.0)
        estimated.append(taken <= told.estimate + 2 * told.deviation)
    assert np.mean(held) >= 0.93
    assert np.mean(estimated) < 0.5  # control


def test_where_noise_hides_how_long_most_rows_are_none_is_given_back():
    """Of counts that are noise some are above 0; what they add would pass for variance."""
    noise = np.random.default_rng(0).normal(scale=20.0, size=20)
    ends = tuple(2.0 ** np.arange(20))
    few, many = (
        Lengths(ends, tuple(np.rint(noise + rows).astype(int).tolist()), LOUD)
        for rows in (0, np.where(np.arange(20) < 12, 2000, 0))
    )
    assert few.hidden
    assert few.squared(16.0).estimate == 0 < few.squared(16.0).deviation
    assert not many.hidden
    assert many.squared(16.0).estimate > 0


def test_no_row_is_longer_than_the_last_end_and_nothing_is_taken_there():
    found = counted(drawn("heavy"))
    assert found.squared(LONGEST) == (0, 0) == found.length(LONGEST)
    assert found.most(LONGEST, 0.95) == 0
    assert np.all(np.diff(found.ends) > 0)
    assert found.ends[-1] == LONGEST**2


def test_the_radius_grows_with_the_tail_and_as_noise_falls():
    lattice = Lattice(4, 1.0, 0.3)

    def radius(tail, noise):
        law = GaussianOrthogonal(5, Fraction(int(noise * 2**40)) ** 2)
        return best_radius(counted(drawn(tail)), law, lattice)

    assert radius("light", 30) < radius("heavy", 30)
    assert radius("heavy", 300) <= radius("heavy", 30) < radius("heavy", 1)


@pytest.mark.parametrize("noise", [0, 1, 10, 30, 100, 300, 1000, 1e9])
@pytest.mark.parametrize("tail", ["light", "heavy"])
def test_no_radius_on_a_finer_grid_is_expected_to_be_much_better(tail, noise):
    law, counts = GaussianOrthogonal(5, Fraction(int(noise * 2**40)) ** 2 + 1), counted(drawn(tail))
    found = best_radius(counts, law, Lattice(4, 1.0, 0.3)) ** 2

    def expected(square):
        of_noise = math.sqrt(law.diagonal_variance) / 2**40 * square
        return math.hypot(of_noise, UNLIKE * counts.squared(math.sqrt(square)).size / 4)

    steps = 4 * math.log2(counts.ends[-1] / found)
    assert steps == pytest.approx(round(steps))
    finer = counts.ends[-1] * 2.0 ** -np.arange(0, len(counts.ends) / 2, 1 / 32)
    assert finer.min() < found <= finer.max()
    best = finer[np.argmin([expected(square) for square in finer])]
    assert abs(math.log2(found / best)) <= 1 / 4


@pytest.mark.parametrize(("far", "known"), [(lengths.FAR, True), (0.0, False)])
def test_rows_beyond_a_gap_are_expected_where_they_show_clearly(monkeypatch, far, known):
    """A control: where rows count in a row with the fullest window alone."""
    monkeypatch.setattr(lengths, "FAR", far)
    norms = np.repeat([1.05, 3.9, 7.8], [4400, 480, 120])
    taken = np.sum(np.maximum(norms**2 - 1.8**2, 0))
    found = counted(norms)
    assert (found.squared(1.8).estimate == pytest.approx(taken, rel=0.2)) == known


@pytest.mark.parametrize(("far", "alarms"), [(lengths.FAR, False), (0.01, True)])
def test_noise_alone_does_not_pass_for_rows_beyond_a_gap(monkeypatch, far, alarms):
    monkeypatch.setattr(lengths, "FAR", far)
    law, ends, rng = ScalarLaplace(Fraction(10)), bin_ends(1.0, LONGEST), np.random.default_rng(1)
    rows = np.diff([0, *(np.count_nonzero(drawn("light") ** 2 <= end) for end in ends)])
    noise = np.rint(rng.laplace(scale=10, size=(1000, len(ends))))
    reached = [Lengths(tuple(ends), tuple(rows + one), law).squared(8.0).estimate for one in noise]
    assert (max(reached) > 2 * 8.0**2) == alarms


@pytest.mark.parametrize(("far", "kept"), [(lengths.FAR, True), (1e-300, False)])
def test_rare_values_keep_their_variance_and_intervals_cover_their_means(monkeypatch, far, kept):
    monkeypatch.setattr(lengths, "FAR", far)
    table = (np.random.default_rng(5).random((5000, 3)) < [0.02, 0.5, 0.9]).astype(float)
    ratios, covered = [], []
    for seed in range(5):
        made = dpcov.release(table, lower=0, upper=1, epsilon=3.0, seed=seed)
        ratios.append(np.diag(made.covariance()) / np.var(table, axis=0))
        about = dpcov.intervals(made, "mean", sampling=False, generator=np.random.default_rng(seed))
        covered += ((about.low <= table.mean(axis=0)) & (table.mean(axis=0) <= about.high)).tolist()
    assert (np.median(ratios, axis=0).min() > 0.8) == kept
    assert (np.mean(covered) > 0.8) == kept


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
        for found, kept in ((made, covered), (replace(made, lengths=None), alone)):
            about = dpcov.intervals(
                found, "covariance", sampling=False, guaranteed=False,
                generator=np.random.default_rng(seed),
            )  # fmt: skip
            kept += ((np.diag(about.low) <= truth) & (truth <= np.diag(about.high))).tolist()
    assert np.mean(covered) > 0.9
    assert np.mean(alone) < 0.7


def test_a_file_brings_the_counts_back_and_refuses_damaged_ones():
    made = released(0, heavy_table())
    again = from_text(made.to_text(), "file")
    assert again.lengths == made.lengths
    document = json.loads(made.to_text())
    for damage in ({"counts": [1]}, {"ends": document["lengths"]["ends"][::-1]}):
        damaged = document | {"lengths": document["lengths"] | damage}
        with pytest.raises(ReleaseError, match="lengths"):
            from_text(json.dumps(damaged), "file")
