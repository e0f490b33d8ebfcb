"""Three tries of a new contributor who reads CONTRIBUTING.md: each changes at most 3 files.

A folder of `tests/tries` has the new files of a try, at their paths in the repository, and the
changes of the other files in `changes.diff`. Generated files such as `tests/golden_json.json` do
not count.

- A mechanism that publishes sums (means and variances) only, with Gaussian or Laplace noise.
- The coefficient of variation with its interval, as a column of `dpcov covariance`.
- A data source for Feather files.
"""

import re
import subprocess
from pathlib import Path

import pytest

from changed_trees import PYTHON, changed_copy, kept_layers, passed
from shell_commands import shell

TRIES = Path(__file__).parent / "tries"
NAMES = ("coefficient_of_variation", "feather", "sums")
MAX_FILES = 3
BATTERY = [
    ("tests/conformance/test_mechanisms.py", "sums|Sums", 60),
    ("tests/test_sources_attack.py tests/test_sources_agree.py", "Feather|every_source", 3),
    ("tests/test_coefficient_of_variation.py tests/test_sums.py", "variation|covariance", 2),
]


def new_files(name):
    """Return the paths of the new files of a try, in the repository."""
    found = (TRIES / name).rglob("*.py")
    return sorted(str(path.relative_to(TRIES / name)) for path in found)


def changes(name):
    return (TRIES / name / "changes.diff").read_text()


def changed_files(name):
    """Return the paths of the changed files of a try."""
    return re.findall(r"^\+\+\+ b/(\S+)", changes(name), re.MULTILINE)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Return a copy of the folders, with all tries applied."""
    tree = changed_copy(tmp_path_factory.mktemp("tree"), map(changes, NAMES))
    for name in NAMES:
        for path in new_files(name):
            assert not (tree / path).exists()
            (tree / path).write_text((TRIES / name / path).read_text())
    return tree


def test_each_try_changes_at_most_three_files():
    assert sorted(path.name for path in TRIES.iterdir()) == sorted(NAMES)
    for name in NAMES:
        files = [*new_files(name), *changed_files(name)]
        assert len(files) == len({*files}) <= MAX_FILES, name


@pytest.mark.slow
def test_the_tries_pass_their_battery(tree):
    passed(tree, BATTERY)


@pytest.mark.parametrize("check", ["check", "format --check"])
def test_the_tries_pass_the_linter(tree, check):
    pytest.importorskip("ruff", reason="ruff is not installed (make lint)")
    files = [path for name in NAMES for path in (*new_files(name), *changed_files(name))]
    line = f"{PYTHON} -m ruff {check} --no-cache"
    shell(f"{line} {' '.join(files)}", tree)
    (tree / "worse.py").write_text("import os\nx = ( 1)\n")
    with pytest.raises(subprocess.CalledProcessError):  # control
        shell(f"{line} worse.py", tree)


def test_the_tries_pass_the_prose_check_and_keep_to_the_layers(tree):
    pytest.importorskip("importlinter", reason="import-linter is not installed (make lint)")
    files = " ".join(path for name in NAMES for path in new_files(name))
    printed = shell(f"{PYTHON} tools/prose.py {files}", tree)
    assert printed.splitlines()[-1] == "0 findings"
    assert kept_layers(tree)
