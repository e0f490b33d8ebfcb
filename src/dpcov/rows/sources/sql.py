"""Tables of databases: which one, whether its owner's programs are trusted, and what is refused.

A database is a hostile place: other people's functions, operators and views must not decide what
happens to a release. Everything is decided from names and declared types, before anything is
booked; nothing but columns of one table, each read by itself, is asked of an engine.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpcov.core.spelling import asked, named
from dpcov.errors import SourceError
from dpcov.rows.cells import is_moment
from dpcov.rows.sources.base import Source, fits

POSTGRES = ("postgresql://", "postgres://")
SQLITE_START = b"SQLite format 3\0"
DUCKDB_MARK = slice(8, 12), b"DUCK"  # where it stands in a file's header
DUCKDB_VERSION = slice(12, 20)  # little-endian, below 2^16: no text has so many zeros
LINK = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
NO_LINK = (
    "This database can't be read: give a link postgresql://user@host/database, or the path of a "
    "SQLite or DuckDB file. (The link is not shown: it may hold a password.)"
)
NO_SUCH = (
    "The database has no table {!r}. Give its schema too if it has another than the usual one, as "
    "in clinic.people; PostgreSQL takes names as they are spelt, capitals too."
)
PROGRAM = (
    "{!r} is a view, or a foreign or virtual table, or has columns that are computed when they are "
    "read: a program, which can mix rows of several persons, or fail on one. Release a table or a "
    "materialized view; or, if you know what it does, say {}."
)
NO_TABLE = "A database needs the name of a table: {}."
KEYS = {"PRIMARY KEY": "the primary key", "UNIQUE": "unique", "FOREIGN KEY": "a foreign key"}
COLLATED = "its collation calls different texts equal; copy it into a column with a plain one"

_TOLD_APART = ("A", "a", "a ", "á")
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table of a database, each of whose rows is about one person alone.

    Attributes
    ----------
    database : ``postgresql://user@host/database``, or the path of a SQLite or DuckDB file. Never
        shown: it may hold a password (better kept in PGPASSWORD or a password file).
    table : its name, as the database spells it; ``schema.table`` where there are several schemas.
    trust_views : whether it may be a program of its owner: a view, a foreign or virtual table, or
        one with columns that are computed when they are read. Nothing holds of one that mixes rows
        or fails on some.

    """

    database: str | Path = field(repr=False)
    table: str
    trust_views: bool = False

    @property
    def quoted(self) -> str:
        """The table's name as SQL."""
        return ".".join(map(quoted, self.parts))

    @property
    def parts(self) -> list[str]:
        """The schema's name, if there is one, and the table's."""
        found = [(a.replace('""', '"') or b) for a, b in _PART.findall(self.table)]
        if not found or _PART.sub("", self.table) != "." * (len(found) - 1) or "\0" in self.table:
            raise SourceError(f"{self.table!r} is no name of a table.")
        return found

    def no_such_table(self) -> SourceError:
        return SourceError(NO_SUCH.format(self.table))

    def require_trust(self, is_program: bool) -> None:
        """Refuse a program that the caller does not trust."""
        if is_program and not self.trust_views:
            raise SourceError(PROGRAM.format(self.table, asked("trust_views")))


class Connected(Source):
    """A source that holds a connection: its readings end with it, so that no lock is left."""

    costly = True
    ordered = False
    _connection: Any = None
    _from: str  # the table as SQL
    _read: Mapping[str, str]  # of each column that is read, how, as SQL

    def __init__(self, data: DatabaseTable) -> None:
        self._data = data
        self._readings: list[Any] = []

    @contextlib.contextmanager
    def _opening(self, failure: type[Exception], told: str) -> Iterator[None]:
        """Let go of a database that is refused, or whose engine has a `failure`: say so."""
        try:
            yield
        except failure:
            self.close()
            raise SourceError(told) from None
        except SourceError:
            self.close()
            raise

    def _describe(
        self, declared: Mapping[str, str], read: Mapping[str, str], collated: Iterable[str]
    ) -> None:
        """Take the columns with their declared types, and how some of them are read.

        Of those that are `collated`, equality is not that of texts. The very query is run, for no
        row.
        """
        self._read = {name: how.format(quoted(name)) for name, how in read.items()}
        given = self._given(self._query(tuple(read)) + " LIMIT 0")
        self.names = tuple(declared)
        self.types = dict.fromkeys(self.names, pa.large_binary())
        self.types |= {name: given.field(name).type for name in read}
        self.unfit = {name: declared[name] for name, t in self.types.items() if not fits(t, "text")}
        self.unfit_ids = {
            name: unfit_id(declared[name])
            for name, kind in self.types.items()
            if name not in read or is_moment(kind)
        } | dict.fromkeys(collated, COLLATED)

    def _given(self, query: str) -> pa.Schema:
        """The types in which the columns of a query come."""
        raise NotImplementedError

    def _expression(self, name: str) -> str:
        return self._read[name]

    def _query(self, columns: Sequence[str]) -> str:
        chosen = [f"{self._expression(name)} AS {quoted(name)}" for name in columns]
        return f"SELECT {', '.join(chosen) or 'NULL'} FROM {self._from}"  # noqa: S608 (quoted)

    def close(self) -> None:
        """Let go of the database; a reading that is under way fails."""
        for reading in tuple(self._readings):
            with contextlib.suppress(Exception):
                reading.close()
        if self._connection is not None:
            self._connection.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()

    def _is_plain(self, name: str, failure: type[Exception]) -> bool:
        """Whether a column's collation tells apart what differs; asks it about letters, no row.

        A collation that is not known to the engine is a `failure`, and not plain.
        """
        none = f"SELECT {quoted(name)} FROM {self._from} WHERE false"  # noqa: S608 (quoted)
        words = " UNION ".join([none, *(f"SELECT '{word}'" for word in _TOLD_APART)])
        try:
            count = self._connection.execute(f"SELECT count(*) FROM ({words})")  # noqa: S608
        except failure:
            return False
        return bool(count.fetchall() == [(len(_TOLD_APART),)])

    def keys(self) -> dict[str, str]:
        """What the database's constraints on single columns say of them; for a draft."""
        found: dict[str, str] = {}
        for kind, columns in self._constraints():
            if len(columns) == 1 and kind in KEYS:
                found.setdefault(columns[0], f"{KEYS[kind]} of the database")
        return found

    def _constraints(self) -> list[tuple[str, list[str]]]:
        """Kinds of constraints, and their columns."""
        return []

    @contextlib.contextmanager
    def _reading(self, cursor: Any) -> Iterator[Any]:
        """Keep a cursor in mind until it is closed."""
        self._readings.append(cursor)
        try:
            yield cursor
        finally:
            self._readings.remove(cursor)
            with contextlib.suppress(Exception):  # it may be closed already
                cursor.close()


def table_of(data: Any, table: str | None, trust_views: bool = False) -> Any:
    """The table of the database `data`; without a table, the data as they are."""
    if table is not None:
        return DatabaseTable(data, table, trust_views)
    if trust_views:
        raise SourceError(f"Trusted views ({named('trust_views')}) need a table of a database.")
    return data


def unfit_id(kind: str) -> str:
    """Why ids can't be read from a column of this type."""
    return (
        f"it is of the type {kind}, whose equality can't be told from its text; copy it into a "
        "column of text, integer, numeric or uuid"
    )


def database_kind(path: Path) -> str | None:
    """Whether a file is one of SQLite or of DuckDB, by the mark in its header."""
    try:
        with path.open("rb") as file:
            head = file.read(DUCKDB_VERSION.stop)
    except OSError:
        return None
    place, mark = DUCKDB_MARK
    if head[place] == mark and head[DUCKDB_VERSION].endswith(bytes(6)):
        return "duckdb"
    return "sqlite" if head.startswith(SQLITE_START) else None


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
