"""What values released apart cost, with a radius: never more than stated, and controls."""

from fractions import Fraction

import numpy as np
import pytest
from test_accounting import ADD, EPSILON, RHO, SHAPES, SWAP, differences, each_relation, each_shape
from test_laplace_accounting import cost, entrywise_cost
from test_radius_accounting import counts_loss, each_share, spent_with_a_radius
from test_spectral_accounting import along_the_first_axis, moments

from dpcov.core.privacy import ZCDP, PureDP, exact
from dpcov.mechanisms import AdaptiveLaplace, Laplace, SeparateGaussian, SeparateLaplace
from dpcov.papers import spectral
from dpcov.papers.laplace import root_above
from dpcov.papers.quadratic_forms import quadratic_forms
from dpcov.papers.separate_gaussian import GaussianValues
from dpcov.rows.moment import SecondMoment


@each_share
@each_relation
@each_shape
def test_radius_entries_and_trace_spend_epsilon_and_no_more(lattice, neighbors, share):
    assert spent_with_a_radius(Laplace, cost, lattice, neighbors, share) <= EPSILON * (1 + 1e-12)


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
    """The change is V D V' in Frobenius norm, plus sqrt(d) for the rounding of the values."""
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
                np.array(quadratic_forms(SecondMoment(m, lattice, 1), vectors), dtype=object)
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


def test_value_noise_of_add_remove_breaks_replace_one():
    lattice = SHAPES["persons"]
    laws = SeparateGaussian().calibrate(lattice, ZCDP(RHO), ADD)
    squares = max(int((m * m).sum()) for m in differences(lattice, SWAP))
    cost_of_values = squares / (2 * float(laws.value_noise.variance))
    assert cost_of_values == pytest.approx(2 * float(laws.value_budget.rho), rel=1e-3)
