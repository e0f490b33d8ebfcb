"""What was not released is refused with the reason, by every method, function and command."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpcov
from analysis_tables import schema, table, trace_only, without_intercept
from dpcov.analysis.correlation import correlation_standard_errors
from dpcov.analysis.declared import commands, sections
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.analysis.summary import summary
from dpcov.errors import NotReleasedError
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from rounds_for_tests import changed

SPECTRAL = ("exponential-pca", "kapralov-talwar", "eigenvector-sampling")
OPTION = {"exponential-pca": "components", "kapralov-talwar": "rank"}


@cache
def few_directions(mechanism: str = "exponential-pca", held: int = 2, **asked: Any) -> Release:
    option = {OPTION.get(mechanism, "rank"): held}
    asked = {"epsilon": 10.0, "seed": 0, **asked}
    return dpcov.release(table()[:500], schema=schema(), mechanism=mechanism, **option, **asked)


@cache
def trace_of_persons() -> Release:
    """Release the trace of a table whose public number counts persons, not rows."""
    frame = table()[:50].assign(id=np.arange(50) // 2)
    declared = schema().model_dump(mode="json", exclude_none=True)
    declared["unit"] = {"column": "id", "max_rows": 2, "type": "integer"}
    asked: dict[str, Any] = {"epsilon": 1e-3, "neighbors": "replace-one", "seed": 0}
    made = dpcov.release(frame, schema=Schema.parse(declared), **asked)
    assert made.published is None
    return made


KINDS: dict[str, tuple[Callable[[], Release], str]] = {
    "trace": (trace_only, "a noisy trace, because"),
    "trace of persons": (trace_of_persons, "a noisy trace, because"),
    "directions": (few_directions, "2 of 10 directions"),
    "no intercept": (without_intercept, "without an intercept"),
}
BY_KIND = pytest.mark.parametrize(("made", "reason"), KINDS.values(), ids=list(KINDS))
MOMENTS: dict[str, Callable[[Release], Any]] = {
    "mean": Release.mean,
    "covariance": Release.covariance,
    "correlation": Release.correlation,
    "to_frame": Release.to_frame,
    "drawn": lambda made: dpcov.plot.heatmap(made),
    "spectrum": lambda made: dpcov.plot.spectrum(made),
    "mean intervals": lambda made: dpcov.intervals(made, "mean"),
    "eigenvalue intervals": lambda made: dpcov.intervals(made, "eigenvalues"),
    "own intervals": lambda made: dpcov.intervals(made, Release.mean, sampling=False),
    "errors": correlation_standard_errors,
    "nearest": dpcov.nearest_correlation,
    "partial": dpcov.partial_correlations,
    "ols": lambda made: dpcov.ols(made, "y"),
    "ridge": lambda made: dpcov.ridge(made, "y"),
    "ridge at alpha": lambda made: dpcov.ridge(made, "y", 0.1),
    "lda": lambda made: dpcov.lda(made, "sex", 0.1),
    "pca": dpcov.pca,
    "precision": dpcov.precision,
    "sample": lambda made: dpcov.sample(made, 3),
}


@pytest.mark.parametrize("question", MOMENTS.values(), ids=list(MOMENTS))
@BY_KIND
def test_what_needs_means_and_covariances_is_refused(made, reason, question) -> None:
    with pytest.raises(NotReleasedError, match=reason):
        question(made())


@pytest.mark.parametrize("mechanism", SPECTRAL)
def test_as_many_directions_as_there_are_are_all(mechanism) -> None:
    """A control: what is refused of some directions is answered of all."""
    d, rest = 10, {"allocation": "uniform"} if mechanism == "eigenvector-sampling" else {}
    assert few_directions(mechanism, d - 1, **rest).not_released is not None
    for held in (d, d + 3):
        made = few_directions(mechanism, held, **rest)
        assert made.not_released is None
        assert made.mean().shape == (9,)
        assert made.covariance().any()


def test_ridge_without_an_intercept_needs_all_directions() -> None:
    lower, upper = [-8, -12], [8, 12]
    for held, refused in ((1, True), (2, False)):
        made = dpcov.release(
            table()[["a", "b"]], lower=lower, upper=upper, intercept=0.0, neighbors="replace-one",
            mechanism="kapralov-talwar", rank=held, epsilon=10.0, seed=0,
        )  # fmt: skip
        if refused:
            with pytest.raises(NotReleasedError, match="1 of 2 directions"):
                dpcov.ridge(made, "a", 0.1, intercept=False)
        else:
            assert np.isfinite(dpcov.ridge(made, "a", 0.1, intercept=False).coefficients).all()


def test_counts_are_refused_where_they_are_private_and_not_released() -> None:
    for made in (trace_of_persons(), few_directions()):
        assert not made.tells_count
        for question in (made.count, made.total_weight):
            with pytest.raises(NotReleasedError):
                question()
    assert trace_only().count() == 50
    with pytest.raises(NotReleasedError, match="no number of rows"):
        changed(without_intercept(), published_count=None, count_noise=None).count()


def test_second_moments_are_refused_of_a_trace_alone() -> None:
    for question in (Release.noisy, Release.second_moment):
        with pytest.raises(NotReleasedError, match="a noisy trace, because"):
            question(trace_only())
        assert question(few_directions()).shape == (10, 10)
        assert question(without_intercept()).shape == (9, 9)
    with pytest.raises(NotReleasedError, match="a noisy trace, because"):
        trace_only().to_frame("second_moment")


@BY_KIND
def test_a_release_says_what_it_does_not_hold(made, reason) -> None:
    release = made()
    found = summary(release)
    assert reason in str(release.not_released)
    assert reason in repr(release)
    assert reason in release._repr_html_()
    assert reason in found.summary()
    assert found.document()["not_released"] == release.not_released
    assert (reason in "".join(noise_warnings(release))) == (reason != "without an intercept")
    assert "not released" not in repr(few_directions(held=10))


@BY_KIND
@pytest.mark.parametrize("name", list(commands()))
def test_every_command_gives_the_reason(monkeypatch, run, name, made, reason) -> None:
    monkeypatch.setattr(Release, "load", lambda path: made())
    line = (
        commands()[name]
        .example.replace("age", "y")
        .replace("smoker", "group")
        .replace("income", "b")
    )
    for option in ("", " --json", " --csv", " --out new.csv"):
        refused = run(f"{name} x.json {line}{option}")
        assert (refused.code, refused.out) == (2, "")
        assert reason in refused.err


@BY_KIND
def test_show_and_the_report_are_made_with_the_reason(monkeypatch, run, made, reason) -> None:
    monkeypatch.setattr(Release, "load", lambda path: made())
    made().save("x.json")  # `show` reads the names of the keys from the file
    shown = run("show x.json --json")
    assert shown.code == 0
    assert reason in json.loads(shown.out)["not_released"]
    assert run("report x.json --out page.html").code == 0
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.count(reason) >= len([one for one in sections() if one.name != "regression"])
    assert "± " not in page
