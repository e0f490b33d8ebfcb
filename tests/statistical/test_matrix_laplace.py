"""Matrix Laplace noise: its law, its privacy at d = 1 and 2, and its low bits."""

from fractions import Fraction

import numpy as np
import pytest
from checks import PASSES, REJECTED, equal_shares_p_value, mean_p_value
from scipy import integrate, special, stats

from dpcov.core.entropy import Entropy
from dpcov.core.samplers.normal import standard_normals
from dpcov.core.samplers.wishart import WishartDifference
from dpcov.mechanisms import additive
from dpcov.published.consistency import shift_for

C = 2.0**36


def drawn(law, count, seed):
    """Return (count, d, d) draws in units of the scale C."""
    entropy = Entropy.seeded(seed)
    return np.stack([law.sample(entropy) for _ in range(count)]) / C


def with_degrees(d, degrees, count, seed):
    """Return (count, d, d) differences of Wishart matrices of any degrees of freedom, scale 1."""
    factors = np.random.default_rng(seed).standard_normal((2, count, d, degrees))
    first, second = factors @ factors.swapaxes(2, 3)
    return first - second


# The law.


def test_one_by_one_noise_is_laplace_of_scale_2c_and_no_other():
    draws = drawn(WishartDifference(1, C), 20_000, 1).ravel()
    assert stats.kstest(draws, "laplace", (0, 2)).pvalue > PASSES
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(draws * wrong, "laplace", (0, 2)).pvalue < REJECTED
    one_degree = with_degrees(1, 1, 20_000, 1).ravel()
    assert stats.kstest(one_degree, "laplace", (0, 2)).pvalue < REJECTED


def moment_p_values(draws):
    """Return p-values for diagonal variance 4m and off-diagonal variance 2m, with m = d + 1."""
    d = draws.shape[1]
    squares = draws**2
    diagonal = np.trace(squares, axis1=1, axis2=2) / d
    off = (squares.sum(axis=(1, 2)) - d * diagonal) / (d * (d - 1))
    return [mean_p_value(diagonal, 4 * (d + 1)), mean_p_value(off, 2 * (d + 1))]


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 5, 20])
def test_variances_are_4m_and_2m_with_m_one_more_than_d(d):
    draws = drawn(WishartDifference(d, C), 40_000 // d, 2)
    assert min(moment_p_values(draws)) > PASSES
    assert mean_p_value(np.trace(draws, axis1=1, axis2=2), 0) > PASSES
    assert max(moment_p_values(draws * 2 / 3)) < REJECTED
    assert max(moment_p_values(with_degrees(d, d, 40_000, 2))) < REJECTED
    frobenius = (draws**2).sum(axis=(1, 2))
    law = WishartDifference(d, 1.0)
    assert mean_p_value(frobenius, law.frobenius_squared) > PASSES


def direction_p_value(draws):
    """Compare v'Zv along an axis and along the diagonal, on separate halves."""
    d = draws.shape[1]
    diagonal = np.full(d, d**-0.5)
    half = len(draws) // 2
    along = np.einsum("i,nij,j->n", diagonal, draws[half:], diagonal)
    return stats.ks_2samp(draws[:half, 0, 0], along).pvalue


def test_no_direction_is_preferred():
    assert direction_p_value(drawn(WishartDifference(4, C), 20_000, 3)) > PASSES
    entries = np.random.default_rng(3).laplace(size=(20_000, 4, 4))
    entries = np.tril(entries) + np.tril(entries, -1).swapaxes(1, 2)
    assert direction_p_value(entries) < REJECTED


def test_simulated_noise_has_the_law_of_the_release_noise():
    law = WishartDifference(3, C)
    generator = np.random.default_rng(4)
    simulated = np.stack([law.simulate(generator) for _ in range(10_000)]) / C
    released = drawn(law, 10_000, 5)
    for pick in (lambda z: z[:, 0, 0], lambda z: z[:, 1, 0], lambda z: np.linalg.eigvalsh(z)[:, 2]):
        assert stats.ks_2samp(pick(simulated), pick(released)).pvalue > PASSES
        assert stats.ks_2samp(pick(simulated) * 1.2, pick(released)).pvalue < REJECTED
    assert law.rescaled(0.5).scale == C / 2


# Privacy at d = 1 and d = 2, where the density can be computed.


def log_density_1(z, m):
    """Return the log density of c (chi2_m - chi2_m) at c = 1, up to a constant."""
    z, order = abs(z), (m - 1) / 2
    return order * np.log(z) + np.log(special.kve(order, z / 2)) - z / 2


def log_density_2(matrix):
    """Return the log density at d = 2, m = 3, c = 1, up to a constant.

    With Z = [[t + x, y], [y, t - x]], r = |(x, y)|, the theorem's integral over A >= 0, A >= Z is
    one over the plane of exp(-2 max(|v|, t + |v - (x, y)|)), which elliptic coordinates with foci 0
    and (x, y) split: r^2 (J0 (K0 + K1 / r) - J2 K0), Bessel K at r, Jk = int_0^pi cos^k exp(-|r cos
    - t|).
    """
    t = np.trace(matrix) / 2
    r = max(float(np.hypot((matrix[0, 0] - matrix[1, 1]) / 2, matrix[0, 1])), 1e-9)
    kink = [np.arccos(t / r)] if abs(t) < r else None
    lowest = max(abs(t) - r, 0)

    def j(power):
        def integrand(angle):
            return np.cos(angle) ** power * np.exp(lowest - abs(r * np.cos(angle) - t))

        return integrate.quad(integrand, 0, np.pi, points=kink, limit=200, epsabs=0)[0]

    k0, k1 = special.kve(0, r), special.kve(1, r)
    return 2 * np.log(r) + np.log(j(0) * (k0 + k1 / r) - j(2) * k0) - r - lowest


def loss_over_bound(log_density, pairs, factor=1.0):
    """Return the largest |log f(Z + D) - log f(Z)| over its bound ||D||_* / 2.

    The noise is `factor` times as wide.
    """
    ratios = []
    for z, change in pairs:
        loss = abs(log_density((z + change) / factor) - log_density(z / factor))
        nuclear = np.abs(np.linalg.eigvalsh(np.atleast_2d(change))).sum()
        ratios.append(loss / (nuclear / 2))
    return max(ratios)


def test_at_order_one_the_loss_is_the_bound_and_fewer_degrees_break_it():
    pairs = [(z, 1.0) for z in (1e-9, 0.1, 1.0, 5.0)]
    assert loss_over_bound(lambda z: log_density_1(z, 2), pairs) == pytest.approx(1, abs=1e-8)
    assert loss_over_bound(lambda z: log_density_1(z, 3), pairs) < 1
    fewer = loss_over_bound(lambda z: log_density_1(z, 1.5), pairs)
    assert fewer == pytest.approx(0.982 / 0.5, abs=2e-3)


def test_the_density_at_order_two_matches_the_integral_over_the_plane():
    def integral(t, r):
        def plane(y, x):
            return np.exp(-2 * max(np.hypot(x, y), t + np.hypot(x - r, y)))

        value, _ = integrate.dblquad(plane, -12, 12, -12, 12, epsabs=1e-5, epsrel=1e-5)
        return np.log(value) + t

    matrices = [np.diag([t + r, t - r]) for t, r in ((0.3, 1.0), (-0.8, 0.4))]
    direct = integral(0.3, 1.0) - integral(-0.8, 0.4)
    closed = log_density_2(matrices[0]) - log_density_2(matrices[1])
    assert closed == pytest.approx(direct, abs=1e-3)


def test_at_order_two_the_loss_along_a_line_is_the_one_of_the_specification():
    change = np.diag([1.0, -1.0])
    found = [loss_over_bound(log_density_2, [(t * change, change)]) for t in (0, 1, 3, 10, 30, 100)]
    assert found == pytest.approx([0.74, 0.84, 0.90, 0.96, 0.985, 0.995], abs=6e-3)


def pairs_2(count):
    """Yield noise values and changes at d = 2: random ones of many sizes, and far along a line."""
    rng = np.random.default_rng(6)
    for _ in range(count):
        z, change = rng.standard_normal((2, 2, 2)) * np.exp(rng.uniform(-3, 3, (2, 1, 1)))
        yield z + z.T, change + change.T
    for t in (10.0, 30.0, 100.0):
        yield np.diag([t, -t]), np.diag([1.0, -1.0])
        yield np.diag([t, t]), np.diag([-1.0, -2.0])


def test_at_order_two_the_loss_never_exceeds_the_bound_and_comes_near_it():
    pairs = list(pairs_2(600))
    assert 0.99 < loss_over_bound(log_density_2, pairs) <= 1 + 1e-6
    assert loss_over_bound(log_density_2, pairs, factor=0.97) > 1.02


def cell_p_value(draws):
    """Return the chi-square p-value of (t, r) of 2 x 2 draws; the density has the Jacobian r."""
    t = np.trace(draws, axis1=1, axis2=2) / 2
    r = np.hypot((draws[:, 0, 0] - draws[:, 1, 1]) / 2, draws[:, 0, 1])
    ts, rs = np.linspace(-12, 12, 97), np.linspace(0, 18, 73)
    middle_t, middle_r = (ts[1:] + ts[:-1]) / 2, (rs[1:] + rs[:-1]) / 2
    density = np.array(
        [[r * np.exp(log_density_2(np.diag([t + r, t - r]))) for r in middle_r] for t in middle_t]
    )
    observed = np.histogram2d(t, r, (ts, rs))[0]
    # 4 x 4 fine cells make one, so that their middles stand for the integral.
    coarse = [m.reshape(24, 4, 18, 4).sum(axis=(1, 3)).ravel() for m in (observed, density)]
    expected = coarse[1] / coarse[1].sum() * coarse[0].sum()
    big = expected > 10
    counts = [np.append(m[big], m[~big].sum()) for m in (coarse[0], expected)]
    return stats.chisquare(*counts).pvalue


@pytest.mark.slow
def test_draws_at_order_two_follow_that_density():
    assert cell_p_value(drawn(WishartDifference(2, C), 20_000, 7)) > PASSES
    assert cell_p_value(with_degrees(2, 2, 20_000, 7)) < REJECTED
    assert cell_p_value(drawn(WishartDifference(2, 1.1 * C), 20_000, 7)) < REJECTED


# Low bits.


def correct_bits(law, present, entropy):
    """Return the lowest published bits of a diagonal of noise, or of noise plus one odd row."""
    shift = shift_for(law.spread)
    sums = law.sample(entropy).astype(object) + present
    return additive.coarse(sums, shift).diagonal() & 1


def rounded_to_even(law, present, entropy):
    """Round half to even, and publish on the finest lattice (broken)."""
    factors = standard_normals(2 * law.dimension * law.degrees, entropy)
    noise = law._difference(*factors.reshape(2, law.dimension, law.degrees))
    return (np.rint(noise).astype(np.int64) + present).diagonal() & 1


def published_too_finely(law, present, entropy):
    """Publish correct noise on a lattice that is too fine (broken)."""
    return (law.sample(entropy) + present).diagonal() & 1


def parity_attack(bits, d, epsilon, count):
    """Return the p-value for equal low bits with and without one row of odd entries."""
    law = WishartDifference(d, float(Fraction(2**40) / Fraction(str(epsilon))))
    found = []
    for present in (0, 1):
        entropy = Entropy.seeded(8 + present)
        found.append(np.concatenate([bits(law, present, entropy) for _ in range(count)]))
    return equal_shares_p_value(*found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("d", "epsilon", "count"), [(1, 1.0, 3000), (108, 0.1, 150), (300, 0.01, 40), (300, 1.0, 40)]
)
def test_the_low_published_bit_says_nothing_about_a_row(d, epsilon, count):
    assert parity_attack(correct_bits, d, epsilon, count) > PASSES


@pytest.mark.slow
@pytest.mark.parametrize("broken", [rounded_to_even, published_too_finely])
def test_the_parity_attack_catches_noise_that_floats_cannot_carry(broken):
    assert parity_attack(broken, 300, 0.01, 40) < REJECTED


@pytest.mark.slow
def test_the_low_published_bit_says_nothing_at_a_thousand_columns():
    assert parity_attack(correct_bits, 1000, 1.0, 20) > PASSES
    assert parity_attack(correct_bits, 300, 0.01, 600) > PASSES
    assert parity_attack(rounded_to_even, 108, 0.1, 600) < REJECTED


def test_halves_are_rounded_up_so_that_rounding_commutes_with_integer_shifts(monkeypatch):
    halves = np.array([[-1.5, -0.5], [0.5, 1.5]])
    for shift in (0, 1, 2**40 + 1):
        monkeypatch.setattr(WishartDifference, "_difference", lambda *_, by=shift: halves + by)
        rounded = WishartDifference(2, C).sample(Entropy.seeded(1)) - shift
        assert rounded.tolist() == [[-1, 0], [1, 2]]


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 2.0**35])
def test_what_is_published_is_the_sum_rounded_to_the_coarser_lattice(epsilon):
    law = WishartDifference(3, 2**40 / epsilon)
    shift = shift_for(law.spread)
    assert (shift == 0) == (law.scale < 2**11)
    noise = law.sample(Entropy.seeded(9)).astype(object)
    published = additive.coarse(noise + 12345, shift)
    assert published.dtype == np.int64
    np.testing.assert_array_equal(published, published.T)
    away = published.astype(object) * 2**shift - (noise + 12345)
    assert all(-(2**shift) < 2 * x <= 2**shift for x in away.ravel())
    assert 2**shift <= max(1, law.scale / 2**10)
