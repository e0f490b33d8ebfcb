"""The functions that notebooks and the command line call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Unpack

from dpcov import denoise as denoising
from dpcov.api.about import about, file_hash, schema_hash
from dpcov.api.ledger import About, Ledger, finish_or_warn, require_countable
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.ledger_rule import Count as LedgerCount
from dpcov.core.parameters import Count, checked
from dpcov.core.privacy import (
    Budget,
    BudgetWarning,
    Guarantee,
    Neighbors,
    NeighborsName,
    PureDP,
    budget_from,
    budget_warnings,
    neighbors_named,
)
from dpcov.denoise import Method
from dpcov.errors import LedgerError, SchemaError
from dpcov.mechanisms import RETIRED_MECHANISMS, Mechanism, MechanismOptions, count, mechanism_named
from dpcov.mechanisms.choice import Goal, calibrated, choose, require_answerable, require_enough
from dpcov.mechanisms.count import WithCount
from dpcov.releases import Release
from dpcov.rows.missing import NumberRule
from dpcov.rows.moment import units_per_row
from dpcov.rows.schema import Bounds, FileOptions, Schema
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.array import column_names, is_list, names_by_bounds
from dpcov.rows.sources.base import holds_sums, refuse_rows
from dpcov.rows.sources.conditions import Conditions, refuse_conditions
from dpcov.rows.sources.partial import PartialMoment
from dpcov.rows.sources.rows import Rows
from dpcov.rows.sources.sql import table_of

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Request:
    """Checked request for a release. No data was read and no budget was spent.

    Attributes
    ----------
    rows : Rows
        Data source of the rows.

    mechanism : Mechanism
        Mechanism of the release.

    reason : str
        Reason for the mechanism.

    laws : WithCount
        Noise distributions, calibrated before dpcov records the budget.

    method : str
        Method that denoises the release.

    seed : int or None
        Seed for tests.

    where : tuple of str
        Conditions on the rows.

    ledger : Ledger or None
        Ledger that records the budget.

    dataset : str or None
        Data set in the ledger.

    part_of : str or None
        Column of a grouped release, if this request is a part of one.

    about : About
        Description of the release for the ledger.

    """

    rows: Rows
    mechanism: Mechanism
    reason: str
    laws: WithCount
    method: Method
    seed: int | None
    where: tuple[str, ...] = ()
    ledger: Ledger | None = None
    dataset: str | None = None
    part_of: str | None = None  # the column of a grouped release, which records the spend of all
    about: About = field(default_factory=About)

    @property
    def guarantee(self) -> Guarantee:
        return self.laws.guarantee

    def run(self) -> Release:
        """Record the budget, make and denoise the release, and record that it is finished.

        Returns
        -------
        Release
            Denoised release.

        Raises
        ------
        LedgerError
            The request is a part of a grouped release. The grouped request records the budget of
            all parts.

        """
        made, entry = self.draw()
        self.finish(entry, [file_hash(one.to_text()) for one in made.values() if entry is not None])
        return made[""]

    def draw(self) -> tuple[dict[str, Release], int | None]:
        """Record the budget, then make and denoise the release.

        Returns
        -------
        tuple of dict and int or None
            Release under an empty name, and the number of the ledger's entry.

        Raises
        ------
        LedgerError
            The request is a part of a grouped release.

        """
        if self.part_of is not None:
            raise LedgerError(
                f"This request is one group of a release by {self.part_of!r}. Run the whole "
                "grouped request, which records the budget of all groups once."
            )
        entry = self.book(self.guarantee, note=self.mechanism.name, mu=self.laws.mu)
        return {"": self._draw()}, entry

    def finish(
        self, entry: int | None, hashes: Sequence[str], *, schema: str | None = None
    ) -> None:
        """Record in the ledger that the release is finished.

        Parameters
        ----------
        entry : int or None
            Number of the entry. None without a ledger.

        hashes : sequence of str
            SHA-256 hashes of the release files.

        schema : str, optional
            Name of the schema, if the request has only its content.

        """
        if self.ledger is not None and entry is not None:
            described = self.about if schema is None else replace(self.about, schema=schema)
            finish_or_warn(self.ledger, entry, hashes, described)

    def _draw(self) -> Release:
        """Make and denoise the release, and close the data source."""
        entropy = Entropy.system() if self.seed is None else Entropy.seeded(self.seed)
        with closing(self.rows) as rows:
            rows.read()
            made = count.run(self.mechanism, rows, self.laws, entropy)
        told = {"door": self.rows.kind}
        if self.where:
            told["rows"] = f"rows where {' and '.join(self.where)}"
        if self.rows.caveat:
            told["not_protected"] = self.rows.caveat
        made = replace(made, provenance={**made.provenance, **told})
        return denoising.denoise(made, self.method, generator=simulation_generator(self.seed))

    def book(self, guarantee: Guarantee, *, note: str, mu: float | None) -> int | None:
        """Record a guarantee in the ledger, if there is one, and refuse a seeded release.

        Parameters
        ----------
        guarantee : Guarantee
            Guarantee of the release.

        note : str
            Note for the ledger.

        mu : float or None
            Mu of the noise, if all of it is Gaussian.

        Returns
        -------
        int or None
            Number of the entry. None without a ledger.

        """
        if self.ledger is None:
            return None
        if self.seed is not None:
            raise LedgerError(
                "A seeded release is not private and can't be booked. "
                "Leave out the seed or the ledger."
            )
        return self.ledger.reserve(guarantee, dataset=self.dataset, note=note, mu=mu)


@checked("epsilon", "delta", "rho", "neighbors", "lower", "upper")
def prepare(
    data: Any,
    *,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    schema: Schema | str | Path | None = None,
    table: str | None = None,
    trust_views: bool = False,
    where: str | Sequence[str] = (),
    rows: Count | None = None,
    lower: Bounds | None = None,
    upper: Bounds | None = None,
    missing: NumberRule | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mechanism: str = "auto",
    goal: Goal = "all",
    neighbors: Neighbors | NeighborsName = "add-remove",
    radius: float | Literal["private", "public"] | None = None,
    intercept: float | None = None,
    denoise: Method = "shrink",
    threads: Count | None = None,
    seed: int | None = None,
    n_features: Count | None = None,
    year: int | None = None,
    purpose: str | None = None,
    **options: Unpack[MechanismOptions],
) -> Request:
    """Check a request for a release from public information (see `release`)."""
    budget = budget_from(epsilon, delta, rho)
    for sentence in budget_warnings(budget):
        warnings.warn(sentence, BudgetWarning, stacklevel=4)
    relation = neighbors_named(neighbors)
    fields: dict[str, Any] = dict(options)
    if isinstance(radius, str):  # private or public: an option of the mechanism
        fields["radius"], radius = radius, None
    if mechanism in RETIRED_MECHANISMS:
        instead = RETIRED_MECHANISMS[mechanism].name
        warnings.warn(f"{mechanism} is no more: {instead} takes its place.", stacklevel=4)
    named = None if mechanism == "auto" else mechanism_named(mechanism, **fields)
    data = table_of(data, table, trust_views)
    described = about(data, schema, year, purpose)
    if schema is None and not holds_sums(data):  # only here, because a stream can open only once
        data = open_source(data, FileOptions(), _names_of(data, lower, upper, n_features))
    resolved = _schema(data, schema, lower, upper, missing, radius, intercept).with_rows(rows)
    _require_width(resolved, n_features)
    if resolved.by is not None:
        raise SchemaError(
            f"The schema asks for one release for each level of {resolved.by!r}: use "
            "dpcov.release_by, or leave out by."
        )
    conditions = Conditions.parse(where, resolved)
    refuse_conditions(conditions, relation)
    summed = PartialMoment.load(Path(data)) if holds_sums(data) else data
    if isinstance(summed, PartialMoment):
        opened: Rows = summed.seen(resolved, conditions)
    else:
        opened = open_rows(data, resolved, conditions, threads=threads)
    refuse_rows(opened.schema, relation)
    if relation == Neighbors.REPLACE_ONE:
        opened.require_countable()
    book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    with_mu = counts_gaussian(book, dataset, budget)
    if named is None:
        # Only mechanisms that do not transform the rows have the option `radius`.
        again = opened.rereadable and "radius" not in fields
        choice = choose(
            opened.schema, budget, relation, goal=goal, rereadable=again, with_mu=with_mu
        )
        chosen, reason, laws = choice.mechanism, choice.reason, choice.laws
        if fields:
            laws = None
            chosen = mechanism_named(chosen.name, **asdict(chosen) | fields)  # type: ignore[call-overload]
    else:
        chosen, reason, laws = named, "asked for", None
    require_answerable(chosen, opened)
    per_row = units_per_row(opened.schema)
    laws = laws or calibrated(chosen, opened.lattice(), budget, relation, per_row, with_mu=with_mu)
    require_enough(chosen, opened, laws)
    if chosen.passes > 1:
        opened.require_rereadable()
    described = replace(described, schema_sha256=schema_hash(opened.schema))
    return Request(
        opened,
        chosen,
        reason,
        laws,
        denoise,
        seed,
        opened.where,
        book,
        dataset,
        about=described,
    )


def counts_gaussian(ledger: Ledger | None, dataset: str | None, budget: Budget) -> bool:
    """Return True if the ledger needs Gaussian noise with a known mu for this budget.

    Parameters
    ----------
    ledger : Ledger or None
        Ledger of the release.

    dataset : str or None
        Data set in the ledger.

    budget : Budget
        Budget of the release.

    Returns
    -------
    bool
        True for a budget with a delta or a rho in a ledger that counts Gaussian noise.

    Raises
    ------
    LedgerError
        The ledger counts Gaussian noise and has no reserve for a pure budget.

    """
    if ledger is None:
        return False
    account = ledger.account(dataset)
    if isinstance(budget, PureDP):
        require_countable(account, budget, None)
        return False
    return account.count == LedgerCount.GAUSSIAN


def taking(prepare: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the signature of the function that it calls.

    Readers and type checkers then see all arguments of the function.

    Parameters
    ----------
    prepare : callable
        Function with the signature.

    Returns
    -------
    callable
        Decorator.

    """

    def told(function: Callable[..., R]) -> Callable[P, R]:
        own = signature(function)
        taken = signature(prepare).replace(return_annotation=own.return_annotation)
        function.__signature__ = taken  # type: ignore[attr-defined]
        return function

    return told


@taking(prepare)
def release(data: Any, **asked: Any) -> Release:
    """Release the second moment of a table with differential privacy.

    The release contains the noisy second moment, from which you compute means, covariances,
    correlations and regressions at no further cost.

    Parameters
    ----------
    data : object
        Table, in one of these forms:

        - Path of a file: CSV, TSV, Parquet, Excel, Stata, SPSS or SAS.
        - Array of shape (n, d), or a table of pandas, polars, pyarrow, DuckDB or Spark.
        - List of rows, if the schema, the bounds or `n_features` state the number of columns.
        - Database, together with `table`: ``postgresql://user@host/database``, or the path of an
          SQLite or DuckDB file.
        - Sums of rows: a file of ``dpcov moments``, or a `PartialMoment`.

    ledger : Ledger, str or Path, optional
        Ledger that records the budget before dpcov draws any noise.

    dataset : str, optional
        Data set in the ledger. You can omit the name if the ledger has only one data set.

    schema : Schema, str or Path, optional
        Schema of the table, or the path of a TOML file. Without a schema, `lower` and `upper` are
        required.

    table : str, optional
        Table of a database.

    trust_views : bool, default False
        True to read a view, or another program of the table's owner, from a database. Such a
        program runs with your permissions and can let one row change other rows. The release
        records this choice.

    where : str or sequence of str, optional
        Conditions such as ``["age >= 18"]``. Only rows that meet all conditions count. The
        conditions are public, the release states them, and they need ``add-remove``.

    rows : int, optional
        Public number of rows for ``replace-one``, known from a source other than the table. dpcov
        uses exactly this many rows in the order of the table. It drops further rows, and fills
        missing rows with rows without values.

    lower : float or sequence of float, optional
        Public lower bounds of the columns: one number, or one number for each column. Never compute
        the bounds from the data.

    upper : float or sequence of float, optional
        Public upper bounds of the columns.

    missing : {'midpoint', 'pairwise', 'level', 'none'}, optional
        Meaning of a missing number, only without a schema. By default a missing number counts as
        the midpoint of its bounds. With ``pairwise`` dpcov omits the number. With ``level`` a 0/1
        feature shows that it is missing. With ``none`` you promise that no number is missing.

    epsilon : float, optional
        Epsilon of the budget. Epsilon alone gives pure differential privacy.

    delta : float, optional
        Delta of the budget, together with `epsilon`.

    rho : float, optional
        Budget for zero-concentrated differential privacy, instead of `epsilon`.

    mechanism : str, default 'auto'
        Name of a mechanism (``dpcov mechanisms`` lists them). With ``auto``, dpcov chooses a
        mechanism from public information.

    goal : {'all', 'frobenius', 'relative', 'correlation', 'regression'}, default 'all'
        Result that should be most accurate. The release gives all results for every goal. With
        ``frobenius`` dpcov clips almost no rows. With ``correlation`` or ``regression`` dpcov clips
        more rows.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables. With ``add-remove`` the number of rows is private.
        With ``replace-one`` the number of rows is public, and the noise is up to twice as large.

    radius : float, 'private' or 'public', optional
        Clipping radius: a public bound on the norm of an encoded row. The default is the largest
        norm that the bounds allow. With ``private``, some mechanisms choose a smaller radius and
        spend a part of the budget on it.

    intercept : float, optional
        Weight of the intercept, as a fraction of the clipping radius. The default is 0.3. With 0
        the release has no means and no correlations.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the release.

    threads : int, optional
        Number of threads. The default is one thread for each core. The number does not change the
        release.

    seed : int, optional
        Seed for tests. A release with a seed is marked ``NOT PRIVATE``.

    n_features : int, optional
        Public number of columns of a list of rows whose bounds are single numbers. A row of another
        length is a row of missing values.

    year : int, optional
        Year of the data, for the ledger.

    purpose : str, optional
        Purpose of the release, for the ledger.

    **options : object
        Options of the mechanism.

    Returns
    -------
    Release
        Noisy second moment, guarantee and noise distribution. The methods `covariance`,
        `correlation` and `mean` use the units of the data.

    Raises
    ------
    DpcovError
        The request is invalid. dpcov has spent no budget, except after a `SourceError` while it
        reads the data and after a `MechanismRefused`.

    See Also
    --------
    plan : Prediction of the error of a release.
    release_by : One release for each category of a column.

    Examples
    --------
    >>> import dpcov
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> release = dpcov.release(table, lower=0, upper=1, epsilon=1.0)
    >>> bool(release.correlation()[0, 1] < -0.9)
    True

    """
    return prepare(data, **asked).run()


def _names_of(
    data: Any, lower: Bounds | None, upper: Bounds | None, n_features: int | None
) -> tuple[str, ...]:
    """Return the names of the columns of a list of rows, or () for any other table."""
    if not is_list(data):
        return ()
    return column_names(n_features) if n_features else names_by_bounds(lower, upper)


def _require_width(schema: Schema, n_features: int | None) -> None:
    """Refuse a schema with a number of columns other than `n_features`."""
    if n_features is not None and n_features != len(schema.columns):
        raise SchemaError(
            f"n_features is {n_features}, but there are {len(schema.columns)} columns. Leave out "
            "n_features, or give the table and bounds that it is for."
        )


def _schema(
    data: Any,
    schema: Schema | str | Path | None,
    lower: Bounds | None,
    upper: Bounds | None,
    missing: NumberRule | None,
    radius: float | None,
    intercept: float | None,
) -> Schema:
    if schema is None:
        if lower is None or upper is None:
            raise SchemaError(
                "The table has no bounds. Give a schema, or lower and upper as public bounds of "
                "the columns; bounds from the data would disclose single rows."
            )
        resolved = Schema.from_bounds(lower, upper, data.names, missing)
    else:
        if lower is not None or upper is not None:
            raise SchemaError("Give either a schema, or lower and upper, not both.")
        if missing is not None:
            raise SchemaError(
                "The schema says what missing cells mean. Leave out missing, or state it in the "
                "columns of the schema."
            )
        resolved = schema if isinstance(schema, Schema) else Schema.load(schema)
    changes = {"radius": radius, "intercept": intercept}
    given = {name: value for name, value in changes.items() if value is not None}
    return Schema.parse(resolved.model_dump() | given) if given else resolved
