"""Conversions between kinds of budgets never say too little; mpmath is the oracle."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from dpcov.api.grouped import MAX_GROUPED_EPSILON, budget_of_level
from dpcov.core.accounting import zcdp_of_pure
from dpcov.core.privacy import ApproxDP, Neighbors, exact, round_up
from dpcov.errors import BudgetError
from dpcov.papers.accounting import compose_gdp, gdp_of_pure

mpmath.mp.dps = 60


def exactly(value: float) -> mpmath.mpf:
    """Return the exact decimal that a float prints as."""
    number = exact(value)
    return mpmath.mpf(number.numerator) / number.denominator


def true_rho(epsilon: float) -> mpmath.mpf:
    return exactly(epsilon) * mpmath.tanh(exactly(epsilon) / 2)


def is_enough(mu: float, epsilon: float) -> bool:
    """Return True if mu-GDP is no better than epsilon-DP: Phi(-mu / 2) <= 1 / (1 + e^epsilon)."""
    with mpmath.workdps(700):  # the smallest of floats is 10^-324
        half = mpmath.erf(exactly(mu) / mpmath.sqrt(8))  # Phi(mu / 2) - Phi(-mu / 2)
        return bool(half >= mpmath.tanh(exactly(epsilon) / 2))


EPSILONS = st.floats(-323.3, 3).map(lambda x: 10.0**x) | st.floats(5e-324, 1e-300)


@settings(max_examples=200, deadline=None)
@given(epsilon=EPSILONS)
@example(epsilon=1e-5)
@example(epsilon=9e-294)
@example(epsilon=5e-324)
def test_what_a_pure_epsilon_implies_is_rounded_up(epsilon: float) -> None:
    assert is_enough(gdp_of_pure(epsilon), epsilon)
    assert exactly(zcdp_of_pure(epsilon)) >= true_rho(epsilon)


@settings(max_examples=100, deadline=None)
@given(epsilon=st.floats(-140, 2).map(lambda x: 10.0**x))
def test_what_a_pure_epsilon_implies_is_tight(epsilon: float) -> None:
    assert not is_enough(gdp_of_pure(epsilon) * (1 - 3e-12), epsilon)
    assert exactly(zcdp_of_pure(epsilon)) <= true_rho(epsilon) * (1 + mpmath.mpf(1e-14))


def test_control_the_formulas_before_rounded_down() -> None:
    def gdp(epsilon: float) -> float:
        return float(-2 * special.ndtri_exp(special.log_expit(-epsilon))) * (1 + 1e-12)

    def zcdp(epsilon: float) -> float:
        tight = Fraction(epsilon * math.tanh(epsilon / 2) * (1 + 2e-15))
        return round_up(min(exact(epsilon) ** 2 / 2, tight))

    assert is_enough(gdp(2.0), 2.0)
    assert not is_enough(gdp(1e-5), 1e-5)
    assert zcdp(1e-170) == 0 < zcdp_of_pure(1e-170)


@settings(max_examples=200, deadline=None)
@given(mus=st.lists(st.floats(-323.3, 5).map(lambda x: 10.0**x), min_size=1, max_size=9))
def test_composed_mus_are_rounded_up(mus: list[float]) -> None:
    squares = sum(mpmath.mpf(mu) ** 2 for mu in mus)
    assert mpmath.mpf(compose_gdp(mus)) ** 2 >= squares


@settings(max_examples=200, deadline=None)
@given(epsilon=st.floats(-6, 3).map(lambda x: 10.0**x))
def test_the_levels_budgets_keep_the_whole(epsilon: float) -> None:
    whole = ApproxDP(epsilon, 0.1)
    part = budget_of_level(whole, Neighbors.REPLACE_ONE)
    assert exactly(part.delta) * (1 + mpmath.exp(exactly(part.epsilon))) <= exactly(0.1)
    assert 2 * exact(part.epsilon) <= exact(epsilon)


def test_an_epsilon_beyond_any_number_is_refused_by_levels_too() -> None:
    with pytest.raises(BudgetError, match=f"at most {MAX_GROUPED_EPSILON}"):
        budget_of_level(ApproxDP(1e5, 0.1), Neighbors.REPLACE_ONE)
