"""Check the docstrings of all public names: `make docstrings`.

The rules are the rules of numpydoc, except the few in `NOT_CHECKED`. In addition, an example must
define every name that it uses. The public names are those that the pages in `docs/reference`
document, their public methods and properties, and the errors. The check first validates a faulty
docstring and fails if it does not find each fault there.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property, reduce
from importlib import import_module
from pathlib import Path
from typing import Any

from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs" / "_ext")]
from tables import GENERATORS, MARK, RESULTS  # noqa: E402  the line above makes it importable

NOT_CHECKED = {
    "ES01": "many names need no second sentence",
    "GL01": "ruff checks the layout of docstrings",
    "GL02": "ruff checks the layout of docstrings",
    "GL03": "ruff checks the layout of docstrings",
    "SA01": "many names have no related name",
}
# Mechanisms state their guarantee, sensitivity, limits and cost in sections of their own. A
# conformance test checks these sections and their order.
OWN_SECTIONS = {"GL06", "GL07"}
DOCUMENTED = re.compile(
    r"^\.\. auto(class|function):: (\S+)\n(?:(   :members:) ?(.*))?", re.MULTILINE
)
UNDEFINED, SKIPPED = "undefined name", "skipped example"


def faulty(first: int, second: int) -> int:
    """Returns the sum.

    Parameters
    ----------
    first

    third : int
        A number that the function does not accept.

    Returns
    -------
    int

    """  # noqa: D401  faulty on purpose
    return first + second


def without_import() -> None:
    """Do nothing.

    Examples
    --------
    >>> dpcov.release  # doctest: +SKIP

    """


FAULTS = {
    "faulty": {"EX01", "PR01", "PR02", "PR04", "PR07", "RT03", "SS05"},
    "without_import": {UNDEFINED, SKIPPED},
}


def public_names() -> Iterator[str]:
    """Yield the path of each public name."""
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for mark in MARK.findall(page.read_text(encoding="utf-8")):
            if mark == "commands":  # help texts document the commands
                continue
            for kind, path, members, named in DOCUMENTED.findall(GENERATORS[mark]()):
                yield path
                if kind == "class" and members:
                    yield from _members(path, re.findall(r"\w+", named))
    for name, _ in inspect.getmembers(import_module("dpcov.errors"), inspect.isclass):
        yield f"dpcov.errors.{name}"


def _members(path: str, named: list[str]) -> Iterator[str]:
    """Yield the path of each public method and property of a class that dpcov defines.

    If the page names members, only they are public.
    """
    for base in _value(path).__mro__:
        if base.__module__.startswith("dpcov."):
            for name, value in vars(base).items():
                public = name in named if named else not name.startswith("_")
                if public and _is_documented(value):
                    yield f"{path}.{name}"


def _is_documented(value: Any) -> bool:
    """Return True for a method or a property, unless it is only a former name of another one."""
    kinds = (classmethod, staticmethod, property, cached_property)
    former = (inspect.getdoc(value) or "").startswith("Former name of")
    return (isinstance(value, kinds) or inspect.isfunction(value)) and not former


def _value(path: str) -> Any:
    """Return the object at a path such as ``dpcov.Release.mean``."""
    parts = path.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:end]))
        except ImportError:
            continue
        return reduce(getattr, parts[end:], found)
    raise ImportError(path)


def faults(path: str) -> list[tuple[str, str]]:
    """Return the code and the description of each fault in the docstring of a name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown section")
        found = validate(path)["errors"]
    left_out = set(NOT_CHECKED)
    if path in RESULTS and _states_fields(_value(path)):
        left_out.add("PR01")
    if "GL06" in dict(found):
        left_out |= OWN_SECTIONS
    kept = [(code, text) for code, text in found if code not in left_out]
    return [*kept, *faults_of_examples(inspect.getdoc(_value(path)) or "")]


def _states_fields(value: Any) -> bool:
    """Return True if the section `Attributes` of a class states all of its fields.

    Users do not construct results, so the fields are no parameters.
    """
    stated = NumpyDocString(inspect.getdoc(value) or "")["Attributes"]
    names = {name for one in stated for name in re.findall(r"\w+", one.name)}
    return not is_dataclass(value) or names >= {field.name for field in fields(value)}


def faults_of_examples(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the faults of examples: an example that does not run, and undefined names."""
    examples = doctest.DocTestParser().get_examples(docstring)
    if any(doctest.SKIP in example.options for example in examples):
        yield SKIPPED, "An example does not run as a test"
    for name in sorted(_undefined_names(examples)):
        yield UNDEFINED, f"The example does not define {name}"


def _undefined_names(examples: list[doctest.Example]) -> set[str]:
    """Return the names that examples use but do not define."""
    nodes = list(ast.walk(ast.parse("".join(example.source for example in examples))))
    names = [node for node in nodes if isinstance(node, ast.Name)]
    defined = {name.id for name in names if isinstance(name.ctx, ast.Store)}
    for node in nodes:
        if isinstance(node, ast.alias):
            defined.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.FunctionDef):
            defined.add(node.name or "")
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
    return {name.id for name in names} - defined - vars(builtins).keys()


def main() -> int:
    """Print each fault; return 1 if there is a fault, or if a control has too few faults."""
    failed = False
    for control, wanted in FAULTS.items():
        if missed := wanted - dict(faults(f"{__name__}.{control}")).keys():
            print(f"control: {', '.join(sorted(missed))} not found in {control}")
            failed = True
    names = list(dict.fromkeys(public_names()))
    found = [(name, *fault) for name in names for fault in faults(name)]
    print(*(": ".join(fault) for fault in found), sep="\n", end="\n" if found else "")
    print(f"{len(found)} faults in the docstrings of {len(names)} public names")
    return int(failed or bool(found))


if __name__ == "__main__":
    sys.exit(main())
