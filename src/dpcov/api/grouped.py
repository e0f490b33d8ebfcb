"""One release for each level of a column, under one guarantee (docs/proofs/by.md)."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from dpcov.api import Request, prepare
from dpcov.api.ledger import Ledger
from dpcov.core.parameters import Count, checked
from dpcov.core.privacy import (
    ZCDP,
    ApproxDP,
    Budget,
    BudgetWarning,
    Guarantee,
    Neighbors,
    NeighborsName,
    PureDP,
    budget_from,
    budget_warnings,
    exact,
    neighbors_named,
    round_down,
)
from dpcov.denoise import Method
from dpcov.errors import BudgetError, SchemaError
from dpcov.mechanisms import MechanismOptions
from dpcov.mechanisms.choice import Goal
from dpcov.releases import Group, Release
from dpcov.rows.schema import Ignored, Schema
from dpcov.rows.sources import open_source
from dpcov.rows.sources.base import refuse_rows
from dpcov.rows.sources.conditions import Conditions, refuse_conditions, rows_meeting
from dpcov.rows.sources.kept import Kept
from dpcov.rows.sources.level import FilteredSource, Level
from dpcov.rows.sources.rows import Rows
from dpcov.rows.sources.spark import is_spark
from dpcov.rows.sources.sql import table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST = 1000  # of epsilon with a delta: e^(epsilon / 2) must be a number


@dataclass(frozen=True, slots=True)
class GroupedRequest:
    """Requests for the levels of the column `by`: checked, with nothing read or spent yet.

    `together` is what all releases guarantee at once, and what is booked.
    """

    by: str
    levels: Mapping[str, Request]
    together: Guarantee
    ledger: Ledger | None = None
    dataset: str | None = None

    def run(self) -> dict[str, Release]:
        """Reserve the budget once, then release each level."""
        some = replace(next(iter(self.levels.values())), ledger=self.ledger, dataset=self.dataset)
        some.book(self.together, note=f"{some.mechanism.name} by {self.by}")
        return {
            level: replace(request._draw(), group=Group(self.by, level, self.together))
            for level, request in self.levels.items()
        }


@checked("epsilon", "delta", "rho", "neighbors")
def prepare_by(
    data: Any,
    by: str | None = None,
    /,  # mechanisms have options of their own called `by`
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
    **options: Unpack[MechanismOptions],
) -> GroupedRequest:
    """Check a request for grouped releases from public things alone; see `release_by`."""
    whole = (schema if isinstance(schema, Schema) else Schema.load(schema)).with_rows(rows)
    by = whole.by if by is None else by
    if by is None:
        raise SchemaError("Name the column whose levels are released apart: by.")
    try:
        column = whole.grouped_by(by)
    except ValueError as error:
        text = str(error)
        raise SchemaError(text if text.endswith("?") else f"{text}.") from None
    together = Guarantee(budget_from(epsilon, delta, rho), neighbors_named(neighbors))
    conditions = Conditions.parse(where, whole)
    refuse_conditions(conditions, together.neighbors)
    refuse_rows(whole, together.neighbors)
    data = table_of(data, table, trust_views)
    source = open_source(data, whole.file, tuple(whole.columns), whole.numbers)
    source = rows_meeting(source, conditions)
    Rows(whole, source)  # refuses columns that do not fit
    if not is_spark(source):  # all levels are one reading, so that no row is in two
        source = Kept(source, whole, once=True)
    parts = {**whole.columns, by: Ignored()}
    file = whole.file.model_dump(exclude={"rows"})  # the whole table has so many, no level
    document = whole.model_dump() | {"columns": parts, "by": None, "file": file}
    level_schema = Schema.parse(document)
    share = budget_of_level(together.budget, together.neighbors)
    for sentence in budget_warnings(together.budget):
        warnings.warn(sentence, BudgetWarning, stacklevel=4)
    with warnings.catch_warnings():  # once is enough for all levels
        warnings.simplefilter("ignore", BudgetWarning)
        levels = {
            label: prepare(
                FilteredSource(source, Level(by, column, code, whole.missing)),
                schema=level_schema,
                neighbors=Neighbors.ADD_REMOVE,
                mechanism=mechanism,
                goal=goal,
                radius=radius,
                intercept=intercept,
                denoise=denoise,
                seed=None if seed is None else seed + code,
                threads=threads,
                **asdict(share),
                **options,
            )
            for code, label in enumerate(column.labels)
        }
    told = {
        level: replace(one, where=conditions.texts, part_of=by) for level, one in levels.items()
    }
    if all(isinstance(one.guarantee.budget, PureDP) for one in told.values()):
        together = replace(together, budget=pure_part(together.budget))
    book = Ledger.open(ledger) if isinstance(ledger, str | Path) else ledger
    return GroupedRequest(by, told, together, book, dataset)


@checked("epsilon", "delta", "rho", "neighbors")
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
    **options: Unpack[MechanismOptions],
) -> dict[str, Release]:
    """Release the second moment of the rows of each level of a column.

    Each level has its own rows, so under ``add-remove`` every level gets the whole budget (parallel
    composition); under ``replace-one``, where a row may change its level, half of epsilon.

    Parameters
    ----------
    data : as in `release`; read once for each level.
    by : a categorical column of the schema; default, the schema's `by`. In the releases it is no
        feature. Rows with a value that was not declared are in none.
    schema : `Schema` or path of a TOML one; its unit of privacy must be the row.
    ledger, dataset : where the budget is booked, once for all levels.
    table, ..., options : as in `release`.

    Returns
    -------
    dict
        The release of each level, by its name. `Release.group` tells what they guarantee together;
        `Release.guarantee` what each would alone, under add/remove. The number of rows of a level
        is private under both.

    Raises
    ------
    DpcovError : one of its kinds, before anything is spent, except `SourceError` for data that
        can't be read to its end.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"x": [0.0, 1.0] * 4000, "site": ["a"] * 3000 + ["b"] * 5000})
    >>> x = {"kind": "numeric", "lower": 0, "upper": 1}
    >>> site = {"kind": "categorical", "levels": ["a", "b"]}
    >>> schema = Schema.parse({"columns": {"x": x, "site": site}})
    >>> made = release_by(table, "site", schema=schema, epsilon=1.0)
    >>> {level: round(one.count() / 1000) for level, one in made.items()}
    {'a': 3, 'b': 5}

    """
    return prepare_by(
        data,
        by,
        schema=schema,
        ledger=ledger,
        dataset=dataset,
        table=table,
        trust_views=trust_views,
        where=where,
        rows=rows,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        mechanism=mechanism,
        goal=goal,
        neighbors=neighbors,
        radius=radius,
        intercept=intercept,
        denoise=denoise,
        threads=threads,
        seed=seed,
        **options,
    ).run()


def pure_part(budget: Budget) -> Budget:
    """Return what releases of a budget spend together if none of them spends a delta."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def budget_of_level(budget: Budget, neighbors: Neighbors) -> Budget:
    """Budget under add/remove of each level's release, so that all keep `budget` together.

    Under add/remove, all of it. Under replace-one a row leaves one level and enters another, or is
    replaced within one: two steps of add/remove, for which epsilon is halved, rho quartered, and
    delta divided by 1 + e^(epsilon / 2).
    """
    if neighbors == Neighbors.ADD_REMOVE:
        return budget
    match budget:
        case PureDP(epsilon):
            return PureDP(round_down(exact(epsilon) / 2))
        case ZCDP(rho):
            return ZCDP(round_down(exact(rho) / 4))
        case ApproxDP(epsilon, delta):
            if epsilon > MOST:
                raise BudgetError(f"Under replace-one, levels need an epsilon of at most {MOST}.")
            half = epsilon / 2 * (1 + 2.0**-50)
            factor = Fraction(1 + math.exp(half)) * (1 + Fraction(1, 2**50))
            return ApproxDP(round_down(exact(epsilon) / 2), round_down(exact(delta) / factor))


def paths(out: Path, levels: list[str]) -> dict[str, Path]:
    """A file beside `out` for each level, named after it; different on every file system."""
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
