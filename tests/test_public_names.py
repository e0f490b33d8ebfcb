"""The public names: one list, and what is written from it."""

import dataclasses
import importlib
import importlib.util
import re
import warnings

import numpy as np
import pytest

import dpcov
import public_stub
from dpcov import api
from dpcov.analysis.penalty import ridge_alpha
from dpcov.api.request import Request
from dpcov.rows.sources.partial import PartialMoment


def test_public_names_are_what_they_say() -> None:
    assert len(set(dpcov.__all__)) == sum(map(len, dpcov._PUBLIC.values()))
    for module, names in dpcov._PUBLIC.items():
        for name in names:
            assert getattr(dpcov, name) is getattr(importlib.import_module(module), name)
            assert name in dir(dpcov)
            assert importlib.util.find_spec(f"dpcov.{name}") is None, "a module takes its place"
    with pytest.raises(AttributeError, match="no attribute 'covariance'"):
        dpcov.covariance  # noqa: B018


def test_dir_lists_public_names_and_modules_only() -> None:
    assert dir(dpcov) == sorted([*dpcov.__all__, "plot", "report", "signatures"])
    assert not [name for name in dir(dpcov) if name.startswith("_")]


def test_the_stub_is_that_of_the_list() -> None:
    assert public_stub.STUB.read_text() == public_stub.text(), "run: python tests/public_stub.py"


def test_the_penalties_of_ridge_and_of_graphs_have_a_name_each() -> None:
    assert dpcov.ridge_alpha is ridge_alpha
    assert dpcov.precision_alpha is not dpcov.ridge_alpha


def test_all_public_renames_are_listed() -> None:
    former = {"Guess": "Assumptions", "choose_alpha": "ridge_alpha", "drowned": "noise_warnings"}
    assert former == dpcov._FORMER
    assert not {*former} & {*dir(dpcov), *dpcov.__all__}


@pytest.mark.parametrize("old", dpcov._FORMER)
def test_a_former_name_works_and_warns(old: str) -> None:
    new = dpcov._FORMER[old]
    words = f"dpcov.{old} is now dpcov.{new}. Version 0.5 removes the name dpcov.{old}."
    with pytest.warns(FutureWarning, match=f"^{re.escape(words)}$") as caught:
        found = getattr(dpcov, old)
    assert (len(caught), caught[0].filename) == (1, __file__)
    with pytest.warns(FutureWarning, match=re.escape(words)) as caught:
        __import__("dpcov", fromlist=[old])  # as `from dpcov import` does
    assert {one.filename for one in caught} == {__file__}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # control: the new name does not warn
        assert found is getattr(dpcov, new)


def test_the_former_names_of_assumptions_in_a_plan_work_and_warn() -> None:
    schema, stated = dpcov.Schema.from_bounds(0, 1, ["x", "y"]), dpcov.Assumptions(0.2)
    asked = {"rho": 1.0, "mechanism": "gaussian", "factors": ()}
    found = dpcov.plan(schema, 1000, assumptions=stated, **asked)
    with pytest.warns(FutureWarning, match="^guess is now assumptions. Version 0.5") as caught:
        former = dpcov.plan(schema, 1000, guess=stated, **asked)
    assert caught[0].filename == __file__
    assert former == found != dpcov.plan(schema, 1000, **asked)
    with pytest.warns(FutureWarning, match="Plan.table_assumptions. Version 0.5") as caught:
        assert found.guess is stated is found.table_assumptions
    assert caught[0].filename == __file__
    document = found.document()
    assert document["guess"] == document["assumptions"]
    assert document["assumptions"]["spread"] == 0.2


def test_the_former_name_of_missing_columns_works_and_warns() -> None:
    schema = dpcov.Schema.from_bounds(0, 1, ["x"], missing="pairwise")
    with pytest.warns(FutureWarning, match="is now Schema.missing_columns. Version 0.5") as caught:
        assert schema.gaps == schema.missing_columns == {0: 1}
    assert caught[0].filename == __file__


def printed(value: object) -> str:
    """Return what a person sees who prints the value, at a prompt or in a log."""
    return f"{value!s}\n{value!r}\n{[value]}"


def test_a_printed_release_is_short_and_holds_no_exact_sum() -> None:
    table = np.random.default_rng(0).integers(0, 1000, (500, 60)).astype(float)
    wide = dpcov.release(table, lower=0, upper=1000, epsilon=1.0)
    sums = PartialMoment.of(table, wide.schema)
    ready = api.prepare(sums, Request(schema=wide.schema, epsilon=1.0))
    assert len(str(wide).splitlines()) <= 20
    exact = [str(int(unit)) for unit in np.unique(np.array(sums.units, dtype=object))]
    moment = ready.rows.second_moments()[0]
    for one in (wide, sums, sums.seen(wide.schema), ready, moment):
        assert not [unit for unit in exact if unit in printed(one)], type(one)
    assert [unit for unit in exact if unit in printed(vars_of(sums))]  # control: the sums are there


def vars_of(sums: PartialMoment) -> list[object]:
    """Return what the default representation of a dataclass would print."""
    return [getattr(sums, field.name) for field in dataclasses.fields(sums)]


@pytest.mark.parametrize("module", ["errors", "estimators", "plot", "report", "signatures"])
def test_modules_that_have_a_public_name_are_imported_by_it(module: str) -> None:
    """An import statement works too, for which an attribute of the package is not enough."""
    assert importlib.util.find_spec(f"dpcov.{module}") is not None
    assert importlib.util.find_spec(f"dpcov.{module}s") is None  # control
