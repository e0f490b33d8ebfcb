"""Request for a release: the arguments of the user, checked before dpcov reads any data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from dpcov.api.ledger import Ledger, require_countable
from dpcov.core.ledger_rule import Count as LedgerCount
from dpcov.core.parameters import Count, check_arguments, kinds_of
from dpcov.core.privacy import (
    Budget,
    Neighbors,
    NeighborsName,
    PureDP,
    budget_from,
    neighbors_named,
)
from dpcov.core.renamed import warn_of_former_name
from dpcov.denoise import Method
from dpcov.errors import SchemaError
from dpcov.mechanisms import Mechanism, MechanismOptions, Standardized
from dpcov.mechanisms.choice import Goal, mechanism_for
from dpcov.rows.missing import NumberRule
from dpcov.rows.schema import Bounds, Schema

# Fields whose own checks give better messages than a check of the type.
CHECKED_ELSEWHERE = ("epsilon", "delta", "rho", "neighbors", "lower", "upper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Request for a release, without the data.

    The fields are the arguments of `dpcov.release`, which documents them. The field `options` has
    the options of the mechanism. A request reads no data and spends no budget.

    Raises
    ------
    DpcovError
        The name, the type or the value of an argument is wrong.

    """

    ledger: Ledger | str | Path | None = None
    dataset: str | None = None
    schema: Schema | str | Path | None = None
    table: str | None = None
    trust_views: bool = False
    where: str | Sequence[str] = ()
    rows: Count | None = None
    lower: Bounds | None = None
    upper: Bounds | None = None
    missing: NumberRule | None = None
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mechanism: str = "auto"
    goal: Goal = "all"
    neighbors: Neighbors | NeighborsName = "add-remove"
    radius: float | Literal["private", "public"] | None = None
    intercept: float | None = None
    denoise: Method = "shrink"
    threads: Count | None = None
    seed: int | None = None
    n_features: Count | None = None
    year: int | None = None
    purpose: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = {name: getattr(self, name) for name in kinds_of(Request) if name != "options"}
        check_arguments(MechanismOptions, self.options, known=own, spell=str)
        check_arguments(Request, own, elsewhere=CHECKED_ELSEWHERE)
        for name in sorted(Standardized.set_by_goal & self.options.keys()):
            warn_of_former_name(name, "goal", depth=3)
        _ = self.budget, self.relation, self.named_mechanism  # each refuses wrong arguments

    @property
    def budget(self) -> Budget:
        """Budget of the release."""
        return budget_from(self.epsilon, self.delta, self.rho)

    @property
    def relation(self) -> Neighbors:
        """Relation between neighbouring tables."""
        return neighbors_named(self.neighbors)

    @property
    def mechanism_options(self) -> dict[str, Any]:
        """Options of the mechanism. A radius in words is an option, and a number is not."""
        own = {"radius": self.radius} if isinstance(self.radius, str) else {}
        return {**self.options, **own}

    @property
    def named_mechanism(self) -> Mechanism | None:
        """Requested mechanism, or None if dpcov chooses the mechanism."""
        if self.mechanism == "auto":
            return None
        return mechanism_for(self.mechanism, self.goal, **self.mechanism_options)

    @property
    def opened_ledger(self) -> Ledger | None:
        """Ledger that records the budget, if there is one."""
        return Ledger.open(self.ledger) if isinstance(self.ledger, str | Path) else self.ledger

    def needs_mu(self, ledger: Ledger | None) -> bool:
        """Return True if the opened ledger needs Gaussian noise with a known mu for this budget.

        Raises
        ------
        LedgerError
            The ledger cannot count a release with this budget.

        """
        if ledger is None:
            return False
        account = ledger.account(self.dataset)
        if isinstance(self.budget, PureDP):
            require_countable(account, self.budget, None)
            return False
        return account.count == LedgerCount.GAUSSIAN

    def declared_schema(self, data: Any = None) -> Schema:
        """Return the schema. If the request has bounds only, opened `data` names the columns."""
        schema = self.schema
        if schema is None:
            if self.lower is None or self.upper is None:
                raise SchemaError(
                    "The table has no bounds. Give a schema, or lower and upper as public bounds "
                    "of the columns; bounds from the data would disclose single rows."
                )
            schema = Schema.from_bounds(self.lower, self.upper, data.names, self.missing)
        elif self.lower is not None or self.upper is not None:
            raise SchemaError("Give either a schema, or lower and upper, not both.")
        elif self.missing is not None:
            raise SchemaError(
                "The schema says what missing cells mean. Leave out missing, or state it in the "
                "columns of the schema."
            )
        if not isinstance(schema, Schema):
            schema = Schema.load(schema)
        given = {"radius": self.radius, "intercept": self.intercept}
        changes = {key: one for key, one in given.items() if not isinstance(one, str | None)}
        if changes:
            schema = Schema.parse(schema.model_dump() | changes)
        schema = schema.with_rows(self.rows)
        if self.n_features not in (None, len(schema.columns)):
            raise SchemaError(
                f"n_features is {self.n_features}, but there are {len(schema.columns)} columns. "
                "Leave out n_features, or give the table and bounds that it is for."
            )
        return schema
