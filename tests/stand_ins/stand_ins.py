"""A plugin of pytest: scikit-learn's own tests meet dpcov's estimators under scikit-learn's names.

Bounds are the range of what is fitted and the budget is so large that no noise is left, so that
nothing here is private. What only concerns how scikit-learn computes is taken and left alone:
solvers, iterations, copies. Outcomes are written, one JSON object a line, to `STAND_INS_OUTCOMES`:
of each test its name, outcome, first line of the error, and whether it met a stand-in at all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.covariance
import sklearn.decomposition
import sklearn.linear_model

from dpcov.estimators import PrivateCovariance, PrivatePCA, PrivateRidge

STEP = 2.0**-20  # of a half-range: that of the lattice, finer than which no release is
MET: list[str] = []  # stand-ins that were fitted in the test that runs


def ranges(values: Any) -> tuple[list[float], list[float]]:
    """The least and the largest value of each column; about a constant, one to each side."""
    columns = np.asarray(values, np.float64)
    columns = columns[:, None] if columns.ndim == 1 else columns
    low, high = columns.min(axis=0), columns.max(axis=0)
    room = np.where(low < high, 0.0, 1.0)
    return (low - room).tolist(), (high + room).tolist()


def roomy(compare: Any) -> Any:
    """`assert_allclose` that sees no difference below `STEP`, in units of the largest entry."""

    def compared(
        actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 0.0, **how: Any
    ) -> None:
        room = STEP * float(np.max(np.abs(desired), initial=0.0))
        compare(actual, desired, rtol=max(rtol, STEP), atol=max(atol, room), **how)

    return compared


class Exact:
    """Takes bounds from the table, and spends whatever it is."""

    epsilon = float(os.environ.get("STAND_INS_EPSILON", "1e15"))
    denoise = "none"  # there is nothing to take away, and it takes long

    def _seed(self) -> None:
        MET.append(type(self).__name__)


class PCA(Exact, PrivatePCA):
    def __init__(
        self,
        n_components: Any = None,
        *,
        copy: bool = True,
        whiten: bool = False,
        svd_solver: str = "auto",
        tol: float = 0.0,
        iterated_power: Any = "auto",
        n_oversamples: int = 10,
        power_iteration_normalizer: str = "auto",
        random_state: Any = None,
    ) -> None:
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X: Any, y: Any = None) -> Any:
        self.bounds = ranges(X)
        return super().fit(X)


class Ridge(Exact, PrivateRidge):
    penalty = "raw"

    def __init__(
        self,
        alpha: Any = 1.0,
        *,
        fit_intercept: bool = True,
        copy_X: bool = True,
        max_iter: int | None = None,
        tol: float = 1e-4,
        solver: str = "auto",
        positive: bool = False,
        random_state: Any = None,
    ) -> None:
        vars(self).update({name: value for name, value in locals().items() if name != "self"})

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        self.bounds, self.target_bounds = ranges(X), ranges(y)
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.largest_weight = float(weights.max())
        self._total = float(weights.sum()) if weights.ndim else len(y) * float(weights)
        self.solver_ = self.solver
        return super().fit(X, y, sample_weight)

    def _alphas(self, targets: int) -> list[Any]:
        return [alpha / (2 * self._total) for alpha in super()._alphas(targets)]


class EmpiricalCovariance(Exact, PrivateCovariance):
    def __init__(self, *, store_precision: bool = True, assume_centered: bool = False) -> None:
        self.store_precision, self.assume_centered = store_precision, assume_centered

    def fit(self, X: Any, y: Any = None) -> Any:
        self.bounds = ranges(X)
        return super().fit(X)


sklearn.decomposition.PCA = PCA
sklearn.linear_model.Ridge = Ridge
sklearn.covariance.EmpiricalCovariance = EmpiricalCovariance


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for module in {item.module for item in items}:
        module.assert_allclose = roomy(module.assert_allclose)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    if report.when == "setup":
        MET.clear()
    if report.when == "call" or not report.passed:
        told = {
            "test": f"{item.module.__name__.rpartition('.')[2]}::{item.name}",
            "outcome": "xfailed" if hasattr(report, "wasxfail") else report.outcome,
            "met": bool(MET),
            "error": call.excinfo.exconly() if report.failed else "",
        }
        with Path(os.environ["STAND_INS_OUTCOMES"]).open("a") as file:
            file.write(json.dumps(told) + "\n")
    return report
