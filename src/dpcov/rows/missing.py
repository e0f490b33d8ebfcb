"""Rules for missing cells, and where a schema states the rules.

A categorical column has one group of rules. Every other encoded column (number, integer, count,
flag, date, time) has the other group. Ignored columns need no rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from dpcov.core.printable import listed, printable
from dpcov.errors import SchemaError

NumberRule = Literal["none", "pairwise", "midpoint", "level"]
CategoryRule = Literal["none", "zeros", "level", "other"]
Group = Literal["numbers", "categories"]

RULES: dict[Group, tuple[str, ...]] = {
    "numbers": get_args(NumberRule),
    "categories": get_args(CategoryRule),
}


class UnstatedMissingWarning(UserWarning):
    """Warning about a schema of version 2 that states no rule for missing cells of a column."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class MissingDefaults(_Part):
    """Rules for missing cells of columns that state no rule of their own."""

    numbers: NumberRule | None = Field(
        None,
        description="Rule for columns of the kinds number, integer, count, flag, date and time.",
    )
    categories: CategoryRule | None = Field(
        None, description="Rule for columns of the kind categorical."
    )


class Defaults(_Part):
    """Settings of all columns that do not state their own."""

    missing: MissingDefaults = MissingDefaults()


def group_of(kind: object) -> Group | None:
    """Return the group of rules for a kind of column; None for a kind that needs no rule."""
    if not isinstance(kind, str) or kind == "ignored":
        return None
    return "categories" if kind == "categorical" else "numbers"


def with_rules(document: Any) -> Any:
    """Add the default rule to each column of a schema document of version 3.

    Columns without a rule and without a default get the rule None. Documents of earlier versions
    and invalid documents are returned unchanged.
    """
    if not isinstance(document, Mapping) or document.get("version") != 3:
        return document
    columns = document.get("columns")
    if not isinstance(columns, Mapping):
        return document
    defaults = _defaults(document.get("defaults"))
    return {
        **document,
        "columns": {name: _with_rule(column, defaults) for name, column in columns.items()},
    }


def _defaults(stated: Any) -> Mapping[Group, str]:
    """Return the default rule of each group, if it is valid."""
    stated = stated.model_dump() if isinstance(stated, BaseModel) else stated
    rules = stated.get("missing") if isinstance(stated, Mapping) else None
    if not isinstance(rules, Mapping):
        return {}
    return {group: rules[group] for group, known in RULES.items() if rules.get(group) in known}


def _with_rule(column: Any, defaults: Mapping[Group, str]) -> Any:
    """Add the default rule to a column that states none."""
    if isinstance(column, BaseModel):
        column = {"kind": getattr(column, "kind", None), **column.model_dump(exclude_unset=True)}
    if not isinstance(column, Mapping) or "missing" in column:
        return column
    group = group_of(column.get("kind"))
    return column if group is None else {**column, "missing": defaults.get(group)}


def rule_of_derived(parents: Sequence[NumberRule]) -> NumberRule:
    """Return the rule of a derived column from the rules of its parents."""
    if "pairwise" in parents:
        return "pairwise"
    return "none" if set(parents) == {"none"} else "midpoint"


def is_unstated(fault: Mapping[str, Any]) -> bool:
    """Return True if a pydantic error reports a column without a rule."""
    return (
        fault["type"] == "literal_error"
        and fault["input"] is None
        and len(fault["loc"]) == 4
        and fault["loc"][0] == "columns"
        and fault["loc"][-1] == "missing"
    )


def rules_wanted(names: Sequence[str], kinds: Sequence[str]) -> str:
    """Return a sentence that names the columns without a rule, and a sentence with the remedy."""
    wanted = {group_of(kind) for kind in kinds}
    lines = [f"missing = {_choice(group)} ({group})" for group in RULES if group in wanted]
    return (
        f"{_some(names)}: version 3 needs a rule for missing cells. Add {'; '.join(lines)} "
        'to each column, or set the rule once under [defaults.missing]; "none" means that '
        "no cell is missing."
    )


def _choice(group: Group) -> str:
    """List the rules of a group as text."""
    *first, last = (f'"{rule}"' for rule in RULES[group])
    return f"{', '.join(first)} or {last}"


def refuse_no_rule(missing: str) -> None:
    """Raise `SchemaError` if this is not a rule for numeric columns."""
    if missing not in RULES["numbers"]:
        raise SchemaError(
            f"missing = {missing!r} is not a rule for numeric columns. Choose {_choice('numbers')}."
        )


def notice_of(names: Sequence[str], schema: str) -> str:
    """Return the notice about columns of version 2 without a rule."""
    return (
        f"The schema {schema!r} has no rule for missing cells in {_some(names)}: missing "
        "numbers count as the midpoint of the bounds, missing categories as no level. State "
        "`missing` in each column, or run `dpcov schema migrate` and choose a rule."
    )


def _some(names: Sequence[str]) -> str:
    """List the first names as text, with the number of further names."""
    return listed([printable(name) for name in names])
