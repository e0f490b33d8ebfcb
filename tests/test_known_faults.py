"""Kinds of faults that others found in libraries: planted in dpcov, each fails a named test."""

import importlib
import itertools
import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import auditors
import dpcov
import recorder
from dpcov.api.auditing.adversaries import settings
from dpcov.core import registry
from dpcov.core.privacy import Neighbors, PureDP
from dpcov.mechanisms import MECHANISMS, Laplace
from dpcov.rows.moment import Lattice
from known_faults import FAULTS

ROOT = Path(__file__).parents[1]

FAILURE = Exception, pytest.fail.Exception
PLANTED = [
    pytest.param(
        fault,
        id=fault.plant.__name__,
        # That file makes hundreds of tables when it is imported.
        marks=[pytest.mark.slow] if "test_coupling" in fault.test else [],
    )
    for fault in FAULTS
]


def named(fault):
    """Return the test that a fault must fail, with its arguments."""
    file, _, name = fault.test.partition("::")
    tests = importlib.import_module(file.removesuffix(".py"))
    return getattr(tests, name), fault.arguments(tests)


@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_fails_its_test_which_passes_without_it(fault):
    test, arguments = named(fault)
    test(*arguments)
    with fault.plant(), pytest.raises(FAILURE):
        test(*arguments)


class PlainTool:
    """A tool with the interface of dp-recorder that compares nothing."""

    @staticmethod
    def audit_spec(*_):
        return lambda function: function

    @staticmethod
    def ensure_equality(**_):
        pass


def test_the_tool_sees_every_addition_of_noise_and_changes_no_number():
    setting = settings(3)[0]
    one = recorder.Recording("standardized", {"epsilon": 1.0}, Neighbors.ADD_REMOVE, setting, 50)
    table, _, _ = one.tables([])
    run = recorder.Run(Neighbors.ADD_REMOVE, setting.schema(), 0, PlainTool)
    plain = dpcov.release(table, seed=5, **one.asked())
    with recorder.recorded(run):
        made = dpcov.release(table, seed=5, **one.asked())
    assert made.rounds == plain.rounds
    assert run.added == ["pilot", "norms", "matrix", "trace", "count"]


def test_every_mechanism_of_the_product_is_audited():
    product = MECHANISMS.keys() - registry.PAPER_MECHANISMS.keys()
    assert recorder.ASKED.keys() == {"auto", *product}
    assert recorder.OF_PAPERS.keys() <= registry.PAPER_MECHANISMS.keys()
    audited = {row["measured"].split(",")[0] for row in kept("dp-recorder", "dp-recorder")}
    assert audited >= recorder.ASKED.keys() | recorder.OF_PAPERS.keys()


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("options", [{}, {"paper_constants": True}])
def test_the_sensitivity_of_noise_in_each_entry_is_that_of_the_largest_change(neighbors, options):
    lattice = Lattice(3, 1.0)
    law = Laplace(0.0, **options).calibrate(lattice, PureDP(1.0), neighbors).matrix
    ratio = law.diagonal / law.off_diagonal
    stated = recorder.entries_sensitivity(lattice, law, neighbors)
    norm, found = recorder.weighted(ratio), []
    for signs in itertools.product((-1, 1), repeat=6):  # the worst rows are eigenvectors
        weights = np.diag(signs[:3]).astype(float)
        weights[np.triu_indices(3, 1)] = float(ratio) / 2 * np.array(signs[3:])
        vectors = np.linalg.eigh(weights, UPLO="U").eigenvectors
        last, first = (lattice.unit_bound * np.outer(row, row) for row in vectors.T[[2, 0]])
        found.append(norm(last, first if neighbors == Neighbors.REPLACE_ONE else 0 * first))
    assert 0.95 * stated <= max(found) <= stated * (1 + 1e-12)
    assert stated <= float(law.diagonal) * (1 + 1e-12)


def kept(name, attack=None):
    """Return the kept results of a tool, or of one of its attacks."""
    rows = json.loads((ROOT / f"docs/results/{name}.json").read_text())["rows"]
    return [row for row in rows if attack in (None, row["attack"])]


def test_dp_recorder_finds_every_fault_that_a_release_shows():
    controls = kept("dp-recorder", "dp-recorder: control that must be caught")
    found = {row["measured"] for row in controls if row["found"].startswith("found")}
    assert found == {fault.kind for fault in FAULTS if fault.release is not None}


@pytest.mark.parametrize("name", auditors.MEASURES)
def test_the_kept_results_are_as_required_at_the_commit_that_the_code_names(name):
    tool, _ = auditors.MEASURES[name]
    assert {row["tool"] for row in kept(name)} == {f"{tool.repository} {tool.commit}"}
    assert all(row["ok"] for row in kept(name))


def test_no_black_box_test_finds_half_of_the_noise_as_the_page_says():
    page = " ".join((ROOT / "docs/trust.md").read_text().split())
    sentence = "With 1,500 runs of `matrix-laplace`, none of its four tests detects that the noise"
    assert sentence in page
    power = kept("dp-auditorium", "DP-Auditorium: power")
    assert len(power) == 4
    assert all(": 0 of " in form for row in power for form in row["found"].split(", "))


@pytest.fixture
def checkout(tmp_path):
    """Make a folder with a repository of one commit, and return the tool and the folder."""
    made = tmp_path / "tool"
    (made / "src").mkdir(parents=True)
    (made / "src/a.py").write_text("")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for asked in (["init"], ["add", "."], [*who, "commit", "--message", "a"]):
        subprocess.run(["git", "-C", made, *asked], check=True, capture_output=True)
    return auditors.Tool("a/tool", auditors.git(made, "rev-parse", "HEAD"), "src", (), ""), tmp_path


def test_a_tool_runs_at_its_commit_and_without_changes_only(checkout, monkeypatch):
    tool, folder = checkout
    monkeypatch.setattr("sys.path", [])
    tool.load(folder)
    with pytest.raises(SystemExit, match=r"but the audit needs 0000 of .*a/tool\. Check out"):
        replace(tool, commit="0000").load(folder)
    (folder / "tool/src/a.py").write_text("x = 1")
    with pytest.raises(SystemExit, match=r"has changes\. Undo them\.$"):
        tool.load(folder)


def test_without_a_folder_one_line_says_how_to_run_the_tools(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["auditors.py"])
    assert auditors.main() == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("The audit tools of others were left out. make trust AUDITORS=FOLDER")
