"""What a missing cell of a column means: the rules, and where a schema states them.

A rule belongs to a group of kinds. Columns of categories have rules of their own; all other kinds
that are encoded (number, integer, count, flag, date, time) hold numbers. Ignored columns need none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from dpcov.core.printable import printable
from dpcov.errors import SchemaError

NumberRule = Literal["none", "pairwise", "midpoint", "level"]
CategoryRule = Literal["none", "zeros", "level", "other"]
Group = Literal["numbers", "categories"]

RULES: dict[Group, tuple[str, ...]] = {
    "numbers": get_args(NumberRule),
    "categories": get_args(CategoryRule),
}
NAMED = 5  # names that a message lists


class UnstatedMissingWarning(UserWarning):
    """A schema of version 2 leaves open what a missing cell of a column means."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class MissingDefaults(_Part):
    """What a missing cell means in columns that state no rule of their own."""

    numbers: NumberRule | None = Field(
        None, description="Of the kinds number, integer, count, flag, date and time."
    )
    categories: CategoryRule | None = Field(None, description="Of the kind categorical.")


class Defaults(_Part):
    """What columns share that do not state it themselves."""

    missing: MissingDefaults = MissingDefaults()


def group_of(kind: object) -> Group | None:
    """Return the group of a kind of columns; None of a kind that needs no rule."""
    if not isinstance(kind, str) or kind == "ignored":
        return None
    return "categories" if kind == "categorical" else "numbers"


def with_rules(document: Any) -> Any:
    """Return a document of version 3 in which each column has a rule; None where none is stated.

    Documents of earlier versions, and what is no schema, stay as they are.
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
    """Return the default of each group that has a valid one; others are refused elsewhere."""
    stated = stated.model_dump() if isinstance(stated, BaseModel) else stated
    rules = stated.get("missing") if isinstance(stated, Mapping) else None
    if not isinstance(rules, Mapping):
        return {}
    return {group: rules[group] for group, known in RULES.items() if rules.get(group) in known}


def _with_rule(column: Any, defaults: Mapping[Group, str]) -> Any:
    if isinstance(column, BaseModel):
        column = {"kind": getattr(column, "kind", None), **column.model_dump(exclude_unset=True)}
    if not isinstance(column, Mapping) or "missing" in column:
        return column
    group = group_of(column.get("kind"))
    return column if group is None else {**column, "missing": defaults.get(group)}


def rule_of_derived(parents: Sequence[NumberRule]) -> NumberRule:
    """Return the rule of a column that is computed from columns with these rules."""
    if "pairwise" in parents:
        return "pairwise"
    return "none" if set(parents) == {"none"} else "midpoint"


def is_unstated(fault: Mapping[str, Any]) -> bool:
    """Return True if this fault, of those of pydantic, is a column without a rule."""
    return (
        fault["type"] == "literal_error"
        and fault["input"] is None
        and len(fault["loc"]) == 4
        and fault["loc"][0] == "columns"
        and fault["loc"][-1] == "missing"
    )


def rules_wanted(names: Sequence[str], kinds: Sequence[str]) -> str:
    """Return two sentences: which columns state no rule, and the line to add."""
    wanted = {group_of(kind) for kind in kinds}
    lines = [f"missing = {_choice(group)} ({group})" for group in RULES if group in wanted]
    return (
        f"{_some(names)}: version 3 needs a rule for missing cells. Add a line "
        f"{'; '.join(lines)} to each, or set it once under [defaults.missing]: "
        '"none" promises that no cell is missing.'
    )


def _choice(group: Group) -> str:
    *first, last = (f'"{rule}"' for rule in RULES[group])
    return f"{', '.join(first)} or {last}"


def refuse_no_rule(missing: str) -> None:
    """Raise `SchemaError` if this is no rule for columns of numbers."""
    if missing not in RULES["numbers"]:
        raise SchemaError(
            f"missing = {missing!r} is no rule for columns of numbers. Choose {_choice('numbers')}."
        )


def notice_of(names: Sequence[str], schema: str) -> str:
    """Return the notice on columns of version 2 without a rule; from the schema alone."""
    return (
        f"The schema {schema!r} leaves open what a missing cell means in {_some(names)}: a number "
        "counts as the midpoint of its bounds, a category as none of the levels. State `missing` "
        "in each column, or run `dpcov schema migrate` and choose a rule."
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(printable, names[:NAMED])) + more
