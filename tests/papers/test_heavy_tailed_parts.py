"""Heavy tails, part by part: options, fractions, radii, slacks, and the number of steps."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, Neighbors, Unit, exact
from dpcov.errors import MechanismError
from dpcov.mechanisms import HeavyTailed
from dpcov.papers import heavy_tailed
from dpcov.papers.preconditioned import PilotEstimate
from dpcov.papers.primitives import bounded_moments
from dpcov.papers.primitives.bounded_moments import Moments
from dpcov.rows.moment import Lattice, LinearMap
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
NAMES = ("a", "b", "c", "d")
SHAPE = Lattice(4, 2.0)


def rows_of(values, **fields):
    return open_rows(values, Schema.from_bounds(-4, 4, NAMES, **{"intercept": 0.0, **fields}))


def round_rows(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 4))


def noticed(monkeypatch, mechanism, rows, rho=2.0):
    """Return the steps as (map, radius), and the last release as (radius or radii, its rho)."""
    looks, last = [], []
    right = heavy_tailed.pilot_query, heavy_tailed.release_at, heavy_tailed.release_transformed
    calibrated = heavy_tailed.gaussian.calibration

    def look(rows, shape, radius, *rest):
        looks.append((shape.matrix(), radius))
        return right[0](rows, shape, radius, *rest)

    def at(mechanism, rows, shape, radius, *rest):
        last.append((shape.matrix(), radius))
        return right[1](mechanism, rows, shape, radius, *rest)

    def mapped(mechanism, rows, shape, *, rho, radii, **rest):
        last.append((shape.matrix(), radii, rho))
        return right[2](mechanism, rows, shape, rho=rho, radii=radii, **rest)

    def calibration(lattice, guarantee, rho, *rest):
        if mechanism.radii == "theory":
            last.append(rho)
        return calibrated(lattice, guarantee, rho, *rest)

    monkeypatch.setattr(heavy_tailed, "pilot_query", look)
    monkeypatch.setattr(heavy_tailed, "release_at", at)
    monkeypatch.setattr(heavy_tailed, "release_transformed", mapped)
    monkeypatch.setattr(heavy_tailed.gaussian, "calibration", calibration)
    mechanism(rows, budget=ZCDP(rho), neighbors=SWAP, entropy=Entropy.seeded(1))
    return looks, last[-2:]  # laws of theory are built before as well


# Shares.


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("unit", [{}, {"unit": Unit("id", 3)}], ids=["rows", "persons"])
def test_a_query_and_the_count_have_the_noise_of_their_fractions(neighbors, unit):
    lattice, k = Lattice(4, 2.0, **unit), 3 if unit else 1
    laws = HeavyTailed(condition=100.0).calibrate(lattice, ZCDP(0.5), neighbors)
    number = bounded_moments.steps(100.0)
    assert laws.looks == number > 1
    assert laws.rho == Fraction(1, 2)
    assert laws.rho_of_query == Fraction(1, 4) / number
    assert laws.rho_of_count == exact(0.01) / 2
    sides = 2 if neighbors is SWAP else 1
    assert laws.step.variance == sides * (k * 2**40) ** 2 / (2 * laws.rho_of_query)
    assert laws.count.variance == k**2 / (2 * laws.rho_of_count)


def test_what_is_not_used_has_no_law_and_costs_nothing():
    with_mean = HeavyTailed().calibrate(Lattice(4, 2.0, 0.3), ZCDP(0.5), ADD)
    assert (with_mean.count, with_mean.rho_of_count) == (None, 0)
    assert with_mean.step.dimension == 5
    naive = HeavyTailed("naive").calibrate(SHAPE, ZCDP(0.5), ADD)
    assert (naive.step, naive.count, naive.rho_of_query, naive.rho_of_count) == (None, None, 0, 0)


@pytest.mark.parametrize("rho", [1e-40, 1e-30])
def test_noise_that_can_not_be_drawn_is_refused_from_public_numbers(rho):
    with pytest.raises(MechanismError):
        HeavyTailed().calibrate(SHAPE, ZCDP(rho), ADD)


@pytest.mark.parametrize(
    ("variant", "looks"), [("naive", 0), ("one-step", 1), ("full", bounded_moments.steps(1e4))]
)
def test_the_sample_size_is_that_of_the_shares(variant, looks):
    mechanism = HeavyTailed(variant, constant=3.0, condition=1e4, alpha=0.2, beta=0.3)
    assert (mechanism.looks, mechanism.passes) == (looks, looks + 3)
    expected = bounded_moments.sample_size(
        Moments(2, 3.0),
        5,
        alpha=0.2,
        beta=0.3,
        condition=1e4,
        looks=looks,
        rho_of_query=0.5 * 0.4 / looks if looks else 1.0,
        rho_of_release=(1 - 0.5 - 0.01) * 0.4 if looks else 0.4,
    )
    assert mechanism.sample_size(5, 0.4) == expected


# Pilot queries.


def test_theory_uses_all_queries_and_practice_stops_when_all_directions_are_detectable(monkeypatch):
    rows = rows_of(round_rows(4000))
    for radii, number in (("theory", bounded_moments.steps(100.0)), ("practical", 1)):
        mechanism = HeavyTailed(radii=radii, condition=100.0, eigenvalue_bound=0.1)
        with monkeypatch.context() as patched:
            assert len(noticed(patched, mechanism, rows, rho=20.0)[0]) == number
    with monkeypatch.context() as patched:  # where nothing shows there is no early end
        looks, _ = noticed(patched, HeavyTailed(condition=5.0), rows_of(round_rows(0)))
    assert len(looks) == bounded_moments.steps(5.0) == 2


def test_each_query_uses_the_map_of_the_queries_before_it(monkeypatch):
    rows = rows_of(round_rows(3000) * [1, 0.1, 0.1, 0.01])
    looks, last = noticed(
        monkeypatch, HeavyTailed(condition=100.0, eigenvalue_bound=0.1), rows, rho=1e3
    )
    np.testing.assert_allclose(looks[0][0], np.eye(4) / math.sqrt(0.1), rtol=1e-6)
    maps = [shape for shape, _ in looks] + [last[0][0]]
    assert len(maps) > 2
    for one, other in itertools.pairwise(maps):
        assert np.linalg.norm(one - other) > 0.1 * np.linalg.norm(one)


@pytest.mark.parametrize("upper", [None, 0.01, 1e4])
@pytest.mark.parametrize("radii", ["practical", "theory"])
def test_a_query_is_no_wider_than_the_longest_row(monkeypatch, radii, upper):
    rows = rows_of(round_rows(200), radius=1.5)
    mechanism = HeavyTailed("one-step", radii=radii, constant=3.0, eigenvalue_bound=upper)
    looks, _ = noticed(monkeypatch, mechanism, rows)
    radius = rows.lattice().radius
    scale = radius if upper is None else math.sqrt(upper)
    wanted = 4.0 if radii == "practical" else 2 * math.sqrt(3.0 * 32)
    np.testing.assert_allclose(looks[0][0], np.eye(4) / scale, rtol=1e-6)
    assert looks[0][1] == pytest.approx(min(wanted, radius / scale), rel=1e-6)


def test_radii_of_queries_are_twice_the_root_of_p_or_the_radii_of_the_moments():
    assert HeavyTailed()._query_radius(9) == 6
    theory = HeavyTailed(radii="theory", order=3, constant=15.0)
    assert theory._query_radius(9) == pytest.approx(3 * (15 * 32) ** 0.25)


def test_slacks_are_a_share_of_the_standard_error_or_the_bound_of_theory():
    seen = PilotEstimate(np.ones(4), np.eye(4), deviation=1e-4, count=1e7)
    standard = 1e-4 * math.sqrt(8) + 2 * math.sqrt(4 / 1e7)
    assert HeavyTailed()._slack(4, seen, 7) == pytest.approx(0.3 * standard)
    theory = HeavyTailed(radii="theory", constant=3.0, beta=0.2)
    radius, log = 2 * math.sqrt(3 * 32), math.log(4 * 4 / (0.2 / 14))
    bound = 3 * 4 / radius**2 + math.sqrt(2 * 3 * 4 * log / 1e7) + 2 * radius**2 * log / 3e7
    bound += 1e-4 * (math.sqrt(8) + math.sqrt(2 * math.log(4 / (0.2 / 14))))
    assert theory._slack(4, seen, 7) == pytest.approx(bound)
    assert theory._slack(4, PilotEstimate(np.ones(4), np.eye(4), 1e-4, 10.0), 7) == 1.0


# The last clip.


def test_rows_that_need_not_be_round_have_radii_down_from_the_longest():
    shape = LinearMap.rounded(np.diag([3.0, 2.0, 1.0, 1.0]))
    assert heavy_tailed.longest(shape, SHAPE) == pytest.approx(6.0)
    assert HeavyTailed()._candidates(shape, SHAPE) is None
    for variant in ("naive", "one-step"):
        found = HeavyTailed(variant)._candidates(shape, SHAPE)
        np.testing.assert_allclose(found, [6 * 2 ** ((j - 64) / 4) for j in range(65)])


@pytest.mark.parametrize("upper", [0.01, 1e4])
def test_theory_clips_last_at_half_of_its_error_or_at_the_longest_row(monkeypatch, upper):
    rows = rows_of(round_rows(300))
    mechanism = HeavyTailed(
        "naive", radii="theory", constant=3.0, alpha=0.4, eigenvalue_bound=upper
    )
    _, (spent, (shape, radius)) = noticed(monkeypatch, mechanism, rows)
    assert spent == 2
    np.testing.assert_allclose(shape, np.eye(4) / math.sqrt(upper), rtol=1e-6)
    goal = 2 * math.sqrt(3 / (0.2 / 2))
    longest = rows.lattice().radius / math.sqrt(upper)
    assert radius == pytest.approx(min(goal, longest), rel=1e-6)


@pytest.mark.parametrize("radii", ["practical", "theory"])
def test_the_rest_of_the_budget_after_queries_and_count_goes_to_the_release(monkeypatch, radii):
    mechanism = HeavyTailed("one-step", radii=radii, look_share=0.25, count_share=0.125)
    _, last = noticed(monkeypatch, mechanism, rows_of(round_rows(300)))
    assert (last[0] if radii == "theory" else last[0][2]) == Fraction(5, 4)


# Options.


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0.0},
        {"alpha": math.inf},
        {"beta": 0.0},
        {"beta": 1.0},
        {"beta": 1.5},
        {"eigenvalue_bound": 0.0},
        {"eigenvalue_bound": math.inf},
        {"condition": 0.99},
        {"condition": math.inf},
        {"order": 1},
        {"constant": 0.5},
        {"look_share": 0.0},
        {"radius_share": 0.0},
        {"radius_share": 1.0},
        {"count_share": 0.0},
        {"look_share": 0.75, "count_share": 0.25},
        {"look_share": 0.5, "count_share": 0.75},
        {"trace_share": -0.1},
        {"variant": "half"},
        {"radii": "none"},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(MechanismError):
        HeavyTailed(**wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"alpha": 1.5},
        {"alpha": 0.5, "beta": 0.99},
        {"eigenvalue_bound": 3.0},
        {"eigenvalue_bound": 0.5},
        {"condition": 1.0},
        {"condition": 1.5},
        {"look_share": 0.75, "count_share": 0.2},
        {"look_share": 0.3, "count_share": 0.5},
    ],
    ids=str,
)
def test_options_at_the_edges_are_taken(right):
    made = HeavyTailed(**right)
    assert {name: getattr(made, name) for name in right} == right


def test_an_intercept_gives_the_mean_so_no_count_is_drawn(monkeypatch):
    asked = []
    right = heavy_tailed.number_of_rows
    monkeypatch.setattr(heavy_tailed, "number_of_rows", lambda *a: asked.append(0) or right(*a))
    for intercept, number in ((0.0, 1), (0.3, 0)):
        asked.clear()
        rows = rows_of(round_rows(300), intercept=intercept)
        HeavyTailed("one-step")(rows, budget=ZCDP(1.0), neighbors=ADD, entropy=Entropy.seeded(1))
        assert len(asked) == number
