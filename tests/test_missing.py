"""Missing numbers that are left out: available-case moments from one matrix."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpcov
from dpcov.analysis.correlation import correlations
from dpcov.analysis.covariance import covariances
from dpcov.analysis.noise_warnings import noise_warnings
from dpcov.analysis.spectrum import noisy_spectrum
from dpcov.analysis.strongest import strongest_pairs
from dpcov.analysis.summary import summary
from dpcov.api.plans.rows_like import rows_like
from dpcov.api.plans.simulated import Assumptions, SimulatedTable
from dpcov.cli.drafts import draft
from dpcov.core.samplers.scalars import ScalarGaussian
from dpcov.denoise.structure import Structure
from dpcov.errors import SchemaError
from dpcov.estimate import Estimate
from dpcov.estimate.missing import complete_moments, proper
from dpcov.mechanisms.standardized import Spread, look
from dpcov.rows.encoder import Encoder
from dpcov.rows.moment import Lattice
from dpcov.rows.schema import FileOptions, Schema
from dpcov.rows.sources import open_rows

ROWS = 4000
LOW, HIGH = np.array([0.0, 0.0, -10.0]), np.array([20.0, 60.0, 10.0])
NAMES = ("x", "y", "z")
EXACT = {"epsilon": 1e9, "mechanism": "matrix-laplace", "denoise": "none"}


def schema(missing="pairwise", names=NAMES, **fields):
    columns = {
        name: {"kind": "numeric", "lower": low, "upper": high, "missing": missing}
        for name, low, high in zip(NAMES, LOW, HIGH, strict=True)
        if name in names
    }
    return Schema.parse({"columns": columns, **fields})


def complete(rows=ROWS, related=0.61, seed=1):
    """Return columns with means of 6.03, 20 and 1; the first two have this correlation."""
    draws = np.random.default_rng(seed).standard_normal((rows, 3))
    root = np.linalg.cholesky([[1, related, 0], [related, 1, 0], [0, 0, 1]])
    return pd.DataFrame(draws @ root.T * [1.2, 5, 2] + [6.03, 20, 1], columns=NAMES)


def gappy(share=0.3, seed=2, table=None):
    table = complete() if table is None else table
    return table.mask(np.random.default_rng(seed).random(table.shape) < share)


def released(table, made_by=None, **request):
    made_by = schema() if made_by is None else made_by
    return dpcov.release(table, schema=made_by, seed=1, **(EXACT | request))


TABLE = gappy()
NOISY = released(TABLE, mechanism="standardized", epsilon=4.0, denoise="shrink")


def available(table, weights=None):
    """Return available-case means, covariances and numbers of rows, by their definition."""
    weights = np.ones(len(table)) if weights is None else weights
    values, present = table.fillna(0.0).to_numpy(), table.notna().to_numpy() * weights[:, None]
    means = (values * present).sum(axis=0) / present.sum(axis=0)
    covariances, rows = np.empty((3, 3)), np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            both = present[:, i] * (present[:, j] > 0)
            rows[i, j] = both.sum()
            left, right = (np.average(values[:, k], weights=both) for k in (i, j))
            products = (values[:, i] - left) * (values[:, j] - right)
            covariances[i, j] = np.average(products, weights=both)
    return means, covariances, rows


def test_means_and_covariances_are_those_of_the_rows_that_are_there():
    made, (means, covariances, rows) = released(TABLE), available(TABLE)
    assert made.columns == NAMES
    np.testing.assert_allclose(made.mean(), means, rtol=1e-4)
    np.testing.assert_allclose(made.covariance(), covariances, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(Estimate.of(made).rows, rows, atol=0.1)


@pytest.mark.parametrize("mechanism", ["auto", "standardized", "matrix-laplace", "gaussian"])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_a_correlation_and_a_mean_stay_what_they_are(mechanism, share):
    budget = {"epsilon": None, "rho": 20.0} if mechanism == "gaussian" else {"epsilon": 10.0}
    table = gappy(share, table=complete(20_000))
    made = released(table, mechanism=mechanism, denoise="shrink", **budget)
    assert made.correlation()[0, 1] == pytest.approx(0.61, abs=0.05)
    assert made.mean()[0] == pytest.approx(6.03, abs=0.1)


@pytest.mark.parametrize("missing", ["midpoint", "level"])
def test_control_midpoints_move_both(missing):
    made = released(TABLE, schema(missing), epsilon=1e9)
    at = [made.columns.index(name) for name in ("x", "y")]
    assert abs(made.correlation()[at[0], at[1]] - 0.61) > 0.2
    assert made.mean()[at[0]] > 7


def test_where_nothing_is_missing_figures_are_the_complete_ones():
    table = complete()
    pairwise, plain = released(table), released(table, schema("midpoint"))
    np.testing.assert_allclose(pairwise.mean(), plain.mean(), rtol=1e-6)
    np.testing.assert_allclose(pairwise.covariance(), plain.covariance(), rtol=1e-4, atol=1e-4)
    assert max(Estimate.of(pairwise).missing_shares.values()) < 1e-4
    assert Estimate.of(plain).missing_shares == {}


def test_one_column_with_gaps_leaves_the_others_as_they_are():
    columns = schema("midpoint").model_dump()["columns"]
    columns["x"]["missing"] = "pairwise"
    table = complete()
    table.loc[::3, "x"] = np.nan
    made = released(table, Schema.parse({"columns": columns}))
    plain = released(complete(), schema("midpoint"))
    np.testing.assert_allclose(made.mean()[1:], plain.mean()[1:], rtol=1e-6)
    there = table.dropna()
    assert made.covariance()[0, 1] == pytest.approx(
        np.cov(there.x, there.y, ddof=0)[0, 1], rel=1e-3
    )
    assert list(Estimate.of(made).missing_shares) == ["x"]


def test_a_column_without_a_single_cell_is_below_the_noise_alone():
    table = complete(20_000)
    table["x"] = np.nan
    for seed in range(3):
        made = dpcov.release(table, schema=schema(), seed=seed, epsilon=2.0)
        assert made.mean()[1] == pytest.approx(20, abs=0.5)
        assert Estimate.of(made).missing_shares["x"] > 0.9
        assert any("means of x" in sentence for sentence in noise_warnings(made))
        assert np.isfinite(made.covariance()).all()
        assert -10 <= made.mean()[2] <= 10


def test_persons_and_weights_change_nothing_of_it():
    weights = np.random.default_rng(3).uniform(0.1, 4, ROWS)
    table = TABLE.assign(w=weights, person=np.arange(ROWS) // 2)
    made = released(
        table,
        schema(
            weight={"column": "w", "maximum": 4},
            unit={"column": "person", "type": "integer", "max_rows": 2},
        ),
    )
    means, covariances, rows = available(TABLE, weights)
    np.testing.assert_allclose(made.mean(), means, rtol=1e-4)
    np.testing.assert_allclose(made.covariance(), covariances, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(Estimate.of(made).rows, rows / 4, atol=0.1)


cell = st.one_of(st.none(), st.floats(), st.sampled_from([0.0, 20.0, -1e300, 1e-300]))


@given(st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=4))
def test_no_row_is_longer_than_one_without_gaps(rows):
    table = pa.table(
        {
            name: pa.array(c, pa.float64())
            for name, c in zip(NAMES, zip(*rows, strict=True), strict=True)
        }
    )
    declared = schema()
    lattice = Lattice.of(declared)
    assert lattice.radius == Lattice.of(schema("midpoint")).radius
    (batch,) = table.to_batches()
    (block,) = Encoder(declared, lattice).blocks(batch)
    assert (np.sum(block**2, axis=0) <= lattice.bound).all()
    for at, mark in declared.missing_columns.items():
        one = 2**20  # steps of a half-range
        assert ((block[at] == 0) | (block[mark] == 0)).all()
        missing = table.column(declared.features[at].name).to_pandas().isna()
        assert (block[mark] == np.where(missing, one, 0)).all()


def test_a_pilot_uses_means_and_spreads_of_the_present_cells():
    table, declared = gappy(share=0.5), schema()
    rows = open_rows(table, declared)
    found = look(
        rows.second_moments()[0],
        ScalarGaussian(Fraction(1)),
        np.zeros(13, int),
        rows.missing_columns,
    )
    means, covariances, _ = available(table)
    half = (HIGH - LOW) / 2
    np.testing.assert_allclose(found.center[::2], (means - LOW) / half - 1, atol=1e-4)
    np.testing.assert_allclose(found.variances[::2], np.diag(covariances) / half**2, rtol=1e-3)
    np.testing.assert_allclose(found.center[1::2], 0.5, atol=0.05)
    assert found.count == pytest.approx(ROWS, rel=1e-3)


def test_a_gap_is_mapped_to_no_deviation_and_one_deviation_of_its_mark():
    declared = schema()
    center = np.array([-0.4, 0.3, -0.3, 0.3, 0.1, 0.3])
    variances = np.array([0.01, 0.2, 0.02, 0.2, 0.04, 0.2])
    found = Spread(center, variances, 1e4, declared.missing_columns).images(0.5, declared)
    matrix = found.map.matrix()
    missing, typical = np.array([0.0, 1, 0, 1, 0, 1]), center.copy()
    typical[1::2] = 0
    gap = matrix @ (missing - found.map.center)
    there = matrix @ (typical - found.map.center)
    np.testing.assert_allclose(gap[::2], 0, atol=1e-6)
    np.testing.assert_allclose(there[::2], 0, atol=1e-6)
    deviations = np.diag(matrix)[::2] * np.sqrt(variances[::2])
    np.testing.assert_allclose((gap - there)[1::2], deviations, rtol=1e-6)
    plain = Spread(center, variances, 1e4).images(0.5, declared).map.matrix()
    far = abs(plain @ (missing - center))[0]
    assert far == pytest.approx(4 * plain[0, 0] * 0.1)  # control: as far as the mean is


def test_what_the_schema_implies_holds_of_mapped_rows_too():
    made = released(gappy(table=complete(20_000)), mechanism="standardized", epsilon=1e5)
    assert np.any(made.linear_map != np.diag(np.diag(made.linear_map)))
    structure = Structure.of(made)
    assert structure is not None
    matrix = made.noisy_mapped()
    assert np.linalg.norm(structure.entries(matrix) - matrix) < 1e-3 * np.linalg.norm(matrix)


def test_marks_of_gaps_are_no_variables_anywhere():
    assert NOISY.correlation().shape == NOISY.covariance().shape == (3, 3)
    assert list(NOISY.to_frame().columns) == list(NAMES)
    assert len(NOISY.to_frame("second_moment")) == 7
    found = [
        dpcov.pca(NOISY),
        dpcov.ols(NOISY, "y"),
        dpcov.ridge(NOISY, "y"),
        dpcov.precision(NOISY, draws=2),
        correlations(NOISY),
        covariances(NOISY),
        noisy_spectrum(NOISY),
        strongest_pairs(NOISY),
        summary(NOISY),
    ]
    for result in found:
        for table in result.tables():
            assert "(missing)" not in str(table.rows)
    rows = dpcov.sample(NOISY, 4000, seed=1)
    assert rows.column_names == list(NAMES)
    assert not any(column.null_count for column in rows.columns)
    assert np.corrcoef(rows["x"], rows["y"])[0, 1] == pytest.approx(0.61, abs=0.1)


def test_what_is_assumed_is_said_and_how_many_rows_there_are():
    sentence = "missing completely at random"
    for result in (dpcov.ols(NOISY, "y"), dpcov.intervals(NOISY, "mean"), covariances(NOISY)):
        (said,) = [n for table in result.tables() for n in table.notes if sentence in n]
        assert "x 3" in said or "x 2" in said  # per cent
    (rows,) = [cells for name, cells in summary(NOISY).tables()[0].rows if name == "rows by column"]
    assert rows[0].count("% missing") == 3
    plain = released(complete(), schema("midpoint"), denoise="shrink", epsilon=2.0)
    for result in (dpcov.ols(plain, "y"), dpcov.intervals(plain, "mean"), summary(plain)):
        assert "missing" not in str([table.notes for table in result.tables()])


def test_least_squares_counts_the_rows_of_its_rarest_pair():
    table = complete()
    table.loc[: ROWS // 2, "x"] = np.nan
    made = released(table)
    both = int(table[["x", "y"]].notna().all(axis=1).sum())
    assert dpcov.ols(made, "y", ["x"]).count == pytest.approx(both, abs=1)
    assert dpcov.ols(made, "y", ["z"]).count == pytest.approx(ROWS, abs=1)
    assert Estimate.of(made).rows.min() == pytest.approx(both, abs=1)


def test_standard_errors_know_that_products_are_of_different_rows():
    slopes, stated = [], []
    for seed in range(16):
        table = gappy(0.3, seed, complete(2000, related=0.95, seed=100 + seed))
        found = dpcov.ols(released(table), "y", ["x"], generator=np.random.default_rng(seed))
        slopes.append(found.coefficients[1])
        stated.append(found.sampling_errors[1])
    spread, typical = np.std(slopes), np.mean(stated)
    classical = 5 * np.sqrt(1 - 0.95**2) / 1.2 / np.sqrt(0.49 * 2000)
    assert 0.7 < typical / spread < 1.6
    assert classical < 0.7 * spread  # control: the classical formula alone


def test_sampling_errors_keep_cells_that_are_missing_at_nothing():
    errors = Estimate.of(NOISY).row_model.errors(20, np.random.default_rng(1))
    assert errors.shape == (20, 7, 7)
    for at, mark in NOISY.schema.missing_columns.items():
        assert np.abs(errors[:, at, mark]).max() < 0.2 * np.abs(errors[:, at, at]).max()


def test_intervals_cover_the_available_case_figures():
    low_enough = high_enough = 0
    for seed in range(6):
        made = dpcov.release(TABLE, schema=schema(), seed=seed, epsilon=4.0)
        found = dpcov.intervals(made, "mean", sampling=False, generator=np.random.default_rng(seed))
        means = available(TABLE)[0]
        low_enough += int(np.sum(found.low <= means))
        high_enough += int(np.sum(found.high >= means))
    assert min(low_enough, high_enough) >= 14  # of 18


def test_covariances_of_different_rows_become_possible_ones():
    impossible = np.array([[1, 0.9, -0.9], [0.9, 1, 0.9], [-0.9, 0.9, 1]]) * 0.1
    found = proper(impossible)
    assert np.linalg.eigvalsh(impossible)[0] < -0.01
    assert np.linalg.eigvalsh(found)[0] > -1e-12
    np.testing.assert_allclose(np.diag(found), np.diag(impossible))
    possible = np.array([[0.2, 0.1], [0.1, 0.3]])
    np.testing.assert_allclose(proper(possible), possible, rtol=1e-12)
    assert np.diag(proper(np.diag([4.0, 0.0, -1.0]))).tolist() == [1, 0, 0]


def test_moments_without_gaps_are_passed_on_untouched():
    moment = np.eye(4)
    assert complete_moments(schema("level"), moment, 0.5) is moment


def test_pairs_that_never_meet_are_undefined_or_unrelated():
    table = complete()
    table.loc[: ROWS // 2, "x"] = np.nan
    table.loc[ROWS // 2 :, "y"] = np.nan
    made = released(table)
    assert np.isfinite(made.correlation()).all()
    assert abs(made.correlation()[0, 1]) < 0.05
    exact = made.second_moment() * 1.0
    marks = [1, 3]
    exact[marks[0], marks[1]] = exact[marks[1], marks[0]] = -1.0
    assert np.isnan(complete_moments(made.schema, exact, made.intercept())).any()


def test_gaps_need_an_intercept():
    with pytest.raises(SchemaError, match="needs an intercept"):
        schema(intercept=0)
    schema("level", intercept=0)


def test_a_file_of_it_is_read_back(tmp_path):
    path = tmp_path / "gaps.release.json"
    NOISY.save(path)
    again = dpcov.load(path)
    assert again.columns == NAMES
    np.testing.assert_array_equal(again.correlation(), NOISY.correlation())


def test_tables_like_it_can_be_simulated():
    lattice = Lattice.of(schema())
    table = SimulatedTable.of(schema(), lattice, Assumptions(like=NOISY))
    marked = table.encoded[:, 1] > 0
    assert marked.mean() == pytest.approx(0.3, abs=0.05)
    assert not table.encoded[marked, 0].any()
    assert table.mean.shape == (7, 7)
    assert rows_like(NOISY, schema("midpoint"), 500, np.random.default_rng(1)).shape == (500, 3)


def test_a_draft_names_it():
    assert '"pairwise" leaves the cell out' in draft({"x": "number"}, FileOptions())
