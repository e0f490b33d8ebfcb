"""Commands that install missing optional packages."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.metadata import requires
from importlib.util import find_spec
from typing import Any

from dpcov.errors import DpcovError

# A requirement in package metadata: name, extras and version range, followed by a condition.
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?P<extras>\[[\w, .-]+\])?\s*(?P<range>[^;]*)")


def library(package: str, needed: str, failure: type[DpcovError], module: str = "") -> Any:
    """Import an optional package.

    Parameters
    ----------
    package : str
        Package on the package index.
    needed : str
        Start of the error message.
    failure : type of DpcovError
        Type of the error.
    module : str, optional
        Module, if its name differs.

    Returns
    -------
    module
        Imported module.

    Raises
    ------
    DpcovError
        The package is missing. The error has the given type and states the install command.

    """
    try:
        return import_module(module or package)
    except ImportError:
        raise failure(f"{needed}: {installing(package)}") from None


def installing(*packages: str) -> str:
    """Return the command that installs packages in the version ranges that dpcov supports.

    The command names the packages and not an extra of dpcov. An extra would need dpcov on a package
    index, or the source code. If pip is missing, the command uses uv.

    Parameters
    ----------
    *packages : str
        Names of the packages.

    Returns
    -------
    str
        Command for a terminal.

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
