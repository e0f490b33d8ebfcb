"""What a private radius costs: never more than stated, and controls."""

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

from dpcov.core.privacy import ZCDP, ApproxDP, PureDP, Unit, exact, gaussian_mu
from dpcov.mechanisms import (
    AdaptiveGaussian,
    Gaussian,
    MatrixLaplace,
    NuclearLaplace,
    SeparateGaussian,
    radius,
)

each_share = pytest.mark.parametrize("share", [0.1, 0.5])
BINS = 3


def histograms(k):
    """Return counts of at most k rows in a few bins."""
    return [
        np.array(counts)
        for counts in itertools.product(range(k + 1), repeat=BINS)
        if sum(counts) <= k
    ]


def moves(lattice, neighbors):
    """Return changes of the counts between neighbours."""
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
    ("mechanism", "loss"), [(MatrixLaplace, pure_loss), (NuclearLaplace, nuclear_loss)]
)
@each_relation
@each_shape
def test_radius_matrix_and_trace_spend_epsilon_and_no_more(
    lattice, neighbors, mechanism, loss, share
):
    assert spent_with_a_radius(mechanism, loss, lattice, neighbors, share) > EPSILON * (1 - 1e-9)


def spent_with_a_radius(mechanism, loss, lattice, neighbors, share):
    """Return the cost of the radius and of the dearest change: at most the budget."""
    laws = mechanism(radius="private", radius_share=share).calibrate(
        lattice, PureDP(EPSILON), neighbors
    )
    on_radius = counts_loss(lattice, neighbors, laws.counts)
    assert on_radius == exact(share) * exact(EPSILON)
    found = differences(lattice, neighbors)
    spent = float(on_radius) + max(float(loss(m, laws)) for m in found)
    assert spent <= EPSILON * (1 + 1e-12)
    traces = max(abs(int(m.trace())) for m in found)
    assert on_radius + traces / laws.trace_alone.scale <= exact(EPSILON)
    return spent


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
    """Return wrong noise, for the l2 norm of k rows in k bins: they can share a bin."""
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
