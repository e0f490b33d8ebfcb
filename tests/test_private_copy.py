"""What is on disk meanwhile: the same rows, readable by nobody, taken in steps, gone at the end."""

import contextlib
import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.errors import SourceError
from dpcov.rows.sources import kept
from dpcov.rows.sources import kept as private_copy
from dpcov.rows.sources.arrow import ArrowSource
from dpcov.rows.sources.kept import NO_SPACE_MESSAGE, Copy, NoRoomError
from strategies import moment, same, schema_of

KIND = np.dtype([("number", np.float64), ("code", np.int64), ("id", "V5")])
PLANTED = 1234567.8912345
SCHEMA = schema_of("a", "b", unit={"column": "id", "type": "text", "max_rows": 2})
ROWS = schema_of("a", "b")


def rows(numbers, codes=0) -> np.ndarray:
    found = np.zeros(len(numbers), KIND)
    found["number"], found["code"], found["id"] = numbers, codes, b"S3CRT"
    return found


def people(count: int, planted: float = 5.0) -> pa.Table:
    rng = np.random.default_rng(5)
    ids = [None if i == 0 else f"person {i}" for i in rng.integers(0, count // 3, count).tolist()]
    a, b = rng.uniform(0, 10, (2, count))
    a[0] = planted
    return pa.table({"id": ids, "a": a, "b": b})


@pytest.fixture
def on_disk(monkeypatch) -> None:
    """Write everything to disk at once."""
    monkeypatch.setattr(private_copy, "MAX_MEMORY_BYTES", 0)


def unnamed_files() -> dict[str, Path]:
    """Return the unnamed files that this process has open."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the folder
            if str(link.readlink()).endswith("(deleted)"):
                found[f"{link.name} {link.readlink()}"] = link
    return found


@contextlib.contextmanager
def new_file(folder: Path) -> Iterator[list[Path]]:
    """Yield the unnamed files that appear, and check that the folder stays empty."""
    before, found = unnamed_files(), []
    yield found
    found += [link for name, link in unnamed_files().items() if name not in before]
    assert not list(folder.iterdir())


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return the folder of temporary files."""
    monkeypatch.setattr(private_copy.tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("memory", [0, 100, 2**30])
def test_rows_come_back_part_by_part_in_their_order(monkeypatch, memory):
    monkeypatch.setattr(private_copy, "MAX_MEMORY_BYTES", memory)
    copy = Copy(KIND, 5)
    for start in (0, 5, 10):
        copy.add(rows(range(start, start + 5)), np.array([3, 0, 1, 3, 1]))
    found = [[one for piece in copy.part(part) for one in piece["number"]] for part in range(5)]
    assert found == [[1, 6, 11], [2, 4, 7, 9, 12, 14], [], [0, 3, 5, 8, 10, 13], []]
    assert {bytes(one) for piece in copy.part(0) for one in piece["id"]} == {b"S3CRT"}
    again = [one for piece in copy.part(1) for one in piece["number"]]
    assert again == found[1]


def content_on_disk(folder: Path) -> bytes:
    with new_file(folder) as found:
        copy = Copy(KIND)
        for _ in range(3):
            copy.add(rows([PLANTED] * 100, 77))
    (file,) = found
    assert [piece["number"].tolist() for piece in copy.part()] == [[PLANTED] * 100] * 3
    return file.read_bytes()


NEEDLES = [np.float64(PLANTED).tobytes(), np.int64(77).tobytes(), b"S3CRT"]


@pytest.mark.usefixtures("on_disk")
def test_on_disk_is_no_number_no_code_and_no_id(folder):
    content = content_on_disk(folder)
    assert len(content) >= 300 * KIND.itemsize
    assert not any(needle in content for needle in NEEDLES)


@pytest.mark.usefixtures("on_disk")
def test_equal_rows_are_not_equal_on_disk(folder):
    content = content_on_disk(folder)[: 300 * KIND.itemsize]
    pieces = {content[at : at + 16] for at in range(0, len(content) - 16, 16)}
    assert len(pieces) == len(range(0, len(content) - 16, 16))


@pytest.mark.usefixtures("on_disk")
def test_control_without_encryption_all_would_be_there(folder, monkeypatch):
    monkeypatch.setattr(private_copy._Encrypted, "_crypted", lambda self, place, content: content)
    content = content_on_disk(folder)
    assert all(needle in content for needle in NEEDLES)


@pytest.mark.usefixtures("on_disk")
def test_no_two_copies_have_the_same_key(folder):
    assert content_on_disk(folder)[:4096] != content_on_disk(folder)[:4096]


@pytest.mark.usefixtures("on_disk")
def test_a_file_is_for_its_owner_alone_and_goes_with_the_copy(folder):
    before = unnamed_files().keys()
    umask = os.umask(0)
    try:
        with new_file(folder) as found:
            copy = Copy(KIND)
            copy.add(rows([1.0]))
    finally:
        os.umask(umask)
    assert [stat.S_IMODE(link.stat().st_mode) for link in found] == [0o600]
    del copy
    assert unnamed_files().keys() == before


@pytest.mark.usefixtures("on_disk")
def test_space_is_taken_in_steps_of_one_size_whatever_the_rows(folder, monkeypatch):
    step = 2**18
    monkeypatch.setattr(private_copy, "GROWTH_BYTES", step)
    taken = []
    for cells in ([0.0] * 1000, [PLANTED] * 1000):
        copy, sizes = Copy(KIND), []
        with new_file(folder) as found:
            copy.add(rows(cells))
        for _ in range(60):
            copy.add(rows(cells))
            status = found[0].stat()
            # No hole; the file system may need a block of its own to say where its pieces are.
            assert 0 <= status.st_blocks * 512 - status.st_size <= 2**12
            sizes.append(status.st_size)
        taken.append(sizes)
        assert set(sizes) == {step * k for k in range(1, max(sizes) // step + 1)}
        assert copy.size <= sizes[-1] < copy.size + step
    assert taken[0] == taken[1]


@pytest.mark.usefixtures("on_disk")
def test_where_space_can_not_be_reserved_it_is_written(monkeypatch, folder):
    monkeypatch.setattr(private_copy, "GROWTH_BYTES", 2**12)
    monkeypatch.delattr(os, "posix_fallocate")
    copy = Copy(KIND)
    with new_file(folder) as found:
        copy.add(rows(range(1000)))
    assert found[0].stat().st_blocks * 512 >= 1000 * KIND.itemsize
    assert [piece["number"].tolist() for piece in copy.part()] == [list(range(1000))]


def full(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device: S3CRET")


FULL = {
    "no space": lambda patch: patch.setattr(os, "posix_fallocate", full),
    "no file": lambda patch: patch.setattr(private_copy.tempfile, "TemporaryFile", full),
    "no folder": lambda patch: patch.setattr(private_copy.tempfile, "tempdir", "/nowhere/at/all"),
}


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("why", FULL)
@pytest.mark.parametrize("planted", [5.0, float("nan"), float("inf"), -1e300])
def test_a_full_disk_is_one_outcome_and_spent_whatever_the_cells(
    tmp_path, monkeypatch, why, planted
):
    ledger = Ledger.create(tmp_path / "l.ledger", PureDP(2.0))
    FULL[why](monkeypatch)
    with pytest.raises(NoRoomError) as reported:
        dpcov.release(people(10, planted), schema=SCHEMA, epsilon=1.0, ledger=ledger)
    assert str(reported.value) == NO_SPACE_MESSAGE
    assert isinstance(reported.value, SourceError)
    assert reported.value.__context__ is None
    assert ledger.account().spent == {"epsilon": 1.0}


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("why", FULL)
def test_a_full_disk_does_not_stop_what_may_be_read_again(monkeypatch, why):
    FULL[why](monkeypatch)
    table = people(100).select(["a", "b"])
    source = kept.Kept(ArrowSource(table), ROWS)
    assert same(moment(source, ROWS), moment(table, ROWS))
    with pytest.raises(NoRoomError):
        moment(kept.Kept(ArrowSource(table), ROWS, once=True), ROWS)


def test_a_small_table_needs_no_disk(monkeypatch):
    for fill in FULL.values():
        fill(monkeypatch)
    assert moment(people(3000), SCHEMA).unit_count > 600


@pytest.mark.usefixtures("on_disk")
def test_a_file_is_closed_when_a_question_fails(folder):
    before = unnamed_files().keys()

    def cut_off():
        yield people(50).to_batches()[0]
        raise ValueError("S3CRET")

    reader = pa.RecordBatchReader.from_batches(people(3).schema, cut_off())
    with pytest.raises(SourceError, match="could not read the data to the end"):
        moment(reader, SCHEMA)
    assert unnamed_files().keys() == before


def holds_a_file(process: int, folder: Path) -> bool:
    """Return True if a process has an unnamed file in the folder."""
    found = []
    for link in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append(str(link.readlink()))
    return any(str(folder) in name and "(deleted)" in name for name in found)


CRASH = """
from dpcov.rows.sources import kept as private_copy
private_copy.MAX_MEMORY_BYTES = 0
import test_private_copy
table = test_private_copy.people(200_000)
print("ready", flush=True)
for _ in range(1000):
    test_private_copy.moment(table, test_private_copy.SCHEMA)
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.0, 0.3])
def test_nothing_is_left_after_a_crash(tmp_path, wait):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    begun = time.monotonic()
    while not holds_a_file(process.pid, tmp_path):  # it does most of the time
        assert time.monotonic() - begun < 60
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not list(tmp_path.iterdir())
