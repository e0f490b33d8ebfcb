"""Run real releases in separate processes; their epsilon identifies them.

    python releases_at_work.py FOLDER COUNT KIND EPSILON

forks COUNT processes, or more where COUNT are to be killed; each makes a release of a small table
that is booked in FOLDER/x.ledger. A line "drawn EPSILON" is synced to FOLDER/drawn before the key
of any noise is handed out. KIND is

- kill: one after the other, each ended by SIGKILL after a random time, until COUNT were killed
  before they had ended by themselves;
- careless: the same, but the noise is drawn before the spend is booked (must be caught);
- race: all at once; those that are refused leave nothing;
- limited: one after the other, each with a random limit on the size of files, as on a full disk.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import sys
import time
from pathlib import Path

import numpy as np

import dpcov
from dpcov import api
from dpcov.api.ledger import Ledger
from dpcov.api.request import Request
from dpcov.core.entropy import Entropy
from dpcov.errors import DpcovError

TABLE = np.random.default_rng(0).uniform(-1, 1, (200, 3))
STEP = 1e-6
UNTOUCHED = 5  # releases that measure the time of one release
MOST_TRIES = 5  # most releases for each kill


def epsilon_of(number: int, base: float) -> float:
    """Return the epsilon of release `number`, which differs from all other epsilons."""
    return round(base + STEP * number, 9)


def release(folder: Path, number: int, base: float, careless: bool) -> None:
    """Run one release, and log its draws."""
    epsilon = epsilon_of(number, base)
    system = Entropy.system

    def logged() -> Entropy:
        log = os.open(folder / "drawn", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        os.write(log, f"drawn {epsilon!r}\n".encode())
        os.fsync(log)
        return system()

    Entropy.system = staticmethod(logged)  # type: ignore[method-assign]
    asked = {"lower": -1.0, "upper": 1.0, "epsilon": epsilon, "denoise": "none"}
    ledger = Ledger.open(folder / "x.ledger")
    if careless:
        ready = api.prepare(TABLE, Request(**asked))
        ready.run()
        ledger.reserve(ready.guarantee, note="too late")
    else:
        dpcov.release(TABLE, ledger=ledger, **asked).save(folder / f"{os.getpid()}.json")


def child(folder: Path, number: int, base: float, kind: str) -> int:
    """Fork a process that makes the release; it ends with 0, or 2 if it is refused."""
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        if kind == "limited":
            limit = random.Random(number).choice([0, 5000, 20000, 50000, 65000, 100000, 10**6])  # noqa: S311
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        release(folder, number, base, kind == "careless")
        code = 0
    except DpcovError:
        code = 2
    finally:
        os._exit(code)


def main(folder: Path, count: int, kind: str, base: float) -> None:
    """Run all releases of one kind, and print the exit code of each."""
    dpcov.release(TABLE, lower=-1.0, upper=1.0, epsilon=1.0)  # imports what a release needs
    chance = random.Random(count)  # noqa: S311
    if kind == "race":
        children = [child(folder, 0, base, kind) for _ in range(count)]
        codes = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children]
    elif kind == "limited":
        children = (child(folder, number, base, kind) for number in range(count))
        codes = [os.waitstatus_to_exitcode(os.waitpid(one, 0)[1]) for one in children]
    else:
        codes, longest = [], 0.0
        for number in range(MOST_TRIES * count):
            started = time.monotonic()
            process = child(folder, number, base, kind)
            if number >= UNTOUCHED:
                time.sleep(chance.uniform(0, longest))
                os.kill(process, signal.SIGKILL)
            codes.append(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
            if number < UNTOUCHED:
                longest = max(longest, time.monotonic() - started)
            if codes.count(-signal.SIGKILL) == count:
                break
    print(*codes)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
