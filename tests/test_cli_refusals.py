"""Bad input on the command line: one sentence, exit code 2, nothing spent, nothing written."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dpcov import cli
from dpcov.api.ledger import Ledger
from dpcov.core import files
from dpcov.core.privacy import PureDP
from dpcov.errors import OutputError
from dpcov.releases import Release
from tables_for_tests import PLANTED, SCHEMA_TEXT, people, write_people

RELEASE = "release {table} --schema people.toml --epsilon 1 --ledger l.db --out r.json"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder with a table, a schema and a ledger."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path)
    Path("lines.toml").write_text(SCHEMA_TEXT + '[file]\nrecords = "lines"\n')
    Ledger.create("l.db", PureDP(1.0))
    return tmp_path


def refused(line: str, capsys: pytest.CaptureFixture[str], code: int = 2) -> str:
    """Run a line that must be refused; returns the message, after checking all that is promised."""
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as ended:
        cli.main(line.split())
    out, err = capsys.readouterr()
    assert ended.value.code == code, out
    assert err.startswith("dpcov: ")
    assert err.count("\n") == 1, "one line"
    assert PLANTED not in out + err
    assert "Traceback" not in out + err
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before
    return err


LINES = "--neighbors replace-one --schema lines.toml"


def options(text: str) -> str:
    return f"release people.csv --schema people.toml --ledger l.db --out r.json {text}"


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        (RELEASE.format(table="nowhere.csv"), "The file 'nowhere.csv' does not exist"),
        (RELEASE.format(table="."), "is a folder"),
        (options(""), "State a privacy budget"),
        (options("--epsilon 0"), "above 0"),
        (options("--epsilon -1"), "above 0"),
        (options("--epsilon nan"), "above 0"),
        (options("--epsilon inf"), "above 0"),
        (options("--epsilon 1e999"), "above 0"),
        (options("--epsilon one"), "--epsilon"),
        (options("--epsilon 1 --delta 1"), "delta must be below 1"),
        (options("--epsilon 1 --delta 0"), "delta must be"),
        (options("--rho 0"), "above 0"),
        (options("--rho 1 --epsilon 1"), "not both"),
        (options("--epsilon 1 --seed 1"), "seeded release"),
        (options("--epsilon 1 --mechanism magic"), "Choose one of"),
        (options("--epsilon 1 --neighbors swap"), "--neighbors"),
        (options(f"--epsilon 1 {LINES}"), "with --neighbors add-remove"),
        (options("--epsilon 1 --threads 0"), "--threads"),
        (options("--epsilon 1 --magic"), "No such option"),
        (options("--epsilon 1.01"), "Not enough budget"),
        (options("--epsilon 1 --dataset other"), "no data set 'other'"),
        (options("--epsilon 1 --ledger none.db"), "dpcov ledger create"),
        (options("--epsilon 1 --ledger people.csv"), "not a ledger"),
        (options("--epsilon 1 --schema none.toml"), "cannot be read"),
        (options("--epsilon 1 --schema people.csv"), "not valid TOML"),
        (options("--epsilon 1 --out people.csv/r.json"), "cannot be written"),
        (options("--epsilon 1 --out none/r.json"), "cannot be written"),
        (options("--epsilon 1 --out /proc/r.json"), "cannot be written"),
        (options(f"--epsilon 1 --out {'n' * 300}"), "cannot be written"),
        (options("--epsilon 1 --out people.toml"), "people.toml"),
        (options("--epsilon 1 --out people.csv --force"), "is an input"),
        (options("--epsilon 1 --out l.db --force"), "is an input"),
        (options("--epsilon 1 --out . --force"), "is a folder"),
        ("release people.csv", "Missing option"),
        ("magic", "No such command"),
        ("schema none.csv", "does not exist"),
        ("schema people.csv --separator ;;", "separator"),
        ("show none.json", "cannot be read"),
        ("show people.csv", "is not a valid release file"),
        ("correlation l.db", "cannot be read"),
        ("ledger show none.db", "dpcov ledger create"),
        ("ledger create l.db --epsilon 1", "already contains the data set 'default'"),
        ("ledger create new.db", "State a privacy budget"),
        ("ledger create none/new.db --epsilon 1", "folder that exists"),
        ("ledger add-budget l.db --rho 1", "Add a budget in epsilon"),
        ("demo --folder people.csv", "The demo cannot write to"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_sentence(capsys, line: str, advice: str) -> None:
    assert advice in refused(line, capsys)


def test_an_existing_output_is_kept(capsys) -> None:
    Path("r.json").write_text("old")
    assert "--force" in refused(options("--epsilon 1"), capsys)
    with pytest.raises(SystemExit, match="0"):
        cli.main(options("--epsilon 1 --force").split())
    assert Release.load("r.json").columns


@pytest.mark.parametrize(
    ("old", "new", "advice"),
    [
        ("lower = 0\nupper = 100", "lower = 100\nupper = 100", "Set lower below upper"),
        ("lower = 0\nupper = 100", "lower = 5\nupper = nan", "age"),
        ("upper = 100", "", "age.upper"),
        ('"numeric"', '"number"', "age"),
        ("columns.age", "columns.weight", "no column 'weight'"),
        ('levels = ["m", "f"]', "levels = []", "sex.levels"),
        ('levels = ["m", "f"]', 'levels = ["m", "m"]', "declared twice"),
        ("[columns.age]", "radius = -1\n[columns.age]", "radius"),
        ("[columns.age]", "colour = 1\n[columns.age]", "colour"),
        ("[columns.age]", "[unit]\ncolumn = 'who'\nmax_rows = 1\n[columns.age]", "no column 'who'"),
        (SCHEMA_TEXT, "", "columns"),
        (SCHEMA_TEXT, "\xff", "no column"),
    ],
)  # fmt: skip
def test_a_bad_schema_is_refused_with_its_place(capsys, old: str, new: str, advice: str) -> None:
    text = SCHEMA_TEXT.replace(old, new, 1)
    Path("people.toml").write_text(
        text if new != "\xff" else "[columns.\xff]\nkind='ignored'", "latin-1"
    )
    message = refused(options("--epsilon 1"), capsys)
    assert advice in message or (new == "\xff" and "UTF-8" in message)


def truncated(text: str) -> bytes:
    pd.read_csv(pd.io.common.StringIO(text)).to_parquet("whole.parquet")
    return Path("whole.parquet").read_bytes()[:-100]


@pytest.mark.parametrize("content", ["truncated", "text", "empty"])
def test_a_file_that_is_no_parquet_is_refused(capsys, content: str) -> None:
    contents = {"truncated": truncated(people()), "text": people().encode(), "empty": b""}
    Path("t.parquet").write_bytes(contents[content])
    message = refused(RELEASE.format(table="t.parquet"), capsys)
    assert "not a complete Parquet file" in message
    assert "Nothing was spent" in message


def test_data_that_breaks_while_it_is_read_stays_spent_and_quiet(capsys) -> None:
    """This is the only refusal after the charge: only reading finds the fault."""
    pd.read_csv(pd.io.common.StringIO(people(20_000))).to_parquet("t.parquet", compression=None)
    data = bytearray(Path("t.parquet").read_bytes())
    data[100 : len(data) // 2] = b"\xff" * (len(data) // 2 - 100)
    Path("t.parquet").write_bytes(data)
    with pytest.raises(SystemExit) as ended:
        cli.main(RELEASE.format(table="t.parquet").split())
    err = capsys.readouterr().err
    assert ended.value.code == 2
    assert "could not read the data to the end" in err
    assert PLANTED not in err
    assert Ledger.open("l.db").account().left == {"epsilon": 0.0}
    assert not Path("r.json").exists()


@pytest.mark.parametrize(
    "text",
    [
        people(0),
        people(1),
        people().replace("50000", PLANTED).replace("\n3", f"\n{PLANTED}"),
        people() + '"\n' + f"{PLANTED},,,,,,,\n",
        people() + "\0\0\0,\xff,1e999,\n",
    ],
    ids=["empty", "one row", "text among numbers", "broken lines", "odd bytes"],
)
def test_odd_tables_are_legal(capsys, text: str) -> None:
    Path("people.csv").write_text(text, encoding="latin-1")
    with pytest.raises(SystemExit, match="0"):
        cli.main(options("--epsilon 1").split())
    out, err = capsys.readouterr()
    assert err == ""
    assert PLANTED not in out + Path("r.json").read_text()
    assert Release.load("r.json").correlation().shape == (4, 4)


def test_an_empty_file_lacks_a_header(capsys) -> None:
    Path("people.csv").write_text("")
    assert "header" in refused(options("--epsilon 1"), capsys)


def dpcov(*line: str, **process: object) -> subprocess.CompletedProcess[str]:
    program = str(Path(sys.executable).with_name("dpcov"))
    return subprocess.run(  # type: ignore[call-overload]
        [program, *line], capture_output=True, text=True, timeout=120, check=False, **process
    )


def test_the_installed_program_makes_and_shows_a_release() -> None:
    made = dpcov(*options("--epsilon 1").split())
    assert (made.returncode, made.stderr) == (0, "")
    shown = dpcov("correlation", "r.json", "--csv")
    assert shown.returncode == 0
    assert shown.stdout.startswith(",age,sex=m,sex=f,income,")
    again = dpcov(*options("--epsilon 1 --force").split())
    assert (again.returncode, again.stderr.count("\n")) == (2, 1)
    assert "Not enough budget" in again.stderr


def test_a_pipe_that_closes_early_is_no_error() -> None:
    assert dpcov(*options("--epsilon 1").split()).returncode == 0
    read, write = os.pipe()
    os.close(read)
    program = str(Path(sys.executable).with_name("dpcov"))
    for command in (["correlation", "r.json", "--csv"], ["show", "r.json"]):
        done = subprocess.run(
            [program, *command], stdout=write, stderr=subprocess.PIPE, timeout=60, check=False
        )
        assert b"Traceback" not in done.stderr
        assert b"Unexpected" not in done.stderr
    os.close(write)


def test_a_release_that_can_no_longer_be_written_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the disk becomes full while the table is read, the user still gets the release."""

    def full(output: files.Output, text: str) -> None:
        raise OutputError(f"{str(output.path)!r} can't be written: No space left on device.")

    monkeypatch.setattr(files.Output, "write", full)
    with pytest.raises(SystemExit) as ended:
        cli.main([*options("--epsilon 1 --quiet").split()])
    out, err = capsys.readouterr()
    assert ended.value.code == 2
    assert "The budget is spent" in err
    assert "Nothing was spent" not in err
    Path("kept.json").write_text(out)
    assert Release.load("kept.json").guarantee.budget == PureDP(1.0)
    assert Ledger.open("l.db").account().to_json()["spent"] == {"epsilon": 1.0}


def test_a_disk_without_space_for_the_release_is_found_before_anything_is_spent() -> None:
    levels = [f"level {k}" for k in range(60)]
    Path("people.toml").write_text(f'[columns.sex]\nkind = "categorical"\nlevels = {levels}\n')
    small = Path("l.db").stat().st_size + 2**14  # a spend fits, a release of order 61 does not

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (small, small))

    done = dpcov(*options("--epsilon 1").split(), preexec_fn=limit)
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert "Nothing was spent" in done.stderr
    assert Ledger.open("l.db").account().to_json()["spent"] == {"epsilon": 0.0}
    assert not Path("r.json").exists()
