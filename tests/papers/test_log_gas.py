"""Simulated spectra of nuclear-Laplace noise: limit laws, starts, sweeps by a second formula."""

import math

import mpmath
import numpy as np
import pytest
from scipy import integrate

from dpcov.papers.samplers import log_gas
from dpcov.papers.samplers.log_gas import simulated_eigenvalues, simulated_singular_values

# Limit laws.


def test_the_limit_law_is_the_integral_of_its_density():
    distribution, x = log_gas._limit_law()
    assert (distribution[0], x[0], x[-1]) == (0.5, 0.0, 1.0)
    assert distribution[-1] == pytest.approx(1, abs=1e-12)
    assert np.diff(x).min() > 0
    assert np.diff(distribution).min() > 0
    assert np.diff(x).max() < 1e-3
    for at in (1, 7, 900, 2500, 3999):
        exact = mpmath.quad(lambda t: mpmath.acosh(1 / t) / mpmath.pi, [0, x[at]])
        assert distribution[at] == pytest.approx(0.5 + float(exact), abs=1e-9)


def test_limit_quantiles_are_the_inverse_and_odd():
    levels = np.array([0.51, 0.6, 0.75, 0.9, 0.999])
    quantiles = log_gas._limit_quantiles(levels)
    for level, quantile in zip(levels, quantiles, strict=True):
        mass = integrate.quad(lambda t: np.arccosh(1 / t) / np.pi, 0, quantile)[0]
        assert 0.5 + mass == pytest.approx(level, abs=3e-6)
    np.testing.assert_allclose(log_gas._limit_quantiles(1 - levels), -quantiles, atol=1e-12)
    assert log_gas._limit_quantiles(np.array([0.5, 0.0, 1.0])).tolist() == [0.0, -1.0, 1.0]


class Drawn:
    """A generator of given normals; its uniforms are the upper ends of what is asked for."""

    def __init__(self, normals):
        self.normals, self.ranges = np.array(normals, float), []

    def standard_normal(self, shape):
        assert self.normals.shape == shape
        return self.normals

    def uniform(self, low, high, count):
        self.ranges.append((low, high, count))
        return np.full(count, high)


def test_levels_are_those_of_the_semicircle_and_jitter():
    """Eigenvalues of N + N' over sqrt(8 n), whose semicircle ends at 1; a fiftieth is kept free."""
    normals = np.random.default_rng(1).standard_normal((5, 5))
    generator = Drawn(normals)
    found = log_gas._gaussian_levels(5, generator)
    assert generator.ranges == [(-0.02, 0.02, 5)]
    values = np.linalg.eigvalsh(normals + normals.T) / math.sqrt(40)
    assert np.abs(values).max() < 0.95
    for value, level in zip(values, found, strict=True):
        mass = integrate.quad(lambda t: 2 / np.pi * np.sqrt(1 - t * t), -1, value)[0]
        assert level == pytest.approx(min(max(mass, 0.02), 0.98) + 0.01, abs=1e-8)


def test_levels_beyond_the_semicircle_are_a_tenth_of_a_spacing_inside():
    found = log_gas._gaussian_levels(2, Drawn(100 * np.diag([-1.0, 1.0])))
    assert found.tolist() == pytest.approx([0.05 + 0.025, 0.95 + 0.025])
    found = log_gas._gaussian_levels(2, Drawn(np.diag([-2.0, 2.0]) * (1 - 1e-9)))
    assert found.tolist() == pytest.approx([0.05 + 0.025, 0.95 + 0.025])


# Sweeps.


def log_density(points, power):
    """Return the log density of prod |x_i^power - x_j^power| exp(-sum |x_i|)."""
    raised = [x**power for x in points]
    repulsion = sum(
        math.log(abs(x - y)) for i, x in enumerate(raised) for y in raised[:i] if x != y
    )
    return repulsion - sum(map(abs, points))


def swept(points, generator, exponent, power, sweeps):
    """Accept moves by the density of all points, and then draw the radius again."""
    points = [float(point) for point in points]
    d = len(points)
    for _ in range(sweeps):
        leaps = generator.random(d)
        normals = generator.standard_normal(d)
        exponentials = generator.exponential(size=d)
        for i in range(d):
            step = log_gas.STEP_SIZE * (
                log_gas.LEAP_FACTOR if leaps[i] < log_gas.LEAP_FREQUENCY else 1.0
            )
            moved = list(points)
            moved[i] = points[i] + step * normals[i]
            if power == 2:
                moved[i] = abs(moved[i])
            if log_density(moved, power) - log_density(points, power) > -exponentials[i]:
                points = moved
        radius = generator.gamma(exponent)
        total = sum(map(abs, points))
        points = [point * radius / total for point in points]
    return points


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("power", [1, 2])
def test_sweeps_are_metropolis_moves_and_an_exact_radius(d, power):
    start = np.linspace(0.5, 4.0, d)
    exponent = 7.5
    for seed in range(5):
        found = log_gas._metropolis(
            start.copy(), np.random.default_rng(seed), exponent, squared=power == 2
        )
        expected = swept(start, np.random.default_rng(seed), exponent, power, log_gas.SWEEP_COUNT)
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_move_onto_another_point_is_never_made():
    class Onto:
        """Proposes the place of the other point, with all the allowance there is."""

        def random(self, count):
            return np.ones(count)

        def standard_normal(self, count):
            return np.array([1.0, 0.0]) / log_gas.STEP_SIZE

        def exponential(self, size):
            return np.full(size, 1e300)

        def gamma(self, exponent):
            return 3.0

    points = log_gas._metropolis(np.array([1.0, 2.0]), Onto(), 3.0, squared=False)
    assert points.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("d", [1, 2, 6])
def test_simulations_start_at_quantiles_of_the_limit_and_have_the_exponent_of_their_law(d):
    """Edges of the limit: pi d / 2 on the line, pi d on the half line, whose points are +-s."""
    generator = np.random.default_rng(2)
    levels = log_gas._gaussian_levels(d, generator)
    start = math.pi * d / 2 * log_gas._limit_quantiles(levels)
    expected = log_gas._metropolis(start, generator, d * (d + 1) / 2, squared=False)
    found = simulated_eigenvalues(d, np.random.default_rng(2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    generator = np.random.default_rng(2)
    levels = log_gas._gaussian_levels(d, generator)
    start = math.pi * d * log_gas._limit_quantiles(0.5 + levels / 2)
    assert start.min() > 0
    expected = log_gas._metropolis(start, generator, d**2, squared=True)
    found = simulated_singular_values(d, np.random.default_rng(2))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
