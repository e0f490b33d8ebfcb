"""What steps cost together; mpmath and dp-accounting are the oracles."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.accounting import (
    GDP,
    LaplaceNoise,
    compose,
    compose_gdp,
    compose_renyi,
    gdp_beside_bad_events,
    gdp_epsilon,
    gdp_of_pure,
    numeric_delta,
    numeric_epsilon,
    renyi_delta,
    renyi_epsilon,
    renyi_of_laplace,
    renyi_of_pure,
    renyi_of_zcdp,
    with_bad_events,
    zcdp_of_pure,
)
from dpcov.errors import BudgetError
from dpcov.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    exact,
    gaussian_delta,
    gaussian_mu,
    zcdp_epsilon,
)

mpmath.mp.dps = 50


def true_delta(mu, epsilon):
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


# Gaussian mechanisms.

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
def test_randomised_response_is_no_easier_to_tell_than_its_gaussian(epsilon):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))

    def excess(mu):
        at = np.linspace(0, epsilon, 50)
        return max(p - math.exp(e) * (1 - p) - float(true_delta(mu, e)) for e in at)

    assert excess(gdp_of_pure(epsilon)) <= 1e-12
    assert excess(0.97 * gdp_of_pure(epsilon)) > 1e-3


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


# Bad events.


def outcome_delta(p, q, epsilon):
    """Exact delta of two finite laws, the worse of both directions."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def laws_with_bad_events(mu, chances):
    """Two steps, each a two-point projection of N(0,1) against N(mu,1), beside a bad event.

    On one table what is bad reveals it; on the other a bad event is revealing as well.
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


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
@pytest.mark.parametrize("order", [1.001, 1.5, 2.0, 30.0])
def test_renyi_curves_are_the_divergences_of_their_laws(epsilon, order):
    a, e = mpmath.mpf(order), mpmath.mpf(epsilon)
    p = mpmath.exp(e) / (1 + mpmath.exp(e))
    response = mpmath.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
    assert renyi_of_pure(epsilon)(order) <= epsilon
    assert rounded_up(renyi_of_pure(epsilon)(order), response, order)

    def integrand(x):
        return mpmath.exp(-a * abs(x) - (1 - a) * abs(x - e)) / 2

    points = [-mpmath.inf, 0, e, mpmath.inf]
    laplace = mpmath.log(mpmath.quad(integrand, points)) / (a - 1)
    assert rounded_up(renyi_of_laplace(epsilon)(order), laplace, order)


def rounded_up(found, true, order):
    return 0 <= found - true <= 1e-12 * true + 1e-13 / (order - 1)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_renyi_epsilon_and_delta_undo_each_other(epsilon):
    curve = compose_renyi([renyi_of_pure(0.1)] * 20 + [renyi_of_zcdp(0.01)])
    delta = renyi_delta(curve, epsilon)
    assert renyi_epsilon(curve, delta) == pytest.approx(epsilon, rel=1e-7)


def test_a_curve_that_ends_is_used_up_to_its_end_and_a_useless_one_is_infinite():
    ends = renyi_epsilon(lambda a: 0.1 * a if a < 3 else math.inf, 1e-6)
    assert renyi_epsilon(renyi_of_zcdp(0.1), 1e-6) < ends < 8
    assert renyi_epsilon(lambda _: math.inf, 1e-6) == math.inf
    assert renyi_delta(lambda _: math.inf, 1.0) == 1


# Numeric composition, and the oracle for all of the above.


@pytest.mark.parametrize(("epsilon", "delta"), [row[:2] for row in TABLE])
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
    assert tight < compose(pure, 1e-6).epsilon


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
    with pytest.raises(BudgetError, match=r"dpcov\[accounting\]"):
        numeric_epsilon([GDP(1.0)], 1e-6)


# Budgets as they are stated.


def test_ten_tenths_are_one() -> None:
    assert compose([PureDP(0.1)] * 10) == PureDP(1.0)
    assert compose([ZCDP(0.1)] * 10) == ZCDP(1.0)
    assert compose([ApproxDP(0.1, 1e-7)] * 10, 1e-6) == ApproxDP(1.0, 1e-6)


PURE = st.builds(PureDP, st.floats(1e-6, 3.0))
RHO = st.builds(ZCDP, st.floats(1e-8, 1.0))
APPROX = st.builds(ApproxDP, st.floats(1e-6, 3.0), st.floats(1e-12, 1e-7))
MIXED = st.lists(PURE | RHO | APPROX, min_size=1, max_size=6)


def total(spends: list[Budget], name: str) -> Fraction:
    return sum((exact(getattr(s, name)) for s in spends if hasattr(s, name)), Fraction(0))


@settings(max_examples=100, deadline=None)
@given(spends=st.lists(PURE, min_size=1, max_size=6))
def test_pure_spends_add_up_rounded_up(spends) -> None:
    found = exact(compose(spends).epsilon)
    assert total(spends, "epsilon") <= found <= total(spends, "epsilon") * (1 + Fraction(1, 10**15))


@settings(max_examples=100, deadline=None)
@given(spends=st.lists(PURE | RHO, min_size=2, max_size=6))
def test_pure_spends_count_by_their_rho_beside_zcdp(spends) -> None:
    pure = [exact(zcdp_of_pure(s.epsilon)) for s in spends if isinstance(s, PureDP)]
    found = compose(spends)
    if isinstance(found, ZCDP):
        assert 0 <= exact(found.rho) - total(spends, "rho") - sum(pure) <= Fraction(1, 10**14)
    else:
        assert total(spends, "rho") == 0


@settings(max_examples=80, deadline=None)
@given(spends=MIXED, more=PURE | RHO | APPROX, order=st.randoms(use_true_random=False))
def test_composition_is_never_below_a_part_and_grows_whatever_the_order(
    spends, more, order
) -> None:
    delta = 1e-5
    found = compose(spends, delta)
    assert exact(found.delta) >= max(exact(delta), total(spends, "delta"))
    assert exact(found.epsilon) >= sum(exact(s.epsilon) for s in spends if isinstance(s, ApproxDP))
    if not any(isinstance(s, ApproxDP) for s in spends):
        assert all(found.epsilon >= compose([s], delta).epsilon * (1 - 1e-9) for s in spends)
    assert compose([*spends, more], delta).epsilon >= found.epsilon * (1 - 1e-9)
    order.shuffle(spends)
    assert compose(spends, delta) == found


def test_a_delta_that_does_not_suffice_is_refused() -> None:
    parts: list[Budget] = [ApproxDP(0.1, 1e-7)] * 10
    for delta, spends in [(9e-7, parts), (1e-6, [*parts, ZCDP(0.1)]), (0.0, [ZCDP(1.0), *parts])]:
        with pytest.raises(BudgetError, match="more than the total delta"):
            compose(spends, delta)


@pytest.mark.parametrize(
    "spends",
    [
        [],
        [PureDP(1.7e308)] * 2,
        [ZCDP(1.7e308)] * 2,
        [ApproxDP(1.7e308, 1e-9)] * 2,
        [PureDP(1.7e308), ZCDP(1.7e308)],
    ],
    ids=["none", "pure", "zcdp", "approx", "mixed"],
)
def test_a_composition_that_is_no_number_is_refused(spends) -> None:
    with pytest.raises(BudgetError):
        compose(spends)
