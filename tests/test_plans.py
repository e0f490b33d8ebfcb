"""Plans: what they predict from public numbers, and what they refuse."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov import cli
from dpcov.api.plans import (
    ASSUMPTIONS_RANGE_FACTOR,
    LEGEND,
    RANGE_NOTE,
    RELEASE_RANGE_FACTOR,
    Plan,
    plan,
    scaled,
)
from dpcov.api.plans.simulated import Assumptions, SimulatedTable, simulated_rows
from dpcov.api.plans.trials import Errors, adds_noise
from dpcov.api.plans.typical_correlation import typical_correlation
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.errors import (
    BudgetError,
    DpcovError,
    LedgerError,
    MechanismError,
    ReleaseError,
    SchemaError,
)
from dpcov.mechanisms import MECHANISMS
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from tables_for_tests import SCHEMA_TEXT, correlated, write_people

NUMERIC = Schema.from_bounds(-1, 1, [f"x{j}" for j in range(6)])
MIXED = Schema.parse(
    {
        "columns": {
            "age": {"kind": "numeric", "lower": 0, "upper": 100, "missing": "level"},
            "job": {"kind": "categorical", "levels": ["a", "b", "c"], "other": True},
            "pay": {"kind": "numeric", "lower": 0, "upper": 9},
        }
    }
)


def moments_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows.mean(axis=0), np.cov(rows, rowvar=False)


def lattice_of(schema: Schema) -> Lattice:
    return Lattice(len(schema.features), schema.effective_radius, schema.intercept)


@pytest.mark.parametrize("size", [0.0, 0.1, 0.4, 0.8])
@pytest.mark.parametrize("p", [2, 7, 60])
def test_simulated_correlations_have_the_assumed_size(p, size):
    made = typical_correlation(p, size, np.random.default_rng(1))
    apart = made[np.tril_indices(p, -1)]
    assert np.sqrt(np.mean(apart**2)) == pytest.approx(size, abs=2e-3)
    assert np.linalg.eigvalsh(made)[0] > 0
    assert np.allclose(np.diag(made), 1)


def test_simulated_columns_have_the_assumed_spreads():
    rows = simulated_rows(NUMERIC, Assumptions(0.2, {"x3": 0.1}))
    deviations = rows.std(axis=0)
    assert deviations == pytest.approx([0.2, 0.2, 0.2, 0.1, 0.2, 0.2], rel=0.03)


def test_a_simulated_categorical_column_has_one_level_in_each_row():
    rows = simulated_rows(MIXED, Assumptions())
    names = [feature.name for feature in MIXED.features]
    levels = rows[:, [names.index(name) for name in names if name.startswith("job=")]]
    assert np.array_equal(levels.sum(axis=1), np.ones(len(rows)))
    shares = levels.mean(axis=0)
    assert all(first > second for first, second in pairwise(shares))


def test_no_simulated_row_is_longer_than_the_radius_allows():
    tight = Schema.parse(NUMERIC.model_dump() | {"radius": 0.3})
    lattice = lattice_of(tight)
    moment = SimulatedTable.of(tight, lattice, Assumptions(0.9)).moment(1000)
    without = np.trace(moment.units[:-1, :-1])
    assert without <= 1000 * lattice.side**2 * (1 + 1e-9)
    assert without > 900 * lattice.side**2
    assert moment.units[-1, -1] == pytest.approx(1000 * lattice.intercept_units**2)


def test_the_same_public_numbers_give_the_same_plan():
    asked = {"epsilon": 1.0, "mechanism": "matrix-laplace", "factors": (0.5, 1.0)}
    first, second = (plan(NUMERIC, 5000, **asked) for _ in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("mechanism", "budget"),
    [
        ("nuclear-laplace", {"epsilon": 1.0}),
        ("nuclear-laplace", {"epsilon": 1.0, "delta": 1e-6}),
        ("gaussian", {"rho": 0.1}),
    ],
    ids=str,
)
@pytest.mark.parametrize("neighbors", Neighbors)
def test_the_noise_before_denoising_is_what_releases_then_show(mechanism, budget, neighbors):
    table, asked = correlated(1000, 6), {**budget, "neighbors": neighbors, "mechanism": mechanism}
    (expected,) = plan(NUMERIC, 1000, **asked, factors=()).predictions
    truth = dpcov.release(
        table, lower=-1, upper=1, epsilon=1e5, mechanism="matrix-laplace", seed=1
    ).second_moment()
    squares = []
    for seed in range(25):
        made = dpcov.release(table, lower=-1, upper=1, **asked, denoise="none", seed=seed)
        squares.append(np.mean((made.noisy() - truth) ** 2))
    found = np.sqrt(np.mean(squares)) / 1000
    assert found == pytest.approx(expected.errors.noise, rel=0.14)
    assert found != pytest.approx(1.3 * expected.errors.noise, rel=0.14)


def of_auto(found: Plan) -> Errors:
    """Return the predictions for the mechanism that ``auto`` chooses."""
    return next(p.errors for p in found.predictions if p.mechanism == found.recommended)


def test_a_prediction_is_the_error_of_releases_of_a_table_like_the_simulated_one():
    generator = np.random.default_rng(3)
    rows = simulated_rows(NUMERIC, Assumptions(0.3, correlation=0.3))
    table = rows[generator.choice(len(rows), 4000, replace=False)]
    exact = np.corrcoef(table, rowvar=False)[np.tril_indices(6, -1)]
    errors, asked = [], {"epsilon": 1.0, "mechanism": "matrix-laplace"}
    for seed in range(8):
        made = dpcov.release(table, lower=-1, upper=1, **asked, seed=seed)
        errors.append(np.abs(made.correlation()[np.tril_indices(6, -1)] - exact).mean())
    assumptions = Assumptions(0.3, correlation=0.3)
    right, wrong = (
        plan(NUMERIC, 4000, **asked, assumptions=supposed, factors=()).predictions[0].errors
        for supposed in (assumptions, Assumptions(0.6))
    )
    assert right.correlation == pytest.approx(np.mean(errors), rel=0.25)
    assert wrong.correlation != pytest.approx(np.mean(errors), rel=0.25)


def skewed(seed: int, rows: int = 4000) -> np.ndarray:
    """Return rows of six columns with spreads from 0.02 to 0.5; two nearly determine each other."""
    generator = np.random.default_rng(seed)
    common = generator.standard_normal((rows, 1))
    loads = np.array([1.0, 1.0, -0.8, 0.5, 0.3, 0.0])
    noise = generator.standard_normal((rows, 6)) * [0.1, 0.1, 0.6, 0.9, 1.0, 1.0]
    spreads = [0.2, 0.05, 0.3, 0.5, 0.02, 0.3]
    return np.clip((common * loads + noise) * spreads + [0.1, -0.5, 0, 0, 0.4, 0], -1, 1)


def released(table: int, epsilon: float, seed: int = 0, mechanism: str = "auto") -> dpcov.Release:
    frame = pd.DataFrame(skewed(table), columns=NUMERIC.encoded_columns)
    return dpcov.release(frame, schema=NUMERIC, epsilon=epsilon, seed=seed, mechanism=mechanism)


def test_a_table_like_another_has_its_moments_whatever_the_bounds():
    like = released(0, 1e6)
    wider = Schema.from_bounds([-3.0] * 5, [1.0] * 5, [f"x{j}" for j in (5, 4, 3, 2, 1)])
    lattice = lattice_of(wider)
    drawn = SimulatedTable.of(wider, lattice, Assumptions(like=like)).moment(10**6)
    corner = float(drawn.units[-1, -1])
    means = drawn.units[-1, :-1].astype(float) / corner * lattice.intercept_units * lattice.step
    assert 2 * means - 1 == pytest.approx(skewed(0).mean(axis=0)[:0:-1], abs=1e-4)
    exact = np.cov(skewed(0)[:, :0:-1], rowvar=False)
    step = lattice.step
    found = drawn.units[:-1, :-1].astype(float) * step**2 / 1e6 - np.outer(means, means)
    assert 4 * found == pytest.approx(exact, abs=1e-4)


@pytest.mark.statistics
def test_a_release_of_a_table_like_it_predicts_all_errors():
    below = np.tril_indices(6, -1)
    exact = np.corrcoef(skewed(1), rowvar=False)[below]
    releases = [released(1, 1.0, seed, "standardized") for seed in range(16)]
    made = [release.correlation()[below] for release in releases]
    error = np.sqrt(np.mean(np.square(np.array(made) - exact)))

    def predicted(assumptions):
        asked = {"mechanism": "standardized", "assumptions": assumptions, "factors": ()}
        (found,) = plan(NUMERIC, 4000, epsilon=1.0, **asked).predictions
        return found.errors

    assert predicted(Assumptions(like=released(0, 100))).correlation == pytest.approx(
        error, rel=0.25
    )
    assert predicted(Assumptions()).correlation != pytest.approx(error, rel=0.25)


def test_a_table_that_is_not_like_it_is_refused():
    with pytest.raises(SchemaError, match="no feature 'age'"):
        plan(MIXED, 100, epsilon=1.0, assumptions=Assumptions(like=released(0, 1.0)))


@pytest.mark.slow
def test_errors_fall_along_the_curve():
    curve = plan(NUMERIC, 20_000, epsilon=1.0, mechanism="matrix-laplace").curve
    assert len(curve) == 7
    for figure in ("noise", "entry", "correlation", "eigenvalue", "prediction"):
        values = [getattr(point.errors, figure) for point in curve]
        assert values == sorted(values, reverse=True), figure


@pytest.mark.slow
def test_a_wanted_error_is_met_by_the_budget_and_by_the_rows_found():
    found = plan(NUMERIC, 10_000, epsilon=1.0, mechanism="matrix-laplace", factors=())
    now = found.predictions[0].errors.correlation
    wanted = now / 3
    budget, rows = found.budget_for(wanted), found.rows_for(wanted)
    assert budget.epsilon == pytest.approx(3.0, rel=0.25)
    assert rows == pytest.approx(30_000, rel=0.25)
    again = plan(
        NUMERIC, 10_000, epsilon=budget.epsilon, mechanism="matrix-laplace", factors=()
    ).predictions[0]
    assert 0.85 * wanted < again.errors.correlation <= 1.02 * wanted
    larger = found.budget_for(3 * now)
    assert larger.epsilon < 0.5


def test_a_wanted_error_out_of_reach_is_said_to_be_so():
    found = plan(NUMERIC, 3, epsilon=0.001, mechanism="matrix-laplace", factors=())
    assert found.budget_for(1e-6) is None


@pytest.mark.slow
def test_what_can_be_predicted_is_predicted_and_all_the_rest_is_named():
    found = plan(NUMERIC, 5000, epsilon=1.0, delta=1e-6, factors=())
    predicted = {p.mechanism for p in found.predictions}
    assert {"matrix-laplace", "nuclear-laplace", "gaussian", "laplace"} <= predicted
    others = dict(found.not_predicted)
    assert predicted.isdisjoint(others)
    assert {"standardized", "preconditioned", "adaptive-gaussian"} <= predicted
    assert "single rows" in others["whitened"]
    assert predicted | set(others) == set(MECHANISMS)
    errors = [p.errors.correlation for p in found.predictions]
    assert errors == sorted(errors)


def test_a_schema_without_an_intercept_has_no_correlations_to_predict():
    bare = Schema.parse(NUMERIC.model_dump() | {"intercept": 0.0})
    found = plan(bare, 5000, epsilon=1.0, mechanism="matrix-laplace", factors=())
    errors = found.predictions[0].errors
    assert errors.entry > 0
    assert errors.correlation is errors.eigenvalue is errors.prediction is None
    with pytest.raises(ReleaseError, match="intercept"):
        found.budget_for(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{"kind": "number", "lower": 0, "upper": 9}, {"kind": "flag"}])
def test_a_column_with_a_missingness_indicator_alone_has_no_regression(kind):
    schema = Schema.parse({"version": 2, "columns": {"score": kind | {"missing": "level"}}})
    found = plan(schema, 5000, epsilon=0.5, mechanism="standardized", factors=())
    assert str(found).startswith("Plan for 1 column (2 features), 5000 rows, ")
    assert {one.errors.prediction for one in found.predictions} == {None}
    assert all(one.errors.correlation > 0 for one in found.predictions)


@pytest.mark.slow
def test_mixed_columns_persons_and_a_target_are_planned():
    persons = Schema.parse(
        MIXED.model_dump() | {"unit": {"column": "who", "type": "text", "max_rows": 4}}
    )
    ours = plan(MIXED, 9000, epsilon=1.0, target="pay", mechanism="matrix-laplace", factors=())
    theirs = plan(persons, 9000, epsilon=1.0, mechanism="matrix-laplace", factors=())
    assert ours.predictions[0].errors.prediction is not None
    ratio = theirs.predictions[0].errors.noise / ours.predictions[0].errors.noise
    assert ratio == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("asked", "error", "text"),
    [
        ({"rows": 0}, ReleaseError, "at least 1"),
        ({"rows": 2.5}, ReleaseError, "whole"),
        ({"epsilon": -1.0}, BudgetError, "above 0"),
        ({"denoise": "much"}, ReleaseError, "much"),
        ({"mechanism": "magic"}, MechanismError, "magic"),
        ({"mechanism": "gaussian"}, MechanismError, "needs a delta or rho"),
        ({"mechanism": "stable-covariance", "delta": 1e-6}, MechanismError, "single rows"),
        ({"mechanism": "ashtiani-liaw", "delta": 1e-6}, MechanismError, "random groups"),
        ({"goal": "beauty"}, ReleaseError, "beauty"),
        ({"target": "y"}, SchemaError, "'y'"),
        ({"assumptions": Assumptions(spreads={"y": 0.1})}, SchemaError, "'y'"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(asked, error, text):
    with pytest.raises(error, match=text):
        plan(NUMERIC, **{"rows": 100, "epsilon": 1.0} | asked)


@pytest.mark.parametrize(
    "fields",
    [{"spread": 0.0}, {"spread": 1.5}, {"correlation": 1.0}, {"spreads": {"a": -1}},
     {"spread": float("nan")}],
    ids=str,
)  # fmt: skip
def test_an_assumption_out_of_range_is_refused(fields):
    with pytest.raises(SchemaError):
        Assumptions(**fields)


@pytest.mark.parametrize("budget", [PureDP(1.0), ApproxDP(1.0, 1e-6), ZCDP(0.5)], ids=str)
def test_a_scaled_budget_scales_epsilon(budget):
    twice = scaled(budget, 2.0)
    assert type(twice) is type(budget)
    assert twice in (PureDP(2.0), ApproxDP(2.0, 1e-6), ZCDP(2.0))


def test_the_legend_names_the_mechanisms_whose_noise_is_exact():
    exact = set()
    for name, kind in MECHANISMS.items():
        for budget in (PureDP(1.0), ApproxDP(1.0, 1e-6)):
            with suppress(MechanismError):
                laws = kind().calibrate(lattice_of(NUMERIC), budget, Neighbors.ADD_REMOVE)
                exact |= {name} if adds_noise(laws) else set()
    named = LEGEND[0].split("mechanisms: ")[1]
    assert exact == set(named.replace(" and ", " ").replace(",", "").rstrip(".").split())


@pytest.fixture
def run(capsys, tmp_path: Path, monkeypatch):
    """Run `dpcov plan` in a folder that holds a schema and no data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dpcov.api.plans.MAIN_RELEASES", 10)
    Path("s.toml").write_text(SCHEMA_TEXT)

    def run(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["plan", "s.toml", *line.split()])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return run


def test_the_command_prints_tables_assumptions_and_answers(run):
    code, out, err = run("--rows 4000 --epsilon 1 --error 0.05 --mechanism matrix-laplace")
    assert (code, err) == (0, "")
    for part in ("read no data", "matrix-laplace", "epsilon 10", "from the privacy noise"):
        assert part in out
    assert "needs about epsilon" in out
    assert "rows at epsilon 1" in out


def test_the_command_prints_what_the_function_returns(run):
    line = "--rows 4000 --rho 0.1 --mechanism gaussian --spread 0.2 --spread age=0.1 --json"
    code, out, _ = run(line)
    assumptions = Assumptions(0.2, {"age": 0.1})
    found = plan(
        Schema.load("s.toml"), 4000, rho=0.1, mechanism="gaussian", assumptions=assumptions
    )
    printed = json.loads(out)
    assert code == 0
    assert printed["mechanisms"][0]["correlation"] == found.predictions[0].errors.correlation
    assert printed["assumptions"] == {
        "spread": 0.2,
        "spreads": {"age": 0.1},
        "means": {},
        "correlation": 0.25,
        "explained": None,
        "like": False,
    }
    assert len(printed["curve"]) == len(found.curve)


def test_the_command_takes_a_release_of_a_table_like_it(run):
    table, _ = write_people(Path())
    dpcov.release(table, schema="s.toml", epsilon=1e3, seed=0).save("like.json")
    code, out, err = run("--rows 4000 --mechanism matrix-laplace --like like.json")
    assert (code, err) == (0, "")
    assert "of the given release" in " ".join(out.split())
    code, _, err = run("--rows 4000 --like like.json --spread 0.2")
    assert (code, err.count("\n")) == (2, 1)
    assert "remove the others" in err
    for line in ("--mean age=3", "--explained 0.5"):
        assert run(f"--rows 4000 --like like.json {line}")[0] == 2


@pytest.mark.slow
def test_the_command_takes_means_and_what_others_explain(run):
    line = "--rows 4000 --mechanism gaussian --rho 0.1 --mean age=30 --explained 0.6 --json"
    code, out, _ = run(line)
    assumptions = Assumptions(means={"age": 30.0}, explained=0.6)
    right, wrong = (
        plan(
            Schema.load("s.toml"),
            4000,
            rho=0.1,
            mechanism="gaussian",
            assumptions=supposed,
            factors=(),
        )
        for supposed in (assumptions, Assumptions())
    )
    printed = json.loads(out)
    assert code == 0
    assert (printed["assumptions"]["means"], printed["assumptions"]["explained"]) == (
        {"age": 30.0},
        0.6,
    )
    assert printed["mechanisms"][0]["prediction"] == right.predictions[0].errors.prediction
    assert printed["mechanisms"][0]["prediction"] != wrong.predictions[0].errors.prediction
    code, out, _ = run(line.replace(" --json", ""))
    assert "means age 30 (--mean)" in " ".join(out.split())
    assert "60% of a column explained by the others (--explained)" in " ".join(out.split())


def test_what_is_named_or_taken_is_tried_more_often_than_what_it_is_compared_with(monkeypatch):
    tried = []

    def errors(self, mechanism, budget, neighbors, repeats):
        tried.append((mechanism.name, budget.epsilon, repeats))
        return Errors(1.0, 1.0, float(repeats), 1.0, 1.0)

    monkeypatch.setattr("dpcov.api.plans.trials.Trials.errors", errors)
    found = plan(NUMERIC, 5000, epsilon=1.0, factors=(0.5, 1.0))
    repeats = {name: count for name, epsilon, count in reversed(tried) if epsilon == 1.0}
    assert repeats.pop(found.recommended) > 2 * max(repeats.values())
    assert (found.recommended, 0.5, 60) in tried
    taken = next(p for p in found.predictions if p.mechanism == found.recommended)
    assert found.curve[1] == taken
    tried.clear()
    plan(NUMERIC, 5000, epsilon=1.0, mechanism="laplace", factors=(1.0,))
    others = [("laplace", 1.0, 20)] * 5  # spreads and tails that are as plausible
    assert tried == [("laplace", 1.0, 60), *others]
    tried.clear()
    wide = Schema.from_bounds(-1, 1, [f"x{j}" for j in range(50)])
    plan(wide, 5000, epsilon=1.0, mechanism="laplace", factors=(0.5, 1.0))
    others = [("laplace", 1.0, 4)] * 5
    assert tried == [("laplace", 1.0, 24), *others, ("laplace", 0.5, 4)]


@pytest.mark.parametrize(
    "line",
    [
        "--rows 100 --spread much",
        "--rows 100 --mean 3",
        "--rows 100 --mean age=old",
        "--rows 100 --mean age=-1",
        "--rows 100 --explained 1",
        "--rows 100 --error 2",
        "--rows 0",
    ],
)
def test_the_command_refuses_in_one_sentence(run, line):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("dpcov: ")
    assert "Traceback" not in err


def test_every_refusal_is_an_error_of_dpcov():
    with pytest.raises(DpcovError):
        plan("nowhere.toml", 100, epsilon=1.0)


def test_the_range_of_a_plan_holds_a_table_with_long_tails_of_which_its_one_number_knows_nothing():
    """A control: the prediction itself, of a table with short tails."""
    rng = np.random.default_rng(0)
    table = 0.03 * rng.standard_t(3, (8000, 4)) / np.sqrt(3)
    schema = Schema.from_bounds(-1, 1, [f"x{j}" for j in range(4)])
    found = plan(
        schema, 8000, rho=0.05, mechanism="standardized", factors=(),
        assumptions=Assumptions(0.03, correlation=0.02),
    )  # fmt: skip
    errors = [
        np.abs(made.covariance() / np.cov(table, rowvar=False) - 1)[np.eye(4) > 0].mean()
        for seed in range(8)
        if (made := dpcov.release(table, schema=schema, rho=0.05, mechanism="standardized",
                                  seed=seed))
    ]  # fmt: skip
    low, high = found.between["eigenvalue"]
    predicted = found.predictions[0].errors.eigenvalue
    assert low < np.mean(errors) < high
    assert predicted < low * ASSUMPTIONS_RANGE_FACTOR * 1.01
    assert np.mean(errors) > 1.5 * predicted
    assert found.document()["between"]["eigenvalue"] == [low, high]
    assert [table.notes for table in found.tables() if "Likely range" in table.title] == [
        (RANGE_NOTE,)
    ]


def test_missing_assumptions_widen_the_range_and_a_release_leaves_only_chance():
    asked = {"epsilon": 1.0, "mechanism": "matrix-laplace", "factors": ()}
    made = dpcov.release(correlated(3000, 6, seed=1), schema=NUMERIC, epsilon=5.0, seed=1)
    stated = (None, Assumptions(0.3, correlation=0.2), Assumptions(like=made))
    ranges = [
        plan(NUMERIC, 3000, assumptions=assumptions, **asked).between for assumptions in stated
    ]
    widths = [one["correlation"][1] / one["correlation"][0] for one in ranges]
    assert widths[0] > widths[1] > widths[2] == pytest.approx(RELEASE_RANGE_FACTOR**2)


def test_a_plan_for_a_ledger_assumes_the_noise_that_a_release_draws(tmp_path):
    budget = {"epsilon": 1.0, "delta": 1e-9}
    ledger = dpcov.Ledger.create(tmp_path / "l", ApproxDP(1.0, 1e-6), neighbors="add-remove")
    schema = Schema.from_bounds(-1, 1, ["x", "y"])
    asked = {**budget, "mechanism": "matrix-laplace", "factors": ()}
    alone = plan(schema, 2000, **budget, mechanism="gaussian", factors=(), ledger=ledger)
    made = dpcov.release(
        np.zeros((2000, 2)), schema=schema, mechanism="gaussian", ledger=ledger, **budget
    )
    deviation = np.sqrt(made.noise.frobenius_squared) / 3 * made.lattice.step**2
    assert alone.predictions[0].errors.noise == pytest.approx(deviation / 2000)
    with pytest.raises(MechanismError, match="has no mu"):  # as the release is refused
        plan(schema, 2000, **asked, ledger=ledger)
    assert plan(schema, 2000, **asked).predictions  # control: without the ledger it is planned
    with pytest.raises(LedgerError, match="no reserve for pure releases"):
        plan(schema, 2000, epsilon=1.0, ledger=ledger)


def test_a_plan_says_which_noise_it_assumes(tmp_path):
    ledger = dpcov.Ledger.create(tmp_path / "l", ApproxDP(1.0, 1e-6), neighbors="add-remove")
    asked = {"epsilon": 1.0, "delta": 1e-9, "mechanism": "gaussian", "factors": ()}
    schema = Schema.from_bounds(-1, 1, ["x", "y"])
    assert "smaller of Laplace noise" in plan(schema, 2000, **asked).summary()
    assert "counts Gaussian noise" in plan(schema, 2000, **asked, ledger=ledger).summary()
    pure = plan(schema, 2000, epsilon=1.0, mechanism="matrix-laplace", factors=())
    assert "Gaussian noise" not in pure.assumptions()[-1]
