"""Unbounded Gaussians: votes and subspaces of groups, gaps closed, accounting, refusals."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.denoise import denoise
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.mechanisms import UnboundedGaussian
from dpcov.papers import unbounded_gaussian
from dpcov.papers.accounting import compose_gdp, gdp_of_pure, with_bad_events
from dpcov.papers.primitives.group_votes import EigenvalueEstimator, SubspaceRecovery
from dpcov.papers.primitives.histogram import STEPS_PER_VOTE, GaussianHistograms
from dpcov.papers.primitives.stable_average import StableAverage
from dpcov.papers.unbounded_gaussian import coarse, fine, first_gap
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

BOUND = 8.0
BUDGET = ApproxDP(4.0, 1e-5)


def normal_rows(n, condition, d=3, seed=0):
    """Return rows N(0, Q diag Q') with eigenvalues evenly spaced in logarithm, and a map.

    The map makes the rows round.
    """
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    deviations = np.geomspace(condition**-0.5, 1, d)
    rows = rng.normal(size=(n, d)) * deviations @ rotation.T
    return rows, (rotation / deviations).T


def schema_of(d, intercept=0.0):
    return Schema.from_bounds(-BOUND, BOUND, tuple(f"x{j}" for j in range(d)), intercept=intercept)


def released(rows, mechanism=None, *, budget=BUDGET, neighbors="add-remove", seed=1, intercept=0.0):
    return (mechanism or UnboundedGaussian())(
        open_rows(rows, schema_of(rows.shape[1], intercept)),
        budget=budget,
        neighbors=Neighbors(neighbors),
        entropy=Entropy.seeded(seed),
    )


def error(matrix, round_map):
    return np.linalg.norm(round_map @ matrix @ round_map.T - np.eye(len(round_map)))


def enough(d, budget=BUDGET):
    return UnboundedGaussian().least_units(Lattice(d, 1.0), budget, Neighbors.ADD_REMOVE)


# The mechanism.


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("condition", [1.0, 100.0, 1e10])
def test_the_error_is_close_to_that_without_privacy_at_any_condition(condition, neighbors):
    rows, round_map = normal_rows(enough(3), condition)
    found = []
    for seed in range(1 if condition > 1 else 3):
        made = denoise(released(rows, neighbors=neighbors, seed=seed), "project")
        found.append(error(made.second_moment() * BOUND**2 / len(rows), round_map))
    assert np.median(found) < 4 * error(rows.T @ rows / len(rows), round_map)


@pytest.mark.slow
@pytest.mark.parametrize("d", [3, 4, 5])
def test_it_works_at_the_number_of_rows_that_it_states(d):
    """The budget is epsilon = 1, delta = 1e-6."""
    budget = ApproxDP(1.0, 1e-6)
    rows, round_map = normal_rows(enough(d, budget), 1e10, d=d)
    made = denoise(released(rows, budget=budget), "project")
    assert error(made.second_moment() * BOUND**2 / len(rows), round_map) < 0.25
    with pytest.raises(MechanismRefused):
        released(rows[: len(rows) // 10], budget=budget)


def test_a_wrong_step_is_caught(monkeypatch):
    """The broken version stretches what is above the gap, not what is below."""
    rows, round_map = normal_rows(enough(3), 1e6)

    def wrong(basis, ratio):
        projector = basis @ basis.T
        return projector / ratio + (np.eye(len(basis)) - projector)

    monkeypatch.setattr(unbounded_gaussian, "coarse", wrong)
    try:
        made = denoise(released(rows), "project")
    except MechanismRefused:
        return
    assert error(made.second_moment() * BOUND**2 / len(rows), round_map) > 1


def test_a_direction_without_variance_is_kept_apart():
    rows, round_map = normal_rows(enough(4), 1e4)
    flat = np.column_stack([rows, rows[:, 0] - rows[:, 1]])
    made = denoise(released(flat), "project").second_moment() * BOUND**2 / len(rows)
    assert error(made[:3, :3], round_map) < 0.1
    null = np.array([1, -1, 0, -1]) / math.sqrt(3)
    assert abs(null @ made @ null) < 1e-9


@pytest.mark.parametrize("references", [4, 9])
def test_images_of_reference_vectors_serve_as_projectors_do(references):
    rows, round_map = normal_rows(enough(3), 1e4)
    made = denoise(released(rows, UnboundedGaussian(references=references)), "project")
    assert error(made.second_moment() * BOUND**2 / len(rows), round_map) < 0.2


def test_groups_subtract_their_means_where_there_is_an_intercept():
    rows, round_map = normal_rows(enough(3), 100.0)
    made = denoise(released(rows + 0.1, intercept=0.3), "project")
    assert error(made.covariance(), round_map) < 0.3
    np.testing.assert_allclose(made.mean(), 0.1, atol=0.01)
    group = open_rows(rows + 0.1, schema_of(3, 0.3)).second_moments()[0]
    np.testing.assert_allclose(
        unbounded_gaussian._covariance(group), np.cov(rows.T, bias=True) / BOUND**2, atol=1e-8
    )


def test_persons_are_counted_once_each():
    budget = ApproxDP(20.0, 1e-3)
    rows, round_map = normal_rows(2 * enough(3, budget), 100.0)
    schema = Schema.parse(
        schema_of(3).model_dump() | {"unit": {"column": "id", "type": "integer", "max_rows": 2}}
    )
    columns = dict(zip(schema_of(3).columns, rows.T, strict=True))
    made = UnboundedGaussian()(
        open_rows(pa.table(columns | {"id": np.arange(len(rows)) // 2}), schema),
        budget=budget,
        neighbors=Neighbors.REPLACE_ONE,
        entropy=Entropy.seeded(1),
    )
    assert made.unit_count == len(rows) // 2
    matrix = denoise(made, "project").second_moment() * BOUND**2 / len(rows)
    assert error(matrix, round_map) < 0.2


def test_a_table_without_rows_gives_a_release_or_a_refusal():
    for n in (0, 1, 2, 50):
        try:
            made = released(np.ones((n, 3)))
        except MechanismRefused:
            continue
        assert np.isfinite(made.noisy()).all()


# Accounting.


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("budget", [BUDGET, ApproxDP(1.0, 1e-6), ApproxDP(0.3, 1e-9)], ids=str)
def test_all_steps_together_keep_the_budget(budget, neighbors):
    mechanism, looks = UnboundedGaussian(), 4
    laws = mechanism.calibrate(Lattice(looks, 1.0, 0.3), budget, neighbors)
    spent = (looks + 1) * laws.value_cost + looks * laws.space_cost + laws.fine
    left = laws.total - spent
    assert left > laws.total / 4
    steps = [laws.values.mu] * (looks + 1)
    steps += [gdp_of_pure(float(laws.spaces.test.epsilon)), laws.spaces.mu] * looks
    steps += [math.sqrt(laws.fine), math.sqrt(left)]
    bad = (looks + 1) * laws.values.bad + looks * laws.spaces.test.delta
    epsilon, delta = with_bad_events(compose_gdp(steps), budget.epsilon * (1 - 1e-9), bad)
    assert epsilon <= budget.epsilon + bad * 1.001
    assert delta <= budget.delta * (1 + 1e-6)
    slack = bad + budget.epsilon * 1e-9
    more = with_bad_events(1.02 * compose_gdp(steps), budget.epsilon - slack, bad)
    assert more[1] > budget.delta


@pytest.mark.parametrize("condition", [1.0, 1e10])
def test_the_rest_of_the_budget_after_queries_goes_to_the_release(monkeypatch, condition):
    costs, given = [], []
    votes, average = EigenvalueEstimator.__call__, StableAverage.__call__
    final = unbounded_gaussian.release_transformed

    def look(self, *arguments):
        costs.append(Fraction(self.mu) ** 2)
        return votes(self, *arguments)

    def space(self, *arguments):
        test = Fraction(gdp_of_pure(float(self.test.epsilon)))
        costs.append(test**2 + Fraction(self.mu) ** 2)
        return average(self, *arguments)

    def last(*arguments, rho, extra, **rest):
        given.append((2 * rho, extra))
        return final(*arguments, rho=rho, extra=extra, **rest)

    monkeypatch.setattr(EigenvalueEstimator, "__call__", look)
    monkeypatch.setattr(StableAverage, "__call__", space)
    monkeypatch.setattr(unbounded_gaussian, "release_transformed", last)
    rows, _ = normal_rows(enough(3), condition)
    released(rows)
    total = UnboundedGaussian().calibrate(Lattice(3, 1.0), BUDGET, Neighbors.ADD_REMOVE).total
    assert given == [(total - sum(costs), 8)]
    assert len(costs) == (1 if condition == 1 else 5)


# Votes.


def groups_like(eigenvalues, count, size, seed=0):
    rng = np.random.default_rng(seed)
    d = len(eigenvalues)
    rotation = np.linalg.qr(rng.normal(size=(d, d)))[0]
    rows = rng.normal(size=(count, size, d)) * np.sqrt(eigenvalues) @ rotation.T
    covariances = rows.transpose(0, 2, 1) @ rows / size
    return covariances, np.trace(covariances, axis1=1, axis2=2), rotation


def test_eigenvalues_are_found_within_two_buckets():
    estimator = EigenvalueEstimator(3, 0.3, 1e-6)
    true = np.array([5e8, 3.0, 2e-2])
    covariances, traces, _ = groups_like(true, estimator.groups, 300)
    values, trace = estimator(covariances, traces, 0.0, Entropy.seeded(1))
    np.testing.assert_array_less(np.abs(np.log(values / true)), 0.35)
    assert trace == pytest.approx(true.sum(), rel=0.3)
    floored, _ = estimator(covariances, traces, 1.0, Entropy.seeded(1))
    assert floored[2] == 0.0
    assert floored[1] > 0


def test_the_number_of_groups_clears_the_threshold_and_a_tenth_does_not():
    estimator = EigenvalueEstimator(3, 0.3, 1e-6)
    assert estimator.groups > 2 * estimator.histograms.threshold / STEPS_PER_VOTE
    true = np.array([4.0, 2.0, 1.0])
    covariances, traces, _ = groups_like(true, estimator.groups // 10, 300)
    with pytest.raises(MechanismRefused):
        estimator(covariances, traces, 0.0, Entropy.seeded(1))


def test_the_noise_of_votes_covers_a_group_that_moves_all_of_them(monkeypatch):
    estimator, seen = EigenvalueEstimator(3, 0.3, 1e-6), []

    def spy(self, counts, _):
        seen.append(counts)
        return {(i, 0): 1.0 for i in range(4)}

    monkeypatch.setattr(GaussianHistograms, "__call__", spy)
    covariances, traces, _ = groups_like(np.array([4.0, 2.0, 1.0]), 50, 300)
    for scale in (1.0, 1e6):
        covariances[7] *= scale
        estimator(covariances, traces * np.where(np.arange(50) == 7, scale, 1), 0.0, None)
    change = {key: seen[1][key] - seen[0][key] for key in set(seen[0]) | set(seen[1])}
    squared = sum(c**2 for c in change.values())
    assert squared == 2 * 4
    law = estimator.histograms.noise
    assert float(law.variance - 8) == pytest.approx(squared * STEPS_PER_VOTE**2 / 0.3**2)
    tail = stats.norm.sf((estimator.histograms.threshold - STEPS_PER_VOTE) / law.standard_deviation)
    assert 4 * tail <= 1e-6


@pytest.mark.parametrize("references", [None, 8])
def test_a_subspace_is_found_as_well_as_its_gap_allows(references):
    recovery = SubspaceRecovery.of(0.5, 1e-6, 200, references, 5)
    true = np.array([1e6, 1e6, 1.0, 0.3])
    covariances, _, rotation = groups_like(true, recovery.groups, 200)
    basis = recovery(covariances, 2, 1e-3, Entropy.seeded(1))
    np.testing.assert_allclose(basis.T @ basis, np.eye(2), atol=1e-12)
    away = np.linalg.norm(rotation[:, 2:].T @ basis)
    assert away < 2e-3
    with pytest.raises(MechanismRefused, match="same covariance"):
        recovery(covariances, 1, 1e-3, Entropy.seeded(1))  # no gap there
    with pytest.raises(MechanismError):
        recovery(covariances[:-1], 2, 1e-3, Entropy.seeded(1))


def test_the_cost_of_a_subspace_is_what_was_allowed():
    recovery = SubspaceRecovery.of(0.1, 1e-7, 200, None, 5)
    test = gdp_of_pure(float(recovery.test.epsilon))
    assert 0.09 < compose_gdp([test, recovery.mu]) <= 0.1
    assert recovery.groups >= recovery.average(3, 1, 0.1).fewest


# Steps.


def test_the_first_gap_is_the_first_ratio_above_four():
    assert first_gap(np.array([9.0, 4.0, 1.01]), closed=False) is None
    assert first_gap(np.array([9.0, 2.0, 0.1]), closed=False) == 1
    assert first_gap(np.array([9.0, 4.0, 0.1]), closed=False) == 2
    assert first_gap(np.array([9.0, 4.0, 0.0]), closed=False) == 2
    assert first_gap(np.array([9.0, 4.0, 0.0]), closed=True) is None
    assert first_gap(np.zeros(3), closed=False) is None
    assert first_gap(np.ones(1), closed=False) is None


def test_steps_bring_eigenvalues_together():
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    matrix = rotation @ np.diag([8.0, 1e-4, 3e-5]) @ rotation.T
    step = coarse(rotation[:, :1], math.sqrt(1e-4 / 8))
    np.testing.assert_allclose(np.linalg.eigvalsh(step @ matrix @ step.T), [2.4, 8, 8], rtol=1e-9)
    cut = fine(matrix)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(cut @ matrix @ cut.T), [3e-5, 1e-4, 3e-2], rtol=1e-6
    )
    np.testing.assert_array_equal(fine(-np.eye(2)), np.eye(2))


def test_a_fine_step_is_taken_and_paid_where_gaps_are_small_but_many(monkeypatch):
    d = 7
    values = 3.3 ** -np.arange(d)
    rows = np.random.default_rng(2).normal(size=(enough(d), d)) * np.sqrt(values)
    taken = []
    right = unbounded_gaussian.fine

    def spy(matrix):
        taken.append(right(matrix))
        return taken[-1]

    monkeypatch.setattr(unbounded_gaussian, "MAX_EIGENVALUE_RATIO", 200.0)
    monkeypatch.setattr(unbounded_gaussian, "fine", spy)
    made = denoise(released(rows), "project")
    assert len(taken) == 1
    relative = made.second_moment() * BOUND**2 / len(rows) / np.sqrt(np.outer(values, values))
    assert np.linalg.norm(relative - np.eye(d)) < 0.6


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: UnboundedGaussian(looks=0),
        lambda: UnboundedGaussian(looks=True),
        lambda: UnboundedGaussian(references=0),
        lambda: UnboundedGaussian(group_size=0.5),
        lambda: UnboundedGaussian(value_share=0.5, space_share=0.5),
        lambda: UnboundedGaussian(fine_share=0.0),
        lambda: UnboundedGaussian(slack=-1),
        lambda: UnboundedGaussian(trace_share=1.0),
        lambda: UnboundedGaussian().calibrate(Lattice(3, 1.0), PureDP(1.0), "add-remove"),
        lambda: UnboundedGaussian().calibrate(Lattice(3, 1.0), ZCDP(1.0), "add-remove"),
        lambda: UnboundedGaussian().calibrate(Lattice(3, 1.0), ApproxDP(1e-3, 1e-9), "add-remove"),
    ],
)
def test_what_makes_no_sense_is_refused_from_public_numbers(wrong):
    with pytest.raises(MechanismError):
        wrong()
