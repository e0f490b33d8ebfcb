"""The ledger's file: tables that only grow, a hash chain over their rows, locks and syncs.

Every operation opens its own connection, so that a ledger may be used from several threads
and across a fork. The journal is SQLite's rollback journal (``journal_mode=DELETE``): the
ledger stays one file, and a copy of it never lacks a write-ahead log that holds the last
spends. ``synchronous=EXTRA`` syncs the folder after the journal is deleted; without it a power
cut could bring the journal back and with it undo a spend. That sync keeps a new ledger's name too.

Every row of every table is a link of one chain, in the order of writing: its digest is SHA-256
of the digest before it, its table and its fields. So a row that was edited, removed, put in or
moved is found, and nothing is spent from such a file. The chain has no key: it finds damage and
careless edits, not somebody who computes it anew or takes it off (`Chain.holds` finds those too,
and copies that are put back, for whoever noted a head elsewhere). A file without a chain, as the
first version wrote it, is shown and no more: to spend from it somebody has to start a chain, which
says for ever that nothing before it can be verified.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from dpcov.core.printable import shown
from dpcov.errors import LedgerError

_APPLICATION_ID = 0x64706376  # "dpcv"
_VERSION = 2
_UNCHAINED = 1  # the version before the chain
_TABLES = {
    "datasets": ("name", "neighbors"),
    "budgets": ("dataset", "budget"),
    "entries": ("dataset", "time", "note", "budget", "neighbors", "unit"),
}
_CHAIN = {"chain": ("source", "row", "digest")}
_START = "start"  # source of the link with which a chain begins behind older rows
LARGEST_FILE = 2**30  # bytes: millions of releases
UNSPENT = "Nothing was drawn or spent."
UNCHAINED = (
    "it has no hash chain, so edits can't be found: an older dpcov made it, or the chain was taken "
    "off. If you know that it is whole, `dpcov ledger migrate` starts a chain; nothing before can "
    "ever be verified."
)
DAMAGED = (
    "damaged or edited, so nothing is spent from it. Restore a copy that is not older than the "
    "last release."
)
_FAILURES = {
    sqlite3.SQLITE_FULL: f"its disk is full. {UNSPENT}",
    sqlite3.SQLITE_READONLY: f"it or its folder is read-only. {UNSPENT}",
    sqlite3.SQLITE_CANTOPEN: "no ledger here, or no right to open it or its folder. Create one "
    f"with `dpcov ledger create`, or check the permissions. {UNSPENT}",
    sqlite3.SQLITE_BUSY: f"another process kept it locked. Try again. {UNSPENT}",
    sqlite3.SQLITE_NOTADB: "not a ledger of this version of dpcov.",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # a table or column that is not there
    sqlite3.SQLITE_IOERR: "reading or writing failed (a full or failing disk?). Nothing was "
    "drawn; the ledger may count a release that was not made, never the reverse.",
}
_NETWORK = re.compile(
    r"(fuse\.)?(nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|davfs2?|sshfs|s3fs|rclone)"
)


@dataclass(frozen=True, slots=True)
class Chain:
    """The digests of a ledger's rows, oldest first.

    The first `unverified` are of rows that are older than the chain: their edits can't be found.
    """

    digests: tuple[str, ...]
    unverified: int = 0

    @property
    def head(self) -> str:
        """Digest of the last row: of everything before it too."""
        return self.digests[-1] if self.digests else ""

    def holds(self, head: str) -> bool:
        """Whether this ledger continues the one whose head this was."""
        return head in self.digests


def insert(db: sqlite3.Connection, table: str, *values: str) -> int:
    """Append a row and its link, and return the row's number."""
    last = db.execute("SELECT digest FROM chain ORDER BY id DESC LIMIT 1").fetchone()
    number = _append(db, table, *values)
    digest = _digest("" if last is None else last["digest"], table, [number, *values])
    _append(db, "chain", table, str(number), digest)
    return number


def _append(db: sqlite3.Connection, table: str, *values: str) -> int:
    query = f"INSERT INTO {table} VALUES (NULL{', ?' * len(values)})"  # noqa: S608  our names
    return db.execute(query, values).lastrowid or 0


def _digest(before: str, table: str, row: list[int | str]) -> str:
    text = json.dumps([before, table, *row], default=repr)  # a damaged row may hold anything
    return sha256(text.encode()).hexdigest()


@contextmanager
def transaction(
    path: Path, *, write: bool, create: bool = False, migrate: bool = False
) -> Iterator[sqlite3.Connection]:
    """One transaction on a whole ledger: committed to disk on leaving, undone on any error.

    To `create` an empty file is made a ledger, to `migrate` an unchained one is chained.
    """
    uri = path.as_uri() + "?mode=rw"
    try:
        with closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if create and path.stat().st_size == 0:
                _initialise(db)
            version = _require_whole_ledger(db, path)
            if migrate and version == _VERSION:
                raise LedgerError(f"{named(path)}: it has a hash chain already.")
            if migrate:
                _add_chain(db)
            elif write and version == _UNCHAINED:
                raise LedgerError(f"{named(path)}: {UNCHAINED} {UNSPENT}")
            yield db
            db.execute("COMMIT")
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        text = _FAILURES.get(code & 0xFF, _FAILURES[sqlite3.SQLITE_IOERR])
        raise LedgerError(f"{named(path)}: {text}") from None
    except UnicodeDecodeError:  # sqlite3 fails to quote a damaged definition or text
        raise LedgerError(f"{named(path)}: {DAMAGED}") from None


def _initialise(db: sqlite3.Connection) -> None:
    """Make the tables, which accept new rows and no changes."""
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    for statement in _definitions(_TABLES):
        db.execute(statement)
    _add_chain(db)


def _definitions(tables: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What SQLite is told of these tables, and keeps word for word."""
    found = []
    for table, columns in tables.items():
        fields = ", ".join(f"{column} TEXT NOT NULL" for column in columns)
        found.append(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, {fields})")
        for change in ("UPDATE", "DELETE"):
            rule = f"BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            found.append(f"CREATE TRIGGER {table}_{change} {rule}")
    return found


def _add_chain(db: sqlite3.Connection) -> None:
    """Chain the rows that are there, table by table, and say so where there are any."""
    for statement in _definitions(_CHAIN):
        db.execute(statement)
    digest = ""
    for table in _TABLES:
        for row in db.execute(f"SELECT * FROM {table} ORDER BY id").fetchall():  # noqa: S608
            digest = _digest(digest, table, list(row))
            _append(db, "chain", table, str(row["id"]), digest)
    if digest:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        _append(db, "chain", _START, now, _digest(digest, _START, [now]))
    db.execute(f"PRAGMA user_version = {_VERSION}")


def _require_whole_ledger(db: sqlite3.Connection, path: Path) -> int:
    """The version of a ledger whose pages, definitions and chain are whole."""
    names = ("application_id", "user_version", "integrity_check")
    mark, version, health = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    if mark != _APPLICATION_ID or version not in (_UNCHAINED, _VERSION):
        raise LedgerError(f"{named(path)}: {_FAILURES[sqlite3.SQLITE_NOTADB]}")
    tables = _TABLES if version == _UNCHAINED else _TABLES | _CHAIN
    kept = db.execute("SELECT sql FROM sqlite_master WHERE name != 'sqlite_sequence'").fetchall()
    whole = health == "ok" and sorted(map(str, next(zip(*kept, strict=True), ()))) == sorted(
        _definitions(tables)
    )
    if not whole or (version == _VERSION and chain(db) is None):
        raise LedgerError(f"{named(path)}: {DAMAGED}")
    return int(version)


def chain(db: sqlite3.Connection) -> Chain | None:
    """The chain, if it links every row that was ever written, in order, and nothing else."""
    if db.execute("PRAGMA user_version").fetchone()[0] == _UNCHAINED:
        return None
    rows = {
        table: [list(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY id")]  # noqa: S608
        for table in _TABLES
    }
    links = db.execute("SELECT * FROM chain ORDER BY id").fetchall()
    unlinked = {table: iter(found) for table, found in rows.items()}
    digests, unverified = [""], 0
    for link in links:
        row: list[int | str] = next(unlinked.get(link["source"], iter(())), [0])
        if link["source"] == _START:
            row, unverified = [link["row"]], len(digests) - 1
        found = [link["id"], link["row"], link["digest"]]
        if found != [len(digests), str(row[0]), _digest(digests[-1], link["source"], row)]:
            return None
        digests.append(link["digest"])
    # SQLite keeps the largest number that was ever given, so that rows cut off the end are missed.
    ever = dict(db.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    counts = {"chain": len(links)} | {table: len(found) for table, found in rows.items()}
    if any(ever.get(table, 0) != count for table, count in counts.items()):
        return None
    starts = sum(link["source"] == _START for link in links)
    linked = sum(map(len, rows.values())) + starts == len(links) and starts <= 1
    return Chain(tuple(digests[1:]), unverified) if linked else None


def named(path: str | os.PathLike[str]) -> str:
    """Which ledger a message is about."""
    return f"Ledger {shown(path)}"


def local(path: str | os.PathLike[str]) -> Path:
    """Resolve `path`, refusing it where locks and syncs are not to be trusted."""
    try:
        place, mounts = Path(os.path.realpath(path)), Path("/proc/self/mounts")
        if place.exists() and not place.is_file():
            raise LedgerError(f"{named(place)}: it is no regular file.")
        if place.exists() and place.stat().st_size > LARGEST_FILE:
            raise LedgerError(f"{named(place)}: larger than any ledger.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "this is no name of a file"
        raise LedgerError(f"{named(path)}: {reason}.") from None
    kind = file_system(place, mounts.read_text(errors="replace")) if mounts.is_file() else ""
    if _NETWORK.fullmatch(kind):
        raise LedgerError(
            f"{named(place)}: on a network file system ({kind}), two machines could spend the "
            "same budget. Keep it on a local disk."
        )
    return place


def file_system(path: Path, mounts: str) -> str:
    """Type of the file system that holds `path`, given the text of ``/proc/self/mounts``."""
    kind, depth = "", -1
    for line in mounts.splitlines():
        _, folder, found, *_ = line.split(" ")
        folder = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), folder)
        if path.is_relative_to(folder) and len(folder) >= depth:
            kind, depth = found, len(folder)
    return kind
