"""Rare levels and flags in a table of numbers: clipping hides none of them from the directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.privacy import ZCDP, Neighbors
from dpcov.mechanisms import standardized
from dpcov.mechanisms.row_transform import (
    MAX_LEVEL_SQUARED_NORM,
    RowTransform,
    _widened,
    binary_features,
    level_steps,
)
from dpcov.mechanisms.standardized import BY_DIRECTION, Spread
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows

NUMBERS = 6
LEVELS = ("a", "b", "c")
SCHEMA = Schema.parse(
    {
        "version": 2,
        "columns": {
            **{f"x{j}": {"kind": "number", "lower": 0, "upper": 100} for j in range(NUMBERS)},
            "rare": {"kind": "flag"},
            "group": {"kind": "categorical", "levels": list(LEVELS)},
        },
    }
)
FLAG, GROUP = NUMBERS, slice(NUMBERS + 1, None)


def table(rows: int = 10_000) -> pd.DataFrame:
    """Return six numbers with a flag of 2% and three levels of 90%, 9% and 1% that they predict."""
    generator = np.random.default_rng(1)
    common = generator.normal(size=(rows, 1))
    numbers = 50 + 10 * (common + generator.normal(size=(rows, NUMBERS)))
    frame = pd.DataFrame(np.clip(numbers, 0, 100), columns=[f"x{j}" for j in range(NUMBERS)])
    frame["rare"] = (common[:, 0] + generator.normal(size=rows) > 2.9).astype(float)
    order = np.argsort(np.argsort(-common[:, 0] + generator.normal(size=rows))) / rows
    frame["group"] = np.array(LEVELS)[np.searchsorted([0.9, 0.99], order)]
    return frame


def spread() -> Spread:
    center = np.array([*np.full(NUMBERS, 0.2), -0.96, 0.9, 0.09, 0.01])
    variances = np.array([*np.full(NUMBERS, 0.04), 0.08, 0.09, 0.08, 0.01])
    return Spread(center, variances, 1e4)


def test_flags_and_indicators_are_binary() -> None:
    assert binary_features(SCHEMA).tolist() == [False] * NUMBERS + [True] * 4


def test_a_step_leads_from_the_mean_of_a_column_to_a_level() -> None:
    center = np.array([*np.full(NUMBERS, 0.3), -0.8, 0.7, 0.2, 0.1])
    flag, *levels = level_steps(SCHEMA, center)
    assert flag[FLAG] == pytest.approx(1.8)  # from -0.8 to the rarer value 1
    assert np.flatnonzero(flag).tolist() == [FLAG]
    assert np.array(levels)[:, :FLAG].tolist() == np.zeros((3, FLAG)).tolist()
    assert np.array(levels)[:, GROUP] == pytest.approx(np.eye(3) - center[GROUP])


def test_a_directions_query_keeps_flags_and_indicators_as_they_are() -> None:
    images = spread().images(0.5, SCHEMA, last=False)
    units = np.diag(images.map.matrix())
    assert images.map.center[:NUMBERS] == pytest.approx(np.full(NUMBERS, 0.2), abs=1e-3)
    assert images.map.center[NUMBERS:].tolist() == [0, 0, 0, 0]
    assert units[NUMBERS:] == pytest.approx(np.ones(4))
    assert units[:NUMBERS] == pytest.approx(np.full(NUMBERS, 0.2**-0.5), rel=1e-3)
    # Numbers add 0.2 each, the flag adds 1 to every row, and the levels of the group add 1.
    mean_squares = [0.08 + 0.96**2, 0.09 + 0.9**2, 0.08 + 0.09**2, 0.01 + 0.01**2]
    assert images.typical**2 == pytest.approx(NUMBERS * 0.2 + sum(mean_squares), rel=2e-3)


def test_control_the_last_round_centers_every_feature() -> None:
    images = spread().images(0.5, SCHEMA)
    assert images.map.center == pytest.approx(spread().center, abs=0.02)


def test_indicators_of_missing_cells_keep_their_length() -> None:
    """The query moves a flag with missing cells, but neither the missing cells nor their mark."""
    columns = {"x": {"kind": "number", "lower": -1, "upper": 1, "missing": "pairwise"}}
    schema = Schema.parse({"version": 2, "columns": columns | {"f": {"kind": "flag"}}})
    marks = {one.name: at for at, one in enumerate(schema.features)}
    gaps = schema.missing_columns
    assert len(gaps) == 1, marks
    p = len(schema.features)
    found = Spread(np.full(p, 0.3), np.full(p, 0.04), 1e4, gaps)
    now, last = (found.images(0.5, schema, last=one).map for one in (False, True))
    for at, mark in gaps.items():
        assert now.center[mark] == last.center[mark]
        both = [one.matrix()[mark, mark] / one.matrix()[at, at] for one in (now, last)]
        assert both[0] == pytest.approx(both[1], rel=1e-3)


def whitened() -> RowTransform:
    """Return the map of a release with a huge budget."""
    made = BY_DIRECTION(
        open_rows(table(), SCHEMA),
        budget=ZCDP(1e9),
        neighbors=Neighbors.ADD_REMOVE,
        entropy=Entropy.seeded(1),
    )
    assert made.directions is not None
    shape = RowTransform.by_direction(made.directions, 1.0, simulation_generator(1))
    assert shape is not None
    return shape


def squared_norms(shape: RowTransform) -> Any:
    """Return the squared norms of the mapped steps to the levels, in mean squared norms."""
    steps = level_steps(SCHEMA, shape.map.center) @ shape.map.matrix().T
    return np.sum(steps**2, axis=1) / shape.typical**2


def test_clear_answers_find_the_means_of_rare_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The query clips at the typical norm, as it does if the noise is large."""
    monkeypatch.setattr(standardized, "MAX_RADIUS_FACTOR", 1.5)
    shape = whitened()
    means = table()["group"].value_counts(normalize=True)[list(LEVELS)].to_numpy()
    assert shape.map.center[GROUP] == pytest.approx(means, rel=0.05)


def test_control_about_the_means_rare_levels_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standardized, "MAX_RADIUS_FACTOR", 1.5)
    monkeypatch.setattr(standardized, "binary_features", lambda schema: np.zeros(10, bool))
    shape = whitened()
    rarest = (table()["group"] == "c").mean()
    assert shape.map.center[-1] < 0.8 * rarest


def test_the_map_moves_no_level_far_from_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rare level has the largest step that is allowed. Control: without a limit it has more."""
    assert squared_norms(whitened()).max() == pytest.approx(MAX_LEVEL_SQUARED_NORM, rel=0.1)
    monkeypatch.setattr("dpcov.mechanisms.row_transform.MAX_LEVEL_SQUARED_NORM", 1e9)
    assert squared_norms(whitened()).max() > 3 * MAX_LEVEL_SQUARED_NORM


def test_frequent_levels_do_not_change_the_map(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, rest = table(), np.arange(10_000)
    frame["rare"], frame["group"] = (rest % 2).astype(float), np.array(LEVELS)[rest % 3]
    monkeypatch.setattr(f"{__name__}.table", lambda: frame)
    with_limit = whitened().map.matrix()
    monkeypatch.setattr("dpcov.mechanisms.row_transform.MAX_LEVEL_SQUARED_NORM", 1e9)
    assert np.array_equal(with_limit, whitened().map.matrix())


def test_the_map_limits_every_step_and_changes_nothing_else() -> None:
    """A step of length 0, as with a single level, and a short step change nothing."""
    moment, count, p = np.diag([4.0, 1.0, 1.0]), 100.0, 3
    assert np.array_equal(_widened(moment, np.zeros((1, p)), count), moment)
    limit = np.sqrt(MAX_LEVEL_SQUARED_NORM * p / count)  # longest step along a variance of 1
    assert np.array_equal(_widened(moment, 0.99 * limit * np.eye(p), count), moment)
    steps = np.array([[0.0, 3, 4], [0, 1, 0], [1, 1, 1]])
    found = _widened(moment, steps, count)
    norms = count * np.einsum("ki,ij,kj->k", steps, np.linalg.inv(found), steps)
    assert np.all(norms <= MAX_LEVEL_SQUARED_NORM * p * (1 + 1e-9))
    assert norms[0] > 0.5 * MAX_LEVEL_SQUARED_NORM * p
    assert np.linalg.eigvalsh(found - moment).min() > -1e-9


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_a_single_level_and_a_constant_flag_are_no_error(epsilon: float) -> None:
    frame = table(200)
    frame["rare"], frame["group"] = 1.0, "a"
    made = dpcov.release(frame, schema=SCHEMA, epsilon=epsilon, seed=1)
    assert made.published is None or np.isfinite(made.linear_map).all()


def errors(monkeypatch: pytest.MonkeyPatch, *, former: bool) -> float:
    """Return the root mean square error of correlations over releases at epsilon 1."""
    frame, found = table(), []
    if former:
        monkeypatch.setattr(standardized, "binary_features", lambda schema: np.zeros(10, bool))
        monkeypatch.setattr("dpcov.mechanisms.row_transform.MAX_LEVEL_SQUARED_NORM", 1e9)
    cells = pd.concat([frame.drop(columns="group"), pd.get_dummies(frame["group"])], axis=1)
    truth = np.corrcoef(cells.to_numpy(float).T)
    for seed in range(10):
        made = dpcov.release(frame, schema=SCHEMA, epsilon=1.0, delta=1e-6, seed=seed)
        found.append(np.sqrt(np.mean((made.correlation() - truth) ** 2)))
    return float(np.mean(found))


def test_correlations_are_more_accurate(monkeypatch: pytest.MonkeyPatch) -> None:
    now = errors(monkeypatch, former=False)
    assert now < 0.75 * errors(monkeypatch, former=True)


def coded(kind: dict[str, Any], shift: int) -> tuple[Schema, pd.DataFrame]:
    """Return the table with another kind of the flag, and its values moved by a shift."""
    document = SCHEMA.model_dump()
    document["columns"]["rare"] = kind
    frame = table()
    return Schema.parse(document), frame.assign(rare=frame["rare"] + shift)


def test_an_integer_with_two_possible_values_is_released_like_a_flag() -> None:
    codes = {"kind": "integer", "lower": 1, "upper": 2}
    made = [
        dpcov.release(frame, schema=schema, rho=0.5, seed=3)
        for schema, frame in ((SCHEMA, table()), coded(codes, 1))
    ]
    flag, integer = ([one.published for one in release.rounds] for release in made)
    assert flag == integer
    assert made[1].mean()[FLAG] == pytest.approx(1 + made[0].mean()[FLAG], abs=1e-4)
    # Control: a number with these bounds has another map.
    schema, frame = coded({"kind": "number", "lower": 1, "upper": 2}, 1)
    number = dpcov.release(frame, schema=schema, rho=0.5, seed=3)
    assert [one.published for one in number.rounds] != flag


@pytest.mark.parametrize(
    ("kind", "two"),
    [
        ({"kind": "integer", "lower": 0, "upper": 1}, True),
        ({"kind": "count", "upper": 1}, True),
        ({"kind": "flag"}, True),
        ({"kind": "integer", "lower": 0, "upper": 2}, False),
        ({"kind": "integer", "lower": 0.5, "upper": 1.5}, False),
        ({"kind": "number", "lower": 0, "upper": 1}, False),
    ],
)
def test_columns_with_two_possible_values_are_binary(kind: dict[str, Any], two: bool) -> None:
    schema, _ = coded(kind, 0)
    assert schema.is_binary(schema.features[FLAG]) is two
