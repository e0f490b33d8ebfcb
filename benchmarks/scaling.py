"""Measure how time and memory grow with rows, columns and workers: `make bench NAME=scaling`.

The script fits exponents to the larger sizes and prints them beside the expected exponents. The
time for reading is linear in rows and columns. The time for the Gram matrix is linear in rows and
quadratic in columns. Memory does not depend on the number of rows. If both reading and the Gram
matrix matter, the exponent of the floor (raw decoding and BLAS alone) is the expected exponent.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench import CHUNK, row, write_numeric
from results import Kept, show
from workloads import measure

ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
COLUMNS = (10, 20, 50, 100, 200, 500, 1000, 2000)
ROUNDS = 3
GROUP_CELLS = 20_000_000  # of a row group: 160 MB of floats, whatever the number of columns
WORKERS_BAR = 0.65  # wall time of two workers as a share of one's


def best(job: str, path: Path, key: str) -> dict[str, float]:
    """Return the fastest round, because other programs can only add time."""
    return min((measure(job, path) for _ in range(ROUNDS)), key=lambda figures: figures[key])


def exponent(sizes: list[int], figures: list[float]) -> float:
    """Return the slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(figures), 1)[0])


Found = list[tuple[int, int, dict[str, float]]]


def growth(folder: Path, shapes: list[tuple[int, int]], found: Found) -> Iterator[Any]:
    """Yield the rows of each shape; add their figures and the floor's figure to `found`."""
    for n, d in shapes:
        path = folder / f"numeric-{n}-{d}.parquet"
        write_numeric(path, n, d, group=min(CHUNK, GROUP_CELLS // d))
        figures = best("exact", path, "cpu")
        case = f"{n:,} x {d}"
        floor = best("floor", path, "cpu")["cpu"]
        yield row(case, "CPU seconds; reference: floor", figures["cpu"], floor, 0, True)
        yield row(case, "peak MiB", figures["peak_mib"], 0, 0, True)
        if n >= 1_000_000 or d >= 1000:
            ratios = [
                measure("exact_by_two", path)["wall"] / measure("exact", path)["wall"]
                for _ in range(ROUNDS)
            ]
            ok = min(ratios) <= WORKERS_BAR
            yield row(case, "wall, two workers to one", min(ratios), 1, WORKERS_BAR, ok)
        path.unlink()
        found.append((n, d, figures | {"floor": floor}))


def fitted(
    name: str, sizes: list[int], figures: list[float], expected: float, within: float
) -> Any:
    slope = exponent(sizes, figures)
    metric = f"exponent; expected {expected:g} within {within:g}"
    return row(name, metric, slope, expected, expected + within, abs(slope - expected) <= within)


def exponents(by_rows: Found, by_columns: Found) -> Iterator[Any]:
    """Yield rows of the fitted exponents."""
    large = [(n, figures) for n, _, figures in by_rows if n >= 100_000]
    many = [n for n, _ in large]
    yield fitted("CPU against n, d = 50", many, [f["cpu"] for _, f in large], 1, 0.15)
    peaks = [f["peak_mib"] for _, f in large]
    yield fitted("memory against n, d = 50", many, peaks, 0, 0.15)
    for words, least, most in (("50 to 200", 50, 200), ("500 to 2000", 500, 2000)):
        part = [(d, figures) for _, d, figures in by_columns if least <= d <= most]
        sizes = [d for d, _ in part]
        expected = round(exponent(sizes, [figures["floor"] for _, figures in part]), 2)
        cpu = [figures["cpu"] for _, figures in part]
        yield fitted(f"CPU against d = {words}, n = 1e5", sizes, cpu, expected, 0.25)


def main() -> int:
    kept = Kept("bench-scaling.json", "make bench NAME=scaling")
    by_rows: Found = []
    by_columns: Found = []
    with tempfile.TemporaryDirectory(prefix="dpcov-scaling-") as name:
        folder = Path(name)
        kept.part("rows", lambda: growth(folder, [(n, 50) for n in ROWS], by_rows))
        kept.part("columns", lambda: growth(folder, [(100_000, d) for d in COLUMNS], by_columns))
    kept.part("exponents", lambda: exponents(by_rows, by_columns))
    show("Growth", kept.rows)
    return int(not (kept.done() and all(entry["ok"] for entry in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
