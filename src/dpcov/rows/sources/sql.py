"""Source of database tables: name of the table, trust in views, and refused types.

Other users of a database can define functions, operators and views. Such programs must not
influence a release. dpcov decides everything from names and declared types before it reserves
budget. It queries only columns of one table, each on its own.
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

POSTGRES_PREFIXES = ("postgresql://", "postgres://")
SQLITE_START = b"SQLite format 3\0"
DUCKDB_MARK = slice(8, 12), b"DUCK"  # Position and bytes of the mark in a file's header.
DUCKDB_VERSION = slice(12, 20)  # Position of the version, whose last six bytes are zero.
LINK_PREFIX = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
UNKNOWN_DATABASE_MESSAGE = (
    "dpcov cannot read this database. Pass a link such as postgresql://user@host/database, "
    "or the path of a SQLite or DuckDB file (dpcov does not print the link, because it "
    "might contain a password)."
)
NO_SUCH_TABLE_MESSAGE = (
    "The database has no table {!r}. Check spelling and capitals, and add the schema if "
    "needed, as in clinic.people."
)
COMPUTED_TABLE_MESSAGE = (
    "{!r} is a view, a foreign or virtual table, or has computed columns, and such programs "
    "can combine rows of several persons. Release a stored table, or state that you trust "
    "the program: {}."
)
NO_TABLE_MESSAGE = "The data is a database, so dpcov needs the name of a table. Add {}."
KEY_NAMES = {"PRIMARY KEY": "the primary key", "UNIQUE": "unique", "FOREIGN KEY": "a foreign key"}
COLLATION_REASON = (
    "its collation treats different texts as equal. Copy the ids into a column with a plain "
    "collation"
)

_DISTINCT_TEXTS = ("A", "a", "a ", "á")
_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """Table of a database, in which each row is about one person alone.

    Attributes
    ----------
    database : str or Path
        ``postgresql://user@host/database``, or the path of a SQLite or DuckDB file. dpcov never
        prints the link, because it might contain a password. Store passwords in PGPASSWORD or a
        password file.

    table : str
        Name of the table as the database spells it, or ``schema.table``.

    trust_views : bool
        True to accept a view, a foreign or virtual table, or computed columns. The guarantee does
        not hold if such a program combines rows or fails for some rows.

    """

    database: str | Path = field(repr=False)
    table: str
    trust_views: bool = False

    @property
    def quoted(self) -> str:
        """Name of the table as SQL."""
        return ".".join(map(quoted, self.parts))

    @property
    def parts(self) -> list[str]:
        """Name of the schema, if there is one, and name of the table."""
        found = [(a.replace('""', '"') or b) for a, b in _NAME_PART.findall(self.table)]
        if (
            not found
            or _NAME_PART.sub("", self.table) != "." * (len(found) - 1)
            or "\0" in self.table
        ):
            raise SourceError(
                f"{self.table!r} is not a valid name of a table. Use the form table or "
                "schema.table."
            )
        return found

    def no_such_table(self) -> SourceError:
        """Return the error for a table that does not exist."""
        return SourceError(NO_SUCH_TABLE_MESSAGE.format(self.table))

    def require_trust(self, is_program: bool) -> None:
        """Raise `SourceError` for a program that the caller does not trust."""
        if is_program and not self.trust_views:
            raise SourceError(COMPUTED_TABLE_MESSAGE.format(self.table, asked("trust_views")))


class Connected(Source):
    """Source with a database connection; closing it ends its readings and releases all locks.

    Parameters
    ----------
    data : DatabaseTable
        Database and table.

    """

    costly = True
    ordered = False
    _connection: Any = None
    _from: str  # Table as SQL.
    _read: Mapping[str, str]  # SQL expression that reads each column.

    def __init__(self, data: DatabaseTable) -> None:
        self._data = data
        self._readings: list[Any] = []

    @contextlib.contextmanager
    def _opening(self, failure: type[Exception], message: str) -> Iterator[None]:
        """Close the database if opening it fails, and raise `SourceError` with this message.

        Parameters
        ----------
        failure : type
            Error class of the database library.
        message : str
            Message.

        """
        try:
            yield
        except failure:
            self.close()
            raise SourceError(message) from None
        except SourceError:
            self.close()
            raise

    def _describe(
        self, declared: Mapping[str, str], read: Mapping[str, str], collated: Iterable[str]
    ) -> None:
        """Set the columns with their types, and run the query with LIMIT 0.

        Parameters
        ----------
        declared : mapping of str to str
            Declared type of each column.

        read : mapping of str to str
            SQL expression that reads each supported column.

        collated : iterable of str
            Columns whose collation treats different texts as equal.

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
        } | dict.fromkeys(collated, COLLATION_REASON)

    def _given(self, query: str) -> pa.Schema:
        """Return the Arrow schema of the result of a query."""
        raise NotImplementedError

    def _expression(self, name: str) -> str:
        """Return the SQL expression that reads a column."""
        return self._read[name]

    def _query(self, columns: Sequence[str]) -> str:
        """Return the query for the given columns."""
        chosen = [f"{self._expression(name)} AS {quoted(name)}" for name in columns]
        return f"SELECT {', '.join(chosen) or 'NULL'} FROM {self._from}"  # noqa: S608 (quoted)

    def close(self) -> None:
        """Close the connection; a reading that is under way fails."""
        for reading in tuple(self._readings):
            with contextlib.suppress(Exception):
                reading.close()
        if self._connection is not None:
            self._connection.close()

    def __del__(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self.close()

    def _is_plain(self, name: str, failure: type[Exception]) -> bool:
        """Return True if the collation of a column distinguishes all texts; the query reads no row.

        A collation that the engine does not know raises a `failure` and is not plain.
        """
        none = f"SELECT {quoted(name)} FROM {self._from} WHERE false"  # noqa: S608 (quoted)
        words = " UNION ".join([none, *(f"SELECT '{word}'" for word in _DISTINCT_TEXTS)])
        try:
            count = self._connection.execute(f"SELECT count(*) FROM ({words})")  # noqa: S608
        except failure:
            return False
        return bool(count.fetchall() == [(len(_DISTINCT_TEXTS),)])

    def keys(self) -> dict[str, str]:
        """Return the constraints on single columns in words, for the draft of a schema."""
        found: dict[str, str] = {}
        for kind, columns in self._constraints():
            if len(columns) == 1 and kind in KEY_NAMES:
                found.setdefault(columns[0], f"{KEY_NAMES[kind]} of the database")
        return found

    def _constraints(self) -> list[tuple[str, list[str]]]:
        """Return the constraints with their columns."""
        return []

    @contextlib.contextmanager
    def _reading(self, cursor: Any) -> Iterator[Any]:
        """Register a cursor until it is closed."""
        self._readings.append(cursor)
        try:
            yield cursor
        finally:
            self._readings.remove(cursor)
            with contextlib.suppress(Exception):  # it might be closed already
                cursor.close()


def table_of(data: Any, table: str | None, trust_views: bool = False) -> Any:
    """Return the table of a database; without a table name, return the data unchanged.

    Parameters
    ----------
    data : object
        Database or other data.
    table : str or None
        Name of the table.
    trust_views : bool
        True to accept views and other programs.

    Returns
    -------
    DatabaseTable or object

    """
    if table is not None:
        return DatabaseTable(data, table, trust_views)
    if trust_views:
        raise SourceError(
            f"Trusted views ({named('trust_views')}) need a table of a database. Add the name of "
            "the table."
        )
    return data


def unfit_id(kind: str) -> str:
    """Return the reason why a column of this type cannot contain ids."""
    return (
        f"its type is {kind}, in which equal values can have different texts. Copy the ids "
        "into a column of type text, integer, numeric or uuid"
    )


def database_kind(path: Path) -> str | None:
    """Return "sqlite" or "duckdb" from the header of a file; None for any other file."""
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
    """Return a name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
