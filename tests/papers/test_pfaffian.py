"""Points by Pfaffians: moments, the certified search, its limits and its start."""

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from scipy import special

from dpcov.core.entropy import Entropy
from dpcov.papers.samplers import pfaffian
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, LineEnsemble, Uniform, largest_first

# Moments.

NODES, WEIGHTS = np.polynomial.legendre.leggauss(80)


def exact_moments(powers, low, x):
    """Return a(x) and A(x) from incomplete gamma functions and one Gaussian quadrature."""

    def below(power, y):
        """Return the integral of t^power exp(-|t|) from `low` to y."""
        whole = special.gamma(power + 1)
        positive = whole * special.gammainc(power + 1, np.maximum(y, 0))
        negative = (-1) ** power * whole * special.gammaincc(power + 1, np.maximum(-y, 0))
        return positive + (negative if low < 0 else 0)

    a = [below(power, np.array(x)) for power in powers]
    ends = [end for end in (-60, -15, -4, 0, 4, 15, 60) if low * 100 <= end < x] + [min(x, 60.0)]
    A = np.zeros((len(powers), len(powers)))
    for left, right in pairwise(ends):
        y = (left + right + (right - left) * NODES) / 2
        f = np.array([y**power * np.exp(-np.abs(y)) for power in powers])
        inner = np.array([below(power, y) for power in powers])
        products = np.einsum("jn,kn,n->jk", inner, f, WEIGHTS * (right - left) / 2)
        A += products - products.T
    return a, A


def assert_balls_hold(found, exact):
    """Check that the balls are tight and contain the exact numbers."""
    assert max(float(ball.rad()) for ball in np.ravel(found)) < 1e-30
    np.testing.assert_allclose(np.array(found, dtype=float), exact, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("x", [-3.0, -1e-3, 0.0, 1e-3, 2.0, math.inf])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_moments_on_the_line_are_their_integrals(d, x):
    with ctx.workprec(200):
        found = LineEnsemble(d).moments(x)
    for balls, exact in zip(found, exact_moments(range(d), -1, x), strict=True):
        assert_balls_hold(balls, exact)


@pytest.mark.parametrize("x", [0.0, 1e-3, 2.0, math.inf])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_moments_on_the_half_line_are_their_integrals(d, x):
    with ctx.workprec(200):
        found = HalfLineEnsemble(d).moments(x)
    for balls, exact in zip(found, exact_moments(range(0, 2 * d, 2), 0, x), strict=True):
        assert_balls_hold(balls, exact)


def test_limits_and_edges_are_those_of_the_laws():
    assert pfaffian.tail_free(6.0) == 412.0
    line, half = LineEnsemble(3), HalfLineEnsemble(3)
    assert (line.lowest, line.highest) == (-412.0, 412.0)
    assert (half.lowest, half.highest) == (0.0, 418.0)
    assert line.edge == pytest.approx(1.5 * math.pi)
    assert half.edge == pytest.approx(3 * math.pi)
    assert float(line.feature(arb(3))) == 3
    assert float(half.feature(arb(3))) == 9


# The uniform number.


class Words:
    """Entropy of given words."""

    def __init__(self, *words):
        self.left = list(words)

    def words(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        return np.array(taken, np.uint64)


@pytest.mark.parametrize("words", [(0,), (1,), (2**63,), (2**64 - 1,), (5, 2**63 + 7, 3)])
def test_the_logarithm_is_that_of_the_middle_of_the_cell(words):
    uniform = Uniform(Words(*words))
    for _ in words[1:]:
        uniform._extend()
    with mpmath.workdps(60):
        whole = sum(word * 2 ** (64 * i) for i, word in enumerate(reversed(words)))
        middle = mpmath.log(whole + mpmath.mpf(1) / 2) - 64 * len(words) * mpmath.log(2)
        assert uniform.log() == pytest.approx(float(middle), abs=1e-13)


def test_sides_are_decided_by_the_cell_of_the_bits_drawn():
    """The number lies in [5, 6) 2^-64; balls beside that cell need no further bits."""
    with ctx.workprec(300):
        unit = arb(1) / 2**64
        assert Uniform(Words(5)).side(unit * 7) == 1
        assert Uniform(Words(5)).side(unit * 6 + unit / 2**60) == 1
        assert Uniform(Words(5)).side(unit * 4) == -1
        assert Uniform(Words(5)).side(unit * 5 - unit / 2**60) == -1
        inside = unit * 5 + unit / 2
        assert Uniform(Words(5, 2**62)).side(inside) == 1
        assert Uniform(Words(5, 2**63 + 1)).side(inside) == -1


def test_a_ball_wider_than_half_a_cell_asks_for_precision_and_no_bits():
    with ctx.workprec(300):
        unit = arb(1) / 2**64
        for radius in (0.3, 0.6, 2.0):
            assert Uniform(Words(5)).side(unit * 5 + unit * arb(0.5, radius)) == 0


# Conditional distributions.


def probability(conditional, x):
    with ctx.workprec(300):
        return conditional._pfaffian(x) / conditional._total


@pytest.mark.parametrize("ensemble", [LineEnsemble(3), HalfLineEnsemble(3), LineEnsemble(2)])
@pytest.mark.parametrize("x", [0.1, 1.5, 4.0])
def test_comparisons_give_the_logarithm_of_the_ratio(ensemble, x):
    conditional = pfaffian._Conditional(ensemble, [], 300)
    expected = math.log(float(probability(conditional, x)))
    for seed in range(3):
        uniform = Uniform(Entropy.seeded(seed))
        side, guess = conditional.compare(x, uniform)
        assert guess == pytest.approx(expected - uniform.log(), rel=1e-9)
        assert side == math.copysign(1, guess)
    assert conditional.precision == 300


def test_an_impossible_point_is_below_every_number_by_a_huge_step():
    conditional = pfaffian._Conditional(HalfLineEnsemble(2), [], 200)
    assert conditional.compare(0.0, Uniform(Entropy.seeded(1))) == (-1, -1e3)


def test_precision_grows_until_the_sides_differ():
    conditional = pfaffian._Conditional(LineEnsemble(3), [], 8)
    uniform = Uniform(Entropy.seeded(1))
    side, guess = conditional.compare(0.7, uniform)
    exact = pfaffian._Conditional(LineEnsemble(3), [], 400)
    expected = exact.compare(0.7, Uniform(Entropy.seeded(1)))
    assert (side, pytest.approx(guess, rel=0.1)) == expected
    assert conditional.precision > 8


def test_a_number_close_to_the_probability_takes_more_precision():
    conditional = pfaffian._Conditional(LineEnsemble(3), [], 100)
    with ctx.workprec(2000):
        fine = pfaffian._Conditional(LineEnsemble(3), [], 2000)
        value = fine._pfaffian(0.7) / fine._total
        whole = int((value * 2**256).floor().unique_fmpz())
    words = [whole >> (64 * i) & (2**64 - 1) for i in (3, 2, 1, 0)]
    for nudge, side in ((-1, 1), (1, -1)):
        changed = [*words[:-1], words[-1] + nudge * 2**20]
        found = conditional.compare(0.7, Uniform(Words(*changed, 0, 0)))
        assert found[0] == side
    assert conditional.precision > 200


def test_the_reduction_is_multiplication_by_the_polynomial_of_the_larger_points():
    larger = [2.0, -0.5]
    with ctx.workprec(200):
        for ensemble, roots in (
            (LineEnsemble(5), larger),
            (HalfLineEnsemble(5), [x * x for x in larger]),
        ):
            matrix = pfaffian._toeplitz(ensemble, larger)
            found = np.array(matrix.tolist(), dtype=float)
            assert found.shape == (5, 3)
            for j, column in enumerate(found.T):
                expected = np.polynomial.polynomial.polyfromroots([*roots, *[0.0] * j])
                np.testing.assert_allclose(column[: j + 3], expected)
                assert not column[j + 3 :].any()


# The search.


def steps(function, start, lowest, highest, sign=None):
    """Return the result of the search, and the places that it tried."""
    places = []

    def compare(x):
        places.append(x)
        value = function(x)
        return (1 if value > 0 else -1) if sign is None else sign(x), value

    return pfaffian._crossing(compare, start, lowest, highest), places


@pytest.mark.parametrize(
    ("root", "start", "expected"),
    [
        (0.5, 0.0, [0.0, 1.0]),
        (20.0, 0.0, [0.0, 1.0, 3.0, 7.0, 15.0, 31.0]),
        (-20.0, 0.0, [0.0, -1.0, -3.0, -7.0, -15.0, -31.0]),
        (44.0, 5.0, [5.0, 6.0, 8.0, 12.0, 20.0, 36.0, 50.0]),
        (-48.0, -40.0, [-40.0, -41.0, -43.0, -47.0, -50.0]),
    ],
)
def test_brackets_double_towards_the_crossing_and_stop_at_the_limits(root, start, expected):
    found = []

    def compare(x):
        found.append(x)
        return (1 if x > root else -1), x - root

    near_and_far = pfaffian._bracket(compare, start, -50.0, 50.0)
    assert found == expected
    near, far = expected[-2:]
    assert near_and_far == (
        near,
        1 if near > root else -1,
        near - root,
        far,
        1 if far > root else -1,
        far - root,
    )


@pytest.mark.parametrize("sign", [-1, 1])
def test_without_a_crossing_the_bracket_is_twice_the_limit(sign):
    found = pfaffian._bracket(lambda x: (-sign, -sign * 2.0), 3.0, -50.0, 60.0)
    limit = 60.0 if sign > 0 else -50.0
    assert found == (limit, -sign, -sign * 2.0) * 2


def chandrupatla(function, start, lowest, highest, resolution):
    """Return the published algorithm's next point, by inverse quadratic interpolation.

    The step is safe if the curve through the three points, scaled to the unit square, stays between
    the parabolas phi = sqrt(xi) and 1 - phi = sqrt(1 - xi).
    """
    places = [start]
    near, far, step = start, start, -math.copysign(1, function(start))
    while (function(near) > 0) == (function(far) > 0):
        near, far, step = far, min(max(far + step, lowest), highest), 2 * step
        places.append(far)
    newest, opposite, former = near, far, None
    share = 0.5
    while True:
        x = newest + share * (opposite - newest)
        places.append(x)
        if (function(x) > 0) == (function(newest) > 0):
            newest, former = x, newest
        else:
            newest, opposite, former = x, newest, opposite
        least = resolution * max(1.0, abs(x)) / abs(opposite - newest)
        if least > 0.5:
            return (newest + opposite) / 2, places
        f1, f2, f3 = map(function, (newest, opposite, former))
        xi = (newest - opposite) / (former - opposite)
        phi = (f1 - f2) / (f3 - f2)
        share = 0.5
        if phi < math.sqrt(xi) and 1 - phi < math.sqrt(1 - xi):
            guess = (
                newest * f2 * f3 / ((f1 - f2) * (f1 - f3))
                + opposite * f1 * f3 / ((f2 - f1) * (f2 - f3))
                + former * f1 * f2 / ((f3 - f1) * (f3 - f2))
            )
            share = min(max((guess - newest) / (opposite - newest), least), 1 - least)


CURVES = {
    "cube": lambda x: x**3 - 2,
    "line": lambda x: x - 17.3,
    "logistic": lambda x: 1 / (1 + math.exp(-x)) - 0.9,
    "logarithm": lambda x: math.log(x + 60) - 4.1,
    "flat": lambda x: (x - 1.5) ** 9,
    "steep": lambda x: math.atan(40 * (x + 3)),
    "kink": lambda x: x - 2 if x < 2 else 50 * (x - 2),
    "exponential": lambda x: math.exp(x) - 1e-3,
    "far": lambda x: math.atan((x - 4000) / 300),
}


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("start", [0.0, -7.25, 13.0])
def test_the_search_visits_the_points_of_chandrupatla(curve, start):
    function = CURVES[curve]
    expected, wanted = chandrupatla(function, start, -50.0, 9000.0, 2.0**-48)
    found, places = steps(function, start, -50.0, 9000.0)
    assert found == pytest.approx(expected, rel=2.0**-45, abs=2.0**-45)
    assert len(places) == pytest.approx(len(wanted), abs=2)
    np.testing.assert_allclose(places[:-3][: len(wanted)], wanted[: len(places) - 3], atol=1e-9)


@pytest.mark.parametrize("root", [1e-3, 0.7, 3.0, 40.0, 2000.0, -777.7])
def test_crossings_are_within_the_resolution_even_if_values_are_uninformative(root):
    def sign(x):
        return 1 if x > root else -1

    for value in (lambda x: 0.0, lambda x: 1e3 * sign(x), lambda x: x - root):
        found, places = steps(value, 0.0, -5000.0, 5000.0, sign)
        assert abs(found - root) <= 2.0**-48 * max(1.0, abs(root))
        assert len(places) < 75
        assert all(-5000 <= x <= 5000 for x in places)
    assert len(places) < 25


def test_a_crossing_is_the_middle_of_a_bracket_no_wider_than_twice_the_resolution():
    last = {}

    def compare(x):
        side = 1 if x > 1000.0 / 3 else -1
        last[side] = x
        return side, x - 1000.0 / 3

    found = pfaffian._crossing(compare, 300.0, -5000.0, 5000.0)
    assert found == (last[1] + last[-1]) / 2
    width = last[1] - last[-1]
    assert 0 < width < 2 * 2.0**-48 * 1000 / 3 * (1 + 1e-9)


@pytest.mark.parametrize("ensemble", [LineEnsemble, HalfLineEnsemble])
def test_drawn_points_are_the_inverses_of_their_conditional_distributions(ensemble):
    entropy, words = Entropy.seeded(8), Entropy.seeded(8)
    law = ensemble(4)
    points = largest_first(law, entropy)
    for k, point in enumerate(points):
        conditional = pfaffian._Conditional(law, points[:k], 300)
        uniform = int(words.words(1)[0]) / 2**64
        slack = 2.0**-44 * max(1.0, abs(point))
        low, high = (float(probability(conditional, point + by)) for by in (-slack, slack))
        assert low - 1e-15 <= uniform <= high + 1e-15


@pytest.mark.parametrize("ensemble", [LineEnsemble, HalfLineEnsemble])
def test_a_draw_takes_few_comparisons_that_begin_at_the_edge_or_beside_the_last_point(
    ensemble, monkeypatch
):
    law, places = ensemble(5), []
    original = pfaffian._Conditional.compare

    def compare(self, x, uniform):
        places.append((len(self.larger), x))
        return original(self, x, uniform)

    monkeypatch.setattr(pfaffian._Conditional, "compare", compare)
    points = largest_first(law, Entropy.seeded(9))
    starts = [next(x for k, x in places if k == order) for order in range(5)]
    assert starts[0] == law.edge
    assert starts[1:] == [max(point - 1, law.lowest) for point in points[:-1]]
    assert len(places) < 15 * 5
    for order, x in places:
        assert law.lowest <= x <= (points[order - 1] if order else law.highest)


def test_points_of_order_twelve_are_drawn():
    points = largest_first(LineEnsemble(12), Entropy.seeded(10))
    assert sorted(points, reverse=True) == points
    assert len(points) == 12
