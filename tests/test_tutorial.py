"""The tutorial, followed word for word by somebody who has nothing but a clone."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import dpcov

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import pages  # noqa: E402 (the site's own code is no package)

TEN_MINUTES = 600
OURS = ("MAKE", "MFLAGS", "PIP_", "PYTHON", "PYTEST", "VIRTUAL_ENV", "COV_")


def script() -> str:
    """Return what the tutorial asks its reader to type and to save, as one shell session."""
    tutorial = pages.DOCS / "tutorial.md"
    steps = []
    for block in pages.blocks(tutorial.read_text(encoding="utf-8")):
        if block.file:
            steps.append(f"cat > {block.file} <<'END'\n{block.code}END")
        elif block.language == "console":
            steps += block.commands
        elif block.language == "python":
            steps.append(f"python - <<'END'\n{block.code}END")
    return "\n".join(steps)


def newcomer() -> dict[str, str]:
    """Return the environment without variables of this test run; package indexes stay."""
    index = {"PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONFIG_FILE", "PIP_FIND_LINKS"}
    return {
        name: value
        for name, value in os.environ.items()
        if name in index or not name.startswith(OURS)
    }


@pytest.mark.slow
def test_the_tutorial_takes_a_new_clone_to_a_release_and_a_report_in_ten_minutes(tmp_path):
    clone = tmp_path / "dpcov"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    start = time.monotonic()
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script()],
        cwd=clone,
        env=newcomer(),
        capture_output=True,
        text=True,
        timeout=TEN_MINUTES,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert time.monotonic() - start < TEN_MINUTES
    made = dpcov.load(clone / "visits.json")
    assert made.columns == ("age", "smoker", "medicines", "systolic")
    assert made.guarantee.budget == dpcov.PureDP(1.0)
    assert (made.guarantee.unit.column, made.guarantee.unit.max_rows) == ("patient", 4)
    assert not made.reproducible
    page = (clone / "visits.html").read_text(encoding="utf-8")
    assert "<html" in page
    assert "medicines" in page


def test_the_script_is_the_tutorial_and_nothing_else():
    text = (pages.DOCS / "tutorial.md").read_text(encoding="utf-8")
    commands = [line for line in text.splitlines() if line.startswith("$ ")]
    typed = script()
    assert len(commands) >= 12
    assert all(command.removeprefix("$ ") in typed for command in commands)
    assert typed.index("make demo") < typed.index("dpcov release") < typed.index("dpcov report")
    assert "cat > visits.toml" in typed
