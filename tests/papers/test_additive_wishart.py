"""Centred Wishart noise: its law, its exact privacy curve, and the constants of the literature."""

import math

import mpmath
import numpy as np
import pytest
from checks import PASSES, REJECTED, mean_p_value
from scipy import stats

from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Neighbors, Unit, gaussian_delta
from dpcov.denoise.shrinkage import shrink
from dpcov.errors import MechanismError
from dpcov.mechanisms import AdditiveWishart, Gaussian
from dpcov.papers.additive_wishart import (
    addition_delta,
    one_of,
    removal_delta,
    replacement_delta,
    row_delta,
)
from dpcov.papers.samplers.additive_wishart import CenteredWishart
from dpcov.rows.moment import Lattice

ADD, SWAP = Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE
C = 2.0**36


def drawn(law, count, seed):
    """Return (count, d, d) draws in units of the scale C."""
    entropy = Entropy.seeded(seed)
    return np.stack([law.sample(entropy) for _ in range(count)]) / C


def gram(d, degrees, count, seed):
    """Return (count, d, d) centred Wishart matrices at scale 1, from the definition."""
    factors = np.random.default_rng(seed).standard_normal((count, d, degrees))
    return factors @ factors.swapaxes(1, 2) - degrees * np.eye(d)


# The law.


@pytest.mark.parametrize(("d", "degrees"), [(1, 3), (3, 5), (5, 40)])
def test_draws_have_the_law_of_a_gram_matrix_of_normals(d, degrees):
    draws, plain = drawn(CenteredWishart(d, degrees, C), 4000, 1), gram(d, degrees, 4000, 2)
    other = gram(d, degrees + 1, 4000, 3) + np.eye(d)  # not centred on its own mean

    def lowest(z):
        return np.linalg.eigvalsh(z)[:, 0]

    for pick in (lambda z: z[:, 0, 0], lambda z: z[:, -1, -1], lowest):
        assert stats.ks_2samp(pick(draws), pick(plain)).pvalue > PASSES
    assert stats.ks_2samp(lowest(draws), lowest(other)).pvalue < REJECTED


@pytest.mark.parametrize("d", [2, 6])
def test_moments_are_those_stated(d):
    law = CenteredWishart(d, 30, C)
    draws, unit = drawn(law, 5000, 4), CenteredWishart(d, 30, 1.0)
    assert mean_p_value(np.trace(draws, axis1=1, axis2=2), 0) > PASSES
    assert mean_p_value((draws**2).sum(axis=(1, 2)), unit.frobenius_squared) > PASSES
    assert mean_p_value(draws[:, 0, 0] ** 2, unit.diagonal_variance) > PASSES
    assert mean_p_value(draws[:, 1, 0] ** 2, unit.spread**2) > PASSES
    assert mean_p_value((draws**2).sum(axis=(1, 2)) * 1.2, unit.frobenius_squared) < REJECTED


def test_simulated_noise_has_the_law_of_the_release_noise():
    law = CenteredWishart(3, 7, C)
    generator = np.random.default_rng(5)
    simulated = np.stack([law.simulate(generator) for _ in range(5000)]) / C
    released = drawn(law, 5000, 6)
    for pick in (lambda z: z[:, 0, 0], lambda z: z[:, 1, 0], lambda z: np.linalg.eigvalsh(z)[:, 2]):
        assert stats.ks_2samp(pick(simulated), pick(released)).pvalue > PASSES
        assert stats.ks_2samp(pick(simulated) * 1.5, pick(released)).pvalue < REJECTED
    assert law.rescaled(0.5) == CenteredWishart(3, 7, C / 2)


@pytest.mark.parametrize("degrees", [450, 4000])
def test_the_spectrum_is_that_of_the_r_transform(degrees):
    d = 300
    law = CenteredWishart(d, degrees, 1.0)
    values = np.linalg.eigvalsh(law.simulate(np.random.default_rng(7)))
    assert values[-1] == pytest.approx(law.edge, rel=0.04)
    z = law.edge * np.array([1.5, 1 + 0.5j, -1 + 1j])
    g = (1 / (z[:, None] - values)).mean(axis=1)
    np.testing.assert_allclose(1 / g + law.r_transform(g), z, rtol=2e-3)
    symmetric = law.spread**2 * d * g
    assert np.abs(1 / g + symmetric - z).max() / law.edge > (0.03 if degrees < 1000 else 0.004)


@pytest.mark.parametrize("d", [40, 420])
def test_denoising_uses_the_skew(d):
    """The noise has heavier large eigenvalues; a symmetric law with the same variance misleads."""
    from dpcov.core.samplers.orthogonal import GaussianOrthogonal

    law, rng = CenteredWishart(d, d + 5, 1.0), np.random.default_rng(8)
    symmetric = GaussianOrthogonal(d, 2 * law.degrees)
    axes = np.linalg.qr(rng.standard_normal((d, d)))[0]  # not only a diagonal matrix
    truth = (axes * (4 * law.edge * 0.5 ** np.arange(d))) @ axes.T
    errors = {"skewed": 0.0, "symmetric": 0.0, "none": 0.0}
    for _ in range(4 if d < 100 else 1):
        noisy = truth + law.simulate(rng)
        for name, model in (("skewed", law), ("symmetric", symmetric)):
            made = shrink(noisy, model, float(np.trace(truth)), rng)
            errors[name] += float(np.linalg.norm(made - truth))
        errors["none"] += float(np.linalg.norm(noisy - truth))
    assert errors["skewed"] < 0.6 * errors["none"]
    assert errors["skewed"] < errors["symmetric"]


def test_noise_that_floats_cannot_carry_is_refused():
    for law in (CenteredWishart(3, 10, 2.0**80), CenteredWishart(3, 2**45, 2.0**10)):
        with pytest.raises(MechanismError, match="budget is too small"):
            law.require_drawable()
    for law in (CenteredWishart(3, 10, 2.0**79), CenteredWishart(300, 2**16, 2.0**40)):
        law.require_drawable()


# The curve.

# epsilon, delta, and m - d at c = 1: by Sheffet's 28, the papers' 14, exact, certified for
# replace-one.
TABLE = [
    (0.1, 1e-6, 42565, 21283, 843, None),
    (0.5, 1e-6, 1703, 851, 85, None),
    (1.0, 1e-6, 426, 213, 42, 90),
    (4.0, 1e-6, 27, 13, 18, 20),
    (1.0, 1e-3, 232, 116, 16, 32),
]


def pure_then_removal(scale, freedom, epsilon):
    """Return the specification's bound for replace-one: e^(1/2c) removal(epsilon - 1/2c)."""
    left = epsilon - 1 / (2 * scale)
    return math.exp(1 / (2 * scale)) * removal_delta(scale, freedom, left) if left > 0 else 1.0


def least_excess(curve, epsilon, delta):
    """Return the least m - d, k = m - d + 1, that keeps (epsilon, delta) at c = 1."""
    return next(k - 1 for k in range(3, 4000) if curve(1.0, float(k), epsilon) <= delta)


@pytest.mark.parametrize(("epsilon", "delta", "sheffet", "papers", "exact", "certified"), TABLE)
def test_degrees_of_freedom_are_those_of_the_table(
    epsilon, delta, sheffet, papers, exact, certified
):
    log = math.log(4 / delta) / epsilon**2
    assert abs(28 * log - sheffet) < 1
    assert abs(14 * log - papers) < 1
    assert least_excess(row_delta, epsilon, delta) == exact
    if certified is not None:
        assert least_excess(pure_then_removal, epsilon, delta) == certified
        assert exact <= least_excess(replacement_delta, epsilon, delta) <= certified


def test_the_constant_of_the_papers_breaks_epsilon_four_and_wastes_the_rest():
    def at_their_degrees(epsilon, delta, constant):
        excess = constant / epsilon**2 * math.log(4 / delta)
        return float(removal_delta(1.0, excess + 1, epsilon))

    assert at_their_degrees(4.0, 1e-6, 14) == pytest.approx(2.6e-5, rel=0.03)
    assert at_their_degrees(4.0, 1e-6, 28) < 1e-8
    assert at_their_degrees(1.0, 1e-6, 14) < 1e-20
    assert at_their_degrees(1.0, 1e-3, 14) < 1e-12


def precise_curve(scale, freedom, epsilon):
    """Return both directions in 40 digits; new maximisations find the thresholds."""
    with mpmath.workdps(40):
        c, k, e = mpmath.mpf(scale), mpmath.mpf(freedom), mpmath.mpf(epsilon)

        def below(x):
            return (
                mpmath.gammainc(k / 2, 0, x / (2 * c), regularized=True) if x > 0 else mpmath.mpf(0)
            )

        def best(value):
            points = [mpmath.mpf(10) ** (mpmath.mpf(i) / 40) for i in range(-120, 161)]
            at = max(points, key=value)
            for width in (mpmath.mpf(1) / 40, mpmath.mpf(1) / 800, mpmath.mpf(1) / 16000):
                around = [at * 10 ** (width * i / 20) for i in range(-20, 21)]
                at = max(around, key=value)
            return float(max(value(at), value(mpmath.mpf(1))))

        removal = best(lambda x: below(x) - mpmath.exp(e) * below(x - 1))
        addition = best(lambda x: 1 - below(x) - mpmath.exp(e) * (1 - below(x + 1)))
        return removal, max(addition, 0.0)


@pytest.mark.parametrize(
    ("scale", "freedom", "epsilon"),
    [(1.0, 43.0, 1.0), (0.2, 30.0, 1.0), (0.3, 5.0, 0.5), (3.0, 4.0, 2.0), (0.05, 300.0, 1.0)],
)
def test_the_curve_is_the_best_threshold_test_and_rounded_up(scale, freedom, epsilon):
    removal, addition = precise_curve(scale, freedom, epsilon)
    found = removal_delta(scale, freedom, epsilon), addition_delta(scale, freedom, epsilon)
    assert found[0] == pytest.approx(removal, rel=1e-5)
    assert found[0] >= removal
    assert found[1] == pytest.approx(addition, rel=1e-5, abs=1e-8)
    assert found[1] >= addition - 1e-30


def log_density(matrix, degrees):
    """Return the log density of Wishart_d(m, I) up to a constant; -inf outside the cone."""
    d = matrix.shape[-1]
    sign, log = np.linalg.slogdet(matrix)
    inside = np.linalg.eigvalsh(matrix)[:, 0] > 0
    value = (degrees - d - 1) / 2 * log - np.trace(matrix, axis1=1, axis2=2) / 2
    return np.where(inside & (sign > 0), value, -np.inf)


def simulated_excesses(d, degrees, epsilon, count, seed):
    """Return (count,) values whose means are both directions of delta, from matrices at c = 1."""
    rng = np.random.default_rng(seed)
    noise = gram(d, degrees, count, seed) + degrees * np.eye(d)
    row = np.linalg.qr(rng.standard_normal((d, d)))[0][:, 0]
    shift = np.outer(row, row)
    absent = log_density(noise, degrees) - log_density(noise - shift, degrees)
    present = log_density(noise, degrees) - log_density(noise + shift, degrees)
    return [np.maximum(1 - np.exp(epsilon - loss), 0) for loss in (absent, present)]


@pytest.mark.parametrize(("d", "degrees", "epsilon"), [(3, 8, 0.3), (4, 6, 0.2), (2, 5, 0.1)])
def test_whole_matrices_lose_what_the_curve_says(d, degrees, epsilon):
    removal, addition = simulated_excesses(d, degrees, epsilon, 60_000, 9)
    k = float(degrees - d + 1)
    assert mean_p_value(removal, float(removal_delta(1.0, k, epsilon))) > PASSES
    assert mean_p_value(addition, float(addition_delta(1.0, k, epsilon))) > PASSES
    for wrong in (k + 1, k + 2):
        assert mean_p_value(removal, float(removal_delta(1.0, wrong, epsilon))) < REJECTED


@pytest.mark.parametrize("angle", [0.3, 1.0, math.pi / 2])
@pytest.mark.parametrize("epsilon", [0.05, 0.1])
def test_replacing_a_row_loses_no_more_than_certified(epsilon, angle):
    d, degrees, scale = 3, 20, 4.0
    noise = gram(d, degrees, 60_000, 10) + degrees * np.eye(d)
    rows = np.array([1.0, 0, 0]), np.array([math.cos(angle), math.sin(angle), 0])
    one, other = (np.outer(row, row) / scale for row in rows)
    loss = log_density(noise, degrees) - log_density(noise + one - other, degrees)
    found = np.maximum(1 - np.exp(epsilon - loss), 0).mean()
    freedom = float(degrees - d + 1)
    assert found <= replacement_delta(scale, freedom, epsilon)
    assert (found > 1.1 * row_delta(scale, freedom, epsilon)) == (angle > 1.1)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 1.0), (0.2, 0.5), (1.0, 4.0)])
def test_with_many_degrees_the_curves_are_those_of_gaussian_noise(mu, epsilon):
    freedom = 1e8
    scale = 1 / (mu * math.sqrt(2 * freedom))
    single = float(row_delta(scale, freedom, epsilon))
    assert single == pytest.approx(gaussian_delta(mu, epsilon), rel=0.02)
    splits = np.linspace(0, epsilon, 33)
    chained = min(
        gaussian_delta(mu, e) + math.exp(e) * gaussian_delta(mu, epsilon - e) for e in splits
    )
    assert float(replacement_delta(scale, freedom, epsilon)) == pytest.approx(chained, rel=0.02)
    assert chained > gaussian_delta(math.sqrt(2) * mu, epsilon)


# Calibration.


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("d", [1, 5, 50])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_calibration_uses_up_its_delta_and_comes_near_gaussian_noise(epsilon, d, neighbors):
    lattice, budget = Lattice(d, 1.0), ApproxDP(epsilon, 1e-6)
    law = AdditiveWishart(trace_share=0.0).calibrate(lattice, budget, neighbors).matrix
    curve = replacement_delta if neighbors is SWAP and d > 1 else row_delta
    freedom = float(law.degrees - d + 1)
    spent = float(curve(law.scale / lattice.bound, freedom, epsilon))
    assert 0.999e-6 < spent <= 1e-6
    gaussian = Gaussian(trace_share=0.0).calibrate(lattice, budget, neighbors).matrix
    ratio = law.diagonal_variance**0.5 / gaussian.diagonal_variance**0.5
    assert 1 < ratio < (1.45 if curve is replacement_delta else 1.03)


def test_the_trace_takes_its_share_of_epsilon_and_none_at_order_one():
    lattice, budget = Lattice(4, 1.0), ApproxDP(1.0, 1e-6)
    for neighbors in Neighbors:
        noise = AdditiveWishart(trace_share=0.2).calibrate(lattice, budget, neighbors)
        assert float(noise.trace.scale) == pytest.approx(lattice.unit_bound / 0.2)
        assert float(noise.trace_alone.scale) == lattice.unit_bound
        less = ApproxDP(0.8, 1e-6)
        alone = AdditiveWishart(trace_share=0.0).calibrate(lattice, less, neighbors)
        assert noise.matrix.scale == pytest.approx(alone.matrix.scale, rel=1e-9)
    assert AdditiveWishart().calibrate(Lattice(1, 1.0), budget, ADD).trace is None


def test_persons_are_protected_by_chains_of_rows():
    step = one_of(ApproxDP(1.0, 1e-6), 4)
    whole = sum(step.delta * math.exp(i * step.epsilon) for i in range(4))
    assert step.epsilon == 0.25
    assert 1e-6 * (1 - 1e-8) < whole <= 1e-6
    person = AdditiveWishart().calibrate(
        Lattice(3, 1.0, 0.0, Unit("id", 2)), ApproxDP(1.0, 1e-6), ADD
    )
    row = AdditiveWishart().calibrate(Lattice(3, 1.0), ApproxDP(1.0, 1e-6), ADD)
    assert 2 < person.matrix.spread / row.matrix.spread < 3
    with pytest.raises(MechanismError, match="so many rows"):
        one_of(ApproxDP(1000.0, 1e-6), 4)


@pytest.mark.parametrize("degrees", [True, 2.5, 4, 5, 2**20])
def test_degrees_outside_the_theorem_are_refused(degrees):
    with pytest.raises(MechanismError, match="degrees"):
        AdditiveWishart(degrees=degrees).calibrate(Lattice(4, 1.0), ApproxDP(1.0, 1e-6), ADD)
