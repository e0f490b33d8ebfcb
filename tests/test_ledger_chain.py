"""The hash chain: no edit of a ledger, however small, is ever spent from."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dpcov import cli
from dpcov.api.ledger import Ledger
from dpcov.api.ledger import file as ledger_file
from dpcov.core.privacy import ZCDP, PureDP
from dpcov.errors import DpcovError, LedgerError
from tables_for_tests import of, spend, unchained

TABLES = ("datasets", "budgets", "entries", "chain")
Edit = Callable[[sqlite3.Connection], object]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Create a ledger with two data sets and three releases."""
    place = tmp_path / "hospital.ledger"
    ledger = Ledger.create(place, PureDP(1.0))
    Ledger.create(place, ZCDP(1.0), dataset="staff")
    for amount in (0.1, 0.2, 0.3):
        ledger.reserve(of(PureDP(amount)), dataset="default", note="laplace")
    return place


def edit(path: Path, change: Edit) -> None:
    """Change a ledger behind its back, keeping its definitions."""
    db = sqlite3.connect(path, isolation_level=None)
    definitions = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    triggers = definitions.fetchall()
    for name, _ in triggers:
        db.execute(f"DROP TRIGGER {name}")
    change(db)
    for _, sql in triggers:
        db.execute(sql)
    db.close()


def assert_refused(path: Path) -> None:
    ledger = Ledger(path)
    with pytest.raises(LedgerError, match="damaged or was edited, so dpcov spends nothing"):
        ledger.reserve(of(PureDP(0.01)), dataset="default")
    with pytest.raises(LedgerError, match="damaged"):
        ledger.verify()
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.create(path, PureDP(1.0), dataset="more")


def test_control_a_ledger_that_was_only_opened_and_closed_is_whole(path: Path) -> None:
    edit(path, lambda db: None)
    chain = Ledger(path).verify()
    assert len(chain.digests) == 7
    assert chain.holds(chain.head)


def cells() -> list[tuple[str, str]]:
    columns = {**ledger_file._TABLES, **ledger_file._CHAIN}
    return [(table, column) for table in TABLES for column in ("id", *columns[table])]


@pytest.mark.parametrize(("table", "column"), cells())
@pytest.mark.parametrize("row", ["min(id)", "max(id)"])
def test_an_edited_cell_is_found(path: Path, table: str, column: str, row: str) -> None:
    value = "id + 100" if column == "id" else f"replace({column} || ' ', '0', '1')"
    which = f"id = (SELECT {row} FROM {table})"  # noqa: S608
    query = f"UPDATE {table} SET {column} = {value} WHERE {which}"  # noqa: S608
    edit(path, lambda db: db.execute(query))
    assert_refused(path)


EDITS: dict[str, Edit] = {
    "entry cut out": lambda db: db.execute("DELETE FROM entries WHERE id = 2"),
    "last entry cut off": lambda db: db.execute("DELETE FROM entries WHERE id = 3"),
    "last entry and its link cut off": lambda db: db.executescript(
        "DELETE FROM entries WHERE id = 3; DELETE FROM chain WHERE id = 7"
    ),
    "all entries and links cut off": lambda db: db.executescript(
        "DELETE FROM entries; DELETE FROM chain WHERE source = 'entries'"
    ),
    "entry put in": lambda db: db.execute(
        "INSERT INTO entries SELECT NULL, dataset, time, note, budget, neighbors, unit FROM entries"
    ),
    "budget put in": lambda db: db.execute(
        "INSERT INTO budgets VALUES (NULL, 'default', '{\"epsilon\": 9}')"
    ),
    "entries swapped": lambda db: db.executescript(
        "UPDATE entries SET id = -id WHERE id < 3; UPDATE entries SET id = 3 + id WHERE id < 0"
    ),
    "entry of bytes": lambda db: db.execute("UPDATE entries SET note = x'ff00' WHERE id = 1"),
    "no text": lambda db: db.execute("UPDATE entries SET note = CAST(x'ff' AS TEXT) WHERE id = 1"),
    "chain emptied": lambda db: db.execute("DELETE FROM chain"),
    "chain dropped": lambda db: db.execute("DROP TABLE chain"),
    "entries dropped": lambda db: db.execute("DROP TABLE entries"),
    "older version": lambda db: db.execute("PRAGMA user_version = 1"),
    "inserts swallowed": lambda db: db.execute(
        "CREATE TRIGGER quiet BEFORE INSERT ON entries BEGIN SELECT RAISE(IGNORE); END"
    ),
    "a view": lambda db: db.execute("CREATE VIEW more AS SELECT * FROM entries"),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edited_ledger_is_found(path: Path, name: str) -> None:
    change = EDITS[name]
    if name.endswith("dropped"):
        db = sqlite3.connect(path)
        change(db)
        db.close()
    else:
        edit(path, change)
    assert_refused(path)


def test_a_dropped_trigger_is_found(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("DROP TRIGGER entries_DELETE")
    db.close()
    assert_refused(path)


def test_pages_that_do_not_add_up_are_found(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(36)  # of the header: how many pages are free
        file.write((5).to_bytes(4, "big"))
    assert_refused(path)


@pytest.mark.parametrize("count", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_no_overwritten_byte_makes_a_spend_vanish(path: Path, count: int) -> None:
    """Some bytes of a database file mean nothing; where they do, the ledger is refused."""
    content, rng = path.read_bytes(), np.random.default_rng(count)
    before = Ledger(path).account("default").spent
    used = np.flatnonzero(np.frombuffer(content, np.uint8))
    refused = 0
    for at in rng.choice(used, count):
        mutant = bytearray(content)
        mutant[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(mutant)
        try:
            Ledger(path).reserve(of(PureDP(0.1)), dataset="default")
        except DpcovError:
            refused += 1
        else:
            assert Ledger(path).account("default").spent["epsilon"] == before["epsilon"] + 0.1
    assert refused > 0.7 * count


def test_a_ledger_without_a_chain_is_shown_and_neither_verified_nor_spent_from(path: Path) -> None:
    account = Ledger(path).account("default")
    unchained(path)
    content = path.read_bytes()
    ledger = Ledger.open(path)
    assert ledger.account("default") == account
    for attempt in (
        ledger.verify,
        lambda: ledger.reserve(of(PureDP(0.1)), dataset="default"),
        lambda: ledger.add_budget(PureDP(1.0), dataset="default"),
        lambda: Ledger.create(path, PureDP(1.0), dataset="more"),
    ):
        with pytest.raises(LedgerError, match=r"no hash chain.*`dpcov ledger migrate`"):
            attempt()
    assert path.read_bytes() == content


def test_a_chain_that_was_started_late_says_for_ever_what_is_before_it(path: Path) -> None:
    unchained(path)
    ledger = Ledger.open(path)
    assert (len(ledger.migrate().digests), ledger.verify().unverified) == (8, 7)
    ledger.reserve(of(PureDP(0.1)), dataset="default")
    assert (len(ledger.verify().digests), ledger.verify().unverified) == (9, 7)
    assert ledger.account("default").spent == {"epsilon": 0.7}
    with pytest.raises(LedgerError, match="already has a hash chain"):
        ledger.migrate()
    edit(path, lambda db: db.execute("UPDATE entries SET note = 'other' WHERE id = 1"))
    assert_refused(path)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM chain WHERE source = 'start'",
        "UPDATE chain SET row = 'earlier' WHERE source = 'start'",
        "UPDATE chain SET id = 1000 WHERE source = 'start'",
        "INSERT INTO chain SELECT NULL, source, row, digest FROM chain WHERE source = 'start'",
    ],
)
def test_the_mark_of_a_late_start_is_part_of_the_chain(path: Path, change: str) -> None:
    unchained(path)
    Ledger.open(path).migrate()
    edit(path, lambda db: db.execute(change))
    assert_refused(path)


def test_a_chain_that_was_taken_off_to_edit_is_never_whole_unnoticed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A writer of the file can start a chain too. The mark stays, and no old head fits."""
    head = Ledger(path).verify().head
    unchained(path)
    edit(path, lambda db: db.execute("UPDATE entries SET budget = '{\"epsilon\": 1e-9}'"))
    code, text = run(capsys, str(path))
    assert (code, "no hash chain" in text) == (2, True)
    Ledger.open(path).migrate()
    code, text = run(capsys, str(path), "--json")
    assert (code, json.loads(text)["unverified"]) == (0, 7)
    assert "first 7 records are older" in run(capsys, str(path))[1]
    code, text = run(capsys, str(path), "--head", head)
    assert (code, "does not contain the head" in text) == (2, True)


def test_a_refused_spend_leaves_an_older_ledger_as_it_was(path: Path) -> None:
    unchained(path)
    content = path.read_bytes()
    with pytest.raises(LedgerError, match="no hash chain"):
        Ledger.open(path).reserve(of(PureDP(9.0)), dataset="default")
    assert path.read_bytes() == content


def run(capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["ledger", "verify", *line])
    out, err = capsys.readouterr()
    return int(str(ended.value.code)), out + err


def test_verify_prints_the_head_and_finds_a_copy_that_was_put_back(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(path, tmp_path / "old")
    code, text = run(capsys, str(path), "--json")
    early = json.loads(text)["head"]
    assert (code, json.loads(text)["records"]) == (0, 7)
    spend_more = Ledger(path)
    spend_more.reserve(of(PureDP(0.1)), dataset="default")
    code, text = run(capsys, str(path), "--head", early)
    assert code == 0
    assert "is valid: 8 records" in text
    late = text.split("head ")[1].split()[0]
    code, text = run(capsys, str(tmp_path / "old"), "--head", late)
    assert code == 2
    assert "does not contain the head" in text
    edit(path, EDITS["last entry cut off"])
    code, text = run(capsys, str(path))
    assert code == 2
    assert "damaged or was edited" in text


def test_each_digest_covers_all_before_it(path: Path) -> None:
    one, other = path.with_name("a"), path.with_name("b")
    for place, first in ((one, 0.1), (other, 0.2)):
        spend(Ledger.create(place, PureDP(1.0)), PureDP(first), PureDP(0.3))
    heads = [Ledger(place).verify() for place in (one, other)]
    assert heads[0].digests[:2] == heads[1].digests[:2]
    assert not set(heads[0].digests[2:]) & set(heads[1].digests[2:])
