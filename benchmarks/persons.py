"""Rows or persons as the unit: what each protects, what it costs, and memory with many persons.

`make persons`. The Parkinson's table has 5,875 recordings of 42 people, about 140 each. A release
that protects rows at epsilon protects a person only at 140 times that.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from datasets import DATA
from results import show, write
from workloads import peak_mib

TABLE = DATA / "parkinsons_telemonitoring" / "parkinsons_updrs.data"
PERSON = "subject#"
BOUNDS = {  # what age, the clinical scales and the voice measures can be
    "age": (0, 100),
    "sex": (0, 1),
    "test_time": (0, 220),
    "motor_UPDRS": (0, 108),
    "total_UPDRS": (0, 176),
    "HNR": (0, 40),
    "RPDE": (0, 1),
    "DFA": (0, 1),
    "PPE": (0, 1),
}
REPEATS = 20
COUNTS = (30_000, 300_000, 3_000_000)  # of persons, two rows each


def correlation_errors(epsilon: float, max_rows: int | None) -> list[float]:
    """Mean absolute error of the correlations, in each of the repeats."""
    import dpcov
    from dpcov.schema import Schema

    columns = {
        name: {"kind": "numeric", "lower": low, "upper": high}
        for name, (low, high) in BOUNDS.items()
    }
    unit = None if max_rows is None else {"column": PERSON, "max_rows": max_rows}
    schema = Schema.parse({"columns": columns, "unit": unit})
    with TABLE.open() as file:
        cells = [[float(row[name]) for name in BOUNDS] for row in csv.DictReader(file)]
    truth = np.corrcoef(np.array(cells), rowvar=False)
    pairs = np.tril_indices(len(truth), -1)
    made = [dpcov.release(TABLE, schema=schema, epsilon=epsilon) for _ in range(REPEATS)]
    return [float(np.abs(one.correlation() - truth)[pairs].mean()) for one in made]


def side_by_side() -> list[dict[str, Any]]:
    """Releases whose stated epsilon is the same, and what they mean for a person."""
    with TABLE.open() as file:
        most = max(Counter(row[PERSON] for row in csv.DictReader(file)).values())
    rows = []
    for epsilon in (1.0, 10.0):
        for unit, max_rows in (("row", None), ("person", 1), ("person", 10), ("person", most)):
            errors = correlation_errors(epsilon, max_rows)
            rows.append(
                {
                    "unit": unit,
                    "rows of a person that count": max_rows or "all",
                    "epsilon stated": epsilon,
                    "epsilon for a person": epsilon * most if max_rows is None else epsilon,
                    "error_mean": float(np.mean(errors)),
                    "error_se": float(np.std(errors) / np.sqrt(REPEATS)),
                }
            )
    return rows


def count_persons(persons: int) -> dict[str, float]:
    """Seconds and memory of a person-level moment; the table is streamed, never held."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory(prefix="dpcov-persons-") as name:
        path, size = Path(name) / "t.parquet", 100_000
        order = np.random.default_rng(0).permutation(2 * persons) // 2
        writer = None
        for start in range(0, len(order), size):
            ids = order[start : start + size]
            table = pa.table({"id": ids, "x": ids / persons, "y": ids % 7 / 7})
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        del order
        command = [sys.executable, __file__, "read", str(path)]
        figures = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found: dict[str, float] = json.loads(figures)
        assert found["persons"] == persons
    return found


def read(path: str) -> None:
    from dpcov.schema import Schema
    from dpcov.sources import open_rows

    schema = Schema.from_bounds(0, 1, ["x", "y"], unit={"column": "id", "max_rows": 1})
    before = time.process_time()
    moment = open_rows(path, schema).second_moments()[0]
    spent = time.process_time() - before
    print(json.dumps({"persons": moment.unit_count, "cpu": spent, "peak_mib": peak_mib()}))


def main() -> None:
    if len(sys.argv) == 3:
        read(sys.argv[2])
        return
    rows = side_by_side()
    show("Parkinson's telemonitoring: 5,875 rows of 42 people, 9 columns", rows)
    write("persons.json", "make persons", rows)
    memory = [count_persons(count) for count in COUNTS]
    show("Persons with two rows each", memory)
    write("persons-memory.json", "make persons", memory)


if __name__ == "__main__":
    main()
