"""Simulated tables: spreads, means and correlations of the columns fit the assumptions."""

from __future__ import annotations

import numpy as np
import pytest

from dpcov.api.plans.simulated import (
    DEFAULT_CORRELATION,
    Assumptions,
    SimulatedTable,
    _laws,
    _rows,
    simulated_rows,
)
from dpcov.api.plans.typical_correlation import typical_correlation
from dpcov.errors import SchemaError
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import Schema

NAMES = [f"x{j}" for j in range(8)]
SCHEMA = Schema.from_bounds(0, 10, NAMES)
CROWDED = dict.fromkeys(NAMES, 0.4)  # near the lower bound, with long tails
MIXED = Schema.parse(
    {
        "columns": {
            "age": {"kind": "numeric", "lower": 0, "upper": 100, "missing": "level"},
            "job": {"kind": "categorical", "levels": ["a", "b", "c"]},
            "pay": {"kind": "numeric", "lower": 0, "upper": 90},
        }
    }
)


def related(rows: np.ndarray) -> float:
    """Return the root mean square correlation."""
    below = np.tril_indices(rows.shape[1], -1)
    return float(np.sqrt(np.mean(np.corrcoef(rows, rowvar=False)[below] ** 2)))


def explained(rows: np.ndarray) -> float:
    """Average share of a column's variance that all others explain."""
    return float(np.mean(1 - 1 / np.diag(np.linalg.inv(np.corrcoef(rows, rowvar=False)))))


def test_columns_have_the_means_and_spreads_that_were_assumed():
    rows = simulated_rows(SCHEMA, Assumptions(0.3, {"x2": 0.1}, means={"x1": 4.0, "x2": 9.0}))
    assert rows[:, 1:3].mean(axis=0) == pytest.approx([-0.2, 0.8], abs=1e-3)
    assert rows[:, 1:3].std(axis=0) == pytest.approx([0.3, 0.1], rel=0.01)
    assert np.abs(rows[:, 0].mean()) == pytest.approx(0.3, abs=1e-3)


def test_a_narrow_column_lies_no_nearer_to_the_midpoint_than_others():
    rows = simulated_rows(SCHEMA, Assumptions(0.3, {"x2": 0.05, "x4": 0.95}))
    means = np.abs(rows.mean(axis=0))
    assert means[[0, 2]] == pytest.approx([0.3, 0.3], abs=1e-3)
    assert means[4] < 0.25  # the bounds allow no more
    assert rows[:, [2, 4]].std(axis=0) == pytest.approx([0.05, 0.95], rel=0.01)


@pytest.mark.parametrize(
    ("mean", "spread", "share"), [(0.1, 1.0, 0.01), (9.0, 0.6, 0.9), (10.0, 0.3, 1.0)]
)
def test_a_mean_near_a_bound_makes_two_values_of_a_column_of_flags(mean, spread, share):
    flags = simulated_rows(SCHEMA, Assumptions(spread, means={"x3": mean}))[:, 3]
    assert np.mean(flags > 0.99) == pytest.approx(share, abs=0.01)
    assert np.mean(np.abs(flags) > 0.99) > 0.95
    assert np.isfinite(flags).all()


@pytest.mark.parametrize(
    ("assumed", "share"),
    [({}, 0.2), ({"means": {"ill": 0.03}}, 0.03), ({"spreads": {"ill": 0.6}}, 0.1)],
)
def test_a_flag_has_two_values_with_the_frequency_that_was_assumed(assumed, share):
    columns = {"age": {"kind": "number", "lower": 0, "upper": 100}, "ill": {"kind": "flag"}}
    schema = Schema.parse({"version": 2, "columns": columns})
    for longer in (False, True):
        table = SimulatedTable.of(schema, Lattice.of(schema), Assumptions(**assumed))
        ill = (table.with_longer_tails() if longer else table).encoded[:, 1]
        assert set(ill) == {-1.0, 1.0}
        assert min(np.mean(ill > 0), np.mean(ill < 0)) == pytest.approx(share, abs=0.005)


@pytest.mark.parametrize("size", [0.2, 0.4])
def test_columns_are_as_related_as_was_assumed_whatever_their_laws(size):
    assumptions = Assumptions(0.3, correlation=size, means=CROWDED)
    rows = simulated_rows(SCHEMA, assumptions)
    assert related(rows) == pytest.approx(size, rel=0.06)
    uncorrected = _rows(SCHEMA, _laws(SCHEMA, assumptions), size, 0.0, 20_000)
    assert related(uncorrected) < 0.9 * size


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_others_explain_as_much_of_a_column_as_was_assumed(share):
    rows = simulated_rows(SCHEMA, Assumptions(explained=share))
    assert explained(rows) == pytest.approx(share, abs=0.04)
    assert related(rows) == pytest.approx(DEFAULT_CORRELATION, rel=0.05)
    assert explained(simulated_rows(SCHEMA, Assumptions())) < share - 0.15


@pytest.mark.parametrize("p", [9, 20])
def test_a_spectrum_whose_end_is_small_leaves_the_size_of_correlations(p):
    made = typical_correlation(p, 0.3, np.random.default_rng(1), 0.8)
    assert np.sqrt(np.mean(made[np.tril_indices(p, -1)] ** 2)) == pytest.approx(0.3, abs=0.02)
    found = np.mean(1 - 1 / np.diag(np.linalg.inv(made)))
    assert found == pytest.approx(0.8, abs=0.01)
    plain = typical_correlation(p, 0.3, np.random.default_rng(1))
    assert np.mean(1 - 1 / np.diag(np.linalg.inv(plain))) < 0.65
    assert np.allclose(np.diag(made), 1)


def test_what_others_explain_is_spread_over_a_third_of_the_directions():
    made = typical_correlation(6, 0.3, np.random.default_rng(3), 0.5)
    values = np.linalg.eigvalsh(made)
    assert values[1] < 0.4 < 0.6 < values[2]
    assert values[0] > 0.08


def test_more_is_explained_than_was_assumed_where_correlations_alone_explain_it():
    made, plain = (
        typical_correlation(9, 0.5, np.random.default_rng(1), share) for share in (0.1, 0.0)
    )
    assert made == pytest.approx(plain, abs=1e-4)


def test_a_missing_number_is_the_midpoint():
    rows = simulated_rows(MIXED, Assumptions(0.2, means={"age": 70}))
    absent = rows[:, 1] == 1
    assert 0.03 < absent.mean() < 0.07
    assert not rows[absent, 0].any()
    assert rows[~absent, 0].mean() == pytest.approx(0.4, abs=0.01)


@pytest.mark.parametrize("value", [-0.1, 90.1, float("nan"), float("inf")])
def test_a_mean_outside_of_the_bounds_is_refused(value):
    Assumptions(means={"pay": 90.0}).check(MIXED)
    with pytest.raises(SchemaError, match="outside the bounds 0 to 90"):
        Assumptions(means={"pay": value}).check(MIXED)


@pytest.mark.parametrize("name", ["job", "other"])
def test_a_mean_of_what_is_no_number_is_refused(name):
    with pytest.raises(SchemaError, match=f"The mean of {name!r}"):
        Assumptions(means={name: 1.0}).check(MIXED)


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_explained_out_of_range_is_refused(share):
    with pytest.raises(SchemaError, match="explain"):
        Assumptions(explained=share)
