"""One rule for "below the noise level": in text, JSON, CSV, the report and plots."""

from __future__ import annotations

import csv
import io
import json
import re
import warnings
from functools import cache
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import dpcov
from analysis_tables import schema, table, without_law
from dpcov import plot
from dpcov.analysis.correlation import blocks, correlations
from dpcov.analysis.covariance import covariances
from dpcov.analysis.declared import commands
from dpcov.analysis.intervals import (
    CLIPPED_ROWS_NOTE,
    NO_CLIPPING_NOTE,
    TAIL_NOTE,
    Intervals,
    below_noise,
    contains_zero,
    flags,
    means_below_noise,
    sentence,
    too_uncertain,
)
from dpcov.analysis.strongest import strongest_pairs
from dpcov.analysis.summary import summary
from dpcov.core.show.plain import json_text
from dpcov.core.show.table import Table
from dpcov.core.show.text import csv_lines
from dpcov.releases import Release
from tables_for_tests import correlated

FLAG = "below the noise level"


@cache
def noisy() -> Release:
    """Return a release in which some correlations and means are below the noise level."""
    made = dpcov.release(table()[:1500], schema=schema(), epsilon=1.5, seed=3)
    flagged = noise_alone(made).below_noise[BELOW]
    assert 2 < flagged.sum() < len(flagged) - 2
    return made


def noise_alone(made: Release) -> Intervals:
    return dpcov.intervals(made, "correlation", sampling=False)


BELOW = np.tril_indices(9, -1)


def test_an_interval_that_contains_0_is_flagged_and_no_other() -> None:
    """The two intervals that were the wrong way round."""
    low, high = np.array([-0.57, 0.07, -0.3]), np.array([0.88, 0.64, -0.1])
    assert contains_zero(low, high).tolist() == [True, False, False]
    values, deviations = (low + high) / 2, (high - low) / 2 / 1.96
    assert below_noise(values, deviations).tolist() == [True, False, False]
    trusted = np.array([True, False, True])  # a control: what decided before
    found = Intervals(low, high, 0.95, "privacy noise", trusted)
    assert [cells[2] for _, cells in found.tables()[0].rows] == [FLAG, "", ""]


def test_what_is_not_defined_is_below_the_noise_level() -> None:
    unknown = np.array([np.nan, 1.0, 1.0, 0.0])
    errors = np.array([0.1, np.nan, np.inf, 0.0])
    assert below_noise(unknown, errors).all()
    assert contains_zero(np.array([np.nan, -np.inf]), np.array([1.0, np.inf])).all()
    assert too_uncertain(np.array([np.nan, np.inf, 0.11, 0.1]), 1.0).tolist() == [1, 1, 1, 0]


def test_flags_and_sentences_count() -> None:
    assert flags(np.array([True, False])) == [FLAG, ""]
    assert sentence(np.zeros(3, bool), "figures") == ()
    assert sentence(np.array([True, False]), "figures")[0].startswith("1 of 2 figures is below")
    assert sentence(np.ones(2, bool), "figures")[0].startswith("2 of 2 figures are below")


@pytest.mark.parametrize("sampling", [True, False])
@pytest.mark.parametrize("level", [0.5, 0.95])
def test_the_flag_depends_on_the_noise_alone(sampling, level) -> None:
    """The flag depends neither on the level of the intervals nor on the sampling error."""
    expected = noise_alone(noisy()).below_noise
    found = dpcov.intervals(noisy(), "correlation", level, sampling)
    assert np.array_equal(found.below_noise, expected)
    few = dpcov.release(table()[:60], schema=schema(), epsilon=1e6, seed=0)
    wide = dpcov.intervals(few, "correlation")
    assert contains_zero(wide.low, wide.high)[BELOW].any()  # by sampling alone
    assert not wide.below_noise[BELOW].any()


def test_for_clipped_rows_it_is_that_of_their_intervals_for_the_noise() -> None:
    asked: dict[str, Any] = {"for_clipped_rows": True}
    alone = dpcov.intervals(noisy(), "correlation", sampling=False, **asked)
    assert np.array_equal(alone.below_noise, contains_zero(alone.low, alone.high))
    both = dpcov.intervals(noisy(), "correlation", 0.8, **asked)
    assert np.mean(both.below_noise == alone.below_noise) > 0.9


def test_text_json_csv_report_and_plots_have_the_same_flags() -> None:
    made, names = noisy(), noisy().columns
    expected = noise_alone(made).below_noise
    found = correlations(made)
    count = int(expected[BELOW].sum())
    said = f"{count} of {len(BELOW[0])} correlations"
    flagged = {name for name, cells in found.tables()[-1].rows if cells[-1] == FLAG}
    assert flagged == {
        f"{names[j]} - {names[i]}" for i, j in zip(*BELOW, strict=True) if expected[i, j]
    }
    assert np.array_equal(found.document()["below_noise"], expected)
    rows = list(csv.DictReader(io.StringIO(found.csv())))
    written = [[row[f"below noise {name}"] == "true" for name in names] for row in rows]
    assert np.array_equal(written, expected)
    assert any(note.startswith(said) for note in found.notes())
    shown = summary(made)
    assert said in shown.summary()
    assert shown.document()["correlations_below_noise"] == count
    pairs = strongest_pairs(made)
    drawn = pairs.picture()
    assert drawn is not None
    named = {" - ".join(reversed(pair.split(" - "))): pair for pair in flagged}
    of_text = [cells[-1] == FLAG for _, cells in pairs.tables()[0].rows]
    assert of_text == [(pair in flagged or pair in named) for pair, _ in pairs.tables()[0].rows]
    assert drawn.arguments["below"].tolist() == of_text[: len(drawn.arguments["below"])]
    assert np.array_equal(blocks(made).below_noise, expected)


def test_pictures_blank_what_is_below_the_noise_level() -> None:
    picture = blocks(noisy()).picture()
    axes = plot.heatmap(**picture.arguments, cluster=False, ax=plt.figure().add_subplot())
    expected = noise_alone(noisy()).below_noise
    colours = np.asarray(axes.images[0].get_array())
    assert np.all(colours[expected] == 0)
    off = ~expected & ~np.eye(9, dtype=bool)
    assert np.array_equal(colours[off], noisy().correlation()[off])
    texts = [text.get_text() for text in axes.texts]
    assert sum(text.startswith("(") for text in texts) == expected.sum()
    values = np.array([0.5, 0.2])
    axes = plot.pairs(
        ["a", "b"], values, values - 0.3, values + 0.3, below=np.array([False, True]),
        ax=plt.figure().add_subplot(),
    )  # fmt: skip
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert [dot.get_markerfacecolor() == "none" for dot in dots] == [False, True]
    fit = dpcov.ols(noisy(), "y")
    axes = plot.coefficients(fit, ax=plt.figure().add_subplot())
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    hollow = sum(dot.get_markerfacecolor() == "none" for dot in dots)
    assert fit.below_noise is not None
    assert 0 < hollow == fit.below_noise[1:].sum()
    plt.close("all")


def test_means_have_one_rule_too() -> None:
    made = dpcov.release(
        table()[:40], schema=schema(), epsilon=1.0, seed=1, neighbors="replace-one"
    )
    flagged = means_below_noise(made)
    assert flagged.any()
    named = [name for name, below in zip(made.columns, flagged, strict=True) if below]
    found = covariances(made)
    assert [name for name, cells in found.tables()[0].rows if cells[-1] == FLAG] == named
    assert found.document()["mean_below_noise"].tolist() == flagged.tolist()
    assert dpcov.intervals(made, "mean").below_noise.tolist() == flagged.tolist()
    assert summary(made).document()["means_below_noise"] == named
    assert any(f"The means of {named[0]}" in sentence for sentence in dpcov.noise_warnings(made))


@pytest.mark.parametrize("name", [name for name in commands() if name != "sample"])
def test_json_and_csv_carry_what_the_text_says(monkeypatch, run, name) -> None:
    """Every sentence, and the ends of every interval."""
    monkeypatch.setattr(Release, "load", lambda path: noisy())
    example = commands()[name].example
    for one, other in (("age", "y"), ("smoker", "group"), ("income", "b")):
        example = example.replace(one, other)
    line = f"{name} x.json {example}"
    text = run(line).out
    document = json.loads(run(f"{line} --json").out)
    read = run(f"{line} --csv")
    sentences = document["notes"]
    assert sentences
    for sentence_ in sentences:
        assert sentence_ in text
        assert sentence_ in read.err
    if "[0.025" in text:
        ends = {"correlation": ("lower", "upper"), "covariance": ("mean_lower", "mean_upper")}
        low, high = ends.get(name, ("lower", "upper"))
        assert np.all(np.less_equal(document[low], document[high]))
        assert "below" in "".join(document)
        assert re.search("lower|0.025", read.out)
        assert "below noise" in read.out


def test_what_is_not_a_number_is_null_and_empty() -> None:
    facts = {"a": np.array([1.0, np.nan]), "b": (float("inf"),), "c": {"d": -np.inf, "e": np.True_}}
    assert json_text(facts) == '{"a": [1.0, null], "b": [null], "c": {"d": null, "e": true}}'
    rows = [("x", [1.0, float("nan"), True]), ("y", [float("-inf"), None, False])]
    found = Table(("", "p", "q", "r"), rows)
    assert csv_lines(found) == ",p,q,r\nx,1.0,,true\ny,,,false\n"
    stored = found.arrow()
    assert stored.to_pylist() == [
        {"column": "x", "p": 1.0, "q": None, "r": True},
        {"column": "y", "p": None, "q": None, "r": False},
    ]


def test_a_release_without_a_law_has_null_in_the_place_of_intervals(monkeypatch, run) -> None:
    monkeypatch.setattr(Release, "load", lambda path: without_law(noisy()))
    for name in ("correlation", "covariance", "pca"):
        shown = run(f"{name} x.json --json").out
        document = json.loads(shown)
        assert "NaN" not in shown
        assert document["covers" if name != "pca" else "lower"] is None
        assert "lower" not in run(f"{name} x.json --csv").out


# Intervals for clipped rows.


def heavy(rows: int = 20_000) -> tuple[np.ndarray, Release]:
    draws = np.random.default_rng(0).standard_t(1.5, (rows, 3))
    draws[:, 1] += 0.7 * draws[:, 0]
    long = np.clip(draws, -1000, 1000)
    return long, dpcov.release(long, lower=-1000, upper=1000, rho=0.5, seed=1)


def test_intervals_for_clipped_rows_are_never_given_unasked_nor_without_their_sentence() -> None:
    _, made = heavy()
    asked = dpcov.intervals(made, "correlation", sampling=False, for_clipped_rows=True)
    unasked = dpcov.intervals(made, "correlation", sampling=False)
    assert (asked.for_clipped_rows, unasked.for_clipped_rows) == (True, False)
    shown = [asked.summary(), asked._repr_html_(), str(asked.warning), repr(asked)]
    shown.append(str(asked.document()))
    assert all("for the clipped rows, not for the table" in text for text in shown)
    assert CLIPPED_ROWS_NOTE not in unasked.summary()
    assert "of the clipped rows, not of the table" in asked.covering
    assert "of the clipped rows" in asked.tables()[0].title
    for text in (unasked.summary(), str(unasked.document()), str(unasked.warning)):
        assert TAIL_NOTE in text
    assert asked.document()["for_clipped_rows"] is asked.document()["guaranteed"] is True


def test_without_a_clip_they_say_that_there_was_none() -> None:
    made = dpcov.release(
        correlated(3000, 3), lower=-1, upper=1, epsilon=1.0, seed=1, mechanism="matrix-laplace"
    )
    found = dpcov.intervals(made, "mean", for_clipped_rows=True)
    assert not made.clipped
    assert NO_CLIPPING_NOTE in found.assumed
    assert CLIPPED_ROWS_NOTE not in found.assumed


@pytest.mark.parametrize("asked", [True, False])
def test_the_former_names_still_work_and_warn(asked) -> None:
    _, made = heavy(5000)
    new = dpcov.intervals(made, "mean", sampling=False, for_clipped_rows=asked)
    with pytest.warns(FutureWarning, match="for_clipped_rows") as caught:
        old = dpcov.intervals(made, "mean", sampling=False, guaranteed=asked)
    assert caught[0].filename == __file__
    assert np.array_equal(old.low, new.low)
    with pytest.warns(FutureWarning, match="for_clipped_rows") as caught:
        several = dpcov.several_intervals(made, ["mean"], sampling=False, guaranteed=asked)
    assert caught[0].filename == __file__
    assert np.array_equal(several[0].high, new.high)
    with pytest.warns(FutureWarning, match="for_clipped_rows"):
        assert new.guaranteed is asked
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a control: the new names don't
        assert new.for_clipped_rows is asked
