"""The short functions that a notebook or the command line uses."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, Unpack

from dpcov import denoise as denoising
from dpcov.api.ledger import Ledger
from dpcov.core.entropy import Entropy, simulation_generator
from dpcov.core.parameters import Count, checked
from dpcov.core.privacy import (
    BudgetWarning,
    Guarantee,
    Neighbors,
    NeighborsName,
    budget_from,
    budget_warnings,
    neighbors_named,
)
from dpcov.denoise import Method
from dpcov.errors import LedgerError, SchemaError
from dpcov.mechanisms import RETIRED, Mechanism, MechanismOptions, count, mechanism_named
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
    """Everything about a release but the data: checked, with nothing read or spent yet.

    `laws` are the plan: made once, before anything is booked, and run as they are.
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

    @property
    def guarantee(self) -> Guarantee:
        return self.laws.guarantee

    def run(self) -> Release:
        """Reserve the budget, then read the data, draw the noise, release and denoise.

        Raises
        ------
        LedgerError
            The request is one group of a grouped release, which reserves the budget of all.

        """
        if self.part_of is not None:
            raise LedgerError(
                f"This request is one group of a release by {self.part_of!r}. Run the whole "
                "grouped request, which records the budget of all groups once."
            )
        self.book(self.guarantee, note=self.mechanism.name)
        return self._draw()

    def _draw(self) -> Release:
        """Read the data, draw the noise, release and denoise; close the data."""
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

    def book(self, guarantee: Guarantee, *, note: str) -> None:
        """Reserve `guarantee`, if there is a ledger; refuses a seeded release."""
        if self.ledger is None:
            return
        if self.seed is not None:
            raise LedgerError(
                "A seeded release is not private and can't be booked. "
                "Leave out the seed or the ledger."
            )
        self.ledger.reserve(guarantee, dataset=self.dataset, note=note)


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
    **options: Unpack[MechanismOptions],
) -> Request:
    """Check a request for a release from public things alone; see `release`."""
    budget = budget_from(epsilon, delta, rho)
    for sentence in budget_warnings(budget):
        warnings.warn(sentence, BudgetWarning, stacklevel=4)
    relation = neighbors_named(neighbors)
    fields: dict[str, Any] = dict(options)
    if isinstance(radius, str):  # which kind: an option of the mechanism
        fields["radius"], radius = radius, None
    if mechanism in RETIRED:
        instead = RETIRED[mechanism].name
        warnings.warn(f"{mechanism} is no more: {instead} takes its place.", stacklevel=4)
    named = None if mechanism == "auto" else mechanism_named(mechanism, **fields)
    data = table_of(data, table, trust_views)
    if schema is None and not holds_sums(data):  # opened once: a stream may come only once
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
    if named is None:
        # `radius` is an option of mechanisms that map no rows
        again = opened.rereadable and "radius" not in fields
        choice = choose(opened.schema, budget, relation, goal=goal, rereadable=again)
        chosen, reason, laws = choice.mechanism, choice.reason, choice.laws
        if fields:
            laws = None
            chosen = mechanism_named(chosen.name, **asdict(chosen) | fields)  # type: ignore[call-overload]
    else:
        chosen, reason, laws = named, "asked for", None
    require_answerable(chosen, opened)
    per_row = units_per_row(opened.schema)
    laws = laws or calibrated(chosen, opened.lattice(), budget, relation, per_row)
    require_enough(chosen, opened, laws)
    if chosen.passes > 1:
        opened.require_rereadable()
    book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    return Request(opened, chosen, reason, laws, denoise, seed, opened.where, book, dataset)


def taking(prepare: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Give a function the arguments of the one that it hands them to, for readers and mypy."""

    def told(function: Callable[..., R]) -> Callable[P, R]:
        own = signature(function)
        taken = signature(prepare).replace(return_annotation=own.return_annotation)
        function.__signature__ = taken  # type: ignore[attr-defined]
        return function

    return told


@taking(prepare)
def release(data: Any, **asked: Any) -> Release:
    """Release the second moment of a table under differential privacy.

    Parameters
    ----------
    data : path of a CSV, TSV (.gz) or Parquet file, (n, d) array, or a pandas, polars, pyarrow or
        DuckDB table; a list of rows, if a schema, `n_features` or bounds with one entry for each
        column say how many columns it has; with `table`, a database:
        ``postgresql://user@host/database`` or the path of a SQLite or DuckDB file. A Spark data
        frame. Or sums, in a file (``dpcov moments``) or as a `PartialMoment`.
    ledger : budget ledger (or its path) in which the spend is booked before any noise is drawn.
    dataset : which data set of the ledger; needed if it has several.
    schema : `Schema` or path of a TOML one. Without it `lower` and `upper` are required: public
        bounds, one number or one for each column, never taken from the data.
    missing : without a schema, what a missing number means: ``midpoint`` (default; it counts as the
        midpoint of its bounds), ``pairwise`` (it is left out), ``level`` (a 0/1 feature tells) or
        ``none`` (you promise that there are none; one would count as the midpoint).
    table : table of a database.
    trust_views : whether the table may be a view or another program of its owner's, which then runs
        with your rights and may let one row change others; it is told with the release.
    where : which rows count: ``["age >= 18"]``, all to be met (docs/how-to/conditions.md). The
        conditions are public, are told with the release, and need ``add-remove``.
    rows : how many rows the table has, for ``replace-one``: public, and known from elsewhere. dpcov
        uses exactly so many, in the order of the table: rows beyond are dropped, and missing ones
        are rows without values.
    epsilon, delta, rho : the budget: epsilon alone (pure DP), epsilon and delta, or rho (zCDP).
    mechanism : ``auto`` (``standardized`` where the data can be asked more than once and there is
        an intercept, else the least noise), or a name of `MECHANISMS` (``dpcov mechanisms``
        lists them); further keywords are its options.
    goal : ``all``, or what alone is to be accurate: ``frobenius``, ``relative``, ``correlation`` or
        ``regression``. One release answers all; for the second moment as a whole ``auto`` takes
        columns in the units of their bounds and clips hardly a row, for correlations and
        regressions it clips more rows than for all.
    neighbors : ``add-remove`` (the number of rows is private) or ``replace-one`` (it is public; the
        same epsilon protects more of what a row holds, and costs up to twice the noise).
    radius : public bound on the norm of an encoded row; default, the largest that the bounds allow.
        ``private`` chooses a smaller one from noisy counts, for a share of the budget, where few
        rows are nearly that long (not every mechanism can).
    intercept : weight of the constant, as a share of the radius (default 0.3; 0 for none).
    denoise : ``shrink``, ``project`` or ``none``.
    threads : threads that read, encode and sum; default, one for each core. The release is the same
        with any number.
    seed : for tests only; the release is then stamped ``NOT PRIVATE``.
    n_features : public number of columns of a list of rows whose bounds are single numbers. A row
        of another length is a row of missing values.

    Returns
    -------
    Release
        Matrix, guarantee and noise law; `covariance()`, `correlation()` and `mean()` are in the
        units of the data.

    Raises
    ------
    DpcovError : one of its kinds, before anything is spent, except `SourceError` for data that
        can't be read to its end, and `MechanismRefused`, an outcome of a mechanism that may refuse.

    Examples
    --------
    >>> import numpy as np
    >>> table = np.column_stack([np.linspace(0, 1, 5000), np.linspace(1, 0, 5000) ** 2])
    >>> made = release(table, lower=0, upper=1, epsilon=1.0)
    >>> bool(made.correlation()[0, 1] < -0.9)
    True

    """
    return prepare(data, **asked).run()


def _names_of(
    data: Any, lower: Bounds | None, upper: Bounds | None, n_features: int | None
) -> tuple[str, ...]:
    """Return the names of a list's columns, whose number is stated; none for other tables."""
    if not is_list(data):
        return ()
    return column_names(n_features) if n_features else names_by_bounds(lower, upper)


def _require_width(schema: Schema, n_features: int | None) -> None:
    """Refuse another number of columns than was stated."""
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
                "Give a schema, or lower and upper: public bounds of the columns. They are never "
                "taken from the data, because they would tell about single rows."
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
