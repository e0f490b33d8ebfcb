"""The stories of the examples folder run to their end, as scripts and as notebooks."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dpcov

EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))
import notebooks  # noqa: E402 (the examples are no package)

MINUTE = 60
DATA = EXAMPLES.parent / "data"
FORMS = ("script", "notebook")
TASKS = {path.stem for path in (EXAMPLES / "tasks").glob("*.py")} - {"side_by_side"}
IN_R = {"factor_model": "lavaan", "factor_analysis": "psych"}
# Smallest fraction of the 95% intervals of all tasks that contain the confidential answer. Figures
# of one release have related errors, so one run can miss several of them.
MOST = 0.8
ID = re.compile(r"[a-zA-Z0-9-_]{1,64}")


def code_of(name, form):
    """Return the program of a story; for a notebook, the cells in the order of a kernel."""
    if form == "script":
        return (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    document = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    return "\n\n".join(
        "".join(cell["source"]) for cell in document["cells"] if cell["cell_type"] == "code"
    )


def story(name, folder, data, form):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-"],
        input=code_of(name, form),
        cwd=folder,
        env=os.environ | {"DPCOV_DATA": str(data), "MPLBACKEND": "Agg"},
        capture_output=True,
        text=True,
        timeout=MINUTE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_hospital_protects_patients_and_stops_at_its_budget(form, tmp_path):
    reported = story("hospital", tmp_path, tmp_path, form)
    folder = tmp_path / "hospital"
    assert "any one person (column 'patient', at most 4 rows each)" in reported
    assert "A second release: Not enough budget" in reported
    assert dpcov.Ledger.open(folder / "ward.ledger").account().left == {"epsilon": 0.5}
    assert "The ward" in (folder / "ward.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("data", [DATA, Path("/nowhere")])
def test_the_census_estimates_the_fraction_of_women_to_a_hundredth(data, form, tmp_path):
    reported = story("census", tmp_path, data, form)
    assert ("the Adult table" in reported) == (data == DATA)
    made = dpcov.load(tmp_path / "census" / "census.release.json")
    stated = dpcov.intervals(made, "mean", sampling=False)
    place = made.columns.index("sex=Female")
    half_width = (stated.high - stated.low)[place] / 2
    assert half_width < 0.015  # 0.007 to 0.010 in six releases, so larger is a fault
    assert float(reported.split("off by ")[1].split()[0]) < 2.5 * half_width
    assert len(made.columns) == (105 if data == DATA else 14)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("data", [DATA, Path("/nowhere")])
def test_the_laboratory_finds_that_two_scores_of_one_scale_belong_together(data, form, tmp_path):
    reported = story("laboratory", tmp_path, data, form)
    assert ("recordings are real" in reported) == (data == DATA)
    assert "motor_UPDRS - total_UPDRS" in reported.split("the strongest:")[1].splitlines()[1]
    document = json.loads((tmp_path / "laboratory" / "voices.release.json").read_text())
    assert document["mechanism"] == "standardized"
    assert "<svg" in (tmp_path / "laboratory" / "voices.svg").read_text()


def has_package(name):
    if shutil.which("Rscript") is None:
        return False
    return not subprocess.run(["Rscript", "-e", f"library({name})"], capture_output=True).returncode


@pytest.mark.slow
def test_the_tasks_print_private_answers_beside_the_confidential_ones(tmp_path):
    found = np.zeros(2)
    for name in sorted(TASKS):
        if name in IN_R and not has_package(IN_R[name]):
            continue
        script = EXAMPLES / "tasks" / f"{name}.py"
        command = [sys.executable, "-W", "error", script]
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, timeout=5 * MINUTE
        )
        assert done.returncode == 0, done.stderr
        found += np.array(re.search(r"(\d+) of (\d+) intervals contain", done.stdout).groups(), int)
    assert found[0] > MOST * found[1]


def test_the_readme_lists_every_task():
    text = (EXAMPLES / "tasks" / "README.md").read_text(encoding="utf-8")
    runner = (EXAMPLES.parent / ".ci" / "tasks").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+)\.py`", text)) == TASKS
    assert all(re.search(rf"\b{name}\b", runner) for name in TASKS)


def test_every_story_is_a_notebook_in_step_with_its_script():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")} - {"notebooks"}
    assert scripts == set(notebooks.STORIES) == {path.stem for path in EXAMPLES.glob("*.ipynb")}
    for name in notebooks.STORIES:
        kept = (EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8")
        assert kept == notebooks.text(name), "run: python examples/notebooks.py"


@pytest.mark.parametrize("name", notebooks.STORIES)
def test_a_notebook_has_all_the_code_of_its_script_and_no_outputs(name):
    script, cells = code_of(name, "script"), code_of(name, "notebook")
    whole = ast.parse(script)
    assert ast.dump(ast.Module(whole.body[1:], [])) == ast.dump(ast.parse(cells))
    document = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    made = document["cells"]
    assert made[0]["source"][0].startswith("# ")
    assert sum(cell["cell_type"] == "markdown" for cell in made) >= 4
    assert len({cell["id"] for cell in made}) == len(made)
    for cell in made:
        assert ID.fullmatch(cell["id"])
        assert "".join(cell["source"]).strip()
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)


def test_cells_are_separated_by_their_marks():
    script = '"""Title.\n\nText."""\n\n# %%\na = 1\n\n# %% [markdown]\n# One\n#\n# two\n\n# %%\nb\n'
    assert notebooks.cells(script) == [
        ("markdown", "# Title\n\nText."),
        ("code", "a = 1"),
        ("markdown", "One\n\ntwo"),
        ("code", "b"),
    ]
