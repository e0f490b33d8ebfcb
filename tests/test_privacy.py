"""Numbers of privacy: budgets and conversions; mpmath is the oracle."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    PureDP,
    Unit,
    budget_from,
    exact,
    gaussian_delta,
    gaussian_mu,
    hidden_units,
    neighbors_named,
    renyi_epsilon_at,
    round_down,
    round_up,
    upper_float,
    zcdp_epsilon,
)
from dpcov.errors import BudgetError, MechanismError

mpmath.mp.dps = 60


def true_delta(mu: float, epsilon: float) -> mpmath.mpf:
    m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
    return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


BAD = [0, 0.0, -1.0, math.nan, math.inf, -math.inf, 10**400, True, "1", b"1", None, 1j, [1.0]]


@pytest.mark.parametrize("kind", [PureDP, ZCDP, lambda x: ApproxDP(x, 0.1)])
@pytest.mark.parametrize("value", BAD, ids=lambda value: repr(value)[:12])
def test_a_number_that_is_no_budget_is_refused(kind, value) -> None:
    with pytest.raises(
        BudgetError, match=r"^(epsilon|rho) must be a .*number above 0, not .{1,20}$"
    ):
        kind(value)


@pytest.mark.parametrize("value", [*BAD, 1, 1.0, 1.5], ids=lambda value: repr(value)[:12])
def test_a_number_that_is_no_delta_is_refused(value) -> None:
    with pytest.raises(BudgetError, match=r"^delta must be"):
        ApproxDP(1.0, value)


@pytest.mark.parametrize("value", [1, np.float32(0.5), np.int64(3), Fraction(1, 4)], ids=str)
def test_any_real_number_becomes_a_float(value) -> None:
    budget = PureDP(value)
    assert type(budget.epsilon) is float
    assert budget == PureDP(float(value))


@pytest.mark.parametrize(
    ("figures", "budget"),
    [
        ({"epsilon": 1.0}, PureDP(1.0)),
        ({"epsilon": 1.0, "delta": 1e-9}, ApproxDP(1.0, 1e-9)),
        ({"rho": 0.5}, ZCDP(0.5)),
    ],
)
def test_figures_state_one_kind_of_budget(figures, budget: Budget) -> None:
    assert budget_from(**figures) == budget


@pytest.mark.parametrize(
    "figures", [{}, {"delta": 0.1}, {"rho": 1, "epsilon": 1}, {"rho": 1, "delta": 0.1}]
)
def test_figures_that_state_no_budget_are_refused(figures) -> None:
    with pytest.raises(BudgetError, match=r"^(State a privacy budget|Give rho alone)"):
        budget_from(**figures)


@pytest.mark.parametrize(
    ("epsilon", "delta", "digits"),
    [(1, 1e-6, "0.02801"), (1, 1e-5, "0.03593"), (0.5, 1e-6, "0.00770"), (5, 1e-6, "0.5206")],
)
def test_rho_by_the_exact_curve_is_that_of_the_specification(epsilon, delta, digits) -> None:
    mu = gaussian_mu(epsilon, delta)
    places = len(digits) - 2
    assert f"{mu**2 / 2:.{places}f}" == digits
    expected = mpmath.findroot(lambda m: true_delta(m, epsilon) - delta, mu)
    assert mu == pytest.approx(float(expected), rel=1e-6)


@settings(max_examples=150, deadline=None)
@given(
    epsilon=st.floats(-6, 3).map(lambda x: 10.0**x), delta=st.floats(-13, -1).map(lambda x: 10.0**x)
)
def test_gaussian_mu_keeps_its_delta_and_wastes_almost_none(epsilon, delta) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert 0 <= 1 - true_delta(mu, epsilon) / delta < 1.1e-9 + 1e-14 / delta


@settings(max_examples=150, deadline=None)
@given(
    mu=st.floats(-4, 1.5).map(lambda x: 10.0**x), epsilon=st.floats(-6, 2).map(lambda x: 10.0**x)
)
def test_gaussian_delta_is_rounded_up(mu, epsilon) -> None:
    assert true_delta(mu, epsilon) <= gaussian_delta(mu, epsilon) <= 1


@pytest.mark.parametrize("mu", [1.0, 2.0, 4.0])
def test_the_delta_of_a_mu_gives_back_less_than_that_mu(mu) -> None:
    delta = gaussian_delta(mu, 1.0)
    assert mu * (1 - 1e-8) < gaussian_mu(1.0, delta) < mu * (1 - 1e-10)


def test_delta_is_next_to_nothing_where_epsilon_over_mu_overflows() -> None:
    assert 0 < gaussian_delta(1e-10, 1e300) < 1e-299


@pytest.mark.parametrize(("epsilon", "delta"), [(1e-5, 1e-320), (1e-200, 1e-299), (1e308, 1e-305)])
def test_a_budget_beyond_float64_is_refused_not_rounded(epsilon, delta) -> None:
    with pytest.raises(BudgetError, match="Use a larger delta"):
        gaussian_mu(epsilon, delta)


def brute_epsilon(rho: float, delta: float) -> mpmath.mpf:
    """Return the least of the bounds over a fine grid of alpha, refined."""

    def bound(log_excess):
        alpha = 1 + mpmath.exp(log_excess)
        return (
            alpha * mpmath.mpf(rho)
            + mpmath.log((alpha - 1) / alpha)
            - (mpmath.log(delta) + mpmath.log(alpha)) / (alpha - 1)
        )

    low, high = mpmath.mpf(-40), mpmath.mpf(40)
    for _ in range(6):
        grid = mpmath.linspace(low, high, 81)
        best = min(range(81), key=lambda i: bound(grid[i]))
        low, high = grid[max(0, best - 1)], grid[min(80, best + 1)]
    return max(mpmath.mpf(0), bound((low + high) / 2))


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.01, 0.5])
@pytest.mark.parametrize("rho", [1e-14, 1e-6, 0.01, 0.5, 3.0, 1e4, 1e12])
def test_the_epsilon_of_zcdp_is_the_least_over_all_orders(rho, delta) -> None:
    expected = brute_epsilon(rho, delta)
    found = zcdp_epsilon(rho, delta)
    assert found >= expected * (1 - mpmath.mpf(10) ** -12)
    assert found <= expected * (1 + mpmath.mpf(10) ** -9) + 1e-16


@settings(max_examples=60, deadline=None)
@given(
    rho=st.floats(-8, 3).map(lambda x: 10.0**x), delta=st.floats(-12, -0.1).map(lambda x: 10.0**x)
)
def test_gaussian_noise_keeps_the_epsilon_of_its_zcdp(rho, delta) -> None:
    mu = mpmath.sqrt(2 * mpmath.mpf(rho))
    assert true_delta(mu, zcdp_epsilon(rho, delta)) <= delta


@settings(max_examples=100, deadline=None)
@given(rho=st.floats(5e-324, 1.7e308), delta=st.floats(5e-324, 1, exclude_max=True))
def test_the_epsilon_of_any_rho_is_a_number(rho, delta) -> None:
    assert zcdp_epsilon(rho, delta) >= 0
    assert zcdp_epsilon(1e300, delta) == math.inf


@pytest.mark.parametrize(
    ("rho", "delta"), [(0.0, 0.1), (1.0, 0.0), (math.nan, 0.1), (1.0, math.nan)]
)
def test_the_epsilon_of_nonsense_is_refused(rho, delta) -> None:
    with pytest.raises(BudgetError, match=r"^(rho|delta) must be"):
        zcdp_epsilon(rho, delta)
    with pytest.raises(BudgetError, match=r"^(epsilon|delta) must be"):
        gaussian_mu(rho, delta)


def test_the_largest_rho_that_has_an_epsilon_has_one() -> None:
    assert zcdp_epsilon(1e290, 0.1) < math.inf


@settings(max_examples=100, deadline=None)
@given(
    excess=st.floats(-6, 6).map(lambda x: 10.0**x),
    divergence=st.floats(-6, 3).map(lambda x: 10.0**x),
    delta=st.floats(-12, -0.1).map(lambda x: 10.0**x),
)
def test_the_epsilon_of_an_order_is_rounded_up_by_next_to_nothing(
    excess, divergence, delta
) -> None:
    x = mpmath.mpf(excess)
    logs = -mpmath.log1p(1 / x), -mpmath.log(delta) / x, -mpmath.log1p(x) / x
    exactly = divergence + sum(logs)
    slack = 5e-15 * (divergence + sum(map(abs, logs)))
    assert exactly <= renyi_epsilon_at(excess, divergence, delta) <= exactly + slack


@settings(max_examples=100)
@given(st.fractions(-100, 100) | st.fractions(Fraction(1, 10**30), Fraction(1, 10**20)))
def test_rounding_goes_the_stated_way_by_one_step_at_most(value) -> None:
    up, down = round_up(value), round_down(value)
    assert exact(down) <= value <= exact(up)
    assert up == down or math.nextafter(down, math.inf) == up
    assert (
        Fraction(upper_float(value))
        >= value
        > Fraction(math.nextafter(upper_float(value), -math.inf))
    )


def test_the_largest_float_is_not_too_large_to_round() -> None:
    largest = sys.float_info.max
    assert (round_up(exact(largest)), round_down(exact(-largest))) == (largest, -largest)
    with pytest.raises(BudgetError, match="more than a number can hold"):
        round_up(2 * exact(largest))


def test_a_relation_goes_by_its_name_alone() -> None:
    assert [neighbors_named(str(each)) for each in Neighbors] == list(Neighbors)
    with pytest.raises(MechanismError, match="Choose one of: add-remove, replace-one"):
        neighbors_named("swap")


def test_units_and_budgets_say_what_they_are() -> None:
    assert Unit() == Unit(None, 1)
    assert str(Unit()) == "one row"
    assert str(Unit("id", 3)) == "one person (column 'id'), up to 3 rows"
    assert str(PureDP(0.5)) == "pure differential privacy, epsilon = 0.5"
    assert str(ZCDP(0.5)) == "zero-concentrated differential privacy, rho = 0.5"
    assert str(ApproxDP(0.5, 1e-9)) == "(epsilon, delta)-differential privacy, (0.5, 1e-09)"


def words(
    budget: Budget, neighbors: Neighbors = Neighbors.ADD_REMOVE, unit: Unit | None = None
) -> str:
    return Guarantee(budget, neighbors, unit or Unit()).in_words()


CHANGES = "changes the probability of any outcome of this release by a factor of at most"
SHIFTS = "shifts the privacy loss of this release at most like Gaussian noise with"
PERSON = "any one person (column 'patient', at most 3 rows each)"


def test_the_guarantee_reads_as_a_sentence() -> None:
    assert (
        words(PureDP(1.0)) == f"Whether any one row is in the table or not {CHANGES} e^1 = 2.718."
    )
    assert words(ApproxDP(0.5, 1e-9), Neighbors.REPLACE_ONE) == (
        f"What any one row holds, the number of rows being public, {CHANGES} e^0.5 = 1.649, "
        "plus 1e-09."
    )
    person = Unit("patient", 3)
    assert words(ZCDP(0.5), Neighbors.REPLACE_ONE, person).startswith(
        f"What {PERSON} holds, the number of persons being public, {SHIFTS} rho = 0.5 "
        f"(which implies epsilon = {zcdp_epsilon(0.5, 1e-6):.3g} but for"
    )


@pytest.mark.parametrize("budget", [PureDP(1e308), ZCDP(1e308), ApproxDP(1e308, 0.5)], ids=str)
def test_the_guarantee_of_a_senseless_budget_still_reads(budget: Budget) -> None:
    assert words(budget).endswith(".")


def test_neighbours_differ_by_one_unit_or_by_two_that_are_exchanged():
    assert {relation: relation.sides for relation in Neighbors} == {
        "add-remove": 1,
        "replace-one": 2,
    }


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_so_many_units_take_half_of_an_interval_at_epsilon(epsilon) -> None:
    """The probability outside an interval grows by e^epsilon with each unit."""
    units = hidden_units(PureDP(epsilon))
    assert 0.05 * math.exp(epsilon * units) == pytest.approx(0.5)
    assert hidden_units(ApproxDP(epsilon, 1e-6)) == units


@pytest.mark.parametrize("rho", [0.01, 0.5, 2.0])
def test_so_many_units_take_half_of_an_interval_at_rho(rho) -> None:
    """Renyi divergences of order alpha are at most k^2 rho alpha. Gaussian noise needs more."""
    units = hidden_units(ZCDP(rho))
    divergence = 0.5 * math.log(0.5 / 0.95) + 0.5 * math.log(0.5 / 0.05)
    assert units**2 * rho == pytest.approx(divergence)
    shift = units * math.sqrt(2 * rho)  # in standard deviations of the noise
    inside = stats.norm.cdf(1.96 - shift) - stats.norm.cdf(-1.96 - shift)
    assert 0.5 < inside < 0.8
