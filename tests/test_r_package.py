"""The R package reads exports: its answers equal the answers of Python, and its own tests pass."""

from __future__ import annotations

import json
import re
import tomllib
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.export import for_r, write_folder
from dpcov.rows.schema import Schema
from pages_for_tests import hostile
from r_package import EXAMPLE, PACKAGE, run_r, survey

ROOT = Path(__file__).parents[1]
ROWS = 1500
READ_ALL = """
library(dpcov)
ends <- function(release, ...) {
  found <- tryCatch(confint(release, ...), error = function(e) NULL)
  if (!is.null(found)) list(names = rownames(found), low = found[, 1], high = found[, 2])
}
or_null <- function(figures) tryCatch(figures, error = function(e) NULL)
read <- function(folder) {
  release <- read_release(folder)
  capture.output(print(release), or_null(summary(release)))
  named <- or_null(coef(release))
  list(
    guarantee = release$guarantee, columns = release$columns, kinds = release$kinds,
    groups = release$groups, count = release$count, names = names(named), coef = unname(named),
    total = or_null(vcov(release)), privacy = or_null(vcov(release, sampling = FALSE)),
    intervals = ends(release), correlations = ends(release, correlation = TRUE),
    correlation = or_null(cor(release))
  )
}
folders <- list.dirs(recursive = FALSE)
found <- lapply(setNames(folders, basename(folders)), read)
text <- jsonlite::toJSON(found, digits = NA, null = "null", na = "null", auto_unbox = FALSE)
writeLines(enc2utf8(as.character(text)), "found.json", useBytes = TRUE)
"""
NUMBER = {"kind": "number", "lower": -3, "upper": 3}
COLUMNS = {
    "numbers": {"a": NUMBER, "b": NUMBER, "c": NUMBER},
    "one number": {"a": NUMBER},
    "categories": {
        "a": NUMBER,
        "ward": {"kind": "categorical", "levels": ["x", "y", "z"]},
        "sex": {"kind": "categorical", "levels": ["f", "m"]},
    },
    "flags": {"a": NUMBER, "smoker": {"kind": "flag"}},
    "dates": {
        "a": NUMBER,
        "born": {"kind": "date", "lower": "1950-01-01", "upper": "1999-12-31"},
    },
    "missing": {
        "a": NUMBER | {"missing": "pairwise"},
        "b": NUMBER | {"missing": "pairwise"},
    },
}
BUDGETS = (
    {"epsilon": 1.0},
    {"rho": 0.5},
    {"epsilon": 0.25},  # with less, the noise can hide the number of rows
    {"epsilon": 2.0, "delta": 1e-6, "neighbors": "replace-one"},
    {"epsilon": 5.0, "mechanism": "matrix-laplace"},
    {"rho": 2.0, "mechanism": "gaussian"},
)


def table(columns):
    """Return rows for a schema, some of them with missing cells if the schema allows them."""
    generator = np.random.default_rng(3)
    common = generator.standard_normal(ROWS)
    cells = {}
    for name, column in columns.items():
        value = common + generator.standard_normal(ROWS)
        if column["kind"] == "categorical":
            levels = np.array(column["levels"])
            value = levels[np.digitize(value, [0, 1][: len(levels) - 1])]
        elif column["kind"] == "flag":
            value = (value > 0).astype(int)
        elif column["kind"] == "date":
            value = pd.Timestamp("1970-01-01") + pd.to_timedelta(np.rint(2000 * value), unit="D")
        elif column["missing"] == "pairwise":
            value[generator.random(ROWS) < 0.2] = np.nan
        cells[name] = value
    return pd.DataFrame(cells)


def of_every_kind():
    """Return a function that makes each of 40 releases, by name."""
    made = {}
    for (kind, columns), (at, budget) in product(COLUMNS.items(), enumerate(BUDGETS)):
        columns = {name: {"missing": "none"} | one for name, one in columns.items()}
        schema = Schema.parse({"version": 3, "columns": columns})
        made[f"{kind} {at}"] = partial(dpcov.release, table(columns), schema=schema, **budget)
    rows = np.random.default_rng(4).random((ROWS, 2))
    persons = pd.DataFrame({"a": rows[:, 0], "b": rows[:, 1], "id": np.arange(ROWS) // 2})
    unit = {"column": "id", "type": "integer", "max_rows": 2}
    columns = dict.fromkeys("ab", NUMBER | {"missing": "none"})
    schema = Schema.parse({"version": 3, "unit": unit, "columns": columns})
    made["persons"] = partial(dpcov.release, persons, schema=schema, epsilon=1.0)
    bounds = {"lower": 0, "upper": 1}
    made["without means"] = partial(dpcov.release, rows, intercept=0, epsilon=1.0, **bounds)
    return made | {"with a seed": survey, "odd names": hostile}


def read_in_r(names, folder):
    """Return each release with R's answers to its export."""
    made = {name: of_every_kind()[name]() for name in names}
    for at, release in enumerate(made.values()):
        write_folder(release, "r", folder / f"{at:02}")
    (folder / "all.R").write_text(READ_ALL, encoding="utf-8")
    run_r(folder / "all.R", folder)
    found = json.loads((folder / "found.json").read_text(encoding="utf-8"))
    return [(release, found[f"{at:02}"]) for at, release in enumerate(made.values())]


def below(matrix, diagonal):
    """Return the lower triangle of a matrix, column by column, with or without its diagonal."""
    return matrix.T[np.triu_indices(len(matrix), 0 if diagonal else 1)]


def in_order(means, covariance):
    """Return means and covariances in the order of the error covariance."""
    return np.concatenate([means, below(covariance, diagonal=True)])


def assert_close(found, expected):
    """Check numbers to 1e-8 of their size; null is NaN."""
    found = np.array(found, dtype=float)
    assert found.shape == np.shape(expected)
    assert np.allclose(found, expected, rtol=1e-8, atol=0, equal_nan=True)


def assert_same_answers(release, found):
    """Check that R and Python give the same answers."""
    assert found["guarantee"] == [release.guarantee_in_words()]
    assert found["columns"] == list(release.columns)
    assert_close(found["count"], [release.count()])
    if release.not_released:
        assert found["names"] is found["coef"] is found["total"] is None
        return
    assert_close(found["coef"], in_order(release.mean(), release.covariance()))
    assert_close(found["correlation"], release.correlation())
    for name, sampling in (("total", True), ("privacy", False)):
        errors = release.error_covariance(sampling=sampling)
        assert found["names"] == list(errors.names)
        assert_close(found[name], errors.values)
    statistics = ["mean", "covariance", "correlation"]
    means, covariances, correlations = dpcov.several_intervals(release, statistics)
    for end in ("low", "high"):
        expected = in_order(getattr(means, end), getattr(covariances, end))
        assert_close(found["intervals"][end], expected)
        expected = below(getattr(correlations, end), diagonal=False)
        assert_close(found["correlations"][end], expected)


SOME = ("categories 0", "dates 4", "missing 1", "without means", "odd names")


@pytest.mark.parametrize(
    "names", [SOME, pytest.param((), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_r_gives_the_answers_of_python(names, tmp_path):
    answers = read_in_r(names or of_every_kind(), tmp_path)
    assert len(answers) == len(names or range(40))
    for release, found in answers:
        assert_same_answers(release, found)
    release, found = answers[0]
    found["coef"][1] *= 1 + 1e-7  # control: an answer that differs by more than the limit
    with pytest.raises(AssertionError):
        assert_same_answers(release, found)


def test_the_tests_of_the_package_pass(tmp_path):
    run_r(PACKAGE / "tests" / "release.R", tmp_path)


def test_the_example_of_the_package_is_what_export_writes(tmp_path):
    write_folder(survey(), "r", tmp_path / "survey")
    written, kept = (
        json.loads((folder / "estimate.json").read_text())
        for folder in (tmp_path / "survey", EXAMPLE)
    )
    assert list(written) == list(kept), "run: python tests/r_package.py"
    for name in ("mean", "covariance", "correlation"):
        assert np.allclose(written[name], kept[name], rtol=1e-6)
    assert written["version"] == kept["version"] == for_r.FORMAT_VERSION


def test_the_package_has_the_version_of_dpcov():
    stated = re.search(r"^Version: (.*)$", (PACKAGE / "DESCRIPTION").read_text(), re.MULTILINE)[1]
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert tomllib.load(file)["project"]["version"].partition(".dev")[0] == stated
