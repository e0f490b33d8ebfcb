"""What one guarantee says in terms of another; mpmath is the oracle."""

import math

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.core.accounting import gdp_epsilon, renyi_of_pure, zcdp_of_pure
from dpcov.core.privacy import gaussian_delta, gaussian_mu

mpmath.mp.dps = 50


def true_delta(mu, epsilon):
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


# epsilon, delta, rho by the exact curve, rho by rho + 2 sqrt(rho ln(1/delta)).
TABLE = [
    (1.0, 1e-6, "0.02801", "0.01747"),
    (1.0, 1e-5, "0.03593", "0.02082"),
    (0.5, 1e-6, "0.00770", "0.00444"),
    (5.0, 1e-6, "0.5206", "0.3853"),
]


@pytest.mark.parametrize(("epsilon", "delta", "rho", "loose"), TABLE)
def test_rho_of_gaussian_pipelines_is_that_of_the_table(epsilon, delta, rho, loose):
    mu = gaussian_mu(epsilon, delta)
    assert f"{mu**2 / 2:.{len(rho) - 2}f}" == rho
    log = math.log(1 / delta)
    assert f"{(math.sqrt(epsilon + log) - math.sqrt(log)) ** 2:.{len(loose) - 2}f}" == loose
    root = mpmath.findroot(lambda m: true_delta(m, epsilon) - delta, mu)
    assert mu == pytest.approx(float(root), rel=1e-6)
    assert gaussian_delta(mu, epsilon) == pytest.approx(delta, rel=1e-6)
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


@settings(max_examples=80, deadline=None)
@given(
    mu=st.floats(-3, 1).map(lambda x: 10.0**x), delta=st.floats(-12, -0.1).map(lambda x: 10.0**x)
)
def test_the_epsilon_of_gdp_is_the_least_that_is_kept(mu, delta):
    epsilon = gdp_epsilon(mu, delta)
    assert true_delta(mu, epsilon) <= delta
    if epsilon > 1e-9:
        assert true_delta(mu, epsilon * (1 - 1e-6) - 1e-12 * mu) > delta * (1 - 1e-9)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.1, 1.0, 3.0, 40.0, 1e9])
def test_the_rho_of_a_pure_epsilon_covers_randomised_response_at_every_order(epsilon):
    e = mpmath.mpf(repr(epsilon))

    def per_order(order):
        log = mpmath.log(mpmath.cosh((2 * order - 1) * e / 2) / mpmath.cosh(e / 2))
        return log / (order - 1) / order

    stated = mpmath.mpf(repr(zcdp_of_pure(epsilon)))
    orders = [1 + mpmath.mpf(10) ** x for x in (-12, -9, -3, -1, 0, 1, 3, 9)]
    assert all(per_order(order) <= stated for order in orders)
    assert max(map(per_order, orders)) > stated * (1 - mpmath.mpf(10) ** -9)  # and no smaller does


def test_a_small_pure_epsilon_is_never_more_than_half_its_square_in_zcdp():
    assert zcdp_of_pure(1e-9) == 5e-19
    assert zcdp_of_pure(0.1) < 0.005


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 30.0])
def test_the_renyi_curve_of_a_pure_epsilon_is_that_of_randomised_response(epsilon, order):
    a, e = mpmath.mpf(order), mpmath.mpf(epsilon)
    p = mpmath.exp(e) / (1 + mpmath.exp(e))
    response = mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
    assert renyi_of_pure(epsilon)(order) <= epsilon
    assert rounded_up(renyi_of_pure(epsilon)(order), response, order)


def rounded_up(found, true, order):
    return 0 <= found - true <= 1e-12 * true + 1e-13 / (order - 1)
