"""Nuclear-Laplace noise: two exact samplers of one law, the paper's law, and their simulation."""

import numpy as np
import pytest
from checks import PASSES, REJECTED, mean_p_value
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.papers.samplers import nuclear
from dpcov.papers.samplers.log_gas import simulated_eigenvalues, simulated_singular_values
from dpcov.papers.samplers.nuclear import NuclearLaplace, SquareNuclearLaplace
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, LineEnsemble, largest_first

C = 2.0**36


def by_rejection(d, count, seed):
    """Return (count, d) ascending eigenvalues of unit scale."""
    entropy, found = Entropy.seeded(seed), []
    while sum(map(len, found)) < count:
        found.append(np.linalg.eigvalsh(nuclear._accepted(d, 2000, entropy)))
    return np.concatenate(found)[:count]


def by_pfaffians(d, count, seed, ensemble=LineEnsemble):
    entropy = Entropy.seeded(seed)
    return np.array([largest_first(ensemble(d), entropy)[::-1] for _ in range(count)])


def without_rejection(d, count, seed):
    """Return draws of matrix Laplace noise, the distribution before rejection."""
    factors = np.random.default_rng(seed).standard_normal((2, count, d, d + 1)) / 2**0.5
    first, second = factors @ factors.swapaxes(2, 3)
    return np.linalg.eigvalsh(first - second)


# The radius, at any order.


def radius_p_value(points, exponent):
    """Test nuclear norms against Gamma(exponent), their sum, and independence of the shape."""
    radii = np.abs(points).sum(axis=1)
    total = stats.gamma.cdf(radii.sum(), exponent * len(radii))
    shapes = np.abs(points).max(axis=1) / radii
    return min(
        stats.kstest(radii, "gamma", (exponent,)).pvalue,
        2 * min(total, 1 - total),
        1.0 if points.shape[1] == 1 else stats.spearmanr(radii, shapes).pvalue,
    )


COUNTS = {1: 500, 2: 400, 3: 250, 5: 80, 8: 25}


@pytest.mark.parametrize("d", COUNTS)
def test_the_nuclear_norm_of_pfaffian_draws_is_gamma_and_independent_of_shape(d):
    points = by_pfaffians(d, COUNTS[d], 1)
    assert radius_p_value(points, d * (d + 1) / 2) > PASSES
    points = by_pfaffians(d, COUNTS[d], 2, HalfLineEnsemble)
    assert points.min() > 0
    assert radius_p_value(points, d * d) > PASSES


@pytest.mark.parametrize(("d", "count"), [(1, 80_000), (2, 30_000), (3, 20_000), (5, 6000)])
def test_the_nuclear_norm_of_accepted_draws_is_gamma_of_that_very_scale(d, count):
    points = by_rejection(d, count, 3)
    exponent = d * (d + 1) / 2
    assert radius_p_value(points, exponent) > PASSES
    assert radius_p_value(points * 1.03, exponent) < REJECTED
    assert radius_p_value(points * 0.97, exponent) < REJECTED
    if d > 1:
        assert radius_p_value(without_rejection(d, count, 3), exponent) < REJECTED


def test_a_wrong_border_or_a_gaussian_radius_is_seen(monkeypatch):
    moments = LineEnsemble.moments

    def bordered_by_the_whole_line(self, x):
        return moments(self, np.inf)[0], moments(self, x)[1]

    monkeypatch.setattr(LineEnsemble, "moments", bordered_by_the_whole_line)
    assert radius_p_value(by_pfaffians(3, 600, 4), 6) < REJECTED
    gaussian = np.random.default_rng(4).standard_normal((2000, 3, 3))
    points = np.linalg.eigvalsh(gaussian + gaussian.swapaxes(1, 2))
    assert radius_p_value(points * 6 / np.abs(points).sum(axis=1).mean(), 6) < REJECTED


@pytest.mark.slow
@pytest.mark.parametrize(("d", "count"), [(2, 5000), (3, 3000), (8, 300), (13, 150), (30, 12)])
def test_the_nuclear_norm_of_many_pfaffian_draws_is_gamma_of_that_very_scale(d, count):
    points = by_pfaffians(d, count, 22)
    assert radius_p_value(points, d * (d + 1) / 2) > PASSES
    assert radius_p_value(points * 1.2, d * (d + 1) / 2) < REJECTED


# Orders one and two, in closed form.


def test_one_by_one_noise_is_laplace_under_both_laws():
    for law in (NuclearLaplace(1, C), SquareNuclearLaplace(1, C)):
        entropy = Entropy.seeded(5)
        draws = np.array([law.sample(entropy)[0, 0] for _ in range(5000)]) / C
        assert stats.kstest(draws, "laplace").pvalue > PASSES
        assert stats.kstest(draws * 1.3, "laplace").pvalue < REJECTED


def order_two_p_value(points):
    """Test the mixture at order 2: opposite signs have probability 2/3; else gap and minimum.

    With opposite signs, one size is Gamma(2) and the other Exp(1), in random order.
    """
    opposite = (points[:, 0] < 0) & (points[:, 1] > 0)
    sizes = np.sort(np.abs(points[~opposite]), axis=1)
    return min(
        stats.binomtest(int(opposite.sum()), len(points), 2 / 3).pvalue,
        stats.binomtest(int((points[:, 0] > 0).sum()), len(points), 1 / 6).pvalue,
        stats.kstest(points[opposite, 1], lambda x: 1 - np.exp(-x) * (1 + x / 2)).pvalue,
        stats.kstest(np.abs(points[opposite]).sum(axis=1), "gamma", (3,)).pvalue,
        stats.kstest(sizes[:, 0], "expon", (0, 1 / 2)).pvalue,
        stats.kstest(sizes[:, 1] - sizes[:, 0], "gamma", (2,)).pvalue,
    )


@pytest.mark.parametrize(
    ("route", "count", "wrong"), [(by_rejection, 20_000, 1.06), (by_pfaffians, 600, 1.5)]
)
def test_at_order_two_the_eigenvalues_have_the_law_of_the_specification(route, count, wrong):
    points = route(2, count, 6)
    assert order_two_p_value(points) > PASSES
    assert order_two_p_value(points * wrong) < REJECTED
    assert order_two_p_value(without_rejection(2, 6000, 6)) < REJECTED


def test_at_order_two_the_singular_values_have_their_law():
    """With s = x + y, t = x - y the density is s t exp(-s) on 0 < t < s: t / s is Beta(2, 1)."""
    points = by_pfaffians(2, 600, 7, HalfLineEnsemble)
    ratio = (points[:, 1] - points[:, 0]) / points.sum(axis=1)
    assert stats.kstest(ratio, "beta", (2, 1)).pvalue > PASSES
    assert stats.kstest(ratio, "beta", (1.2, 1)).pvalue < REJECTED
    line = np.abs(by_rejection(2, 3000, 7))
    ratio = np.abs(line[:, 1] - line[:, 0]) / line.sum(axis=1)
    assert stats.kstest(ratio, "beta", (2, 1)).pvalue < REJECTED


# The samplers agree.


def agreement_p_value(first, second):
    """Compare ends, middle and norms of two samples of spectra in two-sample tests."""
    statistics = [
        lambda x: np.abs(x).max(axis=1),
        lambda x: np.abs(x).min(axis=1),
        lambda x: x[:, -1],
        lambda x: x[:, x.shape[1] // 2],
        lambda x: np.abs(x).sum(axis=1),
        lambda x: (x**2).sum(axis=1),
        lambda x: np.diff(x).min(axis=1),
    ]
    return min(stats.ks_2samp(pick(first), pick(second)).pvalue for pick in statistics)


@pytest.mark.parametrize(("d", "count"), [(3, 500), (4, 300)])
def test_both_routes_draw_the_same_law(d, count):
    pfaffians = by_pfaffians(d, count, 8)
    assert agreement_p_value(pfaffians, by_rejection(d, 20_000, 9)) > PASSES
    raw = without_rejection(d, 20_000, 9)
    assert agreement_p_value(by_rejection(d, 20_000, 9), raw) < REJECTED
    assert agreement_p_value(pfaffians * 1.5, by_rejection(d, 20_000, 9)) < REJECTED


@pytest.mark.slow
@pytest.mark.parametrize(("d", "count"), [(3, 4000), (5, 2500), (6, 1500)])
def test_both_routes_draw_the_same_law_at_larger_orders(d, count):
    pfaffians = by_pfaffians(d, count, 10)
    assert agreement_p_value(pfaffians, by_rejection(d, 5000, 11)) > PASSES
    assert agreement_p_value(pfaffians, without_rejection(d, 5000, 11)) < REJECTED


SIMULATED = [
    (simulated_eigenvalues, LineEnsemble, 2, 500),
    (simulated_eigenvalues, LineEnsemble, 6, 120),
    (simulated_singular_values, HalfLineEnsemble, 3, 300),
]


@pytest.mark.parametrize(("simulate", "ensemble", "d", "count"), SIMULATED)
def test_simulated_spectra_have_the_exact_law(simulate, ensemble, d, count):
    generator = np.random.default_rng(12)
    simulated = np.sort([simulate(d, generator) for _ in range(2000)], axis=1)
    exact = by_pfaffians(d, count, 13, ensemble)
    assert agreement_p_value(simulated, exact) > PASSES
    assert agreement_p_value(simulated * 1.6, exact) < REJECTED


@pytest.mark.slow
def test_simulated_spectra_have_the_exact_law_at_order_thirteen():
    generator = np.random.default_rng(14)
    simulated = np.sort([simulated_eigenvalues(13, generator) for _ in range(1500)], axis=1)
    exact = by_pfaffians(13, 400, 15)
    assert agreement_p_value(simulated, exact) > PASSES
    assert agreement_p_value(simulated * 1.1, exact) < REJECTED
    assert agreement_p_value(without_rejection(13, 1500, 14), exact) < REJECTED


# The matrices.


def drawn(law, count, seed):
    entropy = Entropy.seeded(seed)
    return np.stack([law.sample(entropy) for _ in range(count)]) / C


def direction_p_value(draws):
    """Compare v'Zv along an axis and along the diagonal, on separate halves."""
    d = draws.shape[1]
    diagonal = np.full(d, d**-0.5)
    half = len(draws) // 2
    along = np.einsum("i,nij,j->n", diagonal, draws[half:], diagonal)
    return stats.ks_2samp(draws[:half, 0, 0], along).pvalue


@pytest.mark.parametrize("law", [NuclearLaplace, SquareNuclearLaplace])
def test_noise_prefers_no_direction_and_no_sign(law):
    draws = drawn(law(3, C), 800, 16)
    assert direction_p_value(draws) > PASSES
    assert mean_p_value(np.trace(draws, axis1=1, axis2=2), 0) > PASSES
    assert direction_p_value(draws * np.diag([1, 0, 0])) < REJECTED


def test_orthogonal_matrices_are_haar_thanks_to_the_sign_fix():
    """Tr O of Haar matrices has mean 0 and variance 1; the plain Q of LAPACK has another law."""
    normals = np.random.default_rng(17).standard_normal((4000, 3, 3))
    traces = np.array([np.trace(nuclear._haar(normal)) for normal in normals])
    assert mean_p_value(traces, 0) > PASSES
    assert mean_p_value(traces**2, 1) > PASSES
    plain = np.trace(np.linalg.qr(normals)[0], axis1=1, axis2=2)
    assert min(mean_p_value(plain, 0), mean_p_value(plain**2, 1)) < REJECTED


@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("law", [NuclearLaplace, SquareNuclearLaplace])
def test_the_expected_squared_norm_is_that_of_the_draws(law, d):
    squares = (drawn(law(d, C), 700, 18) ** 2).sum(axis=(1, 2))
    expected = law(d, 1.0).frobenius_squared
    assert mean_p_value(squares, expected) > PASSES
    assert mean_p_value(squares, 1.5 * expected) < REJECTED


@pytest.mark.parametrize(("law", "count"), [(NuclearLaplace, 150), (SquareNuclearLaplace, 150)])
def test_the_expected_squared_norm_is_that_of_simulations_at_sixty_four_columns(law, count):
    generator = np.random.default_rng(19)
    squares = [np.sum(law(64, 1.0).simulate(generator) ** 2) for _ in range(count)]
    expected = law(64, 1.0).frobenius_squared
    assert mean_p_value(squares, expected) > PASSES
    assert mean_p_value(squares, 1.05 * expected) < REJECTED


def test_pfaffian_matrices_have_the_law_of_accepted_ones():
    """The route changes at `FAST_REJECTION`; force the other one below it."""
    entropy = Entropy.seeded(20)
    pfaffians = [
        nuclear.with_eigenvalues(np.array(largest_first(LineEnsemble(3), entropy)), entropy)
        for _ in range(400)
    ]
    accepted = nuclear._accepted(3, 20_000, Entropy.seeded(21))
    for i, j in ((0, 0), (2, 1)):
        entry = np.array(pfaffians)[:, i, j]
        assert stats.ks_2samp(entry, accepted[:, i, j]).pvalue > PASSES
        assert stats.ks_2samp(entry * 3, accepted[:, i, j]).pvalue < REJECTED
