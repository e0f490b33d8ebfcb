"""Forged release files: a claim that is bolder than its numbers is refused without any key."""

import json
from contextlib import suppress
from copy import deepcopy
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.analysis.summary import summary
from dpcov.errors import ReleaseError
from dpcov.published.recomputed import is_recomputed
from dpcov.releases.file import from_text
from dpcov.rows.schema import Schema

COLUMNS = {f"x{at}": {"kind": "numeric", "lower": -1, "upper": 1} for at in range(3)}
GROUPED = COLUMNS | {"site": {"kind": "categorical", "levels": ["a", "b"]}}
PERSONS = {"columns": COLUMNS, "unit": {"column": "id", "max_rows": 4, "type": "integer"}}
ASKED = {
    "pure": {"epsilon": 2.0},
    "rho": {"rho": 0.5},
    "approx": {"epsilon": 1.0, "delta": 1e-6, "mechanism": "gaussian"},
    "approx standardized": {"epsilon": 3.0, "delta": 1e-3},
    "replaced": {"epsilon": 1.0, "neighbors": "replace-one"},
    "replaced rho": {"rho": 0.3, "neighbors": "replace-one"},
    "persons": {"epsilon": 2.0, "schema": Schema.parse(PERSONS)},
    "matrix-laplace": {"epsilon": 1.0, "mechanism": "matrix-laplace"},
    "laplace": {"epsilon": 1.0, "mechanism": "laplace"},
    "laplace replaced": {"epsilon": 1.0, "mechanism": "laplace", "neighbors": "replace-one"},
    "nuclear-laplace": {"epsilon": 1.0, "mechanism": "nuclear-laplace"},
}


def table():
    """Return 2,000 rows of 500 persons with correlated columns."""
    rng = np.random.default_rng(0)
    values = 0.2 * rng.normal(size=(2000, 1)) + 0.2 * rng.normal(size=(2000, 3))
    frame = pd.DataFrame(values.clip(-1, 1), columns=list(COLUMNS))
    return frame.assign(id=np.arange(2000) // 4, site=np.where(np.arange(2000) % 3, "a", "b"))


@cache
def document_text(name):
    """Return the text of the release file of a request."""
    asked = {"schema": Schema.parse({"columns": COLUMNS})} | ASKED[name]
    return dpcov.release(table(), seed=1, **asked).to_text()


@cache
def grouped_text(neighbors):
    """Return the text of one release of a grouped release."""
    made = dpcov.release_by(
        table(), "site", schema=Schema.parse({"columns": GROUPED}), epsilon=1.0, seed=1,
        neighbors=neighbors,
    )  # fmt: skip
    return made["a"].to_text()


def scaled(budget, factor):
    """Yield budgets with one figure multiplied by the factor."""
    for figure in ("epsilon", "rho", "delta"):
        if figure in budget:
            yield budget | {figure: budget[figure] * factor}


def claims(document):
    """Yield documents that state a stronger guarantee and are otherwise as they were."""
    budget = document["guarantee"]["budget"]
    for factor in (0.999, 0.5, 0.01):
        for bolder in scaled(budget, factor):
            yield f"budget {bolder}", {"guarantee": document["guarantee"] | {"budget": bolder}}
    other = {"definition": "pure", "epsilon": 0.1}
    if budget["definition"] == "pure":
        other = {"definition": "zcdp", "rho": 1e-3}
    yield "another kind of budget", {"guarantee": document["guarantee"] | {"budget": other}}


def rounds(document):
    """Yield documents whose rounds were edited so that they cost less."""
    budget = document["guarantee"]["budget"]
    half = {name: value / 2 for name, value in budget.items() if name in ("epsilon", "rho")}
    less = {"guarantee": document["guarantee"] | {"budget": budget | half}}
    for at, one in enumerate(document["rounds"]):
        spent = one["spent"]
        (name, amount), *_ = spent.items()
        for factor in (Fraction(1, 2), Fraction(99, 100)):
            edited = deepcopy(document["rounds"])
            edited[at]["spent"] = {name: str(Fraction(amount) * factor)}
            if Fraction(amount):
                yield f"{one['query']} states {factor} of its cost", {"rounds": edited}
        other = {"epsilon": "rho", "rho": "epsilon"}[name]
        edited = deepcopy(document["rounds"])
        edited[at]["spent"] = {other: amount}
        yield f"{one['query']} states another kind of cost", {"rounds": edited}
        for figure in ("scale", "variance"):
            if figure not in one["answer"]["noise"]:
                continue
            for factor in (4, Fraction(1, 4)):
                if factor == 4 and not Fraction(amount):  # a free trace stays free
                    continue
                edited = deepcopy(document["rounds"])
                noise = edited[at]["answer"]["noise"]
                old = noise[figure]
                noise[figure] = (
                    old * float(factor) if isinstance(old, float) else str(Fraction(old) * factor)
                )
                yield f"{one['query']} states noise times {factor}", {"rounds": edited}
        edited = [kept for kept in deepcopy(document["rounds"]) if kept["query"] != one["query"]]
        gone = one["query"] in ("pilot", "directions", "norms", "count")
        if gone and document["mechanism"] in ("standardized", "gaussian", "matrix-laplace"):
            yield f"no {one['query']} and half of the budget", {"rounds": edited} | less


def lattices(document):
    """Yield documents with another lattice, on which the sensitivity depends."""
    for at, one in enumerate(document["rounds"]):
        rows = one["answer"].get("rows")
        if rows is None:
            continue
        for change in (
            {"side": rows["lattice"]["side"] // 2},
            {"radius": rows["lattice"]["radius"] / 2},
            {"radius": rows["lattice"]["radius"] / 2, "side": rows["lattice"]["side"] // 2},
            {"step": rows["lattice"]["step"] * 2},
            {"intercept_units": rows["lattice"]["intercept_units"] // 2},
        ):
            edited = deepcopy(document["rounds"])
            edited[at]["answer"]["rows"]["lattice"] |= change
            yield f"{one['query']} with {list(change)}", {"rounds": edited}
        edited = deepcopy(document["rounds"])
        edited[at]["answer"]["shift"] += 1
        yield f"{one['query']} with another shift", {"rounds": edited}


def relations(document):
    """Yield documents with another relation, privacy unit or number of units."""
    told, swapped = (
        document["guarantee"],
        {"add-remove": "replace-one", "replace-one": "add-remove"},
    )
    other = told | {"neighbors": swapped[told["neighbors"]]}
    public = {"unit_count": 2000} if other["neighbors"] == "replace-one" else {"unit_count": None}
    yield "another relation", {"guarantee": other}
    if told["neighbors"] == "add-remove":
        yield "another relation with a number of rows", {"guarantee": other} | public
    if document["schema"]["unit"]:
        schema = deepcopy(document["schema"])
        schema["unit"]["max_rows"] = 8
        yield "more rows for each person", {"schema": schema}


def forged():
    """Return all forged files: (name, text)."""
    found = []
    for name in ASKED:
        document = json.loads(document_text(name))
        for kind in (claims, rounds, lattices, relations):
            for label, change in kind(document):
                found.append((f"{name}: {label}", json.dumps(document | change)))
    for neighbors in ("add-remove", "replace-one"):
        document = json.loads(grouped_text(neighbors))
        for factor in (0.999, 0.1):
            for bolder in scaled(document["group"]["budget"], factor):
                change = {"group": document["group"] | {"budget": bolder}}
                found.append((f"group {neighbors}: {bolder}", json.dumps(document | change)))
    return found


@pytest.mark.parametrize("name", ASKED)
def test_the_guarantee_of_a_file_follows_from_its_noise(name):
    assert is_recomputed(from_text(document_text(name), "file"))


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_a_file_of_one_group_loads(neighbors):
    made = from_text(grouped_text(neighbors), "file")
    assert made.group is not None
    assert is_recomputed(made)


def test_every_bolder_claim_is_refused():
    files = forged()
    assert len(files) >= 200
    assert len({text for _, text in files}) == len(files)
    loaded = []
    for name, text in files:
        with suppress(ReleaseError):
            from_text(text, "file")
            loaded.append(name)
    assert loaded == []


def test_control_a_weaker_claim_loads():
    """A guarantee that is weaker than the noise is true, so that the check is not a hash."""
    document = json.loads(document_text("pure"))
    document["guarantee"]["budget"]["epsilon"] *= 2
    made = from_text(json.dumps(document), "file")
    assert not is_recomputed(made)


def test_a_removed_count_is_shown_unless_the_guarantee_is_smaller_by_its_cost():
    """A mechanism that Python code runs directly publishes no count, so the rest is consistent."""
    document = json.loads(document_text("pure"))
    *kept, count = document["rounds"]
    assert count["query"] == "count"
    made = from_text(json.dumps(document | {"rounds": kept}), "file")
    assert not is_recomputed(made)
    assert "a query is missing" in summary(made).document()["facts"]["recomputed"]
    document["guarantee"]["budget"]["epsilon"] -= float(Fraction(count["spent"]["epsilon"]))
    made = from_text(json.dumps(document | {"rounds": kept}), "file")
    assert is_recomputed(made)


def test_a_mechanism_without_a_noise_distribution_is_not_recomputable():
    made = dpcov.release(
        table()[list(COLUMNS)].to_numpy(), lower=-1, upper=1, epsilon=1.0,
        mechanism="exponential-pca", seed=1,
    )  # fmt: skip
    assert not is_recomputed(from_text(made.to_text(), "file"))


def test_a_consistent_forgery_is_beyond_this_check():
    """The documentation says so: noise and cost that agree load, and so does a removed seed."""
    document = json.loads(document_text("matrix-laplace"))
    document["status"] = "private"
    assert not from_text(json.dumps(document), "file").reproducible
