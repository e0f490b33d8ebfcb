"""--json, --quiet and exit codes: the same everywhere, as the documents say."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dpcov.api import plans
from examples_of_commands import ANALYSES, EXAMPLES, OPTIONS, fresh, write_all
from tables_for_tests import PLANTED, write_people
from terminals import DPCOV

DOCS = Path(__file__).parents[1] / "docs"
RELEASE = EXAMPLES["release"]
PLAN = "plan people.toml --rows 400 --mechanism gaussian"
FREE = {"app", "demo", "check"}  # a page, a story, and what is for a terminal alone
PRINTING = [fresh(name) for name, options in OPTIONS.items() if "--json" in options]
DOING = [
    fresh(name, ".csv" * (name in ANALYSES or name == "compare"))
    for name, options in OPTIONS.items()
    if "--quiet" in options
]


@pytest.fixture
def run(run, tmp_path: Path, monkeypatch):
    """Run the command line in a folder with a table, ledgers, a release and sums.

    A plan simulates few releases, because these tests do not read its figures.
    """
    monkeypatch.setattr(plans, "RELEASES", 2)
    monkeypatch.setattr(plans, "MAIN_RELEASES", 2)
    write_all(tmp_path)
    return run


def test_every_command_that_prints_has_json_and_every_one_that_acts_has_quiet() -> None:
    silent = {name for name, options in OPTIONS.items() if not {"--json", "--quiet"} & options}
    assert silent == FREE
    assert len(PRINTING) > 15 < len(DOING) + 3
    for name, options in OPTIONS.items():
        assert ("-q" in options) == ("--quiet" in options)
        if name != "key create":  # the names of its files are arguments, as for ledgers
            assert ("--force" in options) == ("--out" in options)


@pytest.mark.parametrize("line", PRINTING)
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
    assert bool(new) == (" new" in line)


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
    made = json.loads(run(RELEASE.replace("people.release.json", "new.json") + " --json").out)
    assert made["status"] == "private"
    assert made["mechanism"] == "standardized"
    assert made["files"] == {"": "new.json"}
    assert made["left"] == {"epsilon": 1.5}
    shown = json.loads(run("show new.json --json").out)
    assert shown["columns"] == ["age", "sex=m", "sex=f", "income"]
    assert (shown["budget"], shown["neighbors"]) == ({"epsilon": 0.5}, "add-remove")
    assert shown["public_count"] is None
    errors = shown["correlation_standard_error"]
    assert 0 < errors["mean"] <= errors["worst"]
    grouped = RELEASE.replace("people.release.json", "by.json") + " --by sex --json"
    assert set(json.loads(run(grouped).out)["files"]) == {"m", "f"}


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("ledger create new.db --epsilon 1", "next: dpcov check DATA --schema SCHEMA, then dpcov "
         "release DATA --schema SCHEMA --ledger new.db ... Nothing protects what you change after"),
        (f"{PLAN} --epsilon 1 --delta 1e-9", "next: dpcov check DATA --schema people.toml, then "
         "dpcov release DATA --schema people.toml --epsilon 1 --delta 1e-09 --ledger LEDGER ... "
         "Nothing protects what you change after the check."),
        (f"{PLAN} --rho 0.5", " --rho 0.5 "),
        (RELEASE.replace("people.release.json", "new.json"), "next: dpcov show new.json"),
        ("show people.release.json", "next: dpcov correlation people.release.json, or dpcov"),
        ("moments people.csv --schema people.toml --out n.sums", "Next: dpcov merge or release"),
    ],
)  # fmt: skip
def test_messages_name_the_next_command(run, line: str, advice: str) -> None:
    assert advice in run(line).out


def ends(code: str, folder: Path, *line: str) -> subprocess.CompletedProcess[str]:
    """Run some code and then the command line in a real process."""
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
from dpcov.api import auditing
auditing.audit = lambda *_, **__: SimpleNamespace(violated=True, to_json=lambda: {})
"""


def documented() -> dict[int, str]:
    """Return the exit codes of the page on errors."""
    text = (DOCS / "reference" / "errors.md").read_text()
    return {int(code): said for code, said in re.findall(r"^\| (\d+) \| (.*) \|$", text, re.M)}


def test_exit_codes_of_real_processes_are_those_documented(tmp_path: Path) -> None:
    write_people(tmp_path)
    release = RELEASE.replace(" --ledger people.ledger", "").split(" ")
    audit = ["audit", "--mechanism", "matrix-laplace", "--epsilon", "1", "--json"]
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
    while b"What does it contain" not in shown:
        part = os.read(process.stdout.fileno(), 4096)  # type: ignore[union-attr]
        assert part
        shown += part
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err.strip()) == (130, b"")
    assert not (tmp_path / "t.toml").exists()
