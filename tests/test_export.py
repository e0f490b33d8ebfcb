"""What `dpcov export` writes, and what other software computes from it."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpcov
from dpcov.errors import NotReleasedError
from dpcov.export import README, TARGETS, write_folder
from dpcov.export.tables import variables

ROWS = np.random.default_rng(0).normal(size=(3000, 1)) * 0.8 + np.random.default_rng(1).normal(
    size=(3000, 4)
)
SOFTWARE = {
    "lavaan": "lavaan.R",
    "psych": "psych.R",
    "statsmodels": "run_statsmodels.py",
    "semopy": "run_semopy.py",
}
# A line such as "x0  0.27  0.04", or "x3  ~  x0  0.27  0.04" of semopy.
NUMBERS = re.compile(r"(?:^|~)\s*x0\s+(-?\d+\.\d+)\s+(\d+\.\d+)")


@pytest.fixture(scope="module")
def made():
    return dpcov.release(ROWS, lower=-5, upper=5, epsilon=0.4, seed=1)


def test_the_document_for_r_has_the_numbers_of_the_release(made, tmp_path):
    write_folder(made, "r", tmp_path / "new")
    found = json.loads((tmp_path / "new" / "estimate.json").read_text())
    assert found["columns"] == list(made.columns)
    assert found["mean"] == made.mean().tolist()
    assert found["covariance"] == made.covariance().tolist()
    assert found["correlation"] == made.correlation().tolist()
    errors = found["error_covariance"]
    for name, sampling in (("privacy", False), ("total", True)):
        own = made.error_covariance(sampling=sampling)
        assert errors[name] == own.values.tolist()
        assert errors["names"] == list(own.names)
    assert found["intervals"]["mean"]["low"] == dpcov.intervals(made, "mean").low.tolist()
    assert found["status"] == "reproducible: NOT PRIVATE"
    assert found["guarantee"] == made.guarantee_in_words()


@pytest.mark.parametrize("target", TARGETS)
def test_every_folder_says_what_it_is_and_that_a_seed_protects_nobody(made, tmp_path, target):
    written = write_folder(made, target, tmp_path / "new", columns=["x1", "x0"])
    assert {path.name for path in written} == {path.name for path in (tmp_path / "new").iterdir()}
    text = (tmp_path / "new" / README).read_text()
    assert made.guarantee_in_words() in text
    for path in written:
        stated = "NOT PRIVATE" in path.read_text()
        # A script reads its numbers from the tables, and the others read no comments.
        assert stated or path.suffix in (".R", ".py", ".dat") or path.name.startswith("jasp_")
    if target in ("jasp", "stata", "mplus"):
        assert "Not tested" in text
        assert "leave out the privacy noise" in text


def test_a_folder_with_files_is_replaced_only_by_force(run, made):
    made.save("a.release.json")
    assert run("export a.release.json --for r").code == 0
    before = Path("a-r/estimate.json").read_text()
    refused = run("export a.release.json --for r --columns x0")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert Path("a-r/estimate.json").read_text() == before
    assert run("export a.release.json --for r --columns x0 --force -q").code == 0
    assert json.loads(Path("a-r/estimate.json").read_text())["columns"] == ["x0"]
    assert run("export a.release.json --for r --out a.release.json").code == 2
    assert run("export a.release.json --for r --columns z --out new").code == 2
    assert not Path("new").exists()


def test_names_are_plain_short_and_different():
    names = [
        "ward=general",
        "ward general",
        "Ward_general",
        "1a",
        "if",
        "\u00e4",
        "a" * 40,
        "a" * 41,
    ]
    found = variables(names)
    assert found[:5] == ("ward_general", "ward_general_2", "Ward_general_3", "v_1a", "v_if")
    assert len({name.lower() for name in found}) == len(names)
    assert max(map(len, found)) <= 32
    assert max(map(len, variables(names, 8))) <= 8


def test_a_release_without_covariances_is_exported_to_r_alone(tmp_path):
    schema = dpcov.Schema.from_bounds(-1, 1, ["x", "y"], intercept=0.0)
    blind = dpcov.release(ROWS[:, :2], schema=schema, epsilon=1.0, seed=1)
    write_folder(blind, "r", tmp_path / "r")
    found = json.loads((tmp_path / "r" / "estimate.json").read_text())
    assert found["covariance"] is found["error_covariance"] is found["mean"] is None
    assert found["not_released"] in found["cautions"]
    with pytest.raises(NotReleasedError):
        write_folder(blind, "lavaan", tmp_path / "lavaan")


def has(target: str) -> bool:
    """Return True if the software of a script is here."""
    if target in ("statsmodels", "semopy"):
        return importlib.util.find_spec(target) is not None
    if shutil.which("Rscript") is None:
        return False
    asked = ["Rscript", "-e", f"library({target})"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


@pytest.mark.parametrize(("target", "script"), SOFTWARE.items())
def test_the_script_runs_and_its_standard_errors_include_the_noise(made, tmp_path, target, script):
    if not has(target):
        pytest.skip(f"{target} is not installed; .ci/services installs lavaan and psych")
    folder = tmp_path / target
    write_folder(made, target, folder)
    asked = ["Rscript", "--vanilla"] if script.endswith(".R") else [sys.executable]
    done = subprocess.run([*asked, script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # The regression of x3, or the loadings of one factor: the first line with x0 and two numbers.
    line = next(filter(None, map(NUMBERS.search, done.stdout.splitlines())))
    estimate, error = map(float, line.groups())

    def slope(_, covariance):
        return np.linalg.solve(covariance[:3, :3], covariance[:3, 3])[0]

    if target != "psych":
        assert np.isclose(estimate, slope(None, made.covariance()), atol=2e-3)
        assert np.isclose(error, dpcov.standard_errors(made, slope), rtol=0.1)
    classical = 1 / np.sqrt(made.count())
    assert error > 1.5 * classical  # control: the script does not print the classical error


def test_lavaan_has_standard_errors_if_units_differ(tmp_path):
    if not has("lavaan"):
        pytest.skip("lavaan is not installed; .ci/services installs lavaan")
    units = np.array([1.0, 1e4, 1e-3, 1.0])
    made = dpcov.release(ROWS * units, lower=-5 * units, upper=5 * units, epsilon=0.5, seed=1)
    folder = tmp_path / "lavaan"
    write_folder(made, "lavaan", folder)
    asked = ["Rscript", "--vanilla", "lavaan.R"]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in ("x0", "x1", "x2"):
        line = re.search(rf"^\s*{name}\s+(-?\d+\.\d+)\s+(\d+\.\d+)", done.stdout, re.MULTILINE)
        assert line is not None, done.stdout
        found[name] = [float(part) for part in line.groups()]

    def slopes(_, covariance):
        return np.linalg.solve(covariance[:3, :3], covariance[:3, 3]) * units[:3]

    wanted = slopes(None, made.covariance())
    errors = dpcov.standard_errors(made, slopes)
    np.testing.assert_allclose([one for one, _ in found.values()], wanted, atol=2e-3)
    np.testing.assert_allclose([one for _, one in found.values()], errors, rtol=0.1)
