"""The privacy-budget ledger: one SQLite file that says what has been spent.

Reserve, commit to disk, and only then draw noise. A crash between the two leaves an entry
for noise that nobody saw: the ledger may over-count, it never under-counts. A retry is a new
spend, and nothing is ever given back: the tables accept new rows only.

Amounts are decimal text, summed as fractions; a figure shown as spent is rounded up, one shown
as left or as a budget is rounded down.

Every operation opens its own connection, so that a ledger may be used from several threads
and across a fork. The journal is SQLite's rollback journal (``journal_mode=DELETE``): the
ledger stays one file, and a copy of it never lacks a write-ahead log that holds the last
spends. ``synchronous=EXTRA`` syncs the folder after the journal is deleted; without it a power
cut could bring the journal back and with it undo a spend. That sync keeps a new ledger's name too.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

from dpcov.errors import BudgetError, BudgetExceededError, LedgerError
from dpcov.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    PureDP,
    Unit,
    budget_from,
    exact,
    round_down,
    round_up,
    zcdp_epsilon,
)

_APPLICATION_ID = 0x64706376  # "dpcv"
_VERSION = 1
_TABLES = {
    "datasets": ("name", "neighbors"),
    "budgets": ("dataset", "budget"),
    "entries": ("dataset", "time", "note", "budget", "neighbors", "unit"),
}
_KINDS: tuple[type[Budget], ...] = (PureDP, ZCDP, ApproxDP)  # each admits those before it
_UNSPENT = "Nothing was drawn or spent."
_DAMAGED = "damaged. Restore a copy that is not older than the last release."
_FAILURES = {
    sqlite3.SQLITE_FULL: f"its disk is full. {_UNSPENT}",
    sqlite3.SQLITE_READONLY: f"it or its folder is read-only. {_UNSPENT}",
    sqlite3.SQLITE_CANTOPEN: "no ledger here, or no right to open it or its folder. Create one "
    f"with `dpcov ledger create`, or check the permissions. {_UNSPENT}",
    sqlite3.SQLITE_BUSY: f"another process kept it locked. Try again. {_UNSPENT}",
    sqlite3.SQLITE_NOTADB: "not a ledger of this version of dpcov.",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_IOERR: "reading or writing failed (a full or failing disk?). Nothing was "
    "drawn; the ledger may count a release that was not made, never the reverse.",
}
_NETWORK = re.compile(
    r"(fuse\.)?(nfs\d?|cifs|smb\w*|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|davfs2?|sshfs|s3fs|rclone)"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend: when (UTC), under which guarantee, and for what (`note`: the mechanism)."""

    id: int
    time: str
    guarantee: Guarantee
    note: str


@dataclass(frozen=True, slots=True)
class Account:
    """What one data set may spend, has spent, and has left.

    All releases together keep `spent`, though each may have been chosen, budget and all, after
    seeing those before it: the rules by which they are counted (`_spent`) allow that. A budget
    that is raised later counts as if it had been that large from the start.
    """

    dataset: str
    budget: Budget
    spent: dict[str, float]
    left: dict[str, float]
    neighbors: Neighbors
    unit: Unit | None
    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        """As plain data, the entries under ``releases``."""
        plain = asdict(self)
        plain["releases"] = list(plain.pop("entries"))
        return plain

    def _repr_html_(self) -> str:
        from dpcov.notebook import account_html

        return account_html(self)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The budgets and spends of one or more data sets, in the SQLite file at `path`."""

    path: Path

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        budget: Budget,
        *,
        dataset: str = "default",
        neighbors: Neighbors = Neighbors.ADD_REMOVE,
    ) -> Ledger:
        """Give `dataset` a budget, in a new ledger file or in an existing ledger."""
        place = _local(path)
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass  # not opened: closing it would drop the locks of other threads
        except OSError:
            raise LedgerError(f"Ledger {place}: its folder must exist and be writable.") from None
        with _transaction(place, write=True, create=True) as db:
            if dataset in _neighbors_by_name(db):
                raise LedgerError(f"Ledger {place}: it holds a data set {dataset!r} already.")
            _insert(db, "datasets", dataset, neighbors)
            _insert(db, "budgets", dataset, json.dumps(asdict(budget)))
        return cls(place)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open an existing ledger, checking that it is one and is whole."""
        place = _local(path)
        with _transaction(place, write=False):
            return cls(place)

    def datasets(self) -> list[str]:
        """Names of the data sets, oldest first."""
        with _transaction(self.path, write=False) as db:
            return list(_neighbors_by_name(db))

    def account(self, dataset: str | None = None) -> Account:
        """Say what `dataset` (by default the only one) may spend, has spent, and has left."""
        with _transaction(self.path, write=False) as db:
            return _account(db, dataset)

    def add_budget(self, budget: Budget, *, dataset: str | None = None) -> None:
        """Raise the total of `dataset` by `budget`, of the same kind."""
        with _transaction(self.path, write=True) as db:
            account = _account(db, dataset)
            if type(budget) is not type(account.budget):
                name, kind = account.dataset, _names(account.budget)
                raise LedgerError(f"Data set {name!r} has a budget of {kind}: add {kind} to it.")
            _sum([account.budget, budget])  # refuses a total that is no budget (a delta of 1)
            _insert(db, "budgets", account.dataset, json.dumps(asdict(budget)))

    def reserve(self, guarantee: Guarantee, *, dataset: str | None = None, note: str = "") -> int:
        """Record a spend, or refuse it; the entry is on disk when its number is returned."""
        with _transaction(self.path, write=True) as db:
            account = _account(db, dataset)
            _check(account, guarantee)
            time = datetime.now(UTC).isoformat(timespec="seconds")
            amount, unit = (json.dumps(asdict(x)) for x in (guarantee.budget, guarantee.unit))
            entry = (account.dataset, time, note, amount, guarantee.neighbors, unit)
            return _insert(db, "entries", *entry)


def _check(account: Account, guarantee: Guarantee) -> None:
    """Refuse a guarantee that differs in kind, neighbours or unit, or does not fit."""
    budget, spend, name = account.budget, guarantee.budget, account.dataset
    neighbors, unit = account.neighbors, account.unit or guarantee.unit
    if (guarantee.neighbors, guarantee.unit) != (neighbors, unit):
        raise LedgerError(
            f"Data set {name!r} counts releases that protect {unit} under {neighbors} neighbours; "
            f"one that protects {guarantee.unit} under {guarantee.neighbors} neighbours does not "
            f"add to them. Use the same definition for all releases. {_UNSPENT}"
        )
    if _KINDS.index(type(spend)) > _KINDS.index(type(budget)):
        raise LedgerError(
            f"A release stated by its {_names(spend)} cannot be counted against a budget of "
            f"{_names(budget)}. State the release by its {_names(budget)}, or keep the data set "
            f"in a ledger with a budget of {_names(spend)}. {_UNSPENT}"
        )
    kinds = {type(spend), *(type(entry.guarantee.budget) for entry in account.entries)}
    if kinds >= {ZCDP, ApproxDP}:
        raise LedgerError(
            f"Data set {name!r} cannot count releases stated by rho beside releases stated by "
            "epsilon with delta. State this one like those before it, or by its epsilon alone. "
            f"{_UNSPENT}"
        )
    if not _fits(budget, [*(entry.guarantee.budget for entry in account.entries), spend]):
        asked, whole = _in_words(asdict(spend)), _in_words(asdict(budget))
        raise BudgetExceededError(
            f"The budget of data set {name!r} does not suffice: of {whole}, "
            f"{_in_words(account.left)} is left, and this release needs {asked}. {_UNSPENT} "
            "Ask for less, or raise the budget with `dpcov ledger add-budget`."
        )


def _spent(budget: Budget, spends: Sequence[Budget]) -> dict[str, Fraction]:
    """Exactly what `spends`, oldest first, come to in the terms of `budget`.

    Sums of epsilon and delta, and sums of rho (a pure epsilon being epsilon^2/2-zCDP), may be
    filled up adaptively (Rogers et al. 2016; Feldman and Zrnic 2021). Under an (epsilon, delta)
    budget the first spend that is not pure settles which of the two is used from there on, the
    other kind being refused: either all epsilons and deltas add up, or the zCDP part has the rho
    whose epsilon, at the whole delta of the budget, is what the pure spends before it left. Proof:
    over a pure prefix h of epsilon e, P(h) <= exp(e) Q(h); what follows h keeps (epsilon - e,
    delta) by one of the sums; so the outcomes that continue h contribute at most delta P(h) to
    the excess of P over exp(epsilon) Q, whichever way h settled it, and sum_h P(h) = 1.
    """
    epsilon, delta, rho = (_total(spends, name) for name in ("epsilon", "delta", "rho"))
    match budget:
        case PureDP():
            return {"epsilon": epsilon}
        case ZCDP():
            return {"rho": rho + _squares(spends)}
        case ApproxDP() if rho:
            start = next(at for at, spend in enumerate(spends) if isinstance(spend, ZCDP))
            concentrated = round_up(rho + _squares(spends[start:]))
            converted = zcdp_epsilon(concentrated, budget.delta)
            if converted == inf or delta:  # `_check` refuses the kinds that don't mix
                raise BudgetError("these spends have no epsilon")
            before = _total(spends[:start], "epsilon")
            return {"epsilon": before + exact(converted), "delta": exact(budget.delta)}
        case ApproxDP():
            return {"epsilon": epsilon, "delta": delta}


def _squares(spends: Sequence[Budget]) -> Fraction:
    """Rho of the pure spends."""
    return sum((exact(s.epsilon) ** 2 / 2 for s in spends if isinstance(s, PureDP)), Fraction(0))


def _fits(budget: Budget, spends: Sequence[Budget]) -> bool:
    try:
        spent = _spent(budget, spends)
    except BudgetError:  # too large for a number
        return False
    return all(amount <= exact(getattr(budget, name)) for name, amount in spent.items())


def _total(budgets: Sequence[Budget], name: str) -> Fraction:
    return sum((exact(getattr(b, name)) for b in budgets if hasattr(b, name)), Fraction(0))


def _sum(budgets: Sequence[Budget]) -> Budget:
    """Budgets of one kind, added and rounded down."""
    return budget_from(**{name: round_down(_total(budgets, name)) for name in asdict(budgets[0])})


def _in_words(amount: dict[str, float]) -> str:
    return " with ".join(f"{name} = {value!r}" for name, value in amount.items())


def _names(budget: Budget) -> str:
    return " with ".join(asdict(budget))


def _entry(row: sqlite3.Row) -> Entry:
    amount, unit = budget_from(**json.loads(row["budget"])), Unit(**json.loads(row["unit"]))
    guarantee = Guarantee(amount, Neighbors(row["neighbors"]), unit)
    return Entry(row["id"], row["time"], guarantee, row["note"])


def _neighbors_by_name(db: sqlite3.Connection) -> dict[str, str]:
    return dict(db.execute("SELECT name, neighbors FROM datasets ORDER BY id"))


def _account(db: sqlite3.Connection, dataset: str | None) -> Account:
    names = _neighbors_by_name(db)
    if dataset is None and len(names) == 1:
        (dataset,) = names
    if dataset is None or dataset not in names:
        raise LedgerError(f"Name a data set of this ledger: {', '.join(map(repr, names))}.")
    try:
        grants = db.execute("SELECT * FROM budgets WHERE dataset = ?", (dataset,))
        budget = _sum([budget_from(**json.loads(row["budget"])) for row in grants])
        rows = db.execute("SELECT * FROM entries WHERE dataset = ? ORDER BY id", (dataset,))
        entries = tuple(_entry(row) for row in rows)
        spent = _spent(budget, [entry.guarantee.budget for entry in entries])
        left = {name: exact(getattr(budget, name)) - amount for name, amount in spent.items()}
        shown = {name: round_up(amount) for name, amount in spent.items()}
        rest = {name: max(0.0, round_down(amount)) for name, amount in left.items()}
        unit = entries[0].guarantee.unit if entries else None
        return Account(dataset, budget, shown, rest, Neighbors(names[dataset]), unit, entries)
    except (BudgetError, ArithmeticError, IndexError, TypeError, ValueError):
        raise LedgerError(f"Data set {dataset!r}: its ledger is {_DAMAGED}") from None


def _insert(db: sqlite3.Connection, table: str, *values: str) -> int:
    """Append a row and return its number."""
    query = f"INSERT INTO {table} VALUES (NULL{', ?' * len(values)})"  # noqa: S608  our names
    return db.execute(query, values).lastrowid or 0


@contextmanager
def _transaction(path: Path, *, write: bool, create: bool = False) -> Iterator[sqlite3.Connection]:
    """One transaction on a whole ledger: committed to disk on leaving, undone on any error."""
    uri = path.as_uri() + "?mode=rw"
    try:
        with closing(sqlite3.connect(uri, timeout=60, isolation_level=None, uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.execute("PRAGMA journal_mode = DELETE")
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            if create and path.stat().st_size == 0:
                _initialise(db)
            _require_whole_ledger(db, path)
            yield db
            db.execute("COMMIT")
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        text = _FAILURES.get(code & 0xFF, _FAILURES[sqlite3.SQLITE_IOERR])
        raise LedgerError(f"Ledger {path}: {text}") from None


def _initialise(db: sqlite3.Connection) -> None:
    """Make the tables, which accept new rows and no changes."""
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    db.execute(f"PRAGMA user_version = {_VERSION}")
    for table, columns in _TABLES.items():
        fields = ", ".join(f"{column} TEXT NOT NULL" for column in columns)
        db.execute(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY AUTOINCREMENT, {fields})")
        for change in ("UPDATE", "DELETE"):
            rule = f"BEFORE {change} ON {table} BEGIN SELECT RAISE(ABORT, 'append only'); END"
            db.execute(f"CREATE TRIGGER {table}_{change} {rule}")


def _require_whole_ledger(db: sqlite3.Connection, path: Path) -> None:
    names = ("application_id", "user_version", "integrity_check")
    *mark, health = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    if mark != [_APPLICATION_ID, _VERSION]:
        raise LedgerError(f"Ledger {path}: {_FAILURES[sqlite3.SQLITE_NOTADB]}")
    if health != "ok":
        raise LedgerError(f"Ledger {path}: {_DAMAGED}")


def _local(path: str | os.PathLike[str]) -> Path:
    """Resolve `path`, refusing it where locks and syncs are not to be trusted."""
    place, mounts = Path(os.path.realpath(path)), Path("/proc/self/mounts")
    kind = file_system(place, mounts.read_text(errors="replace")) if mounts.is_file() else ""
    if _NETWORK.fullmatch(kind):
        raise LedgerError(
            f"Ledger {place}: on a network file system ({kind}), two machines could spend the "
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
