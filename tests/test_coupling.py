"""Later questions depend on published answers alone (`trust/coupling.py`)."""

import numpy as np
import pytest

import coupling
from dpcov.mechanisms import MECHANISMS

PAIRS = list(coupling.pairs(rows=200))


@pytest.mark.parametrize("pair", PAIRS[::7], ids=lambda pair: pair.name)
def test_moved_draws_give_another_table_the_same_release(pair):
    assert not pair.leaks()


@pytest.mark.parametrize("leak", coupling.LEAKS, ids=lambda leak: leak.__doc__)
def test_control_a_planted_leak_is_caught(leak):
    assert coupling.leak_is_caught(leak)


def test_every_mechanism_is_coupled_or_has_a_reason_why_not():
    assert {*coupling.ADDITIVE, *coupling.OTHERS} == {"auto", *MECHANISMS}
    assert not set(coupling.ADDITIVE) & set(coupling.OTHERS)


def test_there_are_enough_pairs_of_all_kinds():
    assert len(PAIRS) >= 500
    words = ("replace-one", "pairwise", "level", "unit", "weight", "private", "none", "delta")
    assert all(any(word in pair.name for pair in PAIRS) for word in words)


def test_a_draw_records_what_it_is_added_to():
    run = coupling.Run({0: 5})
    first, second, third = run.taken(np.int64(1)), run.taken(2), run.taken(3)
    assert 10 + first == 16
    assert (np.array([7, 8], object) + np.array([second, third], object)).tolist() == [9, 11]
    assert run.seen == {0: 10, 1: 7, 2: 8}
