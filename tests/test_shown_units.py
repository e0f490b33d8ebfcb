"""Dates are shown as dates, and sampling errors of persons with what they assume."""

from __future__ import annotations

import json
from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest

import dpcov
from dpcov.analysis.correlation import correlations
from dpcov.analysis.covariance import covariances
from dpcov.analysis.pca import _leading
from dpcov.analysis.strongest import strongest_pairs
from dpcov.analysis.summary import summary
from dpcov.releases.carried import carried
from dpcov.releases.dates import length, shown
from dpcov.report.documents import document
from dpcov.rows.schema import Schema

ROWS = 3000
ASSUMES = "Sampling errors assume independent rows. One person can have 5 rows here"
DATES = {
    "day": {"kind": "date", "lower": "2010-01-01", "upper": "2030-12-31"},
    "seen": {"kind": "time", "lower": "2020-01-01", "upper": "2026-12-31"},
    "age": {"kind": "number", "lower": 0, "upper": 100},
    "sex": {"kind": "categorical", "levels": ["f", "m"]},
}


def dated():
    draws = np.random.default_rng(0)
    days = draws.integers(-900, 900, ROWS)
    table = pd.DataFrame(
        {
            "day": np.datetime64("2023-06-01") + days,
            "seen": np.datetime64("2023-06-01T12:00:00") + 86_400 * days // 2,
            "age": (45 + days / 100 + draws.normal(0, 5, ROWS)).clip(0, 100),
            "sex": draws.choice(["f", "m"], ROWS),
        }
    )
    made_by = Schema.parse({"version": 2, "columns": DATES})
    return dpcov.release(table, schema=made_by, epsilon=100.0, seed=1)


DATED = dated()


def cells(table, name):
    return next(row for row in table.texts() if row[0] == name)[1:]


def test_means_of_classes_are_dates():
    fit = dpcov.lda(DATED, "sex")
    table = fit.tables()[0]
    assert {date.fromisoformat(cell).year for cell in cells(table, "day")} == {2023}
    assert {datetime.fromisoformat(cell).year for cell in cells(table, "seen")} == {2023}
    assert "2023-0" in fit.summary()
    assert "2023-0" in fit._repr_html_()
    assert "e+04" not in fit.summary() + fit._repr_html_()  # as it was


def test_a_notebook_shows_means_as_dates():
    page = DATED._repr_html_()
    assert page.count("2023-05-") + page.count("2023-06-") == 2
    assert " days<" in page
    assert " seconds<" in page
    assert "e+04" not in page


def test_intervals_of_means_and_the_table_of_means_are_dates():
    found = dpcov.intervals(DATED, "mean").tables()[0]
    assert all(date.fromisoformat(cell).year == 2023 for cell in cells(found, "day")[:2])
    assert float(cells(found, "age")[0]) == pytest.approx(45, abs=1)
    means = covariances(DATED).tables()[0]
    assert date.fromisoformat(cells(means, "day")[0]).year == 2023
    assert cells(means, "day")[-1].endswith(" days")
    others = dpcov.intervals(DATED, "covariance").tables()[0]
    assert "2023" not in str(others.texts())


@pytest.mark.parametrize("fit", [dpcov.ols, dpcov.ridge], ids=["ols", "ridge"])
def test_the_intercept_of_a_date_is_one(fit):
    table = fit(DATED, "day", features=["age"]).tables()[0]
    row = cells(table, "(intercept)")
    assert date.fromisoformat(row[0]).year < 2023  # at age 0
    assert row[1].endswith(" days")
    float(cells(table, "age")[0])  # days a year


def test_what_is_no_date_stays_a_number_of_days():
    assert shown(DATED.schema, "day", [19_000.0, 1e9, np.nan])[:2] == ["2022-01-08", "1e+09 days"]
    assert np.isnan(shown(DATED.schema, "day", [np.nan])[0])
    assert shown(DATED.schema, "age", [19_000.0]) == [19_000.0]
    assert length(DATED.schema, "day", 3.0) == "3 days"
    assert np.isnan(length(DATED.schema, "day", np.nan))


def test_json_holds_numbers_and_says_what_they_count():
    facts = document(DATED, **covariances(DATED).document())
    assert facts["dates"] == {"day": "days since 1970-01-01", "seen": "seconds since 1970-01-01"}
    assert facts["mean"][0] == pytest.approx(DATED.mean()[0])
    assert "dates" not in document(visits(1), **covariances(visits(1)).document())


def visits(most, **fields):
    draws = np.random.default_rng(1)
    person = draws.integers(0, 800, 4000)
    age = draws.uniform(20, 90, 800)[person]
    pressure = 100 + 0.5 * age + draws.normal(0, 10, 4000)
    table = pd.DataFrame({"id": person, "age": age, "pressure": pressure})
    columns = {
        "age": {"kind": "number", "lower": 0, "upper": 120},
        "pressure": {"kind": "number", "lower": 50, "upper": 250},
    }
    unit = {"unit": {"column": "id", "type": "integer", "max_rows": most}} if most else {}
    made_by = Schema.parse({"version": 2, "columns": columns, **unit})
    return dpcov.release(table, schema=made_by, epsilon=30.0, seed=1)


WITH_SAMPLING = {
    "ols": lambda made: dpcov.ols(made, "pressure").tables()[0],
    "ridge": lambda made: dpcov.ridge(made, "pressure").tables()[0],
    "intervals": lambda made: dpcov.intervals(made, "mean").tables()[0],
    "correlation": lambda made: correlations(made).tables()[-1],
    "covariance": lambda made: covariances(made).tables()[0],
    "strongest": lambda made: strongest_pairs(made).tables()[0],
    "pca": lambda made: _leading(made).tables()[0],
}
PERSONS, ONE_ROW, ROWS_ALONE = visits(5), visits(1), visits(0)


@pytest.mark.parametrize("name", WITH_SAMPLING)
def test_the_first_line_says_what_sampling_errors_assume(name):
    assert ASSUMES in WITH_SAMPLING[name](PERSONS).title
    for made in (ONE_ROW, ROWS_ALONE):  # controls: there rows are independent, or taken to be
        assert "independent" not in WITH_SAMPLING[name](made).title


def test_tables_without_sampling_errors_do_not_say_it():
    noise = dpcov.intervals(PERSONS, "mean", sampling=False).tables()[0]
    truth = correlations(PERSONS, truth=np.eye(2)).tables()[-1]
    alone = dpcov.ridge(PERSONS, "pressure", 0.1, errors=False).tables()[0]
    assert not any("independent" in table.title for table in (noise, truth, alone))


def test_the_sentence_is_the_first_line_of_the_text_and_the_caption_of_the_page():
    fit = dpcov.ols(PERSONS, "pressure")
    assert ASSUMES in fit.summary().splitlines()[0]
    assert f"<caption>Least squares of pressure. {ASSUMES}" in fit._repr_html_()
    pytest.importorskip("jinja2")
    from dpcov.report import render

    assert render(PERSONS, target="pressure").count(ASSUMES) >= 2


def test_json_and_files_carry_the_sentence():
    facts = json.loads(json.dumps(document(PERSONS, **dpcov.ols(PERSONS, "pressure").document())))
    assert facts["sampling"].startswith(ASSUMES)
    assert carried(PERSONS)["sampling"].startswith(ASSUMES)
    assert summary(PERSONS).document()["sampling"].startswith(ASSUMES)
    assert "sampling" not in carried(ROWS_ALONE) | carried(ONE_ROW)


def test_rows_of_persons_do_vary_more_than_the_classical_formula_says():
    """Why it is said: the intervals of a mean are too short by half."""
    draws = np.random.default_rng(2)
    means, classical = [], []
    for _ in range(200):
        ages = draws.uniform(20, 90, 400)[draws.integers(0, 400, 2000)]
        means.append(ages.mean())
        classical.append(ages.std() / np.sqrt(len(ages)))
    assert np.std(means) > 1.4 * np.mean(classical)


def test_synthetic_rows_keep_means_near_a_bound():
    """The table has a rare flag, a rare count and a cost that is mostly 0."""
    draws = np.random.default_rng(0)
    n = 20_000
    cost = np.where(draws.random(n) < 0.1, draws.exponential(10, n), 0.0)
    table = pd.DataFrame({"f": draws.random(n) < 0.01, "k": draws.poisson(0.03, n), "c": cost})
    columns = {
        "f": {"kind": "flag"},
        "k": {"kind": "count", "upper": 20},
        "c": {"kind": "number", "lower": 0, "upper": 100},
    }
    made_by = Schema.parse({"version": 2, "columns": columns})
    made = dpcov.release(table, schema=made_by, epsilon=50.0, seed=1)
    rows = dpcov.sample(made, 50_000, seed=1).to_pandas().astype(float)
    deviations = np.sqrt(np.diag(made.covariance()) / len(rows))
    assert np.all(np.abs(rows.mean().to_numpy() - made.mean()) < 4.5 * deviations)
    # Control: normal variables, clipped at the bounds, do not keep these means.
    normal = draws.normal(made.mean(), np.sqrt(np.diag(made.covariance())), (50_000, 3))
    assert np.all(normal.clip(0, [1, 20, 100]).mean(axis=0) > 1.5 * made.mean())
