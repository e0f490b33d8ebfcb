"""What `make entrants` measures is what it says."""

from pathlib import Path

import numpy as np
import pytest
from paper_methods import peers

import before_and_now
import whole_matrix
from benchmark_tables import PARTS, table_named

ROOT = Path(__file__).parents[1]

NAME = "few rows"
TRUTH = before_and_now.Truth.of(table_named(NAME))
MUCH = {"epsilon": 1e6, "rho": 1e6}


def answered(count=1.0, shift=0.0, scale=1.0):
    """Return the table's own figures in the data's units, unless stated otherwise."""
    units = TRUTH.units
    found = scale * TRUTH.covariance * np.outer(units, units)
    return count * TRUTH.rows, (TRUTH.means + shift) * units, found


def test_what_the_table_has_is_without_error():
    assert max(map(abs, before_and_now.errors(answered(), TRUTH).values())) < 1e-9


def test_each_error_notices_what_it_is_about_and_no_more():
    found = before_and_now.errors(answered(count=1.1), TRUTH)
    assert found.pop("count") == pytest.approx(0.1)
    assert max(map(abs, found.values())) < 1e-9
    found = before_and_now.errors(answered(shift=TRUTH.deviations / 4), TRUTH)
    assert found["means"] == pytest.approx(0.25)
    found = before_and_now.errors(answered(scale=2), TRUTH)
    assert found["frobenius"] == pytest.approx(1)
    assert found["correlation"] < 1e-9
    assert found["pca"] < 1e-9


def test_the_error_of_components_is_the_share_of_variance_that_they_lack():
    values, vectors = np.linalg.eigh(TRUTH.covariance)
    turned = np.outer(TRUTH.units, TRUTH.units) * ((vectors * values[::-1]) @ vectors.T)
    found = before_and_now.errors((TRUTH.rows, TRUTH.means * TRUTH.units, turned), TRUTH)
    assert found["pca"] == pytest.approx((values[3] - values[0]) / values[1:].sum())


def test_means_are_off_to_a_side_in_the_deviations_of_their_columns():
    count, means, covariance = answered(shift=[0.1, 0, 0, -0.1])
    found = before_and_now.off((count, means, covariance, 0.1, np.full(4, 2.5)), TRUTH)
    expected = np.array([0.1, 0, 0, -0.1]) / TRUTH.deviations
    assert found["off"] == pytest.approx(expected, rel=1e-4, abs=1e-9)
    assert found["stated"] == pytest.approx(0.5 / TRUTH.deviations, rel=1e-4)


def test_peers_belong_to_the_benchmark_of_mechanisms():
    names = {peer.name for peer in peers()} | {whole_matrix.ENTRYWISE}
    assert set(whole_matrix.PEERS) <= names


# The others draw directions one by one, by samplers that take no such budget.
NOISE = [
    (name, kind)
    for name, kinds in whole_matrix.PEERS.items()
    for kind in kinds
    if not name.startswith(("IT-U", "AD", "KT", "PPCA"))
]


@pytest.mark.parametrize(("name", "kind"), NOISE)
def test_peers_reproduce_the_table_if_the_budget_is_huge_and_not_if_it_is_small(name, kind):
    plenty, little = (
        before_and_now.errors(whole_matrix.answer(name, NAME, {kind: size, "seed": 1}), TRUTH)
        for size in (MUCH[kind], 0.01)
    )
    assert max(plenty[error] for error in ("count", "means", "relative")) < 0.1
    assert max(little[error] for error in ("count", "means", "relative")) > 0.5


def test_another_intercept_is_another_count():
    moment = np.array([[2.0, 0.5], [0.5, 1.0]])
    assert whole_matrix.answer_of(moment, 0.5, 1.0)[0] == 4
    assert whole_matrix.answer_of(moment, 1.0, 1.0)[0] == 1


@pytest.mark.slow
def test_rows_are_kept_by_budget_with_an_error_for_each_seed():
    rows = before_and_now.measured(("tune", NAME, "now", (3, 4), None))
    assert [row.get("epsilon", row.get("rho")) for row in rows] == [0.3, 1, 4, 0.05, 0.5, 8]
    assert all(len(row[error]) == 2 for row in rows for error in before_and_now.ERRORS)
    assert all(row["seeds"] == [3, 4] and "off" not in row for row in rows)
    again = before_and_now.measured(("tune", NAME, "now", (3,), None))
    assert [row["ols"][0] for row in rows] == [row["ols"][0] for row in again]
    assert rows[0]["ols"][0] != rows[0]["ols"][1]


@pytest.mark.slow
def test_the_heavy_part_states_errors_of_means_at_fourfold_budgets():
    rows = before_and_now.measured(("heavy", NAME, "now", (0,), None))
    sizes = [row["rho"] for row in rows if "rho" in row]
    assert np.all(np.divide(sizes[1:], sizes[:-1]) == 4)
    assert all(np.all(np.array(row["stated"]) > 0) for row in rows)


@pytest.mark.slow
def test_seconds_are_kept_where_they_are_compared():
    rows = before_and_now.measured(("former", "levels alone", "now", (0,), None))
    assert all(0 < only < 60 for row in rows for only in row["seconds"])


@pytest.mark.slow
def test_a_version_reads_the_kinds_of_columns_that_it_knows(monkeypatch):
    """The demo declares counts and flags. The control treats this version as an earlier one."""
    asked = [{"epsilon": 1.0, "seed": 0}]
    demo = before_and_now.table_named("demo")
    (answer_of,) = before_and_now.released(demo, asked, None, "tune")
    (plain,) = before_and_now.released(demo, asked, str(ROOT / "src"), "tune")
    assert answer_of[2].shape == plain[2].shape
    assert not np.array_equal(answer_of[2], plain[2])


@pytest.mark.slow
def test_a_refusal_has_a_word_and_no_errors(monkeypatch):
    monkeypatch.setitem(before_and_now.METHODS, "now, none", {"rho": {"mechanism": "none"}})
    rows = before_and_now.measured(("tune", NAME, "now, none", (0,), None))
    assert all(row["refused"] and "ols" not in row for row in rows)


def test_tables_of_one_part_are_of_no_other():
    """The errors that no threshold uses are exempt."""
    judging = [some for part, some in PARTS.items() if part not in ("former", "demo", "goals")]
    names = [name for some in judging for name in some]
    assert len(names) == len(set(names))
