"""Shell completions: names of mechanisms, columns and data sets.

The names come from the mechanisms of dpcov, a release, a schema or a ledger, never from the data.
Names with characters that have a meaning for a shell are left out.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dpcov.errors import DpcovError

if TYPE_CHECKING:
    from dpcov.rows.schema import Schema

_HARMLESS_CHARACTERS = "_-.,=+@%/"


def mechanisms(incomplete: str) -> list[str]:
    """Return the names of the mechanisms."""
    from dpcov.mechanisms import MECHANISMS

    return _beginning(incomplete, MECHANISMS)


def mechanisms_or_auto(incomplete: str) -> list[str]:
    """Return the names of the mechanisms and `auto`."""
    return [*_beginning(incomplete, ["auto"]), *mechanisms(incomplete)]


def options(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the options of the mechanism on the command line, each as ``NAME=``."""
    from dpcov.mechanisms import options_of

    try:
        named = options_of(str(ctx.params.get("mechanism")))
    except (DpcovError, KeyError):
        return []
    return _beginning(incomplete, [f"{name}=" for name in named])


def columns(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the columns of the release or schema on the command line."""
    return _beginning(incomplete, _columns(ctx))


def columns_list(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last name in a list of columns with commas."""
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    return [before + comma + name for name in _beginning(last, _columns(ctx)) if name not in taken]


def formula(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the last name in a formula without blanks."""
    before, last = re.fullmatch(r"(.*[~+\-:*(])?(.*)", incomplete, re.DOTALL).groups("")  # type: ignore[union-attr]
    return [before + name for name in _beginning(last, _columns(ctx))]


def categories(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the categorical columns of the release or schema on the command line."""
    from dpcov.rows.schema import Categorical

    schema = _schema(ctx)
    found = {} if schema is None else schema.columns
    return _beginning(incomplete, [n for n, c in found.items() if isinstance(c, Categorical)])


def groupings(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the categorical columns and the flags of the release on the command line."""
    from dpcov.rows.schema import Categorical

    schema = _schema(ctx)
    found = {} if schema is None else schema.encoded_columns
    names = [n for n, c in found.items() if isinstance(c, Categorical) or c.reading == "flag"]
    return _beginning(incomplete, names)


def datasets(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the data sets of the ledger on the command line."""
    from dpcov.api.ledger import Ledger

    path = _path(ctx, "ledger") or _path(ctx, "file")
    try:
        return [] if path is None else _beginning(incomplete, Ledger.open(path).datasets())
    except DpcovError:
        return []


def _columns(ctx: typer.Context) -> tuple[str, ...]:
    schema = _schema(ctx)
    return () if schema is None else tuple(feature.name for feature in schema.variables)


def _schema(ctx: typer.Context) -> Schema | None:
    """Return the schema of the release or the schema file that the command line names."""
    from dpcov.releases import Release
    from dpcov.rows.schema import Schema

    try:
        if (file := _path(ctx, "file")) is not None:
            return Release.load(file).schema
        if (file := _path(ctx, "schema")) is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the shell shows only completions
            return Schema.load(file)
    except DpcovError:
        return None


def _path(ctx: typer.Context, name: str) -> Path | None:
    """Return a file that the command line names, by an option or as the first argument.

    If an option still lacks its value, click has not assigned the arguments. They are then in
    ``ctx.args``.
    """
    found: Any = ctx.params.get(name)
    arguments = [part.name for part in ctx.command.params if part.param_type_name == "argument"]
    if not found and arguments[:1] == [name] and ctx.args:
        found = ctx.args[0]
    if isinstance(found, list | tuple):  # the releases of all groups have the same columns
        found = found[0] if found else None
    return None if not found else Path(found)


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [
        name
        for name in names
        if name.startswith(incomplete)
        and all(c.isalnum() or c in _HARMLESS_CHARACTERS for c in name)
        and not name.startswith("-")
    ]
