"""A table of numbers and categories, and releases of it, for the tests of the analysis."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

import dpcov
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from rounds_for_tests import changed

ROWS = 4000
NUMBERS = ["a", "b", "c", "y"]
HALF_RANGES = {"a": 8.0, "b": 12.0, "c": 160.0, "y": 20.0}
CENTERS = {"a": 0.0, "b": 1.0, "c": 50.0, "y": 2.0}


@lru_cache
def table(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Return numbers within their bounds; y depends on the others, and these on the categories."""
    generator = np.random.default_rng(seed)
    group = generator.choice(3, rows, p=[0.5, 0.3, 0.2])
    female = generator.random(rows) < 0.3 + 0.2 * group
    numbers = generator.standard_normal((rows, 3)) + np.eye(3)[group] + 0.5 * female[:, None]
    y = numbers @ [1.0, 1.0, 0.6] + group + generator.standard_normal(rows)
    frame = pd.DataFrame(
        {
            "a": numbers[:, 0],
            "group": np.array(["u", "v", "w"])[group],
            "b": 2 * numbers[:, 1],
            "sex": np.where(female, "f", "m"),
            "c": 30 * numbers[:, 2],
            "y": y,
        }
    )
    for name in NUMBERS:
        low, high = bounds(name)
        frame[name] = frame[name].clip(low, high)
    return frame


def bounds(name: str) -> tuple[float, float]:
    return CENTERS[name] - HALF_RANGES[name], CENTERS[name] + HALF_RANGES[name]


def schema(**units: float) -> Schema:
    """Return the schema of the table, with columns in other units if a factor is given."""
    columns: dict[str, Any] = {}
    for name in table().columns:
        if name in NUMBERS:
            low, high = (bound * units.get(name, 1.0) for bound in bounds(name))
            columns[name] = {"kind": "numeric", "lower": low, "upper": high}
        else:
            levels = {"group": ["u", "v", "w"], "sex": ["m", "f"]}[name]
            columns[name] = {"kind": "categorical", "levels": levels}
    return Schema.parse({"columns": columns})


@lru_cache
def released(epsilon: float = 1e6, seed: int = 0, **request: Any) -> Release:
    return dpcov.release(table(), schema=schema(), epsilon=epsilon, seed=seed, **request)


@lru_cache
def rescaled(**units: float) -> Release:
    """Release the same rows with columns in other units."""
    frame = table().assign(**{name: table()[name] * factor for name, factor in units.items()})
    return dpcov.release(frame, schema=schema(**units), epsilon=1e6, seed=0)


@lru_cache
def reordered(**settings: object) -> Release:
    """Release the same columns in reverse order."""
    document = schema().model_dump()
    columns = dict(reversed(document["columns"].items()))
    turned = Schema.parse({"columns": columns})
    return dpcov.release(table(), schema=turned, **({"epsilon": 1e6, "seed": 0} | settings))


def one_hot(names: tuple[str, ...]) -> np.ndarray:
    """Return the features `names` of every row."""
    columns = []
    for name in names:
        column, _, level = name.partition("=")
        columns.append(table()[column] == level if level else table()[column])
    return np.column_stack(columns).astype(float)


@lru_cache
def trace_only() -> Release:
    """Return a release whose public gate spent the whole budget on the trace."""
    made = dpcov.release(
        table()[:50], schema=schema(), epsilon=1e-3, seed=0, neighbors="replace-one"
    )
    assert made.published is None
    return made


@lru_cache
def without_intercept(**request: Any) -> Release:
    plain = Schema.parse(schema().model_dump() | {"intercept": 0})
    return dpcov.release(table(), schema=plain, epsilon=1e6, seed=0, **request)


def without_law(made: Release) -> Release:
    """Return the release as a mechanism without added noise leaves it."""
    return changed(made, noise=None)


@lru_cache
def null_matrix() -> Release:
    made = released(1.0)
    return made.with_denoised("shrink", np.zeros_like(made.second_moment()))
