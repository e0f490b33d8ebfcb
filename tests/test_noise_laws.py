"""What noise laws say of themselves: moments, spectra, ranges, descriptions."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import optimize, stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers import Law, matrix_law, require_within, scalar_law, symmetric
from dpcov.core.samplers.discrete import (
    MAX_SCALE,
    MAX_VARIANCE,
    MIN_SCALE,
    MIN_VARIANCE,
)
from dpcov.core.samplers.normal import MAX_NORMAL
from dpcov.core.samplers.orthogonal import GaussianOrthogonal
from dpcov.core.samplers.scalars import ScalarGaussian, ScalarLaplace
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.errors import MechanismError
from dpcov.papers.samplers.nuclear import NuclearLaplace

D = 6
MATRIX_LAWS = [WishartDifference(D, 500.0), GaussianOrthogonal(D, Fraction(10**6))]
each_law = pytest.mark.parametrize("law", MATRIX_LAWS, ids=lambda law: law.law)


@each_law
@pytest.mark.parametrize("how", ["sample", "samples", "simulate"])
def test_draws_have_the_moments_that_the_law_states(law, how):
    entropy, generator, count = Entropy.seeded(5), np.random.default_rng(5), 3000
    if how == "samples":
        draws = law.samples(count, entropy).astype(float)
    elif how == "sample":
        draws = np.array([law.sample(entropy) for _ in range(count)], float)
    else:
        draws = np.array([law.simulate(generator) for _ in range(count)])
    assert draws.shape == (count, D, D)
    assert (draws == draws.transpose(0, 2, 1)).all()
    diagonal = draws[:, range(D), range(D)]
    for stated, found in (
        (law.diagonal_variance, (diagonal**2).mean()),
        (law.frobenius_squared, (draws**2).sum(axis=(1, 2)).mean()),
    ):
        assert found == pytest.approx(stated, rel=0.05)
        assert found != pytest.approx(1.15 * stated, rel=0.05)


@each_law
def test_invariant_noise_has_half_the_variance_off_the_diagonal(law):
    assert law.rotation_invariant
    draws = law.samples(2000, Entropy.seeded(6)).astype(float)
    off = (draws[:, *np.triu_indices(D, 1)] ** 2).mean()
    assert off == pytest.approx(law.diagonal_variance / 2, rel=0.05)


@each_law
def test_the_spectrum_ends_at_the_least_of_one_over_g_and_the_r_transform(law):
    def at(g):
        return 1 / g + law.r_transform(np.array([g + 0j])).real[0]

    small = 1e-6 / law.detectable
    slope = law.r_transform(np.array([small + 0j])).real[0] / small
    assert slope == pytest.approx(law.frobenius_squared / (D + 1))  # the variance of the spectrum
    bounds = (0.05 / law.detectable, 2 / law.detectable)
    best = optimize.minimize_scalar(at, bounds=bounds, method="bounded", options={"xatol": 1e-12})
    assert law.edge == pytest.approx(best.fun, rel=1e-4)
    assert law.detectable == pytest.approx(1 / best.x, rel=1e-3)


@each_law
def test_a_rescaled_law_is_that_of_the_multiple(law):
    thrice = law.rescaled(3.0)
    assert thrice.dimension == D
    assert thrice.diagonal_variance == pytest.approx(9 * law.diagonal_variance)
    assert thrice.spread == pytest.approx(3 * law.spread)
    assert thrice.edge == pytest.approx(3 * law.edge)


SCALARS = [ScalarLaplace(Fraction(700, 3)), ScalarGaussian(Fraction(70000, 3))]


@pytest.mark.parametrize("law", [*MATRIX_LAWS, *SCALARS], ids=lambda law: law.law)
def test_a_law_is_what_its_description_says_and_no_other(law):
    read = matrix_law if hasattr(law, "dimension") else scalar_law
    assert read(law.to_json()) == law
    with pytest.raises((KeyError, ValueError, MechanismError)):
        read({**law.to_json(), "law": "no such law"})


@pytest.mark.parametrize("law", SCALARS, ids=lambda law: law.law)
def test_quantiles_and_deviations_are_those_of_the_continuous_law(law):
    if isinstance(law, ScalarLaplace):
        continuous = stats.laplace(scale=float(law.scale))
    else:
        continuous = stats.norm(scale=float(law.variance) ** 0.5)
    assert law.standard_deviation == pytest.approx(continuous.std())
    for probability in (0.4, 0.01, 1e-9):
        assert law.upper_quantile(probability) == pytest.approx(continuous.isf(probability))
    drawn = law.samples(20_000, Entropy.seeded(1))
    assert np.std(drawn) == pytest.approx(continuous.std(), rel=0.05)
    generator = np.random.default_rng(1)
    simulated = [law.simulate(generator) for _ in range(20_000)]
    assert np.std(simulated) == pytest.approx(continuous.std(), rel=0.05)
    assert law.sample(Entropy.seeded(1)) == law.samples(1, Entropy.seeded(1))[0]


MARGIN = Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("make", "least", "most"),
    [
        (ScalarLaplace, MIN_SCALE, MAX_SCALE),
        (ScalarGaussian, MIN_VARIANCE, MAX_VARIANCE),
        (lambda v: GaussianOrthogonal(3, v), 2 * MIN_VARIANCE, MAX_VARIANCE),
        (lambda c: WishartDifference(3, float(c)), None, 2**85 / Fraction(MAX_NORMAL) ** 2),
    ],
    ids=["laplace", "gaussian", "orthogonal", "wishart"],
)
def test_the_range_that_can_be_drawn_has_these_ends(make, least, most):
    make(most * (1 - MARGIN)).require_drawable()
    with pytest.raises(MechanismError, match="budget is too small"):
        make(most * (1 + MARGIN)).require_drawable()
    if least is not None:
        make(least).require_drawable()
        make(most).require_drawable()
        with pytest.raises(MechanismError, match="budget is too large"):
            make(least * (1 - MARGIN)).require_drawable()


def test_the_smallest_and_the_largest_are_within():
    for value in (2, 3, 5):
        require_within(value, 2, 5)
    for value, word in ((1, "large"), (6, "small")):
        with pytest.raises(MechanismError, match=f"too {word}"):
            require_within(value, 2, 5)


def test_a_wishart_law_beyond_the_largest_entry_draws_nothing():
    with pytest.raises(MechanismError, match="budget is too small"):
        WishartDifference(3, 2.0**85).sample(Entropy.seeded(1))


@pytest.mark.parametrize("law", [WishartDifference, NuclearLaplace])
def test_noise_that_64_bits_cannot_hold_is_the_same_in_integers_of_python(law):
    narrow, wide = (law(3, 2.0**bits).sample(Entropy.seeded(1)) for bits in (45, 70))
    assert narrow.dtype == np.int64
    assert wide.dtype == object
    assert (wide == wide.T).all()
    np.testing.assert_allclose((wide / 2**25).astype(float), narrow, atol=1)


def test_wishart_noise_is_rounded_to_the_nearest_integer_halves_up(monkeypatch):
    drawn = np.array([[0.49, 0.5], [-0.5, -0.51]])
    monkeypatch.setattr(WishartDifference, "_difference", lambda *_: drawn)
    assert WishartDifference(2, 1.0).sample(Entropy.seeded(1)).tolist() == [[0, 1], [0, -1]]


def test_wishart_noise_may_be_as_small_as_one_likes():
    law = WishartDifference(3, 1e-9)
    law.require_drawable()
    assert not law.sample(Entropy.seeded(1)).any()


def test_matrices_are_put_together_from_diagonals_and_what_is_below():
    made = symmetric(np.array([[1, 2, 3], [7, 8, 9]]), np.array([[4, 5, 6], [10, 11, 12]]))
    assert made[0].tolist() == [[1, 4, 5], [4, 2, 6], [5, 6, 3]]
    assert made[1].tolist() == [[7, 10, 11], [10, 8, 12], [11, 12, 9]]


def test_repeated_draws_are_those_of_one_stream():
    law = MATRIX_LAWS[0]
    together, entropy = Law.samples(law, 3, Entropy.seeded(2)), Entropy.seeded(2)
    assert all((draw == law.sample(entropy)).all() for draw in together)
    assert len(together) == 3
