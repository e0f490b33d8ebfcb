"""What steps cost together; mpmath and dp-accounting are the oracles."""

from __future__ import annotations

import math
import sys

import mpmath
import numpy as np
import pytest

from dpcov.core.accounting import gdp_epsilon, renyi_of_pure, zcdp_of_pure
from dpcov.core.privacy import (
    ApproxDP,
    PureDP,
    gaussian_delta,
    gaussian_mu,
    zcdp_epsilon,
)
from dpcov.errors import BudgetError
from dpcov.papers.accounting import (
    GDP,
    LaplaceNoise,
    compose_gdp,
    compose_renyi,
    gdp_beside_bad_events,
    gdp_of_pure,
    numeric_delta,
    numeric_epsilon,
    renyi_epsilon,
    renyi_of_zcdp,
    with_bad_events,
)

mpmath.mp.dps = 50


def true_delta(mu, epsilon):
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


# Gaussian mechanisms.

BUDGETS = [(1.0, 1e-6), (1.0, 1e-5), (0.5, 1e-6), (5.0, 1e-6)]


def test_gaussian_steps_compose_to_the_root_of_their_squares():
    assert compose_gdp([3.0, 4.0]) == pytest.approx(5, rel=1e-14)
    assert compose_gdp([3.0, 4.0]) > 5
    assert compose_gdp([0.1] * 100) == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 5.0, 40.0, 800.0])
def test_the_mu_of_a_pure_epsilon_meets_its_corner(epsilon):
    mu = gdp_of_pure(epsilon)
    corner = 1 / (1 + mpmath.exp(epsilon))
    assert mpmath.ncdf(-mpmath.mpf(mu) / 2) <= corner
    assert mpmath.ncdf(-mpmath.mpf(mu) * (1 - mpmath.mpf(10) ** -9) / 2) > corner


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomised_response_is_no_easier_to_detect_than_its_gaussian(epsilon):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))

    def excess(mu):
        at = np.linspace(0, epsilon, 50)
        return max(p - math.exp(e) * (1 - p) - float(true_delta(mu, e)) for e in at)

    assert excess(gdp_of_pure(epsilon)) <= 1e-12
    assert excess(0.97 * gdp_of_pure(epsilon)) > 1e-3


# Bad events.


def outcome_delta(p, q, epsilon):
    """Return the exact delta of two finite distributions, the larger of both directions."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def laws_with_bad_events(mu, chances):
    """Return two steps, each a two-point projection of N(0,1) against N(mu,1), with a bad event.

    On one table the bad event reveals the table. On the other table, another bad event does.
    """
    cut = float(mpmath.ncdf(mu / 2))
    one, other = np.array([1.0]), np.array([1.0])
    for b in chances:
        p = np.array([(1 - b) * cut, (1 - b) * (1 - cut), b, 0.0])
        q = np.array([(1 - b) * (1 - cut), (1 - b) * cut, 0.0, b])
        one, other = np.outer(one, p).ravel(), np.outer(other, q).ravel()
    return one, other


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("chances", [(0.0, 0.0), (1e-3, 2e-3), (0.1, 0.2)])
def test_bad_events_cost_no_more_than_stated(chances, epsilon):
    bad = sum(chances)
    stated = with_bad_events(compose_gdp([0.5, 0.5]), epsilon, bad)
    laws = laws_with_bad_events(0.5, chances)
    assert outcome_delta(*laws, stated[0]) <= stated[1]
    if bad > 0.1:
        assert outcome_delta(*laws, stated[0]) > gaussian_delta(compose_gdp([0.5, 0.5]), stated[0])


def test_a_bad_event_on_one_table_only_needs_the_larger_epsilon():
    cut, bad = float(mpmath.ncdf(0.25)), 0.3
    p = np.array([cut, 1 - cut, 0.0])
    q = np.array([(1 - bad) * (1 - cut), (1 - bad) * cut, bad])
    epsilon, delta = with_bad_events(0.5, 0.4, bad)
    assert outcome_delta(p, q, epsilon) <= delta
    assert epsilon == pytest.approx(0.4 - math.log(0.7))
    alone = float(np.maximum(p - math.exp(0.4) * q, 0).sum())
    assert alone > gaussian_delta(0.5, 0.4)


@pytest.mark.parametrize("bad", [0.0, 1e-9, 5e-7])
def test_what_bad_events_leave_is_used_up(bad):
    mu = gdp_beside_bad_events(1.0, 1e-6, bad)
    epsilon, delta = with_bad_events(mu, 1.0 + math.log1p(-bad), bad)
    assert epsilon <= 1.0 + 1e-14
    assert delta <= 1e-6
    assert delta > 1e-6 * (1 - 1e-8)


@pytest.mark.parametrize("bad", [1e-6, 0.7, 1.0, math.nan, -0.1])
def test_bad_events_that_leave_nothing_are_refused(bad):
    with pytest.raises(BudgetError):
        gdp_beside_bad_events(1.0, 1e-6, bad)


@pytest.mark.parametrize("bad", [1.0, math.nan, -0.1])
def test_bad_events_without_a_probability_are_refused(bad):
    with pytest.raises(BudgetError):
        with_bad_events(0.5, 1.0, bad)


# Renyi curves.


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01])
@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.5, 3.0])
def test_the_renyi_conversion_of_zcdp_is_its_own(rho, delta):
    assert renyi_epsilon(renyi_of_zcdp(rho), delta) == pytest.approx(
        zcdp_epsilon(rho, delta), rel=1e-8, abs=1e-12
    )
    halves = compose_renyi([renyi_of_zcdp(rho / 2)] * 2)
    assert renyi_epsilon(halves, delta) == renyi_epsilon(renyi_of_zcdp(rho), delta)


def test_a_curve_that_ends_is_used_up_to_its_end_and_a_useless_one_is_infinite():
    ends = renyi_epsilon(lambda a: 0.1 * a if a < 3 else math.inf, 1e-6)
    assert renyi_epsilon(renyi_of_zcdp(0.1), 1e-6) < ends < 8
    assert renyi_epsilon(lambda _: math.inf, 1e-6) == math.inf


# Numeric composition, and the oracle for all of the above.


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_numeric_composition_of_one_gaussian_is_the_exact_curve(epsilon, delta):
    mu = gaussian_mu(epsilon, delta)
    found = numeric_delta([GDP(mu)], epsilon)
    assert found == pytest.approx(delta, rel=1e-6)
    assert numeric_epsilon([GDP(mu)], delta) == pytest.approx(epsilon, rel=1e-6)


def test_numeric_composition_of_gaussians_is_that_of_their_mu():
    steps = [GDP(0.1)] * 5 + [GDP(0.2)]
    found = numeric_delta(steps, 1.0)
    assert found == pytest.approx(gaussian_delta(compose_gdp([0.1] * 5 + [0.2]), 1.0), rel=1e-3)


def test_numeric_composition_is_the_tightest_and_laplace_noise_beats_its_epsilon():
    pure, laplace = [PureDP(0.1)] * 30, [LaplaceNoise(0.1)] * 30
    tight = numeric_epsilon(pure, 1e-6)
    assert numeric_epsilon(laplace, 1e-6) < tight
    assert tight < renyi_epsilon(compose_renyi([renyi_of_pure(0.1)] * 30), 1e-6)
    assert tight < gdp_epsilon(compose_gdp([gdp_of_pure(0.1)] * 30), 1e-6)
    assert tight < zcdp_epsilon(30 * zcdp_of_pure(0.1), 1e-6)


def test_numeric_composition_of_one_stated_budget_is_that_budget():
    assert numeric_delta([ApproxDP(0.5, 1e-5)], 0.5) == pytest.approx(1e-5, rel=1e-9)
    assert numeric_delta([PureDP(0.5)], 0.5) == pytest.approx(0, abs=1e-12)
    assert numeric_delta([LaplaceNoise(0.5)], 0.3) == pytest.approx(-math.expm1(-0.1), rel=1e-6)


def test_numeric_composition_of_nothing_is_refused():
    with pytest.raises(BudgetError, match="Nothing"):
        numeric_epsilon([], 1e-6)


def test_numeric_composition_without_its_extra_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("dp_accounting")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(BudgetError, match='pip install "dp-accounting'):
        numeric_epsilon([GDP(1.0)], 1e-6)
