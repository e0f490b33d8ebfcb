"""The error covariance of a release, and standard errors of any function."""

from __future__ import annotations

import numpy as np
import pytest

import dpcov
from dpcov.errors import NotReleasedError, ReleaseError

ROWS = np.random.default_rng(0).normal(size=(3000, 3)) @ [[1, 0.5, 0], [0, 1, 0.5], [0, 0, 1]]
NAMES = (
    *("x0", "x1", "x2"),
    *("x0~~x0", "x0~~x1", "x0~~x2", "x1~~x1", "x1~~x2", "x2~~x2"),
)


@pytest.fixture(scope="module")
def made():
    return dpcov.release(ROWS, lower=-4, upper=4, epsilon=1.0, seed=1)


def test_the_names_are_the_means_and_the_lower_triangle_column_by_column(made):
    found = made.error_covariance()
    assert found.names == NAMES
    assert list(found.to_frame().columns) == list(NAMES)
    part = made.error_covariance(columns=["x2", "x0"])
    assert part.names == ("x2", "x0", "x2~~x2", "x2~~x0", "x0~~x0")
    whole = found.to_frame()
    at = ["x2", "x0", "x2~~x2", "x0~~x2", "x0~~x0"]
    assert np.allclose(part.values, whole.loc[at, at], rtol=1e-9)


def test_the_diagonal_agrees_with_intervals(made):
    for sampling in (False, True):
        found = np.sqrt(np.diag(made.error_covariance(sampling=sampling).values))
        for name, own in (("mean", found[:3]), ("covariance", found[3:])):
            ends = dpcov.intervals(made, name, sampling=sampling)
            stated = (ends.high - ends.low) / 3.92
            stated = stated if stated.ndim == 1 else stated[np.triu_indices(3)]
            assert np.abs(own / stated - 1).max() < 0.15  # both are simulated


def test_control_sampling_errors_add_to_the_privacy_errors(made):
    alone, both = (made.error_covariance(sampling=one).values for one in (False, True))
    more = both - alone
    assert np.linalg.eigvalsh(more)[0] > 0
    assert np.allclose(np.diag(more)[:3], np.diag(np.cov(ROWS.T)) / 3000, rtol=0.35)


def test_standard_errors_of_a_linear_function_follow_from_the_matrix(made):
    errors = made.error_covariance()
    weights = np.arange(1.0, 10.0)

    def function(means, covariance):
        return weights @ np.concatenate([means, covariance[np.triu_indices(3)]])

    found = dpcov.standard_errors(made, function)
    assert found.shape == ()
    assert np.isclose(found**2, weights @ errors.values @ weights, rtol=1e-6)
    roots = dpcov.standard_errors(made, lambda _, c: np.linalg.eigvalsh(c)[::-1])
    ends = dpcov.intervals(made, "eigenvalues")
    assert np.allclose(roots, (ends.high - ends.low) / 3.92, rtol=0.15)


def test_errors_of_levels_and_flags_follow_from_their_means():
    rng = np.random.default_rng(2)
    ward = {"kind": "categorical", "levels": ["a", "b"], "missing": "zeros"}
    schema = dpcov.Schema.parse(
        {"version": 3, "columns": {"ward": ward, "ill": {"kind": "flag", "missing": "none"}}}
    )
    rows = {"ward": rng.choice(["a", "b", ""], 4000), "ill": (rng.random(4000) < 0.2).astype(int)}
    import pyarrow as pa

    made = dpcov.release(pa.table(rows), schema=schema, epsilon=1.0, seed=3)
    errors = made.error_covariance(sampling=False).to_frame()
    for name, share in zip(made.columns, made.mean(), strict=True):
        slope = errors.loc[f"{name}~~{name}", name] / errors.loc[name, name]
        assert np.isclose(slope, 1 - 2 * share, atol=0.02)
    one, other = made.columns[:2]
    own = errors.loc[one, one] * made.mean()[1] + errors.loc[one, other] * made.mean()[0]
    assert np.isclose(errors.loc[f"{one}~~{other}", one], -own, rtol=0.05)


def test_what_is_not_released_is_refused(made):
    with pytest.raises(ReleaseError, match="no column 'y'"):
        made.error_covariance(columns=["y"])
    with pytest.raises(ReleaseError, match="each column once"):
        made.error_covariance(columns=["x0", "x0"])
    wide = dpcov.release(np.zeros((50, 90)), lower=-1, upper=1, epsilon=1.0, seed=1)
    with pytest.raises(ReleaseError, match="Name fewer columns"):
        wide.error_covariance()
    without = dpcov.Schema.from_bounds(-1, 1, ["x", "y"], intercept=0.0)
    blind = dpcov.release(ROWS[:, :2], schema=without, epsilon=1.0, seed=1)
    with pytest.raises(NotReleasedError):
        dpcov.standard_errors(blind, lambda means, _: means)
