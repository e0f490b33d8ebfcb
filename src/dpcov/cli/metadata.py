"""Readers of metadata and code books in four formats.

dpcov treats a metadata file as public, like a schema: nothing in the file may come from the rows.
dpcov reads only bounds, levels, missing texts and the person id. A SmartNoise file can contain the
number of rows; dpcov ignores this number, because it would be private.

- CSV on the Web (W3C, "Metadata Vocabulary for Tabular Data") is JSON. dpcov reads `datatype` with
  `minimum` and `maximum` (and similar bounds), the `format` of a boolean or a text, and `null`.
- Frictionless Table Schema is JSON, alone or in a data package. dpcov reads `type`, `constraints`
  and `missingValues`.
- DDI Codebook (2.x) is XML. dpcov reads `valrng`, `catgry` and `invalrng`, and no statistics.
- SmartNoise metadata are YAML or JSON. dpcov reads `type`, `lower`, `upper`, `private_id`,
  `max_ids` and `row_privacy`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pydantic import ValidationError

from dpcov.cli.drafts import COLUMN_MODELS, Declaration, Stated, undeclared
from dpcov.core.faults import reason
from dpcov.core.files import read_text
from dpcov.core.installing import installing
from dpcov.core.printable import shown
from dpcov.core.spelling import spelled
from dpcov.errors import SchemaError
from dpcov.rows.schema import PersonUnit

MAX_METADATA_BYTES = 2**24  # bytes
UNKNOWN_FORMAT_MESSAGE = (
    "The format is none of CSV on the Web, Frictionless Table Schema, DDI 2 and SmartNoise. "
    "Convert the metadata to one of them."
)
MAX_NESTING_DEPTH = 4  # largest number of nested mappings above the columns of a SmartNoise file

_INTEGER_TYPES = ("integer", "long", "int", "short", "byte", "unsignedLong", "unsignedInt")
_BOUNDED_INTEGER_TYPES = ("unsignedShort", "unsignedByte", "nonPositiveInteger", "negativeInteger")
_FRACTION_TYPES = ("number", "decimal", "double", "float")
_LOWER_BOUNDS = {"nonNegativeInteger": 0.0, "positiveInteger": 1.0}
_NUMERIC_TYPES = {*_INTEGER_TYPES, *_BOUNDED_INTEGER_TYPES, *_FRACTION_TYPES, *_LOWER_BOUNDS}
_BOUNDS = {
    "lower": ("min", "minimum", "minInclusive", "minExclusive"),
    "upper": ("max", "maximum", "maxInclusive", "maxExclusive"),
}
_ALTERNATIVES = re.compile(r"\^?\(?(?:\?:)?((?:[^\\()\[\]{}.*+?^$]|\\[^\w\s])+)\)?\$?")


def read(path: Path, table: str, names: Collection[str]) -> Stated:
    """Read a metadata file.

    Parameters
    ----------
    path : Path
        Metadata file.
    table : str
        Name of the table, which selects one of several tables in the file.
    names : collection of str
        Columns of the table. Other columns in the file are ignored.

    Returns
    -------
    Stated
        Declarations of the columns.

    Raises
    ------
    SchemaError
        If the file cannot be read, is contradictory, or describes another table.

    """
    document = _loaded(path)
    try:
        if not isinstance(document, dict):
            raise SchemaError(UNKNOWN_FORMAT_MESSAGE)
        form = next((form for key, form in _FORMATS.items() if key in document), _smartnoise)
        stated = form(document, table, names)
        for name, declaration in stated.columns.items():
            _check(name, declaration)
    except SchemaError as error:
        raise SchemaError(f"The metadata {shown(path)!r} cannot be used. {error}") from None
    return stated


def _loaded(path: Path) -> Any:
    text, name = read_text(path, "metadata", SchemaError, most=MAX_METADATA_BYTES), shown(path)
    ending = path.suffix.lower()
    kind = {".yaml": "YAML", ".yml": "YAML", ".xml": "XML"}.get(ending, "JSON")
    loads: dict[str, Callable[[str], Any]] = {"YAML": _yaml, "XML": _xml, "JSON": json.loads}
    try:
        return loads[kind](text)
    except RecursionError:
        raise SchemaError(f"The metadata {name!r} are nested too deeply.") from None
    except ValueError as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SchemaError(f"The metadata {name!r} are not valid {kind}{place}.") from None


def _yaml(text: str) -> Any:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise SchemaError(
            f"YAML metadata need PyYAML. Convert the metadata to JSON, or install PyYAML: "
            f"{installing('pyyaml')}"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError from None


def _xml(text: str) -> dict[str, Any]:
    """Return the variables of a DDI code book. Refuse entities, which can expand without limit."""
    if "<!DOCTYPE" in text:
        raise ValueError
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  no entities
    except ElementTree.ParseError:
        raise ValueError from None
    return {"var": root.findall(".//{*}dataDscr/{*}var")}


def _check(name: str, declaration: Declaration) -> None:
    """Refuse invalid bounds and repeated levels."""
    if {*undeclared(declaration)} > {"missing"}:
        return
    try:
        COLUMN_MODELS[declaration["kind"]].model_validate(declaration)
    except ValidationError as error:
        raise SchemaError(f"Column {name!r}: {reason(error.errors()[0])}.") from None


def _csvw(document: dict[str, Any], table: str, names: Collection[str]) -> Stated:
    """Read CSV on the Web. A column inherits properties of its schema, table or group."""
    found = document
    if "tables" in document:
        tables = [one for one in _list(document["tables"]) if isinstance(one, dict)]
        urls = [str(one.get("url", "")).rsplit("/", 1)[-1] for one in tables]
        found = tables[_chosen(urls, table)]
    schema = found.get("tableSchema")
    if not isinstance(schema, dict):
        raise SchemaError(
            "tableSchema must be an object in the file. dpcov does not load one from an address."
        )
    columns: dict[str, Declaration] = {}
    missing: list[str] = []
    for column in _list(schema.get("columns")):
        if not isinstance(column, dict):
            raise SchemaError("Each column must be an object.")
        called = [*_titles(column.get("titles")), str(column.get("name", ""))]
        name = next((one for one in called if one in names), None)
        inherited = {**document, **found, **schema, **column}
        if name is None or column.get("virtual"):
            continue
        missing += map(str, _list(inherited.get("null", "")))
        declared = _datatype(name, inherited.get("datatype", "string"))
        if declared is not None:
            columns[name] = declared
    _require_any(columns)
    return Stated(columns, missing=tuple(dict.fromkeys(missing)))


def _titles(titles: Any) -> Iterator[str]:
    """Yield all titles. A title is a text, a list of texts, or one of these for each language."""
    if isinstance(titles, str):
        yield titles
    for part in titles.values() if isinstance(titles, dict) else titles or ():
        if not isinstance(titles, str):
            yield from _titles(part)


def _datatype(name: str, datatype: Any) -> Declaration | None:
    """Return the declaration of a datatype, or None for a type without a declaration."""
    facts = {"base": datatype} if isinstance(datatype, str) else datatype
    if not isinstance(facts, dict):
        raise SchemaError(f"Column {name!r}: the datatype must be a name or an object.")
    base, form = facts.get("base", "string"), facts.get("format")
    if base in _NUMERIC_TYPES:
        bounds = {
            part: _number(name, facts[key])
            for part, keys in _BOUNDS.items()
            for key in keys
            if key in facts
        }
        if base in _LOWER_BOUNDS:
            bounds = {"lower": _LOWER_BOUNDS[base]} | bounds
        return {"kind": "number" if base in _FRACTION_TYPES else "integer"} | bounds
    if base == "boolean" and isinstance(form, str):
        return {"kind": "categorical", "levels": form.split("|")}
    if base == "boolean":
        return {"kind": "flag"}
    if base not in ("string", "normalizedString", "token", "anyAtomicType"):
        return None
    found = _ALTERNATIVES.fullmatch(form) if isinstance(form, str) else None
    if found is None or "|" not in found[1]:
        return {"kind": "categorical"}
    return {"kind": "categorical", "levels": re.sub(r"\\(.)", r"\1", found[1]).split("|")}


def _frictionless(document: dict[str, Any], table: str, names: Collection[str]) -> Stated:
    """Read a Frictionless Table Schema, alone or in a data package."""
    schema: Any = document
    if "resources" in document:
        found = [one for one in _list(document["resources"]) if isinstance(one, dict)]
        paths = [str(one.get("path") or one.get("name")).rsplit("/", 1)[-1] for one in found]
        schema = found[_chosen(paths, table)].get("schema")
    if not isinstance(schema, dict):
        raise SchemaError(
            "schema must be an object in the file. dpcov does not load one from an address."
        )
    columns: dict[str, Declaration] = {}
    for column in _list(schema.get("fields")):
        if not isinstance(column, dict) or not isinstance(column.get("constraints", {}), dict):
            raise SchemaError("Each field and its constraints must be objects.")
        name, facts = str(column.get("name")), column.get("constraints", {})
        levels = _values(facts.get("enum") or column.get("categories"))
        if column.get("trueValues") and column.get("falseValues"):
            levels = [*column["trueValues"], *column["falseValues"]]
        base = "string" if levels else column.get("type", "string")
        base = "integer" if base == "year" else base
        declared = _datatype(name, {"base": base, **facts})
        if name in names and declared is not None:
            columns[name] = declared | ({"levels": levels} if levels else {})
    _require_any(columns)
    return Stated(columns, missing=tuple(map(str, _values(schema.get("missingValues", [""])))))


def _values(listed: Any) -> list[Any]:
    """Return listed values without their labels."""
    return [one.get("value") if isinstance(one, dict) else one for one in _list(listed)]


def _ddi(document: dict[str, Any], _: str, names: Collection[str]) -> Stated:
    """Read a DDI Codebook.

    A missing code applies to one variable only, so a draft proposes the code in a comment.
    """
    columns: dict[str, Declaration] = {}
    codes: dict[str, list[tuple[float | str, float | str]]] = {}
    for variable in document["var"]:
        name = str(variable.get("name"))
        if name not in names:
            continue
        told = {
            (one.findtext("{*}catValu") or "").strip(): one.get("missing") == "Y"
            for one in variable.findall("{*}catgry")
        }
        levels = [value for value, is_missing in told.items() if value and not is_missing]
        absent = [value for value, is_missing in told.items() if value and is_missing]
        absent += [one.get("VALUE", "") for one in variable.findall("{*}invalrng/{*}item")]
        if absent:
            codes[name] = [(value, value) for value in dict.fromkeys(absent)]
        is_text = variable.find("{*}varFormat[@type='character']") is not None
        base = "string" if is_text else "integer" if variable.get("dcml") == "0" else "number"
        limits = variable.find("{*}valrng/{*}range")
        facts = {"base": base} | ({} if limits is None else limits.attrib)
        if levels and variable.get("intrvl") != "contin":
            columns[name] = {"kind": "categorical", "levels": levels}
        elif (declared := _datatype(name, facts)) is not None:
            columns[name] = declared
    _require_any(columns)
    return Stated(columns, codes=codes)


_FORMATS = {  # by a top-level key that only this format has
    **dict.fromkeys(("tableSchema", "tables"), _csvw),
    **dict.fromkeys(("fields", "resources"), _frictionless),
    "var": _ddi,
}


def _smartnoise(document: dict[str, Any], table: str, names: Collection[str]) -> Stated:
    """Read SmartNoise metadata. The options of a table are beside its columns."""
    tables = dict(_tables(document, "", MAX_NESTING_DEPTH))
    if not tables:
        raise SchemaError(UNKNOWN_FORMAT_MESSAGE)
    options = tables[list(tables)[_chosen(list(tables), table)]]
    columns: dict[str, Declaration] = {}
    hints: dict[str, str] = {}
    persons: list[str] = []
    for name, facts in options.items():
        if not _is_column(facts):
            continue
        if facts.get("private_id"):
            persons.append(name)
        if name not in names:
            continue
        if name in persons:
            columns[name] = {"kind": "ignored"}
        elif facts["type"] in ("int", "float"):
            bounds = {part: _number(name, facts[part]) for part in _BOUNDS if part in facts}
            columns[name] = {"kind": "integer" if facts["type"] == "int" else "number"} | bounds
        elif facts["type"] == "boolean":
            columns[name] = {"kind": "flag"}
        elif facts["type"] == "string":
            columns[name] = {"kind": "categorical"}
            if isinstance(facts.get("cardinality"), int):
                hints[name] = f"the metadata state {facts['cardinality']} levels"
        elif facts["type"] != "datetime":
            raise SchemaError(
                f"Column {name!r}: type is {facts['type']!r}. Use int, float, string, boolean or "
                "datetime."
            )
    _require_any(columns)
    return Stated(columns, _unit(persons, options, names), hints=hints)


def _unit(persons: list[str], options: dict[str, Any], names: Collection[str]) -> PersonUnit | None:
    """Return the declaration of persons, or None if the file protects rows."""
    if len(persons) > 1:
        raise SchemaError(
            f"Both {persons[0]!r} and {persons[1]!r} are a private_id. Keep one of them."
        )
    if not persons or options.get("row_privacy"):
        return None
    if persons[0] not in names:
        raise SchemaError(f"The private_id {persons[0]!r} is not a column of the table.")
    try:
        return PersonUnit(column=persons[0], max_rows=options.get("max_ids", 1))
    except SchemaError:
        raise SchemaError("max_ids must be a whole number from 1 to 1048576.") from None


def _tables(part: Any, name: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each mapping that contains a column, with its name."""
    if not isinstance(part, dict):
        return
    if not all(isinstance(key, str) for key in part):
        raise SchemaError("A name is not a text. Put the name in quotes.")
    if any(map(_is_column, part.values())):
        yield name, part
    elif depth:
        for key, inner in part.items():
            yield from _tables(inner, key, depth - 1)


def _is_column(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str)


def _chosen(found: list[str], table: str) -> int:
    """Return the position of the only table, or of the table with the name of the data."""
    if len(found) == 1:
        return 0
    stems = [name.partition(".")[0].lower() for name in found]
    wanted = table.partition(".")[0].lower()
    if stems.count(wanted) != 1:
        raise SchemaError(
            f"The file describes {len(found)} tables, but not exactly one named {wanted!r}: "
            f"{', '.join(map(repr, found[:5]))}."
        )
    return stems.index(wanted)


def _require_any(columns: dict[str, Declaration]) -> None:
    if not columns:
        raise SchemaError(
            "The metadata name no column of the table. Use the metadata of this table, or set "
            f"{spelled('the separator or the header of the table', '--separator or --no-header')}."
        )


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SchemaError(f"Column {name!r}: a bound is not a finite number.")
    return number


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
