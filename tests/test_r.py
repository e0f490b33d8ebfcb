"""What the page on R asks its reader to type gives, in R, the figures of dpcov."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpcov
from r_package import has_packages, run_r
from terminals import DPCOV

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import pages  # noqa: E402 (the site's own code is no package)

PAGE = (ROOT / "docs" / "how-to" / "r.md").read_text(encoding="utf-8")
ASKED = """
facts <- list(cor = cor(visits), slopes = coef(fit)[1:3], errors = sqrt(diag(vcov(fit)))[1:3])
cat(jsonlite::toJSON(facts, digits = NA), file = "facts.json")
"""
MAX_SLOPE_DIFFERENCE = 1e-4  # lavaan stops its search at gradients of 1e-6


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """Run the page's commands and its R code in order; return the release and R's results."""
    if not has_packages("jsonlite", "lavaan"):
        pytest.skip("R with jsonlite and lavaan is not installed; .ci/services installs them")
    folder = tmp_path_factory.mktemp("r")
    subprocess.run([*DPCOV, "demo"], cwd=folder, capture_output=True, check=True)
    found = pages.blocks(PAGE)
    for block in found:
        for command in block.commands if block.language == "console" else ():
            subprocess.run([*DPCOV, *command.split()[1:]], cwd=folder, check=True)
    lines = "".join(block.code for block in found if block.language == "r")
    (folder / "page.R").write_text(lines + ASKED, encoding="utf-8")
    printed = run_r(folder / "page.R", folder)
    release = dpcov.load(folder / "demo" / "visits.release.json")
    return release, json.loads((folder / "facts.json").read_text()), printed


def test_the_guarantee_is_printed(read):
    release, _, printed = read
    assert release.guarantee_in_words() in " ".join(printed.split())


def test_correlations_agree(read):
    release, facts, _ = read
    assert np.abs(np.array(facts["cor"]) - release.correlation()).max() < 1e-12


def test_a_regression_of_lavaan_is_that_of_the_released_covariance(read):
    release, facts, _ = read
    *at, target = map(release.columns.index, ("age", "bmi", "smoker", "systolic"))
    covariance = release.covariance()
    slopes = np.linalg.solve(covariance[np.ix_(at, at)], covariance[at, target])
    assert np.allclose(facts["slopes"], slopes, rtol=MAX_SLOPE_DIFFERENCE)
    fit = dpcov.ols(
        release, "systolic ~ age + bmi + smoker"
    )  # another estimate of flags' variances
    errors = fit.standard_errors[1:4]
    assert np.all(np.abs(facts["slopes"] - fit.coefficients[1:4]) < errors / 2)
    assert np.allclose(facts["errors"], errors, rtol=0.25)
    assert not np.allclose(facts["slopes"], slopes + errors / 50, rtol=MAX_SLOPE_DIFFERENCE)
