"""Plans for one interval: half widths, the budgets that they need, and several years."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov import cli
from dpcov.api.ledger import Ledger
from dpcov.api.plans import half_widths
from dpcov.api.plans.half_widths import FIRST_RELEASES, quantity_of
from dpcov.api.plans.quantities import Quantity
from dpcov.core.accounting import drawn_mu_squared
from dpcov.core.ledger_rule import Count, Rule, Spend
from dpcov.core.privacy import ZCDP, ApproxDP, PureDP
from dpcov.core.steps import Steps, steps_shown_by
from dpcov.errors import BudgetError, ReleaseError, SchemaError
from dpcov.estimate.errors import SAMPLING_ERROR_FACTOR
from dpcov.rows.schema import Schema

SCHEMA = Schema.parse(
    {
        "version": 3,
        "columns": {
            "age": {"kind": "number", "lower": 0, "upper": 100, "missing": "none"},
            "sbp": {"kind": "number", "lower": 60, "upper": 250, "missing": "none"},
            "smoker": {"kind": "flag", "missing": "none"},
            "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": "none"},
        },
    }
)
PAIR = {"pair": ("age", "sbp")}


def planned(**asked) -> dpcov.plan_half_width:
    return dpcov.plan_half_width(SCHEMA, 5000, **{"epsilon": 1.0, "quick": True, **asked})


def test_a_release_with_the_needed_budget_has_about_the_requested_half_width() -> None:
    found = planned(**PAIR, half_width=0.1, mechanism="matrix-laplace")
    again = planned(
        **PAIR, epsilon=found.needed.budget.epsilon, mechanism="matrix-laplace", quick=True
    )
    assert again.half_width == pytest.approx(0.1, rel=0.15)


def test_the_half_width_is_the_one_that_a_release_of_such_a_table_states() -> None:
    generator = np.random.default_rng(5)
    smoker = np.arange(5000) % 2
    table = {
        "age": np.clip(generator.normal(40, 17, 5000), 0, 100),
        "sbp": np.clip(generator.normal(150, 33, 5000), 60, 250),
        "smoker": smoker.astype(bool),
        "ward": np.array(["a", "b", "c"])[generator.choice(3, 5000, p=[0.74, 0.18, 0.08])],
    }
    made = dpcov.release(pd.DataFrame(table), schema=SCHEMA, epsilon=1.0, seed=1)
    stated = dpcov.intervals(made, "mean")
    at = made.columns.index("smoker")
    found = planned(share="smoker")
    assert found.half_width == pytest.approx((stated.high - stated.low)[at] / 2, rel=0.3)
    of_half = 1.96 * math.sqrt(0.25 / 5000) * SAMPLING_ERROR_FACTOR
    assert found.at_budget.from_sampling == pytest.approx(of_half, rel=0.03)


def test_no_budget_gives_less_than_the_sampling_error() -> None:
    found = planned(**PAIR, half_width=0.001, mechanism="matrix-laplace")
    assert found.needed is None
    assert "sampling alone gives about 0.02" in found.answers()[1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"pair": ("age", "bmi")}, "no feature 'bmi'. Choose one of: age, sbp"),
        ({"pair": ("age", "age")}, "Choose two features"),
        ({"share": "age"}, "no flag and no level .* smoker, ward=a, ward=b, ward=c"),
        ({"share": "smoker", **PAIR}, "Choose one of --pair and --share"),
        ({"pair": ("age",)}, "two names"),
        ({"half_width": 0.0, **PAIR}, "half_width"),
    ],
)
def test_what_cannot_be_planned_is_refused(asked, message) -> None:
    with pytest.raises((SchemaError, ReleaseError), match=message):
        planned(**asked)


def test_without_a_quantity_the_plan_is_for_a_typical_correlation() -> None:
    assert quantity_of(None, None, None) == Quantity()
    assert planned(mechanism="matrix-laplace").quantity == "a typical correlation"


@pytest.mark.parametrize(
    ("rule", "spends"),
    [
        (Rule(PureDP(1.0)), []),
        (Rule(ZCDP(0.3)), [Spend(ZCDP(0.1))]),
        (Rule(ApproxDP(1.0, 1e-6)), [Spend(PureDP(0.2))]),
        (Rule(ApproxDP(1.0, 1e-6), Count.GAUSSIAN), []),
        (Rule(ApproxDP(1.0, 1e-6), Count.GAUSSIAN, 0.2), [Spend(PureDP(0.1))]),
    ],
)
@pytest.mark.parametrize("years", [2, 5])
def test_the_rule_admits_the_release_of_each_year_and_hardly_more(rule, spends, years) -> None:
    def spend(budget) -> Spend:
        gaussian = rule.count == Count.GAUSSIAN and not isinstance(budget, PureDP)
        if not gaussian:
            return Spend(budget)
        mu = math.sqrt(2 * budget.rho) if isinstance(budget, ZCDP) else mu_of(budget)
        return Spend(budget, mu)

    kinds = rule.largest_requests(spends, years)
    assert kinds
    for budget in kinds:
        assert rule.admits([*spends, *[spend(budget)] * years])
        more = type(budget)(**{**vars_of(budget), first_of(budget): 1.01 * amount_of(budget)})
        assert not rule.admits([*spends, *[spend(more)] * years])


def mu_of(budget: ApproxDP) -> float:
    return math.nextafter(math.sqrt(drawn_mu_squared(budget.epsilon, budget.delta)), 0.0)


def vars_of(budget) -> dict[str, float]:
    return {name: getattr(budget, name) for name in budget.__slots__}


def first_of(budget) -> str:
    return str(budget.__slots__[0])


def amount_of(budget) -> float:
    return float(getattr(budget, first_of(budget)))


def test_a_ledger_admits_the_planned_years_and_then_nothing(tmp_path: Path) -> None:
    path = tmp_path / "people.ledger"
    ledger = Ledger.create(path, PureDP(2.0))
    table = np.random.default_rng(0).uniform(0, 1, (300, 2))
    bounds = {"lower": 0, "upper": 1, "ledger": ledger}
    dpcov.release(table, **bounds, epsilon=0.5)
    found = dpcov.plan_half_width(
        SCHEMA, 5000, **PAIR, ledger=path, years=3, quick=True, mechanism="matrix-laplace"
    )
    assert [year.budget for year in found.years] == [PureDP(0.5)] * 3
    assert [year.left for year in found.years] == [PureDP(1.0), PureDP(0.5), None]
    for year in found.years:
        dpcov.release(table, **bounds, epsilon=year.budget.epsilon)
    with pytest.raises(BudgetError, match="Nothing is left"):
        planned(ledger=path, years=1, epsilon=None)
    with pytest.raises(BudgetError, match="Remove --epsilon"):
        planned(ledger=path, years=1)


def test_a_plan_of_years_chooses_the_request_with_the_smallest_half_width() -> None:
    found = planned(**PAIR, epsilon=1.0, delta=1e-6, years=4, mechanism="standardized")
    assert len(found.kinds) == 3
    assert found.half_width == min(one.half_width for one in found.kinds)
    assert found.years[0].budget == found.at_budget.budget


def test_steps_are_shown_to_who_asks_and_end_at_the_total() -> None:
    seen: list[tuple[int, int]] = []
    with steps_shown_by(lambda done, total: seen.append((done, total))):
        planned(**PAIR, mechanism="matrix-laplace")
    Steps(3).advance()
    assert seen[0] == (0, 1)
    assert seen[-1] == (1, 1)


def test_the_command_prints_a_first_answer_and_then_refines_it(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_widths, "EPSILON_FACTORS", (1.0, 2.0))
    monkeypatch.setattr(half_widths, "WIDTH_RELEASES", 3)
    path = tmp_path / "people.toml"
    path.write_text("""version = 3
[columns.age]
kind = "number"
lower = 0
upper = 100
missing = "none"
[columns.sbp]
kind = "number"
lower = 60
upper = 250
missing = "none"
""")
    line = f"plan {path} --rows 5000 --mechanism matrix-laplace --pair age sbp --half-width 0.1"
    with pytest.raises(SystemExit, match="0"):
        cli.main(line.split())
    first, answer, wanted, *rest = capsys.readouterr().out.splitlines()
    assert first == f"First answer, from {FIRST_RELEASES} simulated releases:"
    assert "the half width of the 95% interval for the correlation of age and sbp" in answer
    assert wanted.startswith("A half width of 0.1 needs about epsilon")
    assert any("likely between" in sentence for sentence in rest)
    with pytest.raises(SystemExit, match="0"):
        cli.main([*line.split(), "--quick", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert document["between"] is None
    assert document["needed"]["budget"]["epsilon"] > 0
    with pytest.raises(SystemExit, match="2"):
        cli.main([*line.split(), "--error", "0.1"])
    assert "--error and --target are for a plan of all results" in capsys.readouterr().err
