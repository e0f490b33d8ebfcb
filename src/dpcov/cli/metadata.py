"""What others have written about a table: code books and metadata in four forms.

Such a file is taken for public knowledge, as a schema is: who passes it on says that nothing in it
was read off the rows. Only bounds, levels, missing texts and the person id are taken. The number of
rows, which SmartNoise files may hold, is not: it would be private.

CSV on the Web (W3C, "Metadata Vocabulary for Tabular Data") is JSON: `datatype` with `minimum`,
`maximum` and their kin, a boolean's or a text's `format`, and `null`. Frictionless Table Schema is
JSON, alone or in a data package: `type`, `constraints`, `missingValues`. DDI Codebook (2.x) is XML:
`valrng`, `catgry`, `invalrng`; no frequency and no statistic in it is looked at. SmartNoise's is
YAML (or the same as JSON): `type`, `lower`, `upper`, `private_id`, `max_ids`, `row_privacy`.
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

from dpcov.cli.drafts import MODELS, Declaration, Stated, gaps
from dpcov.core.faults import reason
from dpcov.core.files import read_text
from dpcov.core.installing import installing
from dpcov.core.printable import shown
from dpcov.core.spelling import spelled
from dpcov.errors import SchemaError
from dpcov.rows.schema import PersonUnit

LARGEST = 2**24  # bytes
NEITHER = "It is no metadata of CSV on the Web, Frictionless Table Schema, DDI 2 or SmartNoise."
DEEPEST = 4  # levels above the columns of a SmartNoise file: collection, schema, table, one more

_INTEGERS = ("integer", "long", "int", "short", "byte", "unsignedLong", "unsignedInt")
_WHOLE = ("unsignedShort", "unsignedByte", "nonPositiveInteger", "negativeInteger")
_FRACTIONS = ("number", "decimal", "double", "float")
_LOWEST = {"nonNegativeInteger": 0.0, "positiveInteger": 1.0}
_NUMBERS = {*_INTEGERS, *_WHOLE, *_FRACTIONS, *_LOWEST}
_BOUNDS = {
    "lower": ("min", "minimum", "minInclusive", "minExclusive"),
    "upper": ("max", "maximum", "maxInclusive", "maxExclusive"),
}
_ALTERNATIVES = re.compile(r"\^?\(?(?:\?:)?((?:[^\\()\[\]{}.*+?^$]|\\[^\w\s])+)\)?\$?")


def read(path: Path, table: str, names: Collection[str]) -> Stated:
    """What a metadata file states about the columns `names` of the table called `table`.

    Raises
    ------
    SchemaError : the file can't be read, contradicts itself, or is about another table.

    """
    document = _loaded(path)
    try:
        if not isinstance(document, dict):
            raise SchemaError(NEITHER)
        form = next((form for key, form in _FORMS.items() if key in document), _smartnoise)
        stated = form(document, table, names)
        for name, declaration in stated.columns.items():
            _check(name, declaration)
    except SchemaError as error:
        raise SchemaError(f"The metadata {shown(path)!r} can't be used. {error}") from None
    return stated


def _loaded(path: Path) -> Any:
    text, name = read_text(path, "metadata", SchemaError, most=LARGEST), shown(path)
    ending = path.suffix.lower()
    kind = {".yaml": "YAML", ".yml": "YAML", ".xml": "XML"}.get(ending, "JSON")
    loads: dict[str, Callable[[str], Any]] = {"YAML": _yaml, "XML": _xml, "JSON": json.loads}
    try:
        return loads[kind](text)
    except RecursionError:
        raise SchemaError(f"The metadata {name!r} is nested too deeply.") from None
    except ValueError as error:
        place = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise SchemaError(f"The metadata {name!r} is not valid {kind}{place}.") from None


def _yaml(text: str) -> Any:
    try:
        yaml: Any = import_module("yaml")
    except ImportError:
        raise SchemaError(
            f"Give the metadata as JSON; in YAML they need PyYAML: {installing('pyyaml')}"
        ) from None
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError from None


def _xml(text: str) -> dict[str, Any]:
    """The variables of a DDI code book; entities, which may grow without end, are refused."""
    if "<!DOCTYPE" in text:
        raise ValueError
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  no entities
    except ElementTree.ParseError:
        raise ValueError from None
    return {"var": root.findall(".//{*}dataDscr/{*}var")}


def _check(name: str, declaration: Declaration) -> None:
    """Refuse bounds that are no bounds, and levels that are declared twice."""
    if {*gaps(declaration)} > {"missing"}:
        return
    try:
        MODELS[declaration["kind"]].model_validate(declaration)
    except ValidationError as error:
        raise SchemaError(f"Column {name!r}: {reason(error.errors()[0])}.") from None


def _csvw(document: dict[str, Any], table: str, names: Collection[str]) -> Stated:
    """CSV on the Web; a property that a column lacks is that of its schema, table or group."""
    found = document
    if "tables" in document:
        tables = [one for one in _list(document["tables"]) if isinstance(one, dict)]
        urls = [str(one.get("url", "")).rsplit("/", 1)[-1] for one in tables]
        found = tables[_chosen(urls, table)]
    schema = found.get("tableSchema")
    if not isinstance(schema, dict):
        raise SchemaError("Its tableSchema is no object; one that is elsewhere is not fetched.")
    columns: dict[str, Declaration] = {}
    missing: list[str] = []
    for column in _list(schema.get("columns")):
        if not isinstance(column, dict):
            raise SchemaError("A column in it is no object.")
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
    """All titles: a text, a list of them, or either for each language."""
    if isinstance(titles, str):
        yield titles
    for part in titles.values() if isinstance(titles, dict) else titles or ():
        if not isinstance(titles, str):
            yield from _titles(part)


def _datatype(name: str, datatype: Any) -> Declaration | None:
    """The declaration that a datatype stands for; None for dates and the like."""
    facts = {"base": datatype} if isinstance(datatype, str) else datatype
    if not isinstance(facts, dict):
        raise SchemaError(f"Column {name!r}: its datatype is neither a name nor an object.")
    base, form = facts.get("base", "string"), facts.get("format")
    if base in _NUMBERS:
        bounds = {
            part: _number(name, facts[key])
            for part, keys in _BOUNDS.items()
            for key in keys
            if key in facts
        }
        if base in _LOWEST:
            bounds = {"lower": _LOWEST[base]} | bounds
        return {"kind": "number" if base in _FRACTIONS else "integer"} | bounds
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
    """Frictionless Table Schema: that of a resource, or alone."""
    schema: Any = document
    if "resources" in document:
        found = [one for one in _list(document["resources"]) if isinstance(one, dict)]
        paths = [str(one.get("path") or one.get("name")).rsplit("/", 1)[-1] for one in found]
        schema = found[_chosen(paths, table)].get("schema")
    if not isinstance(schema, dict):
        raise SchemaError("Its schema is no object; one that is elsewhere is not fetched.")
    columns: dict[str, Declaration] = {}
    for column in _list(schema.get("fields")):
        if not isinstance(column, dict) or not isinstance(column.get("constraints", {}), dict):
            raise SchemaError("A field in it, or its constraints, is no object.")
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
    """Values, some with labels."""
    return [one.get("value") if isinstance(one, dict) else one for one in _list(listed)]


def _ddi(document: dict[str, Any], _: str, names: Collection[str]) -> Stated:
    """DDI Codebook. Its missing codes are those of a variable alone, hence proposed, not stated."""
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


_FORMS = {  # by a key that no other form has at the top
    **dict.fromkeys(("tableSchema", "tables"), _csvw),
    **dict.fromkeys(("fields", "resources"), _frictionless),
    "var": _ddi,
}


def _smartnoise(document: dict[str, Any], table: str, names: Collection[str]) -> Stated:
    """SmartNoise: collection, schema and table, then columns beside the table's own options."""
    tables = dict(_tables(document, "", DEEPEST))
    if not tables:
        raise SchemaError(NEITHER)
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
                hints[name] = f"{facts['cardinality']} levels, says the metadata"
        elif facts["type"] != "datetime":
            raise SchemaError(
                f"Column {name!r}: type must be int, float, string, boolean or datetime, not "
                f"{facts['type']!r}."
            )
    _require_any(columns)
    return Stated(columns, _unit(persons, options, names), hints=hints)


def _unit(persons: list[str], options: dict[str, Any], names: Collection[str]) -> PersonUnit | None:
    """Who is protected: the owners of the private id, unless the file says rows."""
    if len(persons) > 1:
        raise SchemaError(f"Both {persons[0]!r} and {persons[1]!r} are its private_id.")
    if not persons or options.get("row_privacy"):
        return None
    if persons[0] not in names:
        raise SchemaError(f"Its private_id {persons[0]!r} is no column of the table.")
    try:
        return PersonUnit(column=persons[0], max_rows=options.get("max_ids", 1))
    except SchemaError:
        raise SchemaError("max_ids must be a whole number from 1 to 1048576.") from None


def _tables(part: Any, name: str, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mapping that has a column, with its name."""
    if not isinstance(part, dict):
        return
    if not all(isinstance(key, str) for key in part):
        raise SchemaError("A name in it is no text; put it in quotes.")
    if any(map(_is_column, part.values())):
        yield name, part
    elif depth:
        for key, inner in part.items():
            yield from _tables(inner, key, depth - 1)


def _is_column(part: Any) -> bool:
    return isinstance(part, dict) and isinstance(part.get("type"), str)


def _chosen(found: list[str], table: str) -> int:
    """Place of the only table, or of the one that is called like the data."""
    if len(found) == 1:
        return 0
    stems = [name.partition(".")[0].lower() for name in found]
    wanted = table.partition(".")[0].lower()
    if stems.count(wanted) != 1:
        raise SchemaError(
            f"It describes {len(found)} tables, and not one of them is called {wanted!r}: "
            f"{', '.join(map(repr, found[:5]))}."
        )
    return stems.index(wanted)


def _require_any(columns: dict[str, Declaration]) -> None:
    if not columns:
        raise SchemaError(
            "It names no column of the table: it is about another one, or the table needs "
            f"{spelled('another separator, or has no header', '--separator or --no-header')}."
        )


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SchemaError(f"Column {name!r}: a bound in it is no finite number.")
    return number


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
