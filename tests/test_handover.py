"""Matrices leave for other libraries with their names."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import dpcov
from analysis_tables import released, without_intercept
from dpcov.analysis.precision import precision
from dpcov.core.show.frames import matrix_table
from dpcov.errors import ReleaseError
from dpcov.report.documents import document

MATRICES = ["covariance", "correlation", "second_moment"]


@pytest.mark.parametrize("which", MATRICES)
def test_a_pandas_frame_has_the_names_on_both_sides(which: Any) -> None:
    made = released()
    frame = made.to_frame(which)
    names = [*made.columns, *(["(intercept)"] if which == "second_moment" else [])]
    assert list(frame.index) == list(frame.columns) == names
    assert np.array_equal(frame.to_numpy(), getattr(made, which)())


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
@pytest.mark.parametrize("which", MATRICES)
def test_a_frame_without_an_index_has_the_names_as_a_column(which: Any, library: Any) -> None:
    pytest.importorskip(library)
    made = released()
    frame = made.to_frame(which, library)
    names = frame["column"].to_pylist() if library == "pyarrow" else frame["column"].to_list()
    head = frame.column_names if library == "pyarrow" else frame.columns
    assert head == ["column", *names]
    assert names[: len(made.columns)] == list(made.columns)
    matrix = np.column_stack([np.asarray(frame[name]) for name in names])
    assert np.array_equal(matrix, getattr(made, which)())


def test_a_column_named_column_keeps_its_name() -> None:
    assert matrix_table(["column", "b"], np.eye(2)).column_names == ["column_", "column", "b"]


def test_other_results_go_to_frames_too() -> None:
    made = released()
    found = precision(made, 0.1)
    assert np.array_equal(found.to_frame().loc[:, list(found.columns)], found.precision)
    assert found.to_frame("polars").columns == ["column", *found.columns]
    nearest = dpcov.nearest_correlation(made)
    assert np.array_equal(nearest.to_frame().to_numpy(), nearest.matrix)


def test_what_is_not_there_is_said() -> None:
    made = released()
    with pytest.raises(ReleaseError, match=r"matrix 'cov' does not exist\. Choose: covariance"):
        made.to_frame("cov")  # type: ignore[arg-type]
    with pytest.raises(ReleaseError, match=r"no library 'dask'\. Choose: pandas"):
        made.to_frame("covariance", "dask")  # type: ignore[arg-type]
    with pytest.raises(ReleaseError, match="without an intercept"):
        without_intercept().to_frame()
    assert without_intercept().to_frame("second_moment").shape == (9, 9)


def test_a_covariance_serves_as_the_metric_of_scikit_learn() -> None:
    neighbors = pytest.importorskip("sklearn.neighbors")
    made = released()
    inverse = np.linalg.pinv(made.covariance())
    rows = np.random.default_rng(0).standard_normal((20, len(made.columns)))
    search = neighbors.NearestNeighbors(
        n_neighbors=3, metric="mahalanobis", metric_params={"VI": inverse}
    )
    distances, nearest = search.fit(rows).kneighbors(rows[:5])
    steps = rows[:5, None] - rows[nearest]
    squares = np.einsum("mki,ij,mkj->mk", steps, inverse, steps)
    assert np.allclose(distances**2, squares, atol=1e-9)


def test_a_precision_goes_to_networkx_with_its_names() -> None:
    pytest.importorskip("networkx")
    found = precision(released(), 0.1)
    assert set(found.to_networkx().nodes) == set(found.columns)


def test_a_library_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def absent(name: str, *rest: Any) -> Any:
        if name == "polars":
            raise ImportError
        return real(name, *rest)

    made = released()
    monkeypatch.setattr("dpcov.core.installing.import_module", absent)
    with pytest.raises(ReleaseError, match='pip install "polars>='):
        made.to_frame("covariance", "polars")


def test_numbers_that_json_lacks_become_null() -> None:
    facts = {"a": np.array([1.0, np.nan]), "b": [(np.inf, 2)], "c": {"d": np.float64(-np.inf)}}
    found = document(released(), **facts)
    assert (found["a"], found["b"], found["c"]) == ([1.0, None], [[None, 2]], {"d": None})
