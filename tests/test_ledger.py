"""The ledger's arithmetic and its refusals; its file is in test_ledger_file."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcov.api.ledger import Ledger
from dpcov.core.accounting import renyi_of_pure, zcdp_of_pure
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Neighbors,
    PureDP,
    Unit,
    exact,
    zcdp_epsilon,
)
from dpcov.errors import BudgetError, BudgetExceededError, LedgerError
from dpcov.papers.accounting import compose_renyi, renyi_epsilon, renyi_of_zcdp
from tables_for_tests import of, spend

NOTHING_SPENT = "Nothing was spent"
PERSON = Unit("person_id", 3)


def summing(path: Path, budget: Budget, *, dataset: str = "default") -> Ledger:
    """A ledger that adds up epsilons and deltas; for other budgets the only kind of ledger."""
    return Ledger.create(path, budget, dataset=dataset, count="sums")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hospital.ledger"


def test_ten_spends_of_a_tenth_fit_a_budget_of_one_and_an_eleventh_does_not(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    account = spend(ledger, *[PureDP(0.1)] * 10)
    assert (account.spent, account.left) == ({"epsilon": 1.0}, {"epsilon": 0.0})
    with pytest.raises(BudgetExceededError, match=r"but 0 of 1 remain.*" + NOTHING_SPENT):
        ledger.reserve(of(PureDP(0.1)))
    assert ledger.account() == account


@pytest.mark.parametrize(
    ("budget", "part", "count"),
    [
        (PureDP(0.3), PureDP(0.1), 3),
        (ZCDP(0.3), ZCDP(0.1), 3),
        (ZCDP(0.015), PureDP(0.1), 3),
        (ApproxDP(0.3, 3e-7), ApproxDP(0.1, 1e-7), 3),
        (ApproxDP(0.3, 1e-12), PureDP(0.1), 3),
        (ApproxDP(9.0, 3e-7), ApproxDP(0.1, 1e-7), 3),
    ],
    ids=str,
)
def test_decimal_amounts_add_up_without_binary_rounding(
    path: Path, budget: Budget, part: Budget, count: int
) -> None:
    ledger = summing(path, budget)
    spend(ledger, *[part] * count)
    with pytest.raises(BudgetExceededError):
        ledger.reserve(of(part))


def test_a_refusal_says_what_is_left_and_spends_nothing(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    spend(ledger, PureDP(0.3))
    with pytest.raises(BudgetExceededError, match=r"needs epsilon 0[.]71, but 0[.]7 of 1 remain"):
        ledger.reserve(of(PureDP(0.71)))
    assert spend(ledger, PureDP(0.7)).left == {"epsilon": 0.0}


def test_spent_is_shown_rounded_up_and_left_rounded_down(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    account = spend(ledger, PureDP(1e-20), PureDP(0.1))
    assert exact(account.spent["epsilon"]) > exact(0.1) + exact(1e-20)
    assert exact(account.left["epsilon"]) < 1 - exact(0.1) - exact(1e-20)


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-9)], ids=str)
def test_an_unused_budget_is_all_left(path: Path, budget: Budget) -> None:
    account = summing(path, budget).account()
    assert account.budget == budget
    assert set(account.spent.values()) == {0.0}
    assert account.left == account.to_json()["budget"]
    assert account.unit is None


def test_an_account_is_plain_data(path: Path) -> None:
    ledger = summing(path, ApproxDP(1.0, 1e-9), dataset="wards")
    ledger.reserve(of(ApproxDP(0.25, 1e-10), unit=PERSON), note="matrix-laplace")
    plain = json.loads(json.dumps(ledger.account().to_json()))
    (release,) = plain.pop("releases")
    rho = plain["can_request"].pop()["rho"]
    assert zcdp_epsilon(rho, 0.9 * 9e-10) == pytest.approx(0.75, rel=1e-5)
    assert plain == {
        "dataset": "wards",
        "budget": {"epsilon": 1.0, "delta": 1e-9},
        "spent": {"epsilon": 0.25, "delta": 1e-10},
        "left": {"epsilon": 0.75, "delta": 9e-10},
        "neighbors": "add-remove",
        "unit": {"column": "person_id", "max_rows": 3},
        "count": "sums",
        "pure": 0.0,
        "previous": None,
        "successor": None,
        "can_request": [{"epsilon": 0.75, "delta": 9e-10}, {"epsilon": 0.75}],
    }
    assert release.pop("time").endswith("+00:00")
    assert release == {
        "id": 1,
        "note": "matrix-laplace",
        "mu": None,
        "outcome": None,
        "state": "unfinished",
        "guarantee": {
            "budget": {"epsilon": 0.25, "delta": 1e-10},
            "neighbors": "add-remove",
            "unit": {"column": "person_id", "max_rows": 3},
        },
    }


def test_every_entry_is_read_back_in_order(path: Path) -> None:
    budgets: list[Budget] = [PureDP(0.1), ApproxDP(0.2, 1e-8), PureDP(0.2)]
    entries = spend(summing(path, ApproxDP(3.0, 1e-6)), *budgets).entries
    assert [entry.guarantee for entry in entries] == [of(budget) for budget in budgets]
    assert [entry.id for entry in entries] == [1, 2, 3]


def test_a_zcdp_budget_counts_a_pure_epsilon_by_its_tight_rho(path: Path) -> None:
    account = spend(Ledger.create(path, ZCDP(0.6)), PureDP(1.0), ZCDP(0.1))
    assert account.spent == {"rho": pytest.approx(0.1 + math.tanh(0.5), rel=1e-14)}


def test_an_approximate_budget_adds_pure_and_approximate_spends(path: Path) -> None:
    account = spend(summing(path, ApproxDP(3.0, 1e-6)), PureDP(0.1), ApproxDP(0.2, 1e-8))
    assert account.spent == {"epsilon": 0.3, "delta": 1e-8}


def test_an_approximate_budget_converts_from_the_first_zcdp_spend_on(path: Path) -> None:
    spends: list[Budget] = [PureDP(0.1), ZCDP(0.001), PureDP(0.1), ZCDP(0.002)]
    account = spend(summing(path, ApproxDP(3.0, 1e-6)), *spends)
    expected = 0.1 + zcdp_epsilon(0.001 + zcdp_of_pure(0.1) + 0.002, 9e-7)
    assert account.spent == {"epsilon": pytest.approx(expected, rel=1e-12), "delta": 9e-7}
    assert account.left["delta"] == pytest.approx(1e-7, rel=1e-12)


@pytest.mark.parametrize(
    ("spends", "sums", "rho", "left"),
    [
        ([ZCDP(0.001), ApproxDP(0.1, 1e-9)], 0.1, 0.001 + zcdp_of_pure(0.1), 1e-6),
        ([ApproxDP(0.1, 1e-9), ZCDP(0.001)], 0.2, 0.001, 1e-6 - 1e-9),
    ],
    ids=["rho first", "delta first"],
)
def test_rho_and_epsilon_with_delta_are_counted_together(
    path: Path, spends: list[Budget], sums: float, rho: float, left: float
) -> None:
    account = spend(summing(path, ApproxDP(3.0, 1e-6)), PureDP(0.1), *spends)
    assert [entry.guarantee.budget for entry in account.entries] == [PureDP(0.1), *spends]
    expected = sums + zcdp_epsilon(rho, 0.9 * left)
    assert account.spent["epsilon"] == pytest.approx(expected, rel=1e-9)
    assert account.spent["delta"] == pytest.approx(0.9 * left + 1e-9, rel=1e-9)


def test_what_is_left_can_be_asked_for_by_epsilon_and_by_delta(path: Path) -> None:
    ledger = summing(path, ApproxDP(3.0, 1e-6))
    left = spend(ledger, PureDP(0.1), ZCDP(0.01)).left
    with pytest.raises(BudgetExceededError):
        ledger.reserve(of(ApproxDP(0.1, left["delta"] * 1.001)))
    ledger.reserve(of(ApproxDP(left["epsilon"], left["delta"])))
    assert ledger.account().left["delta"] == 0


@pytest.mark.parametrize("spend_", [ApproxDP(0.1, 2e-6), ZCDP(5.0), PureDP(1e300)], ids=str)
def test_an_approximate_budget_refuses_too_much_of_any_kind(path: Path, spend_: Budget) -> None:
    with pytest.raises(BudgetExceededError):
        summing(path, ApproxDP(1.0, 1e-6)).reserve(of(spend_))


@pytest.mark.parametrize(
    ("budget", "spend_", "advice"),
    [
        (PureDP(1.0), ZCDP(0.1), "Use --epsilon, or a ledger that counts rho"),
        (
            PureDP(1.0),
            ApproxDP(0.1, 1e-9),
            "Use --epsilon, or a ledger that counts epsilon and delta",
        ),
        (ZCDP(1.0), ApproxDP(0.1, 1e-9), "Use --rho, or a ledger that counts epsilon and delta"),
    ],
    ids=str,
)
def test_a_kind_that_cannot_be_counted_is_refused_with_advice(
    path: Path, budget: Budget, spend_: Budget, advice: str
) -> None:
    ledger = summing(path, budget)
    with pytest.raises(LedgerError, match=advice):
        ledger.reserve(of(spend_))
    assert not ledger.account().entries


def test_one_definition_of_neighbours_for_all_releases(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0), neighbors=Neighbors.REPLACE_ONE)
    with pytest.raises(LedgerError, match="but this release uses add-remove"):
        ledger.reserve(of(PureDP(0.1)))
    assert not ledger.account().entries


def test_the_first_release_fixes_the_unit(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    ledger.reserve(of(PureDP(0.1), unit=PERSON))
    with pytest.raises(LedgerError, match="but this release protects one row"):
        ledger.reserve(of(PureDP(0.1)))
    assert (ledger.account().unit, len(ledger.account().entries)) == (PERSON, 1)


def test_added_budget_can_be_spent_exactly(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(0.1))
    ledger.add_budget(PureDP(0.2))
    assert ledger.account().budget == PureDP(0.3)
    assert spend(ledger, PureDP(0.3)).left == {"epsilon": 0.0}


def test_a_budget_grows_in_its_own_terms_only(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    with pytest.raises(LedgerError, match="Add a budget in epsilon"):
        ledger.add_budget(ZCDP(1.0))
    assert ledger.account().budget == PureDP(1.0)


def test_a_budget_never_grows_to_a_delta_of_one(path: Path) -> None:
    ledger = summing(path, ApproxDP(1.0, 0.6))
    with pytest.raises(BudgetError, match="delta must be below 1"):
        ledger.add_budget(ApproxDP(1.0, 0.6))
    assert ledger.account().budget == ApproxDP(1.0, 0.6)


def test_two_data_sets_have_separate_accounts(path: Path) -> None:
    Ledger.create(path, PureDP(1.0), dataset="wards")
    ledger = Ledger.create(path, ZCDP(0.5), dataset="staff", neighbors=Neighbors.REPLACE_ONE)
    ledger.reserve(of(PureDP(0.4)), dataset="wards")
    ledger.reserve(of(ZCDP(0.2), Neighbors.REPLACE_ONE, PERSON), dataset="staff")
    assert ledger.datasets() == ["wards", "staff"]
    assert ledger.account("wards").spent == {"epsilon": 0.4}
    assert ledger.account("staff").spent == {"rho": 0.2}


def test_data_sets_created_at_the_same_moment_are_all_kept(path: Path) -> None:
    names = [f"ward {number}" for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: Ledger.create(path, PureDP(1.0), dataset=name), names))
    assert sorted(Ledger.open(path).datasets()) == names


def test_a_data_set_must_be_named_where_there_are_several(path: Path) -> None:
    Ledger.create(path, PureDP(1.0), dataset="wards")
    ledger = Ledger.create(path, PureDP(1.0), dataset="staff")
    for name in (None, "payroll"):
        with pytest.raises(LedgerError, match="'wards', 'staff'"):
            ledger.reserve(of(PureDP(0.1)), dataset=name)


def test_a_data_set_is_created_once(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    spend(ledger, PureDP(0.5))
    with pytest.raises(LedgerError, match="already contains the data set 'default'"):
        Ledger.create(path, PureDP(9.0))
    assert ledger.account().left == {"epsilon": 0.5}


EPSILONS = st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 0.7, 1.0]) | st.floats(1e-6, 2.0)
PURE = st.builds(PureDP, EPSILONS)
RHO = st.builds(ZCDP, EPSILONS.map(lambda epsilon: epsilon / 10))
APPROX = st.builds(ApproxDP, EPSILONS, st.floats(1e-12, 1e-6))
SPENDS = st.lists(PURE | RHO | APPROX, max_size=8)


def cost(budget: Budget, spend_: Budget) -> Fraction:
    match budget, spend_:
        case (PureDP(), PureDP(amount)) | (ZCDP(), ZCDP(amount)):
            return exact(amount)
        case ZCDP(), PureDP(epsilon):
            return exact(zcdp_of_pure(epsilon))
    raise AssertionError("a kind that cannot be counted")


def fits(budget: Budget, spends: Sequence[Budget]) -> bool:
    """Return True if the charges keep the budget, without use of the ledger."""
    match budget:
        case PureDP(whole) | ZCDP(whole):
            return sum((cost(budget, s) for s in spends), Fraction(0)) <= exact(whole)
        case ApproxDP(epsilon, delta):
            start = next((i for i, s in enumerate(spends) if isinstance(s, ZCDP)), len(spends))
            deltas = sum(exact(s.delta) for s in spends if isinstance(s, ApproxDP))
            before = sum(exact(s.epsilon) for s in spends[:start])
            if start == len(spends):
                return before <= exact(epsilon) and deltas <= exact(delta)
            curve = compose_renyi(
                [
                    renyi_of_zcdp(s.rho) if isinstance(s, ZCDP) else renyi_of_pure(s.epsilon)
                    for s in spends[start:]
                ]
            )
            rest = renyi_epsilon(curve, float(exact(delta) - deltas))
            return float(before) + rest <= epsilon * (1 + 1e-12)


@settings(max_examples=60, deadline=None)
@given(
    budget=st.sampled_from([PureDP(1.0), ZCDP(0.3), ApproxDP(1.5, 1e-6)]),
    spends=SPENDS,
)
def test_no_sequence_of_spends_exceeds_the_budget(budget: Budget, spends: list[Budget]) -> None:
    accepted: list[Budget] = []
    with TemporaryDirectory() as folder:
        ledger = summing(Path(folder) / "x.ledger", budget)
        for asked in spends:
            try:
                ledger.reserve(of(asked))
                accepted.append(asked)
            except BudgetExceededError:
                if isinstance(budget, PureDP | ZCDP):
                    assert not fits(budget, [*accepted, asked])
            except LedgerError:
                assert not isinstance(asked, type(budget))
        account = ledger.account()
    assert fits(budget, accepted)
    assert [entry.guarantee.budget for entry in account.entries] == accepted
