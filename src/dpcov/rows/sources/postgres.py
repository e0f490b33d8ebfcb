"""Source of PostgreSQL tables, through the binary COPY command and Arrow batches.

The driver streams the output of COPY, so it needs no cursor. All readings of a table share one
read-only snapshot.

Other users of the database can redefine operators, casts and functions, set policies on the table,
and store very long texts. dpcov protects a release from these changes:

- The search path is pg_catalog from the first packet on.
- The declared type of a column alone determines the expression that reads the column. No cell can
  make the expression fail.
- dpcov runs the query once with LIMIT 0 before it reserves budget.
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
from dpcov.rows.cells import batch_rows
from dpcov.rows.numbers import MAX_CELL_BYTES
from dpcov.rows.sources.sql import Connected, quoted

if TYPE_CHECKING:
    from dpcov.rows.schema import Kind
    from dpcov.rows.sources.sql import DatabaseTable

UNREACHABLE_MESSAGE = (
    "The PostgreSQL server cannot be reached or refuses the connection. Check host, port, "
    "database, user and password (dpcov hides the server's message, because it might "
    "contain the password)."
)
WRONG_PASSWORD_MESSAGE = "The PostgreSQL server refuses this user or password. Check both."  # noqa: S105  not a password
NO_DATABASE_MESSAGE = "The PostgreSQL server has no such database. Check the name of the database."
NO_SERVER_MESSAGE = "No PostgreSQL server answers at this host and port. Check both."
NO_HOST_MESSAGE = "The host of the PostgreSQL server is unknown. Check its name."
INVALID_LINK_MESSAGE = (
    "The link is not valid for PostgreSQL. Use the form postgresql://user@host:5432/database."
)
NO_RIGHT_MESSAGE = (
    "The database role has no right to read {!r}. Run GRANT SELECT on the table and GRANT USAGE "
    "on its schema."
)
FORBIDDEN_REASON = ", which the role may not read"
POLICY_MESSAGE = (
    "Row security can hide rows of {!r} from this database role. Use the owner of the "
    "table, or a role with BYPASSRLS."
)
ENCODING_MESSAGE = (
    "The database has the encoding {}, in which some texts have no form in UTF-8. Copy the "
    "table into a database in UTF-8."
)
CHANGED_TABLE_MESSAGE = "The table {!r} changed while dpcov opened it. Try again."

# Parts of libpq's messages that do not depend on the link, and the messages of dpcov.
_REASONS = (
    ("could not translate host name", NO_HOST_MESSAGE),
    ("Connection refused", NO_SERVER_MESSAGE),
    ("timeout expired", NO_SERVER_MESSAGE),
    ("No route to host", NO_SERVER_MESSAGE),
    ("password authentication failed", WRONG_PASSWORD_MESSAGE),
    ("no password supplied", WRONG_PASSWORD_MESSAGE),
    ("invalid port number", INVALID_LINK_MESSAGE),
    ("invalid URI", INVALID_LINK_MESSAGE),
    ("unexpected spaces found", INVALID_LINK_MESSAGE),
)
_NO_DATABASE_PARTS = ('FATAL:  database "', "does not exist")

# Settings that hold before the driver's own queries.
_START_OPTIONS = "-c search_path=pg_catalog,pg_temp -c row_security=off"
_SESSION_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "row_security": "off",  # An applicable policy raises an error.
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO",  # The settings from here on matter for views only.
    "IntervalStyle": "iso_8601",
    "TimeZone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    # Two readings return the same order: one process scans the table from its start.
    "synchronize_seqscans": "off",
    "enable_indexscan": "off",
    "enable_indexonlyscan": "off",
    "enable_bitmapscan": "off",
    "max_parallel_workers_per_gather": "0",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",  # Noise is drawn before the data are read.
}
_TIMEOUT_QUERY = (
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings "
    "WHERE name = 'transaction_timeout'"
)
_SNAPSHOT_STATEMENT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_BATCH_OPTIONS = {"adbc.postgresql.batch_size_hint_bytes": str(2**22)}

# Encodings in which every text has a form in UTF-8. A test asks the server about every byte.
UTF8_SAFE_ENCODINGS = (
    *("UTF8", "LATIN1", "LATIN2", "LATIN4", "LATIN5", "LATIN6", "LATIN7", "LATIN8", "LATIN9"),
    *("LATIN10", "ISO_8859_5", "WIN1256", "WIN866", "KOI8R", "KOI8U"),
)

# Settings of a role in a database have priority over settings of the role. Settings of the role
# have priority over settings of the database.
_PATH_QUERY = """
SELECT pg_catalog.substr(c, 13)
FROM pg_catalog.pg_db_role_setting AS s, pg_catalog.unnest(s.setconfig) AS c
WHERE pg_catalog.starts_with(c, 'search_path=')
AND s.setrole IN (0, (SELECT oid FROM pg_catalog.pg_roles WHERE rolname = SESSION_USER))
AND s.setdatabase IN (
    0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
)
ORDER BY s.setrole = 0, s.setdatabase = 0 LIMIT 1
"""
_USUAL_PATH = '"$user", public'
# PostgreSQL resolves the names in this query before the search path changes. The path is reset
# before PostgreSQL resolves the names of the next query.
_RESOLUTION_QUERY = """
SELECT pg_catalog.set_config('search_path', {path}, true), pg_catalog.to_regclass({name})::oid,
pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true)
"""
_RELATION_QUERY = """
WITH RECURSIVE tree(oid) AS (
    SELECT {oid}::oid
    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i, tree WHERE i.inhparent = tree.oid
)
SELECT n.nspname::text, c.relname::text, c.relkind::text, pg_catalog.row_security_active(c.oid),
pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
pg_catalog.has_table_privilege(c.oid, 'SELECT'),
pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
EXISTS (
    SELECT FROM tree JOIN pg_catalog.pg_class AS t ON t.oid = tree.oid WHERE t.relkind IN ('f', 'v')
)
FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.oid = {oid}
"""
# For a domain, the query returns the base type.
_COLUMNS_QUERY = """
WITH RECURSIVE base(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_catalog.pg_attribute
    WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT base.attnum, t.typbasetype
    FROM base JOIN pg_catalog.pg_type AS t ON t.oid = base.oid WHERE t.typtype = 'd'
)
SELECT a.attname::text, pg_catalog.format_type(a.atttypid, NULL),
CASE WHEN t.typtype = 'e' THEN 'enum' WHEN n.nspname = 'pg_catalog' THEN t.typname::text END,
COALESCE(k.collisdeterministic, true), a.attgenerated::text,
pg_catalog.has_column_privilege({oid}::oid, a.attnum, 'SELECT')
FROM base JOIN pg_catalog.pg_type AS t ON t.oid = base.oid AND t.typtype <> 'd'
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = {oid} AND a.attnum = base.attnum
LEFT JOIN pg_catalog.pg_collation AS k ON k.oid = a.attcollation ORDER BY a.attnum
"""

# Only constraints on a single column.
_COLUMN_CONSTRAINTS_QUERY = """
SELECT c.contype::text, a.attname::text FROM pg_catalog.pg_constraint AS c
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]
WHERE c.conrelid = {oid} AND c.contype IN ('p', 'u', 'f') AND pg_catalog.cardinality(c.conkey) = 1
ORDER BY c.contype <> 'p', c.contype <> 'u', a.attnum
"""

_TABLE_KINDS = ("r", "p")
_STORED_KINDS = (*_TABLE_KINDS, "m")  # Tables and materialized views.
_PROGRAM_KINDS = ("v", "f")


def _capped(expression: str) -> str:
    """Return SQL for a text or bytes; a value that is too long becomes null without loading."""
    size = f"pg_catalog.octet_length({expression})"
    return f"CASE WHEN {size} <= {MAX_CELL_BYTES} THEN {expression} END"


def _dated(kind: str) -> str:
    """Return SQL for a date or time; other values become null.

    Other values are infinity and years beyond 1 to 9999, which drivers refuse. PostgreSQL reads the
    literals in UTC because of the settings above.
    """
    within = f"{{0}} >= {kind} '0001-01-01' AND {{0}} < {kind} '10000-01-01'"
    return f"CASE WHEN {within} THEN {{0}} END"


_NUMBER_TYPES = ("int2", "int4", "int8", "float4", "float8")
# Expression that reads a column of each type. Only the owner of a type can define a cast for it, so
# no other role can change these casts. Equal numbers have the same text.
_READ_EXPRESSIONS = {
    **dict.fromkeys((*_NUMBER_TYPES, "bool"), "{0}"),
    **dict.fromkeys(("text", "varchar", "bytea"), _capped("{0}")),
    **dict.fromkeys(("bpchar", "name"), _capped("CAST({0} AS pg_catalog.text)")),
    "numeric": "CAST(pg_catalog.trim_scale({0}) AS pg_catalog.text)",  # At most 147,000 bytes.
    "uuid": "CAST({0} AS pg_catalog.text)",
    **{kind: _dated(f"pg_catalog.{kind}") for kind in ("date", "timestamp", "timestamptz")},
    # The owner of an enumeration can define a cast for it.
    "enum": "CASE WHEN {0} IS NOT NULL THEN pg_catalog.format('%s', {0}) END",
}


class PostgresSource(Connected):
    """Source of a table in a PostgreSQL database.

    Columns of numbers and truth values keep their type. Decimals, texts, UUIDs and enumerations are
    read as texts.

    Parameters
    ----------
    data : DatabaseTable
        Database and table.

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
        with self._opening(driver.Error, UNREACHABLE_MESSAGE):
            try:
                self._found()
            except driver.Error as error:
                raise self._refusal(error.sqlstate) from None

    def _found(self) -> None:
        """Find the table and describe its columns."""
        kind, foreign = self._opened()
        columns = self._rows(_COLUMNS_QUERY.format(oid=self._oid))
        is_program = kind in _PROGRAM_KINDS or foreign or any(c[4] == "v" for c in columns)
        self._data.require_trust(is_program)
        self.repeatable = not is_program
        self._kinds = {
            n: kind for n, _, kind, *_, right in columns if right and kind in _READ_EXPRESSIONS
        }
        shown = {n: t + ("" if right else FORBIDDEN_REASON) for n, t, *_, right in columns}
        read = {name: _READ_EXPRESSIONS[kind] for name, kind in self._kinds.items()}
        self._describe(shown, read, [name for name, _, _, plain, *_ in columns if not plain])

    def _run(self, statement: str) -> None:
        """Run a statement without a result."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query on the system catalog."""
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    def _refusal(self, code: str | None) -> SourceError:
        """Return the message for an error code of the server."""
        if code == "42501":  # row security was checked before
            return SourceError(NO_RIGHT_MESSAGE.format(self._data.table))
        if code in ("42P01", "42602", "42601", "0A000", "3F000"):
            return self._data.no_such_table()
        return SourceError(UNREACHABLE_MESSAGE)

    def _opened(self) -> tuple[str, bool]:
        """Find the table, lock it, and start the snapshot.

        Returns
        -------
        kind : str
            Kind of the relation in pg_class.
        foreign : bool
            True if a foreign table is a part of the table.

        """
        for name, value in _SESSION_SETTINGS.items():  # SET reads 'a, b' as one name
            self._rows(f"SELECT pg_catalog.set_config('{name}', '{value}', false)")
        self._rows(_TIMEOUT_QUERY)
        ((encoding,),) = self._rows("SELECT pg_catalog.getdatabaseencoding()::text")
        if encoding not in UTF8_SAFE_ENCODINGS:
            raise SourceError(ENCODING_MESSAGE.format(encoding))
        path = self._rows(_PATH_QUERY) or [(_USUAL_PATH,)]
        names = {"path": literal(path[0][0]), "name": literal(self._data.quoted)}
        self._oid = self._rows(_RESOLUTION_QUERY.format(**names))[0][1]
        relation = self._relation()
        self._connection.commit()
        self._run(_SNAPSHOT_STATEMENT)
        space, name, kind, _, _, granted, _, foreign = relation
        self._from = f"{quoted(space)}.{quoted(name)}"
        if kind in _TABLE_KINDS and granted:  # otherwise the query itself locks the table
            self._run(f"LOCK TABLE {self._from} IN ACCESS SHARE MODE")  # before the snapshot
        if self._relation() != relation:
            raise SourceError(CHANGED_TABLE_MESSAGE.format(self._data.table))
        return kind, foreign

    def _relation(self) -> tuple[Any, ...]:
        """Return schema, name, kind and rights of the table; refuse an unreadable table."""
        found = self._rows(_RELATION_QUERY.format(oid=self._oid)) if self._oid else []
        if not found or found[0][2] not in (*_STORED_KINDS, *_PROGRAM_KINDS):
            raise self._data.no_such_table()
        _, _, _, secured, usable, _, granted, _ = found[0]
        if not (usable and granted):
            raise SourceError(NO_RIGHT_MESSAGE.format(self._data.table))
        if secured:
            raise SourceError(POLICY_MESSAGE.format(self._data.table))
        return found[0]

    def _given(self, query: str) -> pa.Schema:
        """Return the Arrow schema of the result of a query."""
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table().schema

    def kinds(self) -> dict[str, Kind]:
        """Return the most likely kind of each column."""
        decimals = (name for name, kind in self._kinds.items() if kind == "numeric")
        return super().kinds() | dict.fromkeys(decimals, "number")  # decimals are read as texts

    def _constraints(self) -> list[tuple[str, list[str]]]:
        """Return the constraints on single columns."""
        kinds = {"p": "PRIMARY KEY", "u": "UNIQUE", "f": "FOREIGN KEY"}
        found = self._rows(_COLUMN_CONSTRAINTS_QUERY.format(oid=self._oid))
        return [(kinds[kind], [name]) for kind, name in found]

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the given columns as Arrow batches."""
        size = batch_rows(len(columns))
        with self._reading(self._connection.cursor(adbc_stmt_kwargs=_BATCH_OPTIONS)) as cursor:
            cursor.execute(self._query(columns))
            for batch in cursor.fetch_record_batch():
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


def guarded(link: str) -> str:
    """Add settings to a link that hold before the driver's own first query.

    The driver's first query compares with operators of the search path, which other users can
    change.
    """
    user = re.match(r"[^:]+://[^@/]*@", link)
    start = link.find("?", user.end() if user else 0)
    head, query = (link, "") if start < 0 else (link[:start], link[start + 1 :])
    parts = [part for part in query.split("&") if part]
    own = [unquote(part.partition("=")[2]) for part in parts if part.startswith("options=")]
    stated = own[-1] if own else os.environ.get("PGOPTIONS", "")
    kept = [part for part in parts if not part.startswith(("options=", "client_encoding="))]
    options = quote(f"{stated} {_START_OPTIONS}".strip(), safe="")
    return head + "?" + "&".join([*kept, f"options={options}", "client_encoding=UTF8"])


def literal(text: str) -> str:
    """Return a text as an SQL literal, for servers with standard_conforming_strings."""
    return "'" + text.replace("'", "''") + "'"


def _reason(message: str) -> str:
    """Return the message of dpcov for a message of libpq."""
    if all(part in message for part in _NO_DATABASE_PARTS):
        return NO_DATABASE_MESSAGE
    return next((ours for theirs, ours in _REASONS if theirs in message), UNREACHABLE_MESSAGE)
