"""From 60 to 200 columns, on a terminal or not: no name and no number is cut, no table breaks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import dpcov
from dpcov import cli
from dpcov.api import plans
from dpcov.api.ledger import Ledger
from dpcov.core.privacy import PureDP
from dpcov.rows.schema import Schema
from tables_for_tests import correlated
from terminals import DPCOV, terminal, without_escapes

NAMES = (
    "systolic_blood_pressure_at_admission",
    "diastolic_blood_pressure_at_admission",
    "days_in_the_intensive_care_unit",
)
LEVELS = ("emergency_department_at_night", "elective")
WIDTHS = (60, 80, 120, 200)
SOME_SLOW = (60, *(pytest.param(width, marks=pytest.mark.slow) for width in (80, 120)), 200)
COMMANDS = {
    "show r.json": (),
    "correlation r.json": (*NAMES, f"reason={LEVELS[0]}"),
    "covariance r.json": (*NAMES, f"reason={LEVELS[0]}"),
    "pca r.json": (*NAMES, f"reason={LEVELS[0]}"),
    f"ridge r.json --target {NAMES[0]}": (*NAMES[1:], f"reason={LEVELS[0]}"),
    f"ols r.json --target {NAMES[0]} --features {NAMES[1]},{NAMES[2]}": NAMES[1:],
    "lda r.json --target reason": NAMES,
    "precision r.json --stability 2": NAMES,
    "plan s.toml --rows 1000 --mechanism nuclear-laplace": ("nuclear-laplace",),
    "ledger show l.ledger": ("the_data_set_of_the_university_hospital",),
    "mechanisms": ("eigenvector-sampling", "paper_constants=False"),
}
NUMBER = re.compile(r"-?\d+\.\d{2,}")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return a folder with a release, a schema and a ledger, all with long names."""
    folder = tmp_path_factory.mktemp("widths")
    table = correlated(4000, 4)
    columns = {name: {"kind": "numeric", "lower": -1, "upper": 1} for name in NAMES}
    schema = Schema.parse(
        {"columns": {**columns, "reason": {"kind": "categorical", "levels": LEVELS}}}
    )
    reasons = np.where(table[:, 3] > 0, *LEVELS)
    data = pa.table([*table[:, :3].T, reasons], [*NAMES, "reason"])
    release = dpcov.release(data, schema=schema, epsilon=20.0, mechanism="matrix-laplace")
    release.save(folder / "r.json")
    text = "".join(f'[columns.{n}]\nkind = "numeric"\nlower = -1\nupper = 1\n' for n in NAMES)
    (folder / "s.toml").write_text(text)
    name = "the_data_set_of_the_university_hospital"
    Ledger.create(folder / "l.ledger", PureDP(1.0), dataset=name)
    return folder


@pytest.fixture(scope="module")
def planned():
    """Plan once, as COMMANDS do: what is tried here is how a plan is printed."""
    make, kept = plans.plan, []

    def plan(*arguments, **others):
        if not kept:
            kept.append(make(*arguments, **others))
        return kept[0]

    return plan


@pytest.fixture
def run(made: Path, planned, capsys, monkeypatch):
    """Run a command at a width; what it prints, without escapes."""
    monkeypatch.chdir(made)
    monkeypatch.setattr(plans, "plan", planned)

    def run(line: str, width: int, on_terminal: bool) -> str:
        monkeypatch.setenv("COLUMNS", str(width))
        if on_terminal:
            monkeypatch.setenv("TTY_COMPATIBLE", "1")
        with pytest.raises(SystemExit) as ended:
            cli.main(line.split())
        out, err = capsys.readouterr()
        assert ended.value.code == 0
        progress = ("refining the plan", "computing", "reading")
        assert not err or (on_terminal and any(words in err for words in progress))
        return without_escapes(out)

    return run


def first_column(text: str, name: str) -> list[str]:
    """Return lines from one that begins a name, each cut at the length of that piece."""
    found = []
    lines = text.splitlines()
    for at, line in enumerate(lines):
        piece = re.match(r"[│ ]*([\w=-]+)", line)
        if piece and name.startswith(piece[1]) and len(piece[1]) > 3:
            start, end = piece.span(1)
            whole = "".join(part[start:end].strip() for part in lines[at : at + 8])
            found.append(whole)
    return found


def holds(text: str, name: str) -> bool:
    """Return True if a name is there, in one piece or folded below itself."""
    return name in text or any(piece.startswith(name) for piece in first_column(text, name))


@pytest.mark.parametrize("on_terminal", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("width", SOME_SLOW)
@pytest.mark.parametrize("line", COMMANDS, ids=lambda line: line.split()[0])
def test_nothing_is_cut_and_no_table_is_wider_than_the_terminal(run, line, width, on_terminal):
    text = run(line, width, on_terminal)
    assert "…" not in text
    missing = [name for name in COMMANDS[line] if not holds(text, name)]
    assert not missing, text
    tables = [row for row in text.splitlines() if re.search(r"\S {2,}\S|[│┃━]", row)]
    if on_terminal and "ledger" not in line:
        assert all(len(row) <= width for row in tables if not row.startswith("OLS of")), text


@pytest.mark.parametrize("width", WIDTHS)
def test_numbers_are_whole_at_every_width(run, width):
    for line in ("pca r.json", "lda r.json --target reason"):
        shown = (run(line, size, True) for size in (400, width))
        wide, narrow = (text.split("alpha =")[0] for text in shown)  # chosen anew each time
        assert NUMBER.findall(narrow) == NUMBER.findall(wide) != []


@pytest.mark.parametrize("width", WIDTHS)
def test_covariances_that_do_not_fit_as_a_matrix_are_listed(run, width):
    wide, narrow = (run("covariance r.json", size, True) for size in (400, width))
    assert "Private covariances" in wide
    assert ("Private covariances" in narrow) == (width > 80)
    means, triangle = wide.split("Private covariances")
    wanted = [row.split()[2:-1] for row in triangle.splitlines() if re.match(r" *[2-5] ", row)]
    entries = {entry for row in wanted for entry in row}
    assert sum(map(len, wanted)) == 10  # two may be spelled alike
    assert set(NUMBER.findall(means)) <= set(NUMBER.findall(narrow))
    left_out = entries - set(re.findall(r"-?[\d.]+(?:e-\d+)?", narrow))
    assert len(left_out) <= 1  # the pair of levels of one column follows from their shares


def test_ols_on_a_narrow_terminal_has_all_its_figures(run):
    line = f"ols r.json --target {NAMES[0]} --features {NAMES[1]},{NAMES[2]}"
    wide, narrow = run(line, 200, True), run(line, 60, True)
    for head in ("coef", "std err", "sampling", "privacy", "P>|t|", "[0.025", "0.975]"):
        assert head in narrow
    for name in ("(intercept)", *(name[:8] for name in NAMES[1:])):  # folded below itself
        (whole,) = (row.split() for row in wide.splitlines() if row.startswith(name))
        first, second = (row.split() for row in narrow.splitlines() if row.startswith(name))
        assert (len(whole), len(first), len(second)) == (9, 5, 5)
        assert first[1] == whole[1]  # errors and bounds are simulated anew
        assert np.isfinite([float(figure) for figure in first[1:] + second[1:]]).all()
    assert "Std. errors combine two sources" in narrow


def test_control_a_table_that_is_printed_plainly_cuts_names(capsys, monkeypatch):
    from rich.console import Console
    from rich.table import Table

    table = Table("", "private", box=None)
    table.add_row(NAMES[0] * 2, "0.5")
    Console(width=60, force_terminal=True).print(table)
    assert "…" in capsys.readouterr().out


COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3\d|4\d|9\d)(?:;\d+)*m")


@pytest.mark.parametrize(
    ("environment", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]
)
def test_colours_are_only_on_terminals_that_want_them(made, environment, coloured):
    with terminal([*DPCOV, "release", "--help"], made, environment) as screen:
        assert screen.ended() == 0
    assert "--epsilon" in without_escapes(screen.seen)
    assert bool(COLOUR.search(screen.seen)) == coloured


def test_a_pipe_gets_no_escapes_at_all(made, monkeypatch):
    import os
    import subprocess

    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "TTY_COMPATIBLE")}
    for line in (["release", "--help"], ["show", "r.json"], ["mechanisms"]):
        done = subprocess.run(
            [*DPCOV, *line], cwd=made, env=plain, capture_output=True, timeout=60, check=True
        )
        assert b"\x1b" not in done.stdout + done.stderr
