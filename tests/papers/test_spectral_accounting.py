"""What directions and values that are sampled cost: never more than stated, and controls."""

from fractions import Fraction

import numpy as np
import pytest
from test_accounting import ADD, SWAP, differences, each_relation, each_shape

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.errors import MechanismError
from dpcov.mechanisms import EigenvectorSampling, ExponentialPCA, KapralovTalwar
from dpcov.papers import (
    eigenvector_sampling,
    exponential_pca,
    kapralov_talwar,
    spectral,
)
from dpcov.papers.samplers.frame import Frame
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

EPSILON = Fraction(7, 10)
ANGLES = np.linspace(0, np.pi, 20_001)[:-1]
PLANE = np.stack([np.cos(ANGLES), np.sin(ANGLES)])


def log_density(matrix, t):
    """Return the log density of exp(t u'Cu) on the circle, by the trapezoidal rule."""
    exponent = t * np.einsum("ia,ij,ja->a", PLANE, matrix, PLANE)
    top = exponent.max()
    return exponent - top - np.log(np.mean(np.exp(exponent - top)))


def worst_direction_loss(t, neighbors, bound):
    """Return the largest log-ratio over moments C of any size and their neighbours, at d = 2."""
    losses = []
    for size in (0.0, 1.0, 30.0, 1000.0):
        for first in (0.0, 0.7, np.pi / 2):
            for second in (0.0, np.pi / 4, np.pi / 2):
                u, v = ([np.cos(a), np.sin(a)] for a in (first, second))
                common = size * bound * np.outer(u, u)
                one = common + bound * np.outer(v, v)
                w = [-v[1], v[0]]
                other = common + (bound * np.outer(w, w) if neighbors is SWAP else 0)
                losses.append(np.abs(log_density(one, t) - log_density(other, t)).max())
    return max(losses)


@each_relation
@pytest.mark.parametrize("bound", [1.0, 2.0**40])
def test_a_direction_costs_its_epsilon_and_no_more(neighbors, bound):
    lattice = Lattice(2, 1.0)
    t = spectral.concentration(lattice, neighbors, EPSILON) * lattice.bound / bound
    loss = worst_direction_loss(t, neighbors, bound)
    assert loss <= EPSILON
    assert loss > 0.95 * EPSILON


@each_relation
def test_the_direction_check_rejects_larger_concentrations(neighbors):
    t = spectral.concentration(Lattice(2, 1.0), neighbors, EPSILON) * 2.0**40
    assert worst_direction_loss(1.1 * t, neighbors, 1.0) > EPSILON
    published_code = 8 * t / 2  # exp(2 epsilon u'Cu) where the paper says epsilon / 4
    assert worst_direction_loss(published_code, neighbors, 1.0) > 3.5 * EPSILON


def test_the_concentration_of_add_remove_breaks_replace_one():
    t = spectral.concentration(Lattice(2, 1.0), ADD, EPSILON) * 2.0**40
    assert worst_direction_loss(t, SWAP, 1.0) > 1.9 * EPSILON


def moments(lattice):
    """Return exact sums of some rows, to which neighbours add rows."""
    rng = np.random.default_rng(4)
    rows = rng.integers(-(2**19), 2**19, (40, lattice.dimension)) // lattice.dimension
    return [np.zeros((lattice.dimension,) * 2, dtype=object), rows.T.astype(object) @ rows]


@each_relation
@each_shape
def test_eigenvalues_change_by_their_sensitivity_and_no_more(lattice, neighbors):
    stated = spectral.eigenvalue_sensitivity(lattice, neighbors)
    changes = []
    for common in moments(lattice):
        for change in differences(lattice, neighbors):
            one, other = (
                spectral.rounded(np.linalg.eigvalsh((common + part).astype(float)))
                for part in (change, 0 * change)
            )
            changes.append(sum(abs(a - b) for a, b in zip(one, other, strict=True)))
    assert max(changes) <= stated
    assert max(changes) > 0.99 * stated
    assert not max(changes) <= stated / 2


@each_relation
@each_shape
def test_rayleigh_values_change_by_their_sensitivity_and_no_more(lattice, neighbors):
    d = lattice.dimension
    for count in {1, d}:
        changes, rng = [], np.random.default_rng(5)
        for _ in range(3):
            frame = np.linalg.qr(rng.normal(size=(d, d)))[0].T[:count]
            for vectors in (frame, along_the_first_axis(lattice)[:count]):
                stated = spectral.rayleigh_sensitivity(lattice, neighbors, vectors)
                for change in differences(lattice, neighbors):
                    forms = np.einsum("ki,ij,kj->k", vectors, change.astype(float), vectors)
                    changes.append(np.abs(forms).sum() / float(stated))
        assert max(changes) <= 1
        assert max(changes) > 0.99


def along_the_first_axis(lattice):
    """Return orthonormal rows; the first row points along a row of full norm."""
    start = np.eye(lattice.dimension)
    if lattice.intercept_units:
        start[0, -1] = lattice.intercept_units / 2**20
    return np.linalg.qr(start.T)[0].T


def test_vectors_that_are_not_orthonormal_are_charged_for():
    lattice = Lattice(2, 1.0)
    twice = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert spectral.rayleigh_sensitivity(lattice, ADD, twice) >= 2 * lattice.bound


TABLE = np.random.default_rng(1).random((60, 4))
SPENDERS = [
    EigenvectorSampling(),
    EigenvectorSampling(allocation="uniform"),
    EigenvectorSampling(allocation="uniform", values="rayleigh"),
    EigenvectorSampling(rank=2, value_share=0.3),
    EigenvectorSampling(paper_constants=True),
    KapralovTalwar(),
    KapralovTalwar(rank=2),
    KapralovTalwar(paper_constants=True),
    ExponentialPCA(),
    ExponentialPCA(components=2),
    ExponentialPCA(components=4, value_share=0.5),
]


class Meter:
    """Stands between a mechanism and its samplers, and adds up what they are asked for."""

    def __init__(self, monkeypatch, lattice, neighbors):
        self.lattice, self.neighbors, self.spent, self.last = lattice, neighbors, 0.0, []
        frame = eigenvector_sampling.sequential_frame
        laplace = spectral.discrete_laplace

        def metered_frame(matrix, concentrations, entropy):
            sides = 2 if neighbors is SWAP else 1
            known = len(concentrations) == lattice.dimension > 1
            self.spent += sides * lattice.unit_bound * float(np.sum(concentrations[: -1 or None]))
            if not known:
                self.spent += sides * lattice.unit_bound * float(concentrations[-1])
            self.last.append(float(concentrations[-1]))
            return frame(matrix, concentrations, entropy)

        def metered_laplace(scale, count, entropy):
            two = neighbors is SWAP and count > 1
            self.spent += float(lattice.unit_bound * (2 if two else 1) / scale)
            return laplace(scale, count, entropy)

        for module in (eigenvector_sampling, kapralov_talwar, exponential_pca):
            monkeypatch.setattr(module, "sequential_frame", metered_frame)
        monkeypatch.setattr(spectral, "discrete_laplace", metered_laplace)


@each_relation
@pytest.mark.parametrize("mechanism", SPENDERS, ids=str)
def test_all_that_a_release_asks_adds_up_to_epsilon(mechanism, neighbors, monkeypatch):
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    meter = Meter(monkeypatch, rows.lattice(), neighbors)
    mechanism(rows, budget=PureDP(0.7), neighbors=neighbors, entropy=Entropy.seeded(1))
    assert meter.spent <= 0.7
    if not getattr(mechanism, "paper_constants", False):
        assert meter.spent > 0.7 * (1 - 1e-4)


@pytest.mark.parametrize("columns", [1, 4])
@each_relation
@pytest.mark.parametrize("mechanism", SPENDERS, ids=str)
def test_values_get_the_noise_that_is_stated(mechanism, neighbors, columns, monkeypatch):
    rows = open_rows(TABLE[:, :columns], Schema.from_bounds(0, 1, "abcd"[:columns], intercept=0.0))
    drawn, laplace = [], spectral.discrete_laplace

    def watched(scale, count, entropy):
        drawn.append(float(scale))
        return laplace(scale, count, entropy)

    monkeypatch.setattr(spectral, "discrete_laplace", watched)
    asked = {"budget": PureDP(0.7), "neighbors": neighbors}
    made = mechanism(rows, **asked, entropy=Entropy.seeded(1))
    laws = mechanism.calibrate(rows.lattice(), *asked.values())
    assert drawn == pytest.approx([float(laws.value_noise.scale)] * len(drawn), rel=1e-4)
    assert (made.guarantee, mechanism.passes) == (laws.guarantee, 1)
    assert made.unit_count == (len(TABLE) if neighbors is SWAP else None)
    if columns == 1:  # the only direction is known, and all of epsilon is for its value
        spent = rows.lattice().unit_bound / drawn[0]
        assert 0.7 * (1 - 1e-4) < spent <= 0.7


@pytest.mark.parametrize(
    ("mechanism", "neighbors", "share"),
    [
        (KapralovTalwar(paper_constants=True), ADD, 0.625),
        (KapralovTalwar(paper_constants=True), SWAP, 0.75),
        (EigenvectorSampling(rank=2, paper_constants=True), ADD, 0.375),
        (EigenvectorSampling(rank=2, paper_constants=True), SWAP, 0.75),
    ],
)
def test_the_papers_constants_spend_this_share(mechanism, neighbors, share, monkeypatch):
    """A quarter (under replace-one a half) of directions' half; a half or all of values'."""
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    meter = Meter(monkeypatch, rows.lattice(), neighbors)
    mechanism(rows, budget=PureDP(0.7), neighbors=neighbors, entropy=Entropy.seeded(1))
    assert meter.spent == pytest.approx(0.7 * share, rel=1e-4)


@pytest.mark.parametrize("paper", [False, True])
def test_values_are_kept_within_their_limits_in_the_paper_alone(paper):
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    made = EigenvectorSampling(paper_constants=paper)(
        rows, budget=PureDP(0.02), neighbors=SWAP, entropy=Entropy.seeded(2)
    )
    values = np.linalg.eigvalsh(made.published.astype(float)) * 2.0**made.shift
    coarse = 4 * 2.0**made.shift
    largest = len(TABLE) * rows.lattice().bound
    within = (values > -coarse).all() and (values < largest + coarse).all()
    assert within == paper


def test_shares_follow_the_corollary():
    lattice = Lattice(3, 1.0)
    adaptive, uniform = EigenvectorSampling(), EigenvectorSampling(allocation="uniform")
    slack = 5 * np.log(2 * 3 / 0.05)
    weights = np.sqrt([100 + slack, 10 + slack, 0])
    values = np.array([100.0, 10.0, 1.0])
    np.testing.assert_allclose(adaptive._shares(values, 5.0, lattice), weights / weights.sum())
    assert adaptive._shares(np.array([100.0, -500, -500]), 5.0, lattice).tolist() == [1, 0, 0]
    assert uniform._shares(values, 5.0, lattice).tolist() == [0.5, 0.5, 0]


def test_a_piece_is_what_the_former_pieces_leave(monkeypatch):
    """The directions are not orthogonal, and there is no noise."""
    drawn = iter(np.array([[1.0, 0, 0, 0], [0.6, 0.8, 0, 0], [0.5, 0.5, 0.5, 0.5]]))
    monkeypatch.setattr(
        kapralov_talwar,
        "sequential_frame",
        lambda matrix, t, entropy: Frame(next(drawn)[None], np.ones(1, int)),
    )
    monkeypatch.setattr(spectral, "discrete_laplace", lambda s, count, e: np.zeros(count, int))
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    left = rows.second_moments()[0].units.astype(float) * rows.lattice().step ** 2
    expected = np.zeros((4, 4))
    for v in np.array([[1.0, 0, 0, 0], [0.6, 0.8, 0, 0], [0.5, 0.5, 0.5, 0.5]]):
        piece = max(0.0, v @ left @ v) * np.outer(v, v)
        expected, left = expected + piece, left - piece
    mechanism = KapralovTalwar(rank=3)
    made = mechanism(rows, budget=PureDP(100.0), neighbors=ADD, entropy=Entropy.seeded(1))
    np.testing.assert_allclose(made.noisy(), expected, atol=1e-3)


def test_values_are_rounded_to_the_nearest_integer_halves_up():
    values = np.array([0.4, 0.5, -0.5, -0.6, 2.0**51 + 1])
    assert spectral.rounded(values) == [0, 1, 0, -1, 2**51 + 1]


def test_an_estimate_is_symmetric_where_its_float_product_is_not():
    mechanism, rng = EigenvectorSampling(), np.random.default_rng(1)
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    laws = mechanism.calibrate(rows.lattice(), PureDP(1e10), ADD)
    vectors, values = np.linalg.qr(rng.normal(size=(4, 4)))[0], 2.0**61 * rng.random(4)
    product = vectors.T @ (values[:, None] * vectors)
    moment = rows.second_moments()[0]
    made = spectral.estimate(mechanism, rows, laws, moment, vectors, values, Entropy.seeded(1))
    assert np.abs(product - product.T).max() > 2.0**made.shift
    assert (made.published == made.published.T).all()


@pytest.mark.parametrize("mechanism", SPENDERS, ids=str)
def test_value_noise_is_drawn_up_to_the_largest_scale_and_refused_beyond(mechanism, monkeypatch):
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    least = float(mechanism.calibrate(rows.lattice(), PureDP(1.0), ADD).value_noise.scale) / 2**80

    def made():
        asked = {"budget": PureDP(least * (1 + 1e-9)), "neighbors": ADD}
        return mechanism(rows, **asked, entropy=Entropy.seeded(2))

    assert made().shift == 70
    assert 2**8 < np.abs(made().published).max() < 2**15
    laplace = spectral.discrete_laplace
    monkeypatch.setattr(spectral, "discrete_laplace", lambda *asked: laplace(*asked) % 2**63)
    assert np.abs(made().published).max() < 2**8  # as if 64 bits held it
    with pytest.raises(MechanismError, match="budget is too small"):
        mechanism.calibrate(rows.lattice(), PureDP(least * (1 - 1e-9)), ADD)


@pytest.mark.parametrize(
    ("weights", "shares"),
    [([1.0, 0.0], [1, 0]), ([0.1, 0.3], [0.25, 0.75]), ([0.0, 0.0], [0.5, 0.5])],
)
def test_shares_are_in_proportion_and_add_up_to_one(weights, shares):
    assert spectral.shares(np.array(weights)).tolist() == pytest.approx(shares)


@each_relation
def test_the_meter_notices_a_share_that_is_spent_twice(neighbors, monkeypatch):
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    monkeypatch.setattr(spectral, "shares", lambda weights: np.ones(len(weights)))
    meter = Meter(monkeypatch, rows.lattice(), neighbors)
    EigenvectorSampling()(rows, budget=PureDP(0.7), neighbors=neighbors, entropy=Entropy.seeded(1))
    assert meter.spent > 1.0


@each_relation
@each_shape
def test_no_concentration_is_rounded_above_its_epsilon(lattice, neighbors):
    sides = 2 if neighbors is SWAP else 1
    for k in range(1, 200):
        epsilon = Fraction(k, 37)
        t = Fraction(spectral.concentration(lattice, neighbors, epsilon))
        assert epsilon * (1 - Fraction(1, 2**39)) < t * sides * lattice.unit_bound < epsilon


@each_relation
@each_shape
def test_sensitivities_of_values_are_those_of_their_docstrings_to_the_last_bit(lattice, neighbors):
    d, error = lattice.dimension, spectral.EIGENVALUE_ERROR * lattice.bound
    expected = lattice.nuclear(neighbors) + d * (1 + 2 * error)
    assert spectral.eigenvalue_sensitivity(lattice, neighbors) == expected
    vectors = 1.5 * np.eye(d)[: max(1, d - 1)]
    k = len(vectors)
    norm = 1 + Fraction(1.25 * k**0.5) + Fraction(d, 2**37)
    assert spectral.squared_norm(vectors) == pytest.approx(norm, rel=1e-15)
    assert spectral.squared_norm(np.eye(d)) == 1 + Fraction(d, 2**37)
    sides = 2 if neighbors is SWAP and k > 1 else 1
    found = spectral.rayleigh_sensitivity(lattice, neighbors, vectors)
    assert found == sides * lattice.unit_bound * spectral.squared_norm(vectors) + k


@pytest.mark.parametrize("d", [1, 7, 4096])
def test_the_allowance_for_float64_is_twice_the_error_of_the_eigenvalues_of_many_rows(d):
    of_trace = d * Fraction(1, 2**53)
    assert 2 * of_trace * Fraction(2**32, d) <= spectral.EIGENVALUE_ERROR


def test_the_largest_share_goes_to_the_largest_eigenvalue_and_none_to_the_last():
    mechanism, lattice = EigenvectorSampling(), Lattice(3, 1.0)
    shares = mechanism._shares(np.array([900.0, 90.0, 9.0]), 1e-3, lattice)
    assert shares[0] / shares[1] == pytest.approx(10**0.5, rel=1e-3)
    assert shares[2] == 0
    nothing = mechanism._shares(np.array([-1e9, -1e9, -1e9]), 1e-3, lattice)
    assert nothing.sum() == pytest.approx(1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: EigenvectorSampling(rank=0),
        lambda: EigenvectorSampling(rank=1.5),
        lambda: EigenvectorSampling(value_share=1.0),
        lambda: EigenvectorSampling(value_share=float("nan")),
        lambda: EigenvectorSampling(allocation="best"),
        lambda: EigenvectorSampling(values="best"),
        lambda: EigenvectorSampling(values="rayleigh"),
        lambda: KapralovTalwar(rank=True),
        lambda: ExponentialPCA(components=None),
        lambda: ExponentialPCA(value_share=0.0),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong):
    with pytest.raises(MechanismError):
        wrong()


@pytest.mark.parametrize("mechanism", SPENDERS, ids=str)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_a_large_budget_gives_back_the_matrix_or_its_best_approximation(mechanism, neighbors):
    rows = open_rows(TABLE, Schema.from_bounds(0, 1, "abcd", intercept=0.0))
    made = mechanism(rows, budget=PureDP(1e7), neighbors=neighbors, entropy=Entropy.seeded(1))
    moment = rows.second_moments()[0]
    values, vectors = np.linalg.eigh(moment.units.astype(float) * moment.lattice.step**2)
    rank = getattr(mechanism, "rank", None) or getattr(mechanism, "components", 4)
    best = (vectors[:, -rank:] * values[-rank:]) @ vectors[:, -rank:].T
    np.testing.assert_allclose(made.noisy(), best, atol=3e-3 * values[-1])
