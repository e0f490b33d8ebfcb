"""Commands that install missing optional packages."""

from __future__ import annotations

import re
import shutil
import sys
from importlib import import_module
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dpcov.errors import DpcovError

# Files that pipx and `uv tool` write into the environment of a program.
PIPX_FILE, UV_TOOL_FILE = "pipx_metadata.json", "uv-receipt.toml"
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
    index, the wheel or the source code. The command changes the environment of this process, with
    the program that made the environment: pipx, uv or pip.

    Parameters
    ----------
    *packages : str
        Names of the packages.

    Returns
    -------
    str
        Command for a terminal.

    """
    return " ".join([_installer(), *(f'"{_required(package)}"' for package in packages)])


def _installer() -> str:
    """Return the start of a command that installs into the environment of this process."""
    place = Path(sys.prefix)
    if (place / PIPX_FILE).exists():
        return f"pipx inject {place.name}"
    own = _is_own(shutil.which("python"))
    python = f'"{sys.executable}"' if " " in sys.executable else sys.executable
    if (place / UV_TOOL_FILE).exists() or find_spec("pip") is None:
        return "uv pip install" if own else f"uv pip install --python {python}"
    return f"{'python' if own else python} -m pip install"


def _is_own(program: str | None) -> bool:
    """Return True if a Python program belongs to the environment of this process."""
    return program is not None and Path(program).parent == Path(sys.executable).parent


def _required(package: str) -> str:
    for requirement in requires("dpcov") or []:
        found = _REQUIREMENT.match(requirement)
        if found and _plain(found["name"]) == _plain(package):
            return f"{found['name']}{found['extras'] or ''}{found['range'].strip()}"
    return package


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
