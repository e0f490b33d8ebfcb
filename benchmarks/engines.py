"""Which table engine? CPU and memory of streaming the same numbers out of CSV and Parquet.

Backs the choice in docs/dependencies.md: `make bench NAME=engines`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from results import Kept, show
from workloads import peak_mib

ROWS, COLUMNS, ROUNDS = 1_000_000, 20, 3


def write_tables(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    values = np.random.default_rng(0).standard_normal((COLUMNS, ROWS))
    table = pa.table({f"x{j}": column for j, column in enumerate(values)})
    pa.csv.write_csv(table, folder / "table.csv")
    pa.parquet.write_table(table, folder / "table.parquet", row_group_size=2**17)


def pyarrow_csv(folder: Path) -> float:
    import pyarrow.csv

    with pyarrow.csv.open_csv(
        folder / "table.csv", pyarrow.csv.ReadOptions(use_threads=False)
    ) as reader:
        return sum(batch.column(0).to_numpy().sum() for batch in reader)


def pyarrow_text_csv(folder: Path) -> float:
    """Read as dpcov does: parse every cell separately, so that no cell can change another."""
    from dpcov.rows.cells import numbers_of
    from dpcov.rows.schema import FileOptions
    from dpcov.rows.sources import open_source

    names = [f"x{j}" for j in range(COLUMNS)]
    source = open_source(folder / "table.csv", FileOptions(), ())
    total = 0.0
    for batch in source.batches(names):
        total += sum(numbers_of(column, ("",)).sum() for column in batch.columns)
    return total


def polars_csv(folder: Path) -> float:
    import polars as pl

    lazy = pl.scan_csv(folder / "table.csv", ignore_errors=True)
    return sum(batch[:, 0].sum() for batch in lazy.collect_batches(chunk_size=65536))


def pyarrow_parquet(folder: Path) -> float:
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(folder / "table.parquet", buffer_size=65536)
    batches = file.iter_batches(65536, use_threads=False)
    return sum(batch.column(0).to_numpy().sum() for batch in batches)


def polars_parquet(folder: Path) -> float:
    import polars as pl

    lazy = pl.scan_parquet(folder / "table.parquet")
    return sum(batch[:, 0].sum() for batch in lazy.collect_batches(chunk_size=65536))


JOBS: dict[str, Any] = {
    job.__name__: job
    for job in (pyarrow_csv, pyarrow_text_csv, polars_csv, pyarrow_parquet, polars_parquet)
}


def run(job: str, folder: Path) -> dict[str, float]:
    output = subprocess.run(
        [sys.executable, __file__, job, str(folder)], capture_output=True, text=True, check=True
    ).stdout
    figures: dict[str, float] = json.loads(output)
    return figures


def measured(job: str, folder: Path) -> Iterator[dict[str, Any]]:
    runs = [run(job, folder) for _ in range(ROUNDS)]
    yield {
        "job": job,
        "cpu": min(r["cpu"] for r in runs),
        "peak_mib": max(r["peak_mib"] for r in runs),
    }


def main() -> None:
    if len(sys.argv) == 3:
        before = time.process_time()
        JOBS[sys.argv[1]](Path(sys.argv[2]))
        print(json.dumps({"cpu": time.process_time() - before, "peak_mib": peak_mib()}))
        return
    with tempfile.TemporaryDirectory(prefix="dpcov-engines-") as name:
        folder = Path(name)
        write_tables(folder)
        kept = Kept("engines.json", "make bench NAME=engines")
        for job in JOBS:
            kept.part(job, partial(measured, job, folder))
    show(f"Engines, {ROWS:,} x {COLUMNS} float64", kept.rows)
    sys.exit(not kept.done())


if __name__ == "__main__":
    main()
