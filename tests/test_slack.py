"""The rounds of the default spend what it states: dp-accounting composes them, from their noise."""

from fractions import Fraction

import pytest

import slack
from dpcov.core.privacy import ZCDP, ApproxDP, Neighbors, PureDP
from dpcov.mechanisms.choice import choose
from dpcov.rows.moment import Lattice
from ledger_mixes import parts

BUDGETS = [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)]
COLUMNS = 5
GRID = 2e-4  # coarser than in the benchmark, which takes minutes


def drawn(budget, relation):
    """Return the parts of the branch with a directions query, and the stated budget."""
    declared = slack.schema(COLUMNS)
    laws = choose(declared, budget, relation).laws
    return list(parts(laws, Lattice.of(declared))), laws.guarantee.budget


def is_within(found, stated):
    return slack.within(*slack.ratios(found, stated, GRID), stated, GRID)


@pytest.mark.parametrize("relation", Neighbors)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_the_rounds_spend_what_is_stated(budget, relation):
    found, stated = drawn(budget, relation)
    assert type(stated) is type(budget)
    assert is_within(found, stated)


@pytest.mark.parametrize("change", [Fraction(98, 100), Fraction(102, 100)])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_control_a_change_of_two_percent_is_noticed(budget, change):
    found, stated = drawn(budget, Neighbors.ADD_REMOVE)
    changed = [
        one._replace(absolute=one.absolute * change, squared=one.squared * change**2)
        for one in found
    ]
    assert not is_within(changed, stated)
