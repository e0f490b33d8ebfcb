"""Mechanisms that refuse small tables say how many rows they need, before anything is spent."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.api import prepare
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.privacy import ApproxDP, Neighbors
from dpcov.errors import DpcovError, MechanismError, MechanismRefused
from dpcov.mechanisms import MECHANISMS
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema

NEEDING = ("stable-covariance", "whitened", "ashtiani-liaw", "unbounded-gaussian")
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = np.random.default_rng(3).uniform(size=(200, 2))
FRAME = pd.DataFrame(ROWS, columns=["a", "b"])
SCHEMA = Schema.from_bounds(0, 1, ["a", "b"])
LEAST = {
    name: MECHANISMS[name]().least_units(
        Lattice.of(SCHEMA), ApproxDP(**BUDGET), Neighbors.REPLACE_ONE
    )
    for name in NEEDING
}


def parquet(folder):
    pq.write_table(pa.Table.from_pandas(FRAME), folder / "a.parquet")
    return folder / "a.parquet"


def sources(folder):
    return {
        "array": ROWS,
        "list": ROWS.tolist(),
        "pandas": FRAME,
        "polars": pl.DataFrame(FRAME),
        "arrow": pa.Table.from_pandas(FRAME),
        "parquet": parquet(folder),
    }


@pytest.mark.parametrize("name", NEEDING)
def test_a_public_number_of_rows_that_is_too_small_is_refused_before_the_spend(tmp_path, name):
    ledger = Ledger.create(
        tmp_path / "L", ApproxDP(10, 1e-4), neighbors=Neighbors.REPLACE_ONE, count="sums"
    )
    asked = {"schema": SCHEMA, "ledger": ledger, "mechanism": name, "neighbors": "replace-one"}
    for data in sources(tmp_path).values():
        with pytest.raises(MechanismError) as caught:
            dpcov.release(data, **asked, **BUDGET)
        assert f"at least {LEAST[name]:,} rows" in str(caught.value)
        assert "200" in str(caught.value)
    assert not ledger.account().entries


@pytest.mark.parametrize("name", NEEDING)
def test_a_private_number_of_rows_decides_nothing_before_the_spend(tmp_path, name):
    for data in sources(tmp_path).values():
        prepare(data, Request(schema=SCHEMA, mechanism=name, **BUDGET))


def test_a_number_of_rows_beside_persons_or_weights_is_private():
    """Under replace-one the number of persons is public; the number of their rows is not."""
    frame = FRAME.assign(p=range(200), w=1.0)
    for part in (
        {"unit": {"column": "p", "type": "integer", "max_rows": 1}},
        {"weight": {"column": "w", "maximum": 1}},
    ):
        schema = Schema.parse(SCHEMA.model_dump() | part)
        asked = {"mechanism": "whitened", "neighbors": "replace-one"}
        prepare(frame, Request(schema=schema, **asked, **BUDGET))


def test_enough_rows_are_not_refused():
    many = np.random.default_rng(5).uniform(size=(LEAST["stable-covariance"], 2))
    asked = {"schema": SCHEMA, "mechanism": "stable-covariance", "neighbors": "replace-one"}
    request = Request(**asked, **BUDGET)
    prepare(many, request)
    with pytest.raises(MechanismError, match="at least"):
        prepare(many[1:], request)


def test_a_refusal_after_the_spend_says_the_number_too():
    """The same for every table, whatever its rows and their number are."""
    texts = set()
    for rows in (ROWS, ROWS[:3], np.zeros((50, 2))):
        with pytest.raises(MechanismRefused) as caught:
            dpcov.release(rows, schema=SCHEMA, mechanism="stable-covariance", **BUDGET)
        texts.add(str(caught.value))
    least = MECHANISMS["stable-covariance"]().least_units(
        Lattice.of(SCHEMA), ApproxDP(**BUDGET), Neighbors.ADD_REMOVE
    )
    assert len(texts) == 1
    assert f"at least {least:,} rows" in texts.pop()


def test_the_lists_of_mechanisms_say_the_number(run):
    found = {one["name"]: one["least_rows"] for one in json.loads(run("mechanisms --json").out)}
    assert {name for name, least in found.items() if least} == set(NEEDING)
    reported = run("mechanisms").out
    assert all(f"{found[name]:,}" in reported for name in NEEDING)


def test_a_plan_says_the_number(run, tmp_path):
    (tmp_path / "a.toml").write_text(
        "".join(f"[columns.{c}]\nkind = 'numeric'\nlower = 0\nupper = 1\n" for c in "ab")
    )
    line = "plan a.toml --rows 100 --epsilon 1 --delta 1e-6 --neighbors replace-one"
    refused = run(f"{line} --mechanism whitened")
    assert (refused.code, f"at least {LEAST['whitened']:,} rows" in refused.err) == (2, True)
    one = json.loads(run(f"{line} --mechanism gaussian --json").out)
    assert one["least_rows"] == LEAST
    assert f"whitened {LEAST['whitened']:,}" in run(f"{line} --mechanism gaussian").out
    with pytest.raises(DpcovError):  # control: a mechanism without such a number says none
        raise MechanismRefused("rows")
    assert "at least" not in str(MechanismRefused("rows"))
