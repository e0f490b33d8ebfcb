"""Seeded releases of every mechanism, as they were: the same integers, laws and guarantees.

`python tests/test_golden.py` writes `golden.json` anew: only where a change of releases is meant.
"""

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpcov.api import release
from dpcov.errors import MechanismError
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.planning import GOALS
from dpcov.privacy import Neighbors
from dpcov.schema import Schema

FILE = Path(__file__).with_name("golden.json")
CLOSE = 1e-9
BUDGETS = {
    "pure": {"epsilon": 1.0},
    "zcdp": {"rho": 0.5},
    "approx": {"epsilon": 1.0, "delta": 1e-6},
    "much": {"epsilon": 30.0, "delta": 1e-3},
}
# What needs rows enough and a delta, as it refuses tables of which it could say nothing.
NEEDY = {
    "stable-covariance": 3000,
    "whitened": 3000,
    "unbounded-gaussian": 40_000,
    "ashtiani-liaw": 100_000,
}
SCHEMA = Schema.parse(
    {
        "columns": {
            "a": {"kind": "numeric", "lower": 0, "upper": 1},
            "b": {"kind": "numeric", "lower": -1, "upper": 3},
            "c": {"kind": "categorical", "levels": ["u", "v", "w"]},
        }
    }
)


def numbers(n):
    """(n, 3) numbers in [0, 1], the last two correlated; no row is nearly as long as it may be."""
    values = np.random.default_rng(0).random((n, 3))
    values[:, 2] = (values[:, 1] + values[:, 2]) / 2
    return values


def mixed(n):
    a, b, c = numbers(n).T
    return pd.DataFrame(
        {"a": a, "b": 4 * b - 1, "c": np.array(["u", "v", "w"])[(3 * c).astype(int)]}
    )


def asked():
    """Name -> what to release and how, of every mechanism and every goal."""
    relations = [relation.value for relation in Neighbors]
    for name, relation, budget in product(MECHANISMS, relations, BUDGETS):
        if (name in NEEDY) != (budget == "much"):
            continue
        wanted = {"mechanism": name, "neighbors": relation, "lower": 0, "upper": 1}
        data = numbers(NEEDY.get(name, 300))
        yield f"{name}, {relation}, {budget}", data, wanted | BUDGETS[budget]
        if hasattr(mechanism_named(name), "radius"):
            private = {"radius": "private"}
            yield f"{name}, {relation}, {budget}, radius", data, wanted | BUDGETS[budget] | private
    for goal, relation, budget in product(GOALS, relations, ("pure", "zcdp", "approx")):
        wanted = {"goal": goal, "neighbors": relation, "schema": SCHEMA}
        yield f"auto for {goal}, {relation}, {budget}", mixed(2000), wanted | BUDGETS[budget]


ASKED = {name: (data, wanted) for name, data, wanted in asked()}


def released(name):
    """What is in the release's file but time, version and table; None where it is refused."""
    data, wanted = ASKED[name]
    try:
        document = json.loads(release(data, seed=1, **wanted).to_text())
    except MechanismError:
        return None
    for masked in ("provenance", "schema", "status", "format"):
        del document[masked]
    return document


def same(one, other):
    """Whether two documents are equal, floats within `CLOSE` of each other."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}


def test_every_mechanism_and_every_goal_has_golden_releases():
    assert list(GOLDEN) == list(ASKED)
    made = {document["mechanism"] for document in GOLDEN.values() if document is not None}
    assert made == set(MECHANISMS)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_seeded_release_is_as_it_was(name):
    assert same(released(name), GOLDEN[name])


def test_one_integer_or_a_float_in_the_eighth_place_is_noticed():
    document = GOLDEN["gaussian, add-remove, zcdp"]
    first, *others = document["published"]
    assert same(document, dict(document))
    assert not same(document, document | {"published": [first + 1, *others]})
    lattice = document["lattice"]
    for factor, kept in ((1 + 1e-8, False), (1 + 1e-12, True)):
        moved = document | {"lattice": lattice | {"radius": lattice["radius"] * factor}}
        assert same(document, moved) is kept


if __name__ == "__main__":
    lines = [f"{json.dumps(name)}: {json.dumps(released(name))}" for name in ASKED]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
