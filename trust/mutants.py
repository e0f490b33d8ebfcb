"""Plant small faults in the modules that carry the guarantee: `make mutants`.

    python trust/mutants.py [--jobs 2] [src/dpcov/privacy.py ...]

Every fault must be noticed by a test, or be argued in `docs/notes/equivalent-mutants.md` to change
nothing but texts, speed or accuracy; else the run fails. It fails as well where an argument is
about a fault that a test notices, or that is not planted. An import of the library costs more than
most tests, so tests are collected once, and each fault is planted in a fork, which runs the tests
that reach its lines. Faults in what runs on import, and those that survive in lines that an import
reaches, get a fresh import and all tests of their module. (mutmut 3 leaves alone what is outside of
functions, and so constants and defaults; cosmic-ray starts an interpreter for every fault.)
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.machinery
import mmap
import os
import pickle
import re
import resource
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from mutant_tests import TESTS
from mutations import Mutant, mutants
from results import show, write

ROOT = Path(__file__).resolve().parents[1]
NOTES = ROOT / "docs/notes/equivalent-mutants.md"
CODE = "`[^`]*`"
LINE = re.compile(
    rf"- (?:`(?P<function>[^`]*)`, )?`(?P<line>[^`]*)`: (?P<changes>{CODE}(, {CODE})*): (?P<why>.+)"
)
HEAVY = ("numpy", "scipy.optimize", "scipy.special", "scipy.linalg", "scipy.stats", "pyarrow")
HEAVY += ("pyarrow.csv", "pyarrow.parquet", "pyarrow.compute", "pydantic", "hypothesis", "flint")
HEAVY += ("cryptography.hazmat.primitives.ciphers", "typer", "rich.console", "sklearn.base")
OVERDUE = signal.SIGXCPU, signal.SIGPROF, signal.SIGKILL
MEMORY = 3 * 2**30  # more than the tests need
SURVIVED, KILLED, TIMED_OUT = "survived", "killed", "timed out"
Argued = dict[str, set[tuple[str, str, str]]]


def argued() -> Argued:
    """The mutants of each module that the notes call equivalent."""
    found: Argued = {}
    module = ""
    if not NOTES.exists():
        return found
    for line in NOTES.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            module = line.removeprefix("## ").strip("`")
        elif line.startswith("- "):
            read = LINE.fullmatch(line)
            if read is None:
                raise SystemExit(f"not an argument for an equivalent mutant: {line}")
            for change in re.findall(r"`([^`]*)`", read["changes"]):
                key = (read["function"] or "", read["line"], change)
                found.setdefault(module, set()).add(key)
    return found


def key(mutant: Mutant) -> tuple[str, str, str]:
    return mutant.function, mutant.line, mutant.change


def _argument(key: tuple[str, str, str]) -> str:
    """A line of the notes, but for the reason."""
    function, line, change = key
    place = f"`{function}`, " if function else ""
    return f"- {place}`{line}`: `{change}`: "


NO_MUTANT = Mutant("", "", "nothing", range(0), True, compile("", "", "exec"))


def _require_survival(control: Forks) -> None:
    """Tests that fail without a mutant would notice any."""
    if control.finish()[NO_MUTANT] != SURVIVED:
        raise SystemExit("tests fail in a fork without a mutant")


class Forks:
    """Children that each judge one mutant, `jobs` at a time."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.running: dict[int, tuple[Mutant, float]] = {}
        self.verdicts: dict[Mutant, str] = {}

    def judge(self, mutant: Mutant, notices: Callable[[], bool], seconds: float) -> None:
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
                print(f"  {SURVIVED}: {_argument(key(mutant))}", flush=True)
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


@dataclass
class Reached:
    """What a test reaches without any mutant."""

    failed: bool
    seconds: float
    lines: set[int]


@dataclass(eq=False)
class Collected:
    """A pytest plugin: in place of running the tests, run those that reach each mutant."""

    path: Path
    planted: list[Mutant]
    jobs: int
    verdicts: dict[Mutant, str] = field(default_factory=dict)
    seconds: float = 0.0
    failures: int = 0

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        _plain_hypothesis()

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failures += report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        _untraced()
        if session.testsfailed:
            raise SystemExit(f"{self.path.name}: tests can't be collected")
        reached = _from_fork(lambda: self._reach(session.items))
        failed = [item.nodeid for item, r in zip(session.items, reached, strict=True) if r.failed]
        if failed:
            raise SystemExit(f"{self.path.name}: fail without a mutant: {', '.join(failed)}")
        self.seconds = sum(r.seconds for r in reached)
        print(f"{self.path.name}: {len(reached)} tests, {self.seconds:.1f} s", flush=True)
        functions = [
            found
            for found in gc.get_objects()
            if isinstance(found, FunctionType) and found.__code__.co_filename == str(self.path)
        ]
        control = Forks(1)
        order = [(at, session.items[at], r.seconds) for at, r in enumerate(reached)]
        control.judge(NO_MUTANT, lambda: self._run(order, None), 10 + 5 * self.seconds)
        _require_survival(control)
        forks = Forks(self.jobs)
        noticed = mmap.mmap(-1, len(reached))  # shared with the forks: how often each test did
        for mutant in self.planted:
            those = [at for at, r in enumerate(reached) if not r.lines.isdisjoint(mutant.lines)]
            if not those:
                self.verdicts[mutant] = SURVIVED
                print(f"  not reached: {_argument(key(mutant))}", flush=True)
                continue
            those.sort(key=lambda at: reached[at].seconds / (1 + noticed[at]))

            def notices(mutant: Mutant = mutant, those: list[int] = those) -> bool:
                order = [(at, session.items[at], reached[at].seconds) for at in those]
                return _patch(functions, mutant.code) and self._run(order, noticed)

            forks.judge(mutant, notices, 10 + 5 * sum(reached[at].seconds for at in those))
        self.verdicts |= forks.finish()
        return True

    def _run(self, order: list[tuple[int, pytest.Item, float]], noticed: mmap.mmap | None) -> bool:
        following = [*(item for _, item, _ in order[1:]), None]
        for (at, item, seconds), after in zip(order, following, strict=True):
            signal.setitimer(signal.ITIMER_PROF, 3 + 5 * seconds)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self.failures and noticed is not None:
                noticed[at] = min(255, noticed[at] + 1)
            if self.failures:
                return True
        return False

    def _reach(self, items: list[pytest.Item]) -> list[Reached]:
        found = []
        for item, after in zip(items, [*items[1:], None], strict=True):
            lines: set[int] = set()
            with _traced(str(self.path), lines):
                began = time.process_time()
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
                seconds = time.process_time() - began
            found.append(Reached(self.failures > 0, seconds, lines))
            self.failures = 0
        return found


def _plain_hypothesis() -> None:
    """The same examples in every fork, and no search for a smaller one."""
    from hypothesis import Phase, settings

    kept = settings.default
    settings.register_profile(
        "mutants", kept, derandomize=True, database=None, phases=[Phase.explicit, Phase.generate]
    )
    settings.load_profile("mutants")


class _traced:  # noqa: N801
    """Collects the lines of a file that run."""

    def __init__(self, filename: str, lines: set[int]) -> None:
        def local(frame: Any, event: str, arg: Any) -> Any:
            lines.add(frame.f_lineno)
            return local

        def trace(frame: Any, event: str, arg: Any) -> Any:
            return local(frame, event, arg) if frame.f_code.co_filename == filename else None

        self.trace = trace

    def __enter__(self) -> None:
        threading.settrace(self.trace)
        sys.settrace(self.trace)

    def __exit__(self, *error: object) -> None:
        _untraced()


def _untraced() -> None:
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]


def _from_fork(make: Callable[[], Any]) -> Any:
    """What `make` returns in a fork, so that nothing it changes stays."""
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


def _patch(functions: list[FunctionType], code: CodeType) -> bool:
    """Give functions their faulty code; whether any changed."""
    faulty = {(c.co_qualname, c.co_firstlineno): c for c in _codes(code)}
    changed = False
    for function in functions:
        old = function.__code__
        new = faulty.get((old.co_qualname, old.co_firstlineno), old)
        if new != old and new.co_freevars == old.co_freevars:
            function.__code__ = new
            changed = True
    return changed


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


class _Faulty(importlib.machinery.SourceFileLoader):
    """Loads one module with the code of a mutant."""

    def __init__(self, name: str, path: str, code: CodeType) -> None:
        super().__init__(name, path)
        self.code = code

    def get_code(self, fullname: str) -> CodeType:
        return self.code


@dataclass
class _Finder:
    """Finds the mutant in place of the module."""

    path: Path
    code: CodeType

    def find_spec(self, name: str, paths: Any, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, paths, target)
        if spec is not None and spec.origin == str(self.path):
            spec.loader = _Faulty(name, str(self.path), self.code)
        return spec


class _Plain:
    """A pytest plugin: Hypothesis tries the same examples in every fork."""

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        _plain_hypothesis()


def _pytest(path: Path, plugin: object) -> int:
    options = ["-x", "-s", "-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:xdist"]
    options += [
        "-o",
        "addopts=",
        "--assert=plain",
        "--doctest-modules",
        "-m",
        "not slow",
        "--rootdir",
        str(ROOT),
    ]
    chosen = [str(ROOT / test) for test in TESTS[str(path.relative_to(ROOT))]]
    return int(pytest.main([*options, str(path), *chosen], plugins=[plugin]))


def _imported(path: Path, mutant: Mutant) -> bool:
    """Whether the module's tests notice the mutant when it is imported."""
    sys.meta_path.insert(0, _Finder(path, mutant.code))
    return _pytest(path, _Plain()) != 0


def judged(path: Path, jobs: int) -> dict[Mutant, str]:
    """What becomes of each mutant of a module."""
    planted = list(mutants(path.read_text(encoding="utf-8"), str(path)))

    def serve() -> tuple[list[str], set[int], float]:
        collected = Collected(path, [m for m in planted if not m.on_import], jobs)
        on_import: set[int] = set()
        with _traced(str(path), on_import):
            _pytest(path, collected)
        return [collected.verdicts[m] for m in collected.planted], on_import, collected.seconds

    within = [mutant for mutant in planted if not mutant.on_import]
    verdicts, on_import, seconds = _from_fork(serve)
    known = dict(zip(within, verdicts, strict=True))
    control, forks = Forks(1), Forks(jobs)
    control.judge(NO_MUTANT, lambda: _pytest(path, _Plain()) != 0, 30 + 5 * seconds)
    _require_survival(control)
    for mutant in planted:
        reached = mutant.on_import or not on_import.isdisjoint(mutant.lines)
        if reached and known.get(mutant, SURVIVED) == SURVIVED:
            forks.judge(mutant, lambda m=mutant: _imported(path, m), 30 + 5 * seconds)
    known |= forks.finish()
    return {mutant: known[mutant] for mutant in planted}


@dataclass(frozen=True)
class Counts:
    """Mutants of a module, by what became of them."""

    module: str
    mutants: int
    killed: int
    timed_out: int
    equivalent: int
    survived: int
    stale: int


def _counts(module: str, verdicts: dict[Mutant, str], argued: set[tuple[str, str, str]]) -> Counts:
    """Count and print; what is wrong with the survivors and their arguments."""
    counts = Counter(verdicts.values())
    survivors = {key(mutant) for mutant, verdict in verdicts.items() if verdict == SURVIVED}
    found = Counts(
        module=module,
        mutants=len(verdicts),
        killed=counts[KILLED],
        timed_out=counts[TIMED_OUT],
        equivalent=len(survivors & argued),
        survived=len(survivors - argued),
        stale=len(argued - survivors),
    )
    for name, keys in (("survived", survivors - argued), ("stale argument", argued - survivors)):
        for found_key in sorted(keys):
            print(f"{name}: {_argument(found_key)}")
    print(" ".join(f"{name}={value}" for name, value in vars(found).items()), flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", help="paths of modules; default, all")
    parser.add_argument("--jobs", type=int, default=2, help="mutants that run at a time")
    asked = parser.parse_args()
    if unknown := set(asked.modules) - set(TESTS):
        parser.error(f"no tests are chosen for {sorted(unknown)} in trust/mutant_tests.py")
    for name in HEAVY:
        importlib.import_module(name)
    notes = argued()
    rows = []
    for module in asked.modules or TESTS:
        known = notes.get(module, set())
        rows.append(_counts(module, judged(ROOT / module, asked.jobs), known))
    if not asked.modules:
        write("mutants.json", "make mutants", [vars(row) for row in rows])
        show("Mutants", [vars(row) for row in rows])
    return int(any(row.survived or row.stale for row in rows))


if __name__ == "__main__":
    sys.exit(main())
