"""Single jobs, each run in a process of its own by `measure`: what `bench.py` compares.

`python benchmarks/workloads.py JOB PATH` prints the CPU seconds of the job and of the whole
process, and the peak memory in MiB.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

NUMERIC_LEVELS = (0, 9, 0, 16, 0, 7, 15, 6, 5, 2, 0, 0, 0, 42)  # Adult: 6 numeric, 8 categorical
BATCH_ROWS = 65536
BLOCK_ROWS = 4096
TOUCH = "import numpy; numpy.ones(2**27)"  # 1 GiB


def measure(job: str, path: Path) -> dict[str, float]:
    """Run a job in a fresh process with one BLAS thread.

    The host of a virtual machine reclaims free memory, and a job that needs such pages pays up to a
    second for 400 MB. Another process therefore writes to a gigabyte of memory just before the job.
    """
    subprocess.run([sys.executable, "-c", TOUCH], check=True)
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # the same dpcov as here
    run = subprocess.run(
        [sys.executable, __file__, job, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def mixed_columns() -> dict[str, list[str] | None]:
    """Return the Adult-like columns: levels of categorical columns, None for numeric columns."""
    return {
        f"x{j}": [f"level {k}" for k in range(count)] if count else None
        for j, count in enumerate(NUMERIC_LEVELS)
    }


def exact(path: Path, threads: int = 1) -> Any:
    """Compute the library's exact integer second moment."""
    return source(path, threads).second_moments()[0].units


def source(path: Path, threads: int) -> Any:
    """Open the file's rows, with bounds of three standard deviations."""
    from dpcov.rows.schema import Schema
    from dpcov.rows.sources import open_rows

    if "mixed" in path.name:
        columns = {
            name: {"kind": "numeric", "lower": -3, "upper": 3}
            if levels is None
            else {"kind": "categorical", "levels": levels}
            for name, levels in mixed_columns().items()
        }
        schema = Schema.parse({"columns": columns})
    else:
        import pyarrow.parquet as pq

        schema = Schema.from_bounds(-3.0, 3.0, pq.ParquetFile(path).schema_arrow.names)
    return open_rows(path, schema, threads=threads)


def exact_by_two(path: Path) -> Any:
    """Compute the exact sums with two threads."""
    return exact(path, threads=2)


def parts_of_exact(path: Path) -> dict[str, float]:
    """Measure CPU seconds of each part of `exact`, without the other parts that it calls."""
    from dpcov.rows.encoder import Columns, Encoder
    from dpcov.rows.moment import Accumulator
    from dpcov.rows.sources import arrow

    spent: dict[str, float] = {}
    inner = [0.0]

    def timed(owner: Any, name: str, words: str) -> None:
        whole = getattr(owner, name)

        def call(*arguments: Any) -> Any:
            inner.append(0.0)
            before = time.process_time()
            try:
                return whole(*arguments)
            finally:
                took = time.process_time() - before
                spent[words] = spent.get(words, 0.0) + took - inner.pop()
                inner[-1] += took

        setattr(owner, name, call)

    timed(arrow.ParquetTable, "column", "decode")
    timed(Columns, "put", "encode columns")
    timed(Columns, "write", "write blocks")
    timed(Encoder, "block", "certify")
    timed(Accumulator, "add", "syrk, and adding it up")
    timed(Accumulator, "total", "Python integers")
    before = time.process_time()
    exact(path)
    spent["all else"] = time.process_time() - before - sum(spent.values())
    return spent


def nothing(path: Path) -> None:
    """Import the readers without reading, for the memory of an idle process."""
    import dpcov.rows.sources.rows  # noqa: F401


def floor(path: Path, threads: int = 1) -> Any:
    """Run the physical floor: decode every cell and compute one Gram matrix in BLAS."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np
    import pyarrow.parquet as pq

    def share(first: int) -> Any:
        """Decode one thread's row groups."""
        file = pq.ParquetFile(path, buffer_size=BATCH_ROWS, pre_buffer=False)
        names = file.schema_arrow.names
        width = len(names)
        if "mixed" in path.name:
            width = sum(len(levels or [0]) for levels in mixed_columns().values())
        block = np.random.default_rng(0).standard_normal((width + 1, BLOCK_ROWS))
        total: Any = 0.0
        for group in range(first, file.num_row_groups, threads):
            for name in names:
                file.read_row_group(group, columns=[name], use_threads=False)
            for _ in range(-(-file.metadata.row_group(group).num_rows // BLOCK_ROWS)):
                total = np.dot(block, block.T)  # one call of syrk
        return total

    with ThreadPoolExecutor(threads) as pool:
        return next(pool.map(share, range(threads)))


def floor_by_two(path: Path) -> Any:
    """Compute the floor with two threads."""
    return floor(path, threads=2)


def floor_and_pass(path: Path) -> Any:
    """Run the floor with the least extra work: NumPy reads, rounds and writes each cell once.

    The table must be numeric. The job does not scale, clip or check for missing cells.
    """
    import numpy as np
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, buffer_size=BATCH_ROWS, pre_buffer=False)
    names, rows = file.schema_arrow.names, file.metadata.row_group(0).num_rows
    buffer = np.empty((len(names) + 1, rows))
    buffer[-1] = 1.0
    total: Any = 0.0
    for group in range(file.num_row_groups):
        for name, out in zip(names, buffer, strict=False):
            column = file.read_row_group(group, columns=[name], use_threads=False).column(0)
            values = column.chunk(0).to_numpy()
            np.rint(values, out=out[: len(values)])
        for start in range(0, file.metadata.row_group(group).num_rows, BLOCK_ROWS):
            block = buffer[:, start : start + BLOCK_ROWS]
            total = block @ block.T
    return total


def plain(path: Path) -> Any:
    """Run a plain float64 loop: decode a batch, stack its columns, add its Gram matrix."""
    import numpy as np
    import pyarrow.parquet as pq

    file = pq.ParquetFile(path, buffer_size=BATCH_ROWS, pre_buffer=False)
    total: Any = 0.0
    rows = max(1, min(BATCH_ROWS, 2**22 // len(file.schema_arrow)))
    for batch in file.iter_batches(batch_size=rows, use_threads=False):
        block = np.column_stack([column.to_numpy() for column in batch.columns])
        total = total + block.T @ block
    return total


def plain_mixed(path: Path) -> Any:
    """Run the floor with one-hot columns: find the levels, scatter ones, add the Gram matrix."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = mixed_columns()
    sets = {name: pa.array(levels) for name, levels in columns.items() if levels}
    width = sum(len(levels or [0]) for levels in columns.values())
    total = np.zeros((width, width))
    file = pq.ParquetFile(path, buffer_size=BATCH_ROWS, pre_buffer=False)
    for batch in file.iter_batches(batch_size=BATCH_ROWS, use_threads=False):
        block = np.zeros((batch.num_rows, width))
        rows = np.arange(batch.num_rows)
        at = 0
        for name, levels in columns.items():
            column = batch.column(name)
            if levels is None:
                block[:, at] = column.to_numpy()
                at += 1
                continue
            codes = pc.index_in(column, value_set=sets[name]).to_numpy()
            block[rows, at + codes] = 1.0
            at += len(levels)
        total += block.T @ block
    return total


def pandas_cov(path: Path) -> Any:
    """Run the usual way: load the whole table in pandas, then call numpy.cov."""
    import numpy as np
    import pandas as pd

    return np.cov(pd.read_parquet(path).to_numpy(), rowvar=False)


def main() -> None:
    """Run one job and print what it took."""
    job, path = globals()[sys.argv[1]], Path(sys.argv[2])
    import numpy  # noqa: F401 (both sides start with these imported)
    import pyarrow.parquet

    pyarrow.array([0])  # imports pandas, where there is one
    if not sys.argv[1].startswith("floor"):
        import dpcov.rows.sources.spark  # noqa: F401 (all that `open_rows` imports)
    before, start = time.process_time(), time.perf_counter()
    made = job(path)
    figures = {
        **(made if sys.argv[1].startswith("parts") else {}),
        "cpu": time.process_time() - before,
        "wall": time.perf_counter() - start,
        "process_cpu": time.process_time(),
        "peak_mib": peak_mib(),
    }
    print(json.dumps(figures))


def peak_mib() -> float:
    """Return the peak memory of this process; getrusage would include the parent's memory."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


if __name__ == "__main__":
    main()
