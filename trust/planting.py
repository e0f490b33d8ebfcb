"""Plant mutants where tests find them: in imported functions, or at import.

Importing the library costs more than most tests. Tests are therefore collected once, and each fault
in a function is planted in a fork. The fork runs the tests that reach the fault's lines. Two kinds
of faults get a fresh import and all tests of their module: faults in code that runs at import, and
surviving faults in lines that an import reaches.
"""

from __future__ import annotations

import gc
import importlib.machinery
import mmap
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from forks import NO_MUTANT, SURVIVED, Forks, from_fork, require_survival
from mutant_tests import TESTS
from mutations import Mutant, argument

ROOT = Path(__file__).resolve().parents[1]


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
        reached = from_fork(lambda: self._reach(session.items))
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
        quick = sorted(order, key=lambda test: test[2])[:30]
        control.run(NO_MUTANT, lambda: self._run(quick, None), 10 + 5 * self.seconds)
        require_survival(control)
        forks = Forks(self.jobs)
        noticed = mmap.mmap(-1, len(reached))  # shared with the forks: how often each test did
        for mutant in self.planted:
            those = [at for at, r in enumerate(reached) if not r.lines.isdisjoint(mutant.lines)]
            if not those:
                self.verdicts[mutant] = SURVIVED
                print(f"  not reached: {argument(mutant.key)}", flush=True)
                continue
            those.sort(key=lambda at: reached[at].seconds / (1 + noticed[at]))

            def notices(mutant: Mutant = mutant, those: list[int] = those) -> bool:
                order = [(at, session.items[at], reached[at].seconds) for at in those]
                return _patch(functions, mutant.code) and self._run(order, noticed)

            forks.run(mutant, notices, 10 + 5 * sum(reached[at].seconds for at in those))
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
    """Use the same examples in every fork, and do not search for smaller ones."""
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
        "not slow and not statistics",
        "--rootdir",
        str(ROOT),
    ]
    chosen = [str(ROOT / test) for test in TESTS[str(path.relative_to(ROOT))]]
    return int(pytest.main([*options, str(path), *chosen], plugins=[plugin]))


def _imported(path: Path, mutant: Mutant) -> bool:
    """Return True if the module's tests notice the mutant at the import of the module."""
    sys.meta_path.insert(0, _Finder(path, mutant.code))
    return _pytest(path, _Plain()) != 0


def verdicts_of(path: Path, planted: list[Mutant], jobs: int) -> dict[Mutant, str]:
    """Return the result of each mutant of a module."""

    def serve() -> tuple[list[str], set[int], float]:
        collected = Collected(path, [m for m in planted if not m.on_import], jobs)
        on_import: set[int] = set()
        with _traced(str(path), on_import):
            _pytest(path, collected)
        return [collected.verdicts[m] for m in collected.planted], on_import, collected.seconds

    within = [mutant for mutant in planted if not mutant.on_import]
    verdicts, on_import, seconds = from_fork(serve)
    known = dict(zip(within, verdicts, strict=True))
    control, forks = Forks(1), Forks(jobs)
    control.run(NO_MUTANT, lambda: _pytest(path, _Plain()) != 0, 30 + 5 * seconds)
    require_survival(control)
    for mutant in planted:
        reached = mutant.on_import or not on_import.isdisjoint(mutant.lines)
        if reached and known.get(mutant, SURVIVED) == SURVIVED:
            forks.run(mutant, lambda m=mutant: _imported(path, m), 30 + 5 * seconds)
    known |= forks.finish()
    return {mutant: known[mutant] for mutant in planted}
