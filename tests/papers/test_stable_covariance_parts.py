"""Stable covariance, part by part: shares, levels, the sampled matrix, integers, options."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, PureDP, Unit, exact
from dpcov.core.samplers.scalars import ScalarLaplace
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.mechanisms import StableCovariance
from dpcov.papers import stable_covariance
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import most_samples, usable_delta
from dpcov.papers.primitives.stable_rows import StableRows, usual_leverage
from dpcov.papers.stable_covariance import Calibration, with_intercept
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.rows import IntegerRows
from rounds_for_tests import trace_of

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
BUDGET = ApproxDP(2.0, 1e-5)
LATTICE = Lattice(3, 1.0)


def table_of(*rows, owners=None, roots=None):
    matrix = np.array(rows, dtype=np.float64).T
    owners = np.arange(len(rows)) if owners is None else np.array(owners)
    return IntegerRows(matrix, owners, int(owners.max()) + 1, roots)


def guarantee(neighbors, lattice=LATTICE, budget=BUDGET):
    return Guarantee(budget, neighbors, lattice.unit)


# Shares.


def test_under_add_remove_test_and_count_take_their_shares_and_leave_the_rest():
    laws = Calibration.of("it", guarantee(ADD), 0.25, 0.125, 4)
    delta = usable_delta(1e-5, 2.0)
    assert laws.test == ReleaseTest(Fraction(1, 2), delta, 1, slack=4)
    assert laws.units == ScalarLaplace(Fraction(4))
    assert (laws.epsilon, laws.delta) == (Fraction(5, 4), delta)


def test_under_replace_one_a_score_moves_by_two_and_the_count_is_free():
    laws = Calibration.of("it", guarantee(SWAP), 0.25, 0.125, 4)
    assert laws.test == ReleaseTest(Fraction(1, 2), usable_delta(1e-5, 2.0), 2, slack=4)
    assert laws.units is None
    assert laws.epsilon == Fraction(3, 2)


def test_the_count_is_that_of_units_with_the_noise_of_its_law():
    table = table_of([1], [2], [3], owners=[0, 0, 1])
    for neighbors in Neighbors:
        laws = Calibration.of("it", guarantee(neighbors), 0.25, 0.125, 4)
        noise = laws.units.sample(Entropy.seeded(3)) if neighbors is ADD else 0
        assert laws.unit_count(table, Entropy.seeded(3)) == 2 + noise
        assert (noise != 0) == (neighbors is ADD)


def test_a_count_that_cannot_be_drawn_is_refused():
    with pytest.raises(MechanismError):
        StableCovariance(count_share=1e-30).calibrate(LATTICE, BUDGET, ADD)
    StableCovariance(count_share=1e-30).calibrate(LATTICE, BUDGET, SWAP)


# What is done with so many units.


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("units", [30_000, 54_321])
def test_the_ceiling_is_the_number_of_units_over_the_usual_leverage(units, k):
    lattice = Lattice(3, 1.0, 0.3, Unit("id", k))
    mechanism = StableCovariance()
    laws = mechanism.calibrate(lattice, BUDGET, ADD)
    stable, _ = mechanism.at(laws, lattice, units)
    assert stable.limit == laws.test.limit
    assert stable.ceiling == math.floor(units / (k * usual_leverage(4, units)))
    given = StableCovariance(leverage=7.0)
    assert given.at(laws, lattice, units)[0].ceiling == units // 7
    assert units % 7


def test_there_are_no_levels_at_three_times_the_limit():
    mechanism = StableCovariance(leverage=1.0)
    laws = mechanism.calibrate(LATTICE, BUDGET, ADD)
    k = laws.test.limit
    for units in (-5, 0, 1, 3 * k - 1, 3 * k, 3 * k + 1):
        assert mechanism.at(laws, LATTICE, units) == (None, None)
    tiny = StableCovariance(leverage=1e-9)
    assert tiny.at(laws, LATTICE, -5) == tiny.at(laws, LATTICE, 0) == (None, None)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_release_starts_where_it_has_twice_as_many_samples_as_columns(neighbors):
    budget = ApproxDP(30.0, 1e-5)
    mechanism = StableCovariance(leverage=1.0, slack=60)
    laws = mechanism.calibrate(LATTICE, budget, neighbors)
    k, found = laws.test.limit, []
    for units in range(3 * k + 2, 5 * k):
        close = StableRows(units, k).closeness(neighbors)
        samples = most_samples(close, float(laws.epsilon) * (1 - 1e-12), laws.delta)
        stable, release = mechanism.at(laws, LATTICE, units)
        assert (stable is None) == (release is None) == (samples < 6)
        if release is not None:
            assert (release.closeness, release.samples) == (close, samples)
            found.append(units)
    assert 3 * k + 2 < found[0] < 4 * k + 1


def test_samples_keep_epsilon_and_there_are_at_least_two_for_each_column(monkeypatch):
    mechanism, given, answers = StableCovariance(), [], [2**20]

    def fake(close, epsilon, delta):
        given.append((epsilon, delta))
        return answers[-1]

    monkeypatch.setattr(stable_covariance, "most_samples", fake)
    laws = mechanism.calibrate(LATTICE, BUDGET, ADD)
    assert laws.epsilon * (1 - exact(1e-11)) < exact(given[0][0]) < laws.epsilon
    assert given[0][1] == laws.delta
    for samples, enough in ((7, True), (6, True), (5, False)):
        answers.append(samples)
        assert (mechanism.at(laws, LATTICE, 10**6)[0] is not None) == enough


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_least_number_of_units_is_enough_and_one_less_is_not(neighbors):
    mechanism = StableCovariance()
    laws = mechanism.calibrate(LATTICE, BUDGET, neighbors)
    least = mechanism.least_units(LATTICE, BUDGET, neighbors)
    assert mechanism.at(laws, LATTICE, least)[0] is not None
    assert mechanism.at(laws, LATTICE, least - 1)[0] is None


# What is sampled.


class Recording:
    """In the place of stable rows, of the test, and of what is released."""

    limit = 5

    def __init__(self, passed):
        self.passed, self.asked = passed, []

    def __call__(self, *arguments):
        self.asked.append(arguments)
        return (3, np.array([2, 5])) if len(arguments) == 1 else "released"

    def passes(self, score, entropy):
        assert score == 3
        return self.passed


def test_what_is_sampled_is_the_weighted_second_moment_plus_the_ridge_over_the_limit():
    table = table_of([1, 2], [3, 4], [-5, 6], owners=[0, 1, 1])
    weights = [2, 5, 5]
    expected = sum(w * np.outer(x, x) for w, x in zip(weights, table.rows.T, strict=True))
    for passed in (True, False):
        fake = Recording(passed)
        if passed:
            found = stable_covariance.stable_sample(table, fake, fake, fake, Entropy.seeded(1))
            (asked_of,), (matrix, divisor, _) = fake.asked
            assert (found, asked_of, divisor) == ("released", table, 5)
            assert matrix.tolist() == (expected + 5 * np.eye(2)).tolist()
            assert all(type(x) is int for x in matrix.ravel())
        else:
            with pytest.raises(MechanismRefused, match="hardly any outweighs"):
                stable_covariance.stable_sample(table, fake, fake, fake, Entropy.seeded(1))
            assert len(fake.asked) == 1


def test_an_intercept_completes_rows_by_its_units_on_the_finer_grid():
    table = table_of([1.0, 2.0], [3.0, 4.0])
    assert with_intercept(table, Lattice(2, 1.0)) is table
    lattice = Lattice(2, 1.0, 2.0**-20)
    assert lattice.intercept_units == 1
    np.testing.assert_array_equal(
        with_intercept(table, lattice).rows, [[1, 3], [2, 4], [2**20, 2**20]]
    )
    shrunk = table_of([1.0, 2.0], [3.0, 4.0], roots=np.array([0.3, 1.0]))
    found = with_intercept(shrunk, Lattice(2, 1.0, 0.3))
    constant = Lattice(2, 1.0, 0.3).intercept_units * 2**20
    assert found.rows[2].tolist() == [np.rint(0.3 * constant), constant]
    assert found.owners is shrunk.owners


@pytest.mark.parametrize(
    ("size", "fine", "shift"),
    [(0, 40, 0), (101, 40, 0), (102, 40, 0), (103, 40, 1), (111, 40, 9), (61, 0, 0), (70, 0, 8)],
)
def test_integers_are_published_to_62_bits_rounded_half_up(size, fine, shift):
    schema = Schema.from_bounds(-1.0, 1.0, ("a", "b"), intercept=0.0)
    rows = open_rows(np.zeros((1, 2)), schema)
    largest = (1 << size) - 1  # `size` bits
    half = 1 << (shift + fine) >> 1
    moment = np.array([[3 * half, half - 1], [half, -largest]], dtype=object)
    made = stable_covariance.released(
        StableCovariance(),
        rows,
        guarantee(SWAP),
        moment,
        rows.lattice().relative(),
        fine,
        17,
        Entropy.seeded(1),
    )
    assert made.shift == shift
    unit = Fraction(1 << (shift + fine))
    expected = [[math.floor(x / unit + Fraction(1, 2)) for x in row] for row in moment.tolist()]
    assert made.published.tolist() == expected
    assert made.unit_count == 17
    assert made.noise is trace_of(made) is None


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_number_of_units_is_published_under_replace_one_only(neighbors):
    values = np.random.default_rng(1).normal(size=(6000, 2)) / 8
    schema = Schema.from_bounds(-1.0, 1.0, ("a", "b"), intercept=0.0)
    made = StableCovariance()(
        open_rows(values, schema), budget=BUDGET, neighbors=neighbors, entropy=Entropy.seeded(1)
    )
    assert made.unit_count == (6000 if neighbors is SWAP else None)
    np.testing.assert_allclose(made.noisy().diagonal(), (values**2).sum(axis=0), rtol=0.3)


# Options and refusals.


def test_other_budgets_are_refused_with_what_is_needed():
    with pytest.raises(MechanismError, match="stable-covariance needs epsilon and delta"):
        StableCovariance().calibrate(LATTICE, PureDP(1.0), ADD)


@pytest.mark.parametrize("wrong", [True, 2.0, -1, "3"])
def test_a_slack_that_is_no_whole_number_is_refused(wrong):
    with pytest.raises(MechanismError, match="slack"):
        StableCovariance(slack=wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        {"slack": -1},
        {"test_share": 0.0},
        {"test_share": 1.0},
        {"count_share": 0.0},
        {"test_share": 0.75, "count_share": 0.25},
        {"test_share": 0.75, "count_share": 0.5},
        {"leverage": 0.0},
        {"leverage": -1.0},
        {"leverage": math.inf},
        {"leverage": math.nan},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(MechanismError):
        StableCovariance(**wrong)


@pytest.mark.parametrize(
    "right",
    [{"slack": 0}, {"slack": 1}, {"test_share": 0.5, "count_share": 0.49}, {"leverage": 0.5}],
    ids=str,
)
def test_options_at_the_edges_are_taken(right):
    made = StableCovariance(**right)
    assert {name: getattr(made, name) for name in right} == right
