"""--json, --quiet and exit codes: the same everywhere, as the documents say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dpcov import cli
from dpcov.ledger import Ledger
from dpcov.privacy import PureDP
from tables_for_tests import PLANTED, unchained, write_people
from terminals import DPCOV

DOCS = Path(__file__).parents[1] / "docs"
RELEASE = "release people.csv --schema people.toml --epsilon 0.5 --ledger l.db --out r.json"
FREE = {"demo"}  # tells a story; nothing to be quiet about
TELLING = [
    "show r.json",
    "mechanisms",
    "correlation r.json",
    "covariance r.json",
    "pca r.json",
    "ridge r.json --target age",
    "ols r.json --target age",
    "lda r.json --target sex",
    "precision r.json",
    "sample r.json -n 2",
    "plan people.toml --rows 400",
    "audit laplace --epsilon 1 --runs 100",
    "ledger show l.db",
    "ledger verify l.db",
    "ledger migrate old.db",
    "ledger create new.db --epsilon 1",
    "ledger add-budget l.db --epsilon 1",
    RELEASE.replace("r.json", "new.json"),
]
DOING = [
    "schema people.csv --out new.toml",
    RELEASE.replace("r.json", "new.json"),
    "report r.json --out new.html",
    "moments people.csv --schema people.toml --out new.sums",
    "merge old.sums --out new.sums",
    "correlation r.json --out new.csv",
    "covariance r.json --out new.csv",
    "precision r.json --out new.csv",
    "sample r.json -n 2 --out new.csv",
    "audit laplace --epsilon 1 --runs 100",
    "ledger create new.db --epsilon 1",
    "ledger add-budget l.db --epsilon 1",
    "ledger verify l.db",
    "ledger migrate old.db",
]


def commands(name: str = "", group: Any = None) -> Iterator[tuple[str, set[str]]]:
    """Every command and its options."""
    for own, command in (group or get_command(cli.app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(f"{own} ", command)
        else:
            yield name + own, {option for part in command.params for option in part.opts}


@pytest.fixture
def run(run, tmp_path: Path):
    """Run the command line in a folder with a table, ledgers, a release and sums."""
    write_people(tmp_path)
    Ledger.create("l.db", PureDP(2.0))
    Ledger.create("old.db", PureDP(2.0))
    unchained(Path("old.db"))

    assert run(RELEASE.replace("--epsilon 0.5 --ledger l.db", "--epsilon 20")).code == 0
    assert run("moments people.csv --schema people.toml --out old.sums").code == 0
    return run


def name_of(line: str) -> str:
    first, second = (line + " ").split(" ", 2)[:2]
    return f"{first} {second}" if first == "ledger" else first


def test_every_command_that_tells_has_json_and_every_one_that_does_has_quiet() -> None:
    told, done = set(map(name_of, TELLING)), set(map(name_of, DOING))
    found = dict(commands())
    assert {name for name, options in found.items() if "--json" in options} == told
    assert {name for name, options in found.items() if "--quiet" in options} == done
    assert set(found) - told - done == FREE
    assert all(("-q" in options) == ("--quiet" in options) for options in found.values())
    assert all(("--force" in options) == ("--out" in options) for name, options in found.items())


@pytest.mark.parametrize("line", TELLING)
def test_json_is_one_document_and_nothing_else(run, line: str) -> None:
    shown = run(f"{line} --json")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.count("\n") == 1
    json.loads(shown.out)
    assert "NaN" not in shown.out
    assert PLANTED not in shown.out


@pytest.mark.parametrize("line", DOING)
def test_quiet_prints_nothing_and_does_the_same(run, line: str) -> None:
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = run(f"{line} --quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    new = {path for path in Path().iterdir() if path not in before}
    assert {path.name.partition(".")[0] for path in new} <= {"new"}
    assert bool(new) == ("new." in line)


def test_quiet_does_not_hush_errors_or_that_a_release_protects_nobody(run) -> None:
    refused = run("release people.csv --schema people.toml --epsilon 0 --out a.json --quiet")
    assert (refused.code, refused.out) == (2, "")
    assert "above 0" in refused.err
    seeded = run("release people.csv --schema people.toml --epsilon 9 --seed 1 --out a.json -q")
    assert (seeded.code, seeded.out) == (0, "")
    assert "NOT PRIVATE" in seeded.err
    report = run("report a.json --out a.html -q")
    assert (report.code, report.out) == (0, "")
    assert "NOT PRIVATE" in report.err


def test_json_of_a_release_says_what_was_made(run) -> None:
    made = json.loads(run(RELEASE.replace("r.json", "new.json") + " --json").out)
    assert made["status"] == "private"
    assert made["mechanism"] == "standardized-ladder"
    assert made["files"] == {"": "new.json"}
    assert made["left"] == {"epsilon": 1.5}
    shown = json.loads(run("show new.json --json").out)
    assert shown["columns"] == ["age", "sex=m", "sex=f", "income"]
    assert (shown["budget"], shown["neighbors"]) == ({"epsilon": 0.5}, "add-remove")
    assert shown["public_count"] is None
    assert 0 < shown["correlation_error"]["mean"] <= shown["correlation_error"]["worst"]
    grouped = RELEASE.replace("r.json", "by.json") + " --by sex --json"
    assert set(json.loads(run(grouped).out)["files"]) == {"m", "f"}


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("ledger create new.db --epsilon 1", "next: dpcov release DATA --schema SCHEMA --ledger"),
        ("plan people.toml --rows 400 --epsilon 2", "next: dpcov release DATA --schema people.toml"
         " --epsilon 2 "),
        ("plan people.toml --rows 400 --epsilon 1 --delta 1e-9", "--epsilon 1 --delta 1e-09 "),
        ("plan people.toml --rows 400 --rho 0.5", " --rho 0.5 "),
        (RELEASE.replace("r.json", "new.json"), "next: dpcov show new.json"),
        ("show r.json", "next: dpcov correlation r.json, or dpcov report r.json --out"),
        ("moments people.csv --schema people.toml --out n.sums", "Next: dpcov merge, or release"),
    ],
)  # fmt: skip
def test_messages_name_the_next_command(run, line: str, advice: str) -> None:
    assert advice in run(line).out


def ends(code: str, folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """A real process that runs some code and then the command line."""
    program = f"{code}\nfrom dpcov.cli import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", program, *line],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


EXPLODE = f"""
from dpcov.releases import Release
def explode(*_, **__):
    raise RuntimeError("{PLANTED}")
Release.to_text = explode
"""
REFUTE = """
from types import SimpleNamespace
from dpcov import auditing
auditing.audit = lambda *_, **__: SimpleNamespace(violated=True, to_json=lambda: {})
"""


def documented() -> dict[int, str]:
    """The exit codes of the page on errors."""
    text = (DOCS / "reference" / "errors.md").read_text()
    return {int(code): said for code, said in re.findall(r"^\| (\d+) \| (.*) \|$", text, re.M)}


def test_exit_codes_of_real_processes_are_those_documented(tmp_path: Path) -> None:
    write_people(tmp_path)
    release = RELEASE.replace(" --ledger l.db", "").split(" ")
    audit = ["audit", "laplace", "--epsilon", "1", "--runs", "100", "--json"]
    refused = ["show", "absent.json"]
    found = {
        "done": ends("", tmp_path, "--version"),
        "fault": ends(EXPLODE, tmp_path, *release),
        "refuted": ends(REFUTE, tmp_path, *audit),
        "refused": ends("", tmp_path, *refused),
        "misspelt": ends("", tmp_path, "shwo"),
        "no arguments": ends("", tmp_path),
    }
    codes = {what: done.returncode for what, done in found.items()}
    assert codes == {
        "done": 0, "fault": 1, "refuted": 1, "refused": 2, "misspelt": 2, "no arguments": 2,
    }  # fmt: skip
    assert set(documented()) == {*codes.values(), 130}
    assert "refuted" in documented()[1]
    assert PLANTED not in "".join(done.stdout + done.stderr for done in found.values())
    assert all("Traceback" not in done.stderr for done in found.values())


def test_an_interrupt_ends_with_130(tmp_path: Path) -> None:
    write_people(tmp_path)
    command = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); print(1)"
    program = [DPCOV[0], "-c", f"{command}; {DPCOV[2]}"]
    line = ["schema", "people.csv", "--interactive", "--out", "t.toml"]
    process = subprocess.Popen(
        [*program, *line],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    shown = b""
    while b"What does it hold" not in shown:
        part = os.read(process.stdout.fileno(), 4096)  # type: ignore[union-attr]
        assert part
        shown += part
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"")
    assert not (tmp_path / "t.toml").exists()
