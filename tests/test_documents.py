"""The commands of the documents run as printed, and the figures are the measured ones."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
import figures

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


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
def example(tmp_path_factory):
    """Run the example of the README in a folder: its program, its schema and its commands."""
    folder = tmp_path_factory.mktemp("readme")
    (program,), (schema,), (console,) = blocks("python"), blocks("toml"), blocks("console")
    shell(f"{sys.executable} -W error - <<'EOF'\n{program}EOF", folder)
    (folder / "visits.toml").write_text(schema)
    commands = re.findall(r"^\$ (.*)$", console, re.MULTILINE)
    assert len(commands) == len(console.splitlines()) >= 4
    printed = [shell(command, folder) for command in commands]
    return folder, dict(zip(commands, printed, strict=True))


def stated(pattern: str) -> float:
    """Return the number that a sentence of the README states."""
    (found,) = re.findall(pattern, " ".join(README.split()))
    return float(found.replace(",", ""))


def test_the_example_of_the_readme_protects_persons_and_gives_the_figures_that_it_states(example):
    folder, _ = example
    made = dpcov.load(folder / "visits.json")
    assert (made.guarantee.unit.column, made.guarantee.unit.max_rows) == ("patient", 3)
    assert made.guarantee.budget == dpcov.PureDP(1.0)
    visits = pd.read_parquet(folder / "visits.parquet")
    whole = visits["age"].corr(visits["pressure"])
    used = np.minimum(visits["patient"].value_counts(), 3).sum()
    assert whole == pytest.approx(
        stated(r"correlation of all 60,000 visits was ([\d.]+)\. "), abs=5e-4
    )
    assert used == pytest.approx(stated(r"used about ([\d,]+) visits"), abs=1000)
    private = stated(r"the private correlation was ([\d.]+),")
    assert made.correlation()[0, 1] == pytest.approx(private, abs=0.02)
    assert abs(whole - private) < 0.02
    assert whole != pytest.approx(private + 0.05, abs=0.02)  # control: another figure is noticed


def test_the_example_of_the_readme_needs_only_what_make_demo_installs():
    (program,) = blocks("python")
    named = set(re.findall(r"(?:import |, )(\w+)[\w.]* as ", program))
    locked = (ROOT / "requirements" / "demo.txt").read_text()
    assert named == {"numpy", "pyarrow"}
    assert all(re.search(rf"^{name}==", locked, re.MULTILINE) for name in named)
    assert not re.search(r"^pandas==", locked, re.MULTILINE)  # control: the lock is a real limit


def test_the_commands_of_the_readme_do_what_their_comments_say(example):
    folder, printed = example
    plan, *_, ols = printed.values()
    assert "No data was read" in plan
    assert "age" in ols
    with pytest.raises(subprocess.CalledProcessError):  # the ledger holds epsilon 3 in total
        shell(
            "dpcov release visits.parquet --schema visits.toml --epsilon 2.5 "
            "--ledger visits.ledger --out second.json",
            folder,
        )


def test_the_readme_is_short_and_its_picture_is_there():
    assert README.count("\n") <= 100
    (picture,) = re.findall(r'<img src="([^"]+)"', README)
    assert (ROOT / picture).read_bytes().startswith(b"\x89PNG")
    assert (ROOT / picture).stat().st_size < 100_000


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_what_is_linked_is_there(page):
    named = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text())
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def changed_tree(tmp_path_factory):
    """A copy of what the commits of CONTRIBUTING.md change, with both applied."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("src", "tests", "trust", "benchmarks", "tools"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.pyc"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    commits = re.findall(r"^```diff\n(.*?)^```", CONTRIBUTING, re.DOTALL | re.MULTILINE)
    assert len(commits) == 3
    for number, commit in enumerate(commits):
        (tree / f"{number}.diff").write_text(commit)
        shell(f"GIT_DIR=none git apply --whitespace=error {number}.diff", tree)
    return tree


# Test files of each commit, a pattern for the tests that concern it, and their smallest number.
BATTERY = [
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


CHANGED = re.findall(r"^\+\+\+ b/(\S+)", CONTRIBUTING, re.MULTILINE)


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]])
def test_the_commits_of_contributing_pass_the_linter(changed_tree, check):
    pytest.importorskip("ruff", reason="ruff is not installed (make lint)")
    line = f"{sys.executable} -m ruff {' '.join(check)} --no-cache"
    shell(f"{line} {' '.join(CHANGED)}", changed_tree)
    (changed_tree / "worse.py").write_text("import os\nx = ( 1)\n")
    with pytest.raises(subprocess.CalledProcessError):  # control
        shell(f"{line} worse.py", changed_tree)


def test_the_new_files_of_contributing_pass_the_prose_check(changed_tree):
    new = re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)", CONTRIBUTING, re.MULTILINE)
    assert len(new) == 4
    printed = shell(f"{sys.executable} tools/prose.py {' '.join(new)}", changed_tree)
    assert printed.splitlines()[-1] == "0 findings"


def test_the_commits_of_contributing_keep_to_the_layers(changed_tree):
    pytest.importorskip("importlinter", reason="import-linter is not installed (make lint)")
    code = "from importlinter.cli import lint_imports_command as run; run()"
    line = f'PYTHONPATH=src {sys.executable} -c "{code}" --no-cache --no-logo'
    assert "0 broken" in shell(line, changed_tree)


def test_contributing_is_short_and_lists_the_packages_in_the_order_of_their_layers():
    prose = re.sub(r"^```diff\n.*?^```\n", "", CONTRIBUTING, flags=re.DOTALL | re.MULTILINE)
    assert len(re.findall(r"[^\W_][\w'/-]*", prose)) <= 700
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = re.findall(r"^\| (`.*?) \|", prose, re.MULTILINE)
    assert [re.findall(r"`(\w+)`", row) for row in rows] == [one.split(" | ") for one in layers]


KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")


def test_the_changelog_keeps_the_form_of_keep_a_changelog():
    text = (ROOT / "CHANGELOG.md").read_text()
    head, *versions = re.split(r"^## (?=\[)", text, flags=re.MULTILINE)
    assert "## Do I have to run again?" in head
    dated = r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|unreleased)"
    assert all(re.fullmatch(dated, version.splitlines()[0]) for version in versions)
    kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert {*kinds} <= {*KINDS}
    entries = [line for version in versions for line in version.splitlines() if line[:2] == "- "]
    assert len(entries) > 50
    assert all(line.endswith(".") and len(line) <= 120 for line in entries)
    assert not re.search(r"^  \S", text, re.MULTILINE)  # an entry is one line


def test_the_readmes_make_targets_exist():
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"demo", "test"} <= named <= set(targets)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_cited_figures_are_those_of_the_snapshots(name):
    page, _ = figures.FIGURES[name]
    assert figures.rendered(name) in (ROOT / page).read_text()
