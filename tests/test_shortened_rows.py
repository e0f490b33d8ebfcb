"""`dpcov show` states how many rows the norm histogram shows beyond the clipping radius."""

import numpy as np
import pytest

import dpcov
from dpcov.analysis.summary import facts, rows_beyond_radius

ROWS = 20_000


def released(epsilon: float, outliers: int, **options) -> dpcov.Release:
    """Return a release of normal rows, of which some are 30 standard deviations away."""
    draws = np.random.default_rng(3)
    table = draws.normal(0, 0.02, (ROWS, 3))
    table[:outliers, 0] = 0.6
    return dpcov.release(table, lower=-1, upper=1, epsilon=epsilon, seed=1, **options)


def test_the_rows_beyond_the_radius_are_counted_with_their_noise():
    made = released(1.0, 100)
    rows, share, deviation = rows_beyond_radius(made)
    scaled = np.abs(np.random.default_rng(3).normal(0, 0.02, (ROWS, 3)))
    assert scaled.max() < 0.12  # all other rows are far within
    assert 100 - 3 * deviation <= rows <= ROWS * 0.05
    assert share == pytest.approx(rows / ROWS, rel=0.1)
    (words,) = [cells for name, cells in facts(made).rows if name == "clipped"]
    assert words[0].startswith(f"about {rows:.0f} rows (")
    assert f"beyond the clipping radius {made.lattice.radius:.3g}" in words[0]


def test_a_release_without_a_norm_histogram_states_nothing():
    made = released(1.0, 0, mechanism="matrix-laplace")
    assert rows_beyond_radius(made) is None
    assert "clipped" not in [name for name, _ in facts(made).rows]
