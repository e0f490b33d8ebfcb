"""The commands that compute something from a release file."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.parquet
import pytest

import dpcov
from analysis_tables import null_matrix, released, trace_only, without_intercept, without_law
from dpcov.analysis.declared import commands
from dpcov.analysis.precision import precision
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from tables_for_tests import correlated


@pytest.fixture
def run(run):
    """Run the command line in a folder that holds a release."""
    private().save("r.json")
    return run


@cache
def private() -> Release:
    """Release the table without the stamp of a seed."""
    from analysis_tables import schema, table

    return dpcov.release(table(), schema=schema(), epsilon=1e6)


def figures(text: str) -> tuple[list[str], dict[str, list[float]]]:
    head, *rows = csv.reader(io.StringIO(text))
    values = {"": math.nan, "true": 1.0, "false": 0.0}
    return head[1:], {row[0]: [float(values.get(cell, cell)) for cell in row[1:]] for row in rows}


def of_table(example: str) -> str:
    """Return the options of an example for the table of `analysis_tables`."""
    return example.replace("age", "y").replace("smoker", "group").replace("income", "b")


COMMANDS = [
    f"{name} {{}} {of_table(own.example)}" + " --alpha 0.1" * ("alpha" in own.options)
    for name, own in commands().items()
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
    ends = dpcov.intervals(Release.load("r.json"), "eigenvalues")
    for name, reported in (("[0.025", ends.low), ("0.975]", ends.high)):
        assert rows[name] == pytest.approx(reported[:4], rel=0.1)
    other = figures(run("pca r.json -k 1 --correlation --csv").out)[1]
    assert other["variance"] != rows["variance"][:1]


def test_a_ridge_regression_is_printed_and_exported(run) -> None:
    line = "ridge r.json --target y --alpha 0.1 --features a,sex --penalty raw"
    model = dpcov.ridge(Release.load("r.json"), "y", 0.1, ["a", "sex"], penalty="raw")
    heads, rows = figures(run(f"{line} --csv").out)
    assert heads == [
        "coefficient", "std err", "lower", "upper", "effect of 1 std", "below noise",
    ]  # fmt: skip
    assert list(rows) == ["(intercept)", "a", "sex=m", "sex=f"]
    values, errors, *ends, effects, below = np.array(list(rows.values())).T
    assert effects[1:] == pytest.approx(model.effects)
    assert not below[1:].any()
    assert values.tolist() == [model.intercept, *model.coefficients]
    assert errors == pytest.approx(model.standard_errors, rel=0.2)
    assert np.transpose(ends) == pytest.approx(
        np.c_[values - 1.96 * errors, values + 1.96 * errors], rel=1e-3
    )
    shown = run(line).out
    assert f"{model.coefficients[0]:.5g}" in shown
    assert f"alpha = 0.1 (raw); estimated R-squared {model.r_squared:.3f}" in shown
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


def test_a_precision_matrix_is_printed_and_exported(run) -> None:
    found = precision(Release.load("r.json"), 0.1)
    heads, rows = figures(run("precision r.json --alpha 0.1 --csv").out)
    p = len(found.columns)
    assert tuple(heads[:p]) == found.columns
    assert heads[p] == f"partial correlation {found.columns[0]}"
    assert np.array_equal(np.array(list(rows.values()))[:, :p], found.precision)
    assert np.array_equal(np.array(list(rows.values()))[:, p : 2 * p], found.partial_correlations)
    shown = run("precision r.json --alpha 0.1").out
    assert f"{len(found.edges)} of 21 pairs are related" in shown
    first = found.edges[0]
    assert f"{first.first} - {first.second}" in shown
    assert "100%" in run("precision r.json --alpha 0.1 --stability 3").out
    other = figures(run("precision r.json --alpha 0.01 --features a,b --covariance --csv").out)[1]
    assert list(other) == ["a", "b"]


@pytest.mark.parametrize("which", ["covariance", "correlation"])
def test_a_matrix_is_printed_and_exported(run, which: str) -> None:
    made = Release.load("r.json")
    matrix = getattr(made, which)()
    heads, rows = figures(run(f"{which} r.json --csv").out)
    p = len(made.columns)
    assert tuple(heads[:p]) == tuple(rows) == made.columns
    assert np.array_equal(np.array(list(rows.values()))[:, :p], matrix)
    assert run(f"{which} r.json --out m.csv").out == "9 rows written to m.csv\n"
    run(f"{which} r.json --out m.parquet")
    for stored in (pyarrow.csv.read_csv("m.csv"), pyarrow.parquet.read_table("m.parquet")):
        assert stored["column"].to_pylist() == list(made.columns)
        assert stored.column_names[1:] == heads
        assert np.allclose(stored.select(made.columns).to_pandas(), matrix, rtol=1e-15)
    assert "--force" in run(f"{which} r.json --out m.csv").err
    document = json.loads(run(f"{which} r.json --json").out)
    assert document[which] == matrix.tolist()
    assert document["mean"] == made.mean().tolist()


def test_a_covariance_is_shown_in_the_units_of_the_data(run) -> None:
    made = Release.load("r.json")
    shown = run("covariance r.json").out
    at = made.columns.index("c")
    line = re.search(r"\nc +(.*)\n", shown)
    assert line is not None
    mean, low, high, deviation, low_deviation, high_deviation = line[1].split()
    assert mean == f"{made.mean()[at]:.5g}"
    assert deviation == f"{made.covariance()[at, at] ** 0.5:.4g}"
    reported = dpcov.intervals(made, "mean")
    assert [float(low), float(high)] == pytest.approx(
        [reported.low[at], reported.high[at]], rel=0.05
    )
    reported = dpcov.intervals(made, "variance")
    ends = [float(low_deviation), float(high_deviation)]
    assert ends == pytest.approx([reported.low[at] ** 0.5, reported.high[at] ** 0.5], rel=0.01)
    assert "Intervals cover privacy noise and sampling, 95% each." in shown
    assert f"{made.covariance()[at, 0]:.4g}" in shown


@pytest.mark.parametrize(
    ("command", "seeded"), [(COMMANDS[0], False), *((command, True) for command in COMMANDS)]
)
def test_json_holds_the_result_and_says_what_protects_it(run, command: str, seeded: bool) -> None:
    if seeded:
        released().save("r.json", force=True)
    shown = run(command.format("r.json") + " --json")
    assert (shown.code, shown.err) == (0, "")
    document = json.loads(shown.out, parse_constant=pytest.fail)
    assert any(isinstance(fact, list) and fact for fact in document.values())
    assert document["status"] == ("reproducible: NOT PRIVATE" if seeded else "private")
    assert ("any one row" in document["guarantee"]) != seeded
    assert "schema" not in document


def test_json_figures_are_those_of_python(run) -> None:
    made = Release.load("r.json")
    line = "ridge r.json --target y --alpha 0.1 --json"
    model, document = dpcov.ridge(made, "y", 0.1), json.loads(run(line).out)
    assert document["coefficients"] == model.coefficients.tolist()
    assert document["columns"] == list(model.columns)
    found = precision(made, 0.1)
    edges = json.loads(run("precision r.json --alpha 0.1 --json").out)["edges"]
    assert [edge["first"] for edge in edges] == [edge.first for edge in found.edges]
    assert json.loads(run("ols r.json --target y --json").out)["target"] == "y"


def test_a_number_that_json_lacks_becomes_null(monkeypatch, run) -> None:
    flat = private()
    moment = flat.second_moment().copy()
    at = flat.columns.index("a")
    moment[at, :] = moment[:, at] = 0
    monkeypatch.setattr(Release, "load", lambda path: flat.with_denoised("shrink", moment))
    shown = run("pca r.json --correlation --json").out
    assert json.loads(shown, parse_constant=pytest.fail)["deviations"][at] is None


@pytest.fixture(scope="module")
def wide() -> Release:
    names = [f"measurement_{j}" for j in range(100)]
    frame = pd.DataFrame(correlated(3000, 100), columns=names).assign(sex="m")
    columns = {name: {"kind": "numeric", "lower": -1, "upper": 1} for name in names}
    frame["measurement_0"] *= 1000  # a small coefficient of a large effect
    columns["measurement_0"] |= {"lower": -1000, "upper": 1000}
    columns["sex"] = {"kind": "categorical", "levels": ["m", "f"]}
    made = Schema.parse({"columns": columns})
    frame.loc[::3, "sex"] = "f"
    return dpcov.release(frame, schema=made, epsilon=1e6)


@pytest.mark.parametrize(
    ("command", "rest"),
    [
        pytest.param("pca {}", "82 features with small loadings more", marks=pytest.mark.slow),
        pytest.param(
            "ridge {} --target measurement_3 --alpha 0.1",
            "81 features with small effects more",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "lda {} --target sex --alpha 0.1",
            "80 features that differ less more",
            marks=pytest.mark.slow,
        ),
        ("precision {} --alpha 0.1", "pairs more"),
        ("covariance {}", "5130 pairs more"),
        ("correlation {}", "5130 pairs more"),
    ],
)
def test_tables_of_a_hundred_columns_show_the_strongest(run, wide, command, rest) -> None:
    wide.save("r.json", force=True)
    shown = run(command.format("r.json")).out
    assert rest in shown
    limit = 135 if command.startswith("covariance") else 40
    assert shown.count("\n") < limit
    assert max(map(len, shown.splitlines())) <= 100


@pytest.mark.slow
def test_the_strongest_effect_is_shown_first(run, wide) -> None:
    wide.save("r.json", force=True)
    model = dpcov.ridge(wide, "measurement_3", 0.1)
    deviations = np.sqrt(np.diag(wide.covariance()))
    at = [wide.columns.index(name) for name in model.columns]
    strongest = model.columns[int(np.argmax(np.abs(model.coefficients * deviations[at])))]
    shown = run("ridge r.json --target measurement_3 --alpha 0.1").out
    assert "measurement_0" in shown
    assert shown.splitlines()[3].startswith(strongest)


def test_synthetic_rows_are_printed_and_written(run) -> None:
    expected = dpcov.sample(Release.load("r.json"), 7, seed=1)
    line = "sample r.json -n 7 --seed 1"
    printed = run(line)
    assert (printed.code, len(printed.out.splitlines())) == (0, 8)
    assert run(f"{line} --out s.csv").out == "7 rows written to s.csv\n"
    assert Path("s.csv").read_text() == printed.out
    assert np.allclose(pyarrow.csv.read_csv("s.csv")["y"], expected["y"])
    run(f"{line} --out s.parquet")
    assert pyarrow.parquet.read_table("s.parquet").equals(expected)
    refused = run(f"{line} --out s.csv")
    assert (refused.code, "--force" in refused.err) == (2, True)
    assert run(f"{line} --out s.csv --force").code == 0
    found = sorted(p.name for p in Path().iterdir())
    assert found == ["r.json", "s.csv", "s.csv-metadata.json", "s.parquet"]


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
        ("sample r.json -n 5 --out no/s.csv", "cannot be written"),
        ("pca nowhere.json", "cannot be read"),
        ("pca r.json -k 10", "between 1 and the number of features, 9"),
        ("ridge r.json --target grup=u --alpha 1", "Did you mean 'group=u'?"),
        ("ridge r.json --target Y --alpha 1", "Did you mean 'y'?"),
        ("lda r.json --target sexx", "Did you mean 'sex'?"),
        ("lda r.json --target sex --alpha -1", "--alpha must be at least 0, not -1"),
        ("lda r.json --target sex --features a,sex=f", "own column 'sex'"),
        ("precision r.json --alpha -1", "alpha must be above 0; it is -1"),
        ("precision r.json --features a,grop", "Did you mean 'group'?"),
        ("precision r.json --stability -1", "--stability"),
        ("covariance r.json --out c.txt", "must end in .csv or .parquet"),
        ("precision r.json --out r.csv/p.csv", "cannot be written"),
    ],
)
def test_bad_input_gets_one_sentence(run, line: str, advice: str) -> None:
    refused = run(line)
    assert (refused.code, refused.out) == (2, "")
    assert advice in refused.err
    assert refused.err.count("\n") == 1


@pytest.mark.parametrize("command", [one for one in COMMANDS if "correlation" not in one])
@pytest.mark.parametrize(
    ("made", "message"),
    [
        (trace_only, "a noisy trace, because"),
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


def test_names_with_markup_are_harmless(run) -> None:
    names = ["[red]x[/red]", "a\\x1b[31m", "[/]"]
    frame = pd.DataFrame(correlated(5000, 3), columns=names)
    dpcov.release(frame, lower=-1, upper=1, epsilon=1e4).save("r.json", force=True)
    for line in ("pca r.json", "ridge r.json --target [/] --alpha 1", "ols r.json --target [/]"):
        shown = run(line)
        assert shown.code == 0
        assert "[red]x[/red]" in shown.out
        assert "\x1b[31m" not in shown.out
