"""Accounts of a ledger: what was spent, what is left, and what became of each release."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from dpcov.api.ledger.file import DAMAGED, has_results
from dpcov.core.ledger_rule import Count, Rule, Spend, epsilon_at
from dpcov.core.privacy import (
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    Unit,
    budget_from,
    round_down,
    round_up,
    unit_document,
)
from dpcov.core.privacy_filter import total
from dpcov.core.show.result import Result
from dpcov.core.show.table import Row, Table
from dpcov.errors import BudgetError, LedgerError

# Names of amounts in tables.
AMOUNTS = {"mu_squared": "mu^2", "pure": "pure epsilon"}
COUNTS = {
    Count.SUMS: "count: sums (epsilon, delta and rho of the releases add up)",
    Count.GAUSSIAN: "count: gaussian (the mu^2 of the releases add up)",
}
TIME_HEAD = "time (UTC)"
# States of an entry.
FINISHED, UNFINISHED, NOT_RECORDED = "finished", "unfinished", "not recorded"
# Number of digits of a file's hash in a table.
SHORT_HASH = 12


@dataclass(frozen=True, slots=True)
class About:
    """Description of a release for the ledger.

    Attributes
    ----------
    source : str
        Data source, without passwords.

    schema : str
        Name of the schema, or how the bounds were stated.

    schema_sha256 : str
        SHA-256 hash of the schema in its canonical JSON form.

    year : int or None
        Year of the data.

    purpose : str or None
        Purpose of the release.

    names : tuple of str
        Names of the release files, in the order of their hashes. Empty if no command wrote them.

    """

    source: str = ""
    schema: str = ""
    schema_sha256: str = ""
    year: int | None = None
    purpose: str | None = None
    names: tuple[str, ...] = ()

    @property
    def stated_year(self) -> str:
        """Year of the data as text, or an empty text."""
        return "" if self.year is None else str(self.year)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Record that a release was finished.

    Attributes
    ----------
    time : str
        Time of the record in UTC.

    files : tuple of str
        SHA-256 hashes of the release files.

    about : About
        Description of the release.

    """

    time: str
    files: tuple[str, ...]
    about: About


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

    mu : float or None
        Mu of the drawn noise, if all of it is Gaussian. The calibration of the noise sets it.

    outcome : Outcome or None
        Record of the finished release.

    state : str
        ``finished``; ``unfinished`` if the budget is spent and no outcome was recorded; or ``not
        recorded`` for entries of earlier versions, which recorded no outcomes.

    """

    id: int
    time: str
    guarantee: Guarantee
    note: str
    mu: float | None = None
    outcome: Outcome | None = None
    state: str = UNFINISHED

    @property
    def spend(self) -> Spend:
        """Cost of the release for the rule of the ledger."""
        return Spend(self.guarantee.budget, self.mu)

    @property
    def short_time(self) -> str:
        """Time of the entry without seconds."""
        return self.time[:16].replace("T", " ")

    @property
    def file(self) -> str:
        """Name and short hash of the release file, or what is known instead."""
        if self.outcome is None:
            return self.state
        names = self.outcome.about.names[:1]
        first, *others = [*(one[:SHORT_HASH] for one in self.outcome.files), ""]
        more = f"and {len(others) - 1} more" if len(others) > 1 else ""
        return " ".join(filter(None, [*names, first or "no file", more]))


@dataclass(frozen=True, slots=True)
class Account(Result):
    """Account of one data set: budget, spent amount and remaining amount.

    All releases together keep the budget, even if you choose each release after you saw the earlier
    ones (`dpcov.core.ledger_rule`). If you increase the budget later, the guarantee is the same as
    with the larger budget from the start.

    Attributes
    ----------
    dataset : str
        Name of the data set.

    budget : Budget
        Total budget of the data set.

    spent : dict of str to float
        Total cost of all releases. With the count ``gaussian``, epsilon is the value at the delta
        of the budget, and ``mu_squared`` is the sum of mu^2.

    left : dict of str to float
        Largest budget of a further release. With the count ``gaussian``, a release can use all of
        epsilon and delta, or all of ``mu_squared``. For sums of epsilon and delta with releases in
        rho, this is less than the budget minus the spent amount.

    neighbors : Neighbors
        Relation between neighbouring tables, the same for all releases.

    unit : Unit or None
        Privacy unit, the same for all releases. None before the first release.

    entries : tuple of Entry
        All releases, oldest first.

    count : Count
        How the ledger counts. It never changes.

    pure : float
        Part of epsilon that is reserved for pure releases.

    previous : str or None
        Data set whose remaining budget this data set received.

    successor : str or None
        Data set that received the remaining budget. This data set then accepts no more releases.

    See Also
    --------
    dpcov.Ledger.account : Read the account of a data set.

    Examples
    --------
    >>> import tempfile
    >>> import dpcov
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ledger = dpcov.Ledger.create(f"{folder}/hospital.ledger", dpcov.PureDP(3.0))
    ...     ledger.account().left
    {'epsilon': 3.0}

    """

    dataset: str
    budget: Budget
    spent: dict[str, float]
    left: dict[str, float]
    neighbors: Neighbors
    unit: Unit | None
    entries: tuple[Entry, ...]
    count: Count = Count.SUMS
    pure: float = 0.0
    previous: str | None = None
    successor: str | None = None

    @property
    def rule(self) -> Rule:
        """Rule by which the ledger counts this data set."""
        return Rule(self.budget, self.count, self.pure)

    @property
    def spends(self) -> list[Spend]:
        """Costs of all releases, oldest first."""
        return [entry.spend for entry in self.entries]

    @property
    def can_request(self) -> tuple[Budget, ...]:
        """Largest budget of each kind that one further release can have, rounded down.

        Examples
        --------
        >>> import tempfile
        >>> import dpcov
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/hospital.ledger", dpcov.PureDP(3.0))
        ...     ledger.account().can_request
        (PureDP(epsilon=3.0),)

        """
        return () if self.successor else self.rule.largest_requests(self.spends)

    def to_json(self) -> dict[str, Any]:
        """Return the account as plain data for JSON, with the entries under ``releases``."""
        plain = asdict(self)
        plain["unit"] = None if self.unit is None else unit_document(self.unit)
        plain["can_request"] = [asdict(budget) for budget in self.can_request]
        plain["releases"] = list(plain.pop("entries"))
        for one, entry in zip(plain["releases"], self.entries, strict=True):
            one["guarantee"]["unit"] = unit_document(entry.guarantee.unit)
        return plain

    def tables(self) -> list[Table]:
        return [self.totals(), *([self._releases()] if self.entries else [])]

    def totals(self) -> Table:
        """Return the table of budget, spent amounts and remaining amounts."""
        budget: dict[str, float] = asdict(self.budget)
        if self.count == Count.GAUSSIAN:
            budget |= {"mu_squared": float(self.rule.mu_squared or 0), "pure": self.pure}
        rows: list[Row] = [
            (AMOUNTS.get(name, name), [whole, self.spent.get(name, 0.0), self.left.get(name, 0.0)])
            for name, whole in budget.items()
            if name in self.left
        ]
        unit = "set by the first release" if self.unit is None else self.unit
        notes = [
            f"neighbours: {self.neighbors.value}; privacy unit: {unit}",
            *self.remarks(),
        ]
        heads = ("", "budget", "spent", "left")
        title = f"data set {self.dataset}"
        return Table(heads, rows, title, ("{:.12g}",), notes=tuple(notes))

    def remarks(self) -> list[str]:
        """Return sentences on how the ledger counts and on what you can still request."""
        found = [COUNTS[self.count]]
        if self.count == Count.GAUSSIAN and isinstance(self.budget, ApproxDP):
            found.append(
                f"Each epsilon is the value at delta {self.budget.delta:g}. Values of epsilon do "
                "not add up, but mu^2 does."
            )
        if self.successor is not None:
            found.append(
                f"This data set has ended. The data set {self.successor!r} received its budget."
            )
        else:
            kinds = [in_words(budget) for budget in self.can_request]
            asks = ", or ".join(kinds) if kinds else "nothing"
            found.append(f"One more release can request at most: {asks}.")
        if self.previous is not None:
            found.append(f"The budget is what was left of the data set {self.previous!r}.")
        return found

    def epsilon_at_delta(self, entry: Entry) -> float | None:
        """Return the epsilon of a release at the delta of the budget, from the drawn noise."""
        if not isinstance(self.budget, ApproxDP):
            return None
        return epsilon_at(entry.spend, self.budget.delta)

    def _releases(self) -> Table:
        rows: list[Row] = []
        for entry in self.entries:
            about = About() if entry.outcome is None else entry.outcome.about
            cells = [entry.short_time, entry.note, in_words(entry.guarantee.budget), entry.file]
            rows.append((str(entry.id), [*cells, about.source, about.stated_year]))
        heads = ("release", TIME_HEAD, "mechanism", "spent", "file", "source", "year")
        return Table(heads, rows, words=True)


def in_words(budget: Budget) -> str:
    """Return a budget in words, such as ``epsilon 1 and delta 1e-09``."""
    return amounts_in_words(asdict(budget))


def amounts_in_words(amounts: dict[str, float]) -> str:
    """Return amounts in words, such as ``epsilon 1 and delta 1e-09``."""
    return " and ".join(f"{name} {value:.12g}" for name, value in amounts.items())


def sum_of(budgets: Sequence[Budget]) -> Budget:
    """Add budgets of one kind and round the sum down."""
    return budget_from(**{name: round_down(total(budgets, name)) for name in asdict(budgets[0])})


def names(db: sqlite3.Connection) -> dict[str, str]:
    """Return the relation between neighbours of each data set, by name, oldest first."""
    return dict(db.execute("SELECT name, neighbors FROM datasets ORDER BY id"))


def account_of(db: sqlite3.Connection, dataset: str | None) -> Account:
    """Return the account of a data set, or refuse a damaged ledger.

    Parameters
    ----------
    db : sqlite3.Connection
        Connection to the ledger.

    dataset : str or None
        Name of the data set. None for the only data set that has not ended.

    Returns
    -------
    Account
        Account of the data set.

    Raises
    ------
    LedgerError
        The name is missing or unknown, or the ledger is damaged.

    """
    named = names(db)
    dataset = _chosen(db, named, dataset)
    try:
        return _account(db, dataset, Neighbors(named[dataset]))
    except (BudgetError, ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        raise LedgerError(f"The ledger of the data set {dataset!r} {DAMAGED}") from None


def _chosen(db: sqlite3.Connection, named: dict[str, str], dataset: str | None) -> str:
    """Return the name of the data set, which can be omitted if only one has not ended."""
    if dataset is None:
        alive = [name for name in named if name not in _endings(db)]
        if len(alive) == 1 or len(named) == 1:
            (dataset,) = alive if len(alive) == 1 else named
    if dataset is None or dataset not in named:
        problem = "several data sets" if dataset is None else f"no data set {dataset!r}"
        raise LedgerError(
            f"This ledger has {problem}. Add --dataset with one of these names: "
            f"{', '.join(map(repr, named))}."
        )
    return dataset


def _endings(db: sqlite3.Connection) -> dict[str, str]:
    """Return the successor of each data set that has ended."""
    if not has_results(db):
        return {}
    rows = db.execute("SELECT dataset, content FROM endings ORDER BY id")
    try:
        return {row["dataset"]: str(json.loads(row["content"])["successor"]) for row in rows}
    except (LookupError, RecursionError, TypeError, ValueError):
        raise LedgerError(f"The ledger {DAMAGED}") from None


def _account(db: sqlite3.Connection, dataset: str, neighbors: Neighbors) -> Account:
    grants = db.execute("SELECT * FROM budgets WHERE dataset = ? ORDER BY id", (dataset,))
    first, *later = [json.loads(row["budget"]) for row in grants]
    count, previous = Count(first.pop("count", Count.SUMS)), first.pop("previous", None)
    reserves = [grant.pop("pure", 0.0) for grant in (first, *later)]
    budget = sum_of([budget_from(**grant) for grant in (first, *later)])
    rule = Rule(budget, count, float(sum(map(Fraction, map(repr, reserves)))))
    entries = _entries(db, dataset)
    state = rule.balance([entry.spend for entry in entries])
    unit = entries[0].guarantee.unit if entries else None
    if unit is None and previous is not None:  # what was left protects the same unit
        unit = _account(db, previous, neighbors).unit
    return Account(
        dataset,
        budget,
        {name: round_up(amount) for name, amount in state.spent.items()},
        {name: max(0.0, round_down(amount)) for name, amount in state.left.items()},
        neighbors,
        unit,
        entries,
        rule.count,
        rule.pure,
        previous,
        _endings(db).get(dataset),
    )


def _entries(db: sqlite3.Connection, dataset: str) -> tuple[Entry, ...]:
    outcomes: dict[int, Outcome] = {}
    if has_results(db):
        for row in db.execute("SELECT * FROM results ORDER BY id"):
            content = json.loads(row["content"])
            files = tuple(map(str, content.pop("files")))
            content["names"] = tuple(map(str, content.get("names", ())))
            outcomes[int(row["entry"])] = Outcome(row["time"], files, About(**content))
    rows = db.execute("SELECT * FROM entries WHERE dataset = ? ORDER BY id", (dataset,))
    return tuple(_entry(row, outcomes.get(row["id"])) for row in rows)


def _entry(row: sqlite3.Row, outcome: Outcome | None) -> Entry:
    spent = json.loads(row["budget"])
    # Entries of earlier versions have no field `mu`, and no outcome ever follows.
    state = UNFINISHED if "mu" in spent else NOT_RECORDED
    mu = spent.pop("mu", None)
    if mu is not None:
        mu = float(mu)
        if not 0 < mu < float("inf"):
            raise ValueError("mu")
    guarantee = Guarantee(
        budget_from(**spent), Neighbors(row["neighbors"]), Unit(**json.loads(row["unit"]))
    )
    state = state if outcome is None else FINISHED
    return Entry(row["id"], row["time"], guarantee, row["note"], mu, outcome, state)
