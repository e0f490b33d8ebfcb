"""Forged release files: a claim that is bolder than its numbers is refused without any key."""

import json
import warnings
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov import cli
from dpcov.analysis.summary import facts, summary
from dpcov.errors import ReleaseError
from dpcov.mechanisms.replay import Replay, ReplayWarning, warn_of_mismatches
from dpcov.published.kinds import MAP_RULE
from dpcov.published.recomputed import is_recomputed
from dpcov.releases.file import from_text
from dpcov.report.claims import verification
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


# The map and the clipping radius, which the guarantee does not depend on

MISSING = {
    "version": 3,
    "columns": {
        "x0": {"kind": "number", "lower": -1, "upper": 1, "missing": "pairwise"},
        "x1": {"kind": "number", "lower": -1, "upper": 1, "missing": "none"},
        "site": GROUPED["site"] | {"missing": "none"},
    },
}
TABLES = {
    "by column": {"mechanism": "standardized", "epsilon": 1.0},
    "by direction": {"epsilon": 2.0},
    "levels and missing cells": {"schema": Schema.parse(MISSING), "epsilon": 1.0},
    "weights": {
        "schema": Schema.parse({"columns": COLUMNS, "weight": {"column": "w", "maximum": 4}}),
        "epsilon": 2.0,
    },
    "trace only": {"epsilon": 1e-3, "neighbors": "replace-one", "mechanism": "standardized"},
}
FORGED_PARTS = {
    "center": "the center of the map",
    "matrix": "the matrix of the map",
    "ends": "the bins of the norm histogram",
    "radius": "the clipping radius",
    "first center": "the center of the map of the directions query",
    "first radius": "the clipping radius of the directions query",
    "weight": "the clipping radius",
    "option": "the options of the mechanism",
}


@cache
def replayed_text(name):
    """Return the text of the release file of a request of `TABLES` or `ASKED`."""
    if name in ASKED:
        return document_text(name)
    asked = {"schema": Schema.parse({"columns": COLUMNS})} | TABLES[name]
    rows = table().assign(w=np.arange(2000) % 4 + 1)
    if name == "levels and missing cells":
        rows.loc[::7, "x0"] = np.nan
    return dpcov.release(rows, seed=1, **asked).to_text()


def answers(document):
    """Return the answers of a document by query."""
    return {one["query"]: one["answer"] for one in document["rounds"]}


def scale_radius(lattice):
    """Halve the radius and the step of a lattice, on which no cost depends."""
    lattice["radius"], lattice["step"] = lattice["radius"] / 2, lattice["step"] / 2


def with_forged(document, part):
    """Return a copy of a document with one part changed, so that the file still loads."""
    edited = deepcopy(document)
    found = answers(edited)
    last, first = found["matrix"]["rows"], found.get("directions", {}).get("rows")
    match part:
        case "center":
            last["transform"]["center"][0] += 0.01
        case "matrix":
            last["transform"]["matrix"] = [3 * one for one in last["transform"]["matrix"]]
        case "ends":
            found["norms"]["ends"] = [1.5 * one for one in found["norms"]["ends"]]
        case "radius":
            scale_radius(last["lattice"])
        case "first center":
            first["transform"]["center"][0] += 0.01
        case "first radius":
            scale_radius(first["lattice"])
        case "weight":
            edited["parameters"]["loss_weight"] = 1e-6
        case "option":
            edited["parameters"]["power"] = 7.0
    return edited


@pytest.mark.parametrize("name", [*TABLES, *ASKED])
def test_the_map_of_an_untouched_file_follows_from_its_answers(name):
    made = from_text(replayed_text(name), "file")
    summary(made)  # no warning
    if made.linear_map is None:
        assert Replay.of(made) is None
        assert "replayed" not in dict(facts(made).texts())
    else:
        assert Replay.of(made) == Replay(known=True, has_radius=name != "trace only")
        assert dict(facts(made).texts())["replayed"].startswith("yes")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (name, part)
        for name in ("by column", "by direction", "approx standardized", "replaced")
        for part in FORGED_PARTS
        if name != "by column" or not part.startswith("first")
    ],
)
def test_a_forged_map_or_radius_gives_a_warning_and_no_refusal(name, part):
    document = json.loads(replayed_text(name))
    made = from_text(json.dumps(with_forged(document, part)), "file")
    with pytest.warns(ReplayWarning, match="do not follow from the earlier answers"):
        found = summary(made).document()
    assert FORGED_PARTS[part] in Replay.of(made).mismatches
    assert found["map_replayed"] is False
    assert FORGED_PARTS[part] in found["facts"]["replayed"]
    assert "do not follow" in verification(replace(made, reproducible=False))
    assert is_recomputed(made)


def test_a_forged_seed_gives_another_map():
    """Rows of 12 columns need simulations, so that the map depends on the seed."""
    values = np.random.default_rng(0).normal(scale=0.2, size=(4000, 12)).clip(-1, 1)
    document = json.loads(dpcov.release(values, lower=-1, upper=1, epsilon=4.0, seed=1).to_text())
    assert Replay.of(from_text(json.dumps(document), "file")) == Replay(known=True)
    transform = answers(document)["matrix"]["rows"]["transform"]
    transform["seed"] += 1
    found = Replay.of(from_text(json.dumps(document), "file"))
    assert "the matrix of the map" in found.mismatches


def test_a_file_of_another_rule_is_not_replayed():
    document = json.loads(replayed_text("by direction"))
    transform = answers(document)["matrix"]["rows"]["transform"]
    for rule in (MAP_RULE + 1, None):
        transform["rule"] = rule
        edited = with_forged(document, "matrix")
        made = from_text(json.dumps(edited), "file")
        assert Replay.of(made) == Replay(known=False)
        assert dict(facts(made).texts())["replayed"].startswith("not replayed")
        assert summary(made).document()["map_replayed"] is None


def test_rule_and_seed_of_a_map_change_no_estimate():
    document = json.loads(replayed_text("by direction"))
    made = from_text(json.dumps(document), "file")
    for rows in (answers(document)["matrix"]["rows"], answers(document)["directions"]["rows"]):
        del rows["transform"]["rule"]
        rows["transform"].pop("seed", None)
    without = from_text(json.dumps(document), "file")
    assert np.array_equal(made.second_moment(), without.second_moment())


def test_verify_and_passport_warn_of_a_forged_map(tmp_path, capsys):
    edited = with_forged(json.loads(replayed_text("by direction")), "center")
    file, key = tmp_path / "r.json", tmp_path / "lab.key"
    file.write_text(json.dumps(edited))
    dpcov.signatures.create_key(key)
    dpcov.signatures.sign(file, key)
    with pytest.warns(ReplayWarning, match="the center of the map"):
        dpcov.signatures.verify(file, f"{key}.pub")
    for command in (["show"], ["passport"], ["verify", "--key", f"{key}.pub"]):
        name, *options = command
        with warnings.catch_warnings(), pytest.raises(SystemExit) as ended:
            cli.main([name, str(file), *options])
        assert not ended.value.code
        assert "do not follow from the earlier answers" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore::dpcov.releases.VoidReleaseWarning")
@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_files_of_the_formats_1_and_2_are_not_replayed(version):
    found = []
    for path in sorted((Path(__file__).parent / "data" / version).glob("*.json")):
        made = dpcov.load(path)
        replay = Replay.of(made)
        assert replay in (None, Replay(known=False))
        found.append(replay)
        warn_of_mismatches(made)
    assert Replay(known=False) in found
