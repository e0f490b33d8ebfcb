"""scikit-learn's own tests of PCA, Ridge and EmpiricalCovariance, run with ours in their places.

`stand_ins/stand_ins.py` is the plugin that puts them there. Which tests don't pass, and why not, is
listed in `stand_ins/not_passed.toml`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "stand_ins"
COVARIANCE = "sklearn.covariance.tests.test_covariance"
PCA = "sklearn.decomposition.tests.test_pca"
RIDGE = "sklearn.linear_model.tests.test_ridge"
AT_LEAST = {"test_covariance": 1, "test_pca": 60, "test_ridge": 120}
# Those that compare with what something else computed, and not with another stand-in.
CLOSE = "hstacked_X or vstacked_X or test_pca_explained_variance_empirical"


def outcomes(folder: Path, *arguments: str, **environment: str) -> dict[str, tuple[str, str]]:
    """Return the outcome and the error of each test that uses a stand-in."""
    reported = folder / "outcomes.jsonl"
    reported.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "stand_ins", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    own = {"STAND_INS_OUTCOMES": str(reported), "PYTHONPATH": path, **environment}
    ended = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), "--pyargs", *arguments],
        env=os.environ | own,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr  # some tests may fail
    lines = [json.loads(line) for line in reported.read_text().splitlines()]
    return {line["test"]: (line["outcome"], line["error"]) for line in lines}


GROUPS = tomllib.loads((HERE / "not_passed.toml").read_text())["group"]
LISTED = [(test, group["errors"]) for group in GROUPS for test in group["tests"]]


def is_of(test: str, listed: str) -> bool:
    """Return True if a test is listed: a function, or cases of it where * is anything."""
    if "[" not in listed:
        return test.partition("[")[0] == listed
    return re.fullmatch(re.escape(listed).replace(r"\*", ".*"), test) is not None


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    return outcomes(tmp_path_factory.mktemp("all"), COVARIANCE, PCA, RIDGE)


@pytest.mark.peers
def test_what_is_not_listed_passes_and_what_is_listed_fails_as_it_says(
    found: dict[str, tuple[str, str]],
) -> None:
    passed, others = [], []
    for test, (outcome, error) in found.items():
        known = [error for name, errors in LISTED if is_of(test, name) for error in errors]
        if outcome == "passed":
            passed.append(test)
        if outcome == "passed" if known else outcome == "failed":
            others.append((test, error))
        if outcome == "failed" and not any(one in error for one in known):
            others.append((test, error))
    assert not others
    assert not [name for name, _ in LISTED if not any(is_of(test, name) for test in found)]
    counts = Counter(test.partition("::")[0] for test in passed)
    assert all(counts[module] >= least for module, least in AT_LEAST.items()), counts


@pytest.mark.peers
@pytest.mark.parametrize(
    "fault", [{"STAND_INS_EPSILON": "10"}, {"STAND_INS_OFF": "0.0001"}], ids=["noise", "wrong"]
)
def test_control_stand_ins_that_are_off_fail(fault: dict[str, str], tmp_path: Path) -> None:
    right, wrong = (
        Counter(
            outcome for outcome, _ in outcomes(tmp_path, PCA, RIDGE, "-k", CLOSE, **own).values()
        )
        for own in ({}, fault)
    )
    assert right["passed"] > 60
    assert wrong["passed"] == 0
