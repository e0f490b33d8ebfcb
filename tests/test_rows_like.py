"""Rows like a release: whole levels, about its moments, so that plans of mapped releases hold."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.api.plans import _Planner
from dpcov.api.plans.rows_like import moments_like, rows_like
from dpcov.api.plans.simulated import Assumptions, SimulatedTable
from dpcov.api.plans.simulated_rows import SimulatedRows
from dpcov.api.plans.trials import Trials, targets_of
from dpcov.core.privacy import ZCDP, Neighbors
from dpcov.mechanisms import mechanism_named
from dpcov.mechanisms.standardized import BY_DIRECTION
from dpcov.published.pseudo_rows import pseudo_rows
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_source
from dpcov.rows.sources.rows import Rows
from rounds_for_tests import changed

ROWS = 8000
CITIES = [f"c{j}" for j in range(9)]
SCHEMA = Schema.parse(
    {
        "columns": {
            "age": {"kind": "numeric", "lower": 0, "upper": 100, "missing": "level"},
            "job": {"kind": "categorical", "levels": ["a", "b", "c"], "other": True},
            "city": {"kind": "categorical", "levels": CITIES},
            "pay": {"kind": "numeric", "lower": 0, "upper": 90},
            "rank": {"kind": "numeric", "lower": 0, "upper": 2},
        }
    }
)


def people(seed: int) -> pd.DataFrame:
    """Return jobs by age, ranks that depend on jobs, cities (some rare), and pay near its bound."""
    generator = np.random.default_rng(seed)
    age = generator.uniform(20, 80, ROWS)
    job = np.clip(np.rint((age - 20) / 30 + generator.normal(0, 0.5, ROWS)), 0, 2).astype(int)
    shares = 0.6 ** np.arange(9)
    return pd.DataFrame(
        {
            "age": np.where(generator.random(ROWS) < 0.1, np.nan, age),
            "job": np.array(["a", "b", "c"])[job],
            "city": generator.choice(CITIES, ROWS, p=shares / shares.sum()),
            "pay": np.clip(generator.exponential(4 + 4 * job), 0, 90),
            "rank": job.astype(float),
        }
    )


def released(seed: int, mechanism: str, rho: float, noise: int) -> dpcov.Release:
    return dpcov.release(people(seed), schema=SCHEMA, mechanism=mechanism, rho=rho, seed=noise)


@pytest.fixture(scope="module")
def like() -> dpcov.Release:
    return released(0, "gaussian", 1e6, 0)


def test_rows_like_a_release_have_whole_levels_and_about_its_moments(like):
    rows = rows_like(like, SCHEMA, 20_000, np.random.default_rng(1))
    flags = np.array([feature.is_indicator for feature in SCHEMA.features])
    assert np.isin(rows[:, flags], (0.0, 1.0)).all()
    assert (rows >= -1).all()
    assert (rows <= 1).all()
    names = [feature.name for feature in SCHEMA.features]
    assert not rows[rows[:, names.index("age=(missing)")] == 1, names.index("age")].any()
    for column, fewest in (("job", 1), ("city", 1), ("age", 0)):
        at = [f.is_indicator and f.column == column for f in SCHEMA.features]
        sums = rows[:, at].sum(axis=1)
        assert (sums.min(), sums.max()) == (fewest, 1)
    means, covariance = moments_like(like, SCHEMA)
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-2))
    assert np.abs((rows.mean(axis=0) - means) / scale).max() < 0.04
    luck = (rows.mean(axis=0) - means) ** 2 / np.maximum(means * (1 - means), 1e-9)
    assert np.mean(luck[flags]) * len(rows) < 0.25  # 1 if each row were drawn by itself
    off = (np.cov(rows, rowvar=False) - covariance) / np.outer(scale, scale)
    assert np.abs(off).max() < 0.15
    assert np.sqrt(np.mean(off**2)) < 0.03
    apart = covariance / np.outer(scale, scale) - np.diag(np.diag(covariance) / scale**2)
    assert np.sqrt(np.mean(apart**2)) > 3 * np.sqrt(np.mean(off**2))


def test_a_number_that_levels_determine_is_determined_by_simulated_levels(like):
    rows = rows_like(like, SCHEMA, 4000, np.random.default_rng(1))
    names = [feature.name for feature in SCHEMA.features]
    rank, pay = rows[:, names.index("rank")], rows[:, names.index("pay")]
    jobs = rows[:, [names.index(f"job={level}") for level in "abc"]]
    assert np.abs(rank - jobs @ [-1.0, 0.0, 1.0]).mean() < 0.05
    fitted = jobs @ np.linalg.lstsq(jobs, pay, rcond=None)[0]
    assert np.std(pay - fitted) > 0.8 * np.std(pay)


def test_rows_like_a_release_are_encoded_as_the_schema_asks(like):
    document = SCHEMA.model_dump()
    document["columns"]["pay"] |= {"lower": -90.0, "upper": 270.0}
    wider = Schema.parse({**document, "columns": dict(reversed(document["columns"].items()))})
    names = [feature.name for feature in wider.features]
    pay = rows_like(like, wider, 4000, np.random.default_rng(1))[:, names.index("pay")]
    assert 90 + 180 * pay.mean() == pytest.approx(people(0)["pay"].mean(), rel=0.05)
    assert 180 * pay.std() == pytest.approx(people(0)["pay"].std(), rel=0.1)


@pytest.mark.statistics
@pytest.mark.parametrize("rho", [0.1, 10.0])
def test_mapped_releases_of_levels_are_predicted_from_a_release_of_a_table_like_theirs(like, rho):
    rows = Rows(SCHEMA, open_source(people(1), SCHEMA.file, ()))
    facts = Trials(SCHEMA, rows.second_moments()[0], ROWS, targets_of(SCHEMA, None)).measured(
        [released(1, "standardized", rho, seed) for seed in range(40)]
    )
    planner = _Planner(SCHEMA, Neighbors.ADD_REMOVE, Assumptions(like=like))
    trials = planner.trials(ROWS)
    means, covariance = moments_like(like, SCHEMA)
    low = np.array([0.0 if feature.is_indicator else -1.0 for feature in SCHEMA.features])
    about = pseudo_rows(means, covariance, low, 4000, np.random.default_rng(0))
    blurred = SimulatedRows(SCHEMA, np.clip(means + about, low, 1.0), ROWS)
    right, wrong = (
        tried.errors(mechanism_named("standardized"), ZCDP(rho), Neighbors.ADD_REMOVE, repeats=40)
        for tried in (trials, replace(trials, source=blurred))
    )
    for figure in ("noise", "entry", "correlation", "eigenvalue", "prediction"):
        # The leading eigenvalue belongs to pay; a matrix release does not describe its tail.
        bar = 1.6 if figure == "eigenvalue" else 1.3
        assert 1 / bar < getattr(right, figure) / getattr(facts, figure) < bar, figure
        # At rho 0.1, the noise in correlations hides the effect of levels that are no levels.
        if figure in ("entry", "eigenvalue") or (figure == "correlation" and rho > 1):
            assert getattr(wrong, figure) / getattr(facts, figure) > 1.3, figure


FLAGS = Schema.parse(
    {
        "version": 2,
        "columns": {
            **{f"n{j}": {"kind": "number", "lower": 0, "upper": 100} for j in range(5)},
            "rare": {"kind": "flag"},
            "common": {"kind": "flag"},
            "asked": {"kind": "flag", "missing": "level"},
        },
    }
)


def flagged() -> pd.DataFrame:
    """Return five related numbers and three flags that depend on them."""
    generator = np.random.default_rng(3)
    scores = generator.standard_normal((20_000, 8)) + 0.7 * generator.standard_normal((20_000, 1))
    table = pd.DataFrame(50 + 10 * scores[:, :5], columns=[f"n{j}" for j in range(5)])
    table["rare"], table["common"] = scores[:, 5] > 2.5, scores[:, 6] > 0.5
    table["asked"] = np.where(scores[:, 0] > 1.5, None, scores[:, 7] > 0)
    return table


@pytest.fixture(scope="module")
def like_flags() -> dpcov.Release:
    return dpcov.release(flagged(), schema=FLAGS, mechanism="gaussian", rho=1e6, seed=0)


def test_flags_like_a_release_have_two_values_and_about_its_moments(like_flags):
    rows = rows_like(like_flags, FLAGS, 20_000, np.random.default_rng(1))
    names = [feature.name for feature in FLAGS.features]
    at = [names.index(name) for name in ("rare", "common", "asked")]
    absent = rows[:, names.index("asked=(missing)")] == 1
    assert np.isin(rows[:, at[:2]], (-1.0, 1.0)).all()
    assert np.isin(rows[~absent, at[2]], (-1.0, 1.0)).all()
    assert not rows[absent, at[2]].any()
    means, covariance = moments_like(like_flags, FLAGS)
    scale = np.sqrt(np.diag(covariance))
    assert np.abs((rows.mean(axis=0) - means) / scale).max() < 0.04
    off = (np.cov(rows, rowvar=False) - covariance) / np.outer(scale, scale)
    assert np.abs(off).max() < 0.1


def test_a_plan_for_flags_predicts_the_errors_of_releases(like_flags, monkeypatch):
    table, planner = flagged(), _Planner(FLAGS, Neighbors.ADD_REMOVE, Assumptions(like=like_flags))
    mechanism, rho = BY_DIRECTION, 0.5
    made = [dpcov.release(table, schema=FLAGS, rho=rho, seed=seed) for seed in range(12)]
    assert {one.mechanism for one in made} == {"standardized"}
    trials = planner.trials(len(table))
    facts = trials.measured(made)
    right = trials.errors(mechanism, ZCDP(rho), Neighbors.ADD_REMOVE, repeats=12)
    # The control does not know which columns are flags.
    monkeypatch.setattr(Schema, "is_binary", lambda self, feature: feature.is_indicator)
    wrong = trials.errors(mechanism, ZCDP(rho), Neighbors.ADD_REMOVE, repeats=12)
    for figure in ("noise", "entry", "correlation"):
        assert 2 / 3 < getattr(right, figure) / getattr(facts, figure) < 1.5, figure
        assert getattr(wrong, figure) / getattr(facts, figure) > 1.5, figure


def test_the_constant_of_simulated_rows_is_that_of_the_declared_columns(like, monkeypatch):
    planner = _Planner(SCHEMA, Neighbors.ADD_REMOVE, Assumptions(like=like))
    trials, truths = planner.trials(ROWS), []

    def measured(self, releases):
        truths.append(self.moment.lattice)
        return Trials.measured(self, releases)

    class Recorded(Trials):
        __slots__ = ()

    monkeypatch.setattr(Recorded, "measured", measured)
    recorded = Recorded(**{field.name: getattr(trials, field.name) for field in fields(trials)})
    recorded.errors(mechanism_named("standardized"), ZCDP(1.0), Neighbors.ADD_REMOVE, repeats=1)
    (truth,) = truths
    assert (truth.radius, truth.intercept) == (SCHEMA.largest_norm, SCHEMA.intercept)
    assert trials.source._rows.schema.largest_norm > 1.5 * truth.radius


def test_a_simulated_table_like_a_release_has_exactly_its_moment(like):
    lattice = Lattice.of(SCHEMA)
    moment = SimulatedTable.of(SCHEMA, lattice, Assumptions(like=like)).moment(10**6)
    sums = moment.units[:-1, -1].astype(float) / lattice.intercept_units * lattice.step / 1e6
    assert sums == pytest.approx(moments_like(like, SCHEMA)[0], abs=1e-6)


def test_rows_are_as_long_as_the_release_counted_its_own():
    """A control: without its counts they are as short as bounds and two moments suggest."""
    table = 0.03 * np.random.default_rng(0).standard_t(3, (20_000, 4))
    made = dpcov.release(table, lower=-1, upper=1, rho=5.0, seed=1)
    schema = Schema.from_bounds(-1, 1, list(made.columns))
    far = [
        np.quantile(np.abs(rows_like(one, schema, 4000, np.random.default_rng(1))), 0.999)
        for one in (made, changed(made, lengths=None))
    ]
    found = np.quantile(np.abs(table), 0.999)
    assert far[0] == pytest.approx(found, rel=0.2)
    assert far[1] < 0.7 * found
