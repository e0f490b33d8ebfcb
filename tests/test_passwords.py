"""A link to a database where a file is wanted: no message tells its password."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
from typer.main import get_command

from dpcov import cli, exports, files, load, report
from dpcov.api import release
from dpcov.errors import DpcovError
from dpcov.ledger import Ledger
from dpcov.ledger_file import named
from dpcov.metadata import read as read_metadata
from dpcov.partial import PartialMoment
from dpcov.printable import shown
from dpcov.privacy import PureDP
from dpcov.releases import Release
from dpcov.schema import Schema
from dpcov.sources import open_rows
from tables_for_tests import write_people

SECRET = "pa55w0rd"  # noqa: S105
LINKS = [
    f"postgresql://ana:{SECRET}@host/db",
    f"postgres://ana:with a space {SECRET}@host/db",
    f"PostgreSQL+psycopg://ana:{SECRET}@host/db?sslmode=require",
    f"folder/postgresql://ana:{SECRET}@host/db",
    f"host=host user=ana password='with a space {SECRET}'",
    f"mysql://ana:{SECRET}\N{RIGHT-TO-LEFT OVERRIDE}@host/db.csv",
]
LINES = {
    "schema": "people.csv",
    "release": "people.csv --schema people.toml --epsilon 0.5 --out new.json",
    "show": "r.json",
    "mechanisms": "",
    "demo": "",
    "correlation": "r.json",
    "covariance": "r.json",
    "pca": "r.json",
    "ridge": "r.json --target age",
    "ols": "r.json --target age",
    "lda": "r.json --target sex",
    "precision": "r.json",
    "sample": "r.json -n 2",
    "report": "r.json --out new.html",
    "plan": "people.toml --rows 400",
    "audit": "laplace --epsilon 1 --runs 100",
    "moments": "people.csv --schema people.toml --out new.sums",
    "merge": "old.sums --out new.sums",
    "ledger create": "new.db --epsilon 1",
    "ledger show": "l.db",
    "ledger add-budget": "l.db --epsilon 1",
    "ledger verify": "l.db",
    "ledger migrate": "l.db",
}


def files_of(app: Any = cli.app) -> set[str]:
    """Names of the parameters of all commands that are annotated as paths, and of data."""
    found = {"data", "table"}
    for command in app.registered_commands:
        hints = get_type_hints(command.callback)
        found |= {name for name, hint in hints.items() if "Path" in str(hint)}
    return found.union(*(files_of(group.typer_instance) for group in app.registered_groups))


def calls(name: str = "", group: Any = None) -> Iterator[tuple[str, list[str]]]:
    """Each command with a link in the place of each file, PLACE standing for it."""
    for own, command in (group or get_command(cli.app)).commands.items():
        if hasattr(command, "commands"):
            yield from calls(f"{own} ", command)
            continue
        line = LINES[name + own].split()
        for part in (part for part in command.params if part.name in files_of()):
            argument = part.param_type_name == "argument"
            rest = ["PLACE", *line[1:]] if argument else [*line, part.opts[0], "PLACE"]
            yield f"{name}{own} {part.name}", [*name.split(), own, *rest]


CALLS = dict(calls())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table, schema = write_people(tmp_path)
    Ledger.create("l.db", PureDP(2.0))
    release(table, schema=schema, epsilon=20.0, seed=1, mechanism="matrix-laplace").save("r.json")
    PartialMoment.of(table, Schema.load(schema)).save(tmp_path / "old.sums")
    return tmp_path


def test_every_command_that_takes_a_file_is_tried() -> None:
    wanted = {"show file", "report out", "release ledger", "schema metadata", "merge files"}
    assert wanted <= CALLS.keys()
    assert len(CALLS) > 35


@pytest.mark.parametrize("call", CALLS)
def test_no_command_tells_the_password_of_a_link(
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
def test_no_call_tells_the_password_of_a_link(call: str, folder: Path) -> None:
    for link in LINKS:
        told = ""
        try:  # some of them are names of files that can be written
            PYTHON[call](link)
        except DpcovError as error:
            told = "".join(traceback.format_exception_only(error))
        assert SECRET not in told


def test_a_path_is_shown_as_it_is_but_for_characters_that_act() -> None:
    for path in ("people.csv", "/a b/ü.json", "c:x", "./a:b/c", Path("x/y.toml")):
        assert shown(path) == str(path)
    assert shown("a\x1b[2J\N{RIGHT-TO-LEFT OVERRIDE}.csv") == "a?[2J?.csv"
    assert shown(b"\xff") == "?"
    assert named(LINKS[0]) == "Ledger (link)"


def test_control_a_message_that_quotes_the_path_would_be_found() -> None:
    assert all(SECRET in str(Path(link)) for link in LINKS)
