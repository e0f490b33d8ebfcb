"""The commands that compute something from a release file."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpcov
from analysis_tables import null_matrix, released, trace_only, without_intercept, without_law
from dpcov import cli
from dpcov.releases import Release
from tables_for_tests import correlated


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command line in an empty folder that holds a release."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    private().save("r.json")

    def run(line: str) -> SimpleNamespace:
        with pytest.raises(SystemExit) as ended:
            cli.main(line.split())
        out, err = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=out, err=err)

    return run


def private(epsilon: float = 1e6) -> Release:
    """The release of the table without the stamp of a seed."""
    from analysis_tables import schema, table

    return dpcov.release(table(), schema=schema(), epsilon=epsilon)


def figures(text: str) -> tuple[list[str], dict[str, list[float]]]:
    head, *rows = csv.reader(io.StringIO(text))
    return head[1:], {row[0]: [float(cell) for cell in row[1:]] for row in rows}


COMMANDS = [
    "pca {}",
    "ridge {} --target y --alpha 0.1",
    "ols {} --target y",
    "lda {} --target sex --alpha 0.1",
    "sample {} -n 5",
]


def test_components_are_printed_and_exported(run) -> None:
    found = dpcov.pca(Release.load("r.json"), 4)
    heads, rows = figures(run("pca r.json -k 4 --csv").out)
    assert heads == ["PC1", "PC2", "PC3", "PC4"]
    assert rows["share of variance"] == found.explained_variance_ratio.tolist()
    assert rows["sex=f"] == found.components[:, found.columns.index("sex=f")].tolist()
    shown = run("pca r.json -k 8").out
    assert "2 components more; --csv" in shown
    assert re.search(r"In \d of 9 dimensions they rise above the noise", shown)
    other = figures(run("pca r.json -k 1 --correlation --csv").out)[1]
    assert other["variance"] != rows["variance"][:1]


def test_a_ridge_regression_is_printed_and_exported(run) -> None:
    line = "ridge r.json --target y --alpha 0.1 --features a,sex --penalty raw"
    model = dpcov.ridge(Release.load("r.json"), "y", 0.1, ["a", "sex"], penalty="raw")
    heads, rows = figures(run(f"{line} --csv").out)
    assert heads == ["coefficient"]
    assert list(rows) == ["(intercept)", "a", "sex=m", "sex=f"]
    assert [row[0] for row in rows.values()] == [model.intercept, *model.coefficients]
    shown = run(line).out
    assert f"{model.coefficients[0]:.5g}" in shown
    assert f"alpha = 0.1 (raw); R^2 = {model.r_squared:.3f}" in shown
    assert "alpha = " in run("ridge r.json --target sex=f").out


def test_least_squares_are_printed_and_exported(run) -> None:
    line = "ols r.json --target y --features a,b"
    fit = dpcov.ols(Release.load("r.json"), "y", ["a", "b"])
    heads, rows = figures(run(f"{line} --csv").out)
    assert heads[:3] == ["coefficient", "std err", "sampling"]
    assert rows["a"][0] == fit.coefficients[1]
    assert rows["a"][2] == fit.sampling_errors[1]
    assert "Std. errors combine two sources" in run(line).out


def test_a_discriminant_analysis_is_printed_and_exported(run) -> None:
    model = dpcov.lda(Release.load("r.json"), "group", 0.1, ["a", "y"])
    heads, rows = figures(run("lda r.json --target group --alpha 0.1 --features a,y --csv").out)
    assert heads == [f"{part} {name}" for part in ("mean", "score") for name in "uvw"]
    assert rows["y"] == [*model.means[:, 1], *model.coefficients[:, 1]]
    assert rows["(intercept)"][3:] == model.intercepts.tolist()
    shown = run("lda r.json --target group --alpha 0.1 --features a,y").out
    assert f"{model.priors[0]:.3f}" in shown
    assert "alpha = 0.1" in shown


def test_synthetic_rows_are_printed_and_written(run) -> None:
    expected = dpcov.sample(Release.load("r.json"), 7, seed=1)
    line = "sample r.json -n 7 --seed 1"
    printed = run(line)
    assert (printed.code, len(printed.out.splitlines())) == (0, 8)
    assert run(f"{line} --out s.csv").out == "7 synthetic rows written to s.csv\n"
    assert Path("s.csv").read_text() == printed.out
    assert np.allclose(pyarrow.csv.read_csv("s.csv")["y"], expected["y"])
    run(f"{line} --out s.parquet")
    assert pyarrow.parquet.read_table("s.parquet").equals(expected)
    refused = run(f"{line} --out s.csv")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert run(f"{line} --out s.csv --force").code == 0
    assert sorted(p.name for p in Path().iterdir()) == ["r.json", "s.csv", "s.parquet"]


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("pca r.json -k 0", "between 1 and the number of features, 9"),
        ("ridge r.json --target incom --alpha 1", "Choose from: a, group=u"),
        ("ridge r.json --target sex --alpha 1", "levels: sex=m, sex=f"),
        ("ridge r.json --target y --alpha -1", "at least 0"),
        ("ridge r.json --target y --features a,y", "own column 'y'"),
        ("ols r.json --target y --features nope", "no feature 'nope'"),
        ("lda r.json --target y", "Choose from: group, sex"),
        ("sample r.json -n 0", "at least 1"),
        ("sample r.json -n 5 --out s.txt", "must end in .csv or .parquet"),
        ("sample r.json -n 5 --out r.json", "must end in .csv or .parquet"),
        ("sample r.json -n 5 --out no/s.csv", "can't be written"),
        ("pca nowhere.json", "can't be read"),
    ],
)
def test_bad_input_gets_one_sentence(run, line: str, advice: str) -> None:
    refused = run(line)
    assert (refused.code, refused.out) == (2, "")
    assert advice in refused.err
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "holds the trace only"),
        (without_intercept, "without an intercept"),
        (lambda: without_law(null_matrix()), "is null"),
    ],
)
def test_a_release_with_nothing_to_analyse_says_so(monkeypatch, run, command, made, message):
    monkeypatch.setattr(Release, "load", lambda path: made())
    refused = run(command.format("x.json"))
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["", " --csv"])
def test_a_seeded_release_says_not_private(run, command: str, option: str) -> None:
    released().save("r.json", force=True)
    if command.startswith("sample"):
        option = ""
    shown = run(command.format("r.json") + option)
    assert shown.code == 0
    assert "NOT PRIVATE" in shown.out + shown.err


@pytest.mark.parametrize(
    "command", ["pca {}", "ridge {} --target x1 --alpha 0.1", "sample {} -n 3"]
)
def test_where_nothing_rises_above_the_noise_it_is_said(run, command: str) -> None:
    made = dpcov.release(correlated(500, 3), lower=-1, upper=1, epsilon=1.0)
    made.with_denoised("shrink", np.eye(4)).save("r.json", force=True)
    shown = run(command.format("r.json"))
    assert shown.code == 0
    assert "No correlation rises above the noise" in shown.out + shown.err


def test_names_with_markup_and_control_characters_are_harmless(run) -> None:
    import pandas as pd

    names = ["[red]x[/red]", "a\x1b[31m", "[/]"]
    frame = pd.DataFrame(correlated(5000, 3), columns=names)
    dpcov.release(frame, lower=-1, upper=1, epsilon=1e4).save("r.json", force=True)
    for line in ("pca r.json", "ridge r.json --target [/] --alpha 1", "ols r.json --target [/]"):
        shown = run(line)
        assert shown.code == 0
        assert "[red]x[/red]" in shown.out
        assert "\x1b[31m" not in shown.out
