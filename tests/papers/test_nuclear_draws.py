"""Nuclear-Laplace noise: draws by a second formula, routes, batches, R-transforms."""

import math

import mpmath
import numpy as np
import pytest
from scipy import linalg

from dpcov.core.entropy import Entropy
from dpcov.core.samplers import matrix_law
from dpcov.core.samplers.normal import standard_normals
from dpcov.errors import MechanismError
from dpcov.papers.samplers import nuclear
from dpcov.papers.samplers.log_gas import simulated_eigenvalues, simulated_singular_values
from dpcov.papers.samplers.nuclear import NuclearLaplace, SquareNuclearLaplace
from dpcov.papers.samplers.pfaffian import HalfLineEnsemble, LineEnsemble, largest_first

LAWS = (NuclearLaplace, SquareNuclearLaplace)
each_law = pytest.mark.parametrize("law", LAWS)


# What the laws say of themselves.


@each_law
def test_spread_variance_and_edges_are_those_stated(law):
    noise, unit = law(6, 5.0), law(6, 1.0)
    assert noise.spread == 2.5
    assert noise.diagonal_variance == pytest.approx(noise.frobenius_squared / 21, rel=1e-14)
    for name, power in (("edge", 1), ("detectable", 1), ("frobenius_squared", 2)):
        scaled = getattr(unit, name) * 5.0**power
        assert getattr(noise, name) == pytest.approx(scaled, rel=1e-14)
    assert law.rotation_invariant
    assert NuclearLaplace(6, 5.0).edge == pytest.approx(15 * math.pi, rel=1e-14)
    assert NuclearLaplace(6, 5.0).detectable == 30.0


@each_law
def test_the_constants_of_the_fit_hold_from_order_one_to_large_ones(law):
    """Exactly 2 at order one under both laws; the second coefficients come from the fit."""
    assert law(1, 1.0).frobenius_squared == pytest.approx(2, abs=3e-4)
    d = 10**5
    cubic = math.pi**2 / (24 if law is NuclearLaplace else 12)
    quadratic = 0.9159656 if law is NuclearLaplace else (0.59216 + math.pi**2 / 6) / 2
    found = law(d, 1.0).frobenius_squared / d**2 - cubic * d
    assert found == pytest.approx(quadratic, abs=1e-5)


def test_the_edge_of_the_square_law_is_the_least_of_its_r_transform():
    """1/g + R(g) = b (1 / sin u - 1 / 2u) with b = pi d scale, least at u^2 cos u = sin(u)^2 / 2"""
    with mpmath.workdps(20):
        u = mpmath.findroot(lambda u: u**2 * mpmath.cos(u) - mpmath.sin(u) ** 2 / 2, 1.29)
        edge = float(mpmath.pi * (1 / mpmath.sin(u) - 1 / (2 * u)))
        detectable = float(mpmath.pi / (2 * u))
    assert SquareNuclearLaplace(7, 3.0).edge == pytest.approx(21 * edge, rel=1e-6)
    assert SquareNuclearLaplace(7, 3.0).detectable == pytest.approx(21 * detectable, rel=1e-6)


@pytest.mark.parametrize("g", [1e-9, 2e-5, 9e-4 - 4e-4j, 1.1e-3, 0.4, -0.9 + 0.3j, 1.4, 2j])
def test_r_transforms_are_their_formula_in_many_digits(g):
    """The formula is `b / sin(b g) - 1 / g`, twice with half the edge for the sum Z + Z'."""
    with mpmath.workdps(40):
        u = mpmath.mpmathify(g)
        exact = complex(1 / mpmath.sin(u) - 1 / u)
    line, square = NuclearLaplace(4, 3.0), SquareNuclearLaplace(4, 3.0)
    b = math.pi / 2 * 12
    assert line.r_transform(np.array([g / b]))[0] == pytest.approx(b * exact, rel=2e-9)
    assert square.r_transform(np.array([g / b]))[0] == pytest.approx(2 * b * exact, rel=2e-9)
    if abs(g) < 1e-3:
        assert line.r_transform(np.array([g / b]))[0] == pytest.approx(b * exact, rel=1e-13, abs=0)


@each_law
def test_fifty_columns_are_drawn_and_no_more(law):
    law(50, 1e-9).require_drawable()
    for refused in (law(51, 1e-9).require_drawable, lambda: law(51, 1e-9).sample(None)):
        with pytest.raises(MechanismError, match="at most 50 columns"):
            refused()


@each_law
@pytest.mark.parametrize("d", [1, 2, 50])
def test_the_largest_scale_is_that_of_the_bound(law, d):
    limit = 2.0**87 / (2 * d * (d + 1) + 400)
    law(d, limit * (1 - 1e-12)).require_drawable()
    law(d, 1e-300).require_drawable()
    for scale in (limit * (1 + 1e-12), math.inf):
        for draw in (
            law(d, scale).require_drawable,
            lambda scale=scale: law(d, scale).sample(None),
        ):
            with pytest.raises(MechanismError, match="too small"):
                draw()
    if law is NuclearLaplace and d <= 7:
        with pytest.raises(MechanismError, match="too small"):
            law(d, math.inf).samples(2, None)


@each_law
@pytest.mark.parametrize("d", [1, 2, 8])
def test_noise_at_the_largest_scale_is_that_at_a_small_one(law, d, monkeypatch):
    limit = 2.0**87 / (2 * d * (d + 1) + 400) * (1 - 1e-12)

    def apart():
        draws = (law(d, limit / 2**bits).samples(2, Entropy.seeded(1)) for bits in (0, 40))
        wide, narrow = (draw.astype(object) for draw in draws)
        return np.abs(wide - 2**40 * narrow).max()

    assert apart() <= 2**39 + 1
    monkeypatch.setattr(nuclear, "whole", lambda noise: np.floor(noise + 0.5).astype(np.int64))
    with np.errstate(invalid="ignore"):  # 64 bits can't hold it
        assert apart() > 2**70


@each_law
def test_a_law_is_what_its_description_says(law):
    assert matrix_law(law(3, 2.5).to_json()) == law(3, 2.5)
    assert law(3, 2.5).rescaled(4.0) == law(3, 10.0)


# Rejection.


def accepted_one_by_one(d, count, entropy):
    """Return differences of Wishart pairs with W1 + W2 - |Z| >= 0 by Sylvester's criterion."""
    normals = iter(standard_normals(2 * count * d * (d + 1), entropy))
    factors = [
        [np.array([[next(normals) for _ in range(d + 1)] for _ in range(d)]) for _ in range(count)]
        for _ in range(2)
    ]
    found = []
    for one, other in zip(*factors, strict=True):
        first, second = one @ one.T / 2, other @ other.T / 2
        absolute = linalg.sqrtm((first - second) @ (first - second)).real
        common = first + second - absolute
        if all(np.linalg.det(common[: k + 1, : k + 1]) > 0 for k in range(d)):
            found.append(first - second)
    return np.array(found)


@pytest.mark.parametrize(("d", "count"), [(1, 20), (2, 60), (3, 60), (4, 60)])
def test_accepted_differences_are_those_that_leave_something_definite(d, count):
    expected = accepted_one_by_one(d, count, Entropy.seeded(1))
    found = nuclear._accepted(d, count, Entropy.seeded(1))
    assert 0 < len(found) < count or (d == 1 and len(found) == count)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_at_order_one_every_pair_is_accepted_however_unequal(monkeypatch):
    normals = np.array([1.0, 0.0, 1e-12, 0.0])
    monkeypatch.setattr(nuclear, "standard_normals", lambda *_: normals)
    assert nuclear._accepted(1, 1, None).tolist() == [[[0.5]]]


@pytest.mark.parametrize("empty", [0, 1, 3, 10])
def test_pairs_come_in_batches_that_double_from_32_to_4096(empty, monkeypatch):
    batches = []

    def accepted(dimension, count, entropy):
        batches.append(count)
        assert dimension == 3
        return np.arange(27.0).reshape(3, 3, 3)[3 * (len(batches) <= empty) :]

    monkeypatch.setattr(nuclear, "_accepted", accepted)
    assert nuclear.by_rejection(3, None).tolist() == np.arange(9.0).reshape(3, 3).tolist()
    assert batches == [min(32 * 2**i, 4096) for i in range(empty + 1)]


@pytest.mark.parametrize("count", [1, 5, 11])
def test_many_draws_are_all_that_are_accepted_in_order(count, monkeypatch):
    monkeypatch.setattr(nuclear, "MAX_PAIRS", 10)
    entropy = Entropy.seeded(2)
    accepted = np.concatenate([nuclear._accepted(2, 10, entropy) for _ in range(4)])[:count]
    found = NuclearLaplace(2, 2.0**30).samples(count, Entropy.seeded(2))
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, np.floor(2.0**30 * accepted + 0.5))


# Routes.


@pytest.mark.parametrize(("d", "route"), [(7, "by_rejection"), (8, "with_eigenvalues")])
def test_orders_to_7_are_drawn_by_rejection_and_larger_ones_by_pfaffians(d, route, monkeypatch):
    taken = []
    for name in ("by_rejection", "with_eigenvalues"):
        monkeypatch.setattr(
            nuclear, name, lambda *_, name=name: taken.append(name) or np.zeros((d, d))
        )
    monkeypatch.setattr(nuclear, "largest_first", lambda *_: [0.0] * d)
    monkeypatch.setattr(nuclear, "_accepted", lambda *_: np.zeros((3, d, d)))
    NuclearLaplace(d, 1.0).sample(None)
    assert taken == [route]
    NuclearLaplace(d, 1.0).samples(2, None)
    assert taken == ([route] if d == 7 else [route] * 3)


def gram_schmidt(normals):
    """Return orthonormal columns: each normals' column less its projection, normalised."""
    columns = []
    for column in normals.T:
        for former in columns:
            column = column - (former @ column) * former
        columns.append(column / np.linalg.norm(column))
    return np.array(columns).T


def test_haar_matrices_are_orthonormalised_columns_of_normals():
    normals = np.random.default_rng(1).standard_normal((5, 5))
    np.testing.assert_allclose(nuclear._haar(normals), gram_schmidt(normals), atol=1e-13)


def composed(left, values, right):
    whole = sum(value * np.outer(x, y) for x, value, y in zip(left.T, values, right.T, strict=True))
    return (whole + whole.T) / 2


def test_a_draw_by_pfaffians_has_their_points_as_eigenvalues_and_haar_vectors(monkeypatch):
    monkeypatch.setattr(nuclear, "MAX_REJECTION_ORDER", 2)
    scale, entropy = 2.0**30, Entropy.seeded(3)
    points = largest_first(LineEnsemble(3), entropy)
    vectors = gram_schmidt(standard_normals(9, entropy).reshape(3, 3))
    found = NuclearLaplace(3, scale).sample(Entropy.seeded(3))
    np.testing.assert_allclose(found, scale * composed(vectors, points, vectors), atol=0.51)
    together = NuclearLaplace(3, scale).samples(1, Entropy.seeded(3))
    np.testing.assert_array_equal(together, [found])


def test_a_draw_by_rejection_is_an_accepted_difference():
    found = NuclearLaplace(3, 2.0**30).sample(Entropy.seeded(4))
    exact = 2.0**30 * nuclear.by_rejection(3, Entropy.seeded(4))
    np.testing.assert_array_equal(found, np.floor(exact + 0.5))


@pytest.mark.parametrize("d", [2, 3])
def test_a_draw_of_the_square_law_has_its_singular_values_and_two_haar_matrices(d):
    scale, entropy = 2.0**30, Entropy.seeded(5)
    points = largest_first(HalfLineEnsemble(d), entropy)
    left, right = (gram_schmidt(standard_normals(d * d, entropy).reshape(d, d)) for _ in range(2))
    found = SquareNuclearLaplace(d, scale).sample(Entropy.seeded(5))
    np.testing.assert_allclose(found, scale * composed(left, points, right), atol=0.51)
    together = SquareNuclearLaplace(d, scale).samples(2, Entropy.seeded(5))
    assert together.shape == (2, d, d)
    np.testing.assert_array_equal(together[0], found)


def test_a_draw_of_the_square_law_at_order_one_is_an_accepted_difference():
    found = SquareNuclearLaplace(1, 2.0**30).sample(Entropy.seeded(6))
    exact = 2.0**30 * nuclear.by_rejection(1, Entropy.seeded(6))
    np.testing.assert_array_equal(found, np.floor(exact + 0.5))


def test_simulations_are_composed_like_draws():
    shapes, generator = nuclear._simulated_shapes(4), np.random.default_rng(7)
    values = shapes[generator.integers(256)] * generator.choice((-1.0, 1.0))
    values = values * generator.gamma(10.0)
    vectors = gram_schmidt(generator.standard_normal((4, 4)))
    found = NuclearLaplace(4, 3.0).simulate(np.random.default_rng(7))
    np.testing.assert_allclose(found, 3 * composed(vectors, values, vectors), atol=1e-11)
    generator = np.random.default_rng(7)
    values = simulated_singular_values(4, generator)
    left, right = (gram_schmidt(generator.standard_normal((4, 4))) for _ in range(2))
    found = SquareNuclearLaplace(4, 3.0).simulate(np.random.default_rng(7))
    np.testing.assert_allclose(found, 3 * composed(left, values, right), atol=1e-11)


def test_spectra_that_simulations_choose_from_are_simulated_ones_of_size_1():
    shapes, generator = nuclear._simulated_shapes(3), np.random.default_rng(nuclear.SPECTRUM_SEED)
    drawn = [simulated_eigenvalues(3, generator) for _ in range(256)]
    expected = [values / np.abs(values).sum() for values in drawn]
    np.testing.assert_allclose(shapes, expected, rtol=1e-12)
    assert len(nuclear._simulated_shapes(50)) == 80
    assert len(nuclear._simulated_shapes(200)) == 32


@each_law
def test_noise_is_rounded_to_the_nearest_integer_halves_up(law, monkeypatch):
    drawn = np.array([[0.49, 0.5], [-0.5, -0.51]])
    monkeypatch.setattr(nuclear, "by_rejection", lambda *_: drawn)
    assert law(1, 1.0).sample(None).tolist() == [[0, 1], [0, -1]]
