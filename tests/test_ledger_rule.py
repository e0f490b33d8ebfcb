"""The rules of a ledger, against an accountant of its own and against an exact adversary."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ledger as benchmark
import ledger_mixes as mixes
from dpcov.core.accounting import drawn_epsilon, drawn_mu_squared, root_up
from dpcov.core.ledger_rule import Count, Rule, Spend, epsilon_at
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    PureDP,
    exact,
    gaussian_delta,
    round_up,
    zcdp_epsilon,
)
from dpcov.errors import BudgetError
from dpcov.mechanisms import Gaussian
from dpcov.mechanisms.standardized import BY_COLUMN
from dpcov.papers.accounting import GDP, numeric_delta

WHOLE = ApproxDP(3.0, 1e-6)
EPSILON = st.floats(math.log(1e-3), math.log(20)).map(math.exp)
DELTA = st.floats(-12, -2).map(lambda x: 10.0**x)


def spend(epsilon: float, delta: float) -> Spend:
    """A release of Gaussian noise with this guarantee."""
    return Spend(ApproxDP(epsilon, delta), root_up(drawn_mu_squared(epsilon, delta)))


def test_twelve_releases_count_as_their_noise_and_not_as_a_sum() -> None:
    state = Rule(WHOLE, Count.GAUSSIAN).balance([spend(0.25, 1e-8)] * 12)
    assert state.spent["epsilon"] == pytest.approx(0.75, rel=1e-3)
    sums = Rule(WHOLE).balance([spend(0.25, 1e-8)] * 12)
    assert sums.spent["epsilon"] == 3


@given(EPSILON, DELTA)
def test_a_ledger_admits_one_release_of_its_whole_budget(epsilon: float, delta: float) -> None:
    rule = Rule(ApproxDP(epsilon, delta), Count.GAUSSIAN)
    state = rule.balance([spend(epsilon, delta)])
    assert state.admitted
    assert state.left["mu_squared"] == 0
    assert state.spent["epsilon"] <= exact(epsilon)
    assert not rule.admits([spend(epsilon, delta), spend(epsilon / 1e4, delta)])


@given(st.floats(math.log(1e-4), math.log(10)).map(math.exp), DELTA)
def test_the_epsilon_of_a_mu_covers_the_mu(mu: float, delta: float) -> None:
    epsilon = drawn_epsilon(mu, delta)
    if epsilon == 0:
        assert gaussian_delta(mu, 0.0) <= delta
    else:
        assert drawn_mu_squared(epsilon, delta) >= Fraction(mu) ** 2 * (1 - Fraction(1, 10**9))
        assert gaussian_delta(mu, epsilon * (1 - 1e-12)) <= delta


@given(st.fractions(0, 10**6, max_denominator=10**9))
def test_a_root_is_the_smallest_float_above(square: Fraction) -> None:
    root = root_up(square)
    assert Fraction(root) ** 2 >= square
    assert root == 0 or Fraction(math.nextafter(root, 0.0)) ** 2 < square


def test_the_mix_of_the_benchmark_is_counted_within_ten_percent() -> None:
    rows = {row["what"].split(": ")[1]: row for row in benchmark.gaussian_rows(12)}
    assert all(row["ok"] for row in rows.values())
    assert float(rows["count / tight, median"]["found"]) < 1.02
    assert float(rows["plain addition / count, median"]["found"]) > 1.5


def test_mixes_with_pure_releases_are_never_overdrawn_and_the_control_is() -> None:
    assert all(row["ok"] for row in benchmark.pure_rows(8))


def test_no_adversary_gets_more_than_delta_and_every_control_does() -> None:
    rows = list(benchmark.adversary_rows())
    assert [row["what"] for row in rows if not row["ok"]] == []
    assert sum("(control)" in row["what"] for row in rows) == 3


def test_another_mechanism_counted_by_a_mu_is_overdrawn() -> None:
    """The control: an (epsilon, delta) mechanism that leaks with probability delta has no mu."""
    budget, leak = ApproxDP(1.0, 1e-5), ApproxDP(0.01, 1e-6)
    rule = Rule(budget, Count.GAUSSIAN)
    false, number = spend(leak.epsilon, leak.delta), 0
    while rule.admits([false] * (number + 1)) and number < 100:
        number += 1
    assert numeric_delta([leak] * number, budget.epsilon, grid=1e-3) > 2 * budget.delta
    honest = numeric_delta([GDP(false.mu or 0)] * number, budget.epsilon, grid=1e-3)
    assert honest <= budget.delta
    assert rule.refusal(Spend(leak)) is not None


@pytest.mark.parametrize("seed", range(6))
def test_the_mu_of_a_calibration_belongs_to_its_variances(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    for _ in range(5):
        one = mixes.release(chance, rho_share=0.3)
        assert one.spend.mu is not None
        assert one.mu <= one.spend.mu
        assert one.mu == pytest.approx(one.spend.mu, rel=0.05)


@pytest.mark.parametrize("mechanism", [Gaussian(), BY_COLUMN])
def test_every_round_has_the_extra_variance_that_its_mu_needs(mechanism: object) -> None:
    """Without 8 in each variance, the mu^2 of the rounds add up to the mu^2 of the release."""
    lattice = mixes.Lattice(3, 1.0, 0.3)
    for budget in (ApproxDP(0.7, 1e-7), ZCDP(0.02)):
        laws = mixes.calibrated(mechanism, lattice, budget, mixes.Neighbors.ADD_REMOVE)
        rounds = list(mixes.rounds(laws, lattice))
        square = sum(change / (variance - 8) for change, variance in rounds)
        assert root_up(square) == pytest.approx(laws.mu, rel=1e-12)
        assert len(rounds) > 2


def test_a_rho_has_a_mu_only_with_the_extra_variance() -> None:
    lattice, relation = mixes.Lattice(3, 1.0, 0.3), mixes.Neighbors.ADD_REMOVE
    for mechanism in (Gaussian(), BY_COLUMN):
        plain = mixes.count.calibrated(mechanism, lattice, ZCDP(0.02), relation, 1)
        assert plain.mu is None
        rounded = mixes.calibrated(mechanism, lattice, ZCDP(0.02), relation)
        assert rounded.mu == pytest.approx(math.sqrt(0.04), rel=1e-12)
        assert rounded.guarantee == plain.guarantee
        pairs = zip(mixes.rounds(plain, lattice), mixes.rounds(rounded, lattice), strict=True)
        assert all(other[1] == one[1] + 8 for one, other in pairs)


def test_the_epsilon_of_a_release_at_a_delta_is_that_of_its_noise() -> None:
    release = spend(0.25, 1e-8)
    at = {delta: epsilon_at(release, delta) for delta in (1e-10, 1e-8, 1e-6)}
    assert at[1e-10] > 0.25 * 1.1
    assert at[1e-8] == pytest.approx(0.25, rel=1e-9)
    assert at[1e-6] == pytest.approx(0.1985, rel=1e-3)
    stated = Spend(release.budget)  # without a mu nothing is known but what is stated
    assert (epsilon_at(stated, 1e-6), epsilon_at(stated, 1e-9)) == (0.25, None)
    assert epsilon_at(Spend(ZCDP(0.02)), 1e-6) == zcdp_epsilon(0.02, 1e-6)
    assert epsilon_at(Spend(ZCDP(0.02)), 1e-6) > drawn_epsilon(0.2, 1e-6)
    assert epsilon_at(Spend(PureDP(0.3)), 1e-6) == 0.3


SPEND: st.SearchStrategy[Spend] = (
    st.builds(spend, st.floats(0.05, 1.0), st.floats(1e-10, 1e-7))
    | st.builds(lambda rho: Spend(ZCDP(rho), math.sqrt(2 * rho)), st.floats(1e-4, 0.02))
    | st.builds(lambda epsilon: Spend(PureDP(epsilon)), st.floats(0.01, 0.3))
)


@settings(max_examples=50)
@given(st.lists(SPEND, max_size=6), st.permutations(range(6)), SPEND)
def test_a_count_has_no_order_and_gives_nothing_back(
    spends: list[Spend], order: list[int], more: Spend
) -> None:
    rule = Rule(WHOLE, Count.GAUSSIAN, 1.0)
    before = rule.balance(spends)
    assert rule.balance([spends[at] for at in order if at < len(spends)]) == before
    after = rule.balance([*spends, more])
    for name in before.left:
        assert after.left[name] <= before.left[name]
        assert after.spent[name] >= before.spent[name]
    assert rule.admits([*spends, more]) <= rule.admits(spends)


RULES = [
    Rule(PureDP(1.0)),
    Rule(ZCDP(0.2)),
    Rule(WHOLE),
    Rule(WHOLE, Count.GAUSSIAN),
    Rule(WHOLE, Count.GAUSSIAN, 0.5),
]


def countable(rule: Rule, spends: list[Spend]) -> list[Spend]:
    """The spends that the rule can count, without the mu for sums."""
    if isinstance(rule.budget, PureDP):
        return [one for one in spends if isinstance(one.budget, PureDP)]
    if isinstance(rule.budget, ZCDP):
        return [one for one in spends if not isinstance(one.budget, ApproxDP)]
    return [one for one in spends if rule.refusal(one) is None]


def as_spend(rule: Rule, budget: Budget) -> Spend:
    if rule.count == Count.SUMS or isinstance(budget, PureDP):
        return Spend(budget)
    if isinstance(budget, ZCDP):
        return Spend(budget, root_up(2 * exact(budget.rho)))
    return spend(budget.epsilon, budget.delta)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(RULES), st.lists(SPEND, max_size=4))
def test_what_can_be_requested_is_admitted_and_hardly_more_is(
    rule: Rule, spends: list[Spend]
) -> None:
    kept = countable(rule, spends)
    if not rule.admits(kept):
        return
    for budget in rule.largest_requests(kept):
        assert rule.admits([*kept, as_spend(rule, budget)])
        name = "rho" if isinstance(budget, ZCDP) else "epsilon"
        larger = {field: getattr(budget, field) for field in budget.__slots__}
        larger[name] = round_up(exact(larger[name]) * Fraction(10001, 10000) + Fraction(1, 10**11))
        assert not rule.admits([*kept, as_spend(rule, type(budget)(**larger))])


def test_a_kind_of_which_nothing_is_left_is_not_offered() -> None:
    assert Rule(PureDP(1.0)).largest_requests([Spend(PureDP(1.0))]) == ()
    assert Rule(ZCDP(1.0)).largest_requests([Spend(ZCDP(1.0))]) == ()
    full = [spend(3.0, 1e-6)]
    assert Rule(WHOLE, Count.GAUSSIAN).largest_requests(full) == ()
    reserve = Rule(WHOLE, Count.GAUSSIAN, 0.5).largest_requests([spend(2.5, 1e-6)])
    assert reserve == (PureDP(0.5),)
    assert Rule(WHOLE).largest_requests([Spend(PureDP(3.0))]) == ()


@pytest.mark.parametrize(
    ("budget", "count", "pure"),
    [
        (PureDP(1.0), "gaussian", 0.0),
        (ZCDP(1.0), "gaussian", 0.0),
        (PureDP(1.0), "sums", 0.5),
        (WHOLE, "sums", 0.5),
        (WHOLE, "gaussian", 3.0),
        (WHOLE, "gaussian", 2.9999999),
        (WHOLE, "gaussian", -0.5),
        (WHOLE, "gaussian", math.nan),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(budget: Budget, count: str, pure: float) -> None:
    with pytest.raises(BudgetError):
        Rule(budget, Count(count), pure)


def test_a_count_of_what_has_no_mu_is_an_error() -> None:
    rule = Rule(WHOLE, Count.GAUSSIAN)
    for other in (Spend(ApproxDP(0.1, 1e-9)), Spend(ZCDP(0.01)), Spend(PureDP(0.1))):
        assert rule.refusal(other)
        assert not rule.admits([other])
        with pytest.raises(BudgetError):
            rule.balance([other])
