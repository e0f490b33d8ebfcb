"""The small versions of `make trust` that attack ledgers and readers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["ledger_attacks", "power_loss", "malformed", "records"])
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
