"""What other systems lack has a portable form, or a refusal in one sentence.

Races, kills and full disks without POSIX are in test_races and test_ledger_processes.
"""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpcov.api.ledger import Ledger
from dpcov.api.ledger import file as ledger_file
from dpcov.cli import output
from dpcov.core import files, keys
from dpcov.core.privacy import PureDP
from dpcov.errors import LedgerError, OutputError
from hidden_posix import FUNCTIONS, command

MOUNT = "\n".join(
    [
        "/dev/disk3s1s1 on / (apfs, sealed, local, read-only, journaled)",
        "map auto_home on /System/Volumes/Data/home (autofs, automounted, nobrowse)",
        "//guest:@nas/share on /Volumes/my share (smbfs, nodev, nosuid, mounted by jo)",
    ]
)


def without_posix(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python code in a process without what only POSIX has."""
    start, program, main = command()[:3]
    lines = [*main.splitlines()[:3], code]
    return subprocess.run(
        [start, program, "\n".join(lines)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="Windows lacks it itself")
def test_what_is_hidden_is_here_otherwise_and_the_import_does_without_it(tmp_path):
    assert sum(hasattr(os, name) for name in FUNCTIONS) > 30
    done = without_posix("import os, dpcov; print(hasattr(os, 'fork'), dpcov.Ledger)", tmp_path)
    assert done.stdout.startswith("False <class"), done.stderr


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="lists open files in /proc")
def test_control_without_posix_an_open_file_is_neither_replaced_nor_removed(tmp_path):
    code = (
        "import os\nopen('other', 'w').close()\nheld = open('x', 'w')\n"
        "for act in (lambda: os.replace('other', 'x'), lambda: os.unlink('x')):\n"
        "    try: act()\n    except PermissionError: print('refused')\n"
        "held.close()\nos.replace('other', 'x')"
    )
    assert without_posix(code, tmp_path).stdout.split() == ["refused"] * 2


WRITES = [
    "from pathlib import Path",
    "from dpcov.core import files, keys",
    "keys.create(Path('k'), None, force=False)",
    "keys.create(Path('k'), None, force=True)",
    "with files.reserved('x', force=False, space=9): pass",
    "try: files.write(Path('missing', 'x'), 'text', force=False)",
    "except files.OutputError as error: print(error)",
    "print(sorted(path.name for path in Path().iterdir()))",
]


def test_without_posix_keys_are_written_and_replaced_and_a_reservation_vanishes(tmp_path):
    done = without_posix("\n".join(WRITES), tmp_path)
    refused = (
        f"The file {str(Path('missing', 'x'))!r} cannot be written: No such file or directory.\n"
    )
    assert (done.stdout, done.stderr) == (f"{refused}['k', 'k.pub']\n", "")


def test_without_locks_and_filelock_an_output_is_refused_in_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setitem(sys.modules, "filelock", None)
    with pytest.raises(OutputError, match=r'needs the package filelock .*install "filelock>='):
        files.write(tmp_path / "x", "text", force=False)


@pytest.mark.parametrize("times", [2, 10**9])
def test_a_scanner_that_has_the_draft_open_is_waited_for(monkeypatch, tmp_path, times):
    calls = []

    def replace(*_):
        calls.append(1)
        if len(calls) <= times:
            raise PermissionError(errno.EACCES, "used by another process")

    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setattr(files, "MAX_REPLACE_SECONDS", 0.2)
    monkeypatch.setattr(Path, "replace", replace)
    if times == 2:
        files._replace(tmp_path / "x", tmp_path / "y")
        assert len(calls) == 3
    else:
        with pytest.raises(PermissionError):
            files._replace(tmp_path / "x", tmp_path / "y")
        assert len(calls) >= 3


def icacls(folder: Path, code: int) -> None:
    """Write a program icacls that lists its arguments and ends with this code."""
    program = folder / "System32" / "icacls.exe"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/said"\nexit {code}\n')
    program.chmod(0o755)


@pytest.mark.skipif(os.name == "nt", reason="the program of Windows itself is there")
@pytest.mark.parametrize("code", [0, 1, None])
def test_without_file_modes_private_files_get_access_rights_or_are_refused(
    monkeypatch, tmp_path, code
):
    (places := tmp_path / "files").mkdir()
    if code is not None:
        icacls(tmp_path, code)
    monkeypatch.setenv("SYSTEMROOT", str(tmp_path))
    monkeypatch.setattr(files, "WITHOUT_MODES", True)
    monkeypatch.setattr(files, "fcntl", None)
    monkeypatch.setitem(sys.modules, "filelock", Unlocked)
    if code == 0:
        Ledger.create(places / "l", PureDP(1.0))
        keys.create(places / "k", None, force=False)
        files.write(places / "public", "text", force=False)
        said = (tmp_path / "said").read_text().splitlines()
        drafts = [files._link_of(places / "k").name, "l"]
        assert sorted(Path(line.split()[0]).name for line in said) == sorted(drafts)
        assert all("/inheritance:r /grant:r *S-1-3-4:F" in line for line in said)
        return
    with pytest.raises(LedgerError, match="Other users could read the private file"):
        Ledger.create(places / "l", PureDP(1.0))
    with pytest.raises(OutputError, match="Choose a folder on an NTFS disk"):
        keys.create(places / "k", None, force=False)
    assert not list(places.iterdir())


class Unlocked:
    """A package filelock whose locks hold nothing."""

    Timeout = TimeoutError

    class FileLock:
        def __init__(self, *_, **__):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/Volumes/my share/x.ledger", "smbfs"),
        ("/Volumes/other/x.ledger", "apfs"),
        ("/System/Volumes/Data/home/x", "autofs"),
    ],
)
def test_the_program_mount_tells_the_file_system_where_there_is_no_proc(path, kind):
    assert ledger_file.file_system(Path(path), ledger_file.from_mount(MOUNT)) == kind
    assert bool(ledger_file._NETWORK.fullmatch(kind)) == (kind == "smbfs")


@pytest.mark.parametrize("path", [r"\\nas\data\x.ledger", r"\\?\UNC\nas\data\x", r"\\wsl$\a\x"])
def test_a_share_of_windows_is_a_network_file_system(monkeypatch, path):
    monkeypatch.setattr(ledger_file.os.path, "realpath", lambda _: path)
    with pytest.raises(LedgerError, match=r"network file system \(smb\)"):
        ledger_file.local("x.ledger")
    for other in (r"C:\data\x.ledger", r"\\?\C:\data\x", r"\\.\pipe\x", "/home/x"):
        assert not ledger_file._SHARE.match(other)


def test_a_closed_pipe_is_found_by_its_write_where_poll_is_missing(monkeypatch):
    monkeypatch.delattr(output.select, "poll", raising=False)
    assert not output._is_broken(1)
