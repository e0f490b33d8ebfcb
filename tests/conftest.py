"""One Hypothesis profile for all tests, and the command line as they run it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

from dpcov import cli

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
