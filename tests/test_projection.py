"""Projections: the nearest spectrum and the nearest matrix, by their variational inequality."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dpcov.denoise.projection import onto_simplex, project


def is_nearest(values, projected, total):
    """Check the projection's variational inequality on the corners of {x >= 0, sum x = total}."""
    size = np.abs(values).max() + total
    residual = values - projected
    return (
        projected.min() >= 0
        and abs(projected.sum() - total) <= 1e-12 * len(values) * size
        and total * residual.max() - residual @ projected <= 1e-11 * size**2
    )


vectors = arrays(float, st.integers(1, 30), elements=st.floats(-1e6, 1e6))


@given(vectors, st.floats(1e-5, 10))
def test_projection_onto_the_simplex_is_the_nearest_point(values, share):
    total = share * (1 + np.abs(values).max())
    assert is_nearest(values, onto_simplex(values, total), total)


def test_nearest_point_check_rejects_clipping_and_scaling():
    values = np.array([3.0, 1.0, 0.5, -2.0])
    scaled = np.maximum(values, 0) * (2 / 4.5)
    assert is_nearest(values, onto_simplex(values, 2.0), 2.0)
    assert not is_nearest(values, scaled, 2.0)


@pytest.mark.parametrize("total", [0.0, -1.0, -1e300])
def test_a_trace_of_nothing_gives_the_zero_matrix(total):
    assert not onto_simplex(np.array([1.0, -2.0]), total).any()
    assert not project(np.diag([1.0, 2.0]), total).any()


def symmetric(d, seed):
    matrix = np.random.default_rng(seed).standard_normal((d, d))
    return matrix + matrix.T


@pytest.mark.parametrize("d", [1, 2, 7, 30])
@pytest.mark.parametrize("trace", [None, 0.1, 5.0, 1e4])
def test_projected_matrix_is_psd_of_that_trace_and_nearest(d, trace):
    matrix = symmetric(d, seed=d)
    found = project(matrix, trace)
    np.testing.assert_array_equal(found, found.T)
    assert np.linalg.eigvalsh(found)[0] >= -1e-12 * (1 + np.abs(found).max())
    residual = matrix - found
    if trace is None:
        assert np.linalg.eigvalsh(residual)[-1] <= 1e-12 * d
        assert abs(np.sum(residual * found)) <= 1e-10 * d
    else:
        assert np.trace(found) == pytest.approx(trace)
        best = trace * np.linalg.eigvalsh(residual)[-1]
        assert best - np.sum(residual * found) <= 1e-10 * (1 + trace) ** 2


def test_a_largest_trace_binds_only_what_exceeds_it():
    rng = np.random.default_rng(3)
    matrix = rng.normal(size=(4, 4))
    matrix += matrix.T
    free = project(matrix, None)
    trace = np.trace(free)
    np.testing.assert_array_equal(project(matrix, None, 2 * trace), free)
    np.testing.assert_allclose(project(matrix, None, trace / 2), project(matrix, trace / 2))
    assert np.trace(project(matrix, None, trace / 2)) == pytest.approx(trace / 2)
