"""A schema as a TOML file for a person to complete: what is known is stated, gaps are comments.

What is proposed rests on names, declared types and a database's constraints, never on cells.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from dpcov.core.printable import printable
from dpcov.errors import SchemaError
from dpcov.rows.missing import group_of
from dpcov.rows.schema import Column, PersonUnit, Schema

if TYPE_CHECKING:
    from dpcov.rows.schema import FileOptions, Kind

Declaration = dict[str, Any]  # of one column, with the keys of the TOML file; some may lack

MODELS = {model.model_fields["kind"].default: model for model in get_args(get_args(Column)[0])}
_VERSION = re.compile(r"^version[ \t]*=[ \t]*[12][ \t]*(#.*)?\n", re.MULTILINE)
_NUMERIC = re.compile(r"(kind[\"']?[ \t]*=[ \t]*)([\"'])numeric\2")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_GAPS = {
    kind: (
        *(name for name, part in model.model_fields.items() if part.is_required()),
        *(["missing"] if group_of(kind) else []),
    )
    for kind, model in MODELS.items()
} | {"unknown": ("kind", "lower", "upper", "levels", "missing")}
_EMPTY = {"kind": ' "number"', "lower": "", "upper": "", "levels": " []", "missing": ""}
_FORMER_RULES = 'defaults.missing = { numbers = "midpoint", categories = "zeros" }'
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_KEYS = {"id", "ids", "uuid", "guid", "key", "pk", "identifier", "ssn", "mrn"}
_PERSONS = {"person", "patient", "participant", "subject", "respondent", "user", "customer"}
_PERSONS |= {"client", "member", "employee", "student", "pupil", "resident", "household"}
_WEIGHTS = {"weight", "weights", "wt", "wgt", "pweight", "fweight"}
_INCOMPLETE = (
    "# A draft from column names{}. Fill in the bounds and the levels from public",
    "# knowledge (what the column can hold), never from the data: they are not protected.",
    '# Change kind to "ignored" (and drop the other keys) to leave a column out.',
    "# Then: dpcov plan THIS_FILE --rows GUESS --epsilon 1",
)
_KINDS = (
    "# A text file does not tell what a column holds, and its cells are not looked at. State each",
    '# kind: "number", "integer", "date" or "time" with lower and upper, "count" with upper,',
    '# "flag", "categorical" with levels, or "ignored".',
)
_NAMES = (
    "# The names are the file's first record, which this draft makes public. If the file has no",
    "# header, they are somebody's values: delete this, and draft with --no-header --columns N.",
)
_ONLY, _WITH_LABELS = " and types only", ", types and value labels"
_LABELLED = (
    "# Value labels may disclose what single rows hold: programs often write one for each value",
    "# that occurs, however rare. They are not protected. Confirm each from public knowledge, or",
    "# delete it, before anybody else sees this draft.",
)
_LABELS = ("# The values that have labels in the file, if it holds codes:",)
_RULES = (
    "",
    "# What a missing cell means: state `missing` in each column, or here for all of them.",
    '# Numbers (number, integer, count, flag, date, time): "none" promises that none is missing,',
    '# "pairwise" leaves it out of means and covariances, "midpoint" counts it as the midpoint of',
    '# the bounds, "level" does so too and adds a 0/1 feature. Categories: "none", "zeros" (no',
    '# level), "level" (a level of its own), or "other", which needs other = true.',
    "# [defaults.missing]",
    "# numbers =",
    "# categories =",
)
_MISSING = (
    "# The file declares these missing in some columns, and there they are read so. Where they are",
    "# in all columns, and in other copies of the table, confirm it:",
)
_COMPLETE = (
    "# Bounds and levels as stated, from public knowledge: releases show them to everybody.",
    "# Next: dpcov plan THIS_FILE --rows GUESS --epsilon 1",
)


def _roles(names: Iterable[str]) -> tuple[str, ...]:
    """The unit and the weight to choose, with columns whose names look like them."""
    roles = {role_of(name): name for name in reversed([*names])}
    person = roles.get("person", roles.get("key", "person_id"))
    return (
        "",
        "# [unit]              # protect persons instead of rows",
        f"# column = {_toml(person)}",
        '# type = "integer"    # or decimal, uuid, text: what makes two ids the same',
        "# max_rows = 1",
        "",
        "# [weight]            # survey weights, and the largest that can occur",
        f"# column = {_toml(roles.get('weight', 'weight'))}",
        "# maximum = 1",
    )


def role_of(name: str) -> str:
    """What a column is by its name: of a person, a key, a weight, or nothing of that."""
    words = [word.lower() for word in _WORD.findall(name)] or [""]
    is_key = words[-1] in _KEYS
    if words[-1] in _PERSONS or (is_key and not _PERSONS.isdisjoint(words)):
        return "person"
    return "key" if is_key else "weight" if not _WEIGHTS.isdisjoint(words) else ""


def proposed(names: Iterable[str], stated: Stated, keys: Mapping[str, str]) -> Stated:
    """What is stated, and keys left out: by their name, or by what a database says of them."""
    columns, hints = dict(stated.columns), dict(stated.hints)
    for name in names:
        role = role_of(name)
        if name in columns or (name not in keys and not role):
            continue
        if role == "weight" and name not in keys:
            hints[name] = "by its name perhaps a survey weight: then [weight] above, and ignored"
            continue
        columns[name] = {"kind": "ignored"}
        hints[name] = f"{keys.get(name, 'a key by its name')}: left out"
        if role == "person":
            hints[name] = "a person's id by its name: left out; [unit] above protects persons"
    return replace(stated, columns=columns, hints=hints)


@dataclass(frozen=True, slots=True)
class Stated:
    """What a person or a metadata file says about a table: public, never from its rows.

    `hints` are comments on columns. `labels` of values, and `codes` that mean a missing one, as
    ranges, stand in a file: they may tell what occurs, so that a draft has them as comments.
    """

    columns: Mapping[str, Declaration] = field(default_factory=dict)
    unit: PersonUnit | None = None
    missing: tuple[str, ...] = ("", "NA")
    hints: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Mapping[float | str, str]] = field(default_factory=dict)
    codes: Mapping[str, Sequence[tuple[float | str, float | str]]] = field(default_factory=dict)

    def document(self, options: FileOptions) -> dict[str, Any]:
        """As `dpcov.Schema.parse` takes it."""
        found: dict[str, Any] = {"version": 3, "missing": self.missing}
        found["columns"] = dict(self.columns)
        found["file"] = options.model_dump(exclude_defaults=True)
        return found if self.unit is None else found | {"unit": self.unit.model_dump()}


def gaps(declaration: Declaration) -> list[str]:
    """Keys that a declaration still needs."""
    return [key for key in _GAPS[declaration.get("kind", "unknown")] if key not in declaration]


def draft(types: Mapping[str, Kind], options: FileOptions, stated: Stated | None = None) -> str:
    """TOML text of a schema, from names and types and what is stated; gaps are for a person."""
    known = Stated() if stated is None else stated
    columns = {
        name: known.columns.get(name, {} if kind == "unknown" else {"kind": kind})
        for name, kind in types.items()
    }
    typed = known.unit is None or known.unit.type is not None
    complete = typed and not any(map(gaps, columns.values()))
    sources = _WITH_LABELS if known.labels else _ONLY
    lines = [line.format(sources) for line in (_COMPLETE if complete else _INCOMPLETE)]
    lines += _LABELLED if known.labels else ()
    lines += _KINDS if any("kind" in gaps(given) for given in columns.values()) else ()
    lines += _NAMES if "unknown" in types.values() and options.header else ()
    lines += ["version = 3", "# Texts of missing cells:"]
    lines += [f"missing = {_toml(list(known.missing))}", *_proposed_missing(known)]
    lines += _RULES if any("missing" in gaps(given) for given in columns.values()) else ()
    if known.unit is not None:
        lines += ["", "[unit]", f"column = {_toml(known.unit.column)}"]
        kind = known.unit.type
        lines += ['# type = "integer"' if kind is None else f"type = {_toml(kind)}"]
        lines += [f"max_rows = {known.unit.max_rows}"]
    elif not complete:
        lines += _roles(types)
    changed = options.model_dump(exclude_defaults=True)
    if changed:
        lines += ["", "[file]", *(f"{key} = {_toml(value)}" for key, value in changed.items())]
    for name, declaration in columns.items():
        key = name if _BARE_KEY.fullmatch(name) else _toml(name)
        hint = f"  # {printable(known.hints[name])}" if name in known.hints else ""
        lines += ["", f"[columns.{key}]{hint}"]
        lines += [f"{part} = {_toml(value)}" for part, value in declaration.items()]
        open_ones = [
            part for part in gaps(declaration) if part != "levels" or name not in known.labels
        ]
        lines += [f"# {part} ={_EMPTY[part]}" for part in open_ones]
        if (kind := declaration.get("kind", "")) != "ignored":
            lines += _proposed_levels(known, name, kind)
    return "\n".join(lines) + "\n"


def _proposed_missing(known: Stated) -> list[str]:
    """What the file declares missing, for a person to confirm."""
    single = {
        _text(least) for told in known.codes.values() for least, most in told if least == most
    }
    if not single:
        return []
    proposed = _toml([*known.missing, *sorted(single)])
    return [*_MISSING, f"# missing = {proposed}"]


def _proposed_levels(known: Stated, name: str, kind: str) -> list[str]:
    """A column's labels as levels, and its codes, for a person to confirm."""
    lines: list[str] = []
    if name in known.labels:
        rows = known.labels[name].items()
        levels = [f"  {_toml(value)},  # {printable(label)}" for value, label in rows]
        stated = [] if kind == "categorical" else ['kind = "categorical"']
        lines += [*_LABELS, *(f"# {one}" for one in [*stated, "levels = [", *levels, "]"])]
    if told := known.codes.get(name):
        ends = ([_text(least), _text(most)] for least, most in told)
        spans = (printable(" to ".join(dict.fromkeys(pair))) for pair in ends)
        lines += [f"# The file declares as missing: {', '.join(spans)}"]
    return lines


def _text(code: float | str) -> str:
    return code if isinstance(code, str) else _toml(code)


def migrated(text: str, declared: Schema) -> str:
    """Return the text of a schema of version 1 or 2 as one of version 3, comments and all."""
    wanted = declared.model_dump(mode="json") | {"version": 3}
    for column in wanted["columns"].values():
        column["kind"] = {"numeric": "number"}.get(column["kind"], column["kind"])
    schema = Schema.parse(wanted)
    edited = _NUMERIC.sub(r"\1\2number\2", _VERSION.sub("", text))
    edited = f"version = 3\n{_FORMER_RULES}\n{edited}"
    try:
        made = Schema.parse(tomllib.loads(edited))
        if made.model_dump(exclude={"defaults"}) == schema.model_dump(exclude={"defaults"}):
            return edited
    except (tomllib.TOMLDecodeError, SchemaError):
        pass
    raise SchemaError(
        f"This schema can't be rewritten by its text. Put version = 3 and {_FORMER_RULES} at its "
        'top, and write kind = "number" for "numeric".'
    )


def _toml(value: Any) -> str:
    """A value as TOML has it: as JSON, but for whole numbers and a control character."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
