"""Direct checks of the readers: each returns a list of faults, which is empty if all is well.

These checks cover cases that appear in no sums and in no outcomes of neighbours: a full disk, a
device, a forged file of sums. `sources_controls` breaks the reader for each check.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpcov
from dpcov.api.request import Request
from dpcov.cli import progress
from dpcov.core.files import reserved
from dpcov.errors import DpcovError, SourceError
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Numeric, Schema
from dpcov.rows.sources import kept as private_copy
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.partial import PartialMoment
from dpcov.rows.sources.sql import DatabaseTable
from outcomes import Book, outcome_of
from sources import DataSource, run_in
from sources_roles import IGNORED, NUMBER, PLAIN, Role, image

PLACE = DataSource("table", {}, "", lambda _: [])
X = Schema.parse({"columns": {"x0": NUMBER, "x1": PLAIN}})
TABLE = pa.table({"x0": [1.5, -2.0, 3.0], "x1": [1.0, 2.0, 3.0]})
PERSONS = Role(
    "persons",
    {"x0": IGNORED, "x1": PLAIN, "x2": IGNORED},
    {"unit": {"column": "x0", "type": "integer", "max_rows": 2}},
)


def refusal(call: Callable[[], Any], words: str = "") -> list[str]:
    """Return a fault unless the call is refused with these words."""
    try:
        call()
    except DpcovError as error:
        return [] if words in str(error) else [f"refused otherwise: {error}"]
    return ["not refused"]


def disk_full(folder: Path) -> list[str]:
    """Check that a full disk gives one outcome for all rows, and that no sparse file is written."""
    faults = []
    kind = np.dtype([("x", np.float64)])
    kept = private_copy.MAX_MEMORY_BYTES, private_copy.GROWTH_BYTES
    private_copy.MAX_MEMORY_BYTES, private_copy.GROWTH_BYTES = 2**10, 2**16
    try:
        copy = private_copy.Copy(kind)
        copy.add(np.zeros(1000, kind))
        assert copy._file is not None
        state = os.fstat(copy._file._file.fileno())
        if state.st_blocks * 512 < private_copy.GROWTH_BYTES:
            faults.append(f"{state.st_blocks} blocks taken")
        if state.st_mode & 0o077:
            faults.append("others may read the copy")
        reported = [_with_little_disk(rows) for rows in (30_000, 60_000)]
    finally:
        private_copy.MAX_MEMORY_BYTES, private_copy.GROWTH_BYTES = kept
    if reported != [private_copy.NO_SPACE_MESSAGE] * 2:
        faults.append(f"on a full disk: {reported}")
    return faults


def _with_little_disk(rows: int) -> str:
    """Return the message of a process that must copy but may write only 100 kB of a file."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
            kind = np.dtype([("x", np.float64)])
            copy = private_copy.Copy(kind)
            for _ in range(rows // 1000):
                copy.add(np.zeros(1000, kind))
            os.write(writing, b"all was written")
        except BaseException as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as reported:
        text = reported.read().decode()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return text if status == 0 else f"ended by {status}"


def no_core_files() -> list[str]:
    """Check that a release leaves no core file with rows."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    dpcov.release(TABLE, schema=X, epsilon=1.0, mechanism="laplace", denoise="none")
    found = resource.getrlimit(resource.RLIMIT_CORE)[0]
    resource.setrlimit(resource.RLIMIT_CORE, before)
    return [] if found == 0 or before[1] == 0 else [f"core files of {found} bytes"]


def damaged_arrow() -> list[str]:
    """Check that an array with offsets outside its memory is refused and ends no process."""
    child = os.fork()
    if not child:
        faulthandler.disable()
        signal.alarm(20)
        code = 1
        try:
            places = np.array([0, 2**30, 2], np.int32)
            damaged = pa.StringArray.from_buffers(2, pa.py_buffer(places), pa.py_buffer(b"ab"))
            table = pa.table({"x0": damaged, "x1": [1.0, 2.0]})
            rows = open_rows(table, X, threads=1)
            code = 0 if not refusal(rows.hashed_moment) else 1
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return [] if status == 0 else [f"ended by {status}"]


def no_progress() -> list[str]:
    """Check that the progress display receives no information about the table."""
    taken = progress.reading.__wrapped__.__code__.co_argcount  # type: ignore[attr-defined]
    return [f"{taken} arguments"] if taken else []


def duckdb_reaches_nothing_outside(folder: Path) -> list[str]:
    """Check that a view in a DuckDB file reads no file of the host, not even in a trusted file."""
    outside, path = folder / "outside.csv", folder / "view.duckdb"
    outside.write_text("x0,x1\n1.5,1\n2.5,2\n")
    if not path.exists():
        with duckdb.connect(path) as db:
            db.execute(f"CREATE VIEW v AS SELECT * FROM read_csv('{outside}')")  # noqa: S608
    role = Role("number", {"x0": NUMBER, "x1": PLAIN})
    plain = image(DatabaseTable(path, "v"), role, PLACE)
    trusted = image(DatabaseTable(path, "v", trust_views=True), role, PLACE)
    faults = [] if plain.refused else ["a view is read"]
    return faults + (["the host's file is read"] if trusted.counts else [])


def devices_and_pipes(folder: Path) -> list[str]:
    """Check that only regular files are read or replaced."""
    pipe = folder / "pipe.csv"
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    faults = refusal(lambda: Schema.load("/dev/null"), "regular file")
    faults += refusal(lambda: open_source(pipe, X.file, ()), "regular file")
    try:
        with reserved(pipe, force=True) as output:
            output.write("x")
    except DpcovError:
        pass
    return faults if pipe.is_fifo() else [*faults, "a pipe was replaced"]


def one_number_for_two(numeric: Callable[..., Any] = Numeric) -> list[str]:
    """Check that bounds between which float64 cannot represent distinct values are refused."""
    lower = 1_700_000_000_000_000_000
    try:
        column = numeric(lower=lower, upper=lower + 1000)
    except ValueError:
        return []
    declared = Schema.model_construct(columns={"x0": column}, radius=1.0)
    images = []
    for cell in (lower + 10, lower + 60):
        table = pa.table({"x0": pa.array([cell], pa.int64())})
        with closing(open_rows(table, declared, threads=1)) as rows:
            images.append(rows.hashed_moment()[1])
    return ["two numbers have one image"] if images[0] == images[1] else []


class Shuffled:
    """A query that gives its rows in another order each time, as some joins do."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table
        self._times = 0

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        self._times += 1
        order = np.random.default_rng(self._times).permutation(self._table.num_rows)
        return self._table.take(order).__arrow_c_stream__(requested_schema)


class Once:
    """A stream that has no rows when it is asked for again, and does not say so."""

    def __init__(self, table: pa.Table) -> None:
        self._tables = [table]

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        table = self._tables.pop() if self._tables else TABLE[:0]
        return table.__arrow_c_stream__(requested_schema)


def read_twice() -> list[str]:
    """Check that a stream that comes once answers several questions."""
    with closing(open_rows(Once(TABLE), X, threads=1)) as rows:
        rows.require_rereadable()
        try:
            first, second = rows.hashed_moment()[1], rows.hashed_moment()[1]
        except SourceError:
            return ["read once"]
    expected = open_rows(TABLE, X, threads=1).hashed_moment()[1]
    return [] if first == second == expected else ["another answer the second time"]


def shuffled_persons() -> list[str]:
    """Check that persons keep their rows if each pass of a query has another order."""
    numbers = np.arange(60)
    table = pa.table({"x0": numbers // 3, "x1": (numbers % 10).astype(float), "x2": numbers})
    expected = image(table, PERSONS, PLACE)
    found = image(Shuffled(table), PERSONS, PLACE)
    return [] if found == expected and expected.counts == (20,) else ["other persons"]


def _parts() -> tuple[PartialMoment, PartialMoment]:
    turned = Schema.parse({"columns": {"x1": PLAIN, "x0": NUMBER}})
    return PartialMoment.of(TABLE, X), PartialMoment.of(TABLE[:2], turned)


def merged_in_another_order() -> list[str]:
    """Check that parts with columns in different orders are not added."""
    one, other = _parts()
    return refusal(lambda: one.merged(other), "another order")


def merged_twice() -> list[str]:
    """Check that two sums of the same rows are not merged."""
    one, other = PartialMoment.of(TABLE, X), PartialMoment.of(TABLE, X)
    return refusal(lambda: one.merged(other), "contain the same rows")


def conditions_under_replace_one() -> list[str]:
    """Check that replace-one publishes no count that depends on a condition, nor from sums."""
    sums = PartialMoment.of(TABLE, X, where=["x0 > 0"])
    asked: dict[str, Any] = {"schema": X, "epsilon": 1.0, "neighbors": "replace-one"}
    faults = refusal(lambda: dpcov.release(sums, mechanism="matrix-laplace", **asked))
    direct = {**asked, "where": ["x0 > 0"]}
    return faults + refusal(lambda: dpcov.release(TABLE, mechanism="matrix-laplace", **direct))


FORGERIES: list[Callable[[dict[str, Any]], None]] = [
    lambda sums: sums.update(rows=2**63),
    lambda sums: sums.update(rows=-1),
    lambda sums: sums["units"].__setitem__(0, 10**400),
    lambda sums: sums["units"].__setitem__(0, -1),
    lambda sums: sums["units"].__setitem__(1, 2**45),
    lambda sums: sums["units"].__setitem__(-1, sums["units"][-1] + 1),
    lambda sums: sums["units"].__setitem__(0, 3 * 2**40 + 1),
    lambda sums: sums.update(units=[]),
]


def forged_sums(folder: Path) -> list[str]:
    """Check that impossible sums are refused before the charge."""
    faults = []
    path, book = folder / "sums.json", Book(Path(tempfile.mkdtemp(dir=folder)))
    PartialMoment.of(TABLE, X).save(path, force=True)
    true = json.loads(path.read_text())
    for at, forge in enumerate(FORGERIES):
        sums = json.loads(json.dumps(true))
        forge(sums)
        path.write_text(json.dumps(sums))
        _, ledger = book.ledger("sums")

        def call(ledger: Any = ledger) -> Any:
            return dpcov.release(
                path, schema=X, epsilon=1.0, mechanism="matrix-laplace", ledger=ledger
            )

        found = outcome_of(call, book)
        if found.spent or not found.ended.startswith("SourceError"):
            faults.append(f"forgery {at}: {found.ended[:60]}, spent {len(found.spent)}")
    return faults


def lets_go(folder: Path) -> list[str]:
    """Check that a SQLite file can be written to directly after a release."""
    path = folder / "lock.sqlite"
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x0 REAL, x1 REAL)")
        db.executemany("INSERT INTO t VALUES (?, ?)", [(0.5, 1.0)] * 9)
    db.close()
    request = Request(schema=X, epsilon=1.0, mechanism="laplace", denoise="none")
    dpcov.api.prepare(DatabaseTable(path, "t"), request).run()
    with sqlite3.connect(path, timeout=0) as db:
        try:
            db.execute("DELETE FROM t")
            db.commit()
        except sqlite3.OperationalError:
            return ["locked"]
        finally:
            db.rollback()
    db.close()
    return []


def prints_no_sums() -> list[str]:
    """Check that the text form of exact sums and of a release contains no sums."""
    rows = open_rows(TABLE, X, threads=1)
    held = [rows.second_moments()[0], PartialMoment.of(TABLE, X), rows.integer_rows()]
    secrets = {str(cell) for cell in rows.second_moments()[0].units.ravel() if abs(cell) > 99}
    faults = [type(one).__name__ for one in held if any(secret in repr(one) for secret in secrets)]
    made = dpcov.release(TABLE, schema=X, epsilon=1.0, mechanism="laplace", denoise="none")
    return faults + (["a long repr of a release"] if str(made).count("\n") > 9 else [])


def largest_cell(source: DataSource, kind: str) -> list[str]:
    """Check that no reader passes on a cell far above the public size limit.

    The database engine must omit such a cell. SQLite counts bytes of its own encoding, which can be
    twice as long.
    """
    cells = ["x", "y" * 300_000]
    columns = {"x0": (kind, cells), "x1": (source.whole, [1, 2]), "x2": (source.whole, [1, 2])}
    (data,) = source.tables([columns])
    reader = open_source(data, X.file, ())
    longest = 0
    for batch in reader.batches(["x0"]):
        found = [one for one in batch.column(0).to_pylist() if one is not None]
        longest = max([longest, *map(len, found)])
    if hasattr(reader, "close"):
        reader.close()
    return [f"a cell of {longest} letters"] if longest > 2**17 else []


CODES = {"columns": {"x0": PLAIN | {"missing": "level"}}, "missing": ["", "999.9", "-0.3"]}
READ_ALIKE = ["999.9", "-0.3", "36.9", "0.1"]
DECIMALS = (pa.decimal128(5, 1), pa.decimal256(60, 20), pa.float32(), pa.float16())


def codes_of_every_type() -> list[str]:
    """Check that missing codes and conditions match the cell itself, in every numeric type."""
    schema, faults = Schema.parse(CODES), []
    asked = Schema.parse(CODES | {"columns": {"x1": PLAIN}, "where": {"x0": "number"}})
    least = Conditions.parse(["x0 <= 0.1", "x0 >= 0.1", "x0 = 0.1"], asked)
    for kind in DECIMALS:
        cells = [Decimal(cell) if pa.types.is_decimal(kind) else float(cell) for cell in READ_ALIKE]
        held = [np.float16(cell) for cell in cells] if pa.types.is_float16(kind) else cells
        table = pa.table({"x0": pa.array(held, kind), "x1": [1.0] * len(cells)})
        numbers = Encoder(schema, Lattice.of(schema)).blocks(table.to_batches()[0])
        absent = [bool(cell) for block in numbers for cell in block[1]]
        if absent != [True, True, False, False]:
            faults.append(f"{kind}: codes are met by {absent}")
        rows = open_rows(table, Schema.parse({"columns": {"x1": PLAIN}}), least, threads=1)
        if (kept := rows.hashed_moment()[0].unit_count) != 1:
            faults.append(f"{kind}: {kept} rows of 1")
    return faults


def named_like_a_path(folder: Path) -> list[str]:
    """Check that the Parquet column p.a is read if there is also a struct p."""
    path = folder / "paths.parquet"
    pq.write_table(pa.table({"p": [{"a": -5.0}] * 2, "p.a": [1.0, 2.0]}), path)
    schema = Schema.parse({"columns": {"p.a": NUMBER}})
    plain = pa.table({"p.a": [1.0, 2.0]})
    images = [open_rows(data, schema, threads=1).hashed_moment()[1] for data in (path, plain)]
    return [] if images[0] == images[1] else ["another column was read"]


def old_timestamps(folder: Path) -> list[str]:
    """Check that an INT96 timestamp keeps its year."""
    path, far = folder / "old.parquet", datetime(9999, 12, 31)
    moments = pa.array([far, datetime(2006, 1, 2), datetime(1600, 1, 1)], pa.timestamp("us"))
    pq.write_table(pa.table({"x0": moments}), path, use_deprecated_int96_timestamps=True)
    bounds = {"kind": "date", "lower": "1500-01-01", "upper": "9999-12-31"}
    schema = Schema.parse({"version": 2, "columns": {"x0": bounds}})
    table = pa.table({"x0": moments})
    images = [open_rows(data, schema, threads=1).hashed_moment()[1] for data in (path, table)]
    return [] if images[0] == images[1] else ["another year"]


def types_that_arrow_lacks() -> list[str]:
    """Check that columns outside the schema refuse no table, whatever their type."""
    plain = {"x0": [1.5, 2.0], "x1": [1.0, 2.0]}
    tables: dict[str, Any] = {
        "Sparse": pd.DataFrame(plain | {"x": pd.Series([0, 1], dtype="Sparse[int]")}),
        "complex": pd.DataFrame(plain | {"x": [1j, 2j]}),
        "Int128": pl.DataFrame(plain).with_columns(pl.lit(1, pl.Int128).alias("x")),
    }
    faults = []
    for name, table in tables.items():
        try:
            with closing(open_rows(table, X, threads=1)) as rows:
                rows.hashed_moment()
        except DpcovError as error:
            faults.append(f"{name}: {error}")
    return faults


def row_security(link: str) -> list[str]:
    """Check that a table whose policies hide rows is refused, or read as a whole."""
    run_in(
        link,
        "DROP TABLE IF EXISTS guarded",
        "CREATE TABLE guarded (x0 double precision, x1 double precision)",
        "INSERT INTO guarded VALUES (1, 1), (2, 2), (3, 3)",
        "ALTER TABLE guarded ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY most ON guarded USING (x1 <> 3)",
        "DO $$ BEGIN CREATE ROLE reader LOGIN PASSWORD 'reader'; "
        "EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT ON guarded TO reader",
    )
    start, place = link.split("@")
    reader = f"{start.split('://')[0]}://reader:reader@{place}"
    role = Role("number", {"x0": NUMBER, "x1": PLAIN})
    found = image(DatabaseTable(reader, "guarded"), role, PLACE)
    return [] if found.refused or found.counts == (3,) else [f"{found.counts} rows of 3"]


def hostile_operator(link: str) -> list[str]:
    """Check that an operator of another role has no effect: neighbours of its secret end alike."""
    run_in(
        link,
        "DROP TABLE IF EXISTS near, far",
        "CREATE OR REPLACE FUNCTION public.spy(a varchar, b varchar) RETURNS boolean AS $$ BEGIN "
        "IF a OPERATOR(pg_catalog.=) 'S3CRET'::text THEN RAISE EXCEPTION 'x'; END IF; "
        "RETURN a::text OPERATOR(pg_catalog.=) b::text; END $$ LANGUAGE plpgsql IMMUTABLE",
        "DROP OPERATOR IF EXISTS public.= (varchar, varchar)",
        "CREATE OPERATOR public.= (FUNCTION = public.spy, LEFTARG = varchar, RIGHTARG = varchar)",
        *(
            f"CREATE TABLE {name} AS SELECT x::varchar AS x0, 1.0::float8 AS x1 "  # noqa: S608
            f"FROM (VALUES ('x'), ('{cell}')) AS t (x)"
            for name, cell in (("near", "y"), ("far", "S3CRET"))
        ),
    )
    role = Role("condition", {"x0": IGNORED, "x1": PLAIN}, {"where": {"x0": "text"}}, ("x0 = 'x'",))
    found = [image(DatabaseTable(link, name), role, PLACE) for name in ("near", "far")]
    run_in(link, "DROP OPERATOR public.= (varchar, varchar)")
    return [] if found[0] == found[1] and found[0].counts == (1,) else ["the operator decides"]


def random_frame(session: Any) -> list[str]:
    """Check that a Spark query whose rows depend on each other is refused."""
    frame = session.range(9).selectExpr("rand(7) AS x0", "cast(id AS double) AS x1")
    return refusal(lambda: open_rows(frame, X), "random numbers")


def spends_nothing_in_vain(folder: Path, mechanism: str, **options: Any) -> list[str]:
    """Check that a distribution that cannot be drawn is found before the charge."""
    book = Book(Path(tempfile.mkdtemp(dir=folder)))
    _, ledger = book.ledger("laws")

    def call() -> Any:
        asked = {"epsilon": 1.0, "delta": 1e-6, "mechanism": mechanism, "denoise": "none"}
        return dpcov.release(TABLE, schema=X, ledger=ledger, **asked, **options)

    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(20)
    began = time.monotonic()
    try:
        found = outcome_of(call, book)
    finally:
        signal.alarm(0)
    ended = found.ended.split(" ", 1)[0]
    fine = not found.spent or ended in ('{"format":', "MechanismRefused")
    return [] if fine else [f"{mechanism} {options}: {ended} in {time.monotonic() - began:.0f} s"]


def _too_long(*_: Any) -> None:
    raise TimeoutError
