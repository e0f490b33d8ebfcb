"""What `make bench NAME=calibration` holds releases against, and what it says of them."""

import numpy as np
import pytest

import benchmark_tables
import calibration
import calibration_summary
import dpcov


@pytest.fixture(scope="module")
def heavy():
    """Return a release that clips long rows of a table with a level, and one with little noise."""
    rng = np.random.default_rng(0)
    numbers = np.clip(rng.standard_normal((4000, 2)) / rng.random((4000, 1)), -1000, 1000)
    table = benchmark_tables.numbers(numbers, (-1000, 1000))
    table.frame["level"] = np.where(rng.random(4000) < 0.3, "a", "b")
    table.columns["level"] = {"kind": "categorical", "levels": ["a", "b"]}
    return table


def released(table, **asked):
    return dpcov.release(
        table.frame, schema=dpcov.Schema.parse({"columns": table.columns}), seed=1, **asked
    )


def test_the_moment_is_that_of_the_rows_as_the_library_encodes_them(heavy):
    release = released(heavy, rho=1e12, mechanism="gaussian")
    whole = calibration.moment(release, calibration.encoded(heavy, release))
    assert np.abs(release.noisy() - whole).max() < 1e-3 * np.abs(whole).max()


def test_intervals_by_the_law_alone_are_for_the_shortened_rows_and_miss_the_others(heavy):
    release = released(heavy, rho=5.0)
    rows = calibration.encoded(heavy, release)
    assert release.clipped
    draws = np.random.default_rng(0)
    found = dpcov.intervals(
        release, "covariance", sampling=False, for_clipped_rows=True, generator=draws
    )
    short, whole = (
        np.diag(calibration.STATISTICS["covariance"].shaped(release, values))[:2]
        for moment in (calibration.shortened(release, rows), calibration.moment(release, rows))
        for values in calibration.STATISTICS["covariance"].values(release, moment[None])
    )
    low, high = np.diag(found.low)[:2], np.diag(found.high)[:2]
    slack = 0.5 * (high - low)  # the seeded draw is outside of its 95% interval
    assert np.all((low - slack <= short) & (short <= high + slack))
    assert np.all(whole > high + slack)  # control: the clip took more than that


ROW = {
    "table": "t", "kind": "pure", "budget": "epsilon 1", "relation": "add-remove",
    "statistic": "mean", "covered": 0.95, "guaranteed": 0.95, "noise halved": 0.7,
    "no lengths": None, "width": 1.0, "real/stated": 1.0, "OLS answers": None, "time": 1.0,
    "of all": 0.9, "marked": 0.1, "by noise": 0.95, "width, unmarked": 1.0,
    "real/stated, unmarked": 1.0,
}  # fmt: skip


def test_cells_that_cover_too_seldom_or_are_too_wide_are_named():
    rows = [ROW, ROW | {"covered": 0.89}, ROW | {"width": 2.1}, ROW | {"width": np.inf}]
    assert [(row["covered"], row["width"]) for row in calibration_summary.beyond(rows)] == [
        (0.89, 1.0), (0.95, 2.1), (0.95, np.inf),
    ]  # fmt: skip
    marked = ROW | {"marked": 1.0, "covered": None, "of all": 0.1}  # no figure without a mark
    assert len(calibration_summary.beyond([*rows, marked])) == 3
    (total,) = calibration_summary.summary([*rows, marked])
    assert (total["cells"], total["least"], total["at most 2"]) == (5, 0.89, 0.6)
    assert total["of all"] == pytest.approx((4 * 0.9 + 0.1) / 5)
    assert total["marked"] == pytest.approx((4 * 0.1 + 1) / 5)
    (total,) = calibration_summary.summary([ROW, ROW | {"covered": 0.84}])
    assert (total["at least 0.85"], total["or marked, at least 0.85"]) == (0.5, 1.0)
    (total,) = calibration_summary.summary([marked, ROW, ROW | {"covered": 0.8}])
    assert total["or marked, at least 0.85"] == pytest.approx(2 / 3)
    tail = {"by noise": 0.5, "real/stated": 0.3}
    (total,) = calibration_summary.summary([ROW, ROW | tail])
    assert (total["0.7 to 1.25"], total["where noise is most"]) == (0.5, 1.0)
    assert (total["below 0.4"], total["unmarked, below 0.4"], total["above 1.5"]) == (0.5, 0.0, 0.0)


def test_unmarked_figures_have_their_own_ratio_of_errors():
    # Two figures, one of them marked in both releases, with a stated error that is far too large.
    one = {
        "truth": np.ones(2), "error": np.array([1.0, 1.0]), "deviation": np.array([1.0, 100.0]),
        "by noise": np.ones(2), "width": np.array([4.0, 400.0]), "of all": np.array([True, True]),
        "marked": np.array([False, True]), "guaranteed": np.array([True, True]),
        "its error": np.ones(2), "its width": np.ones(2),
    }  # fmt: skip
    row = calibration.figures_of((one, one))
    assert row["real/stated, unmarked"] == 1.0
    assert row["real/stated"] == pytest.approx(2**0.5 / 10_001**0.5)
    assert row["width, unmarked"] == pytest.approx(4 / 3.92, rel=1e-3)
    every = calibration.figures_of((one | {"marked": np.array([True, True])},) * 2)
    assert (every["real/stated, unmarked"], every["width, unmarked"]) == (None, None)


def test_a_control_that_coverage_does_not_notice_is_named():
    rows = [ROW, ROW | {"no lengths": 0.9}]
    assert calibration_summary.unnoticed([ROW, ROW | {"no lengths": 0.8}]) == []
    assert [row["control"] for row in calibration_summary.unnoticed(rows)] == ["no lengths"]


@pytest.mark.parametrize("shape", [(500, 1), (60, 4)])
def test_small_tables_have_no_cells_without_figures(monkeypatch, shape):
    made_up = benchmark_tables.numbers(np.random.default_rng(0).normal(size=shape), (-5, 5))
    monkeypatch.setattr(calibration, "table_named", lambda _: made_up)
    rows = [row for at in (0, 4) for row in calibration.measured(("made up", at, "all", 2))]
    found = {row["statistic"] for row in rows}
    assert ({"correlation", "OLS"} <= found) == (shape[1] > 1)
    assert {"mean", "covariance"} <= found
    assert all(0 < row["by noise"] < 2 for row in rows if row["real/stated"] is not None)
    figures = [value for row in rows for value in row.values() if isinstance(value, float)]
    assert figures
    assert not np.isnan(figures).any()
