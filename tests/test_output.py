"""Outputs that fail, in real processes: full devices, closed pipes, no rights, odd names."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpcov
from dpcov.core.privacy import PureDP
from dpcov.rows.schema import Schema
from dpcov.rows.sources.partial import PartialMoment

COMMAND = [sys.executable, "-c", "from dpcov.cli import main; main()"]
FULL = "Standard output cannot be written: No space left on device."
CLOSED = "Standard output cannot be written: Broken pipe."
NOT_UTF8 = os.fsdecode(b"caf\xe9")
SCHEMA = """version = 3
defaults = { missing = { numbers = "none" } }
[columns."\u05e9\u05dc\u05d5\u05dd"]
kind = "number"
lower = 0
upper = 10
[columns.b]
kind = "number"
lower = 0
upper = 10
"""
# Runs each command line that it is sent in a child, which ends as a process does.
SERVER = """
import gc, json, os, pkgutil, sys
from importlib import import_module
import matplotlib.figure, pandas, pyarrow.parquet, rich.markdown, scipy.optimize, typer.rich_utils
import dpcov
from dpcov.cli import main

for module in pkgutil.walk_packages(dpcov.__path__, "dpcov."):
    if not module.name.startswith(("dpcov.papers", "dpcov.estimators")):
        import_module(module.name)
# A plan simulates few releases, because these tests do not read its figures.
dpcov.api.plans.RELEASES = dpcov.api.plans.MAIN_RELEASES = 2
answers = os.fdopen(os.dup(1), "w")
gc.freeze()
for line in sys.stdin:
    job = json.loads(line)
    if (child := os.fork()) == 0:
        os.chdir(job["folder"])
        os.dup2(os.open("err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if job["out"] == "pipe":
            read, write = os.pipe()
            os.dup2(write, 1)
            os.close(read)
        elif job["out"] == "closed":
            os.close(1)
        else:
            os.dup2(os.open(job["out"], os.O_WRONLY | os.O_CREAT, 0o600), 1)
        closed = job["out"] == "closed"
        sys.stdout = None if closed else open(1, "w", encoding=job["encoding"], closefd=False)
        sys.stderr = open(2, "w", buffering=1, closefd=False)
        code = 0
        try:
            main(job["line"])
        except SystemExit as ended:
            code = ended.code
        try:  # as Python does at its end, at less cost
            for stream in filter(None, (sys.stdout, sys.stderr)):
                stream.flush()
        except OSError:
            code = 120
        os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(json.dumps(ended), file=answers, flush=True)
"""
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all")  # root, whom rights bind


@pytest.fixture(scope="module")
def server():
    """Start a process without privileges that runs command lines."""
    before = UNPRIVILEGED if os.geteuid() == 0 and shutil.which("setpriv") else ()
    line = [*before, sys.executable, "-c", SERVER]
    with subprocess.Popen(line, stdin=-1, stdout=-1, text=True) as process:
        yield process
        process.stdin.close()


@pytest.fixture(scope="module")
def run_jobs(server, folder):
    """Return a function that runs command lines in `folder`, with exit codes and standard error."""

    def run(lines, *, out="out", encoding="utf-8"):
        found = []
        for line in lines:
            parts = line if isinstance(line, list) else line.split()
            job = {"folder": str(folder), "line": parts, "out": out, "encoding": encoding}
            print(json.dumps(job), file=server.stdin, flush=True)
            found.append((json.loads(server.stdout.readline()), (folder / "err").read_text()))
        return found

    return run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a table, its schema, a release, a ledger and sums for all to read."""
    place = tmp_path_factory.mktemp("outputs")
    rows = "".join(f"{i % 10},{i % 7}\n" for i in range(300))
    (place / "a.csv").write_text(f"\u05e9\u05dc\u05d5\u05dd,b\n{rows}", encoding="utf-8")
    (place / "a.toml").write_text(SCHEMA, encoding="utf-8")
    dpcov.release(place / "a.csv", schema=place / "a.toml", epsilon=1.0).save(place / "r.json")
    dpcov.Ledger.create(place / "L", PureDP(100))
    whole = PartialMoment.of(place / "a.csv", Schema.load(place / "a.toml"))
    whole.save(place / "s.sums", force=False)
    return place


def spent(folder):
    return dpcov.Ledger.open(folder / "L").account().spent["epsilon"]


RELEASE = "release a.csv --schema a.toml --epsilon 1 --ledger L --out q.json --force"
PRINTING = (
    "--help",
    "--version",
    "schema a.csv",
    "plan a.toml --rows 1000 --mechanism gaussian --rho 0.1",
    "mechanisms",
    "ledger show L",
    "ledger verify L --json",
    "show r.json",
    "show r.json --json",
    "correlation r.json",
    "correlation r.json --csv",
    "ols r.json --target b",
)


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("/dev/full", FULL),
        ("pipe", CLOSED),
        ("closed", "Standard output cannot be written: it is closed."),
    ],
)
def test_a_standard_output_that_fails_is_one_sentence_and_costs_nothing(
    folder, run_jobs, out, sentence
):
    before = spent(folder)
    lines = *PRINTING, RELEASE, f"{RELEASE} --json", "ledger create new.L --epsilon 1", "demo"
    found = run_jobs(lines, out=out)
    for line, (code, err) in zip(lines, found, strict=True):
        assert (code, err.splitlines()[-1]) == (2, f"dpcov: {sentence}"), line
    assert spent(folder) == before
    assert not (folder / "q.json").exists()
    assert not (folder / "new.L").exists()


def test_control_what_prints_nothing_needs_no_standard_output(folder, run_jobs):
    before = spent(folder)
    for out in ("/dev/full", "pipe", "closed"):
        assert run_jobs([f"{RELEASE} --quiet"], out=out) == [(0, "")]
    assert spent(folder) == before + 3
    (folder / "q.json").unlink()


def test_a_file_that_is_written_already_is_named(folder, run_jobs):
    lines = (
        "correlation r.json --out c.csv --force",
        "report r.json --out c.html --force",
        "schema a.csv --out c.toml --force",
        "moments a.csv --schema a.toml --out c.sums --force",
        "merge s.sums --out c.sums --force",
    )
    for line, (code, err) in zip(lines, run_jobs(lines, out="/dev/full"), strict=True):
        name = line.split()[-2]
        assert (code, err.splitlines()[-1]) == (2, f"dpcov: {FULL} {name} is written.")
        assert (folder / name).stat().st_size


LEAVES = """
import os, sys
from dpcov.api import PreparedRelease
from dpcov.cli import main
read, write = os.pipe()
os.dup2(write, 1)
draw = PreparedRelease.draw
def late(self):
    made = draw(self)
    os.close(read)
    return made
PreparedRelease.draw = late
main()
"""


def test_a_pipe_whose_reader_leaves_after_the_spend_loses_no_release(folder):
    before = spent(folder)
    line = [sys.executable, "-c", LEAVES, *RELEASE.replace("q.json", "piped.json").split()]
    ended = subprocess.run(line, cwd=folder, stderr=-1, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"dpcov: {CLOSED} The budget is spent, and piped.json is written.\n"
    assert spent(folder) == before + 1
    assert dpcov.Release.load(folder / "piped.json").columns == ("\u05e9\u05dc\u05d5\u05dd", "b")


def test_a_standard_error_that_fails_changes_nothing(folder):
    line = [*COMMAND, *RELEASE.replace("q.json", "e.json").split(), "--seed", "1"]
    line = [part for part in line if part not in ("--ledger", "L")]
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(line, cwd=folder, stdout=subprocess.PIPE, stderr=full, check=False)
        assert (ended.returncode, (folder / "e.json").exists()) == (0, True)
        missing = [*COMMAND, "show", "none.json"]
        ended = subprocess.run(missing, cwd=folder, stdout=-1, stderr=full, check=False)
    assert (ended.returncode, ended.stdout) == (2, b"")


@pytest.mark.parametrize("encoding", ["cp1252", "ascii", "cp037", "utf-16"])
def test_names_outside_the_code_page_end_no_command(folder, run_jobs, encoding):
    before = spent(folder)
    lines = [line for line in PRINTING if line.startswith(("show", "corr", "led"))] + [
        [*RELEASE.split()[:-2], "\u05e9\u05dc\u05d5\u05dd.json", "--force"],
        ["report", "r.json", "--out", "\u05e9.html", "--force"],
        ["show", "\u05e9\u05dc.json"],
    ]
    found = run_jobs(lines, encoding=encoding)
    assert [code for code, _ in found] == [0] * (len(lines) - 1) + [2]
    assert spent(folder) == before + 1


def test_a_name_outside_the_code_page_stays_legible():
    """Control: Python alone stops there."""
    script = "import sys; {}; print('\u05e9'); sys.stdout.flush()"
    safe = "from dpcov.cli.output import safe_streams; safe_streams().__enter__()"
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252"}

    def printed(before):
        line = [sys.executable, "-c", script.format(before)]
        return subprocess.run(line, env=environment, capture_output=True, check=False)

    assert printed(safe).stdout == b"\\u05e9\n"
    assert printed("pass").returncode == 1


@pytest.fixture
def without_rights(folder):
    """Return a folder that cannot be written, with files that cannot be read."""
    if os.geteuid() == 0 and not shutil.which("setpriv"):
        pytest.skip("no rights bind root, and there is no setpriv")
    closed = folder / "closed"
    closed.mkdir()
    for name in ("a.csv", "a.toml", "r.json"):
        (closed / name).write_bytes((folder / name).read_bytes())
        (closed / name).chmod(0)
    closed.chmod(0o555)
    yield folder
    closed.chmod(0o755)


OUTPUTS = {
    "release a.csv --schema a.toml --epsilon 1 --out {}/x.json": " Nothing was spent.",
    "correlation r.json --out {}/x.csv": "",
    "correlation r.json --out {}/x.parquet": "",
    "sample r.json -n 10 --out {}/x.csv": "",
    "report r.json --out {}/x.html": "",
    "schema a.csv --out {}/x.toml": "",
    "moments a.csv --schema a.toml --out {}/x.sums": "",
    "merge s.sums --out {}/x.sums": "",
}
INPUTS = {
    "release {}/a.csv --schema a.toml --epsilon 1 --out x.json": "cannot be opened",
    "release {}/a.csv --table t --schema a.toml --epsilon 1 --out x.json": "cannot be opened",
    "release a.csv --schema {}/a.toml --epsilon 1 --out x.json": "cannot be read",
    "schema {}/a.csv": "cannot be opened",
    "moments {}/a.csv --schema a.toml --out x.sums": "cannot be opened",
    "merge {}/a.csv --out x.sums": "cannot be opened",
    "plan {}/a.toml --rows 10": "cannot be read",
    "plan a.toml --rows 10 --like {}/r.json": "cannot be read",
    "show {}/r.json": "cannot be read",
    "correlation {}/r.json --csv": "cannot be read",
    "report {}/r.json --out x.html": "cannot be read",
}
LEDGERS = (
    "release a.csv --schema a.toml --epsilon 1 --ledger {}/L --out x.json",
    "ledger create {}/L --epsilon 1",
    "ledger add-budget {}/L --epsilon 1",
    "ledger show {}/L",
    "report r.json --ledger {}/L --out x.html",
)


def test_a_folder_without_rights_is_one_sentence(without_rights, run_jobs):
    lines = [*OUTPUTS, *INPUTS, *LEDGERS, "demo --folder {}"]
    found = run_jobs([line.format("closed") for line in lines])
    for line, (code, err) in zip(lines, found, strict=True):
        assert (code, err.count("\n"), "Unexpected" in err) == (2, 1, False), (line, err)
        if line in OUTPUTS:
            name = line.split()[-1].format("closed")
            end = OUTPUTS[line]
            assert err == f"dpcov: The file '{name}' cannot be written: Permission denied.{end}\n"
        elif line in INPUTS:
            assert f"{INPUTS[line]}: Permission denied." in err or "is not readable" in err
    assert not {path.name for path in (without_rights / "closed").iterdir()} - {
        "a.csv", "a.toml", "r.json"
    }  # fmt: skip


def test_a_path_below_a_file_is_one_sentence(run_jobs):
    lines = [*OUTPUTS, *INPUTS, *LEDGERS, "demo --folder {}/x"]
    found = run_jobs([line.format("a.csv") for line in lines])
    for line, (code, err) in zip(lines, found, strict=True):
        assert (code, err.count("\n"), "Unexpected" in err) == (2, 1, False), (line, err)
        if line in OUTPUTS:
            assert "cannot be written: Not a directory." in err


def test_a_name_that_is_not_utf8_is_read_or_refused_in_a_sentence(folder, run_jobs):
    """Text files, releases, schemas, ledgers and outputs are used; Parquet and DuckDB can't be."""
    pa = pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    from pyarrow import csv, parquet

    table = csv.read_csv(folder / "a.csv")
    for ending in ("csv", "toml", "json"):
        name = {"json": "r"}.get(ending, "a")
        (folder / f"{NOT_UTF8}.{ending}").write_bytes((folder / f"{name}.{ending}").read_bytes())
    with pa.OSFile(os.fsencode(folder / f"{NOT_UTF8}.parquet"), "wb") as file:
        parquet.write_table(table, file)
    with duckdb.connect(folder / "t.duckdb") as database:
        database.execute("CREATE TABLE t (b DOUBLE)")
    (folder / "t.duckdb").rename(folder / f"{NOT_UTF8}.duckdb")
    used = (
        "ledger create {}.L --epsilon 9",
        "release {}.csv --schema {}.toml --epsilon 1 --ledger {}.L --out {}-1.json",
        "release {}.csv --schema {}.toml --epsilon 1 --ledger {}.L --out {}-2.json --json",
        "schema {}.csv --out {}-2.toml",
        "show {}.json",
        "correlation {}.json --out {}-2.csv",
        "report {}.json --out {}.html",
        "moments {}.csv --schema {}.toml --out {}.sums",
        "merge {}.sums --out {}-2.sums",
        "plan {}.toml --rows 100 --mechanism gaussian --rho 0.1 --like {}.json",
    )
    refused = (
        "release {}.parquet --schema a.toml --epsilon 1 --out x.json",
        "release {}.duckdb --table t --schema a.toml --epsilon 1 --out x.json",
        "schema {}.parquet",
    )
    faults = ("ledger create {}.L --dataset {} --epsilon 1", "show {}.none", "{}")
    lines = [*used, *refused, *faults]
    found = run_jobs([line.replace("{}", NOT_UTF8) for line in lines])
    for line, (code, err) in zip(lines, found, strict=True):
        lines_of_errors = sum(one.startswith("dpcov: ") for one in err.splitlines())
        assert (code, lines_of_errors) == ((0, 0) if line in used else (2, 1)), (line, err)
        assert ("its name is not UTF-8 text" in err) == (line in refused)
        assert "Unexpected" not in err
