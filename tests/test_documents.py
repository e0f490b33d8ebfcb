"""What the documents say is so: commands run word for word, figures are those measured."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import figures

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


DATE = re.compile(r"\d{4}-\d\d-\d\d")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")


def shell(command: str, folder: Path) -> str:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=os.environ | {"PATH": programs},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    shell("dpcov demo", folder := tmp_path_factory.mktemp("readme"))
    return folder


def alike(printed: str, shown: str) -> bool:
    """Whether an output is the one that is shown, but for the noise in a number and the date."""
    stated = DATE.sub("DATE", shown.strip()), DATE.sub("DATE", printed.strip())
    if NUMBER.sub("N", stated[0]) != NUMBER.sub("N", stated[1]):
        return False
    pairs = zip(*(map(float, NUMBER.findall(text)) for text in stated), strict=True)
    return all(abs(one - other) <= max(0.02, 0.1 * abs(one)) for one, other in pairs)


def test_the_readmes_ten_lines_run_and_print_what_is_shown(demo_folder):
    (block,) = blocks("console")
    lines = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    assert 6 <= len(lines) <= 10
    for command, shown in lines:
        assert alike(shell(command, demo_folder), shown), command
    for written in ("draft.toml", "correlations.csv", "visits-to-a-doctor.txt", "people.html"):
        assert (demo_folder / written).stat().st_size > 200


def test_the_readmes_python_runs_and_prints_what_is_shown(demo_folder):
    (program,), (shown,) = blocks("python"), blocks("text")
    assert alike(shell(f"{sys.executable} -W error - <<'EOF'\n{program}EOF", demo_folder), shown)


@pytest.mark.parametrize(
    ("printed", "same"),
    [("r = 0.56 (2027-01-02)", True), ("r = 0.75 (2026-01-01)", False), ("s = 0.55 (x)", False)],
)
def test_control_another_output_is_not_the_one_shown(printed, same):
    assert alike(printed, "r = 0.55 (2026-01-01)\n") == same


def test_the_readme_is_short_and_its_picture_is_there():
    assert README.count("\n") <= 110
    (picture,) = re.findall(r'<img src="([^"]+)"', README)
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / picture).stat().st_size < 100_000


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_what_is_linked_is_there(page):
    named = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text())
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def changed_tree(tmp_path_factory):
    """A copy of what the commits of CONTRIBUTING.md change, with both applied."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("src", "tests", "trust", "benchmarks"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    commits = re.findall(r"^```diff\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    assert len(commits) == 3
    for number, commit in enumerate(commits):
        (tree / f"{number}.diff").write_text(commit)
        shell(f"GIT_DIR=none git apply --whitespace=error {number}.diff", tree)
    return tree


BATTERY = [  # files, what tells a commit's tests among theirs, and how many there are at least
    ("tests/conformance/test_mechanisms.py", "plain-gaussian|PlainGaussian", 60),
    ("tests/test_door.py tests/test_doors_agree.py", "npy|every_door", 3),
    ("tests/test_means.py tests/test_results.py tests/test_completion.py", "means", 4),
]


def test_the_commits_of_contributing_apply_and_pass_their_battery(changed_tree):
    files, words, _ = zip(*BATTERY, strict=True)
    wanted = "|".join(words).replace("|", " or ")
    line = f"-m pytest -v -p no:cacheprovider {' '.join(files)} -k '{wanted}'"
    told = shell(f"PYTHONPATH=src {sys.executable} {line}", changed_tree)
    passed = [line for line in told.splitlines() if " PASSED" in line]
    for tests, word, least in BATTERY:
        own = [line for line in passed if line.startswith(tuple(tests.split()))]
        assert len([line for line in own if re.search(word, line)]) >= least, tests


def test_the_readmes_make_targets_exist():
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"`?make ([a-z-]+)", README))
    assert {"demo", "test"} <= named <= set(targets)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_cited_figures_are_those_of_the_snapshots(name):
    page, _ = figures.FIGURES[name]
    assert figures.rendered(name) in (ROOT / page).read_text()
