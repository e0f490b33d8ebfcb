"""The small versions of `make trust` that attack ledgers and readers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("module", [
    pytest.param("ledger_attacks", marks=pytest.mark.slow),
    pytest.param("power_loss", marks=pytest.mark.slow),
    pytest.param("records", marks=pytest.mark.slow),
    # tests/test_malformed.py attacks as much in less time.
    pytest.param("malformed", marks=pytest.mark.statistics),
])  # fmt: skip
def test_every_figure_is_what_it_must_be(module: str) -> None:
    paths = [ROOT / folder for folder in ("src", "benchmarks", "trust")]
    done = subprocess.run(
        [sys.executable, ROOT / "trust" / "trust.py", "--quick", module],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
