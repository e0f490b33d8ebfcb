"""What a private radius and values released apart cost: never more than stated, and controls."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_accounting import (
    ADD,
    EPSILON,
    RHO,
    SHAPES,
    SWAP,
    concentration,
    differences,
    each_relation,
    each_shape,
    exact_delta,
    pure_loss,
)
from test_laplace_accounting import cost, entrywise_cost
from test_spectral_accounting import along_the_first_axis, moments

from dpcov.mechanisms import (
    AdaptiveGaussian,
    AdaptiveLaplace,
    Gaussian,
    Laplace,
    MatrixLaplace,
    NuclearLaplace,
    SeparateGaussian,
    SeparateLaplace,
    radius,
)
from dpcov.moment import SecondMoment
from dpcov.papers import spectral
from dpcov.papers.laplace import root_above
from dpcov.papers.separate_gaussian import GaussianValues
from dpcov.privacy import ZCDP, ApproxDP, PureDP, Unit, exact, gaussian_mu

each_share = pytest.mark.parametrize("share", [0.1, 0.5])
BINS = 3


def histograms(k):
    """Counts of at most k rows in a few bins."""
    return [
        np.array(counts)
        for counts in itertools.product(range(k + 1), repeat=BINS)
        if sum(counts) <= k
    ]


def moves(lattice, neighbors):
    """Changes of the counts between neighbours."""
    units = histograms(lattice.unit.max_rows)
    if neighbors is ADD:
        return units
    return [one - other for one in units for other in units]


def counts_loss(lattice, neighbors, law):
    return max(int(np.abs(move).sum()) for move in moves(lattice, neighbors)) / law.scale


def counts_concentration(lattice, neighbors, law, rounding=0):
    largest = max(int(move @ move) for move in moves(lattice, neighbors))
    return Fraction(largest) / (2 * (law.variance - rounding))


def nuclear_loss(matrix, laws):
    trace = abs(int(matrix.trace())) / laws.trace.scale if laws.trace else 0
    return float(np.abs(np.linalg.eigvalsh(matrix.astype(float))).sum()) / laws.matrix.scale + trace


@each_share
@pytest.mark.parametrize(
    ("mechanism", "loss"),
    [(MatrixLaplace, pure_loss), (NuclearLaplace, nuclear_loss), (Laplace, cost)],
)
@each_relation
@each_shape
def test_radius_matrix_and_trace_spend_epsilon_and_no_more(
    lattice, neighbors, mechanism, loss, share
):
    laws = mechanism(radius="private", radius_share=share).calibrate(
        lattice, PureDP(EPSILON), neighbors
    )
    on_radius = counts_loss(lattice, neighbors, laws.counts)
    assert on_radius == exact(share) * exact(EPSILON)
    found = differences(lattice, neighbors)
    spent = float(on_radius) + max(float(loss(m, laws)) for m in found)
    assert spent <= EPSILON * (1 + 1e-12)
    if mechanism is not Laplace:  # whose bound the rows of `differences` do not reach
        assert spent > EPSILON * (1 - 1e-9)
    traces = max(abs(int(m.trace())) for m in found)
    assert on_radius + traces / laws.trace_alone.scale <= exact(EPSILON)


@each_share
@each_relation
@each_shape
def test_radius_matrix_and_trace_spend_exactly_rho(lattice, neighbors, share):
    laws = Gaussian(radius="private", radius_share=share).calibrate(lattice, ZCDP(RHO), neighbors)
    on_radius = counts_concentration(lattice, neighbors, laws.counts)
    assert on_radius == exact(share) * exact(RHO)
    found = differences(lattice, neighbors)
    assert on_radius + max(concentration(m, laws) for m in found) == exact(RHO)
    traces = max(int(m.trace()) ** 2 for m in found)
    assert on_radius + Fraction(traces) / (2 * laws.trace_alone.variance) <= exact(RHO)


@pytest.mark.parametrize(
    "mechanism",
    [
        SeparateLaplace(vector_share=0.3),
        SeparateLaplace(values="eigenvalues", radius="private"),
        AdaptiveLaplace(by="separate-laplace", radius_share=0.2),
    ],
    ids=str,
)
@each_relation
@each_shape
def test_radius_vectors_and_values_add_up_to_epsilon(lattice, neighbors, mechanism):
    laws = mechanism.calibrate(lattice, PureDP(EPSILON), neighbors)
    found = differences(lattice, neighbors)
    on_radius = counts_loss(lattice, neighbors, laws.counts) if laws.counts else Fraction(0)
    vectors = max(entrywise_cost(m, laws.matrix) for m in found) if laws.matrix else Fraction(0)
    values = lattice.nuclear(neighbors) / laws.value_noise.scale
    assert values <= laws.value_budget.epsilon
    assert on_radius + vectors + laws.value_budget.epsilon <= exact(EPSILON)
    shares = getattr(mechanism, "radius_share", 0.1) if laws.counts else 0
    assert on_radius == exact(shares) * exact(EPSILON)
    if laws.matrix is None:
        assert on_radius + laws.value_budget.epsilon == exact(EPSILON)


@pytest.mark.parametrize("values", ["rayleigh", "eigenvalues"])
@each_relation
@each_shape
def test_laplace_value_noise_covers_every_change_of_the_values(lattice, neighbors, values):
    laws = SeparateLaplace(values).calibrate(lattice, PureDP(EPSILON), neighbors)
    generator, losses = np.random.default_rng(4), []
    base = differences(lattice, ADD)[0] * 1000
    for change in differences(lattice, neighbors):
        if values == "rayleigh":
            own = np.linalg.eigh(change.astype(float)).eigenvectors
            frame = np.linalg.qr(generator.standard_normal((lattice.dimension,) * 2))[0]
            moved = max(np.abs(np.diag(v.T @ change.astype(float) @ v)).sum() for v in (own, frame))
        else:
            before, after = (np.linalg.eigvalsh(m.astype(float)) for m in (base, base + change))
            moved = np.abs(after - before).sum()
        losses.append(moved / float(laws.value_noise.scale))
    spent = float(laws.value_budget.epsilon)
    assert max(losses) <= spent
    assert max(losses) > 0.99 * spent


def budgets_of_gaussians():
    return [(ZCDP(RHO), exact(RHO), 0), (ApproxDP(1.0, 1e-6), approximate_rho(1.0, 1e-6), 8)]


def approximate_rho(epsilon, delta):
    return Fraction(gaussian_mu(epsilon * (1 - 1e-12), delta)) ** 2 / 2


@pytest.mark.parametrize(("budget", "rho", "rounding"), budgets_of_gaussians())
@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(radius="private"),
        AdaptiveGaussian(radius_share=0.2),
        SeparateGaussian(vector_share=0.3),
        SeparateGaussian(values="eigenvalues", radius="private"),
        AdaptiveGaussian(by="separate-gaussian"),
    ],
    ids=str,
)
@each_relation
@each_shape
def test_all_gaussian_stages_add_up_to_the_budget(
    lattice, neighbors, mechanism, budget, rho, rounding
):
    laws = mechanism.calibrate(lattice, budget, neighbors)
    spent, found = Fraction(0), differences(lattice, neighbors)
    if laws.counts is not None:
        spent += counts_concentration(lattice, neighbors, laws.counts, rounding)
    if hasattr(laws, "value_budget"):
        spent += laws.value_budget.rho
        bare = replace(Gaussian().calibrate(lattice, budget, neighbors), trace=None)
        if laws.matrix is not None:
            bare = replace(bare, matrix=laws.matrix)
            spent += max(concentration(m, bare, rounding) for m in found)
        values = Fraction(lattice.frobenius_squared(neighbors)) / (
            2 * (laws.value_noise.variance - rounding)
        )
        assert values <= laws.value_budget.rho
        assert values > laws.value_budget.rho * (1 - Fraction(1, 10**4))
    else:
        spent += max(concentration(m, laws, rounding) for m in found)
    assert spent == rho
    if rounding:
        assert exact_delta(2 * spent, budget.epsilon) <= budget.delta


@pytest.mark.parametrize("values", ["rayleigh", "eigenvalues"])
@each_relation
@each_shape
def test_gaussian_value_noise_covers_every_change_of_the_values(lattice, neighbors, values):
    """Vectors that lie along the change reach the bound; half the noise would not do."""
    laws = SeparateGaussian(values).calibrate(lattice, ZCDP(RHO), neighbors)
    d, rng, costs = lattice.dimension, np.random.default_rng(6), []
    for change in differences(lattice, neighbors):
        if values == "rayleigh":
            own = np.linalg.eigh(change.astype(float)).eigenvectors.T
            for vectors in (own, np.linalg.qr(rng.normal(size=(d, d)))[0].T):
                law = laws.value_budget.rayleigh_noise(lattice, neighbors, vectors)
                forms = np.einsum("ki,ij,kj->k", vectors, change.astype(float), vectors)
                costs.append(forms @ forms / (2 * float(law.variance)))
        else:
            for common in moments(lattice):
                one, other = (
                    spectral.rounded(np.linalg.eigvalsh((common + part).astype(float)))
                    for part in (change, 0 * change)
                )
                moved = sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
                costs.append(moved / (2 * float(laws.value_noise.variance)))
    spent = float(laws.value_budget.rho)
    assert max(costs) <= spent
    assert max(costs) > 0.99 * spent
    assert not max(costs) <= spent / 2


@pytest.mark.parametrize("extra", [0, 8])
@each_relation
@each_shape
def test_gaussian_value_noise_is_that_of_the_stated_change_to_the_last_bit(
    lattice, neighbors, extra
):
    """As in the docstring: V D V' in Frobenius norm, and sqrt(d) for what each value is rounded."""
    d, values = lattice.dimension, GaussianValues(Fraction(3, 10), extra)
    sides = lattice.frobenius_squared(neighbors) / lattice.unit_bound**2
    frobenius = lattice.unit_bound * {1: 1, 2: root_above(2)}[sides]
    vectors = 1.5 * np.eye(d)
    float_error = 2 * spectral.EIGENVALUE_ERROR * lattice.bound
    stated = {
        values.rayleigh_noise(lattice, neighbors, vectors): (
            spectral.squared_norm(vectors) * frobenius + root_above(d)
        ),
        values.eigenvalue_noise(lattice, neighbors): frobenius + (1 + float_error) * root_above(d),
    }
    for law, change in stated.items():
        assert law.variance == change**2 / (2 * Fraction(3, 10)) + extra


@each_relation
@each_shape
def test_floors_of_forms_move_by_no_more_than_the_noise_covers(lattice, neighbors):
    """The bound covers rounding: integers, as released, for tiny and for full changes."""
    names = ("",) * lattice.dimension
    vectors = along_the_first_axis(lattice)
    law = (
        SeparateGaussian()
        .calibrate(lattice, ZCDP(RHO), neighbors)
        .value_budget.rayleigh_noise(lattice, neighbors, vectors)
    )
    budget = SeparateGaussian().calibrate(lattice, ZCDP(RHO), neighbors).value_budget.rho
    for common in moments(lattice):
        for change in differences(lattice, neighbors)[:20]:
            one, other = (
                np.array(SecondMoment(m, lattice, names, 1).quadratic_forms(vectors), dtype=object)
                for m in (common, common + change)
            )
            moved = one - other
            assert Fraction(int(moved @ moved)) / (2 * law.variance) <= budget


def test_vectors_that_are_not_orthonormal_are_charged_for_in_l2():
    lattice = SHAPES["d=2"]
    twice = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert spectral.squared_norm(twice) >= 2
    laws = SeparateGaussian().calibrate(lattice, ZCDP(RHO), ADD)
    law = laws.value_budget.rayleigh_noise(lattice, ADD, twice)
    assert law.variance >= 2 * lattice.bound**2 / (2 * laws.value_budget.rho)


@pytest.mark.parametrize("d", [2, 50, 700, 4096])
def test_cutting_vectors_to_the_grid_stays_within_their_squared_norm(d):
    vectors = np.zeros((2, d))
    vectors[0, 0] = 1.0
    vectors[1, 1:] = (1 - 2.0**-41) / np.sqrt(max(1, d - 1))
    cut = np.trunc(np.ldexp(vectors, 40)) / 2.0**40
    norm = np.linalg.svd(cut, compute_uv=False)[0] ** 2
    assert norm <= float(spectral.squared_norm(vectors))
    worst = vectors + 2.0**-40  # each entry off by a whole step
    assert np.linalg.svd(worst, compute_uv=False)[0] ** 2 <= float(spectral.squared_norm(vectors))


# Negative controls: each broken law must fail the check that the right one passes.


def of_add_remove(lattice):
    return radius.laplace_counts(lattice, ADD, exact(EPSILON)), SWAP


def of_rows(lattice):
    return radius.laplace_counts(replace(lattice, unit=Unit()), ADD, exact(EPSILON)), ADD


def gaussian_of_add_remove(lattice):
    return radius.gaussian_counts(lattice, ADD, exact(RHO), 0), SWAP


def gaussian_of_rows(lattice):
    return radius.gaussian_counts(replace(lattice, unit=Unit()), SWAP, exact(RHO), 0), SWAP


def gaussian_of_the_root_of_k(lattice):
    """The l2 norm of k rows in k bins: wrong, as they may share one."""
    law = radius.gaussian_counts(lattice, ADD, exact(RHO), 0)
    return replace(law, variance=law.variance / lattice.unit.max_rows), ADD


@pytest.mark.parametrize(("broken", "factor"), [(of_add_remove, 2), (of_rows, 4)])
def test_the_check_of_counts_rejects_a_laplace_law(broken, factor):
    lattice = SHAPES["persons"]
    law, neighbors = broken(lattice)
    assert counts_loss(lattice, neighbors, law) == factor * exact(EPSILON)


@pytest.mark.parametrize(
    ("broken", "factor"),
    [(gaussian_of_add_remove, 2), (gaussian_of_rows, 16), (gaussian_of_the_root_of_k, 4)],
)
def test_the_check_of_counts_rejects_a_gaussian_law(broken, factor):
    lattice = SHAPES["persons"]
    law, neighbors = broken(lattice)
    assert counts_concentration(lattice, neighbors, law) == factor * exact(RHO)


def test_a_radius_that_is_not_paid_for_breaks_the_budget():
    lattice = SHAPES["persons"]
    whole = Gaussian().calibrate(lattice, ZCDP(RHO), SWAP)
    free = radius.gaussian_counts(lattice, SWAP, exact(RHO) / 10, 0)
    spent = max(concentration(m, whole) for m in differences(lattice, SWAP))
    assert spent + counts_concentration(lattice, SWAP, free) == exact(RHO) * Fraction(11, 10)


def test_counts_without_the_rounding_variance_exceed_delta():
    """Noise of variance 8 less, as for zCDP, is too little for (epsilon, delta)."""
    lattice = SHAPES["persons"]
    laws = Gaussian(radius="private").calibrate(lattice, ApproxDP(1.0, 1e-6), SWAP)
    bare = replace(laws.counts, variance=laws.counts.variance - 8)
    spent = max(concentration(m, laws, 8) for m in differences(lattice, SWAP))
    assert exact_delta(2 * (spent + counts_concentration(lattice, SWAP, laws.counts, 8)), 1.0) <= (
        1e-6
    )
    assert exact_delta(2 * (spent + counts_concentration(lattice, SWAP, bare, 8)), 1.0) > 1e-6


def test_value_noise_of_add_remove_breaks_replace_one():
    lattice = SHAPES["persons"]
    laws = SeparateGaussian().calibrate(lattice, ZCDP(RHO), ADD)
    squares = max(int((m * m).sum()) for m in differences(lattice, SWAP))
    cost_of_values = squares / (2 * float(laws.value_noise.variance))
    assert cost_of_values == pytest.approx(2 * float(laws.value_budget.rho), rel=1e-3)
