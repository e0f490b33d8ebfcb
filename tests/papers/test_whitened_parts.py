"""Whitened rows, part by part: the split of epsilon, the ceiling, the map, options."""

import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors, Unit, exact, zcdp_epsilon
from dpcov.errors import MechanismError, SourceError
from dpcov.mechanisms import Whitened, gaussian
from dpcov.papers import whitened
from dpcov.papers.accounting import compose_renyi, renyi_epsilon, renyi_of_zcdp
from dpcov.papers.primitives import stable_rows
from dpcov.papers.primitives.sampled_covariance import SampledCovariance
from dpcov.papers.primitives.stable_rows import StableRows
from dpcov.papers.whitened import _largest_rho, _whitening_map
from dpcov.rows.moment import FINE_UNITS, Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows
from strategies import ComesOnce

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
BUDGET = ApproxDP(2.0, 1e-5)
LATTICE = Lattice(3, 1.0)
SCHEMA = Schema.from_bounds(-8.0, 8.0, ("a", "b", "c"), intercept=0.0)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 40.0])
def test_the_largest_rho_implies_epsilon_and_hardly_more_does_not(epsilon):
    rho = _largest_rho(epsilon, 1e-5)
    assert zcdp_epsilon(rho, 1e-5) <= epsilon < zcdp_epsilon(rho * (1 + 5e-9), 1e-5)


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_what_the_test_and_the_count_leave_is_split_between_map_and_release(
    monkeypatch, neighbors, share
):
    asked, last = [], []
    calibrated = gaussian.calibration

    def largest(epsilon, delta):
        asked.append((epsilon, delta))
        return 0.125

    def calibration(lattice, guarantee, *arguments):
        last.append(arguments)
        return calibrated(lattice, guarantee, *arguments)

    monkeypatch.setattr(whitened, "_largest_rho", largest)
    monkeypatch.setattr(gaussian, "calibration", calibration)
    mechanism = Whitened(map_share=share, radius_share=0.25, test_share=0.25, count_share=0.125)
    laws = mechanism.calibrate(LATTICE, ApproxDP(4.0, 1e-5), neighbors)
    left = Fraction(5, 2) if neighbors is ADD else Fraction(3)
    assert laws.stable.epsilon == left
    assert left * (1 - exact(1e-11)) < exact(asked[0][0]) < left
    assert asked[0][1] == laws.stable.delta < 1e-5
    assert laws.rho == Fraction(1, 8) * (1 - exact(share))
    assert last == [(laws.rho * Fraction(3, 4), 0, 0.05)]


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("budget", [BUDGET, ApproxDP(0.5, 1e-7), ApproxDP(30.0, 1e-3)], ids=str)
@pytest.mark.parametrize("samples", [3, 10**5])
def test_the_ceiling_is_the_least_at_which_samples_and_release_fit(samples, budget, neighbors):
    mechanism = Whitened(samples=samples, slack=60, map_share=0.5)
    laws = mechanism.calibrate(LATTICE, budget, neighbors)
    limit, ceiling = laws.stable.test.limit, laws.rows.ceiling
    assert laws.rows == StableRows(ceiling, limit)
    assert laws.release == SampledCovariance(laws.rows.closeness(neighbors), 3 * samples)
    assert (ceiling < 4 * limit + 1) == (samples == 3)

    def epsilon(ceiling):
        close = StableRows(ceiling, limit).closeness(neighbors)
        curves = [SampledCovariance(close, 3 * samples).renyi, renyi_of_zcdp(float(laws.rho))]
        return renyi_epsilon(compose_renyi(curves), laws.stable.delta)

    assert epsilon(ceiling) <= laws.stable.epsilon < epsilon(ceiling - 1)


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_where_nothing_is_left_or_too_much_is_asked_the_budget_is_refused(monkeypatch, factor):
    right = whitened._largest_rho
    monkeypatch.setattr(whitened, "_largest_rho", lambda *given: factor * right(*given))
    with pytest.raises(MechanismError, match="too small"):
        Whitened().calibrate(LATTICE, BUDGET, ADD)


def test_a_release_that_cannot_be_drawn_is_refused_from_public_numbers():
    with pytest.raises(MechanismError):
        Whitened(trace_share=1e-30).calibrate(LATTICE, BUDGET, ADD)


def test_the_map_makes_a_covariance_round_but_for_directions_without_variance():
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    matrix = turn @ np.diag([4.0, 2.0**-10]) @ turn.T
    shape = _whitening_map(matrix).matrix()
    np.testing.assert_allclose(shape @ matrix @ shape.T, np.eye(2), atol=1e-6)
    flat = np.linalg.svd(_whitening_map(np.diag([4.0, -1.0, 1.0])).matrix())[1]
    np.testing.assert_allclose(flat, [2.0**21, 1.0, 0.5], rtol=1e-6)
    nothing = np.linalg.svd(_whitening_map(np.zeros((2, 2))).matrix())[1]
    np.testing.assert_allclose(nothing, [2.0**30, 2.0**30], rtol=1e-6)


@pytest.mark.parametrize("intercept", [0.0, 0.3])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_map_is_that_of_the_sampled_covariance_of_encoded_rows(
    monkeypatch, neighbors, intercept
):
    schema = Schema.from_bounds(-8.0, 8.0, ("a", "b", "c"), intercept=intercept)
    rows = open_rows(np.zeros((400, 3)), schema)
    step = rows.lattice().radius / FINE_UNITS
    stable = whitened.stable_covariance
    chosen = np.array([[9, 2, 0], [2, 5, 1], [0, 1, 3]], dtype=object)
    given = []

    def sample(table, *laws):
        return chosen * int(400 / step**2 / 100)

    monkeypatch.setattr(stable, "stable_sample", sample)
    monkeypatch.setattr(stable.Calibration, "unit_count", lambda *_: 400)
    monkeypatch.setattr(
        whitened, "release_transformed", lambda *a, **rest: given.append((a[2], rest))
    )
    Whitened()(rows, budget=BUDGET, neighbors=neighbors, entropy=Entropy.seeded(1))
    shape, rest = given[0][0].matrix(), given[0][1]
    covariance = chosen.astype(float) / 100
    np.testing.assert_allclose(shape @ covariance @ shape.T, np.eye(3), atol=1e-5)
    assert (rest["extra"], rest["radius_share"], rest["trace_share"]) == (0, 0.08, 0.05)
    laws = Whitened().calibrate(rows.lattice(), BUDGET, neighbors)
    assert (rest["rho"], rest["guarantee"]) == (laws.rho, laws.guarantee)


@pytest.mark.parametrize("units", [-3, 0, 1])
def test_a_noisy_number_of_units_below_one_counts_as_one(monkeypatch, units):
    rows = open_rows(np.zeros((5, 3)), SCHEMA)
    stable, given = whitened.stable_covariance, []
    moment = np.eye(3, dtype=np.int64).astype(object) * int(FINE_UNITS) ** 2
    monkeypatch.setattr(stable, "stable_sample", lambda *_: moment)
    monkeypatch.setattr(stable.Calibration, "unit_count", lambda *_: units)
    monkeypatch.setattr(
        whitened, "release_transformed", lambda *a, **_: given.append(a[2].matrix())
    )
    Whitened()(rows, budget=BUDGET, neighbors=ADD, entropy=Entropy.seeded(1))
    singular = np.linalg.svd(given[0])[1]
    np.testing.assert_allclose(singular, 1 / rows.lattice().radius, rtol=1e-6)


def test_a_table_that_comes_once_is_read_once():
    def made(kind):
        rows = Rows(SCHEMA, kind(np.eye(5, 3), tuple(SCHEMA.columns)))
        return Whitened()(rows, budget=BUDGET, neighbors=ADD, entropy=Entropy.seeded(1))

    assert np.array_equal(made(ComesOnce).published, made(ArraySource).published)


def test_control_without_a_copy_it_would_be_read_again(monkeypatch):
    monkeypatch.setattr(Rows, "require_rereadable", lambda self: None)
    rows = Rows(SCHEMA, ComesOnce(np.eye(5, 3), tuple(SCHEMA.columns)))
    with pytest.raises(SourceError, match="could not read the data to the end"):
        Whitened()(rows, budget=BUDGET, neighbors=ADD, entropy=Entropy.seeded(1))


@pytest.mark.parametrize("k", [1, 4])
def test_the_rows_that_a_release_takes_are_those_of_its_ceiling(k):
    lattice = Lattice(3, 1.0, 0.3, Unit("id", k))
    ceiling = Whitened().calibrate(lattice, BUDGET, ADD).rows.ceiling
    expected = stable_rows.least_units(k * ceiling, 3)
    assert Whitened().least_units(lattice, BUDGET, ADD) == expected


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 2},
        {"samples": True},
        {"samples": 5.0},
        {"slack": -1},
        {"test_share": 0.5, "count_share": 0.5},
        {"map_share": 0.0},
        {"map_share": 1.0},
        {"radius_share": 0.0},
        {"radius_share": 1.0},
        {"trace_share": -0.1},
        {"trace_share": math.nan},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(MechanismError):
        Whitened(**wrong)


def test_three_samples_for_each_column_are_the_least():
    assert Whitened(samples=3).samples == 3
