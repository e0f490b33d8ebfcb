"""Races and kills of processes that write one file or spend one budget, on every system.

A test with "hidden POSIX" runs in processes without what Windows lacks (hidden_posix).
"""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from dpcov.api.ledger import Ledger
from dpcov.core import files
from dpcov.core.privacy import PureDP

MANY = 16
# A kill that no handler sees.
KILL = """
import os, signal
die = lambda *_: os.kill(os.getpid(), 9 if os.name == "posix" else signal.SIGTERM)
"""
START = (
    "import sys; from dpcov.core.files import reserved\n"
    "with reserved('x', force=True) as output:\n "
)
# A small model of a run: check that it may write, spend, write. GO makes all runs begin at once.
HIDING = f"import sys; sys.path.append({str(Path(__file__).parent)!r})\n"
HIDING += "from hidden_posix import hide\nhide()\n"
RUN = """
import os, time
from pathlib import Path
from dpcov.errors import OutputError
from dpcov.core.files import reserved
out, force = Path("out"), "force" in sys.argv
def spend():
    time.sleep(0.3)
    os.write(os.open("spent", os.O_WRONLY | os.O_APPEND), b"x")
def now():
    with reserved(out, force=force) as output:
        spend()
        output.write(str(os.getpid()))
def before():
    if out.exists() and not force:
        raise OutputError("exists")
    spend()
    draft = Path(f"draft-{os.getpid()}")
    draft.write_text(str(os.getpid()))
    draft.replace(out)
Path(f"{os.getpid()} is ready").touch()
while not Path("go").exists():
    time.sleep(0.001)
try:
    globals()[sys.argv[1]]()
except OutputError:
    sys.exit(2)
"""


def race(folder: Path, *how: str, before: str = "import sys") -> tuple[int, int]:
    """Return how many of `MANY` processes wrote one file, and how many spent."""
    (folder / "spent").touch()
    command = [sys.executable, "-c", before + RUN, *how]
    started = [subprocess.Popen(command, cwd=folder) for _ in range(MANY)]
    while len(ready := list(folder.glob("* is ready"))) < MANY:
        assert all(process.poll() is None for process in started)
        time.sleep(0.01)
    for path in ready:
        path.unlink()
    (folder / "go").touch()
    codes = [process.wait(timeout=60) for process in started]
    assert set(codes) <= {0, 2}
    return codes.count(0), len((folder / "spent").read_text())


@pytest.mark.parametrize(
    ("left", "before"),
    [
        pytest.param(None, "import sys", id="new"),
        pytest.param("", "import sys", id="left by a killed run"),
        pytest.param(None, HIDING, id="new, hidden POSIX", marks=pytest.mark.slow),
        pytest.param("", HIDING, id="left by a killed run, hidden POSIX"),
    ],
)
def test_of_many_processes_one_writes_and_the_others_spend_nothing(
    tmp_path: Path, left, before: str
) -> None:
    if left is not None:
        (tmp_path / "out").write_text(left)
    assert race(tmp_path, "now", before=before) == (1, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"go", "spent", "out"}


@pytest.mark.parametrize("before", ["import sys", HIDING], ids=["as it is", "hidden POSIX"])
def test_with_force_no_two_of_many_processes_write_at_a_time(tmp_path: Path, before: str) -> None:
    (tmp_path / "out").write_text("old")
    wrote, spent = race(tmp_path, "now", "force", before=before)
    assert wrote == spent < MANY / 2  # whoever comes after another is done may replace it


def test_control_a_check_before_a_later_rename_loses_what_was_paid_for(tmp_path: Path) -> None:
    wrote, spent = race(tmp_path, "before")
    assert wrote == spent > 1


@pytest.mark.parametrize("when", ["reserved", "written"])
def test_without_posix_the_next_run_takes_over_what_a_killed_run_leaves(
    tmp_path: Path, when: str
) -> None:
    body = "die()" if when == "reserved" else "os.fsync = die; output.write('new')"
    command = [sys.executable, "-c", HIDING + KILL + START + body]
    done = subprocess.run(command, cwd=tmp_path, check=False)
    assert done.returncode not in (0, 1)
    link = files._link_of(tmp_path / "x").name
    assert {path.name for path in tmp_path.iterdir()} == {"x", link, f"{link}.lock"}
    command[-1] = HIDING + START + "output.write('next')"
    subprocess.run(command, cwd=tmp_path, check=True)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("x", "next")]


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
SPEND = """
import sys
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP
from dpcov.errors import BudgetExceededError

ledger = Ledger.open("x.ledger")
print("ready", flush=True)
for _ in sys.stdin:
    try:
        print(ledger.reserve(Guarantee(PureDP(0.25), Neighbors.ADD_REMOVE)), flush=True)
    except BudgetExceededError:
        print("refused", flush=True)
"""


def test_of_processes_that_race_for_a_budget_no_two_get_the_same_part(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", PureDP(1.0))
    command = [sys.executable, "-c", SPEND]
    with ExitStack() as stack:
        started = [
            stack.enter_context(subprocess.Popen(command, cwd=tmp_path, **PIPES)) for _ in range(3)
        ]
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for process in started:
            process.stdin.write("go\n" * 2)
            process.stdin.close()
        answers = [line for process in started for line in process.stdout.read().split()]
    assert [process.returncode for process in started] == [0] * 3
    assert sorted(answers) == ["1", "2", "3", "4", "refused", "refused"]
    assert ledger.account().left == {"epsilon": 0.0}


def test_a_killed_process_leaves_a_ledger_that_counts_what_it_got(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "x.ledger", PureDP(100.0))
    with subprocess.Popen([sys.executable, "-c", SPEND], cwd=tmp_path, **PIPES) as process:
        assert process.stdout.readline() == "ready\n"
        process.stdin.write("go\n" * 100)
        process.stdin.flush()
        got = [process.stdout.readline() for _ in range(3)]
        process.kill()
        got += process.stdout.read().split()
    counted = {entry.id for entry in ledger.account().entries}
    assert set(map(int, got)) <= counted
    assert len(counted) <= len(got) + 1 < 100
