"""Check the docstrings of all public names: `make docstrings`.

The rules are those of numpydoc, except the few in `NOT_CHECKED`. The names are those that the pages
in `docs/reference` document, their public methods and properties, and the errors. The check first
validates a faulty docstring, and fails if numpydoc does not find each fault.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from numpydoc.validate import validate

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "docs" / "_ext")]
from tables import GENERATORS, MARK  # noqa: E402  needs the path above

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
DOCUMENTED = re.compile(r"^\.\. auto(class|function):: (\S+)\n(   :members:)?", re.MULTILINE)


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

    """
    return first + second


FAULTS = {"EX01", "PR01", "PR02", "PR04", "PR07", "RT03", "SS05"}


def public_names() -> Iterator[str]:
    """Yield the path of each public name, class by class."""
    for page in sorted((ROOT / "docs" / "reference").glob("*.md")):
        for mark in MARK.findall(page.read_text(encoding="utf-8")):
            if mark == "commands":  # documented by the help texts
                continue
            for kind, name, members in DOCUMENTED.findall(GENERATORS[mark]()):
                yield name
                if kind == "class" and members:
                    yield from _members(name)
    for name, value in inspect.getmembers(import_module("dpcov.errors"), inspect.isclass):
        yield f"dpcov.errors.{name}"
        yield from _members(f"dpcov.errors.{name}", value)


def _members(path: str, kind: type | None = None) -> Iterator[str]:
    """Yield the path of each public method and property of a class that dpcov defines."""
    if kind is None:
        module, _, name = path.rpartition(".")
        kind = getattr(import_module(module), name)
    for base in kind.__mro__:
        if not base.__module__.startswith("dpcov."):
            continue
        for name, value in vars(base).items():
            if not name.startswith("_") and _is_documented(value):
                yield f"{path}.{name}"


def _is_documented(value: Any) -> bool:
    """Return True for a method or a property."""
    kinds = (classmethod, staticmethod, property, cached_property)
    return isinstance(value, kinds) or inspect.isfunction(value)


def faults(path: str) -> dict[str, str]:
    """Return the faults of the docstring of a name: the codes of numpydoc, and what they mean."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Unknown section")
        found = dict(validate(path)["errors"])
    left_out = NOT_CHECKED.keys() | (OWN_SECTIONS if "GL06" in found else set())
    return {code: text for code, text in found.items() if code not in left_out}


def main() -> int:
    """Print each fault; return 1 if there is a fault, or if the control has too few."""
    unnoticed = FAULTS - faults(f"{__name__}.faulty").keys()
    if unnoticed:
        print(f"control: numpydoc does not find {', '.join(sorted(unnoticed))}")
    names = list(dict.fromkeys(public_names()))
    found = [(name, code, text) for name in names for code, text in faults(name).items()]
    for name, code, text in found:
        print(f"{name}: {code}: {text}")
    print(f"{len(found)} faults in the docstrings of {len(names)} public names")
    return int(bool(found or unnoticed))


if __name__ == "__main__":
    sys.exit(main())
