"""Persons as means: one exact row per person, from its rows alone, in every reader and order."""

import itertools
import math
from fractions import Fraction

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpcov
from dpcov.core.privacy import Unit
from dpcov.errors import ReleaseError, SchemaError, SourceError
from dpcov.releases.carried import carried
from dpcov.rows.moment import UNITS, Lattice, LinearMap
from dpcov.rows.person_means import divided
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.kept import Copy
from dpcov.rows.sources.spark import SparkRows
from dpcov.rows.sources.sql import DatabaseTable

UNIT = {"column": "id", "type": "text", "aggregate": "mean"}
LEVELS = ["a", "b"]
RULES = list(
    itertools.product(
        ("none", "midpoint", "level", "pairwise"), ("none", "zeros", "level", "other")
    )
)


def declared(number="none", category="none", **more) -> Schema:
    own = {"other": True} if category == "other" else {}
    columns = {
        "x": {"kind": "number", "lower": -2, "upper": 2, "missing": number},
        "f": {"kind": "flag", "missing": number},
        "g": {"kind": "categorical", "levels": LEVELS, "missing": category, **own},
    }
    derived = {"x2": {"square": "x"}}
    return Schema.parse(
        {"version": 3, "columns": columns, "derived": derived, "unit": UNIT, **more}
    )


CELLS = st.none() | st.integers(-768, 768).map(lambda n: n / 256)  # squares on the lattice
ROW = st.tuples(
    st.sampled_from(["p", "q", "r", None]),
    CELLS,
    st.sampled_from([0.0, 1.0, None]),
    st.sampled_from(["a", "b", "undeclared", None]),
)
ROWS = st.lists(ROW, max_size=12)


def table(rows) -> pa.Table:
    ids, x, f, g = zip(*rows, strict=True) if rows else ((), (), (), ())
    kinds = {"id": pa.string(), "x": pa.float64(), "f": pa.float64(), "g": pa.string()}
    cells = dict(zip(kinds, (ids, x, f, g), strict=True))
    return pa.table({name: pa.array(cells[name], kind) for name, kind in kinds.items()})


def means(rows, schema) -> list[tuple[int, ...]]:
    """Return the mean rows that a query sees, sorted."""
    source = open_rows(table(rows), schema, threads=1)._source
    found = [batch.means for batch in source.batches(schema.needed)]
    return sorted(map(tuple, np.concatenate(found).tolist())) if found else []


def nearest(total, count) -> int:
    return round(Fraction(total, count)) if count else 0


def by_hand(rows, schema) -> tuple[int, ...]:
    """Compute the mean row of one person with fractions."""
    columns = schema.encoded_columns
    found: list[int] = []
    for name, cells in (("x", [r[1] for r in rows]), ("f", [r[2] for r in rows])):
        column = columns[name]
        known = [cell for cell in cells if cell is not None]
        total = sum(_steps(cell, column) for cell in known)
        count = len(rows) if column.missing == "midpoint" else len(known)
        found += [nearest(total, count)]
        found += [UNITS * (not known)] if column.has_indicator else []
    column = columns["g"]
    cells = [r[3] for r in rows if r[3] is not None or column.missing == "other"]
    labels = [label for label in column.labels if label != "(missing)"]
    known = [(c if c in LEVELS else "(other)") for c in cells]
    until = [
        nearest(UNITS * sum(map(known.count, labels[:k])), len(cells))
        for k in range(len(labels) + 1)
    ]
    found += np.diff(until).tolist()
    found += [UNITS * (not cells)] if column.missing == "level" else []
    square = columns["x2"]
    known = [r[1] for r in rows if r[1] is not None]
    total = sum(_steps(min(max(x, -2.0), 2.0) ** 2, square) for x in known)
    found += [nearest(total, len(rows) if square.missing == "midpoint" else len(known))]
    found += [UNITS * (not known)] if square.has_indicator else []
    return tuple(found)


def _steps(value, column) -> int:
    value = min(max(value, column.lower), column.upper)
    return int((value - column.midpoint) / column.half_range * UNITS)


@settings(max_examples=50)
@given(st.sampled_from(RULES), ROWS)
def test_a_mean_row_is_the_rounded_quotient_of_exact_sums(rules, rows):
    schema = declared(*rules)
    persons = {row[0] for row in rows} - {None}
    expected = sorted(by_hand([r for r in rows if r[0] == one], schema) for one in persons)
    assert means(rows, schema) == expected


@settings(max_examples=25)
@given(ROWS, st.randoms(use_true_random=False))
def test_neither_order_nor_copies_of_all_rows_nor_other_persons_change_a_mean(rows, random):
    schema = declared("pairwise", "level")
    whole = means(rows, schema)
    assert means(random.sample(rows, len(rows)), schema) == whole
    assert means(rows * 3, schema) == whole
    alone = [means([r for r in rows if r[0] == one], schema) for one in ("p", "q", "r")]
    assert sorted(itertools.chain(*alone)) == whole


@settings(max_examples=50)
@given(ROWS, st.sampled_from([None, 0.05, 0.7, 1.3]), st.booleans())
def test_the_norm_of_a_person_is_at_most_the_radius_in_every_query(rows, radius, transformed):
    schema = declared("level", "level", **({} if radius is None else {"radius": radius}))
    p = len(schema.features)
    transform = None
    if transformed:
        factors = np.random.default_rng(len(rows)).normal(size=(p, p))
        transform = LinearMap.rounded(factors, center=np.full(p, 0.1))
    one = [row for row in rows if row[0] == "p"]
    asked = open_rows(table(one), schema, threads=1)
    (moment,) = asked.second_moments(transform=transform)
    assert moment.trace() <= moment.lattice.bound
    assert moment.unit_count == bool(one)
    assert asked.norm_counts([], transform=transform).sum() == bool(one)
    assert moment.lattice.nuclear("add-remove") == moment.lattice.bound


def test_levels_add_up_exactly_and_stay_within_the_unit_ball():
    rows = [("p", 0.0, 0.0, level) for level in ["a"] * 1 + ["b"] * 1 + ["undeclared"] * 5]
    (found,) = means(rows, declared("none", "other"))
    levels = np.array(found[2:5])
    assert levels.sum() == UNITS
    assert levels.min() >= 0
    assert int(levels @ levels) <= UNITS**2
    np.testing.assert_allclose(levels / UNITS, [1 / 7, 1 / 7, 5 / 7], atol=1 / UNITS)


@pytest.mark.parametrize("threads", [1, 2])
def test_all_rows_of_a_person_count_wherever_they_are(threads, monkeypatch):
    monkeypatch.setattr("dpcov.rows.sources.kept.MAX_MEMORY_BYTES", 2**14)  # several pieces
    generator = np.random.default_rng(1)
    ids = generator.choice(["p", "q", "r", "s"], 5000, p=[0.97, 0.01, 0.01, 0.01]).tolist()
    rows = list(
        zip(
            ids,
            generator.uniform(-2, 2, 5000).tolist(),
            generator.integers(0, 2, 5000).astype(float).tolist(),
            generator.choice(LEVELS, 5000).tolist(),
            strict=True,
        )
    )
    schema = declared()
    expected = sorted(by_hand([r for r in rows if r[0] == one], schema) for one in set(ids))
    assert means(rows, schema) == expected
    whole = open_rows(table(rows), schema, threads=threads).second_moments()[0]
    t = whole.lattice.intercept_units
    vectors = [np.array([*one, t], object) for one in expected]
    assert (whole.units == sum(np.outer(one, one) for one in vectors)).all()


def test_the_rows_are_copied_once_and_the_rows_of_visits_are_gone():
    rows = open_rows(table([("p", 1.0, 1.0, "a")] * 3), declared(), threads=1)
    rows.read()
    copy = rows._source._copy
    assert isinstance(copy, Copy)
    assert sum(map(len, copy.part())) == 1
    first = rows.second_moments()[0].units
    assert (rows.second_moments()[0].units == first).all()
    assert rows.total() == 1
    assert rows.integer_rows().unit_count == 1


def test_databases_and_frames_give_the_same_moment(tmp_path):
    rows = [("p", 0.5, 1.0, "a"), ("q", None, 0.0, "b"), ("p", 1.5, 0.0, None)] * 4
    schema = declared("level", "zeros")
    whole = open_rows(table(rows), schema).second_moments()[0]
    base = duckdb.connect(tmp_path / "t.duckdb")
    held = table(rows)
    base.register("held", held)
    base.execute("CREATE TABLE visits AS SELECT * FROM held")
    base.close()
    for data in (
        table(rows).to_pandas(),
        DatabaseTable(tmp_path / "t.duckdb", "visits"),
    ):
        assert (open_rows(data, schema).second_moments()[0].units == whole.units).all()


@given(st.integers(-(2**45), 2**45), st.integers(0, 2**25))
def test_quotients_are_rounded_half_to_even(total, count):
    found = divided(np.array([total]), np.array([count]))
    assert int(found[0]) == nearest(total, count)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"unit": UNIT | {"max_rows": 2}}, "Remove max_rows or aggregate"),
        ({"unit": UNIT | {"aggregate": "median"}}, "unit.aggregate"),
        ({"weight": {"column": "w", "maximum": 2.0}}, "one row without a weight"),
    ],
)
def test_what_cannot_be_averaged_is_refused(more, message):
    with pytest.raises(SchemaError, match=message):
        declared(**more)


def test_spark_is_refused_before_any_budget_is_spent():
    with pytest.raises(SourceError, match="Nothing was spent"):
        SparkRows(declared(), None)


def test_the_unit_is_written_and_read_and_older_units_stay_as_they_were():
    schema = declared()
    assert schema.model_dump()["unit"] == UNIT | {"max_rows": 1}
    assert Schema.parse(schema.model_dump()) == schema
    assert schema.privacy_unit == Unit("id", 1, "mean")
    plain = Schema.from_bounds(0, 1, ["a"], unit={"column": "id", "max_rows": 2})
    assert "aggregate" not in plain.model_dump()["unit"]
    assert Lattice.of(schema).unit_bound == Lattice.of(schema).bound


def panel(persons: int, generator: np.random.Generator) -> pa.Table:
    ids = np.repeat(np.arange(persons), generator.integers(1, 6, persons))
    own = generator.normal(size=persons)[ids]
    x, count = own + generator.normal(size=len(ids)), len(ids)
    columns = {
        "id": ids.astype(str),
        "x": np.clip(x / 2, -2, 2),
        "f": generator.integers(0, 2, count).astype(float),
        "g": generator.choice([*LEVELS, "undeclared"], count),
    }
    return pa.table(columns)


@pytest.fixture(scope="module")
def release():
    data = panel(6000, np.random.default_rng(3))
    return dpcov.release(data, schema=declared("none", "other"), epsilon=50.0, seed=1)


def test_no_equation_of_flags_or_levels_is_applied_and_shares_add_up(release):
    data = panel(6000, np.random.default_rng(3)).to_pandas()
    data["f"] = data["f"].astype(float)
    person = data.groupby("id")["f"].mean()
    names = list(release.columns)
    at = names.index("f")
    assert math.isclose(release.variance()[at], person.var(), rel_tol=0.1)
    assert release.variance()[at] < 0.6 * person.mean() * (1 - person.mean())
    levels = [names.index(name) for name in ("g=a", "g=b", "g=(other)")]
    assert math.isclose(release.mean()[levels].sum(), 1.0, rel_tol=1e-9)
    by_level = data.assign(a=data["g"] == "a").groupby("id")["a"].mean()
    assert math.isclose(release.variance()[levels[0]], by_level.var(), rel_tol=0.1)
    within = release.covariance()[np.ix_(levels, levels)]
    assert np.abs(within.sum(axis=0)).max() < 1e-9
    assert np.linalg.eigvalsh(release.covariance())[0] > -1e-9


def test_every_answer_says_what_a_row_is(release, tmp_path):
    sentence = "One row per person (their mean): relations between persons, not between visits"
    answers = [
        dpcov.ols(release, "x ~ f"),
        dpcov.ridge(release, "x"),
        dpcov.pca(release),
        dpcov.precision(release, 0.1, draws=0),
        dpcov.table1(release),
        dpcov.intervals(release, "mean"),
    ]
    assert [sentence in one.tables()[0].title for one in answers] == [True] * len(answers)
    assert not np.isnan(answers[0].p_values).any()
    assert sentence in carried(release)["each_row"]
    for refused in (
        lambda: dpcov.crosstab(release, "f", "g"),
        lambda: dpcov.table1(release, by="g"),
        lambda: dpcov.lda(release, "g"),
        lambda: dpcov.ols(release, "x", design_effect=1.5),
    ):
        with pytest.raises(ReleaseError):
            refused()
    release.save(tmp_path / "r.json")
    loaded = dpcov.load(tmp_path / "r.json")
    assert loaded.guarantee.unit == Unit("id", 1, "mean")
    assert "all rows as their mean" in dpcov.Guarantee.in_words(loaded.guarantee)
    drawn = dpcov.sample(release, 50, seed=1)
    assert drawn.column_names == list(release.columns)
    levels = np.column_stack([drawn[name].to_numpy() for name in ("g=a", "g=b", "g=(other)")])
    np.testing.assert_allclose(levels.sum(axis=1), 1.0)


def test_dependent_rows_have_p_values_only_with_a_design_effect():
    data = panel(3000, np.random.default_rng(4))
    unit = {"column": "id", "type": "text", "max_rows": 5}
    made = dpcov.release(data, schema=declared(unit=unit), epsilon=20.0, seed=1)
    plain, stated = (dpcov.ols(made, "x ~ f", design_effect=effect) for effect in (None, 2.25))
    assert np.isnan(plain.p_values).all()
    assert np.isnan(plain.wald_test("f").p_value)
    assert np.isnan(plain.contrast({"f": 1.0}).wald.p_value)
    text = plain.summary()
    assert "design_effect=1.5" in text
    assert "no p-value" in text
    assert not np.isnan(stated.p_values).any()
    assert "design effect 2.25" in stated.summary()
    np.testing.assert_allclose(stated.sampling_errors, 1.5 * plain.sampling_errors)
    for wrong in (0.9, math.inf, math.nan):
        with pytest.raises(ReleaseError, match="at least 1"):
            dpcov.ols(made, "x", design_effect=wrong)


def test_the_interval_of_r_squared_needs_no_p_value():
    data = panel(3000, np.random.default_rng(4))
    above = (data["x"].to_numpy() > 0).astype(float)
    data = data.set_column(data.column_names.index("f"), "f", pa.array(above))
    unit = {"column": "id", "type": "text", "max_rows": 5}
    made = dpcov.release(data, schema=declared(unit=unit), epsilon=20.0, seed=1)
    fit = dpcov.ols(made, "x ~ f")
    assert np.isnan(fit.wald.p_value)
    low, high = fit.r_squared_interval
    assert 0.4 < low < fit.r_squared < high < 0.8
    text = fit.summary()
    assert "no p-value" in text
