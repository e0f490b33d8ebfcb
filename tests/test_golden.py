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
from dpcov.core.privacy import Neighbors
from dpcov.errors import MechanismError
from dpcov.mechanisms import MECHANISMS, mechanism_named
from dpcov.mechanisms.choice import GOALS
from dpcov.rows.schema import Schema
from former_documents import former

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
    """Return (n, 3) numbers in [0, 1]; the last two are correlated, no norm is near its bound."""
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
    """Return the release file without time, version and table; None if the release is refused."""
    data, wanted = ASKED[name]
    try:
        document = former(release(data, seed=1, **wanted))
    except MechanismError:
        return None
    for masked in ("provenance", "schema", "status", "format"):
        del document[masked]
    return document


def same(one, other):
    """Return True if two documents are equal, with floats within `CLOSE` of each other."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and one == other


def decided(document, golden):
    """Return True if integers follow from rows and seed alone, for every CPU's linear algebra.

    The last bits of a pilot's eigenvectors depend on the linear algebra, and so do a map and its
    center. Rows with the same map are the same. Releases without a noise distribution consist of
    eigenvectors. Neither case changed an integer with any kernel of OpenBLAS from SSE2 to AVX-512.
    An integer at a half can still be rounded to its other side elsewhere.
    """
    maps = [(one["linear_map"], one["center"]) for one in (document, golden)]
    return golden["noise"] is not None and maps[0] == maps[1]


def same_elsewhere(document, golden, rows):
    """Return True if two documents differ only by rounding: choice, noise and map are equal.

    A transformed row with another rounding moves by a unit. A product of two moves by at most 2 B +
    1, and `rows` of them move a moment by as much each. The tolerance 1e-9 is for sums of
    eigenvectors. Denoised values differ with these integers.
    """
    if document is None or golden is None:
        return document is golden
    integers = ("published", "published_trace")
    rest = [
        {key: one[key] for key in one if key not in (*integers, "denoised")}
        for one in (document, golden)
    ]
    moved = rows * (2 * golden["lattice"]["side"] + 1)
    whole = {"published_trace": moved * len(golden["lattice"]["features"])}
    return same(*rest) and all(
        close_integers(document[key], golden[key], whole.get(key, moved / 2 ** golden["shift"]))
        for key in integers
    )


def close_integers(one, other, moved):
    if one is None or other is None:
        return one is other
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if one.shape != other.shape:
        return False
    return bool(np.all(np.abs(one - other) <= 1 + moved + CLOSE * np.abs(other).max()))


GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {}


def test_every_mechanism_and_every_goal_has_golden_releases():
    assert list(GOLDEN) == list(ASKED)
    made = {document["mechanism"] for document in GOLDEN.values() if document is not None}
    assert made == set(MECHANISMS)


@pytest.mark.parametrize("name", GOLDEN)
def test_a_seeded_release_is_as_it_was(name):
    document, golden = released(name), GOLDEN[name]
    if document is None or golden is None or decided(document, golden):
        assert same(document, golden)
    else:
        assert same_elsewhere(document, golden, len(ASKED[name][0]))


@pytest.mark.parametrize("name", GOLDEN)
def test_other_noise_is_noticed_where_another_cpu_may_round_otherwise(name):
    golden = GOLDEN[name]
    if golden is None:
        return
    assert same_elsewhere(golden, golden, 0)
    published = [k + (-1) ** at * (k // 50 + 100) for at, k in enumerate(golden["published"])]
    assert not same_elsewhere(golden | {"published": published}, golden, len(ASKED[name][0]))
    assert not same_elsewhere(golden | {"shift": golden["shift"] + 1}, golden, 300)
    assert not same_elsewhere(None, golden, 300)


def test_integers_must_be_equal_where_the_map_is():
    for name in ("gaussian, add-remove, zcdp", "auto for frobenius, add-remove, pure"):
        golden = GOLDEN[name]
        assert decided(dict(golden), golden)
    moved = [golden["center"][0] + 1e-15, *golden["center"][1:]]
    assert not decided(golden | {"center": moved}, golden)
    assert not decided(*2 * [GOLDEN["separate-laplace, add-remove, pure"]])


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
