"""The functions that notebooks and the command line call."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Unpack

from dpcov import denoise as denoising
from dpcov.api.about import about, file_hash, schema_hash
from dpcov.api.ledger import About, Ledger, finish_or_warn
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy
from dpcov.core.parameters import Count
from dpcov.core.privacy import (
    BudgetWarning,
    Guarantee,
    Neighbors,
    NeighborsName,
    budget_warnings,
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


@dataclass(frozen=True, slots=True)
class PreparedRelease:
    """Release that is ready to run. No cell was read and no budget was spent.

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

    request : Request
        Request of the user.

    ledger : Ledger or None
        Ledger that records the budget.

    where : tuple of str
        Conditions on the rows.

    part_of : str or None
        Column of the grouped release that this release belongs to, or None.

    about : About
        Description of the release for the ledger.

    """

    rows: Rows
    mechanism: Mechanism
    reason: str
    laws: WithCount
    request: Request
    ledger: Ledger | None = None
    where: tuple[str, ...] = ()
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
            The release is a part of a grouped release, which records the budget of all parts.

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
            The release is a part of a grouped release.

        """
        if self.part_of is not None:
            raise LedgerError(
                f"This request is one group of a release by {self.part_of!r}. Run the whole "
                "grouped request, which records the budget of all groups once."
            )
        entry = self.book(self.guarantee, note=self.mechanism.name, mu=self.laws.mu)
        return {"": self._draw()}, entry

    def finish(self, entry: int | None, hashes: Sequence[str], **described: Any) -> None:
        """Record in the ledger that the release is finished.

        Parameters
        ----------
        entry : int or None
            Number of the entry. None without a ledger.

        hashes : sequence of str
            SHA-256 hashes of the release files.

        **described : object
            Attributes of `About` that the request does not have: ``schema`` and ``names``.

        """
        if self.ledger is not None and entry is not None:
            finish_or_warn(self.ledger, entry, hashes, replace(self.about, **described))

    def _draw(self) -> Release:
        """Make and denoise the release, and close the data source."""
        seed = self.request.seed
        entropy = Entropy.system() if seed is None else Entropy.seeded(seed)
        with closing(self.rows) as rows:
            rows.read()
            made = count.run(self.mechanism, rows, self.laws, entropy)
        origin = {"door": self.rows.kind}
        if self.where:
            origin["rows"] = f"rows where {' and '.join(self.where)}"
        if self.rows.caveat:
            origin["not_protected"] = self.rows.caveat
        made = replace(made, provenance={**made.provenance, **origin})
        return denoising.denoise(made, self.request.denoise)

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
        if self.request.seed is not None:
            raise LedgerError(
                "A seeded release is not private and can't be booked. "
                "Leave out the seed or the ledger."
            )
        return self.ledger.reserve(guarantee, dataset=self.request.dataset, note=note, mu=mu)


def prepare(data: Any, request: Request) -> PreparedRelease:
    """Check a request for a release of a table from public information (see `release`)."""
    warn_of(request)
    data = table_of(data, request.table, request.trust_views)
    described = about(data, request)
    return prepare_rows(_opened(data, request), request, described)


def warn_of(request: Request) -> None:
    """Warn of a large budget and of a former mechanism, at the caller of the caller's caller."""
    for sentence in budget_warnings(request.budget):
        warnings.warn(sentence, BudgetWarning, stacklevel=4)
    if request.mechanism in RETIRED_MECHANISMS:
        instead = RETIRED_MECHANISMS[request.mechanism].name
        sentence = f"{request.mechanism} is no more: {instead} takes its place."
        warnings.warn(sentence, stacklevel=4)


def _opened(data: Any, request: Request) -> Rows:
    """Open the data of a request with its schema and its conditions."""
    if request.schema is None and not holds_sums(data):  # only here: a stream can open only once
        data = open_source(data, FileOptions(), _names_of(data, request))
    schema = request.declared_schema(data)
    if schema.by is not None:
        raise SchemaError(
            f"The schema asks for one release for each level of {schema.by!r}: use "
            "dpcov.release_by, or leave out by."
        )
    conditions = Conditions.parse(request.where, schema)
    refuse_conditions(conditions, request.relation)
    summed = PartialMoment.load(Path(data)) if holds_sums(data) else data
    if isinstance(summed, PartialMoment):
        return summed.seen(schema, conditions)
    return open_rows(data, schema, conditions, threads=request.threads)


def _names_of(data: Any, request: Request) -> tuple[str, ...]:
    """Return the names of the columns of a list of rows, or () for any other table."""
    if not is_list(data):
        return ()
    if request.n_features:
        return column_names(request.n_features)
    return names_by_bounds(request.lower, request.upper)


def prepare_rows(rows: Rows, request: Request, described: About) -> PreparedRelease:
    """Choose and calibrate the mechanism of a request for opened rows."""
    budget, relation = request.budget, request.relation
    refuse_rows(rows.schema, relation)
    if relation == Neighbors.REPLACE_ONE:
        rows.require_countable()
    ledger = request.opened_ledger
    with_mu = request.needs_mu(ledger)
    mechanism, reason, laws = _chosen(rows, request, with_mu)
    require_answerable(mechanism, rows)
    per_row = units_per_row(rows.schema)
    laws = laws or calibrated(mechanism, rows.lattice(), budget, relation, per_row, with_mu=with_mu)
    require_enough(mechanism, rows, laws)
    if mechanism.passes > 1:
        rows.require_rereadable()
    described = replace(described, schema_sha256=schema_hash(rows.schema))
    return PreparedRelease(
        rows, mechanism, reason, laws, request, ledger, rows.where, about=described
    )


def _chosen(rows: Rows, request: Request, with_mu: bool) -> tuple[Mechanism, str, WithCount | None]:
    """Return the mechanism, the reason for it, and its noise distributions if they are known."""
    named, options = request.named_mechanism, request.mechanism_options
    if named is not None:
        return named, "asked for", None
    # Only mechanisms that do not transform the rows have the option `radius`.
    again = rows.rereadable and "radius" not in options
    choice = choose(
        rows.schema,
        request.budget,
        request.relation,
        goal=request.goal,
        rereadable=again,
        with_mu=with_mu,
    )
    if not options:
        return choice.mechanism, choice.reason, choice.laws
    fields = asdict(choice.mechanism) | options  # type: ignore[call-overload]
    return mechanism_named(choice.mechanism.name, **fields), choice.reason, None


def release(
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
) -> Release:
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

    goal : {'all', 'frobenius', 'correlation', 'regression'}, default 'all'
        Result that should be most accurate. The release gives all results for every goal. The goal
        applies to the mechanisms ``auto`` and ``standardized``. With ``frobenius`` dpcov clips
        almost no rows. With ``correlation`` or ``regression`` dpcov clips more rows.

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
    asked = locals().copy()  # the arguments: no other name exists yet
    return prepare(asked.pop("data"), Request(**asked)).run()
