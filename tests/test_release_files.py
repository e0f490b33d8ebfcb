"""Rules of a valid release file of the formats 1 and 2: each rule has its own sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpcov
import rounds_for_tests
from dpcov.core.samplers import matrix_law
from dpcov.core.samplers.weighted import WeightedSum
from dpcov.errors import ReleaseError
from dpcov.releases.file import from_text
from dpcov.releases.former_files import put_together
from dpcov.rows.schema import Schema
from former_documents import former
from tables_for_tests import correlated

DATA = Path(__file__).with_name("data") / "0.2.0"
LAPLACE = {"law": "discrete-laplace", "scale": "25"}
EMPTY = {"ends": [1.0], "counts": [1], "noise": LAPLACE}


@cache
def _text(name: str) -> str:
    if (old := DATA / f"{name}.json").exists():
        return old.read_text()
    asked: dict[str, Any] = {
        "plain": {"mechanism": "matrix-laplace", "epsilon": 1.0},
        "mapped": {"mechanism": "standardized", "rho": 0.5, "directions_share": 0.1},
        "swapped": {"mechanism": "gaussian", "rho": 0.5, "neighbors": "replace-one"},
        "weighted": {"mechanism": "gaussian", "rho": 0.5},
    }[name]
    if name == "weighted":
        columns = {"x": {"kind": "numeric", "lower": -1, "upper": 1}}
        weight = {"column": "w", "maximum": 2}
        schema = Schema.parse({"columns": columns, "weight": weight, "intercept": 0})
        table = pa.table({"x": [0.5] * 200, "w": [1.0] * 200})
        return json.dumps(former(dpcov.release(table, schema=schema, seed=1, **asked)))
    made = dpcov.release(correlated(200, 3), lower=-1, upper=1, seed=1, **asked)
    return json.dumps(former(made))


def changed(name: str, values: dict[str, Any]) -> str:
    """Return a document with other values at these places; functions change the present value."""
    document = json.loads(_text(name))
    for where, value in values.items():
        *parents, last = where.split(".")
        inner = document
        for parent in parents:
            inner = inner[parent]
        inner[last] = value(inner[last]) if callable(value) else value
    return json.dumps(document)


def shorter(values: list[Any]) -> list[Any]:
    return values[:-1]


def times(factor: float) -> Callable[[float], float]:
    return lambda value: value * factor


def diagonal(least: float) -> list[float]:
    """Return a map of three features that has this much of the last feature."""
    return np.diag([1.0, 1.0, least]).ravel().tolist()


def singular(values: list[float]) -> list[float]:
    """Return a map of three features that has hardly any of the last feature."""
    return [*values[:6], *(1e-16 * value for value in values[3:6])]


NO_MATRIX = {"noise": None, "published": None, "denoised": None}
NO_TRACE = {"trace_noise": None, "published_trace": None}
NO_COUNT = {"count_noise": None, "published_count": None}
GROUP = {
    "column": "site",
    "level": "a",
    "budget": {"definition": "pure", "epsilon": 1.0},
    "neighbors": "add-remove",
}
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("plain", {"lattice.features": ["x0", "x1", "y"]}, "and the schema have different features"),
    ("plain", {"lattice.units_per_radius": 2**20}, "fields that do not belong to this format"),
    ("plain", {"lattice.step": None}, "fields that do not belong to this format"),
    ("plain", {"lattice.side": None}, "fields that do not belong to this format"),
    ("plain", {"format": "dpcov.release/1"}, "fields that do not belong to this format"),
    ("gaussian", {"lattice.units_per_radius": None}, "fields that do not belong to this format"),
    ("gaussian", {"lattice.step": 1.0}, "fields that do not belong to this format"),
    ("plain", {"lattice.side": lambda side: side + 2}, "not its radius in steps"),
    ("plain", {"lattice.side": lambda side: side - 2}, "not its radius in steps"),
    ("plain", {"noise.dimension": 3}, "noise and the matrix have different dimensions"),
    ("plain", {"published": None}, "noise of a matrix, but no matrix"),
    ("plain", {"noise": None}, "a trace, but no noise of the matrix"),
    ("plain", {"trace_noise": None}, "the trace or its noise is missing"),
    ("plain", {"published_trace": None}, "the trace or its noise is missing"),
    ("plain", {"count_noise": None}, "the count or its noise is missing"),
    ("plain", {"published_count": None}, "the count or its noise is missing"),
    ("swapped", {"published_count": 3, "count_noise": LAPLACE}, "under add-remove only"),
    ("ladder", {"rungs": shorter}, "not have one term for each rung"),
    ("ladder", {"noise.weights": shorter}, "not have one weight for each term"),
    ("ladder", {"noise": lambda law: law["terms"][0]}, "need a weighted sum as noise"),
    ("ladder", NO_TRACE, "second moments in rungs need a trace"),
    ("ladder", {"rungs": lambda all_: [all_[0], shorter(all_[1]), *all_[2:]]}, "rungs.1 does not"),
    ("plain", NO_MATRIX | NO_TRACE, "neither a matrix nor a trace"),
    ("plain", {"published": shorter}, "published does not have 10 entries"),
    ("plain", {"denoised": shorter}, "denoised does not have 10 entries"),
    ("mapped", {"linear_map": shorter}, "does not fit the number of features"),
    ("mapped", {"linear_map": singular}, "is not invertible"),
    ("mapped", {"center": shorter}, "the center does not fit the number of features"),
    ("mapped", {"linear_map": None}, "a center needs a linear map and an intercept"),
    ("plain", {"center": [0.1] * 3}, "a center needs a linear map and an intercept"),
    ("auto-persons", {"group": GROUP}, "cannot have a privacy unit of persons"),
    ("plain", {"unit_count": 5}, "forbidden under add-remove"),
    ("swapped", {"unit_count": None}, "forbidden under add-remove"),
    ("mapped", {"lengths.counts": shorter}, "not have one count for each bin"),
    ("mapped", {"lengths.ends": lambda ends: ends[::-1]}, "not in ascending order"),
    ("mapped", {"lengths.ends": lambda ends: [ends[0], *ends[:-1]]}, "not in ascending order"),
    ("mapped", {"lengths": EMPTY | {"ends": [], "counts": []}}, "lengths.ends"),
    (
        "weighted",
        {"published_count": 3, "count_noise": LAPLACE},
        "weighted rows needs an intercept",
    ),
    ("mapped", {"linear_map": diagonal(0.7e-15)}, "is not invertible"),
    (
        "mapped",
        NO_MATRIX | {"center": None, "lattice.intercept_units": 0},
        "of the lattice does not fit",
    ),
    ("plain", {"guarantee.unit": "person"}, "have different privacy units"),
    ("plain", {"guarantee.max_rows": 2}, "have different privacy units"),
    (
        "plain",
        {"lattice.intercept_units": lambda units: units - 1},
        "of the lattice does not fit",
    ),
    (
        "mapped",
        {"lattice.intercept_units": lambda units: units + 10**6},
        "of the lattice does not fit",
    ),
    ("plain", {"noise.scale": 1e101}, "out of range"),
    ("plain", {"noise.scale": 1e-101}, "out of range"),
    ("plain", {"trace_noise.scale": "9" * 101}, "out of range"),
    ("plain", {"trace_noise.scale": f"1{'0' * 100}"}, "out of range"),
    ("plain", {"count_noise.scale": "9" * 101}, "out of range"),
    ("plain", {"count_noise.scale": "1/" + "9" * 400}, "out of range"),
    ("plain", {"noise.scale": 1.5e-100}, "stronger than the noise"),
    ("plain", {"lengths": EMPTY}, "stronger than the noise"),
]


def named(value: object) -> str:
    """Return the place of a changed field: addresses of functions differ between processes."""
    return ", ".join(value) if isinstance(value, dict) else str(value)[:40]


@pytest.mark.parametrize(("name", "values", "words"), REFUSED, ids=named)
def test_what_does_not_fit_is_refused_with_its_reason(
    name: str, values: dict[str, Any], words: str
) -> None:
    from_text(_text(name), "a.json")  # a control
    with pytest.raises(ReleaseError) as refused:
        from_text(changed(name, values), "a.json")
    assert str(refused.value).startswith("'a.json' is not a valid release file: ")
    assert words in str(refused.value)
    assert str(refused.value).endswith(".")


KEPT: list[tuple[str, dict[str, Any]]] = [
    ("plain", NO_TRACE),
    ("plain", NO_COUNT),
    ("plain", NO_MATRIX),
    ("plain", {"denoised": None}),
    ("plain", {"group": GROUP}),
    ("plain", {"linear_map": np.eye(3).ravel().tolist()}),
    ("mapped", {"center": None}),
    ("mapped", {"lattice.intercept_units": lambda units: units - 1}),
    ("mapped", {"lattice.intercept_units": 1}),
    ("mapped", {"linear_map": diagonal(1.4e-15)}),
    ("mapped", {"linear_map": lambda values: [1e-7 * value for value in values]}),
    ("plain", {"published": lambda values: [-(2**63), 2**63 - 1, *values[2:]]}),
    ("plain", {"published_trace": 2**256}),
    ("plain", {"published_trace": -(2**256)}),
    ("plain", {"published_count": 2**128}),
    ("plain", {"published_count": -(2**128)}),
    ("plain", {"shift": 0}),
    ("plain", {"shift": 128}),
    ("swapped", {"unit_count": 0}),
    ("swapped", {"unit_count": 2**63 - 1}),
    ("ladder", {"rungs": None}),
    ("plain", {"noise.scale": 1e99}),
]


@pytest.mark.parametrize(("name", "values"), KEPT, ids=named)
def test_what_may_be_otherwise_is_read(name: str, values: dict[str, Any]) -> None:
    made = from_text(changed(name, values), "a.json")
    for where, value in values.items():
        parts = {
            "published_trace": rounds_for_tests.trace_of,
            "published_count": rounds_for_tests.count_of,
            "shift": lambda made: made.shift,
            "unit_count": lambda made: made.unit_count,
        }
        if where in parts:
            assert parts[where](made) == value
    if isinstance(values.get("linear_map"), list):
        assert made.linear_map.ravel().tolist() == values["linear_map"]  # type: ignore[union-attr]


BEYOND: list[tuple[str, dict[str, Any]]] = [
    ("plain", {"published": lambda values: [-(2**63) - 1, *values[1:]]}),
    ("plain", {"published": lambda values: [2**63, *values[1:]]}),
    ("plain", {"published_trace": 2**256 + 1}),
    ("plain", {"published_trace": -(2**256) - 1}),
    ("plain", {"published_count": 2**128 + 1}),
    ("plain", {"published_count": -(2**128) - 1}),
    ("plain", {"shift": -1}),
    ("plain", {"shift": 129}),
    ("swapped", {"unit_count": -1}),
    ("swapped", {"unit_count": 2**63}),
    ("plain", {"guarantee.max_rows": 0}),
    ("swapped", {"guarantee.budget": {"definition": "approx", "epsilon": 1.0, "delta": 1.0}}),
    ("swapped", {"guarantee.budget": {"definition": "approx", "epsilon": 1.0, "delta": 0.0}}),
]


@pytest.mark.parametrize(("name", "values"), BEYOND, ids=named)
def test_numbers_that_nothing_is_computed_with_are_refused_at_their_place(
    name: str, values: dict[str, Any]
) -> None:
    (where,) = values
    with pytest.raises(ReleaseError, match=f"file: {where}"):
        from_text(changed(name, values), "a.json")


@pytest.mark.parametrize("name", ["plain", "mapped", "swapped", "group", "no-intercept"])
@pytest.mark.filterwarnings("ignore::dpcov.releases.VoidReleaseWarning")
def test_a_file_says_the_same_when_it_is_written_again(name: str) -> None:
    made = from_text(_text(name), "a.json")
    text = made.to_text()
    assert from_text(text, "a.json").to_text() == text
    assert json.loads(text)["status"] == json.loads(_text(name))["status"]
    assert made.noise is not None
    assert math.isfinite(made.noise.spread)


def test_strange_keys_are_not_repeated() -> None:
    for key, reported in (("k" * 200, True), ("k" * 201, False), ("\x1b", False)):
        with pytest.raises(ReleaseError) as refused:
            from_text(changed("plain", {"parameters": {key: [1]}}), "a.json")
        assert (key in str(refused.value)) == reported
        assert ("(an unusual key)" in str(refused.value)) != reported


def test_what_no_file_may_say_is_not_written() -> None:
    made = from_text(_text("plain"), "a.json")
    with pytest.raises(ValueError, match="shift"):
        rounds_for_tests.changed(made, shift=129).to_text()


def test_moments_by_length_of_old_files_are_put_together_where_they_are_read() -> None:
    text = changed("ladder", {"rungs": lambda all_: [[0] * len(all_[0]), *all_[1:]]})
    document = json.loads(text)
    d = document["noise"]["terms"][0]["dimension"]
    rungs = np.zeros((len(document["rungs"]), d, d), np.int64)
    for at, rung in enumerate(document["rungs"]):
        rungs[at][np.tril_indices(d)] = rung
        rungs[at] += np.tril(rungs[at], -1).T
    law = matrix_law(document["noise"])
    assert isinstance(law, WeightedSum)
    moment, noise = put_together(rungs, law, document["shift"], has_intercept=True)
    made = from_text(text, "a.json")
    assert np.array_equal(made.published, moment)
    assert made.noise == noise
    assert len(noise.terms) == len(rungs) - 1


def test_of_lengths_that_hardly_a_row_has_the_last_is_kept_for_an_intercept_alone() -> None:
    law = json.loads(_text("no-intercept"))["noise"]
    entries = json.loads(_text("no-intercept"))["published"]
    both = {"law": "weighted-sum", "weights": [1.0, 0.5], "terms": [law, law]}
    clear = [10**12] * len(entries)
    text = changed("no-intercept", {"noise": both, "rungs": [clear, [0] * len(entries)]})
    made = from_text(text, "a.json")
    assert isinstance(made.noise, WeightedSum)
    assert made.noise.weights == (1.0,)
    text = changed("ladder", {"rungs": lambda all_: [*all_[:-1], [0] * len(all_[-1])]})
    law, kept = json.loads(text)["noise"], from_text(text, "a.json").noise
    assert isinstance(kept, WeightedSum)
    assert kept.weights[-1] == law["weights"][-1]
