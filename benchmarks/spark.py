"""Measure the bytes, tasks and CPU time of one pass of Spark (`make bench NAME=spark`).

The session is local, with two cores. The cost model is for n rows of p columns of float64, and d
features (with the indicators of categories and the intercept). A task reads s bytes:

- Spark reads 8 n p bytes, in T = 8 n p / s tasks.
- A task sends one packed sum of 8 d (d + 1) bytes, so the shuffle moves 8 d (d + 1) T bytes.
- The driver receives at most 8 sums.
- With persons, the shuffle also moves n rows of 4 d bytes, each with its id and about 30 bytes.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpcov
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Accumulator
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.packed import Query
from dpcov.rows.sources.spark import MERGE_TASKS, SparkRows, SparkSource, merged_sums, packed_sums
from results import Kept, show
from workloads import peak_mib

COLUMNS = 200
NAMES = tuple(f"x{j}" for j in range(COLUMNS))
SIZES = (20_000, 60_000, 180_000)
GROUP = 5_000  # rows in a row group of 8 MB
SPLIT = 2**24  # bytes that a task reads
LARGE = 1e10  # rows of the large example
LARGE_SPLIT = 2**27  # Spark's default
SUM_BYTES = 8 * (COLUMNS + 1) * (COLUMNS + 2)  # two limbs of 8 for each pair, and the intercept


def session() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(Path(dpcov.__file__).parents[1])
    os.environ["OMP_NUM_THREADS"] = "1"
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.files.maxPartitionBytes": str(SPLIT),
        "spark.sql.files.openCostInBytes": "0",
        "spark.sql.files.minPartitionNum": "1",
    }.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def cpu_seconds() -> float:
    """Return the CPU time of this process and its children: Spark and its workers."""
    parents, spent = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        parents[int(folder.name)] = int(fields[1])
        spent[int(folder.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    mine = {os.getpid()}
    while more := {process for process, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(spent[process] for process in mine)


def table(path: Path, rows: int) -> None:
    """Write numbers that Parquet cannot compress, as in the model."""
    generator = np.random.default_rng(rows)
    fields = pa.schema([(name, pa.float64()) for name in NAMES])
    with pq.ParquetWriter(path, fields, compression="none", use_dictionary=False) as writer:
        for _ in range(rows // GROUP):
            writer.write_table(pa.table(generator.random((COLUMNS, GROUP)).tolist(), fields))


def measured(spark: Any, path: Path, rows: int, schema: Schema) -> dict[str, Any]:
    frame = spark.read.parquet(str(path))
    seen = open_rows(frame, schema)
    assert isinstance(seen, SparkRows)
    started, before = time.perf_counter(), cpu_seconds()
    moment = seen.second_moments()[0].units
    wall, cpu = time.perf_counter() - started, cpu_seconds() - before
    local = open_rows(path, schema, threads=1)
    before_local = time.process_time()
    same = bool(np.array_equal(moment, local.second_moments()[0].units))
    local_cpu = time.process_time() - before_local

    lattice = seen.lattice()
    empty = partial(Accumulator, lattice.dimension)
    query = Query(schema, schema.needed, Encoder(schema, lattice), empty)
    source = open_source(frame, schema.file, ())
    assert isinstance(source, SparkSource)
    sent = packed_sums(query, source.columns(schema.needed)).persist()
    (shuffled,) = sent.selectExpr(
        "sum(length(integers)) AS bytes", "count_if(units > 0) AS tasks"
    ).collect()
    (driven,) = merged_sums(sent).selectExpr("sum(length(integers)) AS bytes").collect()
    sent.unpersist()
    return {
        "rows": rows,
        "input_mb": path.stat().st_size / 1e6,
        "tasks": shuffled.tasks,
        "sums_mb": shuffled.bytes / 1e6,
        "sums_mb_expected": shuffled.tasks * SUM_BYTES / 1e6,
        "to_driver_mb": driven.bytes / 1e6,
        "to_driver_mb_at_most": min(MERGE_TASKS, shuffled.tasks) * SUM_BYTES / 1e6,
        "wall_s": wall,
        "cpu_s": cpu,
        "cpu_us_per_row": cpu / rows * 1e6,
        "local_cpu_s": local_cpu,
        "driver_peak_mib": peak_mib(),
        "same_as_local": same,
    }


def fits(row: dict[str, Any]) -> bool:
    """Return True if the sums equal the local sums and have the predicted size."""
    bytes_fit = row["sums_mb"] == row["sums_mb_expected"]
    return row["same_as_local"] and bytes_fit and row["to_driver_mb"] <= row["to_driver_mb_at_most"]


def at_large(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Predict the figures for many rows, with the CPU time per row from the two largest sizes."""
    *_, fewer, more = rows
    per_row = (more["cpu_s"] - fewer["cpu_s"]) / (more["rows"] - fewer["rows"])
    size = LARGE * 8 * COLUMNS
    tasks = size / LARGE_SPLIT
    return {
        "rows": LARGE,
        "columns": COLUMNS,
        "input_tb": size / 1e12,
        "tasks": tasks,
        "sums_gb": tasks * SUM_BYTES / 1e9,
        "sums_share_of_input": SUM_BYTES / LARGE_SPLIT,
        "to_driver_mb": MERGE_TASKS * SUM_BYTES / 1e6,
        "cpu_us_per_row": per_row * 1e6,
        "core_hours": per_row * LARGE / 3600,
    }


def main() -> None:
    schema = Schema.from_bounds(0, 1, NAMES)
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    kept = Kept("spark.json", "make bench NAME=spark")

    def passes(folder: str) -> Iterator[Any]:
        for warm_up, size in ((True, SIZES[0]), *((False, size) for size in SIZES)):
            path = Path(folder) / f"{size}.parquet"
            if not path.exists():
                table(path, size)
            found = measured(spark, path, size, schema)
            if not warm_up:
                yield found

    with tempfile.TemporaryDirectory(prefix="dpcov-spark-") as folder:
        kept.part("passes", lambda: passes(folder))
    spark.stop()
    rows = list(kept.rows)
    show(f"One pass over {COLUMNS} columns in local Spark, two cores", rows)
    kept.part("the cost model", lambda: [at_large(rows)])
    show("The cost model", kept.rows[len(rows) :])
    if not (kept.done() and all(fits(row) for row in rows)):
        sys.exit("the sums differ from the local ones, or the bytes from the model")


if __name__ == "__main__":
    main()
