"""Kinds of faults that others found in libraries: planted in dpcov, each fails a named test."""

import importlib

import pytest

from known_faults import FAULTS

FAILURE = Exception, pytest.fail.Exception


def named(fault):
    """Return the test that a fault must fail, with its arguments."""
    file, _, name = fault.test.partition("::")
    tests = importlib.import_module(file.removesuffix(".py"))
    return getattr(tests, name), fault.arguments(tests)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.plant.__name__)
def test_a_planted_fault_fails_its_test_which_passes_without_it(fault):
    test, arguments = named(fault)
    test(*arguments)
    with fault.plant(), pytest.raises(FAILURE):
        test(*arguments)
