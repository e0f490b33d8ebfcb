"""The Bingham law against quadrature, and the wrong law that two libraries have published."""

from itertools import pairwise

import numpy as np
import pytest
from checks import PASSES, REJECTED, mean_p_value
from scipy import integrate, stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.normal import standard_exponentials
from dpcov.papers.samplers.bingham import Bingham, envelope_parameter

COUNT = 40_000


def drawn(exponents, seed, count=COUNT):
    """Return accepted proposals: independent draws."""
    vectors, accepted = Bingham(np.array(exponents)).accepted(count, Entropy.seeded(seed))
    return vectors[accepted]


def published(exponents, seed, count=20 * COUNT):
    """Return draws of the faulty distribution: acceptance with exponent -q/2, at most 1."""
    exponents = np.array(exponents)
    gaps = exponents.max() - exponents
    b, q = envelope_parameter(gaps), gaps.size
    entropy = Entropy.seeded(seed)
    vectors = Bingham(exponents).propose(count, entropy)
    s = vectors**2 @ gaps
    log_accept = -s - q / 2 * np.log1p(2 * s / b)
    return vectors[standard_exponentials(count, entropy) >= -log_accept][:COUNT]


def mean_square(exponents, which):
    """Return E u_which^2 in the plane, or of the first of q if the other exponents are equal."""
    first, q = exponents[0] - exponents[-1], len(exponents)

    def density(x):  # x the angle from the first axis
        return np.sin(x) ** (q - 2) * np.exp(first * np.cos(x) ** 2)

    def moment(x):
        return density(x) * (np.cos(x) if which == 0 else np.sin(x)) ** 2

    return integrate.quad(moment, 0, np.pi)[0] / integrate.quad(density, 0, np.pi)[0]


@pytest.mark.parametrize(
    ("exponents", "which", "expected"),
    [([3.0, 0.0], 1, 0.2019), ([5.0, 0, 0, 0, 0], 0, 0.548)],
    ids=["C = diag(12, 0), t = 1/4", "C = 20 e1 e1', d = 5, t = 1/4"],
)
def test_second_moments_are_those_of_the_law_and_the_published_fault_is_rejected(
    exponents, which, expected
):
    truth = mean_square(exponents, which)
    assert truth == pytest.approx(expected, abs=5e-4)
    assert mean_p_value(drawn(exponents, 1)[:, which] ** 2, truth) > PASSES
    assert mean_p_value(published(exponents, 2)[:, which] ** 2, truth) < REJECTED


def test_single_draws_have_the_law_of_accepted_proposals():
    law, entropy = Bingham(np.array([3.0, 0.0])), Entropy.seeded(3)
    draws = np.array([law.sample(entropy).vector for _ in range(6000)])
    truth = mean_square([3.0, 0.0], 1)
    assert mean_p_value(draws[:, 1] ** 2, truth) > PASSES
    proposals = law.propose(COUNT, entropy)
    assert mean_p_value(proposals[:, 1] ** 2, truth) < REJECTED


def sphere_p_value(draws, exponents):
    """Return the chi-square p-value of draws in q = 3 over cells of polar cosine and longitude."""
    cosines, turns = np.linspace(-1, 1, 9), np.linspace(-np.pi, np.pi, 9)
    a = np.array(exponents)

    def density(turn, cosine):
        flat = 1 - cosine**2
        return np.exp(a[0] * flat * np.cos(turn) ** 2 + a[1] * flat * np.sin(turn) ** 2) * np.exp(
            a[2] * cosine**2
        )

    mass = np.array(
        [
            [integrate.dblquad(density, *c, *t)[0] for t in pairwise(turns)]
            for c in pairwise(cosines)
        ]
    )
    longitude = np.arctan2(draws[:, 1], draws[:, 0])
    observed = np.histogram2d(draws[:, 2], longitude, (cosines, turns))[0]
    expected = mass / mass.sum() * len(draws)
    return stats.chisquare(observed.ravel(), expected.ravel()).pvalue


def test_draws_on_the_sphere_have_the_bingham_density_and_no_other():
    exponents = [1.5, -1.0, 4.0]
    draws = drawn(exponents, 4)
    assert sphere_p_value(draws, exponents) > PASSES
    assert sphere_p_value(draws, [1.5, -1.0, 4.4]) < REJECTED
    assert sphere_p_value(published(exponents, 5), exponents) < REJECTED
    turned = draws @ stats.special_ortho_group.rvs(3, random_state=0)
    assert sphere_p_value(turned, exponents) < REJECTED


def test_equal_exponents_give_the_uniform_law():
    draws = drawn([2.0] * 5, 6)
    assert len(draws) == COUNT
    first = stats.beta(0.5, 2)
    for column in draws.T:
        assert stats.kstest(column**2, first.cdf).pvalue > PASSES
        assert stats.binomtest(int((column > 0).sum()), COUNT).pvalue > PASSES
    assert stats.kstest(drawn([2.4, 2, 2, 2, 2], 7)[:, 0] ** 2, first.cdf).pvalue < REJECTED


def test_exponentials_are_standard():
    draws = standard_exponentials(200_000, Entropy.seeded(8))
    assert stats.kstest(draws, "expon").pvalue > PASSES
    assert stats.kstest(draws * 1.03, "expon").pvalue < REJECTED
    beyond = stats.binomtest(int((draws > 9).sum()), draws.size, np.exp(-9))
    assert beyond.pvalue > PASSES
