"""Names of dpcov in benchmarks, experiments, attacks and examples exist.

`make types` checks imports and attributes as well. This test also checks names in texts, as in
`patch.object(standardized, "best_radius", fault)`, before a long run of `make trust` needs them.
"""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("benchmarks", "experiments", "trust", "examples", "tools", "docs/_ext")
SCRIPTS = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
NOTHING = object()


def imported(tree):
    """Return the objects of dpcov that a script imports, by their names in the script."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                if one.name.split(".")[0] == "dpcov":
                    module = importlib.import_module(one.name if one.asname else "dpcov")
                    found[one.asname or "dpcov"] = module
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "dpcov":
            for one in node.names:
                found[one.asname or one.name] = member(
                    importlib.import_module(node.module), one.name
                )
    return found


def member(owner, name):
    """Return an attribute or a submodule, or NOTHING."""
    if inspect.ismodule(owner) and not hasattr(owner, name):
        try:
            return importlib.import_module(f"{owner.__name__}.{name}")
        except ModuleNotFoundError:
            return NOTHING
    return getattr(owner, name, NOTHING)


def value_of(node, names):
    """Return the object of dpcov behind an expression such as `standardized.Spread`, or None."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = value_of(node.value, names)
        if inspect.ismodule(owner) or inspect.isclass(owner):
            return member(owner, node.attr)
    return None


def missing(source):
    """Return the names that dpcov does not have, each with its line."""
    tree = ast.parse(source)
    own = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}  # they hide imports
    names = {name: value for name, value in imported(tree).items() if name not in own}
    found = {(0, name) for name, value in names.items() if value is NOTHING}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and value_of(node, names) is NOTHING:
            found.add((node.lineno, node.attr))
        elif isinstance(node, ast.Call) and not any(one.arg == "create" for one in node.keywords):
            for owner, text in zip(node.args, node.args[1:], strict=False):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    made = value_of(owner, names)
                    named = inspect.ismodule(made) or inspect.isclass(made)
                    if named and text.value.isidentifier() and member(made, text.value) is NOTHING:
                        found.add((node.lineno, text.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            path = re.fullmatch(r"(dpcov(?:\.\w+)*)\.(\w+)", node.value)
            if path and member(resolved(path[1]), path[2]) is NOTHING:
                found.add((node.lineno, node.value))
    return sorted(found)


def resolved(path):
    """Return the object with this dotted name, or NOTHING."""
    made = importlib.import_module("dpcov")
    for name in path.split(".")[1:]:
        made = member(made, name)
    return made


@pytest.mark.parametrize(
    "script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).with_suffix("").as_posix()
)
def test_every_name_of_dpcov_in_a_script_exists(script):
    assert missing(script.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("from dpcov.rows import nowhere", "nowhere"),
        ("import dpcov\ndpcov.released()", "released"),
        ("import dpcov.rows.schema as s\ns.Schema.parsed({})", "parsed"),
        ("from dpcov.core import privacy\npatch.object(privacy, 'PureDQ', None)", "PureDQ"),
        ("patch('dpcov.rows.cells.BATCH')", "dpcov.rows.cells.BATCH"),
    ],
)
def test_control_a_name_that_does_not_exist_is_noticed(source, name):
    assert [found for _, found in missing(source)] == [name]


def test_names_that_exist_and_names_that_a_patch_creates_are_no_findings():
    assert missing("import dpcov\ndpcov.release(dpcov.errors.SchemaError)") == []
    assert missing("from dpcov.core import privacy as p\npatch.object(p, 'int', create=True)") == []
