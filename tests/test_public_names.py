"""The public names: one list, and what is written from it."""

import importlib
import importlib.util

import pytest

import dpcov
import public_stub
from dpcov.analysis.penalty import ridge_alpha


def test_public_names_are_what_they_say() -> None:
    assert len(set(dpcov.__all__)) == sum(map(len, dpcov._PUBLIC.values()))
    for module, names in dpcov._PUBLIC.items():
        for name in names:
            assert getattr(dpcov, name) is getattr(importlib.import_module(module), name)
            assert name in dir(dpcov)
            assert importlib.util.find_spec(f"dpcov.{name}") is None, "a module takes its place"
    with pytest.raises(AttributeError, match="no attribute 'covariance'"):
        dpcov.covariance  # noqa: B018


def test_the_stub_is_that_of_the_list() -> None:
    assert public_stub.STUB.read_text() == public_stub.text(), "run: python tests/public_stub.py"


def test_the_penalties_of_ridge_and_of_graphs_have_a_name_each() -> None:
    assert dpcov.ridge_alpha is ridge_alpha is dpcov.choose_alpha
    assert dpcov.precision_alpha is not dpcov.ridge_alpha
