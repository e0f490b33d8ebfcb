"""One Hypothesis profile for all tests, which are about the papers, and the command line."""

from __future__ import annotations

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


def pytest_collection_modifyitems(items):
    """Mark what lies in a folder of the papers, or is run with one of their mechanisms."""
    for item in items:
        asked = getattr(item, "callspec", None)
        if "papers" in item.path.parts or (asked and any(map(is_paper, asked.params.items()))):
            item.add_marker(pytest.mark.papers)


def is_paper(parameter):
    """Whether a test's parameter is such a mechanism: its name, its class, itself or a case."""
    asked, value = parameter
    if not (asked in ("name", "mechanism") and isinstance(value, str)):
        value = getattr(value, "name", None)
    return isinstance(value, str) and value in registry.MECHANISMS
