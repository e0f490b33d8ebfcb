"""Forms of the page: how a text file is written, and what each column contains."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dpcov
from dpcov.app.commands import path_argument
from dpcov.cli.drafts import Declaration, Stated, draft
from dpcov.cli.metadata import read
from dpcov.cli.questions import ID_TYPES, MISSING_MEANINGS, PRESETS, numbers_of
from dpcov.cli.schema import opened, proposals, separator_of
from dpcov.core.printable import printable
from dpcov.errors import SchemaError
from dpcov.rows.missing import Group, group_of
from dpcov.rows.schema import FileOptions, Kind, PersonUnit

if TYPE_CHECKING:
    from dpcov.app.folder import Folder, TableFile
    from dpcov.app.number_formats import NumberFormat

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", " ": "blank", "|": "vertical bar"}
DECIMAL_SIGNS = {".": "point", ",": "comma"}
THOUSANDS_SIGNS = {"": "none", ".": "point", ",": "comma", " ": "blank", "'": "apostrophe"}
# What a column can contain, in the order of the list.
CONTENTS = {
    "ignored": "nothing to release: leave the column out",
    "percentage": "a percentage, 0 to 100",
    "age": "an age in years, 0 to 120",
    "flag": "0 or 1, true or false",
    "number": "numbers, with bounds",
    "integer": "whole numbers, with bounds",
    "count": "counts, from 0 to an upper bound",
    "categorical": "categories, with levels",
    "date": "dates, with bounds",
    "time": "dates with a time of day, with bounds",
}
# Content of the kinds whose name is another one.
CONTENT_OF = {"numeric": "number"}
# Parts of the form that each content needs.
NEEDED = {
    **dict.fromkeys(("number", "integer", "date", "time"), ("lower", "upper")),
    "count": ("upper",),
    "categorical": ("levels",),
}
# Rules for missing cells of single columns, for numbers and categories.
COLUMN_RULES = {word: word for meanings in MISSING_MEANINGS.values() for word in meanings}
# Largest number of columns of a form, and of rows of one person, as in the schema.
MAX_COLUMNS, MAX_PERSON_ROWS = 500, 2**20


def reading_of(query: Mapping[str, str], table: TableFile) -> tuple[FileOptions, int | None]:
    """Return how a text file is written, and its number of columns if there is no header.

    Parameters
    ----------
    query : mapping of str to str
        Answers of the first form. The answer `header` is yes or no; there is no default.

    table : TableFile
        Table of the form.

    Returns
    -------
    tuple of (FileOptions, int or None)

    Raises
    ------
    SchemaError
        An answer is missing or invalid.

    """
    if table.kind in ("typed", "database"):
        return FileOptions(), None
    header = query.get("header")
    if header not in ("yes", "no"):
        raise SchemaError("State whether the first line is a header. dpcov shows no name before.")
    skipped, columns = query.get("skip_lines", "").strip() or "0", query.get("columns", "").strip()
    if not _is_whole(skipped):
        raise SchemaError("The number of lines above the header must be a whole number.")
    if header == "no" and not (_is_whole(columns) and 1 <= int(columns) <= MAX_COLUMNS):
        raise SchemaError(f"State the number of columns, from 1 to {MAX_COLUMNS}.")
    text: dict[str, Any] = {}
    if table.kind == "text":
        text = {
            "separator": query.get("separator") or separator_of(table.file),
            "decimal": query.get("decimal") or ".",
            "thousands": query.get("thousands") or None,
            "encoding": query.get("encoding", "").strip() or "utf-8",
        }
    options = FileOptions.checked(header=header == "yes", skip_lines=int(skipped), **text)
    return options, int(columns) if header == "no" else None


def _is_whole(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def schema_arguments(
    table: TableFile, options: FileOptions, columns: int | None, book: str = ""
) -> list[str]:
    """Return the arguments of the command that drafts the same schema in an interview."""
    found = ["schema", path_argument(table.file), *inner_arguments(table)]
    found += [] if options.header else ["--no-header", "--columns", str(columns)]
    if table.kind == "text" and options.separator != separator_of(table.file):
        found += ["--separator", options.separator]
    for name in ("skip_lines", "encoding", "decimal", "thousands"):
        if (value := getattr(options, name)) != FileOptions.model_fields[name].default:
            found += [f"--{name.replace('_', '-')}", str(value)]
    found += ["--metadata", path_argument(book)] if book else []
    return [*found, "--interactive", "--out", path_argument(table.named(".toml"))]


def inner_arguments(table: TableFile) -> list[str]:
    """Return the option that names a table of a database, or a sheet."""
    return ["--table", table.inner] if table.inner else []


@dataclass(frozen=True)
class Described:
    """Names and declared types of a table, and what they propose.

    Attributes
    ----------
    kinds : mapping of str to str
        Declared type of each column, by name.

    stated : Stated
        Proposals from names, types and constraints.

    """

    kinds: Mapping[str, Kind]
    stated: Stated

    @classmethod
    def of(
        cls,
        folder: Folder,
        table: TableFile,
        options: FileOptions,
        columns: int | None,
        book: str = "",
    ) -> Described:
        """Open a table and read its names and declared types, but no cell.

        `book` names a code book: public metadata in a file of the folder.
        """
        path = folder.inside(table.file)
        source = opened(str(path), options, columns, table.inner or None, guessed=True)
        kinds = source.kinds()
        stated = read(folder.inside(book), table.inner or path.name, kinds) if book else Stated()
        return cls(kinds, proposals(source, kinds, stated))


@dataclass
class ColumnForm:
    """Form with a part for each column.

    Parameters
    ----------
    described : Described
        Names and types of the table.

    options : FileOptions
        How the file is written.

    numbers : NumberFormat
        Format of the numbers in the answers.

    answers : mapping of str to str
        Answers by the names of the fields.

    """

    described: Described
    options: FileOptions
    numbers: NumberFormat
    answers: Mapping[str, str]
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """Names of the columns in the order of the table."""
        return list(self.described.kinds)

    def text(self) -> str:
        """Return the schema as TOML text.

        Returns
        -------
        str

        Raises
        ------
        SchemaError
            An answer is missing or invalid; `errors` has a sentence for each field.

        """
        self.errors.clear()
        unit = self._unit()
        columns = {name: self._column(at, name) for at, name in enumerate(self.names)}
        if unit is not None:
            columns[unit.column] = PRESETS["ignored"]
        if not self.errors and all(one["kind"] == "ignored" for one in columns.values()):
            self.errors["content-0"] = "State what at least one column contains."
        if self.errors:
            count = len(self.errors)
            raise SchemaError(
                f"{count} answer{'s are' if count > 1 else ' is'} missing or invalid."
            )
        missing = [part.strip() for part in self.answers.get("missing", "").split(",")]
        stated = Stated(columns, unit, ("", *dict.fromkeys(filter(None, missing))))
        text = draft(self.described.kinds, self.options, stated)
        dpcov.Schema.parse(tomllib.loads(text))  # raises an error about everything else
        return text

    def _column(self, at: int, name: str) -> Declaration:
        """Return the declaration of a column, and note what is missing."""
        content = self.answers.get(f"content-{at}", "")
        if content not in CONTENTS:
            self.errors[f"content-{at}"] = "State what the column contains, or leave it out."
            return PRESETS["ignored"]
        found = dict(PRESETS.get(content, {"kind": content}))
        for part in NEEDED.get(content, ()):
            found[part] = self._part(part, content, at)
        if (
            not self.errors
            and "lower" in found
            and not self._ordered(found["lower"], found["upper"])
        ):
            self.errors[f"upper-{at}"] = "The upper bound must be above the lower bound."
        group = group_of(found["kind"])
        if group is not None:
            found["missing"] = self._rule(group, at)
            found |= {"other": True} if found["missing"] == "other" else {}
        return found

    def _part(self, part: str, content: str, at: int) -> Any:
        """Return the bounds or levels of a column, and note what is missing."""
        key = f"{part}-{at}"
        text = self.answers.get(key, "").strip()
        if part == "levels":
            levels = [line.strip() for line in text.splitlines() if line.strip()]
            if not levels or len(set(levels)) < len(levels):
                self.errors[key] = "State at least one level, and each level once, one per line."
            return numbers_of(levels)
        if not text:
            self.errors[key] = f"State the {part} bound, from public knowledge."
            return None
        if content in ("date", "time"):
            return self.numbers.read_date(text)
        try:
            return self.numbers.read(text)
        except SchemaError as error:
            self.errors[key] = str(error)
            return None

    @staticmethod
    def _ordered(lower: Any, upper: Any) -> bool:
        return isinstance(lower, str) or None in (lower, upper) or lower < upper

    def _rule(self, group: Group, at: int) -> str:
        """Return the rule for missing cells of a column, and note if it is missing."""
        own, common = f"missing-{at}", f"missing-{group}"
        key = own if self.answers.get(own) else common
        rule = self.answers.get(key, "")
        if rule not in MISSING_MEANINGS[group]:
            allowed = ", ".join(MISSING_MEANINGS[group])
            self.errors[key] = f"State what a missing cell means, for {group}: {allowed}."
        return rule

    def _unit(self) -> PersonUnit | None:
        """Return the privacy unit, and note what is missing."""
        chosen = self.answers.get("unit", "")
        if not chosen:
            return None
        kind, most = self.answers.get("unit_type", ""), self.answers.get("max_rows", "")
        if kind not in ID_TYPES:
            self.errors["unit_type"] = "State the type of the ids."
        try:
            count = self.numbers.read_whole(most, 1, MAX_PERSON_ROWS)
        except SchemaError as error:
            self.errors["max_rows"] = str(error)
        if not _is_whole(chosen) or int(chosen) >= len(self.names):
            self.errors["unit"] = "Choose a column of the table."
        if {"unit_type", "max_rows", "unit"} & self.errors.keys():
            return None
        return PersonUnit.model_validate(
            {"column": self.names[int(chosen)], "type": kind, "max_rows": count}
        )

    def shown_columns(self) -> list[dict[str, Any]]:
        """Return what the page shows of each column."""
        found = []
        for at, (name, kind) in enumerate(self.described.kinds.items()):
            content = self.answers.get(f"content-{at}")
            if content is None:
                content = self._proposed(name, kind)
            hint = self.described.stated.hints.get(name, "")
            found.append({"at": at, "name": name, "content": content, "hint": printable(hint)})
        return found

    def _proposed(self, name: str, kind: Kind) -> str:
        """Return the content that the declared type of a column proposes."""
        if self.described.stated.columns.get(name) == PRESETS["ignored"] or kind == "ignored":
            return "ignored"
        content = CONTENT_OF.get(kind, kind)
        return content if content in CONTENTS else ""


def answers_of(stated: Stated, names: list[str], numbers: NumberFormat) -> dict[str, str]:
    """Return the answers that state the same facts, for a form that starts with them.

    Parameters
    ----------
    stated : Stated
        Facts from a schema or a code book.

    names : list of str
        Names of the columns in the order of the table.

    numbers : NumberFormat
        Format of the numbers in the answers.

    Returns
    -------
    dict of str to str

    """
    found = {"missing": ", ".join(filter(None, stated.missing)), "unit": ""}
    for at, name in enumerate(names):
        declared = stated.columns.get(name, {})
        kind: str = declared.get("kind", "")
        if not kind:
            continue
        found[f"content-{at}"] = CONTENT_OF.get(kind, kind)
        for part in NEEDED.get(kind, ()):
            if part in declared:
                found[f"{part}-{at}"] = _answer(declared[part], numbers)
        group = group_of(kind)
        if group is not None and "missing" in declared:
            common = found.setdefault(f"missing-{group}", declared["missing"])
            found[f"missing-{at}"] = "" if common == declared["missing"] else declared["missing"]
    if stated.unit is not None and stated.unit.column in names:
        found["unit"] = str(names.index(stated.unit.column))
        found["unit_type"] = stated.unit.type or ""
        found["max_rows"] = str(stated.unit.max_rows)
    return found


def _answer(value: Any, numbers: NumberFormat) -> str:
    """Return the answer for a bound or for levels."""
    if isinstance(value, list | tuple):
        return "\n".join(map(_level, value))
    return value if isinstance(value, str) else numbers.shown(value)


def _level(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def editing_form(schema: dpcov.Schema, numbers: NumberFormat) -> ColumnForm | None:
    """Return the form that leads to a schema; None if the form has no field for a part of it.

    The names come from the schema, and dpcov does not open the table.
    """
    kinds: dict[str, Kind] = {name: column.kind for name, column in schema.columns.items()}
    columns = {name: column.model_dump(mode="json") for name, column in schema.columns.items()}
    answers = answers_of(Stated(columns, schema.unit, schema.missing), list(kinds), numbers)
    form = ColumnForm(Described(kinds, Stated()), schema.file, numbers, answers)
    try:
        made = dpcov.Schema.parse(tomllib.loads(form.text()))
    except SchemaError:
        return None
    same = made.model_dump(exclude={"defaults"}) == schema.model_dump(exclude={"defaults"})
    return form if same else None
