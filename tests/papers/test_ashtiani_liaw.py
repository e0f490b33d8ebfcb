"""Matrices on which groups agree: exact decisions, sensitivity by brute force, the mechanism."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import linalg

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors, exact
from dpcov.denoise import denoise
from dpcov.errors import MechanismError, MechanismRefused
from dpcov.mechanisms import AshtianiLiaw
from dpcov.papers.accounting import renyi_epsilon
from dpcov.papers.primitives import stable_matrices
from dpcov.papers.primitives.release_test import ReleaseTest
from dpcov.papers.primitives.sampled_covariance import SampledCovariance
from dpcov.papers.primitives.stable_matrices import StableMatrices, close_pairs
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

TINY = ReleaseTest(Fraction(4), 0.2, false_alarm=0.2)  # a limit small enough to search
FIFTH = Fraction(1, 5)


def integers(matrix):
    return np.array([[int(x) for x in row] for row in matrix], dtype=object)


# Decisions.


@pytest.mark.parametrize(
    ("order", "skew"), [(1, 0), (4, 0), (4, 2**18 + 5), (4, 2**20 + 7), (3, 2**25 + 3)]
)
def test_distances_that_floats_cannot_distinguish_from_the_radius_are_decided_rightly(order, skew):
    """A = 5 c and B = 6 c are 0.2 apart in one direction of any basis; one more is too far."""
    c = 10**30
    basis = integers(np.eye(order)) + integers(skew * np.tri(order, k=-1))
    base = 5 * c * integers(np.eye(order))
    edge, outside = base.copy(), base.copy()
    edge[0, 0], outside[0, 0] = 6 * c, 6 * c + 1
    matrices = [basis @ matrix @ basis.T for matrix in (base, edge, outside)]
    expected = np.array([[True, True, False], [True, True, True], [False, True, True]])
    np.testing.assert_array_equal(close_pairs(matrices, FIFTH), expected)
    np.testing.assert_array_equal(close_pairs(matrices[::-1], FIFTH), expected[::-1, ::-1])
    assert float(outside[0, 0]) == float(edge[0, 0])


def random_matrices(rng, d, count, spread):
    """Return positive definite integers near one of condition up to 2^60, some far from it."""
    root = np.diag(2.0 ** rng.integers(10, 40, d)) @ rng.normal(size=(d, d))
    made = []
    for _ in range(count):
        step = rng.normal(size=(d, d)) * spread * rng.choice([0.3, 1, 3])
        whole = root @ linalg.expm((step + step.T) / 2) @ root.T
        made.append(integers(np.rint((whole + whole.T) / 2)) + integers(np.eye(d)))
    return made


def exactly_close(a, b, radius):
    """Evaluate the definition in rationals, by elimination."""

    def one_way(a, b):
        left = [[Fraction(int(x)) for x in row] for row in np.hstack([a, b])]
        d = len(a)
        for i in range(d):
            pivot = next(j for j in range(i, d) if left[j][i] != 0)
            left[i], left[pivot] = left[pivot], left[i]
            left[i] = [x / left[i][i] for x in left[i]]
            for j in range(d):
                if j != i:
                    left[j] = [x - left[j][i] * y for x, y in zip(left[j], left[i], strict=True)]
        product = np.array(left, dtype=object)[:, d:] - integers(np.eye(d))
        return (product * product.T).sum() <= radius**2

    return one_way(a, b) and one_way(b, a)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("hopeless", [False, True])
def test_which_matrices_agree_is_decided_as_in_rationals(d, hopeless, monkeypatch):
    if hopeless:
        monkeypatch.setattr(stable_matrices.Factor, "of", lambda _: None)
    matrices = random_matrices(np.random.default_rng(d), d, 10, 0.1 / d)
    expected = [[exactly_close(a, b, FIFTH) for a in matrices] for b in matrices]
    assert 15 < np.sum(expected) < 95
    np.testing.assert_array_equal(close_pairs(matrices, FIFTH), expected)


# Sensitivity.


def neighbours(stable, t, pairs):
    """Yield lists of t matrices that differ in one matrix; most are near the edge of agreement."""
    rng = np.random.default_rng(8)
    r = float(stable.radius)
    d = 2
    for _ in range(pairs):
        places = np.array([-1.2, -1, -0.99, -0.5, 0, 0.5, 0.99, 1, 1.2, 9]) * r / 2
        direction = rng.normal(size=(d, d))
        direction = (direction + direction.T) / np.linalg.norm(direction + direction.T)
        basis = [np.eye(d) + 0.8 * p * direction for p in places]
        basis = [integers(np.rint(1e12 * (b + 0.01 * np.eye(d)))) for b in basis]
        share = rng.choice([0.6, 0.8, 0.95])
        chosen = np.where(rng.random(t) < share, 4, rng.integers(len(places), size=t))
        one = [basis[i] for i in chosen]
        other = list(one)
        other[rng.integers(t)] = basis[rng.integers(len(places))]
        yield one, other


def mean_of(matrices, weights):
    return sum(int(w) * m for w, m in zip(weights, matrices, strict=True)).astype(float) / int(
        weights.sum()
    )


def largest_changes(stable, pairs):
    """Return the largest change of the score, and of the mean over its bound.

    The mean counts only if both scores do.
    """
    t, limit = stable.fewest, stable.test.limit
    scores, means = [0], [0.0]
    for one, other in neighbours(stable, t, pairs):
        (s, w), (z, v) = stable(one), stable(other)
        scores.append(abs(s - z))
        if max(s, z) >= limit:
            continue
        a, b = mean_of(one, w), mean_of(other, v)
        change = linalg.eigh(a, b, eigvals_only=True) - 1, linalg.eigh(b, a, eigvals_only=True) - 1
        means.append(max(map(np.linalg.norm, change)) / stable.closeness(t))
    return max(scores), max(means)


def test_score_and_mean_change_by_no_more_than_proved():
    score, mean = largest_changes(StableMatrices(FIFTH, TINY), 400)
    assert score == 2
    assert 0.02 < mean <= 1


def test_weights_without_levels_break_the_bound():
    """The broken version has weights 1 or 0 only, so one more matrix changes many weights."""
    stable = StableMatrices(FIFTH, ReleaseTest(Fraction(1, 2), 1e-9, false_alarm=1e-3))
    k, t = stable.test.limit, stable.fewest
    centre, near, far = (integers([[10**12 * x]]) for x in (100, 119, 84))
    rest = [near] * (k // 2 - 1) + [far] * (k + 1)
    one, other = ([centre] * (t - len(rest) - 1) + [item, *rest] for item in (centre, far))

    def change(weigh):
        means = []
        for matrices in (one, other):
            score, weights = stable(matrices)
            assert score < k
            means.append(mean_of(matrices, weigh(weights))[0, 0])
        return (max(means) / min(means) - 1) / stable.closeness(t)

    assert change(lambda weights: weights) <= 0.1
    assert change(lambda weights: np.where(weights == k, k, 0)) > 1


def test_scores_follow_the_definition():
    stable = StableMatrices(FIFTH, TINY)
    t, limit = stable.fewest, stable.test.limit
    for one, _ in neighbours(stable, t, 40):
        near = close_pairs(one, FIFTH).sum(axis=1)
        inside = [{j for j in range(t) if near[j] >= t - level} for level in range(2 * limit + 1)]
        score = min([limit, *(t - len(inside[level]) + level for level in range(limit + 1))])
        weights = [sum(j in level for level in inside[limit + 1 :]) for j in range(t)]
        found = stable(one)
        assert (found[0], found[1].tolist()) == (score, weights)


def test_closeness_and_the_number_of_matrices_are_inverse():
    stable = StableMatrices(FIFTH, TINY)
    for closest in (1e-3, 0.01):
        count = stable.count_for(closest)
        assert stable.closeness(count) <= closest < stable.closeness(count - 1)
    assert stable.closeness(1000) == pytest.approx(5 * 0.44 / ((1000 - TINY.limit) * 0.56))
    with pytest.raises(MechanismError):
        stable.closeness(stable.fewest - 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: StableMatrices(Fraction(0), TINY),
        lambda: StableMatrices(Fraction(415, 1000), TINY),
        lambda: StableMatrices(FIFTH, ReleaseTest(Fraction(4), 0.2, sensitivity=1)),
        lambda: AshtianiLiaw(agreement=0.414),
        lambda: AshtianiLiaw(agreement=float("nan")),
        lambda: AshtianiLiaw(samples=True),
        lambda: AshtianiLiaw(slack=-1),
        lambda: AshtianiLiaw(test_share=0.0),
        lambda: AshtianiLiaw().calibrate(Lattice(3, 1.0), ApproxDP(1e-4, 1e-9), "add-remove"),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(MechanismError):
        wrong()


# The mechanism.

BUDGET = ApproxDP(10.0, 1e-3)
NAMES = ("a", "b", "c")
SCHEMA = Schema.from_bounds(-8.0, 8.0, NAMES, intercept=0.0)


def normal_rows(n, condition):
    rng = np.random.default_rng(0)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    deviations = np.geomspace(condition**-0.5, 1, 3)
    return rng.normal(size=(n, 3)) * deviations @ rotation.T, (rotation / deviations).T


def released(rows, neighbors, schema=SCHEMA, seed=1):
    entropy = Entropy.seeded(seed)
    return AshtianiLiaw()(
        open_rows(rows, schema), budget=BUDGET, neighbors=neighbors, entropy=entropy
    )


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("condition", [1.0, 1e8])
def test_the_error_is_that_of_the_samples_at_any_condition(condition, neighbors):
    laws = AshtianiLiaw().calibrate(Lattice(3, 1.0), BUDGET, neighbors)
    n = AshtianiLiaw().least_units(Lattice(3, 1.0), BUDGET, neighbors)
    rows, round_map = normal_rows(n, condition)
    squares = []
    for seed in range(6):
        made = denoise(released(rows, neighbors, seed=seed), "project")
        relative = round_map @ made.second_moment() @ round_map.T * 64 / n - np.eye(3)
        squares.append(np.linalg.norm(relative) ** 2)
    assert 0.4 < np.mean(squares) * laws.release.samples / 12 < 2
    with pytest.raises(MechanismRefused):
        released(rows[: n // 3], neighbors)


def test_rows_that_dwarf_their_groups_are_refused_unless_they_are_few():
    rows, _ = normal_rows(150_000, 1.0)
    rows *= 1e-2
    rows[:2] = 7.0
    released(rows, Neighbors.REPLACE_ONE)
    rows[:60] = 7.0 * np.random.default_rng(1).normal(size=(60, 3))
    with pytest.raises(MechanismRefused):
        released(rows, Neighbors.REPLACE_ONE)


def test_all_rows_of_a_person_fall_in_one_group():
    count = 280_000  # persons are numbered in a random order, so the seed does not settle the test
    rows, round_map = normal_rows(count, 10.0)
    unit = {"column": "id", "type": "integer", "max_rows": 2}
    schema = Schema.parse(SCHEMA.model_dump() | {"unit": unit})
    table = pa.table(dict(zip(NAMES, rows.T, strict=True)) | {"id": np.arange(count) // 2})
    made = released(table, Neighbors.REPLACE_ONE, schema)
    assert made.unit_count == count // 2
    relative = round_map @ made.second_moment() @ round_map.T * 64 / count
    assert np.linalg.norm(relative - np.eye(3)) < 0.6


@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_parts_add_up_to_the_budget(neighbors):
    for budget in (ApproxDP(1.0, 1e-6), BUDGET):
        laws = AshtianiLiaw().calibrate(Lattice(3, 1.0), budget, neighbors)
        left = exact(budget.epsilon) - laws.stable.test.epsilon
        assert laws.stable.test.sensitivity == 2
        assert laws.stable.test.delta < budget.delta
        assert laws.release.closeness == laws.stable.closeness(laws.groups)
        assert laws.release.samples >= 150
        delta, samples = laws.stable.test.delta, laws.release.samples
        assert renyi_epsilon(laws.release.renyi, delta) <= left
        more = SampledCovariance(laws.release.closeness, samples + 1 + samples // 30)
        assert renyi_epsilon(more.renyi, delta) > left
