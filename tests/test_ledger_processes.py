"""The ledger under real processes: races for the last slots, kill -9, full and read-only disks.

Each race, kill and full disk comes twice: as the system is, and without what only POSIX has.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

import pytest

from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP

SYSTEMS = ["as it is", "hidden POSIX"]
HIDING = f"""
import os, resource, sys
sys.path.append({str(Path(__file__).parent)!r})
from hidden_posix import exit_code, fork, hide, wait
if sys.argv[-1] == "hidden POSIX":
    hide()
"""
PROLOGUE = (
    HIDING
    + """
import signal
from pathlib import Path
from dpcov.errors import BudgetExceededError
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP
path, drawn = Path(sys.argv[1]), os.open(sys.argv[2], os.O_CREAT | os.O_APPEND | os.O_WRONLY)
guarantee = Guarantee(PureDP(float(sys.argv[3])), Neighbors.ADD_REMOVE)
ledger = Ledger.open(path)

def draw(number):
    os.write(drawn, f"drawn {number}\\n".encode())
    os.fsync(drawn)
"""
)

# Processes fork from one that has imported all: each import needs 0.7 s of CPU.
RACE = (
    PROLOGUE
    + """
started, start = os.pipe()
children = []
for _ in range(32):
    if not (child := fork()):
        os.close(start)
        os.read(started, 1)
        try:
            draw(ledger.reserve(guarantee))
        except BudgetExceededError:
            os._exit(3)
        os._exit(0)
    children.append(child)
os.close(start)
print(*(exit_code(wait(child, 0)[1]) for child in children))
"""
)

# For each line a process that spends: it prints its number when it may be killed.
FOR_EACH_LINE = """
for _ in sys.stdin:
    if not (child := fork()):
        spend()
    wait(child, 0)
    print("ended", flush=True)
"""

SPEND_FOR_EVER = (
    PROLOGUE
    + """
def spend():
    print(os.getpid(), flush=True)
    while True:
        draw(ledger.reserve(guarantee))
"""
    + FOR_EACH_LINE
)

DRAW_BEFORE_COMMIT = (
    PROLOGUE
    + """
from dpcov.api import ledger as module
insert = module.insert

def insert_and_draw(*row):
    draw(insert(*row))
    print(os.getpid(), flush=True)
    signal.pause()

module.insert = insert_and_draw

def spend():
    ledger.reserve(guarantee)
"""
    + FOR_EACH_LINE
)


class Bench:
    """A ledger, the file of what was drawn, and the processes that share them."""

    def __init__(self, folder: Path, budget: float, part: float, system: str = SYSTEMS[0]) -> None:
        self.ledger = Ledger.create(folder / "x.ledger", PureDP(budget))
        self.drawn_file = folder / "drawn"
        self.drawn_file.touch()
        self.arguments = [str(self.ledger.path), str(self.drawn_file), str(part), system]

    def kill(self, script: str, after: Iterable[float]) -> None:
        """Kill one process after the other that spends, each after so many seconds."""
        command = [sys.executable, "-c", script, *self.arguments]
        with subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True) as parent:
            assert parent.stdin is not None
            assert parent.stdout is not None
            for seconds in after:
                print(file=parent.stdin, flush=True)
                child = int(parent.stdout.readline())
                time.sleep(seconds)
                os.kill(child, signal.SIGKILL)
                assert parent.stdout.readline() == "ended\n"

    def drawn(self) -> set[int]:
        return set(map(int, re.findall(r"^drawn (\d+)$", self.drawn_file.read_text(), re.M)))

    def counted(self) -> set[int]:
        return {entry.id for entry in Ledger.open(self.ledger.path).account().entries}


@pytest.mark.parametrize("system", SYSTEMS)
def test_of_32_processes_exactly_20_get_the_20_slots(tmp_path: Path, system: str) -> None:
    bench = Bench(tmp_path, budget=1.0, part=0.05, system=system)
    codes = run(RACE, *bench.arguments).split()
    assert Counter(codes) == {"0": 20, "3": 12}
    assert bench.drawn() == bench.counted() == set(range(1, 21))
    assert bench.ledger.account().left == {"epsilon": 0.0}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("kills", [25, pytest.param(200, marks=pytest.mark.slow)])
def test_kill_9_never_under_counts_and_over_counts_once_per_kill(
    tmp_path: Path, kills: int, system: str
) -> None:
    bench, chance = Bench(tmp_path, 1e9, 0.001, system), random.Random(kills)  # noqa: S311
    bench.kill(SPEND_FOR_EVER, (chance.uniform(0, 0.1) for _ in range(kills)))
    drawn, counted = bench.drawn(), bench.counted()
    assert not drawn - counted
    assert len(counted - drawn) <= kills
    assert len(drawn) > kills / 2, "the kills came before the spends: nothing was tested"


def test_noise_drawn_before_the_commit_is_caught_as_under_counted(tmp_path: Path) -> None:
    bench = Bench(tmp_path, budget=1e9, part=0.001)
    bench.kill(DRAW_BEFORE_COMMIT, [0])
    assert bench.drawn() - bench.counted() == {1}


FULL_DISK = (
    HIDING
    + """
from dpcov.errors import LedgerError
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP

ledger = Ledger.open(sys.argv[1])
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
for size in (0, 600, 5000, 9000, 20000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, unlimited[1]))
    try:
        ledger.reserve(Guarantee(PureDP(0.1), Neighbors.ADD_REMOVE))
    except LedgerError as error:
        assert "dpcov made no release" in str(error), error
        assert error.__suppress_context__
    else:
        sys.exit("the spend was accepted")
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert not ledger.account().entries
"""
)

READ_ONLY = """
import os, sys, tempfile
from pathlib import Path
from dpcov.errors import LedgerError
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import Guarantee, Neighbors, PureDP

folder = Path(sys.argv[1])
ledger = Ledger.create(folder / "x.ledger", PureDP(1.0))
ledger.path.chmod(0o444)
folder.chmod(0o555)
if os.geteuid() == 0:
    os.seteuid(65534)  # permissions do not bind root
for action in (
    lambda: ledger.reserve(Guarantee(PureDP(0.1), Neighbors.ADD_REMOVE)),
    lambda: Ledger.create(folder / "y.ledger", PureDP(1.0)),
):
    try:
        action()
    except LedgerError as error:
        print(error)
    else:
        sys.exit("a read-only folder was written")
assert ledger.account().left == {"epsilon": 1.0}
"""


def run(script: str, *arguments: Path | str) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_full_disk_refuses_and_spends_nothing(tmp_path: Path, system: str) -> None:
    run(FULL_DISK, Ledger.create(tmp_path / "x.ledger", PureDP(1.0)).path, system)


@pytest.mark.skipif(os.name != "posix", reason="permission bits are POSIX")
def test_a_read_only_ledger_can_be_shown_but_not_spent() -> None:
    with TemporaryDirectory() as folder:
        assert "its folder is read-only" in run(READ_ONLY, folder)
