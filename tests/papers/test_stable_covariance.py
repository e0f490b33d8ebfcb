"""Stable covariance and whitened rows: accuracy without bounds, accounting, refusals."""

import numpy as np
import pyarrow as pa
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, Unit, exact
from dpcov.denoise import denoise
from dpcov.errors import MechanismError, MechanismRefused, SourceError
from dpcov.mechanisms import StableCovariance, Whitened
from dpcov.papers import stable_covariance, whitened
from dpcov.papers.accounting import compose_renyi, renyi_epsilon, renyi_of_zcdp
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
D, BOUND = 5, 8.0
NAMES = tuple("abcde")
BUDGET = ApproxDP(2.0, 1e-5)
BOTH = pytest.mark.parametrize("mechanism", [StableCovariance(), Whitened()], ids=lambda m: m.name)


def normal_rows(n, condition, seed=0, d=D):
    """Return rows N(0, Q diag Q') with eigenvalues evenly spaced in logarithm, and a map.

    The map makes the rows round.
    """
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    deviations = np.geomspace(condition**-0.5, 1, d)
    rows = rng.normal(size=(n, d)) * deviations @ rotation.T
    return rows, (rotation / deviations).T


def released(rows, mechanism, *, neighbors=ADD, intercept=0.0, budget=BUDGET, seed=1):
    names = tuple(f"x{j}" for j in range(rows.shape[1]))
    schema = Schema.from_bounds(-BOUND, BOUND, names, intercept=intercept)
    return mechanism(
        open_rows(rows, schema), budget=budget, neighbors=neighbors, entropy=Entropy.seeded(seed)
    )


def error(matrix, round_map):
    return np.linalg.norm(round_map @ matrix @ round_map.T - np.eye(len(matrix)))


def error_of(made, n, round_map):
    return error(denoise(made, "project").second_moment() * BOUND**2 / n, round_map)


@BOTH
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("condition", [1.0, 1e10])
def test_the_error_relative_to_the_matrix_is_small_at_any_condition(
    mechanism, condition, neighbors
):
    rows, round_map = normal_rows(20_000, condition)
    made = released(rows, mechanism, neighbors=neighbors)
    non_private = error(rows.T @ rows / len(rows), round_map)
    factor = 3 if mechanism.name == "whitened" else 4
    assert error_of(made, len(rows), round_map) < factor * non_private


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("condition", [1.0, 1e10])
def test_whitened_rows_meet_the_bar_of_the_design(condition, neighbors):
    """d = 10, n = 1e5, epsilon = 1, delta = 1e-6: median Mahalanobis error at most 0.05."""
    found = []
    for seed in range(10):
        rows, round_map = normal_rows(100_000, condition, seed, d=10)
        budget = ApproxDP(1.0, 1e-6)
        made = released(rows, Whitened(), neighbors=neighbors, budget=budget, seed=seed)
        found.append(error_of(made, len(rows), round_map))
    assert np.median(found) <= 0.05


@BOTH
@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_few_rows_far_outside_neither_spoil_nor_stop_a_release(mechanism, neighbors):
    rows, round_map = normal_rows(20_000, 100.0)
    rows[:5] = np.eye(D) * 7.0  # the schema's bound cuts what is further out
    rows[5:] *= 1e-3
    made = released(rows, mechanism, neighbors=neighbors)
    if mechanism.name == "stable-covariance":
        assert error_of(made, len(rows), round_map * 1e3) < 0.3
    else:  # the map is made of the unremarkable rows, so that the last clip meets the others
        assert error_of(made, len(rows), round_map * 1e3) < 0.6
        assert error(rows.T @ rows / len(rows), round_map * 1e3) > 1e3


@BOTH
def test_columns_that_say_nothing_do_no_harm(mechanism):
    rows, round_map = normal_rows(20_000, 100.0, d=3)
    silent = np.column_stack([rows, np.zeros(len(rows)), rows[:, 0]])
    made = denoise(released(silent, mechanism), "project")
    moment = made.second_moment() * BOUND**2 / len(rows)
    assert error(moment[:3, :3], round_map) < 0.1
    assert np.abs(moment[3]).max() < 1e-9
    np.testing.assert_allclose(moment[4], moment[0], atol=1e-5)


@BOTH
def test_many_rows_that_outweigh_others_are_refused(mechanism):
    rows, _ = normal_rows(20_000, 1.0)
    rows[::100] *= 1e3
    with pytest.raises(MechanismRefused):
        released(rows * 1e-3, mechanism)


@BOTH
def test_as_many_rows_as_stated_are_enough_and_half_are_not(mechanism):
    schema = Schema.from_bounds(-BOUND, BOUND, NAMES, intercept=0.0)
    lattice = Lattice(D, schema.effective_radius)
    for neighbors in Neighbors:
        n = mechanism.least_units(lattice, BUDGET, neighbors)
        rows, _ = normal_rows(int(1.05 * n), 1.0)
        released(rows, mechanism, neighbors=neighbors)
        with pytest.raises(MechanismRefused):
            released(rows[: n // 2], mechanism, neighbors=neighbors)


@BOTH
def test_persons_are_scored_by_all_their_rows(mechanism):
    rows, round_map = normal_rows(60_000, 100.0)
    unit = {"column": "id", "type": "integer", "max_rows": 2}
    schema = Schema.parse(
        Schema.from_bounds(-BOUND, BOUND, NAMES, intercept=0.3).model_dump() | {"unit": unit}
    )
    table = pa.table(dict(zip(NAMES, rows.T, strict=True)) | {"id": np.arange(60_000) // 2})
    source = open_rows(table, schema)
    made = mechanism(source, budget=BUDGET, neighbors=SWAP, entropy=Entropy.seeded(3))
    assert made.unit_count == 30_000
    assert made.guarantee.unit == Unit("id", 2)
    assert error(denoise(made, "project").covariance() * 1.0, round_map) < 0.15 * np.sqrt(D)


@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_mean_far_from_zero_costs_a_stable_covariance_nothing(neighbors):
    rows, round_map = normal_rows(30_000, 100.0)
    made = released(rows + 2.0, StableCovariance(), intercept=0.3, neighbors=neighbors)
    assert error(made.covariance(), round_map) < 0.1
    np.testing.assert_allclose(made.mean(), 2.0, atol=0.05)
    assert made.count() == pytest.approx(30_000, rel=0.02)


# Accounting.


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_parts_of_a_stable_covariance_add_up_to_the_budget(neighbors):
    mechanism = StableCovariance()
    lattice = Lattice(D, 1.0, 0.3)
    laws = mechanism.calibrate(lattice, BUDGET, neighbors)
    for_count = 0 if laws.units is None else 1 / laws.units.scale
    assert laws.test.epsilon + for_count + laws.epsilon == exact(BUDGET.epsilon)
    assert laws.test.sensitivity == (1 if neighbors is ADD else 2)
    assert max(laws.test.delta, laws.delta) < BUDGET.delta
    for units in (10_000, 30_000, 10**6):
        stable, release = mechanism.at(laws, lattice, units)
        assert release.closeness == stable.closeness(neighbors)
        assert renyi_epsilon(release.renyi, laws.delta) <= laws.epsilon
        assert renyi_epsilon(lambda a, r=release: 1.02 * r.renyi(a), laws.delta) > laws.epsilon


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_parts_of_whitened_add_up_to_the_budget(neighbors):
    laws = Whitened().calibrate(Lattice(D, 1.0, 0.3), BUDGET, neighbors)
    stable = laws.stable
    for_count = 0 if stable.units is None else 1 / stable.units.scale
    assert stable.test.epsilon + for_count + stable.epsilon == exact(BUDGET.epsilon)
    assert stable.test.limit == laws.rows.limit
    assert laws.release.closeness == laws.rows.closeness(neighbors)

    def epsilon(extra):
        curves = [laws.release.renyi, renyi_of_zcdp(float(laws.rho) * extra)]
        return renyi_epsilon(compose_renyi(curves), stable.delta)

    assert epsilon(1) <= stable.epsilon < epsilon(1.02)


@pytest.mark.parametrize("intercept", [0.0, 0.3])
@pytest.mark.parametrize("neighbors", Neighbors)
def test_whitened_releases_mapped_rows_at_the_stated_rho(monkeypatch, neighbors, intercept):
    given, final = [], whitened.release_transformed

    def last(*arguments, rho, extra, guarantee, **rest):
        given.append((rho, extra, guarantee.budget))
        return final(*arguments, rho=rho, extra=extra, guarantee=guarantee, **rest)

    monkeypatch.setattr(whitened, "release_transformed", last)
    rows, _ = normal_rows(20_000, 100.0)
    made = released(rows, Whitened(), neighbors=neighbors, intercept=intercept)
    rho = Whitened().calibrate(made.lattice, BUDGET, neighbors).rho
    assert given == [(rho, 0, BUDGET)]
    matrix_rho = made.lattice.frobenius_squared(neighbors) / (2 * made.noise.variance)
    assert 0.8 * rho < matrix_rho < rho


@BOTH
def test_nothing_is_drawn_after_a_refusal(mechanism, monkeypatch):
    """What may run before it: the noisy number of units and the test itself, a draw each."""
    monkeypatch.setattr(ReleaseTest, "passes", lambda *_: False)
    rows, _ = normal_rows(20_000, 1.0)
    drawn = []

    class Counting(Entropy):
        def words(self, count):
            drawn.append(count)
            return super().words(count)

    schema = Schema.from_bounds(-BOUND, BOUND, NAMES, intercept=0.0)
    entropy = Counting(bytes(32), reproducible=True)
    with pytest.raises(MechanismRefused):
        mechanism(open_rows(rows, schema), budget=BUDGET, neighbors=SWAP, entropy=entropy)
    assert drawn == []


def test_a_fault_while_rows_are_weighed_says_nothing_of_them(monkeypatch):
    def fault(*_):
        raise ValueError("the row 17, 42")

    monkeypatch.setattr(stable_covariance, "second_moment", fault)
    rows, _ = normal_rows(20_000, 1.0)
    with pytest.raises(SourceError) as caught:
        released(rows, StableCovariance())
    assert "17" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StableCovariance(leverage=0.0),
        lambda: StableCovariance(leverage=float("nan")),
        lambda: StableCovariance(slack=-1),
        lambda: StableCovariance(slack=True),
        lambda: StableCovariance(test_share=1.0),
        lambda: StableCovariance(test_share=0.6, count_share=0.4),
        lambda: Whitened(samples=2),
        lambda: Whitened(map_share=0.0),
        lambda: Whitened(radius_share=1.0),
        lambda: Whitened(trace_share=1.0),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(MechanismError):
        wrong()


@BOTH
@pytest.mark.parametrize(
    "budget",
    [
        PureDP(1.0),
        ZCDP(1.0),
        ApproxDP(1e-9, 1e-9),
        ApproxDP(1e-300, 1e-6),
        ApproxDP(1e300, 1e-6),
        ApproxDP(1.0, 1e-30),
    ],
    ids=str,
)
def test_budgets_that_cannot_be_kept_are_refused_from_public_numbers(mechanism, budget):
    for neighbors in Neighbors:
        with pytest.raises(MechanismError):
            mechanism.calibrate(Lattice(3, 1.0), budget, neighbors)
