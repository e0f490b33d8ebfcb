"""Compare rows and persons as the privacy unit: protection, errors, and memory with many persons.

`make bench NAME=persons` runs the script. The Parkinson's table has 5,875 recordings of 42 people,
about 140 for each person. A release that protects rows at epsilon protects a person only at 140
times epsilon.

Errors of correlations need not fall with epsilon. If everything is below the noise level, the
denoised correlations are 0, and each error is the size of the correlation. A little more budget
makes one or two directions of the covariance detectable. Division by small variances can then
increase the errors. The noise affects the covariance directly, so the error of the covariance does
fall.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from datasets import found
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from results import Kept, show
from workloads import peak_mib

if TYPE_CHECKING:
    from dpcov.rows.moment import SecondMoment

    Matrix = np.ndarray[Any, np.dtype[np.float64]]

TABLE = found("parkinsons_telemonitoring/parkinsons_updrs.data")
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


def schema_for(max_rows: int | None) -> Schema:
    columns = {
        name: {"kind": "numeric", "lower": low, "upper": high}
        for name, (low, high) in BOUNDS.items()
    }
    unit = None if max_rows is None else {"column": PERSON, "type": "integer", "max_rows": max_rows}
    return Schema.parse({"columns": columns, "unit": unit})


def covariance_of(moment: SecondMoment) -> Matrix:
    """Return the covariance of the used rows without noise, in half-ranges."""
    lattice, sums = moment.lattice, moment.units.astype(np.float64)
    mean = sums[:-1, -1] / sums[-1, -1] * lattice.intercept_units
    second = sums[:-1, :-1] / sums[-1, -1] * lattice.intercept_units**2
    covariance: Matrix = (second - np.outer(mean, mean)) * lattice.step**2
    return covariance


def errors(
    covariance: Matrix, correlation: Matrix, truth: Matrix, pairs: tuple[Any, Any]
) -> tuple[float, float]:
    """Return the relative Frobenius error of the covariance and the mean correlation error."""
    off = np.linalg.norm(covariance - truth) / np.linalg.norm(truth)
    return float(off), float(np.abs(correlation - correlation_of(truth))[pairs].mean())


def correlation_of(covariance: Matrix) -> Matrix:
    deviations = np.sqrt(np.diag(covariance))
    correlation: Matrix = covariance / np.outer(deviations, deviations)
    return correlation


def side_by_side() -> Iterator[dict[str, Any]]:
    """Compare releases with the same stated epsilon, and their protection of a person."""
    import dpcov

    with TABLE.open() as file:
        most = max(Counter(row[PERSON] for row in csv.DictReader(file)).values())
    truth = covariance_of(open_rows(TABLE, schema_for(None)).second_moments()[0])
    pairs = np.tril_indices(len(truth), -1)
    half = np.array([(high - low) / 2 for low, high in BOUNDS.values()])
    scale = np.outer(half, half)
    for epsilon in (1.0, 10.0, 100.0):
        for unit, max_rows in (("row", None), ("person", 1), ("person", 10), ("person", most)):
            schema = schema_for(max_rows)
            counted = covariance_of(open_rows(TABLE, schema).second_moments()[0])
            made = [dpcov.release(TABLE, schema=schema, epsilon=epsilon) for _ in range(REPEATS)]
            off = [
                errors(one.covariance() / scale, one.correlation(), truth, pairs) for one in made
            ]
            covariances, correlations = np.array(off).T
            yield {
                "unit": unit,
                "rows of a person that count": max_rows or "all",
                "epsilon stated": epsilon,
                "epsilon for a person": epsilon * most if max_rows is None else epsilon,
                "covariance_error_median": float(np.median(covariances)),
                "error_mean": float(correlations.mean()),
                "error_se": float(correlations.std() / np.sqrt(REPEATS)),
                "without_noise": errors(counted, correlation_of(counted), truth, pairs)[1],
                "zero": float(np.abs(correlation_of(truth)[pairs]).mean()),
            }


def count_persons(persons: int) -> dict[str, float]:
    """Measure seconds and memory of a person-level moment from a streamed table."""
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
    schema = Schema.from_bounds(
        0, 1, ["x", "y"], unit={"column": "id", "type": "integer", "max_rows": 1}
    )
    before = time.process_time()
    moment = open_rows(path, schema).second_moments()[0]
    spent = time.process_time() - before
    print(json.dumps({"persons": moment.unit_count, "cpu": spent, "peak_mib": peak_mib()}))


def main() -> None:
    if len(sys.argv) == 3:
        read(sys.argv[2])
        return
    errors_of = Kept("persons.json", "make bench NAME=persons")
    memory = Kept("persons-memory.json", "make bench NAME=persons")
    errors_of.part("errors", side_by_side)
    show("Parkinson's telemonitoring: 5,875 rows of 42 people, 9 columns", errors_of.rows)
    memory.part("memory", lambda: map(count_persons, COUNTS))
    show("Persons with two rows each", memory.rows)
    sys.exit(not all([errors_of.done(), memory.done()]))


if __name__ == "__main__":
    main()
