"""Copies of the repository with commits applied, for tests of CONTRIBUTING.md."""

import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from shell_commands import shell

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "trust", "benchmarks", "tools")
PYTHON = shlex.quote(sys.executable)


def changed_copy(tree: Path, commits: Iterable[str]) -> Path:
    """Return a copy of the folders with these commits applied."""
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    for number, commit in enumerate(commits):
        (tree / f"{number}.diff").write_text(commit)
        shell(f"GIT_DIR=none git apply --whitespace=error {number}.diff", tree)
    return tree


def passed(tree: Path, battery: list[tuple[str, str, int]]) -> None:
    """Run test files, and assert that enough tests of each pass.

    The battery lists test files, a pattern for the tests that concern a commit, and their smallest
    number.
    """
    files, words, _ = zip(*battery, strict=True)
    wanted = "|".join(words).replace("|", " or ")
    line = f"-m pytest -v -p no:cacheprovider {' '.join(files)} -k '{wanted}'"
    reported = shell(f"PYTHONPATH=src {PYTHON} {line}", tree)
    lines = [line for line in reported.splitlines() if " PASSED" in line]
    for tests, word, least in battery:
        own = [line for line in lines if line.startswith(tuple(tests.split()))]
        assert len([line for line in own if re.search(word, line)]) >= least, tests


def kept_layers(tree: Path) -> bool:
    """Return True if the imports of the tree keep to the layers."""
    code = "from importlinter.cli import lint_imports_command as run; run()"
    line = f'PYTHONPATH=src {PYTHON} -c "{code}" --no-cache --no-logo'
    return "0 broken" in shell(line, tree)
