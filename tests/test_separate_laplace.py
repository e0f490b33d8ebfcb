"""Separate Laplace: vectors of the noisy matrix, values of their own, public limits."""

import numpy as np
import pytest

from dpcov.entropy import Entropy
from dpcov.errors import MechanismError
from dpcov.mechanisms import Laplace, SeparateLaplace
from dpcov.mechanisms.separate_laplace import separated
from dpcov.privacy import Neighbors, PureDP
from dpcov.schema import Schema
from dpcov.sources import open_rows
from tables_for_tests import correlated

SCHEMA = Schema.from_bounds(-1, 1, tuple("abcdef"), intercept=0.0)
BOTH = pytest.mark.parametrize("values", ["rayleigh", "eigenvalues"])
each_relation = pytest.mark.parametrize("neighbors", Neighbors)


def rows_of(n, columns=6):
    schema = SCHEMA if columns == 6 else Schema.from_bounds(-1, 1, ("a",), intercept=0.0)
    return open_rows(correlated(n, columns), schema)


def released(rows, epsilon, neighbors=Neighbors.ADD_REMOVE, seed=1, **fields):
    return SeparateLaplace(**fields)(
        rows, budget=PureDP(epsilon), neighbors=neighbors, entropy=Entropy.seeded(seed)
    )


def moment_of(rows):
    return rows.second_moments()[0]


@BOTH
@each_relation
def test_with_a_large_budget_the_release_is_the_moment(values, neighbors):
    rows = rows_of(500)
    found = released(rows, 1e7, neighbors, values=values).noisy()
    truth = moment_of(rows).units.astype(float) * rows.lattice().step ** 2
    np.testing.assert_allclose(found, truth, atol=1e-3)


@BOTH
def test_vectors_are_those_of_the_noisy_matrix_and_values_those_of_the_exact_one(values):
    rows = rows_of(500)
    mechanism = SeparateLaplace(values)
    laws = mechanism.calibrate(rows.lattice(), PureDP(1.0), Neighbors.ADD_REMOVE)
    # The same vectors, with values that have next to no noise.
    quiet = SeparateLaplace(values, 1e-6).calibrate(
        rows.lattice(), PureDP(1e8), Neighbors.ADD_REMOVE
    )
    noise = laws.matrix.sample(Entropy.seeded(4))
    moment = moment_of(rows)
    made = separated(mechanism, rows, quiet, noise, moment, values, Entropy.seeded(5))
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
@pytest.mark.parametrize("n", [0, 1, 30])
def test_values_stay_between_0_and_the_largest_trace_where_it_is_public(values, n):
    rows = rows_of(n)
    for neighbors, largest in ((Neighbors.REPLACE_ONE, n), (Neighbors.ADD_REMOVE, np.inf)):
        made = [released(rows, 0.1, neighbors, seed, values=values) for seed in range(8)]
        unit = rows.lattice().bound * rows.lattice().step ** 2
        found = np.array([np.linalg.eigvalsh(m.noisy()) for m in made]) / unit
        assert found.min() > -0.05
        assert found.max() <= largest + 0.05
        if neighbors is Neighbors.ADD_REMOVE:
            assert found.max() > n + 1


@each_relation
def test_one_column_needs_no_budget_for_its_only_direction(neighbors):
    rows = rows_of(300, columns=1)
    laws = SeparateLaplace().calibrate(rows.lattice(), PureDP(1.0), neighbors)
    assert laws.matrix is None
    assert float(laws.value_noise.scale) / rows.lattice().bound == pytest.approx(1.0, rel=1e-5)
    truth = float(moment_of(rows).trace()) * rows.lattice().step ** 2
    assert abs(released(rows, 1.0, neighbors).noisy()[0, 0] - truth) < 20


def test_vectors_have_the_noise_of_laplace_at_their_share():
    lattice = rows_of(1).lattice()
    for neighbors in Neighbors:
        laws = SeparateLaplace(vector_share=0.25).calibrate(lattice, PureDP(2.0), neighbors)
        alone = Laplace(trace_share=0.0).calibrate(lattice, PureDP(0.5), neighbors)
        assert laws.matrix == alone.matrix
        assert float(laws.value_epsilon) == 1.5


@pytest.mark.parametrize(
    "fields", [{"values": "trace"}, {"vector_share": 0.0}, {"vector_share": 1.0}]
)
def test_fields_without_a_meaning_are_refused(fields):
    with pytest.raises(MechanismError, match=next(iter(fields))):
        SeparateLaplace(**fields)


@pytest.mark.parametrize("share", [1e-14, 1 - 1e-14])
def test_a_share_too_small_for_64_bits_is_refused_before_anything_is_read(share):
    with pytest.raises(MechanismError, match="budget"):
        SeparateLaplace(vector_share=share).calibrate(
            rows_of(1).lattice(), PureDP(1e-3), Neighbors.ADD_REMOVE
        )
