"""The privacy-budget ledger: one SQLite file that says what has been spent.

Reserve, commit to disk, and only then draw noise. A crash between the two leaves an entry
for noise that nobody saw: the ledger may over-count, it never under-counts. A retry is a new
spend, and nothing is ever given back: the tables accept new rows only.

Amounts are decimal text, summed as fractions; a figure shown as spent is rounded up, one shown
as left or as a budget is rounded down.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dpcov.api.ledger.file import (
    DAMAGED,
    UNCHAINED,
    UNSPENT,
    Chain,
    chain,
    insert,
    local,
    named,
    transaction,
)
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    PureDP,
    Unit,
    budget_from,
    round_down,
    round_up,
)
from dpcov.core.privacy_filter import balance, total
from dpcov.core.show.result import Result
from dpcov.core.show.table import Row, Table
from dpcov.errors import BudgetError, BudgetExceededError, LedgerError

_KINDS: tuple[type[Budget], ...] = (PureDP, ZCDP, ApproxDP)  # each admits those before it


@dataclass(frozen=True, slots=True)
class Entry:
    """One spend: when (UTC), under which guarantee, and for what (`note`: the mechanism)."""

    id: int
    time: str
    guarantee: Guarantee
    note: str


@dataclass(frozen=True, slots=True)
class Account(Result):
    """What one data set may spend, has spent, and has left.

    All releases together keep `budget`, though each may have been chosen, its amount and all, after
    seeing those before it (`dpcov.core.privacy_filter`). `spent` is what they come to as they are,
    `left` what more may be asked for: less than the rest, once rho counts against (epsilon, delta).
    A budget that is raised later counts as if it had been that large from the start.
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

    def tables(self) -> list[Table]:
        plain = self.to_json()
        rows: list[Row] = []
        for name in plain["budget"]:
            parts = (plain["budget"], self.spent, self.left)
            rows.append((name, [part.get(name, 0.0) for part in parts]))
        unit = "set by the first release" if self.unit is None else self.unit
        note = f"neighbours: {self.neighbors.value}; unit: {unit}"
        heads = ("", "budget", "spent", "left")
        budget = Table(heads, rows, f"data set {self.dataset}", ("{:.12g}",), notes=(note,))
        return [budget, *([self._releases()] if self.entries else [])]

    def _releases(self) -> Table:
        rows: list[Row] = []
        for entry in self.entries:
            budget = asdict(entry.guarantee.budget)
            amount = ", ".join(f"{name} {value:.12g}" for name, value in budget.items())
            rows.append((str(entry.id), [entry.time, entry.note, amount]))
        return Table(("release", "time", "mechanism", "spent"), rows, words=True)


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
        place = local(path)
        try:
            dataset.encode()
        except UnicodeEncodeError:
            raise LedgerError("The name of a data set must be UTF-8 text.") from None
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass  # not opened: closing it would drop the locks of other threads
        except OSError:
            raise LedgerError(f"{named(place)}: its folder must exist and be writable.") from None
        with transaction(place, write=True, create=True) as db:
            if dataset in _neighbors_by_name(db):
                raise LedgerError(f"{named(place)}: it holds a data set {dataset!r} already.")
            insert(db, "datasets", dataset, neighbors)
            insert(db, "budgets", dataset, json.dumps(asdict(budget)))
        return cls(place)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open an existing ledger, checking that it is one and is whole."""
        place = local(path)
        with transaction(place, write=False):
            return cls(place)

    def datasets(self) -> list[str]:
        """Names of the data sets, oldest first."""
        with transaction(self.path, write=False) as db:
            return list(_neighbors_by_name(db))

    def account(self, dataset: str | None = None) -> Account:
        """Say what `dataset` (by default the only one) may spend, has spent, and has left."""
        with transaction(self.path, write=False) as db:
            return _account(db, dataset)

    def verify(self) -> Chain:
        """Check every page, every link of the hash chain and every entry."""
        with transaction(self.path, write=False) as db:
            for dataset in _neighbors_by_name(db):
                _account(db, dataset)
            found = chain(db)
        if found is None:
            raise LedgerError(f"{named(self.path)}: {UNCHAINED}")
        return found

    def migrate(self) -> Chain:
        """Start a hash chain for a ledger that has none; nothing before it can ever be verified."""
        with transaction(self.path, write=True, migrate=True):
            pass
        return self.verify()

    def add_budget(self, budget: Budget, *, dataset: str | None = None) -> None:
        """Raise the total of `dataset` by `budget`, of the same kind."""
        with transaction(self.path, write=True) as db:
            account = _account(db, dataset)
            if type(budget) is not type(account.budget):
                name, kind = account.dataset, _names(account.budget)
                raise LedgerError(f"Data set {name!r} has a budget of {kind}: add {kind} to it.")
            _sum([account.budget, budget])  # refuses a total that is no budget (a delta of 1)
            insert(db, "budgets", account.dataset, json.dumps(asdict(budget)))

    def reserve(self, guarantee: Guarantee, *, dataset: str | None = None, note: str = "") -> int:
        """Record a spend, or refuse it; the entry is on disk when its number is returned."""
        with transaction(self.path, write=True) as db:
            account = _account(db, dataset)
            _check(account, guarantee)
            time = datetime.now(UTC).isoformat(timespec="seconds")
            amount, unit = (json.dumps(asdict(x)) for x in (guarantee.budget, guarantee.unit))
            entry = (account.dataset, time, note, amount, guarantee.neighbors, unit)
            return insert(db, "entries", *entry)


def _check(account: Account, guarantee: Guarantee) -> None:
    """Refuse a guarantee that differs in kind, neighbours or unit, or does not fit."""
    budget, spend, name = account.budget, guarantee.budget, account.dataset
    neighbors, unit = account.neighbors, account.unit or guarantee.unit
    if (guarantee.neighbors, guarantee.unit) != (neighbors, unit):
        raise LedgerError(
            f"Data set {name!r} counts releases that protect {unit} under {neighbors} neighbours; "
            f"one that protects {guarantee.unit} under {guarantee.neighbors} neighbours does not "
            f"add to them. Use the same definition for all releases. {UNSPENT}"
        )
    if _KINDS.index(type(spend)) > _KINDS.index(type(budget)):
        raise LedgerError(
            f"A release stated by its {_names(spend)} cannot be counted against a budget of "
            f"{_names(budget)}. State the release by its {_names(budget)}, or keep the data set "
            f"in a ledger with a budget of {_names(spend)}. {UNSPENT}"
        )
    if not _fits(budget, [*(entry.guarantee.budget for entry in account.entries), spend]):
        asked, whole = _in_words(asdict(spend)), _in_words(asdict(budget))
        raise BudgetExceededError(
            f"The budget of data set {name!r} does not suffice: of {whole}, "
            f"{_in_words(account.left)} is left, and this release needs {asked}. {UNSPENT} "
            "Ask for less, or raise the budget with `dpcov ledger add-budget`."
        )


def _fits(budget: Budget, spends: Sequence[Budget]) -> bool:
    try:
        return balance(budget, spends).admitted
    except BudgetError:  # nothing left, or too large for a number
        return False


def _sum(budgets: Sequence[Budget]) -> Budget:
    """Budgets of one kind, added and rounded down."""
    return budget_from(**{name: round_down(total(budgets, name)) for name in asdict(budgets[0])})


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
        state = balance(budget, [entry.guarantee.budget for entry in entries])
        shown = {name: round_up(amount) for name, amount in state.spent.items()}
        rest = {name: max(0.0, round_down(amount)) for name, amount in state.left.items()}
        unit = entries[0].guarantee.unit if entries else None
        return Account(dataset, budget, shown, rest, Neighbors(names[dataset]), unit, entries)
    except (BudgetError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        raise LedgerError(f"Data set {dataset!r}: its ledger is {DAMAGED}") from None
