"""A plugin of pytest: scikit-learn's own tests meet dpcov's estimators under scikit-learn's names.

Bounds are the range of what is fitted and the budget is so large that no noise is left, so that
nothing here is private. What only concerns how scikit-learn computes is taken and left alone:
solvers, iterations, copies. Of each test that meets an estimator `STAND_INS_OUTCOMES` gets a line
of JSON: its name, its outcome, and the error.
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

from dpcov.analysis import pca
from dpcov.estimators import PrivateCovariance, PrivatePCA, PrivateRidge

EPSILON = float(os.environ.get("STAND_INS_EPSILON", "1e15"))
OFF = 1 + float(os.environ.get("STAND_INS_OFF", "0"))  # by how much to be wrong, for controls
STEP = 2.0**-20  # of a half-range: the lattice step, which limits the resolution of releases
MET: list[str] = []  # the stand-ins of the test that runs


class Exact:
    """Takes bounds from the table, and spends whatever it is."""

    epsilon = EPSILON
    denoise = "none"  # there is nothing to take away, and it takes long

    def _seed(self) -> None:
        """Return None: scikit-learn's tests use `random_state` for solvers only."""

    def _ranges(self, values: Any) -> tuple[list[float], list[float]]:
        """Return the range of each column; a constant column gets the range of one on each side."""
        MET.append(type(self).__name__)
        dense = values.toarray() if hasattr(values, "toarray") else values
        columns = np.asarray(dense, np.float64)
        columns = columns[:, None] if columns.ndim == 1 else columns
        low, high = columns.min(axis=0), columns.max(axis=0)
        space = np.where(low < high, 0.0, 1.0)
        return (low - space).tolist(), (high + space).tolist()


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
        self.bounds = self._ranges(X)
        super().fit(X)
        self.explained_variance_ *= OFF
        self.components_ *= OFF
        return self


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
        self.bounds, self.target_bounds = self._ranges(X), self._ranges(y)
        if self.positive:
            raise NotImplementedError("no positive coefficients")
        weights = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight)
        self.largest_weight = float(weights.max())
        self._total = float(np.broadcast_to(weights, len(y)).sum()) if weights.ndim < 2 else 1.0
        self.solver_ = self.solver
        super().fit(X, y, sample_weight)
        self.coef_ *= OFF
        return self

    def _alphas(self, targets: int) -> list[Any]:
        """Convert the penalties to dpcov's units: dpcov uses the mean of squares, not their sum."""
        return [alpha / (2 * self._total) for alpha in super()._alphas(targets)]


class EmpiricalCovariance(Exact, PrivateCovariance):
    def __init__(self, *, store_precision: bool = True, assume_centered: bool = False) -> None:
        self.store_precision, self.assume_centered = store_precision, assume_centered

    def fit(self, X: Any, y: Any = None) -> Any:
        self.bounds = self._ranges(X)
        return super().fit(X)


def roomy(compare: Any) -> Any:
    """Return `assert_allclose` without differences below `STEP`, in units of the largest entry."""

    def compared(actual: Any, desired: Any, rtol: Any = 1e-7, atol: Any = 0, **how: Any) -> None:
        space = STEP * float(np.max(np.abs(desired), initial=0.0))
        compare(actual, desired, rtol=max(rtol, STEP), atol=max(atol, space), **how)

    return compared


def pytest_configure() -> None:
    sklearn.decomposition.PCA = PCA
    sklearn.linear_model.Ridge = Ridge
    sklearn.covariance.EmpiricalCovariance = EmpiricalCovariance
    pca.significant_components = lambda *_: None  # simulations that no test asks for


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for module in {item.module for item in items}:
        module.assert_allclose = roomy(module.assert_allclose)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: Any, call: Any) -> Any:
    report = yield
    if report.when == "setup":
        MET.clear()
    if report.when == "call" and MET:
        reported = {
            "test": f"{item.module.__name__.rpartition('.')[2]}::{item.name}",
            "outcome": "xfailed" if hasattr(report, "wasxfail") else report.outcome,
            "error": call.excinfo.exconly() if report.failed else "",
        }
        with Path(os.environ["STAND_INS_OUTCOMES"]).open("a") as file:
            file.write(json.dumps(reported) + "\n")
    return report
