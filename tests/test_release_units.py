"""What a release says is in the units of the data."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import dpcov
from dpcov.core.privacy import Neighbors
from dpcov.errors import NotReleasedError
from dpcov.rows.schema import Schema
from tables_for_tests import correlated

HUGE = 1e7  # epsilon at which no noise is left to speak of
ROWS = 3000
COLUMNS = {
    "odd": {"kind": "numeric", "lower": -3.7, "upper": 1234.5},
    "tiny": {"kind": "numeric", "lower": 1e-6, "upper": 3e-6},
    "far": {"kind": "numeric", "lower": 1e6, "upper": 1e6 + 10},
    "gaps": {"kind": "numeric", "lower": 0, "upper": 4, "missing": "level"},
    "group": {"kind": "categorical", "levels": ["a", "b"], "other": True, "missing": "level"},
}


@pytest.fixture(scope="module")
def mixed() -> tuple[pa.Table, NDArray[np.float64]]:
    """Return a table, and its features in the units of the data."""
    generator = np.random.default_rng(3)
    latent = correlated(ROWS, 4, seed=3)
    odd = 615 + 600 * latent[:, 0]
    tiny = 2e-6 + 1e-6 * latent[:, 1]
    far = 1e6 + 5 + 5 * latent[:, 2]
    gaps = 2 + 2 * latent[:, 3]
    gaps[generator.random(ROWS) < 0.2] = np.nan
    group = generator.choice(["a", "b", "z", None], ROWS, p=[0.4, 0.3, 0.2, 0.1])
    table = pa.table({"odd": odd, "tiny": tiny, "far": far, "gaps": gaps, "group": group})
    missing = np.isnan(gaps)
    indicators = [group == "a", group == "b", group == "z", group == None]  # noqa: E711
    features = [odd, tiny, far, np.where(missing, 2, gaps), missing, *indicators]
    return table, np.column_stack([np.asarray(feature, float) for feature in features])


@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("intercept", [0.05, 0.3, 1.0])
def test_moments_are_in_the_units_of_the_data(mixed, neighbors, intercept) -> None:
    table, features = mixed
    schema = Schema.parse({"columns": COLUMNS, "intercept": intercept})
    made = dpcov.release(table, schema=schema, epsilon=HUGE, neighbors=neighbors)
    assert made.columns == (
        "odd", "tiny", "far", "gaps", "gaps=(missing)",
        "group=a", "group=b", "group=(other)", "group=(missing)",
    )  # fmt: skip
    scales = features.std(axis=0)
    covariance = np.cov(features, rowvar=False, ddof=0)
    assert np.all(np.abs(made.mean() - features.mean(axis=0)) < 1e-3 * scales)
    assert np.all(np.abs(made.covariance() - covariance) < 1e-3 * np.outer(scales, scales))
    correlation = np.corrcoef(features, rowvar=False)
    assert made.correlation() == pytest.approx(correlation, abs=1e-3)
    assert made.count() == pytest.approx(ROWS, rel=1e-3)


def test_the_second_moment_is_that_of_the_encoded_rows() -> None:
    data = correlated(500, 3)
    asked = {"lower": -2, "upper": 2, "radius": 1.5, "intercept": 0.25, "epsilon": HUGE}
    made = dpcov.release(data, **asked)
    plain = dpcov.release(data, mechanism="matrix-laplace", **asked)
    assert plain.intercept() == 0.375
    assert made.intercept() != 0.375  # the intercept of the transformed rows
    for one in (made, plain):
        rows = np.column_stack([data / 2, np.full(500, one.intercept())])
        assert one.second_moment() == pytest.approx(rows.T @ rows, abs=1e-3)
        assert one.noisy() == pytest.approx(rows.T @ rows, abs=1e-3)


def test_rows_longer_than_the_radius_are_shortened_to_it() -> None:
    data = np.array([[3.0, 4.0], [0.3, 0.4]])
    made = dpcov.release(data, lower=-5, upper=5, radius=0.5, intercept=0.0, epsilon=HUGE)
    rows = np.array([[0.3, 0.4], [0.06, 0.08]])
    assert made.second_moment() == pytest.approx(rows.T @ rows, abs=1e-3)


def test_a_category_that_never_occurs_has_a_share_of_zero() -> None:
    ward = {"kind": "categorical", "levels": ["a", "b", "c"]}
    table = pa.table({"ward": ["b"] * 30 + ["c"] * 10})
    made = dpcov.release(table, schema=Schema.parse({"columns": {"ward": ward}}), epsilon=HUGE)
    assert made.mean() == pytest.approx([0, 0.75, 0.25], abs=1e-3)


@pytest.mark.parametrize("budget", [{"epsilon": 0.01}, {"rho": 0.001}, {"epsilon": HUGE}], ids=str)
def test_the_public_count_is_exact_under_replace_one(budget) -> None:
    made = dpcov.release(correlated(777, 3), lower=-1, upper=1, neighbors="replace-one", **budget)
    assert made.unit_count == made.row_count == made.count() == 777


def test_the_private_count_is_noisy_under_add_remove() -> None:
    data = correlated(777, 3)
    counts = {dpcov.release(data, lower=-1, upper=1, epsilon=0.5).count() for _ in range(5)}
    assert len(counts) == 5
    assert dpcov.release(data, lower=-1, upper=1, epsilon=0.5).unit_count is None


def test_persons_are_counted_where_they_are_the_unit() -> None:
    table = pa.table({"x": [0.0, 1.0, 0.5, 0.2, 0.9], "who": ["a", "a", "a", "b", "b"]})
    schema = Schema.parse({
        "columns": {"x": {"kind": "numeric", "lower": 0, "upper": 1}},
        "unit": {"column": "who", "type": "text", "max_rows": 2},
    })  # fmt: skip
    made = dpcov.release(table, schema=schema, epsilon=HUGE, neighbors="replace-one")
    assert (made.unit_count, made.row_count) == (2, None)
    assert made.count() == pytest.approx(4, abs=1e-2), "the third row of one person is dropped"


@pytest.mark.parametrize("seed", [962, 1422, 1489])
def test_the_second_moment_with_lost_sums_is_positive_semidefinite(seed) -> None:
    """The estimated clipping bias of the sums made one of 500 projected matrices indefinite."""
    table = correlated(50, 4, seed=seed % 5)
    made = dpcov.release(table, lower=-1, upper=1, epsilon=1.0, denoise="project", seed=seed)
    matrix = made.second_moment()
    assert np.linalg.eigvalsh(matrix).min() >= -1e-12 * max(1.0, matrix.max())


@pytest.mark.parametrize("denoise", ["project", "shrink"])
@pytest.mark.parametrize("neighbors", Neighbors)
@pytest.mark.parametrize("rows", [0, 1, 50, 3000])
def test_what_comes_out_is_positive_semidefinite(denoise, neighbors, rows) -> None:
    for repeat in range(5):
        made = dpcov.release(
            correlated(rows, 4, seed=repeat), lower=-1, upper=1, epsilon=1.0, denoise=denoise,
            neighbors=neighbors,
        )  # fmt: skip
        if made.published is None:
            assert (rows < 50, neighbors) == (True, Neighbors.REPLACE_ONE)
            with pytest.raises(NotReleasedError):
                made.covariance()
            continue
        for matrix in (made.second_moment(), made.covariance(), made.correlation()):
            assert np.array_equal(matrix, matrix.T)
            assert np.linalg.eigvalsh(matrix).min() >= -1e-12 * max(1.0, matrix.max())
        assert np.all(np.diag(made.covariance()) >= 0)
        assert np.all(np.abs(made.correlation()) <= 1)
        assert np.all(np.diag(made.correlation()) == 1)
        assert np.all(np.abs(made.mean()) <= 1)


def test_a_flat_column_correlates_with_nothing() -> None:
    data = correlated(4000, 3)
    data[:, 1] = 0.0
    made = dpcov.release(data, lower=-1, upper=1, epsilon=1.0, denoise="project")
    rank_one = np.outer(made.second_moment()[-1], made.second_moment()[-1])
    flat = made.with_denoised("project", rank_one / made.second_moment()[-1, -1])
    assert np.array_equal(flat.correlation(), np.eye(3))
    assert np.array_equal(flat.covariance(), np.zeros((3, 3)))
