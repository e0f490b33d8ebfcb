"""Simulated rows of a plan, and the errors of mechanisms that transform or clip rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.api.plans import _Planner, plan
from dpcov.api.plans.simulated import Assumptions
from dpcov.api.plans.simulated_rows import SimulatedRows, simulated_releases
from dpcov.api.plans.trials import Errors, Trials, targets_of
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, Budget, Neighbors, PureDP
from dpcov.errors import MechanismError
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.rows.moment import LinearMap
from dpcov.rows.schema import Schema
from dpcov.rows.sources.array import ArraySource
from dpcov.rows.sources.rows import Rows
from rounds_for_tests import changed

FACTOR = 1.3
NAMES = [f"x{j}" for j in range(6)]
SCHEMA = Schema.from_bounds(-1, 1, NAMES)
TIGHT = Schema.from_bounds(-1, 1, NAMES, radius=0.9)
ROWS = 16_000
MIXED = Schema.parse(
    {
        "columns": {
            "age": {"kind": "numeric", "lower": 0, "upper": 100, "missing": "level"},
            "job": {"kind": "categorical", "levels": ["a", "b", "c"], "other": True},
            "pay": {"kind": "numeric", "lower": 0, "upper": 9},
        }
    }
)


def skewed(seed: int, rows: int) -> np.ndarray:
    """Return six narrow columns far from the midpoints; two nearly determine each other."""
    generator = np.random.default_rng(seed)
    common = generator.standard_normal((rows, 1))
    noise = generator.standard_normal((rows, 6)) * [0.2, 0.2, 0.6, 0.9, 1.0, 1.0]
    spreads = [0.1, 0.05, 0.2, 0.1, 0.02, 0.15]
    mixed = (common * [1.0, 1.0, -0.8, 0.5, 0.3, 0.0] + noise) * spreads
    return np.clip(np.array([0.4, -0.5, 0, 0.2, 0.4, 0]) + mixed, -1, 1)


def source_of(rows: np.ndarray, schema: Schema = SCHEMA) -> Rows:
    return Rows(schema, ArraySource(rows, tuple(schema.encoded_columns)))


def some_map() -> LinearMap:
    matrix = np.eye(6) + np.random.default_rng(2).normal(0, 0.3, (6, 6))
    return LinearMap.focused(matrix, 2.0, np.full(6, 0.1))


@pytest.mark.parametrize("asked", [{}, {"radius": 0.4}, {"radius": 1.5, "transform": some_map()}])
def test_answers_are_those_of_a_table_that_holds_each_row_as_often(asked):
    few = skewed(0, 500)
    many, one = source_of(np.repeat(few, 4, axis=0), TIGHT), SimulatedRows(TIGHT, few, 2000)
    exact, answer = many.second_moments(**asked)[0], one.second_moments(**asked)[0]
    assert np.array_equal(answer.units, exact.units)
    assert (answer.lattice, answer.unit_count) == (exact.lattice, exact.unit_count)
    edges = np.linspace(0.1, 0.9, 9)
    assert np.array_equal(one.norm_counts(edges, **asked), many.norm_counts(edges, **asked))
    unscaled = SimulatedRows(TIGHT, few, 500).second_moments(**asked)[0]
    assert not np.array_equal(unscaled.units, exact.units)


@pytest.mark.parametrize("count", [1, 7, 499, 1237, 10**12])
def test_whatever_rows_stand_for_counts_add_up_and_sums_are_rounded(count):
    rows = skewed(0, 500)
    one = SimulatedRows(SCHEMA, rows, count)
    counts = one.norm_counts(np.linspace(0.1, 0.9, 30))
    assert counts.sum() == count
    assert counts.min() >= 0
    units, exact = one.second_moments()[0].units, source_of(rows).second_moments()[0].units
    assert np.abs(units * 1000 - exact * 2 * count).max() <= 500
    assert np.array_equal(units, units.T)


def test_persons_are_counted_as_a_schema_with_persons_counts_them():
    persons = Schema.parse(
        SCHEMA.model_dump() | {"unit": {"column": "who", "type": "text", "max_rows": 4}}
    )
    moment = SimulatedRows(persons, skewed(0, 50), 1001).second_moments()[0]
    assert moment.unit_count == 251
    assert moment.lattice.unit.max_rows == 4


def test_what_few_rows_cannot_stand_for_is_refused():
    one = SimulatedRows(SCHEMA, skewed(0, 50), 1000)
    with pytest.raises(MechanismError, match="single rows"):
        one.integer_rows()
    with pytest.raises(MechanismError, match="random groups"):
        one.second_moments(groups=2, labels=Entropy.seeded(0))


def test_simulated_releases_are_of_the_declared_columns_and_the_same_every_time():
    source = SimulatedRows(
        MIXED, np.clip(np.random.default_rng(0).normal(0, 0.2, (60, 7)), 0, 1), 999
    )
    first, second = (
        [
            made.covariance()
            for made in simulated_releases(
                mechanism_named("standardized"), source, PureDP(5.0), Neighbors.ADD_REMOVE, 2
            )
        ]
        for _ in "ab"
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first[0], first[1])
    (made,) = simulated_releases(
        mechanism_named("standardized"), source, PureDP(5.0), Neighbors.ADD_REMOVE, 1
    )
    assert made.columns == tuple(feature.name for feature in MIXED.features)
    assert made.reproducible


def released(seed: int, mechanism: str, budget: Budget, noise: int) -> dpcov.Release:
    frame = pd.DataFrame(skewed(seed, ROWS), columns=NAMES)
    stated = {name: getattr(budget, name) for name in budget.__dataclass_fields__}
    return dpcov.release(frame, schema=SCHEMA, mechanism=mechanism, **stated, seed=noise)


def shown(mechanism: str, budget: Budget, repeats: int) -> Errors:
    """Return errors of real releases of a table that resembles the table of `LIKE`."""
    moment = source_of(skewed(1, ROWS)).second_moments()[0]
    trials = Trials(SCHEMA, moment, ROWS, targets_of(SCHEMA, None))
    return trials.measured([released(1, mechanism, budget, seed) for seed in range(repeats)])


def like() -> Assumptions:
    return Assumptions(like=released(0, "matrix-laplace", PureDP(1e4), 0))


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("mechanism", "budget", "repeats"),
    [
        ("standardized", PureDP(0.5), 120),
        ("standardized", PureDP(3.0), 120),
        # If one release in fifty has most of the error, chance moves the mean of 120 by 0.1.
        ("standardized", ApproxDP(1.0, 1e-6), 480),
        ("heavy-tailed", ApproxDP(1.0, 1e-6), 30),
        ("adaptive-gaussian", ApproxDP(1.0, 1e-6), 60),
    ],
    ids=str,
)
def test_a_simulation_predicts_what_releases_of_a_table_like_it_lose(mechanism, budget, repeats):
    assumptions, facts = like(), shown(mechanism, budget, repeats)
    planner = _Planner(SCHEMA, Neighbors.ADD_REMOVE, assumptions)
    trials = planner.trials(ROWS)
    few = replace(trials, source=SimulatedRows(SCHEMA, planner.table.encoded, ROWS // 4))
    right, wrong = (
        tried.errors(mechanism_named(mechanism), budget, Neighbors.ADD_REMOVE, repeats)
        for tried in (trials, few)
    )
    for figure in ("noise", "entry", "correlation", "prediction"):
        measured = getattr(facts, figure)
        assert 1 / FACTOR < getattr(right, figure) / measured < FACTOR, figure
        if figure in ("correlation", "prediction"):
            assert getattr(wrong, figure) / measured > FACTOR, figure


def test_errors_of_mapped_releases_are_about_unmapped_rows():
    budget = PureDP(1e3)
    moment = source_of(skewed(1, ROWS)).second_moments()[0]
    trials = Trials(SCHEMA, moment, ROWS, targets_of(SCHEMA, None))
    made = [released(1, "standardized", budget, seed) for seed in range(2)]
    assert made[0].intercept() != pytest.approx(
        moment.lattice.intercept_units * moment.lattice.step
    )
    found = trials.measured(made)
    assert max(found.noise, found.entry) < 1e-3
    shifted = [changed(release, linear_map=2 * release.linear_map) for release in made]
    assert trials.measured(shifted).noise > 3e-3
    taller = [changed(release, lattice=replace(release.lattice, intercept=0.4)) for release in made]
    assert trials.measured(taller).noise > 3e-3


def test_rows_that_a_tight_radius_would_clip_are_not_an_error_of_what_maps_them_first():
    planner = _Planner(TIGHT, Neighbors.ADD_REMOVE, like())
    trials = planner.trials(ROWS)
    found = planner.predicted("standardized", PureDP(1e3), trials).errors
    assert found.entry < 2e-4
    source = trials.source
    made = list(
        simulated_releases(
            mechanism_named("standardized"), source, PureDP(1e3), Neighbors.ADD_REMOVE, 2
        )
    )
    clipped = replace(trials, moment=source.second_moments()[0])
    assert clipped.measured(made).entry > 1e-3


def test_a_measured_noise_is_the_exact_one_where_there_is_an_exact_one():
    budget = PureDP(0.5)
    moment = source_of(skewed(1, ROWS)).second_moments()[0]
    trials = Trials(SCHEMA, moment, ROWS, targets_of(SCHEMA, None))
    made = [released(1, "matrix-laplace", budget, seed) for seed in range(40)]
    exact = trials.measured(made, made[0].noise)
    assert trials.measured(made).noise == pytest.approx(exact.noise, rel=0.15)
    assert replace(trials.measured(made), noise=exact.noise) == exact


def test_one_wild_release_does_not_move_the_error_of_an_entry():
    moment = source_of(skewed(1, ROWS)).second_moments()[0]
    trials = Trials(SCHEMA, moment, ROWS, targets_of(SCHEMA, None))
    made = [released(1, "matrix-laplace", PureDP(0.5), seed) for seed in range(7)]
    wild = [*made[:-1], replace(made[-1], denoised=50 * made[-1].second_moment())]
    calm, all_wild = (trials.measured(found).entry for found in (made, [wild[-1]] * 7))
    assert trials.measured(wild).entry == pytest.approx(calm, rel=0.5)
    assert all_wild > 10 * calm


@pytest.mark.slow
def test_standardized_is_planned_for_mixed_columns_persons_and_either_neighbour():
    persons = Schema.parse(
        MIXED.model_dump() | {"unit": {"column": "who", "type": "text", "max_rows": 4}}
    )

    def noise(schema: Schema, neighbors: str) -> float:
        (found,) = plan(
            schema, 9000, rho=0.5, mechanism="standardized", neighbors=neighbors, factors=()
        ).predictions
        return found.errors.noise

    alone = noise(MIXED, "add-remove")
    assert noise(persons, "add-remove") == pytest.approx(4 * alone, rel=0.4)
    assert alone < noise(MIXED, "replace-one") < 2 * alone


@pytest.mark.slow
def test_standardized_has_a_curve_and_answers_what_a_wanted_error_needs():
    found = plan(SCHEMA, 5000, rho=0.5, mechanism="standardized", factors=(0.2, 1.0, 5.0))
    values = [point.errors.correlation for point in found.curve]
    assert values == sorted(values, reverse=True)
    assert found.budget_for(values[2]).rho == pytest.approx(0.5 * 25, rel=0.6)
    assert found.rows_for(values[2]) > 15_000


def test_without_an_intercept_standardized_is_named_with_its_reason():
    bare = Schema.parse(SCHEMA.model_dump() | {"intercept": 0.0})
    found = plan(bare, 5000, rho=0.5, factors=())
    assert "intercept" in dict(found.not_predicted)["standardized"]
    assert all(p.errors.noise > 0 and p.errors.correlation is None for p in found.predictions)


@pytest.mark.slow
def test_a_goal_moves_what_auto_takes_as_it_does_for_a_release():
    frame = pd.DataFrame(skewed(1, 200), columns=NAMES)
    found = plan(SCHEMA, 5000, epsilon=1.0, goal="correlation", factors=(1.0,))
    made = dpcov.release(frame, schema=SCHEMA, epsilon=1.0, goal="correlation", seed=0)
    assert found.recommended == found.curve[0].mechanism == made.mechanism == "standardized"


@pytest.mark.slow
def test_what_auto_takes_is_compared_with_the_options_with_which_it_does(monkeypatch):
    few = [name for name in MECHANISMS if name in ("standardized", "matrix-laplace")]
    monkeypatch.setattr("dpcov.api.plans.MECHANISMS", few)
    asked = {"schema": SCHEMA, "rows": 5000, "rho": 0.5}
    plain = plan(**asked, mechanism="standardized", factors=()).predictions[0]
    found = plan(**asked, factors=(1.0,))
    rows = {point.mechanism: point.errors for point in found.predictions}
    assert rows["standardized"] == found.curve[0].errors != plain.errors
    assert plan(**asked, mechanism="standardized", factors=()).predictions[0] == plain


@pytest.mark.slow
def test_with_many_features_what_is_slow_waits_to_be_named():
    wide = Schema.from_bounds(-1, 1, [f"x{j}" for j in range(50)])
    found = plan(wide, 5000, epsilon=1.0, goal="correlation", factors=())
    assert found.predictions[0].mechanism == "standardized"
    assert "--mechanism names" in dict(found.not_predicted)["kapralov-talwar"]
    assert "matrix-laplace" in {p.mechanism for p in found.predictions}
