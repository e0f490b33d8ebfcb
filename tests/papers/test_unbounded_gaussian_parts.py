"""Unbounded Gaussians, part by part: fractions, the order of queries, groups, the fine step."""

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Guarantee, Neighbors, exact
from dpcov.errors import MechanismError, SourceError
from dpcov.mechanisms import UnboundedGaussian, gaussian
from dpcov.papers import unbounded_gaussian
from dpcov.papers.accounting import gdp_beside_bad_events, gdp_of_pure
from dpcov.papers.primitives.group_votes import EigenvalueEstimator, SubspaceRecovery
from dpcov.papers.primitives.random_groups import MAX_GROUP_ENTRIES
from dpcov.papers.unbounded_gaussian import Calibration, _covariance, fine, first_gap
from dpcov.rows.moment import Lattice, LinearMap, SecondMoment
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows
from strategies import ComesOnce

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
BUDGET = ApproxDP(4.0, 1e-5)
LATTICE = Lattice(3, 1.0)
ALMOST = 1 - exact(1e-11)


def rows_of(values, intercept=0.0):
    names = tuple("abcdefgh"[: values.shape[1]])
    return open_rows(values, Schema.from_bounds(-2.0, 2.0, names, intercept=intercept))


# Shares.


@pytest.mark.parametrize("looks", [None, 1, 2, 7])
def test_queries_spend_their_fractions_and_bad_events_half_of_delta(monkeypatch, looks):
    asked, spaces, last = [], [], []
    right, recovery = gdp_beside_bad_events, SubspaceRecovery.of
    calibrated = gaussian.calibration
    monkeypatch.setattr(
        unbounded_gaussian, "gdp_beside_bad_events", lambda *a: asked.append(a) or right(*a)
    )
    monkeypatch.setattr(SubspaceRecovery, "of", lambda *a: spaces.append(a) or recovery(*a))
    monkeypatch.setattr(gaussian, "calibration", lambda *a: last.append(a) or calibrated(*a))
    mechanism = UnboundedGaussian(
        looks=looks,
        group_size=150,
        value_share=0.125,
        space_share=0.5,
        fine_share=0.25,
        references=9,
        slack=2,
        radius_share=0.25,
    )
    laws, number = mechanism.calibrate(LATTICE, BUDGET, ADD), looks or 3
    ((epsilon, delta, bad),) = asked
    assert exact(4.0) * ALMOST < exact(epsilon) < 4
    assert (delta, bad) == (1e-5, 0.5e-5)
    total = Fraction(right(epsilon, delta, bad)) ** 2
    assert laws.total == total
    assert laws.values == EigenvalueEstimator(3, laws.values.mu, laws.values.bad)
    ((mu, each, *rest),) = spaces
    assert rest == [150, 9, 2]
    events = (number + 1) * exact(laws.values.bad) + number * exact(laws.spaces.test.delta)
    assert exact(bad) * (1 - exact(1e-8)) < events < exact(bad)
    assert laws.spaces.test.delta == each
    assert total / 8 * ALMOST < (number + 1) * Fraction(laws.values.mu) ** 2 < total / 8
    assert total / 2 * ALMOST < number * Fraction(mu) ** 2 < total / 2
    assert laws.spaces == recovery(mu, each, 150, 9, 2)
    assert number * laws.space_cost <= total / 2
    assert laws.fine == total / 4
    rhos = [total / 8 / 2 * Fraction(3, 4), total / 2 * Fraction(3, 4)]  # the least and the most
    assert last == [(LATTICE, laws.guarantee, rho, 8, 0.05) for rho in rhos]


def test_costs_are_squares_of_mu():
    laws = UnboundedGaussian().calibrate(LATTICE, BUDGET, ADD)
    test = gdp_of_pure(float(laws.spaces.test.epsilon))
    assert laws.value_cost == Fraction(laws.values.mu) ** 2
    assert laws.space_cost == Fraction(test) ** 2 + Fraction(laws.spaces.mu) ** 2


@pytest.mark.parametrize("group_size", [10, 10**7])
def test_more_groups_than_are_held_are_refused(monkeypatch, group_size):
    mechanism = UnboundedGaussian(group_size=group_size, value_share=0.02, space_share=0.9)
    laws = mechanism.calibrate(LATTICE, BUDGET, ADD)
    fewer, more = sorted([laws.values.groups, laws.spaces.groups])
    assert fewer < more - 1
    assert mechanism.least_units(LATTICE, BUDGET, ADD) == group_size * more
    monkeypatch.setattr(unbounded_gaussian, "MAX_GROUPS", more)
    mechanism.calibrate(LATTICE, BUDGET, ADD)
    monkeypatch.setattr(unbounded_gaussian, "MAX_GROUPS", more - 1)
    with pytest.raises(MechanismError, match=f"{more:,} groups .* larger budget"):
        mechanism.calibrate(LATTICE, BUDGET, ADD)


def test_so_many_references_that_groups_need_too_much_memory_are_refused():
    groups = UnboundedGaussian().calibrate(LATTICE, BUDGET, ADD)
    most = max(groups.values.groups, groups.spaces.groups)
    references = MAX_GROUP_ENTRIES // (most * LATTICE.dimension)
    UnboundedGaussian(references=references).calibrate(LATTICE, BUDGET, ADD)
    with pytest.raises(MechanismError, match="too much memory"):
        UnboundedGaussian(references=references + 1).calibrate(LATTICE, BUDGET, ADD)


def test_a_release_that_cannot_be_drawn_is_refused_from_public_numbers():
    with pytest.raises(MechanismError):
        UnboundedGaussian(trace_share=1e-30).calibrate(LATTICE, BUDGET, ADD)


def test_there_are_as_many_queries_as_features_up_to_64_or_as_requested():
    assert UnboundedGaussian()._query_limit(Lattice(3, 1.0)) == 3
    assert UnboundedGaussian()._query_limit(Lattice(100, 1.0)) == 64
    assert UnboundedGaussian(looks=5)._query_limit(Lattice(3, 1.0)) == 5
    assert (UnboundedGaussian().passes, UnboundedGaussian(looks=5).passes) == (132, 14)


# The order of queries.


@dataclass
class Script:
    """Scripted answers to queries, instead of votes and subspaces; a record of the queries."""

    answers: list
    basis: np.ndarray
    groups: int = 11
    mu: float = 0.5
    asked: list = field(default_factory=list)

    def __call__(self, first, second, third, entropy):
        if first is None:
            self.asked.append((second, third))
            return self.basis
        self.asked.append(third)
        values, trace = self.answers.pop(0)
        return np.array(values), trace


@pytest.fixture
def course(monkeypatch):
    """Run the queries of a script; return the map, the costs and the arguments of the queries."""

    def run(answers, *, looks=None, p=3, intercept=0.0):
        basis = np.eye(p)[:, :1]
        votes, spaces = Script(list(answers), basis), Script([], basis, groups=22)
        seen, cuts = [], []

        def groups(rows, shape, radius, count, entropy):
            seen.append((shape, radius, count))
            return (1, 2) if count == 11 else (None, None)

        def cut(mechanism, rows, laws, shape, radius, entropy):
            cuts.append((shape, radius))
            return np.eye(p) / 2

        monkeypatch.setattr(unbounded_gaussian, "_groups", groups)
        monkeypatch.setattr(UnboundedGaussian, "_fine", cut)
        monkeypatch.setattr(Calibration, "value_cost", Fraction(3))
        monkeypatch.setattr(Calibration, "space_cost", Fraction(50))
        rows = rows_of(np.zeros((2, p)), intercept)
        guarantee = Guarantee(BUDGET, ADD, rows.schema.privacy_unit)
        laws = Calibration(guarantee, Fraction(1000), votes, spaces, Fraction(7))
        shape, left = UnboundedGaussian(looks=looks)._learned(rows, laws, Entropy.seeded(1))
        assert not votes.answers
        spent = dict(zip(("spaces", "values"), divmod(1000 - int(left), 50), strict=True))
        return shape.matrix(), spent, seen, votes.asked, spaces.asked, cuts

    return run


R = math.sqrt(3)  # the radius of three columns within [-1, 1]
STEP = 2.0**-20


def test_without_a_gap_one_query_scales_the_rows(course):
    shape, spent, seen, floors, spaces, cuts = course([([9, 4, 2], 15)])
    np.testing.assert_allclose(shape, np.eye(3) / math.sqrt(5), rtol=1e-6)
    assert spent == {"spaces": 0, "values": 3}
    assert [(radius, count) for _, radius, count in seen] == [(R, 11)]
    assert floors == [(R * STEP) ** 2]
    assert spaces == cuts == []


def test_a_gap_is_closed_at_the_radius_of_the_trace_and_paid_for(course):
    shape, spent, seen, floors, spaces, _ = course([([16, 1, 0.5], 0.75), ([2, 1, 1], 4)])
    assert spent == {"spaces": 1, "values": 6}
    assert spaces == [(1, 0.25)]
    radius = math.sqrt(32 * 3 * 0.75)
    assert [count for *_, count in seen] == [11, 22, 11]
    assert [at for _, at, _ in seen] == pytest.approx([R, radius, radius])
    assert floors == pytest.approx([(R * STEP) ** 2, (radius * STEP) ** 2])
    stretched = np.diag([1.0, 4.0, 4.0])
    for (found, *_), expected in zip(seen, [np.eye(3), np.eye(3), stretched], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(shape, stretched / math.sqrt(4 / 3), rtol=1e-6)


def test_without_a_trace_the_radius_stays(course):
    _, _, seen, *_ = course([([16, 1, 0.5], 0.0), ([2, 1, 1], 4)])
    assert [radius for _, radius, _ in seen] == [R, R, R]


def test_what_has_no_variance_is_parted_once_and_counts_as_the_floor(course):
    answers = [([4, 1, 0], 5), ([4, 2, 0], 6)]
    shape, spent, _, floors, spaces, cuts = course(answers)
    assert spent == {"spaces": 1, "values": 6}
    ratio = math.sqrt(floors[0])
    assert spaces == [(2, pytest.approx(ratio))]
    stretched = np.diag([1, 1 / ratio, 1 / ratio])
    np.testing.assert_allclose(shape, stretched / math.sqrt(3), rtol=1e-6, atol=1e-3)
    assert cuts == []


def test_after_a_gap_among_positive_ones_nothing_can_still_be_parted(course):
    answers = [([16, 1, 0], 17), ([1, 1, 0], 2), ([1, 1, 0], 2)]
    _, spent, _, _, spaces, _ = course(answers)
    assert spent == {"spaces": 2, "values": 9}
    assert [rank for rank, _ in spaces] == [1, 2]


def test_queries_end_at_their_largest_number(course):
    wide = ([16, 1, 0.5], 17.5)
    _, spent, _, _, spaces, _ = course([wide, wide], looks=1)
    assert spent == {"spaces": 1, "values": 6}
    assert len(spaces) == 1


def test_rows_that_are_all_zero_keep_their_scale(course):
    shape, spent, _, _, spaces, cuts = course([([0, 0, 0], 0.0)])
    np.testing.assert_allclose(shape, np.eye(3), rtol=1e-6)
    assert (spent, spaces, cuts) == ({"spaces": 0, "values": 3}, [], [])


@pytest.mark.parametrize(("least", "taken"), [(1.0, False), (0.999, True)])
def test_a_fine_step_is_taken_and_paid_above_the_widest_ratio(course, least, taken):
    values = [1000.0, 300.0, 100.0, 30.0, 10.0, 3.0, least, 0.0]
    answers = [(values, 1443.0), (values, 1443.0)]
    shape, spent, seen, _, _, cuts = course(answers, p=8)
    assert spent == {"spaces": 1, "values": 6 + 7 * taken}
    assert len(cuts) == taken
    factor = (2 if taken else 1) * math.sqrt(np.mean(values[:7]))
    assert shape[0, 0] == pytest.approx(1 / factor)
    for at, radius in cuts:
        np.testing.assert_array_equal(at, seen[-1][0])
        assert radius == pytest.approx(math.sqrt(32 * 8 * 1443))


def test_what_is_left_goes_to_the_release_with_the_variance_for_rounding(monkeypatch):
    given, shape = [], LinearMap.rounded(np.eye(3))
    monkeypatch.setattr(UnboundedGaussian, "_learned", lambda *_: (shape, Fraction(5)))
    monkeypatch.setattr(
        unbounded_gaussian, "release_transformed", lambda *a, **rest: given.append(rest) or "made"
    )
    made = UnboundedGaussian(radius_share=0.25, trace_share=0.125)(
        rows_of(np.zeros((2, 3))), budget=BUDGET, neighbors=ADD, entropy=Entropy.seeded(1)
    )
    assert made == "made"
    assert (given[0]["rho"], given[0]["extra"]) == (Fraction(5, 2), 8)
    assert (given[0]["radius_share"], given[0]["trace_share"]) == (0.25, 0.125)


def test_a_table_that_comes_once_is_read_once():
    def made(kind):
        rows = Rows(Schema.from_bounds(-1, 1, ("a", "b", "c")), kind(np.eye(5, 3), ("a", "b", "c")))
        return UnboundedGaussian()(rows, budget=BUDGET, neighbors=ADD, entropy=Entropy.seeded(1))

    assert np.array_equal(made(ComesOnce).published, made(ArraySource).published)


def test_control_without_a_copy_it_would_be_read_again(monkeypatch):
    monkeypatch.setattr(Rows, "require_rereadable", lambda self: None)
    rows = Rows(
        Schema.from_bounds(-1, 1, ("a", "b", "c")), ComesOnce(np.eye(5, 3), ("a", "b", "c"))
    )
    with pytest.raises(SourceError, match="could not read the data to the end"):
        UnboundedGaussian()(rows, budget=BUDGET, neighbors=ADD, entropy=Entropy.seeded(1))


# Groups.


def moment_of(rows, lattice, count=None):
    """Return the moment of integer rows, including the intercept of the lattice."""
    whole = [[*row, *[lattice.intercept_units] * (lattice.dimension - 2)] for row in rows]
    units = np.zeros((lattice.dimension,) * 2, dtype=object)
    for row in whole:
        units = units + np.outer(row, np.array(row, dtype=object))
    return SecondMoment(units, lattice, len(rows) if count is None else count)


def test_groups_have_covariances_over_their_size_and_traces(monkeypatch):
    lattice = Lattice(2, 2.0**22).relative()  # a step of 4
    moments = [moment_of(rows, lattice) for rows in ([], [(3, 4)], [(1, 0), (0, 2), (1, 1)])]
    given = []

    def second_moments(rows, **asked):
        given.append(asked)
        return moments

    monkeypatch.setattr(Rows, "second_moments", second_moments)
    shape, entropy = np.diag([1.0, 2.0]), Entropy.seeded(1)
    covariances, traces = unbounded_gaussian._groups(
        rows_of(np.zeros((1, 2))), shape, 1.5, 3, entropy
    )
    assert covariances.tolist() == [
        [[0, 0], [0, 0]],
        [[144, 192], [192, 256]],
        pytest.approx(np.array([[2, 1], [1, 5]]) * 16 / 3),
    ]
    assert traces.tolist() == [0, 400, pytest.approx(7 * 16 / 3)]
    assert (given[0]["radius"], given[0]["groups"], given[0]["labels"]) == (1.5, 3, entropy)
    np.testing.assert_allclose(given[0]["transform"].matrix(), shape, rtol=1e-8)


def test_an_intercept_gives_the_mean_of_a_group_of_any_size():
    for intercept in (2.0**-20, 0.3):
        lattice = Lattice(2, 2.0**22, intercept).relative()
        assert _covariance(moment_of([], lattice)).tolist() == [[0, 0], [0, 0]]
        np.testing.assert_allclose(_covariance(moment_of([(3, 4)], lattice)), 0, atol=1e-9)
        rows = np.array([(1, 0), (0, 2), (1, 1), (2, 5)])
        for sign in (1, -1):
            found = _covariance(moment_of((sign * rows).tolist(), lattice))
            np.testing.assert_allclose(found, 16 * np.cov(rows.T, bias=True), rtol=1e-9)
    without = moment_of([(1, 0), (3, 2)], Lattice(2, 2.0**22).relative())
    assert _covariance(without).tolist() == [[80, 48], [48, 32]]


# The fine step.


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("intercept", [0.0, 0.3])
def test_the_fine_step_has_the_noise_of_its_fraction(monkeypatch, neighbors, intercept):
    rng = np.random.default_rng(1)
    rows = rows_of(rng.normal(size=(50, 3)), intercept)
    asked, matrices = [], []

    class Noise:
        def __init__(self, dimension, variance):
            asked.append((dimension, variance))

        def sample(self, entropy):
            return np.full((asked[0][0],) * 2, 2**40)

    monkeypatch.setattr(unbounded_gaussian, "GaussianOrthogonal", Noise)
    monkeypatch.setattr(unbounded_gaussian, "fine", lambda matrix: matrices.append(matrix) or "f")
    guarantee = Guarantee(BUDGET, neighbors, rows.schema.privacy_unit)
    laws = Calibration(guarantee, None, None, None, Fraction(1, 7))
    shape = np.diag([1.0, 2.0, 0.5])
    found = UnboundedGaussian()._fine(rows, laws, shape, 3.0, Entropy.seeded(1))
    lattice = rows.lattice(radius=3.0)
    assert found == "f"
    assert asked == [(lattice.dimension, lattice.frobenius_squared(neighbors) * 7 + 8)]
    moment = rows.second_moments(radius=3.0, transform=LinearMap.rounded(shape))[0]
    expected = (moment.units[:3, :3] + 2**40).astype(float)
    np.testing.assert_array_equal(matrices[0], expected)


def test_the_fine_step_cuts_what_is_above_the_widest_ratio_to_it():
    for least in (0.0, -1.0, 1.0, 500.0):
        values = np.array([least, 1.0, 500.0, 1000.0, 1001.0, 5000.0])
        cut = np.diag(fine(np.diag(values)))
        expected = np.sqrt(np.minimum(values.clip(1), 1000) / values.clip(1))
        np.testing.assert_allclose(cut, expected, rtol=1e-12)
    wide = np.diag(fine(np.diag([1.0, 5000.0, 20_000.0])))
    np.testing.assert_allclose(wide, np.sqrt([1, 1 / 5, 1 / 20]), rtol=1e-12)
    np.testing.assert_array_equal(fine(np.zeros((2, 2))), np.eye(2))


# Gaps and options.


def test_a_ratio_of_exactly_four_is_no_gap():
    assert first_gap(np.array([8.0, 2.0]), closed=False) is None
    assert first_gap(np.array([8.0, 1.999]), closed=True) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"value_share": 0.0},
        {"space_share": 1.0},
        {"fine_share": 0.0},
        {"radius_share": 0.0},
        {"radius_share": 1.0},
        {"value_share": 0.5, "space_share": 0.25, "fine_share": 0.25},
        {"value_share": 0.4, "space_share": 0.4, "fine_share": 0.4},
        {"trace_share": -0.1},
        {"slack": -1},
        {"looks": 0},
        {"looks": True},
        {"looks": 2.0},
        {"references": 0},
        {"group_size": 0},
        {"group_size": True},
    ],
    ids=str,
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(MechanismError):
        UnboundedGaussian(**wrong)


@pytest.mark.parametrize(
    "right",
    [
        {"looks": 1},
        {"references": 1},
        {"group_size": 1},
        {"value_share": 0.5, "space_share": 0.25, "fine_share": 0.2},
        {"slack": 0},
    ],
    ids=str,
)
def test_options_at_the_edges_are_taken(right):
    made = UnboundedGaussian(**right)
    assert {name: getattr(made, name) for name in right} == right
