"""Separate mechanisms: vectors of the noisy matrix, values of their own, public limits."""

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.errors import MechanismError
from dpcov.mechanisms import Gaussian, Laplace, SeparateGaussian, SeparateLaplace
from dpcov.mechanisms.radius import Norms
from dpcov.papers.separate import errors, separated
from dpcov.rows.moment import UNITS
from dpcov.rows.schema import Schema
from dpcov.sources import open_rows
from tables_for_tests import correlated

SCHEMA = Schema.from_bounds(-1, 1, tuple("abcdef"), intercept=0.0)
BOTH = pytest.mark.parametrize("values", ["rayleigh", "eigenvalues"])
each_relation = pytest.mark.parametrize("neighbors", Neighbors)
each_kind = pytest.mark.parametrize("kind", [SeparateLaplace, SeparateGaussian])


def rows_of(n, columns=6):
    schema = SCHEMA if columns == 6 else Schema.from_bounds(-1, 1, ("a",), intercept=0.0)
    return open_rows(correlated(n, columns), schema)


def budget_of(kind, epsilon):
    return PureDP(epsilon) if kind is SeparateLaplace else ZCDP(epsilon**2 / 2)


def released(kind, rows, epsilon, neighbors=Neighbors.ADD_REMOVE, seed=1, **fields):
    return kind(**fields)(
        rows,
        budget=budget_of(kind, epsilon),
        neighbors=neighbors,
        entropy=Entropy.seeded(seed),
    )


def moment_of(rows):
    return rows.second_moments()[0]


@BOTH
@each_kind
@each_relation
def test_with_a_large_budget_the_release_is_the_moment(kind, values, neighbors):
    rows = rows_of(500)
    found = released(kind, rows, 1e7, neighbors, values=values).noisy()
    truth = moment_of(rows).units.astype(float) * rows.lattice().step ** 2
    np.testing.assert_allclose(found, truth, atol=1e-3)


@each_kind
@each_relation
def test_the_stated_noise_of_values_is_that_of_their_kind(kind, neighbors):
    lattice = rows_of(1).lattice()
    for values in ("rayleigh", "eigenvalues"):
        laws = kind(values).calibrate(lattice, budget_of(kind, 1.0), neighbors)
        budget = laws.value_budget
        rayleigh = budget.rayleigh_noise(lattice, neighbors, np.eye(lattice.dimension))
        eigenvalue = budget.eigenvalue_noise(lattice, neighbors)
        assert rayleigh != eigenvalue
        assert laws.value_noise == (rayleigh if values == "rayleigh" else eigenvalue)


@BOTH
@each_kind
def test_vectors_are_those_of_the_noisy_matrix_and_values_those_of_the_exact_one(kind, values):
    rows = rows_of(500)
    mechanism = kind(values)
    budget, large = (budget_of(kind, epsilon) for epsilon in (1.0, 1e8))
    laws = mechanism.calibrate(rows.lattice(), budget, Neighbors.ADD_REMOVE)
    # The same vectors, with values that have next to no noise.
    quiet = kind(values, 1e-6).calibrate(rows.lattice(), large, Neighbors.ADD_REMOVE)
    noise = laws.matrix.sample(Entropy.seeded(4))
    moment = moment_of(rows)
    made = separated(mechanism, rows, quiet, noise, moment, Entropy.seeded(5))
    exact = moment.units.astype(float)
    vectors = np.linalg.eigh(exact + noise).eigenvectors
    if values == "rayleigh":
        expected = np.diag(vectors.T @ exact @ vectors)
    else:
        expected = np.linalg.eigvalsh(exact)
    found = vectors.T @ (made.noisy() / rows.lattice().step ** 2) @ vectors
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-6 * exact.trace())
    other = np.linalg.eigvalsh(exact + noise)
    assert np.abs(other - expected).max() > 1e-2 * exact.trace()


@BOTH
@each_kind
@pytest.mark.parametrize("n", [0, 1, 30])
def test_values_stay_between_0_and_the_largest_trace_where_it_is_public(kind, values, n):
    rows = rows_of(n)
    for neighbors, largest in ((Neighbors.REPLACE_ONE, n), (Neighbors.ADD_REMOVE, np.inf)):
        made = [released(kind, rows, 0.1, neighbors, seed, values=values) for seed in range(8)]
        unit = rows.lattice().bound * rows.lattice().step ** 2
        found = np.array([np.linalg.eigvalsh(m.noisy()) for m in made]) / unit
        assert found.min() > -0.05
        assert found.max() <= largest + 0.05
        if neighbors is Neighbors.ADD_REMOVE:
            assert found.max() > n + 1


@each_kind
@each_relation
def test_one_column_needs_no_budget_for_its_only_direction(kind, neighbors):
    rows = rows_of(300, columns=1)
    laws = kind().calibrate(rows.lattice(), budget_of(kind, 1.0), neighbors)
    assert laws.matrix is None
    assert laws.value_noise.standard_deviation / rows.lattice().bound == pytest.approx(
        2**0.5 if kind is SeparateLaplace else 1.0, rel=1e-5
    )
    truth = float(moment_of(rows).trace()) * rows.lattice().step ** 2
    assert abs(released(kind, rows, 1.0, neighbors).noisy()[0, 0] - truth) < 20


def test_vectors_have_the_noise_of_the_additive_mechanism_at_their_share():
    lattice = rows_of(1).lattice()
    for neighbors in Neighbors:
        laws = SeparateLaplace(vector_share=0.25).calibrate(lattice, PureDP(2.0), neighbors)
        alone = Laplace(trace_share=0.0).calibrate(lattice, PureDP(0.5), neighbors)
        assert laws.matrix == alone.matrix
        assert float(laws.value_budget.epsilon) == 1.5
        laws = SeparateGaussian(vector_share=0.25).calibrate(lattice, ZCDP(2.0), neighbors)
        alone = Gaussian(trace_share=0.0).calibrate(lattice, ZCDP(0.5), neighbors)
        assert laws.matrix == alone.matrix
        assert (float(laws.value_budget.rho), laws.value_budget.extra) == (1.5, 0)
        laws = SeparateGaussian().calibrate(lattice, ApproxDP(1.0, 1e-6), neighbors)
        assert laws.value_budget.extra == 8


@each_kind
@pytest.mark.parametrize(
    "fields", [{"values": "trace"}, {"vector_share": 0.0}, {"vector_share": 1.0}]
)
def test_fields_without_a_meaning_are_refused(kind, fields):
    with pytest.raises(MechanismError, match=next(iter(fields))):
        kind(**fields)


@each_kind
@pytest.mark.parametrize("share", [1e-28, 1 - 1e-16])
def test_a_share_too_small_for_the_noise_is_refused_before_anything_is_read(kind, share):
    with pytest.raises(MechanismError, match="budget"):
        kind(vector_share=share).calibrate(
            rows_of(1).lattice(), budget_of(kind, 1e-3), Neighbors.ADD_REMOVE
        )


@each_kind
def test_errors_are_bounded_by_those_of_turned_vectors_and_of_values(kind):
    lattice = rows_of(1).lattice().relative()
    laws = kind().calibrate(lattice, budget_of(kind, 1.0), Neighbors.ADD_REMOVE)
    shares = np.array([0.25, 0.5, 1.0])
    steps = (shares / UNITS) ** 2
    values = steps * 6**0.5 * laws.value_noise.standard_deviation
    for count in (1, 10**7):
        bounds = errors(Norms(np.array([count, 0.0, 0.0]), shares, lattice), laws)
        traces = count * np.minimum(shares, 0.25) ** 2
        projected = 2 * np.sqrt(traces * steps * laws.matrix.edge)
        whole = 2 * steps * np.sqrt(laws.matrix.frobenius_squared)
        assert (projected < whole).all() if count == 1 else (whole < projected).all()
        np.testing.assert_allclose(bounds, np.minimum(projected, whole) + values)
