"""Measure the CPU time of releases beside plain reads of the tables: `make bench NAME=reads`.

Every table has a million rows. The script measures two releases. The default release reads its
table once and a private copy of the table three times. The release by `matrix-laplace` reads its
table once. A plain read is the least work with which another program obtains the cells:

- For a pandas frame of objects, `pandas.to_numeric` converts each numeric column, and
  `pandas.Categorical` converts each column of levels.
- For PostgreSQL, the driver's own binary COPY reads every batch and discards the batch.
- For PostgreSQL, a second baseline is `COPY` to psql, which parses no cell. Both sides then include
  the server's CPU time.
- For SQLite, the plain read is `fetchall`.

Each run is a fork of this process. Both sides of a ratio take turns, and medians count.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import dpcov
import postgres_server
from dpcov.rows.schema import Schema
from results import Kept, show

ROWS = 1_000_000
ROUNDS = 5
ONE = "matrix-laplace"
LEVELS = ["north", "south", "east", "west"]
OBJECTS_BAR, COPY_BAR = 3.0, 2.5
Cell = dict[str, Any]
Work = Callable[[], object]


def numbers() -> list[np.ndarray]:
    """Return columns with two decimals."""
    rng = np.random.default_rng(0)
    return [np.round(rng.normal(70, 20, ROWS), 2) for _ in range(8)]


def levels() -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.choice(np.array(LEVELS, object), ROWS) for _ in range(2)]


def schema(names: list[str]) -> Schema:
    """Return a schema. Columns whose names begin with l are categorical."""
    number = {"kind": "numeric", "lower": 0, "upper": 150}
    level = {"kind": "categorical", "levels": LEVELS}
    return Schema.parse({"columns": {n: level if n[0] == "l" else number for n in names}})


def objects() -> pd.DataFrame:
    """Return a table of objects.

    Three columns contain texts, one contains integers, two contain floats, two contain all of these
    types, and two contain levels.
    """
    rng = np.random.default_rng(2)
    makes = [str, str, str, lambda cell: str(int(cell)), float, float]
    mixed = [str, float, int, lambda _: None, lambda _: float("nan")]
    of_numbers = [cells.tolist() for cells in numbers()]
    columns = [list(map(make, cells)) for make, cells in zip(makes, of_numbers, strict=False)]
    for cells in of_numbers[len(makes) :]:
        picks = rng.integers(0, len(mixed), ROWS).tolist()
        columns.append([mixed[pick](cell) for pick, cell in zip(picks, cells, strict=True)])
    columns += [found.tolist() for found in levels()]
    names = [f"x{j}" for j in range(8)] + ["l0", "l1"]
    return pd.DataFrame(
        {n: pd.Series(c, dtype=object) for n, c in zip(names, columns, strict=True)}
    )


def converted(frame: pd.DataFrame) -> pd.DataFrame:
    """Run the plain read of a frame of objects."""
    return pd.DataFrame(
        {
            name: pd.Categorical(cells, categories=LEVELS)
            if name[0] == "l"
            else pd.to_numeric(cells, errors="coerce")
            for name, cells in frame.items()
        }
    )


def cpu(work: Work) -> float:
    """Measure CPU seconds of a fork that does the work, including its child processes."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    _, status, used = os.wait4(child, 0)
    assert status == 0, "the work failed"
    return used.ru_utime + used.ru_stime


def compared(
    case: str, beside: str, ours: Work, plain: Work, bar: float, measure: Any = cpu
) -> Cell:
    """Return medians after a warm-up round."""
    rounds = [(measure(ours), measure(plain)) for _ in range(1 + ROUNDS)][1:]
    mine, theirs = (median(found) for found in zip(*rounds, strict=True))
    ratio = mine / theirs
    return {
        "case": case,
        "beside": beside,
        "ours": mine,
        "reference": theirs,
        "ratio": ratio,
        "bar": bar,
        "ok": not bar or ratio <= bar,
    }


def releasing(data: Any, names: list[str], **asked: Any) -> Work:
    declared = schema(names)
    return lambda: dpcov.release(data, schema=declared, epsilon=1.0, **asked)


def frames() -> Iterator[Cell]:
    frame = objects()
    typed, names = converted(frame), list(frame)
    releasing(frame.head(1000), names)()  # imports what a release needs, before the forks
    plain, beside = (lambda: converted(frame)), "conversion by pandas"
    yield compared("pandas, objects", beside, releasing(frame, names), plain, OBJECTS_BAR)
    one = releasing(frame, names, mechanism=ONE)
    yield compared("pandas, objects; one matrix", beside, one, plain, OBJECTS_BAR)
    yield compared("pandas, the same in typed columns", beside, releasing(typed, names), plain, 0.0)


TYPES = {"REAL": range(4), "INTEGER": range(4, 6), "NUMERIC": range(6, 8)}


def stored() -> dict[str, np.ndarray]:
    """Return four columns of floats, two of integers, two of decimals and two of levels."""
    columns = {f"x{j}": cells for j, cells in enumerate(numbers())}
    columns |= {name: np.rint(columns[name]).astype(np.int64) for name in ("x4", "x5")}
    return columns | dict(zip(("l0", "l1"), levels(), strict=True))


def in_sqlite(path: Path) -> Iterator[Cell]:
    columns = stored()
    kinds = [f"x{j} {kind}" for kind, places in TYPES.items() for j in places]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"CREATE TABLE t ({', '.join(kinds)}, l0 TEXT, l1 TEXT)")
        rows = zip(*(cells.tolist() for cells in columns.values()), strict=True)
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 10)})", rows)  # noqa: S608

    def plain() -> None:
        with closing(sqlite3.connect(path)) as database:
            database.execute("SELECT * FROM t").fetchall()

    ours = releasing(path, list(columns), table="t")
    yield compared("SQLite", "fetchall", ours, plain, 0.0)


def in_postgres(link: str) -> Iterator[Cell]:
    from adbc_driver_postgresql import dbapi

    columns = stored()
    kinds = [*["float8"] * 4, *["int8"] * 2, *["numeric"] * 2, "text", "text"]
    chosen = ", ".join(f"{n}::{kind}" for n, kind in zip(columns, kinds, strict=True))
    with dbapi.connect(link) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("given", pa.table(columns), mode="create")
        cursor.execute(f"CREATE TABLE public.t AS SELECT {chosen} FROM given")  # noqa: S608
        connection.commit()
    ((folder,),) = postgres_server.run(
        link, "SELECT setting FROM pg_catalog.pg_settings WHERE name = 'data_directory'"
    )
    server = int((Path(folder) / "postmaster.pid").read_text().split()[0])

    def drained() -> None:
        with dbapi.connect(link) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT * FROM public.t")
            for _ in cursor.fetch_record_batch():
                pass

    def copied() -> None:
        command = [postgres_server.binaries() / "psql", "-Xqc", "COPY public.t TO STDOUT", link]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def with_server(work: Work) -> float:
        before = cpu_of_sessions(server)
        ours = cpu(work)
        time.sleep(1)  # until the session has ended
        return ours + cpu_of_sessions(server) - before

    ours = releasing(link, list(columns), table="public.t")
    one = releasing(link, list(columns), table="public.t", mechanism=ONE)
    case, both = "PostgreSQL", "PostgreSQL, with the server's CPU"
    yield compared(case, "the driver's binary COPY", ours, drained, COPY_BAR)
    yield compared(f"{both}; one matrix", "COPY to psql", one, copied, COPY_BAR, with_server)
    yield compared(both, "COPY to psql", ours, copied, 0.0, with_server)
    yield compared(case, "COPY to psql", ours, copied, 0.0)


def cpu_of_sessions(server: int) -> float:
    """Return CPU seconds of the server's processes that have ended."""
    reported = Path(f"/proc/{server}/stat").read_text().rpartition(")")[2].split()
    return (int(reported[13]) + int(reported[14])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    kept = Kept("reads.json", "make bench NAME=reads")
    kept.part("pandas", frames)
    with tempfile.TemporaryDirectory(prefix="dpcov-reads-") as folder:
        kept.part("SQLite", lambda: in_sqlite(Path(folder) / "t.sqlite"))
    with postgres_server.server() as link:
        kept.part("PostgreSQL", lambda: in_postgres(link))
    show("Reads", kept.rows)
    return int(not (kept.done() and all(row["ok"] for row in kept.rows)))


if __name__ == "__main__":
    sys.exit(main())
