"""Ctrl-C while data is read, in a real process: the ledger is right, and nothing is half done."""

import gzip
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.rows.schema import FileOptions
from dpcov.rows.sources.text import TextSource
from dpcov.rows.sources.threads import Threads
from tables_for_tests import PLANTED, SCHEMA_TEXT, people

# A shell's background jobs, and so what they start, ignore interrupts unless they say otherwise.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
DPCOV = [sys.executable, "-c", f"{LISTEN}; from dpcov.cli import main; main()"]
LINES = people(10_000).splitlines(keepends=True)


def endless_csv(folder: Path) -> Path:
    """Write a few megabytes that take minutes to read: one compressed piece, repeated."""
    head, piece = (gzip.compress("".join(part).encode()) for part in (LINES[:1], LINES[1:] * 5))
    (path := folder / "people.csv.gz").write_bytes(head + piece * 2000)
    return path


def endless_parquet(folder: Path) -> Path:
    cells = {"age": 1.0, "sex": PLANTED, "income": 2.0}
    table = pa.table({name: np.full(2**18, cell) for name, cell in cells.items()})
    with pq.ParquetWriter(path := folder / "people.parquet", table.schema) as writer:
        for _ in range(400):
            writer.write_table(table)
    return path


def start(folder: Path, data: Path, *options: str, **process) -> subprocess.Popen:
    (folder / "people.toml").write_text(SCHEMA_TEXT)
    command = ["release", str(data), "--schema", str(folder / "people.toml"), "--epsilon", "1"]
    command += ["--out", str(folder / "out.json"), "--ledger", str(folder / "l.ledger"), *options]
    Ledger.create(folder / "l.ledger", PureDP(3.0))
    return subprocess.Popen([*DPCOV, *command], cwd=folder, **process)


def wait_for_entry(ledger: Ledger, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + 60
    while not ledger.account().entries:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
@pytest.mark.parametrize("data", [endless_csv, endless_parquet])
@pytest.mark.parametrize("wait", [0.0, 1.0])
def test_an_interrupt_leaves_the_ledger_right_and_no_half_file(tmp_path, data, threads, wait):
    path = data(tmp_path)
    given = {path.name, "people.toml", "l.ledger"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = start(tmp_path, path, "--threads", threads, **pipes)
    ledger = Ledger.open(tmp_path / "l.ledger")
    wait_for_entry(ledger, process)
    time.sleep(wait)
    process.send_signal(signal.SIGINT)
    try:
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert not err.strip()
    assert PLANTED not in out
    assert "Traceback" not in out + err
    assert {file.name for file in tmp_path.iterdir()} == given
    account = ledger.account()
    assert account.spent == {"epsilon": 1.0}
    assert len(account.entries) == 1


@pytest.mark.parametrize("kind", ["parquet", "streamed", "arrow", "csv"])
@pytest.mark.parametrize(("library", "status"), [("dpcov", 0), ("concurrent", 1)])
def test_an_interrupt_at_any_instruction_ends_the_reading(tmp_path, kind, library, status):
    """Control: with the threads of the standard library, some interrupts are lost or block."""
    script = Path(__file__).with_name("interrupted_threads.py")
    command = [sys.executable, str(script), library, kind, str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert ("interrupted at" in ended.stdout) == (status == 0)
    assert not ended.stderr


def test_results_have_the_order_of_the_items_and_the_first_error_counts():
    def slow_first(item):
        time.sleep(0.05 if item == 0 else 0)
        if item in (2, 3):
            raise ValueError(item)
        return item

    with Threads(2) as threads:
        assert threads.map(slow_first, [0, 1]) == [0, 1]
        assert threads.map(slow_first, []) == []
    with pytest.raises(ValueError, match="2"), Threads(2) as threads:
        threads.map(slow_first, [0, 3, 2][::-1])


def test_after_an_error_no_further_task_begins():
    begun = []

    def work(item):
        begun.append(item)
        if item == 0:
            raise ValueError(item)
        time.sleep(0.05)

    with pytest.raises(ValueError, match="0"), Threads(2) as threads:
        threads.map(work, range(100))
    count = len(begun)
    assert count < 100
    time.sleep(0.2)
    assert len(begun) == count, "the block ends after all tasks"


@pytest.fixture
def listening():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # as in LISTEN
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_no_interrupt_is_lost_while_text_is_read(tmp_path, listening):
    """Arrow loses some interrupts in the main thread that come directly after a block is parsed."""
    source = TextSource(endless_csv(tmp_path), FileOptions(), ("age", "sex", "income"))

    def read_for_ten_seconds(wait: float) -> None:
        threading.Timer(wait, os.kill, [os.getpid(), signal.SIGINT]).start()
        deadline = time.monotonic() + 10
        with closing(source.batches(source.names)) as batches:
            while time.monotonic() < deadline:
                next(batches)

    for wait in np.random.default_rng(0).uniform(0.0, 0.03, 200):
        with pytest.raises(KeyboardInterrupt):
            read_for_ten_seconds(wait)


@pytest.mark.slow
def test_a_terminal_sees_that_it_reads_and_how_long_but_no_measure_of_rows(tmp_path):
    """Steps of a bar would reveal the number of rows, to within a row group or a batch."""
    rows, groups = 4321, 37
    table = pa.table({"age": np.ones(rows), "sex": ["m"] * rows, "income": np.ones(rows)})
    pq.write_table(table, path := tmp_path / "p.parquet", row_group_size=-(-rows // groups))
    screen, terminal = pty.openpty()
    process = start(tmp_path, path, stdout=subprocess.DEVNULL, stderr=terminal)
    assert process.wait(timeout=60) == 0
    os.close(terminal)
    shown = b""
    while True:
        try:
            part = os.read(screen, 4096)
        except OSError:  # what Linux says where others return nothing
            break
        if not part:
            break
        shown += part
    os.close(screen)
    assert b"reading" in shown
    assert b"0:00:" in shown
    assert b"%" not in shown
    assert str(rows).encode() not in shown
    assert b"4,321" not in shown
