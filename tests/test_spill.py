"""What is put on disk meanwhile: the same answer, readable by nobody else, gone after a crash."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpcov.errors import SourceError
from dpcov.sources import open_rows, persons, spill
from dpcov.sources.spill import Spill, private_array
from strategies import moment, same, schema_of

SCHEMA = schema_of("a", "b", unit={"column": "id", "max_rows": 2})
BATCH = pa.record_batch({"id": [b"x", None, b"z", b"x", b"w"], "row": [0, 1, 2, 3, 4]})
PARTS = np.array([3, 0, 1, 3, 1])


def people(rows: int) -> pa.Table:
    rng = np.random.default_rng(5)
    ids = [None if i == 0 else f"person {i}" for i in rng.integers(0, rows // 3, rows).tolist()]
    return pa.table({"id": ids, "a": rng.uniform(0, 10, rows), "b": rng.uniform(0, 10, rows)})


@pytest.fixture
def on_disk(monkeypatch) -> None:
    """Everything goes to disk at once."""
    for module in (spill, persons):
        monkeypatch.setattr(module, "IN_MEMORY", 1)


def unnamed_files() -> dict[str, os.stat_result]:
    """Files without a name that this process has open."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the one that lists the folder
            if str(link.readlink()).endswith("(deleted)"):
                found[str(link.readlink())] = link.stat()
    return found


@pytest.mark.parametrize("memory", [1, 2**30])
def test_rows_come_back_part_by_part_in_their_order(monkeypatch, memory):
    monkeypatch.setattr(spill, "IN_MEMORY", memory)
    stored = Spill(BATCH.schema, 5)
    stored.add(BATCH, PARTS)
    stored.add(BATCH, PARTS)
    found = [table["row"].to_pylist() for table in stored.tables()]
    assert found == [[1, 1], [2, 4, 2, 4], [], [0, 3, 0, 3], []]


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize("parts", [1, 3, 64])
def test_persons_on_disk_give_the_same_integers(monkeypatch, parts):
    monkeypatch.setattr(persons, "PARTS", parts)
    table = people(3000)
    on_disk = moment(table, SCHEMA, threads=2)
    monkeypatch.undo()
    assert same(on_disk, moment(table, SCHEMA))


@pytest.mark.usefixtures("on_disk")
def test_files_are_without_a_name_and_for_the_owner_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(spill.tempfile, "tempdir", str(tmp_path))
    before = unnamed_files()
    stored = Spill(BATCH.schema, 5)
    stored.add(BATCH, PARTS)
    numbers = private_array((1000,), np.int64)
    assert not numbers.any()
    found = [status for name, status in unnamed_files().items() if name not in before]
    assert {stat.S_IMODE(status.st_mode) for status in found} == {0o600}
    assert not list(tmp_path.iterdir())


CRASH = """
import sys
from dpcov.sources import persons, spill
spill.IN_MEMORY = persons.IN_MEMORY = 1
import test_spill, dpcov
table = test_spill.people(200_000)
print("ready", flush=True)
for _ in range(1000):
    test_spill.moment(table, test_spill.SCHEMA)
"""


@pytest.mark.slow
@pytest.mark.parametrize("wait", [0.3, 0.8])
def test_nothing_is_left_after_a_crash(tmp_path, wait):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    process = subprocess.Popen(
        [sys.executable, "-c", CRASH], env=environment, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(wait)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("on_disk")
def test_a_full_disk_is_an_error_of_ours(monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device: S3CRET")

    monkeypatch.setattr(Spill, "add", full)
    rows = open_rows(people(10), SCHEMA)
    with pytest.raises(SourceError, match="could not be read to its end"):
        rows.second_moments()
