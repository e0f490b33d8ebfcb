"""Heavy tails: accounting, the step, the paper's that fails, sample sizes, accuracy."""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from test_preconditioned import metered

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP, gaussian_mu
from dpcov.denoise import denoise
from dpcov.errors import MechanismError, SourceError
from dpcov.mechanisms import HeavyTailed
from dpcov.papers import heavy_tailed, preconditioned
from dpcov.papers.preconditioned import PilotEstimate
from dpcov.papers.primitives import bounded_moments
from dpcov.papers.primitives.bounded_moments import STEP_SPECTRAL_ERROR, Moments, after_step, steps
from dpcov.rows.moment import LinearMap
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows
from strategies import ComesOnce

D, BOUND = 6, 20.0
NAMES = tuple("abcdef")
SWAP = Neighbors.REPLACE_ONE


def student_rows(n, condition, freedom=5, seed=0):
    """Return rows of Student's t with covariance Q diag Q', and the map that makes them round."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    deviations = np.geomspace(condition**-0.5, 1, D)
    round_rows = rng.normal(size=(n, D)) * np.sqrt(
        (freedom - 2) / rng.chisquare(freedom, size=(n, 1))
    )
    return round_rows * deviations @ rotation.T, (rotation / deviations).T


def released(rows, mechanism, *, intercept=0.0, neighbors=SWAP, budget=None, seed=1):
    schema = Schema.from_bounds(-BOUND, BOUND, NAMES, intercept=intercept)
    return mechanism(
        open_rows(rows, schema),
        budget=budget or ApproxDP(1.0, 1e-6),
        neighbors=Neighbors(neighbors),
        entropy=Entropy.seeded(seed),
    )


def error(made, rows, round_map):
    found = denoise(made, "project").second_moment() * BOUND**2 / len(rows)
    return np.linalg.norm(round_map @ found @ round_map.T - np.eye(D))


# Accounting.


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize(
    "mechanism",
    [
        HeavyTailed(),
        HeavyTailed(radii="theory", condition=100.0),
        HeavyTailed("one-step"),
        HeavyTailed("one-step", radii="theory"),
        HeavyTailed("naive"),
        HeavyTailed("naive", radii="theory"),
    ],
    ids=lambda m: f"{m.variant}-{m.radii}",
)
@pytest.mark.parametrize(("intercept", "persons"), [(0.0, False), (0.3, False), (0.0, True)])
def test_queries_counts_and_release_add_up_to_rho(
    monkeypatch, mechanism, intercept, persons, neighbors
):
    rows, _ = student_rows(2000, 100.0)
    schema = Schema.from_bounds(-BOUND, BOUND, NAMES, intercept=intercept)
    if persons:
        unit = {"column": "id", "type": "integer", "max_rows": 2}
        schema = Schema.parse(schema.model_dump() | {"unit": unit})
    table = pa.table(dict(zip(NAMES, rows.T, strict=True)) | {"id": np.arange(2000) // 2})
    source = open_rows(table, schema)
    costs = metered(monkeypatch, source.lattice().relative(), neighbors)
    mechanism(source, budget=ZCDP(0.3), neighbors=neighbors, entropy=Entropy.seeded(2))
    assert sum(costs) <= Fraction(3, 10)
    assert sum(costs) > Fraction(3, 10) * (1 - Fraction(1, 10**9))


@pytest.mark.parametrize("neighbors", Neighbors)
def test_for_epsilon_and_delta_every_variance_is_8_larger_to_cover_the_rounding(neighbors):
    lattice = open_rows(np.zeros((1, D)), Schema.from_bounds(0, 1, NAMES, intercept=0.0)).lattice()
    budget = ApproxDP(1.0, 1e-6)
    mu = Fraction(gaussian_mu(1 - 1e-12, 1e-6))
    found = HeavyTailed().calibrate(lattice, budget, neighbors)
    look = lattice.relative().frobenius_squared(neighbors) / (2 * found.rho_of_query)
    assert (found.rho, found.step.variance) == (mu**2 / 2, look + 8)
    assert found.count.variance == 1 / (2 * found.rho_of_count) + 8


def test_the_meter_notices_a_query_without_budget(monkeypatch):
    rows, _ = student_rows(500, 1.0)
    source = open_rows(rows, Schema.from_bounds(-BOUND, BOUND, NAMES))
    right = HeavyTailed._learned

    def unpaid(self, *arguments):
        shape, looked = right(self, *arguments)
        return shape, looked - 1

    monkeypatch.setattr(HeavyTailed, "_learned", unpaid)
    costs = metered(monkeypatch, source.lattice(), SWAP)
    HeavyTailed()(source, budget=ZCDP(0.3), neighbors=SWAP, entropy=Entropy.seeded(2))
    assert sum(costs) > Fraction(3, 10)


# The step.


def after(look_of, sigma, noisy, slack):
    """Return the spectrum of the mapped second moment after a step from the identity."""
    values, vectors = np.linalg.eigh(noisy)
    shape = look_of(values, vectors, slack).matrix()
    return np.linalg.eigvalsh(shape @ sigma @ shape.T)


def ours(values, vectors, slack):
    seen = PilotEstimate(values, vectors, deviation=0.0, count=1.0)
    return seen.whitening_map(LinearMap.rounded(np.eye(len(values))), slack)


def papers(values, vectors, slack, lower=0.05):
    """Run the paper's Algorithm 2: eigenvalues of M are clamped to [lambda_min(L) + s, 1 - s]."""
    clamped = np.clip(values, lower + slack, 1 - slack)
    return ours(clamped, vectors, slack)


def instances(count):
    """Yield second moments with spectrum in [0, 1], and estimates with spectral error s."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        frames = np.linalg.qr(rng.normal(size=(2, 3, 3)))[0]
        sigma = (frames[0] * rng.uniform(0, 1, 3) ** 2) @ frames[0].T
        slack = rng.uniform(0.01, 0.45)
        signs = rng.choice([-1, 1], 3) * np.append(1, rng.uniform(0, 1, 2))
        yield sigma, sigma + (frames[1] * slack * signs) @ frames[1].T, slack


def test_a_step_keeps_the_second_moment_below_the_identity_and_raises_its_least_eigenvalue():
    for sigma, noisy, slack in instances(4000):
        least = np.linalg.eigvalsh(sigma)[0]
        found = after(ours, sigma, noisy, slack)
        assert found[-1] <= 1 + 1e-7
        assert found[0] >= least / (least + 3 * slack) * (1 - 1e-7)


def test_the_papers_clamped_step_leaves_the_identity():
    """min(x, 1 - s) is not operator monotone: spectral norm 1.0437 where the paper has 1."""
    sigma = np.array([[0.9, 0.2], [0.2, 0.4]])
    noisy = np.diag([1.1, 0.2])
    assert np.linalg.norm(noisy - sigma, 2) < 0.3
    assert np.linalg.eigvalsh(sigma)[0] > 0.05
    assert np.linalg.eigvalsh(sigma)[-1] < 1
    assert after(papers, sigma, noisy, 0.3)[-1] == pytest.approx(1.0437, abs=5e-5)
    assert after(ours, sigma, noisy, 0.3)[-1] <= 1
    worst = max(after(papers, *case)[-1] for case in instances(4000))
    assert worst > 1.05


def test_the_least_eigenvalue_doubles_until_it_is_a_half():
    for lower in np.geomspace(1e-12, 0.5, 200):
        assert after_step(lower) >= min(2 * lower, 0.5) - 1e-15
    assert steps(1.0) == 1
    assert [after_step(after_step(1 / 5)), steps(5.0)] == [after_step(after_step(0.2)), 2]
    assert steps(1e12) <= 40


# Theory: bias, errors, sample size.


@pytest.mark.parametrize(("order", "constant"), [(2, 3.0), (3, 15.0)])
def test_truncation_takes_no_more_than_the_bound_and_that_is_not_far_off(order, constant):
    """Normal rows: E <v, X>^2k = (2k - 1)!!."""
    rows = np.random.default_rng(3).normal(size=(200_000, D))
    moments = Moments(order, constant)
    for bias in (0.5, 0.05):
        radius = moments.radius(D, bias)
        assert moments.bias(D, radius) == pytest.approx(bias)
        shrink = np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
        taken = (rows.T @ rows - (rows * shrink).T @ (rows * shrink)) / len(rows)
        assert np.linalg.norm(taken, 2) <= bias
        in_mahalanobis = moments.mahalanobis_radius(D, bias)
        assert math.sqrt(D) * moments.bias(D, in_mahalanobis) == pytest.approx(bias)


def test_the_error_of_a_query_keeps_its_bound_and_often_exceeds_a_sixth_of_it():
    rows = np.random.default_rng(8).normal(size=(20_000, D))
    moments, rng = Moments(2, 3.0), np.random.default_rng(9)
    n, radius, deviation = 500, 6.0, 0.1
    clip = rows * np.minimum(1, radius / np.linalg.norm(rows, axis=1))[:, None]
    found = []
    for _ in range(400):
        noise = rng.normal(size=(D, D)) * deviation
        some = clip[rng.integers(0, len(clip), n)]
        found.append(np.linalg.norm(some.T @ some / n + (noise + noise.T) / 2 - np.eye(D), 2))
    bound = moments.spectral_error(D, radius, n, deviation, 0.1)
    assert np.mean(np.array(found) > bound) <= 0.1
    assert np.mean(np.array(found) > bound / 6) > 0.5


def test_the_sample_size_of_theory_suffices_and_is_the_least():
    mechanism = HeavyTailed(constant=3.0, condition=50.0, alpha=0.5, radii="theory")
    size = mechanism.sample_size(2, 2.0)
    moments, looks = mechanism.moments, mechanism.looks
    radius = moments.radius(2, 1 / 32)
    deviation = radius**2 / math.sqrt(0.5 * 2.0 / looks)
    for n, enough in ((size.steps, True), (size.steps - 1, False)):
        bound = moments.spectral_error(2, radius, n, deviation / n, 0.1 / (2 * looks))
        assert (bound <= STEP_SPECTRAL_ERROR) == enough
    lower, square = 1 / 50, moments.mahalanobis_radius(2, 0.25) ** 2
    for _ in range(looks):
        lower = after_step(lower)
    log = math.log(80)
    for n, enough in ((size.final, True), (size.final - 1, False)):
        noise = square / (n * math.sqrt(0.49 * 2.0)) * (math.sqrt(3) + math.sqrt(2 * log))
        sampling = 2 * math.sqrt(6 * log / n) + 2 / 3 * log * (2 * square / lower) / n
        assert (0.25 + noise / lower + sampling <= 0.5) == enough
    n = max(size)
    errors, rng = [], np.random.default_rng(11)
    schema = Schema.from_bounds(-10.0, 10.0, ("a", "b"), intercept=0.0)
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    for seed in range(8):
        rows = rng.normal(size=(n, 2)) * [1, 50**-0.5] @ turn.T
        made = HeavyTailed(
            constant=3.0, condition=50.0, alpha=0.5, radii="theory", eigenvalue_bound=0.01
        )(open_rows(rows, schema), budget=ZCDP(2.0), neighbors=SWAP, entropy=Entropy.seeded(seed))
        round_map = (turn / [1, 50**-0.5]).T
        found = round_map @ made.noisy() @ round_map.T * 100 / n
        errors.append(np.linalg.norm(found - np.eye(2)))
    assert max(errors) < 0.5


def test_more_is_asked_of_naive_as_the_condition_grows_and_hardly_more_of_full():
    def final(variant, condition):
        return HeavyTailed(variant, condition=condition).sample_size(10, 0.028).final

    assert final("naive", 1e6) > 50 * final("naive", 1e4)
    assert final("full", 1e6) < 1.5 * final("full", 1e4)
    assert HeavyTailed("naive").sample_size(10, 0.028).steps == 0


# Accuracy.


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e10])
def test_the_error_relative_to_the_matrix_does_not_grow_with_the_condition(condition):
    rows, round_map = student_rows(50_000, condition)
    plain = np.linalg.norm(round_map @ rows.T @ rows @ round_map.T / len(rows) - np.eye(D))
    assert error(released(rows, HeavyTailed()), rows, round_map) < 3 * plain
    if condition > 1:
        assert error(released(rows, HeavyTailed("naive")), rows, round_map) > 3


def test_one_step_helps_but_does_not_do_at_a_large_condition():
    rows, round_map = student_rows(50_000, 1e6)
    found = [
        error(released(rows, HeavyTailed(variant, eigenvalue_bound=0.01)), rows, round_map)
        for variant in ("naive", "one-step", "full")
    ]
    assert found[0] > 2 * found[1] > 10 * found[2]


def test_a_map_multiplied_on_the_wrong_side_is_caught(monkeypatch):
    rows, round_map = student_rows(50_000, 1e4)
    right = error(released(rows, HeavyTailed()), rows, round_map)
    whitening_map = preconditioned.PilotEstimate.whitening_map

    def wrong_side(self, shape, slack):
        step = whitening_map(self, LinearMap.rounded(np.eye(D)), slack).matrix()
        return LinearMap.rounded(shape.matrix() @ step)

    monkeypatch.setattr(preconditioned.PilotEstimate, "whitening_map", wrong_side)
    assert error(released(rows, HeavyTailed()), rows, round_map) > 10 * right


# Refusals and odd tables.


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: HeavyTailed("best"),
        lambda: HeavyTailed(radii="wide"),
        lambda: HeavyTailed(order=1),
        lambda: HeavyTailed(order=True),
        lambda: HeavyTailed(constant=0.5),
        lambda: HeavyTailed(constant=math.nan),
        lambda: HeavyTailed(alpha=0.0),
        lambda: HeavyTailed(beta=1.0),
        lambda: HeavyTailed(eigenvalue_bound=-1.0),
        lambda: HeavyTailed(eigenvalue_bound=math.nan),
        lambda: HeavyTailed(condition=0.5),
        lambda: HeavyTailed(condition=math.inf),
        lambda: HeavyTailed(look_share=1.0),
        lambda: HeavyTailed(look_share=0.995),
        lambda: HeavyTailed(trace_share=1.0),
        lambda: HeavyTailed().calibrate(
            open_rows(np.zeros((1, D)), Schema.from_bounds(0, 1, NAMES)).lattice(),
            PureDP(1.0),
            SWAP,
        ),
    ],
)
def test_options_and_budgets_that_make_no_sense_are_refused(wrong):
    with pytest.raises(MechanismError):
        wrong()


def test_a_table_that_comes_once_is_read_once():
    def made(kind):
        rows = Rows(Schema.from_bounds(-1, 1, NAMES), kind(np.eye(5, D), NAMES))
        return HeavyTailed()(rows, budget=ZCDP(1.0), neighbors=SWAP, entropy=Entropy.seeded(1))

    assert np.array_equal(made(ComesOnce).published, made(ArraySource).published)


def test_control_without_a_copy_it_would_be_read_again(monkeypatch):
    monkeypatch.setattr(Rows, "require_rereadable", lambda self: None)
    rows = Rows(Schema.from_bounds(-1, 1, NAMES), ComesOnce(np.eye(5, D), NAMES))
    with pytest.raises(SourceError, match="could not read the data to the end"):
        HeavyTailed()(rows, budget=ZCDP(1.0), neighbors=SWAP, entropy=Entropy.seeded(1))


@pytest.mark.parametrize("variant", ["naive", "one-step", "full"])
@pytest.mark.parametrize("radii", ["practical", "theory"])
def test_hostile_rows_never_raise(variant, radii):
    rows = np.zeros((500, D))
    rows[0] = [np.nan, np.inf, -np.inf, 1e300, -1e300, 0.0]
    for table in (rows, rows[:0], np.full((3, D), 1e300)):
        for intercept in (0.0, 0.3):
            for neighbors in Neighbors:
                made = released(
                    table,
                    HeavyTailed(variant, radii=radii),
                    intercept=intercept,
                    neighbors=neighbors,
                )
                made = denoise(made)
                assert made.published is None or np.isfinite(made.second_moment()).all()


def test_no_row_is_longer_than_what_the_radius_is_limited_to():
    rng = np.random.default_rng(12)
    shape = LinearMap.rounded(rng.normal(size=(D, D)))
    lattice = open_rows(np.zeros((1, D)), Schema.from_bounds(0, 1, NAMES)).lattice()
    sphere = rng.normal(size=(D, 1000))
    sphere *= lattice.radius / np.linalg.norm(sphere, axis=0)
    norms = np.linalg.norm(shape.matrix() @ sphere, axis=0)
    assert 0.8 * heavy_tailed.longest(shape, lattice) < norms.max()
    assert norms.max() <= heavy_tailed.longest(shape, lattice)


def test_fourth_moments_follow_from_higher_ones_and_the_step_is_the_papers():
    assert Moments(4, 105.0).fourth == pytest.approx(math.sqrt(105))
    assert bounded_moments.STEP_TRUNCATION_ERROR == 1 / 16
