"""Measure how much longer a release takes if one cell of a numeric table is a text.

The output of a release reveals no cell, but its running time is not protected. This attack measures
how much the time reveals.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import dpcov
from dpcov.rows.sources.sql import DatabaseTable
from figure import Figure

ATTACK = "running time of one text cell"
ROWS, COLUMNS = 200_000, 10
NAMES = [f"x{j}" for j in range(COLUMNS)]
WORD = "unknown"
ASKED: dict[str, Any] = {
    "lower": [0.0] * COLUMNS,
    "upper": [1.0] * COLUMNS,
    "epsilon": 1.0,
    "mechanism": "laplace",
    "denoise": "none",
    "threads": 1,
}
Make = Callable[[Path, list[list[Any]]], Any]


def _csv(path: Path, rows: list[list[Any]]) -> Path:
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in rows)]
    path.with_suffix(".csv").write_text("\n".join(lines) + "\n")
    return path.with_suffix(".csv")


def _sqlite(path: Path, rows: list[list[Any]]) -> DatabaseTable:
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE TABLE t ({' REAL, '.join(NAMES)} REAL)")
        db.executemany(f"INSERT INTO t VALUES ({', '.join('?' * COLUMNS)})", rows)  # noqa: S608
    db.close()
    return DatabaseTable(path, "t")


def _objects(_: Path, rows: list[list[Any]]) -> Any:
    return np.array(rows, object)


def _frame(_: Path, rows: list[list[Any]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=NAMES, dtype=object)


SOURCES: dict[str, Make] = {
    "CSV": _csv,
    "SQLite": _sqlite,
    "lists": lambda _, rows: rows,
    "arrays of objects": _objects,
    "pandas, objects": _frame,
}


def _seconds(data: Any) -> float:
    """Return the CPU time of a release."""
    began = time.process_time()
    dpcov.release(data, **ASKED)
    return time.process_time() - began


def ratio(make: Make, folder: Path, rows: int, rounds: int) -> tuple[float, float, float]:
    """Return the CPU time with the text over that without, the noise of this ratio, and seconds.

    Ratios are medians of rounds. A round reads three tables in turn, two of them without the text.
    """
    cells = np.random.default_rng(4).uniform(size=(rows, COLUMNS)).tolist()
    dirty = [*cells]
    dirty[rows // 2] = [WORD, *cells[rows // 2][1:]]
    tables = [make(folder / f"{os.urandom(4).hex()}", one) for one in (cells, cells, dirty)]
    times = np.array([[_seconds(data) for data in tables] for _ in range(rounds)])
    plain, again, text = times.T
    return (
        statistics.median(text / plain),
        max(statistics.median(again / plain), statistics.median(plain / again)),
        statistics.median(plain),
    )


def figures(folder: Path, quick: bool) -> list[Figure]:
    """Return the measured times, without a limit: the running time is not protected."""
    rows, rounds = (ROWS // 20 if quick else ROWS), 3
    found = []
    for name, make in SOURCES.items():
        text, noise, seconds = ratio(make, folder, rows, rounds)
        what = f"{name}, {rows:,} x {COLUMNS}: CPU with one text over CPU without"
        shown = f"{text:.2f} (the same again {noise:.2f}; {seconds:.2f} s)"
        found.append(Figure(ATTACK, what, "no limit", shown, True))
    return found
