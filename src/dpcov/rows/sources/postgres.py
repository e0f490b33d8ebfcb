"""Tables of PostgreSQL, through its binary COPY: Arrow batches, with nothing kept by either side.

The driver streams COPY, the server's own bulk output, so that no cursor is needed. All readings of
a table share one read-only snapshot.

Other roles may have put operators, casts and functions on the search path, policies on the table,
and texts of a gigabyte into it. So the search path is pg_catalog from the first packet on, every
column is read by an expression that its declared type alone chooses and that no cell can make fail,
and the very query is run, for no row, before anything is booked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa

from dpcov.core.installing import library
from dpcov.errors import SourceError
from dpcov.rows.cells import LONGEST_CELL, batch_rows
from dpcov.rows.sources.sql import Connected, quoted

if TYPE_CHECKING:
    from dpcov.rows.schema import Kind
    from dpcov.rows.sources.sql import DatabaseTable

UNREACHABLE = (
    "The PostgreSQL server can't be reached, or refuses: check host, port, database, user and "
    "password. (Its message is held back, and so is the link: they may hold the password.)"
)
WRONG_PASSWORD = "The PostgreSQL server refuses this user or password."  # noqa: S105  a message
NO_DATABASE = "The PostgreSQL server has no such database."
NO_SERVER = "No PostgreSQL server answers at this host and port."
NO_HOST = "The host of the PostgreSQL server is not known: check its name."
NO_LINK = "The link is none that PostgreSQL reads: postgresql://user@host:5432/database."
NO_RIGHT = "The role may not read {!r}: GRANT SELECT on it, and USAGE on its schema."
FORBIDDEN = ", which the role may not read"
POLICY = (
    "Row security hides rows of {!r} from this role, or may: read it as its owner, or as a role "
    "with BYPASSRLS."
)
ENCODING = (
    "The database's encoding {} can't be read cell by cell, since not every text of it has a "
    "meaning in UTF-8. Copy the table into a database in UTF-8."
)
CHANGED = "The table {!r} was changed while it was opened: try again."

# What libpq says, in words that don't depend on the link, and what we say.
_TOLD = (
    ("could not translate host name", NO_HOST),
    ("Connection refused", NO_SERVER),
    ("timeout expired", NO_SERVER),
    ("No route to host", NO_SERVER),
    ("password authentication failed", WRONG_PASSWORD),
    ("no password supplied", WRONG_PASSWORD),
    ("invalid port number", NO_LINK),
    ("invalid URI", NO_LINK),
    ("unexpected spaces found", NO_LINK),
)
_NO_DATABASE = ('FATAL:  database "', "does not exist")

_START = "-c search_path=pg_catalog,pg_temp -c row_security=off"  # before the driver's own queries
_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",  # a policy that would apply is an error
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO",  # what follows matters to views alone
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # Two readings in the same order: of the table itself, from its start, by one process.
    "synchronize_seqscans": "off",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "max_parallel_workers_per_gather": "0",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",  # noise is drawn before the data is read
}
_SINCE_17 = (
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
    "WHERE name = 'transaction_timeout'"
)
_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_SMALL_BATCHES = {"adbc.postgresql.batch_size_hint_bytes": str(2**22)}

# Encodings each of whose texts has one in UTF-8 (a test asks the server about every byte).
ENCODINGS = (
    *("UTF8", "LATIN1", "LATIN2", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9"),
    *("LATIN10", "ISO_8859_5", "WIN1256", "WIN866", "KOI8R", "KOI8U"),
)

# Settings of a role in a database win over those of the role, and these over the database's.
_PATH = """
SELECT pg_catalog.substr(c, 13)
FROM pg_catalog.pg_db_role_setting s, pg_catalog.unnest(s.setconfig) c
WHERE pg_catalog.starts_with(c, 'search_path=')
AND s.setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = SESSION_USER))
AND s.setdatabase IN (
    0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
)
ORDER BY s.setrole = 0, s.setdatabase = 0 LIMIT 1
"""
_USUAL_PATH = '"$user", public'
# Names of this query were looked up before the path changes, and the next ones after it is back.
_RESOLVED = """
SELECT pg_catalog.set_config('search_path', {path}, true), pg_catalog.to_regclass({name})::oid,
pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)
"""
_RELATION = """
WITH RECURSIVE tree(oid) AS (
    SELECT {oid}::oid
    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i, tree WHERE i.inhparent = tree.oid
)
SELECT n.nspname::text, c.relname::text, c.relkind::text, pg_catalog.row_security_active(c.oid),
pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
pg_catalog.has_table_privilege(c.oid, 'SELECT'),
pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
EXISTS (
    SELECT FROM tree JOIN pg_catalog.pg_class t ON t.oid = tree.oid WHERE t.relkind IN ('f', 'v')
)
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = {oid}
"""
# Of a domain, the type below.
_COLUMNS = """
WITH RECURSIVE base(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_catalog.pg_attribute
    WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT base.attnum, t.typbasetype
    FROM base JOIN pg_catalog.pg_type t ON t.oid = base.oid WHERE t.typtype = 'd'
)
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, NULL),
CASE WHEN t.typtype = 'e' THEN 'enum' WHEN n.nspname = 'pg_catalog' THEN t.typname::text END,
COALESCE(k.collisdeterministic, true), a.attgenerated::text,
pg_catalog.has_column_privilege({oid}::oid, a.attnum, 'SELECT')
FROM base JOIN pg_catalog.pg_type t ON t.oid = base.oid AND t.typtype <> 'd'
JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
JOIN pg_catalog.pg_attribute a ON a.attrelid = {oid} AND a.attnum = base.attnum
LEFT JOIN pg_catalog.pg_collation k ON k.oid = a.attcollation ORDER BY a.attnum
"""

# Of one column each.
_CONSTRAINTS = """
SELECT c.contype::text, a.attname::text FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
WHERE c.conrelid = {oid} AND c.contype IN ('p', 'u', 'f') AND pg_catalog.cardinality(c.conkey) = 1
ORDER BY c.contype <> 'p', c.contype <> 'u', a.attnum
"""

_TABLES = ("r", "p")
_STORED = (*_TABLES, "m")  # and materialized views
_PROGRAMS = ("v", "f")


def _capped(expression: str) -> str:
    """A text or bytes, null beyond the public cap; one that is stored elsewhere is not fetched."""
    size = f"pg_catalog.octet_length({expression})"
    return f"CASE WHEN {size} <= {LONGEST_CELL} THEN {expression} END"


def _dated(kind: str) -> str:
    """A date or time, null where it is infinite or of no year from 1 to 9999: drivers refuse such.

    The literals are read under the settings above, hence in UTC.
    """
    within = f"{{0}} >= {kind} '0001-01-01' AND {{0}} < {kind} '10000-01-01'"
    return f"CASE WHEN {within} THEN {{0}} END"


_NUMBERS = ("int2", "int4", "int8", "float4", "float8")
# How a column of each type is read. No cast is another role's, which would have to own one of its
# two types. Equal numbers have one text.
_READ = {
    **dict.fromkeys((*_NUMBERS, "bool"), "{0}"),
    **dict.fromkeys(("text", "varchar", "bytea"), _capped("{0}")),
    **dict.fromkeys(("bpchar", "name"), _capped("CAST({0} AS pg_catalog.text)")),
    "numeric": "CAST(pg_catalog.trim_scale({0}) AS pg_catalog.text)",  # some 147,000 bytes at most
    "uuid": "CAST({0} AS pg_catalog.text)",
    **{kind: _dated(f"pg_catalog.{kind}") for kind in ("date", "timestamp", "timestamptz")},
    # A cast of an enumeration may be its owner's.
    "enum": "CASE WHEN {0} IS NOT NULL THEN pg_catalog.format('%s', {0}) END",
}


class PostgresSource(Connected):
    """A table of a PostgreSQL database.

    Columns of numbers and truth values come as they are; decimal numbers, texts, UUIDs and
    enumerations as texts.
    """

    kind = "PostgreSQL"

    def __init__(self, data: DatabaseTable) -> None:
        super().__init__(data)
        needed, module = "PostgreSQL needs a driver", "adbc_driver_postgresql.dbapi"
        driver = library("adbc-driver-postgresql", needed, SourceError, module)
        try:
            self._connection = driver.connect(guarded(str(data.database)))
        except driver.Error as error:
            raise SourceError(_reason(str(error))) from None
        with self._opening(driver.Error, UNREACHABLE):
            try:
                self._found()
            except driver.Error as error:
                raise self._refusal(error.sqlstate) from None

    def _found(self) -> None:
        """Find the table, and take its columns."""
        kind, foreign = self._opened()
        columns = self._rows(_COLUMNS.format(oid=self._oid))
        is_program = kind in _PROGRAMS or foreign or any(c[4] == "v" for c in columns)
        self._data.require_trust(is_program)
        self.repeatable = not is_program
        self._kinds = {n: kind for n, _, kind, *_, right in columns if right and kind in _READ}
        shown = {n: t + ("" if right else FORBIDDEN) for n, t, *_, right in columns}
        read = {name: _READ[kind] for name, kind in self._kinds.items()}
        self._describe(shown, read, [name for name, _, _, plain, *_ in columns if not plain])

    def _run(self, statement: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def _refusal(self, code: str | None) -> SourceError:
        if code == "42501":  # row security was asked about before
            return SourceError(NO_RIGHT.format(self._data.table))
        if code in ("42P01", "42602", "42601", "0A000", "3F000"):
            return self._data.no_such_table()
        return SourceError(UNREACHABLE)

    def _opened(self) -> tuple[str, bool]:
        """Find the table, lock it, and take the snapshot.

        Gives its kind, and whether a table of another server is a part of it.
        """
        for name, value in _SETTINGS.items():  # SET would take 'a, b' for one schema of that name
            self._rows(f"SELECT pg_catalog.set_config('{name}', '{value}', false)")
        self._rows(_SINCE_17)
        ((encoding,),) = self._rows("SELECT pg_catalog.getdatabaseencoding()::text")
        if encoding not in ENCODINGS:
            raise SourceError(ENCODING.format(encoding))
        path = self._rows(_PATH) or [(_USUAL_PATH,)]
        names = {"path": literal(path[0][0]), "name": literal(self._data.quoted)}
        self._oid = self._rows(_RESOLVED.format(**names))[0][1]
        relation = self._relation()
        self._connection.commit()
        self._run(_SNAPSHOT)
        space, name, kind, _, _, granted, _, foreign = relation
        self._from = f"{quoted(space)}.{quoted(name)}"
        if kind in _TABLES and granted:  # without a grant of the whole, the query itself locks
            self._run(f"LOCK TABLE {self._from} IN ACCESS SHARE MODE")  # before the snapshot
        if self._relation() != relation:
            raise SourceError(CHANGED.format(self._data.table))
        return kind, foreign

    def _relation(self) -> tuple[Any, ...]:
        """Schema, name, kind and rights of the table; refuses what can't be read."""
        found = self._rows(_RELATION.format(oid=self._oid)) if self._oid else []
        if not found or found[0][2] not in (*_STORED, *_PROGRAMS):
            raise self._data.no_such_table()
        _, _, _, secured, usable, _, granted, _ = found[0]
        if not (usable and granted):
            raise SourceError(NO_RIGHT.format(self._data.table))
        if secured:
            raise SourceError(POLICY.format(self._data.table))
        return found[0]

    def _given(self, query: str) -> pa.Schema:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table().schema

    def kinds(self) -> dict[str, Kind]:
        decimals = (name for name, kind in self._kinds.items() if kind == "numeric")
        return super().kinds() | dict.fromkeys(decimals, "number")  # which come as texts

    def _constraints(self) -> list[tuple[str, list[str]]]:
        kinds = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY"}
        found = self._rows(_CONSTRAINTS.format(oid=self._oid))
        return [(kinds[kind], [name]) for kind, name in found]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        size = batch_rows(len(columns))
        with self._reading(self._connection.cursor(adbc_stmt_kwargs=_SMALL_BATCHES)) as cursor:
            cursor.execute(self._query(columns))
            for batch in cursor.fetch_record_batch():
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


def guarded(link: str) -> str:
    """The link, with settings that hold before the driver's own first query.

    It compares by operators that it looks up along the search path.
    """
    user = re.match(r"[^:]+://[^@/]*@", link)
    start = link.find("?", user.end() if user else 0)
    head, query = (link, "") if start < 0 else (link[:start], link[start + 1 :])
    parts = [part for part in query.split("&") if part]
    own = [unquote(part.partition("=")[2]) for part in parts if part.startswith("options=")]
    stated = own[-1] if own else os.environ.get("PGOPTIONS", "")
    kept = [part for part in parts if not part.startswith(("options=", "client_encoding="))]
    options = quote(f"{stated} {_START}".strip(), safe="")
    return head + "?" + "&".join([*kept, f"options={options}", "client_encoding=UTF8"])


def literal(text: str) -> str:
    """A text as SQL, where standard_conforming_strings is on."""
    return "'" + text.replace("'", "''") + "'"


def _reason(told: str) -> str:
    """A fixed message for one of libpq's."""
    if all(part in told for part in _NO_DATABASE):
        return NO_DATABASE
    return next((ours for theirs, ours in _TOLD if theirs in told), UNREACHABLE)
