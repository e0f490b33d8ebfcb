"""What the page on R asks its reader to type gives, in R, the figures of dpcov."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpcov
from terminals import DPCOV

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import pages  # noqa: E402 (the site's own code is no package)

PAGE = (ROOT / "docs" / "how-to" / "r.md").read_text(encoding="utf-8")
ASKED = """
digits <- 17
facts <- list(
    words = found$guarantee, from_csv = correlation, covariance = covariance, mean = found$mean,
    slopes = solve(covariance[others, others], covariance[others, target]), others = others
)
cat(toJSON(facts, digits = NA, auto_unbox = TRUE), file = "facts.json")
"""


def has_r() -> bool:
    if shutil.which("Rscript") is None:
        return False
    done = subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Run the page's commands and its R code in order; return the release and R's results."""
    if not has_r():
        pytest.skip("R with jsonlite is not installed; .ci/services installs it")
    folder = tmp_path_factory.mktemp("r")
    subprocess.run([*DPCOV, "demo"], cwd=folder, capture_output=True, check=True)
    found = pages.blocks(PAGE)
    for command in [
        one for block in found if block.language == "console" for one in block.commands
    ]:
        words, _, target = command.partition(" > ")
        done = subprocess.run(
            [*DPCOV, *words.split()[1:]], cwd=folder, capture_output=True, check=True
        )
        if target:
            (folder / target).write_bytes(done.stdout)
    lines = "".join(block.code for block in found if block.language == "r")
    (folder / "page.R").write_text(lines + ASKED, encoding="utf-8")
    done = subprocess.run(
        ["Rscript", "--vanilla", "page.R"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    release = dpcov.load(folder / "demo" / "visits.release.json")
    return release, json.loads((folder / "facts.json").read_text()), done.stdout


def test_the_guarantee_is_printed(read):
    release, facts, printed = read
    assert facts["words"] == release.guarantee_in_words()
    assert release.guarantee_in_words() in " ".join(printed.split())


def test_matrices_that_dpcov_wrote_agree(read):
    release, facts, _ = read
    assert np.abs(np.array(facts["from_csv"]) - release.correlation()).max() < 1e-12
    assert np.allclose(facts["covariance"], release.covariance(), rtol=1e-12, atol=0)
    assert np.allclose(facts["mean"], release.mean(), rtol=1e-12, atol=0)


def test_a_regression_in_r_is_that_of_the_released_covariance(read):
    release, facts, _ = read
    at = [release.columns.index(name) for name in facts["others"]]
    target = release.columns.index("systolic")
    covariance = release.covariance()
    slopes = np.linalg.solve(covariance[np.ix_(at, at)], covariance[at, target])
    assert len(slopes) == len(release.columns) - 2  # the target and one level are left out
    assert np.allclose(facts["slopes"], slopes, rtol=1e-8)


def test_control_the_agreement_is_closer_than_the_noise(read):
    release, facts, _ = read
    apart = np.abs(np.array(facts["from_csv"]) - np.eye(len(release.columns)))
    assert apart.max() > 1e-3
