"""The centred Wishart law: what it says of itself, its range, and its draws by a second formula."""

import math

import mpmath
import numpy as np
import pytest

from dpcov.core.entropy import Entropy
from dpcov.core.samplers import matrix_law
from dpcov.core.samplers.normal import standard_normals
from dpcov.errors import MechanismError
from dpcov.papers.samplers import additive_wishart
from dpcov.papers.samplers.additive_wishart import CenteredWishart

LAW = CenteredWishart(3, 8, 2.5)


def test_moments_are_those_of_a_gram_matrix_of_normals():
    """Entries of a sum of m products x x', x standard normal, less m I, times the scale."""
    assert LAW.diagonal_variance == pytest.approx(8 * 2 * 2.5**2, rel=1e-15)
    assert LAW.spread**2 == pytest.approx(8 * 2.5**2, rel=1e-15)
    whole = 3 * LAW.diagonal_variance + 6 * LAW.spread**2
    assert LAW.frobenius_squared == pytest.approx(whole, rel=1e-15)
    assert CenteredWishart.rotation_invariant


def test_the_r_transform_is_that_of_the_free_poisson_law_less_its_mean():
    g = np.array([0.01, -0.3, 0.02 + 0.1j, -0.05j])
    poisson = 8 * 2.5 / (1 - 2.5 * 3 * g)
    np.testing.assert_allclose(LAW.r_transform(g), poisson - 8 * 2.5, rtol=1e-13)


def test_the_spectrum_ends_where_marchenko_and_pastur_put_it():
    assert LAW.edge == pytest.approx(2.5 * ((math.sqrt(8) + math.sqrt(3)) ** 2 - 8), rel=1e-15)
    g = 1 / LAW.detectable
    ends = [1 / x + LAW.r_transform(np.array([x]))[0] for x in (0.999 * g, g, 1.001 * g)]
    assert ends[1] == pytest.approx(LAW.edge, rel=1e-14)
    assert ends[0] > ends[1] < ends[2]


def test_what_floats_can_carry_ends_where_it_is_stated():
    def law_of_reach(reach, degrees):
        root = math.sqrt(degrees) + 9.2 + 2.0
        return CenteredWishart(4, degrees, reach / root**2)

    for degrees, reach in (
        (9, 2.0**87),  # of any entry
        (2**46, 2.0**22),  # a spread below 1: float64's spacing is at most 2^-30
    ):
        law_of_reach(reach * (1 - 1e-9), degrees).require_drawable()
        law = law_of_reach(reach * (1 + 1e-9), degrees)
        for refused in (law.require_drawable, lambda law=law: law.sample(Entropy.seeded(1))):
            with pytest.raises(MechanismError, match="budget is too small"):
                refused()
    CenteredWishart(4, 9, 1e-300).require_drawable()


def test_noise_at_the_largest_scale_is_that_at_a_small_one(monkeypatch):
    limit = 2.0**87 / (3 + 9.2 + 2) ** 2 * (1 - 1e-9)

    def apart():
        laws = (CenteredWishart(4, 9, limit / 2**bits) for bits in (0, 40))
        wide, narrow = (law.sample(Entropy.seeded(1)).astype(object) for law in laws)
        return np.abs(wide - 2**40 * narrow).max()

    assert apart() <= 2**39 + 1
    monkeypatch.setattr(
        additive_wishart, "whole", lambda noise: np.floor(noise + 0.5).astype(np.int64)
    )
    with np.errstate(invalid="ignore"):  # 64 bits can't hold it
        assert apart() > 2**70


@pytest.mark.parametrize("scale", [1.0, 64.0])
def test_float64s_spacing_at_the_mean_is_at_most_2_to_the_minus_30_of_the_spread(scale):
    """c (sqrt m + 11.2)^2 2^-52 = c sqrt m 2^-30 where sqrt m + 22.4 + 125.44 / sqrt m = 2^22."""
    root = 2.0**22 - 22.4
    CenteredWishart(4, int((root * (1 - 1e-9)) ** 2), scale).require_drawable()
    with pytest.raises(MechanismError, match="budget is too small"):
        CenteredWishart(4, int((root * (1 + 1e-9)) ** 2), scale).require_drawable()


class Constant:
    """Entropy of one word."""

    def __init__(self, word):
        self.word = word

    def words(self, count):
        return np.full(count, self.word, np.uint64)


def tail_of(word, freedom, value):
    """Return the side of the value that the word's last bit chooses, over its other bits."""
    with mpmath.workdps(30):
        tail = (mpmath.mpf(word // 2) + 0.5) / mpmath.mpf(2) ** 64
        half, x = mpmath.mpf(freedom) / 2, mpmath.mpf(value) / 2
        ends = (0, x) if word % 2 else (x, mpmath.inf)
        return float(mpmath.gammainc(half, *ends, regularized=True) / tail)


def test_chi_squares_have_the_tails_that_their_words_say():
    freedoms = np.array([1.0, 2.0, 3.0, 17.0, 400.0, 65_536.0] * 4)
    found = additive_wishart._chi_squares(freedoms, Entropy.seeded(2))
    words = [int(word) for word in Entropy.seeded(2).words(len(freedoms))]
    assert len({word % 2 for word in words}) == 2
    for word, freedom, value in zip(words, freedoms, found, strict=True):
        assert tail_of(word, freedom, value) == pytest.approx(1, abs=1e-8)
    for word in (0, 1, 6, 7):
        for freedom, value in zip(
            freedoms, additive_wishart._chi_squares(freedoms, Constant(word)), strict=True
        ):
            assert tail_of(word, freedom, value) == pytest.approx(1, abs=1e-8)


def test_the_farthest_words_give_chi_squares_that_the_range_allows_for():
    for freedom in (1.0, 50.0, 2.0**40):
        for word in (0, 1, 2**64 - 1, 2**64 - 2):
            (value,) = additive_wishart._chi_squares(np.array([freedom]), Constant(word))
            assert 0 <= value <= (math.sqrt(freedom) + 9.2) ** 2
    middle = [
        additive_wishart._chi_squares(np.array([5.0]), Constant(word))[0]
        for word in (2**64 - 1, 2**64 - 2)
    ]
    assert middle[0] == pytest.approx(middle[1], rel=1e-14)


def bartlett(normals, squares, degrees, scale):
    """Return c T T' - m c I entry by entry; normals fill T row by row below its diagonal."""
    d, fresh = len(squares), iter(normals)
    factor = [[next(fresh) for _ in range(i)] + [math.sqrt(squares[i])] for i in range(d)]
    return np.array(
        [
            [
                scale * (sum(a * b for a, b in zip(x, y, strict=False)) - degrees * (i == j))
                for j, y in enumerate(factor)
            ]
            for i, x in enumerate(factor)
        ]
    )


@pytest.mark.parametrize(("d", "degrees"), [(1, 4), (2, 2), (4, 9)])
def test_a_draw_is_bartletts_product_rounded(d, degrees):
    law, entropy = CenteredWishart(d, degrees, 1000.0), Entropy.seeded(3)
    normals = standard_normals(d * (d - 1) // 2, entropy)
    freedoms = np.array([float(degrees - i) for i in range(d)])
    squares = additive_wishart._chi_squares(freedoms, entropy)
    exact = bartlett(normals, squares, degrees, 1000.0)
    found = law.sample(Entropy.seeded(3))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.floor(exact + 0.5))


def test_a_simulation_is_bartletts_product():
    found = CenteredWishart(3, 8, 2.5).simulate(np.random.default_rng(4))
    generator = np.random.default_rng(4)
    plain = generator.standard_normal((3, 3))
    squares = generator.chisquare([8.0, 7.0, 6.0])
    normals = [plain[1, 0], plain[2, 0], plain[2, 1]]
    np.testing.assert_allclose(found, bartlett(normals, squares, 8, 2.5), rtol=1e-12, atol=1e-12)


def test_noise_is_rounded_to_the_nearest_integer_halves_up(monkeypatch):
    drawn = np.array([[0.49, 0.5], [-0.5, -0.51]])
    monkeypatch.setattr(CenteredWishart, "_centered", lambda *_: drawn)
    assert CenteredWishart(2, 4, 1.0).sample(Entropy.seeded(1)).tolist() == [[0, 1], [0, -1]]


def test_draws_in_a_row_are_those_of_one_stream():
    together, entropy = LAW.samples(3, Entropy.seeded(5)), Entropy.seeded(5)
    assert together.tolist() == [LAW.sample(entropy).tolist() for _ in range(3)]


def test_a_law_is_what_its_description_says():
    assert LAW.to_json() == {
        "law": "centered-wishart",
        "dimension": 3,
        "degrees": 8,
        "scale": 2.5,
    }
    assert matrix_law(LAW.to_json()) == LAW
    assert LAW.rescaled(2.0) == CenteredWishart(3, 8, 5.0)
