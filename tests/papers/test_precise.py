"""Precise numbers of the published algorithms, with all the digits that are promised."""

import mpmath
import numpy as np
import pytest
from mpmath import mpf
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.papers.samplers.precise import precise_chi_square, precise_normals

CLOSE = mpf(10) ** -115


def uniform(entropy):
    """Return the middle of one of 2^384 cells."""
    bits = int.from_bytes(entropy.words(6).tobytes(), "little")
    return (2 * mpf(bits) + 1) / mpf(2) ** 385


def polar(entropy):
    """Return pairs of standard normals (Marsaglia and Bray 1964)."""
    while True:
        x, y = (2 * uniform(entropy) - 1 for _ in range(2))
        square = x**2 + y**2
        if square < 1:
            stretch = mpmath.sqrt(-2 * mpmath.log(square) / square)
            return x * stretch, y * stretch


def chi_square(degrees, entropy):
    """Return twice a gamma number of shape degrees / 2 (Marsaglia and Tsang 2000)."""
    shift = mpf(degrees) / 2 - mpf(1) / 3
    while True:
        normal = polar(entropy)[0]
        cube = (1 + normal / mpmath.sqrt(9 * shift)) ** 3
        if cube <= 0:
            continue
        bound = normal**2 / 2 + shift - shift * cube + shift * mpmath.log(cube)
        if mpmath.log(uniform(entropy)) < bound:
            return 2 * shift * cube


def digits(number):
    return len(number.as_tuple().digits)


def test_normals_are_those_of_the_polar_method_to_a_hundred_digits_and_more():
    found = precise_normals(7, Entropy.seeded(1))
    entropy = Entropy.seeded(1)
    with mpmath.workdps(160):
        expected = [number for _ in range(4) for number in polar(entropy)][:7]
        for one, other in zip(found, expected, strict=True):
            assert abs(mpf(str(one)) / other - 1) < CLOSE
    assert min(map(digits, found)) > 100


@pytest.mark.parametrize("degrees", [2, 3, 40])
def test_chi_squares_are_those_of_marsaglia_and_tsang_to_a_hundred_digits(degrees):
    ours, theirs = Entropy.seeded(2), Entropy.seeded(2)
    with mpmath.workdps(160):
        for _ in range(30):
            found = precise_chi_square(degrees, ours)
            assert abs(mpf(str(found)) / chi_square(degrees, theirs) - 1) < CLOSE
            assert digits(found) > 100


@pytest.mark.parametrize("degrees", [2, 5])
def test_chi_squares_have_their_law_and_not_that_of_a_degree_more(degrees):
    entropy = Entropy.seeded(3)
    found = np.array([float(precise_chi_square(degrees, entropy)) for _ in range(1500)])
    assert stats.kstest(found, "chi2", (degrees,)).pvalue > 1e-3
    assert stats.kstest(found, "chi2", (degrees + 1,)).pvalue < 1e-9
