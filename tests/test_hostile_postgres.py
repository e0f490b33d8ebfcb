"""PostgreSQL as a hostile place: what other roles put there decides nothing."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

import postgres_server
from dpcov.api import release
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.errors import SourceError
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_rows, open_source, postgres
from dpcov.rows.sources.sql import DatabaseTable
from postgres_server import PASSWORD, as_role, create_database, run
from strategies import categorical, moment, numeric, same, schema_of

dbapi = pytest.importorskip(
    "adbc_driver_postgresql.dbapi", reason="PostgreSQL's driver is not installed"
)

TOWNS = ["Zürich", "Genève", "x", "1", None]
PEOPLE = pa.table({"n": range(len(TOWNS)), "t": TOWNS})
SCHEMA = Schema.parse({"columns": {"n": numeric(0, 10), "t": categorical("Zürich", "Genève", 1)}})
RAISES = "LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'hostile'; END$$"
ROLES = ("reader", "other", "stranger")


@pytest.fixture(scope="module")
def link() -> Iterator[str]:
    if postgres_server.binaries() is None:
        pytest.skip("no PostgreSQL server is installed")
    with postgres_server.server() as server:
        run(server, *(f"CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'" for role in ROLES))
        run(server, "GRANT CREATE ON SCHEMA public TO other")
        table(server, "people", "n int, t varchar", rows_of(TOWNS))
        yield server


def table(link: str, name: str, columns: str, *rows: str) -> str:
    """Create a table that `reader` can read, and return its name."""
    create = [f"DROP TABLE IF EXISTS public.{name}", f"CREATE TABLE public.{name} ({columns})"]
    fill = [f"INSERT INTO public.{name} VALUES {', '.join(rows)}"] if rows else []  # noqa: S608
    run(link, *create, *fill, f"GRANT SELECT ON public.{name} TO reader")
    return name


def rows_of(towns: list[str | None]) -> str:
    cells = ("NULL" if town is None else f"'{town}'" for town in towns)
    return ", ".join(f"({i}, {cell})" for i, cell in enumerate(cells))


def source_of(link: str, name: str, *, trust: bool = False):
    return open_source(DatabaseTable(link, name, trust), FileOptions(), ())


def column(link: str, name: str, cells: str) -> list:
    return [cell for b in source_of(link, name).batches([cells]) for cell in b[0].to_pylist()]


HOSTILE = {  # what another role defines, a query that it decides, and how to be rid of it
    "an operator of the driver": (
        [
            f"CREATE FUNCTION public.evil(regproc, int) RETURNS boolean {RAISES}",
            "CREATE OPERATOR public.<> (LEFTARG = regproc, RIGHTARG = int, FUNCTION = public.evil)",
        ],
        "SELECT typreceive <> 0 FROM pg_catalog.pg_type LIMIT 1",
        "DROP FUNCTION public.evil(regproc, int) CASCADE",
    ),
    "a function of texts": (
        [f"CREATE FUNCTION public.octet_length(varchar) RETURNS int {RAISES}"],
        "SELECT octet_length(t) FROM public.people",
        "DROP FUNCTION public.octet_length(varchar)",
    ),
    "an operator of texts": (
        [
            f"CREATE FUNCTION public.evil(varchar, varchar) RETURNS boolean {RAISES}",
            "CREATE OPERATOR public.= (LEFTARG = varchar, RIGHTARG = varchar, "
            "FUNCTION = public.evil)",
        ],
        "SELECT t = 'x'::varchar FROM public.people",
        "DROP FUNCTION public.evil(varchar, varchar) CASCADE",
    ),
}


@contextmanager
def defined(link: str, name: str) -> Iterator[str]:
    """Define something hostile; gives the query that it decides."""
    create, query, drop = HOSTILE[name]
    run(as_role(link, "other"), *create)
    try:
        yield query
    finally:
        run(link, drop)


@pytest.mark.parametrize("name", HOSTILE)
def test_what_another_role_puts_on_the_search_path_never_runs(link, name):
    reader = as_role(link, "reader")
    with defined(link, name) as query:
        assert same(moment(DatabaseTable(reader, "people"), SCHEMA), moment(PEOPLE, SCHEMA))
        with pytest.raises(dbapi.Error, match="hostile"):  # control: in a plain session it does
            postgres_rows(reader, query)


def postgres_rows(link: str, query: str) -> list[tuple]:
    with dbapi.connect(link) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


def test_control_a_search_path_set_after_the_first_packet_is_too_late(link, monkeypatch):
    reader = as_role(link, "reader")
    monkeypatch.setattr(postgres, "guarded", lambda given: given)
    source_of(reader, "people").close()
    with defined(link, "an operator of the driver"), pytest.raises(SourceError):
        source_of(reader, "people")


def test_control_with_the_usual_path_and_plain_names_it_would_run(link, monkeypatch):
    read = {
        kind: e.replace("pg_catalog.octet", "octet")
        for kind, e in postgres._READ_EXPRESSIONS.items()
    }
    monkeypatch.setattr(postgres, "_READ_EXPRESSIONS", read)
    data = DatabaseTable(as_role(link, "reader"), "people")
    with defined(link, "a function of texts"):
        assert moment(data, SCHEMA).unit_count == len(TOWNS)  # the path alone is enough
        usual = postgres._RESOLUTION_QUERY.replace("'pg_catalog, pg_temp'", "'public'")
        monkeypatch.setattr(postgres, "_RESOLUTION_QUERY", usual.replace("true)", "false)"))
        with pytest.raises(SourceError, match="could not read the data to the end"):
            moment(data, SCHEMA)


def test_the_link_keeps_its_own_options_and_a_question_mark_in_its_password(monkeypatch):
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=8MB")
    start = "-c%20search_path%3Dpg_catalog%2Cpg_temp%20-c%20row_security%3Doff&client_encoding=UTF8"
    guarded = postgres.guarded
    assert guarded("postgresql://h/d") == f"postgresql://h/d?options=-c%20work_mem%3D8MB%20{start}"
    assert guarded(
        "postgresql://u:a?b@h/d?sslmode=require&options=-c%20a%3Db&client_encoding=x"
    ) == (f"postgresql://u:a?b@h/d?sslmode=require&options=-c%20a%3Db%20{start}")


def their_table(link: str) -> None:
    """Create a table in a schema that only the reader can use."""
    run(link, "CREATE SCHEMA IF NOT EXISTS clinic")
    run(link, "CREATE TABLE IF NOT EXISTS clinic.theirs (n int)")
    run(link, "GRANT USAGE ON SCHEMA clinic TO reader", "GRANT SELECT ON clinic.theirs TO reader")


def test_a_table_is_found_along_the_roles_own_search_path(link):
    their_table(link)
    reader = as_role(link, "reader")
    with pytest.raises(SourceError, match="no table 'theirs'"):
        source_of(reader, "theirs")
    run(link, "ALTER ROLE reader IN DATABASE postgres SET search_path = clinic, public")
    assert source_of(reader, "theirs").names == ("n",)
    run(link, "ALTER ROLE reader IN DATABASE postgres RESET search_path")
    assert source_of(reader, "clinic.theirs").names == ("n",)


def test_a_cast_of_an_enumeration_is_never_run(link):
    run(
        link,
        "CREATE TYPE public.mood AS ENUM ('low', 'high')",
        f"CREATE FUNCTION public.told(public.mood) RETURNS text {RAISES}",
        "CREATE CAST (public.mood AS text) WITH FUNCTION public.told(public.mood) AS IMPLICIT",
        "CREATE DOMAIN public.temper AS public.mood",
    )
    table(link, "moods", "m public.mood, d public.temper", "('low', 'high'), (NULL, NULL)")
    assert column(link, "moods", "m") == ["low", None]
    assert column(link, "moods", "d") == ["high", None]
    with pytest.raises(dbapi.Error, match="hostile"):  # control
        postgres_rows(link, "SELECT CAST(m AS text) FROM public.moods WHERE m IS NOT NULL")


def test_row_security_is_refused_and_its_rows_are_never_silently_fewer(link):
    table(link, "secured", "n int, t varchar", rows_of(TOWNS))
    run(
        link,
        "ALTER TABLE public.secured ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY few ON public.secured USING (n < 2)",
    )
    with pytest.raises(SourceError, match="Row security can hide rows"):
        source_of(as_role(link, "reader"), "secured")
    assert same(moment(DatabaseTable(link, "secured"), SCHEMA), moment(PEOPLE, SCHEMA))  # the owner
    # Control: a plain session filters without a word.
    assert len(postgres_rows(as_role(link, "reader"), "SELECT n FROM public.secured")) == 2


def test_a_policy_that_comes_after_the_check_is_an_error_of_the_query_itself(link, monkeypatch):
    table(link, "secured", "n int, t varchar", rows_of(TOWNS))
    run(link, "ALTER TABLE public.secured ENABLE ROW LEVEL SECURITY")
    blind = postgres._RELATION_QUERY.replace("pg_catalog.row_security_active(c.oid)", "false")
    monkeypatch.setattr(postgres, "_RELATION_QUERY", blind)
    with pytest.raises(SourceError, match="has no right to read 'secured'"):
        source_of(as_role(link, "reader"), "secured")


PROGRAMS = {
    "a view": ["CREATE VIEW public.program AS SELECT 1 / (n - 3) AS n, t FROM public.people"],
    "a foreign table": [
        "CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA pg_catalog",
        "DROP SERVER IF EXISTS files CASCADE",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE FOREIGN TABLE public.program (n int, t text) SERVER files "
        "OPTIONS (filename '/etc/hostname', format 'csv')",
    ],
    "a table with a foreign child": [
        "CREATE EXTENSION IF NOT EXISTS file_fdw SCHEMA pg_catalog",
        "DROP SERVER IF EXISTS files CASCADE",
        "CREATE SERVER files FOREIGN DATA WRAPPER file_fdw",
        "CREATE TABLE public.program (n int, t text)",
        "CREATE TABLE public.middle () INHERITS (public.program)",
        "CREATE FOREIGN TABLE public.far () INHERITS (public.middle) SERVER files "
        "OPTIONS (filename '/etc/hostname', format 'csv')",
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_others_are_refused_before_anything_unless_they_are_trusted(link, name):
    kind = "VIEW" if "VIEW" in PROGRAMS[name][0] else "TABLE"
    kind = "FOREIGN TABLE" if name == "a foreign table" else kind
    run(link, *PROGRAMS[name])
    try:
        with pytest.raises(SourceError, match="trust_views=True"):
            source_of(link, "program")
        trusted = source_of(link, "program", trust=True)
        assert not trusted.repeatable
        trusted.close()
        with pytest.raises(SourceError, match="could not read the data to the end") as reported:
            moment(DatabaseTable(link, "program", trust_views=True), SCHEMA)
        assert "division" not in str(reported.value)
    finally:
        run(link, f"DROP {kind} public.program CASCADE")


def test_partitions_and_materialized_views_are_stored_rows(link):
    run(
        link,
        "CREATE TABLE public.parted (n int, t text) PARTITION BY RANGE (n)",
        "CREATE TABLE public.part1 PARTITION OF public.parted FOR VALUES FROM (0) TO (2)",
        "CREATE TABLE public.part2 PARTITION OF public.parted FOR VALUES FROM (2) TO (99)",
        f"INSERT INTO public.parted VALUES {rows_of(TOWNS)}",  # noqa: S608
        "CREATE MATERIALIZED VIEW public.kept AS SELECT * FROM public.people",
    )
    for name in ("parted", "kept"):
        assert source_of(link, name).repeatable
        assert same(moment(DatabaseTable(link, name), SCHEMA), moment(PEOPLE, SCHEMA))


def test_rights_may_be_of_some_columns(link):
    table(link, "partly", "n int, t text, secret text", "(1, 'x', 'y')")
    run(link, "REVOKE ALL ON public.partly FROM reader")
    reader = as_role(link, "reader")
    with pytest.raises(SourceError, match=r"has no right to read 'partly'\. Run GRANT SELECT"):
        source_of(reader, "partly")
    run(link, "GRANT SELECT (n, t) ON public.partly TO reader")
    assert moment(DatabaseTable(reader, "partly"), SCHEMA).unit_count == 1
    asked = Schema.parse({"columns": {"secret": categorical("y")}})
    with pytest.raises(SourceError, match="has the type text, which the role may not read"):
        open_rows(DatabaseTable(reader, "partly"), asked)
    unit = {"column": "secret", "type": "text", "max_rows": 1}
    with pytest.raises(SourceError, match="which the role may not read"):
        open_rows(
            DatabaseTable(reader, "partly"),
            Schema.parse({"columns": {"n": numeric(0, 10)}, "unit": unit}),
        )


def test_while_it_is_open_a_table_keeps_its_columns_and_then_it_is_let_go(link):
    table(link, "held", "n int, t text", rows_of(TOWNS))
    source = source_of(as_role(link, "reader"), "held")
    alter = ("SET lock_timeout = 200", "ALTER TABLE public.held ALTER n TYPE text")
    with pytest.raises(dbapi.Error, match="lock timeout"):
        run(link, *alter)
    source.close()
    run(link, *alter)


def test_a_release_that_ends_or_fails_leaves_no_session(link):
    gc.collect()  # what other tests left open
    table(link, "held", "n int, t text", rows_of(TOWNS))
    run(link, "CREATE OR REPLACE VIEW public.raises AS SELECT 1 / n AS n, t FROM public.held")
    asked = {"schema": SCHEMA, "epsilon": 1.0, "mechanism": "laplace"}
    release(link, table="held", **asked)
    with pytest.raises(SourceError):
        release(link, table="raises", trust_views=True, **asked)
    sessions = (
        "SELECT count(*) FROM pg_catalog.pg_stat_activity WHERE backend_type = 'client backend'"
    )
    left = time.monotonic() + 20  # the server ends a session a moment after its client is gone
    while run(link, sessions) != [(1,)]:
        assert time.monotonic() < left
        time.sleep(0.1)


def test_a_cell_beyond_the_cap_never_leaves_the_server(link):
    huge = 3 * 10**7
    table(
        link,
        "huge",
        "n int, t text, b bytea",
        f"(1, repeat('x', {huge}), repeat('y', {huge})::bytea)",
    )
    run(link, "INSERT INTO public.huge VALUES (2, repeat('x', 65536), '\\x00'), (3, 'x', NULL)")
    batches = list(source_of(link, "huge").batches(["n", "t", "b"]))
    cells = [cell for batch in batches for cell in batch.column("t").to_pylist()]
    assert cells == [None, "x" * 65536, "x"]
    assert [cell for batch in batches for cell in batch.column("b").to_pylist()] == [
        None,
        b"\0",
        None,
    ]
    assert sum(batch.nbytes for batch in batches) < 10**6
    assert (
        len(postgres_rows(link, "SELECT t FROM public.huge WHERE n = 1")[0][0]) == huge
    )  # control


def test_decimal_ids_that_are_equal_in_the_database_are_one_person(link):
    spelt = ["7", "7.0", "7.00", "7e0", "70e-1"]
    table(link, "persons", "id numeric, n int", *(f"({word}, 1)" for word in spelt), "(7.5, 1)")
    for declared in ("decimal", "text", "integer"):
        unit = {"column": "id", "type": declared, "max_rows": 1}
        schema = Schema.parse({"columns": {"n": numeric(0, 10)}, "unit": unit})
        counted = moment(DatabaseTable(link, "persons"), schema).unit_count
        assert counted == (1 if declared == "integer" else 2)
    # control: their texts are three
    assert postgres_rows(link, "SELECT count(DISTINCT id::text) FROM public.persons") == [(4,)]


UNFIT = {
    "citext": "public.citext", "jsonb": "jsonb", "json": "json", "interval": "interval",
    "xml": "xml", "money": "money", "timestamp": "timestamp without time zone", "inet": "inet",
    "int[]": "integer[]", "int4range": "int4range",
}  # fmt: skip


@pytest.mark.parametrize("kind", UNFIT)
def test_types_that_have_no_one_text_are_neither_features_nor_ids(link, kind):
    run(link, "CREATE EXTENSION IF NOT EXISTS citext SCHEMA public")
    table(link, "unfit", f"n int, c {'public.citext' if kind == 'citext' else kind}")
    source = source_of(link, "unfit")
    assert source.unfit == {"c": UNFIT[kind]}
    unit = {"column": "c", "type": "text", "max_rows": 1}
    schema = Schema.parse({"columns": {"n": numeric(0, 10)}, "unit": unit})
    with pytest.raises(SourceError, match="cannot identify persons: its type is"):
        open_rows(DatabaseTable(link, "unfit"), schema)


def test_a_collation_that_calls_different_texts_equal_holds_no_ids(link):
    run(
        link,
        "CREATE COLLATION IF NOT EXISTS public.blind "
        "(provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
    )
    table(link, "blind", "id text COLLATE public.blind, n int", "('a', 1), ('A', 1)")
    assert postgres_rows(link, "SELECT count(DISTINCT id) FROM public.blind") == [(1,)]  # control
    unit = {"column": "id", "type": "text", "max_rows": 1}
    with pytest.raises(SourceError, match="collation treats different texts as equal"):
        open_rows(
            DatabaseTable(link, "blind"),
            Schema.parse({"columns": {"n": numeric(0, 10)}, "unit": unit}),
        )


def test_a_database_in_another_encoding_gives_the_same_integers(link, monkeypatch):
    latin = create_database(link, "latin", "LATIN1")
    run(latin, "CREATE TABLE public.people (n int, t text)")
    run(latin, f"INSERT INTO public.people VALUES {rows_of(TOWNS)}")  # noqa: S608
    for asked in ("LATIN1", "SQL_ASCII", "UTF8"):
        monkeypatch.setenv("PGCLIENTENCODING", asked)
        for each in (latin, link):
            assert same(moment(DatabaseTable(each, "people"), SCHEMA), moment(PEOPLE, SCHEMA))
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    (raw,) = postgres_rows_bytes(latin)  # control: a plain session's bytes are no UTF-8
    assert raw == "Zürich".encode("latin1")


def postgres_rows_bytes(link: str) -> list[bytes]:
    with dbapi.connect(link) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT t FROM public.people WHERE n = 0")
        return cursor.fetch_arrow_table()["t"].cast(pa.binary()).to_pylist()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "WIN1252"])
def test_encodings_with_texts_that_have_no_meaning_are_refused(link, encoding):
    other = create_database(link, f"db_{encoding.lower()}", encoding)
    run(other, "CREATE TABLE public.people (n int, t text)")
    with pytest.raises(SourceError, match=f"encoding {encoding}, in which some texts"):
        source_of(other, "people")


def test_every_byte_of_the_accepted_encodings_has_a_meaning_in_utf8(link):
    each = "convert(set_byte('\\x00', 0, i), '{}', 'UTF8')"
    query = f"SELECT count({each}) FROM generate_series(1, 255) i"  # noqa: S608
    for encoding in postgres.UTF8_SAFE_ENCODINGS[1:]:
        assert postgres_rows(link, query.format(encoding)) == [(255,)]
    with pytest.raises(dbapi.Error, match="no equivalent"):  # control
        postgres_rows(link, query.format("WIN1252"))


MESSAGES = {
    "a missing table": (lambda to: (to, "absent"), "The database has no table 'absent'."),
    "a missing schema": (lambda to: (to, "absent.people"), "has no table 'absent.people'."),
    "another database's table": (lambda to: (to, "a.b.c"), "The database has no table 'a.b.c'."),
    "an index": (lambda to: (to, "pg_catalog.pg_class_oid_index"), "has no table"),
    "a missing right": (lambda to: (as_role(to, "stranger"), "people"), "has no right to read"),
    "a missing right to a schema": (
        lambda to: (as_role(to, "stranger"), "clinic.theirs"),
        "has no right to read 'clinic.theirs'",
    ),
    "a wrong password": (
        lambda to: (to.replace(PASSWORD, "x"), "people"),
        postgres.WRONG_PASSWORD_MESSAGE,
    ),
    "no password": (
        lambda to: (to.replace(f":{PASSWORD}", ""), "people"),
        postgres.WRONG_PASSWORD_MESSAGE,
    ),
    "an unknown role": (
        lambda to: (as_role(to, "nobody"), "people"),
        postgres.WRONG_PASSWORD_MESSAGE,
    ),
    "an unknown database": (lambda to: (f"{to}x", "people"), postgres.NO_DATABASE_MESSAGE),
    "a closed port": (lambda to: (closed(to), "people"), postgres.NO_SERVER_MESSAGE),
    "an unknown host": (
        lambda to: (to.replace("127.0.0.1", "nowhere.invalid"), "people"),
        postgres.NO_HOST_MESSAGE,
    ),
    "a port that is none": (
        lambda to: (to.replace("1:", "1:9999"), "people"),
        postgres.INVALID_LINK_MESSAGE,
    ),
    "spaces": (lambda to: (to.replace("@", "@@ "), "people"), postgres.INVALID_LINK_MESSAGE),
    "an unknown parameter": (lambda to: (f"{to}?nope=1", "people"), postgres.INVALID_LINK_MESSAGE),
}


def closed(link: str) -> str:
    port = link.split(":")[-1].split("/")[0]
    return link.replace(port, str(postgres_server.free_port()))


@pytest.mark.parametrize("name", MESSAGES)
def test_each_failure_has_its_own_fixed_message(link, name):
    their_table(link)
    ask, message = MESSAGES[name]
    with pytest.raises(SourceError) as reported:
        source_of(*ask(link))
    assert message in str(reported.value)
    assert PASSWORD not in str(reported.value)
    assert "127.0.0.1" not in str(reported.value)


def test_missing_columns_and_wrong_types_are_named(link):
    with pytest.raises(SourceError, match="no column 'absent'"):
        open_rows(DatabaseTable(link, "people"), schema_of("absent"))
    table(link, "wrong", "d date")
    with pytest.raises(SourceError, match="'d' has the type date"):
        open_rows(DatabaseTable(link, "wrong"), schema_of("d"))


EXTREME = {
    "int": ["-2147483648", "2147483647", "NULL"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "numeric": ["'NaN'", "'Infinity'", "1e131071", "-1e-16383", "NULL"],
    "real": ["'NaN'", "'-Infinity'", "3e38"],
    "double precision": ["'NaN'", "'Infinity'", "1.7e308", "5e-324"],
    "boolean": ["true", "NULL"],
    "text": ["''", "repeat('x', 1000000)", "E'\\x01'", "'1e400'", "'0x1'", "NULL"],
    "varchar": ["repeat('9', 70000)", "' '"],
    "char(9)": ["'a'", "''"],
    "name": ["repeat('n', 63)"],
    "uuid": ["'ffffffff-ffff-ffff-ffff-ffffffffffff'"],
}
ORDINARY = {"boolean": "false", "uuid": "'00000000-0000-0000-0000-000000000000'"}


FAST = {"numeric", "text", "boolean"}  # one of each way in which a type is read


@pytest.mark.parametrize(
    "kind",
    [kind if kind in FAST else pytest.param(kind, marks=pytest.mark.slow) for kind in EXTREME],
)
def test_one_extreme_cell_never_changes_the_outcome_nor_other_rows(link, kind, tmp_path):
    """The row adds the same among clean rows, among odd rows and alone; all are charged."""
    check_extremes(link, kind, Ledger.create(tmp_path / "ledger", PureDP(1000.0)))


def test_control_a_cast_that_raises_changes_the_outcome(link, tmp_path, monkeypatch):
    monkeypatch.setitem(postgres._READ_EXPRESSIONS, "text", "CAST({0} AS pg_catalog.float8)")
    with pytest.raises(SourceError, match="could not read the data to the end"):
        check_extremes(link, "text", Ledger.create(tmp_path / "ledger", PureDP(1000.0)))


def check_extremes(link: str, kind: str, ledger: Ledger) -> None:
    ordinary = f"({ORDINARY.get(kind, '1')})"
    asked = [
        Schema.parse({"columns": {"c": numeric(-10, 10)}}),
        Schema.parse({"columns": {"c": categorical("1", "a", "true", other=True)}}),
    ]
    options = {"epsilon": 1.0, "mechanism": "laplace", "ledger": ledger}

    def measured(*rows: str) -> list:
        table(link, "neighbours", f"c {kind}", *rows)
        for schema in asked:
            release(link, table="neighbours", schema=schema, **options)
        return [moment(DatabaseTable(link, "neighbours"), schema).units for schema in asked]

    clean = measured(*[ordinary] * 5)
    every = [f"({cell})" for cell in EXTREME[kind]]
    together = measured(*[ordinary] * 5, *every)
    alone = [measured(row) for row in every]
    beside = [measured(*[ordinary] * 5, row) for row in every]
    for i in range(len(asked)):
        assert (together[i] - clean[i] == sum(one[i] for one in alone)).all()
        for one, both in zip(alone, beside, strict=True):
            assert (both[i] - clean[i] == one[i]).all()
    assert len(ledger.account().entries) == len(asked) * (2 + 2 * len(every))
