"""One release for each category of a column, with one guarantee for all (docs/proofs/by.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from dpcov.api import PreparedRelease, prepare_rows, warn_of
from dpcov.api.about import about, file_hash, schema_hash
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.parameters import Count, check
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    Guarantee,
    Neighbors,
    NeighborsName,
    PureDP,
    exact,
    round_down,
)
from dpcov.denoise import Method
from dpcov.errors import BudgetError, ReleaseError, SchemaError
from dpcov.mechanisms import MechanismOptions
from dpcov.mechanisms.choice import Goal
from dpcov.published.record import Group
from dpcov.releases import Release
from dpcov.rows.schema import Ignored, Schema, number_codes
from dpcov.rows.sources import open_rows, open_source
from dpcov.rows.sources.base import refuse_rows
from dpcov.rows.sources.conditions import Conditions, refuse_conditions, rows_meeting
from dpcov.rows.sources.kept import Kept
from dpcov.rows.sources.level import FilteredSource, Level
from dpcov.rows.sources.rows import Rows
from dpcov.rows.sources.spark import is_spark
from dpcov.rows.sources.sql import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_GROUPED_EPSILON = 1000  # with a delta, e^(epsilon / 2) must fit into a float64 number


@dataclass(frozen=True, slots=True)
class PreparedGroups:
    """Releases for all categories of a column that are ready to run.

    No cell was read and no budget was spent.

    Attributes
    ----------
    by : str
        Name of the column.

    levels : mapping of str to PreparedRelease
        Release of each category.

    together : Guarantee
        Guarantee of all releases together, which the ledger records.

    """

    by: str
    levels: Mapping[str, PreparedRelease]
    together: Guarantee

    @property
    def mu(self) -> float | None:
        """Mu of all releases together, or None (docs/proofs/by.md).

        Under add-remove a row changes one release. Under replace-one a row changes one release by
        two steps, or two releases by one step each.
        """
        mus = [prepared.laws.mu for prepared in self.levels.values()]
        if any(mu is None for mu in mus):
            return None
        return max(mu for mu in mus if mu is not None) * self.together.neighbors.sides

    def run(self) -> dict[str, Release]:
        """Record the budget once, make one release for each category, and record the end."""
        made, entry = self.draw()
        self.finish(entry, [file_hash(one.to_text()) for one in made.values() if entry is not None])
        return made

    def draw(self) -> tuple[dict[str, Release], int | None]:
        """Record the budget once, then make one release for each category.

        Returns
        -------
        tuple of dict and int or None
            Release of each category, and the number of the ledger's entry.

        """
        some = self._some
        note = f"{some.mechanism.name} by {self.by}"
        entry = some.book(self.together, note=note, mu=self.mu)
        return {
            level: replace(prepared._draw(), group=Group(self.by, level, self.together))
            for level, prepared in self.levels.items()
        }, entry

    def finish(self, entry: int | None, hashes: Sequence[str], **described: Any) -> None:
        """Record in the ledger that all releases are finished (see `PreparedRelease.finish`)."""
        self._some.finish(entry, hashes, **described)

    @property
    def _some(self) -> PreparedRelease:
        """Release of one category, with the ledger of all."""
        return next(iter(self.levels.values()))


def prepare_by(data: Any, by: str | None, request: Request) -> PreparedGroups:
    """Check a request for grouped releases from public information (see `release_by`)."""
    check("schema", request.schema, Schema | str | Path, ReleaseError)
    warn_of(request)
    whole = request.declared_schema()
    by = whole.by if by is None else by
    if by is None:
        raise SchemaError(
            "No column for the grouped release. Name a categorical column: by in Python, or --by."
        )
    try:
        column = whole.grouped_by(by)
    except ValueError as error:
        text = str(error)
        raise SchemaError(text if text.endswith("?") else f"{text}.") from None
    conditions = Conditions.parse(request.where, whole)
    refuse_conditions(conditions, request.relation)
    refuse_rows(whole, request.relation)
    data = table_of(data, request.table, request.trust_views)
    described = about(data, request)
    source = open_source(data, whole.file, tuple(whole.columns), number_codes(whole))
    source = rows_meeting(source, conditions)
    Rows(whole, source)  # refuses columns that do not fit the schema
    if not is_spark(source):  # one reading serves all categories, so each row has one category
        source = Kept(source, whole, once=True)
    described = replace(described, schema_sha256=schema_hash(whole))
    columns = {**whole.columns, by: Ignored()}
    file = whole.file.model_dump(exclude={"rows"})  # this number is for the whole table
    schema = Schema.parse(whole.model_dump() | {"columns": columns, "by": None, "file": file})
    levels, of_level = {}, _request_of_level(request)
    for code, label in enumerate(column.labels):
        level = FilteredSource(source, Level(by, column, code, whole.missing))
        rows = open_rows(level, schema, threads=request.threads)
        seed = None if request.seed is None else request.seed + code
        prepared = prepare_rows(rows, replace(of_level, seed=seed), described)
        levels[label] = replace(prepared, where=conditions.texts, part_of=by, about=described)
    together = request.budget
    if all(isinstance(one.guarantee.budget, PureDP) for one in levels.values()):
        together = pure_part(together)
    return PreparedGroups(by, levels, Guarantee(together, request.relation))


def _request_of_level(request: Request) -> Request:
    """Return the request for one category, with its part of the budget under add-remove."""
    share = asdict(budget_of_level(request.budget, request.relation))
    none = {"epsilon": None, "delta": None, "rho": None}
    ledger = request.opened_ledger
    return replace(request, neighbors=Neighbors.ADD_REMOVE, ledger=ledger, **{**none, **share})


def release_by(  # type: ignore[misc]  # an option is called `by`, too
    data: Any,
    by: str | None = None,
    *,
    schema: Schema | str | Path,
    ledger: Ledger | str | Path | None = None,
    dataset: str | None = None,
    table: str | None = None,
    trust_views: bool = False,
    where: str | Sequence[str] = (),
    rows: Count | None = None,
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
    year: int | None = None,
    purpose: str | None = None,
    **options: Unpack[MechanismOptions],
) -> dict[str, Release]:
    """Make one private release for each category of a column.

    The categories have different rows. Under ``add-remove`` each category therefore gets the whole
    budget (parallel composition, McSherry 2009). Under ``replace-one`` a row can change its
    category, so each category gets half of epsilon, or a quarter of rho.

    Parameters
    ----------
    data : object
        Table, in any form that `release` accepts.

    by : str, optional
        Categorical column of the schema. The default is the column `by` of the schema. The column
        is not a feature of the releases. Rows with an undeclared value belong to no release.

    schema : Schema, str or Path
        Schema of the table, or the path of a TOML file. The privacy unit must be the row.

    ledger : Ledger, str or Path, optional
        Ledger that records the budget once for all categories.

    dataset : str, optional
        Data set in the ledger.

    table : str, optional
        Table of a database.

    trust_views : bool, default False
        True to read a view of a database, as in `release`.

    where : str or sequence of str, optional
        Conditions on the rows, as in `release`.

    rows : int, optional
        Public number of rows for ``replace-one``, as in `release`.

    epsilon, delta, rho : float, optional
        Budget of all releases together, as in `release`.

    mechanism : str, default 'auto'
        Mechanism of the releases, as in `release`.

    goal : str, default 'all'
        Result that should be accurate, as in `release`.

    neighbors : {'add-remove', 'replace-one'}, default 'add-remove'
        Relation between neighbouring tables, as in `release`.

    radius : float, 'private' or 'public', optional
        Clipping radius, as in `release`.

    intercept : float, optional
        Weight of the intercept, as in `release`.

    denoise : {'shrink', 'project', 'none'}, default 'shrink'
        Method that denoises the releases.

    threads : int, optional
        Number of threads. The default is one thread for each core.

    seed : int, optional
        Seed for tests. A release with a seed is not private.

    year : int, optional
        Year of the data, for the ledger.

    purpose : str, optional
        Purpose of the releases, for the ledger.

    **options : object
        Options of the mechanism.

    Returns
    -------
    dict of str to Release
        Release of each category. `Release.group` states the guarantee of all releases together.
        `Release.guarantee` states the guarantee of one release alone, under add-remove. The number
        of rows of each category is private.

    Raises
    ------
    DpcovError
        The request is invalid. dpcov has spent no budget, except after a `SourceError` while it
        reads the data.

    See Also
    --------
    release : One release of the whole table.

    Examples
    --------
    >>> import dpcov
    >>> import pyarrow as pa
    >>> table = pa.table({"x": [0.0, 1.0] * 4000, "site": ["a"] * 3000 + ["b"] * 5000})
    >>> x = {"kind": "numeric", "lower": 0, "upper": 1}
    >>> site = {"kind": "categorical", "levels": ["a", "b"]}
    >>> schema = dpcov.Schema.parse({"columns": {"x": x, "site": site}})
    >>> made = dpcov.release_by(table, "site", schema=schema, epsilon=1.0)
    >>> {level: round(one.count() / 1000) for level, one in made.items()}
    {'a': 3, 'b': 5}

    """
    asked = locals().copy()  # the arguments: no other name exists yet
    return prepare_by(asked.pop("data"), asked.pop("by"), Request(**asked)).run()


def pure_part(budget: Budget) -> Budget:
    """Return the total budget of grouped releases if no release spends a delta."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def budget_of_level(budget: Budget, neighbors: Neighbors) -> Budget:
    """Return the budget of each category, so that all categories together keep the total budget.

    Under add-remove each category gets the total budget. Under replace-one a replacement is two
    steps of add-remove: a row leaves one category, and another row enters a category. Each category
    then gets epsilon / 2, rho / 4 and delta / (1 + e^(epsilon / 2)).

    Parameters
    ----------
    budget : Budget
        Total budget.

    neighbors : Neighbors
        Relation between neighbouring tables for all releases together.

    Returns
    -------
    Budget
        Budget of each category under add-remove, rounded down.

    Raises
    ------
    BudgetError
        Epsilon is too large for a budget with a delta.

    """
    if neighbors == Neighbors.ADD_REMOVE:
        return budget
    match budget:
        case PureDP(epsilon):
            return PureDP(round_down(exact(epsilon) / 2))
        case ZCDP(rho):
            return ZCDP(round_down(exact(rho) / 4))
        case ApproxDP(epsilon, delta):
            if epsilon > MAX_GROUPED_EPSILON:
                raise BudgetError(
                    f"Epsilon is {epsilon:g}, but a grouped release with replace-one needs at most "
                    f"{MAX_GROUPED_EPSILON}. Use a smaller --epsilon."
                )
            half = epsilon / 2 * (1 + 2.0**-50)
            factor = Fraction(1 + math.exp(half)) * (1 + Fraction(1, 2**50))
            return ApproxDP(round_down(exact(epsilon) / 2), round_down(exact(delta) / factor))


def paths(out: Path, levels: list[str]) -> dict[str, Path]:
    """Return a file name for each category.

    The names are different on every file system.

    Parameters
    ----------
    out : Path
        File whose folder, stem and suffix the names use.

    levels : list of str
        Names of the categories.

    Returns
    -------
    dict of str to Path
        File of each category.

    """
    found: dict[str, Path] = {}
    taken: set[str] = set()
    for level in levels:
        word = re.sub(r"[^\w.-]+", "-", level).strip("-.") or "level"
        name, count = word, 1
        while name.casefold() in taken:
            count += 1
            name = f"{word}-{count}"
        taken.add(name.casefold())
        found[level] = out.with_name(f"{out.stem}-{name}{out.suffix}")
    return found
