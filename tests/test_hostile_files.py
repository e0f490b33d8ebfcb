"""SQLite and DuckDB files as hostile places: each cell is read by itself, and nothing else runs."""

import sqlite3
import tracemalloc
from contextlib import nullcontext
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from dpcov.api import release
from dpcov.errors import SourceError
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import duckdb as duckdb_module
from dpcov.rows.sources import open_rows, open_source, sqlite
from dpcov.rows.sources.sql import Connected, DatabaseTable
from strategies import categorical, moment, numeric, same, schema_of

HUGE = 2 * 10**7


def stored(path: Path, columns: str, rows: list[tuple], *more: str) -> DatabaseTable:
    """Write a table `t` to a new SQLite file."""
    path.unlink(missing_ok=True)
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE TABLE t ({columns})")
        marks = ", ".join("?" * len(rows[0])) if rows else ""
        db.executemany(f"INSERT INTO t VALUES ({marks})", rows)  # noqa: S608
        for statement in more:
            db.execute(statement)
    db.close()
    return DatabaseTable(path, "t")


def made(path: Path, *statements: str) -> DatabaseTable:
    """Write a table `t` to a new DuckDB file."""
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as db:
        for statement in statements:
            db.execute(statement)
    return DatabaseTable(path, "t")


def source_of(data: DatabaseTable):
    return open_source(data, FileOptions(), ())


def column(data: DatabaseTable, name: str) -> list:
    return [cell for batch in source_of(data).batches([name]) for cell in batch[0].to_pylist()]


def unit(kind: str) -> dict:
    return {"column": "id", "type": kind, "max_rows": 1}


# SQLite

DECLARED = ["", "TEXT", "INTEGER", "REAL", "BOOLEAN", "DECIMAL(9, 2)", "NUMERIC", "DATE"]
CLEAN = [(1,), (2.5,), (3,)]
EXTREME = [1.5, 2.0, -(2**63), 2**63 - 1, 1e300, float("inf"), -0.0, "", "x", "1_000", " 2", "1e9"]
EXTREME += [b"1", None, "9" * 70000, "true", 0.1 + 0.2]
ASKED = [
    Schema.parse({"columns": {"a": numeric(-10, 10)}}),
    Schema.parse({"columns": {"a": categorical(1, "1.5", "x", True, missing="level")}}),
]


def check_alone(folder: Path, declared: str) -> None:
    """Check that a cell adds the same alone and among clean cells: to a mean and to levels."""
    for schema in ASKED:
        clean = moment(stored(folder / "clean", f"a {declared}", CLEAN), schema).units
        for cell in EXTREME:
            alone = moment(stored(folder / "one", f"a {declared}", [(cell,)]), schema).units
            data = stored(folder / "both", f"a {declared}", [*CLEAN, (cell,), *CLEAN])
            assert (moment(data, schema).units == 2 * clean + alone).all()


@pytest.mark.parametrize("declared", DECLARED)
def test_a_cell_of_sqlite_is_read_alike_in_clean_company(tmp_path, declared):
    check_alone(tmp_path, declared)


def test_control_a_bulk_reader_of_integers_cuts_its_neighbours(tmp_path, monkeypatch):
    def bulk(cells):
        try:
            return pa.array(cells, pa.int64()).cast(pa.large_string())
        except (pa.ArrowException, TypeError):
            return sqlite._texts([c if c is None or type(c) is bytes else str(c) for c in cells])

    plain = sqlite._Role("CASE WHEN typeof({0}) <> 'blob' THEN {0} END", bulk, pa.large_string())
    monkeypatch.setattr(sqlite, "_TEXT_ROLE", plain)
    with pytest.raises(AssertionError):
        check_alone(tmp_path, "DECIMAL(9, 2)")


def test_whole_and_decimal_numbers_of_sqlite_are_spelt_exactly(tmp_path):
    numbers = [0, -1, 2**53 + 1, 2**63 - 1, -(2**63), 1.5, 1e22, 0.1, -2.0]
    data = stored(tmp_path / "n", "a", [(number,) for number in numbers])
    spelt = column(data, "a")
    assert spelt[:5] == [str(number) for number in numbers[:5]]
    assert [float(text) for text in spelt[5:]] == numbers[5:]
    assert spelt[-1] == "-2"


def test_a_column_of_decimals_has_their_mean(tmp_path):
    data = stored(tmp_path / "d", "a DECIMAL(9, 2)", [(0.75,)] * 2000)
    made = release(data.database, table="t", schema=schema_of("a", lower=0, upper=1), epsilon=100.0)
    assert made.mean()[0] == pytest.approx(0.75, abs=0.01)  # it was 0


def test_truth_values_that_pandas_wrote_meet_true_and_false(tmp_path):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"smokes": [True, False, True, True]})
    with sqlite3.connect(tmp_path / "p") as db:
        frame.to_sql("t", db, index=False)
    db.close()
    schema = Schema.parse({"columns": {"smokes": categorical(True, False)}})
    data = DatabaseTable(tmp_path / "p", "t")
    assert same(moment(data, schema), moment(frame, schema))
    assert moment(data, schema).units.diagonal().any()


def test_a_huge_cell_of_sqlite_is_missing_and_never_fetched(tmp_path):
    data = stored(tmp_path / "h", "a TEXT, b REAL, c BLOB", [("x", 1.0, b"x")])
    with sqlite3.connect(tmp_path / "h") as db:
        words = ("x" * HUGE, "x" * HUGE, b"x" * HUGE)
        db.execute("INSERT INTO t VALUES (?, ?, ?)", words)
        db.execute("INSERT INTO t VALUES (?, ?, ?)", (("y" * MAX_CELL_BYTES,) * 3))
    db.close()
    tracemalloc.start()
    (batch,) = source_of(data).batches(["a", "b", "c"])
    assert tracemalloc.get_traced_memory()[1] < HUGE / 2
    tracemalloc.stop()
    assert batch["a"].to_pylist() == ["x", None, "y" * MAX_CELL_BYTES]
    assert batch["b"].is_null(nan_is_null=True).to_pylist() == [False, True, True]
    assert batch["c"].to_pylist() == [b"x", None, None]  # a text is no BLOB


def test_texts_in_utf_16_are_the_same_texts(tmp_path):
    words = ["é" * 30000, "é" * 40000, "a" * MAX_CELL_BYTES, "a" * (MAX_CELL_BYTES + 1), "é"]
    schema = Schema.parse({"columns": {"a": categorical("é", other=True, missing="level")}})
    wide = tmp_path / "wide"
    with sqlite3.connect(wide) as db:
        db.execute("PRAGMA encoding = 'UTF-16le'")
        db.execute("CREATE TABLE t (a TEXT)")
        db.executemany("INSERT INTO t VALUES (?)", [(word,) for word in words])
    db.close()
    narrow = stored(tmp_path / "narrow", "a TEXT", [(word,) for word in words])
    found = moment(DatabaseTable(wide, "t"), schema)
    assert same(found, moment(narrow, schema))
    assert same(found, moment(pa.table({"a": words}), schema))


PROGRAMS = {
    "a view": "CREATE VIEW v AS SELECT abs(a) AS a FROM t",
    "a virtual table": "CREATE VIRTUAL TABLE v USING fts5(a)",
    "a computed column": "CREATE TABLE v (a INTEGER, b AS (abs(a)) VIRTUAL)",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_in_a_sqlite_file_are_refused_unless_they_are_trusted(tmp_path, name):
    data = stored(tmp_path / "p", "a INTEGER", CLEAN, PROGRAMS[name])
    with pytest.raises(SourceError, match=r"'v' is a view, a .* trust_views=True"):
        source_of(DatabaseTable(data.database, "v"))
    trusted = source_of(DatabaseTable(data.database, "v", trust_views=True))
    assert not trusted.repeatable
    assert "a" in trusted.names


def test_a_view_of_sqlite_may_fail_on_one_row_which_is_why(tmp_path):
    data = stored(tmp_path / "v", "a INTEGER", [*CLEAN, (-(2**63),)], PROGRAMS["a view"])
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(DatabaseTable(data.database, "v", trust_views=True), schema_of("a"))


def test_columns_that_were_computed_when_a_row_was_written_are_stored(tmp_path):
    data = stored(tmp_path / "s", "a INTEGER", CLEAN, "CREATE TABLE s (a, b AS (a + 1) STORED)")
    with sqlite3.connect(data.database) as db:
        db.execute("INSERT INTO s VALUES (1)")
    db.close()
    assert column(DatabaseTable(data.database, "s"), "b") == ["2"]


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM"])
def test_a_collation_of_sqlite_that_calls_texts_equal_holds_no_ids(tmp_path, collation):
    data = stored(tmp_path / "c", f"id TEXT COLLATE {collation}, a INTEGER", [("A", 1), ("a", 1)])
    schema = Schema.parse({"columns": {"a": numeric(0, 10)}, "unit": unit("text")})
    with pytest.raises(SourceError, match="collation treats different texts as equal"):
        open_rows(data, schema)
    plain = stored(tmp_path / "c", "id TEXT, a INTEGER", [("A", 1), ("a", 1)])
    assert moment(plain, schema).unit_count == 2


def test_rows_come_in_one_order_whatever_columns_are_asked_for(tmp_path, monkeypatch):
    rows = [(str(i * 37 % 100), i) for i in range(100)]
    data = stored(tmp_path / "o", "a TEXT, b INTEGER", rows, "CREATE INDEX i ON t (a)")
    source = source_of(data)

    def order(columns: list[str]) -> list:
        return [cell for batch in source.batches(columns) for cell in batch["a"].to_pylist()]

    assert order(["a"]) == order(["a", "b"]) == [word for word, _ in rows]
    monkeypatch.setattr(source, "_from", "t")  # control: an index has another order
    assert order(["a"]) != order(["a", "b"])


# DuckDB

TOTAL = {
    "TINYINT": (["-128", "127"], "1"),
    "BIGINT": (["-9223372036854775808"], "1"),
    "UBIGINT": (["18446744073709551615"], "1"),
    "HUGEINT": (["-170141183460469231731687303715884105727"], "1"),
    "UHUGEINT": (["340282366920938463463374607431768211455"], "1"),
    "DECIMAL(38, 10)": (["9999999999999999999999999999.9999999999"], "1"),
    "FLOAT": (["'nan'", "'-inf'"], "1"),
    "DOUBLE": (["'nan'", "'inf'", "1e308"], "1"),
    "BOOLEAN": (["true"], "false"),
    "VARCHAR": (["''", "'x'", f"repeat('x', {HUGE})", "'1e400'", "chr(0)"], "'1'"),
    "UUID": (["'ffffffff-ffff-ffff-ffff-ffffffffffff'"], "uuid()"),
    "ENUM ('1', 'x')": (["'x'"], "'1'"),
}
SECOND = Schema.parse({"columns": {"a": categorical("1", "x", True, other=True, missing="level")}})


@pytest.mark.parametrize("kind", TOTAL)
def test_one_extreme_cell_of_duckdb_changes_neither_the_outcome_nor_others(tmp_path, kind):
    extreme, ordinary = TOTAL[kind]

    def measured(cells: list[str]) -> list:
        rows = ", ".join(f"({cell})" for cell in cells)
        data = made(tmp_path / "t", f"CREATE TABLE t (a {kind})", f"INSERT INTO t VALUES {rows}")  # noqa: S608
        return [moment(data, schema).units for schema in (ASKED[0], SECOND)]

    clean = measured([ordinary] * 3)
    for cell in [*extreme, "NULL"]:
        both, alone = measured([ordinary, ordinary, cell, ordinary]), measured([cell])
        for i in range(2):
            assert (both[i] - clean[i] == alone[i]).all()


def test_large_integers_of_duckdb_are_exact(tmp_path):
    numbers = [2**127 - 1, -(2**127) + 1]
    data = made(tmp_path / "h", "CREATE TABLE t (a HUGEINT, b UHUGEINT)")
    with duckdb.connect(data.database) as db:
        db.executemany("INSERT INTO t VALUES (?, ?)", [(n, abs(n)) for n in numbers])
    assert column(data, "a") == [str(n) for n in numbers]
    schema = Schema.parse(
        {"columns": {"b": numeric(0, 10)}, "unit": unit("integer") | {"column": "a"}}
    )
    assert moment(data, schema).unit_count == 2


@pytest.mark.parametrize("kind", ["JSON", "DATE", "INTEGER[]", "STRUCT(x INT)", "BIT", "INTERVAL"])
def test_types_of_duckdb_that_have_no_one_text_are_named(tmp_path, kind):
    shown = "STRUCT" if kind.startswith("STRUCT") else kind
    data = made(tmp_path / "u", f"CREATE TABLE t (a INTEGER, id {kind})")
    assert source_of(data).unfit["id"].startswith(shown)
    schema = Schema.parse({"columns": {"a": numeric(0, 10)}, "unit": unit("text")})
    with pytest.raises(SourceError, match="cannot identify persons: its type is"):
        open_rows(data, schema)


def test_a_collation_of_duckdb_that_calls_texts_equal_holds_no_ids(tmp_path):
    schema = Schema.parse({"columns": {"a": numeric(0, 10)}, "unit": unit("text")})
    for collation in ("NOCASE", "NOACCENT"):
        columns = f"id VARCHAR COLLATE {collation}, a INTEGER"
        data = made(tmp_path / "c", f"CREATE TABLE t ({columns})")
        with pytest.raises(SourceError, match="collation treats different texts as equal"):
            open_rows(data, schema)


DUCKDB_PROGRAMS = {
    "a view of another file": ["CREATE VIEW t AS SELECT * FROM read_csv('{0}') AS c(a)"],
    "a view of bytes": ["CREATE VIEW t AS SELECT content::VARCHAR AS a FROM read_blob('{0}')"],
    "a computed column": ["CREATE TABLE t (b VARCHAR, a INTEGER AS (CAST(b AS INTEGER)))"],
}


@pytest.mark.parametrize("name", DUCKDB_PROGRAMS)
def test_programs_in_a_duckdb_file_are_refused_and_reach_nothing_outside(tmp_path, name):
    other = tmp_path / "other.csv"
    other.write_text("1\n2\n3\n")
    statements = [statement.format(other) for statement in DUCKDB_PROGRAMS[name]]
    data = made(tmp_path / "p", *statements)
    with pytest.raises(SourceError, match="trust_views=True"):
        source_of(data)
    if "view" in name:  # trusted or not, no file is opened
        with pytest.raises(SourceError, match="cannot open the DuckDB file"):
            source_of(DatabaseTable(data.database, "t", trust_views=True))
        with duckdb.connect(data.database, read_only=True) as db:  # control
            assert db.execute("SELECT * FROM t").fetchall()


def test_macros_in_a_duckdb_file_stand_for_no_function(tmp_path):
    hostile = [
        f"CREATE MACRO {name} AS error('hostile')"
        for name in ("strlen(x)", "octet_length(x)", "lower(x)", '"<="(x, y)')
    ]
    table = ["CREATE TABLE t (a VARCHAR)", "INSERT INTO t VALUES ('x')"]
    data = made(tmp_path / "m", *table, "CREATE MACRO duckdb_tables() AS TABLE SELECT 1", *hostile)
    assert column(data, "a") == ["x"]
    with duckdb.connect(data.database) as db, pytest.raises(duckdb.Error, match="hostile"):
        db.execute("SELECT strlen(a) FROM t").fetchall()  # control: opened itself, it does


def test_the_settings_of_duckdb_are_locked(tmp_path):
    data = made(tmp_path / "l", "CREATE TABLE t (a INTEGER)")
    connection = source_of(data)._connection
    for statement in ("SET enable_external_access = true", "SET threads = 4", "LOAD httpfs"):
        with pytest.raises(duckdb.Error):
            connection.execute(statement)


# Both


@pytest.fixture(params=["sqlite", "duckdb"])
def file(request, tmp_path) -> DatabaseTable:
    if request.param == "sqlite":
        view = "CREATE VIEW v AS SELECT abs(a) AS a FROM t"
        return stored(tmp_path / "x.sqlite", "a INTEGER", [*[(1,)] * 9000, (-(2**63),)], view)
    rows = "INSERT INTO t SELECT CASE WHEN i = 5000 THEN 'x' ELSE '1' END FROM range(9999) r(i)"
    view = "CREATE VIEW v AS SELECT CAST(a AS INTEGER) AS a FROM t"
    return made(tmp_path / "x.duckdb", "CREATE TABLE t (a VARCHAR)", rows, view)


def held(path: Path) -> list[Path]:
    """Open files of this process that are this one."""
    return [place for place in map(target, Path("/proc/self/fd").iterdir()) if path == place]


def target(link: Path) -> Path | None:
    try:
        return link.readlink()
    except OSError:  # the folder's own, which is closed by now
        return None


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("mechanism", ["laplace", "auto"])
def test_a_file_is_let_go_when_a_release_returns_or_fails(file, mechanism):
    asked = {"schema": schema_of("a"), "epsilon": 1.0, "mechanism": mechanism}
    result = release(file.database, table="t", **asked)
    assert not held(file.database)
    with pytest.raises(SourceError) as failed:
        release(file.database, table="v", trust_views=True, **asked)
    assert not held(file.database)
    with pytest.raises(SourceError) as refused:
        release(file.database, table="v", **asked)
    assert not held(file.database)
    assert result is not None
    assert failed.value.args != refused.value.args


@needs_proc
def test_a_reading_that_stops_half_way_holds_nothing_after_it_is_closed(file, monkeypatch):
    source = source_of(file)
    reading = source.batches(["a"])
    next(reading)
    assert held(file.database)
    source.close()
    assert not held(file.database)

    monkeypatch.setattr(Connected, "_reading", lambda _, cursor: nullcontext(cursor))
    source = source_of(file)
    reading = source.batches(["a"])
    next(reading)
    source.close()
    if isinstance(source, sqlite.SqliteSource):  # control: a cursor that was forgotten
        assert held(file.database)


def test_a_missing_table_has_its_own_message(file):
    for name in ("absent", "absent.t", "a.b.t"):
        with pytest.raises(SourceError, match=f"The database has no table '{name}'"):
            source_of(DatabaseTable(file.database, name))


def test_the_stated_types_are_the_types_of_the_batches(file):
    source = source_of(file)
    for batch in source.batches(source.names):
        assert {field.name: field.type for field in batch.schema} == dict(source.types)


def test_the_memory_of_duckdb_is_bounded_above_any_one_cell():
    assert duckdb_module._CONNECTION_SETTINGS["memory_limit"] == "16GB"
    assert duckdb_module._CONNECTION_SETTINGS["temp_directory"] == ""
