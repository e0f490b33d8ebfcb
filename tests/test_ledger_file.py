"""The ledger as a file: damage, locks, foreign files; races are in test_ledger_processes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpcov.api import ledger as ledger_module
from dpcov.api.ledger import Ledger
from dpcov.api.ledger import file as ledger_file
from dpcov.api.ledger.file import file_system
from dpcov.core.privacy import PureDP
from dpcov.errors import LedgerError
from tables_for_tests import of, spend

NOTHING_SPENT = "Nothing was spent"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hospital.ledger"


def test_what_was_spent_is_there_when_the_ledger_is_opened_again(path: Path) -> None:
    spend(Ledger.create(path, PureDP(1.0)), PureDP(0.5))
    assert Ledger.open(path).account().left == {"epsilon": 0.5}


def test_a_ledger_is_readable_by_its_owner_only(path: Path) -> None:
    Ledger.create(path, PureDP(1.0))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_ledger_is_one_file(path: Path) -> None:
    spend(Ledger.create(path, PureDP(1.0)), PureDP(0.5))
    assert list(path.parent.iterdir()) == [path]


def test_every_commit_is_synced_with_its_folder(path: Path) -> None:
    Ledger.create(path, PureDP(1.0))
    with ledger_file.transaction(path, write=False) as db:
        assert tuple(db.execute("PRAGMA synchronous").fetchone()) == (3,)
        assert tuple(db.execute("PRAGMA journal_mode").fetchone()) == ("delete",)


@pytest.mark.parametrize("change", ["DELETE FROM {}", "UPDATE {} SET id = id + 1"])
@pytest.mark.parametrize("table", ["datasets", "budgets", "entries", "results", "endings"])
def test_no_row_is_ever_changed_or_given_back(path: Path, table: str, change: str) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    spend(ledger, PureDP(0.5))
    ledger.finish(1)
    ledger.renew("more")
    db = sqlite3.connect(path)
    with pytest.raises(sqlite3.IntegrityError, match="append only"):
        db.execute(change.format(table))
    db.close()


def test_a_clock_that_goes_back_does_not_matter(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    spend(ledger, PureDP(0.1))

    past = SimpleNamespace(now=lambda zone: datetime(1999, 1, 1, tzinfo=zone))
    monkeypatch.setattr(ledger_module, "datetime", past)
    account = spend(ledger, PureDP(0.2))
    assert account.entries[0].time > account.entries[1].time
    assert [entry.id for entry in account.entries] == [1, 2]
    assert account.spent == {"epsilon": 0.3}


def test_a_missing_ledger_says_how_to_create_one(path: Path) -> None:
    with pytest.raises(LedgerError, match="dpcov ledger create"):
        Ledger.open(path)
    assert not path.exists()


def test_a_ledger_that_vanished_is_not_made_anew(path: Path) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    path.unlink()
    with pytest.raises(LedgerError, match=NOTHING_SPENT):
        spend(ledger, PureDP(0.1))
    assert not path.exists()


def another_database(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE entries (id)")
    db.close()


def another_version(path: Path) -> None:
    Ledger.create(path, PureDP(1.0))
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 4")
    db.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_text("name,age\n" * 999),
        lambda path: path.write_bytes(b""),
        another_database,
        another_version,
    ],
    ids=["text", "empty", "another database", "another version"],
)
def test_a_file_that_is_no_ledger_is_refused(path: Path, make: Callable[[Path], object]) -> None:
    make(path)
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.open(path)


def test_create_leaves_another_file_alone(path: Path) -> None:
    path.write_text("name,age\n" * 999)
    with pytest.raises(LedgerError, match="not a ledger"):
        Ledger.create(path, PureDP(1.0))
    assert path.read_text() == "name,age\n" * 999


def test_an_interrupted_creation_can_be_repeated(path: Path) -> None:
    path.touch()
    assert Ledger.create(path, PureDP(1.0)).account().left == {"epsilon": 1.0}


@pytest.mark.parametrize("page", range(1, 5))
def test_a_damaged_page_is_never_read_as_unspent(path: Path, page: int) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    spend(ledger, PureDP(0.9))
    with path.open("r+b") as file:
        file.seek(4096 * page)
        file.write(b"\xff" * 4096)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger.open(path)
    with pytest.raises(LedgerError, match="damaged"):
        ledger.reserve(of(PureDP(0.9)))


@pytest.mark.parametrize("text", ["{}", "[]", "nonsense", '{"epsilon": -1}', '{"epsilon": NaN}'])
def test_an_entry_that_makes_no_sense_is_never_skipped(path: Path, text: str) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    spend(ledger, PureDP(0.1))
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DROP TRIGGER entries_UPDATE")
    db.execute("UPDATE entries SET budget = ?", (text,))
    db.close()
    with pytest.raises(LedgerError, match="damaged"):
        spend(ledger, PureDP(0.1))


@pytest.mark.parametrize("place", ["/proc/x.ledger", "/nowhere/x.ledger", "."])
def test_a_place_that_holds_no_files_is_refused(place: str) -> None:
    with pytest.raises(LedgerError):
        Ledger.create(place, PureDP(1.0))


def test_a_locked_ledger_is_refused_after_the_wait(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda place, **o: connect(place, **{**o, "timeout": 0.05})
    )
    with (
        ledger_file.transaction(path, write=True),
        pytest.raises(LedgerError, match="is locked by another process"),
    ):
        ledger.reserve(of(PureDP(0.1)))
    assert not ledger.account().entries


MOUNTS = "\n".join(
    [
        "/dev/vda / ext4 rw,relatime 0 0",
        "server:/export /home nfs4 rw 0 0",
        "/dev/sdb /home/local xfs rw 0 0",
        r"//server/share /mnt/my\040share cifs rw 0 0",
        "ada@host: /mnt/ssh fuse.sshfs rw 0 0",
        "tmpfs /mnt/ssh tmpfs rw 0 0",
    ]
)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/x.ledger", "ext4"),
        ("/homes/x.ledger", "ext4"),
        ("/home/ada/x.ledger", "nfs4"),
        ("/home/local/x.ledger", "xfs"),
        ("/mnt/my share/x.ledger", "cifs"),
        ("/mnt/ssh/x.ledger", "tmpfs"),
    ],
)
def test_the_innermost_and_latest_mount_holds_the_file(path: str, kind: str) -> None:
    assert file_system(Path(path), MOUNTS) == kind


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "fuse.sshfs"])
def test_a_network_file_system_is_refused(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger.create(path, PureDP(1.0))
    monkeypatch.setattr(ledger_file, "file_system", lambda *_: kind)
    for action in (lambda: Ledger.create(path, PureDP(1.0)), lambda: Ledger.open(ledger.path)):
        with pytest.raises(LedgerError, match=f"network file system .{kind}."):
            action()


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "apfs", "tmpfs", "overlay", "fuseblk"])
def test_a_local_file_system_is_accepted(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "file_system", lambda *_: kind)
    assert Ledger.create(path, PureDP(1.0)).datasets() == ["default"]
