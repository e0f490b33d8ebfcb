"""Nuclear-Laplace noise: Pfaffian moments, certified comparisons, constants, refusals."""

import math
from itertools import pairwise

import numpy as np
import pytest
from flint import arb, arb_mat, ctx
from scipy import integrate

from dpcov.core.entropy import Entropy
from dpcov.errors import MechanismError
from dpcov.mechanisms import NuclearLaplace as NuclearMechanism
from dpcov.papers.samplers import nuclear, pfaffian
from dpcov.papers.samplers.nuclear import MAX_EXACT_ORDER, NuclearLaplace, SquareNuclearLaplace
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, LineEnsemble, largest_first

LAWS = (NuclearLaplace, SquareNuclearLaplace)
ENSEMBLES = (LineEnsemble, HalfLineEnsemble)

each_law = pytest.mark.parametrize("law", LAWS)
each_ensemble = pytest.mark.parametrize("ensemble", ENSEMBLES)


# Moments and Pfaffians.


def integrated_moments(powers, low, x):
    """Return a(x) and A(x) by Simpson's rule, with a node at the kink."""
    a = np.zeros(len(powers))
    A = np.zeros((len(powers), len(powers)))
    ends = [low, 0.0, x] if low < 0 < x else [low, x]
    for left, right in pairwise(ends):
        t = np.linspace(left, right, 20_001)
        f = np.array([t**p * np.exp(-abs(t)) for p in powers])
        below = a[:, None] + integrate.cumulative_simpson(f, x=t, initial=0)
        A += integrate.simpson(below[:, None] * f - f[:, None] * below, x=t)
        a = below[:, -1]
    return a, A


@pytest.mark.parametrize("x", [-2.5, -0.3, 0.0, 0.4, 3.0, 12.0])
def test_moments_are_the_integrals_that_define_them(x):
    a, A = LineEnsemble(4).moments(x)
    expected_a, expected_A = integrated_moments(range(4), -50.0, x)
    np.testing.assert_allclose([float(value) for value in a], expected_a, rtol=1e-7)
    np.testing.assert_allclose(np.array(A, float), expected_A, rtol=1e-6, atol=1e-9)
    if x <= 0:
        return
    a, A = HalfLineEnsemble(3).moments(x)
    expected_a, expected_A = integrated_moments((0, 2, 4), 0.0, x)
    np.testing.assert_allclose([float(value) for value in a], expected_a, rtol=1e-7)
    np.testing.assert_allclose(np.array(A, float), expected_A, rtol=1e-6, atol=1e-9)


def first_point_distribution(ensemble, larger, x):
    conditional = pfaffian._Conditional(ensemble, larger, 300)
    return float(conditional._pfaffian(x) / conditional._total)


def test_the_distribution_function_at_order_two_is_the_double_integral():
    def density(u, v):
        return abs(v - u) * np.exp(-abs(u) - abs(v))

    whole = sum(
        integrate.dblquad(density, left, left + 40, -40, lambda v: v, epsabs=1e-7)[0]
        for left in (-40, 0)
    )
    for x in (-0.7, 0.0, 0.9):
        part = integrate.dblquad(density, -40, x, -40, lambda v: v, epsabs=1e-7)[0]
        assert first_point_distribution(LineEnsemble(2), [], x) == pytest.approx(part / whole)


def test_given_the_larger_points_the_last_has_the_density_they_leave():
    larger = [2.0, 0.5, -0.25]

    def density(t):
        return np.prod([point - t for point in larger]) * np.exp(-abs(t))

    whole = integrate.quad(density, -60, -0.25, epsabs=1e-12)[0]
    part = integrate.quad(density, -60, -1.0, epsabs=1e-12)[0]
    found = first_point_distribution(LineEnsemble(4), larger, -1.0)
    assert found == pytest.approx(part / whole, rel=1e-8)
    assert first_point_distribution(LineEnsemble(3), larger[1:], -1.0) != pytest.approx(found)


@each_ensemble
def test_low_precision_is_raised_until_the_answer_is_that_of_high_precision(ensemble):
    drawn = [largest_first(ensemble(6), Entropy.seeded(seed)) for seed in range(3)]
    original = pfaffian._Conditional.__init__

    def with_precision(bits):
        def start(self, law, larger, _):
            original(self, law, larger, bits)

        return start

    for bits in (4, 40, 2000):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pfaffian._Conditional, "__init__", with_precision(bits))
            again = [largest_first(ensemble(6), Entropy.seeded(seed)) for seed in range(3)]
        np.testing.assert_allclose(again, drawn, rtol=2.0**-40, atol=2.0**-40)


def test_a_uniform_number_draws_more_bits_until_it_is_off_the_ball():
    words = [int(word) for word in Entropy.seeded(1).words(4)]
    whole = sum(word << 64 * (3 - i) for i, word in enumerate(words))
    with ctx.workprec(400):
        for shift in (-1, 1):
            uniform = pfaffian.Uniform(Entropy.seeded(1))
            value = arb(2 * whole + 1) / 2**257 + arb(shift) / 2**200
            assert uniform.side(value) == shift
            assert uniform._bits > 64
        wide = arb(whole) / 2**256 + arb(0, 2.0**-30)
        assert pfaffian.Uniform(Entropy.seeded(1)).side(wide) == 0
        assert pfaffian.Uniform(Entropy.seeded(1)).side(arb("nan")) == 0


@each_ensemble
@pytest.mark.parametrize("d", [1, 2, 7])
def test_points_are_inside_their_limits_and_descend(ensemble, d):
    law = ensemble(d)
    points = largest_first(law, Entropy.seeded(2))
    assert len(points) == d
    assert points == sorted(points, reverse=True)
    assert law.lowest <= points[-1]
    assert points[0] < law.highest


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_out_of_reach_gives_the_limit(sign):
    assert pfaffian._crossing(lambda _: (-sign, -sign * 1.0), 0.0, -9.0, 7.0) == (
        7.0 if sign > 0 else -9.0
    )


def test_crossings_are_found_to_the_resolution_in_few_steps():
    calls = []

    def compare(x):
        calls.append(x)
        return (1 if x**3 > 2 else -1), x**3 - 2

    assert pfaffian._crossing(compare, 0.0, -50.0, 50.0) == pytest.approx(2 ** (1 / 3), abs=1e-13)
    assert len(calls) < 25


@pytest.mark.parametrize("exponent", [1, 10, 140, 1000, 1e5])
def test_the_limits_are_exceeded_with_probability_below_two_to_the_minus_four_hundred(exponent):
    t = pfaffian.tail_free(exponent)
    assert (exponent - t + exponent * math.log(t / exponent)) / math.log(2) < -400


# Constants.


def expected_square(ensemble, d):
    """Return E sum x_i^2: the log-derivative of the Pfaffian along the weight w(x) (1 + t x^2)."""
    power = 2 if ensemble is LineEnsemble else 1  # of f that is x^2
    with ctx.workprec(100 + 20 * d):
        a, A = ensemble(d + power).moments(math.inf)
        plain = arb_mat([[A[j][k] for k in range(d)] for j in range(d)])
        raised = arb_mat([[A[j + power][k] + A[j][k + power] for k in range(d)] for j in range(d)])
        if d % 2:
            plain = pfaffian._bordered(plain, arb_mat([a[:d]]))
            raised = pfaffian._bordered(raised, arb_mat([a[power : d + power]]))
        product = plain.solve(raised)
        return float(sum((product[i, i] for i in range(plain.nrows())), arb(0)) / 2)


def test_the_expected_squares_have_their_values_at_small_orders():
    found = [expected_square(LineEnsemble, d) for d in (1, 2, 3, 4)]
    assert found == pytest.approx([2, 25 / 3, 150 / 7, 744 / 17], rel=1e-12)
    assert [expected_square(HalfLineEnsemble, d) for d in (1, 2)] == pytest.approx([2, 15])


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 12, 25, 40])
def test_the_expected_squared_norm_is_that_of_the_pfaffians(d):
    line = NuclearLaplace(d, 3.0).frobenius_squared / 9
    assert line == pytest.approx(expected_square(LineEnsemble, d), rel=2e-4)
    half = SquareNuclearLaplace(d, 3.0).frobenius_squared / 9
    whole = expected_square(HalfLineEnsemble, d)
    assert half == pytest.approx((1 + 1 / d) / 2 * whole, rel=2e-4)


def test_the_limit_of_the_squared_norm_is_that_of_the_specification():
    d = 10**6
    assert NuclearLaplace(d, 1.0).frobenius_squared / d**3 == pytest.approx(np.pi**2 / 24, rel=1e-5)
    square = SquareNuclearLaplace(d, 1.0).frobenius_squared
    assert square / d**3 == pytest.approx(np.pi**2 / 12, rel=1e-5)


@each_law
def test_the_edge_and_the_threshold_are_where_the_r_transform_puts_them(law):
    noise = law(50, 2.0)

    def end(g):
        return 1 / g + noise.r_transform(np.array([g], complex))[0].real

    g = 1 / noise.detectable
    assert end(g) == pytest.approx(noise.edge, rel=1e-6)
    if law is SquareNuclearLaplace:  # its spectrum ends where the inverse of G is stationary
        assert end(0.99 * g) > end(g) < end(1.01 * g)


def test_the_r_transform_inverts_the_stieltjes_transform_of_ullmans_law():
    noise = NuclearLaplace(10, 1.0)
    b = noise.edge
    for z in (1.5 * b, 0.3 * b + 0.4j * b, -0.8 * b + 0.2j * b, 2000j * b):
        t = np.linspace(0, 1, 200_001)[1:] - 0.5 / 200_000
        g = np.mean([1 / np.sqrt(1 - (b * t / z) ** 2)]) / z  # mixture of arcsine laws on [-bt, bt]
        back = 1 / g + noise.r_transform(np.array([g]))[0]
        assert back == pytest.approx(z, rel=1e-6)
    assert noise.r_transform(np.zeros(1, complex))[0] == 0


@each_law
def test_the_spectrum_of_simulations_ends_a_little_inside_the_edge(law):
    generator = np.random.default_rng(1)
    tops = [np.linalg.eigvalsh(law(100, 1.0).simulate(generator))[-1] for _ in range(20)]
    assert 0.93 < np.mean(tops) / law(100, 1.0).edge < 0.98


# Drawing.


@each_law
def test_halves_are_rounded_up_so_that_rounding_commutes_with_integer_shifts(law, monkeypatch):
    halves = np.array([[-1.5, -0.5], [-0.5, 1.5]])
    for shift in (0, 1, 2**40 + 1):
        monkeypatch.setattr(nuclear, "by_rejection", lambda *_, by=shift: halves + by)
        monkeypatch.setattr(nuclear, "_composed", lambda *_, by=shift: halves + by)
        rounded = law(2, 1.0).sample(Entropy.seeded(1)) - shift
        assert rounded.dtype == np.int64
        assert rounded.tolist() == [[-1, 0], [0, 2]]


@each_law
@pytest.mark.parametrize("d", [1, 4, 9])
def test_noise_is_symmetric_and_scales(law, d):
    draw = law(d, 2.0**40).sample(Entropy.seeded(3))
    assert draw.shape == (d, d)
    assert (draw == draw.T).all()
    double = law(d, 2.0**39).rescaled(4.0).sample(Entropy.seeded(3))
    np.testing.assert_allclose(double, 2.0 * draw, atol=2)
    assert law(d, 1.0).simulate(np.random.default_rng(1)).shape == (d, d)


def test_the_route_of_a_release_is_exact_at_every_order(monkeypatch):
    monkeypatch.setattr(nuclear, "simulated_eigenvalues", None)
    monkeypatch.setattr(nuclear, "simulated_singular_values", None)
    for law in LAWS:
        law(9, 2.0**40).sample(Entropy.seeded(4))


@each_law
def test_orders_that_cannot_be_drawn_exactly_are_refused(law):
    law(MAX_EXACT_ORDER, 1.0).require_drawable()
    with pytest.raises(MechanismError, match="for at most"):
        law(MAX_EXACT_ORDER + 1, 1.0).sample(Entropy.seeded(1))


@each_law
@pytest.mark.parametrize("d", [1, 2, 10, 50])
def test_a_scale_is_refused_before_any_entry_exceeds_the_largest(law, d):
    ensemble = LineEnsemble(d) if law is NuclearLaplace else HalfLineEnsemble(d)
    by_rejection = (d + 1) * 9.2**2 / 2
    limit = 2.0**87 / (2 * d * (d + 1) + 400)
    assert limit * max(ensemble.highest, by_rejection) <= 2**87
    law(d, 0.999 * limit).require_drawable()
    for scale in (1.001 * limit, math.inf):
        with pytest.raises(MechanismError, match="too small"):
            law(d, scale).require_drawable()


@each_law
def test_the_description_says_which_law(law):
    document = law(3, 2.5).to_json()
    assert document == {"law": law.law, "dimension": 3, "scale": 2.5}
    assert len({each.law for each in LAWS}) == 2


def test_an_unknown_form_is_refused():
    with pytest.raises(MechanismError, match="form must be 'symmetric' or 'square'"):
        NuclearMechanism(form="round")
