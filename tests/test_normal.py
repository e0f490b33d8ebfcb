"""Standard normals from bits: their law, their range, their tails."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.normal import MAX_NORMAL, standard_exponentials, standard_normals

COUNT = 500_000
PASSES, REJECTED = 1e-3, 1e-9


class Fixed:
    """A stream of chosen words."""

    def __init__(self, *words):
        self._words = np.array(words, np.uint64)

    def words(self, count):
        assert count == len(self._words)
        return self._words


def normals_of(*words):
    return standard_normals(len(words), Fixed(*words))


@pytest.fixture(scope="module")
def draws():
    return standard_normals(COUNT, Entropy.seeded(1))


def tail_p_value(values, at):
    """Return the p-value of the number of values beyond +-at."""
    return stats.binomtest(int(np.sum(np.abs(values) > at)), values.size, 2 * ndtr(-at)).pvalue


def test_draws_are_standard_normal_and_of_no_other_scale(draws):
    assert stats.kstest(draws, "norm").pvalue > PASSES
    assert stats.kstest(draws * 1.02, "norm").pvalue < REJECTED
    assert stats.kstest(draws + 0.01, "norm").pvalue < REJECTED


@pytest.mark.parametrize("at", [1.0, 2.0, 3.0, 4.0])
def test_tails_have_their_probability(draws, at):
    assert tail_p_value(draws, at) > PASSES


def test_tail_test_rejects_heavier_tails():
    heavy = np.random.default_rng(2).standard_t(20, COUNT) * (18 / 20) ** 0.5
    assert tail_p_value(heavy, 4.0) < REJECTED


def test_draws_are_independent(draws):
    for lag in (1, 2, 3):
        assert abs(np.corrcoef(draws[:-lag], draws[lag:])[0, 1]) < 4 / COUNT**0.5


def test_no_value_repeats(draws):
    assert len(np.unique(draws)) == COUNT
    assert len(np.unique(draws.astype(np.float32))) < COUNT


def test_extreme_words_stay_within_the_stated_bound():
    smallest, largest = normals_of(0, 1)
    assert (smallest, largest) == (-largest, largest)
    assert largest == pytest.approx(-stats.norm.ppf(2.0**-65), rel=1e-12)
    assert largest < MAX_NORMAL < largest + 0.1
    assert np.abs(normals_of(2**64 - 1, 2**64 - 2)).max() < 1e-9


def test_the_lowest_bit_is_the_sign_and_the_rest_the_size():
    words = np.random.default_rng(3).integers(0, 2**63, 1000, np.uint64) * np.uint64(2)
    low, high = normals_of(*words), normals_of(*(words + np.uint64(1)))
    np.testing.assert_array_equal(low, -high)
    assert (high >= 0).all()


def test_every_word_near_the_tail_gives_its_own_value():
    far = normals_of(*range(1, 2001, 2))
    assert (np.diff(far) < 0).all()
    tails = (np.arange(1000) + 0.5) * 2.0**-64
    np.testing.assert_allclose(ndtr(-far), tails, rtol=1e-11)


def test_exponentials_are_standard_and_of_no_other_scale():
    values = standard_exponentials(50_000, Entropy.seeded(2))
    assert stats.kstest(values, "expon").pvalue > PASSES
    for wrong in (0.95, 1.05):
        assert stats.kstest(values * wrong, "expon").pvalue < REJECTED


def test_exponentials_of_extreme_words_are_within_the_stated_range():
    least, most = standard_exponentials(2, Fixed(2**64 - 1, 0))
    assert least == 0
    assert most == pytest.approx(64 * np.log(2), rel=1e-12)
    assert most < 44.4
