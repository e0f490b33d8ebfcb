"""The R package of the repository, installed for tests, and its example.

`python tests/r_package.py` writes the example that the package contains.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.export import write_folder
from dpcov.releases import Release
from dpcov.rows.schema import Schema

PACKAGE = Path(__file__).parents[1] / "r"
EXAMPLE = PACKAGE / "inst" / "extdata" / "survey"
ITEMS = ("calm", "glad", "rested", "walks", "climbs", "lifts")
LOADINGS = (0.8, 0.7, 0.6)


def survey() -> Release:
    """Return a seeded release of six items, three for each of two correlated factors."""
    generator = np.random.default_rng(1)
    factors = generator.multivariate_normal([0, 0], [[1, 0.4], [0.4, 1]], 5000)
    loadings = np.kron(np.eye(2), LOADINGS)
    own = generator.standard_normal((5000, 6)) * np.sqrt(1 - (loadings**2).sum(axis=0))
    answers = np.clip(50 + 15 * (factors @ loadings + own), 0, 100)
    column = {"kind": "number", "lower": 0, "upper": 100, "missing": "none"}
    schema = Schema.parse({"version": 3, "columns": dict.fromkeys(ITEMS, column)})
    table = pd.DataFrame(answers, columns=list(ITEMS))
    return dpcov.release(table, schema=schema, epsilon=0.5, seed=1)


@cache
def has_packages(*names: str) -> bool:
    """Return True if R and these packages are there."""
    if shutil.which("Rscript") is None:
        return False
    code = "".join(f'loadNamespace("{name}");' for name in names)
    return not subprocess.run(["Rscript", "-e", code], capture_output=True, check=False).returncode


@cache
def _library() -> TemporaryDirectory[str]:
    """Return a folder with the installed package, which exists until the process ends."""
    folder = TemporaryDirectory()
    options = ["--no-docs", "--no-byte-compile", "--no-test-load", f"--library={folder.name}"]
    command = ["R", "CMD", "INSTALL", *options, str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def run_r(script: Path, folder: Path) -> str:
    """Run a script in a folder, with the package installed, and return what it prints."""
    if not has_packages("jsonlite"):
        pytest.skip("R with jsonlite is not installed; .ci/services installs it")
    done = subprocess.run(
        ["Rscript", "--no-init-file", str(script)],
        cwd=folder,
        env=os.environ | {"R_LIBS": _library().name},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


if __name__ == "__main__":
    write_folder(survey(), "r", EXAMPLE, force=True)
