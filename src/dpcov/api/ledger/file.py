"""The file of a ledger: an SQLite database with a hash chain, whose tables only grow.

Connections. Every operation opens its own connection, so several threads and forked processes can
use the same ledger. The ledger uses the rollback journal of SQLite (``journal_mode=DELETE``) and
not a write-ahead log. A copy of the file therefore always contains the last entries. The setting
``synchronous=EXTRA`` syncs the folder after SQLite deletes the journal. Without this sync, a power
failure could restore the journal and undo an entry.

Hash chain. Every row of every table is a link of one chain, in the order of writing. The digest of
a link is the SHA-256 hash of the previous digest, the table and the fields. The chain therefore
shows if a row was edited, removed, inserted or moved. The ledger then accepts no releases.

Limits. The chain has no key, so it detects damage and careless edits only. It does not detect a
recomputed or removed chain. `Chain.holds` also detects these changes and old copies, for anyone who
recorded an earlier head elsewhere.

Old files. The first version of dpcov wrote ledgers without a chain. You can show such a ledger, but
it accepts no releases until `Ledger.migrate` starts a chain. Nobody can ever verify the earlier
entries. Ledgers of version 2 have a chain, but no tables for results and for endings. The first
change to such a ledger adds these tables in the same transaction.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from dpcov.core.printable import shown
from dpcov.errors import LedgerError

_APPLICATION_ID = 0x64706376  # "dpcv"
_VERSION = 3  # version of the ledgers that this version of dpcov writes
_UNCHAINED = 1  # version of ledgers without a chain
_TABLES = {
    "datasets": ("name", "neighbors"),
    "budgets": ("dataset", "budget"),
    "entries": ("dataset", "time", "note", "budget", "neighbors", "unit"),
}
_TABLES_OF_VERSION_3 = {
    "results": ("entry", "time", "content"),
    "endings": ("dataset", "time", "content"),
}
_CHAIN = {"chain": ("source", "row", "digest")}
_START = "start"  # source of the first link of a chain that starts after older rows
MAX_LEDGER_BYTES = 2**30  # bytes, enough for millions of releases
UNSPENT = "Nothing was spent."
# The next messages continue a sentence that starts with `named(path)`.
UNCHAINED = (
    "has no hash chain, so dpcov cannot detect edits. If you know that nobody edited the ledger, "
    "run `dpcov ledger migrate`; dpcov can never verify its earlier entries."
)
DAMAGED = (
    "is damaged or was edited, so dpcov spends nothing from it. Restore a copy that is not older "
    "than the last release."
)
_FAILURES = {
    sqlite3.SQLITE_FULL: f"is on a full disk. Free some space and try again. {UNSPENT}",
    sqlite3.SQLITE_READONLY: "or its folder is read-only. Change the permissions, or use another "
    f"ledger. {UNSPENT}",
    sqlite3.SQLITE_CANTOPEN: "does not exist, or you have no permission to open it. Run "
    f"`dpcov ledger create`, or change the permissions. {UNSPENT}",
    sqlite3.SQLITE_BUSY: f"is locked by another process. Try again later. {UNSPENT}",
    sqlite3.SQLITE_NOTADB: "is not a ledger of this version of dpcov. Choose another file.",
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_ERROR: DAMAGED,  # a table or column is missing
    sqlite3.SQLITE_IOERR: "cannot be read or written; the disk might be full or failing. dpcov "
    "made no release, but the ledger might count one.",
}
_NETWORK = re.compile(
    r"(fuse\.)?(nfs\d?|cifs|smb\w*|9p|afs|afpfs|webdav|ceph|lustre|gpfs|beegfs|glusterfs|davfs2?|sshfs"
    r"|s3fs|rclone)"
)
# A share in a resolved path of Windows, also of a drive letter that stands for a share.
_SHARE = re.compile(r"\\\\(\?\\UNC\\|[^?.])")
_MOUNT = re.compile(r"^.* on (/.*) \((\w+)[,)]", re.MULTILINE)  # a line of `mount` on macOS


@dataclass(frozen=True, slots=True)
class Chain:
    """Hash chain of a ledger.

    Attributes
    ----------
    digests : tuple of str
        Digests of all rows, oldest first.

    unverified : int
        Number of rows that are older than the chain. dpcov cannot detect edits of these rows.

    See Also
    --------
    dpcov.Ledger.verify : Check the chain of a ledger.

    Examples
    --------
    >>> import tempfile
    >>> import dpcov
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = dpcov.Ledger.create(f"{folder}/hospital.ledger", dpcov.PureDP(3.0))
    ...     ledger.verify().unverified
    0

    """

    digests: tuple[str, ...]
    unverified: int = 0

    @property
    def head(self) -> str:
        """Digest of the last row, which depends on all earlier rows.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/hospital.ledger", dpcov.PureDP(3.0))
        ...     len(ledger.verify().head)
        64

        """
        return self.digests[-1] if self.digests else ""

    def holds(self, head: str) -> bool:
        """Return True if the chain contains a head that was recorded earlier.

        Parameters
        ----------
        head : str
            Head of the chain at an earlier time.

        Returns
        -------
        bool
            True if the ledger still contains everything before this head.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/hospital.ledger", dpcov.PureDP(3.0))
        ...     ledger.verify().holds(ledger.verify().head)
        True

        """
        return head in self.digests


def insert(db: sqlite3.Connection, table: str, *values: str) -> int:
    """Append a row and its link to the chain, and return the number of the row."""
    last = db.execute("SELECT digest FROM chain ORDER BY id DESC LIMIT 1").fetchone()
    number = _append(db, table, *values)
    digest = _digest("" if last is None else last["digest"], table, [number, *values])
    _append(db, "chain", table, str(number), digest)
    return number


def _append(db: sqlite3.Connection, table: str, *values: str) -> int:
    query = f"INSERT INTO {table} VALUES (NULL{', ?' * len(values)})"  # noqa: S608  our names
    return db.execute(query, values).lastrowid or 0


def _digest(before: str, table: str, row: list[int | str]) -> str:
    text = json.dumps([before, table, *row], default=repr)  # a damaged row can have any type
    return sha256(text.encode()).hexdigest()


@contextmanager
def transaction(
    path: Path, *, write: bool, create: bool = False, migrate: bool = False
) -> Iterator[sqlite3.Connection]:
    """Run one transaction on a verified ledger.

    The transaction is committed to disk at the end of the block, or undone after any error.

    Parameters
    ----------
    path : Path
        File of the ledger.

    write : bool
        True if the transaction writes.

    create : bool
        True to turn an empty file into a ledger.

    migrate : bool
        True to start a hash chain in a ledger without one.

    Yields
    ------
    sqlite3.Connection
        Connection to the ledger.

    Raises
    ------
    LedgerError
        The file is not a ledger, or it is damaged, or SQLite cannot read or write it.

    """
    uri = path.as_uri() + "?mode=rw"
    try:
        with closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute(
                "PRAGMA fullfsync = ON"
            )  # on macOS, a sync otherwise ends in the drive's cache
            db.execute("PRAGMA trusted_schema = OFF")
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if create and path.stat().st_size == 0:
                _initialise(db)
            version = _require_whole_ledger(db, path)
            if migrate and version != _UNCHAINED:
                raise LedgerError(
                    f"{named(path)} already has a hash chain. Use the ledger without migrating it."
                )
            if migrate:
                _add_chain(db)
            elif write and version == _UNCHAINED:
                raise LedgerError(f"{named(path)} {UNCHAINED} {UNSPENT}")
            if write and version < _VERSION:
                _upgrade(db)
            yield db
            db.execute("COMMIT")
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        text = _FAILURES.get(code & 0xFF, _FAILURES[sqlite3.SQLITE_IOERR])
        raise LedgerError(f"{named(path)} {text}") from None
    except UnicodeDecodeError:  # sqlite3 cannot decode a damaged definition or text
        raise LedgerError(f"{named(path)} {DAMAGED}") from None


def _initialise(db: sqlite3.Connection) -> None:
    """Create the tables, which accept new rows but no changes."""
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    for statement in _definitions(_TABLES):
        db.execute(statement)
    _add_chain(db)
    _upgrade(db)


def _upgrade(db: sqlite3.Connection) -> None:
    """Add the tables of version 3 to a ledger with a chain."""
    for statement in _definitions(_TABLES_OF_VERSION_3):
        db.execute(statement)
    db.execute(f"PRAGMA user_version = {_VERSION}")


def _definitions(tables: Mapping[str, tuple[str, ...]]) -> list[str]:
    """Return the SQL definitions of tables, which SQLite stores unchanged."""
    found = []
    for table, columns in tables.items():
        fields = ", ".join(f"{column} TEXT NOT NULL" for column in columns)
        found.append(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, {fields})")
        for change in ("UPDATE", "DELETE"):
            rule = f"BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            found.append(f"CREATE TRIGGER {table}_{change} {rule}")
    return found


def _add_chain(db: sqlite3.Connection) -> None:
    """Add all existing rows to a new chain, followed by a link that marks its start."""
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


def _require_whole_ledger(db: sqlite3.Connection, path: Path) -> int:
    """Verify the pages, the definitions and the chain of a ledger, and return its version."""
    names = ("application_id", "user_version", "integrity_check")
    mark, version, health = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    if mark != _APPLICATION_ID or version not in range(_UNCHAINED, _VERSION + 1):
        raise LedgerError(f"{named(path)} {_FAILURES[sqlite3.SQLITE_NOTADB]}")
    tables = _tables(version) if version == _UNCHAINED else _tables(version) | _CHAIN
    kept = db.execute("SELECT sql FROM sqlite_master WHERE name != 'sqlite_sequence'").fetchall()
    whole = health == "ok" and sorted(map(str, next(zip(*kept, strict=True), ()))) == sorted(
        _definitions(tables)
    )
    if not whole or (version != _UNCHAINED and chain(db) is None):
        raise LedgerError(f"{named(path)} {DAMAGED}")
    return int(version)


def _tables(version: int) -> dict[str, tuple[str, ...]]:
    """Return the tables of a version, without the chain, with their columns."""
    return _TABLES if version < _VERSION else _TABLES | _TABLES_OF_VERSION_3


def has_results(db: sqlite3.Connection) -> bool:
    """Return True if the ledger has the tables for results and for endings."""
    return bool(db.execute("PRAGMA user_version").fetchone()[0] == _VERSION)


def chain(db: sqlite3.Connection) -> Chain | None:
    """Return the verified chain of a ledger.

    Parameters
    ----------
    db : sqlite3.Connection
        Connection to the ledger.

    Returns
    -------
    Chain or None
        Chain of the ledger. None if the chain does not link exactly the rows that were written.

    """
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version == _UNCHAINED:
        return None
    rows = {
        table: [list(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY id")]  # noqa: S608
        for table in _tables(version)
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
    # SQLite stores the largest row number that it ever used. A smaller number of rows therefore
    # shows that somebody removed the last rows.
    ever = dict(db.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    counts = {"chain": len(links)} | {table: len(found) for table, found in rows.items()}
    if any(ever.get(table, 0) != count for table, count in counts.items()):
        return None
    starts = sum(link["source"] == _START for link in links)
    linked = sum(map(len, rows.values())) + starts == len(links) and starts <= 1
    return Chain(tuple(digests[1:]), unverified) if linked else None


def named(path: str | os.PathLike[str]) -> str:
    """Return the subject of a message about a ledger."""
    return f"The ledger {shown(path)}"


def local(path: str | os.PathLike[str]) -> Path:
    """Return the resolved path of a ledger, and refuse unsafe places.

    Parameters
    ----------
    path : str or os.PathLike
        File of the ledger.

    Returns
    -------
    Path
        Resolved path.

    Raises
    ------
    LedgerError
        The path is not a regular file, or it is on a network file system, where locks and syncs are
        unreliable.

    """
    try:
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file():
            raise LedgerError(f"{named(place)} is not a regular file. Choose another path.")
        if place.exists() and place.stat().st_size > MAX_LEDGER_BYTES:
            raise LedgerError(f"{named(place)} is larger than 1 GiB. Choose another file.")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the name is not a valid file name"
        raise LedgerError(f"{named(path)} can't be opened: {reason}.") from None
    kind = "smb" if _SHARE.match(str(place)) else file_system(place, _mounts())
    if _NETWORK.fullmatch(kind):
        raise LedgerError(
            f"{named(place)} is on a network file system ({kind}), where two machines could spend "
            "the same budget. Move the ledger to a local disk."
        )
    return place


def _mounts() -> str:
    """Return the mounted file systems in the format of ``/proc/self/mounts``; empty on Windows."""
    listed, program = Path("/proc/self/mounts"), "/sbin/mount"
    if listed.is_file():
        return listed.read_text(encoding="utf-8", errors="replace")
    if not os.path.exists(program):  # noqa: PTH110
        return ""
    import subprocess

    with suppress(OSError):
        done = subprocess.run([program], stdin=subprocess.DEVNULL, capture_output=True, check=False)  # noqa: S603
        return from_mount(done.stdout.decode("utf-8", "replace"))
    return ""


def from_mount(text: str) -> str:
    """Return the output of the program `mount` in the format of ``/proc/self/mounts``."""
    found = ((folder.replace(" ", r"\040"), kind) for folder, kind in _MOUNT.findall(text))
    return "\n".join(f"- {folder} {kind} -" for folder, kind in found)


def file_system(path: Path, mounts: str) -> str:
    """Return the type of the file system of a path.

    Parameters
    ----------
    path : Path
        Resolved path.

    mounts : str
        Text of ``/proc/self/mounts``.

    Returns
    -------
    str
        Type of the file system, or an empty string.

    """
    kind, depth = "", -1
    for line in mounts.splitlines():
        _, folder, found, *_ = line.split(" ")
        folder = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), folder)
        if path.is_relative_to(folder) and len(folder) >= depth:
            kind, depth = found, len(folder)
    return kind
