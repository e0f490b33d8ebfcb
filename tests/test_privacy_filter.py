"""The ledger's rule: whatever is asked after whatever was seen, all that is admitted fits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.core import privacy_filter
from dpcov.core.privacy import ZCDP, ApproxDP, Budget, PureDP, exact, zcdp_epsilon
from dpcov.core.privacy_filter import _divergence, balance, settled_excess
from dpcov.errors import BudgetError
from dpcov.papers.accounting import GDP, numeric_delta

BUDGET = ApproxDP(1.5, 1e-6)
EPSILON = st.floats(0.01, 1.0)
SPEND = (
    st.builds(PureDP, EPSILON)
    | st.builds(ZCDP, st.floats(1e-4, 0.02))
    | st.builds(ApproxDP, EPSILON, st.floats(1e-12, 1e-7))
)


def admitted(budget: Budget, spends: list[Budget]) -> bool:
    try:
        return balance(budget, spends).admitted
    except BudgetError:
        return False


def of_randomised_response(epsilon: float, excess: float) -> Decimal:
    """Return its Renyi divergence of order 1 + excess, the largest that epsilon allows."""
    with localcontext(prec=80, Emax=10**12, Emin=-(10**12)):
        e, x = Decimal(repr(epsilon)), Decimal(excess)
        more, less = ((1 + x) * e).exp(), (-x * e).exp()
        return ((more + less) / (1 + e.exp())).ln() / x


@given(st.floats(-9, 2).map(lambda x: 10.0**x), st.floats(-4, 5).map(lambda x: 10.0**x))
def test_a_pure_epsilon_counts_as_what_it_allows_and_never_as_less(
    epsilon: float, excess: float
) -> None:
    found = _divergence(PureDP(epsilon), excess)
    assert Fraction(of_randomised_response(epsilon, excess)) <= found
    order = 1 + Fraction(excess)
    assert found <= min(exact(epsilon), order * exact(epsilon) ** 2 / 2)


@pytest.mark.parametrize("excess", [0.5, 1.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_a_pure_epsilon_counts_as_hardly_more_than_it_allows(epsilon: float, excess: float) -> None:
    found = float(_divergence(PureDP(epsilon), excess))
    assert found == pytest.approx(float(of_randomised_response(epsilon, excess)), rel=1e-9)


def test_an_epsilon_beyond_all_numbers_counts_whole() -> None:
    assert _divergence(PureDP(1e305), 1e8) == exact(1e305)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 1.5, 20.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2])
def test_the_settled_order_takes_as_much_rho_as_any_order(epsilon: float, delta: float) -> None:
    excess = settled_excess(exact(epsilon), delta)
    space = float(
        (exact(epsilon) - privacy_filter._conversion(excess, delta)) / (1 + Fraction(excess))
    )
    assert zcdp_epsilon(space, delta) == pytest.approx(epsilon, rel=1e-5)


@pytest.mark.parametrize("delta", [1e-6, 2e-6])
def test_without_a_delta_left_there_is_nothing_to_convert_rho_by(delta: float) -> None:
    with pytest.raises(BudgetError, match="No delta is left"):
        balance(BUDGET, [ApproxDP(0.1, delta), ZCDP(0.001)])
    assert balance(BUDGET, [ApproxDP(0.1, delta / 4), ZCDP(0.001)]).admitted


def test_a_rho_beyond_all_that_is_converted_is_counted_at_its_order() -> None:
    state = balance(BUDGET, [ZCDP(1e300)])
    assert state.spent["epsilon"] > 10**300
    assert not state.admitted


@settings(max_examples=100)
@given(spends=st.lists(SPEND, max_size=6), rho=st.floats(1e-4, 0.02))
def test_the_filter_admits_what_plain_zcdp_with_bad_events_would(
    spends: list[Budget], rho: float
) -> None:
    spends = [ZCDP(rho), *spends]
    deltas = sum(s.delta for s in spends if isinstance(s, ApproxDP))
    total = float(privacy_filter._rho(spends))
    if zcdp_epsilon(total, 9e-7) <= 1.5 * (1 - 1e-4) and deltas < 1e-7:
        assert admitted(BUDGET, spends)


@settings(max_examples=100)
@given(spends=st.lists(SPEND, max_size=6), more=SPEND)
def test_nothing_is_ever_given_back(spends: list[Budget], more: Budget) -> None:
    if admitted(BUDGET, spends) and admitted(BUDGET, [*spends, more]):
        before, after = balance(BUDGET, spends), balance(BUDGET, [*spends, more])
        for name in ("epsilon", "delta"):
            assert after.left[name] <= before.left[name]
            assert after.spent[name] + after.left[name] <= exact(getattr(BUDGET, name))


@settings(max_examples=100)
@given(
    spends=st.lists(SPEND, max_size=6),
    epsilon=st.floats(0.0, 2.0),
    factor=st.floats(1.0, 10.0),
)
def test_what_fits_a_budget_fits_a_larger_one(
    spends: list[Budget], epsilon: float, factor: float
) -> None:
    if admitted(BUDGET, spends):
        larger = ApproxDP(BUDGET.epsilon + epsilon, BUDGET.delta * factor)
        state = balance(larger, spends)
        assert all(amount >= -1e-4 * exact(larger.epsilon) for amount in state.left.values())


@pytest.mark.parametrize("sums", [0.5, 2.0, 2.9])
def test_after_sums_the_rest_takes_as_much_rho_as_a_budget_of_its_size(sums: float) -> None:
    rest = ApproxDP(round(3.0 - sums, 1), 1e-6)
    sizes = (1.01**-k for k in range(2000))
    largest = next(rho for rho in sizes if admitted(rest, [ZCDP(rho)]))
    assert zcdp_epsilon(largest, 9e-7) > 0.98 * rest.epsilon
    after: list[Budget] = [PureDP(sums), ZCDP(largest)]
    assert admitted(ApproxDP(3.0, 1e-6), after)
    assert not admitted(ApproxDP(3.0, 1e-6), [PureDP(sums), ZCDP(largest * 1.01)])


MIXES: list[list[Budget]] = [
    [ZCDP(0.01)] * 40,
    [PureDP(0.3), *[ZCDP(0.004), ApproxDP(0.1, 5e-9), PureDP(0.1)] * 20],
    [ApproxDP(0.2, 1e-7), ZCDP(0.005), *[ApproxDP(0.05, 1e-8)] * 30],
    [ZCDP(0.001), PureDP(0.5), *[PureDP(0.05)] * 60],
]


@pytest.mark.parametrize("mix", MIXES, ids=["rho", "all", "deltas", "pure"])
def test_what_is_admitted_keeps_the_budget_by_dp_accounting(mix: list[Budget]) -> None:
    taken: list[Budget] = []
    for spend in mix:
        if admitted(BUDGET, [*taken, spend]):
            taken.append(spend)
    assert len(taken) < len(mix), "the budget was not used up"
    steps = [GDP(math.sqrt(2 * s.rho)) if isinstance(s, ZCDP) else s for s in taken]
    assert numeric_delta(steps, BUDGET.epsilon, grid=1e-3) <= BUDGET.delta
    assert (
        numeric_delta(steps * 4, BUDGET.epsilon, grid=1e-3) > BUDGET.delta
    )  # the oracle can refuse


# An adaptive adversary, computed exactly.

COARSE = ApproxDP(1.0, 0.05)
STEP = 0.1  # every step answers by randomised response, some after a leak of probability delta
STEPS: tuple[Budget, ...] = (
    ZCDP(STEP * math.tanh(STEP / 2)),
    PureDP(2 * STEP),
    ApproxDP(STEP, 0.0045),
)
JUMPS = (1, 2, 1)
LONGEST = 12


def best_excess(admits) -> float:
    """Return the largest P(E) - e^epsilon Q(E) of an adversary that adapts each step."""
    allowed = cache(lambda history: admits([STEPS[i] for i in history]))

    @cache
    def value(history: tuple[int, ...], loss: int) -> float:
        """Return the value per unit of Q, if the loss so far is `loss` steps."""
        found = max(0.0, math.exp(loss * STEP) - math.exp(COARSE.epsilon))
        if len(history) == LONGEST:
            return found
        for i, jump in enumerate(JUMPS):
            longer = canonical((*history, i))
            if not allowed(longer):
                continue
            likely = 1 / (1 + math.exp(-jump * STEP))
            leak = 0.0045 if i == 2 else 0.0
            honest = (1 - likely) * value(longer, loss + jump) + likely * value(longer, loss - jump)
            found = max(found, leak * math.exp(loss * STEP) + (1 - leak) * honest)
        return found

    return value((), 0)


def canonical(history: tuple[int, ...]) -> tuple[int, ...]:
    """Sort the parts before and after the first rho: the filter ignores their order."""
    start = history.index(0) if 0 in history else len(history)
    return (*sorted(history[:start]), *history[start : start + 1], *sorted(history[start + 1 :]))


@pytest.mark.slow
def test_no_adaptive_adversary_gets_more_than_delta() -> None:
    found = best_excess(lambda spends: admitted(COARSE, spends))
    assert 0.2 * COARSE.delta < found <= COARSE.delta


@pytest.mark.slow
def test_control_the_adversary_beats_a_rule_that_forgets_the_bad_events() -> None:
    def forgetful(spends: list[Budget]) -> bool:
        start = next((i for i, s in enumerate(spends) if isinstance(s, ZCDP)), len(spends))
        kept = [PureDP(s.epsilon) if isinstance(s, ApproxDP) else s for s in spends[start:]]
        return admitted(COARSE, [*spends[:start], *kept])

    assert best_excess(forgetful) > COARSE.delta
