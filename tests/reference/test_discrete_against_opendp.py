"""Our draws against OpenDP's, whose noise on integer domains is discrete.

`scale` is the parameter of the discrete Laplace, and the standard deviation for the Gaussian.
OpenDP cannot be seeded: a pass has p-value > 1e-9, so one run in 10^8 fails by chance.
"""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.discrete import discrete_gaussian, discrete_laplace

dp = pytest.importorskip("opendp.prelude", reason="OpenDP is a test-only oracle")

pytestmark = pytest.mark.slow

COUNT = 30_000
PASSES = 1e-9
SCALES = [1 / 3, 1.0, 2.5, 40.0]


@pytest.fixture(scope="module", autouse=True)
def _contrib():
    dp.enable_features("contrib")


def opendp_laplace(scale):
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64")
    return np.array(dp.m.make_laplace(*space, scale=scale)([0] * COUNT))


def opendp_gaussian(deviation):
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="i64")
    return np.array(dp.m.make_gaussian(*space, scale=deviation)([0] * COUNT))


def p_same_law(ours, theirs):
    """Return a two-sample chi-square p-value.

    Rare values share a bin with the tails, and wide distributions are coarsened.
    """
    width = max(1, int(theirs.std() / 5))
    ours, theirs = ours // width, theirs // width
    values, counts = np.unique(np.concatenate((ours, theirs)), return_counts=True)
    common = values[counts >= 20]
    table = np.array([[np.count_nonzero(x == v) for v in common] for x in (ours, theirs)])
    table = np.column_stack((table, COUNT - table.sum(axis=1)))
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_draws_and_opendp_share_a_law(scale):
    theirs = opendp_laplace(scale)
    ours = discrete_laplace(Fraction(scale), COUNT, Entropy.seeded(1))
    assert p_same_law(ours, theirs) > PASSES
    for wrong in (Fraction(2, 3), Fraction(3, 2)):
        other = discrete_laplace(Fraction(scale) * wrong, COUNT, Entropy.seeded(1))
        assert p_same_law(other, theirs) < PASSES


@pytest.mark.parametrize("deviation", SCALES)
def test_gaussian_draws_and_opendp_share_a_law(deviation):
    theirs = opendp_gaussian(deviation)
    variance = Fraction(deviation) ** 2
    ours = discrete_gaussian(variance, COUNT, Entropy.seeded(2))
    assert p_same_law(ours, theirs) > PASSES
    for wrong in (Fraction(2, 3), Fraction(3, 2)):
        other = discrete_gaussian(variance * wrong, COUNT, Entropy.seeded(2))
        assert p_same_law(other, theirs) < PASSES


def test_laplace_comparison_rejects_a_zero_with_two_signs():
    theirs = opendp_laplace(2.5)
    rng = np.random.default_rng(3)
    magnitude = rng.geometric(1 - np.exp(-1 / 2.5), COUNT) - 1
    assert p_same_law(magnitude * rng.choice([-1, 1], COUNT), theirs) < PASSES
