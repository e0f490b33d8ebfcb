"""The commands of the documents run as printed, and the figures are the measured ones."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import figures
from changed_trees import changed_copy, kept_layers, passed
from shell_commands import shell

ROOT = Path(__file__).parents[1]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
COMMITS = [(ROOT / name).read_text() for name in re.findall(r"`(tests/commits/.*?)`", CONTRIBUTING)]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_what_is_linked_is_there(page):
    named = re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text())
    assert len(named) >= 6
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def changed_tree(tmp_path_factory):
    """Return a copy of the folders, with the commits of CONTRIBUTING.md applied."""
    assert len(COMMITS) == len([*(ROOT / "tests" / "commits").iterdir()]) == 3
    return changed_copy(tmp_path_factory.mktemp("tree"), COMMITS)


# Test files of each commit, a pattern for the tests that concern it, and their smallest number.
BATTERY = [
    ("tests/conformance/test_mechanisms.py", "plain-gaussian|PlainGaussian", 60),
    ("tests/test_sources_attack.py tests/test_sources_agree.py", "npy|every_source", 3),
    ("tests/test_means.py tests/test_results.py tests/test_completion.py", "means", 4),
]


@pytest.mark.slow
def test_the_commits_of_contributing_apply_and_pass_their_battery(changed_tree):
    passed(changed_tree, BATTERY)


CHANGED = re.findall(r"^\+\+\+ b/(\S+)", "".join(COMMITS), re.MULTILINE)


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]])
def test_the_commits_of_contributing_pass_the_linter(changed_tree, check):
    pytest.importorskip("ruff", reason="ruff is not installed (make lint)")
    line = f"{shlex.quote(sys.executable)} -m ruff {' '.join(check)} --no-cache"
    shell(f"{line} {' '.join(CHANGED)}", changed_tree)
    (changed_tree / "worse.py").write_text("import os\nx = ( 1)\n")
    with pytest.raises(subprocess.CalledProcessError):  # control
        shell(f"{line} worse.py", changed_tree)


def test_the_new_files_of_contributing_pass_the_prose_check(changed_tree):
    new = re.findall(r"^--- /dev/null\n\+\+\+ b/(\S+)", "".join(COMMITS), re.MULTILINE)
    assert len(new) == 4
    printed = shell(f"{shlex.quote(sys.executable)} tools/prose.py {' '.join(new)}", changed_tree)
    assert printed.splitlines()[-1] == "0 findings"


def test_the_commits_of_contributing_keep_to_the_layers(changed_tree):
    pytest.importorskip("importlinter", reason="import-linter is not installed (make lint)")
    assert kept_layers(changed_tree)


def test_contributing_is_short_and_lists_the_packages_in_the_order_of_their_layers():
    assert len(re.findall(r"[^\W_][\w'/-]*", CONTRIBUTING)) <= 700
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = project["tool"]["importlinter"]["contracts"][0]["layers"]
    rows = re.findall(r"^\| (`.*?) \|", CONTRIBUTING, re.MULTILINE)
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


def test_an_old_result_does_not_replace_a_newer_snapshot(tmp_path, monkeypatch, capsys):
    """Control: a newer result does, and so does an old one that is asked for by its name."""
    snapshots, results = tmp_path / "docs" / "results", tmp_path / "results"
    snapshots.mkdir(parents=True)
    results.mkdir()
    snapshot, result = snapshots / "made_up.json", results / "made_up.json"
    snapshot.write_text("newer")
    result.write_text("older")
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "SNAPSHOTS", snapshots)
    monkeypatch.setattr(figures, "FIGURES", {})
    monkeypatch.setattr(figures, "papers", lambda: None)
    os.utime(result, (0, 0))
    figures.main([])
    assert snapshot.read_text() == "newer"
    assert "results/made_up.json is older than its snapshot" in capsys.readouterr().out
    figures.main(["made_up"])
    assert snapshot.read_text() == "older"
    result.write_text("newest")
    os.utime(snapshot, (0, 0))
    figures.main([])
    assert snapshot.read_text() == "newest"
    assert not capsys.readouterr().out


@pytest.mark.parametrize("name", figures.FIGURES)
def test_cited_figures_are_those_of_the_snapshots(name):
    page, _ = figures.FIGURES[name]
    assert figures.rendered(name) in (ROOT / page).read_text()
