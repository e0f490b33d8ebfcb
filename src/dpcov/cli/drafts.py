"""A schema as a TOML file for a person to complete: what is known is stated, gaps are comments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpcov.core.printable import printable
from dpcov.rows.schema import Categorical, Ignored, Numeric, PersonUnit

if TYPE_CHECKING:
    from dpcov.rows.schema import FileOptions, Kind

Declaration = dict[str, Any]  # of one column, with the keys of the TOML file; some may lack

MODELS: dict[str, type[Numeric | Categorical | Ignored]] = {
    "numeric": Numeric,
    "categorical": Categorical,
    "ignored": Ignored,
}
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_GAPS = {
    "numeric": ("lower", "upper"),
    "categorical": ("levels",),
    "ignored": (),
    "unknown": ("kind", "lower", "upper", "levels"),
}
_EMPTY = {"kind": ' "numeric"', "lower": "", "upper": "", "levels": " []"}
_INCOMPLETE = (
    "# A draft from column names and types only. Fill in the bounds and the levels from public",
    "# knowledge (what the column can hold), never from the data: they are not protected.",
    '# Change kind to "ignored" (and drop the other keys) to leave a column out.',
    "# Then: dpcov plan THIS_FILE --rows GUESS --epsilon 1",
)
_KINDS = (
    "# A text file does not tell what a column holds, and its cells are not looked at. State each",
    '# kind: "numeric" with lower and upper, "categorical" with levels, or "ignored".',
)
_NAMES = (
    "# The names are the file's first record, which this draft makes public. If the file has no",
    "# header, they are somebody's values: delete this, and draft with --no-header --columns N.",
)
_COMPLETE = (
    "# Bounds and levels as stated, from public knowledge: releases show them to everybody.",
    "# Next: dpcov plan THIS_FILE --rows GUESS --epsilon 1",
)
_ROLES = (
    "",
    "# [unit]              # protect persons instead of rows",
    '# column = "person_id"',
    '# type = "integer"    # or decimal, uuid, text: what makes two ids the same',
    "# max_rows = 1",
    "",
    "# [weight]            # survey weights, and the largest that can occur",
    '# column = "weight"',
    "# maximum = 1",
    "",
    '# A missing number counts as the midpoint of its bounds; missing = "pairwise" in its column',
    "# leaves it out of means and covariances.",
)


@dataclass(frozen=True, slots=True)
class Stated:
    """What a person or a metadata file says about a table: public, never from its rows.

    `hints` are comments on columns whose declaration has gaps.
    """

    columns: Mapping[str, Declaration] = field(default_factory=dict)
    unit: PersonUnit | None = None
    missing: tuple[str, ...] = ("", "NA")
    hints: Mapping[str, str] = field(default_factory=dict)

    def document(self, options: FileOptions) -> dict[str, Any]:
        """As `dpcov.Schema.parse` takes it."""
        found: dict[str, Any] = {"missing": self.missing, "columns": dict(self.columns)}
        found["file"] = options.model_dump(exclude_defaults=True)
        return found if self.unit is None else found | {"unit": self.unit.model_dump()}


def gaps(declaration: Declaration) -> list[str]:
    """Keys that a declaration still needs."""
    return [key for key in _GAPS[declaration.get("kind", "unknown")] if key not in declaration]


def draft(types: Mapping[str, Kind], options: FileOptions, stated: Stated | None = None) -> str:
    """TOML text of a schema, from names and types and what is stated; gaps are for a person."""
    known = Stated() if stated is None else stated
    columns = {name: known.columns.get(name, _of(kind)) for name, kind in types.items()}
    typed = known.unit is None or known.unit.type is not None
    complete = typed and not any(map(gaps, columns.values()))
    lines = [*(_COMPLETE if complete else _INCOMPLETE)]
    lines += _KINDS if any("kind" in gaps(given) for given in columns.values()) else ()
    lines += _NAMES if "unknown" in types.values() and options.header else ()
    lines.append(f"missing = {_toml(list(known.missing))}")
    if known.unit is not None:
        lines += ["", "[unit]", f"column = {_toml(known.unit.column)}"]
        kind = known.unit.type
        lines += ['# type = "integer"' if kind is None else f"type = {_toml(kind)}"]
        lines += [f"max_rows = {known.unit.max_rows}"]
    elif not complete:
        lines += _ROLES
    changed = options.model_dump(exclude_defaults=True)
    if changed:
        lines += ["", "[file]", *(f"{key} = {_toml(value)}" for key, value in changed.items())]
    for name, declaration in columns.items():
        key = name if _BARE_KEY.fullmatch(name) else _toml(name)
        hint = f"  # {printable(known.hints[name])}" if name in known.hints else ""
        lines += ["", f"[columns.{key}]{hint}"]
        lines += [f"{part} = {_toml(value)}" for part, value in declaration.items()]
        lines += [f"# {part} ={_EMPTY[part]}" for part in gaps(declaration)]
    return "\n".join(lines) + "\n"


def _of(kind: Kind) -> Declaration:
    return {} if kind == "unknown" else {"kind": kind}


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return f'"{_escaped(value)}"'
    return f"[{', '.join(map(_toml, value))}]"


def _escaped(text: str) -> str:
    return "".join(
        f"\\u{ord(c):04X}" if ord(c) < 32 or ord(c) == 127 else c
        for c in text.replace("\\", "\\\\").replace('"', '\\"')
    )
