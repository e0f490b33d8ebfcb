"""What the documents say is so: commands run word for word, figures are those measured."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
sys.path.insert(0, str(ROOT / "benchmarks"))
import figures  # noqa: E402 (the benchmarks are no package)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def shell(command: str, folder: Path) -> None:
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env=os.environ | {"PATH": programs},
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    shell("dpcov demo", folder := tmp_path_factory.mktemp("readme"))
    return folder


def test_the_readmes_minute_of_use_runs_word_for_word(demo_folder):
    commands = "".join(block for block in blocks("") if "people.release.json" in block)
    assert commands.count("\n") >= 11
    shell(commands, demo_folder)


def test_the_readmes_python_runs_word_for_word(demo_folder):
    (program,) = blocks("python")
    shell(f"{sys.executable} -W error - <<'EOF'\n{program}EOF", demo_folder)


def test_the_readmes_make_targets_exist():
    targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"`?make ([a-z-]+)", README))
    assert {"demo", "test"} <= named <= set(targets)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_cited_figures_are_those_of_the_snapshots(name):
    page, _ = figures.FIGURES[name]
    assert figures.rendered(name) in (ROOT / page).read_text()
