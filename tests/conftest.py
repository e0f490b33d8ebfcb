"""What all tests share.

One Hypothesis profile, which tests are about the papers, the CPU time of files, the command line.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from dpcov import cli
from dpcov.core import registry

settings.register_profile(
    "dpcov",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("dpcov")

Run = Callable[[str], SimpleNamespace]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the command line in an empty folder; gives `code`, `out` and `err`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(line: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as ended:
            cli.main(line.split())
        out, err = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=out, err=err)

    return run


@pytest.fixture(scope="session")
def opened(tmp_path_factory):
    """Open all readers that need no server, once for each worker (`trust/sources.py`)."""
    from sources import opened_sources  # other tests need none of it

    with opened_sources(tmp_path_factory.mktemp("sources"), servers=False) as found:
        yield found


# A file system in memory and the free space that the tests need there: they wrote less than 1 GB.
MEMORY, MEMORY_BYTES = Path("/dev/shm"), 4 * 2**30  # noqa: S108


def pytest_configure(config):
    """Let tests spend absurd budgets, at which noise is small, and keep their files in memory.

    A ledger waits for the disk eight times for each release. On a disk, tests wait for most of
    their time. No test depends on what a disk keeps when the power fails.
    """
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    config.addinivalue_line("filterwarnings", "ignore::dpcov.core.privacy.BudgetWarning")


def pytest_collection_modifyitems(items):
    """Mark what lies in a folder of the papers, or is run with one of their mechanisms."""
    for item in items:
        asked = getattr(item, "callspec", None)
        if "papers" in item.path.parts or (asked and any(map(is_paper, asked.params.items()))):
            item.add_marker(pytest.mark.papers)


def is_paper(parameter):
    """Return True if a test's parameter is a mechanism of a paper: its name, class, or case."""
    asked, value = parameter
    if not (asked in ("name", "mechanism") and isinstance(value, str)):
        value = getattr(value, "name", None)
    return isinstance(value, str) and value in registry.PAPER_MECHANISMS


collect_ignore_glob = ["tries/*"]  # parts of other trees, which tests/test_tries.py builds
# A file is to take at most so many seconds of CPU, its processes included. Tests marked slow or
# statistics do not count. CI fails above half as much again: machines differ, and each worker makes
# fixtures of its own.
CPU_SECONDS, AT_MOST = 30, 45
STARTED = pytest.StashKey[float]()
SPENT: Counter[str] = Counter()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[STARTED] = sum(os.times()[:4])
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    done = yield
    if not (item.get_closest_marker("slow") or item.get_closest_marker("statistics")):
        item.user_properties.append(("cpu", sum(os.times()[:4]) - item.stash[STARTED]))
    return done


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        reported = sum(value for name, value in report.user_properties if name == "cpu")
        SPENT[report.nodeid.partition("::")[0]] += reported


def pytest_sessionfinish(session):
    """Fail where CI asks for it; workers don't, each of which sees some of the tests."""
    if "LIMIT_CPU" in os.environ and not hasattr(session.config, "workerinput"):
        session.exitstatus = session.exitstatus or int(any(s > AT_MOST for s in SPENT.values()))


def pytest_terminal_summary(terminalreporter):
    for file, seconds in SPENT.most_common():
        if seconds > CPU_SECONDS:
            reported = f"{file} took {seconds:.0f} s of CPU: {CPU_SECONDS} s are its share"
            terminalreporter.write_line(reported, yellow=True)
