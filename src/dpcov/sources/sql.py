"""Tables of databases: which one, which of its rows, and the query that streams them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpcov.errors import SourceError
from dpcov.privacy import Neighbors

if TYPE_CHECKING:
    from dpcov.sources.base import Source

POSTGRES = ("postgresql://", "postgres://")
SQLITE_START = b"SQLite format 3\0"
DUCKDB_MARK = slice(8, 12), b"DUCK"  # where it stands in a file's header
DUCKDB_VERSION = slice(12, 20)  # little-endian, below 2^16: no text has so many zeros
LINK = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
NO_LINK = (
    "This database can't be read: give a link postgresql://user@host/database, or the path of a "
    "SQLite or DuckDB file. (The link is not shown: it may hold a password.)"
)
NO_TABLE = "A database needs the name of a table: --table NAME, or table='NAME'."

_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')
_CONDITION = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\s"<>=!]+))\s*(<=|>=|!=|=|<|>)\s*(.+?)\s*')


@dataclass(frozen=True, slots=True)
class DatabaseTable:
    """A table or view of a database, each of whose rows is about one person alone.

    Attributes
    ----------
    database : ``postgresql://user@host/database``, or the path of a SQLite or DuckDB file. Never
        shown: it may hold a password (better kept in PGPASSWORD or a password file).
    table : its name, as the database spells it; ``schema.table`` where there are several schemas.
    where : conditions ``column operator value``, all to be met, that the database tests row by row:
        the operator is =, !=, <, <=, > or >=, the value a number, true, false or 'text'. Public.

    """

    database: str | Path = field(repr=False)
    table: str
    where: tuple[str, ...] = ()

    def select(self, columns: Sequence[str]) -> str:
        """The query for these columns, each an SQL expression."""
        query = f"SELECT {', '.join(columns) or '*'} FROM {self.quoted}"  # noqa: S608 (quoted)
        tests = [f"{quoted(name)} {test}" for name, test in map(_parsed, self.where)]
        conditions = " AND ".join(tests)
        return f"{query} WHERE {conditions}" if conditions else query

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


def table_of(data: Any, table: str | None, where: Sequence[str] = ()) -> Any:
    """The table of the database `data`; without a table, the data as they are."""
    if table is not None:
        return DatabaseTable(data, table, tuple(where))
    if where:
        raise SourceError("Conditions (where) need a table of a database.")
    return data


def refuse_conditions(data: Any, neighbors: Neighbors) -> None:
    """Refuse to call the number of rows public where conditions choose among them.

    A row that changes may begin or cease to meet them.
    """
    if neighbors == Neighbors.REPLACE_ONE and isinstance(data, DatabaseTable) and data.where:
        raise SourceError(
            "Under replace-one the number of rows is public, but how many meet the conditions "
            "(where) is not: use add-remove."
        )


def open_table(data: DatabaseTable) -> Source:
    """Open a table of a database; looks at names and types only."""
    data.select([])  # refuses what can't be asked
    source = _open(data)
    absent = [name for name, _ in map(_parsed, data.where) if name not in source.names]
    if absent:  # SQLite would take such a name for a text
        raise SourceError(f"The table has no column {absent[0]!r}, which a condition names.")
    return source


def _open(data: DatabaseTable) -> Source:
    link = str(data.database)
    if link.lower().startswith(POSTGRES):
        from dpcov.sources.postgres import PostgresSource

        return PostgresSource(data)
    if LINK.match(link):
        raise SourceError(NO_LINK)
    kind = database_kind(Path(link))
    if kind == "duckdb":
        from dpcov.sources.duckdb import DuckdbSource

        return DuckdbSource(data)
    if kind == "sqlite":
        from dpcov.sources.sqlite import SqliteSource

        return SqliteSource(data)
    raise SourceError(NO_LINK)


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


def hidden(text: str) -> str:
    """A text without links, and without anything that looks like a password."""
    text = re.sub(r"(?i)\b[a-z][a-z0-9+.-]+:/\S*", "(link)", text)
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|\S+)", r"\1(hidden)", text)


def _parsed(stated: str) -> tuple[str, str]:
    """Column of a condition, and the rest of it as SQL."""
    found = _CONDITION.fullmatch(stated)
    wrong = SourceError(
        f"The condition {hidden(stated)!r} can't be used: state a column, one of = != < <= > >=, "
        "and a number, true, false or 'text', as in \"age >= 18\"."
    )
    if found is None or "\0" in stated:
        raise wrong
    name, bare, operator, value = found.groups()
    try:
        literal = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise wrong from None
    if isinstance(literal, bool):
        text = "TRUE" if literal else "FALSE"
    elif isinstance(literal, int | float) and abs(literal) < 1e300:
        text = repr(literal)
    elif isinstance(literal, str) and "\\" not in literal:
        text = "'" + literal.replace("'", "''") + "'"
    else:
        raise wrong
    column = name.replace('""', '"') if name else bare
    return column, f"{'<>' if operator == '!=' else operator} {text}"
