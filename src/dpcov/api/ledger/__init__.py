"""The privacy-budget ledger: one SQLite file that records what was spent.

dpcov records the budget of a release on disk before it draws any noise. After a crash between these
two steps, the ledger contains an entry without a release. The ledger can therefore count too much,
but never too little. A second record follows when the release is finished, so that an unfinished
release is visible. A repeated release spends budget again. The ledger never returns budget, because
its tables accept new rows only.

A ledger with a budget of epsilon and delta counts in one of two ways (`dpcov.core.ledger_rule`).
The choice is made once. The ledger stores amounts as decimal text and adds them as exact fractions.
Spent amounts are rounded up. Budgets and remaining amounts are rounded down.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from dpcov.api.ledger.account import (
    About,
    Account,
    Entry,
    Outcome,
    account_of,
    amounts_in_words,
    in_words,
    names,
    sum_of,
)
from dpcov.api.ledger.file import (
    UNCHAINED,
    UNSPENT,
    Chain,
    chain,
    insert,
    local,
    named,
    transaction,
)
from dpcov.core.files import keep_private
from dpcov.core.ledger_rule import Count, Rule, Spend
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    PureDP,
    budget_from,
    unit_document,
)
from dpcov.errors import BudgetExceededError, LedgerError

# Kinds of budgets. A ledger with a budget of one kind accepts releases of this kind and of all
# earlier kinds.
_KINDS: tuple[type[Budget], ...] = (PureDP, ZCDP, ApproxDP)


class LedgerWarning(UserWarning):
    """A warning that a ledger could not record the end of a release. The budget is spent."""


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
        count: Count | str | None = None,
        pure: float | None = None,
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

        count : {'gaussian', 'sums'}, optional
            How the ledger counts releases. You cannot change the count later. The default is
            ``gaussian`` for a budget of epsilon and delta. It allows more releases, but every
            release must have Gaussian noise. All other budgets have ``sums``.

        pure : float, optional
            Part of epsilon that is reserved for releases with pure differential privacy. Only for
            the count ``gaussian``.

        Returns
        -------
        Ledger
            Ledger with the data set.

        Raises
        ------
        BudgetError
            The budget does not fit the count or the reserve.

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
        rule = Rule(budget, _count(count, budget), pure or 0.0)
        place = local(path)
        _require_text("The name of a data set", dataset)
        try:
            os.close(os.open(place, os.O_CREAT | os.O_EXCL, 0o600))
            keep_private(place, LedgerError)
        except FileExistsError:
            pass  # do not open the file: closing it would release the locks of other threads
        except OSError:
            raise LedgerError(
                f"{named(place)} cannot be created. Choose a folder that exists and is writable."
            ) from None
        with transaction(place, write=True, create=True) as db:
            _open(db, place, dataset, neighbors, rule)
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
            return list(names(db))

    def account(self, dataset: str | None = None) -> Account:
        """Return the account of a data set.

        Parameters
        ----------
        dataset : str, optional
            Name of the data set. You can omit the name if only one data set has not ended.

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
            return account_of(db, dataset)

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
            for dataset in names(db):
                account_of(db, dataset)
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

    def add_budget(
        self, budget: Budget, *, dataset: str | None = None, pure: float | None = None
    ) -> None:
        """Increase the total budget of a data set.

        Parameters
        ----------
        budget : Budget
            Additional budget, of the same kind as the total budget.

        dataset : str, optional
            Name of the data set. You can omit the name if only one data set has not ended.

        pure : float, optional
            Part of the additional epsilon that is reserved for pure releases. Only for the count
            ``gaussian``.

        Raises
        ------
        LedgerError
            The additional budget has another kind, or the data set has ended.

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
            account = account_of(db, dataset)
            _require_alive(account)
            if type(budget) is not type(account.budget):
                name, kind = account.dataset, _names(account.budget)
                raise LedgerError(
                    f"The data set {name!r} has a budget in {kind}. Add a budget in {kind}."
                )
            Rule(budget, account.count, pure or 0.0)  # refuses a reserve that the budget lacks
            sum_of([account.budget, budget])  # refuses an invalid total, such as a delta of 1
            grant = asdict(budget) | ({"pure": pure} if pure else {})
            insert(db, "budgets", account.dataset, json.dumps(grant))

    def renew(
        self,
        dataset: str,
        *,
        previous: str | None = None,
        count: Count | str | None = None,
        pure: float | None = None,
    ) -> Account:
        """End a data set, and open a new one with the budget that is left of it.

        A ledger never changes how it counts. This method moves the remaining budget
        (`Account.left`) to a new data set of the same file, which can count in another way. The
        previous data set then accepts no more releases. Both changes are one transaction, so a
        crash leaves either none or both.

        Parameters
        ----------
        dataset : str
            Name of the new data set.

        previous : str, optional
            Data set that ends. You can omit the name if only one data set has not ended.

        count : {'gaussian', 'sums'}, optional
            How the new data set counts, as in `Ledger.create`.

        pure : float, optional
            Part of epsilon that is reserved for pure releases.

        Returns
        -------
        Account
            Account of the new data set.

        Raises
        ------
        LedgerError
            No budget is left, the data set has ended, or it counts Gaussian noise.

        See Also
        --------
        Ledger.add_budget : Increase the budget of a data set.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> budget = dpcov.ApproxDP(3.0, 1e-6)
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", budget, count="sums")
        ...     ledger.renew("people-2").count.value
        'gaussian'

        """
        _require_text("The name of a data set", dataset)
        with transaction(self.path, write=True) as db:
            old = account_of(db, previous)
            _require_alive(old)
            if old.count == Count.GAUSSIAN:  # what is left is a mu^2, which sums cannot count
                raise LedgerError(
                    f"The data set {old.dataset!r} already counts Gaussian noise. Keep it, or "
                    "raise its budget with `dpcov ledger add-budget`."
                )
            if min(old.left.values()) <= 0:
                raise LedgerError(
                    f"The data set {old.dataset!r} has too little left for a new data set: "
                    f"{amounts_in_words(old.left)}. Keep it, or raise its budget."
                )
            budget = budget_from(**old.left)
            rule = Rule(budget, _count(count, budget), pure or 0.0)
            _open(db, self.path, dataset, old.neighbors, rule, old.dataset)
            insert(db, "endings", old.dataset, _now(), json.dumps({"successor": dataset}))
            return account_of(db, dataset)

    def reserve(
        self,
        guarantee: Guarantee,
        *,
        dataset: str | None = None,
        note: str = "",
        mu: float | None = None,
    ) -> int:
        """Record the budget of a release on disk, or refuse the release.

        Parameters
        ----------
        guarantee : Guarantee
            Guarantee of the release.

        dataset : str, optional
            Name of the data set. You can omit the name if only one data set has not ended.

        note : str, default ''
            Note about the release.

        mu : float, optional
            Mu of the noise, if all of it is Gaussian. Only the calibration of the noise knows mu;
            never compute mu from epsilon and delta.

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
        if mu is not None and not 0 < mu < math.inf:
            raise LedgerError(f"mu must be a finite number above 0, not {mu!r}. {UNSPENT}")
        with transaction(self.path, write=True) as db:
            account = account_of(db, dataset)
            _check(account, guarantee, mu)
            amount = json.dumps(asdict(guarantee.budget) | {"mu": mu})
            unit = json.dumps(unit_document(guarantee.unit))
            entry = (account.dataset, _now(), note, amount, guarantee.neighbors, unit)
            return insert(db, "entries", *entry)

    def finish(self, entry: int, files: Sequence[str] = (), about: About | None = None) -> None:
        """Record that a release was finished.

        Parameters
        ----------
        entry : int
            Number of the entry, from `reserve`.

        files : sequence of str
            SHA-256 hashes of the release files.

        about : About, optional
            Data source, schema, year and purpose of the release.

        Raises
        ------
        LedgerError
            The ledger has no such entry, or the entry is finished already.

        See Also
        --------
        dpcov.release : Release that records its end itself.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> import dpcov
        >>> guarantee = dpcov.Guarantee(dpcov.PureDP(1.0), dpcov.Neighbors.ADD_REMOVE)
        >>> with TemporaryDirectory() as folder:
        ...     ledger = dpcov.Ledger.create(f"{folder}/people.ledger", dpcov.PureDP(3.0))
        ...     ledger.finish(ledger.reserve(guarantee, note="mean age"))
        ...     ledger.account().entries[0].state
        'finished'

        """
        content = {"files": list(files)} | asdict(about or About())
        with transaction(self.path, write=True) as db:
            found = db.execute("SELECT id FROM entries WHERE id = ?", (entry,)).fetchone()
            finished = db.execute("SELECT id FROM results WHERE entry = ?", (str(entry),))
            if found is None or finished.fetchone() is not None:
                state = "no entry" if found is None else "already a result of entry"
                raise LedgerError(f"{named(self.path)} contains {state} {entry}.")
            insert(db, "results", str(entry), _now(), json.dumps(content))


def finish_or_warn(ledger: Ledger, entry: int, files: Sequence[str], about: About) -> None:
    """Record that a release was finished, or warn. The release is never lost for a record.

    Parameters
    ----------
    ledger : Ledger
        Ledger of the release.

    entry : int
        Number of the entry, from `Ledger.reserve`.

    files : sequence of str
        SHA-256 hashes of the release files.

    about : About
        Description of the release.

    """
    try:
        ledger.finish(entry, files, about)
    except LedgerError:
        warnings.warn(
            "The release is finished, but dpcov could not write to the ledger, which shows it as "
            "unfinished. The budget is spent.",
            LedgerWarning,
            stacklevel=4,
        )


def _count(count: Count | str | None, budget: Budget) -> Count:
    """Return how a new data set counts. The default depends on the kind of the budget only."""
    if count is None:
        return Count.GAUSSIAN if isinstance(budget, ApproxDP) else Count.SUMS
    try:
        return Count(count)
    except ValueError:
        raise LedgerError(
            f"There is no count {str(count)!r}. Choose one of: {', '.join(Count)}."
        ) from None


def _open(
    db: sqlite3.Connection,
    path: Path,
    dataset: str,
    neighbors: Neighbors,
    rule: Rule,
    previous: str | None = None,
) -> None:
    """Append a new data set with its budget and its rule."""
    if dataset in names(db):
        raise LedgerError(
            f"{named(path)} already contains the data set {dataset!r}. Use this ledger, "
            "or add --dataset with a new name."
        )
    grant: dict[str, object] = {**asdict(rule.budget), "count": rule.count}
    grant |= {"pure": rule.pure} if rule.pure else {}
    grant |= {} if previous is None else {"previous": previous}
    insert(db, "datasets", dataset, neighbors)
    insert(db, "budgets", dataset, json.dumps(grant))


def _require_text(what: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LedgerError(f"{what} must be UTF-8 text.") from None


def _require_alive(account: Account) -> None:
    if account.successor is not None:
        raise LedgerError(
            f"The data set {account.dataset!r} has ended. Use --dataset {account.successor!r}, "
            f"which received its budget. {UNSPENT}"
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _check(account: Account, guarantee: Guarantee, mu: float | None) -> None:
    """Refuse a guarantee that differs from earlier releases or that exceeds the budget."""
    _require_alive(account)
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
    require_countable(account, spend, mu)
    if not account.rule.admits([*account.spends, Spend(spend, mu)]):
        raise BudgetExceededError(
            f"Not enough budget: this release needs {in_words(spend)}, but "
            f"{_remaining(account, spend)} remain. Request less, or run `dpcov ledger add-budget`. "
            f"{UNSPENT}"
        )


def require_countable(account: Account, spend: Budget, mu: float | None) -> None:
    """Refuse a release of a kind that the rule of the ledger cannot count.

    Parameters
    ----------
    account : Account
        Account of the data set.

    spend : Budget
        Budget of the release.

    mu : float or None
        Mu of the noise, if all of it is Gaussian.

    Raises
    ------
    LedgerError
        The rule cannot count the release.

    """
    if (problem := account.rule.refusal(Spend(spend, mu))) is not None:
        raise LedgerError(f"{problem} {UNSPENT}")


def _remaining(account: Account, spend: Budget) -> str:
    """Return the remaining budget of a data set in words, such as ``2 of 3``."""
    whole, left = asdict(account.budget), account.left
    if account.count == Count.GAUSSIAN:
        return _remaining_gaussian(account, spend)
    if len(whole) == 1 and type(spend) is type(account.budget):
        (name,) = whole
        return f"{left[name]:.12g} of {whole[name]:.12g}"
    return f"{amounts_in_words(left)} of {amounts_in_words(whole)}"


def _remaining_gaussian(account: Account, spend: Budget) -> str:
    """Return what remains for a release of this kind and with this delta."""
    match spend:
        case PureDP():
            return f"{account.left['pure']:.12g} of the reserve {account.pure:.12g}"
        case ZCDP():
            return f"rho {account.left['mu_squared'] / 2:.6g}"
        case ApproxDP(delta=delta):
            left = account.rule.epsilon_left(account.spends, delta)
            return f"epsilon {left:.12g} at this delta"


def _names(budget: Budget) -> str:
    return " and ".join(asdict(budget))


__all__ = [
    "About",
    "Account",
    "Chain",
    "Count",
    "Entry",
    "Ledger",
    "LedgerWarning",
    "Outcome",
]
