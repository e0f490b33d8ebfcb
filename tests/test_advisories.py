"""`show` says which faults of earlier versions can affect a release file."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import dpcov
from dpcov.releases.advisories import (
    DECIMALS,
    DELTA,
    EXCEL,
    NOTATION,
    OBJECTS,
    PARQUET,
    STATA,
    VOID,
    advisories,
)

DATA = Path(__file__).with_name("data") / "0.2.0"


def made(**provenance):
    """Return a release of version 0.2.0, with other facts of how it was made."""
    whole = dpcov.Release.load(DATA / "auto-zcdp.json")
    return replace(whole, provenance={**whole.provenance, **provenance})


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        *(("Stata", STATA), ("Excel", EXCEL), ("pandas", OBJECTS), ("parquet", PARQUET)),
        ("sums and Excel", EXCEL),
    ],
)
def test_a_release_of_an_earlier_version_has_the_faults_of_its_source(source, sentence):
    assert sentence in advisories(made(door=source))
    assert advisories(made(door=source, version="0.3.0.dev0")) == ()
    assert advisories(made(door=source, version="0.10.1")) == ()


def test_sources_without_a_fault_have_no_advisory():
    assert advisories(made(door="csv")) == advisories(made(door="numpy")) == ()


def test_conditions_and_numeric_codes_can_be_affected_except_in_text():
    assert DECIMALS in advisories(made(door="DuckDB", rows="rows where a <= 0.3"))
    assert DECIMALS not in advisories(made(door="csv", rows="rows where a <= 0.3"))
    assert DECIMALS not in advisories(made(door="DuckDB"))
    coded = made(door="DuckDB")
    schema = dpcov.Schema.parse(coded.schema.model_dump() | {"missing": ["", "999.9"]})
    assert DECIMALS in advisories(replace(coded, schema=schema))


@pytest.mark.parametrize(
    ("decimal", "code", "affected"), [(",", "999,9", 1), (",", "-999", 0), (".", "999.9", 0)]
)
def test_codes_in_the_notation_of_a_text_file_can_be_affected(decimal, code, affected):
    coded = made(door="csv")
    added = {"missing": ["", code], "file": {"decimal": decimal, "separator": ";"}}
    schema = dpcov.Schema.parse(coded.schema.model_dump() | added)
    assert (NOTATION in advisories(replace(coded, schema=schema))) == affected


def test_a_delta_that_was_not_spent_is_named():
    release = dpcov.release([[0.1, 0.2]] * 50, lower=[0, 0], upper=[1, 1], epsilon=1.0, delta=1e-6)
    assert advisories(release) == ()
    stated = replace(release.guarantee, budget=dpcov.ApproxDP(1.0, 1e-6))
    old = replace(release, guarantee=stated, provenance={**release.provenance, "version": "0.2.0"})
    assert DELTA.format(1.0) in advisories(old)


def test_a_file_without_a_version_may_be_void():
    release = dpcov.release([[0.1]] * 9, lower=[0], upper=[1], epsilon=1.0)
    assert advisories(replace(release, provenance={})) == (VOID,)


def test_show_prints_the_advisories_of_a_file(run):
    shutil.copy(DATA / "auto-zcdp.json", "old.json")
    shown = run("show old.json")
    assert shown.code == 0
    assert OBJECTS.split(".")[0] in " ".join((shown.out + shown.err).split())
    plain = json.loads(run("show old.json --json").out)
    assert OBJECTS in plain["warning"]
