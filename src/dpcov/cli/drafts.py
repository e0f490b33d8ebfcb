"""Drafts of schemas as TOML text, with comments for everything that a person must fill in.

Proposals use column names, declared types and the constraints of a database, never cells.
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

Declaration = dict[str, Any]  # keys and values of one column, possibly incomplete

COLUMN_MODELS = {
    model.model_fields["kind"].default: model for model in get_args(get_args(Column)[0])
}
_VERSION_LINE = re.compile(r"^version[ \t]*=[ \t]*[12][ \t]*(#.*)?\n", re.MULTILINE)
_NUMERIC_KIND = re.compile(r"(kind[\"']?[ \t]*=[ \t]*)([\"'])numeric\2")
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_NEEDED_KEYS = {
    kind: (
        *(name for name, part in model.model_fields.items() if part.is_required()),
        *(["missing"] if group_of(kind) else []),
    )
    for kind, model in COLUMN_MODELS.items()
} | {"unknown": ("kind", "lower", "upper", "levels", "missing")}
_EMPTY_VALUES = {"kind": ' "number"', "lower": "", "upper": "", "levels": " []", "missing": ""}
_FORMER_RULES = 'defaults.missing = { numbers = "midpoint", categories = "zeros" }'
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_KEY_WORDS = {"id", "ids", "uuid", "guid", "key", "pk", "identifier", "ssn", "mrn"}
_PERSON_WORDS = {"person", "patient", "participant", "subject", "respondent", "user", "customer"}
_PERSON_WORDS |= {"client", "member", "employee", "student", "pupil", "resident", "household"}
_WEIGHT_WORDS = {"weight", "weights", "wt", "wgt", "pweight", "fweight"}
_INCOMPLETE_COMMENT = (
    "# dpcov drafted this schema from column names{}. Fill in bounds and",
    "# levels from public knowledge of each column, never from the data. Nothing protects them.",
    '# To leave a column out, change kind to "ignored" and delete its other keys.',
    "# Then: dpcov plan THIS_FILE --rows GUESS --epsilon 1",
    "# Before a release: dpcov check DATA --schema THIS_FILE. Nothing protects what you",
    "# change after the check.",
)
_KINDS_COMMENT = (
    "# A text file does not declare types, and dpcov reads no cells for a draft. State each",
    '# kind: "number", "integer", "date" or "time" with lower and upper, "count" with upper,',
    '# "flag", "categorical" with levels, or "ignored". A column with other signs or words',
    '# states them: decimal = ",", true = ["yes"], false = ["no"], missing_codes = ["-9"].',
)
_NAMES_COMMENT = (
    "# The names are the first record of the file. If the file has no header, the names are data",
    "# of a person: delete this draft, and make a new draft with --no-header --columns N.",
)
_TYPES_ENDING, _LABELS_ENDING = " and types only", ", types and value labels"
_LABELLED_COMMENT = (
    "# Value labels can disclose values of single rows, because programs often write a label for",
    "# each value that occurs. Nothing protects the labels. Check each label against public",
    "# knowledge, or delete it, before anybody else sees this draft.",
)
_LABELS_COMMENT = ("# Values with labels in the file, if the column contains codes:",)
_RULES_COMMENT = (
    "",
    "# State what a missing cell means: set `missing` in each column, or here for all columns.",
    '# Numbers (number, integer, count, flag, date, time): with "none" you promise that no cell is',
    '# missing, "pairwise" leaves the cell out of means and covariances, "midpoint" counts the',
    '# cell as the midpoint of the bounds, and "level" does the same and adds a 0/1 feature.',
    '# Categories: "none", "zeros" (no level), "level" (an additional level), or "other", which',
    "# needs other = true.",
    "# [defaults.missing]",
    "# numbers =",
    "# categories =",
)
_MISSING_COMMENT = (
    "# The file declares these values as missing in some columns, and dpcov reads them as missing",
    "# there. If they mean missing in all columns, remove the # from the next line:",
)
_COMPLETE_COMMENT = (
    "# Releases show these bounds and levels to everybody.",
    "# Next: dpcov plan THIS_FILE --rows GUESS --epsilon 1",
    "# Before a release: dpcov check DATA --schema THIS_FILE. Nothing protects what you",
    "# change after the check.",
)


def _roles(names: Iterable[str]) -> tuple[str, ...]:
    """Return comments that propose a unit and a weight, from column names."""
    roles = {role_of(name): name for name in reversed([*names])}
    person = roles.get("person", roles.get("key", "person_id"))
    return (
        "",
        "# [unit]              # protects persons instead of rows",
        f"# column = {_toml(person)}",
        '# type = "integer"    # or decimal, uuid, text: decides which ids are equal',
        "# max_rows = 1",
        "",
        "# [weight]            # survey weights, and the largest possible weight",
        f"# column = {_toml(roles.get('weight', 'weight'))}",
        "# maximum = 1",
    )


def role_of(name: str) -> str:
    """Return the role of a column by its name: person, key, weight or an empty text."""
    words = [word.lower() for word in _WORD.findall(name)] or [""]
    is_key = words[-1] in _KEY_WORDS
    if words[-1] in _PERSON_WORDS or (is_key and not _PERSON_WORDS.isdisjoint(words)):
        return "person"
    return "key" if is_key else "weight" if not _WEIGHT_WORDS.isdisjoint(words) else ""


def proposed(names: Iterable[str], stated: Stated, keys: Mapping[str, str]) -> Stated:
    """Return the stated facts, with the kind ``ignored`` for each column that seems to be a key.

    The names of the columns and the constraints of the database suggest which columns are keys.
    """
    columns, hints = dict(stated.columns), dict(stated.hints)
    for name in names:
        role = role_of(name)
        if name in columns or (name not in keys and not role):
            continue
        if role == "weight" and name not in keys:
            hints[name] = "the name suggests a survey weight: if so, use [weight] above and ignored"
            continue
        columns[name] = {"kind": "ignored"}
        hints[name] = f"{keys.get(name, 'the name suggests a key')}: left out"
        if role == "person":
            hints[name] = "the name suggests a person id: left out; [unit] above protects persons"
    return replace(stated, columns=columns, hints=hints)


@dataclass(frozen=True, slots=True)
class Stated:
    """Public facts about a table, from a person or a metadata file.

    Attributes
    ----------
    columns : mapping of str to dict
        Declaration of each known column.

    unit : PersonUnit or None
        Declaration of persons.

    missing : tuple of str
        Texts that mean a missing cell.

    hints : mapping of str to str
        Comment on each column.

    labels : mapping of str to mapping
        Value labels of each column. Labels can disclose which values occur, so a draft shows them
        as comments.

    codes : mapping of str to sequence of pairs
        Ranges of codes that mean a missing cell, for each column. A draft shows them as comments.

    """

    columns: Mapping[str, Declaration] = field(default_factory=dict)
    unit: PersonUnit | None = None
    missing: tuple[str, ...] = ("", "NA")
    hints: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, Mapping[float | str, str]] = field(default_factory=dict)
    codes: Mapping[str, Sequence[tuple[float | str, float | str]]] = field(default_factory=dict)

    def document(self, options: FileOptions) -> dict[str, Any]:
        """Return the schema as a document for `dpcov.Schema.parse`."""
        found: dict[str, Any] = {"version": 3, "missing": self.missing}
        found["columns"] = dict(self.columns)
        found["file"] = options.model_dump(exclude_defaults=True)
        return found if self.unit is None else found | {"unit": self.unit.model_dump()}


def undeclared(declaration: Declaration) -> list[str]:
    """Return the keys that a declaration still needs."""
    needed = _NEEDED_KEYS[declaration.get("kind", "unknown")]
    return [key for key in needed if key not in declaration]


def draft(types: Mapping[str, Kind], options: FileOptions, stated: Stated | None = None) -> str:
    """Return a draft schema as TOML text, with a comment for each missing key."""
    known = Stated() if stated is None else stated
    columns = {
        name: known.columns.get(name, {} if kind == "unknown" else {"kind": kind})
        for name, kind in types.items()
    }
    typed = known.unit is None or known.unit.type is not None
    complete = typed and not any(map(undeclared, columns.values()))
    sources = _LABELS_ENDING if known.labels else _TYPES_ENDING
    lines = [
        line.format(sources) for line in (_COMPLETE_COMMENT if complete else _INCOMPLETE_COMMENT)
    ]
    lines += _LABELLED_COMMENT if known.labels else ()
    lines += (
        _KINDS_COMMENT if any("kind" in undeclared(given) for given in columns.values()) else ()
    )
    lines += _NAMES_COMMENT if "unknown" in types.values() and options.header else ()
    lines += ["version = 3", "# Texts of missing cells:"]
    lines += [f"missing = {_toml(list(known.missing))}", *_proposed_missing(known)]
    lines += (
        _RULES_COMMENT if any("missing" in undeclared(given) for given in columns.values()) else ()
    )
    if known.unit is not None:
        lines += ["", "[unit]", f"column = {_toml(known.unit.column)}"]
        kind = known.unit.type
        lines += ['# type = "integer"' if kind is None else f"type = {_toml(kind)}"]
        means = known.unit.aggregate is not None
        lines += ['aggregate = "mean"' if means else f"max_rows = {known.unit.max_rows}"]
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
            part for part in undeclared(declaration) if part != "levels" or name not in known.labels
        ]
        lines += [f"# {part} ={_EMPTY_VALUES[part]}" for part in open_ones]
        if (kind := declaration.get("kind", "")) != "ignored":
            lines += _proposed_levels(known, name, kind)
    return "\n".join(lines) + "\n"


def _proposed_missing(known: Stated) -> list[str]:
    """Return comments that propose the missing codes of the file."""
    single = {
        _text(least) for told in known.codes.values() for least, most in told if least == most
    }
    if not single:
        return []
    proposed = _toml([*known.missing, *sorted(single)])
    return [*_MISSING_COMMENT, f"# missing = {proposed}"]


def _proposed_levels(known: Stated, name: str, kind: str) -> list[str]:
    """Return comments that propose the labels and the missing codes of a column."""
    lines: list[str] = []
    if name in known.labels:
        rows = known.labels[name].items()
        levels = [f"  {_toml(value)},  # {printable(label)}" for value, label in rows]
        stated = [] if kind == "categorical" else ['kind = "categorical"']
        lines += [*_LABELS_COMMENT, *(f"# {one}" for one in [*stated, "levels = [", *levels, "]"])]
    if told := known.codes.get(name):
        ends = ([_text(least), _text(most)] for least, most in told)
        spans = (printable(" to ".join(dict.fromkeys(pair))) for pair in ends)
        lines += [f"# The file declares as missing: {', '.join(spans)}"]
    return lines


def _text(code: float | str) -> str:
    return code if isinstance(code, str) else _toml(code)


def migrated(text: str, declared: Schema) -> str:
    """Convert the text of a schema to version 3 and keep its comments."""
    wanted = declared.model_dump(mode="json") | {"version": 3}
    for column in wanted["columns"].values():
        column["kind"] = {"numeric": "number"}.get(column["kind"], column["kind"])
    schema = Schema.parse(wanted)
    edited = _NUMERIC_KIND.sub(r"\1\2number\2", _VERSION_LINE.sub("", text))
    edited = f"version = 3\n{_FORMER_RULES}\n{edited}"
    try:
        made = Schema.parse(tomllib.loads(edited))
        if made.model_dump(exclude={"defaults"}) == schema.model_dump(exclude={"defaults"}):
            return edited
    except (tomllib.TOMLDecodeError, SchemaError):
        pass
    raise SchemaError(
        "dpcov cannot convert the text of this schema. Write version = 3 and "
        f'{_FORMER_RULES} at its top, and kind = "number" instead of "numeric".'
    )


def _toml(value: Any) -> str:
    """Return a value as TOML text."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
