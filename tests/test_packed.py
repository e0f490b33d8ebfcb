"""What a cluster's tasks do: packed sums that add up, errors that stay inside."""

import ast
import inspect
import pickle
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcov.errors import SourceError
from dpcov.mechanisms import MECHANISMS
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Accumulator
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows, packed, spark
from dpcov.rows.sources.level import Level
from dpcov.rows.sources.packed import FAILED_PART, Query
from dpcov.rows.sources.rows import NormCounter
from strategies import categorical, lattice_of, numeric, schema_of
from tables_for_tests import PLANTED, mixed_table

MIXED = Schema.parse(
    {
        "columns": {
            "a": numeric(0, 10, missing="level"),
            "b": numeric(-1, 1),
            "c": categorical("x", "y", other=True, missing="level"),
        }
    }
)
PERSONS = schema_of("a", "b", unit={"column": "id", "type": "integer", "max_rows": 2})


def query_of(schema: Schema, **fields) -> Query:
    lattice = lattice_of(schema)
    sums = partial(Accumulator, lattice.dimension, lattice.intercept_parts[0])
    return Query(schema, schema.needed, Encoder(schema, lattice), sums, **fields)


def answered(query: Query, tasks: list[list[pa.RecordBatch]]) -> list[tuple[np.ndarray, int]]:
    """Sum the packed sums of tasks, merged in pairs."""
    found = {}
    for at in range(0, len(tasks), 2):
        for batch in packed.merged(b for task in tasks[at : at + 2] for b in task):
            for row in batch.to_pylist():
                packed.add_part(found, row["part"], row["units"], row["integers"])
    return [(total.total(), count) for total, count in packed.unpacked(query, found)]


def tasks_of(query: Query, table: pa.Table, cuts: list[int]) -> list[list[pa.RecordBatch]]:
    ends = [0, *sorted(cuts), table.num_rows]
    return [
        list(pickle.loads(pickle.dumps(partial(packed.sums_of_rows, query)))(part.to_batches(77)))
        for part in (table.slice(a, b - a) for a, b in pairwise(ends))
    ]


def placed(ranked: list[pa.RecordBatch], cap: int) -> pa.RecordBatch:
    """Return what Spark's window keeps: each person's first rows in order of rank and image."""
    rows = pa.Table.from_batches(ranked, packed.ROWS_SCHEMA).to_pylist()
    rows.sort(key=lambda row: (row["id"], row["rank"], row["integers"]))
    kept, before, place = [], None, 0
    for row in rows:
        place = place + 1 if row["id"] == before else 1
        before = row["id"]
        kept += [row | {"place": place}] if place <= cap else []
    fields = [*packed.ROWS_SCHEMA, pa.field("place", pa.int32())]
    return pa.RecordBatch.from_pylist(kept, pa.schema(fields))


@given(st.lists(st.integers(0, 300), max_size=4), st.integers(0, 9))
def test_packed_sums_of_any_parts_are_the_moment_of_the_whole(cuts, seed):
    table, query = mixed_table(MIXED, 300, seed), query_of(MIXED)
    ((units, count),) = answered(query, tasks_of(query, table, cuts))
    whole = open_rows(table, MIXED).second_moments()[0]
    assert (units == whole.units).all()
    assert count == whole.unit_count == 300


def test_a_sum_wider_than_one_part_is_put_together_again():
    schema = schema_of(*(f"x{j}" for j in range(60)))
    query = query_of(schema)
    assert len(query.empty().packed()) > packed.PART_INTEGERS
    table = pa.table(np.random.default_rng(0).uniform(0, 10, (60, 500)).tolist(), schema.needed)
    ((units, count),) = answered(query, tasks_of(query, table, [100, 101, 400]))
    assert count == 500
    assert (units == open_rows(table, schema).second_moments()[0].units).all()


def test_sums_of_very_many_parts_do_not_overflow():
    one = Accumulator(2)
    one.add(np.full((2, 4096), 2.0**20) * [[1], [-1]])
    limbs, parts = one.packed(), 2**30
    total = Accumulator(2)
    total.add_packed(limbs * parts)
    assert total.total().tolist() == [
        [2**40 * 4096 * parts, -(2**40) * 4096 * parts],
        [-(2**40) * 4096 * parts, 2**40 * 4096 * parts],
    ]


def test_counts_of_norms_are_packed_too():
    limits = np.array([4.0, 9.0])
    one, other = NormCounter(limits, 2), NormCounter(limits, 2)
    one.add(np.array([[2.0, 3.0], [0.0, 1.0]]))
    other.add_packed(one.packed())
    other.add_packed(one.packed())
    assert other.total().tolist() == [2, 0, 2]


@given(st.integers(0, 20))
def test_persons_keep_the_rows_that_they_keep_in_one_table(seed):
    table, query = mixed_table(PERSONS, 200, seed), query_of(PERSONS)
    ranked = [
        batch
        for part in (table.slice(0, 90), table.slice(90))
        for batch in packed.integer_rows(query, part.to_batches())
    ]
    counted = placed(ranked, 2)
    tasks = [list(packed.sums_of_ranked(query, [counted.slice(0, 33), counted.slice(33)]))]
    ((units, count),) = answered(query, tasks)
    whole = open_rows(table, PERSONS).second_moments()[0]
    assert (units == whole.units).all()
    assert count == whole.unit_count


def test_rows_without_id_have_no_image():
    ids = ["7", None, " ", "7.0 ", "x", "0.5", "70e-1"]
    table = pa.table({"a": [1.0] * 7, "b": [2.0] * 7, "id": ids})
    (found,) = packed.integer_rows(query_of(PERSONS), table.to_batches())
    assert found["id"].to_pylist() == [b"7", b"7", b"7"]


def test_each_person_is_in_one_group_and_each_row_in_any():
    table = mixed_table(PERSONS, 400)
    query = query_of(PERSONS, groups=3, key=b"k" * 32)
    counted = placed(list(packed.integer_rows(query, table.to_batches())), 2)
    halves = [list(packed.sums_of_ranked(query, [half])) for half in (counted[:201], counted[201:])]
    grouped = answered(query, halves)
    assert sum(count for _, count in grouped) == len(set(table["id"].to_pylist()))
    assert min(count for _, count in grouped) > 20
    by_person = packed._labels(query, counted["id"])
    labels = dict(zip(counted["id"].to_pylist(), by_person, strict=True))
    assert [labels[word] for word in counted["id"].to_pylist()] == by_person.tolist()
    other = packed._labels(query_of(PERSONS, groups=3, key=b"l" * 32), counted["id"])
    assert (other != by_person).any()
    rows = query_of(MIXED, groups=3)
    mixed = mixed_table(MIXED, 300)
    of_rows = answered(rows, tasks_of(rows, mixed, [100]))
    assert sum(count for _, count in of_rows) == 300
    assert min(count for _, count in of_rows) > 50
    whole = open_rows(mixed, MIXED).second_moments()[0]
    assert (sum(units for units, _ in of_rows) == whole.units).all()
    again = answered(rows, tasks_of(rows, mixed, [100]))
    assert any((one[0] != two[0]).any() for one, two in zip(of_rows, again, strict=True))


def test_only_rows_of_the_level_are_summed():
    schema = schema_of("a")
    column = MIXED.columns["c"]
    table = pa.table({"a": [1.0, 2.0, 3.0], "c": ["x", "y", "x"]})
    query = query_of(schema)
    level = Level("c", column, 0, ("",))
    query = Query(schema, ("a", "c"), query.encoder, query.empty, tests=(level,))
    ((units, count),) = answered(query, [list(packed.sums_of_rows(query, table.to_batches()))])
    expected = open_rows(table.take(pa.array([0, 2])), schema).second_moments()[0]
    assert (units == expected.units).all()
    assert count == 2


def failing():
    """Yield a batch, then raise an error and a warning that quote a cell."""
    yield mixed_table(PERSONS, 5).to_batches()[0]
    raise ValueError(PLANTED)


@pytest.mark.parametrize("task", ["sums_of_rows", "integer_rows", "sums_of_ranked"])
def test_an_error_in_a_task_comes_back_as_a_fixed_batch(task, capfd):
    *_, last = list(getattr(packed, task)(query_of(PERSONS), failing()))
    assert PLANTED not in str(last.to_pylist())
    assert PLANTED not in "".join(capfd.readouterr())
    if task == "integer_rows":
        assert last["integers"].null_count == 1
        marked = last.append_column("place", pa.array([1], pa.int32()))
        (last,) = packed.sums_of_ranked(query_of(PERSONS), [marked])
    (merged,) = packed.merged([last])
    assert merged["part"].to_pylist() == [FAILED_PART]
    with pytest.raises(SourceError) as reported:
        packed.add_part({}, FAILED_PART, 0, b"")
    assert PLANTED not in str(reported.value)


def test_mechanisms_that_hold_rows_say_so():
    for name, mechanism in MECHANISMS.items():
        text = Path(inspect.getfile(mechanism)).read_text()
        assert getattr(mechanism, "holds_rows", False) == ("integer_rows(" in text), name


def test_spark_is_asked_through_data_frames_alone():
    tree = ast.parse(Path(spark.__file__).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    private = {"rdd", "sparkContext", "foreach", "foreachPartition", "toLocalIterator"}
    assert not used & private
    # Java is asked one thing, and only where a session has it: whether a query is deterministic.
    of_java = {name for name in used if name.startswith(("_j", "_sc"))}
    assert of_java == {"_jdf"}
    (asks,) = [node for node in tree.body if "_jdf" in ast.unparse(node)]
    assert getattr(asks, "name", "") == "_is_deterministic"
    imported = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    assert "pyspark" not in ast.unparse(ast.Module(imported, []))
