"""The rule of readers: a unit's sums depend on nothing else, and no cell changes the outcome.

A fast selection of `make trust`, without servers. `trust/sources_attack.py` describes the parts.
"""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

import sources_controls
from dpcov.rows import sources
from outcomes import Book
from sources import local
from sources_independence import Effort, compared_alone
from sources_neighbours import Pairs, in_fits, in_process, on_the_command_line
from sources_roles import ROLES

OLD_FORMATS = ("Stata 105", "Stata 117")  # of which tests/test_stata.py edits each kind of cell
LOCAL = tuple(source.name for source in local(Path()) if source.name not in OLD_FORMATS)
SERVERS = {"postgresql", "spark"}


def test_every_class_of_sources_has_a_tried_data_source():
    texts = (path.read_text() for path in Path(sources.__file__).parent.glob("*.py"))
    reported = map(str.lower, re.findall(r'^    kind = "(.*)"$', "".join(texts), re.M))
    assert {word for word in reported if word not in " ".join(LOCAL).lower()} == SERVERS


# The same sources as in `test_neighbours_that_differ_in_one_cell_or_row_end_in_the_same_way`.
FAST = ("CSV", "Parquet", "lists", "NumPy", "SQLite", "Excel", "Stata", "SPSS")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in LOCAL]
)
def test_a_units_image_is_the_same_alone_and_in_company(opened, name):
    source, turn = opened.found[name], LOCAL.index(name)
    effort = Effort(1 if source.costly else 2, ROLES[turn % 5 :: 5], 1)
    found = [compared_alone(source, kind, effort) for kind in effort.of_types(source)]
    assert sum(len(one.combinations) for one in found) > 1
    assert [line for one in found for line in one.differences] == []


@pytest.mark.parametrize("name", FAST)
def test_neighbours_that_differ_in_one_cell_or_row_end_in_the_same_way(opened, tmp_path, name):
    pairs, turn = Pairs(), itertools.count(LOCAL.index(name))
    effort = Effort(2, ROLES[LOCAL.index(name) % 3 :: 3], 1)
    in_process(opened.found[name], effort, pairs, Book(tmp_path), turn)
    assert sum(pairs.count.values()) > 5
    assert pairs.differences == []


@pytest.mark.parametrize("name", [name for name in LOCAL if name.startswith("estimators")])
def test_neighbours_end_in_the_same_way_in_a_fit(opened, tmp_path, name):
    pairs = Pairs()
    in_fits(opened.found[name], Effort(4), pairs, Book(tmp_path))
    assert sum(pairs.count.values()) > 8
    assert pairs.differences == []


@pytest.mark.parametrize("name", ["CSV", "Parquet"])
def test_neighbours_end_in_the_same_way_on_the_command_line(opened, tmp_path, name):
    pairs = Pairs()
    on_the_command_line(opened.found[name], Effort(1, ROLES[::4], 1), pairs, Book(tmp_path))
    assert sum(pairs.count.values()) > 5
    assert pairs.differences == []


def test_control_the_attack_finds_every_fault_that_the_readers_had(opened, tmp_path):
    found = sources_controls.figures(opened, tmp_path)
    assert [figure for figure in found if not figure.ok] == []
    assert int(found[0].found) >= 30
