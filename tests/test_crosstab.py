"""Contingency tables of a release, and the nearest table with given margins."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy

import dpcov
from dpcov.analysis import crosstab as module
from dpcov.analysis.column_parts import Columns, grouping
from dpcov.errors import ReleaseError
from dpcov.estimate.shares import nearest_shares, nearest_table
from dpcov.rows.schema import Schema
from examples_of_commands import written
from test_coherent import random_release
from test_table1 import EXACT, ROWS, exact, of_wards, wards

FIGURES = ("counts", "row_shares", "column_shares")


def of_pandas(frame: pd.DataFrame, a: str, b: str) -> np.ndarray:
    """Return the counts of pandas, with a level for cells without one."""
    labelled = frame.fillna({"site": "(other or missing)"})
    found = pd.crosstab(labelled[a], labelled[b])
    order = {"site": ["x", "y", "(other or missing)"]}
    return found.reindex(order.get(a)).reindex(columns=order.get(b)).to_numpy(float)


@pytest.mark.parametrize(
    ("a", "b"), [("ward", "smoker"), ("ward", "site"), ("ill", "ward"), ("ill", "smoker")]
)
def test_without_noise_the_table_is_the_table_of_pandas(a: str, b: str) -> None:
    found, expected = dpcov.crosstab(exact(), a, b), of_pandas(wards(), a, b)
    assert found.counts == pytest.approx(expected, abs=0.5)
    assert found.total == pytest.approx(expected.sum(), abs=0.5)
    assert found.row_shares == pytest.approx(expected / expected.sum(1, keepdims=True), abs=1e-3)
    assert found.column_shares == pytest.approx(expected / expected.sum(0), abs=1e-3)
    association = scipy.stats.contingency.association(np.rint(expected).astype(int))
    assert found.cramers_v == pytest.approx(association, abs=1e-3)
    assert found.cramers_v_lower <= found.cramers_v <= found.cramers_v_upper


def test_the_table_has_the_cells_without_a_level_by_the_rule() -> None:
    labels = {"zeros": "(other or missing)", "level": "(missing)", "other": "(other)"}
    for rule, label in labels.items():
        found = dpcov.crosstab(exact(site=rule), "site", "ward")
        assert found.row_labels == ("x", "y", label)
        expected = wards().site.isna().groupby(wards().ward).sum()
        assert found.counts[2] == pytest.approx(expected.to_numpy(), abs=0.5)
    found = dpcov.crosstab(exact(ill="level"), "ill", "ward")
    assert found.row_labels == ("0", "1", "(missing)")
    assert found.total == pytest.approx(ROWS, abs=0.5)
    assert dpcov.crosstab(exact(), "ill", "ward").total == pytest.approx(wards().ill.count(), abs=1)


def test_a_level_that_never_occurs_has_no_shares_and_does_not_count_for_v() -> None:
    frame = wards()
    frame["ward"] = frame.ward.replace("c", "a")
    made = dpcov.release(frame, schema=of_wards(), epsilon=EXACT, seed=1)
    found = dpcov.crosstab(made, "ward", "smoker")
    expected = pd.crosstab(frame.ward, frame.smoker).to_numpy()
    assert found.counts[2] == pytest.approx(0, abs=0.01)
    assert found.row_shares_below_noise[2].all()
    association = scipy.stats.contingency.association(expected)
    assert found.cramers_v == pytest.approx(association, abs=1e-3)
    alone = dpcov.release(frame.assign(ward="a"), schema=of_wards(), epsilon=EXACT, seed=1)
    found = dpcov.crosstab(alone, "ward", "smoker")
    assert np.isnan(found.cramers_v)
    assert "Cramer's V is unknown" in found.summary()
    assert found.csv()


def test_the_v_of_independent_columns_is_below_the_noise_level() -> None:
    draws = np.random.default_rng(0)
    frame = wards().assign(ward=draws.choice(["a", "b", "c"], ROWS))
    found = [
        dpcov.crosstab(
            dpcov.release(frame, schema=of_wards(), epsilon=1.0, seed=seed), "ward", "smoker"
        )
        for seed in range(5)
    ]
    assert sum(one.cramers_v_below_noise for one in found) >= 4
    assert min(one.cramers_v_lower for one in found) == 0
    related = dpcov.crosstab(exact(), "ward", "smoker")  # a control
    assert not related.cramers_v_below_noise
    assert related.cramers_v_lower > 0.2


def test_noise_alone_does_not_make_v_larger() -> None:
    """The usual V of a table with noise is too large, but the reported V is not."""
    draws = np.random.default_rng(0)
    counts, plain, reported = np.array([[230, 170], [150, 150], [120, 180]]), [], []
    true = np.linalg.norm(module._residuals(counts))
    for _ in range(200):
        errors = draws.normal(0, 40, (301, 3, 2))
        noisy = counts + errors[0]
        plain.append(np.linalg.norm(module._residuals(noisy)))
        reported.append(module._Cells(noisy, errors[1:], 0.95, False).cramers_v()[0][0])
    bias = np.median(plain) - true
    assert bias > 0.1 * true
    assert abs(np.median(reported) - true) < 0.5 * bias


def coherent(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> bool:
    """Return True if a table has the margins and possible entries."""
    least = np.minimum(rows[:, None], columns)
    margins = np.allclose(table.sum(1), rows) and np.allclose(table.sum(0), columns)
    return margins and bool(np.all(table >= 0) and np.all(table <= least + 1e-9 * rows.sum()))


@pytest.mark.parametrize("seed", range(100))
def test_the_nearest_table_is_coherent_and_no_other_is_nearer(seed: int) -> None:
    draws = np.random.default_rng(seed)
    shape = draws.integers(1, 8, 2)
    total = float(draws.choice([1, 50, 20_000]))
    true = total * draws.dirichlet(np.full(shape.prod(), 0.3)).reshape(shape)
    noisy = true + draws.normal(0, draws.choice([0.01, 1.0]) * total, shape)
    rows, columns = true.sum(1), true.sum(0)
    found = nearest_table(noisy, rows, columns)
    assert coherent(found, rows, columns)
    away = np.linalg.norm(found - noisy)
    for _ in range(4):  # other coherent tables, and tables on the way to them
        other = total * draws.dirichlet(np.full(shape.prod(), 0.5)).reshape(shape)
        other = nearest_table(other, rows, columns)
        for step in (0.01, 1.0):
            assert np.linalg.norm(found + step * (other - found) - noisy) >= away * (1 - 1e-6)
    assert np.linalg.norm(found - true) <= np.linalg.norm(noisy - true) + 1e-9 * total


def test_control_a_table_with_other_margins_or_negative_entries_is_not_coherent() -> None:
    rows, columns = np.array([2.0, 3.0]), np.array([4.0, 1.0])
    assert coherent(np.array([[2.0, 0.0], [2.0, 1.0]]), rows, columns)
    assert not coherent(np.array([[1.5, 0.0], [2.0, 1.0]]), rows, columns)
    assert not coherent(np.array([[2.5, -0.5], [1.5, 1.5]]), rows, columns)


def test_tables_without_rows_are_zero() -> None:
    assert not nearest_table(np.ones((2, 3)), np.zeros(2), np.zeros(3)).any()
    assert not nearest_shares(np.ones(3), 0.0).any()
    assert nearest_shares(np.array([5.0, -1.0]), 4.0).tolist() == [4.0, 0.0]


@pytest.mark.parametrize("seed", range(100))
def test_the_tables_of_random_releases_are_coherent(seed: int) -> None:
    made = random_release(seed)
    if made.not_released is not None or made.count() <= 0:
        return
    columns = Columns(made)
    names = []
    for name in made.schema.encoded_columns:
        try:
            names.append(grouping(columns, name))
        except ReleaseError:
            continue
    for first, second in pairwise(names):
        counts = columns.joint_counts(first, second)
        assert coherent(counts, counts.sum(1), counts.sum(0))
        if not made.schema.missing_columns:
            for label, count in zip(first.labels, counts.sum(1), strict=True):
                if (name := f"{first.column}={label}") in made.columns:
                    expected = made.mean()[made.columns.index(name)] * columns.count
                    assert count == pytest.approx(expected, abs=1e-6 * columns.count)


def test_intervals_contain_the_figures_and_no_impossible_one() -> None:
    for epsilon in (0.1, 1.0):
        made = dpcov.release(wards(), schema=of_wards(), epsilon=epsilon, seed=5)
        found = dpcov.crosstab(made, "ward", "site")
        for name in FIGURES:
            value = getattr(found, name)
            low, high = (
                (found.lower, found.upper)
                if name == "counts"
                else (getattr(found, f"{name}_lower"), getattr(found, f"{name}_upper"))
            )
            assert np.all((low <= value) & (value <= high))
            assert np.all(low >= 0)
            assert name == "counts" or np.all(high <= 1)
        wider = dpcov.crosstab(made, "ward", "site", level=0.99)
        assert np.all(wider.upper - wider.lower >= found.upper - found.lower)
        narrow = dpcov.crosstab(made, "ward", "site", sampling=False)
        assert np.all(narrow.upper - narrow.lower <= found.upper - found.lower + 1e-9)
        assert narrow.covers == "privacy noise"


def test_sums_of_weights_are_in_the_units_of_the_weights() -> None:
    frame = wards().assign(w=np.random.default_rng(1).uniform(0, 8, ROWS))
    document = of_wards().model_dump() | {"weight": {"column": "w", "maximum": 8.0}}
    made = dpcov.release(frame, schema=Schema.parse(document), epsilon=EXACT, seed=1)
    sums = pd.crosstab(frame.ward, frame.smoker, frame.w, aggfunc="sum").to_numpy()
    assert dpcov.crosstab(made, "ward", "smoker").counts == pytest.approx(sums, rel=1e-3)


def test_the_command_prints_the_table_of_python(run, tmp_path) -> None:
    exact().save("r.json")
    found = dpcov.crosstab(exact(), "ward", "smoker")
    document = json.loads(run("crosstab r.json ward smoker --json").out)
    assert np.array(document["counts"]) == pytest.approx(found.counts)
    assert document["row_labels"] == ["a", "b", "c"]
    assert document["cramers_v"] == pytest.approx(found.cramers_v)
    shown = run("crosstab r.json ward smoker").out
    assert "ward by smoker" in shown
    assert "Shares of the rows" in shown
    assert f"Cramer's V: {found.cramers_v:.3f}" in shown
    assert "people.release.json" in written(1)  # the example of the help runs on its columns
    for line, message in {
        "crosstab r.json ward ward": "Choose two different columns",
        "crosstab r.json ward age": "Choose from: ward, smoker, site, ill",
        "crosstab r.json ward": "Missing argument",
    }.items():
        refused = run(line)
        assert (refused.code, refused.out) == (2, "")
        assert message in refused.err


def test_frames_contain_the_counts() -> None:
    found = dpcov.crosstab(exact(), "ward", "smoker")
    frame = found.to_frame()
    assert frame.index.tolist() == ["a", "b", "c"]
    assert frame.columns.tolist() == ["0", "1"]
    assert frame.to_numpy() == pytest.approx(found.counts)
