"""Compare the CPU time of releases of text files (1,000,000 x 20) with another commit.

    benchmarks/csv_files.py [--base COMMIT or FOLDER/src] [--rows N]

Each release is a separate process with one thread for each core, as users run it. The script
measures the CPU time of all threads, including the system's part. The two versions take turns.
The exit code is not zero if a ratio exceeds the threshold.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from results import Kept, show

ROOT = Path(__file__).parents[1]
BASE = "a85f506"  # the commit before a row was a record
BAR = 1.5
COLUMNS = 20
ROUNDS = 3
NOTES = ("plain", "with, a comma", 'with ""quotes""', "")
BROKEN = ("of\ntwo lines", "of\nthree\r\nlines")
RELEASE = """
import sys
import dpcov

path, mechanism = sys.argv[1:]
names = [f"x{j}" for j in range(20)]
columns = {name: {"kind": "numeric", "lower": -5, "upper": 5} for name in names}
for name in names[16:] if "numbers" not in path else ():
    columns[name] = {"kind": "categorical", "levels": ["plain", "other"]}
schema = dpcov.Schema.parse({"columns": columns})
named = {} if mechanism == "default" else {"mechanism": mechanism}
dpcov.release(path, schema=schema, epsilon=1.0, **named)
"""


def files(folder: Path, rows: int) -> dict[str, Path]:
    """The same numbers in 16 columns, and in 4 numbers, quoted texts, or texts with line breaks."""
    rng = np.random.default_rng(1)
    found = {}
    for name, texts in {"numbers": (), "quoted": NOTES, "line breaks": NOTES}.items():
        path = found[name] = folder / f"{name.replace(' ', '-')}.csv"
        with path.open("w", newline="") as file:
            file.write(",".join(f"x{j}" for j in range(COLUMNS)) + "\n")
            for start in range(0, rows, 10_000):
                file.write(_lines(rng, texts, name, min(10_000, rows - start)))
    return found


def _lines(rng: np.random.Generator, texts: tuple[str, ...], name: str, rows: int) -> str:
    cells = np.char.mod("%.4f", rng.normal(size=(rows, COLUMNS))).astype(object)
    if texts:
        picks = rng.choice(np.array(texts, object), (rows, 4))
        if name == "line breaks":  # in a fifth of the records
            picks[: rows // 5, 1] = rng.choice(np.array(BROKEN, object), rows // 5)
        cells[:, 16:] = '"' + picks + '"'
    rng.shuffle(cells)
    return "".join(",".join(row) + "\n" for row in cells)


def seconds(source: Path, path: Path, mechanism: str) -> float:
    """Measure the CPU time of a release with the library in `source`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", RELEASE, str(path), mechanism],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def checked_out(base: str, folder: Path) -> Path:
    """Return the path of the library at a commit or in a folder."""
    if Path(base).is_dir():
        return Path(base)
    archive = subprocess.run(
        ["git", "archive", base, "src"],  # noqa: S607
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    )
    subprocess.run(["tar", "x"], cwd=folder, input=archive.stdout, check=True)  # noqa: S607
    return folder / "src"


def measured(base: Path, path: Path, name: str, mechanism: str) -> Iterator[dict[str, Any]]:
    """Return medians over rounds in which both versions take turns."""
    pairs = [
        (seconds(base, path, mechanism), seconds(ROOT / "src", path, mechanism))
        for _ in range(ROUNDS)
    ]
    then, now = (median(times) for times in zip(*pairs, strict=True))
    yield {
        "file": name,
        "mechanism": mechanism,
        "MB": path.stat().st_size / 1e6,
        "CPU seconds, base": then,
        "CPU seconds": now,
        "ratio": now / then,
        "bar": BAR,
        "ok": now / then <= BAR,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    kept = Kept("csv.json", "make bench NAME=csv_files")
    with tempfile.TemporaryDirectory() as name:
        base = checked_out(asked.base, Path(name))
        for kind, path in files(Path(name), asked.rows).items():
            for mechanism in ("matrix-laplace", "default"):
                kept.part(kind, partial(measured, base, path, kind, mechanism))
    show("Text files", kept.rows)
    return int(not (kept.done() and all(row["ok"] for row in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
