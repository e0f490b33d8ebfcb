"""Table 1: counts, means, shares and standard deviations, in all and by group."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpcov
from analysis_tables import null_matrix, released, table, trace_only, without_intercept, without_law
from dpcov.analysis.column_parts import Columns, Ratio, count_interval
from dpcov.analysis.covariance import covariances
from dpcov.errors import NotReleasedError, ReleaseError
from dpcov.estimate import dependent
from dpcov.rows.schema import Schema
from test_coherent import random_release

EXACT = 1e6  # epsilon without noise
ROWS = 4000
ALL = "all"


def wards(rows: int = ROWS, seed: int = 0) -> pd.DataFrame:
    """Return patients: numbers, flags and categories that depend on each other, with gaps."""
    draws = np.random.default_rng(seed)
    ward = draws.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    smoker = (draws.random(rows) < np.where(ward == "a", 0.2, 0.5)).astype(float)
    age = np.clip(np.rint(draws.normal(50, 10, rows) + 8 * smoker), 0, 100)
    site = np.where(draws.random(rows) < 0.1, None, draws.choice(["x", "y"], rows))
    holes = draws.random((3, rows)) < 0.15
    return pd.DataFrame(
        {
            "ward": ward,
            "smoker": smoker,
            "age": age,
            "site": site,
            "pulse": np.where(holes[0], np.nan, np.clip(age + draws.normal(10, 9, rows), 0, 200)),
            "ill": np.where(holes[1], np.nan, (draws.random(rows) < 0.3 + 0.3 * smoker) * 1.0),
            "weight": np.where(holes[2], np.nan, np.clip(draws.normal(70, 9, rows), 30, 150)),
        }
    )


RULES = {"ill": "pairwise", "pulse": "pairwise", "weight": "level", "site": "zeros"}


def of_wards(**rules: str) -> Schema:
    """Return the schema of the patients with rules for missing cells."""
    rules = RULES | rules
    number = {"kind": "number", "lower": 0, "upper": 200}
    columns: dict[str, Any] = {
        "ward": {"kind": "categorical", "levels": ["a", "b", "c"], "missing": "none"},
        "smoker": {"kind": "flag", "missing": "none"},
        "age": {"kind": "integer", "lower": 0, "upper": 100, "missing": "none"},
        "site": {"kind": "categorical", "levels": ["x", "y"], "missing": rules["site"]},
        "pulse": number | {"missing": rules["pulse"]},
        "ill": {"kind": "flag", "missing": rules["ill"]},
        "weight": number | {"missing": rules["weight"]},
    }
    if rules["site"] == "other":
        columns["site"]["other"] = True
    derived = {"age2": {"square": "age"}}
    return Schema.parse({"version": 3, "columns": columns, "derived": derived})


@cache
def exact(**rules: str) -> dpcov.Release:
    return dpcov.release(wards(), schema=of_wards(**rules), epsilon=EXACT, seed=1)


def entry(
    found: dpcov.analysis.table1.Table1, name: str, group: str, what: str = "values"
) -> float:
    return float(getattr(found, what)[found.columns.index(name), found.groups.index(group)])


LEVELS = {"ill": "level", "pulse": "level"}


@pytest.mark.parametrize(
    ("by", "rules"), [("ward", {}), ("ill", {}), ("smoker", LEVELS), ("ill", LEVELS)]
)
def test_without_noise_the_table_is_the_table_of_pandas(by: str, rules: dict[str, str]) -> None:
    frame, found = wards(), dpcov.table1(exact(**rules), by)
    groups = {ALL: frame} | {
        str(name if by == "ward" else int(name)): one for name, one in frame.groupby(by)
    }
    assert found.groups[: len(groups)] == tuple(groups)
    for at, (group, rows) in enumerate(groups.items()):
        assert found.sizes[at] == pytest.approx(len(rows), abs=0.5)
        for name in ("age", "pulse", "weight", "smoker", "ill"):
            if name != by:
                assert entry(found, name, group) == pytest.approx(rows[name].mean(), rel=1e-3)
                own = rows[name] == 1 if name in ("smoker", "ill") else rows[name].notna()
                assert entry(found, name, group, "counts") == pytest.approx(own.sum(), abs=1)
        for level in ("x", "y"):
            share = (rows.site == level).mean()
            assert entry(found, f"site={level}", group) == pytest.approx(share, abs=1e-3)
        missing = rows.site.isna().mean()
        assert entry(found, "site=(other or missing)", group) == pytest.approx(missing, abs=1e-3)
    assert all(f"{by}=" not in name and name != by for name in found.columns)


def test_standard_deviations_are_those_that_the_release_contains() -> None:
    frame, found = wards(), dpcov.table1(exact(), "ward")
    for name in ("age", "pulse", "weight", "smoker", "ill"):
        own = entry(found, name, ALL, "deviations")
        assert own == pytest.approx(frame[name].std(ddof=0), rel=1e-3)
    for group, rows in frame.groupby("ward"):
        for name in ("age", "smoker", "ill"):  # a derived square, and flags
            own = entry(found, name, group, "deviations")
            assert own == pytest.approx(rows[name].std(ddof=0), rel=2e-3)
        for name in ("pulse", "weight"):
            assert np.isnan(entry(found, name, group, "deviations"))
    for name in ("age", "pulse", "weight"):
        within = frame[name] - frame.groupby("ward")[name].transform("mean")
        at = found.columns.index(name)
        assert found.pooled_deviations[at] == pytest.approx(within.std(ddof=0), rel=1e-3)
        assert found.pooled_lower[at] <= found.pooled_deviations[at] <= found.pooled_upper[at]
    assert np.isnan(found.pooled_deviations[found.columns.index("smoker")])
    text = found.summary()
    assert "std dev within groups" in text
    assert "A second moment contains no standard deviation of a number by group." in text
    assert "age (std dev)" in text
    assert "pulse (std dev)" not in text


@pytest.mark.parametrize("rule", ["zeros", "level", "other"])
def test_the_groups_contain_the_cells_without_a_level_by_the_rule(rule: str) -> None:
    found = dpcov.table1(exact(site=rule), "site")
    names = {"zeros": "(other or missing)", "level": "(missing)", "other": "(other)"}
    assert found.groups == (ALL, "x", "y", names[rule])
    frame = wards()
    assert found.sizes[-1] == pytest.approx(frame.site.isna().sum(), abs=1)
    assert entry(found, "age", names[rule]) == pytest.approx(
        frame[frame.site.isna()].age.mean(), 1e-3
    )


def test_missing_numbers_count_as_the_midpoint_if_the_rule_says_so() -> None:
    found = dpcov.table1(exact(pulse="midpoint"), "ward")
    rows = wards()
    assert entry(found, "pulse", "a") == pytest.approx(
        rows[rows.ward == "a"].pulse.fillna(100).mean(), rel=1e-3
    )
    assert "Missing cells count as the midpoint of the bounds: pulse." in found.summary()
    assert "midpoint" not in dpcov.table1(exact(), "ward").summary()


def test_means_and_their_intervals_are_those_of_the_command_covariance() -> None:
    made = dpcov.release(table(), schema=released().schema, epsilon=1.0, seed=2)
    found, other = dpcov.table1(made), covariances(made).document()
    at = [found.columns.index(name) for name in made.columns]
    assert found.values[at, 0] == pytest.approx(made.mean())
    assert found.lower[at, 0] == pytest.approx(np.fmin(other["mean_lower"], made.mean()))
    assert found.upper[at, 0] == pytest.approx(np.fmax(other["mean_upper"], made.mean()))
    assert found.below_noise[at, 0].tolist() == other["mean_below_noise"].tolist()
    numbers = [found.columns.index(name) for name in ("a", "b", "c", "y")]
    deviations = np.sqrt(np.diag(made.covariance()))[
        [made.columns.index(n) for n in ("a", "b", "c", "y")]
    ]
    assert found.deviations[numbers, 0] == pytest.approx(deviations)


@pytest.mark.parametrize("seed", [0, 3, 11, 29])
def test_figures_are_possible_whatever_the_noise(seed: int) -> None:
    made = random_release(seed)
    columns = made.schema.encoded_columns
    groups = [n for n, one in columns.items() if getattr(one, "reading", "flag") == "flag"]
    for by in [None, *groups[:2]]:
        try:
            found = dpcov.table1(made, by)
        except ReleaseError:  # test_a_release_without_means_says_so tests the message
            continue
        shares = np.array([one == "share" for one in found.statistics], bool)
        known = ~np.isnan(found.values)
        assert np.all(found.values[shares][known[shares]] <= 1 + 1e-9)
        assert np.all(found.values[known] >= -1e-9)
        assert np.all((found.lower <= found.values) | ~known)
        assert np.all((found.values <= found.upper) | ~known)
        assert np.all(found.sizes >= 0)
        assert np.all(found.counts >= 0)
        if by is not None and made.schema.encoded_columns[by].missing != "pairwise":
            assert found.sizes[1:].sum() <= found.sizes[0] * (1 + 1e-9)
        assert found.csv()
        assert found.summary()
        assert found.latex()


def test_a_group_below_the_noise_level_has_flags_and_no_interval() -> None:
    frame = wards()
    frame["ward"] = np.where(frame.ward == "c", "a", frame.ward)  # no patient is in ward c
    made = dpcov.release(frame, schema=of_wards(), epsilon=0.5, seed=4)
    found = dpcov.table1(made, "ward")
    at, group = found.columns.index("smoker"), found.groups.index("c")
    assert np.isnan([found.lower[at, group], found.upper[at, group]]).all()
    assert found.sufficient_budget[at, group] > 0.5
    assert "[not estimable]" in found.summary()
    assert found.below_noise[at, group]
    assert "* below the noise level" in found.summary()
    never = dpcov.release(frame, schema=of_wards(), epsilon=EXACT, seed=4)
    found = dpcov.table1(never, "ward")
    assert found.sizes[group] == pytest.approx(0, abs=0.01)
    assert found.below_noise[:, group].all()


def test_a_constant_column_has_the_deviation_0() -> None:
    frame = wards().assign(age=40.0)
    found = dpcov.table1(dpcov.release(frame, schema=of_wards(), epsilon=EXACT, seed=1), "ward")
    for group in found.groups:
        assert entry(found, "age", group) == pytest.approx(40, rel=1e-3)
    assert entry(found, "age", ALL, "deviations") == pytest.approx(0, abs=0.1)


def test_sums_of_weights_are_in_the_units_of_the_weights() -> None:
    frame = wards().assign(w=np.random.default_rng(1).uniform(0, 8, ROWS))
    document = of_wards().model_dump() | {"weight": {"column": "w", "maximum": 8.0}}
    made = dpcov.release(frame, schema=Schema.parse(document), epsilon=EXACT, seed=1)
    found = dpcov.table1(made, "ward")
    sums = frame.groupby("ward").w.sum()
    assert found.sizes[1:] == pytest.approx(sums.to_numpy(), rel=1e-3)
    assert found.sizes[0] == pytest.approx(made.total_weight())
    own = frame[frame.ward == "b"]
    assert entry(found, "age", "b") == pytest.approx(np.average(own.age, weights=own.w), rel=1e-3)
    assert "sum of weights" in found.summary()


def test_persons_get_the_sentence_about_independent_rows() -> None:
    frame = wards().assign(id=np.arange(ROWS) // 2)
    unit = {"column": "id", "type": "integer", "max_rows": 2}
    document = of_wards().model_dump() | {"unit": unit}
    made = dpcov.release(frame, schema=Schema.parse(document), epsilon=EXACT, seed=1)
    assert dependent(made) in dpcov.table1(made, "ward").summary()
    assert dependent(made) in dpcov.crosstab(made, "ward", "smoker").summary()
    assert dependent(made) not in dpcov.table1(made, "ward", sampling=False).summary()


def grouped(epsilon: float = EXACT, seed: int | None = 1) -> dict[str, dpcov.Release]:
    document = of_wards(weight="none").model_dump()
    kept = {name: document["columns"][name] for name in ("ward", "age", "smoker", "weight")}
    schema = Schema.parse(document | {"columns": kept, "derived": {}})
    frame = wards().fillna({"weight": 70.0})
    return dpcov.release_by(frame, "ward", schema=schema, epsilon=epsilon, seed=seed)


def test_grouped_releases_are_the_groups() -> None:
    groups = grouped()
    found, frame = dpcov.table1(groups), wards().fillna({"weight": 70.0})
    assert (found.by, found.groups) == ("ward", ("a", "b", "c"))
    for group, rows in frame.groupby("ward"):
        for name in ("age", "weight"):
            assert entry(found, name, group) == pytest.approx(rows[name].mean(), rel=1e-3)
            own = entry(found, name, group, "deviations")
            assert own == pytest.approx(rows[name].std(ddof=0), rel=1e-3)
    within = frame.age - frame.groupby("ward").age.transform("mean")
    at = found.columns.index("age")
    assert found.pooled_deviations[at] == pytest.approx(within.std(ddof=0), rel=1e-3)
    assert dpcov.table1(list(groups.values()), "ward").groups == found.groups
    assert found.summary()
    with pytest.raises(ReleaseError, match="groups of 'ward', not of 'site'"):
        dpcov.table1(groups, "site")
    with pytest.raises(ReleaseError, match="not the groups of one grouped release"):
        dpcov.table1({"a": groups["a"], "all": exact()})


def test_groups_with_other_guarantees_are_refused() -> None:
    """The output states one guarantee, so all releases must have this guarantee."""
    seeded = grouped(2.0)
    assert dpcov.table1(seeded).groups == ("a", "b", "c")  # a control
    for others in (grouped(2.0, seed=None), grouped(1.0)):
        with pytest.raises(ReleaseError, match="not the groups of one grouped release"):
            dpcov.table1([others["a"], seeded["b"]])


def test_the_command_takes_the_files_of_a_grouped_release(run) -> None:
    for group, made in grouped().items():
        made.save(f"{group}.json")
    shown = json.loads(run("table1 a.json b.json c.json --json").out)
    assert shown["groups"] == ["a", "b", "c"]
    one = run("table1 a.json")
    assert one.code == 0
    assert "Table 1\n" in one.out
    refused = run("table1 a.json b.json --by site")
    assert (refused.code, refused.out) == (2, "")


@pytest.mark.parametrize("suffix", [".html", ".tex"])
def test_tables_are_written_as_pages_after_the_guarantee(run, suffix: str) -> None:
    grouped()["a"].save("r.json")
    for line in ("table1 r.json --by smoker", "correlation r.json"):
        written = run(f"{line} --out t{suffix} --force")
        assert (written.code, written.out) == (0, f"The tables are written to t{suffix}\n")
        text = Path(f"t{suffix}").read_text()
        assert "NOT PRIVATE" in text
        assert ("<table>" if suffix == ".html" else r"\begin{tabular}") in text
    refused = run(f"sample r.json -n 3 --out s{suffix}")
    assert (refused.code, Path(f"s{suffix}").exists()) == (2, False)


def test_frames_have_a_row_for_each_row_of_the_table() -> None:
    found = dpcov.table1(exact(), "ward")
    frame = found.to_frame()
    assert frame.index.tolist() == ["rows", *found.columns]
    assert frame.loc["age", "mean a"] == entry(found, "age", "a")
    assert np.isnan(frame.loc["age", "share a"])
    assert found.to_frame("pyarrow").num_rows == len(frame)


def test_a_release_without_a_noise_distribution_has_no_intervals() -> None:
    found = dpcov.table1(without_law(released()), "group")
    assert found.covers is None
    assert np.isnan(found.lower).all()
    assert found.below_noise is None
    assert "[" not in found.summary().split("\n", 2)[1]


@pytest.mark.parametrize(
    ("made", "error", "message"),
    [
        (trace_only, NotReleasedError, "hides so few rows"),
        (without_intercept, NotReleasedError, "without an intercept"),
        (null_matrix, ReleaseError, "is null"),
    ],
)
def test_a_release_without_means_says_so(made, error, message) -> None:
    for answer in (dpcov.table1, lambda one: dpcov.crosstab(one, "group", "sex")):
        with pytest.raises(error, match=message):
            answer(made())


def test_bad_input_gets_one_sentence() -> None:
    with pytest.raises(ReleaseError, match="Choose from: ward, smoker, site, ill"):
        dpcov.table1(exact(), "age")
    with pytest.raises(ReleaseError, match="level"):
        dpcov.table1(exact(), level=2)
    numbers = dpcov.release(np.eye(50)[:, :2], lower=0, upper=1, epsilon=EXACT)
    with pytest.raises(ReleaseError, match="This release has none"):
        dpcov.table1(numbers, "x0")


def test_without_noise_intervals_of_shares_are_those_of_wilson() -> None:
    top, bottom = np.array([0.0, 30.0, 100.0]), np.array([100.0, 100.0, 100.0])
    nothing = np.zeros((1, 3))
    low, high = Ratio.of(top, bottom, nothing, nothing).interval(0.95)
    z = 1.959963984540054
    center = (top + z**2 / 2) / (bottom + z**2)
    half = z / (bottom + z**2) * np.sqrt(top * (bottom - top) / bottom + z**2 / 4)
    assert low == pytest.approx(np.clip(center - half, 0, 1))
    assert high == pytest.approx(np.clip(center + half, 0, 1))
    of_counts = count_interval(top, np.zeros(3), 100.0, 0.95)
    assert of_counts[0][:2] == pytest.approx(100 * low[:2])
    assert of_counts[1][:2] == pytest.approx(100 * high[:2])


def test_noise_in_both_counts_gives_the_interval_of_fieller() -> None:
    draws = np.random.default_rng(0).standard_normal((2, 20_000, 1)) * [[[30.0]], [[40.0]]]
    ratio = Ratio.of(np.array([300.0]), np.array([500.0]), *draws)
    low, high = ratio.interval(0.95, sampling=False)
    for end in (low, high):  # the ends are where N - q D is z deviations from 0
        deviation = np.hypot(30, 40 * end)
        assert abs(300 - 500 * end) == pytest.approx(1.96 * deviation, rel=0.02)
    hidden = Ratio.of(np.array([10.0]), np.array([50.0]), *draws)
    assert [float(end[0]) for end in hidden.interval(0.95)] == [0.0, 1.0]


def test_moments_are_the_released_means_and_covariances() -> None:
    made = released(3.0)
    columns = Columns(made)
    means = columns.moment[:-1, -1] / columns.count / made.intercept()
    assert made.centers + made.scales * means == pytest.approx(made.mean())
