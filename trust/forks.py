"""Test mutants in forks, several at a time, with limits on time and memory."""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutations import Mutant, argument

OVERDUE = signal.SIGXCPU, signal.SIGPROF, signal.SIGKILL
MEMORY = 3 * 2**30  # more than the tests need
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"
NO_MUTANT = Mutant("", "", "nothing", range(0), True, compile("", "", "exec"))


def require_survival(control: Forks) -> None:
    """Stop the run if tests fail without a mutant, because such tests would notice any mutant."""
    if control.finish()[NO_MUTANT] != SURVIVED:
        raise SystemExit("tests fail in a fork without a mutant")


class Forks:
    """Child processes that each test one mutant, `jobs` at a time."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.running: dict[int, tuple[Mutant, float]] = {}
        self.verdicts: dict[Mutant, str] = {}

    def run(self, mutant: Mutant, notices: Callable[[], bool], seconds: float) -> None:
        """Ask in a fork whether tests notice the mutant within so many seconds of CPU time."""
        while len(self.running) >= self.jobs:
            self._collect()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _quietly(notices, seconds)
        self.running[child] = mutant, time.monotonic() + 20 * seconds

    def finish(self) -> dict[Mutant, str]:
        while self.running:
            self._collect()
        return self.verdicts

    def _collect(self) -> None:
        for child, (mutant, deadline) in list(self.running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if not done:
                if time.monotonic() > deadline:
                    os.kill(child, signal.SIGKILL)
                continue
            del self.running[child]
            died = os.WIFSIGNALED(status) and os.WTERMSIG(status) in OVERDUE
            survived = os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0
            self.verdicts[mutant] = TIMED_OUT if died else SURVIVED if survived else KILLED
            if self.verdicts[mutant] == SURVIVED and mutant is not NO_MUTANT:
                print(f"  {SURVIVED}: {argument(mutant.key)}", flush=True)
            return
        time.sleep(0.005)


def _quietly(notices: Callable[[], bool], seconds: float) -> None:
    """Run in this fork and end it: exit code 1 if the tests notice."""
    try:
        limit = int(time.process_time() + seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        memory = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os._exit(int(notices()))
    except BaseException:
        os._exit(1)


def from_fork(make: Callable[[], Any]) -> Any:
    """Return the result of `make` in a fork, so that no change of `make` stays."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            with os.fdopen(writing, "wb") as pipe:
                pickle.dump(make(), pipe)
            sys.stdout.flush()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        sent = pipe.read()
    if os.waitpid(child, 0)[1]:
        raise SystemExit(1)
    return pickle.loads(sent)  # noqa: S301
