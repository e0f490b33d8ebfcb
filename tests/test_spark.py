"""A Spark data frame gives the release of the same rows in one table, to the last bit.

One local session for the whole file; each job costs a second, so that all is marked slow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import dpcov
from dpcov.api import prepare
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy
from dpcov.core.privacy import ApproxDP, PureDP
from dpcov.errors import MechanismError, SchemaError, SourceError
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Accumulator
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources import spark as spark_module
from dpcov.rows.sources.rows import UNREADABLE_DATA
from spark_session import ENVIRONMENT, spark_session
from strategies import categorical, lattice_of, numeric, same, schema_of
from tables_for_tests import PLANTED, assert_same_elsewhere, mixed_table, write_people

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
]

PLAIN = schema_of("a", "b", "c", lower=-5.0, upper=5.0)
MIXED = Schema.parse(
    {
        "columns": {
            "a": numeric(0, 10, missing="level"),
            "b": numeric(-1, 1),
            "c": categorical("x", "y", "odd", missing="level"),
            "d": categorical(0, 1, other=True),
        },
        "missing": ["", "NA"],
    }
)
PERSONS = schema_of("a", "b", unit={"column": "id", "type": "integer", "max_rows": 2}, radius=1.2)
WEIGHTED = schema_of("a", "b", weight={"column": "c", "maximum": 9.0})
ROWS = 700
NUMBERS = count()
CASES = {
    "plain": (PLAIN, {"epsilon": 1.0}),
    "categories and missing": (MIXED, {"epsilon": 1.0}),
    "persons": (PERSONS, {"rho": 0.5}),
    "private radius": (MIXED, {"rho": 0.5, "radius": "private", "mechanism": "gaussian"}),
    "weights": (WEIGHTED, {"epsilon": 1.0}),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[SimpleNamespace]:
    """Start a local session, with a file for the output of Spark and its workers."""
    folder = tmp_path_factory.mktemp("spark")
    with spark_session(folder, cores=2, sql_shuffle_partitions=4) as session:
        yield SimpleNamespace(session=session, log=folder / "log.txt", folder=folder)


def frame(cluster: SimpleNamespace, table: pa.Table, partitions: int = 2):
    path = cluster.folder / f"{next(NUMBERS)}.parquet"
    pq.write_table(table, path)
    return cluster.session.read.parquet(str(path)).repartition(partitions)


def table_for(schema: Schema, rows: int = ROWS) -> pa.Table:
    table = mixed_table(schema, rows)
    if schema.weight is not None:
        weights = np.random.default_rng(1).uniform(-1, 12, rows)
        table = table.append_column(schema.weight.column, pa.array(weights))
    return table


@pytest.mark.parametrize("partitions", [1, 2, 4])
@pytest.mark.parametrize("case", CASES)
def test_a_release_is_that_of_the_same_rows_in_one_table(cluster, case, partitions):
    schema, asked = CASES[case]
    table = table_for(schema)
    rows = frame(cluster, table, partitions)
    found = dpcov.release(rows, schema=schema, seed=5, **asked)
    assert_same_elsewhere(found, dpcov.release(table, schema=schema, seed=5, **asked))


def test_dates_are_those_of_the_same_rows_in_one_table(cluster):
    rng = np.random.default_rng(3)
    days = (np.datetime64("1890-01-01") + rng.integers(0, 55_000, ROWS)).astype("datetime64[D]")
    times = np.datetime64("1999-06-01T00:00:00.000000") + rng.integers(0, 10**15, ROWS)
    zoned = pa.array(np.roll(times, 3)).cast(pa.timestamp("us", "America/New_York"))
    table = pa.table({"born": pa.array(days, mask=days > days[5]), "seen": times, "kept": zoned})
    bounds = {"lower": "1900-01-01", "upper": "2020-12-31"}
    columns = {name: {"kind": "time", **bounds} for name in table.column_names}
    columns["born"]["kind"] = "date"
    schema = Schema.parse({"version": 2, "columns": columns, "derived": {}})
    found = dpcov.release(frame(cluster, table), schema=schema, seed=5, epsilon=1.0)
    assert_same_elsewhere(found, dpcov.release(table, schema=schema, seed=5, epsilon=1.0))


EXAMPLE = """from pyspark.sql import SparkSession

import dpcov

spark = SparkSession.builder.remote("sc://cluster.example").getOrCreate()  # or a classic session
people = spark.read.parquet("s3://clinic/people")
release = dpcov.release(
    people, schema="people.toml", epsilon=1.0, ledger="clinic.ledger", dataset="people"
)
"""


def test_the_worked_example_runs(cluster, tmp_path, monkeypatch):
    example = EXAMPLE
    link = 'SparkSession.builder.remote("sc://cluster.example").getOrCreate()'
    assert link in example
    assert "s3://clinic/people" in example
    monkeypatch.chdir(tmp_path)
    table, _ = write_people(tmp_path)
    pq.write_table(csv.read_csv(table), "people.parquet")
    ledger = Ledger.create("clinic.ledger", PureDP(1.0), dataset="people")
    variables = {"SPARK": cluster.session}
    local = example.replace(link, "SPARK").replace(
        "s3://clinic/people", f"{tmp_path}/people.parquet"
    )
    exec(local, variables)  # noqa: S102  the example above
    assert abs(variables["release"].count() - 400) < 200
    assert len(ledger.account().entries) == 1


def test_maps_norms_and_pilot_queries_are_those_of_one_table(cluster):
    table = table_for(PLAIN)
    asked = {"schema": PLAIN, "rho": 1.0, "mechanism": "heavy-tailed", "seed": 4}
    found = dpcov.release(frame(cluster, table), **asked)
    assert_same_elsewhere(found, dpcov.release(table, **asked))


def test_counts_of_norms_are_those_of_one_table_for_persons_too(cluster):
    table = table_for(PERSONS)
    counts = [
        open_rows(data, PERSONS).norm_counts([0.3, 0.7, 1.0])
        for data in (frame(cluster, table), table)
    ]
    assert counts[0].tolist() == counts[1].tolist()
    assert counts[0].all()


@pytest.mark.parametrize("schema", [PLAIN, PERSONS], ids=["rows", "persons"])
def test_groups_share_the_units_and_add_up(cluster, schema):
    table = table_for(schema)
    rows = open_rows(frame(cluster, table), schema)
    groups = rows.second_moments(groups=3, labels=Entropy.seeded(1))
    whole = open_rows(table, schema).second_moments()[0]
    assert (sum(group.units for group in groups) == whole.units).all()
    assert sum(group.unit_count for group in groups) == whole.unit_count
    assert min(group.unit_count for group in groups) > whole.unit_count / 5


def test_all_that_a_task_sent_is_added_by_one_other(cluster, monkeypatch):
    """A task that runs again draws other groups. It then replaces all of its sums or none."""
    sums = cluster.session.range(0, 60, 1, 6).selectExpr(
        "id AS part", "cast(spark_partition_id() AS bigint) AS units", "binary('') AS integers"
    )

    def senders(batches):
        found = {sender for batch in batches for sender in batch.column("units").to_pylist()}
        yield pa.record_batch([sorted(found)], names=["sender"])

    received = []
    monkeypatch.setattr(spark_module, "_map_batches", lambda frame, *_: received.append(frame))
    spark_module.merged_sums(sums)
    monkeypatch.undo()
    found = [row.sender for row in received[0].mapInArrow(senders, "sender bigint").collect()]
    assert sorted(found) == list(range(6))
    assert received[0].columns == sums.columns


def test_a_release_for_each_level_is_that_of_one_table(cluster):
    table = table_for(MIXED)
    asked = {"schema": MIXED, "epsilon": 1.0, "seed": 2}
    found = dpcov.release_by(frame(cluster, table), "d", **asked)
    expected = dpcov.release_by(table, "d", **asked)
    assert found.keys() == expected.keys()
    for level, one in found.items():
        assert_same_elsewhere(one, expected[level])


def test_columns_are_found_whatever_their_names(cluster):
    names = ["a.b", "`c`", "count(1)", "x", "X"]
    schema = schema_of(*names[:4])
    table = pa.table(np.random.default_rng(0).uniform(0, 10, (5, 50)).tolist(), names)
    rows = frame(cluster, table.rename_columns([f"n{j}" for j in range(5)])).toDF(*names)
    found = open_rows(rows, schema).second_moments()[0]
    assert same(found, open_rows(table, schema).second_moments()[0])


def test_bounds_alone_serve_and_an_empty_frame_is_released(cluster):
    rows = frame(cluster, table_for(PLAIN)).where("a > 1e9")
    made = dpcov.release(rows, lower=-5, upper=5, epsilon=1.0)
    assert abs(made.count()) < 300
    assert open_rows(rows, PLAIN).second_moments()[0].unit_count == 0


def test_what_can_not_be_released_is_refused_before_anything_is_booked(cluster, tmp_path):
    table = table_for(PLAIN)
    rows = frame(cluster, table)
    ledger = Ledger.create(tmp_path / "l.ledger", ApproxDP(9.0, 1e-5), count="sums")
    for mechanism in ("stable-covariance", "whitened"):
        with pytest.raises(MechanismError, match="needs all rows in memory"):
            dpcov.release(
                rows, schema=PLAIN, epsilon=1.0, delta=1e-6, mechanism=mechanism, ledger=ledger
            )
    stream = cluster.session.readStream.format("rate").load()
    with pytest.raises(SourceError, match="streaming"):
        dpcov.release(stream, lower=0, upper=1, epsilon=1.0, ledger=ledger)
    with pytest.raises(SourceError, match="no column 'z'"):
        prepare(rows, Request(schema=schema_of("z"), epsilon=1.0))
    dates = rows.selectExpr("cast(a as timestamp) as a")
    with pytest.raises(SourceError, match="timestamp"):
        prepare(dates, Request(schema=schema_of("a"), epsilon=1.0))
    with pytest.raises(SchemaError):
        prepare(rows, Request(epsilon=1.0))
    with pytest.raises(MechanismError, match="in memory"):
        open_rows(rows, PLAIN).integer_rows()
    assert ledger.account().entries == ()


def test_workers_without_this_dpcov_are_refused_before_anything_is_booked(cluster, monkeypatch):
    monkeypatch.setattr(spark_module, "version", lambda _: "0.0.0")
    with pytest.raises(SourceError, match="cannot run this version"):
        open_rows(frame(cluster, table_for(PLAIN)), PLAIN)


CHANGING = {
    "rand": lambda rows: rows.selectExpr("a", "b", "rand(1) AS c"),
    "sample": lambda rows: rows.sample(0.5, 1),
    "numbers": lambda rows: rows.selectExpr("a", "b", "monotonically_increasing_id() * 1e-9 AS c"),
    "shuffle": lambda rows: rows.selectExpr("a", "b", "shuffle(array(b, c))[0] AS c"),
    "in a condition": lambda rows: rows.where("rand() < 0.5"),
    "behind more": lambda rows: rows.selectExpr("a", "b", "rand(1) AS r").selectExpr(
        "a", "b", "r * 2 AS c"
    ),
}


def refuse_changing(rows, ledger) -> None:
    """Check that a query that draws or counts is refused, and that a similar query is not."""
    for name, changed in CHANGING.items():
        with pytest.raises(SourceError, match="uses random numbers or row numbers"):
            dpcov.release(changed(rows), schema=PLAIN, epsilon=1.0, ledger=ledger)
        assert ledger.account().entries == (), name
    many = ", ".join(f"a + {k} AS x{k}" for k in range(60))
    wide = rows.selectExpr("a", "b", *many.split(", "), "rand() AS c")
    with pytest.raises(SourceError, match="uses random numbers or row numbers"):
        open_rows(wide, PLAIN)
    open_rows(rows.selectExpr("a", "b", "c", "a AS rand", "b AS Sample", "c AS uuid"), PLAIN)


def test_a_frame_whose_rows_depend_on_others_is_refused_before_anything_is_booked(
    cluster, tmp_path
):
    ledger = Ledger.create(tmp_path / "l.ledger", PureDP(9.0))
    refuse_changing(frame(cluster, table_for(PLAIN)), ledger)


def test_spellings_of_an_id_are_one_person(cluster):
    ids = ["7", "7.0", " 7 ", "+7", "70e-1", "8", "x", "", None, "9" * 40]
    numbers = np.random.default_rng(3).uniform(0, 10, (2, len(ids)))
    table = pa.table({"a": numbers[0], "b": numbers[1], "id": ids})
    found, expected = (
        open_rows(data, PERSONS).second_moments()[0] for data in (frame(cluster, table, 3), table)
    )
    assert same(found, expected)
    assert found.unit_count == 3


class Exploding(Encoder):
    """Fails on the workers with a message, and a warning, that quote the data."""

    def block(self, encoded, scratch):
        import warnings

        warnings.warn(f"{PLANTED} {encoded.numbers}", stacklevel=1)
        raise ValueError(f"{PLANTED} {encoded.numbers}")


@pytest.mark.parametrize("schema", [PLAIN, PERSONS], ids=["rows", "persons"])
def test_an_error_on_a_worker_reveals_nothing(cluster, schema, capfd):
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        rows = open_rows(frame(cluster, table_for(schema)), schema)
        lattice = lattice_of(schema)
        with pytest.raises(SourceError) as reported:
            rows._sums(Exploding(schema, lattice), lambda: Accumulator(lattice.dimension))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert str(reported.value) == UNREADABLE_DATA
    assert reported.value.__cause__ is None
    assert reported.value.__context__ is None
    assert PLANTED not in cluster.log.read_text() + "".join(capfd.readouterr())


def test_an_error_of_the_query_itself_reveals_nothing_in_its_message(cluster):
    rows = frame(cluster, table_for(PLAIN))
    failing = rows.selectExpr("a", "b", f"raise_error(concat('{PLANTED}', a)) as c")
    typed = failing.selectExpr("a", "b", "cast(c as double) as c")
    with pytest.raises(SourceError) as reported:
        dpcov.release(typed, schema=PLAIN, epsilon=1.0)
    assert str(reported.value) == UNREADABLE_DATA
    assert reported.value.__context__ is None


CONNECT = """
import sys
import dpcov, pyarrow.parquet as pq
from pyspark.sql import SparkSession
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from test_spark import PERSONS, PLAIN, refuse_changing, table_for

builder = SparkSession.builder.remote("local[2]").config("spark.ui.enabled", "false")
session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
assert "connect" in type(session).__module__
for schema in (PLAIN, PERSONS):
    table = table_for(schema)
    pq.write_table(table, sys.argv[1])
    rows = session.read.parquet(sys.argv[1]).repartition(3)
    found, expected = (
        dpcov.release(data, schema=schema, rho=0.5, seed=1, radius="private", mechanism="gaussian")
        for data in (rows, table)
    )
    assert (found.published == expected.published).all()
refuse_changing(session.read.parquet(sys.argv[2]), Ledger.create(sys.argv[3], PureDP(9.0)))
print("the same")
session.stop()
"""


def test_spark_connect_gives_the_same_release(tmp_path):
    for needed in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(needed, reason="Spark Connect's client is not installed")
    paths = [ENVIRONMENT["PYTHONPATH"], str(Path(__file__).parent)]
    variables = {**os.environ, **ENVIRONMENT, "PYTHONPATH": os.pathsep.join(paths)}
    pq.write_table(table_for(PLAIN), tmp_path / "plain.parquet")
    files = [str(tmp_path / name) for name in ("t.parquet", "plain.parquet", "l.ledger")]
    command = [sys.executable, "-W", "ignore", "-c", CONNECT, *files]
    done = subprocess.run(
        command, env=variables, cwd=tmp_path, capture_output=True, text=True, timeout=280
    )
    assert "the same" in done.stdout, done.stderr[-3000:]
