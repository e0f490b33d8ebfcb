"""Groups that agree, part by part: shares, the number of groups, the sampled sum, options."""

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, exact
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.mechanisms import AshtianiLiaw
from dpcov.papers import ashtiani_liaw
from dpcov.papers.accounting import renyi_epsilon
from dpcov.papers.ashtiani_liaw import Calibration, _closest, _sample
from dpcov.papers.primitives import random_groups, stable_matrices
from dpcov.papers.primitives.random_groups import require_memory
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import (
    SampledCovariance,
    most_samples,
    usable_delta,
)
from dpcov.papers.primitives.stable_matrices import StableMatrices, close_pairs
from dpcov.rows.moment import Lattice, SecondMoment
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
BUDGET = ApproxDP(4.0, 1e-5)
LATTICE = Lattice(2, 1.0, 0.3)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_test_takes_its_share_and_the_samples_the_rest(monkeypatch, neighbors):
    asked, right, most = [], ashtiani_liaw._closest, []
    monkeypatch.setattr(ashtiani_liaw, "_closest", lambda *a: asked.append(a) or right(*a))
    monkeypatch.setattr(
        ashtiani_liaw, "most_samples", lambda *a: most.append(a) or most_samples(*a)
    )
    mechanism = AshtianiLiaw(agreement=0.25, samples=20, slack=3, test_share=0.375)
    laws = mechanism.calibrate(LATTICE, BUDGET, neighbors)
    delta = usable_delta(1e-5, 4.0)
    assert laws.stable == StableMatrices(
        Fraction(1, 4), ReleaseTest(Fraction(3, 2), delta, 2, slack=3)
    )
    ((samples, epsilon, at),) = asked
    assert (samples, at) == (3 * 20, delta)
    assert Fraction(5, 2) * (1 - exact(1e-11)) < exact(epsilon) < Fraction(5, 2)
    assert laws.groups == laws.stable.count_for(right(samples, epsilon, delta))
    close = laws.stable.closeness(laws.groups)
    assert most == [(close, epsilon, delta)]
    assert laws.release == SampledCovariance(close, most_samples(close, epsilon, delta))
    assert laws.release.samples >= 60


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("samples", [6, 600])
def test_the_largest_closeness_keeps_the_budget_and_hardly_more_does_not(samples, epsilon):
    found = _closest(samples, epsilon, 1e-6)
    assert renyi_epsilon(SampledCovariance(found, samples).renyi, 1e-6) <= epsilon
    more = SampledCovariance(found * (1 + 2e-9), samples)
    assert renyi_epsilon(more.renyi, 1e-6) > epsilon


def test_if_no_closeness_keeps_the_budget_the_least_is_reported():
    assert _closest(10**40, 1e-30, 1e-6) == 2.0**-60


def test_more_groups_than_are_compared_are_refused(monkeypatch):
    groups = AshtianiLiaw().calibrate(LATTICE, BUDGET, ADD).groups
    monkeypatch.setattr(ashtiani_liaw, "MAX_COMPARED_GROUPS", groups)
    AshtianiLiaw().calibrate(LATTICE, BUDGET, ADD)
    monkeypatch.setattr(ashtiani_liaw, "MAX_COMPARED_GROUPS", groups - 1)
    with pytest.raises(
        MechanismError, match=f"{groups} groups .* 3 x 3 matrix each.* larger budget"
    ):
        AshtianiLiaw().calibrate(LATTICE, BUDGET, ADD)


def test_groups_whose_matrices_need_too_much_memory_are_refused_before_anything_is_spent(tmp_path):
    names = [f"x{j}" for j in range(400)]
    ledger = Ledger.create(tmp_path / "l", ApproxDP(1.0, 1e-5), count="sums")
    asked = {"schema": Schema.from_bounds(-1, 1, names), "mechanism": "ashtiani-liaw"}
    with pytest.raises(MechanismError, match="401 x 401 matrix each, which is too much memory"):
        dpcov.release(np.zeros((3, 400)), ledger=ledger, epsilon=1.0, delta=1e-6, **asked)
    assert ledger.account().spent == {"epsilon": 0.0, "delta": 0.0}


def test_the_most_entries_are_held_and_not_one_more(monkeypatch):
    require_memory("m", 4, 2, 3, most=4)
    for most, entries in ((3, 24), (4, 23)):
        monkeypatch.setattr(random_groups, "MAX_GROUP_ENTRIES", entries)
        with pytest.raises(MechanismError, match=r"4 groups .* 2 x 3 matrix each"):
            require_memory("m", 4, 2, 3, most=most)
    monkeypatch.setattr(random_groups, "MAX_GROUP_ENTRIES", 24)
    require_memory("m", 4, 2, 3, most=4)


@pytest.mark.parametrize("undecided", [False, True])
def test_comparing_takes_a_few_bytes_for_each_pair_whatever_the_rows_are(monkeypatch, undecided):
    if undecided:  # by floats: each pair is decided in integers
        monkeypatch.setattr(stable_matrices.Factor, "of", lambda _: None)
        monkeypatch.setattr(stable_matrices, "_within", lambda *_: True)
    matrices = [np.array([[10**9]], dtype=object)] * 500
    close_pairs(matrices[:2], Fraction(1, 5))  # imports what it needs
    tracemalloc.start()
    assert close_pairs(matrices, Fraction(1, 5)).all()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 500**2


def test_the_rows_that_it_takes_follow_from_the_distance_of_two_groups():
    groups = AshtianiLiaw().calibrate(LATTICE, BUDGET, ADD).groups
    largest = chi2.isf(0.1 / groups, 7)  # 6 entries of a matrix of order 3, and one
    expected = math.ceil(groups * 4 * largest * (1.2 / 0.2) ** 2)
    assert AshtianiLiaw().least_units(LATTICE, BUDGET, ADD) == pytest.approx(expected, abs=1)


class Recording:
    """In the place of weights, of the test, and of what is released."""

    def __init__(self, passed):
        self.passed, self.asked, self.test = passed, [], self

    def __call__(self, *arguments):
        self.asked.append(arguments)
        return (3, np.array([2, 0, 5])) if len(arguments) == 1 else "released"

    def passes(self, score, entropy):
        assert score == 3
        return self.passed


def moments_of(*rows, counts=None):
    lattice = Lattice(2, 1.0)
    found = [np.outer(row, row).astype(object) for row in rows]
    counts = counts or [1] * len(rows)
    return [SecondMoment(units, lattice, count) for units, count in zip(found, counts, strict=True)]


@pytest.mark.parametrize("passed", [True, False])
def test_what_is_sampled_is_the_weighted_mean_of_ridged_groups_times_their_number(passed):
    moments, fake = moments_of((1, 2), (3, 4), (-5, 6)), Recording(passed)
    laws = Calibration(Guarantee(BUDGET, ADD, LATTICE.unit), fake, 11, fake)
    if not passed:
        with pytest.raises(MechanismRefused, match="nearly the same second moment"):
            _sample(moments, laws, Entropy.seeded(1))
        assert len(fake.asked) == 1
        return
    assert _sample(moments, laws, Entropy.seeded(1)) == "released"
    (matrices,), (whole, divisor, _) = fake.asked
    ridged = [moment.units + np.eye(2, dtype=int) for moment in moments]
    assert [matrix.tolist() for matrix in matrices] == [matrix.tolist() for matrix in ridged]
    assert whole.tolist() == (11 * (2 * ridged[0] + 5 * ridged[2])).tolist()
    assert all(type(x) is int for x in whole.ravel())
    assert divisor == 7


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_sampled_integers_are_published_and_the_count_under_replace_one(monkeypatch, neighbors):
    schema = Schema.from_bounds(-1.0, 1.0, ("a", "b"), intercept=0.0)
    rows, asked = open_rows(np.zeros((1, 2)), schema), []
    matrix = np.array([[2**70, 3], [3, 2**61 - 1]], dtype=object)

    def second_moments(given, **options):
        asked.append(options)
        return moments_of((1, 2), (3, 4), counts=[5, 12])

    monkeypatch.setattr(type(rows), "second_moments", second_moments)
    monkeypatch.setattr(ashtiani_liaw, "_sample", lambda *_: matrix)
    entropy = Entropy.seeded(1)
    made = AshtianiLiaw()(rows, budget=BUDGET, neighbors=neighbors, entropy=entropy)
    laws = AshtianiLiaw().calibrate(rows.lattice(), BUDGET, neighbors)
    lattice = rows.lattice().relative()
    assert asked == [{"groups": laws.groups, "labels": entropy, "lattice": lattice}]
    assert made.lattice == lattice
    assert made.shift == 71 - 62
    assert made.published.tolist() == [[2**61, 0], [0, 2**52]]
    assert made.unit_count == (17 if neighbors is SWAP else None)
    assert made.guarantee == laws.guarantee


@pytest.mark.parametrize(
    "wrong",
    [
        {"agreement": 0.0},
        {"agreement": 0.414},
        {"agreement": 0.5},
        {"agreement": math.nan},
        {"agreement": "a fifth"},
        {"samples": 2},
        {"samples": True},
        {"samples": 5.0},
        {"slack": -1},
        {"test_share": 0.0},
        {"test_share": 1.0},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(MechanismError):
        AshtianiLiaw(**wrong)


def test_options_at_the_edges_are_taken():
    made = AshtianiLiaw(agreement=0.413, samples=3, slack=0)
    assert (made.agreement, made.samples, made.slack) == (0.413, 3, 0)
