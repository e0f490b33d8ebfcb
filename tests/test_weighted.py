"""The law of a weighted sum of noise matrices."""

from fractions import Fraction

import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.samplers import matrix_law
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.papers.samplers.nuclear import NuclearLaplace

D = 4
SUMS = [
    WeightedSum((1.0, 0.25), (WishartDifference(D, 1e9), WishartDifference(D, 8e8))),
    WeightedSum((1.0, -0.5), (NuclearLaplace(D, 1e9), NuclearLaplace(D, 2e9))),
    WeightedSum(
        (0.5, 2.0),
        (GaussianOrthogonal(D, Fraction(10**14)), GaussianOrthogonal(D, Fraction(10**13))),
    ),
]


@pytest.mark.parametrize("law", SUMS, ids=lambda law: law.terms[0].law)
def test_variances_are_those_of_simulated_and_of_drawn_sums(law):
    generator, entropy = np.random.default_rng(1), Entropy.seeded(1)
    for draws in (
        np.array([law.simulate(generator) for _ in range(3000)]),
        law.samples(600, entropy).astype(float),
    ):
        found = np.mean(np.sum(draws**2, axis=(1, 2))) / law.frobenius_squared
        assert abs(found - 1) < 0.12
        diagonal = np.var(draws[:, range(D), range(D)]) / law.diagonal_variance
        assert abs(diagonal - 1) < 0.15


@pytest.mark.parametrize("law", SUMS, ids=lambda law: law.terms[0].law)
def test_a_law_is_read_as_it_was_written(law):
    assert matrix_law(law.to_json()) == law


@pytest.mark.parametrize("law", SUMS, ids=lambda law: law.terms[0].law)
def test_a_scaled_law_has_scaled_noise(law):
    tripled = law.rescaled(3.0)
    for name in ("spread", "edge", "detectable"):
        assert np.isclose(getattr(tripled, name), 3 * getattr(law, name))
    assert np.isclose(tripled.frobenius_squared, 9 * law.frobenius_squared)


LARGE = 400


@pytest.mark.parametrize("weights", [(1.0, 0.25, 0.06), (1.0, 1.0, 1.0), (0.3, -1.0, 0.5)])
@pytest.mark.parametrize("term", [WishartDifference, GaussianOrthogonal])
def test_the_edge_is_where_spectra_of_sums_end(term, weights):
    law = WeightedSum(weights, (term(LARGE, 10**6),) * 3)
    values = np.linalg.eigvalsh(law.simulate(np.random.default_rng(1)))
    assert 0.94 < values[-1] / law.edge < 1.01


@pytest.mark.parametrize("term", [WishartDifference, NuclearLaplace, GaussianOrthogonal])
def test_eigenvalues_show_beyond_the_edge_from_the_threshold_on(term):
    """One eigenvalue l moves to l + R(1/l), which has its least value at the threshold."""
    law = WeightedSum((1.0, 0.5, 0.5), (term(LARGE, 10**6),) * 3)

    def seen(eigenvalue):
        return eigenvalue + law.r_transform(np.array([1 / eigenvalue], complex))[0].real

    assert np.isclose(seen(law.detectable), law.edge)
    for factor in (0.95, 1.05):
        assert seen(factor * law.detectable) > law.edge


@pytest.mark.parametrize("term", [WishartDifference, NuclearLaplace, GaussianOrthogonal])
def test_a_single_term_has_its_own_edge(term):
    alone = term(30, 10**6)
    law = WeightedSum((2.0, 0.0), (alone, alone))
    assert np.isclose(law.edge, 2 * alone.edge, rtol=1e-4)
    assert np.isclose(law.detectable, 2 * alone.detectable, rtol=1e-3)


def test_noise_of_one_term_that_is_too_large_is_refused():
    from dpcov.errors import MechanismError

    fits, does_not = WishartDifference(D, 1e9), WishartDifference(D, 1e27)
    WeightedSum((1.0, 0.0), (fits, fits)).require_drawable()
    with pytest.raises(MechanismError):
        WeightedSum((1.0, 0.0), (fits, does_not)).require_drawable()


def test_the_spread_is_the_root_of_the_sum_of_squares():
    law = WeightedSum((3.0, -4.0), (WishartDifference(D, 3.0), WishartDifference(D, 3.0)))
    assert law.spread == 15.0
    assert law.rotation_invariant


def test_drawn_sums_are_rounded_down_from_exact_ones():
    law = WeightedSum((0.5, 0.25), (WishartDifference(D, 1e9), WishartDifference(D, 1e9)))
    again = Entropy.seeded(3)
    first, second = (term.sample(again).astype(object) for term in law.terms)
    assert np.array_equal(law.sample(Entropy.seeded(3)), (2 * first + second) // 4)
