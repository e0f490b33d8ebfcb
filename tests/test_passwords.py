"""A link to a database instead of a file: no message reveals its password."""

from __future__ import annotations

import inspect
import shlex
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest

from dpcov import cli, load, report
from dpcov.api import release
from dpcov.api.ledger import Ledger
from dpcov.api.ledger.file import named
from dpcov.cli.metadata import read as read_metadata
from dpcov.core import files
from dpcov.core.printable import shown
from dpcov.core.privacy import PureDP
from dpcov.errors import DpcovError
from dpcov.releases import Release
from dpcov.report import exports
from dpcov.rows.schema import Schema
from dpcov.rows.sources import open_rows
from dpcov.rows.sources.partial import PartialMoment
from examples_of_commands import COMMANDS, EXAMPLES, write_all

SECRET = "pa55w0rd"  # noqa: S105
LINKS = [
    f"postgresql://ana:{SECRET}@host/db",
    f"postgres://ana:with a space {SECRET}@host/db",
    f"PostgreSQL+psycopg://ana:{SECRET}@host/db?sslmode=require",
    f"folder/postgresql://ana:{SECRET}@host/db",
    f"host=host user=ana password='with a space {SECRET}'",
    f"mysql://ana:{SECRET}\N{RIGHT-TO-LEFT OVERRIDE}@host/db.csv",
]


def files_of(command: Any) -> list[Any]:
    """Return the parameters of a command that are paths or data."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    found = [part for part in command.params if "Path" in str(hints.get(part.name))]
    return found + [part for part in command.params if part.name in ("data", "table")]


def calls() -> Iterator[tuple[str, list[str]]]:
    """Yield each command with a link in place of each file; PLACE stands for the link."""
    for name, command in COMMANDS.items():
        own, line = name.split(), EXAMPLES[name].removeprefix(name).split()
        for part in files_of(command):
            argument = part.param_type_name == "argument"
            rest = ["PLACE", *line[1:]] if argument else [*line, part.opts[0], "PLACE"]
            yield f"{name} {part.name}", [*own, *rest]


CALLS = dict(calls())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_all(tmp_path, seed=1)
    return tmp_path


def test_every_command_that_takes_a_file_is_tried() -> None:
    wanted = {"show file", "report out", "release ledger", "schema metadata", "merge files"}
    assert wanted <= CALLS.keys()
    assert len(CALLS) > 35


@pytest.mark.parametrize("call", CALLS)
def test_no_command_prints_the_password_of_a_link(
    call: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for link in LINKS:
        with pytest.raises(SystemExit):
            cli.main([link if word == "PLACE" else word for word in CALLS[call]])
        out, err = capsys.readouterr()
        assert SECRET not in out + err, shlex.join(CALLS[call])


def made() -> Release:
    table = np.linspace(-1, 1, 30).reshape(10, 3)
    return release(table, lower=-1, upper=1, epsilon=1.0, mechanism="matrix-laplace")


PYTHON: dict[str, Callable[[str], object]] = {
    "load": load,
    "Release.load": Release.load,
    "Schema.load": Schema.load,
    "Release.save": lambda link: made().save(link),
    "Ledger.open": Ledger.open,
    "Ledger.create": lambda link: Ledger.create(link, PureDP(1.0)),
    "Ledger": lambda link: Ledger(Path(link).absolute()).account(),
    "PartialMoment.load": lambda link: PartialMoment.load(Path(link)),
    "metadata": lambda link: read_metadata(Path(link), "t", ["a"]),
    "report": lambda link: report.write(made(), link),
    "write_table": lambda link: exports.write_table(
        made(), made().to_frame(library="pyarrow"), Path(link)
    ),
    "files.write": lambda link: files.write(link, "", force=False),
    "release of": lambda link: release(link, lower=0, upper=1, epsilon=1.0),
    "release with schema": lambda link: release(np.eye(2), schema=link, epsilon=1.0),
    "release with ledger": lambda link: release(
        np.eye(2), lower=0, upper=1, epsilon=1.0, ledger=link
    ),
    "open_rows": lambda link: open_rows(link, Schema.from_bounds(0, 1, ("a",))),
}


@pytest.mark.parametrize("call", PYTHON)
def test_no_call_shows_the_password_of_a_link(call: str, folder: Path) -> None:
    for link in LINKS:
        reported = ""
        try:  # some of them are names of files that can be written
            PYTHON[call](link)
        except DpcovError as error:
            reported = "".join(traceback.format_exception_only(error))
        assert SECRET not in reported


def test_a_path_is_shown_as_it_is_but_for_characters_that_act() -> None:
    for path in ("people.csv", "/a b/ü.json", "c:x", "./a:b/c", Path("x/y.toml")):
        assert shown(path) == str(path)
    assert shown("a\x1b[2J\N{RIGHT-TO-LEFT OVERRIDE}.csv") == "a?[2J?.csv"
    assert shown(b"\xff") == "?"
    assert named(LINKS[0]) == "The ledger (link)"


def test_control_a_message_that_quotes_the_path_would_be_found() -> None:
    assert all(SECRET in str(Path(link)) for link in LINKS)
