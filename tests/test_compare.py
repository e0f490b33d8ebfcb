"""Differences of two releases, for the same, for other and for unknown persons."""

from __future__ import annotations

import csv
import io
import json
from functools import cache

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpcov
from analysis_tables import released, schema, table, trace_only, without_intercept, without_law
from dpcov.analysis.compare import (
    ALONE_NOTE,
    UNADDED_NOTE,
    Comparison,
    _deviations,
    guarantees,
    total_of,
)
from dpcov.analysis.intervals import Stated
from dpcov.core.privacy import ZCDP, ApproxDP, Guarantee, Neighbors, PureDP, Unit
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.releases import Release
from dpcov.rows.schema import Schema
from rounds_for_tests import changed
from terminals import DPCOV, terminal, without_escapes
from test_sums import released as released_sums

PERSONS = ("disjoint", "same", "unknown")


@cache
def later() -> Release:
    """Return a release of other rows of the same population, almost without noise."""
    return dpcov.release(table(seed=1), schema=schema(), epsilon=1e6, seed=1)


@cache
def years(private: bool = True) -> tuple[Release, Release]:
    """Return small releases of two years, without the stamp of a seed if `private`."""
    made = []
    for seed in range(2):
        rows = np.random.default_rng(seed).uniform(0, 0.5 + 0.1 * seed, (2000, 2))
        made.append(dpcov.release(rows, lower=0, upper=1, epsilon=1.0, seed=seed))
    return tuple(changed(one, reproducible=False) if private else one for one in made)


@cache
def compared(persons: str) -> Comparison:
    return dpcov.compare(*years(), persons=persons)


def test_without_noise_the_differences_are_those_of_the_tables() -> None:
    found = dpcov.compare(released(), later(), persons="same")
    names = ["a", "b", "group=u"]
    truths = [
        one.assign(**{"group=u": one["group"] == "u"})[names] for one in (table(), table(seed=1))
    ]
    expected = {
        "mean": truths[1].mean() - truths[0].mean(),
        "standard deviation": truths[1].std(ddof=0) - truths[0].std(ddof=0),
        "correlation": truths[1].corr() - truths[0].corr(),
    }
    shown = dict(
        zip(zip(found.statistics, found.names, strict=True), found.difference, strict=True)
    )
    assert shown["mean", "group=u"] == pytest.approx(expected["mean"]["group=u"], abs=1e-3)
    assert shown["mean", "a"] == pytest.approx(expected["mean"]["a"], abs=1e-3)
    deviation = expected["standard deviation"]["b"]
    assert shown["standard deviation", "b"] == pytest.approx(deviation, abs=1e-3)
    related = expected["correlation"]
    assert shown["correlation", "a - b"] == pytest.approx(related.loc["a", "b"], abs=1e-3)
    assert shown["correlation", "a - group=u"] == pytest.approx(
        related.loc["a", "group=u"], abs=1e-3
    )
    assert ("standard deviation", "group=u") not in shown
    assert ("correlation", "group=u - group=v") not in shown
    assert np.all(found.second - found.first == found.difference)


def test_a_bound_is_wider_than_the_interval_of_disjoint_persons() -> None:
    apart, same, unknown = map(compared, PERSONS)
    assert [one.is_bound for one in (apart, same, unknown)] == [False, True, True]
    assert np.array_equal(apart.rows_lower, same.rows_lower)
    assert np.array_equal(unknown.lower, same.lower)
    widths = [one.upper - one.lower for one in (apart, same)]
    assert np.all(widths[0] >= apart.rows_upper - apart.rows_lower)
    assert np.all(widths[1] > 1.05 * widths[0])
    assert np.all((apart.lower <= apart.difference) & (apart.difference <= apart.upper))
    headed = [one.tables()[0].heads[-2:] for one in (apart, same)]
    assert headed == [("these rows", "population"), ("these persons", "population (bound)")]


def test_sampling_deviations_add_up_unless_persons_are_disjoint() -> None:
    """Noise 3 and 4, sampling 4 and 3: the deviations of both tables are 5."""
    none = np.zeros(1)
    first, second = (
        Stated(none, np.array([5.0]), np.array([noise]), none == 0, (-1.0, 1.0))
        for noise in (3.0, 4.0)
    )
    assert np.concatenate(_deviations(first, second, "disjoint")) == pytest.approx([5, 50**0.5])
    assert np.concatenate(_deviations(first, second, "same")) == pytest.approx([5, 74**0.5])


@pytest.mark.parametrize(
    ("first", "second", "total"),
    [
        (PureDP(0.1), PureDP(0.2), PureDP(0.3)),
        (ZCDP(0.1), ZCDP(0.2), ZCDP(0.3)),
        (ApproxDP(0.1, 1e-6), ApproxDP(0.2, 2e-6), ApproxDP(0.3, 3e-6)),
        (PureDP(0.1), ApproxDP(0.2, 1e-6), ApproxDP(0.3, 1e-6)),
        (ZCDP(0.1), ApproxDP(0.2, 1e-6), None),
        (ApproxDP(0.2, 1e-6), ZCDP(0.1), None),
    ],
)
def test_the_budgets_of_a_person_in_both_tables_add_up(first, second, total) -> None:
    assert total_of(first, second) == total


def test_a_pure_budget_counts_at_most_as_its_usual_rho() -> None:
    found = total_of(ZCDP(0.1), PureDP(0.2))
    assert isinstance(found, ZCDP)
    assert 0.1 < found.rho <= 0.1 + 0.2**2 / 2


def test_the_guarantees_of_both_are_stated_and_those_of_the_same_persons_add_up() -> None:
    found = {persons: compared(persons).guarantees for persons in PERSONS}
    assert found["disjoint"][2] == ALONE_NOTE
    assert found["same"][2].endswith("pure differential privacy, epsilon = 2.")
    assert found["unknown"] == found["same"]
    for which, one in zip(("first", "second"), found["same"], strict=False):
        assert one.startswith(f"Guarantee of the {which} release: Whether any one row")
    first, second = years()
    unlike = changed(second, guarantee=Guarantee(PureDP(1.0), Neighbors.REPLACE_ONE))
    assert guarantees(first, unlike, "same")[2] == UNADDED_NOTE
    of_persons = Guarantee(PureDP(1.0), Neighbors.ADD_REMOVE, Unit("id", 2))
    assert guarantees(first, changed(second, guarantee=of_persons), "same")[2] == UNADDED_NOTE
    seeded = guarantees(*years(private=False), "same")
    assert len(seeded) == 2
    assert "protects nobody" in seeded[0]


def test_columns_with_other_bounds_are_named_and_others_are_left_out() -> None:
    frame = pd.DataFrame({"a": np.linspace(-1, 1, 500), "day": "2024-05-06", "x": 0.5})
    day = {"kind": "date", "lower": "2024-01-01", "upper": "2024-12-31"}
    number = {"kind": "number", "lower": -1, "upper": 1}
    first, second = (
        dpcov.release(
            frame, schema=Schema.parse({"version": 2, "columns": columns}), epsilon=1e4, seed=seed
        )
        for seed, columns in enumerate(
            [
                {"a": number, "day": day, "x": number},
                {"day": day, "a": number | {"upper": 2}, "z": {"kind": "ignored"}}
                | {"x": {"kind": "categorical", "levels": ["0.5"]}},
            ]
        )
    )
    found = dpcov.compare(first, second, persons="disjoint")
    assert found.names == ("a", "day", "a", "day", "a - day")
    assert "can cause a difference: a." in found.sentences[0]
    assert "lacks them: x, x=0.5." in found.sentences[1]
    text = found.summary()
    assert text.count("2024-05-0") == 2
    assert " days" in text


def test_sums_are_compared_without_correlations() -> None:
    first, second = (released_sums(seed=seed) for seed in (0, 1))
    found = dpcov.compare(first, second)
    assert set(found.statistics) == {"mean", "standard deviation"}


@pytest.mark.parametrize(
    ("second", "options", "error", "message"),
    [
        (released, {}, ReleaseError, "Both releases are the same"),
        (later, {"persons": "some"}, ReleaseError, "persons"),
        (later, {"level": 1.0}, ReleaseError, "level"),
        (lambda: years()[0], {}, ReleaseError, "no feature in common"),
        (trace_only, {}, NotReleasedError, "noisy trace"),
        (without_intercept, {}, NotReleasedError, "intercept"),
        (lambda: without_law(later()), {}, NotReleasedError, "distribution"),
    ],
)
def test_what_cannot_be_compared_is_refused(second, options, error, message) -> None:
    with pytest.raises(error, match=message):
        dpcov.compare(released(), second(), **options)


def test_the_command_prints_tables_figures_and_both_guarantees(run) -> None:
    first, second = years()
    first.save("one.json")
    second.save("two.json")
    years(private=False)[1].save("seeded.json")
    found = compared("same")
    shown = " ".join(run("compare one.json two.json --persons same").out.split())
    for text in ("Correlations: second minus first", "these persons", *found.guarantees):
        assert text in shown
    document = json.loads(run("compare one.json two.json --persons same --json").out)
    assert [one["status"] for one in document["releases"]] == ["private", "private"]
    assert document["rows_lower"] == found.rows_lower.tolist()
    assert document["notes"] == found.notes()
    file = run("compare one.json two.json --persons same --csv")
    rows = list(csv.DictReader(io.StringIO(file.out)))
    assert [float(row["upper"]) for row in rows] == found.upper.tolist()
    assert {row["bound"] for row in rows} == {"true"}
    assert found.guarantees[2] in file.err
    assert run("compare one.json seeded.json --csv").out.startswith("# ")
    assert "protects nobody" in run("compare seeded.json one.json").out


def test_the_command_writes_files_with_the_facts_of_both_releases(run, tmp_path) -> None:
    for name, made in zip(("one", "two"), years(), strict=True):
        made.save(f"{name}.json")
    years(private=False)[1].save("seeded.json")
    found = compared("same")
    for ending in ("csv", "parquet", "html", "tex"):
        run(f"compare one.json two.json --persons same --out t.{ending}")
    table = pq.read_table("t.parquet")
    assert table["upper"].to_pylist() == found.upper.tolist()
    facts = json.loads(table.schema.metadata[b"dpcov.release"])
    assert [one["guarantee"] for one in facts["releases"]] == [
        one.guarantee_in_words() for one in years()
    ]
    described = json.loads((tmp_path / "t.csv-metadata.json").read_text())
    assert described["notes"][0]["dpcov"] == facts
    assert "total of both guarantees" in (tmp_path / "t.html").read_text()
    assert "total of both guarantees" in (tmp_path / "t.tex").read_text()
    run("compare one.json seeded.json --out seeded.csv")
    assert (tmp_path / "seeded.csv").read_text().startswith("# ")
    assert "protects nobody" in run("compare one.json seeded.json --out s.html").err


@pytest.mark.parametrize("command", ["compare {0} {1}", "export {0} --for r --out folder"])
def test_a_terminal_shows_that_a_long_command_computes(command, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).random((500, 2))
    for seed in (0, 1):
        dpcov.release(rows, lower=0, upper=1, epsilon=1.0, seed=seed).save(f"{seed}.json")
    line = command.format("0.json", "1.json").split()
    with terminal([*DPCOV, *line], tmp_path, {}) as screen:
        assert screen.ended() == 0
    assert "computing" in without_escapes(screen.seen)
