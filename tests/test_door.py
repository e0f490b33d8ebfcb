"""The door's rule: a unit's image depends on nothing else, and no cell changes the outcome.

A fast selection of `make trust`, without servers; `trust/door.py` says what each part shows.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcov.rows import sources

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "trust"), str(ROOT / "benchmarks")]
import door_controls  # noqa: E402 (no package)
import door_persons  # noqa: E402
import door_tables  # noqa: E402
from door_company import Effort, judged  # noqa: E402
from door_neighbours import Pairs, in_fits, in_process, on_the_command_line  # noqa: E402
from door_roles import ROLES  # noqa: E402
from doors import Doors, doors, local  # noqa: E402
from identity import identity  # noqa: E402
from outcomes import Book  # noqa: E402

LOCAL = tuple(door.name for door in local(Path()))
SERVERS = {"postgresql", "spark"}


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Doors]:
    with doors(tmp_path_factory.mktemp("doors"), servers=False) as found:
        yield found


def test_every_source_has_a_door_that_is_tried():
    texts = (path.read_text() for path in Path(sources.__file__).parent.glob("*.py"))
    told = map(str.lower, re.findall(r'^    door = "(.*)"$', "".join(texts), re.M))
    assert {word for word in told if word not in " ".join(LOCAL).lower()} == SERVERS


@pytest.mark.parametrize("name", LOCAL)
def test_a_units_image_is_the_same_alone_and_in_company(opened, name):
    door, turn = opened.found[name], LOCAL.index(name)
    effort = Effort(1 if door.costly else 2, ROLES[turn % 5 :: 5], 1)
    found = [judged(door, kind, effort) for kind in effort.of_types(door)]
    assert sum(len(one.combinations) for one in found) > 1
    assert [line for one in found for line in one.differences] == []


@pytest.mark.parametrize(
    "name", ["CSV", "Parquet", "lists", "NumPy", "SQLite", "Excel", "Stata", "SPSS"]
)
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


@pytest.mark.parametrize("name", [name for name in LOCAL if name not in door_persons.WITHOUT])
def test_every_spelling_of_an_id_is_one_person_and_no_two_ids_are(opened, name):
    door = opened.found[name]
    kinds = Effort(1, kinds=5 if door.costly else None).of_types(door)
    told = door_persons.told([replace(door, types={kind: door.types[kind] for kind in kinds})])
    assert told.pairs > 100
    assert told.wrong == []


@pytest.mark.parametrize("name", [name for name in LOCAL if name in door_tables.FORMS])
def test_the_same_table_gives_the_same_integers_through_every_door(opened, name):
    found = door_tables.through(opened.found[name])
    assert found.tables == 2 * len(door_tables.ROLES)
    assert found.differences == []


def test_truth_values_that_pandas_wrote_to_sqlite_are_truth_values(tmp_path):
    assert door_tables.by_pandas(tmp_path).differences == []


def test_records_with_line_breaks_are_the_rows_of_the_same_table_in_parquet(tmp_path):
    assert door_tables.with_line_breaks(tmp_path) == []


def test_control_the_harness_finds_every_fault_that_the_door_had(opened, tmp_path):
    found = door_controls.figures(opened, tmp_path)
    assert [figure for figure in found if not figure.ok] == []
    assert int(found[0].found) >= 30


@pytest.mark.parametrize(
    ("declared", "same", "other"),
    [
        ("integer", ["7", 7, 7.0, "+07.00", "70e-1", b"7"], "70"),
        ("decimal", ["0.1", 0.1, ".10", "1e-1"], "0.01"),
        ("uuid", ["0" * 31 + "7", "{" + "0" * 31 + "7}"], "0" * 31 + "8"),
        ("bytes", ["a"], "a "),
    ],
)
def test_the_oracle_of_ids_says_what_it_must(declared, same, other):
    missing = ("", "NA")
    assert len({identity(one, declared, missing) for one in same}) == 1
    assert identity(other, declared, missing) not in (None, identity(same[0], declared, missing))
    assert identity("NA", declared, missing) is None


@pytest.mark.parametrize("declared", ["integer", "decimal", "uuid", "text", "bytes"])
@pytest.mark.parametrize(
    "cell", [2.0**53 + 2, 1e20, 1.1111111111111111e31, np.float32(2**24 + 2), np.float16(2**11 + 2)]
)
def test_to_the_oracle_a_float_that_may_be_several_integers_is_nobody(declared, cell):
    assert identity(cell, declared, ()) is None
    for sure in (2.0**53, np.float32(2**24), np.float16(2**11)):
        assert identity(sure, "integer", ()) == identity(int(sure), "integer", ()) is not None
