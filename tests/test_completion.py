"""Shell completion: what TAB offers, in a real bash, and that the data are never opened for it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import typer

import dpcov
from dpcov import cli
from dpcov.analysis import declared
from dpcov.api.ledger import Ledger
from dpcov.cli import completions
from dpcov.core.privacy import PureDP
from dpcov.mechanisms import MECHANISMS
from tables_for_tests import write_people
from terminals import terminal

BASH = shutil.which("bash")
needs_bash = pytest.mark.skipif(BASH is None, reason="completion is tested in bash")
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Return a folder with a table, its schema, a release and a ledger of two data sets."""
    folder = tmp_path_factory.mktemp("completion")
    table, schema = write_people(folder)
    dpcov.release(table, schema=schema, epsilon=20.0).save(folder / "r.json")
    Ledger.create(folder / "l.ledger", PureDP(1.0), dataset="wards")
    Ledger.create(folder / "l.ledger", PureDP(1.0), dataset="staff")
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return a home without settings, with a program called dpcov that runs this code."""
    program = folder / "bin" / "dpcov"
    program.parent.mkdir(exist_ok=True)
    python = shlex.quote(sys.executable)
    program.write_text(f"#!/bin/sh\nexec {python} -c 'from dpcov.cli import main; main()' \"$@\"\n")
    program.chmod(0o755)
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "HOME": str(folder), "NO_COLOR": "1"}


def bash(script: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "--norc", "-c", f"{script}\ntrue"],  # two commands, or bash is gone when asked
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def offered(line: str, folder: Path) -> list[str]:
    """Return bash's completions at the end of a line, by the script that dpcov prints."""
    words = line.split(" ")
    script = f"""
        source <(dpcov --show-completion)
        complete -p dpcov > /dev/null || exit 1
        COMP_WORDS=({" ".join(map(repr, words))}) COMP_CWORD={len(words) - 1}
        _dpcov_completion dpcov
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    return bash(script, folder).split()


@needs_bash
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("dpcov rep", ["report"]),
        ("dpcov ridge r.json --features age,", ["age,income", "age,sex=f", "age,sex=m"]),
        ("dpcov show r", []),
    ],
)
def test_bash_offers(line: str, found: list[str], folder: Path) -> None:
    assert sorted(offered(line, folder)) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            "dpcov ledger ",
            ["add-budget", "create", "migrate", "renew", "report", "show", "verify"],
        ),
        ("dpcov sch", ["schema"]),
        ("dpcov schema migrate --f", ["--force"]),
        ("dpcov release p.csv --mechanism nuc", ["nuclear-laplace"]),
        ("dpcov release p.csv --mechanism au", ["auto"]),
        ("dpcov audit --mechanism adaptive-", ["adaptive-gaussian", "adaptive-laplace"]),
        ("dpcov ols r.json --target ", ["age", "income", "sex=f", "sex=m"]),
        ("dpcov ols r.json age~inc", ["age~income"]),
        ("dpcov ridge r.json age~income+s", ["age~income+sex=f", "age~income+sex=m"]),
        ("dpcov correlation r.json age i", ["income"]),
        ("dpcov lda r.json --target ", ["sex"]),
        ("dpcov plan people.toml --target i", ["income"]),
        ("dpcov release p.csv --schema people.toml --by ", ["sex"]),
        ("dpcov release p.csv --mechanism laplace --set trace", ["trace_share="]),
        ("dpcov ledger show l.ledger --dataset ", ["staff", "wards"]),
        ("dpcov report r.json --ledger l.ledger --dataset w", ["wards"]),
        ("dpcov ols absent.json --target ", []),
        ("dpcov ols people.csv --target ", []),
    ],
)
def test_the_function_that_bash_asks_offers(
    line: str, found: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """The script that dpcov prints for bash sets these variables and starts dpcov."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("_DPCOV_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
    with pytest.raises(SystemExit):
        cli.main([])
    assert sorted(capsys.readouterr().out.split()) == found


@needs_bash
def test_tab_on_a_terminal_completes_a_column(folder: Path) -> None:
    with terminal(["bash", "--norc", "-i"], folder, environment(folder)) as screen:
        screen.type("PS1='ready> '; source <(dpcov --show-completion)\r")
        screen.expect("ready> ")
        screen.expect("ready> ")
        screen.type("dpcov lda r.json --target s\t")
        screen.expect("--target sex")
        screen.type("\x03")


@needs_bash
def test_installed_completion_is_there_in_a_new_shell(folder: Path) -> None:
    assert "bash completion installed" in bash("dpcov --install-completion", folder)
    assert "complete " in bash('source "$HOME/.bashrc"; complete -p dpcov', folder)


def of(command: str) -> typer.Context:
    return typer.Context(cli.commands()[command])


def with_arguments(command: str, arguments: list[str]) -> typer.Context:
    context = of(command)
    context.args = arguments
    return context


def test_completion_never_opens_the_data(folder: Path) -> None:
    data = str(folder / "r.json")  # whose columns would show if it were opened
    assert completions.columns(with_arguments("ols", [data]), "") != []
    for params, args in (({"data": data}, []), ({}, [data])):
        context = of("release")
        context.params, context.args = params, args
        assert completions.columns(context, "") == []
        context.params = {**params, "schema": folder / "people.toml"}
        assert completions.columns(context, "") == ["age", "sex=m", "sex=f", "income"]
        assert completions.categories(context, "") == ["sex"]


@pytest.mark.parametrize(
    "name", ["$(touch harmed)", "`id`", "a b", "a;b", "x?y", "*", "~", "a'b", "-rf", "!1", "a|b"]
)
def test_names_that_would_mean_something_to_a_shell_are_not_offered(name, tmp_path) -> None:
    document = {"columns": {n: {"lower": 0, "upper": 1, "kind": "numeric"} for n in (name, "é_1")}}
    context = of("ols")
    path = tmp_path / "r.json"
    release = dpcov.release(
        pa.table({name: [0.5], "é_1": [0.5]}),
        schema=dpcov.Schema.parse(document),
        epsilon=1.0,
    )
    release.save(path)
    context.params = {"file": path}
    assert completions.columns(context, "") == ["é_1"]


def test_every_mechanism_is_offered() -> None:
    assert completions.mechanisms("") == list(MECHANISMS)
    assert completions.mechanisms_or_auto("")[0] == "auto"
    assert json.dumps(completions.mechanisms("nope")) == "[]"


def test_the_list_of_the_commands_is_current() -> None:
    assert declared.LIST.read_text(encoding="utf-8") == declared.list_text(), "run: make schemas"


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        (["--help"], {}),
        ([], {"_DPCOV_COMPLETE": "complete_bash", "COMP_WORDS": "dpcov co", "COMP_CWORD": "1"}),
    ],
)
def test_listing_the_commands_imports_no_analysis(arguments, variables) -> None:
    heavy = "{'numpy', 'scipy', 'pyarrow', 'dpcov.analysis.ols', 'dpcov.analysis.correlation'}"
    code = f"import atexit, sys; atexit.register(lambda: print({heavy} & set(sys.modules))); "
    done = subprocess.run(
        [sys.executable, "-c", f"{code}from dpcov.cli import main; main({arguments})"],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "correlation" in done.stdout
    assert done.stdout.splitlines()[-1] == "set()"
