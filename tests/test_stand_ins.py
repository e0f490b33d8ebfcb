"""scikit-learn's own tests of PCA, Ridge and EmpiricalCovariance, run with ours in their places.

`stand_ins/stand_ins.py` is the plugin that puts them there. Which tests don't pass, and why not, is
listed in `stand_ins/not_passed.toml`, by function, or by function and case.
"""

from __future__ import annotations

import json
import os
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
CLOSE = "test_pca_inverse or test_ridge_regression_hstacked_X or test_dtype_match"


def outcomes(folder: Path, *arguments: str, **environment: str) -> dict[str, tuple[str, str]]:
    """Outcome and error of each test that meets a stand-in."""
    told = folder / "outcomes.jsonl"
    told.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "stand_ins", "-p", "no:cacheprovider"]
    path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    own = {"STAND_INS_OUTCOMES": str(told), "PYTHONPATH": path, **environment}
    ended = subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), "--pyargs", *arguments],
        env=os.environ | own,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr  # some tests may fail
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    return {line["test"]: (line["outcome"], line["error"]) for line in lines}


def listed() -> dict[str, dict[str, str]]:
    """What is not expected to pass: the group of each function or case."""
    groups = tomllib.loads((HERE / "not_passed.toml").read_text())["group"]
    return {test: group for group in groups for test in group["tests"]}


def group_of(test: str) -> dict[str, str] | None:
    known = listed()
    return known.get(test) or known.get(test.partition("[")[0])


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    return outcomes(tmp_path_factory.mktemp("all"), COVARIANCE, PCA, RIDGE)


@pytest.mark.slow
def test_what_is_not_listed_passes_and_what_is_listed_does_not(
    found: dict[str, tuple[str, str]],
) -> None:
    failed = {test for test, (outcome, _) in found.items() if outcome == "failed"}
    passed = {test for test, (outcome, _) in found.items() if outcome == "passed"}
    assert not sorted(test for test in failed if group_of(test) is None)
    assert not sorted(test for test in passed if group_of(test) is not None)
    gone = {test for test in listed() if not any(one.startswith(test) for one in found)}
    assert not gone, "listed, and not met"
    counts = Counter(test.partition("::")[0] for test in passed)
    assert all(counts[module] >= least for module, least in AT_LEAST.items()), counts


@pytest.mark.slow
def test_they_fail_for_the_reason_that_is_listed(found: dict[str, tuple[str, str]]) -> None:
    for test, (outcome, error) in found.items():
        group = group_of(test)
        if outcome == "failed" and group is not None and "error" in group:
            assert group["error"] in error, test


@pytest.mark.slow
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
    assert right["passed"] > 30
    assert wrong["passed"] < right["passed"] / 4
