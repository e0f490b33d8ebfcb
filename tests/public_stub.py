"""The stub that type checkers read in place of `dpcov/__init__.py`: written from its list of names.

``python tests/public_stub.py`` writes it.
"""

import ast
import builtins
import importlib
import inspect
from pathlib import Path
from typing import Any

import dpcov
from dpcov.core.renamed import REMOVAL_VERSION

STUB = Path(dpcov.__file__).with_suffix(".pyi")


def text() -> str:
    """Return the text that the stub must have."""
    lines = ["# Written from the list in __init__.py, by tests/public_stub.py.", ""]
    lines += ["from typing_extensions import deprecated", ""]
    for module, names in dpcov._PUBLIC.items():
        lines += [f"from {module} import {name} as {name}" for name in names]
    lines += [f"from dpcov import {name} as {name}" for name in dpcov._MODULES]
    imports, aliases = set[str](), list[str]()
    for old, new in dpcov._FORMER.items():
        what = getattr(dpcov, new)
        message = f"{old} is now {new}. Version {REMOVAL_VERSION} removes the name {old}."
        aliases += ["", f'@deprecated("{message}")']
        if isinstance(what, type):
            aliases.append(f"class {old}({new}): ...")
        else:
            imports |= imports_of(what)
            aliases.append(f"def {old}{inspect.signature(what)}: ...")
    return "\n".join([*lines, *sorted(imports), *aliases]) + "\n"


def imports_of(function: Any) -> set[str]:
    """Return the imports that the annotations of a function need in the stub."""
    names = {
        node.id
        for annotation in inspect.get_annotations(function).values()
        for node in ast.walk(ast.parse(annotation))
        if isinstance(node, ast.Name)
    }
    wanted = names - set(dpcov.__all__) - set(dir(builtins))
    source = inspect.getsource(importlib.import_module(function.__module__))
    return {
        f"{start}{alias.name}{f' as {alias.asname}' if alias.asname else ''}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for start in [
            f"from {node.module} import " if isinstance(node, ast.ImportFrom) else "import "
        ]
        for alias in node.names
        if (alias.asname or alias.name) in wanted
    }


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")
