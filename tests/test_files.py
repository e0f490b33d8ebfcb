"""Files that are read and written: whole or not at all, one of many, never what is no file."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest

from dpcov.api.ledger import Ledger
from dpcov.cli.metadata import read as read_metadata
from dpcov.core import files
from dpcov.core.files import read_text, reserved, write
from dpcov.core.privacy import PureDP
from dpcov.errors import DpcovError, LedgerError, OutputError, ReleaseError, SchemaError
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from tables_for_tests import write_people
from test_races import START

DPCOV = [sys.executable, "-c", "from dpcov.cli import main; main()"]
RELEASE = "release people.csv --schema people.toml --epsilon 0.5 --mechanism matrix-laplace -q"


def one_file_gets_one_release(folder: Path, processes: int) -> None:
    """Start this many releases to one file; check that one succeeds and that no other spends.

    `make trust` calls this function with more processes.
    """
    write_people(folder)
    ledger = Ledger.create(folder / "l.db", PureDP(100.0))
    command = [*DPCOV, *RELEASE.split(), "--ledger", "l.db", "--out", "r.json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started = [subprocess.Popen(command, cwd=folder, **pipes) for _ in range(processes)]
    outputs = [process.communicate(timeout=240) for process in started]
    codes = [process.returncode for process in started]
    assert sorted(codes) == [0] + [2] * (processes - 1)
    refusals = [err for code, (_, err) in zip(codes, outputs, strict=True) if code]
    assert all("Nothing was spent." in err for err in refusals)
    assert len(ledger.account().entries) == 1
    assert Release.load(folder / "r.json").guarantee.budget == PureDP(0.5)
    names = {"people.csv", "people.toml", "l.db", "r.json"}
    assert {path.name for path in folder.iterdir()} == names


@pytest.mark.parametrize("processes", [3, pytest.param(6, marks=pytest.mark.slow)])
def test_of_several_releases_to_one_file_all_but_one_are_refused(
    tmp_path: Path, processes: int
) -> None:
    one_file_gets_one_release(tmp_path, processes)


def overtake(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another process write between opening and locking, so that the lock is on a lost file."""
    first, locked = ExitStack(), files._lock
    output = first.enter_context(reserved(path, force=False))

    def late(name: Path, held: int) -> None:
        monkeypatch.setattr(files, "_lock", locked)
        output.write("first")
        first.close()
        locked(name, held)

    monkeypatch.setattr(files, "_lock", late)
    write(path, "second", force=False)


def test_a_file_that_was_replaced_while_it_was_opened_is_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputError, match="force=True"):
        overtake(tmp_path / "out", monkeypatch)
    assert (tmp_path / "out").read_text() == "first"
    monkeypatch.setattr(files, "_is_named", lambda *_: True)  # control
    overtake(tmp_path / "lost", monkeypatch)
    assert (tmp_path / "lost").read_text() == "second"


def test_what_is_reserved_and_not_written_vanishes(tmp_path: Path) -> None:
    with reserved(tmp_path / "x", force=False, space=1000):
        assert [path.name for path in tmp_path.iterdir()] == ["x"]
    assert not list(tmp_path.iterdir())
    (tmp_path / "x").write_text("old")
    with reserved(tmp_path / "x", force=True):
        pass
    assert (tmp_path / "x").read_text() == "old"


@pytest.mark.parametrize("when", ["reserved", "written"])
def test_a_killed_run_leaves_an_empty_name_that_the_next_takes_over(
    tmp_path: Path, when: str
) -> None:
    die = "import os; os.kill(os.getpid(), 9)"
    body = (
        die if when == "reserved" else f"os = __import__('os'); os.fsync = lambda _: exec({die!r})"
    )
    body += "\n output.write('new' * 9999)"
    done = subprocess.run([sys.executable, "-c", START + body], cwd=tmp_path, check=False)
    assert done.returncode == -signal.SIGKILL
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"")]
    write(tmp_path / "x", "next", force=False)
    assert (tmp_path / "x").read_text() == "next"


def without_unnamed_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a file system without unnamed files."""
    right = os.open

    def opened(path, flags, *rest, **more):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no")
        return right(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", opened)


@pytest.mark.parametrize("call", ["is there", "fails here", "is unknown, as on macOS"])
def test_the_space_of_an_output_is_reserved_with_and_without_a_call_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "no")

    if call.startswith("is unknown"):
        monkeypatch.delattr(os, "posix_fallocate")
    elif call == "fails here":
        monkeypatch.setattr(os, "posix_fallocate", unsupported)
    with reserved(tmp_path / "x", force=False, space=2**16) as output:
        assert os.fstat(output.draft).st_blocks * 512 >= 2**16
        output.write("new")
    assert (tmp_path / "x").read_text() == "new"


def test_a_disk_that_takes_a_part_of_the_zeros_alone_is_too_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half(_: int, content: bytes) -> int:
        return len(content) // 2

    monkeypatch.delattr(os, "posix_fallocate")
    monkeypatch.setattr(files, "os", SimpleNamespace(**vars(os) | {"write": half}))
    with (
        pytest.raises(OutputError, match="No space left"),
        reserved(tmp_path / "x", force=False, space=10),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_where_no_file_is_without_a_name_the_draft_of_a_killed_run_is_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_unnamed_files(monkeypatch)
    files._link_of(tmp_path / "x").write_text("of a killed run")
    with reserved(tmp_path / "x", force=False, space=10) as output:
        assert len(list(tmp_path.iterdir())) == 2
        output.write("new")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "new")]
    with reserved(tmp_path / "y", force=False):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_where_there_are_no_locks_it_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with pytest.raises(OutputError, match="a file system without locks"):
        write(tmp_path / "x", "new", force=False)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signals_that_end_a_run_leave_nothing_behind(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    write_people(tmp_path)
    before = {path.name for path in tmp_path.iterdir()}
    slow = (
        "import signal, time; from dpcov.rows.sources.rows import Rows\n\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # whoever runs the tests may ignore it
        "Rows.second_moments = lambda *_, **__: time.sleep(60)\n"
        "from dpcov.cli import main; main()"
    )
    command = [sys.executable, "-c", slow, *RELEASE.split(), "--out", "r.json"]
    process = subprocess.Popen(command, cwd=tmp_path)
    deadline = time.monotonic() + 60
    while not (tmp_path / "r.json").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.5)
    process.send_signal(number)
    assert process.wait(timeout=60) == code
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    code = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from dpcov.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
        "os.kill(os.getpid(), signal.SIGHUP)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# What is no file.


def no_files(folder: Path) -> dict[str, Path]:
    """Yield paths of things that are not regular files."""
    os.mkfifo(folder / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "socket"))
    (folder / "link").symlink_to(folder / "target")
    (folder / "target").write_text("kept")
    (folder / "endless").symlink_to("/dev/zero")
    names = ("fifo", "socket", "link", "endless")
    return {name: folder / name for name in names} | {"device": Path("/dev/null")}


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_regular_file_is_never_written_or_replaced(tmp_path: Path, force: bool) -> None:
    """A symbolic link is none either: what it stands for has a name of its own."""
    places = no_files(tmp_path)
    before = {name: os.lstat(path).st_ino for name, path in places.items()}
    for path in places.values():
        with pytest.raises(OutputError, match="is not a regular file"):
            write(path, "new", force=force)
    assert {name: os.lstat(path).st_ino for name, path in places.items()} == before
    assert (tmp_path / "target").read_text() == "kept"
    assert not list(tmp_path.glob(".dpcov*"))


READERS: dict[str, tuple[Callable[[Path], object], type[DpcovError]]] = {
    "schema": (Schema.load, SchemaError),
    "release": (Release.load, ReleaseError),
    "metadata": (lambda path: read_metadata(path, "t", ["a"]), SchemaError),
    "ledger": (Ledger.open, LedgerError),
    "new ledger": (lambda path: Ledger.create(path, PureDP(1.0)), LedgerError),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["fifo", "socket", "endless", "device"])
def test_what_is_no_regular_file_is_not_read(tmp_path: Path, name: str, reader: str) -> None:
    read, failure = READERS[reader]
    with pytest.raises(failure, match=r"no(t a)? regular file|No such device"):
        read(no_files(tmp_path)[name])


@pytest.mark.parametrize("reader", READERS)
def test_a_file_that_is_too_large_is_not_read(tmp_path: Path, reader: str) -> None:
    read, failure = READERS[reader]
    with (path := tmp_path / "large").open("wb") as file:
        file.truncate(2**40)  # occupies no space on the disk
    tracemalloc.start()
    with pytest.raises(failure, match="larger than"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


def test_a_text_is_read_up_to_its_limit_and_errors_name_file_and_reason(tmp_path: Path) -> None:
    (path := tmp_path / "x").write_bytes(b"a" * 2**20)
    assert read_text(path, "thing", OutputError, most=2**20) == "a" * 2**20
    for content, most, reason in ((b"a" * 2, 1, "larger than 0 MiB"), (b"\xff", 9, "not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(OutputError, match=f"^The thing '.*x' cannot be read: it is {reason}"):
            read_text(path, "thing", OutputError, most=most)
    for place, reason in (
        (tmp_path, "a directory"),
        (tmp_path / "no", "No such"),
        ("\0", "not a valid file name"),
    ):
        with pytest.raises(OutputError, match=reason):
            read_text(place, "thing", OutputError, most=9)


def test_one_module_alone_writes_files() -> None:
    """No other module creates, truncates or renames files, except tools for the makers of dpcov."""
    own = {"files.py", "cli/demo/__init__.py", "json_schemas.py", "papers/wishart.py"}
    root = Path(files.__file__).parent
    acts = ("write_text(", "write_bytes(", ".replace(path", "os.replace", "os.rename", "mkstemp")
    found = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        if any(act in path.read_text() for act in (*acts, 'open("w', "O_CREAT", "NamedTemporary"))
    }
    private = {name for name in found if name.startswith("rows/sources/")}  # copies without a name
    assert found - own - private <= {"ledger.py"}
