"""How the mechanisms of a fixed number of passes read the data, and whether they hold its rows."""

import pytest
from cases import CASES, Watched, table

from dpcov.mechanisms import MECHANISMS, Mechanism
from dpcov.rows.sources.rows import Rows

FIXED = [
    case
    for case in CASES
    if MECHANISMS[case.name].passes is Mechanism.passes or case.name == "whitened"
]


def test_the_mechanisms_that_state_a_number_are_among_them():
    names = {"additive-wishart", "stable-covariance", "whitened", "ashtiani-liaw"}
    assert {case.name for case in FIXED} >= names


@pytest.mark.parametrize("case", FIXED, ids=str)
def test_the_data_is_read_as_often_as_stated_and_rows_are_held_where_stated(case, monkeypatch):
    held, right = [], Rows.integer_rows
    monkeypatch.setattr(Rows, "integer_rows", lambda rows: held.append(0) or right(rows))
    watched = Watched(table(case.enough))
    case.release(watched.rows(), watched.entropy())
    assert watched.events.count("read") == case.mechanism.passes
    assert bool(held) == getattr(MECHANISMS[case.name], "holds_rows", False)
