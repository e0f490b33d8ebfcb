"""Sums of parts: the release of the whole, owner-only files, nothing that passes for a release."""

import json
import stat
from pathlib import Path

import numpy as np
import pytest

import dpcov
from dpcov.api import prepare
from dpcov.cli import main
from dpcov.errors import DpcovError, MechanismError, OutputError, SourceError
from dpcov.ledger import Ledger
from dpcov.partial import PartialMoment
from dpcov.privacy import PureDP
from dpcov.schema import Schema
from dpcov.sources import open_rows
from tables_for_tests import PLANTED, people, write_people


def run(arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments.split())
    return int(ended.value.code or 0)


@pytest.fixture
def parts(tmp_path, monkeypatch) -> Path:
    """A folder with a table, its two parts, and the sums of each."""
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path, 400)
    head, *lines = people(400).splitlines(keepends=True)
    Path("north.csv").write_text("".join([head, *lines[:150]]))
    Path("south.csv").write_text("".join([head, *lines[150:]]))
    for part in ("north", "south"):
        assert run(f"moments {part}.csv --schema people.toml --out {part}.sums") == 0
    return tmp_path


def test_merged_parts_are_the_moment_of_the_whole(parts):
    assert run("merge north.sums south.sums --out all.sums") == 0
    found = PartialMoment.load(parts / "all.sums")
    whole = open_rows(parts / "people.csv", Schema.load(parts / "people.toml")).second_moments()[0]
    assert (found.units == whole.units).all()
    assert found.rows == whole.unit_count == 400
    assert len(found.parts) == 2


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_a_release_of_sums_is_that_of_the_rows(parts, neighbors):
    Path("people.toml").write_text(Path("people.toml").read_text() + '[file]\nrecords = "lines"\n')
    for part in ("north", "south"):
        assert run(f"moments {part}.csv --schema people.toml --out {part}.sums --force") == 0
    run("merge north.sums south.sums --out all.sums")
    asked = {"schema": "people.toml", "epsilon": 1.0, "seed": 3, "neighbors": neighbors}
    found = dpcov.release("all.sums", **asked)
    expected = dpcov.release("people.csv", mechanism=found.mechanism, **asked)
    assert np.array_equal(found.published, expected.published)
    assert found.unit_count == expected.unit_count


def test_sums_are_released_whatever_the_goal(parts):
    run("merge north.sums south.sums --out all.sums")
    asked = {"schema": "people.toml", "epsilon": 1.0, "goal": "correlation"}
    chosen = {data: prepare(data, **asked).mechanism.name for data in ("all.sums", "people.csv")}
    assert chosen["people.csv"] == "standardized"
    assert dpcov.release("all.sums", **asked).mechanism == chosen["all.sums"] != "standardized"


def test_the_command_line_releases_sums_and_books_them(parts, capfd):
    Ledger.create("l.ledger", PureDP(2.0))
    asked = "release north.sums --schema people.toml --epsilon 1 --ledger l.ledger --out r.json"
    assert run(asked) == 0
    assert Ledger.open("l.ledger").account().spent == {"epsilon": 1.0}
    assert PLANTED not in "".join(capfd.readouterr())


def test_files_of_sums_are_for_their_owner_and_say_that_they_are_private(parts):
    run("merge north.sums south.sums --out all.sums")
    for path in parts.glob("*.sums"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "PRIVATE DATA, NOT A RELEASE" in path.read_text()[:100]
    assert not list(parts.glob(".dpcov-*"))


@pytest.mark.parametrize("command", ["show", "correlation", "covariance", "pca"])
def test_sums_are_refused_as_a_release(parts, command, capfd):
    capfd.readouterr()
    assert run(f"{command} north.sums") == 2
    shown = "".join(capfd.readouterr())
    document = json.loads((parts / "north.sums").read_text())
    assert not any(str(cell) in shown for cell in [*document["units"], 150] if cell > 99)


def test_a_part_counts_once(parts):
    run("merge north.sums south.sums --out all.sums")
    for files in ("north.sums north.sums", "all.sums north.sums", "all.sums all.sums"):
        assert run(f"merge {files} --out twice.sums") == 2
    assert not Path("twice.sums").exists()


def test_parts_with_different_schemas_do_not_add_up(parts):
    Path("other.toml").write_text(Path("people.toml").read_text().replace("100", "101"))
    run("moments south.csv --schema other.toml --out other.sums")
    assert run("merge north.sums other.sums --out all.sums") == 2
    with pytest.raises(SourceError, match="another schema"):
        prepare("north.sums", schema="other.toml", epsilon=1.0)
    with pytest.raises(SourceError, match="another schema"):
        prepare("north.sums", schema="people.toml", radius=0.5, epsilon=1.0)


def test_persons_are_refused(parts):
    text = Path("people.toml").read_text() + '[unit]\ncolumn = "note"\nmax_rows = 1\n'
    Path("persons.toml").write_text(text)
    assert run("moments south.csv --schema persons.toml --out p.sums") == 2
    assert not Path("p.sums").exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"mechanism": "preconditioned"},
        {"mechanism": "eigenvector-sampling"},
        {"mechanism": "stable-covariance", "delta": 1e-6},
        {"mechanism": "heavy-tailed", "delta": 1e-6},
        {"mechanism": "gaussian", "delta": 1e-6, "radius": "private"},
        {"radius": "private"},
    ],
)
def test_a_mechanism_that_needs_rows_is_refused_before_anything_is_spent(parts, fields):
    with pytest.raises(MechanismError, match="more than the sums"):
        prepare("north.sums", schema="people.toml", epsilon=1.0, **fields)


def test_sums_are_no_rows(parts):
    with pytest.raises(SourceError, match="holds sums"):
        open_rows("north.sums", Schema.load("people.toml"))


@pytest.mark.parametrize("damage", ["cut", "rows", "units", "json"])
def test_a_damaged_file_is_refused_without_a_word_of_it(parts, damage):
    path = parts / "north.sums"
    text = path.read_text()
    document = json.loads(text)
    if damage == "rows":
        document["rows"] = 1
    if damage == "units":
        document["units"] = document["units"][:-1]
    changed = {"cut": text[: len(text) // 2], "json": text[:-20] + PLANTED}
    path.write_text(changed.get(damage, json.dumps(document) + "\n"))
    with pytest.raises(SourceError, match="damaged") as caught:
        PartialMoment.load(path)
    assert caught.value.__context__ is None
    assert PLANTED not in str(caught.value)


def test_an_output_is_never_an_input_nor_replaced_unasked(parts):
    before = Path("north.sums").read_text()
    assert run("merge north.sums south.sums --out north.sums --force") == 2
    assert run("moments south.csv --schema people.toml --out north.sums") == 2
    assert Path("north.sums").read_text() == before
    with pytest.raises(OutputError):
        PartialMoment.load(Path("north.sums")).save(Path("missing/x.sums"))


def test_what_is_no_file_of_sums_is_refused(parts):
    for name in ("people.csv", "nowhere.sums"):
        with pytest.raises(DpcovError, match="no file of sums"):
            PartialMoment.load(parts / name)
    assert "1" not in repr(PartialMoment.load(parts / "north.sums")).split(" at 0x")[0]
