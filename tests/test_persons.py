"""Persons as the unit: the cap, and a choice of rows that depends on one person alone."""

from itertools import permutations

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.core.entropy import Entropy
from dpcov.rows.sources import open_rows
from strategies import encode, file_moment, gram, invalid_utf8, moment, row_between, same, schema_of

CAP = 2


def unit_schema(cap: int = CAP, of: str = "text", **fields):
    return schema_of("a", "b", unit={"column": "id", "type": of, "max_rows": cap}, **fields)


SCHEMA = unit_schema()
ROWS = schema_of("a", "b")
CELLS = st.floats(0, 10) | st.integers(0, 3).map(float)
PEOPLE = st.lists(st.tuples(st.sampled_from(["x", "y", "z", None]), CELLS, CELLS), max_size=14)


TEXT = pa.string()


def table(rows, kind=TEXT) -> pa.Table:
    ids, a, b = zip(*rows, strict=True) if rows else ((), (), ())
    return pa.table(
        {"id": pa.array(ids, kind), "a": pa.array(a, pa.float64()), "b": pa.array(b, pa.float64())}
    )


def of(rows, person) -> list:
    return [row for row in rows if row[0] == person]


@given(PEOPLE, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(rows, random):
    shuffled = random.sample(rows, len(rows))
    assert same(moment(table(rows), SCHEMA), moment(table(shuffled), SCHEMA))


@pytest.mark.parametrize("cells", [(1.0, 2.0, 3.0), (0.0, 5.0, 10.0), (5.0, 0.0, 0.0)])
def test_rows_that_hold_the_same_cells_elsewhere_are_distinct(cells):
    schema = schema_of("a", "b", "c", unit={"column": "id", "type": "text", "max_rows": 1})
    rows, units = sorted(set(permutations(cells))), []
    for order in list(permutations(rows))[::5]:
        columns = [["x"] * len(rows), *map(list, zip(*order, strict=True))]
        found = moment(pa.table(columns, ["id", "a", "b", "c"]), schema)
        units.append(found.units.tolist())
    assert all(other == units[0] for other in units)


@given(PEOPLE)
def test_each_person_counts_alone_so_the_moment_is_the_sum_over_persons(rows):
    persons = {row[0] for row in rows} - {None}
    alone = [moment(table(of(rows, person)), SCHEMA) for person in persons]
    whole = moment(table(rows), SCHEMA)
    assert whole.unit_count == len(persons)
    assert (whole.units == sum((m.units for m in alone), 0 * whole.units)).all()


@given(st.lists(st.tuples(st.just("x"), CELLS, CELLS), max_size=8), st.integers(1, 5))
def test_a_person_counts_with_some_rows_and_at_most_the_cap(rows, cap):
    schema = unit_schema(cap)
    found = moment(table(rows), schema)
    t = found.lattice.intercept_units
    assert found.units[-1, -1] == min(cap, len(rows)) * t * t
    assert np.abs(np.linalg.eigvalsh(found.units.astype(float))).sum() <= found.lattice.nuclear(
        "add-remove"
    )
    if len(rows) <= cap:
        assert (found.units == gram(encode(table(rows), ROWS))).all()
    elif cap == 1:
        chosen = row_between(found, moment(table([]), schema))
        assert chosen in encode(table(rows), ROWS).astype(int).tolist()


def test_control_the_first_rows_in_file_order_would_depend_on_the_order():
    rows = [("x", float(i), 1.0) for i in range(6)]
    assert not same(moment(table(rows[:CAP]), ROWS), moment(table(rows[::-1][:CAP]), ROWS))
    assert same(moment(table(rows), SCHEMA), moment(table(rows[::-1]), SCHEMA))


def test_the_choice_holds_across_batches_and_threads(monkeypatch):
    rng = np.random.default_rng(9)
    rows = [(str(i), *rng.uniform(0, 10, 2)) for i in rng.integers(0, 300, 3000)]
    whole = moment(table(rows), SCHEMA)
    assert whole.units[-1, -1] == 300 * CAP * whole.lattice.intercept_units**2
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 60)
    assert same(moment(table(rows), SCHEMA, threads=4), whole)


@pytest.mark.parametrize(
    ("declared", "kind", "ids", "nobody"),
    [
        ("text", pa.string(), ["p", "q", " q"], [None, "", " ", "NA", "-999", "-999.0"]),
        ("text", pa.large_string(), ["p", "q"], [None, ""]),
        ("text", pa.string_view(), ["p", "q"], [None, "NA"]),
        ("text", pa.binary(), [b"p", b"\xff"], [None]),
        ("text", pa.binary_view(), [b"p", b"\xff"], [None]),
        ("integer", pa.int64(), [1, 2**62, 2**62 + 1], [None, -999]),
        ("integer", pa.uint64(), [1, 2**64 - 1, 2**64 - 2], [None]),
        ("integer", pa.float64(), [1.0, 2.0], [None, float("nan"), -999.0, 2.5, 1e300, -1e16]),
        ("integer", pa.decimal128(9, 2), [1, 2], [None, -999]),
        ("integer", pa.string(), ["1", "2"], [None, "", "NA", "-999.0", "x", "1.5", "1_0", "0x1"]),
        ("decimal", pa.float64(), [1.0, 2.5], [None, float("nan"), -999.0, float("inf"), 1e300]),
        ("decimal", pa.decimal128(9, 2), [1, 2], [None, -999]),
        ("uuid", pa.uuid(), [b"1" * 16, b"2" * 16], [None]),
        ("uuid", pa.binary(16), [b"1" * 16, b"2" * 16], [None]),
        ("uuid", pa.string(), ["0" * 32, "1" * 32], [None, "", "7", "0" * 31, "g" * 32]),
        ("text", pa.null(), [], [None]),
        ("integer", pa.null(), [], [None]),
    ],
    ids=str,
)
def test_ids_of_every_type_identify_persons_and_other_ids_count_for_nothing(
    declared, kind, ids, nobody
):
    schema = unit_schema(of=declared, missing=("", "NA", "-999"))
    rows = [(i, float(n), 1.0) for n, i in enumerate([*nobody, *ids, *nobody])]
    known = [row for row in rows if row[0] in ids]
    found = moment(table(rows, kind), schema)
    assert found.unit_count == len(ids)
    assert (found.units == gram(encode(table(known, kind), ROWS))).all()


def test_dictionary_ids_are_read():
    rows = [("x", 1.0, 2.0), ("y", 3.0, 4.0), (None, 5.0, 6.0), ("x", 1.0, 1.0)]
    coded = table(rows).set_column(0, "id", table(rows)["id"].dictionary_encode())
    assert same(moment(coded, SCHEMA), moment(table(rows), SCHEMA))


def test_ids_that_are_no_utf8_are_persons_too():
    numbers = [1.0, 2.0, 3.0]
    columns = [invalid_utf8([b"\xff", b"\xfe", b"\xff"]), numbers, numbers]
    found = moment(pa.table(columns, ["id", "a", "b"]), unit_schema(1))
    assert found.unit_count == 2


def test_records_of_a_text_file_that_break_its_grammar_belong_to_nobody(tmp_path):
    whole = file_moment(tmp_path / "f.csv", 'id,a,b\np,1,2\n"p,1,2\nq\n,3,4\n', SCHEMA)
    assert same(whole, moment(table([("p", 1.0, 2.0)]), SCHEMA))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rows", [[], [(None, 1.0, 2.0)]], ids=["no rows", "no ids"])
def test_a_table_without_persons_gives_zero(rows, groups):
    parts = open_rows(table(rows), SCHEMA).second_moments(groups=groups, labels=Entropy.system())
    assert not any(part.units.any() or part.unit_count for part in parts)


def test_groups_partition_persons_with_all_their_rows():
    rows = [(str(i % 200), float(i % 7), float(i % 5)) for i in range(1000)] + [(None, 1.0, 1.0)]
    schema = unit_schema(5)
    whole = moment(table(rows), schema)
    t = whole.lattice.intercept_units
    parts = open_rows(table(rows), schema).second_moments(groups=3, labels=Entropy.system())
    assert (sum(part.units for part in parts) == whole.units).all()
    assert sum(part.unit_count for part in parts) == whole.unit_count == 200
    assert all(part.units[-1, -1] == 5 * part.unit_count * t * t for part in parts)
    assert all(part.unit_count > 20 for part in parts)


class Changing:
    """A query that gives another table each time it is run."""

    def __init__(self, *tables: pa.Table) -> None:
        self.tables = list(tables)

    def __arrow_c_stream__(self, requested_schema=None):
        return self.tables.pop(0).__arrow_c_stream__(requested_schema)


ONE, TWO = ("x", 1.0, 2.0), ("y", 3.0, 4.0)


@pytest.mark.parametrize("questions", [1, 2])
@pytest.mark.parametrize("second", [[TWO, ONE, ONE], [ONE, ONE], []])
def test_a_table_that_would_differ_at_a_second_reading_is_not_seen_twice(second, questions):
    data = Changing(table([ONE, ONE, TWO]), table(second))
    rows = open_rows(data, SCHEMA)
    rows.require_rereadable()
    for _ in range(questions):
        assert same(rows.second_moments()[0], moment(table([ONE, ONE, TWO]), SCHEMA))
    assert len(data.tables) == 1


def test_a_stream_that_comes_once_answers_every_question():
    rows = [("x", float(i), 1.0) for i in range(9)] + [TWO]
    whole = moment(table(rows), SCHEMA)
    source = open_rows(table(rows).to_reader(max_chunksize=3), SCHEMA)
    assert all(same(source.second_moments()[0], whole) for _ in range(3))


def test_a_query_with_persons_is_read():
    rows = [("x", float(i), 1.0) for i in range(9)] + [TWO]
    relation = duckdb.connect().from_arrow(table(rows))
    assert same(moment(relation, SCHEMA), moment(table(rows), SCHEMA))


def test_ids_in_a_mixed_pandas_column_are_distinct():
    frame = pd.DataFrame({"id": [1, "1", "q", None], "a": 1.0, "b": 2.0})
    assert moment(frame, SCHEMA).unit_count == 2


@pytest.mark.parametrize("kind", [TEXT, pa.binary(), pa.dictionary(pa.int32(), TEXT)], ids=str)
def test_long_ids_that_differ_in_one_byte_are_distinct(kind):
    words = ["x" * n + end for n in (30, 31, 32, 33, 5000) for end in "ab"]
    found = moment(table([(word, 1.0, 2.0) for word in [*words, *words]], kind), unit_schema(1))
    assert found.unit_count == len(words)
