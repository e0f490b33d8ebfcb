"""Small files that say much: each is written to a folder by its name."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

NUMERIC = '[columns.a]\nkind = "numeric"\nlower = 0\nupper = 1\n'
CATEGORICAL = '[columns.a]\nkind = "categorical"\nlevels = ["x", "y"]\n'


def numbers(path: Path) -> None:
    """Write 0.9 MB of Parquet: one row group of 1.6 GB of zeros."""
    table = pa.table({"a": np.zeros(2 * 10**8)})
    pq.write_table(table, path, compression="zstd", row_group_size=10**9)


def repeated_text(path: Path) -> None:
    """Write one kilobyte of Parquet: a text of a megabyte, 2^18 times (262 GB)."""
    texts = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(2**18), pa.int32()), pa.array(["x" * 10**6])
    )
    pq.write_table(pa.table({"a": texts}), path, compression="zstd", store_schema=False)


def long_texts(path: Path) -> None:
    """Write 0.15 MB of Parquet: 16,000 texts of 100 kB, without a dictionary (1.6 GB)."""
    table = pa.table({"a": pa.array(["x" * 10**5] * 16000)})
    pq.write_table(table, path, compression="zstd", use_dictionary=False)


def many_rows(path: Path) -> None:
    """Write 1.6 MB of gzip: 200 million rows of CSV."""
    with gzip.open(path, "wb", 6) as file:
        file.write(b"a\n")
        for _ in range(400):
            file.write(b"0\n" * 500_000)


def one_line(path: Path) -> None:
    """Write 1.6 MB of gzip: a line of 1.6 GB."""
    with gzip.open(path, "wb", 6) as file:
        file.write(b"a\n0")
        for _ in range(1600):
            file.write(b"0" * 10**6)


def deep_schema(path: Path) -> None:
    """Write TOML nested 100,000 times."""
    path.write_text("missing = " + "[" * 10**5 + "]" * 10**5 + "\n")


def wide_schema(path: Path) -> None:
    """Write a schema of 50,000 columns: the matrix would have 2.5 billion entries."""
    columns = [NUMERIC.replace("columns.a", f"columns.a{j}") for j in range(50_000)]
    path.write_text("\n".join(columns))


def deep_release(path: Path) -> None:
    """Write JSON nested a million times."""
    path.write_text('{"a":' * 10**6)


def long_number(path: Path) -> None:
    """Write JSON with a number of a million digits."""
    path.write_text('{"format": ' + "9" * 10**6 + "}")


BOMBS: dict[str, Callable[[Path], None]] = {
    "numbers.parquet": numbers,
    "repeated.parquet": repeated_text,
    "long.parquet": long_texts,
    "rows.csv.gz": many_rows,
    "line.csv.gz": one_line,
    "deep.toml": deep_schema,
    "wide.toml": wide_schema,
    "deep.json": deep_release,
    "number.json": long_number,
}
SLOW = ("numbers.parquet", "rows.csv.gz")


def line(name: str) -> str:
    """Return the command that reads a file of this name."""
    release = "release {} --schema {} --epsilon 1 --out r.json --force --denoise none"
    if name.endswith(".json"):
        return f"show {name}"
    if name.endswith(".toml"):
        return release.format("t.csv", name)
    return release.format(
        name, "c.toml" if name in ("repeated.parquet", "long.parquet") else "n.toml"
    )
