"""What neighbours cost under Laplace noise, entry by entry: never more than stated."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_accounting import ADD, EPSILON, SWAP, differences, each_relation, each_shape, keeps, outer

from dpcov.core.privacy import PureDP, Unit, exact
from dpcov.mechanisms import Laplace
from dpcov.papers.laplace import matrix_noise, root_above
from dpcov.papers.samplers.entrywise import EntrywiseLaplace
from dpcov.rows.moment import Lattice

Q = 2**20
LARGEST_GAPS = {2: 2.236068, 3: 2.872281, 4: 3.605551, 5: 4.272002}


def entrywise_cost(matrix, law):
    """Return the exact cost of a shift: sum |D_ii| / p + sum_(i<j) |D_ij| / q."""
    diagonal = sum(abs(int(x)) for x in matrix.diagonal())
    off = (sum(abs(int(x)) for x in matrix.ravel()) - diagonal) // 2
    return Fraction(diagonal) / law.diagonal + Fraction(off) / law.off_diagonal


def cost(matrix, laws):
    trace = abs(int(matrix.trace())) / laws.trace.scale if laws.trace else 0
    return entrywise_cost(matrix, laws.matrix) + trace


def signed(d):
    """Return (2^(d(d+1)/2 - 1), d, d) symmetric sign patterns, one of each pair T, -T."""
    pairs = [(i, i) for i in range(d)] + list(itertools.combinations(range(d), 2))
    signs = np.array(list(itertools.product([1, -1], repeat=len(pairs) - 1)))
    patterns = np.ones((len(signs), d, d))
    for (i, j), column in zip(pairs[1:], signs.T, strict=True):
        patterns[:, i, j] = patterns[:, j, i] = column
    return patterns


def largest_gap(d, ratio=1.0):
    """Return the largest l1 norm of D's weighted triangle over D = vv' - uu'."""
    weights = np.full((d, d), ratio / 2)
    np.fill_diagonal(weights, 1.0)
    values = np.linalg.eigvalsh(signed(d) * weights)
    return (np.maximum(values[:, -1], 0) + np.maximum(-values[:, 0], 0)).max()


def worst_swap(lattice, law):
    """Return the costliest difference of two rows on the lattice, from the brute-force pattern."""
    d = lattice.dimension
    ratio = float(law.diagonal / law.off_diagonal)
    weights = np.full((d, d), ratio / 2)
    np.fill_diagonal(weights, 1.0)
    patterns = signed(d) * weights
    values, vectors = np.linalg.eigh(patterns)
    best = np.argmax(values[:, -1] - values[:, 0])
    rows = [np.trunc(vectors[best][:, k] * (Q * (1 - 1e-12))).astype(int) for k in (-1, 0)]
    return outer(rows[0], 0) - outer(rows[1], 0)


@pytest.mark.parametrize("d", LARGEST_GAPS)
def test_unweighted_sensitivities_are_those_of_the_specification(d):
    assert largest_gap(d) == pytest.approx(LARGEST_GAPS[d], abs=1e-6)
    assert largest_gap(d) <= math.sqrt(d * (d + 3) / 2) * (1 + 1e-12)


@pytest.mark.parametrize("d", LARGEST_GAPS)
def test_replace_one_scales_cover_every_sign_pattern_and_are_nearly_tight(d):
    law = matrix_noise(Lattice(d, 1.0), SWAP, exact(EPSILON))
    unit = float(law.diagonal) / Q**2
    spent = largest_gap(d, float(law.diagonal / law.off_diagonal)) / unit
    assert 0.97 * EPSILON < spent <= EPSILON * (1 + 1e-12)
    found = entrywise_cost(worst_swap(Lattice(d, 1.0), law), law)
    assert float(found) == pytest.approx(spent, rel=1e-5)


@pytest.mark.parametrize("paper_constants", [False, True])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5])
@each_relation
@each_shape
def test_laplace_never_exceeds_epsilon(lattice, neighbors, share, paper_constants):
    laws = Laplace(share, paper_constants).calibrate(lattice, PureDP(EPSILON), neighbors)
    assert max(cost(m, laws) for m in differences(lattice, neighbors)) <= exact(EPSILON)
    traces = max(abs(int(m.trace())) for m in differences(lattice, neighbors))
    assert traces / laws.trace_alone.scale <= exact(EPSILON)
    assert (laws.trace is not None) == (share > 0 and lattice.dimension > 1)


@pytest.mark.parametrize("share", [0.0, 0.25])
@pytest.mark.parametrize("k", [1, 3])
def test_laplace_spends_exactly_epsilon_on_a_row_with_equal_entries(k, share):
    lattice = Lattice(4, 1.0, 0.0, Unit("id", k))
    unit = k * outer(np.full(4, Q // 2), 0)
    laws = Laplace(share).calibrate(lattice, PureDP(EPSILON), ADD)
    assert cost(unit, laws) == exact(EPSILON)
    with_intercept = Lattice(3, 1.0, 3**-0.5)  # t makes up the fourth equal entry
    row = outer(np.full(3, int(Q / 3**0.5)), with_intercept.intercept_units)
    laws = Laplace(share).calibrate(with_intercept, PureDP(EPSILON), ADD)
    assert EPSILON * (1 - 1e-5) < cost(row, laws) <= exact(EPSILON)


@pytest.mark.parametrize("d", [2, 4, 9, 100])
def test_add_remove_noise_is_within_a_millionth_of_the_least_for_its_bound(d):
    law = matrix_noise(Lattice(d, 1.0), ADD, Fraction(1))

    def noise(ratio):
        diagonal = 1 + ratio * (d - 1) / 2
        return d * diagonal**2 + d * (d - 1) * (diagonal / ratio) ** 2

    assert law.frobenius_squared / (2 * Q**4) == pytest.approx(noise(1.26), rel=1e-12)
    assert noise(1.26) < (1 + 1e-6) * min(noise(r) for r in np.linspace(1.2, 1.32, 1201))


@pytest.mark.parametrize("d", [1, 2, 3, 10, 108, 2000])
def test_paper_constants_suffice_under_both_relations(d):
    """The proof of `Laplace` says so: the certified sensitivity over 2d is below 1."""
    replace_one = 1 if d == 1 else math.sqrt(d * (d + 3) / 2)
    assert max(replace_one, (d + 1) / 2) <= 2 * d
    law = Laplace(0.0, paper_constants=True).calibrate(Lattice(d, 1.0), PureDP(1.0), SWAP).matrix
    assert law.diagonal == law.off_diagonal == 2 * d * Q**2


@pytest.mark.parametrize("integer", [1, 2, 3, 12, 10**12, 2**200 + 1])
def test_roots_are_rounded_up_by_next_to_nothing(integer):
    root = root_above(integer)
    assert root**2 > integer
    assert (root - Fraction(1, 2**64)) ** 2 <= integer


# Negative controls: each broken law must fail the check that the right one passes.


def without_the_weight_off_the_diagonal(lattice, law):
    return replace(law, off_diagonal=law.diagonal / 2)


def of_half_the_scale(lattice, law):
    return EntrywiseLaplace(law.dimension, law.diagonal / 2, law.off_diagonal / 2)


def five_per_cent_low(lattice, law):
    return EntrywiseLaplace(law.dimension, law.diagonal * 95 / 100, law.off_diagonal * 95 / 100)


def of_add_remove(lattice, law):
    return matrix_noise(lattice, ADD, exact(EPSILON))


@pytest.mark.parametrize(
    ("broken", "least"),
    [
        (without_the_weight_off_the_diagonal, 1.1),
        (of_half_the_scale, 1.9),
        (five_per_cent_low, 1.02),
        (of_add_remove, 1.3),
    ],
)
@pytest.mark.parametrize("d", LARGEST_GAPS)
def test_replace_one_check_rejects_a_law(broken, least, d):
    lattice = Lattice(d, 1.0)
    law = broken(lattice, matrix_noise(lattice, SWAP, exact(EPSILON)))
    found = float(entrywise_cost(worst_swap(lattice, law), law))
    assert not keeps(found, EPSILON)
    assert found > least * EPSILON


@pytest.mark.parametrize(
    ("broken", "factor"), [(without_the_weight_off_the_diagonal, 1.2), (five_per_cent_low, 1.05)]
)
def test_add_remove_check_rejects_a_law(broken, factor):
    lattice = Lattice(4, 1.0)
    law = broken(lattice, matrix_noise(lattice, ADD, exact(EPSILON)))
    found = entrywise_cost(outer(np.full(4, Q // 2), 0), law)
    assert found > exact(factor) * exact(EPSILON)


def test_persons_taken_for_rows_are_rejected():
    persons = Lattice(4, 1.0, 0.0, Unit("id", 3))
    law = matrix_noise(replace(persons, unit=Unit()), ADD, exact(EPSILON))
    assert entrywise_cost(3 * outer(np.full(4, Q // 2), 0), law) == 3 * exact(EPSILON)


def test_a_free_trace_would_break_the_guarantee():
    """The trace needs budget even under replace-one: d = 2 shows it."""
    lattice = Lattice(2, 1.0)
    laws = Laplace(0.0).calibrate(lattice, PureDP(EPSILON), SWAP)
    free = 2 * lattice.unit_bound / exact(EPSILON)
    generator = np.random.default_rng(0)
    angles = generator.uniform(0, 2 * np.pi, (20_000, 2))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    vectors[:, 1] *= generator.uniform(0, 1, (20_000, 1))
    changes = np.einsum("nki,nkj->nkij", vectors, vectors)
    change = changes[:, 0] - changes[:, 1]
    unit = float(lattice.unit_bound)
    costs = np.abs(change[:, [0, 1], [0, 1]]).sum(axis=1) * unit / float(laws.matrix.diagonal)
    costs += np.abs(change[:, 0, 1]) * unit / float(laws.matrix.off_diagonal)
    assert costs.max() <= EPSILON
    costs += np.abs(np.trace(change, axis1=1, axis2=2)) * unit / float(free)
    assert costs.max() > EPSILON
