"""Tables of databases: the same integers as from a file, and nothing of them in a message."""

import re
import sqlite3
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import postgres_server
from dpcov.api import prepare
from dpcov.api.grouped import release_by
from dpcov.api.request import Request
from dpcov.cli import main
from dpcov.core.printable import hidden
from dpcov.errors import DpcovError, SourceError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_rows, open_source, sqlite
from dpcov.rows.sources.conditions import Conditions
from dpcov.rows.sources.duckdb import DuckdbSource
from dpcov.rows.sources.postgres import PostgresSource
from dpcov.rows.sources.sql import DatabaseTable
from postgres_server import PASSWORD
from shell_commands import shell
from strategies import categorical, moment, numeric, same, schema_of

SECRET = "S3CRET"  # noqa: S105, no password but a cell to look for
ROWS = 3000


def people() -> pa.Table:
    rng = np.random.default_rng(6)
    weights = rng.normal(70, 20, ROWS)
    return pa.table(
        {
            "id": rng.integers(2**60, 2**60 + 400, ROWS),
            "weight": pa.array(weights, mask=np.arange(ROWS) % 7 == 0),
            "visits": rng.integers(0, 9, ROWS, dtype=np.int32),
            "smokes": pa.array(
                rng.integers(0, 2, ROWS).astype(bool), mask=np.arange(ROWS) % 5 == 0
            ),
            "Town": rng.choice(["Aix", "St 'John'", " é", "1"], ROWS),
            "unused": rng.choice(["a", SECRET], ROWS),
        }
    )


TABLE = people()
COLUMNS = {
    "visits": categorical(0, 1, 2, 3, other=True),
    "weight": numeric(30, 110, missing="level"),
    "smokes": categorical(True, False, missing="level"),
    "Town": categorical("Aix", "St 'John'", "é", 1),
}
SCHEMA = Schema.parse({"columns": COLUMNS, "radius": 1.5})
CHOSEN = Schema.parse({"columns": COLUMNS | {"visits": numeric(0, 9)}})
PERSONS = Schema.parse(
    {"columns": COLUMNS, "unit": {"column": "id", "type": "integer", "max_rows": 3}}
)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    pytest.importorskip("adbc_driver_postgresql", reason="PostgreSQL's driver is not installed")
    if postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with postgres_server.server() as link:
        with postgres_connection(link) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("people", TABLE)
            cursor.execute("CREATE SCHEMA clinic")
            cursor.execute('CREATE TABLE clinic."Odd.""Name" AS SELECT * FROM people')
            cursor.execute(
                "CREATE VIEW failing AS SELECT id, weight, visits, smokes, "
                'CAST(CAST(unused AS int) AS text) AS "Town" FROM people'
            )
            connection.commit()
        yield link


def postgres_connection(link: str):
    from adbc_driver_postgresql import dbapi

    return dbapi.connect(link)


@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sqlite") / "people 50%?.sqlite"
    with sqlite3.connect(path) as db:
        db.execute(
            "CREATE TABLE people (id INTEGER, weight REAL, visits INT, smokes BOOLEAN,"
            ' "Town" TEXT, unused TEXT)'
        )
        rows = zip(*(column.to_pylist() for column in TABLE.columns), strict=True)
        db.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?)", rows)
        db.execute('CREATE TABLE "Odd.""Name" AS SELECT * FROM people')
        db.execute(
            "CREATE VIEW failing AS SELECT id, weight, visits, smokes, "
            "json_extract(unused, '$') AS \"Town\" FROM people"
        )
    db.close()
    return path


@pytest.fixture(scope="session")
def duckdb_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("duckdb") / "people.duckdb"
    with duckdb.connect(path) as db:
        db.register("given", TABLE)
        db.execute("CREATE TABLE people AS SELECT * FROM given")
        db.execute("CREATE SCHEMA clinic")
        db.execute('CREATE TABLE clinic."Odd.""Name" AS SELECT * FROM people')
        db.execute(
            "CREATE VIEW failing AS SELECT id, weight, visits, smokes, "
            'CAST(CAST(unused AS int) AS text) AS "Town" FROM people'
        )
    return path


KINDS = ("postgres", "sqlite_file", "duckdb_file")


@pytest.fixture(params=KINDS)
def database(request) -> str | Path:
    return request.getfixturevalue(request.param)


def test_every_database_gives_the_integers_of_the_table(database, monkeypatch):
    whole = moment(TABLE, SCHEMA)
    assert same(moment(DatabaseTable(database, "people"), SCHEMA), whole)
    monkeypatch.setattr("dpcov.rows.cells.BATCH_CELLS", 400)
    assert same(moment(DatabaseTable(database, "people"), SCHEMA, threads=3), whole)


def test_the_rows_of_each_person_that_count_are_the_same_from_every_database(database):
    assert max(pc.value_counts(TABLE["id"]).field("counts").to_pylist()) > 3
    assert same(moment(DatabaseTable(database, "people"), PERSONS), moment(TABLE, PERSONS))


def test_a_release_can_be_made_for_each_level_from_a_database(database):
    made = release_by(
        database, "Town", schema=SCHEMA, table="people", epsilon=1e4, denoise="none", radius=2.0
    )
    expected = pc.value_counts(pc.utf8_trim_whitespace(TABLE["Town"])).to_pylist()
    counts = {row["values"]: row["counts"] for row in expected}
    assert {town: round(one.count()) for town, one in made.items()} == counts


def test_a_name_may_have_a_schema_dots_and_quotes(database):
    space = "main" if str(database).endswith(".sqlite") else "clinic"
    odd = DatabaseTable(database, f'{space}."Odd.""Name"')
    assert odd.parts == [space, 'Odd."Name']
    schema = schema_of("weight", "visits")
    assert same(moment(odd, schema), moment(TABLE, schema))


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", 'a"b', '"a', "a\0b", '"a"b'])
def test_what_is_no_name_of_a_table_is_refused(sqlite_file, name):
    with pytest.raises(SourceError, match="is not a valid name of a table"):
        open_rows(DatabaseTable(sqlite_file, name), SCHEMA)


def test_conditions_are_tested_here_and_choose_the_same_rows(database):
    where = ["visits >= 1 and visits < 7", "Town != 'Aix'"]
    conditions = Conditions.parse(where, CHOSEN)
    table = DatabaseTable(database, "people")
    expected = open_rows(TABLE, CHOSEN, conditions).second_moments()[0]
    assert 0 < expected.unit_count < ROWS
    assert same(open_rows(table, CHOSEN, conditions).second_moments()[0], expected)


def test_trusted_views_need_a_table(sqlite_file):
    with pytest.raises(SourceError, match="need a table"):
        prepare(TABLE, Request(schema=SCHEMA, trust_views=True, epsilon=1.0))
    request = Request(table="failing", schema=SCHEMA, trust_views=True, epsilon=1.0)
    prepare(sqlite_file, request)


def test_kinds_come_from_declared_types(database):
    kinds = open_source(DatabaseTable(database, "people"), FileOptions(), ()).kinds()
    numbers = [name for name, kind in kinds.items() if kind in ("integer", "number")]
    assert numbers == ["id", "weight", "visits"]
    assert (kinds["weight"], kinds["smokes"]) == ("number", "flag")
    assert list(kinds) == TABLE.column_names


def test_columns_that_were_not_asked_for_are_not_read(database):
    """`Town` can't be read in this view."""
    view = DatabaseTable(database, "failing", trust_views=True)
    schema = schema_of("weight", "visits")
    assert same(moment(view, schema), moment(TABLE, schema))
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(view, SCHEMA)


def test_types_of_postgres_are_read_as_their_texts(postgres):
    cells = ["3.14", "NaN", "Infinity", "1e400", "-1e-400", None, "99999999999999999999.5"]
    with postgres_connection(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TYPE mood AS ENUM ('low', 'high')")
        cursor.execute(
            "CREATE TABLE kinds (n numeric, e mood, d date, u uuid, b bytea, m money, a int[])"
        )
        cursor.executemany(
            "INSERT INTO kinds (n) VALUES (CAST($1 AS numeric))", [(c,) for c in cells]
        )
        cursor.execute("UPDATE kinds SET e = 'low', d = 'infinity' WHERE n < 1e5")
        connection.commit()
    table = DatabaseTable(postgres, "kinds")
    source = open_source(table, FileOptions(), ())
    assert source.kinds() == dict.fromkeys("bma", "ignored") | {
        "d": "date",
        "n": "number",
        "e": "categorical",
        "u": "categorical",
    }
    schema = Schema.parse({"columns": {"n": numeric(0, 10), "e": categorical("low", "high")}})
    texts = pa.table({"n": cells, "e": ["low", None, None, None, "low", None, None]})
    assert same(moment(table, schema), moment(texts, schema))
    with pytest.raises(SourceError, match="'d' has the type date"):
        open_rows(table, schema_of("d"))
    for name in "dma":
        unit = {"column": name, "type": "text", "max_rows": 1}
        with pytest.raises(SourceError, match=f"{name!r} cannot identify persons"):
            open_rows(table, Schema.parse({"columns": {"n": numeric(0, 10)}, "unit": unit}))


MOMENTS = {
    "born": ["2001-02-03", "1901-02-03", "infinity", "-infinity", "10000-01-01", "0044-03-15 BC"],
    "seen": ["2001-02-03 04:05:06.789", "9999-12-31 23:59:59", *4 * ["infinity"]],
    "kept": ["2001-02-03 04:05:06+05:30", "0001-01-01", "294000-01-01", *3 * ["-infinity"]],
}


def test_dates_of_postgres_are_those_of_their_texts_and_none_makes_a_reading_fail(postgres):
    with postgres_connection(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE towns (code text PRIMARY KEY)")
        cursor.execute(
            "CREATE TABLE moments (born date UNIQUE, seen timestamp, kept timestamptz, "
            "town text REFERENCES towns(code), UNIQUE (born, seen))"
        )
        for row in zip(*MOMENTS.values(), strict=True):
            cells = ", ".join(f"'{cell}'" for cell in row)
            cursor.execute(f"INSERT INTO moments VALUES ({cells}, NULL)")  # noqa: S608
        connection.commit()
    bounds = {"lower": "1950-01-01", "upper": "2020-01-01"}
    kinds = {"born": "date", "seen": "time", "kept": "time"}
    columns = {name: {"kind": kind, **bounds} for name, kind in kinds.items()}
    schema = Schema.parse({"version": 2, "columns": columns})
    table = DatabaseTable(postgres, "moments")
    source = open_source(table, FileOptions(), ())
    assert source.kinds() == kinds | {"town": "categorical"}
    assert source.keys() == {
        "born": "unique of the database",
        "town": "a foreign key of the database",
    }
    expected = open_rows(pa.table(MOMENTS), schema).hashed_moment()
    found = open_rows(table, schema).hashed_moment()
    assert same(found[0], expected[0])
    assert not same(moment(pa.table(MOMENTS).slice(1), schema), expected[0])  # control


def test_all_readings_of_postgres_see_one_snapshot(postgres):
    with postgres_connection(postgres) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE growing AS SELECT * FROM people")
        connection.commit()
        rows = open_rows(DatabaseTable(postgres, "growing"), PERSONS)
        cursor.execute("INSERT INTO growing SELECT * FROM people")
        connection.commit()
    assert same(rows.second_moments()[0], moment(TABLE, PERSONS))


ODD_NUMBERS = [1, 2.5, 3.0, 2**60, 1e300, float("inf"), -0.0]
ODD_CELLS = [*ODD_NUMBERS, "4", "4.0", " 5", "x", b"6", b"\xff", None]
DECLARED = ["", "TEXT", "INTEGER", "REAL", "BOOLEAN", "DECIMAL(9, 2)", "DATE"]
LEVELS = categorical(1, 2.5, "x", "4.0", missing="level")


@pytest.mark.parametrize("declared", DECLARED)
@pytest.mark.parametrize("column", [numeric(-10, 10), LEVELS])
def test_each_cell_of_sqlite_is_read_by_itself(tmp_path, declared, column):
    def stored(name: str, cells: list) -> DatabaseTable:
        with sqlite3.connect(tmp_path / name) as db:
            db.execute(f"CREATE TABLE odd (a {declared})")
            db.executemany("INSERT INTO odd VALUES (?)", [(cell,) for cell in cells])
            db.execute("INSERT INTO odd VALUES (CAST(X'ff78' AS TEXT))")
        db.close()
        return DatabaseTable(tmp_path / name, "odd")

    schema = Schema.parse({"columns": {"a": column}})
    nothing = moment(stored("none.sqlite", []), schema).units
    alone = [
        moment(stored(f"{i}.sqlite", [cell]), schema).units - nothing
        for i, cell in enumerate(ODD_CELLS)
    ]
    whole = moment(stored("all.sqlite", ODD_CELLS), schema)
    assert (whole.units - nothing == sum(alone)).all()
    assert len({tuple(m.ravel()) for m in alone}) > 1
    blob, null = (alone[ODD_CELLS.index(cell)] for cell in (b"6", None))
    assert (blob == null).all()


SEVEN = [7, 7.0, "7", "7.0", " 7 ", "7e0"]
BEYOND = [2.0**63, 1e20, -1e20, float("inf")]
DIGITS = ["1" * 32, "1" * 31 + "2", "1e20", "100000000000000000000"]
NO_NUMBERS = ["True", "false", "x", b"7", "", None]


def stored_ids(path: Path, declared: str, cells: list) -> DatabaseTable:
    with sqlite3.connect(path) as db:
        db.execute(f"CREATE TABLE ids (id {declared}, n INTEGER)")
        db.executemany("INSERT INTO ids VALUES (?, 1)", [(cell,) for cell in cells])
    db.close()
    return DatabaseTable(path, "ids")


def persons_of(table: DatabaseTable, declared: str) -> int:
    unit = {"column": "id", "type": declared, "max_rows": 1}
    return moment(table, Schema.parse({"columns": {"n": numeric(0, 2)}, "unit": unit})).unit_count


@pytest.mark.parametrize("declared", ["", "TEXT", "INTEGER", "REAL", "NUMERIC", "BOOLEAN"])
def test_what_sqlite_made_a_large_float_of_is_nobody_and_so_is_what_is_no_number(
    tmp_path, declared
):
    found = {
        name: persons_of(stored_ids(tmp_path / name, declared, cells), "decimal")
        for name, cells in {
            "seven": SEVEN,
            "sure": [2.0**53],
            "beyond": BEYOND if declared != "TEXT" else [],  # there the text is the person's
            "digits": DIGITS,
            "none": NO_NUMBERS,
        }.items()
    }
    kept = declared in ("", "TEXT")  # as texts, of which two are one number
    assert found == {"seven": 1, "sure": 1, "beyond": 0, "digits": 3 if kept else 0, "none": 0}


def test_a_whole_float_below_2_to_the_63_is_what_sqlite_stores_it_as(tmp_path):
    """An integer in a column of integers, which has every digit; in others it stays a float."""
    cells = [2.0**53 + 2, 2.0**60]
    for declared, count in {"INTEGER": 2, "NUMERIC": 2, "REAL": 0, "": 0}.items():
        assert (
            persons_of(stored_ids(tmp_path / f"ids{declared}", declared, cells), "integer") == count
        )


@pytest.mark.parametrize("declared", ["INTEGER", "NUMERIC", ""])
def test_uuids_of_decimal_digits_are_persons_as_texts_and_nobody_once_they_are_floats(
    tmp_path, declared
):
    texts = stored_ids(tmp_path / "texts", "TEXT", DIGITS[:2])
    assert persons_of(texts, "uuid") == 2
    assert persons_of(stored_ids(tmp_path / "n", declared, DIGITS[:2]), "uuid") == 2 * (
        not declared
    )


def test_as_a_feature_a_large_float_of_sqlite_is_a_number(tmp_path):
    wide = Schema.parse({"columns": {"id": numeric(0, 1e21)}})
    for declared in ("INTEGER", "REAL", ""):
        table = stored_ids(tmp_path / f"{declared}.sqlite", declared, [1e20, 2.0**60, 7.0])
        assert same(moment(table, wide), moment(pa.table({"id": [1e20, 2.0**60, 7.0]}), wide))


def test_ids_beyond_53_bits_are_distinct(sqlite_file, duckdb_file):
    schema = Schema.parse(
        {"columns": COLUMNS, "unit": {"column": "id", "type": "integer", "max_rows": 1}}
    )
    count = len(set(TABLE["id"].to_pylist()))
    for path in (sqlite_file, duckdb_file):
        assert moment(DatabaseTable(path, "people"), schema).unit_count == count


def test_a_table_of_duckdb_is_never_a_variable(duckdb_file, monkeypatch):
    monkeypatch.setattr("dpcov.rows.sources.duckdb.nearby", TABLE, raising=False)
    with pytest.raises(SourceError, match="no table 'nearby'"):
        open_rows(DatabaseTable(duckdb_file, "nearby"), SCHEMA)


@pytest.mark.parametrize(
    ("module", "package", "kind"),
    [
        ("duckdb", 'pip install "duckdb', DuckdbSource),
        ("adbc_driver_postgresql.dbapi", 'pip install "adbc-driver-postgresql', PostgresSource),
    ],
)
def test_a_missing_driver_says_what_to_install(monkeypatch, module, package, kind):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SourceError, match=package):
        kind(DatabaseTable("postgresql://x", "t"))


@pytest.mark.parametrize("name", ["people.sqlite", "people.duckdb"])
def test_a_database_without_a_table_asks_for_one(request, name):
    path = request.getfixturevalue(f"{name.split('.')[1]}_file")
    with pytest.raises(SourceError, match="needs the name of a table"):
        open_rows(path, SCHEMA)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("no postgresql://u:p@h/d here", "no (link) here"),
        ("postgresql:/u:p@h/d", "(link)"),
        (f"{'x' * 2**17}://u:p@h/d", f"{'x' * (2**17 - 31)}(link)"),
        ("host=h password = 'a b' port=1", "host=h password = (hidden) port=1"),
        ("PASSWORD=ab", "PASSWORD=(hidden)"),
        ("folder/people:1.csv", "folder/people:1.csv"),
    ],
)
def test_links_and_passwords_are_hidden_and_paths_are_not(text, shown):
    assert hidden(text) == shown


HIDDEN = (PASSWORD, SECRET)
FAILURES: dict[str, Callable[[str], tuple[str, str, list[str]]]] = {
    "wrong port": lambda link: (link.replace("127.0.0.1:", "127.0.0.1:1"), "people", []),
    "wrong host": lambda link: (link.replace("127.0.0.1", "nowhere.invalid"), "people", []),
    "wrong password": lambda link: (link.replace(PASSWORD, SECRET), "people", []),
    "wrong user": lambda link: (link.replace("tester", PASSWORD), "people", []),
    "wrong database": lambda link: (f"{link}{SECRET}", "people", []),
    "malformed link": lambda link: (link.replace("@", "@@ "), "people", []),
    "another system": lambda link: (link.replace("postgresql", "mysql"), "people", []),
    "no table named": lambda link: (link, "", []),
    "missing table": lambda link: (link, "absent", []),
    "missing column": lambda link: (link, "pg_catalog.pg_authid", []),
    "condition on a missing column": lambda link: (link, "people", ["--where", "absent = 1"]),
    "condition of another type": lambda link: (link, "people", ["--where", "visits = 'x'"]),
    "view": lambda link: (link, "failing", []),
    "failing view": lambda link: (link, "failing", ["--trust-views"]),
    "argument too many": lambda link: (link, "people", [link]),
    "link as a condition": lambda link: (link, "people", ["--where", link]),
    "password words": lambda _: (f"host=127.0.0.1 password={PASSWORD}", "people", []),
    "password words, no table": lambda _: (f"host=127.0.0.1 password='{PASSWORD}'", "", []),
}


@pytest.mark.parametrize("name", FAILURES)
def test_no_failure_shows_the_password_or_a_cell(postgres, name, tmp_path, capfd, caplog):
    link, table, more = FAILURES[name](postgres)
    (tmp_path / "s.toml").write_text(TOML)
    command = ["release", link, "--schema", str(tmp_path / "s.toml"), "--epsilon", "1"]
    command += ["--table", table] if table else []
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with pytest.raises(SystemExit) as ended:
            main([*command, "--out", str(tmp_path / "out.json"), *more])
    assert ended.value.code == 2
    shown = "\n".join([*capfd.readouterr(), caplog.text, *(str(w.message) for w in heard)])
    assert "dpcov: " in shown
    assert not any(word in shown for word in HIDDEN)
    assert not (tmp_path / "out.json").exists()


TOML = """
columns.visits = { kind = "numeric", lower = 0, upper = 9 }
columns.Town = { kind = "categorical", levels = ["Aix"] }
"""


def test_control_the_driver_does_quote_cells(postgres):
    from adbc_driver_postgresql import dbapi

    with pytest.raises(dbapi.Error) as caught:
        dbapi.connect(f"{postgres}{SECRET}")
    assert SECRET in str(caught.value)


def test_neither_the_link_nor_its_password_is_in_an_error_or_a_repr(postgres):
    table = DatabaseTable(postgres, "absent")
    assert PASSWORD not in repr(table)
    with pytest.raises(DpcovError) as caught:
        open_rows(table, SCHEMA)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_the_command_line_releases_from_every_database(database, tmp_path, capfd):
    (tmp_path / "s.toml").write_text(TOML)
    main_args = ["release", str(database), "--table", "people", "--epsilon", "5"]
    main_args += ["--schema", str(tmp_path / "s.toml"), "--out", str(tmp_path / "out.json")]
    with pytest.raises(SystemExit) as ended:
        main([*main_args, "--where", "visits >= 3"])
    assert ended.value.code == 0
    with pytest.raises(SystemExit):
        main(["schema", str(database), "--table", "people"])
    shown = capfd.readouterr()
    assert "[columns.visits]" in shown.out
    assert not any(word in shown.out + shown.err for word in HIDDEN)


@pytest.mark.parametrize("at", [0.02, 0.3, 0.6])
@pytest.mark.parametrize("kind", ["sqlite_file", "duckdb_file"])
def test_a_damaged_file_is_refused_without_a_word_of_it(tmp_path, request, kind, at):
    content = request.getfixturevalue(kind).read_bytes()
    damaged = content[: int(at * len(content))] + SECRET.encode() * 3000
    (tmp_path / "d.db").write_bytes(damaged)
    with pytest.raises(SourceError) as caught:
        moment(DatabaseTable(tmp_path / "d.db", "people"), SCHEMA)
    assert SECRET not in str(caught.value)


def test_a_batch_of_sqlite_is_bounded(sqlite_file):
    source = open_source(DatabaseTable(sqlite_file, "people"), FileOptions(), ())
    assert max(batch.num_rows for batch in source.batches(["visits"])) <= sqlite.BATCH_ROWS


BLANKS = pa.table(
    {
        "x": ["1", "\u00a02\u00a0", " 3", "\u22124", "1\u00a0000", "1\u2009000", "\u30005", None],
        "c": ["a", "\u00a0a", "a\u00a0", "b\u2009", "\u3000b", "a b", "a\u00a0b", None],
    }
)
BLANKS_SCHEMA = Schema.parse(
    {"columns": {"x": numeric(-10, 2000, missing="level"), "c": categorical("a", "b", "a b")}}
)


def test_blanks_and_minus_signs_of_unicode_mean_the_same_in_a_database(postgres, tmp_path):
    with sqlite3.connect(tmp_path / "blanks.sqlite") as db:
        db.execute("CREATE TABLE blanks (x TEXT, c TEXT)")
        rows = zip(*(column.to_pylist() for column in BLANKS.columns), strict=True)
        db.executemany("INSERT INTO blanks VALUES (?, ?)", rows)
    db.close()
    with postgres_connection(postgres) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("blanks", BLANKS)
        connection.commit()
    expected = moment(BLANKS, BLANKS_SCHEMA)
    for table in (
        DatabaseTable(postgres, "blanks"),
        DatabaseTable(tmp_path / "blanks.sqlite", "blanks"),
    ):
        assert same(moment(table, BLANKS_SCHEMA), expected)
    numbers, levels = ["1", "2", "3", "-4", None, None, "5", None], ["a", "a", "a", "b", "b", "a b"]
    plain = pa.table({"x": numbers, "c": [*levels, None, None]})  # a level is "a b" with a blank
    assert same(moment(plain, BLANKS_SCHEMA), expected)
    wrong = pa.table({"x": numbers, "c": [*levels, "a b", None]})  # control
    assert not same(moment(wrong, BLANKS_SCHEMA), expected)


def test_the_commands_and_the_view_of_the_page_run_on_a_server(postgres, tmp_path, monkeypatch):
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "databases.md").read_text("utf-8")
    (schema,) = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "visits.toml").write_text(schema)
    (block,) = re.findall(r"<!-- run: server -->\n```console\n(.*?)^```", page, re.S | re.M)
    installs, exports, releases = (
        part.strip() for part in re.split(r"^\$ ", block, flags=re.M)[1:]
    )
    assert installs.startswith("pip install ")
    assert exports == "export PGPASSWORD=..."
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    link = postgres.replace(f":{PASSWORD}@", "@")
    (view,) = re.findall(r"^```sql\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    rows = (
        "SELECT i AS person, i % 90 AS age, 100 + i % 60 AS pressure FROM generate_series(1, 999) i"
    )
    postgres_server.run(
        postgres,
        "SET search_path TO public",
        f"CREATE TABLE visits AS {rows}",
        "CREATE TABLE homes AS SELECT person, 'north' AS region FROM visits",
        view,
    )
    shell("dpcov ledger create visits.ledger --epsilon 3", tmp_path)
    shell(releases.replace("postgresql://reader@db.example/clinic", link), tmp_path)
    again = releases.replace("--table visits", "--table released").replace(
        "visits.release.json", "again.json"
    )
    shell(again.replace("postgresql://reader@db.example/clinic", link), tmp_path)
    with pytest.raises(subprocess.CalledProcessError):  # control: no such table
        shell(again.replace("released", "absent"), tmp_path)
