"""The privacy-budget ledger: one SQLite file that records what was spent.

dpcov records the budget of a release on disk before it draws any noise. After a crash between these
two steps, the ledger contains an entry without a release. The ledger can therefore count too much,
but never too little. A repeated release spends budget again. The ledger never returns budget,
because its tables accept new rows only.

The ledger stores amounts as decimal text and adds them as exact fractions. Spent amounts are
rounded up. Budgets and remaining amounts are rounded down.
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

# Kinds of budgets. A ledger with a budget of one kind accepts releases of this kind and of all
# earlier kinds.
_KINDS: tuple[type[Budget], ...] = (PureDP, ZCDP, ApproxDP)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a ledger.

    Attributes
    ----------
    id : int
        Number of the entry.

    time : str
        Time of the entry in UTC.

    guarantee : Guarantee
        Guarantee of the release.

    note : str
        Note about the release, such as the name of the mechanism.

    """

    id: int
    time: str
    guarantee: Guarantee
    note: str


@dataclass(frozen=True, slots=True)
class Account(Result):
    """Account of one data set: budget, spent amount and remaining amount.

    All releases together keep the budget, even if you choose each release after you saw the earlier
    ones (`dpcov.core.privacy_filter`). If you increase the budget later, the guarantee is the same
    as with the larger budget from the start.

    Attributes
    ----------
    dataset : str
        Name of the data set.

    budget : Budget
        Total budget of the data set.

    spent : dict of str to float
        Total cost of all releases, in the kind of the budget.

    left : dict of str to float
        Largest budget of a further release. For an (epsilon, delta) budget with releases in rho,
        this is less than the budget minus the spent amount.

    neighbors : Neighbors
        Relation between neighbouring tables, the same for all releases.

    unit : Unit or None
        Privacy unit, the same for all releases. None before the first release.

    entries : tuple of Entry
        All releases, oldest first.

    """

    dataset: str
    budget: Budget
    spent: dict[str, float]
    left: dict[str, float]
    neighbors: Neighbors
    unit: Unit | None
    entries: tuple[Entry, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the account as plain data for JSON, with the entries under ``releases``."""
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
        note = f"neighbours: {self.neighbors.value}; privacy unit: {unit}"
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
    """Ledger with the budgets and releases of one or more data sets, in an SQLite file.

    Parameters
    ----------
    path : Path
        File of the ledger. Use `Ledger.create` or `Ledger.open` to obtain a ledger.

    See Also
    --------
    release : Release that records its budget in a ledger.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import dpcov
    >>> with TemporaryDirectory() as folder:
    ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
    ...     ledger.account().left
    {'epsilon': 3.0}

    """

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
        """Create a ledger, or add a data set to an existing ledger.

        Parameters
        ----------
        path : str or os.PathLike
            File of the ledger.

        budget : Budget
            Total budget of the data set.

        dataset : str, default 'default'
            Name of the data set.

        neighbors : Neighbors, default Neighbors.ADD_REMOVE
            Relation between neighbouring tables for all releases of the data set.

        Returns
        -------
        Ledger
            Ledger with the data set.

        Raises
        ------
        LedgerError
            The ledger already contains the data set, or dpcov cannot write the file.

        See Also
        --------
        Ledger.open : Open an existing ledger.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> with TemporaryDirectory() as folder:
        ...     path = f"{folder}/people.ledger"
        ...     ledger = dpcov.Ledger.create(path, dpcov.ZCDP(0.5), dataset="visits")
        ...     ledger.account().neighbors.value
        'add-remove'

        """
        place = local(path)
        try:
            dataset.encode()
        except UnicodeEncodeError:
            raise LedgerError("The name of a data set must be UTF-8 text.") from None
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            pass  # do not open the file: closing it would release the locks of other threads
        except OSError:
            raise LedgerError(
                f"{named(place)} cannot be created. Choose a folder that exists and is writable."
            ) from None
        with transaction(place, write=True, create=True) as db:
            if dataset in _neighbors_by_name(db):
                raise LedgerError(
                    f"{named(place)} already contains the data set {dataset!r}. Use this ledger, "
                    "or add --dataset with a new name."
                )
            insert(db, "datasets", dataset, neighbors)
            insert(db, "budgets", dataset, json.dumps(asdict(budget)))
        return cls(place)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open and verify an existing ledger.

        Parameters
        ----------
        path : str or os.PathLike
            File of the ledger.

        Returns
        -------
        Ledger
            Verified ledger.

        Raises
        ------
        LedgerError
            The file does not exist, is not a ledger, or is damaged.

        See Also
        --------
        Ledger.create : Create a ledger.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     dpcov.Ledger.open(f"{folder}/people.ledger") == ledger
        True

        """
        place = local(path)
        with transaction(place, write=False):
            return cls(place)

    def datasets(self) -> list[str]:
        """Return the names of the data sets.

        Returns
        -------
        list of str
            Names, oldest first.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     ledger.datasets()
        ['default']

        """
        with transaction(self.path, write=False) as db:
            return list(_neighbors_by_name(db))

    def account(self, dataset: str | None = None) -> Account:
        """Return the account of a data set.

        Parameters
        ----------
        dataset : str, optional
            Name of the data set. You can omit the name if the ledger has only one data set.

        Returns
        -------
        Account
            Budget, spent amount, remaining amount and entries of the data set.

        Raises
        ------
        LedgerError
            The ledger does not contain the data set, or contains several data sets and `dataset` is
            missing.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> import numpy as np
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     _ = dpcov.release(np.eye(50), lower=0, upper=1, epsilon=1.0, ledger=ledger)
        ...     ledger.account().spent
        {'epsilon': 1.0}

        """
        with transaction(self.path, write=False) as db:
            return _account(db, dataset)

    def verify(self) -> Chain:
        """Verify every page, every link of the hash chain and every entry.

        Returns
        -------
        Chain
            Hash chain of the ledger.

        Raises
        ------
        LedgerError
            The ledger is damaged or has no hash chain.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     ledger.verify() == ledger.verify()
        True

        """
        with transaction(self.path, write=False) as db:
            for dataset in _neighbors_by_name(db):
                _account(db, dataset)
            found = chain(db)
        if found is None:
            raise LedgerError(f"{named(self.path)} {UNCHAINED}")
        return found

    def migrate(self) -> Chain:
        """Start a hash chain in a ledger without one.

        dpcov can never verify the entries before the start of the chain.

        Returns
        -------
        Chain
            Hash chain of the ledger.

        Raises
        ------
        LedgerError
            The ledger is damaged, or already has a hash chain.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     try:
        ...         ledger.migrate()
        ...     except dpcov.errors.LedgerError:
        ...         print("The ledger already has a hash chain.")
        The ledger already has a hash chain.

        """
        with transaction(self.path, write=True, migrate=True):
            pass
        return self.verify()

    def add_budget(self, budget: Budget, *, dataset: str | None = None) -> None:
        """Increase the total budget of a data set.

        Parameters
        ----------
        budget : Budget
            Additional budget, of the same kind as the total budget.

        dataset : str, optional
            Name of the data set. You can omit the name if the ledger has only one data set.

        Raises
        ------
        LedgerError
            The additional budget has another kind.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     ledger.add_budget(dpcov.PureDP(1.5))
        ...     ledger.account().budget
        PureDP(epsilon=4.5)

        """
        with transaction(self.path, write=True) as db:
            account = _account(db, dataset)
            if type(budget) is not type(account.budget):
                name, kind = account.dataset, _names(account.budget)
                raise LedgerError(
                    f"The data set {name!r} has a budget in {kind}. Add a budget in {kind}."
                )
            _sum([account.budget, budget])  # refuses an invalid total, such as a delta of 1
            insert(db, "budgets", account.dataset, json.dumps(asdict(budget)))

    def reserve(self, guarantee: Guarantee, *, dataset: str | None = None, note: str = "") -> int:
        """Record the budget of a release on disk, or refuse the release.

        Parameters
        ----------
        guarantee : Guarantee
            Guarantee of the release.

        dataset : str, optional
            Name of the data set. You can omit the name if the ledger has only one data set.

        note : str, default ''
            Note about the release.

        Returns
        -------
        int
            Number of the new entry.

        Raises
        ------
        BudgetExceededError
            The remaining budget is too small.

        LedgerError
            The release has another kind of budget, privacy unit or relation between neighbours.

        See Also
        --------
        dpcov.release : Release that records its budget itself.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> guarantee = dpcov.Guarantee(dpcov.PureDP(1.0), dpcov.Neighbors.ADD_REMOVE)
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     _ = ledger.reserve(guarantee, note="mean age")
        ...     ledger.account().left
        {'epsilon': 2.0}

        """
        with transaction(self.path, write=True) as db:
            account = _account(db, dataset)
            _check(account, guarantee)
            time = datetime.now(UTC).isoformat(timespec="seconds")
            amount, unit = (json.dumps(asdict(x)) for x in (guarantee.budget, guarantee.unit))
            entry = (account.dataset, time, note, amount, guarantee.neighbors, unit)
            return insert(db, "entries", *entry)


def _check(account: Account, guarantee: Guarantee) -> None:
    """Refuse a guarantee that differs from earlier releases or that exceeds the budget."""
    budget, spend = account.budget, guarantee.budget
    neighbors, unit = account.neighbors, account.unit or guarantee.unit
    if guarantee.neighbors != neighbors:
        raise LedgerError(
            f"This ledger counts releases with --neighbors {neighbors}, but this release uses "
            f"{guarantee.neighbors}. Use {neighbors}, or another ledger. {UNSPENT}"
        )
    if guarantee.unit != unit:
        raise LedgerError(
            f"The releases in this ledger protect {unit}, but this release protects "
            f"{guarantee.unit}. Use the same privacy unit, or another ledger. {UNSPENT}"
        )
    if _KINDS.index(type(spend)) > _KINDS.index(type(budget)):
        options = " and ".join(f"--{name}" for name in asdict(budget))
        raise LedgerError(
            f"This ledger counts {_names(budget)}, but the release uses {_names(spend)}. Use "
            f"{options}, or a ledger that counts {_names(spend)}. {UNSPENT}"
        )
    if not _fits(budget, [*(entry.guarantee.budget for entry in account.entries), spend]):
        raise BudgetExceededError(
            f"Not enough budget: this release needs {_in_words(asdict(spend))}, but "
            f"{_remaining(account, spend)} remain. Request less, or run `dpcov ledger add-budget`. "
            f"{UNSPENT}"
        )


def _fits(budget: Budget, spends: Sequence[Budget]) -> bool:
    try:
        return balance(budget, spends).admitted
    except BudgetError:  # no budget remains, or the cost overflows
        return False


def _sum(budgets: Sequence[Budget]) -> Budget:
    """Add budgets of one kind and round the sum down."""
    return budget_from(**{name: round_down(total(budgets, name)) for name in asdict(budgets[0])})


def _in_words(amount: dict[str, float]) -> str:
    return " and ".join(f"{name} {value:.12g}" for name, value in amount.items())


def _remaining(account: Account, spend: Budget) -> str:
    """Return the remaining budget of a data set in words, such as ``2 of 3``."""
    whole = asdict(account.budget)
    if len(whole) == 1 and type(spend) is type(account.budget):
        (name,) = whole
        return f"{account.left[name]:.12g} of {whole[name]:.12g}"
    return f"{_in_words(account.left)} of {_in_words(whole)}"


def _names(budget: Budget) -> str:
    return " and ".join(asdict(budget))


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
        problem = "several data sets" if dataset is None else f"no data set {dataset!r}"
        raise LedgerError(
            f"This ledger has {problem}. Add --dataset with one of these names: "
            f"{', '.join(map(repr, names))}."
        )
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
        raise LedgerError(f"The ledger of the data set {dataset!r} {DAMAGED}") from None
