"""What to install where a package is missing, however dpcov itself was installed."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import requires
from importlib.util import find_spec
from typing import Any

from dpcov.errors import DpcovError

# As metadata spell a requirement: name, its own extras, range; then when it is asked for.
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w, .-]+\])?\s*(?P<range>[^;]*)")


def library(package: str, needed: str, failure: type[DpcovError], module: str = "") -> Any:
    """Import a package; where it is missing, say what is `needed` and how to install it."""
    try:
        return import_module(module or package)
    except ImportError:
        raise failure(f"{needed}: {installing(package)}") from None


def installing(*packages: str) -> str:
    """Give the command that installs these packages in the ranges that dpcov is tested with.

    It names them and not an extra of dpcov: that would need dpcov on an index, or its source. An
    environment without pip is one of uv's.
    """
    command = "uv pip install" if find_spec("pip") is None else "python -m pip install"
    return " ".join([command, *(f'"{_required(package)}"' for package in packages)])


def _required(package: str) -> str:
    for requirement in requires("dpcov") or []:
        found = _REQUIREMENT.match(requirement)
        if found and _plain(found["name"]) == _plain(package):
            return f"{found['name']}{found['extras'] or ''}{found['range'].strip()}"
    return package


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
