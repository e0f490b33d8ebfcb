"""Every reader gives the same result: persons by their ids, and integers of one table.

A fast selection of `make trust`, without servers. `trust/sources_attack.py` describes the parts.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sources_persons
import sources_tables
from identity import identity
from sources import local
from sources_independence import Effort

LOCAL = tuple(source.name for source in local(Path()))


@pytest.mark.parametrize("name", [name for name in LOCAL if name not in sources_persons.WITHOUT])
def test_every_spelling_of_an_id_is_one_person_and_no_two_ids_are(opened, name):
    source = opened.found[name]
    kinds = Effort(1, kinds=5 if source.costly else None).of_types(source)
    compared = sources_persons.compared(
        [replace(source, types={kind: source.types[kind] for kind in kinds})]
    )
    assert compared.pairs > 100
    assert compared.wrong == []


@pytest.mark.parametrize("name", [name for name in LOCAL if name in sources_tables.FORMS])
def test_the_same_table_gives_the_same_integers_in_every_source(opened, name):
    found = sources_tables.through(opened.found[name])
    assert found.tables == 2 * len(sources_tables.ROLES)
    assert found.differences == []


def test_truth_values_that_pandas_wrote_to_sqlite_are_truth_values(tmp_path):
    assert sources_tables.by_pandas(tmp_path).differences == []


def test_records_with_line_breaks_are_the_rows_of_the_same_table_in_parquet(tmp_path):
    assert sources_tables.with_line_breaks(tmp_path) == []


@pytest.mark.parametrize(
    ("declared", "same", "other"),
    [
        ("integer", ["7", 7, 7.0, "+07.00", "70e-1", b"7"], "70"),
        ("decimal", ["0.1", 0.1, ".10", "1e-1"], "0.01"),
        ("uuid", ["0" * 31 + "7", "{" + "0" * 31 + "7}"], "0" * 31 + "8"),
        ("bytes", ["a"], "a "),
    ],
)
def test_the_reference_of_ids_says_what_it_must(declared, same, other):
    missing = ("", "NA")
    assert len({identity(one, declared, missing) for one in same}) == 1
    assert identity(other, declared, missing) not in (None, identity(same[0], declared, missing))
    assert identity("NA", declared, missing) is None


@pytest.mark.parametrize("declared", ["integer", "decimal", "uuid", "text", "bytes"])
@pytest.mark.parametrize(
    "cell", [2.0**53 + 2, 1e20, 1.1111111111111111e31, np.float32(2**24 + 2), np.float16(2**11 + 2)]
)
def test_to_the_reference_a_float_that_can_be_several_integers_is_nobody(declared, cell):
    assert identity(cell, declared, ()) is None
    for sure in (2.0**53, np.float32(2**24), np.float16(2**11)):
        assert identity(sure, "integer", ()) == identity(int(sure), "integer", ()) is not None
